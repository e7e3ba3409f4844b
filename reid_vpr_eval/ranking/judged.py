"""The judged pairs of a ranking: joined, scored, ordered and put into tie groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError
from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.relevance.pairs import POSITIVE, build

#: Judged pairs that are worked on at once.
_PAIRS_AT_ONCE = 1 << 17

__all__ = ["Groups", "Judged", "best_positive", "in_blocks", "join", "order_of"]


@dataclass(frozen=True, eq=False)
class Judged:
    """All judged pairs by query and gallery position, with the roles of the relevance."""

    offsets: npt.NDArray[np.int64]
    item: npt.NDArray[np.int64]
    role: npt.NDArray[np.int8]
    grade: npt.NDArray[np.float64]

    def __getstate__(self) -> dict[str, Any]:
        """Send only what was given."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def query(self) -> npt.NDArray[np.int64]:
        """The query of each pair; where there are very many, better asked for some queries."""
        return self.query_of(slice(0, len(self.offsets) - 1))

    def query_of(self, queries: slice) -> npt.NDArray[np.int64]:
        """Return the query of each pair of consecutive queries."""
        size = np.diff(self.offsets[queries.start : queries.stop + 1])
        return np.repeat(np.arange(queries.start, queries.stop), size)

    def mirror(self) -> npt.NDArray[np.int64] | None:
        """Return the place of the pair (j, i) for each pair (i, j), of the same items.

        None if some pair is judged in one direction only.
        """
        n = len(self.offsets) - 1
        if not np.array_equal(np.bincount(self.item, minlength=n), np.diff(self.offsets)):
            return None
        from scipy.sparse import csr_array

        number = np.arange(len(self.item), dtype=np.int64)
        other = csr_array((number, self.item, self.offsets), shape=(n, n)).tocsc()
        same = np.array_equal(other.indptr, self.offsets)
        return other.data if same and np.array_equal(other.indices, self.item) else None

    def among(
        self, columns: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return where the judged items of each query stand among some gallery rows.

        Offsets (n_query + 1,) and ascending places, those of query i between two offsets; items
        that are not among the rows have none.
        """
        if not len(self.item) or np.array_equal(columns, np.arange(len(columns))):
            inside = self.item < len(columns)
            if inside.all():
                return self.offsets, self.item
        place = np.full(max(int(self.item.max()), int(columns.max(initial=0))) + 1, -1)
        place[columns] = np.arange(len(columns))
        found = place[self.item]
        kept = found >= 0
        query, found = self.query[kept], found[kept]
        offsets = np.searchsorted(query, np.arange(len(self.offsets)))
        if ((found[1:] < found[:-1]) & (query[1:] == query[:-1])).any():
            key = np.sort(query * len(columns) + found)
            found = key - query * len(columns)
        return offsets, found


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The distinct scores of each query's judged items, ascending: the thresholds.

    `start` (n_query + 1,) bounds the groups of each query, `score` is the threshold of each
    group, `of_pair` the group of each pair (-1: not counted), int32 where that holds them.
    """

    start: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    of_pair: npt.NDArray[Any]

    @classmethod
    def of(
        cls,
        judged: Judged,
        score: npt.NDArray[np.float64],
        counted: npt.NDArray[np.bool_],
        order: npt.NDArray[np.int32],
        workers: int = 1,
    ) -> Groups:
        """Group the counted pairs by query and score; `order` is that of :func:`order_of`."""
        n_query = len(judged.offsets) - 1
        kind = np.int32 if len(score) < 2**31 else np.int64
        of_pair: npt.NDArray[Any] = np.full(len(score), -1, kind)
        start = np.zeros(n_query + 1, np.int64)
        thresholds: dict[int, npt.NDArray[np.float64]] = {}

        def group(queries: slice, pairs: slice) -> None:
            query = judged.query_of(queries)
            falling = _sorted(order[pairs], judged.offsets[query] - pairs.start) + pairs.start
            stays = counted[falling]
            falling, query = falling[stays], query[stays] - queries.start
            value = score[falling]
            new = np.ones(len(falling), bool)
            new[1:] = (query[1:] != query[:-1]) | (value[1:] != value[:-1])
            size = np.bincount(query[new], minlength=queries.stop - queries.start)
            first = np.cumsum(size) - size
            # those of a query are numbered by falling score so far, and are to be ascending
            number = (2 * first + size)[query] - np.cumsum(new)
            of_pair[falling] = number
            start[queries.start + 1 : queries.stop + 1] = size
            thresholds[queries.start] = found = np.empty(int(size.sum()))
            found[number[new]] = value[new]

        def shift(queries: slice, pairs: slice) -> None:
            of_pair[pairs][of_pair[pairs] >= 0] += start[queries.start]

        in_blocks(judged.offsets, group, workers)
        np.cumsum(start, out=start)
        in_blocks(judged.offsets, shift, workers)
        ascending = [thresholds[begin] for begin in sorted(thresholds)]
        return cls(start, np.concatenate(ascending or [np.empty(0)]), of_pair)


def in_blocks(
    offsets: npt.NDArray[np.int64], work: Callable[[slice, slice], None], workers: int
) -> None:
    """Do something for some queries and their pairs at a time, by several threads.

    So many pairs are taken at once that what is made of them stays in the cache.
    """
    cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], _PAIRS_AT_ONCE)[1:])
    edges = np.unique(np.r_[0, cuts, len(offsets) - 1]).tolist()
    blocks = [(slice(a, b), slice(int(offsets[a]), int(offsets[b]))) for a, b in pairwise(edges)]
    if workers == 1 or len(blocks) <= 1:
        for block in blocks:
            work(*block)
        return
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(copy_context().run, partial(work, *block)) for block in blocks]
        for turn in running:
            turn.result()


