"""The law of how many items stand above when whole blocks are drawn.

Of M pool blocks, M_c hold c items above a positive, and n blocks are drawn without
replacement. The number of ways to draw k of these blocks with s items above is the
coefficient of x^k y^s in the product over c of (1 + x y^c)^M_c; the other n - k blocks are
drawn from those that hold none. All terms are positive, so that nothing cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.studies.distractors.hypergeometric import weights, window

__all__ = ["BlockLaw", "Law"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

#: Multiplications up to which one polynomial serves all sizes; larger ones are made for each
#: size, of what is likely there.
_WHOLE = 300_000
_NOTHING = 1e-19
#: So many blocks, or items that are asked for, that no coefficient overflows.
_MOST_BLOCKS, _FARTHEST = 900, 500


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """Probabilities of (items above, items tied): ``chance[i, j]`` is that of (low + i, tied + j).

    What is left out has less than 1e-16, or more items above than were asked for.
    """

    low: int
    tied: int
    chance: Floats


class BlockLaw:
    """Items above and tied in n blocks drawn from `pool`, of which so many hold so many.

    Parameters
    ----------
    pool : int
        M, those that hold none included.
    above, tied, count : int arrays (n_classes,)
        So many blocks (`count`) hold so many items above, and tied; never none of both.

    Examples
    --------
    >>> law = BlockLaw(3, np.array([1, 2]), np.array([0, 0]), np.array([1, 1]))
    >>> law.at([2])[0].chance.ravel()  # of three blocks with 0, 1 and 2 items above, two
    array([0.        , 0.33333333, 0.33333333, 0.33333333])
    """

    def __init__(self, pool: int, above: Ints, tied: Ints, count: Ints) -> None:
        order = np.argsort(-np.asarray(count), kind="stable")
        self._pool = int(pool)
        self._above, self._tied, self._count = (
            np.asarray(column, np.int64)[order] for column in (above, tied, count)
        )

    def at(self, sizes: Sequence[int], reach: int | None = None) -> list[Law]:
        """Return the law for each number of drawn blocks.

        With `reach` only up to so many items above: blocks that hold more are not drawn.
        """
        if not len(self._count):
            return [Law(0, 0, np.ones((1, 1)))] * len(sizes)
        near = reach is not None and reach <= _FARTHEST
        if near:
            return self._near(sizes, int(reach or 0))
        spans = [(0, int(count)) for count in self._count]
        if self._count.sum() <= _MOST_BLOCKS and self._work(spans) <= _WHOLE * len(sizes):
            return self._whole(sizes)
        return [self._likely(size) for size in sizes]

    def _near(self, sizes: Sequence[int], reach: int) -> list[Law]:
        """Return the laws up to `reach` items above, from one polynomial cut there."""
        stays = self._above <= reach
        part = BlockLaw(self._pool, self._above[stays], self._tied[stays], self._count[stays])
        out = int(self._count[~stays].sum())
        inside = int(part._count.sum())
        ratio = min(1.0, (reach + 1) / (inside + 1))
        if part._above.min(initial=1) == 0 and inside > _MOST_BLOCKS:
            ratio = min(ratio, _FARTHEST / inside)  # blocks that only tie are not cut
        spans = [(0, int(min(count, reach // above if above else count)))
                 for above, count in zip(part._above, part._count, strict=True)]  # fmt: skip
        table, slope, _ = part._joint(spans, ratio, reach)
        table = table / _combinations(inside, len(table), ratio)[:, None, None]
        skewed = _skewed(table, slope)[:, : reach + 1]
        drawn = np.asarray(sizes)
        chance = _draws(self._pool - out, inside, drawn, len(table))
        chance *= _none_of(self._pool, out, drawn)[:, None]
        found = np.tensordot(chance, skewed, 1)
        return [Law(0, 0, one) for one in found]

    def _whole(self, sizes: Sequence[int]) -> list[Law]:
        """Return the laws from the whole polynomial."""
        table, slope, _ = self._joint([(0, int(count)) for count in self._count], 1.0, None)
        blocks = int(self._count.sum())
        table = table / _combinations(blocks, len(table), 1.0)[:, None, None]
        chance = _draws(self._pool, blocks, np.asarray(sizes), len(table))
        found = np.tensordot(chance, _skewed(table, slope), 1)
        return [Law(0, 0, one) for one in found]

    def _likely(self, size: int) -> Law:
        """Return the law for one size from the terms that are likely.

        The number drawn of each class is hypergeometric, and what lies outside of its window
        has less than 1e-17. Given k, all that counts are relative weights.
        """
        share = size / self._pool
        if share in (0.0, 1.0):
            low, tied = (int(share * (self._count * a).sum()) for a in (self._above, self._tied))
            return Law(low, tied, np.ones((1, 1)))
        pool, drawn = np.full(len(self._count), self._pool), np.full(len(self._count), size)
        spans = list(zip(*(a.tolist() for a in window(pool, self._count, drawn)), strict=True))
        table, slope, start = self._joint(spans, share / (1 - share), None, trim=True)
        total = table.sum(axis=(1, 2))
        blocks = int(self._count.sum())
        chance = _draws(self._pool, blocks, np.array([size]), start[0] + len(table))[0][start[0] :]
        scaled = np.divide(chance, total, out=np.zeros_like(total), where=total > 0)
        found = np.tensordot(scaled, _skewed(table, slope), 1)
        return Law(start[1] + slope * start[0], start[2], found)

    def _work(self, spans: Sequence[tuple[int, int]]) -> float:
        """Return about how many multiplications the polynomial takes."""
        slope = int(self._above.min())
        shape, total = np.ones(3), 0.0
        for above, tied, (low, high) in zip(self._above, self._tied, spans, strict=True):
            total += float(shape.prod()) * (high - low + 1)
            shape += (high - low) * np.array([1, above - slope, tied])
        return total

    def _joint(
        self, spans: Sequence[tuple[int, int]], ratio: float, reach: int | None, trim: bool = False
    ) -> tuple[Floats, int, tuple[int, int, int]]:
        """Return coefficients by blocks drawn, items above beyond `slope` a block, items tied.

        Each is multiplied by ratio^k. Also returned are `slope` and what the first entry is of.
        With `reach` those with more items above may be missing; with `trim` what is unlikely.
        """
        slope = int(self._above.min(initial=0)) if len(self._above) else 0
        table, start = np.ones((1, 1, 1)), np.zeros(3, np.int64)
        for above, tied, count, (low, high) in zip(
            self._above.tolist(), self._tied.tolist(), self._count.tolist(), spans, strict=True
        ):
            step = np.array([1, above - slope, tied])
            i = np.arange(low, high, dtype=float)
            factor = np.concatenate([[1.0], np.cumprod(ratio * (count - i) / (i + 1))])
            shape = np.array(table.shape) + step * (high - low)
            if reach is not None:
                most = reach // slope if slope else shape[0]
                shape[:2] = np.minimum(shape[:2], [most + 1, reach + 1])
            out = np.zeros(shape)
            for number, one in enumerate(factor.tolist()):
                at = step * number
                size = np.minimum(table.shape, shape - at)
                if (size <= 0).any():
                    break
                into = out[at[0] : at[0] + size[0], at[1] : at[1] + size[1], at[2] :]
                into[:, :, : size[2]] += one * table[: size[0], : size[1], : size[2]]
            table, start = out, start + step * low
            if trim:
                table, start = _trimmed(table, start)
        return table, slope, (int(start[0]), int(start[1]), int(start[2]))


def _trimmed(table: Floats, start: Ints) -> tuple[Floats, Ints]:
    """Cut off first and last rows and columns that hold next to nothing.

    They are a product of binomial laws, and given how many blocks are drawn in all, nothing
    is likelier than that by more than a factor of about three standard deviations.
    """
    start = start.copy()
    for axis in range(3):
        mass = table.sum(axis=tuple(other for other in range(3) if other != axis))
        some = np.flatnonzero(
            (mass.cumsum() > _NOTHING * mass.sum())
            & (mass[::-1].cumsum()[::-1] > _NOTHING * mass.sum())
        )
        table = np.take(table, np.arange(some[0], some[-1] + 1), axis)
        start[axis] += some[0]
    return table, start


def _skewed(table: Floats, slope: int) -> Floats:
    """Turn items above beyond `slope` a block into items above: row k is moved by slope k."""
    if slope == 0 or len(table) == 1:
        return table
    rows, width, depth = table.shape
    out = np.zeros((rows, width + slope * (rows - 1), depth))
    strides = (out.strides[0] + slope * out.strides[1], *out.strides[1:])
    np.lib.stride_tricks.as_strided(out, table.shape, strides)[:] = table
    return out


def _combinations(blocks: int, n: int, ratio: float) -> Floats:
    """Return C(blocks, k) ratio^k for k = 0 to n - 1."""
    k = np.arange(n - 1, dtype=float)
    return np.concatenate([[1.0], np.cumprod(ratio * (blocks - k) / (k + 1))])


def _draws(pool: int, blocks: int, drawn: Ints, n: int) -> Floats:
    """Return the chance that k of the drawn are among so many blocks, (n_sizes, n)."""
    out = np.zeros((len(drawn), n))
    possible = np.flatnonzero(drawn <= pool)
    many = np.full(len(possible), pool), np.full(len(possible), blocks), drawn[possible]
    low, high = window(*many)
    width = int((high - low).max(initial=0)) + 1
    law = weights(*many, low, width)
    law /= law.sum(axis=1)[:, None]
    column = low[:, None] + np.arange(width)
    row, place = np.nonzero((column < n) & (law > 0))
    out[possible[row], column[row, place]] = law[row, place]
    return out


def _none_of(pool: int, out: int, drawn: Ints) -> Floats:
    """Return the chance that none of `out` blocks is drawn: C(M - out, n) / C(M, n)."""
    chance = np.ones(len(drawn))
    for number, size in enumerate(drawn.tolist()):
        few, many = sorted((out, size))
        i = np.arange(few, dtype=float)
        chance[number] = np.prod(np.maximum((pool - many - i) / (pool - i), 0.0))
    return chance
