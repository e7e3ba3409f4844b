"""One figure of an evaluation: curves with bands, gallery sizes, and what was found."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from reid_vpr_eval.errors import FormatError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.report.figures import CurveDisplay
from reid_vpr_eval.report.figures.style import INK, MUTED, SERIES, legend_above, new_figure, styled
from reid_vpr_eval.report.pictures import Strip, Tile
from reid_vpr_eval.report.thumbnails import Thumbnail
from reid_vpr_eval.result import Result
from reid_vpr_eval.summary import spelled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["overview"]

_METRICS = 2
#: Colour, dashes and sign of what a tile is; readable without colour.
_FRAMES: dict[str, tuple[str, Any, str]] = {
    "query": (INK, "-", "query"),
    "right": ("#1a7f4b", "-", "✓"),
    "wrong": ("#b3261e", (0, (3, 1.5)), "✗"),
    "ignored": (MUTED, (0, (1, 1.5)), "ignored"),
    "missed": ("#1d5fc4", "-", "missed"),
}


def overview(
    first: Result, second: Result, curve: pd.DataFrame, strip: Strip, names: tuple[str, str]
) -> Figure:
    """Draw two results side by side, one of them at other gallery sizes, and one query.

    Parameters
    ----------
    first, second : Result
        Their curves are drawn with bands.
    curve : pandas.DataFrame
        Of the first, from :func:`reid_vpr_eval.distractor_curve`.
    strip : Strip
        A query with pictures.
    names : tuple of str
        What the results are called.

    Raises
    ------
    FormatError
        If the query has no picture.
    """
    if strip.query.picture is None:
        raise FormatError(f"the query {strip.query.item_id!r} has no picture to draw")
    with styled():
        figure = new_figure((12.0, 6.0))
        halves: Any = figure.subfigures(2, 1, height_ratios=[2.1, 1])
        upper, lower = halves
        panels = upper.subplots(1, 3)
        for panel, result, name in zip(panels, (first, second), names, strict=False):
            CurveDisplay.from_result(result, name=name).plot(ax=panel)
        _draw_sizes(panels[2], first, curve)
        _draw_strip(lower, strip)
    return figure


def _draw_sizes(ax: Axes, result: Result, curve: pd.DataFrame) -> None:
    """Draw metrics against the size of the gallery, forecasts dashed."""
    drawn = list(curve.groupby("metric", sort=False))[:_METRICS]
    for number, (name, rows) in enumerate(drawn):
        ordered = rows.sort_values("gallery")
        colour = SERIES[number % len(SERIES)]
        exact = ordered[ordered["kind"] != "forecast"]
        ahead = ordered[ordered["kind"] == "forecast"]
        unit = 1 if parse(str(name)).metric.is_rank else 100
        ax.plot(exact["gallery"], unit * exact["value"], color=colour, linewidth=2,
                marker="os^D"[number % 4], markersize=4,
                label=f"{spelled(str(name), result.protocol)} by gallery size")  # fmt: skip
        if len(ahead):
            joined = np.r_[exact["gallery"].iloc[-1], ahead["gallery"]]
            values = unit * np.r_[exact["value"].iloc[-1], ahead["value"]]
            ax.plot(joined, values, color=colour, linewidth=2, linestyle=(0, (3, 2)))
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylim(0, 100)
    ax.set_yticks(range(0, 101, 20))
    ax.grid(axis="y")
    ax.tick_params(length=0, pad=6)
    ax.set_xlabel("Items in the gallery (dashed: forecast)")
    ax.set_ylabel("%")
    legend_above(ax)


def _draw_strip(figure: Any, strip: Strip) -> None:
    tiles = [strip.query, *strip.ranked, *([strip.missed] if strip.missed else [])]
    for ax, tile in zip(figure.subplots(1, len(tiles)), tiles, strict=True):
        _draw_tile(ax, tile)


def _draw_tile(ax: Axes, tile: Tile) -> None:
    colour, dashes, sign = _FRAMES[tile.role]
    if tile.picture is not None:
        ax.imshow(_pixels(tile.picture))
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set(visible=True, color=colour, linewidth=2.4, linestyle=dashes)
    ax.set_title(f"{sign} {tile.rank}".strip(), color=colour, fontsize=9)


def _pixels(picture: Thumbnail) -> Any:
    from PIL import Image

    stored = base64.b64decode(picture.uri.partition(",")[2])
    with Image.open(BytesIO(stored)) as opened:
        return np.asarray(opened.convert("RGB"))
