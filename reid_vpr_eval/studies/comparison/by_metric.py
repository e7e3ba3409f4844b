"""Runs compared by one metric: the value of each run, and the difference of each pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError, counted
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.studies.comparison.comparison import Difference, RunValue, Settings
from reid_vpr_eval.studies.comparison.models import Model, Shared
from reid_vpr_eval.uncertainty import cluster_interval
from reid_vpr_eval.uncertainty.paired import (
    Limits,
    SignFlips,
    effect,
    holm,
    mcnemar,
    paired_limits,
    sign_flips,
    unit_sums,
)

__all__ = ["Pairs", "by_metric"]

Floats = npt.NDArray[np.float64]
#: Numbers of models: a run and its baseline.
Pairs = list[tuple[int, int]]


def by_metric(
    models: Sequence[Model], shared: Shared, name: str, pairs: Pairs, settings: Settings
) -> tuple[list[RunValue], list[Difference]]:
    """Compare by one metric.

    Raises
    ------
    AlignmentError
        If numbers are means over draws of the gallery, and a run does not report this one.
    """
    if any(model.drawn for model in models):
        return _drawn(models, name, pairs)
    tested = _Tested.of(shared, name, pairs, settings)
    means = [shared.mean(name, column) for column in range(len(models))]
    differences = [_difference(models, tested, means, number) for number in range(len(pairs))]
    values = [_value(models, shared, tested, means, differences, column)
              for column in range(len(models))]  # fmt: skip
    return values, differences


@dataclass(frozen=True, slots=True, eq=False)
class _Tested:
    """The values of the queries that are compared by one metric, and what tests say of them.

    Attributes
    ----------
    values : float array (n_query, n_models)
    moved, weighed : float arrays (n_query, n_pairs)
        Differences, as they are and times what a query weighs in a mean.
    """

    name: str
    pairs: Pairs
    settings: Settings
    values: Floats
    units: npt.NDArray[Any] | None
    unit_word: str
    weighted: bool
    moved: Floats
    weighed: Floats
    flips: SignFlips
    limits: list[Limits | str]

    @classmethod
    def of(cls, shared: Shared, name: str, pairs: Pairs, settings: Settings) -> _Tested:
        inside = shared.inside[name]
        values = shared.values[name][inside]
        units = None if shared.units is None else shared.units[inside]
        weights = None if shared.weights is None else shared.weights[inside]
        if weights is not None:
            weights = weights / weights.mean()
        moved = np.stack([values[:, j] - values[:, i] for j, i in pairs], axis=1)
        weighed = moved if weights is None else moved * weights[:, None]
        flips = sign_flips(weighed, units, resamples=settings.resamples, seed=settings.seed)
        limits = paired_limits(
            moved, units, weights=weights, level=settings.level,
            resamples=settings.interval_resamples, seed=settings.seed,
        )  # fmt: skip
        return cls(name, pairs, settings, values, units, shared.unit_word, weights is not None,
                   moved, weighed, flips, limits)  # fmt: skip

    @property
    def sign(self) -> float:
        """1 where more is better, -1 where less is."""
        return 1.0 if parse(self.name).metric.direction == "up" else -1.0

    @property
    def corrected(self) -> Floats:
        """The p of each pair, corrected for all of them as the settings say."""
        if self.settings.correction == "max-t":
            return self.flips.adjusted
        return holm(self.flips.p) if self.settings.correction == "holm" else self.flips.p


def _difference(
    models: Sequence[Model], tested: _Tested, means: Sequence[float], number: int
) -> Difference:
    """Return what is known of one pair."""
    j, i = tested.pairs[number]
    flips, settings, n_query = tested.flips, tested.settings, len(tested.values)
    p = float(tested.corrected[number])
    sizes = effect(tested.moved[:, number])
    hits = mcnemar(tested.values[:, j], tested.values[:, i])
    better, worse = sizes.higher, sizes.lower
    if tested.sign < 0:
        better, worse = worse, better
    limits = tested.limits[number]
    low, high, method = (None, None, "") if isinstance(limits, str) else limits
    n_moving = _n_moving(tested.weighed[:, number], tested.units)
    return Difference(
        metric=tested.name, run=models[j].name, baseline=models[i].name, value=means[j],
        baseline_value=means[i], difference=means[j] - means[i], low=low, high=high,
        p=float(flips.p[number]), p_corrected=p, significant=p <= 1 - settings.level + 1e-12,
        effect=sizes.standardised, better=better, worse=worse, equal=sizes.equal,
        only_run=None if hits is None else hits.only_first,
        only_baseline=None if hits is None else hits.only_second,
        p_mcnemar=None if hits is None else hits.p, n_query=n_query, n_units=flips.n_units,
        n_moving=n_moving, exact=flips.exact,
        p_least=_p_least(n_moving, settings.resamples, flips.exact), method=method,
        reason=_reason(flips.n_units, n_query, n_moving, tested.unit_word),
    )  # fmt: skip


def _value(
    models: Sequence[Model],
    shared: Shared,
    tested: _Tested,
    means: Sequence[float],
    differences: Sequence[Difference],
    column: int,
) -> RunValue:
    """Return the value of one model, its interval, and which models it beats."""
    model, name, level = models[column], tested.name, tested.settings.level
    letters = {one.name: one.letter for one in models}
    beaten = [one.baseline if one.run == model.name else one.run for one in differences
              if one.significant and _winner(one, tested.sign) == model.name]  # fmt: skip
    low, high = shared.own_interval(models, name, column, level) or (
        (None, None) if tested.weighted else _value_limits(tested, model, column)
    )
    return RunValue(
        metric=name, run=model.name, letter=model.letter, value=means[column], low=low, high=high,
        n_runs=len(model.identities), sd_runs=shared.spread(name, column),
        own=model.own.get(name), beats=tuple(sorted(letters[run] for run in beaten)),
    )  # fmt: skip


def _n_moving(differences: Floats, units: npt.NDArray[Any] | None) -> int:
    return int((unit_sums(differences, units) != 0).sum())


def _p_least(n_moving: int, resamples: int, exact: bool) -> float:
    return min(1.0, 2.0 ** (1 - n_moving)) if exact else 1 / (resamples + 1)


def _value_limits(
    tested: _Tested, model: Model, column: int
) -> tuple[float | None, float | None]:
    """Return the interval of a model's value where no run reports it."""
    values, settings, ends = tested.values[:, column], tested.settings, (0.0, 1.0)
    if parse(tested.name).metric.is_rank:
        last = float(model.identities[0].counts.get("n_gallery_ranked", 0)) + 1
        ends = (1.0, max(last, float(values.max())))
    elif values.max() > 1:
        return None, None
    try:
        made = cluster_interval(
            values, tested.units, level=settings.level, resamples=settings.interval_resamples,
            seed=settings.seed, ends=ends,
        )  # fmt: skip
    except NotCountedError:
        return None, None
    return made.low, made.high


