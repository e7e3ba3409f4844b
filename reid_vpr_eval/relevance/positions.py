"""Arrays of positions, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import RelevanceError, counted, name_some

__all__ = ["column_of", "positions_of", "ranges"]


def ranges(starts: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return start, start + 1, ... (size of them) for each start, one after another.

    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.repeat(np.asarray(starts) - (ends - sizes), sizes)
    return np.asarray(shift + np.arange(total), dtype=np.int64)


def positions_of(given: npt.ArrayLike, size: int, side: str) -> npt.NDArray[np.int64]:
    """Return positions as int64 once they are whole numbers within their side."""
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise RelevanceError(f"{side} positions must be a list of whole numbers")
    array = array.astype(np.int64)
    outside = (array < 0) | (array >= size)
    if outside.any():
        pairs = np.flatnonzero(outside)
        raise RelevanceError(
            f"{side} positions run from 0 to {size - 1}; outside are {counted(len(pairs), 'pair')} "
            f"(pair {pairs[0]}: {array[pairs[0]]}; all: {name_some(pairs)})"
        )
    return array


def column_of(
    given: npt.ArrayLike | None, size: int, name: str, default: float, kind: Any
) -> npt.NDArray[Any]:
    """Return a column of so many entries, or the default in each."""
    if given is None:
        return np.full(size, default, dtype=kind)
    if kind is np.bool_ and not np.isin(np.asarray(given), (0, 1)).all():
        raise RelevanceError(f"{name} marks entries True or False; it does not list positions")
    array = np.array(given, dtype=kind)
    if array.shape != (size,):
        raise RelevanceError(f"{name} has the shape {array.shape}; ({size},) is needed")
    return array
