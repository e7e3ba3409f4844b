"""A cluster counts the same bits, whoever is lost on the way."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster
from test_checkpoint import rows_of, saved
from threadpoolctl import threadpool_info, threadpool_limits
from typer.testing import CliRunner

import reid_vpr_eval as rve
from reid_vpr_eval.cli import app
from reid_vpr_eval.errors import ClusterError, EvaluationWarning
from reid_vpr_eval.ranking import cluster as module
from reid_vpr_eval.ranking import engine
from reid_vpr_eval.ranking.running import Here
from reid_vpr_eval.ranking.work import Task
from reid_vpr_eval.scores import Embeddings
from test_engine import World


@contextmanager
def workers(n: int, folder: Path) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=n, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
            local_directory=str(folder), silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with workers(2, tmp_path_factory.mktemp("dask")) as made:
        yield made


def sorts(world: World) -> dict[str, tuple[Any, dict[str, Any]]]:
    matrix = world.rng.integers(0, 5, (world.n_query, world.n_gallery))
    doubled = Embeddings(world.gallery, world.gallery)
    return {
        "features": (world.scores(), {"top_k": 5, "pairs_kept": 40, "strata": world.strata}),
        "distances": (world.scores("euclidean"), {"keep": "first", "count_ignored": True}),
        "matrix": (rve.ScoreMatrix(matrix, higher_is_better=False), {"top_k": 3}),
        "threads": (world.scores(), {"workers": 2, "memory": "2MiB"}),
        "slice": (world.scores(), {"gallery_slice": (11, 60)}),
        "one side": (doubled, {}),
    }


@pytest.mark.parametrize("name", list(sorts(World(0))))
def test_same_bytes_as_here(tmp_path: Path, client: Client, name: str) -> None:
    world = World(8)
    scores, options = sorts(world)[name]
    relevance = world.relevance(masked=name != "one side")
    if name == "one side":
        relevance = rve.Relevance.from_pairs([3, 4], [4, 3], n_query=90, n_gallery=90)
    here = rve.rank(scores, relevance, **options)
    there = rve.rank(scores, relevance, client=client, **options)
    assert saved(there, tmp_path / "one.npz") == saved(here, tmp_path / "other.npz")


def test_passes_send_the_scores_once(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "passes_of", lambda *_: [slice(0, 5), slice(5, 12)])
    world = World(9)
    here = rve.rank(world.scores(), world.relevance())
    sent = spied_scatter(client, monkeypatch)
    there = rve.rank(world.scores(), world.relevance(), client=client)
    assert saved(there, tmp_path / "one.npz") == saved(here, tmp_path / "other.npz")
    assert sent == ["Embeddings", "_Pass", "ndarray", "_Pass", "ndarray"]


def spied_scatter(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    sent: list[str] = []
    scatter = client.scatter

    def spied(value: Any, **options: Any) -> Any:
        sent.append(type(value).__name__)
        return scatter(value, **options)

    monkeypatch.setattr(client, "scatter", spied)
    return sent


def test_nothing_stays_on_the_cluster(client: Client) -> None:
    world = World(9)
    rve.rank(world.scores(), world.relevance(), client=client)
    until(lambda: not client.who_has() and not client.futures)


def until(what: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("given", [None, 2])
def test_a_task_of_a_worker_has_one_thread_unless_told(given: int | None) -> None:
    world = World(9)
    tasks: list[Task] = []

    class Crew(Here):
        def judged_scores(self, task: Task, progress: Any) -> Any:
            tasks.append(task)
            return super().judged_scores(task, progress)

    with pytest.MonkeyPatch.context() as patch, threadpool_limits(3, "blas"):
        patch.setattr(engine, "Here", Crew)
        rve.rank(world.scores(), world.relevance(), workers=given)
        of_pass = pickle.loads(pickle.dumps(module._Pass(tasks[0], None)))  # noqa: S301
        with module._on_worker(of_pass, world.scores()) as task:
            assert task.workers == (given or 1)
            assert _blas_threads() == (given or 1)


def _blas_threads() -> int:
    return int(max(
        pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
    ))  # fmt: skip


def test_both_phases_report(client: Client) -> None:
    world = World(9)
    pairs: list[tuple[int, int]] = []
    slices: list[tuple[int, int]] = []
    rve.rank(
        world.scores(), world.relevance(), client=client,
        progress=lambda *call: slices.append(call),
        progress_pairs=lambda *call: pairs.append(call),
    )  # fmt: skip
    n = 4 * 2  # slices a thread, threads
    assert pairs == slices == [(done + 1, n) for done in range(n)]


def test_with_a_checkpoint(tmp_path: Path, client: Client) -> None:
    world = World(10)
    arguments = (world.scores(), world.relevance())
    here = rve.rank(*arguments)
    folder = tmp_path / "slices"

    def stop(done: int, _: int) -> None:
        if done == 3:  # three slices of one tile
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rve.rank(*arguments, client=client, checkpoint=folder, progress=stop)
    until(lambda: not client.futures)
    finished = rows_of(folder)
    assert len(finished) == 2
    there = rve.rank(*arguments, client=client, checkpoint=folder)
    assert [row for part in rows_of(folder) for row in range(*part)] == list(range(90))
    assert set(finished) < set(rows_of(folder))
    assert saved(there, tmp_path / "one.npz") == saved(here, tmp_path / "other.npz")


def test_an_interrupt_cancels_what_is_not_done(client: Client) -> None:
    world = World(9)

    def stop(_: int, __: int) -> None:
        raise KeyboardInterrupt

    for name in ("progress", "progress_pairs"):
        with pytest.raises(KeyboardInterrupt):
            rve.rank(world.scores(), world.relevance(), client=client, **{name: stop})
        until(lambda: not client.futures and not client.who_has())
        until(lambda: not any(client.processing().values()))


# Losses


class Big:
    """Enough work that a worker can be lost in the middle of it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        query, gallery = (rng.normal(size=(n, 64)).astype("f") for n in (400, 40_000))
        self.scores = Embeddings(query, gallery)
        item = np.sort(rng.choice(40_000, (400, 5)), axis=1)
        item += np.arange(5)  # no item twice
        self.relevance = rve.Relevance.from_pairs(
            np.repeat(np.arange(400), 5), np.minimum(item, 39_999).ravel(), n_query=400,
            n_gallery=40_000,
        )  # fmt: skip


