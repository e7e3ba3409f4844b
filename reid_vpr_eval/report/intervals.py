"""Intervals as a report says them, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from reid_vpr_eval.errors import counted
from reid_vpr_eval.result import Result
from reid_vpr_eval.summary import shown, what_is_fixed
from reid_vpr_eval.uncertainty import METHOD_NAMES, unit_word

__all__ = ["Shown", "interval_of", "interval_text", "why_none"]

@dataclass(frozen=True, slots=True)
class Shown:
    """An interval with the words that belong to it."""

    low: float
    high: float
    unit: str
    described: str


def interval_of(result: Result, name: str) -> Shown | None:
    """Return the interval of a metric, or None if there is none."""
    found = result.intervals.get(name)
    if found is None:
        return None
    method = METHOD_NAMES.get(found.method, found.method)
    of = "" if found.unit == "query" else (
        f" in {found.n_units:,} {unit_word(result.protocol, found.unit, found.n_units)}"
    )
    text = (
        f"{100 * found.level:g} % {method}, {counted(found.n, 'query', form=',')}{of}, "
        f"{what_is_fixed(result)}"
    )
    return Shown(float(found.low), float(found.high), str(found.unit), text)


def interval_text(name: str, interval: Shown) -> str:
    """Return an interval as a person reads it, in the unit of its metric."""
    return f"[{shown(name, interval.low)}, {shown(name, interval.high)}]"


def why_none(result: Result, name: str) -> str:
    """Return why a metric has no interval."""
    return result.interval_reasons.get(name) or "it was not computed"
