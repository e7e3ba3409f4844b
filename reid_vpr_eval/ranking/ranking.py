"""Ranking: the counts that every number is made of, saved, added and graded anew."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import AlignmentError, FormatError, NotCountedError, name_some
from reid_vpr_eval.ranking.counts import Counts
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.relevance.pairs import IGNORED, NEGATIVE, POSITIVE, NoPositive

__all__ = ["Ranking", "check_ranking"]

_VERSION = 1
_SPARSE = ("tied", "tied_before")
#: Whole numbers that are saved in the smallest type that holds them, and the type they have here.
_PACKED = {
    "above": np.uint32, "n_unjudged": np.int64, "item": np.int64, "order": np.int32,
    "tie_group": np.int32, "block_offsets": np.int64, "block_stratum": np.int32,
    "block_above": np.uint32, "block_tied": np.uint32, "block_count": np.uint32,
}  # fmt: skip
_HEADER = (
    "n_query", "n_gallery", "strata", "tie_order", "no_positive", "keep", "fingerprint",
    "higher_is_better", "note", "pairs_kept", "group", "block",
)  # fmt: skip
#: Arrays that later versions of the file may hold; none of them is counted yet.
RESERVED = (
    "draw_table", "wide_value",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Ranking:
    """Where the judged items of every query rank: counts over the unjudged items.

    A judged item is one that the relevance names. For each of them it is counted how many
    unjudged items of each stratum of the gallery score higher (`above`), equal (`tied`),
    and equal but earlier in the tie order (`tied_before`). The counts do not depend on
    roles, and they add up over slices of the gallery.

    Attributes
    ----------
    n_query, n_gallery : int
        Sizes of the two sides, ignored rows included.
    strata : tuple of str
        Names of the S strata; ("all",) unless asked for.
    tie_order : str
        "position", "id_desc" or "array": what comes first among equal scores.
    keep : {"all", "first"}
        "first": counted for the best positive of each query only.
    fingerprint : str
        SHA-256 of judged pairs, scores, strata and tie order.
    slices : int64 array (n, 2)
        The ranges of gallery rows that were counted.
    ignored_gallery : bool array (n_gallery,)
        Rows ignored for everybody.
    row_stratum : int32 array (n_gallery,)
        The stratum of each gallery row.
    offsets : int64 array (n_query + 1,)
        The pairs of query i are ``offsets[i]:offsets[i + 1]``.
    n_unjudged : int64 array (n_query, S)
        Unjudged items ranked for each query.
    kept : bool array (n_query, S)
        The strata that stay in each query's ranking.
    depth : int64 array (n_query,)
        How many items were returned for a query; -1 for the full gallery.
    best_item, best_score, best_tie : arrays (n_query,)
        The best unjudged item of the kept strata (-1: none, -2: not known after a
        regrade), its score and place in the tie order.
    item, stratum, role, grade, score, order, tie_group, found : arrays (n_pairs,)
        The judged pairs; `order` is the place among the query's judged items, equal
        scores share a `tie_group`.
    above, tied, tied_before : uint32 arrays (n_pairs, S)
        Counts over unjudged items.
    group : str
        Name of the column whose items were ranked as one; "" if none was.
    row_group, n_unjudged_groups : int64 arrays (n_gallery,) and (n_query,), or None
        The group of each row, and how many groups without a judged item each query ranks.
    group_above, group_tied, group_tied_before : uint32 arrays (n_pairs,), or None
        Counts over these groups, at the best kept item of each judged group.
    block : str
        Name of the column whose items are drawn together; "" if blocks were not counted.
    row_block, n_unjudged_blocks : int64 arrays (n_gallery,) and (n_query, S + 1), or None
        The block of each row, and how many blocks without a judged item each query ranks, by
        stratum; the last column is for blocks that lie in several.
    block_offsets, block_stratum, block_above, block_tied, block_count : arrays, or None
        A sparse histogram for each judged pair, ``block_offsets[p]:block_offsets[p + 1]``: so
        many blocks of a stratum have so many items above the judged one, and tied with it.
    pairs_kept : int
        How many of the largest scores of unjudged pairs were asked for.
    largest_negatives : float64 array (at most pairs_kept,), or None
        These scores, pooled over all queries, descending.
    top_item, top_score : arrays (n_query, k), or None
        The best unjudged items, if asked for; -1 where there are fewer.
    higher_is_better : bool
        Whether larger scores were better as given; `score` itself is always so.
    """

    n_query: int
    n_gallery: int
    strata: tuple[str, ...]
    tie_order: str
    no_positive: NoPositive
    keep: Literal["all", "first"]
    fingerprint: str
    higher_is_better: bool
    note: str
    pairs_kept: int
    group: str
    block: str
    slices: npt.NDArray[np.int64]
    ignored_gallery: npt.NDArray[np.bool_]
    row_stratum: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    n_unjudged: npt.NDArray[np.int64]
    kept: npt.NDArray[np.bool_]
    depth: npt.NDArray[np.int64]
    best_item: npt.NDArray[np.int64]
    best_score: npt.NDArray[np.float64]
    best_tie: npt.NDArray[np.int64]
    item: npt.NDArray[np.int64]
    stratum: npt.NDArray[np.int32]
    role: npt.NDArray[np.int8]
    grade: npt.NDArray[np.float64]
    score: npt.NDArray[np.float64]
    order: npt.NDArray[np.int32]
    tie_group: npt.NDArray[np.int32]
    found: npt.NDArray[np.bool_]
    above: npt.NDArray[np.uint32]
    tied: npt.NDArray[np.uint32]
    tied_before: npt.NDArray[np.uint32]
    row_group: npt.NDArray[np.int64] | None = None
    n_unjudged_groups: npt.NDArray[np.int64] | None = None
    group_above: npt.NDArray[np.uint32] | None = None
    group_tied: npt.NDArray[np.uint32] | None = None
    group_tied_before: npt.NDArray[np.uint32] | None = None
    row_block: npt.NDArray[np.int64] | None = None
    n_unjudged_blocks: npt.NDArray[np.int64] | None = None
    block_offsets: npt.NDArray[np.int64] | None = None
    block_stratum: npt.NDArray[np.int32] | None = None
    block_above: npt.NDArray[np.uint32] | None = None
    block_tied: npt.NDArray[np.uint32] | None = None
    block_count: npt.NDArray[np.uint32] | None = None
    largest_negatives: npt.NDArray[np.float64] | None = None
    top_item: npt.NDArray[np.int64] | None = None
    top_score: npt.NDArray[np.float64] | None = None
    top_tie: npt.NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        sizes = f"{self.n_query} queries, {self.n_gallery} gallery rows"
        return f"Ranking({sizes}, {len(self.item)} judged pairs)"

    @property
    def n_gallery_ranked(self) -> int:
        """Gallery rows that take part: all but those ignored for everybody."""
        return int(self.n_gallery - self.ignored_gallery.sum())

    @property
    def n_positive(self) -> npt.NDArray[np.int64]:
        """Positives of each query, without those in strata it drops."""
        return self._sum(self.effective_role == POSITIVE)

    @property
    def n_ignored(self) -> npt.NDArray[np.int64]:
        """Judged items that each query ignores, itself included."""
        return self._sum(self.effective_role == IGNORED)

    @property
    def query_of_pair(self) -> npt.NDArray[np.int64]:
        """The query of each pair, an int64 array of length n_pairs."""
        return np.repeat(np.arange(self.n_query), np.diff(self.offsets))

    @property
    def effective_role(self) -> npt.NDArray[np.int8]:
        """The role of each pair; an item in a stratum the query drops reads as ignored."""
        if self.kept.all():
            return self.role
        stays = self.kept[self.query_of_pair, self.stratum]
        return np.where(stays, self.role, np.int8(IGNORED)).astype(np.int8)

    def counted(self, name: Literal["above", "tied", "tied_before"]) -> npt.NDArray[np.int64]:
        """Return a count summed over the strata that each query keeps, int64 (n_pairs,)."""
        counts = getattr(self, name)
        if len(self.strata) == 1 and self.kept.all():
            return np.asarray(counts[:, 0], dtype=np.int64)
        mask = self.kept[self.query_of_pair]
        return np.asarray((counts * mask).sum(axis=1, dtype=np.int64))

    def check_complete(self) -> None:
        """Refuse a ranking that counted only part of the gallery.

        Raises
        ------
        NotCountedError
            Names the rows that are missing.
        """
        position = 0
        for start, stop in self.slices:
            if start > position:
                break
            position = max(position, int(stop))
        if position < self.n_gallery:
            done = name_some([f"{start}:{stop}" for start, stop in self.slices])
            raise NotCountedError(
                f"only the gallery rows {done} of {self.n_gallery} were counted: merge this "
                "ranking with the other slices first (Ranking.merge)"
            )

    def regrade(self, relevance: Relevance) -> Ranking:
        """Grade the same counts by another relevance, without ranking again.

        Every positive and ignored pair of `relevance` must have been judged; judged pairs
        that it does not name become negatives.

        Raises
        ------
        NotCountedError
            If pairs of `relevance` were not judged (how many, which first), or its ignored
            gallery rows differ from those of this ranking.
        AlignmentError
            If the sizes differ.
        """
        from reid_vpr_eval.ranking.regrade import regrade

        return regrade(self, relevance)

    @staticmethod
    def merge(parts: Sequence[Ranking]) -> Ranking:
        """Add rankings of different slices of one gallery.

        Raises
        ------
        AlignmentError
            If the parts judge other pairs or scores, were graded differently, or overlap.
        """
        if not parts:
            raise AlignmentError("there is nothing to merge")
        first = parts[0]
        for number, part in enumerate(parts[1:], start=1):
            _check_mergeable(first, part, number)
        total = Counts.total([Counts.of(part) for part in parts])
        return replace(first, **total.fields())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to one ``.npz`` file; the same ranking gives the same bytes."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, np.ndarray):
                continue
            if field.name in _SPARSE:
                places = np.flatnonzero(value)
                arrays[f"{field.name}_at"] = _smallest(places)
                arrays[f"{field.name}_count"] = _smallest(value.ravel()[places])
            else:
                arrays[field.name] = _smallest(value) if field.name in _PACKED else value
        header = {name: getattr(self, name) for name in _HEADER}
        write_archive(path, kind="ranking", version=_VERSION, arrays=arrays, header=header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranking:
        """Read a ranking saved by :meth:`save`."""
        header, arrays = read_archive(path, kind="ranking", version=_VERSION)
        shape = arrays["above"].shape
        for name in _SPARSE:
            dense = np.zeros(shape, np.uint32)
            dense.ravel()[arrays.pop(f"{name}_at")] = arrays.pop(f"{name}_count")
            arrays[name] = dense
        for name, kind in _PACKED.items():
            if name in arrays:
                arrays[name] = arrays[name].astype(kind)
        known: dict[str, Any] = {"pairs_kept": 0, "group": "", "block": ""}
        known |= {name: header[name] for name in _HEADER if name in header}
        known["strata"] = tuple(known["strata"])
        return cls(**(known | arrays))

    def _sum(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        total = np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
        return np.asarray(total[self.offsets[1:]] - total[self.offsets[:-1]])


def _smallest(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers of 0 or more in the smallest unsigned type that fits."""
    largest = int(array.max()) if array.size else 0
    for kind in (np.uint8, np.uint16, np.uint32):
        if largest <= np.iinfo(kind).max:
            return array.astype(kind)
    return array.astype(np.uint64)


