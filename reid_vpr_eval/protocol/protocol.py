"""Protocol: one benchmark, with its two hashes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from reid_vpr_eval.archive import canonical_json, write_atomically
from reid_vpr_eval.errors import ProtocolError
from reid_vpr_eval.protocol.faults import describe, place
from reid_vpr_eval.protocol.schema import (
    CountTable,
    DrawTable,
    EvaluationTable,
    ExpectedTable,
    NoPositive,
    ReportTable,
    Rule,
    SideTable,
    Table,
)
from reid_vpr_eval.protocol.toml import to_toml

__all__ = ["Protocol"]


class Protocol(Table):
    """One benchmark: both sides, who is right, how it is averaged and reported.

    Examples
    --------
    >>> from reid_vpr_eval import load_protocol
    >>> protocol = load_protocol("market1501")
    >>> protocol.relevance.kind, protocol.report.spelling
    ('label', 'Rank-{k}')
    >>> len(protocol.judging_hash)
    64
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", description="the name it is asked for by")
    title: str = Field("", description="what a table is headed with")
    version: int = Field(1, ge=1, description="raised when a number may change")
    status: Literal["available", "withdrawn"] = Field(
        "available", description="withdrawn: the data set was taken back by its authors"
    )
    task: str = Field("", description="the field it belongs to")
    reference: str = Field("", description="where it was published")
    note: str = Field("", description="what a user should know")
    query: SideTable = Field(SideTable(), description="the query side")
    gallery: SideTable = Field(SideTable(), description="the gallery side")
    relevance: Rule = Field(description="who is right")
    multi_query: list[str] = Field(
        [], description="columns; query features of equal values are averaged into one query"
    )
    draw: DrawTable | None = Field(None, description="a gallery that is drawn at random")
    evaluation: EvaluationTable = Field(EvaluationTable(), description="how queries are averaged")
    report: ReportTable = Field(ReportTable(), description="what is printed")
    count: CountTable = Field(CountTable(), description="what is counted besides")
    expected: ExpectedTable = Field(ExpectedTable(), description="published counts")

    @property
    def no_positive(self) -> NoPositive:
        """What a query without a positive scores."""
        by_kind: dict[str, NoPositive] = {"within": "zero", "pose": "zero", "frames": "zero"}
        return self.evaluation.no_positive or by_kind.get(self.relevance.kind, "skip")

    def resolved(self) -> dict[str, Any]:
        """Return everything with its defaults, as plain JSON values."""
        content: dict[str, Any] = json.loads(self.model_dump_json())
        content["evaluation"]["no_positive"] = self.no_positive
        return content

    @property
    def judging_hash(self) -> str:
        """SHA-256 of what decides whether two numbers may be compared.

        Keys at their defaults are left out, so that a key added later changes no hash.
        """
        parts = json.loads(self.model_dump_json(exclude_defaults=True))
        judged = ("query", "gallery", "relevance", "multi_query", "draw")
        return _digest(
            {key: parts[key] for key in judged if key in parts}
            | {"no_positive": self.no_positive, "macro": self.evaluation.macro}
            | {"group": self.count.group}
        )

    @property
    def reporting_hash(self) -> str:
        """SHA-256 of what is reported: distance, metrics, spelling, intervals."""
        return _digest(json.loads(self.report.model_dump_json(exclude_defaults=True)))

    def with_interval(self, interval: str | Mapping[str, Any] | None) -> Protocol:
        """Return the protocol with intervals made otherwise.

        Parameters
        ----------
        interval : str, mapping or None
            A method ("auto", "bca", "korn-graubard", "wilson", "moving-block", "none"), or
            the keys of `report.interval` that change; None changes nothing.

        Raises
        ------
        ProtocolError
            If a key is unknown or a value does not fit.

        Examples
        --------
        >>> from reid_vpr_eval import load_protocol
        >>> load_protocol("market1501").with_interval({"level": 0.9}).report.interval.unit
        'label'
        """
        if interval is None:
            return self
        given = {"method": interval} if isinstance(interval, str) else dict(interval)
        content: dict[str, Any] = json.loads(self.model_dump_json(exclude_defaults=True))
        report = content.setdefault("report", {})
        report["interval"] = {**report.get("interval", {}), **given}
        changed = type(self).from_dict(content, source="interval")
        return self.model_copy(update={"report": changed.report})

    def to_toml(self) -> str:
        """Return the resolved protocol as a TOML file that reads back to the same."""
        return to_toml(self.resolved())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save as TOML, resolved; the same protocol gives the same bytes."""
        write_atomically(path, self.to_toml().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Protocol:
        """Read a protocol file."""
        from pathlib import Path

        from reid_vpr_eval.protocol.loading import load_protocol

        return load_protocol(Path(path))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, source: str = "protocol") -> Protocol:
        """Make a protocol from the content of a TOML file.

        Raises
        ------
        ProtocolError
            Lists every fault with its place and how to mend it.
        """
        try:
            return cls.model_validate(dict(content))
        except ValidationError as error:
            faults: dict[str, str] = {}
            for fault in error.errors():
                faults.setdefault(place(fault), describe(fault))
            listed = "\n".join(f"  {fault}" for fault in faults.values())
            raise ProtocolError(f"{source} is no valid protocol:\n{listed}") from None


def _digest(content: object) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()
