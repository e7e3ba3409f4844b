"""The inner loops compiled by numba (the extra ``fast``): bit by bit those in NumPy.

No product and sum are fused and no sum is reordered, so that every result is the same.
"""

from __future__ import annotations

from typing import Any, Literal

import numba
import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.kernels import plain
from reid_vpr_eval.ranking.kernels.plain import Placed

__all__ = ["at_least", "bisect", "lengths", "pair_scores", "place", "unit"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

SHARE_FOR_DOUBLE = 0.3
SHARE_FOR_CARE = 16.0
_FIRST_GUESS = 1 << 14
_MANY = 12  # thresholds of a line from which on a table of buckets helps
_BUCKETS = 16  # for each threshold, or fewer where lines are short
_STRETCH = 64  # scores that are passed over at once if none of them counts

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


def lengths(vectors: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean length of each vector by the canonical sum, float64 (n,)."""
    if vectors.dtype != np.float32:
        return plain.lengths(vectors)
    out = np.empty(len(vectors))
    _lengths(vectors, out)
    return out


def unit(vectors: Array, out: Array | None = None) -> Array:
    """Return vectors divided by their lengths, rounded to float32 (float64 stays so)."""
    if vectors.dtype != np.float32:
        return plain.unit(vectors, out)
    made = np.empty(vectors.shape, np.float32) if out is None else out
    _unit(vectors, made)
    return made


def pair_scores(
    ours: Array, theirs: Array, row: Ints, column: Ints, *, squared_distance: bool
) -> npt.NDArray[np.float64]:
    """Return the canonical score of ``ours[row]`` with ``theirs[column]``, one by one."""
    out = np.empty(len(row))
    score = _distances if squared_distance else _products
    score(ours, theirs, row, column, out)
    return out


def at_least(scores: Array, least: Array, axis: Literal[0, 1] = 0) -> tuple[Ints, Ints]:
    """Return rows and columns of the scores that reach the least one of their line."""
    fill = _rows_at_least if axis == 0 else _columns_at_least
    size = _FIRST_GUESS
    while True:
        row, column = np.empty(size, np.int64), np.empty(size, np.int64)
        found = fill(scores, least, row, column)
        if found <= size:
            return row[:found], column[:found]
        size = found


def bisect(values: Array, start: Ints, end: Ints, wanted: Array) -> Ints:
    """Return, in each ascending segment, the first position with a value >= wanted."""
    out = np.empty(len(start), np.int64)
    _bisect(values, start, end, wanted, out)
    return out


def place(
    scores: Array, low: Array, high: Array, start: Ints, axis: Literal[0, 1] = 0,
    edges: Ints | None = None,
) -> Placed:  # fmt: skip
    """Place the scores of a tile among the thresholds of its lines."""
    n_lines = len(start) - 1
    if axis == 1 and len(low) >= _MANY * n_lines:
        placed = place(np.ascontiguousarray(scores.T), low, high, start)
        return Placed(placed.bins, placed.column, placed.row)
    bounds = np.array([0, scores.shape[1]]) if edges is None else edges
    lowest = np.full(n_lines, np.inf, low.dtype)
    has = np.flatnonzero(np.diff(start))
    lowest[has] = low[start[has]]
    table = np.zeros(_BUCKETS * int(np.diff(start).max(initial=0)) + 2, np.int32)
    size = _FIRST_GUESS
    while True:
        bins = np.zeros((len(bounds) - 1, len(low) + n_lines), np.uint32)
        row, column = np.empty(size, np.int64), np.empty(size, np.int64)
        if axis == 0:
            found = _place_rows(
                scores, lowest, low, high, start, bounds, bins, row, column, table
            )
        else:
            found = _place_columns(scores, lowest, low, high, start, bins[0], row, column)
        if found <= size:
            return Placed(bins, row[:found], column[:found])
        size = found


@compiled
def _bisect(
    values: Array, start: Ints, end: Ints, wanted: Array, out: Ints
) -> None:  # pragma: no cover
    for k in range(len(start)):
        low, high = start[k], end[k]
        while low < high:
            middle = (low + high) // 2
            if values[middle] < wanted[k]:
                low = middle + 1
            else:
                high = middle
        out[k] = low


@compiled
def _tree(terms: npt.NDArray[np.float64], width: int) -> float:  # pragma: no cover
    while width > 1:
        width //= 2
        for i in range(width):
            terms[i] += terms[i + width]
    return terms[0]  # type: ignore[no-any-return]


@compiled
def _half(dim: int) -> int:  # pragma: no cover
    half = 1
    while 2 * half < dim:
        half *= 2
    return half


@compiled
def _length(vector: Array, half: int, terms: Array) -> float:  # pragma: no cover
    dim = len(vector)
    for i in range(dim - half):
        a, b = np.float64(vector[i]), np.float64(vector[i + half])
        terms[i] = a * a + b * b
    for i in range(max(dim - half, 0), half):
        a = np.float64(vector[i])
        terms[i] = a * a
    return np.sqrt(_tree(terms, half))  # type: ignore[no-any-return]


@compiled
def _lengths(vectors: Array, out: Array) -> None:  # pragma: no cover
    half = _half(vectors.shape[1])
    terms = np.empty(half)
    for row in range(len(vectors)):
        out[row] = _length(vectors[row], half, terms)


@compiled
def _unit(vectors: Array, out: Array) -> None:  # pragma: no cover
    half = _half(vectors.shape[1])
    terms = np.empty(half)
    for row in range(len(vectors)):
        length = _length(vectors[row], half, terms)
        for i in range(vectors.shape[1]):
            out[row, i] = np.float32(np.float64(vectors[row, i]) / length)


@compiled
def _products(
    ours: Array, theirs: Array, row: Ints, column: Ints, out: Array
) -> None:  # pragma: no cover
    dim = ours.shape[1]
    half = _half(dim)
    terms = np.empty(half)
    for k in range(len(row)):
        x, y = ours[row[k]], theirs[column[k]]
        for i in range(dim - half):
            first = np.float64(x[i]) * np.float64(y[i])
            terms[i] = first + np.float64(x[i + half]) * np.float64(y[i + half])
        for i in range(max(dim - half, 0), half):
            terms[i] = np.float64(x[i]) * np.float64(y[i])
        out[k] = _tree(terms, half)


@compiled
def _distances(
    ours: Array, theirs: Array, row: Ints, column: Ints, out: Array
) -> None:  # pragma: no cover
    dim = ours.shape[1]
    half = _half(dim)
    terms = np.empty(half)
    for k in range(len(row)):
        x, y = ours[row[k]], theirs[column[k]]
        for i in range(dim - half):
            a = np.float64(x[i]) - np.float64(y[i])
            b = np.float64(x[i + half]) - np.float64(y[i + half])
            terms[i] = a * a + b * b
        for i in range(max(dim - half, 0), half):
            a = np.float64(x[i]) - np.float64(y[i])
            terms[i] = a * a
        out[k] = -_tree(terms, half)


@compiled
def _above(low: Array, begin: int, end: int, value: float) -> int:  # pragma: no cover
    """Return how many of ascending bounds are at most a value; the first is."""
    size = end - begin
    base = begin
    while size > 1:
        half = size // 2
        if low[base + half] <= value:
            base += half
        size -= half
    return base - begin + 1


@compiled
def _n_reaching(scores: Array, least: Array) -> int:  # pragma: no cover
    """Return how many scores reach their least one; a loop that is done several at a time."""
    reached = 0
    for j in range(len(scores)):
        reached += scores[j] >= least[j]
    return reached


@compiled
def _n_reaching_one(scores: Array, least: float) -> int:  # pragma: no cover
    reached = 0
    for j in range(len(scores)):
        reached += scores[j] >= least
    return reached


@compiled
def _rows_at_least(
    scores: Array, least: Array, row: Ints, column: Ints
) -> int:  # pragma: no cover
    found = 0
    width = scores.shape[1]
    for i in range(scores.shape[0]):
        if least[i] < np.inf:
            for first in range(0, width, _STRETCH):
                last = min(first + _STRETCH, width)
                if not _n_reaching_one(scores[i, first:last], least[i]):
                    continue
                for j in range(first, last):
                    if scores[i, j] >= least[i]:
                        if found < len(row):
                            row[found], column[found] = i, j
                        found += 1
    return found


@compiled
def _columns_at_least(
    scores: Array, least: Array, row: Ints, column: Ints
) -> int:  # pragma: no cover
    found = 0
    width = scores.shape[1]
    for i in range(scores.shape[0]):
        for first in range(0, width, _STRETCH):
            last = min(first + _STRETCH, width)
            if not _n_reaching(scores[i, first:last], least[first:last]):
                continue
            for j in range(first, last):
                if scores[i, j] >= least[j]:
                    if found < len(row):
                        row[found], column[found] = i, j
                    found += 1
    return found


@compiled
def _fill_table(
    table: npt.NDArray[np.int32], n_buckets: int, low: Array, begin: int, end: int
) -> float:  # pragma: no cover
    """Note how many bounds lie before each of even buckets; return buckets per unit of score.

    It is -1 where the bounds are too far apart for it, or too near to one another.

    The bucket of a score rises with it, so that bounds in lower buckets are below the score
    and those in higher ones above it, whatever is rounded.
    """
    width = np.float64(low[end - 1]) - np.float64(low[begin])
    scale = (n_buckets - 1) / width if width > 0 else 0.0
    if not 0 < scale < np.inf:
        return -1.0
    filled = 0
    for k in range(begin, end):
        bucket = int((np.float64(low[k]) - np.float64(low[begin])) * scale)
        while filled <= bucket:
            table[filled] = k - begin
            filled += 1
    while filled <= n_buckets:
        table[filled] = end - begin
        filled += 1
    return scale


@compiled
def _above_by_table(
    low: Array, begin: int, floor: float, value: float, scale: float,
    table: npt.NDArray[np.int32], n_buckets: int,
) -> int:  # pragma: no cover  # fmt: skip
    """Return how many of the bounds from `begin` on are at most a value, by their buckets."""
    bucket = int(min((np.float64(value) - np.float64(floor)) * scale, np.float64(n_buckets - 1)))
    first, last = begin + table[bucket], begin + table[bucket + 1]
    if last > first and low[first] <= value:
        return first - begin + _above(low, first, last, value)  # type: ignore[no-any-return]
    return first - begin  # type: ignore[no-any-return]


@compiled
def _place_rows(
    scores: Array, lowest: Array, low: Array, high: Array, start: Ints, edges: Ints, bins: Array,
    row: Ints, column: Ints, table: npt.NDArray[np.int32],
) -> int:  # pragma: no cover  # fmt: skip
    found = 0
    held = np.empty(_STRETCH, np.int64)
    for i in range(scores.shape[0]):
        floor = lowest[i]
        begin, end = start[i], start[i + 1]
        if begin == end:
            continue
        many = end - begin >= _MANY
        n_buckets = max(min(_BUCKETS * (end - begin), 2 * scores.shape[1]), 2)
        scale = _fill_table(table, n_buckets, low, begin, end) if many else -1.0
        for part in range(len(edges) - 1):
            for first in range(edges[part], edges[part + 1], _STRETCH):
                last = min(first + _STRETCH, edges[part + 1])
                if not _n_reaching_one(scores[i, first:last], floor):
                    continue
                n_held = 0
                for j in range(first, last):  # first which ones, then where: fewer wrong guesses
                    held[n_held] = j
                    n_held += scores[i, j] >= floor
                for k in range(n_held):
                    value = scores[i, held[k]]
                    if scale >= 0:
                        above = _above_by_table(low, begin, floor, value, scale, table, n_buckets)
                    else:
                        above = _above(low, begin, end, value)
                    if high[begin + above - 1] >= value:
                        if found < len(row):
                            row[found], column[found] = i, held[k]
                        found += 1
                    else:
                        bins[part, begin + i + above] += np.uint32(1)
    return found


@compiled
def _place_columns(
    scores: Array, lowest: Array, low: Array, high: Array, start: Ints, bins: Array, row: Ints,
    column: Ints,
) -> int:  # pragma: no cover  # fmt: skip
    found = 0
    width = scores.shape[1]
    held = np.empty(_STRETCH, np.int64)
    for i in range(scores.shape[0]):
        for first in range(0, width, _STRETCH):
            last = min(first + _STRETCH, width)
            if not _n_reaching(scores[i, first:last], lowest[first:last]):
                continue
            n_held = 0
            for j in range(first, last):
                held[n_held] = j
                n_held += scores[i, j] >= lowest[j]
            for k in range(n_held):
                j = held[k]
                value, begin, end = scores[i, j], start[j], start[j + 1]
                above = _above(low, begin, end, value)
                if high[begin + above - 1] >= value:
                    if found < len(row):
                        row[found], column[found] = i, j
                    found += 1
                else:
                    bins[begin + j + above] += np.uint32(1)
    return found
