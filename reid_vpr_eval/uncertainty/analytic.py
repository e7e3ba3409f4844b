"""Intervals by formula: proportions, and shares of few units at their effective sample size."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["freedom_of", "korn_graubard", "wilson"]

Floats: TypeAlias = npt.NDArray[np.float64]


def wilson(share: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion of n independent queries.

    Fractions of a hit (from tied scores) are allowed.

    Notes
    -----
    (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n) (Wilson, Probable
    inference, JASA 1927). `scipy.stats.binomtest(k, n).proportion_ci(method="wilson")` is the
    same for whole numbers of hits.

    Examples
    --------
    >>> low, high = wilson(1.0, 10)
    >>> round(low, 3), high
    (0.722, 1.0)
    """
    z2 = float(special.ndtri((1 + level) / 2)) ** 2
    centre = share + z2 / (2 * n)
    reach = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    low, high = (centre - reach) / (1 + z2 / n), (centre + reach) / (1 + z2 / n)
    return (0.0 if share == 0 else float(low)), (1.0 if share == 1 else float(high))


def korn_graubard(
    share: float,
    variance: float,
    n_units: int,
    *,
    freedom: float | None = None,
    most: float = np.inf,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the interval of a share of clustered queries.

    Parameters
    ----------
    share : float
        The proportion over all queries, or any mean of values in [0, 1].
    variance : float
        Its variance between units.
    n_units : int
        Number of units.
    freedom : float, optional
        Degrees of freedom of the variance; by default the number of units less one.
    most : float
        What the effective sample size may not pass: the number of queries, for a proportion.
    level : float
        Coverage.

    Notes
    -----
    The limits of Clopper and Pearson at n_eff = p (1 - p) / v queries, times (z / t)^2 for the
    degrees of freedom (Korn and Graubard, Confidence intervals for proportions with small
    expected number of positive counts estimated from survey data, Survey Methodology 1998).
    A mean of other values in [0, 1] is treated as the proportion of equal mean and variance.
    At 0 and at 1 nothing tells how alike queries of a unit are, and n_eff is the number of
    units: P(all right) <= p^J holds for any values in [0, 1].

    Examples
    --------
    >>> low, high = korn_graubard(1.0, 0.0, 35)
    >>> round(low, 3), high
    (0.9, 1.0)
    >>> low, high = korn_graubard(0.95, 0.00025, 35, most=315)
    >>> round(low, 3), round(high, 3)
    (0.907, 0.977)
    """
    tail = (1 - level) / 2
    if share in (0, 1):
        size = float(n_units)
    else:
        size = share * (1 - share) / variance if variance > 0 else np.inf
        freedom = n_units - 1 if freedom is None else freedom
        if freedom > 0:
            size *= float(special.ndtri(tail) / special.stdtrit(freedom, tail)) ** 2
        size = min(size, most)
    if not np.isfinite(size):
        return share, share
    hits = share * size
    low = 0.0 if share == 0 else float(special.betaincinv(hits, size - hits + 1, tail))
    high = 1.0 if share == 1 else float(special.betaincinv(hits + 1, size - hits, 1 - tail))
    return low, high


def freedom_of(influence: Floats) -> float:
    """Return the degrees of freedom of a variance between units, at most their number less one.

    Few units that differ much from the rest tell less about the variance than many that
    differ a little: 2 J / (kurtosis - 1) degrees by the moments of the variance (Satterthwaite,
    Biometrics Bulletin 1946). The kurtosis is itself uncertain, so this is averaged
    (harmonically) with J - 1.

    Examples
    --------
    >>> freedom_of(np.tile([-1.0, 1.0], 10))
    19.0
    >>> round(freedom_of(np.r_[np.full(19, -1.0), 19.0]), 2)
    5.18
    """
    n = len(influence)
    if n < 2:
        return 0.0
    square = np.sum(influence**2)
    if square == 0:
        return n - 1.0
    kurtosis = float(n * np.sum(influence**4) / square**2)
    own = 2 * n / (kurtosis - 1) if kurtosis > 1 else np.inf
    own = min(max(own, min(3.0, n - 1.0)), n - 1.0)
    return float(2 / (1 / (n - 1) + 1 / own))
