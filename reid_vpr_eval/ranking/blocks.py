"""Counting in blocks: an image with its captions, an identity with its images, a panorama.

Whoever draws distractors block by block needs to know, for each judged item, how many blocks
have so many of their items above it. Blocks that hold a judged item are judged whole; of the
others a histogram is kept.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.ranking.counting import Bisect
from reid_vpr_eval.ranking.histograms import Histograms, Tally
from reid_vpr_eval.ranking.judged import Groups, Judged
from reid_vpr_eval.ranking.layout import Layout
from reid_vpr_eval.ranking.schedule import Buffers, Sizes, run_all
from reid_vpr_eval.ranking.sources import Source, TileScores
from reid_vpr_eval.ranking.tiles import downwards

__all__ = ["count_blocks", "unjudged_blocks"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def count_blocks(
    source: Source | None,
    judged: Judged,
    groups: Groups,
    codes: Ints,
    columns: Ints,
    keeps: Bools,
    layout: Layout,
    sizes: Sizes,
) -> Histograms:
    """Return the histograms of the blocks among `columns` that hold no judged item.

    Parameters
    ----------
    source : Source
        Where scores come from.
    judged, groups : Judged, Groups
        The judged pairs, every member of their blocks among them, and their thresholds.
    codes : int64 array (n_gallery,)
        The block of each gallery row.
    columns : int64 array
        The rows to be counted, in whole blocks.
    keeps : bool array (n_query, S)
        The strata in which each query finds something.
    """
    if source is None:
        raise NotCountedError("blocks are not counted in ranked lists: give features or a matrix")
    counter = _Counter(groups, judged, codes, keeps, _strata_of(codes, columns, keeps, layout))
    step = -(-len(keeps) // -(-len(keeps) // sizes.rows))
    queries = [slice(a, min(a + step, len(keeps))) for a in range(0, len(keeps), step)]
    prepared: list[Any] = [None] * len(queries)

    def prepare(number: int, _: Any) -> None:
        prepared[number] = source.queries(queries[number])

    run_all(range(len(queries)), prepare, sizes.workers)
    tiles, vectors = Buffers(step * sizes.columns), Buffers(sizes.columns * source.dim)

    def count(items: Ints, read: Any) -> None:
        fits = len(items) <= sizes.columns  # one block may be larger
        theirs = source.columns(items, read, vectors.mine() if fits else None)
        work = _Part(counter, items, codes[items], layout.row_stratum[items])
        for rows, ours in zip(queries, prepared, strict=True):
            work.count(source, rows, ours, theirs, tiles.mine() if fits else None)

    fetch = source.fetch if source.streams else None
    run_all(_parts(columns, codes, sizes.columns), count, sizes.workers, fetch=fetch)
    return counter.histograms().spread(groups.of_pair)


def unjudged_blocks(
    judged: Judged, codes: Ints, columns: Ints, keeps: Bools, layout: Layout
) -> Ints:
    """Count the blocks with a kept item and no judged one, (n_query, S + 1).

    The last column is for blocks whose kept items lie in several strata.
    """
    pattern, table = _strata_of(codes, columns, keeps, layout)
    n_query, n_strata = keeps.shape
    out = np.zeros((n_query, n_strata + 1), np.int64)
    for number, strata in enumerate(table):
        held = np.bincount(strata[strata >= 0], minlength=n_strata + 1)
        out[pattern == number] = held
    n_blocks = table.shape[1]
    touched = np.unique(judged.query * n_blocks + codes[judged.item])
    query, block = np.divmod(touched, n_blocks)
    stratum = table[pattern[query], block]
    np.subtract.at(out, (query[stratum >= 0], stratum[stratum >= 0]), 1)
    return out


def _strata_of(
    codes: Ints, columns: Ints, keeps: Bools, layout: Layout
) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Return the pattern of strata of each query, and the stratum of each block by pattern.

    The stratum is -1 if no row of the block is kept, and S if kept rows lie in several.
    """
    masks, pattern = np.unique(keeps, axis=0, return_inverse=True)
    n_blocks, n_strata = int(codes.max()) + 1, keeps.shape[1]
    table = np.empty((len(masks), n_blocks), np.int32)
    of_row = layout.row_stratum
    for number, mask in enumerate(masks):
        rows = columns[mask[of_row[columns]]]
        lowest = np.full(n_blocks, n_strata, np.int32)
        highest = np.full(n_blocks, -1, np.int32)
        np.minimum.at(lowest, codes[rows], of_row[rows])
        np.maximum.at(highest, codes[rows], of_row[rows])
        table[number] = np.where(highest < 0, -1, np.where(lowest < highest, n_strata, highest))
    return pattern.ravel(), table


