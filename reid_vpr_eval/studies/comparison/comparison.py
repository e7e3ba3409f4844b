"""Comparison: what a comparison of runs found, and how it was found."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.studies.comparison.text import comparison_text
from reid_vpr_eval.tables import csv_bytes, json_bytes, records

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "Difference", "RunValue", "Settings"]

SCHEMA = "reid_vpr_eval.comparison"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunValue:
    """A metric of one model.

    Attributes
    ----------
    metric, run, letter : str
        The metric, what the model is called, and the letter that stands for it in tables.
    value : float
        Over the queries that are compared; the mean over its runs, if there are several.
    low, high : float or None
        The interval of the value, over queries by unit.
    n_runs : int
        How many runs (seeds, checkpoints) the value is the mean of.
    sd_runs : float or None
        The standard deviation of the metric over these runs; no interval.
    n_draws, sd_draws : int, float or None
        The same over draws of the gallery.
    own : float or None
        What the run itself reports, where it is one run and reports this metric.
    beats : tuple of str
        Letters of the runs that it is significantly better than.
    """

    metric: str
    run: str
    letter: str
    value: float
    low: float | None = None
    high: float | None = None
    n_runs: int = 1
    sd_runs: float | None = None
    n_draws: int | None = None
    sd_draws: float | None = None
    own: float | None = None
    beats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A run against another one, by one metric.

    Attributes
    ----------
    metric, run, baseline : str
        What is compared with what: differences are those of the run less the baseline.
    value, baseline_value, difference : float
        The metric of both over the compared queries, and the difference.
    low, high : float or None
        The interval of the difference, by unit.
    method : {"t", "bca", ""}
        How it was made.
    p, p_corrected : float or None
        Of the sign-flip test, alone and corrected for the pairs of this metric.
    significant : bool
        Whether the corrected p is at most 1 - level.
    effect : float or None
        The mean difference of queries over its standard deviation.
    better, worse, equal : float
        Shares of the queries that the run does better, worse or equally well.
    only_run, only_baseline : int or None
        For hits: queries that only the run gets right, or only the baseline.
    p_mcnemar : float or None
        For hits: the exact test on these two, which takes queries for independent.
    n_query, n_units, n_moving : int
        Compared queries, units they belong to, and units that differ between the two.
    exact : bool
        Whether p went through all sign changes.
    p_least : float or None
        The smallest p that this test could have given.
    reason : str
        Why there is no interval or no test.
    """

    metric: str
    run: str
    baseline: str
    value: float
    baseline_value: float
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_corrected: float | None = None
    significant: bool = False
    effect: float | None = None
    better: float | None = None
    worse: float | None = None
    equal: float | None = None
    only_run: int | None = None
    only_baseline: int | None = None
    p_mcnemar: float | None = None
    n_query: int = 0
    n_units: int = 0
    n_moving: int = 0
    exact: bool = False
    p_least: float | None = None
    method: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the comparison was made.

    Attributes
    ----------
    level : float
        Of intervals; differences are significant at 1 - level.
    resamples, seed : int
        Of the sign changes.
    interval_resamples : int
        Of the bootstrap, with the same seed.
    correction : {"max-t", "holm", "none"}
        For several pairs.
    unit : str
        What changes sign and is resampled together.
    ties : str
        How equal scores are read.
    forced : bool
        Whether runs were compared although they differ in what they should not.
    """

    level: float
    resamples: int
    seed: int
    interval_resamples: int
    correction: str
    unit: str
    ties: str
    forced: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Comparison:
    """What a comparison of runs found; printing it gives the tables.

    Attributes
    ----------
    protocol : Protocol
        Of the first run.
    metrics : tuple of str
        What was compared by, in canonical names.
    runs : tuple of str
        What the models are called; the first is the baseline.
    sources : tuple of tuple of str
        The runs of each model.
    values : tuple of RunValue
        Each metric of each model.
    differences : tuple of Difference
        Each metric of each pair.
    per_query : pandas.DataFrame
        Columns query_id, unit, label where there is one, and ``METRIC:RUN`` for every metric
        and model: the values that were compared, NaN where a query is not in the mean.
    settings : Settings
        How it was made.
    inputs : tuple of mapping
        The fingerprints of each model's first run.
    notes : tuple of str
        What a reader should know.
    """

    protocol: Protocol
    metrics: tuple[str, ...]
    runs: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]
    values: tuple[RunValue, ...]
    differences: tuple[Difference, ...]
    per_query: pd.DataFrame
    settings: Settings
    inputs: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """The first metric."""
        return self.metrics[0]

    def value(self, run: str, metric: str | None = None) -> RunValue:
        """Return a metric of a model.

        Raises
        ------
        NotCountedError
            If there is none.
        """
        wanted = str(parse(metric or self.metric))
        for one in self.values:
            if (one.run, one.metric) == (run, wanted):
                return one
        raise NotCountedError(
            f"no {wanted} of {run!r}: compared were {', '.join(self.metrics)} of "
            f"{', '.join(self.runs)}"
        )

    def difference(
        self, run: str, baseline: str | None = None, metric: str | None = None
    ) -> Difference:
        """Return the difference of a pair; by default to the first run, by the first metric.

        Raises
        ------
        NotCountedError
            If this pair was not compared.
        """
        wanted = (str(parse(metric or self.metric)), run, baseline or self.runs[0])
        for one in self.differences:
            if (one.metric, one.run, one.baseline) == wanted:
                return one
        pairs = ", ".join(f"{one.run} less {one.baseline}" for one in self.differences
                          if one.metric == self.metric)  # fmt: skip
        raise NotCountedError(
            f"{wanted[1]!r} was not compared with {wanted[2]!r} by {wanted[0]}: there are {pairs} "
            f"by {', '.join(self.metrics)}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the differences, one row a metric and pair; columns as in :class:`Difference`."""
        import pandas as pd

        table = pd.DataFrame([asdict(one) for one in self.differences])
        # Whole numbers stay whole beside what has none.
        for name in ("only_run", "only_baseline"):
            table[name] = table[name].astype("Int64")
        return table

    def runs_frame(self) -> pd.DataFrame:
        """Return the values of the models, one row a metric and model."""
        import pandas as pd

        rows = [asdict(one) | {"beats": " ".join(one.beats)} for one in self.values]
        return pd.DataFrame(rows)

    def changed(
        self,
        n: int = 10,
        *,
        run: str | None = None,
        baseline: str | None = None,
        metric: str | None = None,
    ) -> pd.DataFrame:
        """Return the queries that changed most, at most `n` for the better and `n` for the worse.

        Parameters
        ----------
        n : int
            How many each way.
        run, baseline, metric : str, optional
            By default the second run against the first, by the first metric.

        Returns
        -------
        pandas.DataFrame
            Columns query_id, unit and label where there are any, way ("better" or "worse"),
            baseline, run (the two values) and difference (run less baseline). The largest
            change first, equal changes in the order of ids; queries that did not change are
            never listed.
        """
        import pandas as pd

        name = str(parse(metric or self.metric))
        wanted = (run or self.runs[1], baseline or self.runs[0])
        sign = 1.0 if parse(name).metric.direction == "up" else -1.0
        columns = [f"{name}:{one}" for one in wanted]
        if not set(columns) <= set(self.per_query.columns):
            raise NotCountedError(
                f"there are no values of {name} for the queries of {' and '.join(wanted)}: "
                f"compared were {', '.join(self.metrics)} of {', '.join(self.runs)}"
            )
        known = [c for c in ("query_id", "unit", "label") if c in self.per_query]
        table = self.per_query[known].copy()
        ours, theirs = (self.per_query[column].to_numpy(float) for column in columns)
        table["way"] = np.where(sign * (ours - theirs) > 0, "better", "worse")
        table["baseline"], table["run"], table["difference"] = theirs, ours, ours - theirs
        size = np.nan_to_num(np.abs(ours - theirs))
        table = table[size > _SAME * max(1.0, float(size.max(initial=0.0)))]
        order = np.argsort(-table["difference"].abs().to_numpy(), kind="stable")
        table = table.iloc[order]
        parts = [table[table["way"] == way].head(n) for way in ("better", "worse")]
        listed: pd.DataFrame = pd.concat(parts, ignore_index=True)
        return listed

    def __str__(self) -> str:
        return comparison_text(self)

    def __repr__(self) -> str:
        return comparison_text(self)

    def document(self, *, changed: int = 10) -> dict[str, Any]:
        """Return the content of comparison.json, with so many changed queries each way."""
        pairs = [(one.metric, one.run, one.baseline) for one in self.differences]
        listed = [
            {"metric": name, "run": run, "baseline": base,
             "queries": records(self.changed(changed, run=run, baseline=base, metric=name))}
            for name, run, base in pairs
            if f"{name}:{run}" in self.per_query
        ]  # fmt: skip
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "protocol": {
                "name": self.protocol.name,
                "version": self.protocol.version,
                "judging_hash": self.protocol.judging_hash,
            },
            "metrics": list(self.metrics),
            "runs": [
                {"name": name, "sources": list(sources), "inputs": inputs}
                for name, sources, inputs in zip(
                    self.runs, self.sources, self.inputs, strict=True
                )
            ],
            "values": [asdict(one) for one in self.values],
            "differences": [asdict(one) for one in self.differences],
            "changed": listed,
            "settings": asdict(self.settings),
            "notes": list(self.notes),
        }

    def save(self, folder: str | os.PathLike[str], *, changed: int = 10) -> None:
        """Write comparison.json, comparison.csv (differences) and comparison_queries.csv.

        The same runs and settings give the same bytes.
        """
        target = Path(folder)
        write_atomically(target / "comparison.csv", csv_bytes(self.to_frame()))
        write_atomically(target / "comparison_queries.csv", csv_bytes(self.per_query))
        write_atomically(
            target / "comparison.json", json_bytes(self.document(changed=changed))
        )


_SAME = 1e-12


