"""RankedLists: the first few items of each query, as a search returned them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import AlignmentError, ScoreError, counted, name_some
from reid_vpr_eval.scores.arrays import (
    Array,
    digest,
    direction,
)

__all__ = ["RankedLists"]

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, init=False)
class RankedLists:
    """The first few gallery items of each query, best first, as a search returned them.

    Parameters
    ----------
    indices : array (n_query, k) of gallery positions, or one list of ids a query
        Best first. -1 means that nothing was returned at this place. Ids are matched
        when the lists meet their gallery, by :meth:`resolve`.
    scores : array (n_query, k) or one list a query, optional
        Then the order is by score and equal scores tie; without them it is the order
        of the list.
    higher_is_better : bool, default True
        The direction of `scores`.

    Raises
    ------
    ScoreError
        If an item stands twice in a list, a position is below -1, or a score is not finite.

    Examples
    --------
    >>> RankedLists([[3, 0, -1]]).depth
    array([2])
    """

    kind: ClassVar[str] = "lists"

    indices: Array
    scores: npt.NDArray[np.float64] | None
    higher_is_better: bool

    def __init__(
        self,
        indices: Any,
        scores: Any = None,
        *,
        higher_is_better: bool = True,
    ) -> None:
        items = _rectangle(indices)
        _check_lists(items)
        items.setflags(write=False)
        values = None if scores is None else _rectangle_of_scores(scores, items)
        object.__setattr__(self, "indices", items)
        object.__setattr__(self, "scores", values)
        object.__setattr__(self, "higher_is_better", direction(higher_is_better))

    @property
    def n_query(self) -> int:
        """Number of lists."""
        return int(self.indices.shape[0])

    @property
    def has_ids(self) -> bool:
        """True while items are named by ids and not yet by positions."""
        return self.indices.dtype.kind == "U"

    @property
    def depth(self) -> npt.NDArray[np.int64]:
        """How many items each list holds, an array of length n_query."""
        present = self.indices != "" if self.has_ids else self.indices >= 0
        return np.asarray(present.sum(axis=1), dtype=np.int64)

    def resolve(self, gallery_ids: npt.ArrayLike) -> RankedLists:
        """Return the lists with every id replaced by its position in `gallery_ids`.

        Raises
        ------
        AlignmentError
            If a list names an id that the gallery does not hold.
        """
        if not self.has_ids:
            return self
        names = np.asarray(gallery_ids).astype(np.str_)
        if not len(names):
            raise AlignmentError("the gallery side is empty: no ranked item is in it")
        order = np.argsort(names, kind="stable")
        found = np.minimum(np.searchsorted(names, self.indices, sorter=order), len(names) - 1)
        positions = order[found]
        unknown = (names[positions] != self.indices) & (self.indices != "")
        if unknown.any():
            rows, columns = np.nonzero(unknown)
            raise AlignmentError(
                f"{counted(unknown.sum(), 'ranked item is', 'ranked items are')} not in the "
                f"gallery, the first is {str(self.indices[rows[0], columns[0]])!r} in list "
                f"{rows[0]}"
            )
        positions = np.where(self.indices == "", -1, positions)
        return RankedLists(positions, self.scores, higher_is_better=self.higher_is_better)

    def take(self, query_rows: npt.ArrayLike) -> RankedLists:
        """Return the lists of these queries."""
        rows = np.asarray(query_rows)
        scores = None if self.scores is None else self.scores[rows]
        return RankedLists(self.indices[rows], scores, higher_is_better=self.higher_is_better)

    def take_queries(self, rows: slice) -> RankedLists:
        """Return the lists of some queries."""
        return self.take(np.arange(self.n_query)[rows])

    def fingerprint(self) -> str:
        """Return the SHA-256 of the content."""
        return digest(str(self.higher_is_better), self.indices, self.scores)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one ``.npz`` file; the same lists give the same bytes."""
        arrays = {"indices": self.indices}
        if self.scores is not None:
            arrays["scores"] = self.scores
        write_archive(
            path,
            kind="ranked lists",
            version=_VERSION,
            arrays=arrays,
            header={"higher_is_better": self.higher_is_better},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RankedLists:
        """Read lists saved by :meth:`save`."""
        header, arrays = read_archive(path, kind="ranked lists", version=_VERSION)
        return cls(
            arrays["indices"], arrays.get("scores"), higher_is_better=header["higher_is_better"]
        )


def _rectangle(lists: Any) -> Array:
    """Bring lists of positions or ids to one rectangle, padded with -1 or ''."""
    if hasattr(lists, "__array__") and not isinstance(lists, list | tuple):
        array = np.asarray(lists)
        if array.ndim != 2:
            raise ScoreError(f"ranked lists have the shape (n_query, k), not {array.shape}")
        if array.size and array.dtype.kind in "iuU":
            return array.copy() if array.dtype.kind == "U" else array.astype(np.int64)
        lists = array.tolist()
    for number, row in enumerate(lists):
        if isinstance(row, str) or not hasattr(row, "__iter__"):
            raise ScoreError(f"ranked list {number} is {row!r}: a list of items is needed")
    rows = [list(row) for row in lists]
    if not rows:
        raise ScoreError("there are no ranked lists: the query side is empty")
    kinds = {isinstance(item, str) for row in rows for item in row}
    if len(kinds) > 1:
        raise ScoreError("ranked lists mix ids (strings) and positions (integers): use one kind")
    width = max(1, *(len(row) for row in rows))
    if kinds == {True}:
        return np.array([row + [""] * (width - len(row)) for row in rows], dtype=np.str_)
    for number, row in enumerate(rows):
        for item in row:
            if not _is_position(item):
                raise ScoreError(f"ranked list {number} holds {item!r}, not a whole number")
    return np.array([row + [-1] * (width - len(row)) for row in rows], dtype=np.int64)


def _is_position(item: Any) -> bool:
    numbers = int | float | np.integer | np.floating
    whole = isinstance(item, numbers) and not isinstance(item, bool) and item % 1 == 0
    return whole and abs(item) < 2**63


def _check_lists(items: Array) -> None:
    if items.dtype.kind != "U" and (items < -1).any():
        row, column = np.argwhere(items < -1)[0]
        raise ScoreError(
            f"ranked list {row} holds the position {items[row, column]}: positions count from 0, "
            "and -1 means that nothing was returned"
        )
    nothing = "" if items.dtype.kind == "U" else -1
    ordered = np.sort(items, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != nothing)
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise ScoreError(
            f"{counted(int(twice.any(axis=1).sum()), 'ranked list names', 'ranked lists name')} an "
            f"item twice, the first is list {row} with item {ordered[row, column]}: an item can be "
            "found only once"
        )


def _rectangle_of_scores(scores: Any, items: Array) -> npt.NDArray[np.float64]:
    present = items != "" if items.dtype.kind == "U" else items >= 0
    rows: Sequence[Any] = list(scores if hasattr(scores, "__iter__") else np.asarray(scores))
    if len(rows) != len(items):
        raise ScoreError(
            f"{counted(len(rows), 'list')} of scores for {counted(len(items), 'ranked list')}"
        )
    filled = np.full(items.shape, np.nan)
    for number, row in enumerate(rows):
        try:
            values = np.asarray(row, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ScoreError(f"the scores of list {number} are no numbers: {error}") from error
        if values.ndim != 1 or len(values) > items.shape[1]:
            raise ScoreError(
                f"list {number} has {counted(values.size, 'score')} for "
                f"{counted(items.shape[1], 'place')}"
            )
        filled[number, : len(values)] = values
    bad = present & ~np.isfinite(filled)
    if bad.any():
        lists = name_some(np.flatnonzero(bad.any(axis=1)))
        raise ScoreError(f"ranked lists: a score is missing, NaN or infinite in lists {lists}")
    filled[~present] = np.nan
    filled.setflags(write=False)
    return filled
