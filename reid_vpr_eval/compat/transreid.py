"""``R1_mAP_eval`` of the TransReID family (and of reid-strong-baseline before it).

What differs from the original, beside all that :mod:`reid_vpr_eval.compat.torchreid` says:
features and the matrix are NumPy arrays; the ranking compares the features themselves, so
that it does not depend on the rounding of the matrix that is returned beside it; nothing
is printed; k-reciprocal re-ranking is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.compat._reading import Collected, reid
from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.scores import Embeddings

__all__ = ["R1_mAP_eval"]

Array = npt.NDArray[Any]
_SMALLEST_NORM = 1e-12


class R1_mAP_eval:  # noqa: N801 (the name that others call)
    """Collects batches and evaluates them by squared Euclidean distance.

    Parameters
    ----------
    num_query : int
        The first so many rows are the queries, the others the gallery.
    max_rank : int
        Length of the CMC.
    feat_norm : bool or "yes" or "no"
        Whether features are brought to length 1 first.
    reranking : bool
        Must be False.

    Raises
    ------
    NotCountedError
        If re-ranking is asked for.

    Examples
    --------
    >>> evaluator = R1_mAP_eval(num_query=1, max_rank=2)
    >>> evaluator.update(([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], [7, 7, 9], [1, 2, 2]))
    >>> cmc, mean_ap, distmat, pids, camids, qf, gf = evaluator.compute()
    >>> cmc, mean_ap, distmat.shape, qf.shape, gf.shape
    (array([1., 1.]), 1.0, (1, 2), (1, 2), (2, 2))
    """

    def __init__(
        self,
        num_query: int,
        max_rank: int = 50,
        feat_norm: bool | str = True,
        reranking: bool = False,
    ) -> None:
        if reranking:
            raise NotCountedError(
                "reranking=True is not available: re-rank the distances yourself and give the "
                "matrix to compat.torchreid.evaluate_rank"
            )
        self.num_query = num_query
        self.max_rank = max_rank
        self.feat_norm = feat_norm not in (False, "no")
        self.reranking = reranking
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._collected = Collected(self.num_query)

    def update(self, output: tuple[Any, Any, Any]) -> None:
        """Add a batch: its features, identities and cameras."""
        features, labels, cameras = output
        self._collected.add(features, labels, cameras)

    def compute(
        self,
    ) -> tuple[npt.NDArray[np.float64], float, Array, list[Any], list[Any], Array, Array]:
        """Evaluate all batches.

        Returns
        -------
        cmc : float64 array (max_rank,)
        mAP : float
        distmat : float64 array (n_query, n_gallery)
            Squared Euclidean distances.
        pids, camids : list
            Of all rows, queries first.
        qf, gf : arrays (n_query, d) and (n_gallery, d)
            The features, of length 1 if they were normalised.
        """
        features, labels, cameras = self._collected.joined()
        if self.feat_norm:
            features = _normalised(features)
        n = self.num_query
        ours, theirs = features[:n], features[n:]
        found = reid(
            Embeddings(ours, theirs, metric="sqeuclidean"), (labels[:n], labels[n:]),
            (cameras[:n], cameras[n:]), max_rank=self.max_rank, ties="index",
        )  # fmt: skip
        distances = _squared_distances(ours.astype(np.float64), theirs.astype(np.float64))
        listed = labels.tolist(), cameras.tolist()
        return found.cmc, exact_mean(found.ap), distances, *listed, ours, theirs


def _normalised(features: Array) -> Array:
    wide = features.astype(np.float64)
    lengths = np.maximum(np.sqrt((wide**2).sum(axis=1, keepdims=True)), _SMALLEST_NORM)
    kept = features.dtype if features.dtype.kind == "f" else np.float64
    return np.asarray((wide / lengths).astype(kept))


def _squared_distances(ours: Array, theirs: Array) -> Array:
    squares = (ours**2).sum(axis=1)[:, None] + (theirs**2).sum(axis=1)[None, :]
    return np.asarray(np.maximum(squares - 2 * ours @ theirs.T, 0.0))
