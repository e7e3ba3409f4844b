"""Intervals as a report says them, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from reid_vpr_eval.metrics import parse
from reid_vpr_eval.result import Result

__all__ = ["Shown", "interval_of", "interval_text", "why_none"]

_METHODS = {
    "bca": "BCa bootstrap", "korn-graubard": "Korn-Graubard", "wilson": "Wilson",
    "moving-block": "moving-block bootstrap",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """An interval with the words that belong to it."""

    low: float
    high: float
    unit: str
    described: str


def interval_of(result: Result, name: str) -> Shown | None:
    """Return the interval of a metric, or None if there is none."""
    found = dict(result.intervals).get(name)
    if found is None:
        return None
    method = str(found.method)
    of = f", {found.n_units:,} {found.unit}" if found.n_units else ""
    text = f"{100 * found.level:g} % {_METHODS.get(method, method)}{of}, gallery fixed"
    return Shown(float(found.low), float(found.high), str(found.unit), text)


def interval_text(name: str, interval: Shown) -> str:
    """Return an interval as a person reads it, in the unit of its metric."""
    unit = 1 if parse(name).metric.is_rank else 100
    return f"[{unit * interval.low:.1f}, {unit * interval.high:.1f}]"


def why_none(result: Result, name: str) -> str:
    """Return why a metric has no interval."""
    reasons = getattr(result, "interval_reasons", None) or {}
    return str(reasons.get(name) or getattr(result, "interval_reason", "it was not computed"))
