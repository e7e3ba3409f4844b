"""The numbers of ``AccuracyCalculator.get_accuracy`` of pytorch-metric-learning.

What differs from the original:

- Labels are compared as they are given; there integers pass through float32, in which
  those above 2^24 collide.
- `k` cuts the mean average precision and the reciprocal rank, nothing else: R-precision and
  MAP@R always look at the first R items, while there a smaller k changes their denominators.
- A k beyond the reference is answered; there the fillers of the search are counted as the
  last label, and an average precision may exceed 1.
- Means are float64, and any subset of the metrics may be asked for.
- If no query has another item of its label, an error is raised; there the answer is 0.
- AMI and NMI belong to clusterings and are not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.compat._reading import indexed
from reid_vpr_eval.errors import AlignmentError, NotCountedError, counted
from reid_vpr_eval.evaluator import plain_array
from reid_vpr_eval.metrics import compute
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.relevance import Relevance, same_label
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings

__all__ = ["accuracy"]

Array = npt.NDArray[Any]

_NAMES = {
    "mean_average_precision": "mAP",
    "mean_average_precision_at_r": "MAP@R",
    "mean_reciprocal_rank": "MRR",
    "precision_at_1": "P@1",
    "r_precision": "R-precision",
}
_CUT = ("mean_average_precision", "mean_reciprocal_rank")


def accuracy(
    query: Any,
    query_labels: Any,
    reference: Any = None,
    reference_labels: Any = None,
    ref_includes_query: bool = False,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    avg_of_avgs: bool = False,
    k: int | str | None = None,
    *,
    label_comparison_fn: Callable[[Array, Array], Any] | None = None,
    metric: str = "euclidean",
    ties: str = "index",
) -> dict[str, float]:
    """Compute retrieval accuracies of embeddings.

    Parameters
    ----------
    query, reference : arrays (n, d)
        Embeddings; without a reference the queries search among themselves.
    query_labels, reference_labels : arrays (n,)
        Labels: integers or strings.
    ref_includes_query : bool
        The reference begins with the queries, row by row; no query finds itself.
    include, exclude : sequence of str
        Which of the five metrics are wanted; all by default.
    avg_of_avgs : bool
        Average over the queries of each label first, then over labels.
    k : int or "max_bin_count", optional
        How deep lists are searched; by default to the end.
    label_comparison_fn : callable, optional
        Takes labels x and y (n, ...) and says row by row whether they match; labels may then
        be of any shape.
    metric : str
        How embeddings are compared.
    ties : {"index", "expected", "optimistic", "pessimistic"}
        How equal distances are read.

    Returns
    -------
    dict of str to float
        mean_average_precision, mean_average_precision_at_r, mean_reciprocal_rank,
        precision_at_1 and r_precision, over the queries with a matching reference item.

    Raises
    ------
    AlignmentError
        If ``ref_includes_query=True`` and the reference does not begin with the queries.
    NotCountedError
        If a metric or `k` is not known.

    Examples
    --------
    >>> found = accuracy([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1])
    >>> found["precision_at_1"], found["mean_average_precision_at_r"]
    (1.0, 1.0)
    """
    wanted = _wanted(include, exclude)
    ours, our_labels = plain_array(query), plain_array(query_labels)
    if reference is None:
        theirs, their_labels, ref_includes_query = ours, our_labels, True
    elif reference_labels is None:
        raise AlignmentError("a reference needs its labels: reference_labels=")
    else:
        theirs, their_labels = plain_array(reference), plain_array(reference_labels)
    if ref_includes_query:
        _check_included((ours, our_labels), (theirs, their_labels))
    _check_labels(("query", ours, our_labels), ("reference", theirs, their_labels))
    if label_comparison_fn is None:
        relevance = _by_label(our_labels, their_labels, ref_includes_query)
    elif avg_of_avgs:
        raise NotCountedError("avg_of_avgs needs labels that are equal or not, without a function")
    else:
        relevance = _by_function(our_labels, their_labels, ref_includes_query, label_comparison_fn)
    depth = _depth(k, relevance)
    cut = "" if depth is None else f"@{depth}"
    names = {name: _NAMES[name] + (cut if name in _CUT else "") for name in wanted}
    ranking = rank(Embeddings(ours, theirs, metric=metric), relevance)
    values = compute(ranking, list(names.values()), ties=ties)
    if not avg_of_avgs:
        return {name: values[short] for name, short in names.items()}
    codes = np.unique(our_labels, return_inverse=True)[1][values.evaluated]
    return {
        name: _average_of_averages(values.per_query(short)[values.evaluated], codes)
        for name, short in names.items()
    }


def _wanted(include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    for name in (*include, *exclude):
        if name not in _NAMES:
            raise NotCountedError(f"{name!r} is not offered; known: {', '.join(_NAMES)}")
    return [name for name in _NAMES if (not include or name in include) and name not in exclude]


def _check_included(ours: tuple[Array, Array], theirs: tuple[Array, Array]) -> None:
    for what, mine, other in zip(("embeddings", "labels"), ours, theirs, strict=True):
        if not np.array_equal(mine, other[: len(mine)]):
            raise AlignmentError(
                f"ref_includes_query=True: the {what} of the reference must begin with those of "
                "the queries, row by row"
            )


def _check_labels(*sides: tuple[str, Array, Array]) -> None:
    for side, vectors, labels in sides:
        if len(vectors) != len(labels):
            raise AlignmentError(
                f"{side}: {counted(len(labels), 'label')} for {counted(len(vectors), 'embedding')}"
            )


def _by_label(ours: Array, theirs: Array, included: bool) -> Relevance:
    if not included:
        return same_label(Samples.from_columns(label=ours), Samples.from_columns(label=theirs))
    query = Samples.from_columns(label=ours, id=np.arange(len(ours)))
    return same_label(query, Samples.from_columns(label=theirs, id=np.arange(len(theirs))))


def _by_function(
    ours: Array, theirs: Array, included: bool, matches: Callable[[Array, Array], Any]
) -> Relevance:
    right = [
        np.flatnonzero(plain_array(matches(np.broadcast_to(label, theirs.shape), theirs)))
        for label in ours
    ]
    own = [[row] for row in range(len(ours))] if included else [[]] * len(ours)
    return indexed(right, len(theirs), ignored=own, no_positive="skip")


def _depth(k: int | str | None, relevance: Relevance) -> int | None:
    if k is None:
        return None
    if k == "max_bin_count":
        return max(1, int(relevance.n_positive.max(initial=1)))
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise NotCountedError(f"k = {k!r}: None, 'max_bin_count' or a whole number from 1")
    return int(k)


def _average_of_averages(
    values: npt.NDArray[np.float64], codes: npt.NDArray[np.int64]
) -> float:
    return exact_mean(np.array([exact_mean(values[codes == code]) for code in np.unique(codes)]))
