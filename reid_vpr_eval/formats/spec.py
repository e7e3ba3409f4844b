"""What a protocol says of one side, and how it is applied to that side's samples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.columns import canonical_column
from reid_vpr_eval.errors import FormatError, ProtocolError, name_some
from reid_vpr_eval.formats.names import check_names, compile_grammar, parse_names
from reid_vpr_eval.samples import Samples

__all__ = ["SideSpec", "apply_spec", "without_overruled"]

_KINDS = {"i": "integers", "U": "strings", "f": "numbers", "b": "booleans"}
_INTEGER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSpec:
    """Where one side's samples are and what their columns mean.

    Parameters
    ----------
    folder : str, optional
        The side's folder below the data set's.
    names : str, optional
        A named grammar or a regular expression that reads the names of the images.
    columns : mapping of str to str
        A column with a meaning, and the column of the source that it is.
    where : mapping of str to a value or a list of values
        Only rows with one of these values are kept.
    aliases : mapping of str to mapping
        For a column, values that stand for other values.
    """

    folder: str | None = None
    names: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)


def apply_spec(
    samples: Samples, spec: SideSpec, *, side: Literal["query", "gallery"]
) -> tuple[Samples, npt.NDArray[np.int64]]:
    """Apply a side's spec to samples: names, columns, where, aliases, in this order.

    Names are read from the column ``path`` where the samples lack what the grammar gives;
    columns that are there are never overwritten by it, and samples whose every path is of
    another form are left as they are. ``where`` sees the values before ``aliases``. Ids need
    to be unique only among the rows that are kept.

    Returns
    -------
    samples, rows : Samples and array of int64
        The rows that are kept, and their positions in the samples that were given.

    Raises
    ------
    FormatError
        If a named column is absent, or no row is left.
    ProtocolError
        If a value is of another kind than its column.

    Examples
    --------
    >>> samples = Samples.from_columns(floor=["a", "b"])
    >>> kept, rows = apply_spec(samples, SideSpec(where={"floor": "b"}), side="query")
    >>> kept.values("floor").tolist(), rows.tolist()
    (['b'], [1])
    """
    late = {to: source for to, source in spec.columns.items() if canonical_column(to) == "id"}
    early = {to: source for to, source in spec.columns.items() if to not in late}
    full = _with_columns(_with_names(samples, spec), early, side)
    keep = _matching(full, spec.where, side)
    rows = np.flatnonzero(keep).astype(np.int64)
    if not len(rows):
        raise FormatError(_nothing_left(full, spec.where, side))
    kept = _with_columns(full if len(rows) == full.n else full.take(rows), late, side)
    for column, mapping in spec.aliases.items():
        kept = _with_alias(kept, column, mapping, side)
    return kept, rows


def without_overruled(columns: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """Leave out columns that a mapping replaces, so that ``label = "pid"`` settles which counts."""
    sources = set(mapping.values())
    replaced = {canonical_column(target) for target, source in mapping.items() if source in columns}
    return {
        name: values
        for name, values in columns.items()
        if name in sources or canonical_column(name) not in replaced
    }


def _with_names(samples: Samples, spec: SideSpec) -> Samples:
    if spec.names is None:
        return samples
    grammar = compile_grammar(spec.names)
    have = {*samples.column_names, *map(canonical_column, spec.columns)}
    if "path" not in samples or all(canonical_column(name) in have for name in grammar.columns):
        return samples
    paths = [str(path) for path in samples.values("path")]
    columns, unmatched = parse_names(paths, spec.names)
    if len(unmatched) == samples.n:
        return samples
    check_names(paths, unmatched, spec.names)
    fresh = {name: col for name, col in columns.items() if canonical_column(name) not in have}
    return samples.with_columns(**fresh)


def _with_columns(samples: Samples, mapping: Mapping[str, str], side: str) -> Samples:
    fresh: dict[str, Any] = {}
    for target, source in mapping.items():
        _need(samples, source, f"columns = {{{target} = {source!r}}}", side)
        if samples.missing(source).any():
            fresh[target] = samples.table[canonical_column(source)].tolist()
        else:
            fresh[target] = samples.values(source)
    return samples.with_columns(**fresh) if fresh else samples


def _need(samples: Samples, column: str, wanted_by: str, side: str) -> None:
    if column not in samples:
        have = ", ".join(samples.column_names) or "none"
        raise FormatError(
            f"{side}: {wanted_by} needs the column {column!r}, which is not there; columns: {have}"
        )


def _present(samples: Samples, column: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    lost = samples.missing(column)
    rows = np.flatnonzero(~lost)
    return (samples.take(rows) if lost.any() else samples).values(column), rows


def _matching(samples: Samples, where: Mapping[str, Any], side: str) -> npt.NDArray[np.bool_]:
    keep = np.ones(samples.n, bool)
    for column, wanted in where.items():
        _need(samples, column, f"where = {{{column} = ...}}", side)
        choices = list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        values, rows = _present(samples, column)
        for choice in choices:
            _check_kind(column, values, choice, side)
        hit = np.zeros(samples.n, bool)
        hit[rows] = np.isin(values, np.array(choices)) if choices else False
        keep &= hit
    return keep


def _check_kind(column: str, values: npt.NDArray[Any], choice: object, side: str) -> None:
    kind = values.dtype.kind
    if isinstance(choice, bool):
        fits = kind == "b"
    elif isinstance(choice, int | np.integer):
        fits = kind in "if"
    elif isinstance(choice, float | np.floating):
        fits = kind == "f"
    else:
        fits = isinstance(choice, str) and kind == "U"
    if not fits and len(values):
        raise ProtocolError(
            f"{side}: where = {{{column} = {choice!r}}}, but the column {column!r} holds "
            f"{_KINDS[kind]}, for example {values[0].item()!r}; write the value as the column has "
            "it"
        )


def _nothing_left(samples: Samples, where: Mapping[str, Any], side: str) -> str:
    if not where:
        return f"{side}: there are no rows"
    seen = "; ".join(
        f"{column}: {name_some(np.unique(_present(samples, column)[0]).tolist(), limit=10)}"
        for column in where
    )
    asked = ", ".join(f"{column} = {value!r}" for column, value in where.items())
    return f"{side}: no row of {samples.n} has {asked}; the values that occur are {seen}"


def _with_alias(samples: Samples, column: str, mapping: Mapping[Any, Any], side: str) -> Samples:
    _need(samples, column, f"aliases = {{{column} = ...}}", side)
    values, rows = _present(samples, column)
    changes = {_as_kind(column, values, key, side): value for key, value in mapping.items()}
    unique, inverse = np.unique(values, return_inverse=True)
    if not any(value in changes for value in unique.tolist()):
        return samples
    new = [changes.get(value, value) for value in unique.tolist()]
    full: list[Any] = [None] * samples.n
    for row, index in zip(rows.tolist(), inverse.tolist(), strict=True):
        full[row] = new[index]
    return samples.with_columns(**{column: full})


def _as_kind(column: str, values: npt.NDArray[Any], key: Any, side: str) -> Any:
    """Read a key of an alias, which TOML writes as text, as the column's own kind."""
    kind = values.dtype.kind
    if kind == "i" and isinstance(key, str) and _INTEGER.fullmatch(key):
        return int(key)
    if kind == "i" and isinstance(key, int | np.integer) and not isinstance(key, bool):
        return int(key)
    if (kind == "U" and isinstance(key, str)) or not len(values):
        return key
    raise ProtocolError(
        f"{side}: aliases = {{{column} = {{{key!r} = ...}}}}, but the column {column!r} holds "
        f"{_KINDS[kind]}, for example {values[0].item()!r}; only integers and strings have "
        "aliases, written as the column has them"
    )
