"""Conventions as data: the number that other tools' rules give for a ranking, and why."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from reid_vpr_eval.errors import NotCountedError, RelevanceError, counted
from reid_vpr_eval.metrics import TIES, MetricName, Values, compute, parse
from reid_vpr_eval.metrics.compute import exact_mean, view_of
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.result import Result
from reid_vpr_eval.studies.profiles import Profile, ProfileMetric, list_profiles, load_profile
from reid_vpr_eval.summary import shown

__all__ = ["conventions", "conventions_text", "list_profiles", "load_profile", "profile_row"]

Source: TypeAlias = Ranking | Result

_COLUMNS = ("profile", "called", "metric", "value", "ties", "no_positive", "difference", "note")
_SAME = 1e-12
_WIDTHS = (23, 46, 45)


class _Ask(NamedTuple):
    """A number that can be asked of a ranking: a metric and how it is read."""

    metric: str
    ties: str
    no_positive: str
    unretrieved: str = "error"
    missing_query: str = "error"
    empty_list: str = "no_positive"


class _Numbers:
    """Numbers of one ranking, each computed once: a float, or why there is none."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        self._known: dict[_Ask, float | str] = {}

    def __getitem__(self, ask: _Ask) -> float | str:
        self.ask([ask])
        return self._known[ask]

    def ask(self, asks: Iterable[_Ask]) -> None:
        """Compute what is not known yet, everything that is read alike in one go."""
        alike: dict[_Ask, list[str]] = {}
        for ask in dict.fromkeys(asks):
            if ask not in self._known:
                alike.setdefault(ask._replace(metric=""), []).append(ask.metric)
        for policy, names in alike.items():
            found: dict[str, float | str] = {}
            try:
                found.update(_read(self.ranking, policy, names))
            except (NotCountedError, RelevanceError):
                found = {name: self._alone(policy, name) for name in names}
            self._known |= {policy._replace(metric=name): found[name] for name in names}

    def _alone(self, policy: _Ask, name: str) -> float | str:
        try:
            return next(_read(self.ranking, policy, [name]))[1]
        except (NotCountedError, RelevanceError) as error:
            return str(error)


