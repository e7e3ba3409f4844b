"""Both sides of an evaluation as they are named on a command line, with the ids of their rows.

Equal ids on both sides mean one item. Ids that the source has are kept. Else:

- images in folders and zips: the path below the deepest folder that holds both sides;
- names in lists: likewise where the listed images exist. Where they do not: the name,
  if one list is given for both sides, or if every name has a folder part and none of
  these folders is in both lists. Otherwise no ids, as equal bare names can be two items;
- one table for both sides: row positions, counted before ``where``. A file that holds
  both sides apart is two tables;
- two tables: no ids.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.columns import canonical_column
from reid_vpr_eval.errors import AlignmentError, FormatError, counted

# The readers register themselves when they are imported.
from reid_vpr_eval.formats import arrays, hdf5, images, lists, matlab, tables  # noqa: F401
from reid_vpr_eval.formats.features import read_features
from reid_vpr_eval.formats.images import plain_name
from reid_vpr_eval.formats.registry import Content, SideName, existing, find_reader, located
from reid_vpr_eval.formats.spec import SideSpec, apply_spec, without_overruled
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores.shards import Vectors, rows_of

__all__ = ["Side", "read_side", "read_sides"]

#: Where ids wait that are unique only within the rows that a side keeps.
_SET_ASIDE = "ids of the source"

Source: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side as it was read.

    Parameters
    ----------
    samples : Samples
        The metadata.
    features : array (n, d), Shards or None
        Row i belongs to sample i; None if the source has none.
    source : Path
        The file or folder that was named.
    root : Path or None
        The folder or zip that the column ``path`` is relative to; None if there are no
        images.
    row_ids : bool
        True if the source has no ids: then they are row positions where both sides are
        one table, and absent otherwise.
    """

    samples: Samples
    features: Vectors | None
    source: Path
    root: Path | None
    row_ids: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Loaded:
    """A source before the spec is applied: all of its rows."""

    source: Path
    spec: SideSpec
    content: Content
    samples: Samples
    row_ids: bool


def read_side(source: Source, spec: SideSpec, side: SideName) -> Side:
    """Read one side alone.

    Files get no ids here, since a file's id depends on where the other side is: use
    :func:`read_sides` for both.

    Parameters
    ----------
    source : path
        A table, a file with samples and features, a folder or zip of images, or a list.
    spec : SideSpec
        What the protocol says of this side.
    side : {"query", "gallery"}
        Chooses the arrays of a file that holds both, and is named in errors.
    """
    return _finish(_load(source, spec, side), side, None)


def read_sides(
    query: Source,
    gallery: Source,
    *,
    query_spec: SideSpec,
    gallery_spec: SideSpec,
    query_features: Source | None = None,
    gallery_features: Source | None = None,
) -> tuple[Side, Side]:
    """Read both sides, and give their rows ids, as the top of this module says.

    Parameters
    ----------
    query, gallery : path
        Where the samples come from; one file may be named for both.
    query_spec, gallery_spec : SideSpec
        What the protocol says of each side.
    query_features, gallery_features : path, optional
        Features in files of their own (several files: a folder, a pattern, or paths with
        commas between them): a row for every sample, or for every sample that
        ``where`` keeps.

    Raises
    ------
    InputNotFoundError
        If a source does not exist.
    FormatError
        If it cannot be read.
    AlignmentError
        If features and samples differ in number.
    """
    first = _load(query, query_spec, "query")
    second = _load_other(first, gallery, gallery_spec)
    first, second = _with_ids(first, second)
    return (
        _finish(first, "query", query_features, other=second.samples.n),
        _finish(second, "gallery", gallery_features, other=first.samples.n),
    )


def _load(source: Source, spec: SideSpec, side: SideName) -> _Loaded:
    path = existing(Path(source).expanduser(), f"{side} samples")
    with located(path):
        content = find_reader(path).read(path, side, spec)
        if not content.columns:
            raise FormatError(
                f"{path}: holds features but no samples; give it as the {side} features "
                f"(--{side}-features), and name a table, list or folder with the samples as the "
                f"{side}"
            )
    return _loaded(path, content, spec)


def _load_other(first: _Loaded, source: Source, spec: SideSpec) -> _Loaded:
    """Load the gallery, or take over what was read for the query if it is the same."""
    path = Path(source).expanduser()
    same = path.resolve() == first.source.resolve() and not first.content.sided
    if same and (spec.names, spec.folder) == (first.spec.names, first.spec.folder):
        return _loaded(path, first.content, spec)
    return _load(source, spec, "gallery")


