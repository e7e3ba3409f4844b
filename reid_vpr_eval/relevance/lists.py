"""Lists of pairs as they are given: by query, under names such as easy and junk, with grades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import RelevanceError, counted, name_some
from reid_vpr_eval.formats.trec import Qrels

__all__ = ["POSITIVE_LIST", "Lists", "as_lists", "joined"]

#: What a list is called that has no name.
POSITIVE_LIST = "positive"
_FORMS = (
    "{query: items}, {query: {list name: items}}, {query: {item: grade}}, [[query, items], ...], "
    "or one entry for each query row"
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Lists:
    """Pairs of queries and items, each in a named list.

    Attributes
    ----------
    query, item : arrays (n_pairs,)
        Whole numbers or strings.
    name : int64 array (n_pairs,)
        The place of each pair's list among `names`.
    names : tuple of str
        The names of all lists, those without a pair included.
    grade : float64 array (n_pairs,)
        1 where none is given.
    n_rows : int or None
        How many queries were listed by their order, which `query` then counts from 0; None
        if they are named.
    queries : array
        All queries that are named, those with empty lists included.
    """

    query: npt.NDArray[Any]
    item: npt.NDArray[Any]
    name: npt.NDArray[np.int64]
    names: tuple[str, ...]
    grade: npt.NDArray[np.float64]
    n_rows: int | None = None
    queries: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))


def as_lists(given: Any) -> Lists:
    """Read what Python code gives: mappings, sequences, arrays or TREC judgements.

    >>> as_lists({"a": {"easy": [3], "junk": [5, 6]}}).names
    ('easy', 'junk')
    >>> as_lists([[2, 0], [], [1]]).query
    array([0, 0, 2])
    """
    if isinstance(given, Lists):
        return given
    if isinstance(given, Qrels):
        given = given.grades
    if isinstance(given, np.ndarray):
        return _of_array(given)
    if isinstance(given, Mapping):
        return _of_rows(list(given), list(given.values()), named=True)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise RelevanceError(f"lists of a {type(given).__name__} are not known: give {_FORMS}")
    rows = list(given)
    if rows and all(_is_pair(row) for row in rows):
        return _of_rows([row[0] for row in rows], [row[1] for row in rows], named=True)
    return _of_rows(list(range(len(rows))), rows, named=False)


def joined(parts: Mapping[str, Lists]) -> Lists:
    """Join lists of files of their own, under the names of the files."""
    first = next(iter(parts.values()))
    for name, part in parts.items():
        if (part.n_rows is None) != (first.n_rows is None) or part.n_rows != first.n_rows:
            sizes = ", ".join(f"{one}: {lists.n_rows}" for one, lists in parts.items())
            raise RelevanceError(f"the lists have different numbers of queries ({sizes})")
        if part.names not in ((), (POSITIVE_LIST,)):
            raise RelevanceError(
                f"the file of the list {name!r} holds lists with names of their own "
                f"({', '.join(part.names)}): name that file alone"
            )
    every = list(parts.values())
    return Lists(
        query=_together([part.query for part in every]),
        item=_together([part.item for part in every]),
        name=np.repeat(np.arange(len(every)), [len(part.query) for part in every]),
        names=tuple(parts),
        grade=np.concatenate([part.grade for part in every]),
        n_rows=first.n_rows,
        queries=_together([part.queries for part in every]),
    )


def _is_pair(row: Any) -> bool:
    return (
        isinstance(row, Sequence) and not isinstance(row, str) and len(row) == 2
        and isinstance(row[0], int | str)
        and isinstance(row[1], Sequence | Mapping | np.ndarray) and not isinstance(row[1], str)
    )  # fmt: skip


def _of_array(array: npt.NDArray[Any]) -> Lists:
    """Read rectangular lists of positions, or a true-or-false matrix of queries by items."""
    if array.ndim == 1 and array.dtype.kind in "iu":
        array = array[:, None]
    if array.ndim != 2 or array.dtype.kind not in "iub":
        raise RelevanceError(
            f"an array of lists has whole numbers (n_query, K), -1 where a list ends, or is a "
            f"matrix of True and False (n_query, n_gallery); this is {array.dtype} of the shape "
            f"{array.shape}"
        )
    if array.dtype.kind != "b":
        _check_repeats(array)
    rows, columns = np.nonzero(array if array.dtype.kind == "b" else array != -1)
    items = columns if array.dtype.kind == "b" else array[rows, columns].astype(np.int64)
    return Lists(
        query=rows, item=items, name=np.zeros(len(rows), np.int64), names=(POSITIVE_LIST,),
        grade=np.ones(len(rows)), n_rows=len(array),
    )  # fmt: skip


def _check_repeats(array: npt.NDArray[Any]) -> None:
    """Refuse rows that name an item twice, such as those of a matrix of zeros and ones."""
    ordered = np.sort(array, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != -1)
    bad = np.flatnonzero(twice.any(axis=1))
    if len(bad):
        hint = ""
        if array.min() >= 0 and array.max() <= 1:
            hint = "; a matrix of queries by items has to hold True and False, not 0 and 1"
        raise RelevanceError(
            f"the list of query {bad[0]} names item {ordered[bad[0], 1:][twice[bad[0]]][0]} twice "
            f"({counted(len(bad), 'such list')} in all){hint}"
        )


def _of_rows(queries: list[Any], entries: list[Any], *, named: bool) -> Lists:
    """Read one entry a query: items, lists of items by name, or grades by item."""
    names: dict[str, int] = {}
    query: list[Any] = []
    item: list[Any] = []
    name: list[int] = []
    grade: list[float] = []
    for one, entry in zip(queries, entries, strict=True):
        for title, items, grades in _lists_of(one, entry):
            place = names.setdefault(title, len(names))
            query += [one] * len(items)
            item += items
            name += [place] * len(items)
            grade += grades
    return Lists(
        query=_column(query), item=_column(item), name=np.array(name, np.int64),
        names=tuple(names), grade=np.array(grade, np.float64),
        n_rows=None if named else len(queries),
        queries=_column(queries) if named else np.empty(0, np.int64),
    )  # fmt: skip


def _lists_of(query: Any, entry: Any) -> list[tuple[str, list[Any], list[float]]]:
    if isinstance(entry, int | np.integer):
        entry = [entry]
    if isinstance(entry, Sequence | np.ndarray) and not isinstance(entry, str):
        items = np.asarray(entry).tolist() if isinstance(entry, np.ndarray) else list(entry)
        return [(POSITIVE_LIST, items, [1.0] * len(items))]
    if isinstance(entry, Mapping):
        values = list(entry.values())
        if values and all(_is_number(value) for value in values):
            return [(POSITIVE_LIST, list(entry), [float(value) for value in values])]
        if all(isinstance(one, Sequence | np.ndarray) and not isinstance(one, str)
               for one in values):  # fmt: skip
            return [(str(title), list(items), [1.0] * len(items))
                    for title, items in entry.items()]  # fmt: skip
    raise RelevanceError(
        f"the entry of query {query!r} is {str(entry)[:80]!r}: the lists have to be {_FORMS}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _column(values: list[Any]) -> npt.NDArray[Any]:
    """Return whole numbers as int64, else strings; nothing else names a query or an item."""
    wrong = [v for v in values if not isinstance(v, int | np.integer | str) or isinstance(v, bool)]
    if wrong:
        raise RelevanceError(
            f"queries and items are named by whole numbers or strings, not {name_some(wrong)}"
        )
    if all(not isinstance(value, str) for value in values):
        return np.array(values, np.int64)
    return np.array([str(value) for value in values], np.str_)


def _together(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Join columns; where one of them holds strings, all become strings."""
    filled = [part for part in parts if len(part)] or [np.empty(0, np.int64)]
    if any(part.dtype.kind == "U" for part in filled):
        return np.concatenate([part.astype(np.str_) for part in filled])
    return np.concatenate(filled)
