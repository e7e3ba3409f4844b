"""From a ranking to numbers: per-query values, policies, and their exact means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, name_some
from reid_vpr_eval.metrics.expected import Expected
from reid_vpr_eval.metrics.grammar import MetricName, parse
from reid_vpr_eval.metrics.ordered import Ordered
from reid_vpr_eval.metrics.policy import Missing, Policy, decreed, policy_of
from reid_vpr_eval.metrics.pool import Pool
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.metrics.views import Floats, Ints, View
from reid_vpr_eval.ranking import Ranking, check_ranking
from reid_vpr_eval.ranking.judged import in_blocks
from reid_vpr_eval.ranking.passes import part_of
from reid_vpr_eval.ranking.schedule import n_cores
from reid_vpr_eval.relevance.pairs import NoPositive

__all__ = [
    "TIES", "MetricValues", "Values", "chance", "chance_values", "compute", "exact_mean", "rsum",
    "view_of",
]  # fmt: skip

#: How equal scores may be read.
TIES = ("expected", "optimistic", "pessimistic", "index")


class MetricValues(Mapping[str, float]):
    """Numbers by metric name; every accepted spelling of a name is a key.

    >>> values = MetricValues({"CMC@1": 0.5})
    >>> values["R@1"], values["Rank-1"], list(values)
    (0.5, 0.5, ['CMC@1'])
    """

    def __init__(self, values: Mapping[str, float]) -> None:
        self._values = {str(parse(name)): value for name, value in values.items()}

    def __getitem__(self, name: str) -> float:
        canonical = str(parse(name))
        if canonical not in self._values:
            raise KeyError(f"{name} was not computed; there are {', '.join(self._values)}")
        return self._values[canonical]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"MetricValues({self._values})"


class Values(MetricValues):
    """Numbers by metric name, with the value of each query.

    Attributes
    ----------
    evaluated : bool array (n_query,)
        The queries that are in the means.
    """

    def __init__(
        self,
        values: Mapping[str, float],
        per_query: Mapping[str, Floats],
        evaluated: npt.NDArray[np.bool_],
    ) -> None:
        super().__init__(values)
        self._per_query = dict(per_query)
        self.evaluated = evaluated

    def per_query(self, name: str) -> Floats:
        """Return the value of each query, float64 (n_query,); NaN where it is not in the mean."""
        canonical = str(parse(name))
        if canonical not in self._per_query and canonical in self:
            raise NotCountedError(f"{canonical} is over all queries together: no value of each")
        return self._per_query[canonical]


def compute(
    ranking: Ranking,
    metrics: Sequence[str | MetricName] | str,
    *,
    ties: str = "expected",
    no_positive: NoPositive | None = None,
    unretrieved: Literal["error", "zero"] = "error",
    missing_query: Missing = "error",
) -> Values:
    """Compute metrics from a ranking.

    Parameters
    ----------
    ranking : Ranking
        Complete, that is with all gallery slices merged.
    metrics : sequence of str
        Names in the grammar ``NAME[@k][(option=value)]``.
    ties : {"expected", "optimistic", "pessimistic", "index"}
        How equal scores are read: the exact mean over all orders, positives first or
        last, or the tie order of the ranking.
    no_positive : {"skip", "zero", "one", "error"}, optional
        What a query without a positive scores; by default what its relevance says. For
        ranks "zero" is one past the end and "one" is 1.
    unretrieved : {"error", "zero"}
        For ranked lists: whether positives that were not returned may count as never
        found where a metric depends on them.
    missing_query : {"error", "zero", "skip"}
        For ranked lists: what a query with an empty list means.

    Returns
    -------
    Values
        Shares in [0, 1] or ranks, by name; ``.per_query(name)`` gives each query's value.
        Means are exact sums, so the order of queries changes no bit.

    Raises
    ------
    NotCountedError
        If a metric needs what was not counted or not returned.
    RelevanceError
        If no query is left to average over, or a query has no positive under "error".

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, rank
    >>> relevance = Relevance.from_pairs([0, 0], [1, 2], n_query=1, n_gallery=3)
    >>> ranking = rank(ScoreMatrix([[0.9, 0.5, 0.1]], higher_is_better=True), relevance)
    >>> values = compute(ranking, ["mAP", "CMC@1", "CMC@2"])
    >>> round(values["mAP"], 4), values["CMC@1"], values["R@2"]
    (0.5833, 0.0, 1.0)
    """
    names = [parse(name) for name in ([metrics] if isinstance(metrics, str) else metrics)]
    answers = _Answers.of(ranking, [n for n in names if n.metric.aggregate != "pooled"], ties)
    policy = policy_of(ranking, answers, no_positive or ranking.no_positive, missing_query)
    whole = cache(partial(view_of, ranking, ties))
    per_query: dict[str, Floats] = {}
    values: dict[str, float] = {}
    for name in names:
        if name.metric.aggregate == "pooled":
            pool = Pool(ranking, whole(), policy.evaluated, ties)
            values[str(name)] = float(name.apply(pool, ranking.n_gallery_ranked))
            continue
        found, unknown = answers.found[str(name)], answers.unknown[str(name)]
        _check_retrieved(name, unknown & policy.evaluated & ~policy.zero, unretrieved)
        per_query[str(name)] = decreed(name, found, policy)
        values[str(name)] = _aggregate(name, per_query[str(name)], whole, policy)
    return Values(values, per_query, policy.evaluated)


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """What metrics say of each query, before any policy.

    `n_positive` and `size` are int64 arrays (n_query,); `found` holds an array of values for
    each metric, `unknown` where they depend on positives that were not returned.
    """

    n_positive: Ints
    size: Ints
    found: dict[str, Floats]
    unknown: dict[str, npt.NDArray[np.bool_]]

    @classmethod
    def of(cls, ranking: Ranking, names: Sequence[MetricName], ties: str) -> _Answers:
        """Ask some queries at a time, whose answers stay in the cache, by several threads."""
        check_ranking(ranking)
        _check_ties(ties)
        ranking.check_complete()
        n, n_ranked = ranking.n_query, ranking.n_gallery_ranked
        n_positive, size = np.empty((2, n), np.int64)
        made = cls(n_positive, size, {str(name): np.empty(n) for name in names},
                   {str(name): np.empty(n, bool) for name in names})  # fmt: skip

        def ask(queries: slice, _: slice) -> None:
            view = view_of(ranking, ties, queries)
            made.n_positive[queries], made.size[queries] = view.n_positive, view.size
            for name in names:
                view.unknown[:] = False
                made.found[str(name)][queries] = name.apply(view, n_ranked)
                made.unknown[str(name)][queries] = view.unknown

        in_blocks(ranking.offsets, ask, n_cores())
        return made


def view_of(ranking: Ranking, ties: str, queries: slice | None = None) -> View:
    """Return the view of a ranking, or of some of its queries, for one way of reading equal scores.

    Besides the four of `TIES` there is "reversed": the tie order from its end.
    """
    check_ranking(ranking)
    _check_ties(ties)
    backwards = ties == "reversed"

    def graded() -> Reading:
        return Reading.of(ranking, graded=True, backwards=backwards, queries=queries)

    def grouped(column: str) -> View:
        _check_group(ranking, column)
        asked = ranking if queries is None else part_of(ranking, queries)
        reading = Reading.of_groups(asked, backwards=backwards)
        return _make_view(ties, reading, lambda: reading)

    reading = Reading.of(ranking, backwards=backwards, queries=queries)
    return _make_view(ties, reading, graded, grouped)


def _check_ties(ties: str) -> None:
    if ties not in (*TIES, "reversed"):
        raise NotCountedError(f"ties = {ties!r}: one of {', '.join(TIES)} is needed")


def _make_view(
    ties: str,
    reading: Reading,
    graded: Callable[[], Reading],
    grouped: Callable[[str], View] | None = None,
) -> View:
    if ties == "expected":
        return Expected(reading, graded, grouped)
    return Ordered(reading, graded, ties, grouped)  # type: ignore[arg-type]


def _check_group(ranking: Ranking, column: str) -> None:
    if ranking.group not in (column, "group"):
        counted = f"groups of {ranking.group!r}" if ranking.group else "no groups"
        raise NotCountedError(
            f"CMC@k(by={column}) needs group counts of {column!r}; this ranking has {counted}: "
            f"rank with group= (in a protocol: [count] group = {column!r})"
        )


def chance(
    ranking: Ranking,
    metrics: Sequence[str | MetricName],
    *,
    no_positive: NoPositive | None = None,
) -> dict[str, float]:
    """Return the exact expectation of each metric for a ranking without information.

    Metrics over pooled scores have one only where it does not depend on the data.
    """
    names = list(map(parse, metrics))
    pooled = {str(name): float(name.metric.chance) for name in names
              if name.metric.aggregate == "pooled" and name.metric.chance != "none"}  # fmt: skip
    rest = [name for name in names if name.metric.aggregate != "pooled"]
    return {**pooled, **chance_values(ranking, rest, no_positive=no_positive)}


def chance_values(
    ranking: Ranking,
    metrics: Sequence[str | MetricName],
    *,
    no_positive: NoPositive | None = None,
) -> Values:
    """Return the expectation of each metric without information, for every query and the mean."""
    reading = Reading.of(ranking).at_random()
    policy = policy_of(ranking, reading, no_positive or ranking.no_positive, "zero")

    def grouped(column: str) -> View:
        _check_group(ranking, column)
        groups = Reading.of_groups(ranking).at_random()
        return Expected(groups, lambda: groups)

    view = Expected(reading, lambda: Reading.of(ranking, graded=True).at_random(), grouped)
    per_query: dict[str, Floats] = {}
    values: dict[str, float] = {}
    for name in map(parse, metrics):
        found = name.apply(view, ranking.n_gallery_ranked)
        per_query[str(name)] = decreed(name, found, policy)
        values[str(name)] = _aggregate(name, per_query[str(name)], lambda: view, policy)
    return Values(values, per_query, policy.evaluated)


def rsum(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Return the sum of CMC@1, CMC@5 and CMC@10 of two directions in percent, 0 to 600.

    >>> half = MetricValues({"CMC@1": 0.5, "CMC@5": 0.5, "CMC@10": 0.5})
    >>> rsum(half, half)
    300.0
    """
    return 100 * math.fsum(side[f"CMC@{k}"] for side in (first, second) for k in (1, 5, 10))


