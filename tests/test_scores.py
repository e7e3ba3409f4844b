"""Features, score matrices and ranked lists: checked at the door, row by row."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from reid_vpr_eval.errors import AlignmentError, FormatError, InputNotFoundError, ScoreError
from reid_vpr_eval.scores import METRICS, Embeddings, RankedLists, ScoreMatrix

ONE = [[1.0, 2.0]]
NAN, INF = np.nan, np.inf


class Tensor:
    """What a tensor of another library offers: an array, in the signature of old versions."""

    def __init__(self, values: Any) -> None:
        self.array = np.asarray(values)

    def __array__(self, dtype: Any = None) -> npt.NDArray[Any]:
        return self.array if dtype is None else self.array.astype(dtype)


# --- features --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        *((name, name) for name in ("float16", "float32", "float64", "int8", "uint8", "int64",
                                    "bool", ">f4", ">f8")), ("longdouble", "float64"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("metric", [name for name in METRICS if name != "hamming"])
def test_types_of_features(given: str, kept: str, metric: str) -> None:
    vectors = np.array([[1, 0, 1], [0, 1, 1]], dtype=given)
    scores = Embeddings(vectors, vectors[:1].copy(), metric=metric)
    assert scores.query.dtype == np.dtype(kept)
    assert np.array_equal(scores.query, [[1, 0, 1], [0, 1, 1]])
    assert (scores.n_query, scores.n_gallery, scores.dim) == (2, 1, 3)
    assert scores.higher_is_better == (metric in ("cosine", "dot"))


def test_whole_numbers_are_kept_exact() -> None:
    wide = Embeddings([[2**24 + 1, 1]], [[-(2**53), 1]])
    assert np.asarray(wide.query).tolist() == [[2**24 + 1, 1]]
    assert np.asarray(wide.gallery).tolist() == [[-(2**53), 1]]
    for value, kind in ((2**53 + 1, np.int64), (-(2**63), np.int64), (2**64 - 1, np.uint64)):
        with pytest.raises(ScoreError, match=r"gallery features hold integers beyond 2\^53"):
            Embeddings(ONE, np.array([[1, value]], kind))


@pytest.mark.parametrize(
    ("query", "gallery", "says"),
    [
        ([[1.0, NAN], [1, 1], [INF, 1]], ONE, r"query features: .* in 2 of 3 rows \(rows 0, 2\)"),
        (ONE, [[1.0, 1], [-INF, 1]], r"gallery features: .* in 1 of 2 rows \(rows 1\)"),
        ([[0.0, 0], [1, 1], [0, 0]], ONE, r"query features: 2 vectors are zero \(rows 0, 2\)"),
        (ONE, [[0, 0]], r"gallery features: 1 vector is zero \(rows 0\)"),
        ([[1.0]], ONE, "query vectors have 1 dimensions, gallery vectors 2"),
        (np.ones((0, 2)), ONE, "query side is empty"),
        (ONE, np.ones((2, 0)), "gallery side is empty"),
        ([1.0, 2.0], ONE, r"query features have the shape \(2,\)"),
        (np.ones((1, 2, 1)), ONE, r"shape \(1, 2, 1\)"),
        ([[1.0, 2.0], [1.0]], ONE, "query features is not rectangular"),
        ([["a", "b"]], ONE, "type <U1: real numbers"),
        (np.ones((1, 2), complex), ONE, "type complex128"),
        (np.ones((1, 2), object), ONE, "type object"),
    ],
)
def test_features_that_are_refused(query: Any, gallery: Any, says: str) -> None:
    with pytest.raises(ScoreError, match=says):
        Embeddings(query, gallery, "cosine")


@pytest.mark.parametrize("metric", ["dot", "euclidean", "sqeuclidean"])
def test_zero_vectors_have_no_direction_but_a_place(metric: str) -> None:
    assert Embeddings([[0.0, 0.0]], ONE, metric).n_query == 1
    with pytest.raises(ScoreError, match="unknown metric 'manhattan'; known: cosine, dot"):
        Embeddings(ONE, ONE, "manhattan")


def test_bad_rows_are_found_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reid_vpr_eval.scores.arrays._CHECKED_AT_ONCE", 8)
    vectors = np.ones((50, 4), np.float32)
    vectors[[3, 31, 49]] = 0
    with pytest.raises(ScoreError, match=r"3 vectors are zero \(rows 3, 31, 49\)"):
        Embeddings(ONE * 2, vectors[:, :2])
    vectors[[0, 48]] = NAN
    with pytest.raises(ScoreError, match=r"in 2 of 50 rows \(rows 0, 48\)"):
        ScoreMatrix(vectors, higher_is_better=True)


def on_disk(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_features_from_files_and_tensors(tmp_path: Path) -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2) + 1
    np.save(tmp_path / "f.npy", vectors)
    path = tmp_path / "f.npy"
    scores = Embeddings(path, str(path))
    assert not on_disk(scores.query)
    assert on_disk(ScoreMatrix(path, higher_is_better=True).array)
    assert np.array_equal(scores.query, vectors)
    assert scores.fingerprint() == Embeddings(vectors, Tensor(vectors)).fingerprint()
    assert np.array_equal(scores.take([2], [True, False, True]).gallery, [[1, 2], [5, 6]])
    shared = Embeddings(vectors, vectors)
    assert shared.query is shared.gallery
    for array in (scores.query, shared.query, Embeddings(Tensor(vectors), ONE).query):
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(array)[0] = 1
    assert vectors.flags.writeable


def test_files_that_are_no_array(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.ones((100, 3)))
    content = (tmp_path / "whole.npy").read_bytes()
    for size in (0, 5, 50, 128, len(content) - 1):
        (tmp_path / "cut.npy").write_bytes(content[:size])
        with pytest.raises(FormatError, match=r"cut\.npy: cannot be read as a \.npy array"):
            Embeddings(tmp_path / "cut.npy", ONE)
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match=r"pickled\.npy: cannot be read"):
        ScoreMatrix(tmp_path / "pickled.npy", higher_is_better=True)
    np.savez(tmp_path / "many.npz", a=np.ones((1, 2)))
    with pytest.raises(FormatError, match=r"many\.npz: holds several arrays"):
        Embeddings(ONE, tmp_path / "many.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "many.npz").read_bytes()[:99])
    with pytest.raises(FormatError, match=r"cut\.npz: cannot be read"):
        Embeddings(ONE, tmp_path / "cut.npz")
    np.save(tmp_path / "empty.npy", np.ones((0, 2)))
    with pytest.raises(ScoreError, match="query side is empty"):
        Embeddings(tmp_path / "empty.npy", ONE)
    with pytest.raises(InputNotFoundError, match=r"expected the gallery features as \.npy"):
        Embeddings(ONE, tmp_path / "absent.npy")


# --- matrices --------------------------------------------------------------------------------


def test_the_direction_of_a_matrix_is_never_a_guess() -> None:
    with pytest.raises(TypeError, match="higher_is_better"):
        ScoreMatrix(ONE)  # type: ignore[call-arg]
    for guess in (None, "false", 1):
        with pytest.raises(ScoreError, match=r"higher_is_better = .*: True or False is needed"):
            ScoreMatrix(ONE, higher_is_better=guess)  # type: ignore[arg-type]
    assert ScoreMatrix(ONE, higher_is_better=np.bool_(False)).higher_is_better is False  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "uint64", "bool"])
def test_a_matrix_is_taken_as_it_is(kind: str) -> None:
    given = np.array([[1, 0, 1], [0, 1, 1]], dtype=kind)
    matrix = ScoreMatrix(given, higher_is_better=False)
    assert matrix.array.dtype == given.dtype
    assert (matrix.n_query, matrix.n_gallery) == (2, 3)
    assert matrix.take([1], [False, True, True]).array.tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([[0.0, NAN], [0, 1], [INF, 1]], r"scores are NaN or infinite in 2 of 3 rows \(rows 0, 2"),
        ([1.0, 2.0], r"this one has \(2,\)"),
        (np.ones((0, 3)), r"none of them 0; this one has \(0, 3\)"),
        (np.ones((3, 0)), r"this one has \(3, 0\)"),
        (np.array([[2**53 + 1]]), r"beyond 2\^53"),
        (np.array([[-(2**63)]]), r"beyond 2\^53"),
        ([[1.0], [1.0, 2.0]], "not rectangular"),
        ([["x"]], "real numbers"),
    ],
)
def test_matrices_that_are_refused(given: Any, says: str) -> None:
    with pytest.raises(ScoreError, match=says):
        ScoreMatrix(given, higher_is_better=True)


# --- ranked lists ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([[3, 0, -1]], [[3, 0, -1]]),
        ([[3], [], [1, 2]], [[3, -1], [-1, -1], [1, 2]]),
        ([[], []], [[-1], [-1]]),
        (np.zeros((2, 0), int), [[-1], [-1]]),
        (np.array([[1, 2]], np.uint8), [[1, 2]]),
        (np.array([[1.0, 2.0]]), [[1, 2]]),
        ([[np.int8(1), 2.0]], [[1, 2]]),
        (Tensor([[1, 2]]), [[1, 2]]),
        ((np.array([1, 2]), range(3)), [[1, 2, -1], [0, 1, 2]]),
        ([["b", "a"], ["c"]], [["b", "a"], ["c", ""]]),
        (np.array([["b", "a"]]), [["b", "a"]]),
        (np.array([["b", "a"]], dtype=object), [["b", "a"]]),
    ],
)
def test_lists_become_a_rectangle(given: Any, kept: list[list[Any]]) -> None:
    lists = RankedLists(given)
    assert lists.indices.tolist() == kept
    assert lists.has_ids == isinstance(kept[0][0], str)
    assert lists.n_query == len(kept)
    assert lists.depth.tolist() == [sum(item not in (-1, "") for item in row) for row in kept]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([[0, 1], [2, 2]], "1 ranked list names an item twice, the first is list 1 with item 2"),
        ([["a", "a"]], "twice, the first is list 0 with item a"),
        ([[0], [1, -2]], "ranked list 1 holds the position -2"),
        ([[0, "a"]], "mix ids .* and positions"),
        ([["a", None]], "mix ids .* and positions"),
        ([[0.5]], "ranked list 0 holds 0.5, not a whole number"),
        ([[1], [NAN]], "ranked list 1 holds nan"),
        (np.array([[INF]]), "ranked list 0 holds inf"),
        ([[None]], "holds None"),
        ([[True]], "holds True"),
        (np.array([[True]]), "holds True"),
        ([[2**70]], "holds 1180591620717411303424"),
        ([[b"a"]], "holds b'a'"),
        ([[[1]]], r"holds \[1\]"),
        ([1, 2], "ranked list 0 is 1: a list of items is needed"),
        (["abc"], "ranked list 0 is 'abc': a list of items is needed"),
        (np.array([1, 2]), r"shape \(n_query, k\), not \(2,\)"),
        ([], "query side is empty"),
        (np.zeros((0, 3), int), "query side is empty"),
    ],
)
def test_lists_that_are_refused(given: Any, says: str) -> None:
    with pytest.raises(ScoreError, match=says):
        RankedLists(given)


def test_scores_of_lists() -> None:
    lists = RankedLists([[3, 0], [1]], [[0.5, 0.25], [7]], higher_is_better=False)
    assert lists.scores is not None
    assert np.array_equal(lists.scores, [[0.5, 0.25], [7, NAN]], equal_nan=True)
    padded = RankedLists([[3, -1]], [[0.5, INF]])
    assert padded.scores is not None
    assert np.isnan(padded.scores[0, 1])
    assert RankedLists([[1]], Tensor([[0.5]])).scores == [[0.5]]


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ([[1.0, 2.0]], "1 list of scores for 2 ranked lists"),
        ([[1.0, 2.0, 3.0], [1.0]], "list 0 has 3 scores for 2 places"),
        ([[1.0], [1.0]], "missing, NaN or infinite in lists 0"),
        ([[1.0, NAN], [INF]], "missing, NaN or infinite in lists 0, 1"),
        ([[1.0, None], [1.0]], "in lists 0"),
        ([1.0, 2.0], "list 0 has 1 score"),
        ([["a", "b"], [1]], "the scores of list 0 are no numbers"),
    ],
)
def test_scores_of_lists_that_are_refused(scores: Any, says: str) -> None:
    with pytest.raises(ScoreError, match=says):
        RankedLists([[3, 0], [1]], scores)
    with pytest.raises(ScoreError, match="higher_is_better = None"):
        RankedLists([[3]], higher_is_better=None)  # type: ignore[arg-type]


def test_ids_are_resolved_to_positions() -> None:
    lists = RankedLists([["c", "a"], ["b"]], [[2.0, 1.0], [3.0]], higher_is_better=False)
    found = lists.resolve(["a", "b", "c", "longer than any"])
    assert found.indices.tolist() == [[2, 0], [1, -1]]
    assert (found.has_ids, found.higher_is_better) == (False, False)
    assert np.array_equal(found.scores, lists.scores, equal_nan=True)  # type: ignore[arg-type]
    assert found.resolve(["x"]) is found
    assert RankedLists([["7"]]).resolve(np.array([5, 7])).indices.tolist() == [[1]]
    with pytest.raises(AlignmentError, match=r"2 ranked items .* the first is 'c' in list 0"):
        lists.resolve(["a", "zz"])
    with pytest.raises(AlignmentError, match="gallery side is empty"):
        lists.resolve([])


@pytest.mark.parametrize("given", [np.array([[3, 1]]), np.array([["c", "a"]])])
def test_lists_share_nothing_and_cannot_be_changed(given: npt.NDArray[Any]) -> None:
    before = given.tolist()
    scores = np.array([[2.0, 1.0]])
    lists = RankedLists(given, scores)
    given[0, 0] = given[0, 1]
    scores[:] = 0
    assert lists.indices.tolist() == before
    assert lists.scores is not None
    assert lists.scores.tolist() == [[2.0, 1.0]]
    for array in (lists.indices, lists.scores, lists.take([0]).indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]


# --- saving ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scores",
    [
        Embeddings(np.eye(3, dtype=np.float16), [[1.0, 2.0, 3.0]], "sqeuclidean"),
        Embeddings(np.asfortranarray(np.eye(3)), np.eye(3, dtype=np.int8)),
        ScoreMatrix(np.array([[1, 2]], np.int16), higher_is_better=False),
        RankedLists([[3, 0, -1]]),
        RankedLists([["b", "日本"], ["a"]], [[2.0, 1.0], [0.5]], higher_is_better=False),
    ],
)
def test_saving_gives_the_same_bytes(
    tmp_path: Path, scores: Embeddings | ScoreMatrix | RankedLists
) -> None:
    scores.save(tmp_path / "one.npz")
    loaded = type(scores).load(tmp_path / "one.npz")
    loaded.save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert loaded.fingerprint() == scores.fingerprint()
    assert loaded.higher_is_better == scores.higher_is_better
    for other in (Embeddings, ScoreMatrix, RankedLists):
        if other is not type(scores):
            with pytest.raises(FormatError, match=r"holds a '.*', not a '"):
                other.load(tmp_path / "one.npz")


def test_fingerprints_differ_with_every_part() -> None:
    prints: list[Embeddings | ScoreMatrix | RankedLists] = [
        Embeddings(ONE, ONE), Embeddings(ONE, ONE, "dot"), Embeddings([[2.0, 1.0]], ONE),
        Embeddings(ONE, [[2.0, 1.0]]), Embeddings(np.array(ONE, np.float32), ONE),
        ScoreMatrix(ONE, higher_is_better=True), ScoreMatrix(ONE, higher_is_better=False),
        ScoreMatrix([[1.0], [2.0]], higher_is_better=True), RankedLists([[1, 2]]),
        RankedLists([[2, 1]]), RankedLists([[1, 2]], [[1, 2]]), RankedLists([["1", "2"]]),
    ]  # fmt: skip
    assert len({scores.fingerprint() for scores in prints}) == len(prints)
