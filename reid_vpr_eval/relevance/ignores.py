"""What leaves a ranking: items ignored for everybody, by some queries, or the query itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import RelevanceError, counted
from reid_vpr_eval.relevance.pairing import (
    check_choice,
    check_names,
    codes,
    n_same_code,
    same_code_pairs,
    self_pairs,
)
from reid_vpr_eval.relevance.pairs import IGNORED, Found, NoPositive, Relevance, SelfRule, build
from reid_vpr_eval.samples import Samples

__all__ = ["Entry", "Ignores"]

_KEYS = ("same", "different", "query", "gallery")
#: More ignored pairs than this are not named one by one.
_MOST_PAIRS = 200_000_000
#: A larger mask of queries by gallery values is refused.
_LARGEST_MASK = 1 << 28

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One entry: the rows it is about on each side, and columns that agree or differ.

    `for_all` is True if it names nothing but gallery rows. Columns are held as codes that are
    equal on both sides where the values are.
    """

    where: str
    for_all: bool
    of_query: Bools
    of_gallery: Bools
    same: Sequence[tuple[Ints, Ints]]
    different: Sequence[tuple[Ints, Ints]]

    @classmethod
    def of(
        cls, query: Samples, gallery: Samples, entry: Mapping[str, Any], where: str
    ) -> Entry:
        """Read one entry of `ignore` or `wide_ignore`."""
        unknown = set(entry) - set(_KEYS)
        given = {key for key, part in entry.items() if len(part)}
        if unknown or not given:
            raise RelevanceError(
                f"{where} has the keys {sorted(entry)}; at least one of "
                f"{', '.join(_KEYS)} is needed, and no other"
            )
        for name in ("same", "different"):
            check_names(f"{where}, {name}", entry.get(name, ()))
        compared = [
            [codes(query, gallery, column) for column in entry.get(name, ())]
            for name in ("same", "different")
        ]
        return cls(
            where,
            given == {"gallery"},
            _matching(query, entry.get("query", {}), f"{where}, query"),
            _matching(gallery, entry.get("gallery", {}), f"{where}, gallery"),
            *compared,
        )

    def pairs(self) -> Found:
        """Return the pairs that this entry ignores, one by one."""
        ours, theirs = np.zeros(len(self.of_query), np.int64), np.zeros(len(self.of_gallery), int)
        for left, right in self.same:
            both = np.stack([np.concatenate([ours, theirs]), np.concatenate([left, right])])
            joined = np.unique(both, axis=1, return_inverse=True)[1].ravel()
            ours, theirs = joined[: len(ours)], joined[len(ours) :]
        ours = np.where(self.of_query, ours, -1)
        theirs = np.where(self.of_gallery, theirs, -2)
        size = n_same_code(ours, theirs)
        if size > _MOST_PAIRS:
            raise RelevanceError(
                f"{self.where} looks at {counted(size, 'pair', form=',')} one by one, which are "
                "too many: move it to wide_ignore"
            )
        parts = []
        for pair_query, pair_item in same_code_pairs(ours, theirs):
            stays = np.ones(len(pair_query), bool)
            for left, right in self.different:
                stays &= left[pair_query] != right[pair_item]
            parts.append((pair_query[stays], pair_item[stays]))
        return ignored_pairs(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def drops(self, rows: Ints) -> Bools:
        """Return which queries ignore each of these gallery rows, (n_query, len(rows))."""
        mask = self.of_query[:, None] & self.of_gallery[rows]
        for left, right in self.same:
            mask &= left[:, None] == right[rows]
        for left, right in self.different:
            mask &= left[:, None] != right[rows]
        return np.asarray(mask)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ignores:
    """All that a rule ignores, read and checked before pairs are looked for.

    Attributes
    ----------
    own : {"exclude", "keep"}
        Whether the query itself leaves its ranking.
    junk : bool array (n_gallery,)
        Rows ignored for everybody.
    some, wide : sequence of Entry
        What some queries ignore: pair by pair, and as a mask.
    """

    query: Samples
    gallery: Samples
    own: SelfRule
    junk: Bools
    some: Sequence[Entry]
    wide: Sequence[Entry]

    @classmethod
    def of(
        cls,
        query: Samples,
        gallery: Samples,
        ignore: Sequence[Mapping[str, Any]] = (),
        wide_ignore: Sequence[Mapping[str, Any]] = (),
        *,
        self: SelfRule,
        group_search: str | None = None,
    ) -> Ignores:
        """Read the entries; `group_search` ignores what differs in that column."""
        check_choice("self", self, ("exclude", "keep"))
        entries: dict[str, list[Entry]] = {}
        for name, given in (("ignore", ignore), ("wide_ignore", wide_ignore)):
            if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
                raise RelevanceError(
                    f"{name} is a list of entries, such as [{{gallery: {{label: [-1]}}}}]"
                )
            entries[name] = [
                Entry.of(query, gallery, entry, f"{name} entry {number}")
                for number, entry in enumerate(given)
            ]
        if group_search is not None:
            apart = {"different": [group_search]}
            entries["wide_ignore"].append(Entry.of(query, gallery, apart, "group_search"))
        junk = np.zeros(gallery.n, bool)
        for entry in (*entries["ignore"], *entries["wide_ignore"]):
            if entry.for_all:
                junk |= entry.of_gallery
        some, wide = ([one for one in part if not one.for_all] for part in entries.values())
        return cls(query=query, gallery=gallery, own=self, junk=junk, some=some, wide=wide)

    def settle(
        self,
        found: Sequence[Found],
        *,
        no_positive: NoPositive,
        note: str,
        thresholds: tuple[float, ...] = (),
        passes: Sequence[npt.NDArray[np.uint32]] = (),
    ) -> Relevance:
        """Make the relevance of what a rule found, with everything ignored taken out."""
        every = [*found, *(entry.pairs() for entry in self.some)]
        if self.own == "exclude":
            every.append(ignored_pairs(*self_pairs(self.query, self.gallery), own=True))
        if self.junk.any():
            note += (
                f"; {counted(int(self.junk.sum()), 'gallery row is', 'gallery rows are')} ignored "
                "for everybody"
            )
        relevance = build(
            self.query.n, self.gallery.n, every, ignored_gallery=self.junk,
            no_positive=no_positive, note=note, thresholds=thresholds, passes=passes,
        )  # fmt: skip
        return relevance.keeping(*self._mask()) if self.wide else relevance

    def _mask(self) -> tuple[Ints, Bools]:
        """Return a code for each gallery row that queries may tell apart, and who keeps it."""
        seen: list[npt.NDArray[Any]] = []
        for entry in self.wide:
            seen.append(entry.of_gallery.astype(np.int64))
            seen += [right for _, right in (*entry.same, *entry.different)]
        _, first, code = np.unique(
            np.stack(seen), axis=1, return_index=True, return_inverse=True
        )
        if len(first) * self.query.n > _LARGEST_MASK:
            named = ", ".join(entry.where for entry in self.wide)
            raise RelevanceError(
                f"{named}: tell {counted(len(first), 'kind', form=',')} of gallery rows apart for "
                f"each of {counted(self.query.n, 'query', form=',')}, which is too much for one "
                "mask; name few pairs in ignore instead"
            )
        kept = np.ones((self.query.n, len(first)), bool)
        for entry in self.wide:
            kept &= ~entry.drops(first)
        return code.ravel(), kept


def ignored_pairs(query: Ints, item: Ints, *, own: bool = False) -> Found:
    """Return these pairs as ignored ones."""
    size = len(query)
    return query, item, np.full(size, IGNORED), np.zeros(size), np.full(size, own)


def _matching(samples: Samples, wanted: Mapping[str, Any], where: str) -> Bools:
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
