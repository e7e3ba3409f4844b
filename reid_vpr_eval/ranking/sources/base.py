"""What the engine asks of scores, and where each kind of scores is answered.

A source gives two things: the canonical score of single pairs, and whole tiles of
approximate scores with a proven bound on how far each may be from the canonical one. In
both, larger is better. A new kind of scores is one class and one line of SOURCES.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.ranking.kernels import Kernels, kernels_for
from reid_vpr_eval.scores import Scores

__all__ = ["LAST", "Care", "Rows", "Source", "TileScores", "source_of"]

Array: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = slice | Ints
Care: TypeAlias = Literal[0, 1, 2]

#: The score of a vector that cannot be scored: below all others, and finite.
LAST = np.finfo(np.float64).min

#: The class that serves each kind of scores, by the name of the kind; looked up by `kind`.
SOURCES = {
    "features": "reid_vpr_eval.ranking.sources.features:FeatureSource",
    "bits": "reid_vpr_eval.ranking.sources.bits:BitSource",
    "distances": "reid_vpr_eval.ranking.sources.distances:DistanceSource",
    "matrix": "reid_vpr_eval.ranking.sources.matrix:MatrixSource",
}


class TileScores(NamedTuple):
    """A tile of scores.

    Attributes
    ----------
    scores : float32 or float64 array (rows, columns), writable
    row_margin, column_margin : float64 arrays (rows,) and (columns,)
        How far a score of a row, or of a column, may be from the canonical one.
    """

    scores: Array
    row_margin: Floats
    column_margin: Floats


class Source(Protocol):
    """What the counting loop needs of scores.

    Attributes
    ----------
    dim : int
        Numbers that are read for one item.
    symmetric : bool
        Both sides are the same items and the score of (i, j) is that of (j, i), to the bit.
    exact : bool
        Tiles hold canonical scores.
    itemsize : int
        Bytes of each of these numbers.
    streams : bool
        Gallery items are read from files, so that it pays to read ahead.
    """

    dim: int
    itemsize: int
    streams: bool
    symmetric: bool
    exact: bool
    kernels: Kernels

    def pairs(self, query: Ints, item: Ints, workers: int = 1) -> Floats:
        """Return the canonical score of each pair of positions."""
        ...

    def queries(self, rows: slice) -> Any:
        """Prepare some queries: the rows of tiles."""
        ...

    def fetch(self, items: Rows) -> Any:
        """Read some gallery items, for :meth:`columns`."""
        ...

    def columns(self, items: Rows, fetched: Any = None, out: Array | None = None) -> Any:
        """Prepare some gallery items: the columns of tiles; `out` (1-D) may be used for it."""
        ...

    def tile(
        self, ours: Any, theirs: Any, out: Array | None = None, *, care: Care = 0
    ) -> TileScores:
        """Return the scores of prepared queries and items.

        `out` (1-D) is memory that may be used for it. With more `care` the margins are smaller:
        1 costs little more, 2 gives the smallest ones that there are.
        """
        ...

    def exactly(self, ours: Any, theirs: Any, row: Ints, column: Ints) -> Floats:
        """Return the canonical scores of some places of a tile."""
        ...


def source_of(scores: Scores, kernels: Kernels | None = None) -> Source:
    """Return the source that serves these scores."""
    module, name = SOURCES[scores.kind].split(":")
    made: Source = getattr(import_module(module), name)(scores, kernels or kernels_for(0))
    return made
