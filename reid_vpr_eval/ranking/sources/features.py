"""Scores of feature vectors: a matrix product with a proven error bound."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from reid_vpr_eval.errors import ScoreError, name_some
from reid_vpr_eval.ranking import canonical
from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.ranking.sources.base import LAST, Array, Floats, Ints, Rows, TileScores
from reid_vpr_eval.relevance.pairs import ranges
from reid_vpr_eval.scores import Embeddings

__all__ = ["FeatureSource"]

_NUMBERS_AT_ONCE = 1 << 21
_PAIRS_AT_ONCE = 1 << 16
_SAFE_IN_FLOAT32 = 1e18
_LONGEST = 1e150
_LONGEST_DIM = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Prepared vectors, as canonical scores are made of them, and what bounds need."""

    vectors: Array
    lengths: Floats
    bad: Array | None

    def as_type(self, kind: Any) -> Array:
        return self.vectors.astype(kind, copy=False)


class FeatureSource:
    """Prepares vectors a block at a time and multiplies blocks."""

    exact = False

    def __init__(self, scores: Embeddings, kernels: Kernels) -> None:
        self.kernels = kernels
        self.dim = scores.dim
        self.itemsize = 8 if np.float64 in (scores.query.dtype, scores.gallery.dtype) else 4
        self.streams = not isinstance(scores.gallery, np.ndarray)
        self.symmetric = scores.gallery is scores.query
        self._squared = not scores.higher_is_better
        self._unit = scores.metric == "cosine"
        self._sides = {"query": scores.query, "gallery": scores.gallery}
        self._bad = {"query": None, "gallery": scores.bad_gallery}

    def queries(self, rows: slice) -> _Side:
        """Read and prepare some queries."""
        return self._prepare("query", rows)

    def fetch(self, items: Rows) -> Array:
        """Read some gallery items."""
        return np.asarray(self._sides["gallery"][items])

    def columns(
        self, items: Rows, fetched: Array | None = None, out: Array | None = None
    ) -> _Side:
        """Prepare some gallery items, read before or now."""
        return self._prepare("gallery", items, fetched, out)

    def pairs(self, query: Ints, item: Ints, workers: int = 1) -> Floats:
        """Return the canonical score of each pair of positions.

        Pairs are taken query by query, those with the same items one after the other, so
        that an item is prepared once for many of them.
        """
        out = np.empty(len(query))

        def score(part: Ints) -> None:
            rows, row = np.unique(query[part], return_inverse=True)
            items, column = np.unique(item[part], return_inverse=True)
            ours, theirs = self._prepare("query", rows), self._prepare("gallery", items)
            out[part] = self.exactly(ours, theirs, row, column)

        parts = _by_items(query, item, max(1, _NUMBERS_AT_ONCE // self.dim))
        if workers > 1 and len(query) * self.dim > _NUMBERS_AT_ONCE:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(score, parts))
        else:
            for part in parts:
                score(part)
        if not np.isfinite(out).all():
            bad = np.flatnonzero(~np.isfinite(out))
            raise ScoreError(
                f"scores overflow for {len(bad)} pairs (query {query[bad[0]]}, gallery row "
                f"{item[bad[0]]}): scale the features down"
            )
        return out

    def exactly(self, ours: _Side, theirs: _Side, row: Ints, column: Ints) -> Floats:
        """Return the canonical scores of some places of a tile."""
        out = self.kernels.pair_scores(
            ours.vectors, theirs.vectors, row, column, squared_distance=self._squared
        )
        if theirs.bad is not None:
            out[theirs.bad[column]] = LAST
        return out

    def tile(
        self, ours: _Side, theirs: _Side, out: Array | None = None, *, double: bool = False
    ) -> TileScores:
        """Return the scores of prepared queries and items, and how far off they may be."""
        kind = np.float64 if double or not self._fits_float32(ours, theirs) else np.float32
        left, right = ours.as_type(kind), theirs.as_type(kind)
        size = len(left) * len(right)
        if out is None or out.dtype != kind or len(out) < size:
            out = np.empty(size, kind)
        product: Array = out[:size].reshape(len(left), len(right))
        np.matmul(left, right.T, out=product)
        if self._squared:
            np.multiply(product, 2, out=product)
            np.subtract(product, (theirs.lengths**2).astype(kind), out=product)
            np.subtract(product, (ours.lengths**2).astype(kind)[:, None], out=product)
        if theirs.bad is not None:
            product[:, theirs.bad] = np.finfo(kind).min
        return TileScores(
            product,
            self._bound(ours.lengths, float(theirs.lengths.max()), kind),
            self._bound(theirs.lengths, float(ours.lengths.max()), kind),
        )

    def _fits_float32(self, ours: _Side, theirs: _Side) -> bool:
        if ours.vectors.dtype != np.float32 or theirs.vectors.dtype != np.float32:
            return False
        longest = max(ours.lengths.max(), theirs.lengths.max())
        return bool(longest < _SAFE_IN_FLOAT32 and self.dim < _LONGEST_DIM)

    def _bound(self, lengths: Floats, longest: float, kind: Any) -> Floats:
        """Bound the distance of a score from the canonical one, for vectors of these lengths.

        Any order of summation of d products in a type of unit roundoff u errs by at most
        d u / (1 - d u) times the product of the lengths; the canonical sum by (log2 d + 4)
        2^-53 of the same. Squared distances add the rounding of the two squared lengths and
        of two subtractions. Products that underflow add at most one smallest normal number each.
        """
        unit = 2.0**-24 if kind == np.float32 else 2.0**-53
        smallest = 2.0**-125 if kind == np.float32 else 2.0**-1021
        ours, theirs = lengths * (1 + 1e-6), longest * (1 + 1e-6)
        relative = self.dim * unit / (1 - self.dim * unit)
        own = (np.log2(max(self.dim, 2)) + 4) * 2.0**-53
        if self._squared:
            bound = 2 * relative * ours * theirs + (6 * unit + 3 * own) * (ours + theirs) ** 2
        else:
            bound = (relative + own) * ours * theirs
        return np.asarray(bound * (1 + 1e-6) + (self.dim + 4) * smallest)

    def _prepare(
        self, side: str, rows: Rows, read: Array | None = None, out: Array | None = None
    ) -> _Side:
        vectors = canonical.components(self._sides[side][rows] if read is None else read)
        if self._unit:
            made = None
            if out is not None and vectors.dtype == out.dtype and vectors.size <= len(out):
                made = out[: vectors.size].reshape(vectors.shape)
            vectors, lengths = self.kernels.unit(vectors, made), np.ones(len(vectors))
        else:
            lengths = self.kernels.lengths(vectors)
            _check_lengths(side, rows, lengths)
        bad = self._bad[side]
        return _Side(vectors, lengths, None if bad is None else bad[rows])


def _check_lengths(side: str, rows: Rows, lengths: Floats) -> None:
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths > _LONGEST))
    if len(bad):
        where = bad + rows.start if isinstance(rows, slice) else rows[bad]
        raise ScoreError(
            f"{side} features: vectors are too long to be scored (rows {name_some(where)}); "
            "scale the features down"
        )


def _by_items(query: Ints, item: Ints, at_once: int) -> list[Ints]:
    """Cut pairs into parts that name about `at_once` items each.

    Queries come in the order of their first item; one that seems to name the items of the query
    before it is taken to add none.
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
    looks = np.stack([size, named[begin], np.add.reduceat(named[pairs], firsts)])
    cost = np.where(np.r_[False, (looks[:, 1:] == looks[:, :-1]).all(axis=0)], 0, size)
    part = np.cumsum(cost) // at_once + np.cumsum(size) // _PAIRS_AT_ONCE
    cuts = firsts[np.flatnonzero(np.diff(part)) + 1]
    return np.split(pairs if order is None else order[pairs], cuts)
