"""Grading a ranking anew: the counts stay, the roles change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, NotCountedError
from reid_vpr_eval.ranking.histograms import FIELDS as HISTOGRAMS
from reid_vpr_eval.ranking.ranking import Ranking, roles_of
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.relevance.pairs import IGNORED

__all__ = ["regrade"]

#: The name of the stratum that holds the rows ignored for everybody, if they are counted.
IGNORED_STRATUM = "(ignored)"
_OF_KEPT_STRATA = (
    "largest_negatives", "top_item", "top_score", "top_tie", "row_group", "n_unjudged_groups",
    "group_above", "group_tied", "group_tied_before", "row_block", "n_unjudged_blocks",
    *HISTOGRAMS,
)  # fmt: skip


def regrade(ranking: Ranking, relevance: Relevance) -> Ranking:
    """Return `ranking` with the roles that `relevance` gives; see :meth:`Ranking.regrade`."""
    sizes = (relevance.n_query, relevance.n_gallery)
    if sizes != (ranking.n_query, ranking.n_gallery):
        raise AlignmentError(
            f"the other relevance is for {sizes[0]} queries and {sizes[1]} gallery rows, the "
            f"ranking for {ranking.n_query} and {ranking.n_gallery}"
        )
    if ranking.keep == "first":
        raise NotCountedError(
            "only the first positive of each query was counted: rank with keep='all' to regrade"
        )
    kept = stratum_mask(
        relevance, ranking.row_stratum, len(ranking.strata), _ignored_stratum(ranking)
    )
    if not np.array_equal(relevance.ignored_gallery, ranking.ignored_gallery):
        kept = _with_other_junk(ranking, relevance, kept)
    role, grade = roles_of(ranking, relevance)
    if ranking.row_group is not None and (
        (role == IGNORED) != (ranking.role == IGNORED)
    ).any():
        raise NotCountedError(
            "groups were counted at their best item that is not ignored, and the other relevance "
            "ignores other items: rank with it to count groups"
        )
    same_mask = np.array_equal(kept, ranking.kept)
    if not same_mask:  # these were counted over the strata kept when ranked
        gone: dict[str, Any] = dict.fromkeys(_OF_KEPT_STRATA)
        ranking = replace(ranking, **gone, group="", block="")
    return replace(
        ranking,
        role=role,
        grade=grade,
        kept=kept,
        no_positive=relevance.no_positive,
        note=relevance.note,
        ignored_gallery=relevance.ignored_gallery,
        best_item=ranking.best_item if same_mask else np.full(ranking.n_query, -2),
        best_score=ranking.best_score if same_mask else np.full(ranking.n_query, -np.inf),
    )


def stratum_mask(
    relevance: Relevance,
    row_stratum: npt.NDArray[np.int32],
    n_strata: int,
    ignored_stratum: int | None = None,
) -> npt.NDArray[np.bool_]:
    """Return which strata each query keeps (n_query, S), from its wide ignores.

    Raises
    ------
    NotCountedError
        If a stratum holds rows that a query keeps and rows that it drops.
    """
    mask = np.ones((relevance.n_query, n_strata), bool)
    if relevance.wide is not None and relevance.kept is not None:
        counts_here = ~relevance.ignored_gallery
        combos = np.unique(np.stack([row_stratum, relevance.wide])[:, counts_here], axis=1)
        for number in range(n_strata):
            values = combos[1][combos[0] == number]
            keeps = relevance.kept[:, values]
            if len(values) and (keeps.any(axis=1) != keeps.all(axis=1)).any():
                raise NotCountedError(
                    "a wide ignore drops part of a stratum: rank with this relevance in judge= "
                    "so that the strata are cut along it"
                )
            if len(values):
                mask[:, number] = keeps.all(axis=1)
    if ignored_stratum is not None:
        mask[:, ignored_stratum] = False
    return mask


def _ignored_stratum(ranking: Ranking) -> int | None:
    return (
        ranking.strata.index(IGNORED_STRATUM) if IGNORED_STRATUM in ranking.strata else None
    )


def _with_other_junk(
    ranking: Ranking, relevance: Relevance, kept: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Bring back rows that were ignored for everybody but counted apart."""
    place = _ignored_stratum(ranking)
    if place is not None and not relevance.ignored_gallery.any():
        kept = kept.copy()
        kept[:, place] = True
        return kept
    differs = int((relevance.ignored_gallery != ranking.ignored_gallery).sum())
    raise NotCountedError(
        f"the other relevance ignores other gallery rows for everybody ({differs} rows differ) "
        "and these were not counted apart: rank with count_ignored=True, or rank again"
    )
