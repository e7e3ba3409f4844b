"""The counting engine against a literal sort, to the bit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import reid_vpr_eval as rve
from reid_vpr_eval.metrics import METRICS
from reid_vpr_eval.metrics.compute import TIES
from reid_vpr_eval.ranking.tiles import downwards, widened

pytestmark = pytest.mark.usefixtures("kernels")

ALL = [
    "CMC@1", "CMC@3", "CMC@1%", "IR-recall@4", "P@3", "P@3(divisor=min)", "mAP",
    "mAP(rule=trapezoid)", "mAP@4", "mAP@4(divisor=min)", "mAP@4(divisor=k)", "mINP", "MRR",
    "R-precision", "MAP@R", "MedR", "MeanR", "CMC@2(shots=all)", "P@5(divisor=retrieved)",
    "P@4(divisor=last)", "mAP@4(divisor=hits)", "mAP@3(divisor=hits, rule=trapezoid)", "MRR@2",
    "NDCG", "NDCG@3", "rsum", "MeanR(of=last)", "MeanR(of=all)", "MedR(form=floor)",
    "MedR(form=crossing)",
]  # fmt: skip
#: Metrics over first answers or pooled pairs have a file of tests of their own.
POOLED = {name for name, metric in METRICS.items() if metric.aggregate == "pooled"}
LITERAL = [name for name in ALL if not name.endswith("%") and not name.startswith("rsum")
           and "(of=" not in name and "(form=" not in name]  # fmt: skip


class World:
    """A random world: vectors with many duplicates, strata, masks, junk, self-made relevance."""

    def __init__(self, seed: int, *, n_query: int = 12, n_gallery: int = 90, dim: int = 7) -> None:
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.query = rng.normal(size=(n_query, dim)).astype(np.float32)
        self.gallery = rng.normal(size=(n_gallery, dim)).astype(np.float32)
        doubled = rng.random(n_gallery) < 0.3
        self.gallery[doubled] = self.gallery[rng.integers(0, n_gallery, doubled.sum())]
        share = rng.integers(0, n_gallery, n_query // 3)
        self.query[: len(share)] = self.gallery[share]
        role = rng.choice([1, 0, -1, 9], size=(n_query, n_gallery), p=[0.12, 0.05, 0.08, 0.75])
        self.junk = rng.random(n_gallery) < 0.1
        self.role = role
        self.strata = rng.integers(0, 3, n_gallery)
        self.kept = rng.random((n_query, 3)) < 0.7
        self.n_query, self.n_gallery = n_query, n_gallery

    def relevance(self, *, masked: bool = True, role: Any = None) -> rve.Relevance:
        role = self.role if role is None else role
        query, item = np.nonzero(role != 9)
        value = role[query, item]
        relevance = rve.Relevance.from_pairs(
            query, item, grade=(value == 1).astype(float), ignored=value == -1,
            ignored_gallery=self.junk, n_query=self.n_query, n_gallery=self.n_gallery,
        )  # fmt: skip
        return relevance.keeping(self.strata, self.kept) if masked else relevance

    def scores(self, metric: str = "cosine") -> rve.Embeddings:
        return rve.Embeddings(self.query, self.gallery, metric=metric)


def same(one: rve.Ranking, other: rve.Ranking) -> None:
    """Fail unless two rankings are equal to the bit."""
    for name in ("n_unjudged", "kept", "best_item", "best_score", "item", "role", "grade",
                 "score", "order", "tie_group", "found", "above", "tied", "tied_before",
                 "fingerprint", "strata", "row_stratum"):  # fmt: skip
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean", "sqeuclidean"])
@pytest.mark.parametrize("seed", range(4))
def test_statistic_equals_a_literal_sort(metric: str, seed: int) -> None:
    world = World(seed)
    ranking = rve.rank(world.scores(metric), world.relevance(), strata=world.strata)
    matrix = oracles.canonical_matrix(world.query, world.gallery, metric)
    n_strata = len(ranking.strata)
    for query in range(world.n_query):
        pairs = slice(ranking.offsets[query], ranking.offsets[query + 1])
        roles = {
            int(g): int(r)
            for g, r in enumerate(world.role[query])
            if r != 9 and not world.junk[g]
        }
        literal = oracles.statistic(
            matrix[query], roles, ranking.row_stratum.tolist(), ranking.kept[query].tolist(),
            ignored_rows=np.flatnonzero(world.junk).tolist(), n_strata=n_strata,
        )  # fmt: skip
        assert [j.item for j in literal.judged] == ranking.item[pairs].tolist()
        for name in ("order", "tie_group", "score"):
            assert [getattr(j, name) for j in literal.judged] == getattr(ranking, name)[
                pairs
            ].tolist(), name
        for name in ("above", "tied", "tied_before"):
            assert [list(getattr(j, name)) for j in literal.judged] == getattr(ranking, name)[
                pairs
            ].tolist(), name
        assert list(literal.n_unjudged) == ranking.n_unjudged[query].tolist()
        best = -1 if literal.best_unjudged is None else literal.best_unjudged
        assert best == ranking.best_item[query]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(3))
def test_metrics_equal_a_literal_evaluation(seed: int, ties: str) -> None:
    """With duplicates, strata, masks and uneven slices, under every tie policy."""
    world = World(seed)
    relevance, scores = world.relevance(), world.scores()
    cuts = [0, 7, 8, 50, world.n_gallery]
    parts = [
        rve.rank(scores, relevance, strata=world.strata, gallery_slice=(a, b))
        for a, b in pairwise(cuts)
    ]
    merged = rve.Ranking.merge(parts[::-1])
    same(merged, rve.rank(scores, relevance, strata=world.strata))
    matrix = oracles.canonical_matrix(world.query, world.gallery, "cosine")
    dropped = ~world.kept[:, world.strata]
    positives, ignored = [], []
    for query in range(world.n_query):
        out = (world.role[query] == -1) | dropped[query]
        right = (world.role[query] == 1) & ~out & ~world.junk
        positives.append(set(np.flatnonzero(right).tolist()))
        ignored.append(set(np.flatnonzero(out & ~world.junk).tolist()))
    values = rve.compute(merged, LITERAL, ties=ties)
    literal, per_query = oracles.evaluate_literal(
        matrix, positives, ignored, np.flatnonzero(world.junk).tolist(), LITERAL,
        ties,  # type: ignore[arg-type]
    )
    for name in LITERAL:
        assert values[name] == pytest.approx(literal[name], abs=1e-12), name
        assert np.allclose(values.per_query(name), per_query[name], atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("options", [{"memory": "32KiB"}, {"memory": "100KiB"}, {"workers": 1},
                                     {"workers": 3, "memory": "48KiB"}])  # fmt: skip
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_blocks_and_threads_change_no_bit(options: dict[str, Any], metric: str) -> None:
    world = World(5, n_query=40, n_gallery=300)
    plain = rve.rank(world.scores(metric), world.relevance(), strata=world.strata)
    same(plain, rve.rank(world.scores(metric), world.relevance(), strata=world.strata, **options))


def test_gallery_order_changes_nothing_but_what_depends_on_it() -> None:
    world = World(6, n_query=20, n_gallery=150)
    relevance = world.relevance(masked=False)
    before = rve.rank(world.scores(), relevance)
    shuffle = world.rng.permutation(world.n_gallery)
    world.gallery, world.role, world.junk = (
        world.gallery[shuffle], world.role[:, shuffle], world.junk[shuffle],
    )  # fmt: skip
    after = rve.rank(world.scores(), world.relevance(masked=False))
    for ties in ("expected", "optimistic", "pessimistic"):
        one, other = (rve.compute(r, ALL, ties=ties) for r in (before, after))
        assert {n: one[n] for n in ALL} == {n: other[n] for n in ALL}


def test_query_order_changes_no_bit() -> None:
    world = World(7)
    before = rve.compute(rve.rank(world.scores(), world.relevance()), ALL)
    shuffle = world.rng.permutation(world.n_query)
    world.query, world.role, world.kept = (
        world.query[shuffle], world.role[shuffle], world.kept[shuffle],
    )  # fmt: skip
    after = rve.compute(rve.rank(world.scores(), world.relevance()), ALL)
    assert {n: before[n] for n in ALL} == {n: after[n] for n in ALL}


@pytest.mark.parametrize("scale", [-140, -60, -30, 0, 30, 60])
def test_vectors_scaled_by_powers_of_two(scale: int) -> None:
    """Near the ends of float32 the matrix product decides nothing wrong."""
    world = World(8, n_query=6, n_gallery=60, dim=16)
    world.query = np.ldexp(world.query, scale).astype(np.float32)
    world.gallery = np.ldexp(world.gallery, scale).astype(np.float32)
    used = world.gallery.any(axis=1).all() and world.query.any(axis=1).all()
    for metric in ("cosine", "dot", "sqeuclidean"):
        if metric == "cosine" and not used:
            continue
        ranking = rve.rank(world.scores(metric), world.relevance(masked=False))
        matrix = oracles.canonical_matrix(world.query, world.gallery, metric)
        assert np.array_equal(ranking.score, matrix[ranking.query_of_pair, ranking.item])
        exact = rve.rank(
            rve.ScoreMatrix(matrix, higher_is_better=True), world.relevance(masked=False)
        )
        assert np.array_equal(ranking.above, exact.above)
        assert np.array_equal(ranking.tied, exact.tied)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8])
@pytest.mark.parametrize("dim", [1, 2, 3, 17, 64])
def test_every_type_and_dimension_is_exact(kind: Any, dim: int) -> None:
    """Near-duplicates inside the error band of the matrix product are told apart."""
    rng = np.random.default_rng(dim)
    base = rng.normal(size=(5, dim)) * 10 + 1
    gallery: Any = np.repeat(base, 12, axis=0)
    gallery[::3] *= 1 + 1e-7
    query: Any = base.copy()
    query, gallery = (np.rint(a).astype(kind) if kind is np.int8 else a.astype(kind)
                      for a in (query, gallery))  # fmt: skip
    gallery[~gallery.any(axis=1)] = 1
    query[~query.any(axis=1)] = 1
    role = rng.random((5, 60)) < 0.2
    relevance = rve.Relevance.from_pairs(*np.nonzero(role), n_query=5, n_gallery=60)
    for metric in ("cosine", "dot", "euclidean"):
        ranking = rve.rank(rve.Embeddings(query, gallery, metric=metric), relevance)
        floats = [a.astype(np.float32) if kind is np.int8 else a for a in (query, gallery)]
        matrix = oracles.canonical_matrix(floats[0], floats[1], metric)
        exact = rve.rank(rve.ScoreMatrix(matrix, higher_is_better=True), relevance)
        for name in ("score", "above", "tied", "tied_before", "best_item"):
            assert np.array_equal(getattr(ranking, name), getattr(exact, name)), (metric, name)


def test_regrade_equals_ranking_anew() -> None:
    """Ignored to negative inside a tie group included."""
    world = World(9, n_query=15, n_gallery=80)
    other = world.role.copy()
    judged = other != 9
    other[judged] = world.rng.choice([1, 0, -1, 9], size=int(judged.sum()))
    first = world.relevance(masked=False)
    second = world.relevance(masked=False, role=other)
    regraded = rve.rank(world.scores(), first).regrade(second)
    anew = rve.rank(world.scores(), second)
    for ties in TIES:
        one, two = (rve.compute(r, ALL, ties=ties) for r in (regraded, anew))
        for name in ALL:
            assert np.array_equal(one.per_query(name), two.per_query(name), equal_nan=True), name


def test_regrade_changes_masks_where_strata_allow() -> None:
    world = World(10)
    masked, plain = world.relevance(), world.relevance(masked=False)
    ranking = rve.rank(world.scores(), masked)
    back = ranking.regrade(plain)
    direct = rve.compute(rve.rank(world.scores(), plain), ALL)
    assert {n: rve.compute(back, ALL)[n] for n in ALL} == {n: direct[n] for n in ALL}
    assert (back.best_item == -2).all()


def test_regrade_refuses_pairs_that_were_not_judged() -> None:
    world = World(11)
    ranking = rve.rank(world.scores(), world.relevance(masked=False))
    role = world.role.copy()
    role[0, np.flatnonzero(role[0] == 9)[:2]] = 1
    other = world.relevance(masked=False, role=role)
    with pytest.raises(rve.NotCountedError, match="were not judged"):
        ranking.regrade(other)
    wider = rve.rank(world.scores(), world.relevance(masked=False), judge=[other])
    anew = rve.compute(rve.rank(world.scores(), other), ALL)
    assert {n: rve.compute(wider.regrade(other), ALL)[n] for n in ALL} == {n: anew[n] for n in ALL}


def test_count_ignored_brings_junk_back() -> None:
    world = World(12)
    relevance = world.relevance(masked=False)
    apart = rve.rank(world.scores(), relevance, count_ignored=True)
    plain = rve.compute(rve.rank(world.scores(), relevance), ALL)
    assert {n: rve.compute(apart, ALL)[n] for n in ALL} == {n: plain[n] for n in ALL}
    role = world.role.copy()
    role[:, world.junk] = 9
    world.junk[:] = False
    kept = world.relevance(masked=False, role=role)
    anew = rve.compute(rve.rank(world.scores(), kept), ALL)
    assert {n: rve.compute(apart.regrade(kept), ALL)[n] for n in ALL} == {n: anew[n] for n in ALL}


def test_merge_refuses_overlaps_strangers_and_gaps() -> None:
    world = World(13)
    scores, relevance = world.scores(), world.relevance()
    low = rve.rank(scores, relevance, gallery_slice=(0, 40))
    high = rve.rank(scores, relevance, gallery_slice=(40, 90))
    with pytest.raises(rve.AlignmentError, match="share rows"):
        rve.Ranking.merge([low, rve.rank(scores, relevance, gallery_slice=(39, 90))])
    stranger = World(14)
    with pytest.raises(rve.AlignmentError, match="does not belong"):
        rve.Ranking.merge([low, rve.rank(stranger.scores(), stranger.relevance(),
                                         gallery_slice=(40, 90))])  # fmt: skip
    with pytest.raises(rve.NotCountedError, match="merge"):
        rve.compute(low, "mAP")
    assert rve.compute(rve.Ranking.merge([high, low]), "mAP")["mAP"] == pytest.approx(
        rve.compute(rve.rank(scores, relevance), "mAP")["mAP"], abs=0
    )


def test_save_and_load_give_the_same_bytes(tmp_path: Any) -> None:
    world = World(15)
    ranking = rve.rank(world.scores(), world.relevance(), strata=world.strata, top_k=3)
    ranking.save(tmp_path / "a.npz")
    loaded = rve.Ranking.load(tmp_path / "a.npz")
    loaded.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    same(ranking, loaded)


@pytest.mark.parametrize("k", [1, 3, 200])
def test_top_lists_equal_a_literal_sort(k: int) -> None:
    world = World(16)
    relevance = world.relevance(masked=False)
    parts = [rve.rank(world.scores(), relevance, top_k=k, gallery_slice=cut)
             for cut in ((0, 30), (30, 90))]  # fmt: skip
    matrix = oracles.canonical_matrix(world.query, world.gallery, "cosine")
    for ranking in (rve.rank(world.scores(), relevance, top_k=k, memory="32KiB"),
                    rve.Ranking.merge(parts)):  # fmt: skip
        assert ranking.top_item is not None
        for query in range(world.n_query):
            free = np.flatnonzero((world.role[query] == 9) & ~world.junk)
            order = free[np.argsort(-matrix[query, free], kind="stable")][:k]
            assert ranking.top_item[query][: len(order)].tolist() == order.tolist()
            assert (ranking.top_item[query][len(order) :] == -1).all()


@pytest.mark.parametrize("masked", [False, True])
def test_tiles_of_many_strata_list_the_best_of_those_kept(masked: bool) -> None:
    """One tile holds all strata, also of queries that leave some out."""
    world = World(27, n_query=20, n_gallery=200)
    relevance = world.relevance(masked=masked)
    ranking = rve.rank(world.scores(), relevance, strata=world.strata, top_k=4, pairs_kept=30)
    matrix = oracles.canonical_matrix(world.query, world.gallery, "cosine")
    free = (world.role == 9) & ~world.junk
    if masked:
        free &= world.kept[:, world.strata]
    assert ranking.top_item is not None
    for query in range(world.n_query):
        own = np.flatnonzero(free[query])
        order = own[np.argsort(-matrix[query, own], kind="stable")][:4]
        assert ranking.top_item[query][: len(order)].tolist() == order.tolist()
    assert ranking.largest_negatives is not None
    assert ranking.largest_negatives.tolist() == np.sort(matrix[free])[::-1][:30].tolist()


def test_ties_in_hundreds_of_strata_are_counted_apart() -> None:
    rng = np.random.default_rng(8)
    matrix = rng.integers(0, 4, (6, 400)).astype(float)
    strata = rng.integers(0, 150, 400)
    relevance = rve.Relevance.from_pairs(np.repeat(np.arange(6), 5), rng.permutation(400)[:30],
                                         n_query=6, n_gallery=400)  # fmt: skip
    ranking = rve.rank(rve.ScoreMatrix(matrix, higher_is_better=True), relevance, strata=strata)
    for pair, (query, item) in enumerate(zip(ranking.query_of_pair, ranking.item, strict=True)):
        free = np.ones(400, bool)
        free[relevance.item[relevance.offsets[query] : relevance.offsets[query + 1]]] = False
        for name, mask in (("above", matrix[query] > matrix[query, item]),
                           ("tied", matrix[query] == matrix[query, item]),
                           ("tied_before", (matrix[query] == matrix[query, item])
                            & (np.arange(400) < item))):  # fmt: skip
            literal = np.bincount(ranking.row_stratum[mask & free], minlength=len(ranking.strata))
            assert np.array_equal(getattr(ranking, name)[pair], literal), name


def test_bounds_are_rounded_outwards() -> None:
    rng = np.random.default_rng(0)
    ends = np.finfo(np.float32)
    single = np.concatenate([rng.normal(size=500), np.ldexp(1.0, np.arange(-149, 128)),
                             [0.0, float(ends.max), float(ends.tiny)]])  # fmt: skip
    single = np.concatenate([single, -single]).astype(np.float32).astype(np.float64)
    values = np.concatenate([single, single * (1 + 2.0**-50), single * (1 - 2.0**-25),
                             np.nextafter(single, np.inf), [1e300, -1e300],
                             [np.finfo(np.float64).max, np.finfo(np.float64).min],
                             [2.0**-160, -(2.0**-160)]])  # fmt: skip
    low = widened(values, np.float32).astype(np.float64)
    assert (low <= values).all()
    inside = np.abs(values) < float(ends.max) * (1 - 1e-6)
    far = np.abs(values) * 2.0**-21 + 2.0**-146
    assert (values - low <= far)[inside].all()
    exact = downwards(values, np.float32).astype(np.float64)
    assert (exact <= values).all()
    assert (low <= exact).all()


def test_keep_first_counts_what_cmc_needs() -> None:
    world = World(17)
    full = rve.rank(world.scores(), world.relevance())
    first = rve.rank(world.scores(), world.relevance(), keep="first")
    names = ["CMC@1", "CMC@5", "MRR", "MeanR", "MedR"]
    for ties in TIES:
        one, two = (rve.compute(r, names, ties=ties) for r in (full, first))
        assert {n: one[n] for n in names} == {n: two[n] for n in names}
    with pytest.raises(rve.NotCountedError, match="keep='all'"):
        rve.compute(first, "mAP")
    with pytest.raises(rve.NotCountedError, match="keep='all'"):
        first.regrade(world.relevance())


@pytest.mark.parametrize("ties", TIES)
def test_keep_first_reads_the_positive_that_was_counted(ties: Any) -> None:
    """A judged negative ties with the best positive and comes first: nobody counted for it."""
    scores = rve.ScoreMatrix([[0.9, 0.5, 0.8, 0.5, 0.5, 0.1]], higher_is_better=True)
    relevance = rve.Relevance.from_pairs([0, 0], [1, 3], grade=[0, 1], n_query=1, n_gallery=6)
    names = [f"CMC@{k}" for k in range(1, 7)]
    full, first = (rve.compute(rve.rank(scores, relevance, keep=keep), names, ties=ties)
                   for keep in ("all", "first"))  # fmt: skip
    assert dict(first) == dict(full)
    assert first["CMC@2"] == 0


def test_tie_order_decides_index_ties_only() -> None:
    scores = rve.ScoreMatrix([[1.0, 1.0, 1.0]], higher_is_better=True)
    relevance = rve.Relevance.from_pairs([0], [0], n_query=1, n_gallery=3)
    by_position = rve.rank(scores, relevance)
    reversed_ = rve.rank(scores, relevance, tie_order=[3, 2, 1])
    assert rve.compute(by_position, "MRR", ties="index")["MRR"] == 1
    assert rve.compute(reversed_, "MRR", ties="index")["MRR"] == pytest.approx(1 / 3)
    assert reversed_.best_item.tolist() == [2]
    for ranking in (by_position, reversed_):
        assert rve.compute(ranking, "MRR")["MRR"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


# Ranked lists


def test_full_lists_equal_the_matrix() -> None:
    world = World(18)
    matrix = oracles.canonical_matrix(world.query, world.gallery, "cosine")
    relevance = world.relevance()
    order = np.argsort(-matrix, axis=1, kind="stable")
    lists = rve.RankedLists(order, np.take_along_axis(matrix, order, 1))
    one = rve.rank(lists, relevance)
    two = rve.rank(rve.ScoreMatrix(matrix, higher_is_better=True), relevance)
    for ties in TIES:
        lists_say, matrix_says = (rve.compute(r, ALL, ties=ties) for r in (one, two))
        assert {n: lists_say[n] for n in ALL} == {n: matrix_says[n] for n in ALL}


def test_short_lists_say_what_they_do_not_know() -> None:
    relevance = rve.Relevance.from_pairs([0, 0, 1], [0, 4, 3], n_query=2, n_gallery=5)
    ranking = rve.rank(rve.RankedLists([[1, 0, -1], [2, 1, 0]]), relevance)
    assert ranking.depth.tolist() == [2, 3]
    assert rve.compute(ranking, "CMC@2")["CMC@2"] == 0.5
    with pytest.raises(rve.NotCountedError, match="were not returned"):
        rve.compute(ranking, "CMC@4")
    with pytest.raises(rve.NotCountedError, match="rank deeper"):
        rve.compute(ranking, "mAP")
    zero = rve.compute(ranking, ["mAP", "MeanR", "MRR", "CMC@4", "mINP"], unretrieved="zero")
    assert zero["mAP"] == pytest.approx((1 / 2 / 2 + 0) / 2)
    assert zero.per_query("MeanR").tolist() == [2.0, 4.0]
    assert zero["MRR"] == 0.25
    assert zero["CMC@4"] == 0.5
    assert zero["mINP"] == 0


def test_missing_queries_need_a_policy() -> None:
    relevance = rve.Relevance.from_pairs([0, 1], [0, 0], n_query=2, n_gallery=2)
    ranking = rve.rank(rve.RankedLists([[0], [-1]]), relevance)
    with pytest.raises(rve.NotCountedError, match="nothing was returned"):
        rve.compute(ranking, "MRR")
    assert rve.compute(ranking, "MRR", missing_query="zero")["MRR"] == 0.5
    assert rve.compute(ranking, "MRR", missing_query="skip")["MRR"] == 1.0
    assert rve.compute(ranking, "MeanR", missing_query="zero").per_query("MeanR")[1] == 3.0


# Properties, named after the sentence they check


def matrices() -> st.SearchStrategy[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Score matrices with many ties, and roles; every world has a positive."""

    @st.composite
    def draw(draw: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        n_query, n_gallery = draw(st.integers(1, 4)), draw(st.integers(1, 9))
        size = n_query * n_gallery
        scores = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
        roles = draw(st.lists(st.sampled_from([9, 9, 1, -1, 0]), min_size=size, max_size=size))
        role = np.array(roles).reshape(n_query, n_gallery)
        role[0, 0] = 1
        return np.array(scores, float).reshape(n_query, n_gallery), role

    return draw()


def evaluate(scores: npt.NDArray[Any], role: npt.NDArray[Any], ties: str = "expected") -> Any:
    query, item = np.nonzero(role != 9)
    value = role[query, item]
    relevance = rve.Relevance.from_pairs(
        query, item, grade=(value == 1).astype(float), ignored=value == -1,
        n_query=len(role), n_gallery=role.shape[1],
    )  # fmt: skip
    ranking = rve.rank(rve.ScoreMatrix(scores, higher_is_better=True), relevance)
    return rve.compute(ranking, ALL, ties=ties)


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_a_strictly_increasing_map_changes_nothing(world: Any) -> None:
    scores, role = world
    before, after = evaluate(scores, role), evaluate(np.exp(scores) - 3, role)
    assert {n: before[n] for n in ALL} == {n: after[n] for n in ALL}


@settings(max_examples=100, deadline=None)
@given(matrices(), st.integers(0, 4), st.sampled_from(TIES))
def test_an_added_ignored_item_changes_nothing(world: Any, score: int, ties: str) -> None:
    scores, role = world
    more = np.column_stack([scores, np.full(len(scores), score)])
    ignored = np.column_stack([role, np.full(len(role), -1)])
    before, after = evaluate(scores, role, ties), evaluate(more, ignored, ties)
    kept = [n for n in ALL if not n.endswith("%")]
    assert {n: before[n] for n in kept} == {n: after[n] for n in kept}


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_cmc_never_falls_with_k(world: Any) -> None:
    scores, role = world
    query, item = np.nonzero(role == 1)
    relevance = rve.Relevance.from_pairs(query, item, n_query=len(role), n_gallery=role.shape[1])
    ranking = rve.rank(rve.ScoreMatrix(scores, higher_is_better=True), relevance)
    for ties in TIES:
        values = rve.compute(ranking, [f"CMC@{k}" for k in range(1, 13)], ties=ties)
        curve = [values[f"CMC@{k}"] for k in range(1, 13)]
        assert curve == sorted(curve)
        assert curve[-1] == 1.0


@settings(max_examples=60, deadline=None)
@given(matrices(), st.integers(0, 8))
def test_a_duplicate_negative_never_helps_a_monotone_score(world: Any, column: int) -> None:
    scores, role = world
    column %= role.shape[1]
    if (role[:, column] == 1).any() or (role[:, column] == -1).any():
        return
    more = np.column_stack([scores, scores[:, column]])
    roles = np.column_stack([role, role[:, column]])
    for ties in ("expected", "optimistic", "pessimistic"):
        before, after = evaluate(scores, role, ties), evaluate(more, roles, ties)
        for name in ALL:
            how = rve.metrics.parse(name).monotone
            if how == "down" and not name.endswith("%"):
                assert after[name] <= before[name] + 1e-12, name
            if how == "up":
                assert after[name] >= before[name] - 1e-12, name


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_optimistic_is_at_least_expected_is_at_least_pessimistic(world: Any) -> None:
    best, mean, worst = (
        evaluate(world[0], world[1], ties) for ties in ("optimistic", "expected", "pessimistic")
    )
    for name in ALL:
        if rve.metrics.parse(name).monotone == "none":
            continue
        sign = 1 if rve.metrics.parse(name).metric.direction == "up" else -1
        assert sign * best[name] >= sign * mean[name] - 1e-12, name
        assert sign * mean[name] >= sign * worst[name] - 1e-12, name


@settings(max_examples=40, deadline=None)
@given(matrices())
def test_metrics_of_tied_worlds_equal_the_enumeration(world: Any) -> None:
    scores, role = world
    positives = [set(np.flatnonzero(row == 1).tolist()) for row in role]
    ignored = [set(np.flatnonzero(row == -1).tolist()) for row in role]
    for ties in TIES:
        found = evaluate(scores, role, ties)
        literal, _ = oracles.evaluate_literal(
            scores, positives, ignored, [], LITERAL, ties  # type: ignore[arg-type]
        )
        for name in LITERAL:
            assert found[name] == pytest.approx(literal[name], abs=1e-12), (ties, name)


def test_every_metric_is_documented_and_in_the_tests() -> None:
    """A new metric fails here until it has a definition, a reference and a test above."""
    tested = {rve.metrics.parse(name).name for name in ALL}
    for name, metric in METRICS.items():
        assert metric.doc, name
        assert metric.formula, name
        assert metric.reference, name
        assert name in tested | POOLED, f"add {name} to ALL in this file"
