"""Picture lists: a query, what was ranked first for it, and the positive it missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.formats import Side, open_image
from reid_vpr_eval.relevance.pairs import IGNORED, POSITIVE
from reid_vpr_eval.report.thumbnails import Thumbnail, thumbnail
from reid_vpr_eval.result import Result

__all__ = ["Images", "Strip", "Tile", "badness", "choose_queries", "picture_lists"]

Role = Literal["query", "right", "wrong", "missed"]
Choice = Literal["worst", "best", "mistakes"]
Floats = npt.NDArray[np.float64]
#: Rank, item, score and whether it is positive.
_Entry: TypeAlias = tuple[int, str, float, bool]


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Where the images of both sides come from.

    Parameters
    ----------
    query, gallery : callable
        Gives the bytes of the file of a row, as evaluated.
    query_ids, gallery_ids : array, optional
        The ids of the rows; without them an item's name is its row.
    """

    query: Callable[[int], bytes]
    gallery: Callable[[int], bytes]
    query_ids: npt.NDArray[Any] | None = None
    gallery_ids: npt.NDArray[Any] | None = None

    @classmethod
    def of_sides(cls, query: Side, gallery: Side) -> Images:
        """Take the images of two sides as they were read for the evaluation."""
        return cls(
            query=partial(open_image, query),
            gallery=partial(open_image, gallery),
            query_ids=query.samples.names,
            gallery_ids=gallery.samples.names,
        )


@dataclass(frozen=True, slots=True)
class Tile:
    """One picture of a strip.

    `rank` and `score` are empty for the query; `picture` is None where there is no image.
    """

    role: Role
    item_id: str
    rank: str = ""
    score: str = ""
    picture: Thumbnail | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """A query with the top of its ranking, and the nearest positive below it, if any."""

    query: Tile
    ranked: tuple[Tile, ...]
    missed: Tile | None
    caption: str


def choose_queries(result: Result, which: Choice, n: int = 5) -> list[int]:
    """Return the rows of the queries worth looking at, the most telling first.

    Parameters
    ----------
    result : Result
        What was found.
    which : {"worst", "best", "mistakes"}
        By average precision (for places by the rank of the first positive), or those
        whose first item is wrong with the best score.
    n : int
        At most so many.
    """
    table = result.per_query
    if which == "mistakes":
        wrong = [str(value) != "True" for value in table["top1_correct"]]
        score = _numbers(table["top1_score"])
        key = -score if _higher_is_better(result) else score
        usable = np.array(wrong, bool) & ~np.isnan(badness(result)) & _told_apart(score)
    else:
        key = -badness(result) if which == "worst" else badness(result)
        usable = ~np.isnan(key)
    second = -_numbers(table["n_positive"])  # of equals those with more to find
    if which != "best":
        usable &= second < 0  # what has no positive cannot be found
    order = np.lexsort((second, key))
    return [int(row) for row in order if usable[row]][:n]


def badness(result: Result) -> Floats:
    """Return by what queries are sorted, larger is worse; NaN for those not evaluated."""
    table = result.per_query
    precision, rank = _numbers(table["ap"]), _numbers(table["first_rank"])
    if result.protocol.relevance.kind == "within" or np.isnan(precision).all():
        return rank
    return -precision


def picture_lists(
    result: Result, images: Images, *, n: int = 5, top_k: int = 10
) -> dict[Choice, list[Strip]]:
    """Return strips for the worst and best queries and the most confident mistakes.

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
    """
    if result.rankings is None:
        return {}
    maker = _Maker(result, images, top_k)
    choices: tuple[Choice, ...] = ("worst", "mistakes", "best")
    lists = {which: [maker.strip(row) for row in choose_queries(result, which, n)]
             for which in choices}  # fmt: skip
    return {which: strips for which, strips in lists.items() if strips}


