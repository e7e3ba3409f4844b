"""Who is right: by label, by place, and from pairs, against literal rules and official lists."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.io
import utm
from geopy.distance import geodesic
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from reid_vpr_eval.errors import (
    AlignmentError,
    EvaluationWarning,
    FormatError,
    ReidVprEvalError,
    RelevanceError,
)
from reid_vpr_eval.relevance import Relevance, same_label, within_metres
from reid_vpr_eval.relevance.geography import metres_between
from reid_vpr_eval.samples import Samples
from shared_inputs import data

JUNK = {"gallery": {"label": [-1]}}
columns = Samples.from_columns


def positives(relevance: Relevance) -> list[set[int]]:
    return [set(relevance.positives(i).tolist()) for i in range(relevance.n_query)]


def ignored(relevance: Relevance) -> list[set[int]]:
    return [set(relevance.ignored(i).tolist()) for i in range(relevance.n_query)]


def junk(relevance: Relevance) -> set[int]:
    return set(np.flatnonzero(relevance.ignored_gallery).tolist())


# --- labels ----------------------------------------------------------------------------------


@st.composite
def sides(draw: Any) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Two small sides; an id that stands on both sides has one label."""
    drawn = []
    for _ in range(2):
        n = draw(st.integers(1, 7))
        numbers = st.lists(st.integers(0, 2), min_size=n, max_size=n)
        ids = draw(st.lists(st.integers(0, 12), min_size=n, max_size=n, unique=True))
        drawn.append({
            "id": ids, "label": [i % 4 - 1 for i in ids], "camera": draw(numbers),
            "clothes": draw(numbers),
        })  # fmt: skip
    return drawn[0], drawn[1]


@settings(max_examples=150)
@given(sides(), st.sampled_from([(), ("camera",), ("clothes", "camera")]),
       st.sampled_from([(), ("clothes",)]), st.sampled_from(["ignore", "negative"]),
       st.booleans(), st.booleans())  # fmt: skip
def test_same_label_equals_the_literal_rule(
    both: tuple[dict[str, list[int]], dict[str, list[int]]], different: tuple[str, ...],
    same: tuple[str, ...], failing: Any, drop_junk: bool, exclude: bool,
) -> None:  # fmt: skip
    query, gallery = both
    for name in different:
        if len({*query[name], *gallery[name]}) == 1:
            gallery[name][0] += 1
            query[name][0] -= 1
    found = same_label(
        columns(**query), columns(**gallery), different=different, same=same, failing=failing,
        ignore=[JUNK] if drop_junk else [], self="exclude" if exclude else "keep",
    )  # fmt: skip
    literal = oracles.same_label_literal(
        query["label"], gallery["label"], junk_labels=[-1] if drop_junk else [],
        different=[(query[name], gallery[name]) for name in different],
        same=[(query[name], gallery[name]) for name in same], failing=failing,
        q_id=query["id"] if exclude else None, g_id=gallery["id"] if exclude else None,
    )  # fmt: skip
    assert positives(found) == literal.positives
    assert ignored(found) == literal.ignored
    assert junk(found) == literal.ignored_gallery
    assert found.n_positive.tolist() == [len(p) for p in literal.positives]
    assert found.n_ignored.tolist() == [len(p) for p in literal.ignored]


@pytest.mark.parametrize("kind", [str, float])
def test_the_kind_of_labels_changes_nothing(kind: Callable[[int], Any]) -> None:
    rng = np.random.default_rng(0)
    label, camera = rng.integers(0, 9, (2, 60))
    plain = columns(label=label, camera=camera % 3)
    other = plain.with_columns(label=[kind(value) for value in label.tolist()])
    one, two = (
        same_label(s.take(range(20)), s.take(range(20, 60)), different=["camera"])
        for s in (plain, other)
    )
    assert positives(one) == positives(two)
    assert ignored(one) == ignored(two)


def test_blocks_of_pairs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    label = np.random.default_rng(1).integers(0, 3, 40)
    samples = columns(label=label)
    whole = same_label(samples, samples)
    monkeypatch.setattr("reid_vpr_eval.relevance.labels._PAIRS_AT_ONCE", 7)
    assert positives(same_label(samples, samples)) == positives(whole)


def test_veri_equals_the_official_lists() -> None:
    lines = data("labels/veri776/ex.txt").read_text().split("\n")
    names = [Path(line.split()[0]).name for line in lines if line.strip()]
    side = ["query" if line.startswith("query") else "gallery" for line in lines if line.strip()]
    n_query = side.index("gallery")
    assert (n_query, len(names) - n_query) == (1678, 11579)
    fields = [re.match(r"(\d+)_c(\d{3})", name) for name in names]
    table = columns(
        label=[int(f[1]) for f in fields if f], camera=[int(f[2]) for f in fields if f],
    )  # fmt: skip
    rows = np.arange(table.n)
    query, gallery = table.take(rows < n_query), table.take(rows >= n_query)
    for ids in (False, True):
        if ids:
            query = query.with_columns(id=names[:n_query])
            gallery = gallery.with_columns(id=names[n_query:])
        relevance = same_label(query, gallery, different=["camera"])
        for name, found in (("gt", positives(relevance)), ("jk", ignored(relevance))):
            official = data(f"labels/veri776/{name}_index.txt").read_text().splitlines()
            assert len(official) == n_query
            equal = [
                mine == {int(i) - 1 for i in line.split()}
                for mine, line in zip(found, official, strict=True)
            ]
            assert sum(equal) == 1678
        assert relevance.n_self.sum() == (1678 if ids else 0)


