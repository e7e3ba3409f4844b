"""Files of vectors that are read a few rows at a time: what their headers say, and reading."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, InputNotFoundError, ScoreError

__all__ = ["SUFFIXES", "VectorFile", "files_of_folder", "in_blocks", "in_order"]

Array: TypeAlias = npt.NDArray[Any]

#: Files with a header of two numbers, rows and dimension, and the type of what follows.
_BIN = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1"}
#: The suffixes of files that can be read a few rows at a time.
SUFFIXES = (".npy", *_BIN)
_TYPES = ("f2", "f4", "f8", "i1", "u1")
#: A .npy file that is smaller is loaded; a larger one is read in blocks.
_LOADED = 256 << 20


@dataclass(frozen=True, slots=True)
class VectorFile:
    """One file of vectors of one length, one after the other, and how it was when it was opened.

    Attributes
    ----------
    path : str
        Absolute.
    dtype : dtype
        Of the stored numbers.
    rows, dim : int
    offset : int
        Bytes before the first vector.
    size, changed : int
        Bytes of the file, and when it was last written (ns); both are compared at each reading.
    place : (int, int)
        Device and inode, which are the same for two names of one file.
    """

    path: str
    dtype: np.dtype[Any]
    rows: int
    dim: int
    offset: int
    size: int
    changed: int
    place: tuple[int, int]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> VectorFile:
        """Read the header of a file and check that the file is as long as it says.

        Raises
        ------
        InputNotFoundError
            If there is no such file.
        FormatError
            If it is damaged, of another kind, in Fortran order or cut off.
        ScoreError
            If it holds no matrix of numbers of 8 to 64 bits, or nothing.
        """
        source = Path(os.path.abspath(Path(path).expanduser()))
        if not source.is_file():
            raise InputNotFoundError(
                f"{source}: no such file (expected vectors, {', '.join(SUFFIXES)})"
            )
        try:
            with source.open("rb") as stream:
                found = os.fstat(stream.fileno())
                shape, dtype, offset = _header(source, stream)
        except OSError as error:
            raise FormatError(f"{source}: cannot be read ({error.strerror})") from error
        rows, dim = _checked(source, shape, dtype, offset, found.st_size)
        return cls(
            str(source), dtype, rows, dim, offset, found.st_size, found.st_mtime_ns,
            (found.st_dev, found.st_ino),
        )  # fmt: skip

    @contextmanager
    def reading(self) -> Iterator[FileIO]:
        """Open the file for some readings, and check before and after that it is unchanged.

        Raises
        ------
        FormatError
            If the file has another size or time than when it was opened first.
        """
        try:
            stream = FileIO(self.path)
        except FileNotFoundError as error:
            raise InputNotFoundError(f"{self.path}: is gone since it was opened") from error
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be read ({error.strerror})") from error
        with stream:
            self._check_unchanged(stream)
            yield stream
            self._check_unchanged(stream)

    def read(self, stream: FileIO, first: int, out: Array) -> None:
        """Read consecutive rows, from `first` on, into a C-ordered array of the stored type."""
        stream.seek(self.offset + first * self.dim * self.dtype.itemsize)
        left = memoryview(out.view(np.uint8)).cast("B")  # type: ignore[arg-type]
        while left:
            n = stream.readinto(left)
            if not n:
                self._check_unchanged(stream)
                raise FormatError(f"{self.path}: ends within row {first + len(out)}: copy it again")
            left = left[n:]

    def _check_unchanged(self, stream: FileIO) -> None:
        now = os.fstat(stream.fileno())
        if (now.st_size, now.st_mtime_ns) != (self.size, self.changed):
            raise FormatError(
                f"{self.path}: was changed while it was in use ({self.size:,} bytes when it was "
                f"opened, {now.st_size:,} now, or another time of change), so that what was "
                "counted may not be what it holds: start again, and copy files with their times"
            )


def files_of_folder(folder: Path) -> list[Path]:
    """Return the files of vectors in a folder, by name, with numbers in their order.

    Raises
    ------
    FormatError
        If there is none.
    """
    found = [
        path for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    ]  # fmt: skip
    if not found:
        raise FormatError(f"{folder}: holds no files of vectors ({', '.join(SUFFIXES)})")
    return in_order(found)


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Sort paths by name, with numbers as numbers.

    >>> [path.name for path in in_order([Path("part10.npy"), Path("part2.npy")])]
    ['part2.npy', 'part10.npy']
    """
    return sorted(paths, key=lambda path: _natural(str(path)))


def in_blocks(path: Path) -> bool:
    """Tell whether a file of vectors is read in blocks rather than loaded."""
    suffix = path.suffix.lower()
    return suffix in SUFFIXES and (suffix != ".npy" or path.stat().st_size >= _LOADED)


def _natural(name: str) -> list[tuple[str, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [
        (text, int(number or -1), number)
        for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)
    ]


def _header(path: Path, stream: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return the shape, the type and where the numbers begin."""
    suffix = path.suffix.lower()
    if suffix in _BIN:
        head = np.frombuffer(stream.read(8), np.uint8)
        if len(head) < 8:
            raise FormatError(f"{path}: has {len(head)} bytes and so no header: copy it again")
        rows, dim = head.view("<u4").tolist()
        return (rows, dim), np.dtype(_BIN[suffix]), 8
    if suffix != ".npy":
        raise FormatError(
            f"{path}: vectors are read in blocks from {', '.join(SUFFIXES)}, not from "
            f"{suffix or 'a file without suffix'}"
        )
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
    return shape, dtype, stream.tell()


def _checked(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int, size: int
) -> tuple[int, int]:
    """Return rows and dimension of an array that can be read in blocks, and is all there."""
    if dtype.hasobject:
        raise FormatError(f"{path}: holds Python objects (a pickle): save plain numbers instead")
    if dtype.str[1:] not in _TYPES:
        raise ScoreError(
            f"{path}: has the type {dtype}; float16, float32, float64, int8 and uint8 are read in "
            "blocks: save it again as one of them"
        )
    if len(shape) != 2:
        raise ScoreError(f"{path}: has the shape {shape}: (number of items, dimensions) is needed")
    rows, dim = shape
    if not rows or not dim:
        raise ScoreError(f"{path}: is empty, of the shape {shape}: leave this file out")
    row = dim * dtype.itemsize
    if size != offset + rows * row:
        holds = (size - offset) // row
        cut = "the file is cut off" if holds < rows else "there is more behind the array"
        raise FormatError(
            f"{path}: its header promises {rows:,} rows, but the file has {holds:,} ({size:,} "
            f"bytes, not {offset + rows * row:,}): {cut}; write or copy it again"
        )
    return rows, dim
