"""Time of day and weather: the light in which a street is seen."""

from __future__ import annotations

from dataclasses import dataclass

from reid_vpr_eval.demo.drawing import Colour

__all__ = ["WEATHERS", "Weather"]


@dataclass(frozen=True, slots=True)
class Weather:
    """The light of one moment.

    Parameters
    ----------
    light : three floats
        What falls on the walls, for red, green and blue.
    zenith, horizon : colour
        The sky above and far away; far walls fade into the latter.
    glow : float
        How strongly lit windows shine, from 0 to 1.
    wet : float
        How strongly the ground mirrors the walls, from 0 to 1.
    haze : float
        Part of the colour that is lost at 100 m.
    grain : int
        The largest step of noise, in levels.
    """

    light: tuple[float, float, float]
    zenith: Colour
    horizon: Colour
    glow: float
    wet: float
    haze: float
    grain: int


#: The moments that are rendered, by name; the database is seen by day.
WEATHERS: dict[str, Weather] = {
    "day": Weather((1.0, 0.99, 0.96), (104, 164, 222), (206, 226, 238), 0.0, 0.0, 0.35, 4),
    "overcast": Weather((0.84, 0.87, 0.9), (178, 186, 194), (214, 218, 220), 0.05, 0.0, 0.5, 5),
    "dusk": Weather((0.86, 0.72, 0.68), (72, 84, 142), (246, 170, 112), 0.35, 0.0, 0.4, 6),
    "night": Weather((0.36, 0.39, 0.5), (14, 18, 40), (46, 50, 82), 0.9, 0.0, 0.5, 8),
    "rain": Weather((0.72, 0.75, 0.79), (118, 126, 136), (166, 172, 178), 0.15, 0.4, 0.6, 7),
}
