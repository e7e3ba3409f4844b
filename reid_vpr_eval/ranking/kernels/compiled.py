"""The inner loops compiled by numba (the extra ``fast``): bit by bit those in NumPy.

No product and sum are fused and no sum is reordered, so that every result is the same.
"""

from __future__ import annotations

from typing import Any, Literal

import numba
import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.canonical import component_type
from reid_vpr_eval.ranking.kernels import plain
from reid_vpr_eval.ranking.kernels.plain import Placed

__all__ = ["at_least", "bisect", "lengths", "pair_scores", "place", "unit"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

SHARE_FOR_DOUBLE = 0.3
SHARE_FOR_CARE = 16.0
_FIRST_GUESS = 1 << 14  # of how many scores are in doubt, and at least
_SHARE_GUESSED = 8  # one of so many scores of the tile; what is not used costs nothing
_MANY = 12  # thresholds of a line from which on a table of buckets helps
_BUCKETS = 16  # for each threshold, or fewer where lines are short
_LAST = 16  # terms of a sum that are added in one expression
_STRETCH = 64  # scores that are passed over at once if none of them counts

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
#: For what only compares: no score is NaN, and the sign of a zero does not matter.
comparing = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"nnan", "nsz"})


def lengths(vectors: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean length of each vector by the canonical sum, float64 (n,)."""
    if vectors.dtype != np.float32:
        return plain.lengths(vectors)
    out = np.empty(len(vectors))
    _lengths(vectors, out)
    return out


def unit(vectors: Array, out: Array | None = None, rows: Ints | None = None) -> Array:
    """Return vectors, or these rows of them, divided by their lengths.

    They are rounded to float32 (float64 stays so).
    """
    if component_type(vectors.dtype) != np.float32:
        return plain.unit(vectors, out, rows)
    if vectors.dtype != np.float32 or not vectors.flags.c_contiguous:
        vectors = np.ascontiguousarray(vectors if rows is None else vectors[rows], np.float32)
        rows = None
    n = len(vectors) if rows is None else len(rows)
    made = np.empty((n, vectors.shape[1]), np.float32) if out is None else out
    if rows is None:
        _unit(vectors, made)
    else:
        _unit_of(vectors, rows, made)
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
        return Placed(placed.bins, placed.column, placed.row, placed.best)
    bounds = np.array([0, scores.shape[1]]) if edges is None else edges
    lowest = np.full(n_lines, np.inf, low.dtype)
    has = np.flatnonzero(np.diff(start))
    lowest[has] = low[start[has]]
    table = np.empty(_BUCKETS * int(np.diff(start).max(initial=0)) + 2, np.int32)
    best = np.full(n_lines, -np.inf, scores.dtype)
    size = max(_FIRST_GUESS, scores.size // _SHARE_GUESSED)
    while True:
        bins = np.zeros((len(bounds) - 1, len(low) + n_lines), np.uint32)
        row, column = np.empty(size, np.int64), np.empty(size, np.int64)
        if axis == 0:
            found = _place_rows(scores, lowest, low, high, start, bounds, bins, row, column, best,
                                table)  # fmt: skip
        else:
            found = _place_columns(scores, lowest, low, high, start, bins[0], row, column, best)
        if found <= size:
            return Placed(bins, row[:found], column[:found], best)
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
    while width > _LAST:
        width //= 2
        lower, upper = terms[:width], terms[width : 2 * width]
        for i in range(width):
            lower[i] += upper[i]
    if width == _LAST:  # the last levels at once, in the same order
        t = terms
        even = ((t[0] + t[8]) + (t[4] + t[12])) + ((t[2] + t[10]) + (t[6] + t[14]))
        odd = ((t[1] + t[9]) + (t[5] + t[13])) + ((t[3] + t[11]) + (t[7] + t[15]))
        return even + odd  # type: ignore[no-any-return]
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
    rest = len(vector) - half
    lower, upper = vector[:half], vector[half:]
    for i in range(rest):
        a, b = np.float64(lower[i]), np.float64(upper[i])
        terms[i] = a * a + b * b
    for i in range(max(rest, 0), len(lower)):
        a = np.float64(lower[i])
        terms[i] = a * a
    return np.sqrt(_tree(terms, half))  # type: ignore[no-any-return]


@compiled
def _lengths(vectors: Array, out: Array) -> None:  # pragma: no cover
    half = _half(vectors.shape[1])
    terms = np.empty(half)
    for row in range(len(vectors)):
        out[row] = _length(vectors[row], half, terms)


@compiled
def _divide(vector: Array, length: float, out: Array) -> None:  # pragma: no cover
    for i in range(len(vector)):
        out[i] = np.float32(np.float64(vector[i]) / length)


@compiled
def _unit(vectors: Array, out: Array) -> None:  # pragma: no cover
    half = _half(vectors.shape[1])
    terms = np.empty(half)
    for k in range(len(out)):
        _divide(vectors[k], _length(vectors[k], half, terms), out[k])


@compiled
def _unit_of(vectors: Array, rows: Ints, out: Array) -> None:  # pragma: no cover
    half = _half(vectors.shape[1])
    terms = np.empty(half)
    for k in range(len(out)):
        vector = vectors[rows[k]]
        _divide(vector, _length(vector, half, terms), out[k])


@compiled
def _products(
    ours: Array, theirs: Array, row: Ints, column: Ints, out: Array
) -> None:  # pragma: no cover
    half = _half(ours.shape[1])
    rest = ours.shape[1] - half
    terms = np.empty(half)
    for k in range(len(row)):
        x, y = ours[row[k]], theirs[column[k]]
        lower, others, upper, rests = x[:half], y[:half], x[half:], y[half:]
        for i in range(rest):
            first = np.float64(lower[i]) * np.float64(others[i])
            terms[i] = first + np.float64(upper[i]) * np.float64(rests[i])
        for i in range(max(rest, 0), len(lower)):
            terms[i] = np.float64(lower[i]) * np.float64(others[i])
        out[k] = _tree(terms, half)


@compiled
def _distances(
    ours: Array, theirs: Array, row: Ints, column: Ints, out: Array
) -> None:  # pragma: no cover
    half = _half(ours.shape[1])
    rest = ours.shape[1] - half
    terms = np.empty(half)
    for k in range(len(row)):
        x, y = ours[row[k]], theirs[column[k]]
        lower, others, upper, rests = x[:half], y[:half], x[half:], y[half:]
        for i in range(rest):
            a = np.float64(lower[i]) - np.float64(others[i])
            b = np.float64(upper[i]) - np.float64(rests[i])
            terms[i] = a * a + b * b
        for i in range(max(rest, 0), len(lower)):
            a = np.float64(lower[i]) - np.float64(others[i])
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


@comparing
def _largest(scores: Array) -> float:  # pragma: no cover
    largest = scores[0]
    for j in range(len(scores)):
        largest = max(largest, scores[j])
    return largest  # type: ignore[no-any-return]


@compiled
def _fill_table(
    table: npt.NDArray[np.int32], n_buckets: int, low: Array
) -> float:  # pragma: no cover
    """Note how many bounds lie before each of even buckets; return buckets per unit of score.

    It is -1 where the bounds are too far apart for it, or too near to one another.

    The bucket of a score rises with it, so that bounds in lower buckets are below the score
    and those in higher ones above it, whatever is rounded.
    """
    width = np.float64(low[-1]) - np.float64(low[0])
    scale = (n_buckets - 1) / width if width > 0 else 0.0
    if not 0 < scale < np.inf:
        return -1.0
    filled = 0
    for k in range(len(low)):
        bucket = int((np.float64(low[k]) - np.float64(low[0])) * scale)
        while filled <= bucket:
            table[filled] = k
            filled += 1
    while filled <= n_buckets:
        table[filled] = len(low)
        filled += 1
    return scale


@compiled
def _above_by_table(
    low: Array, value: float, scale: float, table: npt.NDArray[np.int32], n_buckets: int
) -> int:  # pragma: no cover
    """Return how many of the bounds are at most a value, by their buckets."""
    bucket = int(min((np.float64(value) - np.float64(low[0])) * scale, np.float64(n_buckets - 1)))
    above, end = np.int64(table[bucket]), table[bucket + 1]
    while above < end and low[above] <= value:
        above += 1
    return above  # type: ignore[no-any-return]


@compiled
def _place_rows(
    scores: Array, lowest: Array, low: Array, high: Array, start: Ints, edges: Ints, bins: Array,
    row: Ints, column: Ints, best: Array, table: npt.NDArray[np.int32],
) -> int:  # pragma: no cover  # fmt: skip
    found = 0
    held, value_of = np.empty(_STRETCH, np.int64), np.empty(_STRETCH, scores.dtype)
    for i in range(scores.shape[0]):
        mine, floor, begin, end = scores[i], lowest[i], start[i], start[i + 1]
        best[i] = _largest(mine)
        if begin == end or best[i] < floor:
            continue
        n, scale = end - begin, -1.0
        n_buckets = max(min(_BUCKETS * n, 2 * len(mine)), 2)
        lower, upper = low[begin:end], high[begin:end]
        if n >= _MANY:
            scale = _fill_table(table, n_buckets, lower)
        for part in range(len(edges) - 1):
            counts = bins[part, begin + i : end + i + 1]
            for first in range(edges[part], edges[part + 1], _STRETCH):
                last = min(first + _STRETCH, edges[part + 1])
                if not _n_reaching_one(mine[first:last], floor):
                    continue
                n_held = 0
                for j in range(first, last):  # first which ones, then where: fewer wrong guesses
                    value = mine[j]
                    held[n_held], value_of[n_held] = j, value
                    n_held += value >= floor
                for k in range(n_held):
                    value = value_of[k]
                    if scale >= 0:
                        above = _above_by_table(lower, value, scale, table, n_buckets)
                    else:
                        above = _above(low, begin, end, value)
                    if upper[above - 1] >= value:
                        if found < len(row):
                            row[found], column[found] = i, held[k]
                        found += 1
                    else:
                        counts[above] += np.uint32(1)
    return found


@compiled
def _place_columns(
    scores: Array, lowest: Array, low: Array, high: Array, start: Ints, bins: Array, row: Ints,
    column: Ints, best: Array,
) -> int:  # pragma: no cover  # fmt: skip
    found = 0
    width = scores.shape[1]
    held, value_of = np.empty(_STRETCH, np.int64), np.empty(_STRETCH, scores.dtype)
    for i in range(scores.shape[0]):
        mine = scores[i]
        _take_larger(best, mine)
        for first in range(0, width, _STRETCH):
            last = min(first + _STRETCH, width)
            if not _n_reaching(mine[first:last], lowest[first:last]):
                continue
            n_held = 0
            for j in range(first, last):
                held[n_held], value_of[n_held] = j, mine[j]
                n_held += mine[j] >= lowest[j]
            for k in range(n_held):
                j, value = held[k], value_of[k]
                begin, end = start[j], start[j + 1]
                above = _above(low, begin, end, value)
                if high[begin + above - 1] >= value:
                    if found < len(row):
                        row[found], column[found] = i, j
                    found += 1
                else:
                    bins[begin + j + above] += np.uint32(1)
    return found


@comparing
def _take_larger(best: Array, scores: Array) -> None:  # pragma: no cover
    for j in range(len(best)):
        best[j] = max(best[j], scores[j])
