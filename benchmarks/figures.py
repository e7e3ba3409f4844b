"""Figures of a record as SVG: the same record gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.cases import CASES
from reid_vpr_eval.report.figures.style import GRID, INK, MUTED, SERIES, figure_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figures"]

Entry = Mapping[str, Any]

#: Ticks of ratios and seconds.
_TIMES = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def figures(record: Entry) -> dict[str, bytes]:
    """Return the figures that the record has numbers for, by file name."""
    drawn = {"performance-ratios.svg": _ratios(record), "performance-scaling.svg": _scaling(record),
             "performance-peers.svg": _peers(record)}  # fmt: skip
    return {name: figure_bytes(figure, "svg") for name, figure in drawn.items()
            if figure is not None}  # fmt: skip


def _axes(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=MUTED, labelcolor=INK)
    axes.grid(color=GRID, axis="both", linewidth=0.6)
    return figure, axes


def _measured(record: Entry, section: str) -> list[Entry]:
    return [entry for entry in record.get(section, []) if "skipped" not in entry]


def _ratios(record: Entry) -> Figure | None:
    """One line a case: the median of each kind of kernel with its spread, and the target."""
    entries = _measured(record, "ratios")
    if not entries:
        return None
    cases = [name for name in CASES if any(entry["case"] == name for entry in entries)]
    figure, axes = _axes(1.2 + 0.55 * len(cases))
    for number, kernels in enumerate(("numpy", "numba")):
        mine = [entry for entry in entries if entry["kernels"] == kernels]
        if not mine:
            continue
        place = [cases.index(entry["case"]) + 0.18 * (2 * number - 1) for entry in mine]
        ratio = [entry["ratio"] for entry in mine]
        middle = [one["median"] for one in ratio]
        sides = [[one["median"] - one["least"] for one in ratio],
                 [one["largest"] - one["median"] for one in ratio]]  # fmt: skip
        axes.errorbar(middle, place, xerr=sides, fmt="os"[number], color=SERIES[number],
                      label=kernels, capsize=3)  # fmt: skip
        axes.plot([entry["target"] for entry in mine], place, "|", color=SERIES[number],
                  markersize=14, markeredgewidth=2, label=f"{kernels}, to reach")  # fmt: skip
    axes.axvline(1, color=MUTED, linewidth=1)
    axes.set_yticks(range(len(cases)), [CASES[name].title for name in cases])
    axes.invert_yaxis()
    _plain_log(axes, "x")
    axes.set_xlabel("whole evaluation, in times of the bare float32 product")
    figure.legend(loc="outside lower center", frameon=False, ncols=4)
    return figure


def _plain_log(axes: Axes, direction: Literal["x", "y"], ticks: Sequence[float] = _TIMES) -> None:
    """Give an axis a logarithmic scale with plain numbers."""
    axes.set(**{f"{direction}scale": "log"})
    axis = axes.xaxis if direction == "x" else axes.yaxis
    low, high = sorted(axis.get_view_interval())
    shown = [tick for tick in ticks if low <= tick <= high]
    axis.set_ticks(shown, [f"{tick:,g}" if tick < 1000 else f"{tick:,.0f}" for tick in shown])
    axis.set_ticks([], minor=True)


def _scaling(record: Entry) -> Figure | None:
    """Seconds over the size of the gallery, both on logarithmic scales."""
    entries = _measured(record, "scaling")
    if not entries:
        return None
    figure, axes = _axes(3.6)
    sizes = [entry["n_gallery"] for entry in entries]
    for number, (name, label) in enumerate({"ours": "whole evaluation",
                                            "product": "bare product"}.items()):  # fmt: skip
        seconds = [sorted(entry["seconds"][name]) for entry in entries]
        axes.plot(sizes, [times[len(times) // 2] for times in seconds], "os"[number] + "-",
                    color=SERIES[number], label=label)  # fmt: skip
    _plain_log(axes, "x", sizes)
    _plain_log(axes, "y")
    one = entries[0]
    axes.set_xlabel(f"gallery ({one['n_query']:,} queries, D = {one['dim']:,})")
    axes.set_ylabel("seconds")
    axes.legend(frameon=False)
    return figure


def _peers(record: Entry) -> Figure | None:
    """One bar a tool and case: how many times as long as this package."""
    entries = [entry for entry in _measured(record, "peers") if entry["peer"] != "ours"]
    if not entries:
        return None
    figure, axes = _axes(1.2 + 0.32 * len(entries))
    names = [f"{entry['case']}: {entry['peer']}" for entry in entries]
    colors = [SERIES[list(CASES).index(entry["case"]) % len(SERIES)] for entry in entries]
    bars = axes.barh(names, [entry["ratio"]["median"] for entry in entries], color=colors)
    axes.axvline(1, color=MUTED, linewidth=1)
    for label in axes.bar_label(bars, fmt="%.1f", padding=3):
        label.set_bbox({"facecolor": axes.get_facecolor(), "edgecolor": "none", "pad": 1})
    axes.invert_yaxis()
    axes.margins(x=0.15)
    _plain_log(axes, "x")
    axes.set_xlabel("seconds, in times of this package's")
    return figure
