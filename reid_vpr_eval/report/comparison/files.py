"""The files of a comparison: what was found, tables to paste, figures."""

from __future__ import annotations

import os
from pathlib import Path

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.errors import FormatError
from reid_vpr_eval.report.comparison.figures import ChangesDisplay, DifferencesDisplay
from reid_vpr_eval.report.comparison.text import render_comparison
from reid_vpr_eval.report.figures.style import figure_bytes
from reid_vpr_eval.studies.comparison import Comparison

__all__ = ["displays_of", "write_comparison"]


def write_comparison(
    comparison: Comparison, folder: str | os.PathLike[str], *, changed: int = 10
) -> None:
    """Write a comparison into a folder; the same comparison gives the same bytes.

    Leaves comparison.json, comparison.csv (differences), comparison_queries.csv (values of
    queries), comparison.txt, comparison.md, comparison.tex, and figures/comparison and
    figures/changes as SVG and PNG, for the first metric.

    Parameters
    ----------
    comparison : Comparison
        What was found.
    folder : path
        Where to write; files of these names are replaced.
    changed : int
        How many changed queries each way are listed in comparison.json.

    Raises
    ------
    FormatError
        If the folder is a file.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise FormatError(f"{target} is a file: name a folder for the comparison")
    comparison.save(target, changed=changed)
    for suffix, form in (("txt", "table"), ("md", "markdown"), ("tex", "latex")):
        text = render_comparison(comparison, form)
        write_atomically(target / f"comparison.{suffix}", f"{text}\n".encode())
    for display in displays_of(comparison):
        figure = display.plot().figure_
        assert figure is not None  # noqa: S101 (set by plot)
        for kind in ("svg", "png"):
            path = target / "figures" / f"{display.kind_name}.{kind}"
            write_atomically(path, figure_bytes(figure, kind))


def displays_of(comparison: Comparison) -> list[DifferencesDisplay | ChangesDisplay]:
    """Return the figures of a comparison by its first metric, those that there can be."""
    found: list[DifferencesDisplay | ChangesDisplay] = [
        DifferencesDisplay.from_comparison(comparison)
    ]
    if f"{comparison.metric}:{comparison.runs[0]}" in comparison.per_query:
        found.append(ChangesDisplay.from_comparison(comparison))
    return found
