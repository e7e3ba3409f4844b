"""The bare product: what any exact evaluation must do at least."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import local

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.worlds import Floats

__all__ = ["bare_product", "cuts"]

_ROWS, _COLUMNS = 1024, 4096


def cuts(size: int, largest: int, multiple: int = 1) -> Iterator[slice]:
    """Cut a size into even pieces of `largest` at most, as many as a multiple of a number.

    >>> [piece.stop - piece.start for piece in cuts(10, 4)]
    [3, 3, 4]
    >>> len(list(cuts(10, 4, multiple=2)))
    4
    """
    pieces = -(-size // largest)
    pieces += -pieces % multiple
    edges = [number * size // pieces for number in range(pieces + 1)]
    return (slice(a, b) for a, b in pairwise(edges))


def bare_product(
    query: Floats, gallery: Floats, workers: int, *, each: Callable[[Floats], object] | None = None
) -> None:
    """Multiply all queries with all gallery rows in float32, tile by tile, and keep nothing.

    This is the fastest form known on a CPU: `workers` threads that take tiles of 1024 x 4096
    in turn, with one BLAS thread each, into memory that each thread touched before. The last
    factor stays in the cache while the rows run. `each` is shown every tile (for tests).
    """
    mine = local()
    tiles = [(rows, columns) for columns in cuts(len(gallery), _COLUMNS, workers)
             for rows in cuts(len(query), _ROWS)]  # fmt: skip

    def start() -> None:
        mine.memory = np.zeros(_ROWS * _COLUMNS, np.float32)

    def multiply(tile: tuple[slice, slice]) -> None:
        ours, theirs = query[tile[0]], gallery[tile[1]]
        out = mine.memory[: len(ours) * len(theirs)].reshape(len(ours), len(theirs))
        np.matmul(ours, theirs.T, out=out)
        if each is not None:
            each(out)

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(workers, initializer=start) as pool:
        for _ in pool.map(multiply, tiles):
            pass
