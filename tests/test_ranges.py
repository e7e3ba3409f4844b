"""Range search against recorded cases of another tool, and properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reid_vpr_eval as rve
from reid_vpr_eval.metrics.ranges import RangeSearchScores, range_search_scores
from shared_inputs import oracle


def test_range_average_precision_of_big_ann() -> None:
    cases = oracle("bigann_range_ap.json")["cases"]
    assert len(cases) == 3
    for case in cases:
        sides = case["res_ids"], case["gt"], case["res_dist"]
        assert range_search_scores(*sides, ap="big-ann").average_precision == pytest.approx(
            case["ap"], abs=1e-15
        )
        exact = range_search_scores(*sides).average_precision
        assert exact == pytest.approx(literal_ap(*sides), abs=1e-15)


def literal_ap(found: Any, truth: Any, distances: Any) -> float:
    """Average precision by trying every threshold in turn."""
    pooled = [(d, i in set(row_truth)) for row, row_truth, away in
              zip(found, truth, distances, strict=True)
              for i, d in zip(row, away, strict=True)]  # fmt: skip
    n_truth = sum(len(set(row)) for row in truth)
    if not n_truth or not pooled:
        return float(not n_truth and not pooled)
    total, before = 0.0, 0.0
    for threshold in sorted({d for d, _ in pooled}):
        inside = [right for d, right in pooled if d <= threshold]
        recall = sum(inside) / n_truth
        total += (recall - before) * sum(inside) / len(inside)
        before = recall
    return total


def test_precision_and_recall_of_ranges() -> None:
    scores = range_search_scores(
        [[1, 2, 3, 4], [], [], [5], [7, 7, -1]], [[1, 9], [], [6], [], [7, 8]]
    )
    assert isinstance(scores, RangeSearchScores)
    assert scores.per_query_precision.tolist() == [0.25, 1, 1, 0, 1]
    assert scores.per_query_recall.tolist() == [0.5, 1, 0, 0, 0.5]
    assert scores.precision == 2 / 6
    assert scores.recall == 2 / 5
    assert scores.macro_precision == pytest.approx(0.65)
    assert scores.macro_recall == pytest.approx(0.4)
    assert scores.average_precision is None


def test_ranges_without_any_result_or_truth() -> None:
    nothing = range_search_scores([[], []], [[], []], [[], []])
    assert (nothing.precision, nothing.recall, nothing.average_precision) == (1, 1, 1)
    assert range_search_scores([[]], [[]], [[]], ap="big-ann").average_precision == 0
    short = range_search_scores([[]], [[1]], [[]])
    assert (short.precision, short.recall, short.average_precision) == (1, 0, 0)
    wrong = range_search_scores([[1]], [[]], [[0.5]])
    assert (wrong.precision, wrong.recall, wrong.average_precision) == (0, 0, 0)
    printed = range_search_scores([[1, 2]], [[]], [[0.0, 0.5]], ap="big-ann")
    assert printed.average_precision == -0.5


def test_arrays_as_faiss_returns_them() -> None:
    lims, ids = np.array([0, 2, 2, 5]), np.array([3, 1, 0, 4, 2])
    away = np.array([0.1, 0.4, 0.2, 0.2, 0.3], np.float32)
    rows, distances = np.split(ids, lims[1:-1]), np.split(away, lims[1:-1])
    scores = range_search_scores(rows, [[3], [7], [4, 2]], distances)
    assert (scores.precision, scores.recall) == (3 / 5, 3 / 4)
    assert scores.average_precision == pytest.approx((1 + 2 / 3 + 3 / 4) / 4)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 9), st.integers(0, 5), max_size=7),
            st.sets(st.integers(0, 9), max_size=6),
        ),
        min_size=1,
        max_size=4,
    ),
    st.permutations(range(10)),
    st.randoms(use_true_random=False),
)
def test_properties_of_range_scores(
    queries: list[tuple[dict[int, int], set[int]]], rename: list[int], random: Any
) -> None:
    found = [list(row) for row, _ in queries]
    away = [list(row.values()) for row, _ in queries]
    truth = [sorted(row) for _, row in queries]
    scores = range_search_scores(found, truth, away)
    numbers = vector(scores)
    assert ((numbers >= 0) & (numbers <= 1)).all()
    assert numbers[4] == pytest.approx(literal_ap(found, truth, away), abs=1e-12)
    big = range_search_scores(found, truth, away, ap="big-ann").average_precision
    assert big is not None
    assert 0 <= big <= 1 or not any(truth)
    shuffled = [random.sample(list(row.items()), len(row)) for row, _ in queries]
    other = range_search_scores(
        [[rename[i] for i, _ in row] for row in shuffled],
        [[rename[i] for i in row] for row in truth], [[d for _, d in row] for row in shuffled],
    )  # fmt: skip
    assert np.allclose(vector(other), numbers, atol=1e-12)
    doubled = range_search_scores(
        [row + row for row in found], truth, [row + [d + 1 for d in row] for row in away]
    )
    assert vector(doubled).tolist() == numbers.tolist()


def vector(scores: RangeSearchScores) -> npt.NDArray[np.float64]:
    assert scores.average_precision is not None
    return np.array([
        scores.precision, scores.recall, scores.macro_precision, scores.macro_recall,
        scores.average_precision,
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[1]], [[1], [2]]), rve.AlignmentError, "1 found rows for 2 rows of truth"),
        (([["a"]], [[1]]), rve.AlignmentError, "'7' is not 7"),
        (([[1]], [[1]], [[0.1, 0.2]]), rve.AlignmentError, "query 0 has 2 distances for 1 items"),
        (([[1]], [[1]], []), rve.ScoreError, "no queries"),
        (([[1]], [[1]], [[np.nan]]), rve.ScoreError, "found distances of query 0"),
        (([[1]], [[1]], [[np.inf]]), rve.ScoreError, "query 0 has an item with an infinite"),
        (([[0.5]], [[1]]), rve.ScoreError, "found ids of query 0 are not all whole"),
    ],
)
def test_bad_ranges(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        range_search_scores(*arguments)
    with pytest.raises(rve.NotCountedError, match="ap = 'area'"):
        range_search_scores([[1]], [[1]], ap="area")  # type: ignore[arg-type]
