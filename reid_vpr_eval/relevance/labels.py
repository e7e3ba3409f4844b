"""Right by label: the same identity, perhaps in a different camera."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, RelevanceError, name_some
from reid_vpr_eval.relevance.pairs import (
    IGNORED,
    POSITIVE,
    Found,
    NoPositive,
    Relevance,
    SelfRule,
    build,
    ranges,
)
from reid_vpr_eval.samples import Samples

__all__ = ["check_sides", "codes", "same_label", "self_pairs"]

_PAIRS_AT_ONCE = 1 << 21
_KEYS = ("same", "different", "query", "gallery")


def same_label(
    query: Samples,
    gallery: Samples,
    *,
    different: Sequence[str] = (),
    same: Sequence[str] = (),
    failing: Literal["ignore", "negative"] = "ignore",
    ignore: Sequence[Mapping[str, Any]] = (),
    self: SelfRule = "exclude",
    label: str = "label",
    no_positive: NoPositive = "skip",
) -> Relevance:
    """Judge by label: an item of the query's label is positive.

    Parameters
    ----------
    query, gallery : Samples
        Both sides, with the column `label` and the columns that the rule names.
    different, same : sequence of str
        Columns in which a positive must differ from the query, or agree with it.
    failing : {"ignore", "negative"}
        What an item of the same label becomes that fails `different` or `same`.
    ignore : sequence of mappings
        Further ignored items. Entries are OR-ed; inside one the keys ``same`` and
        ``different`` (columns), ``query`` and ``gallery`` (column to list of values) are
        AND-ed. An entry with nothing but ``gallery`` holds for everybody.
    self : {"exclude", "keep"}
        Whether an item with the query's own id is taken out of its ranking.
    label : str
        The column that identifies.
    no_positive : {"skip", "zero", "one", "error"}
        The default for queries without a positive.

    Returns
    -------
    Relevance
        Ignored beats positive.

    Raises
    ------
    RelevanceError
        If every image is of one camera under a different-camera rule, or an `ignore`
        entry is malformed.
    AlignmentError
        If a side is empty, a column holds integers on one side and strings on the
        other, or an id stands for two labels.

    Examples
    --------
    >>> query = Samples.from_columns(label=[7], camera=[1])
    >>> gallery = Samples.from_columns(label=[7, 7, 9, -1], camera=[1, 2, 2, 2])
    >>> relevance = same_label(query, gallery, different=["camera"],
    ...                        ignore=[{"gallery": {"label": [-1]}}])
    >>> relevance.positives(0), relevance.ignored(0), relevance.ignored_gallery
    (array([1]), array([0]), array([False, False, False,  True]))
    """
    check_sides(query, gallery)
    for name, value, known in (
        ("failing", failing, ("ignore", "negative")),
        ("self", self, ("exclude", "keep")),
    ):
        if value not in known:
            raise RelevanceError(f"{name} = {value!r}: one of {', '.join(known)} is needed")
    for name, columns in (("different", different), ("same", same)):
        _check_names(name, columns)
    labels = codes(query, gallery, label)
    _check_variety(query, gallery, different)
    junk, entries = _split_ignores(query, gallery, ignore)
    found: list[Found] = []
    rules = [(name, False) for name in different] + [(name, True) for name in same]
    compared = [(name, wanted, *codes(query, gallery, name)) for name, wanted in rules]
    removed = {name: 0 for name, _ in rules}
    n_same = 0
    for pair_query, pair_item in _same_code_pairs(*labels):
        right = np.ones(len(pair_query), bool)
        for column, wanted, ours, theirs in compared:
            agrees = (ours[pair_query] == theirs[pair_item]) == wanted
            removed[column] += int((right & ~agrees).sum())
            right &= agrees
        n_same += len(pair_query)
        if failing == "negative":
            pair_query, pair_item, right = pair_query[right], pair_item[right], right[right]
        role = np.where(right, POSITIVE, IGNORED)
        found.append((pair_query, pair_item, role, right.astype(float), np.zeros_like(right)))
    found += [_ignored_pairs(query, gallery, entry) for entry in entries]
    if self == "exclude":
        found.append(_own_pairs(query, gallery, labels, label))
    return build(
        query.n,
        gallery.n,
        found,
        ignored_gallery=junk,
        no_positive=no_positive,
        note=_note(label, n_same, removed, different, int(junk.sum())),
    )


def check_sides(query: Samples, gallery: Samples) -> None:
    """Refuse an empty side."""
    for side, samples in (("query", query), ("gallery", gallery)):
        if samples.n == 0:
            raise AlignmentError(f"the {side} side is empty: there is nothing to rank")


def codes(
    query: Samples, gallery: Samples, column: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give equal values of a column equal numbers, on both sides together.

    Raises
    ------
    AlignmentError
        If one side holds integers and the other strings.
    """
    ours, theirs = query.keys(column), gallery.keys(column)
    if (ours.dtype.kind == "U") != (theirs.dtype.kind == "U"):
        named = {True: "strings", False: "integers"}
        raise AlignmentError(
            f"column {column!r} holds {named[ours.dtype.kind == 'U']} on the query side "
            f"({ours[:1].tolist()[0]!r}) and {named[theirs.dtype.kind == 'U']} on the gallery side "
            f"({theirs[:1].tolist()[0]!r}): they can never be equal; use one kind"
        )
    _, numbered = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
    return numbered[: len(ours)], numbered[len(ours) :]


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


