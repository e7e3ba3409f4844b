"""What a distractor study reads from a ranking: ranks in the base gallery, counts in the pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, name_some
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE

__all__ = [
    "Pairs", "PoolPositives", "Strata", "earlier", "read_pairs", "read_strata", "relevant",
]  # fmt: skip

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
#: "positives" (of a base) or "negatives" (of a pool), or the names of strata.
Strata: TypeAlias = str | Sequence[str]
#: What positives that lie in the strata of the pool are.
PoolPositives: TypeAlias = Literal["error", "keep", "ignore"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pairs:
    """The tie groups that hold positives, split into what the base and the pool put there.

    A group holds `right` positives and `tied` negatives of the base; `before` items of the
    base stand above it, `right_before` of them positives. Of the pool, `above` items stand
    above the group and `pool_tied` tie with it. Without ties the one positive of a group has
    the rank ``before + 1`` in the base gallery, and ``before + 1 + A`` after n items were
    drawn from the pool of N, with A hypergeometric (N, above, n).

    Attributes
    ----------
    n_query : int
        Number of queries.
    n_positive, base_size : int64 arrays (n_query,)
        Positives, and items that each query ranks in the base, positives included.
    pool_size, pool_kept : int64 arrays (n_query,)
        N, and how many of these the query does not ignore.
    query, before, right, right_before, tied, above, pool_tied : int64 arrays (n_groups,)
        Of each group, in rank order, query by query.
    grade : float64 array (n_right,)
        The grade of each positive, group by group.
    above_in, pool_tied_in : int64 arrays (n_groups, n_pool_strata), or None
        `above` and `pool_tied` by stratum of the pool, if asked for.
    base, pool : tuple of str
        Names of the strata; ("positives",) and ("negatives",) for these.
    base_rows, pool_rows : int or None
        Gallery rows in the strata; None where it is a matter of each query.
    own_pool : bool
        Every query draws from negatives of its own: ``n = min(size, N)``. Else all queries
        share the draw.
    only_first : bool
        Only the first group of each query was counted.
    """

    n_query: int
    n_positive: Ints
    base_size: Ints
    pool_size: Ints
    pool_kept: Ints
    query: Ints
    before: Ints
    right: Ints
    right_before: Ints
    tied: Ints
    above: Ints
    pool_tied: Ints
    grade: Floats
    above_in: Ints | None
    pool_tied_in: Ints | None
    base: tuple[str, ...]
    pool: tuple[str, ...]
    base_rows: int | None
    pool_rows: int | None
    own_pool: bool
    only_first: bool

    @property
    def largest_size(self) -> int:
        """The largest number of distractors that can be drawn."""
        return int(self.pool_size.max(initial=0))

    def drawn(self, size: int) -> Ints:
        """Return how many items each query draws, int64 (n_query,)."""
        return np.minimum(size, self.pool_size)

    @property
    def base_units(self) -> Ints:
        """What a size is added to for the size of the gallery, int64 (n_query,)."""
        return self.base_size

    def mean_ranked(self, size: int) -> Floats:
        """Return how many items each query ranks in the mean over draws, float64 (n_query,)."""
        share = self.drawn(size) / np.maximum(self.pool_size, 1)
        return np.asarray(self.base_size + share * self.pool_kept)

    def least_ranked(self, size: int) -> Ints:
        """Return how many items each query ranks at least, int64 (n_query,)."""
        lost = self.pool_size - self.pool_kept
        return np.asarray(self.base_size + np.maximum(self.drawn(size) - lost, 0))

    def base_reading(self) -> Reading:
        """Return the base gallery alone as a reading: what a plain run on it would read."""
        query = np.repeat(self.query, self.right)
        return Reading(
            n_query=self.n_query,
            n_positive=self.n_positive,
            n_missing=np.zeros(self.n_query, np.int64),
            size=self.base_size,
            query=self.query,
            before=self.before,
            items=self.right + self.tied,
            right=self.right,
            right_before=self.right_before,
            index_rank=np.empty(0, np.int64),
            grade=self.grade,
            all_query=query,
            all_grade=self.grade,
            only_first=self.only_first,
        )


def read_pairs(
    ranking: Ranking,
    base: Strata = "positives",
    pool: Strata = "negatives",
    *,
    pool_positives: PoolPositives = "error",
    graded: bool = False,
    by_stratum: bool = False,
) -> Pairs:
    """Read ranks in a base gallery and counts in a pool from a complete ranking.

    Parameters
    ----------
    ranking : Ranking
        Of the whole gallery; with ``strata=`` where `base` or `pool` names strata.
    base : str or sequence of str
        "positives": each query's own positives and nothing else; or names of strata. A name
        also stands for the parts that wide ignores cut it into (``name/...``).
    pool : str or sequence of str
        "negatives": the negatives outside the base, each query's own; or names of strata.
        Judged negatives count where they lie.
    pool_positives : {"error", "keep", "ignore"}
        What positives of a query are that lie in the pool, where the base is of strata: an
        error; positives that stay in the gallery at every size; or nothing, like ignored
        items. Both ways they count in N and are never above.
    graded : bool
        Every item of a grade above 0 counts as a positive.
    by_stratum : bool
        Keep counts by stratum of the pool.

    Raises
    ------
    NotCountedError
        If what is asked for was not counted: strata, the whole gallery, all positives.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, rank
    >>> relevance = Relevance.from_pairs([0, 0], [1, 3], n_query=1, n_gallery=5)
    >>> scores = ScoreMatrix([[0.9, 0.8, 0.5, 0.3, 0.1]], higher_is_better=True)
    >>> pairs = read_pairs(rank(scores, relevance))
    >>> pairs.before + 1, pairs.above, pairs.pool_size
    (array([1, 2]), array([1, 2]), array([3]))
    """
    ranking.check_complete()
    _check_depth(ranking)
    base_mask, pool_mask, base_names, pool_names = read_strata(ranking, base, pool)
    role = ranking.effective_role
    judged = _Judged.of(ranking, role, base_mask, pool_mask, base_names is None, graded)
    if base_names is not None and pool_names is not None:
        judged = judged.with_pool_positives(ranking, role, pool_mask, pool_positives, graded)
    return _assemble(ranking, judged, base_mask, pool_mask, base_names, pool_names, by_stratum)


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """What each judged pair is in the study; pairs that are none of these are left out."""

    right: Mask
    base_negative: Mask
    pool_negative: Mask

    @classmethod
    def of(
        cls,
        ranking: Ranking,
        role: npt.NDArray[np.int8],
        base_mask: Mask,
        pool_mask: Mask,
        every_positive: bool,
        graded: bool,
    ) -> _Judged:
        right = relevant(ranking, role, graded)
        negative = (role != IGNORED) & ~right & (role != POSITIVE)
        in_base, in_pool = base_mask[ranking.stratum], pool_mask[ranking.stratum]
        return cls(right if every_positive else right & in_base, negative & in_base,
                   negative & in_pool)  # fmt: skip

    def with_pool_positives(
        self,
        ranking: Ranking,
        role: npt.NDArray[np.int8],
        pool_mask: Mask,
        wanted: PoolPositives,
        graded: bool,
    ) -> _Judged:
        if wanted not in ("error", "keep", "ignore"):
            raise NotCountedError(
                f"pool_positives = {wanted!r}: one of error, keep, ignore is needed"
            )
        inside = relevant(ranking, role, graded) & pool_mask[ranking.stratum]
        if not inside.any() or wanted == "ignore":
            return self
        if wanted == "error":
            first = int(np.flatnonzero(inside)[0])
            raise NotCountedError(
                f"{int(inside.sum())} positives lie in the pool, so it holds more than distractors "
                f"(the first: gallery row {ranking.item[first]} for query "
                f"{ranking.query_of_pair[first]}). Take these rows out, or say what they are: "
                "pool_positives='keep' (positives that are in the gallery at every size) or "
                "'ignore' (--pool-positives)"
            )
        return _Judged(self.right | inside, self.base_negative, self.pool_negative)


def relevant(ranking: Ranking, role: npt.NDArray[np.int8], graded: bool) -> Mask:
    """Mark the judged pairs that count as positives."""
    wanted = (ranking.grade > 0) & (role != IGNORED) if graded else role == POSITIVE
    return np.asarray(wanted)


def _check_depth(ranking: Ranking) -> None:
    """Refuse ranked lists that end before the gallery does."""
    limited = ranking.depth >= 0
    if not limited.any():
        return
    judged = np.diff(ranking.offsets)
    short = limited & (ranking.n_unjudged.sum(axis=1) + judged < ranking.n_gallery_ranked)
    if short.any() or not ranking.found.all():
        raise NotCountedError(
            f"the ranked lists of {int(max(short.sum(), 1))} queries end before the gallery does "
            f"(queries {name_some(np.flatnonzero(short))}): what stands below is not known, so no "
            "other gallery size can be computed; rank the whole gallery from features or a matrix"
        )


def read_strata(
    ranking: Ranking, base: Strata, pool: Strata
) -> tuple[Mask, Mask, tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return which strata make the base and the pool, and their names; None for own ones."""
    base_names = None if base == "positives" else _named(ranking, base, "base")
    pool_names = None if pool == "negatives" else _named(ranking, pool, "pool")
    every = np.array(ranking.strata)
    base_mask = np.zeros(len(every), bool) if base_names is None else np.isin(every, base_names)
    pool_mask = ~base_mask if pool_names is None else np.isin(every, pool_names)
    both = every[base_mask & pool_mask]
    if len(both):
        raise NotCountedError(
            f"the strata {name_some(both)} are in the base and in the pool: an item is in the "
            "gallery already, or it is drawn"
        )
    if not pool_mask.any():
        raise NotCountedError("the base holds every stratum, so nothing is left for the pool")
    return base_mask, pool_mask, base_names, pool_names


