"""The order of work: what fits the memory, and who does it.

This is the one place that decides sizes. Half of the memory is for tiles and the gallery
rows in work, shared by the workers; a quarter holds prepared queries; pairs are taken in
passes of as many as fill the memory once.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import ScoreError
from reid_vpr_eval.ranking.tiles import Tile

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ["Buffers", "Sizes", "bytes_of", "n_cores", "run_all", "tiles_of"]

Job = TypeVar("Job")

_ROWS, _COLUMNS, _SQUARE = 1024, 4096, 2048
#: Vectors of so many numbers are work enough in tiles of half as many columns.
_LONG_VECTOR = 2048
_SMALLEST, _SMALLEST_SHARE = 16, 1024
_BYTES_OF_SCORE = 14  # a score, a piece of it, whether it passes, and its place if it does
_BYTES_OF_PAIR = 50  # what is kept of a judged pair while it is counted
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def bytes_of(memory: str | int) -> int:
    """Read a size such as 512MiB."""
    if isinstance(memory, int):
        return memory
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?)?b?\s*", memory.lower())
    if not match:
        raise ScoreError(f"memory = {memory!r}: a size such as 512MiB or 2GB is needed")
    return int(float(match[1]) * _UNITS[match[2] or ""])


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is worked on at once.

    Attributes
    ----------
    workers : int
        Threads.
    rows, columns : int
        Queries and gallery rows of a tile.
    square : int
        Rows and columns of a tile where both sides are the same items.
    queries : int
        Queries that are prepared at once.
    pairs : int
        Judged pairs that are counted at once.
    """

    workers: int
    rows: int
    columns: int
    square: int
    queries: int
    pairs: int

    @classmethod
    def of(cls, memory: str | int, dim: int, itemsize: int, workers: int | None = None) -> Sizes:
        """Decide sizes for vectors of `dim` numbers of `itemsize` bytes.

        Raises
        ------
        ScoreError
            If the memory does not hold the smallest tile.
        """
        given = bytes_of(memory)
        n_workers = workers or n_cores()
        vector = 2 * itemsize * dim  # as it is read, and as it is scored
        share = given // 2 // n_workers
        rows = _ROWS
        while rows > _SMALLEST and share // (_BYTES_OF_SCORE * rows + vector) < _SMALLEST * 4:
            rows //= 2
        columns = share // (_BYTES_OF_SCORE * rows + vector)
        if columns < _SMALLEST or given // 4 < vector:
            least = 2 * n_workers * _SMALLEST * (_BYTES_OF_SCORE * _SMALLEST + vector)
            raise ScoreError(
                f"memory = {memory!r} is too small: {n_workers} workers with the smallest tile of "
                f"vectors of {dim} numbers need {least // 1024 + 1:,} KiB; give more, or fewer "
                "workers"
            )
        if columns > 64:
            columns -= columns % 64
        return cls(
            workers=n_workers,
            rows=rows,
            columns=min(columns, _COLUMNS // 2 if dim >= _LONG_VECTOR else _COLUMNS),
            square=min(columns, _SQUARE),
            queries=max(rows, given // 4 // (itemsize * dim)),
            pairs=max(1, given // _BYTES_OF_PAIR),
        )


def n_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # pragma: no cover (not on every system)
        return os.cpu_count() or 1


class Buffers:
    """Memory for tiles of float32 scores, one piece for each thread."""

    def __init__(self, size: int) -> None:
        self._size, self._local = size, threading.local()

    def mine(self) -> npt.NDArray[np.float32]:
        """Return the piece of this thread."""
        if not hasattr(self._local, "memory"):
            self._local.memory = np.empty(self._size, np.float32)
        return self._local.memory  # type: ignore[no-any-return]


def tiles_of(
    columns: npt.NDArray[np.int64], row_stratum: npt.NDArray[np.int32], sizes: Sizes
) -> list[Tile]:
    """Cut the rows to be counted, which are in order of strata, evenly, for each worker as many."""
    n = len(columns)
    parts = -(-n // sizes.columns)
    if n >= sizes.workers * _SMALLEST_SHARE:
        parts += -parts % sizes.workers
    step = -(-n // max(parts, 1))
    return [Tile.of(columns, row_stratum, begin, min(begin + step, n))
            for begin in range(0, n, step)] if n else []  # fmt: skip


@lru_cache(maxsize=1)
def blas_libraries(_n_modules: int) -> ThreadpoolController:
    """Find the libraries whose threads are held; again only when modules were loaded since."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run_all(
    jobs: Sequence[Job],
    work: Callable[[Job, Any], None],
    workers: int,
    *,
    fetch: Callable[[Job], Any] | None = None,
    finished: Callable[[], None] = lambda: None,
) -> None:
    """Do all jobs by several threads, with one BLAS thread each; `finished` after each job.

    `work` is given a job and what `fetch` read for it. One more thread reads ahead, so that
    the next jobs are read while others are worked on.
    """
    if len(jobs) <= 1 and fetch is None:
        for job in jobs:
            work(job, None)
            finished()
        return
    n_workers = min(workers, len(jobs))
    with (
        blas_libraries(len(sys.modules)).limit(limits=1, user_api="blas"),
        ThreadPoolExecutor(1) as reader,
        ThreadPoolExecutor(n_workers) as pool,
    ):
        ahead: deque[tuple[Job, Future[Any] | None]] = deque()
        coming = iter(jobs)
        lock = threading.Lock()

        def look_ahead() -> None:
            for job in islice(coming, 1):
                ahead.append((job, reader.submit(fetch, job) if fetch else None))

        def take_turns() -> None:
            while True:
                with lock:
                    if stopped or not ahead:
                        return
                    job, reading = ahead.popleft()
                    look_ahead()
                work(job, reading.result() if reading else None)
                done.put(1)

        stopped: list[bool] = []
        done: SimpleQueue[int] = SimpleQueue()
        for _ in range(n_workers + 1):
            look_ahead()
        running = [pool.submit(take_turns) for _ in range(n_workers)]
        try:
            for turn in running:
                turn.add_done_callback(lambda _: done.put(0))
            left = n_workers
            while left:
                if done.get():
                    finished()
                else:
                    left -= 1
                    if any(turn.done() and turn.exception() for turn in running):
                        break
        finally:
            stopped.append(True)
        for turn in running:
            turn.result()
