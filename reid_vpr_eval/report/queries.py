"""The table of queries: the worst ones, each with what was found for it, in bounded size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reid_vpr_eval.report.pictures import Strip, Strips, badness, is_wrong
from reid_vpr_eval.result import Result

__all__ = ["Column", "QueryTable", "query_table"]

#: Rows of the table unless told otherwise.
ROWS = 500
#: Characters of pictures in the rows of one page.
PICTURE_BUDGET = 4_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of queries."""

    key: str
    title: str
    meaning: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query: cells are what is shown and what it is sorted by."""

    cells: tuple[tuple[str, str], ...]
    outcome: str


@dataclass(frozen=True, slots=True)
class QueryTable:
    """The worst queries, and what was found for those in `lists` (by row of the table)."""

    columns: tuple[Column, ...]
    rows: tuple[QueryRow, ...]
    n_query: int
    order: str
    lists: dict[str, Any] = field(default_factory=dict)

    @property
    def n_lists(self) -> int:
        """How many rows can be opened."""
        return len(self.lists.get("strips", {}))


def query_table(
    result: Result,
    limit: int = ROWS,
    strips: Strips | None = None,
    budget: int = PICTURE_BUDGET,
) -> QueryTable:
    """Return the worst queries, at most `limit`, the worst first.

    With `strips` the first rows hold what was found, as many as `budget` characters of
    pictures allow.
    """
    table = result.per_query
    if not len(table):
        return QueryTable((), (), 0, "")
    columns = tuple(column for column in _COLUMNS if _wanted(result, column.key))
    order = worst_rows(result, limit)
    values = [table[column.key].iloc[order].tolist() for column in columns]
    wrong = is_wrong(result)[order]
    lone = table["n_positive"].to_numpy()[order] == 0
    rows = tuple(
        QueryRow(
            tuple(_cell(column, value[i]) for column, value in zip(columns, values, strict=True)),
            "none" if lone[i] else "wrong" if wrong[i] else "right",
        )
        for i in range(len(order))
    )
    places = result.protocol.relevance.kind == "within"
    by_rank = places or bool(table["ap"].isna().all())
    return QueryTable(
        columns, rows, len(table),
        "rank of the first positive" if by_rank else "average precision",
        {} if strips is None else _lists(strips, order, budget),
    )  # fmt: skip


def worst_rows(result: Result, limit: int) -> list[int]:
    """Return the rows of the worst queries, the worst first; those not evaluated come last."""
    if not len(result.per_query):
        return []
    key = badness(result)
    order = np.argsort(-np.where(np.isnan(key), -np.inf, key), kind="stable")[:limit]
    return [int(row) for row in order]


def _lists(strips: Strips, order: list[int], budget: int) -> dict[str, Any]:
    """Return what rows open to, each picture once, until the budget is spent."""
    pictures: dict[str, int] = {}
    stored: list[list[Any]] = []
    found: dict[str, Any] = {}
    for i, row in enumerate(order):
        strip = strips.strip(row)
        tiles = _tiles(strip)
        fresh = {tile.picture.uri: tile.picture for tile in tiles
                 if tile.picture is not None and tile.picture.uri not in pictures}  # fmt: skip
        budget -= sum(map(len, fresh)) + 60 * len(tiles)
        if budget < 0:
            break
        for uri, picture in fresh.items():
            pictures[uri] = len(stored)
            stored.append([uri, picture.width, picture.height])
        found[str(i)] = {
            "caption": strip.caption,
            "hidden": strip.n_hidden,
            "tiles": [
                [tile.role, tile.rank, tile.item_id, tile.score,
                 -1 if tile.picture is None else pictures[tile.picture.uri]]
                for tile in tiles
            ],
        }  # fmt: skip
    return {"pictures": stored, "strips": found} if found else {}


def _tiles(strip: Strip) -> list[Any]:
    return [strip.query, *strip.ranked, *([strip.missed] if strip.missed else [])]


_COLUMNS = (
    Column("query_id", "Query", "the query's id", False),
    Column("unit", "Unit", "what the query is resampled with", False),
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
    if key == "unit":
        units = table[key].astype(object).fillna("").astype(str)
        told = [table[name].astype(str) for name in ("label", "query_id") if name in table]
        return bool((units != "").any()) and not any((units == one).all() for one in told)
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
