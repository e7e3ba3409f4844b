"""Which interval a number gets, and making it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, counted
from reid_vpr_eval.uncertainty.analytic import freedom_of, korn_graubard, wilson
from reid_vpr_eval.uncertainty.clusters import Clusters
from reid_vpr_eval.uncertainty.interval import Interval
from reid_vpr_eval.uncertainty.sums import Sums, bca_of
from reid_vpr_eval.uncertainty.traverse import block_draws

__all__ = [
    "FEW_UNITS", "METHODS", "Choice", "Measure", "Method", "by_formula",
    "cluster_interval", "intervals",
]  # fmt: skip

Floats: TypeAlias = npt.NDArray[np.float64]
Method: TypeAlias = Literal["auto", "bca", "korn-graubard", "wilson", "moving-block", "none"]

METHODS = ("auto", "bca", "korn-graubard", "wilson", "moving-block", "none")
#: Below so many units the bootstrap is too narrow.
FEW_UNITS = 100
#: Likewise where fewer than so many units lie off an end of the scale.
_FEW_DIFFERENT = 10


@dataclass(frozen=True, slots=True)
class Choice:
    """How intervals are made: the protocol's `report.interval`, with the unit as it was found."""

    method: Method = "auto"
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    unit: str = "query"


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A number to be given an interval.

    Attributes
    ----------
    sums : Sums
        What each unit adds to it.
    ends : pair of float
        Between which values of a query lie.
    is_proportion : bool
        Whether a query is right or wrong, and nothing between (but for ties).
    way : tuple of arrays or None
        Values and weights in the order of a traverse, and the length of a block.
    """

    sums: Sums
    ends: tuple[float, float] = (0.0, 1.0)
    is_proportion: bool = False
    way: tuple[Floats, Floats, int] | None = None

    @property
    def share(self) -> float:
        """The number on the scale from one end to the other."""
        low, high = self.ends
        return min(max((self.sums.estimate - low) / (high - low), 0.0), 1.0)

    def method(self, asked: Method) -> str:
        """Return the method that is used."""
        sums = self.sums
        alone = sums.n_units == sums.n and self.way is None
        if asked == "wilson" and self.is_proportion:
            return "wilson"
        if self.way is not None and asked in ("auto", "moving-block", "wilson"):
            return "moving-block"
        if asked in ("bca", "korn-graubard"):
            return "bca" if asked == "bca" and 0 < self.share < 1 else "korn-graubard"
        if alone and self.is_proportion and sums.total.shape[1] == 1:
            return "wilson"
        return "bca" if sums.n_units >= FEW_UNITS and self._varied() else "korn-graubard"

    def _varied(self) -> bool:
        """Whether enough units lie off each end of the scale."""
        total, size = self.sums.total.sum(axis=1), self.sums.size.sum(axis=1)
        off = [np.sum(np.abs(total - end * size) > 1e-12 * size) for end in self.ends]
        return bool(min(off) >= _FEW_DIFFERENT)


def intervals(measures: Mapping[str, Measure], choice: Choice) -> dict[str, Interval | str]:
    """Return the interval of each number, or why there is none.

    Numbers whose intervals are bootstrapped share their draws.
    """
    found: dict[str, Interval | str] = {}
    drawn: list[str] = []
    for name, measure in measures.items():
        method = measure.method(choice.method)
        if measure.sums.n_units < 2 and not (measure.is_proportion and measure.sums.n == 1):
            found[name] = (
                f"all {counted(measure.sums.n, 'evaluated query is', 'evaluated queries are')} of "
                f"one unit ({choice.unit}), which does not tell how units differ"
                if measure.sums.n > 1 else "one query does not tell how queries differ"
            )  # fmt: skip
        elif method == "bca":
            drawn.append(name)
        else:
            found[name] = by_formula(measure, method, choice)
    limits = bca_of([measures[name].sums for name in drawn], level=choice.level,
                    resamples=choice.resamples, seed=choice.seed)  # fmt: skip
    for name, pair in zip(drawn, limits, strict=True):
        found[name] = _made(measures[name], "bca", pair, choice)
    return {name: found[name] for name in measures}


def by_formula(measure: Measure, method: str, choice: Choice) -> Interval:
    """Return the interval by a method that draws no units."""
    sums, (low, high) = measure.sums, measure.ends
    if method == "wilson":
        return _made(measure, method, wilson(measure.share, sums.n, choice.level), choice)
    variance, n_units = sums.variance, sums.n_units
    if measure.way is not None and method == "moving-block":
        total, size, length = measure.way
        draws = block_draws(total, size, length, resamples=choice.resamples, seed=choice.seed)
        variance = max(float(np.nanvar(draws)), variance)
    limits = korn_graubard(
        measure.share, variance / (high - low) ** 2, n_units,
        freedom=freedom_of(sums.influence), level=choice.level,
        most=sums.n if measure.is_proportion else np.inf,
    )  # fmt: skip
    ends = (low + limits[0] * (high - low), low + limits[1] * (high - low))
    return _made(measure, method, ends, choice)


def _made(
    measure: Measure, method: str, limits: tuple[float, float], choice: Choice
) -> Interval:
    bootstrapped = method in ("bca", "moving-block")
    n = measure.sums.n
    alone = method == "wilson" and measure.sums.n_units < n  # asked for in spite of the units
    return Interval(
        low=float(limits[0]), high=float(limits[1]), level=choice.level, method=method,
        unit="query" if alone else choice.unit,
        n_units=n if alone else measure.sums.n_units, n=n,
        seed=choice.seed if bootstrapped else None,
        resamples=choice.resamples if bootstrapped else None,
        block=measure.way[2] if method == "moving-block" and measure.way else None,
    )  # fmt: skip


def cluster_interval(
    values: npt.ArrayLike,
    units: npt.ArrayLike | None = None,
    *,
    method: Method = "auto",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    ends: tuple[float, float] = (0.0, 1.0),
) -> Interval:
    """Return an interval of a mean over queries, by unit.

    Parameters
    ----------
    values : float array (n_query,)
        The value of each query; NaN where it is not in the mean. Values of 0 and 1 alone are
        read as a proportion.
    units : array (n_query,), optional
        What each query belongs to: an identity, a place, an image. By default every query is
        its own.
    method : {"auto", "bca", "korn-graubard", "wilson"}
        "auto": Wilson for a proportion without units; else the BCa bootstrap over units, and
        Korn-Graubard at the effective sample size below 100 units, or where fewer than 10
        units have anything but the best value (or the worst).
    level : float
        Coverage.
    resamples, seed : int
        Of the bootstrap.
    ends : pair of float
        Between which values lie; (1, size of the gallery + 1) for ranks.

    Returns
    -------
    Interval

    Raises
    ------
    NotCountedError
        If no query has a value, values leave the ends, or all are of one unit.

    Examples
    --------
    Ten identities with four queries each, in two of which all queries fail:

    >>> hits = np.repeat([1, 1, 0, 1, 1, 1, 1, 0, 1, 1], 4)
    >>> by_query = cluster_interval(hits)
    >>> by_identity = cluster_interval(hits, np.repeat(np.arange(10), 4))
    >>> round(by_query.low, 3), round(by_query.high, 3), by_query.method
    (0.652, 0.895, 'wilson')
    >>> round(by_identity.low, 3), round(by_identity.high, 3), by_identity.method
    (0.357, 0.988, 'korn-graubard')
    """
    found = np.asarray(values, np.float64)
    known = found[~np.isnan(found)]
    if method not in METHODS or method in ("moving-block", "none"):
        raise NotCountedError(f"method = {method!r}: one of auto, bca, korn-graubard, wilson")
    if not len(known):
        raise NotCountedError("no query has a value: there is nothing to give an interval of")
    if known.min() < ends[0] or known.max() > ends[1]:
        raise NotCountedError(
            f"values run from {known.min():g} to {known.max():g}, and ends say {ends[0]:g} to "
            f"{ends[1]:g}: pass the ends of the scale"
        )
    clusters = Clusters.alone(len(found)) if units is None else Clusters.of(units)
    whole = ends == (0.0, 1.0) and bool(np.isin(known, (0.0, 1.0)).all())
    measure = Measure(Sums.of(clusters, [found]), ends, whole)
    unit = "query" if units is None else "unit"
    made = intervals({"": measure}, Choice(method, level, resamples, seed, unit))[""]
    if isinstance(made, str):
        raise NotCountedError(made)
    return made


