"""The command line: parsing and printing only."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from reid_vpr_eval import __version__
from reid_vpr_eval.errors import EvaluationWarning, ProtocolError, ReidVprEvalError

__all__ = ["app", "main"]

_INTERRUPTED = 130

app = typer.Typer(
    name="rve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Evaluate re-identification, place recognition and other retrieval, exactly.",
)
protocols_app = typer.Typer(no_args_is_help=True, help="List, show and check protocol files.")
app.add_typer(protocols_app, name="protocols")


class Expected(StrEnum):
    """What a count that differs from the published one means."""

    enforce = "enforce"
    warn = "warn"
    ignore = "ignore"


class Format(StrEnum):
    """How the result is printed."""

    table = "table"
    json = "json"
    tsv = "tsv"
    latex = "latex"
    torchreid = "torchreid"
    vpr = "vpr"


class TableFormat(StrEnum):
    """How a table is printed."""

    table = "table"
    tsv = "tsv"
    json = "json"


class Metric(StrEnum):
    """How features are compared."""

    cosine = "cosine"
    dot = "dot"
    euclidean = "euclidean"
    sqeuclidean = "sqeuclidean"


class Keep(StrEnum):
    """What is counted."""

    all = "all"
    first = "first"


class TieOrder(StrEnum):
    """Which of equally scored items comes first."""

    position = "position"
    id_desc = "id_desc"


class Policy(StrEnum):
    """What is missing from ranked lists."""

    error = "error"
    zero = "zero"


ProtocolArgument = Annotated[str, typer.Argument(help="name of a shipped protocol, or a file")]
QueryOption = Annotated[
    Path, typer.Option("--query", help="table, features with samples, folder, zip or name list")
]
GalleryOption = Annotated[
    Path | None, typer.Option("--gallery", help="likewise; the query side again if left out")
]
QueryFeatures = Annotated[Path | None, typer.Option(help="features of the query side")]
GalleryFeatures = Annotated[Path | None, typer.Option(help="features of the gallery side")]


def main() -> None:
    """Run the command line."""
    app(prog_name=Path(sys.argv[0]).name if sys.argv[0].endswith(("rve", "eval")) else "rve")


def _size(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"\d+(\.\d+)?([kmg]i?)?b?", text.strip().lower()):
        raise typer.BadParameter(f"{text!r}: a size such as 512MiB or 2GB is needed")
    return text


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the project's errors into a few lines and an exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", EvaluationWarning)
                warnings.showwarning = _show_warning
                command(*args, **kwargs)
        except ReidVprEvalError as error:
            typer.echo(f"{_red('error')}: {error}", err=True)
            raise typer.Exit(2 if _is_unknown_protocol(error) else 1) from None
        except KeyboardInterrupt:
            typer.echo("interrupted; nothing was left half-written", err=True)
            raise typer.Exit(_INTERRUPTED) from None
        except (OSError, MemoryError) as error:
            typer.echo(f"{_red('error')}: {error or type(error).__name__}", err=True)
            raise typer.Exit(1) from None

    return run


def _is_unknown_protocol(error: ReidVprEvalError) -> bool:
    said = ("no protocol is called", "no such protocol file", "no profile is called",
            "no such profile file")  # fmt: skip
    return isinstance(error, ProtocolError) and any(text in str(error) for text in said)


def _red(text: str) -> str:
    plain = "NO_COLOR" in os.environ or not sys.stderr.isatty()
    return text if plain else f"\033[31m{text}\033[0m"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"warning: {message}", err=True)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Show progress with an estimate, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def step(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        yield step


@app.command()
@_guarded
def run(
    protocol: ProtocolArgument,
    query: QueryOption,
    gallery: GalleryOption = None,
    query_features: QueryFeatures = None,
    gallery_features: GalleryFeatures = None,
    similarities: Annotated[Path | None, typer.Option(help="matrix, larger is better")] = None,
    distances: Annotated[Path | None, typer.Option(help="matrix, smaller is better")] = None,
    ranked: Annotated[Path | None, typer.Option(help="ranked lists of gallery positions")] = None,
    metric: Annotated[Metric | None, typer.Option(help="how features are compared")] = None,
    encoder: Annotated[
        str, typer.Option(help="turns images into features: a name or module:function")
    ] = "colour-texture",
    cache: Annotated[Path | None, typer.Option(help="folder that keeps encoded images")] = None,
    expected: Annotated[
        Expected, typer.Option(help="what differing counts mean")
    ] = Expected.enforce,
    out: Annotated[Path | None, typer.Option(help="run folder to write")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace another run there")
    ] = False,
    format: Annotated[Format, typer.Option(help="how the result is printed")] = Format.table,
    report: Annotated[bool, typer.Option(help="write report.html and figures too")] = True,
    by: Annotated[list[str] | None, typer.Option(help="query column to break down by")] = None,
    chance: Annotated[
        bool, typer.Option("--chance", help="show what a ranking without information scores")
    ] = False,
    strata: Annotated[str | None, typer.Option(help="gallery column to count apart by")] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="keep the best k of each query")] = None,
    pairs_kept: Annotated[
        int | None, typer.Option(min=0, help="keep the largest negative scores, for TAR@FAR")
    ] = None,
    tie_order: Annotated[TieOrder | None, typer.Option(help="order of equal scores")] = None,
    keep: Annotated[Keep | None, typer.Option(help="first: enough for CMC alone")] = None,
    unretrieved: Annotated[
        Policy, typer.Option(help="positives that ranked lists do not hold")
    ] = Policy.error,
    memory: Annotated[
        str | None, typer.Option(help="working memory, such as 512MiB", callback=_size)
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="threads")] = None,
) -> None:
    """Evaluate files by a protocol; print the result, and write a run folder with --out."""
    from reid_vpr_eval.protocol import load_protocol
    from reid_vpr_eval.report import render
    from reid_vpr_eval.runs import Inputs
    from reid_vpr_eval.runs import run as evaluate_files
    from reid_vpr_eval.studies.conventions import profile_row
    from reid_vpr_eval.summary import table_text

    inputs = Inputs(
        query=query, gallery=gallery, query_features=query_features,
        gallery_features=gallery_features, similarities=similarities, distances=distances,
        ranked=ranked, metric=metric.value if metric else None, encoder=encoder, cache=cache,
    )  # fmt: skip
    with _progress() as progress:
        result, _ = evaluate_files(
            load_protocol(protocol), inputs, out=out, overwrite=overwrite,
            expected=expected.value, report=report, progress=progress, by=by or (), strata=strata,
            top_k=top_k, pairs_kept=pairs_kept, tie_order=tie_order.value if tie_order else None,
            keep=keep.value if keep else None, unretrieved=unretrieved.value, memory=memory,
            workers=workers,
        )  # fmt: skip
    if format is Format.table:
        typer.echo(table_text(result, chance=chance))
        if result.ranking is not None and result.protocol.report.profile:
            typer.echo(profile_row(result))
    else:
        typer.echo(render(result, format.value))
    if out is not None:
        typer.echo(f"written to {out}", err=True)


@app.command()
@_guarded
def check(
    protocol: ProtocolArgument,
    query: QueryOption,
    gallery: GalleryOption = None,
    query_features: QueryFeatures = None,
    gallery_features: GalleryFeatures = None,
    dedup: Annotated[
        bool, typer.Option("--dedup", help="look for vectors that are on both sides")
    ] = False,
) -> None:
    """Count and check everything but the ranking; exit 1 if published counts are not met."""
    from reid_vpr_eval.checks import check as check_sides
    from reid_vpr_eval.errors import ScoreError
    from reid_vpr_eval.protocol import load_protocol
    from reid_vpr_eval.runs import Inputs, load_inputs
    from reid_vpr_eval.scores import Embeddings

    loaded_protocol = load_protocol(protocol)
    inputs = Inputs(
        query=query, gallery=gallery, query_features=query_features,
        gallery_features=gallery_features,
    )  # fmt: skip
    with _progress() as progress:
        loaded = load_inputs(loaded_protocol, inputs, score=dedup, progress=progress)
    scores = loaded.scores if isinstance(loaded.scores, Embeddings) else None
    if dedup and scores is None:
        raise ScoreError(
            f"--dedup compares vectors, but {query} holds neither features nor images: give "
            "--query-features and --gallery-features"
        )
    report = check_sides(
        loaded_protocol, loaded.query.samples, loaded.gallery.samples, scores=scores
    )
    width = max(map(len, report.counts))
    for name, count in report.counts.items():
        wanted = report.expected.get(name)
        published = f"   published {' or '.join(f'{w:,}' for w in wanted)}" if wanted else ""
        mark = "   DIFFERS" if name in report.wrong else ""
        typer.echo(f"{name.ljust(width)}  {count:>12,}{published}{mark}")
    for note in report.warnings:
        typer.echo(f"note: {note}")
    if report.wrong:
        raise typer.Exit(1)


@app.command()
@_guarded
def encode(
    folder: Annotated[Path, typer.Argument(help="folder or zip of images")],
    out: Annotated[Path, typer.Option(help="the .npz file to write")],
    encoder: Annotated[
        str, typer.Option(help="a built-in name or module:function")
    ] = "colour-texture",
    names: Annotated[
        str | None, typer.Option(help="grammar of the file names, or a regular expression")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="folder that keeps encoded images")] = None,
) -> None:
    """Turn a folder of images into features with their samples."""
    from reid_vpr_eval.errors import FormatError
    from reid_vpr_eval.formats import SideSpec, read_side, write_features
    from reid_vpr_eval.runs import encode_side

    side = read_side(folder, SideSpec(names=names), "gallery")
    if side.root is None:
        raise FormatError(f"{folder} holds no images: name a folder or a zip of images")
    with _progress() as progress:
        step = None if progress is None else functools.partial(progress, "encoding")
        vectors = encode_side(side, encoder, cache=cache, progress=step)
    write_features(out, side.samples, vectors)
    typer.echo(f"{len(vectors)} vectors of {vectors.shape[1]} dimensions written to {out}")


@app.command()
@_guarded
def demo(
    out: Annotated[Path, typer.Option(help="where everything goes")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(min=0, help="seed of the rendered world")] = 0,
) -> None:
    """Render a small world, evaluate people and places in it, and write a report."""
    from reid_vpr_eval.demo import show

    with _progress() as progress:
        shown = show(out, seed=seed, progress=progress)
    for result in shown.results:
        typer.echo(f"{result}\n")
    for folder in shown.folders:
        typer.echo(f"run folder: {folder}")
    typer.echo(f"report:     {shown.report}")


@app.command()
@_guarded
def conventions(
    run: Annotated[Path, typer.Argument(help="run folder, or its ranking.npz")],
    profile: Annotated[
        list[str] | None, typer.Option(help="name of a shipped profile, or a file; repeatable")
    ] = None,
    format: Annotated[
        TableFormat, typer.Option(help="how the table is printed")
    ] = TableFormat.table,
) -> None:
    """Print the number that each tool's rule gives for a run, and what makes it differ."""
    from reid_vpr_eval.ranking import Ranking
    from reid_vpr_eval.result import Result
    from reid_vpr_eval.studies.conventions import conventions as read_by_profiles
    from reid_vpr_eval.studies.conventions import conventions_text

    source = Ranking.load(run) if run.is_file() else Result.load(run)
    table = read_by_profiles(source, profile or None)
    if format is TableFormat.table:
        typer.echo(conventions_text(table, notes=bool(profile)))
    elif format is TableFormat.tsv:
        typer.echo(table.to_csv(sep="\t", index=False, lineterminator="\n"), nl=False)
    else:
        typer.echo(json.dumps(table.to_dict("records"), indent=1, ensure_ascii=False))


