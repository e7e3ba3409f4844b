"""The map of failures: where queries were taken, and where their wrong answers lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, counted
from reid_vpr_eval.places import NEAR_MISS, OUTCOMES
from reid_vpr_eval.report.figures.areas import Area, areas_of
from reid_vpr_eval.report.figures.style import (
    INK,
    MUTED,
    SERIES,
    SMALL,
    Display,
    cut,
    run_names,
)
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FailureMapDisplay", "positions_of"]

Floats = npt.NDArray[np.float64]
#: Above so many of a kind they are drawn as pixels: a file of bounded size.
_VECTORS = 2000
_WIDTH = 7.0
#: Inches below everything for the scale bar and the arrow to the north.
_STRIP = 0.36
#: Colours that a page may turn into those of its theme, the track faint.
_TRACK, _LINE, _FAINT = MUTED, SERIES[1], 0.45
_LOOKS: dict[str, dict[str, Any]] = {
    "right": {"marker": "o", "color": SERIES[0], "linewidths": 0.0},
    "wrong": {"marker": "x", "color": SERIES[1], "linewidths": 1.3},
    "no positive": {"marker": "s", "facecolors": "#ffffff", "edgecolors": INK, "linewidths": 0.9},
    "near miss": {"marker": "^", "facecolors": "#f0e442", "edgecolors": INK, "linewidths": 0.7},
}


@dataclass(eq=False, kw_only=True)
class FailureMapDisplay(Display):
    """Queries on the ground by what they came to, with lines to their wrong first answers.

    Attributes
    ----------
    areas : list of Area
        What is drawn, a panel each; the one with the most queries first.
    outcome : str array (n_query,)
        "right"; "near miss": wrong by at most 5 m; "no positive"; "wrong".
    radius : float
        Of the protocol, in metres.
    elsewhere : int
        Wrong first answers without a line: they lie in another area than their query.
    left_out : tuple of int
        Areas that are not drawn, and the queries in them.
    name : str
        What the result is called.
    """

    kind_name: ClassVar[str] = "map"

    areas: list[Area]
    outcome: npt.NDArray[np.str_]
    radius: float
    elsewhere: int
    left_out: tuple[int, int]
    name: str

    @classmethod
    def from_result(
        cls, result: Result, *, name: str = "", panels: int = 4
    ) -> FailureMapDisplay:
        """Take the positions of one result.

        Parameters
        ----------
        result : Result
        name : str, optional
            What it is called.
        panels : int
            At most so many areas (cities, UTM zones) are drawn.

        Raises
        ------
        NotCountedError
            If the result holds no positions.
        """
        places, track = positions_of(result)
        found = areas_of(places, track)
        if not found:
            raise NotCountedError("no query has a position")
        outcome = places["outcome"].to_numpy(str)
        answered = places[_first_column(places)].notna().to_numpy()
        apart = sum(
            int((np.isnan(area.answer[:, 0]) & answered[area.rows]
                 & (outcome[area.rows] != "right")).sum())
            for area in found
        )  # fmt: skip
        rest = found[panels:]
        return cls(
            areas=found[:panels],
            outcome=outcome,
            radius=float(places["radius_m"].iloc[0]),
            elsewhere=apart,
            left_out=(len(rest), sum(len(area.rows) for area in rest)),
            name=cut(run_names([result], [name] if name else ())[0]),
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many queries came to what."""
        return {kind: int((self.outcome == kind).sum()) for kind in OUTCOMES}

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        text = "Where queries were taken, with a line from each wrong one to its first answer."
        if self.elsewhere:
            said = counted(self.elsewhere, "wrong first answer lies", "wrong first answers lie",
                           form=",")  # fmt: skip
            text += f" {said} in another area, without a line."
        if self.left_out[0]:
            of = f"with {counted(self.left_out[1], 'query', form=',')}"
            said = counted(self.left_out[0], f"more area {of} is", f"more areas {of} are", form=",")
            text += f" {said} not drawn."
        return text

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = ", ".join(f"{n:,} {self._word(kind)}" for kind, n in self.counts.items())
        return f"Map of {counted(len(self.outcome), 'query', form=',')}: {told}. {self.caption}"

    def _word(self, kind: str) -> str:
        return {
            "near miss": f"near miss ({self.radius:g} to {self.radius + NEAR_MISS:g} m)",
            "no positive": f"no positive within {self.radius:g} m",
        }.get(kind, kind)

    def _size(self) -> tuple[float, float]:
        n = len(self.areas)
        shapes = [box[3] / box[2] for box in map(self._box, self.areas)]
        if n == 1:
            return _WIDTH, 1.4 + (_WIDTH - 0.7) * min(shapes[0], 1.2)
        rows = [max(shapes[i : i + 2]) for i in range(0, n, 2)]
        return _WIDTH + 1.0, 0.7 + sum(1.1 + 3.2 * min(row, 1.3) for row in rows)

    def _box(self, area: Area) -> tuple[float, float, float, float]:
        return _box(area, _WIDTH - 0.7 if len(self.areas) == 1 else 3.2)

    def _draw_figure(self, figure: Figure) -> None:
        n = len(self.areas)
        panels = [figure.add_subplot()] if n == 1 else list(
            figure.subplots(-(-n // 2), 2, squeeze=False).ravel()
        )  # fmt: skip
        for ax in panels[n:]:
            ax.set_visible(False)
        for ax, area in zip(panels, self.areas, strict=False):
            self._panel(ax, area)
        figure.legend(handles=self._key(), loc="outside upper left", ncols=3, frameon=False,
                      fontsize=SMALL, columnspacing=1.4, handlelength=1.6)  # fmt: skip

    def _draw(self, ax: Axes) -> None:
        self._panel(ax, self.areas[0])
        ax.legend(handles=self._key(), loc="lower left", bbox_to_anchor=(0, 1.06), ncols=2,
                  frameon=False, fontsize=SMALL)  # fmt: skip

    def _key(self) -> list[Any]:
        """Return what the legend shows: every outcome with its number, the line, the track."""
        from matplotlib.lines import Line2D

        made = []
        for kind in ("right", "near miss", "wrong", "no positive"):
            look = _LOOKS[kind]
            made.append(Line2D(
                [], [], linestyle="none", marker=look["marker"], markersize=6,
                markerfacecolor=look.get("facecolors", look.get("color")),
                markeredgecolor=look.get("edgecolors", look.get("color")),
                markeredgewidth=look["linewidths"],
                label=f"{self._word(kind)}: {self.counts[kind]:,}",
            ))  # fmt: skip
        made.append(Line2D([], [], color=_LINE, linewidth=1.2, label="to the first answer"))
        made.append(Line2D([], [], linestyle="none", marker=".", color=_TRACK, markersize=6,
                           alpha=_FAINT, markeredgewidth=0, label="database"))  # fmt: skip
        return made

    def _panel(self, ax: Axes, area: Area) -> None:
        left, bottom, width, height = self._box(area)
        dot = float(np.clip(4000 / max(len(area.track), 1), 1.5, 9))
        ax.scatter(area.track[:, 0], area.track[:, 1], s=dot, color=_TRACK, linewidths=0, zorder=1,
                   alpha=_FAINT, rasterized=len(area.track) > _VECTORS)  # fmt: skip
        self._lines(ax, area)
        outcome = self.outcome[area.rows]
        size = float(np.clip(40 * (200 / max(len(outcome), 1)) ** 0.5, 7, 40))
        for order, (kind, given) in enumerate(_LOOKS.items()):
            look = given | {"linewidths": given["linewidths"] * (size / 40) ** 0.3}
            mine = area.query[outcome == kind]
            ax.scatter(mine[:, 0], mine[:, 1], s=size * (0.6 if kind == "right" else 1.0),
                       zorder=3 + order, rasterized=len(mine) > _VECTORS, **look)  # fmt: skip
        ax.set_xlim(left, left + width)
        ax.set_ylim(bottom, bottom + height)
        ax.set_aspect("equal")
        _metres(ax, width, height)
        mark = "\n" if len(self.areas) > 1 else ", "
        n_shown = counted(len(area.rows), "query", form=",")
        ax.set_title(f"{n_shown}{mark}{area.where}", loc="left", fontsize=SMALL, color=MUTED,
                     parse_math=False)  # fmt: skip
        _scale_bar(ax, width)
        _north(ax)

    def _lines(self, ax: Axes, area: Area) -> None:
        from matplotlib.collections import LineCollection

        wrong = (self.outcome[area.rows] != "right") & ~np.isnan(area.answer[:, 0])
        n = int(wrong.sum())
        if not n:
            return
        ends = np.stack([area.query[wrong], area.answer[wrong]], axis=1)
        lines = LineCollection(
            list(ends), colors=_LINE, linewidths=0.9 if n < 300 else 0.5, zorder=2,
            alpha=float(np.clip(60 / n, 0.12, 0.6)), rasterized=n > _VECTORS,
        )  # fmt: skip
        ax.add_collection(lines, autolim=False)


def positions_of(result: Result) -> tuple[Any, Any]:
    """Return the tables of places and of the track.

    Raises
    ------
    NotCountedError
        If the result does not hold them.
    """
    if result.places is None or result.track is None:
        if result.protocol.relevance.kind != "within":
            raise NotCountedError(
                f"{result.protocol.name} does not judge by distance, so there are no positions: "
                "use a protocol of kind 'within'"
            )
        raise NotCountedError(
            "the run holds no places.csv and track.csv (it is of an older version): evaluate again"
        )
    return result.places, result.track


def _first_column(places: Any) -> str:
    return "top1_east" if "top1_east" in places else "top1_lat"


def _box(area: Area, inches: float) -> tuple[float, float, float, float]:
    """Return left, bottom, width and height with a margin, and a strip for the scale below."""
    points = np.concatenate([area.query, area.answer, area.track])
    points = points[~np.isnan(points[:, 0])]
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.maximum(high - low, 20.0)
    span = 1.06 * np.maximum(span, 0.1 * span.max())
    left, bottom = (low + high) / 2 - span / 2
    # In a tall area the height decides how many metres go to an inch.
    strip = _STRIP * max(float(span[0]) / inches, float(span[1]) / (1.25 * inches))
    return float(left), float(bottom - strip), float(span[0]), float(span[1] + strip)


def _metres(ax: Axes, width: float, height: float) -> None:
    """Label the axes in metres, or in kilometres where these are many."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    unit, name = (1000.0, "Kilometres") if max(width, height) > 5000 else (1.0, "Metres")
    wide = int(np.clip(7 * width / max(width, height), 2, 7))
    high = int(np.clip(7 * height / max(width, height), 2, 7))
    ax.xaxis.set_major_locator(MaxNLocator(wide, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_locator(MaxNLocator(high, steps=[1, 2, 5, 10]))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:,g}"))
    ax.tick_params(length=0, labelsize=SMALL)
    ax.set_xlabel(f"{name} east", fontsize=SMALL)
    ax.set_ylabel(f"{name} north", fontsize=SMALL)
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set_color("#dfe3e8")


def _scale_bar(ax: Axes, width: float) -> None:
    """Draw a round length at the lower left, in the strip below everything."""
    target = width / 5
    step = 10.0 ** np.floor(np.log10(target))
    length = float(max(m * step for m in (1, 2, 5) if m * step <= target))
    left = ax.get_xlim()[0] + 0.02 * width
    bottom = ax.get_ylim()[0]
    text = f"{length:,g} m" if length < 1000 else f"{length / 1000:,g} km"
    ax.plot([left, left + length], [bottom] * 2, color=INK, linewidth=2.5, zorder=9,
            solid_capstyle="butt", transform=ax.transData + _points(ax, 0, 6))  # fmt: skip
    ax.annotate(text, (left + length / 2, bottom), xytext=(0, 8), textcoords="offset points",
                ha="center", va="bottom", fontsize=SMALL, color=INK, zorder=9)  # fmt: skip


def _north(ax: Axes) -> None:
    """Draw an arrow to the north at the lower right, in the same strip."""
    ax.annotate("N", (1, 0), xytext=(-20, 4), xycoords="axes fraction", ha="center", va="bottom",
                textcoords="offset points", fontsize=SMALL, color=INK, zorder=9)  # fmt: skip
    ax.plot([1], [0], marker="$\\uparrow$", markersize=13, color=INK, zorder=9, clip_on=False,
            transform=ax.transAxes + _points(ax, -9, 11))  # fmt: skip


def _points(ax: Axes, right: float, up: float) -> Any:
    """Return a shift by so many points, whatever the size of the axes."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    assert figure is not None  # noqa: S101 (an axes has one)
    return ScaledTranslation(right / 72, up / 72, figure.dpi_scale_trans)
