"""The distractor curve: every metric at every gallery size, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, counted, name_some
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.metrics.grammar import MetricName, parse
from reid_vpr_eval.metrics.policy import decreed, policy_of
from reid_vpr_eval.ranking import Ranking, check_ranking
from reid_vpr_eval.relevance.pairs import NoPositive
from reid_vpr_eval.studies.distractors.bands import QueryBands
from reid_vpr_eval.studies.distractors.block_expectation import BlockExpectations
from reid_vpr_eval.studies.distractors.blocks import read_blocks
from reid_vpr_eval.studies.distractors.drawn import Drawn, EngineOf, recorded
from reid_vpr_eval.studies.distractors.expectation import Expectations
from reid_vpr_eval.studies.distractors.forecast import forecast_points
from reid_vpr_eval.studies.distractors.pairs import Pairs, PoolPositives, read_pairs
from reid_vpr_eval.studies.distractors.spread import has_parts, spread_of
from reid_vpr_eval.studies.distractors.strata import Strata

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CURVE_COLUMNS", "CurvePoint", "check_metric", "checked_sizes", "check_sizes", "curve_points",
    "distractor_curve", "log_sizes",
]  # fmt: skip

Floats: TypeAlias = npt.NDArray[np.float64]
Unit: TypeAlias = Literal["items", "blocks"]

CURVE_COLUMNS = ("size", "gallery", "metric", "value", "sd", "low", "high", "kind", "sd_kind")


def distractor_curve(
    ranking: Ranking,
    sizes: Sequence[int] | None = None,
    metrics: Sequence[str | MetricName] | str = ("mAP", "CMC@1"),
    *,
    base: Strata = "positives",
    pool: Strata = "negatives",
    forecast: bool = False,
    no_positive: NoPositive | None = None,
    pool_positives: PoolPositives = "error",
    unit: Unit = "items",
    spread: bool | None = None,
    orders: int = 100,
    units: npt.ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the exact mean of metrics over all draws of distractors, at any gallery sizes.

    The base gallery is fixed; `size` items of the pool are drawn without replacement. The
    mean over all draws is computed from where each positive stands in the base and how many
    pool items stand above it or tie with it: nothing is sampled, nothing is scored again.

    Parameters
    ----------
    ranking : Ranking
        Of base and pool together, complete; with ``strata=`` where these are strata.
    sizes : sequence of int, optional
        Distractors drawn, from 0 to the size of the pool; by default about 50 sizes at equal
        steps of the logarithm.
    metrics : sequence of str
        Means over queries in the grammar ``NAME[@k][(option=value)]``. A cut-off in percent
        follows the gallery at each size, where base and pool are strata.
    base : str or sequence of str
        "positives": each query's own positives and nothing else; or names of strata.
    pool : str or sequence of str
        "negatives": the negatives outside the base, each query's own, so that a query draws
        n = min(size, N) of its N; or names of strata, drawn from for all queries at once.
        Judged negatives count where they lie; a row that a query ignores counts in N and is
        never above.
    forecast : bool
        Go beyond the pool by a model, with rows of the kind "forecast".
    no_positive : {"skip", "zero", "one", "error"}, optional
        What a query without a positive in the base scores; by default what its relevance says.
    pool_positives : {"error", "keep", "ignore"}
        What positives are that lie in the pool, see :func:`read_pairs`.
    unit : {"items", "blocks"}
        What is drawn: items, or whole blocks (ranked with ``blocks=``). Sizes are numbers of
        blocks then, `gallery` too, and the blocks that hold a positive are the base "positives"
        with all their items, see :func:`read_blocks`.
    spread : bool, optional
        Whether `sd` is filled: the standard deviation of the mean over draws that all queries
        share. It needs a pool counted in random strata (``strata="random:100"``); None: if it
        was.
    orders : int
        In how many random orders the strata are drawn for it.
    units : array (n_query,), optional
        What queries belong together (their labels, say): then `low` and `high` are the limits
        of intervals over units, by the methods of a plain run.
    level, resamples : float, int
        Of these intervals.
    seed : int
        Of these orders, of intervals, and of the forecast.

    Returns
    -------
    pandas.DataFrame
        Columns size, gallery (base + size; for bases of each query's own the mean over
        queries, rounded), metric, value, sd (over draws), low, high (over queries), kind
        ("exact" or "forecast"), sd_kind ("counted": of draws recombined of counts, or
        "interpolated" between sizes of whole strata, see :func:`spread_of`).

    Raises
    ------
    NotCountedError
        If the ranking lacks what is asked for, a metric has no form from each positive's
        rank, or a size lies beyond the pool.

    Notes
    -----
    For rank 1 the form is Hurlbert's rarefaction (1971), in use for closed-set identification
    at smaller galleries (R package ClassEx, CleaneX). Values are within 1e-12 of the exact
    ones: what is left out of a hypergeometric law holds less than 1e-17.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, rank
    >>> relevance = Relevance.from_pairs([0], [1], n_query=1, n_gallery=4)
    >>> scores = ScoreMatrix([[0.9, 0.8, 0.5, 0.3]], higher_is_better=True)
    >>> curve = distractor_curve(rank(scores, relevance), [0, 1, 3], ["mAP"])
    >>> curve[["size", "gallery", "value"]].values.tolist()  # one of three is above
    [[0.0, 1.0, 1.0], [1.0, 2.0, 0.8333333333333333], [3.0, 4.0, 0.5]]
    """
    import pandas as pd

    check_ranking(ranking)
    names = [parse(name) for name in ([metrics] if isinstance(metrics, str) else metrics)]
    which: dict[str, Any] = {"base": base, "pool": pool, "no_positive": no_positive,
                             "pool_positives": pool_positives}  # fmt: skip
    beyond: list[int] = []
    if (forecast or spread) and unit != "items":
        word = "forecast" if forecast else "spread over draws (it is counted by strata of items)"
        raise NotCountedError(f"blocks have no {word}: leave it or unit='blocks' out")
    if forecast and sizes is not None:
        largest = read_pairs(ranking, base, pool, pool_positives=pool_positives).largest_size
        beyond = [size for size in sizes if size > largest]
        sizes = [size for size in sizes if size <= largest]
    bands = None if units is None else QueryBands(
        units, ranking.n_query, level=level, resamples=resamples, seed=seed
    )
    rows: list[tuple[Any, ...]] = []
    for point in curve_points(ranking, sizes, names, unit=unit, **which):
        for name, value in point.values.items():
            rows.append((point.size, point.gallery, name, value, None, None, None, "exact", None))
            if bands is not None:
                bands.add(parse(name), point.per_query[name], point.gallery)
    if bands is not None:
        rows = [(*row[:5], *limits, *row[7:])
                for row, limits in zip(rows, bands.intervals(), strict=True)]  # fmt: skip
    if spread or (spread is None and unit == "items" and has_parts(ranking, pool)):
        rows = _with_spread(rows, ranking, orders, seed, which)
    for ahead in forecast_points(ranking, beyond, names, seed=seed, **which) if beyond else []:
        rows += [(ahead.size, ahead.gallery, name, value, None, *ahead.intervals[name],
                  "forecast", None) for name, value in ahead.values.items()]  # fmt: skip
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def _with_spread(
    rows: Sequence[tuple[Any, ...]], ranking: Ranking, orders: int, seed: int, which: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Fill the columns sd and sd_kind of rows of exact values."""
    sizes, names = (list(dict.fromkeys(row[place] for row in rows)) for place in (0, 2))

    def values_at(wanted: Sequence[int]) -> dict[str, Floats]:
        points = {point.size: point.per_query
                  for point in curve_points(ranking, sorted({*wanted}), names, **which)}
        return {name: np.stack([points[size][name] for size in wanted]) for name in names}

    found = spread_of(ranking, sizes, names, values_at, orders=orders, seed=seed, **which)
    filled = []
    for row in rows:
        place = sizes.index(row[0])
        kind = "counted" if found.counted[place] else "interpolated"
        filled.append((*row[:4], float(found.sd[row[2]][place]), *row[5:8], kind))
    return filled


@dataclass(frozen=True, slots=True, eq=False)
class CurvePoint:
    """All metrics at one size.

    Attributes
    ----------
    size, gallery : int
        Distractors drawn, and items in the gallery with them.
    values : dict of str to float
        The means.
    per_query : dict of str to float64 array (n_query,)
        NaN for queries that are not in the mean.
    evaluated : bool array (n_query,)
    """

    size: int
    gallery: int
    values: dict[str, float]
    per_query: dict[str, Floats]
    evaluated: npt.NDArray[np.bool_]


def curve_points(
    ranking: Ranking,
    sizes: Sequence[int] | None,
    metrics: Sequence[str | MetricName],
    *,
    base: Strata = "positives",
    pool: Strata = "negatives",
    no_positive: NoPositive | None = None,
    pool_positives: PoolPositives = "error",
    unit: Unit = "items",
) -> Iterator[CurvePoint]:
    """Yield the points of a distractor curve with the values of each query.

    Parameters and errors are those of :func:`distractor_curve`.
    """
    names = [parse(name) for name in metrics]
    for name in names:
        check_metric(name)

    if unit not in ("items", "blocks"):
        raise NotCountedError(f"unit = {unit!r}: one of items, blocks is needed")
    reader: Callable[..., Pairs] = read_blocks if unit == "blocks" else read_pairs

    def read(graded: bool = False) -> Pairs:
        return reader(ranking, base, pool, pool_positives=pool_positives, graded=graded)

    def drawn(names: Sequence[MetricName], sizes: Sequence[int]) -> Drawn:
        engine: EngineOf = Expectations
        if unit == "blocks":
            engine = partial(BlockExpectations, sizes=sizes)
        return recorded(Drawn(pairs, lambda: read(graded=True), engine), names)

    pairs = read()
    if pairs.largest_size == 0:
        raise NotCountedError(
            f"the pool ({name_some(pairs.pool)}) is empty: there is no distractor to draw"
        )
    chosen = log_sizes(pairs.largest_size) if sizes is None else checked_sizes(sizes, pairs)
    view = drawn([name for name in names if "%" not in name.k], chosen)
    for size in chosen:
        ranked: Any = pairs.mean_ranked(size)  # need not be whole
        reading = replace(pairs.base_reading(), size=ranked)
        policy = policy_of(ranking, reading, no_positive or ranking.no_positive, "zero")
        gallery = gallery_size(pairs, size, policy.evaluated)
        view.answer(size)
        per_query = {}
        for name in names:
            if "%" in name.k:
                concrete = _at_gallery(name, pairs, gallery)
                alone = drawn([concrete], [size])
                alone.answer(size)
                found = concrete.apply(alone, 0)
            else:
                found = name.apply(view, 0)
            check_sizes(name, pairs, size, policy.evaluated)
            per_query[str(name)] = decreed(name, _at_most_one(name, found), policy)
        values = {name: exact_mean(found[policy.evaluated]) for name, found in per_query.items()}
        yield CurvePoint(size, gallery, values, per_query, policy.evaluated)


def log_sizes(largest: int, steps: int = 48) -> list[int]:
    """Return 0, `largest`, and whole numbers at about equal steps of the logarithm between.

    >>> log_sizes(1000, 4)
    [0, 1, 10, 100, 1000]
    """
    if largest < 1:
        return [0]
    between = np.geomspace(1, largest, steps).round().astype(int)
    return [0, *sorted({*between.tolist(), largest})]


def _at_most_one(name: MetricName, found: Floats) -> Floats:
    """Take rounding off a share of 1."""
    if name.metric.is_rank or name.name == "rsum":
        return found
    return np.where((found > 1) & (found < 1 + 1e-12), 1.0, found)


def check_metric(name: MetricName) -> None:
    """Refuse metrics that are no means over queries, with the reason."""
    if name.metric.aggregate == "pooled":
        raise NotCountedError(
            f"{name} pools the scores of all queries, and is no mean over queries: the ranks of "
            "positives do not give it at other gallery sizes"
        )
    if name.metric.aggregate == "median":
        raise NotCountedError(
            f"{name} is a median, and the mean over draws of a median is not a sum over queries: "
            "take MeanR, or read off the curve of CMC@k where it passes one half"
        )
    if dict(name.options).get("by"):
        raise NotCountedError(
            f"{name} ranks groups of items, which are counted for the gallery as a whole and not "
            "by strata: leave by= out, or rank each gallery with group="
        )


def checked_sizes(sizes: Sequence[int], pairs: Pairs) -> list[int]:
    """Return sizes as whole numbers within the pool, or refuse them."""
    chosen = [int(size) for size in sizes]
    if any(size != given or size < 0 for size, given in zip(chosen, sizes, strict=True)):
        raise NotCountedError(f"sizes are whole numbers from 0: {list(sizes)}")
    beyond = [size for size in chosen if size > pairs.largest_size]
    if beyond:
        raise NotCountedError(
            f"{counted(beyond[0], 'distractor')} cannot be drawn from a pool of "
            f"{pairs.largest_size}: what lies beyond the pool is a forecast by a model "
            "(forecast=True, --forecast)"
        )
    return chosen


def gallery_size(pairs: Pairs, size: int, evaluated: npt.NDArray[np.bool_]) -> int:
    """Return base + size; for what differs by query, the mean over queries, rounded."""
    drawn = float(pairs.drawn(size)[evaluated].mean()) if pairs.own_pool else size
    base = pairs.base_rows
    mean = float(pairs.base_units[evaluated].mean()) if base is None else base
    return round(mean + drawn)


def _at_gallery(name: MetricName, pairs: Pairs, gallery: int) -> MetricName:
    if pairs.base_rows is None or pairs.own_pool:
        raise NotCountedError(
            f"{name}: a percentage of the gallery needs a gallery of one size for all queries, "
            "and with base='positives' or pool='negatives' each query has one of its own: give "
            "the cut-off as a number, or name strata"
        )
    return MetricName(name.name, str(name.cut(gallery)), name.options)


def check_sizes(
    name: MetricName, pairs: Pairs, size: int, evaluated: npt.NDArray[np.bool_]
) -> None:
    """Refuse a division by the number of ranked items where that depends on the draw."""
    if dict(name.options).get("divisor") not in ("min", "retrieved") or name.name != "P":
        return
    least = pairs.least_ranked(size)
    varies = evaluated & (pairs.mean_ranked(size) > least)
    if (varies & (least < int(name.cut(1 << 62) or 0))).any():
        raise NotCountedError(
            f"{name} at {counted(size, 'distractor')}: how many items a query ranks depends on "
            "which are drawn, and fewer than k may be left: take divisor=k, or larger sizes"
        )
