"""Brushes of the rendered world: seeded choices, smooth shapes, and pictures on disk."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

__all__ = ["Canvas", "Colour", "Paint", "Point", "generator", "mix", "pick", "png", "vary"]

Colour: TypeAlias = tuple[int, int, int]
Paint: TypeAlias = Colour | int
Point: TypeAlias = tuple[float, float]

_NO_MATCHES = 3  # zlib.Z_RLE: the compressed bytes do not depend on a search for matches


def generator(seed: int, *what: int | str) -> np.random.Generator:
    """Return the generator of one thing in the world of a seed.

    >>> generator(0, "person", 3).integers(100) == generator(0, "person", 3).integers(100)
    np.True_
    """
    parts = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in what]
    return np.random.default_rng([seed, *parts])


def pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """Return one of the options, all equally likely."""
    return options[int(rng.integers(len(options)))]


def mix(first: Colour, second: Colour, part: float) -> Colour:
    """Return the colour that lies this part of the way from the first to the second.

    >>> mix((0, 0, 0), (200, 100, 50), 0.5)
    (100, 50, 25)
    """
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(first, second, strict=True))
    return red, green, blue


def vary(rng: np.random.Generator, colour: Colour, by: int) -> Colour:
    """Return a colour near this one."""
    red, green, blue = (
        min(255, max(0, channel + int(step)))
        for channel, step in zip(colour, rng.integers(-by, by + 1, 3), strict=True)
    )
    return red, green, blue


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return the bytes of a PNG file, the same for the same pixels."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", compress_level=6, compress_type=_NO_MATCHES)
    return buffer.getvalue()


class Canvas:
    """A drawing in units of its own, larger than the picture and shrunk at the end.

    Parameters
    ----------
    image : PIL image
        What is drawn on.
    unit : float
        Pixels of the image in one unit of the drawing.
    origin : point
        Where in the image, in pixels, the point (0, 0) of the drawing lies.

    Examples
    --------
    >>> image = Image.new("RGB", (40, 40))
    >>> Canvas(image, 10.0, (20.0, 20.0)).disc((0.0, 0.0), 1.0, (255, 255, 255))
    >>> image.getpixel((20, 20)), image.getpixel((1, 1))
    ((255, 255, 255), (0, 0, 0))
    """

    def __init__(self, image: Image.Image, unit: float = 1.0, origin: Point = (0.0, 0.0)) -> None:
        self.image = image
        self.unit = unit
        self.origin = origin
        self._pen = ImageDraw.Draw(image)

    def at(self, point: Point) -> Point:
        """Return where in the image, in pixels, a point of the drawing lies."""
        return (
            round(self.origin[0] + point[0] * self.unit, 3),
            round(self.origin[1] + point[1] * self.unit, 3),
        )

    def polygon(self, points: Sequence[Point], fill: Paint) -> None:
        """Fill a polygon."""
        self._pen.polygon([self.at(point) for point in points], fill=fill)

    def box(self, left: float, top: float, right: float, bottom: float, fill: Paint) -> None:
        """Fill a rectangle."""
        (x0, y0), (x1, y1) = self.at((left, top)), self.at((right, bottom))
        if x1 >= x0 and y1 >= y0:
            self._pen.rectangle((x0, y0, x1, y1), fill=fill)

    def disc(self, centre: Point, radius: float, fill: Paint, *, flat: float = 1.0) -> None:
        """Fill a circle, or an ellipse `flat` times as high as wide."""
        x, y = centre
        (x0, y0), (x1, y1) = (
            self.at((x - radius, y - radius * flat)),
            self.at((x + radius, y + radius * flat)),
        )
        self._pen.ellipse((x0, y0, x1, y1), fill=fill)

    def limb(self, points: Sequence[Point], widths: Sequence[float], fill: Paint) -> None:
        """Draw a rounded limb through points, of a width at each."""
        for (start, end), (first, last) in zip(
            pairwise(points),
            pairwise(widths),
            strict=True,
        ):
            self._segment(start, end, first / 2.0, last / 2.0, fill)
        for point, width in zip(points, widths, strict=True):
            self.disc(point, width / 2.0, fill)

    def _segment(self, start: Point, end: Point, first: float, last: float, fill: Paint) -> None:
        along, down = end[0] - start[0], end[1] - start[1]
        length = (along * along + down * down) ** 0.5 or 1.0
        x, y = -down / length, along / length
        self.polygon(
            [
                (start[0] + x * first, start[1] + y * first),
                (end[0] + x * last, end[1] + y * last),
                (end[0] - x * last, end[1] - y * last),
                (start[0] - x * first, start[1] - y * first),
            ],
            fill,
        )
