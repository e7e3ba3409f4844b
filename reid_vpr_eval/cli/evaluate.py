"""run, check and conventions: from files to numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reid_vpr_eval.cli.base import app, command_line, guarded, progress
from reid_vpr_eval.cli.options import (
    CacheOption,
    EncoderOption,
    Expected,
    Format,
    GalleryFeatures,
    GalleryOption,
    IntervalOption,
    Keep,
    LevelOption,
    MemoryOption,
    Metric,
    Policy,
    ProtocolArgument,
    QueryFeatures,
    QueryOption,
    SeedOption,
    TableFormat,
    TieOrder,
    TruthOption,
    UnitOption,
    WorkersOption,
)
from reid_vpr_eval.errors import counted


@app.command()
@guarded
def run(
    context: typer.Context,
    protocol: ProtocolArgument,
    query: QueryOption,
    gallery: GalleryOption = None,
    query_features: QueryFeatures = None,
    gallery_features: GalleryFeatures = None,
    similarities: Annotated[Path | None, typer.Option(help="matrix, larger is better")] = None,
    distances: Annotated[Path | None, typer.Option(help="matrix, smaller is better")] = None,
    ranked: Annotated[Path | None, typer.Option(help="ranked lists of positions or ids")] = None,
    metric: Annotated[Metric | None, typer.Option(help="how features are compared")] = None,
    encoder: EncoderOption = "colour-texture",
    cache: CacheOption = None,
    truth: TruthOption = None,
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
    interval: IntervalOption = None,
    unit: UnitOption = None,
    level: LevelOption = None,
    interval_seed: SeedOption = None,
    chance: Annotated[
        bool, typer.Option("--chance", help="show what a ranking without information scores")
    ] = False,
    strata: Annotated[
        str | None,
        typer.Option(help="gallery column to count apart by, or random:100 for 100 random parts"),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="gallery column whose items rank as one")
    ] = None,
    blocks: Annotated[
        str | None, typer.Option(help="gallery column whose items are drawn together, for sweeps")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="keep the best k of each query")] = None,
    pairs_kept: Annotated[
        int | None, typer.Option(min=0, help="keep the largest negative scores, for TAR@FAR")
    ] = None,
    tie_order: Annotated[TieOrder | None, typer.Option(help="order of equal scores")] = None,
    keep: Annotated[Keep | None, typer.Option(help="first: enough for CMC alone")] = None,
    unretrieved: Annotated[
        Policy, typer.Option(help="positives that ranked lists do not hold")
    ] = Policy.error,
    memory: MemoryOption = None,
    workers: WorkersOption = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="folder that lets a run that was killed go on")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="scheduler whose workers count")
    ] = None,
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
        truth=truth,
    )  # fmt: skip
    asked = {"method": interval.value if interval else None, "unit": unit, "level": level,
             "seed": interval_seed}  # fmt: skip
    asked = {name: value for name, value in asked.items() if value is not None}
    with progress() as step:
        result, _ = evaluate_files(
            load_protocol(protocol), inputs, out=out, overwrite=overwrite,
            expected=expected.value, report=report, progress=step, by=by or (), strata=strata,
            group=group, blocks=blocks, top_k=top_k, pairs_kept=pairs_kept,
            tie_order=tie_order.value if tie_order else None,
            keep=keep.value if keep else None, unretrieved=unretrieved.value, memory=memory,
            workers=workers, checkpoint=checkpoint, dask=dask, interval=asked or None,
            command=command_line(context),
        )  # fmt: skip
    if format is Format.table:
        typer.echo(table_text(result, chance=chance))
        line = profile_row(result)
        if line:
            typer.echo(f"by the rule of {line}")
    else:
        typer.echo(render(result, format.value))
    if out is not None:
        typer.echo(f"written to {out}", err=True)


@app.command()
@guarded
def check(
    protocol: ProtocolArgument,
    query: QueryOption,
    gallery: GalleryOption = None,
    query_features: QueryFeatures = None,
    gallery_features: GalleryFeatures = None,
    truth: TruthOption = None,
    dedup: Annotated[
        bool, typer.Option("--dedup", help="drop repeated gallery vectors first")
    ] = False,
) -> None:
    """Count and check everything but the ranking; exit 1 if published counts are not met."""
    from reid_vpr_eval.checks import check as check_sides
    from reid_vpr_eval.checks import without_doubles
    from reid_vpr_eval.errors import ScoreError
    from reid_vpr_eval.protocol import load_protocol
    from reid_vpr_eval.runs import Inputs, load_inputs
    from reid_vpr_eval.scores import Embeddings

    loaded_protocol = load_protocol(protocol)
    inputs = Inputs(
        query=query, gallery=gallery, query_features=query_features,
        gallery_features=gallery_features,
    )  # fmt: skip
    with progress() as step:
        loaded = load_inputs(loaded_protocol, inputs, score=dedup, progress=step)
        if loaded.query.features is not None and loaded.gallery.features is not None:
            loaded = load_inputs(loaded_protocol, inputs, progress=step)
    scores = loaded.scores if isinstance(loaded.scores, Embeddings) else None
    if dedup and scores is None:
        raise ScoreError(
            f"--dedup compares vectors, but {query} holds neither features nor images: give "
            "--query-features and --gallery-features"
        )
    query_samples, gallery_samples = loaded.query.samples, loaded.gallery.samples
    if dedup and scores is not None:
        kept = without_doubles(scores, gallery_samples)
        dropped = counted(gallery_samples.n - len(kept), "gallery row that repeats",
                          "gallery rows that repeat")  # fmt: skip
        typer.echo(f"dropped {dropped} a vector")
        scores = scores.take(range(scores.n_query), kept)
        gallery_samples = gallery_samples.take(kept)
    report = check_sides(
        loaded_protocol, query_samples, gallery_samples, scores=scores, truth=truth
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
@guarded
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
