"""Faults of a protocol file: where they are and how to mend them."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel

from reid_vpr_eval.protocol import schema

__all__ = ["describe", "place"]


def place(fault: Any) -> str:
    """Return the keys that lead to a fault, without the checker's names for types."""
    parts = [str(part) for part in fault["loc"]]
    if parts[:1] == ["relevance"] and len(parts) > 1:
        parts = [parts[0], *parts[2:]]  # the second one is the kind
    types = ("int", "str", "float", "bool")
    return ".".join(p for p in parts if "[" not in p and "-" not in p and p not in types)


def describe(fault: Any) -> str:
    """Say where a fault is and how to mend it, without the checker's own jargon."""
    where = place(fault)
    if fault["type"] == "extra_forbidden":
        known = _keys_at(fault["loc"][:-1])
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
        offer = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        return f"{where}: unknown key; {offer}"
    if fault["type"] == "missing":
        return f"{where}: is needed"
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"{where}.kind: one of label, within, pose, frames, nearest, listed is needed"
    given = fault.get("input")
    shown = f", not {given!r}" if isinstance(given, str | int | float | bool) else ""
    return f"{where}: {str(fault['msg'])[0].lower()}{str(fault['msg'])[1:]}{shown}"


def _keys_at(where: tuple[Any, ...]) -> list[str]:
    from reid_vpr_eval.protocol.protocol import Protocol

    tables: dict[str, type[BaseModel]] = {
        "query": schema.SideTable, "gallery": schema.SideTable,
        "evaluation": schema.EvaluationTable, "report": schema.ReportTable,
        "interval": schema.IntervalTable, "count": schema.CountTable,
        "expected": schema.ExpectedTable, "draw": schema.DrawTable, "label": schema.LabelRule,
        "within": schema.WithinRule, "pose": schema.PoseRule, "frames": schema.FramesRule,
        "nearest": schema.NearestRule, "listed": schema.ListedRule,
    }  # fmt: skip
    if "ignore" in where or "wide_ignore" in where:
        return list(schema.IgnoreEntry.model_fields)
    for part in reversed(where):
        if part in tables:
            return list(tables[part].model_fields)
    return list(Protocol.model_fields)
