"""The inner loops in NumPy: canonical scores, and the place of scores among thresholds.

What lies in a tile is placed among the thresholds of its lines. A line is a row of the tile
(axis 0), or a column of it (axis 1) where the columns are queries as well. Each threshold
comes as two bounds, `low` and `high`: a score above `high` is surely above the threshold,
one below `low` surely below, and one in between is in doubt.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking import canonical

__all__ = [
    "Placed", "at_least", "bisect", "lengths", "pair_scores", "place", "ranked", "unit",
]  # fmt: skip

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

SHARE_FOR_DOUBLE = 0.04
SHARE_FOR_CARE = 2.0
_SCORES_AT_ONCE = 1 << 16  # what is found among them stays in the cache
_MANY = 12  # thresholds of a line from which on lines are better read one after the other
_BUCKETS = 8  # for each threshold
_LONG_LISTS = 100  # pairs of a query from which on each query is sorted by itself

lengths = canonical.norms
unit = canonical.unit


class Placed(NamedTuple):
    """Where the scores of a tile lie.

    Attributes
    ----------
    bins : whole numbers (n_parts, n_thresholds + n_lines)
        For a line with thresholds ``start[i]:start[i + 1]``, bin ``start[i] + i + k`` holds how
        many scores of a part of the tile are surely above exactly k of them; those above none
        are not counted.
    row, column : int64 arrays
        The scores in doubt, which no bin holds.
    best : array (n_lines,)
        The largest score of each line.
    """

    bins: Array
    row: Ints
    column: Ints
    best: Array


def pair_scores(
    ours: Array, theirs: Array, row: Ints, column: Ints, *, squared_distance: bool
) -> npt.NDArray[np.float64]:
    """Return the canonical score of ``ours[row]`` with ``theirs[column]``, one by one."""
    return canonical.pair_scores(ours, theirs, row, column, squared_distance=squared_distance)


def at_least(scores: Array, least: Array, axis: Literal[0, 1] = 0) -> tuple[Ints, Ints]:
    """Return rows and columns of the scores that reach the least one of their line."""
    if axis == 1:
        return _nonzero(scores >= least)
    some = np.flatnonzero(least < np.inf)
    step = max(1, _SCORES_AT_ONCE // scores.shape[1])
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for own in (some[begin : begin + step] for begin in range(0, len(some), step)):
        row, column = _nonzero(scores[own] >= least[own, None])
        rows.append(own[row])
        columns.append(column)
    return np.concatenate(rows), np.concatenate(columns)


def _nonzero(mask: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return rows and columns of what is true; numpy.nonzero takes several times as long."""
    found = np.flatnonzero(mask)
    edges = np.searchsorted(found, np.arange(len(mask) + 1) * mask.shape[1])
    row = np.repeat(np.arange(len(mask)), np.diff(edges))
    return row, found - row * mask.shape[1]


def bisect(values: Array, start: Ints, end: Ints, wanted: Array) -> Ints:
    """Return, in each ascending segment, the first position with a value >= wanted."""
    low, high = start.copy(), end.copy()
    steps = int((end - start).max()).bit_length() if len(start) else 0
    for _ in range(steps):
        open_ = low < high
        middle = (low + high) // 2
        smaller = np.zeros(len(low), bool)
        smaller[open_] = values[middle[open_]] < wanted[open_]
        low = np.where(open_ & smaller, middle + 1, low)
        high = np.where(open_ & ~smaller, middle, high)
    return low


