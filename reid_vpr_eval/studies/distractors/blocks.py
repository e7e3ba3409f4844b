"""Distractors that come in blocks: images with their captions, identities, panoramas.

The base holds whole blocks, and whole blocks are drawn. How many items above a positive come
with n of the M pool blocks follows from the histogram of the blocks by their items above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, counted
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.ranking.histograms import Histograms
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE
from reid_vpr_eval.studies.distractors.block_law import BlockLaw
from reid_vpr_eval.studies.distractors.pairs import Pairs, PoolPositives, relevant
from reid_vpr_eval.studies.distractors.strata import Chosen, Strata, read_strata
from reid_vpr_eval.studies.distractors.tie_groups import TieGroups

__all__ = ["BlockPairs", "read_blocks"]

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BlockPairs(Pairs):
    """Positives in a base of whole blocks, and the pool blocks by their items above and tied.

    As :class:`Pairs`, but `pool_size` counts blocks, and so do `base_rows` and `pool_rows`;
    `base_blocks` are those of each query's base. The histogram of group g is ``entries
    offsets[g]:offsets[g + 1]``: so many blocks (`block_count`) hold so many items above the
    group (`block_above`) and tied with it (`block_tied`).
    """

    base_blocks: Ints
    offsets: Ints
    block_above: Ints
    block_tied: Ints
    block_count: Ints

    @property
    def base_units(self) -> Ints:
        """The blocks of each query's base, to which those that are drawn are added."""
        return self.base_blocks

    def least_ranked(self, size: int) -> Ints:
        """Return how many items each query ranks at least; of a block may be left nothing."""
        drawn = self.drawn(size)
        least = drawn if self.own_pool else 0 * drawn
        return np.asarray(self.base_size + np.where(drawn < self.pool_size, least, self.pool_kept))

    def law(self, group: int) -> BlockLaw:
        """Return the law of items above and tied with a group."""
        mine = slice(self.offsets[group], self.offsets[group + 1])
        return BlockLaw(int(self.pool_size[self.query[group]]), self.block_above[mine],
                        self.block_tied[mine], self.block_count[mine])  # fmt: skip


def read_blocks(
    ranking: Ranking,
    base: Strata = "positives",
    pool: Strata = "negatives",
    *,
    pool_positives: PoolPositives = "error",
    graded: bool = False,
) -> BlockPairs:
    """Read a base and a pool of whole blocks from a ranking that counted blocks.

    Parameters
    ----------
    ranking : Ranking
        Ranked with ``blocks=``, and with ``strata=`` where `base` or `pool` names strata.
    base : str or sequence of str
        "positives": for each query the blocks that hold a positive, with all their items; or
        names of strata.
    pool : str or sequence of str
        "negatives": the blocks outside the base; or names of strata.
    pool_positives : {"error", "ignore"}
        What positives in blocks of the pool are, where the base is of strata.
    graded : bool
        Every item of a grade above 0 counts as a positive.

    Raises
    ------
    NotCountedError
        If blocks were not counted, or lie in several strata of which one is named.
    """
    ranking.check_complete()
    if ranking.row_block is None:
        raise NotCountedError(
            "blocks were not counted: rank with blocks= (--blocks COLUMN), the gallery column of "
            "what is drawn together"
        )
    if base == "positives" and pool != "negatives":
        raise NotCountedError(
            "drawing blocks, base='positives' goes with pool='negatives': the blocks that hold a "
            "positive are the base, all others the pool; or name strata for both"
        )
    chosen = read_strata(ranking, base, pool)
    if chosen.base_names is not None:
        _check_whole(ranking, chosen)
    return _assemble(ranking, _Roles.of(ranking, chosen, pool_positives, graded), chosen)