def market() -> tuple[Samples, Samples]:
    def column(name: str) -> npt.NDArray[Any]:
        path = data(f"labels/market1501/{name}.mat")
        (values,) = (v for k, v in scipy.io.loadmat(path).items() if not k.startswith("_"))
        return np.asarray(values).ravel()

    query = columns(pid=column("queryID"), camid=column("queryCam"))
    return query, columns(pid=column("testID"), camid=column("testCam"))


def test_market_counts() -> None:
    query, gallery = market()
    assert (query.n, gallery.n) == (3368, 19732)
    relevance = same_label(query, gallery, different=["camera"], ignore=[JUNK])
    assert int(relevance.ignored_gallery.sum()) == 3819
    assert int(relevance.n_positive.sum()) == 49649
    assert int(relevance.n_ignored.sum()) == 13115
    assert round(float(relevance.n_positive.mean()), 3) == 14.741
    assert int(relevance.n_positive.min()) > 0
    kept = gallery.take(gallery.values("label") != -1)
    assert kept.n == 15913
    for ignore in ([], [JUNK]):
        dropped = same_label(query, kept, different=["camera"], ignore=ignore)
        assert not dropped.ignored_gallery.any()
        assert np.array_equal(dropped.n_positive, relevance.n_positive)
        assert np.array_equal(dropped.n_ignored, relevance.n_ignored)
    rows = np.flatnonzero(gallery.values("label") != -1)
    assert all(
        np.array_equal(rows[dropped.positives(i)], relevance.positives(i)) for i in range(query.n)
    )


def small() -> tuple[Samples, Samples]:
    query = columns(label=[7, 8], camera=[1, 2], clothes=[1, 1])
    gallery = columns(
        label=[7, 7, 8, 9, 9], camera=[1, 2, 2, 1, 2], clothes=[1, 2, 1, 2, 1]
    )  # fmt: skip
    return query, gallery


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([{"same": ["camera"]}], [{0, 3}, {1, 2, 4}]),
        ([{"same": ["camera", "clothes"]}], [{0}, {2, 4}]),
        ([{"different": ["label"], "same": ["camera"]}], [{3}, {1, 4}]),
        ([{"different": ["label", "camera"]}], [{2, 4}, {0, 3}]),
        ([{"query": {"camera": [2]}, "gallery": {"camera": [1]}}], [set(), {0, 3}]),
        ([{"query": {"camera": 1, "label": [7, 8]}, "gallery": {"label": [7]}}], [{0, 1}, set()]),
        ([{"query": {"label": [8]}, "same": ["clothes"], "gallery": {"label": [9]}}], [set(), {4}]),
        ([{"query": {"label": [8]}}], [set(), {0, 1, 2, 3, 4}]),
        ([{"query": {"label": []}}], [set(), set()]),
        ([{"query": {"label": [8]}, "gallery": {"label": [7]}},
          {"query": {"label": [8]}, "gallery": {"label": [9], "clothes": [2]}}],
         [set(), {0, 1, 3}]),
    ],
)  # fmt: skip
def test_ignore_entries_are_joined_by_or_and_their_keys_by_and(
    entries: list[Any], expected: list[set[int]]
) -> None:
    relevance = same_label(*small(), ignore=entries)
    assert ignored(relevance) == expected
    plain = positives(same_label(*small()))
    assert positives(relevance) == [p - e for p, e in zip(plain, expected, strict=True)]
    assert not relevance.ignored_gallery.any()


def test_an_entry_of_the_gallery_alone_holds_for_everybody() -> None:
    entries: list[dict[str, Any]] = [
        {"gallery": {"label": np.array([7, 8]), "camera": [2]}}, {"gallery": {"clothes": 2}},
    ]  # fmt: skip
    relevance = same_label(*small(), ignore=entries)
    assert junk(relevance) == {1, 2, 3}
    assert positives(relevance) == [{0}, set()]
    assert relevance.n_ignored.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"gallery": {"label": ["-1"]}}, "'-1' is compared with integers such as"),
        ({"gallery": {"label": [1.5]}}, "1.5 is compared with integers"),
        ({"gallery": {"label": [True]}}, "True is compared with integers"),
        ({"gallery": {"label": [None]}}, "None is compared with integers"),
        ({"query": {"label": ["7"]}, "same": ["camera"]}, "'7' is compared with integers"),
        ({"same": ["camera"], "gallery": {"label": "7"}}, "'7' is compared with integers"),
        ({"galery": {"label": [1]}}, r"keys \['galery'\]; at least one of same, different, query"),
        ({}, r"keys \[\]"),
        ({"gallery": {}}, r"keys \['gallery'\]"),
        ({"same": "camera"}, r"entry 0, same = 'camera': a list of columns, \['camera'\]"),
    ],
)
def test_ignore_entries_that_are_refused(entry: Any, says: str) -> None:
    with pytest.raises(RelevanceError, match=says):
        same_label(*small(), ignore=[entry])
    with pytest.raises(RelevanceError, match="ignore is a list of entries"):
        same_label(*small(), ignore=entry)


