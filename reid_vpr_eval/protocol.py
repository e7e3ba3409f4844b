"""Protocols: who is right and what is reported, as data in a TOML file."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from reid_vpr_eval.archive import canonical_json, write_atomically
from reid_vpr_eval.errors import FormatError, ProtocolError

__all__ = [
    "LabelRule",
    "Protocol",
    "WithinRule",
    "list_protocols",
    "load_protocol",
    "protocol_folder",
]

Scalar: TypeAlias = int | str
NoPositive: TypeAlias = Literal["skip", "zero", "one", "error"]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(ge=0)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SideTable(_Table):
    """Where one side comes from and how it is read."""

    folder: str | None = Field(None, description="sub-folder of the data set with the images")
    names: str | None = Field(
        None, description="grammar of file names, or a regular expression with named groups"
    )
    columns: dict[str, str] = Field({}, description="columns to rename: meaning = name in the file")
    where: dict[str, Scalar | list[Scalar]] = Field(
        {}, description="rows to keep: column = value, or a list of values"
    )
    aliases: dict[str, dict[str, Scalar]] = Field(
        {}, description="values to replace, by column: old = new"
    )


class IgnoreEntry(_Table):
    """Items to ignore; the keys are AND-ed."""

    same: list[str] = Field([], description="columns in which query and item agree")
    different: list[str] = Field([], description="columns in which they differ")
    query: dict[str, list[Scalar]] = Field({}, description="values of the query")
    gallery: dict[str, list[Scalar]] = Field({}, description="values of the gallery item")


class LabelRule(_Table):
    """Right by label."""

    kind: Literal["label"]
    label: str = Field("label", description="the column that identifies")
    different: list[str] = Field([], description="columns in which a positive differs")
    same: list[str] = Field([], description="columns in which a positive agrees")
    failing: Literal["ignore", "negative"] = Field(
        "ignore", description="what an item of the same label is that fails these"
    )
    ignore: list[IgnoreEntry] = Field([], description="further ignored items; entries are OR-ed")
    self: Literal["exclude", "keep"] = Field(
        "exclude", description="whether the query itself is taken out of its ranking"
    )


class WithinRule(_Table):
    """Right by distance on the ground."""

    kind: Literal["within"]
    radius: Positive | list[Positive] = Field(
        25.0, description="metres; of several the first is the headline"
    )
    coordinates: Literal["utm", "latlon"] | None = Field(
        None, description="columns to use; utm where east and north exist"
    )
    inclusive: bool = Field(True, description="whether exactly the radius is still positive")
    self: Literal["exclude", "keep"] = Field(
        "keep", description="whether the query itself is taken out of its ranking"
    )

    @field_validator("radius", mode="before")
    @classmethod
    def _metres(cls, value: object) -> object:
        if isinstance(value, list):
            return [cls._metres(one) for one in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Rule: TypeAlias = Annotated[LabelRule | WithinRule, Field(discriminator="kind")]


class EvaluationTable(_Table):
    """How queries are averaged."""

    no_positive: NoPositive | None = Field(
        None, description="a query without a positive; by kind: label skip, within zero"
    )
    macro: list[str] = Field([], description="query columns to average over before the mean")


class IntervalTable(_Table):
    """How uncertainty is estimated."""

    method: Literal["auto", "bca", "korn-graubard", "wilson", "moving-block"] = Field(
        "auto", description="the interval's construction"
    )
    unit: str | None = Field(None, description="query column of what is resampled together")
    level: float = Field(0.95, gt=0, lt=1, description="coverage")
    resamples: int = Field(2000, ge=1, description="number of bootstrap resamples")
    seed: int = Field(0, ge=0, description="seed of the resampling")


class ReportTable(_Table):
    """What is printed; changes no number that may be compared."""

    metric: Literal["cosine", "dot", "euclidean", "sqeuclidean"] = Field(
        "cosine", description="distance of features, unless another is given"
    )
    ties: Literal["expected", "optimistic", "pessimistic", "index"] = Field(
        "expected", description="how equal scores are read"
    )
    metrics: list[str] = Field(
        ["mAP", "CMC@1", "CMC@5", "CMC@10"], min_length=1, description="what is reported, in order"
    )
    spelling: str = Field("CMC@{k}", description="how CMC@k is printed, such as Rank-{k} or R@{k}")
    profile: str | None = Field(None, description="tool whose rule is shown beside the headline")
    interval: IntervalTable = Field(IntervalTable(), description="how uncertainty is estimated")

    @field_validator("spelling")
    @classmethod
    def _has_k(cls, value: str) -> str:
        if value.count("{k}") != 1 or set("{}") & set(value.replace("{k}", "")):
            raise ValueError("must hold {k} once and no other braces")
        return value


class CountTable(_Table):
    """What is counted beyond the need of the metrics."""

    strata: str | None = Field(None, description="gallery column to count apart by")
    top_k: int = Field(0, ge=0, description="how many best items of each query are kept by name")
    pairs_kept: int = Field(
        0, ge=0, description="how many of the largest negative scores are kept"
    )
    tie_order: Literal["position", "id_desc"] = Field(
        "position", description="which of equally scored items comes first"
    )
    keep: Literal["all", "first"] = Field("all", description="first: enough for CMC alone")


class ExpectedTable(_Table):
    """Published counts; checked before anything is scored. A list accepts several."""

    n_query: Count | list[Count] | None = Field(None, description="query rows")
    n_gallery: Count | list[Count] | None = Field(None, description="gallery rows given")
    n_gallery_ranked: Count | list[Count] | None = Field(
        None, description="gallery rows not ignored for everybody"
    )
    n_positive_pairs: Count | list[Count] | None = Field(None, description="positive pairs")
    n_ignored_pairs: Count | list[Count] | None = Field(
        None, description="pairs ignored for one query, itself not counted"
    )
    n_no_positive: Count | list[Count] | None = Field(
        None, description="queries without a positive"
    )


class Protocol(_Table):
    """One benchmark: both sides, who is right, how it is averaged and reported.

    Examples
    --------
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
    evaluation: EvaluationTable = Field(EvaluationTable(), description="how queries are averaged")
    report: ReportTable = Field(ReportTable(), description="what is printed")
    count: CountTable = Field(CountTable(), description="what is counted besides")
    expected: ExpectedTable = Field(ExpectedTable(), description="published counts")

    @property
    def no_positive(self) -> NoPositive:
        """What a query without a positive scores."""
        by_kind: dict[str, NoPositive] = {"within": "zero"}
        return self.evaluation.no_positive or by_kind.get(self.relevance.kind, "skip")

    def resolved(self) -> dict[str, Any]:
        """Return everything with its defaults, as plain JSON values."""
        content: dict[str, Any] = json.loads(self.model_dump_json())
        content["evaluation"]["no_positive"] = self.no_positive
        return content

    @property
    def judging_hash(self) -> str:
        """SHA-256 of what decides whether two numbers may be compared."""
        parts = self.resolved()
        return _digest({key: parts[key] for key in ("query", "gallery", "relevance", "evaluation")})

    @property
    def reporting_hash(self) -> str:
        """SHA-256 of what is reported: distance, metrics, spelling, intervals."""
        return _digest(self.resolved()["report"])

    def to_toml(self) -> str:
        """Return the resolved protocol as a TOML file that reads back to the same."""
        return _toml(self.resolved())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save as TOML, resolved; the same protocol gives the same bytes."""
        write_atomically(path, self.to_toml().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Protocol:
        """Read a protocol file."""
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
                faults.setdefault(_place(fault), _describe(fault))
            listed = "\n".join(f"  {fault}" for fault in faults.values())
            raise ProtocolError(f"{source} is no valid protocol:\n{listed}") from None


def protocol_folder() -> Path:
    """Return the folder of the shipped protocols."""
    here = Path(__file__).parent
    inside = here / "protocols"
    return inside if inside.is_dir() else here.parent / "protocols"


def list_protocols() -> list[str]:
    """Return the names of the shipped protocols, sorted.

    >>> "market1501" in list_protocols()
    True
    """
    return sorted(path.stem for path in protocol_folder().glob("*.toml"))


def load_protocol(name: str | os.PathLike[str]) -> Protocol:
    """Load a shipped protocol by name, or any by the path of its file.

    Raises
    ------
    ProtocolError
        If there is none of this name (close ones are offered), or the file is malformed.
    """
    text = os.fspath(name)
    is_path = isinstance(name, os.PathLike) or text.endswith(".toml") or os.sep in text
    path = Path(text) if is_path else protocol_folder() / f"{text}.toml"
    if not path.is_file():
        if is_path:
            raise ProtocolError(f"{path}: no such protocol file")
        near = difflib.get_close_matches(text, list_protocols(), n=3, cutoff=0.5)
        offer = f"did you mean {' or '.join(near)}?" if near else "rve protocols list names them"
        raise ProtocolError(f"no protocol is called {text!r}; {offer}")
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{path} is not valid TOML: {error}") from None
    return Protocol.from_dict(content, source=str(path))


def _digest(content: object) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def _place(fault: Any) -> str:
    """Return the keys that lead to a fault, without the checker's names for types."""
    parts = [str(part) for part in fault["loc"]]
    if parts[:1] == ["relevance"] and len(parts) > 1:
        parts = [parts[0], *parts[2:]]  # the second one is the kind
    types = ("int", "str", "float", "bool")
    return ".".join(p for p in parts if "[" not in p and "-" not in p and p not in types)


