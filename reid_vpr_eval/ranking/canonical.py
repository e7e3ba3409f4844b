"""The canonical score of a pair: a pure function of its two vectors, to the last bit.

Products (or squared differences) of the components are formed in float64 and summed by a
halving tree: padded to a power of two, the upper half is added to the lower half until one
number is left. Only element-wise IEEE operations are used, so every chunking, machine and
library gives the same bits, and identical vectors get identical scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["components", "norms", "pair_scores", "scaled", "tree_sum"]

_ELEMENTS_AT_ONCE = 1 << 17

Array = npt.NDArray[Any]


def tree_sum(terms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sum each row by the halving tree; `terms` (n, d) is used up.

    >>> tree_sum(np.array([[1.0, 2.0, 3.0]]))
    array([6.])
    """
    width = terms.shape[1]
    while width > 1:
        half = 1 << ((width - 1).bit_length() - 1)
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return np.array(terms[:, 0])


def components(vectors: Array) -> Array:
    """Return vectors as they are scored: float16 becomes float32, float64 stays."""
    return vectors if vectors.dtype == np.float64 else vectors.astype(np.float32, copy=False)


def norms(vectors: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean length of each vector by the canonical sum, float64 (n,)."""
    lengths = np.empty(len(vectors))
    for rows in _chunks(len(vectors), vectors.shape[1]):
        part = components(vectors[rows]).astype(np.float64)
        scale = _power_of_two(part)
        part *= scale[:, None]
        lengths[rows] = np.sqrt(tree_sum(part * part)) / scale
    return lengths


def scaled(vectors: Array, lengths: npt.NDArray[np.float64]) -> Array:
    """Return vectors divided by their lengths, rounded to float32 (float64 stays so)."""
    kept = components(vectors)
    if kept.dtype == np.float64:
        scale = _power_of_two(kept)
        return np.asarray((kept * scale[:, None]) / (lengths * scale)[:, None])
    unit = np.empty(kept.shape, np.float32)
    for rows in _chunks(len(kept), kept.shape[1]):
        unit[rows] = kept[rows].astype(np.float64) / lengths[rows, None]
    return unit


def pair_scores(ours: Array, theirs: Array, *, squared_distance: bool) -> npt.NDArray[np.float64]:
    """Return the canonical score of each row of `ours` with the same row of `theirs`.

    The dot product, or the negated squared distance: larger is better.
    """
    out = np.empty(len(ours))
    for rows in _chunks(len(ours), ours.shape[1]):
        left, right = ours[rows].astype(np.float64), theirs[rows].astype(np.float64)
        if squared_distance:
            left -= right
            left *= left
            out[rows] = -tree_sum(left)
        else:
            left *= right
            out[rows] = tree_sum(left)
    return out


def _power_of_two(part: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return, for each row, the power of two that brings its largest component near 1."""
    _, exponent = np.frexp(np.abs(part).max(axis=1))
    return np.asarray(np.ldexp(1.0, np.clip(-exponent, -1022, 1022)))


def _chunks(n: int, dim: int) -> list[slice]:
    step = max(1, _ELEMENTS_AT_ONCE // dim)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
