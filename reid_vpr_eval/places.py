"""Where queries and their first answers were taken: what maps and radius curves are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.per_query import merged_top, top_one
from reid_vpr_eval.protocol import Protocol, WithinRule
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.geography import degrees_of_rows, metres_of_pairs
from reid_vpr_eval.relevance.pairs import POSITIVE
from reid_vpr_eval.samples import Samples

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NEAR_MISS", "OUTCOMES", "near_misses", "places_of", "track_of"]

#: How far beyond the radius a wrong first answer is still a near miss, in metres.
NEAR_MISS = 5.0
#: What a query can come to, the first that holds.
OUTCOMES = ("right", "near miss", "no positive", "wrong")

_CUTS = (5, 10, 20, 50, 100)
_TRACK = 20_000

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Kind = Literal["utm", "latlon"]


def places_of(
    ranking: Ranking,
    query: Samples,
    gallery: Samples,
    protocol: Protocol,
    per_query: pd.DataFrame,
) -> pd.DataFrame | None:
    """Return where each query and its first answer were taken; None if the rule is no distance.

    Parameters
    ----------
    ranking : Ranking
        With top-k lists, the distance of the best of the first 5, 10, ... is told too.
    query, gallery : Samples
    protocol : Protocol
    per_query : pandas.DataFrame
        The table of queries, one row each in the same order.

    Returns
    -------
    pandas.DataFrame or None
        Columns query_id; outcome ("right"; "near miss": wrong and at most 5 m beyond the
        radius; "no positive"; "wrong"); radius_m; east, north and zone (as given), or lat and
        lon; the same of the first answer with top1_ before; lat and lon also where a zone tells
        them; top1_error_m; nearest_positive_m (empty: none); best5_m, best10_m ... the
        smallest distance among so many first answers.
    """
    import pandas as pd

    rule = protocol.relevance
    if not isinstance(rule, WithinRule):
        return None
    kind = _kind(rule, query, gallery)
    first = top_one(ranking)[0]
    columns: dict[str, Any] = {
        "query_id": per_query["query_id"],
        "outcome": _outcomes(rule, per_query),
        "radius_m": np.full(query.n, _radii(rule)[0]),
        **_position(query, np.arange(query.n), kind, ""),
        **_position(gallery, first, kind, "top1_"),
        "top1_error_m": per_query["top1_error_m"],
        "nearest_positive_m": _nearest(ranking, query, gallery, rule, kind),
        **_best_of(ranking, query, gallery, rule, kind),
    }
    return pd.DataFrame(columns)


def near_misses(protocol: Protocol, per_query: pd.DataFrame) -> pd.DataFrame | None:
    """Return the wrong first answers at most 5 m beyond the radius, the nearest first.

    Often it is the position that is wrong there, not the answer. None if the rule is no
    distance.

    Returns
    -------
    pandas.DataFrame or None
        Columns query_id, top1_id, metres.
    """
    import pandas as pd

    if not isinstance(protocol.relevance, WithinRule):
        return None
    inside = per_query[_outcomes(protocol.relevance, per_query) == OUTCOMES[1]]
    table = pd.DataFrame({
        "query_id": inside["query_id"], "top1_id": inside["top1_id"],
        "metres": inside["top1_error_m"],
    })  # fmt: skip
    return table.sort_values("metres", kind="stable", ignore_index=True)


def track_of(query: Samples, gallery: Samples, protocol: Protocol) -> pd.DataFrame | None:
    """Return where the gallery was taken, in the columns of :func:`places_of`.

    One row a place: what lies within the same metre counts once, and more than 20,000
    places are thinned to one in each cell of a grid.
    """
    import pandas as pd

    rule = protocol.relevance
    if not isinstance(rule, WithinRule):
        return None
    kind = _kind(rule, query, gallery)
    x, y = (gallery.values(name) for name in _names(kind))
    metre = 1.0 if kind == "utm" else 1 / 111_320
    zone = np.zeros(gallery.n, np.int64)
    if kind == "utm" and "zone" in gallery:
        zone = np.unique(gallery.keys("zone"), return_inverse=True)[1].astype(np.int64)
    rows, cell = _thinned(x, y, zone, np.arange(gallery.n), metre), metre
    while len(rows) > _TRACK:
        cell *= 2
        rows = _thinned(x, y, zone, rows, cell)
    return pd.DataFrame(_position(gallery, rows, kind, ""))


def _thinned(x: Floats, y: Floats, zone: Ints, rows: Ints, cell: float) -> Ints:
    """Return the first of the rows in each cell, in their order."""
    across, up = (np.floor(values[rows] / cell).astype(np.int64) for values in (x, y))
    across, up = across - across.min(), up - up.min()
    key = (zone[rows] * (int(across.max()) + 1) + across) * (int(up.max()) + 1) + up
    return np.asarray(rows[np.sort(np.unique(key, return_index=True)[1])])


def _kind(rule: WithinRule, query: Samples, gallery: Samples) -> Kind:
    planar = all(name in side for name in ("east", "north") for side in (query, gallery))
    return rule.coordinates or ("utm" if planar else "latlon")


def _names(kind: Kind) -> tuple[str, str]:
    return ("east", "north") if kind == "utm" else ("lat", "lon")


def _radii(rule: WithinRule) -> list[float]:
    return rule.radius if isinstance(rule.radius, list) else [rule.radius]


def _outcomes(rule: WithinRule, per_query: pd.DataFrame) -> npt.NDArray[np.str_]:
    """Name what each query came to."""
    radius = _radii(rule)[0]
    metres = per_query["top1_error_m"].to_numpy(float)
    beyond = metres > radius if rule.inclusive else metres >= radius
    right = per_query["top1_correct"].to_numpy(bool)
    holds = [right, beyond & (metres <= radius + NEAR_MISS),
             per_query["n_positive"].to_numpy() == 0]  # fmt: skip
    return np.select(holds, OUTCOMES[:3], OUTCOMES[3])


def _position(samples: Samples, rows: Ints, kind: Kind, prefix: str) -> dict[str, Any]:
    """Return the coordinates of some rows as columns; empty where a row is -1."""
    import pandas as pd

    known = np.flatnonzero(rows >= 0)
    there = samples.without(["id"]).take(rows[known])
    columns: dict[str, Any] = {}
    found: dict[str, npt.NDArray[Any]] = {name: there.values(name) for name in _names(kind)}
    if kind == "utm" and "zone" in there:
        found["zone"] = there.keys("zone")
    degrees = degrees_of_rows(there, kind) if kind == "utm" and len(known) else None
    if degrees is not None and bool((np.abs(degrees) <= (90, 360)).all()):
        found |= {"lat": degrees[:, 0], "lon": degrees[:, 1]}
    for name, values in found.items():
        whole = np.full(len(rows), None if name == "zone" else np.nan, object)
        whole[known] = values.tolist()
        complete = len(known) == len(rows)
        columns[prefix + name] = values if complete else pd.Series(
            whole, dtype=object if name == "zone" else float
        )  # fmt: skip
    return columns


def _nearest(
    ranking: Ranking, query: Samples, gallery: Samples, rule: WithinRule, kind: Kind
) -> Floats:
    """Return the metres from each query to its nearest positive; NaN where there is none."""
    pairs = np.flatnonzero(ranking.effective_role == POSITIVE)
    rows = ranking.query_of_pair[pairs]
    metres = metres_of_pairs(
        query, gallery, rows, ranking.item[pairs], coordinates=kind, radii=_radii(rule)
    )
    return _least(rows, metres, query.n)


def _best_of(
    ranking: Ranking, query: Samples, gallery: Samples, rule: WithinRule, kind: Kind
) -> dict[str, Floats]:
    """Return the smallest distance among the first 5, 10, ... of the top-k lists."""
    if ranking.top_item is None:
        return {}
    rows, ranks, items, _, _ = merged_top(ranking)
    metres = metres_of_pairs(query, gallery, rows, items, coordinates=kind, radii=_radii(rule))
    cuts = [k for k in _CUTS if k <= ranking.top_item.shape[1]]
    return {f"best{k}_m": _least(rows[ranks <= k], metres[ranks <= k], query.n) for k in cuts}


def _least(rows: Ints, values: Floats, n: int) -> Floats:
    least = np.full(n, np.inf)
    np.minimum.at(least, rows, values)
    return np.where(np.isfinite(least), least, np.nan)
