"""Protocols of places: each is complete, runs on a world that fits it, and checks no guess."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.checks import check_grammars, check_metrics
from reid_vpr_eval.protocol import (
    FramesRule,
    LabelRule,
    ListedRule,
    PoseRule,
    Protocol,
    WithinRule,
    protocol_folder,
)

#: What may be checked, as (n_query, n_gallery): counted, read in code, or following from it.
ENFORCED: dict[str, tuple[Any, Any]] = {
    "pitts30k-train": (7416, 10000), "pitts30k-val": (7608, 10000),
    "pitts30k-test": (6816, 10000), "pitts250k-test": (8280, None),
    "tokyo247": (315, 75984), "tokyo247-nms": (315, 75984),
    "msls-val-740": ([740, 747], 18871), "msls-val-740-per-city": ([740, 747], 18871),
    "msls-val-747": (747, 18871),
    "nordland-2760-summer-winter-w1": (2760, 27592),
    "nordland-2760-winter-summer-w1": (2760, 27592),
    "nordland-27592-winter-summer-w10": (27592, 27592),
    "nordland-27592-winter-summer-w7": (27592, 27592), "nordland-3000-w1": (3000, 3000),
    "st-lucia": (1464, 1549), "eynsham": (None, 23935),
    "sped": (607, 607), "essex3in1": (210, 210), "gardenspoint-w2": (200, 200),
    "gardenspoint-night-right-day-right-tutorial": (200, 200), "gardenspoint-tn": (400, None),
    "17places": (406, 406), "corridor": (111, 111), "living": (32, 32),
    "cross-seasons": (191, 191), "synthia": (813, 911),
    "vprbench-inria-holidays": (300, None), "vprbench-pittsburgh": (1000, 23000),
    "baidu-mall-10m": (2292, 689), "baidu-mall-15m": (2292, 689),
    "baidu-mall-20m": (2292, 689), "baidu-mall-25m": (2292, 689),
    "oxford-robotcar-seqnet-v1": (1576, 1574), "oxford-robotcar-seqnet-pnv": (1579, 1570),
    "hawkins": (118, 127), "laurel": (112, 141),
}  # fmt: skip
#: Counts of these are remembered or hearsay, or unknown: none is checked.
OPEN = [
    "4seasons", "amstertime", "cambridge", "cvact-val", "cvusa", "msls-val-11084",
    "nordland-3450-w2", "pitts250k-val", "places", "pointnetvlad-oxford", "sf-landmark",
    "sf-xl-night", "sf-xl-occlusion", "sf-xl-v1", "sf-xl-v2", "sf-xl-val", "svox",
    "svox-night", "svox-overcast", "svox-rain", "svox-snow", "svox-sun", "tokyotm-val",
    "university1652-drone-satellite", "university1652-satellite-drone", "vigor",
    "vigor-hit-rate",
]  # fmt: skip
NAMES = sorted([*ENFORCED, *OPEN])
Bools = npt.NDArray[np.bool_]
Table = dict[str, list[Any]]


class World(NamedTuple):
    """Two sides, and who is right and who is out, by a loop over all pairs."""

    query: Table
    gallery: Table
    positive: Bools
    out: Bools


# --- a world that fits a protocol ------------------------------------------------------------


def make_world(protocol: Protocol) -> World:
    rule = protocol.relevance
    if isinstance(rule, WithinRule):
        world = _on_the_ground(rule)
    elif isinstance(rule, PoseRule):
        world = _in_space(rule)
    elif isinstance(rule, FramesRule):
        world = _along_a_track(rule)
    elif isinstance(rule, LabelRule):
        world = _by_label()
    else:
        world = _by_list(protocol)
    return world._replace(
        query=_as_files(world.query, protocol.query),
        gallery=_as_files(world.gallery, protocol.gallery),
    )


def _on_the_ground(rule: WithinRule) -> World:
    """Places far apart; at each, items near, exactly at the radius, and beyond it."""
    assert isinstance(rule.radius, float)
    r, other = rule.radius, rule.group_search or "city"
    query: Table = {name: [] for name in ("east", "north", "group", "time", other)}
    gallery: Table = {name: [] for name in query}
    for place in range(9):
        east, city = 500_000.0 + 40 * r * place, "ab"[place % 2]
        _add(query, east, 4.0e6, f"q{place}", f"t{place}", city)
        if place > 6:  # two queries without a positive
            continue
        for item, (step, time, where) in enumerate(
            [(0.0, "u", city), (1.0, "u", city), (1.5, "u", city), (0.25, f"t{place}", city),
             (0.5, "u", "ba"[place % 2]), (12.0, "u", city)]
        ):  # fmt: skip
            _add(gallery, east + step * r, 4.0e6, f"p{place}-{item // 3}", time, where)

    def judge(i: int, j: int) -> tuple[bool, bool]:
        metres = abs(query["east"][i] - gallery["east"][j])
        near = metres <= r if rule.inclusive else metres < r
        same_time = any("time" in entry.same for entry in rule.ignore)
        out = same_time and query["time"][i] == gallery["time"][j]
        out |= rule.group_search is not None and query[other][i] != gallery[other][j]
        return near and not out, out

    return World(query, gallery, *_all_pairs(query, gallery, judge))


def _in_space(rule: PoseRule) -> World:
    """Places far apart; at each, items near, exactly at the threshold, beyond it, and turned."""
    metres, degrees = (
        float(np.atleast_1d(np.asarray(180.0 if one is None else one, float))[0])
        for one in (rule.metres, rule.degrees)
    )
    names = ("x", "y", "z", "qw", "qx", "qy", "qz")
    query: Table = {name: [] for name in (*names, "angle")}
    gallery: Table = {name: [] for name in (*names, "angle")}
    for place in range(6):
        x = 64 * metres * place
        _add(query, x, 0.0, 0.0, *_turn(0.0), 0.0)
        if place > 4:
            continue
        for step, angle in ((0.0, 0.5), (1.0, 0.5), (1.5, 0.5), (0.25, min(175.0, degrees + 5))):
            _add(gallery, x, step * metres, 0.0, *_turn(angle), angle)

    def judge(i: int, j: int) -> tuple[bool, bool]:
        apart = float(np.hypot(query["x"][i] - gallery["x"][j], gallery["y"][j]))
        near = apart < metres if rule.strict else apart <= metres
        return near and gallery["angle"][j] <= degrees, False

    positive, out = _all_pairs(query, gallery, judge)
    del query["angle"], gallery["angle"]
    return World(query, gallery, positive, out)


def _turn(degrees: float) -> tuple[float, float, float, float]:
    half = np.radians(degrees) / 2
    return float(np.cos(half)), 0.0, 0.0, float(np.sin(half))


def _along_a_track(rule: FramesRule) -> World:
    query: Table = {"frame": [0, 10, 20, 29, 500]}
    gallery: Table = {"frame": list(range(30))}

    def judge(i: int, j: int) -> tuple[bool, bool]:
        return abs(query["frame"][i] - gallery["frame"][j]) <= rule.window, False

    return World(query, gallery, *_all_pairs(query, gallery, judge))


def _by_label() -> World:
    query: Table = {"label": [1, 1, 2, 3, 9]}
    gallery: Table = {"label": [1, 2, 2, 3, 4, 5, 6]}

    def judge(i: int, j: int) -> tuple[bool, bool]:
        return query["label"][i] == gallery["label"][j], False

    return World(query, gallery, *_all_pairs(query, gallery, judge))


def _by_list(protocol: Protocol) -> World:
    rule = protocol.relevance
    assert isinstance(rule, ListedRule)
    query: Table = {"id": [f"q{i}" for i in range(6)]}
    gallery: Table = {"id": [f"g{j}" for j in range(20)]}

    def judge(i: int, j: int) -> tuple[bool, bool]:
        out = bool(rule.ignored) and i < 5 and j == 3 * i + 1
        return i < 5 and j in (3 * i, 3 * i + 2), out

    return World(query, gallery, *_all_pairs(query, gallery, judge))


def _add(table: Table, *row: Any) -> None:
    for column, value in zip(table.values(), row, strict=True):
        column.append(value)


def _all_pairs(query: Table, gallery: Table, judge: Any) -> tuple[Bools, Bools]:
    n, m = (len(next(iter(side.values()))) for side in (query, gallery))
    pairs = np.array([[judge(i, j) for j in range(m)] for i in range(n)])
    return pairs[..., 0], pairs[..., 1]


def _as_files(table: Table, side: Any) -> Table:
    """Put what the side's grammar reads into names of files; rename what it renames."""
    n = len(next(iter(table.values())))
    rows = [{key: column[row] for key, column in table.items()} for row in range(n)]
    if side.names is not None:
        taken = {"east", "north", "group"} if side.names == "utm" else {*table} & {"frame", "label"}
        table = {key: column for key, column in table.items() if key not in taken}
        table["path"] = [_name(side.names, row, place) for place, row in enumerate(rows)]
        assert side.names == "utm" or all(re.search(side.names, path) for path in table["path"])
    return {side.columns.get(key, key): column for key, column in table.items()}


