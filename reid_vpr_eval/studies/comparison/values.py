"""The value of each query in a run, for any metric that is a mean over queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, NotCountedError, counted
from reid_vpr_eval.metrics import compute, parse
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.metrics.grammar import MetricName
from reid_vpr_eval.result import Result
from reid_vpr_eval.summary import shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_comparable", "macro_weights", "mean_of", "query_values"]

Floats = npt.NDArray[np.float64]
_COLUMNS = {"mAP": "ap", "mINP": "inp", "MeanR": "first_rank"}
_CLOSE = 1e-9


def check_comparable(metric: MetricName) -> None:
    """Refuse a metric that has no value of each query whose mean it is.

    Raises
    ------
    NotCountedError
    """
    if metric.metric.aggregate == "mean":
        return
    what = "is over all queries together and has no value of each"
    instead = "compare by a mean over queries, such as mAP or CMC@1"
    if metric.metric.aggregate == "median":
        what = "is a median over queries: the difference of two is no mean of differences"
        instead = "compare by MeanR or MRR"
    raise NotCountedError(f"{metric} {what}: {instead}")


def query_values(result: Result, metric: str, *, ties: str, run: str) -> Floats:
    """Return the value of each query, float64 (n_query,); NaN where it is not in the mean.

    From the counts if the run holds them, else from the table of queries where that says
    them exactly: average precision, inverse negative penalty and the rank of the first
    positive; hit rates and reciprocal ranks where equal scores leave no doubt.

    Raises
    ------
    NotCountedError
        If the run holds neither.
    FormatError
        If the values are not those of the run's own number.
    """
    name = parse(metric)
    check_comparable(name)
    if result.draws is not None:
        raise NotCountedError(
            f"{run}: its numbers are means over {counted(result.draws['draw'].nunique(), 'draw')} "
            "of the gallery, and its table of queries is that of the first draw alone: evaluate "
            "each draw as a run of its own and give them as one model"
        )
    try:
        if result.ranking is not None:
            values = _computed(result, name, ties)
        else:
            values = _from_table(result, name, ties)
    except NotCountedError as error:
        raise NotCountedError(f"{run}: {error}") from None
    _check_mean(result, name, values, ties, run)
    return values


def mean_of(values: Floats, weights: Floats | None) -> float:
    """Return the mean of values (n_query,), exactly rounded; weights have the mean 1."""
    return exact_mean(values if weights is None else values * weights)


def macro_weights(result: Result, inside: npt.NDArray[np.bool_]) -> Floats | None:
    """Return what each query weighs in a mean of group means; None where all weigh the same.

    Weights (the number of `inside`) have the mean 1. None too where the table of queries does
    not hold the groups: `query_values` has made sure then that the groups are of one size.
    """
    columns = result.protocol.evaluation.macro
    if not columns or not set(columns) <= set(result.per_query.columns):
        return None
    table = result.per_query.loc[inside]
    keys = [np.unique(table[column].astype(str), return_inverse=True)[1] for column in columns]
    _, group = np.unique(np.stack(keys), axis=1, return_inverse=True)
    sizes = np.bincount(group.ravel())
    return np.asarray(len(table) / len(sizes) / sizes[group.ravel()], np.float64)


def _computed(result: Result, name: MetricName, ties: str) -> Floats:
    ranking, protocol = result.ranking, result.protocol
    assert ranking is not None  # noqa: S101 (asked by the caller)
    found = {}
    for missing in ("zero", "skip"):
        values = compute(
            ranking, [name], ties=ties, no_positive=protocol.no_positive, unretrieved="zero",
            missing_query=missing,
        )  # fmt: skip
        found[missing] = values.per_query(str(name))
        # What an empty list meant is seen from how many queries were evaluated.
        if values.evaluated.sum() == result.counts.get("n_evaluated") or ranking.depth.all():
            return found[missing]
    return found["zero"]


def _from_table(result: Result, name: MetricName, ties: str) -> Floats:
    table = result.per_query
    column = _COLUMNS.get(str(name))
    if column is not None:
        values = _numbers(table, column, name)
        _check_ties(table, ties, name)
        return values
    if name.name == "CMC" and not name.options:
        k = name.cut(int(result.counts["n_gallery_ranked"]))
        assert k is not None  # noqa: S101 (CMC always has a cut-off)
        return _hits(table, int(k), name)
    if str(name) == "MRR":
        rank = _numbers(table, "first_rank", name)
        if table["n_tied"].any():
            raise NotCountedError(f"{name} of queries with equal scores {_NEEDS}")
        return np.where(np.isnan(rank), np.nan, np.where(_found(table), 1 / rank, 0.0))
    raise NotCountedError(
        f"{name} {_NEEDS}; without them mAP, mINP, MeanR, MRR and CMC@k can be compared"
    )


_NEEDS = (
    "needs the counts, which this run does not hold (ranking.npz): evaluate again with "
    "keep_ranking=True"
)


def _numbers(table: pd.DataFrame, column: str, name: MetricName) -> Floats:
    if column not in table:
        raise NotCountedError(f"its table of queries has no column {column!r}, so {name} {_NEEDS}")
    try:
        values = np.asarray(table[column], np.float64)
    except ValueError:
        raise FormatError(f"column {column!r} of the table of queries holds no numbers") from None
    if not len(values) or np.isnan(values).all():
        raise NotCountedError(f"its table of queries has nothing in {column!r}: {name} {_NEEDS}")
    return values


def _found(table: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Tell for which queries a positive was ranked."""
    ids = table["best_positive_id"]
    return np.asarray(ids.notna() & (ids.astype(str) != ""), np.bool_)


