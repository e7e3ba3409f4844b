"""Graded relevance: NDCG with both gains, levels, and ties of different grades."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reid_vpr_eval as rve
from shared_inputs import oracle


def ranking_of(scores: Any, grades: Any, **options: Any) -> rve.Ranking:
    """Rank one list; every item of a grade above 0 is judged."""
    item = np.flatnonzero(np.asarray(grades) > 0)
    relevance = rve.Relevance.from_pairs(
        np.zeros(len(item), int), item, grade=np.asarray(grades, float)[item], n_query=1,
        n_gallery=len(scores), **options,
    )  # fmt: skip
    return rve.rank(rve.ScoreMatrix([scores], higher_is_better=True), relevance)


def literal(order: Any, grades: Any, k: int | None, gain: str) -> float:
    """NDCG of one definite order."""

    def dcg(ranked: Any) -> float:
        gains = [2.0**g - 1 if gain == "exponential" else float(g) for g in list(ranked)[:k]]
        return float(sum(g / np.log2(i + 2) for i, g in enumerate(gains)))

    best = dcg(sorted(grades, reverse=True))
    return float(dcg([grades[i] for i in order]) / best) if best else 0.0


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6),
    st.sampled_from([None, 1, 2, 4, 9]),
    st.sampled_from(["linear", "exponential"]),
)
def test_expectation_and_bounds_over_all_orders(world: Any, k: int | None, gain: str) -> None:
    scores, grades = zip(*world, strict=True)
    if not any(grades):
        return
    orders = [
        order for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]  # fmt: skip
    values = [literal(order, grades, k, gain) for order in orders]
    name = f"NDCG{f'@{k}' if k else ''}(gain={gain})"
    ranking = ranking_of([float(s) for s in scores], grades)
    for ties, wanted in (("expected", np.mean(values)), ("optimistic", max(values)),
                         ("pessimistic", min(values))):  # fmt: skip
        assert rve.compute(ranking, name, ties=ties)[name] == pytest.approx(wanted, abs=1e-12)
    stable = sorted(range(len(scores)), key=lambda i: -scores[i])
    assert rve.compute(ranking, name, ties="index")[name] == pytest.approx(
        literal(stable, grades, k, gain), abs=1e-12
    )


def test_gains_can_be_remapped() -> None:
    grades = [1, 2, 0, 4]
    ranking = ranking_of([4.0, 3.0, 2.0, 1.0], grades)
    name = "NDCG(gains=1:3/2:9/4:4.5)"
    found = 3 + 9 / np.log2(3) + 4.5 / np.log2(5)
    best = 9 + 4.5 / np.log2(3) + 3 / np.log2(4)
    assert rve.compute(ranking, name)[name] == pytest.approx(found / best)
    assert str(rve.metrics.parse("NDCG(gains=2:9/1:3.0)")) == "NDCG(gains=1:3/2:9)"
    for bad in ("gains=1", "gains=1:x", "gains=1:2,2:3", "gains="):
        with pytest.raises(rve.ProtocolError):
            rve.metrics.parse(f"NDCG({bad})")


def test_a_level_makes_positives_and_leaves_gains() -> None:
    scores, grades = [3.0, 2.0, 1.0], [1, 2, 1]
    all_count, strict = (ranking_of(scores, grades, positive_from=f) for f in (1, 2))
    assert rve.compute(all_count, "MRR")["MRR"] == 1
    assert rve.compute(strict, "MRR")["MRR"] == 0.5
    assert rve.compute(all_count, "NDCG")["NDCG"] == rve.compute(strict, "NDCG")["NDCG"]
    query, item, grade = [0, 0, 0], [0, 1, 2], [1.0, 2.0, 1.0]
    two = rve.Relevance.from_pairs(query, item, grade, n_query=1, n_gallery=3, positive_from=2)
    assert rve.compute(all_count.regrade(two), "MRR")["MRR"] == 0.5
    assert rve.compute(all_count.regrade(two), "NDCG")["NDCG"] == pytest.approx(
        rve.compute(strict, "NDCG")["NDCG"], abs=0
    )


def test_untied_lists_of_the_oracle_file() -> None:
    """Against pytrec_eval and scikit-learn (float64) and torchmetrics (float32)."""
    compared = 0
    for case in oracle("ir_untied.json")["cases"]:
        k = case["k"]
        ranking = ranking_of(case["scores"], case["gains"])
        names = {
            "pytrec_eval": {
                "map": "mAP", "Rprec": "R-precision", "recip_rank": "MRR", f"P_{k}": f"P@{k}",
                f"recall_{k}": f"IR-recall@{k}", "ndcg": "NDCG", f"ndcg_cut_{k}": f"NDCG@{k}",
                f"map_cut_{k}": f"mAP@{k}", f"success_{k}": f"CMC@{k}",
            },
            "sklearn": {"ndcg": "NDCG", "ndcg_k": f"NDCG@{k}", "lrap": "mAP"},
            "torchmetrics": {
                "ap": "mAP", "ap_k": f"mAP@{k}(divisor=hits)", "rr": "MRR", "p_k": f"P@{k}",
                "recall_k": f"IR-recall@{k}", "hit_k": f"CMC@{k}", "rprec": "R-precision",
                "ndcg": "NDCG", "ndcg_k": f"NDCG@{k}",
            },
        }  # fmt: skip
        for tool, wanted in names.items():
            for key, name in wanted.items():
                if key in case[tool]:
                    found = rve.compute(ranking, name)[name]
                    close = 1e-6 if tool == "torchmetrics" else 1e-12
                    assert found == pytest.approx(case[tool][key], abs=close), (tool, key)
                    compared += 1
    assert compared > 100
