"""Where the scores of a tile lie among the thresholds of its lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.kernels.loops.jit import comparing, compiled

__all__ = ["BUCKETS", "MANY", "columns_at_least", "place_columns", "place_rows", "rows_at_least"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

#: Thresholds of a line from which on a table of buckets helps.
MANY = 12
#: Buckets for each threshold; fewer where lines are short.
BUCKETS = 16
_STRETCH = 64  # scores that are passed over at once if none of them counts


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
def rows_at_least(
    scores: Array, least: Array, row: Ints, column: Ints
) -> int:  # pragma: no cover
    """Note the scores that reach the least one of their row; return how many do."""
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
def columns_at_least(
    scores: Array, least: Array, row: Ints, column: Ints
) -> int:  # pragma: no cover
    """Note the scores that reach the least one of their column; return how many do."""
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
    return int(above)


@compiled
def place_rows(
    scores: Array, lowest: Array, low: Array, high: Array, start: Ints, edges: Ints, bins: Array,
    row: Ints, column: Ints, best: Array, table: npt.NDArray[np.int32],
) -> int:  # pragma: no cover  # fmt: skip
    """Count scores in the bins of their row and part; note and count those in doubt."""
    found = 0
    held, value_of = np.empty(_STRETCH, np.int64), np.empty(_STRETCH, scores.dtype)
    for i in range(scores.shape[0]):
        mine, floor, begin, end = scores[i], lowest[i], start[i], start[i + 1]
        best[i] = _largest(mine)
        if begin == end or best[i] < floor:
            continue
        n, scale = end - begin, -1.0
        n_buckets = max(min(BUCKETS * n, 2 * len(mine)), 2)
        lower, upper = low[begin:end], high[begin:end]
        if n >= MANY:
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
def place_columns(
    scores: Array, lowest: Array, low: Array, high: Array, start: Ints, bins: Array, row: Ints,
    column: Ints, best: Array,
) -> int:  # pragma: no cover  # fmt: skip
    """Count scores in the bins of their column; note and count those in doubt."""
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
