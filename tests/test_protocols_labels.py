"""The shipped protocols of labels, lists and neighbours: each runs, and each key of it matters."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.io import loadmat

import reid_vpr_eval as rve
from reid_vpr_eval.checks import check, check_grammars, check_metrics
from reid_vpr_eval.errors import ReidVprEvalError
from reid_vpr_eval.formats import GRAMMARS
from reid_vpr_eval.protocol import LabelRule, ListedRule, NearestRule, Protocol, protocol_folder
from reid_vpr_eval.rules import judge
from shared_inputs import data, oracle

KINDS = (LabelRule, ListedRule, NearestRule)
SHIPPED = {name: rve.load_protocol(name) for name in rve.list_protocols()}
PLACES = re.compile("place|geo-localization")
NAMES = [
    name for name, protocol in SHIPPED.items()
    if isinstance(protocol.relevance, KINDS) and not PLACES.search(protocol.task)
]  # fmt: skip
TABLES = ("relevance", "draw", "evaluation")
NOT_YET = re.compile(r"(not|un)[ -]?(yet |here )*(available|implemented|supported)|\byet\b")


def content_of(name: str) -> dict[str, Any]:
    return tomllib.loads((protocol_folder() / f"{name}.toml").read_text(encoding="utf-8"))


# -- a small world that fits any protocol ---------------------------------------------------------

#: A name in each named grammar; columns that a row lacks are 1.
NAMED = {
    "market": "{label:04d}_c{camera}s1_000001_00.jpg",
    "duke": "{label:04d}_c{camera}_f0000001.jpg",
    "veri": "{label:04d}_c{camera:03d}_00000001_0.jpg",
    "msmt": "{label:04d}_000_{camera:02d}_0303morning_0001_0.jpg",
}
Row = Mapping[str, Any]


def write_name(grammar: str, row: Row) -> str:
    """Write a name that the grammar reads back as the row; groups inside groups come first."""
    if grammar in NAMED:
        return NAMED[grammar].format_map({"label": 1, "camera": 1, **row})
    parsed: Any = importlib.import_module("re._parser").parse(grammar)
    groups = {number: name for name, number in parsed.state.groupdict.items()}
    # digits outside the innermost groups tell the clothes of a person apart
    return "".join(_pieces(parsed, groups, row, str(row.get("clothes", 1))))


def _pieces(parsed: Any, groups: dict[int, str], row: Row, other: str) -> Iterator[str]:
    for code, value in parsed:
        kind = str(code)
        if kind == "LITERAL":
            yield chr(value)
        elif kind == "IN":
            yield other[-1]
        elif kind == "MAX_REPEAT":
            least, most, inner = value
            digits = str(inner[0][0]) == "IN"
            if digits and least:
                yield other.zfill(least)
            elif not digits:
                for _ in range(least if most > 1 else 0):
                    yield from _pieces(inner, groups, row, other)
        elif kind == "SUBPATTERN":
            number, inner = value[0], value[3]
            holds_others = any(str(c) == "SUBPATTERN" and v[0] in groups for c, v in inner)
            if number in groups and not holds_others:
                yield str(row.get(groups[number], 1)).zfill(inner.getwidth()[0])
            else:
                yield from _pieces(inner, groups, row, other)
        elif kind == "BRANCH":
            yield from _pieces(value[1][0], groups, row, other)


def columns_of(protocol: Protocol) -> set[str]:
    """Every column that the protocol asks for."""
    rule: Any = protocol.relevance
    columns = {*protocol.multi_query, *protocol.evaluation.macro}
    columns |= {*protocol.query.where, *protocol.gallery.where}
    columns |= set(protocol.draw.per) if protocol.draw else set()
    columns |= {name for name in (protocol.count.group, protocol.count.strata) if name}
    columns |= {name for name in (protocol.report.interval.unit,) if name}
    if isinstance(rule, LabelRule):
        columns |= {rule.label, *rule.different, *rule.same}
    for entry in (*rule.ignore, *rule.wide_ignore):
        columns |= {*entry.same, *entry.different, *entry.query, *entry.gallery}
    return columns


def rows_of(protocol: Protocol, side: str) -> list[dict[str, Any]]:
    """Every combination of a few values of each column that the side's `where` lets in, twice."""
    table = protocol.query if side == "query" else protocol.gallery
    rule: Any = protocol.relevance
    pools: dict[str, list[Any]] = {name: [1, 2, 3] for name in sorted(columns_of(protocol))}
    pools["label"] = [1, 2, 3, 4, 5, 6]
    for entry in (*rule.ignore, *rule.wide_ignore):
        for column, values in {**entry.query, **entry.gallery}.items():
            if side == "gallery" or column != "label":
                pools[column] = [*pools[column], *(v for v in values if v not in pools[column])]
    for column, wanted in table.where.items():
        pools[column] = list(wanted) if isinstance(wanted, list) else [wanted]
    combinations = itertools.product(*pools.values())
    rows = [dict(zip(pools, values, strict=True)) for values in combinations]
    if not (protocol.draw and protocol.draw.rest):
        return [*rows, *rows]
    return [row for row in rows for _ in range(int(row["label"]) % 3 + 2)]


