"""A comparison as text: the tables that it prints, and the words of their cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from reid_vpr_eval.errors import counted
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.summary import shown, spelled
from reid_vpr_eval.uncertainty import unit_word

if TYPE_CHECKING:
    from reid_vpr_eval.studies.comparison.comparison import Comparison, Difference, RunValue

__all__ = [
    "Table", "changed_rows", "changed_table", "comparison_text", "difference_cells",
    "difference_table", "heading", "moved", "p_text", "run_table", "span", "tested",
]  # fmt: skip

_WIDTH = 100

#: The heading of each column, and rows of cells.
Table = tuple[list[str], list[list[str]]]


def comparison_text(comparison: Comparison) -> str:
    """Return the tables of a comparison, with how they were made and what to know."""
    lines = [heading(comparison)]
    for metric in comparison.metrics:
        lines += ["", spelled(metric, comparison.protocol)]
        lines += _laid_out(run_table(comparison, metric), left=(0, 1))
        lines += ["", *_laid_out(difference_table(comparison, metric), left=(0,))]
    lines.append("")
    for said in (*tested(comparison), *(f"note: {note}" for note in comparison.notes)):
        lines += wrap(said, _WIDTH, subsequent_indent="  ", break_long_words=False)
    return "\n".join(line.rstrip() for line in lines)


def heading(comparison: Comparison) -> str:
    """Say what was compared, on how many queries."""
    protocol = comparison.protocol
    title = protocol.title or protocol.name
    first = comparison.differences[0]
    on = f", {counted(first.n_query, 'query', form=',')}" if first.n_query else ""
    if first.n_units and comparison.settings.unit != "query":
        on += f" in {first.n_units:,} {_units(comparison, first.n_units)}"
    return f"{title}: {counted(len(comparison.runs), 'run')}{on}"


def _way(comparison: Comparison) -> str:
    """Say how intervals of differences were made."""
    words = {
        "t": "Student's t over the same units",
        "bca": f"BCa bootstrap of the same units, {comparison.settings.interval_resamples:,} "
        f"resamples, seed {comparison.settings.seed}",
    }
    used = dict.fromkeys(one.method for one in comparison.differences if one.method)
    return " or ".join(words[name] for name in used) or "none"


def _units(comparison: Comparison, n: int = 2) -> str:
    unit = comparison.settings.unit
    word = "unit" if n == 1 else "units"
    return word if unit == "unit" else unit_word(comparison.protocol, unit, n)


def run_table(comparison: Comparison, metric: str) -> Table:
    """Return the values of the models by one metric."""
    rows = [one for one in comparison.values if one.metric == metric]
    with_interval = any(one.low is not None for one in rows)
    spread = [one for one in rows if one.sd_runs is not None or one.sd_draws is not None]
    beats = any(one.beats for one in rows)
    head = ["", "run", "value"]
    head += [f"{100 * comparison.settings.level:g} % interval"] if with_interval else []
    head += ["SD over runs" if any(one.sd_runs is not None for one in spread) else "SD over draws"
             ] if spread else []  # fmt: skip
    head += ["better than"] if beats else []
    cells = []
    for one in rows:
        row = [one.letter, one.run, shown(metric, one.value)]
        row += [_interval(one)] if with_interval else []
        row += [_spread(one)] if spread else []
        row += [", ".join(one.beats)] if beats else []
        cells.append(row)
    return head, cells


def difference_table(comparison: Comparison, metric: str) -> Table:
    """Return the differences by one metric."""
    rows = [one for one in comparison.differences if one.metric == metric]
    corrected = len(rows) > 1 and comparison.settings.correction != "none"
    hits = any(one.only_run is not None for one in rows)
    points = "ranks" if parse(metric).metric.is_rank else "points"
    head = ["difference", points, f"{100 * comparison.settings.level:g} % interval", "p"]
    head += [f"p ({comparison.settings.correction})"] if corrected else []
    head += ["effect", "better", "worse", "equal"]
    head += ["won : lost"] if hits else []
    return head, [difference_cells(one, corrected=corrected, hits=hits) for one in rows]


def difference_cells(one: Difference, *, corrected: bool, hits: bool) -> list[str]:
    """Return a difference as a row of cells."""
    limits = "-" if one.low is None or one.high is None else span(
        moved(one.metric, one.low), moved(one.metric, one.high)
    )
    row = [f"{one.run} - {one.baseline}", moved(one.metric, one.difference), limits]
    row.append(p_text(one.p, one))
    row += [p_text(one.p_corrected, one)] if corrected else []
    row.append("-" if one.effect is None else f"{one.effect:+.2f}".replace("-0.00", "0.00")
               .replace("+0.00", "0.00"))  # fmt: skip
    row += ["-" if share is None else f"{100 * share:.1f} %"
            for share in (one.better, one.worse, one.equal)]  # fmt: skip
    row += [f"{one.only_run} : {one.only_baseline}" if one.only_run is not None else "-"
            ] if hits else []  # fmt: skip
    return row


def p_text(p: float | None, one: Difference) -> str:
    """Return a p as it may be printed: never 0, and no smaller than the test could say.

    Where no drawn sign change reached the difference, p is printed as a bound.
    """
    if p is None:
        return "-"
    drawn = not one.exact and one.p_least is not None
    if drawn and one.p_least is not None and p <= one.p_least * 1.000001:
        return f"< {_rounded_up(p)}"
    return f"{p:.3f}" if p >= 0.0095 else f"{p:.2g}"


def moved(metric: str, difference: float) -> str:
    """Return a difference with its sign: points of percent, or ranks.

    >>> moved("mAP", 0.0123), moved("mAP", -0.0001), moved("mAP", 0.0)
    ('+1.2', '-0.01', '0.0')
    """
    value = difference if parse(metric).metric.is_rank else 100 * difference
    text = f"{value:+.1f}"
    if text not in ("+0.0", "-0.0"):
        return text
    return "0.0" if abs(value) < 1e-9 else f"{value:+.2g}"


def span(low: str, high: str) -> str:
    """Return an interval.

    >>> span("+0.1", "+0.9")
    '[+0.1, +0.9]'
    """
    return f"[{low}, {high}]"


def tested(comparison: Comparison) -> Iterator[str]:
    """Say in words how intervals and p were made."""
    one, settings = comparison.differences[0], comparison.settings
    if one.p is not None:
        by = "single queries" if settings.unit == "query" else f"whole {_units(comparison)}"
        exact = [d.exact for d in comparison.differences]
        n, random = settings.resamples, not all(exact)
        signs = counted(n, "random sign change", form=",") if random else "all sign changes"
        way = {"max-t": "corrected by step-down max-T", "holm": "corrected by Holm's rule",
               "none": "not corrected for the number of pairs"}[settings.correction]  # fmt: skip
        per = sum(d.metric == comparison.metric for d in comparison.differences)
        many = f", {way} for {counted(per, 'pair')}" if per > 1 else ""
        many += " of each metric apart" if per > 1 and len(comparison.metrics) > 1 else ""
        drawn = "" if all(exact) else f", seed {settings.seed}"
        hits = any(d.only_run is not None for d in comparison.differences)
        yield (
            f"p: two-sided, {signs} of {by}{drawn}{many}; "
            f"intervals of differences: {_way(comparison)}; gallery and models fixed"
        )
        yield (
            "effect: mean difference of queries over its standard deviation; better, worse, "
            "equal: shares of queries"
            f"{'; won : lost: queries that only one of the two gets right' if hits else ''}"
        )
    yield (
        f"protocol {comparison.protocol.name} v{comparison.protocol.version}, judged by "
        f"{comparison.protocol.judging_hash[:12]}"
        f"{'; FORCED: the runs differ in what they should not' if settings.forced else ''}"
    )


def changed_table(comparison: Comparison, n: int, metric: str | None = None) -> str:
    """Return the queries that changed most against the first run, as text."""
    name = metric or comparison.metric
    lines: list[str] = []
    for one in comparison.differences:
        if (one.metric, one.baseline) != (name, comparison.runs[0]) or one.p is None:
            continue
        table = changed_rows(comparison, one, n)
        lines += ["", f"{one.run} - {one.baseline}, {spelled(name, comparison.protocol)}: "
                  "the queries that changed most"]  # fmt: skip
        left = len(table[0]) - 3
        lines += _laid_out(table, left=tuple(range(left))) if table[1] else ["  none changed"]
    return "\n".join(line.rstrip() for line in lines[1:])


def changed_rows(comparison: Comparison, one: Difference, n: int) -> Table:
    """Return the queries of a pair that changed most, up to `n` each way."""
    table = comparison.changed(n, run=one.run, baseline=one.baseline, metric=one.metric)
    extra = [c for c in ("unit", "label") if c in table]
    if extra == ["unit", "label"] and (table["unit"] == table["label"].astype(str)).all():
        extra = ["label"]
    head = ["query", *extra, one.baseline, one.run, "difference"]
    cells = [
        [str(row["query_id"]), *(str(row[c]) for c in extra), shown(one.metric, row["baseline"]),
         shown(one.metric, row["run"]), moved(one.metric, row["difference"])]
        for row in table.to_dict("records")
    ]  # fmt: skip
    return head, cells


def _interval(one: RunValue) -> str:
    if one.low is None or one.high is None:
        return "-"
    return span(shown(one.metric, one.low), shown(one.metric, one.high))


def _spread(one: RunValue) -> str:
    if one.sd_runs is not None:
        return f"{_size(one.metric, one.sd_runs)} ({counted(one.n_runs, 'run')})"
    if one.sd_draws is not None:
        return f"{_size(one.metric, one.sd_draws)} ({counted(one.n_draws or 0, 'draw')})"
    return "- (1 run)"


def _size(metric: str, value: float) -> str:
    return f"{value if parse(metric).metric.is_rank else 100 * value:.2f}"


def _rounded_up(p: float) -> str:
    """Return a bound above p with one digit, or with two where one would say too little."""
    for digits in (1, 2, 3):
        exponent = f"{p:.0e}"
        step = 10.0 ** (int(exponent.split("e")[1]) - digits + 1)
        bound = -(-p // step) * step
        if bound <= 1.05 * p:
            return f"{bound:.{digits}g}"
    return f"{p:.4g}"


def _laid_out(table: Table, left: Sequence[int] = ()) -> list[str]:
    """Return the rows of a table as lines of aligned cells."""
    head, rows = table
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [
        "  " + "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    ]  # fmt: skip
