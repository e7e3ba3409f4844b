"""What a camera sees in a street: one ray for every column, walls on both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from reid_vpr_eval.demo.drawing import Canvas, Colour, generator, mix, pick, vary
from reid_vpr_eval.demo.facades import PIXELS_A_METRE, WALL_HEIGHT, Wall, draw_wall
from reid_vpr_eval.demo.streets import MARGIN, STREETS, View
from reid_vpr_eval.demo.weather import WEATHERS, Weather

__all__ = ["PlacesRenderer"]

Array: TypeAlias = npt.NDArray[Any]

_WIDTH, _HEIGHT, _SCALE = 160, 120, 2
_COLUMNS, _ROWS = _WIDTH * _SCALE, _HEIGHT * _SCALE
_FOCAL = 0.6 * _COLUMNS
_HORIZON = 0.6 * _ROWS
_EYE = 1.7
_HALF_STREET = 6.5
_KERB = 4.4
_FAR = 400.0
_ASPHALT = np.array([92.0, 94.0, 98.0], np.float32)
_SLABS = np.array([168.0, 162.0, 152.0], np.float32)


@dataclass(frozen=True, slots=True)
class _Thing:
    """Something that stands in a street."""

    kind: str
    along: float
    aside: float
    size: float
    colour: Colour


@dataclass(frozen=True, slots=True, eq=False)
class _Rays:
    """Where the ray of each column meets a wall: which, where along it, how deep."""

    right: npt.NDArray[np.bool_]
    along: Array
    depth: Array
    cosine: Array
    sine: Array
    ahead: Array


class PlacesRenderer:
    """Draws the pictures of a plan; the town is built once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._walls: list[tuple[Wall, Wall]] = []
        self._things: list[list[_Thing]] = []
        for number, street in enumerate(STREETS):
            gaps = [gap + MARGIN for gap in street.gaps]
            length = street.length + 2.0 * MARGIN
            left, right = (
                draw_wall(generator(seed, "wall", number, side), length, gaps) for side in (0, 1)
            )
            self._walls.append((left, right))
            self._things.append(_plant(generator(seed, "things", number), street.length, gaps))

    def render(self, view: View) -> npt.NDArray[np.uint8]:
        """Return the pixels of one picture."""
        rng = generator(self._seed, view.folder, view.number, round(view.yaw * 1000.0) + 360_000)
        weather = WEATHERS[view.weather]
        rays = _cast(view)
        scene = _sky(view, weather)
        self._pave(scene, view, rays, weather)
        self._raise_walls(scene, view, rays, weather)
        picture = Image.fromarray(np.clip(np.rint(scene), 0, 255).astype(np.uint8))
        things = self._things[view.street] + _traffic(rng, view)
        for thing in sorted(things, key=lambda thing: -_depth(view, thing)):
            _place(picture, view, thing, weather)
        if weather.wet:
            _rain(picture, rng)
        small = picture.resize((_WIDTH, _HEIGHT), Image.Resampling.BOX)
        pixels = np.asarray(small, dtype=np.float64) * view.exposure
        noise = rng.integers(-weather.grain, weather.grain + 1, (_HEIGHT, _WIDTH, 1))
        return np.clip(np.rint(pixels + noise), 0, 255).astype(np.uint8)

    def _raise_walls(self, scene: Array, view: View, rays: _Rays, weather: Weather) -> None:
        height = _EYE - (np.arange(_ROWS)[:, None] + 0.5 - _HORIZON) * rays.depth / _FOCAL
        colour, alpha, glow = self._sample(view, rays, height)
        lit = _in_light(colour, glow, weather)
        fade = np.minimum(rays.depth / 100.0 * weather.haze, 0.9)[None, :, None].astype(np.float32)
        lit += (np.array(weather.horizon, np.float32) - lit) * fade
        seen = (alpha & (height >= 0.0))[..., None]
        np.copyto(scene, lit, where=seen)
        if weather.wet:
            mirrored, alpha, glow = self._sample(view, rays, -height)
            wet = (alpha & (height < 0.0))[..., None] * np.float32(weather.wet)
            scene += (_in_light(mirrored, glow, weather) - scene) * wet

    def _sample(self, view: View, rays: _Rays, height: Array) -> tuple[Array, Array, Array]:
        """Read colour, presence and glow of the walls at a height for each pixel."""
        colour = np.zeros((_ROWS, _COLUMNS, 4), np.uint8)
        glow = np.zeros((_ROWS, _COLUMNS), np.uint8)
        coarse = np.log2(np.maximum(rays.depth * PIXELS_A_METRE / _FOCAL, 1.0) + 0.01)
        for side, wall in enumerate(self._walls[view.street]):
            levels = np.minimum(np.floor(coarse), len(wall.colour) - 1)
            for level, (texture, shine) in enumerate(zip(wall.colour, wall.glow, strict=True)):
                mine = np.flatnonzero((rays.right == bool(side)) & (levels == level))
                unit = PIXELS_A_METRE / 2.0**level
                across = np.floor((rays.along[mine] + MARGIN) * unit).astype(np.int64)
                inside = (across >= 0) & (across < texture.shape[1])
                mine, across = mine[inside], across[inside]
                up = np.floor((WALL_HEIGHT - height[:, mine]) * unit).astype(np.int64)
                there = (up >= 0) & (up < texture.shape[0])
                up = np.clip(up, 0, texture.shape[0] - 1)
                colour[:, mine] = texture[up, across] * there[..., None]
                glow[:, mine] = shine[up, across] * there
        return (
            colour[..., :3].astype(np.float32),
            colour[..., 3] > 127,
            glow.astype(np.float32) / 255,
        )

    def _pave(self, scene: Array, view: View, rays: _Rays, weather: Weather) -> None:
        """Lay the road, its kerbs and its markings."""
        first = int(_HORIZON) + 1
        below = np.arange(first, _ROWS)[:, None] + 0.5 - _HORIZON
        depth = _EYE * _FOCAL / below
        reach = depth / rays.ahead
        along = view.along + reach * rays.cosine
        aside = view.aside + reach * rays.sine
        road = np.abs(aside) < _KERB
        tone = np.where(road[..., None], _ASPHALT, _SLABS)
        slabs = (np.floor(along / 0.9) + np.floor(aside / 0.7)) % 2.0
        joints = np.where(road | (depth > 25.0), 0.0, 9.0 * slabs - 4.0)
        tone += joints.astype(np.float32)[..., None]
        kerb = np.abs(np.abs(aside) - _KERB) < 0.12
        dash = (np.abs(aside) < 0.09) & (along % 6.0 < 3.0)
        tone[kerb] = (198.0, 194.0, 186.0)
        tone[dash] = (222.0, 220.0, 210.0)
        lit = tone * np.array(weather.light, np.float32)
        fade = np.minimum(depth / 100.0 * weather.haze, 0.9)[..., None].astype(np.float32)
        scene[first:] = lit + (np.array(weather.horizon, np.float32) - lit) * fade


