"""A run that was killed goes on from its finished slices, to the same bytes."""

from __future__ import annotations

import fcntl
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import reid_vpr_eval as rve
from reid_vpr_eval.cli import app
from reid_vpr_eval.errors import EvaluationWarning
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import engine, running
from reid_vpr_eval.ranking.work import Task
from test_engine import World

pytestmark = pytest.mark.usefixtures("small_slices")
N_SLICES = 9

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "everything": {"top_k": 4, "pairs_kept": 30, "tie_order": np.arange(90)[::-1]},
    "first": {"keep": "first"},
    "junk counted": {"count_ignored": True},  # two tiles a slice
}


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_SMALLEST_SLICE", 10)
    monkeypatch.setattr(running, "_WORK_OF_SLICE", 1.0)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The slices that are counted, in their order."""
    counted: list[tuple[int, int]] = []
    count = Task.count

    def spied(task: Task, part: tuple[int, int], *more: Any) -> Any:
        counted.append(part)
        return count(task, part, *more)

    monkeypatch.setattr(Task, "count", spied)
    return counted


class Stop(Exception):  # noqa: N818 (it is no error)
    pass


def stopping(after: int) -> Any:
    """Return a progress that stops the run when so many tiles are done."""

    def progress(done: int, _: int) -> None:
        if done == after:
            raise Stop

    return progress


def saved(ranking: rve.Ranking, path: Path) -> bytes:
    ranking.save(path)
    return path.read_bytes()


def rows_of(folder: Path) -> list[tuple[int, int]]:
    """Return the slices that a folder holds, by the names of its files; nothing else is there."""
    found = []
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(r"rows-(\d{10})-(\d{10})\.npz", path.name)
        assert match, path
        found.append((int(match[1]), int(match[2])))
    return found


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("after", [1, 4, N_SLICES])
def test_going_on_gives_the_same_bytes(
    tmp_path: Path, parts: list[tuple[int, int]], name: str, after: int
) -> None:
    world = World(after, n_gallery=90)
    arguments = (world.scores(), world.relevance(masked=False))
    whole = rve.rank(*arguments, **OPTIONS[name])
    parts.clear()
    folder = tmp_path / "slices"
    with pytest.raises(Stop):
        rve.rank(*arguments, **OPTIONS[name], checkpoint=folder, progress=stopping(after))
    stopped = parts.pop()  # the slice in work was not finished
    n_finished = len(parts)
    assert rows_of(folder) == parts
    ranking = rve.rank(*arguments, **OPTIONS[name], checkpoint=str(folder))
    assert parts[n_finished] == stopped
    assert parts == rows_of(folder)
    assert [row for part in parts for row in range(*part)] == list(range(90))
    assert saved(ranking, tmp_path / "one.npz") == saved(whole, tmp_path / "other.npz")
    parts.clear()
    again = rve.rank(*arguments, **OPTIONS[name], checkpoint=folder)
    assert parts == []
    assert saved(again, tmp_path / "again.npz") == saved(whole, tmp_path / "other.npz")


def test_matrices_and_strata(tmp_path: Path) -> None:
    world = World(3)
    matrix = rve.ScoreMatrix(
        world.rng.integers(0, 5, (world.n_query, world.n_gallery)), higher_is_better=False
    )
    arguments = (matrix, world.relevance())
    whole = rve.rank(*arguments, strata=world.strata, top_k=3)
    ranking = rve.rank(*arguments, strata=world.strata, top_k=3, checkpoint=tmp_path / "slices")
    assert saved(ranking, tmp_path / "one.npz") == saved(whole, tmp_path / "other.npz")


def test_queries_in_several_passes_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(engine, "passes_of", lambda *_: [slice(0, 5), slice(5, 12)])
    world = World(1, n_gallery=90)
    arguments = (world.scores(), world.relevance(masked=False))
    whole = rve.rank(*arguments)
    parts.clear()
    folder = tmp_path / "slices"
    with pytest.raises(Stop):
        rve.rank(*arguments, checkpoint=folder, progress=stopping(N_SLICES + 3))
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["queries-0-5", "queries-5-12"]
    assert len(rows_of(folder / "queries-0-5")) == N_SLICES
    assert len(rows_of(folder / "queries-5-12")) == 2
    parts.clear()
    ranking = rve.rank(*arguments, checkpoint=folder)
    assert len(parts) == N_SLICES - 2
    assert saved(ranking, tmp_path / "one.npz") == saved(whole, tmp_path / "other.npz")


def test_progress_begins_with_what_is_finished(tmp_path: Path) -> None:
    world = World(2, n_gallery=90)
    arguments = (world.scores(), world.relevance(masked=False))
    with pytest.raises(Stop):
        rve.rank(*arguments, checkpoint=tmp_path, progress=stopping(4))
    calls: list[tuple[int, int]] = []
    rve.rank(*arguments, checkpoint=tmp_path, progress=lambda *call: calls.append(call))
    assert calls == [(done, N_SLICES) for done in range(3, N_SLICES + 1)]


def test_judged_pairs_report_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(2, n_gallery=90)
    whole = rve.rank(world.scores(), world.relevance())
    monkeypatch.setattr(running, "_WORK_OF_PIECE", 100)
    numbers = int((world.relevance().offsets[-1]) * 7)
    calls: list[tuple[int, int]] = []
    ranking = rve.rank(
        world.scores(), world.relevance(), progress_pairs=lambda *call: calls.append(call)
    )
    n_pieces = -(-numbers // 100)
    assert calls == [(done + 1, n_pieces) for done in range(n_pieces)]
    assert n_pieces > 4
    assert np.array_equal(ranking.score, whole.score)


def other_features(world: World) -> dict[str, Any]:
    world.gallery[77] += 1
    return {}


def other_junk(world: World) -> dict[str, Any]:
    spare = np.flatnonzero(~world.junk & (world.role == 9).all(axis=0))
    world.junk[spare[0]] = True
    return {}


def other_roles(world: World) -> dict[str, Any]:
    world.role = np.where(world.role == 1, 0, np.where(world.role == 0, 1, world.role))
    return {"keep": "first"}


def other_mask(world: World) -> dict[str, Any]:
    world.kept = ~world.kept
    return {}


@pytest.mark.parametrize(
    ("change", "given"),
    [
        (other_features, {}), (other_junk, {}), (other_roles, {"keep": "first"}),
        (other_mask, {}), (lambda _: {"top_k": 2}, {}), (lambda _: {"pairs_kept": 2}, {}),
        (lambda _: {"tie_order": np.arange(90)[::-1]}, {}),
        (lambda world: {"strata": world.strata}, {}),
    ],
)  # fmt: skip
def test_slices_of_another_run_are_refused(tmp_path: Path, change: Any, given: Any) -> None:
    world = World(4, n_gallery=90)
    world.role[:, world.n_gallery // 2 :: 7] = 9  # some rows that nobody judges
    rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path, **given)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    options = change(world)
    with pytest.raises(rve.AlignmentError, match=r"rows-0000000000.*another run.*new folder"):
        rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path, **options)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_slices_of_another_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(4)
    rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path)
    monkeypatch.setattr("reid_vpr_eval.ranking.checkpoint.__version__", "999.0")
    with pytest.raises(rve.AlignmentError, match=r"another version than 999\.0"):
        rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path)


@pytest.mark.parametrize("damage", [b"", b"PK", None])
def test_a_damaged_slice_is_counted_again(
    tmp_path: Path, parts: list[tuple[int, int]], damage: bytes | None
) -> None:
    world = World(5, n_gallery=90)
    arguments = (world.scores(), world.relevance())
    folder = tmp_path / "slices"
    whole = rve.rank(*arguments, checkpoint=folder)
    victim = folder / "rows-0000000030-0000000040.npz"
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2] if damage is None else damage)
    parts.clear()
    with pytest.warns(EvaluationWarning, match=r"rows-0000000030-0000000040\.npz is damaged"):
        ranking = rve.rank(*arguments, checkpoint=folder)
    assert parts == [(30, 40)]
    assert victim.read_bytes() == content
    assert saved(ranking, tmp_path / "one.npz") == saved(whole, tmp_path / "other.npz")


def test_a_file_of_another_kind_is_not_removed(tmp_path: Path) -> None:
    world = World(5)
    victim = tmp_path / "rows-0000000000-0000000010.npz"
    world.scores().save(victim)
    with pytest.raises(rve.FormatError, match="holds a 'embeddings'"):
        rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path)
    assert victim.is_file()


def test_half_written_files_are_removed(tmp_path: Path) -> None:
    world = World(5)
    half = tmp_path / ".rows-0000000000-0000000010.npz.a1b2c3"
    half.write_bytes(b"half")
    rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path)
    assert len(rows_of(tmp_path)) == N_SLICES


def test_one_run_at_a_time(tmp_path: Path) -> None:
    world = World(5)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(rve.FormatError, match="in use by another run"):
        rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path)
    os.close(handle)
    rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path)


def test_slices_of_one_gallery_share_a_folder(tmp_path: Path) -> None:
    world = World(6, n_gallery=90)
    arguments = (world.scores(), world.relevance())
    folder = tmp_path / "slices"
    made = [
        rve.rank(*arguments, gallery_slice=part, checkpoint=folder) for part in ((0, 35), (35, 90))
    ]
    merged = rve.Ranking.merge(made)
    whole = rve.rank(*arguments)
    for name in ("above", "tied", "tied_before", "best_item", "n_unjudged"):
        assert np.array_equal(getattr(merged, name), getattr(whole, name))
    with pytest.raises(rve.AlignmentError, match=r"reach beyond the slice 0:33"):
        rve.rank(*arguments, gallery_slice=(0, 33), checkpoint=folder)
    ranking = rve.rank(*arguments, checkpoint=folder)
    assert saved(ranking, tmp_path / "one.npz") == saved(whole, tmp_path / "other.npz")


def test_overlapping_slices_are_refused(tmp_path: Path) -> None:
    world = World(6, n_gallery=90)
    arguments = (world.scores(), world.relevance())
    for name, part in (("a", (0, 40)), ("b", (30, 70))):
        rve.rank(*arguments, gallery_slice=part, checkpoint=tmp_path / name)
    for path in (tmp_path / "b").iterdir():
        if not (tmp_path / "a" / path.name).exists():
            path.rename(tmp_path / "a" / path.name)
    twice = tmp_path / "a" / "rows-0000000030-0000000045.npz"
    (tmp_path / "a" / "rows-0000000040-0000000050.npz").rename(twice)
    rve.rank(*arguments, checkpoint=tmp_path / "a")  # the names of files decide nothing
    (tmp_path / "a" / "copy").write_bytes(twice.read_bytes())
    (tmp_path / "a" / "copy").rename(tmp_path / "a" / "rows-0000000046-0000000050.npz")
    with pytest.raises(rve.AlignmentError, match=r"slices overlap.*delete it"):
        rve.rank(*arguments, checkpoint=tmp_path / "a")


def test_what_cannot_be_cut_is_refused(tmp_path: Path) -> None:
    world = World(7)
    with pytest.raises(rve.NotCountedError, match="checkpoint= works by slices"):
        rve.rank(
            world.scores(), world.relevance(), group=np.arange(90) // 3, checkpoint=tmp_path / "a"
        )
    lists = rve.RankedLists(np.tile(np.arange(5), (world.n_query, 1)))
    with pytest.raises(rve.NotCountedError, match="checkpoint=: ranked lists"):
        rve.rank(lists, world.relevance(), checkpoint=tmp_path / "a")
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(rve.FormatError, match="file cannot be made"):
        rve.rank(world.scores(), world.relevance(), checkpoint=tmp_path / "file")


def test_draws_have_folders_of_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    label = np.arange(30) % 6
    gallery = rve.Samples.from_columns(label=label, id=[f"g{i}" for i in range(30)])
    query = rve.Samples.from_columns(label=np.arange(6), id=[f"q{i}" for i in range(6)])
    scores = rve.Embeddings(rng.normal(size=(6, 4)), rng.normal(size=(30, 4)))
    protocol = Protocol.model_validate({
        "name": "drawn", "title": "Drawn", "relevance": {"kind": "label"},
        "report": {"metrics": ["mAP"]},
        "draw": {"per": ["label"], "n": 2, "repeats": 3, "seed": 0},
    })  # fmt: skip
    plain = rve.evaluate(protocol, query, gallery, scores)
    for _ in range(2):
        result = rve.evaluate(protocol, query, gallery, scores, checkpoint=tmp_path)
        assert result.metrics == plain.metrics
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draw-0", "draw-1", "draw-2"]


def test_blocks_of_queries_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    sides = [rve.Samples.from_columns(label=np.arange(n) % 6, id=[f"{name}{i}" for i in range(n)])
             for name, n in (("q", 12), ("g", 60))]  # fmt: skip
    scores = rve.Embeddings(rng.normal(size=(12, 4)), rng.normal(size=(60, 4)))
    monkeypatch.setattr("reid_vpr_eval.evaluation.gallery._KEPT_PAIRS", 10)
    monkeypatch.setattr("reid_vpr_eval.dense._PAIRS_AT_ONCE", 60)
    plain = rve.evaluate("labels", *sides, scores)
    for _ in range(2):
        result = rve.evaluate(
            "labels", *sides, scores, checkpoint=tmp_path, progress_pairs=lambda *_: None
        )
        assert result.metrics == plain.metrics
    assert sorted(path.name for path in tmp_path.iterdir()) == ["block-0", "block-1"]


# As processes

N_ROWS = 6000


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line of a run of a few seconds, in about 30 slices."""
    folder = tmp_path_factory.mktemp("sides")
    rng = np.random.default_rng(11)
    arguments = ["run", "labels"]
    for side, n in (("query", 300), ("gallery", N_ROWS)):
        label = rng.integers(0, 40, n)
        rows = "".join(f"{side}{i},{value}\n" for i, value in enumerate(label))
        (folder / f"{side}.csv").write_text("id,label\n" + rows)
        np.save(folder / f"{side}.npy", rng.normal(size=(n, 32)).astype(np.float32))
        arguments += [f"--{side}", str(folder / f"{side}.csv"),
                      f"--{side}-features", str(folder / f"{side}.npy")]  # fmt: skip
    return [*arguments, "--no-report", "--expected", "ignore"]


