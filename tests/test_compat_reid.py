"""Calls of re-identification tools, against worked values and a literal implementation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.compat import fastreid, torchreid
from reid_vpr_eval.compat.fastreid import ReidEvaluator
from reid_vpr_eval.compat.transreid import R1_mAP_eval
from shared_inputs import oracle

Array = npt.NDArray[Any]


class Tensor:
    """Something that holds numbers as a tensor on another device does."""

    def __init__(self, values: Any, *, on_cpu: bool = False) -> None:
        self.values = np.asarray(values)
        self.on_cpu = on_cpu

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return Tensor(self.values, on_cpu=True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        assert self.on_cpu, "a tensor of another device was read as it is"
        return self.values if dtype is None else self.values.astype(dtype)


def listed(flags: list[int]) -> tuple[Any, Any, Any, Any, Any]:
    """One query whose ranked list has these flags."""
    pids = [1 if flag else 2 + place for place, flag in enumerate(flags)]
    return [list(range(len(flags)))], [1], pids, [0], [1] * len(flags)


def literal(
    dist: Array, q_pids: Array, g_pids: Array, q_cams: Array, g_cams: Array, max_rank: int
) -> tuple[Array, list[float], list[float]]:
    """Rank each query by a stable sort and count by hand."""
    curves, precisions, penalties = [], [], []
    for row, pid, cam in zip(dist, q_pids, q_cams, strict=True):
        order = [j for j in np.argsort(row, kind="stable")
                 if g_pids[j] != pid or g_cams[j] != cam]  # fmt: skip
        ranks = [place + 1 for place, j in enumerate(order) if g_pids[j] == pid]
        if not ranks:
            continue
        curves.append([float(ranks[0] <= k) for k in range(1, max_rank + 1)])
        precisions.append(sum((i + 1) / p for i, p in enumerate(ranks)) / len(ranks))
        penalties.append(len(ranks) / ranks[-1])
    return np.mean(curves, axis=0), precisions, penalties


def drawn(
    row: Array, pid: int, cam: int, g_pids: Array, g_cams: Array, max_rank: int
) -> Array | None:
    """Enumerate every draw of one gallery image an identity, for one query."""
    order = [int(j) for j in np.argsort(row, kind="stable")
             if g_pids[j] != pid or g_cams[j] != cam]  # fmt: skip
    if not any(g_pids[j] == pid for j in order):
        return None
    groups = [[j for j in order if g_pids[j] == label] for label in {g_pids[j] for j in order}]
    curves = []
    for draw in itertools.product(*groups):
        kept = [j for j in order if j in draw]
        place = next(i for i, j in enumerate(kept) if g_pids[j] == pid)
        curves.append([float(place < k) for k in range(1, max_rank + 1)])
    return np.asarray(np.mean(curves, axis=0))


def random_case(seed: int, *, ties: bool = True) -> tuple[Array, Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    n_query, n_gallery = int(rng.integers(2, 8)), int(rng.integers(4, 11))
    dist = rng.integers(0, 5, (n_query, n_gallery)) if ties else rng.random((n_query, n_gallery))
    q_pids, g_pids = rng.integers(0, 4, n_query), rng.integers(0, 4, n_gallery)
    q_cams, g_cams = rng.integers(0, 2, n_query), rng.integers(0, 2, n_gallery)
    q_pids[0], g_pids[0], q_cams[0], g_cams[0] = 1, 1, 0, 1
    return dist, q_pids, g_pids, q_cams, g_cams


# Worked values


def test_average_precision_and_inp_of_worked_lists() -> None:
    for case in oracle("reid_worked_examples.json")["A_ap"]:
        arguments = listed(case["rel"])
        cmc, ap, inp = fastreid.evaluate_rank(*arguments, max_rank=len(case["rel"]))
        assert cmc.tolist() == case["cmc"]
        assert ap == [pytest.approx(case["ap_noninterp"], abs=1e-6)]
        assert inp == ([pytest.approx(case["inp"], abs=1e-6)])
        assert torchreid.evaluate_rank(*arguments)[1] == ap[0]


def test_unmatched_queries_are_left_out() -> None:
    case = oracle("reid_worked_examples.json")["B_unmatched"]
    arguments = (case["dist"], case["q_pid"], case["g_pid"], case["q_cam"], case["g_cam"])
    cmc, mean_ap = torchreid.evaluate_rank(*arguments)
    assert mean_ap == case["mAP_skip"]
    assert cmc[0] == 1.0
    assert len(fastreid.evaluate_rank(*arguments)[1]) == case["n_valid"]


def test_a_small_gallery_gives_a_full_curve_in_any_order() -> None:
    case = oracle("reid_worked_examples.json")["B2_ragged"]
    for order in ([0, 1], [1, 0]):
        cmc, mean_ap = torchreid.evaluate_rank(
            np.array(case["dist"])[order], np.array(case["q_pid"])[order], case["g_pid"],
            np.array(case["q_cam"])[order], case["g_cam"], case["max_rank"],
        )  # fmt: skip
        assert cmc.shape == (case["max_rank"],)
        assert cmc[:4].tolist() == case["correct_cmc"]
        assert (cmc[4:] == 1).all()
        assert mean_ap == case["correct_mAP"]


def test_junk_that_is_left_in_is_a_negative_and_dropped_is_not() -> None:
    case = oracle("reid_worked_examples.json")["C_junk"]
    pids, cams = np.array(case["ranked_gallery_pid"]), np.array(case["ranked_gallery_cam"])
    for rows, wanted in ((pids != 99, "junk_left_in"), (pids != -1, "junk_removed")):
        cmc, mean_ap = torchreid.evaluate_rank(
            [np.arange(rows.sum())], [case["q_pid"]], pids[rows], [case["q_cam"]], cams[rows], 2
        )
        assert cmc.tolist() == case[wanted]["cmc"]
        assert mean_ap == pytest.approx(case[wanted]["ap_noninterp"], abs=1e-6)


@pytest.mark.parametrize(
    ("ties", "wanted"),
    [("index", "stable_index_order"), ("pessimistic", "pessimistic"),
     ("optimistic", "optimistic"), ("expected", "expected_over_orders")],
)  # fmt: skip
def test_equal_distances_are_read_as_asked(ties: str, wanted: str) -> None:
    case = oracle("reid_worked_examples.json")["D_ties"]
    _, mean_ap = torchreid.evaluate_rank(
        case["dist"], [case["q_pid"]], case["g_pid"], [0], [1, 1, 1, 1], ties=ties
    )
    assert mean_ap == pytest.approx(case[f"ap_{wanted}"], abs=1e-6)


@pytest.mark.parametrize("rule", ["general", "CC", "SC"])
def test_clothes_are_told_apart_by_the_columns_that_are_given(rule: str) -> None:
    case = oracle("reid_worked_examples.json")["G_cloth"]
    pid, cam, clothes = zip(*case["ranked"], strict=True)
    own = case["query"]
    same = np.array([name == own["clothes"] for name in clothes])
    mine = np.array(pid) == own["pid"]
    drop = {"general": mine & False, "CC": mine & same, "SC": mine & ~same}[rule]
    kept = np.flatnonzero(~drop)
    cmc, mean_ap = torchreid.evaluate_rank(
        [kept], [own["pid"]], np.array(pid)[kept], [own["cam"]], np.array(cam)[kept], 2
    )
    assert mean_ap == pytest.approx(case[rule]["ap"], abs=1e-6)
    assert cmc[0] == case[rule].get("cmc1", case[rule].get("cmc", [None])[0])


def test_one_drawn_image_an_identity_is_counted_exactly() -> None:
    case = oracle("reid_worked_examples.json")["H_single_gallery_shot"]
    pids = ["ABC".index(name) for name in case["ranked_ids"]]
    for evaluate_rank in (torchreid.evaluate_rank, fastreid.evaluate_rank):
        found = evaluate_rank([range(5)], [0], pids, [0], [1] * 5, 3, use_metric_cuhk03=True)
        assert found[0] == pytest.approx(case["exact_expected_cmc"])
    assert torchreid.evaluate_rank([range(5)], [0], pids, [0], [1] * 5, 3, True)[1] == 0.5


# Brute force


@pytest.mark.parametrize("seed", range(60))
def test_numbers_are_those_of_a_literal_sort(seed: int) -> None:
    case = random_case(seed)
    wanted, ap, inp = literal(*case, max_rank=12)
    cmc, mean_ap = torchreid.evaluate_rank(*case, max_rank=12)
    assert cmc == pytest.approx(wanted)
    assert mean_ap == pytest.approx(np.mean(ap))
    same, found_ap, found_inp = fastreid.evaluate_rank(*case, max_rank=12)
    assert (same == cmc).all()
    assert found_ap == pytest.approx(ap)
    assert found_inp == pytest.approx(inp)


@pytest.mark.parametrize("seed", range(30))
def test_draws_are_those_of_an_enumeration(seed: int) -> None:
    dist, q_pids, g_pids, q_cams, g_cams = random_case(seed)
    curves = [
        drawn(row, pid, cam, g_pids, g_cams, 5)
        for row, pid, cam in zip(dist, q_pids, q_cams, strict=True)
    ]
    wanted = np.mean([curve for curve in curves if curve is not None], axis=0)
    cmc, _ = torchreid.evaluate_rank(dist, q_pids, g_pids, q_cams, g_cams, 5, True)
    assert cmc == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(12))
def test_draws_under_ties_are_the_mean_over_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dist = rng.integers(0, 2, 5)
    g_pids, g_cams = np.array([0, 1, 1, 2, rng.integers(0, 3)]), np.ones(5, int)
    curves = []
    for order in itertools.permutations(range(5)):
        rows = list(order)
        curve = drawn(dist[rows], 0, 0, g_pids[rows], g_cams, 3)
        assert curve is not None
        curves.append(curve)
    found = torchreid.evaluate_rank(
        dist[None], [0], g_pids, [0], g_cams, 3, True, ties="expected"
    )[0]
    assert found == pytest.approx(np.mean(curves, axis=0))


def test_draws_do_not_depend_on_how_queries_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(5, ties=False)
    whole = torchreid.evaluate_rank(*case, max_rank=5, use_metric_cuhk03=True)[0]
    monkeypatch.setattr("reid_vpr_eval.draws.expectation._COUNTS_AT_ONCE", 1)
    assert torchreid.evaluate_rank(*case, max_rank=5, use_metric_cuhk03=True)[0] == (
        pytest.approx(whole)
    )


# What goes in and what comes out


def test_shapes_and_types() -> None:
    cmc, mean_ap = torchreid.evaluate_rank(*random_case(1), 7, False, True)
    assert cmc.shape == (7,)
    assert cmc.dtype == np.float64
    assert type(mean_ap) is float
    _, ap, inp = fastreid.evaluate_rank(*random_case(1))
    assert {type(value) for value in ap + inp} == {float}


def test_tensors_are_taken() -> None:
    case = random_case(2)
    tensors: list[Any] = [Tensor(part) for part in case]
    lists: list[Any] = [part.tolist() for part in case]
    as_tensors = torchreid.evaluate_rank(*tensors)
    as_lists = torchreid.evaluate_rank(*lists)
    assert as_tensors[0].tolist() == as_lists[0].tolist()
    assert as_tensors[1] == as_lists[1]


def test_what_cannot_be_evaluated_says_why() -> None:
    with pytest.raises(rve.RelevanceError, match="none of the 1 queries"):
        torchreid.evaluate_rank([[0.0, 1.0]], [1], [2, 3], [0], [0, 1])
    with pytest.raises(rve.ScoreError, match="rows 0"):
        torchreid.evaluate_rank([[np.nan, 1.0]], [1], [1, 3], [0], [1, 1])
    with pytest.raises(rve.AlignmentError, match="2 gallery rows"):
        torchreid.evaluate_rank([[0.0, 1.0]], [1], [1, 2, 3], [0], [1, 1, 1])


def batches(seed: int = 3) -> tuple[list[tuple[Array, Array, Array]], tuple[Array, ...]]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(20, 4)).astype(np.float32)
    pids, cams = np.arange(20) % 4, np.arange(20) // 4 % 2
    cut = [slice(0, 7), slice(7, 13), slice(13, 20)]
    return [(features[part], pids[part], cams[part]) for part in cut], (features, pids, cams)


@pytest.mark.parametrize("feat_norm", [True, False, "yes", "no"])
def test_the_transreid_loop(feat_norm: bool | str) -> None:
    parts, (features, pids, cams) = batches()
    evaluator = R1_mAP_eval(6, max_rank=10, feat_norm=feat_norm)
    for feature, pid, cam in parts:
        evaluator.update((Tensor(feature), pid.tolist(), cam.tolist()))
    cmc, mean_ap, distmat, all_pids, all_cams, qf, gf = evaluator.compute()
    wide = features.astype(float)
    if feat_norm in (True, "yes"):
        wide = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    wanted = ((wide[:6, None] - wide[None, 6:]) ** 2).sum(axis=2)
    assert distmat == pytest.approx(wanted, abs=1e-5)
    assert (len(qf), len(gf)) == (6, 14)
    assert qf.dtype == np.float32
    assert (all_pids, all_cams) == (pids.tolist(), cams.tolist())
    curve, ap, _ = literal(wanted, pids[:6], pids[6:], cams[:6], cams[6:], 10)
    assert cmc == pytest.approx(curve)
    assert mean_ap == pytest.approx(np.mean(ap))
    evaluator.reset()
    with pytest.raises(rve.AlignmentError, match="0 rows"):
        evaluator.compute()


def test_a_zero_vector_does_not_stop_the_transreid_loop() -> None:
    evaluator = R1_mAP_eval(1)
    evaluator.update(([[1.0, 0.0], [0.0, 0.0], [1.0, 0.1]], [1, 2, 1], [0, 1, 1]))
    assert evaluator.compute()[1] == 1.0


def test_reranking_is_refused() -> None:
    with pytest.raises(rve.NotCountedError, match="reranking=True"):
        R1_mAP_eval(1, reranking=True)


@pytest.mark.parametrize("cfg", [None, {"TEST": {"METRIC": "euclidean"}}])
def test_the_fastreid_loop(cfg: Any) -> None:
    parts, (features, pids, cams) = batches()
    evaluator = ReidEvaluator(cfg, 6)
    for feature, pid, cam in parts:
        evaluator.process({"targets": Tensor(pid), "camids": Tensor(cam)}, Tensor(feature))
    wide = features.astype(float)
    if cfg is None:
        wide = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    dist = ((wide[:6, None] - wide[None, 6:]) ** 2).sum(axis=2)
    curve, ap, inp = literal(dist, pids[:6], pids[6:], cams[:6], cams[6:], 10)
    assert evaluator.evaluate() == pytest.approx(
        {
            "Rank-1": 100 * curve[0], "Rank-5": 100 * curve[4], "Rank-10": 100 * curve[9],
            "mAP": 100 * np.mean(ap), "mINP": 100 * np.mean(inp),
            "metric": 50 * (np.mean(ap) + curve[0]),
        }
    )  # fmt: skip
    evaluator.reset()
    with pytest.raises(rve.AlignmentError, match="both sides need rows"):
        evaluator.evaluate()


def test_settings_that_change_the_ranking_are_refused() -> None:
    with pytest.raises(rve.NotCountedError, match=r"TEST\.RERANK\.ENABLED"):
        ReidEvaluator({"TEST": {"RERANK": {"ENABLED": True}}}, 1)


def test_a_batch_must_fit_together() -> None:
    evaluator = R1_mAP_eval(1)
    with pytest.raises(rve.AlignmentError, match="1 label and 2 cameras"):
        evaluator.update((np.ones((2, 3)), [1], [1, 2]))


def test_true_accept_rates_are_those_of_the_worked_example() -> None:
    case = oracle("reid_worked_examples.json")["E_roc"]
    distances = [*case["pos_dist"], *case["neg_dist"]]
    relevance = rve.Relevance.from_pairs([0, 0, 0], [0, 1, 2], n_query=1, n_gallery=7)
    scores = rve.ScoreMatrix([distances], higher_is_better=False)
    ranking = rve.rank(scores, relevance, pairs_kept=4)
    for level, wanted in case["TAR@FAR"].items():
        name = f"TAR@FAR={level}"
        assert rve.compute(ranking, [name])[name] == pytest.approx(wanted, abs=1e-6)
