"""What figures read from the counts of a result, or why they cannot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.compute import view_of
from reid_vpr_eval.metrics.pool import Pool
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.result import Result

__all__ = ["as_given", "counts_of", "evaluated_of", "pool_of"]

Floats = npt.NDArray[np.float64]


def counts_of(result: Result, what: str) -> Ranking:
    """Return the counts of a result.

    Raises
    ------
    NotCountedError
        If they were not kept.
    """
    if result.ranking is None:
        raise NotCountedError(
            f"{what} need the counts, which this result does not hold: evaluate with "
            "keep_ranking=True"
        )
    return result.ranking


def evaluated_of(result: Result) -> npt.NDArray[np.bool_]:
    """Return which queries are in the means, by the table of queries."""
    return np.asarray(result.per_query["first_rank"].notna())


def pool_of(result: Result, what: str) -> Pool:
    """Return first answers and pooled pairs, equal scores read as the protocol says."""
    ranking = counts_of(result, what)
    ties = result.protocol.report.ties
    return Pool(ranking, view_of(ranking, ties), evaluated_of(result), ties)


def as_given(values: Floats, result: Result) -> Floats:
    """Return scores as they were given: distances positive, Euclidean ones as roots."""
    if result.ranking is None or result.ranking.higher_is_better:
        return values
    distances = -values + 0.0
    return np.sqrt(distances) if result.inputs.get("metric") == "euclidean" else distances
