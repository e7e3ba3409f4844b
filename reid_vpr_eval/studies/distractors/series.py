"""Means of reciprocal ranks by their series, where a law is narrow beside its distance from 0.

With x = p + E[A] and d = A - E[A], for even K

    E[1/(p + A)] = (1/x) [sum over k < K of (-1)^k E[d^k] / x^k + E[(d/x)^K / (1 + d/x)]].

Where 1 + d/x is 1/2 or more wherever the law holds more than 1e-17, the last term is at most
2 E[d^K] / x^K: it is known, and where it is below 2e-15 the series replaces the sum.
"""

from __future__ import annotations

from math import comb
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Series", "as_reciprocals", "central_moments"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

#: The terms of the series; even.
_TERMS = 20
_REMAINDER = 1e-15
#: The recurrence of the moments divides by N - k.
_SMALLEST = 10 * _TERMS


def central_moments(pool: Ints, above: Ints, drawn: Ints, order: int = _TERMS) -> Floats:
    """Return E[d^k] of the hypergeometric law for k = 0 to `order`, (n, order + 1).

    From E[(a - A)(n - A) g(A)] = E[A (N - a - n + A) g(A - 1)] with g(A) = d^j:

        N E[d^(j+1)] = - sum over i < j of C(j, i) (-1)^(j-i)
                       (u E[d^i] + v E[d^(i+1)] + E[d^(i+2)]),

    where u = E[A] (N - a - n + E[A]) and v = N - a - n + 2 E[A].

    >>> central_moments(np.array([10]), np.array([4]), np.array([5]), 3).round(12).tolist()
    [[1.0, 0.0, 0.666666666667, -0.0]]
    """
    mean = drawn * (above / np.maximum(pool, 1))
    rest = (pool - above - drawn) + mean
    out = np.zeros((len(pool), order + 1))
    out[:, 0] = 1.0
    for j in range(1, order):
        signs = np.array([comb(j, i) * (-1.0) ** (j - i) for i in range(j)])
        total = mean * rest * (out[:, :j] @ signs) + (mean + rest) * (out[:, 1 : j + 1] @ signs)
        total += out[:, 2 : j + 1] @ signs[: j - 1]  # without the moment that is looked for
        out[:, j + 1] = -total / np.maximum(pool - j, 1)
    return out


def as_reciprocals(table: Floats) -> tuple[float, float] | None:
    """Return (c, e) if a function of the rank is c / P + e / (P - 1) at all ranks from 2.

    >>> ranks = np.arange(1.0, 50)
    >>> as_reciprocals(0.5 / ranks), as_reciprocals(np.log(ranks))
    ((0.5, 0.0), None)
    """
    if len(table) < 8:
        return None
    ranks = np.arange(2, len(table) + 1, dtype=float)
    at = np.array([2.0, 3.0])
    c, e = np.linalg.solve(np.stack([1 / at, 1 / (at - 1)], axis=1), table[1:3])
    c, e = (0.0 if abs(value) < 1e-13 else round(float(value), 13) for value in (c, e))
    fitted = c / ranks + e / (ranks - 1)
    scale = abs(c) / ranks + abs(e) / (ranks - 1)
    return (c, e) if (np.abs(fitted - table[1:]) <= 4e-15 * scale).all() and scale[0] else None


class Series:
    """The series for the rows of some laws, at one size.

    Parameters
    ----------
    pool, above, drawn, low : int64 arrays (n_laws,)
        N, a, n, and the first value of A that counts.
    rank, law : int64 arrays (n_rows,)
        The rank p of each row in the base, and its law.
    """

    def __init__(
        self, pool: Ints, above: Ints, drawn: Ints, low: Ints, rank: Ints, law: Ints
    ) -> None:
        wide = np.flatnonzero((drawn > 0) & (drawn < pool) & (above > 0) & (above < pool))
        self._moments = np.zeros((_TERMS + 1, len(pool)))
        self._moments[:, wide] = central_moments(pool[wide], above[wide], drawn[wide]).T
        self._known: dict[int, Floats] = {}
        self._x = rank + (drawn * (above / np.maximum(pool, 1)))[law]
        self._law = law
        nearest = self._x - 1
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            remainder = self._moments[_TERMS][law] / nearest**_TERMS
        self.valid: Mask = (nearest > 0) & (np.abs(remainder) <= _REMAINDER)
        self.valid &= (pool > _SMALLEST)[law]
        self.valid &= rank - 1 + low[law] >= nearest / 2

    def mean(self, c: float, e: float, rows: Ints) -> Floats:
        """Return the means of c / P + e / (P - 1) for some valid rows."""
        total = np.zeros(len(rows))
        for factor, shift in ((c, 0), (e, 1)):
            if factor:
                total += factor * self._reciprocal(shift)[rows]
        return total

    def _reciprocal(self, shift: int) -> Floats:
        """Return the means of 1 / (P - shift) for all valid rows; computed once."""
        if shift not in self._known:
            chosen = np.flatnonzero(self.valid)
            inverse = -1 / (self._x[chosen] - shift)
            law = self._law[chosen]
            sums = self._moments[_TERMS - 1][law]
            for k in range(_TERMS - 2, -1, -1):
                sums *= inverse
                sums += self._moments[k][law]
            self._known[shift] = np.zeros(len(self._x))
            self._known[shift][chosen] = -sums * inverse
        return self._known[shift]
