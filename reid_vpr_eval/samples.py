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
from reid_vpr_eval.columns import (
    ALIASES,
    canonical_column,
    read_column,
    tight,
    whole_numbers,
)
from reid_vpr_eval.errors import AlignmentError, FormatError, counted, name_some

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Samples"]

_VERSION = 1


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
            values[kept], missing[kept] = read_column(kept, str(name), table[name])
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
        arrays = {f"value:{name}": tight(column) for name, column in self._values.items()}
        arrays |= {f"missing:{name}": mask for name, mask in self._missing.items() if mask.any()}
        write_archive(path, kind="samples", version=_VERSION, arrays=arrays)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Samples({counted(self.n, 'row')}; {', '.join(self.column_names)})"

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
                f"column {name!r} has no value in {mask.sum()} of {counted(self.n, 'row')} (rows "
                f"{rows}), but it is needed: fill it or drop these rows"
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
            return whole_numbers(name, column, np.zeros(self.n, bool))
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
    def is_in_order(self) -> bool:
        """Whether rows stand in the order of their ids; true where they have none."""
        return self.ids is None or not (self.ids[1:] < self.ids[:-1]).any()

    @property
    def names(self) -> npt.NDArray[Any] | None:
        """What rows are called in tables: their ids, else their paths if these are unique."""
        paths = self._values.get("path")
        if self.ids is not None or paths is None or self._missing["path"].any():
            return self.ids
        return paths if len(np.unique(paths)) == self.n else None

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
                f"new columns have {counted(fresh.n, 'row')}, the samples {self.n}: they must be "
                "the same"
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

    def fingerprint(self, *, ordered: bool = True) -> str:
        """Return the SHA-256 of the content, independent of the order of columns.

        With `ordered` false it is independent of the order of rows too, where rows have ids
        to be told apart by.

        >>> one = Samples.from_columns(id=["a", "b"], label=[1, 2])
        >>> one.fingerprint() == one.take([1, 0]).fingerprint()
        False
        >>> one.fingerprint(ordered=False) == one.take([1, 0]).fingerprint(ordered=False)
        True
        """
        if not ordered and not self.is_in_order and self.ids is not None:
            return self.take(np.argsort(self.ids)).fingerprint()
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
        ordered = np.sort(ids)
        again = ordered[1:] == ordered[:-1]
        if again.any():
            twice = np.unique(ordered[1:][again])
            places = np.flatnonzero(ids == twice[0])
            raise AlignmentError(
                f"{counted(len(twice), 'id occurs', 'ids occur')} more than once on one side: "
                f"{name_some(twice.tolist())} (the first in rows {name_some(places)}); "
                "ids must be unique within a side"
            )
