"""Finished slices kept on disk, so that a run that was killed goes on where it stopped."""

from __future__ import annotations

import importlib
import os
import warnings
from pathlib import Path
from types import TracebackType

import numpy as np

from reid_vpr_eval import __version__
from reid_vpr_eval.archive import canonical_json
from reid_vpr_eval.errors import AlignmentError, EvaluationWarning, FormatError
from reid_vpr_eval.ranking.counts import Counts
from reid_vpr_eval.ranking.work import Part, Task
from reid_vpr_eval.scores.arrays import digest

__all__ = ["Checkpoint", "made", "of_pass"]

_SLICES = "rows-*.npz"
_HALF_WRITTEN = ".rows-*"


def made(folder: str | os.PathLike[str]) -> Path:
    """Return a folder that slices can be kept in; it is made if it is not there.

    Raises
    ------
    FormatError
        If it cannot be made or written into.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(
            f"checkpoint {path} cannot be made ({error.strerror}): name a folder"
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise FormatError(f"checkpoint {path} is not writable: name another folder")
    return path


def of_pass(folder: Path | None, rows: slice, n_query: int) -> Path | None:
    """Return the folder of one pass: that of the run, or one inside for a block of queries."""
    if folder is None or rows == slice(0, n_query):
        return folder
    return made(folder / f"queries-{rows.start}-{rows.stop}")


class Checkpoint:
    """The finished slices of a scored task, in a folder that one run at a time may use.

    Attributes
    ----------
    total : Counts or None
        What all finished slices inside `part` counted together.
    """

    def __init__(self, folder: Path, task: Task, part: Part) -> None:
        self._folder, self._part = folder, part
        self._identity = _identity(task)
        self._lock: int | None = None
        self.total: Counts | None = None

    def __enter__(self) -> Checkpoint:
        self._lock = _lock(self._folder)
        try:
            self._remove_half_written()
            for path in sorted(self._folder.glob(_SLICES)):
                self._take_up(path)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove_half_written()
        if self._lock is not None:
            os.close(self._lock)

    def keep(self, counts: Counts) -> None:
        """Save a finished slice, whole or not at all, and add it to the others."""
        start, stop = counts.slices[0].tolist()
        counts.save(self._folder / f"rows-{start:010d}-{stop:010d}.npz", self._identity)
        self._add(counts, self._folder)

    def finished(self) -> list[Part]:
        """Return the slices that need not be counted again."""
        return [] if self.total is None else [(a, b) for a, b in self.total.slices.tolist()]

    def gaps(self) -> list[Part]:
        """Return the gallery rows that no finished slice covers."""
        gaps, position = [], self._part[0]
        for start, stop in self.finished():
            if start > position:
                gaps.append((position, start))
            position = stop
        if position < self._part[1]:
            gaps.append((position, self._part[1]))
        return gaps

    def _take_up(self, path: Path) -> None:
        try:
            identity, counts = Counts.load(path)
        except FormatError as error:
            if error.__cause__ is None:  # of another kind, or of a newer version
                raise
            warnings.warn(
                f"{path} is damaged and was removed: its rows are counted again",
                EvaluationWarning,
                stacklevel=2,
            )
            path.unlink()
            return
        if identity != self._identity:
            raise AlignmentError(
                f"{path} was counted for another run (other features, relevance or options, or "
                f"another version than {__version__}): name a new folder, or delete {self._folder}"
            )
        start, stop = int(counts.slices[:, 0].min()), int(counts.slices[:, 1].max())
        if stop <= self._part[0] or start >= self._part[1]:
            return  # of another slice of the same gallery
        if start < self._part[0] or stop > self._part[1]:
            raise AlignmentError(
                f"{path} holds the gallery rows {start}:{stop}, which reach beyond the slice "
                f"{self._part[0]}:{self._part[1]} that is to be counted: name a new folder"
            )
        self._add(counts, path)

    def _add(self, counts: Counts, where: Path) -> None:
        try:
            self.total = counts if self.total is None else self.total + counts
        except AlignmentError as error:
            raise AlignmentError(f"{where}: {error}; delete it and count again") from error

    def _remove_half_written(self) -> None:
        for path in self._folder.glob(_HALF_WRITTEN):
            path.unlink(missing_ok=True)


def _identity(task: Task) -> str:
    """Return a hash of all that decides what is counted."""
    layout = task.layout
    options = canonical_json(
        [__version__, task.fingerprint, task.scores.fingerprint(), task.keep, task.top_k,
         task.pairs_kept]
    )  # fmt: skip
    roles = task.judged.role if task.keep == "first" else None
    return digest(options, layout.ranked.astype(np.uint8), layout.kept.astype(np.uint8), roles)


def _lock(folder: Path) -> int | None:
    """Hold a folder for this process, until it ends or closes the handle that is returned.

    Raises
    ------
    FormatError
        If another process holds it.
    """
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:  # pragma: no cover (not on every system)
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise FormatError(
            f"checkpoint {folder} is in use by another run: wait for it, or name another folder"
        ) from error
    except OSError:  # pragma: no cover (a file system without locks)
        pass
    return handle