def _parts(columns: Ints, codes: Ints, wanted: int) -> list[Ints]:
    """Cut rows into parts of whole blocks, of about so many rows; each part ascends."""
    by_block = columns[np.argsort(codes[columns], kind="stable")]
    edges = np.flatnonzero(np.r_[True, np.diff(codes[by_block]) != 0, True])
    parts, begin = [], 0
    while begin < len(by_block):
        place = int(np.searchsorted(edges, begin + wanted, side="right")) - 1
        end = int(edges[place])
        if end <= begin:
            end = int(edges[np.searchsorted(edges, begin, side="right")])
        parts.append(np.sort(by_block[begin:end]))
        begin = end
    return parts


class _Counter:
    """What parts of the gallery add up to; safe to use from several threads.

    The k-th best item of a block, if it is above exactly p thresholds, makes each of these p
    histograms hold one more block with at least k items above. So it is enough to count how
    often a p occurs with a k. Ties are few, and are counted one by one.
    """

    def __init__(
        self, groups: Groups, judged: Judged, codes: Ints, keeps: Bools, strata: tuple[Ints, Any]
    ) -> None:
        self.groups, self.judged, self.codes, self.keeps = groups, judged, codes, keeps
        self.pattern, self.table = strata
        self._steps, self._ties = Tally(4), Tally(4)
        self._lock = threading.Lock()

    def add(self, query: Ints, block: Ints, place: Ints, tie: Bools) -> None:
        """Add items of whole blocks: above so many thresholds of a query, and tied or not."""
        order = np.lexsort((-place, block, query))
        query, block, place, tie = query[order], block[order], place[order], tie[order]
        stratum = self.table[self.pattern[query], block].astype(np.int64)
        number = np.arange(len(query))
        new = np.ones(len(query), bool)
        new[1:] = (query[1:] != query[:-1]) | (block[1:] != block[:-1])
        level = number - number[new][np.cumsum(new) - 1] + 1
        new[1:] |= place[1:] != place[:-1]
        higher = level[new][np.cumsum(new) - 1] - 1  # items of the block at a higher place
        up = place > 0
        tied = np.flatnonzero(tie)
        threshold = self.groups.start[query[tied]] + place[tied]
        first = np.ones(len(tied), bool)
        first[1:] = (threshold[1:] != threshold[:-1]) | (block[tied][1:] != block[tied][:-1])
        size = np.diff(np.r_[np.flatnonzero(first), len(tied)])
        one = tied[first]
        with self._lock:
            self._steps.add(query[up], stratum[up], level[up], place[up])
            self._ties.add(threshold[first], stratum[one], higher[one], size)

    def histograms(self) -> Histograms:
        """Return the histogram of each threshold."""
        owner, stratum, above, count = self._without_ties()
        threshold, tie_stratum, higher, size, often = self._ties.rows()
        zero = np.zeros(len(owner), np.int64)
        return Histograms.gathered(
            len(self.groups.score),
            np.concatenate([owner, threshold, threshold]),
            np.concatenate([stratum, tie_stratum, tie_stratum]),
            np.concatenate([above, higher, higher]),
            np.concatenate([zero, size, 0 * size]),
            np.concatenate([count, often, -often]),
        )

    def _without_ties(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return threshold, stratum, items above and blocks, whatever ties."""
        query, stratum, level, place, often = self._steps.rows()
        found: list[tuple[Ints, ...]] = [(np.empty(0, np.int64),) * 4]
        bounds = np.searchsorted(query, np.arange(len(self.keeps) + 1))
        for asking in np.unique(query).tolist():
            mine = slice(bounds[asking], bounds[asking + 1])
            base = self.groups.start[asking]
            n = int(self.groups.start[asking + 1] - base)
            new = np.ones(mine.stop - mine.start, bool)
            new[1:] = np.any([np.diff(a[mine]) != 0 for a in (stratum, level)], axis=0)
            column = np.cumsum(new) - 1
            bins = np.zeros((n + 1, int(column[-1]) + 2), np.int64)
            bins[place[mine], column] = often[mine]
            reach = bins[:0:-1].cumsum(axis=0)[::-1]  # blocks with an item above threshold j
            strata, levels = stratum[mine][new], level[mine][new]
            goes_on = np.r_[(strata[1:] == strata[:-1]) & (levels[1:] == levels[:-1] + 1), False]
            exactly = reach[:, :-1] - reach[:, 1:] * goes_on
            row, place_of = np.nonzero(exactly)
            found.append((base + row, strata[place_of], levels[place_of],
                          exactly[row, place_of]))  # fmt: skip
        owner, strata_of, above, count = (np.concatenate(a) for a in zip(*found, strict=True))
        return owner, strata_of, above, count


class _Part:
    """Some whole blocks, counted against blocks of queries."""

    def __init__(
        self, counter: _Counter, items: Ints, block: Ints, stratum: npt.NDArray[np.int32]
    ) -> None:
        self._counter, self._items, self._block, self._stratum = counter, items, block, stratum
        item = counter.judged.item
        place = np.minimum(np.searchsorted(items, item), len(items) - 1)
        self._pair = np.flatnonzero(items[place] == item)
        self._column = place[self._pair]

    def count(
        self, source: Source, rows: slice, ours: Any, theirs: Any, buffer: Array | None
    ) -> None:
        """Count all blocks for some queries."""
        counter, groups = self._counter, self._counter.groups
        tile = source.tile(ours, theirs, buffer)
        query = counter.judged.query[self._pair]
        mine = slice(*np.searchsorted(query, [rows.start, rows.stop]))
        tile.scores[query[mine] - rows.start, self._column[mine]] = -np.inf
        keeps = counter.keeps[rows]
        if not keeps.all():
            tile.scores[~keeps[:, self._stratum]] = -np.inf
        start, end = groups.start[rows], groups.start[rows.start + 1 : rows.stop + 1]
        asks = np.flatnonzero(end > start)
        least = np.full(len(start), np.inf, tile.scores.dtype)
        low = groups.score[start[asks]] - tile.row_margin[asks]
        least[asks] = downwards(np.nextafter(low, -np.inf), least.dtype)
        np.maximum(least, np.finfo(least.dtype).min, out=least)
        row, column = source.kernels.at_least(tile.scores, least, 0)
        place, tie = self._places(source, ours, theirs, tile, rows, row, column)
        some = tie | (place > 0)
        row, column = row[some], column[some]
        counter.add(row + rows.start, self._block[column], place[some], tie[some])

    def _places(
        self, source: Source, ours: Any, theirs: Any, tile: TileScores, rows: slice, row: Ints,
        column: Ints,
    ) -> tuple[Ints, Bools]:  # fmt: skip
        """Return how many thresholds each score is above, and whether it ties with the next."""
        groups = self._counter.groups
        start, end = groups.start[row + rows.start], groups.start[row + rows.start + 1]
        bisect = source.kernels.bisect
        place, open_ = self._sure(bisect, tile, row, column, start, end)
        crowded = np.count_nonzero(open_) > source.kernels.SHARE_FOR_DOUBLE * tile.scores.size
        if crowded and not source.exact and tile.scores.dtype != np.float64:
            wide = source.tile(ours, theirs, care=2)
            left = np.flatnonzero(open_)
            place[left], open_[left] = self._sure(bisect, wide, row[left], column[left],
                                                  start[left], end[left])  # fmt: skip
        left = np.flatnonzero(open_)
        tie = np.zeros(len(row), bool)
        if len(left):
            score = source.exactly(ours, theirs, row[left], column[left])
            at = bisect(groups.score, start[left], end[left], score)
            place[left] = at
            inside = at < end[left]
            tie[left[inside]] = groups.score[at[inside]] == score[inside]
        return place - start, tie

    def _sure(
        self, bisect: Bisect, tile: TileScores, row: Ints, column: Ints, start: Ints, end: Ints
    ) -> tuple[Ints, Bools]:
        """Return the place of each score among the thresholds, and which ones are in doubt."""
        value = tile.scores[row, column].astype(np.float64)
        margin, score = tile.row_margin[row], self._counter.groups.score
        surely = bisect(score, start, end, np.nextafter(value - margin, -np.inf))
        perhaps = bisect(score, start, end, np.nextafter(value + margin, np.inf))
        return surely, surely != perhaps
