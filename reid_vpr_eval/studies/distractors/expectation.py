"""Expectations of functions of the rank, for all positives and one size of the draw at a time.

The rank of a positive is P = p + A, where p is its rank in the base gallery (among what it
ties with: at one of its possible places) and A the number of drawn items above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.studies.distractors.hypergeometric import beta_binomial, weights, window
from reid_vpr_eval.studies.distractors.pairs import Pairs
from reid_vpr_eval.studies.distractors.series import Series, as_reciprocals
from reid_vpr_eval.studies.distractors.tied import Tied

__all__ = ["Asked", "Atoms", "Expectations", "Function"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Function: TypeAlias = Callable[[Floats], Floats]

#: Numbers that are worked on at once: what stays in a processor's cache.
_AT_ONCE = 1 << 16
#: Tie groups with more places than these are not gone through place by place.
_MOST_PLACES = 64
_SHARES = 32


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One expectation: of function(P) where P <= cut, summed over some positives of each query.

    Attributes
    ----------
    of : {"every", "first", "last"}
        Over which positives: all, or the first or last of each query.
    function : callable or None
        Of the rank; None: 1.
    cut : int, int array (n_query,) or None
        The last rank that counts.
    beside : bool
        The cut is one of negatives: P <= cut + J where J is the positive's number.
    times : {"one", "number"}, or float array (n_groups,)
        What each positive's expectation is multiplied with: 1, its number, or a value of its
        tie group.
    """

    of: Literal["every", "first", "last"]
    function: Function | None = None
    cut: int | Ints | None = None
    beside: bool = False
    times: Literal["one", "number"] | Floats = "one"


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """Positives at their possible places: a rank in the base, pool items above, and a weight.

    In a random order of a tie group with r positives, b negatives of the base and t pool
    items, x base negatives and y pool items stand before the j-th positive; x is
    beta-binomial (b; j, r - j + 1), and given x, y is beta-binomial
    (t; j + x, r + b + 1 - j - x).
    """

    group: Ints
    number: Ints
    rank: Ints
    above: Ints
    weight: Floats

    @classmethod
    def of(cls, pairs: Pairs, groups: Ints | None = None) -> Atoms:
        """Expand every positive of every group, or of some."""
        chosen = np.arange(len(pairs.query)) if groups is None else groups
        right = pairs.right[chosen]
        group = np.repeat(chosen, right)
        j = np.arange(len(group)) - np.repeat(np.cumsum(right) - right, right) + 1
        atoms = cls(group, pairs.right_before[group] + j, pairs.before[group] + j,
                    pairs.above[group], np.ones(len(group)))  # fmt: skip
        tied = (pairs.tied[group] > 0) | (pairs.pool_tied[group] > 0)
        if not tied.any():
            return atoms
        places = np.flatnonzero(tied)
        g = group[places]
        spread = [_places(*key) for key in zip(
            j[places].tolist(), pairs.right[g].tolist(), pairs.tied[g].tolist(),
            pairs.pool_tied[g].tolist(), strict=True,
        )]  # fmt: skip
        owner = np.repeat(places, [len(one) for one in spread])
        x, y, chance = np.concatenate(spread).T
        expanded = cls(group[owner], atoms.number[owner], atoms.rank[owner] + x.astype(np.int64),
                       atoms.above[owner] + y.astype(np.int64), chance)  # fmt: skip
        plain = np.flatnonzero(~tied)
        return cls(*(np.concatenate([getattr(atoms, name)[plain], getattr(expanded, name)])
                     for name in ("group", "number", "rank", "above", "weight")))  # fmt: skip

    @classmethod
    def near(cls, pairs: Pairs, groups: Ints) -> Atoms:
        """Stand each positive of some groups at the middles of equal shares of its law.

        A model has no use for more: the j-th of r positives has a key that is Beta(j, r - j + 1)
        beside uniform ones, and the same share of base and pool items before it.
        """
        from scipy.special import betaincinv

        right = pairs.right[groups]
        group = np.repeat(groups, right)
        j = np.arange(len(group)) - np.repeat(np.cumsum(right) - right, right) + 1
        middle = (np.arange(_SHARES) + 0.5) / _SHARES
        key = betaincinv(j[:, None], (pairs.right[group] - j + 1)[:, None], middle)
        x, y = (np.rint(key * count[group][:, None]).astype(np.int64).ravel()
                for count in (pairs.tied, pairs.pool_tied))  # fmt: skip
        owner, j = np.repeat(group, _SHARES), np.repeat(j, _SHARES)
        return cls(owner, pairs.right_before[owner] + j, pairs.before[owner] + j + x,
                   pairs.above[owner] + y, np.full(len(owner), 1 / _SHARES))  # fmt: skip

    def __len__(self) -> int:
        return len(self.group)

    def __add__(self, other: Atoms) -> Atoms:
        names = ("group", "number", "rank", "above", "weight")
        return Atoms(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))


