"""Hard pools: own strata, the hardest first, and what each stratum costs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.ranking.strata import random_strata
from reid_vpr_eval.studies.distractors import distractor_curve
from reid_vpr_eval.studies.distractors.hard import envelope, hurt_by_stratum, within_own_strata

NAMES = [
    "CMC@1", "CMC@3", "IR-recall@2", "P@2", "mAP", "mAP(rule=trapezoid)", "mAP@3(divisor=min)",
    "mINP", "MRR", "R-precision", "MAP@R", "NDCG", "NDCG@3", "MeanR",
]  # fmt: skip


class World:
    """Few scores, so that much ties; three cameras; ignored and judged items."""

    def __init__(self, seed: int, n_query: int = 3, n: int = 11, levels: int = 5) -> None:
        rng = np.random.default_rng(seed)
        self.score = rng.integers(0, levels, (n_query, n)).astype(float)
        self.role = rng.choice([9, 9, 9, 9, 1, -1, 0], self.score.shape)
        self.role[:, 0] = 1
        self.camera = rng.integers(1, 4, n)
        self.own = rng.integers(1, 4, n_query)

    def ranking(self, rows: Any = slice(None), strata: Any = None, query: Any = None) -> Any:
        some = slice(None) if query is None else slice(query, query + 1)
        score, role = self.score[some][:, rows], self.role[some][:, rows]
        asking, item = np.nonzero(role != 9)
        value = role[asking, item]
        relevance = rve.Relevance.from_pairs(
            asking, item, grade=(value == 1).astype(float), ignored=value == -1,
            n_query=score.shape[0], n_gallery=score.shape[1],
        )  # fmt: skip
        return rve.rank(rve.ScoreMatrix(score, higher_is_better=True), relevance, strata=strata)

    def pool(self, query: int) -> list[int]:
        return np.flatnonzero(np.isin(self.role[query], (0, 9))).tolist()

    def values(self, query: int, rows: Any) -> Any:
        """All metrics of one query on some rows."""
        found = rve.compute(self.ranking(np.sort(rows), query=query), NAMES)
        return np.array([found[name] for name in NAMES])


@pytest.mark.parametrize("seed", range(2))
def test_the_hardest_first_equal_runs_on_them(seed: int) -> None:
    """Literally: the n best scored negatives of each query, ahead of what they tie with."""
    world = World(seed)
    apart = World(seed)
    for query in range(3):  # pool items come before all that they tie with
        apart.score[query, world.pool(query)] += 0.5
    sizes = range(max(len(world.pool(query)) for query in range(3)) + 1)
    curve = envelope(world.ranking(), sizes, NAMES)

    def rows(query: int, size: int) -> list[int]:
        best = sorted(world.pool(query), key=lambda i: -world.score[query, i])[:size]
        return [*np.flatnonzero(world.role[query] == 1).tolist(), *best]

    for size in sizes:
        wanted = np.mean([apart.values(query, rows(query, size)) for query in range(3)], axis=0)
        got = curve.loc[curve["size"] == size, "value"].to_numpy()
        assert got == pytest.approx(wanted, abs=1e-12), size
    assert curve["kind"].eq("hardest").all()


@pytest.mark.parametrize("own", [True, False])
def test_no_draw_does_worse_or_better(own: bool) -> None:
    """Without ties the envelope is the worst of all draws, and the best."""
    world = World(5, n_query=1, n=7, levels=10**6)
    which: dict[str, Any] = {}
    base, pool = np.flatnonzero(world.role[0] == 1), world.pool(0)
    if not own:
        world.role[0, 4:] = np.where(world.role[0, 4:] == 1, 9, world.role[0, 4:])
        which = {"base": "base", "pool": "more"}
        base, pool = np.arange(4), list(range(4, 7))
    strata = np.where(np.isin(np.arange(7), pool), "more", "base")
    ranking = world.ranking(strata=strata)
    for size in range(len(pool) + 1):
        found = [rve.compute(world.ranking(np.sort([*base, *draw])), NAMES)
                 for draw in itertools.combinations(pool, size)]  # fmt: skip
        worst, best = (envelope(ranking, [size], NAMES, order=order, **which)["value"].tolist()
                       for order in ("hardest", "easiest"))
        for name, low, high in zip(NAMES, worst, best, strict=True):
            values = [one[name] for one in found]
            ends = (min(values), max(values)) if name != "MeanR" else (max(values), min(values))
            assert (low, high) == pytest.approx(ends, abs=1e-12), (name, size)


def test_envelopes_hold_the_mean_and_never_rise() -> None:
    world = World(9, n_query=6, n=40)
    ranking = world.ranking()
    mean, worst, best = (
        distractor_curve(ranking, None, NAMES), envelope(ranking, None, NAMES),
        envelope(ranking, None, NAMES, order="easiest"),
    )  # fmt: skip
    assert (mean["gallery"] == worst["gallery"]).all()
    for name, rows in mean.groupby("metric"):
        sign = -1 if name == "MeanR" else 1
        value, low, high = (sign * table.loc[rows.index, "value"].to_numpy()
                            for table in (mean, worst, best))  # fmt: skip
        assert (low <= value + 1e-12).all()
        assert (value <= high + 1e-12).all()
        assert (np.diff(low) <= 1e-12).all()


def test_own_strata_equal_every_draw_from_them() -> None:
    """Distractors of the query's own camera; positives of any camera stay."""
    world = World(3)
    with_own = within_own_strata(world.ranking(strata=world.camera), world.own.tolist())
    pools = [[i for i in world.pool(query) if world.camera[i] == world.own[query]]
             for query in range(3)]  # fmt: skip
    sizes = range(max(map(len, pools)) + 1)
    curve = distractor_curve(with_own, sizes, NAMES)
    for size in sizes:
        wanted = np.zeros(len(NAMES))
        for query, pool in enumerate(pools):
            base = np.flatnonzero(world.role[query] == 1).tolist()
            draws = itertools.combinations(pool, min(size, len(pool)))
            wanted += np.mean([world.values(query, [*base, *draw]) for draw in draws], axis=0) / 3
        got = curve.loc[curve["size"] == size, "value"].to_numpy()
        assert got == pytest.approx(wanted, abs=1e-12), size


