"""The one container that every value of the package is saved in.

An archive is a NumPy ``.npz`` file without pickled objects: named arrays and one
JSON header that says what the file holds and in which version of the schema. The
same value gives the same bytes, and a file that was interrupted is never left behind.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, InputNotFoundError

__all__ = ["canonical_json", "read_archive", "write_archive", "write_atomically"]

_HEADER = "header"
_WRITABLE_BY_OTHERS = 0o666


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, no NaN.

    >>> canonical_json({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file whole or not at all, also when the process is interrupted."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, _WRITABLE_BY_OTHERS & ~umask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_archive(
    path: str | os.PathLike[str],
    *,
    kind: str,
    version: int,
    arrays: Mapping[str, npt.NDArray[Any]],
    header: Mapping[str, object] | None = None,
) -> None:
    """Save named arrays and a header under a kind and a schema version."""
    text = canonical_json({"kind": kind, "version": version, **(header or {})})
    content = {_HEADER: np.array(text), **{name: arrays[name] for name in sorted(arrays)}}
    for name, array in content.items():
        if array.dtype.hasobject:
            raise FormatError(f"array {name!r} of a {kind} holds Python objects: not saved")
    buffer = io.BytesIO()
    np.savez(buffer, **content)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def read_archive(
    path: str | os.PathLike[str], *, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read back what :func:`write_archive` saved.

    Raises
    ------
    FormatError
        If the file is damaged, is no archive, or holds another kind or a newer version.
    """
    source = Path(path)
    if not source.is_file():
        raise InputNotFoundError(f"{source}: no such file (expected a saved {kind})")
    try:
        with source.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(str(arrays.pop(_HEADER)))
        found, found_version = header["kind"], int(header["version"])
    except (
        OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, zipfile.BadZipFile,
        zlib.error,
    ) as error:  # fmt: skip
        raise FormatError(
            f"{source}: cannot be read as a saved {kind} ({error}); the file is truncated "
            "or was not written by this package: save it again"
        ) from error
    if found != kind:
        raise FormatError(f"{source}: holds a {found!r}, not a {kind!r}")
    if found_version > version:
        raise FormatError(
            f"{source}: schema version {found_version} is newer than this installation "
            f"reads ({version}): update reid_vpr_eval"
        )
    return header, arrays
