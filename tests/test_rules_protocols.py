"""Every kind of rule from a protocol file, through the whole evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval import relevance as rules
from reid_vpr_eval.errors import AlignmentError, ProtocolError, ScoreError
from reid_vpr_eval.ranking import rank as count
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.report import write_report
from reid_vpr_eval.rules import judge

NAMES = ["mAP", "CMC@1", "CMC@5"]


def world() -> tuple[rve.Samples, rve.Samples, rve.Embeddings]:
    rng = np.random.default_rng(11)
    place = rng.random((90, 3)) * 40
    half = rng.normal(size=90) * 0.02
    table = {
        "id": np.arange(90), "label": np.arange(90) % 9, "camera": rng.integers(0, 3, 90),
        "time": rng.integers(0, 5, 90), "city": rng.choice(["a", "b"], 90),
        "east": place[:, 0], "north": place[:, 1], "heading": rng.random(90) * 360,
        "height": place[:, 2], "frame": np.arange(90) % 45, "sequence": np.arange(90) // 45,
        "x": place[:, 0] / 40, "y": place[:, 1] / 40, "z": place[:, 2] / 40,
        "qw": np.cos(half), "qx": np.sin(half), "qy": np.zeros(90), "qz": np.zeros(90),
    }  # fmt: skip
    every = rve.Samples.from_columns(**table)
    vectors = np.concatenate([place / 40, rng.normal(size=(90, 5)) * 0.2], axis=1)
    query, gallery = np.arange(0, 90, 4), np.arange(90)
    return every.take(query), every.take(gallery), rve.Embeddings(vectors[query], vectors)


def protocol(folder: Path, text: str, evaluation: str = "") -> rve.Protocol:
    path = folder / "mine.toml"
    path.write_text(
        f'name = "mine"\n[relevance]\n{text}\n[evaluation]\n{evaluation}\n'
        f'[report]\nmetrics = ["{NAMES[0]}", "{NAMES[1]}", "{NAMES[2]}"]\n'
    )
    return rve.load_protocol(path)


CASES: dict[str, tuple[str, Any]] = {
    "label": (
        'kind = "label"\ndifferent = ["camera"]\nwide_ignore = [{ same = ["camera"] }]',
        lambda q, g: rules.same_label(q, g, different=["camera"],
                                      wide_ignore=[{"same": ["camera"]}]),
    ),
    "within": (
        'kind = "within"\nradius = [12, 5]\nheading = 90\nheight = 20\nself = "exclude"\n'
        'ignore = [{ same = ["time"] }]\ngroup_search = "city"',
        lambda q, g: rules.within_metres(
            q, g, radius=[12.0, 5.0], heading=90.0, height=20.0, self="exclude",
            ignore=[{"same": ["time"]}], group_search="city"),
    ),
    "pose": (
        'kind = "pose"\nmetres = [0.5, 1]\ndegrees = [4, 10]\nstrict = true\nself = "exclude"\n'
        'wide_ignore = [{ query = { camera = [2] }, gallery = { camera = [1] } }]',
        lambda q, g: rules.pose(
            q, g, metres=[0.5, 1.0], degrees=[4.0, 10.0], strict=True, self="exclude",
            wide_ignore=[{"query": {"camera": [2]}, "gallery": {"camera": [1]}}]),
    ),
    "frames": (
        'kind = "frames"\nwindow = 3\nunit = "index"\nsided = "before"\nsequence = "sequence"\n'
        'self = "exclude"\nignore = [{ gallery = { time = [0] } }]',
        lambda q, g: rules.frame_window(
            q, g, window=3, unit="index", sided="before", sequence="sequence", self="exclude",
            ignore=[{"gallery": {"time": [0]}}]),
    ),
}  # fmt: skip


def check(found: rve.Result, relevance: Relevance, scores: rve.Embeddings) -> None:
    ranking = count(scores, relevance)
    values = rve.compute(ranking, NAMES)
    assert {name: found.metrics[name] for name in NAMES} == dict(values)
    assert found.counts["n_positive_pairs"] == int(relevance.n_positive.sum()) > 0
    assert found.counts["n_no_positive"] == int((relevance.n_positive == 0).sum())


def page(result: rve.Result, folder: Path) -> str:
    """Return the report of a result, which says in a sentence what is right."""
    return write_report([result], folder / "page").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_rules_that_need_columns_alone(kind: str, tmp_path: Path) -> None:
    query, gallery, scores = world()
    text, rule = CASES[kind]
    result = rve.evaluate(protocol(tmp_path, text), query, gallery, scores)
    check(result, rule(query, gallery), scores)
    assert "An item is right if" in page(result, tmp_path)
    with pytest.raises(ProtocolError, match=f"kind '{kind}' judges by columns"):
        judge(result.protocol, query, gallery, truth=[[1]])


@pytest.mark.slow
def test_listed_pairs_from_a_file(tmp_path: Path) -> None:
    query, gallery, scores = world()
    rows = [f"{name},{(7 * name + step) % 90},{'good' if step < 3 else 'junk'},{step + 1}"
            for name in query.values("id") for step in range(5)]  # fmt: skip
    (tmp_path / "pairs.csv").write_text("\n".join(["query,item,list,grade", *rows]))
    text = ('kind = "listed"\npositive = ["good"]\nignored = ["junk"]\ngrade = 2\n'
            'ignore = [{ same = ["time"] }]')  # fmt: skip
    named = protocol(tmp_path, f"{text}\nfile = '{tmp_path / 'pairs.csv'}'")
    relevance = rules.listed(
        query, gallery, tmp_path / "pairs.csv", positive=["good"], ignored=["junk"], grade=2.0,
        ignore=[{"same": ["time"]}],
    )
    result = rve.evaluate(named, query, gallery, scores)
    check(result, relevance, scores)
    assert "if the lists name it for the query (good; ignored: junk)" in page(result, tmp_path)
    bare = protocol(tmp_path, text)
    with pytest.raises(ProtocolError, match=r"mine judges by lists that it does not bring along"):
        judge(bare, query, gallery)
    supplied = judge(bare, query, gallery, truth=tmp_path / "pairs.csv")
    assert np.array_equal(supplied.role, relevance.role)


@pytest.mark.slow
def test_neighbours_from_a_file_or_other_features(tmp_path: Path) -> None:
    query, gallery, scores = world()
    other = np.random.default_rng(3).integers(1, 4, (90, 4)).astype(float)
    space = rve.Embeddings(other[query.values("id")], other)
    distance = ((other[query.values("id")][:, None] - other[None]) ** 2).sum(axis=2)
    ids = np.argsort(distance, axis=1, kind="stable")
    ordered = np.take_along_axis(distance, ids, 1)
    np.savez(tmp_path / "near.npz", ids=ids, distances=ordered)
    for ties in ("judge", "exclude"):
        text = f'kind = "nearest"\nk = 4\nties = "{ties}"\nmetric = "sqeuclidean"'
        named = protocol(tmp_path, f"{text}\nfile = '{tmp_path / 'near.npz'}'")
        relevance = rules.nearest_neighbours(query, gallery, (ids, ordered), k=4, ties=ties)
        result = rve.evaluate(named, query, gallery, scores)
        check(result, relevance, scores)
        assert "one of the 4 nearest neighbours of the query" in page(result, tmp_path)
        bare = protocol(tmp_path, text)
        with pytest.raises(ProtocolError, match="nearest neighbours that it does not bring along"):
            judge(bare, query, gallery)
        for truth in (space, (ids, ordered), tmp_path / "near.npz"):
            found = judge(bare, query, gallery, truth=truth)
            for name in ("offsets", "item", "role"):
                assert np.array_equal(getattr(found, name), getattr(relevance, name))
    with pytest.raises(AlignmentError, match="features of the neighbours have 23 and 89 rows"):
        judge(bare, query, gallery, truth=rve.Embeddings(space.query, other[:89]))
    with pytest.raises(ScoreError):
        judge(bare, query, gallery, truth=rve.Embeddings(np.ones((23, 2)), np.ones((90, 3))))


def test_a_tie_of_everything_asks_for_all_neighbours(tmp_path: Path) -> None:
    query, gallery, _ = world()
    found = judge(
        protocol(tmp_path, 'kind = "nearest"\nk = 1'), query, gallery,
        truth=rve.Embeddings(np.ones((23, 2)), np.ones((90, 2))),
    )  # fmt: skip
    assert found.n_positive.tolist() == [89] * 23


def test_what_a_query_without_a_positive_scores_is_the_protocols(tmp_path: Path) -> None:
    query, gallery, _ = world()
    one = protocol(tmp_path, 'kind = "frames"', 'no_positive = "one"')
    assert judge(one, query, gallery).no_positive == "one"
    assert judge(protocol(tmp_path, 'kind = "frames"'), query, gallery).no_positive == "zero"
