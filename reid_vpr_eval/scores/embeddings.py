"""Embeddings: feature vectors of both sides and the metric that compares them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

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
    packed,
    without_bad,
)
from reid_vpr_eval.scores.distances import check_name, kind_of
from reid_vpr_eval.scores.shards import Shards, Vectors, rows_of

__all__ = ["Embeddings"]

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Embeddings:
    """Feature vectors of both sides and the metric that compares them.

    Parameters
    ----------
    query, gallery : array (n, d), path, list of paths, or Shards
        One vector a row. Several files, a folder of them, one ``.npy`` file of 256 MiB or more
        and one of the other kinds that :class:`Shards` lists (``.fbin``, ``.fvecs`` ...) are
        shards: read block by block, never held in memory. A smaller ``.npy`` file is loaded.
        Vectors keep their type and are converted a block at a time: float16 and whole numbers
        of up to 16 bits are scored as float32, wider whole numbers as float64, float64 stays
        float64. Anything with ``__array__`` (a torch tensor on the CPU) is accepted.
    metric : str
        - "cosine" normalises the vectors; "dot" does not;
        - "euclidean" and "sqeuclidean" rank alike;
        - "hamming" counts the bits that differ, exactly. Features are binary codes: uint8
          ``(n, bytes)`` as ``np.packbits(codes, axis=1)`` makes them, or boolean ``(n, bits)``,
          which are packed here;
        - any other distance of ``scipy.spatial.distance.cdist`` by its name, such as
          "cityblock", "chebyshev" or "correlation": slower, and exactly what SciPy gives for
          the two vectors in float64 ("minkowski" has p = 2). "dice", "rogerstanimoto",
          "russellrao", "sokalsneath" and "yule" compare vectors of 0 and 1. Those with
          parameters fitted to the data (seuclidean, mahalanobis) are refused.
    bad_vectors : {"error", "last"}
        What a vector means that cannot be scored (not finite, or one that the metric is not
        defined for, such as zero under cosine): an error, or last: such gallery items stand
        behind all others, such queries find nothing (``missing_query`` says what they score).

    Raises
    ------
    FormatError, AlignmentError
        If a file is damaged, or files of one side do not agree.
    ScoreError
        If a vector is not finite (which rows), or one that the metric is not defined for, if
        the metric is unknown, the dimensions of the two sides differ, or a side is empty.

    Examples
    --------
    >>> scores = Embeddings([[1.0, 0.0]], [[0.5, 0.0], [0.0, 2.0]], metric="cosine")
    >>> scores.n_query, scores.n_gallery, scores.dim
    (1, 2, 2)
    >>> Embeddings([[True, False, True]], [[False, True, True]], metric="hamming").query
    array([[160]], dtype=uint8)
    """

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
        check_name(metric)
        vectors, others = _sides(query, gallery, metric)
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
    def kind(self) -> str:
        """The kind of scores: features, bits or distances."""
        return kind_of(self.metric)

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
        """Number of components of a vector; under hamming, of bits in whole bytes."""
        return int(self.query.shape[1]) * (8 if self.kind == "bits" else 1)

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


def _sides(query: Any, gallery: Any, metric: str) -> tuple[Vectors, Vectors]:
    """Return the vectors of both sides, which fit together; one object if one was given."""
    ours = load_vectors(query, "query")
    theirs = ours if gallery is query else load_vectors(gallery, "gallery")
    what = "dimensions"
    if metric == "hamming" and (ours.dtype == bool) != (theirs.dtype == bool):
        ours, theirs, what = packed(ours, "query"), packed(theirs, "gallery"), "bytes"
    if ours.shape[1] != theirs.shape[1]:
        raise ScoreError(
            f"query vectors have {ours.shape[1]} {what}, gallery vectors {theirs.shape[1]}: both "
            "sides must come from the same model"
        )
    if metric == "hamming":
        one = ours is theirs
        ours = packed(ours, "query")
        theirs = ours if one else packed(theirs, "gallery")
    return ours, theirs