def _named(ranking: Ranking, given: Strata, what: str) -> tuple[str, ...]:
    """Return the strata that are meant: exact names, or all parts ``name/...`` of a name."""
    names = [given] if isinstance(given, str) else [str(name) for name in given]
    if not names:
        raise NotCountedError(f"{what} names no stratum")
    found: list[str] = []
    for name in names:
        parts = [s for s in ranking.strata if s == name] or [
            s for s in ranking.strata if s.startswith(f"{name}/")
        ]
        if not parts:
            word = "positives" if what == "base" else "negatives"
            there = f"; there are {name_some(ranking.strata)}" if len(ranking.strata) > 1 else (
                ": the gallery was not counted by strata, so rank with strata= (--strata COLUMN)"
            )
            raise NotCountedError(
                f"{what} = {name!r}: neither {word!r} nor a stratum of this ranking{there}"
            )
        found += parts
    return tuple(dict.fromkeys(found))


def _assemble(
    ranking: Ranking,
    judged: _Judged,
    base_mask: Mask,
    pool_mask: Mask,
    base_names: tuple[str, ...] | None,
    pool_names: tuple[str, ...] | None,
    by_stratum: bool,
) -> Pairs:
    n_query = ranking.n_query
    pair_query = ranking.query_of_pair
    ordered = np.empty(len(pair_query), np.int64)
    ordered[ranking.offsets[pair_query] + ranking.order] = np.arange(len(pair_query))
    taking_part = judged.right | judged.base_negative | judged.pool_negative
    rows = ordered[taking_part[ordered]]
    right, base_negative = judged.right[rows], judged.base_negative[rows]
    query, group = pair_query[rows], ranking.tie_group[rows]
    first = np.ones(len(rows), bool)
    first[1:] = (query[1:] != query[:-1]) | (group[1:] != group[:-1])
    start, number = np.flatnonzero(first), np.cumsum(first) - 1
    rights = np.bincount(number[right], minlength=len(start))
    only_first = ranking.keep == "first"
    held = _held(rows, start, number, right, only_first)
    kept = rights > 0
    right_before = earlier(rights, query[start])
    if only_first:
        kept &= right_before == 0
        _check_first(ranking, held[kept], query[start][kept])
    judged_base = np.bincount(number[base_negative], minlength=len(start))
    counts = _Counts(ranking, held[kept], query[start][kept])
    base_above, base_tied = counts.of(base_mask)
    above, pool_tied, above_in, tied_in = _pool_counts(
        ranking, counts, rows, query[start], number, judged.pool_negative[rows], pool_mask, kept
    )
    unjudged = ranking.n_unjudged * ranking.kept
    n_positive = np.bincount(query[right], minlength=n_query)
    own_base = np.bincount(query[base_negative], minlength=n_query)
    pool_kept = unjudged[:, pool_mask].sum(axis=1) + np.bincount(
        query[judged.pool_negative[rows]], minlength=n_query
    )
    pool_rows = None if pool_names is None else _rows_of(ranking, pool_mask)
    return Pairs(
        n_query=n_query,
        n_positive=n_positive,
        base_size=n_positive + own_base + unjudged[:, base_mask].sum(axis=1),
        pool_size=pool_kept if pool_rows is None else np.full(n_query, pool_rows),
        pool_kept=pool_kept,
        query=query[start][kept],
        before=(right_before + earlier(judged_base, query[start]))[kept] + base_above,
        right=rights[kept],
        right_before=right_before[kept],
        tied=judged_base[kept] + base_tied,
        above=above,
        pool_tied=pool_tied,
        grade=ranking.grade[rows[right & kept[number]]],
        above_in=above_in if by_stratum else None,
        pool_tied_in=tied_in if by_stratum else None,
        base=base_names or ("positives",),
        pool=pool_names or ("negatives",),
        base_rows=None if base_names is None else _rows_of(ranking, base_mask),
        pool_rows=pool_rows,
        own_pool=pool_names is None,
        only_first=only_first,
    )


