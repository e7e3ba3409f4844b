"""Score sources: how the engine asks features or a matrix for scores.

A source gives two things: the canonical score of single pairs, and whole tiles of
approximate scores with a proven bound on how far each may be from the canonical one. In
both, larger is better.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import ScoreError, name_some
from reid_vpr_eval.ranking import canonical
from reid_vpr_eval.scores import Embeddings, ScoreMatrix

__all__ = ["EmbeddingSource", "MatrixSource", "Source", "source_of"]

Array: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = slice | npt.NDArray[np.int64]

_PAIRS_AT_ONCE = 4096
_SAFE_IN_FLOAT32 = 1e18
# The score of a vector that cannot be scored: below all others, and finite.
_LAST = np.finfo(np.float64).min


class Source(Protocol):
    """What the counting loop needs of scores."""

    dim: int

    def pairs(
        self, query: npt.NDArray[np.int64], item: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return the canonical score of each pair of positions."""
        ...

    def columns(self, items: Rows) -> Any:
        """Prepare the gallery side of a tile; handed to :meth:`tile`."""
        ...

    def tile(self, queries: slice, prepared: Any) -> tuple[Array, npt.NDArray[np.float64]]:
        """Return scores (rows, columns), writable, and the error bound of each row."""
        ...


class EmbeddingSource:
    """Scores of feature vectors: a matrix product with a proven error bound."""

    def __init__(self, scores: Embeddings) -> None:
        self.dim = scores.dim
        self._squared = not scores.higher_is_better
        self._unit = scores.metric == "cosine"
        self._gallery = scores.gallery
        self._bad = scores.bad_gallery
        self._query_norms = canonical.norms(scores.query)
        same = scores.gallery is scores.query
        self._gallery_norms = self._query_norms if same else canonical.norms(scores.gallery)
        self._query = self._prepare(scores.query, self._query_norms)
        self._check_size()
        both_single = self._query.dtype == np.float32 and scores.gallery.dtype != np.float64
        largest = max(self._query_norms.max(), self._gallery_norms.max())
        self._type = np.float32 if both_single and self._bounded(largest) else np.float64
        self._fast_query = self._query.astype(self._type, copy=False)

    def pairs(
        self, query: npt.NDArray[np.int64], item: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return the canonical score of each pair of positions."""
        out = np.empty(len(query))
        for start in range(0, len(query), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            theirs = self._prepare(self._gallery[item[part]], self._gallery_norms[item[part]])
            out[part] = canonical.pair_scores(
                self._query[query[part]], theirs, squared_distance=self._squared
            )
        if not np.isfinite(out).all():
            bad = np.flatnonzero(~np.isfinite(out))
            raise ScoreError(
                f"scores overflow for {len(bad)} pairs (query {query[bad[0]]}, gallery row "
                f"{item[bad[0]]}): scale the features down"
            )
        if self._bad is not None:
            out[self._bad[item]] = _LAST
        return out

    def columns(self, items: Rows) -> tuple[Array, npt.NDArray[np.float64], Array | None]:
        """Prepare the gallery side of a tile."""
        lengths = self._gallery_norms[items]
        vectors = self._prepare(self._gallery[items], lengths).astype(self._type, copy=False)
        return vectors, lengths, None if self._bad is None else self._bad[items]

    def tile(
        self, queries: slice, prepared: tuple[Array, npt.NDArray[np.float64], Array | None]
    ) -> tuple[Array, npt.NDArray[np.float64]]:
        """Return a tile of scores and the error bound of each of its rows."""
        theirs, their_norms, bad = prepared
        product: Array = self._fast_query[queries] @ theirs.T
        if self._unit:
            ours_long, theirs_long = np.ones(len(product)), 1.0
        else:
            ours_long, theirs_long = self._query_norms[queries], float(their_norms.max())
        if self._squared:
            np.multiply(product, 2, out=product)
            np.subtract(product, (their_norms**2).astype(self._type), out=product)
            np.subtract(product, (ours_long**2).astype(self._type)[:, None], out=product)
        if bad is not None:
            product[:, bad] = np.finfo(self._type).min
        return product, self._bound(ours_long, theirs_long)

    def _bound(self, ours: npt.NDArray[np.float64], theirs: float) -> npt.NDArray[np.float64]:
        """Bound the distance of a tile's score from the canonical one, per row.

        Any order of summation of d products in a type of unit roundoff u errs by at most
        d u / (1 - d u) times the product of the lengths; the canonical sum by (log2 d + 4)
        2^-53 of the same. Squared distances add the rounding of the two squared lengths and
        of two subtractions. Products that underflow add at most one smallest normal number each.
        """
        unit = 2.0**-24 if self._type == np.float32 else 2.0**-53
        smallest = 2.0**-125 if self._type == np.float32 else 2.0**-1021
        ours, theirs = ours * (1 + 1e-6), theirs * (1 + 1e-6)
        relative = self.dim * unit / (1 - self.dim * unit)
        own = (np.log2(max(self.dim, 2)) + 4) * 2.0**-53
        if self._squared:
            bound = 2 * relative * ours * theirs + (6 * unit + 3 * own) * (ours + theirs) ** 2
        else:
            bound = (relative + own) * ours * theirs
        return np.asarray(bound * (1 + 1e-6) + (self.dim + 4) * smallest)

    def _prepare(self, vectors: Array, lengths: npt.NDArray[np.float64]) -> Array:
        return canonical.scaled(vectors, lengths) if self._unit else canonical.components(vectors)

    def _bounded(self, largest: float) -> bool:
        return bool((self._unit or largest < _SAFE_IN_FLOAT32) and self.dim < 1 << 20)

    def _check_size(self) -> None:
        for side, lengths in (("query", self._query_norms), ("gallery", self._gallery_norms)):
            bad = np.flatnonzero(~np.isfinite(lengths) | (lengths > 1e150))
            if len(bad) and not self._unit:
                raise ScoreError(
                    f"{side} features: vectors are too long to be scored (rows {name_some(bad)}); "
                    "scale the features down"
                )


class MatrixSource:
    """Scores of a finished matrix: exact, nothing to bound."""

    dim = 1

    def __init__(self, scores: ScoreMatrix) -> None:
        self._matrix = scores.array
        self._sign = 1 if scores.higher_is_better else -1

    def pairs(
        self, query: npt.NDArray[np.int64], item: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return the score of each pair of positions."""
        return np.asarray(self._matrix[query, item].astype(np.float64) * self._sign)

    def columns(self, items: Rows) -> Rows:
        """Prepare nothing: the columns are picked when the tile is read."""
        return items

    def tile(self, queries: slice, prepared: Rows) -> tuple[Array, npt.NDArray[np.float64]]:
        """Return a tile of scores; its error bound is zero."""
        part = self._matrix[queries][:, prepared]
        kept = np.float32 if part.dtype in (np.float16, np.float32) else np.float64
        tile = part.astype(kept)
        np.multiply(tile, self._sign, out=tile)
        return tile, np.zeros(len(tile))


def source_of(scores: Embeddings | ScoreMatrix) -> Source:
    """Return the source that serves these scores."""
    return EmbeddingSource(scores) if isinstance(scores, Embeddings) else MatrixSource(scores)
