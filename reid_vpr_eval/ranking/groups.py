"""Counting in groups: all views of a panorama, all images of an identity, rank as one.

A group stands at the best of its items that a query keeps. Groups that hold a judged item
are judged whole; for each of them it is counted how many other groups stand above, tie, and
tie earlier in the tie order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError
from reid_vpr_eval.ranking.counting import Counter
from reid_vpr_eval.ranking.judged import Groups, Judged
from reid_vpr_eval.ranking.sources import Source
from reid_vpr_eval.ranking.tiles import Lines
from reid_vpr_eval.relevance.pairs import IGNORED, ranges

__all__ = ["GroupCounts", "check_slice", "codes_of", "count_groups", "with_members"]

Ints = npt.NDArray[np.int64]
_ROWS, _COLUMNS = 512, 4096


@dataclass(frozen=True, slots=True, eq=False)
class GroupCounts:
    """Counts over unjudged groups, at the best kept item of each judged group."""

    above: npt.NDArray[np.uint32]
    tied: npt.NDArray[np.uint32]
    tied_before: npt.NDArray[np.uint32]
    n_unjudged: Ints


def codes_of(group: npt.ArrayLike, n_gallery: int, what: str = "group") -> Ints:
    """Number the groups of the gallery rows, or the blocks.

    Raises
    ------
    AlignmentError
        If there is not one value for each row.
    """
    values = np.asarray(group)
    if values.shape != (n_gallery,):
        raise AlignmentError(
            f"{what} has the shape {values.shape}: one value for each of the {n_gallery} gallery "
            "rows is needed"
        )
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def check_slice(codes: Ints, part: tuple[int, int], what: str = "group") -> None:
    """Refuse a slice that cuts a group, or a block."""
    inside = np.zeros(len(codes), bool)
    inside[part[0] : part[1]] = True
    cut = np.intersect1d(codes[inside], codes[~inside])
    if len(cut):
        raise AlignmentError(
            f"gallery_slice {part} cuts {len(cut)} {what}s: slices must hold whole {what}s when "
            f"{what}s are counted"
        )


def with_members(
    judged: Judged, wholes: Sequence[Ints], ranked: npt.NDArray[np.bool_]
) -> Judged:
    """Judge every member of a group or block that holds a judged item, as a negative."""
    before = -1
    while before != len(judged.item):
        before = len(judged.item)
        for codes in wholes:
            judged = _with_members(judged, codes, ranked)
        if len(wholes) < 2:  # members of one are in groups of the other
            break
    return judged


def _with_members(judged: Judged, codes: Ints, ranked: npt.NDArray[np.bool_]) -> Judged:
    n_gallery = len(codes)
    order = np.argsort(codes, kind="stable")
    order = order[ranked[order]]
    starts = np.searchsorted(codes[order], np.arange(int(codes.max()) + 2))
    touched = np.unique(judged.query * (int(codes.max()) + 1) + codes[judged.item])
    query, group = np.divmod(touched, int(codes.max()) + 1)
    size = (starts[1:] - starts[:-1])[group]
    members = order[ranges(starts[group], size)]
    key = np.repeat(query, size) * n_gallery + members
    own = judged.query * n_gallery + judged.item
    every = np.union1d(key, own)
    place = np.searchsorted(every, own)
    role, grade = np.zeros(len(every), np.int8), np.zeros(len(every))
    role[place], grade[place] = judged.role, judged.grade
    n_query = len(judged.offsets) - 1
    return Judged(
        np.searchsorted(every, np.arange(n_query + 1) * n_gallery).astype(np.int64),
        every % n_gallery,
        role,
        grade,
    )


def best_members(
    judged: Judged,
    order: npt.NDArray[np.int32],
    codes: Ints,
    kept: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Mark, for each query and judged group, the best item that is not ignored."""
    pairs = np.flatnonzero((judged.role != IGNORED) & kept)
    key = judged.query[pairs] * (int(codes.max()) + 1) + codes[judged.item[pairs]]
    by_group = np.lexsort((order[pairs], key))
    first = np.ones(len(by_group), bool)
    first[1:] = key[by_group][1:] != key[by_group][:-1]
    mask = np.zeros(len(judged.item), bool)
    mask[pairs[by_group[first]]] = True
    return mask


def count_groups(
    source: Source | None,
    judged: Judged,
    groups: Groups,
    codes: Ints,
    columns: Ints,
    keeps: npt.NDArray[np.bool_],
    row_stratum: npt.NDArray[np.int32],
    tie: Ints,
) -> GroupCounts:
    """Count unjudged groups against the best member of each judged one.

    `groups` are the scores of these members, `keeps` (n_query, S) the strata each query keeps,
    `columns` the rows to be counted.
    """
    if source is None:
        raise NotCountedError("groups are not counted in ranked lists: give features or a matrix")
    counter = Counter(judged, groups, tie, 1, 1, bisect=source.kernels.bisect)
    columns = columns[np.argsort(codes[columns], kind="stable")]
    starts = np.flatnonzero(np.r_[True, codes[columns][1:] != codes[columns][:-1]])
    for begin, end in _cuts(starts, len(columns)):
        _count_part(source, judged, groups, counter, codes, columns[begin:end], keeps,
                    row_stratum, tie)  # fmt: skip
    above, tied, before = counter.result()
    n_unjudged = _unjudged(judged, codes, columns, keeps, row_stratum)
    return GroupCounts(above[:, 0], tied[:, 0], before[:, 0], n_unjudged)