def test_strings_are_compared_with_strings() -> None:
    query, gallery = columns(label=["a"]), columns(label=["a", "-1"])
    relevance = same_label(query, gallery, ignore=[{"gallery": {"label": ["-1"]}}])
    assert junk(relevance) == {1}
    with pytest.raises(RelevanceError, match="label = -1 is compared with strings such as"):
        same_label(query, gallery, ignore=[JUNK])


def test_self_is_an_item_of_the_same_given_id() -> None:
    query = columns(id=["a", "b", "z"], label=[1, 1, 2])
    gallery = columns(id=["b", "c", "a"], label=[1, 1, 1])
    relevance = same_label(query, gallery)
    assert positives(relevance) == [{0, 1}, {1, 2}, set()]
    assert ignored(relevance) == [{2}, {0}, set()]
    assert relevance.n_self.tolist() == [1, 1, 0]
    kept = same_label(query, gallery, self="keep")
    assert positives(kept) == [{0, 1, 2}, {0, 1, 2}, set()]
    assert kept.n_self.sum() == 0
    assert same_label(query.without(["id"]), gallery).n_self.sum() == 0
    out = same_label(query, gallery, ignore=[{"gallery": {"id": ["a"]}}])
    assert ignored(out) == [set(), {0}, set()]


def test_one_object_on_both_sides_is_its_own_gallery() -> None:
    samples = columns(label=[5, 5, 6])
    relevance = same_label(samples, samples)
    assert positives(relevance) == [{1}, {0}, set()]
    assert ignored(relevance) == [{0}, {1}, {2}]
    twin = columns(label=[5, 5, 6])
    assert same_label(samples, twin).n_self.sum() == 0
    named = samples.with_columns(id=[3, 1, 2])
    assert same_label(named, named.take([2, 1, 0])).n_self.tolist() == [1, 1, 1]


def test_ids_that_collide_are_found() -> None:
    query, gallery = columns(id=[1, 2], label=[5, 6]), columns(id=[2, 1], label=[6, 7])
    with pytest.raises(AlignmentError, match=r"1 id .* 1 is label 5 in query row 0 and 7 in "):
        same_label(query, gallery)
    assert positives(same_label(query, gallery, self="keep")) == [set(), {0}]
    with pytest.raises(AlignmentError, match=r"'id' holds integers .*\(1\) .* strings .*\('1'\)"):
        same_label(query, gallery.with_columns(id=["1", "2"]))


@pytest.mark.parametrize(
    ("query", "gallery", "rule", "error", "says"),
    [
        ({"label": [-1]}, {"label": ["-1"]}, {}, AlignmentError,
         r"'label' holds integers on the query side \(-1\) and strings .* \('-1'\)"),
        ({"label": [1], "camera": ["a"]}, {"label": [1], "camera": [2]}, {"same": ["camera"]},
         AlignmentError, "'camera' holds strings on the query side"),
        ({"label": [1], "camera": [3]}, {"label": [1], "camera": [3]}, {"different": ["camera"]},
         RelevanceError, "must differ in 'camera', but every row .* the one value 3"),
        ({"label": [1], "camera": [3]}, {"label": [1, 1], "camera": [None, 2]},
         {"different": ["camera"]}, FormatError, "'camera' has no value in 1 of 2 rows"),
        ({"label": [1], "camera": [3]}, {"label": [1, 1], "camera": [None, 2]},
         {"ignore": [{"same": ["camera"]}]}, FormatError, "'camera' has no value in 1 of 2"),
        ({"label": [1]}, {"label": [1]}, {"same": ["camera"]}, FormatError, "no column 'camera'"),
        ({"label": [1]}, {"camera": [1]}, {}, FormatError, "no column 'label'"),
        ({"label": []}, {"label": [1]}, {}, AlignmentError, "query side is empty"),
        ({"label": [1]}, {"label": []}, {}, AlignmentError, "gallery side is empty"),
        ({"label": [1]}, {"label": [1]}, {"failing": "drop"}, RelevanceError, "failing = 'drop'"),
        ({"label": [1]}, {"label": [1]}, {"self": "drop"}, RelevanceError, "self = 'drop'"),
        ({"label": [1]}, {"label": [1]}, {"different": "camera"}, RelevanceError,
         "different = 'camera': a list of columns"),
        ({"label": [1]}, {"label": [1]}, {"no_positive": "drop"}, RelevanceError,
         "no_positive = 'drop': one of skip, zero, one, error"),
    ],
)  # fmt: skip
def test_label_rules_that_cannot_be_applied(
    query: Any, gallery: Any, rule: Any, error: type[ReidVprEvalError], says: str
) -> None:
    with pytest.raises(error, match=says):
        same_label(Samples(query), Samples(gallery), **rule)


