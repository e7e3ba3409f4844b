"""Evaluations with more judged pairs than memory holds: block by block of queries.

Each block is judged, ranked and read by every metric; the values of each query stay, the
counts are dropped. Means over queries are exact sums, so that blocks change no bit of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.breakdowns import means_by
from reid_vpr_eval.checks import Seen, run_notes
from reid_vpr_eval.counts import Expected, check_found, counts_after, counts_before
from reid_vpr_eval.errors import NotCountedError, RelevanceError, counted
from reid_vpr_eval.measuring import macro_groups
from reid_vpr_eval.metrics import TIES, MetricValues, compute, parse
from reid_vpr_eval.metrics.compute import chance_values, exact_mean
from reid_vpr_eval.metrics.reading import shared_readings
from reid_vpr_eval.per_query import beside_lists, per_query_table, top_lists
from reid_vpr_eval.protocol import LabelRule, Protocol
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.readings import macro_mean, readings_of, values_by
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.relevance.pairing import codes, same_code_counts
from reid_vpr_eval.rules import judge
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.uncertainty import Measured

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["evaluate_blocks", "pairs_ahead"]

Floats = npt.NDArray[np.float64]
_PAIRS_AT_ONCE = 2_000_000
_K_MAX = 50


def pairs_ahead(protocol: Protocol, query: Samples, gallery: Samples) -> npt.NDArray[np.int64]:
    """Return about how many pairs each query will judge; 0 where a rule cannot be many pairs."""
    rule = protocol.relevance
    if not isinstance(rule, LabelRule):
        return np.zeros(query.n, np.int64)
    return same_code_counts(*codes(query, gallery, rule.label))


def evaluate_blocks(
    protocol: Protocol,
    query: Samples,
    gallery: Samples,
    scores: Any,
    *,
    rank_block: Callable[[Any, Relevance], Ranking],
    expected: Expected,
    policies: Mapping[str, Any],
    by: Sequence[str],
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Evaluate a protocol block by block of queries; return the fields of a Result.

    Besides, `curve` (hit rates by cut-off) and `measured`, for intervals.

    Raises
    ------
    NotCountedError
        If a metric needs the counts of all queries together.
    """
    for name in map(parse, protocol.report.metrics):
        if name.metric.aggregate != "mean":
            raise NotCountedError(
                f"{name} needs the counts of all queries together, and these have too many judged "
                "pairs to be kept: leave it out, or evaluate with keep_ranking=True"
            )
    blocks = list(_blocks(pairs_ahead(protocol, query, gallery)))
    if any(wanted is not None for wanted in protocol.expected.model_dump().values()):
        found = [counts_before(judge(protocol, query.take(rows), gallery)) for rows in blocks]
        check_found(protocol, _added(found), expected)
    collected = _Collected(protocol, policies)
    done = 0
    for rows, relevance in _with_positives(protocol, query, gallery, blocks):
        part = scores.take_queries(slice(int(rows[0]), int(rows[-1]) + 1))
        with shared_readings():
            collected.add(rank_block(part, relevance), relevance, query.take(rows), gallery, part)
        done += len(rows)
        if progress is not None:
            progress(done, query.n)
    return collected.fields(query, gallery, by)


def _with_positives(
    protocol: Protocol, query: Samples, gallery: Samples, blocks: Sequence[npt.NDArray[np.int64]]
) -> Iterator[tuple[npt.NDArray[np.int64], Relevance]]:
    """Yield blocks with their relevance, those without any positive joined to a neighbour."""
    held, judged = blocks[0], judge(protocol, query.take(blocks[0]), gallery)
    for rows in blocks[1:]:
        relevance = judge(protocol, query.take(rows), gallery)
        if judged.n_positive.any() and relevance.n_positive.any():
            yield held, judged
            held, judged = rows, relevance
        else:
            held = np.concatenate([held, rows])
            judged = judge(protocol, query.take(held), gallery)
    if not judged.n_positive.any():
        raise RelevanceError(f"of {counted(query.n, 'query')} none has a positive: {judged.note}")
    yield held, judged


