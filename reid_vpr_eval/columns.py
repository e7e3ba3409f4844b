"""Columns of metadata: their names, their kinds, and how values of any source are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, counted, name_some

__all__ = [
    "ALIASES",
    "KEY_COLUMNS",
    "NUMBER_COLUMNS",
    "canonical_column",
    "read_column",
    "tight",
    "whole_numbers",
]

#: Columns whose values are compared for equality: integers or strings, never fractions.
KEY_COLUMNS = frozenset(
    {"id", "path", "label", "camera", "clothes", "modality", "sequence", "group", "zone"}
)
#: Columns that are measured: float64.
NUMBER_COLUMNS = frozenset({"lat", "lon", "east", "north", "heading", "height"})

#: Other names under which people store the columns that have a meaning here.
ALIASES: Mapping[str, str] = {
    **dict.fromkeys(
        ("pid", "pids", "identity", "person_id", "vehicle_id", "labels", "class_id"), "label"
    ),
    **dict.fromkeys(("camid", "camids", "cam", "camera_id", "cameras"), "camera"),
    **dict.fromkeys(("clothes_id", "cloth", "clothid"), "clothes"),
    **dict.fromkeys(("sequence_id", "sequence_key", "seq"), "sequence"),
    **dict.fromkeys(("frame_number", "frame_id", "frame_index"), "frame"),
    **dict.fromkeys(("timestamp", "captured_at"), "time"),
    **dict.fromkeys(("latitude",), "lat"),
    **dict.fromkeys(("longitude", "lng", "long"), "lon"),
    **dict.fromkeys(("utm_east", "easting"), "east"),
    **dict.fromkeys(("utm_north", "northing"), "north"),
    **dict.fromkeys(("utm_zone", "zone_number", "utm_zone_number"), "zone"),
    **dict.fromkeys(("bearing", "compass_angle", "yaw"), "heading"),
    **dict.fromkeys(("image", "image_path", "img_path", "file", "filename", "file_name"), "path"),
}

_FLOAT64_INTEGERS = 2.0**53


def canonical_column(name: str) -> str:
    """Return the name under which a column is kept.

    >>> canonical_column("pid"), canonical_column("weather")
    ('label', 'weather')
    """
    return ALIASES.get(name, name)


def read_column(
    kept: str, name: str, raw: Any
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Read a column as int64, float64, bool or strings, with a mask of missing values."""
    try:
        array, missing = _as_array(name, raw)
    except UnicodeDecodeError as error:
        raise FormatError(f"column {name!r} holds bytes that are no UTF-8 text: {error}") from error
    if array.ndim != 1:
        raise FormatError(
            f"column {name!r} has the shape {array.shape}: one value a row is needed"
        )
    if kept in NUMBER_COLUMNS:
        array, missing = _numbers(name, array, missing)
    elif kept in KEY_COLUMNS:
        array, missing = _whole_keys(name, array, missing)
    if kept == "label":
        _check_labels(name, array, missing)
    array.setflags(write=False)
    missing.setflags(write=False)
    return array, missing


