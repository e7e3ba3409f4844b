"""Expectations of positives in large tie groups, without going through all their places.

Of a tie group with r positives and b negatives of the base, T of the t tied pool items are
drawn, and A of the a items above. Given these, the positives stand at random places among
``L = r + b + T``, from rank ``C + A + 1`` on. So the sum over the group of f at its positives
has the mean ``(r / L) sum over i <= L of f(C + A + i)``, which is a difference of two prefix
sums of f, and only A and T remain to be summed over.

(A, T) is multivariate hypergeometric. Given the other, each is a sum of independent 0/1
variables (Vatutin and Mikhailov, 1982), so |E exp(i s A)| <= exp(-v (1 - cos s)) with its
variance v. For functions that are smooth in the rank it is enough to add up every h-th value
then, by Poisson's summation formula, where v (1 - cos(2 pi / h)) is large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.studies.distractors.hypergeometric import beta_binomial, weights, window
from reid_vpr_eval.studies.distractors.pairs import Pairs

if TYPE_CHECKING:
    from reid_vpr_eval.studies.distractors.expectation import Asked

__all__ = ["Tied"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

#: Aliases are below exp(-38) = 3e-17.
_ALIAS = 38.0
_NOTHING = 1e-20
#: Places of a tie group that are worked on at once.
_AT_ONCE = 1 << 19


class Tied:
    """All expectations that are asked for, of the positives of some tie groups.

    Groups that agree in all that matters are computed once.

    Parameters
    ----------
    pairs : Pairs
    asked : sequence of Asked
        None of them with cuts of negatives (`beside`).
    groups : int64 array
        Which groups.
    """

    def __init__(self, pairs: Pairs, asked: Sequence[Asked], groups: Ints) -> None:
        self._pairs, self._asked, self._groups = pairs, asked, groups
        self._query = pairs.query[groups]
        self._cuts = [None if one.cut is None else
                      np.broadcast_to(np.asarray(one.cut), pairs.n_query)[self._query]
                      for one in asked]  # fmt: skip
        columns = [pairs.pool_size[self._query], pairs.above[groups], pairs.pool_tied[groups],
                   pairs.tied[groups], pairs.right[groups], pairs.before[groups]]  # fmt: skip
        columns += [np.asarray(one, np.int64) for one in self._cuts if one is not None]
        found, first, row = np.unique(np.stack(columns, 1), axis=0, return_index=True,
                                      return_inverse=True)  # fmt: skip
        self._row = row.ravel()
        self._key = _Keys(*found[:, :6].T)
        self._key_cuts = [None if one is None else one[first] for one in self._cuts]
        before = pairs.right_before[groups]
        total = pairs.n_positive[self._query]
        self._mine = {
            "every": np.ones(len(groups), bool), "first": before == 0,
            "last": before + pairs.right[groups] == total,
        }  # fmt: skip
        longest = int((pairs.before + pairs.right + pairs.tied + pairs.above
                       + pairs.pool_tied)[groups].max(initial=0)) + 2  # fmt: skip
        ranks = np.arange(1, longest + 1, dtype=float)
        known: dict[int, _Prefix] = {}
        self._tables: list[_Prefix] = []
        for one in asked:
            if id(one.function) not in known:
                values = np.ones(longest) if one.function is None else one.function(ranks)
                known[id(one.function)] = _Prefix(np.asarray(values, float))
            self._tables.append(known[id(one.function)])

    def at(self, size: int) -> list[Floats]:
        """Return what was asked for, one value a query, when `size` items are drawn."""
        groups, out = self._groups, []
        plain, inner = self._of_keys(size)
        for number, one in enumerate(self._asked):
            values = plain[number][self._row]
            if isinstance(one.times, np.ndarray):
                values = values * one.times[groups]
            elif one.times == "number" and one.of == "last":
                values = values * self._pairs.n_positive[self._query]
            elif one.times == "number" and one.of == "every":
                values = values * (self._pairs.right_before[groups] + 1) + inner[number][self._row]
            values = values * self._mine[one.of]
            out.append(np.bincount(self._query, values, self._pairs.n_query).astype(np.float64))
        return out

    def _of_keys(self, size: int) -> tuple[list[Floats], list[Floats]]:
        """Return of each expectation the values of the keys, and those times numbers inside."""
        n = len(self._key.pool)
        plain, inner = ([np.zeros(n) for _ in self._asked] for _ in range(2))
        drawn = np.minimum(size, self._key.pool)
        wanted = {name: np.bincount(self._row, mine, n) > 0 for name, mine in self._mine.items()}
        alike: dict[bytes | None, list[int]] = {}
        for number, cut in enumerate(self._key_cuts):
            alike.setdefault(None if cut is None else cut.tobytes(), []).append(number)
        for numbers in alike.values():
            cut = self._key_cuts[numbers[0]]
            needed = np.any([wanted[self._asked[i].of] for i in numbers], axis=0)
            for keys, grid in _grids(self._key, drawn, cut, needed):
                limit = None if cut is None else cut[keys]
                for i in numbers:
                    one = self._asked[i]
                    if one.of != "every":
                        values = grid.edge(self._tables[i], one.function is None, limit, one.of)
                        plain[i][keys] = values
                        continue
                    plain[i][keys] = grid.sums(self._tables[i], limit)
                    if isinstance(one.times, str) and one.times == "number":
                        inner[i][keys] = grid.numbered(self._tables[i], limit)
        return plain, inner


class _Prefix:
    """Prefix sums of a function of the rank, and of the rank times it, in two parts each."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.rank_free = _two_parts(values)
        self.by_rank = _two_parts(values * np.arange(1, len(values) + 1))

    def between(self, first: Ints, last: Ints, *, by_rank: bool = False) -> Floats:
        """Return the sums over ranks above `first` up to `last`."""
        high, low = self.by_rank if by_rank else self.rank_free
        return np.asarray((high[last] - high[first]) + (low[last] - low[first]))


