"""Picture lists: which queries, which items, and pictures that are not there."""

from __future__ import annotations

import base64
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reid_vpr_eval import Result, ScoreMatrix, evaluate
from reid_vpr_eval import Samples as Table
from reid_vpr_eval.formats import SideSpec, read_side
from reid_vpr_eval.report import Images, choose_queries, picture_lists
from reid_vpr_eval.report.pictures import CHOICES
from reid_vpr_eval.report.thumbnails import SIDE, thumbnail
from report_results import images, people, picture, places, png


def worked(*, higher: bool = True, top_k: int = 2) -> Result:
    """Return three queries over six items: labels 0, 1, 2; items 0, 0, 1, 1, 2, 3.

    Query 0 has its positives at ranks 1 and 2, query 1 at 2 and 4, query 2 at 6.
    """
    scores = np.array(
        [
            [0.9, 0.8, 0.1, 0.1, 0.1, 0.1],
            [0.7, 0.5, 0.6, 0.4, 0.3, 0.2],
            [0.95, 0.9, 0.8, 0.7, 0.1, 0.2],
        ]
    )
    return evaluate(
        "labels",
        Table.from_columns(label=[0, 1, 2], id=["a", "b", "c"]),
        Table.from_columns(label=[0, 0, 1, 1, 2, 3], id=list("uvwxyz")),
        ScoreMatrix(scores if higher else 2 - scores, higher_is_better=higher),
        top_k=top_k,
    )


@pytest.mark.parametrize("higher", [True, False])
def test_queries_are_chosen_by_what_they_score(higher: bool) -> None:
    made = worked(higher=higher)
    assert choose_queries(made, "worst") == [2, 1, 0]
    assert choose_queries(made, "best", 2) == [0, 1]
    assert choose_queries(made, "mistakes") == [2, 1]


def test_places_are_chosen_by_rank_and_without_those_that_have_no_positive() -> None:
    made = places()
    worst = choose_queries(made, "worst", 20)
    ranks = made.per_query["first_rank"].to_numpy()
    assert 9 not in worst
    assert ranks[worst].tolist() == sorted(ranks[:9], reverse=True)
    assert 9 not in choose_queries(made, "mistakes", 20)


def test_a_strip_shows_the_top_and_the_nearest_missed_positive() -> None:
    made = worked()
    strip = picture_lists(made, images())["worst"][1]
    assert strip.query.item_id == "b"
    assert [(t.item_id, t.rank, t.role) for t in strip.ranked] == [
        ("u", "1", "wrong"), ("w", "2", "right"),
    ]  # fmt: skip
    assert strip.ranked[0].score == "0.700"
    assert strip.missed is not None
    assert (strip.missed.item_id, strip.missed.rank) == ("x", "4")
    assert strip.caption == "2 positives, the first at rank 2, AP 50.0"


def test_without_lists_beside_the_missed_positive_is_the_best_one() -> None:
    made = replace(worked(), beside=None)
    strips = picture_lists(made, images())["worst"]
    assert strips[0].missed is not None
    assert (strips[0].missed.item_id, strips[0].missed.rank) == ("y", "6")
    assert [strip.missed for strip in strips[1:]] == [None, None]


def test_ignored_items_stand_where_they_would() -> None:
    """Query 1 of camera 1: items of its camera are ignored, at 1 and between 1 and 2."""
    made = evaluate(
        "market1501",
        Table.from_columns(label=[1], camera=[1], id=["a"]),
        Table.from_columns(
            label=[1, 2, 1, 1, 3, 1], camera=[1, 2, 1, 2, 3, 3], id=list("uvwxyz")
        ),
        ScoreMatrix(np.array([[0.9, 0.8, 0.7, 0.6, 0.5, 0.1]]), higher_is_better=True),
        top_k=2, expected="ignore",
    )  # fmt: skip
    assert made.beside is not None
    assert made.beside.to_dict("records") == [
        {"query_id": "a", "role": "ignored", "rank": 1, "item_id": "u", "score": 0.9},
        {"query_id": "a", "role": "ignored", "rank": 2, "item_id": "w", "score": 0.7},
        {"query_id": "a", "role": "missed", "rank": 4, "item_id": "z", "score": 0.1},
    ]
    strip = picture_lists(made, images())["worst"][0]
    assert [(t.item_id, t.rank, t.role) for t in strip.ranked] == [
        ("u", "", "ignored"), ("v", "1", "wrong"), ("w", "", "ignored"), ("x", "2", "right"),
    ]  # fmt: skip
    assert strip.missed is not None
    assert (strip.missed.item_id, strip.missed.rank) == ("z", "4")
    short = picture_lists(made, images(), top_k=1)["worst"][0]
    assert [t.item_id for t in short.ranked] == ["u", "v"]
    assert short.missed is not None
    assert (short.missed.item_id, short.missed.rank) == ("x", "2")