def join(
    relevance: Relevance, others: Sequence[Relevance], *, count_ignored: bool
) -> Judged:
    """Join what every relevance judges; the roles are those of the first one."""
    n_query, n_gallery = relevance.n_query, relevance.n_gallery
    if not others:
        return Judged(relevance.offsets, relevance.item, relevance.role, relevance.grade)
    found = []
    for number, part in enumerate([relevance, *others]):
        if (part.n_query, part.n_gallery) != (n_query, n_gallery):
            raise AlignmentError(
                f"judge[{number - 1}] is for {part.n_query} queries and {part.n_gallery} gallery "
                f"rows, the relevance for {n_query} and {n_gallery}"
            )
        own = np.full(len(part.item), number == 0)
        role, grade = part.role, part.grade
        if number:
            role, grade = np.zeros_like(role), np.zeros_like(grade)
        found.append((part.query_of_pair(), part.item, role, grade, own))
    dropped = np.zeros(n_gallery, bool) if count_ignored else relevance.ignored_gallery
    joined = build(
        n_query, n_gallery, found, ignored_gallery=dropped, no_positive=relevance.no_positive
    )
    return Judged(joined.offsets, joined.item, joined.role, joined.grade)


def order_of(
    judged: Judged,
    score: npt.NDArray[np.float64],
    tie: npt.NDArray[np.int64],
    kernels: Kernels,
    workers: int = 1,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return each pair's place and tie group within its query.

    The pairs of a query are sorted by falling score and then by tie order.
    """
    offsets = judged.offsets
    order, group = (np.empty(len(score), np.int32) for _ in range(2))

    def sort(queries: slice, pairs: slice) -> None:
        own = offsets[queries.start : queries.stop + 1] - pairs.start
        found = kernels.ranked(score[pairs], tie[judged.item[pairs]], own)
        order[pairs], group[pairs] = found[1:]

    in_blocks(offsets, sort, workers)
    return order, group


def _sorted(
    order: npt.NDArray[np.int32], first: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return pairs as they are sorted, query by query; `first` is the first one of the query."""
    ordered = np.empty(len(order), np.int64)
    ordered[first + order] = np.arange(len(order))
    return ordered


def best_positive(
    judged: Judged, order: npt.NDArray[np.int32], effective: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Mark the best positive pair of each query (of those that are `effective`)."""
    mask = np.zeros(len(judged.item), bool)
    ordered = _sorted(order, judged.offsets[judged.query])
    positive = ordered[((judged.role == POSITIVE) & effective)[ordered]]
    query = judged.query[positive]
    first = np.ones(len(positive), bool)
    first[1:] = query[1:] != query[:-1]
    mask[positive[first]] = True
    return mask
