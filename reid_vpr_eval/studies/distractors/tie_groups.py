"""The tied items of each query that hold positives, in rank order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.pairs import POSITIVE

__all__ = ["TieGroups"]

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TieGroups:
    """Judged pairs in groups of equal scores, query by query and from the best on.

    Attributes
    ----------
    rows, number : int64 arrays (n_rows,)
        The judged pairs that take part, in rank order, and the group of each.
    right : bool array (n_rows,)
        Which of them are positives.
    all_query, all_right, all_right_before : int64 arrays (n_all,)
        Of every group: its query, its positives, and those in earlier groups of the query.
    kept : bool array (n_all,)
        The groups that hold positives; of a ranking that counted only the best positive of
        each query, the group of that one.
    held : int64 array (n_groups,)
        Of each group that is kept, the pair that holds its counts: its first positive.
    """

    rows: Ints
    number: Ints
    right: Mask
    all_query: Ints
    all_right: Ints
    all_right_before: Ints
    kept: Mask
    held: Ints

    @classmethod
    def of(cls, ranking: Ranking, right: Mask, others: Mask) -> TieGroups:
        """Group the pairs of two masks over all judged pairs: positives, and others.

        Raises
        ------
        NotCountedError
            If only the best positive of each query was counted, and it is not among these.
        """
        pair_query = ranking.query_of_pair
        ordered = np.empty(len(pair_query), np.int64)
        ordered[ranking.offsets[pair_query] + ranking.order] = np.arange(len(pair_query))
        rows = ordered[(right | others)[ordered]]
        query, group = pair_query[rows], ranking.tie_group[rows]
        first = np.ones(len(rows), bool)
        first[1:] = (query[1:] != query[:-1]) | (group[1:] != group[:-1])
        start, number = np.flatnonzero(first), np.cumsum(first) - 1
        inside = right[rows]
        n_right = np.bincount(number[inside], minlength=len(start))
        right_before = _earlier(n_right, query[start])
        held = rows[start].copy()
        positives = np.flatnonzero(inside)[::-1]
        held[number[positives]] = rows[positives]
        kept = n_right > 0
        if ranking.keep == "first":
            kept &= right_before == 0
            _check_first(ranking, held[kept], query[start][kept], ordered)
        return cls(rows, number, inside, query[start], n_right, right_before, kept, held[kept])

    @property
    def query(self) -> Ints:
        """The query of each group that is kept."""
        return np.asarray(self.all_query[self.kept])

    @property
    def n_right(self) -> Ints:
        """The positives of each group that is kept."""
        return np.asarray(self.all_right[self.kept])

    @property
    def right_before(self) -> Ints:
        """The positives in earlier groups of the query."""
        return np.asarray(self.all_right_before[self.kept])

    @property
    def right_rows(self) -> Ints:
        """The positives of the groups that are kept, group by group."""
        return np.asarray(self.rows[self.right & self.kept[self.number]])

    def count(self, mask: Mask) -> tuple[Ints, Ints]:
        """Return how many pairs of a mask are in earlier groups of the query, and in a group."""
        here = np.bincount(self.number[mask[self.rows]], minlength=len(self.kept))
        return _earlier(here, self.all_query)[self.kept], here[self.kept]


def _earlier(of_group: Ints, query: Ints) -> Ints:
    """Add up a number over the earlier groups of the same query."""
    running = np.concatenate([[0], np.cumsum(of_group)])[:-1]
    return np.asarray(running - running[np.searchsorted(query, query)])


def _check_first(ranking: Ranking, held: Ints, query: Ints, ordered: Ints) -> None:
    """Refuse a base whose first positive is not the one that was counted."""
    place = ranking.offsets[query] + ranking.order[held]
    best = np.full(ranking.n_query, np.iinfo(np.int64).max)
    positive = np.flatnonzero((ranking.effective_role == POSITIVE)[ordered])
    np.minimum.at(best, ranking.query_of_pair[ordered[positive]], positive)
    if (best[query] != place).any():
        raise NotCountedError(
            "only the best positive of each query was counted (keep='first'), and it lies outside "
            "the base for some: rank with keep='all'"
        )
