"""The map of failures: areas, outcomes, lines, and the same as GeoJSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geopy.distance import geodesic
from test_places import row_of_streets

from reid_vpr_eval import NotCountedError, Result, Samples, ScoreMatrix, evaluate
from reid_vpr_eval.places import near_misses
from reid_vpr_eval.report.figures import FailureMapDisplay, figure_bytes, save, save_figures
from reid_vpr_eval.report.geojson import geojson_bytes
from report_results import people


def two_cities(n: int = 20, *, latlon: bool = False) -> Result:
    """Return cities in two zones; the first two queries find something in the other one."""
    rng = np.random.default_rng(1)
    spots = {"17T": (585_000.0, 4_476_000.0), "55H": (320_000.0, 5_810_000.0)}
    zone = np.repeat(list(spots), [n, n // 2])
    base = np.array([spots[name] for name in zone])
    where = base + rng.uniform(0, 900, base.shape)
    scores = -np.abs(np.subtract.outer(np.arange(len(zone)), np.arange(len(zone)))).astype(float)
    scores[:2] = 0.0
    scores[:2, -1] = 1.0
    columns: dict[str, Any] = {"east": where[:, 0], "north": where[:, 1], "zone": zone}
    if latlon:
        from reid_vpr_eval.relevance.geography import degrees_of_rows

        degrees = degrees_of_rows(Samples.from_columns(**columns), "utm")
        assert degrees is not None
        columns = {"lat": degrees[:, 0], "lon": degrees[:, 1]}
    return evaluate("places", Samples.from_columns(**columns), Samples.from_columns(**columns),
                    ScoreMatrix(scores, higher_is_better=True))  # fmt: skip


@pytest.mark.parametrize("latlon", [False, True])
def test_each_city_has_a_panel_in_metres(latlon: bool) -> None:
    display = FailureMapDisplay.from_result(two_cities(latlon=latlon))
    assert [len(area.rows) for area in display.areas] == [20, 10]
    assert display.elsewhere == 2
    assert "2 wrong first answers lie in another area" in display.caption
    assert sum(display.counts.values()) == 30
    for area in display.areas:
        assert np.nanmin(area.query) >= 0
        assert np.nanmax(area.query) < 1000
    if not latlon:
        assert "zone 17T" in display.areas[0].where
        assert "zone 55H" in display.areas[1].where


def test_the_plane_of_latitude_and_longitude_keeps_distances() -> None:
    made = two_cities(latlon=True)
    area = FailureMapDisplay.from_result(made).areas[0]
    assert made.places is not None
    degrees = made.places.loc[area.rows, ["lat", "lon"]].to_numpy(float)
    for i, j in ((0, 5), (3, 11), (7, 19)):
        metres = np.hypot(*(area.query[i] - area.query[j]))
        assert metres == pytest.approx(geodesic(degrees[i], degrees[j]).meters, rel=1e-5)


def test_one_city_in_two_zones_is_one_area() -> None:
    where = {"lat": [52.0, 52.0, 52.001], "lon": [5.999, 6.001, 6.0]}
    import utm

    found = [utm.from_latlon(*pair) for pair in zip(where["lat"], where["lon"], strict=True)]
    side = Samples.from_columns(east=[f[0] for f in found], north=[f[1] for f in found],
                                zone=[f"{f[2]}{f[3]}" for f in found])  # fmt: skip
    made = evaluate("places", side, side, ScoreMatrix(np.eye(3), higher_is_better=True))
    area, = FailureMapDisplay.from_result(made).areas
    metres = np.hypot(*(area.query[0] - area.query[1]))
    assert metres == pytest.approx(geodesic((52.0, 5.999), (52.0, 6.001)).meters, rel=1e-4)


def test_more_areas_than_panels_are_said() -> None:
    display = FailureMapDisplay.from_result(two_cities(), panels=1)
    assert display.left_out == (1, 10)
    assert "1 more area with 10 queries is not drawn" in display.caption


def test_lines_go_from_each_wrong_query_to_its_first_answer() -> None:
    made = row_of_streets()
    display = FailureMapDisplay.from_result(made, panels=9).plot()
    assert made.places is not None
    assert display.counts == {"right": 3, "near miss": 2, "no positive": 1, "wrong": 1}
    lengths = []
    for area in display.areas:
        wrong = display.outcome[area.rows] != "right"
        lengths += np.hypot(*(area.answer - area.query)[wrong].T).tolist()
    assert sorted(lengths) == pytest.approx([27, 30, 30.1, 900])


def test_near_misses_are_listed_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "figure_bytes", lambda *_: b"")
    made = row_of_streets()
    table = near_misses(made.protocol, made.per_query)
    assert table is not None
    assert table.columns.tolist() == ["query_id", "top1_id", "metres"]
    assert table["query_id"].tolist() == [3, 4]
    assert table["metres"].to_numpy() == pytest.approx([27, 30])
    save_figures(made, tmp_path)
    lines = (tmp_path / "near_misses.csv").read_text().splitlines()
    assert len(lines) == 3
    assert near_misses(people().protocol, people().per_query) is None


def read(content: bytes) -> list[dict[str, Any]]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    document = json.loads(content, parse_constant=refuse)
    assert document["type"] == "FeatureCollection"
    features: list[dict[str, Any]] = document["features"]
    assert "crs" not in document
    return features


def test_geojson_has_points_and_lines() -> None:
    made = row_of_streets()
    features = read(geojson_bytes(made))
    points = [one for one in features if one["geometry"]["type"] == "Point"]
    lines = [one for one in features if one["geometry"]["type"] == "LineString"]
    assert len(points) == len(lines) == 7
    assert points[5]["properties"]["outcome"] == "no positive"
    assert points[5]["properties"]["nearest_positive_m"] is None
    for point, line in zip(points, lines, strict=True):
        lon, lat = point["geometry"]["coordinates"]
        assert -82 < lon < -80
        assert 40 < lat < 41
        assert line["geometry"]["coordinates"][0] == [lon, lat]
        ends = [reversed(end) for end in line["geometry"]["coordinates"]]
        metres = geodesic(*map(tuple, ends)).meters
        assert metres == pytest.approx(line["properties"]["top1_error_m"], abs=1)


def test_a_line_over_the_date_line_is_cut() -> None:
    query = Samples.from_columns(lat=[-17.0, -17.0], lon=[179.999, 180.0005], id=["a", "b"])
    gallery = Samples.from_columns(lat=[-17.0, -17.002], lon=[-179.9995, -179.999])
    made = evaluate("places", query, gallery,
                    ScoreMatrix([[0.0, 1.0], [1.0, 0.0]], higher_is_better=True))  # fmt: skip
    features = read(geojson_bytes(made))
    cut, = [one["geometry"] for one in features if one["geometry"]["type"] == "MultiLineString"]
    assert [part[0][0] for part in cut["coordinates"]] == [179.999, -180.0]
    assert [part[1][0] for part in cut["coordinates"]] == [180.0, -179.999]
    assert cut["coordinates"][0][1][1] == pytest.approx(-17.001)
    area, = FailureMapDisplay.from_result(made).areas
    assert np.nanmax(area.query) < 300


def test_metres_without_a_zone_have_no_geojson(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "figure_bytes", lambda *_: b"")
    side = Samples.from_columns(east=[0.0, 900.0], north=[0.0, 0.0])
    made = evaluate("places", side, side, ScoreMatrix(np.eye(2), higher_is_better=True))
    with pytest.raises(NotCountedError, match="zone"):
        geojson_bytes(made)
    saved = save_figures(made, tmp_path)
    assert "zone" in saved.skipped["map.geojson"]
    assert not (tmp_path / "map.geojson").exists()
    assert (tmp_path / "map.svg").exists()


def test_a_saved_run_has_the_same_map(tmp_path: Path) -> None:
    made = two_cities()
    made.save(tmp_path / "run")
    again = Result.load(tmp_path / "run")
    assert geojson_bytes(again) == geojson_bytes(made)
    drawn = [FailureMapDisplay.from_result(one).plot().figure_ for one in (made, again)]
    assert drawn[0] is not None
    assert drawn[1] is not None
    assert figure_bytes(drawn[0], "svg") == figure_bytes(drawn[1], "svg")


def test_a_large_map_has_a_bounded_file() -> None:
    rng = np.random.default_rng(0)
    n = 12_000
    made = row_of_streets()
    assert made.places is not None
    assert made.track is not None
    rows = rng.integers(0, len(made.places), n)
    table = made.places.iloc[rows].reset_index(drop=True)
    spread = rng.uniform(0, 3000, (n, 2))
    for prefix in ("", "top1_"):
        table[f"{prefix}east"] += spread[:, 0] - table["east" if prefix else "top1_east"] % 3000
    table["north"] += spread[:, 1]
    big = replace(made, places=table, track=made.track.sample(20_000, replace=True, random_state=0))
    figure = FailureMapDisplay.from_result(big).plot().figure_
    assert figure is not None
    assert len(figure_bytes(figure, "svg")) < 3_000_000
