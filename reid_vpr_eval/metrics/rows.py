"""Reading ids and distances that come as one row a query, ragged or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, ScoreError

__all__ = [
    "Rows", "check_ascending", "check_kinds", "check_truth", "missing", "of_one_precision",
    "read_distances", "read_ids", "same_number",
]  # fmt: skip

Floats: TypeAlias = npt.NDArray[np.float64]
#: An array with one row a query, or one list a query.
Rows: TypeAlias = npt.ArrayLike | Sequence[npt.ArrayLike]


def read_ids(given: Rows, side: str) -> list[list[Any]]:
    """Return the ids of each query, all integers or all strings.

    >>> read_ids(np.array([[3.0, -1.0]]), "found"), read_ids([["a"], []], "found")
    ([[3, -1]], [['a'], []])
    """
    rows = []
    for query, row in enumerate(_rows(given, side)):
        mixed = isinstance(row, list | tuple) and len({isinstance(i, str) for i in row}) > 1
        ids = np.asarray([] if mixed else row)
        if ids.size and ids.dtype.kind == "f" and np.isfinite(ids).all() and (ids % 1 == 0).all():
            ids = ids.astype(np.int64)
        if mixed or ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iuU"):
            raise ScoreError(
                f"the {side} ids of query {query} are not all whole numbers, nor all strings"
            )
        if ids.dtype.kind == "i" and (ids < -1).any():
            raise ScoreError(
                f"the {side} ids of query {query} hold {ids.min()}: ids count from 0, and -1 "
                "means that nothing was returned"
            )
        rows.append(ids.tolist())
    return rows


def read_distances(given: Rows, side: str) -> list[npt.NDArray[np.floating[Any]]]:
    """Return the distances of each query; inf is a missing one.

    >>> read_distances([[1, np.inf], []], "found")
    [array([ 1., inf]), array([], dtype=float64)]
    """
    rows = []
    for query, row in enumerate(_rows(given, side)):
        try:
            values = np.asarray(row)
            values = values if values.dtype.kind == "f" else values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ScoreError(
                f"the {side} distances of query {query} are no numbers ({error})"
            ) from error
        if values.ndim != 1 or np.isnan(values).any() or (values == -np.inf).any():
            raise ScoreError(
                f"the {side} distances of query {query} are not a row of numbers: NaN, -inf and "
                "nested lists are none (inf means that nothing was returned)"
            )
        rows.append(values)
    return rows


def _rows(given: Rows, side: str) -> list[Any]:
    array = given if isinstance(given, list | tuple) else np.asarray(given)
    if isinstance(array, np.ndarray) and array.ndim != 2 and array.dtype.kind != "O":
        raise ScoreError(f"{side} has the shape {array.shape}: one row a query is needed")
    rows = list(array)
    for query, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Iterable):
            raise ScoreError(f"{side}: query {query} is {row!r}: a list is needed, one a query")
    if not rows:
        raise ScoreError(f"{side} holds no row: there are no queries")
    return rows


def missing(item: Any) -> bool:
    """Tell whether an id stands for nothing."""
    return item in (-1, "")


def same_number(found: Sized, truth: Sized, what: str = "found rows") -> None:
    """Fail unless both have one row for each query."""
    if len(found) != len(truth):
        raise AlignmentError(
            f"{len(found)} {what} for {len(truth)} rows of truth: row i of both must belong to "
            "query i"
        )


def check_kinds(found: list[list[Any]], truth: list[list[Any]]) -> None:
    """Fail if one side names its items by numbers and the other by strings."""
    kinds = [{isinstance(row[0], str) for row in side if row} for side in (found, truth)]
    if len(kinds[0] | kinds[1]) > 1:
        raise AlignmentError(
            "ids must be of one kind, but some are strings and some whole numbers: '7' is not 7"
        )


def check_truth(truth: Sequence[Any], k: int) -> None:
    """Fail unless each row holds k true neighbours, none of them twice."""
    for query, row in enumerate(truth):
        if isinstance(row, np.ndarray):
            held = int(np.isfinite(row).sum())
        else:
            named = [item for item in row if not missing(item)]
            held = len(named)
            if len(set(named)) < held:
                raise ScoreError(f"the truth names an item twice for query {query}")
        if held < k:
            raise AlignmentError(
                f"the truth holds {held} neighbours of query {query}, but k = {k}: search the "
                "exact neighbours deeper, or ask for a smaller k"
            )


def check_ascending(distances: Sequence[npt.NDArray[Any]]) -> None:
    """Fail unless the true distances of each query ascend."""
    for query, row in enumerate(distances):
        if (row[1:] < row[:-1]).any():
            raise ScoreError(
                f"the true distances of query {query} do not ascend: give the nearest first; for "
                "similarities pass their negatives"
            )


def of_one_precision(
    found: Sequence[npt.NDArray[Any]], truth: Sequence[npt.NDArray[Any]]
) -> tuple[list[Floats], list[Floats]]:
    """Round both sides to the lower of their precisions, so that equal distances are equal.

    >>> one, other = of_one_precision([np.array([0.1], np.float32)], [np.array([0.1])])
    >>> one[0] == other[0]
    array([ True])
    """
    kinds = {row.dtype for row in (*found, *truth) if row.size}
    lowest = min(kinds, key=lambda kind: kind.itemsize, default=np.dtype(np.float64))
    with np.errstate(over="ignore"):
        sides = [[row.astype(lowest).astype(np.float64) for row in side] for side in (found, truth)]
    return sides[0], sides[1]