def _describe(fault: Any) -> str:
    """Say where a fault is and how to mend it, without the checker's own jargon."""
    where = _place(fault)
    if fault["type"] == "extra_forbidden":
        known = _keys_at(fault["loc"][:-1])
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
        offer = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        return f"{where}: unknown key; {offer}"
    if fault["type"] == "missing":
        return f"{where}: is needed"
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"{where}.kind: one of label, within is needed"
    given = fault.get("input")
    shown = f", not {given!r}" if isinstance(given, str | int | float | bool) else ""
    return f"{where}: {str(fault['msg'])[0].lower()}{str(fault['msg'])[1:]}{shown}"


def _keys_at(place: tuple[Any, ...]) -> list[str]:
    tables: dict[str, type[BaseModel]] = {
        "query": SideTable, "gallery": SideTable, "evaluation": EvaluationTable,
        "report": ReportTable, "interval": IntervalTable, "count": CountTable,
        "expected": ExpectedTable, "label": LabelRule, "within": WithinRule,
    }  # fmt: skip
    if "ignore" in place:
        return list(IgnoreEntry.model_fields)
    for part in reversed(place):
        if part in tables:
            return list(tables[part].model_fields)
    return list(Protocol.model_fields)


def _toml(content: Mapping[str, Any]) -> str:
    """Write plain tables as TOML: one level of headings, anything deeper inline."""
    lines = [
        f"{key} = {_value(value)}"
        for key, value in content.items()
        if value is not None and not isinstance(value, dict)
    ]
    for key, value in content.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]"]
            lines += [f"{k} = {_value(v)}" for k, v in value.items() if v is not None]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise FormatError(f"{type(value).__name__} cannot be written as TOML")


def _key(key: str) -> str:
    plain = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if plain else json.dumps(key, ensure_ascii=False)
