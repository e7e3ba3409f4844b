"""The two walls of a street, unrolled: houses, gardens and side alleys, by the metre."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from reid_vpr_eval.demo.drawing import Canvas, Colour, mix, pick, vary

__all__ = ["PIXELS_A_METRE", "WALL_HEIGHT", "Wall", "draw_wall"]

Pixels: TypeAlias = npt.NDArray[np.uint8]

#: Resolution of an unrolled wall.
PIXELS_A_METRE = 16
#: Height of an unrolled wall in metres; houses are lower.
WALL_HEIGHT = 16.0

_LEVELS = 5
_PLASTER: tuple[Colour, ...] = (
    (224, 190, 128), (206, 142, 104), (232, 218, 192), (214, 168, 160), (186, 192, 190),
    (176, 124, 92), (198, 206, 176), (164, 180, 200), (236, 206, 150), (150, 96, 82),
)  # fmt: skip
_SIGNS: tuple[Colour, ...] = (
    (172, 44, 44), (36, 84, 132), (38, 104, 74), (214, 158, 44), (104, 58, 118), (40, 44, 52),
    (206, 98, 48), (46, 128, 136),
)  # fmt: skip
_GLASS: Colour = (74, 94, 112)
_WARM: Colour = (255, 214, 140)


@dataclass(frozen=True, slots=True, eq=False)
class Wall:
    """One side of a street as textures, each level half as large as the one before.

    ``colour`` holds (height, length, 4) with transparent sky, ``glow`` (height, length)
    what shines at night.
    """

    colour: tuple[Pixels, ...]
    glow: tuple[Pixels, ...]


def draw_wall(rng: np.random.Generator, length: float, gaps: Sequence[float]) -> Wall:
    """Build a wall of this many metres, open where other streets meet it."""
    size = (int(length * PIXELS_A_METRE), int(WALL_HEIGHT * PIXELS_A_METRE))
    sheet, shine = Image.new("RGBA", size), Image.new("L", size)
    unit, floor = float(PIXELS_A_METRE), (0.0, float(size[1]))
    builder = _Builder(Canvas(sheet, unit, floor), Canvas(shine, unit, floor), rng)
    place = 0.0
    while place < length:
        width = 7.0 + 7.0 * float(rng.random())
        if rng.random() < 0.12:
            builder.garden(place, place + width)
        else:
            builder.house(place, place + width)
        place += width
    for gap in gaps:
        left, right = (round((gap + step) * unit) for step in (-5.0, 5.0))
        for image in (sheet, shine):
            image.paste(0, (max(0, left), 0, max(0, right), size[1]))
    return Wall(_levels(np.asarray(sheet)), _levels(np.asarray(shine)))


def _levels(full: Pixels) -> tuple[Pixels, ...]:
    levels = [full]
    for _ in range(_LEVELS - 1):
        levels.append(np.asarray(Image.fromarray(levels[-1]).reduce(2)))
    return tuple(levels)


class _Builder:
    """Draws houses and gardens; heights are negative, because down is positive."""

    def __init__(self, paint: Canvas, shine: Canvas, rng: np.random.Generator) -> None:
        self.paint = paint
        self.shine = shine
        self.rng = rng

    def garden(self, left: float, right: float) -> None:
        """Build a low wall with bushes and a tree behind it."""
        rng = self.rng
        trunk = left + (right - left) * (0.3 + 0.4 * float(rng.random()))
        leaf = vary(rng, (88, 130, 70), 20)
        self.paint.box(trunk - 0.18, -5.0, trunk + 0.18, 0.0, (92, 70, 52))
        for _ in range(34):
            x = trunk + (-1.0 + 2.0 * float(rng.random())) * 2.4
            y = -5.6 + (-1.0 + 2.0 * float(rng.random())) * 2.0
            self.paint.disc((x, y), 0.5 + 0.5 * float(rng.random()), vary(rng, leaf, 18))
        for _ in range(30):
            x = left + (right - left) * float(rng.random())
            self.paint.disc((x, -1.7 - 0.5 * float(rng.random())), 0.55, vary(rng, leaf, 22))
        stone = vary(rng, (176, 164, 146), 14)
        self.paint.box(left, -1.6, right, 0.0, stone)
        self.paint.box(left, -1.75, right, -1.5, mix(stone, (255, 255, 255), 0.25))
        for course in range(1, 4):
            self.paint.box(
                left, -0.4 * course, right, -0.4 * course + 0.05, mix(stone, (0, 0, 0), 0.2)
            )

    def house(self, left: float, right: float) -> None:
        """Build a house: plaster or brick, storeys of windows, a roof and a ground floor."""
        rng, paint = self.rng, self.paint
        wall = vary(rng, pick(rng, _PLASTER), 12)
        trim = (
            mix(wall, (255, 255, 255), 0.55) if rng.random() < 0.7 else mix(wall, (60, 40, 30), 0.5)
        )
        storeys, ground = int(rng.integers(1, 4)), 3.6 + 0.6 * float(rng.random())
        storey = 2.8 + 0.6 * float(rng.random())
        top = -(ground + storeys * storey + 0.4)
        self._roof(left, right, top)
        paint.box(left, top, right, 0.0, wall)
        if rng.random() < 0.25:
            self._courses(left, right, top, wall)
        paint.box(left, top - 0.1, right, top + 0.3, trim)
        columns = max(2, int((right - left) / (2.0 + 0.9 * float(rng.random()))))
        style = _Style.imagine(rng, wall, trim)
        pitch = (right - left) / columns
        for floor in range(storeys):
            base = -(ground + floor * storey + 0.75)
            if floor and style.band:
                paint.box(left, base + 0.62, right, base + 0.78, trim)
            for column in range(columns):
                self._window(left + (column + 0.5) * pitch, base, style)
        if rng.random() < 0.6:
            self._shop(left, right, ground)
        else:
            self._home(left, right, columns, style)
        paint.box(left, -0.45, right, 0.0, mix(wall, (70, 64, 60), 0.6))
        paint.box(left, top, left + 0.09, 0.0, mix(wall, (0, 0, 0), 0.35))

    def _roof(self, left: float, right: float, top: float) -> None:
        tile = vary(self.rng, pick(self.rng, ((150, 78, 58), (92, 92, 100), (120, 84, 66))), 12)
        rise = 0.8 + 0.9 * float(self.rng.random())
        self.paint.polygon(
            [
                (left - 0.2, top),
                (left + 0.6, top - rise),
                (right - 0.6, top - rise),
                (right + 0.2, top),
            ],
            tile,
        )
        if self.rng.random() < 0.6:
            x = left + (right - left) * (0.2 + 0.6 * float(self.rng.random()))
            self.paint.box(x - 0.35, top - rise - 0.9, x + 0.35, top - rise + 0.2, (124, 92, 80))

    def _courses(self, left: float, right: float, top: float, wall: Colour) -> None:
        joint, row, height = mix(wall, (0, 0, 0), 0.16), 0, 0.0
        while height < -top:
            self.paint.box(left, -height, right, -height + 0.07, joint)
            x = left + (row % 2) * 0.5
            while x < right:
                self.paint.box(x, -height - 0.4, x + 0.06, -height, joint)
                x += 1.0
            height, row = height + 0.4, row + 1

    def _window(self, middle: float, base: float, style: _Style) -> None:
        half, tall, paint = style.width / 2.0, style.height, self.paint
        frame = (middle - half - 0.12, base - tall - 0.12, middle + half + 0.12, base + 0.1)
        paint.box(*frame, style.trim)
        if style.arched:
            paint.disc((middle, base - tall), half + 0.12, style.trim)
            paint.disc((middle, base - tall), half, _GLASS)
        paint.box(middle - half, base - tall, middle + half, base, _GLASS)
        paint.polygon(
            [
                (middle - half, base - tall),
                (middle + half * 0.4, base - tall),
                (middle - half, base - tall * 0.3),
            ],
            mix(_GLASS, (200, 220, 235), 0.45),
        )
        if self.rng.random() < 0.35:
            self.shine.box(middle - half, base - tall, middle + half, base, _lit(self.rng))
        paint.box(middle - 0.04, base - tall, middle + 0.04, base, style.trim)
        paint.box(middle - half, base - tall * 0.55, middle + half, base - tall * 0.5, style.trim)
        if style.shutters is not None:
            for sign in (-1.0, 1.0):
                x = middle + sign * (half + 0.3)
                paint.box(x - 0.24, base - tall, x + 0.24, base, style.shutters)
                paint.box(
                    x - 0.24,
                    base - tall * 0.52,
                    x + 0.24,
                    base - tall * 0.47,
                    mix(style.shutters, (0, 0, 0), 0.3),
                )
        if style.balcony:
            paint.box(
                middle - half - 0.4, base + 0.0, middle + half + 0.4, base + 0.14, (96, 92, 92)
            )
            for bar in range(7):
                x = middle - half - 0.35 + bar * (style.width + 0.7) / 6.0
                paint.box(x - 0.03, base - 0.75, x + 0.03, base + 0.1, (52, 52, 58))
            paint.box(
                middle - half - 0.4, base - 0.8, middle + half + 0.4, base - 0.7, (52, 52, 58)
            )

    def _shop(self, left: float, right: float, ground: float) -> None:
        rng, paint = self.rng, self.paint
        colour = vary(rng, pick(rng, _SIGNS), 14)
        inner_left, inner_right, sign = left + 0.5, right - 0.5, -(ground - 0.2)
        paint.box(left + 0.25, sign, right - 0.25, 0.0, mix(colour, (20, 20, 24), 0.45))
        paint.box(inner_left, sign + 0.95, inner_right, -0.5, (92, 112, 124))
        self.shine.box(inner_left, sign + 0.95, inner_right, -0.5, _lit(rng))
        x = inner_left + 0.2
        while x < inner_right - 0.6:
            tall = 0.5 + 1.1 * float(rng.random())
            paint.box(x, -0.6 - tall, x + 0.5, -0.5, vary(rng, (168, 146, 126), 60))
            x += 0.75
        door = left + (right - left) * (0.2 + 0.6 * float(rng.random()))
        paint.box(door - 0.6, -2.5, door + 0.6, 0.0, mix(colour, (0, 0, 0), 0.35))
        paint.box(door - 0.42, -2.3, door + 0.42, -0.6, (120, 138, 148))
        paint.box(left + 0.25, sign, right - 0.25, sign + 0.85, colour)
        self.shine.box(left + 0.25, sign, right - 0.25, sign + 0.85, 90)
        self._letters(left + 0.9, right - 0.9, sign + 0.65, mix(colour, (255, 250, 235), 0.85))
        if rng.random() < 0.55:
            self._awning(inner_left, inner_right, sign + 0.9, pick(rng, _SIGNS))

    def _letters(self, left: float, right: float, base: float, colour: Colour) -> None:
        rng, x = self.rng, left
        while x < right - 0.4:
            width, kind = 0.22 + 0.2 * float(rng.random()), int(rng.integers(5))
            if kind == 0:
                self.paint.disc((x + width / 2.0, base - 0.22), width / 2.0, colour)
            elif kind == 1:
                self.paint.box(x, base - 0.45, x + 0.1, base, colour)
                self.paint.box(x, base - 0.1, x + width, base, colour)
            elif kind == 2:
                self.paint.box(x, base - 0.45, x + width, base - 0.34, colour)
                self.paint.box(
                    x + width / 2.0 - 0.05, base - 0.45, x + width / 2.0 + 0.05, base, colour
                )
            elif kind == 3:
                self.paint.box(x, base - 0.45, x + width, base, colour)
            x += width + 0.14

    def _awning(self, left: float, right: float, top: float, colour: Colour) -> None:
        x, stripe = left, 0
        while x < right:
            end = min(right, x + 0.55)
            tone = colour if stripe % 2 else (240, 234, 222)
            self.paint.polygon([(x, top), (end, top), (end, top + 0.85), (x, top + 0.85)], tone)
            self.paint.disc(((x + end) / 2.0, top + 0.85), (end - x) / 2.0, tone, flat=0.7)
            x, stripe = end, stripe + 1

    def _home(self, left: float, right: float, columns: int, style: _Style) -> None:
        rng, paint = self.rng, self.paint
        pitch, entrance = (right - left) / columns, int(rng.integers(columns))
        leaf = vary(rng, pick(rng, ((96, 60, 40), (44, 84, 72), (56, 70, 112), (126, 44, 44))), 14)
        for column in range(columns):
            x = left + (column + 0.5) * pitch
            if column == entrance:
                paint.box(x - 0.75, -2.75, x + 0.75, 0.0, style.trim)
                paint.box(x - 0.58, -2.55, x + 0.58, 0.0, leaf)
                paint.box(x - 0.4, -2.3, x + 0.4, -1.5, mix(leaf, (0, 0, 0), 0.3))
                self.shine.box(x - 0.4, -2.9, x + 0.4, -2.6, 200)
            else:
                self._window(x, -1.0, style)


@dataclass(frozen=True, slots=True)
class _Style:
    """How the windows of one house look."""

    width: float
    height: float
    arched: bool
    balcony: bool
    band: bool
    trim: Colour
    shutters: Colour | None

    @classmethod
    def imagine(cls, rng: np.random.Generator, wall: Colour, trim: Colour) -> _Style:
        colours: tuple[Any, ...] = (
            (58, 94, 78),
            (74, 96, 130),
            (118, 66, 48),
            mix(wall, (40, 30, 30), 0.5),
        )
        return cls(
            width=0.9 + 0.35 * float(rng.random()),
            height=1.35 + 0.35 * float(rng.random()),
            arched=bool(rng.random() < 0.2),
            balcony=bool(rng.random() < 0.25),
            band=bool(rng.random() < 0.5),
            trim=trim,
            shutters=pick(rng, colours) if rng.random() < 0.5 else None,
        )


def _lit(rng: np.random.Generator) -> int:
    return int(rng.integers(140, 256))
