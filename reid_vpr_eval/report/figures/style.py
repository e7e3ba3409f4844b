"""The house style of figures: colours, dashes, legends that fit, the same bytes twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from warnings import catch_warnings, filterwarnings

from reid_vpr_eval.errors import AlignmentError, counted
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FONT", "GRID", "INK", "MUTED", "SERIES", "SMALL", "Display", "cut", "figure_bytes",
    "legend_above", "line_style", "new_figure", "note", "panel_name",
    "run_names", "styled",
]  # fmt: skip

INK, MUTED, GRID = "#1c2430", "#5b6675", "#dfe3e8"
#: Colours that colour-blind readers tell apart (Okabe and Ito), each with its own grey.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
FONT, SMALL = 10.0, 9.0
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1.2)))
_MARKERS = ("o", "s", "^", "D", "v", "P")
_LONGEST = 40
#: The share of a figure's width that its legend may take.
_LEGEND = 0.84
_NAME = "panel-name"
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.6,
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
class Display:
    """A figure as an object: its numbers, how it is drawn, and what was drawn.

    Attributes
    ----------
    ax_, figure_
        What was drawn, after :meth:`plot`.
    """

    #: What its files are called.
    kind_name: ClassVar[str]
    #: Width and height of a figure of its own, in inches.
    size: ClassVar[tuple[float, float]] = (6.0, 4.0)
    ax_: Axes | None = field(default=None, init=False, repr=False)
    figure_: Figure | None = field(default=None, init=False, repr=False)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into an axes, or into a figure of its own.

        Returns
        -------
        Display
            Itself, with `ax_` and `figure_` set.
        """
        if ax is not None:
            self._draw(ax)
            self.ax_, self.figure_ = ax, ax.get_figure(root=True)
            return self
        with styled():
            figure = new_figure(self._size())
            self._draw_figure(figure)
            _fit_names(figure)
        self.ax_, self.figure_ = figure.axes[0], figure
        return self

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        raise NotImplementedError

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        return self.caption

    def _size(self) -> tuple[float, float]:
        return self.size

    def _draw_figure(self, figure: Figure) -> None:
        self._draw(figure.add_subplot())

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError


class ResultsDisplay(Display):
    """A figure of one or several results, each with a name in the legend."""

    names: list[str]

    @classmethod
    def from_result(cls, result: Result, *, name: str = "") -> Self:
        """Take one result, see `from_results`."""
        return cls.from_results([result], names=[name] if name else ())

    @classmethod
    def from_results(cls, results: Sequence[Result], *, names: Sequence[str] = ()) -> Self:
        """Take several results; by default they are called by the titles of their protocols."""
        raise NotImplementedError

    def _size(self) -> tuple[float, float]:
        return 6.0, 4.0 + 0.18 * len(self.names)


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the house style whatever the user's settings are, and put them back."""
    from matplotlib import style

    with style.context(["default", _STYLE]), catch_warnings():
        filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure that no window and no other library knows of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    engine = figure.get_layout_engine()
    assert engine is not None  # noqa: S101 (asked for above)
    engine.set(w_pad=0.07, h_pad=0.06)  # type: ignore[call-arg]
    FigureCanvasAgg(figure)
    return figure


def figure_bytes(figure: Figure, format: Literal["svg", "png"]) -> bytes:
    """Return a figure as a file: the same figure gives the same bytes, without a date."""
    buffer = BytesIO()
    metadata: dict[str, Any] = {"Software": None}
    if format == "svg":
        metadata = {"Date": None, "Creator": None}
    with styled():
        figure.savefig(buffer, format=format, dpi=200, metadata=metadata)
    return buffer.getvalue()


def line_style(number: int, *, markers: bool = True) -> dict[str, Any]:
    """Return how the line of a run looks: colour, dashes and marker, told apart in grey too."""
    look: dict[str, Any] = {
        "color": SERIES[number % len(SERIES)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "linewidth": 2,
    }
    if markers:
        look |= {"marker": _MARKERS[number % len(_MARKERS)], "markersize": 5.5,
                 "markeredgewidth": 0}  # fmt: skip
    return look


def legend_above(ax: Axes, **more: Any) -> None:
    """Put the legend above the axes, left, without a frame and without formulas."""
    legend = ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False, borderaxespad=0.4,
        handlelength=3, borderpad=0.2, **more,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)


def panel_name(ax: Axes, text: str) -> None:
    """Write what a panel shows above it, left."""
    ax.annotate(text, (0, 1), xytext=(0, 4), xycoords="axes fraction", parse_math=False,
                textcoords="offset points", fontsize=SMALL, gid=_NAME)  # fmt: skip


def note(ax: Axes, text: str, at: tuple[float, float], **more: Any) -> None:
    """Write small words beside a point."""
    look = {"xytext": (4, -4), "ha": "left", "va": "top"} | more
    ax.annotate(text, at, textcoords="offset points", fontsize=SMALL, color=MUTED, **look)


def _fit_names(figure: Figure) -> None:
    """Make long names smaller until the figure holds them."""
    for ax in figure.axes:
        for name in ax.texts:
            if name.get_gid() == _NAME:
                room = _LEGEND * figure.bbox.width / max(name.get_window_extent().width, 1)
                name.set_fontsize(min(room, 1) * SMALL)
        legend = ax.get_legend()
        if legend is None:
            continue
        width = legend.get_window_extent().width
        widest = max(text.get_window_extent().width for text in legend.get_texts())
        room = (_LEGEND * figure.bbox.width - (width - widest)) / widest
        if room < 1:
            for text in legend.get_texts():
                text.set_fontsize(room * FONT)


def run_names(results: Sequence[Result], names: Sequence[str] = ()) -> list[str]:
    """Return what results are called: the given names, else titles, numbered where equal.

    Raises
    ------
    AlignmentError
        If there is no result, or not one name for each.
    """
    if not results:
        raise AlignmentError("there is no result to draw")
    if names and len(names) != len(results):
        raise AlignmentError(
            f"{counted(len(names), 'name')} for {counted(len(results), 'result')}: one each is "
            "needed"
        )
    titles = list(names) or [one.protocol.title or one.protocol.name for one in results]
    return [
        f"{title} [{titles[:i].count(title) + 1}]" if titles.count(title) > 1 else title
        for i, title in enumerate(titles)
    ]


def cut(name: object, longest: int = _LONGEST) -> str:
    """Shorten a name, and replace what no font can draw.

    >>> cut("a very long name", 7)
    'a very…'
    """
    plain = "".join(letter if letter.isprintable() else " " for letter in str(name)).strip()
    return plain if len(plain) <= longest else plain[: longest - 1].rstrip() + "…"
