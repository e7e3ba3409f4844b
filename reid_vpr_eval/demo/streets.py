"""A small town: where its streets run, where it is photographed, and what that is called."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import utm

from reid_vpr_eval.demo.drawing import generator, pick
from reid_vpr_eval.demo.weather import WEATHERS

__all__ = ["MARGIN", "STREETS", "Street", "View", "plan_places"]

#: The walls go on for this many metres beyond both ends of a street.
MARGIN = 60.0

_ZONE, _LETTER = 32, "T"
_EAST, _NORTH = 396_240.0, 4_990_860.0
_STEP = 9.0
_N_QUERIES = 80


@dataclass(frozen=True, slots=True)
class Street:
    """A winding street: a straight line with a gentle wave.

    ``start`` is in metres from the corner of the town, ``bearing`` in degrees from north;
    ``gaps`` says where along it other streets meet it, ``mapped`` whether the database
    covers it.
    """

    start: tuple[float, float]
    bearing: float
    length: float
    wave: float
    gaps: tuple[float, ...]
    mapped: bool = True

    def place(self, along: float, aside: float = 0.0) -> tuple[float, float, float]:
        """Return east, north and the bearing of the street, at a distance from its start.

        >>> street = Street((10.0, 0.0), 90.0, 100.0, 0.0, ())
        >>> [round(value, 6) for value in street.place(50.0, 2.0)]
        [60.0, -2.0, 90.0]
        """
        turn = math.radians(self.bearing)
        phase = 2.0 * math.pi * along / 150.0
        sway, slope = self.wave * math.sin(phase), self.wave * math.cos(phase) / 150.0
        across = sway + aside
        east = self.start[0] + along * math.sin(turn) + across * math.cos(turn)
        north = self.start[1] + along * math.cos(turn) - across * math.sin(turn)
        return east, north, self.bearing + math.degrees(math.atan(slope * 2.0 * math.pi))


#: Three long streets, two that cross them, and a lane that nobody has mapped.
STREETS: tuple[Street, ...] = (
    Street((0.0, 0.0), 90.0, 300.0, 5.0, (90.0, 215.0)),
    Street((0.0, 112.0), 88.0, 300.0, 7.0, (90.0, 215.0)),
    Street((0.0, 230.0), 92.0, 300.0, 6.0, (90.0, 215.0)),
    Street((90.0, -12.0), 0.0, 250.0, 3.0, (12.0, 127.0, 239.0)),
    Street((215.0, -12.0), 1.0, 250.0, 3.0, (12.0, 127.0, 236.0)),
    Street((20.0, 330.0), 84.0, 90.0, 4.0, (), mapped=False),
)


@dataclass(frozen=True, slots=True)
class View:
    """One picture of the town that is to be made.

    ``along`` and ``aside`` place the camera in its street, ``yaw`` is how far it is turned
    to the right of the way of the street, in degrees.
    """

    folder: str
    number: int
    street: int
    along: float
    aside: float
    yaw: float
    weather: str
    exposure: float
    van: bool = False

    @property
    def position(self) -> tuple[float, float]:
        """East and north in metres, as the name of the file gives them."""
        east, north, _ = STREETS[self.street].place(self.along, self.aside)
        return round(_EAST + east, 2), round(_NORTH + north, 2)

    @property
    def heading(self) -> float:
        """Where the camera looks, in degrees from north."""
        return (STREETS[self.street].place(self.along)[2] + self.yaw) % 360.0

    @property
    def name(self) -> str:
        """The name of the file, with the fields that place recognition puts there.

        >>> View("images/test/database", 3, 0, 0.0, 0.0, 55.0, "day", 1.0).name[:54]
        '@396240.00@4990860.00@32@T@45.063596@7.682045@000003@0'
        """
        east, north = self.position
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lat, lon = utm.to_latlon(east, north, _ZONE, _LETTER)
        tile = 0 if self.yaw >= 0 else 1
        fields = (
            f"{east:.2f}", f"{north:.2f}", str(_ZONE), _LETTER, f"{lat:.6f}", f"{lon:.6f}",
            f"{self.number:06d}", str(tile), f"{round(self.heading) % 360:03d}", "0", "0", "1.7",
            f"2024{_MONTHS[self.weather]}", self.weather,
        )  # fmt: skip
        return "@" + "@".join(fields) + "@.png"


_MONTHS = {"day": "06", "overcast": "10", "dusk": "09", "night": "12", "rain": "11"}


def plan_places(seed: int) -> list[View]:
    """Say which pictures there are: the queries, then the database.

    The database goes through the mapped streets in steps of about 9 m and looks to both
    sides. Queries are taken between these places, at other hours and angles; three are
    taken in a lane that the database does not cover.
    """
    rng = generator(seed, "places")
    database: list[View] = []
    for street, course in enumerate(STREETS):
        if not course.mapped:
            continue
        along = 2.0 + 3.0 * float(rng.random())
        while along < course.length:
            aside, exposure = _between(rng, -0.6, 0.6), _between(rng, 0.96, 1.06)
            for yaw in (55.0, -55.0):
                turned = yaw + _between(rng, -3.0, 3.0)
                database.append(
                    View("images/test/database", len(database) // 2, street, along, aside, turned,
                         "day", exposure)
                )  # fmt: skip
            along += _between(rng, 8.0, 10.0)
    lanes = [number for number, course in enumerate(STREETS) if not course.mapped]
    queries = [
        _query(rng, number, lanes[0] if number < 3 else None) for number in range(_N_QUERIES)
    ]
    return queries + database


def _query(rng: np.random.Generator, number: int, lane: int | None) -> View:
    mapped = [street for street, course in enumerate(STREETS) if course.mapped]
    street = pick(rng, mapped) if lane is None else lane
    weather = pick(rng, (*WEATHERS, "day", "day", "day", "overcast", "overcast"))
    yaw = pick(rng, (55.0, -55.0)) + _between(rng, -6.0, 6.0)
    if rng.random() < 0.05:
        yaw = _between(rng, -20.0, 20.0)
    return View(
        "images/test/queries",
        number,
        street,
        _between(rng, 6.0, STREETS[street].length - 6.0),
        _between(rng, -1.2, 1.2),
        yaw,
        weather,
        _between(rng, 0.85, 1.15),
        van=bool(rng.random() < 0.08),
    )


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return round(low + (high - low) * float(rng.random()), 3)
