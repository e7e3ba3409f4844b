"""The whole way: from a protocol, samples and scores to a result."""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.alignment import pool_queries, prepare, warn_of_doubles
from reid_vpr_eval.checks import Seen, run_notes
from reid_vpr_eval.counts import Expected, check_counts, counts_after
from reid_vpr_eval.dense import evaluate_blocks, pairs_ahead
from reid_vpr_eval.draws import draw_codes, drawn_for_each, draws_of, expected_over_draws
from reid_vpr_eval.errors import AlignmentError, FormatError, NotCountedError, RelevanceError
from reid_vpr_eval.measuring import measured_of, over_draws
from reid_vpr_eval.metrics import TIES, MetricValues, parse
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.metrics.reading import shared_readings
from reid_vpr_eval.per_query import (
    beside_lists,
    per_query_table,
    top_lists,
    with_columns,
    with_units,
)
from reid_vpr_eval.places import places_of, track_of
from reid_vpr_eval.protocol import Protocol, load_protocol
from reid_vpr_eval.ranking import Ranking, rank
from reid_vpr_eval.ranking.sources import source_of
from reid_vpr_eval.ranking.strata import named_strata
from reid_vpr_eval.readings import all_ties, breakdowns_by, chances, readings_of
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.result import Result, curve_of, curve_values
from reid_vpr_eval.rules import judge
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, RankedLists, ScoreMatrix, Scores
from reid_vpr_eval.uncertainty import Measured, Uncertainty, uncertainty_of, units_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["evaluate", "evaluate_prepared", "judge"]

_K_MAX = 50
_PACKAGES = ("reid_vpr_eval", "numpy", "scipy", "pandas")
_KEPT_PAIRS = 20_000_000


def evaluate(
    protocol: str | Protocol,
    query: Samples | pd.DataFrame,
    gallery: Samples | pd.DataFrame,
    scores: Scores,
    *,
    expected: Expected = "enforce",
    keep_ranking: bool | Literal["auto"] = "auto",
    unretrieved: Literal["error", "zero"] = "error",
    missing_query: Literal["error", "zero", "skip"] = "error",
    by: Sequence[str] = (),
    truth: Any = None,
    interval: str | Mapping[str, Any] | None = None,
    **counting: Any,
) -> Result:
    """Evaluate scores by a protocol.

    Parameters
    ----------
    protocol : str or Protocol
        The name of a shipped protocol, the path of a file, or a protocol.
    query, gallery : Samples or pandas.DataFrame
        The two sides. One object for both sides without ids: its rows are their own ids,
        so that a query is recognised in the gallery.
    scores : Embeddings, ScoreMatrix or RankedLists
        Row i belongs to query row i, column or row j to gallery row j.
    expected : {"enforce", "warn", "ignore"}
        Whether counts that differ from the published ones stop the evaluation.
    keep_ranking : bool or "auto"
        Whether the result holds the counts; "auto": unless they are very many.
    unretrieved, missing_query
        For ranked lists, see :func:`compute`.
    by : sequence of str
        Query columns to break the numbers down by.
    truth : optional
        What the protocol leaves to its user: lists for a rule of kind ``listed``, neighbours
        (or features of another space) for ``nearest``; see :func:`reid_vpr_eval.rules.judge`.
    interval : str or mapping, optional
        How intervals are made where not as the protocol says: a method, or keys of its
        table ``report.interval`` such as ``{"unit": "sequence", "level": 0.9}``; "none":
        there are none.
    **counting
        Every keyword of :func:`rank`; `group` and `blocks` may name a gallery column, and so
        may `strata`, or "random:100" (100 random strata; with a seed "random:100:7", within
        each value of a column "camera,random:100"); `tie_order` may be "id_desc".

    Returns
    -------
    Result

    Raises
    ------
    ProtocolError, AlignmentError, RelevanceError, FormatError, ScoreError
        If the input does not fit; before anything is scored.

    Examples
    --------
    >>> import reid_vpr_eval as rve
    >>> query = rve.Samples.from_columns(label=[1, 2], id=["a", "b"])
    >>> gallery = rve.Samples.from_columns(label=[1, 2, 2], id=["c", "d", "e"])
    >>> scores = rve.ScoreMatrix([[0.9, 0.1, 0.2], [0.8, 0.7, 0.9]], higher_is_better=True)
    >>> result = rve.evaluate("labels", query, gallery, scores)
    >>> round(result.metrics["mAP"], 4), result.metrics["R@1"]
    (0.9167, 1.0)
    """
    protocol = load_protocol(protocol) if isinstance(protocol, str) else protocol
    query, gallery, scores = prepare(protocol, query, gallery, scores)
    return evaluate_prepared(
        protocol, query, gallery, scores, expected=expected, keep_ranking=keep_ranking,
        unretrieved=unretrieved, missing_query=missing_query, by=by, truth=truth,
        interval=interval, **counting,
    )  # fmt: skip


