"""The rendered world: the same bytes every time, names that parse, ground truth that holds."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import utm
from PIL import Image

from reid_vpr_eval.demo import render_world, world
from reid_vpr_eval.demo.drawing import png
from reid_vpr_eval.demo.people import N_IDENTITIES, PeopleRenderer, plan_people
from reid_vpr_eval.demo.streets import STREETS, plan_places
from reid_vpr_eval.demo.views import PlacesRenderer
from reid_vpr_eval.encoders import colour_texture

PERSON = re.compile(r"(?P<label>-1|\d{4})_c(?P<camera>\d)s(?P<part>\d)_(\d{6})_(\d{2})\.png")
UNREACHABLE = 3


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    people, places = plan_people(0)[::60], plan_places(0)[::40]
    monkeypatch.setattr(world, "plan_people", lambda _: people)
    monkeypatch.setattr(world, "plan_places", lambda _: places)


def files_of(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    made = render_world(tmp_path / "a", progress=lambda done, n: calls.append((done, n)))
    render_world(tmp_path / "b")
    files = files_of(tmp_path / "a")
    assert files == files_of(tmp_path / "b")
    assert calls == [(k + 1, len(files)) for k in range(len(files))]
    counts = (
        made.n_people_query,
        made.n_people_gallery,
        made.n_places_query,
        made.n_places_gallery,
    )
    folders = (made.people_query, made.people_gallery, made.places_query, made.places_gallery)
    assert counts == tuple(len(list(folder.iterdir())) for folder in folders)
    assert min(counts) > 0
    render_world(tmp_path / "b", seed=1)  # over the old pictures
    other = files_of(tmp_path / "b")
    assert all(files[name] != other[name] for name in files)


def test_a_picture_does_not_depend_on_the_others() -> None:
    seen, view = plan_people(0)[7], plan_places(0)[7]
    people, places = PeopleRenderer(0), PlacesRenderer(0)
    people.render(plan_people(0)[200])
    places.render(plan_places(0)[200])
    assert np.array_equal(people.render(seen), PeopleRenderer(0).render(seen))
    assert np.array_equal(places.render(view), PlacesRenderer(0).render(view))
    assert people.render(seen).shape == (128, 64, 3)
    assert places.render(view).shape == (120, 160, 3)


@pytest.mark.parametrize("seed", [0, 1, 2, 17])
def test_the_plan_of_the_people(seed: int) -> None:
    plan = plan_people(seed)
    assert len({(seen.folder, seen.name) for seen in plan}) == len(plan)
    for seen in plan:
        parsed = PERSON.fullmatch(seen.name)
        assert parsed is not None
        assert int(parsed["label"]) == seen.label
        assert int(parsed["camera"]) == seen.camera
        assert seen.label == (seen.who if 0 < seen.who <= N_IDENTITIES else 0) or seen.label < 1
    queries = [seen for seen in plan if seen.folder == "query"]
    gallery = [seen for seen in plan if seen.folder == "bounding_box_test"]
    assert 90 <= len(queries) <= 120
    assert 420 <= len(gallery) <= 560
    assert set(Counter((seen.label, seen.camera) for seen in queries).values()) == {1}
    assert {seen.label for seen in queries} == set(range(1, N_IDENTITIES + 1))
    for query in queries:
        cameras = {seen.camera for seen in gallery if seen.label == query.label}
        assert query.camera in cameras
        assert len(cameras) > 1
    assert {seen.label for seen in gallery} == set(range(-1, N_IDENTITIES + 1))
    assert all(seen.shot == "good" for seen in plan if seen.label >= 0)
    assert all(seen.shot != "good" for seen in plan if seen.label < 0)
    assert all(seen.who > N_IDENTITIES for seen in plan if seen.label == 0)


@pytest.mark.parametrize("seed", [0, 1, 2, 17])
def test_the_plan_of_the_places(seed: int) -> None:
    plan = plan_places(seed)
    assert len({(view.folder, view.name) for view in plan}) == len(plan)
    for view in plan:
        fields = view.name.split("@")
        assert len(fields) == 16
        assert (fields[0], fields[-1]) == ("", ".png")
        assert re.fullmatch(r"\d{6}\.\d\d", fields[1])
        assert re.fullmatch(r"\d{7}\.\d\d", fields[2])
        assert (float(fields[1]), float(fields[2])) == view.position
        east, north, zone, letter = utm.from_latlon(float(fields[5]), float(fields[6]))
        assert (zone, letter) == (int(fields[3]), fields[4])
        assert abs(east - view.position[0]) < 0.2
        assert abs(north - view.position[1]) < 0.2
        assert 0 <= int(fields[9]) < 360
    queries = [view for view in plan if view.folder == "images/test/queries"]
    database = [view for view in plan if view.folder == "images/test/database"]
    assert len(queries) == 80
    assert 280 <= len(database) <= 340
    here = np.array([view.position for view in queries])
    there = np.array([view.position for view in database])
    near = np.linalg.norm(here[:, None] - there[None], axis=2) <= 25.0
    assert (~near.any(axis=1)).sum() == UNREACHABLE
    for query, found in zip(queries, near.any(axis=1), strict=True):
        assert found == STREETS[query.street].mapped


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "people" / "query"
    folder.mkdir(parents=True)
    (folder / "holiday.png").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"query: holds files .* \(holiday.png\); choose another"):
        render_world(tmp_path)
    assert files_of(tmp_path) == {"people/query/holiday.png": b"mine"}
    with pytest.raises(ValueError, match="must not be negative"):
        render_world(tmp_path / "new", seed=-1)


def test_png_keeps_the_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    path = tmp_path / "a.png"
    path.write_bytes(png(pixels))
    with Image.open(path) as image:
        assert np.array_equal(np.asarray(image), pixels)


@pytest.mark.slow
def test_the_baseline_finds_many_people_but_not_all() -> None:
    plan, renderer = [seen for seen in plan_people(0) if seen.label >= 0], PeopleRenderer(0)
    vectors = colour_texture([Image.fromarray(renderer.render(seen)) for seen in plan])
    label = np.array([seen.label for seen in plan])
    camera = np.array([seen.camera for seen in plan])
    query = np.array([seen.folder == "query" for seen in plan])
    first, precision = [], []
    for row in np.flatnonzero(query):
        kept = ~query & ~((label == label[row]) & (camera == camera[row]))
        order = np.argsort(-(vectors[kept] @ vectors[row]), kind="stable")
        ranks = np.flatnonzero(label[kept][order] == label[row]) + 1
        first.append(ranks[0] == 1)
        precision.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    assert 0.35 < np.mean(precision) < 0.75
    assert 0.6 < np.mean(first) < 0.92


@pytest.mark.slow
def test_the_baseline_finds_many_places_but_not_all() -> None:
    plan, renderer = plan_places(0), PlacesRenderer(0)
    vectors = colour_texture([Image.fromarray(renderer.render(view)) for view in plan])
    query = np.array([view.folder.endswith("queries") for view in plan])
    where = np.array([view.position for view in plan])
    near = np.linalg.norm(where[query][:, None] - where[~query][None], axis=2) <= 25.0
    order = np.argsort(-(vectors[query] @ vectors[~query].T), axis=1, kind="stable")
    hits = np.take_along_axis(near, order, axis=1)
    at_1, at_5 = hits[:, 0].mean(), hits[:, :5].any(axis=1).mean()
    assert 0.55 < at_1 < 0.9
    assert at_1 + 0.05 < at_5 < 0.96