@pytest.mark.parametrize("seed", range(6))
def test_what_stands_beside_the_lists_is_what_sorting_says(seed: int) -> None:
    """Sort each query's gallery, take the ignored ones out, and look where they were."""
    rng = np.random.default_rng(seed)
    n_query, n_gallery, k = 7, 40, 5
    label, camera = rng.integers(0, 4, n_gallery), rng.integers(0, 3, n_gallery)
    own, seen = rng.integers(0, 4, n_query), rng.integers(0, 3, n_query)
    scores = rng.integers(0, 12, (n_query, n_gallery)) / 12
    made = evaluate(
        "market1501",
        Table.from_columns(label=own, camera=seen),
        Table.from_columns(label=label, camera=camera),
        ScoreMatrix(scores, higher_is_better=True),
        top_k=k, expected="ignore",
    )  # fmt: skip
    wanted = []
    for q in range(n_query):
        order = np.argsort(-scores[q], kind="stable").tolist()
        aside = [(label[i] == own[q]) & (camera[i] == seen[q]) for i in order]
        rank, ignored, missed = 0, [], []
        for item, out in zip(order, aside, strict=True):
            if out and rank < k:
                ignored.append((q, "ignored", rank + 1, item, scores[q, item]))
            rank += not out
            if not out and rank > k and label[item] == own[q]:
                missed.append((q, "missed", rank, item, scores[q, item]))
        wanted += ignored[:k] + missed[:1]
    assert made.beside is not None
    assert list(made.beside.itertuples(index=False, name=None)) == wanted


def test_a_saved_result_gives_the_same_strips(tmp_path: Path) -> None:
    for made in (people(), places()):
        made.save(tmp_path / made.protocol.name)
        loaded = Result.load(tmp_path / made.protocol.name)
        assert picture_lists(loaded, images(made)) == picture_lists(made, images(made))


def test_top_k_and_n_bound_the_lists() -> None:
    lists = picture_lists(people(), images(people()), n=2, top_k=3)
    assert [len(strips) for strips in lists.values()] == [2] * len(lists)
    assert {len(strip.ranked) for strips in lists.values() for strip in strips} == {3}


def test_without_lists_there_are_no_strips() -> None:
    assert picture_lists(replace(people(), rankings=None), images(people())) == {}


def test_pictures_are_decoded_once() -> None:
    calls: list[str] = []

    def load(name: str) -> bytes:
        calls.append(name)
        return picture(name)

    picture_lists(people(), replace(images(people()), gallery=load))
    assert len(calls) == len(set(calls))


@pytest.mark.parametrize("content", [b"", b"no picture", png(1)[:60]])
def test_a_broken_picture_is_left_out(content: bytes) -> None:
    assert thumbnail(lambda _: content, "a") is None


def test_a_missing_picture_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "0001_c1.png").write_bytes(png(1))
    (tmp_path / "q" / "0002_c1.png").write_bytes(png(2))
    side = read_side(tmp_path / "q", SideSpec(names="market"), "query")
    (tmp_path / "q" / "0002_c1.png").unlink()
    pictures = Images.of_sides(side, side)
    assert thumbnail(pictures.query, "0001_c1.png") is not None
    assert thumbnail(pictures.query, "0002_c1.png") is None
    assert thumbnail(pictures.query, "0003_c1.png") is None