def samples_of(protocol: Protocol, side: str) -> rve.Samples:
    """The rows as samples; what the names tell is told by the names alone."""
    table = protocol.query if side == "query" else protocol.gallery
    rows = rows_of(protocol, side)
    told: set[str] = set()
    columns: dict[str, list[Any]] = {}
    if table.names is not None:
        grammar = GRAMMARS.get(table.names)
        told = set(grammar.columns if grammar else re.compile(table.names).groupindex)
        columns["path"] = [write_name(table.names, row) for row in rows]
    columns |= {name: [row[name] for row in rows] for name in rows[0] if name not in told}
    return rve.Samples({"id": [f"{side}{number}" for number in range(len(rows))], **columns})


def with_truth(protocol: Protocol, n_query: int, n_gallery: int, folder: Path) -> Protocol:
    """Give lists of positives or neighbours, as files, to the rules that need them."""
    rule = protocol.relevance
    rng = np.random.default_rng(7)
    content = protocol.model_dump(exclude_defaults=True)
    if isinstance(rule, NearestRule):
        near = np.array([rng.permutation(n_gallery)[:20] for _ in range(n_query)], dtype=np.int32)
        np.save(folder / "neighbours.npy", near)
        content["relevance"]["file"] = str(folder / "neighbours.npy")
    if isinstance(rule, ListedRule):
        names = [*rule.positive, *rule.ignored]
        lists = []
        for _ in range(n_query):
            order = rng.permutation(n_gallery)
            lists.append({n: sorted(order[3 * i : 3 * i + 3].tolist())
                          for i, n in enumerate(names)})  # fmt: skip
        stored: Any = {"gnd": lists}
        if rule.by == "id":
            stored = {f"query{number}": [f"gallery{item}" for item in one[rule.positive[0]]]
                      for number, one in enumerate(lists)}  # fmt: skip
        (folder / "lists.json").write_text(json.dumps(stored), encoding="utf-8")
        content["relevance"]["file"] = str(folder / "lists.json")
    return Protocol.from_dict(content)


def evaluate_world(protocol: Protocol, folder: Path) -> rve.Result:
    """Evaluate random features of the protocol's world."""
    query, gallery = samples_of(protocol, "query"), samples_of(protocol, "gallery")
    if protocol.draw and protocol.draw.rest:
        gallery = query
    rng = np.random.default_rng(5)
    ours = rng.normal(size=(len(query), 6))
    theirs = ours if gallery is query else rng.normal(size=(len(gallery), 6))
    protocol = with_truth(protocol, len(query), len(gallery), folder)
    metric = protocol.report.metric
    return evaluated(protocol, query, gallery, rve.Embeddings(ours, theirs, metric=metric),
                     expected="ignore")  # fmt: skip


def evaluated(protocol: str | Protocol, *args: Any, **options: Any) -> rve.Result:
    """Evaluate, or skip the test where a part of the protocol is not available yet."""
    try:
        return rve.evaluate(protocol, *args, **options)
    except (KeyError, NotImplementedError) as error:
        pytest.skip(f"not available yet: {error!r}")
    except ReidVprEvalError as error:
        if NOT_YET.search(str(error)):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("name", NAMES)
