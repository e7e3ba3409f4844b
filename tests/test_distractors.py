"""Distractor curves against every draw, re-ranking, plain runs, and numbers worked by hand."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import reid_vpr_eval as rve
from reid_vpr_eval.metrics import METRICS, parse
from reid_vpr_eval.studies.distractors import distractor_curve, query_variances, read_pairs

#: Every metric with a form for each cut-off and option that has one.
NAMES = [
    "CMC@1", "CMC@2", "CMC@3(shots=all)", "IR-recall@2", "P@2", "P@3(divisor=min)",
    "P@4(divisor=retrieved)", "P@3(divisor=last)", "mAP", "mAP@3", "mAP@3(divisor=min)",
    "mAP@3(divisor=k)", "mAP(rule=trapezoid)", "mAP@3(rule=trapezoid)",
    "mAP@2(divisor=min, rule=trapezoid)", "mAP@2(divisor=k, rule=trapezoid)", "mINP", "MRR",
    "MRR@2", "R-precision", "MAP@R", "NDCG", "NDCG@2", "NDCG@3(gain=exponential)", "MeanR",
    "MeanR(of=last)", "MeanR(of=all)", "rsum",
]  # fmt: skip
#: Those that the oracles know.
ORACLE = [name for name in NAMES if parse(name).name != "rsum" and "of=" not in name]


def test_no_metric_is_forgotten() -> None:
    means = {name for name, entry in METRICS.items() if entry.aggregate == "mean"}
    assert {parse(name).name for name in NAMES} == means


class World:
    """A few queries on a small gallery with few distinct scores, so that much ties."""

    def __init__(self, seed: int, n_query: int = 2, n_base: int = 4, n_pool: int = 5) -> None:
        rng = np.random.default_rng(seed)
        n = n_base + n_pool
        self.stratum = np.repeat(["base", "pool"], [n_base, n_pool])
        self.score = rng.integers(0, 4, (n_query, n)).astype(float)
        self.role = rng.choice([0, 0, -1, 2], (n_query, n))  # 2: a negative that is judged
        self.role[:, :n_base] = rng.choice([0, 1, 1, -1, 2], (n_query, n_base))
        self.role[:, 0] = 1
        order = rng.permutation(n)
        self.stratum, self.score, self.role = (
            self.stratum[order], self.score[:, order], self.role[:, order]
        )  # fmt: skip

    def ranking(self, **options: Any) -> rve.Ranking:
        query, item = np.nonzero(self.role)
        role = self.role[query, item]
        relevance = rve.Relevance.from_pairs(
            query, item, grade=(role == 1).astype(float), ignored=role == -1,
            n_query=len(self.role), n_gallery=self.role.shape[1],
        )  # fmt: skip
        scores = rve.ScoreMatrix(self.score, higher_is_better=True)
        return rve.rank(scores, relevance, strata=self.stratum, **options)

    def groups(self, query: int, items: list[int]) -> list[list[bool]]:
        """The relevant flags of some items by descending score, ignored ones removed."""
        kept = [i for i in items if self.role[query, i] != -1]
        levels = sorted({self.score[query, i] for i in kept}, reverse=True)
        return [[bool(self.role[query, i] == 1) for i in kept if self.score[query, i] == level]
                for level in levels]  # fmt: skip

    def expected(self, name: str, size: int, *, own: bool) -> Fraction | float:
        """The mean over every draw, of queries, in exact fractions where there are any."""
        values = []
        for query in range(len(self.role)):
            if own:
                base = np.flatnonzero(self.role[query] == 1).tolist()
                pool = np.flatnonzero(np.isin(self.role[query], (0, 2))).tolist()
            else:
                base = np.flatnonzero(self.stratum == "base").tolist()
                pool = np.flatnonzero(self.stratum == "pool").tolist()
            draws = list(itertools.combinations(pool, min(size, len(pool))))
            found = [oracles.expected(name, self.groups(query, base + list(draw)))
                     for draw in draws]  # fmt: skip
            values.append(sum(found, start=Fraction(0)) / len(found))
        return sum(values, start=Fraction(0)) / len(values)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_every_draw_enumerated_in_exact_fractions(seed: int, own: bool) -> None:
    world = World(seed)
    which: dict[str, Any] = {} if own else {"base": ["base"], "pool": ["pool"]}
    largest = read_pairs(world.ranking(), **which).largest_size
    sizes = list(range(largest + 1))
    curve = distractor_curve(world.ranking(), sizes, ORACLE, **which)
    for name, rows in curve.groupby("metric"):
        for size, value in zip(rows["size"], rows["value"], strict=True):
            wanted = world.expected(str(name).replace("shots=any", ""), size, own=own)
            assert value == pytest.approx(float(wanted), abs=1e-12), (name, size)


def re_ranked(
    world: World, names: list[str], draws: list[tuple[int, ...]], base: list[int]
) -> dict[str, float]:
    """The mean of metrics over drawn galleries, each ranked anew."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for draw in draws:
        items = np.array(sorted([*base, *draw]))
        part = World.__new__(World)
        part.stratum, part.score, part.role = (
            world.stratum[items], world.score[:, items], world.role[:, items]
        )  # fmt: skip
        values = rve.compute(part.ranking(), names)
        for name in names:
            found[name].append(values[name])
    return {name: math.fsum(values) / len(values) for name, values in found.items()}


