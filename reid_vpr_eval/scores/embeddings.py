"""Embeddings: feature vectors of both sides and the metric that compares them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import (
    ScoreError,
)
from reid_vpr_eval.scores.arrays import (
    Array,
    check_vectors,
    digest,
    load_vectors,
)

__all__ = ["METRICS", "Embeddings"]

#: The distances and similarities that features can be compared by.
METRICS = ("cosine", "dot", "euclidean", "sqeuclidean")

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Embeddings:
    """Feature vectors of both sides and the metric that compares them.

    Parameters
    ----------
    query, gallery : array (n, d) or path of a ``.npy`` file
        One vector a row. float16 and whole numbers are scored as float32 (whole numbers
        beyond 2^24 as float64); float64 stays float64. Anything with ``__array__`` (a
        torch tensor on the CPU) is accepted.
    metric : {"cosine", "dot", "euclidean", "sqeuclidean"}
        Cosine normalises the vectors. "euclidean" and "sqeuclidean" rank alike.

    Raises
    ------
    ScoreError
        If a vector is not finite (which rows), is zero under cosine, if the dimensions
        of the two sides differ, or a side is empty.

    Examples
    --------
    >>> scores = Embeddings([[1.0, 0.0]], [[0.5, 0.0], [0.0, 2.0]], metric="cosine")
    >>> scores.n_query, scores.n_gallery, scores.dim
    (1, 2, 2)
    """

    query: Array
    gallery: Array
    metric: str

    def __init__(self, query: Any, gallery: Any, metric: str = "cosine") -> None:
        if metric not in METRICS:
            raise ScoreError(f"unknown metric {metric!r}; known: {', '.join(METRICS)}")
        vectors = load_vectors(query, "query")
        others = vectors if gallery is query else load_vectors(gallery, "gallery")
        if vectors.shape[1] != others.shape[1]:
            raise ScoreError(
                f"query vectors have {vectors.shape[1]} dimensions, gallery vectors "
                f"{others.shape[1]}: both sides must come from the same model"
            )
        check_vectors(vectors, "query", metric)
        if others is not vectors:
            check_vectors(others, "gallery", metric)
        object.__setattr__(self, "query", vectors)
        object.__setattr__(self, "gallery", others)
        object.__setattr__(self, "metric", metric)

    @property
    def n_query(self) -> int:
        """Number of query vectors."""
        return int(self.query.shape[0])

    @property
    def n_gallery(self) -> int:
        """Number of gallery vectors."""
        return int(self.gallery.shape[0])

    @property
    def dim(self) -> int:
        """Number of components of a vector."""
        return int(self.query.shape[1])

    @property
    def higher_is_better(self) -> bool:
        """True for a similarity, False for a distance."""
        return self.metric in ("cosine", "dot")

    def take(self, query_rows: npt.ArrayLike, gallery_rows: npt.ArrayLike) -> Embeddings:
        """Return the embeddings of these rows (positions or masks)."""
        return Embeddings(
            self.query[np.asarray(query_rows)], self.gallery[np.asarray(gallery_rows)], self.metric
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of the content."""
        return digest(self.metric, self.query, self.gallery)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one ``.npz`` file; the same embeddings give the same bytes."""
        write_archive(
            path,
            kind="embeddings",
            version=_VERSION,
            arrays={"query": np.asarray(self.query), "gallery": np.asarray(self.gallery)},
            header={"metric": self.metric},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Embeddings:
        """Read embeddings saved by :meth:`save`."""
        header, arrays = read_archive(path, kind="embeddings", version=_VERSION)
        return cls(arrays["query"], arrays["gallery"], header["metric"])
