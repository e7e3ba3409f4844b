"""Every kind of scores: exact to the bit, whatever the tiles, threads, order and kernels."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import oracles
import reid_vpr_eval as rve
from reid_vpr_eval.cli import app
from reid_vpr_eval.cli.options import Metric
from reid_vpr_eval.ranking.sources import source_of
from reid_vpr_eval.ranking.sources.base import SOURCES
from reid_vpr_eval.scores import METRICS
from test_engine import same
from test_kernels import both

Array: TypeAlias = npt.NDArray[Any]

PRODUCTS = ("cosine", "dot", "euclidean", "sqeuclidean")
OF_BOOLEANS = ("dice", "rogerstanimoto", "russellrao", "sokalsneath", "yule")
OF_SCIPY = tuple(name for name in METRICS if name not in (*PRODUCTS, "hamming"))
#: Metrics over the counts; a value differs if any count does.
SEEN = ["mAP", "CMC@1", "CMC@5", "mINP", "MeanR"]


def normal(rng: np.random.Generator, n: int, dim: int) -> Array:
    return rng.normal(size=(n, dim)).astype(np.float32)


def positive(rng: np.random.Generator, n: int, dim: int) -> Array:
    return rng.random((n, dim)) + 0.01


def binary(rng: np.random.Generator, n: int, dim: int) -> Array:
    made = rng.random((n, dim)) < 0.5
    made[:, 0] = True
    return made


def codes(rng: np.random.Generator, n: int, dim: int) -> Array:
    return rng.integers(0, 256, (n, -(-dim // 8)), dtype=np.uint8)


def small(kind: str) -> Callable[[np.random.Generator, int, int], Array]:
    def make(rng: np.random.Generator, n: int, dim: int) -> Array:
        info = np.iinfo(kind)
        made = rng.integers(max(info.min, -(2**40)), min(info.max, 2**40), (n, dim)).astype(kind)
        made[:, 0] = 1
        return made

    return make


def floats(kind: str) -> Callable[[np.random.Generator, int, int], Array]:
    return lambda rng, n, dim: rng.normal(size=(n, dim)).astype(kind)


def near(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Vectors so alike that most pairs lie inside the error band of float32."""
    return (np.ones(dim) + 1e-7 * rng.normal(size=(n, dim))).astype(np.float32)


def scaled(exponent: int, kind: str = "float32") -> Callable[..., Array]:
    return lambda rng, n, dim: np.ldexp(
        rng.integers(-3, 4, (n, dim)) + np.eye(1, dim) * 8, exponent
    ).astype(kind)


MAKE: dict[str, tuple[Callable[[np.random.Generator, int, int], Array], tuple[str, ...]]] = {
    "codes": (codes, ("hamming",)),
    "booleans": (binary, ("hamming", *OF_BOOLEANS, "jaccard", "cosine", "euclidean")),
    "positive": (positive, tuple(name for name in OF_SCIPY if name not in OF_BOOLEANS)),
    "chance": (normal, ("dot", "sqeuclidean", "cityblock")),
    "near": (near, PRODUCTS),
    **{kind: (small(kind), PRODUCTS) for kind in ("int8", "uint8", "int16", "uint16")},
    **{kind: (small(kind), ("dot", "cosine")) for kind in ("int32", "uint32", "int64", ">i2")},
    **{kind: (floats(kind), ("cosine", "sqeuclidean")) for kind in
       ("float16", "float64", ">f4", ">f8", "<f8", "longdouble")},
    "float32 tiny": (scaled(-140), PRODUCTS),
    "float32 at the last bit": (scaled(-149), PRODUCTS),
    "float32 products at the edge": (scaled(-64), PRODUCTS),
    "float64 tiny": (scaled(-1060, "float64"), PRODUCTS),
    "float64 at the last bit": (scaled(-1074, "float64"), PRODUCTS),
    "float64 products at the edge": (scaled(-512, "float64"), PRODUCTS),
    "float64 huge": (scaled(1019, "float64"), ("cosine",)),
}  # fmt: skip
CASES = [(name, metric) for name, (_, metrics) in MAKE.items() for metric in metrics]