def _as_array(name: str, raw: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Turn whatever holds a column into int64, float64, bool or str, and a mask."""
    if isinstance(raw, np.ma.MaskedArray):
        raw = raw.tolist()
    if hasattr(raw, "isna") and hasattr(raw, "to_numpy"):
        missing = np.array(raw.isna(), dtype=bool)
        stored = getattr(raw.dtype, "numpy_dtype", raw.dtype)
        if getattr(stored, "kind", "O") == "f":
            array = np.array(raw.to_numpy(dtype=stored, na_value=np.nan))
        elif isinstance(raw.dtype, np.dtype) and raw.dtype.kind in "iub":
            array = np.array(raw.to_numpy())
        else:
            array = np.array(raw.to_numpy(dtype=object))
    elif isinstance(raw, list | tuple):
        array = np.empty(len(raw), dtype=object)
        array[:] = raw
        missing = np.array([_is_missing(value) for value in raw], dtype=bool)
    else:
        array = np.array(np.asarray(raw))
        missing = np.zeros(array.shape, bool)
        if array.ndim == 1 and array.dtype.kind == "f":
            missing = np.isnan(array)
        elif array.ndim == 1 and array.dtype.kind == "O":
            missing = np.array([_is_missing(value) for value in array], dtype=bool)
    if array.ndim == 1 and array.dtype.kind == "O":
        array = _from_objects(name, array, missing)
    return _plain(name, array), missing


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _from_objects(
    name: str, array: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    """Give a column of Python objects the one kind that all its values share."""
    kinds: dict[str, int] = {}
    for row, value in enumerate(array):
        if not missing[row]:
            kinds.setdefault(_kind_of(value), row)
    if set(kinds) == {"integer", "number"}:
        kinds = {"number": kinds["number"]}
    if len(kinds) > 1:
        where = ", ".join(f"{kind} in row {row} ({array[row]!r})" for kind, row in kinds.items())
        raise FormatError(f"column {name!r} mixes kinds of values: {where}; use one kind")
    kind = next(iter(kinds), "number")
    if kind.startswith("a "):
        raise FormatError(
            f"column {name!r} holds {kind} in row {kinds[kind]}: numbers or strings are needed"
        )
    empty: dict[str, object] = {"string": "", "integer": 0, "number": np.nan, "boolean": False}
    filled: list[Any] = [empty[kind] if lost else v for v, lost in zip(array, missing, strict=True)]
    if kind == "string":
        return np.array(
            [v.decode() if isinstance(v, bytes) else str(v) for v in filled], dtype=np.str_
        )
    if kind == "integer":
        if any(not -(2**63) <= int(v) < 2**63 for v in filled):
            raise FormatError(f"column {name!r} holds integers beyond 64 bits: make them strings")
        return np.array([int(v) for v in filled], dtype=np.int64)
    if kind == "boolean":
        return np.array(filled, dtype=bool)
    types = {type(value) for value, lost in zip(array, missing, strict=True) if not lost}
    narrow = len(types) == 1 and issubclass(next(iter(types)), np.floating)
    return np.array(filled, dtype=types.pop() if narrow else np.float64)


def _kind_of(value: object) -> str:
    if isinstance(value, str | bytes):
        return "string"
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, int | np.integer):
        return "integer"
    if isinstance(value, float | np.floating):
        return "number"
    return f"a {type(value).__name__}"


def _plain(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if array.dtype.kind == "u":
        if array.size and array.max() > np.uint64(2**63 - 1):
            raise FormatError(f"column {name!r} holds integers beyond 64 bits: make them strings")
        return array.astype(np.int64)
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        if array.dtype.itemsize < np.dtype(np.float64).itemsize and array.size:
            bits = np.finfo(array.dtype).nmant + 1
            largest = np.abs(array[np.isfinite(array)]).max(initial=0.0)
            if canonical_column(name) in KEY_COLUMNS and float(largest) >= 2.0**bits:
                raise FormatError(
                    f"column {name!r} is {array.dtype} and holds values above 2^{bits}, which "
                    "that type cannot tell apart: store it as integers"
                )
        return array.astype(np.float64)
    if array.dtype.kind in "bU":
        return array
    raise FormatError(f"column {name!r} has the type {array.dtype}: numbers or strings are needed")


def _numbers(
    name: str, array: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    if array.dtype.kind not in "if":
        raise FormatError(
            f"column {name!r} holds {'strings' if array.dtype.kind == 'U' else array.dtype}, for "
            f"example {array[:1].tolist()}: numbers are needed"
        )
    array = np.where(missing, np.nan, array.astype(np.float64))
    if np.isinf(array).any():
        rows = name_some(np.flatnonzero(np.isinf(array)))
        raise FormatError(f"column {name!r} is infinite in rows {rows}")
    return array, missing | np.isnan(array)


def _whole_keys(
    name: str, array: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    if array.dtype.kind == "f":
        return whole_numbers(name, array, missing), missing
    if array.dtype.kind == "b" and canonical_column(name) != "label":
        return array.astype(np.int64), missing
    return array, missing


def whole_numbers(
    name: str, array: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    """Return numbers as int64; refuse fractions and what float64 cannot tell apart."""
    filled = np.where(missing, 0.0, array)
    bad = ~(np.abs(filled) < _FLOAT64_INTEGERS) | (filled != np.floor(filled))
    if bad.any():
        rows = np.flatnonzero(bad)
        raise FormatError(
            f"column {name!r} holds values that are not whole numbers in "
            f"{counted(len(rows), 'row')} (row {rows[0]}: {array[rows[0]]}): integers or strings "
            "are needed"
        )
    return filled.astype(np.int64)


def tight(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Store strings no wider than the longest, whatever they were cut out of."""
    return np.array(column.tolist(), dtype=np.str_) if column.dtype.kind == "U" else column


def _check_labels(
    name: str, array: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> None:
    if missing.any():
        rows = name_some(np.flatnonzero(missing))
        raise FormatError(
            f"column {name!r} has no value in {counted(missing.sum(), 'row')} (rows {rows}): every "
            "row needs a label; give junk a label of its own, such as -1"
        )
    if array.dtype.kind == "b":
        raise FormatError(f"column {name!r} holds booleans: integers or strings are needed")
