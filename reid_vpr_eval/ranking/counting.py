"""Counting: for each threshold of each query, how many unjudged items lie above or tie."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.counts import best_first
from reid_vpr_eval.ranking.judged import Groups, Judged

__all__ = ["Counter", "bisect"]


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
    ) -> None:
        n_query, n_groups = len(groups.start) - 1, len(groups.score)
        self._groups = groups
        self._tie = np.empty_like(tie)
        self._tie[np.argsort(tie, kind="stable")] = np.arange(len(tie))
        # One bin more than thresholds a query: bin k holds items above exactly k of them.
        self._bins = np.zeros((n_groups + n_query, n_strata), np.int64)
        self._tied = np.zeros((n_groups, n_strata), np.int64)
        self._before = np.zeros((len(judged.item), n_strata), np.int64)
        self._judged = judged
        self._by_key: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
        self.top_item = np.full((n_query, top_k), -1, np.int64)
        self.top_score = np.full((n_query, top_k), -np.inf)
        self.pairs_kept = pairs_kept
        self._negatives = np.empty(0)
        self._lock = threading.Lock()

    def add_bins(self, queries: slice, bins: npt.NDArray[np.int64], stratum: int) -> None:
        """Add the bins of consecutive queries, as inner loops return them."""
        start = self._groups.start
        places = slice(start[queries.start] + queries.start, start[queries.stop] + queries.stop)
        with self._lock:
            self._bins[places, stratum] += bins

    def add_placed(
        self, query: npt.NDArray[np.int64], above: npt.NDArray[np.int64], stratum: int
    ) -> None:
        """Add single items that are above so many thresholds of their query and tie with none."""
        place = self._groups.start[query] + above + query
        with self._lock:
            np.add.at(self._bins[:, stratum], place, 1)

    def add_exact(
        self,
        query: npt.NDArray[np.int64],
        item: npt.NDArray[np.int64],
        score: npt.NDArray[np.float64],
        stratum: int,
    ) -> None:
        """Add single items by their canonical scores."""
        start, end = self._groups.start[query], self._groups.start[query + 1]
        place = bisect(self._groups.score, start, end, score)
        tie = place < end
        tie[tie] = self._groups.score[place[tie]] == score[tie]
        with self._lock:
            np.add.at(self._bins[:, stratum], place + query, 1)
            self._add_ties(place[tie], item[tie], stratum)

    def _add_ties(
        self, group: npt.NDArray[np.int64], item: npt.NDArray[np.int64], stratum: int
    ) -> None:
        if not len(group):
            return
        np.add.at(self._tied[:, stratum], group, 1)
        size = len(self._tie)
        pair, pair_key = self._pairs_by_key()
        key = np.sort(group * size + self._tie[item])
        touched = np.unique(group)
        low = np.searchsorted(pair_key, touched * size)
        high = np.searchsorted(pair_key, (touched + 1) * size)
        for begin, end, base in zip(low, high, touched * size, strict=True):
            earlier = np.searchsorted(key, pair_key[begin:end])
            self._before[pair[begin:end], stratum] += earlier - np.searchsorted(key, base)

    def _pairs_by_key(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the counted pairs by threshold and tie order; made when the first tie is met."""
        if self._by_key is None:
            of_pair = self._groups.of_pair
            pair = np.flatnonzero(of_pair >= 0)
            key = of_pair[pair] * len(self._tie) + self._tie[self._judged.item[pair]]
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
        self,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return above, tied and tied_before of every pair, (n_pairs, S)."""
        start, of_pair = self._groups.start, self._groups.of_pair
        n_query = len(start) - 1
        query_of_group = np.repeat(np.arange(n_query), np.diff(start))
        # Sum of the bins after each threshold: the total of the query less the bins up to it.
        running = np.cumsum(self._bins, axis=0)
        place = np.arange(len(self._tied)) + query_of_group
        last = start[query_of_group + 1] + query_of_group
        above = running[last] - running[place]
        out = []
        for counts in (above, self._tied):
            spread = counts[np.maximum(of_pair, 0)] if len(counts) else np.zeros_like(self._before)
            out.append(np.where(of_pair[:, None] >= 0, spread, 0).astype(np.uint32))
        return out[0], out[1], self._before.astype(np.uint32)


def bisect(
    values: npt.NDArray[Any],
    start: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    wanted: npt.NDArray[Any],
) -> npt.NDArray[np.int64]:
    """Return, in each ascending segment, the first position with a value >= wanted."""
    low, high = start.copy(), end.copy()
    steps = int((end - start).max()).bit_length() if len(start) else 0
    for _ in range(steps):
        open_ = low < high
        middle = (low + high) // 2
        smaller = np.zeros(len(low), bool)
        smaller[open_] = values[middle[open_]] < wanted[open_]
        low = np.where(open_ & smaller, middle + 1, low)
        high = np.where(open_ & ~smaller, middle, high)
    return low
