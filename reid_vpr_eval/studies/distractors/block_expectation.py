"""Expectations over draws of whole blocks, from the law of the items that come with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.studies.distractors.block_law import Law
from reid_vpr_eval.studies.distractors.blocks import BlockPairs
from reid_vpr_eval.studies.distractors.expectation import Asked
from reid_vpr_eval.studies.distractors.hypergeometric import beta_binomial

__all__ = ["BlockExpectations"]

Floats: TypeAlias = npt.NDArray[np.float64]


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
