"""The numbers behind each figure, against loops over the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reid_vpr_eval import (
    NotCountedError,
    RankedLists,
    Result,
    Samples,
    ScoreMatrix,
    compute,
    evaluate,
    load_protocol,
)
from reid_vpr_eval.breakdowns import stratum_matrix
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.report.figures import (
    AveragePrecisionDisplay,
    CameraMatrixDisplay,
    ConditionDisplay,
    CurveDisplay,
    ErrorDisplay,
    FirstAnswerDisplay,
    PrecisionRecallDisplay,
    RadiusDisplay,
    RocDisplay,
    ScoreDisplay,
)
from report_results import people, places

Floats = npt.NDArray[np.float64]


def market(seed: int, *, n: int = 7, higher: bool = True, **more: Any) -> Result:
    """Return a small result by label and camera, with its scores to be looped over."""
    scores, query, gallery = parts(seed, n)
    return evaluate(
        load_protocol("market1501"), Samples.from_columns(**query),
        Samples.from_columns(**gallery),
        ScoreMatrix(scores if higher else 9 - scores, higher_is_better=higher),
        expected="ignore", **more,
    )  # fmt: skip


def parts(seed: int, n: int = 7) -> tuple[Floats, dict[str, Any], dict[str, Any]]:
    rng = np.random.default_rng(seed)
    labels = 4 if n == 7 else n // 2
    query = {"label": rng.integers(0, labels, n), "camera": rng.integers(1, 4, n)}
    gallery = {"label": np.r_[np.arange(labels), rng.integers(0, labels + 1, 5 * labels)],
               "camera": np.r_[[9] * labels, rng.integers(1, 4, 5 * labels)]}  # fmt: skip
    same = query["label"][:, None] == gallery["label"]
    return rng.normal(size=same.shape) + 1.0 * same, query, gallery


def ranked(seed: int) -> list[tuple[Floats, Floats]]:
    """Return for each query the scores and whether right, ignored ones left out, best first."""
    scores, query, gallery = parts(seed)
    out = []
    for i in range(7):
        same = gallery["label"] == query["label"][i]
        kept = ~(same & (gallery["camera"] == query["camera"][i]))
        order = np.argsort(-scores[i][kept], kind="stable")
        out.append((scores[i][kept][order], same[kept][order].astype(float)))
    return out


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_precision_at_every_recall(seed: int) -> None:
    display = PrecisionRecallDisplay.from_result(market(seed))
    exact, envelope = np.zeros(101), np.zeros(101)
    for _, right in ranked(seed):
        places_ = np.flatnonzero(right) + 1
        precision = np.arange(1, len(places_) + 1) / places_
        for level in range(101):
            reached = [j for j in range(len(places_)) if 100 * (j + 1) >= level * len(places_)]
            exact[level] += precision[reached[0]] / 7
            envelope[level] += max(precision[reached]) / 7
    assert display.values[0] == pytest.approx(exact, abs=1e-12)
    assert display.interpolated[0] == pytest.approx(envelope, abs=1e-12)


def test_the_area_below_the_exact_curve_is_map() -> None:
    """With 1, 2, 4 or 5 positives each of 100 steps lies in one piece of the curve."""
    positives = np.array([1, 2, 4, 5])
    scores = np.random.default_rng(0).normal(size=(4, 30))
    labels = np.full(30, 9)
    labels[: positives.sum()] = np.repeat(np.arange(4), positives)
    made = evaluate("labels", Samples.from_columns(label=np.arange(4)),
                    Samples.from_columns(label=labels),
                    ScoreMatrix(scores, higher_is_better=True))  # fmt: skip
    display = PrecisionRecallDisplay.from_result(made)
    assert display.values[0][1:].mean() == pytest.approx(made.metrics["mAP"], abs=1e-12)
    assert display.names[0].endswith(f"(mAP {100 * made.metrics['mAP']:.1f})")


def test_positives_that_were_not_returned_have_no_precision() -> None:
    made = evaluate("labels", Samples.from_columns(label=[1, 2]),
                    Samples.from_columns(label=[1, 1, 3, 4]), RankedLists([[0], [2]]),
                    unretrieved="zero")  # fmt: skip
    display = PrecisionRecallDisplay.from_result(made)
    assert display.values[0].tolist() == [1.0] * 51 + [0.0] * 50


def test_first_answers_are_those_of_the_metric() -> None:
    made = places()
    display = FirstAnswerDisplay.from_result(made)
    assert made.ranking is not None
    values = compute(made.ranking, ["PR-AUC", "R@P=1", "CMC@1"])
    area = np.trapezoid(display.precision[0], display.recall[0])
    assert area == pytest.approx(values["PR-AUC"])
    assert (display.recall[0][0], display.precision[0][0]) == (0.0, 1.0)
    assert display.recall[0][-1] * 0.9 == pytest.approx(values["CMC@1"])
    assert f"R@P=1 {100 * values['R@P=1']:.1f}" in display.names[0]


@pytest.mark.parametrize("higher", [True, False])
def test_roc_counts_pairs(higher: bool) -> None:
    made = market(5, higher=higher, pairs_kept=1000)
    display = RocDisplay.from_result(made)
    everything = ranked(5)
    score = np.concatenate([s for s, _ in everything])
    right = np.concatenate([r for _, r in everything]) > 0
    assert display.n_negatives == [int((~right).sum())]
    for threshold in (-0.5, 0.3, 1.2):
        false = (score[~right] >= threshold).mean()
        true = (score[right] >= threshold).mean()
        place = np.searchsorted(display.false_accepts[0], false, side="right") - 1
        assert display.false_accepts[0][place] == pytest.approx(false)
        rows = np.flatnonzero(np.isclose(display.false_accepts[0], false))
        assert np.isclose(display.true_accepts[0][rows], true).any()
    better = (score[right][:, None] > score[~right]).mean()
    assert display.names[0].endswith(f"(AUC {better:.4f})")


def test_roc_ends_where_the_kept_negatives_end() -> None:
    part = RocDisplay.from_result(market(5, pairs_kept=20))
    whole = RocDisplay.from_result(market(5, pairs_kept=1000))
    n = len(part.false_accepts[0])
    assert part.false_accepts[0][-1] < 1
    assert np.array_equal(part.true_accepts[0], whole.true_accepts[0][:n])
    assert " to " in part.names[0]
    assert "ends where" in part.caption


@pytest.mark.parametrize("higher", [True, False])
def test_scores_of_positives_and_negatives(higher: bool) -> None:
    everything = ranked(8)

    def given_as(score: Floats) -> Floats:
        return score if higher else 9 - score

    right = np.concatenate([s[r > 0] for s, r in everything])
    hardest = np.array([s[r == 0].max() for s, r in everything])
    best = np.array([s[r > 0].max() for s, r in everything])
    few = ScoreDisplay.from_result(market(8, higher=higher)).series[0]
    assert np.sort(few["positive pairs"]) == pytest.approx(np.sort(given_as(right)))
    assert few["best positive of each query"] == pytest.approx(given_as(best))
    assert few["best negative of each query"] == pytest.approx(given_as(hardest))
    whole = ScoreDisplay.from_result(market(8, higher=higher, pairs_kept=1000)).series[0]
    wrong = np.concatenate([s[r == 0] for s, r in everything])
    assert np.sort(whole["negative pairs"]) == pytest.approx(np.sort(given_as(wrong)))
    assert "best negative of each query" not in whole


def test_average_precision_of_every_query() -> None:
    made = people()
    display = AveragePrecisionDisplay.from_result(made).plot()
    assert np.array_equal(display.values[0], made.per_query["ap"])
    assert display.shares[0].sum() == pytest.approx(1)
    assert display.values[0].mean() == pytest.approx(made.metrics["mAP"])
    assert display.shares[0][-1] == pytest.approx((made.per_query["ap"] >= 0.95).mean())


def test_the_radius_curve_passes_through_what_is_reported() -> None:
    rules = load_protocol("places").resolved()
    rules["relevance"]["radius"] = [25.0, 5.0]
    rules["report"]["metrics"] = ["R@1", "R@5", "R@1(radius=5)"]
    rng = np.random.default_rng(1)
    query, gallery = rng.uniform(0, 200, (30, 2)), rng.uniform(0, 200, (90, 2))
    apart = np.hypot(*(query[:, None] - gallery).transpose(2, 0, 1))
    made = evaluate(
        Protocol.from_dict(_kept(rules), source="test"),
        Samples.from_columns(east=query[:, 0], north=query[:, 1]),
        Samples.from_columns(east=gallery[:, 0], north=gallery[:, 1]),
        ScoreMatrix(-apart + 12 * rng.normal(size=apart.shape), higher_is_better=True), top_k=5,
    )  # fmt: skip
    display = RadiusDisplay.from_result(made)
    assert display.cuts == [1, 5]
    for radius, metric, row in ((25, "R@1", 0), (25, "R@5", 1), (5, "R@1(radius=5)", 0)):
        at = display.values[row][np.searchsorted(display.radius, radius)]
        assert at == pytest.approx(made.metrics[metric])
        assert display.judged[row][radius] == made.metrics[metric]
    assert all((np.diff(values) >= 0).all() for values in display.values)


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _kept(inner) for key, inner in value.items() if inner is not None}
    return value


def test_errors_count_queries_without_an_answer() -> None:
    made = places()
    display = ErrorDisplay.from_result(made)
    metres = made.per_query["top1_error_m"].to_numpy(float)
    for m in (1.0, 25.0, 1e6):
        assert display.within(0, m) == pytest.approx((metres <= m).mean())
    table = made.per_query.copy()
    table.loc[:4, "top1_error_m"] = np.nan
    fewer = ErrorDisplay.from_result(replace(made, per_query=table))
    assert fewer.within(0, 1e9) == pytest.approx(0.5)
    assert fewer.names[0].endswith("(median none)")


def test_cameras_of_first_answers() -> None:
    made = market(3)
    display = CameraMatrixDisplay.from_result(made)
    _, query, gallery = parts(3)
    ids = made.per_query["top1_id"].to_numpy(int)
    right = made.per_query["top1_correct"].to_numpy(bool)
    assert display.kind == "first answers"
    assert display.counts is not None
    for (row, column), n in np.ndenumerate(display.counts):
        inside = (query["camera"] == display.rows[row]) & (
            gallery["camera"][ids] == display.columns[column]
        )
        assert n == inside.sum()
        if n:
            assert display.values[row, column] == right[inside].mean()
        else:
            assert np.isnan(display.values[row, column])
    assert display.counts.sum() == 7


def test_pairs_of_cameras_need_counts_by_camera() -> None:
    made = market(3, strata="camera", keep_ranking=True)
    display = CameraMatrixDisplay.from_result(made, metric="mAP")
    assert display.kind == "pairs"
    assert made.ranking is not None
    found = stratum_matrix(made.ranking, made.per_query["camera"], "mAP")
    assert np.array_equal(display.values, found.loc[display.rows].to_numpy(), equal_nan=True)
    whole = made.per_query.groupby("camera")["ap"].mean()
    assert display.overall == pytest.approx(whole.loc[display.rows].to_numpy())
    with pytest.raises(NotCountedError, match="strata='camera'"):
        CameraMatrixDisplay.from_result(market(3), metric="mAP")


def test_conditions_are_means_with_intervals() -> None:
    made = market(4, n=60)
    display = ConditionDisplay.from_result(made)
    table = made.per_query
    assert (display.column, display.metric) == ("camera", "mAP")
    for i, camera in enumerate(display.conditions):
        found = table.loc[table["camera"] == camera, "ap"]
        assert display.means[0][i] == pytest.approx(found.mean())
        assert display.n_queries[0][i] == len(found)
        low, high = display.lows[0][i], display.highs[0][i]
        assert low < found.mean() < high
        assert high - low < 0.6


def test_conditions_come_from_breakdowns_where_queries_have_no_values() -> None:
    made = market(4, by=["label"])
    display = ConditionDisplay.from_result(made, metric="CMC@1")
    assert display.column == "label"
    bare = replace(made, ranking=None, per_query=made.per_query.drop(columns="label"))
    other = ConditionDisplay.from_result(bare, metric="CMC@1")
    assert other.means[0] == pytest.approx(display.means[0])
    assert np.isnan(other.lows[0]).all()


def test_bands_are_the_intervals_of_the_curve() -> None:
    made = people()
    curves = made.curves.copy()
    curves["low"], curves["high"] = curves["value"] - 0.1, curves["value"] + 0.1
    display = CurveDisplay.from_result(replace(made, curves=curves)).plot()
    assert display.bands[0] is not None
    assert display.bands[0][0] == pytest.approx(display.values[0] - 0.1)
    assert display.ax_ is not None
    band = display.ax_.collections[0].get_paths()[0].vertices
    assert np.asarray(band)[:, 1].max() == pytest.approx(100 * (display.values[0][-1] + 0.1))


NUMBERS = {FirstAnswerDisplay: "precision", RocDisplay: "true_accepts"}


@pytest.mark.parametrize("kind", [PrecisionRecallDisplay, FirstAnswerDisplay, RocDisplay,
                                  RadiusDisplay, ErrorDisplay])  # fmt: skip
def test_lines_hold_the_numbers(kind: Any) -> None:
    made = places() if kind in (RadiusDisplay, ErrorDisplay) else market(5, pairs_kept=1000)
    display = kind.from_result(made).plot()
    drawn = np.asarray(display.lines_[0].get_ydata())
    if kind is ErrorDisplay:
        numbers = [display.within(0, m) for m in display.metres[0]]
    else:
        numbers = getattr(display, NUMBERS.get(kind, "values"))[0]
    assert np.isin(np.round(drawn, 9), np.round(np.r_[0, 100 * np.asarray(numbers)], 9)).all()
    assert drawn.max() == pytest.approx(100 * np.max(numbers))
