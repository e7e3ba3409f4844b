"""Views of a reading: the few questions that every metric is made of.

A metric never looks at ranks. It asks a view how many positives stand among the first k,
where the first and the last one stand, or for a sum over positives, and each view answers
for one way of ordering equal scores: `Ordered` for a definite order, `Expected` for the
exact mean over all random orders inside tie groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.reading import Reading

__all__ = ["Cut", "Floats", "Ints", "OfGrade", "OfRank", "View"]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Cut: TypeAlias = int | Ints
OfRank: TypeAlias = Callable[[Floats], Floats]
OfGrade: TypeAlias = Callable[[Floats], Floats]


class View(ABC):
    """What a metric may ask; every answer is a float64 array of length n_query.

    `unknown` collects the queries whose answers would depend on positives that were not
    returned; the answers given count such positives as never found. `graded` gives the
    reading in which every graded item counts.
    """

    def __init__(
        self,
        reading: Reading,
        graded: Callable[[], Reading],
        grouped: Callable[[str], View] | None = None,
    ) -> None:
        self.reading = reading
        self.graded = graded
        self._grouped = grouped
        self.n_positive = reading.n_positive
        self.size = reading.size
        self.unknown = np.zeros(reading.n_query, bool)

    def by(self, column: str) -> View:
        """Return the view in which the items of a gallery column rank as one.

        Raises
        ------
        NotCountedError
            If groups of that column were not counted.
        """
        if self._grouped is None:
            raise NotCountedError(f"this view has no groups by {column}")
        return self._grouped(column)

    @property
    def end(self) -> Floats:
        """One past the last rank of each query."""
        return (self.size + 1).astype(np.float64)

    @abstractmethod
    def any_hit(self, k: Cut) -> Floats:
        """Return the chance of a positive among the first k items."""

    @abstractmethod
    def hits(self, k: Cut) -> Floats:
        """Return the number of positives among the first k items."""

    @abstractmethod
    def alone(self, k: Cut) -> Floats:
        """Return how many positives have fewer than k negatives before them."""

    @abstractmethod
    def first(self, of_rank: OfRank, missing: Floats | float, k: Cut | None = None) -> Floats:
        """Return the mean of a function of the rank of the first positive.

        Where there is none (with `k`: none among the first k), the answer is `missing`.
        """

    @abstractmethod
    def first_rank(self, missing: Floats | float) -> Floats:
        """Return the mean rank of the first positive."""

    @abstractmethod
    def last(self, of_rank: OfRank, missing: Floats | float) -> Floats:
        """Return the mean of a function of the rank of the last positive."""

    @abstractmethod
    def total(self, slope: OfRank, offset: OfRank | None = None, k: Cut | None = None) -> Floats:
        """Return the sum over positives j = 1, 2, ... at ranks p of slope(p) j + offset(p).

        With `k` only positives among the first k items are summed.
        """

    @abstractmethod
    def per_hit(self, slope: OfRank, offset: OfRank | None, k: int) -> Floats:
        """Return the mean of that sum among the first k, divided by the hits there."""

    @abstractmethod
    def precision_to_last(self, k: int) -> Floats:
        """Return the precision of the list cut at k or at the last positive, if earlier."""

    @abstractmethod
    def gain(self, of_grade: OfGrade, discount: OfRank, k: Cut | None) -> Floats:
        """Return the sum of gain times discount over graded items among the first k."""

    def ideal(self, of_grade: OfGrade, discount: OfRank, k: int | None) -> Floats:
        """Return the largest possible :meth:`gain`: all graded items in order of gain."""
        reading = self.graded()
        gain = of_grade(reading.all_grade)
        order = np.lexsort((-gain, reading.all_query))
        query = reading.all_query[order]
        rank = np.arange(len(query)) - np.searchsorted(query, query) + 1
        terms = gain[order] * discount(rank.astype(float))
        if k is not None:
            terms = np.where(rank <= k, terms, 0.0)
        return self._sum(query, terms)

    def _needs_all(self) -> None:
        if self.reading.only_first:
            raise NotCountedError(
                "only the first positive of each query was counted (keep='first'): rank with "
                "keep='all' for this metric"
            )

    def _mark(self, k: Cut | None) -> None:
        short = self.reading.n_missing > 0
        self.unknown |= short if k is None else short & (np.asarray(k) > self.size)

    def _mark_first(self, k: Cut | None) -> None:
        none = self.reading.n_missing == np.maximum(self.n_positive, 1)
        self.unknown |= none if k is None else none & (np.asarray(k) > self.size)

    def _cut(self, k: Cut) -> Ints:
        """Return k for each group."""
        return np.asarray(np.broadcast_to(k, self.reading.n_query)[self.reading.query])

    def _sum(self, query: Ints, values: Floats) -> Floats:
        """Add values up by query, in their order."""
        sums = np.bincount(query, weights=values, minlength=self.reading.n_query)
        return sums.astype(np.float64)

    def _fill(self, query: Ints, values: Floats, missing: Floats | float) -> Floats:
        out = np.array(np.broadcast_to(np.asarray(missing, float), self.reading.n_query))
        out[query] = values
        return out


def edges(query: Ints, *, last: bool) -> Ints:
    """Return where the runs of equal values start, or end."""
    edge = np.ones(len(query), bool)
    if last:
        edge[:-1] = query[1:] != query[:-1]
    else:
        edge[1:] = query[1:] != query[:-1]
    return np.flatnonzero(edge)
