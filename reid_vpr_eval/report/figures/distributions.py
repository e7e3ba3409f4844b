"""How the queries and the scores are spread: average precision, positives and negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, counted
from reid_vpr_eval.relevance.pairs import NEGATIVE, POSITIVE
from reid_vpr_eval.report.figures.counted import as_given, counts_of, pool_of
from reid_vpr_eval.report.figures.style import (
    INK,
    MUTED,
    SERIES,
    SMALL,
    ResultsDisplay,
    cut,
    legend_above,
    panel_name,
    run_names,
)
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AveragePrecisionDisplay", "ScoreDisplay"]

Floats = npt.NDArray[np.float64]
_BINS = 20
_SCORE_BINS = 40


@dataclass(eq=False, kw_only=True)
class AveragePrecisionDisplay(ResultsDisplay):
    """How many queries have which average precision, a panel a result.

    Attributes
    ----------
    values : list of float arrays
        The average precision of every query in the mean.
    names : list of str
        What the results are called, with the mean.
    edges : float array (n_bins + 1,)
        The edges of the bins; the last one holds its right edge.
    shares : list of float arrays (n_bins,)
        The share of queries in each bin.
    """

    kind_name: ClassVar[str] = "average-precision"

    values: list[Floats]
    names: list[str]
    edges: Floats
    shares: list[Floats]

    @classmethod
    def from_results(cls, results: Sequence[Result], *, names: Sequence[str] = ()) -> Self:
        """Take the average precision of each query from the tables of queries.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If a table has none: only the best positive of each query was counted.
        """
        called = run_names(results, names)
        values = []
        for one in results:
            found = one.per_query["ap"].to_numpy(float)
            if np.isnan(found).all():
                raise NotCountedError(
                    "the table of queries holds no average precision: rank with keep='all'"
                )
            values.append(found[~np.isnan(found)])
        edges = np.linspace(0, 1, _BINS + 1)
        return cls(
            values=values,
            names=[f"{cut(name)} (mean {100 * found.mean():.1f}, "
                   f"{counted(len(found), 'query', form=',')})"
                   for name, found in zip(called, values, strict=True)],
            edges=edges,
            shares=[np.histogram(found, edges)[0] / len(found) for found in values],
        )  # fmt: skip

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        return (
            "The share of queries by their average precision; the dashed line is the mean. Two "
            "heaps mean that a query is either easy or lost."
        )

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = [f"{name}: {100 * shares[0]:.1f} percent in the lowest bin, {100 * shares[-1]:.1f} "
                "in the highest" for name, shares in zip(self.names, self.shares, strict=True)
                ]  # fmt: skip
        return f"Histogram of average precision. {'; '.join(told)}"

    def _size(self) -> tuple[float, float]:
        n = len(self.names)
        return 6.0, 3.6 if n == 1 else 0.6 + 1.5 * n

    def _draw_figure(self, figure: Figure) -> None:
        panels = figure.subplots(len(self.names), 1, sharex=True, sharey=True, squeeze=False)
        for i, ax in enumerate(panels[:, 0]):
            self._panel(ax, i)
            panel_name(ax, self.names[i])
        for ax in panels[:-1, 0]:
            ax.set_xlabel("")
        if len(self.names) > 1:
            for ax in panels[:, 0]:
                ax.set_ylabel("")
            figure.supylabel("Queries (%)", fontsize=10)

    def _draw(self, ax: Axes) -> None:
        for i in range(len(self.names)):
            self._panel(ax, i)
        legend_above(ax)

    def _panel(self, ax: Axes, i: int) -> None:
        colour = SERIES[i % len(SERIES)]
        ax.stairs(100 * self.shares[i], 100 * self.edges, fill=True, color=colour, alpha=0.35)
        ax.stairs(100 * self.shares[i], 100 * self.edges, color=colour, linewidth=1.4,
                  label=self.names[i])  # fmt: skip
        ax.axvline(100 * self.values[i].mean(), color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
        ax.set_xlim(0, 100)
        ax.set_ylim(0, 105 * max(shares.max() for shares in self.shares))
        ax.grid(axis="y")
        ax.tick_params(length=0)
        ax.set_xlabel("Average precision of a query (%)")
        ax.set_ylabel("Queries (%)")


@dataclass(eq=False, kw_only=True)
class ScoreDisplay(ResultsDisplay):
    """The scores of positives and negatives, a panel a result: how far are they apart?

    Attributes
    ----------
    series : list of mapping of str to float array
        The scores of each result, as given: "positive pairs", "best positive of each query",
        and "negative pairs" where all of them were kept, else "best negative of each query".
    names : list of str
        What the results are called.
    axis : list of str
        What the scores are, with the better side.
    """

    kind_name: ClassVar[str] = "scores"

    series: list[dict[str, Floats]]
    names: list[str]
    axis: list[str]

    @classmethod
    def from_results(cls, results: Sequence[Result], *, names: Sequence[str] = ()) -> Self:
        """Take the scores of judged pairs and of the best negatives from the counts.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If the counts were not kept, if there are no scores but only places in ranked
            lists, or if the best negative is not known after a regrade.
        """
        called = run_names(results, names)
        return cls(
            series=[_scores(one) for one in results],
            names=[cut(name) for name in called],
            axis=[_axis(one) for one in results],
        )

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        rest = "the best negative of each query: where it beats the best positive, the first answer"
        if all("negative pairs" in one for one in self.series):
            return "The scores of positive and negative pairs."
        return f"The scores of positive pairs and of {rest} is wrong."

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = [
            f"{name}: " + ", ".join(f"median of {what} {np.median(values):.4g}"
                                    for what, values in one.items() if len(values))
            for name, one in zip(self.names, self.series, strict=True)
        ]  # fmt: skip
        return f"Distribution of scores. {'; '.join(told)}"

    def _size(self) -> tuple[float, float]:
        n = len(self.names)
        return 6.0, 3.9 if n == 1 else 1.1 + 1.8 * n

    def _draw_figure(self, figure: Figure) -> None:
        panels = figure.subplots(len(self.names), 1, squeeze=False)[:, 0]
        for i, ax in enumerate(panels):
            self._panel(ax, i)
            if len(self.names) > 1:
                panel_name(ax, self.names[i])
                ax.set_ylabel("")
            if i + 1 < len(panels) and self.axis[i] == self.axis[i + 1]:
                ax.set_xlabel("")
        if len(self.names) > 1:
            figure.supylabel("Share of each kind (%)", fontsize=10)
            handles, labels = panels[0].get_legend_handles_labels()
            labels = [label.rpartition(" (")[0] for label in labels]
            figure.legend(handles, labels, loc="outside upper left", frameon=False, ncols=2,
                          handlelength=3, fontsize=SMALL)  # fmt: skip
        else:
            legend_above(panels[0])

    def _draw(self, ax: Axes) -> None:
        self._panel(ax, 0)
        legend_above(ax)

    def _panel(self, ax: Axes, i: int) -> None:
        known = {what: values for what, values in self.series[i].items() if len(values)}
        everything = np.concatenate(list(known.values()))
        low, high = float(everything.min()), float(everything.max())
        if not high > low:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, _SCORE_BINS + 1)
        for what, values in known.items():
            heights = 100 * np.histogram(values, edges)[0] / len(values)
            ax.stairs(heights, edges, label=f"{what} ({len(values):,})", **_LOOKS[what])
        ax.set_ylim(bottom=0)
        ax.grid(axis="y")
        ax.tick_params(length=0)
        ax.set_xlabel(self.axis[i])
        ax.set_ylabel("Share of each kind (%)")


_LOOKS: dict[str, dict[str, Any]] = {
    "positive pairs": {"fill": True, "color": MUTED, "alpha": 0.3},
    "best positive of each query": {"color": SERIES[0], "linewidth": 1.8},
    "negative pairs": {"color": SERIES[1], "linewidth": 1.6, "linestyle": (0, (5, 2)),
                       "hatch": "////", "fill": False},
    "best negative of each query": {"color": SERIES[1], "linewidth": 1.6,
                                    "linestyle": (0, (5, 2)), "hatch": "////", "fill": False},
}  # fmt: skip


def _scores(result: Result) -> dict[str, Floats]:
    ranking = counts_of(result, "the scores of pairs")
    _check_scores(result)
    role, found = ranking.effective_role, ranking.found
    query = ranking.query_of_pair
    right, wrong = found & (role == POSITIVE), found & (role == NEGATIVE)
    best = np.full(ranking.n_query, -np.inf)
    np.maximum.at(best, query[right], ranking.score[right])
    series = {"positive pairs": ranking.score[right], "best positive of each query": best}
    if ranking.largest_negatives is not None:
        pairs = pool_of(result, "the scores of pairs").pairs()
        if pairs.complete:
            series["negative pairs"] = pairs.negatives
    if "negative pairs" not in series:
        if (ranking.best_item == -2).any():
            raise NotCountedError(
                "the best negative of each query is not known after a regrade that changed which "
                "strata queries keep: rank again with that relevance"
            )
        hardest = np.where(ranking.best_item >= 0, ranking.best_score, -np.inf)
        np.maximum.at(hardest, query[wrong], ranking.score[wrong])
        series["best negative of each query"] = hardest
    return {what: as_given(values[np.isfinite(values)], result)
            for what, values in series.items()}  # fmt: skip


def _check_scores(result: Result) -> None:
    """Refuse places in lists as scores."""
    table = result.per_query["top1_score"].to_numpy(float)
    if result.inputs.get("scores") == "ranked lists" and not np.nan_to_num(table).any():
        raise NotCountedError(
            "these are ranked lists without scores, so there is no distribution of them: give "
            "the lists with their scores"
        )


def _axis(result: Result) -> str:
    metric = result.inputs.get("metric")
    higher = result.ranking is None or result.ranking.higher_is_better
    side = "right" if higher else "left"
    what = {True: "similarity", False: "distance"}[higher]
    called = f"{metric} {what}".capitalize() if metric else what.capitalize()
    return f"{called} (better: {side})"
