"""Views of a reading: the few questions that every metric is made of.

A metric never looks at ranks. It asks a view how many positives stand among the first k,
where the first and the last one stand, or for a sum over positives, and each view answers
for one way of ordering equal scores: `Ordered` for a definite order, `Expected` for the
exact mean over all random orders inside tie groups.

The closed forms are those of McSherry and Najork (ECIR 2008) for hits and sums over
positives, and of the negative hypergeometric distribution for first and last positives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.reading import Reading

__all__ = ["Expected", "Ordered", "View", "view_of"]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Cut: TypeAlias = int | Ints
OfRank: TypeAlias = Callable[[Floats], Floats]

_POSITIONS_AT_ONCE = 1 << 21


class View(ABC):
    """What a metric may ask; every answer is a float64 array of length n_query.

    `unknown` collects the queries whose answers would depend on positives that were not
    returned; the answers given count such positives as never found.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.n_positive = reading.n_positive
        self.size = reading.size
        self.unknown = np.zeros(reading.n_query, bool)

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
    def first(self, of_rank: OfRank, missing: Floats | float) -> Floats:
        """Return the mean of a function of the rank of the first positive."""

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

    def _needs_all(self) -> None:
        if self.reading.only_first:
            raise NotCountedError(
                "only the first positive of each query was counted (keep='first'): rank with "
                "keep='all' for this metric"
            )

    def _mark(self, k: Cut | None) -> None:
        short = self.reading.n_missing > 0
        self.unknown |= short if k is None else short & (np.asarray(k) > self.size)

    def _cut(self, k: Cut) -> Ints:
        """Return k for each group."""
        return np.asarray(np.broadcast_to(k, self.reading.n_query)[self.reading.query])

    def _sum(self, query: Ints, values: Floats) -> Floats:
        """Add values up by query, in their order."""
        sums = np.bincount(query, weights=values, minlength=self.reading.n_query)
        return sums.astype(np.float64)

    def _ends(self, last: bool) -> Ints:
        """Return the first or last group of each query that has any."""
        query = self.reading.query
        edge = np.ones(len(query), bool)
        if last:
            edge[:-1] = query[1:] != query[:-1]
        else:
            edge[1:] = query[1:] != query[:-1]
        return np.flatnonzero(edge)

    def _fill(self, groups: Ints, values: Floats, missing: Floats | float) -> Floats:
        out = np.array(np.broadcast_to(np.asarray(missing, float), self.reading.n_query))
        out[self.reading.query[groups]] = values
        return out


class Ordered(View):
    """A definite order inside tie groups: positives first, last, or in tie order."""

    def __init__(
        self, reading: Reading, order: Literal["optimistic", "pessimistic", "index"]
    ) -> None:
        super().__init__(reading)
        size = reading.right
        self._query = np.repeat(reading.query, size)
        within = np.arange(len(self._query)) - np.repeat(np.cumsum(size) - size, size)
        self._number = (np.repeat(reading.right_before, size) + within + 1).astype(float)
        if order == "index":
            rank = reading.index_rank
        else:
            shift = reading.before + (0 if order == "optimistic" else reading.items - size)
            rank = np.repeat(shift, size) + within + 1
        self._rank = rank.astype(float)

    def any_hit(self, k: Cut) -> Floats:
        """Return 1 where a positive stands among the first k items, else 0."""
        rank = self.first(lambda p: p, np.inf)
        hit = rank <= np.asarray(k)
        self.unknown |= (self.reading.n_missing > 0) & ~hit & (np.asarray(k) > self.size)
        return hit.astype(float)

    def hits(self, k: Cut) -> Floats:
        """Return the number of positives among the first k items."""
        self._needs_all()
        self._mark(k)
        return self._sum(self._query, (self._rank <= self._broadcast(k)).astype(float))

    def first(self, of_rank: OfRank, missing: Floats | float) -> Floats:
        """Return a function of the rank of the first positive."""
        if not np.isscalar(missing) or missing != np.inf:
            self.unknown |= self.reading.n_missing == np.maximum(self.n_positive, 1)
        return self._edge(of_rank, missing, last=False)

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

    def _broadcast(self, k: Cut) -> Ints:
        return np.asarray(np.broadcast_to(k, self.reading.n_query)[self._query])

    def _edge(self, of_rank: OfRank, missing: Floats | float, *, last: bool) -> Floats:
        edge = np.ones(len(self._query), bool)
        if last:
            edge[:-1] = self._query[1:] != self._query[:-1]
        else:
            edge[1:] = self._query[1:] != self._query[:-1]
        out = np.array(np.broadcast_to(np.asarray(missing, float), self.reading.n_query))
        out[self._query[edge]] = of_rank(self._rank[edge])
        return out