def _two_parts(values: Floats) -> tuple[Floats, Floats]:
    whole = np.concatenate([[0], np.cumsum(values.astype(np.longdouble))])
    high = whole.astype(np.float64)
    return high, (whole - high).astype(np.float64)


class _Keys:
    """What a group is: N, a, t, b, r and the base items above it."""

    def __init__(self, pool: Ints, above: Ints, tied: Ints, base: Ints, right: Ints,
                 before: Ints) -> None:  # fmt: skip
        self.pool, self.above, self.tied = pool, above, tied
        self.base, self.right, self.before = base, right, before

    def take(self, rows: Ints) -> _Keys:
        return _Keys(*(one[rows] for one in (self.pool, self.above, self.tied, self.base,
                                             self.right, self.before)))  # fmt: skip


class _Grid:
    """Chances of some A and T of some keys, (n_keys, n_A, n_T)."""

    def __init__(self, keys: _Keys, above: Ints, tied: Ints, chance: Floats) -> None:
        self.keys, self.chance = keys, chance
        self.start = (keys.before[:, None] + above)[:, :, None]
        self.length = (keys.right + keys.base)[:, None, None] + tied[:, None, :]

    def _ends(self, cut: Ints | None, table: _Prefix) -> tuple[Ints, Ints]:
        most = len(table.values) if cut is None else np.minimum(cut, len(table.values))[
            :, None, None]  # fmt: skip
        return np.minimum(self.start, most), np.minimum(self.start + self.length, most)

    def _mean(self, values: Floats) -> Floats:
        return np.asarray(np.einsum("kat,kat->k", self.chance, values))

    def sums(self, table: _Prefix, cut: Ints | None) -> Floats:
        """Return the means of the sums of f over the positives."""
        found = table.between(*self._ends(cut, table)) / self.length
        return self._mean(found) * self.keys.right

    def numbered(self, table: _Prefix, cut: Ints | None) -> Floats:
        """Return likewise with the number of earlier positives of the group as a factor.

        A positive at place i of L has (i - 1)(r - 1) / (L - 1) earlier ones in the mean.
        """
        first, last = self._ends(cut, table)
        found = table.between(first, last, by_rank=True)
        found -= (self.start + 1) * table.between(first, last)
        found /= self.length * np.maximum(self.length - 1, 1)
        return self._mean(found) * self.keys.right * (self.keys.right - 1)

    def edge(
        self, table: _Prefix, ones: bool, cut: Ints | None, of: Literal["every", "first", "last"]
    ) -> Floats:
        """Return the means of f at the first or the last positive."""
        out = np.zeros(len(self.chance))
        alone = self.keys.right == 1
        if alone.all():
            return self.sums(table, cut)
        if ones:
            place = self.length if cut is None else np.clip(
                cut[:, None, None] - self.start, 0, self.length)  # fmt: skip
            share = np.ones(self.chance.shape)
            inside = place if of == "last" else self.length - place
            for i in range(int(self.keys.right.max())):
                step = np.maximum(inside - i, 0) / np.maximum(self.length - i, 1)
                share *= np.where((i < self.keys.right)[:, None, None], step, 1.0)
            return self._mean(share if of == "last" else 1 - share)
        for k in range(len(out)):
            out[k] = self._edge_of(k, table.values, None if cut is None else int(cut[k]), of)
        return out

    def _edge_of(self, k: int, values: Floats, cut: int | None, of: str) -> float:
        """Go through the places of the first or last positive of one key."""
        right, total = int(self.keys.right[k]), 0.0
        table = values if cut is None else values * (np.arange(1, len(values) + 1) <= cut)
        for column, length in enumerate(self.length[k, 0].tolist()):
            chance = self.chance[k, :, column]
            some = np.flatnonzero(chance > _NOTHING)
            if not len(some):
                continue
            j = 1 if of == "first" else right
            law = beta_binomial(length - right, j, right - j + 1)
            runs = np.lib.stride_tricks.sliding_window_view(table, len(law))
            for rows in np.array_split(some, 1 + len(some) * len(law) // _AT_ONCE):
                total += float(chance[rows] @ (runs[self.start[k, rows, 0] + j - 1] @ law))
        return total


def _grids(
    keys: _Keys, drawn: Ints, cut: Ints | None, needed: npt.NDArray[np.bool_]
) -> Iterator[tuple[Ints, _Grid]]:
    """Yield keys and their grids, those of about the same shape at once."""
    low, high = window(keys.pool, keys.above, drawn)
    low_tied, high_tied = window(keys.pool, keys.tied, drawn)
    last = high
    if cut is not None:
        last = np.minimum(high, cut - keys.before - 1)
        needed = needed & (last >= low)
    step, step_tied = _steps(keys, drawn)
    if cut is not None:
        ends = keys.before + low + keys.right + keys.base + low_tied
        step_tied = np.where(ends >= cut, step_tied, 1)
        step = np.ones_like(step)
    wide, wide_tied = (last - low) // step + 1, (high_tied - low_tied) // step_tied + 1
    work = np.maximum((wide * wide_tied), (high - low + high_tied - low_tied + 1))
    rows = np.flatnonzero(needed)
    order = rows[np.lexsort((wide[rows], np.ceil(2 * np.log2(wide_tied[rows]))))]
    place = 0
    while place < len(order):
        size = max(1, _AT_ONCE // max(1, int(work[order[place]])))
        part = order[place : place + size]
        full = wide[part].max() * wide_tied[part].max()
        if full * len(part) > 2 * _AT_ONCE and len(part) > 1:
            part = part[: max(1, int(2 * _AT_ONCE // full))]
        place += len(part)
        yield part, _grid(
            keys.take(part), drawn[part], (low[part], high[part], step[part], wide[part]),
            (low_tied[part], high_tied[part], step_tied[part], wide_tied[part]),
        )  # fmt: skip


def _steps(keys: _Keys, drawn: Ints) -> tuple[Ints, Ints]:
    """Return every how many values of A and of T is enough for smooth functions."""
    pool = np.maximum(keys.pool, 2).astype(float)
    share = drawn / pool
    out = []
    for mine, other in ((keys.above, keys.tied), (keys.tied, keys.above)):
        rest = np.maximum(pool - other, 1)
        part = mine / rest
        variance = rest * share * (1 - share) * part * (1 - part)
        angle = np.arccos(np.clip(1 - _ALIAS / np.maximum(variance, 1e-9), -1, 1))
        out.append(np.where(variance > _ALIAS / 2, np.floor(2 * np.pi / angle), 1))
    return out[0].astype(np.int64), out[1].astype(np.int64)


def _grid(
    keys: _Keys, drawn: Ints, above: tuple[Ints, Ints, Ints, Ints],
    tied: tuple[Ints, Ints, Ints, Ints],
) -> _Grid:  # fmt: skip
    """Return the chances on a grid: P(A) P(T | A), from three factors that each vary by a ratio.

    C(a, A) C(t, T) C(N - a - t, n - A - T) = w(A) w(T) w(A + T).
    """
    low, high, step, wide = above
    low_tied, high_tied, step_tied, wide_tied = tied
    i = np.arange(int(wide.max()))
    j = np.arange(int(wide_tied.max()))
    of_above = np.minimum(step[:, None] * i, (high - low)[:, None])
    of_tied = np.minimum(step_tied[:, None] * j, (high_tied - low_tied)[:, None])
    inside = (i < wide[:, None])[:, :, None] & (j < wide_tied[:, None])[:, None, :]
    law = weights(keys.pool, keys.above, drawn, low, int((high - low).max()) + 1)
    law[np.arange(law.shape[1]) > (high - low)[:, None]] = 0.0
    marginal = np.take_along_axis(law, of_above, 1) * step[:, None]
    marginal /= np.where(step == 1, law.sum(axis=1), (marginal * inside[:, :, 0]).sum(axis=1))[
        :, None]  # fmt: skip
    odds = np.where((drawn > 0) & (drawn < keys.pool), drawn / np.maximum(keys.pool - drawn, 1), 1)
    of_t = _binomials(keys.tied, low_tied, int((high_tied - low_tied).max()) + 1, odds)
    of_sum = _left(keys, drawn, low + low_tied,
                   int((high - low).max() + (high_tied - low_tied).max()) + 1, odds)  # fmt: skip
    both = (of_above[:, :, None] + of_tied[:, None, :]).reshape(len(low), -1)
    chance = np.take_along_axis(of_sum, both, 1).reshape(inside.shape)
    chance *= np.take_along_axis(of_t, of_tied, 1)[:, None, :]
    chance *= inside
    total = chance.sum(axis=2, keepdims=True)
    chance *= np.divide(marginal[:, :, None], total, out=np.zeros_like(total), where=total > 0)
    return _Grid(keys, low[:, None] + of_above, low_tied[:, None] + of_tied, chance)


def _binomials(n: Ints, low: Ints, width: int, odds: Floats) -> Floats:
    """Return C(n, k) odds^k from k = low on, as multiples of the largest."""
    k = low[:, None] + np.arange(width - 1, dtype=float)
    return _products(np.maximum(n[:, None] - k, 0) / (k + 1) * odds[:, None])


def _left(keys: _Keys, drawn: Ints, low: Ints, width: int, odds: Floats) -> Floats:
    """Return C(M, n - D) odds^-D from D = low on, where M is what is below the group."""
    rest = (keys.pool - keys.above - keys.tied)[:, None]
    k = low[:, None] + np.arange(width - 1, dtype=float)
    least = drawn[:, None] - rest
    ratio = np.maximum(drawn[:, None] - k, 0) / np.maximum(rest - drawn[:, None] + k + 1, 1)
    out = _products(np.where(k < least, 1.0, ratio / odds[:, None]))
    out[low[:, None] + np.arange(width) < least] = 0.0
    return out


def _products(ratio: Floats) -> Floats:
    out = np.ones((len(ratio), ratio.shape[1] + 1))
    np.cumprod(ratio, axis=1, out=out[:, 1:])
    return out
