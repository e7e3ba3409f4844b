"""Curves: their numbers, their words, and the same bytes twice."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from reid_vpr_eval import AlignmentError, NotCountedError, Result, compute
from reid_vpr_eval.report import CurveDisplay
from reid_vpr_eval.report.figures import figure_bytes, run_names
from reid_vpr_eval.report.inline import inline_svg
from report_results import people, places


def test_values_are_those_of_the_metric_at_k() -> None:
    made = people()
    display = CurveDisplay.from_result(made)
    assert made.ranking is not None
    values = compute(made.ranking, [f"CMC@{k}" for k in (1, 7, 20)])
    assert display.k.tolist() == list(range(1, 21))
    assert [display.values[0][k - 1] for k in (1, 7, 20)] == list(values.values())
    assert display.values[0][0] == made.metrics["R@1"]
    assert display.chances[0] is not None
    assert display.chances[0][0] == pytest.approx(made.chance["CMC@1"])


def test_any_metric_with_a_cut_off_is_drawn() -> None:
    made = people()
    display = CurveDisplay.from_result(made, "P", k_max=3).plot()
    assert made.ranking is not None
    assert display.values[0][2] == compute(made.ranking, ["P@3"])["P@3"]
    assert display.ax_ is not None
    assert display.ax_.get_ylabel() == "P@k (%)"


def test_people_are_drawn_as_cmc() -> None:
    made = people()
    display = CurveDisplay.from_result(made, name="ours").plot()
    assert display.kind == "cmc"
    r1, ap = 100 * made.metrics["R@1"], 100 * made.metrics["mAP"]
    assert display.names == [f"ours (R1 {r1:.1f}, mAP {ap:.1f})"]
    assert display.ax_ is not None
    assert display.ax_.get_xlabel() == "Rank"
    assert display.lines_[0].get_ydata()[0] == 100 * made.metrics["R@1"]  # type: ignore[index]


def test_places_are_drawn_as_recall() -> None:
    display = CurveDisplay.from_result(places()).plot()
    assert display.kind == "recall"
    assert display.ax_ is not None
    assert display.ax_.get_ylabel() == "Recall@N (%)"
    assert display.ax_.get_xticks().tolist() == [1, 5, 10, 15, 20, 25]
    assert display.names[0].startswith("Within 25 metres (R@1 ")
    assert display.ceilings == [0.9]
    assert "ceiling 90.0" in [text.get_text() for text in display.ax_.texts]


def test_lines_differ_without_colour() -> None:
    several = [people(seed) for seed in range(1, 8)]
    lines = CurveDisplay.from_results(several).plot().lines_
    assert len({(line.get_marker(), str(line.get_linestyle()), i // 12)
                for i, line in enumerate(lines)}) == 7  # fmt: skip


def test_draws_into_a_given_axes() -> None:
    ax = Figure().add_subplot()
    display = CurveDisplay.from_result(people())
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.get_figure()


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_figure_has_the_same_bytes_whatever_the_settings(kind: str) -> None:
    def drawn() -> bytes:
        figure = CurveDisplay.from_results([people(), people(4)]).plot().figure_
        assert figure is not None
        return figure_bytes(figure, kind)  # type: ignore[arg-type]

    first = drawn()
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "svg.hashsalt": None}):
        assert drawn() == first
        assert mpl.rcParams["font.size"] == 30
    assert b"Date" not in first
    assert b"date" not in first


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("letters", ["a very long name of a run ", "W", "行"])
def test_nothing_is_cut_off(letters: str) -> None:
    names = [letters * 60, "b"]
    figure = CurveDisplay.from_results([people(), people(4)], names=names).plot().figure_
    assert figure is not None
    figure_bytes(figure, "png")
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    tight = figure.get_tightbbox(renderer).bounds
    width, height = figure.get_size_inches()
    assert tight[0] >= 0
    assert tight[1] >= 0
    assert tight[0] + tight[2] <= width
    assert tight[1] + tight[3] <= height


@pytest.mark.parametrize("name", ["$x_{1$", "行人重识别", "a\x00b\n--> <script>", "a & b"])
def test_strange_names_are_drawn_as_they_are(name: str) -> None:
    figure = CurveDisplay.from_result(people(), name=name).plot().figure_
    assert figure is not None
    svg = figure_bytes(figure, "svg")
    ET.fromstring(svg)  # noqa: S314 (made above)
    assert "<script" not in inline_svg(svg, "x", name)


def test_inside_a_page_a_figure_has_ids_of_its_own_and_no_address() -> None:
    figure = CurveDisplay.from_result(people()).plot().figure_
    assert figure is not None
    text = inline_svg(figure_bytes(figure, "svg"), "one", 'a "b" <c>')
    assert "http" not in text
    assert 'aria-label="a &quot;b&quot; &lt;c&gt;"' in text
    assert text.startswith("<svg viewBox=")
    assert 'id="one-figure_1"' in text
    assert text.count('href="#') == text.count('href="#one-')
    assert text.count("url(#") == text.count("url(#one-")


def test_equal_titles_are_numbered() -> None:
    made = people()
    title = made.protocol.title
    assert run_names([made, places(), made]) == [f"{title} [1]", "Within 25 metres", f"{title} [2]"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(AlignmentError, match="no result"):
        CurveDisplay.from_results([])
    with pytest.raises(AlignmentError, match="1 name for 2 results"):
        CurveDisplay.from_results([people(), people()], names=["a"])
    with pytest.raises(NotCountedError, match="needs the counts"):
        CurveDisplay.from_result(_without_counts(), k_max=80)


def test_without_counts_the_saved_curve_is_drawn_without_chance() -> None:
    display = CurveDisplay.from_result(_without_counts())
    assert display.chances == [None]
    assert np.array_equal(display.values[0], CurveDisplay.from_result(people()).values[0])


def _without_counts() -> Result:
    return replace(people(), ranking=None)