@pytest.mark.parametrize("size", [0, 2, 5])
def test_every_metric_equals_the_mean_of_runs_on_every_draw(size: int) -> None:
    world = World(11, n_query=3)
    base = np.flatnonzero(world.stratum == "base").tolist()
    pool = np.flatnonzero(world.stratum == "pool").tolist()
    wanted = re_ranked(world, NAMES, list(itertools.combinations(pool, size)), base)
    curve = distractor_curve(world.ranking(), [size], NAMES, base="base", pool="pool")
    for name, value in zip(NAMES, curve["value"], strict=True):
        assert value == pytest.approx(wanted[name], abs=1e-12), name


def market(seed: int = 0, n_query: int = 30, n_gallery: int = 400) -> dict[str, Any]:
    """Features of people with labels, some base gallery and distractors."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 25, n_gallery)
    label[n_gallery // 2 :] = -7  # distractors
    query_label = rng.integers(0, 25, n_query)
    centre = rng.normal(size=(40, 16))
    gallery = centre[label] + 1.2 * rng.normal(size=(n_gallery, 16))
    gallery[label == -7] = rng.normal(size=((label == -7).sum(), 16)) * 1.6
    query = centre[query_label] + 1.2 * rng.normal(size=(n_query, 16))
    right = query_label[:, None] == label[None, :]
    asked, item = np.nonzero(right)
    relevance = rve.Relevance.from_pairs(asked, item, n_query=n_query, n_gallery=n_gallery)
    scores = rve.Embeddings(query.astype(np.float32), gallery.astype(np.float32))
    return {"scores": scores, "relevance": relevance, "distractor": label == -7}


def test_size_0_and_the_full_pool_are_plain_runs() -> None:
    world = market()
    n = int(world["distractor"].sum())
    ranking = rve.rank(world["scores"], world["relevance"], strata=world["distractor"])
    curve = distractor_curve(ranking, [0, n], NAMES, base="False", pool="True")
    base = np.flatnonzero(~world["distractor"])
    queries = np.arange(ranking.n_query)
    asked, item = np.repeat(queries, np.diff(world["relevance"].offsets)), world["relevance"].item
    small = rve.rank(
        world["scores"].take(queries, base),
        rve.Relevance.from_pairs(asked, np.searchsorted(base, item), n_query=len(queries),
                                 n_gallery=len(base)),
    )  # fmt: skip
    for size, plain in ((0, small), (n, ranking)):
        values = rve.compute(plain, NAMES)
        rows = curve[curve["size"] == size]
        assert rows["gallery"].unique().tolist() == [len(base) + size]
        for name, value in zip(NAMES, rows["value"], strict=True):
            assert value == pytest.approx(values[name], abs=1e-12), name


def test_percentages_follow_the_gallery() -> None:
    world = market()
    n = int(world["distractor"].sum())
    ranking = rve.rank(world["scores"], world["relevance"], strata=world["distractor"])
    curve = distractor_curve(ranking, [0, 50, n], "R@2%", base="False", pool="True")
    assert curve["value"].iloc[-1] == pytest.approx(rve.compute(ranking, "R@2%")["R@2%"], abs=1e-12)
    fixed = distractor_curve(ranking, [50], "R@5", base="False", pool="True")
    assert curve["value"].iloc[1] == fixed["value"].iloc[0]  # 2 % of 250 are 5
    with pytest.raises(rve.NotCountedError, match="a gallery of one size for all queries"):
        distractor_curve(ranking, [50], "R@2%")


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.booleans())
def test_monotone_metrics_are_monotone_in_the_size(seed: int, own: bool) -> None:
    world = World(seed, n_base=5, n_pool=8)
    which: dict[str, Any] = {} if own else {"base": "base", "pool": "pool"}
    names = [name for name in NAMES if parse(name).monotone != "none"
             and (own or "divisor" not in name)]  # fmt: skip
    largest = read_pairs(world.ranking(), **which).largest_size
    curve = distractor_curve(world.ranking(), range(largest + 1), names, **which)
    for name, rows in curve.groupby("metric"):
        steps = np.diff(rows["value"])
        falls = parse(str(name)).monotone == "down"
        assert (steps <= 1e-12).all() if falls else (steps >= -1e-12).all(), name


def hypergeometric(pool: int, above: int, drawn: int, k: int) -> Fraction:
    return Fraction(math.comb(above, k) * math.comb(pool - above, drawn - k),
                    math.comb(pool, drawn))  # fmt: skip


def single(above: int, pool: int) -> rve.Ranking:
    """One query with one positive, `above` of `pool` negatives above it."""
    relevance = rve.Relevance.from_pairs([0], [above], n_query=1, n_gallery=pool + 1)
    scores = rve.ScoreMatrix(-np.arange(pool + 1.0)[None], higher_is_better=True)
    return rve.rank(scores, relevance)


@pytest.mark.parametrize(("above", "pool"), [(0, 9), (3, 9), (40, 3000), (1500, 3000), (2999, 3000),
                                             (3000, 3000)])  # fmt: skip
def test_large_pools_in_exact_fractions(above: int, pool: int) -> None:
    sizes = sorted({0, 1, 2, pool // 10, pool // 2, pool - 1, pool})
    names = ["mAP", "mAP(rule=trapezoid)", "CMC@1", "CMC@20", "MRR@7", "MeanR", "NDCG"]
    curve = distractor_curve(single(above, pool), sizes, names)
    table = {(row.size, row.metric): row.value for row in curve.itertuples()}
    for size in sizes:
        reach = range(max(0, above + size - pool), min(above, size) + 1)
        law = {k: hypergeometric(pool, above, size, k) for k in reach}
        wanted = {
            "mAP": sum(p / (1 + k) for k, p in law.items()),
            "mAP(rule=trapezoid)": sum(
                p * (Fraction(1, 1 + k) + (1 if k == 0 else 0)) / 2 for k, p in law.items()
            ),
            "CMC@1": law.get(0, Fraction(0)),
            "CMC@20": sum(p for k, p in law.items() if k < 20),
            "MRR@7": sum(p / (1 + k) for k, p in law.items() if k < 7),
            "MeanR": 1 + Fraction(size * above, pool),
        }
        for name, value in wanted.items():
            assert table[size, name] == pytest.approx(float(value), rel=1e-12, abs=1e-13), (size,
                                                                                            name)
        ndcg = math.fsum(float(p) / math.log2(2 + k) for k, p in law.items())
        assert table[size, "NDCG"] == pytest.approx(ndcg, abs=1e-12)


def test_rank_1_has_the_closed_form_at_a_large_pool() -> None:
    """C(N - a, n) / C(N, n), and E[1/(1 + A)] = (N+1)/((n+1)(a+1)) [1 - C(N-a,n+1)/C(N+1,n+1)]."""
    pool, above, drawn = 500_000, 37, 60_000
    none = math.prod(Fraction(pool - above - i, pool - i) for i in range(0))
    none = math.prod((Fraction(pool - drawn - i, pool - i) for i in range(above)), start=none)
    fewer = none * Fraction(pool - above - drawn, pool + 1)
    reciprocal = Fraction(pool + 1, (drawn + 1) * (above + 1)) * (1 - fewer)
    pairs = synthetic(np.array([above]), pool)
    curve = distractor_curve(pairs, [drawn], ["CMC@1", "MRR"])
    assert curve["value"].iloc[0] == pytest.approx(float(none), rel=1e-12)
    assert curve["value"].iloc[1] == pytest.approx(float(reciprocal), rel=1e-12)


def synthetic(above: npt.NDArray[np.int64], pool: int) -> rve.Ranking:
    """A ranking of queries with one positive each, made of counts alone."""
    from dataclasses import replace

    n = len(above)
    rows = np.arange(n)
    tiny = rve.rank(
        rve.ScoreMatrix(np.zeros((n, n + 1)), higher_is_better=True),
        rve.Relevance.from_pairs(rows, rows, n_query=n, n_gallery=n + 1),
    )
    zero = np.zeros((n, 1), np.uint32)
    return replace(tiny, n_unjudged=np.full((n, 1), pool), tied=zero, tied_before=zero,
                   above=above[:, None].astype(np.uint32))  # fmt: skip


# What cannot be answered


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("mAP@3(divisor=hits)", "ratio of two sums"),
        ("MedR", "a median"),
        ("TAR@FAR=0.1", "pools the scores"),
        ("CMC@1(by=camera)", "ranks groups"),
        ("CMC@1(radius=5)", "further radius"),
    ],
)
def test_metrics_without_a_form_are_refused_with_the_reason(metric: str, message: str) -> None:
    with pytest.raises(rve.NotCountedError, match=message):
        distractor_curve(World(0).ranking(), [1], metric)


def test_what_was_not_counted_is_refused() -> None:
    world = World(0)
    ranking = world.ranking()
    with pytest.raises(rve.NotCountedError, match=r"neither 'negatives' nor a stratum.*base, pool"):
        distractor_curve(ranking, [1], pool="camera")
    with pytest.raises(rve.NotCountedError, match="are in the base and in the pool"):
        distractor_curve(ranking, [1], base="base", pool=["base", "pool"])
    with pytest.raises(rve.NotCountedError, match="nothing is left for the pool"):
        distractor_curve(ranking, [1], base=["base", "pool"])
    with pytest.raises(rve.NotCountedError, match="beyond the pool is a forecast"):
        distractor_curve(ranking, [6], base="base", pool="pool")
    with pytest.raises(rve.NotCountedError, match="whole numbers from 0"):
        distractor_curve(ranking, [-1])
    with pytest.raises(rve.NotCountedError, match="rank with strata="):
        distractor_curve(single(1, 3), [1], pool="x")
    first = world.ranking(keep="first")
    assert len(distractor_curve(first, [1], "CMC@1")) == 1
    with pytest.raises(rve.NotCountedError, match="keep='all'"):
        distractor_curve(first, [1], "mAP")
    part = rve.rank(rve.ScoreMatrix(np.zeros((1, 3)), higher_is_better=True),
                    rve.Relevance.from_pairs([0], [0], n_query=1, n_gallery=3),
                    gallery_slice=(0, 2))  # fmt: skip
    with pytest.raises(rve.NotCountedError, match="merge"):
        distractor_curve(part, [1])


def test_ranked_lists_that_end_early_are_refused() -> None:
    relevance = rve.Relevance.from_pairs([0], [1], n_query=1, n_gallery=4)
    with pytest.raises(rve.NotCountedError, match="end before the gallery does"):
        distractor_curve(rve.rank(rve.RankedLists([[2, 1]]), relevance), [1])
    whole = rve.rank(rve.RankedLists([[2, 1, 0, 3]]), relevance)
    assert distractor_curve(whole, [3], "MRR")["value"].tolist() == [0.5]


def test_the_only_counted_positive_must_be_of_the_base() -> None:
    relevance = rve.Relevance.from_pairs([0, 0], [0, 1], n_query=1, n_gallery=4)
    scores = rve.ScoreMatrix([[0.9, 0.8, 0.5, 0.4]], higher_is_better=True)
    ranking = rve.rank(scores, relevance, strata=["a", "b", "b", "c"], keep="first")
    assert distractor_curve(ranking, [1], "CMC@1", base=["a", "b"], pool="c").value.tolist() == [1]
    with pytest.raises(rve.NotCountedError, match="outside the base"):
        distractor_curve(ranking, [1], "CMC@1", base="b", pool="c")
    blocks = rve.rank(scores, relevance, strata=["c", "b", "b", "c"], blocks=[0, 1, 2, 3],
                      keep="first")  # fmt: skip
    with pytest.raises(rve.NotCountedError, match="outside the base"):
        distractor_curve(blocks, [1], "CMC@1", base="b", pool="c", unit="blocks",
                         pool_positives="ignore")  # fmt: skip


def test_positives_in_the_pool_are_refused_kept_or_ignored() -> None:
    relevance = rve.Relevance.from_pairs([0, 0], [0, 2], n_query=1, n_gallery=5)
    scores = rve.ScoreMatrix([[0.9, 0.8, 0.7, 0.6, 0.5]], higher_is_better=True)
    ranking = rve.rank(scores, relevance, strata=["a", "a", "b", "b", "b"])
    with pytest.raises(rve.NotCountedError, match=r"1 positive lies in the pool.*gallery row 2"):
        distractor_curve(ranking, [1], base="a", pool="b")
    kept = distractor_curve(ranking, [0, 3], base="a", pool="b", pool_positives="keep")
    plain = rve.compute(ranking, "mAP")["mAP"]
    assert kept[kept.metric == "mAP"].value.tolist() == [(1 + 2 / 3) / 2, plain]
    gone = distractor_curve(ranking, [3], base="a", pool="b", pool_positives="ignore")
    assert gone[gone.metric == "mAP"].value.tolist() == [1.0]
    with pytest.raises(rve.NotCountedError, match="one of error, keep, ignore"):
        distractor_curve(ranking, [3], base="a", pool="b", pool_positives="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "wanted"), [("skip", 1.0), ("zero", 0.5), ("one", 1.0)])
def test_queries_without_a_positive_score_what_is_said(policy: Any, wanted: float) -> None:
    relevance = rve.Relevance.from_pairs([0], [0], n_query=2, n_gallery=3)
    scores = rve.ScoreMatrix([[0.9, 0.8, 0.7]] * 2, higher_is_better=True)
    ranking = rve.rank(scores, relevance)
    curve = distractor_curve(ranking, [0, 3], ["CMC@1", "MeanR"], no_positive=policy)
    assert curve[curve.metric == "CMC@1"].value.tolist() == [wanted, wanted]
    plain = rve.compute(ranking, "MeanR", no_positive=policy)["MeanR"]
    assert curve.value.iloc[-1] == plain
    with pytest.raises(rve.RelevanceError, match="no_positive is 'error'"):
        distractor_curve(ranking, [0], no_positive="error")


def test_wide_ignores_cut_strata_that_keep_their_names() -> None:
    """A query that drops a camera does not count its rows, but they are in N."""
    wide = np.array([0, 1, 0, 1])
    from dataclasses import replace

    relevance = rve.Relevance.from_pairs([0], [0], n_query=1, n_gallery=4)
    relevance = replace(relevance, wide=wide, kept=np.array([[True, False]]))
    scores = rve.ScoreMatrix([[0.5, 0.9, 0.8, 0.7]], higher_is_better=True)
    ranking = rve.rank(scores, relevance, strata=["a", "b", "b", "b"])
    pairs = read_pairs(ranking, "a", "b")
    assert (pairs.pool_size.tolist(), pairs.pool_kept.tolist(), pairs.above.tolist()) == (
        [3], [1], [1])  # fmt: skip
    curve = distractor_curve(ranking, [1], "CMC@1", base="a", pool="b")
    assert curve.value.iloc[0] == pytest.approx(2 / 3)
    with pytest.raises(rve.NotCountedError, match="depends on which are drawn"):
        distractor_curve(ranking, [1], "P@3(divisor=retrieved)", base="a", pool="b")


def test_counts_by_stratum_add_up() -> None:
    world = World(5, n_query=4, n_pool=9)
    names = np.array(["base", "p0", "p1", "p2"])
    code = np.where(world.stratum == "base", 0, 1 + np.arange(len(world.stratum)) % 3)
    world.stratum = names[code]
    pairs = read_pairs(world.ranking(), "base", ["p0", "p1", "p2"], by_stratum=True)
    assert pairs.above_in is not None
    assert pairs.pool_tied_in is not None
    assert (pairs.above_in.sum(axis=1) == pairs.above).all()
    assert (pairs.pool_tied_in.sum(axis=1) == pairs.pool_tied).all()
    one = read_pairs(world.ranking(), "base", "p1")
    assert (pairs.above_in[:, 1] == one.above).all()
    assert (pairs.pool_tied_in[:, 1] == one.pool_tied).all()


# Variances of single queries


@pytest.mark.parametrize("name", [name for name in NAMES if "retrieved" not in name])
def test_the_variance_of_a_query_equals_that_over_every_draw(name: str) -> None:
    world = World(21, n_query=2)
    rng = np.random.default_rng(2)
    world.score = rng.permuted(np.tile(np.arange(9.0), (2, 1)), axis=1)  # no ties
    ranking = world.ranking()
    base = np.flatnonzero(world.stratum == "base").tolist()
    pool = np.flatnonzero(world.stratum == "pool").tolist()
    for size in (1, 3, 5):
        values = []
        for draw in itertools.combinations(pool, size):
            items = np.array(sorted([*base, *draw]))
            part = World.__new__(World)
            part.stratum, part.score, part.role = (
                world.stratum[items], world.score[:, items], world.role[:, items]
            )  # fmt: skip
            values.append(rve.compute(part.ranking(), name).per_query(name))
        found = query_variances(ranking, name, size, base="base", pool="pool")
        assert found == pytest.approx(np.var(values, axis=0), abs=1e-12)
