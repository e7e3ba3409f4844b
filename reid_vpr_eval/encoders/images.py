"""Bytes to RGB images, whatever they were stored as."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from reid_vpr_eval.errors import FormatError

__all__ = ["read_image"]

_SIXTEEN_BITS_TO_EIGHT = 257.0
_FAILURES = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    OverflowError,
    NotImplementedError,
    struct.error,
    zlib.error,
)


def read_image(content: bytes, name: str) -> Image.Image:
    """Return an image in RGB, upright, from the bytes of its file.

    Transparent images are laid on white, 16-bit grey is scaled to 8 bits, and the
    orientation of the EXIF data is applied. Of an animation it is the first picture.

    Parameters
    ----------
    content : bytes
        The whole file.
    name : str
        What the image is called in an error.

    Raises
    ------
    FormatError
        If the bytes are not an image, are cut off or damaged, hold pixels that are not
        colours, or more pixels than Pillow considers safe (``PIL.Image.MAX_IMAGE_PIXELS``).

    Examples
    --------
    >>> stored = io.BytesIO()
    >>> Image.new("1", (3, 2), 1).save(stored, format="PNG")
    >>> image = read_image(stored.getvalue(), "white.png")
    >>> image.mode, image.size, image.getpixel((0, 0))
    ('RGB', (3, 2), (255, 255, 255))
    """
    if not content:
        raise FormatError(f"{name}: the file is empty; copy it again or leave it out")
    try:
        with Image.open(io.BytesIO(content)) as stored:
            stored.load()
            return _upright_rgb(stored, name)
    except UnidentifiedImageError:
        raise FormatError(
            f"{name}: not an image that can be read (it begins with {content[:8]!r}); leave it "
            "out, or convert it to PNG or JPEG"
        ) from None
    except Image.DecompressionBombError as error:
        raise FormatError(
            f"{name}: {error}; make the image smaller, or raise PIL.Image.MAX_IMAGE_PIXELS if you "
            "trust it"
        ) from error
    except FormatError:
        raise
    except _FAILURES as error:
        raise FormatError(
            f"{name}: the image is truncated or damaged ({error}); copy it again or leave it out"
        ) from error


def _upright_rgb(image: Image.Image, name: str) -> Image.Image:
    try:
        upright = ImageOps.exif_transpose(image)
    except _FAILURES:  # damaged EXIF data says nothing, the pixels are whole
        upright = image
    if upright.mode == "F":
        raise FormatError(
            f"{name}: holds fractions as pixels, whose range is not known; save it with 8 or 16 "
            "bits a channel"
        )
    if upright.mode == "I" or upright.mode.startswith("I;16"):
        levels = np.asarray(upright).astype(np.float64) / _SIXTEEN_BITS_TO_EIGHT
        grey = np.clip(np.rint(levels), 0, 255).astype(np.uint8)
        return Image.fromarray(grey).convert("RGB")
    if upright.has_transparency_data:
        layer = upright.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    return upright.convert("RGB")
