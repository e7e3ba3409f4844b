"""The inner loops compiled by numba (the extra ``fast``): bit by bit those in NumPy."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.canonical import component_type
from reid_vpr_eval.ranking.kernels import plain
from reid_vpr_eval.ranking.kernels.loops import placing, scoring, sorting
from reid_vpr_eval.ranking.kernels.plain import Placed

__all__ = ["at_least", "bisect", "lengths", "pair_scores", "place", "ranked", "unit"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

SHARE_FOR_DOUBLE = 0.3
SHARE_FOR_CARE = 16.0
_FIRST_GUESS = 1 << 14  # of how many scores are in doubt, and at least
_SHARE_GUESSED = 8  # one of so many scores of the tile; what is not used costs nothing


def lengths(vectors: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean length of each vector by the canonical sum, float64 (n,)."""
    if vectors.dtype != np.float32:
        return plain.lengths(vectors)
    out = np.empty(len(vectors))
    scoring.lengths(vectors, out)
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
    named = np.arange(len(vectors)) if rows is None else rows
    made = np.empty((len(named), vectors.shape[1]), np.float32) if out is None else out
    scoring.unit(vectors, named, made)
    return made


def pair_scores(
    ours: Array, theirs: Array, row: Ints, column: Ints, *, squared_distance: bool
) -> npt.NDArray[np.float64]:
    """Return the canonical score of ``ours[row]`` with ``theirs[column]``, one by one."""
    out = np.empty(len(row))
    score = scoring.distances if squared_distance else scoring.products
    score(ours, theirs, row, column, out)
    return out


def at_least(scores: Array, least: Array, axis: Literal[0, 1] = 0) -> tuple[Ints, Ints]:
    """Return rows and columns of the scores that reach the least one of their line."""
    fill = placing.rows_at_least if axis == 0 else placing.columns_at_least
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
    sorting.bisect(values, start, end, wanted, out)
    return out


def ranked(
    score: npt.NDArray[np.float64], tie: Ints, offsets: Ints
) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Sort the pairs of each query by falling score, and equal ones by rising `tie`."""
    ordered = np.empty(len(score), np.int64)
    order, group = (np.empty(len(score), np.int32) for _ in range(2))
    sorting.ranked(score, tie, offsets, ordered, order, group)
    return ordered, order, group


def place(
    scores: Array, low: Array, high: Array, start: Ints, axis: Literal[0, 1] = 0,
    edges: Ints | None = None,
) -> Placed:  # fmt: skip
    """Place the scores of a tile among the thresholds of its lines."""
    n_lines = len(start) - 1
    if axis == 1 and len(low) >= placing.MANY * n_lines:
        placed = place(np.ascontiguousarray(scores.T), low, high, start)
        return Placed(placed.bins, placed.column, placed.row, placed.best)
    bounds = np.array([0, scores.shape[1]]) if edges is None else edges
    lowest = np.full(n_lines, np.inf, low.dtype)
    has = np.flatnonzero(np.diff(start))
    lowest[has] = low[start[has]]
    table = np.empty(placing.BUCKETS * (int(np.diff(start).max(initial=0)) + 1) + 2, np.uint32)
    best = np.full(n_lines, -np.inf, scores.dtype)
    size = max(_FIRST_GUESS, scores.size // _SHARE_GUESSED)
    while True:
        bins = np.zeros((len(bounds) - 1, len(low) + n_lines), np.uint32)
        row, column = np.empty(size, np.int64), np.empty(size, np.int64)
        if axis == 0:
            found = placing.place_rows(scores, lowest, low, high, start, bounds, bins, row, column,
                                       best, table)  # fmt: skip
        else:
            found = placing.place_columns(scores, lowest, low, high, start, bins[0], row, column,
                                          best)  # fmt: skip
        if found <= size:
            return Placed(bins, row[:found], column[:found], best)
        size = found
