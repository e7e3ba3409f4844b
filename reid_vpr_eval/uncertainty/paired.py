"""Is a difference more than chance: paired tests by unit, for one pair of runs or several.

Queries of one identity, place or image are no independent evidence, so whole units change
sign together. Everything here is a function of arrays; the same differences give the same
numbers whatever the order of queries, of units, or of the two runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.uncertainty.analytic import freedom_of
from reid_vpr_eval.uncertainty.clusters import (
    Clusters,
    bca_limits,
    bootstrap_means,
    jackknife_means,
)

__all__ = [
    "FEW_UNITS", "Effect", "Limits", "McNemar", "SignFlips", "effect", "holm", "mcnemar",
    "paired_limits", "sign_flips", "unit_sums",
]  # fmt: skip

Floats = npt.NDArray[np.float64]

#: Below so many units the bootstrap is too narrow.
FEW_UNITS = 100
#: Statistics that differ by less than this share of their largest possible value are equal.
_SAME = 1e-10
#: Values of two queries that differ by less than this are equal.
_EQUAL = 1e-12
#: Signs that are in memory at once.
_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class SignFlips:
    """What the sign-flip test found, one entry a pair of runs.

    Attributes
    ----------
    p : float array (n_pairs,)
        The two-sided p of each pair on its own.
    adjusted : float array (n_pairs,)
        The p corrected for all pairs together by step-down max-T.
    n_units : int
        Units that were given.
    n_moving : int
        Those among them that differ at all; only their signs matter.
    exact : bool
        Whether all signs were gone through, rather than drawn.
    n_signs : int
        How many signs were gone through or drawn.
    seed : int or None
        Of the draws; None if there were none.
    """

    p: Floats
    adjusted: Floats
    n_units: int
    n_moving: int
    exact: bool
    n_signs: int
    seed: int | None


def unit_sums(
    differences: npt.ArrayLike, units: npt.ArrayLike | None = None
) -> Floats:
    """Add the differences of each unit.

    Parameters
    ----------
    differences : array (n_query,) or (n_query, n_pairs)
        Of each query, no NaN; times its weight where queries weigh differently.
    units : array (n_query,), optional
        What each query belongs to; by default every query is a unit of its own.

    Returns
    -------
    float array (n_units, n_pairs)
        Values within a unit are added from the smallest, so order changes no bit.

    Examples
    --------
    >>> unit_sums([0.5, -0.25, 0.5], ["a", "a", "b"]).ravel()
    array([0.25, 0.5 ])
    """
    values = np.asarray(differences, np.float64)
    values = values[:, None] if values.ndim == 1 else values
    values = np.where(_is_nothing(values), 0.0, values)
    if units is None:
        return values
    clusters = Clusters.of(units)
    sums = np.stack([clusters.sums(column)[0] for column in values.T], axis=1)
    gross = np.stack([clusters.sums(column)[0] for column in np.abs(values).T], axis=1)
    # What is left of terms that cancel is no difference.
    return np.where(np.abs(sums) <= _EQUAL * gross, 0.0, sums)


def sign_flips(
    differences: npt.ArrayLike,
    units: npt.ArrayLike | None = None,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> SignFlips:
    """Test paired differences by changing the signs of whole units.

    If two runs are equally good, the differences of a unit are as likely as the same with
    the other sign. p is the share of sign changes with a mean at least as far from 0 as the
    observed one: exact over all 2^n sign changes if these are not more than `resamples`, and
    (b + 1) / (B + 1) over B = `resamples` random ones otherwise, which is never 0. The same
    signs are used for all pairs.

    `adjusted` holds the p corrected for several pairs by step-down max-T: with t_j the sum
    of a pair's differences over the root of its sum of squares over units (which no sign
    changes), the p of the k-th largest |t| is the share of sign changes in which any of the
    pairs from the k-th on reaches it.

    Parameters
    ----------
    differences : array (n_query,) or (n_query, n_pairs)
        Of each query, no NaN; times its weight where queries weigh differently.
    units : array (n_query,), optional
        What each query belongs to; by default every query is a unit of its own.
    resamples : int
        Random sign changes, and the most that are gone through one by one.
    seed : int
        Of the random sign changes.

    Returns
    -------
    SignFlips

    Notes
    -----
    Smucker, Allan and Carterette, CIKM 2007 (randomisation of paired differences); Phipson
    and Smyth, 2010 (why b + 1); Westfall and Young, 1993, and Romano and Wolf, JASA 2005
    (step-down max-T). Statistics that differ by rounding alone count as equal.

    Examples
    --------
    >>> found = sign_flips([0.25, 0.5, 0.125, 0.25])
    >>> found.p, found.exact, found.n_signs
    (array([0.125]), True, 16)
    >>> sign_flips([0.25, 0.5, 0.125, 0.25], ["a", "a", "b", "b"]).p
    array([0.5])
    """
    sums = unit_sums(differences, units)
    moving = _canonical(sums[(sums != 0).any(axis=1)])
    n_moving, n_pairs = moving.shape
    if not n_moving:
        ones = np.ones(n_pairs)
        return SignFlips(ones, ones.copy(), len(sums), 0, exact=True, n_signs=1, seed=None)
    root = np.sqrt((moving**2).sum(axis=0))
    scaled = np.divide(moving, root, out=np.zeros_like(moving), where=root > 0)
    observed = np.abs((sums / np.where(root > 0, root, 1.0)).sum(axis=0))
    exact = n_moving < max(resamples, 1).bit_length()
    least = observed - _SAME * np.abs(scaled).sum(axis=0).max()
    order = np.argsort(-observed, kind="stable")
    alone, stepped = np.zeros(n_pairs, np.int64), np.zeros(n_pairs, np.int64)
    half = 1 << (n_moving - 1) if exact else resamples
    for signs in _all_signs(n_moving) if exact else _random_signs(n_moving, resamples, seed):
        found = np.abs(2 * (signs @ scaled) - scaled.sum(axis=0))
        alone += (found >= least).sum(axis=0)
        highest = np.maximum.accumulate(found[:, order][:, ::-1], axis=1)[:, ::-1]
        stepped[order] += (highest >= least[order]).sum(axis=0)
    add = 0 if exact else 1
    p, adjusted = (alone + add) / (half + add), (stepped + add) / (half + add)
    adjusted[order] = np.maximum.accumulate(adjusted[order])
    return SignFlips(
        p, adjusted, len(sums), n_moving, exact, 2 * half if exact else half,
        None if exact else seed,
    )  # fmt: skip


def holm(p: npt.ArrayLike) -> Floats:
    """Correct p-values for their number by Holm's rule (1979).

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = np.asarray(p, np.float64)
    order = np.argsort(values, kind="stable")
    steps = (len(values) - np.arange(len(values))) * values[order]
    out = np.empty_like(values)
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return out


