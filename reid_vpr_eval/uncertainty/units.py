"""What belongs together: the unit that a protocol names, for every query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, counted
from reid_vpr_eval.protocol import LabelRule, Protocol, WithinRule
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.uncertainty.clusters import Clusters

__all__ = ["POSITION", "QUERY", "TRAVERSE", "Units", "unit_word", "units_of"]

Ints: TypeAlias = npt.NDArray[np.int64]

#: Units that are no columns: equal coordinates, every query alone, stretches of a traverse.
POSITION, QUERY, TRAVERSE = "position", "query", "traverse"

_WORDS = {
    POSITION: ("place", "places"), QUERY: ("query", "queries"),
    TRAVERSE: ("stretch", "stretches"), "sequence": ("sequence", "sequences"),
    "camera": ("camera", "cameras"), "group": ("group", "groups"), "id": ("query", "queries"),
    "place": ("place", "places"), "image": ("image", "images"), "scene": ("scene", "scenes"),
    "panorama": ("panorama", "panoramas"), "class": ("class", "classes"),
    "identity": ("identity", "identities"), "label": ("label", "labels"),
}  # fmt: skip
_LABEL_WORDS = (
    ("person", "identity"), ("vehicle", "identity"), ("image-text", "image"),
    ("metric learning", "class"), ("geo-localization", "place"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The unit of each query.

    Attributes
    ----------
    unit : str
        A query column, or "position", "query", "traverse"; empty where there is none.
    word : str
        What several of them are called.
    names : array (n_query,) or None
        What each query belongs to, whole numbers or strings; None where every query is its own.
    order : int array (n_query,) or None
        The rows along a traverse.
    reason : str
        Why there is no unit.
    """

    unit: str
    word: str = ""
    names: npt.NDArray[Any] | None = None
    order: Ints | None = None
    reason: str = ""

    @property
    def clusters(self) -> Clusters | None:
        """The units as numbers; None where every query is its own."""
        return None if self.names is None else Clusters.of(self.names)

    def in_blocks(self, length: int) -> Units:
        """Return a traverse cut into stretches of so many queries."""
        if self.order is None:
            return self
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        number = place // length
        width = len(str(int(number.max(initial=0)) + 1))
        names = np.array([f"stretch {one + 1:0{width}d}" for one in number.tolist()], np.str_)
        return Units(self.unit, f"stretches of {counted(length, 'query')}", names, self.order)


def units_of(protocol: Protocol, query: Samples) -> Units:
    """Return the unit of each query by the protocol's ``report.interval.unit``.

    Parameters
    ----------
    protocol : Protocol
        Its unit is a query column; "position": queries at equal coordinates; "traverse":
        neighbours along the way (sequence, then frame or time, else the order given);
        "query": every query alone; or nothing, which means what the rule suggests. A label
        rule suggests its label, frames the traverse, places the position where queries share
        any, else a column sequence; every other rule, and a place without these, the query.
    query : Samples
        The query side.

    Returns
    -------
    Units
        Without names and with a reason if the unit cannot be had.

    Examples
    --------
    >>> from reid_vpr_eval import load_protocol
    >>> query = Samples.from_columns(label=[7, 7, 3])
    >>> units_of(load_protocol("market1501"), query).names.tolist()
    [7, 7, 3]
    """
    table = protocol.report.interval
    traverse = table.method == "moving-block" and table.unit is None
    unit = TRAVERSE if traverse else table.unit or _suggested(protocol, query)
    try:
        if unit == QUERY:
            return Units(QUERY, _WORDS[QUERY][1])
        if unit == TRAVERSE:
            return Units(TRAVERSE, _WORDS[TRAVERSE][1], order=_order(query))
        if unit == POSITION and unit not in query:
            return Units(unit, _WORDS[unit][1], _positions(protocol, query))
        return Units(unit, unit_word(protocol, unit), query.keys(unit))
    except FormatError as error:
        return Units("", reason=f"the unit {unit!r} cannot be had: {error}")


def _suggested(protocol: Protocol, query: Samples) -> str:
    rule = protocol.relevance
    if isinstance(rule, LabelRule):
        return rule.label
    if rule.kind == "frames":
        return TRAVERSE
    if rule.kind not in ("within", "pose"):
        return QUERY
    if isinstance(rule, WithinRule):
        places = _positions(protocol, query)
        if len(np.unique(places)) < query.n:
            return POSITION
    known = "sequence" in query and not query.missing("sequence").any()
    return "sequence" if known and len(np.unique(query.keys("sequence"))) > 1 else QUERY


def unit_word(protocol: Protocol, unit: str, n: int = 2) -> str:
    """Return what n units are called, where a person reads.

    >>> from reid_vpr_eval import load_protocol
    >>> unit_word(load_protocol("market1501"), "label"), unit_word(load_protocol("sop"), "label")
    ('identities', 'classes')
    >>> unit_word(load_protocol("market1501"), "label", 1)
    'identity'
    """
    called = unit
    if isinstance(protocol.relevance, LabelRule) and unit == protocol.relevance.label:
        words = (word for part, word in _LABEL_WORDS if part in protocol.task)
        called = next(words, "label")
    one, several = _WORDS.get(called, (f"value of {unit}", f"values of {unit}"))
    return one if n == 1 else several


def _positions(protocol: Protocol, query: Samples) -> npt.NDArray[np.str_]:
    """Name queries by their coordinates: equal ones are one place."""
    columns = ["east", "north"]
    told = protocol.relevance.coordinates if isinstance(protocol.relevance, WithinRule) else None
    if told == "latlon" or (told != "utm" and "east" not in query):
        columns = ["lat", "lon"]
    elif "zone" in query and not query.missing("zone").any():
        columns.append("zone")
    parts: list[list[Any]] = [query.values(column).tolist() for column in columns]
    return np.array([" ".join(map(repr, row)) for row in zip(*parts, strict=True)], np.str_)


def _order(query: Samples) -> Ints:
    """Return the rows along the way; where nothing says it, as they were given."""
    keys = [query.values(column) for column in ("sequence", "frame", "time")
            if column in query and not query.missing(column).any()]  # fmt: skip
    if not keys or (len(keys) == 1 and "sequence" in query):
        keys.append(np.arange(query.n))
    return np.lexsort(keys[::-1]).astype(np.int64)
