"""Relevance: the judged pairs of every query, and what is ignored for everybody."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import RelevanceError, counted
from reid_vpr_eval.relevance.positions import column_of, positions_of, ranges

__all__ = [
    "IGNORED", "NEGATIVE", "POSITIVE", "Found", "NoPositive", "Relevance", "SelfRule", "build",
    "ranges",
]  # fmt: skip

#: Roles of a judged pair.
POSITIVE, NEGATIVE, IGNORED = 1, 0, -1

NoPositive: TypeAlias = Literal["skip", "zero", "one", "error"]
SelfRule: TypeAlias = Literal["exclude", "keep"]

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Relevance:
    """Which gallery items each query names: positives with grades, negatives, ignored ones.

    Only *judged* pairs are stored, query by query, sorted by gallery position; every item
    that a query does not name counts as a negative. Rows in `ignored_gallery` are out of
    the ranking for everybody and are never judged.

    Attributes
    ----------
    n_query, n_gallery : int
        Sizes of the two sides.
    offsets : int64 array (n_query + 1,)
        The pairs of query i are ``offsets[i]:offsets[i + 1]``.
    item : int64 array (n_pairs,)
        Gallery positions.
    role : int8 array (n_pairs,)
        1 positive, 0 negative (judged, so that it may change its role), -1 ignored.
    grade : float64 array (n_pairs,)
        How relevant an item is: above 0 for positives, and for judged negatives below the
        grade that makes a positive.
    self_pair : bool array (n_pairs,)
        True where the item is the query itself, taken out of the ranking.
    ignored_gallery : bool array (n_gallery,)
        Rows ignored for everybody.
    no_positive : {"skip", "zero", "one", "error"}
        What a query without a positive means unless something else is asked for.
    wide, kept : int32 array (n_gallery,) and bool array (n_query, n_values), or None
        Ignores too wide to be judged: a query keeps the gallery rows whose value `wide`
        is marked in its row of `kept`, the others leave its ranking.
    thresholds, passes : tuple of float and uint32 array (n_pairs,), or None
        Of a rule with several radii: all of them, the headline first, and in bit t of each
        pair whether it is right by threshold t; read with :meth:`at`.
    note : str
        Why pairs were removed, with counts; quoted when nothing is left.

    Examples
    --------
    >>> relevance = Relevance.from_pairs([0, 0, 1], [2, 0, 1], n_query=2, n_gallery=3)
    >>> relevance.positives(0), relevance.n_positive
    (array([0, 2]), array([2, 1]))
    """

    n_query: int
    n_gallery: int
    offsets: npt.NDArray[np.int64]
    item: npt.NDArray[np.int64]
    role: npt.NDArray[np.int8]
    grade: npt.NDArray[np.float64]
    self_pair: npt.NDArray[np.bool_]
    ignored_gallery: npt.NDArray[np.bool_]
    no_positive: NoPositive = "skip"
    wide: npt.NDArray[np.int32] | None = None
    kept: npt.NDArray[np.bool_] | None = None
    thresholds: tuple[float, ...] = ()
    passes: npt.NDArray[np.uint32] | None = None
    note: str = ""

    def __repr__(self) -> str:
        sizes = f"{counted(self.n_query, 'query')}, {counted(self.n_gallery, 'gallery row')}"
        return f"Relevance({sizes}, {counted(len(self.item), 'pair')})"

    @classmethod
    def from_pairs(
        cls,
        query_index: npt.ArrayLike,
        gallery_index: npt.ArrayLike,
        grade: npt.ArrayLike | None = None,
        ignored: npt.ArrayLike | None = None,
        ignored_gallery: npt.ArrayLike | None = None,
        *,
        n_query: int,
        n_gallery: int,
        no_positive: NoPositive = "skip",
        positive_from: float | None = None,
    ) -> Relevance:
        """Make a relevance from pairs of positions.

        Parameters
        ----------
        query_index, gallery_index : int array (n_pairs,)
            One entry a pair; a pair may occur once.
        grade : float array (n_pairs,), optional
            1 if not given. 0 makes a judged negative.
        ignored : bool array (n_pairs,), optional
            True for a pair that leaves the query's ranking. Ignored beats positive.
        ignored_gallery : bool array (n_gallery,), optional
            True for a row that is ignored for everybody.
        n_query, n_gallery : int
            Sizes of the two sides.
        no_positive : {"skip", "zero", "one", "error"}
            The default for queries without a positive.
        positive_from : float, optional
            The smallest grade of a positive; by default every grade above 0. Pairs below it
            are judged negatives that keep their grade, which graded gains (NDCG) still use.

        Raises
        ------
        RelevanceError
            If sizes differ, a position is out of range, a grade is negative or not
            finite, or a pair occurs twice.
        """
        query = positions_of(query_index, n_query, "query")
        item = positions_of(gallery_index, n_gallery, "gallery")
        grades = column_of(grade, len(query), "grade", 1.0, np.float64)
        drop = column_of(ignored, len(query), "ignored", False, np.bool_)
        junk = column_of(ignored_gallery, n_gallery, "ignored_gallery", False, np.bool_)
        if len(query) != len(item):
            raise RelevanceError(
                f"{counted(len(query), 'query position')} for "
                f"{counted(len(item), 'gallery position')}"
            )
        if not np.isfinite(grades).all() or (grades < 0).any():
            row = np.flatnonzero(~np.isfinite(grades) | (grades < 0))[0]
            raise RelevanceError(f"pair {row} has the grade {grades[row]}: 0 or more is needed")
        key = query * n_gallery + item
        if len(np.unique(key)) < len(key):
            values, counts = np.unique(key, return_counts=True)
            first = int(values[counts > 1][0])
            raise RelevanceError(
                f"query {first // n_gallery} names gallery row {first % n_gallery} twice: "
                "a pair may occur once"
            )
        enough = (grades > 0) & (grades >= (positive_from or 0))
        role = np.where(drop, IGNORED, np.where(enough, POSITIVE, NEGATIVE))
        return build(
            n_query, n_gallery, [(query, item, role, grades, np.zeros(len(query), bool))],
            ignored_gallery=junk, no_positive=no_positive,
        )

    @property
    def n_positive(self) -> npt.NDArray[np.int64]:
        """Positives of each query, an int64 array of length n_query."""
        return self._count(self.role == POSITIVE)

    @property
    def n_ignored(self) -> npt.NDArray[np.int64]:
        """Items ignored for each query alone (itself included), an int64 array."""
        return self._count(self.role == IGNORED)

    @property
    def n_self(self) -> npt.NDArray[np.int64]:
        """1 where the query itself was found in the gallery and taken out, else 0."""
        return self._count(self.self_pair)

    def positives(self, query: int) -> npt.NDArray[np.int64]:
        """Return the sorted gallery positions of the positives of one query."""
        return self._items(query, POSITIVE)

    def ignored(self, query: int) -> npt.NDArray[np.int64]:
        """Return the sorted gallery positions ignored for one query (itself included)."""
        return self._items(query, IGNORED)

    def query_of_pair(self) -> npt.NDArray[np.int64]:
        """Return the query of each pair, an int64 array of length n_pairs."""
        return np.repeat(np.arange(self.n_query), np.diff(self.offsets))

    def keeping(self, values: npt.ArrayLike, kept: npt.ArrayLike) -> Relevance:
        """Return this relevance with a wide ignore: per query, which gallery values stay.

        Judged pairs that it drops become ignored.

        Parameters
        ----------
        values : int array (n_gallery,)
            A code from 0 for each gallery row (its camera, say).
        kept : bool array (n_query, n_values)
            True where the query keeps the rows of that code.
        """
        codes = np.array(values, dtype=np.int32)
        mask = np.array(kept, dtype=bool)
        if codes.shape != (self.n_gallery,) or mask.ndim != 2 or len(mask) != self.n_query:
            raise RelevanceError(
                f"a wide ignore needs {counted(self.n_gallery, 'code')} and a mask of "
                f"{counted(self.n_query, 'row')}, not {codes.shape} and {mask.shape}"
            )
        if self.wide is not None:
            raise RelevanceError("there is a wide ignore already: join both into one mask")
        if codes.min() < 0 or codes.max() >= mask.shape[1]:
            raise RelevanceError(f"codes of a wide ignore run from 0 to {mask.shape[1] - 1}")
        dropped = ~mask[self.query_of_pair(), codes[self.item]]
        return replace(
            self, wide=codes, kept=mask, role=np.where(dropped, np.int8(IGNORED), self.role),
            grade=np.where(dropped, 0.0, self.grade),
        )

    def at(self, threshold: float) -> Relevance:
        """Return the relevance of another of the radii that were judged together.

        Its pairs are the same, so that a ranking is regraded by it.

        Raises
        ------
        RelevanceError
            If this threshold was not judged.

        Examples
        --------
        >>> from reid_vpr_eval import Samples
        >>> from reid_vpr_eval.relevance import within_metres
        >>> query = Samples.from_columns(east=[0.0], north=[0.0])
        >>> gallery = Samples.from_columns(east=[8.0, 20.0], north=[0.0, 0.0])
        >>> relevance = within_metres(query, gallery, radius=[25.0, 10.0])
        >>> relevance.n_positive, relevance.at(10.0).n_positive
        (array([2]), array([1]))
        """
        if self.passes is None or float(threshold) not in self.thresholds:
            judged = ", ".join(f"{one:g}" for one in self.thresholds) or "none"
            raise RelevanceError(f"{threshold:g} is no threshold that was judged ({judged}): name "
                                 "it in the rule too, such as radius = [25.0, 10.0]")  # fmt: skip
        right = self.passes >> np.uint32(self.thresholds.index(float(threshold))) & np.uint32(1)
        role = np.where(self.role == IGNORED, self.role, right.astype(np.int8))
        return replace(
            self, role=role, grade=(role == POSITIVE).astype(float),
            note=f"{counted(int((role == POSITIVE).sum()), 'pair is', 'pairs are')} positive at "
            f"{threshold:g}",
        )

    def take(self, queries: npt.ArrayLike) -> Relevance:
        """Return the relevance of these queries (positions or a mask), in this order."""
        wanted = np.asarray(queries)
        chosen = np.arange(self.n_query)[wanted if wanted.size else wanted.astype(np.int64)]
        sizes = np.diff(self.offsets)[chosen]
        pairs = ranges(self.offsets[chosen], sizes)
        return replace(
            self,
            n_query=len(chosen),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            item=self.item[pairs],
            role=self.role[pairs],
            grade=self.grade[pairs],
            self_pair=self.self_pair[pairs],
            passes=None if self.passes is None else self.passes[pairs],
            kept=None if self.kept is None else self.kept[chosen],
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one ``.npz`` file; the same relevance gives the same bytes."""
        arrays: dict[str, npt.NDArray[Any]] = {
            name: getattr(self, name)
            for name in ("offsets", "item", "role", "grade", "self_pair", "ignored_gallery")
        }
        if self.wide is not None and self.kept is not None:
            arrays |= {"wide": self.wide, "kept": self.kept}
        header: dict[str, Any] = {"n_query": self.n_query, "n_gallery": self.n_gallery}
        if self.passes is not None:
            arrays["passes"] = self.passes
            header["thresholds"] = list(self.thresholds)
        write_archive(
            path, kind="relevance", version=_VERSION, arrays=arrays,
            header={**header, "no_positive": self.no_positive, "note": self.note},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Relevance:
        """Read a relevance saved by :meth:`save`."""
        header, arrays = read_archive(path, kind="relevance", version=_VERSION)
        names = ("n_query", "n_gallery", "no_positive", "note")
        fields: dict[str, Any] = {name: header[name] for name in names}
        thresholds = tuple(header.get("thresholds", ()))
        return cls(**(fields | arrays), thresholds=thresholds)

    def _count(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        total = np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
        return np.asarray(total[self.offsets[1:]] - total[self.offsets[:-1]])

    def _items(self, query: int, role: int) -> npt.NDArray[np.int64]:
        if not 0 <= query < self.n_query:
            raise IndexError(f"query {query} of {self.n_query}: they count from 0")
        pairs = slice(self.offsets[query], self.offsets[query + 1])
        return np.asarray(self.item[pairs][self.role[pairs] == role])


#: Pairs as a rule finds them: query, gallery row, role, grade, whether it is the query itself.
Found: TypeAlias = tuple[
    npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]
]


def build(
    n_query: int,
    n_gallery: int,
    found: Sequence[Found],
    *,
    ignored_gallery: npt.NDArray[np.bool_],
    no_positive: NoPositive,
    note: str = "",
    thresholds: tuple[float, ...] = (),
    passes: Sequence[npt.NDArray[np.uint32]] = (),
) -> Relevance:
    """Put pairs in order; where a pair was found twice, ignored beats all, self is kept."""
    if no_positive not in get_args(NoPositive):
        known = ", ".join(get_args(NoPositive))
        raise RelevanceError(f"no_positive = {no_positive!r}: one of {known} is needed")
    query, item, role, grade, own = (
        np.concatenate([np.asarray(part[column]) for part in found] or [np.empty(0)])
        for column in range(5)
    )
    stays = ~ignored_gallery[item.astype(np.int64)]
    key = query[stays].astype(np.int64) * n_gallery + item[stays].astype(np.int64)
    role, grade, own = role[stays].astype(np.int8), grade[stays].astype(float), own[stays]
    rank = np.where(own, 0, np.where(role == IGNORED, 1, np.where(role == POSITIVE, 2, 3)))
    order = np.lexsort((rank, key))
    first = np.ones(len(order), bool)
    first[1:] = key[order][1:] != key[order][:-1]
    order = order[first]
    key, role = key[order], role[order]
    bits = None
    if thresholds:  # passes belong to the first parts of found, the others pass nothing
        bits = np.zeros(len(stays), np.uint32)
        given = np.concatenate([*passes, np.empty(0, np.uint32)])
        bits[: len(given)] = given
        bits = bits[stays][order]
    return Relevance(
        n_query=n_query,
        n_gallery=n_gallery,
        offsets=np.searchsorted(key, np.arange(n_query + 1) * n_gallery).astype(np.int64),
        item=key % n_gallery,
        role=role,
        grade=np.where(role == IGNORED, 0.0, grade[order]),
        self_pair=own[order].astype(bool),
        ignored_gallery=ignored_gallery,
        no_positive=no_positive,
        thresholds=thresholds,
        passes=bits,
        note=note,
    )
