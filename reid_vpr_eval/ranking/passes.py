"""Passes over the gallery: blocks of queries that fit the memory, put together afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.histograms import Histograms
from reid_vpr_eval.ranking.layout import fingerprint
from reid_vpr_eval.ranking.ranking import Ranking
from reid_vpr_eval.ranking.schedule import Sizes
from reid_vpr_eval.ranking.sources import source_of
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.scores import RankedLists, Scores

__all__ = ["part_of", "passes_of", "stacked"]

_BY_QUERY = (
    "n_unjudged", "kept", "depth", "best_item", "best_score", "best_tie", "n_unjudged_groups",
    "top_item", "top_score", "top_tie", "n_unjudged_blocks",
)  # fmt: skip
_BY_PAIR = (
    "item", "stratum", "role", "grade", "score", "order", "tie_group", "found", "above", "tied",
    "tied_before", "group_above", "group_tied", "group_tied_before",
)  # fmt: skip


def passes_of(
    scores: Scores, relevance: Relevance, memory: str | int, workers: int | None
) -> list[slice]:
    """Return the blocks of queries that are ranked one after the other.

    A block is cut where its features, or its judged pairs, would not fit the memory.
    """
    n_query = relevance.n_query
    if isinstance(scores, RankedLists):
        return [slice(0, n_query)]
    source = source_of(scores)
    sizes = Sizes.of(memory, source.dim, source.itemsize, workers)
    if relevance.offsets[-1] <= sizes.pairs and n_query <= sizes.queries:
        return [slice(0, n_query)]
    blocks, begin = [], 0
    while begin < n_query:
        enough = relevance.offsets[begin] + sizes.pairs
        end = int(np.searchsorted(relevance.offsets, enough, side="right")) - 1
        end = min(max(end, begin + 1), begin + sizes.queries, n_query)
        blocks.append(slice(begin, end))
        begin = end
    return blocks


def part_of(ranking: Ranking, queries: slice) -> Ranking:
    """Return what a ranking counts for consecutive queries; nothing is copied.

    Histograms of blocks, and what is pooled over all queries, are those of the whole.
    """
    if queries == slice(0, ranking.n_query):
        return ranking
    own = ranking.offsets[queries.start : queries.stop + 1]
    pairs = slice(int(own[0]), int(own[-1]))
    taken: dict[str, Any] = {
        name: getattr(ranking, name)[some]
        for names, some in ((_BY_QUERY, queries), (_BY_PAIR, pairs))
        for name in names
        if getattr(ranking, name) is not None
    }
    return replace(
        ranking, n_query=queries.stop - queries.start, offsets=own - own[0], **taken
    )


def stacked(parts: Sequence[Ranking], tie: npt.NDArray[np.int64]) -> Ranking:
    """Put the rankings of consecutive blocks of queries together."""
    first = parts[0]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*_BY_QUERY, *_BY_PAIR)
        if getattr(first, name) is not None
    }
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if first.largest_negatives is not None:
        pooled = np.concatenate([part.largest_negatives for part in parts])
        joined["largest_negatives"] = np.sort(pooled)[::-1][: first.pairs_kept]
    blocks = [part for part in map(Histograms.of, parts) if part is not None]
    if blocks:
        joined |= Histograms.stacked(blocks).fields()
    made = fingerprint(offsets, joined["item"], joined["score"], first.strata, first.row_stratum,
                       tie, first.tie_order)  # fmt: skip
    return replace(
        first, n_query=len(joined["kept"]), offsets=offsets, fingerprint=made, **joined
    )