def test_an_unknown_id_has_no_picture() -> None:
    odd = replace(images(people()), gallery={"other": png(1)}.__getitem__)
    strips = picture_lists(people(), odd)["best"]
    assert {tile.picture for tile in strips[0].ranked} == {None}
    assert strips[0].query.picture is not None


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "L", "1", "CMYK", "I;16", "F"])
def test_thumbnails_are_small_pictures_of_any_mode(mode: str) -> None:
    stored = io.BytesIO()
    form = "TIFF" if mode in ("CMYK", "F", "I;16") else "PNG"
    Image.new(mode, (300, 150)).save(stored, format=form)
    small = thumbnail(lambda _: stored.getvalue(), "a")
    assert small is not None
    assert (small.width, small.height) == (SIDE, SIDE // 2)
    head, _, content = small.uri.partition(",")
    assert head == "data:image/webp;base64"
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (SIDE, SIDE // 2)


def test_16_bit_grey_keeps_its_grey() -> None:
    stored = io.BytesIO()
    Image.fromarray(np.full((8, 8), 0x8000, np.uint16)).save(stored, format="PNG")
    small = thumbnail(lambda _: stored.getvalue(), "a")
    assert small is not None
    content = base64.b64decode(small.uri.partition(",")[2])
    pixel = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))[0, 0]
    assert np.abs(pixel.astype(int) - 128).max() <= 2


def test_lists_without_scores_have_no_confident_mistakes() -> None:
    made = people()
    flat = replace(made, per_query=made.per_query.assign(top1_score=0.0))
    assert choose_queries(flat, "mistakes") == []
    assert {t.score for s in picture_lists(flat, images(flat))["worst"] for t in s.ranked} == {""}


def test_a_cache_makes_a_thumbnail_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = thumbnail(picture, "7", tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".webp"]
    monkeypatch.setattr("reid_vpr_eval.report.thumbnails._small", lambda _: 1 / 0)
    assert thumbnail(picture, "7", tmp_path) == first
    assert thumbnail(picture, "8", tmp_path) is None


def test_random_queries_are_those_of_the_seed() -> None:
    made = people()
    first, again = (choose_queries(made, "random", 5, seed=1) for _ in range(2))
    assert first == again
    assert len(set(first)) == 5
    assert first != choose_queries(made, "random", 5, seed=2)


def test_only_wrong_leaves_out_right_first_items() -> None:
    made = places()
    wrong = {int(i) for i in np.flatnonzero(~made.per_query["top1_correct"].to_numpy(bool))}
    for which in CHOICES:
        assert set(choose_queries(made, which, 20, only_wrong=True)) <= wrong
    assert set(choose_queries(made, "random", 20, only_wrong=True)) == wrong


class TestImagesInFolders:
    """Names are found as paths, as ends of paths, by their bare file, or by a list."""

    def folder(self, root: Path) -> Path:
        for number, name in enumerate(("a/1.png", "b/2.png", "b/c/3.png", "a/4.png", "b/4.png")):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(number))
        return root

    @pytest.mark.parametrize(
        ("name", "number"),
        [("a/1.png", 0), ("gallery/a/1.png", 0), ("x/y/b/2.png", 1), ("3.png", 2), ("z/3.png", 2),
         ("seven", 4)],
    )  # fmt: skip
    def test_found(self, tmp_path: Path, name: str, number: int) -> None:
        paths = {("query", "seven"): "b/4.png"}
        assert Images.of_folders(self.folder(tmp_path), paths=paths).query(name) == png(number)

    @pytest.mark.parametrize("name", ["4.png", "5.png", "", "a"])
    def test_not_found(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(FileNotFoundError):
            Images.of_folders(self.folder(tmp_path)).gallery(name)

    def test_in_a_zip(self, tmp_path: Path) -> None:
        archive = tmp_path / "all.zip"
        with zipfile.ZipFile(archive, "w") as stored:
            stored.writestr("set/query/1.png", png(3))
        assert Images.of_folders(archive / "set/query").query("query/1.png") == png(3)
        assert Images.of_folders(archive).query("set/query/1.png") == png(3)
