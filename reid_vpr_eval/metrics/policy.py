"""What the policies decree: which queries are in a mean, and what those without an answer score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, RelevanceError, name_some
from reid_vpr_eval.metrics.grammar import MetricName
from reid_vpr_eval.metrics.views import Floats, Ints
from reid_vpr_eval.ranking import Ranking
from reid_vpr_eval.relevance.pairs import NoPositive

__all__ = ["Missing", "Policy", "decreed", "policy_of"]

Missing = Literal["error", "zero", "skip"]


class Asked(Protocol):
    """The positives and the ranked items of each query, int64 (n_query,)."""

    @property
    def n_positive(self) -> Ints: ...

    @property
    def size(self) -> Ints: ...


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Which queries are in the mean, and which have a value by decree."""

    evaluated: npt.NDArray[np.bool_]
    zero: npt.NDArray[np.bool_]
    one: npt.NDArray[np.bool_]
    end: Floats


def policy_of(
    ranking: Ranking, asked: Asked, no_positive: NoPositive, missing_query: Missing
) -> Policy:
    """Return which queries are in a mean, and which have a value by decree.

    `asked` is a reading, a view, or what else knows the positives and sizes of all queries.
    """
    if no_positive not in ("skip", "zero", "one", "error"):
        raise NotCountedError(
            f"no_positive = {no_positive!r}: one of skip, zero, one, error is needed"
        )
    lone = asked.n_positive == 0
    absent = (ranking.depth == 0) & ~lone
    if lone.any() and no_positive == "error":
        raise RelevanceError(
            f"{int(lone.sum())} of {len(lone)} queries have no positive (queries "
            f"{name_some(np.flatnonzero(lone))}) and no_positive is 'error'"
        )
    if absent.any() and missing_query == "error":
        raise NotCountedError(
            f"nothing was returned for {int(absent.sum())} queries (queries "
            f"{name_some(np.flatnonzero(absent))}): pass missing_query='zero' or 'skip' to say "
            "what they score"
        )
    evaluated = np.ones(len(lone), bool)
    if no_positive == "skip":
        evaluated &= ~lone
    if missing_query == "skip":
        evaluated &= ~absent
    if not evaluated.any():
        reason = f" ({ranking.note})" if ranking.note else ""
        raise RelevanceError(
            f"none of the {len(lone)} queries can be evaluated: none has a positive{reason}"
        )
    zero = absent | (lone if no_positive == "zero" else False)
    # One past the end; where nothing was returned, past the end of the gallery.
    end = np.where(ranking.depth == 0, ranking.n_gallery_ranked, asked.size) + 1.0
    return Policy(evaluated, np.asarray(zero), lone & (no_positive == "one"), end)


def decreed(name: MetricName, found: Floats, policy: Policy) -> Floats:
    """Put in what the policies decree."""
    is_rank = name.metric.is_rank
    values = np.where(policy.zero, policy.end if is_rank else 0.0, found)
    values = np.where(policy.one, 1.0, values)
    return np.where(policy.evaluated, values, np.nan)
