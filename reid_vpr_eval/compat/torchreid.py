"""``evaluate_rank`` of torchreid (deep-person-reid) and of the code that grew from it.

What differs from the original:

- CMC has `max_rank` entries also where the gallery is smaller: it stays at its last value.
  The original shortens it silently, fails on lists of different lengths, or repeats stale
  values, depending on which of its two implementations runs.
- Distances are compared as they are given, never rounded to float32, and equal ones are
  ordered by gallery position; there an unstable sort decides.
- A distance that is not finite is an error that names its row.
- ``use_metric_cuhk03=True`` returns the exact expectation over the draws of one gallery
  image an identity, which the original estimates from ten draws without a seed.
- Numbers are float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.compat._reading import reid
from reid_vpr_eval.evaluator import plain_array
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.scores import ScoreMatrix

__all__ = ["evaluate_rank"]


def evaluate_rank(
    distmat: Any,
    q_pids: Any,
    g_pids: Any,
    q_camids: Any,
    g_camids: Any,
    max_rank: int = 50,
    use_metric_cuhk03: bool = False,
    use_cython: bool = True,  # noqa: ARG001 (one implementation serves both)
    *,
    ties: str = "index",
) -> tuple[npt.NDArray[np.float64], float]:
    """Evaluate a matrix of distances by the rule of Market-1501.

    Parameters
    ----------
    distmat : array (n_query, n_gallery)
        Distances.
    q_pids, g_pids, q_camids, g_camids : arrays (n,)
        Identities and cameras of both sides.
    max_rank : int
        Length of the CMC.
    use_metric_cuhk03 : bool
        CMC over random draws of one gallery image an identity, as its expectation; mAP is
        not affected, as in the original.
    use_cython : bool
        Taken and ignored.
    ties : {"index", "expected", "optimistic", "pessimistic"}
        How equal distances are read.

    Returns
    -------
    cmc : float64 array (max_rank,)
    mAP : float
        Over the queries that have a positive.

    Raises
    ------
    RelevanceError
        If no query has a positive.

    Examples
    --------
    >>> cmc, mean_ap = evaluate_rank([[0.1, 0.2, 0.3]], [7], [9, 7, 7], [1], [2, 2, 3], max_rank=2)
    >>> cmc, round(mean_ap, 4)
    (array([0., 1.]), 0.5833)
    """
    scores = ScoreMatrix(plain_array(distmat), higher_is_better=False)
    found = reid(
        scores, (q_pids, g_pids), (q_camids, g_camids), max_rank=max_rank, ties=ties,
        single_shot=use_metric_cuhk03,
    )  # fmt: skip
    return found.cmc, exact_mean(found.ap)
