"""Approximate neighbours against recorded cases of other tools, and properties."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reid_vpr_eval as rve
from reid_vpr_eval.metrics.neighbours import AnnRecall, ann_recall
from shared_inputs import oracle

Case = tuple[list[int], list[int], list[int]]


# --- recorded cases --------------------------------------------------------------------------


def test_what_ann_benchmarks_prints() -> None:
    cases = oracle("ann_benchmarks_recall.json")["cases"]
    assert len(cases) == 7
    for case in cases:
        sides, k = (case["run_distances"], case["true_distances"]), case["count"]
        recall = ann_recall(*sides, k, by="distance", rule="ann-benchmarks")
        assert recall == case["mean"], case["name"]
        assert np.std(recall.per_query) == case["std"]
        assert (recall.per_query * k).tolist() == case["recalls"]
        relative = ann_recall(*sides, k, by="distance", rule="ann-benchmarks-epsilon")
        assert relative == case["eps001"], case["name"]


def test_our_rule_on_the_cases_of_ann_benchmarks() -> None:
    right = [0.0, 0.5, 0.5, 1.0, 0.5, 0.0, 0.1]
    for case, wanted in zip(oracle("ann_benchmarks_recall.json")["cases"], right, strict=True):
        found, truth = case["run_distances"], case["true_distances"]
        assert ann_recall(found, truth, case["count"], by="distance") == wanted, case["name"]


def test_cases_of_big_ann() -> None:
    cases = oracle("bigann_recall_ties.json")["cases"]
    assert len(cases) == 6
    for case in cases:
        given: dict[str, Any] = {"truth_distances": [case["true_dists"]]}
        sides, k = ([case["run_ids"]], [case["true_ids"]]), case["count"]
        assert ann_recall(*sides, k, **given) == case["correct_recall"], case["name"]
        printed = ann_recall(*sides, k, rule="big-ann", **given)
        assert printed == case["bigann_recall"], case["name"]
        assert printed * k == case["bigann_hits"]


# --- nearest neighbours ----------------------------------------------------------------------


def literal_recall(run: list[int], ids: list[int], away: list[int], k: int, among: int) -> float:
    """The rule itself: strictly nearer ones, and tied ones for the places left."""
    first, last = set(run[:among]), away[k - 1]
    nearer = {i for i, d in zip(ids, away, strict=True) if d < last}
    tied = {i for i, d in zip(ids, away, strict=True) if d == last}
    return (len(first & nearer) + min(len(first & tied), k - len(nearer))) / k


@st.composite
def searches(draw: st.DrawFn) -> Case:
    """A run, maybe with repeats, and the ids and distances of true neighbours with ties."""
    n = draw(st.integers(1, 9))
    ids = draw(st.permutations(range(n)))
    away = sorted(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    return draw(st.lists(st.integers(-1, 12), max_size=14)), list(ids), away


@settings(max_examples=200, deadline=None)
@given(searches(), st.data())
def test_properties_of_recall_by_id(case: Case, data: st.DataObject) -> None:
    run, ids, away = case
    k = data.draw(st.integers(1, len(ids)))
    among = data.draw(st.integers(1, 15))
    recall = ann_recall([run], [ids], k, among=among, truth_distances=[away])
    assert 0 <= recall <= 1
    real = [i if i >= 0 else -2 for i in run]
    assert recall == literal_recall(real, ids, away, k, among)
    rename = data.draw(st.permutations(range(13)))
    other = ann_recall(
        [[rename[i] if i >= 0 else -1 for i in run]], [[rename[i] for i in ids]], k,
        among=among, truth_distances=[away],
    )  # fmt: skip
    assert other == recall
    text = ann_recall(
        [[f"n{i}" if i >= 0 else "" for i in run]], [[f"n{i}" for i in ids]], k, among=among,
        truth_distances=np.array([away], np.float32),
    )  # fmt: skip
    assert text == recall
    rest = data.draw(st.permutations(run[among:]))
    assert ann_recall([run[:among] + rest], [ids], k, among=among, truth_distances=[away]) == recall
    first = data.draw(st.permutations(run[:among]))
    assert ann_recall([first + rest], [ids], k, among=among, truth_distances=[away]) == recall
    plain = ann_recall([run], [ids], k, among=among)
    assert 0 <= plain <= recall


@settings(max_examples=200, deadline=None)
@given(searches(), st.data())
def test_by_distance_agrees_with_by_id(case: Case, data: st.DataObject) -> None:
    """For runs without repeats that return true neighbours or farther items."""
    run, ids, away = case
    run = list(dict.fromkeys(i for i in run if i >= 0))
    k = data.draw(st.integers(1, len(ids)))
    distance = dict(zip(ids, away, strict=True))
    found = [distance.get(i, 9) for i in run] + [np.inf]
    wanted = ann_recall([run], [ids], k, truth_distances=[away])
    assert ann_recall([found], [away], k, by="distance") == wanted
    assert ann_recall([found], [away], k, by="distance", epsilon=0.25) == wanted


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 9) | st.just(np.inf), max_size=9),
    st.lists(st.floats(0, 9), min_size=1, max_size=9),
    st.data(),
)
def test_recall_by_distance_is_a_share(
    found: list[float], truth: list[float], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(truth)))
    near = sorted(truth)
    ours = ann_recall([found], [near], k, by="distance")
    assert 0 <= ours <= 1
    assert ours <= ann_recall([found], [near], k, by="distance", rule="ann-benchmarks") <= 1
    assert ann_recall([near], [near], k, by="distance") == 1.0
    more = [*found[:k], *data.draw(st.permutations(found[k:]))]
    assert ann_recall([more], [near], k, by="distance") == ours


def test_recall_of_several_queries_and_depths() -> None:
    truth = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    found = np.array([[2, 1, 0], [9, 9, 3], [-1, -1, -1]])
    recall = ann_recall(found, truth, 2)
    assert recall.per_query.tolist() == [0.5, 0.0, 0.0]
    assert recall.value == recall == float(recall) == pytest.approx(1 / 6)
    assert ann_recall(found, truth, 1, among=3).per_query.tolist() == [1, 1, 0]
    assert ann_recall(found, truth, 2, among=3).per_query.tolist() == [1, 0.5, 0]
    assert ann_recall(found, truth, 3).per_query.tolist() == [1, 1 / 3, 0]
    assert ann_recall(found[:, :1], truth, 3).per_query.tolist() == [1 / 3, 0, 0]
    assert ann_recall(found.astype(np.uint8)[:2], truth[:2], 1, among=3) == 1.0
    assert ann_recall([["b"], []], [["b", "c"], ["d", "e"]], 2).per_query.tolist() == [0.5, 0]


def test_ten_copies_count_once() -> None:
    truth = [list(range(10))]
    assert ann_recall([[0] * 10], truth, 10) == 0.1
    assert ann_recall([[0, 0, 1]], truth, 2) == 0.5


def test_tolerances_and_precision() -> None:
    exact = np.array([[0.1, 0.2, 0.3]])
    assert ann_recall(exact.astype(np.float32), exact, 3, by="distance") == 1.0
    off = exact + 1e-9
    assert ann_recall(off, exact, 3, by="distance") == pytest.approx(2 / 3)
    assert ann_recall(off, exact, 3, by="distance", epsilon=1e-8) == 1.0
    near: dict[str, Any] = {"truth_distances": [[1.0, 2.0, 2.0000001]]}
    assert ann_recall([[7, 9]], [[7, 8, 9]], 2, **near) == 0.5
    assert ann_recall([[7, 9]], [[7, 8, 9]], 2, epsilon=1e-6, **near) == 1.0
    assert ann_recall([[7, 9]], [[7, 8, 9]], 2, rule="big-ann", **near) == 1.0
    assert ann_recall([[7, 9]], [[7, 8, 9]], 2, rule="big-ann", epsilon=0, **near) == 0.5
    wide: dict[str, Any] = {"by": "distance", "rule": "ann-benchmarks-epsilon"}
    assert ann_recall([[1.05]], [[1.0]], 1, **wide) == 0.0
    assert ann_recall([[1.05]], [[1.0]], 1, epsilon=0.1, **wide) == 1.0


def test_the_result_is_a_float_that_stays_as_it_is() -> None:
    recall = ann_recall([[1], [2]], [[1], [1]], 1)
    assert isinstance(recall, float)
    assert recall == 0.5
    for other in (copy.deepcopy(recall), pickle.loads(pickle.dumps(recall))):  # noqa: S301
        assert isinstance(other, AnnRecall)
        assert other.per_query.tolist() == [1, 0]
    with pytest.raises(ValueError, match="read-only"):
        recall.per_query[0] = 3
    with pytest.raises(AttributeError):
        recall.per_query = np.ones(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1]], [[1]], 0), "k = 0"),
        (([[1]], [[1]], 1.5), "k = 1.5"),
        (([[1]], [[1]], True), "k = True"),
        (([[1]], [[1]], 1, "ids"), "by = 'ids'"),
    ],
)
def test_bad_arguments(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(rve.NotCountedError, match=message):
        ann_recall(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"among": 0}, "among = 0"),
        ({"rule": "mine"}, "rule = 'mine': one of exact, ann-benchmarks"),
        ({"rule": "ann-benchmarks"}, "pass by='distance'"),
        ({"rule": "big-ann"}, "needs truth_distances"),
        ({"rule": "big-ann", "by": "distance"}, "pass by='id'"),
        ({"by": "distance", "truth_distances": [[1.0]]}, "goes with by='id'"),
        ({"epsilon": -1}, "epsilon = -1"),
        ({"epsilon": np.nan}, "epsilon = nan"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(rve.NotCountedError, match=message):
        ann_recall([[1]], [[1]], 1, **options)


@pytest.mark.parametrize(
    ("found", "truth", "distances", "error", "message"),
    [
        ([[1]], [[1, 2]], None, rve.AlignmentError, "holds 2 neighbours of query 0, but k = 3"),
        ([[1]], [[1, 2, -1]], None, rve.AlignmentError, "holds 2 neighbours of query 0"),
        ([[1], [2]], [[1, 2, 3]], None, rve.AlignmentError, "2 found rows for 1 rows of truth"),
        ([[1]], [["a", "b", "c"]], None, rve.AlignmentError, "'7' is not 7"),
        ([[1, "a"]], [[1, 2, 3]], None, rve.ScoreError, "found ids of query 0 are not all whole"),
        ([[1.5]], [[1, 2, 3]], None, rve.ScoreError, "found ids of query 0 are not all whole"),
        ([[-2]], [[1, 2, 3]], None, rve.ScoreError, "hold -2: ids count from 0"),
        ([[1]], [[1, 2, 2]], None, rve.ScoreError, "truth names an item twice for query 0"),
        (np.ones(3, int), [[1, 2, 3]], None, rve.ScoreError, r"found has the shape \(3,\)"),
        ([1, 2], [[1, 2, 3]], None, rve.ScoreError, "found: query 0 is 1: a list is needed"),
        (["ab"], [["a", "b", "c"]], None, rve.ScoreError, "found: query 0 is 'ab'"),
        ([], [], None, rve.ScoreError, "there are no queries"),
        ([[1]], [[1, 2, 3]], [[1, 3, 2]], rve.ScoreError, "query 0 do not ascend"),
        ([[1]], [[1, 2, 3]], [[1, 2]], rve.AlignmentError, "2 true distances for 3 true"),
        ([[1]], [[1, 2, 3]], [[1, 2, np.inf]], rve.AlignmentError, "2 true distances for 3 true"),
        ([[1]], [[1, 2, 3]], [[1, 2, 3]] * 2, rve.AlignmentError, "2 rows of true distances for"),
        ([[1]], [[1, 2, 3]], [["a", "b", "c"]], rve.ScoreError, "query 0 are no numbers"),
    ],
)
def test_bad_ids(
    found: Any, truth: Any, distances: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ann_recall(found, truth, 3, truth_distances=distances)


@pytest.mark.parametrize(
    ("found", "truth", "error", "message"),
    [
        ([[1.0]], [[1.0]], rve.AlignmentError, "holds 1 neighbours of query 0, but k = 2"),
        ([[1.0]], [[1.0, np.inf]], rve.AlignmentError, "holds 1 neighbours of query 0"),
        ([[np.nan]], [[1.0, 2.0]], rve.ScoreError, "found distances of query 0"),
        ([[-np.inf]], [[1.0, 2.0]], rve.ScoreError, "found distances of query 0"),
        ([[[1.0]]], [[1.0, 2.0]], rve.ScoreError, "nested lists"),
        ([[1.0]], [[2.0, 1.0]], rve.ScoreError, "for similarities pass their negatives"),
        ([[1.0]], [[1.0, 2.0]] * 2, rve.AlignmentError, "1 found rows for 2 rows of truth"),
    ],
)
def test_bad_distances(found: Any, truth: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ann_recall(found, truth, 2, by="distance")
