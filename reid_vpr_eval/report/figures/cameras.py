"""Which camera finds what in which: rates by pairs of cameras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.breakdowns import by_column, stratum_matrix
from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.report.figures.counted import evaluated_of
from reid_vpr_eval.report.figures.style import FONT, Display, cut, run_names
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Letters on a light cell, which is light in every theme of a page.
_DARK = "#101010"

__all__ = ["CameraMatrixDisplay"]

Floats = npt.NDArray[np.float64]
_LONGEST = 12
#: More cameras than this have no numbers in their cells, and fewer names at the axes.
_WRITTEN = 12
_TICKS = 30


@dataclass(eq=False, kw_only=True)
class CameraMatrixDisplay(Display):
    """Query camera against gallery camera, and all of a query camera's queries at the right.

    Attributes
    ----------
    kind : {"pairs", "first answers"}
        "pairs": the metric with the gallery cut down to one camera, as the official
        Market-1501 code reports it; needs the counts by camera (``strata="camera"``).
        "first answers": of the first answers that come from a camera, the share that is right.
    metric : str
        What is shown: of first answers always CMC@1.
    rows, columns : list
        The cameras of the queries and of the gallery.
    values : float array (n_rows, n_columns)
        Shares in [0, 1]; NaN where there is nothing to average.
    counts : int array (n_rows, n_columns) or None
        How many first answers each value is over.
    overall : float array (n_rows,)
        The metric over all queries of a camera, with the whole gallery.
    name : str
        What the result is called.
    """

    kind_name: ClassVar[str] = "cameras"

    kind: Literal["pairs", "first answers"]
    metric: str
    rows: list[Any]
    columns: list[Any]
    values: Floats
    counts: npt.NDArray[np.int64] | None
    overall: Floats
    name: str

    @classmethod
    def from_result(
        cls, result: Result, *, metric: str = "CMC@1", name: str = ""
    ) -> CameraMatrixDisplay:
        """Take what the counts allow: pairs of cameras, else cameras of first answers.

        Raises
        ------
        NotCountedError
            If the queries or the gallery have no cameras, or `metric` needs counts by camera.
        """
        called = cut(run_names([result], [name] if name else ())[0])
        table = result.per_query
        if "camera" not in table:
            raise NotCountedError("the queries have no column 'camera'")
        cameras, inside = table["camera"].to_numpy(), evaluated_of(result)
        rows = list(np.unique(cameras[inside]).tolist())
        by_pairs = result.ranking is not None and len(result.ranking.strata) > 1
        if by_pairs and result.ranking is not None:
            found = stratum_matrix(result.ranking, cameras, metric,
                                   ties=result.protocol.report.ties)  # fmt: skip
            found = found.reindex(rows)
            return cls(
                kind="pairs", metric=metric, rows=rows, columns=list(found.columns),
                values=found.to_numpy(float), counts=None, name=called,
                overall=_whole_gallery(result, result.ranking, cameras, rows, metric),
            )  # fmt: skip
        if "top1_camera" not in table:
            raise NotCountedError(
                "the gallery has no column 'camera', or this run is of an older version: rank "
                "with strata='camera'"
            )
        if metric != "CMC@1":
            raise NotCountedError(f"{metric} by pairs of cameras: rank with strata='camera'")
        answered = inside & table["top1_camera"].notna().to_numpy()
        theirs = table["top1_camera"].to_numpy()[answered].astype(cameras.dtype)
        columns = list(np.unique(theirs).tolist())
        counts, right = _crossed(cameras[answered], theirs, rows, columns,
                                 table["top1_correct"].to_numpy(bool)[answered])  # fmt: skip
        values = np.divide(right, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
        return cls(
            kind="first answers", metric="CMC@1", rows=rows, columns=columns, values=values,
            counts=counts, overall=_overall(result, cameras, inside, rows), name=called,
        )  # fmt: skip

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        if self.kind == "pairs":
            return (
                f"{self.metric} of the queries of one camera, with positives and negatives of one "
                "camera of the gallery. Right: with the whole gallery."
            )
        return (
            "Of the first answers to a camera's queries that come from another camera: the share "
            "that is right, and how many there are. Right: all its queries."
        )

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        told = ", ".join(f"camera {cut(row, _LONGEST)} {100 * value:.1f}"
                         for row, value in zip(self.rows, self.overall, strict=True))  # fmt: skip
        return f"Matrix of cameras. {self.metric} in percent, with the whole gallery: {told}"

    def _size(self) -> tuple[float, float]:
        wide, high = (len(cells) for cells in (self.columns, self.rows))
        cell = 0.55 if max(wide, high) <= _WRITTEN else 0.26
        return (
            float(np.clip(2.2 + cell * (wide + 1), 4.8, 9.0)),
            float(np.clip(1.5 + cell * high, 2.8, 9.0)),
        )

    def _draw(self, ax: Axes) -> None:
        from matplotlib import colormaps

        shown = 100 * np.c_[self.values, self.overall]
        n_rows, n_columns = shown.shape
        across = np.r_[np.arange(n_columns), n_columns - 1 + 0.2, n_columns + 0.2]
        up = np.arange(n_rows + 1)
        palette = colormaps["cividis"].with_extremes(bad="#ffffff")
        gap = np.c_[shown[:, :-1], np.full(n_rows, np.nan), shown[:, -1]]
        mesh = ax.pcolormesh(across, up, np.ma.masked_invalid(gap), cmap=palette, vmin=0,
                             vmax=100, rasterized=shown.size > 2000)  # fmt: skip
        ax.invert_yaxis()
        ax.set_aspect("equal")
        centres = np.r_[np.arange(n_columns - 1) + 0.5, n_columns - 0.3]
        if max(n_rows, n_columns - 1) <= _WRITTEN:
            self._write(ax, shown, centres)
        step = max(1, -(-max(n_rows, n_columns) // _TICKS))
        chosen = list(range(0, n_columns - 1, step))
        labels = [cut(self.columns[i], _LONGEST) for i in chosen]
        long = max((len(label) for label in labels), default=1) > 3
        ax.set_xticks([*centres[chosen], centres[-1]], [*labels, "all"],
                      rotation=90 if long else 0, parse_math=False)  # fmt: skip
        ax.set_yticks(np.arange(0, n_rows, step) + 0.5,
                      [cut(row, _LONGEST) for row in self.rows[::step]], parse_math=False)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_xlabel("Gallery camera" if self.kind == "pairs" else "Camera of the first answer")
        ax.set_ylabel("Query camera")
        figure = ax.get_figure()
        assert figure is not None  # noqa: S101 (an axes has one)
        bar = figure.colorbar(mesh, ax=ax, shrink=0.9, aspect=18)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0)
        what = "First answers that are right (%)"
        bar.set_label(what if self.metric == "CMC@1" else f"{self.metric} (%)", fontsize=FONT - 1)

    def _write(self, ax: Axes, shown: Floats, centres: Floats) -> None:
        """Write the value into each cell, and how many there are below it."""
        for (row, column), value in np.ndenumerate(shown):
            if np.isnan(value):
                continue
            look: dict[str, Any] = {"ha": "center", "va": "center",
                                    "color": "#ffffff" if value < 55 else _DARK}  # fmt: skip
            x = float(centres[column])
            counted = self.counts is not None and column < len(self.columns)
            ax.text(x, row + (0.38 if counted else 0.5), f"{value:.0f}", fontsize=9, **look)
            if counted and self.counts is not None:
                n = f"{self.counts[row, column]:,}"
                ax.text(x, row + 0.74, n, fontsize=6.5, **look)


def _crossed(
    ours: npt.NDArray[Any],
    theirs: npt.NDArray[Any],
    rows: list[Any],
    columns: list[Any],
    right: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return how many pairs fall into each cell, and how many of them are right."""
    place = np.searchsorted(rows, ours) * len(columns) + np.searchsorted(columns, theirs)
    size = len(rows) * len(columns)
    counts = np.bincount(place, minlength=size).reshape(len(rows), len(columns))
    hits = np.bincount(place[right], minlength=size).reshape(len(rows), len(columns))
    return counts.astype(np.int64), hits.astype(np.int64)


def _whole_gallery(
    result: Result, ranking: Ranking, cameras: npt.NDArray[Any], rows: list[Any], metric: str
) -> Floats:
    """Return a metric over the queries of each camera."""
    table = by_column(ranking, cameras, [metric], ties=result.protocol.report.ties,
                      no_positive=result.protocol.no_positive)  # fmt: skip
    return table.set_index("value")["mean"].reindex(rows).to_numpy(float)


def _overall(
    result: Result, cameras: npt.NDArray[Any], inside: npt.NDArray[np.bool_], rows: list[Any]
) -> Floats:
    right = result.per_query["top1_correct"].to_numpy(bool)
    return np.array([right[inside & (cameras == row)].mean() for row in rows])