def _name(names: str, row: dict[str, Any], place: int) -> str:
    if names == "utm":
        return f"@{row['east']:.2f}@{row['north']:.2f}@10@S@@@{row['group']}@{place:02d}@@@@@@@.jpg"
    if "@" in names:
        return f"@0@{row['frame'] * 25 / 10.5:07.1f}@@@@@{row['frame']}@@@@@@@@.jpg"
    if "frame" in row:
        return f"{row['frame']:07d}.jpg"
    if names.endswith("/"):
        return f"{row['label']:04d}/image-{place:02d}.jpeg"
    if "View" in names:
        return f"pano{row['label']}_satView_polish.jpg"
    return f"{row['label']:07d}.jpg"


def with_lists(protocol: Protocol, world: World, folder: Path) -> Protocol:
    """Give a protocol that leaves its lists to the user a file with those of the world."""
    rule = protocol.relevance
    if not isinstance(rule, ListedRule):
        return protocol
    ids = world.gallery["id"]
    lists = {}
    for i, own in enumerate(world.query["id"]):
        named = {"positive": world.positive[i], "ignored": world.out[i]}
        lists[i if rule.by == "index" else own] = {
            name: [int(j) if rule.by == "index" else ids[j] for j in np.flatnonzero(row)]
            for name, row in named.items()
        }
    path = folder / "lists.json"
    content = [[own, entry] for own, entry in lists.items()]
    path.write_text(json.dumps(content), encoding="utf-8")
    return protocol.model_copy(update={"relevance": rule.model_copy(update={"file": str(path)})})


