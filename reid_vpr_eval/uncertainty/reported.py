"""The intervals of everything that a protocol reports, from the values of its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.metrics.grammar import MetricName, parse
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.uncertainty.clusters import Clusters
from reid_vpr_eval.uncertainty.interval import Interval
from reid_vpr_eval.uncertainty.medians import woodruff
from reid_vpr_eval.uncertainty.methods import Choice, Measure, intervals
from reid_vpr_eval.uncertainty.pooled import FirstAnswers, pooled_interval
from reid_vpr_eval.uncertainty.sums import Sums
from reid_vpr_eval.uncertainty.traverse import block_length
from reid_vpr_eval.uncertainty.units import Units

__all__ = ["Intervals", "Measured", "Uncertainty", "uncertainty_of"]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

_MOST_NUMBERS = 50_000_000


class Intervals(Mapping[str, Interval | None]):
    """Intervals by metric name; every accepted spelling of a name is a key.

    >>> Intervals({"CMC@1": None})["R@1"] is None
    True
    """

    def __init__(self, intervals: Mapping[str, Interval | None]) -> None:
        self._intervals = {str(parse(name)): made for name, made in intervals.items()}

    def __getitem__(self, name: str) -> Interval | None:
        return self._intervals[str(parse(name))]

    def __iter__(self) -> Iterator[str]:
        return iter(self._intervals)

    def __len__(self) -> int:
        return len(self._intervals)

    def __repr__(self) -> str:
        return f"Intervals({self._intervals})"


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What queries contribute to the numbers.

    Attributes
    ----------
    values : mapping of str to sequence of float64 arrays (n_query,)
        For each metric that is a mean the value of each query, NaN where it is not in the
        mean; one array a draw of the gallery, over which the number is a mean.
    curve : mapping of int to sequence of float64 arrays (n_query,)
        Likewise hit rates by cut-off.
    n_ranked : int
        How many items are ranked.
    weights : sequence of float64 arrays (n_query,), optional
        How much each query counts in each draw.
    hits : mapping of str to callable
        For each median, from k to the hits of each query among the first k.
    answers : mapping of str to (name, FirstAnswers)
        For each metric over first answers what it is read from.
    groups : int array (n_query,), optional
        The groups that are averaged over before the mean.
    """

    values: Mapping[str, Sequence[Floats]]
    curve: Mapping[int, Sequence[Floats]]
    n_ranked: int
    weights: Sequence[Floats] = ()
    hits: Mapping[str, Callable[[int], Floats]] = field(default_factory=dict)
    answers: Mapping[str, tuple[MetricName, FirstAnswers]] = field(default_factory=dict)
    groups: Ints | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """Intervals of what is reported, why some are missing, and the units they are by."""

    intervals: Intervals
    reasons: Mapping[str, str]
    curve: Mapping[int, tuple[float, float] | None]
    units: Units


def uncertainty_of(protocol: Protocol, units: Units, measured: Measured) -> Uncertainty:
    """Return intervals of all reported metrics and of the curve of hit rates."""
    names = [str(parse(name)) for name in protocol.report.metrics]
    table = protocol.report.interval
    reason = units.reason
    if table.method == "none":
        reason = "intervals were not asked for (report.interval.method is none)"
    length = 0
    if units.order is not None and not reason:
        series = [given[0][units.order] for given in measured.values.values()]
        length = max(map(block_length, series), default=1)
        units = units.in_blocks(length)
    if reason:
        return Uncertainty(Intervals(dict.fromkeys(names)), dict.fromkeys(names, reason),
                           dict.fromkeys(measured.curve), units)  # fmt: skip
    choice = Choice(table.method, table.level, table.resamples, table.seed, units.unit)
    by_unit = _ByUnit(units, measured, length)
    curve = by_unit.curve(choice)
    found = by_unit.reported(names, choice)
    if measured.groups is None:
        found |= _no_lower(found, curve)
    intervals = {name: made if isinstance(made, Interval) else None for name, made in found.items()}
    reasons = {name: made for name, made in found.items() if isinstance(made, str)}
    band = {k: (made.low, made.high) if isinstance(made, Interval) else None
            for k, made in curve.items()}  # fmt: skip
    return Uncertainty(Intervals(intervals), reasons, band, units)


