"""What is taken from runs, and the matching of their queries."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, FormatError, InputNotFoundError, counted, name_some
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.result import Result
from reid_vpr_eval.studies.comparison.agreement import Identity, differences_of, shared_keys
from reid_vpr_eval.studies.comparison.grouping import Group, Source
from reid_vpr_eval.studies.comparison.values import (
    check_comparable,
    macro_weights,
    mean_of,
    query_values,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Model", "Shared", "load_models", "matched"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Model:
    """One model with its runs, without their counts.

    Attributes
    ----------
    name, letter : str
        What it is called, and what stands for it in tables.
    sources : tuple of str
        Its runs.
    metrics : tuple of str
        What is compared by.
    identities : list of Identity
        Of each run.
    values : list of mapping of str to float array (n_query,)
        Of each run, by metric.
    weights : list of float arrays (n_query,)
        What queries weigh in the means of each run; empty where all weigh the same.
    own : mapping of str to float
        What the model reports itself: of one run, or the means over draws.
    intervals : mapping
        The intervals of a single run.
    spreads : list of mapping of str to (int, float)
        Of runs whose gallery is drawn: number of draws and standard deviation between them.
    """

    name: str
    letter: str
    sources: tuple[str, ...]
    metrics: tuple[str, ...]
    identities: list[Identity] = field(default_factory=list)
    values: list[dict[str, Floats]] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    own: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, Any] = field(default_factory=dict)
    spreads: list[dict[str, tuple[int, float]]] = field(default_factory=list)

    @property
    def drawn(self) -> bool:
        """Whether its numbers are means over draws of the gallery."""
        return bool(self.spreads)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Shared:
    """The queries that all runs have, and the values of each model there.

    Attributes
    ----------
    values : mapping of str to float array (n_query, n_models)
        By metric; means over the runs of a model.
    each : mapping of str to list of float arrays (n_query, n_runs)
        By metric and model.
    inside : mapping of str to bool array (n_query,)
        The queries that are in the mean of every run.
    units : array of str (n_query,) or None
        What each belongs to; None for nothing but itself.
    unit_word : str
        What that is called.
    weights : float array (n_query,) or None
        What each weighs in a mean.
    table : pandas.DataFrame
        As in Comparison.per_query.
    faults, notes : list of str
        In what runs differ that they should not, and what else a reader should know.
    whole : bool
        Whether every query of every run is here.
    """

    values: dict[str, Floats]
    each: dict[str, list[Floats]]
    inside: dict[str, npt.NDArray[np.bool_]]
    units: npt.NDArray[np.str_] | None
    unit_word: str
    weights: Floats | None
    table: pd.DataFrame
    faults: list[str]
    notes: list[str]
    whole: bool

    def mean(self, metric: str, model: int) -> float:
        """Return the mean of a model over the queries that are compared."""
        return self._mean(metric, self.values[metric][:, model])

    def spread(self, metric: str, model: int) -> float | None:
        """Return the standard deviation over the runs of a model; None for one run."""
        runs = self.each[metric][model]
        if runs.shape[1] < 2:
            return None
        return float(np.std([self._mean(metric, column) for column in runs.T], ddof=1))

    def own_interval(
        self, models: Sequence[Model], metric: str, model: int, level: float
    ) -> tuple[float, float] | None:
        """Return the interval that a run reports itself, if it is of just these queries."""
        one = models[model].intervals.get(metric)
        known = ~np.isnan(self.values[metric][:, model])
        if one is None or not self.whole or (known & ~self.inside[metric]).any():
            return None
        return (one.low, one.high) if abs(one.level - level) < 1e-9 else None

    def _mean(self, metric: str, column: Floats) -> float:
        inside = self.inside[metric]
        weights = None if self.weights is None else self.weights[inside]
        return mean_of(column[inside], None if weights is None else weights / weights.mean())


def load_models(
    groups: Sequence[Group], metric: str | Sequence[str] | None
) -> tuple[list[Model], Protocol]:
    """Load runs one by one and keep what a comparison needs; return the first one's protocol.

    Raises
    ------
    FormatError, InputNotFoundError
        If a folder holds no run.
    NotCountedError, ProtocolError
        If there is no such metric, or no value of it for each query.
    """
    models: list[Model] = []
    protocol: Protocol | None = None
    names: tuple[str, ...] = ()
    for number, group in enumerate(groups):
        model: Model | None = None
        for i, source in enumerate(group.sources):
            result = _loaded(source)
            if protocol is None:
                protocol, names = result.protocol, _metrics(result, metric)
            if model is None:
                model = Model(
                    name=group.name, letter=_letter(number), metrics=names,
                    sources=tuple(map(_told, group.sources)),
                )  # fmt: skip
            _add(model, result, protocol.report.ties, group.described(i))
        assert model is not None  # noqa: S101 (a group is never empty)
        models.append(model)
    assert protocol is not None  # noqa: S101
    return models, protocol


def _told(source: Source) -> str:
    return "a result in memory" if isinstance(source, Result) else str(source)


def _letter(number: int) -> str:
    """Return a, b, ... z, aa, ab ..."""
    letters = string.ascii_lowercase
    return letters[number] if number < 26 else _letter(number // 26 - 1) + letters[number % 26]


def _loaded(source: Source) -> Result:
    if isinstance(source, Result):
        return source
    folder = Path(source)
    if not folder.exists():
        raise InputNotFoundError(
            f"{folder}: no such folder; name a run folder, as written by rve run --out"
        )
    if folder.is_file():
        raise FormatError(f"{folder} is a file: name the run folder that holds it")
    if (folder / "result.json").is_file() and not (folder / "per_query.csv").is_file():
        raise InputNotFoundError(
            f"{folder} holds no per_query.csv, without which nothing can be compared query by "
            "query: evaluate again with --out"
        )
    return Result.load(folder)


def _metrics(result: Result, wanted: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return canonical names, each once; by default the first reported mean over queries."""
    if wanted is None or not len(wanted):
        means = [m for m in result.metrics if parse(m).metric.aggregate == "mean"]
        if not means:
            check_comparable(parse(next(iter(result.metrics))))
        return tuple(means[:1])
    names = [parse(one) for one in ([wanted] if isinstance(wanted, str) else wanted)]
    for name in names:
        check_comparable(name)
    return tuple(dict.fromkeys(map(str, names)))


