"""Scores by any distance of SciPy: what cdist gives for two vectors, negated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reid_vpr_eval.errors import ScoreError
from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.ranking.sources.base import LAST, Array, Care, Floats, Ints, Rows, TileScores
from reid_vpr_eval.ranking.sources.vectors import SideName, VectorSource, names_of
from reid_vpr_eval.scores import Embeddings

__all__ = ["DistanceSource"]


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Vectors in float64, row after row, where they stand, and which cannot be scored."""

    vectors: Array
    rows: Rows
    bad: Array | None


class DistanceSource(VectorSource):
    """Asks cdist, which compares each two vectors by themselves.

    It gives a pair the same bits in a block and alone; the tests hold every name to that.
    """

    exact = True

    def __init__(self, scores: Embeddings, kernels: Kernels) -> None:
        super().__init__(scores, kernels)
        self.dim, self.itemsize = scores.dim, 8
        self.symmetric = False  # some sum in another order with the sides exchanged
        self._metric: Any = scores.metric

    def _prepare(
        self, side: SideName, rows: Rows, read: Array | None = None, out: Array | None = None
    ) -> _Side:
        given = self._read(side, rows) if read is None else read
        vectors = np.ascontiguousarray(given, np.float64)
        return _Side(vectors, rows, self._bad_rows(side, rows))

    def exactly(self, ours: _Side, theirs: _Side, row: Ints, column: Ints) -> Floats:
        """Return the canonical scores of some places of a tile."""
        out = np.empty(len(row))
        order = np.argsort(row, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(row[order])) + 1) if len(row) else ():
            first, items = row[part[:1]], column[part]
            out[part] = self._scores(ours.vectors[first], theirs.vectors[items])[0]
        for bad, place in ((ours.bad, row), (theirs.bad, column)):
            if bad is not None:
                out[bad[place]] = LAST
        lost = ~np.isfinite(out)
        if lost.any():
            raise self._no_score(*_named(ours, theirs, row[lost], column[lost]))
        return out

    def tile(
        self, ours: _Side, theirs: _Side, out: Array | None = None, *, care: Care = 0
    ) -> TileScores:
        """Return the scores of prepared queries and items; the margins are zero."""
        scores = self._scores(ours.vectors, theirs.vectors)
        if ours.bad is not None:
            scores[ours.bad] = LAST
        if theirs.bad is not None:
            scores[:, theirs.bad] = LAST
        if not np.isfinite(scores).all():
            raise self._no_score(*_named(ours, theirs, *np.nonzero(~np.isfinite(scores))))
        return TileScores(scores, np.zeros(len(scores)), np.zeros(scores.shape[1]))

    def _scores(self, ours: Array, theirs: Array) -> Floats:
        from scipy.spatial.distance import cdist

        with np.errstate(all="ignore"):  # what is not finite is refused by name
            found: Floats = cdist(ours, theirs, self._metric)
        np.subtract(0.0, found, out=found)
        return found

    def _no_score(self, n: int, query: int, item: int) -> ScoreError:
        return ScoreError(
            f"{self._metric} gives no finite distance for {n} pairs (query {query}, gallery row "
            f"{item}): leave out vectors that it is not defined for, scale the features, or use "
            "another metric"
        )


def _named(ours: _Side, theirs: _Side, row: Ints, column: Ints) -> tuple[int, int, int]:
    """Return how many pairs there are, and the query and gallery row of the first."""
    first = names_of(ours.rows, row[:1]), names_of(theirs.rows, column[:1])
    return len(row), int(first[0][0]), int(first[1][0])