def _same_code_pairs(
    ours: npt.NDArray[np.int64], theirs: npt.NDArray[np.int64]
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
        end = max(begin + 1, int(np.searchsorted(total, done + _PAIRS_AT_ONCE, side="right")))
        block = slice(begin, end)
        pair_query = np.repeat(np.arange(begin, min(end, len(ours))), size[block])
        yield pair_query, order[ranges(start[block], size[block])]
        begin = end


def _own_pairs(
    query: Samples,
    gallery: Samples,
    labels: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    label: str,
) -> Found:
    own_query, own_item = self_pairs(query, gallery)
    differs = labels[0][own_query] != labels[1][own_item]
    if differs.any():
        first = int(np.flatnonzero(differs)[0])
        row, item = own_query[first], own_item[first]
        raise AlignmentError(
            f"{int(differs.sum())} ids stand on both sides for different labels: "
            f"{name_some([query.keys('id')[row]] if query.ids is not None else [row])} is "
            f"{label} {query.keys(label)[row]} in query row {row} and "
            f"{gallery.keys(label)[item]} in gallery row {item}. The ids collide: make them "
            "unique over both sides, or set self = 'keep'"
        )
    size = len(own_query)
    return own_query, own_item, np.full(size, IGNORED), np.zeros(size), np.ones(size, bool)


def _check_variety(query: Samples, gallery: Samples, different: Sequence[str]) -> None:
    for column in different:
        ours, theirs = codes(query, gallery, column)
        if len(np.unique(np.concatenate([ours, theirs]))) == 1:
            (only,) = np.unique(query.keys(column)).tolist()
            raise RelevanceError(
                f"a positive must differ in {column!r}, but every row of both sides has the one "
                f"value {only!r}, so no query can have a positive: check how "
                f"{column!r} was read, or take it out of `different`"
            )


def _split_ignores(
    query: Samples, gallery: Samples, ignore: Sequence[Mapping[str, Any]]
) -> tuple[npt.NDArray[np.bool_], list[Mapping[str, Any]]]:
    """Separate what is ignored for everybody (a mask) from what some queries ignore."""
    if isinstance(ignore, Mapping) or not isinstance(ignore, Sequence):
        raise RelevanceError("ignore is a list of entries, such as [{gallery: {label: [-1]}}]")
    junk = np.zeros(gallery.n, bool)
    some: list[Mapping[str, Any]] = []
    for number, entry in enumerate(ignore):
        unknown = set(entry) - set(_KEYS)
        if unknown or not any(len(part) for part in entry.values()):
            raise RelevanceError(
                f"ignore entry {number} has the keys {sorted(entry)}; at least one of "
                f"{', '.join(_KEYS)} is needed, and no other"
            )
        if set(entry) == {"gallery"}:
            junk |= _matching(gallery, entry["gallery"], f"ignore entry {number}, gallery")
        else:
            _matching(query, entry.get("query", {}), f"ignore entry {number}, query")
            for name in ("same", "different"):
                _check_names(f"ignore entry {number}, {name}", entry.get(name, ()))
            some.append(entry)
    return junk, some


def _ignored_pairs(query: Samples, gallery: Samples, entry: Mapping[str, Any]) -> Found:
    of_query = _matching(query, entry.get("query", {}), "ignore, query")
    of_gallery = _matching(gallery, entry.get("gallery", {}), "ignore, gallery")
    ours, theirs = np.zeros(query.n, np.int64), np.zeros(gallery.n, np.int64)
    for column in entry.get("same", ()):
        left, right = codes(query, gallery, column)
        _, joined = np.unique(
            np.stack([np.concatenate([ours, theirs]), np.concatenate([left, right])]),
            axis=1,
            return_inverse=True,
        )
        joined = joined.ravel()
        ours, theirs = joined[: query.n], joined[query.n :]
    ours = np.where(of_query, ours, -1)
    theirs = np.where(of_gallery, theirs, -2)
    different = [codes(query, gallery, column) for column in entry.get("different", ())]
    parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for pair_query, pair_item in _same_code_pairs(ours, theirs):
        stays = np.ones(len(pair_query), bool)
        for left, right in different:
            stays &= left[pair_query] != right[pair_item]
        parts.append((pair_query[stays], pair_item[stays]))
    all_query = np.concatenate([part[0] for part in parts])
    all_item = np.concatenate([part[1] for part in parts])
    size = len(all_query)
    return all_query, all_item, np.full(size, IGNORED), np.zeros(size), np.zeros(size, bool)


def _check_names(where: str, columns: Sequence[str]) -> None:
    if isinstance(columns, str):
        raise RelevanceError(f"{where} = {columns!r}: a list of columns, [{columns!r}], is meant")


def _matching(
    samples: Samples, wanted: Mapping[str, Any], where: str
) -> npt.NDArray[np.bool_]:
    """Mark the rows whose columns hold one of the wanted values."""
    mask = np.ones(samples.n, bool)
    for column, values in wanted.items():
        have = samples.keys(column)
        strings, example = have.dtype.kind == "U", have.tolist()[:1]
        listed = values if isinstance(values, list | tuple | np.ndarray) else [values]
        for value in listed:
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not (isinstance(value, str) if strings else whole):
                raise RelevanceError(
                    f"{where}: {column} = {value!r} is compared with "
                    f"{'strings' if strings else 'integers'} such as {example} and can never "
                    "match; write the value in that kind"
                )
        mask &= np.isin(have, np.asarray(listed)) if len(listed) else False
    return mask


def _note(
    label: str, n_same: int, removed: Mapping[str, int], different: Sequence[str], n_junk: int
) -> str:
    if n_same == 0:
        return f"no gallery row has the {label} of any query"
    parts = [f"{n_same} pairs have the same {label}"]
    for column, count in removed.items():
        why = "the same" if column in different else "another"
        parts.append(f"{count} of them were removed for {why} {column}")
    if n_junk:
        parts.append(f"{n_junk} gallery rows are ignored for everybody")
    return "; ".join(parts)
