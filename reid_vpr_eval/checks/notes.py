"""What an evaluation can say of its own input, from what it has at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.checks.leaks import near_first
from reid_vpr_eval.checks.sanity import sanity
from reid_vpr_eval.errors import ReidVprEvalError
from reid_vpr_eval.per_query import top_one
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, Scores

__all__ = ["Seen", "run_notes"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What notes need of the relevance and the ranking of some queries, one entry a query.

    `item` is what stands first (-1: nothing), `alike` its cosine, NaN for other scores.
    """

    n_positive: Ints
    n_ignored: Ints
    n_self: Ints
    n_gallery: int
    ignored_gallery: npt.NDArray[np.bool_]
    note: str
    item: Ints
    alike: npt.NDArray[np.float64]

    @classmethod
    def of(cls, relevance: Relevance, ranking: Ranking, scores: Scores) -> Seen:
        """Take what is needed of an evaluation."""
        item, value, _ = top_one(ranking)
        if not (isinstance(scores, Embeddings) and scores.metric == "cosine"):
            value = np.full(len(item), np.nan)
        return cls(
            relevance.n_positive, relevance.n_ignored, relevance.n_self, relevance.n_gallery,
            relevance.ignored_gallery, relevance.note, item, value,
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Seen]) -> Seen:
        """Put blocks of queries against one gallery together."""
        names = ("n_positive", "n_ignored", "n_self", "item", "alike")
        whole = {name: np.concatenate([getattr(one, name) for one in parts]) for name in names}
        first = parts[0]
        return cls(n_gallery=first.n_gallery, ignored_gallery=first.ignored_gallery,
                   note=first.note, **whole)  # fmt: skip


def run_notes(protocol: Protocol, seen: Seen, query: Samples, gallery: Samples) -> tuple[str, ...]:
    """Return what deserves a look, in plain words, without looking at a vector again.

    These are the notes of :func:`check` but for those that compare all vectors with each
    other; first answers are compared where the scores are cosines.
    """
    try:
        notes = sanity(protocol, seen, query, gallery)
    except ReidVprEvalError:  # a column that only the notes would have needed
        notes = []
    rows = np.flatnonzero((seen.item >= 0) & ~np.isnan(seen.alike))
    return (*notes, *near_first(query, gallery, rows, seen.item[rows], seen.alike[rows]))
