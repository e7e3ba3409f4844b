"""Write the generated pages of this folder: ``python docs/make.py``.

The tests compare the pages with what this would write, so they never fall behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from reid_vpr_eval.metrics import METRICS
from reid_vpr_eval.metrics.grammar import Metric

HERE = Path(__file__).parent

_MONOTONE = {
    "down": "never rises",
    "up": "never falls",
    "none": "may go either way",
}
_NEEDS = {
    "counts": "the counts of any ranking",
    "first item": "the first answer of each query, always kept",
    "pairs": "`pairs_kept=`, asked for before ranking",
}
_CUTOFF = {"no": "none", "may": "`@k`, optional", "must": "`@k`", "level": "`=x`, 0 < x <= 1"}


def metrics_page() -> str:
    """Return docs/metrics.md: every metric with all that it declares."""
    lines = [
        "# Metrics",
        "",
        "Generated from the registry by `docs/make.py`. Notation: m positives at the ranks",
        "p_1 < ... < p_m after ignored items were removed; h(k) of them among the first k;",
        "N ranked items.",
        "`k` is a number or a percentage of the ranked gallery (`R@1%`: max(round(N / 100), 1)).",
        "A k beyond the gallery reads the whole list.",
        "",
        "Queries without a positive: the policy `no_positive` (skip, zero, one, error); for ranks",
        "zero is one past the end and one is 1. Positives that a ranked list does not hold:",
        "`unretrieved` (error, zero). Queries with an empty list: `missing_query`.",
        "",
        "| name | in one line |",
        "|---|---|",
        *(f"| [{name}](#{_anchor(name)}) | {_plain(METRICS[name].doc)} |" for name in METRICS),
        "",
    ]
    for name, entry in METRICS.items():
        lines += _section(name, entry)
    return "\n".join(lines)


def _section(name: str, entry: Metric) -> list[str]:
    options = [
        f"`{key}` = {', '.join(words) if isinstance(words, tuple) else 'grade:gain/...'}"
        for key, words in entry.options.items()
    ]
    better = "larger" if entry.direction == "up" else "smaller"
    chance = {"exact": "exact, by its expectation for a random order", "none": "not given"}
    rows: Mapping[str, str] = {
        "spellings": ", ".join(f"`{word}`" for word in (name, *entry.spellings)),
        "cut-off": _CUTOFF[entry.cutoff],
        "options": "; ".join(options) or "none",
        "formula": _plain(entry.formula),
        "better": f"{better}{' (a rank)' if entry.is_rank else ''}",
        "with an added negative": _MONOTONE[entry.monotone]
        + ("; with divisor=hits may go either way" if "hits" in str(options) else ""),
        "equal scores": entry.ties,
        "chance": chance.get(entry.chance, entry.chance),
        "becomes one number by": entry.aggregate,
        "needs": _NEEDS[entry.needs],
        "source": _plain(entry.reference),
    }
    body = (entry.function.__doc__ or "").strip().split("\n")
    text = " ".join(line.strip() for line in body[1:] if line.strip())
    lines = [f"## {name}", "", _plain(entry.doc), ""]
    if text:
        lines += [text.replace("``", "`"), ""]
    return [*lines, "| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows.items()), ""]


def _plain(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def _anchor(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum() or c == "-")


#: Every generated page and what makes it.
PAGES: Mapping[str, Callable[[], str]] = {"metrics.md": metrics_page}


def main() -> None:
    """Write all pages."""
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
