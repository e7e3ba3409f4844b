"""Intervals: formulas against SciPy and by hand, every kind of number, bad input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import reid_vpr_eval as rve
from benchmarks import coverage
from reid_vpr_eval import dense
from reid_vpr_eval.errors import FormatError, NotCountedError, ProtocolError
from reid_vpr_eval.uncertainty import (
    Interval,
    block_draws,
    block_length,
    cluster_interval,
    freedom_of,
    korn_graubard,
    units_of,
    wilson,
)
from shared_inputs import data


@pytest.mark.parametrize(("hits", "n"), [(0, 9), (1, 9), (5, 9), (9, 9), (950, 1000)])
def test_wilson_is_that_of_scipy(hits: int, n: int) -> None:
    wanted = stats.binomtest(hits, n).proportion_ci(0.9, method="wilson")
    assert np.allclose(wilson(hits / n, n, 0.9), wanted, atol=1e-12)


@pytest.mark.parametrize(("hits", "n"), [(1, 9), (5, 9), (950, 1000)])
def test_korn_graubard_without_clusters_is_clopper_pearson(hits: int, n: int) -> None:
    share = hits / n
    wanted = stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
    found = korn_graubard(share, share * (1 - share) / n, n, freedom=1e9)
    assert np.allclose(found, wanted, atol=1e-7)


def test_korn_graubard_by_its_definition() -> None:
    """Effective size 190 x (1.96 / t)^2 with 34 degrees of freedom; the limits are betas."""
    size = 0.95 * 0.05 / 0.00025 * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 34)) ** 2
    low = stats.beta.ppf(0.025, 0.95 * size, 0.05 * size + 1)
    high = stats.beta.ppf(0.975, 0.95 * size + 1, 0.05 * size)
    assert np.allclose(korn_graubard(0.95, 0.00025, 35), (low, high), atol=1e-12)


def test_all_right_has_a_lower_limit_of_one_query_a_unit() -> None:
    low, high = korn_graubard(1.0, 0.0, 35)
    assert math.isclose(low, 0.025 ** (1 / 35))
    assert high == 1.0
    assert np.allclose(korn_graubard(0.0, 0.0, 35), (0.0, 1 - low))


def test_an_outlying_unit_leaves_few_degrees_of_freedom() -> None:
    assert freedom_of(np.tile([1.0, -1.0], 8)) == 15.0
    spike = np.r_[np.full(34, -1.0), 34.0]
    kurtosis = 35 * np.sum(spike**4) / np.sum(spike**2) ** 2
    wanted = 2 / (1 / 34 + 1 / max(70 / (kurtosis - 1), 3))
    assert math.isclose(freedom_of(spike), wanted)


VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=40)


@given(VALUES, st.integers(2, 6), st.sampled_from(["auto", "bca", "korn-graubard"]))
@settings(max_examples=60, deadline=None)
def test_intervals_hold_the_value_and_stay_on_the_scale(
    values: list[float], n_units: int, method: Any
) -> None:
    unit = np.arange(len(values)) % n_units
    made = cluster_interval(values, unit, method=method, resamples=200)
    assert 0 <= made.low <= np.mean(values) + 1e-12
    assert np.mean(values) - 1e-12 <= made.high <= 1
    assert made.high > made.low or (0 < values[0] < 1 and len(set(values)) == 1) or (
        np.ptp([np.mean(np.array(values)[unit == u]) for u in range(n_units)]) < 1e-12)  # fmt: skip


@given(st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_the_order_of_queries_and_the_names_of_units_change_nothing(rng: Any) -> None:
    made = np.random.default_rng(3)
    values, unit = made.random(120) ** 3, made.integers(0, 25, 120)
    order = np.array(rng.sample(range(120), 120))
    renamed = np.array([f"unit {(7 * one) % 25}" for one in unit])
    for method in ("auto", "bca"):
        first = cluster_interval(values, unit, method=method, resamples=300)
        again = cluster_interval(values[order], renamed[order], method=method, resamples=300)
        assert first == again


def test_clusters_that_agree_make_intervals_wider_and_say_so() -> None:
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(150), 8)
    hits = (rng.random(150) < 0.8)[unit].astype(float)
    alone, by_unit = cluster_interval(hits), cluster_interval(hits, unit)
    assert (alone.method, by_unit.method) == ("wilson", "bca")
    ratio = (by_unit.high - by_unit.low) / (alone.high - alone.low)
    assert 2.3 < ratio < 3.3  # the square root of 8, as each unit is one piece of evidence
    assert (by_unit.n_units, by_unit.n, by_unit.seed, by_unit.resamples) == (150, 1200, 0, 2000)


def test_few_units_with_misses_are_not_bootstrapped() -> None:
    hits = np.ones(800)
    hits[:3] = 0
    assert cluster_interval(hits, np.repeat(np.arange(200), 4)).method == "korn-graubard"


def test_what_cannot_have_an_interval_is_refused_with_the_reason() -> None:
    with pytest.raises(NotCountedError, match="all 3 evaluated queries are of one unit"):
        cluster_interval([0.5, 1.0, 0.0], ["a", "a", "a"])
    with pytest.raises(NotCountedError, match="one query does not tell"):
        cluster_interval([0.5])
    with pytest.raises(NotCountedError, match="no query has a value"):
        cluster_interval([np.nan])
    with pytest.raises(NotCountedError, match="pass the ends"):
        cluster_interval([1.0, 17.0])
    with pytest.raises(NotCountedError, match="one of auto"):
        cluster_interval([1.0, 0.0], method="bootstrap")  # type: ignore[arg-type]
    assert cluster_interval([1.0]).method == "wilson"
    ranks = cluster_interval([1.0, 17.0, 3.0], ends=(1.0, 101.0))
    assert 1 <= ranks.low < 7 < ranks.high <= 101


def test_blocks_on_a_circle_are_drawn_equally_often() -> None:
    values = np.arange(10.0)
    draws = block_draws(values, np.ones(10), 5, resamples=4000, seed=1)
    assert abs(draws.mean() - 4.5) < 0.06
    literal = [np.mean([values[(s + i) % 10] for s in starts for i in range(5)])
               for starts in np.random.default_rng(1).integers(0, 10, (4000, 2))]  # fmt: skip
    assert np.allclose(draws, literal)


def test_blocks_grow_with_how_far_neighbours_are_alike() -> None:
    rng = np.random.default_rng(2)
    alone = block_length(rng.random(2000) < 0.9)
    alike = block_length(np.repeat(rng.random(100) < 0.9, 20))
    assert alone == 13  # 2000^(1/3), rounded up
    assert 30 < alike <= 134
    assert block_length(np.ones(50)) == 4
    assert block_length([1.0]) == 1


# Evaluations


def sides(n_units: int = 12, each: int = 3, **columns: Any) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(n_units)
    label = np.repeat(np.arange(n_units), each)
    centre = rng.normal(size=(n_units, 8))
    theirs = np.repeat(np.arange(n_units), 4)
    vectors = [centre[one] + rng.normal(size=(len(one), 8)) for one in (label, theirs)]
    query = rve.Samples.from_columns(label=label, id=[f"q{i:04d}" for i in range(len(label))],
                                     **columns)  # fmt: skip
    gallery = rve.Samples.from_columns(label=theirs, id=[f"g{i:04d}" for i in range(len(theirs))])
    return query, gallery, rve.Embeddings(*vectors)


def with_metrics(*metrics: str, **more: Any) -> rve.Protocol:
    base = rve.load_protocol("labels")
    return rve.Protocol.from_dict({
        "name": "mine", "relevance": {"kind": "label"},
        "report": {"metrics": list(metrics), "interval": {"unit": "label"}}, **more,
    }) if metrics else base  # fmt: skip


def test_every_kind_of_number_has_an_interval_or_a_reason() -> None:
    metrics = ["mAP", "CMC@1", "CMC@5", "MRR", "MeanR", "MedR", "rsum", "PR-AUC", "R@P=0.5",
               "R@P=1", "EP", "AUC", "mINP", "CMC@5(shots=all)", "GAP", "ECE"]  # fmt: skip
    query, gallery, scores = sides()
    result = rve.evaluate(with_metrics(*metrics), query, gallery, scores,
                          pairs_kept=36 * 48, interval={"resamples": 300})  # fmt: skip
    reasons = dict(result.interval_reasons)
    assert set(reasons) == {"R@P=1", "EP", "AUC"}
    assert "pairs of all queries" in reasons["AUC"]
    assert "one answer" in reasons["EP"]
    for name, made in result.intervals.items():
        assert (made is None) == (name in reasons), name
        if made is not None:
            assert made.low <= result.metrics[name] <= made.high, name
            assert (made.unit, made.n_units, made.n) == ("label", 12, 36)
    assert result.intervals["MedR"].method == "woodruff"
    assert result.intervals["Rank-1"] is result.intervals["R@1"]


def test_the_printed_table_says_the_limits_and_their_making() -> None:
    text = str(rve.evaluate(with_metrics("mAP", "CMC@1"), *sides()))
    made = rve.evaluate(with_metrics("mAP", "CMC@1"), *sides()).intervals["mAP"]
    assert made is not None
    assert f"[{100 * made.low:.1f}, {100 * made.high:.1f}]" in text
    assert "95 % intervals: Korn-Graubard, 36 queries in 12 labels, gallery fixed" in text
    assert "±" not in text
    assert "+-" not in text
    none = str(rve.evaluate(with_metrics("mAP"), *sides(), interval="none"))
    assert "interval" not in none


def test_a_run_in_any_order_has_the_same_intervals_and_one_in_blocks_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query, gallery, scores = sides(110, 3)
    protocol = with_metrics("mAP", "CMC@1", "MRR")
    first = rve.evaluate(protocol, query, gallery, scores, interval={"resamples": 200})
    assert {made.method for made in first.intervals.values() if made} == {"bca"}
    order = np.random.default_rng(5).permutation(query.n)
    turned = rve.evaluate(protocol, query.take(order), gallery,
                          scores.take(order, np.arange(gallery.n)),
                          interval={"resamples": 200})  # fmt: skip
    assert dict(turned.intervals) == dict(first.intervals)
    monkeypatch.setattr("reid_vpr_eval.evaluation.gallery._KEPT_PAIRS", 10)
    monkeypatch.setattr(dense, "_PAIRS_AT_ONCE", 200)
    parts = rve.evaluate(protocol, query, gallery, scores, interval={"resamples": 200})
    assert parts.ranking is None
    assert dict(parts.intervals) == dict(first.intervals)
    assert parts.curves.equals(first.curves)
    assert parts.per_query["unit"].tolist() == first.per_query["unit"].tolist()


def test_curves_have_bands_that_fit_the_reported_numbers() -> None:
    result = rve.evaluate(with_metrics("CMC@1", "CMC@5", "CMC@40"), *sides())
    curve = result.curve("CMC", 50).set_index("k")
    for k in (1, 5, 40):
        made = result.intervals[f"CMC@{k}"]
        assert made is not None
        assert (curve["low"][k], curve["high"][k]) == (made.low, made.high)
    assert (curve["low"] <= curve["value"]).all()
    assert (curve["value"] <= curve["high"]).all()
    longer = result.curve("CMC", 60)
    assert np.allclose(longer["low"][:50], curve["low"])


def test_intervals_are_saved_and_read_back(tmp_path: Path) -> None:
    result = rve.evaluate(with_metrics("mAP", "CMC@1", "EP"), *sides())
    result.save(tmp_path / "run")
    again = rve.Result.load(tmp_path / "run")
    assert dict(again.intervals) == dict(result.intervals)
    assert again.interval_reasons == dict(result.interval_reasons)
    saved = result.document()["intervals"]["mAP"]
    assert saved["unit"] == "label"
    assert saved["n_units"] == 12


def test_a_run_of_the_first_schema_still_loads(tmp_path: Path) -> None:
    import json

    rve.evaluate(with_metrics("mAP"), *sides()).save(tmp_path / "run")
    path = tmp_path / "run" / "result.json"
    old = json.loads(path.read_text())
    del old["interval_reasons"]
    old |= {"version": 1, "intervals": {"mAP": None}, "interval_reason": "not in this version"}
    path.write_text(json.dumps(old))
    loaded = rve.Result.load(tmp_path / "run")
    assert loaded.intervals["mAP"] is None
    assert loaded.interval_reasons == {"mAP": "not in this version"}
    assert "no intervals: not in this version" in str(loaded)


def test_a_unit_that_is_missing_is_said_or_refused() -> None:
    query, gallery, scores = sides(scene=[None, *("ab" * 17), "c"])
    protocol = with_metrics("mAP").with_interval({"unit": "scene"})
    result = rve.evaluate(protocol, query, gallery, scores)
    assert result.intervals["mAP"] is None
    assert "no value in 1 of 36 rows" in result.interval_reasons["mAP"]
    assert result.per_query["unit"].isna().all()
    assert "no intervals: the unit 'scene' cannot be had" in str(result)
    with pytest.raises(FormatError, match="no value in 1 of 36 rows"):
        rve.evaluate("labels", query, gallery, scores, interval={"unit": "scene"})
    with pytest.raises(FormatError, match="no column 'place'"):
        rve.evaluate("labels", query, gallery, scores, interval={"unit": "place"})
    with pytest.raises(ProtocolError, match="interval"):
        rve.evaluate("labels", query, gallery, scores, interval="bootstrap")
    with pytest.raises(ProtocolError, match="level"):
        rve.evaluate("labels", query, gallery, scores, interval={"level": 95})


def test_one_query_one_unit_and_all_right() -> None:
    one = rve.evaluate("labels", *_taken([0]))
    assert one.intervals["CMC@1"].method == "wilson"
    assert "one query does not tell" in one.interval_reasons["mAP"]
    unit = rve.evaluate("labels", *_taken([0, 1, 2]))
    assert "of one unit (label)" in unit.interval_reasons["mAP"]
    query, gallery, _ = sides()
    same = (query.values("label")[:, None] == gallery.values("label")).astype(float)
    right = rve.ScoreMatrix(same, higher_is_better=True)
    for name, made in rve.evaluate("labels", query, gallery, right).intervals.items():
        assert made is not None, name
        assert made.high == 1.0
        assert made.low == pytest.approx(0.025 ** (1 / 12))
    wrong = rve.ScoreMatrix(-same, higher_is_better=True)
    made = rve.evaluate("labels", query, gallery, wrong).intervals["CMC@1"]
    assert made is not None
    assert (made.low, made.high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 12)))


def _taken(rows: list[int]) -> tuple[Any, Any, Any]:
    query, gallery, scores = sides()
    return query.take(rows), gallery, scores.take(np.array(rows), np.arange(gallery.n))


def test_an_average_over_groups_is_resampled_with_them() -> None:
    """The groups are the units: the interval is that of the mean of the units' means."""
    query, gallery, scores = sides(n_units=12)
    plain = rve.evaluate(with_metrics("mAP"), query, gallery, scores)
    macro = rve.evaluate(
        with_metrics("mAP", evaluation={"macro": ["label"]}), query, gallery, scores
    )
    assert macro.intervals["mAP"].low == pytest.approx(plain.intervals["mAP"].low)
    folds = rve.Samples.from_columns(label=query.values("label"), id=query.ids,
                                     fold=query.values("label") % 3)  # fmt: skip
    made = rve.evaluate(with_metrics("mAP", evaluation={"macro": ["fold"]}), folds, gallery, scores)
    interval = made.intervals["mAP"]
    assert interval is not None
    assert interval.low < made.metrics["mAP"] < interval.high
    assert interval.n_units == 12


