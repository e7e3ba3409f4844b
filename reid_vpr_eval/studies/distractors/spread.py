"""The spread over draws: how far the mean over queries lies from its mean over all draws.

All queries share the distractors that are drawn, so their values go up and down together,
and the spread of the mean is larger than that of draws made for each query. What it is
follows from counts by random strata of the pool: any t of S strata together are a random
sample of t N / S of its items, for which every query's value is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.metrics.expected import Expected
from reid_vpr_eval.metrics.grammar import MetricName, parse
from reid_vpr_eval.metrics.policy import decreed, policy_of
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.ranking.strata import PART
from reid_vpr_eval.relevance.pairs import NoPositive
from reid_vpr_eval.studies.distractors.pairs import Pairs, PoolPositives, read_pairs
from reid_vpr_eval.studies.distractors.strata import Strata, read_strata

__all__ = ["Draws", "Spread", "draws_by_strata", "has_parts", "spread_of"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
ValuesAt: TypeAlias = Callable[[Sequence[int]], Mapping[str, Floats]]

#: Shares of the strata at which draws are made, beside those that sizes ask for.
_SHARES = (0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99)
_NEAR = 0.004  # a size is on the grid if it is so near to t strata, in shares of one


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Means over queries for random draws that all queries share.

    Attributes
    ----------
    strata : int array (n_grid,)
        How many of the strata were drawn.
    sizes : float64 array (n_grid,)
        How many items these hold in the mean.
    values : dict of str to float64 array (n_orders, n_grid)
        By metric.
    n_strata : int
    """

    strata: Ints
    sizes: Floats
    values: Mapping[str, Floats]
    n_strata: int


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The standard deviation of means over random draws shared by all queries.

    Attributes
    ----------
    sd : dict of str to float64 array (n_sizes,)
        By metric.
    counted : bool array (n_sizes,)
        True where the size is that of whole strata, so that draws were recombined of counts;
        False where the value is interpolated.
    orders, seed, n_strata : int
    """

    sd: Mapping[str, Floats]
    counted: npt.NDArray[np.bool_]
    orders: int
    seed: int
    n_strata: int


def has_parts(ranking: Ranking, pool: Strata) -> bool:
    """Tell whether the pool was counted in random strata."""
    return len(_parts(ranking, pool)) > 1


def draws_by_strata(
    ranking: Ranking,
    strata: Sequence[int],
    metrics: Sequence[str | MetricName],
    *,
    base: Strata = "positives",
    pool: Strata = "negatives",
    no_positive: NoPositive | None = None,
    pool_positives: PoolPositives = "error",
    orders: int = 100,
    seed: int = 0,
) -> Draws:
    """Draw random strata of the pool in random orders, and evaluate the first few of each.

    Parameters
    ----------
    ranking : Ranking
        Counted with ``strata=random_strata(...)``.
    strata : sequence of int
        How many strata are drawn, from 0 to all of them.
    metrics : sequence of str
    base, pool, no_positive, pool_positives
        As of :func:`distractor_curve`.
    orders, seed : int
        How many random orders, and their seed.

    Raises
    ------
    NotCountedError
        If the pool was not counted in random strata.
    """
    names = [parse(name) for name in metrics]

    def read(graded: bool = False) -> Pairs:
        return read_pairs(ranking, base, pool, pool_positives=pool_positives, graded=graded,
                          by_stratum=True)  # fmt: skip

    pairs = read()
    graded = read(True) if any(name.name == "NDCG" for name in names) else pairs
    part = _part_of(ranking, base, pool)
    n_parts = int(part.max()) + 1
    draw = _Drawing(ranking, pairs, graded, part, names, no_positive)
    generator = np.random.default_rng(seed)
    values = {str(name): np.empty((orders, len(strata))) for name in names}
    for order in range(orders):
        shuffled = generator.permutation(n_parts)
        for place, found in enumerate(draw.means(shuffled, strata)):
            for name, value in found.items():
                values[name][order, place] = value
    sizes = pairs.largest_size * np.asarray(strata, float) / n_parts
    return Draws(np.asarray(strata, np.int64), sizes, values, n_parts)


def spread_of(
    ranking: Ranking,
    sizes: Sequence[int],
    metrics: Sequence[str],
    values_at: ValuesAt,
    *,
    base: Strata = "positives",
    pool: Strata = "negatives",
    no_positive: NoPositive | None = None,
    pool_positives: PoolPositives = "error",
    orders: int = 100,
    seed: int = 0,
) -> Spread:
    """Return the spread at any sizes.

    At sizes of whole strata it is that of recombined draws. Between them it is interpolated:
    the variance is put in relation to the sum over queries of (x(0) - x(n)) (x(n) - x(N)),
    where x(n) is a query's mean at size n (for a hit it is p (1 - p), the variance of draws
    made for each query), and this ratio changes little with the size.

    Parameters
    ----------
    ranking : Ranking
    sizes : sequence of int
    metrics : sequence of str
    values_at : callable
        Returns the mean over draws of each query at some sizes, (n_sizes, n_query) by metric;
        NaN for queries that are not in the mean.
    base, pool, no_positive, pool_positives, orders, seed
        As of :func:`draws_by_strata`.

    Notes
    -----
    Of S strata the standard deviation is known to about 1 / sqrt(2 S) of itself (7 % for
    100), however many orders. Unions of random strata are random samples; that draws share
    strata makes the variance too small by less than its S-th part, and by nothing where the
    value is a sum over drawn items.
    """
    n_parts = int(_part_of(ranking, base, pool).max()) + 1
    largest = read_pairs(ranking, base, pool, pool_positives=pool_positives).largest_size
    asked = n_parts * np.asarray(sizes, float) / max(largest, 1)
    counted = np.abs(asked - np.rint(asked)) <= np.maximum(_NEAR, 0.5 * n_parts / max(largest, 1))
    counted &= (np.rint(asked) > 0) | (asked == 0)
    wanted = {int(t) for t in np.rint(asked[counted])}
    if not counted.all():
        wanted |= {round(share * n_parts) for share in _SHARES}
    grid = sorted(wanted - {0, n_parts})
    draws = draws_by_strata(
        ranking, grid, metrics, base=base, pool=pool, no_positive=no_positive,
        pool_positives=pool_positives, orders=orders, seed=seed,
    )  # fmt: skip
    at_grid = {name: draws.values[name].var(axis=0, ddof=1) for name in metrics}
    every = [0, *(round(size) for size in draws.sizes.tolist()), largest, *sizes]
    found = {} if counted.all() else values_at(every)
    sd = {}
    for name in metrics:
        whole = np.interp(asked, [0, *grid, n_parts], [0, *at_grid[name], 0])
        if found:
            scale = _independent(found[name], len(grid))
            whole = np.where(counted, whole, _between(asked, grid, at_grid[name], scale))
        sd[name] = np.sqrt(whole)
    return Spread(sd, counted, orders, seed, n_parts)


def _independent(values: Floats, n_grid: int) -> tuple[Floats, Floats]:
    """Return the sum of (x(0) - x(n)) (x(n) - x(N)) over queries, at the grid and at the sizes.

    `values` (1 + n_grid + 1 + n_sizes, n_query) are those with nothing drawn, at the grid, with
    everything drawn, and at the sizes.
    """
    some = values[:, ~np.isnan(values).any(axis=0)]
    first, last = some[0], some[n_grid + 1]
    scale = np.abs((first - some) * (some - last)).sum(axis=1) / max(some.shape[1], 1) ** 2
    return scale[1 : n_grid + 1], scale[n_grid + 2 :]


def _between(
    asked: Floats, grid: Sequence[int], variance: Floats, scale: tuple[Floats, Floats]
) -> Floats:
    """Interpolate the ratio of a variance to its scale, linearly in the logarithm of the size."""
    at_grid, wanted = scale
    some = at_grid > 0
    if not some.any():
        return np.zeros(len(asked))
    ratio = variance[some] / at_grid[some]
    place = np.log(np.asarray(grid, float)[some])
    return np.asarray(wanted * np.interp(np.log(np.maximum(asked, 1e-9)), place, ratio))


class _Drawing:
    """Evaluates the gallery of the base and some parts of the pool."""

    def __init__(
        self, ranking: Ranking, pairs: Pairs, graded: Pairs, part: Ints,
        names: Sequence[MetricName], no_positive: NoPositive | None,
    ) -> None:  # fmt: skip
        self._ranking, self._names = ranking, names
        self._part, self._policy = part, no_positive or ranking.no_positive
        self._pairs = _Counted(pairs)
        self._graded = self._pairs if graded is pairs else _Counted(graded)

    def means(self, order: Ints, strata: Sequence[int]) -> Iterator[dict[str, float]]:
        """Yield the mean of each metric over queries, for the first few parts of an order."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        chosen = place[self._part][:, None] < np.asarray(strata)
        ours = self._pairs.readings(chosen)
        theirs = ours if self._graded is self._pairs else self._graded.readings(chosen)
        for reading, graded in zip(ours, theirs, strict=True):
            view = Expected(reading, partial(_given, graded))
            policy = policy_of(self._ranking, reading, self._policy, "zero")
            values = {}
            for name in self._names:
                found = decreed(name, name.apply(view, 0), policy)
                values[str(name)] = exact_mean(found[policy.evaluated])
            yield values


