"""Beyond the pool: a model of galleries that are larger than what was ranked.

Nothing unbiased exists there (the numbers up to the pool are U-statistics). The model: every
positive has a rate at which items of the population stand above it. Of the N items of the pool
a did; a further item does with a rate that is Beta(alpha + a, beta + N - a), where alpha and
beta are fitted to the counts of the run (empirical Bayes), for the first positives of the
queries, the last ones and those between apart. For positives that no pool item beats the rate
lies in a tail of which larger counts say little: there the density of rates near 0 may be a
power, x^(kappa - 1), fitted to the counts 0, 1 and 2 alone, so that a = 0 stays 0 in a gallery
of n with the chance (N / n)^kappa. Which of the two holds is not known; every replicate stands
at a random place between them, and the interval spans both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.metrics.grammar import MetricName, parse
from reid_vpr_eval.metrics.policy import decreed, policy_of
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.pairs import NoPositive
from reid_vpr_eval.studies.distractors.drawn import Drawn, recorded
from reid_vpr_eval.studies.distractors.pairs import Pairs, PoolPositives, read_pairs
from reid_vpr_eval.studies.distractors.strata import Strata

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Forecast", "ForecastPoint", "backtest", "forecast_points"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

#: Counts up to this one tell of the tail.
_SMALL = 2
#: Fewer positives than these are no ground for a fit.
_FEW = 10
LEVEL = 0.95
REPLICATES = 100


@dataclass(frozen=True, slots=True)
class Forecast:
    """The fitted model: alpha and beta of the rates, kappa of the tail near 0."""

    alpha: float
    beta: float
    kappa: float

    @classmethod
    def fit(cls, above: Ints, pool: Ints, weight: Floats | None = None) -> Forecast:
        """Fit to the counts of positives, by maximum likelihood.

        Parameters
        ----------
        above, pool : int64 arrays (n,)
            Pool items above each positive, and the pool's size.
        weight : float64 array (n,), optional
            How often each counts.

        Raises
        ------
        NotCountedError
            If there are fewer than ten positives.
        """
        from scipy.optimize import minimize, minimize_scalar
        from scipy.special import betaln

        if len(above) < _FEW:
            raise NotCountedError(
                f"a forecast is fitted to the counts of many positives, and there are {len(above)}"
            )
        every = np.ones(len(above)) if weight is None else weight
        counts, place = np.unique(above, return_inverse=True)
        often = np.bincount(place, weights=every)
        size = np.bincount(place, weights=every * pool) / np.maximum(often, 1e-300)
        counts, often, size = counts[often > 0], often[often > 0], size[often > 0]

        def of_rates(log: Floats) -> float:
            alpha, beta = np.exp(np.clip(log, -12, 20))
            terms = betaln(counts + alpha, size - counts + beta) - betaln(alpha, beta)
            return -float(often @ terms)

        mean = float(often @ (counts / size)) / float(often.sum())
        start = np.log([0.3, 0.3 * (1 - mean + 1e-9) / (mean + 1e-9)])
        found = minimize(of_rates, start, method="Nelder-Mead",
                         options={"maxiter": 200, "xatol": 1e-3, "fatol": 1e-3})  # fmt: skip
        alpha, beta = np.exp(np.clip(found.x, -12, 20))
        small = counts <= _SMALL
        if often[small].sum() < _FEW:
            return cls(float(alpha), float(beta), float(alpha))
        of_each: list[float] = np.bincount(
            counts[small], weights=often[small], minlength=_SMALL + 1
        ).tolist()

        def of_tail(log: float) -> float:
            # Of kappa (kappa + 1) ... (kappa + k - 1) / k!, for k of 0, 1, ...
            kappa, terms = math.exp(log), [1.0]
            for k in range(_SMALL):
                terms.append(terms[-1] * (kappa + k) / (k + 1))
            whole = math.log(sum(terms))
            return -sum(n * (math.log(one) - whole) for n, one in zip(of_each, terms, strict=True))

        tail = minimize_scalar(of_tail, bounds=(-7, 3), method="bounded")
        return cls(float(alpha), float(beta), float(np.exp(tail.x)))

    def further(
        self, above: Ints, pool: Ints, more: int, tail: float, rng: np.random.Generator
    ) -> Ints:
        """Draw how many of `more` further items stand above each positive.

        `tail` is 0 where positives that nothing beats have the rates of all, and 1 where they
        have those of the tail.
        """
        none = above == 0
        shape = np.where(none, self.kappa**tail * self.alpha ** (1 - tail), self.alpha)
        rest = np.where(none, (1 - tail) * self.beta, self.beta)
        rate = rng.beta(above + shape, np.maximum(pool - above + rest, 1e-9))
        return rng.binomial(more, np.clip(rate, 0, 1))


@dataclass(frozen=True, slots=True, eq=False)
class ForecastPoint:
    """A forecast at one size: the mean of each metric, and its interval."""

    size: int
    gallery: int
    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]


def forecast_points(
    ranking: Ranking,
    sizes: Sequence[int],
    metrics: Sequence[str | MetricName],
    *,
    base: Strata = "positives",
    pool: Strata = "negatives",
    no_positive: NoPositive | None = None,
    pool_positives: PoolPositives = "error",
    seed: int = 0,
    replicates: int = REPLICATES,
) -> list[ForecastPoint]:
    """Forecast metrics for galleries of the whole pool and further items like it.

    Parameters
    ----------
    ranking, metrics, base, pool, no_positive, pool_positives
        As for :func:`distractor_curve`.
    sizes : sequence of int
        Larger than the pool.
    seed, replicates : int
        Each replicate fits the model to queries drawn with replacement, draws a rate for
        every positive and the items above it. The value is their mean, the interval holds the
        middle 95 % of them. What it leaves out: that queries share the further items, and
        that these may be unlike the pool. :func:`backtest` tells how often it held.
    """
    names = [parse(name) for name in metrics]
    shared = {"pool_positives": pool_positives}
    pairs = read_pairs(ranking, base, pool, **shared)  # type: ignore[arg-type]
    graded = lambda: read_pairs(ranking, base, pool, graded=True, **shared)  # type: ignore[arg-type]  # noqa: E731
    return _points(ranking, pairs, graded, sizes, names, no_positive, seed, replicates)


def _points(
    ranking: Ranking,
    pairs: Pairs,
    graded: Any,
    sizes: Sequence[int],
    names: Sequence[MetricName],
    no_positive: NoPositive | None,
    seed: int,
    replicates: int,
) -> list[ForecastPoint]:
    _check(names)
    view = recorded(Drawn(pairs, graded), names)
    rng = np.random.default_rng(seed)
    found: dict[int, list[list[float]]] = {size: [] for size in sizes}
    for _ in range(replicates):
        drawn = rng.integers(0, pairs.n_query, pairs.n_query)
        often = np.bincount(drawn, minlength=pairs.n_query).astype(float)
        models = _fitted(pairs, often)
        for size in sizes:
            found[size].append(_replicate(ranking, view, names, models, size, no_positive, rng))
    points = []
    for size in sizes:
        values = np.array(found[size])
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        mean = values.mean(axis=0)
        texts = [str(name) for name in names]
        evaluated = pairs.n_positive > 0
        rows = pairs.base_rows
        start = float(pairs.base_size[evaluated].mean()) if rows is None else rows
        points.append(ForecastPoint(
            size, round(start + size), dict(zip(texts, mean.tolist(), strict=True)),
            dict(zip(texts, zip(low.tolist(), high.tolist(), strict=True), strict=True)),
        ))  # fmt: skip
    return points


def _check(names: Iterable[MetricName]) -> None:
    for name in names:
        if "%" in name.k:
            raise NotCountedError(f"{name}: a percentage has no forecast: give the cut-off as a "
                                  "number")  # fmt: skip
        if dict(name.options).get("divisor") in ("min", "retrieved") and name.name == "P":
            raise NotCountedError(f"{name} has no forecast: take divisor=k")


def _place(number: Ints, n_positive: Ints) -> Ints:
    """Return 0 for first positives, 2 for last ones of several, 1 between."""
    return np.where(number == 1, 0, np.where(number == n_positive, 2, 1))


def _fitted(pairs: Pairs, often: Floats) -> list[Forecast]:
    """Fit a model to first, middle and last positives; to all where there are few.

    Of pool items that tie with a positive half count as above.
    """
    group = np.repeat(np.arange(len(pairs.query)), pairs.right)
    inside = np.arange(len(group)) - np.repeat(np.cumsum(pairs.right) - pairs.right, pairs.right)
    query = pairs.query[group]
    above, pool = pairs.above[group] + pairs.pool_tied[group] // 2, pairs.pool_size[query]
    place = _place(pairs.right_before[group] + inside + 1, pairs.n_positive[query])
    whole: Forecast | None = None
    models = []
    for part in range(3):
        mine = (place == part) & (often[query] > 0)
        if mine.sum() >= _FEW:
            models.append(Forecast.fit(above[mine], pool[mine], often[query[mine]]))
            continue
        whole = whole or Forecast.fit(above, pool, often[query])
        models.append(whole)
    return models


def _replicate(
    ranking: Ranking,
    view: Drawn,
    names: Sequence[MetricName],
    models: Sequence[Forecast],
    size: int,
    no_positive: NoPositive | None,
    rng: np.random.Generator,
) -> list[float]:
    def drawn_above(above: Ints, pool: Ints, number: Ints, of: Ints) -> Ints:
        more = max(size - int(pool.max(initial=0)), 0)
        place, out, tail = _place(number, of), above.copy(), float(rng.uniform())
        for part, model in enumerate(models):
            mine = place == part
            out[mine] += model.further(above[mine], pool[mine], more, tail, rng)
        return out

    view.answer_by(size, drawn_above)
    reading = replace(view.reading, size=view.size)
    policy = policy_of(ranking, reading, no_positive or ranking.no_positive, "zero")
    values = [decreed(name, name.apply(view, 0), policy) for name in names]
    return [exact_mean(one[policy.evaluated]) for one in values]


def backtest(
    ranking: Ranking,
    metrics: Sequence[str | MetricName] = ("mAP", "CMC@1"),
    *,
    hidden: float = 0.5,
    seeds: Iterable[int] = range(10),
    base: Strata = "positives",
    pool: Strata = "negatives",
    no_positive: NoPositive | None = None,
    pool_positives: PoolPositives = "error",
    replicates: int = REPLICATES,
) -> pd.DataFrame:
    """Hide part of the pool, forecast the whole from the rest, and compare with what it is.

    Where the pool is of eight strata or more, whole strata are hidden, the same for all
    queries. Else every query's items are hidden at random, each query's own.

    Returns
    -------
    pandas.DataFrame
        Columns seed, seen, size, metric, forecast, low, high, value (what it is) and held
        (whether the interval holds it).
    """
    import pandas as pd

    names = [parse(name) for name in metrics]
    pairs = read_pairs(ranking, base, pool, pool_positives=pool_positives, by_stratum=True)
    view = recorded(Drawn(pairs, lambda: pairs), names)
    largest = pairs.largest_size
    view.answer(largest)
    policy = policy_of(ranking, replace(view.reading, size=view.size),
                       no_positive or ranking.no_positive, "zero")  # fmt: skip
    truth = {str(name): exact_mean(decreed(name, name.apply(view, 0), policy)[policy.evaluated])
             for name in names}  # fmt: skip
    rows = []
    for seed in seeds:
        seen = _hide(ranking, pairs, hidden, np.random.default_rng(seed))
        point, = _points(ranking, seen, lambda seen=seen: seen, [largest], names, no_positive,
                         seed, replicates)  # fmt: skip
        for name, value in truth.items():
            low, high = point.intervals[name]
            rows.append((seed, seen.largest_size, largest, name, point.values[name], low, high,
                         value, low <= value <= high))  # fmt: skip
    return pd.DataFrame(rows, columns=["seed", "seen", "size", "metric", "forecast", "low", "high",
                                       "value", "held"])  # fmt: skip


_WHOLE_STRATA = 8


def _hide(ranking: Ranking, pairs: Pairs, hidden: float, rng: np.random.Generator) -> Pairs:
    """Return the pairs as they would have been counted on part of the pool."""
    n_strata = 0 if pairs.above_in is None else pairs.above_in.shape[1]
    if n_strata >= _WHOLE_STRATA and not pairs.own_pool:
        assert pairs.above_in is not None  # noqa: S101 (asked for)
        assert pairs.pool_tied_in is not None  # noqa: S101
        chosen = rng.permutation(n_strata)[: max(1, round(n_strata * (1 - hidden)))]
        names = [pairs.pool[i] for i in chosen]
        numbers = [ranking.strata.index(name) for name in names]
        rows = np.isin(ranking.row_stratum, numbers) & ~ranking.ignored_gallery
        size = np.full(pairs.n_query, int(rows.sum()))
        return replace(pairs, pool_size=size, pool_kept=np.minimum(pairs.pool_kept, size),
                       above=pairs.above_in[:, chosen].sum(axis=1), pool=tuple(names),
                       pool_tied=pairs.pool_tied_in[:, chosen].sum(axis=1))  # fmt: skip
    size = np.round(pairs.pool_size * (1 - hidden)).astype(np.int64)
    above, tied = pairs.above.copy(), pairs.pool_tied.copy()
    starts = np.searchsorted(pairs.query, np.arange(pairs.n_query + 1))
    for query in np.flatnonzero(np.diff(starts)).tolist():
        mine = slice(int(starts[query]), int(starts[query + 1]))
        # Items between one positive and the next, those that tie apart, and those below all.
        edges = np.stack([pairs.above[mine], pairs.above[mine] + pairs.pool_tied[mine]], 1).ravel()
        parts = np.diff([0, *edges.tolist(), int(pairs.pool_size[query])])
        kept = np.cumsum(rng.multivariate_hypergeometric(parts, int(size[query]),
                                                         method="marginals"))  # fmt: skip
        above[mine], tied[mine] = kept[:-1:2], kept[1::2] - kept[:-1:2]
    return replace(pairs, pool_size=size, pool_kept=np.minimum(pairs.pool_kept, size), above=above,
                   pool_tied=tied)  # fmt: skip
