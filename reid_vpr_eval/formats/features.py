"""Features alone, from whatever file holds them."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, InputNotFoundError
from reid_vpr_eval.formats.arrays import check_vectors, load_archive, load_array, split_features
from reid_vpr_eval.formats.matlab import load_mat
from reid_vpr_eval.formats.registry import SideName, existing, find_reader
from reid_vpr_eval.scores import Shards, Vectors
from reid_vpr_eval.scores.files import files_of_folder, in_blocks, in_order

__all__ = ["read_features", "read_matrix"]


def read_features(path: str | os.PathLike[str], *, side: SideName | None = None) -> Vectors:
    """Read feature vectors, one a row; float16 stays float16.

    Parameters
    ----------
    path : path
        A .npy matrix; a .npz with ``features``, ``query_features`` / ``gallery_features``
        or one matrix of floats; a .mat with ``query_f`` / ``gallery_f``; a .fbin, .u8bin,
        .i8bin, .ibin, .fvecs, .bvecs or .ivecs file. A folder, a glob pattern or several
        paths with commas between them name .npy files, or files of these seven kinds, whose
        rows follow one another.
    side : {"query", "gallery"}, optional
        Which side to take from a file that holds both.

    Returns
    -------
    array or Shards
        Several files, a .npy of 256 MiB or more and a .fbin, .fvecs and so on are not loaded.

    Raises
    ------
    InputNotFoundError
        If there is no such file, or none that fits the pattern.
    FormatError
        If the file holds no features, or it is not clear which.
    """
    files = _files_named(os.fspath(path))
    if len(files) > 1 or files[0] != Path(path).expanduser() or in_blocks(files[0]):
        return Shards(files)
    found = read_matrix(files[0], side=side)
    return np.array(found) if isinstance(found, np.memmap) else found


def read_matrix(
    path: str | os.PathLike[str], *, side: SideName | None = None
) -> npt.NDArray[Any]:
    """Read the one matrix of a .npy (mapped, not loaded), .npz or .mat file.

    Raises
    ------
    InputNotFoundError
        If there is no such file.
    FormatError
        If it holds no matrix, or it is not clear which.
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


def _files_named(text: str) -> list[Path]:
    """Return the files that a path, a folder, a pattern or a list with commas names."""
    path = Path(text).expanduser()
    if path.is_dir():
        return files_of_folder(path)
    if path.exists():
        return [path]
    if "," in text:
        return [file for piece in text.split(",") for file in _files_named(piece.strip())]
    if glob.has_magic(text):
        found = in_order(Path(name) for name in glob.glob(str(path)))
        if not found:
            raise InputNotFoundError(f"{text}: no file fits this pattern (expected the features)")
        return found
    return [existing(path, "features")]
