"""Counting a tile: certain items by sorted scores, doubtful ones by their canonical score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.counting import Counter
from reid_vpr_eval.ranking.judged import Groups, Judged
from reid_vpr_eval.ranking.sources import Rows, Source

__all__ = ["Tile", "TileCounter", "count_block"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
#: From rows and columns in doubt to queries, items and canonical scores.
Resolve = Callable[[Ints, Ints], tuple[Ints, Ints, npt.NDArray[np.float64]]]


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """Some gallery rows of one stratum, from place `start` on among all counted rows."""

    start: int
    items: npt.NDArray[np.int64]
    stratum: int

    @property
    def rows(self) -> Rows:
        """The gallery rows as a slice where they are consecutive."""
        first, last = int(self.items[0]), int(self.items[-1])
        consecutive = last - first + 1 == len(self.items)
        return slice(first, last + 1) if consecutive else self.items


class TileCounter:
    """Counts tiles of scores into a :class:`Counter`."""

    def __init__(
        self,
        source: Source,
        judged: Judged,
        groups: Groups,
        kept: npt.NDArray[np.bool_],
        counter: Counter,
    ) -> None:
        self._source, self._groups, self._kept, self._counter = source, groups, kept, counter
        order = np.argsort(judged.item, kind="stable")
        self._pair_item, self._pair_query = judged.item[order], judged.query[order]
        self._n_query = len(groups.start) - 1

    def count(self, tile: Tile, rows_at_once: int) -> None:
        """Count one tile for all queries, a block of queries at a time."""
        prepared = self._source.columns(tile.rows)
        pair_query, pair_column = self._judged_in(tile)
        for start in range(0, self._n_query, rows_at_once):
            queries = slice(start, min(start + rows_at_once, self._n_query))
            scores, margin = self._source.tile(queries, prepared)
            low, high = np.searchsorted(pair_query, (queries.start, queries.stop))
            scores[pair_query[low:high] - start, pair_column[low:high]] = -np.inf
            ascending = np.sort(scores, axis=1)
            self._offer_top(tile, queries, scores, margin, ascending)
            if self._counter.pairs_kept:
                self._offer_negatives(tile, queries, scores, margin)
            self._count_block(tile, queries, scores, margin, ascending)

    def _judged_in(self, tile: Tile) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return query and column of the judged pairs in a tile, by query."""
        low = np.searchsorted(self._pair_item, tile.items, side="left")
        high = np.searchsorted(self._pair_item, tile.items, side="right")
        column = np.repeat(np.arange(len(tile.items)), high - low)
        shift = np.repeat(low - np.concatenate([[0], np.cumsum(high - low)[:-1]]), high - low)
        query = self._pair_query[np.arange(len(column)) + shift]
        order = np.argsort(query, kind="stable")
        return query[order], column[order]

    def _offer_top(
        self, tile: Tile, queries: slice, scores: Array, margin: Array, ascending: Array
    ) -> None:
        """Offer what may belong to the top lists, scored canonically."""
        k = self._counter.top_item.shape[1]
        floor = self._counter.floor_of_top(queries) - margin
        if ascending.shape[1] >= k:
            floor = np.maximum(floor, ascending[:, -k] - 2 * margin)
        floor = _downwards(floor, scores.dtype)
        alive = (ascending[:, -1] >= floor) & self._kept[queries, tile.stratum]
        rows = np.flatnonzero(alive & (ascending[:, -1] > -np.inf))
        if not len(rows):
            return
        part = scores[rows]
        place, column = np.nonzero((part >= floor[rows, None]) & (part > -np.inf))
        query, item = rows[place] + queries.start, tile.items[column]
        self._counter.add_top(query, item, self._source.pairs(query, item))

    def _offer_negatives(
        self, tile: Tile, queries: slice, scores: Array, margin: Array
    ) -> None:
        """Offer what may belong to the pooled largest negative scores, scored canonically."""
        rows = np.flatnonzero(self._kept[queries, tile.stratum])
        part = scores[rows]
        wanted = self._counter.pairs_kept
        floor = np.full(len(rows), self._counter.floor_of_negatives) - margin[rows]
        if part.size > wanted:
            sure = np.partition(part - margin[rows, None], part.size - wanted, axis=None)
            floor = np.maximum(floor, sure[part.size - wanted] - margin[rows])
        place, column = np.nonzero((part >= floor[:, None]) & (part > -np.inf))
        query, item = rows[place] + queries.start, tile.items[column]
        self._counter.add_negatives(self._source.pairs(query, item))

    def _count_block(
        self, tile: Tile, queries: slice, scores: Array, margin: Array, ascending: Array
    ) -> None:
        def resolve(row: Ints, column: Ints) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
            query, item = row + queries.start, tile.items[column]
            return query, item, self._source.pairs(query, item)

        count_block(self._counter, self._groups, queries, scores, margin, ascending,
                    tile.stratum, resolve)  # fmt: skip


def count_block(
    counter: Counter,
    groups: Groups,
    queries: slice,
    scores: Array,
    margin: Array,
    ascending: Array,
    stratum: int,
    resolve: Resolve,
) -> None:
    """Count a block of queries: what is surely above, then what is in doubt.

    `scores` (rows, columns) are within `margin` of the canonical ones, `ascending` is the same
    sorted by row; `resolve` turns rows and columns in doubt into query, item and canonical score.
    """
    start = groups.start[queries.start : queries.stop + 1]
    base = int(start[0])
    threshold = groups.score[base : start[-1]]
    spread = np.repeat(margin, np.diff(start))
    low = _downwards(threshold - spread, scores.dtype)
    high = -_downwards(-(threshold + spread), scores.dtype)
    above = np.zeros(len(threshold), np.int64)
    doubtful: list[tuple[Ints, ...]] = []
    width = scores.shape[1]
    has = np.flatnonzero(np.diff(start))
    first = start[has] - base
    for row in has[ascending[has, -1] >= low[first]]:
        group = slice(start[row] - base, start[row + 1] - base)
        line = ascending[row]
        surely = line.searchsorted(high[group], side="right")
        maybe = line.searchsorted(low[group], side="left")
        above[group] = width - surely
        if (surely > maybe).any():
            doubtful.append(_in_doubt(row, scores[row], low[group], high[group]))
    counter.add_certain(base, above, stratum)
    if doubtful:
        row, column, counted = (np.concatenate(parts) for parts in zip(*doubtful, strict=True))
        query, item, score = resolve(row, column)
        counter.add_exact(query, item, score, stratum, counted)


def _in_doubt(
    row: int, scores: Array, low: Array, high: Array
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return row, column and number of thresholds surely below, of the scores in doubt."""
    column = np.flatnonzero((scores >= low[0]) & (scores > -np.inf))
    value = scores[column]
    surely_above = np.searchsorted(high, value, side="left")
    doubt = np.searchsorted(low, value, side="right") > surely_above
    column = column[doubt]
    return np.full(len(column), row), column, surely_above[doubt]


def _downwards(values: npt.NDArray[np.float64], kind: Any) -> Array:
    """Round float64 to a type, never upwards."""
    with np.errstate(over="ignore"):
        rounded = values.astype(kind)
    too_large = rounded > values
    rounded[too_large] = np.nextafter(rounded[too_large], np.array(-np.inf, kind))
    return np.asarray(rounded)
