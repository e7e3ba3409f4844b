"""Positions in metres: the areas that queries lie in, each with a plane of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from reid_vpr_eval.relevance.ellipsoid import earth_centred, tangent_plane

__all__ = ["Area", "areas_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
#: What is farther apart than this, with nothing between, is drawn apart.
_CELL = 10_000.0


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """What lies together: queries, first answers and the gallery, in metres of one plane.

    Attributes
    ----------
    rows : int array (n,)
        The queries, as rows of the table.
    query, answer : float arrays (n, 2)
        Metres east and north of the corner; NaN where the first answer is missing or lies in
        another area.
    track : float array (m, 2)
        The gallery.
    where : str
        Where the corner is.
    """

    rows: Ints
    query: Floats
    answer: Floats
    track: Floats
    where: str


def areas_of(places: pd.DataFrame, track: pd.DataFrame) -> list[Area]:
    """Return the areas that hold queries, the one with the most queries first.

    Positions belong together when a chain of others, each in the same or a neighbouring
    square of 10 km, joins them. The plane is that of their UTM zone if they share one, else
    the one that touches the ellipsoid in their middle.
    """
    kinds = [
        places, track, places.rename(columns={f"top1_{n}": f"_{n}" for n in _NAMES}).rename(
            columns={n: f"query_{n}" for n in _NAMES}
        ).rename(columns={f"_{n}": n for n in _NAMES}),
    ]  # fmt: skip
    size = [len(table) for table in kinds]
    columns = [name for name in _NAMES if all(name in table for table in kinds)]
    whole = pd.concat([table[columns] for table in kinds], ignore_index=True)
    number = _areas(whole)
    split = np.cumsum(size)[:-1]
    ours, _, theirs = np.split(number, split)
    found = []
    for area in np.unique(ours):
        mine = np.flatnonzero(number == area)
        metres = np.full((len(whole), 2), np.nan)
        metres[mine], where = _plane(whole.iloc[mine])
        query, gallery, answer = np.split(metres, split)
        rows = np.flatnonzero(ours == area)
        gallery = gallery[~np.isnan(gallery[:, 0])]
        found.append(Area(rows, query[rows], np.where((theirs == area)[:, None], answer, np.nan)[
            rows
        ], gallery, where))  # fmt: skip
    return sorted(found, key=lambda one: -len(one.rows))


_NAMES = ("east", "north", "zone", "lat", "lon")


def _areas(whole: pd.DataFrame) -> Ints:
    """Number the areas; -1 where there is no position."""
    if "lat" in whole:
        points = earth_centred(whole[["lat", "lon"]].to_numpy(float))
    else:
        zone = pd.factorize(whole["zone"])[0] if "zone" in whole else np.zeros(len(whole))
        points = np.c_[whole[["east", "north"]].to_numpy(float), 1e9 * zone]
    known = ~np.isnan(points).any(axis=1)
    cells, place = np.unique(np.floor(points[known] / _CELL), axis=0, return_inverse=True)
    pairs = KDTree(cells).query_pairs(1.8, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (len(cells),) * 2)
    number = np.full(len(whole), -1, np.int64)
    number[known] = connected_components(graph, directed=False)[1][place.ravel()]
    return number


def _plane(rows: pd.DataFrame) -> tuple[Floats, str]:
    """Return metres from the south-western corner, and where that is."""
    zones = set(rows["zone"].astype(str)) if "zone" in rows else set()
    if "east" in rows and len(zones) < 2:
        metres = rows[["east", "north"]].to_numpy(float)
        corner = np.floor(np.nanmin(metres, axis=0))
        zone = f", zone {zones.pop()}" if zones else ""
        return metres - corner, f"from east {corner[0]:,.0f}, north {corner[1]:,.0f}{zone}"
    degrees = rows[["lat", "lon"]].to_numpy(float)
    # The middle of longitudes on the circle.
    turn = np.radians(degrees[:, 1])
    lon = np.degrees(np.arctan2(np.sin(turn).mean(), np.cos(turn).mean()))
    metres = tangent_plane(degrees, (float(np.median(degrees[:, 0])), float(lon)))
    corner = metres.min(axis=0)
    first = degrees[np.argmin(np.abs(metres - corner).sum(axis=1))]
    return metres - corner, f"from about {first[0]:.4f}, {first[1]:.4f}"
