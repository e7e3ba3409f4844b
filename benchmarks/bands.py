"""How many pairs the fast product leaves undecided, from the scores of some queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.worlds import World

__all__ = ["Shares", "bands", "half_width", "nearest"]

_COLUMNS = 8192


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the unjudged pairs of some queries.

    Attributes
    ----------
    passing : float
        Not surely below the lowest threshold.
    undecided : float
        So near to a threshold that a product in float32 does not decide.
    canonical : float
        So near that one in float64 does not either: only the canonical score does.
    mean_ap : float
        The mAP of these queries, which tells how hard they are.
    """

    passing: float
    undecided: float
    canonical: float
    mean_ap: float


def half_width(dim: int, kind: Any) -> float:
    """Return how far a product of two vectors of length 1 may be from the canonical score.

    >>> f"{half_width(2048, np.float32):.1e}"
    '1.2e-04'
    """
    if kind == np.float32:
        return dim * 2.0**-24 + math.log2(max(dim, 2)) * 2.0**-53
    return (dim + math.log2(max(dim, 2))) * 2.0**-53


def nearest(values: npt.NDArray[Any], thresholds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return how far each value is from the nearest of ascending thresholds.

    >>> nearest(np.array([0.0, 2.5, 9.0]), np.array([1.0, 3.0]))
    array([1. , 0.5, 6. ])
    """
    if not len(thresholds):
        return np.full(len(values), np.inf)
    after = np.searchsorted(thresholds, values)
    left = np.abs(values - thresholds[np.maximum(after - 1, 0)])
    right = np.abs(values - thresholds[np.minimum(after, len(thresholds) - 1)])
    return np.asarray(np.minimum(left, right))


def bands(world: World, n_sample: int = 64) -> Shares:
    """Score some queries, spread evenly, against the whole gallery and see what is near.

    The thresholds are the scores of all judged pairs, or of the best positive where only
    first positives are counted.
    """
    queries = np.unique(np.linspace(0, len(world.query) - 1, n_sample).astype(int))
    single, double = _scores(world, queries)
    narrow, wide = (half_width(world.query.shape[1], kind) for kind in (np.float64, np.float32))
    judged, ranked = world.relevance, ~world.relevance.ignored_gallery
    counts, precision = np.zeros(4, np.int64), []
    for row, query in enumerate(queries.tolist()):
        pairs = slice(judged.offsets[query], judged.offsets[query + 1])
        mask = ranked.copy()
        mask[judged.item[pairs]] = False
        positive = double[row, judged.positives(query)]
        thresholds = np.sort(double[row, judged.item[pairs]])
        if world.keep == "first":
            thresholds = np.array([positive.max()]) if len(positive) else positive
        near, far = single[row, mask].astype(np.float64), double[row, mask]
        open_ = nearest(near, thresholds) <= wide
        passing = near >= thresholds[0] - wide if len(thresholds) else np.zeros(len(near), bool)
        left = nearest(far[open_], thresholds) <= narrow
        counts += np.array([len(near), passing.sum(), open_.sum(), left.sum()])
        if len(positive):
            precision.append(_average_precision(positive, far))
    passing_share, undecided, canonical = (counts[1:] / counts[0]).tolist()
    return Shares(passing_share, undecided, canonical, float(np.mean(precision)))


def _scores(
    world: World, queries: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Return cosines in both precisions, (n_sample, n_gallery)."""
    ours = _unit(world.query[queries])
    parts = []
    for begin in range(0, len(world.gallery), _COLUMNS):
        theirs = _unit(world.gallery[begin : begin + _COLUMNS])
        parts.append((ours @ theirs.T, ours.astype(np.float64) @ theirs.T.astype(np.float64)))
    single, double = zip(*parts, strict=True)
    return np.concatenate(single, axis=1), np.concatenate(double, axis=1)


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return np.asarray((vectors / lengths[:, None]).astype(np.float32))


def _average_precision(positive: npt.NDArray[Any], others: npt.NDArray[Any]) -> float:
    """Return the mean precision at the positives; scores are distinct."""
    positive = np.sort(positive)[::-1]
    above = len(others) - np.searchsorted(np.sort(others), positive, side="right")
    hits = np.arange(1, len(positive) + 1)
    return float(np.mean(hits / (hits + above)))
