"""The registry of readers: which function reads which file, and what it hands over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, InputNotFoundError, ReidVprEvalError
from reid_vpr_eval.formats.spec import SideSpec
from reid_vpr_eval.scores.files import SUFFIXES

__all__ = [
    "FOLDER",
    "FORMATS",
    "Content",
    "Reader",
    "SideName",
    "existing",
    "find_reader",
    "located",
    "parsing",
    "reader",
]

SideName: TypeAlias = Literal["query", "gallery"]

#: The suffix under which the reader of folders is registered.
FOLDER = "/"

_HEAD_BYTES = 1024
#: How files that are often mistaken for another begin, and what to call them.
_KNOWN_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"PK\x03\x04", "a zip or a NumPy archive (.zip, .npz)"),
    (b"PK\x05\x06", "an empty zip"),
    (b"MATLAB", "a MATLAB file (.mat)"),
    (b"\x89HDF", "an HDF5 file"),
    (b"PAR1", "a Parquet table"),
    (b"\x80\x02", "a Python pickle, which is never loaded here"),
    (b"\x80\x03", "a Python pickle, which is never loaded here"),
    (b"\x80\x04", "a Python pickle, which is never loaded here"),
    (b"\x80\x05", "a Python pickle, which is never loaded here"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG", "a PNG image"),
    (b"\x1f\x8b", "a gzip file: unpack it first"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What a reader found in one file or folder, before a protocol looks at it.

    Parameters
    ----------
    columns : mapping of str to array-like
        One entry a column, all of one length; anything that :class:`Samples` accepts.
    features : array (n, d), optional
        Row i belongs to row i of the columns.
    root : Path, optional
        The folder or zip that the column ``path`` is relative to.
    origin : {"table", "files", "list"}
        Where the rows come from, which decides what their ids are.
    sided : bool
        True if the file holds both sides and only one was taken: then its rows are not
        the rows of the other side.
    """

    columns: Mapping[str, Any]
    features: npt.NDArray[Any] | None = None
    root: Path | None = None
    origin: Literal["table", "files", "list"] = "table"
    sided: bool = False


ReadFunction: TypeAlias = Callable[[Path, SideName, SideSpec], Content]


@dataclass(frozen=True, slots=True)
class Reader:
    """One format: its name, its suffixes, how its files begin, and the function."""

    name: str
    suffixes: tuple[str, ...]
    signatures: tuple[bytes, ...]
    read: ReadFunction

    def begins(self, head: bytes) -> bool:
        """Tell whether a file with this beginning can be of this format."""
        return not self.signatures or head.startswith(self.signatures)


_READERS: dict[str, Reader] = {}

#: Every format that can be read, by name.
FORMATS: Mapping[str, Reader] = MappingProxyType(_READERS)


def reader(
    name: str, *, suffixes: tuple[str, ...], signature: bytes | tuple[bytes, ...] = ()
) -> Callable[[ReadFunction], ReadFunction]:
    """Register a function as the reader of a format.

    Parameters
    ----------
    name : str
        The name of the format.
    suffixes : tuple of str
        The file suffixes it is known by, in lower case and with the dot.
    signature : bytes or tuple of bytes, optional
        How a file of this format begins; none for text.

    Raises
    ------
    FormatError
        If the name or a suffix is taken.
    """

    def register(function: ReadFunction) -> ReadFunction:
        if name in _READERS:
            raise FormatError(f"the format {name!r} is registered already")
        for other in _READERS.values():
            taken = set(suffixes) & set(other.suffixes)
            if taken:
                raise FormatError(
                    f"the suffix {min(taken)!r} of the format {name!r} belongs to {other.name!r}"
                )
        signatures = (signature,) if isinstance(signature, bytes) else signature
        _READERS[name] = Reader(name, suffixes, signatures, function)
        return function

    return register


def existing(path: Path, what: str) -> Path:
    """Return the path, or say that there is no such file."""
    if not path.exists():
        near = path.parent
        hint = "" if near.is_dir() else f"; there is no folder {near} either"
        raise InputNotFoundError(f"{path}: no such file or folder (expected the {what}{hint})")
    return path


def find_reader(path: Path) -> Reader:
    """Return the reader of an existing file or folder, by its suffix and its beginning.

    Raises
    ------
    FormatError
        If the suffix is unknown, or the file does not begin as its suffix promises.
    """
    suffix = FOLDER if path.is_dir() else path.suffix.lower()
    head = b"" if path.is_dir() else _head(path)
    found = next((one for one in FORMATS.values() if suffix in one.suffixes), None)
    looks = _looks_like(head)
    if found is None and suffix in SUFFIXES:
        raise FormatError(
            f"{path}: holds vectors alone, and no samples: give it as features "
            "(--query-features, --gallery-features), and name a table of samples"
        )
    if found is None:
        known = "; ".join(
            f"{one.name} ({', '.join(s for s in one.suffixes if s != FOLDER) or 'a folder'})"
            for one in FORMATS.values()
        )
        raise FormatError(
            f"{path}: the suffix {suffix!r} is not known (the file looks like {looks}); "
            f"known formats: {known}"
        )
    text = not found.signatures and suffix != FOLDER
    if not found.begins(head) or (text and looks not in ("text", "an empty file")):
        raise FormatError(
            f"{path}: is named {suffix} ({found.name}) but looks like {looks}; give it the right "
            "suffix, or write it again"
        )
    return found


@contextmanager
def located(path: Path | str) -> Iterator[None]:
    """Put the name of the file, or of a side, in front of what is wrong with its content."""
    try:
        yield
    except ReidVprEvalError as error:
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path}: {text}") from error


@contextmanager
def parsing(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one error with its name."""
    try:
        yield
    except ReidVprEvalError:
        raise
    except Exception as error:
        text = str(error)
        if "allow_pickle" in text or "pickled data" in text:
            raise FormatError(
                f"{path}: holds Python objects (a pickle), and no pickle is loaded here; save "
                "plain arrays of numbers or strings instead"
            ) from error
        raise FormatError(
            f"{path}: cannot be read as {what} ({text or type(error).__name__}); the file is "
            "truncated, damaged or of another kind: write or copy it again"
        ) from error


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error


def _looks_like(head: bytes) -> str:
    if not head:
        return "an empty file"
    for start, name in _KNOWN_STARTS:
        if head.startswith(start):
            return name
    if b"\0" in head:
        return "binary data of an unknown kind"
    return "text"