def test_a_query_without_rows_of_its_own_keeps_its_positives() -> None:
    world = World(3)
    ranking = world.ranking(strata=world.camera)
    with pytest.warns(rve.EvaluationWarning, match="1 query has values that no gallery row"):
        own = within_own_strata(ranking, [*world.own[:2].tolist(), 77])
    curve = distractor_curve(own, None, ["mAP"])
    assert curve["value"].iloc[0] == 1
    with pytest.raises(rve.NotCountedError, match="rank with strata= the gallery column"):
        within_own_strata(ranking, [77, 77, 77])
    with pytest.raises(rve.AlignmentError, match="2 values for 3 queries"):
        within_own_strata(ranking, [1, 2])


def test_what_strata_cost() -> None:
    """By hand: a query, its positive, two hard items of a city and four easy ones of another.

    One hard item makes rank 2 of rank 1 and MRR 1/2 of 1; both make 1/3. Easy ones cost
    nothing.
    """
    relevance = rve.Relevance.from_pairs([0], [2], n_query=1, n_gallery=7)
    scores = rve.ScoreMatrix([[9.0, 8, 5, 4, 3, 2, 1]], higher_is_better=True)
    city = np.array(["x", "x", "y", "y", "y", "y", "y"])
    ranking = rve.rank(scores, relevance, strata=city)
    table = hurt_by_stratum(ranking, ["MRR", "MeanR"])
    assert table["stratum"].tolist() == ["x", "y"] * 2
    assert table["rows"].tolist() == [2, 5] * 2
    wanted = [[1 / 2, 1 / 3, 1 / 3], [0, 0, 0], [1, 1, 1], [0, 0, 0]]
    assert table[["first", "each", "last"]].to_numpy() == pytest.approx(np.array(wanted), abs=1e-12)
    dealt = rve.rank(scores, relevance, strata=random_strata(city, 2))
    again = hurt_by_stratum(dealt, ["MRR", "MeanR"])
    assert np.allclose(again[["first", "each", "last"]], table[["first", "each", "last"]])
    with pytest.raises(rve.NotCountedError, match="lies in one stratum"):
        hurt_by_stratum(rve.rank(scores, relevance))


def test_envelopes_say_what_they_cannot_do() -> None:
    ranking = World(0).ranking()
    with pytest.raises(rve.NotCountedError, match="one of hardest, easiest"):
        envelope(ranking, order="worst")  # type: ignore[arg-type]
    with pytest.raises(rve.NotCountedError, match="give the cut-off as a number"):
        envelope(ranking, metrics="R@1%")
    with pytest.raises(rve.NotCountedError, match="cannot be drawn from a pool"):
        envelope(ranking, [99])
    with pytest.raises(rve.NotCountedError, match="neither 'negatives' nor a stratum"):
        distractor_curve(ranking, [1], pool="camera")


def test_hard_pools_from_the_command_line(tmp_path: Any) -> None:
    from typer.testing import CliRunner

    from reid_vpr_eval.cli import app

    rng = np.random.default_rng(0)
    for side, n in (("q", 8), ("g", 60)):
        label, camera = rng.integers(0, 5, n), rng.integers(1, 4, n)
        centre = np.random.default_rng(1).normal(size=(5, 6))
        np.save(tmp_path / f"{side}.npy", centre[label] + rng.normal(size=(n, 6)))
        rows = [f"{side}{i},{label[i]},{camera[i]},{label[i]}-{i % 2}" for i in range(n)]
        (tmp_path / f"{side}.csv").write_text("\n".join(["id,label,camera,pano", *rows]))
    given = [str(tmp_path / name) for name in ("q.csv", "g.csv", "q.npy", "g.npy", "run")]
    options = ["--query", "--gallery", "--query-features", "--gallery-features", "--out"]
    call = [part for pair in zip(options, given, strict=True) for part in pair]
    runner = CliRunner()
    made = runner.invoke(app, ["run", "labels", *call, "--strata", "camera", "--blocks", "pano",
                               "--no-report"])  # fmt: skip
    assert made.exit_code == 0, made.output
    swept = runner.invoke(app, [
        "sweep", given[-1], "--sizes", "0,5,all", "--metric", "mAP", "--own", "camera",
        "--hardest", "--by-stratum", "--out", str(tmp_path / "sweep"),
    ])  # fmt: skip
    assert swept.exit_code == 0, swept.output
    for word in ("run, own camera: exact", "run, hardest first: each query's hardest",
                 "loss for each 1,000 items"):  # fmt: skip
        assert word in swept.output
    table = (tmp_path / "sweep" / "strata.csv").read_text()
    assert table.startswith("model,stratum,rows,metric,first,each,last\n")
    blocks = runner.invoke(app, ["sweep", given[-1], "--sizes", "0,2", "--unit", "blocks"])
    assert blocks.exit_code == 0, blocks.output
    assert "whole blocks" in blocks.output
    wrong = runner.invoke(app, ["sweep", given[-1], "--own", "scene"])
    assert wrong.exit_code == 1
    assert "has no column 'scene'" in wrong.output
