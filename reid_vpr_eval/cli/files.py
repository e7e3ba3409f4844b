"""encode and demo: from images to features, and a small world to try."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from reid_vpr_eval.cli.base import app, guarded, progress
from reid_vpr_eval.cli.options import CacheOption
from reid_vpr_eval.errors import counted


@app.command()
@guarded
def encode(
    folder: Annotated[Path, typer.Argument(help="folder or zip of images")],
    out: Annotated[Path, typer.Option(help="the .npz file to write")],
    encoder: Annotated[
        str, typer.Option(help="a built-in name or module:function")
    ] = "colour-texture",
    names: Annotated[
        str | None, typer.Option(help="grammar of the file names, or a regular expression")
    ] = None,
    cache: CacheOption = None,
) -> None:
    """Turn a folder of images into features with their samples."""
    from reid_vpr_eval.errors import FormatError
    from reid_vpr_eval.formats import SideSpec, read_side, write_features
    from reid_vpr_eval.runs import encode_side

    side = read_side(folder, SideSpec(names=names), "gallery")
    if side.root is None:
        raise FormatError(f"{folder} holds no images: name a folder or a zip of images")
    with progress() as step:
        one = None if step is None else functools.partial(step, "encoding")
        vectors = encode_side(side, encoder, cache=cache, progress=one)
    write_features(out, side.samples, vectors)
    typer.echo(
        f"{counted(len(vectors), 'vector')} of {counted(vectors.shape[1], 'dimension')} written to "
        f"{out}"
    )


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option(help="where everything goes")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(min=0, help="seed of the rendered world")] = 0,
) -> None:
    """Render a small world, evaluate people and places in it, and write a report."""
    from reid_vpr_eval.demo import show

    with progress() as step:
        shown = show(out, seed=seed, progress=step)
    for result in (shown.results[0], shown.results[-1]):
        typer.echo(f"{result}\n")
    for folder in shown.folders:
        typer.echo(f"run folder: {folder}")
    typer.echo(f"report:     {shown.report}")
    typer.echo(f"figure:     {shown.figure}")
