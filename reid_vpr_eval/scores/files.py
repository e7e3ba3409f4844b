"""Files of vectors that are read a few rows at a time."""

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

from reid_vpr_eval.errors import FormatError, InputNotFoundError, counted
from reid_vpr_eval.scores.headers import SUFFIXES, layout_of

__all__ = ["SUFFIXES", "VectorFile", "files_of_folder", "in_blocks", "in_order"]

Array: TypeAlias = npt.NDArray[Any]

#: A .npy file that is smaller is loaded; a larger one is read in blocks.
_LOADED = 256 << 20
#: Rows with something before their numbers are read in pieces of this many bytes.
_PIECE = 1 << 20


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
        Bytes before the first row.
    lead : int
        Bytes of each row before its numbers: none, or 4, the dimension again (``.fvecs``).
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
    lead: int
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
            If it holds no matrix of numbers that can be read in blocks, or nothing.
        """
        source = Path(os.path.abspath(Path(path).expanduser()))
        if not source.is_file():
            raise InputNotFoundError(
                f"{source}: no such file (expected vectors, {', '.join(SUFFIXES)})"
            )
        try:
            with source.open("rb") as stream:
                found = os.fstat(stream.fileno())
                layout = layout_of(source, stream, found.st_size)
        except OSError as error:
            raise FormatError(f"{source}: cannot be read ({error.strerror})") from error
        rows, dim = layout.shape
        return cls(
            str(source), layout.dtype, rows, dim, layout.offset, layout.lead, found.st_size,
            found.st_mtime_ns, (found.st_dev, found.st_ino),
        )  # fmt: skip

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in the file."""
        return self.lead + self.dim * self.dtype.itemsize

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
        """Read consecutive rows, from `first` on, into a C-ordered array of the stored type.

        Raises
        ------
        FormatError
            If the file ends, or a row begins with another dimension than the first.
        """
        stream.seek(self.offset + first * self.row_bytes)
        raw = out.view(np.uint8)
        if not self.lead:
            self._fill(stream, first, raw)
            return
        step = max(1, _PIECE // self.row_bytes)
        piece = np.empty((min(step, len(out)), self.row_bytes), np.uint8)
        for start in range(0, len(out), step):
            rows = piece[: len(out) - start]
            self._fill(stream, first + start, rows)
            self._check_leads(first + start, rows)
            raw[start : start + len(rows)] = rows[:, self.lead :]

    def _fill(self, stream: FileIO, first: int, raw: Array) -> None:
        """Read the bytes of rows from where the stream stands; `first` is named if it ends."""
        left = memoryview(raw).cast("B")  # type: ignore[arg-type]
        while left:
            n = stream.readinto(left)
            if not n:
                self._check_unchanged(stream)
                raise FormatError(f"{self.path}: ends within row {first + len(raw)}: copy it again")
            left = left[n:]

    def _check_leads(self, first: int, rows: Array) -> None:
        """Refuse rows that begin with another dimension."""
        said = np.ascontiguousarray(rows[:, : self.lead]).view("<i4")[:, 0]
        bad = np.flatnonzero(said != self.dim)
        if len(bad):
            raise FormatError(
                f"{self.path}: row {first + bad[0]} begins with the dimension {said[bad[0]]}, the "
                f"first row with {self.dim}: bytes are missing or wrong there, or it is no "
                f"{Path(self.path).suffix} file; write or copy it again"
            )

    def _check_unchanged(self, stream: FileIO) -> None:
        now = os.fstat(stream.fileno())
        if (now.st_size, now.st_mtime_ns) != (self.size, self.changed):
            raise FormatError(
                f"{self.path}: was changed while it was in use "
                f"({counted(self.size, 'byte', form=',')} when it was opened, {now.st_size:,} now, "
                "or another time of change), so that what was counted may not be what it holds: "
                "start again, and copy files with their times"
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
