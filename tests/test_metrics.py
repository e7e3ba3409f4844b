"""The grammar of metrics, and numbers worked by hand or published."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reid_vpr_eval as rve
from reid_vpr_eval.metrics import METRICS, TIES, MetricValues, parse
from reid_vpr_eval.metrics.compute import chance, exact_mean
from shared_inputs import oracle


def ranked(*lists: list[int], **options: Any) -> rve.Ranking:
    """Rank lists of flags: 1 positive, 0 negative, -1 ignored, best first."""
    width = max(map(len, lists))
    lines = [line + [0] * (width - len(line)) for line in lists]
    role = np.array(lines)
    query, item = np.nonzero(role != 0)
    value = role[query, item]
    relevance = rve.Relevance.from_pairs(
        query, item, ignored=value == -1, n_query=len(lists), n_gallery=width
    )
    scores = np.tile(-np.arange(width, dtype=float), (len(lists), 1))
    return rve.rank(rve.ScoreMatrix(scores, higher_is_better=True), relevance, **options)


# The grammar


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("CMC@1", "CMC@1"), ("R@1", "CMC@1"), ("Rank-10", "CMC@10"), ("rank-1", "CMC@1"),
        ("hit@5", "CMC@5"), ("R@1%", "CMC@1%"), ("CMC@0.5%", "CMC@0.5%"), ("CMC@01", "CMC@1"),
        ("mAP", "mAP"), ("map", "mAP"), ("mAP(rule=rectangle)", "mAP"),
        ("mAP( rule = trapezoid )", "mAP(rule=trapezoid)"),
        ("mAP@5(rule=trapezoid, divisor=min)", "mAP@5(divisor=min, rule=trapezoid)"),
        ("MAP@R", "MAP@R"), ("IR-recall@5", "IR-recall@5"), ("P@10(divisor=min)",
                                                            "P@10(divisor=min)"),
        ("R-precision", "R-precision"), ("mINP", "mINP"), ("MedR", "MedR"),
    ],
)  # fmt: skip
def test_every_spelling_has_one_canonical_name(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize("text", ["recall@5", "Recall@5", "recall"])
def test_a_bare_recall_is_refused_with_both_meanings(text: str) -> None:
    with pytest.raises(rve.ProtocolError, match=r"CMC@.*IR-recall@"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "no metric 'nonsense'"), ("CMC", "needs a cut-off"), ("mINP@3", "no cut-off"),
        ("CMC@0", "from 1"), ("CMC@1.5", "from 1"), ("CMC@0%", "percentage"),
        ("CMC@101%", "percentage"), ("mAP(rule=oval)", "one of rectangle, trapezoid"),
        ("mAP(colour=red)", "no option 'colour'"), ("mAP(rule)", "option=value"),
        ("mAP(rule=trapezoid, rule=rectangle)", "each once"), ("", "is no metric"),
        ("CMC@-1", "is no metric"),
    ],
)  # fmt: skip
def test_malformed_names_say_what_is_accepted(text: str, why: str) -> None:
    with pytest.raises(rve.ProtocolError, match=why):
        parse(text)


@given(st.sampled_from(sorted(METRICS)), st.integers(1, 999), st.data())
def test_names_read_back(name: str, k: int, data: st.DataObject) -> None:
    metric = METRICS[name]
    cut = {"no": "", "level": f"={k / 1000:g}"}.get(metric.cutoff, f"@{k}")
    chosen = [
        f"{key}={data.draw(st.sampled_from(words)) if isinstance(words, tuple) else '1:3/2:9'}"
        for key, words in metric.options.items()
    ]
    text = f"{name}{cut}({','.join(chosen)})"
    assert parse(str(parse(text))) == parse(text)


def test_values_answer_to_every_spelling() -> None:
    values = MetricValues({"CMC@1": 0.25})
    assert values["R@1"] == values["Rank-1"] == values["hit@1"] == 0.25
    assert "R@1" in values
    with pytest.raises(KeyError, match="was not computed"):
        values["mAP"]


# By hand


def test_hand_worked_list() -> None:
    """0 1 1 0 1: AP (1/2 + 2/3 + 3/5)/3, trapezoid (1/4 + 7/12 + 11/20)/3, INP 3/5."""
    values = rve.compute(
        ranked([0, 1, 1, 0, 1]),
        ["mAP", "mAP(rule=trapezoid)", "mINP", "CMC@1", "CMC@2", "IR-recall@2", "P@2", "MRR",
         "R-precision", "MAP@R", "mAP@3", "mAP@3(divisor=k)", "mAP@2(divisor=min)", "MeanR",
         "P@10", "P@10(divisor=min)"],
    )  # fmt: skip
    expected = {
        "mAP": Fraction(1, 3) * (Fraction(1, 2) + Fraction(2, 3) + Fraction(3, 5)),
        "mAP(rule=trapezoid)": Fraction(1, 3) * (Fraction(1, 4) + Fraction(7, 12)
                                                 + Fraction(11, 20)),
        "mINP": Fraction(3, 5), "CMC@1": 0, "CMC@2": 1, "IR-recall@2": Fraction(1, 3),
        "P@2": Fraction(1, 2), "MRR": Fraction(1, 2), "R-precision": Fraction(2, 3),
        "MAP@R": Fraction(7, 18), "mAP@3": Fraction(7, 18), "mAP@3(divisor=k)": Fraction(7, 18),
        "mAP@2(divisor=min)": Fraction(1, 4), "MeanR": 2, "P@10": Fraction(3, 10),
        "P@10(divisor=min)": 1,
    }  # fmt: skip
    for name, value in expected.items():
        assert values[name] == pytest.approx(float(value), abs=1e-15), name


def test_a_percentage_is_one_of_the_ranked_gallery() -> None:
    flags = [0] * 249
    flags[2] = 1
    ranking = ranked(flags)
    assert rve.compute(ranking, "R@1%")["R@1%"] == 0  # round(2.49) = 2
    assert rve.compute(ranking, "R@1.2%")["R@1.2%"] == 1  # round(2.988) = 3
    assert rve.compute(ranked([1, 0]), "R@1%")["R@1%"] == 1  # at least one item


def test_no_positive_policies() -> None:
    ranking = ranked([1, 0, 0], [0, 0, 0], [0, 1, 0])
    for policy, ap, rank in (("skip", 0.75, 1.5), ("zero", 0.5, 7 / 3), ("one", 2.5 / 3, 4 / 3)):
        values = rve.compute(ranking, ["mAP", "MeanR"], no_positive=policy)
        assert values["mAP"] == pytest.approx(ap)
        assert values["MeanR"] == pytest.approx(rank)
        assert math.isnan(values.per_query("mAP")[1]) == (policy == "skip")
    with pytest.raises(rve.RelevanceError, match=r"1 of 3 queries have no positive \(queries 1\)"):
        rve.compute(ranking, "mAP", no_positive="error")
    assert rve.compute(ranking, "MedR", no_positive="zero")["MedR"] == 2
    with pytest.raises(rve.RelevanceError, match="none of the 1 queries"):
        rve.compute(ranked([0, 0]), "mAP")


def test_median_rank_is_the_usual_median_when_nothing_ties() -> None:
    for ranks in ([1, 2], [1, 2, 9], [3, 3, 4, 7], [5]):
        lists = [[0] * (rank - 1) + [1] for rank in ranks]
        assert rve.compute(ranked(*lists), "MedR")["MedR"] == np.median(ranks)


def test_collapsed_features_score_chance() -> None:
    """One tie group holds everything: the expectation is that of a random order."""
    relevance = rve.Relevance.from_pairs([0, 0, 1], [0, 1, 5], n_query=2, n_gallery=7)
    ranking = rve.rank(rve.ScoreMatrix(np.zeros((2, 7)), higher_is_better=True), relevance)
    names = ["CMC@2", "mAP", "mAP(rule=trapezoid)", "mINP", "MRR", "MeanR", "P@3", "MAP@R",
             "IR-recall@3", "R-precision", "MedR"]  # fmt: skip
    values, random = rve.compute(ranking, names), chance(ranking, names)
    for name in names:
        assert values[name] == random[name], name
    assert values["MeanR"] == pytest.approx((8 / 3 + 8 / 2) / 2)
    # AP of one of m=1, N=7: H_7 / 7; of m=2: (1/7)[H_7 + (1/6)(7 - H_7)].
    harmonic = sum(Fraction(1, i) for i in range(1, 8))
    two = (harmonic + Fraction(1, 6) * (7 - harmonic)) / 7
    assert values["mAP"] == pytest.approx(float((two + harmonic / 7) / 2), abs=1e-15)


def test_exact_means_do_not_depend_on_order() -> None:
    values = np.random.default_rng(0).normal(size=999) * 10.0 ** (np.arange(999) % 7)
    assert exact_mean(values) == exact_mean(values[::-1])


def test_unknown_words_are_refused() -> None:
    ranking = ranked([1, 0])
    for options in ({"ties": "lucky"}, {"no_positive": "drop"}, {"unretrieved": "maybe"}):
        with pytest.raises(rve.NotCountedError, match="is needed"):
            rve.compute(ranking, "mAP", **options)


# Published


def test_worked_examples_of_average_precision() -> None:
    """Case A: rectangle, trapezoid, INP and CMC."""
    for case in oracle("reid_worked_examples.json")["A_ap"]:
        names = ["mAP", "mAP(rule=trapezoid)", "mINP"]
        values = rve.compute(ranked(case["rel"]), names)
        for name, key in zip(names, ("ap_noninterp", "ap_trapezoid", "inp"), strict=True):
            assert values[name] == pytest.approx(case[key], abs=1e-6), (case, name)
        curve = [f"CMC@{k}" for k in range(1, len(case["cmc"]) + 1)]
        assert [rve.compute(ranked(case["rel"]), curve)[n] for n in curve] == case["cmc"]
        for k, value in enumerate(case.get("cmc_openreid_allshots", []), start=1):
            name = f"CMC@{k}(shots=all)"
            assert rve.compute(ranked(case["rel"]), name)[name] == pytest.approx(value, abs=1e-6)
        for k, value in case.get("oml_map_at", {}).items():
            name = f"mAP@{k}(divisor=hits)"
            assert rve.compute(ranked(case["rel"]), name)[name] == pytest.approx(value, abs=1e-6)
        for k, value in case.get("std_ap_at", {}).items():
            name = f"mAP@{k}(divisor=min)"
            assert rve.compute(ranked(case["rel"]), name)[name] == pytest.approx(value, abs=1e-6)


def label_result(case: dict[str, Any], **options: Any) -> rve.Ranking:
    query = rve.Samples.from_columns(label=case["q_pid"], camera=case["q_cam"])
    gallery = rve.Samples.from_columns(label=case["g_pid"], camera=case["g_cam"])
    relevance = rve.relevance.same_label(query, gallery, different=["camera"], **options)
    return rve.rank(rve.ScoreMatrix(case["dist"], higher_is_better=False), relevance)


def test_worked_example_of_unmatched_queries() -> None:
    case = oracle("reid_worked_examples.json")["B_unmatched"]
    ranking = label_result(case)
    skip, zero = (
        rve.compute(ranking, "mAP", no_positive=policy) for policy in ("skip", "zero")
    )
    assert skip["mAP"] == case["mAP_skip"]
    assert zero["mAP"] == case["mAP_count_as_zero"]
    assert skip.evaluated.sum() == case["n_valid"]


def test_worked_example_of_ragged_lists() -> None:
    """Queries with galleries shorter than the longest cut-off keep a monotone curve."""
    case = oracle("reid_worked_examples.json")["B2_ragged"]
    ranking = label_result(case)
    curve = [rve.compute(ranking, f"CMC@{k}")[f"CMC@{k}"] for k in range(1, 51)]
    assert curve[:4] == case["correct_cmc"]
    assert curve[4:] == [1.0] * 46
    assert rve.compute(ranking, "mAP")["mAP"] == case["correct_mAP"]


def test_worked_example_of_junk() -> None:
    case = oracle("reid_worked_examples.json")["C_junk"]
    size = len(case["ranked_gallery_pid"])
    query = rve.Samples.from_columns(label=[case["q_pid"]], camera=[case["q_cam"]])
    gallery = rve.Samples.from_columns(
        label=case["ranked_gallery_pid"], camera=case["ranked_gallery_cam"]
    )
    scores = rve.ScoreMatrix([list(range(size))], higher_is_better=False)
    for ignore, key in (([{"gallery": {"label": [-1]}}], "junk_removed"), ([], "junk_left_in")):
        relevance = rve.relevance.same_label(query, gallery, different=["camera"], ignore=ignore)
        values = rve.compute(
            rve.rank(scores, relevance), ["mAP", "mAP(rule=trapezoid)", "CMC@1", "CMC@2"]
        )
        assert values["mAP"] == pytest.approx(case[key]["ap_noninterp"], abs=1e-6)
        if "ap_trapezoid" in case[key]:
            assert values["mAP(rule=trapezoid)"] == pytest.approx(case[key]["ap_trapezoid"],
                                                                  abs=1e-6)  # fmt: skip
        assert [values["CMC@1"], values["CMC@2"]] == case[key]["cmc"]


def test_worked_example_of_ties() -> None:
    case = oracle("reid_worked_examples.json")["D_ties"]
    query = rve.Samples.from_columns(label=[case["q_pid"]])
    gallery = rve.Samples.from_columns(label=case["g_pid"])
    relevance = rve.relevance.same_label(query, gallery)
    ranking = rve.rank(rve.ScoreMatrix(case["dist"], higher_is_better=False), relevance)
    wanted = {
        "index": "ap_stable_index_order", "pessimistic": "ap_pessimistic",
        "optimistic": "ap_optimistic", "expected": "ap_expected_over_orders",
    }  # fmt: skip
    for ties, key in wanted.items():
        assert rve.compute(ranking, "mAP", ties=ties)["mAP"] == pytest.approx(case[key], abs=1e-6)
    backwards = rve.rank(
        rve.ScoreMatrix(case["dist"], higher_is_better=False), relevance, tie_order=[4, 3, 2, 1]
    )
    name = "mAP(rule=trapezoid)"
    assert rve.compute(backwards, name, ties="index")[name] == pytest.approx(
        case["ap_reversed_argsort_trapezoid"], abs=1e-6
    )


def test_worked_example_of_clothes() -> None:
    """Case G: the same list under the general, clothes-changing and same-clothes rules."""
    case = oracle("reid_worked_examples.json")["G_cloth"]
    pid, camera, clothes = zip(*case["ranked"], strict=True)
    asked = case["query"]
    query = rve.Samples.from_columns(
        label=[asked["pid"]], camera=[asked["cam"]], clothes=[asked["clothes"]]
    )
    gallery = rve.Samples.from_columns(
        label=list(pid), camera=list(camera), clothes=list(clothes)
    )
    scores = rve.ScoreMatrix([list(range(len(pid)))], higher_is_better=False)
    rules: list[tuple[list[str], list[str], str]] = [
        (["camera"], [], "general"),
        (["camera", "clothes"], [], "CC"),
        (["camera"], ["clothes"], "SC"),
    ]
    for different, same, key in rules:
        relevance = rve.relevance.same_label(query, gallery, different=different, same=same)
        values = rve.compute(rve.rank(scores, relevance), ["mAP", "CMC@1", "CMC@2"])
        assert values["mAP"] == pytest.approx(case[key]["ap"], abs=1e-4), key
        first = case[key]["cmc1"] if "cmc1" in case[key] else case[key]["cmc"][0]
        assert values["CMC@1"] == first, key


def test_musgrave_table_3() -> None:
    for case in oracle("musgrave_table3.json")["cases"]:
        flags = [int(rank in case["relevant_ranks"]) for rank in range(1, 11)]
        missing = 10 - len(case["relevant_ranks"])
        # R = 10: the remaining relevant items lie beyond the ten listed.
        values = rve.compute(ranked(flags + [1] * missing), ["CMC@1", "R-precision", "MAP@R"])
        assert values["CMC@1"] == case["R@1"]
        assert values["R-precision"] == pytest.approx(case["r_precision"])
        assert values["MAP@R"] == pytest.approx(case["map_at_r"])


def fraction(text: str) -> float:
    """Work out an arithmetic expression of whole numbers."""
    assert set(text) <= set("0123456789+-*/(). ")
    return float(eval(text))  # noqa: S307 (digits and operators only)


@pytest.mark.parametrize("includes", ["ref_includes_query=False",
                                      "ref_includes_query=True (first column dropped, R=count-1)"])
def test_pml_label_table(includes: str) -> None:
    """Lists of found labels, with the number of items of each label known."""
    case = oracle("pml_hand_cases.json")["cases"][0]
    own = "True" in includes
    expected = case[includes]
    for row, (label, found) in enumerate(
        zip(case["query_labels"], case["knn_labels"], strict=True)
    ):
        shown = found[1:] if own else found
        total = case["label_counts"][str(label)] - own
        flags = [int(other == label) for other in shown]
        ranking = ranked(flags + [0] * 20 + [1] * (total - sum(flags)))
        wanted = {"R-precision": "r_precision_per_query", "MAP@R": "map_at_r_per_query"}
        for name, key in wanted.items():
            assert rve.compute(ranking, name)[name] == pytest.approx(
                fraction(expected[key][row])
            ), (row, name)
        cut = f"mAP@{len(shown)}"
        assert rve.compute(ranking, cut)[cut] == pytest.approx(
            fraction(expected["map_per_query"][row])
        )
        mrr = rve.compute(ranking, "MRR")["MRR"] if any(flags) else 0.0
        assert mrr == pytest.approx(fraction(expected["mrr_per_query"][row]))


def test_pml_query_in_the_reference() -> None:
    case = oracle("pml_hand_cases.json")["cases"][1]
    query = np.arange(10.0)[:, None]
    half = np.arange(20) / 2
    reference = np.concatenate([half[::2], half[1::2]])[:, None]
    labels = [*range(10), *[1] * 10]
    ids = np.arange(20)
    result = evaluate_labels(query, labels[:10], reference, labels, ids[:10], ids)
    expected = case["expected"]
    assert result["CMC@1"] == fraction(expected["precision_at_1"])
    assert result["R-precision"] == pytest.approx(fraction(expected["r_precision"]))
    assert result["MAP@R"] == pytest.approx(fraction(expected["mean_average_precision_at_r"]))
    assert result["mAP"] == pytest.approx(fraction(expected["mean_average_precision"]))


def test_pml_self_is_removed_by_id_not_by_position() -> None:
    case = next(c for c in oracle("pml_hand_cases.json")["cases"] if "colocated" in c["name"])
    vectors = np.array(case["embeddings"], float)
    ids = np.arange(4)
    result = evaluate_labels(vectors, case["labels"], vectors, case["labels"], ids, ids)
    assert result["CMC@1"] == case["expected"]["precision_at_1"]


def test_pml_lone_labels_leave_the_mean() -> None:
    case = next(c for c in oracle("pml_hand_cases.json")["cases"] if c["name"] == "lone labels")
    query = rve.Samples.from_columns(label=case["query_labels"])
    gallery = rve.Samples.from_columns(label=case["reference_labels"])
    relevance = rve.relevance.same_label(query, gallery)
    lone = [case["query_labels"][i] for i in np.flatnonzero(relevance.n_positive == 0)]
    assert lone == case["lone_otherwise"]


def test_pml_same_id_other_camera_as_a_wrong_answer() -> None:
    """failing='negative' keeps same-camera items in the ranking."""
    case = next(c for c in oracle("pml_hand_cases.json")["cases"] if "other camera" in c["name"])
    sides = [
        rve.Samples.from_columns(label=[p[0] for p in pairs], camera=[p[1] for p in pairs])
        for pairs in (case["query_labels"], case["reference_labels"])
    ]
    relevance = rve.relevance.same_label(*sides, different=["camera"], failing="negative")
    scores = rve.Embeddings(
        np.array(case["query"], float), np.array(case["reference"], float), metric="euclidean"
    )
    values = rve.compute(
        rve.rank(scores, relevance), ["CMC@1", "R-precision", "MAP@R", "mAP"], ties="index"
    )
    expected = case["expected"]
    assert values["CMC@1"] == fraction(expected["precision_at_1"])
    assert values["R-precision"] == pytest.approx(fraction(expected["r_precision"]))
    assert values["MAP@R"] == pytest.approx(fraction(expected["mean_average_precision_at_r"]))
    assert values["mAP"] == pytest.approx(fraction(expected["mean_average_precision"]))


def evaluate_labels(
    query: Any, query_labels: Any, gallery: Any, gallery_labels: Any, query_ids: Any, ids: Any
) -> Any:
    sides = (
        rve.Samples.from_columns(label=query_labels, id=query_ids),
        rve.Samples.from_columns(label=gallery_labels, id=ids),
    )
    relevance = rve.relevance.same_label(*sides)
    ranking = rve.rank(rve.Embeddings(query, gallery, metric="euclidean"), relevance)
    return rve.compute(ranking, ["CMC@1", "R-precision", "MAP@R", "mAP"], ties="index")


#: Keys of the file of tied lists, and the metric each one is.
TIED = {
    "hit": "CMC@{k}", "rec": "IR-recall@{k}", "P": "P@{k}", "rprec": "R-precision", "ap": "mAP",
    "apK": "mAP@{k}", "trap": "mAP(rule=trapezoid)", "mapr": "MAP@R", "rr": "MRR",
    "first": "MeanR", "inp": "mINP", "apKh": "mAP@{k}(divisor=hits)", "rrK": "MRR@{k}",
    "ndcg": "NDCG@{k}", "last": "MeanR(of=last)", "meanrank": "MeanR(of=all)",
}  # fmt: skip


def test_tied_lists_have_the_published_expectation() -> None:
    """Cases of ties_expected.json, by exact enumeration there."""
    for case in oracle("ties_expected.json")["cases"]:
        flags = case["rel"]
        relevance = rve.Relevance.from_pairs(
            [0] * sum(flags), np.flatnonzero(flags), n_query=1, n_gallery=len(flags)
        )
        ranking = rve.rank(rve.ScoreMatrix([case["scores"]], higher_is_better=True), relevance)
        for key, name in TIED.items():
            text = name.format(k=case["k"])
            found = rve.compute(ranking, text)[text]
            assert found == pytest.approx(case["expected"][key], abs=1e-12), (case, key)


def test_all_tie_policies_agree_where_nothing_ties() -> None:
    ranking = ranked([0, 1, 0, 1], [1, 0, 0, 0])
    names = [n if METRICS[n].cutoff != "must" else f"{n}@2" for n in METRICS
             if METRICS[n].aggregate != "pooled"]  # fmt: skip
    first = rve.compute(ranking, names, ties=TIES[0])
    for ties in TIES[1:]:
        other = rve.compute(ranking, names, ties=ties)
        assert {n: first[n] for n in names} == pytest.approx({n: other[n] for n in names})
