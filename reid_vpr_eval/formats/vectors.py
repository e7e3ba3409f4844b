"""Files of nearest-neighbour search: neighbours that were computed before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, name_some
from reid_vpr_eval.formats.arrays import load_array
from reid_vpr_eval.formats.hdf5 import read_datasets
from reid_vpr_eval.formats.registry import existing, parsing
from reid_vpr_eval.scores import Shards

__all__ = ["Neighbours", "read_neighbours", "read_vectors"]

Array: TypeAlias = npt.NDArray[Any]

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
    """Read all vectors of one file of a kind that :class:`Shards` lists, one a row.

    Raises
    ------
    InputNotFoundError
        If there is no such file.
    FormatError
        If the size does not fit, or a vector has another dimension than the first.
    ScoreError
        If it is empty.
    """
    return Shards([path])[:]


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


def _truth(path: Path) -> tuple[Array, Array | None]:
    """Read neighbours of a big-ann file: ids, and after all of them the distances."""
    size = path.stat().st_size
    n, k = (int(one) for one in np.fromfile(path, "<u4", 2)) if size >= 8 else (0, 0)
    if n < 1 or k < 1 or size != 8 + n * k * 8:
        return read_vectors(path), None
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
