"""The view of a random draw: the same metrics, read when n distractors were drawn.

A metric asks a view for a few things (:mod:`reid_vpr_eval.metrics.views`); all of them but
one are sums over positives of functions of the positive's rank, and so have exact means over
all draws from each positive's rank alone. What a metric asks for is written down once, then
computed for one size after the other, all of it together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.grammar import MetricName
from reid_vpr_eval.metrics.views import Cut, Floats, Ints, OfGrade, OfRank, View
from reid_vpr_eval.studies.distractors.expectation import Asked, Expectations
from reid_vpr_eval.studies.distractors.pairs import Pairs

__all__ = ["Drawn", "Engine", "EngineOf", "recorded"]


class Engine(Protocol):
    """What computes expectations."""

    def at(self, size: int) -> list[Floats]:
        """Return what was asked for at a size, one value a query."""
        ...


EngineOf: TypeAlias = Callable[[Any, Sequence[Asked]], Engine]


class Drawn(View):
    """The exact mean over all draws from the pool, and over all orders inside tie groups.

    Parameters
    ----------
    pairs : Pairs
        The positives.
    graded : callable returning Pairs
        Likewise with every graded item as a positive.
    engine : callable
        Makes what answers, of pairs and all that is asked.
    """

    def __init__(
        self, pairs: Pairs, graded: Callable[[], Pairs], engine: EngineOf = Expectations
    ) -> None:
        self._graded: list[Pairs] = []

        def graded_pairs() -> Pairs:
            if not self._graded:
                self._graded.append(graded())
            return self._graded[0]

        super().__init__(pairs.base_reading(), lambda: graded_pairs().base_reading())
        self._pairs, self._graded_pairs = pairs, graded_pairs
        self._asked: list[tuple[bool, Asked]] = []
        self._answers: list[Floats] | None = None
        self._engine, self._engines = engine, dict[bool, Engine]()

    def record(self) -> None:
        """Forget what was asked, and write down what is asked from now on."""
        self._asked, self._answers, self._engines = [], None, {}

    def answer(self, size: int) -> None:
        """Compute all that was asked for one size; the same questions get their answers now."""
        self._prepare()
        self._take(size, {which: engine.at(size) for which, engine in self._engines.items()})

    def answer_by(self, size: int, above: Callable[..., Ints]) -> None:
        """Take one draw instead of the mean: `above` gives the drawn items above each positive.

        It is given the pool items above each, the size of the pool, the number of each
        positive and that of all positives of its query.
        """
        self._prepare()
        self._take(size, {which: engine.one(above) for which, engine in self._engines.items()
                          if isinstance(engine, Expectations)})  # fmt: skip

    def _take(self, size: int, found: dict[bool, list[Floats]]) -> None:
        each = {which: iter(values) for which, values in found.items()}
        self._answers = [next(each[which]) for which, _ in self._asked][::-1]
        self.size = self._pairs.least_ranked(size)

    def _prepare(self) -> None:
        for graded in {which for which, _ in self._asked} - set(self._engines):
            pairs = self._graded_pairs() if graded else self._pairs
            mine = [one for which, one in self._asked if which == graded]
            self._engines[graded] = self._engine(pairs, mine)

    @property
    def asked(self) -> list[tuple[bool, Asked]]:
        """What was asked for, and whether of graded items."""
        return list(self._asked)

    def factors(self, name: MetricName, size: int) -> list[Floats]:
        """Return what each answer is multiplied with in the values of a metric, (n_query,) each.

        A metric with exact means over draws is linear in the answers.
        """
        self.size = self._pairs.least_ranked(size)
        n = self.reading.n_query

        def value(chosen: int) -> Floats:
            answers = [np.full(n, float(i == chosen)) for i in range(len(self._asked))]
            self._answers = answers[::-1]
            return np.asarray(name.apply(self, 0), float)

        constant = value(-1)
        return [value(i) - constant for i in range(len(self._asked))]

    def _ask(self, asked: Asked, *, graded: bool = False) -> Floats:
        if self._answers is None:
            self._asked.append((graded, asked))
            return np.zeros(self.reading.n_query)
        return self._answers.pop()

    def any_hit(self, k: Cut) -> Floats:
        """Return the chance of a positive among the first k: P(p_1 + A_1 <= k)."""
        return self._ask(Asked("first", cut=k))

    def hits(self, k: Cut) -> Floats:
        """Return the mean number of positives among the first k."""
        self._needs_all()
        return self._ask(Asked("every", cut=k))

    def alone(self, k: Cut) -> Floats:
        """Return the mean number of positives with fewer than k negatives before them."""
        self._needs_all()
        return self._ask(Asked("every", cut=np.asarray(k) - 1, beside=True))

    def first(self, of_rank: OfRank, missing: Floats | float, k: Cut | None = None) -> Floats:
        """Return the mean of a function of the rank of the first positive."""
        value = self._ask(Asked("first", of_rank, k))
        if k is not None:
            value = value + np.asarray(missing) * (1 - self._ask(Asked("first", cut=k)))
        return np.where(self.n_positive > 0, value, missing)

    def first_rank(self, missing: Floats | float) -> Floats:
        """Return the mean rank of the first positive, p_1 + n a_1 / N."""
        return np.where(self.n_positive > 0, self._ask(Asked("first", _itself)), missing)

    def last(self, of_rank: OfRank, missing: Floats | float) -> Floats:
        """Return the mean of a function of the rank of the last positive."""
        self._needs_all()
        return np.where(self.n_positive > 0, self._ask(Asked("last", of_rank)), missing)

    def total(self, slope: OfRank, offset: OfRank | None = None, k: Cut | None = None) -> Floats:
        """Return the mean sum over positives, each at its own rank and with its own number."""
        self._needs_all()
        total = self._ask(Asked("every", slope, k, times="number"))
        return total if offset is None else total + self._ask(Asked("every", offset, k))

    def per_hit(self, slope: OfRank, offset: OfRank | None, k: int) -> NoReturn:  # noqa: ARG002
        """Refuse: it is a ratio of two sums that depend on one another."""
        raise NotCountedError(
            "divided by the hits among the first k, average precision is a ratio of two sums that "
            "depend on one another, and has no exact mean over draws from each positive's rank: "
            "take divisor=positives, min or k (or re-rank drawn subsets)"
        )

    def precision_to_last(self, k: int) -> Floats:
        """Return the mean precision of the list cut at k or at the last positive, if earlier.

        Where the last positive is among the first k all m are: m / p_m. Elsewhere h(k) / k.
        """
        self._needs_all()
        short = self._ask(Asked("last", lambda p: 1 / p, k)) * self.n_positive
        whole = self._ask(Asked("last", cut=k)) * self.n_positive
        return short + (self._ask(Asked("every", cut=k)) - whole) / k

    def gain(self, of_grade: OfGrade, discount: OfRank, k: Cut | None) -> Floats:
        """Return the mean sum of gain times discount: graded items of a tie group share it."""
        self._needs_all()
        reading = self.graded()
        gains = np.bincount(
            reading.group_of_found, weights=of_grade(reading.grade), minlength=len(reading.query)
        )
        times = gains / reading.right
        return self._ask(Asked("every", discount, k, times=times), graded=True)


def recorded(view: Drawn, names: Sequence[MetricName]) -> Drawn:
    """Let metrics ask a view for what they need."""
    view.record()
    for name in names:
        name.apply(view, 0)
    return view


def _itself(rank: Floats) -> Floats:
    return rank
