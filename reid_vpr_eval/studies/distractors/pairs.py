"""What a distractor study reads from a ranking: ranks in the base gallery, counts in the pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, counted, name_some
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE
from reid_vpr_eval.studies.distractors.strata import Chosen, Strata, read_strata, rows_in
from reid_vpr_eval.studies.distractors.tie_groups import TieGroups

__all__ = ["Pairs", "PoolPositives", "read_pairs", "relevant"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
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
    chosen = read_strata(ranking, base, pool)
    role = ranking.effective_role
    judged = _Judged.of(ranking, role, chosen, graded)
    if chosen.base_names is not None and chosen.pool_names is not None:
        judged = judged.with_pool_positives(ranking, role, chosen.pool, pool_positives, graded)
    return _assemble(ranking, judged, chosen, by_stratum=by_stratum)


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """What each judged pair is in the study; pairs that are none of these are left out."""

    right: Mask
    base_negative: Mask
    pool_negative: Mask

    @classmethod
    def of(
        cls, ranking: Ranking, role: npt.NDArray[np.int8], chosen: Chosen, graded: bool
    ) -> _Judged:
        right = relevant(ranking, role, graded)
        negative = (role != IGNORED) & ~right & (role != POSITIVE)
        in_base, in_pool = chosen.base[ranking.stratum], chosen.pool[ranking.stratum]
        return cls(right if chosen.base_names is None else right & in_base, negative & in_base,
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
                f"{counted(int(inside.sum()), 'positive lies', 'positives lie')} in the pool, so "
                f"it holds more than distractors (the first: gallery row {ranking.item[first]} for "
                f"query {ranking.query_of_pair[first]}). Take these rows out, or say what they "
                "are: pool_positives='keep' (positives that are in the gallery at every size) or "
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
            f"the ranked lists of {counted(int(max(short.sum(), 1)), 'query')} end before the "
            f"gallery does (queries {name_some(np.flatnonzero(short))}): what stands below is not "
            "known, so no other gallery size can be computed; rank the whole gallery from features "
            "or a matrix"
        )


def _assemble(
    ranking: Ranking, judged: _Judged, chosen: Chosen, *, by_stratum: bool
) -> Pairs:
    groups = TieGroups.of(ranking, judged.right, judged.base_negative | judged.pool_negative)
    counts = _Counts(ranking, groups)
    base_above, base_tied = counts.of(chosen.base)
    base_before, base_with = groups.count(judged.base_negative)
    above_in, tied_in = counts.of_pool(chosen.pool, judged.pool_negative)
    n_positive, base_size, pool_kept = _sizes(ranking, judged, chosen)
    shared = chosen.pool_names is not None
    pool_rows = rows_in(ranking, chosen.pool) if shared else None
    return Pairs(
        n_query=ranking.n_query,
        n_positive=n_positive,
        base_size=base_size,
        pool_size=pool_kept if pool_rows is None else np.full(ranking.n_query, pool_rows),
        pool_kept=pool_kept,
        query=groups.query,
        before=groups.right_before + base_before + base_above,
        right=groups.n_right,
        right_before=groups.right_before,
        tied=base_with + base_tied,
        above=above_in.sum(axis=1),
        pool_tied=tied_in.sum(axis=1),
        grade=ranking.grade[groups.right_rows],
        above_in=above_in if by_stratum else None,
        pool_tied_in=tied_in if by_stratum else None,
        base=chosen.base_names or ("positives",),
        pool=chosen.pool_names or ("negatives",),
        base_rows=None if chosen.base_names is None else rows_in(ranking, chosen.base),
        pool_rows=pool_rows,
        own_pool=not shared,
        only_first=ranking.keep == "first",
    )


def _sizes(ranking: Ranking, judged: _Judged, chosen: Chosen) -> tuple[Ints, Ints, Ints]:
    """Return each query's positives, what it ranks in the base, and in the pool."""
    unjudged = ranking.n_unjudged * ranking.kept
    n_positive, in_base, in_pool = (
        np.bincount(ranking.query_of_pair[mask], minlength=ranking.n_query)
        for mask in (judged.right, judged.base_negative, judged.pool_negative)
    )
    base_size = n_positive + in_base + unjudged[:, chosen.base].sum(axis=1)
    return n_positive, base_size, unjudged[:, chosen.pool].sum(axis=1) + in_pool


class _Counts:
    """Items above and tied with groups, in the strata that their queries keep."""

    def __init__(self, ranking: Ranking, groups: TieGroups) -> None:
        self._ranking, self._groups = ranking, groups
        self._kept = None if ranking.kept.all() else ranking.kept[groups.query]

    def of(self, mask: Mask) -> tuple[Ints, Ints]:
        """Return unjudged items of all strata of the mask together."""
        above, tied = self._by(mask)
        return above.sum(axis=1), tied.sum(axis=1)

    def of_pool(self, mask: Mask, judged: Mask) -> tuple[Ints, Ints]:
        """Return items of the pool, judged ones too, (n_groups, n_strata in the mask)."""
        above, tied = self._by(mask)
        place = np.cumsum(mask) - 1
        stratum = self._ranking.stratum
        for one in np.unique(stratum[judged]).tolist():
            before, here = self._groups.count(judged & (stratum == one))
            above[:, place[one]] += before
            tied[:, place[one]] += here
        return above, tied

    def _by(self, mask: Mask) -> tuple[Ints, Ints]:
        """Return unjudged items by stratum, (n_groups, n_strata in the mask)."""
        chosen = np.flatnonzero(mask)
        found = [counts[np.ix_(self._groups.held, chosen)].astype(np.int64)
                 for counts in (self._ranking.above, self._ranking.tied)]  # fmt: skip
        if self._kept is not None:
            found = [counts * self._kept[:, chosen] for counts in found]
        return found[0], found[1]
