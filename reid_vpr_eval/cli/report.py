"""report: one page of saved runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reid_vpr_eval.cli.base import app, guarded, warn

if TYPE_CHECKING:
    from reid_vpr_eval.result import Result


class Choose(StrEnum):
    """Which queries have a picture list."""

    worst = "worst"
    mistakes = "mistakes"
    random = "random"
    best = "best"


@app.command()
@guarded
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="run folders")],
    out: Annotated[
        Path | None, typer.Option(help="folder to write; of one run, the run's own if left out")
    ] = None,
    names: Annotated[
        str | None, typer.Option(help="what the runs are called, with commas between")
    ] = None,
    images_query: Annotated[
        Path | None, typer.Option(help="folder or zip that holds the query images")
    ] = None,
    images_gallery: Annotated[
        Path | None, typer.Option(help="that of the gallery images; the same one if left out")
    ] = None,
    worst: Annotated[
        int, typer.Option(min=1, help="rows of the table of queries, the worst ones")
    ] = 500,
    pictures: Annotated[int, typer.Option(min=0, help="queries of each picture list")] = 5,
    choose: Annotated[
        list[Choose] | None, typer.Option(help="which picture lists; repeatable, all if left out")
    ] = None,
    only_wrong: Annotated[
        bool, typer.Option("--only-wrong", help="lists of queries whose first item is wrong alone")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="seed of the random picture list")] = 0,
    thumbnails: Annotated[
        Path | None, typer.Option(help="folder that keeps small pictures; OUT/thumbnails if left "
                                  "out")
    ] = None,
) -> None:
    """Write report.html and figures of one or several saved runs."""
    from reid_vpr_eval.report import CHOICES, PictureOptions, images_of_run, write_report
    from reid_vpr_eval.result import Result

    target = out or (runs[0] if len(runs) == 1 else Path("report"))
    results = [Result.load(run, lenient=True) for run in runs]
    found = [
        images_of_run(run, result, images_query, images_gallery)
        for run, result in zip(runs, results, strict=True)
    ]
    for run, (_, hint) in zip(runs, found, strict=True):
        if not (run / "per_query.csv").is_file():
            warn(f"{run}: holds no per_query.csv: no table of queries, no pictures, no figures")
        if hint and (images_query or images_gallery):
            warn(f"{run}: {hint}")
    options = PictureOptions(
        rows=worst, n=pictures, choices=tuple(one.value for one in choose or ()) or CHOICES,
        seed=seed, only_wrong=only_wrong, thumbnails=thumbnails or target / "thumbnails",
    )  # fmt: skip
    page = write_report(
        results, target, [images for images, _ in found], hints=[hint for _, hint in found],
        runs=runs,
        names=[name.strip() for name in names.split(",")] if names else _names(runs, results),
        options=options,
    )  # fmt: skip
    typer.echo(f"report:     {page}")


def _names(runs: list[Path], results: list[Result]) -> list[str]:
    """Call runs by their folders where their protocols do not tell them apart."""
    titles = {one.protocol.title or one.protocol.name for one in results}
    folders = [run.absolute().name for run in runs]
    return folders if len(titles) < len(runs) == len(set(folders)) else []
