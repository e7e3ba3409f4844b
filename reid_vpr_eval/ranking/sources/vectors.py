"""What all scores of two vectors share: reading, preparing, and pairs in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from reid_vpr_eval.errors import ScoreError
from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.ranking.sources.base import Array, Care, Floats, Ints, Rows, TileScores
from reid_vpr_eval.relevance.pairs import ranges
from reid_vpr_eval.scores import Embeddings

__all__ = ["VectorSource", "names_of"]

_NUMBERS_AT_ONCE = 1 << 21
_PAIRS_AT_ONCE = 1 << 16
_PAIRS_IN_VIEW = 1 << 19
_SPARSE = 16  # positions among so many are sorted, others are marked

SideName: TypeAlias = Literal["query", "gallery"]


class VectorSource(ABC):
    """Reads vectors a block at a time; a kind of scores says how they are compared.

    A subclass sets `dim` and `itemsize`, prepares vectors, and scores those it prepared.
    """

    exact: ClassVar[bool] = False
    dim: int
    itemsize: int

    def __init__(self, scores: Embeddings, kernels: Kernels) -> None:
        self.kernels = kernels
        self.streams = not isinstance(scores.gallery, np.ndarray)
        self.symmetric = scores.gallery is scores.query
        self._metric = scores.metric
        self._sides = {"query": scores.query, "gallery": scores.gallery}
        self._bad = {"query": scores.bad_query, "gallery": scores.bad_gallery}

    @abstractmethod
    def _prepare(
        self, side: SideName, rows: Rows, read: Array | None = None, out: Array | None = None
    ) -> Any:
        """Bring some vectors, read before or now, into the form that is scored."""

    @abstractmethod
    def exactly(self, ours: Any, theirs: Any, row: Ints, column: Ints) -> Floats:
        """Return the canonical scores of some places of a tile."""

    @abstractmethod
    def tile(
        self, ours: Any, theirs: Any, out: Array | None = None, *, care: Care = 0
    ) -> TileScores:
        """Return the scores of prepared queries and items, and how far off they may be."""

    def queries(self, rows: slice) -> Any:
        """Read and prepare some queries."""
        return self._prepare("query", rows)

    def fetch(self, items: Rows) -> Array:
        """Read some gallery items."""
        return self._read("gallery", items)

    def columns(
        self, items: Rows, fetched: Array | None = None, out: Array | None = None
    ) -> Any:
        """Prepare some gallery items, read before or now."""
        return self._prepare("gallery", items, fetched, out)

    def pairs(self, query: Ints, item: Ints, workers: int = 1) -> Floats:
        """Return the canonical score of each pair of positions.

        Pairs are taken query by query, those with the same items one after the other, so
        that an item is prepared once for many of them.
        """
        out = np.empty(len(query))

        def score(part: Ints) -> None:
            rows, row = _distinct(query[part])
            items, column = _distinct(item[part])
            ours, theirs = self._prepare("query", rows), self._prepare("gallery", items)
            out[part] = self.exactly(ours, theirs, row, column)

        parts = _parts(query, item, max(1, _NUMBERS_AT_ONCE // self.dim))
        if workers > 1 and len(query) * self.dim > _NUMBERS_AT_ONCE:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(score, parts))
        else:
            for part in parts:
                score(part)
        bad = np.flatnonzero(~np.isfinite(out))
        if len(bad):
            raise self._no_score(len(bad), query[bad[0]], item[bad[0]])
        return out

    def _no_score(self, n: int, query: int, item: int) -> ScoreError:
        """Return the error of pairs without a finite score."""
        return ScoreError(
            f"scores overflow for {n} pairs (query {query}, gallery row {item}): scale the "
            "features down"
        )

    def _read(self, side: SideName, rows: Rows) -> Array:
        return np.asarray(self._sides[side][rows])

    def _in_memory(self, side: SideName) -> Array | None:
        """Return all vectors of a side, unless they are read from files."""
        vectors = self._sides[side]
        return vectors if isinstance(vectors, np.ndarray) else None

    def _bad_rows(self, side: SideName, rows: Rows) -> Array | None:
        bad = self._bad[side]
        return None if bad is None else bad[rows]


def names_of(rows: Rows, places: Ints) -> Ints:
    """Return the positions on their side of some places of a block."""
    return places + rows.start if isinstance(rows, slice) else rows[places]


def _distinct(positions: Ints) -> tuple[Ints, Ints]:
    """Return the distinct positions, ascending, and where among them each one stands."""
    least = int(positions.min())
    width = int(positions.max()) - least + 1
    if width > _SPARSE * len(positions):
        return np.unique(positions, return_inverse=True)
    near = positions - least
    named = np.zeros(width, bool)
    named[near] = True
    place = np.cumsum(named) - 1
    return np.flatnonzero(named) + least, place[near]


def _parts(query: Ints, item: Ints, at_once: int) -> Iterator[Ints]:
    """Yield the pairs in parts, made from so many at a time that this needs little memory."""
    for begin in range(0, len(query), _PAIRS_IN_VIEW):
        some = slice(begin, begin + _PAIRS_IN_VIEW)
        for part in _by_items(query[some], item[some], at_once):
            yield part + begin


def _by_items(query: Ints, item: Ints, at_once: int) -> list[Ints]:
    """Cut pairs into parts that name about `at_once` items each.

    Queries come in the order of their first item; one that seems to name the items of the query
    before it is taken to add none, and so is one with items among those, where they lie close
    together: all such name no more than twice as many items as the first one.
    """
    if not len(query):
        return []
    order = np.argsort(query, kind="stable") if (query[1:] < query[:-1]).any() else None
    asking, named = (query, item) if order is None else (query[order], item[order])
    starts = np.flatnonzero(np.r_[True, asking[1:] != asking[:-1]])
    turn = np.argsort(named[starts], kind="stable")
    begin, size = starts[turn], np.diff(np.r_[starts, len(query)])[turn]
    pieces = -(-size // at_once)  # of a query with very many items
    done = ranges(np.zeros_like(pieces), pieces) * at_once
    begin = np.repeat(begin, pieces) + done
    size = np.minimum(np.repeat(size, pieces) - done, at_once)
    pairs = ranges(begin, size)
    firsts = np.cumsum(size) - size
    least, most, total = (
        of.reduceat(named[pairs], firsts) for of in (np.minimum, np.maximum, np.add)
    )
    looks = np.stack([size, named[begin], total])
    known = (looks[:, 1:] == looks[:, :-1]).all(axis=0)
    close = most[:-1] - least[:-1] < 2 * size[:-1]
    known |= close & (least[1:] >= least[:-1]) & (most[1:] <= most[:-1])
    cost = np.where(np.r_[False, known], 0, size)
    part = np.cumsum(cost) // at_once + np.cumsum(size) // _PAIRS_AT_ONCE
    cuts = firsts[np.flatnonzero(np.diff(part)) + 1]
    return np.split(pairs if order is None else order[pairs], cuts)
