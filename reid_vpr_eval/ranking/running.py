"""Doing a task: phase 1, then phase 2 at once or slice by slice, here or by a crew elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.checkpoint import Checkpoint
from reid_vpr_eval.ranking.counts import Counts
from reid_vpr_eval.ranking.ranking import Ranking
from reid_vpr_eval.ranking.work import Part, Task

__all__ = ["Crew", "Here", "Progress", "Steps", "count", "gathered", "pieces_of", "slices_of"]

Floats: TypeAlias = npt.NDArray[np.float64]
Progress: TypeAlias = Callable[[int, int], None]

#: Multiplications of a slice: a few seconds of two cores.
_WORK_OF_SLICE = 4e11
_SMALLEST_SLICE = 4096
#: Numbers of the judged pairs that are scored between two calls of `progress`.
_WORK_OF_PIECE = 1 << 30
_MOST_PIECES = 100


class Steps:
    """Counts steps and reports them."""

    def __init__(self, total: int, progress: Progress | None, done: int = 0) -> None:
        self._total, self._done, self._progress = total, 0, progress
        if done:
            self(done)

    def __call__(self, steps: int = 1) -> None:
        """Report that so many more steps are done."""
        self._done += steps
        if self._progress is not None:
            self._progress(self._done, self._total)


class Crew(Protocol):
    """Who does the work of a task.

    Attributes
    ----------
    at_least : int
        How many slices keep everyone busy.
    """

    at_least: int

    def for_pass(self, rows: slice | None) -> Crew:
        """Take up the tasks of a block of queries; None for all."""
        ...

    def judged_scores(self, task: Task, progress: Progress | None) -> Floats:
        """Return the canonical score of each judged pair."""
        ...

    def each(self, task: Task, slices: Sequence[Part], step: Steps) -> Iterator[Counts]:
        """Count slices of a scored task; yield the counts of each when it is finished."""
        ...

    def total(self, task: Task, part: Part, progress: Progress | None) -> Counts:
        """Count a slice of a scored task in the fastest way."""
        ...


class Here:
    """The threads of this process."""

    at_least = 1

    def for_pass(self, rows: slice | None) -> Here:  # noqa: ARG002 (nothing is kept for it)
        """Take up the tasks of a block of queries."""
        return self

    def judged_scores(self, task: Task, progress: Progress | None) -> Floats:
        """Return the canonical score of each judged pair."""
        if progress is None:
            return task.judged_scores()
        numbers = len(task.judged.item) * getattr(task.scores, "dim", 1)
        pieces = pieces_of(task, min(-(-numbers // _WORK_OF_PIECE), _MOST_PIECES))
        found = ((piece, task.judged_scores(piece)) for piece in pieces)
        return gathered(task, found, Steps(len(pieces), progress))

    def each(self, task: Task, slices: Sequence[Part], step: Steps) -> Iterator[Counts]:
        """Count one slice after the other."""
        return (task.count(part, step) for part in slices)

    def total(self, task: Task, part: Part, progress: Progress | None) -> Counts:
        """Count a slice at once."""
        return task.count(part, Steps(task.n_jobs(part), progress))


def count(
    task: Task,
    part: Part,
    *,
    crew: Crew,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    progress_pairs: Progress | None = None,
) -> Ranking:
    """Do both phases of a task for a slice of the gallery."""
    lists = task.source is None
    task = task.scored(None if lists else crew.judged_scores(task, progress_pairs))
    if checkpoint is None:
        return task.ranking(_as_one(crew.total(task, part, progress), part))
    with Checkpoint(checkpoint, task, part) as kept:
        finished = kept.finished()
        slices = [piece for gap in kept.gaps() for piece in slices_of(task, gap, crew.at_least)]
        done, left = (sum(map(task.n_jobs, parts)) for parts in (finished, slices))
        for counts in crew.each(task, slices, Steps(done + left, progress, done)):
            kept.keep(counts)
        assert kept.total is not None  # noqa: S101 (a part holds rows)
        return task.ranking(_as_one(kept.total, part))


def _as_one(counts: Counts, part: Part) -> Counts:
    """Return counts of adjacent slices as those of the slice that they make."""
    return replace(counts, slices=np.array([part], np.int64))


def gathered(task: Task, found: Iterable[tuple[Part, Floats]], step: Steps) -> Floats:
    """Put scores of judged pairs, found by slices of the gallery, where they belong."""
    item = task.judged.item
    scores = np.empty(len(item))
    for (start, stop), part in found:
        scores[(item >= start) & (item < stop)] = part
        step()
    return scores


def pieces_of(task: Task, wanted: int) -> list[Part]:
    """Cut the whole gallery into about as many slices as wanted, for phase 1."""
    return _cut((0, task.relevance.n_gallery), wanted)


def slices_of(task: Task, part: Part, at_least: int = 1) -> list[Part]:
    """Cut a slice of the gallery into pieces of about equal work."""
    rows = part[1] - part[0]
    work = float(task.scores.n_query) * getattr(task.scores, "dim", 1) * rows
    return _cut(part, max(at_least, int(min(-(-work // _WORK_OF_SLICE), rows // _SMALLEST_SLICE))))


def _cut(part: Part, pieces: int) -> list[Part]:
    n_pieces = min(max(pieces, 1), part[1] - part[0])
    edges = np.linspace(*part, n_pieces + 1).astype(int).tolist()
    return list(pairwise(edges))
