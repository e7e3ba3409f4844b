"""Comparing runs: what is compared, what is refused, and that the numbers are those of the runs."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import reid_vpr_eval as rve
from reid_vpr_eval.errors import (
    AlignmentError,
    FormatError,
    InputNotFoundError,
    NotCountedError,
    ProtocolError,
)
from reid_vpr_eval.studies.comparison import Comparison

N_QUERY, N_GALLERY, N_LABELS = 60, 150, 15


def sides(n_query: int = N_QUERY, **more: Any) -> tuple[rve.Samples, rve.Samples]:
    query, gallery = np.arange(n_query), np.arange(N_GALLERY)
    return (
        rve.Samples.from_columns(
            id=[f"q{i:03}" for i in query], label=query % N_LABELS, camera=query % 2, **more
        ),
        rve.Samples.from_columns(
            id=[f"g{i:03}" for i in gallery], label=gallery % N_LABELS, camera=gallery % 3
        ),
    )


def model(
    seed: int,
    noise: float = 1.0,
    *,
    order: Any = None,
    protocol: Any = "labels",
    n_query: int = N_QUERY,
    round_to: int | None = None,
    **options: Any,
) -> rve.Result:
    """Return a result: the same queries and gallery for every seed."""
    query, gallery = sides(n_query)
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(N_LABELS, 8))
    vectors = [centres[side.values("label")] + noise * rng.normal(size=(side.n, 8))
               for side in (query, gallery)]  # fmt: skip
    if round_to is not None:
        vectors = [np.round(one, round_to) + 1e-3 for one in vectors]
    if order is not None:
        query, vectors[0] = query.take(order), vectors[0][order]
    if isinstance(protocol, str):
        protocol = rve.load_protocol(protocol)
    return rve.evaluate(protocol, query, gallery, rve.Embeddings(*vectors), **options)


@pytest.fixture(scope="module")
def runs() -> list[rve.Result]:
    return [model(1, 1.2), model(2, 1.0), model(3, 0.8)]


@pytest.fixture(scope="module")
def found(runs: list[rve.Result]) -> Comparison:
    made: Comparison = rve.compare(
        runs, ["mAP", "CMC@1"], names=["old", "new", "newest"], resamples=2000
    )
    return made


def test_values_are_those_of_the_runs(runs: list[rve.Result], found: Comparison) -> None:
    for name, run in zip(found.runs, runs, strict=True):
        for metric in ("mAP", "CMC@1"):
            assert found.value(name, metric).value == run.metrics[metric]
    one = found.difference("newest", metric="CMC@1")
    assert one.difference == runs[2].metrics["CMC@1"] - runs[0].metrics["CMC@1"]
    assert one.n_query == N_QUERY
    assert one.n_units == N_LABELS
    assert one.low is not None
    assert one.high is not None
    assert one.low < one.difference < one.high


def test_effects_and_shares_are_of_queries(runs: list[rve.Result], found: Comparison) -> None:
    ours, theirs = (run.per_query["ap"].to_numpy(float) for run in (runs[1], runs[0]))
    moved = ours - theirs
    one = found.difference("new")
    assert one.effect == pytest.approx(moved.mean() / moved.std(ddof=1))
    assert one.better == pytest.approx((moved > 1e-12).mean())
    assert one.worse == pytest.approx((moved < -1e-12).mean())
    hits = [run.per_query["first_rank"].to_numpy() == 1 for run in (runs[1], runs[0])]
    two = found.difference("new", metric="R@1")
    assert two.only_run == (hits[0] & ~hits[1]).sum()
    assert two.only_baseline == (~hits[0] & hits[1]).sum()
    assert two.p_mcnemar == pytest.approx(
        stats.binomtest(int(two.only_run or 0), int((hits[0] != hits[1]).sum())).pvalue
    )


def test_without_units_p_is_scipys(runs: list[rve.Result]) -> None:
    ours, theirs = (run.per_query["ap"].to_numpy(float) for run in (runs[1], runs[0]))
    expected = stats.permutation_test(
        (ours, theirs), lambda a, b, axis: np.mean(a - b, axis=axis), vectorized=True,
        permutation_type="samples", n_resamples=9999, rng=np.random.default_rng(0),
    ).pvalue  # fmt: skip
    found = rve.compare(runs[:2], "mAP", unit="query").difference("run 2")
    assert found.p == pytest.approx(expected, abs=3 * math.sqrt(2 * expected / 9999) + 1e-3)


def test_the_order_of_queries_changes_no_bit(runs: list[rve.Result], found: Comparison) -> None:
    order = np.random.default_rng(0).permutation(N_QUERY)
    shuffled = [model(1, 1.2, order=order), runs[1], model(3, 0.8, order=order[::-1])]
    again = rve.compare(shuffled, ["mAP", "CMC@1"], names=found.runs, resamples=2000)
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())
    pd.testing.assert_frame_equal(again.per_query, found.per_query)


def test_the_other_direction_is_the_same_with_the_other_sign(runs: list[rve.Result]) -> None:
    there = rve.compare(runs[:2], names=["a", "b"]).difference("b")
    back = rve.compare(runs[1::-1], names=["b", "a"]).difference("a")
    assert back.difference == -there.difference
    assert back.p == there.p
    assert (back.better, back.worse) == (there.worse, there.better)
    assert (back.low, back.high) == pytest.approx((-(there.high or 0), -(there.low or 0)))


def test_a_run_folder_is_the_result(
    runs: list[rve.Result], found: Comparison, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("old", "new", "newest")]
    for run, folder in zip(runs, folders, strict=True):
        run.save(folder)
    again = rve.compare([str(one) for one in folders], ["mAP", "R@1"], resamples=2000)
    assert again.runs == ("old", "new", "newest")
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())


@pytest.mark.parametrize("metric", ["mAP", "mINP", "MeanR", "MRR", "CMC@1", "R@5", "R@3%"])
def test_the_table_of_queries_is_enough_where_it_is_exact(
    runs: list[rve.Result], metric: str
) -> None:
    without = [replace(run, ranking=None) for run in runs[:2]]
    one, other = rve.compare(runs[:2], metric), rve.compare(without, metric)
    pd.testing.assert_frame_equal(one.per_query, other.per_query)
    assert one.differences == other.differences


@pytest.mark.parametrize("metric", ["P@5", "mAP@10", "NDCG", "R-precision"])
def test_what_the_table_does_not_say_is_refused(runs: list[rve.Result], metric: str) -> None:
    rve.compare(runs[:2], metric, resamples=10)
    without = [runs[0], replace(runs[1], ranking=None)]
    with pytest.raises(NotCountedError, match=r"run 2: .*needs the counts.*keep_ranking"):
        rve.compare(without, metric)


def test_hits_that_hang_on_the_order_of_equal_scores_are_refused() -> None:
    tied = [model(seed, 1.0, round_to=0) for seed in (1, 2)]
    assert tied[0].per_query["n_tied"].any()
    without = [replace(run, ranking=None) for run in tied]
    with pytest.raises(NotCountedError, match=r"depends on the order of equal scores"):
        rve.compare(without, "CMC@1")
    with pytest.raises(NotCountedError, match=r"with equal scores"):
        rve.compare(without, "MRR")
    one, other = rve.compare(tied, "mAP"), rve.compare(without, "mAP")
    assert one.differences == other.differences


def test_a_smaller_rank_is_better(runs: list[rve.Result]) -> None:
    by_rank = rve.compare([runs[0], runs[2]], "MeanR", names=["old", "new"])
    one = by_rank.difference("new")
    assert one.difference < 0
    assert one.better is not None
    assert one.worse is not None
    assert one.better > one.worse
    if one.significant:
        assert by_rank.value("new").beats == ("a",)
    assert set(by_rank.changed(3)["way"]) == {"better", "worse"}
    better = by_rank.changed(3).query("way == 'better'")
    assert (better["difference"] < 0).all()


def test_queries_that_changed_most_are_listed_both_ways(found: Comparison) -> None:
    table = found.changed(4, run="newest", metric="mAP")
    moved = found.per_query["mAP:newest"] - found.per_query["mAP:old"]
    better, worse = table[table["way"] == "better"], table[table["way"] == "worse"]
    assert better["difference"].tolist() == sorted(moved[moved > 0], reverse=True)[:4]
    assert worse["difference"].tolist() == sorted(moved[moved < 0])[:4]
    row = better.iloc[0]
    assert row["run"] - row["baseline"] == row["difference"]
    assert row["query_id"] == found.per_query["query_id"].iloc[int(moved.to_numpy().argmax())]
    assert {"unit", "label"} <= set(table.columns)


def test_all_pairs_up_to_six_and_the_first_beyond(runs: list[rve.Result]) -> None:
    many = [runs[i % 3] for i in range(7)]
    assert len(rve.compare(many, resamples=10).differences) == 6
    assert len(rve.compare(many[:6], resamples=10).differences) == 15
    assert len(rve.compare(many[:4], resamples=10, pairs="first").differences) == 3
    assert len(rve.compare(many, resamples=10, pairs="all").differences) == 21


def test_corrections_never_make_p_smaller(runs: list[rve.Result]) -> None:
    frames = {word: rve.compare(runs, correction=word).to_frame()
              for word in ("none", "holm", "max-t")}  # fmt: skip
    plain = frames["none"]["p_corrected"]
    assert (plain == frames["none"]["p"]).all()
    assert (frames["holm"]["p_corrected"] >= plain).all()
    assert (frames["max-t"]["p_corrected"] >= plain).all()
    assert (frames["max-t"]["p_corrected"] <= frames["holm"]["p_corrected"] + 0.02).all()


class TestSeeds:
    """Runs of one model are averaged, and their spread is no interval."""

    def test_values_are_averaged_by_query(self, runs: list[rve.Result]) -> None:
        seeds = [model(seed, 1.0) for seed in (11, 12, 13)]
        found = rve.compare({"old": runs[0], "new": seeds}, "mAP")
        expected = np.mean([run.per_query["ap"] for run in seeds], axis=0)
        assert found.per_query["mAP:new"].to_numpy() == pytest.approx(expected, abs=1e-15)
        one = found.value("new")
        means = [run.metrics["mAP"] for run in seeds]
        assert one.value == pytest.approx(np.mean(means))
        assert one.sd_runs == pytest.approx(np.std(means, ddof=1))
        assert one.n_runs == 3
        assert found.value("old").sd_runs is None
        text = str(found)
        assert "SD over runs" in text
        assert f"{100 * float(np.std(means, ddof=1)):.2f} (3 runs)" in text
        assert "±" not in text
        assert "and no interval" in " ".join(text.split())

    def test_equal_names_are_one_model(self, runs: list[rve.Result]) -> None:
        one = rve.compare(runs, names=["a", "b", "b"])
        other = rve.compare([runs[0], runs[1:]], names=["a", "b"])
        assert one.differences == other.differences
        assert len(one.runs) == 2

    def test_the_order_of_seeds_changes_nothing(self, runs: list[rve.Result]) -> None:
        one = rve.compare({"a": runs[:2], "b": runs[2]})
        other = rve.compare({"a": runs[1::-1], "b": runs[2]})
        assert one.differences == other.differences

    def test_one_name_for_all_is_no_comparison(self, runs: list[rve.Result]) -> None:
        with pytest.raises(AlignmentError, match=r"one is given \('a', 3 runs\)"):
            rve.compare(runs, names=["a", "a", "a"])


class TestRefused:
    """Runs that differ in what they should not are refused, and it is said how."""

    def test_another_judging(self, runs: list[rve.Result]) -> None:
        other = model(1, protocol=rve.load_protocol("market1501"), expected="ignore")
        with pytest.raises(AlignmentError, match=r"judged differently") as caught:
            rve.compare([runs[0], other])
        assert runs[0].protocol.judging_hash[:12] in str(caught.value)
        assert "relevance.different" in str(caught.value)
        assert "--force" in str(caught.value)
        forced = rve.compare([runs[0], other], force=True)
        assert forced.settings.forced
        assert "FORCED" in str(forced)
        assert any("judged differently" in note for note in forced.notes)

    def test_other_queries(self, runs: list[rve.Result]) -> None:
        fewer = model(2, n_query=50)
        with pytest.raises(AlignmentError, match=r"query sets differ: 10 of .*'s 60 are not in"):
            rve.compare([runs[0], fewer])
        found = rve.compare([runs[0], fewer], force=True)
        assert found.difference("run 2").n_query == 50
        assert found.value("run 1").value == pytest.approx(runs[0].per_query["ap"][:50].mean())
        assert any("the run itself reports" in note for note in found.notes)
        assert any("the 50 queries that all runs have" in note for note in found.notes)

    def test_no_query_in_common_even_if_forced(self, runs: list[rve.Result]) -> None:
        table = runs[1].per_query.assign(query_id=[f"x{i}" for i in range(N_QUERY)])
        other = replace(runs[1], per_query=table, inputs={**runs[1].inputs, "query": "x",
                                                          "query_in_any_order": "x"})  # fmt: skip
        with pytest.raises(AlignmentError, match=r"60 of .*'s 60 are not in"):
            rve.compare([runs[0], other])
        with pytest.raises(AlignmentError, match=r"no query in common"):
            rve.compare([runs[0], other], force=True)

    def test_another_gallery(self, runs: list[rve.Result]) -> None:
        query, gallery = sides()
        rng = np.random.default_rng(0)
        part = gallery.take(np.arange(140))
        scores = rve.Embeddings(rng.normal(size=(N_QUERY, 8)), rng.normal(size=(140, 8)))
        other = rve.evaluate("labels", query, part, scores)
        with pytest.raises(AlignmentError, match=r"galleries differ: n_gallery 150 and 140"):
            rve.compare([runs[0], other])
        assert rve.compare([runs[0], other], force=True).settings.forced

    def test_another_gallery_of_the_same_size(self, runs: list[rve.Result]) -> None:
        inputs = {**runs[1].inputs, "gallery": "f" * 64, "gallery_in_any_order": "f" * 64}
        with pytest.raises(AlignmentError, match=r"both have 150 rows, but not the same content"):
            rve.compare([runs[0], replace(runs[1], inputs=inputs)])

    def test_a_gallery_in_another_order_is_the_same(self, runs: list[rve.Result]) -> None:
        inputs = {**runs[1].inputs, "gallery": "f" * 64}
        rve.compare([runs[0], replace(runs[1], inputs=inputs)], resamples=10)

    def test_other_columns_of_the_same_queries_are_no_difference(
        self, runs: list[rve.Result]
    ) -> None:
        inputs = {**runs[1].inputs, "query": "f" * 64, "query_in_any_order": "e" * 64}
        rve.compare([runs[0], replace(runs[1], inputs=inputs)], resamples=10)
        table = runs[1].per_query.assign(label=0)
        with pytest.raises(AlignmentError, match=r"differ in label of 56 queries"):
            rve.compare([runs[0], replace(runs[1], inputs=inputs, per_query=table)])

    def test_queries_without_ids_in_another_order(self) -> None:
        query, gallery = (side.without(["id"]) for side in sides())
        rng = np.random.default_rng(0)
        vectors = rng.normal(size=(N_QUERY, 8)), rng.normal(size=(N_GALLERY, 8))
        one = rve.evaluate("labels", query, gallery, rve.Embeddings(*vectors))
        back = rve.evaluate(
            "labels", query.take(np.arange(N_QUERY)[::-1]), gallery,
            rve.Embeddings(vectors[0][::-1].copy(), vectors[1]),
        )  # fmt: skip
        with pytest.raises(AlignmentError, match=r"have no ids to be matched by"):
            rve.compare([one, back])
        assert rve.compare([one, one]).difference("run 2").p == 1

    def test_one_run_is_no_comparison(self, runs: list[rve.Result]) -> None:
        for given in ([runs[0]], runs[0], [], "runs/a"):
            with pytest.raises(AlignmentError, match=r"two|at least"):
                rve.compare(given)

    def test_what_is_no_run(self, runs: list[rve.Result], tmp_path: Path) -> None:
        with pytest.raises(FormatError, match=r"a int is no run"):
            rve.compare([runs[0], 3])
        with pytest.raises(InputNotFoundError, match=r"no such folder"):
            rve.compare([runs[0], tmp_path / "absent"])
        with pytest.raises(InputNotFoundError, match=r"is no run folder"):
            rve.compare([runs[0], tmp_path])
        (tmp_path / "file").write_text("x")
        with pytest.raises(FormatError, match=r"is a file"):
            rve.compare([runs[0], tmp_path / "file"])
        with pytest.raises(FormatError, match=r"a list of runs is empty"):
            rve.compare([runs[0], []])

    def test_a_folder_without_the_table_of_queries(
        self, runs: list[rve.Result], tmp_path: Path
    ) -> None:
        runs[1].save(tmp_path / "run")
        (tmp_path / "run" / "per_query.csv").unlink()
        with pytest.raises(InputNotFoundError, match=r"no per_query.csv"):
            rve.compare([runs[0], tmp_path / "run"])

    def test_a_table_that_was_changed(self, runs: list[rve.Result]) -> None:
        table = runs[1].per_query.assign(ap=0.5)
        with pytest.raises(FormatError, match=r"have the mean 50.0, the run says"):
            rve.compare([runs[0], replace(runs[1], per_query=table, ranking=None)])
        empty = runs[1].per_query.iloc[:0]
        with pytest.raises(NotCountedError, match=r"no table of queries"):
            rve.compare([runs[0], replace(runs[1], per_query=empty)])

    @pytest.mark.parametrize("metric", ["MedR", "AUC", "TAR@FAR=0.01"])
    def test_metrics_that_are_no_means(self, runs: list[rve.Result], metric: str) -> None:
        with pytest.raises(NotCountedError, match=r"compare by"):
            rve.compare(runs, metric)

    def test_a_name_that_is_no_metric(self, runs: list[rve.Result]) -> None:
        with pytest.raises(ProtocolError, match=r"no metric"):
            rve.compare(runs, "nonsense")

    @pytest.mark.parametrize(
        ("option", "value"),
        [("level", 1.0), ("level", 95), ("resamples", 0), ("seed", -1), ("unit", "shoe"),
         ("correction", "bonferroni"), ("pairs", "some")],
    )  # fmt: skip
    def test_options_out_of_range(
        self, runs: list[rve.Result], option: str, value: Any
    ) -> None:
        with pytest.raises(FormatError, match=option):
            rve.compare(runs, **{option: value})

    def test_names_that_do_not_fit(self, runs: list[rve.Result]) -> None:
        with pytest.raises(AlignmentError, match=r"2 names for 3 runs"):
            rve.compare(runs, names=["a", "b"])
        with pytest.raises(AlignmentError, match=r"a name is empty"):
            rve.compare(runs, names=["a", " ", "c"])


class TestNothingToTell:
    """Where there is no evidence p is 1, and it is said why."""

    def test_the_same_run_twice(self, runs: list[rve.Result], tmp_path: Path) -> None:
        runs[0].save(tmp_path / "run")
        found = rve.compare([tmp_path / "run", tmp_path / "run"])
        one = found.differences[0]
        assert (one.p, one.difference, one.effect, one.equal) == (1.0, 0.0, 0.0, 1.0)
        assert (one.low, one.high) == (None, None)
        assert any("no query differs" in note for note in found.notes)
        assert not one.significant
        assert any("hold the same scores" in note for note in found.notes)
        assert not len(found.changed())
        assert found.runs == ("run [1]", "run [2]")

    def test_one_query(self) -> None:
        pair = [model(seed, 2.0, n_query=1) for seed in (1, 2)]
        one = rve.compare(pair).differences[0]
        assert one.p == 1
        assert one.low is None
        assert "one query alone" in one.reason
        assert "one query alone" in str(rve.compare(pair))

    def test_one_unit(self, runs: list[rve.Result]) -> None:
        same = [replace(run, per_query=run.per_query.assign(unit="house")) for run in runs]
        found = rve.compare(same)
        assert {one.p for one in found.differences} == {1.0}
        assert {one.low for one in found.differences} == {None}
        assert "belong to one unit" in str(found)

    def test_few_units_bound_p(self, runs: list[rve.Result]) -> None:
        units = np.arange(N_QUERY) % 3
        few = [replace(run, per_query=run.per_query.assign(unit=units)) for run in runs[::2]]
        found = rve.compare(few)
        assert found.differences[0].exact
        assert found.differences[0].p_least == 0.25
        assert "no p below 0.25 is possible" in str(found)

    def test_all_queries_right_in_both(self) -> None:
        perfect = [model(seed, 1e-3) for seed in (1, 2)]
        found = rve.compare(perfect, "CMC@1")
        one = found.differences[0]
        assert one.value == one.baseline_value == 1.0
        assert (one.p, one.p_mcnemar, one.equal) == (1.0, 1.0, 1.0)

    def test_runs_that_name_no_unit(self, runs: list[rve.Result]) -> None:
        old = [replace(run, per_query=run.per_query.drop(columns="unit")) for run in runs[:2]]
        found = rve.compare(old)
        assert found.differences[0].n_units == N_QUERY
        assert any("names no unit" in note for note in found.notes)
        assert rve.compare(old, unit="label").differences[0].n_units == N_LABELS


def test_queries_in_the_mean_of_one_run_only_are_left_out_and_said(
    runs: list[rve.Result],
) -> None:
    lists = []
    for seed in (5, 6):
        query, gallery = sides()
        found = np.argsort(np.random.default_rng(seed).normal(size=(N_QUERY, N_GALLERY)), axis=1)
        if seed == 6:
            found[:4] = -1
        lists.append(rve.evaluate("labels", query, gallery, rve.RankedLists(found),
                                  missing_query="skip"))  # fmt: skip
    result = rve.compare(lists, names=["all", "fewer"])
    assert result.differences[0].n_query == N_QUERY - 4
    (note,) = [note for note in result.notes if "left out" in note]
    assert "fewer lacks 4" in note
    assert "q000" in note


def test_policies_are_those_of_the_protocol() -> None:
    """A query without a positive counts 0 under zero and nothing under skip, in both runs."""
    for policy, n in (("zero", 61), ("skip", 60)):
        query, gallery = sides()
        lone = rve.Samples.from_columns(id=["lone"], label=[999], camera=[0])
        more = rve.Samples(pd.concat([query.table, lone.table], ignore_index=True))
        protocol = rve.load_protocol("labels")
        protocol = protocol.model_copy(update={
            "evaluation": protocol.evaluation.model_copy(update={"no_positive": policy})
        })  # fmt: skip
        pair = []
        for seed in (1, 2):
            rng = np.random.default_rng(seed)
            scores = rve.Embeddings(rng.normal(size=(61, 8)), rng.normal(size=(N_GALLERY, 8)))
            pair.append(rve.evaluate(protocol, more, gallery, scores))
        found = rve.compare(pair, ["mAP", "CMC@1"])
        assert found.differences[0].n_query == n
        assert found.value("run 1").value == pytest.approx(pair[0].metrics["mAP"])
        bare = rve.compare([replace(one, ranking=None) for one in pair], ["mAP", "CMC@1"])
        assert bare.differences == found.differences


def test_macro_means_weigh_queries_by_their_group() -> None:
    protocol = rve.load_protocol("labels")
    protocol = protocol.model_copy(update={
        "evaluation": protocol.evaluation.model_copy(update={"macro": ["label"]})
    })  # fmt: skip
    pair = [model(seed, 1.0, protocol=protocol, n_query=50) for seed in (1, 2)]
    found = rve.compare(pair, "mAP")
    for name, run in zip(found.runs, pair, strict=True):
        assert found.value(name).value == pytest.approx(run.metrics["mAP"])
    by_label = [run.per_query.groupby("label")["ap"].mean() for run in pair]
    one = found.differences[0]
    assert one.difference == pytest.approx((by_label[1] - by_label[0]).mean())
    # Each unit is a group, so the test is the one on group means.
    from reid_vpr_eval.uncertainty.paired import sign_flips

    expected = sign_flips((by_label[1] - by_label[0]).to_numpy()).p[0]
    assert one.p == pytest.approx(expected, abs=0.01)


def test_macro_groups_that_the_table_does_not_hold() -> None:
    protocol = rve.load_protocol("labels")
    protocol = protocol.model_copy(update={
        "evaluation": protocol.evaluation.model_copy(update={"macro": ["label"]})
    })  # fmt: skip
    pair = [model(seed, 1.0, protocol=protocol, n_query=50) for seed in (1, 2)]
    bare = [replace(one, per_query=one.per_query.drop(columns="label")) for one in pair]
    with pytest.raises(NotCountedError, match=r"means over the groups of label"):
        rve.compare(bare, "mAP")


def test_means_over_draws_are_set_beside_each_other_and_not_tested() -> None:
    protocol = rve.load_protocol("labels")
    from reid_vpr_eval.protocol import DrawTable

    drawn = protocol.model_copy(update={"draw": DrawTable(per=["label"], n=2, repeats=4)})
    pair = [model(seed, 1.0, protocol=drawn) for seed in (1, 2)]
    found = rve.compare(pair, "mAP", names=["a", "b"])
    one = found.differences[0]
    assert one.difference == pytest.approx(pair[1].metrics["mAP"] - pair[0].metrics["mAP"])
    assert (one.p, one.low) == (None, None)
    value = found.value("a")
    draws = pair[0].draws
    assert draws is not None
    spread = draws[draws["metric"] == "mAP"]["value"].std()
    assert value.sd_draws == pytest.approx(spread)
    assert value.n_draws == 4
    text = str(found)
    assert "SD over draws" in text
    assert "(4 draws)" in text
    assert "nothing is tested" in text
    json.dumps(found.document(), allow_nan=False)


def test_an_expectation_over_draws_is_not_tested_either() -> None:
    from reid_vpr_eval.protocol import DrawTable

    draw = DrawTable(per=["label"], n=1, method="exact")
    drawn = rve.load_protocol("labels").model_copy(update={"draw": draw})
    drawn = drawn.model_copy(update={
        "report": drawn.report.model_copy(update={"metrics": ["CMC@1"]})
    })  # fmt: skip
    found = rve.compare([model(seed, 1.0, protocol=drawn) for seed in (1, 2)])
    assert found.differences[0].p is None
    assert found.value("run 1").sd_draws is None
    assert "nothing is tested" in " ".join(str(found).split())


def test_a_model_of_runs_that_differ_is_refused(runs: list[rve.Result]) -> None:
    with pytest.raises(AlignmentError, match=r"b, run 2"):
        rve.compare({"a": runs[0], "b": [runs[1], model(2, n_query=50)]})


def test_saved_files_are_the_same_bytes(found: Comparison, tmp_path: Path) -> None:
    found.save(tmp_path / "one")
    found.save(tmp_path / "two")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["comparison.csv", "comparison.json", "comparison_queries.csv"]
    for name in names:
        content = (tmp_path / "one" / name).read_bytes()
        assert content == (tmp_path / "two" / name).read_bytes()
    document = json.loads((tmp_path / "one" / "comparison.json").read_text())
    assert document["settings"]["seed"] == 0
    assert document["settings"]["resamples"] == 2000
    assert [one["p"] for one in document["differences"]] == [one.p for one in found.differences]
    assert len(document["changed"]) == 6
    table = pd.read_csv(tmp_path / "one" / "comparison.csv")
    assert table["difference"].tolist() == [one.difference for one in found.differences]


def test_what_is_not_there_is_named(found: Comparison) -> None:
    with pytest.raises(NotCountedError, match=r"compared were mAP, CMC@1 of old, new, newest"):
        found.value("oldest")
    with pytest.raises(NotCountedError, match=r"newest less old"):
        found.difference("old", "new")
    with pytest.raises(NotCountedError, match=r"no values of mINP"):
        found.changed(metric="mINP")


def test_folders_are_told_apart_by_as_much_as_is_needed(
    runs: list[rve.Result], tmp_path: Path
) -> None:
    for name in ("a/eval", "b/eval"):
        runs[0].save(tmp_path / name)
    found = rve.compare([tmp_path / "a" / "eval", tmp_path / "b" / "eval"], resamples=10)
    assert found.runs == ("a/eval", "b/eval")
    shutil.rmtree(tmp_path / "a")


def test_the_interval_of_a_value_is_that_of_the_run(runs: list[rve.Result]) -> None:
    found = rve.compare(runs[:2], ["mAP", "CMC@1", "P@5"])
    for metric in ("mAP", "CMC@1"):
        own, value = runs[0].intervals[metric], found.value("run 1", metric)
        assert own is not None
        assert (value.low, value.high) == (own.low, own.high)
    other = found.value("run 1", "P@5")
    assert other.low is not None
    assert other.high is not None
    assert other.low < other.value < other.high
    at90 = rve.compare(runs[:2], level=0.9).value("run 1")
    assert found.value("run 1").low is not None
    assert at90.low is not None
    assert at90.low > (found.value("run 1").low or 0)


def test_ranks_have_intervals_too(runs: list[rve.Result]) -> None:
    value = rve.compare(runs[:2], "MeanR").value("run 2")
    assert value.low is not None
    assert value.high is not None
    assert 1 <= value.low < value.value < value.high
