"""The report: one page that works from disk, asks nothing of the network and can be printed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.errors import AlignmentError
from reid_vpr_eval.report.images import Images
from reid_vpr_eval.report.inline import inline_svg
from reid_vpr_eval.report.plots import CurveDisplay, figure_bytes, run_names
from reid_vpr_eval.report.section import Figure, PictureOptions, section_of
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["write_report"]

_NOTES = {
    "recall": "Recall@N: the share of queries with a positive among the first N items.",
    "cmc": "CMC: the share of queries with a positive among the items up to each rank.",
    "other": "",
}


def write_report(
    results: Sequence[Result],
    folder: str | os.PathLike[str],
    images: Sequence[Images | None] = (),
    *,
    names: Sequence[str] = (),
    hints: Sequence[str] = (),
    runs: Sequence[Path] = (),
    options: PictureOptions | None = None,
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
    hints : sequence of str, optional
        For each result why it has no pictures, if there is anything to say.
    runs : sequence of path, optional
        The folders of saved runs; a sweep.csv in them is shown.
    options : PictureOptions, optional
        What picture lists and the table of queries show.

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
    given, said = list(images) or [None] * len(results), list(hints) or [""] * len(results)
    sections = [
        section_of(
            i, one, titles[i], given[i], [figure for figure, rows in figures if rows == [i]],
            options or PictureOptions(), hint=said[i], share=len(results),
            run=runs[i] if runs else None,
        )
        for i, one in enumerate(results)
    ]  # fmt: skip
    page = _environment().get_template("report.html").render(
        title=titles[0] if len(results) == 1 else "Evaluation report",
        sections=sections,
        shared=[figure for figure, rows in figures if len(rows) > 1],
        apart=_apart(results),
    )  # fmt: skip
    write_atomically(target / "report.html", (page.strip() + "\n").encode())
    return target / "report.html"


def _apart(results: Sequence[Result]) -> str:
    """Say why results on one page must not be compared with each other, if so."""
    if len({one.protocol.judging_hash for one in results}) > 1:
        return "judged by different protocols"
    for side in ("query", "gallery"):
        if len({str(one.inputs.get(side)) for one in results}) > 1:
            return f"of different {side} sets"
    return ""


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
) -> list[tuple[Figure, list[int]]]:
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
        files = tuple(f"figures/{display.kind}.{suffix}" for suffix in ("svg", "png"))
        out.append((Figure(element, _NOTES[display.kind], files), rows))
    return out


def _spoken(display: CurveDisplay) -> str:
    """Say what a figure shows."""
    ends = [
        f"{name}: {100 * values[0]:.1f} percent at {display.k[0]}, "
        f"{100 * values[-1]:.1f} at {display.k[-1]}"
        for name, values in zip(display.names, display.values, strict=True)
    ]
    return f"{'Recall@N' if display.kind == 'recall' else 'CMC'} curve. {'; '.join(ends)}"
