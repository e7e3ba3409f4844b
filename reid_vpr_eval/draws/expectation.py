"""The exact expectation over all draws of one item of each group.

The item drawn of another group is above a positive with the share of that group's items that
are above it, independently for each group, so the number above is Poisson binomial. Tied items
are above with a chance common to all groups (the place of the positive among its equals), over
which is integrated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.ranking import Ranking, rank
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE
from reid_vpr_eval.scores import Embeddings, ScoreMatrix

__all__ = ["expected_over_draws"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_COUNTS_AT_ONCE = 1 << 21
_EXACT = ("CMC", "mAP", "MRR", "mINP")


def expected_over_draws(
    scores: Embeddings | ScoreMatrix,
    relevance: Relevance,
    codes: Ints,
    metrics: Sequence[str],
    *,
    ties: str = "expected",
    rest: bool = False,
    per_query: bool = False,
) -> tuple[dict[str, Floats], Floats]:
    """Return each query's expectation over all draws of one item of each group.

    Parameters
    ----------
    scores, relevance
        Of the whole gallery.
    codes : int array (n_gallery,)
        The group of each row.
    metrics : sequence of str
        CMC@k, mAP, MRR or mINP; all but mAP only where the positives of a query are of one
        group, since only then at most one of them is drawn.
    ties : str
        How equal scores are read.
    rest : bool
        The items that are not drawn are the queries (one set): a query of a group of n
        items carries the weight (n - 1) / n, the chance that it is not drawn itself.
    per_query : bool
        Every query has a draw of its own, from what it does not ignore.

    Returns
    -------
    values : dict of float64 arrays (n_query,)
        NaN for queries without a positive.
    weights : float64 array (n_query,)
        0 for these.
    """
    names = [parse(name) for name in metrics]
    for name in names:
        if name.name not in _EXACT or name.options or (name.name != "CMC" and name.k):
            raise NotCountedError(
                f"{name} has no exact expectation over draws here (CMC@k, mAP, MRR and mINP "
                "have): take method = 'sample'"
            )
    n_groups = int(codes.max()) + 1
    widest = n_groups * max(int(np.diff(relevance.offsets).max(initial=0)), 1)
    step = max(1, _COUNTS_AT_ONCE // widest)
    every = np.arange(relevance.n_gallery)
    values = {str(name): np.full(relevance.n_query, np.nan) for name in names}
    weights = np.zeros(relevance.n_query)
    for start in range(0, relevance.n_query, step):
        rows = np.arange(start, min(start + step, relevance.n_query))
        part = _Part(rank(scores.take(rows, every), relevance.take(rows), strata=codes), codes,
                     rest=rest, per_query=per_query)  # fmt: skip
        mated = part.n_positive_groups > 0
        weights[rows] = np.where(mated, part.weight, 0.0)
        deepest = max((int(name.k) for name in names if name.name == "CMC"), default=0)
        hits = part.hit_rates(deepest, ties) if deepest else np.empty((0, 0))
        for name in names:
            found = hits[:, int(name.k) - 1] if name.k else part.precision(name.name, ties)
            values[str(name)][rows] = np.where(mated, found, np.nan)
    return values, weights


class _Part:
    """A block of queries: how many items of each group stand above each positive."""

    def __init__(self, ranking: Ranking, codes: Ints, *, rest: bool, per_query: bool) -> None:
        self._n_query = ranking.n_query
        n_groups = int(codes.max()) + 1
        size = np.bincount(codes, minlength=n_groups).astype(float)
        pair_query, role = ranking.query_of_pair, ranking.effective_role
        self._pairs = np.flatnonzero(role == POSITIVE)
        self._query, self._group = pair_query[self._pairs], codes[ranking.item[self._pairs]]
        touched = np.unique(self._query * n_groups + self._group)
        self.n_positive_groups = np.bincount(touched // n_groups, minlength=ranking.n_query)
        self._size = np.tile(size, (ranking.n_query, 1))
        self.weight = np.ones(ranking.n_query)
        if per_query:
            out = np.flatnonzero(role == IGNORED)
            np.add.at(self._size, (pair_query[out], codes[ranking.item[out]]), -1)
        elif rest:
            own = np.zeros(ranking.n_query, np.int64)
            own[self._query] = self._group
            self._size[np.arange(ranking.n_query), own] -= 1
            self.weight = (size[own] - 1) / size[own]
        self._above, self._tied, self._before = self._counts(ranking, codes)
        right = np.zeros((ranking.n_query, n_groups), bool)
        right[self._query, self._group] = True
        self._right = right[self._query]

    def _counts(self, ranking: Ranking, codes: Ints) -> tuple[Floats, Floats, Floats]:
        """Return counts by group (n_positive, n_groups), judged items included."""
        found = [counts[self._pairs].astype(float)
                 for counts in (ranking.above, ranking.tied, ranking.tied_before)]  # fmt: skip
        role = ranking.effective_role
        first = np.searchsorted(self._pairs, ranking.offsets)
        for query in range(ranking.n_query):
            mine = slice(ranking.offsets[query], ranking.offsets[query + 1])
            others = np.flatnonzero(role[mine] != IGNORED) + mine.start
            rows = np.arange(first[query], first[query + 1])
            group = codes[ranking.item[others]]
            score, order = ranking.score[others], ranking.order[others]
            for row in rows:
                pair = self._pairs[row]
                higher = score > ranking.score[pair]
                equal = (score == ranking.score[pair]) & (others != pair)
                np.add.at(found[0][row], group[higher], 1)
                np.add.at(found[1][row], group[equal], 1)
                np.add.at(found[2][row], group[equal & (order < ranking.order[pair])], 1)
        return found[0], found[1], found[2]

    def hit_rates(self, deepest: int, ties: str) -> Floats:
        """Return the chance of a positive among the first 1, 2, ... `deepest` items."""
        self._one_positive("CMC")
        total = np.zeros((len(self._pairs), deepest))
        for weight, _, wrong in self._chances(ties):
            total += weight * _fewer(wrong, deepest)
        return np.stack([self._mean(column) for column in total.T], axis=1)

    def precision(self, name: str, ties: str) -> Floats:
        """Return the mean average precision (MRR and mINP are the same for one positive)."""
        if name != "mAP":
            self._one_positive(name)
        total = np.zeros(len(self._pairs))
        for weight, right, wrong in self._chances(ties):
            total += weight * _mean_precision(right, wrong)
        return self._mean(total)

    def _one_positive(self, name: str) -> None:
        if (self.n_positive_groups > 1).any():
            raise NotCountedError(
                f"{name} has an exact expectation only where one positive is drawn; here queries "
                "have positives in several groups of the draw: take method = 'sample'"
            )

    def _mean(self, of_pair: Floats) -> Floats:
        """Average over the positive that is drawn of each group, and over the groups."""
        size = self._size[self._query, self._group]
        weighted = of_pair / np.maximum(size, 1)
        sums = np.bincount(self._query, weights=weighted, minlength=self._n_query)
        return np.asarray(sums / np.maximum(self.n_positive_groups, 1))

    def _chances(self, ties: str) -> Iterator[tuple[float, Floats, Floats]]:
        """Yield weights and each group's chance to be above, positive and other groups apart."""
        size = self._size[self._query]
        own = np.zeros_like(self._right)
        own[np.arange(len(own)), self._group] = True
        for weight, above in self._readings(ties):
            chance = np.divide(above, size, out=np.zeros_like(above), where=size > 0)
            right = np.where(self._right & ~own, chance, 0.0)
            yield weight, right, np.where(self._right, 0.0, chance)

    def _readings(self, ties: str) -> Iterator[tuple[float, Floats]]:
        """Yield weights and how many items of each group count as above each positive."""
        if ties != "expected":
            more = {"index": self._before, "optimistic": np.zeros_like(self._tied),
                    "pessimistic": self._tied}[ties]  # fmt: skip
            # Positives that tie with one another stand in tie order, first or last together.
            yield 1.0, self._above + np.where(self._right, self._before, more)
            return
        degree = int((self._tied > 0).sum(axis=1).max(initial=0))
        nodes, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            yield weight / 2, self._above + (node + 1) / 2 * self._tied


def _fewer(chance: Floats, deepest: int) -> Floats:
    """Return P(fewer than k successes) for k = 1 to `deepest`, of independent trials a row."""
    exactly = np.zeros((len(chance), deepest))
    exactly[:, 0] = 1.0
    for trial in chance.T:
        if trial.any():
            moved = exactly * trial[:, None]
            exactly -= moved
            exactly[:, 1:] += moved[:, :-1]
    return np.cumsum(exactly, axis=1)


def _mean_precision(right: Floats, wrong: Floats) -> Floats:
    """Return E[(1 + X) / (1 + X + Y)] of two Poisson binomial numbers, for each row.

    It is the integral over s from 0 to 1 of d/ds[s G_X(s)] G_Y(s), with the generating
    functions of both: a polynomial, for which Gauss-Legendre is exact.
    """
    degree = int(((right > 0) | (wrong > 0)).sum(axis=1).max(initial=0))
    nodes, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    total = np.zeros(len(right))
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        s = (node + 1) / 2
        factors = 1 - right + right * s
        product = factors.prod(axis=1)
        slope = product * (right / np.maximum(factors, 1e-300)).sum(axis=1)
        total += weight / 2 * (product + s * slope) * (1 - wrong + wrong * s).prod(axis=1)
    return total
