"""Figures as objects: computed by `from_...`, drawn by `plot`, their numbers kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal
from warnings import catch_warnings, filterwarnings

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, ReidVprEvalError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.metrics.compute import chance
from reid_vpr_eval.report.text import hit_rates
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["GRID", "INK", "MUTED", "SERIES", "CurveDisplay", "figure_bytes", "run_names"]

Floats = npt.NDArray[np.float64]

INK, MUTED, GRID = "#1c2430", "#5b6675", "#dfe3e8"
#: Colours that colour-blind readers tell apart (Okabe and Ito), each with its own grey.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1.2)))
_MARKERS = ("o", "s", "^", "D", "v", "P")
_FONT = 10.0
_LONGEST = 40
#: The share of a figure's width that its legend may take.
_LEGEND = 0.84
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": _FONT,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "svg.hashsalt": "reid_vpr_eval",
    "svg.fonttype": "path",
}


@dataclass(eq=False, kw_only=True)
class CurveDisplay:
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
    ax_, figure_, lines_
        What was drawn, after :meth:`plot`.
    """

    metric: str
    kind: Literal["cmc", "recall", "other"]
    k: npt.NDArray[np.int64]
    values: list[Floats]
    names: list[str]
    chances: list[Floats | None]
    ceilings: list[float]
    ax_: Axes | None = field(default=None, init=False, repr=False)
    figure_: Figure | None = field(default=None, init=False, repr=False)
    lines_: list[Line2D] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def from_result(
        cls, result: Result, metric: str = "CMC", *, name: str = "", k_max: int | None = None
    ) -> CurveDisplay:
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
    ) -> CurveDisplay:
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
        if not results:
            raise AlignmentError("there is no result to draw")
        places = all(one.protocol.relevance.kind == "within" for one in results)
        canonical = parse(f"{metric}@1").name
        last = k_max or (25 if places else 20)
        called = run_names(results, names)
        return cls(
            metric=canonical,
            kind="other" if canonical != "CMC" else "recall" if places else "cmc",
            k=np.arange(1, last + 1),
            values=[one.curve(canonical, last)["value"].to_numpy(float) for one in results],
            names=[
                f"{_cut(name)} ({_headline(one, places)})"
                for name, one in zip(called, results, strict=True)
            ],
            chances=[_chance(one, canonical, last) for one in results],
            ceilings=[float(one.counts["ceiling"]) for one in results],
        )

    def plot(self, ax: Axes | None = None) -> CurveDisplay:
        """Draw into an axes, or into a figure of its own.

        Returns
        -------
        CurveDisplay
            Itself, with `ax_`, `figure_` and `lines_` set.
        """
        if ax is not None:
            return self._draw(ax)
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        with _styled():
            figure = Figure(figsize=(6.0, 4.0 + 0.18 * len(self.names)), layout="constrained")
            FigureCanvasAgg(figure)
            self._draw(figure.add_subplot())
            _fit_legend(figure)
        return self

    def _draw(self, ax: Axes) -> CurveDisplay:
        ticks = [k for k in (1, *range(5, int(self.k[-1]) + 1, 5)) if k <= self.k[-1]]
        self.lines_ = [
            ax.plot(
                self.k, 100 * values, label=self.names[i], color=SERIES[i % len(SERIES)],
                linestyle=_DASHES[i % len(_DASHES)], linewidth=2, clip_on=False, zorder=3,
                marker=_MARKERS[i % len(_MARKERS)], markersize=5.5, markeredgewidth=0,
                markevery=[k - 1 for k in ticks],
            )[0]
            for i, values in enumerate(self.values)
        ]  # fmt: skip
        self._draw_references(ax)
        ax.set_xlim(1, max(int(self.k[-1]), 2))
        ax.set_ylim(0, 100)
        ax.set_xticks(ticks)
        ax.set_yticks(range(0, 101, 20))
        ax.grid(axis="y")
        ax.tick_params(length=0, pad=6)
        ax.set_xlabel(self._words()[0])
        ax.set_ylabel(self._words()[1])
        legend = ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False, borderaxespad=0.4,
            handlelength=3, borderpad=0.2,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self

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
            ax.annotate(
                "chance", (float(self.k[at]), 100 * float(lowest[at])), xytext=(4, -4),
                textcoords="offset points", ha="left", va="top", fontsize=9, color=MUTED,
            )  # fmt: skip
        for ceiling in sorted({c for c in self.ceilings if c < 1 and self.kind != "other"}):
            ax.axhline(100 * ceiling, color=MUTED, linewidth=0.9, linestyle=(0, (8, 3)), zorder=2)
            ax.annotate(
                f"ceiling {100 * ceiling:.1f}", (1, 100 * ceiling), xytext=(4, -4),
                textcoords="offset points", ha="left", va="top", fontsize=9, color=MUTED,
            )  # fmt: skip


def figure_bytes(figure: Figure, format: Literal["svg", "png"]) -> bytes:
    """Return a figure as a file: the same figure gives the same bytes, without a date."""
    buffer = BytesIO()
    metadata: dict[str, Any] = {"Software": None}
    if format == "svg":
        metadata = {"Date": None, "Creator": None}
    with _styled(), catch_warnings():
        filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=format, dpi=200, metadata=metadata)
    return buffer.getvalue()


def _fit_legend(figure: Figure) -> None:
    """Make long names smaller until the figure holds them."""
    legend = figure.axes[0].get_legend()
    assert legend is not None  # noqa: S101 (drawn before)
    with catch_warnings():
        filterwarnings("ignore", message="Glyph .* missing from font")
        width = legend.get_window_extent().width
        widest = max(text.get_window_extent().width for text in legend.get_texts())
    room = (_LEGEND * figure.bbox.width - (width - widest)) / widest
    if room < 1:
        for text in legend.get_texts():
            text.set_fontsize(room * _FONT)


def run_names(results: Sequence[Result], names: Sequence[str] = ()) -> list[str]:
    """Return what results are called: the given names, else titles, numbered where equal.

    Raises
    ------
    AlignmentError
        If there is not one name for each.
    """
    if names and len(names) != len(results):
        raise AlignmentError(f"{len(names)} names for {len(results)} results: one each is needed")
    titles = list(names) or [one.protocol.title or one.protocol.name for one in results]
    return [
        f"{title} [{titles[:i].count(title) + 1}]" if titles.count(title) > 1 else title
        for i, title in enumerate(titles)
    ]


@contextmanager
def _styled() -> Iterator[None]:
    """Draw in the house style whatever the user's settings are, and put them back."""
    from matplotlib import style

    with style.context(["default", _STYLE]):
        yield


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


def _headline(result: Result, places: bool) -> str:
    rates = hit_rates(result, (1,))
    parts = [f"{'R@1' if places else 'R1'} {100 * rates[1]:.1f}"] if 1 in rates else []
    if not places and "mAP" in list(result.metrics):
        parts.append(f"mAP {100 * result.metrics['mAP']:.1f}")
    return ", ".join(parts) or f"{result.counts['n_evaluated']:.0f} queries"


def _cut(name: str) -> str:
    plain = "".join(letter if letter.isprintable() else " " for letter in name)
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1].rstrip() + "…"
