"""Right by distance in another space: the exact nearest neighbours, with their ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import RelevanceError, counted, name_some
from reid_vpr_eval.relevance.ignores import Ignores
from reid_vpr_eval.relevance.pairing import check_choice, check_sides, self_pairs
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE, NoPositive, Relevance, SelfRule
from reid_vpr_eval.samples import Samples

__all__ = ["Nearest", "nearest_neighbours", "nearest_of"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Nearest(NamedTuple):
    """Which of the given neighbours are among the k nearest.

    Attributes
    ----------
    ids : int64 array (n_query, K)
        Gallery positions; -1 where there is none.
    sure, tied : bool arrays (n_query, K)
        Among the k nearest whatever the order of ties; as near as the k-th, where there are
        more of these than places.
    open : int64 array
        The queries whose tie at the k-th place may go on past the K that were given.
    """

    ids: Ints
    sure: Bools
    tied: Bools
    open: Ints


def nearest_neighbours(
    query: Samples,
    gallery: Samples,
    neighbours: npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike | None],
    *,
    k: int = 1,
    ties: Literal["judge", "exclude"] = "judge",
    self: SelfRule = "exclude",
    ignore: Sequence[Mapping[str, Any]] = (),
    wide_ignore: Sequence[Mapping[str, Any]] = (),
    no_positive: NoPositive = "skip",
) -> Relevance:
    """Judge by another space: the k nearest items there are positive.

    Parameters
    ----------
    query, gallery : Samples
        Both sides.
    neighbours : int array (n_query, K), or a pair of it and float array (n_query, K)
        Gallery positions from the nearest on, and their distances if known. -1 at the end
        means that there are no more.
    k : int
        How many are positive. An item with the query's own id is taken out before they are
        counted, unless `self` is "keep".
    ties : {"judge", "exclude"}
        What becomes of the items that are exactly as near as the k-th, if there are more of
        them than places left: all positive, or all ignored. Known only from distances.
    self : {"exclude", "keep"}
        Whether an item with the query's own id is taken out of its ranking.
    ignore, wide_ignore : sequence of mappings
        Further ignored items, as in :func:`same_label`; they are neighbours still, so that
        a query may be left with fewer than k positives.
    no_positive : {"skip", "zero", "one", "error"}
        The default for queries without a positive.

    Raises
    ------
    RelevanceError
        If positions are out of range or occur twice, distances fall, fewer than k are
        given, or a tie may go on past the last one given.

    Examples
    --------
    >>> samples = Samples.from_columns(id=["a", "b", "c", "d"])
    >>> ids, distances = [[0, 2, 1, 3]], [[0.0, 1.0, 1.0, 4.0]]
    >>> nearest_neighbours(samples.take([0]), samples, (ids, distances)).positives(0)
    array([1, 2])
    """
    check_sides(query, gallery)
    check_choice("ties", ties, ("judge", "exclude"))
    ignores = Ignores.of(query, gallery, ignore, wide_ignore, self=self)
    near = nearest_of(query, gallery, neighbours, k=k, self=self)
    if len(near.open):
        raise RelevanceError(
            f"{counted(len(near.open), 'query has', 'queries have')} the {k}-th neighbour (rows "
            f"{name_some(near.open)}) as near as the last of the {near.ids.shape[1]} given, so "
            "more may be as near: give more neighbours, or none of their distances (then the first "
            "k are taken)"
        )
    chosen = near.sure | near.tied
    rows, columns = np.nonzero(chosen)
    right = near.sure[rows, columns] | (ties == "judge")
    found = (rows, near.ids[rows, columns], np.where(right, POSITIVE, IGNORED),
             right.astype(float), np.zeros(len(rows), bool))  # fmt: skip
    n_tied = int(near.tied.any(axis=1).sum())
    return ignores.settle(
        [found], no_positive=no_positive,
        note=f"{counted(n_tied, 'query has', 'queries have')} more items as near as the {k}-th "
        "neighbour than places",
    )  # fmt: skip


def nearest_of(
    query: Samples,
    gallery: Samples,
    neighbours: npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike | None],
    *,
    k: int,
    self: SelfRule,
) -> Nearest:
    """Choose the k nearest of the given neighbours, and say where more are needed."""
    ids, distances = _read(query, gallery, neighbours)
    real = ids >= 0
    own = np.full(query.n, -1)
    if self == "exclude":
        own_query, own_item = self_pairs(query, gallery)
        own[own_query] = own_item
    other = real & (ids != own[:, None])
    available = gallery.n - (own >= 0)
    if isinstance(k, bool) or k < 1 or k > available.min():
        raise RelevanceError(
            f"k = {k}: a number from 1 to {available.min()}, the items that every query has to "
            "find, is needed"
        )
    place = np.cumsum(other, axis=1)
    short = np.flatnonzero(place[:, -1] < k)
    if len(short):
        raise RelevanceError(
            f"{counted(len(short), 'query has', 'queries have')} fewer than k = {k} neighbours "
            f"given beside themselves (rows {name_some(short)}; row {short[0]}: "
            f"{place[short[0], -1]}): give more of them"
        )
    sure = other & (place <= k)
    nobody = np.zeros_like(sure)
    if distances is None:
        return Nearest(ids, sure, nobody, np.empty(0, np.int64))
    last = distances[np.arange(query.n), np.argmax(place == k, axis=1)]
    level = other & (distances == last[:, None])
    crowded = (other & (distances <= last[:, None])).sum(axis=1) > k
    end = np.where(real, distances, -np.inf).max(axis=1)
    unseen = place[:, -1] < available
    tied = level & crowded[:, None]
    return Nearest(ids, sure & ~tied, tied, np.flatnonzero(unseen & (end == last)))


def _read(
    query: Samples, gallery: Samples, neighbours: Any
) -> tuple[Ints, npt.NDArray[np.float64] | None]:
    ids, distances = neighbours if isinstance(neighbours, tuple) else (neighbours, None)
    table = np.asarray(ids)
    if table.ndim != 2 or table.dtype.kind not in "iu" or len(table) != query.n:
        raise RelevanceError(
            f"neighbours are whole numbers of the shape ({query.n}, K), one row a query; these are "
            f"{table.dtype} of the shape {table.shape}"
        )
    table = table.astype(np.int64)
    bad = np.flatnonzero(((table < -1) | (table >= gallery.n)).any(axis=1))
    if len(bad):
        raise RelevanceError(
            f"neighbours of {counted(len(bad), 'query')} (rows {name_some(bad)}) are no rows of "
            f"the gallery, which has 0 to {gallery.n - 1} (row {bad[0]}: {table[bad[0]].max()}): "
            "they belong to another gallery, or count from 1"
        )
    ordered = np.sort(table, axis=1)
    twice = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(1))
    if len(twice):
        raise RelevanceError(f"the neighbours of queries {name_some(twice)} name an item twice")
    gone = np.flatnonzero(((table[:, :-1] < 0) & (table[:, 1:] >= 0)).any(axis=1))
    if len(gone):
        raise RelevanceError(
            f"the neighbours of queries {name_some(gone)} have -1 before others: it means that "
            "there are no more, so it may stand at the end only"
        )
    return table, None if distances is None else _read_distances(distances, table)


def _read_distances(distances: Any, ids: Ints) -> npt.NDArray[np.float64]:
    values = np.asarray(distances, dtype=np.float64)
    if values.shape != ids.shape:
        raise RelevanceError(
            f"distances have the shape {values.shape}, the neighbours {ids.shape}: they belong "
            "together one by one"
        )
    real = ids >= 0
    bad = np.flatnonzero((real & ~np.isfinite(values)).any(axis=1))
    if len(bad):
        raise RelevanceError(f"distances of queries {name_some(bad)} are not finite")
    falling = (values[:, 1:] < values[:, :-1]) & real[:, 1:]
    bad = np.flatnonzero(falling.any(axis=1))
    if len(bad):
        raise RelevanceError(
            f"distances of queries {name_some(bad)} fall: neighbours are given from the nearest "
            "on; turn similarities round, as -similarity"
        )
    return np.where(real, values, np.inf)
