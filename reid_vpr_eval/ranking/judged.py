"""The judged pairs of a ranking: joined, scored, ordered and put into tie groups."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError
from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.relevance.pairs import POSITIVE, build

#: Judged pairs from which on several threads sort them.
_MANY_PAIRS = 1 << 14

__all__ = ["Groups", "Judged", "join", "order_of"]


@dataclass(frozen=True, eq=False)
class Judged:
    """All judged pairs by query and gallery position, with the roles of the relevance."""

    offsets: npt.NDArray[np.int64]
    query: npt.NDArray[np.int64]
    item: npt.NDArray[np.int64]
    role: npt.NDArray[np.int8]
    grade: npt.NDArray[np.float64]

    def __getstate__(self) -> dict[str, Any]:
        """Send only what was given."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def mirrored(self) -> npt.NDArray[np.int64] | None:
        """The place of the pair (j, i) for each pair (i, j), of the same items.

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
    group, `of_pair` the group of each pair (-1: not counted).
    """

    start: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    of_pair: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls,
        judged: Judged,
        score: npt.NDArray[np.float64],
        counted: npt.NDArray[np.bool_],
        ordered: npt.NDArray[np.int64],
    ) -> Groups:
        """Group the counted pairs by query and score; `ordered` is that of :func:`order_of`."""
        ends = judged.offsets[judged.query] + judged.offsets[judged.query + 1] - 1
        ascending = ordered[ends - np.arange(len(ordered))]
        ascending = ascending[counted[ascending]]
        query, value = judged.query[ascending], score[ascending]
        new = np.ones(len(ascending), bool)
        new[1:] = (query[1:] != query[:-1]) | (value[1:] != value[:-1])
        of_pair = np.full(len(judged.item), -1, np.int64)
        of_pair[ascending] = np.cumsum(new) - 1
        n_query = len(judged.offsets) - 1
        start = np.searchsorted(query[new], np.arange(n_query + 1))
        return cls(start.astype(np.int64), value[new], of_pair)


def join(
    relevance: Relevance, others: Sequence[Relevance], *, count_ignored: bool
) -> Judged:
    """Join what every relevance judges; the roles are those of the first one."""
    n_query, n_gallery = relevance.n_query, relevance.n_gallery
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
    if len(found) == 1:
        query, item, role, grade, _ = found[0]
        return Judged(relevance.offsets, query, item, role, grade)
    dropped = np.zeros(n_gallery, bool) if count_ignored else relevance.ignored_gallery
    joined = build(
        n_query, n_gallery, found, ignored_gallery=dropped, no_positive=relevance.no_positive
    )
    return Judged(
        joined.offsets, joined.query_of_pair(), joined.item, joined.role, joined.grade
    )


def order_of(
    judged: Judged,
    score: npt.NDArray[np.float64],
    tie: npt.NDArray[np.int64],
    kernels: Kernels,
    workers: int = 1,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return each pair's place and tie group within its query, and the sorted pairs.

    The pairs of a query are sorted by falling score and then by tie order.
    """
    offsets, n_query = judged.offsets, len(judged.offsets) - 1
    ordered = np.empty(len(score), np.int64)
    order, group = (np.empty(len(score), np.int32) for _ in range(2))

    def sort(queries: tuple[int, int]) -> None:
        own = offsets[queries[0] : queries[1] + 1]
        pairs = slice(own[0], own[-1])
        found = kernels.ranked(score[pairs], tie[judged.item[pairs]], own - own[0])
        np.add(found[0], own[0], out=ordered[pairs])
        order[pairs], group[pairs] = found[1:]

    n_shares = workers if len(score) >= _MANY_PAIRS else 1
    shares = np.searchsorted(offsets, np.linspace(0, len(score), n_shares + 1)[1:-1]).tolist()
    with ThreadPoolExecutor(n_shares) as pool:
        list(pool.map(sort, pairwise([0, *shares, n_query])))
    return order, group, ordered


def best_positive(
    judged: Judged, ordered: npt.NDArray[np.int64], effective: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Mark the best positive pair of each query (of those that are `effective`)."""
    mask = np.zeros(len(judged.item), bool)
    positive = ordered[((judged.role == POSITIVE) & effective)[ordered]]
    query = judged.query[positive]
    first = np.ones(len(positive), bool)
    first[1:] = query[1:] != query[:-1]
    mask[positive[first]] = True
    return mask