def evaluate_prepared(
    protocol: Protocol,
    query: Samples,
    gallery: Samples,
    scores: Scores,
    *,
    expected: Expected = "enforce",
    keep_ranking: bool | Literal["auto"] = "auto",
    unretrieved: Literal["error", "zero"] = "error",
    missing_query: Literal["error", "zero", "skip"] = "error",
    by: Sequence[str] = (),
    truth: Any = None,
    interval: str | Mapping[str, Any] | None = None,
    **counting: Any,
) -> Result:
    """Evaluate two sides to which the protocol's columns, where and aliases were applied."""
    if protocol.multi_query:
        query, scores = pool_queries(query, scores, protocol.multi_query)
    protocol = protocol.with_interval(interval)
    if isinstance(interval, Mapping) and interval.get("unit"):
        reason = units_of(protocol, query).reason
        if reason:
            raise FormatError(reason)
    if protocol.draw is not None:
        if by or keep_ranking is True:
            asked = "by" if by else "keep_ranking=True"
            raise NotCountedError(
                f"{asked}: {protocol.name} draws its gallery, and its numbers are means over "
                "draws, which have no breakdown and no counts of their own: leave it out"
            )
        return _evaluate_draws(protocol, query, gallery, scores, expected, truth, counting)
    return _evaluate_one(
        protocol, query, gallery, scores, expected=expected, keep_ranking=keep_ranking,
        unretrieved=unretrieved, missing_query=missing_query, by=by, truth=truth,
        **counting,
    )  # fmt: skip


