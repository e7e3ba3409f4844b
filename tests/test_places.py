"""Where queries and answers were taken: distances by hand, outcomes, the same bytes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geopy.distance import geodesic
from hypothesis import given, settings
from hypothesis import strategies as st

from reid_vpr_eval import Result, Samples, ScoreMatrix, evaluate, load_protocol
from reid_vpr_eval.places import track_of
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.relevance.geography import degrees_of_rows, metres_of_pairs

#: First answers at 0, 20, 25, 27, 30, 30.1 and 900 metres; the last but one has no positive.
AWAY = np.array([0.0, 20.0, 25.0, 27.0, 30.0, 30.1, 900.0])


def row_of_streets(rules: str = "places", **more: Any) -> Result:
    """Evaluate queries 5 km apart: each has one item that is ranked first, and one nearby."""
    n = len(AWAY)
    here = 500_000 + 5_000.0 * np.arange(n)
    near = np.where(np.arange(n) == 5, 60.0, 10.0)
    scores = np.zeros((n, 2 * n))
    scores[np.arange(n), np.arange(n)] = 2
    scores[np.arange(n), n + np.arange(n)] = 1
    return evaluate(
        Protocol.load(rules) if rules.endswith("toml") else load_protocol(rules),
        Samples.from_columns(east=here, north=np.full(n, 4.5e6), zone=["17T"] * n),
        Samples.from_columns(
            east=np.r_[here + AWAY, here], north=4.5e6 + np.r_[np.zeros(n), near],
            zone=["17T"] * (2 * n),
        ),
        ScoreMatrix(scores, higher_is_better=True), **more,
    )  # fmt: skip


def test_outcomes_and_distances_by_hand() -> None:
    found = row_of_streets(top_k=5).places
    assert found is not None
    assert found["outcome"].tolist() == [
        "right", "right", "right", "near miss", "near miss", "no positive", "wrong"
    ]  # fmt: skip
    assert found["top1_error_m"].to_numpy() == pytest.approx(AWAY)
    nearest = found["nearest_positive_m"].to_numpy()
    assert nearest == pytest.approx([0, 10, 10, 10, 10, np.nan, 10], nan_ok=True)
    assert found["best5_m"].to_numpy() == pytest.approx([0, 10, 10, 10, 10, 30.1, 10])
    assert found["radius_m"].unique().tolist() == [25.0]
    assert (found["top1_east"] - found["east"]).to_numpy() == pytest.approx(AWAY)
    assert "best10_m" not in found


def test_a_zone_gives_latitude_and_longitude() -> None:
    found = row_of_streets().places
    assert found is not None
    ends = found[["lat", "lon", "top1_lat", "top1_lon"]].to_numpy(float)
    apart = [geodesic(end[:2], end[2:]).meters for end in ends]
    assert apart == pytest.approx(AWAY, rel=1e-3, abs=1e-6)


def test_metres_without_a_zone_give_none() -> None:
    query = Samples.from_columns(east=[0.0, 3000.0], north=[0.0, 0.0])
    gallery = Samples.from_columns(east=[3.0, 3020.0], north=[4.0, 0.0])
    scores = ScoreMatrix(np.eye(2), higher_is_better=True)
    found = evaluate("places", query, gallery, scores).places
    assert found is not None
    assert [name for name in found if "lat" in name or "zone" in name] == []
    assert found["top1_error_m"].tolist() == [5.0, 20.0]


def test_labels_have_no_places() -> None:
    side = Samples.from_columns(label=[1, 2])
    found = evaluate("labels", side.with_columns(id=["a", "b"]), side.with_columns(id=["c", "d"]),
                     ScoreMatrix(np.eye(2), higher_is_better=True))  # fmt: skip
    assert found.places is None
    assert found.track is None


@pytest.mark.parametrize("unanswered", [False, True])
def test_the_same_bytes_after_reading(tmp_path: Path, unanswered: bool) -> None:
    made = row_of_streets(top_k=5)
    if unanswered:
        made = unanswered_query()
    made.save(tmp_path / "a")
    Result.load(tmp_path / "a").save(tmp_path / "b")
    for name in ("places.csv", "track.csv", "per_query.csv"):
        first = (tmp_path / "a" / name).read_bytes()
        assert first == (tmp_path / "b" / name).read_bytes()
        assert b"nan" not in first.lower()


def unanswered_query() -> Result:
    from reid_vpr_eval import RankedLists

    query = Samples.from_columns(lat=[48.0, 48.1], lon=[2.0, 2.0])
    gallery = Samples.from_columns(lat=[48.0001, 48.1], lon=[2.0, 2.0])
    return evaluate("places", query, gallery, RankedLists([[0], [-1]]), missing_query="zero",
                    unretrieved="zero")  # fmt: skip


def test_a_query_without_an_answer_has_no_first_position() -> None:
    found = unanswered_query().places
    assert found is not None
    assert found["outcome"].tolist() == ["right", "wrong"]
    assert found["top1_lat"].isna().tolist() == [False, True]
    assert found["top1_error_m"].isna().tolist() == [False, True]
    assert found["nearest_positive_m"].tolist()[1] == 0.0


def test_pairs_across_zones_are_measured_on_the_ellipsoid() -> None:
    rng = np.random.default_rng(3)
    query = Samples.from_columns(
        east=rng.uniform(7e5, 7.3e5, 20), north=np.full(20, 5e6), zone=["31T"] * 20
    )
    gallery = Samples.from_columns(
        east=rng.uniform(2.7e5, 3e5, 20), north=np.full(20, 5e6), zone=["32T"] * 20
    )
    ends = [degrees_of_rows(side, "utm") for side in (query, gallery)]
    assert ends[0] is not None
    assert ends[1] is not None
    metres = metres_of_pairs(query, gallery, np.arange(20), np.arange(20))
    wanted = [geodesic(*pair).meters for pair in zip(*ends, strict=True)]
    assert metres == pytest.approx(wanted, rel=1e-6)


def test_the_track_counts_a_panorama_once_and_stays_small() -> None:
    rng = np.random.default_rng(0)
    east = np.repeat(rng.uniform(0, 9000, 30_000), 4)
    gallery = Samples.from_columns(east=east, north=np.repeat(rng.uniform(0, 9000, 30_000), 4))
    query = Samples.from_columns(east=[0.0], north=[0.0])
    track = track_of(query, gallery, load_protocol("places"))
    assert track is not None
    assert 5_000 < len(track) <= 20_000
    few = track_of(query, gallery.take(np.arange(40)), load_protocol("places"))
    assert few is not None
    assert few["east"].tolist() == list(dict.fromkeys(east[:40].tolist()))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_best_of_the_first_tells_recall_at_a_radius(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spots = rng.uniform(0, 120, (30, 2))
    query = Samples.from_columns(east=spots[:8, 0], north=spots[:8, 1])
    gallery = Samples.from_columns(east=spots[8:, 0], north=spots[8:, 1])
    found = evaluate(
        "places", query, gallery, ScoreMatrix(rng.normal(size=(8, 22)), higher_is_better=True),
        top_k=10,
    )  # fmt: skip
    assert found.places is not None
    for k, column in ((1, "top1_error_m"), (5, "best5_m"), (10, "best10_m")):
        share = float((found.places[column] <= 25).mean())
        assert share == pytest.approx(found.curve("CMC", 10)["value"][k - 1])
    pairs = metres_of_pairs(query, gallery, np.repeat(np.arange(8), 22), np.tile(np.arange(22), 8))
    least = pairs.reshape(8, 22).min(axis=1)
    wanted = np.where(least <= 25, least, np.nan)
    assert found.places["nearest_positive_m"].to_numpy() == pytest.approx(wanted, nan_ok=True)
