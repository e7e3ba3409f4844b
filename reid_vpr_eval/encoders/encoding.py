"""From the bytes of many images to one array of vectors, in batches, with a cache."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from reid_vpr_eval.encoders.cache import VectorCache
from reid_vpr_eval.encoders.images import read_image
from reid_vpr_eval.encoders.registry import Encoder, encoder_version, load_encoder
from reid_vpr_eval.errors import AlignmentError, ScoreError, counted

__all__ = ["encode"]

_log = logging.getLogger(__name__)


def encode(
    load: Callable[[int], bytes],
    n: int,
    encoder: str = "colour-texture",
    *,
    batch: int = 64,
    progress: Callable[[int, int], None] | None = None,
    cache: Path | None = None,
    names: Sequence[str] | None = None,
) -> npt.NDArray[np.float32]:
    """Return the vectors of n images, one a row, in their order.

    Parameters
    ----------
    load : callable
        Gives the bytes of the file of image i, for i in 0 .. n - 1; called once for each,
        in order.
    n : int
        Number of images.
    encoder : str
        A registered name or ``module:function``, as for :func:`load_encoder`.
    batch : int, default 64
        How many images the encoder gets at once.
    progress : callable, optional
        Called with the number of images done and n.
    cache : Path, optional
        A folder that keeps vectors by the content of the image and the version of the
        encoder: what is found there is not decoded. An encoder whose version is unknown
        (defined in no file) is not cached. How many were found is logged.
    names : sequence of str, optional
        What the images are called in errors.

    Returns
    -------
    array (n, d), float32

    Raises
    ------
    FormatError
        If an image cannot be read.
    ScoreError
        If there is no image, no such encoder, or its vectors are unusable: not one for
        each image, of changing dimension, not finite.
    AlignmentError
        If the number of names is not n.

    Examples
    --------
    >>> import io
    >>> stored = io.BytesIO()
    >>> Image.new("RGB", (40, 30), "olive").save(stored, format="PNG")
    >>> encode(lambda i: stored.getvalue(), 3, "thumbnail").shape
    (3, 576)
    """
    function = load_encoder(encoder)
    if n < 1:
        raise ScoreError("there are no images to encode; check the folder and the suffixes")
    if batch < 1:
        raise ScoreError(f"a batch of {batch} images: at least 1 is needed")
    if names is not None and len(names) != n:
        raise AlignmentError(
            f"{counted(len(names), 'name')} for {counted(n, 'image')}: they must be the same"
        )
    called = names if names is not None else [f"image {i}" for i in range(n)]
    store = _open_cache(cache, encoder)
    run = _Run(function, encoder, called, store)
    try:
        for i in range(n):
            run.add(i, load(i))
            if len(run.waiting) >= batch:
                run.work()
            if progress is not None and (i + 1) % batch == 0 and i + 1 < n:
                progress(i + 1, n)
        run.work()
    finally:
        if store is not None:
            store.flush()
    if store is not None:
        _log.info("%d of %d images found in the cache %s", run.found, n, cache)
    if progress is not None:
        progress(n, n)
    return run.vectors(n)


def _open_cache(folder: Path | None, encoder: str) -> VectorCache | None:
    if folder is None:
        return None
    version = encoder_version(encoder)
    if version is None:
        _log.warning("encoder %r is defined in no file: its vectors are not cached", encoder)
        return None
    return VectorCache(Path(folder), encoder, f"{version} Pillow {PIL.__version__}")


@dataclass
class _Run:
    """The state of one call: images that wait for the encoder, and vectors that are done."""

    function: Encoder
    encoder: str
    names: Sequence[str]
    store: VectorCache | None
    waiting: list[tuple[int, bytes, Image.Image]] = field(default_factory=list)
    done: dict[int, npt.NDArray[np.float32]] = field(default_factory=dict)
    found: int = 0

    def add(self, i: int, content: bytes) -> None:
        """Take an image from the cache, or decode it and let it wait."""
        digest = b""
        if self.store is not None:
            digest = self.store.digest(content)
            known = self.store.get(digest)
            if known is not None:
                self._keep(i, known)
                self.found += 1
                return
        self.waiting.append((i, digest, read_image(content, self.names[i])))

    def work(self) -> None:
        """Encode the images that wait."""
        if not self.waiting:
            return
        rows = [i for i, _, _ in self.waiting]
        between = f"images {self.names[rows[0]]} to {self.names[rows[-1]]}"
        try:
            given = self.function([image for _, _, image in self.waiting])
        except Exception as error:
            error.add_note(f"raised by the encoder {self.encoder!r} for the {between}")
            raise
        vectors = self._checked(given, rows, between)
        for (i, digest, _), vector in zip(self.waiting, vectors, strict=True):
            self._keep(i, vector)
            if self.store is not None:
                self.store.put(digest, vector)
        self.waiting = []

    def vectors(self, n: int) -> npt.NDArray[np.float32]:
        """Return all vectors in order."""
        return np.stack([self.done[i] for i in range(n)])

    def _keep(self, i: int, vector: npt.NDArray[np.float32]) -> None:
        first = next(iter(self.done), i)
        size = len(self.done.get(first, vector))
        if len(vector) != size:
            raise ScoreError(
                f"encoder {self.encoder!r} gives {counted(len(vector), 'dimension')} for the image "
                f"{self.names[i]}, but {size} for the image {self.names[first]}: all vectors must "
                "have the same"
            )
        self.done[i] = vector

    def _checked(self, given: Any, rows: Sequence[int], between: str) -> npt.NDArray[np.float32]:
        who = f"encoder {self.encoder!r}"
        try:
            array = np.asarray(given)
        except Exception as error:
            raise ScoreError(
                f"{who} gives a {type(given).__name__} that does not become an array ({error}) for "
                f"the {between}; return NumPy arrays, and tensors as tensor.detach().cpu()"
            ) from error
        if array.ndim != 2 or len(array) != len(rows) or array.shape[1] == 0:
            raise ScoreError(
                f"{who} gives the shape {array.shape} for {counted(len(rows), 'image')} "
                f"({between}); it must be ({len(rows)}, d), one vector a row"
            )
        if array.dtype.kind not in "iufb":
            raise ScoreError(
                f"{who} gives the type {array.dtype} for the {between}: real numbers are needed"
            )
        with np.errstate(over="ignore"):
            vectors = array.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            raise ScoreError(
                f"{who} gives a vector with NaN or infinite values for {len(bad)} of {len(rows)} "
                f"images, the first is {self.names[rows[bad[0]]]}; mend the encoder or leave the "
                "image out"
            )
        return vectors
