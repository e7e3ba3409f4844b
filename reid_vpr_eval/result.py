"""Result: the numbers of one evaluation with everything needed to trust them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.errors import (
    AlignmentError,
    FormatError,
    InputNotFoundError,
    NotCountedError,
)
from reid_vpr_eval.metrics import MetricValues, compute, parse
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import Ranking

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NO_INTERVAL", "Result", "curve_table", "spelled"]

SCHEMA = "reid_vpr_eval.result"
VERSION = 1
#: Why intervals are null.
NO_INTERVAL = "intervals are not computed by this version"

_VISIBLE = 0.0005
_CURVE_COLUMNS = ("run", "protocol", "metric", "k", "value", "low", "high", "n")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Result:
    """What an evaluation found.

    Attributes
    ----------
    protocol : Protocol
        What was evaluated.
    counts : mapping of str to number
        n_query, n_evaluated, n_no_positive, n_gallery, n_gallery_ignored,
        n_gallery_ranked, n_positive_pairs, n_ignored_pairs, n_self_pairs, n_tied_queries
        and ceiling (the highest hit rate that these queries allow).
    metrics : MetricValues
        The reported numbers, shares in [0, 1] or ranks; any spelling is a key.
    ties : mapping of str to mapping
        For each metric its value with equal scores read as expected, optimistic,
        pessimistic and index.
    chance : mapping of str to float
        The exact expectation of each metric for a ranking without information.
    intervals : mapping of str to None
        Null, with the reason in `interval_reason`, as long as there are none.
    per_query : pandas.DataFrame
        One row a query.
    curves : pandas.DataFrame
        Columns run, protocol, metric, k, value, low, high, n.
    inputs : mapping of str to str
        Fingerprints of samples and scores, and what kind of scores they were.
    ranking : Ranking or None
        The counts, if they were kept.
    rankings : pandas.DataFrame or None
        The top-k lists, if they were asked for.
    environment : mapping
        Versions, machine, seconds and time; not part of the result proper.
    """

    protocol: Protocol
    counts: Mapping[str, float]
    metrics: MetricValues
    ties: Mapping[str, Mapping[str, float]]
    chance: Mapping[str, float]
    per_query: pd.DataFrame
    curves: pd.DataFrame
    inputs: Mapping[str, Any]
    ranking: Ranking | None = None
    rankings: pd.DataFrame | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    interval_reason: str = NO_INTERVAL

    @property
    def intervals(self) -> Mapping[str, None]:
        """Intervals by metric: none yet, see `interval_reason`."""
        return dict.fromkeys(self.metrics)

    def curve(self, metric: str = "CMC", k_max: int = 50) -> pd.DataFrame:
        """Return a metric at every cut-off from 1 to `k_max`: columns k, value, low, high.

        Raises
        ------
        NotCountedError
            If the counts were not kept and the saved curve is shorter.
        """
        name = str(parse(f"{metric}@1").name)
        saved = self.curves[(self.curves["metric"] == name) & (self.curves["k"] <= k_max)]
        if len(saved) >= k_max:
            return saved.head(k_max)[["k", "value", "low", "high"]].reset_index(drop=True)
        if self.ranking is None:
            raise NotCountedError(
                f"the curve of {metric} up to {k_max} needs the counts, which this result does "
                f"not hold: evaluate with keep_ranking=True (saved: up to {len(saved)})"
            )
        table = curve_table(self.ranking, self.protocol, name, k_max)
        return table[["k", "value", "low", "high"]]

    def __str__(self) -> str:
        return table_text(self)

    def document(self) -> dict[str, Any]:
        """Return the content of result.json."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "protocol": {
                "name": self.protocol.name,
                "version": self.protocol.version,
                "judging_hash": self.protocol.judging_hash,
                "reporting_hash": self.protocol.reporting_hash,
                "resolved": self.protocol.resolved(),
            },
            "inputs": dict(self.inputs),
            "counts": dict(self.counts),
            "metrics": dict(self.metrics),
            "ties": {name: dict(bounds) for name, bounds in self.ties.items()},
            "chance": dict(self.chance),
            "intervals": dict(self.intervals),
            "interval_reason": self.interval_reason,
            "curves": _records(self.curves),
        }

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the run folder: result.json, tables, counts and environment.json.

        Raises
        ------
        AlignmentError
            If the folder holds a run of another protocol or other inputs, unless
            `overwrite` is given.
        """
        target = Path(folder)
        self._check_folder(target, overwrite)
        files = {
            "per_query.csv": _csv(self.per_query),
            "curves.csv": _csv(self.curves),
            "environment.json": _json(dict(self.environment)),
        }
        if self.rankings is not None:
            files["rankings.csv"] = _csv(self.rankings)
        for name, content in files.items():
            write_atomically(target / name, content)
        for name, kept in (("ranking.npz", self.ranking), ("rankings.csv", self.rankings)):
            if kept is None:
                (target / name).unlink(missing_ok=True)
        if self.ranking is not None:
            self.ranking.save(target / "ranking.npz")
        write_atomically(target / "result.json", _json(self.document()))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Result:
        """Read a run folder back; the counts come along if they were saved.

        Raises
        ------
        FormatError
            If the folder holds no run, or a file of it is damaged.
        """
        import pandas as pd

        source = Path(folder)
        document = _read_json(source / "result.json")
        if document.get("schema") != SCHEMA or document.get("version", 0) > VERSION:
            raise FormatError(
                f"{source / 'result.json'}: schema {document.get('schema')!r} version "
                f"{document.get('version')!r} is not read by this installation"
            )
        saved = document["protocol"]
        protocol = Protocol.from_dict(_without_nulls(saved["resolved"]), source=str(source))
        order = [str(parse(name)) for name in protocol.report.metrics]
        lists = source / "rankings.csv"
        environment = source / "environment.json"
        counts = source / "ranking.npz"
        return cls(
            protocol=protocol,
            counts=document["counts"],
            metrics=MetricValues({name: document["metrics"][name] for name in order}),
            ties={name: document["ties"][name] for name in order},
            chance={name: document["chance"][name] for name in order if name in document["chance"]},
            per_query=_read_table(source / "per_query.csv"),
            curves=pd.DataFrame(document["curves"], columns=list(_CURVE_COLUMNS)),
            inputs=document["inputs"],
            ranking=Ranking.load(counts) if counts.is_file() else None,
            rankings=_read_table(lists) if lists.is_file() else None,
            environment=_read_json(environment) if environment.is_file() else {},
            interval_reason=document["interval_reason"],
        )

    def _check_folder(self, target: Path, overwrite: bool) -> None:
        if target.exists() and not target.is_dir():
            raise FormatError(f"{target} is a file: name a folder for the run")
        if overwrite or not (target / "result.json").is_file():
            return
        there = _read_json(target / "result.json")
        same_protocol = there.get("protocol", {}).get("judging_hash") == self.protocol.judging_hash
        if not same_protocol or there.get("inputs") != json.loads(json.dumps(dict(self.inputs))):
            what = "other inputs" if same_protocol else "another protocol"
            raise AlignmentError(
                f"{target} holds a run of {what}: choose another folder, or overwrite it "
                "(--overwrite, or overwrite=True)"
            )


def curve_table(ranking: Ranking, protocol: Protocol, metric: str, k_max: int) -> pd.DataFrame:
    """Compute a metric at every cut-off from 1 to `k_max`, as a tidy table."""
    import pandas as pd

    values = compute(
        ranking,
        [f"{metric}@{k}" for k in range(1, k_max + 1)],
        ties=protocol.report.ties,
        no_positive=protocol.no_positive,
        unretrieved="zero",
        missing_query="zero",
    )
    rows = [
        ("", protocol.name, metric, k, values[f"{metric}@{k}"], None, None,
         int(values.evaluated.sum()))
        for k in range(1, k_max + 1)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(_CURVE_COLUMNS))


def spelled(name: str, protocol: Protocol) -> str:
    """Return a metric's name as the protocol prints it.

    >>> from reid_vpr_eval import load_protocol
    >>> spelled("CMC@5", load_protocol("market1501"))
    'Rank-5'
    """
    parsed = parse(name)
    if parsed.name == "CMC" and not parsed.options:
        return protocol.report.spelling.format(k=parsed.k)
    return str(parsed)


def shown(name: str, value: float) -> str:
    """Return a number as a person reads it: percent with one decimal, ranks as they are."""
    return f"{value:.1f}" if parse(name).metric.is_rank else f"{100 * value:.1f}"


def table_text(result: Result) -> str:
    """Return the table that a paper would print, with what it was computed on."""
    protocol, counts = result.protocol, result.counts
    heading = protocol.title or protocol.name
    if protocol.status == "withdrawn":
        heading += " (the data set was withdrawn by its authors)"
    names = [spelled(name, protocol) for name in result.metrics]
    values = [shown(name, value) for name, value in result.metrics.items()]
    widths = [max(len(name), len(value)) for name, value in zip(names, values, strict=True)]
    lines = [
        heading,
        "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True)),
        "  ".join(value.rjust(width) for value, width in zip(values, widths, strict=True)),
        f"{counts['n_evaluated']:.0f} of {counts['n_query']:.0f} queries "
        f"({counts['n_no_positive']:.0f} without a positive: {protocol.no_positive}), "
        f"{counts['n_gallery_ranked']:.0f} of {counts['n_gallery']:.0f} gallery items, "
        f"{counts['n_positive_pairs']:.0f} positive pairs, ceiling "
        f"{100 * counts['ceiling']:.1f}",
        *_tie_lines(result),
        f"protocol {protocol.name} v{protocol.version}, judged by {protocol.judging_hash[:12]}, "
        f"{result.inputs.get('metric') or result.inputs.get('scores')}",
    ]
    return "\n".join(lines)


def _tie_lines(result: Result) -> list[str]:
    """Say how much equal scores matter, if they do."""
    tied = result.counts["n_tied_queries"]
    if not tied:
        return []
    lines = [f"equal scores in {tied:.0f} queries; bounds where they matter:"]
    for name, bounds in result.ties.items():
        unit = 1.0 if parse(name).metric.is_rank else 100.0
        low, high = sorted((bounds["pessimistic"], bounds["optimistic"]))
        if high - low >= _VISIBLE * 100 / unit:
            text = f"  {spelled(name, result.protocol)} {unit * low:.2f} to {unit * high:.2f}"
            if abs(bounds["index"] - result.metrics[name]) >= _VISIBLE * 100 / unit:
                text += f", {unit * bounds['index']:.2f} in gallery order"
            lines.append(text)
    return lines if len(lines) > 1 else [lines[0].split(";")[0]]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def _json(content: object) -> bytes:
    text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def _csv(table: pd.DataFrame) -> bytes:
    stream = StringIO()
    table.to_csv(stream, index=False, lineterminator="\n")
    return stream.getvalue().encode()


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputNotFoundError(f"{path.parent} is no run folder: it holds no {path.name}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path} is damaged: an object is expected")
    return content


def _read_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise InputNotFoundError(f"{path}: this file of the run is missing")
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, pd.errors.ParserError) as error:
        raise FormatError(f"{path} is damaged: {error}") from None
    return pd.DataFrame({name: _typed(table[name].tolist()) for name in table.columns})


def _typed(texts: list[str]) -> list[Any]:
    """Give a column of texts the type that writes back to the same texts."""
    for kind in (_whole, _number, _truth):
        values = [kind(text) for text in texts]
        if all(value is not _NOT for value in values):
            return values
    return texts


_NOT: Any = object()


def _whole(text: str) -> Any:
    plain = text.removeprefix("-").isdecimal() and text.isascii()
    return int(text) if plain and str(int(text)) == text else _NOT


def _number(text: str) -> Any:
    if not text:
        return float("nan")
    try:
        return float(text) if repr(float(text)) == text else _NOT
    except ValueError:
        return _NOT


def _truth(text: str) -> Any:
    return {"True": True, "False": False}.get(text, _NOT)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as JSON values at full precision, null where there is none."""
    columns = {name: table[name].tolist() for name in table.columns}
    return [
        {name: None if value != value else value for name, value in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]
