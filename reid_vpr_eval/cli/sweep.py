"""sweep: every number at every gallery size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reid_vpr_eval.cli.base import app, guarded, progress
from reid_vpr_eval.cli.options import (
    CacheOption,
    EncoderOption,
    Expected,
    GalleryFeatures,
    GalleryOption,
    MemoryOption,
    Metric,
    QueryFeatures,
    TableFormat,
    TruthOption,
    WorkersOption,
)
from reid_vpr_eval.errors import counted

if TYPE_CHECKING:
    from reid_vpr_eval.sweeps import SweepOptions, Swept


class Unit(StrEnum):
    """What is drawn."""

    items = "items"
    blocks = "blocks"


class PoolPositives(StrEnum):
    """What positives that lie in the pool are."""

    error = "error"
    keep = "keep"
    ignore = "ignore"


@app.command()
@guarded
def sweep(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="RUN|PROTOCOL",
                       help="run folders or their ranking.npz (several: one figure), or a "
                       "protocol with --query"),
    ],
    sizes: Annotated[
        str, typer.Option(help="distractors drawn, such as 0,1k,10k,all; by default about 50 sizes")
    ] = "",
    metric: Annotated[
        list[str] | None, typer.Option(help="any mean over queries; repeatable; by default those "
                                            "of the protocol that have a curve")
    ] = None,
    pool: Annotated[
        str, typer.Option(help="negatives, or strata with commas between; by default the stratum "
                               "'distractors' where there is one")
    ] = "",
    base: Annotated[
        str, typer.Option(help="positives, rest (all strata outside the pool), or strata; by "
                               "default positives for --pool negatives, and rest else")
    ] = "",
    pool_positives: Annotated[
        PoolPositives, typer.Option(help="what right answers in the pool are: an error, positives "
                                         "at every size, or ignored")
    ] = PoolPositives.error,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="go beyond the pool, by a model")
    ] = False,
    unit: Annotated[
        Unit, typer.Option(help="what is drawn; blocks need a run with --blocks COLUMN")
    ] = Unit.items,
    own: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="also draw from the query's own stratum alone, such "
                     "as camera (a run with --strata camera)"),
    ] = None,
    hardest: Annotated[
        bool, typer.Option("--hardest", help="also add each query's hardest distractors first")
    ] = False,
    by_stratum: Annotated[
        bool, typer.Option("--by-stratum", help="also tell what items of each stratum cost")
    ] = False,
    names: Annotated[
        str | None, typer.Option(metavar="A,B", help="what the models are called, in their order")
    ] = None,
    query: Annotated[
        Path | None, typer.Option(help="of a protocol: the query side, as for run")
    ] = None,
    gallery: GalleryOption = None,
    query_features: QueryFeatures = None,
    gallery_features: GalleryFeatures = None,
    distractors: Annotated[
        list[str] | None,
        typer.Option(help="the pool: a file of features, a folder of shards, a pattern, or a "
                          "folder of images; repeatable"),
    ] = None,
    distractor_label: Annotated[
        list[str] | None,
        typer.Option(help="gallery rows of this label are the pool, such as 0000; repeatable"),
    ] = None,
    parts: Annotated[
        int, typer.Option(min=0, help="random parts that the pool is counted in, for the spread "
                                      "over draws; 0 for none")
    ] = 100,
    distance: Annotated[
        Metric | None, typer.Option("--distance", help="how features are compared")
    ] = None,
    encoder: EncoderOption = "colour-texture",
    cache: CacheOption = None,
    truth: TruthOption = None,
    expected: Annotated[
        Expected, typer.Option(help="what differing counts of the gallery mean")
    ] = Expected.enforce,
    memory: MemoryOption = None,
    workers: WorkersOption = None,
    seed: Annotated[int, typer.Option(min=0, help="of intervals and forecast")] = 0,
    format: Annotated[
        TableFormat, typer.Option(help="how the curve is printed")
    ] = TableFormat.table,
    out: Annotated[
        Path | None, typer.Option(help="folder for sweep.csv, sweep.json, figures and counts")
    ] = None,
) -> None:
    """Draw every metric against the size of the gallery, exactly, from one ranking."""
    from reid_vpr_eval.errors import ProtocolError
    from reid_vpr_eval.protocol import load_protocol
    from reid_vpr_eval.runs import Inputs
    from reid_vpr_eval.sweep_hard import hardest_first, hurt_table, own_strata
    from reid_vpr_eval.sweeps import SweepOptions, sweep_files, sweep_run

    options = SweepOptions(
        sizes=sizes, metrics=metric or (), base=base, pool=pool, forecast=forecast,
        pool_positives=pool_positives.value, seed=seed, unit=unit.value,
    )  # fmt: skip
    called = _called(names, sources)
    if query is None:
        _check_no_pool({"--distractors": distractors, "--distractor-label": distractor_label,
                        "--gallery": gallery})  # fmt: skip
        models = [sweep_run(_run(text), options, name=name)
                  for text, name in zip(sources, called, strict=True)]  # fmt: skip
    else:
        if len(sources) > 1:
            raise ProtocolError("one protocol goes with --query; several sources must be runs")
        if own is not None:
            raise typer.BadParameter("--own goes with saved runs, which know the queries' columns")
        inputs = Inputs(
            query=query, gallery=gallery, query_features=query_features,
            gallery_features=gallery_features, metric=distance.value if distance else None,
            encoder=encoder, cache=cache, truth=truth,
        )  # fmt: skip
        with progress() as step:
            models = [sweep_files(
                load_protocol(sources[0]), inputs, options, distractors=distractors or (),
                distractor_labels=distractor_label or (), expected=expected.value, parts=parts,
                name=called[0], memory=memory, workers=workers, progress=step,
            )]  # fmt: skip
    swept = list(models)
    if own is not None:
        swept += [own_strata(_run(text), own, options, name=name)
                  for text, name in zip(sources, called, strict=True)]  # fmt: skip
    if hardest:
        swept += [hardest_first(one, options) for one in models]
    hurt = hurt_table(models, options) if by_stratum else None
    _print(swept, hurt, format)
    if out is not None:
        _write(swept, hurt, options, out, counts=query is not None)


def _called(names: str | None, sources: Sequence[str]) -> list[str]:
    """Return what the models are called, "" where that is left to them."""
    called = [name.strip() for name in names.split(",")] if names else [""] * len(sources)
    if len(called) != len(sources):
        raise typer.BadParameter(
            f"{counted(len(called), 'name')} for {counted(len(sources), 'model')}"
        )
    return called


def _check_no_pool(given: Mapping[str, object]) -> None:
    """Refuse options of a protocol beside saved runs."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(f"{option} goes with a protocol and --query; a saved run has "
                                     "its pool in its strata (--pool)")  # fmt: skip


