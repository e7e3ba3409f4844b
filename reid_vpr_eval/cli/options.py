"""The words and options that several commands take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reid_vpr_eval.cli.base import size


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
    hamming = "hamming"
    braycurtis = "braycurtis"
    canberra = "canberra"
    chebyshev = "chebyshev"
    cityblock = "cityblock"
    correlation = "correlation"
    dice = "dice"
    jaccard = "jaccard"
    jensenshannon = "jensenshannon"
    minkowski = "minkowski"
    rogerstanimoto = "rogerstanimoto"
    russellrao = "russellrao"
    sokalsneath = "sokalsneath"
    yule = "yule"


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


class IntervalMethod(StrEnum):
    """How intervals are made."""

    auto = "auto"
    bca = "bca"
    korn_graubard = "korn-graubard"
    wilson = "wilson"
    moving_block = "moving-block"
    none = "none"


ProtocolArgument = Annotated[str, typer.Argument(help="name of a shipped protocol, or a file")]
QueryOption = Annotated[
    Path, typer.Option("--query", help="table, features with samples, folder, zip or name list")
]
GalleryOption = Annotated[
    Path | None, typer.Option("--gallery", help="likewise; the query side again if left out")
]
_SHARDS = ": .npy, .fbin, .fvecs ...; folder, pattern, or a,b,c"
QueryFeatures = Annotated[Path | None, typer.Option(help=f"features of the query side{_SHARDS}")]
GalleryFeatures = Annotated[Path | None, typer.Option(help=f"those of the gallery side{_SHARDS}")]
IntervalOption = Annotated[
    IntervalMethod | None, typer.Option("--interval", help="how intervals are made")
]
UnitOption = Annotated[
    str | None,
    typer.Option(
        "--unit",
        help="query column of what is resampled together, or position, traverse, query",
    ),
]
LevelOption = Annotated[
    float | None, typer.Option("--level", help="coverage of the intervals, such as 0.95")
]
SeedOption = Annotated[
    int | None, typer.Option("--interval-seed", min=0, help="seed of resampled units")
]
TruthOption = Annotated[
    Path | None, typer.Option("--truth", help="lists or neighbours that the protocol asks for")
]

EncoderOption = Annotated[
    str, typer.Option(help="turns images into features: a name or module:function")
]
CacheOption = Annotated[Path | None, typer.Option(help="folder that keeps encoded images")]
MemoryOption = Annotated[
    str | None, typer.Option(help="working memory, such as 512MiB", callback=size)
]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="threads")]
