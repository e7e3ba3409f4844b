"""Small pictures inside a page: decoded once, bounded in size, never a reason to fail."""

from __future__ import annotations

import base64
import hashlib
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reid_vpr_eval.archive import write_atomically

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["SIDE", "Thumbnail", "thumbnail"]

#: The longer side of a thumbnail, in pixels.
SIDE = 112

_QUALITY = 78
#: Part of the names in a cache: thumbnails of another kind are made anew.
_KIND = f"{SIDE}q{_QUALITY}"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A small picture as text: `uri` is a ``data:`` address."""

    uri: str
    width: int
    height: int


def thumbnail(
    load: Callable[[str], bytes], name: str, cache: Path | None = None
) -> Thumbnail | None:
    """Return the thumbnail of an image, or None if it is missing or broken.

    Parameters
    ----------
    load : callable
        Gives the bytes of the file of an item.
    name : str
        The item.
    cache : Path, optional
        A folder that keeps thumbnails by the content of their images.
    """
    try:
        content = load(name)
        kept = None if cache is None else cache / f"{_key(content)}.webp"
        if kept is not None and kept.is_file():
            return _read(kept.read_bytes())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            small = _small(content)
        if kept is not None:
            write_atomically(kept, small)
        return _read(small)
    except Exception as error:  # a broken picture breaks decoders in every way
        _log.info("no thumbnail of %s: %s", name, error)
        return None


def _key(content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()[:32]}-{_KIND}"


def _read(stored: bytes) -> Thumbnail:
    from PIL import Image

    with Image.open(BytesIO(stored)) as opened:
        width, height = opened.size
    return Thumbnail(f"data:image/webp;base64,{base64.b64encode(stored).decode()}", width, height)


def _small(content: bytes) -> bytes:
    from PIL import Image, ImageOps

    with Image.open(BytesIO(content)) as opened:
        opened.draft("RGB", (2 * SIDE, 2 * SIDE))  # JPEG: decodes no more than is needed
        image = _opaque(ImageOps.exif_transpose(opened))
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    image.save(buffer, format="WEBP", quality=_QUALITY, method=4)
    return buffer.getvalue()


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
