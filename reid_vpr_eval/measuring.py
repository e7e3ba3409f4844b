"""What each query contributes to the numbers, collected for their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.metrics import compute, parse
from reid_vpr_eval.metrics.compute import Values, view_of
from reid_vpr_eval.metrics.pool import Pool
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.uncertainty import FirstAnswers, Measured

__all__ = ["macro_groups", "measured_of", "over_draws"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def measured_of(
    protocol: Protocol,
    query: Samples,
    readings: Mapping[str, tuple[Ranking, str]],
    reported: Mapping[str, tuple[Values, str]],
    curve: Values,
    policies: Mapping[str, Any],
) -> Measured:
    """Collect what queries contribute from the readings of a ranking."""
    ties = protocol.report.ties
    values: dict[str, list[Floats]] = {}
    hits: dict[str, Callable[[int], Floats]] = {}
    answers = {}
    for name, (ranking, own) in readings.items():
        found, _ = reported[name]
        kind = parse(own).metric.aggregate
        if kind == "mean":
            values[name] = [found.per_query(own)]
        elif kind == "median":
            hits[name] = _hits(ranking, ties, policies)
        else:
            pool = Pool(ranking, view_of(ranking, ties), found.evaluated, ties)
            answers[name] = parse(own), FirstAnswers(
                pool.score, pool.correct, pool.has_positive, pool.evaluated, ties
            )
    return Measured(
        values=values,
        curve=curve_values(curve),
        n_ranked=max(ranking.n_gallery_ranked for ranking, _ in readings.values()),
        hits=hits,
        answers=answers,
        groups=macro_groups(protocol, query),
    )


def _hits(
    ranking: Ranking, ties: str, policies: Mapping[str, Any]
) -> Callable[[int], Floats]:
    def hits(k: int) -> Floats:
        name = f"CMC@{k}"
        return compute(ranking, name, ties=ties, **policies).per_query(name)

    return hits


def curve_values(curve: Values) -> dict[int, list[Floats]]:
    """Return the values of each query on a curve of hit rates, by cut-off."""
    return {int(parse(name).k): [curve.per_query(name)] for name in curve}


def macro_groups(protocol: Protocol, query: Samples) -> Ints | None:
    """Number the groups of queries that are averaged over before the mean, if there are any."""
    columns = protocol.evaluation.macro
    if not columns:
        return None
    keys = [np.unique(query.keys(column), return_inverse=True)[1].ravel() for column in columns]
    _, group = np.unique(np.stack(keys), axis=1, return_inverse=True)
    return group.ravel().astype(np.int64)


def over_draws(
    parts: Sequence[Measured], rows: Sequence[Ints], protocol: Protocol, query: Samples
) -> Measured:
    """Join what the queries of several draws contributed; each draw asks some of the queries."""

    def spread(values: Floats, asking: Ints) -> Floats:
        whole = np.full(query.n, np.nan)
        whole[asking] = values
        return whole

    first = parts[0]
    pairs = list(zip(parts, rows, strict=True))
    return replace(
        first,
        values={name: [spread(part.values[name][0], asking) for part, asking in pairs]
                for name in first.values},
        curve={k: [spread(part.curve[k][0], asking) for part, asking in pairs]
               for k in first.curve},
        n_ranked=max(part.n_ranked for part in parts),
        hits={},
        answers={},
        groups=macro_groups(protocol, query),
    )  # fmt: skip
