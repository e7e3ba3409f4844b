"""The ranking engine: one exact, streaming pass over all scores, that only counts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError
from reid_vpr_eval.ranking.checkpoint import made, of_pass
from reid_vpr_eval.ranking.groups import check_slice, codes_of, with_members
from reid_vpr_eval.ranking.judged import join
from reid_vpr_eval.ranking.layout import Layout, slice_of, tie_keys
from reid_vpr_eval.ranking.passes import passes_of, stacked
from reid_vpr_eval.ranking.ranking import Ranking
from reid_vpr_eval.ranking.running import Crew, Here, Progress, count
from reid_vpr_eval.ranking.work import Task
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
    blocks: npt.ArrayLike | None = None,
    draws: object = None,
    pairs_kept: int = 0,
    memory: str | int = "512MiB",
    workers: int | None = None,
    client: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    progress_pairs: Progress | None = None,
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
    blocks : array (n_gallery,), optional
        A value for each gallery row; the rows of one value come into a gallery together (an
        image with its captions, all images of an identity). For each judged item it is counted
        how many blocks have so many items above and tied, for ``distractor_curve(unit="blocks")``.
        The scores are gone through a second time for it.
    pairs_kept : int
        How many of the largest scores of unjudged pairs are kept, pooled over all queries:
        enough for TAR@FAR down to that many false accepts.
    memory : str or int
        About how much working memory to use, such as "512MiB".
    workers : int, optional
        Threads; by default the number of cores, and one for each task of a cluster.
    client : dask.distributed.Client, optional
        Count on the workers of a cluster (``pip install 'reid_vpr_eval[dask]'``), with
        `memory` for each thread of a worker; the same bits. Workers may come and go.
    checkpoint : path, optional
        A folder for finished slices of the gallery: the same call, made again after the
        process was killed, goes on from there and gives the same bits. The folder belongs to
        one run and is refused by others; delete it when the result is saved.
    progress : callable(done, total), optional
        Called after each tile; slices that a checkpoint holds are done from the start.
    progress_pairs : callable(done, total), optional
        Called while the judged pairs are scored, before anything is counted.

    Returns
    -------
    Ranking
        Bit-identical for any `memory`, `workers` and, but for what depends on order by
        definition, any order of the gallery.

    Raises
    ------
    AlignmentError
        If sizes do not fit (scores, relevance, strata, tie order), or `checkpoint` holds
        slices of another run.
    ScoreError, NotCountedError
        If scores overflow, or something is asked for that this version does not count.
    FormatError
        If `checkpoint` cannot be written, or is in use by another run.
    ClusterError
        If the workers of `client` cannot do the work.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix
    >>> relevance = Relevance.from_pairs([0], [2], n_query=1, n_gallery=4)
    >>> scores = ScoreMatrix([[0.9, 0.5, 0.5, 0.1]], higher_is_better=True)
    >>> ranking = rank(scores, relevance)
    >>> ranking.above, ranking.tied, ranking.tied_before
    (array([[1]], dtype=uint32), array([[1]], dtype=uint32), array([[1]], dtype=uint32))
    """
    _refuse(draws=draws)
    if keep not in ("all", "first"):
        raise NotCountedError(f"keep = {keep!r}: one of all, first is needed")
    for name, value in (("top_k", top_k), ("pairs_kept", pairs_kept)):
        if value < 0:
            raise NotCountedError(f"{name} = {value}: 0 or more is needed")
    others = [judge] if isinstance(judge, Relevance) else list(judge)
    _check_sizes(scores, relevance)
    tie, tie_name = tie_keys(tie_order, relevance.n_gallery)
    part = slice_of(gallery_slice, relevance.n_gallery)
    codes, whole = (
        None if given is None else codes_of(given, relevance.n_gallery, what)
        for given, what in ((group, "group"), (blocks, "block"))
    )
    for values, what in ((codes, "group"), (whole, "block")):
        if values is not None:
            check_slice(values, part, what)
    _check_sliceable(scores, {"group": group, "blocks": blocks}, checkpoint=checkpoint,
                     client=client)  # fmt: skip
    folder = None if checkpoint is None else made(checkpoint)

    def task_of(scores: Scores, relevance: Relevance, others: Sequence[Relevance]) -> Task:
        layout = Layout.of(relevance, others, strata, count_ignored)
        judged = join(relevance, others, count_ignored=count_ignored)
        judged = with_members(judged, [a for a in (codes, whole) if a is not None], layout.ranked)
        return Task(
            scores=scores, relevance=relevance, layout=layout, judged=judged, tie=tie,
            tie_name=tie_name, codes=codes, blocks=whole, keep=keep, top_k=top_k,
            pairs_kept=pairs_kept, memory=memory, workers=workers,
        )  # fmt: skip

    passes = passes_of(scores, relevance, memory, workers)
    parts = []
    with _crew(client, scores) as crew:
        for number, rows in enumerate(passes):
            if len(passes) == 1:
                task = task_of(scores, relevance, others)
            else:
                asking = np.arange(rows.start, rows.stop)
                task = task_of(scores.take_queries(rows), relevance.take(asking),
                               [other.take(asking) for other in others])  # fmt: skip
            parts.append(count(
                task, part, crew=crew.for_pass(rows if len(passes) > 1 else None),
                checkpoint=of_pass(folder, rows, relevance.n_query),
                progress=_share(progress, number, len(passes)),
                progress_pairs=_share(progress_pairs, number, len(passes)),
            ))  # fmt: skip
    return parts[0] if len(parts) == 1 else stacked(parts, tie)


def _crew(client: Any, scores: Scores) -> AbstractContextManager[Crew]:
    """Return who does the work: this process, or a cluster."""
    if client is None:
        return nullcontext(Here())
    from reid_vpr_eval.ranking.cluster import Cluster

    return Cluster(client, scores)


def _share(progress: Progress | None, number: int, of: int) -> Progress | None:
    """Return the progress of one of several passes, as that of all."""
    if progress is None or of == 1:
        return progress
    return lambda done, total: progress(number * total + done, of * total)


def _refuse(**asked: object) -> None:
    for name, value in asked.items():
        if value is not None:
            raise NotCountedError(f"{name}= is not counted by this version of the engine")


def _check_sliceable(scores: Scores, whole: Mapping[str, object], **asked: object) -> None:
    """Refuse what works by slices of the gallery where slices cannot be added."""
    for name, value in asked.items():
        if value is not None and isinstance(scores, RankedLists):
            raise NotCountedError(f"{name}=: ranked lists are counted at once: leave it out")
        for kept, given in whole.items():
            if value is not None and given is not None:
                raise NotCountedError(
                    f"{name}= works by slices of the gallery, which would cut "
                    f"{kept.removesuffix('s')}s: leave it or {kept}= out"
                )


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