_known: dict[tuple[int, int, int, int], Floats] = {}


def _places(j: int, r: int, b: int, t: int) -> Floats:
    """Return x, y and their probability for the j-th positive of a tie group, (n, 3)."""
    key = (j, r, b, t)
    if key in _known:
        return _known[key]
    rows = []
    for x, of_x in enumerate(beta_binomial(b, j, r - j + 1).tolist()):
        of_y = beta_binomial(t, j + x, r + b + 1 - j - x)
        rows.append(np.stack([np.full(t + 1, float(x)), np.arange(t + 1.0), of_x * of_y], axis=1))
    found = np.concatenate(rows)
    found = found[found[:, 2] > 0]
    if len(found) < 1000 and len(_known) < 1000:
        _known[key] = found
    return found


class Expectations:
    """All expectations that are asked for, at one size after the other.

    Positives that agree in N, a, p (and in cuts of their own) are computed once. Those in large
    tie groups are left to :class:`Tied`, or where `near` is set stand at some of their places.
    """

    def __init__(self, pairs: Pairs, asked: Sequence[Asked], *, near: bool = False) -> None:
        self._pairs, self._asked = pairs, asked
        places = (pairs.tied + 1) * (pairs.pool_tied + 1)
        large = (places > _MOST_PLACES) & (near or not any(one.beside for one in asked))
        exact = large.any() and not near
        self._tied = Tied(pairs, asked, np.flatnonzero(large)) if exact else None
        self._near: Expectations | None = None
        atoms = Atoms.of(pairs, np.flatnonzero(~large))
        if near and large.any():
            atoms += Atoms.near(pairs, np.flatnonzero(large))
        self._atoms, self._query = atoms, pairs.query[atoms.group]
        columns = [pairs.pool_size[self._query], atoms.above, atoms.rank]
        self._cut_column: list[int | None] = []
        for one in asked:
            self._cut_column.append(None)
            if isinstance(one.cut, np.ndarray) or one.beside:
                cut = np.broadcast_to(np.asarray(one.cut), pairs.n_query)[self._query]
                columns.append(cut + atoms.number if one.beside else cut)
                self._cut_column[-1] = len(columns) - 1
        first, self._row = _distinct(columns)
        self._rank = atoms.rank[first]
        self._cuts = [self._cut_of(one, column, columns, first)
                      for one, column in zip(asked, self._cut_column, strict=True)]  # fmt: skip
        law_first, self._law = _distinct([column[first] for column in columns[:2]])
        self._pool, self._above = columns[0][first][law_first], columns[1][first][law_first]
        self._starts = np.searchsorted(self._law, np.arange(len(law_first) + 1))
        self._members = [self._atoms_of(one) for one in asked]
        self._wanted = [self._rows_of(members) for members in self._members]
        longest = int(self._rank.max(initial=1)) + pairs.largest_size
        self._tables = _Tables(asked, longest + _widest(pairs.largest_size))

    def _cut_of(
        self, one: Asked, column: int | None, columns: list[Ints], first: Ints
    ) -> Ints | None:
        if column is not None:
            return np.asarray(columns[column][first])
        return None if one.cut is None else np.full(len(first), one.cut)

    def _atoms_of(self, one: Asked) -> Ints | None:
        number = self._atoms.number
        if one.of == "every":
            return None
        wanted = 1 if one.of == "first" else self._pairs.n_positive[self._query]
        return np.flatnonzero(number == wanted)

    def _rows_of(self, members: Ints | None) -> Mask | None:
        if members is None:
            return None
        wanted = np.zeros(len(self._rank), bool)
        wanted[self._row[members]] = True
        return wanted

    def at(self, size: int) -> list[Floats]:
        """Return what was asked for, one value a query, when `size` items are drawn."""
        rows = self._of_rows(np.minimum(size, self._pool))
        found = [self._sum(one, members, values) for one, members, values in
                 zip(self._asked, self._members, rows, strict=True)]  # fmt: skip
        if self._tied is None:
            return found
        return [a + b for a, b in zip(found, self._tied.at(size), strict=True)]

    def one(self, above: Callable[..., Ints]) -> list[Floats]:
        """Return what was asked for in one draw, given the drawn items above each positive."""
        if self._tied is not None:
            self._near = self._near or Expectations(self._pairs, self._asked, near=True)
            return self._near.one(above)
        atoms, out = self._atoms, []
        rank = atoms.rank + above(atoms.above, self._pairs.pool_size[self._query], atoms.number,
                                  self._pairs.n_positive[self._query])  # fmt: skip
        for number, one in enumerate(self._asked):
            values = np.ones(len(rank)) if one.function is None else one.function(
                rank.astype(float))  # fmt: skip
            cuts = self._cuts[number]
            if cuts is not None:
                values = values * (rank <= cuts[self._row])
            out.append(self._sum(one, self._members[number], values, distinct=False))
        return out

    def _sum(
        self, one: Asked, members: Ints | None, values: Floats, *, distinct: bool = True
    ) -> Floats:
        atoms = slice(None) if members is None else members
        terms = values[self._row[atoms] if distinct else atoms] * self._atoms.weight[atoms]
        if isinstance(one.times, np.ndarray):
            terms *= one.times[self._atoms.group[atoms]]
        elif one.times == "number":
            terms *= self._atoms.number[atoms]
        sums = np.bincount(self._query[atoms], weights=terms, minlength=self._pairs.n_query)
        return sums.astype(np.float64)

    def _of_rows(self, drawn: Ints) -> list[Floats]:
        """Return each expectation for each distinct row."""
        low, high = window(self._pool, self._above, drawn)
        out = [np.zeros(len(self._rank)) for _ in self._asked]
        certain = np.flatnonzero(low == high)
        if len(certain):
            rows, law = self._rows_in(certain)
            rank = self._rank[rows] + low[certain[law]]
            for number, values in enumerate(out):
                values[rows] = self._tables.at(number, rank) * self._within(number, rows, rank)
        open_ = self._by_series(out, drawn, low, high)
        needed = np.zeros(len(low), bool)
        for keep in open_:
            needed[self._law[keep]] = True
        needed &= low < high
        for laws in _blocks(np.where(needed, high - low + 1, 0)):
            width = int((high - low)[laws].max()) + 1
            block = weights(self._pool[laws], self._above[laws], drawn[laws], low[laws], width)
            block /= block.sum(axis=1)[:, None]
            rows, law = self._rows_in(laws)
            for number, values in enumerate(out):
                self._fill(number, values, open_[number], rows, law, low[laws], block)
        return out

    def _by_series(
        self, out: list[Floats], drawn: Ints, low: Ints, high: Ints
    ) -> list[Mask]:
        """Fill in what needs no law: nothing within the cut, all of it, or a series.

        Return the rows of each expectation that are still open.
        """
        first, last = self._rank + low[self._law], self._rank + high[self._law]
        series = Series(self._pool, self._above, drawn, low, self._rank, self._law)
        inside = low[self._law] < high[self._law]
        found = []
        for number, values in enumerate(out):
            wanted, cuts = self._wanted[number], self._cuts[number]
            keep = inside if wanted is None else inside & wanted
            whole = keep
            if cuts is not None:
                keep = keep & (first <= cuts)
                whole = keep & (last <= cuts)
            if self._tables.of(number) is None:
                if cuts is None or whole.any():
                    values[whole] = 1.0
                    keep = keep & ~whole
            elif self._tables.reciprocal(number) is not None:
                c, e = self._tables.reciprocal(number) or (0.0, 0.0)
                rows = np.flatnonzero(whole & series.valid)
                values[rows] = series.mean(c, e, rows)
                keep = keep & ~(whole & series.valid)
            found.append(keep)
        return found

    def _rows_in(self, laws: Ints) -> tuple[Ints, Ints]:
        """Return the rows of some laws, and which of them each row belongs to."""
        start, size = self._starts[laws], self._starts[laws + 1] - self._starts[laws]
        law = np.repeat(np.arange(len(laws)), size)
        return np.arange(len(law)) + (start - (np.cumsum(size) - size))[law], law

    def _within(self, number: int, rows: Ints, rank: Ints) -> Mask | float:
        cuts = self._cuts[number]
        return 1.0 if cuts is None else rank <= cuts[rows]

    def _fill(
        self, number: int, values: Floats, open_: Mask, rows: Ints, law: Ints, low: Ints,
        block: Floats,
    ) -> None:
        """Compute one expectation for the open rows of a block of laws."""
        chosen = np.flatnonzero(open_[rows])
        if not len(chosen):
            return
        rows, law = rows[chosen], law[chosen]
        start = self._rank[rows] + low[law]
        width, cuts = block.shape[1], self._cuts[number]
        reach = None if cuts is None else cuts[rows] - start + 1
        if reach is not None:
            width = min(width, int(reach.max()))
        found = block[law, :width]
        if reach is not None and (reach < width).any():
            found *= np.arange(width) < reach[:, None]
        values[rows] = self._tables.dot(number, found, start)


