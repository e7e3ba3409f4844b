"""Every figure: nothing cut off, the same bytes twice, any number of runs, bad inputs said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from test_figures_numbers import market
from test_places import row_of_streets

from reid_vpr_eval import (
    AlignmentError,
    NotCountedError,
    RankedLists,
    Result,
    Samples,
    ScoreMatrix,
    evaluate,
    load_protocol,
)
from reid_vpr_eval.report.figures import (
    AveragePrecisionDisplay,
    CameraMatrixDisplay,
    ConditionDisplay,
    CurveDisplay,
    Display,
    ErrorDisplay,
    FailureMapDisplay,
    FirstAnswerDisplay,
    PrecisionRecallDisplay,
    RadiusDisplay,
    RocDisplay,
    ScoreDisplay,
    figure_bytes,
)
from report_results import people, places

#: Those of several results, with a result that each can be made of.
SHARED: dict[Any, Callable[[int], Result]] = {
    CurveDisplay: people,
    AveragePrecisionDisplay: people,
    PrecisionRecallDisplay: people,
    ScoreDisplay: people,
    RocDisplay: lambda seed: market(seed, pairs_kept=1000),
    ConditionDisplay: lambda seed: market(seed, n=40),
    RadiusDisplay: places,
    ErrorDisplay: places,
    FirstAnswerDisplay: places,
}
ALONE: dict[Any, Callable[[int], Result]] = {
    CameraMatrixDisplay: market,
    FailureMapDisplay: lambda _: row_of_streets(),
}
EVERY = {**SHARED, **ALONE}
LONG = ["a very long name of a run " * 9, "W" * 300, "行" * 90, "$x_{1$", "a\x00b\n<script>", "b"]


def check_inside(display: Display) -> None:
    figure = display.figure_
    assert figure is not None
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    box = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= width
    assert box.y1 <= height


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_nothing_is_cut_off(kind: Any) -> None:
    made = EVERY[kind](1)
    check_inside(kind.from_result(made, name=LONG[0]).plot())
    if kind in SHARED:
        several = kind.from_results([SHARED[kind](i + 1) for i in range(6)], names=LONG).plot()
        check_inside(several)
        assert len(several.names) == 6


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind is ScoreDisplay else pytest.mark.slow) for kind in EVERY],
    ids=lambda kind: kind.__name__,
)
def test_the_same_bytes_whatever_the_settings(kind: Any) -> None:
    made = EVERY[kind](1)
    suffixes: tuple[Any, ...] = ("svg", "png") if kind in ALONE else ("svg",)

    def drawn() -> list[bytes]:
        figure = kind.from_result(made).plot().figure_
        return [figure_bytes(figure, suffix) for suffix in suffixes]

    first = drawn()
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "svg.hashsalt": None}):
        assert drawn() == first
    assert b"date" not in first[0].lower()


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_draws_into_a_given_axes_and_tells_its_numbers(kind: Any) -> None:
    ax = Figure(layout="constrained").add_subplot()
    display = kind.from_result(EVERY[kind](2))
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.get_figure()
    assert ax.has_data()
    assert display.caption.endswith(".")
    assert any(letter.isdigit() for letter in display.spoken())


@pytest.mark.parametrize("kind", SHARED, ids=lambda kind: kind.__name__)
def test_no_result_and_too_few_names_are_refused(kind: Any) -> None:
    with pytest.raises(AlignmentError, match="no result"):
        kind.from_results([])
    made = SHARED[kind](1)
    with pytest.raises(AlignmentError, match="1 name for 2"):
        kind.from_results([made, made], names=["a"])


def lone(right: bool = True) -> Result:
    """Return one query, whose first answer is right or wrong, at two positions."""
    scores = np.array([[1.0, 0.0]] if right else [[0.0, 1.0]])
    return evaluate(
        "places", Samples.from_columns(east=[5e5], north=[5e6], camera=[1]),
        Samples.from_columns(east=[5e5, 5e5 + 80], north=[5e6, 5e6], camera=[1, 2]),
        ScoreMatrix(scores, higher_is_better=True), pairs_kept=10,
    )  # fmt: skip


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_one_query(kind: Any, right: bool) -> None:
    check_inside(kind.from_result(lone(right)).plot())


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_all_right_and_equal_scores(kind: Any) -> None:
    """Everything at one place, every score the same."""
    here = Samples.from_columns(east=[0.0] * 4, north=[0.0] * 4, camera=[1, 1, 2, 2],
                                id=["a", "b", "c", "d"])  # fmt: skip
    there = Samples.from_columns(east=[0.0, 0.0, 9000.0], north=[0.0] * 3, camera=[1, 2, 1])
    scores = np.array([[1.0, 1.0, 1.0]] * 4)
    made = evaluate("places", here, there, ScoreMatrix(scores, higher_is_better=True),
                    pairs_kept=10)  # fmt: skip
    check_inside(kind.from_result(made).plot())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (PrecisionRecallDisplay, "keep_ranking=True"), (FirstAnswerDisplay, "keep_ranking=True"),
        (RocDisplay, "keep_ranking=True"), (ScoreDisplay, "keep_ranking=True"),
    ],
)  # fmt: skip
def test_without_counts_it_is_said_what_to_ask_for(kind: Any, words: str) -> None:
    with pytest.raises(NotCountedError, match=words):
        kind.from_result(replace(people(), ranking=None))


def test_without_counts_tables_still_speak() -> None:
    bare = replace(places(), ranking=None)
    for kind in (AveragePrecisionDisplay, ErrorDisplay, RadiusDisplay, FailureMapDisplay):
        check_inside(kind.from_result(bare).plot())
    check_inside(CameraMatrixDisplay.from_result(replace(market(1), ranking=None)).plot())


@pytest.mark.parametrize(
    ("kind", "made", "words"),
    [
        (RocDisplay, people, "pairs_kept="),
        (ErrorDisplay, people, "within"),
        (RadiusDisplay, people, "within"),
        (FailureMapDisplay, people, "does not judge by distance"),
        (CameraMatrixDisplay, people, "no column 'camera'"),
        (ConditionDisplay, people, "--by COLUMN"),
    ],
)
def test_missing_columns_are_said(kind: Any, made: Any, words: str) -> None:
    with pytest.raises(NotCountedError, match=words):
        kind.from_result(made())


def test_a_run_of_an_older_version_has_no_map() -> None:
    with pytest.raises(NotCountedError, match="older version"):
        FailureMapDisplay.from_result(replace(places(), places=None, track=None))


def test_average_precision_that_was_not_counted() -> None:
    made = evaluate("places", Samples.from_columns(east=[0.0], north=[0.0]),
                    Samples.from_columns(east=[0.0, 99.0], north=[0.0, 0.0]),
                    ScoreMatrix([[1.0, 0.0]], higher_is_better=True), keep="first")  # fmt: skip
    for kind in (AveragePrecisionDisplay, PrecisionRecallDisplay):
        with pytest.raises(NotCountedError, match="keep"):
            kind.from_result(made)


def test_places_in_lists_are_no_scores() -> None:
    made = evaluate("labels", Samples.from_columns(label=[1, 2]),
                    Samples.from_columns(label=[1, 2, 3]), RankedLists([[0, 1, 2], [2, 1, 0]])
                    )  # fmt: skip
    with pytest.raises(NotCountedError, match="without scores"):
        ScoreDisplay.from_result(made)
    check_inside(PrecisionRecallDisplay.from_result(made).plot())


def test_conditions_by_the_hundred_are_cut_to_the_largest() -> None:
    rng = np.random.default_rng(0)
    side = {"label": rng.integers(0, 5, 400), "camera": np.r_[np.arange(100), np.zeros(300, int)]}
    made = evaluate(
        load_protocol("market1501"), Samples.from_columns(**side),
        Samples.from_columns(label=np.arange(10) % 5, camera=[999] * 10),
        ScoreMatrix(rng.normal(size=(400, 10)), higher_is_better=True), expected="ignore",
    )  # fmt: skip
    display = ConditionDisplay.from_result(made).plot()
    assert len(display.conditions) == 40
    assert display.conditions[0] == 0
    assert "60 conditions with fewer queries are not drawn" in display.caption
    check_inside(display)
    check_inside(CameraMatrixDisplay.from_result(made).plot())


def test_many_cameras_with_long_names() -> None:
    rng = np.random.default_rng(0)
    names = np.array([f"camera at the {i}. floor, north" for i in range(9)])
    made = evaluate(
        load_protocol("market1501"),
        Samples.from_columns(label=np.arange(60) % 5, camera=names[rng.integers(0, 9, 60)]),
        Samples.from_columns(label=np.arange(80) % 5, camera=names[rng.integers(0, 9, 80)]),
        ScoreMatrix(rng.normal(size=(60, 80)), higher_is_better=True), expected="ignore",
    )  # fmt: skip
    check_inside(CameraMatrixDisplay.from_result(made).plot())
    check_inside(ConditionDisplay.from_result(made).plot())
