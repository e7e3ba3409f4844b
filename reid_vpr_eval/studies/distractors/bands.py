"""The interval over queries at every size: other queries, the same distractors in the mean."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError
from reid_vpr_eval.uncertainty.clusters import (
    Clusters,
    bca_limits,
    bootstrap_means,
    jackknife_means,
)

__all__ = ["QueryBands"]

Floats: TypeAlias = npt.NDArray[np.float64]

#: Numbers that are held before intervals are made of them.
_HELD = 1 << 23


class QueryBands:
    """Bootstrap intervals by cluster (BCa) of many means over the same queries.

    All of them come from the same resampled units, so that a band is one of curves and not of
    points: each resample is a set of units, followed through all sizes.

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
                f"units for {len(self._clusters.code)} queries, but the ranking has {n_query}"
            )
        self._level, self._resamples, self._seed = level, resamples, seed
        self._columns: list[tuple[Floats, Floats]] = []
        self._estimates: list[float] = []
        self._done: list[tuple[float | None, float | None]] = []

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return self._clusters.n_units

    def add(self, values: Floats, mean: float) -> None:
        """Take the values of one mean, (n_query,); NaN where a query is not in it."""
        self._columns.append(self._clusters.sums(values))
        self._estimates.append(mean)
        if len(self._columns) * self.n_units > _HELD:
            self._make()

    def intervals(self) -> list[tuple[float | None, float | None]]:
        """Return low and high of each mean, in their order; None for a single unit."""
        self._make()
        return self._done

    def _make(self) -> None:
        if not self._columns:
            return
        total, size = (np.stack(arrays, axis=1) for arrays in zip(*self._columns, strict=True))
        taking_part = (size > 0).any(axis=1)
        total, size = total[taking_part], size[taking_part]
        if len(total) < 2:
            self._done += [(None, None)] * len(self._columns)
        else:
            draws = bootstrap_means(total, size, resamples=self._resamples, seed=self._seed)
            left = jackknife_means(total, size)
            self._done += [
                bca_limits(mean, draws[:, i], left[:, i], self._level)
                for i, mean in enumerate(self._estimates)
            ]
        self._columns, self._estimates = [], []
