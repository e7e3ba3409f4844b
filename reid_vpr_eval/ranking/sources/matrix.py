"""Scores of a finished matrix: exact, nothing to bound."""

from __future__ import annotations

import numpy as np

from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.ranking.sources.base import Array, Care, Floats, Ints, Rows, TileScores
from reid_vpr_eval.scores import ScoreMatrix

__all__ = ["MatrixSource"]


class MatrixSource:
    """Reads tiles of a matrix; a matrix of whole numbers or of float64 is compared in float64."""

    dim = 1
    itemsize = 8
    streams = False
    symmetric = False
    exact = True

    def __init__(self, scores: ScoreMatrix, kernels: Kernels) -> None:
        self.kernels = kernels
        self._matrix = scores.array
        self._sign = 1 if scores.higher_is_better else -1

    def pairs(self, query: Ints, item: Ints, workers: int = 1) -> Floats:
        """Return the score of each pair of positions."""
        return np.asarray(self._matrix[query, item].astype(np.float64) * self._sign)

    def queries(self, rows: slice) -> slice:
        """Prepare nothing: rows are picked when the tile is read."""
        return rows

    def fetch(self, items: Rows) -> None:
        """Read nothing ahead."""

    def columns(self, items: Rows, fetched: None = None, out: Array | None = None) -> Rows:
        """Prepare nothing: columns are picked when the tile is read."""
        return items

    def tile(
        self, ours: slice, theirs: Rows, out: Array | None = None, *, care: Care = 0
    ) -> TileScores:
        """Return a tile of scores; its margins are zero."""
        part = self._matrix[ours][:, theirs]
        kept = np.float32 if part.dtype in (np.float16, np.float32) else np.float64
        tile = part.astype(kept)
        np.multiply(tile, self._sign, out=tile)
        return TileScores(tile, np.zeros(tile.shape[0]), np.zeros(tile.shape[1]))

    def exactly(self, ours: slice, theirs: Rows, row: Ints, column: Ints) -> Floats:
        """Return the scores of some places of a tile."""
        item = theirs.start + column if isinstance(theirs, slice) else theirs[column]
        return self.pairs(ours.start + row, item)
