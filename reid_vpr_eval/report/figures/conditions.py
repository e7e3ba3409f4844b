"""A number by condition: by camera, by day and night, by city."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, ReidVprEvalError, counted
from reid_vpr_eval.metrics import compute, parse
from reid_vpr_eval.per_query import unit_codes
from reid_vpr_eval.report.figures.counted import evaluated_of
from reid_vpr_eval.report.figures.style import (
    INK,
    MUTED,
    SMALL,
    Display,
    cut,
    legend_above,
    line_style,
    run_names,
)
from reid_vpr_eval.report.text import reported
from reid_vpr_eval.result import Result
from reid_vpr_eval.summary import spelled
from reid_vpr_eval.uncertainty import cluster_interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ConditionDisplay"]

Floats = npt.NDArray[np.float64]
_LONGEST = 22
_ROWS = 40


@dataclass(eq=False, kw_only=True)
class ConditionDisplay(Display):
    """A metric for each value of a query column, with its interval where one can be had.

    Attributes
    ----------
    column, metric : str
        What the queries are parted by, and what is averaged.
    conditions : list
        The values of the column.
    means : list of float arrays (n_conditions,)
        One array a result; NaN where no query is evaluated.
    lows, highs : list of float arrays (n_conditions,)
        The 95 % interval by unit, see :func:`reid_vpr_eval.uncertainty.cluster_interval`; NaN
        where it cannot be had: without values of each query, or with a single unit.
    n_queries : list of int arrays (n_conditions,)
        Evaluated queries.
    overall : list of float
        The metric over all queries.
    names : list of str
        What the results are called.
    left_out : int
        Conditions that are not drawn: of more than 40, those with the fewest queries.
    """

    kind_name: ClassVar[str] = "conditions"

    column: str
    metric: str
    conditions: list[Any]
    means: list[Floats]
    lows: list[Floats]
    highs: list[Floats]
    n_queries: list[npt.NDArray[np.int64]]
    overall: list[float]
    names: list[str]
    spelling: str
    left_out: int = 0

    @classmethod
    def from_result(
        cls, result: Result, column: str = "", *, metric: str = "", name: str = ""
    ) -> ConditionDisplay:
        """Take one result, see :meth:`from_results`."""
        return cls.from_results([result], column, metric=metric, names=[name] if name else ())

    @classmethod
    def from_results(
        cls,
        results: Sequence[Result],
        column: str = "",
        *,
        metric: str = "",
        names: Sequence[str] = (),
    ) -> ConditionDisplay:
        """Take a metric by the values of a column.

        Parameters
        ----------
        results : sequence of Result
            Evaluated ``by=[column]``, or with that column in the table of queries.
        column : str, optional
            By default the first one that was broken down by, else the camera.
        metric : str, optional
            A mean over queries; by default the first reported one.
        names : sequence of str, optional
            What the results are called.

        Raises
        ------
        AlignmentError
            If there is no result, or not one name for each.
        NotCountedError
            If a result has no such column, or not this metric by it.
        """
        called = run_names(results, names)
        column = column or _first_column(results[0])
        metric = str(parse(metric or _first_metric(results[0])))
        tables = [_table(one, column, metric) for one in results]
        n_of: dict[Any, int] = {}
        for table in tables:
            for value, n in zip(table["value"].tolist(), table["n"].tolist(), strict=True):
                n_of[value] = n_of.get(value, 0) + n
        kept = sorted(n_of, key=lambda value: -n_of[value])[:_ROWS]
        conditions = [value for value in n_of if value in set(kept)]
        aligned = [table.set_index("value").reindex(conditions) for table in tables]
        return cls(
            column=column,
            metric=metric,
            conditions=conditions,
            means=[table["mean"].to_numpy(float) for table in aligned],
            lows=[table["low"].to_numpy(float) for table in aligned],
            highs=[table["high"].to_numpy(float) for table in aligned],
            n_queries=[table["n"].fillna(0).to_numpy(np.int64) for table in aligned],
            overall=[float(one.metrics[metric]) if metric in one.metrics else np.nan
                     for one in results],
            names=[cut(name) for name in called],
            spelling=spelled(metric, results[0].protocol),
            left_out=len(n_of) - len(conditions),
        )  # fmt: skip

    @property
    def caption(self) -> str:
        """What the figure shows, in a sentence or two."""
        text = f"{self.spelling} by {self.column}; the thin line is over all queries."
        if any(np.isfinite(low).any() for low in self.lows):
            text += " Bars: 95 % interval by unit, within a condition."
        if self.left_out:
            said = counted(self.left_out, "condition with fewer queries is",
                           "conditions with fewer queries are")  # fmt: skip
            text += f" {said} not drawn."
        return text

    def spoken(self) -> str:
        """Return the figure's numbers in words, for those who do not see it."""
        scale, unit = self._scale()
        told = [
            f"{name}: " + ", ".join(
                f"{cut(value, _LONGEST)} {scale * mean:.1f}"
                for value, mean in zip(self.conditions, means, strict=True) if mean == mean
            )
            for name, means in zip(self.names, self.means, strict=True)
        ]  # fmt: skip
        return f"{self.spelling}{unit} by {self.column}. {'; '.join(told)}"

    def _scale(self) -> tuple[float, str]:
        return (1.0, "") if parse(self.metric).metric.is_rank else (100.0, " (%)")

    def _size(self) -> tuple[float, float]:
        row = 0.26 + 0.1 * (len(self.names) - 1)
        return 6.0, 1.2 + row * len(self.conditions) + 0.18 * len(self.names)

    def _draw(self, ax: Axes) -> None:
        scale, unit = self._scale()
        rows = np.arange(len(self.conditions))
        n = len(self.names)
        for i, means in enumerate(self.means):
            shift = 0.0 if n == 1 else (i / (n - 1) - 0.5) * 0.64
            look = line_style(i) | {"linestyle": "none"}
            if n == 1:
                ax.barh(rows, scale * np.nan_to_num(means), height=0.66, color=look["color"],
                        alpha=0.35, zorder=1)  # fmt: skip
            reach = np.abs(np.stack([means - self.lows[i], self.highs[i] - means]))
            ax.errorbar(scale * means, rows + shift, xerr=scale * np.nan_to_num(reach),
                        label=self.names[i], elinewidth=1.3, capsize=2, zorder=3,
                        **{k: v for k, v in look.items() if k != "linewidth"})  # fmt: skip
            if np.isfinite(self.overall[i]):
                dashes = line_style(i, markers=False) | {"linewidth": 1.0}
                ax.axvline(scale * self.overall[i], zorder=0, **dashes)
        ax.set_yticks(rows, self._labels(), parse_math=False)
        ax.invert_yaxis()
        ax.set_ylim(len(rows) - 0.5, -0.5)
        if scale > 1:
            ax.set_xlim(0, 100)
            ax.set_xticks(range(0, 101, 20))
        else:
            ax.set_xlim(left=0)
        ax.grid(axis="x")
        ax.tick_params(length=0)
        ax.tick_params(axis="y", labelsize=SMALL)
        ax.set_xlabel(f"{self.spelling}{unit}")
        ax.set_ylabel(cut(self.column, _LONGEST), color=INK)
        ax.spines["left"].set_color(MUTED)
        legend_above(ax)

    def _labels(self) -> list[str]:
        """Return the names of conditions, with how many queries where all results agree."""
        labels = [cut(value, _LONGEST) for value in self.conditions]
        counts = self.n_queries[0]
        if any(not np.array_equal(counts, other) for other in self.n_queries[1:]):
            return labels
        return [f"{label} ({n:,})" for label, n in zip(labels, counts.tolist(), strict=True)]


