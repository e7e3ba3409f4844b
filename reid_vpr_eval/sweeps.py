"""Distractor studies from files: of saved runs, or of a gallery and a pool of distractors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.alignment import pool_queries
from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.counts import Expected, check_counts
from reid_vpr_eval.errors import (
    AlignmentError,
    EvaluationWarning,
    FormatError,
    NotCountedError,
    ProtocolError,
    ScoreError,
    counted,
    name_some,
)
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.per_query import unit_codes
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import Ranking, rank
from reid_vpr_eval.ranking.strata import PART, random_strata
from reid_vpr_eval.relevance.pairs import NoPositive
from reid_vpr_eval.result import Result
from reid_vpr_eval.rules import judge
from reid_vpr_eval.runs import Inputs, Progress, load_inputs
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings
from reid_vpr_eval.studies.distractors.blocks import read_blocks
from reid_vpr_eval.studies.distractors.curve import check_metric, distractor_curve
from reid_vpr_eval.studies.distractors.pairs import PoolPositives, read_pairs
from reid_vpr_eval.sweep_pools import joined, read_pool, warn_of_repeats, with_pool
from reid_vpr_eval.tables import csv_bytes, json_bytes
from reid_vpr_eval.uncertainty.units import units_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DISTRACTORS", "GALLERY", "SweepOptions", "Swept", "parts_of", "read_sizes", "sweep_files",
    "sweep_ranking", "sweep_run", "sweep_table", "sweep_text", "units_in", "write_sweep",
]  # fmt: skip

#: Names of the strata where a pool is appended to a gallery.
GALLERY, DISTRACTORS = "gallery", "distractors"
_HEADINGS = {
    "items": "exact means over all draws of distractors",
    "blocks": "exact means over all draws of whole blocks; numbers of blocks",
}
_METRICS = ("mAP", "CMC@1", "CMC@5", "CMC@10")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([km]?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What is swept.

    Parameters
    ----------
    sizes : str
        Numbers with commas between, such as ``0,1k,10k,0.5M``, and ``all`` for the whole pool;
        empty: from 0 to the whole pool at equal steps of the logarithm.
    metrics : sequence of str
        By default those of the protocol that have a curve.
    base, pool : str
        "positives" and "negatives", or names of strata with commas between. An empty base is
        "positives" for the pool "negatives", and else all other strata. An empty pool is the
        stratum "distractors" where there is one, and else "negatives".
    forecast : bool
        Also beyond the pool: to ten times its size, if no sizes are given.
    pool_positives, seed, unit
        As of :func:`distractor_curve`.
    """

    sizes: str = ""
    metrics: Sequence[str] = ()
    base: str = ""
    pool: str = ""
    forecast: bool = False
    pool_positives: PoolPositives = "error"
    seed: int = 0
    unit: Literal["items", "blocks"] = "items"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Swept:
    """The curve of one model, and what it was made from."""

    name: str
    curve: pd.DataFrame
    base: tuple[str, ...]
    pool: tuple[str, ...]
    details: dict[str, Any]
    ranking: Ranking | None = None
    no_positive: NoPositive | None = None
    heading: str = _HEADINGS["items"]


def read_sizes(text: str, largest: int) -> list[int]:
    """Read sizes such as ``0,1k,10k,all``, in ascending order.

    >>> read_sizes("10k,0,1.5k,all", 500_000)
    [0, 1500, 10000, 500000]
    """
    found = set()
    for piece in filter(None, (part.strip() for part in text.split(","))):
        match = _SIZE.fullmatch(piece)
        if piece.lower() == "all":
            found.add(largest)
            continue
        value = float(match[1]) * {"": 1, "k": 1e3, "m": 1e6}[match[2].lower()] if match else 0.5
        if value != int(value):
            raise ProtocolError(
                f"{piece!r} is no number of distractors: 0, 500, 10k, 1.5M or all is needed"
            )
        found.add(int(value))
    return sorted(found)


