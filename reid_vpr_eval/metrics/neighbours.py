"""Approximate nearest-neighbour search against the exact one, beside the registry.

What an index returned is compared with what an exact search returns: nothing is judged
right or wrong, so there is no relevance and no ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError
from reid_vpr_eval.metrics import rows as reading
from reid_vpr_eval.metrics.compute import exact_mean
from reid_vpr_eval.metrics.rows import Rows

__all__ = ["AnnRecall", "ann_recall"]

Floats: TypeAlias = npt.NDArray[np.float64]
Distances: TypeAlias = Sequence[npt.NDArray[np.floating[Any]]]
Rule: TypeAlias = Literal["exact", "ann-benchmarks", "ann-benchmarks-epsilon", "big-ann"]

#: The rules of :func:`ann_recall`: what each compares, and its epsilon unless one is given.
_RULES = {
    "exact": (("id", "distance"), 0.0),
    "ann-benchmarks": (("distance",), 1e-3),
    "ann-benchmarks-epsilon": (("distance",), 0.01),
    "big-ann": (("id",), 1e-6),
}


class AnnRecall(float):
    """A recall: the mean over queries, a float that also holds the value of each query.

    Attributes
    ----------
    value : float
        The mean, an exact sum.
    per_query : float64 array (n_query,)
        Read-only.

    Examples
    --------
    >>> recall = AnnRecall([0.5, 1.0])
    >>> f"{recall:.2f}", recall.per_query
    ('0.75', array([0.5, 1. ]))
    """

    _per_query: Floats
    __slots__ = ("_per_query",)

    def __new__(cls, per_query: npt.ArrayLike) -> AnnRecall:
        """Take the mean of the values of the queries."""
        values = np.array(per_query, dtype=np.float64)
        values.setflags(write=False)
        made = super().__new__(cls, exact_mean(values))
        made._per_query = values
        return made

    def __getnewargs__(self) -> tuple[Floats]:  # type: ignore[override]
        return (self._per_query,)

    @property
    def value(self) -> float:
        """The mean over queries."""
        return float(self)

    @property
    def per_query(self) -> Floats:
        """The value of each query."""
        return self._per_query


def ann_recall(
    found: Rows,
    truth: Rows,
    k: int,
    by: Literal["id", "distance"] = "id",
    *,
    among: int | None = None,
    truth_distances: Rows | None = None,
    rule: Rule = "exact",
    epsilon: float | None = None,
) -> AnnRecall:
    """Return which share of the k nearest neighbours a search found.

    With d the distance of the k-th true neighbour, a query scores (found items nearer than
    d, plus found items at the distance d up to the places left for them) / k. So any of the
    items tied at the boundary will do, but none of them stands for a nearer one.

    Parameters
    ----------
    found : array (n_query, r), or one list a query, best first
        Ids or distances. Only the first `among` places count, and an item counts once.
        -1, or the empty string, is a missing id and inf a missing distance.
    truth : array (n_query, at least k), or one list a query, nearest first
        Ids or distances of the exact search, more than k of them where ties matter.
    k : int
        How many true neighbours are sought.
    by : {"id", "distance"}
        What `found` and `truth` hold. A distance says nothing about the item: as many
        found items count at a distance as `truth` holds there, and one where it holds none.
    among : int, optional
        The R of k-recall@R: how many of the returned items count; k by default.
        ``k=1, among=R`` is 1-recall@R (recall@R of Jegou et al., TPAMI 2011).
    truth_distances : as `truth`, optional
        For ``by="id"``: the distances of the true neighbours. Without them nothing ties;
        ties that run past the end of `truth` cannot be known.
    rule : {"exact", "ann-benchmarks", "ann-benchmarks-epsilon", "big-ann"}
        "exact" is the rule above. The others are what those tools print:
        "ann-benchmarks" counts distances up to d + epsilon, "ann-benchmarks-epsilon" up to
        d (1 + epsilon), and "big-ann" all ids within epsilon of d, in runs of any length (it
        can exceed 1, and cuts a run only where `among` is given).
    epsilon : float, optional
        The tolerance of the rule: 0 for "exact" (within it distances tie), 0.001, 0.01 and
        0.000001 for the others. Distances that two programs computed differ by rounding: give
        a tolerance then. Where one side is of lower precision, both are rounded to it.

    Returns
    -------
    AnnRecall
        The mean, a float in [0, 1], with ``.per_query``.

    Raises
    ------
    AlignmentError
        If the numbers of queries or the kinds of ids differ, or a row of `truth` has fewer
        than k neighbours.
    ScoreError
        If true distances do not ascend, a distance is NaN, or ids are malformed.
    NotCountedError
        If an option is unknown or does not go with the others.

    Examples
    --------
    The true distances are 1, 2, 2; two at the distance 2 do not replace the nearest.

    >>> float(ann_recall([[12, 11]], [[10, 11, 12]], 2, truth_distances=[[1, 2, 2]]))
    0.5
    >>> float(ann_recall([[2.0, 2.0]], [[1.0, 2.0, 2.0]], 2, by="distance"))
    0.5
    >>> float(ann_recall([[2.0, 2.0]], [[1.0, 2.0]], 2, by="distance", rule="ann-benchmarks"))
    1.0
    """
    slack = _check_options(k, by, among, rule, epsilon, truth_distances)
    first = among or (None if rule == "big-ann" else k)
    if by == "id":
        asked, known = reading.read_ids(found, "found"), reading.read_ids(truth, "truth")
        reading.check_kinds(asked, known)
        away = None if truth_distances is None else reading.read_distances(truth_distances, "true")
        return AnnRecall(_by_id(asked, known, away, k, first, rule, slack))
    near, exact = reading.read_distances(found, "found"), reading.read_distances(truth, "true")
    return AnnRecall(_by_distance(near, exact, k, first, rule, slack))


def _check_options(
    k: int, by: str, among: int | None, rule: str, epsilon: float | None, given: object
) -> float:
    """Return the tolerance, or say what does not go together."""
    for name, value in (("k", k), ("among", 1 if among is None else among)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise NotCountedError(f"{name} = {value!r}: a whole number from 1 is needed")
    if by not in ("id", "distance"):
        raise NotCountedError(f"by = {by!r}: one of id, distance is needed")
    if rule not in _RULES:
        raise NotCountedError(f"rule = {rule!r}: one of {', '.join(_RULES)} is needed")
    kinds, default = _RULES[rule]
    if by not in kinds:
        raise NotCountedError(f"rule={rule!r} compares {kinds[0]}s: pass by={kinds[0]!r}")
    if given is not None and by == "distance":
        raise NotCountedError("truth_distances goes with by='id'; here truth holds the distances")
    if given is None and rule == "big-ann":
        raise NotCountedError("rule='big-ann' needs truth_distances")
    slack = default if epsilon is None else float(epsilon)
    if not 0 <= slack < np.inf:
        raise NotCountedError(f"epsilon = {epsilon!r}: a number from 0 is needed")
    return slack


def _by_id(
    found: list[list[Any]], truth: list[list[Any]], distances: Distances | None,
    k: int, first: int | None, rule: str, slack: float,
) -> list[float]:  # fmt: skip
    reading.same_number(found, truth)
    reading.check_truth(truth, k)
    ends = [(k, k)] * len(truth)
    if distances is not None:
        reading.same_number(distances, truth, "rows of true distances")
        reading.check_ascending(distances)
        ends = [
            _boundary(query, len(known), away, k, rule, slack)
            for query, (known, away) in enumerate(zip(truth, distances, strict=True))
        ]
    out = []
    for row, known, (start, end) in zip(found, truth, ends, strict=True):
        run = {item for item in row[:first] if not reading.missing(item)}
        tied = len(run & set(known[start:end]))
        if rule == "exact":
            tied = min(tied, k - start)
        out.append((len(run & set(known[:start])) + tied) / k)
    return out


def _boundary(
    query: int, n: int, distances: npt.NDArray[Any], k: int, rule: str, slack: float
) -> tuple[int, int]:
    """Return where the neighbours tied with the k-th true one begin and end."""
    if len(distances) != n or not np.isfinite(distances[:k]).all():
        raise AlignmentError(
            f"query {query} has {np.isfinite(distances).sum()} true distances for {n} true "
            "neighbours: one each is needed"
        )
    away = distances.astype(np.float64) - float(distances[k - 1])
    if rule == "big-ann":
        near = [*(np.abs(away[k:]) < slack), False]
        return k, k + near.index(False)
    return int(np.searchsorted(away, -slack)), int(np.searchsorted(away, slack, "right"))


def _by_distance(
    found: Distances, truth: Distances, k: int, first: int | None, rule: str, slack: float
) -> list[float]:
    reading.same_number(found, truth)
    reading.check_truth(truth, k)
    reading.check_ascending(truth)
    out = []
    for row, known in zip(*reading.of_one_precision(found, truth), strict=True):
        run = row[:first][np.isfinite(row[:first])]
        last = float(known[k - 1])
        if rule == "exact":
            out.append(_alike(run, known, k, last - slack, last + slack) / k)
            continue
        limit = last + slack if rule == "ann-benchmarks" else last * (1 + slack)
        out.append(int(np.count_nonzero(run <= limit)) / k)
    return out


def _alike(run: Floats, known: Floats, k: int, low: float, high: float) -> int:
    """Count the found distances that stand for true ones, those in [low, high] as tied."""
    nearer = int(np.searchsorted(known, low))
    values, counts = np.unique(run[run < low], return_counts=True)
    held = np.searchsorted(known, values, "right") - np.searchsorted(known, values)
    right = int(np.minimum(counts, np.maximum(held, 1)).sum())
    tied = int(np.count_nonzero((run >= low) & (run <= high)))
    return min(right, nearer) + min(tied, k - nearer)
