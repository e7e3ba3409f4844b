"""The report: one page that works from disk, asks nothing of the network and can be printed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.errors import AlignmentError, counted
from reid_vpr_eval.report.comparable import Group, groups_of, why_apart
from reid_vpr_eval.report.figures import run_names
from reid_vpr_eval.report.images import Images
from reid_vpr_eval.report.section import PictureOptions, section_of
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["write_report"]

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
            f"images for {len(images)} of {counted(len(results), 'result')}: one entry each is "
            "needed (None for no images)"
        )
    target = Path(folder)
    titles = run_names(results, names)
    groups = groups_of(results, titles, target / "figures")
    given, said = list(images) or [None] * len(results), list(hints) or [""] * len(results)
    sections = [
        section_of(
            i, one, titles[i], given[i], _of(groups, i), options or PictureOptions(),
            hint=said[i], share=len(results), run=runs[i] if runs else None,
        )
        for i, one in enumerate(results)
    ]  # fmt: skip
    page = _environment().get_template("report.html").render(
        title=titles[0] if len(results) == 1 else "Evaluation report",
        sections=sections,
        groups=[group for group in groups if len(group.rows) > 1],
        apart=why_apart(results) if len(groups) > 1 else "",
    )  # fmt: skip
    write_atomically(target / "report.html", (page.strip() + "\n").encode())
    return target / "report.html"


def _of(groups: Sequence[Group], number: int) -> tuple[Group, int]:
    """Return the group that a result is in, and its place there."""
    group = next(one for one in groups if number in one.rows)
    return group, group.rows.index(number)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("reid_vpr_eval.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"breakable": _breakable, "counted": counted}
    return environment


def _breakable(text: str) -> Markup:
    """Let a long id break after the marks that names are made of."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([/_@])(?=[^/_@])", r"\1<wbr>", str(escape(text))))  # noqa: S704
