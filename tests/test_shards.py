"""Vectors in files: read a block at a time, and the same to the bit as one array."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import reid_vpr_eval as rve
from reid_vpr_eval.alignment import pool_queries
from reid_vpr_eval.checks import check, without_doubles
from reid_vpr_eval.cli import app
from reid_vpr_eval.errors import (
    AlignmentError,
    EvaluationWarning,
    FormatError,
    InputNotFoundError,
    ReidVprEvalError,
    ScoreError,
)
from reid_vpr_eval.evaluation import evaluate
from reid_vpr_eval.formats import read_features
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.relevance.pairing import codes
from reid_vpr_eval.scores import METRICS, Shards
from reid_vpr_eval.scores.distances import _OF_BOOLEANS
from test_engine import World, same

Array = npt.NDArray[Any]
PACKAGE = str(Path(rve.__file__).parents[1])


def cut(vectors: Array, folder: Path, cuts: Sequence[int], suffix: str = ".npy") -> list[Path]:
    """Write rows into files, the names of which need the order of numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, (begin, end) in enumerate(pairwise([0, *cuts, len(vectors)])):
        paths.append(folder / f"part{number + 8}{suffix}")
        if suffix == ".npy":
            np.save(paths[-1], vectors[begin:end])
        elif suffix.endswith("vecs"):
            word = np.int32(vectors.shape[1]).astype("<i4").tobytes()
            paths[-1].write_bytes(b"".join(word + row.tobytes() for row in vectors[begin:end]))
        else:
            head = np.array([end - begin, vectors.shape[1]], "<u4").tobytes()
            paths[-1].write_bytes(head + vectors[begin:end].tobytes())
    return paths


# --- one array ---------------------------------------------------------------------------------


@given(data=st.data(), seed=st.integers(0, 2**16))
def test_rows_are_those_of_one_array(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int
) -> None:
    """Slices, positions and lazily taken rows, over any cuts, with small and large gaps."""
    rng = np.random.default_rng(seed)
    n, dim = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 9))
    suffix, kind = data.draw(st.sampled_from(
        [(".npy", kind) for kind in ("<f2", "<f4", ">f4", "<f8", "i1", "<i4", "u1")]
        + [(".fvecs", "<f4"), (".ivecs", "<i4"), (".bvecs", "u1"), (".fbin", "<f4")]
    ))  # fmt: skip
    whole = (rng.normal(size=(n, dim)) * 50).astype(kind)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, n - 1)), max_size=4)) - {n})
    shards = Shards(cut(whole, tmp_path_factory.mktemp("s"), cuts, suffix))
    patch = pytest.MonkeyPatch()
    patch.setattr("reid_vpr_eval.scores.files._PIECE", data.draw(st.sampled_from([1, 50, 4096])))
    patch.setattr("reid_vpr_eval.scores.shards._BRIDGED", data.draw(st.sampled_from([0, 40, 999])))
    patch.setattr("reid_vpr_eval.scores.shards._PIECE", data.draw(st.sampled_from([1, 64, 4096])))
    for vector in np.arange(2 * dim).reshape(2, dim).astype(kind)[: data.draw(st.integers(0, 2))]:
        mask = rng.random(n) < 0.3
        shards, whole = shards.replaced(mask, vector), np.where(mask[:, None], vector, whole)
        whole = whole.astype(kind)
    for _ in range(3):
        assert shards.shape == whole.shape
        assert (len(shards), shards.ndim, shards.dtype) == (len(whole), 2, whole.dtype)
        rows: Any = data.draw(
            st.one_of(
                st.slices(len(whole)),
                st.lists(st.integers(-len(whole), len(whole) - 1)).map(
                    lambda some: np.array(some, np.int64)
                ),
            )
            if len(whole)
            else st.just(slice(None))
        )
        read = shards[rows]
        assert read.dtype == whole.dtype
        assert np.array_equal(read, whole[rows])
        shards, whole = shards.take(rows), whole[rows]
    patch.undo()


