"""Which of the two forms of the inner loops a job is worth."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError
from reid_vpr_eval.ranking.kernels import plain
from reid_vpr_eval.ranking.kernels.plain import Placed

__all__ = ["Kernels", "kernels_for"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

#: Multiplications below which loading compiled code would cost more than it saves.
_WORTH_LOADING = 2e10
_VARIABLE = "RVE_KERNELS"


class Kernels(Protocol):
    """The inner loops of the engine.

    Attributes
    ----------
    SHARE_FOR_DOUBLE : float
        The share of a tile in doubt above which a product in float64 costs less than
        canonical scores.
    SHARE_FOR_CARE : float
        The share of a tile in doubt, times the components of a vector, above which smaller
        margins cost less.
    """

    SHARE_FOR_DOUBLE: float
    SHARE_FOR_CARE: float

    def lengths(self, vectors: Array, /) -> npt.NDArray[np.float64]:
        """Return the canonical Euclidean length of each vector."""
        ...

    def unit(
        self, vectors: Array, out: Array | None = None, rows: Ints | None = None, /
    ) -> Array:
        """Return vectors, or these rows of them, divided by their lengths and rounded."""
        ...

    def pair_scores(
        self, ours: Array, theirs: Array, row: Ints, column: Ints, /, *, squared_distance: bool
    ) -> npt.NDArray[np.float64]:
        """Return the canonical score of ``ours[row]`` with ``theirs[column]``, one by one."""
        ...

    def at_least(
        self, scores: Array, least: Array, axis: Literal[0, 1] = 0, /
    ) -> tuple[Ints, Ints]:
        """Return rows and columns of the scores that reach the least one of their line."""
        ...

    def bisect(self, values: Array, start: Ints, end: Ints, wanted: Array, /) -> Ints:
        """Return, in each ascending segment, the first position with a value >= wanted."""
        ...

    def ranked(
        self, score: npt.NDArray[np.float64], tie: Ints, offsets: Ints, /
    ) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Sort the pairs of each query by falling score, and equal ones by rising `tie`."""
        ...

    def place(
        self, scores: Array, low: Array, high: Array, start: Ints, axis: Literal[0, 1] = 0,
        edges: Ints | None = None, /,
    ) -> Placed:  # fmt: skip
        """Place the scores of a tile among the thresholds of its lines."""
        ...


def kernels_for(work: float) -> Kernels:
    """Return the inner loops for a job of so many multiplications.

    Compiled ones if numba is installed (the extra ``fast``) and the job is large; the
    environment variable RVE_KERNELS (numpy, numba) decides otherwise. Both give the same bits.

    Raises
    ------
    NotCountedError
        If numba is asked for and not installed.
    """
    wanted = os.environ.get(_VARIABLE, "")
    if wanted not in ("", "numpy", "numba"):
        raise NotCountedError(f"{_VARIABLE} = {wanted!r}: one of numpy, numba is needed")
    installed = importlib.util.find_spec("numba") is not None
    if wanted == "numba" and not installed:
        raise NotCountedError(f"{_VARIABLE} = numba, but numba is not installed: "
                              "pip install 'reid_vpr_eval[fast]'")  # fmt: skip
    if wanted == "numba" or (wanted == "" and installed and work >= _WORTH_LOADING):
        return cast(Kernels, importlib.import_module("reid_vpr_eval.ranking.kernels.compiled"))
    return cast(Kernels, plain)