def test_a_missing_value_in_a_column_of_no_rule_is_no_error() -> None:
    query, gallery = columns(label=[1], camera=[None]), columns(label=[1], camera=[2])
    assert positives(same_label(query, gallery)) == [{0}]


def test_another_column_can_identify() -> None:
    query, gallery = columns(floor=["a"]), columns(floor=["b", "a"])
    relevance = same_label(query, gallery, label="floor", no_positive="zero")
    assert positives(relevance) == [{1}]
    assert relevance.no_positive == "zero"


# --- places in the plane ---------------------------------------------------------------------


def places(points: Any, **more: Any) -> Samples:
    points = np.asarray(points, dtype=float).reshape(-1, 2)
    return columns(east=points[:, 0], north=points[:, 1], **more)


def globe(points: Any, **more: Any) -> Samples:
    points = np.asarray(points, dtype=float).reshape(-1, 2)
    return columns(lat=points[:, 0], lon=points[:, 1], **more)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("origin", [(0.0, 0.0), (584744.0, 4476709.0)])
def test_grids_with_exact_boundaries(inclusive: bool, origin: tuple[float, float]) -> None:
    """5 m grids hold many pairs at exactly 25 m: (15, 20), (7 x 5, 24 x 5) ... and (0, 25)."""
    grid = np.stack(np.meshgrid(np.arange(0, 100, 5.0), np.arange(0, 100, 5.0)), -1).reshape(-1, 2)
    query, gallery = grid[::7] + origin, grid + origin
    literal = oracles.within_literal(query, gallery, 25.0, inclusive)
    found = within_metres(places(query), places(gallery), radius=25.0, inclusive=inclusive)
    assert positives(found) == literal
    both = [oracles.within_literal(query, gallery, 25.0, how) for how in (True, False)]
    assert sum(map(len, both[0])) - sum(map(len, both[1])) > 100
    assert found.n_ignored.sum() == 0
    assert found.no_positive == "zero"


