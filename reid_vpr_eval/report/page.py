"""The report: one page that works from disk, asks nothing of the network and can be printed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.errors import AlignmentError
from reid_vpr_eval.report.images import Images
from reid_vpr_eval.report.inline import inline_svg
from reid_vpr_eval.report.pictures import Strip, picture_lists
from reid_vpr_eval.report.plots import CurveDisplay, figure_bytes, run_names
from reid_vpr_eval.report.tables import (
    CountRow,
    MetricRow,
    QueryTable,
    count_rows,
    headline,
    metric_rows,
    query_table,
)
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["write_report"]

_CHOICES = {
    "worst": ("Worst queries", "Where the most is to be gained, the worst first."),
    "mistakes": (
        "Most confident mistakes",
        "The first item is wrong, and its score is better than that of other wrong first items.",
    ),
    "random": ("Random queries", "Drawn with seed 0."),
    "best": ("Best queries", "What works."),
}
_NOTES = {
    "recall": "Recall@N: the share of queries with a positive among the first N items.",
    "cmc": "CMC: the share of queries with a positive among the items up to each rank.",
    "other": "",
}


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure on the page: an element, and the names of its files."""

    svg: str
    kind: str
    caption: str


@dataclass(frozen=True, slots=True)
class _PictureList:
    """Strips under a heading."""

    title: str
    note: str
    strips: list[Strip]
    portrait: bool


@dataclass(frozen=True, slots=True)
class _Section:
    """One result as the template needs it."""

    anchor: str
    title: str
    result: Result
    headline: list[tuple[str, str]]
    metrics: list[MetricRow]
    counts: list[CountRow]
    figures: list[_Figure]
    pictures: list[_PictureList]
    pictures_hint: str
    queries: QueryTable
    rule: str
    toml: str


