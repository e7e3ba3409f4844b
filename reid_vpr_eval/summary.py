"""A result as text: the table that a paper would print, with what it was computed on."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reid_vpr_eval.errors import counted
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.uncertainty import METHOD_NAMES, Interval, unit_word

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "interval_lines", "shown", "shown_interval", "spelled", "table_text", "what_is_fixed",
]  # fmt: skip

_VISIBLE = 0.0005


class Reported(typing.Protocol):
    """What a table needs of a result."""

    @property
    def protocol(self) -> Protocol: ...
    @property
    def counts(self) -> Mapping[str, float]: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...
    @property
    def ties(self) -> Mapping[str, Mapping[str, float]]: ...
    @property
    def chance(self) -> Mapping[str, float]: ...
    @property
    def intervals(self) -> Mapping[str, Interval | None]: ...
    @property
    def interval_reasons(self) -> Mapping[str, str]: ...
    @property
    def inputs(self) -> Mapping[str, Any]: ...
    @property
    def draws(self) -> pd.DataFrame | None: ...
    @property
    def breakdowns(self) -> pd.DataFrame | None: ...


def spelled(name: str, protocol: Protocol) -> str:
    """Return a metric's name as the protocol prints it.

    >>> from reid_vpr_eval import load_protocol
    >>> spelled("CMC@5", load_protocol("market1501"))
    'Rank-5'
    """
    parsed = parse(name)
    if parsed.name != "CMC":
        return str(parsed)
    listed = ", ".join(f"{key}={value}" for key, value in parsed.options)
    return protocol.report.spelling.format(k=parsed.k) + (f"({listed})" if listed else "")


def shown(name: str, value: float) -> str:
    """Return a number as a person reads it: percent with one decimal, ranks as they are."""
    return f"{value:.1f}" if parse(name).metric.is_rank else f"{100 * value:.1f}"


def shown_interval(name: str, interval: Interval | None) -> str:
    """Return the limits of an interval as a person reads them; empty where there is none."""
    return "" if interval is None else (
        f"[{shown(name, interval.low)}, {shown(name, interval.high)}]"
    )


def interval_lines(result: Reported) -> list[str]:
    """Say how intervals were made: level, method, queries and units; and why some are missing."""
    made = {name: one for name in result.metrics
            if (one := result.intervals.get(name)) is not None}  # fmt: skip
    lines = []
    if made:
        by_method: dict[str, list[str]] = {}
        for name, one in made.items():
            by_method.setdefault(_called(one), []).append(_family(name, result.protocol))
        by_method = {method: list(dict.fromkeys(names)) for method, names in by_method.items()}
        listed = ", ".join(f"{method} ({', '.join(names)})" for method, names in by_method.items())
        if len(by_method) == 1:
            listed = next(iter(by_method))
        first = next(iter(made.values()))
        queries = counted(first.n, "query")
        if first.unit != "query":
            units = unit_word(result.protocol, first.unit, first.n_units)
            queries += f" in {first.n_units} {units}"
        fixed = what_is_fixed(result)
        lines.append(f"{100 * first.level:g} % intervals: {listed}, {queries}, {fixed}")
    reasons: dict[str, list[str]] = {}
    for name, reason in result.interval_reasons.items():
        if reason and name in set(result.metrics) and "not asked for" not in reason:
            reasons.setdefault(reason, []).append(spelled(name, result.protocol))
    for reason, names in reasons.items():
        what = f"interval for {', '.join(names)}" if made else "intervals"
        lines.append(f"no {what}: {reason}")
    return lines


def _family(name: str, protocol: Protocol) -> str:
    """Return a metric's name as printed, hit rates at any k as one."""
    parsed = parse(name)
    plain = parsed.name == "CMC" and not parsed.options
    return protocol.report.spelling.format(k="k") if plain else spelled(name, protocol)


def _called(interval: Interval) -> str:
    name = METHOD_NAMES.get(interval.method, interval.method)
    return f"{name} of {counted(interval.block, 'query')}" if interval.block else name


def what_is_fixed(result: Reported) -> str:
    """Return what the intervals are for: other queries, and nothing else new."""
    draw = result.protocol.draw
    if draw is None:
        return "gallery fixed"
    return "mean over all draws" if result.draws is None else "drawn galleries fixed"


