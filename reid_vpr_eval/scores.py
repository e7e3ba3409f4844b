"""What similarity is made of: features, a matrix of scores, or ranked lists.

Whether larger is better is part of the type, never a guess. Everything is checked once,
at the door; what these objects hold afterwards is finite and fits together.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import (
    AlignmentError,
    FormatError,
    InputNotFoundError,
    ScoreError,
    name_some,
)

__all__ = ["METRICS", "Embeddings", "RankedLists", "ScoreMatrix", "Scores"]

#: The distances and similarities that features can be compared by.
METRICS = ("cosine", "dot", "euclidean", "sqeuclidean")

_VERSION = 1
_CHECKED_AT_ONCE = 1 << 22
_EXACT_FLOAT32_INTEGER = 2**24
_EXACT_FLOAT64_INTEGER = 2**53

Array: TypeAlias = npt.NDArray[Any]


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
        vectors = _load_vectors(query, "query")
        others = vectors if gallery is query else _load_vectors(gallery, "gallery")
        if vectors.shape[1] != others.shape[1]:
            raise ScoreError(
                f"query vectors have {vectors.shape[1]} dimensions, gallery vectors "
                f"{others.shape[1]}: both sides must come from the same model"
            )
        _check_vectors(vectors, "query", metric)
        if others is not vectors:
            _check_vectors(others, "gallery", metric)
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
        return _digest(self.metric, self.query, self.gallery)

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


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ScoreMatrix:
    """A finished matrix of similarities or distances, taken as it is given.

    Parameters
    ----------
    array : array (n_query, n_gallery) or path of a ``.npy`` file
        Numbers of any real type; they are compared exactly.
    higher_is_better : bool
        True for similarities, False for distances. There is no default.

    Raises
    ------
    ScoreError
        If a score is NaN or infinite (which rows), or the array is not a matrix.

    Examples
    --------
    >>> ScoreMatrix([[0.2, 0.9]], higher_is_better=False).n_gallery
    2
    """

    array: Array
    higher_is_better: bool

    def __init__(self, array: Any, *, higher_is_better: bool) -> None:
        matrix = _load_array(array, "score matrix")
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ScoreError(
                f"a score matrix has the shape (n_query, n_gallery), none of them 0; "
                f"this one has {matrix.shape}"
            )
        _check_finite(matrix, "score matrix", "scores")
        if matrix.dtype.kind in "iu":
            largest = max(abs(int(matrix.min())), abs(int(matrix.max())))
            if largest > _EXACT_FLOAT64_INTEGER:
                raise ScoreError("integer scores beyond 2^53 are not compared exactly: scale them")
        object.__setattr__(self, "array", matrix)
        object.__setattr__(self, "higher_is_better", _direction(higher_is_better))

    @property
    def n_query(self) -> int:
        """Number of rows."""
        return int(self.array.shape[0])

    @property
    def n_gallery(self) -> int:
        """Number of columns."""
        return int(self.array.shape[1])

    def take(self, query_rows: npt.ArrayLike, gallery_rows: npt.ArrayLike) -> ScoreMatrix:
        """Return the scores of these rows and columns (positions or masks)."""
        part = self.array[np.asarray(query_rows)][:, np.asarray(gallery_rows)]
        return ScoreMatrix(part, higher_is_better=self.higher_is_better)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the content."""
        return _digest(str(self.higher_is_better), self.array)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one ``.npz`` file; the same matrix gives the same bytes."""
        write_archive(
            path,
            kind="score matrix",
            version=_VERSION,
            arrays={"array": np.asarray(self.array)},
            header={"higher_is_better": self.higher_is_better},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScoreMatrix:
        """Read a matrix saved by :meth:`save`."""
        header, arrays = read_archive(path, kind="score matrix", version=_VERSION)
        return cls(arrays["array"], higher_is_better=header["higher_is_better"])


@dataclass(frozen=True, slots=True, eq=False, init=False)
class RankedLists:
    """The first few gallery items of each query, best first, as a search returned them.

    Parameters
    ----------
    indices : array (n_query, k) of gallery positions, or one list of ids a query
        Best first. -1 means that nothing was returned at this place. Ids are matched
        when the lists meet their gallery, by :meth:`resolve`.
    scores : array (n_query, k) or one list a query, optional
        Then the order is by score and equal scores tie; without them it is the order
        of the list.
    higher_is_better : bool, default True
        The direction of `scores`.

    Raises
    ------
    ScoreError
        If an item stands twice in a list, a position is below -1, or a score is not finite.

    Examples
    --------
    >>> RankedLists([[3, 0, -1]]).depth
    array([2])
    """

    indices: Array
    scores: npt.NDArray[np.float64] | None
    higher_is_better: bool

    def __init__(
        self,
        indices: Any,
        scores: Any = None,
        *,
        higher_is_better: bool = True,
    ) -> None:
        items = _rectangle(indices)
        _check_lists(items)
        items.setflags(write=False)
        values = None if scores is None else _rectangle_of_scores(scores, items)
        object.__setattr__(self, "indices", items)
        object.__setattr__(self, "scores", values)
        object.__setattr__(self, "higher_is_better", _direction(higher_is_better))

    @property
    def n_query(self) -> int:
        """Number of lists."""
        return int(self.indices.shape[0])

    @property
    def has_ids(self) -> bool:
        """True while items are named by ids and not yet by positions."""
        return self.indices.dtype.kind == "U"

    @property
    def depth(self) -> npt.NDArray[np.int64]:
        """How many items each list holds, an array of length n_query."""
        present = self.indices != "" if self.has_ids else self.indices >= 0
        return np.asarray(present.sum(axis=1), dtype=np.int64)

    def resolve(self, gallery_ids: npt.ArrayLike) -> RankedLists:
        """Return the lists with every id replaced by its position in `gallery_ids`.

        Raises
        ------
        AlignmentError
            If a list names an id that the gallery does not hold.
        """
        if not self.has_ids:
            return self
        names = np.asarray(gallery_ids).astype(np.str_)
        if not len(names):
            raise AlignmentError("the gallery side is empty: no ranked item is in it")
        order = np.argsort(names, kind="stable")
        found = np.minimum(np.searchsorted(names, self.indices, sorter=order), len(names) - 1)
        positions = order[found]
        unknown = (names[positions] != self.indices) & (self.indices != "")
        if unknown.any():
            rows, columns = np.nonzero(unknown)
            raise AlignmentError(
                f"{unknown.sum()} ranked items are not in the gallery, the first is "
                f"{str(self.indices[rows[0], columns[0]])!r} in list {rows[0]}"
            )
        positions = np.where(self.indices == "", -1, positions)
        return RankedLists(positions, self.scores, higher_is_better=self.higher_is_better)

    def take(self, query_rows: npt.ArrayLike) -> RankedLists:
        """Return the lists of these queries."""
        rows = np.asarray(query_rows)
        scores = None if self.scores is None else self.scores[rows]
        return RankedLists(self.indices[rows], scores, higher_is_better=self.higher_is_better)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the content."""
        return _digest(str(self.higher_is_better), self.indices, self.scores)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one ``.npz`` file; the same lists give the same bytes."""
        arrays = {"indices": self.indices}
        if self.scores is not None:
            arrays["scores"] = self.scores
        write_archive(
            path,
            kind="ranked lists",
            version=_VERSION,
            arrays=arrays,
            header={"higher_is_better": self.higher_is_better},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RankedLists:
        """Read lists saved by :meth:`save`."""
        header, arrays = read_archive(path, kind="ranked lists", version=_VERSION)
        return cls(
            arrays["indices"], arrays.get("scores"), higher_is_better=header["higher_is_better"]
        )


Scores: TypeAlias = Embeddings | ScoreMatrix | RankedLists


def _digest(text: str, *arrays: Array | None) -> str:
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        if array is None:
            continue
        digest.update(f"\0{array.dtype.str}\0{array.shape}\0".encode())
        for block in _row_blocks(array):
            digest.update(np.ascontiguousarray(array[block]).tobytes())
    return digest.hexdigest()


def _load_array(given: Any, what: str) -> Array:
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if not path.is_file():
            raise InputNotFoundError(f"{path}: no such file (expected the {what} as .npy)")
        try:
            given = np.lib.format.open_memmap(path, mode="r")
        except (OSError, ValueError, EOFError) as error:
            if zipfile.is_zipfile(path):
                raise FormatError(f"{path}: holds several arrays; give the array itself") from error
            raise FormatError(f"{path}: cannot be read as a .npy array ({error})") from error
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ScoreError(f"the {what} is not rectangular: {error}") from error
    if array.dtype.kind not in "iufb":
        raise ScoreError(f"the {what} has the type {array.dtype}: real numbers are needed")
    if not array.flags.owndata or array.flags.writeable:
        array = array.view()
        array.setflags(write=False)
    return array


def _load_vectors(given: Any, side: str) -> Array:
    vectors = _load_array(given, f"{side} features")
    if vectors.ndim != 2:
        raise ScoreError(
            f"{side} features have the shape {vectors.shape}: (number of items, dimensions) "
            "is needed"
        )
    if vectors.shape[0] == 0 or vectors.shape[1] == 0:
        raise ScoreError(f"the {side} side is empty: its features have the shape {vectors.shape}")
    if vectors.dtype.kind in "iub":
        largest = max(abs(int(vectors.min())), abs(int(vectors.max())))
        if largest > _EXACT_FLOAT64_INTEGER:
            raise ScoreError(f"{side} features hold integers beyond 2^53: give them as floats")
        return vectors.astype(np.float32 if largest <= _EXACT_FLOAT32_INTEGER else np.float64)
    if vectors.dtype.itemsize > np.dtype(np.float64).itemsize:
        return vectors.astype(np.float64)
    return vectors


def _row_blocks(array: Array) -> Iterator[slice]:
    step = max(1, _CHECKED_AT_ONCE // max(1, array.shape[1]))
    for start in range(0, array.shape[0], step):
        yield slice(start, min(start + step, array.shape[0]))


def _check_finite(array: Array, what: str, noun: str) -> None:
    if array.dtype.kind != "f":
        return
    bad: list[int] = []
    for block in _row_blocks(array):
        rows = np.flatnonzero(~np.isfinite(array[block]).all(axis=1))
        bad += [int(row) + block.start for row in rows]
    if bad:
        raise ScoreError(
            f"{what}: {noun} are NaN or infinite in {len(bad)} of {array.shape[0]} rows "
            f"(rows {name_some(bad)}); mend or leave out these rows"
        )


def _check_vectors(vectors: Array, side: str, metric: str) -> None:
    _check_finite(vectors, f"{side} features", "values")
    if metric != "cosine":
        return
    zero: list[int] = []
    for block in _row_blocks(vectors):
        zero += [int(row) + block.start for row in np.flatnonzero(~vectors[block].any(axis=1))]
    if zero:
        raise ScoreError(
            f"{side} features: {len(zero)} vectors are zero (rows {name_some(zero)}) and have no "
            "direction, so cosine is not defined for them; leave these rows out or use another "
            "metric"
        )


def _rectangle(lists: Any) -> Array:
    """Bring lists of positions or ids to one rectangle, padded with -1 or ''."""
    if hasattr(lists, "__array__") and not isinstance(lists, list | tuple):
        array = np.asarray(lists)
        if array.ndim != 2:
            raise ScoreError(f"ranked lists have the shape (n_query, k), not {array.shape}")
        if array.size and array.dtype.kind in "iuU":
            return array.copy() if array.dtype.kind == "U" else array.astype(np.int64)
        lists = array.tolist()
    for number, row in enumerate(lists):
        if isinstance(row, str) or not hasattr(row, "__iter__"):
            raise ScoreError(f"ranked list {number} is {row!r}: a list of items is needed")
    rows = [list(row) for row in lists]
    if not rows:
        raise ScoreError("there are no ranked lists: the query side is empty")
    kinds = {isinstance(item, str) for row in rows for item in row}
    if len(kinds) > 1:
        raise ScoreError("ranked lists mix ids (strings) and positions (integers): use one kind")
    width = max(1, *(len(row) for row in rows))
    if kinds == {True}:
        return np.array([row + [""] * (width - len(row)) for row in rows], dtype=np.str_)
    for number, row in enumerate(rows):
        for item in row:
            if not _is_position(item):
                raise ScoreError(f"ranked list {number} holds {item!r}, not a whole number")
    return np.array([row + [-1] * (width - len(row)) for row in rows], dtype=np.int64)


def _is_position(item: Any) -> bool:
    numbers = int | float | np.integer | np.floating
    whole = isinstance(item, numbers) and not isinstance(item, bool) and item % 1 == 0
    return whole and abs(item) < 2**63


def _direction(higher_is_better: object) -> bool:
    if not isinstance(higher_is_better, bool | np.bool_):
        raise ScoreError(f"higher_is_better = {higher_is_better!r}: True or False is needed")
    return bool(higher_is_better)


def _check_lists(items: Array) -> None:
    if items.dtype.kind != "U" and (items < -1).any():
        row, column = np.argwhere(items < -1)[0]
        raise ScoreError(
            f"ranked list {row} holds the position {items[row, column]}: positions count from 0, "
            "and -1 means that nothing was returned"
        )
    nothing = "" if items.dtype.kind == "U" else -1
    ordered = np.sort(items, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != nothing)
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise ScoreError(
            f"{int(twice.any(axis=1).sum())} ranked lists name an item twice, the first is list "
            f"{row} with item {ordered[row, column]}: an item can be found only once"
        )


def _rectangle_of_scores(scores: Any, items: Array) -> npt.NDArray[np.float64]:
    present = items != "" if items.dtype.kind == "U" else items >= 0
    rows: Sequence[Any] = list(scores if hasattr(scores, "__iter__") else np.asarray(scores))
    if len(rows) != len(items):
        raise ScoreError(f"{len(rows)} lists of scores for {len(items)} ranked lists")
    filled = np.full(items.shape, np.nan)
    for number, row in enumerate(rows):
        try:
            values = np.asarray(row, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ScoreError(f"the scores of list {number} are no numbers: {error}") from error
        if values.ndim != 1 or len(values) > items.shape[1]:
            raise ScoreError(f"list {number} has {values.size} scores for {items.shape[1]} places")
        filled[number, : len(values)] = values
    bad = present & ~np.isfinite(filled)
    if bad.any():
        lists = name_some(np.flatnonzero(bad.any(axis=1)))
        raise ScoreError(f"ranked lists: a score is missing, NaN or infinite in lists {lists}")
    filled[~present] = np.nan
    filled.setflags(write=False)
    return filled