class _Counts:
    """Unjudged items above and tied with some pairs, in the strata that their queries keep."""

    def __init__(self, ranking: Ranking, pairs: Ints, query: Ints) -> None:
        self._counts = (ranking.above, ranking.tied)
        self._pairs = pairs
        self._kept = None if ranking.kept.all() else ranking.kept[query]

    def by(self, mask: Mask) -> tuple[Ints, Ints]:
        """Return both by stratum, (n_pairs, n_strata in the mask)."""
        chosen = np.flatnonzero(mask)
        found = [counts[np.ix_(self._pairs, chosen)].astype(np.int64) for counts in self._counts]
        if self._kept is not None:
            found = [counts * self._kept[:, chosen] for counts in found]
        return found[0], found[1]

    def of(self, mask: Mask) -> tuple[Ints, Ints]:
        """Return both in all strata of the mask together."""
        above, tied = self.by(mask)
        return above.sum(axis=1), tied.sum(axis=1)


def _pool_counts(
    ranking: Ranking,
    counts: _Counts,
    rows: Ints,
    group_query: Ints,
    number: Ints,
    judged: Mask,
    pool_mask: Mask,
    kept: Mask,
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return pool items above and tied with the groups, in all and by stratum."""
    above, tied = counts.by(pool_mask)
    place = np.cumsum(pool_mask) - 1
    column = place[ranking.stratum[rows[judged]]]
    for stratum in np.unique(column):
        here = np.bincount(number[judged][column == stratum], minlength=len(group_query))
        tied[:, stratum] += here[kept]
        above[:, stratum] += earlier(here, group_query)[kept]
    return above.sum(axis=1), tied.sum(axis=1), above, tied


def earlier(of_group: Ints, query: Ints) -> Ints:
    """Add up a number over the earlier groups of the same query."""
    running = np.concatenate([[0], np.cumsum(of_group)])[:-1]
    return np.asarray(running - running[np.searchsorted(query, query)])


def _held(rows: Ints, start: Ints, number: Ints, right: Mask, only_first: bool) -> Ints:
    """Return a pair of each group that holds its counts: any, or its first positive."""
    if not only_first:
        return np.asarray(rows[start])
    held = rows[start].copy()
    positives = np.flatnonzero(right)[::-1]
    held[number[positives]] = rows[positives]
    return np.asarray(held)


def _check_first(ranking: Ranking, held: Ints, query: Ints) -> None:
    """Refuse a base whose first positive is not the one that was counted."""
    place = ranking.offsets[query] + ranking.order[held]
    ordered = np.empty(len(ranking.item), np.int64)
    ordered[ranking.offsets[ranking.query_of_pair] + ranking.order] = np.arange(len(ranking.item))
    best = np.full(ranking.n_query, np.iinfo(np.int64).max)
    positive = np.flatnonzero((ranking.effective_role == POSITIVE)[ordered])
    np.minimum.at(best, ranking.query_of_pair[ordered[positive]], positive)
    if (best[query] != place).any():
        raise NotCountedError(
            "only the best positive of each query was counted (keep='first'), and it lies outside "
            "the base for some: rank with keep='all'"
        )


def _rows_of(ranking: Ranking, mask: Mask) -> int:
    return int((mask[ranking.row_stratum] & ~ranking.ignored_gallery).sum())