class _Tables:
    """Every function at all ranks; equal ones once."""

    def __init__(self, asked: Sequence[Asked], longest: int) -> None:
        self._of: list[Floats | None] = []
        self._reciprocal: list[tuple[float, float] | None] = []
        ranks = np.arange(1, longest + 1, dtype=float)
        known: dict[int, Floats] = {}
        for one in asked:
            if one.function is None:
                self._of.append(None)
                self._reciprocal.append(None)
                continue
            if id(one.function) not in known:
                known[id(one.function)] = np.asarray(one.function(ranks), float)
            self._of.append(known[id(one.function)])
            self._reciprocal.append(as_reciprocals(known[id(one.function)]))

    def of(self, number: int) -> Floats | None:
        return self._of[number]

    def reciprocal(self, number: int) -> tuple[float, float] | None:
        return self._reciprocal[number]

    def at(self, number: int, rank: Ints) -> Floats | float:
        table = self._of[number]
        return 1.0 if table is None else table[rank - 1]

    def dot(self, number: int, found: Floats, start: Ints) -> Floats:
        """Return the sums over columns of weights times the function from rank `start` on."""
        table = self._of[number]
        if table is None:
            return np.asarray(found.sum(axis=1))
        runs = np.lib.stride_tricks.sliding_window_view(table, found.shape[1])[start - 1]
        return np.asarray(np.einsum("ij,ij->i", found, runs))