def test_every_protocol_is_complete(name: str) -> None:
    protocol = SHIPPED[name]
    assert protocol.name == name
    assert protocol.version == 1
    assert protocol.title
    assert protocol.task
    assert protocol.note.endswith(".")
    assert protocol.reference or name == "labels"
    assert protocol.evaluation.no_positive is not None
    check_metrics(protocol)
    check_grammars(protocol)
    profile = protocol.report.profile
    assert profile is None or (protocol_folder() / "profiles" / f"{profile}.toml").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_world_read_back(name: str) -> None:
    protocol = SHIPPED[name]
    for side, table in (("query", protocol.query), ("gallery", protocol.gallery)):
        if table.names is None:
            continue
        rows, samples = rows_of(protocol, side), samples_of(protocol, side)
        read = rve.formats.parse_names(samples.values("path").tolist(), table.names)
        assert read[1] == []
        for column in set(read[0]) & set(rows[0]) - {"clothes"}:
            assert read[0][column] == [row[column] for row in rows]
        if "clothes" in read[0] and "clothes" in rows[0]:
            pairs = zip(read[0]["clothes"], (row["clothes"] for row in rows), strict=True)
            assert len({str(pair[0]) for pair in pairs}) >= len({row["clothes"] for row in rows})


@pytest.mark.parametrize("name", NAMES)
def test_every_protocol_runs_on_a_world_of_its_own(name: str, tmp_path: Path) -> None:
    protocol = SHIPPED[name]
    if protocol.draw is not None:  # three draws run as ten do
        few = protocol.draw.model_copy(update={"repeats": min(protocol.draw.repeats, 3)})
        protocol = protocol.model_copy(update={"draw": few})
    result = evaluate_world(protocol, tmp_path)
    for metric in protocol.report.metrics:
        assert np.isfinite(result.metrics[metric])
    assert 0 < result.counts["n_evaluated"] <= result.counts["n_query"]
    if isinstance(protocol.relevance, LabelRule):
        assert result.counts["n_positive_pairs"] > 0
    if any(entry.gallery for entry in protocol.relevance.ignore):
        assert result.counts["n_gallery_ignored"] > 0


# -- every key matters ----------------------------------------------------------------------------

OTHER: Mapping[str, Any] = {
    "failing": ("ignore", "negative"),
    "self": ("exclude", "keep"),
    "by": ("id", "index"),
    "base": (0, 1),
    "metric": ("cosine", "euclidean"),
    "ties": ("judge", "exclude"),
    "method": ("sample", "exact"),
    "per_query": (False, True),
    "rest": (False, True),
    "no_positive": ("skip", "zero"),
}


def other_value(key: str, value: Any) -> Any:
    """Return another value that the key may have."""
    if key in OTHER:
        return next(word for word in OTHER[key] if word != value)
    if key in ("positive", "ignored"):
        return [*value, "more"]
    return value[:-1] if isinstance(value, list) else value + 1


def keys_of(name: str) -> list[tuple[str, str]]:
    content = content_of(name)
    keys = [(table, key) for table in TABLES for key in content.get(table, {})]
    return keys + ([("", "multi_query")] if "multi_query" in content else [])


@pytest.mark.parametrize(
    ("name", "table", "key"), [(name, *place) for name in NAMES for place in keys_of(name)]
)
def test_changing_any_key_changes_what_is_judged(
    name: str, table: str, key: str, tmp_path: Path
) -> None:
    content = content_of(name)
    holder = content[table] if table else content
    if key == "kind":
        content["relevance"] = {"kind": "listed" if holder["kind"] == "label" else "label"}
    else:
        holder[key] = other_value(key, holder[key])
    changed = Protocol.from_dict(content)
    if changed.judging_hash == SHIPPED[name].judging_hash:
        before = evaluate_world(SHIPPED[name], tmp_path).metrics
        after = evaluate_world(changed, tmp_path).metrics
        assert dict(before) != dict(after)
    assert changed.reporting_hash == SHIPPED[name].reporting_hash


