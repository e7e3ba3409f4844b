"""ScoreMatrix: a finished matrix of similarities or distances."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import (
    ScoreError,
)
from reid_vpr_eval.scores.arrays import (
    EXACT_FLOAT64_INTEGER,
    Array,
    check_finite,
    digest,
    direction,
    load_array,
)

__all__ = ["ScoreMatrix"]

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ScoreMatrix:
    """A finished matrix of similarities or distances, taken as it is given.

    Parameters
    ----------
    array : array (n_query, n_gallery) or path of a ``.npy`` file
        Numbers of any real type; they are compared exactly (long doubles as float64). A file
        is read tile by tile.
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

    kind: ClassVar[str] = "matrix"

    array: Array
    higher_is_better: bool

    def __init__(self, array: Any, *, higher_is_better: bool) -> None:
        matrix = load_array(array, "score matrix")
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ScoreError(
                f"a score matrix has the shape (n_query, n_gallery), none of them 0; "
                f"this one has {matrix.shape}"
            )
        if matrix.dtype.itemsize > np.dtype(np.float64).itemsize:
            with np.errstate(over="ignore"):
                matrix = matrix.astype(np.float64)
        check_finite(matrix, "score matrix", "scores")
        if matrix.dtype.kind in "iu":
            largest = max(abs(int(matrix.min())), abs(int(matrix.max())))
            if largest > EXACT_FLOAT64_INTEGER:
                raise ScoreError("integer scores beyond 2^53 are not compared exactly: scale them")
        object.__setattr__(self, "array", matrix)
        object.__setattr__(self, "higher_is_better", direction(higher_is_better))

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

    def take_queries(self, rows: slice) -> ScoreMatrix:
        """Return the scores of some queries; nothing is copied."""
        part = object.__new__(ScoreMatrix)
        object.__setattr__(part, "array", self.array[rows])
        object.__setattr__(part, "higher_is_better", self.higher_is_better)
        return part

    def fingerprint(self) -> str:
        """Return the SHA-256 of the content."""
        return digest(str(self.higher_is_better), self.array)

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
