"""How far first answers are from where the query was taken: radius curves and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.report.figures.counted import evaluated_of
from reid_vpr_eval.report.figures.style import (
    INK,
    MUTED,
    SMALL,
    ResultsDisplay,
    cut,
    legend_above,
    line_style,
    note,
    run_names,
)
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["ErrorDisplay", "RadiusDisplay"]

Floats = npt.NDArray[np.float64]
_RADII = np.unique(np.r_[np.geomspace(1, 200, 120), 1, 2, 5, 10, 20, 25, 40, 50, 100, 200])
_MARKS = (1.0, 5.0, 25.0)
_NEAREST = 0.1


@dataclass(eq=False, kw_only=True)
class RadiusDisplay(ResultsDisplay):
    """Recall as a function of the radius: how much hangs on where the line was drawn?

    Attributes
    ----------
    radius : float array (n_radii,)
        Metres, ascending.
    values : list of float arrays (n_radii,)
        The share of evaluated queries with an item within each radius among the first N.
    cuts : list of int
        N of each line.
    names : list of str
        What each line is called.
    judged : list of mapping of float to float
        The reported recall at the radii that the protocol judged, by radius.
    headline : list of float
        The radius of each result's protocol.

    Notes
    -----
    By distance alone: a limit on the heading is not part of the curve. The queries are those
    that are evaluated at the headline radius, at every radius.
    """

    kind_name: ClassVar[str] = "radius"

    radius: Floats
    values: list[Floats]
    cuts: list[int]
    names: list[str]
    judged: list[dict[float, float]]
    headline: list[float]
    lines_: list[Line2D] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_result(cls, result: Result, *, name: str = "") -> Self:
        """Take the first answers of one result, and of its top-k lists if there are any."""
        called = run_names([result], [name] if name else ())
        distances = {1: _errors(result)}
        if result.places is not None:
            for column in result.places.columns:
                if column.startswith("best") and column.endswith("_m"):
                    distances[int(column[4:-2])] = result.places[column].to_numpy(float)
        inside = evaluated_of(result)
        shares = [_share_within(metres[inside], _RADII) for metres in distances.values()]
        return cls(
            radius=_RADII,
            values=shares,
            cuts=list(distances),
            names=[f"{cut(called[0])}: R@{k}" for k in distances],
            judged=[_judged(result, k) for k in distances],
            headline=[_radius(result)] * len(distances),
        )

    @classmethod
    def from_results(cls, results: Sequence[Result], *, names: Sequence[str] = ()) -> Self:
        """Take the first answers of several results; of one, as :meth:`from_result`.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If a protocol does not judge by distance.
        """
        called = run_names(results, names)
        if len(results) == 1:
            return cls.from_result(results[0], name=called[0])
        shares = [_share_within(_errors(one)[evaluated_of(one)], _RADII) for one in results]
        return cls(
            radius=_RADII,
            values=shares,
            cuts=[1] * len(results),
            names=[f"{cut(name)}: R@1" for name in called],
            judged=[_judged(one, 1) for one in results],
            headline=[_radius(one) for one in results],
        )

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        return (
            "The share of queries with an item within each radius among their first answers, by "
            "distance alone. The upright line is the radius of the protocol."
        )

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = []
        for name, values in zip(self.names, self.values, strict=True):
            at = [f"{100 * _at(self.radius, values, r):.1f} percent within {r:g} m"
                  for r in (5, 25, 100)]  # fmt: skip
            told.append(f"{name}: {', '.join(at)}")
        return f"Recall over the radius. {'; '.join(told)}"

    def _draw(self, ax: Axes) -> None:
        marks = [int(np.searchsorted(self.radius, m)) for m in (1, 5, 10, 25, 50, 100, 200)]
        self.lines_ = []
        for i, values in enumerate(self.values):
            look = line_style(i) | {"markevery": marks}
            self.lines_ += ax.plot(self.radius, 100 * values, label=self.names[i], zorder=3,
                                   clip_on=False, **look)  # fmt: skip
            for radius, value in self.judged[i].items():
                ax.plot(radius, 100 * value, marker="x", color=INK, markersize=8, zorder=4)
        ticks = (1, 2, 5, 10, 25, 50, 100, 200)
        _metre_axis(ax, ticks, 1, 200)
        _upright(ax, self.headline)
        ax.set_xlabel("Radius (m)")
        ax.set_ylabel("Recall@N (%)" if set(self.cuts) != {1} else "Recall@1 (%)")
        legend_above(ax)


@dataclass(eq=False, kw_only=True)
class ErrorDisplay(ResultsDisplay):
    """How far first answers are away: the share of queries within each distance.

    Attributes
    ----------
    metres : list of float arrays
        The distance of each first answer, ascending; queries without an answer are left out
        here, but not in `n_query`.
    n_query : list of int
        Evaluated queries of each result.
    names : list of str
        What the results are called, with the median.
    headline : list of float
        The radius of each result's protocol.
    """

    kind_name: ClassVar[str] = "errors"

    metres: list[Floats]
    n_query: list[int]
    names: list[str]
    headline: list[float]
    lines_: list[Line2D] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_results(cls, results: Sequence[Result], *, names: Sequence[str] = ()) -> Self:
        """Take the distances of first answers from the tables of queries.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If a protocol does not judge by distance.
        """
        called = run_names(results, names)
        found = [_errors(one)[evaluated_of(one)] for one in results]
        texts = []
        for name, metres in zip(called, found, strict=True):
            middle = float(np.median(np.where(np.isnan(metres), np.inf, metres)))
            told = f"{middle:,.1f} m" if np.isfinite(middle) else "none"
            texts.append(f"{cut(name)} (median {told})")
        return cls(
            metres=[np.sort(metres[~np.isnan(metres)]) for metres in found],
            n_query=[len(metres) for metres in found],
            names=texts,
            headline=[_radius(one) for one in results],
        )

    def within(self, number: int, metres: float) -> float:
        """Return the share of queries of a result whose first answer is so near."""
        inside = np.searchsorted(self.metres[number], metres, side="right")
        return float(inside / self.n_query[number])

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        return (
            "The share of queries whose first answer was taken within each distance, on a "
            "logarithmic axis; marks at 1, 5 and 25 m."
        )

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = [
            f"{name}: " + ", ".join(f"{100 * self.within(i, m):.1f} percent within {m:g} m"
                                    for m in _MARKS)
            for i, name in enumerate(self.names)
        ]  # fmt: skip
        return f"Distance of first answers. {'; '.join(told)}"

    def _draw(self, ax: Axes) -> None:
        farthest = max([float(m[-1]) for m in self.metres if len(m)], default=1.0)
        last = 10.0 ** np.ceil(np.log10(max(farthest, 100.0)))
        self.lines_ = []
        for i, metres in enumerate(self.metres):
            x = np.maximum(metres, _NEAREST)
            y = np.arange(1, len(x) + 1) / self.n_query[i]
            # Of equal distances the last step counts; beyond the farthest nothing comes.
            x, y = np.r_[_NEAREST, x, last], np.r_[0.0, y, y[-1:] if len(y) else 0.0]
            look = line_style(i, markers=False)
            self.lines_ += ax.plot(x, 100 * y, label=self.names[i], zorder=3,
                                   drawstyle="steps-post", **look)  # fmt: skip
            self._marks(ax, i)
        for mark in _MARKS:
            ax.axvline(mark, color=MUTED, linewidth=0.9, linestyle=":", zorder=1)
        ticks = [10.0**p for p in range(-1, int(np.log10(last)) + 1)]
        _metre_axis(ax, sorted({*ticks, 5.0, 25.0}), _NEAREST, last)
        ax.set_xlabel("Distance of the first answer (m)")
        ax.set_ylabel("Queries (%)")
        legend_above(ax)

    def _marks(self, ax: Axes, i: int) -> None:
        values = [100 * self.within(i, mark) for mark in _MARKS]
        look = line_style(i) | {"linestyle": "none"}
        ax.plot(_MARKS, values, zorder=4, **look)
        if len(self.names) == 1:
            for mark, value in zip(_MARKS, values, strict=True):
                top = value > 12
                note(ax, f"{value:.1f} %", (mark, value), ha="right",
                     xytext=(-6, 3 if top else 6), va="bottom")  # fmt: skip


def _metre_axis(ax: Axes, ticks: Sequence[float], low: float, high: float) -> None:
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    shown = [tick for tick in ticks if low <= tick <= high]
    ax.set_xticks(shown, [f"{tick:,g}" if tick < 1000 else f"{tick / 1000:,g}k" for tick in shown])
    ax.minorticks_off()
    ax.set_ylim(0, 100)
    ax.set_yticks(range(0, 101, 20))
    ax.grid(axis="y")
    ax.tick_params(length=0, pad=6)


def _upright(ax: Axes, radii: Sequence[float]) -> None:
    for radius in sorted(set(radii)):
        ax.axvline(radius, color=MUTED, linewidth=0.9, linestyle=(0, (8, 3)), zorder=1)
        ax.text(radius, 1.5, f" {radius:g} m", fontsize=SMALL, color=MUTED, ha="left")


def _errors(result: Result) -> Floats:
    if "top1_error_m" not in result.per_query:
        raise NotCountedError(
            f"{result.protocol.name} does not judge by distance, so the table of queries tells no "
            "distances: use a protocol of kind 'within'"
        )
    return result.per_query["top1_error_m"].to_numpy(float)


def _radius(result: Result) -> float:
    radius: Any = getattr(result.protocol.relevance, "radius", 25.0)
    return float(radius[0] if isinstance(radius, list) else radius)


def _share_within(metres: Floats, radii: Floats) -> Floats:
    known = np.sort(metres[~np.isnan(metres)])
    return np.asarray(np.searchsorted(known, radii, side="right") / max(len(metres), 1))


def _judged(result: Result, k: int) -> dict[float, float]:
    """Return the reported hit rates at one cut-off, by radius."""
    found = {}
    for name in map(parse, result.metrics):
        if name.name == "CMC" and name.k == str(k):
            radius = _radius(result) if name.radius is None else name.radius
            found[radius] = result.metrics[str(name)]
    return found


def _at(radius: Floats, values: Floats, wanted: float) -> float:
    return float(values[np.searchsorted(radius, wanted)])