@dataclass
class World:
    """Vectors of both sides, one in twenty of them doubled, and the roles of all pairs."""

    query: Array
    gallery: Array
    role: Array
    metric: str

    @classmethod
    def of(cls, name: str, metric: str, *, n_query: int = 11, n_gallery: int = 90, dim: int = 24,
           seed: int = 0) -> World:  # fmt: skip
        rng = np.random.default_rng(seed)
        query, gallery = (MAKE[name][0](rng, n, dim) for n in (n_query, n_gallery))
        doubled = rng.choice(n_gallery, max(2, n_gallery // 20), replace=False)
        gallery[doubled] = gallery[doubled[0]]
        query[:2] = gallery[doubled[0]]
        role = rng.choice([1, 0, -1, 9], size=(n_query, n_gallery), p=[0.1, 0.05, 0.05, 0.8])
        role[:, doubled[:2]] = [1, 9]
        return cls(query, gallery, role, metric)

    def relevance(self) -> rve.Relevance:
        query, item = np.nonzero(self.role != 9)
        value = self.role[query, item]
        return rve.Relevance.from_pairs(
            query, item, grade=(value == 1).astype(float), ignored=value == -1,
            n_query=len(self.role), n_gallery=self.role.shape[1],
        )  # fmt: skip

    def scores(self) -> rve.Embeddings:
        return rve.Embeddings(self.query, self.gallery, metric=self.metric)

    def rank(self, **options: Any) -> rve.Ranking:
        return rve.rank(self.scores(), self.relevance(), **options)

    def matrix(self) -> Array:
        """The canonical scores, one pair after the other."""
        if self.metric == "hamming":
            return oracles.hamming_matrix(self.query, self.gallery)
        if self.metric in OF_SCIPY:
            return oracles.scipy_matrix(self.query, self.gallery, self.metric)
        return oracles.canonical_matrix(
            oracles.as_scored(self.query), oracles.as_scored(self.gallery), self.metric
        )


def check_literally(ranking: rve.Ranking, matrix: Array, role: Array) -> None:
    """Compare a ranking with what a sort of each row of scores says."""
    n_gallery = matrix.shape[1]
    for query, row in enumerate(matrix):
        pairs = slice(ranking.offsets[query], ranking.offsets[query + 1])
        roles = {int(g): int(role[query, g]) for g in np.flatnonzero(role[query] != 9)}
        literal = oracles.statistic(row, roles, [0] * n_gallery, [True], n_strata=1)
        assert [j.item for j in literal.judged] == ranking.item[pairs].tolist()
        for name in ("score", "order", "tie_group"):
            wanted = [getattr(j, name) for j in literal.judged]
            assert wanted == getattr(ranking, name)[pairs].tolist(), name
        for name in ("above", "tied", "tied_before"):
            wanted = [list(getattr(j, name)) for j in literal.judged]
            assert wanted == getattr(ranking, name)[pairs].tolist(), name
        assert literal.best_unjudged == ranking.best_item[query]
        assert row[ranking.best_item[query]] == ranking.best_score[query]


@pytest.mark.parametrize(("name", "metric"), CASES)
def test_every_kind_equals_a_literal_sort(name: str, metric: str) -> None:
    world = World.of(name, metric)
    ranking = world.rank()
    assert (ranking.tied > 0).any()
    check_literally(ranking, world.matrix(), world.role)


def test_every_source_is_in_these_tests() -> None:
    """A new kind of scores fails here until it has a case above."""
    kinds = {World.of(name, metric, n_query=2).scores().kind for name, metric in CASES}
    assert kinds | {"matrix"} == set(SOURCES)
    assert {metric for _, metric in CASES} == set(METRICS)


@pytest.mark.parametrize("kernels", ["numpy", "numba"])
@pytest.mark.parametrize(("name", "metric"), [
    ("codes", "hamming"), ("booleans", "hamming"), ("booleans", "dice"),
    ("positive", "cityblock"), ("positive", "jensenshannon"), ("positive", "correlation"),
    ("int8", "dot"), ("int8", "cosine"), ("uint8", "sqeuclidean"), ("uint16", "dot"),
    ("int64", "cosine"), ("float16", "cosine"), (">f8", "sqeuclidean"), ("near", "cosine"),
    ("chance", "dot"), ("float32 tiny", "dot"), ("float32 tiny", "sqeuclidean"),
    ("float64 tiny", "cosine"), ("float64 tiny", "dot"),
])  # fmt: skip
def test_tiles_threads_slices_and_kernels_change_no_bit(
    name: str, metric: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels == "numba":
        pytest.importorskip("numba")
    world = World.of(name, metric, n_query=24, n_gallery=150)
    monkeypatch.setenv("RVE_KERNELS", "numpy")
    plain = world.rank()
    monkeypatch.setenv("RVE_KERNELS", kernels)
    for options in ({}, {"memory": "40KiB", "workers": 1}, {"memory": "60KiB", "workers": 3},
                    {"workers": 1}):  # fmt: skip
        same(plain, world.rank(**options))
    parts = [world.rank(gallery_slice=cut) for cut in pairwise([0, 1, 60, 61, 150])]
    same(plain, rve.Ranking.merge(parts[::-1]))


@pytest.mark.parametrize(("name", "metric"), CASES)
def test_order_of_queries_and_gallery_changes_no_bit(name: str, metric: str) -> None:
    world = World.of(name, metric, n_query=14)
    before = rve.compute(world.rank(), SEEN)
    rng = np.random.default_rng(1)
    ours, theirs = rng.permutation(len(world.query)), rng.permutation(len(world.gallery))
    other = World(world.query[ours], world.gallery[theirs], world.role[ours][:, theirs], metric)
    after = rve.compute(other.rank(), SEEN)
    assert {n: before[n] for n in SEEN} == {n: after[n] for n in SEEN}


@pytest.mark.parametrize(("name", "metric"), [
    ("codes", "hamming"), ("positive", "cityblock"), ("positive", "jensenshannon"),
    ("int8", "sqeuclidean"), ("float32 tiny", "dot"),
])  # fmt: skip
def test_one_side_against_itself_equals_a_copy(name: str, metric: str) -> None:
    world = World.of(name, metric, n_gallery=150)
    vectors = world.gallery
    label = np.arange(150) % 9
    query, item = np.nonzero(label[:, None] == label)
    relevance = rve.Relevance.from_pairs(query, item, ignored=query == item, n_query=150,
                                         n_gallery=150)  # fmt: skip
    one = rve.Embeddings(vectors, vectors, metric)
    two = rve.Embeddings(vectors, vectors.copy(), metric)
    for options in ({"memory": "48KiB", "workers": 1}, {"memory": "100KiB", "workers": 2}):
        same(rve.rank(one, relevance, **options), rve.rank(two, relevance, **options))


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_evaluated_to_a_saved_result(metric: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.random((24, 10)) < 0.5
    vectors[:, :2] = [True, False]
    side = rve.Samples.from_columns(label=np.arange(24) % 5, id=[str(i) for i in range(24)])
    given = vectors if metric == "hamming" else vectors.astype(np.float32)
    scores = rve.Embeddings(given, given, metric)
    result = rve.evaluate("labels", side, side, scores)
    result.save(tmp_path)
    loaded = rve.Result.load(tmp_path)
    assert loaded.metrics["mAP"] == result.metrics["mAP"]
    shown = np.abs(World(given, given, np.zeros((0, 0)), metric).matrix())
    shown = np.sqrt(shown) if metric == "euclidean" else shown
    best = result.per_query[["top1_id", "top1_score"]].to_numpy()
    assert [shown[row, int(item)] for row, (item, _) in enumerate(best)] == best[:, 1].tolist()


def test_codes_are_evaluated_by_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bits = rng.random((24, 20)) < 0.5
    label = np.arange(24) % 5
    for name, rows in (("query", slice(0, 8)), ("gallery", slice(8, 24))):
        (tmp_path / f"{name}.csv").write_text("label\n" + "\n".join(map(str, label[rows])) + "\n")
    direct = rve.evaluate(
        "labels", *(rve.Samples.from_columns(label=part) for part in (label[:8], label[8:])),
        rve.Embeddings(bits[:8], bits[8:], "hamming"),
    )  # fmt: skip
    for form in (bits, np.packbits(bits, axis=1)):
        arguments = ["run", "labels", "--metric", "hamming", "--format", "json"]
        for name, rows in (("query", slice(0, 8)), ("gallery", slice(8, 24))):
            np.save(tmp_path / f"{name}.npy", form[rows])
            arguments += [f"--{name}", str(tmp_path / f"{name}.csv"), f"--{name}-features",
                          str(tmp_path / f"{name}.npy")]  # fmt: skip
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["metrics"]["mAP"] == direct.metrics["mAP"]
    np.save(tmp_path / "gallery.npy", np.zeros((16, 3), np.float32))
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 1
    assert "np.packbits" in refused.stderr
    assert tuple(Metric) == METRICS


# --- binary codes ----------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 63, 64, 65, 130, 300])
def test_hamming_counts_bits_however_they_are_given(bits: int) -> None:
    rng = np.random.default_rng(bits)
    ours, theirs = rng.random((9, bits)) < 0.5, rng.random((40, bits)) < 0.5
    theirs[5] = theirs[30] = ours[2]
    theirs[6] = ~ours[2]
    wanted = -(ours[:, None] != theirs).sum(axis=2)
    role = np.where(rng.random((9, 40)) < 0.3, 1, 9)
    packed = [np.packbits(side, axis=1) for side in (ours, theirs)]
    forms = {"bool": (ours, theirs), "packed": packed, "mixed": (ours, packed[1]),
             "unpacked": (ours.astype(np.uint8), theirs.astype(np.uint8))}  # fmt: skip
    for name, (query, gallery) in forms.items():
        world = World(query, gallery, role, "hamming")
        check_literally(world.rank(), wanted.astype(float), role)
        assert (world.scores().query.tobytes() == packed[0].tobytes()) == (name != "unpacked")
    assert rve.Embeddings(ours, theirs, "hamming").dim == 8 * -(-bits // 8)
    signs = [np.where(side, 1, -1).astype(np.int8) for side in (ours, theirs)]
    product = rve.rank(rve.Embeddings(*signs, metric="dot"), world.relevance())
    assert np.array_equal(product.above, world.rank().above)


def test_long_codes_are_counted_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.of("codes", "hamming", dim=640)
    monkeypatch.setattr("reid_vpr_eval.ranking.sources.bits._EXACT_FLOAT32_INTEGER", 639)
    check_literally(world.rank(), world.matrix(), world.role)
    source = source_of(world.scores())
    tile = source.tile(source.queries(slice(0, 2)), source.columns(slice(0, 3)))
    assert tile.scores.dtype == np.float64


def test_equal_codes_have_a_distance_of_zero_and_not_of_minus_zero() -> None:
    """A fingerprint is made of bits: the two zeros must not meet in it."""
    for metric, kind in (("hamming", bool), ("cityblock", float)):
        vectors = np.eye(3, dtype=kind)
        source = source_of(rve.Embeddings(vectors, vectors.copy(), metric))
        tile = source.tile(source.queries(slice(0, 3)), source.columns(slice(0, 3))).scores
        pairs = source.pairs(np.arange(3), np.arange(3))
        assert not np.signbit(np.diagonal(tile)).any()
        assert not np.signbit(pairs).any()


# --- distances of SciPy ----------------------------------------------------------------------


@pytest.mark.parametrize("metric", OF_SCIPY)
@pytest.mark.parametrize("dim", [2, 3, 7, 8, 9, 16, 31, 64, 129, 515])
def test_a_distance_has_the_same_bits_in_a_tile_and_alone(metric: str, dim: int) -> None:
    rng = np.random.default_rng(dim)
    query, gallery = rng.random((7, dim)), rng.random((21, dim))
    gallery[::4] *= 1 + 1e-15
    if metric in OF_BOOLEANS:
        query, gallery = np.rint(query), np.rint(gallery)
    query[:, 0] = gallery[:, 0] = 1
    gallery[3] = gallery[17] = query[5]
    if metric == "correlation":
        query[:, 1] = gallery[:, 1] = 0
    alone = oracles.scipy_matrix(query, gallery, metric)
    source = source_of(rve.Embeddings(query, gallery, metric))
    assert source.exact
    blocks: list[tuple[slice, Any]] = [
        (slice(0, 7), slice(0, 21)), (slice(2, 3), slice(1, 20)),
        (slice(1, 6), np.array([17, 3, 5, 0])), (slice(0, 7), slice(9, 10)),
    ]  # fmt: skip
    for rows, columns in blocks:
        ours, theirs = source.queries(rows), source.columns(columns)
        tile = source.tile(ours, theirs)
        assert np.array_equal(tile.scores, alone[rows][:, columns])
        assert not tile.row_margin.any()
        assert not tile.column_margin.any()
        row, column = np.unravel_index(rng.permutation(tile.scores.size), tile.scores.shape)
        exactly = source.exactly(ours, theirs, row, column)
        assert np.array_equal(exactly, tile.scores[row, column])
    assert np.array_equal(alone[5, 3], alone[5, 17])


@pytest.mark.parametrize(("metric", "query", "says"), [
    ("seuclidean", [[1.0, 2.0]], "variances .* divide each component"),
    ("mahalanobis", [[1.0, 2.0]], "variances .* whiten the features"),
    ("manhattan", [[1.0, 2.0]], "unknown metric 'manhattan'; known: .* cityblock"),
    ("correlation", [[1.0, 2.0], [0.1, 0.1], [0, 0]],
     r"2 vectors are constant \(rows 1, 2\) .* correlation is not defined"),
    ("jensenshannon", [[0.0, 0.0], [1.0, 2.0], [1.0, -1.0]],
     r"2 vectors are zero or hold negative numbers \(rows 0, 2\)"),
    ("dice", [[1.0, 0.0], [0.5, 1.0]], r"1 vector holds numbers other than 0 and 1 \(rows 1\)"),
    ("cityblock", [[1.0, np.nan]], r"NaN or infinite in 1 of 1 row "),
    ("hamming", [[1.0]], r"query features have the type float64: .*np\.packbits"),
    ("hamming", np.ones((1, 1), np.int8), "type int8: hamming compares bits"),
    ("hamming", np.ones((1, 3), bool), "query vectors have 3 dimensions, gallery vectors 2"),
    ("hamming", np.ones((1, 2), np.uint8), "query vectors have 2 bytes, gallery vectors 1"),
])  # fmt: skip
def test_what_a_metric_is_not_defined_for_is_refused(metric: str, query: Any, says: str) -> None:
    gallery: Any = np.array([[True, False]])
    with pytest.raises(rve.ScoreError, match=says):
        rve.Embeddings(query, gallery if metric == "hamming" else gallery.astype(float), metric)


@pytest.mark.parametrize("where", ["judged", "unjudged"])
def test_a_pair_without_a_distance_is_named(where: str) -> None:
    """Two vectors may be sound, and their distance not defined."""
    query = np.array([[1.0, 2.0], [1.0, -1.0]])
    gallery = np.array([[1.0, 2.0], [3.0, 4.0], [-1.0, 1.0]])
    item = 2 if where == "judged" else 0
    relevance = rve.Relevance.from_pairs([0, 1], [0, item], n_query=2, n_gallery=3)
    scores = rve.Embeddings(query, gallery, "braycurtis")
    with pytest.raises(rve.ScoreError, match=r"braycurtis .* \(query 1, gallery row 2\)"):
        rve.rank(scores, relevance)


@pytest.mark.parametrize("metric", [name for name in METRICS if name != "hamming"])
def test_bad_vectors_stand_last_under_every_metric(metric: str) -> None:
    rng = np.random.default_rng(0)
    query, gallery = rng.random((5, 6)) + 0.1, rng.random((20, 6)) + 0.1
    if metric in OF_BOOLEANS:
        query, gallery = (query < 0.6).astype(float), (gallery < 0.6).astype(float)
        query[:, 0] = gallery[:, 0] = 1
    good = rve.Embeddings(query, gallery, metric)
    query = np.vstack([query, query[:1]])
    gallery = np.insert(gallery, 7, gallery[0], axis=0)
    query[5] = np.nan
    gallery[7] = np.inf
    bad = rve.Embeddings(query, gallery, metric, bad_vectors="last")
    role = np.where(rng.random((5, 20)) < 0.3, 1, 9)
    role[:, 0] = 1
    others = World(query, gallery, np.insert(np.vstack([role, role[:1]]), 7, 9, axis=1), metric)
    with_bad = rve.rank(bad, others.relevance())
    without = rve.rank(good, World(query[:5], gallery[:20], role, metric).relevance())
    n_pairs = len(without.item)
    assert np.array_equal(with_bad.above[:n_pairs], without.above)
    assert np.array_equal(with_bad.tied[:n_pairs], without.tied)
    assert not with_bad.found[n_pairs:].any()
    others.role[:, 7] = 1
    judged = rve.rank(bad, others.relevance())
    last = judged.item == 7
    assert (judged.above[last & judged.found] == judged.n_unjudged[:5]).all()


# --- types and scales ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [
    "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i2", ">u4", ">f2",
    ">f4", ">f8",
])  # fmt: skip
@pytest.mark.parametrize("form", ["C", "F", "file", "strided"])
def test_features_are_scored_from_the_type_they_are_given_in(
    kind: str, form: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    whole = np.rint(np.abs(rng.normal(size=(46, 12)) * 20)) + np.eye(1, 12)
    values: Array = whole if np.dtype(kind).kind in "iub" else whole + rng.random((46, 12)) / 3
    vectors = values.astype(kind)
    if form == "F":
        vectors = np.asfortranarray(vectors)
    if form == "strided":
        vectors = np.repeat(vectors, 2, axis=0)[::2]
    given: Any = vectors
    if form == "file":
        given = tmp_path / "features.npy"
        np.save(given, vectors)
    role = np.where(rng.random((6, 46)) < 0.2, 1, 9)
    for metric in ("cosine", "euclidean", "cityblock"):
        world = World(vectors[:6], given, role, metric)
        scores = world.scores()
        assert scores.gallery.dtype == np.dtype(kind)
        assert form == "file" or np.shares_memory(scores.gallery, vectors)
        world.gallery = vectors
        check_literally(rve.rank(scores, world.relevance()), world.matrix(), role)


def test_products_of_whole_numbers_are_those_of_python() -> None:
    rng = np.random.default_rng(0)
    for kind, dim in (("int8", 700), ("uint8", 33), ("int16", 50), ("uint16", 9), ("bool", 80)):
        low, high = (0, 1) if kind == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
        query = rng.integers(low, high + 1, (4, dim)).astype(kind)
        gallery = rng.integers(low, high + 1, (30, dim)).astype(kind)
        ours, theirs = query.astype(object).astype(int), gallery.astype(object).astype(int)
        dot = [[sum(int(a) * int(b) for a, b in zip(x, y, strict=True)) for y in theirs]
               for x in ours]  # fmt: skip
        squared = [[-sum(int(a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in theirs]
                   for x in ours]  # fmt: skip
        role = np.where(rng.random((4, 30)) < 0.2, 1, 9)
        for metric, wanted in (("dot", dot), ("sqeuclidean", squared)):
            world = World(query, gallery, role, metric)
            check_literally(world.rank(), np.array(wanted, float), role)


@pytest.mark.parametrize(("kind", "dim", "exact"), [
    ("int8", 128, True), ("uint8", 128, True), ("uint8", 4096, False), ("uint16", 64, False),
])  # fmt: skip
@pytest.mark.parametrize("metric", ["dot", "sqeuclidean"])
def test_small_whole_numbers_need_no_band(kind: str, dim: int, exact: bool, metric: str) -> None:
    rng = np.random.default_rng(0)
    info = np.iinfo(kind)
    query, gallery = (rng.integers(info.min // 2, info.max // 2, (n, dim)).astype(kind)
                      for n in (5, 60))  # fmt: skip
    source = source_of(rve.Embeddings(query, gallery, metric))
    ours, theirs = source.queries(slice(0, 5)), source.columns(slice(0, 60))
    row, column = (a.ravel() for a in np.indices((5, 60)))
    canonical = source.exactly(ours, theirs, row, column).reshape(5, 60)
    tile, wide = source.tile(ours, theirs), source.tile(ours, theirs, care=2)
    assert (not tile.row_margin.any()) == exact
    assert not wide.row_margin.any()
    assert np.array_equal(wide.scores, canonical)
    assert np.array_equal(tile.scores, canonical) or not exact


@pytest.mark.parametrize("metric", PRODUCTS)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("care", [0, 1, 2])
def test_no_score_of_a_tile_leaves_its_band(
    metric: str, kind: str, care: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the last bits to the largest, on both sides apart, near and far."""
    rng = np.random.default_rng(0)
    edges = {"float32": (-149, -140, -127, -75, -63, 0, 50),
             "float64": (-1074, -1060, -537, -511, 0, 400)}[kind]  # fmt: skip
    monkeypatch.setattr("reid_vpr_eval.ranking.sources.features._SMALLEST_PIECE", 3)
    for dim in (1, 2, 5, 6, 64, 700):
        base = rng.normal(size=(12, dim))
        base[3:6] = base[2] * (1 + 1e-7 * rng.normal(size=(3, 1)))
        base[6:8] = 1
        base[8:] = rng.integers(1, 3, (4, dim))
        sides = [np.concatenate([np.ldexp(base, e) for e in edges]).astype(kind) for _ in "qg"]
        for side in sides:
            side[~side.any(axis=1), 0] = np.ldexp(1.0, edges[0])
        source = source_of(rve.Embeddings(*sides, metric))
        n = len(sides[0])
        ours = source.queries(slice(0, n))
        row, column = (a.ravel() for a in np.indices((n, n)))
        for block in (slice(0, n), *(slice(12 * k, 12 * k + 12) for k in range(len(edges)))):
            theirs = source.columns(block)
            tile = source.tile(ours, theirs, care=care)
            inside = column < tile.scores.shape[1]
            exact = source.exactly(ours, theirs, row[inside], column[inside])
            off = np.abs(tile.scores.astype(float) - exact.reshape(tile.scores.shape))
            assert (off <= tile.row_margin[:, None]).all()
            assert (off <= tile.column_margin).all()


@pytest.mark.parametrize("metric", PRODUCTS)
def test_pieces_of_a_product_have_the_smaller_band(metric: str) -> None:
    """Products of one sign, whose sums err most."""
    rng = np.random.default_rng(0)
    query, gallery = ((1 + rng.random((n, 2048))).astype(np.float32) for n in (4, 30))
    source = source_of(rve.Embeddings(query, gallery, metric))
    ours, theirs = source.queries(slice(0, 4)), source.columns(slice(0, 30))
    whole, fine = (source.tile(ours, theirs, care=care) for care in (0, 1))
    row, column = (a.ravel() for a in np.indices((4, 30)))
    exact = source.exactly(ours, theirs, row, column).reshape(4, 30)
    assert (fine.row_margin < whole.row_margin / 5).all()
    assert (np.abs(fine.scores.astype(float) - exact) <= fine.row_margin[:, None]).all()
    assert fine.row_margin.max() < 2 * 264 * 2.0**-24 * float(
        2 * np.linalg.norm(query, axis=1).max() * np.linalg.norm(gallery, axis=1).max()
    )


@pytest.mark.parametrize("metric", ["dot", "sqeuclidean"])
def test_the_band_holds_where_hardware_flushes_to_zero(metric: str) -> None:
    """Every operation of a float32 product in a row, with subnormal results lost."""
    rng = np.random.default_rng(0)

    def flushed(x: Array) -> Array:
        return np.where(np.abs(x) < np.finfo(np.float32).smallest_normal, np.float32(0), x)

    for dim in (1, 3, 40, 300):
        for scale in (-70, -64, -63, -62):
            query = np.ldexp(1 + rng.random((4, dim)) * 1e-3, scale).astype(np.float32)
            gallery = np.ldexp(rng.choice([-1, 1], (30, dim)) * (1 - rng.random((30, dim)) * 1e-3),
                               scale).astype(np.float32)  # fmt: skip
            gallery[:10] = np.abs(gallery[:10])
            source = source_of(rve.Embeddings(query, gallery, metric))
            ours, theirs = source.queries(slice(0, 4)), source.columns(slice(0, 30))
            row, column = (a.ravel() for a in np.indices((4, 30)))
            exact = source.exactly(ours, theirs, row, column).reshape(4, 30)
            total = np.zeros((4, 30), np.float32)
            for k in range(dim):
                total = flushed(total + flushed(query[:, k, None] * gallery[:, k]))
            if metric == "sqeuclidean":
                squares = [flushed((side.astype(float) ** 2).sum(1).astype(np.float32))
                           for side in (query, gallery)]  # fmt: skip
                total = flushed(flushed(flushed(total * 2) - squares[1]) - squares[0][:, None])
            margin = source.tile(ours, theirs).row_margin
            assert (np.abs(total.astype(float) - exact) <= margin[:, None]).all()


@pytest.mark.parametrize("exponent", [-1074, -1060, -1022, -540, 540, 1020])
def test_cosine_of_float64_depends_on_no_scale(exponent: int) -> None:
    """A length that is subnormal or overflows is no longer that of the vector."""
    rng = np.random.default_rng(0)
    query, gallery = rng.integers(-4, 5, (5, 9)) + 0.0, rng.integers(-4, 5, (50, 9)) + 0.0
    query[:, 0] = gallery[:, 0] = 7
    role = np.where(rng.random((5, 50)) < 0.2, 1, 9)
    plain = World(query, gallery, role, "cosine")
    for ours, theirs in ((exponent, 0), (0, exponent), (exponent, exponent)):
        other = World(np.ldexp(query, ours), np.ldexp(gallery, theirs), role, "cosine")
        same(plain.rank(), other.rank())
        check_literally(other.rank(), other.matrix(), role)


def test_zeros_of_either_sign_tie() -> None:
    query = np.array([[1.0, 0.0], [-1.0, 0.0], [2.0**-1074, 0.0]])
    gallery = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0], [-0.0, -1.0], [2.0**-1074, 0.0],
                        [-(2.0**-1074), 0.0]])  # fmt: skip
    for kind in (np.float64, np.float32):
        for kernels in ("numpy", "numba") if kind is np.float64 else ("numpy",):
            if kernels == "numba":
                pytest.importorskip("numba")
            for item in range(4):
                relevance = rve.Relevance.from_pairs([0, 1, 2], [item] * 3, n_query=3, n_gallery=6)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setenv("RVE_KERNELS", kernels)
                    ranking = rve.rank(
                        rve.Embeddings(query.astype(kind), gallery.astype(kind), "dot"), relevance
                    )
                vanish = 5 if kind is np.float32 else 3
                assert ranking.tied[:, 0].tolist() == [vanish, vanish, 5]


# --- memory ----------------------------------------------------------------------------------


def most_memory(work: Callable[[], Any]) -> int:
    """Return the most bytes that were held at once beyond those held before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("kind", "metric"), [
    ("int8", "cosine"), ("float16", "sqeuclidean"), ("uint8", "hamming"), ("int8", "cityblock"),
])  # fmt: skip
def test_small_types_are_never_converted_whole(kind: str, metric: str) -> None:
    rng = np.random.default_rng(0)
    gallery = rng.integers(0, 100, (4000, 1024)).astype(kind)
    relevance = rve.Relevance.from_pairs([0, 1], [3, 2999], n_query=2, n_gallery=4000)

    def work() -> None:
        scores = rve.Embeddings(gallery[:2].copy(), gallery, metric)
        rve.rank(scores, relevance, memory="2MiB", workers=1)

    work()  # what is loaded once is not counted
    assert most_memory(work) < 4000 * 1024 * 4 / 3


@pytest.mark.parametrize(("kind", "higher"), [
    ("float16", True), ("float32", False), ("float64", True), ("int8", False), ("uint16", True),
    ("int64", False), ("?", True), (">f4", False),
])  # fmt: skip
def test_a_matrix_in_a_file_is_read_tile_by_tile(kind: str, higher: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_query, n_gallery = (100, 10_000) if kind == "?" else (250, 4000)  # many of one score
    whole = rng.integers(0, 100, (n_query, n_gallery))
    matrix = (whole == 99 if kind == "?" else whole).astype(kind)
    np.save(tmp_path / "matrix.npy", matrix)
    wanted = 99 if kind == "?" else 97 if higher else 2
    query, item = np.arange(n_query), np.abs(whole - wanted).argmin(axis=1)
    item[::2] = np.abs(whole[::2] - (99 if higher else 0)).argmin(axis=1)
    relevance = rve.Relevance.from_pairs(query, item, n_query=n_query, n_gallery=n_gallery)
    found = []

    def work() -> None:
        scores = rve.ScoreMatrix(tmp_path / "matrix.npy", higher_is_better=higher)
        found.append(rve.rank(scores, relevance, memory="1MiB", workers=1))

    work()
    assert most_memory(work) < matrix.size * 4 / 2
    own = matrix[query, item].astype(float)[:, None]
    values = matrix.astype(float)
    above = (values > own).sum(1) if higher else (values < own).sum(1)
    for ranking in found:
        assert np.array_equal(ranking.above[:, 0], above)
        assert np.array_equal(ranking.tied[:, 0], (values == own).sum(1) - 1)


def test_a_matrix_is_checked_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reid_vpr_eval.scores.arrays._CHECKED_AT_ONCE", 1 << 18)
    matrix = np.zeros((2000, 2000), np.float32)
    np.save(tmp_path / "fine.npy", matrix)
    fine = lambda: rve.ScoreMatrix(tmp_path / "fine.npy", higher_is_better=True)  # noqa: E731
    assert most_memory(fine) < 1 << 20
    matrix[[5, 1999], 1999] = np.nan, np.inf
    np.save(tmp_path / "bad.npy", matrix)
    with pytest.raises(rve.ScoreError, match=r"in 2 of 2000 rows \(rows 5, 1999\)"):
        rve.ScoreMatrix(tmp_path / "bad.npy", higher_is_better=True)


def test_long_doubles_beyond_float64_are_refused() -> None:
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long doubles are float64 here")
    huge = np.array([[np.longdouble(2) ** 2000, 1]])
    with pytest.raises(rve.ScoreError, match="NaN or infinite"):
        rve.ScoreMatrix(huge, higher_is_better=True)
    with pytest.raises(rve.ScoreError, match="NaN or infinite"):
        rve.Embeddings(huge, huge)


@pytest.mark.parametrize("in_view", [7, 40, 1 << 19])
@pytest.mark.parametrize("at_once", [1, 30, 1 << 16])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("order", ["by query", "mixed"])
def test_pairs_have_the_same_scores_in_parts_of_any_size(
    in_view: int, at_once: int, workers: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries with the same items, with some of them, with others, and with a single one."""
    monkeypatch.setattr("reid_vpr_eval.ranking.sources.vectors._PAIRS_IN_VIEW", in_view)
    monkeypatch.setattr("reid_vpr_eval.ranking.sources.vectors._PAIRS_AT_ONCE", at_once)
    monkeypatch.setattr("reid_vpr_eval.ranking.sources.vectors._NUMBERS_AT_ONCE", 48)
    rng = np.random.default_rng(in_view + at_once)
    vectors = rng.normal(size=(30, 6)).astype(np.float32)
    items = [np.arange(3, 15), np.arange(3, 15), np.arange(5, 13), rng.permutation(30)[:20],
             np.array([29]), np.arange(9, 15), np.array([3, 14])]  # fmt: skip
    query = np.repeat(np.arange(len(items)), [len(own) for own in items])
    item = np.concatenate(items)
    if order == "mixed":
        turn = rng.permutation(len(query))
        query, item = query[turn], item[turn]
    for kernels in both():
        source = source_of(rve.Embeddings(vectors[:7], vectors), kernels)
        found = source.pairs(query, item, workers)
        unit = kernels.unit(vectors)
        literal = kernels.pair_scores(unit[:7], unit, query, item, squared_distance=False)
        assert np.array_equal(found, literal)