def test_protocols_of_one_data_set_are_judged_apart() -> None:
    families = [
        ["market1501", "market1501-multi-query", "market1501-500k"],
        ["mars-official", "mars-9330"],
        ["ltcc-general", "ltcc-cc", "ltcc-sc"],
        ["prcc-single-shot-cc", "prcc-single-shot-sc", "prcc-multi-shot-cc", "prcc-multi-shot-sc"],
        ["vc-clothes", "vc-clothes-cc", "vc-clothes-sc"],
        ["sysu-mm01-all-single", "sysu-mm01-all-multi",
         "sysu-mm01-indoor-single", "sysu-mm01-indoor-multi"],
        ["vehicleid-800", "vehicleid-800-leave-one-out"],
        ["veri-wild-small", "veri-wild-small-no-camera-rule"],
        ["coco-5k-i2t", "coco-1k-i2t"],
        ["roxford5k-easy", "roxford5k-medium", "roxford5k-hard"],
    ]  # fmt: skip
    for family in families:
        assert len({SHIPPED[name].judging_hash for name in family}) == len(family)


# -- worked by hand -------------------------------------------------------------------------------


def ranked_as_listed(n: int) -> rve.ScoreMatrix:
    return rve.ScoreMatrix(np.arange(n, dtype=float)[None], higher_is_better=False)


@pytest.mark.parametrize(
    ("name", "case"), [("ltcc-general", "general"), ("ltcc-cc", "CC"), ("ltcc-sc", "SC")]
)
def test_one_list_under_three_rules_of_clothes(name: str, case: str) -> None:
    worked = oracle("reid_worked_examples.json")["G_cloth"]
    person, camera, clothes = zip(*worked["ranked"], strict=True)
    asked = worked["query"]
    query = rve.Samples.from_columns(
        label=[asked["pid"]], camera=[asked["cam"]], clothes=[asked["clothes"]]
    )
    gallery = rve.Samples.from_columns(
        label=list(person), camera=list(camera), clothes=list(clothes)
    )
    result = rve.evaluate(name, query, gallery, ranked_as_listed(len(person)), expected="ignore")
    wanted = worked[case]
    assert result.metrics["mAP"] == pytest.approx(wanted["ap"], abs=1e-6)
    assert result.metrics["CMC@1"] == wanted.get("cmc1", wanted.get("cmc", [0])[0])


@pytest.mark.parametrize("camera", [3, 6])
def test_an_infrared_probe_worked_by_hand(camera: int) -> None:
    worked = oracle("reid_worked_examples.json")["F_sysu"]
    wanted = worked if camera == 3 else worked["same_list_probe_cam6"]
    person, seen_by = zip(*worked["ranked"], strict=True)
    query = rve.Samples.from_columns(label=[3], camera=[camera])
    gallery = rve.Samples.from_columns(label=list(person), camera=list(seen_by))
    result = evaluated("sysu-mm01-all-single", query, gallery, ranked_as_listed(len(person)),
                       expected="ignore")  # fmt: skip
    assert result.metrics["mAP"] == pytest.approx(wanted["ap"], abs=1e-6)
    assert result.metrics["mINP"] == pytest.approx(wanted["inp"], abs=1e-6)
    assert result.metrics["CMC@1(by=label)"] == wanted["cmc_dedup"][0]


def test_a_query_of_many_images_is_one_query() -> None:
    query = rve.Samples.from_columns(label=[1, 1, 1, 2], camera=[1, 1, 2, 1])
    gallery = rve.Samples.from_columns(label=[1, 2, 1, 2], camera=[3, 3, 3, 3])
    rng = np.random.default_rng(0)
    scores = rve.Embeddings(rng.normal(size=(4, 3)), rng.normal(size=(4, 3)))
    result = evaluated("market1501-multi-query", query, gallery, scores, expected="ignore")
    if result.counts["n_evaluated"] == 4:
        pytest.skip("multi_query is not available yet")
    assert result.counts["n_evaluated"] == 3


# -- the real lists -------------------------------------------------------------------------------


def features(query: rve.Samples, gallery: rve.Samples) -> rve.Embeddings:
    rng = np.random.default_rng(1)
    return rve.Embeddings(
        rng.normal(size=(len(query), 4)).astype(np.float32),
        rng.normal(size=(len(gallery), 4)).astype(np.float32),
    )