def _cast(view: View) -> _Rays:
    yaw = math.radians(view.yaw)
    offsets = (np.arange(_COLUMNS) + 0.5 - _COLUMNS / 2.0) / _FOCAL
    ahead = 1.0 / np.sqrt(1.0 + offsets * offsets)
    cosine = np.round((math.cos(yaw) - offsets * math.sin(yaw)) * ahead, 9)
    sine = np.round((math.sin(yaw) + offsets * math.cos(yaw)) * ahead, 9)
    right = sine > 0.0
    room = np.where(right, _HALF_STREET - view.aside, _HALF_STREET + view.aside)
    reach = np.minimum(room / np.maximum(np.abs(sine), 1e-6), _FAR)
    return _Rays(right, view.along + reach * cosine, reach * ahead, cosine, sine, ahead)


def _in_light(colour: Array, glow: Array, weather: Weather) -> Array:
    lit = colour * np.array(weather.light, np.float32)
    if not weather.glow:
        return np.asarray(lit)
    shining = (glow * np.float32(weather.glow))[..., None]
    lit *= 1.0 - np.float32(0.85) * shining
    return np.asarray(lit + np.array([255.0, 208.0, 132.0], np.float32) * shining)


def _sky(view: View, weather: Weather) -> Array:
    """Paint the sky and, far away, hills that stand where they are on the compass."""
    part = np.clip(np.arange(_ROWS) / _HORIZON, 0.0, 1.0)[:, None, None]
    column = np.array(weather.zenith) * (1.0 - part) + np.array(weather.horizon) * part
    scene = np.repeat(column.astype(np.float32), _COLUMNS, axis=1)
    offsets = (np.arange(_COLUMNS) + 0.5 - _COLUMNS / 2.0) / _FOCAL
    bearing = math.radians(view.heading) + offsets
    hills = 9.0 + 5.0 * np.sin(3.0 * bearing) + 3.0 * np.sin(7.0 * bearing + 1.0)
    mass = (np.arange(_ROWS)[:, None] > _HORIZON - np.round(hills, 6) * _SCALE)[..., None]
    far = np.array(mix((84, 108, 104), weather.horizon, 0.45)) * np.array(weather.light)
    return np.where(mass, far.astype(np.float32), scene)


