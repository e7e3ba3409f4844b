"""``calc_cmc``, ``calc_precision`` and ``calc_map`` of open-metric-learning.

Precision divides by the smallest of k, the number of right items and the length of the
list; average precision by the hits among the first k, so that positives that were missed
cost nothing. What differs from the original: numbers are float64, and where nothing is
right but something was retrieved precision is 0 (there it is NaN).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.compat._reading import indexed
from reid_vpr_eval.errors import AlignmentError, counted
from reid_vpr_eval.evaluator import plain_array
from reid_vpr_eval.metrics import compute
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.scores import RankedLists

__all__ = ["calc_cmc", "calc_map", "calc_precision"]

Floats = npt.NDArray[np.float64]


def calc_cmc(gt_tops: Sequence[Any], n_gt: Sequence[int], top_k: Sequence[int]) -> list[Floats]:
    """Compute whether each query hits among the first k.

    Parameters
    ----------
    gt_tops : sequence of bool sequences
        For each query whether each retrieved item is right, best first.
    n_gt : sequence of int
        How many items are right for each query, retrieved or not.
    top_k : sequence of int
        Cut-offs.

    Returns
    -------
    list of float64 arrays (n_query,)
        One for each cut-off. 1 where nothing is right and nothing was retrieved.

    Raises
    ------
    AlignmentError
        If more items are right in a list than there are.

    Examples
    --------
    >>> calc_cmc([[False, True]], [2], [1, 2])
    [array([0.]), array([1.])]
    """
    return _read(gt_tops, n_gt, top_k, "CMC@{k}")


def calc_precision(
    gt_tops: Sequence[Any], n_gt: Sequence[int], top_k: Sequence[int]
) -> list[Floats]:
    """Compute the precision at k, see :func:`calc_cmc`.

    >>> calc_precision([[False, True]], [2], [1, 2])
    [array([0.]), array([0.5])]
    """
    return _read(gt_tops, n_gt, top_k, "P@{k}(divisor=min)")


def calc_map(gt_tops: Sequence[Any], n_gt: Sequence[int], top_k: Sequence[int]) -> list[Floats]:
    """Compute the average precision at k over the hits, see :func:`calc_cmc`.

    >>> calc_map([[True, False, True]], [5], [1, 3])
    [array([1.]), array([0.83333333])]
    """
    return _read(gt_tops, n_gt, top_k, "mAP@{k}(divisor=hits)")


def _read(
    gt_tops: Sequence[Any], n_gt: Sequence[int], top_k: Sequence[int], name: str
) -> list[Floats]:
    flags = [plain_array(row).astype(bool) for row in gt_tops]
    total = plain_array(n_gt).astype(np.int64)
    hits = np.array([int(row.sum()) for row in flags])
    if total.shape != hits.shape or (hits > total).any():
        raise AlignmentError(
            f"n_gt has the shape {total.shape} for {counted(len(flags), 'list')}, or is smaller "
            "than the number of right items in a list"
        )
    width = max(len(row) for row in flags)
    missed = total - hits
    right = [
        [*np.flatnonzero(row).tolist(), *range(width, width + int(more))]
        for row, more in zip(flags, missed, strict=True)
    ]
    relevance = indexed(right, max(width + int(missed.max()), 1), no_positive="zero")
    lists = RankedLists([list(range(len(row))) for row in flags])
    names = [name.format(k=k) for k in top_k]
    values = compute(
        rank(lists, relevance), names, ties="index", unretrieved="zero", missing_query="zero"
    )
    nothing = (total == 0) & np.array([len(row) == 0 for row in flags])
    return [np.where(nothing, 1.0, values.per_query(short)) for short in names]
