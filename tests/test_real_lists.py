"""Protocols on real lists: perfect runs score one, runs without information score chance."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.metrics.compute import chance
from shared_inputs import data

CAPTIONS = "cross_modal/eccv_caption/eccv_caption/data"
SETS = {
    "cxc-i2t": ("cxc_image_to_caption.json", 25_000),
    "eccv-caption-i2t": ("eccv_image_to_caption.json", 25_000),
}


def lists_of(name: str) -> tuple[dict[str, list[int]], list[str]]:
    """Return the positives of every query that are in the gallery, and the gallery's ids."""
    file, size = SETS[name]
    ids = [str(i) for i in np.load(data(f"{CAPTIONS}/coco_test_ids.npy")).tolist()]
    assert len(ids) == size
    known = set(ids)
    lists = json.loads(data(f"{CAPTIONS}/{file}").read_text(encoding="utf-8"))
    return {q: [i for i in row if str(i) in known] for q, row in lists.items()}, ids


def evaluate(name: str, scores: Any, tmp_path: Any) -> rve.Result:
    lists, ids = lists_of(name)
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(lists))
    query, gallery = rve.Samples.from_columns(id=list(lists)), rve.Samples.from_columns(id=ids)
    result = rve.evaluate(name, query, gallery, scores, truth=path)
    assert isinstance(result, rve.Result)
    return result


def same_space(name: str) -> tuple[rve.Relevance, rve.Samples, rve.Samples, Any]:
    lists, ids = lists_of(name)
    place = {key: row for row, key in enumerate(ids)}
    pairs = [(q, place[str(i)]) for q, row in enumerate(lists.values()) for i in row]
    query, item = np.array(pairs).T
    relevance = rve.Relevance.from_pairs(query, item, n_query=len(lists), n_gallery=len(ids))
    return relevance, rve.Samples.from_columns(id=list(lists)), rve.Samples.from_columns(id=ids), (
        query, item)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SETS))
def test_a_run_without_information_scores_chance(name: str, tmp_path: Any) -> None:
    lists, ids = lists_of(name)
    rng = np.random.default_rng(0)
    scores = rve.Embeddings(
        rng.normal(size=(len(lists), 12)).astype(np.float32),
        rng.normal(size=(len(ids), 12)).astype(np.float32),
    )
    result = evaluate(name, scores, tmp_path)
    assert result.ranking is not None
    for metric in ("CMC@10", "mAP"):
        values = rve.compute(result.ranking, metric).per_query(metric)
        known = chance(result.ranking, [metric])[metric]
        error = values.std() / np.sqrt(len(values))
        assert abs(values.mean() - known) < 4.5 * error, metric


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SETS))
def test_a_perfect_run_scores_one(name: str, tmp_path: Any) -> None:
    relevance, query, gallery, _ = same_space(name)
    width = int(relevance.n_positive.max())
    indices = np.full((query.n, width), -1)
    for row in range(query.n):
        right = relevance.positives(row)
        indices[row, : len(right)] = right
    result = evaluate(name, rve.RankedLists(indices), tmp_path)
    for metric, value in result.metrics.items():
        assert value == 1.0, metric
    assert gallery.n == 25_000


@pytest.mark.slow
def test_tokyo_panoramas_in_blocks_of_twelve() -> None:
    """R@1 is the same by construction, deeper cut-offs are not: a list of 20 holds 20 places."""
    arrays = np.load(data("places/patch_netvlad/tokyo247.npz"))
    query = rve.Samples.from_columns(east=arrays["utmQ"][:, 0], north=arrays["utmQ"][:, 1])
    east, north = arrays["utmDb"].T
    pano = np.arange(len(east)) // 12
    gallery = rve.Samples.from_columns(east=east, north=north, group=pano)
    rng = np.random.default_rng(0)
    places = rng.normal(size=(len(pano) // 12, 8))
    vectors = places[pano] + 0.3 * rng.normal(size=(len(pano), 8))
    asked = places[np.argmin(np.hypot(*(query.values(c)[:, None] - v[None, ::12] for c, v in (
        ("east", east), ("north", north)))), axis=1)] + rng.normal(size=(315, 8))  # fmt: skip
    scores = rve.Embeddings(asked.astype(np.float32), vectors.astype(np.float32))
    groups = rve.evaluate("tokyo247-nms", query, gallery, scores)
    items = rve.evaluate("tokyo247", query, gallery.without(["group"]), scores)
    assert groups.counts["n_positive_pairs"] == 37_260
    assert groups.ranking is not None
    assert set(groups.ranking.n_unjudged_groups + 0) <= set(range(6_332 - 21, 6_332))
    assert groups.metrics["CMC@1(by=group)"] == items.metrics["CMC@1"]
    assert groups.metrics["CMC@20(by=group)"] > items.metrics["CMC@20"]


def test_two_cities_in_one_folder_just_work() -> None:
    """Zones 10 and 33 in one table: nothing is near across them, and no warning is needed."""
    query = rve.Samples.from_columns(east=[551_000.0, 347_000.0], north=[4_180_000.0, 6_172_000.0],
                                     zone=["10S", "33U"])  # fmt: skip
    gallery = rve.Samples.from_columns(
        east=[551_010.0, 347_010.0, 551_000.0], north=[4_180_000.0, 6_172_000.0, 4_180_000.0],
        zone=["10S", "33U", "33U"],
    )  # fmt: skip
    relevance = rve.relevance.within_metres(query, gallery)
    assert [relevance.positives(i).tolist() for i in (0, 1)] == [[0], [1]]
