"""Calls of metric-learning and image-text tools."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.compat.cross_modal import (
    compute_eccv_metrics,
    compute_r_at_k,
    compute_rprecision,
    i2t,
    t2i,
)
from reid_vpr_eval.compat.metric_learning import accuracy
from reid_vpr_eval.compat.oml import calc_cmc, calc_map, calc_precision
from shared_inputs import oracle

NAMES = [
    "mean_average_precision", "mean_average_precision_at_r", "mean_reciprocal_rank",
    "precision_at_1", "r_precision",
]  # fmt: skip


def hand_case(start: str) -> Any:
    cases = oracle("pml_hand_cases.json")["cases"]
    return next(case for case in cases if case["name"].startswith(start))


def value(text: Any) -> float:
    """Work out an expected value that is written as a sum of fractions."""
    return float(eval(text)) if isinstance(text, str) else float(text)  # noqa: S307 (our own data)


# Metric learning


def test_every_case_of_the_accuracy_calculator() -> None:
    for case in oracle("pml_accuracy_calculator.json")["cases"]:
        found = accuracy(
            case["query"], case["query_labels"], case["reference"], case["reference_labels"],
            case["ref_includes_query"], avg_of_avgs=case["avg_of_avgs"],
        )  # fmt: skip
        assert list(found) == NAMES
        assert found == pytest.approx(case["expected"], abs=1e-6)


def embedded(rows: list[list[int]], counts: dict[int, int]) -> tuple[Any, ...]:
    """Build embeddings whose lists begin with these labels."""
    reference = [label for label, count in counts.items() for _ in range(count)]
    score = np.full((len(rows), len(reference)), 0.0)
    for number, row in enumerate(rows):
        used: set[int] = set()
        for place, label in enumerate(row):
            item = next(j for j, other in enumerate(reference) if other == label and j not in used)
            used.add(item)
            score[number, item] = 1 - place / 10
    rest = np.sqrt(len(rows) - (score**2).sum(axis=0))
    query = np.concatenate([np.eye(len(rows)), np.zeros((len(rows), 1))], axis=1)
    return query, np.concatenate([score.T, rest[:, None]], axis=1), reference


@pytest.mark.parametrize("included", [False, True])
def test_the_table_of_neighbours(included: bool) -> None:
    case = hand_case("knn label table")
    counts = {int(label): count - included for label, count in case["label_counts"].items()}
    counts[5] = 1
    rows = [row[included:] for row in case["knn_labels"]]
    query, reference, labels = embedded(rows, counts)
    key = next(name for name in case if name.startswith(f"ref_includes_query={included}"))
    wanted = case[key]
    found = accuracy(query, case["query_labels"], reference, labels, k=len(rows[0]))
    assert found["precision_at_1"] == pytest.approx(float(Fraction(wanted["precision_at_1"])))
    for name, short in (
        ("r_precision", "r_precision"), ("mean_average_precision_at_r", "map_at_r"),
        ("mean_average_precision", "map"), ("mean_reciprocal_rank", "mrr"),
    ):  # fmt: skip
        per_query = [value(text) for text in wanted[f"{short}_per_query"]]
        assert found[name] == pytest.approx(np.mean(per_query))


def test_queries_that_begin_the_reference_do_not_find_themselves() -> None:
    case = hand_case("query = first half")
    half = np.arange(20) / 2
    reference = np.concatenate([half[::2], half[1::2]])[:, None]
    found = accuracy(
        np.arange(10.0)[:, None], np.arange(10), reference, [*range(10), *[1] * 10], True
    )
    for name, text in case["expected"].items():
        assert found[name] == pytest.approx(value(text)), name


def test_averages_of_averages() -> None:
    case = hand_case("avg_of_avgs")
    query, reference = np.arange(10.0), np.arange(10.0)
    query[-1], reference[0] = 100, -100
    arguments = (query[:, None], case["query_labels"], reference[:, None], case["reference_labels"])
    for flag, key in ((False, "expected"), (True, "expected_avg_of_avgs")):
        found = accuracy(*arguments, avg_of_avgs=flag)
        assert {name: found[name] for name in case[key]} == pytest.approx(case[key])


def test_labels_of_any_shape_are_compared_by_a_function() -> None:
    def same_id_other_camera(x: Any, y: Any) -> Any:
        return (x[:, 0] == y[:, 0]) & (x[:, 1] != y[:, 1])

    def near(x: Any, y: Any) -> Any:
        return np.abs(x - y) < 1

    for start, function in (("same ID", same_id_other_camera), ("float labels", near)):
        case = hand_case(start)
        found = accuracy(
            case["query"], case["query_labels"], case["reference"], case["reference_labels"],
            label_comparison_fn=function,
        )  # fmt: skip
        for name, text in case["expected"].items():
            assert found[name] == pytest.approx(value(text)), name


def test_an_item_is_left_out_by_its_place_and_not_by_its_rank() -> None:
    case = hand_case("colocated")
    found = accuracy(case["embeddings"], case["labels"])
    assert found["precision_at_1"] == case["expected"]["precision_at_1"]


def test_lone_queries_leave_the_mean() -> None:
    case = hand_case("lone labels")
    labels = np.array(case["query_labels"])
    reference = np.array(case["reference_labels"])
    found = accuracy(labels[:, None] * 1.0, labels, reference[:, None] * 1.0, reference)
    assert found["precision_at_1"] == 1.0
    with pytest.raises(rve.RelevanceError):
        accuracy([[0.0], [1.0]], [6, 7], [[0.0]], [1])


@pytest.mark.parametrize("k", [-1, 0, 1.5, "max", True])
def test_a_depth_that_is_none_is_refused(k: Any) -> None:
    with pytest.raises(ValueError, match="k ="):
        accuracy([[0.0], [1.0]], [0, 0], k=k)


def test_what_goes_wrong_elsewhere() -> None:
    labels = [16777216, 16777217, 16777216, 16777217]
    assert accuracy([[0.0], [1.0], [10.0], [11.0]], labels)["precision_at_1"] == 0.0
    few = accuracy([[0.0]], [1], [[1.0], [2.0]], [1, 1], k=10)
    assert few["mean_average_precision"] == 1.0
    one = accuracy([[0.0], [1.0], [2.0]], [5, 5, 5], k=1)
    assert (one["r_precision"], one["mean_average_precision_at_r"]) == (1.0, 1.0)
    assert accuracy([[0.0], [1.0]], [0, 0], include=("mean_reciprocal_rank",)) == {
        "mean_reciprocal_rank": 1.0
    }
    for pattern in ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]):
        alike = accuracy(np.ones((6, 2)), pattern, ties="expected")
        assert alike["precision_at_1"] == pytest.approx(0.4)
    negative = accuracy(
        [[1.0]], [1], [[-0.1], [-0.2], [-0.3]], [1, 2, 3], metric="dot"
    )
    assert set(negative.values()) == {1.0}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("k", [None, 1, 3, "max_bin_count"])
def test_accuracies_are_those_of_a_literal_search(seed: int, k: Any) -> None:
    rng = np.random.default_rng(seed)
    vectors, labels = rng.normal(size=(9, 2)), rng.integers(0, 3, 9)
    found = accuracy(vectors, labels, k=k)
    counts = np.bincount(labels)
    depth = {None: 8, "max_bin_count": int(counts.max()) - 1}.get(k, k)
    wanted: dict[str, list[float]] = {name: [] for name in NAMES}
    for row in range(9):
        distance = np.linalg.norm(vectors - vectors[row], axis=1)
        order = [j for j in np.argsort(distance) if j != row]
        ranks = [i + 1 for i, j in enumerate(order) if labels[j] == labels[row]]
        if not ranks:
            continue
        m = len(ranks)
        terms = [(i + 1) / p for i, p in enumerate(ranks)]
        wanted[NAMES[0]].append(sum(t for t, p in zip(terms, ranks, strict=True) if p <= depth) / m)
        wanted[NAMES[1]].append(sum(t for t, p in zip(terms, ranks, strict=True) if p <= m) / m)
        wanted[NAMES[2]].append(1 / ranks[0] if ranks[0] <= depth else 0.0)
        wanted[NAMES[3]].append(float(ranks[0] == 1))
        wanted[NAMES[4]].append(sum(p <= m for p in ranks) / m)
    assert found == pytest.approx({name: np.mean(values) for name, values in wanted.items()})


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(rve.NotCountedError, match="'AMI' is not offered"):
        accuracy([[0.0]], [0], include=["AMI"])
    with pytest.raises(rve.AlignmentError, match="must begin with those of the queries"):
        accuracy([[0.0]], [0], [[1.0], [0.0]], [0, 0], True)
    with pytest.raises(rve.AlignmentError, match="reference_labels="):
        accuracy([[0.0]], [0], [[1.0]])
    with pytest.raises(rve.AlignmentError, match="2 labels for 1 embedding"):
        accuracy([[0.0]], [0, 1], [[1.0]], [0])
    with pytest.raises(rve.NotCountedError, match="avg_of_avgs"):
        accuracy([[0.0]], [0], [[1.0]], [0], avg_of_avgs=True, label_comparison_fn=np.equal)


# Image and text


@pytest.mark.parametrize("repeated", [True, False])
def test_every_case_of_vsepp(repeated: bool) -> None:
    for case in oracle("vsepp_i2t_t2i.json")["cases"]:
        images = np.repeat(case["images"], 5, axis=0) if repeated else case["images"]
        for search, name in ((i2t, "i2t"), (t2i, "t2i")):
            assert search(images, case["captions"]) == pytest.approx(case[name], abs=1e-9)
            found, (ranks, top1) = search(images, case["captions"], return_ranks=True)  # type: ignore[misc]
            assert found == pytest.approx(case[name], abs=1e-9)
            assert ranks.tolist() == case[f"{name}_rank0"]
            scores = np.array(case["images"]) @ np.array(case["captions"]).T
            scores = scores if name == "i2t" else scores.T
            assert top1.tolist() == scores.argmax(axis=1).tolist()


def test_only_the_first_images_are_evaluated_on_request() -> None:
    rng = np.random.default_rng(0)
    images, captions = rng.normal(size=(6, 3)), rng.normal(size=(30, 3))
    for search, n in ((i2t, 2), (t2i, 10)):
        _, (ranks, _) = search(images, captions, return_ranks=True)  # type: ignore[misc]
        _, (part, top1) = search(images, captions, npts=2, return_ranks=True)  # type: ignore[misc]
        assert part.tolist() == ranks[:n].tolist()
        assert (part.dtype, top1.shape) == (np.float64, (n,))


def test_image_text_ties_and_refusals() -> None:
    alike = i2t(np.ones((2, 3)), np.ones((10, 3)), ties="expected")
    assert alike[0] == pytest.approx(50.0)
    with pytest.raises(rve.NotCountedError, match="measure = 'order'"):
        i2t(np.ones((2, 3)), np.ones((10, 3)), measure="order")
    with pytest.raises(rve.AlignmentError, match="3 images and 10 captions"):
        t2i(np.ones((3, 3)), np.ones((10, 3)))
    with pytest.raises(rve.AlignmentError, match="npts = 3"):
        t2i(np.ones((2, 3)), np.ones((10, 3)), npts=3)


def test_every_case_of_eccv_caption() -> None:
    for case in oracle("eccv_metrics.json")["cases"]:
        found = compute_eccv_metrics(case["retrieved"], case["gt"])
        assert found == pytest.approx({name: case[name] for name in found}, abs=1e-12)
        assert compute_rprecision(case["retrieved"], case["gt"]) == pytest.approx(
            case["rprecision"], abs=1e-12
        )
        assert compute_r_at_k(case["retrieved"], case["gt"], K=5) == case["r5"]


def test_lists_that_end_too_early_are_refused() -> None:
    with pytest.raises(rve.NotCountedError, match="not returned"):
        compute_eccv_metrics({"a": [1]}, {"a": [1, 2, 3]})
    with pytest.raises(rve.AlignmentError, match="the first is 'b'"):
        compute_eccv_metrics({"a": [1]}, {"b": [1]})
    assert compute_eccv_metrics({"a": [1]}, {"a": [1]})["eccv_map_at_r"] == 1.0


# Open metric learning


def test_every_case_of_open_metric_learning() -> None:
    for case in oracle("oml_metrics.json")["cases"]:
        arguments = (case["is_correct"], case["n_gt"], case["k"])
        for call, name in ((calc_cmc, "cmc"), (calc_precision, "precision"), (calc_map, "map")):
            found: list[npt.NDArray[np.float64]] = call(*arguments)
            assert len(found) == len(case["k"])
            assert np.stack(found) == pytest.approx(np.array(case[name]), abs=1e-6)


def test_open_metric_learning_worked_lists() -> None:
    for case in oracle("reid_worked_examples.json")["A_ap"]:
        for k, wanted in case.get("oml_map_at", {}).items():
            (found,) = calc_map([case["rel"]], [sum(case["rel"])], [int(k)])
            assert found.tolist() == [pytest.approx(wanted, abs=1e-6)]


def test_nothing_to_find() -> None:
    for call in (calc_cmc, calc_precision, calc_map):
        assert call([[], [0]], [0, 0], [1])[0].tolist() == [1.0, 0.0]
    with pytest.raises(rve.AlignmentError, match="smaller than"):
        calc_cmc([[1, 1]], [1], [1])


def test_every_part_of_compat_is_there_without_an_import_of_its_own() -> None:
    import reid_vpr_eval.compat as compat

    for name in compat.__all__:
        assert getattr(compat, name).__name__ == f"reid_vpr_eval.compat.{name}"
    with pytest.raises(AttributeError, match="no attribute 'torch'"):
        _ = compat.torch
