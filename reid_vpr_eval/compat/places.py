"""Recall calls of the gsv-cities family (MixVPR, SALAD) and of OpenVPRLab.

What differs from the originals:

- Any order of `k_values` is right, and a k beyond the gallery is answered; there cut-offs
  must ascend, and the fillers of a too short search are compared with the truth.
- The search is exact and equal distances are ordered by gallery position.
- -1 in a list of the truth stands for nothing; a row past the end of the gallery is an
  error.
- Nothing is printed: with ``print_results=True`` the line goes to the log of this module,
  at level INFO.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.compat._reading import indexed
from reid_vpr_eval.errors import AlignmentError, counted
from reid_vpr_eval.evaluator import plain_array
from reid_vpr_eval.metrics import compute
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.scores import Embeddings

__all__ = ["compute_recall_performance", "get_validation_recalls"]

_logger = logging.getLogger(__name__)


def get_validation_recalls(
    r_list: Any,
    q_list: Any,
    k_values: Sequence[int],
    gt: Sequence[Any],
    print_results: bool = True,
    faiss_gpu: bool = False,  # noqa: ARG001 (the search is exact and runs on the CPU)
    dataset_name: str = "dataset without name ?",
    testing: bool = False,
    *,
    ties: str = "index",
) -> dict[int, float] | npt.NDArray[np.int64]:
    """Compute the hit rate at k by Euclidean distance; queries without a positive miss.

    Parameters
    ----------
    r_list, q_list : arrays (n_references, d) and (n_queries, d)
        Descriptors of the database and of the queries.
    k_values : sequence of int
        Cut-offs.
    gt : sequence of int sequences
        The database rows that are right for each query.
    print_results : bool
        Write the result to the log.
    faiss_gpu : bool
        Taken and ignored.
    dataset_name : str
        Named in the log.
    testing : bool
        Return the nearest database rows instead.
    ties : {"index", "expected", "optimistic", "pessimistic"}
        How equal distances are read.

    Returns
    -------
    dict of int to float
        k to the share of queries; with ``testing=True`` an int64 array
        (n_queries, max(k_values)) of database rows, -1 where there are fewer.

    Raises
    ------
    AlignmentError
        If the truth does not have one list a query, or names a row past the end.

    Examples
    --------
    >>> database, queries = [[0.0], [1.0], [2.0]], [[0.1], [1.9]]
    >>> get_validation_recalls(database, queries, [1, 2], [[0], [1]])
    {1: 0.5, 2: 1.0}
    """
    scores = Embeddings(plain_array(q_list), plain_array(r_list), metric="sqeuclidean")
    if testing:
        nothing = indexed([[]] * scores.n_query, scores.n_gallery, no_positive="zero")
        top = rank(scores, nothing, top_k=max(k_values)).top_item
        assert top is not None  # noqa: S101 (it was asked for)
        return top
    if len(gt) != scores.n_query:
        raise AlignmentError(
            f"the truth has {counted(len(gt), 'list')} for {counted(scores.n_query, 'query')}: one "
            "for each is needed"
        )
    relevance = indexed(gt, scores.n_gallery, no_positive="zero")
    values = compute(rank(scores, relevance), [f"CMC@{k}" for k in k_values], ties=ties)
    recalls = {int(k): values[f"CMC@{k}"] for k in k_values}
    if print_results:
        shown = ", ".join(f"R@{k}: {100 * value:.1f}" for k, value in recalls.items())
        _logger.info("%s: %s", dataset_name, shown)
    return recalls


def compute_recall_performance(
    descriptors: Any,
    num_references: int,
    num_queries: int,
    ground_truth: Sequence[Any],
    k_values: Sequence[int] = (1, 5, 10, 15),
    *,
    ties: str = "index",
) -> dict[int, float]:
    """Compute the hit rate at k from one array: references first, then queries.

    Parameters
    ----------
    descriptors : array (num_references + num_queries, d)
        Descriptors of both.
    num_references, num_queries : int
        How many of each.
    ground_truth : sequence of int sequences
        The references that are right for each query.
    k_values : sequence of int
        Cut-offs.
    ties : {"index", "expected", "optimistic", "pessimistic"}
        How equal distances are read.

    Returns
    -------
    dict of int to float
        k to the share of queries that hit.

    Raises
    ------
    AlignmentError
        If the numbers do not add up to the descriptors.

    Examples
    --------
    >>> compute_recall_performance([[0.0], [1.0], [0.9]], 2, 1, [[1]], k_values=[1])
    {1: 1.0}
    """
    array = plain_array(descriptors)
    if num_references + num_queries != len(array):
        raise AlignmentError(
            f"{counted(num_references, 'reference')} and "
            f"{counted(num_queries, 'query is', 'queries are')} not the {len(array)} descriptors "
            "that were given"
        )
    recalls = get_validation_recalls(
        array[:num_references], array[num_references:], k_values, ground_truth,
        print_results=False, ties=ties,
    )  # fmt: skip
    assert isinstance(recalls, dict)  # noqa: S101 (narrows the type)
    return recalls
