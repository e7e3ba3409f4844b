"""The order of work: tiles that fit the memory, counted by several threads."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import ScoreError
from reid_vpr_eval.ranking.tiles import Tile, TileCounter

__all__ = ["bytes_of", "rows_at_once", "run_tiles", "tiles_of"]

_ROWS, _COLUMNS = 1024, 4096
_SMALLEST_TILE = 16
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def bytes_of(memory: str | int) -> int:
    """Read a size such as 512MiB."""
    if isinstance(memory, int):
        return memory
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?)?b?\s*", memory.lower())
    if not match:
        raise ScoreError(f"memory = {memory!r}: a size such as 512MiB or 2GB is needed")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def rows_at_once(memory: int) -> int:
    """Return how many queries a tile holds."""
    return int(np.clip(memory // (1 << 18), _SMALLEST_TILE, _ROWS))


def tiles_of(
    columns: npt.NDArray[np.int64], row_stratum: npt.NDArray[np.int32], dim: int, memory: int
) -> list[Tile]:
    """Cut the rows to be counted into tiles of one stratum each."""
    width = int(np.clip(memory // (32 * (dim + 2 * rows_at_once(memory))), _SMALLEST_TILE,
                        _COLUMNS))  # fmt: skip
    strata = row_stratum[columns]
    edges = np.flatnonzero(np.diff(strata)) + 1
    tiles = []
    bounds = [0, *edges.tolist(), len(columns)] if len(columns) else []
    for begin, end in pairwise(bounds):
        for start in range(begin, end, width):
            rows = columns[start : min(start + width, end)]
            tiles.append(Tile(start, rows, int(strata[start])))
    return tiles


def run_tiles(
    run: TileCounter,
    tiles: Sequence[Tile],
    rows: int,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Count all tiles, by several threads with one BLAS thread each."""
    done = 0
    n_workers = min(workers or os.cpu_count() or 1, len(tiles))

    def finished() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(tiles))

    if n_workers <= 1:
        for tile in tiles:
            run.count(tile, rows)
            finished()
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_workers) as pool:
        for _ in pool.map(lambda tile: run.count(tile, rows), tiles):
            finished()
