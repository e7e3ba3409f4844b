"""Hard pools: distractors of the query's own kind, the hardest first, and which kinds hurt most.

Distractors drawn at random flatter. A camera sees its own background, a city its own facades;
and an adversary would add the hardest items first.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import (
    AlignmentError,
    EvaluationWarning,
    NotCountedError,
    counted,
    name_some,
)
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.metrics.expected import Expected
from reid_vpr_eval.metrics.grammar import MetricName, parse
from reid_vpr_eval.metrics.policy import decreed, policy_of
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.ranking.strata import PART
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE, NoPositive
from reid_vpr_eval.studies.distractors.curve import (
    CURVE_COLUMNS,
    check_metric,
    checked_sizes,
    curve_points,
    gallery_size,
    log_sizes,
)
from reid_vpr_eval.studies.distractors.pairs import Pairs, PoolPositives, read_pairs
from reid_vpr_eval.studies.distractors.strata import Strata, read_strata

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HURT_COLUMNS", "envelope", "hurt_by_stratum", "within_own_strata"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Order: TypeAlias = Literal["hardest", "easiest"]

HURT_COLUMNS = ("stratum", "rows", "metric", "first", "each", "last")


def within_own_strata(ranking: Ranking, values: Sequence[object]) -> Ranking:
    """Return a ranking in which each query's negatives are those of its own stratum.

    For ``distractor_curve`` with its base "positives" and pool "negatives": the same curve on
    distractors of the query's own camera, city or scene. Positives stay wherever they lie.

    Parameters
    ----------
    ranking : Ranking
        Counted with ``strata=`` the gallery column.
    values : sequence (n_query,)
        The value of each query. A stratum is named by its value; parts ``value/...`` belong
        to it too. A query whose value no stratum has keeps its positives alone.

    Raises
    ------
    AlignmentError
        If there is not one value for each query.
    NotCountedError
        If no query's value is a stratum.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, distractor_curve, rank
    >>> relevance = Relevance.from_pairs([0], [3], n_query=1, n_gallery=4)
    >>> scores = ScoreMatrix([[0.9, 0.8, 0.3, 0.5]], higher_is_better=True)
    >>> ranking = rank(scores, relevance, strata=[1, 2, 2, 1])
    >>> distractor_curve(within_own_strata(ranking, [2]), [1, 2], ["CMC@1"])["value"].tolist()
    [0.5, 0.0]
    """
    own = [str(value) for value in np.asarray(values).tolist()]
    if len(own) != ranking.n_query:
        raise AlignmentError(
            f"{counted(len(own), 'value')} for {counted(ranking.n_query, 'query')}: the own "
            "stratum of each is needed"
        )
    columns = {value: np.array([name == value or name.startswith(f"{value}/")
                                for name in ranking.strata]) for value in set(own)}  # fmt: skip
    absent = sorted(value for value, inside in columns.items() if not inside.any())
    lost = sum(value in set(absent) for value in own)
    if lost == len(own):
        raise NotCountedError(
            f"no query's value ({name_some(absent)}) is a stratum of this ranking; it has "
            f"{name_some(ranking.strata)}: rank with strata= the gallery column (--strata COLUMN)"
        )
    if lost:
        warnings.warn(
            f"{counted(lost, 'query has', 'queries have')} values that no gallery row has "
            f"({name_some(absent)}): they have no distractors of their own, and keep their "
            "positives alone",
            EvaluationWarning, stacklevel=2,
        )  # fmt: skip
    mask = np.stack([columns[value] for value in own])
    of_pair = mask[ranking.query_of_pair]
    outside = ~of_pair[np.arange(len(of_pair)), ranking.stratum] & (ranking.role != POSITIVE)
    return replace(
        ranking, above=ranking.above * of_pair, tied=ranking.tied * of_pair,
        tied_before=ranking.tied_before * of_pair, n_unjudged=ranking.n_unjudged * mask,
        role=np.where(outside, IGNORED, ranking.role).astype(np.int8), row_block=None,
    )  # fmt: skip


def envelope(
    ranking: Ranking,
    sizes: Sequence[int] | None = None,
    metrics: Sequence[str | MetricName] | str = ("mAP", "CMC@1"),
    *,
    order: Order = "hardest",
    base: Strata = "positives",
    pool: Strata = "negatives",
    no_positive: NoPositive | None = None,
    pool_positives: PoolPositives = "error",
) -> pd.DataFrame:
    """Return the metrics with each query's hardest distractors first, or its easiest.

    The n hardest of a query are its n best scored pool items, so that its j-th positive has
    the rank p_j + min(a_j + t_j, n), where a_j pool items stand above it and t_j tie with it,
    and come first. No draw of n items does worse, whatever a metric's cut-off. With the
    easiest first, n - (N - a_j) of those above are in, if any: no draw does better.

    Parameters are those of :func:`distractor_curve`.

    Returns
    -------
    pandas.DataFrame
        The columns of :func:`distractor_curve`; kind is "hardest" or "easiest".

    Raises
    ------
    NotCountedError
        As :func:`distractor_curve`.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, rank
    >>> relevance = Relevance.from_pairs([0], [2], n_query=1, n_gallery=5)
    >>> scores = ScoreMatrix([[0.9, 0.8, 0.5, 0.3, 0.1]], higher_is_better=True)
    >>> envelope(rank(scores, relevance), [0, 1, 2, 4], ["MeanR"])["value"].tolist()
    [1.0, 2.0, 3.0, 3.0]
    """
    import pandas as pd

    if order not in ("hardest", "easiest"):
        raise NotCountedError(f"order = {order!r}: one of hardest, easiest is needed")
    names = [parse(name) for name in ([metrics] if isinstance(metrics, str) else metrics)]
    for name in names:
        check_metric(name)
        if "%" in name.k:
            raise NotCountedError(f"{name}: give the cut-off as a number")

    def read(graded: bool = False) -> Pairs:
        return read_pairs(ranking, base, pool, pool_positives=pool_positives, graded=graded)

    pairs = read()
    graded = read(True) if any(name.name == "NDCG" for name in names) else pairs
    chosen = log_sizes(pairs.largest_size) if sizes is None else checked_sizes(sizes, pairs)
    rows: list[tuple[Any, ...]] = []
    for size in chosen:
        reading, other = (_in_order(one, size, order) for one in (pairs, graded))
        policy = policy_of(ranking, reading, no_positive or ranking.no_positive, "zero")
        gallery = gallery_size(pairs, size, policy.evaluated)
        rows += [(size, gallery, name, value, None, None, None, order, None)
                 for name, value in _means(names, reading, other, policy)]  # fmt: skip
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def _in_order(pairs: Pairs, size: int, order: Order) -> Reading:
    """Return the reading of the base and so many of the hardest, or easiest, pool items."""
    base, drawn = pairs.base_reading(), pairs.drawn(size)[pairs.query]
    if order == "hardest":
        more = np.minimum(pairs.above + pairs.pool_tied, drawn)
    else:  # items that the query ignores are in N, and are never above
        more = np.maximum(pairs.above - (pairs.pool_size[pairs.query] - drawn), 0)
    kept = np.minimum(pairs.drawn(size), pairs.pool_kept)
    return replace(base, before=base.before + more, size=base.size + kept)


def _means(
    names: Sequence[MetricName], reading: Reading, graded: Reading, policy: Any
) -> Iterator[tuple[str, float]]:
    view = Expected(reading, lambda: graded)
    for name in names:
        values = decreed(name, name.apply(view, 0), policy)
        yield str(name), exact_mean(values[policy.evaluated])


def hurt_by_stratum(
    ranking: Ranking,
    metrics: Sequence[str | MetricName] | str = ("mAP", "CMC@1"),
    *,
    base: Strata = "positives",
    pool: Strata = "negatives",
    no_positive: NoPositive | None = None,
    pool_positives: PoolPositives = "error",
) -> pd.DataFrame:
    """Return how much an added item of each stratum costs, the worst stratum first.

    Parameters are those of :func:`distractor_curve`.

    Returns
    -------
    pandas.DataFrame
        One row for each metric and stratum of the pool (random parts of one are taken together):
        `rows` in it, and the mean loss by one item: `first`, if one item of it, drawn at random,
        is added to the base; `each`, if all of it is added to the base, divided by its rows;
        `last`, if all of it is added to all other strata, divided by its rows. For ranks, where
        smaller is better, the loss is what is added to them.

    Raises
    ------
    NotCountedError
        If the pool is not of several strata.
    """
    import pandas as pd

    names = [parse(name) for name in ([metrics] if isinstance(metrics, str) else metrics)]
    mask = read_strata(ranking, base, pool).pool
    parts = [PART.sub("", name, count=1) for name, inside in
             zip(ranking.strata, mask, strict=True) if inside]  # fmt: skip
    strata = list(dict.fromkeys(parts))
    if len(strata) < 2:
        raise NotCountedError(
            "the pool lies in one stratum, so there is nothing to tell apart: rank with strata= a "
            "gallery column (--strata COLUMN)"
        )
    which: dict[str, Any] = {"base": base, "no_positive": no_positive,
                             "pool_positives": pool_positives}  # fmt: skip
    counted = np.array(ranking.strata)[mask].tolist()
    everything = _everything(ranking, names, counted, which)
    rows: list[tuple[Any, ...]] = []
    for stratum in strata:
        own = [name for name, part in zip(counted, parts, strict=True) if part == stratum]
        inside = np.isin(ranking.strata, own)[ranking.row_stratum] & ~ranking.ignored_gallery
        n = int(inside.sum())
        if not n:
            continue
        points = list(curve_points(ranking, sorted({0, 1, n}), names, pool=own, **which))
        others = [name for name in counted if name not in own]
        without = _everything(ranking, names, others, which)
        for name in names:
            key, sign = str(name), 1 if name.metric.direction == "up" else -1
            none, one, whole = (point.values[key] for point in (points[0], points[1], points[-1]))
            rows.append((stratum, n, key, sign * (none - one), sign * (none - whole) / n,
                         sign * (without[key] - everything[key]) / n))  # fmt: skip
    table = pd.DataFrame(rows, columns=list(HURT_COLUMNS))
    place = {str(name): number for number, name in enumerate(names)}
    return table.sort_values(
        ["metric", "first"], ascending=[True, False], kind="stable", ignore_index=True,
        key=lambda column: column.map(place) if column.name == "metric" else column,
    )  # fmt: skip


def _everything(
    ranking: Ranking, names: Sequence[MetricName], pool: Sequence[str], which: dict[str, Any]
) -> dict[str, float]:
    """Return the metrics with all of some strata added to the base."""
    largest = read_pairs(ranking, which["base"], pool,
                         pool_positives=which["pool_positives"]).largest_size  # fmt: skip
    point = next(iter(curve_points(ranking, [largest], names, pool=pool, **which)))
    return point.values
