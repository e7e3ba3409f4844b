"""Picture lists: a query, what was ranked first for it, what was ignored, what it missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import counted
from reid_vpr_eval.report.images import Images
from reid_vpr_eval.report.thumbnails import Thumbnail, thumbnail
from reid_vpr_eval.result import Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CHOICES", "Choice", "Strip", "Strips", "Tile", "badness", "choose_queries",
           "is_wrong", "picture_lists"]  # fmt: skip

Role = Literal["query", "right", "wrong", "ignored", "missed"]
Choice = Literal["worst", "best", "mistakes", "random"]
Floats = npt.NDArray[np.float64]
#: The ways to choose queries, in the order of a page.
CHOICES: tuple[Choice, ...] = ("worst", "mistakes", "random", "best")
#: Ignored items that one strip shows; the rest is counted.
_IGNORED_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Tile:
    """One picture of a strip.

    `rank` and `score` are empty for the query; `rank` is empty for what is ignored;
    `picture` is None where there is no image.
    """

    role: Role
    item_id: str
    rank: str = ""
    score: str = ""
    picture: Thumbnail | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """A query with the top of its ranking, and the nearest positive below it, if any.

    Ignored items stand among the ranked ones, where they would stand if they counted;
    `n_hidden` more of them are not shown.
    """

    query: Tile
    ranked: tuple[Tile, ...]
    missed: Tile | None
    caption: str
    n_hidden: int = 0


def choose_queries(
    result: Result, which: Choice, n: int = 5, *, seed: int = 0, only_wrong: bool = False
) -> list[int]:
    """Return the rows of the queries worth looking at, the most telling first.

    Parameters
    ----------
    result : Result
        What was found.
    which : {"worst", "best", "mistakes", "random"}
        By average precision (for places by the rank of the first positive); those whose
        first item is wrong with the best score; or any, drawn with the seed.
    n : int
        At most so many.
    seed : int
        Of the random choice: the same seed chooses the same queries.
    only_wrong : bool
        Leave out queries whose first item is right.
    """
    table = result.per_query
    if not len(table):
        return []
    usable = ~np.isnan(badness(result))
    if only_wrong:
        usable &= is_wrong(result)
    if which == "random":
        rows = np.flatnonzero(usable)
        return [int(row) for row in np.random.default_rng(seed).permutation(rows)[:n]]
    if which == "mistakes":
        score = _numbers(table["top1_score"])
        key = -score if _higher_is_better(result) else score
        usable &= is_wrong(result) & _told_apart(score)
    else:
        key = -badness(result) if which == "worst" else badness(result)
    second = -_numbers(table["n_positive"])  # of equals those with more to find
    if which != "best":
        usable &= second < 0  # what has no positive cannot be found
    order = np.lexsort((second, key))
    return [int(row) for row in order if usable[row]][:n]


def is_wrong(result: Result) -> npt.NDArray[np.bool_]:
    """Return which queries have a first item that is not right."""
    return np.array([str(value) != "True" for value in result.per_query["top1_correct"]], bool)


def badness(result: Result) -> Floats:
    """Return by what queries are sorted, larger is worse; NaN for those not evaluated."""
    table = result.per_query
    precision, rank = _numbers(table["ap"]), _numbers(table["first_rank"])
    if result.protocol.relevance.kind == "within" or np.isnan(precision).all():
        return rank
    return -precision


def picture_lists(
    result: Result,
    images: Images,
    *,
    n: int = 5,
    top_k: int = 10,
    choices: Sequence[Choice] = CHOICES,
    seed: int = 0,
    only_wrong: bool = False,
    cache: Path | None = None,
) -> dict[Choice, list[Strip]]:
    """Return strips for several choices of queries; a choice without queries is left out.

    Parameters
    ----------
    result : Result
        With the top-k lists, that is evaluated with ``top_k``; without them nothing is
        returned.
    images : Images
        Where the pictures come from. Missing and broken ones leave tiles without picture.
    n : int
        Queries of each choice.
    top_k : int
        Items of each query.
    choices, seed, only_wrong
        See :func:`choose_queries`.
    cache : Path, optional
        A folder that keeps thumbnails.
    """
    if result.rankings is None:
        return {}
    rows = {
        which: choose_queries(result, which, n, seed=seed, only_wrong=only_wrong)
        for which in choices
    }
    maker = Strips(result, images, [row for some in rows.values() for row in some], top_k, cache)
    return {which: [maker.strip(row) for row in some] for which, some in rows.items() if some}


class Strips:
    """Makes the strips of some queries; every picture is decoded once.

    Parameters
    ----------
    result : Result
        With top-k lists.
    images : Images or None
        Where the pictures come from; None leaves all tiles without one.
    rows : sequence of int
        The queries that may be asked for.
    top_k : int
        Items of each query.
    cache : Path, optional
        A folder that keeps thumbnails.
    """

    def __init__(
        self,
        result: Result,
        images: Images | None,
        rows: Sequence[int],
        top_k: int = 10,
        cache: Path | None = None,
    ) -> None:
        self._result, self._images, self._cache = result, images, cache
        self._pictures: dict[tuple[str, str], Thumbnail | None] = {}
        self.scored = bool(_told_apart(_numbers(result.per_query["top1_score"])).any())
        names = result.per_query["query_id"].iloc[sorted(set(rows))]
        self._top_k = top_k
        self._ranked = _by_query(result.rankings, names)
        self._beside = _by_query(result.beside, names)

    @property
    def n_pictures(self) -> tuple[int, int]:
        """How many pictures were asked for, and how many of them are there."""
        return len(self._pictures), sum(one is not None for one in self._pictures.values())

    def strip(self, row: int) -> Strip:
        """Make the strip of one query."""
        table = self._result.per_query
        name = str(table["query_id"].iloc[row])
        everything = self._ranked.get(name, [])
        listed = [one for one in everything if one["rank"] <= self._top_k]
        aside = [one for one in self._beside.get(name, []) if one["role"] == "ignored"]
        if listed:
            aside = [one for one in aside if one["rank"] <= listed[-1]["rank"]]
        tiles: list[tuple[int, int, Tile]] = [
            (one["rank"], 1, self._tile("right" if _is_positive(one) else "wrong", one))
            for one in listed
        ]
        tiles += [(one["rank"], 0, self._tile("ignored", one)) for one in aside[:_IGNORED_SHOWN]]
        ranked = tuple(tile for *_, tile in sorted(tiles, key=lambda tile: tile[:2]))
        query = Tile("query", name, picture=self._picture("query", name))
        return Strip(
            query, ranked, self._missed(row, name, everything), _caption(self._result, row),
            max(len(aside) - _IGNORED_SHOWN, 0),
        )  # fmt: skip

    def _tile(self, role: Role, entry: dict[str, Any]) -> Tile:
        item, score = str(entry["item_id"]), float(entry["score"])
        known = self.scored and not np.isnan(score)
        return Tile(
            role, item, "" if role == "ignored" else f"{entry['rank']}",
            f"{score:#.3g}".rstrip(".") if known else "", self._picture("gallery", item),
        )  # fmt: skip

    def _picture(self, side: Literal["query", "gallery"], name: str) -> Thumbnail | None:
        if self._images is None:
            return None
        load = self._images.query if side == "query" else self._images.gallery
        if (side, name) not in self._pictures:
            self._pictures[side, name] = thumbnail(load, name, self._cache)
        return self._pictures[side, name]

    def _missed(self, row: int, name: str, listed: list[dict[str, Any]]) -> Tile | None:
        """Return the best positive that is not among the items that are shown."""
        below = [one for one in listed if _is_positive(one) and one["rank"] > self._top_k]
        below += [one for one in self._beside.get(name, []) if one["role"] == "missed"]
        if below:
            return self._tile("missed", below[0])
        shown = {str(one["item_id"]) for one in listed}
        table = self._result.per_query
        item, rank = table["best_positive_id"].iloc[row], table["first_rank"].iloc[row]
        if not (_known(item) and _known(rank)) or str(item) in shown:
            return None
        if any(_is_positive(one) for one in listed):
            return None
        return Tile(
            "missed", str(item), f"{float(rank):.10g}", picture=self._picture("gallery", str(item))
        )


def _is_positive(entry: dict[str, Any]) -> bool:
    return str(entry["positive"]) == "True"


def _by_query(
    table: pd.DataFrame | None, names: pd.Series[Any]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of some queries, in the order of ranks."""
    found: dict[str, list[dict[str, Any]]] = {}
    if table is None or not len(table):
        return found
    kept = table[table["query_id"].isin(names)]
    for one in kept.to_dict("records"):
        found.setdefault(str(one["query_id"]), []).append({str(k): v for k, v in one.items()})
    for entries in found.values():
        entries.sort(key=lambda one: one["rank"])
    return found


