"""Counts: what one slice of the gallery contributes, added to what other slices do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import AlignmentError
from reid_vpr_eval.ranking.histograms import Histograms

__all__ = ["Counts", "best_first"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Small: TypeAlias = npt.NDArray[np.uint32]

_VERSION = 1
_SUMS = (
    "n_unjudged", "above", "tied", "tied_before", "n_unjudged_groups", "group_above",
    "group_tied", "group_tied_before", "n_unjudged_blocks",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Counts:
    """What was counted over some slices of the gallery; the fields are those of Ranking.

    `pairs_kept` says how many of the largest negative scores of all slices stay.
    """

    slices: Ints
    n_unjudged: Ints
    above: Small
    tied: Small
    tied_before: Small
    best_item: Ints
    best_score: Floats
    best_tie: Ints
    pairs_kept: int = 0
    largest_negatives: Floats | None = None
    top_item: Ints | None = None
    top_score: Floats | None = None
    top_tie: Ints | None = None
    n_unjudged_groups: Ints | None = None
    group_above: Small | None = None
    group_tied: Small | None = None
    group_tied_before: Small | None = None
    n_unjudged_blocks: Ints | None = None
    block_offsets: Ints | None = None
    block_stratum: npt.NDArray[np.int32] | None = None
    block_above: Small | None = None
    block_tied: Small | None = None
    block_count: Small | None = None

    @classmethod
    def of(cls, ranking: Any) -> Counts:
        """Return what a ranking counted."""
        return cls(**{field.name: getattr(ranking, field.name) for field in fields(cls)})

    def fields(self) -> dict[str, Any]:
        """Return all fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __add__(self, other: Counts) -> Counts:
        """Add the counts of other slices.

        Raises
        ------
        AlignmentError
            If slices overlap.
        """
        slices = np.concatenate([self.slices, other.slices])
        slices = slices[np.argsort(slices[:, 0], kind="stable")]
        overlap = np.flatnonzero(slices[1:, 0] < slices[:-1, 1])
        if len(overlap):
            at = int(overlap[0])
            raise AlignmentError(
                f"slices overlap: gallery rows {slices[at, 0]}:{slices[at, 1]} and "
                f"{slices[at + 1, 0]}:{slices[at + 1, 1]} share rows that would be counted twice"
            )
        added: dict[str, Any] = {"slices": slices, "pairs_kept": self.pairs_kept}
        for name in _SUMS:
            if getattr(self, name) is not None:
                added[name] = getattr(self, name) + getattr(other, name)
        added |= _best(self, other)
        ours, theirs = Histograms.of(self), Histograms.of(other)
        if ours is not None and theirs is not None:
            added |= (ours + theirs).fields()
        if self.largest_negatives is not None:
            pooled = np.concatenate([self.largest_negatives, other.largest_negatives])
            added["largest_negatives"] = np.sort(pooled)[::-1][: self.pairs_kept]
        return Counts(**added)

    @staticmethod
    def total(parts: Sequence[Counts]) -> Counts:
        """Add up all parts."""
        return reduce(Counts.__add__, parts)

    def save(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        """Save to one ``.npz`` file, whole or not at all."""
        arrays = {name: value for name, value in self.fields().items()
                  if isinstance(value, np.ndarray)}  # fmt: skip
        header = {"fingerprint": fingerprint, "pairs_kept": self.pairs_kept}
        write_archive(path, kind="counts", version=_VERSION, arrays=arrays, header=header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> tuple[str, Counts]:
        """Read the fingerprint and the counts that :meth:`save` wrote."""
        header, arrays = read_archive(path, kind="counts", version=_VERSION)
        pairs_kept = int(header["pairs_kept"])
        return str(header["fingerprint"]), cls(pairs_kept=pairs_kept, **arrays)


def _best(one: Counts, other: Counts) -> dict[str, Any]:
    """Pick the best unjudged items of two parts: by score, then tie order."""
    item, score, tie = best_first(
        np.stack([one.best_item, other.best_item], 1),
        np.stack([one.best_score, other.best_score], 1),
        np.stack([one.best_tie, other.best_tie], 1),
        1,
    )
    unknown = (one.best_item == -2) | (other.best_item == -2)
    best: dict[str, Any] = {
        "best_item": np.where(unknown, -2, item[:, 0]),
        "best_score": score[:, 0],
        "best_tie": tie[:, 0],
    }
    if one.top_item is not None:
        names = ("top_item", "top_score", "top_tie")
        joined = [np.concatenate([getattr(one, name), getattr(other, name)], axis=1)
                  for name in names]  # fmt: skip
        tops = best_first(joined[0], joined[1], joined[2], one.top_item.shape[1])
        best |= dict(zip(names, tops, strict=True))
    return best


def best_first(item: Ints, score: Floats, tie: Ints, k: int) -> tuple[Ints, Floats, Ints]:
    """Return the k best columns of each row: by score, then tie order; -1 is no item."""
    score = np.where(item < 0, -np.inf, score)
    order = np.lexsort((tie, -score, item < 0), axis=1)[:, :k]
    return tuple(np.take_along_axis(a, order, 1) for a in (item, score, tie))  # type: ignore[return-value]
