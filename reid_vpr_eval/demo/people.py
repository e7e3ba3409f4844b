"""Who is seen where: the people of the world in the names and folders of Market-1501."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from reid_vpr_eval.demo.cameras import CAMERAS, background, develop
from reid_vpr_eval.demo.drawing import Canvas, Point, generator, pick
from reid_vpr_eval.demo.figures import draw_person
from reid_vpr_eval.demo.persons import Facing, Person, imagine_person, strike_pose

__all__ = ["N_IDENTITIES", "PeopleRenderer", "Sighting", "plan_people"]

#: How many people are looked for.
N_IDENTITIES = 30

_WIDTH, _HEIGHT = 64, 128
_SCALE = 3
_DISTRACTORS = 120
_STRANGERS = 48
_LOOKALIKES = 12
_JUNK = 60
_GALLERY_SHOTS = 3
_FRAMES = 120_000

Shot = Literal["good", "half", "two"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One picture of somebody that is to be made.

    ``label`` is what the name says (0 a distractor, -1 junk), ``who`` the person drawn.
    """

    folder: str
    label: int
    who: int
    camera: int
    number: int
    shot: Shot
    frame: int

    @property
    def name(self) -> str:
        """The name of the file.

        >>> Sighting("query", 2, 2, 1, 0, "good", 451).name
        '0002_c1s1_000451_00.png'
        """
        label = "-1" if self.label < 0 else f"{self.label:04d}"
        part = 1 + self.frame * 3 // _FRAMES
        return f"{label}_c{self.camera}s{part}_{self.frame:06d}_{self.number:02d}.png"


def plan_people(seed: int) -> list[Sighting]:
    """Say which pictures there are: the queries, then the gallery.

    Everybody who is looked for is seen by three or four cameras: one query in each, and
    three pictures in the gallery. Strangers have the label 0, bad crops -1.
    """
    rng = generator(seed, "people")
    queries: list[Sighting] = []
    gallery: list[Sighting] = []
    for who in range(1, N_IDENTITIES + 1):
        cameras = rng.permutation(len(CAMERAS))[: int(rng.integers(3, 5))] + 1
        for camera in sorted(cameras.tolist()):
            first = int(rng.integers(_FRAMES // 4)) * 4
            steps = first + np.cumsum(rng.integers(8, 60, _GALLERY_SHOTS + 1))
            frames = [int(frame) % _FRAMES for frame in steps]
            queries.append(Sighting("query", who, who, camera, 0, "good", frames[0]))
            gallery += [
                Sighting("bounding_box_test", who, who, camera, number, "good", frame)
                for number, frame in enumerate(frames[1:], start=1)
            ]
    for number in range(_DISTRACTORS):
        who = N_IDENTITIES + 1 + int(rng.integers(_STRANGERS))
        gallery.append(_other(rng, 0, who, number, "good"))
    for number in range(_JUNK):
        who = 1 + int(rng.integers(N_IDENTITIES + _STRANGERS))
        gallery.append(_other(rng, -1, who, number, "half" if rng.random() < 0.6 else "two"))
    return queries + gallery


def _other(rng: np.random.Generator, label: int, who: int, number: int, shot: Shot) -> Sighting:
    camera, frame = 1 + int(rng.integers(len(CAMERAS))), int(rng.integers(_FRAMES))
    return Sighting("bounding_box_test", label, who, camera, number % 100, shot, frame)


class PeopleRenderer:
    """Draws the pictures of a plan; the people and scenes are made up once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._scenes = [background(camera, seed) for camera in CAMERAS]
        everybody = range(N_IDENTITIES + _STRANGERS + 1)
        self._people = [imagine_person(generator(seed, "person", who)) for who in everybody]
        for who in range(1, _LOOKALIKES + 1):
            model, other = self._people[who], self._people[N_IDENTITIES + who]
            self._people[N_IDENTITIES + who] = replace(
                other, top=model.top, bottom=model.bottom, jacket=model.jacket, bag=model.bag
            )

    def render(self, seen: Sighting) -> npt.NDArray[np.uint8]:
        """Return the pixels of one picture."""
        rng = generator(self._seed, seen.folder, seen.name)
        camera = CAMERAS[seen.camera - 1]
        picture = self._crop(seen, rng)
        unit = _HEIGHT * _SCALE * camera.scale * (0.95 + 0.1 * float(rng.random()))
        for person, feet, size in self._cast(seen, rng, unit):
            facing = self._facing(seen, rng)
            layer = draw_person(picture.size, person, strike_pose(rng, facing), feet, size)
            shadow = _shadow(picture.size, feet, size)
            picture.paste(shadow, (0, 0), shadow)
            picture.paste(layer, (0, 0), layer)
        small = picture.resize((_WIDTH, _HEIGHT), Image.Resampling.BOX)
        return develop(small, camera, rng, 0.9 + 0.2 * float(rng.random()))

    def _crop(self, seen: Sighting, rng: np.random.Generator) -> Image.Image:
        scene = self._scenes[seen.camera - 1]
        width, height = _WIDTH * _SCALE, _HEIGHT * _SCALE
        left = int(rng.integers(scene.size[0] - width + 1))
        top = int(rng.integers(scene.size[1] - height + 1))
        return scene.crop((left, top, left + width, top + height))

    def _facing(self, seen: Sighting, rng: np.random.Generator) -> Facing:
        """Walkers keep their direction before a camera, mostly."""
        walk = generator(self._seed, "walk", seen.who, seen.camera)
        options: tuple[Facing, ...] = ("left", "right", "front", "back")
        usual: Facing = pick(walk, options)
        other: Facing = pick(rng, options)
        return usual if rng.random() < 0.75 else other

    def _cast(
        self, seen: Sighting, rng: np.random.Generator, unit: float
    ) -> Iterator[tuple[Person, Point, float]]:
        """Yield who stands where, the farthest first."""
        middle, floor = _WIDTH * _SCALE / 2.0, _HEIGHT * _SCALE * 0.965
        shift = (-1.0 + 2.0 * float(rng.random())) * 0.06 * _WIDTH * _SCALE
        person = self._people[seen.who]
        if seen.shot == "half":
            away, deep = pick(rng, ((0.42, 0.0), (-0.42, 0.0), (0.0, 0.5), (0.1, -0.5)))
            yield person, (middle + away * _WIDTH * _SCALE, floor + deep * unit), unit * 1.1
        elif seen.shot == "two":
            other = self._people[1 + int(rng.integers(len(self._people) - 1))]
            gap = (0.16 + 0.06 * float(rng.random())) * _WIDTH * _SCALE
            yield other, (middle - gap, floor - 0.03 * unit), unit * 0.9
            yield person, (middle + gap, floor), unit * 0.94
        else:
            yield person, (middle + shift, floor), unit


def _shadow(size: tuple[int, int], feet: Point, unit: float) -> Image.Image:
    layer = Image.new("RGBA", size)
    canvas = Canvas(layer, unit, feet)
    canvas.disc((0.05, -0.005), 0.17, (30, 28, 34), flat=0.16)
    alpha = layer.getchannel("A").point(lambda level: level * 2 // 5)
    layer.putalpha(alpha.filter(ImageFilter.BoxBlur(4)))
    return layer
