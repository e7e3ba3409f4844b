"""Shards: vectors in one or several files, read a block at a time and never held."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, ScoreError, counted, name_some
from reid_vpr_eval.scores.files import VectorFile, files_of_folder

__all__ = ["Shards", "Vectors", "names_of_rows", "rows_of"]

Array: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]

#: Rows that are not wanted are read too where they are fewer bytes than this.
_BRIDGED = 1 << 14
#: Scattered rows are read in pieces of the file of this many bytes.
_PIECE = 1 << 22


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Shards:
    """Vectors in files, as one array that is only read: rows of it, when they are asked for.

    Nothing but the headers is kept in memory. Each reading opens the files anew, so that
    several threads may read at once, and a pickled object opens them where it is unpickled.

    Parameters
    ----------
    paths : path or sequence of paths
        ``.npy`` files (C order; float16, float32, float64, int8, int32, uint8), ``.fbin``,
        ``.u8bin``, ``.i8bin``, ``.ibin``, ``.fvecs``, ``.bvecs`` or ``.ivecs``, one after the
        other; or one folder of such files, in the order of their names with numbers as numbers.

    Attributes
    ----------
    files : tuple of VectorFile
    dtype : dtype
        Of what is read; see :meth:`astype`.

    Raises
    ------
    InputNotFoundError
        If a file does not exist.
    FormatError
        If a file is damaged, cut off or in Fortran order; when rows are read, also if one
        begins with another dimension (``.fvecs``) or the file was changed meanwhile.
    AlignmentError
        If a file has another dimension or type than the first, or is named twice.
    ScoreError
        If a file is empty or holds no matrix of these types.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "part1.npy", np.eye(2, 3))
    >>> np.save(folder / "part2.npy", np.ones((2, 3)))
    >>> vectors = Shards(folder)
    >>> vectors.shape
    (4, 3)
    >>> vectors[1:3]
    array([[0., 1., 0.],
           [1., 1., 1.]])
    """

    ndim: ClassVar[int] = 2

    files: tuple[VectorFile, ...]
    dtype: np.dtype[Any]
    _starts: Ints
    _rows: range | Ints
    _replaced: tuple[tuple[npt.NDArray[np.bool_], Array], ...]

    def __init__(self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> None:
        files = tuple(VectorFile.open(path) for path in _listed(paths))
        _check_alike(files)
        starts = np.concatenate([[0], np.cumsum([file.rows for file in files])])
        for name, value in (("files", files), ("dtype", files[0].dtype), ("_starts", starts),
                            ("_rows", range(int(starts[-1]))), ("_replaced", ())):  # fmt: skip
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors and of their components."""
        return len(self._rows), self.files[0].dim

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return (
            f"Shards({self.shape[0]} x {self.shape[1]} {self.dtype}, "
            f"{counted(len(self.files), 'file')})"
        )

    def __iter__(self) -> Any:
        raise TypeError("shards are read in blocks: shards[start:stop]")

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            "shards are not turned into one array by accident: shards[start:stop] reads some rows, "
            "shards[:] all"
        )

    def __getitem__(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Array:
        """Read rows: a slice, or an array of positions in any order."""
        chosen = self._chosen(rows)
        places: slice | Ints
        if isinstance(chosen, range) and chosen.step == 1:
            places = slice(chosen.start, chosen.stop)
            read = self._span(chosen.start, len(chosen))
        else:
            places = np.asarray(chosen, np.int64)
            read = self._scattered(places)
        read = read.astype(self.dtype, copy=False)
        for mask, vector in self._replaced:
            read[mask[places]] = vector
        return read

    def take(self, rows: slice | npt.ArrayLike) -> Shards:
        """Return some rows (a slice, positions or a mask of all rows) as shards: nothing is read.

        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "four.npy"
        >>> np.save(path, np.arange(8.0).reshape(4, 2))
        >>> Shards(path).take([3, 1])[:]
        array([[6., 7.],
               [2., 3.]])
        """
        wanted = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(wanted, slice) and wanted.dtype == bool:
            if wanted.shape != (len(self),):
                raise IndexError(
                    f"a mask of the shape {wanted.shape} for {counted(len(self), 'row')}"
                )
            wanted = np.flatnonzero(wanted)
        return self._with(_rows=_as_range(self._chosen(wanted)))

    def astype(self, kind: npt.DTypeLike) -> Shards:
        """Return shards whose rows have this type when they are read."""
        return self._with(dtype=np.dtype(kind))

    def replaced(self, mask: npt.NDArray[np.bool_], vector: Array) -> Shards:
        """Return shards whose rows under the mask are read as this one vector."""
        whole = np.zeros(self._starts[-1], bool)
        whole[np.asarray(self._rows, np.int64)[mask]] = True
        return self._with(_replaced=(*self._replaced, (whole, vector)))

    def place(self, row: int) -> tuple[str, int]:
        """Return the file of a row, and the row in it."""
        whole = int(self._rows[row])
        number = int(np.searchsorted(self._starts, whole, side="right")) - 1
        return self.files[number].path, whole - int(self._starts[number])

    def _with(self, **changed: Any) -> Shards:
        made = object.__new__(Shards)
        for name in ("files", "dtype", "_starts", "_rows", "_replaced"):
            object.__setattr__(made, name, changed.get(name, getattr(self, name)))
        return made

    def _chosen(self, rows: Any) -> range | Ints:
        """Return the rows of all files that are meant by rows of these shards."""
        if isinstance(rows, slice):
            part = self._rows[rows]
            return part if isinstance(part, range) else np.asarray(part)
        wanted = np.asarray(rows)
        if wanted.size == 0 and wanted.ndim == 1:
            return range(0)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise TypeError(
                "shards are read by a slice or an array of positions (a single row: "
                "shards[i : i + 1])"
            )
        wanted = np.where(wanted < 0, wanted + len(self), wanted).astype(np.int64)
        if wanted.min() < 0 or wanted.max() >= len(self):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} of {len(self)}")
        if isinstance(self._rows, range):
            return wanted * self._rows.step + self._rows.start
        return np.asarray(self._rows[wanted])

    def _span(self, start: int, n: int) -> Array:
        """Read consecutive rows."""
        out = np.empty((n, self.files[0].dim), self.files[0].dtype)
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        done = 0
        while done < n:
            file, row = self.files[first], start + done - int(self._starts[first])
            part = out[done : done + file.rows - row]
            with file.reading() as stream:
                file.read(stream, row, part)
            done += len(part)
            first += 1
        return out

    def _scattered(self, rows: Ints) -> Array:
        """Read rows in any order, neighbours together."""
        ascending = bool((rows[1:] > rows[:-1]).all())
        wanted, back = (rows, None) if ascending else np.unique(rows, return_inverse=True)
        out = np.empty((len(wanted), self.files[0].dim), self.files[0].dtype)
        edges = np.searchsorted(wanted, self._starts)
        for number in np.flatnonzero(np.diff(edges)).tolist():
            part = slice(int(edges[number]), int(edges[number + 1]))
            _read_rows(self.files[number], wanted[part] - self._starts[number], out[part])
        return out if back is None else out[back]


