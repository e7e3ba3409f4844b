"""Doing a task: here, slice by slice with what is finished kept on disk, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np

from reid_vpr_eval.archive import canonical_json
from reid_vpr_eval.errors import AlignmentError, FormatError
from reid_vpr_eval.ranking.counts import Counts
from reid_vpr_eval.ranking.ranking import Ranking
from reid_vpr_eval.ranking.work import Part, Task

__all__ = ["count", "slices_of"]

Progress = Callable[[int, int], None]

#: Multiplications of a slice: about half a minute of two cores.
_WORK_OF_SLICE = 4e12
_SMALLEST_SLICE = 4096


def count(
    task: Task,
    part: Part,
    *,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Ranking:
    """Do both phases of a task for a slice of the gallery, in this process."""
    task = task.scored()
    if checkpoint is not None:
        return task.ranking(_with_checkpoint(task, part, Path(checkpoint), progress))
    return task.ranking(task.count(part, _stepper(task.n_jobs(part), progress)))


def slices_of(task: Task, part: Part, at_least: int = 1) -> list[Part]:
    """Cut a slice of the gallery into pieces of about equal work."""
    rows = part[1] - part[0]
    work = float(task.scores.n_query) * getattr(task.scores, "dim", 1) * rows
    pieces = max(at_least, int(min(-(-work // _WORK_OF_SLICE), rows // _SMALLEST_SLICE)), 1)
    edges = np.linspace(*part, min(pieces, rows) + 1).astype(int).tolist()
    return list(pairwise(edges))


def _stepper(total: int, progress: Progress | None) -> Callable[[], None]:
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return step


def _with_checkpoint(
    task: Task, part: Part, folder: Path, progress: Progress | None
) -> Counts:
    """Count slice by slice; each is saved when it is finished, and not counted again."""
    identity = _identity(task)
    folder.mkdir(parents=True, exist_ok=True)
    kept: list[Counts] = []
    for path in sorted(folder.glob("*.npz")):
        found, counts = Counts.load(path)
        if found != identity:
            raise AlignmentError(
                f"{path}: was counted for another run (other features, relevance or options): "
                "give each run a folder of its own, or delete this one"
            )
        kept.append(counts)
    slices = [piece for gap in _gaps(part, kept, folder) for piece in slices_of(task, gap)]
    step = _stepper(sum(task.n_jobs(piece) for piece in slices), progress)
    for start, stop in slices:
        counts = task.count((start, stop), step)
        counts.save(folder / f"rows-{start:010d}-{stop:010d}.npz", identity)
        kept.append(counts)
    total = Counts.total(sorted(kept, key=lambda counts: int(counts.slices[0, 0])))
    return replace(total, slices=np.array([part], np.int64))


def _gaps(part: Part, kept: list[Counts], folder: Path) -> list[Part]:
    """Return what no slice covers."""
    gaps, position = [], part[0]
    for start, stop in sorted((int(a), int(b)) for counts in kept for a, b in counts.slices):
        if start < position or stop > part[1]:
            raise FormatError(
                f"{folder}: holds the gallery rows {start}:{stop}, which overlap other slices or "
                f"lie outside {part[0]}:{part[1]}: delete this folder and count again"
            )
        if start > position:
            gaps.append((position, start))
        position = stop
    if position < part[1]:
        gaps.append((position, part[1]))
    return gaps


def _identity(task: Task) -> str:
    """Return a hash of all that decides what is counted."""
    codes = "" if task.codes is None else sha256(task.codes.tobytes()).hexdigest()
    kept = sha256(np.packbits(task.layout.kept).tobytes()).hexdigest()
    return sha256(
        canonical_json([
            task.fingerprint, task.scores.fingerprint(), task.keep, task.top_k, task.pairs_kept,
            codes, kept,
        ]).encode()
    ).hexdigest()  # fmt: skip
