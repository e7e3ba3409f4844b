"""compare: two or more runs of one protocol, query by query."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reid_vpr_eval.cli.base import app, guarded
from reid_vpr_eval.errors import counted


class ComparisonFormat(StrEnum):
    """How a comparison is printed."""

    table = "table"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"
    tsv = "tsv"
    json = "json"


class Correction(StrEnum):
    """How p is corrected for several pairs."""

    max_t = "max-t"
    holm = "holm"
    none = "none"


class Pairs(StrEnum):
    """Which runs are set against which."""

    auto = "auto"
    all = "all"
    first = "first"


@app.command()
@guarded
def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN",
                       help="run folders, the first is the baseline; NAME=RUN names one, and "
                       "NAME=RUN,RUN is one model with several runs (seeds, checkpoints)"),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="any mean over queries; repeatable; by default the protocol's first"),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="NAME=RUN,RUN", help="the same as an argument")
    ] = None,
    names: Annotated[
        str | None, typer.Option(metavar="A,B", help="what the runs are called, in their order")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="what belongs together: label, camera, or query for nothing")
    ] = None,
    correction: Annotated[
        Correction, typer.Option(help="of p for several pairs")
    ] = Correction.max_t,
    pairs: Annotated[
        Pairs, typer.Option(help="all, or each with the first; auto: all of up to six runs")
    ] = Pairs.auto,
    level: Annotated[float, typer.Option(help="of intervals; p is judged at 1 - level")] = 0.95,
    resamples: Annotated[int, typer.Option(min=1, help="random sign changes")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="of everything random")] = 0,
    changed: Annotated[
        int, typer.Option(min=0, help="list so many queries that changed most, each way")
    ] = 3,
    format: Annotated[
        ComparisonFormat, typer.Option(help="how the comparison is printed")
    ] = ComparisonFormat.table,
    out: Annotated[Path | None, typer.Option(help="folder for tables, figures and values")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="compare runs that differ in what they should not")
    ] = False,
) -> None:
    """Compare runs of one protocol: paired differences, intervals, tests, what changed."""
    from reid_vpr_eval.report.comparison import render_comparison, write_comparison
    from reid_vpr_eval.studies.comparison import compare as compare_runs
    from reid_vpr_eval.studies.comparison.text import changed_table

    if len(runs or []) + len(group or []) < 2:
        raise typer.BadParameter("name two runs at least", param_hint="RUN")
    called, sources = _named([*(runs or []), *(group or [])], names)
    found = compare_runs(
        sources, metric or None, names=called, level=level, resamples=resamples, seed=seed,
        force=force, correction=correction.value, unit=unit, pairs=pairs.value,
    )  # fmt: skip
    typer.echo(render_comparison(found, format.value))
    if format is ComparisonFormat.table and changed:
        for name in found.metrics:
            listed = changed_table(found, changed, name)
            if listed:
                typer.echo(f"\n{listed}")
    if out is not None:
        write_comparison(found, out, changed=max(changed, 10))
        typer.echo(f"written to {out}", err=True)


def _named(given: list[str], names: str | None) -> tuple[list[str | None], list[list[str]]]:
    """Return the name (None: by its folder) and the folders of each model that was given."""
    called: list[str | None] = []
    sources: list[list[str]] = []
    for text in given:
        name, equals, listed = text.partition("=")
        if Path(text).exists() or not equals:
            called.append(None)
            sources.append([text])
            continue
        folders = [part.strip() for part in listed.split(",") if part.strip()]
        if not name.strip() or not folders:
            raise typer.BadParameter(f"{text!r}: NAME=RUN or NAME=RUN,RUN is needed")
        called.append(name.strip())
        sources.append(folders)
    if names is None:
        return called, sources
    if any(name is not None for name in called):
        raise typer.BadParameter("runs are named twice: by NAME=RUN and by --names")
    every = [part.strip() for part in names.split(",")]
    if len(every) != len(sources):
        raise typer.BadParameter(
            f"--names gives {counted(len(every), 'name')} for {counted(len(sources), 'run')}"
        )
    return list(every), sources
