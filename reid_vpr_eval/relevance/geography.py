"""Right by place: within so many metres, in the UTM plane or on the ellipsoid."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from reid_vpr_eval.errors import EvaluationWarning, RelevanceError, counted, name_some
from reid_vpr_eval.relevance import ellipsoid
from reid_vpr_eval.relevance.ignores import Ignores
from reid_vpr_eval.relevance.near import Near, candidates
from reid_vpr_eval.relevance.pairing import check_choice, check_sides
from reid_vpr_eval.relevance.pairs import NoPositive, Relevance, SelfRule
from reid_vpr_eval.samples import Samples

__all__ = ["degrees_of_rows", "metres_between", "metres_of_pairs", "within_metres"]

Ints: TypeAlias = npt.NDArray[np.int64]
Pairs: TypeAlias = tuple[
    npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]
]


def within_metres(
    query: Samples,
    gallery: Samples,
    *,
    radius: float | Sequence[float] = 25.0,
    inclusive: bool = True,
    self: SelfRule = "keep",
    coordinates: Literal["utm", "latlon"] | None = None,
    heading: float | None = None,
    height: float | None = None,
    ignore: Sequence[Mapping[str, Any]] = (),
    wide_ignore: Sequence[Mapping[str, Any]] = (),
    group_search: str | None = None,
    no_positive: NoPositive = "zero",
) -> Relevance:
    """Judge by distance: a gallery item within `radius` metres of the query is positive.

    Parameters
    ----------
    query, gallery : Samples
        With the columns east and north (metres; and zone, if there are several), or lat
        and lon (degrees).
    radius : float or sequence of float
        Metres. Of several radii the first is the headline; the pairs of all are judged,
        so that another one, ``relevance.at(10.0)``, is graded without ranking again.
    inclusive : bool
        Whether exactly `radius` metres is still positive.
    self : {"keep", "exclude"}
        Whether an item with the query's own id stays in its ranking.
    coordinates : {"utm", "latlon"}, optional
        Which columns to use; by default utm where east and north exist.
    heading : float, optional
        Largest difference of the column heading, degrees on the circle; exactly this is
        still right.
    height : float, optional
        Largest difference of the column height, metres; exactly this is still right.
    ignore, wide_ignore : sequence of mappings
        Further ignored items, as in :func:`same_label`.
    group_search : str, optional
        A column such as the city: a query is searched among the items of its own value.
    no_positive : {"skip", "zero", "one", "error"}
        The default for queries without a positive: a miss, as most code in this field
        counts it.

    Notes
    -----
    Inside a UTM zone and hemisphere the distance is that of the plane, sqrt(dx^2 + dy^2).
    Pairs in different zones are measured on the WGS-84 ellipsoid, as are latitude and
    longitude: chords between earth-centred points bound the geodesic so tightly that only
    pairs at the very edge need the geodesic itself (Karney's, from geopy).

    Raises
    ------
    RelevanceError
        If coordinates are absent, out of range or look swapped, or a radius is not positive.
    AlignmentError
        If a side is empty.

    Examples
    --------
    >>> query = Samples.from_columns(east=[500.0], north=[100.0])
    >>> gallery = Samples.from_columns(east=[515.0, 515.0], north=[120.0, 120.1])
    >>> within_metres(query, gallery, radius=25.0).positives(0)
    array([0])
    """
    check_sides(query, gallery)
    radii = _check_radii(radius)
    check_choice("coordinates", coordinates, ("utm", "latlon", None))
    ignores = Ignores.of(
        query, gallery, ignore, wide_ignore, self=self, group_search=group_search
    )
    limits = _limits(query, gallery, heading=heading, height=height)
    kind = coordinates or _which(query, gallery)
    pairs = _utm_pairs if kind == "utm" else _latlon_pairs
    near = Near()
    for ours, theirs, metres in pairs(query, gallery, max(radii), radii):
        within = [metres <= radius if inclusive else metres < radius for radius in radii]
        for limit in limits:
            fits = limit(ours, theirs)
            within = [right & fits for right in within]
        near.add(ours, theirs, within)
    return ignores.settle(
        near.found, passes=near.passes, thresholds=tuple(radii), no_positive=no_positive,
        note=_note(query, gallery, kind, radii[0]),
    )  # fmt: skip


def metres_between(
    query: Samples, gallery: Samples, coordinates: Literal["utm", "latlon"] | None = None
) -> npt.NDArray[np.float64]:
    """Return the metres from each row of one side to the same row of the other.

    In the plane of their UTM zone, or on the ellipsoid (geopy's geodesic).
    """
    from geopy.distance import geodesic

    kind = coordinates or _which(query, gallery)
    sides = (query, gallery)
    planes = _planes(query, gallery) if kind == "utm" else None
    metres = np.zeros(query.n)
    apart = np.ones(query.n, bool)
    if kind == "utm":
        east, north = ([side.values(name) for side in sides] for name in ("east", "north"))
        metres = np.sqrt((east[0] - east[1]) ** 2 + (north[0] - north[1]) ** 2)
        apart = np.zeros(query.n, bool) if planes is None else planes[0] != planes[1]
    if apart.any():
        if planes is None:
            points = [np.stack([side.values("lat"), side.values("lon")], 1) for side in sides]
        else:
            points = [
                ellipsoid.degrees_of(side, plane, planes[2])
                for side, plane in zip(sides, planes[:2], strict=True)
            ]
        for row in np.flatnonzero(apart):
            ends = (ellipsoid.point(points[0][row]), ellipsoid.point(points[1][row]))
            metres[row] = geodesic(*ends).meters
    return metres


def metres_of_pairs(
    query: Samples,
    gallery: Samples,
    rows: Ints,
    items: Ints,
    *,
    coordinates: Literal["utm", "latlon"] | None = None,
    radii: Sequence[float] = (),
) -> npt.NDArray[np.float64]:
    """Return the metres of many pairs of a query row and a gallery row, float64 (n_pairs,).

    As :meth:`within_metres` measures them: in the plane of a UTM zone, else by chords, on the
    right side of each of `radii`.
    """
    kind = coordinates or _which(query, gallery)
    ours, theirs = query.without(["id"]).take(rows), gallery.without(["id"]).take(items)
    metres, apart = np.zeros(len(rows)), np.ones(len(rows), bool)
    planes = _planes(ours, theirs) if kind == "utm" else None
    if kind == "utm":
        east, north = ([s.values(name) for s in (ours, theirs)] for name in ("east", "north"))
        metres = np.sqrt((east[0] - east[1]) ** 2 + (north[0] - north[1]) ** 2)
        apart = np.zeros(len(rows), bool) if planes is None else planes[0] != planes[1]
    if apart.any():
        ends = [degrees_of_rows(side.take(apart), kind) for side in (ours, theirs)]
        assert ends[0] is not None and ends[1] is not None  # noqa: S101, PT018 (zones differ)
        points = [ellipsoid.earth_centred(end) for end in ends if end is not None]
        chord = np.sqrt(((points[0] - points[1]) ** 2).sum(axis=1))
        metres[apart] = ellipsoid.metres_of_chord(chord, ends[0], ends[1], radii)
    return metres


def degrees_of_rows(
    samples: Samples, coordinates: Literal["utm", "latlon"]
) -> npt.NDArray[np.float64] | None:
    """Return latitude and longitude, float64 (n, 2); None where nothing tells them.

    UTM coordinates are inverted where their zone is known; without a zone the columns lat
    and lon serve if they are complete.
    """
    if coordinates == "utm" and "zone" in samples and not samples.missing("zone").any():
        planes = _planes(samples, samples)
        if planes is None:
            zone = ellipsoid.parse_zone(samples.keys("zone")[0], samples.values("north")[0])
            planes = np.zeros(samples.n, np.int64), np.zeros(samples.n, np.int64), [zone]
        return ellipsoid.degrees_of(samples.without(["lat", "lon"]), planes[0], planes[2])
    if all(name in samples and not samples.missing(name).any() for name in ("lat", "lon")):
        return np.stack([samples.values("lat"), samples.values("lon")], 1)
    return None


def _limits(
    query: Samples, gallery: Samples, *, heading: float | None, height: float | None
) -> list[Callable[[Ints, Ints], npt.NDArray[np.bool_]]]:
    """Return the further conditions on a pair, as functions of positions."""
    limits: list[Callable[[Ints, Ints], npt.NDArray[np.bool_]]] = []
    for name, most in (("heading", heading), ("height", height)):
        if most is None:
            continue
        if not most >= 0 or not np.isfinite(most):
            raise RelevanceError(f"{name} = {most!r}: a difference of 0 or more is needed")
        sides = query.values(name), gallery.values(name)

        def fits(
            ours: Ints, theirs: Ints, *, columns: Any = sides, circle: bool = name == "heading",
            most: float = most,
        ) -> npt.NDArray[np.bool_]:  # fmt: skip
            step = np.abs(columns[0][ours] - columns[1][theirs])
            if circle:
                step = step % 360
                step = np.minimum(step, 360 - step)
            return np.asarray(step <= most)

        limits.append(fits)
    return limits


def _check_radii(radius: float | Sequence[float]) -> list[float]:
    try:
        radii = [float(r) for r in np.atleast_1d(np.asarray(radius, dtype=float))]
    except (TypeError, ValueError):
        radii = []
    if not radii or not all(np.isfinite(r) and r > 0 for r in radii):
        raise RelevanceError(f"radius = {radius!r}: metres above 0 are needed")
    return list(dict.fromkeys(radii))


def _which(query: Samples, gallery: Samples) -> Literal["utm", "latlon"]:
    for kind, names in (("utm", ("east", "north")), ("latlon", ("lat", "lon"))):
        if all(name in side for name in names for side in (query, gallery)):
            return kind  # type: ignore[return-value]
    raise RelevanceError(
        "both sides need the columns east and north (metres), or lat and lon (degrees); the "
        f"query side has {', '.join(query.column_names) or 'none'}, the gallery side "
        f"{', '.join(gallery.column_names) or 'none'}"
    )


def _plane_pairs(
    ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64], reach: float
) -> Iterator[Pairs]:
    tree = KDTree(theirs)
    for i, j in candidates(ours, tree, reach):
        step = ours[i] - theirs[j]
        yield i, j, np.sqrt(step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1])


def _utm_pairs(
    query: Samples, gallery: Samples, reach: float, radii: Sequence[float]
) -> Iterator[Pairs]:
    ours, theirs = (np.stack([s.values("east"), s.values("north")], 1) for s in (query, gallery))
    planes = _planes(query, gallery)
    if planes is None:
        yield from _plane_pairs(ours, theirs, reach)
        return
    our_plane, their_plane, zones = planes
    for plane in range(len(zones)):
        rows, columns = np.flatnonzero(our_plane == plane), np.flatnonzero(their_plane == plane)
        if len(rows) and len(columns):
            for i, j, metres in _plane_pairs(ours[rows], theirs[columns], reach):
                yield rows[i], columns[j], metres
    n_across = 0
    points = [
        ellipsoid.degrees_of(side, plane, zones)
        for side, plane in ((query, our_plane), (gallery, their_plane))
    ]
    for side, degrees in zip(("query", "gallery"), points, strict=True):
        _check_degrees(side, degrees[:, 0], degrees[:, 1])
    for i, j, metres in _globe_pairs(points[0], points[1], reach, radii):
        across = our_plane[i] != their_plane[j]
        n_across += int((across & (metres <= reach)).sum())
        yield i[across], j[across], metres[across]
    if n_across:
        near = f"within {reach:g} m"
        warnings.warn(
            f"{counted(n_across, f'pair {near} lies', f'pairs {near} lie')} in different UTM "
            "zones, measured on the ellipsoid",
            EvaluationWarning,
            stacklevel=3,
        )


def _planes(
    query: Samples, gallery: Samples
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[ellipsoid.Zone]] | None:
    """Number the (zone, hemisphere) of every row; None if all lie in one plane."""
    if "zone" not in query and "zone" not in gallery:
        return None
    for side, samples in (("query", query), ("gallery", gallery)):
        if "zone" not in samples:
            raise RelevanceError(
                f"the {side} side has no column 'zone', the other side has: UTM coordinates of "
                "unknown zone cannot be compared; give both or neither"
            )
    ours, theirs = (
        [ellipsoid.parse_zone(zone, north) for zone, north in zip(*columns, strict=True)]
        for columns in (
            (side.keys("zone").tolist(), side.values("north").tolist()) for side in (query, gallery)
        )
    )
    zones = sorted(set(ours) | set(theirs))
    if len(zones) == 1:
        return None
    number = {zone: place for place, zone in enumerate(zones)}
    return np.array([number[z] for z in ours]), np.array([number[z] for z in theirs]), zones


def _latlon_pairs(
    query: Samples, gallery: Samples, reach: float, radii: Sequence[float]
) -> Iterator[Pairs]:
    points = []
    for side, samples in (("query", query), ("gallery", gallery)):
        lat, lon = samples.values("lat"), samples.values("lon")
        _check_degrees(side, lat, lon)
        points.append(np.stack([lat, lon], 1))
    yield from _globe_pairs(points[0], points[1], reach, radii)


def _globe_pairs(
    ours: npt.NDArray[np.float64],
    theirs: npt.NDArray[np.float64],
    reach: float,
    radii: Sequence[float],
) -> Iterator[Pairs]:
    """Yield pairs with metres that stand on the right side of every radius."""
    points = ellipsoid.earth_centred(ours)
    others = ellipsoid.earth_centred(theirs)
    for i, j in candidates(points, KDTree(others), reach, ellipsoid.ROUNDING):
        chord = np.sqrt(((points[i] - others[j]) ** 2).sum(axis=1))
        yield i, j, ellipsoid.metres_of_chord(chord, ours[i], theirs[j], radii)


def _check_degrees(
    side: str, lat: npt.NDArray[np.float64], lon: npt.NDArray[np.float64]
) -> None:
    bad = np.flatnonzero((np.abs(lat) > 90) | (lon < -180) | (lon > 360))
    if not len(bad):
        return
    row = bad[0]
    swapped = bool((np.abs(lon) <= 90).all() and (np.abs(lat) <= 180).all())
    hint = (
        "latitude and longitude look swapped: exchange the two columns"
        if swapped
        else "latitude is -90 to 90 and longitude -180 to 180 degrees"
    )
    raise RelevanceError(
        f"{side} side: {counted(len(bad), 'row has', 'rows have')} coordinates out of range (rows "
        f"{name_some(bad)}; row {row}: lat {lat[row]:g}, lon {lon[row]:g}); {hint}"
    )


def _note(query: Samples, gallery: Samples, kind: str, radius: float) -> str:
    names = ("east", "north") if kind == "utm" else ("lat", "lon")
    spans = [
        f"{side} {name} {samples.values(name).min():.6g} to {samples.values(name).max():.6g}"
        for side, samples in (("query", query), ("gallery", gallery))
        for name in names
    ]
    return f"no gallery item lies within {radius:g} m of a query ({'; '.join(spans)})"
