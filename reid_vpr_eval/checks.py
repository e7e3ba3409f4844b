"""Everything that can be said of an evaluation before it is ranked: counts, sanity, leaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.counts import counts_before
from reid_vpr_eval.errors import ProtocolError, ReidVprEvalError
from reid_vpr_eval.formats.names import compile_grammar
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.protocol import Protocol, WithinRule
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.rules import judge
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings

__all__ = ["Check", "check", "check_grammars", "check_metrics"]

_LARGE_SHARE = 0.2
_JUNK = (-1, "-1")


@dataclass(frozen=True, slots=True)
class Check:
    """Counts beside the published ones, what is wrong, and what deserves a look."""

    counts: dict[str, int]
    expected: dict[str, list[int]]
    wrong: Sequence[str]
    warnings: Sequence[str]


def check(
    protocol: Protocol,
    query: Samples,
    gallery: Samples,
    *,
    scores: Embeddings | None = None,
    truth: Any = None,
) -> Check:
    """Check two prepared sides against a protocol.

    With `scores`, vectors that occur on both sides are looked for: a leak, or the query
    itself.
    """
    relevance = judge(protocol, query, gallery, truth=truth)
    counts = counts_before(relevance)
    counts["n_query_without_ignored"] = int((relevance.n_ignored == 0).sum())
    for side, samples in (("query", query), ("gallery", gallery)):
        for column in ("label", "camera"):
            if column in samples:
                counts[f"n_{column}_{side}"] = len(np.unique(samples.keys(column)))
    expected = {
        name: wanted if isinstance(wanted, list) else [wanted]
        for name, wanted in protocol.expected.model_dump().items()
        if wanted is not None
    }
    wrong = [name for name, accepted in expected.items() if counts[name] not in accepted]
    notes = [*_notes(protocol, relevance, gallery), *_doubles(scores, relevance)]
    return Check(counts, expected, wrong, notes)


def check_metrics(protocol: Protocol) -> None:
    """Refuse a protocol that reports metrics which do not exist."""
    for name in protocol.report.metrics:
        _at("report.metrics", parse, name)


def check_grammars(protocol: Protocol) -> None:
    """Refuse a protocol whose grammars of names do not exist or are no regular expressions."""
    for place, side in (("query.names", protocol.query), ("gallery.names", protocol.gallery)):
        if side.names is not None:
            _at(place, compile_grammar, side.names)


def _at(place: str, read: Callable[[str], object], text: str) -> None:
    try:
        read(text)
    except ReidVprEvalError as error:
        raise ProtocolError(f"{place}: {error}") from error


def _notes(protocol: Protocol, relevance: Relevance, gallery: Samples) -> list[str]:
    notes = []
    n_positive = relevance.n_positive
    ranked = relevance.n_gallery - int(relevance.ignored_gallery.sum())
    if not n_positive.any():
        notes.append(f"no query has a positive: {relevance.note}")
    elif (n_positive == 0).any():
        lone = int((n_positive == 0).sum())
        notes.append(f"{lone} queries have no positive; the protocol says: {protocol.no_positive}")
    if n_positive.mean() > _LARGE_SHARE * ranked:
        notes.append(
            f"a query has {n_positive.mean():.0f} positives on average, of {ranked} gallery items: "
            "are labels or coordinates read as meant?"
        )
    if "label" in gallery and not relevance.ignored_gallery.any():
        junk = int(np.isin(gallery.keys("label"), np.array(_junk_of(gallery))).sum())
        if junk:
            notes.append(f"{junk} gallery rows have the label -1 and count as negatives")
    if isinstance(protocol.relevance, WithinRule) and "label" in gallery:
        notes.append("the gallery has labels, but the protocol judges by distance")
    return notes


def _junk_of(gallery: Samples) -> list[Any]:
    return [_JUNK[gallery.keys("label").dtype.kind == "U"]]


def _doubles(scores: Embeddings | None, relevance: Relevance) -> list[str]:
    """Report query vectors that stand in the gallery too, bit for bit."""
    if scores is None:
        return []
    known: dict[bytes, list[int]] = {}
    for row, key in enumerate(_bytes_of(scores.gallery)):
        known.setdefault(key, []).append(row)
    found, right, wrong = 0, 0, 0
    for row, key in enumerate(_bytes_of(scores.query)):
        rows = set(known.get(key, ())) - set(relevance.ignored(row).tolist())
        rows -= set(np.flatnonzero(relevance.ignored_gallery).tolist()) if rows else set()
        found += bool(rows)
        positives = set(relevance.positives(row).tolist()) if rows else set()
        right += bool(rows & positives)
        wrong += bool(rows - positives)
    if not found:
        return ["no query vector stands in the ranked gallery bit for bit"]
    return [
        f"{found} query vectors stand in the ranked gallery bit for bit ({right} of them as a "
        f"positive, {wrong} as a negative): leaked images, or queries that find themselves?"
    ]


def _bytes_of(vectors: npt.NDArray[Any]) -> list[bytes]:
    return [np.ascontiguousarray(row).tobytes() for row in vectors]