# --- every protocol ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_it_is_complete(name: str) -> None:
    protocol = rve.load_protocol(name)
    check_metrics(protocol)
    check_grammars(protocol)
    assert protocol.name == name
    assert protocol.title
    assert protocol.note
    assert protocol.task
    assert protocol.reference or name == "places"
    assert protocol.report.spelling == "R@{k}"
    assert protocol.evaluation.no_positive in ("zero", "skip")
    profile = protocol.report.profile
    assert profile is None or (protocol_folder() / "profiles" / f"{profile}.toml").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_on_a_world_that_fits(name: str, tmp_path: Path) -> None:
    protocol = rve.load_protocol(name)
    world = make_world(protocol)
    protocol = with_lists(protocol, world, tmp_path)
    rng = np.random.default_rng(7)
    items = rng.normal(size=(world.positive.shape[1], 16))
    looks = np.array([
        items[np.flatnonzero(row)[0]] if row.any() else rng.normal(size=16)
        for row in world.positive
    ])  # fmt: skip
    queries = looks + 0.3 * rng.normal(size=looks.shape)
    result = rve.evaluate(
        protocol, pd.DataFrame(world.query), pd.DataFrame(world.gallery),
        rve.Embeddings(queries, items, metric="cosine"), expected="ignore",
    )  # fmt: skip
    lone = int((~world.positive.any(axis=1)).sum())
    assert lone > 0
    assert result.counts["n_positive_pairs"] == world.positive.sum()
    if getattr(protocol.relevance, "group_search", None) is None:  # else only those near count
        assert result.counts["n_ignored_pairs"] == world.out.sum()
    assert result.counts["n_no_positive"] == lone
    assert first_hits(result) == pytest.approx(expected_hits(protocol, world, queries, items))


