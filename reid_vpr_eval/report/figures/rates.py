"""Curves over thresholds: precision and recall, false and true accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.metrics import compute
from reid_vpr_eval.metrics.pooled import auc_bounds, precision_recall, roc
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.report.figures.counted import counts_of, evaluated_of, pool_of
from reid_vpr_eval.report.figures.style import (
    MUTED,
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

__all__ = ["FirstAnswerDisplay", "PrecisionRecallDisplay", "RocDisplay"]

Floats = npt.NDArray[np.float64]
_LEVELS = 100
_POINTS = 1000
#: So many runs show both curves; more would hide one another.
_BOTH = 2


@dataclass(eq=False, kw_only=True)
class PrecisionRecallDisplay(ResultsDisplay):
    """Precision at every recall, averaged over queries: exact, and interpolated.

    Attributes
    ----------
    recall : float array (101,)
        0, 0.01, ... 1.
    values : list of float arrays (101,)
        The mean over queries of the precision where a query first reaches that recall. The
        area below it is mAP.
    interpolated : list of float arrays (101,)
        The same with the largest precision at that recall or beyond.
    names : list of str
        What the results are called, with their mAP.
    lines_
        What was drawn: the exact curves, then the interpolated ones.

    Notes
    -----
    Equal scores are read in tie order.
    """

    kind_name: ClassVar[str] = "precision-recall"

    recall: Floats
    values: list[Floats]
    interpolated: list[Floats]
    names: list[str]
    lines_: list[Line2D] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_results(cls, results: Sequence[Result], *, names: Sequence[str] = ()) -> Self:
        """Average the precision at every recall over the queries that are in the means.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If the counts of all positives were not kept.
        """
        called = run_names(results, names)
        curves = [_averaged(one) for one in results]
        return cls(
            recall=np.arange(_LEVELS + 1) / _LEVELS,
            values=[exact for exact, _, _ in curves],
            interpolated=[envelope for _, envelope, _ in curves],
            names=[f"{cut(name)} (mAP {100 * area:.1f})"
                   for name, (_, _, area) in zip(called, curves, strict=True)],
        )  # fmt: skip

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        thin = " Thin: interpolated, the largest precision from there on."
        return (
            "Precision where a query reaches each recall, averaged over queries; the area below "
            "is mAP." + (thin if len(self.values) <= _BOTH else "")
        )

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = [
            f"{name}: precision {100 * values[10]:.1f} percent at recall 10, "
            f"{100 * values[50]:.1f} at 50, {100 * values[-1]:.1f} at 100"
            for name, values in zip(self.names, self.values, strict=True)
        ]
        return f"Precision-recall curve, averaged over queries. {'; '.join(told)}"

    def _draw(self, ax: Axes) -> None:
        every: dict[str, Any] = {
            "clip_on": False, "zorder": 3, "markevery": list(range(0, _LEVELS + 1, 20))
        }  # fmt: skip
        self.lines_ = [
            ax.plot(100 * self.recall, 100 * values, label=self.names[i], **every,
                    **line_style(i))[0]
            for i, values in enumerate(self.values)
        ]  # fmt: skip
        if len(self.values) <= _BOTH:
            thin = {"linewidth": 1.0}
            self.lines_ += [
                ax.plot(100 * self.recall, 100 * values, clip_on=False, zorder=2,
                        **line_style(i, markers=False) | thin)[0]
                for i, values in enumerate(self.interpolated)
            ]  # fmt: skip
        _percent_axes(ax, "Recall of positives (%)", "Precision (%)")
        legend_above(ax)


@dataclass(eq=False, kw_only=True)
class FirstAnswerDisplay(ResultsDisplay):
    """Precision and recall of first answers, accepted above a threshold on their score.

    The curve of place recognition with one match a query: recall ends at Recall@1 of the
    queries that have a positive, not at 1.

    Attributes
    ----------
    recall, precision : list of float arrays
        At every distinct score of a first answer, best first; from recall 0, precision 1.
    names : list of str
        What the results are called, with the area and the recall at full precision.
    """

    kind_name: ClassVar[str] = "first-answers"

    recall: list[Floats]
    precision: list[Floats]
    names: list[str]
    lines_: list[Line2D] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_results(cls, results: Sequence[Result], *, names: Sequence[str] = ()) -> Self:
        """Take precision and recall of first answers from the counts.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If the counts were not kept, or no query has a positive.
        """
        called = run_names(results, names)
        curves, texts = [], []
        for name, one in zip(called, results, strict=True):
            precision, recall = precision_recall(pool_of(one, "the scores of first answers"))
            curves.append((np.r_[0.0, recall], np.r_[1.0, precision]))
            area = float(np.trapezoid(curves[-1][1], curves[-1][0]))
            perfect = float(recall[precision >= 1].max(initial=0.0))
            texts.append(f"{cut(name)} (PR-AUC {100 * area:.1f}, R@P=1 {100 * perfect:.1f})")
        return cls(
            recall=[recall for recall, _ in curves],
            precision=[precision for _, precision in curves],
            names=texts,
        )

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        return (
            "First answers accepted above a threshold on their score: how many are right, and how "
            "many of the queries with a positive get one."
        )

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = [
            f"{name}: ends at recall {100 * recall[-1]:.1f} percent with precision "
            f"{100 * precision[-1]:.1f}"
            for name, recall, precision in zip(self.names, self.recall, self.precision, strict=True)
        ]
        return f"Precision-recall curve of first answers. {'; '.join(told)}"

    def _draw(self, ax: Axes) -> None:
        self.lines_ = []
        for i, (recall, precision) in enumerate(zip(self.recall, self.precision, strict=True)):
            chosen = _few(len(recall))
            look = line_style(i) | {"markevery": [len(chosen) - 1]}
            self.lines_ += ax.plot(100 * recall[chosen], 100 * precision[chosen], zorder=3,
                                   label=self.names[i], clip_on=False, **look)  # fmt: skip
        _percent_axes(ax, "Recall of first answers (%)", "Precision of first answers (%)")
        legend_above(ax)


@dataclass(eq=False, kw_only=True)
class RocDisplay(ResultsDisplay):
    """True accepts over false accepts, all pairs pooled, on a logarithmic axis.

    Attributes
    ----------
    false_accepts, true_accepts : list of float arrays
        Rates at every distinct score, from (0, 0) on, as far as the kept negatives reach.
    names : list of str
        What the results are called, with the area: between two values where not every
        negative was kept.
    n_negatives : list of int
        All negative pairs of each result, kept or not.
    """

    kind_name: ClassVar[str] = "roc"

    false_accepts: list[Floats]
    true_accepts: list[Floats]
    names: list[str]
    n_negatives: list[int]
    lines_: list[Line2D] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_results(cls, results: Sequence[Result], *, names: Sequence[str] = ()) -> Self:
        """Take the rates from the scores of positive pairs and of the kept negatives.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If the counts were not kept, or no scores of negative pairs: rank with
            ``pairs_kept=``.
        """
        called = run_names(results, names)
        rates, texts, sizes = [], [], []
        for name, one in zip(called, results, strict=True):
            pool = pool_of(one, "rates over pairs")
            pairs = pool.pairs()
            rates.append(roc(pairs))
            sizes.append(pairs.n_negatives)
            low, high = auc_bounds(pool)
            area = f"{low:.4f}" if f"{low:.4f}" == f"{high:.4f}" else f"{low:.4f} to {high:.4f}"
            texts.append(f"{cut(name)} (AUC {area})")
        return cls(
            false_accepts=[false for false, _ in rates],
            true_accepts=[true for _, true in rates],
            names=texts,
            n_negatives=sizes,
        )

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        short = any(false[-1] < 1 for false in self.false_accepts)
        return (
            "The share of positive pairs that pass a threshold, over the share of negative pairs "
            "that do." + (" A curve ends where the kept negatives end." if short else "")
        )

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = [
            f"{name}: true accept rate {100 * _at(false, true, level):.1f} percent at a false "
            f"accept rate of {level:g}"
            for name, false, true in zip(
                self.names, self.false_accepts, self.true_accepts, strict=True
            )
            for level in (0.001, 0.01)
            if false[-1] >= level
        ]
        return f"ROC curve. {'; '.join(told) or '; '.join(self.names)}"

    def _draw(self, ax: Axes) -> None:
        least = 10.0 ** np.floor(np.log10(1 / max(*self.n_negatives, 10)))
        self.lines_ = []
        for i, (false, true) in enumerate(zip(self.false_accepts, self.true_accepts, strict=True)):
            zero = int(np.searchsorted(false, 0.0, side="right")) - 1
            x, y = np.r_[least, false[zero + 1 :]], true[zero:]
            chosen = _log_few(x)
            look = line_style(i) | {"markevery": [len(chosen) - 1]}
            self.lines_ += ax.plot(x[chosen], 100 * y[chosen], label=self.names[i], zorder=3,
                                   clip_on=False, drawstyle="steps-post", **look)  # fmt: skip
        chance = np.geomspace(least, 1, 100)
        ax.plot(chance, 100 * chance, color=MUTED, linewidth=1.2, linestyle=":", zorder=2)
        note(ax, "chance", (0.25, 25.0), xytext=(4, -6))
        ax.set_xscale("log")
        ax.set_xlim(least, 1)
        ax.set_ylim(0, 100)
        ax.set_yticks(range(0, 101, 20))
        ax.grid(axis="y")
        ax.tick_params(length=0, which="both", pad=6)
        ax.set_xlabel("False accept rate")
        ax.set_ylabel("True accept rate (%)")
        legend_above(ax)


def _percent_axes(ax: Axes, across: str, up: str) -> None:
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 100)
    ax.set_xticks(range(0, 101, 20))
    ax.set_yticks(range(0, 101, 20))
    ax.grid(axis="y")
    ax.tick_params(length=0, pad=6)
    ax.set_xlabel(across)
    ax.set_ylabel(up)


def _few(n: int) -> npt.NDArray[np.int64]:
    """Return the places of at most so many points, the first ones and the last one included."""
    head = np.arange(min(n, _POINTS // 2))
    rest = np.linspace(0, n - 1, _POINTS // 2).round().astype(np.int64)
    return np.unique(np.r_[head, rest])


def _log_few(x: Floats) -> npt.NDArray[np.int64]:
    """Return the places of at most so many points, evenly spread on a logarithmic axis."""
    if len(x) <= _POINTS:
        return np.arange(len(x))
    wanted = np.geomspace(x[0], x[-1], _POINTS - 2)
    places = np.searchsorted(x, wanted, side="right") - 1
    return np.unique(np.r_[0, places, len(x) - 1])


def _at(false: Floats, true: Floats, level: float) -> float:
    """Return the true accept rate at a false accept rate of at most `level`."""
    return float(true[np.searchsorted(false, level, side="right") - 1])


def _averaged(result: Result) -> tuple[Floats, Floats, float]:
    """Return the exact and the interpolated mean curve at 0, 1, ... 100 %, and the area."""
    ranking = counts_of(result, "precision and recall")
    policies: dict[str, Any] = {"no_positive": result.protocol.no_positive, "ties": "index",
                                "unretrieved": "zero", "missing_query": "zero"}  # fmt: skip
    area = compute(ranking, ["mAP"], **policies)["mAP"]
    evaluated = evaluated_of(result)
    exact, envelope, start, n_found = _precisions(ranking)
    n_positive = Reading.of(ranking).n_positive
    given = float(result.protocol.no_positive == "one")
    curves = np.zeros((2, _LEVELS + 1))
    for level in range(_LEVELS + 1):
        nth = np.maximum(-(-level * n_positive // _LEVELS), 1) - 1
        reached = nth < n_found
        for row, precision in enumerate((exact, envelope)):
            here = np.zeros(len(nth))
            here[reached] = precision[(start + nth)[reached]]
            here[n_positive == 0] = given
            curves[row, level] = here[evaluated].mean()
    return curves[0], curves[1], float(area)


def _precisions(
    ranking: Ranking,
) -> tuple[Floats, Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the precision at every returned positive and the largest from there on.

    And where each query's begin, and how many there are.
    """
    reading = Reading.of(ranking)
    query = reading.found_query
    n_found = np.bincount(query, minlength=reading.n_query)
    start = np.cumsum(n_found) - n_found
    exact = (np.arange(len(query)) - start[query] + 1) / reading.index_rank
    # Queries read backwards stand one above the other, so that none sees the next one.
    lifted = (exact + 2.0 * (reading.n_query - query))[::-1]
    envelope = np.maximum.accumulate(lifted)[::-1] - 2.0 * (reading.n_query - query)
    return exact, envelope, start, n_found