def test_what_shards_are_not(tmp_path: Path) -> None:
    shards = Shards(cut(np.ones((4, 2)), tmp_path, [3]))
    assert repr(shards) == "Shards(4 x 2 float64, 2 files)"
    assert np.array_equal(shards.take([True, False, True, False])[:], np.ones((2, 2)))
    for use in (
        lambda: np.asarray(shards), lambda: list(shards), lambda: shards[0],  # type: ignore[index]
        lambda: shards[np.ones(4, bool)], lambda: shards[:, 0],  # type: ignore[index]
        lambda: shards[np.zeros((1, 1), int)], lambda: shards[np.array([0.5])],
    ):  # fmt: skip
        with pytest.raises(TypeError, match="shards"):
            use()
    with pytest.raises(IndexError, match="rows 0 to 4 of 4"):
        shards[np.array([0, 4])]
    with pytest.raises(IndexError, match="mask"):
        shards.take([True])


@pytest.mark.parametrize(("suffix", "kind"), [
    (".fbin", "<f4"), (".ibin", "<i4"), (".u8bin", "u1"), (".i8bin", "i1"),
])  # fmt: skip
def test_files_with_a_header_of_two_numbers(tmp_path: Path, suffix: str, kind: str) -> None:
    whole = np.arange(1, 13).reshape(6, 2).astype(kind)
    paths = cut(whole, tmp_path, [1, 4], suffix)
    assert np.array_equal(Shards(paths)[:], whole)
    scores = rve.Embeddings(whole, tmp_path)
    assert np.array_equal(scores.gallery[1:5], whole[1:5])
    assert scores.gallery.dtype == kind
    assert scores.fingerprint() == rve.Embeddings(whole, whole.copy()).fingerprint()
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    with pytest.raises(FormatError, match=rf"part9\{suffix}: .* promises 3 rows.* has 2 "):
        Shards(paths)
    paths[1].write_bytes(b"1234")
    with pytest.raises(FormatError, match=r"has 4 bytes and so no header"):
        Shards(paths)


VECS = {".fvecs": "<f4", ".ivecs": "<i4", ".bvecs": "u1"}