def _check_mergeable(first: Ranking, part: Ranking, number: int) -> None:
    for name, what in (
        ("fingerprint", "judges other pairs, scores, strata or tie order"),
        ("keep", "kept other counts"),
        ("pairs_kept", "kept other numbers of negative scores"),
        ("group", "counts other groups"),
        ("row_group", "counts other groups"),
        ("block", "counts other blocks"),
        ("row_block", "counts other blocks"),
        ("no_positive", "treats queries without a positive differently"),
        ("role", "gives judged pairs other roles"),
        ("grade", "gives judged pairs other grades"),
        ("kept", "keeps other strata"),
        ("ignored_gallery", "ignores other gallery rows"),
    ):
        ours, theirs = getattr(first, name), getattr(part, name)
        if not np.array_equal(ours, theirs):
            raise AlignmentError(
                f"part {number} does not belong to part 0: it {what}; merge only slices of one "
                "ranking, made with the same scores and relevance"
            )
    for name, what in (("top_item", "top-k lists"), ("largest_negatives", "negative scores")):
        if (getattr(first, name) is None) != (getattr(part, name) is None):
            raise AlignmentError(f"part {number} has {what} and part 0 has not, or the reverse")


def roles_of(
    ranking: Ranking, relevance: Relevance
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:
    """Return the role and grade that another relevance gives to the judged pairs."""
    ours = ranking.query_of_pair * ranking.n_gallery + ranking.item
    theirs = relevance.query_of_pair() * ranking.n_gallery + relevance.item
    named = (relevance.role != NEGATIVE) | (relevance.grade > 0)
    missing = named & ~np.isin(theirs, ours)
    if missing.any():
        first = int(theirs[missing][0])
        raise NotCountedError(
            f"{int(missing.sum())} positive or ignored pairs of the other relevance were not "
            f"judged (the first: query {first // ranking.n_gallery}, gallery row "
            f"{first % ranking.n_gallery}); rank again with judge=[that relevance]"
        )
    role = np.zeros(len(ours), np.int8)
    grade = np.zeros(len(ours))
    places = np.searchsorted(ours, theirs[named])
    role[places], grade[places] = relevance.role[named], relevance.grade[named]
    return role, grade


def check_ranking(ranking: object) -> None:
    """Refuse what is no ranking: most often the result that holds it."""
    if not isinstance(ranking, Ranking):
        raise FormatError(
            f"a Ranking is needed, not {type(ranking).__name__}: rank() makes one, "
            "Ranking.load() reads a ranking.npz, and a Result has one as result.ranking"
        )