class Limits(NamedTuple):
    """An interval, and how it was made: "t" or "bca"."""

    low: float
    high: float
    method: str


def paired_limits(
    differences: npt.ArrayLike,
    units: npt.ArrayLike | None = None,
    *,
    weights: npt.ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Limits | str]:
    """Return the interval of each pair's mean difference, by unit.

    From 100 units on the BCa bootstrap, in which whole units are drawn, the same for all
    pairs. Below that it would be too narrow (it holds the truth about 92 times of 100 with 35
    units and 89 with 10), and Student's t is taken: the mean difference, plus and minus t
    times the root of J / (J - 1) sum (s_j - d n_j)^2 over the number of queries, with s_j the
    sum and n_j the size of unit j of J, and t of fewer than J - 1 degrees of freedom where few
    units differ much from the rest (see `freedom_of`).

    Parameters
    ----------
    differences : array (n_query,) or (n_query, n_pairs)
        Of each query, no NaN.
    units : array (n_query,), optional
        What each query belongs to; by default every query is a unit of its own.
    weights : array (n_query,), optional
        Of each query in the mean.
    level : float
        Coverage.
    resamples, seed : int
        Of the bootstrap.

    Returns
    -------
    list of Limits or str
        Why there are none: with fewer than two units, or where no query differs, nothing
        tells how much other queries would.

    Examples
    --------
    >>> paired_limits([0.5, 0.25, 0.25, 0.5])[0].method
    't'
    >>> paired_limits([0.5, 0.25], ["a", "a"])
    ['all queries are of one unit']
    """
    values = np.asarray(differences, np.float64)
    values = values[:, None] if values.ndim == 1 else values
    values = np.where(_is_nothing(values), 0.0, values)
    clusters = Clusters.alone(len(values)) if units is None else Clusters.of(units)
    if clusters.n_units < 2:
        one = "one query does not tell how queries differ"
        return [one if len(values) == 1 else "all queries are of one unit"] * values.shape[1]
    parts = [clusters.sums(column, weights) for column in values.T]
    total = np.stack([part[0] for part in parts], axis=1)
    size = np.stack([part[1] for part in parts], axis=1)
    # Units stand in the order of their sizes and sums: their names and order do not matter, and
    # nor does the direction of the differences.
    order = np.lexsort([*np.abs(total).T[::-1], *size.T[::-1]])
    total, size = total[order], size[order]
    if clusters.n_units < FEW_UNITS:
        made = [_student(total[:, pair], size[:, pair], level) for pair in range(total.shape[1])]
    else:
        made = _bootstrapped(total, size, level, resamples, seed)
    return [
        limits if values[:, pair].any() else "no query differs"
        for pair, limits in enumerate(made)
    ]


