"""Counts: what is known before ranking, checked against what was published, and after."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import EvaluationWarning, ProtocolError
from reid_vpr_eval.metrics.reading import Reading
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance import Relevance

__all__ = ["Expected", "check_counts", "check_found", "counts_after", "counts_before"]

Expected: TypeAlias = Literal["enforce", "warn", "ignore"]


def check_counts(protocol: Protocol, relevance: Relevance, expected: Expected) -> None:
    """Compare the counts of a relevance with the published ones; see :func:`check_found`."""
    check_found(protocol, counts_before(relevance), expected)


def check_found(protocol: Protocol, found: Mapping[str, int], expected: Expected) -> None:
    """Compare counts with the published ones.

    Raises
    ------
    ProtocolError
        Under "enforce", if one differs: says which side and by how much.
    """
    if expected not in ("enforce", "warn", "ignore"):
        raise ProtocolError(f"expected = {expected!r}: one of enforce, warn, ignore is needed")
    wrong = []
    for name, wanted in protocol.expected.model_dump().items():
        accepted = wanted if isinstance(wanted, list) else [wanted]
        if wanted is not None and found[name] not in accepted:
            listed = " or ".join(f"{count:,}" for count in accepted)
            nearest = min(accepted, key=lambda count: abs(count - found[name]))
            wrong.append(f"{name} is {found[name]:,}, published {listed} "
                         f"({found[name] - nearest:+,})")  # fmt: skip
    if not wrong or expected == "ignore":
        return
    text = f"the data do not have the counts of {protocol.name}: {'; '.join(wrong)}"
    if expected == "enforce":
        raise ProtocolError(
            f"{text}. Something is missing, twice there or read differently; evaluate with "
            "expected='warn' (--expected warn) if this is meant"
        )
    warnings.warn(text, EvaluationWarning, stacklevel=4)


def counts_before(relevance: Relevance) -> dict[str, int]:
    """Return every count that is known before ranking."""
    n_self = int(relevance.n_self.sum())
    junk = int(relevance.ignored_gallery.sum())
    return {
        "n_query": relevance.n_query,
        "n_no_positive": int((relevance.n_positive == 0).sum()),
        "n_gallery": relevance.n_gallery,
        "n_gallery_ignored": junk,
        "n_gallery_ranked": relevance.n_gallery - junk,
        "n_positive_pairs": int(relevance.n_positive.sum()),
        "n_ignored_pairs": int(relevance.n_ignored.sum()) - n_self,
        "n_self_pairs": n_self,
    }


def counts_after(
    ranking: Ranking, relevance: Relevance, evaluated: npt.NDArray[np.bool_]
) -> dict[str, float]:
    """Return every count, those that are known after ranking included."""
    reading = Reading.of(ranking)
    reachable = evaluated & ((reading.n_positive > 0) | (ranking.no_positive == "one"))
    return {
        **counts_before(relevance),
        "n_evaluated": int(evaluated.sum()),
        "n_tied_queries": int((reading.tied & evaluated).sum()),
        "ceiling": int(reachable.sum()) / int(evaluated.sum()),
    }
