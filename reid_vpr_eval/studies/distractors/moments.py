"""How far single draws lie from the mean: the exact variance of each query's value.

It is over draws, of one query at a time. Queries share the draw, so the variance of a mean
over queries is not made of these.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.metrics.grammar import MetricName, parse
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.studies.distractors.curve import check_metric, check_sizes
from reid_vpr_eval.studies.distractors.drawn import Drawn, recorded
from reid_vpr_eval.studies.distractors.expectation import Asked
from reid_vpr_eval.studies.distractors.hypergeometric import weights, window
from reid_vpr_eval.studies.distractors.pairs import Pairs, PoolPositives, read_pairs
from reid_vpr_eval.studies.distractors.strata import Strata

__all__ = ["query_variances"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


def query_variances(
    ranking: Ranking,
    metric: str | MetricName,
    size: int,
    *,
    base: Strata = "positives",
    pool: Strata = "negatives",
    pool_positives: PoolPositives = "error",
) -> Floats:
    """Return the exact variance over draws of one metric's value, for each query.

    Every metric that has a distractor curve is a sum over positives of functions of their
    ranks, g_1(P_1) + ... + g_m(P_m). The numbers of drawn items above them are nested: given
    A_j = u, the difference A_{j+1} - A_j is hypergeometric (N - a_j, a_{j+1} - a_j, n - u). So
    the mean of the square is found from the last positive to the first, by

        H_j(u) = E[g_{j+1} + H_{j+1} | A_j = u],
        E[(sum)^2] = sum of E[g_j^2] + 2 E[g_j H_j].

    Parameters
    ----------
    ranking, base, pool, pool_positives
        As for :func:`distractor_curve`.
    metric : str
        A mean over queries.
    size : int
        Distractors drawn.

    Returns
    -------
    float64 array (n_query,)
        NaN for queries without a positive, and where a positive ties with a negative of the
        base or with a pool item: there is no such form then.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, rank
    >>> relevance = Relevance.from_pairs([0], [1], n_query=1, n_gallery=4)
    >>> scores = ScoreMatrix([[0.9, 0.8, 0.5, 0.3]], higher_is_better=True)
    >>> query_variances(rank(scores, relevance), "CMC@1", 1)  # a hit in 2 of 3 draws
    array([0.22222222])
    """
    name = parse(metric)
    check_metric(name)

    def read(graded: bool = False) -> Pairs:
        return read_pairs(ranking, base, pool, pool_positives=pool_positives, graded=graded)

    view = recorded(Drawn(read(), lambda: read(graded=True)), [name])
    factors = view.factors(name, size)
    on_graded = any(graded for graded, _ in view.asked)
    pairs = read(graded=True) if on_graded else read()
    asked = [one for _, one in view.asked]
    check_sizes(name, pairs, size, pairs.n_positive > 0)
    out = np.full(pairs.n_query, np.nan)
    tied = np.zeros(pairs.n_query, bool)
    tied[pairs.query[(pairs.tied > 0) | (pairs.pool_tied > 0)]] = True
    starts = np.searchsorted(pairs.query, np.arange(pairs.n_query + 1))
    drawn = pairs.drawn(size)
    for query in np.flatnonzero((pairs.n_positive > 0) & ~tied).tolist():
        mine = slice(int(starts[query]), int(starts[query + 1]))
        terms = _Terms(pairs, asked, [float(f[query]) for f in factors], query, mine)
        out[query] = _variance(terms, int(pairs.pool_size[query]), int(drawn[query]))
    return out


class _Terms:
    """The functions of the ranks whose sum is a query's value."""

    def __init__(
        self, pairs: Pairs, asked: list[Asked], factors: list[float], query: int, groups: slice
    ) -> None:
        right = pairs.right[groups]
        inside = np.arange(int(right.sum())) - np.repeat(np.cumsum(right) - right, right)
        self.group = np.repeat(np.arange(groups.start, groups.stop), right)
        self.rank = pairs.before[self.group] + inside + 1
        self.above = pairs.above[self.group]
        self._asked = [(one, factor) for one, factor in zip(asked, factors, strict=True) if factor]
        self._query, self._n = query, len(self.rank)

    def value(self, j: int, drawn_above: Ints) -> Floats:
        """Return g_j for some numbers of drawn items above; j counts from 0."""
        rank = self.rank[j] + drawn_above
        total = np.zeros(len(rank))
        for one, factor in self._asked:
            if (one.of == "first" and j) or (one.of == "last" and j < self._n - 1):
                continue
            ones = np.ones(len(rank))
            values = ones if one.function is None else one.function(rank.astype(float))
            if one.cut is not None:
                cuts = np.ravel(one.cut)
                cut = int(cuts[self._query if len(cuts) > 1 else 0])
                values = values * (rank <= cut + (j + 1 if one.beside else 0))
            if isinstance(one.times, np.ndarray):
                factor *= float(one.times[self.group[j]])
            elif one.times == "number":
                factor *= j + 1
            total += factor * values
        return total


def _variance(terms: _Terms, pool: int, drawn: int) -> float:
    """Go from the last positive to the first: means and squares of what is left to come."""
    above, n = terms.above, len(terms.above)
    low, high = window(np.full(n, pool), above, np.full(n, drawn))
    later = np.zeros(1)
    mean = square = 0.0
    for j in range(n - 1, -1, -1):
        here = np.arange(low[j], high[j] + 1)
        if j < n - 1:
            following = np.arange(low[j + 1], high[j + 1] + 1)
            values = terms.value(j + 1, following) + later
            later = _given(here, values, int(low[j + 1]), pool - int(above[j]),
                           int(above[j + 1] - above[j]), drawn)  # fmt: skip
        else:
            later = np.zeros(len(here))
        chance = weights(np.array([pool]), above[j : j + 1], np.array([drawn]), low[j : j + 1],
                         len(here))[0]  # fmt: skip
        chance = chance / chance.sum()
        value = terms.value(j, here)
        mean += float(chance @ value)
        square += float(chance @ (value * (value + 2 * later)))
    return max(square - mean**2, 0.0)


def _given(here: Ints, values: Floats, first: int, pool: int, between: int, drawn: int) -> Floats:
    """Return E[values at u + B] for each u: B is hypergeometric (pool, between, drawn - u).

    `values` stand for the numbers from `first` on; those outside its ends have no chance.
    """
    if not between:
        return np.asarray(values[np.clip(here - first, 0, len(values) - 1)])
    pools, above, left = np.full(len(here), pool), np.full(len(here), between), drawn - here
    low, high = window(pools, above, left)
    width = int((high - low).max()) + 1
    chance = weights(pools, above, left, low, width)
    place = np.clip((here + low - first)[:, None] + np.arange(width), 0, len(values) - 1)
    return np.asarray((chance * values[place]).sum(axis=1) / chance.sum(axis=1))