def _distinct(columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Return where each distinct row of some columns stands first, and which each row is.

    Distinct rows are in ascending order, the first column first.
    """
    order = np.lexsort(columns[::-1])
    new = np.ones(len(order), bool)
    for number, column in enumerate(columns):
        ordered = column[order]
        changed = ordered[1:] != ordered[:-1]
        new[1:] = changed if number == 0 else new[1:] | changed
    row = np.empty(len(order), np.int64)
    row[order] = np.cumsum(new) - 1
    return order[new], row


def _widest(pool: int) -> int:
    """Return a width that no block exceeds."""
    half = np.array([pool // 2])
    low, high = window(np.array([pool]), half, half)
    return int(1.1 * (high - low)[0]) + 2


def _blocks(width: Ints) -> Iterator[Ints]:
    """Yield those of a width above 1 in blocks of about equal width."""
    open_ = np.flatnonzero(width > 1)
    steps = np.ceil(8 * np.log2(width[open_])).astype(np.uint16)
    order = open_[np.argsort(steps, kind="stable")]
    edges = np.flatnonzero(np.diff(np.sort(steps))) + 1
    for part in np.split(order, edges):
        if not len(part):
            continue
        at_once = max(1, _AT_ONCE // int(width[part].max()))
        for start in range(0, len(part), at_once):
            yield part[start : start + at_once]