@protocols_app.command("list")
@_guarded
def list_() -> None:
    """List the shipped protocols."""
    from rich.console import Console
    from rich.table import Table

    from reid_vpr_eval.protocol import list_protocols, load_protocol

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "task", "title"):
        table.add_column(heading, no_wrap=heading == "name")
    for name in list_protocols():
        protocol = load_protocol(name)
        mark = " (withdrawn)" if protocol.status == "withdrawn" else ""
        table.add_row(protocol.name, protocol.task, protocol.title + mark)
    width = None if sys.stdout.isatty() else 120
    Console(width=width, highlight=False).print(table)


@protocols_app.command()
@_guarded
def show(protocol: ProtocolArgument) -> None:
    """Print a protocol with its defaults filled in, and both hashes."""
    from reid_vpr_eval.protocol import load_protocol

    loaded = load_protocol(protocol)
    typer.echo(f"# judging hash:   {loaded.judging_hash}")
    typer.echo(f"# reporting hash: {loaded.reporting_hash}")
    typer.echo(loaded.to_toml(), nl=False)


@protocols_app.command("check")
@_guarded
def check_file(
    file: Annotated[Path, typer.Argument(help="a protocol file")],
) -> None:
    """Check a protocol file and say what is wrong where."""
    from reid_vpr_eval.checks import check_grammars, check_metrics
    from reid_vpr_eval.formats.registry import located
    from reid_vpr_eval.protocol import load_protocol

    protocol = load_protocol(file)
    with located(file):
        check_metrics(protocol)
        check_grammars(protocol)
    typer.echo(f"{file}: a valid protocol, judged by {protocol.judging_hash[:12]}")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"reid_vpr_eval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Evaluate re-identification, place recognition and other retrieval, exactly."""
