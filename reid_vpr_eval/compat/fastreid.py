"""``evaluate_rank`` and ``ReidEvaluator`` of fast-reid.

What differs from the original, beside all that :mod:`reid_vpr_eval.compat.torchreid` says:

- With ``use_metric_cuhk03=True`` three values are returned too; there two are, and the
  caller fails.
- Queries without a positive are in no list; a compiled version of the original keeps zeros
  for them.
- Query expansion, re-ranking and ROC are not part of an evaluation here and are refused
  where a configuration asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.compat._reading import Collected, reid
from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.evaluator import plain_array
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.scores import Embeddings, ScoreMatrix

__all__ = ["ReidEvaluator", "evaluate_rank"]

_REFUSED = ("AQE", "RERANK", "ROC")
_SHOWN = (1, 5, 10)


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
) -> tuple[npt.NDArray[np.float64], list[float], list[float]]:
    """Evaluate a matrix of distances; return AP and INP query by query.

    Parameters
    ----------
    distmat, q_pids, g_pids, q_camids, g_camids, max_rank, use_metric_cuhk03, use_cython, ties
        As for :func:`reid_vpr_eval.compat.torchreid.evaluate_rank`.

    Returns
    -------
    cmc : float64 array (max_rank,)
    all_AP, all_INP : list of float
        One entry for each query that has a positive, in order.

    Examples
    --------
    >>> _, ap, inp = evaluate_rank([[0.1, 0.2, 0.3]], [7], [9, 7, 7], [1], [2, 2, 3])
    >>> [round(value, 4) for value in ap], [round(value, 4) for value in inp]
    ([0.5833], [0.6667])
    """
    scores = ScoreMatrix(plain_array(distmat), higher_is_better=False)
    found = reid(
        scores, (q_pids, g_pids), (q_camids, g_camids), max_rank=max_rank, ties=ties,
        single_shot=use_metric_cuhk03,
    )  # fmt: skip
    return found.cmc, found.ap.tolist(), found.inp.tolist()


class ReidEvaluator:
    """Collects batches and evaluates them as fast-reid's test loop does.

    Parameters
    ----------
    cfg : object or mapping, optional
        A configuration; ``TEST.METRIC`` ("cosine" or "euclidean") is read from it.
    num_query : int
        The first so many rows are the queries, the others the gallery.
    output_dir : optional
        Taken and ignored: nothing is written.

    Raises
    ------
    NotCountedError
        If the configuration asks for query expansion, re-ranking or ROC.

    Examples
    --------
    >>> evaluator = ReidEvaluator(None, num_query=1)
    >>> evaluator.process({"targets": [7, 7, 9], "camids": [1, 2, 2]},
    ...                   [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> evaluator.evaluate()["Rank-1"]
    100.0
    """

    def __init__(self, cfg: Any, num_query: int, output_dir: Any = None) -> None:
        for name in _REFUSED:
            if _setting(cfg, "TEST", name, "ENABLED"):
                raise NotCountedError(
                    f"TEST.{name}.ENABLED: this changes or needs more than the ranking and is not "
                    "available; switch it off"
                )
        self.cfg = cfg
        self.output_dir = output_dir
        self.metric = str(_setting(cfg, "TEST", "METRIC") or "cosine")
        self.num_query = num_query
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._collected = Collected(self.num_query)

    def process(self, inputs: Mapping[str, Any], outputs: Any) -> None:
        """Add a batch: ``inputs["targets"]``, ``inputs["camids"]`` and its features."""
        self._collected.add(outputs, inputs["targets"], inputs["camids"])

    def evaluate(self) -> dict[str, float]:
        """Return Rank-1, Rank-5, Rank-10, mAP, mINP and metric, all in percent.

        ``metric`` is the mean of mAP and Rank-1.
        """
        features, labels, cameras = self._collected.joined()
        n = self.num_query
        scores = Embeddings(features[:n], features[n:], metric=self.metric)
        found = reid(
            scores, (labels[:n], labels[n:]), (cameras[:n], cameras[n:]),
            max_rank=max(_SHOWN), ties="index",
        )  # fmt: skip
        results = {f"Rank-{k}": 100.0 * float(found.cmc[k - 1]) for k in _SHOWN}
        results["mAP"] = 100.0 * exact_mean(found.ap)
        results["mINP"] = 100.0 * exact_mean(found.inp)
        results["metric"] = (results["mAP"] + results["Rank-1"]) / 2
        return results


def _setting(cfg: Any, *path: str) -> Any:
    """Return an entry of a nested configuration of mappings or attributes, or None."""
    for name in path:
        cfg = cfg.get(name) if isinstance(cfg, Mapping) else getattr(cfg, name, None)
    return cfg