class _ByUnit:
    """The numbers of one evaluation, added up by unit."""

    def __init__(self, units: Units, measured: Measured, length: int) -> None:
        self._units, self._measured, self._length = units, measured, length
        given = [*measured.values.values(), *measured.curve.values()]
        n_query = len(given[0][0]) if given else 0
        self._clusters = units.clusters or Clusters.alone(n_query)

    def reported(self, names: Sequence[str], choice: Choice) -> dict[str, Interval | str]:
        """Return the interval of each metric, or why there is none."""
        measured = self._measured
        found: dict[str, Interval | str] = {}
        means: dict[str, Measure] = {}
        for name in names:
            if name in measured.values:
                made = self._measure(parse(name), measured.values[name], measured.groups)
                if isinstance(made, str):
                    found[name] = made
                else:
                    means[name] = made
            elif name in measured.hits:
                found[name] = self._median(parse(name), measured.hits[name], choice)
            elif name in measured.answers:
                own, answers = measured.answers[name]
                clusters = self._units.clusters or Clusters.alone(len(answers.score))
                found[name] = pooled_interval(own, answers, measured.n_ranked, clusters, choice)
            else:
                found[name] = "it is no mean over queries, and the gallery was drawn several times"
        found |= intervals(means, choice)
        return {name: found[name] for name in names}

    def curve(self, choice: Choice) -> dict[int, Interval | str]:
        """Return the interval of the hit rate at each cut-off."""
        cmc = {k: parse(f"CMC@{k}") for k in self._measured.curve}
        made = {str(k): self._measure(cmc[k], values, None)
                for k, values in self._measured.curve.items()}  # fmt: skip
        usable = {k: one for k, one in made.items() if not isinstance(one, str)}
        found = intervals(usable, choice)
        return _monotone({k: found.get(str(k), "") for k in self._measured.curve},
                         {int(k): one.share for k, one in usable.items()})  # fmt: skip

    def _measure(
        self, name: MetricName, values: Sequence[Floats], groups: Ints | None
    ) -> Measure | str:
        strata: Sequence[Floats] = values
        weights: Sequence[Floats | None] = self._measured.weights or [None] * len(values)
        if groups is not None:
            if self._nested(groups):
                weights = [_one_a_group(one, groups) for one in values]
            elif int(groups.max()) * len(values) * len(groups) > _MOST_NUMBERS:
                return "the groups that are averaged over are many and cross the units"
            else:
                parts = [np.where(groups == group, one, np.nan)
                         for one in values for group in range(int(groups.max()) + 1)]  # fmt: skip
                strata = [part for part in parts if not np.isnan(part).all()]
                weights = [None] * len(strata)
        sums = Sums.of(self._clusters, strata, weights)
        proportion = name.name == "CMC" and name.every_option.get("shots") != "all"
        return Measure(sums, self._ends(name, values), proportion, self._way(strata))

    def _ends(self, name: MetricName, values: Sequence[Floats]) -> tuple[float, float]:
        largest = max(float(np.nanmax(one)) for one in values)
        if name.metric.is_rank:
            return 1.0, max(self._measured.n_ranked + 1.0, largest)
        return 0.0, max(3.0 if name.name == "rsum" else 1.0, largest)

    def _way(self, strata: Sequence[Floats]) -> tuple[Floats, Floats, int] | None:
        if self._units.order is None or len(strata) != 1:
            return None
        along = strata[0][self._units.order]
        inside = ~np.isnan(along)
        return np.where(inside, along, 0.0), inside.astype(np.float64), self._length

    def _median(
        self, name: MetricName, hits: Callable[[int], Floats], choice: Choice
    ) -> Interval | str:
        def hit_rate(k: int) -> Measure:
            values = [hits(k)]
            return Measure(Sums.of(self._clusters, values), (0.0, 1.0), True, self._way(values))

        if self._clusters.n_units < 2:
            return "all queries are of one unit, which does not tell how units differ"
        form = name.every_option["form"]
        return woodruff(hit_rate, self._measured.n_ranked + 1, form, choice)

    def _nested(self, groups: Ints) -> bool:
        """Whether every group lies within one unit."""
        pairs = np.unique(np.stack([groups, self._clusters.code]), axis=1)
        return bool(len(np.unique(pairs[0])) == pairs.shape[1])


def _monotone(
    curve: Mapping[int, Interval | str], share: Mapping[int, float]
) -> dict[int, Interval | str]:
    """Let what is known of smaller cut-offs bound those at which every query is right.

    There nothing tells how alike queries are; but a hit rate is no lower than at the last
    cut-off where that can be told. Likewise from above where every query is wrong.
    """
    found = dict(curve)
    last: Interval | None = None
    for k, made in sorted(curve.items()):
        if isinstance(made, Interval) and share[k] == 1 and last is not None:
            found[k] = replace(made, low=max(made.low, last.low))
        elif isinstance(made, Interval) and share[k] < 1:
            last = made
    last = None
    for k, made in sorted(curve.items(), reverse=True):
        if isinstance(made, Interval) and share[k] == 0 and last is not None:
            found[k] = replace(made, high=min(made.high, last.high))
        elif isinstance(made, Interval) and share[k] > 0:
            last = made
    return found


def _no_lower(
    found: Mapping[str, Interval | str], curve: Mapping[int, Interval | str]
) -> dict[str, Interval | str]:
    """Return the reported hit rates at cut-offs of the curve, bounded as there."""
    made: dict[str, Interval | str] = {}
    for name, one in found.items():
        parsed = parse(name)
        plain = parsed.name == "CMC" and not parsed.options and parsed.k.isdecimal()
        there = curve.get(int(parsed.k)) if plain else None
        if isinstance(one, Interval) and isinstance(there, Interval):
            made[name] = replace(one, low=max(one.low, there.low), high=min(one.high, there.high))
    return made


def _one_a_group(values: Floats, groups: Ints) -> Floats:
    """Weigh queries so that each group counts once."""
    inside = ~np.isnan(values)
    size = np.bincount(groups, weights=inside)
    return np.where(inside, 1 / np.maximum(size[groups], 1), np.nan)