def ranked(
    score: npt.NDArray[np.float64], tie: Ints, offsets: Ints
) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Sort the pairs of each query by falling score, and equal ones by rising `tie`.

    Returns
    -------
    ordered : int64 array (n_pairs,)
        The sorted pairs, query by query.
    order, tie_group : int32 arrays (n_pairs,)
        For each pair its place among those of its query, and how many distinct scores of its
        query are above its own.
    """
    size, query = np.diff(offsets), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    falling = -score
    if len(score) >= _LONG_LISTS * len(size):
        ordered = np.empty(len(score), np.int64)
        for begin, end in pairwise(offsets.tolist()):
            np.add(np.argsort(falling[begin:end]), begin, out=ordered[begin:end])
    else:
        ordered = np.argsort(falling)
        ordered = ordered[_stable(query[ordered])]
    value = falling[ordered]
    new = np.r_[True, (value[1:] != value[:-1]) | (query[1:] != query[:-1])][: len(value)]
    if not new.all():  # only then does the tie order matter
        tied = np.flatnonzero(~(new & np.r_[new[1:], True]))
        run = np.cumsum(new)[tied]
        pairs = ordered[tied]
        ordered[tied] = pairs[np.lexsort((tie[pairs], run))]
    order, group = (np.empty(len(score), np.int32) for _ in range(2))
    order[ordered] = np.arange(len(score)) - np.repeat(offsets[:-1], size)
    number = np.cumsum(new)
    has = size > 0
    group[ordered] = number - np.repeat(number[offsets[:-1][has]], size[has])
    return ordered, order, group


def _stable(query: Ints) -> Ints:
    """Sort queries and keep the order of equal ones: by 16 bits, which NumPy does in one pass."""
    order = np.argsort(query.astype(np.uint16), kind="stable")
    if len(query) and query.max() >> 16:
        order = order[np.argsort((query >> 16)[order], kind="stable")]
    return order


def place(
    scores: Array, low: Array, high: Array, start: Ints, axis: Literal[0, 1] = 0,
    edges: Ints | None = None,
) -> Placed:  # fmt: skip
    """Place the scores of a tile among the thresholds of its lines.

    Where lines are rows, columns between two of the `edges` (n_parts + 1,) are a part.
    """
    n_lines = len(start) - 1
    if axis == 1 and len(low) >= _MANY * n_lines:
        placed = place(np.ascontiguousarray(scores.T), low, high, start)
        return Placed(placed.bins, placed.column, placed.row, placed.best)
    n_parts = 1 if edges is None else len(edges) - 1
    bins = np.zeros((n_parts, len(low) + n_lines), np.int64)
    best = scores.max(axis=1 - axis)
    lowest = np.full(n_lines, np.inf, low.dtype)
    has = np.flatnonzero(np.diff(start))
    lowest[has] = low[start[has]]
    part = None if edges is None else np.repeat(np.arange(n_parts), np.diff(edges))
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    alive = np.flatnonzero(best >= lowest) if axis == 0 else np.arange(len(scores))
    step = max(1, _SCORES_AT_ONCE // scores.shape[1]) if axis == 0 else len(scores)
    for own in (alive[begin : begin + step] for begin in range(0, len(alive), step)):
        lines = slice(own[0], own[-1] + 1) if axis == 0 else slice(0, n_lines)
        block = scores[own[0] : own[-1] + 1]
        if len(block) > len(own):
            block = scores[own]
        row, column = _nonzero(block >= (lowest[own, None] if axis == 0 else lowest))
        value, row = block[row, column], own[row]
        line = row - lines.start if axis == 0 else column
        mine = slice(start[lines.start], start[lines.stop])
        above = _above(low[mine], start[lines.start : lines.stop + 1] - mine.start, line, value)
        doubtful = high[mine][above - 1] >= value
        sure = ~doubtful
        counts = bins[:, mine.start + lines.start : mine.stop + lines.stop]
        bin_ = (above + line)[sure]
        if part is not None:
            bin_ += part[column[sure]] * counts.shape[1]
        counts += np.bincount(bin_, minlength=counts.size).reshape(counts.shape)
        rows.append(row[doubtful])
        columns.append(column[doubtful])
    return Placed(bins, np.concatenate(rows), np.concatenate(columns), best)


def _above(low: Array, start: Ints, line: Ints, value: Array) -> Ints:
    """Return, for values of some lines, the first bound of the line that is above the value.

    Bounds are looked up in even buckets between the first and the last of a line. The bucket of
    a number rises with it, whatever is rounded, so that bounds in lower buckets are below a value
    and those in higher ones above it; only those in its own bucket are compared.
    """
    if not len(value):
        return np.empty(0, np.int64)
    size = np.diff(start)
    n_buckets = _BUCKETS * size + 1
    offset = np.r_[0, np.cumsum(n_buckets + 1)]
    last = len(low) - 1
    floor = low[np.minimum(start[:-1], last)].astype(np.float64)
    with np.errstate(all="ignore"):  # lines whose bounds are too near or too far have one bucket
        scale = _BUCKETS * size / (low[np.minimum(start[1:] - 1, last)] - floor)
        scale[~((scale > 0) & (scale < np.inf))] = np.inf

        def bucket_of(number: Array, of: Ints) -> Ints:
            place = (number - floor[of]) * scale[of]
            np.fmin(place, (n_buckets - 1)[of], out=place)
            return np.asarray(place.astype(np.int64) + offset[of])

        held = np.bincount(bucket_of(low, np.repeat(np.arange(len(size)), size)),
                           minlength=int(offset[-1]))  # fmt: skip
        before = np.r_[0, np.cumsum(held)]
        bucket = bucket_of(value, line)
    first, end = before[bucket], before[bucket + 1]
    open_ = np.flatnonzero(end > first)
    while len(open_):
        middle = (first[open_] + end[open_]) // 2
        reached = low[middle] <= value[open_]
        first[open_[reached]] = middle[reached] + 1
        end[open_[~reached]] = middle[~reached]
        open_ = open_[end[open_] > first[open_]]
    return np.asarray(first)
