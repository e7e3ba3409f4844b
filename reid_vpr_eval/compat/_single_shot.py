"""The hit rate when one random gallery image of each identity is drawn, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking import Ranking, rank
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.relevance.pairs import POSITIVE
from reid_vpr_eval.scores import Embeddings, ScoreMatrix

__all__ = ["single_shot_cmc"]

Floats = npt.NDArray[np.float64]

_COUNTS_AT_ONCE = 1 << 22


def single_shot_cmc(
    scores: Embeddings | ScoreMatrix,
    relevance: Relevance,
    labels: npt.NDArray[Any],
    max_rank: int,
    ties: str,
) -> Floats:
    """Return the expected CMC at 1 to `max_rank` over draws of one image an identity.

    The image drawn of another identity is above a positive with the share of that
    identity's images that are above it, independently for each identity, so that the
    number above has a Poisson binomial distribution. The query's own image is drawn
    likewise. Tied images are above with a chance that is common to all identities, the
    place of the positive among its equals, over which is integrated.
    """
    sizes = np.diff(relevance.offsets)
    width = len(np.unique(labels)) * max(int(sizes.max(initial=0)), 1)
    step = max(1, _COUNTS_AT_ONCE // width)
    total, n_valid = np.zeros(max_rank), 0
    everything = np.arange(relevance.n_gallery)
    for start in range(0, relevance.n_query, step):
        rows = np.arange(start, min(start + step, relevance.n_query))
        ranking = rank(scores.take(rows, everything), relevance.take(rows), strata=labels)
        positive = np.flatnonzero(ranking.role == POSITIVE)
        query = ranking.query_of_pair[positive]
        size = ranking.n_unjudged[query]
        hit = np.zeros((len(positive), max_rank))
        for weight, above in _above(ranking, positive, ties):
            hit += weight * _fewer(above / np.maximum(size, 1), max_rank)
        share = 1 / ranking.n_positive[query]
        total += (hit * share[:, None]).sum(axis=0)
        n_valid += int((ranking.n_positive > 0).sum())
    return total / n_valid


def _above(
    ranking: Ranking, pairs: npt.NDArray[np.int64], ties: str
) -> Iterator[tuple[float, Floats]]:
    """Yield weights and how many images of each identity count as above each positive."""
    above, tied, before = (
        counts[pairs].astype(float)
        for counts in (ranking.above, ranking.tied, ranking.tied_before)
    )
    if ties != "expected":
        more = {"index": before, "optimistic": np.zeros_like(tied), "pessimistic": tied}[ties]
        yield 1.0, above + more
        return
    degree = int((tied > 0).sum(axis=1).max(initial=0))
    nodes, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        yield weight / 2, above + (node + 1) / 2 * tied


def _fewer(chance: Floats, k_max: int) -> Floats:
    """Return P(fewer than k successes) for k = 1 to `k_max`, of independent trials a row."""
    exactly = np.zeros((len(chance), k_max))
    exactly[:, 0] = 1.0
    for trial in chance.T:
        if trial.any():
            moved = exactly * trial[:, None]
            exactly -= moved
            exactly[:, 1:] += moved[:, :-1]
    return np.cumsum(exactly, axis=1)
