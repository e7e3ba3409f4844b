"""Pools of distractors as files hold them: vectors with or without samples, or images."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reid_vpr_eval.alignment import side_spec
from reid_vpr_eval.checks.leaks import codes_of
from reid_vpr_eval.errors import AlignmentError, EvaluationWarning, ScoreError
from reid_vpr_eval.formats import SideSpec, read_features, read_side
from reid_vpr_eval.formats.registry import find_reader
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.runs import Inputs, Progress, encode_side
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, Vectors
from reid_vpr_eval.scores.files import SUFFIXES

__all__ = ["Pool", "read_pool", "warn_of_repeats"]


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Distractors: vectors in memory or in files, one part after the other.

    `samples` are those of all rows, None where a part has none; `names` says where each part
    was read.
    """

    vectors: tuple[Vectors, ...]
    samples: Samples | None
    names: tuple[str, ...]

    @property
    def n(self) -> int:
        """How many rows there are."""
        return sum(len(part) for part in self.vectors)

    def after(self, gallery: Samples) -> Samples:
        """Return the samples of the gallery, and then those of the pool, in their columns."""
        assert self.samples is not None  # noqa: S101 (asked by the caller)
        shared = [name for name in gallery.column_names
                  if name != "id" and name in self.samples.column_names]  # fmt: skip
        columns: dict[str, Any] = {}
        for name in shared:
            ours, theirs = gallery.values(name), self.samples.values(name)
            if (ours.dtype.kind == "U") != (theirs.dtype.kind == "U"):
                raise AlignmentError(
                    f"the column {name!r} holds strings on one side, the gallery or the "
                    "distractors, and numbers on the other"
                )
            columns[name] = np.concatenate([ours, theirs])
        if gallery.ids is not None:
            ids = gallery.ids
            text = ids.dtype.kind == "U"
            first = 0 if text else int(ids.max(initial=0)) + 1
            own = np.arange(first, first + self.n)
            columns["id"] = np.concatenate(
                [ids, np.array([f"distractor row {row}" for row in own.tolist()]) if text else own]
            )
        return Samples(columns)


def read_pool(
    named: Sequence[str],
    protocol: Protocol,
    scores: Embeddings,
    inputs: Inputs,
    progress: Progress | None = None,
) -> Pool:
    """Read pools of distractors; vectors in large or several files are not loaded.

    Raises
    ------
    ScoreError, FormatError, AlignmentError
        If a pool is empty, holds no vectors, or vectors of another length than the gallery.
    """
    spec = replace(side_spec(protocol, "gallery"), where={}, folder=None)
    vectors, samples = [], []
    for name in named:
        part, table = _read(name, spec, inputs, progress)
        if not len(part):
            raise ScoreError(f"{name}: the pool is empty, there is no distractor to draw")
        if part.shape[1] != scores.dim:
            raise AlignmentError(
                f"{name}: distractors of {part.shape[1]} numbers, but the gallery has {scores.dim}"
            )
        vectors.append(part)
        samples.append(table)
    return Pool(tuple(vectors), _one_table(samples), tuple(map(str, named)))


def _read(
    name: str, spec: SideSpec, inputs: Inputs, progress: Progress | None
) -> tuple[Vectors, Samples | None]:
    path = Path(name).expanduser()
    if path.is_file() and path.suffix.lower() not in SUFFIXES:
        content = find_reader(path).read(path, "gallery", spec)
        if content.columns:
            side = read_side(path, spec, "gallery")
            if side.features is None:
                raise ScoreError(f"{path}: holds samples but no features of distractors")
            return side.features, side.samples
    elif path.is_dir() and not any(child.suffix.lower() in SUFFIXES for child in path.iterdir()):
        side = read_side(path, spec, "gallery")
        if side.root is None:
            raise ScoreError(f"{path}: holds neither vectors nor images of distractors")
        step = None if progress is None else functools.partial(progress, "encoding distractors")
        found = encode_side(side, inputs.encoder, cache=inputs.cache, progress=step)
        return found, side.samples
    return read_features(name, side="gallery"), None


def _one_table(tables: Sequence[Samples | None]) -> Samples | None:
    """Put tables below one another in their shared columns; None if a part has none."""
    if not tables or any(table is None for table in tables):
        return None
    known = [table for table in tables if table is not None]
    shared = [name for name in known[0].column_names if name != "id"
              and all(name in table.column_names for table in known)]  # fmt: skip
    if not shared:
        return None
    return Samples({name: np.concatenate([table.values(name) for table in known])
                    for name in shared})  # fmt: skip


def warn_of_repeats(gallery: Vectors, pool: Pool) -> None:
    """Say how many distractors are vectors of the gallery, bit by bit; files are read in blocks."""
    alike = [part for part in pool.vectors if part.dtype == gallery.dtype]
    if not alike:
        return
    ours, *parts = codes_of(gallery, *alike)
    theirs = np.concatenate(parts)
    repeats = np.flatnonzero(np.isin(theirs, ours))
    if len(repeats):
        row = int(np.flatnonzero(ours == theirs[repeats[0]])[0])
        warnings.warn(
            f"{len(repeats)} of {len(theirs)} distractors are vectors of the gallery, number by "
            f"number (the first: pool row {int(repeats[0])} and gallery row {row}): an item that "
            "is in the gallery already is no distractor",
            EvaluationWarning,
            stacklevel=3,
        )
