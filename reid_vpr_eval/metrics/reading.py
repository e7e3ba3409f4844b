"""Reading a Ranking: where the positives of each query stand, as tie groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.ranking.judged import in_blocks
from reid_vpr_eval.ranking.passes import part_of
from reid_vpr_eval.ranking.schedule import n_cores
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE

__all__ = ["Reading", "shared_readings"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_Key = tuple[int, bool, bool, tuple[int, int] | None]
_shared: ContextVar[dict[_Key, tuple[Ranking, Reading]] | None] = ContextVar(
    "_shared", default=None
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reading:
    """The tie groups that hold positives, in rank order, ignored items removed.

    Attributes
    ----------
    n_query : int
        Number of queries.
    n_positive, n_missing, size : int64 arrays (n_query,)
        Positives, positives that were not returned, and ranked items of each query.
    query, before, items, right, right_before : int64 arrays (n_groups,)
        Of each group: its query, items in earlier groups, items in it, positives in it,
        positives in earlier groups.
    index_rank : int64 array (n_found,)
        The 1-based rank of each returned positive in tie order, group by group.
    grade : float64 array (n_found,)
        The grade of each returned positive.
    all_query, all_grade : int64 and float64 arrays (n_positive_pairs,)
        Query and grade of every positive, returned or not.
    only_first : bool
        True if only the first group of each query was counted.
    """

    n_query: int
    n_positive: Ints
    n_missing: Ints
    size: Ints
    query: Ints
    before: Ints
    items: Ints
    right: Ints
    right_before: Ints
    index_rank: Ints
    grade: Floats
    all_query: Ints
    all_grade: Floats
    only_first: bool

    @classmethod
    def of(
        cls, ranking: Ranking, *, graded: bool = False, backwards: bool = False,
        queries: slice | None = None,
    ) -> Reading:  # fmt: skip
        """Read a complete ranking, or what it says of some consecutive queries.

        With `graded` every item of a grade above 0 counts, whatever grade makes a positive.
        With `backwards` the tie order is reversed.
        """
        if queries == slice(0, ranking.n_query):
            queries = None
        known = _shared.get()
        some = None if queries is None else (queries.start, queries.stop)
        key = (id(ranking), graded, backwards, some)
        if known is not None and key in known:
            return known[key][1]
        if queries is None:
            made = cls._of(ranking, graded=graded, backwards=backwards)
        else:
            ranking.check_complete()
            made = cls._of_some(part_of(ranking, queries), graded=graded, backwards=backwards)
        if known is not None:  # the ranking is kept too, so that no other gets its id
            known[key] = (ranking, made)
        return made

    @classmethod
    def _of(cls, ranking: Ranking, *, graded: bool, backwards: bool) -> Reading:
        """Read some queries at a time, which stay in the cache, by several threads."""
        ranking.check_complete()
        parts: dict[int, Reading] = {}

        def read(queries: slice, _: slice) -> None:
            part = part_of(ranking, queries)
            parts[queries.start] = cls._of_some(part, graded=graded, backwards=backwards)

        in_blocks(ranking.offsets, read, n_cores())
        return parts[0] if len(parts) == 1 else cls._joined([parts[at] for at in sorted(parts)])

    @classmethod
    def _joined(cls, parts: Sequence[Reading]) -> Reading:
        """Put the readings of consecutive queries together."""
        joined: dict[str, Any] = {}
        starts = np.cumsum([0, *(part.n_query for part in parts)]).tolist()
        for field in fields(cls):
            values = [getattr(part, field.name) for part in parts]
            if field.name in ("query", "all_query"):
                values = [own + start for own, start in zip(values, starts, strict=False)]
            if isinstance(values[0], np.ndarray):
                joined[field.name] = np.concatenate(values)
        return cls(n_query=starts[-1], only_first=parts[0].only_first, **joined)

    @classmethod
    def _of_some(cls, ranking: Ranking, *, graded: bool, backwards: bool) -> Reading:
        role, found = ranking.effective_role, ranking.found
        wanted = (ranking.grade > 0) & (role != IGNORED) if graded else role == POSITIVE
        pair_query = ranking.query_of_pair
        ranked = (role != IGNORED) & found
        stays = _in_rank_order(ranking, pair_query, ranked, wanted)
        reading = _assemble(
            ranking.n_query, pair_query[stays], ranking.tie_group[stays].astype(np.int64),
            wanted[stays], ranking.grade[stays], ranking.counted("above")[stays],
            ranking.counted("tied")[stays], ranking.counted("tied_before")[stays],
            unjudged=(ranking.n_unjudged * ranking.kept).sum(axis=1), backwards=backwards,
            only_first=ranking.keep == "first",
        )  # fmt: skip
        n_positive = np.bincount(pair_query[wanted], minlength=ranking.n_query)
        n_found = np.bincount(pair_query[wanted & found], minlength=ranking.n_query)
        n_left_out = np.bincount(pair_query[ranked], minlength=ranking.n_query)
        n_left_out -= np.bincount(pair_query[stays], minlength=ranking.n_query)
        return replace(
            reading, n_positive=n_positive, n_missing=n_positive - n_found,
            size=reading.size + n_left_out,
            all_query=pair_query[wanted], all_grade=ranking.grade[wanted],
        )  # fmt: skip

    @classmethod
    def of_groups(cls, ranking: Ranking, *, backwards: bool = False) -> Reading:
        """Read a ranking in groups: each stands at its best kept item.

        A group is positive if any kept item of it is; items that are ignored do not count.
        """
        if ranking.row_group is None:
            raise NotCountedError(
                "groups were not counted: rank with group=, the gallery column whose items rank "
                "as one"
            )
        role = ranking.effective_role
        query = ranking.query_of_pair
        n_groups = int(ranking.row_group.max()) + 1
        pairs = np.flatnonzero((role != IGNORED) & ranking.found)
        key = query[pairs] * n_groups + ranking.row_group[ranking.item[pairs]]
        by_group = np.lexsort((ranking.order[pairs], key))
        first = np.flatnonzero(_changes(key[by_group], key[by_group]))
        positive = np.add.reduceat((role[pairs] == POSITIVE)[by_group], first) > 0
        best = pairs[by_group[first]]
        in_order = np.lexsort((ranking.order[best], query[best]))
        best, positive = best[in_order], positive[in_order]
        counted = [getattr(ranking, f"group_{name}") for name in ("above", "tied", "tied_before")]
        above, tied, before = (counts[best].astype(np.int64) for counts in counted)
        assert ranking.n_unjudged_groups is not None  # noqa: S101 (kept with the counts)
        return _assemble(
            ranking.n_query, query[best], ranking.tie_group[best].astype(np.int64), positive,
            np.ones(len(best)), above, tied, before,
            unjudged=ranking.n_unjudged_groups, backwards=backwards,
        )  # fmt: skip

    def at_random(self) -> Reading:
        """Return the reading of a ranking without information: one tie group a query."""
        query = np.flatnonzero(self.n_positive > 0)
        zero = np.zeros(len(query), np.int64)
        size = np.maximum(self.size, self.n_positive)
        order = np.argsort(self.all_query, kind="stable")
        return Reading(
            n_query=self.n_query,
            n_positive=self.n_positive,
            n_missing=np.zeros(self.n_query, np.int64),
            size=size,
            query=query,
            before=zero,
            items=size[query],
            right=self.n_positive[query],
            right_before=zero,
            index_rank=np.empty(0, np.int64),
            grade=self.all_grade[order],
            all_query=self.all_query,
            all_grade=self.all_grade,
            only_first=False,
        )

    @property
    def tied(self) -> npt.NDArray[np.bool_]:
        """True for the queries where a positive ties with an item that is none."""
        mask = np.zeros(self.n_query, bool)
        mask[self.query[self.items > self.right]] = True
        return mask

    @property
    def found_query(self) -> Ints:
        """The query of each returned positive, int64 (n_found,)."""
        return np.repeat(self.query, self.right)

    @property
    def group_of_found(self) -> Ints:
        """The group of each returned positive, int64 (n_found,)."""
        return np.repeat(np.arange(len(self.query)), self.right)


@contextmanager
def shared_readings() -> Iterator[None]:
    """Read each ranking once for as long as this lasts, however many numbers are computed."""
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def _in_rank_order(
    ranking: Ranking, query: Ints, ranked: npt.NDArray[np.bool_], wanted: npt.NDArray[np.bool_]
) -> Ints:
    """Return the ranked pairs query by query in rank order.

    Where only the best positive was counted, none of the pairs behind its tie group.
    """
    if ranking.keep == "first":
        positive = ranked & wanted
        last = np.full(ranking.n_query, np.iinfo(np.int32).max, np.int32)
        np.minimum.at(last, query[positive], ranking.tie_group[positive])
        stays = np.flatnonzero(ranked & (ranking.tie_group <= last[query]))
        return stays[np.lexsort((ranking.order[stays], query[stays]))]
    ordered = np.empty(len(query), np.int64)
    ordered[ranking.offsets[query] + ranking.order] = np.arange(len(query))
    return ordered[ranked[ordered]]


def _assemble(
    n_query: int,
    query: Ints,
    group: Ints,
    positive: npt.NDArray[np.bool_],
    grade: Floats,
    above: Ints,
    tied: Ints,
    tied_before: Ints,
    *,
    unjudged: Ints,
    backwards: bool,
    only_first: bool = False,
) -> Reading:
    """Put judged items, in rank order query by query, into tie groups with the unjudged ones."""
    size = np.bincount(query, minlength=n_query)
    offset = np.cumsum(size) - size
    first = _changes(query, group)
    start = np.flatnonzero(first)
    own = query[start]
    earlier = start - offset[own]
    if len(start) == len(query):  # each item is a group of its own
        number: Any = slice(None)
        right = positive.astype(np.int64)
    else:
        number = np.cumsum(first) - 1
        right = np.bincount(number[positive], minlength=len(start))
    judged = np.diff(start, append=len(query))
    right_before = np.cumsum(right) - right
    groups = np.bincount(own, minlength=n_query)
    has = np.flatnonzero(groups)
    right_before -= np.repeat(right_before[(np.cumsum(groups) - groups)[has]], groups[has])
    keep: Any = right > 0
    counted = start
    if only_first:
        keep &= right_before == 0
        counted = _first_positive(start, number, positive)
    rank = above + earlier[number] + 1
    within = np.arange(len(query)) - start[number]
    if backwards:
        rank += tied - tied_before + judged[number] - 1 - within
    else:
        rank += tied_before + within
    kept: Any = positive & keep[number]
    if keep.all() and kept.all():  # nothing to leave out
        keep = kept = slice(None)
    return Reading(
        n_query=n_query,
        n_positive=np.bincount(query[positive], minlength=n_query),
        n_missing=np.zeros(n_query, np.int64),
        size=unjudged + size,
        query=own[keep],
        before=(above[counted] + earlier)[keep],
        items=(tied[counted] + judged)[keep],
        right=right[keep],
        right_before=right_before[keep],
        index_rank=rank[kept],
        grade=grade[kept],
        all_query=query[positive],
        all_grade=grade[positive],
        only_first=only_first,
    )


def _first_positive(start: Ints, number: Any, positive: npt.NDArray[np.bool_]) -> Ints:
    """Return the first positive of each group, the only one with counts; else its first item."""
    counted = start.copy()
    places = np.flatnonzero(positive)[::-1]
    groups = np.arange(len(start)) if isinstance(number, slice) else number
    counted[groups[places]] = places
    return counted


def _changes(query: Ints, group: Ints) -> npt.NDArray[np.bool_]:
    first = np.ones(len(query), bool)
    first[1:] = (query[1:] != query[:-1]) | (group[1:] != group[:-1])
    return first