def test_exactly_25_metres_and_a_little_less() -> None:
    gallery = places([(584768.999999, 4476709), (584759, 4476729), (584769.000001, 4476709)])
    query = places([(584744, 4476709)])
    assert positives(within_metres(query, gallery)) == [{0, 1}]
    assert positives(within_metres(query, gallery, inclusive=False)) == [{0}]


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=12),
    st.integers(1, 15), st.integers(-30, 30), st.booleans(), st.randoms(use_true_random=False),
)  # fmt: skip
def test_scale_and_order_change_nothing(
    points: Any, radius: int, power: int, inclusive: bool, random: Any
) -> None:
    scale = 2.0**power
    grid = np.array(points, dtype=float)
    query, gallery = grid[: max(1, len(grid) // 2)], grid
    plain = within_metres(places(query), places(gallery), radius=radius, inclusive=inclusive)
    assert positives(plain) == oracles.within_literal(query, gallery, radius, inclusive)
    order = list(range(len(gallery)))
    random.shuffle(order)
    scaled = within_metres(
        places(query * scale), places(gallery[order] * scale), radius=radius * scale,
        inclusive=inclusive,
    )  # fmt: skip
    assert [{order[j] for j in found} for found in positives(scaled)] == positives(plain)


@pytest.mark.parametrize(
    ("name", "sizes", "pairs", "least", "most"),
    [
        ("pitts30k_test", (6816, 10000), 968_448, 24, 360),
        ("tokyo247", (315, 75984), 37_260, 48, 240),
    ],
)
def test_published_places(
    name: str, sizes: tuple[int, int], pairs: int, least: int, most: int
) -> None:
    with np.load(data(f"places/patch_netvlad/{name}.npz")) as stored:
        query, gallery = places(stored["utmQ"]), places(stored["utmDb"])
        radius = float(stored["posDistThr"])
    found = within_metres(query, gallery, radius=radius)
    assert (found.n_query, found.n_gallery) == sizes
    counts = found.n_positive
    assert (int(counts.sum()), int(counts.min()), int(counts.max())) == (pairs, least, most)
    rows = np.arange(0, query.n, 211)
    points = [np.stack([s.values("east"), s.values("north")], 1) for s in (query, gallery)]
    literal = oracles.within_literal(points[0][rows], points[1], radius)
    assert positives(found.take(rows)) == literal


def test_of_several_radii_the_first_is_the_headline() -> None:
    query, gallery = places([(0, 0)]), places([(5, 0), (10, 0), (20, 0), (25, 0), (26, 0)])
    found = within_metres(query, gallery, radius=[10.0, 25.0, 5.0])
    assert found.item.tolist() == [0, 1, 2, 3]
    assert found.role.tolist() == [1, 1, 0, 0]
    assert found.grade.tolist() == [1, 1, 0, 0]
    assert within_metres(query, gallery, radius=[10.0, 25.0], inclusive=False).item.size == 3
    assert within_metres(query, gallery, radius=[25.0, 10.0]).role.tolist() == [1, 1, 1, 1]


def test_self_stays_unless_excluded() -> None:
    query, gallery = places([(0, 0)], id=["a"]), places([(0, 0), (0, 0)], id=["b", "a"])
    assert positives(within_metres(query, gallery)) == [{0, 1}]
    apart = within_metres(query, gallery, self="exclude")
    assert positives(apart) == [{0}]
    assert ignored(apart) == [{1}]
    assert apart.n_self.tolist() == [1]
    one = places([(0, 0), (1, 0)])
    assert positives(within_metres(one, one, self="exclude")) == [{1}, {0}]


# --- places on the ellipsoid -----------------------------------------------------------------

#: Latitude and longitude of centres: the equator, cities, the date line, both poles.
CENTRES = [
    (0.0, 0.0), (40.44, -79.99), (-33.86, 151.2), (0.00001, 180.0), (-17.0, 179.9999),
    (66.0, -180.0), (89.9999, 10.0), (90.0, 0.0), (-89.99, -120.0),
]  # fmt: skip


@pytest.mark.parametrize("radius", [25.0, 1e3, 9e3, 2e5, 2.5e6])
def test_degrees_equal_the_geodesic(radius: float) -> None:
    rng = np.random.default_rng(int(radius))
    gallery: list[tuple[float, float]] = []
    for centre in CENTRES:
        for bearing in rng.uniform(0, 360, 3):
            for share in (0.4, 0.996, 0.999999, 1.000001, 1.004, 1.7):
                end = geodesic(meters=radius * share).destination(centre, bearing)
                gallery.append((end.latitude, end.longitude))
    for inclusive in (True, False):
        found = within_metres(globe(CENTRES), globe(gallery), radius=radius, inclusive=inclusive)
        assert positives(found) == oracles.geodesic_within_literal(
            CENTRES, gallery, radius, inclusive
        )
    turned = [(lat, lon + 360 if lon < 0 else lon) for lat, lon in gallery]
    again = within_metres(globe(CENTRES), globe(turned), radius=radius)
    assert again.n_positive.tolist() == within_metres(
        globe(CENTRES), globe(gallery), radius=radius
    ).n_positive.tolist()


@pytest.mark.parametrize("metres", [25.0, 9e3, 2e5, 2.5e6, 1.5e7])
def test_exactly_the_radius_on_the_ellipsoid(metres: float) -> None:
    for centre in CENTRES:
        end = geodesic(meters=metres).destination(centre, 33.0)
        other = (end.latitude, end.longitude)
        radius = geodesic(centre, other).m
        query, gallery = globe([centre]), globe([other])
        assert positives(within_metres(query, gallery, radius=radius)) == [{0}]
        assert positives(within_metres(query, gallery, radius=radius, inclusive=False)) == [set()]
        less = np.nextafter(radius, 0)
        assert positives(within_metres(query, gallery, radius=less)) == [set()]


@settings(max_examples=60)
@given(*[st.floats(-90, 90), st.floats(-180, 180)] * 2, st.floats(1.0, 2.0e7))
def test_any_two_points(
    lat: float, lon: float, other_lat: float, other_lon: float, radius: float
) -> None:
    ends = [(lat, lon)], [(other_lat, other_lon)]
    found = within_metres(globe(ends[0]), globe(ends[1]), radius=radius)
    assert positives(found) == oracles.geodesic_within_literal(*ends, radius)


@pytest.mark.parametrize(
    ("lat", "lon", "says"),
    [
        ([48.1, 91.0], [11.5, 11.5], r"query side: 1 row .* \(rows 1; row 1: lat 91, lon 11.5\)"),
        ([139.7, 139.8], [35.6, 35.7], r"2 rows .* look swapped: exchange the two columns"),
        ([48.1], [361.0], "longitude -180 to 180"),
        ([48.1], [-180.1], "longitude -180 to 180"),
    ],
)
def test_degrees_out_of_range(lat: list[float], lon: list[float], says: str) -> None:
    good = globe([(48.0, 11.0)])
    with pytest.raises(RelevanceError, match=says):
        within_metres(columns(lat=lat, lon=lon), good)
    with pytest.raises(RelevanceError, match="gallery side: "):
        within_metres(good, columns(lat=lat, lon=lon))


# --- zones -----------------------------------------------------------------------------------


def in_zone(points: Any, zone: int, letter: str | None = None, *, offset: float = 0.0) -> Samples:
    """Ground points in the coordinates of a zone, whether or not they lie in it."""
    west_of_180 = [(lat, (lon + 180) % 360 - 180) for lat, lon in points]
    rows = [utm.from_latlon(lat, lon, force_zone_number=zone) for lat, lon in west_of_180]
    name = zone if letter is None else f"{zone}{letter}"
    return places([(r[0], r[1] + offset) for r in rows], zone=[name] * len(rows))


def joined(*parts: Samples) -> Samples:
    names = parts[0].column_names
    return Samples({n: np.concatenate([p.values(n) for p in parts]) for n in names})


def around(lat: float, lon: float, seed: int = 0) -> npt.NDArray[np.float64]:
    """40 points up to some 30 m away."""
    step = np.random.default_rng(seed).uniform(-2.5e-4, 2.5e-4, (40, 2))
    return np.array([lat, lon]) + step


def geodesic_sets(query: Any, gallery: Any, radius: float = 25.0) -> list[set[int]]:
    return oracles.geodesic_within_literal(query, gallery, radius)


@pytest.mark.parametrize("lat", [55.0, 48.0, 3.0])
def test_pairs_across_a_zone_border_are_measured_on_the_ellipsoid(lat: float) -> None:
    """Just left of 12 degrees east in zone 32, just right of it in zone 33."""
    left, right = around(lat, 11.9999), around(lat, 12.0001, 1)
    expected = geodesic_sets(left, right)
    n_across = sum(map(len, expected))
    assert n_across > 20
    query, gallery = in_zone(left, 32), in_zone(right, 33)
    with pytest.warns(EvaluationWarning, match=f"^{n_across} pairs within 25 m lie in different"):
        found = within_metres(query, gallery)
    assert positives(found) == expected
    with pytest.warns(EvaluationWarning, match=f"^{n_across} pairs"):
        mixed = within_metres(query, joined(gallery, in_zone(left, 32)))
    planar = within_metres(query.without(["zone"]), in_zone(left, 32).without(["zone"]))
    assert [{j for j in p if j < 40} for p in positives(mixed)] == expected
    assert [{j - 40 for j in p if j >= 40} for p in positives(mixed)] == positives(planar)


def test_one_ground_point_in_two_zones_is_one_place() -> None:
    points = around(48.0, 12.0)
    with pytest.warns(EvaluationWarning, match="^40 pairs within 0.001 m"):
        found = within_metres(in_zone(points, 32), in_zone(points, 33, "U"), radius=0.001)
    assert positives(found) == [{i} for i in range(40)]
    with pytest.warns(EvaluationWarning, match="pairs within 25 m"):
        found = within_metres(in_zone(points, 32, "U"), in_zone(points, 33))
    assert positives(found) == geodesic_sets(points, points)


@pytest.mark.parametrize(("letter", "offset"), [("H", 0.0), (None, -1e7), ("H", -1e7)])
def test_the_southern_hemisphere(letter: str | None, offset: float) -> None:
    """With the false northing of ten million metres, and counted below the equator."""
    left, right = around(-33.9, 149.9999), around(-33.9, 150.0001, 1)
    expected = geodesic_sets(left, right)
    query = in_zone(left, 55, letter, offset=offset)
    gallery = in_zone(right, 56, letter, offset=offset)
    with pytest.warns(EvaluationWarning, match=f"^{sum(map(len, expected))} pairs"):
        assert positives(within_metres(query, gallery)) == expected


@pytest.mark.parametrize("offset", [0.0, -1e7])
def test_pairs_across_the_equator(offset: float) -> None:
    north, south = around(0.0003, 36.8), around(-0.0003, 36.8, 1)
    query = in_zone(north, 37, "N")
    gallery = in_zone(south, 37, "M", offset=offset)
    expected = geodesic_sets(north, south, 60.0)
    with pytest.warns(EvaluationWarning, match="pairs within 60 m"):
        assert positives(within_metres(query, gallery, radius=60.0)) == expected


@pytest.mark.parametrize(
    ("ends", "zones", "metres"),
    [
        ([(708307.22, 5707239.50), (291692.78, 5707239.50)], ["30U", "31U"], 20.84),
        ([utm.from_latlon(31.95, 35.9999)[:2], utm.from_latlon(31.95, 36.0001)[:2]],
         ["36R", "37R"], 18.91),
        ([utm.from_latlon(0.00005, 36.8)[:2], utm.from_latlon(-0.00005, 36.8)[:2]],
         ["37N", "37M"], 11.06),
    ],
)  # fmt: skip
def test_known_crossings(ends: Any, zones: list[str], metres: float) -> None:
    query, gallery = (places([e], zone=[z]) for e, z in zip(ends, zones, strict=True))
    assert metres_between(query, gallery) == pytest.approx([metres], abs=0.01)
    with pytest.warns(EvaluationWarning, match="^1 pair "):
        assert positives(within_metres(query, gallery, radius=metres + 0.01)) == [{0}]
    assert positives(within_metres(query, gallery, radius=metres - 0.01)) == [set()]


def test_degrees_beside_the_plane_are_used_across_zones() -> None:
    left, right = around(48.0, 11.9999), around(48.0, 12.0001, 1)
    moved = np.add(right, [0.0, 1.0])
    query = in_zone(left, 32).with_columns(lat=left[:, 0], lon=left[:, 1])
    gallery = in_zone(right, 33)
    far = gallery.with_columns(lat=moved[:, 0], lon=moved[:, 1])
    assert within_metres(query, far).n_positive.sum() == 0
    gap = far.with_columns(lat=[None, *moved[1:, 0]])
    with pytest.warns(EvaluationWarning, match="different UTM zones"):
        assert positives(within_metres(query, gap)) == geodesic_sets(left, right)
    with pytest.raises(RelevanceError, match=r"gallery side: .* out of range"):
        within_metres(query, far.with_columns(lat=[99.0] * 40))


def test_one_zone_is_a_plane_and_warns_of_nothing() -> None:
    points = around(48.0, 11.0)
    query = in_zone(points, 32, "U")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for gallery in (query, in_zone(points, 32), in_zone(points, 32, "T")):
            found = within_metres(query, gallery)
            assert positives(found) == positives(
                within_metres(query.without(["zone"]), gallery.without(["zone"]))
            )


@pytest.mark.parametrize(
    ("query", "gallery", "rule", "says"),
    [
        ({"zone": [32]}, {}, {}, "gallery side has no column 'zone', the other side has"),
        ({}, {"zone": [32]}, {}, "query side has no column 'zone'"),
        ({"zone": [61]}, {"zone": [32]}, {}, "61 is no UTM zone"),
        ({"zone": [32]}, {"zone": [0]}, {}, "0 is no UTM zone"),
        ({"zone": ["32O"]}, {"zone": ["32U"]}, {}, "'32O' is no UTM zone"),
        ({"zone": ["U32"]}, {"zone": ["32U"]}, {}, "'U32' is no UTM zone"),
        ({}, {}, {"radius": 0}, "radius = 0: metres above 0"),
        ({}, {}, {"radius": -1.0}, "radius = -1.0"),
        ({}, {}, {"radius": [25.0, 0.0]}, "metres above 0"),
        ({}, {}, {"radius": []}, "metres above 0"),
        ({}, {}, {"radius": np.nan}, "metres above 0"),
        ({}, {}, {"radius": np.inf}, "metres above 0"),
        ({}, {}, {"radius": "far"}, "radius = 'far': metres above 0"),
        ({}, {}, {"self": "drop"}, "self = 'drop': one of exclude, keep"),
        ({}, {}, {"coordinates": "mercator"}, "coordinates = 'mercator': one of utm, latlon"),
        ({}, {}, {"no_positive": "drop"}, "no_positive = 'drop'"),
    ],
)
def test_place_rules_that_cannot_be_applied(query: Any, gallery: Any, rule: Any, says: str) -> None:
    with pytest.raises(RelevanceError, match=says):
        within_metres(places([(0, 0)], **query), places([(0, 0)], **gallery), **rule)


def test_the_columns_that_a_place_needs() -> None:
    plane, degrees = places([(0, 0)]), globe([(1, 0)])
    with pytest.raises(RelevanceError, match="query side has east, north, the gallery side lat"):
        within_metres(plane, degrees)
    with pytest.raises(FormatError, match="'north' has no value in 1 of 1 row "):
        within_metres(plane, columns(east=[0.0], north=[None]))
    with pytest.raises(AlignmentError, match="gallery side is empty"):
        within_metres(plane, places([]))
    both = plane.with_columns(lat=[1.0], lon=[0.0])
    other = places([(9000, 0)]).with_columns(lat=[1.0], lon=[0.0])
    assert within_metres(both, other).n_positive.tolist() == [0]
    assert within_metres(both, other, coordinates="latlon").n_positive.tolist() == [1]


def test_metres_between_rows() -> None:
    one, other = places([(0, 0), (5e5, 4e6)]), places([(3, 4), (5e5, 4e6)])
    assert metres_between(one, other).tolist() == [5, 0]
    left, right = around(48, 179.9999), around(48, -179.9999, 1)
    expected = [geodesic(a, b).m for a, b in zip(left, right, strict=True)]
    assert metres_between(globe(left), globe(right)).tolist() == expected
    zones = metres_between(in_zone(left, 60), in_zone(right, 1))
    assert zones == pytest.approx(expected, abs=1e-3)


# --- pairs -----------------------------------------------------------------------------------


def pairs(**more: Any) -> Relevance:
    arguments: dict[str, Any] = {
        "query_index": [1, 0, 0, 2], "gallery_index": [3, 2, 0, 1], "grade": [2, 1, 0, 1],
        "ignored": [False, False, False, True], "ignored_gallery": None, "n_query": 4,
        "n_gallery": 5,
    }  # fmt: skip
    return Relevance.from_pairs(**(arguments | more))


def test_pairs_are_sorted_and_graded() -> None:
    relevance = pairs()
    assert relevance.query_of_pair().tolist() == [0, 0, 1, 2]
    assert relevance.item.tolist() == [0, 2, 3, 1]
    assert relevance.role.tolist() == [0, 1, 1, -1]
    assert relevance.grade.tolist() == [0, 1, 2, 0]
    assert relevance.n_positive.tolist() == [1, 1, 0, 0]
    assert relevance.n_ignored.tolist() == [0, 0, 1, 0]
    assert positives(relevance) == [{2}, {3}, set(), set()]
    assert ignored(relevance) == [set(), set(), {1}, set()]
    assert relevance.n_positive.dtype == relevance.n_ignored.dtype == np.int64
    for outside in (4, -1):
        with pytest.raises(IndexError):
            relevance.positives(outside)


def test_rows_ignored_for_everybody_are_in_no_pair() -> None:
    relevance = pairs(ignored_gallery=[False, True, True, False, False])
    assert relevance.item.tolist() == [0, 3]
    assert relevance.n_ignored.tolist() == [0, 0, 0, 0]
    assert junk(relevance) == {1, 2}
    assert pairs(query_index=[], gallery_index=[], grade=[], ignored=[]).item.size == 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"query_index": [1, 0, 0, 4]}, r"query positions run from 0 to 3; .* \(pair 3: 4"),
        ({"query_index": [-1, 0, 0, 2]}, r"\(pair 0: -1"),
        ({"gallery_index": [3, 5, 9, 1]}, r"gallery positions .* 2 pairs \(pair 1: 5; all: 1, 2\)"),
        ({"gallery_index": [3.0, 2.0, 0.0, 1.0]}, "gallery positions must be a list of whole"),
        ({"gallery_index": [[3, 2, 0, 1]]}, "gallery positions must be a list of whole"),
        ({"query_index": [True] * 4}, "query positions must be a list of whole"),
        ({"gallery_index": [3, 2, 2, 1]}, "query 0 names gallery row 2 twice"),
        ({"grade": [1, -1, 1, 1]}, r"pair 1 has the grade -1\.0"),
        ({"grade": [1, 1, np.nan, 1]}, "pair 2 has the grade nan"),
        ({"grade": [np.inf, 1, 1, 1]}, "pair 0 has the grade inf"),
        ({"grade": [1]}, r"grade has the shape \(1,\); \(4,\) is needed"),
        ({"ignored": [True]}, r"ignored has the shape \(1,\)"),
        ({"ignored": [0, 1, 2, 3]}, "ignored marks entries True or False"),
        ({"ignored_gallery": [True] * 4}, r"ignored_gallery has the shape \(4,\); \(5,\)"),
        ({"ignored_gallery": [0, 1, 2, 3, 4]}, "ignored_gallery marks entries True or False"),
        ({"gallery_index": [3, 2, 0]}, "4 query positions for 3 gallery positions"),
        ({"no_positive": "drop"}, "no_positive = 'drop'"),
    ],
)
def test_pairs_that_are_refused(more: Any, says: str) -> None:
    with pytest.raises(RelevanceError, match=says):
        pairs(**more)


