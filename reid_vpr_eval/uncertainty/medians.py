"""Intervals of medians: where the interval of the hit rate leaves one half."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from reid_vpr_eval.uncertainty.interval import Interval
from reid_vpr_eval.uncertainty.methods import Choice, Measure, by_formula

__all__ = ["woodruff"]


def woodruff(
    hit_rate: Callable[[int], Measure], last: int, form: str, choice: Choice
) -> Interval:
    """Return the interval of a median rank.

    Parameters
    ----------
    hit_rate : callable
        From k to the share of queries whose first positive is among the first k.
    last : int
        The largest rank there can be.
    form : {"mean", "floor", "crossing"}
        Of the median: whether its halves are rounded down.
    choice : Choice
        How the interval of a hit rate is made.

    Notes
    -----
    From the smallest k at which the upper limit of the hit rate reaches one half to the
    smallest at which the lower limit does (Woodruff, Confidence intervals for medians and
    other position measures, JASA 1952); near one half the formula for few units serves any
    number of them.
    """
    made: dict[int, Interval] = {}

    def at(k: int) -> Interval:
        if k not in made:
            measure = hit_rate(k)
            method = measure.method(choice.method)
            made[k] = by_formula(measure, "korn-graubard" if method == "bca" else method, choice)
        return made[k]

    def smallest(reached: Callable[[Interval], bool]) -> int:
        first, end = 1, last
        while first < end:
            middle = (first + end) // 2
            first, end = (first, middle) if reached(at(middle)) else (middle + 1, end)
        return first

    low, high = smallest(lambda i: i.high >= 0.5), smallest(lambda i: i.low >= 0.5)
    if form == "floor":
        low, high = math.floor(low), math.floor(high)
    return replace(at(low), low=float(low), high=float(high), method="woodruff")
