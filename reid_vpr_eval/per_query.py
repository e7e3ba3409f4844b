"""The table of queries: where each stands, what it found first, and the top-k lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.metrics import compute
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.protocol import Protocol, WithinRule
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.geography import metres_between
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Scores
from reid_vpr_eval.uncertainty import Units

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "beside_lists", "merged_top", "per_query_table", "top_lists", "top_one", "unit_codes",
    "with_columns", "with_units",
]  # fmt: skip

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def per_query_table(
    ranking: Ranking,
    query: Samples,
    gallery: Samples,
    scores: Scores,
    protocol: Protocol,
    policies: Mapping[str, Any],
) -> pd.DataFrame:
    """Return one row a query.

    Columns: query_id, label and camera where there are any, n_positive, n_ignored,
    first_rank, ap, inp (expected values under ties; empty where the query is not in the
    mean), top1_id, top1_score, top1_correct (first in tie order), best_positive_id,
    best_positive_score, n_tied (items that are no positives but tie with one), for places
    top1_error_m, and top1_camera where the gallery has cameras.
    """
    import pandas as pd

    wanted = ["MeanR"] if ranking.keep == "first" else ["MeanR", "mAP", "mINP"]
    values = compute(ranking, wanted, **(dict(policies) | {"unretrieved": "zero"}))
    empty = np.full(query.n, np.nan)
    reading = Reading.of(ranking)
    positive = _best_judged(ranking, None)
    top_item, top_score, correct = top_one(ranking)
    columns: dict[str, Any] = {"query_id": _names(query, np.arange(query.n))}
    for name in ("label", "camera"):
        if name in query and not query.missing(name).any():
            columns[name] = query.values(name)
    columns |= {
        "n_positive": ranking.n_positive,
        "n_ignored": ranking.n_ignored,
        "first_rank": values.per_query("MeanR"),
        "ap": values.per_query("mAP") if "mAP" in wanted else empty,
        "inp": values.per_query("mINP") if "mAP" in wanted else empty,
        "top1_id": _names(gallery, top_item),
        "top1_score": _as_given(top_score, scores),
        "top1_correct": correct,
        "best_positive_id": _names(gallery, _pick(ranking.item, positive, -1)),
        "best_positive_score": _as_given(_pick(ranking.score, positive, np.nan), scores),
        "n_tied": np.bincount(
            reading.query, weights=reading.items - reading.right, minlength=query.n
        ).astype(np.int64),
    }
    if isinstance(protocol.relevance, WithinRule):
        found = np.flatnonzero(top_item >= 0)
        metres = np.full(query.n, np.nan)
        # One item may be the first answer to several queries, so ids are left behind.
        answers = gallery.without(["id"]).take(top_item[found])
        metres[found] = metres_between(
            query.take(found), answers, protocol.relevance.coordinates
        )
        columns["top1_error_m"] = metres
    if "camera" in columns and "camera" in gallery and not gallery.missing("camera").any():
        cameras = gallery.values("camera").tolist()
        shown = [None if item < 0 else cameras[item] for item in top_item.tolist()]
        columns["top1_camera"] = pd.Series(shown, dtype=object) if None in shown else shown
    return pd.DataFrame(columns)


def with_units(table: pd.DataFrame, units: Units) -> pd.DataFrame:
    """Return the table with a column unit: what a query belongs to, empty where to itself."""
    names = np.full(len(table), np.nan) if units.names is None else units.names.astype(object)
    made = table.copy()
    made.insert(list(made.columns).index("n_positive"), "unit", names)
    return made


def with_columns(table: pd.DataFrame, query: Samples, names: Sequence[str]) -> pd.DataFrame:
    """Return the table with further columns of the queries, those that numbers are parted by."""
    fresh = {name: query.keys(name) for name in names if name not in table}
    return table.assign(**fresh)


def unit_codes(table: pd.DataFrame) -> Ints | None:
    """Return the unit of each query as a number, (n_query,); None where each is its own."""
    units = table["unit"].astype(object) if "unit" in table else None
    if units is None or not len(table) or (units.isna() | (units == "")).any():
        return None
    return np.unique(units.astype(str), return_inverse=True)[1].astype(np.int64)


def top_lists(
    ranking: Ranking, query: Samples, gallery: Samples, scores: Scores
) -> pd.DataFrame:
    """Return the first k items of each query, judged and unjudged, ignored ones left out.

    Columns: query_id, rank, item_id, score, positive.
    """
    import pandas as pd

    rows, ranks, items, values, positive = merged_top(ranking)
    return pd.DataFrame(
        {
            "query_id": _names(query, rows),
            "rank": ranks,
            "item_id": _names(gallery, items),
            "score": _as_given(values, scores),
            "positive": positive,
        }
    )


def beside_lists(
    ranking: Ranking, query: Samples, gallery: Samples, scores: Scores
) -> pd.DataFrame:
    """Return what belongs beside the top-k lists: ignored items, and what they miss.

    Columns: query_id, role, rank, item_id, score. Role "ignored": an item that is taken out
    of the query's ranking and would stand before the item of that rank, at most k a query,
    the best first. Role "missed": the nearest positive below the list, at its rank in tie
    order.
    """
    import pandas as pd

    assert ranking.top_item is not None  # noqa: S101 (asked by callers)
    k = ranking.top_item.shape[1]
    role, rank, query_of = ranking.effective_role, _index_rank(ranking), ranking.query_of_pair
    aside = np.flatnonzero((role == IGNORED) & ranking.found & (rank <= k))
    aside = aside[np.lexsort((ranking.order[aside], query_of[aside]))]
    aside = aside[_nth_of_run(query_of[aside]) < k]
    below = np.flatnonzero((role == POSITIVE) & ranking.found & (rank > k))
    below = below[np.lexsort((rank[below], query_of[below]))]
    below = below[_nth_of_run(query_of[below]) == 0]
    pairs = np.concatenate([aside, below])
    names = np.repeat(["ignored", "missed"], [len(aside), len(below)])
    order = np.argsort(query_of[pairs], kind="stable")
    pairs, names = pairs[order], names[order]
    return pd.DataFrame(
        {
            "query_id": _names(query, query_of[pairs]),
            "role": names,
            "rank": rank[pairs],
            "item_id": _names(gallery, ranking.item[pairs]),
            "score": _as_given(ranking.score[pairs], scores),
        }
    )


def _nth_of_run(values: Ints) -> Ints:
    """Return 0, 1, 2 ... within each run of equal values."""
    at = np.arange(len(values))
    fresh = np.r_[True, values[1:] != values[:-1]][: len(values)]
    return at - np.maximum.accumulate(np.where(fresh, at, 0))


def merged_top(
    ranking: Ranking,
) -> tuple[Ints, Ints, Ints, Floats, npt.NDArray[np.bool_]]:
    """Return query, rank, item, score and whether positive, for all top-k lists."""
    assert ranking.top_item is not None  # noqa: S101 (asked by callers)
    assert ranking.top_score is not None  # noqa: S101
    k = ranking.top_item.shape[1]
    role = ranking.effective_role
    rank = _index_rank(ranking)
    judged = np.flatnonzero((role != IGNORED) & ranking.found & (rank <= k))
    pair_query = ranking.query_of_pair
    taken = np.zeros((ranking.n_query, k), bool)
    items = np.full((ranking.n_query, k), -1, np.int64)
    scores = np.full((ranking.n_query, k), np.nan)
    positive = np.zeros((ranking.n_query, k), bool)
    place = (pair_query[judged], rank[judged] - 1)
    taken[place], items[place], scores[place] = True, ranking.item[judged], ranking.score[judged]
    positive[place] = role[judged] == POSITIVE
    free_query, free_place = np.nonzero(~taken)
    nth = np.arange(len(free_query)) - np.searchsorted(free_query, free_query)
    items[free_query, free_place] = ranking.top_item[free_query, nth]
    scores[free_query, free_place] = ranking.top_score[free_query, nth]
    rows, columns = np.nonzero(items >= 0)
    return (
        rows,
        columns + 1,
        items[rows, columns],
        scores[rows, columns],
        positive[rows, columns],
    )


def _index_rank(ranking: Ranking) -> Ints:
    """Return the 1-based rank of each judged pair in tie order.

    For ignored ones: of the item before which they would stand.
    """
    ordered = np.empty(len(ranking.item), np.int64)
    pair_query = ranking.query_of_pair
    ordered[ranking.offsets[pair_query] + ranking.order] = np.arange(len(ranking.item))
    stays = (ranking.effective_role != IGNORED)[ordered] & ranking.found[ordered]
    running = np.cumsum(stays) - stays
    base = np.concatenate([running, [0]])[ranking.offsets[:-1]]
    earlier = np.empty(len(ranking.item), np.int64)
    earlier[ordered] = running - base[pair_query]
    return np.asarray(ranking.counted("above") + ranking.counted("tied_before") + earlier + 1)


def _best_judged(ranking: Ranking, without: int | None) -> Ints:
    """Return the best judged pair of each query (-1: none): not ignored, or positive only."""
    role = ranking.effective_role
    chosen = role != without if without is not None else role == POSITIVE
    pairs = np.flatnonzero(chosen & ranking.found)
    query, order = ranking.query_of_pair[pairs], ranking.order[pairs]
    best = np.full(ranking.n_query, -1, np.int64)
    if len(pairs):
        starts = np.flatnonzero(np.r_[True, query[1:] != query[:-1]])
        least = np.minimum.reduceat(order, starts)
        best[query[starts]] = pairs[order == np.repeat(least, np.diff(np.r_[starts, len(query)]))]
    return best


def top_one(ranking: Ranking) -> tuple[Ints, Floats, npt.NDArray[np.bool_]]:
    """Return item (-1: none), score and correctness of what stands first for each query."""
    best = _best_judged(ranking, IGNORED)
    score = _pick(ranking.score, best, -np.inf)
    earlier = _pick(ranking.counted("tied_before"), best, 0)
    other = ranking.best_score
    none = ranking.best_item < 0
    judged_first = (best >= 0) & (none | (score > other) | ((score == other) & (earlier == 0)))
    item = np.where(judged_first, _pick(ranking.item, best, -1), ranking.best_item)
    value = np.where(judged_first, score, other)
    correct = judged_first & (_pick(ranking.effective_role, best, 0) == POSITIVE)
    return item, np.where(item >= 0, value, np.nan), correct


def _pick(values: npt.NDArray[Any], pairs: Ints, missing: float) -> npt.NDArray[Any]:
    out = np.full(len(pairs), missing, dtype=float if values.dtype.kind == "f" else np.int64)
    out[pairs >= 0] = values[pairs[pairs >= 0]]
    return out


def _names(samples: Samples, rows: Ints) -> Any:
    """Return what rows are called (numbers where there are no names); None for no item."""
    import pandas as pd

    names = samples.names
    found = [None if r < 0 else (r if names is None else names[r].item()) for r in rows.tolist()]
    # As objects, so that whole numbers stay whole beside None.
    return pd.Series(found, dtype=object) if None in found else found


def _as_given(values: Floats, scores: Scores) -> Floats:
    """Return scores as they were given: distances positive, Euclidean ones as roots."""
    if getattr(scores, "higher_is_better", True) or getattr(scores, "scores", values) is None:
        return values
    distances = -values + 0.0
    return np.sqrt(distances) if getattr(scores, "metric", "") == "euclidean" else distances
