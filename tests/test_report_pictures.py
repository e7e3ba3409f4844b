"""Picture lists: which queries, which items, and pictures that are not there."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reid_vpr_eval import Result, ScoreMatrix, evaluate
from reid_vpr_eval import Samples as Table
from reid_vpr_eval.formats import SideSpec, read_side
from reid_vpr_eval.report import Images, choose_queries, picture_lists
from reid_vpr_eval.report.thumbnails import SIDE, thumbnail
from report_results import images, people, places, png


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


def shown(result: Result, top_k: int = 2) -> Images:
    """Return pictures whose ids are those of `worked`."""
    return Images(png, png, np.array(list("abc")), np.array(list("uvwxyz")))


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
    strip = picture_lists(made, shown(made))["worst"][1]
    assert strip.query.item_id == "b"
    assert [(t.item_id, t.rank, t.role) for t in strip.ranked] == [
        ("u", "1", "wrong"), ("w", "2", "right"),
    ]  # fmt: skip
    assert strip.ranked[0].score == "0.700"
    assert strip.missed is not None
    assert (strip.missed.item_id, strip.missed.rank) == ("x", "4")
    assert strip.caption == "2 positives, the first at rank 2, AP 50.0"


def test_without_counts_the_missed_positive_is_the_best_one() -> None:
    made = replace(worked(), ranking=None)
    strips = picture_lists(made, shown(made))["worst"]
    assert strips[0].missed is not None
    assert (strips[0].missed.item_id, strips[0].missed.rank) == ("y", "6")
    assert [strip.missed for strip in strips[1:]] == [None, None]


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
    calls: list[int] = []

    def load(row: int) -> bytes:
        calls.append(row)
        return png(row)

    picture_lists(people(), replace(images(people()), gallery=load))
    assert len(calls) == len(set(calls))


@pytest.mark.parametrize("content", [b"", b"no picture", png(1)[:60]])
def test_a_broken_picture_is_left_out(content: bytes) -> None:
    assert thumbnail(lambda _: content, 0) is None


def test_a_missing_picture_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "0001_c1.png").write_bytes(png(1))
    (tmp_path / "q" / "0002_c1.png").write_bytes(png(2))
    side = read_side(tmp_path / "q", SideSpec(names="market"), "query")
    (tmp_path / "q" / "0002_c1.png").unlink()
    pictures = Images.of_sides(side, side)
    assert thumbnail(pictures.query, 0) is not None
    assert thumbnail(pictures.query, 1) is None
    assert pictures.query_ids is not None
    assert pictures.query_ids.tolist() == ["0001_c1.png", "0002_c1.png"]


def test_an_unknown_id_has_no_picture() -> None:
    odd = replace(images(people()), gallery_ids=np.array(["other"]))
    strips = picture_lists(people(), odd)["best"]
    assert {tile.picture for tile in strips[0].ranked} == {None}
    assert strips[0].query.picture is not None


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "L", "1", "CMYK", "I;16", "F"])
def test_thumbnails_are_small_pngs_of_any_mode(mode: str) -> None:
    stored = io.BytesIO()
    form = "TIFF" if mode in ("CMYK", "F", "I;16") else "PNG"
    Image.new(mode, (300, 150)).save(stored, format=form)
    small = thumbnail(lambda _: stored.getvalue(), 0)
    assert small is not None
    assert (small.width, small.height) == (SIDE, SIDE // 2)
    head, _, content = small.uri.partition(",")
    assert head == "data:image/png;base64"
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (SIDE, SIDE // 2)


def test_16_bit_grey_keeps_its_grey() -> None:
    stored = io.BytesIO()
    Image.fromarray(np.full((8, 8), 0x8000, np.uint16)).save(stored, format="PNG")
    small = thumbnail(lambda _: stored.getvalue(), 0)
    assert small is not None
    content = base64.b64decode(small.uri.partition(",")[2])
    assert Image.open(io.BytesIO(content)).convert("RGB").getpixel((0, 0)) == (128, 128, 128)


def test_lists_without_scores_have_no_confident_mistakes() -> None:
    made = people()
    flat = replace(made, per_query=made.per_query.assign(top1_score=0.0))
    assert choose_queries(flat, "mistakes") == []
    assert {t.score for s in picture_lists(flat, images(flat))["worst"] for t in s.ranked} == {""}
