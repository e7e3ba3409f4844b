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

__all__ = ["Placed", "at_least", "bisect", "lengths", "pair_scores", "place", "unit"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

SHARE_FOR_DOUBLE = 0.04
SHARE_FOR_CARE = 2.0
_SHARE_TO_SORT = 0.35
_NARROW = 128  # columns of a part below which to sort it does not pay

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
    """

    bins: Array
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


def place(
    scores: Array, low: Array, high: Array, start: Ints, axis: Literal[0, 1] = 0,
    edges: Ints | None = None,
) -> Placed:  # fmt: skip
    """Place the scores of a tile among the thresholds of its lines.

    Where lines are rows, columns between two of the `edges` (n_parts + 1,) are a part.
    """
    n_lines = len(start) - 1
    bounds = np.array([0, scores.shape[1]]) if edges is None else edges
    lowest = np.full(n_lines, np.inf, low.dtype)
    has = np.flatnonzero(np.diff(start))
    lowest[has] = low[start[has]]
    passing = scores >= (lowest[:, None] if axis == 0 else lowest)
    wide = scores.size > _NARROW * len(bounds) * n_lines
    if wide and np.count_nonzero(passing) > _SHARE_TO_SORT * passing.size:
        lines = scores if axis == 0 else np.ascontiguousarray(scores.T)
        return _place_sorted(lines, passing, low, high, start, axis, bounds)
    row, column = np.divmod(np.flatnonzero(passing), scores.shape[1])
    line = row if axis == 0 else column
    value = scores[row, column]
    above = np.searchsorted(_keys(np.repeat(np.arange(n_lines), np.diff(start)), low),
                            _keys(line, value), side="right")  # fmt: skip
    doubtful = high[np.maximum(above - 1, 0)] >= value
    bin_ = above + line
    n_parts, n_bins = len(bounds) - 1, len(low) + n_lines
    if n_parts > 1:
        bin_ += (np.repeat(np.arange(n_parts), np.diff(bounds)) * n_bins)[column]
    bins = np.bincount(bin_[~doubtful], minlength=n_parts * n_bins).reshape(n_parts, n_bins)
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
    lines: Array, passing: Array, low: Array, high: Array, start: Ints, axis: Literal[0, 1],
    edges: Ints,
) -> Placed:  # fmt: skip
    """Place scores by sorting each line: better where many are above some threshold."""
    bins = np.zeros((len(edges) - 1, len(low) + len(lines)), np.int64)
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    some = np.flatnonzero(passing.any(axis=1 - axis))
    parts = [(0, slice(None))]
    if len(edges) > 2:
        parts = [(k, slice(*cut)) for k, cut in enumerate(pairwise(edges.tolist()))]
    for line in some.tolist():
        group = slice(start[line], start[line + 1])
        place = slice(group.start + line + 1, group.stop + line + 1)
        in_doubt = 0
        for part, columns_of in parts:
            ascending = np.sort(lines[line, columns_of])
            surely = len(ascending) - ascending.searchsorted(high[group], side="right")
            perhaps = len(ascending) - ascending.searchsorted(low[group], side="left")
            inside = np.maximum(surely - np.append(perhaps[1:], 0), 0)
            bins[part, place] = inside
            in_doubt += perhaps[0] - inside.sum()
        if in_doubt:
            value = lines[line]
            found = np.flatnonzero(value >= low[group.start])
            above = low[group].searchsorted(value[found], side="right")
            found = found[high[group][above - 1] >= value[found]]
            rows.append(np.full(len(found), line))
            columns.append(found)
    row, column = np.concatenate(rows), np.concatenate(columns)
    return Placed(bins, row, column) if axis == 0 else Placed(bins, column, row)
