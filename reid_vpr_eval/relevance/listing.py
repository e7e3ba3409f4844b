"""Right by a list of pairs: official lists, hand annotation, judgements."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, RelevanceError, counted, name_some
from reid_vpr_eval.relevance.ignores import Ignores
from reid_vpr_eval.relevance.list_files import read_lists
from reid_vpr_eval.relevance.lists import Lists, as_lists
from reid_vpr_eval.relevance.pairing import check_choice, check_names, check_sides
from reid_vpr_eval.relevance.pairs import (
    IGNORED,
    NEGATIVE,
    POSITIVE,
    NoPositive,
    Relevance,
    SelfRule,
)
from reid_vpr_eval.samples import Samples

__all__ = ["listed"]

Ints = npt.NDArray[np.int64]

_DEFAULT_IGNORED = ("ignored",)


def listed(
    query: Samples,
    gallery: Samples,
    lists: Any,
    *,
    by: Literal["id", "index"] = "id",
    base: Literal[0, 1] = 0,
    positive: Sequence[str] = ("positive",),
    ignored: Sequence[str] = _DEFAULT_IGNORED,
    grade: float = 1.0,
    self: SelfRule = "keep",
    ignore: Sequence[Mapping[str, Any]] = (),
    wide_ignore: Sequence[Mapping[str, Any]] = (),
    no_positive: NoPositive = "skip",
) -> Relevance:
    """Judge by lists: an item that a query's lists name is positive.

    Parameters
    ----------
    query, gallery : Samples
        Both sides; with the column id where queries or items are named by it.
    lists : mapping, sequence, array, Qrels or path
        ``{query: items}``, ``{query: {list name: items}}``, ``{query: {item: grade}}``,
        ``[[query, items], ...]``, or one entry for each query row; an array of positions
        (n_query, K) in which -1 means nothing; a matrix of True and False; TREC judgements;
        or a file or folder with one of these (see ``read_lists``). Lists without a name are
        called positive.
    by : {"id", "index"}
        How items, and queries unless they come in order, are named. Ids are compared as they
        are written, so that 7 is "7". By index -1 means nothing.
    base : {0, 1}
        What positions count from.
    positive, ignored : sequence of str
        The names of the lists whose items are positive, and of those whose items leave the
        ranking. Ignored beats positive; items of other lists are not judged.
    grade : float
        The smallest grade of a positive. Items of smaller grades are negatives that keep it.
    self : {"keep", "exclude"}
        Whether an item with the query's own id is taken out of its ranking.
    ignore, wide_ignore : sequence of mappings
        Further ignored items, as in :func:`same_label`.
    no_positive : {"skip", "zero", "one", "error"}
        The default for queries without a positive, such as those that no list names.

    Raises
    ------
    RelevanceError
        If a list points past the end, an id is unknown, no list has a name that was asked
        for, or a grade is negative.
    AlignmentError
        If there is not one entry for each query row, or no ids to match.

    Examples
    --------
    >>> query = Samples.from_columns(id=["q0", "q1"])
    >>> gallery = Samples.from_columns(id=["a", "b", "c"])
    >>> lists = {"q0": {"easy": ["a"], "hard": ["c"], "junk": ["b"]}, "q1": {"easy": ["b"]}}
    >>> relevance = listed(query, gallery, lists, positive=["easy", "hard"], ignored=["junk"])
    >>> relevance.positives(0), relevance.ignored(0), relevance.positives(1)
    (array([0, 2]), array([1]), array([1]))
    """
    check_sides(query, gallery)
    check_choice("by", by, ("id", "index"))
    check_choice("base", base, (0, 1))
    for name, names in (("positive", positive), ("ignored", ignored)):
        check_names(name, names)
    ignores = Ignores.of(query, gallery, ignore, wide_ignore, self=self)
    if isinstance(lists, str | os.PathLike):
        table = read_lists(lists, (*positive, *ignored))
    else:
        table = as_lists(lists)
    sort = _sorts(table, positive, ignored)
    rows = _query_rows(table, query, by, base)
    kept = sort[table.name] >= IGNORED
    rows, items, kept = _items(table, rows, kept, gallery, by, base)
    pair_sort, grades = sort[table.name][kept], table.grade[kept]
    _check_grades(rows, items, pair_sort, grades)
    enough = np.where(grades >= grade, POSITIVE, NEGATIVE)
    role = np.where(pair_sort == IGNORED, IGNORED, enough)
    found = (rows, items, role, grades, np.zeros(len(rows), bool))
    n_right = int((role == POSITIVE).sum())
    return ignores.settle(
        [found], no_positive=no_positive,
        note=f"{counted(n_right, 'listed pair has', 'listed pairs have')} the grade {grade:g} or "
        f"more in the lists {', '.join(positive)}",
    )  # fmt: skip


#: What `_sorts` gives lists that were not asked for: less than any role.
_UNASKED = IGNORED - 1


def _sorts(table: Lists, positive: Sequence[str], ignored: Sequence[str]) -> Ints:
    """Return for each list whether it is of positives, of ignored items, or not asked for."""
    both = sorted(set(positive) & set(ignored))
    if both:
        raise RelevanceError(f"the lists {', '.join(both)} are named as positive and as ignored")
    optional = _DEFAULT_IGNORED if tuple(ignored) == _DEFAULT_IGNORED else ()
    unknown = [name for name in (*positive, *ignored) if name not in (*table.names, *optional)]
    if unknown or not positive:
        raise RelevanceError(
            f"there is no list called {', '.join(unknown) or 'positive'}; the lists are called "
            f"{name_some(table.names, 12) or '(there are none)'}: name them in `positive` and "
            "`ignored`"
        )
    sort = [POSITIVE if name in positive else IGNORED if name in ignored else _UNASKED
            for name in table.names]  # fmt: skip
    return np.array(sort, np.int64)


def _query_rows(table: Lists, query: Samples, by: str, base: int) -> Ints:
    """Return the query row of each pair."""
    if table.n_rows is not None:
        if table.n_rows != query.n:
            raise AlignmentError(
                f"there are lists for {counted(table.n_rows, 'query')}, in their order, but the "
                f"query side has {counted(query.n, 'row')}: row i must be the list of query i"
            )
        return table.query.astype(np.int64)
    names = table.queries
    if by == "index":
        rows = _positions(names, "query") - base
        bad = np.flatnonzero((rows < 0) | (rows >= query.n))
        if len(bad):
            raise RelevanceError(
                f"there are lists for {counted(len(bad), 'query')} beyond the query side "
                f"({name_some(names[bad])}), which has {counted(query.n, 'row')}, from {base} to "
                f"{query.n - 1 + base}"
            )
        return _positions(table.query, "query") - base
    _by_id(names, query, "query")
    return _by_id(table.query, query, "query")


def _items(
    table: Lists, rows: Ints, kept: npt.NDArray[np.bool_], gallery: Samples, by: str, base: int
) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Return query and gallery rows of the pairs that count, and which pairs these are."""
    if by == "id":
        return rows[kept], _by_id(table.item[kept], gallery, "gallery"), kept
    given = _positions(table.item, "gallery")
    kept = kept & (given != -1)
    rows, items = rows[kept], given[kept] - base
    outside = (items < 0) | (items >= gallery.n)
    if outside.any():
        bad = np.unique(rows[outside])
        first = given[kept][outside & (rows == bad[0])]
        raise RelevanceError(
            f"the lists of {counted(len(bad), 'query')} point past the gallery, which has "
            f"{counted(gallery.n, 'row')}, {base} to {gallery.n - 1 + base} (query rows "
            f"{name_some(bad)}; row {bad[0]}: {name_some(first)}): the lists belong to another "
            f"version of the data, or count from {1 - base}; take these entries out"
        )
    return rows, items, kept


