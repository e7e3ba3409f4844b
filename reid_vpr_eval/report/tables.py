"""What the tables of a report say, as plain rows for the template."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from reid_vpr_eval.metrics import parse
from reid_vpr_eval.report.intervals import interval_of, interval_text, why_none
from reid_vpr_eval.report.sentences import main_metrics
from reid_vpr_eval.report.text import reported
from reid_vpr_eval.result import Result
from reid_vpr_eval.summary import shown, spelled

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CountRow", "MetricRow", "RuleRow", "count_rows", "headline", "metric_rows",
           "rule_rows"]  # fmt: skip

_VISIBLE = 5e-4
_POLICY = {
    "skip": "nothing to find; left out of every mean",
    "zero": "nothing to find; a miss in every mean",
    "one": "nothing to find; a full score in every mean",
    "error": "nothing to find; refused",
}


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric as a person reads it; `bounds` is empty where equal scores change nothing.

    `how` says how the interval was made, or why it is empty.
    """

    name: str
    meaning: str
    value: str
    bounds: str
    chance: str
    interval: str
    how: str


@dataclass(frozen=True, slots=True)
class CountRow:
    """A count with what it means; `published` is empty where nothing was published."""

    name: str
    meaning: str
    value: str
    published: str = ""
    differs: bool = False


@dataclass(frozen=True, slots=True)
class RuleRow:
    """What one tool's rules make of a run."""

    profile: str
    numbers: str
    differences: str


def headline(result: Result) -> list[tuple[str, str, str]]:
    """Return the first few metrics, as name, value and interval: averages, then hit rates."""
    out = []
    for name in main_metrics(result):
        found = interval_of(result, name)
        text = "" if found is None else interval_text(name, found)
        out.append((spelled(name, result.protocol), shown(name, result.metrics[name]), text))
    return out


def metric_rows(result: Result) -> list[MetricRow]:
    """Return one row a metric."""
    rows = []
    for name, value in reported(result).items():
        found = interval_of(result, name)
        rows.append(MetricRow(
            name=spelled(name, result.protocol),
            meaning=_meaning(name),
            value=shown(name, value),
            bounds=_bounds(result, name),
            chance=shown(name, result.chance[name]) if name in result.chance else "",
            interval="" if found is None else interval_text(name, found),
            how=why_none(result, name) if found is None else found.described,
        ))  # fmt: skip
    return rows


def _meaning(name: str) -> str:
    parsed = parse(name)
    if parsed.name == "CMC":
        if parsed.k == "1":
            return "share of queries whose first item is a positive"
        return f"share of queries with a positive among the first {parsed.k} items"
    options = ", ".join(f"{key} {value}" for key, value in parsed.options)
    doc = re.sub(r"\s*\([^)]*\)", "", parsed.metric.doc)
    words = re.split(r":|,(?! \d)", doc)[0].strip().rstrip(".")
    text = words[:1].lower() + words[1:]
    return f"{text}, {options}" if options else text


def _bounds(result: Result, name: str) -> str:
    found = result.ties.get(name, {})
    low, high = (found.get(key, math.nan) for key in ("pessimistic", "optimistic"))
    visible = _VISIBLE * (100 if parse(name).metric.is_rank else 1)
    if not abs(high - low) >= visible:
        return ""
    return f"{shown(name, low)} to {shown(name, high)}"


def count_rows(result: Result) -> list[CountRow]:
    """Return what was counted, in plain words, with what was published beside it."""
    expected = result.protocol.expected.model_dump()
    rows = []
    for key, name, meaning in _count_words(result):
        value = result.counts[key]
        wanted = expected.get(key)
        accepted = wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]
        text = f"{100 * value:.1f} %" if key == "ceiling" else f"{value:,.0f}"
        published = " or ".join(f"{count:,}" for count in accepted)
        differs = bool(accepted) and value not in accepted
        rows.append(CountRow(name, meaning, text, published, differs))
    return rows


def _count_words(result: Result) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the name and the meaning of each count."""
    yield "n_query", "Queries", "rows of the query side"
    yield "n_evaluated", "Evaluated", "queries that are in the means"
    yield "n_no_positive", "Without a positive", _POLICY[result.protocol.no_positive]
    yield "n_gallery", "Gallery", "rows of the gallery side"
    yield "n_gallery_ignored", "Ignored for everybody", "gallery rows that nobody is ranked against"
    yield "n_gallery_ranked", "Ranked", "gallery rows that take part"
    yield "n_positive_pairs", "Positive pairs", "query and item that belong together"
    yield "n_ignored_pairs", "Ignored pairs", "items taken out of one query's ranking"
    yield "n_self_pairs", "Self pairs", "queries found in the gallery and taken out"
    yield "n_tied_queries", "Equal scores", "queries in which a positive ties with another item"
    yield "ceiling", "Ceiling", "the highest hit rate that these queries allow"


def rule_rows(rules: pd.DataFrame) -> list[RuleRow]:
    """Return what each tool would print, one row a tool; numbers that need more are left out."""
    rows = []
    for profile, group in groupby(rules.to_dict("records"), lambda row: str(row["profile"])):
        known = [row for row in group if row["value"] is not None and row["value"] == row["value"]]
        if not known:
            continue
        numbers = ", ".join(f"{row['called']} {shown(row['metric'], row['value'])}"
                            for row in known)  # fmt: skip
        moved = {f"{row['called']}: {row['difference']}" for row in known
                 if row["difference"] not in ("same", "")}  # fmt: skip
        rows.append(RuleRow(profile, numbers, "; ".join(sorted(moved)) or "none"))
    return rows
