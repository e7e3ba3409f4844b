"""Bringing together what belongs together: samples, what a protocol says of them, scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, EvaluationWarning, NotCountedError, counted
from reid_vpr_eval.formats import SideSpec, apply_spec
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking.canonical import component_type
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, RankedLists, ScoreMatrix, Scores
from reid_vpr_eval.scores.arrays import row_blocks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["pool_queries", "prepare", "side_spec", "warn_of_doubles"]

_POOLED_AT_ONCE = 1 << 22


def prepare(
    protocol: Protocol,
    query: Samples | pd.DataFrame,
    gallery: Samples | pd.DataFrame,
    scores: Scores | None,
) -> tuple[Samples, Samples, Any]:
    """Apply what a protocol says of the two sides; return them with the scores aligned.

    Raises
    ------
    AlignmentError
        If the scores have other numbers of rows than the samples.
    """
    if scores is not None and not isinstance(scores, Embeddings | ScoreMatrix | RankedLists):
        raise AlignmentError(
            f"scores are a {type(scores).__name__}: give rve.Embeddings(query_features, "
            "gallery_features), rve.ScoreMatrix(matrix, higher_is_better=...) or "
            "rve.RankedLists(indices)"
        )
    one = query is gallery
    ours = query if isinstance(query, Samples) else Samples(query)
    theirs = ours if one else gallery if isinstance(gallery, Samples) else Samples(gallery)
    if one and ours.ids is None and ours.n:
        ours = theirs = ours.with_columns(id=np.arange(ours.n))
    kept_query, query_rows = apply_spec(ours, side_spec(protocol, "query"), side="query")
    kept_gallery, gallery_rows = apply_spec(theirs, side_spec(protocol, "gallery"), side="gallery")
    if scores is None:
        return kept_query, kept_gallery, None
    if isinstance(scores, RankedLists):
        scores = _align_lists(scores, kept_query, kept_gallery, ours.n, query_rows)
    else:
        scores = _align(scores, (ours.n, theirs.n), query_rows, gallery_rows)
    return kept_query, kept_gallery, scores


def side_spec(protocol: Protocol, side: Literal["query", "gallery"]) -> SideSpec:
    """Return how a side is read, in the terms of the readers."""
    table = protocol.query if side == "query" else protocol.gallery
    return SideSpec(
        folder=table.folder, names=table.names, columns=table.columns, where=table.where,
        aliases=table.aliases,
    )  # fmt: skip


def _align(
    scores: Any, given: tuple[int, int], query_rows: Any, gallery_rows: Any
) -> Scores:
    """Drop the rows that the protocol's `where` drops, unless they are gone already."""
    sizes = (scores.n_query, scores.n_gallery)
    rows = (query_rows, gallery_rows)
    chosen = []
    for side, size, n, keep in zip(("query", "gallery"), sizes, given, rows, strict=True):
        if size == n:
            chosen.append(keep)
        elif size == len(keep):
            chosen.append(np.arange(size))
        else:
            kept = "" if len(keep) == n else f" ({len(keep)} of them kept by the protocol)"
            raise AlignmentError(
                f"the scores have {size} {side} rows, the samples {n}{kept}: row i of the scores "
                "must belong to sample i"
            )
    if len(chosen[0]) == sizes[0] and len(chosen[1]) == sizes[1]:
        return scores  # type: ignore[no-any-return]
    return scores.take(*chosen)  # type: ignore[no-any-return]


def _align_lists(
    scores: RankedLists,
    query: Samples,
    gallery: Samples,
    n_given: int,
    query_rows: npt.NDArray[np.int64],
) -> RankedLists:
    if scores.has_ids:
        if gallery.ids is None:
            raise AlignmentError(
                "the ranked lists name items by id, but the gallery has no column 'id'"
            )
        scores = scores.resolve(gallery.ids)
    if scores.n_query == n_given and n_given != query.n:
        scores = scores.take(query_rows)
    if scores.n_query != query.n:
        raise AlignmentError(
            f"{counted(scores.n_query, 'ranked list')} for {counted(query.n, 'query')}"
        )
    return scores


def warn_of_doubles(query: Samples, gallery: Samples, scores: object) -> None:
    """Warn when both sides are the same vectors but nothing says that they are the same items."""
    if not isinstance(scores, Embeddings) or query is gallery:
        return
    if query.ids is not None and gallery.ids is not None:
        return
    if scores.n_query == scores.n_gallery and (
        scores.query is scores.gallery
        or all(
            np.array_equal(scores.query[rows], scores.gallery[rows])
            for rows in row_blocks(scores.query)
        )
    ):
        warnings.warn(
            "both sides have the same vectors row by row and no ids, so every query will find "
            "itself: give one Samples object for both sides, or ids",
            EvaluationWarning,
            stacklevel=4,
        )


def pool_queries(
    query: Samples, scores: Scores, columns: Sequence[str]
) -> tuple[Samples, Embeddings]:
    """Make one query of all rows that agree in some columns: the mean of their features.

    The rows are those of the first of each, sorted by the columns. Under cosine the mean is
    normalised when it is scored.

    Raises
    ------
    NotCountedError
        If the scores are no features, or binary codes.
    """
    if not isinstance(scores, Embeddings):
        raise NotCountedError(
            "several images are pooled into one query by their features: give features, not a "
            "matrix or ranked lists"
        )
    if scores.kind == "bits":
        raise NotCountedError(
            "several images are pooled into one query by the mean of their features, and binary "
            "codes have none: pool before the features are binarised"
        )
    keys = [np.unique(query.keys(column), return_inverse=True)[1] for column in columns]
    _, first, group = np.unique(np.stack(keys), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    starts = np.searchsorted(group.ravel()[order], np.arange(len(first)))
    kind = component_type(scores.query.dtype)
    mean = np.empty((len(starts), scores.dim), kind)
    ends = np.r_[starts[1:], len(order)]
    for a, b in _blocks_of_groups(ends, max(1, _POOLED_AT_ONCE // scores.dim)):
        rows = order[starts[a] : ends[b - 1]]
        part = scores.query[rows].astype(np.float64)
        sums = np.add.reduceat(part, starts[a:b] - starts[a], axis=0)
        mean[a:b] = sums / (ends[a:b] - starts[a:b])[:, None]
    return query.take(first), scores.with_queries(mean)


def _blocks_of_groups(
    ends: npt.NDArray[np.int64], at_once: int
) -> Iterator[tuple[int, int]]:
    """Cut consecutive groups into blocks of about so many rows, and of one group at least."""
    begin, done = 0, 0
    while begin < len(ends):
        stop = max(begin + 1, int(np.searchsorted(ends, done + at_once, side="right")))
        yield begin, stop
        begin, done = stop, int(ends[stop - 1])
