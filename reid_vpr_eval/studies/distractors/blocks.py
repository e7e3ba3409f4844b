"""Distractors that come in blocks: images with their captions, identities, panoramas.

The base holds whole blocks, and whole blocks are drawn. How many items above a positive come
with n of the M pool blocks follows from the histogram of the blocks by their items above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.ranking.histograms import Histograms
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE
from reid_vpr_eval.studies.distractors.block_law import BlockLaw, Law
from reid_vpr_eval.studies.distractors.expectation import Asked
from reid_vpr_eval.studies.distractors.hypergeometric import beta_binomial
from reid_vpr_eval.studies.distractors.pairs import (
    Pairs,
    PoolPositives,
    Strata,
    earlier,
    read_strata,
    relevant,
)

__all__ = ["BlockExpectations", "BlockPairs", "read_blocks"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
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
    base_mask, pool_mask, base_names, pool_names = read_strata(ranking, base, pool)
    if base_names is not None:
        _check_whole(ranking, base_mask, pool_mask)
    roles = _Roles.of(ranking, base_mask, pool_mask, base_names is None, pool_positives, graded)
    return _assemble(ranking, roles, base_mask, pool_mask, base_names, pool_names)


def _check_whole(ranking: Ranking, base_mask: Mask, pool_mask: Mask) -> None:
    """Refuse blocks that lie partly in the base or the pool."""
    assert ranking.row_block is not None  # noqa: S101 (asked by the caller)
    ranked = ~ranking.ignored_gallery
    place = np.where(base_mask, 1, np.where(pool_mask, 2, 0))[ranking.row_stratum[ranked]]
    block = ranking.row_block[ranked]
    lowest = np.full(int(block.max()) + 1, 3)
    highest = np.full(int(block.max()) + 1, -1)
    np.minimum.at(lowest, block, place)
    np.maximum.at(highest, block, place)
    cut = np.flatnonzero((highest > 0) & (lowest < highest))
    if len(cut):
        raise NotCountedError(
            f"{len(cut)} blocks lie only in part in the strata named (the first holds gallery row "
            f"{int(np.flatnonzero(ranking.row_block == cut[0])[0])}): a block is drawn whole, so "
            "all its rows must lie in the base, in the pool, or in neither"
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
        cls, ranking: Ranking, base_mask: Mask, pool_mask: Mask, every_positive: bool,
        pool_positives: PoolPositives, graded: bool,
    ) -> _Roles:  # fmt: skip
        assert ranking.row_block is not None  # noqa: S101 (asked by the caller)
        role = ranking.effective_role
        right = relevant(ranking, role, graded)
        query, n_blocks = ranking.query_of_pair, int(ranking.row_block.max()) + 1
        block = query * n_blocks + ranking.row_block[ranking.item]
        negative = (role != IGNORED) & ~right & (role != POSITIVE)
        if every_positive:
            held = np.unique(block[right | (role == POSITIVE)])
            in_base = np.isin(block, held)
            own = np.bincount(held // n_blocks, minlength=ranking.n_query)
            return cls(right & in_base, negative & in_base, negative & ~in_base, block, own)
        in_base, in_pool = base_mask[ranking.stratum], pool_mask[ranking.stratum]
        inside = right & in_pool
        if inside.any() and pool_positives != "ignore":
            raise NotCountedError(
                f"{int(inside.sum())} positives lie in blocks of the pool (the first: gallery row "
                f"{ranking.item[np.flatnonzero(inside)[0]]}): take these blocks out, or "
                "pool_positives='ignore' (--pool-positives ignore)"
            )
        held = np.unique(ranking.row_block[base_mask[ranking.row_stratum]
                                           & ~ranking.ignored_gallery])  # fmt: skip
        return cls(right & in_base, negative & in_base, negative & in_pool, block,
                   np.full(ranking.n_query, len(held)))  # fmt: skip


def _assemble(
    ranking: Ranking, roles: _Roles, base_mask: Mask, pool_mask: Mask,
    base_names: tuple[str, ...] | None, pool_names: tuple[str, ...] | None,
) -> BlockPairs:  # fmt: skip
    n_query, pair_query = ranking.n_query, ranking.query_of_pair
    rows = np.lexsort((ranking.order, pair_query))
    rows = rows[(roles.right | roles.base_negative)[rows]]
    query, right = pair_query[rows], roles.right[rows]
    first = np.ones(len(rows), bool)
    group = ranking.tie_group[rows]
    first[1:] = (query[1:] != query[:-1]) | (group[1:] != group[:-1])
    start, number = np.flatnonzero(first), np.cumsum(first) - 1
    rights = np.bincount(number[right], minlength=len(start))
    kept = rights > 0
    only_first = ranking.keep == "first"
    right_before = earlier(rights, query[start])
    if only_first:
        kept &= right_before == 0
    held = rows[start].copy()
    positives = np.flatnonzero(right)[::-1]
    held[number[positives]] = rows[positives]  # counted also where only the best positive was
    held = held[kept]
    negatives = np.bincount(number[~right], minlength=len(start))
    inside = base_mask & ranking.kept[query[start][kept]]
    above, tied = ((getattr(ranking, name)[held] * inside).sum(axis=1, dtype=np.int64)
                   for name in ("above", "tied"))  # fmt: skip
    histogram = _histogram(ranking, roles, held, pool_mask if pool_names is not None else None)
    in_pool = [np.bincount(histogram.owner, items * histogram.count, len(held)).astype(np.int64)
               for items in (histogram.above, histogram.tied)]  # fmt: skip
    left = _pool_blocks(ranking, roles, pool_mask if pool_names is not None else None)
    unjudged = ranking.n_unjudged * ranking.kept
    in_base = unjudged[:, base_mask].sum(axis=1) if base_names is not None else 0
    pool_kept = unjudged[:, pool_mask].sum(axis=1) + np.bincount(
        pair_query[roles.pool_negative], minlength=n_query
    )
    return BlockPairs(
        n_query=n_query,
        n_positive=np.bincount(query[right], minlength=n_query),
        base_size=np.bincount(query, minlength=n_query) + in_base,
        pool_size=left,
        pool_kept=pool_kept,
        query=query[start][kept],
        before=(right_before + earlier(negatives, query[start]))[kept] + above,
        right=rights[kept],
        right_before=right_before[kept],
        tied=negatives[kept] + tied,
        above=in_pool[0],
        pool_tied=in_pool[1],
        grade=ranking.grade[rows[right & kept[number]]],
        above_in=None,
        pool_tied_in=None,
        base=base_names or ("positives",),
        pool=pool_names or ("negatives",),
        base_rows=None if base_names is None else int(roles.base_blocks[0]),
        pool_rows=None if pool_names is None else int(left[0]),
        own_pool=pool_names is None,
        only_first=only_first,
        base_blocks=roles.base_blocks,
        offsets=histogram.offsets,
        block_above=histogram.above.astype(np.int64),
        block_tied=histogram.tied.astype(np.int64),
        block_count=histogram.count.astype(np.int64),
    )


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


class BlockExpectations:
    """All expectations that are asked for, at all sizes.

    They are of ``f(P)``, where P is the rank in the base and the drawn items above added up.
    Ties are broken at random, item by item: of the items tied with a group that are drawn, y
    stand before its j-th positive with the beta-binomial law of :class:`Atoms`.
    """

    def __init__(self, pairs: BlockPairs, asked: Sequence[Asked], sizes: Sequence[int]) -> None:
        self._pairs, self._asked = pairs, asked
        self._sizes = list(sizes)
        self._found = np.zeros((len(self._sizes), len(asked), pairs.n_query))
        farthest = pairs.before + pairs.right + pairs.tied + pairs.above + pairs.pool_tied
        self._ranks = np.arange(1, int(farthest.max(initial=0)) + 2, dtype=float)
        tables: dict[int, Floats] = {}
        for one in asked:
            if one.function is not None and id(one.function) not in tables:
                tables[id(one.function)] = np.asarray(one.function(self._ranks), float)
        self._tables = [None if one.function is None else tables[id(one.function)] for one in asked]
        for group in range(len(pairs.query)):
            self._add(group)

    def at(self, size: int) -> list[Floats]:
        """Return what was asked for, one value a query, when `size` blocks are drawn."""
        return list(self._found[self._sizes.index(size)])

    def _add(self, group: int) -> None:
        """Add what the positives of a group contribute, at all sizes."""
        pairs = self._pairs
        query, first = int(pairs.query[group]), int(pairs.before[group]) + 1
        right, before = int(pairs.right[group]), int(pairs.right_before[group])
        wanted = []
        for number, one in enumerate(self._asked):
            places = {"every": range(1, right + 1), "first": [1] if before == 0 else [],
                      "last": [right] if before + right == pairs.n_positive[query] else []}
            wanted += [(number, j, self._cut(one, query, before + j)) for j in places[one.of]]
        # The mean of the rank itself needs no law: it is a sum over blocks.
        straight = [(n, j) for n, j, cut in wanted if cut is None and self._is_rank(n)]
        for number, j in straight:
            self._found[:, number, query] += self._times(number, group, before + j) * (
                first + j - 1 + pairs.tied[group] * j / (right + 1) + self._mean(group, j, right)
            )
        wanted = [(n, j, cut) for n, j, cut in wanted if cut is not None or not self._is_rank(n)]
        wanted = [(n, j, cut) for n, j, cut in wanted if cut is None or cut >= first + j - 1]
        if not wanted:
            return
        cuts = [cut for *_, cut in wanted]
        reach = None if None in cuts else max(cut for cut in cuts if cut is not None) - first
        drawn = np.minimum(self._sizes, pairs.pool_size[query])
        laws = pairs.law(group).at(drawn.tolist(), reach)
        for j in sorted({j for _, j, _ in wanted}):
            mine = [(number, cut) for number, one, cut in wanted if one == j]
            self._add_one(group, j, mine, laws)

    def _add_one(
        self, group: int, j: int, wanted: Sequence[tuple[int, int | None]], laws: Sequence[Law]
    ) -> None:
        """Add what the j-th positive of a group contributes."""
        pairs = self._pairs
        query, right = int(pairs.query[group]), int(pairs.right[group])
        tied, rank = int(pairs.tied[group]), int(pairs.before[group]) + j
        for x, weight in enumerate(beta_binomial(tied, j, right - j + 1).tolist()):
            for row, law in enumerate(laws):
                low, chance = _untied(law, j + x, right + tied + 1 - j - x)
                for number, cut in wanted:
                    start = rank + x + low
                    end = min(start + len(chance), len(self._ranks) + 1)  # none beyond
                    if cut is not None:
                        end = min(end, cut + 1)
                    if end <= start:
                        continue
                    table = self._tables[number]
                    part = chance[: end - start]
                    mean = part.sum() if table is None else part @ table[start - 1 : end - 1]
                    times = self._times(number, group, int(pairs.right_before[group]) + j)
                    self._found[row, number, query] += weight * times * float(mean)

    def _is_rank(self, number: int) -> bool:
        table = self._tables[number]
        return table is not None and np.array_equal(table, self._ranks)

    def _mean(self, group: int, j: int, right: int) -> Floats:
        """Return the mean number of drawn items before the j-th positive, for each size."""
        pairs = self._pairs
        mine = slice(pairs.offsets[group], pairs.offsets[group + 1])
        above, tied = (float((a[mine] * pairs.block_count[mine]).sum())
                       for a in (pairs.block_above, pairs.block_tied))  # fmt: skip
        pool = int(pairs.pool_size[pairs.query[group]])
        share = np.minimum(self._sizes, pool) / max(pool, 1)
        return np.asarray(share * (above + tied * j / (right + 1)))

    def _times(self, number: int, group: int, place: int) -> float:
        times = self._asked[number].times
        if isinstance(times, np.ndarray):
            return float(times[group])
        return float(place) if times == "number" else 1.0

    def _cut(self, one: Asked, query: int, place: int) -> int | None:
        if one.cut is None:
            return None
        cut = one.cut if isinstance(one.cut, int) else int(np.broadcast_to(
            one.cut, self._pairs.n_query)[query])  # fmt: skip
        return cut + place if one.beside else cut


def _untied(law: Law, before: int, after: int) -> tuple[int, Floats]:
    """Return the law of the items before one that ties: the lowest number, and chances.

    Of tied items a beta-binomial number stands before the `before`-th of ``before + after - 1``.
    """
    if law.chance.shape[1] == 1 and law.tied == 0:
        return law.low, law.chance[:, 0]
    widest = law.tied + law.chance.shape[1] - 1
    out = np.zeros(len(law.chance) + widest)
    for column in range(law.chance.shape[1]):
        some = law.chance[:, column]
        if some.any():
            spread = np.convolve(some, beta_binomial(law.tied + column, before, after))
            out[: len(spread)] += spread
    return law.low, out
