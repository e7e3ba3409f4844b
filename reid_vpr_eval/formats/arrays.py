"""NumPy files: one array (.npy), or samples and features together (.npz)."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.columns import canonical_column
from reid_vpr_eval.errors import AlignmentError, FormatError, counted, name_some
from reid_vpr_eval.formats.registry import Content, SideName, parsing, reader
from reid_vpr_eval.formats.spec import SideSpec
from reid_vpr_eval.samples import Samples

__all__ = [
    "check_lengths",
    "check_vectors",
    "columns_of_side",
    "flattened",
    "load_array",
    "load_archive",
    "read_npy",
    "read_npz",
    "split_features",
    "write_features",
]

Array: TypeAlias = npt.NDArray[Any]

_FEATURES = "features"
_MISSING = "missing:"
_VALUE = "value:"
_HEADER = "header"
#: Arrays of positions by side, as NetVLAD's descendants name them.
_PLACES: Mapping[SideName, str] = {"query": "utmQ", "gallery": "utmDb"}
#: What marks an array of one side, after ``query_`` or ``gallery_``.
_MARKS = ("features", "f")


@reader("NumPy array", suffixes=(".npy",), signature=b"\x93NUMPY")
def read_npy(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read one array, which can only be features: it has no columns."""
    return Content(columns={}, features=load_array(path))


