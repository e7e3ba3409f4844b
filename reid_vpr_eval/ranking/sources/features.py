"""Scores of feature vectors: a matrix product with a proven error bound."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from reid_vpr_eval.errors import ScoreError, name_some
from reid_vpr_eval.ranking import canonical
from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.ranking.sources.base import LAST, Array, Care, Floats, Ints, Rows, TileScores
from reid_vpr_eval.ranking.sources.vectors import SideName, VectorSource, names_of
from reid_vpr_eval.scores import Embeddings

__all__ = ["FeatureSource"]

_SAFE_IN_FLOAT32 = 1e18
_LONGEST = 1e150
_LONGEST_DIM = 1 << 20
_AS_ONE = (slice(None),)
_SMALLEST_PIECE, _MOST_PIECES = 128, 8
_SUBNORMAL = np.finfo(np.float64).smallest_subnormal


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Prepared vectors, as canonical scores are made of them, and what bounds need."""

    vectors: Array
    lengths: Floats
    whole: bool
    bad: Array | None

    def as_type(self, kind: Any) -> Array:
        return self.vectors.astype(kind, copy=False)

    def squares(self, kind: Any) -> Array:
        squares = self.lengths**2
        return (np.rint(squares) if self.whole else squares).astype(kind)


class Memory:
    """A piece of memory for each thread, kept from one use to the next."""

    def __init__(self) -> None:
        self._local = threading.local()

    def mine(self, size: int) -> Array:
        """Return float32 memory of at least this size; what it held is lost."""
        kept: Array | None = getattr(self._local, "memory", None)
        if kept is None or len(kept) < size:
            kept = self._local.memory = np.empty(size, np.float32)
        return kept


