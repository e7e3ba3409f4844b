"""Walking figures, drawn from the side, the front or the back."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageChops, ImageDraw

from reid_vpr_eval.demo.drawing import Canvas, Point, mix
from reid_vpr_eval.demo.persons import Person, Pose

__all__ = ["draw_person"]


def draw_person(
    size: tuple[int, int], person: Person, pose: Pose, feet: Point, unit: float
) -> Image.Image:
    """Return a transparent layer with a person who is `unit` pixels high for height 1."""
    layer = Image.new("RGBA", size)
    tall = unit * person.height
    canvas = Canvas(layer, tall, (feet[0], feet[1] - tall))
    artist = _Artist(canvas, person, pose)
    artist.draw()
    return _shade(layer, feet[0], tall * 0.16)


class _Artist:
    """Draws one person, in units of the body: the crown at 0, the soles at 1."""

    def __init__(self, canvas: Canvas, person: Person, pose: Pose) -> None:
        self.canvas = canvas
        self.who = person
        self.side = pose.facing in ("left", "right")
        self.back = pose.facing == "back"
        self.ahead = -1.0 if pose.facing == "left" else 1.0
        self.stride = pose.stride
        self.lean = pose.lean
        self.half = (0.076 if self.side else 0.112) * person.width
        self.hips = (0.066 if self.side else 0.084) * person.width

    def draw(self) -> None:
        """Draw from the farthest to the nearest."""
        if self.who.bag == "backpack" and not self.back:
            self._backpack()
        self._arm(far=True)
        self._leg(far=True)
        self._leg(far=False)
        self._trunk()
        self._head()
        if self.who.bag == "backpack" and self.back:
            self._backpack()
        self._arm(far=False)
        if self.who.bag in ("shoulder", "tote"):
            self._handbag()

    def _leg(self, *, far: bool) -> None:
        who, sign = self.who, -1.0 if far else 1.0
        hip_y, knee_y, ankle_y = 0.53, 0.74, 0.95
        if self.side:
            swing = 0.5 * self.stride * sign
            hip = (0.0, hip_y)
            knee = (self.ahead * 0.2 * math.sin(swing), hip_y + 0.21 * math.cos(swing))
            bent = swing - 0.45 * max(0.0, -swing) - 0.08
            ankle = (knee[0] + self.ahead * 0.21 * math.sin(bent), knee[1] + 0.21 * math.cos(bent))
            toe = (ankle[0] + self.ahead * 0.062, ankle[1] + 0.03)
        else:
            spread = 0.046 * who.width
            lifted = max(0.0, self.stride * sign) * 0.035
            hip, knee = (sign * spread, hip_y), (sign * spread * 1.1, knee_y - lifted * 0.4)
            ankle = (sign * spread * 1.0, ankle_y - lifted)
            toe = (ankle[0] + sign * 0.012, ankle[1] + 0.03)
        shade = 0.22 if far and self.side else 0.0
        skin, cloth = mix(who.skin, (0, 0, 0), shade), mix(who.bottom, (0, 0, 0), shade)
        heel = (ankle[0] - (self.ahead * 0.012 if self.side else 0.0), ankle[1] + 0.028)
        self.canvas.limb([heel, toe], [0.04, 0.034], mix(who.shoes, (0, 0, 0), shade))
        thick = 0.082 * who.width
        if who.bottom_kind == "trousers":
            self.canvas.limb([hip, knee, ankle], [thick * 1.12, thick * 0.86, 0.058], cloth)
            return
        self.canvas.limb([hip, knee, ankle], [thick, thick * 0.74, 0.042], skin)
        if who.bottom_kind == "shorts":
            self.canvas.limb([hip, knee], [thick * 1.2, thick * 1.08], cloth)

    def _trunk(self) -> None:
        who, tilt = self.who, self.lean + (0.012 * self.ahead if self.side else 0.0)
        shoulders, waist, hem = 0.178, 0.40, 0.545
        outline: list[Point] = [
            (tilt - self.half * 0.72, shoulders - 0.018),
            (tilt + self.half * 0.72, shoulders - 0.018),
            (tilt + self.half, shoulders + 0.022),
            (self.hips * 0.96, waist),
            (self.hips * 1.08, hem),
            (-self.hips * 1.08, hem),
            (-self.hips * 0.96, waist),
            (tilt - self.half, shoulders + 0.022),
        ]
        if who.bottom_kind == "skirt":
            flare = self.hips * 1.5 + 0.012
            skirt = [(-self.hips, 0.48), (self.hips, 0.48), (flare, 0.7), (-flare, 0.7)]
            self.canvas.polygon(skirt, who.bottom)
        else:
            self.canvas.box(-self.hips, 0.48, self.hips, 0.57, who.bottom)
        self.canvas.limb(
            [(tilt, 0.12), (tilt, 0.17)], [0.046, 0.05], mix(who.skin, (0, 0, 0), 0.12)
        )
        self._cloth(outline)
        if who.jacket is not None:
            self._jacket(outline, tilt, hem)

    def _cloth(self, outline: list[Point]) -> None:
        """Fill the outline with the pattern of the top."""
        layer, who = self.canvas.image, self.who
        pattern = Image.new("RGBA", layer.size, (*who.top, 255))
        pen = Canvas(pattern, self.canvas.unit, self.canvas.origin)
        if who.pattern in ("hoops", "check"):
            for row in range(7):
                pen.box(-0.3, 0.18 + row * 0.056, 0.3, 0.202 + row * 0.056, who.accent)
        if who.pattern in ("stripes", "check"):
            tone = who.accent if who.pattern == "stripes" else mix(who.top, who.accent, 0.5)
            for column in range(-6, 6):
                pen.box(column * 0.05, 0.1, column * 0.05 + 0.018, 0.6, tone)
        if who.pattern == "block":
            pen.box(-0.3, 0.1, 0.3, 0.3, who.accent)
        if who.pattern == "dots":
            for row in range(8):
                for column in range(-5, 6):
                    place = (column * 0.044 + (row % 2) * 0.022, 0.18 + row * 0.046)
                    pen.disc(place, 0.012, who.accent)
        if who.pattern == "logo" and not self.side:
            pen.disc((0.0, 0.29), 0.05, who.accent)
        mask = Image.new("L", layer.size)
        ImageDraw.Draw(mask).polygon([self.canvas.at(point) for point in outline], fill=255)
        layer.paste(pattern, (0, 0), mask)

    def _jacket(self, outline: list[Point], tilt: float, hem: float) -> None:
        colour = self.who.jacket or self.who.top
        if self.back:
            self.canvas.polygon(outline, colour)
            return
        if self.side:
            edge = tilt + self.ahead * self.half * 0.45
            rear = -self.ahead * self.half * 1.08
            self.canvas.polygon(
                [(edge * 0.6, 0.16), (edge, 0.26), (edge, hem), (rear, hem), (rear, 0.19)], colour
            )
            return
        for sign in (-1.0, 1.0):
            outer = self.half * 1.04 * sign
            self.canvas.polygon(
                [
                    (tilt + sign * 0.03, 0.155),
                    (tilt + outer, 0.19),
                    (sign * self.hips * 1.16, hem + 0.01),
                    (sign * 0.032, hem + 0.01),
                ],
                mix(colour, (0, 0, 0), 0.08 if sign < 0 else 0.0),
            )

    def _arm(self, *, far: bool) -> None:
        who, sign = self.who, -1.0 if far else 1.0
        if self.side:
            swing = -0.55 * self.stride * sign
            shoulder = (self.lean + 0.008 * self.ahead, 0.2)
            elbow = (
                shoulder[0] + self.ahead * 0.15 * math.sin(swing),
                shoulder[1] + 0.15 * math.cos(swing),
            )
            fore = swing + 0.35
            hand = (
                elbow[0] + self.ahead * 0.14 * math.sin(fore),
                elbow[1] + 0.14 * math.cos(fore),
            )
        else:
            shoulder = (sign * self.half * 0.94 + self.lean, 0.2)
            elbow = (sign * (self.half + 0.02), 0.35)
            hand = (sign * (self.half + 0.012), 0.485 - 0.03 * self.stride * sign)
        shade = 0.2 if far and self.side else 0.06
        sleeve = mix(
            who.jacket or (who.accent if who.pattern == "block" else who.top), (0, 0, 0), shade
        )
        skin = mix(who.skin, (0, 0, 0), shade / 2.0)
        self.canvas.limb([shoulder, elbow, hand], [0.05, 0.042, 0.034], skin)
        self.canvas.disc(hand, 0.021, skin)
        if who.long_sleeves:
            wrist = (elbow[0] + (hand[0] - elbow[0]) * 0.85, elbow[1] + (hand[1] - elbow[1]) * 0.85)
            self.canvas.limb([shoulder, elbow, wrist], [0.064, 0.054, 0.044], sleeve)
        else:
            cuff = ((shoulder[0] + elbow[0]) / 2.0, (shoulder[1] + elbow[1]) / 2.0)
            self.canvas.limb([shoulder, cuff], [0.066, 0.062], sleeve)

    def _head(self) -> None:
        who, canvas = self.who, self.canvas
        x = self.lean + (0.018 * self.ahead if self.side else 0.0)
        y, radius = 0.078, 0.052
        if who.hairstyle == "long":
            canvas.limb(
                [(x - self._behind(0.018), 0.06), (x - self._behind(0.026), 0.165)],
                [0.108, 0.09],
                who.hair,
            )
        if who.hairstyle == "bun":
            canvas.disc((x - self._behind(0.05), 0.02), 0.026, who.hair)
        canvas.disc((x, y), radius, who.skin, flat=1.22)
        if self.back:
            canvas.disc((x, y - 0.006), radius * 1.06, who.hair, flat=1.16)
        else:
            self._hair_and_face(x, y, radius)
        if who.hairstyle == "curly":
            for step in range(5):
                canvas.disc(
                    (x - 0.048 + 0.024 * step, 0.03 + 0.012 * abs(step - 2)), 0.026, who.hair
                )
        if who.hat != "none":
            canvas.limb([(x - 0.034, 0.034), (x + 0.034, 0.034)], [0.056, 0.056], who.hat_colour)
            canvas.disc((x, 0.026), 0.046, who.hat_colour, flat=0.72)
        if who.hat == "cap" and not self.back:
            end = x + self.ahead * 0.09 if self.side else x
            canvas.limb(
                [(x, 0.052), (end, 0.054)], [0.022, 0.016], mix(who.hat_colour, (0, 0, 0), 0.2)
            )

    def _behind(self, distance: float) -> float:
        return self.ahead * distance if self.side else 0.0

    def _hair_and_face(self, x: float, y: float, radius: float) -> None:
        canvas, hair = self.canvas, self.who.hair
        canvas.disc((x - self._behind(0.012), y - 0.034), radius * 1.05, hair, flat=0.66)
        if self.side:
            canvas.limb(
                [(x - self._behind(0.03), 0.05), (x - self._behind(0.036), 0.095)],
                [0.046, 0.034],
                hair,
            )
            canvas.disc((x + self.ahead * 0.03, 0.08), 0.0065, (40, 32, 30))
            canvas.disc((x + self.ahead * 0.053, 0.092), 0.009, self.who.skin)
        else:
            for sign in (-1.0, 1.0):
                canvas.disc((x + sign * 0.02, 0.08), 0.0068, (40, 32, 30))
            mouth = mix(self.who.skin, (150, 50, 50), 0.5)
            canvas.limb([(x - 0.011, 0.112), (x + 0.011, 0.112)], [0.008, 0.008], mouth)

    def _backpack(self) -> None:
        colour = self.who.bag_colour
        dark = mix(colour, (0, 0, 0), 0.25)
        if self.side:
            x = -self.ahead * (self.half + 0.028)
            self.canvas.limb([(x, 0.225), (x, 0.395)], [0.09, 0.105], colour)
            self.canvas.limb([(x, 0.35), (x, 0.385)], [0.06, 0.06], dark)
        elif self.back:
            self.canvas.limb([(0.0, 0.235), (0.0, 0.385)], [0.15, 0.165], colour)
            self.canvas.limb([(-0.03, 0.37), (0.03, 0.37)], [0.07, 0.07], dark)
        else:
            for sign in (-1.0, 1.0):
                self.canvas.limb([(sign * 0.1, 0.2), (sign * 0.11, 0.38)], [0.05, 0.06], colour)

    def _handbag(self) -> None:
        who = self.who
        dark = mix(who.bag_colour, (0, 0, 0), 0.3)
        x = self.ahead * 0.02 if self.side else self.half + 0.02
        top = 0.46 if who.bag == "shoulder" else 0.53
        strap = (0.0, 0.17) if who.bag == "shoulder" else (x, 0.46)
        self.canvas.limb([strap, (x, top)], [0.014, 0.014], dark)
        self.canvas.box(x - 0.055, top, x + 0.055, top + 0.1, who.bag_colour)
        self.canvas.box(x - 0.055, top, x + 0.055, top + 0.026, dark)


def _shade(layer: Image.Image, centre: float, reach: float) -> Image.Image:
    """Let light fall from the upper left."""
    across = (np.arange(layer.size[0]) - centre) / reach
    light = np.clip(1.03 - 0.11 * np.clip(across, -1.0, 1.0), 0.0, 1.0)
    row = np.rint(light * 255.0).astype(np.uint8)
    tone = Image.fromarray(np.broadcast_to(row, layer.size[::-1]).copy())
    red, green, blue, alpha = layer.split()
    shaded = [ImageChops.multiply(channel, tone) for channel in (red, green, blue)]
    return Image.merge("RGBA", [*shaded, alpha])
