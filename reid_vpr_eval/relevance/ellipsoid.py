"""The WGS-84 ellipsoid: earth-centred points, chords and geodesics, UTM zones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import RelevanceError
from reid_vpr_eval.samples import Samples

__all__ = [
    "ROUNDING", "Zone", "degrees_of", "earth_centred", "metres_of_chord", "parse_zone", "point",
    "tangent_plane",
]  # fmt: skip

_EQUATOR = 6378137.0
_FLATTENING = 1 / 298.257223563
_ECCENTRICITY2 = _FLATTENING * (2 - _FLATTENING)
# Curvature radii of the ellipsoid lie between 6335.4 and 6399.6 km; a little wider here.
_TIGHTEST, _FLATTEST = 6_330_000.0, 6_410_000.0
#: What rounding can do to a distance between earth-centred points, in metres (generous).
ROUNDING = 1e-7

_FALSE_NORTHING = 10_000_000.0
_ZONE = re.compile(r"^\s*0*(\d{1,2})\s*([A-Za-z]?)\s*$")


class Zone(NamedTuple):
    """A UTM zone and hemisphere; `offset` is the false northing used in it."""

    number: int
    northern: bool
    offset: float


def parse_zone(zone: int | str, north: float) -> Zone:
    """Read a zone such as 17, "17" or "17T" (MGRS band letter), for one northing.

    Without a letter the hemisphere is the northern one, unless the northing is negative:
    then the south is counted from the equator without a false northing.

    >>> parse_zone("17T", 4.4e6)
    Zone(number=17, northern=True, offset=0.0)
    """
    match = _ZONE.match(str(zone))
    number = int(match[1]) if match else 0
    letter = match[2].upper() if match else "?"
    if not match or not 1 <= number <= 60 or (letter and letter not in "CDEFGHJKLMNPQRSTUVWX"):
        raise RelevanceError(
            f"{zone!r} is no UTM zone: a number from 1 to 60 and, if known, a band letter from C "
            "to X, such as 17T"
        )
    northern = letter >= "N" if letter else north >= 0
    return Zone(number, northern, 0.0 if northern or north < 0 else _FALSE_NORTHING)


def degrees_of(
    samples: Samples, plane: npt.NDArray[np.int64], zones: Sequence[Zone]
) -> npt.NDArray[np.float64]:
    """Return latitude and longitude (n, 2): the columns if complete, else UTM inverted."""
    if all(name in samples and not samples.missing(name).any() for name in ("lat", "lon")):
        return np.stack([samples.values("lat"), samples.values("lon")], 1)
    import utm

    east, north = samples.values("east"), samples.values("north")
    degrees = np.empty((samples.n, 2))
    for place, zone in enumerate(zones):
        rows = plane == place
        if rows.any():
            lat, lon = utm.to_latlon(
                east[rows], north[rows] - zone.offset, zone.number, northern=True, strict=False
            )
            degrees[rows] = np.stack([lat, lon], 1)
    return degrees


def earth_centred(degrees: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return x, y, z in metres (n, 3) of latitude and longitude at height 0."""
    lat, lon = np.radians(degrees[:, 0]), np.radians(degrees[:, 1])
    normal = _EQUATOR / np.sqrt(1 - _ECCENTRICITY2 * np.sin(lat) ** 2)
    return np.stack(
        [
            normal * np.cos(lat) * np.cos(lon),
            normal * np.cos(lat) * np.sin(lon),
            normal * (1 - _ECCENTRICITY2) * np.sin(lat),
        ],
        axis=1,
    )


def tangent_plane(
    degrees: npt.NDArray[np.float64], origin: tuple[float, float]
) -> npt.NDArray[np.float64]:
    """Return metres east and north (n, 2) in the plane that touches the ellipsoid at `origin`.

    Both are latitude and longitude; 10 km from the origin a metre is short by a millionth.

    >>> tangent_plane(np.array([[45.001, 7.0]]), (45.0, 7.0)).round(1) + 0.0
    array([[  0. , 111.1]])
    """
    lat, lon = np.radians(origin)
    step = earth_centred(degrees) - earth_centred(np.array([origin]))
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    north = np.array([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
    return np.asarray(step @ np.stack([east, north], axis=1))


def metres_of_chord(
    chord: npt.NDArray[np.float64],
    ours: npt.NDArray[np.float64],
    theirs: npt.NDArray[np.float64],
    radii: Sequence[float],
) -> npt.NDArray[np.float64]:
    """Return geodesic metres of pairs, exact where it decides about one of the radii.

    A geodesic is at least as long as the arc over its chord of a circle as flat as the
    ellipsoid gets, and at most as the arc of one as tight as it gets. Where a radius lies
    between these two bounds, the geodesic itself is computed.
    """
    shortest, longest = _arc(chord, _FLATTEST) - ROUNDING, _arc(chord, _TIGHTEST) + ROUNDING
    metres = np.where(np.isfinite(longest), (shortest + longest) / 2, shortest)
    open_pairs = np.zeros(len(chord), bool)
    for radius in radii:
        open_pairs |= (shortest <= radius) & (longest >= radius)
    if open_pairs.any():
        from geopy.distance import geodesic

        for pair in np.flatnonzero(open_pairs):
            metres[pair] = geodesic(point(ours[pair]), point(theirs[pair])).meters
    return metres


def _arc(chord: npt.NDArray[np.float64], radius: float) -> npt.NDArray[np.float64]:
    sine = chord / (2 * radius)
    arc = 2 * radius * np.arcsin(np.minimum(sine, 1.0))
    return np.where(sine < 1.0, arc, np.inf if radius == _TIGHTEST else np.pi * radius)


def point(degrees: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return latitude and longitude as geopy takes them."""
    return float(degrees[0]), float(degrees[1])
