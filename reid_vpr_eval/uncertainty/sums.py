"""A number as a mean of ratios over units, and its interval by every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.uncertainty.analytic import freedom_of
from reid_vpr_eval.uncertainty.clusters import Clusters, bca_limits, resampling_counts

__all__ = ["Sums", "bca_of"]

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What each unit adds to a number.

    The number is the mean over strata of (sum of totals) / (sum of sizes): one stratum for a
    mean over queries, one for each fold or each draw of the gallery where these are averaged.

    Attributes
    ----------
    total, size : float64 arrays (n_units, n_strata)
        Units that take no part are left out; rows are sorted, so that neither the order of
        queries nor the names of units change a bit of what is drawn from them.
    n : int
        The queries that take part.
    """

    total: Floats
    size: Floats
    n: int

    @classmethod
    def of(
        cls,
        clusters: Clusters,
        values: Sequence[Floats],
        weights: Sequence[Floats | None] = (),
    ) -> Sums:
        """Add up values by unit; one array (n_query,) a stratum, NaN where there is none.

        >>> sums = Sums.of(Clusters.of(["b", "a", "b"]), [np.array([1.0, 0.0, 0.0])])
        >>> sums.estimate, sums.n_units, sums.n
        (0.3333333333333333, 2, 3)
        """
        weights = weights or [None] * len(values)
        columns = [clusters.sums(v, w) for v, w in zip(values, weights, strict=True)]
        total = np.stack([one for one, _ in columns], axis=1)
        size = np.stack([one for _, one in columns], axis=1)
        inside = np.any([~np.isnan(one) for one in values], axis=0)
        return cls.sorted(total, size, int(inside.sum()))

    @classmethod
    def sorted(cls, total: Floats, size: Floats, n: int) -> Sums:
        """Bring units into an order of their own."""
        both = np.concatenate([size, total], axis=1)[(size > 0).any(axis=1)]
        both = both[np.lexsort(both.T[::-1])]
        return cls(both[:, size.shape[1]:], both[:, : size.shape[1]], n)

    @property
    def n_units(self) -> int:
        """How many units take part."""
        return len(self.total)

    @property
    def estimate(self) -> float:
        """The number itself."""
        return float(np.mean(self.total.sum(axis=0) / self.size.sum(axis=0)))

    @property
    def influence(self) -> Floats:
        """What each unit does to the number, to first order; the sum is 0."""
        whole = self.size.sum(axis=0)
        share = self.total.sum(axis=0) / whole
        return np.asarray(((self.total - share * self.size) / whole).mean(axis=1), np.float64)

    @property
    def variance(self) -> float:
        """Variance of the number between units: J / (J - 1) times the squared influences."""
        n = self.n_units
        return float(n / (n - 1) * np.sum(self.influence**2)) if n > 1 else float("nan")

    @property
    def without_each(self) -> Floats:
        """The number without each unit in turn; NaN where a stratum would be empty."""
        left = self.size.sum(axis=0) - self.size
        ratio = np.divide(self.total.sum(axis=0) - self.total, left,
                          out=np.full(left.shape, np.nan), where=left > 0)  # fmt: skip
        return np.asarray(ratio.mean(axis=1), np.float64)


def bca_of(
    several: Sequence[Sums], *, level: float, resamples: int, seed: int
) -> list[tuple[float, float]]:
    """Return the BCa interval of numbers over as many units each, drawn together.

    The cost is one product of matrices: how often each unit is drawn, times what it adds.
    """
    found: dict[bytes, tuple[float, float]] = {}
    keys = [sums.total.tobytes() + sums.size.tobytes() for sums in several]
    first = dict(zip(reversed(keys), reversed(several), strict=True))
    for n_units in sorted({sums.n_units for sums in first.values()}):
        mine = {key: sums for key, sums in first.items() if sums.n_units == n_units}
        drawn = _draws(list(mine.values()), n_units, resamples, seed)
        for (key, sums), draws in zip(mine.items(), drawn, strict=True):
            found[key] = bca_limits(sums.estimate, draws, sums.without_each, level,
                                    freedom=freedom_of(sums.influence))  # fmt: skip
    return [found[key] for key in keys]


def _draws(several: list[Sums], n_units: int, resamples: int, seed: int) -> list[Floats]:
    """Draw units for several numbers at once; sizes that are all 1 need no product."""
    plain = [bool((sums.size == 1).all()) for sums in several]
    columns = [sums.total for sums in several]
    columns += [sums.size for sums, one in zip(several, plain, strict=True) if not one]
    matrix = np.concatenate(columns, axis=1)
    parts = [counts @ matrix for counts in resampling_counts(n_units, resamples, seed)]
    product = np.concatenate(parts)
    ends = np.cumsum([0, *(column.shape[1] for column in columns)])
    pieces = [product[:, start:stop] for start, stop in pairwise(ends.tolist())]
    sizes = iter(pieces[len(several):])
    drawn = []
    for piece, one in zip(pieces[: len(several)], plain, strict=True):
        size = np.full(piece.shape, float(n_units)) if one else next(sizes)
        known = size > 0
        ratio = np.where(known, piece, 0.0) / np.where(known, size, 1.0)
        n_known = known.sum(axis=1)
        drawn.append(np.where(n_known > 0, ratio.sum(axis=1) / np.maximum(n_known, 1), np.nan))
    return drawn
