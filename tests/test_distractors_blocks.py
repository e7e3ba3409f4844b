"""Distractors drawn in blocks, against every draw of blocks and numbers worked by hand."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest

import oracles
import reid_vpr_eval as rve
from reid_vpr_eval.metrics import METRICS, parse
from reid_vpr_eval.studies.distractors import block_law, distractor_curve
from reid_vpr_eval.studies.distractors.block_law import BlockLaw
from reid_vpr_eval.studies.distractors.blocks import read_blocks

NAMES = [
    "CMC@1", "CMC@2", "CMC@3(shots=all)", "IR-recall@2", "P@2", "P@3(divisor=last)", "mAP",
    "mAP@3", "mAP@3(divisor=min)", "mAP@3(divisor=k)", "mAP(rule=trapezoid)",
    "mAP@3(rule=trapezoid)", "mINP", "MRR", "MRR@2", "R-precision", "MAP@R", "NDCG", "NDCG@2",
    "NDCG@3(gain=exponential)", "MeanR",
]  # fmt: skip


class World:
    """A few queries on a small gallery in blocks, with few distinct scores."""

    def __init__(self, seed: int, levels: int = 4, n_blocks: int = 6, n_base: int = 2) -> None:
        rng = np.random.default_rng(seed)
        self.block = np.repeat(np.arange(n_blocks), rng.integers(1, 4, n_blocks))
        n = len(self.block)
        in_base = self.block < n_base
        self.stratum = np.where(in_base, "base", "pool")
        self.score = rng.integers(0, levels, (2, n)).astype(float)
        self.role = rng.choice([0, 0, 0, 0, -1, 2], (2, n))  # 2: a negative that is judged
        self.role[:, in_base] = rng.choice([0, 1, 1, -1, 2], (2, in_base.sum()))
        self.role[:, 0] = 1
        order = rng.permutation(n)
        self.block, self.stratum = self.block[order], self.stratum[order]
        self.score, self.role = self.score[:, order], self.role[:, order]

    def ranking(self, **options: Any) -> rve.Ranking:
        query, item = np.nonzero(self.role)
        role = self.role[query, item]
        relevance = rve.Relevance.from_pairs(
            query, item, grade=(role == 1).astype(float), ignored=role == -1,
            n_query=len(self.role), n_gallery=self.role.shape[1],
        )  # fmt: skip
        scores = rve.ScoreMatrix(self.score, higher_is_better=True)
        options = {"strata": self.stratum, "blocks": self.block, **options}
        return rve.rank(scores, relevance, **options)

    def draws(self, query: int, size: int, *, own: bool) -> list[np.ndarray[Any, Any]]:
        """The items of the gallery for every draw of so many blocks."""
        role = self.role[query]
        if own:
            held = {*self.block[role == 1].tolist()}
            pool = {*self.block[role != -1].tolist()} - held
        else:
            held, pool = ({*self.block[self.stratum == s].tolist()} for s in ("base", "pool"))
        drawn = itertools.combinations(sorted(pool), min(size, len(pool)))
        return [np.flatnonzero(np.isin(self.block, [*held, *some])) for some in drawn]

    def groups(self, query: int, items: Any) -> list[list[bool]]:
        kept = [i for i in items if self.role[query, i] != -1]
        levels = sorted({self.score[query, i] for i in kept}, reverse=True)
        return [[bool(self.role[query, i] == 1) for i in kept if self.score[query, i] == level]
                for level in levels]  # fmt: skip

    def expected(self, name: str, size: int, *, own: bool) -> Fraction | float:
        values = []
        for query in range(len(self.role)):
            found = [oracles.expected(name, self.groups(query, items))
                     for items in self.draws(query, size, own=own)]  # fmt: skip
            values.append(sum(found, start=Fraction(0)) / len(found))
        return sum(values, start=Fraction(0)) / len(values)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("seed", "levels"), [(0, 4), (1, 4), (2, 2), (3, 50), (4, 1)])
def test_every_draw_of_blocks_enumerated_in_exact_fractions(
    seed: int, levels: int, own: bool
) -> None:
    """With ties inside blocks, across blocks and with the base; ignored and judged items."""
    world = World(seed, levels, n_blocks=6 if levels > 1 else 4)
    which: dict[str, Any] = {} if own else {"base": ["base"], "pool": ["pool"]}
    sizes = list(range(read_blocks(world.ranking(), **which).largest_size + 1))
    curve = distractor_curve(world.ranking(), sizes, NAMES, unit="blocks", **which)
    assert len(curve) == len(sizes) * len(NAMES)
    for name, size, value in zip(curve["metric"], curve["size"], curve["value"], strict=True):
        wanted = world.expected(name, size, own=own)
        assert value == pytest.approx(float(wanted), abs=1e-12), (name, size)


def test_every_metric_of_curves_of_items_is_there() -> None:
    means = {name for name, entry in METRICS.items() if entry.aggregate == "mean"}
    assert {parse(name).name for name in NAMES} == means - {"rsum"}


@pytest.mark.parametrize("size", [0, 3])
def test_sizes_zero_and_the_whole_pool_are_plain_runs(size: int) -> None:
    world = World(7, 5, n_blocks=5)
    curve = distractor_curve(world.ranking(), [size], NAMES, base="base", pool="pool",
                             unit="blocks")  # fmt: skip
    items = np.flatnonzero((world.stratum == "base") | (size > 0))
    part = World.__new__(World)
    part.block, part.stratum = world.block[items], world.stratum[items]
    part.score, part.role = world.score[:, items], world.role[:, items]
    wanted = rve.compute(part.ranking(), NAMES)
    for name, value in zip(curve["metric"], curve["value"], strict=True):
        assert value == pytest.approx(wanted[name], abs=1e-12), name
    assert curve["gallery"].eq(2 + size).all()


def test_blocks_of_one_item_are_items() -> None:
    world = World(8)
    n = len(world.block)
    world.role[world.role == -1] = 0
    ranking = world.ranking(blocks=np.arange(n), strata=None)
    items = distractor_curve(ranking, [0, 1, 2, 5], NAMES)
    blocks = distractor_curve(ranking, [0, 1, 2, 5], NAMES, unit="blocks")
    assert np.allclose(items["value"], blocks["value"], rtol=0, atol=1e-12)
    assert (items["gallery"] == blocks["gallery"]).all()


def test_worked_by_hand() -> None:
    """Three images; one has two captions above the right one, one has one, one has none.

    One drawn: rank 3, 2, 1, so CMC@1 = 1/3 and MRR = (1/3 + 1/2 + 1) / 3. Two drawn: ranks
    4, 3, 2, so MRR = (1/4 + 1/3 + 1/2) / 3.
    """
    scores = rve.ScoreMatrix([[9.0, 8, 3, 7, 1, 0, 0, 5]], higher_is_better=True)
    relevance = rve.Relevance.from_pairs([0], [7], n_query=1, n_gallery=8)
    ranking = rve.rank(scores, relevance, blocks=[1, 1, 1, 2, 2, 3, 3, 4])
    curve = distractor_curve(ranking, [1, 2], ["CMC@1", "CMC@2", "MRR"], unit="blocks")
    wanted = [1 / 3, 2 / 3, (1 / 3 + 1 / 2 + 1) / 3, 0, 1 / 3, (1 / 4 + 1 / 3 + 1 / 2) / 3]
    assert curve["value"].tolist() == pytest.approx(wanted, abs=1e-15)
    assert curve["gallery"].tolist() == [2, 2, 2, 3, 3, 3]


def test_it_never_rises() -> None:
    world = World(3, 30, n_blocks=9)
    curve = distractor_curve(world.ranking(), None, NAMES, unit="blocks")
    for name, rows in curve.groupby("metric"):
        step = np.diff(rows["value"])
        if METRICS[parse(str(name)).name].monotone == "down":
            assert (step <= 1e-12).all(), name
        assert (step <= 1e-12).all() or (step >= -1e-12).all()


def exact_law(pool: int, classes: list[tuple[int, int, int]], drawn: int) -> dict[Any, Fraction]:
    """The law from the generating function, expanded term by term in whole numbers."""
    ways = {(0, 0, 0): 1}
    for above, tied, count in [*classes, (0, 0, pool - sum(m for *_, m in classes))]:
        grown: dict[tuple[int, int, int], int] = {}
        for (k, s, t), number in ways.items():
            for i in range(count + 1):
                key = (k + i, s + above * i, t + tied * i)
                grown[key] = grown.get(key, 0) + number * comb(count, i)
        ways = grown
    total = comb(pool, drawn)
    return {(s, t): Fraction(n, total) for (k, s, t), n in ways.items() if k == drawn}


@pytest.mark.parametrize("likely", [False, True])
@pytest.mark.parametrize("reach", [None, 3])
def test_the_law_equals_its_generating_function(
    likely: bool, reach: int | None, monkeypatch: Any
) -> None:
    if likely:
        monkeypatch.setattr(block_law, "_WHOLE", -1)
    rng = np.random.default_rng(0)
    for _ in range(10):
        found = {(int(c), int(t)): int(rng.integers(1, 5)) for c, t in rng.integers(0, 4, (3, 2))}
        classes = [(c, t, m) for (c, t), m in found.items() if c + t]
        pool = sum(m for *_, m in classes) + int(rng.integers(1, 4))
        columns = [np.array([one[i] for one in classes], int) for i in range(3)]
        laws = BlockLaw(pool, *columns).at(range(pool + 1), reach)
        for drawn, law in enumerate(laws):
            wanted = exact_law(pool, classes, drawn)
            got = {(law.low + i, law.tied + j): p for (i, j), p in np.ndenumerate(law.chance)}
            for key in {*wanted, *got}:
                if reach is None or key[0] <= reach:
                    assert got.get(key, 0) == pytest.approx(float(wanted.get(key, 0)), abs=1e-14)


def test_large_pools_agree_whichever_way() -> None:
    """Thousands of blocks: cut at few items above, and only what is likely."""
    counts = np.array([700, 250, 90, 40, 10])
    law = BlockLaw(5000, np.arange(1, 6), np.zeros(5, int), counts)
    for drawn in (30, 200):
        near, whole = law.at([drawn], 40)[0], law.at([drawn])[0]
        assert whole.chance.sum() == pytest.approx(1, abs=1e-13)
        assert near.chance[whole.low :, 0] == pytest.approx(
            whole.chance[: len(near.chance) - whole.low, 0], abs=1e-13
        )
        mean = (whole.low + np.arange(len(whole.chance))) @ whole.chance[:, 0]
        assert mean == pytest.approx(drawn * (counts @ np.arange(1, 6)) / 5000, rel=1e-12)
    assert math.isclose(law.at([5000])[0].chance.sum(), 1)


def test_bad_input() -> None:
    world = World(0)
    plain = world.ranking(blocks=None)
    with pytest.raises(rve.NotCountedError, match=r"rank with blocks= \(--blocks COLUMN\)"):
        distractor_curve(plain, [1], unit="blocks")
    with pytest.raises(rve.NotCountedError, match="one of items, blocks"):
        distractor_curve(plain, [1], unit="captions")  # type: ignore[arg-type]
    with pytest.raises(rve.NotCountedError, match="goes with pool='negatives'"):
        distractor_curve(world.ranking(), [1], pool="pool", unit="blocks")
    with pytest.raises(rve.NotCountedError, match="cannot be drawn from a pool of 4"):
        distractor_curve(world.ranking(), [5], base="base", pool="pool", unit="blocks")
    mixed = world.ranking(blocks=np.arange(len(world.block)) % 2)
    with pytest.raises(rve.NotCountedError, match="a block is drawn whole"):
        distractor_curve(mixed, [0], base="base", pool="pool", unit="blocks")
    with pytest.raises(rve.NotCountedError, match="take divisor=k"):
        distractor_curve(World(1).ranking(), [1], ["P@9(divisor=min)"], unit="blocks")
    world.role[0, np.flatnonzero(world.stratum == "pool")[0]] = 1
    with pytest.raises(rve.NotCountedError, match="lies in blocks of the pool"):
        distractor_curve(world.ranking(), [0], base="base", pool="pool", unit="blocks")
