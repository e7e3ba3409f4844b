"""How a gallery is cut for counting: strata, slices, the order of ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError, name_some
from reid_vpr_eval.ranking.judged import Judged
from reid_vpr_eval.ranking.regrade import IGNORED_STRATUM, stratum_mask
from reid_vpr_eval.relevance import Relevance

__all__ = ["Layout", "fingerprint", "judged_sizes", "slice_of", "tie_keys"]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How the gallery is cut: the stratum of each row, and which ones queries keep."""

    names: tuple[str, ...]
    row_stratum: npt.NDArray[np.int32]
    kept: npt.NDArray[np.bool_]
    ranked: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        relevance: Relevance,
        others: Sequence[Relevance],
        strata: npt.ArrayLike | None,
        count_ignored: bool,
    ) -> Layout:
        """Cut the gallery by `strata`, crossed with what wide ignores tell apart."""
        n = relevance.n_gallery
        given = np.zeros(n, np.int64) if strata is None else np.asarray(strata)
        if given.shape != (n,):
            raise AlignmentError(
                f"strata have the shape {given.shape}: one value for each of the {n} gallery rows "
                "is needed"
            )
        values, code = np.unique(given, return_inverse=True)
        names = ["all"] if strata is None else [str(value) for value in values.tolist()]
        for wide in (part.wide for part in (relevance, *others) if part.wide is not None):
            combos, code = np.unique(np.stack([code, wide]), axis=1, return_inverse=True)
            names = [f"{names[old]}/{value}" for old, value in combos.T.tolist()]
        row_stratum: npt.NDArray[np.int32] = code.ravel().astype(np.int32)
        apart = None
        ranked = ~relevance.ignored_gallery
        if count_ignored and relevance.ignored_gallery.any():
            apart = len(names)
            names.append(IGNORED_STRATUM)
            row_stratum[relevance.ignored_gallery] = apart
            ranked = np.ones(n, bool)
        kept = stratum_mask(relevance, row_stratum, len(names), apart)
        return cls(tuple(names), row_stratum, kept, ranked)

    def columns(self, part: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Return the gallery rows to be counted, stratum by stratum."""
        rows = np.arange(*part)
        rows = rows[self.ranked[rows]]
        return rows[np.argsort(self.row_stratum[rows], kind="stable")]

    def sizes(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many of these rows each stratum holds, (1, S)."""
        return np.bincount(self.row_stratum[columns], minlength=len(self.names))[None, :]


def tie_keys(
    tie_order: str | npt.ArrayLike, n_gallery: int
) -> tuple[npt.NDArray[np.int64], str]:
    """Return a key for each gallery row (smaller first) and the name of the order."""
    if isinstance(tie_order, str):
        if tie_order == "position":
            return np.arange(n_gallery), "position"
        hint = " (evaluate() makes it from the gallery's ids)" if tie_order == "id_desc" else ""
        raise NotCountedError(
            f"tie_order = {tie_order!r}: rank() takes 'position' or an integer array{hint}"
        )
    keys = np.asarray(tie_order)
    if keys.shape != (n_gallery,) or keys.dtype.kind not in "iu":
        raise AlignmentError(
            f"tie_order must be one whole number for each of the {n_gallery} gallery rows, not "
            f"{keys.dtype} of the shape {keys.shape}"
        )
    if len(np.unique(keys)) < n_gallery:
        raise AlignmentError("tie_order must give every gallery row a number of its own")
    return keys.astype(np.int64), "array"


def slice_of(given: tuple[int, int] | None, n_gallery: int) -> tuple[int, int]:
    """Return the gallery rows to count as (start, stop)."""
    start, stop = given or (0, n_gallery)
    if not 0 <= start < stop <= n_gallery:
        raise AlignmentError(
            f"gallery_slice = ({start}, {stop}): 0 <= start < stop <= {n_gallery} is needed"
        )
    return int(start), int(stop)


def judged_sizes(
    judged: Judged, layout: Layout, part: tuple[int, int]
) -> npt.NDArray[np.int64]:
    """Count the judged items of each query by stratum, within the slice."""
    n_query, n_strata = layout.kept.shape
    if n_strata == 1 and part == (0, len(layout.row_stratum)):
        return np.diff(judged.offsets)[:, None]
    inside = (judged.item >= part[0]) & (judged.item < part[1])
    key = judged.query[inside] * n_strata + layout.row_stratum[judged.item[inside]]
    return np.bincount(key, minlength=n_query * n_strata).reshape(n_query, n_strata)


def fingerprint(
    offsets: npt.NDArray[np.int64],
    item: npt.NDArray[np.int64],
    score: npt.NDArray[np.float64],
    strata: tuple[str, ...],
    row_stratum: npt.NDArray[np.int32],
    tie: npt.NDArray[np.int64],
    tie_name: str,
) -> str:
    """Return the SHA-256 of judged pairs, scores, strata and tie order."""
    digest = sha256(name_some(strata, len(strata)).encode())
    arrays: list[npt.NDArray[Any]] = [offsets, item, score, row_stratum]
    if tie_name != "position":
        arrays.append(tie)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
