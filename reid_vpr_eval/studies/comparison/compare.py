"""Compare runs of one protocol, query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from reid_vpr_eval.errors import FormatError, counted
from reid_vpr_eval.studies.comparison.by_metric import Pairs, by_metric
from reid_vpr_eval.studies.comparison.comparison import Comparison, Difference, RunValue, Settings
from reid_vpr_eval.studies.comparison.grouping import grouped
from reid_vpr_eval.studies.comparison.models import Model, load_models, matched
from reid_vpr_eval.summary import shown

__all__ = ["CORRECTIONS", "compare"]

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
        made = by_metric(models, shared, name, which, settings)
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
            f"only {counted(least.n_moving, 'unit differs', 'units differ')} between {least.run} "
            f"and {least.baseline} by {least.metric}: no p below {least.p_least:g} is possible"
        )
    for one in values:
        if one.n_runs == 1 and one.own is not None and abs(one.own - one.value) > 1e-9:
            notes.append(
                f"{one.metric} of {one.run} is over the compared queries; the run itself reports "
                f"{shown(one.metric, one.own)}"
            )
    return notes