def table_text(result: Reported, *, chance: bool = False) -> str:
    """Return the table that a paper would print, with what it was computed on.

    With `chance` a second row shows the value of a ranking without information.
    """
    protocol, counts = result.protocol, result.counts
    heading = protocol.title or protocol.name
    if protocol.status == "withdrawn":
        heading += " (the data set was withdrawn by its authors)"
    names = [spelled(name, protocol) for name in result.metrics]
    values = [shown(name, value) for name, value in result.metrics.items()]
    limits = [shown_interval(name, result.intervals.get(name)) for name in result.metrics]
    widths = [max(map(len, column)) for column in zip(names, values, limits, strict=True)]
    lines = [
        heading,
        "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True)),
        "  ".join(value.rjust(width) for value, width in zip(values, widths, strict=True)),
        *(_interval_row(limits, widths) if any(limits) else []),
        *(_chance_line(result, widths) if chance else []),
        f"{counts['n_evaluated']:.0f} of {counted(counts['n_query'], 'query')} "
        f"({counts['n_no_positive']:.0f} without a positive: {protocol.no_positive}), "
        f"{counts['n_gallery_ranked']:.0f} of {counted(counts['n_gallery'], 'gallery item')}, "
        f"{counted(counts['n_positive_pairs'], 'positive pair')}, ceiling "
        f"{100 * counts['ceiling']:.1f}",
        *interval_lines(result),
        *_below_chance(result),
        *_draw_line(result),
        *_tie_lines(result),
        *_breakdown_lines(result),
        f"protocol {protocol.name} v{protocol.version}, judged by {protocol.judging_hash[:12]}, "
        f"{result.inputs.get('metric') or result.inputs.get('scores')}",
    ]
    return "\n".join(lines)


def _interval_row(limits: list[str], widths: list[int]) -> list[str]:
    row = "  ".join(text.rjust(width) for text, width in zip(limits, widths, strict=True))
    return [row.rstrip()]


def _chance_line(result: Reported, widths: list[int]) -> list[str]:
    known = result.chance
    texts = [shown(name, known[name]) if name in known else "-" for name in result.metrics]
    row = "  ".join(text.rjust(width) for text, width in zip(texts, widths, strict=True))
    return [f"{row}  by chance"]


def _below_chance(result: Reported) -> list[str]:
    """Say so when scores rank worse than none at all: the usual sign of a wrong direction."""
    for name, value in result.metrics.items():
        known = result.chance.get(name)
        share = known is not None and not parse(name).metric.is_rank
        if share and known is not None and parse(name).name == "mAP" and value < known * 0.7:
            return [
                f"{spelled(name, result.protocol)} is below chance ({shown(name, known)}): are "
                "these scores distances that were given as similarities, or the reverse?"
            ]
    return []


def _draw_line(result: Reported) -> list[str]:
    """Say what was drawn, and how far single draws lie apart."""
    draw = result.protocol.draw
    if draw is None:
        return []
    each = f"{draw.n} of each {' and '.join(draw.per)}" if draw.per else "what a file gives"
    if draw.labels is not None:
        each = counted(draw.labels, "label") + (f", {each}" if draw.per else "")
    if result.draws is None:
        return [f"the exact expectation over all draws of {each}"]
    spread = result.draws.groupby("metric", sort=False)["value"].std()
    n_draws = result.draws["draw"].nunique()
    unit = {name: 1.0 if parse(str(name)).metric.is_rank else 100.0 for name in spread.index}
    listed = ", ".join(f"{spelled(str(name), result.protocol)} {unit[name] * sd:.2f}"
                       for name, sd in spread.items() if sd == sd)  # fmt: skip
    end = f"; standard deviation between draws: {listed}" if listed else ""
    return [f"mean of {counted(n_draws, 'draw')} of {each}{end}"]


def _breakdown_lines(result: Reported) -> list[str]:
    """Print the means by each value of a column, one line a value."""
    if result.breakdowns is None:
        return []
    lines = []
    for column, table in result.breakdowns.groupby("column", sort=False):
        lines.append(f"by {column}:")
        for value, rows in table.groupby("value", sort=False):
            means = [
                f"{spelled(name, result.protocol)} {shown(name, mean) if mean == mean else '-'}"
                for name, mean in zip(rows["metric"], rows["mean"], strict=True)
            ]
            lines.append(
                f"  {value}: {', '.join(means)} ({counted(rows['n_evaluated'].iloc[0], 'query')})"
            )
    return lines


def _tie_lines(result: Reported) -> list[str]:
    """Say how much equal scores matter, if they do."""
    tied = result.counts["n_tied_queries"]
    if not tied:
        return []
    lines = [f"equal scores in {counted(tied, 'query')}; bounds where they matter:"]
    for name, bounds in result.ties.items():
        unit = 1.0 if parse(name).metric.is_rank else 100.0
        low, high = sorted((bounds["pessimistic"], bounds["optimistic"]))
        if high - low >= _VISIBLE * 100 / unit:
            text = f"  {spelled(name, result.protocol)} {unit * low:.2f} to {unit * high:.2f}"
            if abs(bounds["index"] - result.metrics[name]) >= _VISIBLE * 100 / unit:
                text += f", {unit * bounds['index']:.2f} in gallery order"
            lines.append(text)
    return lines if len(lines) > 1 else [lines[0].split(";")[0]]
