"""The inner loops in NumPy: canonical scores, and the place of scores among thresholds.

What lies in a tile is placed among the thresholds of its lines. A line is a row of the tile
(axis 0), or a column of it (axis 1) where the columns are queries as well. Each threshold
comes as two bounds, `low` and `high`: a score above `high` is surely above the threshold,
one below `low` surely below, and one in between is in doubt.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking import canonical

__all__ = ["Placed", "at_least", "lengths", "pair_scores", "place", "unit"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

SHARE_FOR_DOUBLE = 0.04
_SHARE_TO_SORT = 0.35

lengths = canonical.norms
unit = canonical.unit


class Placed(NamedTuple):
    """Where the scores of a tile lie.

    Attributes
    ----------
    bins : int64 array (n_thresholds + n_lines,)
        For a line with thresholds ``start[i]:start[i + 1]``, bin ``start[i] + i + k`` holds how
        many scores are surely above exactly k of them; those above none are not counted.
    row, column : int64 arrays
        The scores in doubt, which no bin holds.
    """

    bins: Ints
    row: Ints
    column: Ints


def pair_scores(
    ours: Array, theirs: Array, row: Ints, column: Ints, *, squared_distance: bool
) -> npt.NDArray[np.float64]:
    """Return the canonical score of ``ours[row]`` with ``theirs[column]``, one by one."""
    return canonical.pair_scores(ours, theirs, row, column, squared_distance=squared_distance)


def at_least(scores: Array, least: Array, axis: Literal[0, 1] = 0) -> tuple[Ints, Ints]:
    """Return rows and columns of the scores that reach the least one of their line."""
    some = np.flatnonzero(least < np.inf)
    if axis == 0 and len(some) < len(least) // 2:
        row, column = np.nonzero(scores[some] >= least[some, None])
        return some[row], column
    row, column = np.nonzero(scores >= (least[:, None] if axis == 0 else least))
    return row, column


def place(scores: Array, low: Array, high: Array, start: Ints, axis: Literal[0, 1] = 0) -> Placed:
    """Place the scores of a tile among the thresholds of its lines."""
    n_lines = len(start) - 1
    lowest = np.full(n_lines, np.inf, low.dtype)
    has = np.flatnonzero(np.diff(start))
    lowest[has] = low[start[has]]
    passing = scores >= (lowest[:, None] if axis == 0 else lowest)
    if np.count_nonzero(passing) > _SHARE_TO_SORT * passing.size:
        lines = scores if axis == 0 else np.ascontiguousarray(scores.T)
        return _place_sorted(lines, passing, low, high, start, axis)
    row, column = np.divmod(np.flatnonzero(passing), scores.shape[1])
    line = row if axis == 0 else column
    value = scores[row, column]
    above = np.searchsorted(_keys(np.repeat(np.arange(n_lines), np.diff(start)), low),
                            _keys(line, value), side="right")  # fmt: skip
    doubtful = high[np.maximum(above - 1, 0)] >= value
    bins = np.bincount((above + line)[~doubtful], minlength=len(low) + n_lines)
    return Placed(bins, row[doubtful], column[doubtful])


def _keys(line: Ints, value: Array) -> Array:
    """Return numbers that are in the order of (line, value), for float32 and float64."""
    if value.dtype != np.float32:
        pairs = np.empty(len(value), np.dtype([("line", np.int64), ("value", np.float64)]))
        pairs["line"], pairs["value"] = line, value
        return pairs
    bits = (value + np.float32(0)).view(np.uint32)  # adding 0 makes -0 equal to 0
    negative = bits >> np.uint32(31) != 0
    ordered = np.where(negative, ~bits, bits | np.uint32(1 << 31))
    return (line.astype(np.uint64) << np.uint64(32)) | ordered


def _place_sorted(
    lines: Array, passing: Array, low: Array, high: Array, start: Ints, axis: Literal[0, 1]
) -> Placed:
    """Place scores by sorting each line: better where many are above some threshold."""
    bins = np.zeros(len(low) + len(lines), np.int64)
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    some = np.flatnonzero(passing.any(axis=1 - axis))
    for line in some.tolist():
        group = slice(start[line], start[line + 1])
        ascending = np.sort(lines[line])
        surely = len(ascending) - ascending.searchsorted(high[group], side="right")
        perhaps = len(ascending) - ascending.searchsorted(low[group], side="left")
        inside = np.maximum(surely - np.append(perhaps[1:], 0), 0)
        bins[group.start + line + 1 : group.stop + line + 1] = inside
        if inside.sum() < perhaps[0]:
            value = lines[line]
            found = np.flatnonzero(value >= low[group.start])
            above = low[group].searchsorted(value[found], side="right")
            found = found[high[group][above - 1] >= value[found]]
            rows.append(np.full(len(found), line))
            columns.append(found)
    row, column = np.concatenate(rows), np.concatenate(columns)
    return Placed(bins, row, column) if axis == 0 else Placed(bins, column, row)
