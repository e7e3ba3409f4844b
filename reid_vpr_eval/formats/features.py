"""Features alone, from whatever file holds them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy.typing as npt

from reid_vpr_eval.errors import FormatError
from reid_vpr_eval.formats.arrays import check_vectors, load_archive, load_array, split_features
from reid_vpr_eval.formats.matlab import load_mat
from reid_vpr_eval.formats.registry import SideName, existing, find_reader

__all__ = ["read_features"]


def read_features(
    path: str | os.PathLike[str], *, side: SideName | None = None
) -> npt.NDArray[Any]:
    """Read feature vectors, one a row; float16 stays float16.

    Parameters
    ----------
    path : path
        A .npy matrix; a .npz with ``features``, ``query_features`` / ``gallery_features``
        or one matrix of floats; a .mat with ``query_f`` / ``gallery_f``.
    side : {"query", "gallery"}, optional
        Which side to take from a file that holds both.

    Raises
    ------
    FormatError
        If the file holds no features, or it is not clear which.
    """
    source = existing(Path(path).expanduser(), "features")
    suffix = source.suffix.lower()
    if suffix not in (".npy", ".npz", ".mat") or source.is_dir():
        raise FormatError(
            f"{source}: features are read from .npy, .npz and .mat files, not from "
            f"{'a folder' if source.is_dir() else suffix or 'a file without suffix'}"
        )
    find_reader(source)
    if suffix == ".npy":
        return check_vectors(source, "the array", load_array(source))
    arrays, _ = load_archive(source, side) if suffix == ".npz" else load_mat(source, side)
    features, columns = split_features(source, arrays)
    if features is None:
        raise FormatError(
            f"{source}: holds no features (a 2-D array of numbers named 'features'), only "
            f"{', '.join(columns) or 'single values'}"
        )
    return features
