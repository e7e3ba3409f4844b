"""Small pictures inside a page: decoded once, bounded in size, never a reason to fail."""

from __future__ import annotations

import base64
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["SIDE", "Thumbnail", "thumbnail"]

#: The longer side of a thumbnail, in pixels.
SIDE = 96

_COLOURS = 128

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A small picture as text: `uri` is a ``data:`` address."""

    uri: str
    width: int
    height: int


def thumbnail(load: Callable[[int], bytes], row: int) -> Thumbnail | None:
    """Return the thumbnail of an image, or None if it is missing or broken.

    Parameters
    ----------
    load : callable
        Gives the bytes of the file of a row.
    row : int
        The row.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _small(load(row))
    except Exception as error:  # a broken picture breaks decoders in every way
        _log.info("no thumbnail of row %d: %s", row, error)
        return None


def _small(content: bytes) -> Thumbnail:
    from PIL import Image, ImageOps

    with Image.open(BytesIO(content)) as opened:
        opened.draft("RGB", (2 * SIDE, 2 * SIDE))  # JPEG: decodes no more than is needed
        image = _opaque(ImageOps.exif_transpose(opened))
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    image.quantize(_COLOURS).save(buffer, format="PNG", optimize=True)
    text = base64.b64encode(buffer.getvalue()).decode()
    return Thumbnail(f"data:image/png;base64,{text}", image.width, image.height)


def _opaque(image: Image) -> Image:
    """Return a picture in RGB: what is transparent becomes white, 16 bits become 8."""
    from PIL import Image as Pictures

    if image.mode.startswith("I;16"):
        image = Pictures.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        over = image.convert("RGBA")
        paper = Pictures.new("RGBA", over.size, "white")
        return Pictures.alpha_composite(paper, over).convert("RGB")
    return image.convert("RGB")
