"""Which strata of a gallery make the base and the pool of a distractor study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import NotCountedError, name_some
from reid_vpr_eval.ranking import Ranking

__all__ = ["Chosen", "Strata", "read_strata", "rows_in"]

Mask: TypeAlias = npt.NDArray[np.bool_]
#: "positives" (of a base) or "negatives" (of a pool), or the names of strata.
Strata: TypeAlias = str | Sequence[str]


class Chosen(NamedTuple):
    """The strata of the base and of the pool.

    Attributes
    ----------
    base, pool : bool arrays (n_strata,)
        Which strata of the ranking belong to them.
    base_names, pool_names : tuple of str, or None
        None where each query has its own: its positives, its negatives.
    """

    base: Mask
    pool: Mask
    base_names: tuple[str, ...] | None
    pool_names: tuple[str, ...] | None


def read_strata(ranking: Ranking, base: Strata, pool: Strata) -> Chosen:
    """Return which strata make the base and the pool.

    Raises
    ------
    NotCountedError
        If a name is no stratum, a stratum is in both, or nothing is left for the pool.
    """
    base_names = None if base == "positives" else _named(ranking, base, "base")
    pool_names = None if pool == "negatives" else _named(ranking, pool, "pool")
    every = np.array(ranking.strata)
    base_mask = np.zeros(len(every), bool) if base_names is None else np.isin(every, base_names)
    pool_mask = ~base_mask if pool_names is None else np.isin(every, pool_names)
    both = every[base_mask & pool_mask]
    if len(both):
        raise NotCountedError(
            f"the strata {name_some(both)} are in the base and in the pool: an item is in the "
            "gallery already, or it is drawn"
        )
    if not pool_mask.any():
        raise NotCountedError("the base holds every stratum, so nothing is left for the pool")
    return Chosen(base_mask, pool_mask, base_names, pool_names)


def _named(ranking: Ranking, given: Strata, what: str) -> tuple[str, ...]:
    """Return the strata that are meant: exact names, or all parts ``name/...`` of a name."""
    names = [given] if isinstance(given, str) else [str(name) for name in given]
    if not names:
        raise NotCountedError(f"{what} names no stratum")
    found: list[str] = []
    for name in names:
        parts = [s for s in ranking.strata if s == name] or [
            s for s in ranking.strata if s.startswith(f"{name}/")
        ]
        if not parts:
            word = "positives" if what == "base" else "negatives"
            there = f"; there are {name_some(ranking.strata)}" if len(ranking.strata) > 1 else (
                ": the gallery was not counted by strata, so rank with strata= (--strata COLUMN)"
            )
            raise NotCountedError(
                f"{what} = {name!r}: neither {word!r} nor a stratum of this ranking{there}"
            )
        found += parts
    return tuple(dict.fromkeys(found))


def rows_in(ranking: Ranking, mask: Mask) -> int:
    """Return how many gallery rows of some strata are ranked."""
    return int((mask[ranking.row_stratum] & ~ranking.ignored_gallery).sum())
