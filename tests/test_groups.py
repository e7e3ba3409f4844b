"""Groups that rank as one: views of a panorama, images of an identity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
import reid_vpr_eval as rve
from reid_vpr_eval.metrics import TIES
from shared_inputs import oracle

pytestmark = pytest.mark.usefixtures("kernels")

NAMES = ["CMC@1(by=group)", "CMC@2(by=group)", "CMC@4(by=group)"]


def literal(
    scores: Any, role: Any, groups: Any, kept: Any, junk: Any, ties: Any
) -> dict[str, float]:
    """Collapse every query's list to its best kept item of each group, then evaluate."""
    n_groups = int(groups.max()) + 1
    collapsed = np.full((len(scores), n_groups), -1e9)
    positives, ignored = [], []
    tie = np.zeros((len(scores), n_groups), int)
    for query in range(len(scores)):
        right, out = set(), set()
        for group in range(n_groups):
            items = [g for g in np.flatnonzero(groups == group)
                     if not junk[g] and kept[query, g] and role[query, g] != -1]  # fmt: skip
            if not items:
                out.add(group)
                continue
            best = max(items, key=lambda g: (scores[query, g], -g))
            collapsed[query, group] = scores[query, best]
            tie[query, group] = best
            if any(role[query, g] == 1 for g in items):
                right.add(group)
        positives.append(right)
        ignored.append(out)
    cuts = {name: f"CMC@{name.split('@')[1].split('(')[0]}" for name in NAMES}
    values: dict[str, list[float]] = {name: [] for name in NAMES}
    for query in range(len(scores)):
        if not positives[query]:
            continue
        found, _ = oracles.evaluate_literal(
            collapsed[[query]], [positives[query]], [ignored[query]], [], list(cuts.values()),
            ties, tie_key=tie[query],
        )  # fmt: skip
        for name, cut in cuts.items():
            values[name].append(found[cut])
    return {name: float(np.mean(v)) for name, v in values.items()}


def relevance_of(role: Any, junk: Any) -> rve.Relevance:
    query, item = np.nonzero(role != 9)
    value = role[query, item]
    return rve.Relevance.from_pairs(
        query, item, grade=(value == 1).astype(float), ignored=value == -1, ignored_gallery=junk,
        n_query=role.shape[0], n_gallery=role.shape[1],
    )  # fmt: skip


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(6))
def test_groups_equal_a_literal_collapse(seed: int, ties: str) -> None:
    """With duplicates, ignored items, junk and strata that queries drop."""
    rng = np.random.default_rng(seed)
    query, gallery = rng.normal(size=(9, 4)), rng.normal(size=(60, 4))
    gallery[::3] = gallery[rng.integers(0, 60, 20)]
    role = rng.choice([1, -1, 0, 9], size=(9, 60), p=[0.06, 0.06, 0.03, 0.85])
    role[:, 0] = 1
    groups = rng.integers(0, 14, 60)
    junk = rng.random(60) < 0.1
    junk[0] = False
    strata, keeps = rng.integers(0, 3, 60), rng.random((9, 3)) < 0.8
    strata[0], keeps[:, 0] = 0, True
    relevance = relevance_of(role, junk).keeping(strata, keeps)
    scores = rve.Embeddings(query.astype(np.float32), gallery.astype(np.float32))
    matrix = oracles.canonical_matrix(scores.query, scores.gallery, "cosine")
    wanted = literal(matrix, role, groups, keeps[:, strata], junk, ties)
    for given_scores in (scores, rve.ScoreMatrix(matrix, higher_is_better=True)):
        ranking = rve.rank(given_scores, relevance, group=groups)
        found = rve.compute(ranking, NAMES, ties=ties)
        for name in NAMES:
            assert found[name] == pytest.approx(wanted[name], abs=1e-12), name
    plain = rve.rank(scores, relevance)
    assert rve.compute(ranking, "mAP")["mAP"] == pytest.approx(
        rve.compute(plain, "mAP")["mAP"], abs=1e-15
    )


def test_slices_of_whole_groups_merge_and_others_are_refused(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 5)
    role = rng.choice([1, 9], size=(5, 60), p=[0.1, 0.9])
    role[:, 0] = 1
    relevance = relevance_of(role, np.zeros(60, bool))
    scores = rve.ScoreMatrix(rng.integers(0, 9, (5, 60)), higher_is_better=True)
    whole = rve.rank(scores, relevance, group=groups)
    parts = [rve.rank(scores, relevance, group=groups, gallery_slice=cut)
             for cut in ((0, 20), (20, 60))]  # fmt: skip
    merged = rve.Ranking.merge(parts)
    for name in NAMES:
        for ties in TIES:
            assert rve.compute(merged, name, ties=ties)[name] == rve.compute(
                whole, name, ties=ties
            )[name]
    with pytest.raises(rve.AlignmentError, match="cuts 1 groups"):
        rve.rank(scores, relevance, group=groups, gallery_slice=(0, 18))
    whole.save(tmp_path / "r.npz")
    loaded = rve.Ranking.load(tmp_path / "r.npz")
    assert rve.compute(loaded, NAMES[0])[NAMES[0]] == rve.compute(whole, NAMES[0])[NAMES[0]]