def killing(pids: list[int], n: int) -> Callable[[int, int], None]:
    """Return a progress that kills so many workers when a quarter is done."""

    def progress(done: int, total: int) -> None:
        if 4 * done >= total and len(pids) == 3:
            for _ in range(n):
                os.kill(pids.pop(), signal.SIGKILL)

    return progress


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("phase", ["progress", "progress_pairs"])
def test_lost_workers_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str, n: int, checkpoint: bool
) -> None:
    """With all three the data are lost too: they are sent again."""
    big = Big()
    here = rve.rank(big.scores, big.relevance, top_k=2)
    with workers(3, tmp_path / "dask") as client:
        sent = spied_scatter(client, monkeypatch)
        pids = list(client.run(os.getpid).values())
        options: dict[str, Any] = {phase: killing(pids, n)}
        if checkpoint:
            options["checkpoint"] = tmp_path / "slices"
        there = rve.rank(big.scores, big.relevance, top_k=2, client=client, **options)
    assert len(pids) == 3 - n
    assert n == 1 or len(sent) > 3
    assert saved(there, tmp_path / "one.npz") == saved(here, tmp_path / "other.npz")
    if checkpoint:
        rows = [row for part in rows_of(tmp_path / "slices") for row in range(*part)]
        assert rows == list(range(40_000))


# Refusals


def test_what_is_no_client_is_refused() -> None:
    world = World(1)
    for given in ("tcp://127.0.0.1:8786", object()):
        with pytest.raises(ClusterError, match=r"client = .*dask\.distributed\.Client is needed"):
            rve.rank(world.scores(), world.relevance(), client=given)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    world = World(1)
    with pytest.raises(rve.FormatError, match=r"needs distributed.*'reid_vpr_eval\[dask\]'"):
        rve.rank(world.scores(), world.relevance(), client=object())