def _blocks(n_pairs: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield consecutive queries with about as many pairs as fit."""
    total = np.cumsum(n_pairs)
    begin = 0
    while begin < len(n_pairs):
        done = total[begin - 1] if begin else 0
        end = int(np.searchsorted(total, done + _PAIRS_AT_ONCE, side="right"))
        end = max(end, begin + 1)
        yield np.arange(begin, end)
        begin = end


def _added(found: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Add up the counts of blocks; those of the gallery are the same in each."""
    return {
        name: value if name.startswith("n_gallery") else sum(one[name] for one in found)
        for name, value in found[0].items()
    }


class _Collected:
    """What blocks leave behind."""

    def __init__(self, protocol: Protocol, policies: Mapping[str, Any]) -> None:
        self._protocol, self._policies = protocol, policies
        self._names = [str(parse(name)) for name in protocol.report.metrics]
        self._values: dict[tuple[str, str], list[Floats]] = {}
        self._evaluated: list[npt.NDArray[np.bool_]] = []
        self._counts: list[dict[str, float]] = []
        self._tables: list[pd.DataFrame] = []
        self._lists: list[pd.DataFrame] = []
        self._beside: list[pd.DataFrame] = []
        self._seen: list[Seen] = []

    def add(
        self, ranking: Ranking, relevance: Relevance, query: Samples, gallery: Samples, scores: Any
    ) -> None:
        """Read a block by every metric."""
        protocol, policies = self._protocol, self._policies
        readings = readings_of(protocol, ranking, relevance)
        for ties in TIES:
            for name, (values, own) in values_by(readings, ties, policies).items():
                self._keep(ties, name, values.per_query(own))
                evaluated = values.evaluated
        for name, (read, own) in readings.items():
            values = chance_values(read, [own], no_positive=protocol.no_positive)
            self._keep("chance", name, values.per_query(own))
        curve = [f"CMC@{k}" for k in range(1, _K_MAX + 1)]
        values = compute(ranking, curve, ties=protocol.report.ties,
                         no_positive=protocol.no_positive, unretrieved="zero",
                         missing_query="zero")  # fmt: skip
        for name in curve:
            self._keep("curve", name, values.per_query(name))
        self._evaluated.append(evaluated)
        self._counts.append(counts_after(ranking, relevance, evaluated))
        self._seen.append(Seen.of(relevance, ranking, scores))
        self._tables.append(per_query_table(ranking, query, gallery, scores, protocol, policies))
        if ranking.top_item is not None:
            self._lists.append(top_lists(ranking, query, gallery, scores))
            self._beside.append(beside_lists(ranking, query, gallery, scores))

    def fields(self, query: Samples, gallery: Samples, by: Sequence[str]) -> dict[str, Any]:
        """Return the fields of the result."""
        import pandas as pd

        evaluated, counts = np.concatenate(self._evaluated), self._total_counts()
        ties = {name: {one: self._mean(one, name, query) for one in TIES} for name in self._names}
        per_query = {name: self._all(self._protocol.report.ties, name) for name in self._names}
        tables = []
        for column in by:
            table = means_by(per_query, evaluated, query.keys(column))
            table.insert(0, "column", column)
            tables.append(table)
        curve = {k: self._mean("curve", f"CMC@{k}", query) for k in range(1, _K_MAX + 1)}
        return {
            "counts": counts,
            "metrics": MetricValues({n: ties[n][self._protocol.report.ties] for n in self._names}),
            "ties": ties,
            "chance": {name: self._mean("chance", name, None) for name in self._names},
            "per_query": pd.concat(self._tables, ignore_index=True),
            "curve": curve,
            "measured": Measured(
                values={name: [values] for name, values in per_query.items()},
                curve={k: [self._all("curve", f"CMC@{k}")] for k in curve},
                n_ranked=int(counts["n_gallery_ranked"]),
                groups=macro_groups(self._protocol, query),
            ),
            "rankings": pd.concat(self._lists, ignore_index=True) if self._lists else None,
            "beside": pd.concat(self._beside, ignore_index=True) if self._beside else None,
            "breakdowns": pd.concat(tables, ignore_index=True) if tables else None,
            "notes": run_notes(self._protocol, Seen.joined(self._seen), query, gallery),
        }

    def _keep(self, kind: str, name: str, values: Floats) -> None:
        self._values.setdefault((kind, name), []).append(values)

    def _all(self, kind: str, name: str) -> Floats:
        return np.concatenate(self._values[kind, name])

    def _mean(self, kind: str, name: str, query: Samples | None) -> float:
        values = self._all(kind, name)
        if kind in TIES and query is not None and self._protocol.evaluation.macro:
            return macro_mean(values, query, self._protocol)
        return exact_mean(values[~np.isnan(values)])

    def _total_counts(self) -> dict[str, float]:
        counts = _added(self._counts)
        reachable = sum(round(one["ceiling"] * one["n_evaluated"]) for one in self._counts)
        return {**counts, "ceiling": reachable / counts["n_evaluated"]}
