"""Other tools' rules as data: each row is what the literal rule gives, or says what it needs."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import statistics
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import reid_vpr_eval as rve
from reid_vpr_eval import cli
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.protocol import protocol_folder
from reid_vpr_eval.studies.conventions import conventions, conventions_text, profile_row
from reid_vpr_eval.studies.profiles import Profile, list_profiles, load_profile
from shared_inputs import oracle

NAMES = [
    "ann-benchmarks", "fast-reid", "gldv2", "layumi", "mapillary-sls", "market-matlab",
    "mars-official", "oml", "open-reid", "place-recognition", "pytorch-metric-learning",
    "revisitop", "sysu-official", "torchmetrics", "torchreid", "trec_eval", "vpr-bench", "vsepp",
]  # fmt: skip


# The rules, literally: on queries as lists, best first, junk taken out


class Query(NamedTuple):
    """Right or wrong in the order of the list, and the scores there."""

    right: list[bool]
    score: list[float]
    grade: list[float]

    @property
    def ranks(self) -> list[int]:
        return [rank for rank, flag in enumerate(self.right, start=1) if flag]


def rectangle(query: Query) -> float:
    ranks = query.ranks
    return sum(j / rank for j, rank in enumerate(ranks, start=1)) / len(ranks)


def compute_ap(query: Query) -> float:
    """compute_ap of Oxford and Market-1501: the precision before a positive starts at 1."""
    old_recall, old_precision, hits, total = 0.0, 1.0, 0, 0.0
    for rank, flag in enumerate(query.right, start=1):
        hits += flag
        recall, precision = hits / sum(query.right), hits / rank
        total += (recall - old_recall) * (old_precision + precision) / 2
        old_recall, old_precision = recall, precision
    return total


def scikit_learn(query: Query) -> float:
    """The sum of gains in recall times precision, thresholds at the distinct scores."""
    total, old_recall = 0.0, 0.0
    for threshold in sorted(set(query.score), reverse=True):
        chosen = [f for f, s in zip(query.right, query.score, strict=True) if s >= threshold]
        recall = sum(chosen) / sum(query.right)
        total += (recall - old_recall) * sum(chosen) / len(chosen)
        old_recall = recall
    return total


def hit(k: int) -> Callable[[Query], float]:
    return lambda query: float(any(query.right[:k]))


def allshots(k: int) -> Callable[[Query], float]:
    """The loop of open-reid: each positive after taking the earlier ones out."""

    def value(query: Query) -> float:
        index = [rank - 1 for rank in query.ranks]
        return sum(1 / len(index) for j, place in enumerate(index) if place - j < k)

    return value


def precision(k: int) -> Callable[[Query], float]:
    return lambda query: sum(query.right[:k]) / k


def cut_ap(k: int, divisor: Callable[[int, int], int]) -> Callable[[Query], float]:
    """AP over the first k, its sum divided by what `divisor` says of positives and hits."""

    def value(query: Query) -> float:
        found = [rank for rank in query.ranks if rank <= k]
        total = sum(j / rank for j, rank in enumerate(found, start=1))
        return total / max(divisor(len(query.ranks), len(found)), 1)

    return value


def revisitop_precision(k: int) -> Callable[[Query], float]:
    def value(query: Query) -> float:
        kq = min(max(query.ranks), k)
        return sum(rank <= kq for rank in query.ranks) / kq

    return value


def oml_precision(k: int) -> Callable[[Query], float]:
    def value(query: Query) -> float:
        return sum(query.right[:k]) / min(len(query.ranks), k, len(query.right))

    return value


def r_precision(query: Query) -> float:
    return sum(query.right[: len(query.ranks)]) / len(query.ranks)


def map_at_r(query: Query) -> float:
    return cut_ap(len(query.ranks), lambda m, _: m)(query)


def first(query: Query) -> float:
    return query.ranks[0]


def ndcg(k: int, average: bool = False) -> Callable[[Query], float]:
    """Linear gain; with `average` equal scores share their mean gain (scikit-learn)."""

    def value(query: Query) -> float:
        gain = list(query.grade)
        if average:
            mean = {s: statistics.fmean(g for g, t in zip(query.grade, query.score, strict=True)
                                        if t == s) for s in query.score}  # fmt: skip
            gain = [mean[s] for s in query.score]
        weight = [1 / math.log2(rank + 1) for rank in range(1, len(gain) + 1)]
        best = sum(w * g for w, g in zip(weight[:k], sorted(query.grade, reverse=True),
                                         strict=False))  # fmt: skip
        return sum(w * g for w, g in zip(weight[:k], gain, strict=False)) / best if best else 0.0

    return value


def gap(queries: list[Query]) -> float:
    answers = sorted(queries, key=lambda q: -q.score[0])  # stable: then by query
    hits, total = 0, 0.0
    for place, query in enumerate(answers, start=1):
        hits += query.right[0]
        total += query.right[0] * hits / place
    return total / sum(any(q.right) for q in queries)


def bench_curve(queries: list[Query]) -> tuple[list[float], list[float]]:
    """precision_recall_curve over first answers, by falling threshold, then (1, 0) in front."""
    precision, recall = [1.0], [0.0]
    correct = sum(q.right[0] for q in queries)
    for threshold in sorted({q.score[0] for q in queries}, reverse=True):
        given = [q.right[0] for q in queries if q.score[0] >= threshold]
        precision.append(sum(given) / len(given))
        recall.append(sum(given) / correct)
    return precision, recall


def bench_auc(queries: list[Query]) -> float:
    p, r = bench_curve(queries)
    return sum((r[i] - r[i - 1]) * (p[i] + p[i - 1]) / 2 for i in range(1, len(p)))


def bench_ep(queries: list[Query]) -> float:
    p, r = bench_curve(queries)
    start = next(a for a, b in zip(p, r, strict=True) if b > 0)
    perfect = max(b for a, b in zip(p, r, strict=True) if a == 1) if start == 1 else 0.0
    return (start + perfect) / 2


def valid(value: Callable[[Query], float]) -> Callable[[list[Query]], float]:
    """The mean over the queries that have a positive."""
    return lambda queries: statistics.fmean(value(q) for q in queries if any(q.right))


def divided_by_all(value: Callable[[Query], float]) -> Callable[[list[Query]], float]:
    return lambda queries: sum(value(q) for q in queries if any(q.right)) / len(queries)


def unless_unmatched(value: Callable[[Query], float]) -> Callable[[list[Query]], float | None]:
    return lambda queries: (
        statistics.fmean(value(q) for q in queries) if all(any(q.right) for q in queries) else None
    )


def medr(queries: list[Query]) -> float:
    """floor(median(ranks)) + 1, with ranks from 0."""
    return math.floor(statistics.median(first(q) - 1 for q in queries if any(q.right))) + 1


Rule = Callable[[list[Query]], float | None]
#: For each profile: how its lists are sorted, and its numbers.
LITERAL: dict[str, tuple[str, dict[str, Rule]]] = {
    "market-matlab": ("stable", {
        "mAP": divided_by_all(compute_ap), "r1": divided_by_all(hit(1)),
    }),
    "torchreid": ("stable", {
        "mAP": valid(rectangle), **{f"Rank-{k}": valid(hit(k)) for k in (1, 5, 10, 20)},
    }),
    "fast-reid": ("stable", {
        "mAP": valid(rectangle), "mINP": valid(lambda q: len(q.ranks) / q.ranks[-1]),
        **{f"Rank-{k}": valid(hit(k)) for k in (1, 5, 10)},
    }),
    "open-reid": ("stable", {
        "mAP": valid(scikit_learn), "market1501 top-1": valid(hit(1)),
        **{f"allshots top-{k}": valid(allshots(k)) for k in (1, 5, 10)},
    }),
    "layumi": ("reversed", {
        "mAP": divided_by_all(compute_ap),
        **{f"Rank@{k}": divided_by_all(hit(k)) for k in (1, 5, 10)},
    }),
    "sysu-official": ("stable", {"mAP": valid(rectangle)}),
    "mars-official": ("stable", {
        "mAP": unless_unmatched(compute_ap), "r1": divided_by_all(hit(1)),
    }),
    "revisitop": ("stable", {
        "mAP": valid(compute_ap),
        **{f"mP@{k}": valid(revisitop_precision(k)) for k in (1, 5, 10)},
    }),
    "place-recognition": ("stable", {
        f"R@{k}": divided_by_all(hit(k)) for k in (1, 5, 10, 20)
    }),
    "mapillary-sls": ("stable", {
        **{f"recall@{k}": valid(hit(k)) for k in (1, 5, 10, 20)},
        "map@1": valid(cut_ap(1, lambda m, _: min(m, 1))),
        "map@5": valid(cut_ap(5, lambda m, _: min(m, 5))),
        "map@10": valid(cut_ap(10, lambda m, _: min(m, 10))),
        "map@20": valid(cut_ap(20, lambda m, _: min(m, 20))),
    }),
    "vpr-bench": ("stable", {
        **{f"RecallRate@{k}": divided_by_all(hit(k)) for k in (1, 5, 19)},
        "AUC-PR": bench_auc, "EP": bench_ep,
    }),
    "pytorch-metric-learning": ("stable", {
        "MAP@R": valid(map_at_r), "R-precision": valid(r_precision), "P@1": valid(precision(1)),
        "MAP": valid(rectangle), "MRR": valid(lambda q: 1 / first(q)),
    }),
    "vsepp": ("reversed", {
        **{f"r{k}": valid(hit(k)) for k in (1, 5, 10)}, "medr": medr, "meanr": valid(first),
    }),
    "trec_eval": ("docno descending", {
        "map": divided_by_all(rectangle), "Rprec": divided_by_all(r_precision),
        "recip_rank": divided_by_all(lambda q: 1 / first(q)),
        "P_5": divided_by_all(precision(5)), "P_10": divided_by_all(precision(10)),
        "recall_10": divided_by_all(lambda q: sum(q.right[:10]) / len(q.ranks)),
        "success_1": divided_by_all(hit(1)), "ndcg": divided_by_all(ndcg(10**6)),
        "ndcg_cut_10": divided_by_all(ndcg(10)),
    }),
    "torchmetrics": ("stable", {
        "MAP": divided_by_all(rectangle),
        "MAP@10": divided_by_all(cut_ap(10, lambda _, hits: hits)),
        "MRR": divided_by_all(lambda q: 1 / first(q)),
        "Precision@10": divided_by_all(precision(10)),
        "Recall@10": divided_by_all(lambda q: sum(q.right[:10]) / len(q.ranks)),
        "HitRate@10": divided_by_all(hit(10)), "RPrecision": divided_by_all(r_precision),
        "NDCG": divided_by_all(ndcg(10**6, average=True)),
    }),
    "oml": ("stable", {
        "cmc@1": divided_by_all(hit(1)), "cmc@5": divided_by_all(hit(5)),
        "precision@5": unless_unmatched(oml_precision(5)),
        "map@5": divided_by_all(cut_ap(5, lambda _, hits: hits)),
    }),
    "gldv2": ("stable", {
        "mAP@100": unless_unmatched(cut_ap(100, lambda m, _: min(m, 100))), "GAP": gap,
    }),
    "ann-benchmarks": ("stable", {}),
}  # fmt: skip


def literal(ranking: rve.Ranking, scores: npt.NDArray[Any], order: str) -> list[Query]:
    """Sort each query's items by score, equal ones in the tool's order; leave out ignored."""
    width = scores.shape[1]
    queries = []
    for row in range(len(scores)):
        role, grade = [0] * width, [0.0] * width
        for at in range(ranking.offsets[row], ranking.offsets[row + 1]):
            role[ranking.item[at]] = int(ranking.role[at])
            grade[ranking.item[at]] = float(ranking.grade[at])
        sign = 1 if order == "stable" else -1  # ids are in gallery order
        places = sorted(range(width), key=lambda item: (-scores[row, item], sign * item))
        kept = [item for item in places if role[item] != IGNORED]
        right = [role[item] == POSITIVE for item in kept]
        queries.append(Query(right, scores[row, kept].tolist(), [grade[item] for item in kept]))
    return queries


POSITIVE, IGNORED = 1, -1


def random_input(seed: int, matched: bool) -> tuple[npt.NDArray[Any], rve.Relevance]:
    """Few score levels, so that much ties; ignored pairs, judged negatives, lone queries."""
    rng = np.random.default_rng(seed)
    n_query, n_gallery = 7, 26
    scores = rng.integers(0, 9, (n_query, n_gallery)).astype(float)
    query, item = np.nonzero(rng.random((n_query, n_gallery)) < 0.45)
    kind = rng.integers(0, 4, len(query))
    if not matched:
        kind[(query == 2) & (kind > 1)] = 0
    grade = (kind > 1).astype(int)
    relevance = rve.Relevance.from_pairs(
        query, item, grade=grade, ignored=kind == 1, n_query=n_query, n_gallery=n_gallery,
        no_positive="skip",
    )  # fmt: skip
    return scores, relevance


def permuted(ranking: rve.Ranking, seed: int) -> rve.Ranking:
    """Exchange the roles among the judged items of each query."""
    rng = np.random.default_rng(seed)
    place = np.arange(len(ranking.role))
    for start, stop in zip(ranking.offsets, ranking.offsets[1:], strict=False):
        place[start:stop] = rng.permutation(place[start:stop])
    return dataclasses.replace(ranking, role=ranking.role[place], grade=ranking.grade[place])


def check_rows(ranking: rve.Ranking, scores: npt.NDArray[Any]) -> None:
    table = conventions(ranking)
    for name, (order, rules) in LITERAL.items():
        rows = table[table["profile"] == name].set_index("called")
        queries = literal(ranking, scores, order)
        counted = {called for called, metric in rows["metric"].items()
                   if metric and "(by=" not in metric}  # fmt: skip
        assert set(rules) == counted, name
        for called, rule in rules.items():
            value = rows["value"][called]
            if called in ("AUC-PR", "EP") and not any(q.right[0] for q in queries):
                assert "no first answer is right" in rows["note"][called]
                continue
            wanted = rule(queries)
            if order == "docno descending" and ranking.tie_order == "position" and value is None:
                assert "depends on the order of equal scores" in rows["note"][called]
            elif wanted is None:
                assert value is None, (name, called)
                assert rows["note"][called] == "undefined (1 of 7 queries without a positive)"
            else:
                assert value == pytest.approx(wanted, abs=1e-12), (name, called)


@pytest.mark.parametrize("matched", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_each_row_follows_the_literal_rule(seed: int, matched: bool, tmp_path: Path) -> None:
    """Also on a saved ranking whose roles were permuted, without the scores."""
    scores, relevance = random_input(seed, matched)
    ranking = rve.rank(rve.ScoreMatrix(scores, higher_is_better=True), relevance)
    check_rows(ranking, scores)
    other = permuted(ranking, seed)
    assert (other.role != ranking.role).any()
    other.save(tmp_path / "ranking.npz")
    check_rows(rve.Ranking.load(tmp_path / "ranking.npz"), scores)


@pytest.mark.parametrize("seed", range(4))
def test_document_numbers_decide_where_they_were_counted(seed: int) -> None:
    scores, relevance = random_input(seed, matched=False)
    ranking = rve.rank(
        rve.ScoreMatrix(scores, higher_is_better=True), relevance,
        tie_order=np.arange(scores.shape[1])[::-1].copy(),
    )  # fmt: skip
    ranking = dataclasses.replace(ranking, tie_order="id_desc")
    queries = literal(ranking, scores, "docno descending")
    table = conventions(ranking, ["trec_eval"])
    for called, value in zip(table["called"], table["value"], strict=True):
        assert value == pytest.approx(LITERAL["trec_eval"][1][called](queries), abs=1e-12)
    turned = conventions(ranking, ["torchreid"]).set_index("called")
    assert turned["value"]["mAP"] is None
    assert "rank with tie_order='position'" in turned["note"]["mAP"]


def test_every_rule_is_told_apart_by_the_random_rankings() -> None:
    """The inputs above are such that rectangle, trapezoid, ties and policies all differ."""
    scores, relevance = random_input(0, matched=False)
    table = conventions(rve.rank(rve.ScoreMatrix(scores, higher_is_better=True), relevance))
    first_of = table.groupby("profile").first()["value"]
    ap = [first_of[n] for n in ("torchreid", "market-matlab", "layumi", "open-reid", "revisitop")]
    assert len({round(value, 9) for value in ap}) == 5


# Worked values


def lists(*rows: list[int]) -> rve.Ranking:
    """Lists of flags without ties, best first."""
    query, item = np.nonzero(np.array(rows))
    relevance = rve.Relevance.from_pairs(
        query, item, n_query=len(rows), n_gallery=len(rows[0]), no_positive="skip"
    )
    scores = np.tile(-np.arange(len(rows[0]), dtype=float), (len(rows), 1))
    return rve.rank(rve.ScoreMatrix(scores, higher_is_better=True), relevance)


def value_of(ranking: rve.Ranking, profile: str, called: str = "mAP") -> Any:
    table = conventions(ranking, [profile]).set_index("called")
    return table["value"][called]


def test_worked_lists() -> None:
    for case in oracle("reid_worked_examples.json")["A_ap"]:
        ranking = lists(case["rel"])
        for profile in ("torchreid", "fast-reid", "open-reid", "sysu-official"):
            assert value_of(ranking, profile) == pytest.approx(case["ap_noninterp"], abs=1e-6)
        for profile in ("market-matlab", "layumi", "mars-official", "revisitop"):
            assert value_of(ranking, profile) == pytest.approx(case["ap_trapezoid"], abs=1e-6)
        assert value_of(ranking, "fast-reid", "mINP") == pytest.approx(case["inp"], abs=1e-6)
        if "5" in case.get("oml_map_at", {}):
            assert value_of(ranking, "oml", "map@5") == pytest.approx(
                case["oml_map_at"]["5"], abs=1e-6
            )
        if "cmc_openreid_allshots" in case:
            assert value_of(ranking, "open-reid", "allshots top-1") == pytest.approx(
                case["cmc_openreid_allshots"][0], abs=1e-6
            )


def test_worked_unmatched_query() -> None:
    """Three perfect queries and one without a positive."""
    case = oracle("reid_worked_examples.json")["B_unmatched"]
    ranking = lists([1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0])
    for profile, first_rank in (("torchreid", "Rank-1"), ("fast-reid", "Rank-1")):
        assert value_of(ranking, profile) == case["mAP_skip"]
        assert value_of(ranking, profile, first_rank) == 1.0
    for profile, first_rank in (("market-matlab", "r1"), ("layumi", "Rank@1")):
        assert value_of(ranking, profile) == case["mAP_count_as_zero"]
        assert value_of(ranking, profile, first_rank) == 0.75
    assert value_of(ranking, "mars-official") is None
    assert value_of(ranking, "oml", "precision@5") is None


def test_no_first_answer_is_right() -> None:
    rows = conventions(lists([0, 1, 1], [0, 0, 1]), ["vpr-bench"]).set_index("called")
    assert rows["value"]["RecallRate@1"] == 0.0
    assert rows["value"]["EP"] is None
    assert "no first answer is right" in rows["note"]["AUC-PR"]


def test_worked_ties() -> None:
    case = oracle("reid_worked_examples.json")["D_ties"]
    query = rve.Samples.from_columns(label=[case["q_pid"]])
    gallery = rve.Samples.from_columns(label=case["g_pid"])
    ranking = rve.rank(
        rve.ScoreMatrix(case["dist"], higher_is_better=False),
        rve.relevance.same_label(query, gallery),
    )
    for profile, key in (("torchreid", "ap_stable_index_order"), ("open-reid", "ap_sklearn_group"),
                         ("layumi", "ap_reversed_argsort_trapezoid")):  # fmt: skip
        assert value_of(ranking, profile) == pytest.approx(case[key], abs=1e-6)
    table = conventions(ranking, ["torchreid", "open-reid"]).set_index(["profile", "called"])
    assert table["difference"]["torchreid", "mAP"] == "ties=index +31.9"
    assert table["difference"]["open-reid", "mAP"] == "ties=grouped -18.1"


# What makes the difference


def test_differences_name_each_option_that_moves_the_number() -> None:
    ranking = lists([0, 1, 1, 0, 1], [0, 0, 0, 0, 0])
    table = conventions(ranking, ["torchreid", "market-matlab", "oml"])
    rows = table.set_index(["profile", "called"])["difference"]
    ap, trapezoid = (0.5 + 2 / 3 + 0.6) / 3, 0.461111
    assert rows["torchreid", "mAP"] == "same"
    assert rows["market-matlab", "mAP"] == (
        f"rule=trapezoid {100 * (trapezoid - ap):+.1f}, no_positive=zero {-50 * ap:+.1f}; "
        f"together {100 * (trapezoid / 2 - ap):+.1f}"
    )
    assert rows["oml", "cmc@1"] == "same"
    assert rows["oml", "cmc@5"] == "no_positive=zero -50.0"


def test_a_result_is_compared_with_its_own_protocol() -> None:
    result = small_result(10**9, no_positive="zero", metrics=["mAP(rule=trapezoid)", "CMC@1"])
    rows = conventions(result, ["market-matlab", "torchreid"]).set_index(["profile", "called"])
    assert rows["difference"]["market-matlab", "mAP"] == "same"
    assert rows["difference"]["torchreid", "mAP"].startswith("rule=rectangle +")
    assert "no_positive=skip +" in rows["difference"]["torchreid", "mAP"]


def test_a_macro_average_is_named() -> None:
    result = small_result(10**9, macro=["label"])
    assert result.ranking is not None
    rows = conventions(result, ["torchreid"]).set_index("called")
    assert rows["value"]["mAP"] == pytest.approx(
        rve.compute(result.ranking, "mAP", no_positive="skip")["mAP"]
    )
    move = 100 * (rows["value"]["mAP"] - result.metrics["mAP"])
    assert rows["difference"]["mAP"] == f"macro=none {move:+.1f}"


# What was not counted


def test_what_was_counted_for_the_first_positive_only() -> None:
    scores, relevance = random_input(1, matched=True)
    matrix = rve.ScoreMatrix(scores, higher_is_better=True)
    table = conventions(rve.rank(matrix, relevance, keep="first"))
    rows = table.set_index(["profile", "called"])
    assert rows["value"]["torchreid", "mAP"] is None
    assert "rank with keep='all'" in rows["note"]["torchreid", "mAP"]
    queries = literal(rve.rank(matrix, relevance), scores, "stable")
    assert rows["value"]["torchreid", "Rank-5"] == pytest.approx(valid(hit(5))(queries))
    assert rows["value"]["place-recognition", "R@5"] == rows["value"]["torchreid", "Rank-5"]


def test_short_lists() -> None:
    """Tools that read such lists count what was not returned as never found; others need more."""
    relevance = rve.Relevance.from_pairs([0, 0, 1], [0, 5, 5], n_query=3, n_gallery=6,
                                         no_positive="skip")  # fmt: skip
    ranking = rve.rank(rve.RankedLists([[3, 0], [1, 2], []]), relevance)
    rows = conventions(ranking).set_index(["profile", "called"])
    assert rows["value"]["torchreid", "mAP"] is None
    assert "rank deeper" in rows["note"]["torchreid", "mAP"]
    assert rows["value"]["trec_eval", "map"] == pytest.approx((0.25 + 0 + 0) / 3)
    assert rows["value"]["place-recognition", "R@5"] == pytest.approx(1 / 3)
    assert rows["value"]["oml", "map@5"] == pytest.approx((0.5 + 0 + 1) / 3)  # nothing to find
    assert rows["value"]["oml", "precision@5"] == pytest.approx((0.5 + 0 + 1) / 3)
    assert rows["value"]["oml", "cmc@1"] == pytest.approx((0 + 0 + 1) / 3)
    absent = rve.Relevance.from_pairs([0, 1], [0, 5], n_query=2, n_gallery=6, no_positive="skip")
    ranking = rve.rank(rve.RankedLists([[3, 0], []]), absent)
    rows = conventions(ranking).set_index(["profile", "called"])
    assert rows["value"]["mapillary-sls", "recall@1"] is None
    assert "nothing was returned for 1 queries" in rows["note"]["mapillary-sls", "recall@1"]
    assert rows["value"]["trec_eval", "map"] == pytest.approx(0.25)


def test_needs_are_told() -> None:
    rows = conventions(lists([1, 0, 1])).set_index(["profile", "called"])
    lacking = {key: note for key, note in rows["note"].to_dict().items()
               if note.startswith("needs ")}  # fmt: skip
    assert set(lacking) == {
        ("ann-benchmarks", "recall@10"), ("oml", "fnmr@fmr"), ("open-reid", "cuhk03 top-1"),
        ("vsepp", "rsum"),
    }  # fmt: skip
    assert all(rows["value"].to_dict()[key] is None for key in lacking)
    assert "needs group counts of 'label'" in rows["note"]["sysu-official", "r1"]


def test_nothing_to_evaluate_is_told() -> None:
    rows = conventions(lists([0, 0]), ["torchreid", "market-matlab"]).set_index("profile")
    assert all("none has a positive" in note for note in rows["note"]["torchreid"])
    assert rows["value"]["market-matlab"].tolist() == [0.0, 0.0]


# The files


def test_the_shipped_profiles() -> None:
    assert list_profiles() == NAMES == sorted(LITERAL)
    assert "profiles" not in rve.list_protocols()


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_is_complete(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.title
    assert profile.reference
    assert len({entry.called for entry in profile.metrics}) == len(profile.metrics)
    for entry in profile.metrics:
        assert bool(entry.metric) != bool(entry.needs)
        assert not entry.metric or str(parse(entry.metric)) == entry.metric


def test_every_protocol_names_a_profile_that_exists() -> None:
    named = {rve.load_protocol(name).report.profile for name in rve.list_protocols()}
    assert named - {None} <= set(NAMES)
    assert {"market-matlab", "place-recognition"} <= named


GOOD = """
name = "mine"
ties = "index"
no_positive = "skip"
metrics = [{ as = "mAP", metric = "mAP" }]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("no_positive", "no_positives", "no_positives: unknown key; did you mean 'no_positive'"),
        ("no_positive", "no_positives", "no_positive: is needed"),
        ("skip", "leave", "no_positive: one of skip, zero, one, undefined, error is needed"),
        ("index", "random", "ties: one of index, reversed, grouped, expected, "),
        ('name = "mine"', "", "name: is needed"),
        ('name = "mine"', 'name = "mine"\nnote = 3', "note: a text is needed"),
        ("as =", "is =", r"metrics\[0\].is: unknown key"),
        ("as =", "is =", r"metrics\[0\].as: is needed"),
        ('metric = "mAP"', 'metric = "maq"', r"metrics\[0\].metric: 'maq': no metric"),
        ('metric = "mAP"', 'metric = 3', r"metrics\[0\].metric: a text is needed"),
        ('metric = "mAP"', 'metric = "mAP", needs = "x"', "either 'metric' or 'needs' is needed"),
        (', metric = "mAP"', "", "either 'metric' or 'needs' is needed"),
        ('metric = "mAP"', 'metric = "CMC@1", ties = "grouped"', "a way to read mAP, not CMC@1"),
        ('metric = "mAP"', 'metric = "mAP", ties = "odd"', r"metrics\[0\].ties: one of"),
        ('[{ as = "mAP", metric = "mAP" }]', "[]", "metrics: a list of tables is needed"),
        ('[{ as = "mAP", metric = "mAP" }]', "[3]", r"metrics\[0\]: a table is needed"),
    ],
)  # fmt: skip
def test_faults_are_located(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert load_profile(path).ties == "index"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(rve.ProtocolError, match=said) as raised:
        load_profile(str(path))
    assert str(path) in str(raised.value)


def test_unknown_and_unreadable_profiles(tmp_path: Path) -> None:
    with pytest.raises(rve.ProtocolError, match="'layuni'; did you mean layumi"):
        load_profile("layuni")
    with pytest.raises(rve.ProtocolError, match="known: ann-benchmarks, "):
        load_profile("qqqqqq")
    with pytest.raises(rve.ProtocolError, match="no such profile file"):
        load_profile(tmp_path / "absent.toml")
    (tmp_path / "odd.toml").write_text("name = ")
    with pytest.raises(rve.ProtocolError, match="is not valid TOML"):
        load_profile(tmp_path / "odd.toml")


def test_profiles_may_be_given_in_every_form() -> None:
    ranking = lists([1, 0, 1])
    path = protocol_folder() / "profiles" / "layumi.toml"
    made = Profile.from_dict(tomllib.loads(GOOD))
    table = conventions(ranking, ["layumi", path, made])
    assert table["profile"].unique().tolist() == ["layumi", "mine"]
    assert table["value"][len(table) - 1] == pytest.approx(5 / 6)


# The command line and the line beside the headline


def small_result(levels: int = 20, **changes: Any) -> rve.Result:
    """Labels under a protocol with changes; few levels of scores, so that some tie."""
    report = {key: changes.pop(key) for key in ("metrics", "profile") if key in changes}
    protocol = rve.Protocol.from_dict({
        "name": "small", "relevance": {"kind": "label"},
        "evaluation": {"no_positive": "skip", **changes},
        "report": {"metrics": ["mAP", "CMC@1"], **report},
    })  # fmt: skip
    rng = np.random.default_rng(5)
    query = rve.Samples.from_columns(label=[0, 0, 0, 1, 2, 9])
    gallery = rve.Samples.from_columns(label=rng.integers(0, 3, 30))
    scores = rve.ScoreMatrix(rng.integers(0, levels, (6, 30)).astype(float), higher_is_better=True)
    return rve.evaluate(protocol, query, gallery, scores)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "small"
    small_result().save(folder)
    return folder


def told(*arguments: object) -> str:
    done = CliRunner().invoke(cli.app, ["conventions", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, ["conventions", *map(str, arguments)])
    assert done.stdout == ""
    return done.exit_code, done.stderr


def test_the_command_prints_one_row_a_profile(run_folder: Path) -> None:
    text = told(run_folder)
    head, _, remarks = text.partition("\n\n")
    starts = [line.split()[0] for line in head.splitlines()[1:] if not line.startswith(" ")]
    assert starts == NAMES
    assert max(map(len, text.splitlines())) <= 120
    table = conventions(rve.Result.load(run_folder))
    value = table[(table["profile"] == "layumi")]["value"].iloc[0]
    (line,) = (line for line in head.splitlines() if line.startswith("layumi"))
    assert f"mAP {100 * value:.1f}" in line
    assert "rule=trapezoid:  mAP -" in line
    assert "mars-official mAP: undefined (1 of 6 queries without a positive)" in remarks
    assert "sysu-official r1, r10, r20: CMC@k(by=label) needs group counts" in remarks
    assert text == conventions_text(table) + "\n"


def test_notes_come_with_the_profiles_that_were_asked_for(run_folder: Path) -> None:
    text = told(run_folder, "--profile", "torchreid", "--profile", "mars-official")
    assert "torchreid: Its sort is unstable" in text
    assert "mars-official mAP: undefined (" in text
    assert "layumi" not in text
    assert max(map(len, text.splitlines())) <= 120


def test_tables_at_full_precision(run_folder: Path) -> None:
    table = conventions(rve.Result.load(run_folder))
    rows = json.loads(told(run_folder, "--format", "json"))
    assert rows == table.to_dict("records")
    listed = list(csv.DictReader(io.StringIO(told(run_folder, "--format", "tsv")), delimiter="\t"))
    for ours, theirs in zip(rows, listed, strict=True):
        value = float(theirs["value"]) if theirs["value"] else None
        assert (ours["value"], ours["called"]) == (value, theirs["called"])


def test_a_run_is_read_without_its_inputs_and_with_other_roles(
    run_folder: Path, tmp_path: Path
) -> None:
    """What is printed follows ranking.npz, not the numbers saved beside it."""
    result = rve.Result.load(run_folder)
    assert result.ranking is not None
    other = permuted(result.ranking, 3)
    dataclasses.replace(result, ranking=other).save(tmp_path / "other")
    rows = json.loads(told(tmp_path / "other", "--profile", "torchreid", "--format", "json"))
    assert rows[0]["value"] == rve.compute(other, "mAP", ties="index", no_positive="skip")["mAP"]
    assert rows[0]["value"] != pytest.approx(result.metrics["mAP"], abs=1e-3)
    other.save(tmp_path / "alone.npz")
    again = json.loads(
        told(tmp_path / "alone.npz", "--profile", "torchreid", "--format", "json")
    )
    assert again[0]["value"] == rows[0]["value"]


def test_what_cannot_be_read(run_folder: Path, tmp_path: Path) -> None:
    dataclasses.replace(rve.Result.load(run_folder), ranking=None).save(tmp_path / "bare")
    code, said = refused(tmp_path / "bare")
    assert code == 1
    assert "keep_ranking=True" in said
    code, said = refused(tmp_path)
    assert code == 1
    assert "is no run folder" in said
    code, said = refused(run_folder, "--profile", "layuni")
    assert code == 2
    assert "did you mean layumi" in said


def rows_beside() -> Iterator[tuple[rve.Result, str]]:
    result = small_result(profile="market-matlab")
    assert result.ranking is not None
    value = rve.compute(result.ranking, "mAP(rule=trapezoid)", ties="index", no_positive="zero")
    shown = f"{100 * next(iter(value.values())):.1f}"
    yield result, f"market-matlab: mAP {shown} (trapezoid, ties=index, no_positive=zero)"
    yield dataclasses.replace(result, ranking=None), ""
    yield small_result(), ""
    yield small_result(profile="mars-official"), ""  # undefined: a query lacks a positive


def test_the_line_beside_the_headline() -> None:
    for result, wanted in rows_beside():
        assert profile_row(result) == wanted