def _plant(rng: np.random.Generator, length: float, gaps: list[float]) -> list[_Thing]:
    """Set trees and lamps along the kerbs, away from the corners."""
    things: list[_Thing] = []
    along = 4.0
    while along < length:
        side = pick(rng, (-1.0, 1.0))
        free = all(abs(along + MARGIN - gap) > 8.0 for gap in gaps)
        if free and rng.random() < 0.55:
            leaf = vary(rng, pick(rng, ((86, 134, 70), (112, 142, 66), (70, 112, 74))), 14)
            things.append(_Thing("tree", along, side * 5.0, 3.8 + 1.6 * float(rng.random()), leaf))
        elif free:
            things.append(_Thing("lamp", along, side * 4.9, 5.2, (52, 56, 60)))
        along += 9.0 + 9.0 * float(rng.random())
    return things


def _traffic(rng: np.random.Generator, view: View) -> list[_Thing]:
    """Park a few cars, different ones in every picture; a van may stand in the way."""
    colours = ((178, 48, 44), (52, 84, 140), (226, 226, 224), (62, 66, 72), (196, 172, 92))
    things = [
        _Thing("car", view.along - 24.0 + 48.0 * float(rng.random()), pick(rng, (-3.5, 3.5)), 1.45,
               vary(rng, pick(rng, colours), 12))
        for _ in range(int(rng.integers(0, 4)))
    ]  # fmt: skip
    if view.van:
        turn = math.radians(view.yaw)
        side = 3.2 if view.yaw >= 0.0 else -3.2
        along = view.along + 6.0 * math.cos(turn)
        things.append(_Thing("van", along, side, 2.7, vary(rng, (222, 222, 216), 20)))
    return things


def _relative(view: View, thing: _Thing) -> tuple[float, float]:
    turn = math.radians(view.yaw)
    along, aside = thing.along - view.along, thing.aside - view.aside
    return (
        along * math.cos(turn) + aside * math.sin(turn),
        aside * math.cos(turn) - along * math.sin(turn),
    )


def _depth(view: View, thing: _Thing) -> float:
    return round(_relative(view, thing)[0], 6)


def _place(picture: Image.Image, view: View, thing: _Thing, weather: Weather) -> None:
    """Draw a thing in its place, as large as it looks from here."""
    depth, right = _relative(view, thing)
    least = 3.4 if thing.kind in ("car", "van") else 2.6
    if depth < least or depth > 90.0 or abs(right) > depth * 1.2:
        return
    unit = _FOCAL / depth
    canvas = Canvas(picture, unit, (_COLUMNS / 2.0 + right * unit, _HORIZON + _EYE * unit))
    fade = min(depth / 100.0 * weather.haze, 0.9)

    def lit(colour: Colour) -> Colour:
        seen = [round(c * gain) for c, gain in zip(colour, weather.light, strict=True)]
        return mix((seen[0], seen[1], seen[2]), weather.horizon, fade)

    _DRAWN[thing.kind](canvas, thing, lit, weather)


