"""The part of a report page that compares its runs, as plain rows for the template."""

from __future__ import annotations

from dataclasses import dataclass

from reid_vpr_eval.report.comparison.files import displays_of
from reid_vpr_eval.report.figures.style import figure_bytes
from reid_vpr_eval.report.inline import inline_svg
from reid_vpr_eval.studies.comparison import Comparison
from reid_vpr_eval.studies.comparison.text import (
    Table,
    changed_rows,
    difference_table,
    heading,
    run_table,
    tested,
)
from reid_vpr_eval.summary import spelled

__all__ = ["ChangedRows", "ComparisonSection", "ComparedMetric", "Figure", "comparison_section"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as an element of the page, the name of its files, and what it shows."""

    svg: str
    kind: str
    caption: str


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """The tables of one metric: headings, and rows of cells."""

    name: str
    runs: Table
    differences: Table


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The queries of one pair that changed most."""

    title: str
    table: Table


@dataclass(frozen=True, slots=True)
class ComparisonSection:
    """A comparison as a template needs it; every text is plain and to be escaped, but `svg`.

    Attributes
    ----------
    title : str
        What was compared, on how many queries.
    headline : str
        The one-line result, by the first metric, for the first pair.
    metrics : list of ComparedMetric
        The tables.
    changed : list of ChangedRows
        The queries that changed most, of each pair with the first run, by the first metric.
    figures : list of Figure
        Differences, and how far queries moved.
    made : list of str
        How intervals and p were made.
    notes : list of str
        What a reader should know.
    forced : bool
        Whether the runs differ in what they should not.
    """

    title: str
    headline: str
    metrics: list[ComparedMetric]
    changed: list[ChangedRows]
    figures: list[Figure]
    made: list[str]
    notes: list[str]
    forced: bool


def comparison_section(
    comparison: Comparison, *, changed: int = 5, mark: str = ""
) -> ComparisonSection:
    """Return a comparison as the rows and figures of a page.

    Parameters
    ----------
    comparison : Comparison
        What was found.
    changed : int
        How many queries are listed each way, for each pair with the first run.
    mark : str
        Stands before the ids of figures, so that several comparisons share a page.
    """
    figures = []
    for display in displays_of(comparison):
        figure = display.plot().figure_
        assert figure is not None  # noqa: S101 (set by plot)
        name = f"{mark}{display.kind_name}"
        svg = inline_svg(figure_bytes(figure, "svg"), name, display.spoken())
        figures.append(Figure(svg, display.kind_name, display.caption))
    first = comparison.runs[0]
    listed = [
        ChangedRows(f"{one.run} - {one.baseline}", changed_rows(comparison, one, changed))
        for one in comparison.differences
        if one.baseline == first and one.metric == comparison.metric
        and f"{one.metric}:{one.run}" in comparison.per_query
    ]  # fmt: skip
    return ComparisonSection(
        title=heading(comparison),
        headline=headline(comparison),
        metrics=[
            ComparedMetric(
                spelled(metric, comparison.protocol), run_table(comparison, metric),
                difference_table(comparison, metric),
            )
            for metric in comparison.metrics
        ],
        changed=[one for one in listed if one.table[1]],
        figures=figures,
        made=list(tested(comparison)),
        notes=list(comparison.notes),
        forced=comparison.settings.forced,
    )  # fmt: skip


def headline(comparison: Comparison) -> str:
    """Say in a sentence what the first pair says by the first metric."""
    one = comparison.differences[0]
    name = spelled(one.metric, comparison.protocol)
    cells = difference_table(comparison, one.metric)[1][0]
    told = f"{one.run} against {one.baseline}: {name} {cells[1]}"
    if one.low is not None:
        told += f" {cells[2]}"
    if one.p is None:
        return f"{told}; not tested"
    verdict = "significant" if one.significant else "not significant"
    return f"{told}, {verdict} at {1 - comparison.settings.level:.2g}"