def write_report(
    results: Sequence[Result],
    folder: str | os.PathLike[str],
    images: Sequence[Images | None] = (),
    *,
    names: Sequence[str] = (),
) -> Path:
    """Write ``report.html`` and ``figures/`` for one or several results.

    The page is one file with its figures and pictures inside. The same input gives the
    same bytes.

    Parameters
    ----------
    results : sequence of Result
        Each is a section. Evaluate with ``top_k`` to have picture lists.
    folder : path
        Where to write; files of these names are replaced.
    images : sequence of Images or None, optional
        The pictures of each result.
    names : sequence of str, optional
        What the results are called; by default the titles of their protocols.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    AlignmentError
        If there is no result, or not one entry of images or names for each.
    """
    if not results:
        raise AlignmentError("there is no result to report")
    if images and len(images) != len(results):
        raise AlignmentError(
            f"images for {len(images)} of {len(results)} results: one entry each is needed "
            "(None for no images)"
        )
    target = Path(folder)
    titles = run_names(results, names)
    figures = _figures(results, titles, target / "figures")
    given = list(images) or [None] * len(results)
    sections = [
        _section(i, one, titles[i], given[i], figures) for i, one in enumerate(results)
    ]
    shared = [figure for figure, rows in figures if len(rows) > 1]
    page = _environment().get_template("report.html").render(
        title=titles[0] if len(results) == 1 else "Evaluation report",
        sections=sections,
        shared=shared,
        reasons=sorted({one.interval_reason for one in results}),
    )  # fmt: skip
    write_atomically(target / "report.html", (page.strip() + "\n").encode())
    return target / "report.html"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("reid_vpr_eval.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(text: str) -> Markup:
    """Let a long id break after the marks that names are made of."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([/_@])(?=[^/_@])", r"\1<wbr>", str(escape(text))))  # noqa: S704


def _figures(
    results: Sequence[Result], titles: Sequence[str], folder: Path
) -> list[tuple[_Figure, list[int]]]:
    """Write a figure for each kind of result; return them with the results they show."""
    by_kind: dict[bool, list[int]] = {}
    for i, one in enumerate(results):
        by_kind.setdefault(one.protocol.relevance.kind == "within", []).append(i)
    out = []
    for rows in by_kind.values():
        display = CurveDisplay.from_results(
            [results[i] for i in rows], names=[titles[i] for i in rows]
        ).plot()
        assert display.figure_ is not None  # noqa: S101 (set by plot)
        svg = figure_bytes(display.figure_, "svg")
        write_atomically(folder / f"{display.kind}.svg", svg)
        write_atomically(folder / f"{display.kind}.png", figure_bytes(display.figure_, "png"))
        element = inline_svg(svg, display.kind, _spoken(display))
        out.append((_Figure(element, display.kind, _NOTES[display.kind]), rows))
    return out


def _spoken(display: CurveDisplay) -> str:
    """Say what a figure shows."""
    ends = [
        f"{name}: {100 * values[0]:.1f} percent at {display.k[0]}, "
        f"{100 * values[-1]:.1f} at {display.k[-1]}"
        for name, values in zip(display.names, display.values, strict=True)
    ]
    return f"{'Recall@N' if display.kind == 'recall' else 'CMC'} curve. {'; '.join(ends)}"


def _section(
    number: int,
    result: Result,
    title: str,
    images: Images | None,
    figures: list[tuple[_Figure, list[int]]],
) -> _Section:
    lists = picture_lists(result, images) if images is not None else {}
    hint = ""
    if images is not None and result.rankings is None:
        hint = "Evaluate with top_k = 10 to see the pictures of what was ranked first."
    return _Section(
        anchor=_anchor(number, result.protocol.name),
        title=title,
        result=result,
        headline=headline(result),
        metrics=metric_rows(result),
        counts=count_rows(result),
        figures=[figure for figure, rows in figures if rows == [number]],
        pictures=[_picture_list(*_CHOICES[which], strips) for which, strips in lists.items()],
        pictures_hint=hint,
        queries=query_table(result),
        rule=_rule(result),
        toml=result.protocol.to_toml(),
    )


def _picture_list(title: str, note: str, strips: list[Strip]) -> _PictureList:
    pictures = [tile.picture for strip in strips for tile in (strip.query, *strip.ranked)]
    known = [picture for picture in pictures if picture is not None]
    upright = sum(picture.height > 1.2 * picture.width for picture in known)
    return _PictureList(title, note, strips, portrait=2 * upright > len(known))


def _anchor(number: int, name: str) -> str:
    return f"r{number + 1}-{re.sub('[^a-z0-9-]', '-', name)}"


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def _within(rule: Any) -> str:
    edge = "up to and including" if rule.inclusive else "nearer than"
    text = f"An item is right if it was taken {edge} {_first(rule.radius):g} m from the query"
    if rule.heading is not None:
        text += f", looking in the same direction within {rule.heading:g} degrees"
    return text + "."


def _pose(rule: Any) -> str:
    edge = "less than" if rule.strict else "at most"
    turn = "" if rule.degrees is None else f" and {edge} {_first(rule.degrees):g} degrees"
    return f"An item is right if its camera stood {edge} {_first(rule.metres):g} m{turn} away."


def _frames(rule: Any) -> str:
    side = {"both": "before or after", "before": "before", "after": "after"}[rule.sided]
    unit = "frames" if rule.unit == "frame" else "places in the order of frames"
    return f"An item is right if it lies at most {rule.window} {unit} {side} the query."


def _nearest(rule: Any) -> str:
    return (
        f"An item is right if it is one of the {rule.k} nearest neighbours of the query "
        f"({rule.metric} distance, as given or computed from other features)."
    )


def _listed(rule: Any) -> str:
    return (
        "An item is right if the lists name it for the query "
        f"({', '.join(rule.positive)}; ignored: {', '.join(rule.ignored) or 'none'})."
    )


#: What is right, in a sentence, by the kind of rule; labels have one of their own.
_RULES: dict[str, Callable[[Any], str]] = {
    "within": _within, "pose": _pose, "frames": _frames, "nearest": _nearest, "listed": _listed,
}  # fmt: skip


def _rule(result: Result) -> str:
    """Say in a sentence who is right."""
    rule: Any = result.protocol.relevance
    told = _RULES.get(rule.kind)
    if told is not None:
        return told(rule)
    text = f"An item is right if it has the query's {rule.label}"
    if rule.different:
        text += f" and another {' and another '.join(rule.different)}"
    if rule.same:
        text += f" and the same {' and the same '.join(rule.same)}"
    if rule.different or rule.same:
        what = "ignored" if rule.failing == "ignore" else "wrong"
        text += f"; of the same {rule.label} otherwise, it is {what}"
    return text + "."
