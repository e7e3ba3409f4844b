"""One gallery: judged, ranked and read by every metric, at once or in blocks of queries."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.alignment import warn_of_doubles
from reid_vpr_eval.checks import Seen, run_notes
from reid_vpr_eval.counts import Expected, check_counts, counts_after
from reid_vpr_eval.dense import evaluate_blocks, pairs_ahead
from reid_vpr_eval.errors import AlignmentError, RelevanceError, counted
from reid_vpr_eval.evaluation.records import environment, inputs_of
from reid_vpr_eval.measuring import measured_of
from reid_vpr_eval.metrics import MetricValues, parse
from reid_vpr_eval.metrics.reading import shared_readings
from reid_vpr_eval.per_query import (
    beside_lists,
    per_query_table,
    top_lists,
    with_columns,
    with_units,
)
from reid_vpr_eval.places import places_of, track_of
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import Ranking, rank
from reid_vpr_eval.ranking.strata import named_strata
from reid_vpr_eval.readings import all_ties, breakdowns_by, chances, readings_of
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.result import Result, curve_of, curve_values
from reid_vpr_eval.rules import judge
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, ScoreMatrix, Scores
from reid_vpr_eval.uncertainty import Measured, Uncertainty, uncertainty_of, units_of

__all__ = ["evaluate_gallery", "inside"]

_K_MAX = 50
_KEPT_PAIRS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What is evaluated, and how."""

    protocol: Protocol
    query: Samples
    gallery: Samples
    scores: Scores
    expected: Expected
    policies: Mapping[str, Any]
    by: Sequence[str]
    counting: Mapping[str, Any]
    measured: list[Measured] | None

    def rank(self, scores: Scores, relevance: Relevance, counting: Mapping[str, Any]) -> Ranking:
        """Rank all queries or some of them."""
        return _rank(self.protocol, self.gallery, scores, relevance, counting)

    def uncertainty(self, found: Measured) -> Uncertainty:
        """Return the intervals, or keep what they are made from if there is more to come."""
        protocol = self.protocol
        if self.measured is not None:
            self.measured.append(found)
            protocol = protocol.with_interval("none")
        return uncertainty_of(protocol, units_of(protocol, self.query), found)


def evaluate_gallery(
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
    warn_of_doubles(query, gallery, scores)
    policies: dict[str, Any] = {
        "no_positive": protocol.no_positive,
        "unretrieved": unretrieved,
        "missing_query": missing_query,
    }
    asked = _Asked(protocol, query, gallery, scores, expected, policies, by, counting, measured)
    many = keep_ranking is not True and pairs_ahead(protocol, query, gallery).sum() > _KEPT_PAIRS
    if many and isinstance(scores, Embeddings | ScoreMatrix):
        fields = _by_blocks(asked)
    else:
        fields = _at_once(asked, keep_ranking, truth)
    return Result(
        protocol=protocol, inputs=inputs_of(query, gallery, scores),
        environment=environment(time.perf_counter() - started), **fields,
    )  # fmt: skip


def _by_blocks(asked: _Asked) -> dict[str, Any]:
    """Return the fields of a result of too many judged pairs to be kept."""
    protocol, query = asked.protocol, asked.query
    numbers = itertools.count()
    options = {name: value for name, value in asked.counting.items()
               if name not in ("progress", "progress_pairs")}  # fmt: skip
    fields = evaluate_blocks(
        protocol, query, asked.gallery, asked.scores, expected=asked.expected,
        policies=asked.policies, by=asked.by, progress=asked.counting.get("progress"),
        rank_block=lambda part, judged: asked.rank(
            part, judged, inside(options, f"block-{next(numbers)}")
        ),
    )  # fmt: skip
    curve, n_evaluated = fields.pop("curve"), int(fields["counts"]["n_evaluated"])
    sure = asked.uncertainty(fields.pop("measured"))
    per_query = fields.pop("per_query")
    return fields | {
        "per_query": with_columns(with_units(per_query, sure.units), query, asked.by),
        "curves": curve_of(protocol, "CMC", curve, sure.curve, n_evaluated),
        "intervals": sure.intervals,
        "interval_reasons": sure.reasons,
    }


def _at_once(
    asked: _Asked, keep_ranking: bool | Literal["auto"], truth: Any
) -> dict[str, Any]:
    """Return the fields of a result of one ranking of all queries."""
    protocol, query, gallery, scores = asked.protocol, asked.query, asked.gallery, asked.scores
    names = [str(parse(name)) for name in protocol.report.metrics]
    relevance = judge(protocol, query, gallery, truth=truth)
    check_counts(protocol, relevance, asked.expected)
    _check_positives(relevance)
    ranking = asked.rank(scores, relevance, asked.counting)
    kept = keep_ranking is True or (keep_ranking == "auto" and len(ranking.item) <= _KEPT_PAIRS)
    listed = ranking.top_item is not None
    with shared_readings():
        readings = readings_of(protocol, ranking, relevance)
        ties, reported = all_ties(readings, protocol, query, asked.policies)
        evaluated = next(iter(reported.values()))[0].evaluated
        curve = curve_values(ranking, protocol, "CMC", _K_MAX)
        found = measured_of(protocol, query, readings, reported, curve, asked.policies)
        sure = asked.uncertainty(found)
        per_query = per_query_table(ranking, query, gallery, scores, protocol, asked.policies)
        return {
            "counts": counts_after(ranking, relevance, evaluated),
            "metrics": MetricValues({name: ties[name][protocol.report.ties] for name in names}),
            "ties": ties,
            "chance": chances(readings, protocol),
            "per_query": with_columns(with_units(per_query, sure.units), query, asked.by),
            "curves": curve_of(protocol, "CMC", curve, sure.curve),
            "intervals": sure.intervals,
            "interval_reasons": sure.reasons,
            "ranking": ranking if kept else None,
            "rankings": top_lists(ranking, query, gallery, scores) if listed else None,
            "beside": beside_lists(ranking, query, gallery, scores) if listed else None,
            "breakdowns": breakdowns_by(ranking, protocol, query, asked.by),
            "places": places_of(ranking, query, gallery, protocol, per_query),
            "track": track_of(query, gallery, protocol),
            "notes": run_notes(protocol, Seen.of(relevance, ranking, scores), query, gallery),
        }


def inside(counting: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return counting keywords for one of several rankings: its checkpoint lies in a folder."""
    folder = counting.get("checkpoint")
    return {**counting, **({} if folder is None else {"checkpoint": Path(folder) / name})}


def _check_positives(relevance: Relevance) -> None:
    if not relevance.n_positive.any():
        raise RelevanceError(
            f"of {counted(relevance.n_query, 'query')} none has a positive: {relevance.note}"
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
