"""Figures of a comparison: differences with their intervals, and how far queries moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.report.figures.style import GRID, INK, MUTED, SERIES, SMALL, Display, cut
from reid_vpr_eval.studies.comparison import Comparison, Difference
from reid_vpr_eval.studies.comparison.text import moved, p_text
from reid_vpr_eval.summary import spelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ChangesDisplay", "DifferencesDisplay"]

Floats = npt.NDArray[np.float64]

BETTER, WORSE = SERIES[0], SERIES[1]
_MOST_PANELS = 4
_BINS = 20
_LINE = 26
_SAME = 1e-12


@dataclass(eq=False, kw_only=True)
class DifferencesDisplay(Display):
    """The difference of each pair of runs with its interval; 0 is no difference.

    Attributes
    ----------
    metric, unit : str
        What is compared by as it is printed, and what differences are in.
    names : list of str
        Of the pairs, the first on top.
    values, low, high : float arrays (n_pairs,)
        In points or ranks; limits are NaN where there are none.
    significant : bool array (n_pairs,)
        Filled marks.
    words : list of str
        What stands beside each: the difference and its p.
    better : {1, -1}
        The side of 0 on which a run is better than its baseline.
    level : float
        Of the intervals.
    """

    kind_name: ClassVar[str] = "comparison"

    metric: str
    unit: str
    names: list[str]
    values: Floats
    low: Floats
    high: Floats
    significant: npt.NDArray[np.bool_]
    words: list[str]
    better: int
    level: float

    @classmethod
    def from_comparison(cls, comparison: Comparison, metric: str | None = None) -> Self:
        """Take the differences by one metric, by default the first."""
        name = str(parse(metric or comparison.metric))
        rows = [one for one in comparison.differences if one.metric == name]
        if not rows:
            raise NotCountedError(
                f"nothing was compared by {name}: there are {', '.join(comparison.metrics)}"
            )
        is_rank = parse(name).metric.is_rank
        scale = 1.0 if is_rank else 100.0
        return cls(
            metric=spelled(name, comparison.protocol),
            unit="ranks" if is_rank else "points",
            names=[_pair(one.run, one.baseline) for one in rows],
            values=scale * np.array([one.difference for one in rows]),
            low=scale * np.array([np.nan if one.low is None else one.low for one in rows]),
            high=scale * np.array([np.nan if one.high is None else one.high for one in rows]),
            significant=np.array([one.significant for one in rows]),
            words=[_words(one) for one in rows],
            better=1 if parse(name).metric.direction == "up" else -1,
            level=comparison.settings.level,
        )

    @property
    def caption(self) -> str:
        """What the figure shows."""
        side = "right" if self.better > 0 else "left"
        return (
            f"Differences in {self.metric} with {100 * self.level:g} % intervals; to the {side} of "
            "0 the first of the two runs is better. Filled: significant after correction."
        )

    def spoken(self) -> str:
        """Return the differences in words."""
        return f"Differences in {self.metric}. " + "; ".join(
            f"{name}: {word}" for name, word in zip(self.names, self.words, strict=True)
        )

    def _size(self) -> tuple[float, float]:
        return 6.5, 1.3 + 0.42 * len(self.names)

    def _draw(self, ax: Axes) -> None:
        place = np.arange(len(self.names))[::-1].astype(float)
        ax.axvline(0, color=MUTED, linewidth=1.2, zorder=1)
        for i, at in enumerate(place):
            colour = BETTER if self.better * self.values[i] >= 0 else WORSE
            if not np.isnan(self.low[i]):
                ax.plot([self.low[i], self.high[i]], [at, at], color=colour, linewidth=2.2,
                        solid_capstyle="butt", zorder=2)  # fmt: skip
            ax.plot(
                [self.values[i]], [at], marker="o" if self.better * self.values[i] >= 0 else "s",
                markersize=7.5, color=colour, markeredgewidth=1.8, zorder=3,
                markerfacecolor=colour if self.significant[i] else "white",
            )  # fmt: skip
        ends = np.concatenate([self.values, self.low, self.high, [0.0]])
        low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
        room = max(high - low, 1.0)
        ax.set_xlim(low - 0.06 * room, max(high, low + room) + 0.06 * room)
        ax.set_ylim(-0.6, len(self.names) - 0.4)
        ax.set_yticks(place, self.names)
        for label in ax.get_yticklabels():
            label.set_parse_math(False)
        ax.tick_params(length=0, pad=6)
        ax.spines["left"].set_visible(False)
        ax.grid(axis="x")
        ax.set_xlabel(f"Difference in {self.metric} ({self.unit})")
        for at, word in zip(place, self.words, strict=True):
            ax.annotate(word, (1.0, at), xycoords=("axes fraction", "data"), xytext=(8, 0),
                        textcoords="offset points", va="center", ha="left", fontsize=SMALL,
                        color=INK, annotation_clip=False)  # fmt: skip


def _pair(run: str, baseline: str) -> str:
    """Name a pair in one line, or in two where names are long."""
    names = f"{cut(run, 26)} ", f"− {cut(baseline, 26)}"
    return "".join(names) if len("".join(names)) <= _LINE else f"{names[0]}\n{names[1]}"


def _words(one: Difference) -> str:
    """Return a difference and its p as the figure writes them."""
    p = p_text(one.p_corrected, one)
    told = "" if p == "-" else f", p {p}" if p.startswith("<") else f", p = {p}"
    return moved(one.metric, one.difference) + told


@dataclass(eq=False, kw_only=True)
class ChangesDisplay(Display):
    """How far the value of each query moved, a panel a pair: a histogram without equal ones.

    Attributes
    ----------
    metric, unit : str
        What is compared by as it is printed, and what differences are in.
    names : list of str
        Of the pairs.
    edges : float array (n_bins + 1,)
        Of the bins, around 0.
    counts : list of int arrays (n_bins,)
        Queries that moved so far, of each pair.
    equal : list of int
        Queries that did not move.
    better : {1, -1}
        The side of 0 on which a query is better.
    """

    kind_name: ClassVar[str] = "changes"

    metric: str
    unit: str
    names: list[str]
    edges: Floats
    counts: list[npt.NDArray[np.int64]]
    equal: list[int]
    better: int

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, metric: str | None = None, *, panels: int = _MOST_PANELS
    ) -> Self:
        """Take the moves of queries against the first run, by one metric.

        Raises
        ------
        NotCountedError
            If there are no values of queries.
        """
        name = str(parse(metric or comparison.metric))
        baseline, others = comparison.runs[0], comparison.runs[1 : 1 + panels]
        if f"{name}:{baseline}" not in comparison.per_query:
            raise NotCountedError(f"there are no values of {name} for each query")
        is_rank = parse(name).metric.is_rank
        table = comparison.per_query
        below = table[f"{name}:{baseline}"].to_numpy(float)
        moves = [
            (1.0 if is_rank else 100.0) * (table[f"{name}:{other}"].to_numpy(float) - below)
            for other in others
        ]
        moves = [one[~np.isnan(one)] for one in moves]
        far = max((float(np.abs(one).max(initial=0.0)) for one in moves), default=0.0)
        edges = np.linspace(-1, 1, _BINS + 1) * max(10.0 * math.ceil(far / 10 - 1e-9), 10.0)
        away = [one[np.abs(one) > _SAME * max(1.0, far)] for one in moves]
        return cls(
            metric=spelled(name, comparison.protocol),
            unit="ranks" if is_rank else "points",
            names=[f"{cut(other, 30)} − {cut(baseline, 30)}" for other in others],
            edges=edges,
            counts=[np.histogram(one, edges)[0].astype(np.int64) for one in away],
            equal=[len(one) - len(some) for one, some in zip(moves, away, strict=True)],
            better=1 if parse(name).metric.direction == "up" else -1,
        )

    @property
    def caption(self) -> str:
        """What the figure shows."""
        return (
            f"How far {self.metric} of each query moved; queries that did not move are counted in "
            "words."
        )

    def spoken(self) -> str:
        """Return the numbers of queries in words."""
        parts = []
        for name, counts, equal in zip(self.names, self.counts, self.equal, strict=True):
            worse, better = self._sides(counts)
            parts.append(f"{name}: {better:,} better, {worse:,} worse, {equal:,} equal")
        return f"Moves of queries in {self.metric}. {'; '.join(parts)}"

    def _sides(self, counts: npt.NDArray[np.int64]) -> tuple[int, int]:
        below, above = int(counts[: _BINS // 2].sum()), int(counts[_BINS // 2 :].sum())
        return (below, above) if self.better > 0 else (above, below)

    def _size(self) -> tuple[float, float]:
        return 6.0, 0.7 + 1.75 * len(self.names)

    def _draw_figure(self, figure: Figure) -> None:
        axes = figure.subplots(len(self.names), 1, sharex=True, squeeze=False)[:, 0]
        for number, ax in enumerate(axes):
            self._panel(ax, number, last=number == len(axes) - 1)

    def _draw(self, ax: Axes) -> None:
        self._panel(ax, 0, last=True)

    def _panel(self, ax: Axes, number: int, *, last: bool) -> None:
        from matplotlib.ticker import MaxNLocator

        centre = (self.edges[1:] + self.edges[:-1]) / 2
        width = 0.88 * (self.edges[1] - self.edges[0])
        counts, equal = self.counts[number], self.equal[number]
        good = self.better * centre > 0
        ax.bar(centre[good], counts[good], width, color=BETTER)
        ax.bar(centre[~good], counts[~good], width, color="white", edgecolor=WORSE, hatch="////",
               linewidth=1.2)  # fmt: skip
        ax.axvline(0, color=MUTED, linewidth=1.0)
        top = max(int(counts.max(initial=0)), 1)
        ax.set_ylim(0, 1.45 * top)
        ax.set_xlim(self.edges[0], self.edges[-1])
        ax.tick_params(length=0, pad=4)
        ax.grid(axis="y", color=GRID)
        ax.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        ax.set_ylabel("Queries")
        worse, better = self._sides(counts)
        told = [(0.01 if self.better > 0 else 0.99, f"{worse:,} worse"),
                (0.99 if self.better > 0 else 0.01, f"{better:,} better")]  # fmt: skip
        for x, text in (*told, (0.5, f"{equal:,} equal")):
            side = {0.01: "left", 0.99: "right"}.get(x, "center")
            ax.text(x, 0.97, text, transform=ax.transAxes, ha=side, va="top", fontsize=SMALL,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
        if not counts.any():
            ax.text(0.5, 0.45, "no query moved", transform=ax.transAxes, ha="center", va="center",
                    color=MUTED, bbox={"facecolor": "white", "edgecolor": "none"})  # fmt: skip
        title = ax.set_title(self.names[number], loc="left", fontsize=10, color=INK)
        title.set_parse_math(False)
        if last:
            ax.set_xlabel(f"Difference in {self.metric} of a query ({self.unit})")