@pytest.mark.parametrize("draw", [
    {"per": ["label"], "n": 1, "repeats": 4},
    {"per": ["label"], "n": 1, "method": "exact"},
    {"per": ["label"], "n": 1, "repeats": 3, "per_query": True},
])  # fmt: skip
def test_drawn_galleries_are_fixed_and_queries_resampled(draw: dict[str, Any]) -> None:
    result = rve.evaluate(with_metrics("mAP", "CMC@1", draw=draw), *sides())
    for name, made in result.intervals.items():
        assert made is not None, result.interval_reasons
        assert made.low < result.metrics[name] < made.high
        assert (made.n_units, made.n) == (12, 36)
    assert ("drawn galleries fixed" in str(result)) == (result.draws is not None)


def test_frames_are_drawn_in_stretches() -> None:
    rng = np.random.default_rng(0)
    frame = np.arange(300)
    query = rve.Samples.from_columns(frame=frame, id=[f"q{i}" for i in frame])
    gallery = rve.Samples.from_columns(frame=frame, id=[f"g{i}" for i in frame])
    far = np.abs(frame[:, None] - frame)
    scores = np.where(np.repeat(rng.random(15) < 0.6, 20)[:, None], -far, far).astype(float)
    protocol = rve.Protocol.from_dict({
        "name": "way", "relevance": {"kind": "frames", "window": 2},
        "report": {"metrics": ["CMC@1"]},
    })  # fmt: skip
    matrix = rve.ScoreMatrix(scores, higher_is_better=True)
    result = rve.evaluate(protocol, query, gallery, matrix)
    made = result.intervals["CMC@1"]
    assert made is not None
    assert (made.method, made.unit) == ("moving-block", "traverse")
    assert made.block is not None
    assert made.block >= 7
    assert made.n_units == math.ceil(300 / made.block) == result.per_query["unit"].nunique()
    alone = rve.evaluate(protocol, query, gallery, matrix, interval={"unit": "query"})
    other = alone.intervals["CMC@1"]
    assert other is not None
    assert made.high - made.low > 2 * (other.high - other.low)
    order = rng.permutation(300)
    turned = rve.evaluate(protocol, query.take(order), gallery, matrix.take(order, frame))
    assert turned.intervals["CMC@1"] == made


def test_real_places_are_their_positions() -> None:
    queries = np.load(data("places/patch_netvlad/tokyo247.npz"))["utmQ"]
    query = rve.Samples.from_columns(east=queries[:, 0], north=queries[:, 1])
    units = units_of(rve.load_protocol("tokyo247"), query)
    clusters = units.clusters
    assert clusters is not None
    assert clusters.n_units == 35
    assert np.bincount(clusters.code).tolist() == [9] * 35


def test_an_interval_is_a_plain_dictionary_in_a_file() -> None:
    made = cluster_interval([1, 0, 1, 1], ["a", "a", "b", "b"], resamples=50)
    assert Interval.of(made.document()) == made
    assert all(isinstance(value, str | int | float | None) for value in made.document().values())


def test_the_coverage_benchmark_tells_defaults_from_naive_intervals() -> None:
    """Sixty worlds of 35 places: far below what is published, enough to see the difference."""
    (case,) = [case for case in coverage.cases(60, 1) if case.name.endswith("rate .95, alike .2")]
    found = coverage.measure(case)
    assert found.methods == {"korn-graubard": 60}
    assert found.default >= 0.88
    assert found.naive <= 0.87
    assert found.naive_width < found.width
    assert found.name in coverage.table([found])
