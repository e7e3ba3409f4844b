"""Compare runs of one protocol, query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, FormatError, NotCountedError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.studies.comparison.comparison import Comparison, Difference, RunValue, Settings
from reid_vpr_eval.studies.comparison.grouping import grouped
from reid_vpr_eval.studies.comparison.models import Model, Shared, load_models, matched
from reid_vpr_eval.summary import shown
from reid_vpr_eval.uncertainty import cluster_interval
from reid_vpr_eval.uncertainty.paired import (
    Limits,
    effect,
    holm,
    mcnemar,
    paired_limits,
    sign_flips,
    unit_sums,
)

__all__ = ["CORRECTIONS", "compare"]

Floats = npt.NDArray[np.float64]
Pairs = list[tuple[int, int]]
Correction = Literal["max-t", "holm", "none"]

CORRECTIONS = ("max-t", "holm", "none")
#: All pairs up to so many models, only those with the first one beyond.
_ALL_PAIRS = 6
_INTERVAL_RESAMPLES = 2000


def compare(
    runs: Mapping[str, Any] | Sequence[Any],
    metric: str | Sequence[str] | None = None,
    *,
    names: Sequence[str | None] | None = None,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    force: bool = False,
    correction: Correction = "max-t",
    unit: str | None = None,
    pairs: Literal["auto", "all", "first"] = "auto",
) -> Comparison:
    """Compare two or more runs of one protocol, query by query.

    Parameters
    ----------
    runs : sequence or mapping
        Results or run folders, the first is the baseline; a mapping names them. A list in
        the place of one, or equal names, is one model with several runs (seeds, checkpoints):
        the values of each query are averaged over them, and their spread is shown apart.
    metric : str or sequence of str, optional
        Any metric that is a mean over queries; by default the first that the protocol reports.
    names : sequence of str, optional
        What the entries of `runs` are called; by default, and for None, their folders.
    level : float
        Of intervals; a difference is significant if its corrected p is at most 1 - level.
    resamples, seed : int
        Of the sign changes; all are gone through where they are not more than `resamples`.
        The bootstrap takes 2,000 resamples from the same seed.
    force : bool
        Compare runs that differ in judging, queries or gallery, on the queries that they
        share. The comparison says so.
    correction : {"max-t", "holm", "none"}
        For several pairs; each metric is a family of its own.
    unit : str, optional
        What belongs together, a column of the table of queries (label, camera), or "query"
        for nothing; by default the protocol's own unit.
    pairs : {"auto", "all", "first"}
        All pairs, or each run against the first; "auto": all of up to six.

    Returns
    -------
    Comparison

    Raises
    ------
    AlignmentError
        If runs are judged differently, or their queries or galleries differ (and says how),
        unless `force` is given; if they share no query; if there is only one.
    NotCountedError
        If a metric has no value of each query in a run.
    FormatError, InputNotFoundError
        If a folder holds no run, or an option is no such thing.

    Notes
    -----
    Intervals and tests are by unit, see :func:`reid_vpr_eval.uncertainty.paired.sign_flips`.
    They are about other queries of the kind, with gallery and models as they are: what other
    seeds would change is in no interval.

    Examples
    --------
    >>> import numpy as np
    >>> import reid_vpr_eval as rve
    >>> rng = np.random.default_rng(0)
    >>> query = rve.Samples.from_columns(id=np.arange(60), label=np.arange(60) % 12)
    >>> gallery = rve.Samples.from_columns(id=np.arange(100, 220), label=np.arange(120) % 12)
    >>> def model(noise):
    ...     centres = np.eye(12)
    ...     sides = [centres[side.values("label")] for side in (query, gallery)]
    ...     noisy = [side + noise * rng.normal(size=side.shape) for side in sides]
    ...     return rve.evaluate("labels", query, gallery, rve.Embeddings(*noisy))
    >>> found = rve.compare([model(0.5), model(0.4)], "mAP", names=["old", "new"])
    >>> one = found.difference("new", "old")
    >>> round(one.difference, 3), one.significant, one.n_units
    (0.11, True, 12)
    """
    _check_options(level, resamples, seed, correction, pairs)
    models, protocol = load_models(grouped(runs, names), metric)
    shared = matched(models, force=force, unit=unit)
    which = _pairs(len(models), pairs)
    settings = Settings(
        level=level, resamples=resamples, seed=seed, interval_resamples=_INTERVAL_RESAMPLES,
        correction=correction, unit=shared.unit_word, ties=protocol.report.ties, forced=force
        and bool(shared.faults),
    )  # fmt: skip
    values: list[RunValue] = []
    differences: list[Difference] = []
    for name in models[0].metrics:
        made = _by_metric(models, shared, name, which, settings)
        values += made[0]
        differences += made[1]
    return Comparison(
        protocol=protocol, metrics=models[0].metrics, runs=tuple(one.name for one in models),
        sources=tuple(one.sources for one in models), values=tuple(values),
        differences=tuple(differences), per_query=shared.table, settings=settings,
        inputs=tuple(dict(one.identities[0].inputs) for one in models),
        notes=(*shared.notes, *_remarks(models, values, differences, level)),
    )  # fmt: skip


def _check_options(
    level: float, resamples: int, seed: int, correction: str, pairs: str
) -> None:
    if not 0 < level < 1:
        raise FormatError(f"level = {level:g}: a share between 0 and 1 is needed, such as 0.95")
    if resamples < 1 or seed < 0:
        raise FormatError(f"resamples = {resamples}, seed = {seed}: 1 and 0 are the least")
    for name, given, words in (("correction", correction, CORRECTIONS),
                               ("pairs", pairs, ("auto", "all", "first"))):  # fmt: skip
        if given not in words:
            raise FormatError(f"{name} = {given!r}: one of {', '.join(words)} is needed")


def _pairs(n: int, wanted: str) -> Pairs:
    """Return the pairs (run, baseline); a baseline comes before its run."""
    every = wanted == "all" or (wanted == "auto" and n <= _ALL_PAIRS)
    return [(j, i) for i in range(n if every else 1) for j in range(i + 1, n)]


def _by_metric(
    models: Sequence[Model], shared: Shared, name: str, pairs: Pairs, settings: Settings
) -> tuple[list[RunValue], list[Difference]]:
    """Compare by one metric."""
    if any(model.drawn for model in models):
        return _drawn(models, name, pairs)
    matrix, inside = shared.values[name], shared.inside[name]
    values = matrix[inside]
    units = None if shared.units is None else shared.units[inside]
    weights = None if shared.weights is None else shared.weights[inside]
    if weights is not None:
        weights = weights / weights.mean()
    moved = np.stack([values[:, j] - values[:, i] for j, i in pairs], axis=1)
    weighed = moved if weights is None else moved * weights[:, None]
    flips = sign_flips(weighed, units, resamples=settings.resamples, seed=settings.seed)
    corrected = {"max-t": flips.adjusted, "holm": holm(flips.p), "none": flips.p}
    limits = paired_limits(
        moved, units, weights=weights, level=settings.level,
        resamples=settings.interval_resamples, seed=settings.seed,
    )  # fmt: skip
    means = [shared.mean(name, column) for column in range(len(models))]
    sign = 1.0 if parse(name).metric.direction == "up" else -1.0
    differences = []
    for number, (j, i) in enumerate(pairs):
        p = float(corrected[settings.correction][number])
        sizes, hits = effect(moved[:, number]), mcnemar(values[:, j], values[:, i])
        own = (sizes.higher, sizes.lower) if sign > 0 else (sizes.lower, sizes.higher)
        low, high, method = _limits(limits[number])
        n_moving = _n_moving(weighed[:, number], units)
        differences.append(Difference(
            metric=name, run=models[j].name, baseline=models[i].name, value=means[j],
            baseline_value=means[i], difference=means[j] - means[i], low=low, high=high,
            p=float(flips.p[number]), p_corrected=p,
            significant=p <= 1 - settings.level + 1e-12, effect=sizes.standardised,
            better=own[0], worse=own[1], equal=sizes.equal,
            only_run=None if hits is None else hits.only_first,
            only_baseline=None if hits is None else hits.only_second,
            p_mcnemar=None if hits is None else hits.p, n_query=len(values),
            n_units=flips.n_units, n_moving=n_moving, exact=flips.exact,
            p_least=_p_least(n_moving, settings.resamples, flips.exact), method=method,
            reason=_reason(flips.n_units, len(values), n_moving, shared.unit_word),
        ))  # fmt: skip
    letters = {model.name: model.letter for model in models}
    out = []
    for column, model in enumerate(models):
        beaten = [one.baseline if one.run == model.name else one.run for one in differences
                  if one.significant and _winner(one, sign) == model.name]  # fmt: skip
        low, high = shared.own_interval(models, name, column, settings.level) or (
            (None, None) if weights is not None
            else _value_limits(values[:, column], units, model, name, settings)
        )
        out.append(RunValue(
            metric=name, run=model.name, letter=model.letter, value=means[column], low=low,
            high=high, n_runs=len(model.identities), sd_runs=shared.spread(name, column),
            own=model.own.get(name), beats=tuple(sorted(letters[run] for run in beaten)),
        ))  # fmt: skip
    return out, differences


def _n_moving(differences: Floats, units: npt.NDArray[Any] | None) -> int:
    return int((unit_sums(differences, units) != 0).sum())


def _p_least(n_moving: int, resamples: int, exact: bool) -> float:
    return min(1.0, 2.0 ** (1 - n_moving)) if exact else 1 / (resamples + 1)


def _limits(found: Limits | str) -> tuple[float | None, float | None, str]:
    return (None, None, "") if isinstance(found, str) else found


def _value_limits(
    values: Floats,
    units: npt.NDArray[Any] | None,
    model: Model,
    name: str,
    settings: Settings,
) -> tuple[float | None, float | None]:
    """Return the interval of a model's value where no run reports it."""
    ends = (0.0, 1.0)
    if parse(name).metric.is_rank:
        last = float(model.identities[0].counts.get("n_gallery_ranked", 0)) + 1
        ends = (1.0, max(last, float(values.max())))
    elif values.max() > 1:
        return None, None
    try:
        made = cluster_interval(
            values, units, level=settings.level, resamples=settings.interval_resamples,
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
    return f"all {n_query} queries belong to one unit ({word}): nothing can be tested or resampled"


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


def _reasons(differences: Sequence[Difference]) -> list[tuple[str, list[str], bool]]:
    """Return why there is no interval, for which pairs, and whether only for some of them."""
    found: dict[str, list[str]] = {}
    for one in differences:
        if one.reason:
            pair = f"{one.run} - {one.baseline} by {one.metric}"
            found.setdefault(one.reason, []).append(pair)
    return [(reason, pairs, len(pairs) < len(differences)) for reason, pairs in found.items()]


def _remarks(
    models: Sequence[Model],
    values: Sequence[RunValue],
    differences: Sequence[Difference],
    level: float,
) -> list[str]:
    """Say what a reader of the tables should know."""
    notes = [
        f"{', '.join(pairs)}: {reason}" if one_pair else reason
        for reason, pairs, one_pair in _reasons(differences)
    ]
    several = [model for model in models if len(model.identities) > 1]
    if several:
        listed = ", ".join(f"{model.name} of {len(model.identities)}" for model in several)
        notes.append(
            f"means over runs: {listed}; their SD is the spread between runs (seeds, checkpoints) "
            "and no interval, and intervals and p hold queries alone, not what other runs would be"
        )
    weak = [one for one in differences
            if one.p_least is not None and not one.reason and one.n_moving > 0
            and one.p_least > 1 - level + 1e-12]  # fmt: skip
    if weak:
        least = min(weak, key=lambda one: one.n_moving)
        notes.append(
            f"only {least.n_moving} units differ between {least.run} and {least.baseline} by "
            f"{least.metric}: no p below {least.p_least:g} is possible"
        )
    for one in values:
        if one.n_runs == 1 and one.own is not None and abs(one.own - one.value) > 1e-9:
            notes.append(
                f"{one.metric} of {one.run} is over the compared queries; the run itself reports "
                f"{shown(one.metric, one.own)}"
            )
    return notes