def test_take_queries() -> None:
    relevance = pairs().keeping([0, 1, 0, 1, 0], [[True, True]] * 3 + [[False, True]])
    taken = relevance.take([2, 0, 0, -1])
    assert positives(taken) == [set(), {2}, {2}, set()]
    assert ignored(taken) == [{1}, set(), set(), set()]
    assert taken.kept is not None
    assert taken.kept[:, 0].tolist() == [True, True, True, False]
    mask = relevance.take([False, True, False, True])
    assert positives(mask) == [{3}, set()]
    assert mask.grade.tolist() == [2]
    assert relevance.take([]).n_query == 0
    for wrong in ([4], [True], [0.5]):
        with pytest.raises(IndexError):
            relevance.take(wrong)


def test_a_wide_ignore() -> None:
    values, kept = np.array([0, 1, 0, 1, 2]), np.ones((4, 3), bool)
    relevance = pairs().keeping(values, kept)
    values[:], kept[:] = 0, False
    assert relevance.wide is not None
    assert relevance.kept is not None
    assert relevance.wide.tolist() == [0, 1, 0, 1, 2]
    assert relevance.kept.all()
    for codes, mask, says in [
        ([0] * 4, kept, "needs 5 codes and a mask of 4 rows"),
        ([0] * 5, kept[:3], "needs 5 codes and a mask of 4 rows"),
        ([0, 0, 0, 0, 3], kept, "run from 0 to 2"),
        ([0, 0, 0, 0, -1], kept, "run from 0 to 2"),
    ]:
        with pytest.raises(RelevanceError, match=says):
            pairs().keeping(codes, mask)
    with pytest.raises(RelevanceError, match="a wide ignore already"):
        relevance.keeping([0] * 5, kept)


