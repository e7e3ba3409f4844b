"""Galleries that are drawn: the mean over draws, or the exact expectation over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.counts import Expected
from reid_vpr_eval.draws import draw_codes, drawn_for_each, draws_of, expected_over_draws
from reid_vpr_eval.errors import NotCountedError, counted
from reid_vpr_eval.evaluation.gallery import evaluate_gallery, inside
from reid_vpr_eval.evaluation.records import inputs_of
from reid_vpr_eval.measuring import over_draws
from reid_vpr_eval.metrics import TIES, MetricValues
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.ranking.sources import source_of
from reid_vpr_eval.readings import all_ties, readings_of
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.result import Result
from reid_vpr_eval.rules import judge
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import RankedLists, Scores
from reid_vpr_eval.uncertainty import Measured, uncertainty_of, units_of

__all__ = ["evaluate_drawn"]


def evaluate_drawn(
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
        trials.append(evaluate_gallery(
            protocol, query.take(asking), gallery.take(rows), scores.take(asking, rows),
            expected=expected, keep_ranking=False, truth=truth, measured=measured,
            **inside(counting, f"draw-{number}"),
        ))  # fmt: skip
        asked.append(asking)
        if draw.method == "exact":
            break
    if draw.method == "exact":
        relevance = judge(protocol, query, gallery, truth=truth)
        return _expectation(protocol, relevance, query, gallery, scores, trials[0])
    return _mean_of(trials, query, gallery, scores, over_draws(measured, asked, protocol, query))


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
    whole = evaluate_gallery(
        protocol, query, gallery, scores, expected=expected, keep_ranking=False, truth=truth,
        measured=measured, **counting,
    )  # fmt: skip
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
        inputs=inputs_of(query, gallery, scores),
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
            f"the expectation over draws of {counted(draw.n, 'item')} of each group has no exact "
            "form here: set draw.method = 'sample'"
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
        inputs=inputs_of(query, gallery, scores),
    )
