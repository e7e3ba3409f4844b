"""Vectors kept on disk by the content of their images.

One folder for each encoder and version, in it shards: archives with the SHA-256 of
images and their vectors. A shard is written whole or not at all and never changed, so
several processes may share a cache, and an interrupted run keeps what it had written.
"""

from __future__ import annotations

import hashlib
import logging
import re
import zipfile
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import read_archive, write_archive
from reid_vpr_eval.errors import FormatError

__all__ = ["VectorCache"]

Vector: TypeAlias = npt.NDArray[np.float32]

_log = logging.getLogger(__name__)

_KIND = "encoded images"
_VERSION = 1
_DIGEST_BYTES = 32
_SHARD_ROWS = 2048


class VectorCache:
    """The vectors of one version of one encoder, by the SHA-256 of the image.

    Parameters
    ----------
    folder : Path
        The cache folder, shared by all encoders; made when there is something to keep.
    encoder, version : str
        Vectors are found again only under the same two.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = VectorCache(Path(folder), "mine", "1")
    ...     cache.put(cache.digest(b"image"), np.ones(3, np.float32))
    ...     cache.flush()
    ...     again = VectorCache(Path(folder), "mine", "1")
    ...     again.get(again.digest(b"image")), again.get(again.digest(b"other"))
    (array([1., 1., 1.], dtype=float32), None)
    """

    def __init__(self, folder: Path, encoder: str, version: str) -> None:
        key = hashlib.sha256(f"{encoder}\0{version}".encode()).hexdigest()[:16]
        self._folder = folder / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', encoder)[:40]}-{key}"
        self._known: dict[bytes, Vector] = {}
        self._fresh: dict[bytes, Vector] = {}
        for shard in sorted(self._folder.glob("*.npz")):
            self._read(shard)

    @staticmethod
    def digest(content: bytes) -> bytes:
        """Return the key of an image: the SHA-256 of its bytes."""
        return hashlib.sha256(content).digest()

    def get(self, digest: bytes) -> Vector | None:
        """Return the vector of an image, or None if it is not known."""
        return self._known.get(digest)

    def put(self, digest: bytes, vector: Vector) -> None:
        """Keep a vector; it is on disk after :meth:`flush`, or once a shard is full."""
        if digest in self._known:
            return
        self._known[digest] = vector
        self._fresh[digest] = vector
        if len(self._fresh) >= _SHARD_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is not yet on disk."""
        if not self._fresh:
            return
        digests = np.frombuffer(b"".join(self._fresh), np.uint8).reshape(-1, _DIGEST_BYTES)
        name = hashlib.sha256(digests.tobytes()).hexdigest()[:24]
        write_archive(
            self._folder / f"{name}.npz",
            kind=_KIND,
            version=_VERSION,
            arrays={"digests": digests, "vectors": np.stack(list(self._fresh.values()))},
        )
        self._fresh = {}

    def _read(self, shard: Path) -> None:
        try:
            if not zipfile.is_zipfile(shard):
                raise FormatError(f"{shard}: is cut off or holds something else")
            _, arrays = read_archive(shard, kind=_KIND, version=_VERSION)
            digests, vectors = _checked(shard, arrays)
        except FormatError as error:
            _log.warning("%s; these vectors are computed again", error)
            shard.unlink(missing_ok=True)
            return
        keys = digests.tobytes()
        for row, vector in enumerate(vectors):
            self._known[keys[row * _DIGEST_BYTES : (row + 1) * _DIGEST_BYTES]] = vector


def _checked(
    shard: Path, arrays: dict[str, npt.NDArray[np.generic]]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    digests, vectors = arrays.get("digests"), arrays.get("vectors")
    if (
        digests is None
        or vectors is None
        or digests.dtype != np.uint8
        or vectors.dtype != np.float32
        or vectors.ndim != 2
        or digests.shape != (len(vectors), _DIGEST_BYTES)
    ):
        raise FormatError(f"{shard}: holds no vectors of images")
    checked = vectors.astype(np.float32, copy=False)
    if not np.isfinite(checked).all():
        raise FormatError(f"{shard}: holds vectors that are not finite")
    return digests.astype(np.uint8, copy=False), checked
