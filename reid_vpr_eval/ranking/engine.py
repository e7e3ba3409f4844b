"""The ranking engine: one exact, streaming pass over all scores, that only counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError
from reid_vpr_eval.ranking.counting import Counter
from reid_vpr_eval.ranking.groups import (
    best_members,
    check_slice,
    codes_of,
    count_groups,
    with_members,
)
from reid_vpr_eval.ranking.judged import Groups, Judged, best_positive, join, order_of
from reid_vpr_eval.ranking.layout import Layout, fingerprint, judged_sizes, slice_of, tie_keys
from reid_vpr_eval.ranking.lists import count_lists, found_scores
from reid_vpr_eval.ranking.ranking import Ranking
from reid_vpr_eval.ranking.schedule import bytes_of, rows_at_once, run_tiles, tiles_of
from reid_vpr_eval.ranking.sources import Source, source_of
from reid_vpr_eval.ranking.tiles import TileCounter
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.scores import RankedLists, Scores

__all__ = ["rank"]


def rank(
    scores: Scores,
    relevance: Relevance,
    *,
    judge: Relevance | Sequence[Relevance] = (),
    strata: npt.ArrayLike | None = None,
    keep: Literal["all", "first"] = "all",
    top_k: int = 0,
    tie_order: str | npt.ArrayLike = "position",
    gallery_slice: tuple[int, int] | None = None,
    count_ignored: bool = False,
    group: npt.ArrayLike | None = None,
    blocks: object = None,
    draws: object = None,
    pairs_kept: int = 0,
    memory: str | int = "512MiB",
    workers: int | None = None,
    client: object = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ranking:
    """Count where the judged items of every query rank.

    Parameters
    ----------
    scores : Embeddings, ScoreMatrix or RankedLists
        What similarity is made of.
    relevance : Relevance
        Who is right; sizes must match those of `scores`.
    judge : sequence of Relevance
        Further relevances whose pairs are judged too, for a later ``regrade``.
    strata : array (n_gallery,), optional
        A value for each gallery row; unjudged items are counted apart for each value.
    keep : {"all", "first"}
        "first" counts for the best positive only: enough for CMC and Recall@N.
    top_k : int
        How many of the best unjudged items of each query are kept by name.
    tie_order : "position" or int array (n_gallery,)
        Which of equally scored items comes first (smaller first). It decides top-1 and
        top-k lists and ``ties="index"``, nothing else.
    gallery_slice : (start, stop), optional
        Count only these gallery rows; add such parts with ``Ranking.merge``.
    count_ignored : bool
        Count the rows ignored for everybody in a stratum of their own.
    group : array (n_gallery,), optional
        A value for each gallery row; the rows of one value rank as one item as well, for
        ``CMC@k(by=...)``. They stand at the best item that the query keeps.
    pairs_kept : int
        How many of the largest scores of unjudged pairs are kept, pooled over all queries:
        enough for TAR@FAR down to that many false accepts.
    memory : str or int
        About how much working memory to use, such as "512MiB".
    workers : int, optional
        Threads; by default the number of cores.
    progress : callable(done, total), optional
        Called after each tile.

    Returns
    -------
    Ranking
        Bit-identical for any `memory`, `workers` and, but for what depends on order by
        definition, any order of the gallery.

    Raises
    ------
    AlignmentError
        If sizes do not fit (scores, relevance, strata, tie order).
    ScoreError, NotCountedError
        If scores overflow, or something is asked for that this version does not count.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix
    >>> relevance = Relevance.from_pairs([0], [2], n_query=1, n_gallery=4)
    >>> scores = ScoreMatrix([[0.9, 0.5, 0.5, 0.1]], higher_is_better=True)
    >>> ranking = rank(scores, relevance)
    >>> ranking.above, ranking.tied, ranking.tied_before
    (array([[1]], dtype=uint32), array([[1]], dtype=uint32), array([[1]], dtype=uint32))
    """
    _refuse(blocks=blocks, draws=draws, client=client)
    if keep not in ("all", "first"):
        raise NotCountedError(f"keep = {keep!r}: one of all, first is needed")
    for name, value in (("top_k", top_k), ("pairs_kept", pairs_kept)):
        if value < 0:
            raise NotCountedError(f"{name} = {value}: 0 or more is needed")
    others = [judge] if isinstance(judge, Relevance) else list(judge)
    _check_sizes(scores, relevance)
    tie, tie_name = tie_keys(tie_order, relevance.n_gallery)
    part = slice_of(gallery_slice, relevance.n_gallery)
    layout = Layout.of(relevance, others, strata, count_ignored)
    judged = join(relevance, others, count_ignored=count_ignored)
    codes = None if group is None else codes_of(group, relevance.n_gallery)
    if codes is not None:
        check_slice(codes, part)
        judged = with_members(judged, codes, layout.ranked)
    lost = getattr(scores, "bad_query", None)  # queries that cannot be scored find nothing
    source, score = _judged_scores(scores, judged, lost)
    found = np.isfinite(score)
    order, tie_group, ordered = order_of(judged, score, tie)
    stratum = layout.row_stratum[judged.item]
    effective = found & layout.kept[judged.query, stratum]
    counted = found if keep == "all" else best_positive(judged, ordered, effective)
    groups = Groups.of(judged, score, counted)
    counter = Counter(judged, groups, tie, len(layout.names), max(1, top_k), pairs_kept)
    columns = layout.columns(part)
    asking = layout.kept if lost is None else layout.kept & ~lost[:, None]
    if source is None:
        assert isinstance(scores, RankedLists)  # noqa: S101 (narrows the type)
        n_unjudged = count_lists(scores, judged, layout.row_stratum, asking, columns, counter)
    else:
        tiles = tiles_of(columns, layout.row_stratum, source.dim, bytes_of(memory))
        run = TileCounter(source, judged, groups, asking, counter)
        run_tiles(run, tiles, rows_at_once(bytes_of(memory)), workers, progress)
        n_unjudged = layout.sizes(columns) - judged_sizes(judged, layout, part)
        n_unjudged[~asking.any(axis=1) & layout.kept.any(axis=1)] = 0
    above, tied, tied_before = counter.result()
    in_groups: dict[str, Any] = {"group": ""}
    if codes is not None:
        best = best_members(judged, order, codes, effective)
        in_groups = _group_counts(source, judged, score, best, codes, columns, asking, layout, tie)
    return Ranking(
        n_query=relevance.n_query, n_gallery=relevance.n_gallery, strata=layout.names,
        tie_order=tie_name, no_positive=relevance.no_positive, keep=keep,
        fingerprint=fingerprint(judged, score, layout, tie, tie_name),
        higher_is_better=getattr(scores, "higher_is_better", True), note=relevance.note,
        slices=np.array([part], np.int64), ignored_gallery=relevance.ignored_gallery,
        row_stratum=layout.row_stratum, offsets=judged.offsets, n_unjudged=n_unjudged,
        kept=layout.kept, depth=_depth(scores, lost), item=judged.item, stratum=stratum,
        role=judged.role, grade=judged.grade, score=score, order=order, tie_group=tie_group,
        found=found, above=above, tied=tied, tied_before=tied_before, pairs_kept=pairs_kept,
        largest_negatives=counter.largest_negatives if pairs_kept else None,
        **in_groups, **_best_items(counter, tie, top_k),
    )  # fmt: skip


def _judged_scores(
    scores: Scores, judged: Judged, lost: npt.NDArray[np.bool_] | None
) -> tuple[Source | None, npt.NDArray[np.float64]]:
    """Return the source of scores (None for ranked lists) and the score of each judged pair."""
    if isinstance(scores, RankedLists):
        return None, found_scores(scores, judged)
    source = source_of(scores)
    score = source.pairs(judged.query, judged.item)
    if lost is not None:
        score[lost[judged.query]] = -np.inf
    return source, score


def _group_counts(
    source: Source | None,
    judged: Judged,
    score: npt.NDArray[np.float64],
    best: npt.NDArray[np.bool_],
    codes: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    asking: npt.NDArray[np.bool_],
    layout: Layout,
    tie: npt.NDArray[np.int64],
) -> dict[str, Any]:
    counts = count_groups(
        source, judged, score, best, codes, columns, asking, layout.row_stratum, tie
    )
    return {
        "group": "group", "row_group": codes, "n_unjudged_groups": counts.n_unjudged,
        "group_above": counts.above, "group_tied": counts.tied,
        "group_tied_before": counts.tied_before,
    }  # fmt: skip


def _best_items(
    counter: Counter, tie: npt.NDArray[np.int64], top_k: int
) -> dict[str, Any]:
    """Return the best unjudged item of each query, and the top lists if asked for."""
    best = counter.top_item[:, 0].copy()
    found: dict[str, Any] = {
        "best_item": best, "best_score": counter.top_score[:, 0].copy(),
        "best_tie": np.where(best >= 0, tie[best], 0),
    }  # fmt: skip
    if top_k:
        found |= {"top_item": counter.top_item, "top_score": counter.top_score,
                  "top_tie": tie[counter.top_item]}  # fmt: skip
    return found


def _depth(scores: Scores, lost: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    """Return how many items each query got; -1 for the full gallery, 0 for nothing."""
    if isinstance(scores, RankedLists):
        return scores.depth
    depth = np.full(scores.n_query, -1, np.int64)
    if lost is not None:
        depth[lost] = 0
    return depth


def _refuse(**asked: object) -> None:
    for name, value in asked.items():
        if value is not None:
            raise NotCountedError(f"{name}= is not counted by this version of the engine")


def _check_sizes(scores: Scores, relevance: Relevance) -> None:
    if scores.n_query != relevance.n_query:
        raise AlignmentError(
            f"scores are for {scores.n_query} queries, the relevance for {relevance.n_query}: "
            "row i of the scores must belong to query i"
        )
    if isinstance(scores, RankedLists):
        if scores.has_ids:
            raise AlignmentError(
                "the ranked lists name items by id: match them first, "
                "ranked_lists.resolve(gallery_ids)"
            )
        if (scores.indices >= relevance.n_gallery).any():
            row, column = np.argwhere(scores.indices >= relevance.n_gallery)[0]
            raise AlignmentError(
                f"ranked list {row} names gallery row {scores.indices[row, column]}, but the "
                f"gallery has rows 0 to {relevance.n_gallery - 1}"
            )
    elif scores.n_gallery != relevance.n_gallery:
        raise AlignmentError(
            f"scores are for {scores.n_gallery} gallery rows, the relevance for "
            f"{relevance.n_gallery}: row j of the scores must belong to gallery row j"
        )