class _Maker:
    """Makes strips; decodes every picture once."""

    def __init__(self, result: Result, images: Images, top_k: int) -> None:
        self.result, self.images, self.top_k = result, images, top_k
        self.rows = {"query": _rows(images.query_ids), "gallery": _rows(images.gallery_ids)}
        self.pictures: dict[tuple[str, str], Thumbnail | None] = {}
        lists = result.rankings
        assert lists is not None  # noqa: S101 (asked by the caller)
        self.scored = bool(_told_apart(_numbers(result.per_query["top1_score"])).any())
        if result.ranking is not None:
            counted = result.ranking.counted
            self.roles = result.ranking.effective_role
            self.before = counted("above") + counted("tied_before")
        self.lists: dict[str, list[_Entry]] = {}
        columns = [lists[name].tolist() for name in ("query_id", "rank", "item_id", "score",
                                                     "positive")]  # fmt: skip
        for query, rank, item, score, positive in zip(*columns, strict=True):
            if rank <= top_k:
                entry = (int(rank), str(item), float(score), str(positive) == "True")
                self.lists.setdefault(str(query), []).append(entry)

    def strip(self, row: int) -> Strip:
        """Make the strip of one query."""
        table = self.result.per_query
        name = str(table["query_id"].iloc[row])
        listed = sorted(self.lists.get(name, []))
        tiles = tuple(
            Tile("right" if positive else "wrong", item, str(rank),
                 f"{score:#.3g}".rstrip(".") if self.scored and not np.isnan(score) else "",
                 self._picture("gallery", item))
            for rank, item, score, positive in listed
        )  # fmt: skip
        query = Tile("query", name, picture=self._picture("query", name))
        return Strip(query, tiles, self._missed(row, listed), _caption(self.result, row))

    def _picture(self, side: Literal["query", "gallery"], name: str) -> Thumbnail | None:
        known = self.rows[side]
        row = known.get(name) if known is not None else _row_number(name)
        if row is None:
            return None
        load = self.images.query if side == "query" else self.images.gallery
        if (side, name) not in self.pictures:
            self.pictures[side, name] = thumbnail(load, row)
        return self.pictures[side, name]

    def _missed(self, row: int, listed: list[_Entry]) -> Tile | None:
        """Return the best positive that is not among the listed items."""
        last = max((rank for rank, *_ in listed), default=0)
        found = self._next_positive(row, last)
        if found is None:
            table = self.result.per_query
            item, rank = table["best_positive_id"].iloc[row], table["first_rank"].iloc[row]
            hit = any(positive for *_, positive in listed)
            if hit or not _known(item) or not _known(rank):
                return None
            found = (f"{float(rank):.10g}", str(item))
        return Tile("missed", found[1], found[0], picture=self._picture("gallery", found[1]))

    def _next_positive(self, row: int, last: int) -> tuple[str, str] | None:
        """Look in the counts, if they are there and their rows can be named."""
        ranking, ids = self.result.ranking, self.images.gallery_ids
        if ranking is None or (ids is not None and len(ids) != ranking.n_gallery):
            return None
        pairs = np.arange(ranking.offsets[row], ranking.offsets[row + 1])
        pairs = pairs[np.argsort(ranking.order[pairs])]
        role = self.roles[pairs]
        stays = (role != IGNORED) & ranking.found[pairs]
        ranks = self.before[pairs] + np.cumsum(stays) - stays + 1
        below = np.flatnonzero(stays & (role == POSITIVE) & (ranks > last))
        if not len(below):
            return None
        first = below[np.argmin(ranks[below])]
        item = int(ranking.item[pairs[first]])
        return str(ranks[first]), str(item if ids is None else ids[item])


def _caption(result: Result, row: int) -> str:
    """Say in words how a query went."""
    table = result.per_query
    n, rank = int(table["n_positive"].iloc[row]), table["first_rank"].iloc[row]
    parts = [f"{n:,} positive{'' if n == 1 else 's'}"]
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


def _rows(ids: npt.NDArray[Any] | None) -> Mapping[str, int] | None:
    return None if ids is None else {str(name): row for row, name in enumerate(ids.tolist())}


def _row_number(name: str) -> int | None:
    return int(name) if name.isdecimal() else None


def _numbers(column: Any) -> Floats:
    return np.array([float(v) if _known(v) else np.nan for v in column], dtype=np.float64)


def _known(value: Any) -> bool:
    return value is not None and value == value and value != ""
