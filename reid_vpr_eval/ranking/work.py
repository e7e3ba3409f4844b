"""One pass of counting: what it needs, its two phases, and the Ranking it leaves.

Phase 1 fixes the canonical scores of the judged pairs. Phase 2 counts a slice of the gallery
against them; what slices count is added up. A task is a plain value, so that any thread,
process or machine may count a slice of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.blocks import count_blocks, unjudged_blocks
from reid_vpr_eval.ranking.counting import Counter
from reid_vpr_eval.ranking.counts import Counts
from reid_vpr_eval.ranking.groups import best_members, count_groups
from reid_vpr_eval.ranking.judged import Groups, Judged, best_positive, order_of
from reid_vpr_eval.ranking.kernels import Kernels, kernels_for
from reid_vpr_eval.ranking.layout import Layout, fingerprint, judged_sizes
from reid_vpr_eval.ranking.lists import count_lists, found_scores
from reid_vpr_eval.ranking.ranking import Ranking
from reid_vpr_eval.ranking.schedule import Buffers, Sizes, run_all, tiles_of
from reid_vpr_eval.ranking.sources import Source, source_of
from reid_vpr_eval.ranking.tiles import Tile, TileCounter
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.scores import RankedLists, Scores

__all__ = ["Task"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Part = tuple[int, int]
#: What a canonical score costs, in scores of a product.
_COST_OF_JUDGED = 40

Finished = Callable[[], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """All that counting needs; phase 1 fills in `score`.

    It also notes in `mirrored` whether every pair is judged in both directions.
    """

    scores: Scores
    relevance: Relevance
    layout: Layout
    judged: Judged
    tie: Ints
    tie_name: str
    codes: Ints | None
    blocks: Ints | None
    keep: Literal["all", "first"]
    top_k: int
    pairs_kept: int
    memory: str | int
    workers: int | None
    score: Floats | None = None
    mirrored: bool = False

    def __getstate__(self) -> dict[str, Any]:
        names = type(self).__dataclass_fields__
        return {name: self.__dict__[name] for name in names}

    @cached_property
    def source(self) -> Source | None:
        """The source of scores; None for ranked lists."""
        if isinstance(self.scores, RankedLists):
            return None
        pairs = float(self.scores.n_query) * self.scores.n_gallery
        pairs += _COST_OF_JUDGED * len(self.judged.item)
        return source_of(self.scores, kernels_for(pairs * getattr(self.scores, "dim", 1)))

    @cached_property
    def sizes(self) -> Sizes:
        """How much is worked on at once."""
        if self.source is None:
            return Sizes.of("512MiB", 1, 8, self.workers)
        return Sizes.of(self.memory, self.source.dim, self.source.itemsize, self.workers)

    @property
    def lost(self) -> npt.NDArray[np.bool_] | None:
        """Queries that cannot be scored, which find nothing."""
        return getattr(self.scores, "bad_query", None)

    # Phase 1

    def judged_scores(self, part: Part | None = None) -> Floats:
        """Return the canonical score of each judged pair, or of those with items in a slice.

        Where the pair (i, j) tells the score of (j, i), only one of the two is scored; `scored`
        fills in the other.
        """
        query, item = self._pair_query, self.judged.item
        if part is not None:
            inside = (item >= part[0]) & (item < part[1])
            query, item = query[inside], item[inside]
        if self.source is None:
            assert isinstance(self.scores, RankedLists)  # noqa: S101 (narrows the type)
            return found_scores(self.scores, self.judged)
        if self._mirror is not None and self.lost is None:
            score = np.zeros(len(query))
            told = query <= item
            score[told] = self.source.pairs(query[told], item[told], self.sizes.workers)
            return score
        score = self.source.pairs(query, item, self.sizes.workers)
        if self.lost is not None:
            score[self.lost[query]] = -np.inf
        return score

    def scored(self, score: Floats | None = None) -> Task:
        """Return the task with the scores of phase 1, computed here unless given."""
        score = self.judged_scores() if score is None else score
        if self._mirror is not None and self.lost is None:
            other = np.flatnonzero(self._pair_query > self.judged.item)
            score[other] = score[self._mirror[other]]
        made = replace(self, score=score, mirrored=self._mirror is not None)
        for name in ("_mirror", "_pair_query"):  # of no use from now on
            self.__dict__.pop(name, None)
        return made

    @cached_property
    def _mirror(self) -> Ints | None:
        """Where the mirrored judged pairs are, if both sides are the same items."""
        if self.source is None or not self.source.symmetric:
            return None
        return self.judged.mirror()

    @cached_property
    def _pair_query(self) -> Ints:
        """The query of each pair."""
        return self.judged.query_of(slice(0, self.scores.n_query))

    # What follows from the scores

    @cached_property
    def _score(self) -> Floats:
        assert self.score is not None  # noqa: S101 (phase 1 comes first)
        return self.score

    @cached_property
    def _found(self) -> npt.NDArray[np.bool_]:
        return np.isfinite(self._score)

    @cached_property
    def _kernels(self) -> Kernels:
        return kernels_for(0) if self.source is None else self.source.kernels

    @cached_property
    def _order(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        return order_of(self.judged, self._score, self.tie, self._kernels, self.sizes.workers)

    @cached_property
    def _stratum(self) -> npt.NDArray[np.int32]:
        return self.layout.row_stratum[self.judged.item]

    @cached_property
    def _effective(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self._found & self.layout.kept[self.judged.query, self._stratum])

    @cached_property
    def _groups(self) -> Groups:
        """The thresholds."""
        counted = self._found
        if self.keep == "first":
            counted = best_positive(self.judged, self._order[0], self._effective)
        return Groups.of(self.judged, self._score, counted, self._order[0], self.sizes.workers)

    @cached_property
    def _asking(self) -> npt.NDArray[np.bool_]:
        """The strata in which each query finds something."""
        kept = self.layout.kept
        return kept if self.lost is None else kept & ~self.lost[:, None]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of judged pairs, scores, strata and tie order."""
        return fingerprint(
            self.judged.offsets, self.judged.item, self._score, self.layout.names,
            self.layout.row_stratum, self.tie, self.tie_name,
        )  # fmt: skip

    # Phase 2

    def count(self, part: Part, finished: Finished = lambda: None) -> Counts:
        """Count the gallery rows of a slice; `finished` is called after each tile."""
        counter = Counter(self.judged, self._groups, self.tie, len(self.layout.names),
                          max(1, self.top_k), self.pairs_kept, self._kernels.bisect)  # fmt: skip
        columns = self.layout.columns(part)
        asking, kept = self._asking, self.layout.kept
        if self.source is None:
            assert isinstance(self.scores, RankedLists)  # noqa: S101 (narrows the type)
            n_unjudged = count_lists(self.scores, self.judged, self.layout.row_stratum, asking,
                                     columns, counter)  # fmt: skip
        else:
            self._count_tiles(self.source, counter, columns, finished)
            n_unjudged = self.layout.sizes(columns) - judged_sizes(self.judged, self.layout, part)
            n_unjudged[~asking.any(axis=1) & kept.any(axis=1)] = 0
        above, tied, tied_before = counter.result(self.sizes.workers)
        return Counts(
            slices=np.array([part], np.int64), n_unjudged=n_unjudged, above=above, tied=tied,
            tied_before=tied_before, pairs_kept=self.pairs_kept,
            largest_negatives=counter.largest_negatives if self.pairs_kept else None,
            **self._best_items(counter), **self._group_counts(columns),
            **self._block_counts(columns),
        )  # fmt: skip

    def n_jobs(self, part: Part) -> int:
        """Return how often `finished` will be called for a slice."""
        if self.source is None:
            return 0
        columns = self.layout.columns(part)
        if self._squared(columns):
            n_blocks = -(-len(columns) // self.sizes.square)
            return n_blocks * (n_blocks + 1) // 2
        return len(tiles_of(columns, self.layout.row_stratum, self.sizes))

    def _count_tiles(
        self, source: Source, counter: Counter, columns: Ints, finished: Finished
    ) -> None:
        sizes, n_query = self.sizes, self.scores.n_query
        square = self._squared(columns)
        step = sizes.square if square else -(-n_query // -(-n_query // sizes.rows))
        blocks = [slice(a, min(a + step, n_query)) for a in range(0, n_query, step)]
        run = TileCounter(source, self.judged, self._groups, self._asking, counter, blocks,
                          columns)  # fmt: skip
        prepared: list[Any] = [None] * len(blocks)

        def prepare(number: int, _: Any) -> None:
            prepared[number] = source.queries(blocks[number])

        run_all(range(len(blocks)), prepare, sizes.workers)
        tiles = Buffers(step * (step if square else sizes.columns))
        if square:
            pairs = [(i, j) for i in range(len(blocks)) for j in range(i, len(blocks))]
            run_all(pairs, lambda pair, _: run.count_square(*pair, prepared, tiles.mine()),
                    sizes.workers, finished=finished)  # fmt: skip
            return
        vectors = Buffers(sizes.columns * source.dim)

        def count(tile: Tile, read: Any) -> None:
            theirs = source.columns(tile.rows, read, vectors.mine())
            run.count(tile, theirs, prepared, tiles.mine())

        fetch = (lambda tile: source.fetch(tile.rows)) if source.streams else None
        run_all(tiles_of(columns, self.layout.row_stratum, sizes), count, sizes.workers,
                fetch=fetch, finished=finished)  # fmt: skip

    def _squared(self, columns: Ints) -> bool:
        """Whether one half of the square of scores tells the other half."""
        return (
            self.source is not None and self.source.symmetric
            and len(columns) == self.scores.n_query and len(self.layout.names) == 1
            and not self.pairs_kept and len(columns) > self.sizes.square
            and self.mirrored
        )  # fmt: skip

    def _best_items(self, counter: Counter) -> dict[str, Any]:
        """Return the best unjudged item of each query, and the top lists if asked for."""
        best = counter.top_item[:, 0].copy()
        found: dict[str, Any] = {
            "best_item": best, "best_score": counter.top_score[:, 0].copy(),
            "best_tie": np.where(best >= 0, self.tie[best], 0),
        }  # fmt: skip
        if self.top_k:
            found |= {"top_item": counter.top_item, "top_score": counter.top_score,
                      "top_tie": self.tie[counter.top_item]}  # fmt: skip
        return found

    def _group_counts(self, columns: Ints) -> dict[str, Any]:
        if self.codes is None:
            return {}
        best = best_members(self.judged, self._order[0], self.codes, self._effective)
        groups = Groups.of(self.judged, self._score, best, self._order[0])
        counts = count_groups(self.source, self.judged, groups, self.codes, columns, self._asking,
                              self.layout.row_stratum, self.tie)  # fmt: skip
        return {"n_unjudged_groups": counts.n_unjudged, "group_above": counts.above,
                "group_tied": counts.tied, "group_tied_before": counts.tied_before}  # fmt: skip

    def _block_counts(self, columns: Ints) -> dict[str, Any]:
        if self.blocks is None:
            return {}
        where = self.blocks, columns, self._asking, self.layout
        found = count_blocks(self.source, self.judged, self._groups, *where, self.sizes)
        return {"n_unjudged_blocks": unjudged_blocks(self.judged, *where), **found.fields()}

    # The end

    def ranking(self, counts: Counts) -> Ranking:
        """Return the ranking that these counts make."""
        relevance, judged = self.relevance, self.judged
        order, tie_group = self._order
        return Ranking(
            n_query=relevance.n_query, n_gallery=relevance.n_gallery, strata=self.layout.names,
            tie_order=self.tie_name, no_positive=relevance.no_positive, keep=self.keep,
            fingerprint=self.fingerprint,
            higher_is_better=getattr(self.scores, "higher_is_better", True), note=relevance.note,
            ignored_gallery=relevance.ignored_gallery, row_stratum=self.layout.row_stratum,
            offsets=judged.offsets, kept=self.layout.kept, depth=self._depth(), item=judged.item,
            stratum=self._stratum, role=judged.role, grade=judged.grade, score=self._score,
            order=order, tie_group=tie_group, found=self._found,
            group="" if self.codes is None else "group", row_group=self.codes,
            block="" if self.blocks is None else "block", row_block=self.blocks,
            **counts.fields(),
        )  # fmt: skip

    def _depth(self) -> Ints:
        """Return how many items each query got; -1 for the full gallery, 0 for nothing."""
        if isinstance(self.scores, RankedLists):
            return self.scores.depth
        depth = np.full(self.scores.n_query, -1, np.int64)
        if self.lost is not None:
            depth[self.lost] = 0
        return depth