def _evaluate_one(
    protocol: Protocol,
    query: Samples,
    gallery: Samples,
    scores: Scores,
    *,
    expected: Expected,
    keep_ranking: bool | Literal["auto"],
    unretrieved: Literal["error", "zero"] = "error",
    missing_query: Literal["error", "zero", "skip"] = "error",
    by: Sequence[str] = (),
    truth: Any = None,
    measured: list[Measured] | None = None,
    **counting: Any,
) -> Result:
    """Evaluate one gallery; with `measured` collect what queries contribute, for later."""
    started = time.perf_counter()
    names = [parse(name) for name in protocol.report.metrics]
    warn_of_doubles(query, gallery, scores)
    policies: dict[str, Any] = {
        "no_positive": protocol.no_positive,
        "unretrieved": unretrieved,
        "missing_query": missing_query,
    }
    many = keep_ranking is not True and pairs_ahead(protocol, query, gallery).sum() > _KEPT_PAIRS
    if many and isinstance(scores, Embeddings | ScoreMatrix):
        steps, numbers = counting.pop("progress", None), itertools.count()
        counting.pop("progress_pairs", None)
        fields = evaluate_blocks(
            protocol, query, gallery, scores, expected=expected, policies=policies, by=by,
            rank_block=lambda part, judged: _rank(
                protocol, gallery, part, judged, _inside(counting, f"block-{next(numbers)}")
            ),
            progress=steps,
        )  # fmt: skip
        curve, n_evaluated = fields.pop("curve"), int(fields["counts"]["n_evaluated"])
        sure = _uncertainty(protocol, query, fields.pop("measured"), measured)
        fields["per_query"] = with_columns(with_units(fields["per_query"], sure.units), query, by)
        return Result(protocol=protocol, inputs=_inputs(query, gallery, scores),
                      curves=curve_of(protocol, "CMC", curve, sure.curve, n_evaluated),
                      intervals=sure.intervals, interval_reasons=sure.reasons,
                      environment=environment(time.perf_counter() - started), **fields)  # fmt: skip
    relevance = judge(protocol, query, gallery, truth=truth)
    check_counts(protocol, relevance, expected)
    _check_positives(relevance)
    ranking = _rank(protocol, gallery, scores, relevance, counting)
    with shared_readings():
        readings = readings_of(protocol, ranking, relevance)
        ties, reported = all_ties(readings, protocol, query, policies)
        evaluated = next(iter(reported.values()))[0].evaluated
        curve = curve_values(ranking, protocol, "CMC", _K_MAX)
        sure = _uncertainty(
            protocol, query,
            measured_of(protocol, query, readings, reported, curve, policies), measured,
        )  # fmt: skip
        kept = keep_ranking is True or (keep_ranking == "auto" and len(ranking.item) <= _KEPT_PAIRS)
        listed = ranking.top_item is not None
        per_query = per_query_table(ranking, query, gallery, scores, protocol, policies)
        return Result(
            protocol=protocol,
            counts=counts_after(ranking, relevance, evaluated),
            metrics=MetricValues({str(n): ties[str(n)][protocol.report.ties] for n in names}),
            ties=ties,
            chance=chances(readings, protocol),
            per_query=with_columns(with_units(per_query, sure.units), query, by),
            curves=curve_of(protocol, "CMC", curve, sure.curve),
            intervals=sure.intervals,
            interval_reasons=sure.reasons,
            inputs=_inputs(query, gallery, scores),
            ranking=ranking if kept else None,
            rankings=top_lists(ranking, query, gallery, scores) if listed else None,
            beside=beside_lists(ranking, query, gallery, scores) if listed else None,
            breakdowns=breakdowns_by(ranking, protocol, query, by),
            places=places_of(ranking, query, gallery, protocol, per_query),
            track=track_of(query, gallery, protocol),
            notes=run_notes(protocol, Seen.of(relevance, ranking, scores), query, gallery),
            environment=environment(time.perf_counter() - started),
        )


def _uncertainty(
    protocol: Protocol, query: Samples, found: Measured, measured: list[Measured] | None
) -> Uncertainty:
    """Return the intervals, or keep what they are made from if there is more to come."""
    if measured is not None:
        measured.append(found)
        protocol = protocol.with_interval("none")
    return uncertainty_of(protocol, units_of(protocol, query), found)


def _evaluate_draws(
    protocol: Protocol,
    query: Samples,
    gallery: Samples,
    scores: Scores,
    expected: Expected,
    truth: Any,
    counting: Mapping[str, Any],
) -> Result:
    """Evaluate drawn galleries: the mean over draws, or the exact expectation over all."""
    draw = protocol.draw
    assert draw is not None  # noqa: S101 (asked by the caller)
    if isinstance(scores, RankedLists):
        raise NotCountedError("a gallery cannot be drawn from ranked lists: give features")
    if draw.per_query and draw.method == "sample":
        return _each_its_own(protocol, query, gallery, scores, expected, truth, counting)
    trials: list[Result] = []
    measured: list[Measured] = []
    asked: list[npt.NDArray[np.int64]] = []
    for number, (asking, rows) in enumerate(draws_of(draw, query, gallery)):
        trials.append(_evaluate_one(
            protocol, query.take(asking), gallery.take(rows), scores.take(asking, rows),
            expected=expected, keep_ranking=False, truth=truth, measured=measured,
            **_inside(counting, f"draw-{number}"),
        ))  # fmt: skip
        asked.append(asking)
        if draw.method == "exact":
            break
    if draw.method == "exact":
        relevance = judge(protocol, query, gallery, truth=truth)
        return _expectation(protocol, relevance, query, gallery, scores, trials[0])
    return _mean_of(trials, query, gallery, scores, over_draws(measured, asked, protocol, query))


