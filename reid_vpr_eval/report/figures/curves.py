"""CMC and Recall@N: a metric at every cut-off, a line a result, a band for the interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import ReidVprEvalError, counted
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.metrics.compute import chance
from reid_vpr_eval.report.figures.style import (
    MUTED,
    SERIES,
    ResultsDisplay,
    cut,
    legend_above,
    line_style,
    note,
    run_names,
)
from reid_vpr_eval.report.text import hit_rates
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["CurveDisplay", "headline_of"]

Floats = npt.NDArray[np.float64]


@dataclass(eq=False, kw_only=True)
class CurveDisplay(ResultsDisplay):
    """A metric at every cut-off, a line a result: CMC, or Recall@N for places.

    Attributes
    ----------
    metric : str
        What is drawn, such as "CMC".
    kind : {"cmc", "recall", "other"}
        How the axes are named: Recall@N is the same number as CMC at rank N.
    k : int array (n_k,)
        The cut-offs, from 1.
    values : list of float arrays (n_k,)
        The metric of each result, shares in [0, 1].
    names : list of str
        What each line is called, with its headline numbers.
    chances : list of float arrays (n_k,) or None
        The expectation of a ranking without information; None where the counts were not
        kept.
    ceilings : list of float
        The highest hit rate that the queries of each result allow.
    bands : list of (low, high) or None
        The interval at each cut-off, two float arrays (n_k,); None where a result has none.
    ax_, figure_, lines_
        What was drawn, after :meth:`plot`.
    """

    kind_name: ClassVar[str] = "curve"

    metric: str
    kind: Literal["cmc", "recall", "other"]
    k: npt.NDArray[np.int64]
    values: list[Floats]
    names: list[str]
    chances: list[Floats | None]
    ceilings: list[float]
    bands: list[tuple[Floats, Floats] | None] = field(default_factory=list)
    lines_: list[Line2D] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_result(
        cls, result: Result, metric: str = "CMC", *, name: str = "", k_max: int | None = None
    ) -> Self:
        """Take the curve of one result, see :meth:`from_results`."""
        return cls.from_results([result], metric, names=[name] if name else (), k_max=k_max)

    @classmethod
    def from_results(
        cls,
        results: Sequence[Result],
        metric: str = "CMC",
        *,
        names: Sequence[str] = (),
        k_max: int | None = None,
    ) -> Self:
        """Take the curves of several results.

        Parameters
        ----------
        results : sequence of Result
            Each gives a line.
        metric : str
            Any metric with a cut-off.
        names : sequence of str, optional
            What the results are called; by default the titles of their protocols.
        k_max : int, optional
            The last cut-off: by default 25 for places and 20 else.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If a curve needs counts that a result does not hold.
        """
        called = run_names(results, names)
        places = all(one.protocol.relevance.kind == "within" for one in results)
        canonical = parse(f"{metric}@1").name
        last = k_max or (25 if places else 20)
        curves = [one.curve(canonical, last) for one in results]
        return cls(
            metric=canonical,
            kind="other" if canonical != "CMC" else "recall" if places else "cmc",
            k=np.arange(1, last + 1),
            values=[curve["value"].to_numpy(float) for curve in curves],
            names=[
                f"{cut(name)} ({headline_of(one, places)})"
                for name, one in zip(called, results, strict=True)
            ],
            chances=[_chance(one, canonical, last) for one in results],
            ceilings=[float(one.counts["ceiling"]) for one in results],
            bands=[
                _band(curve["low"].to_numpy(float), curve["high"].to_numpy(float))
                for curve in curves
            ],
        )

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        text = {
            "recall": "Recall@N: the share of queries with a positive among the first N items.",
            "cmc": "CMC: the share of queries with a positive among the items up to each rank.",
            "other": f"{self.metric} at every cut-off.",
        }[self.kind]
        return text + (" Bands: the interval of each value." if any(self.bands) else "")

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        ends = [
            f"{name}: {100 * values[0]:.1f} percent at {self.k[0]}, "
            f"{100 * values[-1]:.1f} at {self.k[-1]}"
            for name, values in zip(self.names, self.values, strict=True)
        ]
        return f"{'Recall@N' if self.kind == 'recall' else 'CMC'} curve. {'; '.join(ends)}"

    def _draw(self, ax: Axes) -> None:
        ticks = [k for k in (1, *range(5, int(self.k[-1]) + 1, 5)) if k <= self.k[-1]]
        self.lines_ = [
            ax.plot(self.k, 100 * values, label=self.names[i], clip_on=False, zorder=3,
                    markevery=[k - 1 for k in ticks], **line_style(i))[0]
            for i, values in enumerate(self.values)
        ]  # fmt: skip
        for i, band in enumerate(self.bands):
            if band is not None:
                ax.fill_between(self.k, 100 * band[0], 100 * band[1], zorder=1, linewidth=0,
                                color=SERIES[i % len(SERIES)],
                                alpha=0.2 if len(self.values) < 4 else 0.1)  # fmt: skip
        self._draw_references(ax)
        ax.set_xlim(1, max(int(self.k[-1]), 2))
        ax.set_ylim(0, 100)
        ax.set_xticks(ticks)
        ax.set_yticks(range(0, 101, 20))
        ax.grid(axis="y")
        ax.tick_params(length=0, pad=6)
        ax.set_xlabel(self._words()[0])
        ax.set_ylabel(self._words()[1])
        legend_above(ax)

    def _words(self) -> tuple[str, str]:
        return {
            "cmc": ("Rank", "Queries with a match up to this rank (%)"),
            "recall": ("N, number of best candidates", "Recall@N (%)"),
            "other": ("k", f"{self.metric}@k (%)"),
        }[self.kind]

    def _draw_references(self, ax: Axes) -> None:
        """Draw chance, and the ceiling where it is below 100, as thin lines with words."""
        drawn: list[Floats] = []
        for chances in self.chances:
            if chances is None or any(np.allclose(chances, other) for other in drawn):
                continue
            drawn.append(chances)
            ax.plot(self.k, 100 * chances, color=MUTED, linewidth=1.2, linestyle=":", zorder=2)
        if drawn:
            lowest = np.min(drawn, axis=0)
            at = 3 * (len(self.k) - 1) // 4
            height = 100 * float(lowest[at])
            above = height < 8  # below the line there is no room for the word
            note(ax, "chance", (float(self.k[at]), height), xytext=(4, 4 if above else -4),
                 va="bottom" if above else "top")  # fmt: skip
        limits = sorted({c for c in self.ceilings if c < 1 and self.kind != "other"})
        for ceiling in limits:
            ax.axhline(100 * ceiling, color=MUTED, linewidth=0.9, linestyle=(0, (8, 3)), zorder=2)
        if limits:
            words = [f"{100 * ceiling:.1f}" for ceiling in (limits[0], limits[-1])]
            told = f"ceiling {words[0]}" + (f" to {words[1]}" if words[0] != words[1] else "")
            above = limits[-1] <= 0.95  # the curves come from below
            note(ax, told, (1, 100 * (limits[-1] if above else limits[0])),
                 xytext=(4, 2 if above else -4), va="bottom" if above else "top")  # fmt: skip


def _band(low: Floats, high: Floats) -> tuple[Floats, Floats] | None:
    return None if np.isnan(low).all() or np.isnan(high).all() else (low, high)


def _chance(result: Result, metric: str, last: int) -> Floats | None:
    """Return chance at every cut-off, or None where it cannot be computed."""
    if result.ranking is None:
        return None
    names = [f"{metric}@{k}" for k in range(1, last + 1)]
    try:
        found = chance(result.ranking, names, no_positive=result.protocol.no_positive)
    except ReidVprEvalError:
        return None
    return np.array([found[name] for name in names])


def headline_of(result: Result, places: bool) -> str:
    """Return the numbers that a legend gives a run."""
    rates = hit_rates(result, (1,))
    parts = [f"{'R@1' if places else 'R1'} {100 * rates[1]:.1f}"] if 1 in rates else []
    if not places and "mAP" in list(result.metrics):
        parts.append(f"mAP {100 * result.metrics['mAP']:.1f}")
    return ", ".join(parts) or counted(result.counts["n_evaluated"], "query")