def _check_retrieved(
    name: MetricName, unknown: npt.NDArray[np.bool_], unretrieved: str
) -> None:
    if unretrieved not in ("error", "zero"):
        raise NotCountedError(f"unretrieved = {unretrieved!r}: one of error, zero is needed")
    if unknown.any() and unretrieved == "error":
        raise NotCountedError(
            f"{name} depends on positives that were not returned for {int(unknown.sum())} queries "
            f"(queries {name_some(np.flatnonzero(unknown))}): rank deeper, or pass "
            "unretrieved='zero' to count them as never found"
        )


def _aggregate(
    name: MetricName, values: Floats, view: Callable[[], View], policy: Policy
) -> float:
    if name.metric.aggregate == "median":
        return _median_rank(view(), policy, name.every_option["form"])
    return exact_mean(values[policy.evaluated])


def exact_mean(values: Floats) -> float:
    """Return the mean by an exactly rounded sum.

    >>> exact_mean(np.array([1e100, 1.0, -1e100]))
    0.3333333333333333
    """
    return math.fsum(values.tolist()) / len(values)


def _median_rank(view: View, policy: Policy, form: str) -> float:
    """Return the mean of the smallest k with CMC@k >= 1/2 and the smallest with > 1/2.

    Or only the first of these (crossing), or their mean rounded down (floor).
    """
    end = policy.end
    half = int(policy.evaluated.sum()) / 2

    def hit_at(k: int) -> float:
        hits = np.where(policy.zero | (view.any_hit(k) == 0), k >= end, view.any_hit(k))
        hits = np.where(policy.one, 1.0, hits)
        return math.fsum(hits[policy.evaluated].tolist())

    def smallest(strict: bool) -> int:
        low, high = 1, int(end.max(initial=1))
        while low < high:
            middle = (low + high) // 2
            reached = hit_at(middle) > half if strict else hit_at(middle) >= half
            low, high = (low, middle) if reached else (middle + 1, high)
        return low

    reached = smallest(strict=False)
    if form == "crossing":
        return float(reached)
    middle = (reached + smallest(strict=True)) / 2
    return float(math.floor(middle)) if form == "floor" else middle
