"""The view of a random order: exact means over all orders inside tie groups.

The closed forms for hits and sums over positives are those of McSherry and Najork (ECIR
2008); first and last positives follow the negative hypergeometric distribution. n is the
number of items of a group, r of positives in it, N and R those of earlier groups.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.metrics.views import Cut, Floats, Ints, OfGrade, OfRank, View, edges

__all__ = ["Expected"]

_POSITIONS_AT_ONCE = 1 << 21


class Expected(View):
    """The exact mean over uniformly random orders inside tie groups."""

    def any_hit(self, k: Cut) -> Floats:
        """Return the chance of a positive among the first k: 1 - C(n-r, t) / C(n, t)."""
        groups = edges(self.reading.query, last=False)
        n, r = self.reading.items[groups], self.reading.right[groups]
        t = np.clip(self._cut(k)[groups] - self.reading.before[groups], 0, n)
        more, fewer = np.maximum(r, t), np.minimum(r, t)
        none = np.ones(len(groups))
        for i in range(int(fewer.max(initial=0))):
            open_ = np.flatnonzero(fewer > i)
            none[open_] *= (n[open_] - more[open_] - i) / (n[open_] - i)
        hit = self._fill(self.reading.query[groups], 1.0 - none, 0.0)
        self.unknown |= (self.reading.n_missing > 0) & (hit < 1) & (np.asarray(k) > self.size)
        return hit

    def hits(self, k: Cut) -> Floats:
        """Return the mean number of positives among the first k: sum of t r / n."""
        self._needs_all()
        self._mark(k)
        group = self.reading
        t = np.clip(self._cut(k) - group.before, 0, group.items)
        return self._sum(group.query, t * group.right / group.items)

    def alone(self, k: Cut) -> Floats:
        """Return the mean number of positives with fewer than k negatives before them.

        The negatives of its group before a positive are uniformly 0 to n - r.
        """
        self._needs_all()
        self._mark(k)
        group = self.reading
        places = group.items - group.right + 1
        open_ = np.clip(self._cut(k) - (group.before - group.right_before), 0, places)
        return self._sum(group.query, group.right * (open_ / places))

    def first(self, of_rank: OfRank, missing: Floats | float, k: Cut | None = None) -> Floats:
        """Return the mean of a function of the rank of the first positive."""
        self._mark_first(k)
        groups = edges(self.reading.query, last=False)
        before, query = self.reading.before[groups], self.reading.query[groups]
        if k is None:
            values = self._over_first(groups, lambda j, g: of_rank((before[g] + j).astype(float)))
            return self._fill(query, values, missing)
        cut = self._cut(k)[groups]
        other = np.broadcast_to(np.asarray(missing, float), self.reading.n_query)[query]

        def within(j: int, g: Ints) -> Floats:
            rank = (before[g] + j).astype(float)
            return np.where(rank <= cut[g], of_rank(rank), other[g])

        return self._fill(query, self._over_first(groups, within, distinct=False), missing)

    def first_rank(self, missing: Floats | float) -> Floats:
        """Return the mean rank of the first positive: N + (n + 1) / (r + 1)."""
        self._mark_first(None)
        group, groups = self.reading, edges(self.reading.query, last=False)
        values = group.before[groups] + (group.items[groups] + 1) / (group.right[groups] + 1)
        return self._fill(group.query[groups], values, missing)

    def last(self, of_rank: OfRank, missing: Floats | float) -> Floats:
        """Return the mean of a function of the rank of the last positive.

        By symmetry the last positive stands as far from the end of its group as the first
        one from its beginning.
        """
        self._needs_all()
        self._mark(None)
        groups = edges(self.reading.query, last=True)
        end = self.reading.before[groups] + self.reading.items[groups] + 1
        values = self._over_first(groups, lambda j, g: of_rank((end[g] - j).astype(float)))
        out = self._fill(self.reading.query[groups], values, missing)
        return np.where(self.reading.n_missing > 0, missing, out)

    def total(self, slope: OfRank, offset: OfRank | None = None, k: Cut | None = None) -> Floats:
        """Return the mean sum over positives.

        A given place i of a group holds a positive with the chance r / n; then its mean
        number is R + 1 + (i - 1)(r - 1)/(n - 1).
        """
        self._needs_all()
        self._mark(k)
        group = self.reading
        length = group.items if k is None else self._reach(group, k)
        sums = _group_sums(group, length, slope, offset)
        return self._sum(group.query, sums * (group.right / group.items))

    def per_hit(self, slope: OfRank, offset: OfRank | None, k: int) -> Floats:
        """Return the mean of that sum among the first k, divided by the hits there.

        Only a group that the cut goes through leaves the number of hits open; there it is
        hypergeometric, and given h hits the place i holds one with the chance h / t, its
        mean number being R + 1 + (i - 1)(h - 1)/(t - 1).
        """
        out = self.total(slope, offset, k) / np.maximum(self.hits(k), 1)
        group = self.reading
        length = self._reach(group, k)
        cut = (length > 0) & (length < group.items) & (group.right < group.items)
        if not cut.any():
            return out
        whole = np.where(length == group.items, length, 0)
        sums = _group_sums(group, whole, slope, offset)
        earlier = self._sum(group.query, sums * (group.right / group.items))
        for place in np.flatnonzero(cut).tolist():
            query = group.query[place]
            out[query] = self._cut_through(place, int(length[place]), slope, offset,
                                           earlier[query])  # fmt: skip
        return out

    def precision_to_last(self, k: int) -> Floats:
        """Return the mean precision of the list cut at k or at the last positive, if earlier."""
        self._needs_all()
        self._mark(k)
        hits = self.hits(k) / k
        group, groups = self.reading, edges(self.reading.query, last=True)
        before, n = group.before[groups], group.items[groups]
        r, earlier = group.right[groups], group.right_before[groups]

        def value(j: int, g: Ints) -> Floats:
            x = n[g] + 1 - j  # the place of the last positive in its group
            t = k - before[g]
            short = (earlier[g] + r[g]) / (before[g] + x)
            rest = (r[g] - 1) * np.clip(t, 0, None) / np.maximum(x - 1, 1)
            return np.where(x <= t, short, (earlier[g] + rest) / k)

        inside = (before < k) & (group.n_missing[group.query[groups]] == 0)
        chosen = groups[inside]
        before, n, r, earlier = before[inside], n[inside], r[inside], earlier[inside]
        hits[group.query[chosen]] = self._over_first(chosen, value)
        return hits

    def gain(self, of_grade: OfGrade, discount: OfRank, k: Cut | None) -> Floats:
        """Return the mean sum of gain times discount: each place has the group's mean gain."""
        self._needs_all()
        reading = self.graded()
        self.unknown |= (reading.n_missing > 0) & (k is None or np.asarray(k) > reading.size)
        length = reading.items if k is None else self._reach(reading, k)
        sums = _group_sums(reading, length, np.zeros_like, discount)
        gains = np.bincount(
            reading.group_of_found, weights=of_grade(reading.grade), minlength=len(sums)
        )
        return self._sum(reading.query, sums * (gains / reading.items))

    def _reach(self, reading: Reading, k: Cut) -> Ints:
        """Return how many items of each group stand among the first k."""
        cut = np.broadcast_to(k, reading.n_query)[reading.query]
        return np.clip(cut - reading.before, 0, reading.items)

    def _cut_through(
        self, place: int, t: int, slope: OfRank, offset: OfRank | None, earlier: float
    ) -> float:
        from scipy.stats import hypergeom  # loads a second long

        group = self.reading
        n, r = int(group.items[place]), int(group.right[place])
        right_before = int(group.right_before[place])
        i = np.arange(1, t + 1)
        rank = (group.before[place] + i).astype(float)
        steep, flat = slope(rank), np.zeros(t) if offset is None else offset(rank)
        mean = 0.0
        for h in range(max(0, t - (n - r)), min(r, t) + 1):
            if right_before + h == 0:
                continue
            step = (h - 1) / max(t - 1, 1)
            here = (h / t) * float((steep * (right_before + 1 + (i - 1) * step) + flat).sum())
            mean += float(hypergeom.pmf(h, n, r, t)) * (earlier + here) / (right_before + h)
        return mean

    def _over_first(
        self, groups: Ints, value: Callable[[int, Ints], Floats], *, distinct: bool = True
    ) -> Floats:
        """Return the mean of value(j, ...) over the place j of the first of r among n.

        P(first at j) = C(n - j, r - 1) / C(n, r), by its recurrence. `value` gets the place
        and which of the groups it is asked for; with `distinct` groups that are alike are
        asked for once.
        """
        reading = self.reading
        alike = np.stack([a[groups] for a in (reading.before, reading.items, reading.right,
                                              reading.right_before)])  # fmt: skip
        first = same = np.arange(len(groups))
        if distinct:
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


