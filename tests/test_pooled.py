"""Metrics over first answers and over pooled pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_auc_score

import reid_vpr_eval as rve
from reid_vpr_eval.metrics.compute import view_of
from reid_vpr_eval.metrics.pool import Pool
from reid_vpr_eval.metrics.pooled import auc_bounds
from shared_inputs import data, oracle

MANY = 10**6


def world(seed: int, *, ties: bool = False, lone: bool = True) -> tuple[rve.Relevance, Any]:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 12, (30, 40)) / 8 if ties else rng.normal(size=(30, 40))
    role = rng.random((30, 40)) < 0.1
    role[:, 0] |= ~role.any(axis=1)
    if lone:
        role[:6] = False
    scores = scores + 0.7 * role
    return rve.Relevance.from_pairs(*np.nonzero(role), n_query=30, n_gallery=40,
                                    no_positive="zero"), scores  # fmt: skip


def rank(relevance: rve.Relevance, scores: Any, **options: Any) -> rve.Ranking:
    return rve.rank(rve.ScoreMatrix(scores, higher_is_better=True), relevance, **options)


def first_answers(relevance: rve.Relevance, scores: Any) -> tuple[npt.NDArray[Any], ...]:
    top = scores.argmax(axis=1)
    correct = np.array([top[q] in relevance.positives(q) for q in range(len(scores))])
    return scores.max(axis=1), correct, relevance.n_positive > 0


@pytest.mark.parametrize("seed", range(5))
def test_precision_recall_against_scikit_learn(seed: int) -> None:
    relevance, scores = world(seed)
    ranking = rank(relevance, scores)
    score, correct, mated = first_answers(relevance, scores)
    precision, recall, _ = precision_recall_curve(correct, score)
    values = rve.compute(
        ranking,
        ["PR-AUC(denominator=correct)", "PR-AUC", "PR-AUC(denominator=correct, rule=step)",
         "R@P=1(denominator=correct)", "R@P=1", "R@P=0.8", "EP(denominator=correct)"],
    )  # fmt: skip
    share = correct.sum() / mated.sum()
    assert values["PR-AUC(denominator=correct)"] == pytest.approx(auc(recall, precision))
    assert values["PR-AUC"] == pytest.approx(auc(recall, precision) * share)
    assert values["PR-AUC(denominator=correct, rule=step)"] == pytest.approx(
        average_precision_score(correct, score)
    )
    perfect = recall[precision == 1].max()
    assert values["R@P=1(denominator=correct)"] == pytest.approx(perfect)
    assert values["R@P=1"] == pytest.approx(perfect * share)
    assert values["R@P=0.8"] == pytest.approx(recall[precision >= 0.8].max() * share)
    start = correct[score >= score[correct].max()].mean()
    assert values["EP(denominator=correct)"] == pytest.approx(
        (start + (perfect if start == 1 else 0)) / 2
    )


def test_corridor_scores_of_vpr_bench() -> None:
    """Real similarity matrices of five techniques: exact curves against scikit-learn's."""
    arrays = np.load(data("places/vprbench_corridor_scores/corridor_scores.npz"))
    truth = arrays["corridor__gt"]
    relevance = rve.Relevance.from_pairs(*np.nonzero(truth), n_query=111, n_gallery=111,
                                         no_positive="zero")  # fmt: skip
    checked = 0
    for name in arrays.files:
        if name == "corridor__gt":
            continue
        scores = arrays[name]
        ranking = rank(relevance, scores)
        score, correct, _ = first_answers(relevance, scores)
        precision, recall, _ = precision_recall_curve(correct, score)
        metric = "PR-AUC(denominator=correct)"
        assert rve.compute(ranking, metric)[metric] == pytest.approx(auc(recall, precision))
        assert rve.compute(ranking, "R@1")["R@1"] == pytest.approx(correct.mean())
        checked += 1
    assert checked == 5
    netvlad = rve.compute(rank(relevance, arrays["corridor__NetVLAD"]), "mAP")["mAP"]
    assert netvlad == pytest.approx(0.5146, abs=5e-5)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_against_scikit_learn(seed: int, ties: bool) -> None:
    relevance, scores = world(seed, ties=ties, lone=False)
    ranking = rank(relevance, scores, pairs_kept=MANY, memory="32KiB")
    label = np.zeros(scores.shape, bool)
    for query in range(30):
        label[query, relevance.positives(query)] = True
    values = rve.compute(ranking, ["AUC", "EER", "TAR@FAR=0.1", "TAR@FAR=0.001", "TAR@FAR=1"])
    assert values["AUC"] == pytest.approx(roc_auc_score(label.ravel(), scores.ravel()))
    negatives = np.sort(scores[~label])[::-1]
    for level in (0.1, 0.001):
        allowed = int(np.floor(level * len(negatives) + 1e-9))
        wanted = (scores[label] > negatives[allowed]).mean()
        assert values[f"TAR@FAR={level}"] == wanted
    assert values["TAR@FAR=1"] == 1
    false = np.array([(scores[~label] >= t).mean() for t in np.unique(scores)])
    miss = np.array([(scores[label] < t).mean() for t in np.unique(scores)])
    assert max(np.minimum(false, miss)) <= values["EER"] + 1e-12
    assert values["EER"] <= min(np.maximum(false, miss)) + 1e-12


def test_case_e_of_the_worked_examples() -> None:
    case = oracle("reid_worked_examples.json")["E_roc"]
    distances = case["pos_dist"] + case["neg_dist"]
    relevance = rve.Relevance.from_pairs([0, 0, 0], [0, 1, 2], n_query=1, n_gallery=7)
    ranking = rve.rank(
        rve.ScoreMatrix([distances], higher_is_better=False), relevance, pairs_kept=10
    )
    for level, value in case["TAR@FAR"].items():
        name = f"TAR@FAR={level}"
        assert rve.compute(ranking, name)[name] == pytest.approx(value, abs=1e-6)


