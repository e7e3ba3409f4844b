"""Lengths of vectors, and the canonical scores of pairs of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.kernels.loops.jit import compiled

__all__ = ["distances", "lengths", "products", "unit"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

_LAST = 16  # terms of a sum that are added in one expression


@compiled
def _tree(terms: npt.NDArray[np.float64], width: int) -> float:  # pragma: no cover
    while width > _LAST:
        width //= 2
        lower, upper = terms[:width], terms[width : 2 * width]
        for i in range(width):
            lower[i] += upper[i]
    if width == _LAST:  # the last levels at once, in the same order
        t = terms
        even = ((t[0] + t[8]) + (t[4] + t[12])) + ((t[2] + t[10]) + (t[6] + t[14]))
        odd = ((t[1] + t[9]) + (t[5] + t[13])) + ((t[3] + t[11]) + (t[7] + t[15]))
        return even + odd  # type: ignore[no-any-return]
    while width > 1:
        width //= 2
        for i in range(width):
            terms[i] += terms[i + width]
    return terms[0]  # type: ignore[no-any-return]


@compiled
def _half(dim: int) -> int:  # pragma: no cover
    half = 1
    while 2 * half < dim:
        half *= 2
    return half


@compiled
def _length(vector: Array, half: int, terms: Array) -> float:  # pragma: no cover
    rest = len(vector) - half
    lower, upper = vector[:half], vector[half:]
    for i in range(rest):
        a, b = np.float64(lower[i]), np.float64(upper[i])
        terms[i] = a * a + b * b
    for i in range(max(rest, 0), len(lower)):
        a = np.float64(lower[i])
        terms[i] = a * a
    return np.sqrt(_tree(terms, half))  # type: ignore[no-any-return]


@compiled
def lengths(vectors: Array, out: Array) -> None:  # pragma: no cover
    """Write the canonical length of each vector."""
    half = _half(vectors.shape[1])
    terms = np.empty(half)
    for row in range(len(vectors)):
        out[row] = _length(vectors[row], half, terms)


@compiled
def unit(vectors: Array, rows: Ints, out: Array) -> None:  # pragma: no cover
    """Write these rows of some vectors, divided by their lengths."""
    half = _half(vectors.shape[1])
    terms = np.empty(half)
    for k in range(len(rows)):
        given, made = vectors[rows[k]], out[k]
        length = _length(given, half, terms)
        for i in range(len(given)):
            made[i] = np.float32(np.float64(given[i]) / length)


@compiled
def products(
    ours: Array, theirs: Array, row: Ints, column: Ints, out: Array
) -> None:  # pragma: no cover
    """Write the canonical dot product of each pair."""
    half = _half(ours.shape[1])
    rest = ours.shape[1] - half
    terms = np.empty(half)
    for k in range(len(row)):
        x, y = ours[row[k]], theirs[column[k]]
        lower, others, upper, rests = x[:half], y[:half], x[half:], y[half:]
        for i in range(rest):
            first = np.float64(lower[i]) * np.float64(others[i])
            terms[i] = first + np.float64(upper[i]) * np.float64(rests[i])
        for i in range(max(rest, 0), len(lower)):
            terms[i] = np.float64(lower[i]) * np.float64(others[i])
        out[k] = _tree(terms, half)


@compiled
def distances(
    ours: Array, theirs: Array, row: Ints, column: Ints, out: Array
) -> None:  # pragma: no cover
    """Write the negated canonical squared distance of each pair."""
    half = _half(ours.shape[1])
    rest = ours.shape[1] - half
    terms = np.empty(half)
    for k in range(len(row)):
        x, y = ours[row[k]], theirs[column[k]]
        lower, others, upper, rests = x[:half], y[:half], x[half:], y[half:]
        for i in range(rest):
            a = np.float64(lower[i]) - np.float64(others[i])
            b = np.float64(upper[i]) - np.float64(rests[i])
            terms[i] = a * a + b * b
        for i in range(max(rest, 0), len(lower)):
            a = np.float64(lower[i]) - np.float64(others[i])
            terms[i] = a * a
        out[k] = -_tree(terms, half)
