"""The view of a definite order: positives first, last, or in tie order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.metrics.views import Cut, Floats, Ints, OfGrade, OfRank, View, edges

__all__ = ["Order", "Ordered"]

Order: TypeAlias = Literal["optimistic", "pessimistic", "index", "reversed"]


class Ordered(View):
    """A definite order inside tie groups.

    "optimistic" puts positives (and among them the highest grades) first in their group,
    "pessimistic" last; "index" and "reversed" read the tie order as it stands in the reading.
    """

    def __init__(
        self,
        reading: Reading,
        graded: Callable[[], Reading],
        order: Order,
        grouped: Callable[[str], View] | None = None,
    ) -> None:
        super().__init__(reading, graded, grouped)
        self._order = order
        self._query = reading.found_query
        within = _within(reading)
        self._number = (reading.right_before[reading.group_of_found] + within + 1).astype(float)
        rank = _ranks(reading, order)
        if order == "reversed":  # in a group the items stand in tie order: turn them round
            turn = np.lexsort((rank, self._query))
            rank = rank[turn]
        self._rank = rank.astype(float)

    def any_hit(self, k: Cut) -> Floats:
        """Return 1 where a positive stands among the first k items, else 0."""
        rank = self._edge(lambda p: p, np.inf, last=False)
        hit = rank <= np.asarray(k)
        self.unknown |= (self.reading.n_missing > 0) & ~hit & (np.asarray(k) > self.size)
        return hit.astype(float)

    def hits(self, k: Cut) -> Floats:
        """Return the number of positives among the first k items."""
        self._needs_all()
        self._mark(k)
        return self._sum(self._query, (self._rank <= self._broadcast(k)).astype(float))

    def alone(self, k: Cut) -> Floats:
        """Return how many positives have fewer than k negatives before them."""
        self._needs_all()
        self._mark(k)
        negatives = self._rank - self._number
        return self._sum(self._query, (negatives < self._broadcast(k)).astype(float))

    def first(self, of_rank: OfRank, missing: Floats | float, k: Cut | None = None) -> Floats:
        """Return a function of the rank of the first positive."""
        self._mark_first(k)
        value = self._edge(of_rank, missing, last=False)
        if k is None:
            return value
        return np.where(self._edge(lambda p: p, np.inf, last=False) <= k, value, missing)

    def first_rank(self, missing: Floats | float) -> Floats:
        """Return the rank of the first positive."""
        return self.first(lambda p: p, missing)

    def last(self, of_rank: OfRank, missing: Floats | float) -> Floats:
        """Return a function of the rank of the last positive."""
        self._needs_all()
        self._mark(None)
        value = self._edge(of_rank, missing, last=True)
        return np.where(self.reading.n_missing > 0, missing, value)

    def total(self, slope: OfRank, offset: OfRank | None = None, k: Cut | None = None) -> Floats:
        """Return the sum over positives of slope(rank) number + offset(rank)."""
        self._needs_all()
        self._mark(k)
        terms = slope(self._rank) * self._number
        if offset is not None:
            terms = terms + offset(self._rank)
        if k is not None:
            terms = np.where(self._rank <= self._broadcast(k), terms, 0.0)
        return self._sum(self._query, terms)

    def per_hit(self, slope: OfRank, offset: OfRank | None, k: int) -> Floats:
        """Return that sum among the first k, divided by the hits there (0 without one)."""
        return self.total(slope, offset, k) / np.maximum(self.hits(k), 1)

    def precision_to_last(self, k: int) -> Floats:
        """Return the precision of the list cut at k or at the last positive, if earlier."""
        self._mark(k)
        length = np.minimum(self._edge(lambda p: p, np.inf, last=True), k)
        missing = (self.reading.n_missing > 0) | (self.n_positive == 0)
        return self.hits(k) / np.where(missing, k, length)

    def gain(self, of_grade: OfGrade, discount: OfRank, k: Cut | None) -> Floats:
        """Return the sum of gain times discount over graded items among the first k."""
        self._needs_all()
        reading = self.graded()
        self.unknown |= (reading.n_missing > 0) & (k is None or np.asarray(k) > reading.size)
        gain = of_grade(reading.grade)
        rank = _ranks(reading, self._order)
        if self._order in ("optimistic", "pessimistic"):
            sign = -1 if self._order == "optimistic" else 1
            gain = gain[np.lexsort((sign * gain, reading.group_of_found))]
        terms = gain * discount(rank.astype(float))
        if k is not None:
            cut = np.broadcast_to(k, reading.n_query)[reading.found_query]
            terms = np.where(rank <= cut, terms, 0.0)
        return self._sum(reading.found_query, terms)

    def _broadcast(self, k: Cut) -> Ints:
        return np.asarray(np.broadcast_to(k, self.reading.n_query)[self._query])

    def _edge(self, of_rank: OfRank, missing: Floats | float, *, last: bool) -> Floats:
        edge = edges(self._query, last=last)
        return self._fill(self._query[edge], of_rank(self._rank[edge]), missing)


def _within(reading: Reading) -> Ints:
    """Number the positives of each group from 0."""
    size = reading.right
    return np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)


def _ranks(reading: Reading, order: Order) -> Ints:
    """Return the rank of each returned positive, group by group."""
    if order in ("index", "reversed"):
        return reading.index_rank
    shift = reading.before
    if order == "pessimistic":
        shift = shift + reading.items - reading.right
    return np.asarray(shift[reading.group_of_found] + _within(reading) + 1)
