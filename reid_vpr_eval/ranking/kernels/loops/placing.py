"""Where the scores of a tile lie among the thresholds of its lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.kernels.loops.jit import comparing, compiled

__all__ = ["BUCKETS", "MANY", "columns_at_least", "place_columns", "place_rows", "rows_at_least"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint32]

#: Thresholds of a line from which on it is better read along its scores.
MANY = 12
#: Buckets for each threshold; fewer where lines are short.
BUCKETS = 16
_SCORES_OF_BUCKET = 4  # more buckets cost more than they spare
_STRETCH = 64  # scores that are passed over at once if none of them counts
_SOME = 12  # scores of a stretch that count, from which on all are looked up
_FEW = 4  # bounds that are compared one after the other
_STEEPEST, _FLATTEST = 2.0**127, 2.0**-126  # buckets for a unit of score
_ONE = np.uint32(1)


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
def _buckets_of(
    scores: Array, least: float, scale: Any, last: int, out: npt.NDArray[np.int32]
) -> None:  # pragma: no cover
    """Write the bucket of each score: 0 below the least bound, `last` above the largest.

    It never falls where the score rises, whatever is rounded, so that a bound in a lower bucket
    is below a score, and one in a higher bucket above it.
    """
    one, zero, most = np.float32(1), np.float32(0), np.float32(last)
    for k in range(len(scores)):
        out[k] = np.int32(min(max((scores[k] - least) * scale + one, zero), most))


@compiled
def _fill_table(
    table: Numbers, n_buckets: int, lower: Numbers, upper: Numbers
) -> None:  # pragma: no cover
    """Note for each bucket how many bounds lie in those before it, and whether it is open.

    `lower` and `upper` are the buckets of the two bounds of each threshold. Open are those
    between: a score in any other is surely above the thresholds before it, and no more. Twice
    the number is noted, and 1 added where the bucket is open.
    """
    for bucket in range(n_buckets + 1):
        table[bucket] = 0
    for k in range(len(lower)):
        table[lower[k]] |= _ONE
        table[lower[k] + _ONE] += _ONE + _ONE
    for k in range(len(lower)):
        if upper[k] != lower[k]:
            for bucket in range(lower[k] + _ONE, upper[k] + _ONE):
                table[bucket] |= _ONE
    before = _ONE - _ONE
    for bucket in range(n_buckets + 1):
        noted = table[bucket]
        before += noted & ~_ONE
        table[bucket] = before | (noted & _ONE)


@compiled
def _open_table(
    table: Numbers, of_low: npt.NDArray[np.int32], of_high: npt.NDArray[np.int32], lower: Array,
    upper: Array, n_scores: int,
) -> tuple[Any, int]:  # pragma: no cover  # fmt: skip
    """Fill the table for the bounds of a row; return buckets per unit of score, and the last one.

    `of_low` and `of_high` are memory for the buckets of the bounds.
    """
    n = len(lower)
    n_buckets = max(min(BUCKETS * n, n_scores // _SCORES_OF_BUCKET), 2 * n, BUCKETS)
    width = upper[-1] - lower[0]
    scale = np.float32(max(min((n_buckets - 3) / np.float64(width), _STEEPEST), _FLATTEST))
    _buckets_of(lower, lower[0], scale, n_buckets - 1, of_low[:n])
    _buckets_of(upper, lower[0], scale, n_buckets - 1, of_high[:n])
    _fill_table(table, n_buckets, of_low[:n].view(np.uint32), of_high[:n].view(np.uint32))
    return scale, n_buckets - 1


@compiled
def _above(low: Array, begin: Any, end: Any, value: float) -> Any:  # pragma: no cover
    """Return how many of ascending bounds are at most a value, from `begin` on or after it.

    Those before `begin` are, those from `end` on are not.
    """
    while end - begin > _FEW:
        middle = (begin + end) // 2
        if low[middle] <= value:
            begin = middle + 1
        else:
            end = middle
    last = len(low) - 1
    begin += (begin < end) & (low[min(begin, last)] <= value)  # most often there is one
    while (begin < end) & (low[min(begin, last)] <= value):
        begin += 1
    return begin


@compiled
def place_rows(
    scores: Array, lowest: Array, low: Array, high: Array, start: Ints, edges: Ints, bins: Array,
    row: Ints, column: Ints, best: Array, table: Numbers,
) -> int:  # pragma: no cover  # fmt: skip
    """Count scores in the bins of their row and part; note and count those in doubt.

    Scores are put into even buckets between the least and the largest bound of their row. Most
    buckets hold no bound, and their scores are counted at once; the others are compared.
    """
    found = 0
    most = len(table)
    of_score, of_low, of_high = (
        np.empty(_STRETCH, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    )  # fmt: skip
    # whole numbers without a sign are looked up faster
    bucket_of, held = of_score.view(np.uint32), np.empty(_STRETCH, np.uint32)
    for i in range(scores.shape[0]):
        mine, floor, begin, end = scores[i], lowest[i], start[i], start[i + 1]
        best[i] = _largest(mine)
        if begin == end or best[i] < floor:
            continue
        lower, upper = low[begin:end], high[begin:end]
        scale, top = _open_table(table, of_low, of_high, lower, upper, len(mine))
        for part in range(len(edges) - 1):
            counts = bins[part, begin + i : end + i + 1]
            for first in range(edges[part], edges[part + 1], _STRETCH):
                some = mine[first : min(first + _STRETCH, edges[part + 1])]
                n_reaching = _n_reaching_one(some, floor)
                if not n_reaching:
                    continue
                _buckets_of(some, lower[0], scale, top, of_score)
                n_held = _ONE - _ONE
                if n_reaching < _SOME:
                    for j in range(len(some)):
                        held[n_held] = j
                        n_held += np.uint32(some[j] >= floor)
                else:
                    for j in range(len(some)):
                        noted = table[bucket_of[j]]
                        held[n_held] = j
                        n_held += noted & _ONE
                        counts[noted >> _ONE] += (noted & _ONE) ^ _ONE
                for k in range(n_held):
                    value, bucket = some[held[k]], bucket_of[held[k]]
                    above = _above(lower, np.int64(table[bucket] >> _ONE),
                                   np.int64(table[bucket + _ONE] >> _ONE), value)  # fmt: skip
                    if above == 0:
                        continue
                    if upper[above - 1] >= value:
                        if found < len(row):
                            row[found], column[found] = i, first + held[k]
                        found += 1
                    else:
                        counts[above] += _ONE
            counts[0] = 0  # those above no threshold are not counted
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
                above = _above(low[begin:end], 1, end - begin, value)
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
