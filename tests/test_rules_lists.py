"""The rules of lists and of nearest neighbours, on real lists and against literal ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reid_vpr_eval.errors import (
    AlignmentError,
    FormatError,
    InputNotFoundError,
    RelevanceError,
)
from reid_vpr_eval.formats.trec import Qrels
from reid_vpr_eval.relevance import (
    Relevance,
    listed,
    nearest_neighbours,
    read_lists,
    same_label,
)
from reid_vpr_eval.samples import Samples
from shared_inputs import data

columns = Samples.from_columns


def positives(relevance: Relevance) -> list[set[int]]:
    return [set(relevance.positives(i).tolist()) for i in range(relevance.n_query)]


def ignored(relevance: Relevance) -> list[set[int]]:
    return [set(relevance.ignored(i).tolist()) for i in range(relevance.n_query)]


def rows(n: int) -> Samples:
    return columns(number=range(n))


QUERY, GALLERY = columns(id=["a", "b", "c"]), columns(id=["u", "v", "w", "x"])
EXPECTED = [{0, 2}, set(), {3}]


# --- forms of lists --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lists", "by"),
    [
        ({"a": ["u", "w"], "c": ["x"]}, "id"),
        ({"a": {"positive": ["w", "u"]}, "b": {}, "c": {"positive": ["x"]}}, "id"),
        ({"a": {"u": 1, "w": 3, "v": 0}, "c": {"x": 2.0}}, "id"),
        (Qrels({"a": {"u": 1, "w": 1, "x": 0}, "c": {"x": 1}}), "id"),
        ([["a", ["u", "w"]], ["c", ("x",)]], "id"),
        ([["u", "w"], [], ["x"]], "id"),
        ([[0, 2, 2], [], [3]], "index"),
        ([[0, 2, -1], [-1], [3]], "index"),
        ([[0, [0, 2]], [1, [-1]], [2, [3]]], "index"),
        ({0: [0, 2], "2": [3]}, "index"),
        ({"0": {"0": 1, "2": 1}, "2": {"3": 1}}, "index"),
        (np.array([[0, 2], [-1, -1], [3, -1]]), "index"),
        (np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]], bool), "index"),
    ],
)
def test_the_forms_of_lists(lists: Any, by: Any) -> None:
    assert positives(listed(QUERY, GALLERY, lists, by=by)) == EXPECTED
    if by == "index" and not (isinstance(lists, np.ndarray) and lists.dtype == bool):
        moved = _from_one(lists)
        assert positives(listed(QUERY, GALLERY, moved, by=by, base=1)) == EXPECTED


def _from_one(lists: Any) -> Any:
    def up(number: Any) -> Any:
        return number if int(number) == -1 else type(number)(int(number) + 1)

    if isinstance(lists, np.ndarray):
        return np.where(lists == -1, -1, lists + 1)
    if isinstance(lists, dict):
        return {
            up(query): {up(i): grade for i, grade in items.items()} if isinstance(items, dict)
            else [up(i) for i in items]
            for query, items in lists.items()
        }  # fmt: skip
    return [
        [up(row[0]), [up(i) for i in row[1]]] if row and isinstance(row[-1], list)
        else [up(i) for i in row]
        for row in lists
    ]  # fmt: skip


def test_named_lists_say_what_items_are() -> None:
    lists = [
        {"easy": [0], "hard": [1, 2], "junk": [3], "bbx": [7, 8]},
        {"easy": [], "hard": [2], "junk": [0, 2], "bbx": [9]},
        {"easy": [3], "hard": [], "junk": [], "bbx": []},
    ]
    medium = listed(QUERY, GALLERY, lists, by="index", positive=["easy", "hard"],
                    ignored=["junk"])  # fmt: skip
    assert positives(medium) == [{0, 1, 2}, set(), {3}]
    assert ignored(medium) == [{3}, {0, 2}, set()]
    easy = listed(QUERY, GALLERY, lists, by="index", positive=["easy"], ignored=["junk", "hard"])
    assert positives(easy) == [{0}, set(), {3}]
    assert ignored(easy) == [{1, 2, 3}, {0, 2}, set()]
    plain = listed(QUERY, GALLERY, lists, by="index", positive=["hard"], ignored=[])
    assert positives(plain) == [{1, 2}, {2}, set()]
    assert plain.n_ignored.sum() == 0


def test_grades_below_the_asked_one_are_negatives_that_keep_them() -> None:
    lists = {"a": {"u": 1, "v": 2, "w": 3}, "b": {"u": 0}}
    found = listed(QUERY, GALLERY, lists, grade=2.0)
    assert found.role.tolist() == [0, 1, 1, 0]
    assert found.grade.tolist() == [1, 2, 3, 0]
    assert found.no_positive == "skip"


def test_the_query_itself_may_be_taken_out() -> None:
    one = columns(id=["a", "b"])
    lists = {"a": ["a", "b"]}
    assert positives(listed(one, one, lists)) == [{0, 1}, set()]
    assert positives(listed(one, one, lists, self="exclude")) == [{1}, set()]


# --- files -----------------------------------------------------------------------------------


def test_lists_from_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"a": ["u", "w"], "c": ["x"]}))
    (tmp_path / "gnd.json").write_text(
        json.dumps({"imlist": [], "gnd": [{"positive": ["u", "w"]}, {}, {"positive": ["x"]}]})
    )
    (tmp_path / "a.csv").write_text("query,item\na,u\na,w\nc,x\n")
    (tmp_path / "b.csv").write_text("item,query,list,grade\nw,a,,2\nu,a,positive,1\nv,a,ignored,1\n"
                                    "x,c,positive,1\nx,b,other,1\n")  # fmt: skip
    (tmp_path / "c.tsv").write_text("query\titem\tgrade\na\tu\t1\na\tw\t1\nc\tx\t1\nc\tu\t0\n")
    (tmp_path / "a.txt").write_text("u w \n\nx\n")
    (tmp_path / "b.txt").write_text("u, w\n\nx")
    (tmp_path / "a.qrels").write_text("a 0 u 1\na 0 w 1\nc 0 x 2\nc 0 u 0\nc 0 v -1\n")
    (tmp_path / "qrels.test").write_text("a 0 u 1\na 0 w 1\nc 0 x 2\n")
    for path in sorted(tmp_path.iterdir()):
        found = listed(QUERY, GALLERY, path)
        assert positives(found) == EXPECTED, path.name
        if path.name == "b.csv":
            assert ignored(found) == [{1}, set(), set()]
    np.save(tmp_path / "i.npy", np.array([[0, 2], [-1, -1], [3, -1]]))
    (tmp_path / "i.txt").write_text("0 2\n-1\n3\n")
    (tmp_path / "i.csv").write_text("query,item\n0,0\n0,2\n2,3\n")
    table = np.array([[2, 0, 2], [2, -1, -1], [2, 3, -1]], "<i4")
    (tmp_path / "i.ivecs").write_bytes(table.tobytes())
    for suffix in ("npy", "txt", "csv", "ivecs"):
        assert positives(listed(QUERY, GALLERY, tmp_path / f"i.{suffix}", by="index")) == EXPECTED


def test_a_folder_with_one_file_a_list(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("1 2\n\n4\n")
    np.save(tmp_path / "bad.npy", np.array([[3], [-1], [-1]]))
    (tmp_path / "notes.md").write_text("no list")
    found = listed(QUERY, GALLERY, tmp_path, by="index", base=1, positive=["good"],
                   ignored=["bad"])  # fmt: skip
    assert positives(found) == [{0, 1}, set(), {3}]
    assert ignored(found) == [{2}, set(), set()]
    with pytest.raises(RelevanceError, match="no list called none; the lists are called good"):
        listed(QUERY, GALLERY, tmp_path, by="index", positive=["good", "none"])
    with pytest.raises(FormatError, match="holds no file called positive or ignored"):
        listed(QUERY, GALLERY, tmp_path)
    (tmp_path / "good.csv").write_text("query,item\n")
    with pytest.raises(FormatError, match=r"good\.csv, good\.txt are all called 'good'"):
        read_lists(tmp_path, ["good"])
    (tmp_path / "short.txt").write_text("1\n")
    with pytest.raises(RelevanceError, match=r"different numbers of queries \(bad: 3, short: 1"):
        read_lists(tmp_path, ["bad", "short"])
    (tmp_path / "own.json").write_text('{"a": {"x": [1]}}')
    with pytest.raises(RelevanceError, match="lists with names of their own"):
        read_lists(tmp_path, ["own"])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "query,thing\na,u\n", "has the columns query, thing; query, item"),
        ("a.csv", "query,item\na\n", "line 2 is not one value each"),
        ("a.csv", "query,item\na,u\nb,u,v\n", "line 3 is not one value each"),
        ("a.csv", "query,item,grade\na,u,much\n", "line 2 has the grade 'much'"),
        ("a.csv", "", "has the columns none"),
        ("a.json", "{", "cannot be read as JSON"),
        ("a.json", '{"a": "u"}', "the entry of query 'a' is 'u'"),
        ("a.json", "3", "lists of a int are not known"),
        ("a.json", '{"a": [0.5]}', "whole numbers or strings, not 0.5"),
        ("a.qrels", "a u 1\n", "line 1 has 3 columns"),
        ("a.xml", "<a/>", r"lists of pairs are read from \.json"),
    ],
)
def test_files_that_are_no_lists(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises((FormatError, RelevanceError), match=f"{name}: .*{says}"):
        listed(QUERY, GALLERY, tmp_path / name)
    with pytest.raises(InputNotFoundError, match=r"none\.json: no such file"):
        listed(QUERY, GALLERY, tmp_path / "none.json")
    (tmp_path / "latin.csv").write_bytes(b"query,item\n\xe4,u\n")
    with pytest.raises(FormatError, match="not UTF-8"):
        listed(QUERY, GALLERY, tmp_path / "latin.csv")


@pytest.mark.parametrize(
    ("lists", "more", "says"),
    [
        ([[0, 4], [], [9, -7]], {"by": "index"}, r"lists of 2 queries point past the gallery, which"
         r" has 4 rows, 0 to 3 \(query rows 0, 2; row 0: 4\)"),
        ([[0], [], []], {"by": "index", "base": 1}, r"1 to 4 \(query rows 0; row 0: 0\)"),
        ({7: [0]}, {"by": "index"}, r"1 query beyond the query side \(7\)"),
        ({"q": [0]}, {"by": "index"}, "query rows are named q"),
        ({0: ["u"]}, {"by": "index"}, r"gallery rows are named u .* are these ids"),
        ({"z": ["u"], "y": []}, {}, r"2 ids in the lists .* query side \(y, z; its own .* a, b"),
        ({"a": ["u", "t"]}, {}, r"1 id in the lists is not among those of the gallery side \(t"),
        ({"a": {"easy": ["u"]}}, {}, "no list called positive; the lists are called easy"),
        ({"a": ["u"]}, {"ignored": ["junk"]}, "no list called junk"),
        ({"a": ["u"]}, {"positive": []}, "no list called positive"),
        ({"a": ["u"]}, {"positive": "positive"}, "a list of columns"),
        ({"a": ["u"]}, {"ignored": ["positive"]}, "named as positive and as ignored"),
        ({"a": {"u": -1}}, {}, r"grade below 0 .*query row 0, gallery row 0: -1"),
        ({"a": {"u": float("nan")}}, {}, "grade below 0 or none"),
        ({"a": ["u"]}, {"by": "name"}, "by = 'name': one of id, index"),
        ({"a": ["u"]}, {"base": 2}, "base = 2: one of 0, 1"),
        ({"a": [True]}, {}, "not True"),
        ({"a": None}, {}, "the entry of query 'a' is 'None'"),
        (np.ones((3, 2)), {"by": "index"}, "this is float64"),
        (np.eye(3, 4, dtype=np.uint8), {"by": "index"}, r"query 0 names item 0 twice \(3 such"
         r" lists in all\); a matrix .* True and False, not 0 and 1"),
        (np.array([[0, 3, 3], [1, -1, -1], [2, 0, -1]]), {"by": "index"}, "names item 3 twice"),
        (np.ones((3, 2, 1), int), {"by": "index"}, "this is int64"),
        (7, {}, "lists of a int are not known"),
    ],
)  # fmt: skip
def test_lists_that_are_refused(lists: Any, more: Any, says: str) -> None:
    with pytest.raises(RelevanceError, match=says):
        listed(QUERY, GALLERY, lists, **more)


def test_lists_that_do_not_fit_the_sides(tmp_path: Path) -> None:
    with pytest.raises(AlignmentError, match=r"lists for 2 queries.* has 3 rows"):
        listed(QUERY, GALLERY, [["u"], ["v"]])
    with pytest.raises(AlignmentError, match="the gallery side has no column 'id'"):
        listed(QUERY, rows(4), [["u"], [], []])
    with pytest.raises(AlignmentError, match="the query side has no column 'id'"):
        listed(rows(3), GALLERY, {"a": ["u"]})
    (tmp_path / "a.csv").write_text("query,item,grade\na,u,1\na,u,2\n")
    with pytest.raises(RelevanceError, match="lists gallery row 0 twice with different grades"):
        listed(QUERY, GALLERY, tmp_path / "a.csv")


# --- real lists ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes", "pairs"),
    [
        ("Nordland", (2760, 27592), 8279), ("SPEDTEST", (607, 607), 607),
        ("ESSEX3IN1_dataset", (210, 210), 210), ("Living", (32, 32), 94),
        ("inria_holidays", (300, 512), 512), ("17places", (406, 408), 2027),
        ("GardensPointWalking", (200, 202), 997),
    ],
)  # fmt: skip
def test_lists_of_vpr_bench(name: str, sizes: tuple[int, int], pairs: int) -> None:
    path = data(f"places/vprbench_ground_truth_lists/{name}.json")
    found = listed(rows(sizes[0]), rows(sizes[1]), path, by="index")
    assert int(found.n_positive.sum()) == pairs
    assert (found.n_positive > 0).all()


@pytest.mark.parametrize(
    ("name", "n", "where"),
    [("17places", 406, r"2 queries .* 406 rows, 0 to 405 \(query rows 404, 405; row 404: 406\)"),
     ("GardensPointWalking", 200, r"2 queries .* \(query rows 198, 199; row 198: 200\)")],
)  # fmt: skip
def test_lists_that_point_past_the_end(name: str, n: int, where: str) -> None:
    path = data(f"places/vprbench_ground_truth_lists/{name}.json")
    with pytest.raises(RelevanceError, match=f"the lists of {where}"):
        listed(rows(n), rows(n), path, by="index")


def test_the_lists_of_veri() -> None:
    folder = data("labels/veri776")
    lines = data("labels/veri776/ex.txt").read_text().split()
    names = [Path(name).name for name in lines if name.endswith(".jpg")]
    kinds = [Path(name).parent.name for name in lines if name.endswith(".jpg")]
    sides = [
        columns(label=[int(n[:4]) for n in side], camera=[int(n[6:9]) for n in side])
        for side in (
            [n for n, kind in zip(names, kinds, strict=True) if kind.startswith(start)]
            for start in ("query", "test")
        )
    ]
    assert [side.n for side in sides] == [1678, 11579]
    query, gallery = sides
    official = listed(query, gallery, folder, by="index", base=1, positive=["gt_index"],
                      ignored=["jk_index"])  # fmt: skip
    found = same_label(query, gallery, different=["camera"])
    for name in ("offsets", "item", "role"):
        assert np.array_equal(getattr(official, name), getattr(found, name))


@pytest.mark.parametrize(
    ("name", "n_query", "pairs", "most"),
    [
        ("cxc_image_to_caption", 5000, 35_585, (4, 19)),
        ("cxc_caption_to_image", 24_972, 35_585, None),
        ("eccv_image_to_caption", 1261, 22_550, (6, 48)),
        ("eccv_caption_to_image", 1332, 11_279, (1, 19)),
        ("original_image_to_caption", 5000, 25_000, (5, 5)),
        ("original_caption_to_image", 25_000, 25_000, (1, 1)),
    ],
)
def test_lists_across_images_and_captions(
    name: str, n_query: int, pairs: int, most: tuple[int, int] | None
) -> None:
    folder = "cross_modal/eccv_caption/eccv_caption/data"
    captions = np.load(data(f"{folder}/coco_test_ids.npy"))
    with data(f"{folder}/original_image_to_caption.json").open() as stream:
        images = [int(key) for key in json.load(stream)]
    path = data(f"{folder}/{name}.json")
    with path.open() as stream:
        content = json.load(stream)
    gallery = columns(id=captions if name.endswith("caption") else images)
    if name == "eccv_image_to_caption":
        with pytest.raises(RelevanceError, match=r"2 ids .* gallery side \(144675, 467259; "):
            listed(columns(id=list(content)), gallery, path)
        gallery = columns(id=[*captions, 144675, 467259])
    found = listed(columns(id=list(content)), gallery, path)
    assert (found.n_query, int(found.n_positive.sum())) == (n_query, pairs)
    if most is not None:
        assert (found.n_positive.min(), found.n_positive.max()) == most
    if name == "cxc_caption_to_image":
        every = listed(columns(id=captions), gallery, path)
        assert int((every.n_positive == 0).sum()) == 28
        assert int(every.n_positive.sum()) == pairs


def test_the_matrix_of_brisbane_event(tmp_path: Path) -> None:
    with np.load(data("places/lens_event/brisevent_7x7.npz")) as stored:
        matrix = stored["gt_query_by_reference"]
    np.save(tmp_path / "gt.npy", matrix)
    found = listed(rows(724), rows(641), tmp_path / "gt.npy", by="index")
    assert int((found.n_positive == 0).sum()) == 4
    assert int(found.n_positive.max()) == 11
    assert int(found.n_positive.sum()) == int(matrix.sum())
    folder = "places/lens_event/example_davis128"
    pairs = np.load(data(f"{folder}/example-reference_example-query_GT.npy"))
    with pytest.raises(RelevanceError):
        listed(rows(100), rows(100), pairs, by="index")
    same = listed(rows(100), rows(100), pairs.astype(bool), by="index")
    assert positives(same) == [{row} for row in range(100)]


# --- nearest neighbours ----------------------------------------------------------------------


def test_neighbours_equal_a_literal_sort() -> None:
    rng = np.random.default_rng(0)
    gallery = columns(id=np.arange(30))
    query = gallery.take([4, 9, 29, 0])
    distance = rng.integers(0, 6, (4, 30)).astype(float)
    distance[np.arange(4), [4, 9, 29, 0]] = 0
    ids = np.argsort(distance, axis=1, kind="stable")
    ordered = np.take_along_axis(distance, ids, 1)
    for own in ("exclude", "keep"):
        for k in (1, 3, 7, 29):
            judged = nearest_neighbours(query, gallery, (ids, ordered), k=k, self=own)
            apart = nearest_neighbours(query, gallery, (ids, ordered), k=k, self=own,
                                       ties="exclude")  # fmt: skip
            plain = nearest_neighbours(query, gallery, ids, k=k, self=own)
            for i in range(4):
                rest = [j for j in ids[i].tolist()
                        if own == "keep" or j != query.values("id")[i]]  # fmt: skip
                last = distance[i, rest[k - 1]]
                within = {j for j in rest if distance[i, j] <= last}
                below = {j for j in rest if distance[i, j] < last}
                assert positives(judged)[i] == within
                crowded = len(within) > k
                assert positives(apart)[i] == (below if crowded else within)
                itself = set(apart.item[apart.self_pair & (apart.query_of_pair() == i)].tolist())
                assert ignored(apart)[i] - itself == (within - below if crowded else set())
                assert positives(plain)[i] == set(rest[:k])


def test_a_tie_may_go_on_past_what_was_given() -> None:
    query, gallery = rows(2), rows(9)
    ids, distances = [[0, 1, 2], [3, 4, 5]], [[1.0, 2.0, 2.0], [1.0, 1.5, 2.0]]
    with pytest.raises(RelevanceError, match=r"1 query has the 2-th neighbour \(rows 0\) as"):
        nearest_neighbours(query, gallery, (ids, distances), k=2)
    assert positives(nearest_neighbours(query, gallery, ids, k=2)) == [{0, 1}, {3, 4}]
    assert positives(nearest_neighbours(query, gallery, (ids, distances), k=1)) == [{0}, {3}]
    ended = nearest_neighbours(query, rows(3), ([[0, 1, 2]] * 2, [[1.0, 2.0, 2.0]] * 2), k=2)
    assert positives(ended) == [{0, 1, 2}] * 2
    padded = nearest_neighbours(query, gallery, ([[0, 1, -1]] * 2, [[1.0, 2.0, np.inf]] * 2), k=1)
    assert positives(padded) == [{0}] * 2


@pytest.mark.parametrize(
    ("neighbours", "more", "says"),
    [
        ([[0, 1]], {}, r"whole numbers of the shape \(2, K\)"),
        ([[0.0], [1.0]], {}, "these are float64"),
        ([[0, 9], [1, 2]], {}, r"1 query \(rows 0\) are no rows .* 0 to 8 \(row 0: 9\)"),
        ([[0, -2], [1, 2]], {}, "no rows of the gallery"),
        ([[0, 0], [1, 2]], {}, "queries 0 name an item twice"),
        ([[0, 1], [-1, 2]], {}, "queries 1 have -1 before others"),
        ([[0, 1], [2, -1]], {"k": 2}, r"1 query has fewer than k = 2 .* \(rows 1; row 1: 1"),
        ([[0, 1], [2, 3]], {"k": 0}, "k = 0: a number from 1 to 9"),
        ([[0, 1], [2, 3]], {"k": 10}, "k = 10: a number from 1 to 9"),
        ([[0, 1], [2, 3]], {"ties": "drop"}, "ties = 'drop': one of judge, exclude"),
        (([[0, 1], [2, 3]], [[1.0], [2.0]]), {}, r"distances have the shape \(2, 1\)"),
        (([[0, 1], [2, 3]], [[1.0, 0.5], [0.0, 1.0]]), {}, "distances of queries 0 fall"),
        (([[0, 1], [2, 3]], [[1.0, np.nan], [0.0, 1.0]]), {}, "queries 0 are not finite"),
    ],
)
def test_neighbours_that_are_refused(neighbours: Any, more: Any, says: str) -> None:
    with pytest.raises(RelevanceError, match=says):
        nearest_neighbours(rows(2), rows(9), neighbours, **more)
