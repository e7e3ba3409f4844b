"""The order of judged pairs, however they are sorted, and what is read of the first ones."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.metrics import compute
from reid_vpr_eval.metrics.reading import Reading, shared_readings
from reid_vpr_eval.ranking.judged import Judged, order_of
from reid_vpr_eval.ranking.kernels import plain
from reid_vpr_eval.ranking.schedule import Sizes
from test_engine import World


@pytest.mark.parametrize("distinct", [3, 1 << 40])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("form", ["list by list", "all at once", "compiled"])
def test_pairs_are_sorted_by_score_and_then_by_tie_order(
    distinct: int, workers: int, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long lists, empty ones and one of a single pair."""
    kernels: Any = pytest.importorskip("reid_vpr_eval.ranking.kernels.compiled") if (
        form == "compiled") else plain
    monkeypatch.setattr(plain, "_LONG_LISTS", 0 if form == "list by list" else 1 << 30)
    monkeypatch.setattr("reid_vpr_eval.ranking.judged._PAIRS_AT_ONCE", 100)
    rng = np.random.default_rng(distinct % 97)
    sizes = np.array([0, 70, 1, 0, 90, 260, 8, 0])
    offsets = np.r_[0, np.cumsum(sizes)]
    n = int(offsets[-1])
    query = np.repeat(np.arange(len(sizes)), sizes)
    item = np.concatenate([np.sort(rng.choice(300, size, replace=False)) for size in sizes])
    score = rng.integers(distinct, size=n) / 7.0
    score[rng.random(n) < 0.1] = -np.inf
    score[rng.random(n) < 0.1] = -0.0
    tie = rng.permutation(300)
    pairs = Judged(offsets, item.astype(np.int64), np.zeros(n, np.int8), np.zeros(n))
    order, group = order_of(pairs, score, tie, kernels, workers)
    right = sorted(range(n), key=lambda p: (query[p], -score[p], tie[item[p]]))
    for i in range(len(sizes)):
        own = right[offsets[i] : offsets[i + 1]]
        assert order[own].tolist() == list(range(len(own)))
        values = sorted({score[p] for p in own}, reverse=True)
        assert [values.index(score[p]) for p in own] == group[own].tolist()


def test_very_many_queries_are_sorted_as_few_are() -> None:
    """Numbers of queries beyond 16 and 32 bits."""
    rng = np.random.default_rng(1)
    query = rng.integers(0, 3, 500) * (1 << 16) + rng.integers(0, 3, 500)
    for shift in (0, 14, 31):
        given = query << shift
        assert plain._stable(given).tolist() == np.argsort(given, kind="stable").tolist()
    assert not len(plain._stable(query[:0]))


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("seed", [3, 17])
def test_only_what_stands_before_the_best_positive_is_read(
    graded: bool, backwards: bool, seed: int
) -> None:
    """The reading of the first positives is the first group of each query of the whole one."""
    world = World(seed)
    full, first = (
        rve.rank(world.scores(), world.relevance(), keep=keep)
        for keep in ("all", "first")
    )
    whole = Reading.of(full, graded=graded, backwards=backwards)
    part = Reading.of(first, graded=graded, backwards=backwards)
    leading = np.unique(whole.query, return_index=True)[1]
    for name in ("query", "before", "items", "right", "right_before"):
        assert np.array_equal(getattr(part, name), getattr(whole, name)[leading]), name
    found = np.isin(whole.group_of_found, leading)
    for name in ("index_rank", "grade"):
        assert np.array_equal(getattr(part, name), getattr(whole, name)[found]), name
    for field in dataclasses.fields(Reading):
        if field.name in ("n_positive", "n_missing", "size", "all_query", "all_grade"):
            assert np.array_equal(getattr(part, field.name), getattr(whole, field.name))


@pytest.mark.parametrize("dim", [128, 512, 2047, 2048, 4096])
def test_tiles_of_the_default_memory_leave_room_for_the_rest(dim: int) -> None:
    """Two workers: tiles, pieces of products, gallery rows in work. Well below 256 MB."""
    sizes = Sizes.of("512MiB", dim, 4, 2)
    tile = sizes.rows * sizes.columns * 4
    assert 2 * (2 * tile + sizes.columns * dim * 4) <= 140e6


@pytest.mark.parametrize("keep", ["all", "first"])
@pytest.mark.parametrize("graded", [False, True])
def test_queries_are_read_in_blocks_as_all_at_once(
    keep: Literal["all", "first"], graded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries without a judged item, and blocks of one query with many, among them."""
    world = World(5)
    ranking = rve.rank(world.scores(), world.relevance(), keep=keep)
    whole = Reading.of(ranking, graded=graded)
    for at_once in (1, 2, 7):
        monkeypatch.setattr("reid_vpr_eval.ranking.judged._PAIRS_AT_ONCE", at_once)
        part = Reading.of(ranking, graded=graded)
        for field in dataclasses.fields(Reading):
            ours, theirs = getattr(part, field.name), getattr(whole, field.name)
            assert np.array_equal(ours, theirs), field.name
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype


@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic", "index", "reversed"])
def test_metrics_are_computed_in_blocks_as_all_at_once(
    ties: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means, medians and the value of every query, to the bit."""
    world = World(5)
    ranking = rve.rank(world.scores(), world.relevance())
    names = ["mAP", "CMC@1", "CMC@5", "mINP", "R-precision", "MAP@R", "NDCG@5", "MedR", "MeanR",
             "mAP@3", "P@4", "MRR", "rsum"]  # fmt: skip
    whole = compute(ranking, names, ties=ties)
    for at_once in (1, 2, 7):
        monkeypatch.setattr("reid_vpr_eval.ranking.judged._PAIRS_AT_ONCE", at_once)
        with shared_readings() if at_once == 2 else nullcontext():
            part = compute(ranking, names, ties=ties)
            again = compute(ranking, names, ties=ties)
        for found in (part, again):
            assert dict(found) == dict(whole)
            for name in names:
                assert np.array_equal(found.per_query(name), whole.per_query(name), equal_nan=True)