def sweep_run(source: Path, options: SweepOptions, *, name: str = "") -> Swept:
    """Sweep a saved run: a run folder, or its ranking.npz. Features are not needed.

    Raises
    ------
    NotCountedError
        If the run holds no counts, or none of what is asked for.
    """
    if source.is_file():
        return sweep_ranking(Ranking.load(source), None, None, options, name or source.stem)
    result = Result.load(source)
    if result.ranking is None:
        raise NotCountedError(
            f"{source} holds no ranking.npz, so its gallery cannot be made smaller or larger: "
            "evaluate again with counts kept (keep_ranking=True; drawn galleries have none)"
        )
    return sweep_ranking(result.ranking, result.protocol, units_in(result), options,
                         name or source.name)  # fmt: skip


def units_in(result: Result) -> npt.NDArray[Any]:
    """Return what queries belong together; each alone where the run names nothing."""
    codes = unit_codes(result.per_query)
    return np.arange(len(result.per_query)) if codes is None else codes


def sweep_ranking(
    ranking: Ranking,
    protocol: Protocol | None,
    units: npt.NDArray[Any] | None,
    options: SweepOptions,
    name: str,
) -> Swept:
    """Sweep a ranking; `units` are what queries belong together."""
    base, pool = parts_of(ranking, options)
    if protocol is not None and protocol.evaluation.macro:
        warnings.warn(
            f"{protocol.name} averages over {name_some(protocol.evaluation.macro)} first; the "
            "curve holds plain means over queries",
            EvaluationWarning,
            stacklevel=3,
        )
    no_positive = None if protocol is None else protocol.no_positive
    read = read_blocks if options.unit == "blocks" else read_pairs
    pairs = read(ranking, base, pool, pool_positives=options.pool_positives)
    largest = pairs.largest_size
    sizes: list[int] | None = read_sizes(options.sizes, largest) if options.sizes else None
    if options.forecast and sizes is None:
        from reid_vpr_eval.studies.distractors.curve import log_sizes

        sizes = [*log_sizes(largest), *np.geomspace(largest, 10 * largest, 6).astype(int)[1:]]
    metrics = list(options.metrics) or _sweepable(protocol)
    every = np.arange(ranking.n_query) if units is None else units
    curve = distractor_curve(
        ranking, sizes, metrics, base=base, pool=pool, forecast=options.forecast, units=every,
        no_positive=no_positive, pool_positives=options.pool_positives, seed=options.seed,
        unit=options.unit,
    )
    details = {
        "name": name,
        "protocol": None if protocol is None else protocol.name,
        "judging_hash": None if protocol is None else protocol.judging_hash,
        "ranking_fingerprint": ranking.fingerprint,
        "n_query": ranking.n_query,
        "n_with_positive": int((pairs.n_positive > 0).sum()),
        "n_positive_pairs": int(pairs.n_positive.sum()),
        "n_units": len(np.unique(every)),
        "base_rows": pairs.base_rows,
        "pool_rows": largest,
    }
    return Swept(name=name, curve=curve, base=_plain(pairs.base), pool=_plain(pairs.pool),
                 details=details, ranking=ranking, no_positive=no_positive,
                 heading=_HEADINGS[options.unit])  # fmt: skip


def _plain(strata: Sequence[str]) -> tuple[str, ...]:
    """Return the names of strata without the numbers of their random parts."""
    return tuple(dict.fromkeys(PART.sub("", name) for name in strata))


def parts_of(ranking: Ranking, options: SweepOptions) -> tuple[Any, Any]:
    """Return base and pool, as the options' empty texts mean them."""
    appended = any(name.split("/")[0] == DISTRACTORS for name in ranking.strata)
    pool: Any = options.pool or (DISTRACTORS if appended else "negatives")
    base: Any = options.base or ("positives" if pool == "negatives" else "rest")
    if pool != "negatives":
        pool = [part.strip() for part in pool.split(",")]
    if base == "rest":
        base = [stratum for stratum in ranking.strata
                if not any(stratum == part or stratum.startswith(f"{part}/") for part in pool)]
        base = base or "positives"  # fmt: skip
    elif base != "positives":
        base = [part.strip() for part in base.split(",")]
    return base, pool


def _sweepable(protocol: Protocol | None) -> list[str]:
    """Return the protocol's metrics that have a curve; usual ones if it names none."""
    found = []
    for name in map(parse, () if protocol is None else protocol.report.metrics):
        hits = dict(name.options).get("divisor") == "hits"
        try:
            check_metric(name)
        except NotCountedError:
            continue
        if not hits and name.radius is None and "%" not in name.k:
            found.append(str(name))
    return found or list(_METRICS)