def _group_sums(
    group: Reading, length: Ints, slope: OfRank, offset: OfRank | None
) -> Floats:
    """Sum over the first `length` places of each group, as if each held a positive.

    Single items are most of the groups and need no search for those that are alike.
    """
    rank = (group.before + 1).astype(float)
    sums = slope(rank) * (group.right_before + 1)
    if offset is not None:
        sums += offset(rank)
    sums[length == 0] = 0.0
    large = np.flatnonzero(group.items > 1)
    if len(large):
        columns = (group.before, group.items, group.right, group.right_before, length)
        first, same = _distinct(np.stack([column[large] for column in columns]))
        found = np.zeros(len(first))
        first = large[first]
        for part in _parts(length[first]):
            found[part] = _sums_of(group, first[part], length[first[part]], slope, offset)
        sums[large] = found[same]
    return np.asarray(sums)


def _sums_of(
    group: Reading, chosen: Ints, length: Ints, slope: OfRank, offset: OfRank | None
) -> Floats:
    number = np.repeat(np.arange(len(length)), length)
    place = np.arange(len(number)) - np.repeat(np.cumsum(length) - length, length)
    rank = (group.before[chosen][number] + place + 1).astype(float)
    step = (group.right[chosen] - 1) / np.maximum(group.items[chosen] - 1, 1)
    mean_number = group.right_before[chosen][number] + 1 + place * step[number]
    terms = slope(rank) * mean_number
    if offset is not None:
        terms = terms + offset(rank)
    return np.bincount(number, weights=terms, minlength=len(length)).astype(np.float64)


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