class Expected(View):
    """The exact mean over uniformly random orders inside tie groups."""

    def any_hit(self, k: Cut) -> Floats:
        """Return the chance of a positive among the first k: 1 - C(n-r, t) / C(n, t)."""
        groups = self._ends(last=False)
        n, r = self.reading.items[groups], self.reading.right[groups]
        t = np.clip(self._cut(k)[groups] - self.reading.before[groups], 0, n)
        more, fewer = np.maximum(r, t), np.minimum(r, t)
        none = np.ones(len(groups))
        for i in range(int(fewer.max(initial=0))):
            open_ = np.flatnonzero(fewer > i)
            none[open_] *= (n[open_] - more[open_] - i) / (n[open_] - i)
        hit = self._fill(groups, 1.0 - none, 0.0)
        self.unknown |= (self.reading.n_missing > 0) & (hit < 1) & (np.asarray(k) > self.size)
        return hit

    def hits(self, k: Cut) -> Floats:
        """Return the mean number of positives among the first k: sum of t r / n."""
        self._needs_all()
        self._mark(k)
        group = self.reading
        t = np.clip(self._cut(k) - group.before, 0, group.items)
        return self._sum(group.query, t * group.right / group.items)

    def first(self, of_rank: OfRank, missing: Floats | float) -> Floats:
        """Return the mean of a function of the rank of the first positive."""
        groups = self._ends(last=False)
        self.unknown |= self.reading.n_missing == np.maximum(self.n_positive, 1)
        before = self.reading.before[groups]
        values = self._over_first(groups, lambda j, g: of_rank((before[g] + j).astype(float)))
        return self._fill(groups, values, missing)

    def first_rank(self, missing: Floats | float) -> Floats:
        """Return the mean rank of the first positive: N + (n + 1) / (r + 1)."""
        groups = self._ends(last=False)
        self.unknown |= self.reading.n_missing == np.maximum(self.n_positive, 1)
        group = self.reading
        values = group.before[groups] + (group.items[groups] + 1) / (group.right[groups] + 1)
        return self._fill(groups, values, missing)

    def last(self, of_rank: OfRank, missing: Floats | float) -> Floats:
        """Return the mean of a function of the rank of the last positive.

        By symmetry the last positive stands as far from the end of its group as the first
        one from its beginning.
        """
        self._needs_all()
        self._mark(None)
        groups = self._ends(last=True)
        end = self.reading.before[groups] + self.reading.items[groups] + 1
        # `values` are asked for all groups still open; of_rank sees ranks of these only.
        values = self._over_first(groups, lambda j, g: of_rank((end[g] - j).astype(float)))
        out = self._fill(groups, values, missing)
        return np.where(self.reading.n_missing > 0, missing, out)

    def total(self, slope: OfRank, offset: OfRank | None = None, k: Cut | None = None) -> Floats:
        """Return the mean sum over positives.

        A given place i of a group of n items holds a positive with the chance r / n; then
        its mean number is R + 1 + (i - 1)(r - 1)/(n - 1).
        """
        self._needs_all()
        self._mark(k)
        group = self.reading
        length = group.items
        if k is not None:
            length = np.clip(self._cut(k) - group.before, 0, group.items)
        alike = np.stack([group.before, group.items, group.right, group.right_before, length])
        first, same = _distinct(alike)
        sums = np.zeros(len(first))
        for part in _parts(length[first]):
            sums[part] = self._total_of(first[part], length[first[part]], slope, offset)
        return self._sum(group.query, sums[same] * (group.right / group.items))

    def _total_of(
        self, groups: Ints, length: Ints, slope: OfRank, offset: OfRank | None
    ) -> Floats:
        group = self.reading
        number = np.repeat(np.arange(len(length)), length)
        place = np.arange(len(number)) - np.repeat(np.cumsum(length) - length, length)
        rank = (group.before[groups][number] + place + 1).astype(float)
        step = (group.right[groups] - 1) / np.maximum(group.items[groups] - 1, 1)
        mean_number = group.right_before[groups][number] + 1 + place * step[number]
        terms = slope(rank) * mean_number
        if offset is not None:
            terms = terms + offset(rank)
        return np.bincount(number, weights=terms, minlength=len(length)).astype(np.float64)

    def _over_first(self, groups: Ints, value: Callable[[int, Ints], Floats]) -> Floats:
        """Return the mean of value(j, ...) over the place j of the first of r among n.

        P(first at j) = C(n - j, r - 1) / C(n, r), by its recurrence. `value` gets the place
        and which of the groups it is asked for.
        """
        alike = np.stack([a[groups] for a in (self.reading.before, self.reading.items,
                                              self.reading.right)])  # fmt: skip
        first, same = _distinct(alike)
        n, r = alike[1, first], alike[2, first]
        longest = n - r + 1
        order = np.argsort(-longest, kind="stable")
        n, r, ascending = n[order], r[order], longest[order][::-1]
        survival = np.ones(len(n))
        mean = np.zeros(len(n))
        for j in range(1, int(longest.max(initial=0)) + 1):
            open_ = len(n) - int(np.searchsorted(ascending, j, side="left"))
            left = n[:open_] - j + 1
            chance = survival[:open_] * (r[:open_] / left)
            mean[:open_] += chance * value(j, first[order[:open_]])
            survival[:open_] *= (left - r[:open_]) / left
        out = np.empty(len(n))
        out[order] = mean
        return out[same]


def view_of(reading: Reading, ties: str) -> View:
    """Return the view for one of the tie policies."""
    if ties == "expected":
        return Expected(reading)
    return Ordered(reading, ties)  # type: ignore[arg-type]


def _distinct(columns: Ints) -> tuple[Ints, Ints]:
    """Find columns that are alike: where each distinct one stands first, and which each is.

    Single items are taken as they are: only larger groups are worth a search.
    """
    large = np.flatnonzero(columns[1] > 1)
    first = np.arange(columns.shape[1])
    if len(large):
        _, places, same = np.unique(
            columns[:, large], axis=1, return_index=True, return_inverse=True
        )
        first[large] = large[places][same.ravel()]
    kept, number = np.unique(first, return_inverse=True)
    return kept, number


def _parts(length: Ints) -> list[slice]:
    """Cut groups into runs of a bounded number of positions."""
    parts, start, total = [], 0, np.cumsum(length)
    while start < len(length):
        done = total[start - 1] if start else 0
        end = int(np.searchsorted(total, done + _POSITIONS_AT_ONCE, side="right"))
        parts.append(slice(start, max(start + 1, end)))
        start = max(start + 1, end)
    return parts