@reader("NumPy archive", suffixes=(".npz",), signature=(b"PK\x03\x04", b"PK\x05\x06"))
def read_npz(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read samples and features together: 1-D arrays are columns, the 2-D one the features.

    Files with arrays of both sides (``query_features``, ``gallery_label`` ..., or the
    positions ``utmQ`` and ``utmDb``) give those of the side that is asked for.
    """
    arrays, sided = load_archive(path, side)
    features, columns = split_features(path, arrays)
    check_lengths(path, columns, features)
    if not columns and features is None:
        raise FormatError(
            f"{path}: holds neither columns (1-D arrays) nor features (a 2-D array), but "
            f"{_shapes(arrays) or 'nothing'}"
        )
    return Content(columns=_restored(path, columns), features=features, sided=sided)


def load_array(path: Path) -> Array:
    """Read a .npy file without bringing all of it into memory.

    Raises
    ------
    FormatError
        If it is damaged, or holds Python objects.
    """
    with parsing(path, "a NumPy array"):
        try:
            stored = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError:  # empty, holding objects, or truncated: then the reason is said here
            stored = np.load(path, allow_pickle=False)
        if not isinstance(stored, np.ndarray):
            raise FormatError(f"{path}: holds several arrays; name it .npz")
    return stored


def load_archive(path: Path, side: SideName | None) -> tuple[dict[str, Array], bool]:
    """Read the arrays of a .npz file that concern a side, under their plain names.

    Returns
    -------
    arrays : dict of str to array
        Prefixes of the side are taken off.
    sided : bool
        True if the file holds arrays of both sides apart.
    """
    with parsing(path, "a NumPy archive"), path.open("rb") as stream:
        stored = np.load(stream, allow_pickle=False)
        wanted, sided = columns_of_side(path, stored.files, side)
        arrays = {plain: stored[name] for name, plain in wanted.items()}
    foreign = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if foreign:
        raise FormatError(
            f"{path}: holds files that are no arrays ({name_some(foreign, limit=3)}); if it is a "
            "zip of images, name it .zip"
        )
    if sided or _FEATURES in arrays:
        arrays = {name: flattened(name, array) for name, array in arrays.items()}
    return _without_header(path, arrays), sided


def columns_of_side(
    path: Path, names: Sequence[str], side: SideName | None
) -> tuple[dict[str, str], bool]:
    """Choose the stored names of a side: stored name to plain name, and whether there are sides."""
    marked = [name for name in names if _marks_side(name)]
    if _FEATURES in names or not marked:
        return {name: name for name in names}, False
    if side is None:
        raise FormatError(
            f"{path}: holds arrays of both sides ({name_some(marked)}): say which, query or gallery"
        )
    wanted = {}
    for name in names:
        if name.startswith(f"{side}_"):
            plain = name.removeprefix(f"{side}_")
            wanted[name] = _FEATURES if plain in _MARKS else plain
        elif name == _PLACES[side]:
            wanted[name] = name
    if not wanted:
        raise FormatError(f"{path}: holds nothing of the {side} side, only {name_some(names, 8)}")
    return wanted, True


def _marks_side(name: str) -> bool:
    if name in _PLACES.values():
        return True
    side, _, rest = name.partition("_")
    return side in _PLACES and (rest in _MARKS or canonical_column(rest) == "label")


def split_features(
    path: Path, arrays: Mapping[str, Array]
) -> tuple[Array | None, dict[str, Array]]:
    """Tell the features from the columns; single values and other shapes are left out."""
    flat = dict(arrays)
    columns = {name: array for name, array in flat.items() if array.ndim == 1}
    for name in _PLACES.values():
        if name in flat:
            columns |= _positions(path, name, flat.pop(name))
    if _FEATURES in flat:
        columns.pop(_FEATURES, None)
        return check_vectors(path, _FEATURES, flat[_FEATURES]), columns
    matrices = _matrices(flat, "f") or _matrices(flat, "iu")
    if len(matrices) > 1:
        raise FormatError(
            f"{path}: holds several matrices ({_shapes({name: flat[name] for name in matrices})}); "
            "name the one that is meant 'features'"
        )
    if not matrices:
        return None, columns
    return check_vectors(path, matrices[0], flat[matrices[0]]), columns


def _matrices(arrays: Mapping[str, Array], kinds: str) -> list[str]:
    return [name for name, one in arrays.items() if one.ndim == 2 and one.dtype.kind in kinds]


def flattened(name: str, array: Array) -> Array:
    """Turn a row vector (1, n), as MATLAB writes columns, into a column."""
    whole = name == _FEATURES or name in _PLACES.values()
    return array.ravel() if not whole and array.ndim == 2 and 1 in array.shape else array


def _positions(path: Path, name: str, array: Array) -> dict[str, Array]:
    if array.ndim == 2 and array.shape[1] != 2 and array.shape[0] == 2:
        array = array.T
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iuf":
        raise FormatError(
            f"{path}: {name} has the shape {array.shape} and type {array.dtype}, but positions are "
            "numbers, (n, 2): east, north"
        )
    return {"east": array[:, 0], "north": array[:, 1]}


def check_vectors(path: Path, name: str, array: Array) -> Array:
    """Return features if they are a matrix of real numbers."""
    if array.dtype.kind not in "iufb":
        raise FormatError(
            f"{path}: {name} has the type {array.dtype}; features are real numbers, a vector a row"
        )
    if array.ndim != 2:
        raise FormatError(
            f"{path}: {name} has the shape {array.shape}; features have the shape (number of "
            "items, dimensions)"
        )
    return array


def check_lengths(path: Path, columns: Mapping[str, Array], features: Array | None) -> None:
    """Raise AlignmentError if columns and features differ in their number of rows."""
    sizes = {name: len(array) for name, array in columns.items()}
    if features is not None:
        sizes[_FEATURES] = len(features)
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise AlignmentError(
            f"{path}: the arrays differ in their number of rows ({listed}); row i of each must "
            "belong to item i"
        )


def _shapes(arrays: Mapping[str, Array]) -> str:
    return ", ".join(f"{name}: {array.dtype} {array.shape}" for name, array in arrays.items())


def _without_header(path: Path, arrays: dict[str, Array]) -> dict[str, Array]:
    """Accept saved samples as a table, and name other things that this package saves."""
    header = arrays.get(_HEADER)
    if header is None or header.ndim != 0 or header.dtype.kind != "U":
        return arrays
    try:
        kind = json.loads(str(header)).get("kind")
    except (ValueError, AttributeError):
        return arrays
    if kind != "samples":
        raise FormatError(f"{path}: holds a saved {kind}, not samples")
    return {name.removeprefix(_VALUE): a for name, a in arrays.items() if name != _HEADER}


def _restored(path: Path, columns: Mapping[str, Array]) -> dict[str, Any]:
    """Put the marks of missing values back into the columns that they belong to."""
    restored: dict[str, Any] = {}
    for name, values in columns.items():
        if name.startswith(_MISSING):
            continue
        mask = columns.get(_MISSING + name)
        if mask is None:
            restored[name] = values
        elif mask.dtype.kind != "b":
            raise FormatError(f"{path}: {_MISSING}{name} must be booleans, one a row")
        else:
            restored[name] = [
                None if lost else value
                for value, lost in zip(values.tolist(), mask.tolist(), strict=True)
            ]
    return restored


def write_features(path: str | os.PathLike[str], samples: Samples, features: Any) -> None:
    """Write samples and their features to one .npz file, which any of the readers reads.

    Every column is a plain array of its name, ``features`` is the matrix; where a column
    lacks values, ``missing:NAME`` is a mask. The same content gives the same bytes, and
    no file is left half-written.

    Raises
    ------
    AlignmentError
        If there is not one vector a sample.
    FormatError
        If the path does not end in .npz, or the features are no matrix of numbers.
    """
    target = Path(path)
    if target.suffix.lower() != ".npz":
        raise FormatError(f"{target}: features are written as .npz; give the file that suffix")
    matrix = check_vectors(target, _FEATURES, np.asarray(features))
    if len(matrix) != samples.n:
        raise AlignmentError(
            f"{target}: {counted(len(matrix), 'vector')} for {counted(samples.n, 'sample')}"
        )
    arrays: dict[str, Array] = {}
    for name in samples.column_names:
        if name == _FEATURES or name.startswith((_MISSING, _VALUE)):
            raise FormatError(f"a column cannot be called {name!r} in {target}: rename it")
        lost = samples.missing(name)
        arrays[name] = _filled(samples, name, lost)
        if lost.any():
            arrays[_MISSING + name] = lost
    arrays[_FEATURES] = matrix
    buffer = io.BytesIO()
    np.savez(buffer, **{name: arrays[name] for name in sorted(arrays)})  # type: ignore[arg-type]
    write_atomically(target, buffer.getvalue())


def _filled(samples: Samples, name: str, lost: npt.NDArray[np.bool_]) -> Array:
    if not lost.any():
        return samples.values(name)
    present = samples.take(~lost).values(name)
    values = np.full(samples.n, np.nan) if present.dtype.kind == "f" else None
    if values is None:
        values = np.zeros(samples.n, dtype=present.dtype)
    values[~lost] = present
    return values
