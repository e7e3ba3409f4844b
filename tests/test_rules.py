"""The rules of labels, places, poses and frames with everything they ignore, against loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import oracles
from reid_vpr_eval import Embeddings, ScoreMatrix, compute, rank
from reid_vpr_eval.errors import FormatError, NotCountedError, RelevanceError
from reid_vpr_eval.relevance import (
    Relevance,
    frame_window,
    listed,
    nearest_neighbours,
    pose,
    same_label,
    within_metres,
)
from reid_vpr_eval.samples import Samples
from shared_inputs import data, oracle

columns = Samples.from_columns
METRICS = ["mAP", "CMC@1", "CMC@3", "mINP"]


def positives(relevance: Relevance) -> list[set[int]]:
    return [set(relevance.positives(i).tolist()) for i in range(relevance.n_query)]


def ignored(relevance: Relevance) -> list[set[int]]:
    return [set(relevance.ignored(i).tolist()) for i in range(relevance.n_query)]


def junk(relevance: Relevance) -> set[int]:
    return set(np.flatnonzero(relevance.ignored_gallery).tolist())


# --- ignored items, for every kind of rule ---------------------------------------------------

ENTRIES: list[list[dict[str, Any]]] = [
    [],
    [{"same": ["time"]}],
    [{"different": ["city"]}],
    [{"gallery": {"camera": [0]}}],
    [{"query": {"camera": [2]}, "gallery": {"camera": [1]}}],
    [{"same": ["camera"], "different": ["city"]}, {"query": {"time": [1, 2]}, "same": ["city"]}],
    [{"same": ["camera", "time"], "gallery": {"city": ["b"]}}, {"gallery": {"time": [3]}}],
    [{"query": {"camera": [0]}}],
]


def world(seed: int, n: tuple[int, int] = (14, 33)) -> tuple[Samples, Samples, ScoreMatrix]:
    rng = np.random.default_rng(seed)
    sides = []
    for size, first in zip(n, (0, 7), strict=True):
        turn = Rotation.random(size, rng=rng).as_quat(scalar_first=True)
        sides.append(columns(
            id=np.arange(first, first + size), label=np.arange(first, first + size) % 5,
            camera=rng.integers(0, 3, size), time=rng.integers(0, 4, size),
            city=rng.choice(["a", "b"], size), east=rng.integers(0, 40, size).astype(float),
            north=rng.integers(0, 40, size).astype(float), frame=rng.integers(0, 12, size),
            x=rng.random(size), y=rng.random(size), z=rng.random(size),
            **{name: turn[:, i] for i, name in enumerate(("qw", "qx", "qy", "qz"))},
        ))  # fmt: skip
    return sides[0], sides[1], ScoreMatrix(rng.integers(0, 9, n) / 8.0, higher_is_better=True)


def near_in_camera_space(query: Samples, gallery: Samples, **more: Any) -> Relevance:
    order = np.stack([(row * 5 + np.arange(gallery.n)) % gallery.n for row in range(query.n)])
    return nearest_neighbours(query, gallery, order, k=4, **more)


def listed_by_row(query: Samples, gallery: Samples, **more: Any) -> Relevance:
    lists = [[row, row + 3, -1, 2 * row] for row in range(query.n)]
    return listed(query, gallery, lists, by="index", **more)


KINDS: dict[str, Callable[..., Relevance]] = {
    "label": same_label,
    "within": lambda *sides, **more: within_metres(*sides, radius=12.0, **more),
    "pose": lambda *sides, **more: pose(*sides, metres=0.6, degrees=120.0, **more),
    "frames": lambda *sides, **more: frame_window(*sides, window=1, **more),
    "nearest": near_in_camera_space,
    "listed": listed_by_row,
}


def literal_ignores(
    query: Samples, gallery: Samples, entries: list[dict[str, Any]]
) -> tuple[list[set[int]], set[int]]:
    ours, theirs = (
        [dict(zip(side, values, strict=True))
         for values in zip(*(side.values(name).tolist() for name in side), strict=True)]
        for side in (query, gallery)
    )  # fmt: skip
    dropped: list[set[int]] = [set() for _ in ours]
    everybody: set[int] = set()
    for entry in entries:
        for i, a in enumerate(ours):
            for j, b in enumerate(theirs):
                hit = (
                    all(a[c] == b[c] for c in entry.get("same", ()))
                    and all(a[c] != b[c] for c in entry.get("different", ()))
                    and all(a[c] in v for c, v in entry.get("query", {}).items())
                    and all(b[c] in v for c, v in entry.get("gallery", {}).items())
                )
                if hit:
                    dropped[i].add(j)
                    if set(entry) == {"gallery"}:
                        everybody.add(j)
    return dropped, everybody


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entries", ENTRIES, ids=str)
def test_ignores_of_both_forms_equal_a_double_loop(
    kind: str, entries: list[dict[str, Any]]
) -> None:
    query, gallery, scores = world(len(str(entries)))
    rule = KINDS[kind]
    bare = rule(query, gallery)
    dropped, everybody = literal_ignores(query, gallery, entries)
    for i in range(query.n):
        dropped[i] |= set(bare.ignored(i).tolist())
    right = [p - d for p, d in zip(positives(bare), dropped, strict=True)]
    named = rule(query, gallery, ignore=entries)
    assert junk(named) == everybody
    assert positives(named) == right
    assert ignored(named) == [d - everybody for d in dropped]
    wide = rule(query, gallery, wide_ignore=entries)
    assert positives(wide) == right
    assert junk(wide) == everybody
    mixed = rule(query, gallery, ignore=entries[:1], wide_ignore=entries[1:])
    assert positives(mixed) == right
    if not any(right):
        return
    for ties in ("expected", "pessimistic", "index"):
        values, _ = oracles.evaluate_literal(
            np.asarray(scores.array), positives(bare), dropped, everybody, METRICS, ties
        )
        for relevance in (named, wide, mixed):
            ranking = rank(scores, relevance)
            found = compute(ranking, METRICS, ties=ties, no_positive="skip")
            assert dict(found) == pytest.approx(values, nan_ok=True)


def test_a_wide_ignore_is_crossed_with_strata_and_regraded() -> None:
    query, gallery, scores = world(3)
    wide = same_label(query, gallery, wide_ignore=[{"same": ["camera"]}])
    plain = same_label(query, gallery)
    expected = compute(rank(scores, wide), METRICS)
    strata = gallery.keys("city")
    assert dict(compute(rank(scores, wide, strata=strata), METRICS)) == dict(expected)
    ranking = rank(scores, plain, judge=[wide], strata=strata)
    assert dict(compute(ranking.regrade(wide), METRICS)) == dict(expected)
    assert dict(compute(ranking, METRICS)) == dict(compute(rank(scores, plain), METRICS))
    with pytest.raises(NotCountedError, match="drops part of a stratum"):
        rank(scores, plain).regrade(wide)


def test_the_camera_rule_of_sysu() -> None:
    case = oracle("reid_worked_examples.json")["F_sysu"]
    label, camera = np.array(case["ranked"]).T
    gallery = columns(label=label, camera=camera)
    scores = ScoreMatrix(np.arange(len(label))[None, :], higher_is_better=False)
    rule = [{"query": {"camera": [3]}, "gallery": {"camera": [2]}}]
    for probe, part in ((3, case), (6, case["same_list_probe_cam6"])):
        query = columns(label=[case["probe"]["id"]], camera=[probe])
        found = same_label(query, gallery, wide_ignore=rule)
        values = compute(rank(scores, found), ["mAP", "mINP"])
        assert values["mAP"] == pytest.approx(part["ap"], abs=1e-6)
        assert values["mINP"] == pytest.approx(part["inp"], abs=1e-6)
    assert found.wide is not None
    assert len(np.unique(found.wide)) == 2


@pytest.mark.parametrize("kind", ["within", "pose", "frames"])
def test_group_search_equals_a_wide_ignore_of_what_differs(kind: str) -> None:
    query, gallery, scores = world(9)
    found = KINDS[kind](query, gallery, group_search="city")
    other = KINDS[kind](query, gallery, wide_ignore=[{"different": ["city"]}])
    assert positives(found) == positives(other)
    assert dict(compute(rank(scores, found), METRICS)) == dict(
        compute(rank(scores, other), METRICS)
    )
    apart = [
        rank(ScoreMatrix(np.asarray(scores.array)[np.ix_(ours, theirs)], higher_is_better=True),
             KINDS[kind](query.take(ours), gallery.take(theirs)))
        for ours, theirs in (
            (query.values("city") == city, gallery.values("city") == city) for city in ("a", "b")
        )
    ]  # fmt: skip
    hits = sum(
        float(np.nansum(compute(part, "mAP", no_positive="zero").per_query("mAP")))
        for part in apart
    )
    mine = compute(rank(scores, found), "mAP", no_positive="zero").per_query("mAP")
    assert float(np.nansum(mine)) == pytest.approx(hits)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"ignore": {"gallery": {}}}, "ignore is a list of entries"),
        ({"wide_ignore": "camera"}, "wide_ignore is a list of entries"),
        ({"wide_ignore": [{}]}, r"wide_ignore entry 0 has the keys \[\]"),
        ({"wide_ignore": [{"same": []}]}, "at least one of same, different"),
        ({"ignore": [{"same": ["time"]}, {"camera": [1]}]}, "ignore entry 1 has the keys"),
        ({"wide_ignore": [{"same": "city"}]}, "same = 'city': a list of columns"),
        ({"wide_ignore": [{"gallery": {"camera": ["1"]}}]}, "can never match"),
        ({"self": "drop"}, "self = 'drop': one of exclude, keep"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_ignores_that_are_refused(kind: str, rule: Any, says: str) -> None:
    query, gallery, _ = world(0)
    with pytest.raises(RelevanceError, match=says):
        KINDS[kind](query, gallery, **rule)
    with pytest.raises(FormatError, match="no column 'country'"):
        KINDS[kind](query, gallery, wide_ignore=[{"same": ["country"]}])


def test_too_much_of_one_form_is_sent_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    query, gallery, _ = world(0)
    monkeypatch.setattr("reid_vpr_eval.relevance.ignores._MOST_PAIRS", 100)
    with pytest.raises(RelevanceError, match=r"entry 0 looks at 462 pairs .* move it to wide"):
        same_label(query, gallery, ignore=[{"different": ["city"]}])
    monkeypatch.setattr("reid_vpr_eval.relevance.ignores._LARGEST_MASK", 10)
    with pytest.raises(RelevanceError, match=r"tell 4 kinds .* name few pairs in ignore"):
        same_label(query, gallery, wide_ignore=[{"same": ["time"]}])


# --- places ----------------------------------------------------------------------------------


@pytest.mark.parametrize("coordinates", ["utm", "latlon"])
def test_heading_and_height_narrow_a_place(coordinates: Any) -> None:
    rng = np.random.default_rng(1)
    sides = [
        columns(east=rng.random(n) * 60, north=rng.random(n) * 60, lat=rng.random(n) * 1e-3,
                lon=rng.random(n) * 1e-3, heading=rng.integers(-90, 720, n).astype(float),
                height=rng.integers(0, 9, n).astype(float))
        for n in (40, 70)
    ]  # fmt: skip
    wide = within_metres(*sides, radius=[30.0, 60.0], coordinates=coordinates)
    limits: list[dict[str, Any]] = [
        {"heading": 40.0}, {"height": 3.0}, {"heading": 120.0, "height": 5.0},
    ]  # fmt: skip
    for narrow in limits:
        found = within_metres(*sides, radius=[30.0, 60.0], coordinates=coordinates, **narrow)
        heading, height = ([s.values(c) for s in sides] for c in ("heading", "height"))
        for part, whole in ((found, wide), (found.at(60.0), wide.at(60.0))):
            for i in range(40):
                expected = {
                    j for j in whole.positives(i).tolist()
                    if abs((heading[0][i] - heading[1][j] + 180) % 360 - 180)
                    <= narrow.get("heading", 180)
                    and abs(height[0][i] - height[1][j]) <= narrow.get("height", 99)
                }  # fmt: skip
                assert set(part.positives(i).tolist()) == expected


def test_headings_on_the_circle() -> None:
    query = columns(east=[0.0], north=[0.0], heading=[350.0])
    turned = [30.0, 30.5, -50.0, 310.0, 309.5, 390.0, 170.0]
    gallery = columns(east=[0.0] * 7, north=[0.0] * 7, heading=turned)
    assert within_metres(query, gallery, heading=40.0).positives(0).tolist() == [0, 2, 3, 5]
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(RelevanceError, match=r"heading = .*: a difference of 0 or more"):
            within_metres(query, gallery, heading=wrong)
    with pytest.raises(FormatError, match="no column 'height'"):
        within_metres(query, gallery, height=1.0)


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("pitts30k_test.npz", {10.0: 262_272, 25.0: 968_448, 50.0: 2_892_864}),
        ("tokyo247.npz", {10.0: 11_448, 25.0: 37_260, 50.0: 110_376}),
    ],
)
def test_three_radii_of_one_call_on_real_places(file: str, counts: dict[float, int]) -> None:
    with np.load(data(f"places/patch_netvlad/{file}")) as stored:
        query, gallery = (columns(east=p[:, 0], north=p[:, 1])
                          for p in (stored["utmQ"], stored["utmDb"]))  # fmt: skip
    found = within_metres(query, gallery, radius=[25.0, 10.0, 50.0])
    assert found.thresholds == (25.0, 10.0, 50.0)
    assert int(found.n_positive.sum()) == counts[25.0]
    for radius, count in counts.items():
        assert int(found.at(radius).n_positive.sum()) == count
    alone = within_metres(query, gallery, radius=10.0)
    other = found.at(10.0)
    assert np.array_equal(other.item[other.role == 1], alone.item)


def test_another_radius_of_the_same_pass(tmp_path: Any) -> None:
    query, gallery, scores = world(5)
    more: dict[str, Any] = {
        "self": "exclude", "ignore": [{"same": ["time"]}], "no_positive": "zero",
        "wide_ignore": [{"same": ["camera"]}],
    }  # fmt: skip
    found = within_metres(query, gallery, radius=[12.0, 25.0, 6.0], **more)
    found.save(tmp_path / "relevance.npz")
    ranking = rank(scores, found)
    for relevance in (found, Relevance.load(tmp_path / "relevance.npz")):
        for radius in (12.0, 25.0, 6.0):
            alone = within_metres(query, gallery, radius=radius, **more)
            assert positives(relevance.at(radius)) == positives(alone)
            assert dict(compute(ranking.regrade(relevance.at(radius)), METRICS)) == dict(
                compute(rank(scores, alone), METRICS)
            )
    rows = [3, 1, 1]
    assert positives(found.take(rows).at(25.0)) == positives(found.at(25.0).take(rows))
    assert found.at(6.0).at(12.0).role.tolist() == found.role.tolist()
    with pytest.raises(RelevanceError, match=r"13 is no threshold that was judged \(12, 25, 6\)"):
        found.at(13.0)
    with pytest.raises(RelevanceError, match=r"judged \(none\)"):
        same_label(query, gallery).at(12.0)
    with pytest.raises(RelevanceError, match="33 thresholds at once: no more than 32"):
        within_metres(query, gallery, radius=np.arange(1.0, 34.0).tolist())
    assert within_metres(query, gallery, radius=[5.0, 5.0]).thresholds == (5.0,)


# --- poses -----------------------------------------------------------------------------------


def posed(centres: Any, turns: Rotation) -> Samples:
    x, y, z = np.asarray(centres, float).T
    w, i, j, k = turns.as_quat(scalar_first=True).T
    return columns(x=x, y=y, z=z, qw=w, qx=i, qy=j, qz=k)


def literal_degrees(one: Rotation, other: Rotation) -> float:
    trace = np.trace(one.as_matrix().T @ other.as_matrix())
    return math.degrees(math.acos(max(-1.0, min(1.0, (trace - 1) / 2))))


def test_poses_equal_the_literal_rule() -> None:
    rng = np.random.default_rng(4)
    turns = [Rotation.from_rotvec(rng.normal(size=(n, 3)) * 0.05) for n in (25, 60)]
    centres = [rng.normal(size=(n, 3)) * 0.3 for n in (25, 60)]
    query, gallery = posed(centres[0], turns[0]), posed(centres[1], turns[1])
    flipped = gallery.with_columns(**{c: -gallery.values(c) for c in ("qw", "qx", "qy", "qz")})
    limits = [(0.25, 2.0), (0.5, 5.0), (5.0, 3.0)]
    found = pose(query, gallery, metres=[m for m, _ in limits], degrees=[d for _, d in limits])
    for metres, degrees in limits:
        expected = [
            {j for j in range(60)
             if math.dist(centres[0][i], centres[1][j]) <= metres
             and literal_degrees(turns[0][i], turns[1][j]) <= degrees}
            for i in range(25)
        ]  # fmt: skip
        assert positives(found.at(metres)) == expected
        for side in (gallery, flipped):
            assert positives(pose(query, side, metres=metres, degrees=degrees)) == expected
    assert sum(map(len, positives(found))) > 0
    degrees_of_any: list[Any] = [None, 180.0]
    for degrees in degrees_of_any:
        for strict in (False, True) if degrees is None else (False,):
            blind = pose(query.without(["qw"]), gallery, metres=0.4, degrees=degrees,
                         strict=strict)  # fmt: skip
            assert positives(blind) == [
                {j for j in range(60) if math.dist(centres[0][i], centres[1][j]) <= 0.4}
                for i in range(25)
            ]


def test_no_rotation_is_beyond_half_a_turn() -> None:
    rng = np.random.default_rng(7)
    turns = Rotation.from_rotvec(np.pi * rng.permutation(np.eye(3)[rng.integers(0, 3, 300)]))
    any_turn = Rotation.random(300, rng=rng)
    query = posed(np.zeros((1, 3)), any_turn[:1])
    gallery = posed(np.zeros((300, 3)), any_turn * turns)
    limits: dict[str, Any] = {"metres": [0.1, 0.2], "degrees": [180.0, 2.0]}
    assert pose(query, gallery, **limits).n_positive.tolist() == [300]
    half = posed(np.zeros((300, 3)), any_turn[:1] * turns)
    assert pose(query, half, **limits).n_positive.tolist() == [300]
    assert pose(query, half, **limits).at(0.2).n_positive.tolist() == [0]


@pytest.mark.parametrize("strict", [True, False])
def test_exactly_the_threshold_of_a_pose(strict: bool) -> None:
    turns = Rotation.from_euler("z", [[0], [90], [180]], degrees=True)
    query, gallery = posed([[0, 0, 0]], turns[:1]), posed([[3, 4, 0]] * 3, turns)
    found = pose(query, gallery, metres=5.0, degrees=90.5, strict=strict)
    assert found.positives(0).tolist() == ([] if strict else [0, 1])
    near = pose(query, gallery, metres=6.0, degrees=180.0, strict=strict)
    assert near.positives(0).tolist() == ([0, 1] if strict else [0, 1, 2])


def test_poses_that_are_refused() -> None:
    good = posed([[0, 0, 0]] * 4, Rotation.identity(4))
    bad = good.with_columns(qw=[1.0, 0.0, 1.0004, 1.1])
    with pytest.raises(RelevanceError, match=r"gallery side: 2 quaternions .* \(rows 1, 3; row 1"):
        pose(good, bad)
    assert pose(good, bad, degrees=None).n_positive.tolist() == [4] * 4
    with pytest.raises(RelevanceError, match=r"query side has no column qw, qx, qy, qz: a pose"):
        pose(columns(x=[0.0], y=[0.0], z=[0.0]), good)
    with pytest.raises(RelevanceError, match=r"gallery side has no column z"):
        pose(good, good.without(["z"]), degrees=None)
    with pytest.raises(RelevanceError, match=r"x, y, z are not finite in rows 2"):
        pose(good, good.with_columns(x=[0.0, 0.0, np.inf, 0.0]))
    with pytest.raises(RelevanceError, match=r"'y' holds 'a', no number"):
        pose(good, good.with_columns(y=["a"] * 4))
    wrong: list[tuple[Any, Any, str]] = [
        ([0.1, 0.2], 2.0, "metres has 2 thresholds and degrees 1"),
        ([], [], "metres has 0 thresholds"),
        (0.1, [], "degrees 0"),
        (-1.0, 2.0, "numbers above 0"),
        (0.1, math.inf, "numbers above 0"),
        ([0.1, 0.1], [1.0, 2.0], "each may occur once"),
    ]
    for metres, degrees, says in wrong:
        with pytest.raises(RelevanceError, match=says):
            pose(good, good, metres=metres, degrees=degrees)


# --- frames ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sided", ["both", "before", "after"])
@pytest.mark.parametrize("unit", ["frame", "index"])
@pytest.mark.parametrize("window", [0, 1, 3, 10**12])
@pytest.mark.parametrize("sequence", [None, "sequence"])
def test_windows_equal_the_literal_rule(
    sided: Any, unit: Any, window: int, sequence: str | None
) -> None:
    rng = np.random.default_rng(window % 7)
    gallery = columns(frame=rng.integers(-20, 60, 50), sequence=rng.choice(["a", "b", "c"], 50))
    query = gallery.take(rng.permutation(50)[:20])
    if unit == "frame":
        query = query.with_columns(frame=rng.integers(-30, 70, 20))
    found = frame_window(query, gallery, window=window, unit=unit, sided=sided, sequence=sequence)
    sides = [list(zip(s.values("sequence").tolist(), s.values("frame").tolist(), strict=True))
             for s in (query, gallery)]  # fmt: skip
    if sequence is None:
        sides = [[("", frame) for _, frame in side] for side in sides]
    for i, (name, frame) in enumerate(sides[0]):
        frames = sorted({f for n, f in sides[1] if n == name})
        expected = set()
        for j, (other, seen) in enumerate(sides[1]):
            if other != name:
                continue
            step = seen - frame if unit == "frame" else frames.index(seen) - frames.index(frame)
            if abs(step) <= window and (step <= 0 or sided != "before") and (
                step >= 0 or sided != "after"
            ):
                expected.add(j)
        assert set(found.positives(i).tolist()) == expected


def test_a_list_of_nordland_is_a_window_of_frames() -> None:
    path = data("places/vprbench_ground_truth_lists/Nordland.json")
    query, gallery = columns(frame=10 * np.arange(2760)), columns(frame=np.arange(27592))
    official = listed(query, gallery, path, by="index")
    for unit in ("frame", "index"):
        found = frame_window(query, gallery, window=1, unit=unit)
        assert np.array_equal(found.item, official.item)
        assert np.array_equal(found.offsets, official.offsets)
    assert len(official.item) == 8279


def test_an_index_window_crosses_gaps_and_no_sequence() -> None:
    gallery = columns(frame=[1, 2, 900, 3, 4], sequence=["a", "a", "a", "b", "b"])
    query = gallery.take([1])
    more: dict[str, Any] = {"window": 1, "sequence": "sequence"}
    assert frame_window(query, gallery, **more).positives(0).tolist() == [0, 1]
    assert frame_window(query, gallery, unit="index", **more).positives(0).tolist() == [0, 1, 2]
    loose = frame_window(query, gallery, unit="index")
    assert loose.positives(0).tolist() == [0, 1, 3]


def test_windows_that_are_refused() -> None:
    good = columns(frame=[1, 2, 3], sequence=["a", "a", "b"])
    lost = good.with_columns(frame=[1, 7, 8])
    with pytest.raises(RelevanceError, match=r"frames of 2 of 3 queries \(rows 1, 2; frames 7, 8"):
        frame_window(lost, good, unit="index")
    with pytest.raises(RelevanceError, match=r"1 of 3 queries in their sequence \(rows 1; .*7\)"):
        frame_window(good.with_columns(frame=[1, 7, 3]), good, unit="index", sequence="sequence")
    with pytest.raises(RelevanceError, match=r"column frame, which the gallery side has not"):
        frame_window(good, columns(label=[1]))
    with pytest.raises(RelevanceError, match=r"query side: the column frame holds 'x'"):
        frame_window(columns(frame=["x"]), good)
    with pytest.raises(FormatError):
        frame_window(columns(frame=[0.5]), good)
    with pytest.raises(RelevanceError, match="span too much"):
        frame_window(columns(frame=[-(2**62)]), good)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"window": -1}, "window = -1"),
        ({"window": 1.5}, "window = 1.5"),
        ({"window": True}, "window = True"),
        ({"unit": "seconds"}, "unit = 'seconds': one of frame, index"),
        ({"sided": "left"}, "sided = 'left': one of both"),
    ]
    for more, says in wrong:
        with pytest.raises(RelevanceError, match=says):
            frame_window(good, good, **more)


def test_features_rank_the_same_with_a_mask() -> None:
    query, gallery, _ = world(2)
    rng = np.random.default_rng(2)
    features = [rng.integers(0, 3, (s.n, 4)).astype(float) for s in (query, gallery)]
    scores = Embeddings(*features, metric="sqeuclidean")
    entries = [{"same": ["camera"]}]
    one = rank(scores, same_label(query, gallery, wide_ignore=entries), memory="32KiB", workers=2)
    other = rank(scores, same_label(query, gallery, ignore=entries))
    assert dict(compute(one, METRICS)) == dict(compute(other, METRICS))
