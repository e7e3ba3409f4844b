"""What metrics see that are no means over queries: first answers and pooled pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.views import Floats, View
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.pairs import IGNORED, NEGATIVE, POSITIVE

__all__ = ["PairScores", "Pool", "first_answers"]


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """Scores of all positive pairs and of the largest negative ones (larger is better).

    `negatives` is descending; `n_negatives` counts all, kept or not.
    """

    positives: Floats
    negatives: Floats
    n_negatives: int

    @property
    def complete(self) -> bool:
        """Whether every negative pair was kept."""
        return len(self.negatives) == self.n_negatives


class Pool:
    """The first answer of every query, and pooled pair scores when they were kept.

    Attributes
    ----------
    score : float64 array (n_query,)
        Score of the first answer, NaN where there is none.
    correct : float64 array (n_query,)
        Whether the first answer is right; under expected ties its chance to be.
    has_positive, evaluated : bool arrays (n_query,)
    ties : str
        How equal scores are read.
    """

    def __init__(
        self, ranking: Ranking, view: View, evaluated: npt.NDArray[np.bool_], ties: str
    ) -> None:
        self._ranking, self._view = ranking, view
        self.has_positive = view.n_positive > 0
        self.evaluated = evaluated
        self.ties = ties

    @property
    def score(self) -> Floats:
        """Score of the first answer, NaN where there is none."""
        return first_answers(self._ranking)

    @property
    def correct(self) -> Floats:
        """Whether the first answer is right; under expected ties its chance to be."""
        return self._view.any_hit(1)

    def pairs(self) -> PairScores:
        """Return pooled pair scores of all queries.

        Raises
        ------
        NotCountedError
            If no negative scores were kept.
        """
        ranking = self._ranking
        if ranking.largest_negatives is None:
            raise NotCountedError(
                "scores of negative pairs were not kept: rank with pairs_kept=, the number of "
                "largest ones to keep (and keep the strata mask)"
            )
        role = ranking.effective_role
        judged = ranking.score[ranking.found & (role == NEGATIVE)]
        total = int((ranking.n_unjudged * ranking.kept).sum()) + len(judged)
        kept = np.sort(np.concatenate([ranking.largest_negatives, judged]))[::-1]
        unkept = total - len(kept)
        if unkept > 0:  # below the smallest kept one nothing is known
            kept = kept[kept >= ranking.largest_negatives[-1]]
        return PairScores(ranking.score[ranking.found & (role == POSITIVE)], kept, total)


def first_answers(ranking: Ranking) -> Floats:
    """Return the score of the best item of each query that is not ignored (NaN: none).

    Raises
    ------
    NotCountedError
        If a regrade changed which strata queries keep: the best item is not known then.
    """
    if (ranking.best_item == -2).any():
        raise NotCountedError(
            "the first answer is not known after a regrade that changed which strata queries "
            "keep: rank again with that relevance"
        )
    best = np.where(ranking.best_item >= 0, ranking.best_score, -np.inf)
    judged = (ranking.effective_role != IGNORED) & ranking.found
    np.maximum.at(best, ranking.query_of_pair[judged], ranking.score[judged])
    return np.where(np.isfinite(best), best, np.nan)
