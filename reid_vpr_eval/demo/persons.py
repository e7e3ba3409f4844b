"""Who the people of the world are: build, hair, clothes and bags, and how they step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from reid_vpr_eval.demo.drawing import Colour, pick, vary

__all__ = ["Facing", "Person", "Pose", "imagine_person", "strike_pose"]

_SKINS: tuple[Colour, ...] = (
    (244, 212, 186), (232, 190, 158), (214, 164, 124), (180, 126, 88), (138, 92, 62), (98, 64, 46),
)  # fmt: skip
_HAIRS: tuple[Colour, ...] = (
    (38, 30, 28), (62, 42, 30), (104, 68, 40), (168, 122, 66), (214, 178, 110), (150, 148, 146),
    (142, 60, 34),
)  # fmt: skip
_CLOTHES: tuple[Colour, ...] = (
    (196, 52, 48), (226, 122, 48), (236, 196, 76), (86, 146, 74), (46, 110, 98), (74, 138, 196),
    (44, 66, 128), (112, 76, 150), (216, 128, 158), (238, 234, 224), (150, 152, 154), (54, 56, 62),
    (142, 102, 68), (108, 34, 48), (196, 178, 144), (120, 172, 168),
)  # fmt: skip
_BOTTOMS: tuple[Colour, ...] = (
    (48, 62, 100), (74, 98, 142), (38, 40, 46), (112, 112, 114), (176, 156, 120), (92, 80, 62),
    (60, 78, 66), (214, 208, 196), (104, 44, 52),
)  # fmt: skip
_SHOES: tuple[Colour, ...] = ((34, 32, 32), (236, 234, 230), (120, 78, 48), (170, 52, 46))

Facing = Literal["left", "right", "front", "back"]


@dataclass(frozen=True, slots=True)
class Person:
    """What stays the same about somebody from picture to picture."""

    skin: Colour
    hair: Colour
    hairstyle: str
    top: Colour
    accent: Colour
    pattern: str
    jacket: Colour | None
    long_sleeves: bool
    bottom: Colour
    bottom_kind: str
    shoes: Colour
    bag: str
    bag_colour: Colour
    hat: str
    hat_colour: Colour
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Pose:
    """How somebody happens to walk through one picture."""

    facing: Facing
    stride: float
    lean: float


def imagine_person(rng: np.random.Generator) -> Person:
    """Make somebody up."""
    top = vary(rng, pick(rng, _CLOTHES), 10)
    accent = vary(rng, pick(rng, _CLOTHES), 10)
    jacket = vary(rng, pick(rng, _CLOTHES), 10) if rng.random() < 0.3 else None
    patterns = ("plain", "plain", "hoops", "stripes", "check", "logo", "block", "dots")
    return Person(
        skin=pick(rng, _SKINS),
        hair=vary(rng, pick(rng, _HAIRS), 6),
        hairstyle=pick(rng, ("short", "short", "long", "bun", "curly")),
        top=top,
        accent=accent,
        pattern=pick(rng, patterns),
        jacket=jacket,
        long_sleeves=bool(jacket is not None or rng.random() < 0.5),
        bottom=vary(rng, pick(rng, _BOTTOMS), 8),
        bottom_kind=pick(rng, ("trousers", "trousers", "trousers", "shorts", "skirt")),
        shoes=pick(rng, _SHOES),
        bag=pick(rng, ("none", "none", "backpack", "shoulder", "tote")),
        bag_colour=vary(rng, pick(rng, _CLOTHES), 10),
        hat=pick(rng, ("none", "none", "none", "cap", "beanie")),
        hat_colour=vary(rng, pick(rng, _CLOTHES), 10),
        width=1.0 + 0.22 * float(rng.random()),
        height=0.93 + 0.1 * float(rng.random()),
    )


def strike_pose(rng: np.random.Generator, facing: Facing | None = None) -> Pose:
    """Catch somebody in the middle of a step."""
    options: tuple[Facing, ...] = ("left", "right", "front", "back")
    return Pose(
        facing=facing or pick(rng, options),
        stride=-1.0 + 2.0 * float(rng.random()),
        lean=-0.01 + 0.02 * float(rng.random()),
    )