@pytest.mark.parametrize("wide", [True, False])
def test_saving_gives_the_same_bytes(tmp_path: Path, wide: bool) -> None:
    relevance = same_label(*small(), different=["camera"], no_positive="one",
                           ignore=[{"gallery": {"label": [9]}}])  # fmt: skip
    if wide:
        relevance = relevance.keeping([0, 1, 0, 1, 0], [[True, False]] * 2)
    relevance.save(tmp_path / "one.npz")
    loaded = Relevance.load(tmp_path / "one.npz")
    loaded.save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert (loaded.note, loaded.no_positive) == (relevance.note, "one")
    assert "2 gallery rows are ignored for everybody" in loaded.note
    assert positives(loaded) == positives(relevance)
    assert ignored(loaded) == ignored(relevance)
    assert junk(loaded) == junk(relevance) == {3, 4}


def test_pairs_share_nothing() -> None:
    arrays = {
        "query_index": np.array([1, 0, 0, 2]), "gallery_index": np.array([3, 2, 0, 1]),
        "grade": np.array([2.0, 1, 0, 1]), "ignored": np.array([False, False, False, True]),
        "ignored_gallery": np.zeros(5, bool),
    }  # fmt: skip
    relevance = pairs(**arrays)
    for array in arrays.values():
        array[:] = 1
    assert relevance.item.tolist() == [0, 2, 3, 1]
    assert relevance.grade.tolist() == [0, 1, 2, 0]
    assert relevance.n_ignored.tolist() == [0, 0, 1, 0]
    assert not relevance.ignored_gallery.any()
