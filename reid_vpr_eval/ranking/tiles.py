"""Counting a tile: certain scores by their bounds, doubtful ones by their canonical score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.counting import Counter, bisect
from reid_vpr_eval.ranking.judged import Groups, Judged
from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.ranking.sources import Rows, Source, TileScores
from reid_vpr_eval.relevance.pairs import ranges

__all__ = ["Lines", "Tile", "TileCounter"]

Array: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """Some gallery rows of one stratum: the columns of tiles."""

    items: Ints
    stratum: int

    @property
    def rows(self) -> Rows:
        """The gallery rows as a slice where they are consecutive."""
        first, last = int(self.items[0]), int(self.items[-1])
        consecutive = last - first + 1 == len(self.items)
        return slice(first, last + 1) if consecutive else self.items


class Lines:
    """The thresholds of some queries, which are the lines of a tile, and how they are counted.

    `resolve` takes rows and columns of a tile and returns queries, items and canonical scores.
    """

    def __init__(self, groups: Groups, queries: slice, counter: Counter, kernels: Kernels) -> None:
        self.queries, self._groups, self._counter, self._kernels = queries, groups, counter, kernels
        start = groups.start[queries.start : queries.stop + 1]
        self._base = int(start[0])
        self._start = start - self._base
        self._threshold = groups.score[start[0] : start[-1]]
        self._bounds: tuple[Floats, Any, Array, Array] | None = None

    def count(
        self,
        scores: Array,
        margin: Floats,
        stratum: int,
        resolve: Callable[[Ints, Ints], tuple[Ints, Ints, Floats]],
        axis: Literal[0, 1] = 0,
    ) -> tuple[Ints, Ints]:
        """Count a tile; return the rows and columns that were in doubt."""
        low, high = self._around(margin, scores.dtype)
        placed = self._kernels.place(scores, low, high, self._start, axis)
        self._counter.add_bins(self.queries, placed.bins, stratum)
        if len(placed.row):
            self._counter.add_exact(*resolve(placed.row, placed.column), stratum)
        return placed.row, placed.column

    def _around(self, margin: Floats, kind: Any) -> tuple[Array, Array]:
        """Return the bounds of the thresholds, rounded outwards; kept for the next tile."""
        known = self._bounds
        if known is not None and known[1] == kind and np.array_equal(known[0], margin):
            return known[2], known[3]
        spread = np.repeat(margin, np.diff(self._start))
        low = downwards(self._threshold - spread, kind)
        np.maximum(low, np.finfo(kind).min, out=low)  # what is taken out of a tile is -inf
        high = -downwards(-(self._threshold + spread), kind)
        self._bounds = (margin, kind, low, high)
        return low, high


class TileCounter:
    """Counts tiles of scores into a :class:`Counter`."""

    def __init__(
        self,
        source: Source,
        judged: Judged,
        groups: Groups,
        asking: npt.NDArray[np.bool_],
        counter: Counter,
        blocks: Sequence[slice],
    ) -> None:
        self._source, self._groups, self._counter = source, groups, counter
        self._asking = asking
        self._judged = judged
        self._lines = [Lines(groups, block, counter, source.kernels) for block in blocks]

    def prepare(self, number: int) -> Any:
        """Read and prepare a block of queries."""
        return self._source.queries(self._lines[number].queries)

    def count(
        self, tile: Tile, theirs: Any, blocks: Sequence[Any], buffer: Array | None = None
    ) -> None:
        """Count some prepared gallery rows for all prepared blocks of queries."""
        for lines, ours in zip(self._lines, blocks, strict=True):
            found = self._source.tile(ours, theirs, buffer)
            found.scores[self._judged_in(lines.queries, tile)] = -np.inf
            if self._counter.pairs_kept:
                self._offer_negatives(tile, lines.queries, found)
            self._count_lines(lines, tile, ours, theirs, found, 0)

    def count_square(
        self, one: int, other: int, blocks: Sequence[Any], buffer: Array | None = None
    ) -> None:
        """Count two blocks of the same items against each other, in one tile.

        The judged pairs are the same in both directions.
        """
        ours, theirs = self._lines[one], self._lines[other]
        tiles = [Tile(np.arange(lines.queries.start, lines.queries.stop), 0)
                 for lines in (ours, theirs)]  # fmt: skip
        found = self._source.tile(blocks[one], blocks[other], buffer)
        found.scores[self._judged_in(ours.queries, tiles[1])] = -np.inf
        self._count_lines(ours, tiles[1], blocks[one], blocks[other], found, 0)
        if one != other:
            self._count_lines(theirs, tiles[0], blocks[one], blocks[other], found, 1)

    def _count_lines(
        self, lines: Lines, tile: Tile, ours: Any, theirs: Any, found: TileScores,
        axis: Literal[0, 1],
    ) -> None:  # fmt: skip
        """Count a tile for the queries on one of its axes, the items are on the other."""
        margin = found.column_margin if axis else found.row_margin

        def resolve(row: Ints, column: Ints) -> tuple[Ints, Ints, Floats]:
            line, place = (column, row) if axis else (row, column)
            query, item = line + lines.queries.start, tile.items[place]
            crowded = len(row) > self._source.kernels.SHARE_FOR_DOUBLE * found.scores.size
            if crowded and not self._source.exact and found.scores.dtype != np.float64:
                open_ = self._settle(lines, tile.stratum, ours, theirs, row, column, axis)
                row, column, query, item = row[open_], column[open_], query[open_], item[open_]
            return query, item, self._source.exactly(ours, theirs, row, column)

        self._offer_top(lines.queries, tile, ours, theirs, found.scores, margin, axis)
        lines.count(found.scores, margin, tile.stratum, resolve, axis)

    def _settle(
        self, lines: Lines, stratum: int, ours: Any, theirs: Any, row: Ints, column: Ints,
        axis: Literal[0, 1],
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """Count what a product in float64 decides; return what is in doubt still."""
        wide = self._source.tile(ours, theirs, double=True)
        value = wide.scores[row, column]
        line = column if axis else row
        margin = (wide.column_margin if axis else wide.row_margin)[line]
        query = line + lines.queries.start
        start, end = self._groups.start[query], self._groups.start[query + 1]
        surely = bisect(self._groups.score, start, end, np.nextafter(value - margin, -np.inf))
        perhaps = bisect(self._groups.score, start, end, np.nextafter(value + margin, np.inf))
        open_ = surely != perhaps
        sure = ~open_
        self._counter.add_placed(query[sure], (surely - start)[sure], stratum)
        return np.asarray(open_)

    def _judged_in(self, queries: slice, tile: Tile) -> tuple[Ints, Ints]:
        """Return row and column of the judged pairs in a tile of scores."""
        item, offsets = self._judged.item, self._judged.offsets
        first, last = tile.items[0], tile.items[-1]
        start = offsets[queries.start : queries.stop]
        end = offsets[queries.start + 1 : queries.stop + 1]
        low = bisect(item, start, end, np.full(len(start), first))
        size = bisect(item, low, end, np.full(len(start), last + 1)) - low
        row, pairs = np.repeat(np.arange(len(start)), size), ranges(low, size)
        if last - first + 1 == len(tile.items):
            return row, item[pairs] - first
        column = np.searchsorted(tile.items, item[pairs])
        inside = tile.items[column] == item[pairs]
        return row[inside], column[inside]

    def _offer_top(
        self, queries: slice, tile: Tile, ours: Any, theirs: Any, scores: Array, margin: Floats,
        axis: Literal[0, 1],
    ) -> None:  # fmt: skip
        """Offer what may belong to the top lists, scored canonically."""
        k = self._counter.top_item.shape[1]
        best = scores.max(axis=1 - axis)
        floor = self._counter.floor_of_top(queries) - margin
        asking = self._asking[queries, tile.stratum] & (best > -np.inf)
        alive = np.flatnonzero(asking & (best >= downwards(floor, scores.dtype)))
        if not len(alive):
            return
        kth = best[alive]
        if k > 1:
            kth = _kth_largest(scores[alive] if axis == 0 else scores[:, alive].T, k)
        least = np.full(len(best), np.inf, scores.dtype)
        least[alive] = downwards(np.maximum(floor[alive], kth - 2 * margin[alive]), scores.dtype)
        np.maximum(least, np.finfo(scores.dtype).min, out=least)
        row, column = self._source.kernels.at_least(scores, least, axis)
        line, place = (column, row) if axis else (row, column)
        score = self._source.exactly(ours, theirs, row, column)
        self._counter.add_top(line + queries.start, tile.items[place], score)

    def _offer_negatives(self, tile: Tile, queries: slice, found: TileScores) -> None:
        """Offer what may belong to the pooled largest negative scores, scored canonically."""
        rows = np.flatnonzero(self._asking[queries, tile.stratum])
        part, margin = found.scores[rows], found.row_margin[rows]
        wanted = self._counter.pairs_kept
        floor = np.full(len(rows), self._counter.floor_of_negatives) - margin
        if part.size > wanted:
            sure = np.partition(part - margin[:, None], part.size - wanted, axis=None)
            floor = np.maximum(floor, sure[part.size - wanted] - margin)
        place, column = np.nonzero((part >= floor[:, None]) & (part > -np.inf))
        query, item = rows[place] + queries.start, tile.items[column]
        self._counter.add_negatives(self._source.pairs(query, item))


def _kth_largest(lines: Array, k: int) -> Array:
    """Return the k-th largest value of each line, or -inf where there are fewer."""
    if lines.shape[1] < k:
        return np.full(len(lines), -np.inf, lines.dtype)
    place = lines.shape[1] - k
    return np.asarray(np.partition(lines, place, axis=1)[:, place])


def downwards(values: Floats, kind: Any) -> Array:
    """Round float64 to a type, never upwards."""
    with np.errstate(over="ignore"):
        rounded = values.astype(kind)
    too_large = rounded > values
    rounded[too_large] = np.nextafter(rounded[too_large], np.array(-np.inf, kind))
    return np.asarray(rounded)