def _cuts(starts: Ints, total: int) -> list[tuple[int, int]]:
    """Cut rows into parts of whole groups."""
    parts, begin = [], 0
    edges = np.r_[starts, total]
    while begin < total:
        place = int(np.searchsorted(edges, begin + _COLUMNS, side="right")) - 1
        end = int(edges[place])
        if end <= begin:
            end = int(edges[np.searchsorted(edges, begin, side="right")])
        parts.append((begin, end))
        begin = end
    return parts


def _count_part(
    source: Source,
    judged: Judged,
    groups: Groups,
    counter: Counter,
    codes: Ints,
    items: Ints,
    keeps: npt.NDArray[np.bool_],
    row_stratum: npt.NDArray[np.int32],
    tie: Ints,
) -> None:
    theirs = source.columns(items)
    starts = np.flatnonzero(np.r_[True, codes[items][1:] != codes[items][:-1]])
    column_of = np.full(len(codes), -1, np.int64)
    column_of[items] = np.arange(len(items))
    inside = np.flatnonzero(column_of[judged.item] >= 0)
    n_query = len(groups.start) - 1
    for first in range(0, n_query, _ROWS):
        queries = slice(first, min(first + _ROWS, n_query))
        ours = source.queries(queries)
        scores, margin, _ = source.tile(ours, theirs)
        mine = inside[(judged.query[inside] >= queries.start)
                      & (judged.query[inside] < queries.stop)]  # fmt: skip
        scores[judged.query[mine] - first, column_of[judged.item[mine]]] = -np.inf
        dropped = ~keeps[queries][:, row_stratum[items]]
        scores[dropped] = -np.inf
        best = np.maximum.reduceat(scores, starts, axis=1)
        exact = _Best(source, ours, theirs, scores, margin, starts, items, tie[items], first)
        Lines(groups, queries, counter, source.kernels).count(best, margin, exact.resolve)


class _Best:
    """The best item of a group for a query, by canonical score and tie order."""

    def __init__(
        self,
        source: Source,
        ours: Any,
        theirs: Any,
        scores: Any,
        margin: Any,
        starts: Ints,
        items: Ints,
        tie: Ints,
        first: int,
    ) -> None:
        self._source, self._ours, self._theirs = source, ours, theirs
        self._scores, self._margin = scores, margin
        self._starts, self._items, self._tie, self._first = starts, items, tie, first

    def resolve(
        self, row: Ints, group: Ints
    ) -> tuple[Ints, Ints, npt.NDArray[np.float64], Ints]:
        """Return query, item, canonical score and stratum of the best item of each group."""
        ends = np.r_[self._starts[1:], len(self._items)]
        size = (ends - self._starts)[group]
        column = ranges(self._starts[group], size)
        number = np.repeat(np.arange(len(row)), size)
        value = self._scores[row[number], column]
        top = np.maximum.reduceat(value, np.r_[0, np.cumsum(size)[:-1]])
        near = value >= top[number] - 2 * self._margin[row[number]]
        near &= value > -np.inf
        number, column = number[near], column[near]
        item = self._items[column]
        score = self._source.exactly(self._ours, self._theirs, row[number], column)
        order = np.lexsort((self._tie[column], -score, number))
        first = np.flatnonzero(np.r_[True, number[order][1:] != number[order][:-1]])
        chosen = order[first]
        return row + self._first, item[chosen], score[chosen], np.zeros_like(row)


def _unjudged(
    judged: Judged,
    codes: Ints,
    columns: Ints,
    keeps: npt.NDArray[np.bool_],
    row_stratum: npt.NDArray[np.int32],
) -> Ints:
    """Count the groups with a kept item and no judged one, for each query."""
    n_query, n_groups = len(keeps), int(codes.max()) + 1
    masks, pattern = np.unique(keeps, axis=0, return_inverse=True)
    held = np.zeros((len(masks), n_groups), bool)
    for place, mask in enumerate(masks):
        rows = columns[mask[row_stratum[columns]]]
        held[place, codes[rows]] = True
    total = held.sum(axis=1)[pattern.ravel()]
    inside = np.isin(judged.item, columns)
    touched = np.unique(judged.query[inside] * n_groups + codes[judged.item[inside]])
    query, group = np.divmod(touched, n_groups)
    own = np.bincount(query[held[pattern.ravel()[query], group]], minlength=n_query)
    return np.asarray(total - own, dtype=np.int64)