def enforced(name: str, query: rve.Samples, gallery: rve.Samples) -> Mapping[str, float]:
    """Evaluate with the published counts enforced, and return all counts."""
    scores = features(query, gallery)
    counts: Mapping[str, float] = evaluated(name, query, gallery, scores, expected="enforce").counts
    return counts


def field(path: str, name: str) -> npt.NDArray[Any]:
    return np.asarray(loadmat(data(path))[name])


def market() -> tuple[rve.Samples, rve.Samples]:
    def side(labels: str, cameras: str) -> rve.Samples:
        return rve.Samples.from_columns(
            label=field(f"labels/market1501/{labels}.mat", labels).ravel(),
            camera=field(f"labels/market1501/{cameras}.mat", cameras.replace("Cam", "CAM")).ravel(),
        )

    return side("queryID", "queryCam"), side("testID", "testCam")


@pytest.mark.slow
def test_market_lists() -> None:
    query, gallery = market()
    counts = enforced("market1501", query, gallery)
    assert counts["n_positive_pairs"] == 49649
    assert counts["n_ignored_pairs"] == 13115
    assert counts["n_gallery_ignored"] == 3819
    assert counts["n_no_positive"] == 0
    dropped = gallery.take(gallery.values("label") != -1)
    assert check(SHIPPED["market1501"], query, dropped).wrong == []


@pytest.mark.slow
def test_market_lists_with_distractors_and_with_many_images_a_query() -> None:
    query, gallery = market()
    more = rve.Samples.from_columns(
        label=np.concatenate([gallery.values("label"), np.zeros(1000, int)]),
        camera=np.concatenate([gallery.values("camera"), np.ones(1000, int)]),
    )
    counts = check(SHIPPED["market1501-500k"], query, more)
    assert counts.wrong == []
    assert counts.counts["n_gallery_ranked"] == 16913
    assert enforced("market1501-multi-query", query, gallery)["n_evaluated"] == 3368


@pytest.mark.parametrize("kind", ["detected", "labeled"])
def test_cuhk03_lists(kind: str) -> None:
    stored = loadmat(data(f"labels/cuhk03np/cuhk03_new_protocol_config_{kind}.mat"))
    every = rve.Samples.from_columns(
        label=stored["labels"].ravel(),
        camera=stored["camId"].ravel(),
        id=[str(name[0]) for name in stored["filelist"].ravel()],
    )
    query, gallery = (
        every.take(stored[f"{side}_idx"].ravel().astype(int) - 1) for side in ("query", "gallery")
    )
    counts = enforced(f"cuhk03np-{kind}", query, gallery)
    assert counts["n_self_pairs"] == 0
    assert round(counts["n_positive_pairs"] / 1400, 2) == 3.81
    relevance = judge(SHIPPED[f"cuhk03np-{kind}"], query, gallery)
    for each in (relevance.n_positive, relevance.n_ignored):
        assert (each.min(), each.max()) == (1, 4)


def mars() -> tuple[rve.Samples, npt.NDArray[np.int64]]:
    tracks = field("labels/mars/tracks_test_info.mat", "track_test_info")
    asked = field("labels/mars/query_IDX.mat", "query_IDX").ravel().astype(np.int64) - 1
    every = rve.Samples.from_columns(
        label=tracks[:, 2], camera=tracks[:, 3], id=np.arange(len(tracks))
    )
    return every, asked


@pytest.mark.slow
def test_mars_lists_with_all_tracklets_as_the_gallery() -> None:
    every, asked = mars()
    counts = enforced("mars-official", every.take(asked), every)
    assert (counts["n_query"], counts["n_gallery"], counts["n_no_positive"]) == (1980, 12180, 0)
    assert counts["n_gallery_ignored"] == 870
    assert counts["n_self_pairs"] == 1980
    assert round(counts["n_positive_pairs"] / 1980, 2) == 11.02


