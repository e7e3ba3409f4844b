"""Counting on a Dask cluster: the same slices, counted by the workers and added there.

Scores are sent to the workers once (features in files by their paths), what is judged once
for each pass. Every slice is a task of its own, so that a worker that is lost takes nothing
along: its tasks are run by others, and data that only it held are sent again.
"""

from __future__ import annotations

import asyncio
import pkgutil
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from reid_vpr_eval import __version__
from reid_vpr_eval.errors import ClusterError, EvaluationWarning, FormatError
from reid_vpr_eval.formats.extras import need
from reid_vpr_eval.ranking.counts import Counts
from reid_vpr_eval.ranking.running import Progress, Steps, gathered, pieces_of, slices_of
from reid_vpr_eval.ranking.work import Part, Task
from reid_vpr_eval.scores import Scores

__all__ = ["Cluster", "connected"]

Floats: TypeAlias = npt.NDArray[np.float64]
Found = TypeVar("Found")

_SECONDS_TO_CONNECT = 10.0
_SECONDS_TO_WARN = 10.0
_SLICES_A_THREAD = 4
_FRUITLESS_ROUNDS = 3
_VERSION = "reid_vpr_eval:__version__"


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Give a client of the scheduler at an address, or None for no address.

    Raises
    ------
    ClusterError
        If no scheduler answers there.
    """
    if address is None:
        yield None
        return
    distributed = _distributed(f"--dask {address}")
    start = "start one with 'dask scheduler', and workers with 'dask worker ADDRESS'"
    try:
        kind = asyncio.run(asyncio.wait_for(_kind_of(address, distributed), _SECONDS_TO_CONNECT))
    except Exception as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address!r} ({_first_line(error)}): {start}"
        ) from error
    if kind != "Scheduler":
        raise ClusterError(f"{address} is a Dask {kind}, not a scheduler: {start}")
    with distributed.Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False) as client:
        yield client


async def _kind_of(address: str, distributed: Any) -> str:
    """Ask who answers at an address, before a client is made, which ends noisily if it fails."""
    security = distributed.Security().get_connection_args("client")
    comm = await distributed.comm.connect(address, timeout=_SECONDS_TO_CONNECT, **security)
    try:
        await comm.write({"op": "identity", "reply": True})
        return str((await comm.read()).get("type"))
    finally:
        comm.abort()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _distributed(what: str) -> Any:
    return need("distributed", "dask", what)


class Cluster:
    """The workers of a Dask cluster, as a crew; `for_pass` names the block of queries."""

    def __init__(self, client: Any, scores: Scores) -> None:
        distributed = _distributed("client=")
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise ClusterError(
                f"client = {client!r}: a dask.distributed.Client is needed (not an asynchronous "
                "one), such as Client('tcp://host:8786')"
            )
        self._client, self._scores = client, scores
        self._as_completed, self._lost_worker = distributed.as_completed, distributed.KilledWorker
        self._rows: slice | None = None
        self._held: dict[str, tuple[Any, Any]] = {}
        self._futures: set[Any] = set()
        _check_versions(client, distributed)
        self.at_least = _SLICES_A_THREAD * max(1, sum(client.nthreads().values()))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel what is not finished, and let go of what workers hold."""
        if self._client.status == "running":
            self._client.cancel(list(self._futures), force=True)
        self._futures.clear()
        self._held.clear()

    def for_pass(self, rows: slice | None) -> Cluster:
        """Take up a block of queries; None for all."""
        self._rows = rows
        for name in ("task", "score"):
            self._held.pop(name, None)
        return self

    def judged_scores(self, task: Task, progress: Progress | None) -> Floats:
        """Return the canonical score of each judged pair."""
        self._hold_task(task)
        pieces = pieces_of(task, self.at_least)
        found = self._each(lambda part: self._submit(_judged_scores, "scores", "task", part),
                           pieces, "scoring judged pairs of")  # fmt: skip
        return gathered(task, found, Steps(len(pieces), progress))

    def each(self, task: Task, slices: Sequence[Part], step: Steps) -> Iterator[Counts]:
        """Count slices; yield the counts of each when it is finished."""
        self._hold("score", task.score)
        for part, counts in self._each(self._count, slices, "counting"):
            step(task.n_jobs(part))
            yield counts

    def total(self, task: Task, part: Part, progress: Progress | None) -> Counts:
        """Count a slice of the gallery by slices, which are added by the workers."""
        self._hold("score", task.score)
        slices = slices_of(task, part, self.at_least)
        for _ in range(_FRUITLESS_ROUNDS):
            try:
                return self._added(slices, Steps(len(slices), progress))
            except CancelledError:
                self._send_again()
        raise self._gave_up("counting", part)

    # Tasks

    def _count(self, part: Part) -> Any:
        return self._submit(_counts, "scores", "task", "score", part)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a task; names stand for what workers hold."""
        given = [self._future(one) if isinstance(one, str) else one for one in arguments]
        future = self._client.submit(work, *given, pure=False)
        self._futures.add(future)
        return future

    def _added(self, slices: Sequence[Part], step: Steps) -> Counts:
        """Count all slices and add them in pairs, and pairs of pairs, where they are."""
        part_of = {self._count(part): part for part in slices}
        tree, coming = list(part_of), self._as_completed(list(part_of))
        while len(tree) > 1:
            odd = tree[len(tree) // 2 * 2 :]
            tree = [self._submit(_sum, *pair) for pair in zip(tree[::2], tree[1::2], strict=False)]
            tree += odd
        for future in coming:
            part = part_of.pop(future)
            if future.status != "finished":
                self._result(future, "counting", part)
            self._futures.discard(future)
            step()
        added: Counts = self._result(tree[0], "adding", (slices[0][0], slices[-1][1]))
        return added

    def _each(
        self, submit: Callable[[Part], Any], parts: Sequence[Part], doing: str
    ) -> Iterator[tuple[Part, Any]]:
        """Yield each part with its result; parts whose data got lost are submitted again."""
        left, fruitless = list(parts), 0
        while left:
            of_future = {submit(part): part for part in left}
            n_left = len(left)
            for future in self._as_completed(list(of_future)):
                part = of_future.pop(future)
                try:
                    found = self._result(future, doing, part)
                except CancelledError:
                    continue
                left.remove(part)
                yield part, found
            if left:
                fruitless = fruitless + 1 if len(left) == n_left else 0
                if fruitless == _FRUITLESS_ROUNDS:
                    raise self._gave_up(doing, left[0])
                self._send_again()

    def _result(self, future: Any, doing: str, part: Part) -> Any:
        """Return the result of a task; the task is no longer held then."""
        self._futures.discard(future)
        try:
            return future.result()
        except self._lost_worker as error:
            raise ClusterError(
                f"{doing} gallery rows {part[0]}:{part[1]}: the workers that tried it were lost "
                "one after the other, most likely for want of memory: give less memory=, or "
                "workers with more"
            ) from error
        except ModuleNotFoundError as error:
            raise _lacks(error) from error

    # What workers hold

    def _hold_task(self, task: Task) -> None:
        if "scores" not in self._held:
            self._hold("scores", self._scores)
        self._hold("task", _Pass(task, self._rows))

    def _hold(self, name: str, value: Any) -> None:
        self._held[name] = (value, None)

    def _future(self, name: str) -> Any:
        """Return the future of what every worker holds; it is sent when it is first needed."""
        value, future = self._held[name]
        for turn in range(_FRUITLESS_ROUNDS):
            if future is not None:
                break
            try:
                future = self._client.scatter(value, broadcast=True, hash=False)
            except OSError:  # a worker was lost while data were sent to it
                if turn == _FRUITLESS_ROUNDS - 1 or self._client.status != "running":
                    raise
        self._held[name] = (value, future)
        return future

    def _send_again(self) -> None:
        """Send everything again: those that held it are lost."""
        if self._client.status != "running":
            raise ClusterError(f"the connection to {self._client.scheduler.address} was lost")
        self._client.cancel(list(self._futures), force=True)
        self._futures.clear()
        self._client.submit(pkgutil.resolve_name, _VERSION, pure=False).result()  # one is there
        self._held = {name: (value, None) for name, (value, _) in self._held.items()}

    def _gave_up(self, doing: str, part: Part) -> ClusterError:
        return ClusterError(
            f"{doing} gallery rows {part[0]}:{part[1]} was lost {_FRUITLESS_ROUNDS} times with all "
            "workers that held the data: look into their logs"
        )


def _check_versions(client: Any, distributed: Any) -> None:
    """Wait for a first worker, and refuse workers without this version of the package.

    Raises
    ------
    ClusterError
        Names the worker and what it has.
    """
    first = client.submit(pkgutil.resolve_name, _VERSION, pure=False)
    try:
        distributed.wait(first, timeout=_SECONDS_TO_WARN)
    except TimeoutError:
        warnings.warn(
            f"no worker of the scheduler {client.scheduler.address} has answered yet; start one "
            f"with: dask worker {client.scheduler.address}",
            EvaluationWarning,
            stacklevel=4,
        )
    try:
        first.result()
    except ImportError as error:
        raise _lacks(error) from error
    found = client.run(pkgutil.resolve_name, _VERSION, on_error="return")
    for worker, version in found.items():
        if isinstance(version, OSError):  # it has left meanwhile
            continue
        if isinstance(version, BaseException):
            raise _lacks(version, f"the worker {worker}") from version
        if version != __version__:
            raise _differs(worker, version, __version__)


def _differs(worker: str, version: str, wanted: str) -> ClusterError:
    return ClusterError(
        f"the worker {worker} has reid_vpr_eval {version}, this process {wanted}: install the "
        "same version on all of them"
    )


def _lacks(error: BaseException, who: str = "a worker") -> ClusterError:
    return ClusterError(
        f"{who} cannot import what it is to run ({_first_line(error)}): install reid_vpr_eval "
        "there, the same version"
    )


# What workers do


class _Pass:
    """The task of one pass without its scores, which workers are sent once for all passes."""

    def __init__(self, task: Task, rows: slice | None) -> None:
        # A worker counts several slices at once, so each of them gets one thread.
        self._task = replace(task, scores=None, workers=task.workers or 1)  # type: ignore[arg-type]
        self._rows, self._version = rows, __version__
        self._made: dict[bool, Task] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    def task(self, scores: Scores, score: Floats | None = None) -> Task:
        """Return the whole task; it is made once, so that what it prepares is made once."""
        scored = score is not None
        if scored not in self._made:
            if self._version != __version__:  # a worker that came later
                raise _differs(_own_name(), __version__, self._version)
            mine = scores if self._rows is None else scores.take_queries(self._rows)
            self._made[scored] = replace(self._task, scores=mine, score=score)
        return self._made[scored]


def _judged_scores(scores: Scores, of_pass: _Pass, part: Part) -> Floats:
    with _on_worker(of_pass, scores) as task:
        return task.judged_scores(part)


def _counts(scores: Scores, of_pass: _Pass, score: Floats, part: Part) -> Counts:
    with _on_worker(of_pass, scores, score) as task:
        return task.count(part)


def _sum(one: Counts, other: Counts) -> Counts:
    return one + other


@contextmanager
def _on_worker(of_pass: _Pass, scores: Scores, score: Floats | None = None) -> Iterator[Task]:
    """Hold BLAS to the threads of the task, and say which worker could not read a file."""
    from threadpoolctl import threadpool_limits

    task = of_pass.task(scores, score)
    try:
        with threadpool_limits(task.workers, "blas"):
            yield task
    except (OSError, FormatError) as error:
        raise ClusterError(
            f"the worker {_own_name()} cannot read what it is to count: {error} (files must be "
            "at the same path on every worker)"
        ) from error


def _own_name() -> str:
    return f"{_distributed('a worker').get_worker().address} on {socket.gethostname()}"
