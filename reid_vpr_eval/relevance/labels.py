"""Right by label: the same identity, perhaps in a different camera."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, RelevanceError, counted, name_some
from reid_vpr_eval.relevance.ignores import Ignores
from reid_vpr_eval.relevance.pairing import (
    check_choice,
    check_names,
    check_sides,
    codes,
    same_code_pairs,
    self_pairs,
)
from reid_vpr_eval.relevance.pairs import (
    IGNORED,
    POSITIVE,
    Found,
    NoPositive,
    Relevance,
    SelfRule,
)
from reid_vpr_eval.samples import Samples

__all__ = ["same_label"]

_PAIRS_AT_ONCE = 1 << 21


def same_label(
    query: Samples,
    gallery: Samples,
    *,
    different: Sequence[str] = (),
    same: Sequence[str] = (),
    failing: Literal["ignore", "negative"] = "ignore",
    ignore: Sequence[Mapping[str, Any]] = (),
    wide_ignore: Sequence[Mapping[str, Any]] = (),
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
    wide_ignore : sequence of mappings
        Entries of the same form for what would be too many pairs to name one by one, such
        as ``[{"same": ["camera"]}]``: kept as one mask of queries by gallery values.
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
    check_choice("failing", failing, ("ignore", "negative"))
    for name, columns in (("different", different), ("same", same)):
        check_names(name, columns)
    labels = codes(query, gallery, label)
    _check_variety(query, gallery, different)
    ignores = Ignores.of(query, gallery, ignore, wide_ignore, self=self)
    if self == "exclude":
        _check_own(query, gallery, labels, label)
    found: list[Found] = []
    rules = [(name, False) for name in different] + [(name, True) for name in same]
    compared = [(name, wanted, *codes(query, gallery, name)) for name, wanted in rules]
    removed = {name: 0 for name, _ in rules}
    n_same = 0
    for pair_query, pair_item in same_code_pairs(*labels, at_once=_PAIRS_AT_ONCE):
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
    return ignores.settle(
        found, no_positive=no_positive, note=_note(label, n_same, removed, different)
    )


def _check_own(
    query: Samples,
    gallery: Samples,
    labels: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    label: str,
) -> None:
    own_query, own_item = self_pairs(query, gallery)
    differs = labels[0][own_query] != labels[1][own_item]
    if differs.any():
        first = int(np.flatnonzero(differs)[0])
        row, item = own_query[first], own_item[first]
        raise AlignmentError(
            f"{counted(int(differs.sum()), 'id stands', 'ids stand')} on both sides for different "
            f"labels: {name_some([query.keys('id')[row]] if query.ids is not None else [row])} is "
            f"{label} {query.keys(label)[row]} in query row {row} and {gallery.keys(label)[item]} "
            f"in gallery row {item}. The ids collide: make them unique over both sides, or set "
            "self = 'keep'"
        )


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


def _note(
    label: str, n_same: int, removed: Mapping[str, int], different: Sequence[str]
) -> str:
    if n_same == 0:
        return f"no gallery row has the {label} of any query"
    parts = [f"{counted(n_same, 'pair has', 'pairs have')} the same {label}"]
    for column, count in removed.items():
        why = "the same" if column in different else "another"
        parts.append(f"{count} of them were removed for {why} {column}")
    return "; ".join(parts)