def _print(swept: Sequence[Swept], hurt: Any, format: TableFormat) -> None:
    """Print curves, and what items of each stratum cost."""
    from reid_vpr_eval.sweep_hard import hurt_text
    from reid_vpr_eval.sweeps import sweep_table, sweep_text
    from reid_vpr_eval.tables import records

    if format is TableFormat.table:
        typer.echo("\n\n".join(sweep_text(one) for one in swept))
        if hurt is not None:
            typer.echo(f"\n{hurt_text(hurt)}")
        return
    table = sweep_table(swept)
    typer.echo(
        table.to_csv(sep="\t", index=False, lineterminator="\n").rstrip("\n")
        if format is TableFormat.tsv
        else json.dumps(records(table), indent=1, ensure_ascii=False)
    )


def _write(
    swept: Sequence[Swept], hurt: Any, options: SweepOptions, out: Path, *,
    counts: bool,
) -> None:  # fmt: skip
    """Write tables and figures to a folder, and the counts of a ranking made here."""
    from reid_vpr_eval.archive import write_atomically
    from reid_vpr_eval.sweeps import write_sweep
    from reid_vpr_eval.tables import csv_bytes

    write_sweep(swept, out, options)
    if hurt is not None:
        write_atomically(out / "strata.csv", csv_bytes(hurt))
    ranking = swept[0].ranking
    if counts and ranking is not None:
        ranking.save(out / "ranking.npz")
    typer.echo(f"written to {out}", err=True)


def _run(text: str) -> Path:
    """Return a run folder or counts that were named, or say what else could be meant."""
    path = Path(text).expanduser()
    if path.exists():
        return path
    raise typer.BadParameter(
        f"{text!r} is no run folder; for a protocol, name the sides with --query and --gallery",
        param_hint="RUN",
    )
