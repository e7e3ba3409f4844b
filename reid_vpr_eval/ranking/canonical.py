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

__all__ = ["component_type", "components", "norms", "pair_scores", "scaled", "tree_sum"]

_ELEMENTS_AT_ONCE = 1 << 17
_SMALLEST_NORMAL = np.finfo(np.float64).smallest_normal
_NARROW = 32  # below this width columns are summed instead of rows

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


def tree_sum(terms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sum each row of `terms` (n, d) by the halving tree.

    >>> tree_sum(np.array([[1.0, 2.0, 3.0]]))
    array([6.])
    """
    while terms.shape[1] > _NARROW:
        half = _lower_half(terms.shape[1])
        terms = _folded(terms, half)
    columns = np.ascontiguousarray(terms.T)
    while len(columns) > 1:
        half = _lower_half(len(columns))
        rest = len(columns) - half
        columns[:rest] += columns[half:]
        columns = columns[:half]
    return np.array(columns[0])


def _lower_half(width: int) -> int:
    """Return the largest power of two below a width of two or more."""
    return 1 << ((width - 1).bit_length() - 1)


def _folded(terms: npt.NDArray[np.float64], half: int) -> npt.NDArray[np.float64]:
    """Return the first `half` columns with the others added to them, in new memory."""
    if terms.shape[1] == 2 * half:
        return np.asarray(terms[:, :half] + terms[:, half:])
    folded = terms[:, :half].copy()
    folded[:, : terms.shape[1] - half] += terms[:, half:]
    return folded


def component_type(kind: np.dtype[Any]) -> type[np.float32] | type[np.float64]:
    """Return the type that vectors of a type are scored in.

    float32 for what it holds exactly (whole numbers of up to 16 bits, float16, either byte
    order), float64 for all else.

    >>> component_type(np.dtype(np.int8)).__name__, component_type(np.dtype(np.int32)).__name__
    ('float32', 'float64')
    """
    return np.float32 if np.can_cast(kind, np.float32) else np.float64


def components(vectors: Array) -> Array:
    """Return vectors as they are scored: as float32 or as float64."""
    return vectors.astype(component_type(vectors.dtype), copy=False)


def norms(vectors: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean length of each vector by the canonical sum, float64 (n,)."""
    lengths = np.empty(len(vectors))
    for rows in _chunks(len(vectors), vectors.shape[1]):
        kept = components(vectors[rows])
        part = kept.astype(np.float64)
        if kept.dtype == np.float32:  # its squares neither overflow nor vanish in float64
            part *= part
            lengths[rows] = np.sqrt(tree_sum(part))
            continue
        scale = _power_of_two(part)
        part *= scale[:, None]
        lengths[rows] = np.sqrt(tree_sum(part * part)) / scale
    return lengths


def scaled(vectors: Array, lengths: npt.NDArray[np.float64]) -> Array:
    """Return vectors divided by their lengths, rounded to float32 (float64 stays so)."""
    kept = components(vectors)
    if kept.dtype == np.float64:
        scale = _power_of_two(kept)
        part, own = kept * scale[:, None], lengths * scale
        lost = (lengths < _SMALLEST_NORMAL) | (lengths == np.inf)  # rounded away before scaling
        own[lost] = np.sqrt(tree_sum(part[lost] ** 2))
        part /= own[:, None]
        return np.asarray(part)
    unit = np.empty(kept.shape, np.float32)
    for rows in _chunks(len(kept), kept.shape[1]):
        unit[rows] = kept[rows].astype(np.float64) / lengths[rows, None]
    return unit


def pair_scores(
    ours: Array, theirs: Array, row: Ints, column: Ints, *, squared_distance: bool
) -> npt.NDArray[np.float64]:
    """Return the canonical score of ``ours[row]`` with ``theirs[column]``, one by one.

    The dot product, or the negated squared distance: larger is better.
    """
    out = np.empty(len(row))
    for part in _chunks(len(row), ours.shape[1]):
        terms = theirs[column[part]].astype(np.float64)
        first = row[part]
        left = ours[first[0]] if (first == first[0]).all() else ours[first]
        if squared_distance:
            np.subtract(left, terms, out=terms)
            terms *= terms
            out[part] = -tree_sum(terms)
        else:
            terms *= left
            out[part] = tree_sum(terms)
    return out


def _power_of_two(part: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return, for each row, the power of two that brings its largest component near 1."""
    _, exponent = np.frexp(np.abs(part).max(axis=1))
    return np.asarray(np.ldexp(1.0, np.clip(-exponent, -1022, 1022)))


def _chunks(n: int, dim: int) -> list[slice]:
    step = max(1, _ELEMENTS_AT_ONCE // dim)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