def _check_whole(ranking: Ranking, chosen: Chosen) -> None:
    """Refuse blocks that lie partly in the base or the pool."""
    assert ranking.row_block is not None  # noqa: S101 (asked by the caller)
    ranked = ~ranking.ignored_gallery
    place = np.where(chosen.base, 1, np.where(chosen.pool, 2, 0))[ranking.row_stratum[ranked]]
    block = ranking.row_block[ranked]
    lowest = np.full(int(block.max()) + 1, 3)
    highest = np.full(int(block.max()) + 1, -1)
    np.minimum.at(lowest, block, place)
    np.maximum.at(highest, block, place)
    cut = np.flatnonzero((highest > 0) & (lowest < highest))
    if len(cut):
        raise NotCountedError(
            f"{counted(len(cut), 'block lies', 'blocks lie')} only in part in the strata named "
            f"(the first holds gallery row {int(np.flatnonzero(ranking.row_block == cut[0])[0])}): "
            "a block is drawn whole, so all its rows must lie in the base, in the pool, or in "
            "neither"
        )
    spread = ranking.n_unjudged_blocks
    assert spread is not None  # noqa: S101 (kept with the blocks)
    if spread[:, -1].any():
        raise NotCountedError(
            "some blocks lie in several strata, which a histogram by strata cannot tell apart: "
            "rank with strata that hold whole blocks"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Roles:
    """What each judged pair is: a positive, a negative of the base, or one of the pool."""

    right: Mask
    base_negative: Mask
    pool_negative: Mask
    block: Ints
    base_blocks: Ints

    @classmethod
    def of(
        cls, ranking: Ranking, chosen: Chosen, pool_positives: PoolPositives, graded: bool
    ) -> _Roles:
        assert ranking.row_block is not None  # noqa: S101 (asked by the caller)
        role = ranking.effective_role
        right = relevant(ranking, role, graded)
        query, n_blocks = ranking.query_of_pair, int(ranking.row_block.max()) + 1
        block = query * n_blocks + ranking.row_block[ranking.item]
        negative = (role != IGNORED) & ~right & (role != POSITIVE)
        if chosen.base_names is None:
            held = np.unique(block[right | (role == POSITIVE)])
            in_base = np.isin(block, held)
            own = np.bincount(held // n_blocks, minlength=ranking.n_query)
            return cls(right & in_base, negative & in_base, negative & ~in_base, block, own)
        in_base, in_pool = chosen.base[ranking.stratum], chosen.pool[ranking.stratum]
        inside = right & in_pool
        if inside.any() and pool_positives != "ignore":
            raise NotCountedError(
                f"{counted(int(inside.sum()), 'positive lies', 'positives lie')} in blocks of the "
                f"pool (the first: gallery row {ranking.item[np.flatnonzero(inside)[0]]}): take "
                "these blocks out, or pool_positives='ignore' (--pool-positives ignore)"
            )
        held = np.unique(ranking.row_block[chosen.base[ranking.row_stratum]
                                           & ~ranking.ignored_gallery])  # fmt: skip
        return cls(right & in_base, negative & in_base, negative & in_pool, block,
                   np.full(ranking.n_query, len(held)))  # fmt: skip


def _assemble(ranking: Ranking, roles: _Roles, chosen: Chosen) -> BlockPairs:
    groups = TieGroups.of(ranking, roles.right, roles.base_negative)
    base_before, base_with = groups.count(roles.base_negative)
    base_above, base_tied = _in_strata(ranking, groups, chosen.base)
    pool_mask = None if chosen.pool_names is None else chosen.pool
    histogram = _histogram(ranking, roles, groups.held, pool_mask)
    above, tied = (
        np.bincount(histogram.owner, items * histogram.count, len(groups.held)).astype(np.int64)
        for items in (histogram.above, histogram.tied)
    )
    n_positive, base_size, pool_kept = _sizes(ranking, roles, chosen)
    left = _pool_blocks(ranking, roles, pool_mask)
    return BlockPairs(
        n_query=ranking.n_query,
        n_positive=n_positive,
        base_size=base_size,
        pool_size=left,
        pool_kept=pool_kept,
        query=groups.query,
        before=groups.right_before + base_before + base_above,
        right=groups.n_right,
        right_before=groups.right_before,
        tied=base_with + base_tied,
        above=above,
        pool_tied=tied,
        grade=ranking.grade[groups.right_rows],
        above_in=None,
        pool_tied_in=None,
        base=chosen.base_names or ("positives",),
        pool=chosen.pool_names or ("negatives",),
        base_rows=None if chosen.base_names is None else int(roles.base_blocks[0]),
        pool_rows=None if pool_mask is None else int(left[0]),
        own_pool=pool_mask is None,
        only_first=ranking.keep == "first",
        base_blocks=roles.base_blocks,
        offsets=histogram.offsets,
        block_above=histogram.above.astype(np.int64),
        block_tied=histogram.tied.astype(np.int64),
        block_count=histogram.count.astype(np.int64),
    )


def _in_strata(ranking: Ranking, groups: TieGroups, mask: Mask) -> tuple[Ints, Ints]:
    """Return the unjudged items of some strata above and tied with each group."""
    inside = mask & ranking.kept[groups.query]
    above, tied = ((counts[groups.held] * inside).sum(axis=1, dtype=np.int64)
                   for counts in (ranking.above, ranking.tied))  # fmt: skip
    return above, tied


def _sizes(ranking: Ranking, roles: _Roles, chosen: Chosen) -> tuple[Ints, Ints, Ints]:
    """Return each query's positives, what it ranks in the base, and in the pool."""
    unjudged = ranking.n_unjudged * ranking.kept
    n_positive, n_negative, in_pool = (
        np.bincount(ranking.query_of_pair[mask], minlength=ranking.n_query)
        for mask in (roles.right, roles.base_negative, roles.pool_negative)
    )
    in_base = unjudged[:, chosen.base].sum(axis=1) if chosen.base_names is not None else 0
    pool_kept = unjudged[:, chosen.pool].sum(axis=1) + in_pool
    return n_positive, n_positive + n_negative + in_base, pool_kept


def _pool_blocks(ranking: Ranking, roles: _Roles, pool_mask: Mask | None) -> Ints:
    """Return M: the pool blocks of each query's own, or all in the strata of the pool."""
    assert ranking.row_block is not None  # noqa: S101 (asked by the caller)
    assert ranking.n_unjudged_blocks is not None  # noqa: S101
    if pool_mask is not None:
        inside = pool_mask[ranking.row_stratum] & ~ranking.ignored_gallery
        return np.full(ranking.n_query, len(np.unique(ranking.row_block[inside])))
    n_blocks = int(ranking.row_block.max()) + 1
    judged = np.unique(roles.block[roles.pool_negative]) // n_blocks
    own = np.bincount(judged, minlength=ranking.n_query)
    return np.asarray(ranking.n_unjudged_blocks.sum(axis=1) + own)


def _histogram(
    ranking: Ranking, roles: _Roles, held: Ints, pool_mask: Mask | None
) -> Histograms:
    """Return the histogram of each group: unjudged blocks, and judged ones of the pool."""
    counted = Histograms.of(ranking)
    assert counted is not None  # noqa: S101 (asked by the caller)
    counted = counted.spread(held)
    keep = np.ones(len(counted.stratum), bool)
    if pool_mask is not None:
        keep = np.append(pool_mask, False)[counted.stratum]
    parts = [tuple(np.asarray(getattr(counted, name), np.int64)[keep]
                   for name in ("owner", "above", "tied", "count"))]  # fmt: skip
    parts += _judged_blocks(ranking, roles, held)
    owner, above, tied, count = (np.concatenate(a) for a in zip(*parts, strict=True))
    return Histograms.gathered(len(held), owner, np.zeros_like(owner), above, tied, count)


def _judged_blocks(
    ranking: Ranking, roles: _Roles, held: Ints
) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    """Yield the entries of judged blocks of the pool, query by query."""
    lone = np.flatnonzero(roles.pool_negative)
    lone = lone[np.argsort(roles.block[lone], kind="stable")]
    query, group_query = ranking.query_of_pair[lone], ranking.query_of_pair[held]
    for asking in np.unique(query).tolist():
        theirs = lone[slice(*np.searchsorted(query, [asking, asking + 1]))]
        groups = np.arange(*np.searchsorted(group_query, [asking, asking + 1]))
        block = roles.block[theirs]
        edges = np.flatnonzero(np.r_[True, block[1:] != block[:-1]])
        place, at = ranking.tie_group[theirs][:, None], ranking.tie_group[held[groups]]
        above, tied = (np.add.reduceat(mask.astype(np.int64), edges, axis=0).ravel()
                       for mask in (place < at, place == at))  # fmt: skip
        yield np.tile(groups, len(edges)), above, tied, np.ones(len(above), np.int64)