def _inside(counting: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return counting keywords for one of several rankings: its checkpoint lies in a folder."""
    folder = counting.get("checkpoint")
    return {**counting, **({} if folder is None else {"checkpoint": Path(folder) / name})}


def _each_its_own(
    protocol: Protocol,
    query: Samples,
    gallery: Samples,
    scores: Any,
    expected: Expected,
    truth: Any,
    counting: Mapping[str, Any],
) -> Result:
    """Average over draws in which every query has its own; tables are of the whole gallery."""
    draw = protocol.draw
    assert draw is not None  # noqa: S101 (asked by the caller)
    if draw.n != 1:
        raise NotCountedError("a draw of its own for every query takes one item of each group")
    measured: list[Measured] = []
    whole = _evaluate_one(protocol, query, gallery, scores, expected=expected, keep_ranking=False,
                          truth=truth, measured=measured, **counting)  # fmt: skip
    relevance = judge(protocol, query, gallery, truth=truth)
    trials, values = [], {name: list[npt.NDArray[np.float64]]() for name in measured[0].values}
    for matrix, drawn in drawn_for_each(draw, source_of(scores), relevance,
                                        draw_codes(draw, gallery)):  # fmt: skip
        readings = readings_of(protocol, rank(matrix, drawn), drawn)
        ties, reported = all_ties(readings, protocol, query, {"no_positive": protocol.no_positive})
        for name, kept in values.items():
            kept.append(reported[name][0].per_query(reported[name][1]))
        found = {name: ties[name][protocol.report.ties] for name in ties}
        trials.append(replace(whole, metrics=MetricValues(found), ties=ties))
    drawn_values = replace(measured[0], values=values, hits={}, answers={})
    return _mean_of(trials, query, gallery, scores, drawn_values)


def _mean_of(
    trials: Sequence[Result], query: Samples, gallery: Samples, scores: Scores, measured: Measured
) -> Result:
    """Average the results of several draws; tables of queries are those of the first one."""
    import pandas as pd

    def mean(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
        return {name: exact_mean(np.array([table[name] for table in tables]))
                for name in tables[0]}  # fmt: skip

    first = trials[0]
    curves = first.curves.copy()
    curves["value"] = np.mean([trial.curves["value"].to_numpy() for trial in trials], axis=0)
    protocol = first.protocol
    sure = uncertainty_of(protocol, units_of(protocol, query), measured)
    band = [sure.curve.get(k) or (None, None) for k in curves["k"].tolist()]
    curves["low"], curves["high"] = [low for low, _ in band], [high for _, high in band]
    rows = [(number, name, value) for number, trial in enumerate(trials)
            for name, value in trial.metrics.items()]  # fmt: skip
    return replace(
        first,
        metrics=MetricValues(mean([trial.metrics for trial in trials])),
        ties={
            name: mean([trial.ties[name] for trial in trials]) for name in first.ties
        },
        chance=mean([trial.chance for trial in trials]),
        curves=curves,
        intervals=sure.intervals,
        interval_reasons=sure.reasons,
        inputs=_inputs(query, gallery, scores),
        draws=pd.DataFrame(rows, columns=["draw", "metric", "value"]),
    )


def _expectation(
    protocol: Protocol,
    relevance: Relevance,
    query: Samples,
    gallery: Samples,
    scores: Any,
    first: Result,
) -> Result:
    """Return the exact expectation over all draws; counts and tables are those of one draw."""
    draw = protocol.draw
    assert draw is not None  # noqa: S101 (asked by the caller)
    if draw.n != 1:
        raise NotCountedError(
            f"the expectation over draws of {draw.n} items of each group has no exact form here: "
            "set draw.method = 'sample'"
        )
    codes = draw_codes(draw, gallery)
    ties: dict[str, dict[str, float]] = {name: {} for name in first.ties}
    measured = Measured({}, {}, int(codes.max()) + 1)
    for order in TIES:
        values, weights = expected_over_draws(
            scores, relevance, codes, list(ties), ties=order, rest=draw.rest,
            per_query=draw.per_query,
        )
        lone = (weights == 0) & (protocol.no_positive in ("zero", "one"))
        weights = np.where(lone, 1.0, weights)
        inside = weights > 0
        filled = {name: np.where(lone, float(protocol.no_positive == "one"), per_query)
                  for name, per_query in values.items()}  # fmt: skip
        for name, found in filled.items():
            ties[name][order] = float(
                exact_mean(found[inside] * weights[inside]) / exact_mean(weights[inside])
            )
        if order == protocol.report.ties:
            kept = {name: [np.where(inside, found, np.nan)] for name, found in filled.items()}
            measured = replace(measured, values=kept, weights=[weights])
    sure = uncertainty_of(protocol, units_of(protocol, query), measured)
    return replace(
        first,
        metrics=MetricValues({n: ties[n][protocol.report.ties] for n in first.metrics}),
        ties=ties,
        intervals=sure.intervals,
        interval_reasons=sure.reasons,
        inputs=_inputs(query, gallery, scores),
    )


def environment(seconds: float) -> dict[str, Any]:
    """Return what a run was made with: versions, machine, time."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "versions": versions,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "seconds": round(seconds, 3),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _check_positives(relevance: Relevance) -> None:
    if not relevance.n_positive.any():
        raise RelevanceError(
            f"none of the {relevance.n_query} queries has a positive: {relevance.note}"
        )


def _rank(
    protocol: Protocol,
    gallery: Samples,
    scores: Scores,
    relevance: Relevance,
    given: Mapping[str, Any],
) -> Ranking:
    """Rank with the protocol's counting keywords and those of the call, which win."""
    options: dict[str, Any] = {**protocol.count.model_dump(), **given}
    if isinstance(options["strata"], str):
        options["strata"] = named_strata(options["strata"], gallery.n, gallery.keys)
    named = {}
    for name, field in (("group", "group"), ("blocks", "block")):
        if isinstance(options[name], str):
            named[field] = options[name]
            options[name] = gallery.keys(options[name])
    by_id = isinstance(options["tie_order"], str) and options["tie_order"] == "id_desc"
    if by_id:
        options["tie_order"] = _descending_ids(gallery)
    ranking = rank(scores, relevance, **options)
    if by_id:
        named["tie_order"] = "id_desc"
    return replace(ranking, **named) if named else ranking


def _descending_ids(gallery: Samples) -> npt.NDArray[np.int64]:
    if gallery.ids is None:
        raise AlignmentError("tie_order 'id_desc' needs a column 'id' on the gallery side")
    order = np.argsort(gallery.ids.astype(np.str_), kind="stable")[::-1]
    keys = np.empty(gallery.n, np.int64)
    keys[order] = np.arange(gallery.n)
    return keys


def _inputs(query: Samples, gallery: Samples, scores: Scores) -> dict[str, Any]:
    ours, theirs = query.fingerprint(), gallery.fingerprint()
    inputs: dict[str, Any] = {
        "query": ours,
        "gallery": theirs,
        "query_in_any_order": ours if query.is_in_order else query.fingerprint(ordered=False),
        "gallery_in_any_order": (
            theirs if gallery.is_in_order else gallery.fingerprint(ordered=False)
        ),
        "scores_fingerprint": scores.fingerprint(),
        "scores": {
            "matrix": "a matrix of similarities" if getattr(scores, "higher_is_better", True)
            else "a matrix of distances",
            "lists": "ranked lists",
        }.get(scores.kind, "features"),
        "metric": getattr(scores, "metric", None),
    }  # fmt: skip
    return inputs
