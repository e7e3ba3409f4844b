"""Samples: the validated metadata table of one side, query or gallery."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import AlignmentError, FormatError, name_some

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ALIASES", "KEY_COLUMNS", "NUMBER_COLUMNS", "Samples", "canonical_column"]

_VERSION = 1

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
    **dict.fromkeys(("utm_zone",), "zone"),
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


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Samples:
    """The metadata of one side, one row an image (or tracklet, caption, place).

    Parameters
    ----------
    table : pandas.DataFrame or mapping of str to array
        One entry a column. Columns with a meaning: ``id``, ``path``, ``label``,
        ``camera``, ``clothes``, ``modality``, ``sequence``, ``frame``, ``time``, ``lat``,
        ``lon`` (degrees), ``east``, ``north`` (metres), ``zone``, ``heading`` (degrees),
        ``group``. Usual other names (``pid``, ``camid``, ``utm_east`` ...) are mapped to
        these. Every other column is kept as it is.

    Raises
    ------
    FormatError
        If a label is missing, fractional or neither integer nor string; if a column and
        one of its aliases are both there; if a coordinate is infinite.
    AlignmentError
        If columns differ in length, or an id occurs twice.

    Examples
    --------
    >>> samples = Samples.from_columns(pid=[7, 7, 9], camid=[1, 2, 1])
    >>> len(samples), samples.column_names
    (3, ('camera', 'label'))
    >>> samples.values("label")
    array([7, 7, 9])
    """

    n: int
    _values: Mapping[str, npt.NDArray[Any]]
    _missing: Mapping[str, npt.NDArray[np.bool_]]

    def __init__(self, table: pd.DataFrame | Mapping[str, Any]) -> None:
        given: dict[str, Any] = {}
        for name in table.keys():  # noqa: SIM118 (a DataFrame)
            kept = canonical_column(str(name))
            if kept in given:
                raise FormatError(
                    f"column {kept!r} is given twice, as {str(given[kept])!r} and as "
                    f"{str(name)!r}: drop one"
                )
            given[kept] = name
        values: dict[str, npt.NDArray[Any]] = {}
        missing: dict[str, npt.NDArray[np.bool_]] = {}
        for kept, name in given.items():
            values[kept], missing[kept] = _read_column(kept, str(name), table[name])
        lengths = {name: len(column) for name, column in values.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name}: {size}" for name, size in lengths.items())
            raise AlignmentError(f"columns differ in length ({listed})")
        object.__setattr__(self, "n", next(iter(lengths.values()), 0))
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_missing", missing)
        self._check_ids()

    @classmethod
    def from_columns(cls, **columns: Any) -> Samples:
        """Make samples from one array (or list) a column."""
        return cls(columns)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Samples:
        """Read samples saved by :meth:`save`."""
        _, arrays = read_archive(path, kind="samples", version=_VERSION)
        values = {k.removeprefix("value:"): v for k, v in arrays.items() if k.startswith("value:")}
        missing = {name: np.zeros(len(column), bool) for name, column in values.items()}
        for key, array in arrays.items():
            if key.startswith("missing:"):
                missing[key.removeprefix("missing:")] = array
        return cls._of(values, missing)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one ``.npz`` file; the same samples give the same bytes."""
        arrays = {f"value:{name}": _tight(column) for name, column in self._values.items()}
        arrays |= {f"missing:{name}": mask for name, mask in self._missing.items() if mask.any()}
        write_archive(path, kind="samples", version=_VERSION, arrays=arrays)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Samples({self.n} rows; {', '.join(self.column_names)})"

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and canonical_column(name) in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self.column_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, sorted."""
        return tuple(sorted(self._values))

    def values(self, name: str) -> npt.NDArray[Any]:
        """Return a whole column as an array of length n; nothing in it may be missing.

        Raises
        ------
        FormatError
            If there is no such column, or a value in it is missing.
        """
        column = self._column(name)
        mask = self._missing[canonical_column(name)]
        if mask.any():
            rows = name_some(np.flatnonzero(mask))
            raise FormatError(
                f"column {name!r} has no value in {mask.sum()} of {self.n} rows (rows {rows}), "
                "but it is needed: fill it or drop these rows"
            )
        return column

    def keys(self, name: str) -> npt.NDArray[Any]:
        """Return a column to be compared for equality: int64 or strings, none missing.

        Raises
        ------
        FormatError
            As :meth:`values`, and if the column holds fractions.
        """
        column = self.values(name)
        if column.dtype.kind == "f":
            return _whole_numbers(name, column, np.zeros(self.n, bool))
        return column.astype(np.int64) if column.dtype.kind == "b" else column

    def missing(self, name: str) -> npt.NDArray[np.bool_]:
        """Return a mask of length n: True where a column has no value."""
        self._column(name)
        return self._missing[canonical_column(name)]

    @property
    def ids(self) -> npt.NDArray[Any] | None:
        """The given ids, an array of length n, or None if none were given."""
        return self._values.get("id")

    @property
    def table(self) -> pd.DataFrame:
        """A copy of everything as a DataFrame; missing values are None or NaN."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for name in self.column_names:
            column, mask = self._values[name], self._missing[name]
            columns[name] = column.astype(object) if mask.any() else column
            if mask.any():
                columns[name][mask] = None
        return pd.DataFrame(columns, index=range(self.n))

    def take(self, rows: npt.ArrayLike) -> Samples:
        """Return the samples at these rows (positions, or a mask of length n)."""
        wanted = np.asarray(rows)
        chosen = np.arange(self.n)[wanted if wanted.size else wanted.astype(np.int64)]
        chosen = np.atleast_1d(chosen)
        return self._of(
            {name: column[chosen] for name, column in self._values.items()},
            {name: mask[chosen] for name, mask in self._missing.items()},
            n=len(chosen),
        )

    def with_columns(self, **columns: Any) -> Samples:
        """Return samples with these columns added or replaced."""
        fresh = Samples(columns)
        if self._values and columns and fresh.n != self.n:
            raise AlignmentError(
                f"new columns have {fresh.n} rows, the samples {self.n}: they must be the same"
            )
        return self._of({**self._values, **fresh._values}, {**self._missing, **fresh._missing})

    def without(self, names: Iterable[str]) -> Samples:
        """Return samples without these columns."""
        drop = {canonical_column(name) for name in names}
        return self._of(
            {name: column for name, column in self._values.items() if name not in drop},
            {name: mask for name, mask in self._missing.items() if name not in drop},
            n=self.n,
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of the content, independent of the order of columns."""
        digest = hashlib.sha256()
        for name in self.column_names:
            column = self._values[name]
            digest.update(f"{name}\0{column.dtype.kind}\0{len(column)}\0".encode())
            if column.dtype.kind == "U":
                digest.update("\0".join(column.tolist()).encode("utf-8", "surrogatepass"))
            else:
                digest.update(np.ascontiguousarray(column).tobytes())
            digest.update(self._missing[name].tobytes())
        return digest.hexdigest()

    @classmethod
    def _of(
        cls,
        values: Mapping[str, npt.NDArray[Any]],
        missing: Mapping[str, npt.NDArray[np.bool_]],
        n: int = 0,
    ) -> Samples:
        made = object.__new__(cls)
        size = len(next(iter(values.values()))) if values else n
        for array in (*values.values(), *missing.values()):
            array.setflags(write=False)
        object.__setattr__(made, "n", size)
        object.__setattr__(made, "_values", dict(values))
        object.__setattr__(made, "_missing", dict(missing))
        made._check_ids()
        return made

    def _column(self, name: str) -> npt.NDArray[Any]:
        kept = canonical_column(name)
        if kept not in self._values:
            have = ", ".join(self.column_names) or "none"
            aliases = sorted(alias for alias, target in ALIASES.items() if target == kept)
            known = f" (also read under the names {', '.join(aliases)})" if aliases else ""
            raise FormatError(f"no column {name!r}{known}; the samples have: {have}")
        return self._values[kept]

    def _check_ids(self) -> None:
        ids = self._values.get("id")
        if ids is None:
            return
        if self._missing["id"].any():
            rows = name_some(np.flatnonzero(self._missing["id"]))
            raise FormatError(f"column 'id' has no value in rows {rows}: every row needs one")
        unique, counts = np.unique(ids, return_counts=True)
        if len(unique) < len(ids):
            twice = np.flatnonzero(counts > 1)
            places = np.flatnonzero(ids == unique[twice[0]])
            raise AlignmentError(
                f"{len(twice)} ids occur more than once on one side: "
                f"{name_some(unique[twice].tolist())} (the first in rows {name_some(places)}); "
                "ids must be unique within a side"
            )


def _read_column(
    kept: str, name: str, raw: Any
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
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
        return _whole_numbers(name, array, missing), missing
    if array.dtype.kind == "b" and canonical_column(name) != "label":
        return array.astype(np.int64), missing
    return array, missing


def _whole_numbers(
    name: str, array: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    filled = np.where(missing, 0.0, array)
    bad = ~(np.abs(filled) < _FLOAT64_INTEGERS) | (filled != np.floor(filled))
    if bad.any():
        rows = np.flatnonzero(bad)
        raise FormatError(
            f"column {name!r} holds values that are not whole numbers in {len(rows)} rows "
            f"(row {rows[0]}: {array[rows[0]]}): integers or strings are needed"
        )
    return filled.astype(np.int64)


def _tight(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Store strings no wider than the longest, whatever they were cut out of."""
    return np.array(column.tolist(), dtype=np.str_) if column.dtype.kind == "U" else column


def _check_labels(
    name: str, array: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> None:
    if missing.any():
        rows = name_some(np.flatnonzero(missing))
        raise FormatError(
            f"column {name!r} has no value in {missing.sum()} rows (rows {rows}): every row needs "
            "a label; give junk a label of its own, such as -1"
        )
    if array.dtype.kind == "b":
        raise FormatError(f"column {name!r} holds booleans: integers or strings are needed")
