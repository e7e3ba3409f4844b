"""Image-text retrieval: ``i2t`` and ``t2i`` of VSE++, and the metrics of ECCV Caption.

What differs from VSE++: equal scores are ordered by position, while there an unstable sort
is reversed; rows may also be given once an image; the order-embedding measure is not
offered. What differs from ECCV Caption: a list that ends before the first R items is
refused if it lacks positives (there it is an index error, or divides by what was
returned), and queries without a positive are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.compat._reading import indexed
from reid_vpr_eval.errors import AlignmentError, NotCountedError, counted
from reid_vpr_eval.evaluator import plain_array
from reid_vpr_eval.metrics import MetricValues, compute
from reid_vpr_eval.per_query import merged_top
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.scores import Embeddings, RankedLists

__all__ = ["compute_eccv_metrics", "compute_r_at_k", "compute_rprecision", "i2t", "t2i"]

Array = npt.NDArray[Any]
Recalls = tuple[float, float, float, float, float]
WithRanks = tuple[Recalls, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]

_CAPTIONS = 5


def i2t(
    images: Any,
    captions: Any,
    npts: int | None = None,
    measure: str = "cosine",
    return_ranks: bool = False,
    *,
    ties: str = "index",
) -> Recalls | WithRanks:
    """Search captions by image: caption j belongs to image j // 5.

    Parameters
    ----------
    images : array (5 N, d) or (N, d)
        Image embeddings, repeated for each of their captions or given once.
    captions : array (5 N, d)
        Caption embeddings.
    npts : int, optional
        Evaluate the first so many images only.
    measure : {"cosine"}
        The dot product; vectors are not normalised here, as in the original.
    return_ranks : bool
        Return the ranks too.
    ties : {"index", "expected", "optimistic", "pessimistic"}
        How equal scores are read.

    Returns
    -------
    r1, r5, r10, medr, meanr : float
        Hit rates in percent, the floored median and the mean rank of the first right item.
    ranks, top1 : float64 arrays (n,)
        With ``return_ranks=True`` also ``(ranks, top1)``: the rank of the first right item,
        from 0, and the item that stands first.

    Examples
    --------
    >>> images, captions = np.eye(2), np.repeat(np.eye(2), 5, axis=0)
    >>> i2t(images, captions)
    (100.0, 100.0, 100.0, 1.0, 1.0)
    """
    ours, theirs, n = _pairs(images, captions, npts, measure)
    right = [range(_CAPTIONS * row, _CAPTIONS * (row + 1)) for row in range(n)]
    return _recalls(ours[:n], theirs, right, return_ranks, ties)


def t2i(
    images: Any,
    captions: Any,
    npts: int | None = None,
    measure: str = "cosine",
    return_ranks: bool = False,
    *,
    ties: str = "index",
) -> Recalls | WithRanks:
    """Search images by caption.

    Parameters
    ----------
    images, captions, npts, measure, return_ranks, ties
        As for :func:`i2t`; `npts` counts images.

    Returns
    -------
    r1, r5, r10, medr, meanr : float
        As for :func:`i2t`, over captions.

    Examples
    --------
    >>> images, captions = np.eye(2), np.repeat(np.eye(2), 5, axis=0)
    >>> t2i(images, captions)
    (100.0, 100.0, 100.0, 1.0, 1.0)
    """
    ours, theirs, n = _pairs(images, captions, npts, measure)
    right = [[row // _CAPTIONS] for row in range(_CAPTIONS * n)]
    return _recalls(theirs[: _CAPTIONS * n], ours, right, return_ranks, ties)


def compute_eccv_metrics(
    target_items: Mapping[Any, Sequence[Any]],
    gt_items: Mapping[Any, Sequence[Any]],
    verbose: bool = False,  # noqa: ARG001 (there is no progress to show)
) -> dict[str, float]:
    """Compute MAP@R, R-precision and R@1 from ranked lists.

    Parameters
    ----------
    target_items : mapping of query id to sequence of item ids
        What was retrieved, best first.
    gt_items : mapping of query id to sequence of item ids
        What is right; its keys are the queries.
    verbose : bool
        Taken and ignored.

    Returns
    -------
    dict
        eccv_map_at_r, eccv_rprecision and eccv_r1, shares in [0, 1].

    Examples
    --------
    >>> compute_eccv_metrics({0: [5, 6, 7]}, {0: [5, 7]})
    {'eccv_map_at_r': 0.5, 'eccv_rprecision': 0.5, 'eccv_r1': 1.0}
    """
    values = _listed(target_items, gt_items, ["MAP@R", "R-precision", "CMC@1"])
    return {
        "eccv_map_at_r": values["MAP@R"],
        "eccv_rprecision": values["R-precision"],
        "eccv_r1": values["CMC@1"],
    }


def compute_rprecision(
    target_items: Mapping[Any, Sequence[Any]],
    gt_items: Mapping[Any, Sequence[Any]],
    verbose: bool = False,  # noqa: ARG001 (there is no progress to show)
) -> float:
    """Compute R-precision from ranked lists, see :func:`compute_eccv_metrics`.

    >>> compute_rprecision({0: [5, 6, 7]}, {0: [5, 7]})
    0.5
    """
    return _listed(target_items, gt_items, ["R-precision"])["R-precision"]


def compute_r_at_k(
    target_items: Mapping[Any, Sequence[Any]],
    gt_items: Mapping[Any, Sequence[Any]],
    K: int = 1,  # noqa: N803 (the name that others call)
    verbose: bool = False,  # noqa: ARG001 (there is no progress to show)
) -> float:
    """Compute the hit rate at `K` from ranked lists, see :func:`compute_eccv_metrics`.

    >>> compute_r_at_k({0: [6, 5, 7]}, {0: [5, 7]}, K=2)
    1.0
    """
    return _listed(target_items, gt_items, [f"CMC@{K}"])[f"CMC@{K}"]


def _pairs(
    images: Any, captions: Any, npts: int | None, measure: str
) -> tuple[Array, Array, int]:
    """Return one row an image, the captions, and how many images are evaluated."""
    if measure != "cosine":
        raise NotCountedError(f"measure = {measure!r} is not available: cosine is needed")
    ours, theirs = plain_array(images), plain_array(captions)
    if len(ours) == len(theirs):
        ours = ours[::_CAPTIONS]
    if _CAPTIONS * len(ours) != len(theirs):
        raise AlignmentError(
            f"{counted(len(ours), 'image')} and {counted(len(theirs), 'caption')}: {_CAPTIONS} "
            "captions an image are needed"
        )
    n = len(ours) if npts is None else int(npts)
    if not 0 < n <= len(ours):
        raise AlignmentError(
            f"npts = {npts}: 1 to {counted(len(ours), 'image is', 'images are')} there"
        )
    return ours, theirs, n


def _recalls(
    query: Array, gallery: Array, right: Sequence[Any], return_ranks: bool, ties: str
) -> Recalls | WithRanks:
    relevance: Relevance = indexed(right, len(gallery), no_positive="error")
    ranking = rank(Embeddings(query, gallery, metric="dot"), relevance, top_k=1)
    names = ["CMC@1", "CMC@5", "CMC@10", "MedR(form=floor)", "MeanR"]
    values = compute(ranking, names, ties=ties)
    r1, r5, r10 = (100.0 * values[name] for name in names[:3])
    recalls = (r1, r5, r10, values[names[3]], values["MeanR"])
    if not return_ranks:
        return recalls
    first = np.empty(len(query))
    rows, _, items, _, _ = merged_top(ranking)
    first[rows] = items
    return recalls, (values.per_query("MeanR") - 1, first)


def _listed(
    target_items: Mapping[Any, Sequence[Any]],
    gt_items: Mapping[Any, Sequence[Any]],
    names: Sequence[str],
) -> MetricValues:
    """Compute metrics of lists of ids."""
    lacking = [query for query in gt_items if query not in target_items]
    if lacking:
        raise AlignmentError(
            f"nothing was retrieved for {counted(len(lacking), 'query')}, the first is "
            f"{lacking[0]!r}"
        )
    number: dict[Any, int] = {}

    def positions(items: Sequence[Any]) -> list[int]:
        return [number.setdefault(item, len(number)) for item in plain_array(items).tolist()]

    lists = [positions(target_items[query]) for query in gt_items]
    right = [positions(gt_items[query]) for query in gt_items]
    relevance = indexed(right, max(len(number), 1), no_positive="skip")
    return compute(rank(RankedLists(lists), relevance), names, ties="index")
