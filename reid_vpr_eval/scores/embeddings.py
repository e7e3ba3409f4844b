"""Embeddings: feature vectors of both sides and the metric that compares them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import (
    ScoreError,
)
from reid_vpr_eval.scores.arrays import (
    check_vectors,
    digest,
    load_vectors,
    without_bad,
)
from reid_vpr_eval.scores.shards import Shards, Vectors, rows_of

__all__ = ["METRICS", "Embeddings"]

#: The distances and similarities that features can be compared by.
METRICS = ("cosine", "dot", "euclidean", "sqeuclidean")

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Embeddings:
    """Feature vectors of both sides and the metric that compares them.

    Parameters
    ----------
    query, gallery : array (n, d), path, list of paths, or Shards
        One vector a row. Several files (``.npy``, ``.fbin``, ``.u8bin``, ``.i8bin``), a folder
        of them, and one file of 256 MiB or more are :class:`Shards`: read block by block,
        never held in memory. A smaller file is loaded. float16 and whole numbers are scored
        as float32 (whole numbers beyond 2^24 as float64); float64 stays float64. Anything with
        ``__array__`` (a torch tensor on the CPU) is accepted.
    metric : {"cosine", "dot", "euclidean", "sqeuclidean"}
        Cosine normalises the vectors. "euclidean" and "sqeuclidean" rank alike.
    bad_vectors : {"error", "last"}
        What a vector means that cannot be scored (not finite, or zero under cosine): an
        error, or last: such gallery items stand behind all others, such queries find nothing
        (``missing_query`` says what they score).

    Raises
    ------
    FormatError, AlignmentError
        If a file is damaged, or files of one side do not agree.
    ScoreError
        If a vector is not finite (which rows), is zero under cosine, if the dimensions
        of the two sides differ, or a side is empty.

    Examples
    --------
    >>> scores = Embeddings([[1.0, 0.0]], [[0.5, 0.0], [0.0, 2.0]], metric="cosine")
    >>> scores.n_query, scores.n_gallery, scores.dim
    (1, 2, 2)
    """

    kind: ClassVar[str] = "features"

    query: Vectors
    gallery: Vectors
    metric: str
    bad_query: npt.NDArray[np.bool_] | None
    bad_gallery: npt.NDArray[np.bool_] | None

    def __init__(
        self,
        query: Any,
        gallery: Any,
        metric: str = "cosine",
        *,
        bad_vectors: Literal["error", "last"] = "error",
    ) -> None:
        if bad_vectors not in ("error", "last"):
            raise ScoreError(f"bad_vectors = {bad_vectors!r}: one of error, last is needed")
        if metric not in METRICS:
            raise ScoreError(f"unknown metric {metric!r}; known: {', '.join(METRICS)}")
        vectors = load_vectors(query, "query")
        others = vectors if gallery is query else load_vectors(gallery, "gallery")
        if vectors.shape[1] != others.shape[1]:
            raise ScoreError(
                f"query vectors have {vectors.shape[1]} dimensions, gallery vectors "
                f"{others.shape[1]}: both sides must come from the same model"
            )
        bad_query = bad_gallery = None
        one = others is vectors
        if bad_vectors == "last":
            vectors, bad_query = without_bad(vectors, metric)
            others, bad_gallery = (vectors, bad_query) if one else without_bad(others, metric)
        else:
            check_vectors(vectors, "query", metric)
            if not one:
                check_vectors(others, "gallery", metric)
        object.__setattr__(self, "query", vectors)
        object.__setattr__(self, "gallery", others)
        object.__setattr__(self, "bad_query", bad_query)
        object.__setattr__(self, "bad_gallery", bad_gallery)
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
        ours, theirs = np.asarray(query_rows), np.asarray(gallery_rows)
        bad = [None if mask is None else mask[rows] for mask, rows in
               ((self.bad_query, ours), (self.bad_gallery, theirs))]  # fmt: skip
        part = self._with(rows_of(self.query, ours), rows_of(self.gallery, theirs), *bad)
        for side, n in (("query", part.n_query), ("gallery", part.n_gallery)):
            if not n:
                raise ScoreError(f"the {side} side is empty: no rows of it were taken")
        return part

    def take_queries(self, rows: slice) -> Embeddings:
        """Return the embeddings of some queries, with the same gallery; nothing is copied."""
        bad = None if self.bad_query is None else self.bad_query[rows]
        return self._with(rows_of(self.query, rows), self.gallery, bad, self.bad_gallery)

    def with_queries(self, query: Any) -> Embeddings:
        """Return the embeddings of other queries, which are checked, with the same gallery."""
        vectors = load_vectors(query, "query")
        check_vectors(vectors, "query", self.metric)
        return self._with(vectors, self.gallery, None, self.bad_gallery)

    def _with(
        self, query: Vectors, gallery: Vectors, bad_query: Any, bad_gallery: Any
    ) -> Embeddings:
        """Return embeddings of vectors that were checked before."""
        made = object.__new__(Embeddings)
        for name, value in (("query", query), ("gallery", gallery), ("metric", self.metric),
                            ("bad_query", bad_query), ("bad_gallery", bad_gallery)):  # fmt: skip
            object.__setattr__(made, name, value)
        return made

    def fingerprint(self) -> str:
        """Return the SHA-256 of the content."""
        return digest(self.metric, self.query, self.gallery, self.bad_query, self.bad_gallery)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one ``.npz`` file; the same embeddings give the same bytes.

        Raises
        ------
        ScoreError
            If a side is shards: they are files already.
        """
        for side in (self.query, self.gallery):
            if isinstance(side, Shards):
                raise ScoreError(
                    f"features in files ({side.files[0].path} ...) are not copied into one .npz, "
                    "which would have to be held in memory: keep the files and name them again"
                )
        arrays = {"query": np.asarray(self.query), "gallery": np.asarray(self.gallery)}
        for name in ("bad_query", "bad_gallery"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        write_archive(
            path,
            kind="embeddings",
            version=_VERSION,
            arrays=arrays,
            header={"metric": self.metric},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Embeddings:
        """Read embeddings saved by :meth:`save`."""
        header, arrays = read_archive(path, kind="embeddings", version=_VERSION)
        made = cls(arrays["query"], arrays["gallery"], header["metric"])
        for name in ("bad_query", "bad_gallery"):
            object.__setattr__(made, name, arrays.get(name))
        return made
