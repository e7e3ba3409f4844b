"""Whether runs may be compared: the same judging, queries and gallery; else what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError, counted, name_some
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.result import Result

__all__ = ["Identity", "differences_of", "shared_keys"]

_FACTS = ("label", "camera", "n_positive", "n_ignored")
#: The parts of a protocol that decide whether two numbers may be compared.
_JUDGED = ("query", "gallery", "relevance", "multi_query", "draw", "evaluation", "count")
_SHORT = 12


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Identity:
    """What a run was made with, and its queries.

    Attributes
    ----------
    run : str
        What the run is called.
    protocol : Protocol
        By which it was judged.
    inputs, counts : mapping
        Fingerprints, and what was counted.
    keys : array of str (n_query,)
        What its queries are called.
    by_position : bool
        Whether these may be positions rather than names.
    unit : str
        What its intervals call the unit of a query; "unit" if it has none.
    facts : mapping of str to array (n_query,)
        What the judging says of each query: label, camera, numbers of positives and of
        ignored items; and its unit.
    """

    run: str
    protocol: Protocol
    inputs: Mapping[str, Any]
    counts: Mapping[str, float]
    keys: npt.NDArray[np.str_]
    by_position: bool
    unit: str
    facts: Mapping[str, npt.NDArray[Any]]

    def rows(self, keys: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
        """Return the row of each of these queries."""
        order = np.argsort(self.keys)
        return np.asarray(order[np.searchsorted(self.keys[order], keys)], np.int64)

    @classmethod
    def of(cls, result: Result, run: str) -> Identity:
        """Take what is needed of a result.

        Raises
        ------
        NotCountedError
            If it has no table of queries.
        """
        table = result.per_query
        if "query_id" not in table or not len(table):
            raise NotCountedError(
                f"{run}: it has no table of queries (per_query.csv), without which nothing can be "
                "compared query by query: evaluate again, and save the run"
            )
        keys = table["query_id"].astype(str).to_numpy(dtype=np.str_)
        if len(np.unique(keys)) < len(keys):
            names, often = np.unique(keys, return_counts=True)
            raise AlignmentError(
                f"{run}: queries are named twice in its table: {name_some(names[often > 1])}"
            )
        numbers = np.array([str(i) for i in range(len(keys))])
        facts = {name: table[name].to_numpy() for name in (*_FACTS, "unit") if name in table}
        return cls(
            run=run, protocol=result.protocol, inputs=result.inputs, counts=result.counts,
            keys=keys, by_position=bool((keys == numbers).all()), facts=facts,
            unit=next((made.unit for made in result.intervals.values() if made), "unit"),
        )  # fmt: skip


def differences_of(first: Identity, other: Identity) -> list[str]:
    """Say in what two runs differ that must not; nothing if they may be compared.

    Queries in another order are no difference where they have names.

    Raises
    ------
    AlignmentError
        If their queries cannot be told apart, or they share none.
    """
    return [*_judging(first, other), *_queries(first, other), *_gallery(first, other)]


def shared_keys(runs: list[Identity]) -> npt.NDArray[np.str_]:
    """Return the queries that all runs have, sorted by name (numbers by size).

    Raises
    ------
    AlignmentError
        If there is none.
    """
    keys = runs[0].keys
    for run in runs[1:]:
        keys = np.intersect1d(keys, run.keys)
    if not len(keys):
        raise AlignmentError(
            f"{' and '.join(run.run for run in runs)} have no query in common: these are runs on "
            f"other queries (such as {runs[0].keys[0]!r} and {runs[-1].keys[0]!r})"
        )
    if all(run.by_position for run in runs):
        return keys[np.argsort(keys.astype(np.int64))]
    return np.sort(keys)


def _judging(first: Identity, other: Identity) -> Iterator[str]:
    ours, theirs = first.protocol, other.protocol
    if ours.judging_hash == theirs.judging_hash:
        return
    keys = ", ".join(_changed(ours.resolved(), theirs.resolved())) or "the rule"
    yield (
        f"they are judged differently: {first.run} by {ours.judging_hash[:_SHORT]} "
        f"({ours.name}), {other.run} by {theirs.judging_hash[:_SHORT]} ({theirs.name}); "
        f"what differs: {keys}"
    )


def _changed(ours: Mapping[str, Any], theirs: Mapping[str, Any], above: str = "") -> list[str]:
    """Name the keys of two resolved protocols that differ and count for judging."""
    out: list[str] = []
    for key in sorted({*ours, *theirs}):
        name = f"{above}{key}"
        a, b = ours.get(key), theirs.get(key)
        if not above and key not in _JUDGED:
            continue
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            out += _changed(a, b, f"{name}.")
        elif a != b and (above != "count." or key == "group"):
            out.append(name)
    return out


def _queries(first: Identity, other: Identity) -> Iterator[str]:
    if first.inputs.get("query") == other.inputs.get("query"):
        return
    any_order = "query_in_any_order"
    same = first.inputs.get(any_order) == other.inputs.get(any_order) is not None
    nameless = first.by_position and other.by_position
    if same and not nameless:
        return
    if same:
        raise AlignmentError(
            f"the queries of {first.run} and {other.run} stand in another order and have no ids to "
            "tell them apart: give them a column 'id', or evaluate both in one order"
        )
    ours, theirs = np.setdiff1d(first.keys, other.keys), np.setdiff1d(other.keys, first.keys)
    if len(ours) or len(theirs):
        parts = [
            f"{len(lone):,} of {here.run}'s {len(here.keys):,} are not in {there.run} "
            f"({name_some(lone, 3)})"
            for lone, here, there in ((ours, first, other), (theirs, other, first))
            if len(lone)
        ]
        yield f"their query sets differ: {'; '.join(parts)}"
        return
    told = [f"{name} of {counted(n, 'query', form=',')}"
            for name, n in _told_apart(first, other).items()]  # fmt: skip
    if told or nameless:
        what = " and ".join([
            *([f"differ in {', '.join(told)}"] if told else []),
            *(["have no ids to be matched by"] if nameless else []),
        ])  # fmt: skip
        yield (
            f"their query sets differ: {counted(len(first.keys), 'query', form=',')} each, which "
            f"{what} (fingerprints {_short(first.inputs.get('query'))} and "
            f"{_short(other.inputs.get('query'))})"
        )


def _told_apart(first: Identity, other: Identity) -> dict[str, int]:
    """Count the queries of one name that are judged differently, by what differs."""
    ours, theirs = np.argsort(first.keys), np.argsort(other.keys)
    found: dict[str, int] = {}
    for name in _FACTS:
        a, b = first.facts.get(name), other.facts.get(name)
        if a is None or b is None:
            found |= {name: len(ours)} if (a is None) != (b is None) else {}
            continue
        n = int((a[ours].astype(str) != b[theirs].astype(str)).sum())
        found |= {name: n} if n else {}
    return found


def _gallery(first: Identity, other: Identity) -> Iterator[str]:
    ours, theirs = first.inputs.get("gallery"), other.inputs.get("gallery")
    any_order = "gallery_in_any_order"
    if ours == theirs or (
        first.inputs.get(any_order) == other.inputs.get(any_order) is not None
    ):
        return
    differing = [
        f"{name} {first.counts[name]:,.0f} and {other.counts[name]:,.0f}"
        for name in ("n_gallery", "n_gallery_ranked", "n_positive_pairs")
        if first.counts.get(name) != other.counts.get(name)
    ]
    rows = "; ".join(differing) or (
        f"both have {counted(first.counts.get('n_gallery', 0), 'row', form=',')}, but not the same "
        "content (ids, labels, order of rows without ids, or any other column)"
    )
    yield (
        f"their galleries differ: {rows} (fingerprints {_short(ours)} of {first.run}, "
        f"{_short(theirs)} of {other.run})"
    )


def _short(fingerprint: Any) -> str:
    return str(fingerprint)[:_SHORT] if fingerprint else "unknown"
