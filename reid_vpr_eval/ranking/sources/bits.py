"""Scores of binary codes: how many bits differ, counted exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.kernels import Kernels
from reid_vpr_eval.ranking.sources.base import Array, Care, Floats, Ints, Rows, TileScores
from reid_vpr_eval.ranking.sources.vectors import SideName, VectorSource
from reid_vpr_eval.scores import Embeddings

__all__ = ["BitSource"]

_WORDS_AT_ONCE = 1 << 15  # the words of some rows of a tile stay in the cache
_PAIR_WORDS_AT_ONCE = 1 << 18
_EXACT_FLOAT32_INTEGER = 2**24

Words = npt.NDArray[np.uint64]


class BitSource(VectorSource):
    """Counts the bits in which codes differ, 64 at a time.

    A matrix product of bits unpacked to -1 and 1 is as exact; it takes as long or longer and
    32 times the memory.
    """

    exact = True

    def __init__(self, scores: Embeddings, kernels: Kernels) -> None:
        super().__init__(scores, kernels)
        self._n_words = -(-scores.query.shape[1] // 8)
        self.dim, self.itemsize = 8 * self._n_words, 1
        self._kind: Any = np.float32 if 8 * self.dim <= _EXACT_FLOAT32_INTEGER else np.float64

    def _prepare(
        self, side: SideName, rows: Rows, read: Array | None = None, out: Array | None = None
    ) -> Words:
        """Return codes as words (n, words), filled up with zeros."""
        given = self._read(side, rows) if read is None else read
        codes = np.zeros((len(given), self.dim), np.uint8)
        codes[:, : given.shape[1]] = given
        return codes.view(np.uint64)

    def exactly(self, ours: Words, theirs: Words, row: Ints, column: Ints) -> Floats:
        """Return the canonical scores of some places of a tile."""
        out = np.empty(len(row))
        step = max(1, _PAIR_WORDS_AT_ONCE // self._n_words)
        for start in range(0, len(row), step):
            part = slice(start, start + step)
            differ = np.bitwise_count(ours[row[part]] ^ theirs[column[part]])
            out[part] = 0.0 - differ.sum(axis=1, dtype=np.int64)
        return out

    def tile(
        self, ours: Words, theirs: Words, out: Array | None = None, *, care: Care = 0
    ) -> TileScores:
        """Return the scores of prepared queries and items; the margins are zero."""
        shape = (len(ours), len(theirs))
        if out is None or out.dtype != self._kind or len(out) < shape[0] * shape[1]:
            out = np.empty(shape[0] * shape[1], self._kind)
        scores: Array = out[: shape[0] * shape[1]].reshape(shape)
        turned = np.ascontiguousarray(theirs.T)
        step = max(1, _WORDS_AT_ONCE // shape[1])
        for start in range(0, shape[0], step):
            part = slice(start, start + step)
            np.subtract(0, _differ(ours[part], turned), out=scores[part], dtype=self._kind)
        return TileScores(scores, np.zeros(shape[0]), np.zeros(shape[1]))


def _differ(ours: Words, turned: Words) -> Array:
    """Return how many bits differ, (rows, columns); `turned` holds codes in columns."""
    shape = (len(ours), turned.shape[1])
    total = np.zeros(shape, np.min_scalar_type(64 * len(turned)))
    both, count = np.empty(shape, np.uint64), np.empty(shape, np.uint8)
    for word, others in zip(ours.T, turned, strict=True):
        np.bitwise_xor(word[:, None], others, out=both)
        np.bitwise_count(both, out=count)
        np.add(total, count, out=total)
    return total