def _read(ranking: Ranking, policy: _Ask, names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Compute metrics, also by the words that `compute` does not know."""
    lone, empty = ranking.n_positive == 0, ranking.depth == 0
    granted = lone & empty if policy.empty_list == "one" else np.zeros_like(lone)
    no_positive = policy.no_positive
    if no_positive in ("undefined", "error"):
        if n_lone := int((lone & ~granted).sum()):
            raise NotCountedError(
                f"undefined ({n_lone} of {counted(len(lone), 'query')} without a positive)"
            )
        no_positive = "zero"
    values = compute(
        ranking, names,
        ties="pessimistic" if policy.ties == "grouped" else policy.ties,
        no_positive=no_positive,  # type: ignore[arg-type]
        unretrieved=policy.unretrieved,  # type: ignore[arg-type]
        missing_query=policy.missing_query,  # type: ignore[arg-type]
    )  # fmt: skip
    for name in names:
        if policy.ties == "grouped":
            yield name, _grouped(ranking, values)
        elif granted.any() and parse(name).metric.aggregate == "mean":
            one = np.where(granted, 1.0, values.per_query(name))
            yield name, exact_mean(one[values.evaluated | granted])
        else:
            yield name, values[name]


def _grouped(ranking: Ranking, values: Values) -> float:
    """Return mAP where every positive has the precision at the end of its tie group."""
    reading = view_of(ranking, "pessimistic").reading
    precision = (reading.right_before + reading.right) / (reading.before + reading.items)
    total = np.bincount(
        reading.query, weights=reading.right * precision, minlength=ranking.n_query
    )
    found = total / np.maximum(reading.n_positive, 1)
    per_query = np.where(reading.n_positive > 0, found, values.per_query("mAP"))
    return exact_mean(per_query[values.evaluated])


def conventions(
    source: Source, profiles: Sequence[str | os.PathLike[str] | Profile] | None = None
) -> pd.DataFrame:
    """Return the number that each tool's rule gives, and what makes it differ.

    Nothing is scored or ranked again: all is read from the counts.

    Parameters
    ----------
    source : Ranking or Result
        What was counted; a result needs its ranking.
    profiles : sequence of str, path or Profile, optional
        All shipped ones by default.

    Returns
    -------
    pandas.DataFrame
        One row for each number of each profile, with the columns profile, called (the
        tool's name for it), metric (ours), value (None where there is none), ties,
        no_positive, difference and note. `difference` compares with the same metric under
        the rules of the result's protocol (of a ranking: plain, with the defaults of
        `compute`): "same", or each option that alone changes the number and by how many
        points, and what all make together where that is not their sum. `note` says why
        there is no value, or else what of the tool is not reproduced.

    Raises
    ------
    NotCountedError
        If the result does not hold its ranking.
    ProtocolError
        If a profile is unknown or malformed.

    Examples
    --------
    >>> from reid_vpr_eval import Relevance, ScoreMatrix, rank
    >>> relevance = Relevance.from_pairs([0, 0], [1, 2], n_query=1, n_gallery=3)
    >>> ranking = rank(ScoreMatrix([[0.9, 0.5, 0.1]], higher_is_better=True), relevance)
    >>> table = conventions(ranking, ["market-matlab"])
    >>> for row in table.itertuples():
    ...     print(row.called, round(row.value, 4), row.difference)
    mAP 0.4167 rule=trapezoid -16.7
    r1 0.0 same
    """
    wanted = list_profiles() if profiles is None else profiles
    loaded = [one if isinstance(one, Profile) else load_profile(one) for one in wanted]
    return _table(source, [(profile, entry) for profile in loaded for entry in profile.metrics])


def _table(source: Source, entries: Sequence[tuple[Profile, ProfileMetric]]) -> pd.DataFrame:
    ranking = source if isinstance(source, Ranking) else source.ranking
    if ranking is None:
        raise NotCountedError(
            "this result does not hold its counts (ranking.npz): evaluate again with "
            "keep_ranking=True and save it"
        )
    numbers = _Numbers(ranking)
    pairs = [(_asked(profile, entry), _reference(source, profile, entry))
             for profile, entry in entries if entry.metric]  # fmt: skip
    numbers.ask(own for own, _ in pairs)
    given = [(own, usual) for own, usual in pairs if isinstance(numbers[own], float)]
    numbers.ask(ask for own, usual in given for ask in (usual, *_switches(usual, own).values()))
    rows = [_row(numbers, source, profile, entry) for profile, entry in entries]
    table = pd.DataFrame(rows, columns=list(_COLUMNS))
    table["value"] = pd.Series([row[3] for row in rows], dtype=object)
    return table


def _row(
    numbers: _Numbers, source: Source, profile: Profile, entry: ProfileMetric
) -> tuple[Any, ...]:
    head = (profile.name, entry.called, entry.metric)
    rules, own = (entry.ties, entry.no_positive), _asked(profile, entry)
    value = f"needs {entry.needs}" if entry.needs else numbers[own]
    if isinstance(value, float):
        value = _depends_on_order(numbers, profile, own) or value
    if isinstance(value, str):
        return (*head, None, *rules, "", value)
    usual = _reference(source, profile, entry)
    return (*head, value, *rules, _difference(numbers, source, usual, own), profile.note)


def _asked(profile: Profile, entry: ProfileMetric) -> _Ask:
    return _Ask(entry.metric, entry.ties, entry.no_positive, profile.unretrieved,
                profile.missing_query, profile.empty_list)  # fmt: skip


def _reference(source: Source, profile: Profile, entry: ProfileMetric) -> _Ask:
    """Return what a number is compared with: the run's own, or else the plain metric."""
    own = parse(entry.metric)
    plain, policies = MetricName(own.name, own.k), (profile.unretrieved, profile.missing_query)
    if isinstance(source, Ranking):
        return _Ask(str(plain), "expected", source.no_positive, *policies)
    protocol = source.protocol
    reported = [parse(name) for name in protocol.report.metrics]
    alike = [name for name in reported if (name.name, name.k) == (own.name, own.k)]
    plain = plain if plain in alike or not alike else alike[0]
    return _Ask(str(plain), protocol.report.ties, protocol.no_positive, *policies)


def _switches(usual: _Ask, own: _Ask) -> dict[str, _Ask]:
    """Return, for each option that differs, the usual number with this option alone changed."""
    out: dict[str, _Ask] = {}
    ours, theirs = parse(usual.metric), parse(own.metric)
    for key, value in theirs.every_option.items():
        if ours.every_option[key] != value:
            options = {**ours.every_option, key: value}
            changed = {k: v for k, v in options.items() if v != ours.metric.defaults[k]}
            name = replace(ours, options=tuple(sorted(changed.items())))
            out[f"{key}={value}"] = usual._replace(metric=str(name))
    for key in ("ties", "no_positive", "empty_list"):
        value = getattr(own, key)
        if getattr(usual, key) != value:
            out[f"{key}={value}"] = usual._replace(**{key: value})
    return out


def _difference(numbers: _Numbers, source: Source, usual: _Ask, own: _Ask) -> str:
    start, end = numbers[usual], numbers[own]
    if isinstance(start, str) or isinstance(end, str):
        return ""
    unit = 1 if parse(own.metric).metric.is_rank else 100
    alone = {label: numbers[ask] for label, ask in _switches(usual, own).items()}
    moves = {label: v - start for label, v in alone.items() if not isinstance(v, str)}
    if isinstance(source, Result) and source.protocol.evaluation.macro:
        averaged = dict(source.metrics).get(usual.metric, start)
        moves["macro=none"], start = start - averaged, averaged
    if abs(end - start) <= _SAME:
        return "same"
    moves = {label: move for label, move in moves.items() if abs(move) > _SAME}
    text = ", ".join(f"{label} {_points(unit * move)}" for label, move in moves.items())
    if moves and abs(sum(moves.values()) - (end - start)) <= _SAME:
        return text
    return f"{text}; together {_points(unit * (end - start))}".removeprefix("; ")


def _points(change: float) -> str:
    return f"{change:+.1f}" if abs(change) >= 0.05 else f"{change:+.1g}"


def _depends_on_order(numbers: _Numbers, profile: Profile, own: _Ask) -> str:
    """Say so if a number hangs on an order of equal scores that was not counted."""
    tie_order = numbers.ranking.tie_order
    if own.ties not in ("index", "reversed") or tie_order == profile.tie_order:
        return ""
    found = [numbers[own._replace(ties=ties)] for ties in TIES]
    bounds = [value for value in found if not isinstance(value, str)]
    if max(bounds) - min(bounds) <= _SAME:
        return ""
    low, high = (shown(own.metric, value) for value in (min(bounds), max(bounds)))
    return (f"depends on the order of equal scores, {low} to {high}; counted was {tie_order!r}: "
            f"rank with tie_order={profile.tie_order!r}")  # fmt: skip


def profile_row(result: Result) -> str:
    """Return the line beside the headline: the first number of the protocol's profile.

    Empty if the protocol names none, or if that tool has no number for this result (the table
    of :func:`conventions` says why). The words in brackets are the options that make it
    differ from the same metric in the result.
    """
    name = result.protocol.report.profile
    if name is None:
        return ""
    profile = load_profile(name)
    entry = profile.metrics[0]
    row = None if result.ranking is None else _table(result, [(profile, entry)]).iloc[0]
    if row is None or row["value"] is None:
        return ""
    words = [label.removeprefix("rule=") for label, _ in _moves(row["difference"])]
    why = ", ".join(word for word in words if word != "together") or "same rule"
    return f"{profile.name}: {entry.called} {shown(entry.metric, row['value'])} ({why})"


def _moves(difference: str) -> list[tuple[str, str]]:
    """Split what `_difference` wrote into options and points."""
    parts = difference.replace(";", ",").split(", ") if " " in difference else []
    return [(option, points) for option, points in (part.split(" ") for part in parts)]


def conventions_text(table: pd.DataFrame, *, notes: bool = False) -> str:
    """Return the table of :func:`conventions` for people: one row a profile, 120 columns.

    Of several options each is shown alone. With `notes` it also says what of each tool is
    not reproduced.
    """
    lines = _lines(["profile"], ["its numbers"], ["against this run's own rules, in points"])
    remarks: dict[tuple[str, str], list[str]] = {}
    for profile, group in groupby(table.to_dict("records"), lambda row: str(row["profile"])):
        rows = list(group)
        numbers = [
            f"{row['called']} "
            f"{'–' if row['value'] is None else shown(row['metric'], row['value'])}"
            for row in rows
        ]
        lines += _lines([profile], _filled(numbers, _WIDTHS[1]), _changes(rows))
        for row in rows:
            if row["value"] is None or (notes and row["note"]):
                called = remarks.setdefault((profile, row["note"]), [])
                called += [row["called"]] if row["value"] is None else []
    lines += [""] * bool(remarks)
    for (profile, note), called in remarks.items():
        text = f"{' '.join([profile, ', '.join(called)]).strip()}: {note}"
        lines += textwrap.wrap(text, 120, subsequent_indent="  ", break_long_words=False)
    return "\n".join(lines)


def _changes(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Gather by option what each number moves by."""
    by_option: dict[str, list[str]] = {}
    for row in rows:
        moves = _moves(row["difference"])
        for option, points in moves:
            if option != "together" or len(moves) == 1:
                by_option.setdefault(option, []).append(f"{row['called']} {points}")
    if not by_option:
        return ["same" if any(row["difference"] == "same" for row in rows) else ""]
    filled = [_filled([f"{key}:", *moved], _WIDTHS[2]) for key, moved in by_option.items()]
    return [line for lines in filled for line in lines]


def _filled(pieces: Sequence[str], width: int) -> list[str]:
    """Set pieces in lines without breaking one."""
    lines = [""]
    for piece in pieces:
        joined = f"{lines[-1]}  {piece}" if lines[-1] else piece
        if len(joined) > width and lines[-1]:
            lines.append(f"  {piece}")
        else:
            lines[-1] = joined
    return lines


def _lines(*cells: list[str]) -> list[str]:
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, _WIDTHS, strict=True)).rstrip()
        for row in zip_longest(*cells, fillvalue="")
    ]
