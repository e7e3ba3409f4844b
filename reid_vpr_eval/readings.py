"""Reading the reported metrics of a ranking: every tie policy, chance, radii, breakdowns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.breakdowns import by_column
from reid_vpr_eval.metrics import TIES, compute, parse
from reid_vpr_eval.metrics.compute import Values, chance, exact_mean
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.samples import Samples

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["all_ties", "breakdowns_by", "chances", "macro_mean", "readings_of", "values_by"]


def readings_of(
    protocol: Protocol, ranking: Ranking, relevance: Relevance
) -> dict[str, tuple[Ranking, str]]:
    """Return, for each reported metric, the ranking it is read from and its name there.

    ``X(radius=10)`` is X of the same ranking, graded by a further radius of the rule.
    """
    graded: dict[float | None, Ranking] = {None: ranking}
    found: dict[str, tuple[Ranking, str]] = {}
    for name in map(parse, protocol.report.metrics):
        radius = name.radius
        if radius not in graded:
            assert radius is not None  # noqa: S101 (None is there from the start)
            graded[radius] = ranking.regrade(relevance.at(radius))
        found[str(name)] = (graded[radius], str(name.at_headline))
    return found


def all_ties(
    readings: Mapping[str, tuple[Ranking, str]],
    protocol: Protocol,
    query: Samples,
    policies: Mapping[str, Any],
) -> tuple[dict[str, dict[str, float]], dict[str, tuple[Values, str]]]:
    """Compute every metric with equal scores read in each of the four ways.

    Returns the numbers, and for the reported way the values of all queries with the name of
    the metric in them.
    """
    reported: dict[str, tuple[Values, str]] = {}
    out: dict[str, dict[str, float]] = {name: {} for name in readings}
    for ties in TIES:
        found = values_by(readings, ties, policies)
        for name, (values, own) in found.items():
            out[name][ties] = values[own]
            if protocol.evaluation.macro and parse(own).metric.aggregate == "mean":
                out[name][ties] = macro_mean(values.per_query(own), query, protocol)
        if ties == protocol.report.ties:
            reported = found
    return out, reported


def values_by(
    readings: Mapping[str, tuple[Ranking, str]], ties: str, policies: Mapping[str, Any]
) -> dict[str, tuple[Values, str]]:
    """Compute every metric with equal scores read in one way; return values and name in them."""
    rankings = {id(ranking): ranking for ranking, _ in readings.values()}
    found: dict[str, tuple[Values, str]] = {}
    for key, ranking in rankings.items():
        mine = {name: own for name, (r, own) in readings.items() if id(r) == key}
        values = compute(ranking, list(mine.values()), ties=ties, **policies)
        found |= {name: (values, own) for name, own in mine.items()}
    return {name: found[name] for name in readings}


def chances(
    readings: Mapping[str, tuple[Ranking, str]], protocol: Protocol
) -> dict[str, float]:
    """Return what a ranking without information scores, where that is known."""
    found: dict[str, float] = {}
    for name, (ranking, own) in readings.items():
        known = chance(ranking, [own], no_positive=protocol.no_positive)
        if own in known:
            found[name] = known[own]
    return found


def breakdowns_by(
    ranking: Ranking, protocol: Protocol, query: Samples, by: Sequence[str]
) -> pd.DataFrame | None:
    """Break the reported means over queries down by query columns, one below the other."""
    import pandas as pd

    means = [m for m in protocol.report.metrics
             if parse(m).metric.aggregate == "mean" and parse(m).radius is None]  # fmt: skip
    tables = []
    for column in by:
        table = by_column(ranking, query.keys(column), means, ties=protocol.report.ties,
                          no_positive=protocol.no_positive)  # fmt: skip
        table.insert(0, "column", column)
        tables.append(table)
    return pd.concat(tables, ignore_index=True) if tables else None


def macro_mean(
    values: npt.NDArray[np.float64], query: Samples, protocol: Protocol
) -> float:
    """Average over the groups of the protocol's columns first, then over the groups."""
    columns = protocol.evaluation.macro
    inside = ~np.isnan(values)
    keys = [np.unique(query.keys(column), return_inverse=True)[1] for column in columns]
    _, group = np.unique(np.stack(keys)[:, inside], axis=1, return_inverse=True)
    kept, group = values[inside], group.ravel()
    means = [exact_mean(kept[group == number]) for number in range(int(group.max()) + 1)]
    return exact_mean(np.array(means))