def _student(total: Floats, size: Floats, level: float) -> Limits:
    """Return the interval of a ratio of sums over few units."""
    from scipy.special import stdtrit

    n, mean = len(total), total.sum() / size.sum()
    influence = total - mean * size
    spread = np.sqrt(n / (n - 1) * np.sum(influence**2)) / size.sum()
    reach = float(stdtrit(freedom_of(influence), (1 + level) / 2) * spread)
    return Limits(float(mean) - reach, float(mean) + reach, "t")


def _bootstrapped(
    total: Floats, size: Floats, level: float, resamples: int, seed: int
) -> list[Limits]:
    draws = bootstrap_means(total, size, resamples=resamples, seed=seed)
    without = jackknife_means(total, size)
    means = total.sum(axis=0) / size.sum(axis=0)
    return [
        Limits(*bca_limits(float(mean), draws[:, pair], without[:, pair], level), "bca")
        for pair, mean in enumerate(means)
    ]


@dataclass(frozen=True, slots=True)
class Effect:
    """How large a difference is, whatever the number of queries.

    Attributes
    ----------
    standardised : float or None
        The mean difference over the standard deviation of the differences of queries
        (Cohen's d for pairs); None where that is 0 and the mean is not.
    higher, lower, equal : float
        The shares of queries with a higher, a lower and the same value; they add up to 1.
    """

    standardised: float | None
    higher: float
    lower: float
    equal: float


def effect(differences: npt.ArrayLike) -> Effect:
    """Return effect sizes of paired differences (n_query,).

    >>> effect([0.5, 0.5, 0.0, -0.5])
    Effect(standardised=0.26111648393354675, higher=0.5, lower=0.25, equal=0.25)
    """
    values = np.sort(np.asarray(differences, np.float64))
    same = _is_nothing(values)
    n = len(values)
    mean = float(values.mean())
    spread = float(values.std(ddof=1)) if n > 1 else 0.0
    constant = 0.0 if same.all() else None
    standardised = mean / spread if spread > _EQUAL * abs(mean) else constant
    up, down = int((~same & (values > 0)).sum()), int((~same & (values < 0)).sum())
    return Effect(standardised, up / n, down / n, (n - up - down) / n)


@dataclass(frozen=True, slots=True)
class McNemar:
    """Queries that one of two runs gets right, and the exact test on them.

    Attributes
    ----------
    only_first, only_second, both, neither : int
        Queries that are right in the first run alone, in the second alone, in both, in none.
    p : float
        The two-sided binomial p of the first two; units play no part in it.
    """

    only_first: int
    only_second: int
    both: int
    neither: int
    p: float


def mcnemar(first: npt.ArrayLike, second: npt.ArrayLike) -> McNemar | None:
    """Return the exact McNemar test of two runs' hits, or None if a value is not 0 or 1.

    On such values it is the sign-flip test without units.

    >>> mcnemar([1, 1, 0, 1], [0, 1, 0, 0])
    McNemar(only_first=2, only_second=0, both=1, neither=1, p=0.5)
    """
    from scipy.stats import binomtest

    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not (np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all()):
        return None
    only_first, only_second = int((a > b).sum()), int((b > a).sum())
    both = int(((a == 1) & (b == 1)).sum())
    discordant = only_first + only_second
    p = float(binomtest(only_first, discordant, 0.5).pvalue) if discordant else 1.0
    return McNemar(only_first, only_second, both, len(a) - both - discordant, p)


def _is_nothing(differences: Floats) -> npt.NDArray[np.bool_]:
    """Tell which differences are those of equal values, that is rounding at most."""
    size = np.abs(differences)
    return np.asarray(size <= _EQUAL * np.maximum(1.0, size.max(axis=0, initial=0.0)))


def _canonical(sums: Floats) -> Floats:
    """Put units in an order of their own: neither names, nor order, nor direction matter."""
    first = np.argmax(sums != 0, axis=1)
    sign = np.sign(sums[np.arange(len(sums)), first])
    turned = sums * np.where(sign == 0, 1.0, sign)[:, None]
    return np.asarray(turned[np.lexsort(turned.T[::-1])])


def _all_signs(n: int) -> Iterator[Floats]:
    """Yield all signs of n units (1 or 0 for minus), the first one always plus."""
    total, step = 1 << (n - 1), max(1, _AT_ONCE // n)
    for start in range(0, total, step):
        number = np.arange(start, min(start + step, total), dtype=np.int64)
        signs = (number[:, None] >> np.arange(n, dtype=np.int64)) & 1
        signs[:, n - 1] = 1
        yield signs.astype(np.float64)


def _random_signs(n: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield random signs (1 or 0 for minus); how many at once changes none of them."""
    rng = np.random.default_rng(seed)
    words, step = -(-n // 64), max(1, _AT_ONCE // n)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        bits = rng.integers(0, 2**64, size=(rows, words), dtype=np.uint64).astype("<u8")
        flat = np.unpackbits(bits.view(np.uint8), axis=1, count=n)
        yield flat.astype(np.float64)
