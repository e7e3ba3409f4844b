"""The canonical score of a pair: a pure function of its two vectors, to the last bit.

Products (or squared differences) of the components are formed in float64 and summed by a
halving tree: padded to a power of two, the upper half is added to the lower half until one
number is left. Only element-wise IEEE operations are used, so every chunking, machine and
library gives the same bits, and identical vectors get identical scores.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["component_type", "components", "norms", "pair_scores", "tree_sum", "unit"]

_ELEMENTS_AT_ONCE = 1 << 17
_SMALLEST_NORMAL = np.finfo(np.float64).smallest_normal
_PIECE = 128  # numbers of vectors that are named often lie together in pieces of this size
_OFTEN = 2  # pairs for each vector from which on that pays
_MOST_IN_PIECES = 1 << 22
_PIECES_AT_ONCE = 1 << 18  # fewer and larger steps: threads wait less for one another
_NARROW = 32  # below this width columns are summed instead of rows

_memory = threading.local()

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


def tree_sum(terms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sum each row of `terms` (n, d) by the halving tree.

    >>> tree_sum(np.array([[1.0, 2.0, 3.0]]))
    array([6.])
    """
    turn = 0
    while terms.shape[1] > _NARROW:
        half = _lower_half(terms.shape[1])
        folded = _scratch(turn, len(terms), half)
        rest = terms.shape[1] - half
        np.add(terms[:, :rest], terms[:, half:], out=folded[:, :rest])
        folded[:, rest:] = terms[:, rest:half]
        terms, turn = folded, 1 - turn
    columns = np.array(terms.T, order="C")
    while len(columns) > 1:
        half = _lower_half(len(columns))
        rest = len(columns) - half
        columns[:rest] += columns[half:]
        columns = columns[:half]
    return np.array(columns[0])


def _lower_half(width: int) -> int:
    """Return the largest power of two below a width of two or more."""
    return 1 << ((width - 1).bit_length() - 1)


def _scratch(name: int, n: int, width: int) -> npt.NDArray[np.float64]:
    """Return memory of this thread for n rows; what it held before is lost."""
    kept: dict[Any, npt.NDArray[np.float64]] = _memory.__dict__
    if name not in kept or kept[name].size < n * width:
        kept[name] = np.empty(max(n * width, _ELEMENTS_AT_ONCE))
    return kept[name][: n * width].reshape(n, width)


def component_type(kind: np.dtype[Any]) -> type[np.float32] | type[np.float64]:
    """Return the type that vectors of a type are scored in.

    float32 for what it holds exactly (whole numbers of up to 16 bits, float16, either byte
    order), float64 for all else.

    >>> component_type(np.dtype(np.int8)).__name__, component_type(np.dtype(np.int32)).__name__
    ('float32', 'float64')
    """
    return np.float32 if np.can_cast(kind, np.float32) else np.float64


def components(vectors: Array) -> Array:
    """Return vectors as they are scored: as float32 or as float64."""
    return vectors.astype(component_type(vectors.dtype), copy=False)


