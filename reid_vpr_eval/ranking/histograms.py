"""Histograms of blocks: how many blocks have so many items above a judged one, and tied with it.

They are sparse: only numbers of items that occur are stored, each with the number of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.relevance.pairs import ranges

__all__ = ["FIELDS", "Histograms", "Tally"]

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.uint32]

#: The fields of a Ranking, and of Counts, that hold histograms.
FIELDS = ("block_offsets", "block_stratum", "block_above", "block_tied", "block_count")
_WAITING = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """A sparse histogram for each judged pair, sorted by stratum, items above, items tied.

    Attributes
    ----------
    offsets : int64 array (n_pairs + 1,)
        The entries of pair p are ``offsets[p]:offsets[p + 1]``.
    stratum : int32 array (n_entries,)
        The stratum of the blocks; the number of strata for those that lie in several.
    above, tied : uint32 arrays (n_entries,)
        How many items of a block score higher, and equal; never both 0.
    count : uint32 array (n_entries,)
        How many blocks.
    """

    offsets: Ints
    stratum: npt.NDArray[np.int32]
    above: Small
    tied: Small
    count: Small

    @classmethod
    def of(cls, owner: Any) -> Histograms | None:
        """Return the histograms of a Ranking or of Counts; None if none were counted."""
        if owner.block_offsets is None:
            return None
        return cls(*(getattr(owner, name) for name in FIELDS))

    def fields(self) -> dict[str, Any]:
        """Return what is stored in a Ranking."""
        values = (self.offsets, self.stratum, self.above, self.tied, self.count)
        return dict(zip(FIELDS, values, strict=True))

    @property
    def owner(self) -> Ints:
        """The pair of each entry, int64 (n_entries,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @classmethod
    def gathered(
        cls, n_pairs: int, owner: Ints, stratum: Ints, above: Ints, tied: Ints, count: Ints
    ) -> Histograms:
        """Add up entries in any order; those that come to 0 blocks, or hold no item, go."""
        some = (above > 0) | (tied > 0)
        columns = [column[some] for column in (tied, above, stratum, owner)]
        order = np.lexsort(columns)
        tied, above, stratum, owner = (column[order] for column in columns)
        new = np.ones(len(order), bool)
        new[1:] = np.any([a[1:] != a[:-1] for a in (tied, above, stratum, owner)], axis=0)
        start = np.flatnonzero(new)
        total = np.add.reduceat(count[some][order], start) if len(start) else start
        start, total = start[total != 0], total[total != 0]
        return cls(
            np.searchsorted(owner[start], np.arange(n_pairs + 1)).astype(np.int64),
            stratum[start].astype(np.int32), above[start].astype(np.uint32),
            tied[start].astype(np.uint32), total.astype(np.uint32),
        )  # fmt: skip

    def __add__(self, other: Histograms) -> Histograms:
        """Add the blocks of other slices of the gallery."""
        both = [
            np.concatenate([getattr(self, name), getattr(other, name)]).astype(np.int64)
            for name in ("owner", "stratum", "above", "tied", "count")
        ]
        return Histograms.gathered(len(self.offsets) - 1, *both)

    def spread(self, source: Ints) -> Histograms:
        """Return one histogram for each of `source`, that of so many here; -1 has none."""
        some = source >= 0
        place = np.maximum(source, 0)
        start = self.offsets[:-1][place] if len(self.offsets) > 1 else np.zeros(len(source), int)
        size = np.diff(self.offsets)[place] * some if len(self.offsets) > 1 else start
        entries = ranges(start, size)
        return Histograms(
            np.concatenate([[0], np.cumsum(size)]).astype(np.int64), self.stratum[entries],
            self.above[entries], self.tied[entries], self.count[entries],
        )  # fmt: skip

    @staticmethod
    def stacked(parts: Sequence[Histograms]) -> Histograms:
        """Put the histograms of consecutive pairs together."""
        size = np.concatenate([np.diff(part.offsets) for part in parts])
        joined = [np.concatenate([getattr(part, name) for part in parts])
                  for name in ("stratum", "above", "tied", "count")]  # fmt: skip
        return Histograms(np.concatenate([[0], np.cumsum(size)]).astype(np.int64), *joined)


class Tally:
    """Counts how often rows of small whole numbers occur, in the memory of the distinct ones."""

    def __init__(self, n_columns: int) -> None:
        self._parts: list[Ints] = [np.empty((n_columns + 1, 0), np.int64)]
        self._waiting = 0

    def add(self, *columns: Ints) -> None:
        """Count some rows, given column by column."""
        if len(columns[0]):
            self._parts.append(np.stack([*columns, np.ones(len(columns[0]), np.int64)]))
            self._waiting += len(columns[0])
            if self._waiting > max(_WAITING, self._parts[0].shape[1]):
                self.rows()

    def rows(self) -> Ints:
        """Return the distinct rows, sorted, as columns; the last column says how often each."""
        joined = np.concatenate(self._parts, axis=1)
        order = np.lexsort(joined[-2::-1])
        joined = joined[:, order]
        new = np.ones(joined.shape[1], bool)
        new[1:] = np.any(joined[:-1, 1:] != joined[:-1, :-1], axis=0)
        start = np.flatnonzero(new)
        found = joined[:, start]
        if len(start):
            found[-1] = np.add.reduceat(joined[-1], start)
        self._parts, self._waiting = [found], 0
        return found