def sweep_files(
    protocol: Protocol,
    inputs: Inputs,
    options: SweepOptions,
    *,
    distractors: Sequence[str] = (),
    distractor_labels: Sequence[str] = (),
    expected: Expected = "enforce",
    name: str = "",
    parts: int = 100,
    memory: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Swept:
    """Rank a gallery together with a pool of distractors, and sweep the pool.

    Parameters
    ----------
    protocol, inputs
        The evaluation; its gallery is the base.
    distractors : sequence of str
        Files, folders of shards, patterns, or folders of images.
    distractor_labels : sequence of str
        Labels of gallery rows that are the pool. With neither, each query's own negatives are.
    expected : {"enforce", "warn", "ignore"}
        Of the published counts, which are those of the gallery as it is named.
    parts : int
        Random parts that the pool is counted in, for the spread over draws; 0 for none.
    """
    if protocol.draw is not None:
        raise NotCountedError(f"{protocol.name} draws its gallery: a sweep needs one that is fixed")
    loaded = load_inputs(protocol, inputs, progress=progress)
    query, gallery, scores = loaded.query.samples, loaded.gallery.samples, loaded.scores
    if not isinstance(scores, Embeddings):
        if distractors or scores is None:
            raise ScoreError(
                "distractors are scored like the gallery: features (or images) are needed on both "
                "sides, not a matrix or ranked lists"
            )
    elif protocol.multi_query:
        query, scores = pool_queries(query, scores, protocol.multi_query)
    relevance = judge(protocol, query, gallery, truth=inputs.truth)
    check_counts(protocol, relevance, expected)
    strata = _label_strata(gallery, distractor_labels)
    counting = {"memory": memory, "workers": workers}
    if progress is not None:
        counting["progress"] = lambda done, total: progress("ranking", done, total)  # type: ignore[assignment]
    counting = {key: value for key, value in counting.items() if value is not None}
    if not distractors:
        strata = _dealt(strata, parts, options.seed)
        ranking = rank(scores, relevance, strata=strata, **counting)  # type: ignore[arg-type]
    else:
        assert isinstance(scores, Embeddings)  # noqa: S101 (refused above)
        pool = read_pool(distractors, protocol, scores, inputs, progress)
        warn_of_repeats(scores.gallery, pool)
        relevance = with_pool(protocol, query, gallery, relevance, pool, inputs,
                              options.pool_positives)  # fmt: skip
        strata = _strata(gallery.n if strata is None else strata, pool.n)
        strata = _dealt(strata, parts, options.seed)
        with joined(scores, pool) as together:
            ranking = rank(together, relevance, strata=strata, **counting)  # type: ignore[arg-type]
    units = units_of(protocol, query).names
    return sweep_ranking(ranking, protocol, units, options, name or loaded.gallery.source.name)


def _label_strata(gallery: Samples, labels: Sequence[str]) -> npt.NDArray[np.str_] | None:
    """Tell the rows of distractor labels from the others; None without such labels."""
    if not labels:
        return None
    if "label" not in gallery:
        raise AlignmentError("--distractor-label: the gallery has no column 'label'")
    found = gallery.keys("label")
    wanted: list[Any] = list(labels)
    if found.dtype.kind in "iu":
        try:
            wanted = [int(label) for label in labels]
        except ValueError:
            raise AlignmentError(
                f"the gallery's labels are whole numbers, so that {name_some(labels)} is none"
            ) from None
    mask = np.isin(found, wanted)
    for label in wanted:
        if not (found == label).any():
            raise AlignmentError(f"no gallery row has the label {label}: the pool would be empty")
    if mask.all():
        raise AlignmentError("every gallery row has a distractor label: nothing is left as base")
    return np.where(mask, DISTRACTORS, GALLERY)


def _strata(base: int | npt.NDArray[np.str_], n_pool: int) -> npt.NDArray[np.str_]:
    first = np.full(base, GALLERY) if isinstance(base, int) else base
    return np.concatenate([first, np.full(n_pool, DISTRACTORS)])


def _dealt(
    strata: npt.NDArray[np.str_] | None, parts: int, seed: int
) -> npt.NDArray[np.str_] | None:
    """Deal the rows of the pool into random parts, if there are enough of them."""
    if strata is None:
        return None
    n = min(parts, int((strata == DISTRACTORS).sum()) // 2)
    return strata if n < 2 else random_strata(strata, n, seed, of=[DISTRACTORS])


def sweep_text(swept: Swept) -> str:
    """Return a curve as a table that a person reads: a line a size, a column a metric."""
    curve = swept.curve
    names = list(dict.fromkeys(curve["metric"]))
    lines = [["distractors", "gallery", *names, ""]]
    for size, rows in curve.groupby("size", sort=True):
        value = dict(zip(rows["metric"], rows["value"], strict=True))
        low, high, sd = (dict(zip(rows["metric"], rows[column], strict=True))
                         for column in ("low", "high", "sd"))  # fmt: skip
        cells = [_cell(name, value[name], low[name], high[name], sd[name]) for name in names]
        mark = "forecast" if rows["kind"].iloc[0] == "forecast" else ""
        lines.append([f"{size:,}", f"{rows['gallery'].iloc[0]:,}", *cells, mark])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
             for line in lines]  # fmt: skip
    d = swept.details
    spread = "; sd: over draws that all queries share" if curve["sd"].notna().any() else ""
    units, queries = counted(d["n_units"], "unit"), counted(d["n_query"], "query")
    bands = (f"; in brackets: 95 % over queries, in {units}" if curve["low"].notna().any() else "")
    return "\n".join([
        f"{swept.name}: {swept.heading}",
        *table,
        f"base: {', '.join(swept.base)}; pool: {', '.join(swept.pool)} ({d['pool_rows']:,}); "
        f"{d['n_with_positive']} of {queries} with a positive{bands}{spread}",
    ])  # fmt: skip


def _cell(name: str, value: float, low: Any, high: Any, sd: Any) -> str:
    rank = parse(name).metric.is_rank
    text, *limits = [f"{v:.1f}" if rank else f"{100 * v:.1f}" for v in (value, low, high)
                     if v == v and v is not None]  # fmt: skip
    if sd == sd and sd is not None:
        text += f" (sd {sd:.2f})" if rank else f" (sd {100 * sd:.2f})"
    return f"{text} [{limits[0]}, {limits[1]}]" if len(limits) == 2 else text


def sweep_table(swept: Sequence[Swept]) -> pd.DataFrame:
    """Return the curves of several models as one tidy table, with a column `model`."""
    import pandas as pd

    table = pd.concat([one.curve.assign(model=one.name) for one in swept], ignore_index=True)
    return table[["model", *[name for name in table.columns if name != "model"]]]


def _drawable(curve: pd.DataFrame) -> pd.DataFrame:
    """Return a curve with what is no forecast as exact, which it is: of another order."""
    return curve.assign(kind=curve["kind"].where(curve["kind"] == "forecast", "exact"))


def write_sweep(swept: Sequence[Swept], folder: Path, options: SweepOptions) -> list[Path]:
    """Write sweep.csv, sweep.json, the figure as SVG and PNG, and the counts of a new ranking."""
    from reid_vpr_eval.report.figures import SweepDisplay, figure_bytes

    if folder.exists() and not folder.is_dir():
        raise FormatError(f"{folder} is a file: name a folder")
    table = sweep_table(swept)
    drawn = SweepDisplay.from_curves([_drawable(one.curve) for one in swept],
                                     [one.name for one in swept])  # fmt: skip
    figure = drawn.plot().figure_
    assert figure is not None  # noqa: S101 (just drawn)
    first = swept[0]
    document = {
        "schema": "reid_vpr_eval.sweep",
        "version": 1,
        "base": list(first.base),
        "pool": list(first.pool),
        "pool_positives": options.pool_positives,
        "forecast": options.forecast,
        "unit": options.unit,
        "seed": options.seed,
        "interval": {"method": "bca", "level": 0.95, "resamples": 2000, "seed": options.seed},
        "caption": drawn.caption,
        "runs": [one.details for one in swept],
    }
    files = {
        "sweep.csv": csv_bytes(table),
        "figures/sweep.svg": figure_bytes(figure, "svg"),
        "figures/sweep.png": figure_bytes(figure, "png"),
        "sweep.json": json_bytes(document),
    }
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(folder / name, content)
    return [folder / name for name in files]
