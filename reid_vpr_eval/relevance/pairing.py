"""What every rule needs: equal values on both sides, pairs of them, the query itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, RelevanceError
from reid_vpr_eval.formats.registry import located
from reid_vpr_eval.relevance.pairs import ranges
from reid_vpr_eval.samples import Samples

__all__ = [
    "check_choice", "check_names", "check_sides", "codes", "n_same_code", "same_code_counts",
    "same_code_pairs", "self_pairs",
]  # fmt: skip

PAIRS_AT_ONCE = 1 << 21
_ROWS_AT_ONCE = 1 << 16


def check_choice(name: str, value: object, known: Sequence[object]) -> None:
    """Refuse a word that is not one of the known ones."""
    if value not in known:
        choice = ", ".join(str(one) for one in known)
        raise RelevanceError(f"{name} = {value!r}: one of {choice} is needed")


def check_names(where: str, columns: Sequence[str]) -> None:
    """Refuse one word where a list of columns is meant."""
    if isinstance(columns, str):
        raise RelevanceError(f"{where} = {columns!r}: a list of columns, [{columns!r}], is meant")


def check_sides(query: Samples, gallery: Samples) -> None:
    """Refuse an empty side."""
    for side, samples in (("query", query), ("gallery", gallery)):
        if samples.n == 0:
            raise AlignmentError(f"the {side} side is empty: there is nothing to rank")


def codes(
    query: Samples, gallery: Samples, column: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give equal values of a column equal numbers; what no query has is -1.

    Numbers are to be compared between the sides, not within the gallery.

    Raises
    ------
    FormatError
        If a side has no such column, or a value in it is missing; says which side.
    AlignmentError
        If one side holds integers and the other strings.
    """
    with located("query side"):
        ours = query.keys(column)
    with located("gallery side"):
        theirs = gallery.keys(column)
    if (ours.dtype.kind == "U") != (theirs.dtype.kind == "U"):
        named = {True: "strings", False: "integers"}
        raise AlignmentError(
            f"column {column!r} holds {named[ours.dtype.kind == 'U']} on the query side "
            f"({ours[:1].tolist()[0]!r}) and {named[theirs.dtype.kind == 'U']} on the gallery side "
            f"({theirs[:1].tolist()[0]!r}): they can never be equal; use one kind"
        )
    values, numbered = np.unique(ours, return_inverse=True)
    found = np.empty(len(theirs), np.int64)
    for start in range(0, len(theirs), _ROWS_AT_ONCE):
        part = theirs[start : start + _ROWS_AT_ONCE]
        place = np.minimum(np.searchsorted(values, part), len(values) - 1)
        found[start : start + len(part)] = np.where(values[place] == part, place, -1)
    return numbered, found


def self_pairs(
    query: Samples, gallery: Samples
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the pairs (query row, gallery row) that are one and the same item.

    An item is the same when both sides were *given* the same id for it. One object on
    both sides without ids is its own gallery row by row.
    """
    if query is gallery and query.ids is None:
        rows = np.arange(query.n)
        return rows, rows
    if query.ids is None or gallery.ids is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ours, theirs = codes(query, gallery, "id")
    order = np.argsort(theirs, kind="stable")
    place = np.searchsorted(theirs[order], ours)
    safe = np.minimum(place, len(order) - 1)
    hit = theirs[order][safe] == ours
    return np.flatnonzero(hit), order[safe[hit]]


def same_code_pairs(
    ours: npt.NDArray[np.int64], theirs: npt.NDArray[np.int64], at_once: int = PAIRS_AT_ONCE
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yield all pairs of equal codes, a block of queries at a time."""
    order = np.argsort(theirs, kind="stable")
    ordered = theirs[order]
    start = np.searchsorted(ordered, ours, side="left")
    size = np.searchsorted(ordered, ours, side="right") - start
    total = np.cumsum(size)
    begin = 0
    while begin < len(ours):
        done = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, done + at_once, side="right")))
        block = slice(begin, end)
        pair_query = np.repeat(np.arange(begin, min(end, len(ours))), size[block])
        yield pair_query, order[ranges(start[block], size[block])]
        begin = end


def n_same_code(ours: npt.NDArray[np.int64], theirs: npt.NDArray[np.int64]) -> int:
    """Return how many pairs have equal codes, without making them."""
    return int(same_code_counts(ours, theirs).sum())


def same_code_counts(
    ours: npt.NDArray[np.int64], theirs: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return how many of `theirs` have the code of each of `ours`."""
    ordered = np.sort(theirs)
    left, right = (np.searchsorted(ordered, ours, side=side) for side in ("left", "right"))
    return np.asarray(right - left)