def norms(vectors: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean length of each vector by the canonical sum, float64 (n,)."""
    lengths = np.empty(len(vectors))
    for rows in _chunks(len(vectors), vectors.shape[1]):
        lengths[rows] = _norms(components(vectors[rows]))
    return lengths


def unit(vectors: Array, out: Array | None = None, rows: Ints | None = None) -> Array:
    """Return vectors divided by their lengths, rounded to float32 (float64 stays so).

    With `rows` these ones of the vectors.
    """
    n, dim = len(vectors) if rows is None else len(rows), vectors.shape[1]
    made = np.empty((n, dim), component_type(vectors.dtype)) if out is None else out
    for some in _chunks(n, dim):
        part = components(vectors[some if rows is None else rows[some]])
        if part.dtype == np.float32:
            wide, squares = (_scratch(name, *part.shape) for name in (2, 3))
            wide[...] = part
            np.multiply(wide, wide, out=squares)
            wide /= np.sqrt(tree_sum(squares))[:, None]
            made[some] = wide
            continue
        lengths, scale = _norms(part), _power_of_two(part)
        near, own = part * scale[:, None], lengths * scale
        lost = (lengths < _SMALLEST_NORMAL) | (lengths == np.inf)  # rounded before scaling
        own[lost] = np.sqrt(tree_sum(near[lost] ** 2))
        np.divide(near, own[:, None], out=made[some])
    return made


def _norms(part: Array) -> npt.NDArray[np.float64]:
    wide = _scratch(2, *part.shape)
    wide[...] = part
    if part.dtype == np.float32:  # its squares neither overflow nor vanish in float64
        wide *= wide
        return np.sqrt(tree_sum(wide))
    scale = _power_of_two(wide)
    wide *= scale[:, None]
    wide *= wide
    return np.asarray(np.sqrt(tree_sum(wide)) / scale)


def pair_scores(
    ours: Array, theirs: Array, row: Ints, column: Ints, *, squared_distance: bool
) -> npt.NDArray[np.float64]:
    """Return the canonical score of ``ours[row]`` with ``theirs[column]``, one by one.

    The dot product, or the negated squared distance: larger is better.
    """
    out = np.empty(len(row))
    dim, n_vectors = ours.shape[1], len(ours) + len(theirs)
    often = len(row) >= _OFTEN * n_vectors and n_vectors * dim <= _MOST_IN_PIECES
    if often and dim >= 2 * _PIECE and dim & (dim - 1) == 0:
        _add_pieces(_pieces(ours), _pieces(theirs), row, column, squared_distance, out)
        return out
    for part in _chunks(len(row), dim):
        terms = _scratch(2, len(row[part]), dim)
        terms[...] = theirs[column[part]]
        first = row[part]
        left = ours[first[0]] if (first == first[0]).all() else ours[first]
        if squared_distance:
            np.subtract(left, terms, out=terms)
            terms *= terms
            out[part] = -tree_sum(terms)
        else:
            terms *= left
            out[part] = tree_sum(terms)
    return out


def _pieces(vectors: Array) -> npt.NDArray[np.float64]:
    """Return vectors in pieces, (n_pieces, n, piece): the halves of all sums in one block each."""
    n_pieces = vectors.shape[1] // _PIECE
    cut = vectors.reshape(len(vectors), n_pieces, _PIECE).swapaxes(0, 1)
    return cut.astype(np.float64, order="C")


def _add_pieces(
    ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64], row: Ints, column: Ints,
    squared_distance: bool, out: npt.NDArray[np.float64],
) -> None:  # fmt: skip
    """Write the canonical scores of pairs of vectors that are cut in pieces."""
    n_pieces = len(ours)
    for part in _chunks(len(row), n_pieces * _PIECE, _PIECES_AT_ONCE):
        shape = (n_pieces, len(row[part]), _PIECE)
        terms, left = (_scratch(name, n_pieces * shape[1], _PIECE).reshape(shape)
                       for name in (2, 3))  # fmt: skip
        np.take(theirs, column[part], axis=1, out=terms, mode="clip")
        np.take(ours, row[part], axis=1, out=left, mode="clip")
        if squared_distance:
            np.subtract(left, terms, out=terms)
            terms *= terms
        else:
            terms *= left
        width = n_pieces
        while width > 1:
            width //= 2
            terms[:width] += terms[width : 2 * width]
        out[part] = tree_sum(terms[0])
    if squared_distance:
        np.negative(out, out=out)


def _power_of_two(part: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return, for each row, the power of two that brings its largest component near 1."""
    _, exponent = np.frexp(np.abs(part).max(axis=1))
    return np.asarray(np.ldexp(1.0, np.clip(-exponent, -1022, 1022)))


def _chunks(n: int, dim: int, at_once: int = _ELEMENTS_AT_ONCE) -> list[slice]:
    step = max(1, at_once // dim)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