def test_what_cannot_be_cut_is_refused(client: Client) -> None:
    world = World(7)
    with pytest.raises(rve.NotCountedError, match="client= works by slices"):
        rve.rank(world.scores(), world.relevance(), group=np.arange(90) // 3, client=client)
    lists = rve.RankedLists(np.tile(np.arange(5), (world.n_query, 1)))
    with pytest.raises(rve.NotCountedError, match="client=: ranked lists"):
        rve.rank(lists, world.relevance(), client=client)


def test_another_version_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    monkeypatch.setattr(module, "__version__", "999.0")
    said = rf"the worker tcp://\S+.* has reid_vpr_eval {rve.__version__}, this process 999\.0"
    with pytest.raises(ClusterError, match=said):
        rve.rank(world.scores(), world.relevance(), client=client)
    monkeypatch.setattr(module, "_check_versions", lambda *_: None)  # one that comes later
    with pytest.raises(ClusterError, match=said):
        rve.rank(world.scores(), world.relevance(), client=client)


def test_a_worker_without_the_package_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(1)
    monkeypatch.setattr(module, "_VERSION", "no_such_package:__version__")
    with pytest.raises(ClusterError, match=r"cannot import.*no_such_package.*install reid_vpr"):
        rve.rank(world.scores(), world.relevance(), client=client)


def test_waiting_for_a_first_worker_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS_TO_WARN", 0.1)
    world = World(1)
    here = rve.rank(world.scores(), world.relevance())
    with workers(0, tmp_path / "dask") as client:
        later = threading.Timer(1, client.cluster.scale, [1])
        later.start()
        with pytest.warns(EvaluationWarning, match=r"no worker .* dask worker tcp://"):
            there = rve.rank(world.scores(), world.relevance(), client=client)
        later.join()
    assert np.array_equal(there.above, here.above)


class Absent:
    """Features whose file only this process has."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __reduce__(self) -> Any:
        return _absent, (self.shape, self.dtype)

    def __getitem__(self, rows: Any) -> Any:
        if self.array is None:
            raise FileNotFoundError(2, "No such file or directory", "/data/part-3.npy")
        return self.array[rows]


def _absent(shape: Any, dtype: Any) -> Absent:
    made = Absent(np.empty(shape, dtype))
    made.array = None
    return made


def test_a_file_that_a_worker_lacks_is_named(client: Client) -> None:
    world = World(1)
    scores = world.scores()
    object.__setattr__(scores, "gallery", Absent(scores.gallery))
    said = rf"the worker tcp://\S+ on {socket.gethostname()} cannot read.*/data/part-3\.npy"
    with pytest.raises(ClusterError, match=said):
        rve.rank(scores, world.relevance(), client=client)


# The command


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("sides")
    rng = np.random.default_rng(11)
    arguments = ["run", "labels"]
    for side, n in (("query", 50), ("gallery", 400)):
        rows = "".join(f"{side}{i},{i % 17}\n" for i in range(n))
        (folder / f"{side}.csv").write_text("id,label\n" + rows)
        np.save(folder / f"{side}.npy", rng.normal(size=(n, 8)).astype(np.float32))
        arguments += [f"--{side}", str(folder / f"{side}.csv"),
                      f"--{side}-features", str(folder / f"{side}.npy")]  # fmt: skip
    return [*arguments, "--no-report", "--expected", "ignore"]


def test_the_option_of_the_command(tmp_path: Path, client: Client, line: list[str]) -> None:
    address = client.scheduler.address
    for name, more in (("here", []), ("there", ["--dask", address])):
        done = CliRunner().invoke(app, [*line, "--out", str(tmp_path / name), *more])
        assert done.exit_code == 0, done.output
    for name in ("result.json", "ranking.npz", "per_query.csv"):
        here, there = ((tmp_path / run / name).read_bytes() for run in ("here", "there"))
        assert here == there, name


@pytest.mark.parametrize(
    "kind", ["nobody", "no address", "no scheme", "a worker", "another server"]
)
def test_an_address_without_a_scheduler(
    client: Client, line: list[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = {
            "nobody": "tcp://127.0.0.1:1", "no address": "127.0.0.1", "no scheme": "http+x://a:1",
            "a worker": next(iter(client.nthreads())),
            "another server": f"tcp://127.0.0.1:{server.getsockname()[1]}",
        }[kind]  # fmt: skip
        monkeypatch.setattr(module, "_SECONDS_TO_CONNECT", 1.0)
        done = CliRunner().invoke(app, [*line, "--dask", address])
    assert done.exit_code == 1
    assert done.stdout == ""
    (said,) = done.stderr.splitlines()
    assert said.startswith("error: ")
    assert address in said
    assert "dask scheduler" in said


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_nothing_else_is_said_then(line: list[str], closed: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        if closed:
            server.close()
        done = subprocess.run(
            [sys.executable, "-m", "reid_vpr_eval", *line, "--dask", address],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert address in done.stderr


def test_the_command_without_the_extra(
    line: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = CliRunner().invoke(app, [*line, "--dask", "tcp://127.0.0.1:8786"])
    assert done.exit_code == 1
    assert "pip install 'reid_vpr_eval[dask]'" in done.stderr
