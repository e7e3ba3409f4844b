"""The spread of the mean over draws that all queries share, against draws made one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.ranking.strata import random_strata
from reid_vpr_eval.studies.distractors import distractor_curve
from reid_vpr_eval.studies.distractors.curve import curve_points
from reid_vpr_eval.studies.distractors.spread import draws_by_strata, has_parts

NAMES = ["CMC@1", "CMC@2", "mAP", "mAP@3(divisor=min)", "mINP", "MRR", "NDCG", "MeanR", "P@2"]


def test_rows_are_dealt_evenly_and_by_the_seed() -> None:
    strata = random_strata(1003, 10, 5)
    names, sizes = np.unique(strata, return_counts=True)
    assert names.tolist() == [f"all/{part}@5" for part in range(10)]
    assert sizes.tolist() == [101, 101, 101, 100, 100, 100, 100, 100, 100, 100]
    assert (strata == random_strata(1003, 10, 5)).all()
    assert (strata != random_strata(1003, 10, 6)).mean() > 0.8
    split = random_strata([1, 2] * 50, 5, of=[2])
    assert (split[::2] == "1").all()
    assert np.unique(split[1::2], return_counts=True)[1].tolist() == [10] * 5
    with pytest.raises(rve.NotCountedError, match="2 parts or more"):
        random_strata(10, 1)


def small(seed: int = 0) -> tuple[Any, Any, Any]:
    """Few scores, so that much ties; ignored and judged items in the pool."""
    rng = np.random.default_rng(seed)
    n_base, n_pool = 8, 24
    score = rng.integers(0, 6, (5, n_base + n_pool)).astype(float)
    role = rng.choice([9, 9, 9, 9, -1, 0], score.shape)
    role[:, :n_base] = rng.choice([1, 9, -1], (5, n_base))
    role[:, 0] = 1
    return score, role, np.repeat(["base", "more"], [n_base, n_pool])


def ranked(score: Any, role: Any, strata: Any) -> rve.Ranking:
    query, item = np.nonzero(role != 9)
    value = role[query, item]
    relevance = rve.Relevance.from_pairs(
        query, item, grade=(value == 1).astype(float), ignored=value == -1,
        n_query=score.shape[0], n_gallery=score.shape[1],
    )  # fmt: skip
    scores = rve.ScoreMatrix(score, higher_is_better=True)
    return rve.rank(scores, relevance, strata=strata)


def test_recombined_counts_are_the_galleries_of_these_strata() -> None:
    """Every draw equals a run on the base and the rows of the strata drawn, ties included."""
    score, role, kind = small()
    strata = random_strata(kind, 6, of=["more"])
    draws = draws_by_strata(ranked(score, role, strata), [1, 3, 6], NAMES, base="base",
                            pool="more", orders=4, seed=3)  # fmt: skip
    assert draws.sizes.tolist() == [4, 12, 24]
    generator = np.random.default_rng(3)
    parts = np.array([int(name.split("/")[1].split("@")[0]) if "/" in name else -1
                      for name in strata.tolist()])  # fmt: skip
    for order in range(4):
        shuffled = generator.permutation(6)
        for place, taken in enumerate([1, 3, 6]):
            rows = np.flatnonzero(np.isin(parts, [-1, *shuffled[:taken]]))
            wanted = rve.compute(ranked(score[:, rows], role[:, rows], None), NAMES)
            for name in NAMES:
                assert draws.values[name][order, place] == pytest.approx(wanted[name], abs=1e-12)


def shared_world() -> dict[str, Any]:
    """Ten people, each asked for twelve times with nearly the same image."""
    rng = np.random.default_rng(4)
    centre = rng.normal(size=(10, 12))
    label = np.repeat(np.arange(10), 4)
    base = centre[label] + 1.0 * rng.normal(size=(40, 12))
    more = 1.1 * rng.normal(size=(1000, 12))
    query_label = np.repeat(np.arange(10), 12)
    asked = centre + rng.normal(size=(10, 12))
    query = asked[query_label] + 0.05 * rng.normal(size=(120, 12))
    gallery = np.concatenate([base, more])
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (query, gallery)]
    return {"score": unit[0] @ unit[1].T, "right": query_label[:, None] == label, "n_base": 40}


def re_ranked(world: dict[str, Any], size: int, draws: int) -> dict[str, Any]:
    """Means over queries of CMC@1 and mAP, for galleries drawn one by one for all queries."""
    rng = np.random.default_rng(99)
    score, right, n_base = world["score"], world["right"], world["n_base"]
    positive = score[:, :n_base][right].reshape(len(score), -1)
    positive = -np.sort(-positive, axis=1)
    above = (score[:, None, n_base:] > positive[:, :, None]).reshape(-1, 1000)
    before = (score[:, None, :n_base] > positive[:, :, None]).sum(axis=2)[..., None]
    weight = np.zeros((1000, draws), np.float32)
    for draw in range(draws):
        weight[rng.choice(1000, size, replace=False), draw] = 1
    added = (above.astype(np.float32) @ weight).reshape(*positive.shape, draws)
    rank = before + 1 + added
    number = np.arange(1, positive.shape[1] + 1)[None, :, None]
    return {"CMC@1": (rank[:, 0] <= 1).mean(axis=0), "mAP": (number / rank).mean(axis=(0, 1))}


def test_it_is_that_of_2000_shared_re_rankings() -> None:
    """Within its own noise (7 % of 100 strata, 5 % of 200 orders), on the grid and off it.

    Draws made for each query would give far less, for nearly equal queries move together.
    """
    world = shared_world()
    role = np.full(world["score"].shape, 9)
    role[:, : world["n_base"]][world["right"]] = 1
    kind = np.repeat(["base", "more"], [40, 1000])
    ranking = ranked(world["score"], role, random_strata(kind, 100, of=["more"]))
    sizes = [17, 50, 333]
    which: dict[str, Any] = {"base": "base", "pool": "more"}
    curve = distractor_curve(ranking, [0, *sizes, 1000], ["CMC@1", "mAP"], orders=200, **which)
    table: Any = curve.set_index(["size", "metric"])
    for size in sizes:
        wanted = re_ranked(world, size, 2000)
        for name, values in wanted.items():
            row = table.loc[(size, name)]
            error = values.std(ddof=1) / math.sqrt(2000)
            assert abs(values.mean() - row["value"]) < 4.5 * error
            assert 0.75 < row["sd"] / values.std(ddof=1) < 1.33, (size, name)
            assert row["sd_kind"] == ("interpolated" if size in (17, 333) else "counted")
    for end in (0, 1000):
        assert (table.loc[end]["sd"] == 0).all()
    for point in curve_points(ranking, [50, 333], ["CMC@1"], **which):
        hit = point.per_query["CMC@1"]
        alone = math.sqrt((hit * (1 - hit)).sum()) / len(hit)
        assert table.loc[(point.size, "CMC@1")]["sd"] > 1.8 * alone


def test_the_seed_decides_and_columns_say_what_was_done() -> None:
    score, role, kind = small(1)
    ranking = ranked(score, role, random_strata(kind, 6, of=["more"]))
    which: dict[str, Any] = {"base": "base", "pool": "more"}
    first, again, other = (
        distractor_curve(ranking, [8, 9], ["mAP"], seed=seed, **which) for seed in (0, 0, 1)
    )
    assert first.equals(again)
    assert (first["sd"] != other["sd"]).all()
    assert first["sd_kind"].tolist() == ["counted", "interpolated"]
    assert distractor_curve(ranking, [8], ["mAP"], spread=False, **which)["sd"].isna().all()


def test_own_pools_are_drawn_together_too() -> None:
    score, role, _ = small(2)
    ranking = ranked(score, role, random_strata(score.shape[1], 8))
    curve = distractor_curve(ranking, None, ["CMC@1", "mAP"])
    inner = curve[(curve["size"] > 2) & (curve["size"] < curve["size"].max() - 2)]
    assert (inner["sd"] > 0).all()
    assert curve["sd_kind"].isin(["counted", "interpolated"]).all()


def test_what_was_not_counted_in_random_strata() -> None:
    score, role, kind = small()
    for strata in (None, kind):
        ranking = ranked(score, role, strata)
        assert not has_parts(ranking, "negatives")
        with pytest.raises(rve.NotCountedError, match=r"--strata random:100"):
            distractor_curve(ranking, [3], ["mAP"], spread=True)
        assert distractor_curve(ranking, [3], ["mAP"])["sd"].isna().all()
    blocks = rve.rank(rve.ScoreMatrix(score, higher_is_better=True),
                      rve.Relevance.from_pairs([0], [0], n_query=5, n_gallery=32),
                      blocks=np.arange(32) // 2)  # fmt: skip
    with pytest.raises(rve.NotCountedError, match="blocks have no spread over draws"):
        distractor_curve(blocks, [3], ["mAP"], spread=True, unit="blocks")


def test_a_protocol_counts_in_random_strata() -> None:
    query = rve.Samples.from_columns(label=[1])
    gallery = rve.Samples.from_columns(label=[2, 2, 1, 3], camera=[1, 1, 2, 2])
    scores = rve.ScoreMatrix([[3.0, 2.0, 1.0, 0.0]], higher_is_better=True)
    for text, names in (
        ("random:2:7", ["all/0@7", "all/1@7"]),
        ("camera,random:2", ["1/0@0", "1/1@0", "2/0@0", "2/1@0"]),
        ("camera", ["1", "2"]),
    ):
        ranking = rve.evaluate("labels", query, gallery, scores, strata=text).ranking
        assert ranking is not None
        assert list(ranking.strata) == names