def _pieces_of(dim: int) -> tuple[slice, ...]:
    """Cut a product into pieces whose errors are small and whose additions cost little."""
    n_pieces = max(1, min(_MOST_PIECES, dim // _SMALLEST_PIECE))
    step = -(-dim // n_pieces)
    return tuple(slice(start, min(start + step, dim)) for start in range(0, dim, step))


class FeatureSource(VectorSource):
    """Multiplies blocks of features."""

    def __init__(self, scores: Embeddings, kernels: Kernels) -> None:
        super().__init__(scores, kernels)
        self.dim = scores.dim
        kinds = (scores.query.dtype, scores.gallery.dtype)
        self.itemsize = max(np.dtype(canonical.component_type(kind)).itemsize for kind in kinds)
        self._squared = not scores.higher_is_better
        self._unit = scores.metric == "cosine"
        self._pieces = _pieces_of(self.dim)
        self._scratch = Memory()

    def exactly(self, ours: _Side, theirs: _Side, row: Ints, column: Ints) -> Floats:
        """Return the canonical scores of some places of a tile."""
        out = self.kernels.pair_scores(
            ours.vectors, theirs.vectors, row, column, squared_distance=self._squared
        )
        if theirs.bad is not None:
            out[theirs.bad[column]] = LAST
        return out

    def tile(
        self, ours: _Side, theirs: _Side, out: Array | None = None, *, care: Care = 0
    ) -> TileScores:
        """Return the scores of prepared queries and items, and how far off they may be."""
        kind = np.float64 if care == 2 or not self._fits_float32(ours, theirs) else np.float32
        left, right = ours.as_type(kind), theirs.as_type(kind)
        size = len(left) * len(right)
        if out is None or out.dtype != kind or len(out) < size:
            out = np.empty(size, kind)
        product: Array = out[:size].reshape(len(left), len(right))
        pieces = self._pieces if care == 1 and kind == np.float32 else _AS_ONE
        np.matmul(left[:, pieces[0]], right[:, pieces[0]].T, out=product)
        if len(pieces) > 1:
            part = self._scratch.mine(size)[:size].reshape(product.shape)
            for piece in pieces[1:]:
                np.matmul(left[:, piece], right[:, piece].T, out=part)
                np.add(product, part, out=product)
        if self._squared:
            np.multiply(product, 2, out=product)
            np.subtract(product, theirs.squares(kind), out=product)
            np.subtract(product, ours.squares(kind)[:, None], out=product)
        if theirs.bad is not None:
            product[:, theirs.bad] = np.finfo(kind).min
        if self._is_exact(ours, theirs, kind):
            return TileScores(product, np.zeros(len(left)), np.zeros(len(right)))
        n_terms = self.dim
        if len(pieces) > 1:
            n_terms = max(piece.stop - piece.start for piece in pieces) + len(pieces) - 1
        return TileScores(
            product,
            self._bound(ours.lengths, float(theirs.lengths.max()), kind, n_terms),
            self._bound(theirs.lengths, float(ours.lengths.max()), kind, n_terms),
        )

    def _is_exact(self, ours: _Side, theirs: _Side, kind: Any) -> bool:
        """Whether the vectors are whole numbers so small that nothing is rounded.

        No sum of some of the products exceeds the product of the two lengths, whatever the
        order of summation.
        """
        if not (ours.whole and theirs.whole):
            return False
        longest, other = float(ours.lengths.max()), float(theirs.lengths.max())
        reach = (longest + other) ** 2 if self._squared else longest * other
        return reach * (1 + 1e-6) < (2.0**24 if kind == np.float32 else 2.0**53)

    def _fits_float32(self, ours: _Side, theirs: _Side) -> bool:
        if ours.vectors.dtype != np.float32 or theirs.vectors.dtype != np.float32:
            return False
        longest = max(ours.lengths.max(), theirs.lengths.max())
        return bool(longest < _SAFE_IN_FLOAT32 and self.dim < _LONGEST_DIM)

    def _bound(self, lengths: Floats, longest: float, kind: Any, n_terms: int) -> Floats:
        """Bound the distance of a score from the canonical one, for vectors of these lengths.

        Any order of summation of d products in a type of unit roundoff u errs by at most
        d u / (1 - d u) times the product of the lengths; the canonical sum by (log2 d + 4)
        2^-53 of the same. Squared distances add the rounding of the two squared lengths and
        of two subtractions, and double what the product errs by.

        A product made in m pieces of at most p components, which are then added one by one, errs
        by less: each piece by at most p u / (1 - p u) times the sum of the absolute values of its
        products, and all these sums together are at most the product of the two lengths (the
        inequality of Cauchy and Schwarz); the m - 1 additions err by at most (m - 1) u / (1 -
        (m - 1) u) times the sum of the absolute values of what the pieces gave. Together these
        are at most n u / (1 - n u) times the product of the lengths, with n = p + m - 1: the
        `n_terms`, which are d for a product made at once.

        Underflow adds to each of the 2 d operations of a product, and to the few that follow,
        at most the smallest normal number, half of `smallest`, even where hardware flushes
        subnormal results to zero; without that, far less. A length below the smallest normal
        number may be off by less than the smallest subnormal one.
        """
        unit = 2.0**-24 if kind == np.float32 else 2.0**-53
        smallest = 2.0**-125 if kind == np.float32 else 2.0**-1021
        ours, theirs = ((x + _SUBNORMAL) * (1 + 1e-6) for x in (lengths, np.float64(longest)))
        product = ours * theirs  # first: a tiny length would vanish in the product with a unit
        relative = n_terms * unit / (1 - n_terms * unit)
        own = (np.log2(max(self.dim, 2)) + 4) * 2.0**-53
        if self._squared:
            bound = 2 * relative * product + (6 * unit + 3 * own) * (ours + theirs) ** 2
        else:
            bound = (relative + own) * product
        n_small = (2 * self.dim if self._squared else self.dim) + _MOST_PIECES + 4
        return np.asarray(bound * (1 + 1e-6) + n_small * smallest)

    def _prepare(
        self, side: SideName, rows: Rows, read: Array | None = None, out: Array | None = None
    ) -> _Side:
        given, own = read, None
        if given is None and self._unit and not isinstance(rows, slice):
            given, own = self._in_memory(side), rows
        if given is None:
            given, own = self._read(side, rows), None
        if self._unit:
            n = len(given) if own is None else len(own)
            made = None
            if out is not None and n * self.dim <= len(out) and (
                canonical.component_type(given.dtype) == out.dtype
            ):
                made = out[: n * self.dim].reshape(n, self.dim)
            vectors, lengths = self.kernels.unit(given, made, own), np.ones(n)
        else:
            vectors = canonical.components(given)
            lengths = self.kernels.lengths(vectors)
            _check_lengths(side, rows, lengths)
        whole = given.dtype.kind in "iub" and not self._unit
        return _Side(vectors, lengths, whole, self._bad_rows(side, rows))


def _check_lengths(side: str, rows: Rows, lengths: Floats) -> None:
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths > _LONGEST))
    if len(bad):
        raise ScoreError(
            f"{side} features: vectors are too long to be scored (rows "
            f"{name_some(names_of(rows, bad))}); scale the features down"
        )
