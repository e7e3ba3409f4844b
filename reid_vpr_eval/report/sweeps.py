"""What a result would be in smaller and larger galleries, as a page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reid_vpr_eval.errors import NotCountedError, ReidVprEvalError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.per_query import unit_codes
from reid_vpr_eval.report.figures import SweepDisplay
from reid_vpr_eval.report.sentences import main_metrics
from reid_vpr_eval.result import Result
from reid_vpr_eval.studies.distractors import distractor_curve, read_pairs
from reid_vpr_eval.summary import shown, spelled
from reid_vpr_eval.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Sweep", "gallery_sizes", "sweep_of"]

#: Galleries of a page: each half of the next.
_HALVES = 6
#: Times as many items, for the forecast.
_AHEAD = (2, 5, 10)
_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """A distractor curve as a page shows it.

    Attributes
    ----------
    table : pandas.DataFrame
        The tidy table of :func:`distractor_curve`.
    metrics : list of str
        Spelled names, the columns.
    rows : list of (gallery, kind, cells)
        A row a size, the largest last.
    told : str
        The answer in a sentence or two.
    source : str
        Where it comes from.
    display : SweepDisplay
        The figure.
    """

    table: pd.DataFrame
    metrics: list[str]
    rows: list[tuple[str, str, list[str]]]
    told: str
    source: str
    display: SweepDisplay


def sweep_of(result: Result, saved: Path | None = None) -> tuple[Sweep | None, str]:
    """Return the curve of a result, or why there is none.

    Parameters
    ----------
    result : Result
        Its counts give the curve below the gallery that was ranked.
    saved : Path, optional
        A sweep.csv, which is shown instead if it is there.
    """
    if saved is not None and saved.is_file():
        table, source = read_table(saved), "the saved sweep of this run (sweep.csv)"
    else:
        try:
            table, source = gallery_sizes(result), "the counts of this run (ranking.npz)"
        except ReidVprEvalError as error:
            return None, f"Not known: {error}."
    if not len(table):
        return None, "Not known: the sweep of this run is empty."
    names = list(dict.fromkeys(str(name) for name in table["metric"]))[:_SHOWN]
    return Sweep(
        table,
        [spelled(name, result.protocol) for name in names],
        _rows(table, names),
        _told(result, table, names[0]),
        source,
        _display(result, table, names),
    ), ""  # fmt: skip


def _display(result: Result, table: pd.DataFrame, names: list[str]) -> SweepDisplay:
    """Return the figure of the first metrics, of the first model of a saved sweep."""
    one = table if "model" not in table else table[table["model"] == table["model"].iloc[0]]
    title = result.protocol.title or result.protocol.name
    return SweepDisplay.from_curves([one], [title], names[:2])


def gallery_sizes(result: Result) -> pd.DataFrame:
    """Return the curve at galleries that are halved again and again, and a forecast beyond.

    Raises
    ------
    NotCountedError
        If the counts are not there, or no reported metric has a curve.
    """
    if result.ranking is None:
        raise NotCountedError("the run does not hold its counts (ranking.npz)")
    if result.protocol.evaluation.macro:
        raise NotCountedError("a macro average has no curve here")
    wanted = [name for name in main_metrics(result) if "%" not in parse(name).k]
    names = [name for name in wanted if parse(name).metric.aggregate == "mean"][:_SHOWN]
    if not names:
        raise NotCountedError("no reported metric has a curve")
    largest = read_pairs(result.ranking).largest_size
    sizes = sorted({max(round(largest / 2**i), 1) for i in range(_HALVES)})
    units = unit_codes(result.per_query)
    alone = len(result.per_query) == result.ranking.n_query and units is None
    options: dict[str, Any] = {
        "no_positive": result.protocol.no_positive,
        "units": np.arange(result.ranking.n_query) if alone else units,
    }
    try:
        return distractor_curve(result.ranking, [*sizes, *(largest * n for n in _AHEAD)], names,
                                forecast=True, **options)  # fmt: skip
    except NotCountedError:
        return distractor_curve(result.ranking, sizes, names, **options)


def _rows(table: pd.DataFrame, names: list[str]) -> list[tuple[str, str, list[str]]]:
    """Return a row a size; of many sizes those that are about halves of the next."""
    points: dict[tuple[int, str], dict[str, float]] = {}
    for row in table.to_dict("records"):
        at = (int(row["gallery"]), str(row["kind"]))
        points.setdefault(at, {})[str(row["metric"])] = float(row["value"])
    order = sorted(points)
    kept: list[tuple[int, str]] = []
    for at in reversed(order):
        if not kept or at == order[0] or at[0] <= kept[-1][0] / 1.9 or at[1] != kept[-1][1]:
            kept.append(at)
    return [
        (f"{gallery:,}", kind,
         [shown(name, points[gallery, kind][name]) if name in points[gallery, kind] else ""
          for name in names])
        for gallery, kind in reversed(kept)
    ]  # fmt: skip


def _told(result: Result, table: pd.DataFrame, name: str) -> str:
    """Say how a metric falls with the gallery, and how far it is foretold."""
    one = table[table["metric"] == name].sort_values("gallery", kind="stable")
    exact = one[one["kind"] != "forecast"]
    called = spelled(name, result.protocol)
    parts = []
    if len(exact):
        sizes, values = exact["gallery"].tolist(), exact["value"].tolist()
        near = min(range(len(sizes)), key=lambda i: abs(sizes[i] - sizes[-1] / 2))
        parts.append(
            f"{called} is {shown(name, values[0])} among {sizes[0]:,.0f} items, "
            f"{shown(name, values[near])} among {sizes[near]:,.0f} and {shown(name, values[-1])} "
            f"among {sizes[-1]:,.0f}: the exact mean over all draws of that many."
        )
    ahead = one[one["kind"] == "forecast"]
    if len(ahead):
        last = ahead.iloc[-1]
        parts.append(
            f"Among {float(last['gallery']):,.0f} items like these it would be "
            f"{shown(name, float(last['value']))} by a model (a forecast, not a measurement)."
        )
    else:
        parts.append("Beyond the gallery that was ranked nothing is measured.")
    return " ".join(parts)
