"""Sorting judged pairs, and finding places in sorted lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.kernels.loops.jit import compiled

__all__ = ["bisect", "ranked"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

_RUN = 8  # pairs that are sorted one by one before they are merged


@compiled
def ranked(
    score: npt.NDArray[np.float64], tie: Ints, offsets: Ints, ordered: Ints,
    order: npt.NDArray[np.int32], group: npt.NDArray[np.int32],
) -> None:  # pragma: no cover  # fmt: skip
    """Sort the pairs of each list by falling score and rising tie order.

    Sorted runs are merged; `here` and `there` hold pairs, sorted up to some width.
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    here, there = np.empty(longest, np.int64), np.empty(longest, np.int64)
    value, other = np.empty(longest), np.empty(longest)
    for i in range(len(offsets) - 1):
        begin, n = offsets[i], offsets[i + 1] - offsets[i]
        _sort_runs(score, tie, begin, n, here, value)
        width = _RUN
        while width < n:
            _merge_runs(tie, n, width, here, value, there, other)
            here, there, value, other = there, here, other, value
            width *= 2
        distinct = 0
        for k in range(n):
            pair = here[k]
            distinct += k > 0 and value[k] != value[k - 1]
            ordered[begin + k], order[pair], group[pair] = pair, k, distinct


@compiled
def _sort_runs(
    score: npt.NDArray[np.float64], tie: Ints, begin: int, n: int, here: Ints,
    value: npt.NDArray[np.float64],
) -> None:  # pragma: no cover  # fmt: skip
    for first in range(0, n, _RUN):
        for k in range(first, min(first + _RUN, n)):
            pair, own, j = begin + k, score[begin + k], k
            while j > first and (
                own > value[j - 1] or (own == value[j - 1] and tie[pair] < tie[here[j - 1]])
            ):
                here[j], value[j] = here[j - 1], value[j - 1]
                j -= 1
            here[j], value[j] = pair, own


@compiled
def _merge_runs(
    tie: Ints, n: int, width: int, here: Ints, value: npt.NDArray[np.float64], there: Ints,
    other: npt.NDArray[np.float64],
) -> None:  # pragma: no cover  # fmt: skip
    for first in range(0, n, 2 * width):
        middle, last = min(first + width, n), min(first + 2 * width, n)
        left, right = first, middle
        for k in range(first, last):
            if left == middle:
                takes_left = False
            elif right == last:
                takes_left = True
            elif value[left] == value[right]:
                takes_left = tie[here[left]] < tie[here[right]]
            else:
                takes_left = value[left] > value[right]
            place = left if takes_left else right
            there[k], other[k] = here[place], value[place]
            left += takes_left
            right += not takes_left


@compiled
def bisect(
    values: Array, start: Ints, end: Ints, wanted: Array, out: Ints
) -> None:  # pragma: no cover
    """Write, for each ascending segment, the first position with a value >= wanted."""
    for k in range(len(start)):
        low, high = start[k], end[k]
        while low < high:
            middle = (low + high) // 2
            if values[middle] < wanted[k]:
                low = middle + 1
            else:
                high = middle
        out[k] = low