def _check_ties(table: pd.DataFrame, ties: str, name: MetricName) -> None:
    if ties != "expected" and "n_tied" in table and table["n_tied"].any():
        raise NotCountedError(
            f"the table of queries holds {name} as the mean over all orders of equal scores, the "
            f"{ties} reading {_NEEDS}"
        )


def _hits(table: pd.DataFrame, k: int, name: MetricName) -> Floats:
    """Return hits at k; refuse where equal scores leave it open whether a query hits."""
    rank = _numbers(table, "first_rank", name)
    tied = np.asarray(table["n_tied"], np.float64)
    found = _found(table)
    # A mean rank of 1 is always 1; else the rank is at most n_tied away from its mean.
    sure = (rank + tied <= k) | (rank - tied > k) | (rank == 1) | ~found | np.isnan(rank)
    if not sure.all():
        raise NotCountedError(
            f"{name} of {counted(int((~sure).sum()), 'query')} depends on the order of equal "
            f"scores, and so {_NEEDS}"
        )
    # Without a ranked positive there is no hit, unless the protocol decrees one (rank 1).
    hit = np.where(found, rank <= k, rank == 1)
    return np.where(np.isnan(rank), np.nan, hit.astype(np.float64))


def _check_mean(result: Result, name: MetricName, values: Floats, ties: str, run: str) -> None:
    """Refuse values that are not those of the number which the run reports."""
    inside = ~np.isnan(values)
    if not inside.any():
        raise NotCountedError(f"{run}: no query has a value of {name}")
    macro = result.protocol.evaluation.macro
    unknown = bool(macro) and not set(macro) <= set(result.per_query.columns)
    groups = (
        f"{run}: its numbers are means over the groups of {', '.join(macro)}, which its table of "
        "queries does not hold"
    )
    if str(name) not in list(result.metrics) or ties != result.protocol.report.ties:
        if unknown:
            raise NotCountedError(groups)
        return
    told = result.metrics[str(name)]
    mean = mean_of(values[inside], macro_weights(result, inside))
    if abs(mean - told) <= _CLOSE * max(1.0, abs(told)):
        return
    if unknown:
        raise NotCountedError(f"{groups}, and they are not of one size")
    raise FormatError(
        f"{run}: the queries' values of {name} have the mean {shown(str(name), mean)}, the run "
        f"says {shown(str(name), told)}: were its files changed?"
    )
