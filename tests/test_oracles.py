"""The oracles against small published cases, hand-worked lists, and themselves by another way."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import oracles

SHARED = Path(os.environ.get("RVE_SHARED", Path(__file__).parents[2] / "shared")) / "oracles"
METRICS = [
    *(f"CMC@{k}" for k in (1, 2, 5, 12)),
    "CMC@2(shots=all)",
    "IR-recall@3",
    *("P@3", "P@12", "P@12(divisor=retrieved)", "P@4(divisor=min)", "P@4(divisor=last)"),
    *("mAP", "mAP(rule=trapezoid)", "mAP@3", "mAP@3(rule=trapezoid)", "mAP@12(divisor=k)"),
    *("mAP@3(divisor=min)", "mAP@3(divisor=hits)", "mAP@4(divisor=hits,rule=trapezoid)"),
    *("mAP@12(divisor=hits)", "mAP(divisor=hits)"),
    *("mINP", "MRR", "MRR@2", "R-precision", "MAP@R", "NDCG", "NDCG@3", "MeanR", "MedR"),
]


def shared(name: str) -> Any:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    return json.loads(path.read_text())


def flags(ranks: Sequence[int], n: int) -> list[bool]:
    return [i in ranks for i in range(1, n + 1)]


def grouped(scores: Sequence[float], relevant: Sequence[int]) -> list[list[bool]]:
    return [
        [bool(r) for s, r in zip(scores, relevant, strict=True) if s == level]
        for level in sorted(set(scores), reverse=True)
    ]


def close(value: Any, wanted: float, tolerance: float = 1e-12) -> None:
    assert float(value) == pytest.approx(wanted, abs=tolerance)


# --- canonical scores ------------------------------------------------------------------------


def python_tree(values: list[float]) -> float:
    values = values + [0.0] * ((1 << max(len(values) - 1, 0).bit_length()) - len(values))
    while len(values) > 1:
        half = len(values) // 2
        values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 64, 65])
def test_tree_sum_is_the_halving_tree(size: int) -> None:
    values = np.random.default_rng(size).standard_normal(size) * 1e3
    assert float(oracles.tree_sum(values)) == python_tree(values.tolist())


def test_tree_sum_adds_upper_half_to_lower_half() -> None:
    # (1e16 + 1) + (-1e16 + 1) in pairs (0, 2), (1, 3): exact; left to right would lose a one
    assert float(oracles.tree_sum(np.array([1e16, 1.0, -1e16, 1.0]))) == 2.0
    assert float(oracles.tree_sum(np.array([1e16, -1e16, 1.0, 1.0]))) == 0.0


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean", "sqeuclidean"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_canonical_matrix_is_the_pairs(metric: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    q: NDArray[Any] = rng.standard_normal((4, 37)).astype(dtype)
    g: NDArray[Any] = rng.standard_normal((6, 37)).astype(dtype)
    g[5] = q[1]
    got = oracles.canonical_matrix(q, g, metric)
    for i, j in itertools.product(range(4), range(6)):
        assert got[i, j] == oracles.canonical_score(q[i], g[j], metric)
        wide_q, wide_g = q[i].astype(float), g[j].astype(float)
        if metric == "cosine":
            exact = wide_q @ wide_g / np.linalg.norm(wide_q) / np.linalg.norm(wide_g)
        elif metric == "dot":
            exact = wide_q @ wide_g
        else:
            exact = -float(np.sum((wide_q - wide_g) ** 2))
        close(got[i, j], float(exact), 1e-6)


def test_float16_and_float32_cosine_components_are_rounded_to_float32() -> None:
    third = np.float32(1.0) / np.float32(math.sqrt(3.0))
    wanted = python_tree([float(third) ** 2] * 3)
    for dtype in (np.float16, np.float32):
        assert oracles.canonical_score(np.ones(3, dtype), np.ones(3, dtype), "cosine") == wanted
    assert oracles.canonical_score(np.ones(3), np.ones(3), "cosine") != wanted


def test_float64_cosine_survives_huge_and_tiny_components() -> None:
    base = np.array([3.0, 4.0, -1.0])
    wanted = oracles.canonical_score(base, base[::-1], "cosine")
    for power in (-1060, -600, 0, 600, 1000):
        scaled = np.ldexp(base, power)
        assert oracles.canonical_score(scaled, base[::-1], "cosine") == wanted


def test_scores_that_have_no_definition_are_refused() -> None:
    with pytest.raises(ValueError, match="zero vector"):
        oracles.canonical_score(np.zeros(3), np.ones(3), "cosine")
    with pytest.raises(TypeError):
        oracles.canonical_score(np.ones(3, int), np.ones(3, int), "dot")
    with pytest.raises(ValueError, match="hamming"):
        oracles.canonical_score(np.ones(3), np.ones(3), "hamming")


# --- the statistic ---------------------------------------------------------------------------


def test_statistic_by_hand() -> None:
    #        0    1    2    3    4    5    6    7
    row = [0.5, 0.9, 0.5, 0.5, 0.9, 0.1, 0.7, 0.5]
    got = oracles.statistic(
        row, {2: 1, 4: -1, 7: 0}, [0, 1, 0, 1, 1, 0, 1, 0], [True, False], ignored_rows={6}
    )
    assert [judged.item for judged in got.judged] == [2, 4, 7]
    two, four, seven = got.judged
    assert (two.above, two.tied, two.tied_before) == ((0, 1), (1, 1), (1, 0))
    assert (four.above, four.tied, four.tied_before) == ((0, 0), (0, 1), (0, 1))
    assert (seven.above, seven.tied, seven.tied_before) == ((0, 1), (1, 1), (1, 1))
    assert [(j.order, j.tie_group, j.stratum, j.role) for j in got.judged] == [
        (1, 1, 0, 1),
        (0, 0, 1, -1),
        (2, 1, 0, 0),
    ]
    assert got.n_unjudged == (2, 2)
    assert (got.best_unjudged, got.best_unjudged_score) == (0, 0.5)
    assert oracles.statistic(row, {2: 1}, ignored_rows={6}).best_unjudged == 1
    reverse = oracles.statistic(row, {2: 1, 7: 0}, tie_key=list(range(8))[::-1])
    assert [j.tied_before for j in reverse.judged] == [(1,), (0,)]
    assert [j.order for j in reverse.judged] == [1, 0]
    assert reverse.best_unjudged == 4


# --- one ordered list ------------------------------------------------------------------------


def test_ap_forms_of_the_worked_examples() -> None:
    for case in shared("reid_worked_examples.json")["A_ap"]:
        row = [bool(x) for x in case["rel"]]
        close(oracles.metric_of_list("mAP", row), case["ap_noninterp"], 1e-6)
        close(oracles.metric_of_list("mAP(rule=trapezoid)", row), case["ap_trapezoid"], 1e-6)
        close(oracles.metric_of_list("mINP", row), case["inp"], 1e-6)
        for k, value in enumerate(case["cmc"], start=1):
            assert oracles.metric_of_list(f"CMC@{k}", row) == value
        for k, value in enumerate(case.get("cmc_openreid_allshots", ()), start=1):
            close(oracles.metric_of_list(f"CMC@{k}(shots=all)", row), value, 1e-6)
        for k, value in case.get("oml_map_at", {}).items():
            close(oracles.metric_of_list(f"mAP@{k}(divisor=hits)", row), value, 1e-6)
        for k, value in case.get("std_ap_at", {}).items():
            close(oracles.metric_of_list(f"mAP@{k}(divisor=min)", row), value, 1e-6)


def test_musgrave_table_3() -> None:
    for case in shared("musgrave_table3.json")["cases"]:
        ranks = case["relevant_ranks"]
        row = flags([*ranks, *range(101, 111 - len(ranks))], 200)
        assert sum(row) == 10
        close(oracles.metric_of_list("CMC@1", row), case["R@1"])
        close(oracles.metric_of_list("R-precision", row), case["r_precision"])
        close(oracles.metric_of_list("MAP@R", row), case["map_at_r"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CMC@1", 0),
        ("CMC@2", 1),
        ("IR-recall@3", Fraction(2, 3)),
        ("P@3", Fraction(2, 3)),
        ("P@10", Fraction(3, 10)),
        ("P@10(divisor=retrieved)", Fraction(3, 5)),
        ("P@10(divisor=min)", 1),
        ("P@4(divisor=last)", Fraction(1, 2)),
        ("P@10(divisor=last)", Fraction(3, 5)),
        ("mAP", Fraction(53, 90)),
        ("mAP(rule=trapezoid)", Fraction(83, 180)),
        ("mAP@2", Fraction(1, 6)),
        ("mAP@2(divisor=min)", Fraction(1, 4)),
        ("mAP@2(divisor=hits)", Fraction(1, 2)),
        ("mAP@3(divisor=k)", Fraction(7, 18)),
        ("mAP@1(divisor=hits)", 0),
        ("mINP", Fraction(3, 5)),
        ("MRR", Fraction(1, 2)),
        ("MRR@1", 0),
        ("R-precision", Fraction(2, 3)),
        ("MAP@R", Fraction(7, 18)),
        ("MeanR", 2),
    ],
)
def test_one_list_by_hand(name: str, value: Fraction) -> None:
    assert oracles.metric_of_list(name, [False, True, True, False, True]) == value


def test_ndcg_by_hand() -> None:
    log = math.log2
    row = [False, True, True, False, True]
    ideal = 1 + 1 / log(3) + 1 / log(4)
    close(oracles.metric_of_list("NDCG", row), (1 / log(3) + 1 / log(4) + 1 / log(6)) / ideal)
    close(oracles.metric_of_list("NDCG@2", row), (1 / log(3)) / (1 + 1 / log(3)))


@pytest.mark.parametrize("name", ["recall@5", "CMC", "mAP(rule=other)", "P@3(rule=k)", "CMC@0"])
def test_names_outside_the_grammar_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown|cut-off"):
        oracles.metric_of_list(name, [True, False])


def test_untied_lists_of_retrieval_tools() -> None:
    for case in shared("ir_untied.json")["cases"]:
        groups = grouped(case["scores"], [int(gain > 0) for gain in case["gains"]])
        k, trec = case["k"], case["pytrec_eval"]
        torch = case["torchmetrics"]
        for name, value in {
            "mAP": trec["map"],
            "R-precision": trec["Rprec"],
            "MRR": trec["recip_rank"],
            f"P@{k}": trec[f"P_{k}"],
            f"IR-recall@{k}": trec[f"recall_{k}"],
            f"mAP@{k}": trec[f"map_cut_{k}"],
            f"CMC@{k}": trec[f"success_{k}"],
        }.items():
            close(oracles.expected(name, groups), value)
            close(oracles.index(name, groups), value)
        close(oracles.index(f"mAP@{k}(divisor=hits)", groups), torch["ap_k"], 1e-6)
        close(oracles.index("mAP", groups), case["sklearn"]["lrap"])
        if max(case["gains"]) == 1:
            close(oracles.index("NDCG", groups), trec["ndcg"])
            close(oracles.index(f"NDCG@{k}", groups), trec[f"ndcg_cut_{k}"])


# --- ties ------------------------------------------------------------------------------------

TIED_KEYS = {
    "ap": "mAP",
    "apK": "mAP@{k}",
    "apKh": "mAP@{k}(divisor=hits)",
    "trap": "mAP(rule=trapezoid)",
    "mapr": "MAP@R",
    "P": "P@{k}",
    "rprec": "R-precision",
    "hit": "CMC@{k}",
    "rec": "IR-recall@{k}",
    "rr": "MRR",
    "rrK": "MRR@{k}",
    "first": "MeanR",
    "inp": "mINP",
}


def test_tied_lists_have_the_exact_expectation() -> None:
    for case in shared("ties_expected.json")["cases"]:
        groups = grouped(case["scores"], case["rel"])
        for key, pattern in TIED_KEYS.items():
            name = pattern.format(k=case["k"])
            wanted = Fraction(case["expected_exact"][key])
            assert oracles.expected_enumerated(name, groups) == wanted, (key, case)
            assert oracles.expected_closed(name, groups) == wanted, (key, case)
        ndcg = case["expected"]["ndcg"]
        at_k = f"NDCG@{case['k']}"  # its key says ndcg; its values are cut at k
        close(oracles.expected_enumerated(at_k, groups), ndcg)
        close(oracles.expected_closed(at_k, groups), ndcg)


def random_groups(rng: random.Random) -> list[list[bool]]:
    while True:
        groups = [
            [rng.random() < 0.4 for _ in range(rng.choice((1, 1, 2, 3, 4)))]
            for _ in range(rng.randint(1, 4))
        ]
        if any(any(group) for group in groups) and oracles.n_arrangements(groups) <= 60:
            return groups


def test_closed_forms_equal_enumeration() -> None:
    rng = random.Random(0)  # noqa: S311
    for _ in range(300):
        groups = random_groups(rng)
        for name in METRICS:
            listed = oracles.expected_enumerated(name, groups)
            closed = oracles.expected_closed(name, groups)
            if isinstance(listed, Fraction):
                assert closed == listed, (name, groups)
            else:
                close(closed, listed, 1e-14)


def test_distinct_arrangements_stand_for_all_orders() -> None:
    groups = [[True], [False, True, True], [False, True]]
    rows = [
        [flag for group in picked for flag in group]
        for picked in itertools.product(*(itertools.permutations(group) for group in groups))
    ]
    for name in METRICS:
        mean = math.fsum(float(oracles.metric_of_list(name, row)) for row in rows) / len(rows)
        close(oracles.expected(name, groups), mean)


def test_bounds_enclose_the_expectation() -> None:
    rng = random.Random(1)  # noqa: S311
    for _ in range(100):
        groups = random_groups(rng)
        for name in METRICS:
            if "divisor=hits" in name or "shots" in name or "divisor=last" in name:
                continue
            low, high = oracles.pessimistic(name, groups), oracles.optimistic(name, groups)
            if name in oracles.RANK_METRICS:
                low, high = high, low
            assert float(low) - 1e-12 <= float(oracles.expected(name, groups))
            assert float(oracles.expected(name, groups)) <= float(high) + 1e-12


def test_a_large_group_takes_the_closed_form() -> None:
    n, m = 1000, 5
    groups = [[i < m for i in range(n)]]
    harmonic = math.fsum(1 / i for i in range(1, n + 1))
    close(oracles.expected("mAP", groups), (harmonic + (m - 1) / (n - 1) * (n - harmonic)) / n)
    close(oracles.expected("MeanR", groups), (n + 1) / (m + 1))
    close(oracles.expected("CMC@10", groups), 1 - math.comb(n - m, 10) / math.comb(n, 10))


# --- a whole evaluation ----------------------------------------------------------------------

RUN = ["mAP", "mAP(rule=trapezoid)", "mINP", "CMC@1", "CMC@2", "CMC@3", "CMC@4", "MeanR", "MedR"]


def test_worked_example_unmatched() -> None:
    case = shared("reid_worked_examples.json")["B_unmatched"]
    judged = oracles.same_label_literal(case["q_pid"], case["g_pid"], case["q_cam"], case["g_cam"])
    scores = -np.asarray(case["dist"], dtype=float)
    skip, per_query = oracles.evaluate_literal(scores, *judged, RUN, "expected")
    assert skip["mAP"] == case["mAP_skip"]
    assert int(np.isfinite(per_query["mAP"]).sum()) == case["n_valid"]
    zero, per_query = oracles.evaluate_literal(scores, *judged, RUN, "expected", None, "zero")
    assert zero["mAP"] == case["mAP_count_as_zero"]
    assert per_query["MeanR"].tolist() == [1.0, 1.0, 1.0, 4.0]  # three ranked items, one past
    assert (zero["MeanR"], zero["MedR"], zero["CMC@1"]) == (1.75, 1.0, 0.75)
    one, _ = oracles.evaluate_literal(scores, *judged, RUN, "expected", None, "one")
    assert one == dict.fromkeys(RUN, 1.0)
    with pytest.raises(ValueError, match="query 3"):
        oracles.evaluate_literal(scores, *judged, RUN, "expected", None, "error")


def test_worked_example_ragged() -> None:
    case = shared("reid_worked_examples.json")["B2_ragged"]
    judged = oracles.same_label_literal(case["q_pid"], case["g_pid"], case["q_cam"], case["g_cam"])
    values, _ = oracles.evaluate_literal(-np.asarray(case["dist"]), *judged, RUN, "index")
    assert [values[f"CMC@{k}"] for k in (1, 2, 3, 4)] == case["correct_cmc"]
    assert values["mAP"] == case["correct_mAP"]
    assert values["MedR"] == 1.5


def test_worked_example_junk() -> None:
    case = shared("reid_worked_examples.json")["C_junk"]
    arguments = ([case["q_pid"]], case["ranked_gallery_pid"], [case["q_cam"]])
    cameras = case["ranked_gallery_cam"]
    for junk, key in (((-1,), "junk_removed"), ((), "junk_left_in")):
        judged = oracles.same_label_literal(*arguments, cameras, junk)
        values, _ = oracles.evaluate_literal([[4, 3, 2, 1]], *judged, RUN, "index")
        close(values["mAP"], case[key]["ap_noninterp"], 1e-6)
        if "ap_trapezoid" in case[key]:
            close(values["mAP(rule=trapezoid)"], case[key]["ap_trapezoid"], 1e-6)
        assert [values["CMC@1"], values["CMC@2"]] == case[key]["cmc"]


def test_worked_example_ties() -> None:
    case = shared("reid_worked_examples.json")["D_ties"]
    judged = oracles.same_label_literal([case["q_pid"]], case["g_pid"])
    keys = {"expected": "ap_expected_over_orders", "index": "ap_stable_index_order"}
    rules: tuple[oracles.Ties, ...] = ("expected", "optimistic", "pessimistic", "index")
    for ties in rules:
        values, _ = oracles.evaluate_literal(case["dist"], *judged, RUN, ties)
        close(values["mAP"], case[keys.get(ties, f"ap_{ties}")], 1e-6)
    reverse, _ = oracles.evaluate_literal(case["dist"], *judged, RUN, "index", [3, 2, 1, 0])
    close(reverse["mAP(rule=trapezoid)"], case["ap_reversed_argsort_trapezoid"], 1e-6)


def test_worked_example_clothes() -> None:
    case = shared("reid_worked_examples.json")["G_cloth"]
    query, rows = case["query"], case["ranked"]
    pid, cam, clothes = ([row[i] for row in rows] for i in range(3))
    pair = ([query["clothes"]], clothes)
    none: list[tuple[Any, Any]] = []
    for key, different, same in (
        ("general", none, none),
        ("CC", [pair], none),
        ("SC", none, [pair]),
    ):
        judged = oracles.same_label_literal(
            [query["pid"]], pid, [query["cam"]], cam, different=different, same=same
        )
        scores = [[-float(i) for i in range(len(rows))]]
        values, _ = oracles.evaluate_literal(scores, *judged, RUN, "index")
        close(values["mAP"], case[key]["ap"], 1e-6)
        cmc = case[key].get("cmc", [case[key].get("cmc1")])
        assert [values[f"CMC@{k}"] for k in range(1, len(cmc) + 1)] == cmc


def test_revisited_oxford_lists() -> None:
    for case in shared("revisitop_compute_map.json")["cases"]:
        n = len(case["ranks"][0])
        scores = np.zeros((len(case["ranks"]), n))
        for i, ranked in enumerate(case["ranks"]):
            scores[i, ranked] = -np.arange(n)
        names = [f"P@{k}(divisor=last)" for k in case["kappas"]]
        values, per_query = oracles.evaluate_literal(
            scores,
            [g["ok"] for g in case["gnd"]],
            [g["junk"] for g in case["gnd"]],
            (),
            ["mAP(rule=trapezoid)", *names],
            "expected",
        )
        close(values["mAP(rule=trapezoid)"], case["map"])
        for got, wanted in zip(per_query["mAP(rule=trapezoid)"], case["aps"], strict=True):
            assert (math.isnan(got) and wanted is None) or got == pytest.approx(wanted, abs=1e-12)
        for name, wanted in zip(names, case["mpr"], strict=True):
            close(values[name], wanted)


def test_metric_learning_same_id_other_camera() -> None:
    cases = shared("pml_hand_cases.json")["cases"]
    case = next(c for c in cases if c["name"].startswith("same ID, other camera"))
    q_id, q_cam = zip(*case["query_labels"], strict=True)
    g_id, g_cam = zip(*case["reference_labels"], strict=True)
    judged = oracles.same_label_literal(q_id, g_id, q_cam, g_cam, failing="negative")
    scores = -np.abs(np.asarray(case["query"]) - np.asarray(case["reference"]).T)
    names = ["CMC@1", "R-precision", "MAP@R", "mAP"]
    values, _ = oracles.evaluate_literal(scores, *judged, names, "index")
    wanted = [1 / 2, (1 / 3 + 1) / 2, (1 / 9 + 1) / 2, ((1 / 3 + 2 / 4 + 3 / 5) / 3 + 1) / 2]
    assert [values[name] for name in names] == pytest.approx(wanted, abs=1e-12)


def test_evaluation_under_ties_by_hand() -> None:
    scores = [[2, 1, 1, 0], [1, 1, 0, 0]]
    values, per_query = oracles.evaluate_literal(
        scores, [{1}, {0, 3}], [set(), {1}], (), ["CMC@2", "MeanR", "MedR"], "expected"
    )
    assert per_query["CMC@2"].tolist() == [0.5, 1.0]
    assert per_query["MeanR"].tolist() == [2.5, 1.0]
    assert values == {"CMC@2": 0.75, "MeanR": 1.75, "MedR": 1.5}
    values, _ = oracles.evaluate_literal(scores, [{1}, {0}], [set(), ()], {1, 2}, RUN, "index")
    assert (values["CMC@1"], values["mAP"]) == (1.0, 1.0)  # the first query has no positive left


@pytest.mark.parametrize("ranks", [[1, 2], [1, 1, 2], [1, 2, 5, 9], [4], [3, 3, 1, 7, 2]])
def test_median_rank_is_numpys_median_without_ties(ranks: list[int]) -> None:
    masses = [{rank: Fraction(1)} for rank in ranks]
    assert oracles.median_rank(masses) == float(np.median(ranks))


def test_evaluation_modes_agree_without_ties() -> None:
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((20, 60))
    positives = [set(rng.choice(60, 4, replace=False).tolist()) for _ in range(20)]
    ignored = [set(rng.choice(60, 6, replace=False).tolist()) for _ in range(20)]
    names = ["mAP", "CMC@5", "MedR", "MeanR", "NDCG", "MAP@R", "mINP"]
    first, _ = oracles.evaluate_literal(scores, positives, ignored, {3, 9}, names, "index")
    rules: tuple[oracles.Ties, ...] = ("expected", "optimistic", "pessimistic")
    for ties in rules:
        assert first == oracles.evaluate_literal(scores, positives, ignored, {3, 9}, names, ties)[0]


def test_evaluation_with_ties_is_the_mean_over_queries() -> None:
    rng = np.random.default_rng(6)
    scores = rng.integers(0, 5, (15, 14)).astype(np.float32)
    positives = [set(rng.choice(14, 3, replace=False).tolist()) for _ in range(15)]
    rules = {
        "expected": oracles.expected_enumerated,
        "optimistic": oracles.optimistic,
        "pessimistic": oracles.pessimistic,
        "index": oracles.index,
    }
    modes: tuple[oracles.Ties, ...] = ("expected", "optimistic", "pessimistic", "index")
    for ties in modes:
        _, per_query = oracles.evaluate_literal(scores, positives, [()] * 15, {2}, METRICS, ties)
        for i, name in itertools.product(range(15), METRICS):
            kept = [j for j in range(14) if j != 2]
            groups = grouped([scores[i, j] for j in kept], [j in positives[i] for j in kept])
            close(per_query[name][i], float(rules[ties](name, groups)))


# --- relevance -------------------------------------------------------------------------------


def test_same_label_by_hand() -> None:
    got = oracles.same_label_literal(
        ["a", "b"], ["a", "a", "b", "x", "b"], [0, 1], [0, 1, 1, 0, 1], ("x",)
    )
    assert got == ([{1}, set()], [{0}, {2, 4}], {3})
    got = oracles.same_label_literal([5, 6], [5, 5, 6], q_id=[10, 12], g_id=[10, 11, 12])
    assert got == ([{1}, set()], [{0}, {2}], set())
    with pytest.raises(ValueError, match="another label"):
        oracles.same_label_literal([5], [6], q_id=[1], g_id=[1])


def test_within_by_hand() -> None:
    gallery = [(15, 20), (25, 0), (0, 25.001), (0, 0)]
    assert oracles.within_literal([(0, 0)], gallery, 25.0) == [{0, 1, 3}]
    assert oracles.within_literal([(0, 0)], gallery, 25.0, inclusive=False) == [{3}]


def test_geodesic_within_by_hand() -> None:
    # one degree of latitude at the equator is 110,574 m on WGS-84, one of longitude 111,319 m
    gallery = [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]
    assert oracles.geodesic_within_literal([(0.0, 0.0)], gallery, 111_000.0) == [{0, 2}]
    assert oracles.geodesic_within_literal([(0.0, 0.0)], gallery, 112_000.0) == [{0, 1, 2}]
