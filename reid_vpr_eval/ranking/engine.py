"""The ranking engine: one exact, streaming pass over all scores, that only counts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError, ScoreError, name_some
from reid_vpr_eval.ranking.counting import Counter
from reid_vpr_eval.ranking.groups import (
    best_members,
    check_slice,
    codes_of,
    count_groups,
    with_members,
)
from reid_vpr_eval.ranking.judged import Groups, Judged, best_positive, join, order_of
from reid_vpr_eval.ranking.lists import count_lists, found_scores
from reid_vpr_eval.ranking.ranking import Ranking
from reid_vpr_eval.ranking.regrade import IGNORED_STRATUM, stratum_mask
from reid_vpr_eval.ranking.sources import source_of
from reid_vpr_eval.ranking.tiles import Tile, TileCounter
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.scores import RankedLists, Scores

__all__ = ["rank"]

_ROWS, _COLUMNS = 1024, 4096
_SMALLEST_TILE = 16
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


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
    tie, tie_name = _tie_keys(tie_order, relevance.n_gallery)
    part = _slice(gallery_slice, relevance.n_gallery)
    layout = _Layout.of(relevance, others, strata, count_ignored)
    judged = join(relevance, others, count_ignored=count_ignored)
    codes = None if group is None else codes_of(group, relevance.n_gallery)
    if codes is not None:
        check_slice(codes, part)
        judged = with_members(judged, codes, layout.ranked)
    if isinstance(scores, RankedLists):
        source, score = None, found_scores(scores, judged)
    else:
        source = source_of(scores)
        score = source.pairs(judged.query, judged.item)
    lost = getattr(scores, "bad_query", None)  # queries that cannot be scored find nothing
    if lost is not None:
        score[lost[judged.query]] = -np.inf
    found = np.isfinite(score)
    order, tie_group, ordered = order_of(judged, score, tie)
    stratum = layout.row_stratum[judged.item]
    effective = layout.kept[judged.query, stratum]
    counted = found if keep == "all" else best_positive(judged, ordered, effective & found)
    groups = Groups.of(judged, score, counted)
    counter = Counter(judged, groups, tie, len(layout.names), max(1, top_k), pairs_kept)
    columns = layout.columns(part)
    if source is None:
        assert isinstance(scores, RankedLists)  # noqa: S101 (narrows the type)
        n_unjudged = count_lists(scores, judged, layout.row_stratum, layout.kept, columns, counter)
    else:
        tiles = _tiles(columns, layout.row_stratum, source.dim, _bytes(memory))
        asking = layout.kept if lost is None else layout.kept & ~lost[:, None]
        run = TileCounter(source, judged, groups, asking, counter, relevance.n_gallery)
        _run_tiles(run, tiles, _rows_at_once(_bytes(memory)), workers, progress)
        n_unjudged = layout.sizes(columns) - _judged_sizes(judged, layout, part)
        if lost is not None:
            n_unjudged[lost] = 0
    above, tied, tied_before = counter.result()
    in_groups: dict[str, Any] = {}
    if codes is not None:
        best_pair = best_members(judged, order, codes, effective & found)
        counts = count_groups(source, judged, score, best_pair, codes, columns, layout.kept,
                              layout.row_stratum, tie)  # fmt: skip
        in_groups = {
            "row_group": codes, "n_unjudged_groups": counts.n_unjudged,
            "group_above": counts.above, "group_tied": counts.tied,
            "group_tied_before": counts.tied_before,
        }  # fmt: skip
    best = counter.top_item[:, 0]
    return Ranking(
        n_query=relevance.n_query, n_gallery=relevance.n_gallery, strata=layout.names,
        tie_order=tie_name, no_positive=relevance.no_positive, keep=keep,
        fingerprint=_fingerprint(judged, score, layout, tie, tie_name),
        higher_is_better=getattr(scores, "higher_is_better", True), note=relevance.note,
        pairs_kept=pairs_kept, group="group" if codes is not None else "", **in_groups,
        slices=np.array([part], np.int64),
        ignored_gallery=relevance.ignored_gallery,
        row_stratum=layout.row_stratum, offsets=judged.offsets,
        n_unjudged=n_unjudged, kept=layout.kept,
        depth=_depth(scores, lost),
        best_item=best.copy(), best_score=counter.top_score[:, 0].copy(),
        best_tie=np.where(best >= 0, tie[best], 0), item=judged.item, stratum=stratum,
        role=judged.role, grade=judged.grade, score=score, order=order, tie_group=tie_group,
        found=found, above=above, tied=tied, tied_before=tied_before,
        largest_negatives=counter.largest_negatives if pairs_kept else None,
        top_item=counter.top_item if top_k else None,
        top_score=counter.top_score if top_k else None,
        top_tie=tie[counter.top_item] if top_k else None,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
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
    ) -> _Layout:
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


def _tie_keys(
    tie_order: str | npt.ArrayLike, n_gallery: int
) -> tuple[npt.NDArray[np.int64], str]:
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


def _slice(given: tuple[int, int] | None, n_gallery: int) -> tuple[int, int]:
    start, stop = given or (0, n_gallery)
    if not 0 <= start < stop <= n_gallery:
        raise AlignmentError(
            f"gallery_slice = ({start}, {stop}): 0 <= start < stop <= {n_gallery} is needed"
        )
    return int(start), int(stop)


def _bytes(memory: str | int) -> int:
    if isinstance(memory, int):
        return memory
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?)?b?\s*", memory.lower())
    if not match:
        raise ScoreError(f"memory = {memory!r}: a size such as 512MiB or 2GB is needed")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def _rows_at_once(memory: int) -> int:
    return int(np.clip(memory // (1 << 18), _SMALLEST_TILE, _ROWS))


def _tiles(
    columns: npt.NDArray[np.int64], row_stratum: npt.NDArray[np.int32], dim: int, memory: int
) -> list[Tile]:
    """Cut the rows to be counted into tiles of one stratum each."""
    width = int(np.clip(memory // (32 * (dim + 2 * _rows_at_once(memory))), _SMALLEST_TILE,
                        _COLUMNS))  # fmt: skip
    strata = row_stratum[columns]
    edges = np.flatnonzero(np.diff(strata)) + 1
    tiles = []
    bounds = [0, *edges.tolist(), len(columns)] if len(columns) else []
    for begin, end in pairwise(bounds):
        for start in range(begin, end, width):
            rows = columns[start : min(start + width, end)]
            tiles.append(Tile(start, rows, int(strata[start])))
    return tiles


def _run_tiles(
    run: TileCounter,
    tiles: Sequence[Tile],
    rows: int,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    done = 0
    n_workers = min(workers or os.cpu_count() or 1, len(tiles))

    def finished() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(tiles))

    if n_workers <= 1:
        for tile in tiles:
            run.count(tile, rows)
            finished()
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_workers) as pool:
        for _ in pool.map(lambda tile: run.count(tile, rows), tiles):
            finished()


def _judged_sizes(
    judged: Judged, layout: _Layout, part: tuple[int, int]
) -> npt.NDArray[np.int64]:
    """Count the judged items of each query by stratum, within the slice."""
    n_query, n_strata = layout.kept.shape
    inside = (judged.item >= part[0]) & (judged.item < part[1])
    key = judged.query[inside] * n_strata + layout.row_stratum[judged.item[inside]]
    return np.bincount(key, minlength=n_query * n_strata).reshape(n_query, n_strata)


def _fingerprint(
    judged: Judged,
    score: npt.NDArray[np.float64],
    layout: _Layout,
    tie: npt.NDArray[np.int64],
    tie_name: str,
) -> str:
    digest = sha256(name_some(layout.names, len(layout.names)).encode())
    arrays: list[npt.NDArray[Any]] = [judged.offsets, judged.item, score, layout.row_stratum]
    if tie_name != "position":
        arrays.append(tie)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