def _reason(n_units: int, n_query: int, n_moving: int, word: str) -> str:
    if n_units > 1:
        return "" if n_moving else "no query differs: nothing tells how far others would"
    if n_query == 1:
        return "one query alone says nothing of how queries differ"
    return (
        f"all {counted(n_query, 'query belongs', 'queries belong')} to one unit ({word}): nothing "
        "can be tested or resampled"
    )


def _winner(one: Difference, sign: float) -> str:
    return one.run if sign * one.difference > 0 else one.baseline


def _drawn(
    models: Sequence[Model], name: str, pairs: Pairs
) -> tuple[list[RunValue], list[Difference]]:
    """Set means over draws of the gallery beside each other: there is nothing to test by."""
    for model in models:
        if name not in model.own:
            raise AlignmentError(
                f"{model.name} does not report {name}, and means over draws of the gallery are "
                f"compared by what is reported: {', '.join(model.own)}"
            )
    reason = (
        "numbers are means over draws of the gallery, and runs hold no value of each query "
        "averaged over them: the spread over draws is no interval, and nothing is tested"
    )
    values = [
        RunValue(
            metric=name, run=model.name, letter=model.letter, value=model.own[name],
            n_runs=len(model.identities), n_draws=model.spreads[0].get(name, (None, None))[0],
            sd_draws=model.spreads[0].get(name, (None, None))[1], own=model.own[name],
        )
        for model in models
    ]  # fmt: skip
    differences = [
        Difference(
            metric=name, run=models[j].name, baseline=models[i].name, value=values[j].value,
            baseline_value=values[i].value, difference=values[j].value - values[i].value,
            reason=reason,
        )
        for j, i in pairs
    ]  # fmt: skip
    return values, differences