def _tree(canvas: Canvas, thing: _Thing, lit: Any, weather: Weather) -> None:
    del weather
    top, leaf = thing.size, thing.colour
    canvas.disc((0.0, 0.0), 0.7, lit((120, 116, 108)), flat=0.14)
    canvas.limb([(0.0, 0.0), (0.04, -top * 0.6)], [0.26, 0.18], lit((88, 68, 52)))
    rng = generator(round(thing.along * 100.0), "leaves")
    for step in range(26):
        x = (-1.0 + 2.0 * float(rng.random())) * 1.0
        y = -top * 0.78 + (-1.0 + 2.0 * float(rng.random())) * 0.95
        light = mix(leaf, (220, 230, 150) if step > 16 else (20, 40, 30), 0.18)
        canvas.disc((x, y), 0.34 + 0.2 * float(rng.random()), lit(light))


def _lamp(canvas: Canvas, thing: _Thing, lit: Any, weather: Weather) -> None:
    canvas.limb([(0.0, 0.0), (0.0, -thing.size)], [0.14, 0.08], lit(thing.colour))
    canvas.limb([(0.0, -thing.size), (0.45, -thing.size - 0.1)], [0.08, 0.08], lit(thing.colour))
    bulb = mix(lit((232, 228, 214)), (255, 236, 176), weather.glow)
    canvas.disc((0.5, -thing.size - 0.02), 0.2, bulb, flat=0.7)


def _car(canvas: Canvas, thing: _Thing, lit: Any, weather: Weather) -> None:
    body, glass = lit(thing.colour), lit((70, 86, 98))
    canvas.disc((0.0, -0.02), 2.0, lit((56, 56, 60)), flat=0.1)
    canvas.polygon([(-1.15, -0.75), (-0.7, -1.4), (0.75, -1.4), (1.3, -0.75)], body)
    canvas.polygon([(-0.95, -0.78), (-0.62, -1.28), (-0.02, -1.28), (-0.02, -0.78)], glass)
    canvas.polygon([(0.08, -0.78), (0.08, -1.28), (0.68, -1.28), (1.06, -0.78)], glass)
    canvas.limb([(-1.7, -0.56), (1.7, -0.56)], [0.5, 0.46], body)
    for x in (-1.1, 1.1):
        canvas.disc((x, -0.3), 0.32, lit((36, 36, 40)))
        canvas.disc((x, -0.3), 0.15, lit((168, 168, 172)))
    canvas.disc((1.84, -0.6), 0.09, mix(lit((240, 236, 210)), (255, 244, 190), weather.glow))


def _van(canvas: Canvas, thing: _Thing, lit: Any, weather: Weather) -> None:
    del weather
    body = lit(thing.colour)
    canvas.disc((0.0, -0.02), 2.8, lit((56, 56, 60)), flat=0.08)
    canvas.box(-2.6, -thing.size, 1.6, -0.4, body)
    canvas.polygon([(1.6, -2.4), (2.1, -2.2), (2.6, -1.3), (2.6, -0.4), (1.6, -0.4)], body)
    canvas.polygon([(1.7, -2.2), (2.05, -2.05), (2.4, -1.35), (1.7, -1.35)], lit((74, 90, 102)))
    canvas.box(-2.6, -1.3, 1.6, -0.95, lit((66, 110, 150)))
    for x in (-1.6, 1.6):
        canvas.disc((x, -0.4), 0.42, lit((36, 36, 40)))
        canvas.disc((x, -0.4), 0.2, lit((168, 168, 172)))


def _rain(picture: Image.Image, rng: np.random.Generator) -> None:
    layer = Image.new("L", picture.size)
    canvas = Canvas(layer)
    for _ in range(130):
        x, y = _COLUMNS * float(rng.random()), _ROWS * float(rng.random())
        length = 8.0 + 12.0 * float(rng.random())
        canvas.limb([(x, y), (x - length * 0.18, y + length)], [1.2, 1.2], 90)
    soft = layer.filter(ImageFilter.BoxBlur(1))
    picture.paste((214, 220, 226), (0, 0, *picture.size), soft)


_DRAWN = {"tree": _tree, "lamp": _lamp, "car": _car, "van": _van}
