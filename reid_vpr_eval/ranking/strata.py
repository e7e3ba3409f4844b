"""Random strata: the gallery dealt into parts of equal size, each a random sample of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError

__all__ = ["PART", "named_strata", "random_strata"]

#: What ends the name of a random stratum: its number and the seed, before parts cut by others.
PART = re.compile(r"/(\d+)@(\d+)(?=/|$)")
_DIRECTIVE = re.compile(r"random:(\d+)(?::(\d+))?")


def random_strata(
    rows: int | npt.ArrayLike,
    n: int = 100,
    seed: int = 0,
    *,
    of: Collection[object] | None = None,
) -> npt.NDArray[np.str_]:
    """Deal gallery rows into random strata, for ``rank(strata=)``.

    Counted apart, they tell how much a mean differs from draw to draw: any few of them
    together are a random sample of the gallery.

    Parameters
    ----------
    rows : int, or array (n_gallery,)
        How many rows there are, or a value for each; the rows of each value are dealt apart.
    n : int
        Parts of each value; their sizes differ by one at most.
    seed : int
        Written into the names.
    of : collection of values, optional
        Only rows of these values are dealt, the others keep their value as the name.

    Returns
    -------
    str array (n_gallery,)
        Such as "all/07@0": part 7 by the seed 0; for given values "value/07@0".

    Examples
    --------
    >>> random_strata(["base", "more", "more"], 2, of=["more"])
    array(['base', 'more/0@0', 'more/1@0'], dtype='<U8')
    """
    if n < 2 or seed < 0:
        raise NotCountedError(f"random:{n}:{seed}: 2 parts or more, and a seed of 0 or more")
    values = np.full(rows, "all") if isinstance(rows, int) else np.asarray(rows).astype(str)
    dealt = set(values.tolist()) if of is None else {str(value) for value in of}
    generator = np.random.default_rng(seed)
    width = len(str(n - 1))
    names = np.array([f"/{part:0{width}d}@{seed}" for part in range(n)])
    ends = np.full(len(values), "", names.dtype)
    for value in sorted(dealt):
        mine = np.flatnonzero(values == value)
        ends[generator.permutation(mine)] = names[np.arange(len(mine)) % n]
    return np.char.add(values, ends)


def named_strata(
    wanted: str, n_gallery: int, values: Callable[[str], npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    """Return the strata that a text asks for: "camera", "random:100:7" or "camera,random:100".

    `values` returns the values of a column by its name.
    """
    column, _, last = wanted.rpartition(",")
    found = _DIRECTIVE.fullmatch(last.strip())
    if found is None:
        return values(wanted)
    rows = values(column) if column else n_gallery
    return random_strata(rows, int(found[1]), int(found[2] or 0))
