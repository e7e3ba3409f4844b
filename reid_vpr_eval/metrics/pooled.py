"""The metrics over first answers and over pooled pairs: one number, no mean over queries."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.metrics.grammar import metric
from reid_vpr_eval.metrics.pool import PairScores, Pool
from reid_vpr_eval.metrics.views import Floats

__all__ = ["auc_bounds", "precision_recall", "roc"]

_BINS = 10
_TUTORIAL = "Schubert et al., Visual place recognition: a tutorial, RAM 2023"
_BENCH = "Zaffar et al., VPR-Bench, IJCV 2021"
_NIST = "Grother and Ngan, FRVT, NIST IR 8009, 2014"
_FIRST = "a tied first place is right by its chance to be; equal scores share a threshold"
_PAIRS = "equal scores share a threshold"
_DENOMINATOR = {"denominator": ("queries", "correct")}


def precision_recall(pool: Pool, denominator: str = "queries") -> tuple[Floats, Floats]:
    """Return precision and recall at every distinct score of a first answer, best first.

    A first answer counts as given when its score is at least the threshold. Recall is of
    the queries that have a positive, or of the correct answers.
    """
    given = pool.evaluated & np.isfinite(pool.score)
    score, correct = pool.score[given], pool.correct[given]
    order = np.argsort(-score, kind="stable")
    score, right = score[order], np.cumsum(correct[order])
    ends = np.flatnonzero(np.diff(score, append=np.nan) != 0)
    whole = float((pool.has_positive & pool.evaluated).sum())
    if denominator == "correct":
        whole = float(right[-1]) if len(right) else 0.0
    if whole == 0:
        raise NotCountedError("no first answer is right, so recall has no denominator")
    return right[ends] / (ends + 1), right[ends] / whole


@metric(
    "PR-AUC",
    options={**_DENOMINATOR, "rule": ("trapezoid", "step")},
    monotone="none",
    needs="first item",
    ties=_FIRST,
    chance="none",
    aggregate="pooled",
    formula="area under precision over recall of first answers, thresholds on their score, from "
    "(recall 0, precision 1); rule=step: sum of precision times gain in recall",
    reference=f"denominator=queries: {_TUTORIAL}; correct: {_BENCH}",
)
def pr_auc(pool: Pool, denominator: str, rule: str) -> float:
    """Area under the precision-recall curve of first answers."""
    precision, recall = precision_recall(pool, denominator)
    if rule == "step":
        return float((np.diff(recall, prepend=0.0) * precision).sum())
    return float(np.trapezoid(np.r_[1.0, precision], np.r_[0.0, recall]))


@metric(
    "R@P",
    cutoff="level",
    options=_DENOMINATOR,
    monotone="none",
    needs="first item",
    ties=_FIRST,
    chance="none",
    aggregate="pooled",
    formula="largest recall of first answers at a precision of at least x",
    reference=f"{_TUTORIAL} (recall at 100 % precision)",
)
def recall_at_precision(pool: Pool, level: float, denominator: str) -> float:
    """Largest recall of first answers whose precision is at least x, over all thresholds."""
    precision, recall = precision_recall(pool, denominator)
    return float(recall[precision >= level].max(initial=0.0))


@metric(
    "EP",
    options=_DENOMINATOR,
    monotone="none",
    needs="first item",
    ties=_FIRST,
    chance="none",
    aggregate="pooled",
    formula="(P_R0 + R_P100) / 2: precision at the smallest recall above 0, and recall at a "
    "precision of 1",
    reference=f"Ferrarini et al., RA-L 2020; denominator=correct: {_BENCH}",
)
def extended_precision(pool: Pool, denominator: str) -> float:
    """Extended precision: where a curve starts, and how far it stays perfect."""
    precision, recall = precision_recall(pool, denominator)
    if not recall.any():
        return 0.0
    start = precision[np.flatnonzero(recall > 0)[0]]
    perfect = recall[precision >= 1].max(initial=0.0) if start == 1 else 0.0
    return float((start + perfect) / 2)


@metric(
    "ECE",
    monotone="none",
    direction="down",
    needs="first item",
    ties=_FIRST,
    chance="none",
    aggregate="pooled",
    formula="sum over B = 10 equal bins of the score, best first, of (n_b / n) |CMC@1 of the bin "
    "- (B - b) / B|, b = 0, 1, ...",
    reference="Cai et al., STUN, IROS 2022",
)
def calibration_error(pool: Pool) -> float:
    """Expected calibration error of first answers: is a better score right more often?"""
    given = pool.evaluated & np.isfinite(pool.score)
    score, correct = pool.score[given], pool.correct[given]
    span = score.max() - score.min()
    place = (score.max() - score) / span if span > 0 else np.zeros(len(score))
    bins = np.minimum((place * _BINS).astype(int), _BINS - 1)
    size = np.bincount(bins, minlength=_BINS)
    right = np.bincount(bins, weights=correct, minlength=_BINS) / np.maximum(size, 1)
    wanted = (_BINS - np.arange(_BINS)) / _BINS
    return float((size / len(score) * np.abs(right - wanted)).sum())


@metric(
    "GAP",
    monotone="none",
    needs="first item",
    ties="exact mean over all orders of equal scores; bounds; query order",
    chance="none",
    aggregate="pooled",
    formula="(1/M) sum over first answers i, best score first, of precision(i) right(i); M queries "
    "have a positive",
    reference="Weyand et al., Google Landmarks Dataset v2, CVPR 2020",
)
def global_average_precision(pool: Pool) -> float:
    """Global average precision: the first answers of all queries as one ranked list.

    Equal scores: the mean over all orders, or correct answers first or last, or by query.
    """
    given = pool.evaluated & np.isfinite(pool.score)
    score, correct = pool.score[given], pool.correct[given]
    n_mated = int((pool.has_positive & pool.evaluated).sum())
    if n_mated == 0:
        raise NotCountedError("no query has a positive, so GAP has no denominator")
    if pool.ties != "expected":
        sign = {"optimistic": -1, "pessimistic": 1}.get(pool.ties, 0)
        order = np.lexsort((sign * correct, -score))
        right = correct[order]
        precision = np.cumsum(right) / np.arange(1, len(right) + 1)
        return float((precision * right).sum()) / n_mated
    _, group = np.unique(-score, return_inverse=True)
    n, r = np.bincount(group), np.bincount(group, weights=correct)
    square = np.bincount(group, weights=correct**2)
    before, right_before = np.cumsum(n) - n, np.cumsum(r) - r
    i = np.arange(len(score)) - np.repeat(before, n)
    step = np.divide(r - np.divide(square, r, out=np.zeros_like(r), where=r > 0),
                     n - 1, out=np.zeros_like(r), where=n > 1)  # fmt: skip
    mean = 1 + np.repeat(right_before, n) + i * np.repeat(step, n)
    return float((np.repeat(r / n, n) * mean / (np.arange(len(score)) + 1)).sum()) / n_mated


def _allowed(level: float, n: int) -> int:
    """Return how many of n a rate allows; a product that is whole but for rounding is whole."""
    return math.floor(level * n + 1e-9)


def _accepted_above(scores: Floats, level: float, n: int, what: str) -> float:
    """Return the score that must be passed so that at most a share `level` of n passes."""
    allowed = _allowed(level, n)
    if allowed >= n:
        return -np.inf
    if allowed >= len(scores):
        raise NotCountedError(
            f"a rate of {level:g} lets {allowed:,} of {n:,} {what} pass, but only the "
            f"{len(scores):,} best are known: rank with a larger pairs_kept="
        )
    return float(scores[allowed])


@metric(
    "DIR@FAR",
    cutoff="level",
    monotone="none",
    needs="first item",
    ties=_FIRST,
    chance="none",
    aggregate="pooled",
    formula="share of queries with a positive whose first answer is right and passes the score "
    "that at most a share x of the queries without one pass",
    reference=_NIST,
)
def detection_rate(pool: Pool, level: float) -> float:
    """Detection and identification rate at a false alarm rate: open-set identification."""
    score, mated = np.nan_to_num(pool.score, nan=-np.inf), pool.has_positive
    alarms = np.sort(score[~mated])[::-1]
    if not len(alarms) or not mated.any():
        raise NotCountedError(
            "DIR@FAR needs queries with and without a positive; "
            f"{int(mated.sum())} have one and {int((~mated).sum())} have none"
        )
    passed = _accepted_above(alarms, level, len(alarms), "first answers")
    return float((pool.correct * (score > passed))[mated].sum() / mated.sum())


@metric(
    "TAR@FAR",
    cutoff="level",
    monotone="none",
    needs="pairs",
    ties=_PAIRS,
    chance="none",
    aggregate="pooled",
    formula="share of positive pairs above the score that at most a share x of negative pairs pass",
    reference=_NIST,
)
def true_accept_rate(pool: Pool, level: float) -> float:
    """True accept rate at a false accept rate, over all pairs of a query and a ranked item."""
    pairs = pool.pairs()
    passed = _accepted_above(pairs.negatives, level, pairs.n_negatives, "negative pairs")
    return float((pairs.positives > passed).mean())


def roc(pairs: PairScores) -> tuple[Floats, Floats]:
    """Return false and true accept rates at every distinct score, from (0, 0) on.

    Exact as far as the kept negatives reach; the curve ends there.
    """
    values = np.unique(np.concatenate([pairs.positives, pairs.negatives]))[::-1]
    if not pairs.complete:
        values = values[values >= pairs.negatives[-1]]
    rates = []
    for scores, total in ((pairs.negatives, pairs.n_negatives),
                          (pairs.positives, len(pairs.positives))):  # fmt: skip
        ascending = np.sort(scores)
        passing = len(ascending) - np.searchsorted(ascending, values, side="left")
        rates.append(np.r_[0.0, passing / total])
    return rates[0], rates[1]


def auc_bounds(pool: Pool) -> tuple[float, float]:
    """Return the smallest and largest area under the ROC that the kept scores allow.

    They are equal when all negatives were kept. A positive above every kept negative beats
    all others too; below the smallest kept one, each unkept negative may stand on either side.
    """
    pairs = pool.pairs()
    ascending = pairs.negatives[::-1]
    low = np.searchsorted(ascending, pairs.positives, side="left")
    ties = np.searchsorted(ascending, pairs.positives, side="right") - low
    unkept = pairs.n_negatives - len(ascending)
    total = len(pairs.positives) * pairs.n_negatives
    if total == 0:
        raise NotCountedError("AUC needs positive and negative pairs")
    known = float(low.sum() + ties.sum() / 2)
    if unkept == 0:
        return known / total, known / total
    beats_all = pairs.positives > ascending[0]
    sure, open_ = int(beats_all.sum()), int((~beats_all).sum())
    low_end = (known + unkept * sure) / total
    return low_end, (known + unkept * (sure + open_)) / total


def _area_metric(pool: Pool) -> float:
    low, high = auc_bounds(pool)
    if low != high:
        raise NotCountedError(
            f"AUC lies between {low:.6f} and {high:.6f}: not all negative pairs were kept; rank "
            f"with pairs_kept={pool.pairs().n_negatives} for the exact value"
        )
    return low


@metric(
    "AUC",
    monotone="none",
    needs="pairs",
    ties=_PAIRS,
    chance="0.5",
    aggregate="pooled",
    formula="chance that a positive pair scores above a negative one, ties counted half",
    reference="Hanley and McNeil, Radiology 1982",
)
def area_under_roc(pool: Pool) -> float:
    """Area under the ROC over all pairs; exact when every negative pair was kept."""
    return _area_metric(pool)


@metric(
    "EER",
    direction="down",
    monotone="none",
    needs="pairs",
    ties=_PAIRS,
    chance="0.5",
    aggregate="pooled",
    formula="the rate where false accepts and false rejects are equal, on the ROC joined by lines",
    reference=_NIST,
)
def equal_error_rate(pool: Pool) -> float:
    """Equal error rate over all pairs; exact where the kept negatives reach that far."""
    pairs = pool.pairs()
    false, true = roc(pairs)
    gap: npt.NDArray[np.float64] = false - (1 - true)
    if gap[-1] < 0:
        raise NotCountedError(
            f"the equal error rate lies between {false[-1]:.6f} and {1 - true[-1]:.6f}: not "
            "enough negative pairs were kept; rank with a larger pairs_kept="
        )
    place = int(np.flatnonzero(gap >= 0)[0])
    if place == 0 or gap[place] == 0:
        return float(false[place])
    share = -gap[place - 1] / (gap[place] - gap[place - 1])
    return float(false[place - 1] + share * (false[place] - false[place - 1]))
