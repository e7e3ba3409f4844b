"""Vector files of nearest-neighbour search: .fvecs, .ivecs, .bvecs and .fbin, .u8bin, .ibin."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, name_some
from reid_vpr_eval.formats.arrays import load_array
from reid_vpr_eval.formats.hdf5 import read_datasets
from reid_vpr_eval.formats.registry import existing, parsing

__all__ = ["Neighbours", "read_neighbours", "read_vectors"]

Array: TypeAlias = npt.NDArray[Any]

_VECS: Mapping[str, str] = {".fvecs": "<f4", ".ivecs": "<i4", ".bvecs": "u1"}
_BIN: Mapping[str, str] = {".fbin": "<f4", ".ibin": "<i4", ".u8bin": "u1", ".i8bin": "i1"}
_HEADERS_AT_ONCE = 1 << 16
_IDS = ("neighbors", "neighbours", "ids", "indices")


class Neighbours(NamedTuple):
    """Neighbours computed before, from the nearest on.

    Attributes
    ----------
    ids : int array (n_query, K)
    distances : float array (n_query, K), or None if the file has none
    """

    ids: Array
    distances: Array | None


def read_vectors(path: str | os.PathLike[str]) -> Array:
    """Read a matrix, one vector a row, without bringing all of it into memory.

    Parameters
    ----------
    path : path
        ``.fvecs``, ``.ivecs`` or ``.bvecs``: each vector is its dimension (int32) and that
        many float32, int32 or uint8. ``.fbin``, ``.ibin``, ``.u8bin`` or ``.i8bin``: the
        number of vectors and the dimension (uint32), then all numbers. Little-endian.

    Raises
    ------
    InputNotFoundError
        If there is no such file.
    FormatError
        If the size does not fit, or a vector has another dimension than the first: every
        header is checked.
    """
    source = existing(Path(path).expanduser(), "vectors")
    suffix = source.suffix.lower()
    if suffix in _VECS:
        return _vecs(source, np.dtype(_VECS[suffix]))
    if suffix in _BIN:
        return _one_header(source, np.dtype(_BIN[suffix]))
    raise FormatError(
        f"{source}: vectors are read from {', '.join((*_VECS, *_BIN))}, not from "
        f"{suffix or 'a file without suffix'}"
    )


def read_neighbours(path: str | os.PathLike[str]) -> Neighbours:
    """Read neighbours: ``.ivecs``, ``.ibin``, ``.hdf5``, ``.npy`` or ``.npz``.

    A ``.npz`` holds ``ids`` (or ``neighbors``) and, if known, ``distances``; a ``.hdf5``
    ``neighbors`` and ``distances``; a ``.ibin`` distances after all ids, or none.

    Raises
    ------
    InputNotFoundError
        If there is no such file.
    FormatError
        If it cannot be read as neighbours.
    """
    source = existing(Path(path).expanduser(), "neighbours")
    suffix = source.suffix.lower()
    distances: Array | None = None
    if suffix == ".npy":
        ids: Array = np.asarray(load_array(source))
    elif suffix == ".npz":
        ids, distances = _npz(source)
    elif suffix == ".ibin":
        ids, distances = _truth(source)
    elif suffix == ".ivecs":
        ids = read_vectors(source)
    elif suffix in (".hdf5", ".h5"):
        stored, distances = read_datasets(source, ["neighbors", "distances"])
        ids = np.asarray(stored)
    else:
        raise FormatError(
            f"{source}: neighbours are read from .ivecs, .ibin, .hdf5, .npy and .npz, not from "
            f"{suffix or 'a file without suffix'}"
        )
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise FormatError(
            f"{source}: neighbours are whole numbers (n_query, K); this is {ids.dtype} of the "
            f"shape {ids.shape}"
        )
    return Neighbours(ids, distances)


def _vecs(path: Path, kind: np.dtype[Any]) -> Array:
    size = path.stat().st_size
    dim = _head(path, 1, size)[0]
    if dim < 1:
        raise FormatError(f"{path}: begins with the dimension {dim}; it is no {path.suffix} file")
    row = 4 + dim * kind.itemsize
    n = size // row
    if n == 0:
        raise FormatError(
            f"{path}: begins with the dimension {dim}, so that one vector has {row:,} bytes, but "
            f"the file has {size:,}: it is cut off, or its suffix is not {path.suffix}"
        )
    with parsing(path, "vectors"):
        stored = np.dtype([("dim", "<i4"), ("vector", kind, (dim,))])
        table = np.memmap(path, dtype=stored, mode="r", shape=(n,))
    for start in range(0, n, _HEADERS_AT_ONCE):
        dims = table["dim"][start : start + _HEADERS_AT_ONCE]
        bad = np.flatnonzero(dims != dim)
        if len(bad):
            raise FormatError(
                f"{path}: vector {start + bad[0]} has the dimension {dims[bad[0]]}, those before "
                f"it {dim}: the file is damaged, or its suffix is not {path.suffix}"
            )
    if size % row:
        raise FormatError(
            f"{path}: {size:,} bytes are not a whole number of vectors of the dimension {dim} "
            f"({row} bytes each, {size % row} are left over): the file is cut off, or its suffix "
            f"is not {path.suffix}"
        )
    return np.asarray(table["vector"])


def _one_header(path: Path, kind: np.dtype[Any]) -> Array:
    size = path.stat().st_size
    n, dim = _head(path, 2, size)
    wanted = 8 + n * dim * kind.itemsize
    if n < 1 or dim < 1 or size != wanted:
        raise FormatError(
            f"{path}: says {n} vectors of the dimension {dim}, which are {wanted:,} bytes, but has "
            f"{size:,}: the file is cut off, or its suffix is not {path.suffix}"
        )
    return np.memmap(path, dtype=kind, mode="r", offset=8, shape=(n, dim))


def _truth(path: Path) -> tuple[Array, Array | None]:
    """Read neighbours of a big-ann file: ids, and after all of them the distances."""
    size = path.stat().st_size
    n, k = _head(path, 2, size)
    if n < 1 or k < 1 or size != 8 + n * k * 8:
        return _one_header(path, np.dtype("<i4")), None
    ids = np.memmap(path, dtype="<i4", mode="r", offset=8, shape=(n, k))
    return ids, np.memmap(path, dtype="<f4", mode="r", offset=8 + n * k * 4, shape=(n, k))


def _npz(path: Path) -> tuple[Array, Array | None]:
    with parsing(path, "a NumPy archive"), np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    names = [name for name in _IDS if name in arrays]
    if len(names) != 1:
        raise FormatError(
            f"{path}: one array called {' or '.join(_IDS)} is needed; it has "
            f"{name_some(sorted(arrays), 12) or 'none'}"
        )
    return arrays[names[0]], arrays.get("distances")


def _head(path: Path, n: int, size: int) -> list[int]:
    """Return the first numbers, which are the dimension or the counts."""
    if size < 4 * n:
        raise FormatError(f"{path}: has {size} bytes and so no header: copy it again")
    with path.open("rb") as stream:
        head = np.frombuffer(stream.read(4 * n), "<i4" if n == 1 else "<u4")
    return [int(one) for one in head]
