"""Pools of distractors as files hold them: vectors with or without samples, or images."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from reid_vpr_eval.alignment import side_spec
from reid_vpr_eval.checks.leaks import codes_of
from reid_vpr_eval.errors import (
    AlignmentError,
    EvaluationWarning,
    ReidVprEvalError,
    ScoreError,
    counted,
)
from reid_vpr_eval.formats import SideSpec, read_features, read_side
from reid_vpr_eval.formats.registry import find_reader
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE
from reid_vpr_eval.rules import judge
from reid_vpr_eval.runs import Inputs, Progress, encode_side
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, Shards, Vectors
from reid_vpr_eval.scores.files import SUFFIXES
from reid_vpr_eval.studies.distractors.pairs import PoolPositives

__all__ = ["Pool", "joined", "read_pool", "warn_of_repeats", "with_pool"]


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
                f"{name}: distractors of {counted(part.shape[1], 'number')}, but the gallery has "
                f"{scores.dim}"
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
        of = f"of {counted(len(theirs), 'distractor')}"
        warnings.warn(
            f"{counted(len(repeats), f'{of} is a vector', f'{of} are vectors')} of the gallery, "
            f"number by number (the first: pool row {int(repeats[0])} and gallery row {row}): an "
            "item that is in the gallery already is no distractor",
            EvaluationWarning,
            stacklevel=3,
        )


def with_pool(
    protocol: Protocol,
    query: Samples,
    gallery: Samples,
    relevance: Relevance,
    pool: Pool,
    inputs: Inputs,
    pool_positives: PoolPositives,
) -> Relevance:
    """Return the relevance of gallery and pool together.

    With samples the protocol's rule judges the pool too; without, its rows are negatives.

    Raises
    ------
    AlignmentError
        If rows of the pool are right answers, unless it is said what they are.
    """
    whole = None
    if pool.samples is not None:
        try:
            whole = judge(protocol, query, pool.after(gallery), truth=inputs.truth)
        except ReidVprEvalError as error:
            if relevance.wide is not None or pool_positives != "error":
                raise
            _check_labels(query, pool)
            warnings.warn(
                f"the rule does not fit the samples of the distractors ({error}): they are taken "
                "as negatives of every query",
                EvaluationWarning,
                stacklevel=3,
            )
    if whole is None:
        if relevance.wide is not None:
            raise AlignmentError(
                f"{protocol.name} ignores parts of the gallery by columns of it, and the "
                "distractors have none: give them with samples"
            )
        junk = np.concatenate([relevance.ignored_gallery, np.zeros(pool.n, bool)])
        return replace(relevance, n_gallery=gallery.n + pool.n, ignored_gallery=junk)
    inside = (whole.item >= gallery.n) & (whole.role == POSITIVE)
    if inside.any() and pool_positives == "error":
        first = int(np.flatnonzero(inside)[0])
        asking = int(whole.query_of_pair()[first])
        of_pool = np.unique(whole.item[inside])
        a, are = "of the pool is a", "of the pool are"
        raise AlignmentError(
            f"{counted(len(of_pool), f'row {a} right answer', f'rows {are} right answers')} "
            f"to queries (the first: pool row {int(whole.item[first]) - gallery.n} for query "
            f"{asking}{_label_of(query, asking)}), so they are no distractors: take them out, or "
            "say what they are, --pool-positives keep (positives that are in the gallery at every "
            "size) or ignore"
        )
    if pool_positives == "ignore":
        whole = replace(whole, role=np.where(inside, IGNORED, whole.role).astype(np.int8))
    return whole


def _label_of(query: Samples, row: int) -> str:
    return f" of label {query.values('label')[row]}" if "label" in query else ""


def _check_labels(query: Samples, pool: Pool) -> None:
    """Refuse pool items that carry a query's label, where labels are all that is known."""
    samples = pool.samples
    if samples is None or "label" not in samples or "label" not in query:
        return
    shared = np.flatnonzero(np.isin(samples.values("label"), query.values("label")))
    if len(shared):
        raise AlignmentError(
            f"{counted(len(shared), 'row of the pool carries', 'rows of the pool carry')} the "
            f"label of a query (the first: pool row {int(shared[0])}, label "
            f"{samples.values('label')[shared[0]]}), so they are no distractors: take them out"
        )


@contextmanager
def joined(scores: Embeddings, pool: Pool) -> Iterator[Embeddings]:
    """Give the gallery and the pool as one: in memory, or as files that are read in blocks."""
    gallery: Vectors = scores.gallery
    parts = [gallery, *pool.vectors]
    if not any(isinstance(part, Shards) for part in parts):
        yield Embeddings(scores.query, np.concatenate(parts), scores.metric)
        return
    kind = next(part.dtype for part in parts if isinstance(part, Shards))
    with TemporaryDirectory(prefix="rve-sweep-") as folder:
        files: list[str] = []
        for number, part in enumerate(parts):
            if isinstance(part, Shards) and _whole(part):
                files += [file.path for file in part.files]
                continue
            path = Path(folder) / f"part{number}.npy"
            block = part[:] if isinstance(part, Shards) else part
            if not np.can_cast(block.dtype, kind, "same_kind") or block.dtype.itemsize > (
                kind.itemsize
            ):
                raise AlignmentError(
                    f"the files of the pool hold {kind}, other vectors {block.dtype}: store both "
                    "in one type"
                )
            np.save(path, block.astype(kind, copy=False))
            files.append(str(path))
        yield Embeddings(scores.query, Shards(files), scores.metric)


def _whole(shards: Shards) -> bool:
    """Tell whether these are all rows of their files, as they are."""
    same_type = all(file.dtype == shards.dtype for file in shards.files)
    return same_type and len(shards) == sum(file.rows for file in shards.files)
