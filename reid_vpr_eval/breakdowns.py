"""Breakdowns: the same numbers by a column of the queries, and by pairs of cameras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError, counted
from reid_vpr_eval.metrics import compute, parse
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.pairs import NoPositive

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["by_column", "means_by", "stratum_matrix"]


def by_column(
    ranking: Ranking,
    values: npt.ArrayLike,
    metrics: Sequence[str],
    *,
    ties: str = "expected",
    no_positive: NoPositive | None = None,
) -> pd.DataFrame:
    """Return metrics for each value of a query column.

    Parameters
    ----------
    ranking : Ranking
        Complete.
    values : array (n_query,)
        The column: a camera, day or night, a city.
    metrics : sequence of str
        Means over queries; others (medians, pooled scores) are refused.

    Returns
    -------
    pandas.DataFrame
        Columns value, metric, mean, n_evaluated, n_query. A value of which no query is
        evaluated has no mean (NaN).

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, rank
    >>> relevance = Relevance.from_pairs([0, 1], [0, 1], n_query=2, n_gallery=2)
    >>> scores = ScoreMatrix([[0.9, 0.1], [0.9, 0.1]], higher_is_better=True)
    >>> table = by_column(rank(scores, relevance), ["day", "night"], ["CMC@1"])
    >>> dict(zip(table["value"], table["mean"]))
    {'day': 1.0, 'night': 0.0}
    """
    names = [_mean_only(name) for name in metrics]
    column = np.asarray(values)
    if column.shape != (ranking.n_query,):
        raise AlignmentError(
            f"the column has the shape {column.shape}: one value for each of the "
            f"{counted(ranking.n_query, 'query')} is needed"
        )
    computed = compute(
        ranking, names, ties=ties, no_positive=no_positive, unretrieved="zero",
        missing_query="zero",
    )  # fmt: skip
    return means_by({name: computed.per_query(name) for name in names}, computed.evaluated, column)


def means_by(
    per_query: Mapping[str, npt.NDArray[np.float64]],
    evaluated: npt.NDArray[np.bool_],
    column: npt.NDArray[Any],
) -> pd.DataFrame:
    """Average the values of evaluated queries for each value of a query column."""
    import pandas as pd

    rows: list[tuple[Any, str, float, int, int]] = []
    for value in np.unique(column):
        mine = column == value
        inside = mine & evaluated
        for name, values in per_query.items():
            found = values[inside]
            mean = exact_mean(found) if len(found) else float("nan")
            rows.append((value.item(), name, mean, int(inside.sum()), int(mine.sum())))
    return pd.DataFrame(rows, columns=["value", "metric", "mean", "n_evaluated", "n_query"])


def stratum_matrix(
    ranking: Ranking,
    values: npt.ArrayLike,
    metric: str,
    *,
    ties: str = "expected",
) -> pd.DataFrame:
    """Return a metric for every value of a query column against every stratum of the gallery.

    In each cell both positives and negatives are those of one stratum, as in the camera
    pairs of the official Market-1501 code. Queries without a positive there are left out.

    Parameters
    ----------
    ranking : Ranking
        Ranked with ``strata=`` (the gallery's camera, say).
    values : array (n_query,)
        The query's own column.
    metric : str
        A mean over queries.

    Returns
    -------
    pandas.DataFrame
        Rows: values of the column; columns: strata; NaN where no query has a positive.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, rank
    >>> relevance = Relevance.from_pairs([0, 0], [0, 2], n_query=1, n_gallery=3)
    >>> scores = ScoreMatrix([[0.9, 0.8, 0.7]], higher_is_better=True)
    >>> ranking = rank(scores, relevance, strata=[1, 2, 2])
    >>> stratum_matrix(ranking, ["a"], "MRR").loc["a"].to_dict()
    {'1': 1.0, '2': 0.5}
    """
    import pandas as pd

    name = _mean_only(metric)
    if len(ranking.strata) < 2:
        raise NotCountedError(
            "the gallery was not counted apart by a column: rank with strata= (for example the "
            "gallery's camera)"
        )
    column = np.asarray(values)
    distinct = np.unique(column)
    matrix = np.full((len(distinct), len(ranking.strata)), np.nan)
    for place in range(len(ranking.strata)):
        kept = np.zeros_like(ranking.kept)
        kept[:, place] = ranking.kept[:, place]
        alone = replace(ranking, kept=kept)
        if not alone.n_positive.any():
            continue
        computed = compute(alone, name, ties=ties, no_positive="skip")
        per_query = computed.per_query(name)
        for row, value in enumerate(distinct):
            mine = (column == value) & computed.evaluated
            if mine.any():
                matrix[row, place] = exact_mean(per_query[mine])
    return pd.DataFrame(
        matrix, index=[value.item() for value in distinct], columns=list(ranking.strata)
    )


def _mean_only(name: str) -> str:
    parsed = parse(name)
    if parsed.metric.aggregate != "mean":
        raise NotCountedError(
            f"{parsed} is no mean over queries: it cannot be broken down; leave it out"
        )
    return str(parsed)
