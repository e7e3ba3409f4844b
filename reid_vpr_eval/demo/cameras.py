"""The cameras that watch the people: what stands behind, and how each sees colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from reid_vpr_eval.demo.drawing import Canvas, Colour, generator, mix, vary

__all__ = ["CAMERAS", "Camera", "background", "develop"]

_SCENE = (150, 150)
_SCALE = 3
_HAZE = (150, 148, 146)
_HAZINESS = 0.2


@dataclass(frozen=True, slots=True)
class Camera:
    """One camera: its scene and its way of seeing.

    Parameters
    ----------
    scene : str
        What stands behind the people.
    gain : three floats
        How strongly it answers to red, green and blue.
    contrast, lift : float
        Its tone curve: spread about the middle, and what is added, in levels.
    blur : float
        Radius in pixels of the finished picture.
    grain : int
        The largest step of noise, in levels.
    scale : float
        How much of the height of the picture a person of height 1 fills.
    """

    scene: str
    gain: tuple[float, float, float]
    contrast: float
    lift: float
    blur: float
    grain: int
    scale: float


#: The cameras in order; camera 1 is the first.
CAMERAS: tuple[Camera, ...] = (
    Camera("plaza", (1.04, 1.0, 0.96), 1.02, 6.0, 0.0, 5, 0.94),
    Camera("park", (0.93, 1.02, 0.95), 0.95, 2.0, 0.4, 6, 0.91),
    Camera("shops", (1.0, 0.98, 1.02), 1.08, -4.0, 0.2, 4, 0.96),
    Camera("hall", (0.92, 0.98, 1.1), 0.88, 14.0, 0.5, 7, 0.92),
    Camera("crossing", (0.9, 0.88, 0.9), 0.92, -12.0, 0.3, 9, 0.9),
)


def background(camera: Camera, seed: int) -> Image.Image:
    """Return the whole scene behind a camera, larger than any picture it takes."""
    image = Image.new("RGB", (_SCENE[0] * _SCALE, _SCENE[1] * _SCALE))
    canvas = Canvas(image, float(_SCALE))
    _SCENES[camera.scene](canvas, generator(seed, "scene", camera.scene))
    haze = Image.new("RGB", image.size, _HAZE)
    return Image.blend(image.filter(ImageFilter.BoxBlur(1)), haze, _HAZINESS)


def develop(
    image: Image.Image, camera: Camera, rng: np.random.Generator, exposure: float
) -> npt.NDArray[np.uint8]:
    """Return the pixels that a camera makes of what it sees."""
    if camera.blur:
        image = image.filter(ImageFilter.BoxBlur(camera.blur))
    pixels = np.asarray(image, dtype=np.float64) * np.array(camera.gain) * exposure
    pixels = 128.0 + (pixels - 128.0) * camera.contrast + camera.lift
    noise = rng.integers(-camera.grain, camera.grain + 1, (*pixels.shape[:2], 1))
    shown: npt.NDArray[np.uint8] = np.clip(np.rint(pixels + noise), 0, 255).astype(np.uint8)
    return shown


def _ground(canvas: Canvas, top: float, near: Colour, far: Colour) -> None:
    bottom = float(_SCENE[1])
    for row in range(int(top), int(bottom)):
        tone = mix(far, near, (row - top) / (bottom - top))
        canvas.box(0.0, float(row), float(_SCENE[0]), row + 1.0, tone)


def _plaza(canvas: Canvas, rng: np.random.Generator) -> None:
    canvas.box(0, 0, 150, 90, (188, 172, 150))
    for row in range(9):
        for column in range(-1, 9):
            left = column * 19 + (row % 2) * 9
            canvas.box(left, row * 10, left + 18, row * 10 + 9, vary(rng, (196, 180, 156), 9))
    canvas.box(0, 84, 150, 90, (150, 136, 118))
    _ground(canvas, 90, (196, 188, 176), (170, 162, 150))
    for row, height in enumerate((90, 97, 107, 121, 140)):
        canvas.box(0, height, 150, height + 0.8, (148, 140, 130))
        for column in range(-4, 12):
            x = 75 + (column * 16 + row % 2 * 8 - 75) * (1.0 + row * 0.18)
            canvas.box(x, height, x + 0.7, height + 14, (152, 144, 134))


def _park(canvas: Canvas, rng: np.random.Generator) -> None:
    for row in range(40):
        canvas.box(0, row, 150, row + 1, mix((168, 204, 230), (222, 234, 234), row / 40))
    for _ in range(26):
        x, y = 150 * float(rng.random()), 16 + 26 * float(rng.random())
        canvas.disc((x, y), 8 + 8 * float(rng.random()), vary(rng, (82, 124, 70), 16), flat=0.9)
    canvas.box(0, 44, 150, 80, (62, 98, 56))
    for _ in range(320):
        x, y = 150 * float(rng.random()), 42 + 38 * float(rng.random())
        canvas.disc((x, y), 1.8, vary(rng, (70, 112, 60), 16))
    _ground(canvas, 80, (126, 160, 84), (104, 140, 74))
    canvas.polygon([(40, 80), (110, 80), (170, 150), (-20, 150)], (206, 190, 156))
    for _ in range(120):
        x, y = 150 * float(rng.random()), 82 + 66 * float(rng.random())
        canvas.disc((x, y), 0.8, vary(rng, (168, 160, 110), 22), flat=0.6)


def _shops(canvas: Canvas, rng: np.random.Generator) -> None:
    canvas.box(0, 0, 150, 96, (112, 92, 84))
    for shop, colour in enumerate(((152, 60, 54), (52, 92, 96), (196, 152, 70), (86, 72, 120))):
        left = shop * 38.0
        canvas.box(left + 1, 2, left + 37, 12, colour)
        for letter in range(6):
            height = 2.0 + 3.0 * float(rng.random())
            x = left + 7 + letter * 4.2
            canvas.box(x, 9 - height, x + 2.4, 9.5, (240, 232, 214))
        canvas.box(left + 3, 16, left + 35, 84, (78, 96, 108))
        canvas.polygon(
            [(left + 5, 84), (left + 16, 16), (left + 23, 16), (left + 12, 84)], (104, 124, 136)
        )
        for item in range(4):
            x, tall = left + 7 + item * 7.0, 8 + 18 * float(rng.random())
            canvas.box(x, 84 - tall, x + 4.6, 84, vary(rng, (176, 150, 130), 50))
        canvas.box(left, 12, left + 3, 96, (70, 56, 52))
    _ground(canvas, 96, (150, 150, 154), (128, 128, 132))
    for step in range(-12, 12):
        far, near = 75 + step * 10, 75 + step * 18
        canvas.polygon(
            [(far, 96), (far + 0.6, 96), (near + 1.4, 150), (near, 150)],
            (112, 112, 118),
        )


def _hall(canvas: Canvas, rng: np.random.Generator) -> None:
    canvas.box(0, 0, 150, 88, (214, 218, 222))
    for panel in range(7):
        canvas.box(panel * 24, 0, panel * 24 + 22.6, 82, vary(rng, (206, 212, 218), 6))
    for door in (22, 96):
        canvas.box(door, 24, door + 26, 88, (138, 152, 164))
        canvas.box(door + 2, 26, door + 24, 88, (166, 182, 194))
        canvas.box(door + 19, 56, door + 22, 58, (70, 76, 84))
    canvas.box(0, 82, 150, 88, (116, 124, 134))
    for lamp in range(4):
        canvas.box(lamp * 40 + 8, 3, lamp * 40 + 30, 7, (250, 250, 246))
    _ground(canvas, 88, (196, 200, 206), (168, 174, 182))
    heights = (88.0, 94.0, 103.0, 116.0, 134.0, 152.0)
    for row in range(5):
        for column in range(-3, 8):
            if (row + column) % 2:
                top, low = heights[row], heights[row + 1]
                spread, wider = 1.0 + row * 0.22, 1.22 + row * 0.22
                left, right = column * 30 - 75, column * 30 - 45
                canvas.polygon(
                    [
                        (75 + left * spread, top),
                        (75 + right * spread, top),
                        (75 + right * wider, low),
                        (75 + left * wider, low),
                    ],
                    mix((150, 160, 172), (176, 184, 194), row / 5),
                )


def _crossing(canvas: Canvas, rng: np.random.Generator) -> None:
    canvas.box(0, 0, 150, 70, (126, 96, 84))
    for row in range(18):
        for column in range(-1, 16):
            left = column * 10 + (row % 2) * 5
            canvas.box(left, row * 4, left + 9.3, row * 4 + 3.3, vary(rng, (142, 92, 76), 12))
    for window in (14, 62, 110):
        canvas.box(window - 1.5, 10, window + 25.5, 46, (206, 198, 186))
        canvas.box(window, 12, window + 24, 44, (70, 84, 98))
        canvas.box(window + 11, 12, window + 13, 44, (206, 198, 186))
    canvas.box(0, 70, 150, 82, (158, 156, 152))
    _ground(canvas, 82, (92, 94, 100), (76, 78, 84))
    for stripe in range(-4, 10):
        left, right = stripe * 22 - 75, stripe * 22 - 64
        canvas.polygon(
            [
                (75 + left * 0.9, 92),
                (75 + right * 0.9, 92),
                (75 + right * 1.5, 146),
                (75 + left * 1.5, 146),
            ],
            (214, 214, 208),
        )


_SCENES: dict[str, Callable[[Canvas, np.random.Generator], Any]] = {
    "plaza": _plaza,
    "park": _park,
    "shops": _shops,
    "hall": _hall,
    "crossing": _crossing,
}