def _loaded(path: Path, content: Content, spec: SideSpec) -> _Loaded:
    with located(path):
        samples, spec = _samples(content, spec)
    if content.root is None and "path" in samples and not samples.missing("path")[:1].any():
        given = path.parent / str(samples.take([0]).values("path")[0])
        content = replace(content, root=path.parent if given.is_file() else None)
    row_ids = content.origin == "table" and not _has_ids(samples, spec)
    return _Loaded(path, spec, content, samples, row_ids)


def _samples(content: Content, spec: SideSpec) -> tuple[Samples, SideSpec]:
    """Make samples of all rows; ids that repeat are set aside until `where` has chosen rows."""
    columns = without_overruled(content.columns, spec.columns)
    mapped = any(canonical_column(target) == "id" for target in spec.columns)
    if "id" in columns and spec.where and not mapped:
        ids = np.asarray(columns["id"]).astype(np.str_)
        if len(np.unique(ids)) < len(ids):
            columns[_SET_ASIDE] = columns.pop("id")
            spec = replace(spec, columns={**spec.columns, "id": _SET_ASIDE})
    return Samples(columns), spec


def _has_ids(samples: Samples, spec: SideSpec) -> bool:
    return "id" in samples or any(canonical_column(target) == "id" for target in spec.columns)


def _with_ids(first: _Loaded, second: _Loaded) -> tuple[_Loaded, _Loaded]:
    if any(_has_ids(one.samples, one.spec) for one in (first, second)):
        return first, second
    one_source = first.source.resolve() == second.source.resolve()
    both = (first, second)
    if all(one.content.origin != "table" and one.content.root is not None for one in both):
        return _named(first, _file_ids(*both)), _named(second, _file_ids(second, first))
    if all(one.content.origin == "list" for one in both):
        if one_source or _folders_differ(_paths(first), _paths(second)):
            return _named(first, _paths(first)), _named(second, _paths(second))
    elif one_source and not first.content.sided:
        rows = np.arange(first.samples.n)
        return _named(first, rows), _named(second, rows)
    return replace(first, row_ids=True), replace(second, row_ids=True)


def _named(loaded: _Loaded, ids: Any) -> _Loaded:
    return replace(loaded, samples=loaded.samples.with_columns(id=ids))


def _paths(loaded: _Loaded) -> list[str]:
    return [str(path) for path in loaded.samples.values("path")]


def _file_ids(loaded: _Loaded, other: _Loaded) -> list[str]:
    roots = [Path(str(one.content.root)).resolve() for one in (loaded, other)]
    try:
        common = Path(os.path.commonpath(roots))
    except ValueError:  # two drives
        common = Path(roots[0].anchor)
    prefix = roots[0].relative_to(common).as_posix()
    return [plain_name(f"{prefix}/{path}") for path in _paths(loaded)]


def _folders_differ(names: Sequence[str], others: Sequence[str]) -> bool:
    folders = [{name.rpartition("/")[0] for name in side} for side in (names, others)]
    return "" not in folders[0] | folders[1] and not folders[0] & folders[1]


def _finish(
    loaded: _Loaded, side: SideName, features_path: Source | None, *, other: int = -1
) -> Side:
    """Return a side with its features; `other` is how many samples the other side has."""
    with located(loaded.source):
        samples, rows = apply_spec(loaded.samples, loaded.spec, side=side)
    features: Vectors | None = loaded.content.features
    where = loaded.source
    if features_path is not None:
        where = Path(features_path).expanduser()
        features = read_features(where, side=side)
    if features is not None:
        features = _rows_of(features, rows, loaded, where, side, other)
    samples = samples.without([_SET_ASIDE])
    return Side(samples, features, loaded.source, loaded.content.root, loaded.row_ids)


def _rows_of(
    features: Vectors,
    rows: npt.NDArray[np.int64],
    loaded: _Loaded,
    where: Path,
    side: SideName,
    other: int,
) -> Vectors:
    n_all, n_kept = loaded.samples.n, len(rows)
    if len(features) == n_kept:
        return features
    if len(features) == n_all:
        return rows_of(features, rows)
    kept = f" ({n_kept} of them kept by 'where')" if n_kept != n_all else ""
    hint = ""
    if len(features) == other:
        hint = " (the other side has as many samples: are the two sides exchanged?)"
    raise AlignmentError(
        f"{where}: {counted(len(features), 'feature vector')}, but {loaded.source} has {n_all} "
        f"{side} samples{kept}; there must be one vector a sample, in the same order{hint}"
    )