def _first_column(result: Result) -> str:
    if result.breakdowns is not None and len(result.breakdowns):
        return str(result.breakdowns["column"].iloc[0])
    if "camera" in result.per_query:
        return "camera"
    raise NotCountedError(
        "nothing was broken down and the queries have no column 'camera': evaluate with "
        "by=[column] (--by COLUMN)"
    )


def _first_metric(result: Result) -> str:
    for name in reported(result):
        if parse(name).metric.aggregate == "mean" and parse(name).radius is None:
            return name
    raise NotCountedError("no reported metric is a mean over queries")


def _table(result: Result, column: str, metric: str) -> pd.DataFrame:
    """Return value, n, mean, low and high of each condition."""
    table = result.per_query
    values = _values(result, metric) if column in table else None
    if values is not None:
        is_rank = parse(metric).metric.is_rank
        ends = (1.0, result.counts["n_gallery_ranked"] + 1.0) if is_rank else (0.0, 1.0)
        return _grouped(table[column].to_numpy(), values, unit_codes(result.per_query), ends)
    parts = result.breakdowns
    if parts is None or column not in set(parts["column"]):
        raise NotCountedError(
            f"no number by {column!r} is in this result: evaluate with by=[{column!r}] "
            f"(--by {column})"
        )
    mine = parts[(parts["column"] == column) & (parts["metric"] == metric)]
    if not len(mine):
        known = ", ".join(dict.fromkeys(parts.loc[parts["column"] == column, "metric"]))
        raise NotCountedError(f"{metric} was not broken down by {column!r}; there are {known}")
    found = mine.rename(columns={"n_evaluated": "n"})
    for name in ("low", "high"):
        if name not in found:
            found = found.assign(**{name: np.nan})
    return found[["value", "n", "mean", "low", "high"]].reset_index(drop=True)


def _values(result: Result, metric: str) -> Floats | None:
    """Return the value of each query, NaN where it is not in the mean; None if unknown."""
    if metric == "mAP" and result.per_query["ap"].notna().any():
        return result.per_query["ap"].to_numpy(float)
    if result.ranking is None:
        return None
    try:
        found = compute(
            result.ranking, [metric], ties=result.protocol.report.ties,
            no_positive=result.protocol.no_positive, unretrieved="zero", missing_query="zero",
        ).per_query(metric)  # fmt: skip
    except ReidVprEvalError:
        return None
    return np.where(evaluated_of(result), found, np.nan)


def _grouped(
    column: npt.NDArray[Any],
    values: Floats,
    units: npt.NDArray[Any] | None,
    ends: tuple[float, float],
) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for value in pd.unique(pd.Series(column).sort_values(kind="stable")):
        inside = (column == value) & ~np.isnan(values)
        mean = float(values[inside].mean()) if inside.any() else np.nan
        own = None if units is None else units[inside]
        rows.append((value, int(inside.sum()), mean, *_interval(values[inside], own, ends)))
    return pd.DataFrame(rows, columns=["value", "n", "mean", "low", "high"])


def _interval(
    values: Floats, units: npt.NDArray[Any] | None, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return an interval by units; NaN where it cannot be had."""
    try:
        found = cluster_interval(values, units, ends=ends)
    except NotCountedError:
        return np.nan, np.nan
    return found.low, found.high
