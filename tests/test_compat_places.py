"""Calls of place-recognition and landmark-retrieval tools."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.compat.places import compute_recall_performance, get_validation_recalls
from reid_vpr_eval.compat.revisitop import compute_map
from shared_inputs import oracle


def case(seed: int) -> tuple[Any, Any, list[list[int]]]:
    rng = np.random.default_rng(seed)
    database, queries = rng.integers(0, 4, (9, 2)), rng.integers(0, 4, (6, 2))
    truth = [sorted(rng.choice(9, rng.integers(0, 4), replace=False).tolist()) for _ in range(6)]
    return database, queries, truth


@pytest.mark.parametrize("seed", range(30))
def test_recalls_are_those_of_a_literal_search(seed: int) -> None:
    database, queries, truth = case(seed)
    distance = ((queries[:, None] - database[None]) ** 2).sum(axis=2)
    order = np.argsort(distance, axis=1, kind="stable")
    wanted = {
        k: float(np.mean([bool(set(row[:k].tolist()) & set(right))
                          for row, right in zip(order, truth, strict=True)]))
        for k in (5, 1, 20)
    }  # fmt: skip
    found = get_validation_recalls(database, queries, [5, 1, 20], truth)
    assert found == pytest.approx(wanted)
    both = np.concatenate([database, queries])
    assert compute_recall_performance(both, 9, 6, truth, [5, 1, 20]) == found
    assert list(compute_recall_performance(both, 9, 6, truth)) == [1, 5, 10, 15]
    nearest = get_validation_recalls(database, queries, [1, 4], truth, testing=True)
    assert isinstance(nearest, np.ndarray)
    assert nearest.tolist() == order[:, :4].tolist()


def test_ties_may_be_read_as_the_expectation() -> None:
    assert get_validation_recalls(np.ones((4, 2)), np.ones((1, 2)), [1, 2], [[3]]) == {1: 0, 2: 0}
    found = get_validation_recalls(
        np.ones((4, 2)), np.ones((1, 2)), [1, 2], [[3]], ties="expected"
    )
    assert found == pytest.approx({1: 0.25, 2: 0.5})


def test_minus_one_in_the_truth_stands_for_nothing() -> None:
    found = get_validation_recalls([[0.0], [1.0]], [[0.0], [1.0]], [1], [[-1], [1]])
    assert found == {1: 0.5}


def test_nothing_is_printed_and_the_log_is_written_on_request(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    arguments = ([[0.0], [1.0]], [[0.1]], [1, 2], [[0]])
    with caplog.at_level(logging.INFO, logger="reid_vpr_eval.compat.places"):
        get_validation_recalls(*arguments, print_results=False)
        assert not caplog.messages
        get_validation_recalls(*arguments, dataset_name="mine")
        assert caplog.messages == ["mine: R@1: 100.0, R@2: 100.0"]
    assert capsys.readouterr() == ("", "")


def test_a_truth_that_does_not_fit_is_refused() -> None:
    with pytest.raises(rve.AlignmentError, match="2 lists for 1 query"):
        get_validation_recalls([[0.0]], [[0.0]], [1], [[0], [0]])
    with pytest.raises(rve.AlignmentError, match="query 0 names gallery row 5"):
        get_validation_recalls([[0.0]], [[0.0]], [1], [[5]])
    with pytest.raises(rve.AlignmentError, match="not the 3 descriptors"):
        compute_recall_performance([[0.0], [1.0], [2.0]], 1, 1, [[0]])


# revisitop


def test_every_case_of_revisitop() -> None:
    for wanted in oracle("revisitop_compute_map.json")["cases"]:
        found = compute_map(np.array(wanted["ranks"]).T, wanted["gnd"], wanted["kappas"])
        mean_ap, aps, pr, prs = found
        assert mean_ap == pytest.approx(wanted["map"], abs=1e-12)
        for values, right in ((aps, wanted["aps"]), (pr, wanted["mpr"]), (prs, wanted["prs"])):
            clean = [[np.nan] * 3 if row is None else row for row in right]
            if values is aps:
                clean = [np.nan if row is None else row for row in right]
            assert values == pytest.approx(np.array(clean, float), abs=1e-12, nan_ok=True)


def test_revisitop_shapes_without_cutoffs_and_with_short_lists() -> None:
    truth: list[dict[str, Any]] = [{"ok": [1, 3]}, {"ok": np.array([], int), "junk": [0]}]
    mean_ap, aps, pr, prs = compute_map([[1, 0], [0, 1]], truth)
    assert mean_ap == aps[0] == 0.5
    assert np.isnan(aps[1])
    assert (pr.shape, prs.shape) == ((0,), (2, 0))
    _, aps, _, prs = compute_map([[0], [2]], [{"ok": [1]}], [1, 2])
    assert aps.tolist() == [0.0]
    assert prs.tolist() == [[0.0, 0.0]]


def test_revisitop_refuses_what_it_cannot_read() -> None:
    with pytest.raises(rve.AlignmentError, match=r"\(database, queries\)"):
        compute_map([[0, 1]], [{"ok": [1]}])
    with pytest.raises(rve.RelevanceError):
        compute_map([[0], [1]], [{"ok": []}])
    with pytest.raises(rve.ScoreError, match="twice"):
        compute_map([[0], [0]], [{"ok": [0]}])
