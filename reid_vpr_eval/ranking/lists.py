"""Counting in ranked lists: only what was returned ranks, and it ranks exactly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.counting import Counter
from reid_vpr_eval.ranking.judged import Judged
from reid_vpr_eval.scores import RankedLists

__all__ = ["count_lists", "found_scores"]


def _entries(
    lists: RankedLists,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return query, gallery row and score (larger is better) of everything returned."""
    query, place = np.nonzero(lists.indices >= 0)
    if lists.scores is None:
        score = -place.astype(np.float64)
    else:
        score = lists.scores[query, place] * (1 if lists.higher_is_better else -1)
    return query, lists.indices[query, place], score


def found_scores(lists: RankedLists, judged: Judged) -> npt.NDArray[np.float64]:
    """Return the score of each judged pair; -inf for those that were not returned."""
    query, item, score = _entries(lists)
    size = int(max(item.max(initial=0), judged.item.max(initial=0))) + 1
    returned = query * size + item
    order = np.argsort(returned)
    wanted = judged.query * size + judged.item
    place = np.minimum(np.searchsorted(returned[order], wanted), max(len(order) - 1, 0))
    out = np.full(len(wanted), -np.inf)
    if len(order):
        hit = returned[order[place]] == wanted
        out[hit] = score[order[place[hit]]]
    return out


def count_lists(
    lists: RankedLists,
    judged: Judged,
    row_stratum: npt.NDArray[np.int32],
    kept: npt.NDArray[np.bool_],
    columns: npt.NDArray[np.int64],
    counter: Counter,
) -> npt.NDArray[np.int64]:
    """Count all returned unjudged items among `columns`; return how many there are."""
    query, item, score = _entries(lists)
    n_gallery = len(row_stratum)
    counted = np.zeros(n_gallery, bool)
    counted[columns] = True
    pair = judged.query * n_gallery + judged.item
    free = counted[item] & ~np.isin(query * n_gallery + item, pair)
    query, item, score = query[free], item[free], score[free]
    stratum = row_stratum[item]
    n_unjudged = np.zeros(kept.shape, np.int64)
    np.add.at(n_unjudged, (query, stratum), 1)
    counter.add_exact(query, item, score, stratum.astype(np.int64))
    stays = kept[query, stratum]
    counter.add_top(query[stays], item[stays], score[stays])
    if counter.pairs_kept:
        counter.add_negatives(score[stays])
    return n_unjudged