def _caption(result: Result, row: int) -> str:
    """Say in words how a query went."""
    table = result.per_query
    n, rank = int(table["n_positive"].iloc[row]), table["first_rank"].iloc[row]
    parts = [counted(n, "positive", form=",")]
    if n and _known(rank):
        parts.append(f"the first at rank {float(rank):.10g}")
    if result.protocol.relevance.kind != "within" and _known(table["ap"].iloc[row]):
        parts.append(f"AP {100 * float(table['ap'].iloc[row]):.1f}")
    if "top1_error_m" in table and _known(table["top1_error_m"].iloc[row]):
        parts.append(f"the first item {float(table['top1_error_m'].iloc[row]):,.1f} m away")
    return ", ".join(parts)


def _higher_is_better(result: Result) -> bool:
    if result.ranking is not None:
        return result.ranking.higher_is_better
    if result.inputs.get("scores") == "features":
        return result.inputs.get("metric") in ("cosine", "dot")
    return result.inputs.get("scores") != "a matrix of distances"


def _told_apart(scores: Floats) -> npt.NDArray[np.bool_]:
    """Return which scores say anything: ranked lists without scores give all the same."""
    known = ~np.isnan(scores)
    return known & (len(np.unique(scores[known])) > 1)


def _numbers(column: Any) -> Floats:
    return np.array([float(v) if _known(v) else np.nan for v in column], dtype=np.float64)


def _known(value: Any) -> bool:
    return value is not None and value == value and value != ""
