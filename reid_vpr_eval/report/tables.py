"""What the tables of a report say, as plain rows for the template."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reid_vpr_eval.metrics import parse
from reid_vpr_eval.report.pictures import badness
from reid_vpr_eval.report.text import reported
from reid_vpr_eval.result import Result
from reid_vpr_eval.summary import shown, spelled

__all__ = [
    "Column",
    "CountRow",
    "MetricRow",
    "QueryTable",
    "count_rows",
    "headline",
    "metric_rows",
    "query_table",
]

_VISIBLE = 5e-4
_ROWS = 500
_POLICY = {
    "skip": "nothing to find; left out of every mean",
    "zero": "nothing to find; a miss in every mean",
    "one": "nothing to find; a full score in every mean",
    "error": "nothing to find; refused",
}


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric as a person reads it; `bounds` is empty where equal scores change nothing."""

    name: str
    meaning: str
    value: str
    bounds: str
    chance: str
    interval: str


@dataclass(frozen=True, slots=True)
class CountRow:
    """A count with what it means; `published` is empty where nothing was published."""

    name: str
    meaning: str
    value: str
    published: str = ""
    differs: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of queries."""

    key: str
    title: str
    meaning: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class QueryTable:
    """The worst queries: cells are what is shown and what it is sorted by."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]
    n_query: int
    order: str


def headline(result: Result) -> list[tuple[str, str]]:
    """Return the first few metrics, as name and value: averages, then hit rates."""
    names = [name for name in reported(result) if not parse(name).options]
    return [(spelled(n, result.protocol), shown(n, result.metrics[n])) for n in names[:4]]


def metric_rows(result: Result) -> list[MetricRow]:
    """Return one row a metric."""
    return [
        MetricRow(
            name=spelled(name, result.protocol),
            meaning=_meaning(name),
            value=shown(name, value),
            bounds=_bounds(result, name),
            chance=shown(name, result.chance[name]) if name in result.chance else "",
            interval="not computed" if result.intervals.get(name) is None else "see result.json",
        )
        for name, value in reported(result).items()
    ]


def _meaning(name: str) -> str:
    parsed = parse(name)
    if parsed.name == "CMC":
        if parsed.k == "1":
            return "share of queries whose first item is a positive"
        return f"share of queries with a positive among the first {parsed.k} items"
    options = ", ".join(f"{key} {value}" for key, value in parsed.options)
    words = parsed.metric.doc.split(":")[0].split(",")[0].strip().rstrip(".")
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


def query_table(result: Result, limit: int = _ROWS) -> QueryTable:
    """Return the worst queries, at most `limit`, the worst first."""
    table = result.per_query
    places = result.protocol.relevance.kind == "within"
    columns = tuple(column for column in _COLUMNS if _wanted(result, column.key))
    key = badness(result)
    order = np.argsort(-np.where(np.isnan(key), -np.inf, key), kind="stable")[:limit]
    values = [table[column.key].tolist() for column in columns]
    rows = tuple(
        tuple(_cell(column, value[row]) for column, value in zip(columns, values, strict=True))
        for row in order.tolist()
    )
    by_rank = places or bool(table["ap"].isna().all())
    return QueryTable(
        columns, rows, len(table), "rank of the first positive" if by_rank else "average precision"
    )


_COLUMNS = (
    Column("query_id", "Query", "the query's id", False),
    Column("label", "Label", "the query's label", False),
    Column("camera", "Camera", "the query's camera", False),
    Column("n_positive", "Positives", "items that should be found", True),
    Column("first_rank", "First rank", "rank of the first positive", True),
    Column("ap", "AP", "average precision, percent", True),
    Column("inp", "INP", "inverse negative penalty, percent", True),
    Column("top1_correct", "First item", "whether the first item is right", False),
    Column("top1_id", "First item's id", "the item that was ranked first", False),
    Column("top1_score", "Score", "the score of the first item, as given", True),
    Column("top1_error_m", "Error (m)", "metres from the query to its first item", True),
    Column("n_tied", "Ties", "items that are no positives but tie with one", True),
)
_PERCENT = ("ap", "inp")


def _wanted(result: Result, key: str) -> bool:
    table = result.per_query
    if key not in table or (key == "n_tied" and not table[key].any()):
        return False
    if key in _PERCENT and result.protocol.relevance.kind == "within":
        return False
    return bool(table[key].notna().any())


def _cell(column: Column, value: Any) -> tuple[str, str]:
    """Return what a cell shows and what it is sorted by."""
    if value is None or value != value or value == "":
        return "", ""
    if column.key == "top1_correct":
        right = str(value) == "True"
        return ("right" if right else "wrong"), str(int(right))
    if column.key in _PERCENT:
        return f"{100 * value:.1f}", repr(float(value))
    if column.is_number:
        number = float(value)
        if column.key == "top1_score":
            return f"{number:#.4g}".rstrip("."), repr(number)
        whole = number == round(number) and column.key != "top1_error_m"
        return (f"{number:,.0f}" if whole else f"{number:,.1f}"), repr(number)
    return str(value), str(value)
