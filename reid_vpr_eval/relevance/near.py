"""What is near: candidate pairs from a tree, and pairs that pass one or several thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from reid_vpr_eval.errors import RelevanceError, counted
from reid_vpr_eval.relevance.pairs import NEGATIVE, POSITIVE, Found

__all__ = ["MOST_THRESHOLDS", "Near", "candidates"]

_QUERIES_AT_ONCE = 512
_SLACK = 1e-9
#: How many thresholds fit into the bits of a pair.
MOST_THRESHOLDS = 32


class Near:
    """Collects the pairs that pass at least one threshold; the first one makes positives.

    >>> near = Near()
    >>> near.add(np.array([0, 0, 0]), np.array([3, 4, 5]),
    ...          [np.array([True, False, False]), np.array([True, True, False])])
    >>> near.found[0][1], near.found[0][2], near.passes[0]
    (array([3, 4]), array([1, 0]), array([3, 2], dtype=uint32))
    """

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.passes: list[npt.NDArray[np.uint32]] = []

    def add(
        self,
        query: npt.NDArray[np.int64],
        item: npt.NDArray[np.int64],
        within: Sequence[npt.NDArray[np.bool_]],
    ) -> None:
        """Add pairs with what each threshold says of them."""
        if len(within) > MOST_THRESHOLDS:
            raise RelevanceError(
                f"{counted(len(within), 'threshold')} at once: no more than {MOST_THRESHOLDS} can "
                "be judged"
            )
        bits = np.zeros(len(query), np.uint32)
        for place, right in enumerate(within):
            bits |= right.astype(np.uint32) << np.uint32(place)
        judged = bits > 0
        positive = within[0][judged]
        role = np.where(positive, POSITIVE, NEGATIVE)
        self.passes.append(bits[judged])
        self.found.append(
            (query[judged], item[judged], role, positive.astype(float), np.zeros(len(role), bool))
        )


def candidates(
    points: npt.NDArray[np.float64], tree: KDTree, reach: float, rounding: float = _SLACK
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yield all pairs not further apart than `reach`, and a few more, in blocks of queries."""
    for start in range(0, len(points), _QUERIES_AT_ONCE):
        block = KDTree(points[start : start + _QUERIES_AT_ONCE])
        near = block.sparse_distance_matrix(
            tree, reach * (1 + _SLACK) + rounding, output_type="ndarray"
        )
        yield near["i"].astype(np.int64) + start, near["j"].astype(np.int64)
