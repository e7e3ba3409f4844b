"""Queries that belong together, and resampling them as wholes.

Queries of one identity, place or image are alike, so that they are no independent evidence:
what is resampled is the unit. A mean over queries is then a ratio, the sum of the units' sums
over the sum of their sizes, and both are linear in how often each unit is drawn. Everything
here depends on the set of units and never on the order of queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

from reid_vpr_eval.errors import AlignmentError

__all__ = [
    "Clusters", "bca_limits", "bootstrap_means", "jackknife_means", "resampling_counts",
]  # fmt: skip

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

_AT_ONCE = 1 << 21


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """To which unit each query belongs.

    Attributes
    ----------
    code : int64 array (n_query,)
        The number of each query's unit, 0 to n_units - 1.
    names : array (n_units,)
        What units are called, sorted: the numbers do not depend on the order of queries.
    """

    code: Ints
    names: npt.NDArray[Any]

    @classmethod
    def of(cls, units: npt.ArrayLike) -> Clusters:
        """Make clusters from the unit of each query: anything that can be sorted.

        >>> clusters = Clusters.of(["b", "a", "b"])
        >>> clusters.code, clusters.names
        (array([1, 0, 1]), array(['a', 'b'], dtype='<U1'))
        """
        given = np.asarray(units)
        if given.ndim != 1:
            raise AlignmentError(f"units of the shape {given.shape}: one for each query is needed")
        names, code = np.unique(given, return_inverse=True)
        return cls(code.astype(np.int64).ravel(), names)

    @classmethod
    def alone(cls, n_query: int) -> Clusters:
        """Make every query its own unit."""
        return cls(np.arange(n_query), np.arange(n_query))

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return len(self.names)

    def sums(self, values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> tuple[
        Floats, Floats
    ]:  # fmt: skip
        """Return the sum of each unit's values, and how many there are.

        Parameters
        ----------
        values : float array (n_query,)
            NaN where a query takes no part.
        weights : float array (n_query,), optional
            By default every query counts once.

        Returns
        -------
        total, size : float64 arrays (n_units,)
            Weighted sums and sums of weights; 0 where no query of a unit takes part. Values
            are added in ascending order, so that the order of queries changes no bit.

        Examples
        --------
        >>> Clusters.of(["b", "a", "b"]).sums([1.0, 0.5, float("nan")])
        (array([0.5, 1. ]), array([1., 1.]))
        """
        found = np.asarray(values, np.float64)
        if found.shape != self.code.shape:
            raise AlignmentError(
                f"values have the shape {found.shape}: one for each of the {len(self.code)} "
                "queries is needed"
            )
        weight = np.ones(len(found)) if weights is None else np.asarray(weights, np.float64)
        weight = np.where(np.isnan(found), 0.0, weight)
        product = np.where(np.isnan(found), 0.0, found) * weight
        return self._added(product), self._added(weight)

    def _added(self, values: Floats) -> Floats:
        code = self.code
        if (values != np.trunc(values)).any():  # sums of whole numbers are exact in any order
            order = np.lexsort((values, code))
            code, values = code[order], values[order]
        added = np.bincount(code, weights=values, minlength=self.n_units)
        return added.astype(np.float64)


def resampling_counts(
    n_units: int, resamples: int, seed: int, *, at_once: int = _AT_ONCE
) -> Iterator[Floats]:
    """Yield how often each unit is drawn, for resamples of as many units with replacement.

    Parameters
    ----------
    n_units, resamples : int
        Sizes of the whole.
    seed : int
        Of the draws: the same seed gives the same ones, however many are yielded at once.
    at_once : int
        About how many numbers a yielded array holds.

    Yields
    ------
    float64 arrays (some resamples, n_units)

    Examples
    --------
    >>> next(resampling_counts(4, 2, 0)).sum(axis=1)
    array([4., 4.])
    """
    generator = np.random.default_rng(seed)
    step = max(1, at_once // max(n_units, 1))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = generator.integers(0, n_units, (rows, n_units))
        drawn += n_units * np.arange(rows)[:, None]
        counted = np.bincount(drawn.ravel(), minlength=rows * n_units)
        yield counted.reshape(rows, n_units).astype(np.float64)


def bootstrap_means(
    total: Floats, size: Floats, *, resamples: int = 2000, seed: int = 0
) -> Floats:
    """Return means of resampled units.

    Parameters
    ----------
    total, size : float64 arrays (n_units, m)
        Sums and sizes of the units, one column a statistic.
    resamples, seed : int
        How many, and from where.

    Returns
    -------
    float64 array (resamples, m)
        NaN where nothing that was drawn takes part.

    Examples
    --------
    >>> means = bootstrap_means(np.array([[0.0], [2.0]]), np.ones((2, 1)), resamples=500)
    >>> sorted(set(means.ravel().tolist()))
    [0.0, 1.0, 2.0]
    """
    made = [
        _ratio(counts @ total, counts @ size)
        for counts in resampling_counts(len(total), resamples, seed)
    ]
    return np.concatenate(made)


def jackknife_means(total: Floats, size: Floats) -> Floats:
    """Return the means without each unit in turn, (n_units, m).

    >>> jackknife_means(np.array([[0.0], [2.0], [4.0]]), np.ones((3, 1))).ravel()
    array([3., 2., 1.])
    """
    return _ratio(total.sum(axis=0) - total, size.sum(axis=0) - size)


def _ratio(total: Floats, size: Floats) -> Floats:
    out: Floats = np.full(total.shape, np.nan)
    return np.divide(total, size, out=out, where=size > 0)


def bca_limits(
    estimate: float,
    draws: Floats,
    jackknife: Floats,
    level: float = 0.95,
    *,
    freedom: float | None = None,
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated bootstrap interval.

    Parameters
    ----------
    estimate : float
        The statistic on all units.
    draws : float64 array (resamples,)
        The statistic on resampled units.
    jackknife : float64 array (n_units,)
        The statistic without each unit.
    level : float
        Coverage.
    freedom : float, optional
        Degrees of freedom of the spread between units: with them the limits are a little
        further out, by t sqrt(J / (J - 1)) / z (Hesterberg, What teachers should know about
        the bootstrap, The American Statistician 2015).

    Returns
    -------
    low, high : float

    Notes
    -----
    z0 is the normal quantile of the share of draws below the estimate (equal ones count half),
    a = sum d^3 / (6 (sum d^2)^1.5) with d the mean of the jackknife values less each of them;
    the limits are the quantiles of the draws at Phi(z0 + (z0 + z) / (1 - a (z0 + z))) for both
    z (Efron, Better bootstrap confidence intervals, JASA 1987). `scipy.stats.bootstrap` does
    the same for units of one query each.

    Examples
    --------
    >>> draws = np.linspace(-1.0, 1.0, 2001)
    >>> low, high = bca_limits(0.0, draws, np.array([-0.1, 0.0, 0.1]))
    >>> round(low, 2), round(high, 2)
    (-0.95, 0.95)
    """
    known = draws[~np.isnan(draws)]
    below = (np.sum(known < estimate) + np.sum(known == estimate) / 2) / len(known)
    z0 = ndtri(np.clip(below, 0.5 / len(known), 1 - 0.5 / len(known)))
    apart = np.nanmean(jackknife) - jackknife[~np.isnan(jackknife)]
    spread = np.sum(apart**2) ** 1.5
    a = np.sum(apart**3) / (6 * spread) if spread > 0 else 0.0
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    n = len(apart)
    reach = ndtri(tails) if freedom is None else stdtrit(freedom, tails) * np.sqrt(n / (n - 1))
    z = z0 + reach
    low, high = np.quantile(known, ndtr(z0 + z / (1 - a * z)))
    return float(low), float(high)
