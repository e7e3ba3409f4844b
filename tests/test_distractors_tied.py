"""Large tie groups: the same numbers as place by place, and codes or constants that finish."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_distractors import ORACLE, World

import reid_vpr_eval as rve
from reid_vpr_eval.studies.distractors import distractor_curve, expectation
from reid_vpr_eval.studies.distractors.pairs import read_pairs

NAMES = [
    "CMC@1", "CMC@5", "IR-recall@10", "P@20", "mAP", "mAP@30", "MAP@R", "mAP(rule=trapezoid)",
    "mINP", "MRR", "MRR@20", "R-precision", "NDCG", "NDCG@20", "MeanR", "MeanR(of=last)",
    "mAP@30(divisor=min)", "P@3(divisor=last)",
]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 5])
def test_every_draw_enumerated(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectation, "_MOST_PLACES", 0)
    world = World(seed)
    which: dict[str, Any] = {"base": ["base"], "pool": ["pool"]}
    sizes = list(range(read_pairs(world.ranking(), **which).largest_size + 1))
    names = [name for name in ORACLE if "shots=all" not in name]
    for row in distractor_curve(world.ranking(), sizes, names, **which).itertuples():
        wanted = float(world.expected(str(row.metric), int(str(row.size)), own=False))
        assert row.value == pytest.approx(wanted, abs=1e-12), (row.metric, row.size)


def tied_world(seed: int, n_base: int, n_pool: int, levels: int, n_query: int = 3) -> rve.Ranking:
    rng = np.random.default_rng(seed)
    n = n_base + n_pool
    score = np.floor(levels * rng.beta(1.2, 1.2, (n_query, n)))
    positives = [rng.choice(n_base, rng.integers(1, 7), replace=False) for _ in range(n_query)]
    relevance = rve.Relevance.from_pairs(
        np.repeat(np.arange(n_query), [len(one) for one in positives]), np.concatenate(positives),
        n_query=n_query, n_gallery=n,
    )  # fmt: skip
    return rve.rank(rve.ScoreMatrix(score, higher_is_better=True), relevance,
                    strata=np.repeat(["base", "pool"], [n_base, n_pool]))  # fmt: skip


@pytest.mark.parametrize(("n_base", "n_pool", "levels"), [(30, 700, 4), (20, 1500, 1)])  # fmt: skip
def test_it_equals_going_through_all_places(
    n_base: int, n_pool: int, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Laws are so wide here that only every few values of them are added up."""
    ranking = tied_world(levels, n_base, n_pool, levels)
    sizes = [0, 1, n_pool // 5, n_pool // 2, n_pool - 1, n_pool]
    monkeypatch.setattr(expectation, "_MOST_PLACES", 0)
    fast = distractor_curve(ranking, sizes, NAMES, base="base", pool="pool")
    monkeypatch.setattr(expectation, "_MOST_PLACES", 1 << 40)
    slow = distractor_curve(ranking, sizes, NAMES, base="base", pool="pool")
    np.testing.assert_allclose(fast["value"], slow["value"], rtol=1e-12, atol=1e-12)


def test_a_constant_score_is_chance_at_every_size() -> None:
    """One positive among N: E[1/P] = H_N / N and P(P <= k) = k / N; 500,000 tie."""
    n_base, n_pool = 100, 500_000
    ranking = tied_world(0, 10, 20, 1)
    n_positive = np.diff(ranking.offsets)
    tied = np.repeat(np.stack([n_base - n_positive, np.full(3, n_pool)], 1), n_positive, axis=0)
    rows = np.repeat(np.array([0, 1], np.int32), [n_base, n_pool])
    ranking = replace(
        ranking, tied=tied.astype(np.uint32), n_gallery=n_base + n_pool, row_stratum=rows,
        ignored_gallery=np.zeros(len(rows), bool), slices=np.array([[0, len(rows)]]),
        n_unjudged=np.stack([n_base - n_positive, np.full(3, n_pool)], 1),
    )  # fmt: skip
    sizes = [0, 100, 20_000, n_pool]
    curve = distractor_curve(ranking, sizes, ["CMC@1", "mAP"], base="base", pool="pool")
    for row in curve.itertuples():
        n = n_base + int(str(row.size))
        harmonic = (1 / np.arange(1, n + 1)).sum()
        m = n_positive.astype(float)
        wanted = {
            "CMC@1": (m / n).mean(),
            "mAP": ((harmonic + (m - 1) / (n - 1) * (n - harmonic)) / n).mean(),
        }[str(row.metric)]
        assert row.value == pytest.approx(wanted, abs=1e-12)


def test_a_forecast_keeps_positives_of_large_tie_groups() -> None:
    ranking = tied_world(3, 30, 3000, 6, n_query=12)
    curve = distractor_curve(ranking, [3000, 3001], ["mAP", "MeanR"], base="base", pool="pool",
                             forecast=True)  # fmt: skip
    for _, rows in curve.groupby("metric"):
        exact, ahead = rows["value"]
        assert ahead == pytest.approx(exact, rel=0.1)