def _add(model: Model, result: Result, ties: str, run: str) -> None:
    """Add a run to a model."""
    model.identities.append(Identity.of(result, run))
    n = len(model.identities)
    for name, value in result.metrics.items():
        model.own[name] = (model.own.get(name, 0.0) * (n - 1) + value) / n
    if result.protocol.draw is not None or result.draws is not None:
        model.spreads.append(_draw_spread(result))
        return
    found = {name: query_values(result, name, ties=ties, run=run) for name in model.metrics}
    model.values.append(found)
    inside = np.all([~np.isnan(column) for column in found.values()], axis=0)
    weights = macro_weights(result, inside)
    if weights is not None:
        model.weights.append(np.full(len(inside), np.nan))
        model.weights[-1][inside] = weights
    model.intervals.clear()
    if n == 1:
        model.intervals.update({k: v for k, v in result.intervals.items() if v is not None})


def _draw_spread(result: Result) -> dict[str, tuple[int, float]]:
    """Return the number of draws and the standard deviation between them, by metric."""
    if result.draws is None:
        return {}
    values = result.draws.groupby("metric", sort=False)["value"]
    return {str(name): (len(column), float(column.std())) for name, column in values
            if len(column) > 1}  # fmt: skip


def matched(models: Sequence[Model], *, force: bool, unit: str | None) -> Shared:
    """Match the queries of all runs by name.

    Raises
    ------
    AlignmentError
        If runs differ in what they should not, unless `force`; or share no query.
    FormatError
        If there is no such unit.
    """
    import pandas as pd

    runs = [one for model in models for one in model.identities]
    faults = [fault for other in runs[1:] for fault in differences_of(runs[0], other)]
    if faults and not force:
        listed = "\n".join(f"- {fault}" for fault in faults)
        raise AlignmentError(
            f"these runs cannot be compared:\n{listed}\nCompare runs of one protocol on the same "
            "queries and gallery; or, knowing that the numbers mean different things, force it "
            "(--force, or force=True), on the queries they share"
        )
    keys = shared_keys(runs)
    rows = [[one.rows(keys) for one in model.identities] for model in models]
    first, at = runs[0], rows[0][0]
    units, word, said = _units(first, at, unit)
    each = {
        name: [
            np.stack([one[name][at] for one, at in zip(model.values, mine, strict=True)], axis=1)
            for model, mine in zip(models, rows, strict=True)
        ]
        for name in models[0].metrics
        if all(model.values for model in models)
    }  # fmt: skip
    values = {
        name: np.stack([_mean_over_runs(one) for one in columns], axis=1)
        for name, columns in each.items()
    }
    weights = models[0].weights[0][at] if models[0].weights else None
    whole = all(len(one.keys) == len(keys) for one in runs)
    table: dict[str, Any] = {"query_id": first.keys[at]}
    if units is not None:
        table["unit"] = units
    if "label" in first.facts:
        table["label"] = first.facts["label"][at]
    for name, matrix in values.items():
        table |= {f"{name}:{model.name}": matrix[:, j] for j, model in enumerate(models)}
    notes = [*_forced(faults, len(keys)), *said, *_same_runs(models), *_other_ties(models)]
    inside = {name: np.asarray(~np.isnan(matrix).any(axis=1)) for name, matrix in values.items()}
    for name, matrix in values.items():
        notes += _left_out(models, name, matrix, keys)
    return Shared(
        values=values, each=each, inside=inside, units=units, unit_word=word, weights=weights,
        table=pd.DataFrame(table), faults=faults, notes=notes, whole=whole,
    )  # fmt: skip


