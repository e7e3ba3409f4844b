"""Intervals of numbers that are no means: areas and rates over the first answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.grammar import MetricName
from reid_vpr_eval.metrics.views import Floats
from reid_vpr_eval.uncertainty.clusters import Clusters, bca_limits
from reid_vpr_eval.uncertainty.interval import Interval
from reid_vpr_eval.uncertainty.methods import Choice

__all__ = ["FirstAnswers", "pooled_interval"]

Ints: TypeAlias = npt.NDArray[np.int64]

#: About how many first answers are read again in all.
_READ = 30_000_000
_GROUPS = 200
_EXTREME = "one answer, the best wrong one, decides it: resampling does not tell its spread"
_PAIRS = (
    "it is over the pairs of all queries, and the kept scores do not tell whose pairs they are"
)


class FirstAnswers:
    """The first answers of some queries, each as often as it was drawn.

    What the metrics read of a :class:`reid_vpr_eval.metrics.pool.Pool`.
    """

    def __init__(
        self,
        score: Floats,
        correct: Floats,
        has_positive: npt.NDArray[np.bool_],
        evaluated: npt.NDArray[np.bool_],
        ties: str = "expected",
    ) -> None:
        self.score, self.correct = score, correct
        self.has_positive, self.evaluated = has_positive, evaluated
        self.ties = ties

    def take(self, rows: Ints) -> FirstAnswers:
        """Return the answers at these rows."""
        return FirstAnswers(self.score[rows], self.correct[rows], self.has_positive[rows],
                            self.evaluated[rows], self.ties)  # fmt: skip


def pooled_interval(
    name: MetricName, answers: FirstAnswers, n_ranked: int, clusters: Clusters, choice: Choice
) -> Interval | str:
    """Return the BCa interval of a metric over first answers, or why there is none.

    Units are drawn and the metric is read again. Where that would take long there are fewer
    resamples, and the interval says how many; the jackknife leaves out at most 200 groups.
    """
    if name.metric.needs == "pairs":
        return _PAIRS
    if name.name == "EP" or (name.name == "R@P" and float(name.k) >= 1):
        return _EXTREME
    n = len(answers.evaluated)
    if clusters.n_units < 2:
        return "all queries are of one unit, which does not tell how units differ"
    members = _members(clusters, answers)

    def read(rows: Ints) -> float:
        try:
            return float(name.apply(answers.take(rows), n_ranked))
        except NotCountedError:
            return math.nan

    resamples = int(min(choice.resamples, max(200, _READ // n)))
    generator = np.random.default_rng(choice.seed)
    draws = np.array([
        read(np.concatenate([members[unit] for unit in drawn.tolist()]))
        for drawn in (generator.integers(0, len(members), len(members)) for _ in range(resamples))
    ])  # fmt: skip
    if np.isnan(draws).mean() > 0.05:
        return "many resamples hold no right answer, or no wrong one"
    everything = np.concatenate(members)
    limits = bca_limits(read(everything), draws, _jackknife(read, members), choice.level)
    return Interval(*limits, level=choice.level, method="bca", unit=choice.unit,
                    n_units=clusters.n_units, n=int(answers.evaluated.sum()), seed=choice.seed,
                    resamples=resamples)  # fmt: skip


def _members(clusters: Clusters, answers: FirstAnswers) -> list[Ints]:
    """Return the rows of each unit; both in an order that does not depend on the queries'."""
    rows = np.lexsort((answers.has_positive, answers.correct, answers.score, clusters.code))
    ends = np.flatnonzero(np.diff(clusters.code[rows])) + 1
    members = np.split(rows, ends)
    if clusters.n_units < len(rows):
        return members
    whole = np.lexsort((answers.has_positive, answers.correct, answers.score))
    return list(whole[:, None])


def _jackknife(read: Callable[[Ints], float], members: list[Ints]) -> Floats:
    groups = np.array_split(np.arange(len(members)), min(len(members), _GROUPS))
    return np.array([
        read(np.concatenate([members[unit] for unit in np.delete(np.arange(len(members)), out)]))
        for out in groups
    ])  # fmt: skip
