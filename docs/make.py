"""Write the generated pages of this folder: ``python docs/make.py``.

The tests compare the pages with what this would write, so they never fall behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import BaseModel

import reid_vpr_eval as rve
from reid_vpr_eval.columns import ALIASES, KEY_COLUMNS, NUMBER_COLUMNS
from reid_vpr_eval.metrics import METRICS
from reid_vpr_eval.metrics.grammar import Metric
from reid_vpr_eval.protocol import schema
from reid_vpr_eval.studies.conventions import conventions, load_profile
from reid_vpr_eval.summary import spelled

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
_FREE = {"gains": "grade:gain/grade:gain, such as 1:3/2:9", "by": "a gallery column"}
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
        f"`{key}` = {', '.join(words) if isinstance(words, tuple) else _FREE[key]}"
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


#: The tools that the page of parity names, and the profile that holds the rule of each.
TOOLS = {
    "torchreid": "torchreid", "fast-reid": "fast-reid", "TransReID": "torchreid",
    "layumi's baseline": "layumi", "VPR-methods-evaluation": "place-recognition",
    "pytorch-metric-learning": "pytorch-metric-learning", "revisitop": "revisitop",
    "trec_eval": "trec_eval",
}  # fmt: skip


def parity_ranking(tie_order: str = "position") -> rve.Ranking:
    """Rank the arrays of the page: ties, junk, same-camera items and queries without a positive."""
    rng = np.random.default_rng(7)
    query = rve.Samples.from_columns(label=np.arange(40) % 14, camera=rng.integers(0, 3, 40))
    gallery = rve.Samples.from_columns(
        label=np.r_[np.arange(150) % 12, np.full(10, -1)], camera=rng.integers(0, 3, 160)
    )
    same = query.values("label")[:, None] == gallery.values("label")
    scores = np.round(rng.normal(size=same.shape) + 1.8 * same, 1)
    relevance = rve.relevance.same_label(
        query, gallery, different=["camera"], ignore=[{"gallery": {"label": [-1]}}]
    )
    order = "position" if tie_order == "position" else np.arange(160)[::-1]
    return rve.rank(rve.ScoreMatrix(scores, higher_is_better=True), relevance, tie_order=order)


def parity_page() -> str:
    """Return docs/parity.md: the same arrays through the rules of other tools."""
    by_docno = replace(parity_ranking("id_desc"), tie_order="id_desc")
    lines = [
        "# Parity",
        "",
        "Generated by `docs/make.py`: 40 queries (some without a positive) against 160 items",
        "(junk, items of the query's own camera, many equal scores), once ranked, read by the",
        "rules of other tools. *Here* is the same metric by this package's own defaults: every",
        "positive in the divisor, the rectangle, the mean over all orders of equal scores, queries",
        "without a positive left out. Where the numbers differ, the option that makes the",
        "difference is named, with the change in points. `rve conventions RUN` prints this for a",
        "run of yours.",
        "",
        "| tool | its number | by its rule | here | difference |",
        "|---|---|---|---|---|",
    ]
    plain: dict[str, float] = {}
    for tool, profile in TOOLS.items():
        ranking = by_docno if tool == "trec_eval" else parity_ranking()
        for row in conventions(ranking, [profile]).to_dict("records"):
            if row["value"] is None:
                continue
            base = row["metric"].split("(")[0]
            plain.setdefault(base, rve.compute(ranking, base)[base])
            unit = 1 if rve.metrics.parse(base).metric.is_rank else 100
            cells = [tool, row["called"], f"{unit * row['value']:.2f}",
                     f"{unit * plain[base]:.2f}", row["difference"] or "same"]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "What is not reproduced of each tool, because it cannot or should not be:", ""]
    lines += [f"- {tool}: {load_profile(profile).note}" for tool, profile in TOOLS.items()
              if load_profile(profile).note]  # fmt: skip
    return "\n".join([*lines, ""])


def protocols_page() -> str:
    """Return docs/protocols.md: the shipped protocols, by field."""
    lines = [
        "# Protocols",
        "",
        "Generated from the files in `protocols/` by `docs/make.py`. `rve protocols show NAME`",
        "prints one with every default and its two hashes. Counts that are checked before anything",
        "is scored stand in the last column (queries / gallery); they were counted on the real",
        "lists or read in the code that defines the benchmark. Other published counts are comments",
        "in the files.",
        "",
    ]
    by_task: dict[str, list[rve.Protocol]] = {}
    for name in rve.list_protocols():
        protocol = rve.load_protocol(name)
        by_task.setdefault(protocol.task, []).append(protocol)
    for task in sorted(by_task):
        lines += [f"## {task[0].upper()}{task[1:]}", ""]
        lines += ["| name | title | right is | reports | checked counts |", "|---|---|---|---|---|"]
        lines += [_protocol_row(protocol) for protocol in by_task[task]]
        lines += [""]
    return "\n".join(lines)


def _protocol_row(protocol: rve.Protocol) -> str:
    mark = " (withdrawn)" if protocol.status == "withdrawn" else ""
    counts = []
    for value in (protocol.expected.n_query, protocol.expected.n_gallery):
        listed = value if isinstance(value, list) else [value]
        counts.append(" or ".join("-" if one is None else f"{one:,}" for one in listed))
    reported = [spelled(name, protocol) for name in protocol.report.metrics]
    cells = [f"`{protocol.name}`", protocol.title + mark, protocol.relevance.kind,
             ", ".join(reported[:4]), " / ".join(counts)]  # fmt: skip
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def protocol_file_page() -> str:
    """Return docs/protocol-file.md: every key of a protocol file."""
    lines = [
        "# Protocol files",
        "",
        "Generated from the schema by `docs/make.py`. A protocol is a TOML file; unknown keys are",
        "errors. `rve protocols check FILE` checks one, `rve protocols show NAME` prints one with",
        "every default.",
        "",
    ]
    tables: list[tuple[str, type[BaseModel]]] = [
        ("At the top", rve.Protocol), ("[query] and [gallery]", schema.SideTable),
        ("[relevance], kind = \"label\"", schema.LabelRule),
        ("[relevance], kind = \"within\"", schema.WithinRule),
        ("[relevance], kind = \"pose\"", schema.PoseRule),
        ("[relevance], kind = \"frames\"", schema.FramesRule),
        ("[relevance], kind = \"listed\"", schema.ListedRule),
        ("[relevance], kind = \"nearest\"", schema.NearestRule),
        ("Entries of ignore and wide_ignore", schema.IgnoreEntry), ("[draw]", schema.DrawTable),
        ("[evaluation]", schema.EvaluationTable), ("[report]", schema.ReportTable),
        ("[count]", schema.CountTable), ("[expected]", schema.ExpectedTable),
    ]  # fmt: skip
    for heading, table in tables:
        lines += [f"## {heading}", "", "| key | default | meaning |", "|---|---|---|"]
        for key, field in table.model_fields.items():
            own_heading = heading == "At the top" and key in ("relevance", "draw")
            if own_heading or isinstance(field.default, BaseModel):
                continue
            default = "needed" if field.is_required() else f"`{field.default!r}`"
            meaning = field.description or "what is right, see above"
            lines.append(f"| `{key}` | {default} | {_plain(meaning)} |")
        lines += [""]
    lines += ["## Columns", "",
              "A table, a file of features or a name grammar gives these columns;",
              "every other one is kept under its own name.", "", "| column | also read as |",
              "|---|---|"]  # fmt: skip
    for column in sorted({*KEY_COLUMNS, *NUMBER_COLUMNS, "frame", "time"}):
        others = [f"`{alias}`" for alias, target in ALIASES.items() if target == column]
        lines.append(f"| `{column}` | {', '.join(others)} |")
    return "\n".join([*lines, ""])


#: Every generated page and what makes it.
PAGES: Mapping[str, Callable[[], str]] = {
    "metrics.md": metrics_page,
    "parity.md": parity_page,
    "protocol-file.md": protocol_file_page,
    "protocols.md": protocols_page,
}


def main() -> None:
    """Write all pages."""
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