def process(arguments: list[str]) -> subprocess.Popen[str]:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from reid_vpr_eval.ranking import running\n"
        "running._SMALLEST_SLICE, running._WORK_OF_SLICE = 200, 1.0\n"
        "from reid_vpr_eval.__main__ import main\nmain()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def stopped_at(sides: list[str], folder: Path, n_slices: int, wait: float, how: int) -> str:
    """Run until a folder holds so many slices, and a moment longer; return what was said."""
    with process([*sides, "--checkpoint", str(folder)]) as running_one:
        while running_one.poll() is None:
            if len(list(folder.glob("rows-*.npz"))) >= n_slices:
                time.sleep(wait)
                running_one.send_signal(how)
                break
            time.sleep(0.001)
        return running_one.communicate(timeout=120)[1]


def finish(sides: list[str], folder: Path, out: Path) -> None:
    with process([*sides, "--checkpoint", str(folder), "--out", str(out)]) as running_one:
        complaint = running_one.communicate(timeout=120)[1]
    assert running_one.returncode == 0, complaint


def whole_run(sides: list[str], tmp_path: Path) -> Path:
    done = CliRunner().invoke(app, [*sides, "--out", str(tmp_path / "whole")])
    assert done.exit_code == 0, done.output
    return tmp_path / "whole"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_again_and_again(tmp_path: Path, sides: list[str], seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 (a draw of moments)
    folder = tmp_path / "slices"
    seen: dict[str, bytes] = {}
    for turn in range(3):
        wanted = len(seen) + chance.randint(1, 8)
        stopped_at(sides, folder, wanted, chance.random() * 0.03, signal.SIGKILL)
        now = {path.name: path.read_bytes() for path in folder.glob("rows-*.npz")}
        assert len(now) < 30, f"turn {turn} was not stopped"
        assert {name: now[name] for name in seen} == seen, "a finished slice was counted again"
        seen = now
    half = folder / ".rows-0000000000-0000000200.npz.killed"
    half.write_bytes(b"half a file")
    finish(sides, folder, tmp_path / "resumed")
    assert [row for part in rows_of(folder) for row in range(*part)] == list(range(N_ROWS))
    whole = whole_run(sides, tmp_path)
    for name in ("result.json", "ranking.npz", "per_query.csv"):
        assert (tmp_path / "resumed" / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("n_slices", [1, 5, 12])
def test_an_interrupt_leaves_finished_slices_only(
    tmp_path: Path, sides: list[str], n_slices: int
) -> None:
    folder = tmp_path / "slices"
    said = stopped_at(sides, folder, n_slices, 0.01, signal.SIGINT)
    assert said == "interrupted; nothing was left half-written\n"
    found = rows_of(folder)
    assert n_slices <= len(found) < 30
    assert [row for part in found for row in range(*part)] == list(range(found[-1][1]))


def test_the_option_of_the_command(
    tmp_path: Path, sides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_SMALLEST_SLICE", 1500)
    line = [*sides, "--checkpoint", str(tmp_path / "slices")]
    done = [CliRunner().invoke(app, line) for _ in range(2)]
    plain = CliRunner().invoke(app, sides)
    assert [one.exit_code for one in done] == [0, 0], done[0].output
    assert done[0].stdout == done[1].stdout == plain.stdout
    assert len(rows_of(tmp_path / "slices")) == 4
    done[0] = CliRunner().invoke(app, [*line, "--metric", "dot"])
    assert done[0].exit_code == 1
    assert "another run" in done[0].stderr
