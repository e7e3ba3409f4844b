"""Range search, all items within a radius, against the exact answer; beside the registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError, ScoreError
from reid_vpr_eval.metrics import rows as reading
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.metrics.rows import Rows

__all__ = ["RangeSearchScores", "range_search_scores"]

Floats: TypeAlias = npt.NDArray[np.float64]

_BIG_ANN_THRESHOLDS = 100


@dataclass(frozen=True, slots=True, eq=False)
class RangeSearchScores:
    """How well a range search answered.

    Attributes
    ----------
    precision, recall : float
        Over all results and all true neighbours together (micro).
    macro_precision, macro_recall : float
        Means over queries.
    average_precision : float or None
        Over the returned distances of all queries together; None without distances.
    per_query_precision, per_query_recall : float64 arrays (n_query,)
        What the macro means are taken of.
    """

    precision: float
    recall: float
    macro_precision: float
    macro_recall: float
    average_precision: float | None
    per_query_precision: Floats
    per_query_recall: Floats


def range_search_scores(
    found: Rows,
    truth: Rows,
    found_distances: Rows | None = None,
    *,
    ap: Literal["exact", "big-ann"] = "exact",
) -> RangeSearchScores:
    """Compare the items that a range search returned with the true ones.

    As in faiss, the precision of an empty result is 1, and the recall of an empty truth is
    1 where the result is empty too, else 0; this holds for one query and for all together.

    Parameters
    ----------
    found, truth : one list of ids a query, in any order
        An item counts once. -1 and the empty string are skipped. For ``lims`` and ``I`` of
        faiss pass ``np.split(I, lims[1:-1])``.
    found_distances : one list a query, optional
        The distances of `found`, for the average precision. For similarities pass their
        negatives.
    ap : {"exact", "big-ann"}
        "exact": every distinct returned distance is a threshold, and the precision at each
        is weighted with the recall that it adds. "big-ann": what that tool prints, trapezoids
        between 100 thresholds from -0.001 to the largest distance, which stays outside; it can
        be negative where no query has a true neighbour.

    Raises
    ------
    AlignmentError
        If the numbers of queries, of distances or the kinds of ids differ.
    ScoreError
        If ids are malformed or a distance is not finite.
    NotCountedError
        If `ap` is none of the two.

    Examples
    --------
    >>> scores = range_search_scores([[1, 2], []], [[1, 3], []], [[0.1, 0.2], []])
    >>> scores.precision, scores.recall, scores.macro_precision, scores.macro_recall
    (0.5, 0.5, 0.75, 0.75)
    >>> scores.average_precision
    0.5
    """
    if ap not in ("exact", "big-ann"):
        raise NotCountedError(f"ap = {ap!r}: one of exact, big-ann is needed")
    results, known = reading.read_ids(found, "found"), reading.read_ids(truth, "truth")
    reading.check_kinds(results, known)
    reading.same_number(results, known)
    wanted = [{item for item in row if not reading.missing(item)} for row in known]
    got = [{item for item in row if not reading.missing(item)} for row in results]
    n_truth, n_found = (np.array([len(row) for row in side]) for side in (wanted, got))
    n_right = np.array([len(a & b) for a, b in zip(got, wanted, strict=True)])
    average = None
    if found_distances is not None:
        distance, right = _pooled(results, reading.read_distances(found_distances, "found"), wanted)
        of = _exact_ap if ap == "exact" else _big_ann_ap
        average = of(distance, right, int(n_truth.sum()))
    precisions, recalls = _precision(n_right, n_found), _recall(n_right, n_found, n_truth)
    total = [np.array([count.sum()]) for count in (n_right, n_found, n_truth)]
    return RangeSearchScores(
        precision=float(_precision(*total[:2])[0]), recall=float(_recall(*total)[0]),
        macro_precision=exact_mean(precisions), macro_recall=exact_mean(recalls),
        average_precision=average,
        per_query_precision=precisions, per_query_recall=recalls,
    )  # fmt: skip


def _precision(right: Any, found: Any) -> Floats:
    return np.where(found > 0, right / np.maximum(found, 1), 1.0)


def _recall(right: Any, found: Any, truth: Any) -> Floats:
    return np.where(truth > 0, right / np.maximum(truth, 1), np.where(found > 0, 0.0, 1.0))


def _pooled(
    found: list[list[Any]], distances: Sequence[npt.NDArray[Any]], truth: list[set[Any]]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the distance of each found item of all queries, ascending, and if it is true."""
    reading.same_number(distances, found, "rows of distances")
    pooled: list[tuple[float, bool]] = []
    for query, (row, away, known) in enumerate(zip(found, distances, truth, strict=True)):
        if len(row) != len(away):
            raise AlignmentError(f"query {query} has {len(away)} distances for {len(row)} items")
        nearest: dict[Any, float] = {}
        for item, distance in zip(row, away.tolist(), strict=True):
            if not reading.missing(item):
                nearest[item] = min(distance, nearest.get(item, distance))
        if not np.isfinite(list(nearest.values())).all():
            raise ScoreError(f"query {query} has an item with an infinite distance")
        pooled += [(distance, item in known) for item, distance in nearest.items()]
    pooled.sort()
    values = np.array([pair[0] for pair in pooled], np.float64)
    return values, np.array([pair[1] for pair in pooled], np.bool_)


def _exact_ap(distance: Floats, right: npt.NDArray[np.bool_], n_truth: int) -> float:
    if not n_truth or not len(distance):
        return float(not n_truth and not len(distance))
    ends = np.flatnonzero(np.append(distance[1:] != distance[:-1], True))
    hits = np.cumsum(right)[ends]
    return float((np.diff(hits, prepend=0) * hits / (ends + 1)).sum() / n_truth)


def _big_ann_ap(distance: Floats, right: npt.NDArray[np.bool_], n_truth: int) -> float:
    if not len(distance):
        return 0.0
    thresholds = np.linspace(-0.001, distance.max(), _BIG_ANN_THRESHOLDS)
    found = np.searchsorted(distance, thresholds)
    hits = np.append(0, np.cumsum(right))[found]
    precision, recall = _precision(hits, found), _recall(hits, found, np.array(n_truth))
    return float((np.diff(recall) * (precision[1:] + precision[:-1]) / 2).sum())