def _positions(values: npt.NDArray[Any], side: str) -> Ints:
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    try:
        return values.astype(np.int64)
    except ValueError:
        words = [v for v in values.tolist() if not v.removeprefix("-").isdecimal()]
        raise RelevanceError(
            f"by = 'index', but {side} rows are named {name_some(words)} in the lists: positions "
            "are whole numbers; are these ids (by = 'id')?"
        ) from None


def _by_id(values: npt.NDArray[Any], samples: Samples, side: str) -> Ints:
    """Find ids as they are written; all must be known."""
    if samples.ids is None:
        raise AlignmentError(
            f"the lists name items by id, but the {side} side has no column 'id': add it, or name "
            "them by position (by = 'index')"
        )
    ids, wanted = samples.ids.astype(np.str_), values.astype(np.str_)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    lost = ids[order][place] != wanted
    if lost.any():
        unknown = np.unique(wanted[lost])
        raise RelevanceError(
            f"{counted(len(unknown), 'id in the lists is', 'ids in the lists are')} not among "
            f"those of the {side} side ({name_some(unknown)}; its own are such as "
            f"{name_some(samples.ids, 2)}): the lists belong to other data, or these rows were "
            "dropped"
        )
    return np.asarray(order[place], np.int64)


def _check_grades(
    rows: Ints, items: Ints, sort: Ints, grades: npt.NDArray[np.float64]
) -> None:
    bad = np.flatnonzero(~(grades >= 0) | ~np.isfinite(grades))
    if len(bad):
        raise RelevanceError(
            f"{counted(len(bad), 'listed pair has', 'listed pairs have')} a grade below 0 or none "
            f"(query row {rows[bad[0]]}, gallery row {items[bad[0]]}: {grades[bad[0]]:g}); leave "
            "out what was not judged"
        )
    order = np.lexsort((items, rows))
    same = (rows[order][1:] == rows[order][:-1]) & (items[order][1:] == items[order][:-1])
    same &= (sort[order][1:] == sort[order][:-1]) & (grades[order][1:] != grades[order][:-1])
    if same.any():
        pair = order[np.flatnonzero(same)[0]]
        raise RelevanceError(
            f"query row {rows[pair]} lists gallery row {items[pair]} twice with different grades: "
            "keep one of them"
        )