def test_suppression_of_views() -> None:
    """Ranked ids 0 to 11 are views of one panorama, 12 of another: [0, 12] after suppression."""
    scores = rve.ScoreMatrix([-np.arange(13.0)], higher_is_better=True)
    relevance = rve.Relevance.from_pairs([0], [12], n_query=1, n_gallery=13)
    ranking = rve.rank(scores, relevance, group=np.arange(13) // 12)
    assert rve.compute(ranking, "CMC@2(by=group)")["CMC@2(by=group)"] == 1
    assert rve.compute(ranking, "CMC@12")["CMC@12"] == 0


@pytest.mark.parametrize("key", ["F_sysu", "same_list_probe_cam6"])
def test_sysu_worked_example(key: str) -> None:
    """Camera 3 drops camera 2 for everybody; CMC ranks identities, AP ranks images."""
    case = oracle("reid_worked_examples.json")["F_sysu"]
    camera = 3 if key == "F_sysu" else 6
    wanted = case if key == "F_sysu" else case[key]
    ids, cameras = (np.array(column) for column in zip(*case["ranked"], strict=True))
    query = rve.Samples.from_columns(label=[3], camera=[camera])
    gallery = rve.Samples.from_columns(label=ids, camera=cameras)
    relevance = rve.relevance.same_label(query, gallery).keeping(
        (cameras == 2).astype(int), [[True, camera != 3]]
    )
    scores = rve.ScoreMatrix([-np.arange(len(ids), dtype=float)], higher_is_better=True)
    ranking = rve.rank(scores, relevance, group=ids)
    for k, value in enumerate(wanted["cmc_dedup"], start=1):
        name = f"CMC@{k}(by=label)"
        assert rve.compute(ranking, name)[name] == value
    values = rve.compute(ranking, ["mAP", "mINP"])
    assert values["mAP"] == pytest.approx(wanted["ap"], abs=1e-6)
    assert values["mINP"] == pytest.approx(wanted["inp"], abs=1e-6)


def test_group_metrics_say_what_they_need() -> None:
    scores = rve.ScoreMatrix([[1.0, 0.0]], higher_is_better=True)
    relevance = rve.Relevance.from_pairs([0], [0], n_query=1, n_gallery=2)
    with pytest.raises(rve.NotCountedError, match="rank with group="):
        rve.compute(rve.rank(scores, relevance), "CMC@1(by=pano)")
    ranking = rve.rank(scores, relevance, group=[0, 1])
    ignoring = rve.Relevance.from_pairs([0], [0], ignored=[True], n_query=1, n_gallery=2)
    with pytest.raises(rve.NotCountedError, match="ignores other items"):
        ranking.regrade(ignoring)
    with pytest.raises(rve.AlignmentError, match="one value for each"):
        rve.rank(scores, relevance, group=[0])


def test_a_protocol_counts_groups_by_name() -> None:
    from reid_vpr_eval.protocol import Protocol

    protocol = Protocol.from_dict(
        {"name": "views", "relevance": {"kind": "label"}, "count": {"group": "pano"},
         "report": {"metrics": ["CMC@1", "CMC@2(by=pano)"]}}
    )  # fmt: skip
    query = rve.Samples.from_columns(label=[1])
    gallery = rve.Samples.from_columns(label=[2, 2, 1], pano=["a", "a", "b"])
    scores = rve.ScoreMatrix([[3.0, 2.0, 1.0]], higher_is_better=True)
    result = rve.evaluate(protocol, query, gallery, scores)
    assert result.metrics["CMC@2(by=pano)"] == 1
    assert result.metrics["CMC@1"] == 0
    assert result.ranking is not None
    with pytest.raises(rve.NotCountedError, match="'pano'"):
        rve.compute(result.ranking, "CMC@1(by=label)")


@given(st.integers(0, 10_000))
def test_groups_of_one_item_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    role = rng.choice([1, -1, 9], size=(3, 8), p=[0.3, 0.1, 0.6])
    role[0, 0] = 1
    scores = rve.ScoreMatrix(rng.integers(0, 4, (3, 8)), higher_is_better=True)
    ranking = rve.rank(scores, relevance_of(role, np.zeros(8, bool)), group=np.arange(8))
    for ties in TIES:
        values = rve.compute(ranking, ["CMC@2", "CMC@2(by=group)"], ties=ties)
        assert values["CMC@2"] == values["CMC@2(by=group)"]
