"""What the headers of files of vectors say: how many rows there are, and where each lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from reid_vpr_eval.errors import FormatError, ScoreError, counted

__all__ = ["SUFFIXES", "Layout", "layout_of"]

_TYPES = {"f2": "float16", "f4": "float32", "f8": "float64",
          "i1": "int8", "i4": "int32", "u1": "uint8"}  # fmt: skip
#: Bytes of the dimension in front of each vector of a .fvecs, .ivecs or .bvecs file.
_WORD = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """How vectors lie in a file.

    Attributes
    ----------
    shape : tuple of int
        Rows and dimension.
    dtype : dtype
        Of the stored numbers.
    offset : int
        Bytes before the first row.
    lead : int
        Bytes at the beginning of each row before its numbers: none, or the dimension again.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    lead: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, with what stands before its numbers."""
        return self.lead + self.shape[1] * self.dtype.itemsize


def layout_of(path: Path, stream: BufferedReader, size: int) -> Layout:
    """Read the header of a file of this many bytes, and check that they are as many as it says.

    Raises
    ------
    FormatError
        If it is damaged, of another kind, in Fortran order or cut off.
    ScoreError
        If it holds no matrix of numbers of these types, or nothing.
    """
    suffix = path.suffix.lower()
    if suffix not in _KINDS:
        raise FormatError(
            f"{path}: vectors are read in blocks from {', '.join(SUFFIXES)}, not from "
            f"{suffix or 'a file without suffix'}"
        )
    layout = _KINDS[suffix](path, stream, size)
    _check_matrix(path, layout)
    rows, wanted = layout.shape[0], layout.offset + layout.shape[0] * layout.row_bytes
    if size != wanted:
        holds = (size - layout.offset) // layout.row_bytes
        cut = "the file is cut off" if holds < rows else "there is more behind the array"
        raise FormatError(
            f"{path}: its header promises {counted(rows, 'row', form=',')}, but the file has "
            f"{holds:,} ({size:,} bytes, not {wanted:,}): {cut}; write or copy it again"
        )
    return layout


def _npy(path: Path, stream: BufferedReader, size: int) -> Layout:  # noqa: ARG001
    """A NumPy array."""
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0}[version]  # fmt: skip
        shape, fortran, dtype = read(stream)
    except (ValueError, EOFError, KeyError, SyntaxError) as error:
        raise FormatError(f"{path}: cannot be read as a .npy array ({error})") from error
    if fortran and len(shape) > 1:
        raise FormatError(
            f"{path}: is in Fortran order, so its rows are not in one piece: save it again with "
            "np.save(path, np.ascontiguousarray(vectors))"
        )
    return Layout(shape, dtype, stream.tell())


def _counted(kind: str, path: Path, stream: BufferedReader, size: int) -> Layout:
    """Rows and dimension (uint32), then all numbers."""
    rows, dim = _numbers(path, stream, size, 2)
    return Layout((rows, dim), np.dtype(kind), 8)


def _each_counted(kind: str, path: Path, stream: BufferedReader, size: int) -> Layout:
    """Each vector after its dimension (int32)."""
    (dim,) = _numbers(path, stream, size, 1)
    if not 0 < dim < 1 << 31:
        raise FormatError(
            f"{path}: begins with the dimension {dim if dim < 1 << 31 else dim - (1 << 32)}, so it "
            f"is no {path.suffix} file: give it the suffix of what it is, or write it again"
        )
    layout = Layout((1, dim), np.dtype(kind), 0, _WORD)
    rows, left = divmod(size, layout.row_bytes)
    if left:
        raise FormatError(
            f"{path}: begins with the dimension {dim}, so that a row has {layout.row_bytes:,} "
            f"bytes, but the {counted(size, 'byte', form=',')} of the file are "
            f"{counted(rows, 'row', form=',')} and {counted(left, 'byte', form=',')} more: it is "
            f"cut off, or no {path.suffix} file; write or copy it again"
        )
    return Layout((rows, dim), layout.dtype, 0, _WORD)


#: How the header of each kind of file is read, by suffix.
_KINDS: Mapping[str, Callable[[Path, BufferedReader, int], Layout]] = {
    ".npy": _npy,
    ".fbin": partial(_counted, "<f4"), ".ibin": partial(_counted, "<i4"),
    ".u8bin": partial(_counted, "u1"), ".i8bin": partial(_counted, "i1"),
    ".fvecs": partial(_each_counted, "<f4"), ".ivecs": partial(_each_counted, "<i4"),
    ".bvecs": partial(_each_counted, "u1"),
}  # fmt: skip
#: The suffixes of files that can be read a few rows at a time.
SUFFIXES = tuple(_KINDS)


def _numbers(path: Path, stream: BufferedReader, size: int, n: int) -> list[int]:
    head = np.frombuffer(stream.read(4 * n), np.uint8)
    if len(head) < 4 * n:
        raise FormatError(f"{path}: has {counted(size, 'byte')} and so no header: copy it again")
    return [int(one) for one in head.view("<u4")]


def _check_matrix(path: Path, layout: Layout) -> None:
    """Refuse an array that is no matrix, or of numbers that are not read in blocks."""
    if layout.dtype.hasobject:
        raise FormatError(f"{path}: holds Python objects (a pickle): save plain numbers instead")
    if layout.dtype.str[1:] not in _TYPES:
        raise ScoreError(
            f"{path}: has the type {layout.dtype}; {', '.join(_TYPES.values())} are read in "
            "blocks: save it again as one of them"
        )
    if len(layout.shape) != 2:
        raise ScoreError(
            f"{path}: has the shape {layout.shape}: (number of items, dimensions) is needed"
        )
    if not all(layout.shape):
        raise ScoreError(f"{path}: is empty, of the shape {layout.shape}: leave this file out")
