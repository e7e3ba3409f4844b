"""Interval: how sure a number is, with everything needed to say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from reid_vpr_eval.errors import counted

__all__ = ["METHOD_NAMES", "Interval"]

#: What methods are called where a person reads.
METHOD_NAMES: Mapping[str, str] = {
    "bca": "BCa",
    "korn-graubard": "Korn-Graubard",
    "wilson": "Wilson",
    "moving-block": "moving blocks",
    "t": "cluster t",
    "woodruff": "Woodruff",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval that holds the value of all queries that could have been asked.

    The gallery and the model are fixed: what varies is which units were drawn.

    Attributes
    ----------
    low, high : float
        The limits, in the unit of the metric.
    level : float
        How often such intervals hold the true value.
    method : str
        "bca", "korn-graubard", "t", "wilson", "moving-block", or "woodruff" for medians.
    unit : str
        What was resampled together: a query column, "position", "traverse" or "query".
    n_units, n : int
        How many units and queries took part.
    seed, resamples : int or None
        Of the bootstrap; None where nothing was drawn.
    block : int or None
        How many neighbouring queries of a traverse were drawn together.

    Examples
    --------
    >>> str(Interval(0.598, 0.645, 0.95, "bca", "label", 24, 107))
    '[59.8, 64.5], 95 % BCa, 107 queries in 24 units of label'
    """

    low: float
    high: float
    level: float
    method: str
    unit: str
    n_units: int
    n: int
    seed: int | None = None
    resamples: int | None = None
    block: int | None = None

    def __str__(self) -> str:
        in_units = f" in {counted(self.n_units, 'unit')} of {self.unit}"
        units = "" if self.unit == "query" else in_units
        return (
            f"[{100 * self.low:.1f}, {100 * self.high:.1f}], {100 * self.level:g} % "
            f"{METHOD_NAMES.get(self.method, self.method)}, {counted(self.n, 'query')}{units}"
        )

    def document(self) -> dict[str, Any]:
        """Return plain JSON values.

        >>> Interval.of(Interval(0.5, 0.7, 0.95, "wilson", "query", 9, 9).document()).high
        0.7
        """
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Interval:
        """Make an interval from what :meth:`document` returned."""
        return cls(**{name: document.get(name) for name in cls.__dataclass_fields__})  # type: ignore[arg-type]
