"""Two descriptors that need no model: where the colours are, and how the edges run.

They are no match for a trained network. They are here so that a folder of images
becomes a report with nothing else installed, and as a floor for what is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from reid_vpr_eval.encoders.registry import encoder

__all__ = ["colour_texture", "thumbnail"]

Array: TypeAlias = npt.NDArray[Any]

_WIDTH, _HEIGHT = 64, 96
_STRIPES = 6
_LEVELS = (4, 5, 5)
_GRID = (6, 4)
_ORIENTATIONS = 8
_TEXTURE_WEIGHT = 0.7
_THUMBNAIL = (12, 16)
_EDGE_FLOOR = 4.0
_TINY = 1e-6
_GREY_COUNTS = 0.2
_MIDDLE = 120.0
_BALANCE = 0.8


@encoder("colour-texture", version="1")
def colour_texture(images: Sequence[Image.Image]) -> npt.NDArray[np.float32]:
    """Describe images by their colours in horizontal stripes and the run of their edges.

    Colours are soft-binned in lightness and two opponent axes, edges by orientation on a
    small grid; square roots tame what is frequent, and every vector has length 1.

    Parameters
    ----------
    images : sequence of PIL images in RGB
        Of any size; each is looked at alone.

    Returns
    -------
    array (n, 792), float32

    Examples
    --------
    >>> red, blue = (Image.new("RGB", (9, 9), colour) for colour in ("red", "blue"))
    >>> vectors = colour_texture([red, blue, red])
    >>> vectors.shape, float(vectors[0] @ vectors[2]) > 0.99 > float(vectors[0] @ vectors[1])
    ((3, 792), True)
    """
    return np.stack([_describe(image) for image in images])


@encoder("thumbnail", version="1")
def thumbnail(images: Sequence[Image.Image]) -> npt.NDArray[np.float32]:
    """Describe images by their pixels: a tiny copy, without its mean, of length 1.

    Parameters
    ----------
    images : sequence of PIL images in RGB

    Returns
    -------
    array (n, 576), float32

    Examples
    --------
    >>> thumbnail([Image.new("RGB", (30, 20), "green")]).shape
    (1, 576)
    """
    return np.stack([_shrink(image) for image in images])


def _shrink(image: Image.Image) -> npt.NDArray[np.float32]:
    small = image.resize(_THUMBNAIL, Image.Resampling.BOX)
    pixels = np.asarray(small, dtype=np.float64)
    vector = (pixels - pixels.mean(axis=(0, 1))).ravel()
    if not vector.any():  # one colour all over: a direction at right angles to all others
        vector = np.ones_like(vector)
    return _unit(vector).astype(np.float32)


def _describe(image: Image.Image) -> npt.NDArray[np.float32]:
    pixels = np.asarray(image.resize((_WIDTH, _HEIGHT), Image.Resampling.BILINEAR), np.float64)
    pixels = _balanced(pixels)
    colour, texture = _colours(pixels), _edges(pixels.mean(axis=2))
    return _unit(np.concatenate([colour, _TEXTURE_WEIGHT * texture])).astype(np.float32)


def _colours(pixels: Array) -> Array:
    """Soft histograms of lightness and opponent colours, one for each stripe."""
    red, green, blue = (pixels[..., channel] / 255.0 for channel in range(3))
    axes = (
        (red + green + blue) / 3.0,
        np.clip(0.5 + 1.2 * (red - green), 0.0, 1.0),
        np.clip(0.5 + 0.9 * ((red + green) / 2.0 - blue), 0.0, 1.0),
    )
    bins, size = np.zeros(red.shape, np.int64), 1
    chroma = pixels.max(axis=2) - pixels.min(axis=2)
    weights = _centre_weights(red.shape) * (_GREY_COUNTS + chroma / 255.0)
    corners: list[tuple[Array, Array]] = [(bins, weights)]
    for axis, levels in zip(axes, _LEVELS, strict=True):
        place = axis * (levels - 1)
        low = np.minimum(place.astype(np.int64), levels - 2)
        part = place - low
        corners = [
            (index * levels + low + step, weight * (part if step else 1.0 - part))
            for index, weight in corners
            for step in (0, 1)
        ]
        size *= levels
    stripe = np.arange(_HEIGHT) * _STRIPES // _HEIGHT
    offset = stripe[:, None] * size
    histogram = np.zeros(_STRIPES * size)
    for index, weight in corners:
        histogram += np.bincount((index + offset).ravel(), weight.ravel(), minlength=len(histogram))
    return _unit(np.sqrt(histogram))


def _balanced(pixels: Array) -> Array:
    """Take back part of the colour cast and exposure: the mean moves towards middle grey."""
    gain = (_MIDDLE / (pixels.mean(axis=(0, 1)) + 1.0)) ** _BALANCE
    return np.asarray(np.minimum(pixels * gain, 255.0))


def _centre_weights(shape: tuple[int, ...]) -> Array:
    """Weights that fall towards the sides, where there is more background than object."""
    across = (np.arange(shape[1]) + 0.5) / shape[1]
    return np.broadcast_to((4.0 * across * (1.0 - across)) ** 3, shape)


def _edges(grey: Array) -> Array:
    """Histograms of the orientation of edges, soft-binned, one for each cell of a grid."""
    down, right = np.gradient(grey)
    strength = np.hypot(down, right)
    turn = np.mod(np.arctan2(down, right) / np.pi, 1.0) * _ORIENTATIONS
    low = np.minimum(turn.astype(np.int64), _ORIENTATIONS - 1)
    part = turn - low
    rows = np.arange(_HEIGHT) * _GRID[0] // _HEIGHT
    columns = np.arange(_WIDTH) * _GRID[1] // _WIDTH
    cell = (rows[:, None] * _GRID[1] + columns) * _ORIENTATIONS
    size = _GRID[0] * _GRID[1] * _ORIENTATIONS
    histogram = np.bincount(
        (cell + low).ravel(), (strength * (1.0 - part)).ravel(), minlength=size
    ) + np.bincount(
        (cell + (low + 1) % _ORIENTATIONS).ravel(), (strength * part).ravel(), minlength=size
    )
    cells = histogram.reshape(-1, _ORIENTATIONS)
    pixels_a_cell = grey.size / len(cells)
    cells = cells / (cells.sum(axis=1, keepdims=True) + _EDGE_FLOOR * pixels_a_cell)
    return _unit(np.sqrt(cells).ravel())


def _unit(vector: Array) -> Array:
    """Scale to length 1; what is all but zero stays near zero."""
    return np.asarray(vector / np.sqrt((vector * vector).sum() + _TINY))