def first_hits(result: rve.Result) -> float:
    named = [value for key, value in result.metrics.items() if key.startswith("CMC@1")]
    return float(named[0])


def expected_hits(protocol: Protocol, world: World, queries: Any, items: Any) -> float:
    unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (queries, items)]
    likeness = np.where(world.out, -np.inf, unit[0] @ unit[1].T)
    hit = world.positive[np.arange(len(queries)), likeness.argmax(axis=1)]
    kept = world.positive.any(axis=1)
    return float(hit[kept].mean() if protocol.no_positive == "skip" else hit.mean())


# --- facts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_only_what_was_counted_is_checked(name: str) -> None:
    expected = rve.load_protocol(name).expected
    assert (expected.n_query, expected.n_gallery) == ENFORCED.get(name, (None, None))
    if name in OPEN:
        assert not any(expected.model_dump().values())


def test_every_checked_count_says_how_sure_it_is() -> None:
    for name in ENFORCED:
        text = (protocol_folder() / f"{name}.toml").read_text(encoding="utf-8")
        table = text.split("[expected]")[1].splitlines()
        for line in filter(None, (one.split("# ")[0] for one in table)):
            whole = next(one for one in table if one.startswith(line))
            assert re.search(r"# \[[VCc]\]", whole), whole


@pytest.mark.parametrize(
    ("name", "pairs", "alone"),
    [("pitts30k-test", 968448, 0), ("tokyo247", 37260, 0), ("tokyo247-nms", 37260, 0),
     ("nordland-2760-summer-winter-w1", 8279, 0), ("nordland-27592-winter-summer-w7", 413824, 0),
     ("nordland-27592-winter-summer-w10", 579322, 0), ("gardenspoint-w2", 994, 0),
     ("17places", 2024, 0), ("living", 94, 0), ("corridor", 549, 0),
     ("msls-val-747", None, 7), ("msls-val-740", None, [0, 7]), ("gardenspoint-tn", None, 200)],
)  # fmt: skip
def test_pairs(name: str, pairs: int | None, alone: Any) -> None:
    expected = rve.load_protocol(name).expected
    assert (expected.n_positive_pairs, expected.n_no_positive) == (pairs, alone)


def _windows() -> Iterator[tuple[str, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    every = np.arange(27592)
    for name, step in (("nordland-27592-winter-summer-w10", 25 / 10.5),
                       ("nordland-2760-winter-summer-w1", 25 / 1.5)):  # fmt: skip
        north = np.floor(every * step * 10) / 10  # names hold one decimal, the rest is cut off
        yield name, north[:: 10 if "2760-" in name else 1], north


def test_the_made_up_positions_of_nordland_are_windows() -> None:
    for name, query, gallery in _windows():
        last = np.searchsorted(gallery, query + 25, side="right")
        pairs = (last - np.searchsorted(gallery, query - 25, side="left")).sum()
        assert pairs == rve.load_protocol(name).expected.n_positive_pairs


@pytest.mark.parametrize("family", ["nordland", "msls", "baidu", "tokyo247", "vigor", "sf-xl"])
def test_numbers_under_one_name_are_told_apart(family: str) -> None:
    names = [name for name in rve.list_protocols() if name.startswith(family)]
    assert len({rve.load_protocol(name).judging_hash for name in names}) == len(names) > 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("pitts30k-test", "tokyo247"), ("oxford-robotcar-seqnet-v1", "oxford-robotcar-seqnet-pnv"),
     ("gardenspoint-w2", "gardenspoint-tn"), ("sped", "living")],
)  # fmt: skip
def test_the_hash_is_of_the_rule_and_not_of_the_name(one: str, other: str) -> None:
    first, second = rve.load_protocol(one), rve.load_protocol(other)
    assert (first.judging_hash == second.judging_hash) == (one == "pitts30k-test")