@pytest.mark.slow
def test_mars_lists_with_the_queries_taken_out() -> None:
    every, asked = mars()
    stays = np.ones(len(every), bool)
    stays[asked] = False
    query, gallery = every.take(asked), every.take(stays)
    counts = enforced("mars-9330", query, gallery)
    assert (counts["n_gallery"], counts["n_gallery_ranked"]) == (10200, 9330)
    assert (counts["n_no_positive"], counts["n_evaluated"]) == (140, 1840)
    assert round(counts["n_positive_pairs"] / 1980, 2) == 8.47
    dropped = gallery.take(gallery.values("label") != -1)
    assert check(SHIPPED["mars-9330"], query, dropped).wrong == []


@pytest.mark.slow
def test_vehicle_lists_and_the_official_indices() -> None:
    lines = data("labels/veri776/ex.txt").read_text(encoding="utf-8").split("\n")
    paths = [line.split(" ")[0] for line in lines if line.strip()]
    sides = [[p for p in paths if p.startswith("query") == asked] for asked in (True, False)]
    query, gallery = (
        rve.Samples.from_columns(path=side, id=[path.rsplit("/", 1)[-1] for path in side])
        for side in sides
    )
    counts = enforced("veri776", query, gallery)
    assert (counts["n_query"], counts["n_gallery"], counts["n_self_pairs"]) == (1678, 11579, 1678)
    prepared = rve.alignment.prepare(SHIPPED["veri776"], query, gallery, None)
    relevance = judge(SHIPPED["veri776"], prepared[0], prepared[1])
    for name, found in (("gt_index", relevance.positives), ("jk_index", relevance.ignored)):
        official = data(f"labels/veri776/{name}.txt").read_text(encoding="utf-8").splitlines()
        assert len(official) == 1678
        for row, line in enumerate(official):
            assert sorted(int(word) - 1 for word in line.split()) == found(row).tolist()


def infrared(cameras: list[int]) -> rve.Samples:
    """All images of the test persons that these cameras took, by their paths."""
    persons = field("labels/sysu_mm01/test_id.mat", "id").ravel().tolist()
    trials = field("labels/sysu_mm01/rand_perm_cam.mat", "rand_perm_cam")
    paths = [
        f"cam{camera}/{person:04d}/{number + 1:04d}.jpg"
        for camera in cameras
        for person in persons
        for number in range(trials[camera - 1, 0][person - 1, 0].shape[1])
    ]
    return rve.Samples.from_columns(path=paths, id=paths)


@pytest.mark.slow
@pytest.mark.parametrize("shot", ["single", "multi"])
@pytest.mark.parametrize(
    ("mode", "cameras", "n_gallery", "n_drawn", "n_lone"),
    [("all", [1, 2, 4, 5], 6775, 301, 0), ("indoor", [1, 2], 2939, 112, 1595)],
)
def test_infrared_lists(
    shot: str, mode: str, cameras: list[int], n_gallery: int, n_drawn: int, n_lone: int
) -> None:
    name = f"sysu-mm01-{mode}-{shot}"
    query, gallery = infrared([3, 6]), infrared([1, 2, 4, 5])
    found = check(SHIPPED[name], *rve.alignment.prepare(SHIPPED[name], query, gallery, None)[:2])
    assert found.wrong == []
    assert (found.counts["n_query"], found.counts["n_gallery"]) == (3803, n_gallery)
    assert found.counts["n_no_positive"] == n_lone
    kept = rve.alignment.prepare(SHIPPED[name], query, gallery, None)[1]
    groups, sizes = np.unique(
        np.stack([kept.keys("label"), kept.keys("camera")]), axis=1, return_counts=True
    )
    assert groups.shape[1] == n_drawn
    assert sizes.min() >= 10
    by_camera = np.unique(infrared([3]).values("path")), np.unique(infrared([6]).values("path"))
    assert [len(one) for one in by_camera] == [1883, 1920]
    if shot == "single":
        assert enforced(name, query, gallery)["n_evaluated"] == 3803 - n_lone


