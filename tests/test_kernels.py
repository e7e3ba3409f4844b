"""The inner loops, in both forms, against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.ranking.kernels import Kernels, kernels_for

pytest.importorskip("numba")


def both() -> list[Kernels]:
    with pytest.MonkeyPatch.context() as patch:
        made = []
        for name in ("numpy", "numba"):
            patch.setenv("RVE_KERNELS", name)
            made.append(kernels_for(0))
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 2, 3, 31, 32, 33, 64, 100, 257])
def test_canonical_scores_are_the_same_bits(dim: int, dtype: type) -> None:
    rng = np.random.default_rng(dim)
    ours: npt.NDArray[Any] = rng.normal(size=(6, dim)).astype(dtype)
    theirs: npt.NDArray[Any] = rng.normal(size=(9, dim)).astype(dtype)
    row, column = rng.integers(0, 6, 40), rng.integers(0, 9, 40)
    for metric in ("dot", "sqeuclidean"):
        literal = [oracles.canonical_score(ours[r], theirs[c], metric)
                   for r, c in zip(row, column, strict=True)]  # fmt: skip
        for kernels in both():
            found = kernels.pair_scores(ours, theirs, row, column,
                                        squared_distance=metric == "sqeuclidean")  # fmt: skip
            assert found.tolist() == literal
    for kernels in both():
        unit = kernels.unit(ours)
        assert np.array_equal(unit, [oracles.normalised(vector) for vector in ours])
        assert unit.dtype == dtype
        memory = np.empty_like(unit)
        assert kernels.unit(ours, memory) is memory
        assert np.array_equal(memory, unit)


@pytest.mark.parametrize("metric", ["dot", "sqeuclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [128, 255, 256, 1024])
def test_vectors_that_are_named_often_have_the_same_scores(
    dim: int, dtype: type, metric: str
) -> None:
    """They are cut in pieces once; the order of additions stays."""
    rng = np.random.default_rng(dim)
    ours: npt.NDArray[Any] = (rng.normal(size=(5, dim)) * 2.0 ** rng.integers(-20, 20, dim)
                              ).astype(dtype)  # fmt: skip
    theirs = np.concatenate([ours[::2], rng.normal(size=(4, dim)).astype(dtype)])
    row, column = (a.ravel() for a in np.meshgrid(range(len(ours)), range(len(theirs))))
    literal = [oracles.canonical_score(ours[r], theirs[c], metric)
               for r, c in zip(row, column, strict=True)]  # fmt: skip
    for kernels in both():
        found = kernels.pair_scores(ours, theirs, row, column,
                                    squared_distance=metric == "sqeuclidean")  # fmt: skip
        assert found.tolist() == literal
        assert np.array_equal(np.signbit(found), np.signbit(literal))


@pytest.mark.parametrize("kind", ["<f4", ">f4", "f8", "f2", "i1"])
def test_some_rows_are_normalised_as_all_are(kind: str) -> None:
    """In one go, whatever the type, the order in memory and how often a row is named."""
    rng = np.random.default_rng(5)
    vectors = (rng.normal(size=(9, 70)) * 20 + 0.5).astype(kind)
    literal = np.array([oracles.normalised(vector) for vector in vectors.astype(
        np.float64 if kind == "f8" else np.float32)])  # fmt: skip
    rows = np.array([3, 0, 8, 3, 5])
    for kernels in both():
        for side in (vectors, np.asfortranarray(vectors), vectors[::2]):
            own = rows // 2 if len(side) < len(vectors) else rows
            wanted = literal[2 * own] if len(side) < len(vectors) else literal[own]
            assert np.array_equal(kernels.unit(side, None, own), wanted)
            memory = np.empty(wanted.shape, wanted.dtype)
            assert kernels.unit(side, memory, own) is memory
            assert np.array_equal(memory, wanted)


@pytest.mark.parametrize("exponent", [-149, -140, -126, -60, 0, 60, 126])
def test_lengths_neither_overflow_nor_vanish(exponent: int) -> None:
    vectors = np.array([[1.0, 1.0, 0.5, 0.0]], np.float32) * np.float32(2.0**exponent)
    if exponent == -149:
        vectors[0, 2] = 0  # the smallest number has no half
    expected = oracles.normalised(vectors[0])
    for kernels in both():
        assert np.array_equal(kernels.unit(vectors)[0], expected)


def literal_place(
    scores: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any],
    start: npt.NDArray[np.int64], axis: int,
) -> tuple[list[int], set[tuple[int, int]]]:  # fmt: skip
    """Place every score by looking at each bound of its line."""
    bins = [0] * (len(low) + len(start) - 1)
    doubtful = set()
    for (row, column), value in np.ndenumerate(scores):
        line = (row, column)[axis]
        own = range(start[line], start[line + 1])
        if any(low[k] <= value <= high[k] for k in own):
            doubtful.add((row, column))
        elif any(value > high[k] for k in own):
            bins[start[line] + line + sum(value > high[k] for k in own)] += 1
    return bins, doubtful


@pytest.mark.slow
@settings(max_examples=150)
@given(
    scores=arrays(np.int8, st.tuples(st.integers(1, 7), st.integers(1, 9)),
                  elements=st.integers(-12, 12)),
    data=st.data(),
    axis=st.sampled_from([0, 1]),
    dtype=st.sampled_from([np.float32, np.float64]),
    at_once=st.sampled_from([1, 20, 1 << 16]),
)  # fmt: skip
def test_placing_equals_its_definition(
    scores: npt.NDArray[Any], data: st.DataObject, axis: int, dtype: Any, at_once: int
) -> None:
    n_lines = scores.shape[axis]
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 14, 20]), min_size=n_lines,
                               max_size=n_lines))  # fmt: skip
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    width = data.draw(st.sampled_from([0.0, 0.4, 1.0, 3.0]))
    levels = [sorted(data.draw(st.sets(st.integers(-14, 14), min_size=n, max_size=n)))
              for n in sizes]  # fmt: skip
    threshold = np.array([level for line in levels for level in line], dtype)
    tile = scores.astype(dtype)
    tile[tile == -12] = -np.inf  # what is taken out of a tile
    tile[tile == 0] *= data.draw(st.sampled_from([1, -1]))  # a zero of either sign
    low, high = threshold - dtype(width), threshold + dtype(width)
    bins, doubtful = literal_place(tile, low, high, start, axis)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reid_vpr_eval.ranking.kernels.plain._SCORES_AT_ONCE", at_once)
        for kernels in both():
            placed = kernels.place(tile, low, high, start, axis)  # type: ignore[arg-type]
            assert set(zip(placed.row.tolist(), placed.column.tolist(), strict=True)) == doubtful
            assert len(placed.row) == len(doubtful)
            for line in range(n_lines):
                places = slice(start[line] + line + 1, start[line + 1] + line + 1)
                assert placed.bins[0][places].tolist() == bins[places]
            assert placed.best.tolist() == tile.max(axis=1 - axis).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_thresholds", [1, 2, 9, 60, 500])
@pytest.mark.parametrize("width", [0.0, 1e-3, 0.2])
@pytest.mark.parametrize("spread", ["even", "outlier", "one", "crowd"])
def test_long_rows_are_placed_as_by_definition(
    dtype: Any, n_thresholds: int, width: float, spread: str
) -> None:
    """Rows where few, many and all scores count, among thresholds that lie in any way."""
    rng = np.random.default_rng(n_thresholds)
    tile = rng.normal(size=(6, 700)).astype(dtype)
    tile[1] += 3
    tile[2] -= 2.5
    tile[:, ::9] = -np.inf
    threshold = np.sort(rng.normal(size=(6, n_thresholds)).astype(dtype))
    if spread == "outlier":
        threshold[:, -1] += dtype(1e6)
    elif spread == "one":
        threshold = threshold * dtype(1e-6)
    elif spread == "crowd":  # and scores that tie
        threshold = np.sort(np.round(threshold * 8) / 8)
        tile = np.round(tile * 8) / dtype(8)
    start = np.arange(7) * n_thresholds
    low, high = (threshold - dtype(width)).ravel(), (threshold + dtype(width)).ravel()
    bins = np.zeros((6, n_thresholds + 1), int)
    doubtful = set()
    for line in range(6):
        own = slice(start[line], start[line + 1])
        value = tile[line][:, None]
        inside = ((low[own] <= value) & (value <= high[own])).any(axis=1)
        doubtful |= {(line, column) for column in np.flatnonzero(inside).tolist()}
        above = (value > high[own]).sum(axis=1)[~inside]
        bins[line] = np.bincount(above, minlength=n_thresholds + 1)
    for kernels in both():
        placed = kernels.place(tile, low, high, start)
        assert np.array_equal(placed.bins[0].reshape(6, -1)[:, 1:], bins[:, 1:])
        assert set(zip(placed.row.tolist(), placed.column.tolist(), strict=True)) == doubtful
        assert len(placed.row) == len(doubtful)


@pytest.mark.parametrize("at_once", [700, 1 << 16])
@pytest.mark.parametrize("n_thresholds", [0, 3, 16])
def test_parts_of_a_tile_are_placed_like_tiles(
    n_thresholds: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(n_thresholds)
    tile = rng.integers(-20, 20, (5, 300)).astype(np.float32)
    edges = np.array([0, 1, 70, 200, 300])
    start = np.arange(6) * n_thresholds
    low = np.sort(rng.integers(-15, 15, (5, n_thresholds)), axis=1).ravel().astype(np.float32)
    high = low + np.float32(0.5)
    monkeypatch.setattr("reid_vpr_eval.ranking.kernels.plain._SCORES_AT_ONCE", at_once)
    for kernels in both():
        placed = kernels.place(tile, low, high, start, 0, edges)
        assert len(placed.bins) == 4
        doubtful = set(zip(placed.row.tolist(), placed.column.tolist(), strict=True))
        for part in range(4):
            own = slice(edges[part], edges[part + 1])
            alone = kernels.place(np.ascontiguousarray(tile[:, own]), low, high, start)
            assert np.array_equal(placed.bins[part], alone.bins[0])
            doubts = set(zip(alone.row.tolist(), (alone.column + own.start).tolist(), strict=True))
            assert doubts == {place for place in doubtful if own.start <= place[1] < own.stop}


def test_the_first_value_that_is_large_enough() -> None:
    rng = np.random.default_rng(3)
    size = np.array([0, 1, 5, 40, 0, 2])
    end = np.cumsum(size)
    start = end - size
    values = np.concatenate([np.sort(rng.integers(0, 9, n)) for n in size]).astype(float)
    for wanted in (-1.0, 0.0, 4.0, 4.5, 99.0):
        literal = [a + sum(value < wanted for value in values[a:b])
                   for a, b in zip(start, end, strict=True)]  # fmt: skip
        for kernels in both():
            found = kernels.bisect(values, start, end, np.full(len(size), wanted))
            assert found.tolist() == literal


@pytest.mark.parametrize("repeats", [1, 20])
def test_thresholds_at_both_ends_of_the_numbers(repeats: int) -> None:
    """As where vectors that cannot be scored stand behind all others."""
    ends = np.finfo(np.float64)
    low = np.linspace(-1, 1, 20)
    low[0], low[-1] = ends.min, ends.max
    tile = np.array([[ends.min, -1.0, -0.2, 0.3, 2.0, ends.max, -np.inf] * repeats])
    start = np.array([0, 20])
    bins, doubtful = literal_place(tile, low, low, start, 0)
    for kernels in both():
        placed = kernels.place(tile, low, low, start, 0)
        assert placed.bins[0][1:].tolist() == bins[1:]
        assert set(zip(placed.row.tolist(), placed.column.tolist(), strict=True)) == doubtful


@pytest.mark.parametrize("repeats", [1, 20])
@pytest.mark.parametrize("step", [0.0, 5e-324, 1e-310, 1e-300, 1e300])
def test_thresholds_that_are_near_or_far(step: float, repeats: int) -> None:
    """As for vectors scaled down to where numbers underflow."""
    low = np.arange(20) * step
    scores = [-step, 0.0, 3 * step, 3.5 * step, 19 * step, 25 * step, 1.0, 1e-308, -np.inf]
    tile = np.array([scores * repeats])
    start = np.array([0, 20])
    bins, doubtful = literal_place(tile, low, low, start, 0)
    for kernels in both():
        placed = kernels.place(tile, low, low, start, 0)
        assert placed.bins[0][1:].tolist() == bins[1:]
        assert set(zip(placed.row.tolist(), placed.column.tolist(), strict=True)) == doubtful


@pytest.mark.parametrize("axis", [0, 1])
def test_more_in_doubt_than_was_guessed(axis: int) -> None:
    tile = np.zeros((300, 200), np.float32)
    n_lines = tile.shape[axis]
    start = np.arange(n_lines + 1, dtype=np.int64)
    bounds = np.zeros(n_lines, np.float32)
    for kernels in both():
        placed = kernels.place(tile, bounds, bounds, start, axis)  # type: ignore[arg-type]
        assert len(placed.row) == tile.size
        assert not placed.bins.any()
        row, _ = kernels.at_least(tile, bounds, axis)  # type: ignore[arg-type]
        assert len(row) == tile.size


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("asking", [0, 1, 4])
def test_scores_that_reach_the_least(axis: int, asking: int) -> None:
    rng = np.random.default_rng(asking)
    tile = rng.integers(0, 5, (6, 5)).astype(np.float32)
    least = np.full(tile.shape[axis], np.inf, np.float32)
    least[:asking] = rng.integers(0, 5, asking)
    expected = {(r, c) for (r, c), value in np.ndenumerate(tile) if value >= least[(r, c)[axis]]}
    for kernels in both():
        row, column = kernels.at_least(tile, least, axis)  # type: ignore[arg-type]
        assert set(zip(row.tolist(), column.tolist(), strict=True)) == expected


def test_an_unknown_kind_of_loops_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RVE_KERNELS", "cython")
    with pytest.raises(NotCountedError, match="RVE_KERNELS = 'cython': one of numpy, numba"):
        kernels_for(0)


def test_numba_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RVE_KERNELS", "numba")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(NotCountedError, match=r"pip install 'reid_vpr_eval\[fast\]'"):
        kernels_for(0)


def test_small_jobs_and_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RVE_KERNELS", raising=False)
    plain, compiled = both()
    assert kernels_for(1e6) is plain
    assert kernels_for(1e12) is compiled
