"""The interval over queries at every size: other queries, the same distractors in the mean."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, counted
from reid_vpr_eval.metrics.grammar import MetricName
from reid_vpr_eval.uncertainty.clusters import Clusters
from reid_vpr_eval.uncertainty.interval import Interval
from reid_vpr_eval.uncertainty.methods import Choice, Measure, intervals
from reid_vpr_eval.uncertainty.sums import Sums

__all__ = ["QueryBands"]

Floats: TypeAlias = npt.NDArray[np.float64]

#: Numbers that are held before intervals are made of them.
_HELD = 1 << 23


class QueryBands:
    """Intervals by unit of many means over the same queries, by the methods of a plain run.

    Where units are resampled, all numbers come from the same draws.

    Parameters
    ----------
    units : array (n_query,)
        What queries belong together.
    level, resamples, seed
        Of the intervals.
    """

    def __init__(
        self, units: npt.ArrayLike, n_query: int, *, level: float = 0.95, resamples: int = 2000,
        seed: int = 0,
    ) -> None:
        self._clusters = Clusters.of(units)
        if len(self._clusters.code) != n_query:
            raise AlignmentError(
                f"units for {counted(len(self._clusters.code), 'query')}, but the ranking has "
                f"{n_query}"
            )
        self._choice = Choice(level=level, resamples=resamples, seed=seed)
        self._measures: dict[str, Measure] = {}
        self._done: list[tuple[float | None, float | None]] = []

    def add(self, name: MetricName, values: Floats, gallery: int) -> None:
        """Take the values of one mean, (n_query,); NaN where a query is not in it."""
        largest = float(np.nanmax(values, initial=0))
        low, high = (1.0, gallery + 1.0) if name.metric.is_rank else (0.0, 1.0)
        if name.name == "rsum":
            high = 3.0
        hits = name.name == "CMC" and name.every_option.get("shots") != "all"
        sums = Sums.of(self._clusters, [values])
        self._measures[str(len(self._measures))] = Measure(sums, (low, max(high, largest)), hits)
        if len(self._measures) * self._clusters.n_units > _HELD:
            self._make()

    def intervals(self) -> list[tuple[float | None, float | None]]:
        """Return low and high of each mean, in their order; None where there is no interval."""
        self._make()
        return self._done

    def _make(self) -> None:
        for made in intervals(self._measures, self._choice).values():
            band = (made.low, made.high) if isinstance(made, Interval) else (None, None)
            self._done.append(band)
        self._measures = {}