#: Vectors in memory, or in files.
Vectors: TypeAlias = Array | Shards


def rows_of(vectors: Vectors, rows: slice | Any) -> Vectors:
    """Return some rows (a slice, positions or a mask) without reading files."""
    if isinstance(vectors, Shards):
        return vectors.take(rows)
    part = vectors[rows]
    part.setflags(write=False)
    return part


def names_of_rows(vectors: object, rows: Sequence[int]) -> str:
    """Name the first few of some rows, and where they stand in files."""
    named = f"rows {name_some(rows)}"
    if not isinstance(vectors, Shards):
        return named
    places = [vectors.place(row) for row in rows[:5]]
    return f"{named}: {', '.join(f'{path} row {row}' for path, row in places)}"


def _listed(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> Sequence[str | os.PathLike[str]]:
    if not isinstance(paths, str | os.PathLike):
        if not len(paths):
            raise ScoreError("a list of files of vectors is empty: name at least one")
        return paths
    folder = Path(paths).expanduser()
    return files_of_folder(folder) if folder.is_dir() else [paths]


def _check_alike(files: tuple[VectorFile, ...]) -> None:
    first = files[0]
    seen: dict[tuple[int, int], str] = {}
    for file in files:
        if (file.dim, file.dtype) != (first.dim, first.dtype):
            raise AlignmentError(
                f"{file.path}: holds vectors of {file.dim} numbers of the type {file.dtype}, "
                f"{first.path} of {first.dim} of the type {first.dtype}: files of one side must "
                "agree"
            )
        if file.place in seen:
            raise AlignmentError(
                f"{file.path}: is named twice (also as {seen[file.place]}), so its rows would be "
                "counted twice: name each file once"
            )
        seen[file.place] = file.path


def _as_range(rows: range | Ints) -> range | Ints:
    """Return consecutive rows as a range, which takes no memory."""
    if isinstance(rows, range) or not len(rows):
        return rows
    first = int(rows[0])
    consecutive = rows[-1] - first + 1 == len(rows) and (np.diff(rows) == 1).all()
    return range(first, first + len(rows)) if consecutive else rows


def _read_rows(file: VectorFile, rows: Ints, out: Array) -> None:
    """Read ascending rows of one file; small gaps are read with them and dropped."""
    far = np.diff(rows) > 1 + _BRIDGED // file.row_bytes
    piece = rows // max(1, _PIECE // file.row_bytes)
    edges = np.flatnonzero(far | (np.diff(piece) > 0)) + 1
    with file.reading() as stream:
        for begin, end in pairwise([0, *edges.tolist(), len(rows)]):
            first, n = int(rows[begin]), int(rows[end - 1] - rows[begin]) + 1
            if n == end - begin:
                file.read(stream, first, out[begin:end])
                continue
            between = np.empty((n, file.dim), file.dtype)
            file.read(stream, first, between)
            out[begin:end] = between[rows[begin:end] - first]
