"""Counting a tile: certain scores by their bounds, doubtful ones by their canonical score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.counting import Counter
from reid_vpr_eval.ranking.judged import Groups, Judged, in_blocks
from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.ranking.sources import Rows, Source, TileScores
from reid_vpr_eval.relevance.pairs import ranges

__all__ = ["Lines", "Tile", "TileCounter"]

Array: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Exactly: TypeAlias = Callable[[Ints, Ints], Floats]

_FIRST = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """Some gallery rows, in order of strata: the columns of tiles.

    Attributes
    ----------
    start : int
        The place of the first one among all rows that are counted.
    items : int64 array (n,)
        The gallery rows.
    edges : int64 array (n_parts + 1,)
        The bounds of the parts that lie in one stratum.
    strata : int64 array (n_parts,)
        The stratum of each part.
    """

    start: int
    items: Ints
    edges: Ints
    strata: Ints

    @classmethod
    def of(cls, columns: Ints, row_stratum: npt.NDArray[np.int32], start: int, stop: int) -> Tile:
        """Take some of the rows that are counted."""
        items = columns[start:stop]
        strata = row_stratum[items].astype(np.int64)
        first = np.r_[0, np.flatnonzero(np.diff(strata)) + 1]
        return cls(start, items, np.r_[first, len(items)], strata[first])

    @property
    def rows(self) -> Rows:
        """The gallery rows as a slice where they are consecutive."""
        first, last = int(self.items[0]), int(self.items[-1])
        consecutive = last - first + 1 == len(self.items) and (np.diff(self.items) == 1).all()
        return slice(first, last + 1) if consecutive else self.items

    def stratum_of(self, column: Ints) -> Ints:
        """Return the stratum of some columns."""
        if len(self.strata) == 1:
            return np.full(len(column), self.strata[0])
        return self.strata[np.searchsorted(self.edges, column, side="right") - 1]

    def parts(self) -> Iterator[tuple[slice, Tile]]:
        """Yield the columns of each part, and the part as a tile."""
        for (begin, end), stratum in zip(pairwise(self.edges.tolist()), self.strata, strict=True):
            own = np.array([stratum])
            part = Tile(self.start + begin, self.items[begin:end], np.array([0, end - begin]), own)
            yield slice(begin, end), part


class Lines:
    """The thresholds of some queries, which are the lines of a tile, and how they are counted.

    `resolve` takes rows and columns and returns queries, items, canonical scores and strata.
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
        resolve: Callable[[Ints, Ints], tuple[Ints, Ints, Floats, Ints]],
        axis: Literal[0, 1] = 0,
        tile: Tile | None = None,
    ) -> Array:
        """Count scores; the columns are all in the first stratum, or in those of a tile.

        Returns the largest score of each line.
        """
        low, high = self._around(margin, scores.dtype)
        edges, strata = (tile.edges, tile.strata) if tile is not None else (None, _FIRST)
        placed = self._kernels.place(scores, low, high, self._start, axis, edges)
        self._counter.add_bins(self.queries, placed.bins, strata)
        if len(placed.row):
            self._counter.add_exact(*resolve(placed.row, placed.column))
        return placed.best

    def _around(self, margin: Floats, kind: Any) -> tuple[Array, Array]:
        """Return the bounds of the thresholds, rounded outwards; kept for the next tile."""
        known = self._bounds
        if known is not None and known[1] == kind and np.array_equal(known[0], margin):
            return known[2], known[3]
        rounded = widened if kind == np.float32 and margin.all() else downwards
        low, high = np.empty((2, len(self._threshold)), kind)

        def bound(lines: slice, places: slice) -> None:
            spread = np.repeat(margin[lines], np.diff(self._start[lines.start : lines.stop + 1]))
            threshold = self._threshold[places]
            low[places] = rounded(threshold - spread, kind)
            np.negative(rounded(-(threshold + spread), kind), out=high[places])

        in_blocks(self._start, bound, workers=1)
        np.maximum(low, np.finfo(kind).min, out=low)  # what is taken out of a tile is -inf
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
        columns: Ints,
    ) -> None:
        self._source, self._groups, self._counter = source, groups, counter
        self._asking = asking
        self._offsets, self._place = judged.among(columns)
        self._care: Literal[0, 1] = 0
        self._lines = [Lines(groups, block, counter, source.kernels) for block in blocks]

    def prepare(self, number: int) -> Any:
        """Read and prepare a block of queries."""
        return self._source.queries(self._lines[number].queries)

    def count(
        self, tile: Tile, theirs: Any, blocks: Sequence[Any], buffer: Array | None = None
    ) -> None:
        """Count some prepared gallery rows for all prepared blocks of queries."""
        for lines, ours in zip(self._lines, blocks, strict=True):
            found = self._source.tile(ours, theirs, buffer, care=self._care)
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
        tiles = [_one_stratum(lines.queries) for lines in (ours, theirs)]
        found = self._source.tile(blocks[one], blocks[other], buffer, care=self._care)
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
        kernels = self._source.kernels

        def resolve(row: Ints, column: Ints) -> tuple[Ints, Ints, Floats, Ints]:
            line, place = (column, row) if axis else (row, column)
            query, item, stratum = (
                line + lines.queries.start, tile.items[place], tile.stratum_of(place)
            )  # fmt: skip
            if len(row) * self._source.dim > kernels.SHARE_FOR_CARE * found.scores.size:
                self._care = 1  # from the next tile on
            crowded = len(row) > kernels.SHARE_FOR_DOUBLE * found.scores.size
            if crowded and not self._source.exact and found.scores.dtype != np.float64:
                open_ = self._settle(lines, stratum, ours, theirs, row, column, axis)
                row, column, query, item, stratum = (
                    array[open_] for array in (row, column, query, item, stratum)
                )
            return query, item, self._source.exactly(ours, theirs, row, column), stratum

        best = lines.count(found.scores, margin, resolve, axis, tile)
        exactly = partial(self._source.exactly, ours, theirs)
        self._offer_top(lines.queries, tile, exactly, found.scores, best, margin, axis)

    def _settle(
        self, lines: Lines, stratum: Ints, ours: Any, theirs: Any, row: Ints, column: Ints,
        axis: Literal[0, 1],
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """Count what a product in float64 decides; return what is in doubt still."""
        wide = self._source.tile(ours, theirs, care=2)
        value = wide.scores[row, column]
        line = column if axis else row
        margin = (wide.column_margin if axis else wide.row_margin)[line]
        query = line + lines.queries.start
        start, end = self._groups.start[query], self._groups.start[query + 1]
        bisect, threshold = self._source.kernels.bisect, self._groups.score
        surely = bisect(threshold, start, end, np.nextafter(value - margin, -np.inf))
        perhaps = bisect(threshold, start, end, np.nextafter(value + margin, np.inf))
        open_ = surely != perhaps
        sure = ~open_
        self._counter.add_placed(query[sure], (surely - start)[sure], stratum[sure])
        return np.asarray(open_)

    def _judged_in(self, queries: slice, tile: Tile) -> tuple[Ints, Ints]:
        """Return row and column of the judged pairs in a tile of scores."""
        start = self._offsets[queries.start : queries.stop]
        end = self._offsets[queries.start + 1 : queries.stop + 1]
        bisect, stop = self._source.kernels.bisect, tile.start + len(tile.items)
        low = bisect(self._place, start, end, np.full(len(start), tile.start))
        size = bisect(self._place, low, end, np.full(len(start), stop)) - low
        return np.repeat(np.arange(len(start)), size), self._place[ranges(low, size)] - tile.start

    def _offer_top(
        self, queries: slice, tile: Tile, exactly: Exactly, scores: Array, best: Array,
        margin: Floats, axis: Literal[0, 1],
    ) -> None:  # fmt: skip
        """Offer what may belong to the top lists, scored canonically.

        `best` holds the largest score of each query.
        """
        asking = self._asking[queries][:, tile.strata]
        if len(tile.strata) > 1 and not asking.all():  # queries that leave some strata out
            for own, part in tile.parts():
                self._offer_top(queries, part, partial(_shifted, exactly, own.start),
                                scores[:, own], scores[:, own].max(axis=1), margin, axis)
            return
        k = self._counter.top_item.shape[1]
        floor = self._counter.floor_of_top(queries) - margin
        asking = asking[:, 0] & (best > -np.inf)
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
        score = exactly(row, column)
        self._counter.add_top(line + queries.start, tile.items[place], score)

    def _offer_negatives(self, tile: Tile, queries: slice, found: TileScores) -> None:
        """Offer what may belong to the pooled largest negative scores, scored canonically."""
        asks = self._asking[queries][:, tile.strata]
        rows = np.flatnonzero(asks.any(axis=1))
        part, margin = found.scores[rows], found.row_margin[rows]
        if not asks[rows].all():
            dropped = np.repeat(~asks[rows], np.diff(tile.edges), axis=1)
            part = np.where(dropped, np.array(-np.inf, part.dtype), part)
        wanted = self._counter.pairs_kept
        floor = np.full(len(rows), self._counter.floor_of_negatives) - margin
        if part.size > wanted:
            sure = np.partition(part - margin[:, None], part.size - wanted, axis=None)
            floor = np.maximum(floor, sure[part.size - wanted] - margin)
        place, column = np.nonzero((part >= floor[:, None]) & (part > -np.inf))
        query, item = rows[place] + queries.start, tile.items[column]
        self._counter.add_negatives(self._source.pairs(query, item))


def _shifted(exactly: Exactly, by: int, row: Ints, column: Ints) -> Floats:
    """Score places whose columns are counted from a later one."""
    return exactly(row, column + by)


def _one_stratum(rows: slice) -> Tile:
    """Return consecutive rows as a tile."""
    edges = np.array([0, rows.stop - rows.start])
    return Tile(rows.start, np.arange(rows.start, rows.stop), edges, _FIRST)


def _kth_largest(lines: Array, k: int) -> Array:
    """Return the k-th largest value of each line, or -inf where there are fewer."""
    if lines.shape[1] < k:
        return np.full(len(lines), -np.inf, lines.dtype)
    place = lines.shape[1] - k
    return np.asarray(np.partition(lines, place, axis=1)[:, place])


def widened(values: Floats, kind: Any) -> Array:
    """Round float64 to float32, downwards by a unit in the last place or two, quickly.

    What is taken off first is more than rounding to the nearest number can add: 2^-24 of the
    value, or half the smallest number.
    """
    least = np.abs(values)
    least *= -(2.0**-23)
    least -= 2.0**-148
    with np.errstate(over="ignore"):
        least += values
        rounded = least.astype(kind)
    return np.asarray(np.minimum(rounded, np.finfo(kind).max, out=rounded))


def downwards(values: Floats, kind: Any) -> Array:
    """Round float64 to a type, never upwards."""
    with np.errstate(over="ignore"):
        rounded = values.astype(kind)
        too_large = rounded > values
        rounded[too_large] = np.nextafter(rounded[too_large], np.array(-np.inf, kind))
    return np.asarray(rounded)
