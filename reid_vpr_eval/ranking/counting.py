"""Counting: for each threshold of each query, how many unjudged items lie above or tie."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.counts import best_first
from reid_vpr_eval.ranking.judged import Groups, Judged, in_blocks
from reid_vpr_eval.ranking.kernels import plain
from reid_vpr_eval.relevance.pairs import ranges

__all__ = ["Bisect", "Counter"]

Bisect: TypeAlias = Callable[
    [npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[Any]],
    npt.NDArray[np.int64],
]


class Counter:
    """Adds up what tiles and single items contribute; safe to use from several threads.

    Items are counted in two ways. `add_bins` takes finished numbers of items that lie above
    exactly so many thresholds of some queries. `add_exact` takes single items with canonical
    scores and places them among all thresholds of their query.
    """

    def __init__(
        self,
        judged: Judged,
        groups: Groups,
        tie: npt.NDArray[np.int64],
        n_strata: int,
        top_k: int,
        pairs_kept: int = 0,
        bisect: Bisect = plain.bisect,
    ) -> None:
        n_query, n_groups = len(groups.start) - 1, len(groups.score)
        self._groups, self._bisect = groups, bisect
        self._tie = np.empty_like(tie)
        self._tie[np.argsort(tie, kind="stable")] = np.arange(len(tie))
        # One bin more than thresholds a query: bin k holds items above exactly k of them.
        self._bins = np.zeros((n_strata, n_groups + n_query), np.uint32)
        self._tied = np.zeros((n_strata, n_groups), np.uint32)
        self._any_tied = False
        self._before = np.zeros((n_strata, len(judged.item)), np.uint32)
        self._judged = judged
        self._by_key: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
        self.top_item = np.full((n_query, top_k), -1, np.int64)
        self.top_score = np.full((n_query, top_k), -np.inf)
        self.pairs_kept = pairs_kept
        self._negatives = np.empty(0)
        self._lock = threading.Lock()

    def add_bins(
        self, queries: slice, bins: npt.NDArray[Any], strata: npt.NDArray[np.int64]
    ) -> None:
        """Add the bins of consecutive queries, a row for each stratum, as inner loops return."""
        start = self._groups.start
        places = slice(start[queries.start] + queries.start, start[queries.stop] + queries.stop)
        with self._lock:
            for own, stratum in zip(bins, strata.tolist(), strict=True):
                mine = self._bins[stratum, places]
                np.add(mine, own, out=mine, casting="unsafe")

    def add_placed(
        self,
        query: npt.NDArray[np.int64],
        above: npt.NDArray[np.int64],
        stratum: npt.NDArray[np.int64],
    ) -> None:
        """Add single items that are above so many thresholds of their query and tie with none."""
        place = self._groups.start[query] + above + query
        with self._lock:
            _add_one(self._bins, stratum, place)

    def add_exact(
        self,
        query: npt.NDArray[np.int64],
        item: npt.NDArray[np.int64],
        score: npt.NDArray[np.float64],
        stratum: npt.NDArray[np.int64],
    ) -> None:
        """Add single items by their canonical scores."""
        start, end = self._groups.start[query], self._groups.start[query + 1]
        place = self._bisect(self._groups.score, start, end, score)
        tie = place < end
        tie[tie] = self._groups.score[place[tie]] == score[tie]
        with self._lock:
            _add_one(self._bins, stratum, place + query)
            self._add_ties(place[tie], item[tie], stratum[tie])

    def _add_ties(
        self,
        group: npt.NDArray[np.int64],
        item: npt.NDArray[np.int64],
        stratum: npt.NDArray[np.int64],
    ) -> None:
        """Add items that tie with a threshold, and those that stand before its pairs."""
        if not len(group):
            return
        self._any_tied = True
        _add_one(self._tied, stratum, group)
        size, n_groups = len(self._tie), len(self._groups.score)
        pair, pair_key = self._pairs_by_key()
        cell = stratum * n_groups + group
        key = np.sort(cell * size + self._tie[item])
        cell = np.unique(cell)
        stratum, group = np.divmod(cell, n_groups)
        low = np.searchsorted(pair_key, group * size)
        n_pairs = np.searchsorted(pair_key, (group + 1) * size) - low
        mine = ranges(low, n_pairs)
        cell, stratum = np.repeat(cell, n_pairs), np.repeat(stratum, n_pairs)
        earlier = np.searchsorted(key, cell * size + pair_key[mine] % size)
        earlier -= np.searchsorted(key, cell * size)
        self._before[stratum, pair[mine]] += earlier.astype(np.uint32)

    def _pairs_by_key(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the counted pairs by threshold and tie order; made when the first tie is met."""
        if self._by_key is None:
            of_pair = self._groups.of_pair
            pair = np.flatnonzero(of_pair >= 0)
            tie = self._tie[self._judged.item[pair]]
            key = of_pair[pair].astype(np.int64) * len(self._tie) + tie
            order = np.argsort(key, kind="stable")
            self._by_key = pair[order], key[order]
        return self._by_key

    def floor_of_top(self, queries: slice) -> npt.NDArray[np.float64]:
        """Return the score that an item must reach to enter each query's top list."""
        return self.top_score[queries, -1]

    def add_top(
        self,
        query: npt.NDArray[np.int64],
        item: npt.NDArray[np.int64],
        score: npt.NDArray[np.float64],
    ) -> None:
        """Offer items for the top lists of their queries."""
        if not len(query):
            return
        with self._lock:
            touched, row = np.unique(query, return_inverse=True)
            k = self.top_item.shape[1]
            order = np.lexsort((self._tie[item], -score, row))
            row, item, score = row[order], item[order], score[order]
            first = np.searchsorted(row, np.arange(len(touched)))
            place = np.arange(len(row)) - first[row]
            enters = place < k
            items = np.full((len(touched), 2 * k), -1, np.int64)
            scores = np.full((len(touched), 2 * k), -np.inf)
            items[:, k:], scores[:, k:] = self.top_item[touched], self.top_score[touched]
            items[row[enters], place[enters]] = item[enters]
            scores[row[enters], place[enters]] = score[enters]
            top = best_first(items, scores, self._tie[items], k)
            self.top_item[touched], self.top_score[touched] = top[0], top[1]

    @property
    def floor_of_negatives(self) -> float:
        """The score that an unjudged pair must reach to be among the largest."""
        kept = self._negatives
        return float(kept[-1]) if len(kept) >= self.pairs_kept else -np.inf

    def add_negatives(self, score: npt.NDArray[np.float64]) -> None:
        """Offer scores of unjudged pairs for the pooled largest ones."""
        with self._lock:
            joined = np.sort(np.concatenate([self._negatives, score]))[::-1]
            self._negatives = joined[: self.pairs_kept]

    @property
    def largest_negatives(self) -> npt.NDArray[np.float64]:
        """The pooled largest scores of unjudged pairs, descending."""
        return self._negatives.copy()

    def result(
        self, workers: int = 1
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return above, tied and tied_before of every pair, (n_pairs, S)."""
        start, of_pair = self._groups.start, self._groups.of_pair
        n_strata = len(self._bins)
        above, tied = (np.zeros((len(of_pair), n_strata), np.uint32) for _ in range(2))

        def add_up(queries: slice, pairs: slice) -> None:
            own = start[queries.start : queries.stop + 1]
            query = np.repeat(np.arange(queries.start, queries.stop), np.diff(own))
            place = np.arange(len(query)) + query - queries.start
            last = start[query + 1] - own[0] + query - queries.start
            counted = np.flatnonzero(of_pair[pairs] >= 0)
            group = of_pair[pairs][counted] - own[0]
            counted += pairs.start
            bins = slice(own[0] + queries.start, own[-1] + queries.stop)
            for stratum in range(n_strata):
                # Sum of the bins after each threshold: the total of the query less those up to
                # it. (Sums of all queries may pass 2^32 and start at 0 again; their differences
                # do not.)
                running = np.cumsum(self._bins[stratum, bins], dtype=np.uint32)
                above[counted, stratum] = (running[last] - running[place])[group]
                if not self._any_tied:
                    continue  # memory that is not written to is not used
                tied[counted, stratum] = self._tied[stratum, own[0] : own[-1]][group]

        in_blocks(self._judged.offsets, add_up, workers)
        return above, tied, np.ascontiguousarray(self._before.T)


def _add_one(
    counts: npt.NDArray[np.uint32], row: npt.NDArray[np.int64], column: npt.NDArray[np.int64]
) -> None:
    """Add 1 at every place, as often as it is named; NumPy is far slower at two indices."""
    np.add.at(counts.reshape(-1), row * counts.shape[1] + column, np.uint32(1))
