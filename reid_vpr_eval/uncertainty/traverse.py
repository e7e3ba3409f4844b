"""Queries along a way: neighbours are alike, and are drawn in blocks."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["block_draws", "block_length"]

Floats: TypeAlias = npt.NDArray[np.float64]


def block_length(values: npt.ArrayLike) -> int:
    """Return how many neighbours should be drawn together, from how far they are alike.

    Parameters
    ----------
    values : float array (n,)
        In the order of the way; NaN where there is none.

    Notes
    -----
    The rule of Politis and White (Automatic block-length selection for the dependent
    bootstrap, Econometric Reviews 2004; corrected by Patton, Politis and White 2009) for the
    circular bootstrap: b = (2 G^2 / D)^(1/3) n^(1/3), D = 4/3 g(0)^2, with g(0) and G the sums
    of autocovariances, plain and times the distance, under a flat-top window that ends at
    twice the distance from which on autocorrelations are small. At least n^(1/3), at most
    the smaller of 3 n^(1/2) and n / 3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> block_length(rng.random(1000)), block_length(np.repeat(rng.random(50), 20))
    (10, 47)
    """
    given = np.asarray(values, np.float64)
    n = len(given)
    least = math.ceil(round(float(n) ** (1 / 3), 9))
    most = max(1, int(min(3 * math.sqrt(n), n / 3)))
    known = ~np.isnan(given)
    if n < 8 or not known.any() or np.ptp(given[known]) == 0:
        return int(min(least, most))
    centred = np.where(known, given - np.mean(given[known]), 0.0)
    run = max(5, math.ceil(math.sqrt(math.log10(n))))
    furthest = min(math.ceil(math.sqrt(n)) + run, n - 1)
    covariance = np.array([centred[: n - lag] @ centred[lag:] / n for lag in range(furthest + 1)])
    small = np.abs(covariance[1:] / covariance[0]) < 2 * math.sqrt(math.log10(n) / n)
    quiet = [lag for lag in range(len(small) - run + 1) if small[lag: lag + run].all()]
    window = min(2 * max(quiet[0] if quiet else furthest, 1), furthest)
    lag = np.arange(1, window + 1)
    weight = np.clip(2 * (1 - lag / window), 0.0, 1.0)
    plain = covariance[0] + 2 * np.sum(weight * covariance[1: window + 1])
    moment = 2 * np.sum(weight * lag * covariance[1: window + 1])
    if plain <= 0:
        return int(min(least, most))
    wanted = math.ceil(float(2 * moment**2 * n / (4 / 3 * plain**2)) ** (1 / 3))
    return int(min(max(wanted, least), most))


def block_draws(
    total: Floats, size: Floats, length: int, *, resamples: int, seed: int
) -> Floats:
    """Return a mean over resampled blocks of a circular way.

    Parameters
    ----------
    total, size : float64 arrays (n,)
        Value and weight of each query in the order of the way; 0 where it takes no part.
    length : int
        Queries in a block; every query starts one, the last ones go on at the start, so that
        all queries are drawn equally often (Politis and Romano 1992).
    resamples, seed : int
        How many, and from where.

    Returns
    -------
    float64 array (resamples,)
        NaN where nothing that was drawn takes part.

    Examples
    --------
    >>> block_draws(np.array([0.0, 1.0]), np.ones(2), 2, resamples=3, seed=0)
    array([0.5, 0.5, 0.5])
    """
    n = len(total)
    starts = np.random.default_rng(seed).integers(0, n, (resamples, math.ceil(n / length)))
    sums = [_in_blocks(part, length)[starts].sum(axis=1) for part in (total, size)]
    out: Floats = np.full(resamples, np.nan)
    np.divide(sums[0], sums[1], out=out, where=sums[1] > 0)
    return out


def _in_blocks(values: Floats, length: int) -> Floats:
    """Return the sum of the block that starts at each place of the circle."""
    running = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[:length]]))])
    start = np.arange(len(values))
    return np.asarray(running[start + length] - running[start], np.float64)