@pytest.mark.parametrize(("suffix", "kind"), VECS.items())
@pytest.mark.parametrize("metric", ["cosine", "euclidean", "cityblock"])
def test_vectors_after_their_dimension_rank_as_one_array(
    tmp_path: Path, suffix: str, kind: str, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file or three, read in pieces of one row, a few or all: as .npy, to the bit."""
    world = World(3, n_query=24, n_gallery=200)
    query, gallery = (
        np.clip(side * 40 + 60, 1, 120).astype(kind) for side in (world.query, world.gallery)
    )
    np.save(tmp_path / "g.npy", gallery)
    wanted = rve.rank(rve.Embeddings(query, tmp_path / "g.npy", metric), world.relevance(), top_k=3)
    for piece, cuts, workers, memory in (
        (1, [], 1, "40KiB"), (999, [1, 70], 3, "100KiB"), (1 << 20, [199], 2, "512MiB"),
    ):  # fmt: skip
        monkeypatch.setattr("reid_vpr_eval.scores.files._PIECE", piece)
        folder = tmp_path / str(workers)
        files = rve.Embeddings(cut(query, folder / "q", [7], suffix),
                               cut(gallery, folder / "g", cuts, suffix), metric)  # fmt: skip
        assert files.gallery.dtype == gallery.dtype
        assert files.fingerprint() == rve.Embeddings(query, gallery, metric).fingerprint()
        found = rve.rank(files, world.relevance(), workers=workers, memory=memory, top_k=3)
        same(found, wanted)
        assert np.array_equal(found.top_item, wanted.top_item)
    again = pickle.loads(pickle.dumps(files.gallery))  # noqa: S301 (made the line before)
    assert np.array_equal(again[100:], gallery[100:])


@pytest.mark.parametrize("suffix", VECS)
def test_vectors_after_their_dimension_that_are_refused(tmp_path: Path, suffix: str) -> None:
    whole = np.arange(60).reshape(20, 3).astype(VECS[suffix])
    row = 4 + whole[0].nbytes
    (path,) = cut(whole, tmp_path, [], suffix)
    stored = path.read_bytes()
    assert np.array_equal(read_features(path)[:], whole)

    def refused(content: bytes, says: str) -> None:
        path.write_bytes(content)
        with pytest.raises(FormatError, match=rf"part8\{suffix}: {says}"):
            rve.Embeddings(whole + whole.dtype.type(1), path)

    refused(stored[:-1], rf"begins with the dimension 3, .* {row} bytes, .*19 rows and {row - 1} ")
    refused(stored + b"12", r".* are 20 rows and 2 bytes more: it is cut off, or no ")
    refused(b"12", "has 2 bytes and so no header")
    refused(b"\0" * 4 + stored[4:], rf"begins with the dimension 0, so it is no {suffix} file")
    refused(b"\xff" * 4 + stored[4:], "begins with the dimension -1, so")
    wrong = stored[: 11 * row] + b"\4" + stored[11 * row + 1 :]
    refused(wrong, "row 11 begins with the dimension 4, the first row with 3: bytes are missing")
    path.write_bytes(wrong)
    assert np.array_equal(Shards(path)[:11], whole[:11])  # rows are checked where they are read
    for rows in (slice(9, 12), np.array([12, 10]), np.array([11])):
        with pytest.raises(FormatError, match="row 11 begins with the dimension 4"):
            Shards(path)[rows]


def test_bad_numbers_after_a_dimension_are_named(tmp_path: Path) -> None:
    vectors = WHOLE.copy()
    vectors[[2, 17]] = np.nan
    files = cut(vectors, tmp_path, [10], ".fvecs")
    with pytest.raises(ScoreError, match=r"2 of 20 rows \(rows 2, 17: .*part8\.fvecs row 2, "
                                         r".*part9\.fvecs row 7\)"):  # fmt: skip
        rve.Embeddings(WHOLE, files)
    np.save(tmp_path / "part10.npy", WHOLE)  # kinds may be mixed where their types agree
    assert np.array_equal(Shards(tmp_path)[20:], WHOLE)


def test_large_files_are_shards_and_small_ones_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.npy"
    np.save(path, np.ones((3, 2)))
    assert isinstance(rve.Embeddings(path, str(path)).query, np.ndarray)
    assert isinstance(read_features(path), np.ndarray)
    monkeypatch.setattr("reid_vpr_eval.scores.files._LOADED", path.stat().st_size)
    assert isinstance(rve.Embeddings(path, str(path)).gallery, Shards)
    assert isinstance(read_features(path), Shards)
    one = rve.Embeddings(same_path := str(path), same_path)
    assert one.query is one.gallery


# --- the same ranking, to the bit --------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        pytest.param(metric, kind, marks=() if metric in METRICS[:5] or kind == "uint8"
                     else pytest.mark.slow)
        for metric in METRICS for kind in ("float16", "float32", "float64", "int8", "uint8")
    ],
)  # fmt: skip
def test_rankings_are_the_same_to_the_bit(tmp_path: Path, kind: str, metric: str) -> None:
    if metric == "hamming" and kind != "uint8":
        pytest.skip("codes are bytes")
    world = World(3, n_query=24, n_gallery=200)
    scale, shift, least = (40, 60, 1) if kind == "uint8" else (25, 0, -120)
    if metric == "jensenshannon":
        shift, least = 60, 1
    if metric in _OF_BOOLEANS:
        scale, shift, least = 1, 0, 0
    query, gallery = (
        np.clip(side * scale + shift, least, 120).astype(kind)
        for side in (world.query, world.gallery)
    )
    if metric in _OF_BOOLEANS:
        query, gallery = (query > 0).astype(kind), (gallery > 0).astype(kind)
    gallery[~gallery.any(axis=1), :3] = 1
    query[~query.any(axis=1), :3] = 1
    one = rve.Embeddings(query, gallery, metric)
    options: dict[str, Any] = {"top_k": 3, "strata": world.strata}
    wanted = rve.rank(one, world.relevance(), **options)
    for cuts, workers, memory in (
        ([], 1, "40KiB"), ([1], 3, "1MiB"), ([90, 91, 199], 2, "512MiB"),
    ):  # fmt: skip
        folder = tmp_path / str(workers)
        files = rve.Embeddings(cut(query, folder / "q", [7]), cut(gallery, folder / "g", cuts),
                               metric)  # fmt: skip
        assert isinstance(files.gallery, Shards)
        assert files.fingerprint() == one.fingerprint()
        found = rve.rank(files, world.relevance(), workers=workers, memory=memory, **options)
        same(found, wanted)
        assert found.top_item is not None
        assert wanted.top_item is not None
        assert np.array_equal(found.top_item, wanted.top_item)


def test_queries_are_read_a_block_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(5, n_query=400, n_gallery=300, dim=64)
    files = rve.Embeddings(cut(world.query, tmp_path / "q", [250]),
                           cut(world.gallery, tmp_path / "g", [100, 200]))  # fmt: skip
    largest = 0
    read = Shards.__getitem__

    def watched(self: Shards, rows: Any) -> Array:
        nonlocal largest
        found = read(self, rows)
        if "/q/" in self.files[0].path:
            largest = max(largest, len(found))
        return found

    monkeypatch.setattr(Shards, "__getitem__", watched)
    found = rve.rank(files, world.relevance(), memory="160KiB", workers=1)
    assert 0 < largest < 200
    same(found, rve.rank(world.scores(), world.relevance()))


def test_one_object_on_both_sides(tmp_path: Path) -> None:
    vectors = World(1, n_query=2, n_gallery=500).gallery
    shards = Shards(cut(vectors, tmp_path, [77]))
    label = rve.Samples.from_columns(label=np.arange(500) % 9)
    relevance = rve.relevance.same_label(label, label)
    same(rve.rank(rve.Embeddings(shards, shards), relevance),
         rve.rank(rve.Embeddings(vectors, vectors), relevance))  # fmt: skip


def test_threads_and_other_processes_read_the_files_themselves(tmp_path: Path) -> None:
    vectors = np.arange(4000.0).reshape(1000, 4)
    shards = Shards(cut(vectors, tmp_path, [10, 500]))
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda at: shards[at : at + 7], range(0, 990, 3)))
    assert all(np.array_equal(part, vectors[3 * i : 3 * i + 7]) for i, part in enumerate(parts))
    part = shards.take(np.arange(999, 0, -2)).replaced(np.arange(500) % 5 == 0, np.ones(4))
    scores = rve.Embeddings(vectors[1:], part)
    stored = pickle.dumps(scores.gallery)
    assert len(stored) < 8 * 500 + 1000 + 4000  # positions and a mask, no vectors
    code = "import pickle, sys; sys.stdout.buffer.write(pickle.load(sys.stdin.buffer)[:].tobytes())"
    done = subprocess.run([sys.executable, "-c", code], input=stored, capture_output=True,
                          check=True, cwd="/", env={**os.environ, "PYTHONPATH": PACKAGE})
    assert done.stdout == part[:].tobytes()


# --- everything that looks at vectors ----------------------------------------------------------


def test_taking_rows_reads_nothing(tmp_path: Path) -> None:
    vectors = World(2).gallery
    files = rve.Embeddings(vectors, cut(vectors, tmp_path, [50]))
    for path in tmp_path.iterdir():
        path.unlink()
    taken = files.take([3, 1], np.arange(90) % 2 == 0)
    assert isinstance(taken.gallery, Shards)
    assert (taken.n_query, taken.n_gallery) == (2, 45)
    assert files.take_queries(slice(2, 7)).n_query == 5
    with pytest.raises(InputNotFoundError, match=r"part8\.npy: is gone since it was opened"):
        taken.gallery[:1]
    with pytest.raises(ScoreError, match="gallery side is empty"):
        files.take([1], np.zeros(90, bool))
    with pytest.raises(ScoreError, match=r"not copied into one \.npz"):
        files.save(tmp_path / "copy.npz")


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_bad_vectors_stand_last(tmp_path: Path, metric: str) -> None:
    world = World(4)
    world.gallery[3], world.gallery[70] = np.nan, 0
    world.query[5, 2] = np.inf
    one = rve.Embeddings(world.query, world.gallery, metric, bad_vectors="last")
    files = rve.Embeddings(cut(world.query, tmp_path / "q", [3]),
                           cut(world.gallery, tmp_path / "g", [60]), metric,
                           bad_vectors="last")  # fmt: skip
    assert files.fingerprint() == one.fingerprint()
    rows, items = np.arange(11, 2, -1), np.arange(89, 0, -1)
    for a, b in ((one, files), (one.take(rows, items), files.take(rows, items))):
        assert a.fingerprint() == b.fingerprint()
        relevance = rve.Relevance.from_pairs([0, 2], [8, 19], n_query=a.n_query,
                                             n_gallery=a.n_gallery)  # fmt: skip
        same(rve.rank(a, relevance), rve.rank(b, relevance))


def test_pooled_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(6, n_query=200)
    samples = rve.Samples.from_columns(label=np.arange(200) % 23)
    monkeypatch.setattr("reid_vpr_eval.alignment._POOLED_AT_ONCE", 1 << 40)
    ours, wanted = pool_queries(samples, world.scores("dot"), ["label"])
    monkeypatch.setattr("reid_vpr_eval.alignment._POOLED_AT_ONCE", 90)
    files = rve.Embeddings(cut(world.query, tmp_path, [20]), world.gallery, "dot")
    theirs, found = pool_queries(samples, files, ["label"])
    assert np.array_equal(found.query, wanted.query)
    assert theirs.fingerprint() == ours.fingerprint()
    every = [world.query[np.arange(200) % 23 == label].astype(float).mean(0) for label in range(23)]
    assert np.allclose(wanted.query, every, rtol=1e-6, atol=1e-6)


def test_checks_and_evaluations_say_the_same(tmp_path: Path) -> None:
    world = World(8, n_query=30, n_gallery=200)
    rng = np.random.default_rng(0)
    query = rve.Samples.from_columns(label=rng.integers(0, 6, 30), camera=rng.integers(0, 3, 30))
    gallery = rve.Samples.from_columns(
        label=rng.integers(0, 6, 200), camera=rng.integers(0, 3, 200), split=["a", "b"] * 100
    )
    protocol = Protocol.from_dict({"name": "small", "relevance": {"kind": "label"}})
    files = rve.Embeddings(cut(world.query, tmp_path / "q", [7]),
                           cut(world.gallery, tmp_path / "g", [7, 150]))  # fmt: skip
    scores = world.scores()
    assert (check(protocol, query, gallery, scores=files).warnings
            == check(protocol, query, gallery, scores=scores).warnings)  # fmt: skip
    assert np.array_equal(without_doubles(files, gallery), without_doubles(scores, gallery))
    half = Protocol.from_dict(
        {"name": "half", "relevance": {"kind": "label"}, "gallery": {"where": {"split": "a"}}}
    )
    for one in (protocol, half):
        found, wanted = (evaluate(one, query, gallery, each) for each in (files, scores))
        assert found.metrics == wanted.metrics
        assert found.inputs == wanted.inputs
    with pytest.warns(EvaluationWarning, match="the same vectors row by row"):
        evaluate(protocol, gallery, rve.Samples(gallery.table), rve.Embeddings(
            world.gallery, cut(world.gallery, tmp_path / "again", [3])))  # fmt: skip


# --- what is refused ---------------------------------------------------------------------------

WHOLE = np.arange(1.0, 61.0, dtype=np.float32).reshape(20, 3)


def _missing(path: Path) -> None:
    path.unlink()


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-13])


def _more(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"1234567890123")


def _garbage(path: Path) -> None:
    path.write_bytes(b"no array at all")


def _saved(array: Any) -> Callable[[Path], None]:
    return lambda path: np.save(path, array, allow_pickle=True)


def _bad_row(value: float) -> Callable[[Path], None]:
    vectors = WHOLE[10:].copy()
    vectors[[2, 7]] = value
    return _saved(vectors)


BAD: list[tuple[Callable[[Path], None], type[ReidVprEvalError], str]] = [
    (_missing, InputNotFoundError, r"part9\.npy: no such file"),
    (_cut_off, FormatError, r"part9\.npy: its header promises 10 rows, but the file has 8 \(235"),
    (_more, FormatError, r"part9\.npy: its header promises 10 rows, .* 11 .*more behind"),
    (_garbage, FormatError, r"part9\.npy: cannot be read as a \.npy array"),
    (_saved(WHOLE[:, :2].copy()), AlignmentError, r"part9.* of 2 numbers .*part8.* of 3 "),
    (_saved(WHOLE.astype("f2")), AlignmentError, r"part9.*float16, .*part8\.npy.*float32"),
    (_saved(np.asfortranarray(WHOLE)), FormatError, r"part9\.npy: is in Fortran order"),
    (_saved(np.array([[{}]], object)), FormatError, r"part9\.npy: holds Python objects"),
    (_saved(WHOLE.astype(complex)), ScoreError, r"part9\.npy: has the type complex128"),
    (_saved(WHOLE[:0]), ScoreError, r"part9\.npy: is empty, of the shape \(0, 3\)"),
    (_saved(WHOLE[0]), ScoreError, r"part9\.npy: has the shape \(3,\)"),
    (_bad_row(np.nan), ScoreError, r"gallery features: values are NaN or infinite in 2 of 20 rows "
     r"\(rows 12, 17: \S*part9\.npy row 2, \S*part9\.npy row 7\)"),
    (_bad_row(-np.inf), ScoreError, r"NaN or infinite in 2 of 20 rows \(rows 12, 17: "),
    (_bad_row(0), ScoreError, r"gallery features: 2 vectors are zero \(rows 12, 17: \S*part9"),
]  # fmt: skip
NAMES = [f"{i}-{says[:24]}" for i, (_, _, says) in enumerate(BAD)]


@pytest.mark.parametrize(("spoil", "kind", "says"), BAD, ids=NAMES)
def test_bad_shards_are_refused(
    tmp_path: Path, spoil: Callable[[Path], None], kind: type[ReidVprEvalError], says: str
) -> None:
    paths = cut(WHOLE, tmp_path, [10])
    assert rve.Embeddings(WHOLE, paths).n_gallery == 20
    spoil(paths[1])
    with pytest.raises(kind, match=says):
        rve.Embeddings(WHOLE, paths)


def test_bad_rows_are_found_in_every_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reid_vpr_eval.scores.arrays._CHECKED_AT_ONCE", 12)
    vectors = WHOLE.copy()
    vectors[[0, 9, 19], 1] = np.nan
    with pytest.raises(ScoreError, match=r"rows 0, 9, 19: .*part8.* row 0, .* row 4, .* row 9\)"):
        rve.Embeddings(WHOLE, cut(vectors, tmp_path, [5, 10]))
    with pytest.raises(ScoreError, match=r"rows 0, 9, 19: .*part8.* row 0, .* row 4, .* row 9\)"):
        rve.Embeddings(cut(vectors, tmp_path, [5, 10]), WHOLE)


def test_lists_that_are_refused(tmp_path: Path) -> None:
    paths = cut(WHOLE, tmp_path, [10])
    (tmp_path / "z.npy").symlink_to(paths[0])
    with pytest.raises(AlignmentError, match=r"z\.npy: is named twice \(also as .*part8\.npy\)"):
        rve.Embeddings(WHOLE, tmp_path)
    with pytest.raises(ScoreError, match="a list of files of vectors is empty"):
        Shards([])
    (tmp_path / "nothing").mkdir()
    with pytest.raises(FormatError, match=r"nothing: holds no files of vectors \(\.npy, "):
        rve.Embeddings(WHOLE, tmp_path / "nothing")
    np.savez(tmp_path / "a.npz", a=WHOLE)
    with pytest.raises(FormatError, match=r"blocks from \.npy.*, not from \.npz"):
        Shards([paths[0], tmp_path / "a.npz"])


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4)


def _touch(path: Path) -> None:
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))


@pytest.mark.parametrize("spoil", [_truncate, _more, _touch])
@pytest.mark.parametrize("side", ["query", "gallery"])
def test_a_file_that_changes_after_it_was_opened(
    tmp_path: Path, spoil: Callable[[Path], None], side: str
) -> None:
    paths = cut(WHOLE, tmp_path, [10])
    sides = (paths, WHOLE) if side == "query" else (WHOLE, paths)
    scores = rve.Embeddings(*sides)
    relevance = rve.Relevance.from_pairs([0], [1], n_query=20, n_gallery=20)
    rve.rank(scores, relevance)
    spoil(paths[1])
    with pytest.raises(FormatError, match=r"part9\.npy: was changed while it was in use"):
        rve.rank(scores, relevance)


def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were read before the change was noticed are not handed out."""
    paths = cut(WHOLE, tmp_path, [10])
    shards = Shards(paths)
    read = type(shards.files[0]).read

    def and_write(self: Any, *given: Any) -> None:
        read(self, *given)
        _touch(paths[0])

    monkeypatch.setattr(type(shards.files[0]), "read", and_write)
    with pytest.raises(FormatError, match=r"part8\.npy: was changed"):
        shards[:3]


# --- the command line --------------------------------------------------------------------------

TOML = 'name = "small"\n[relevance]\nkind = "label"\n[report]\nmetrics = ["mAP"]\n'


class Shell:
    """A folder with a protocol, both tables and files of features."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "p.toml").write_text(TOML)
        label = "label,split\n" + "".join(f"{row % 4},{'ab'[row % 2]}\n" for row in range(20))
        for side in ("q.csv", "g.csv"):
            (folder / side).write_text(label)
        np.save(folder / "whole.npy", WHOLE)
        self.paths = cut(WHOLE, folder / "parts", [10])

    def run(self, features: object, command: str = "run", *more: str) -> Any:
        name = self.folder
        return CliRunner().invoke(
            app,
            [command, str(name / "p.toml"), "--query", str(name / "q.csv"), "--gallery",
             str(name / "g.csv"), "--query-features", str(name / "whole.npy"),
             "--gallery-features", str(features), *more],
        )  # fmt: skip


@pytest.mark.parametrize("where", ["", '[gallery]\nwhere = { split = "a" }\n'])
def test_shards_on_the_command_line(tmp_path: Path, where: str) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "p.toml").write_text(TOML + where)
    parts = tmp_path / "parts"
    wanted = shell.run(tmp_path / "whole.npy")
    assert wanted.exit_code == 0, wanted.output
    for features in (parts, parts / "part*.npy", ",".join(map(str, shell.paths)),
                     f"{parts / 'part8.npy'}, {parts}/*9.npy"):  # fmt: skip
        done = shell.run(features)
        assert done.exit_code == 0, done.output
        assert done.stdout == wanted.stdout
    checked = [shell.run(features, "check").stdout for features in (tmp_path / "whole.npy", parts)]
    assert checked[0] == checked[1]
    assert "n_gallery" in checked[0]


def test_doubles_in_shards_are_dropped_on_the_command_line(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    np.save(shell.paths[1], WHOLE[[0, 3, 0, 5, *range(14, 20)]])  # labels 2, 3, 0, 1, 2 ...
    twice = np.concatenate([np.load(path) for path in shell.paths])
    np.save(tmp_path / "twice.npy", twice)
    done, wanted = (shell.run(features, "check", "--dedup")
                    for features in (tmp_path / "parts", tmp_path / "twice.npy"))  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.stdout == wanted.stdout
    assert done.stdout.startswith("dropped 3 gallery rows")  # row 10 has another label than row 0


@pytest.mark.parametrize("kind", [np.int64, np.str_])
def test_equal_values_of_both_sides(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """Two values are equal exactly if their numbers are, in every block of the gallery."""
    monkeypatch.setattr("reid_vpr_eval.relevance.pairing._ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    for n_query, n_gallery, n_values in ((1, 1, 1), (9, 50, 12), (40, 33, 200), (5, 70, 3)):
        ours: Array = rng.integers(-2, n_values, n_query).astype(kind)
        theirs: Array = rng.integers(0, n_values + 5, n_gallery).astype(kind)
        left, right = codes(rve.Samples({"label": ours}), rve.Samples({"label": theirs}), "label")
        assert np.array_equal(left[:, None] == right, ours[:, None] == theirs)
        assert np.array_equal(left[:, None] == left, ours[:, None] == ours)
        assert left.min() >= 0


@pytest.mark.parametrize(("spoil", "says"), [(one[0], one[2]) for one in BAD], ids=NAMES)
def test_bad_shards_on_the_command_line(
    tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    shell = Shell(tmp_path)
    spoil(shell.paths[1])
    done = shell.run(",".join(map(str, shell.paths)))
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert re.search(says, done.stderr), done.stderr


def test_features_that_do_not_fit_the_table(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    done = shell.run(shell.paths[0])
    assert done.exit_code == 1
    assert "10 feature vectors, but" in done.stderr
    assert "exchanged" not in done.stderr
    (tmp_path / "q.csv").write_text("label\n" + "1\n" * 10)
    np.save(tmp_path / "whole.npy", WHOLE[:10])
    np.save(tmp_path / "ten.npy", WHOLE[:10])
    done = shell.run(tmp_path / "ten.npy")
    assert "has 20 gallery samples" in done.stderr
    assert "are the two sides exchanged?" in done.stderr
    (tmp_path / "q.csv").write_text((tmp_path / "g.csv").read_text())
    np.save(tmp_path / "whole.npy", WHOLE)
    vectors = cut(WHOLE, tmp_path, [], ".fvecs")[0]
    done = CliRunner().invoke(app, ["run", str(tmp_path / "p.toml"), "--query", str(vectors)])
    assert "holds vectors alone, and no samples: give it as features" in done.stderr
    done = shell.run(f"{tmp_path}/parts/none*.npy")
    assert done.exit_code == 1
    assert "no file fits this pattern" in done.stderr
    done = shell.run(f"{shell.paths[0]},{tmp_path}/parts/lost.npy")
    assert done.exit_code == 1
    assert "lost.npy: no such file" in done.stderr


# --- memory ------------------------------------------------------------------------------------

MEASURED = """
import sys
import numpy as np
import reid_vpr_eval as rve

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024

folder = sys.argv[1]
rng = np.random.default_rng(1)
query = rve.Samples.from_columns(label=np.arange(200))
few = rve.Samples.from_columns(label=np.arange(50))
rank = lambda scores, ours, theirs: rve.rank(
    scores, rve.relevance.same_label(ours, theirs), memory="64MiB", workers=2)
small = rng.normal(size=(50, 512)).astype(np.float32)
rank(rve.Embeddings(small, small.copy()), few, few)  # what is imported is not data
before = peak()
scores = rve.Embeddings([folder + "/part0.npy"], folder).take(
    np.arange(200), np.ones(200_000, bool))
gallery = rve.Samples.from_columns(label=np.arange(200_000) % 4000)
rank(scores, query, gallery)
scores.fingerprint()
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_a_gallery_is_never_in_memory(tmp_path: Path) -> None:
    """400 MB of vectors are checked, ranked and hashed with 64 MiB of working memory."""
    rng = np.random.default_rng(0)
    for number in range(4):
        np.save(tmp_path / f"part{number}.npy", rng.standard_normal((50_000, 512), np.float32))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": PACKAGE, "RVE_KERNELS": "numpy"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 160, "MiB more than before"
