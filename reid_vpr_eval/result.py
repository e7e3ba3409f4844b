"""Result: the numbers of one evaluation with everything needed to trust them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.errors import (
    AlignmentError,
    FormatError,
    NotCountedError,
)
from reid_vpr_eval.metrics import MetricValues, compute, parse
from reid_vpr_eval.metrics.compute import Values
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.summary import table_text
from reid_vpr_eval.tables import csv_bytes, json_bytes, read_json, read_table, records
from reid_vpr_eval.uncertainty import Interval, Intervals, Measured, Units, uncertainty_of
from reid_vpr_eval.uncertainty.units import TRAVERSE

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Result", "curve_of", "curve_values"]

SCHEMA = "reid_vpr_eval.result"
VERSION = 2

#: Tables that a result may lack; each is a file of the run folder.
_OPTIONAL = ("rankings", "beside", "breakdowns", "draws", "places", "track")
_CURVE_COLUMNS = ("run", "protocol", "metric", "k", "value", "low", "high", "n")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
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
    intervals : Intervals
        For each metric its :class:`reid_vpr_eval.uncertainty.Interval`, by unit and with the
        gallery fixed, or None; any spelling is a key.
    interval_reasons : mapping of str to str
        Why a metric has no interval.
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
    beside : pandas.DataFrame or None
        With them: ignored items where they would stand, and the nearest positive below.
        Columns query_id, role, rank, item_id, score.
    breakdowns : pandas.DataFrame or None
        Columns column, value, metric, mean, n_evaluated, n_query, if they were asked for.
    places, track : pandas.DataFrame or None
        Where queries and their first answers were taken, and where the gallery was, if the
        protocol judges by distance; see :mod:`reid_vpr_eval.places`.
    draws : pandas.DataFrame or None
        Columns draw, metric, value, if the gallery was drawn several times: `metrics` holds
        their means, and the table of queries is that of the first draw.
    notes : sequence of str or None
        What deserves a look in the samples and the first answers; None where it was not
        looked for.
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
    beside: pd.DataFrame | None = None
    breakdowns: pd.DataFrame | None = None
    draws: pd.DataFrame | None = None
    places: pd.DataFrame | None = None
    track: pd.DataFrame | None = None
    notes: Sequence[str] | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=lambda: Intervals({}))
    interval_reasons: Mapping[str, str] = field(default_factory=dict)

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
        values = curve_values(self.ranking, self.protocol, name, k_max)
        table = curve_of(self.protocol, name, values, self._band(values))
        return table[["k", "value", "low", "high"]]

    def _band(self, values: Values) -> Mapping[int, tuple[float, float] | None]:
        """Return intervals of a curve by the units of the table of queries.

        None along a traverse, whose order is not kept.
        """
        made = [interval for interval in self.intervals.values() if interval is not None]
        if not made or made[0].unit == TRAVERSE or self.ranking is None:
            return {}
        names = self.per_query["unit"]
        alone = bool(names.isna().all())
        units = Units(made[0].unit, names=None if alone else names.to_numpy().astype(str))
        curve = {int(parse(name).k): [values.per_query(name)] for name in values}
        measured = Measured({}, curve, self.ranking.n_gallery_ranked)
        return uncertainty_of(self.protocol, units, measured).curve

    def __str__(self) -> str:
        return table_text(self)

    def __repr__(self) -> str:
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
            "intervals": {
                name: None if made is None else made.document()
                for name, made in self.intervals.items()
            },
            "interval_reasons": dict(self.interval_reasons),
            "curves": records(self.curves),
            "notes": None if self.notes is None else list(self.notes),
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
            "per_query.csv": csv_bytes(self.per_query),
            "curves.csv": csv_bytes(self.curves),
            "environment.json": json_bytes(dict(self.environment)),
        }
        optional = {f"{name}.csv": getattr(self, name) for name in _OPTIONAL}
        files |= {name: csv_bytes(table) for name, table in optional.items() if table is not None}
        for name, content in files.items():
            write_atomically(target / name, content)
        for name, kept in (("ranking.npz", self.ranking), *optional.items()):
            if kept is None:
                (target / name).unlink(missing_ok=True)
        if self.ranking is not None:
            self.ranking.save(target / "ranking.npz")
        write_atomically(target / "result.json", json_bytes(self.document()))

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, lenient: bool = False) -> Result:
        """Read a run folder back; the counts come along if they were saved.

        With `lenient` a run without its table of queries is read too, with an empty one.

        Raises
        ------
        FormatError
            If the folder holds no run, or a file of it is damaged.
        """
        import pandas as pd

        source = Path(folder)
        document = read_json(source / "result.json")
        if document.get("schema") != SCHEMA or document.get("version", 0) > VERSION:
            raise FormatError(
                f"{source / 'result.json'}: schema {document.get('schema')!r} version "
                f"{document.get('version')!r} is not read by this installation"
            )
        saved = document["protocol"]
        protocol = Protocol.from_dict(_without_nulls(saved["resolved"]), source=str(source))
        order = [str(parse(name)) for name in protocol.report.metrics]
        tables = {name: read_table(source / f"{name}.csv") for name in _OPTIONAL
                  if (source / f"{name}.csv").is_file()}  # fmt: skip
        environment = source / "environment.json"
        counts = source / "ranking.npz"
        bare = lenient and not (source / "per_query.csv").is_file()
        queries = pd.DataFrame() if bare else read_table(source / "per_query.csv")
        return cls(
            protocol=protocol,
            counts=document["counts"],
            metrics=MetricValues({name: document["metrics"][name] for name in order}),
            ties={name: document["ties"][name] for name in order},
            chance={name: document["chance"][name] for name in order if name in document["chance"]},
            per_query=queries,
            curves=pd.DataFrame(document["curves"], columns=list(_CURVE_COLUMNS)),
            inputs=document["inputs"],
            ranking=Ranking.load(counts) if counts.is_file() else None,
            **tables,
            notes=document.get("notes"),
            environment=read_json(environment) if environment.is_file() else {},
            intervals=Intervals({
                name: None if made is None else Interval.of(made)
                for name, made in ((name, document["intervals"].get(name)) for name in order)
            }),
            interval_reasons=document.get(
                "interval_reasons", dict.fromkeys(order, document.get("interval_reason", ""))
            ),
        )

    def _check_folder(self, target: Path, overwrite: bool) -> None:
        if target.exists() and not target.is_dir():
            raise FormatError(f"{target} is a file: name a folder for the run")
        if overwrite or not (target / "result.json").is_file():
            return
        there = read_json(target / "result.json")
        same_protocol = there.get("protocol", {}).get("judging_hash") == self.protocol.judging_hash
        if not same_protocol or there.get("inputs") != json.loads(json.dumps(dict(self.inputs))):
            what = "other inputs" if same_protocol else "another protocol"
            raise AlignmentError(
                f"{target} holds a run of {what}: choose another folder, or overwrite it "
                "(--overwrite, or overwrite=True)"
            )


def curve_values(ranking: Ranking, protocol: Protocol, metric: str, k_max: int) -> Values:
    """Compute a metric at every cut-off from 1 to `k_max`, by the protocol's policies."""
    return compute(
        ranking,
        [f"{metric}@{k}" for k in range(1, k_max + 1)],
        ties=protocol.report.ties,
        no_positive=protocol.no_positive,
        unretrieved="zero",
        missing_query="zero",
    )


def curve_of(
    protocol: Protocol,
    metric: str,
    values: Values | Mapping[int, float],
    band: Mapping[int, tuple[float, float] | None],
    n_evaluated: int | None = None,
) -> pd.DataFrame:
    """Return values by cut-off, with their intervals, as a tidy table."""
    import pandas as pd

    if isinstance(values, Values):
        n_evaluated = int(values.evaluated.sum())
        values = {int(parse(name).k): value for name, value in values.items()}
    rows = [("", protocol.name, metric, k, value, *(band.get(k) or (None, None)), n_evaluated)
            for k, value in values.items()]  # fmt: skip
    return pd.DataFrame(rows, columns=list(_CURVE_COLUMNS))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value
