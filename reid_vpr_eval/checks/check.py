"""Everything that can be said of an evaluation before it is ranked: counts, sanity, leaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reid_vpr_eval.checks.leaks import leaks
from reid_vpr_eval.checks.sanity import sanity
from reid_vpr_eval.counts import counts_before
from reid_vpr_eval.errors import ProtocolError, ReidVprEvalError
from reid_vpr_eval.formats.names import compile_grammar
from reid_vpr_eval.metrics import parse
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.relevance.pairs import POSITIVE
from reid_vpr_eval.rules import judge
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings

__all__ = ["Check", "check", "check_grammars", "check_metrics"]

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

    With `scores` the vectors are looked at too: the same ones on both sides or twice in the
    gallery, and nearly the same ones of one session.
    """
    relevance = judge(protocol, query, gallery, truth=truth)
    counts = counts_before(relevance)
    positive = np.unique(relevance.item[relevance.role == POSITIVE])
    counts["n_distractors"] = counts["n_gallery_ranked"] - len(positive)
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
    notes = [*sanity(protocol, relevance, query, gallery)]
    if scores is not None:
        notes += leaks(scores, relevance, query, gallery)
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
