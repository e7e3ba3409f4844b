"""The figure of a distractor study: a metric against the size of the gallery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, counted
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.report.figures.style import (
    MUTED,
    SMALL,
    Display,
    cut,
    legend_above,
    line_style,
    note,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SweepDisplay"]

_COLUMNS = {"size", "gallery", "metric", "value", "sd", "low", "high", "kind"}


@dataclass(eq=False, kw_only=True)
class SweepDisplay(Display):
    """Metrics against the size of the gallery, one panel a metric and one line a model.

    Attributes
    ----------
    curves : list of pandas.DataFrame
        Of each model, as :func:`reid_vpr_eval.distractor_curve` returns them.
    names : list of str
        What models are called.
    metrics : list of str
        The panels.
    """

    kind_name: ClassVar[str] = "sweep"

    curves: list[pd.DataFrame]
    names: list[str]
    metrics: list[str]
    bands_: list[str] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_curves(
        cls, curves: Sequence[pd.DataFrame], names: Sequence[str], metrics: Sequence[str] = ()
    ) -> SweepDisplay:
        """Take the curves of one or several models.

        Raises
        ------
        AlignmentError
            If there is none, not one name for each, or no metric that all have.
        """
        if not curves or len(names) != len(curves):
            raise AlignmentError(
                f"{counted(len(names), 'name')} for {counted(len(curves), 'curve')}: one each is "
                "needed"
            )
        for curve in curves:
            if not set(curve.columns) >= _COLUMNS:
                raise AlignmentError("a table that distractor_curve returned is needed")
        shared = [name for name in dict.fromkeys(curves[0]["metric"])
                  if all((curve["metric"] == name).any() for curve in curves)]  # fmt: skip
        chosen = [str(parse(name)) for name in metrics] or shared
        if not chosen or set(chosen) - set(shared):
            raise AlignmentError("the curves have no metric in common that is to be drawn")
        return cls(curves=list(curves), names=list(names), metrics=chosen)

    @property
    def caption(self) -> str:
        """What the figure shows."""
        parts = ["Exact means over all draws of distractors, by the size of the gallery."]
        if self._any("low", "exact"):
            parts.append("Light bands: 95 % over queries.")
        if self._any("sd", "exact"):
            parts.append("Bands between dotted lines: one standard deviation over draws of the "
                         "distractors.")  # fmt: skip
        if any((curve["kind"] == "forecast").any() for curve in self.curves):
            parts.append("Dashed: a forecast by a model for these queries, with its interval.")
        return " ".join(parts)

    def spoken(self) -> str:
        """Return the ends of each line in words."""
        said = []
        for curve, name in zip(self.curves, self.names, strict=True):
            for metric in self.metrics:
                rows = curve[(curve["metric"] == metric) & (curve["kind"] == "exact")]
                first, last = rows.iloc[0], rows.iloc[-1]
                said.append(
                    f"{name}, {metric}: {_shown(metric, first['value'])} at {first['gallery']:,} "
                    f"items, {_shown(metric, last['value'])} at {last['gallery']:,}"
                )
        return "; ".join(said)

    def _any(self, column: str, kind: str) -> bool:
        return any(
            bool(curve.loc[curve["kind"] == kind, column].notna().any()) for curve in self.curves
        )

    def _size(self) -> tuple[float, float]:
        columns, rows = self._grid()
        width = 6.0 if columns == 1 else 4.4 * columns
        return width, (4.0 if columns == 1 else 3.3 * rows) + 0.22 * len(self.names)

    def _grid(self) -> tuple[int, int]:
        columns = min(len(self.metrics), 2)
        return columns, -(-len(self.metrics) // columns)

    def _draw_figure(self, figure: Figure) -> None:
        columns, rows = self._grid()
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for metric, ax in zip(self.metrics, axes, strict=False):
            self._panel(ax, metric)
        for ax in axes[len(self.metrics) :]:
            ax.set_axis_off()
        legend_above(axes[0])

    def _draw(self, ax: Axes) -> None:
        self._panel(ax, self.metrics[0])
        legend_above(ax)

    def _panel(self, ax: Axes, metric: str) -> None:
        start, end, bottom, top = np.inf, 1.0, np.inf, 0.0
        for number, (curve, name) in enumerate(zip(self.curves, self.names, strict=True)):
            rows = curve[curve["metric"] == metric].sort_values("gallery")
            x, y = _numbers(rows, "gallery"), _scaled(metric, _numbers(rows, "value"))
            x = np.maximum(x, 1.0)
            exact = (rows["kind"] == "exact").to_numpy()
            self._bands(ax, rows, x, y, exact, metric, number)
            look = line_style(number, markers=False)
            ax.plot(x[exact], y[exact], label=cut(name), clip_on=False, zorder=3, **look)
            self._base(ax, rows, x, y, number)
            beyond = ~exact
            if beyond.any():
                joined = np.append(np.flatnonzero(exact)[-1:], np.flatnonzero(beyond))
                ax.plot(x[joined], y[joined], zorder=3, color=look["color"], linewidth=1.6,
                        linestyle=(0, (1.5, 1.5)))  # fmt: skip
                if number == 0:
                    note(ax, "forecast", (float(x[joined][-1]), float(y[joined][-1])),
                         xytext=(-2, 7), ha="right")  # fmt: skip
            start, end = min(start, float(x.min())), max(end, float(x.max()))
            ends = _scaled(metric, rows[["value", "low", "high"]].astype(float).to_numpy())
            bottom, top = min(bottom, float(np.nanmin(ends))), max(top, float(np.nanmax(ends)))
        ax.set_xscale("log")
        ax.set_xlim(start, max(end, start * 1.5))
        rank = parse(metric).metric.is_rank
        if rank:
            ax.set_yscale("log" if top > 20 else "linear")
            ax.yaxis.set_major_formatter(_count)
        else:
            ax.set_ylim(*_limits(bottom, top))
        ax.set_title(metric, loc="right", fontsize=10)
        ax.grid(axis="y")
        ax.tick_params(length=0, pad=6, which="both")
        from matplotlib.ticker import LogLocator

        steps = (1.0, 2.0, 5.0) if end < 300 * start else (1.0,)
        ax.xaxis.set_major_locator(LogLocator(subs=steps))
        ax.xaxis.set_major_formatter(_count)
        ax.xaxis.set_minor_formatter(lambda *_: "")
        ax.set_xlabel("Items in the gallery")
        ax.set_ylabel(f"{metric}" if rank else f"{metric} (%)")

    def _bands(
        self, ax: Axes, rows: pd.DataFrame, x: Any, y: Any, exact: Any, metric: str, number: int
    ) -> None:
        """Draw the interval over queries as a light area, that over draws between dots."""
        color = line_style(number)["color"]
        low, high = (_scaled(metric, _numbers(rows, name)) for name in ("low", "high"))
        for part, hatch in ((exact, None), (~exact, "////")):
            known = part & ~np.isnan(low)
            if known.any():
                ax.fill_between(x[known], low[known], high[known], color=color, alpha=0.16,
                                linewidth=0, hatch=hatch, zorder=1)  # fmt: skip
        sd = _scaled(metric, _numbers(rows, "sd"))
        known = exact & ~np.isnan(sd)
        if known.any():
            ax.fill_between(x[known], (y - sd)[known], (y + sd)[known], color=color, alpha=0.3,
                            linewidth=0, zorder=2)  # fmt: skip
            for edge in (y - sd, y + sd):
                ax.plot(x[known], edge[known], color=color, linewidth=0.9, linestyle=":", zorder=2)

    def _base(self, ax: Axes, rows: pd.DataFrame, x: Any, y: Any, number: int) -> None:
        """Mark the base gallery, where nothing is drawn yet."""
        base = np.flatnonzero((rows["size"] == 0).to_numpy())
        if not len(base):
            return
        at = int(base[0])
        look = line_style(number)
        ax.plot(x[at], y[at], color=look["color"], marker=look["marker"], markersize=7, zorder=4,
                markeredgewidth=0, clip_on=False, linestyle="none")  # fmt: skip
        if number == 0:
            ax.axvline(x[at], color=MUTED, linewidth=0.9, linestyle=(0, (8, 3)), zorder=0)
            ax.annotate(
                f"base: {int(rows['gallery'].iloc[at]):,}", (float(x[at]), 0.0), xytext=(5, 5),
                xycoords=ax.get_xaxis_transform(), textcoords="offset points", fontsize=SMALL,
                color=MUTED, ha="left", va="bottom",
            )


def _numbers(rows: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    return np.asarray(rows[column].astype(float).to_numpy(), np.float64)


def _scaled(metric: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return values if parse(metric).metric.is_rank else 100 * values


def _limits(bottom: float, top: float) -> tuple[float, float]:
    """Return where an axis in percent ends: at tens around the values, and 20 apart or more.

    >>> _limits(72.0, 85.7), _limits(3.0, 60.0), _limits(97.0, 99.5)
    ((70.0, 90.0), (0.0, 70.0), (80.0, 100.0))
    """
    high = max(10 * np.ceil(top / 10 + 1e-9), 10.0)
    high = high if top > 100 else min(high, 100.0)
    low = max(min(10 * np.floor(bottom / 10), high - 20), 0.0)
    return float(low), float(max(high, low + 20))


def _shown(metric: str, value: float) -> str:
    return f"{value:.1f}" if parse(metric).metric.is_rank else f"{100 * value:.1f} %"


def _count(value: float, _: float = 0.0) -> str:
    """Return a number of items as an axis shows it.

    >>> _count(1000), _count(2_500_000), _count(20)
    ('1k', '2.5M', '20')
    """
    for unit, word in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{word}"
    return f"{value:g}"