def _given(reading: Reading) -> Reading:
    return reading


class _Counted:
    """Counts by stratum, added up by products of matrices: exact, as all sums are below 2^53."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs, self._base = pairs, pairs.base_reading()
        assert pairs.above_in is not None  # noqa: S101 (asked for)
        assert pairs.pool_tied_in is not None  # noqa: S101
        small = int(pairs.above.max(initial=0)) < 1 << 24
        kind = np.float32 if small else np.float64
        self._above = pairs.above_in.astype(kind)
        self._tied = pairs.pool_tied_in.astype(kind) if pairs.pool_tied.any() else None

    def readings(self, chosen: npt.NDArray[np.bool_]) -> list[Reading]:
        """Return the readings of some galleries: of each, which strata are in it (S, n)."""
        weight = chosen.astype(self._above.dtype)
        above = (self._above @ weight).astype(np.int64)
        tied = 0 * above if self._tied is None else (self._tied @ weight).astype(np.int64)
        kept = self._pairs.pool_kept[:, None] * chosen.mean(axis=0)
        return [
            replace(self._base, before=self._base.before + above[:, number],
                    items=self._base.items + tied[:, number],
                    size=self._base.size + np.rint(kept[:, number]).astype(np.int64))
            for number in range(chosen.shape[1])
        ]  # fmt: skip


def _parts(ranking: Ranking, pool: Strata) -> set[int]:
    names = ranking.strata if pool == "negatives" else [pool] if isinstance(pool, str) else pool
    return {
        int(found[1])
        for stratum in ranking.strata
        for name in names
        if stratum == name or stratum.startswith(f"{name}/")
        if (found := PART.search(stratum))
    }


def _part_of(ranking: Ranking, base: Strata, pool: Strata) -> Ints:
    """Return the part that each stratum of the pool is."""
    mask = read_strata(ranking, base, pool).pool
    found = [PART.search(name) for name, inside in zip(ranking.strata, mask, strict=True) if inside]
    parts = [int(one[1]) for one in found if one is not None]
    if len(parts) < len(found) or len(set(parts)) < 2:
        raise NotCountedError(
            "the spread over draws is made of counts by random strata of the pool, and this "
            "ranking has none: rank with strata='random:100' (--strata random:100), or "
            "random_strata(..., of=[...]) for one part of the gallery"
        )
    return np.unique(np.array(parts), return_inverse=True)[1].astype(np.int64)