@pytest.mark.slow
@pytest.mark.parametrize(("shot", "n"), [("single", 1), ("multi", 10)])
def test_the_official_trials_of_infrared_galleries(shot: str, n: int, tmp_path: Path) -> None:
    trials = field("labels/sysu_mm01/rand_perm_cam.mat", "rand_perm_cam")
    persons = field("labels/sysu_mm01/test_id.mat", "id").ravel().tolist()
    drawn = [
        [
            f"cam{camera}/{person:04d}/{number:04d}.jpg"
            for camera in (1, 2, 4, 5)
            for person in persons
            for number in trials[camera - 1, 0][person - 1, 0][trial, :n].tolist()
        ]
        for trial in range(10)
    ]
    assert {len(one) for one in drawn} == {301 * n}
    (tmp_path / "trials.json").write_text(json.dumps(drawn), encoding="utf-8")
    content = content_of(f"sysu-mm01-all-{shot}")
    content["draw"]["file"] = str(tmp_path / "trials.json")
    query, gallery = infrared([3, 6]), infrared([1, 2, 4, 5])
    scores = features(query, gallery)
    result = evaluated(Protocol.from_dict(content), query, gallery, scores)
    other = evaluated(f"sysu-mm01-all-{shot}", query, gallery, scores)
    assert result.metrics["mAP"] == pytest.approx(other.metrics["mAP"], abs=0.01)
    assert result.metrics["mAP"] != other.metrics["mAP"]


CAPTIONS = "cross_modal/eccv_caption/eccv_caption/data"


def caption_lists(name: str) -> dict[str, list[int]]:
    lists: dict[str, list[int]] = json.loads(data(f"{CAPTIONS}/{name}.json").read_bytes())
    return lists


def images_and_captions() -> tuple[rve.Samples, rve.Samples]:
    """Images and captions of COCO 5K with their image as the label and their block of 1,000."""
    image_of = {int(k): v[0] for k, v in caption_lists("original_caption_to_image").items()}
    order = np.load(data(f"{CAPTIONS}/coco_test_ids.npy")).astype(int).tolist()
    block = {image_of[caption]: row // 5000 for row, caption in enumerate(order)}
    images, captions = list(block), list(image_of)
    return (
        rve.Samples.from_columns(id=images, label=images, fold=[block[image] for image in images]),
        rve.Samples.from_columns(id=captions, label=[image_of[caption] for caption in captions],
                                 fold=[block[image_of[caption]] for caption in captions]),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["coco-5k", "coco-1k"])
def test_caption_lists(name: str) -> None:
    images, captions = images_and_captions()
    assert np.unique(images.values("fold"), return_counts=True)[1].tolist() == [1000] * 5
    for way, query, gallery in (("i2t", images, captions), ("t2i", captions, images)):
        found = check(SHIPPED[f"{name}-{way}"], query, gallery)
        assert found.wrong == []
        assert found.counts["n_positive_pairs"] == 25000


@pytest.mark.parametrize(
    ("name", "lists", "n_listed", "n_pairs"),
    [
        ("cxc-i2t", "cxc_image_to_caption", 5000, 35585),
        ("cxc-t2i", "cxc_caption_to_image", 24972, 35585),
        ("eccv-caption-i2t", "eccv_image_to_caption", 1261, 22550),
        ("eccv-caption-t2i", "eccv_caption_to_image", 1332, 11279),
    ],
)
def test_lists_of_several_right_captions(
    name: str, lists: str, n_listed: int, n_pairs: int, tmp_path: Path
) -> None:
    listed = caption_lists(lists)
    images, captions = images_and_captions()
    query, gallery = (images, captions) if name.endswith("i2t") else (captions, images)
    content = content_of(name)
    assert len(listed) == n_listed
    assert sum(map(len, listed.values())) == n_pairs
    assert set(map(int, listed)) <= set(query.keys("id").tolist())
    absent = {item for one in listed.values() for item in one} - set(gallery.keys("id").tolist())
    assert absent == ({144675, 467259} if name == "eccv-caption-i2t" else set())
    kept = {asked: [item for item in one if item not in absent] for asked, one in listed.items()}
    assert content["expected"]["n_positive_pairs"] == n_pairs - len(absent)
    (tmp_path / "lists.json").write_text(json.dumps(kept), encoding="utf-8")
    content["relevance"]["file"] = str(tmp_path / "lists.json")
    found = check(Protocol.from_dict(content), query, gallery)
    assert found.wrong == []
    assert len(query) - found.counts["n_no_positive"] == n_listed