def _mean_over_runs(runs: Floats) -> Floats:
    """Average over runs (n_query, n_runs), the order of runs changing no bit."""
    return runs[:, 0] if runs.shape[1] == 1 else np.sort(runs, axis=1).mean(axis=1)


def _units(
    first: Identity, at: npt.NDArray[np.int64], unit: str | None
) -> tuple[npt.NDArray[np.str_] | None, str, list[str]]:
    """Return what each query belongs to, the name of it, and what to say about it."""
    known = [name for name in ("unit", "label", "camera") if name in first.facts]
    if unit == "query":
        return None, "query", []
    if unit is not None and unit not in known:
        raise FormatError(
            f"unit = {unit!r}: the table of queries of {first.run} has for it "
            f"{', '.join(known) or 'nothing'}; 'query' is for queries on their own"
        )
    if unit is None and "unit" not in known:
        said = (
            f"{first.run} names no unit (identity, place, image): every query is taken for "
            "independent, which makes intervals narrow and p small; --unit label may mend it"
        )
        return None, "query", [said]
    column = first.facts[unit or "unit"][at]
    texts = np.array(["" if one is None or one != one else str(one) for one in column], np.str_)
    empty = texts == ""
    if empty.all():
        return None, "query", []
    if empty.any():
        raise FormatError(
            f"{first.run}: column {unit or 'unit'!r} of the table of queries is empty for "
            f"{counted(int(empty.sum()), 'query')}"
        )
    return texts, first.unit if unit is None else unit, []


def _forced(faults: Sequence[str], n: int) -> Iterator[str]:
    for fault in faults:
        yield f"forced: {fault}"
    if faults:
        yield f"forced: compared by the {counted(n, 'query', form=',')} that all runs have"


def _same_runs(models: Sequence[Model]) -> Iterator[str]:
    """Say so where two runs hold the same scores."""
    seen: dict[str, str] = {}
    for model in models:
        for one in model.identities:
            mark = one.inputs.get("scores_fingerprint")
            if mark and mark in seen:
                yield f"{seen[mark]} and {one.run} hold the same scores: is one run given twice?"
            elif mark:
                seen[mark] = one.run


def _other_ties(models: Sequence[Model]) -> Iterator[str]:
    ties = models[0].identities[0].protocol.report.ties
    others = [one.run for model in models for one in model.identities
              if one.protocol.report.ties != ties]  # fmt: skip
    if others:
        yield (
            f"equal scores are read as {ties} for all, as {models[0].name} reports them; "
            f"{name_some(others)} report other readings"
        )


def _left_out(
    models: Sequence[Model], metric: str, values: Floats, keys: npt.NDArray[np.str_]
) -> Iterator[str]:
    """Say which queries are in the mean of some runs and not of others."""
    absent = np.isnan(values)
    partly = absent.any(axis=1) & ~absent.all(axis=1)
    if absent.any(axis=1).all():
        raise AlignmentError(f"no query has a value of {metric} in every run")
    if partly.any():
        lacking = [f"{model.name} lacks {int((absent[:, j] & partly).sum())}"
                   for j, model in enumerate(models) if (absent[:, j] & partly).any()]  # fmt: skip
        yield (
            f"{metric}: {counted(int(partly.sum()), 'query is', 'queries are')} in the mean of "
            f"some runs only ({'; '.join(lacking)}; such as {name_some(keys[partly], 3)}): they "
            "are left out"
        )
