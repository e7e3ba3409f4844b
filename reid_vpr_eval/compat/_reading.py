"""What the calls share: relevances from what they are given, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.draws import expected_over_draws
from reid_vpr_eval.errors import AlignmentError, counted
from reid_vpr_eval.evaluator import plain_array
from reid_vpr_eval.metrics import compute
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.relevance import Relevance, same_label
from reid_vpr_eval.relevance.pairs import NoPositive
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, ScoreMatrix

__all__ = ["Collected", "Reid", "indexed", "reid"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reid:
    """CMC (max_rank,), and AP and INP of each query that has a positive."""

    cmc: Floats
    ap: Floats
    inp: Floats


def reid(
    scores: Embeddings | ScoreMatrix,
    labels: tuple[Any, Any],
    cameras: tuple[Any, Any],
    *,
    max_rank: int,
    ties: str,
    single_shot: bool = False,
) -> Reid:
    """Evaluate a re-identification: items of the query's label and camera are ignored."""
    query, gallery = (
        Samples.from_columns(label=plain_array(label), camera=plain_array(camera))
        for label, camera in zip(labels, cameras, strict=True)
    )
    relevance = same_label(query, gallery, different=["camera"])
    ranking = rank(scores, relevance)
    ranks = [f"CMC@{k}" for k in range(1, max_rank + 1)]
    values = compute(ranking, ["mAP", "mINP", *([] if single_shot else ranks)], ties=ties)
    if single_shot:
        codes = np.unique(gallery.keys("label"), return_inverse=True)[1]
        drawn, weights = expected_over_draws(
            scores, relevance, codes, ranks, ties=ties, per_query=True
        )
        cmc = np.array([exact_mean(drawn[name][weights > 0]) for name in ranks])
    else:
        cmc = np.array([values[name] for name in ranks])
    inside = values.evaluated
    return Reid(cmc, values.per_query("mAP")[inside], values.per_query("mINP")[inside])


def indexed(
    positives: Sequence[Any], n_gallery: int, *, ignored: Sequence[Any] = (),
    no_positive: NoPositive,
) -> Relevance:
    """Make a relevance from one list of gallery positions a query; -1 stands for nothing.

    Raises
    ------
    AlignmentError
        If a position is past the end of the gallery.
    """
    right, junk = (
        [np.unique(plain_array(row).astype(np.int64).ravel()) for row in lists]
        for lists in (positives, ignored)
    )
    lists = right + junk
    query = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    item = np.concatenate([np.empty(0, np.int64), *lists])
    outside = item >= n_gallery
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise AlignmentError(
            f"the truth of query {query[first] % max(len(right), 1)} names gallery row "
            f"{item[first]}, but the gallery has rows 0 to {n_gallery - 1}"
        )
    drop = query >= len(right)
    query, item, drop = query[item >= 0], item[item >= 0], drop[item >= 0]
    query = np.where(drop, query - len(right), query)
    kept = drop | ~np.isin(query * n_gallery + item, (query * n_gallery + item)[drop])
    return Relevance.from_pairs(
        query[kept], item[kept], ignored=drop[kept], n_query=len(right), n_gallery=n_gallery,
        no_positive=no_positive,
    )  # fmt: skip


class Collected:
    """Features, labels and cameras of batches: queries first, then the gallery."""

    def __init__(self, n_query: int) -> None:
        self.n_query = n_query
        self._batches: list[tuple[npt.NDArray[Any], ...]] = []

    def add(self, features: Any, labels: Any, cameras: Any) -> None:
        """Add a batch."""
        batch = tuple(np.array(plain_array(part)) for part in (features, labels, cameras))
        if len({len(part) for part in batch}) > 1 or batch[0].ndim != 2:
            raise AlignmentError(
                f"a batch holds features of the shape {batch[0].shape}, "
                f"{counted(len(batch[1]), 'label')} and {counted(len(batch[2]), 'camera')}: one "
                "row of each for every image is needed"
            )
        self._batches.append(batch)

    def joined(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Return features, labels and cameras of everything.

        Raises
        ------
        AlignmentError
            If there are not more rows than queries.
        """
        n_rows = sum(len(batch[0]) for batch in self._batches)
        if not 0 < self.n_query < n_rows:
            raise AlignmentError(
                f"{counted(n_rows, 'row was', 'rows were')} given and the first {self.n_query} are "
                "the queries: both sides need rows"
            )
        features, labels, cameras = (
            np.concatenate(parts) for parts in zip(*self._batches, strict=True)
        )
        return features, labels, cameras