def test_kept_pairs_bound_what_was_not_kept() -> None:
    relevance, scores = world(9, lone=False)
    full = rank(relevance, scores, pairs_kept=MANY)
    some = rank(relevance, scores, pairs_kept=200)
    assert some.largest_negatives is not None
    assert full.largest_negatives is not None
    assert np.array_equal(some.largest_negatives, full.largest_negatives[:200])
    for level in (0.01, 0.1):
        name = f"TAR@FAR={level}"
        assert rve.compute(some, name)[name] == rve.compute(full, name)[name]
    with pytest.raises(rve.NotCountedError, match="larger pairs_kept"):
        rve.compute(some, "TAR@FAR=0.5")
    exact = rve.compute(full, "AUC")["AUC"]
    low, high = auc_bounds(
        Pool(some, view_of(some, "expected"), np.ones(30, bool), "expected")
    )
    assert low <= exact <= high
    assert low < high
    with pytest.raises(rve.NotCountedError, match="AUC lies between"):
        rve.compute(some, "AUC")
    with pytest.raises(rve.NotCountedError, match="pairs_kept="):
        rve.compute(rank(relevance, scores), "AUC")


def test_kept_pairs_of_features_do_not_depend_on_tiles() -> None:
    rng = np.random.default_rng(0)
    query, gallery = rng.normal(size=(20, 6)), rng.normal(size=(90, 6))
    gallery[::5] = gallery[0]
    relevance = rve.Relevance.from_pairs([0, 3], [1, 2], n_query=20, n_gallery=90)
    scores = rve.Embeddings(query.astype(np.float32), gallery.astype(np.float32))
    plain = rve.rank(scores, relevance, pairs_kept=50)
    tiny = rve.rank(scores, relevance, pairs_kept=50, memory="32KiB", workers=2)
    parts = [rve.rank(scores, relevance, pairs_kept=50, gallery_slice=cut)
             for cut in ((0, 33), (33, 90))]  # fmt: skip
    for other in (tiny, rve.Ranking.merge(parts)):
        assert np.array_equal(plain.largest_negatives, other.largest_negatives)


def test_open_set_identification() -> None:
    relevance, scores = world(3)
    ranking = rank(relevance, scores)
    score, correct, mated = first_answers(relevance, scores)
    alarms = np.sort(score[~mated])[::-1]
    for level in (0.01, 0.2, 0.5, 1.0):
        allowed = int(np.floor(level * len(alarms) + 1e-9))
        passed = alarms[allowed] if allowed < len(alarms) else -np.inf
        name = f"DIR@FAR={level:g}"
        wanted = (correct & (score > passed))[mated].mean()
        assert rve.compute(ranking, name)[name] == pytest.approx(wanted)
    with pytest.raises(rve.NotCountedError, match="with and without"):
        rve.compute(rank(*world(3, lone=False)), "DIR@FAR=0.1")


def gap_literal(score: Any, correct: Any, n_mated: int) -> float:
    order = np.argsort(-score, kind="stable")
    right = correct[order].astype(float)
    return float((np.cumsum(right) / np.arange(1, len(right) + 1) * right).sum() / n_mated)


def test_global_average_precision_by_hand_and_over_orders() -> None:
    relevance, scores = world(4)
    score, correct, mated = first_answers(relevance, scores)
    assert rve.compute(rank(relevance, scores), "GAP")["GAP"] == pytest.approx(
        gap_literal(score, correct, mated.sum())
    )
    tied = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    small = rve.Relevance.from_pairs([0, 1, 2, 3], [0, 1, 1, 0], n_query=4, n_gallery=2)
    ranking = rank(small, tied)
    orders = [(1 + 2 / 4) / 4, (1 / 2 + 2 / 4) / 4, (1 / 3 + 2 / 4) / 4]
    for ties, wanted in (("expected", np.mean(orders)), ("optimistic", orders[0]),
                         ("pessimistic", orders[2]), ("index", orders[0])):  # fmt: skip
        assert rve.compute(ranking, "GAP", ties=ties)["GAP"] == pytest.approx(wanted)


def test_calibration_of_a_calibrated_and_of_a_useless_score() -> None:
    n = 2000
    rng = np.random.default_rng(0)
    place = rng.random(n)
    right = rng.random(n) < 1 - np.floor(place * 10) / 10
    scores = np.stack([1 - place, np.zeros(n)], 1)
    relevance = rve.Relevance.from_pairs(range(n), np.where(right, 0, 1), n_query=n, n_gallery=2)
    assert rve.compute(rank(relevance, scores), "ECE")["ECE"] < 0.05
    never = rve.Relevance.from_pairs(range(n), np.ones(n, int), n_query=n, n_gallery=2)
    assert rve.compute(rank(never, scores), "ECE")["ECE"] == pytest.approx(0.55, abs=0.02)


def test_pooled_metrics_have_no_value_of_each_query() -> None:
    values = rve.compute(rank(*world(1)), "GAP")
    with pytest.raises(rve.NotCountedError, match="over all queries together"):
        values.per_query("GAP")


def test_first_answers_are_unknown_after_a_change_of_masks() -> None:
    relevance, scores = world(2)
    masked = relevance.keeping(np.arange(40) % 2, np.ones((30, 2), bool))
    half = relevance.keeping(np.arange(40) % 2, np.tile([True, False], (30, 1)))
    ranking = rank(masked, scores).regrade(half)
    with pytest.raises(rve.NotCountedError, match="first answer is not known"):
        rve.compute(ranking, "GAP")
