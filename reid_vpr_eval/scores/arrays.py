"""Arrays of numbers as they come in: loaded, checked row by row, fingerprinted."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, InputNotFoundError, ScoreError, counted
from reid_vpr_eval.scores.distances import undefined, why_undefined
from reid_vpr_eval.scores.files import in_blocks
from reid_vpr_eval.scores.shards import Shards, Vectors, names_of_rows

__all__ = [
    "EXACT_FLOAT64_INTEGER",
    "Array",
    "check_finite",
    "check_vectors",
    "digest",
    "direction",
    "load_array",
    "load_vectors",
    "open_vectors",
    "packed",
    "row_blocks",
    "without_bad",
]

Array: TypeAlias = npt.NDArray[Any]

_CHECKED_AT_ONCE = 1 << 22
EXACT_FLOAT64_INTEGER = 2**53


def digest(text: str, *arrays: Vectors | None) -> str:
    """Return the SHA-256 of a text and of arrays with their types and shapes.

    Vectors in files give the same as the array of all of them.
    """
    found = hashlib.sha256(text.encode())
    for array in arrays:
        if array is None:
            continue
        found.update(f"\0{array.dtype.str}\0{array.shape}\0".encode())
        for block in row_blocks(array):
            found.update(np.ascontiguousarray(array[block]).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def load_array(given: Any, what: str, *, mapped: bool = True) -> Array:
    """Return an array of real numbers, read-only, from an array or the path of a .npy file.

    A file is mapped into memory, or loaded.
    """
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if not path.is_file():
            raise InputNotFoundError(f"{path}: no such file (expected the {what} as .npy)")
        try:
            if mapped:
                given = np.lib.format.open_memmap(path, mode="r")
            else:
                with path.open("rb") as stream:
                    given = np.lib.format.read_array(stream, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            if zipfile.is_zipfile(path):
                raise FormatError(f"{path}: holds several arrays; give the array itself") from error
            raise FormatError(f"{path}: cannot be read as a .npy array ({error})") from error
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ScoreError(f"the {what} is not rectangular: {error}") from error
    if array.dtype.kind not in "iufb":
        raise ScoreError(f"the {what} has the type {array.dtype}: real numbers are needed")
    if not array.flags.owndata or array.flags.writeable:
        array = array.view()
        array.setflags(write=False)
    return array


def open_vectors(given: Any, side: str) -> Vectors:
    """Return features of an array, of a file that is loaded if it is small, or of shards.

    Several files, a folder or a large file are shards.
    """
    if isinstance(given, Shards):
        return given
    if isinstance(given, list | tuple) and all(isinstance(one, str | os.PathLike) for one in given):
        return Shards(given)
    if not isinstance(given, str | os.PathLike):
        return load_array(given, f"{side} features")
    path = Path(given).expanduser()
    if path.is_dir() or (path.is_file() and in_blocks(path)):
        return Shards(path)
    return load_array(path, f"{side} features", mapped=False)


def load_vectors(given: Any, side: str) -> Vectors:
    """Return features (n, d), not empty, as they are given; whole numbers stay whole."""
    vectors = open_vectors(given, side)
    if isinstance(vectors, Shards):
        return vectors
    if vectors.ndim != 2:
        raise ScoreError(
            f"{side} features have the shape {vectors.shape}: (number of items, dimensions) "
            "is needed"
        )
    if vectors.shape[0] == 0 or vectors.shape[1] == 0:
        raise ScoreError(f"the {side} side is empty: its features have the shape {vectors.shape}")
    if vectors.dtype.kind in "iu" and vectors.dtype.itemsize == 8:
        largest = max(abs(int(vectors.min())), abs(int(vectors.max())))
        if largest > EXACT_FLOAT64_INTEGER:
            raise ScoreError(f"{side} features hold integers beyond 2^53: give them as floats")
    if vectors.dtype.itemsize > np.dtype(np.float64).itemsize:
        with np.errstate(over="ignore"):
            return vectors.astype(np.float64)
    return vectors


def packed(codes: Vectors, side: str) -> Vectors:
    """Return binary codes as uint8 (n, bytes); booleans (n, bits) are packed."""
    if codes.dtype == np.uint8:
        return codes
    if codes.dtype != bool:
        raise ScoreError(
            f"{side} features have the type {codes.dtype}: hamming compares bits, given as uint8 "
            "(np.packbits(bits, axis=1)) or boolean; binarise the features, such as by "
            "features > 0, view packed words as uint8, or use another metric"
        )
    made = np.empty((codes.shape[0], -(-codes.shape[1] // 8)), np.uint8)
    for block in row_blocks(codes):
        made[block] = np.packbits(codes[block], axis=1)
    made.setflags(write=False)
    return made


def row_blocks(array: Vectors) -> Iterator[slice]:
    """Yield slices of rows, of a few million numbers each."""
    width = array.shape[1] if array.ndim > 1 else 1
    step = max(1, _CHECKED_AT_ONCE // max(1, width))
    for start in range(0, array.shape[0], step):
        yield slice(start, min(start + step, array.shape[0]))


def check_finite(array: Array, what: str, noun: str) -> None:
    """Refuse NaN and infinite values, and name their rows."""
    not_finite, _ = _bad_rows(array, "")
    _refuse_not_finite(array, not_finite, what, noun)


def check_vectors(vectors: Vectors, side: str, metric: str) -> None:
    """Refuse vectors that are not finite, or that the metric is not defined for."""
    not_finite, bad = _bad_rows(vectors, metric)
    _refuse_not_finite(vectors, not_finite, f"{side} features", "values")
    if bad:
        are, why = why_undefined(metric, len(bad))
        raise ScoreError(
            f"{side} features: {counted(len(bad), 'vector')} {are} ({names_of_rows(vectors, bad)}) "
            f"and {why}, so {metric} is not defined; leave these rows out or use another metric"
        )


def without_bad(
    vectors: Vectors, metric: str
) -> tuple[Vectors, npt.NDArray[np.bool_] | None]:
    """Return vectors with those that cannot be scored replaced by a unit, and a mask of them.

    The mask is None, and the vectors are the same object, where all are good.
    """
    bad = np.zeros(len(vectors), bool)
    for rows in _bad_rows(vectors, metric):
        bad[rows] = True
    if not bad.any():
        return vectors, None
    good = np.zeros(vectors.shape[1], vectors.dtype)
    good[0] = 1  # every metric is defined for it
    if isinstance(vectors, Shards):
        return vectors.replaced(bad, good), bad
    mended = np.array(vectors)
    mended[bad] = good
    mended.setflags(write=False)
    return mended, bad


def _bad_rows(vectors: Vectors, metric: str) -> tuple[list[int], list[int]]:
    """Return the rows that are not finite, and those that a metric is not defined for.

    The vectors are read once.
    """
    not_finite: list[int] = []
    without: list[int] = []
    for block in row_blocks(vectors):
        part = vectors[block]
        if part.dtype.kind == "f":
            rows = np.flatnonzero(~np.isfinite(part).all(axis=1))
            not_finite += (rows + block.start).tolist()
        if metric:
            without += (np.flatnonzero(undefined(part, metric)) + block.start).tolist()
    return not_finite, without


def _refuse_not_finite(array: Vectors, bad: list[int], what: str, noun: str) -> None:
    if bad:
        raise ScoreError(
            f"{what}: {noun} are NaN or infinite in {len(bad)} of {counted(array.shape[0], 'row')} "
            f"({names_of_rows(array, bad)}); mend or leave out these rows"
        )


def direction(higher_is_better: object) -> bool:
    """Return the direction of scores; there is no guess at what a word might mean."""
    if not isinstance(higher_is_better, bool | np.bool_):
        raise ScoreError(f"higher_is_better = {higher_is_better!r}: True or False is needed")
    return bool(higher_is_better)
