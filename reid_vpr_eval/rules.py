"""From the rule of a protocol to the relevance function that applies it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import AlignmentError, ProtocolError
from reid_vpr_eval.formats.vectors import read_neighbours
from reid_vpr_eval.protocol import LabelRule, Protocol, WithinRule
from reid_vpr_eval.protocol.schema import FramesRule, ListedRule, NearestRule, PoseRule
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.relevance import (
    Relevance,
    frame_window,
    listed,
    nearest_neighbours,
    pose,
    same_label,
    within_metres,
)
from reid_vpr_eval.relevance.ignores import Ignores
from reid_vpr_eval.relevance.neighbours import nearest_of
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings

__all__ = ["judge", "neighbours_of"]

#: How many neighbours beyond k are asked for at first, to see where a tie ends.
_BEYOND = 16


def judge(
    protocol: Protocol, query: Samples, gallery: Samples, *, truth: Any = None
) -> Relevance:
    """Apply the protocol's rule to two prepared sides.

    Parameters
    ----------
    protocol : Protocol
        Whose rule is applied.
    query, gallery : Samples
        Both sides, prepared.
    truth : optional
        What a protocol leaves to its user, or what is to be used instead of its file. For a
        rule of kind ``listed`` anything that :func:`relevance.listed` takes; for ``nearest``
        neighbours (an array, a pair of arrays, or a file), or :class:`Embeddings` in whose
        space the neighbours are computed. A path is relative to the working folder.

    Raises
    ------
    ProtocolError
        If lists or neighbours are needed and absent, or given and not needed.
    RelevanceError, AlignmentError, FormatError
        If the rule does not fit the samples.
    """
    rule = protocol.relevance
    if isinstance(rule, ListedRule | NearestRule):
        return _LEFT_TO_USERS[type(rule)](rule, protocol, query, gallery, truth)
    if truth is not None:
        raise ProtocolError(
            f"a rule of kind {rule.kind!r} judges by columns of the samples: lists or neighbours "
            "cannot be given to it"
        )
    return _RULES[type(rule)](query, gallery, **_keywords(rule, protocol))


def neighbours_of(
    query: Samples, gallery: Samples, features: Embeddings, rule: NearestRule
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the exact nearest neighbours in a space, so many that no tie is cut at the k-th."""
    if (features.n_query, features.n_gallery) != (query.n, gallery.n):
        raise AlignmentError(
            f"the features of the neighbours have {features.n_query} and {features.n_gallery} "
            f"rows, the samples {query.n} and {gallery.n}: row i must belong to sample i"
        )
    nothing = Ignores.of(query, gallery, self=rule.self).settle([], no_positive="skip", note="")
    n_near = min(gallery.n, rule.k + _BEYOND)
    while True:
        ranking = rank(features, nothing, top_k=n_near)
        assert ranking.top_item is not None  # noqa: S101 (narrows the type)
        assert ranking.top_score is not None  # noqa: S101
        found = ranking.top_item.astype(np.int64), -ranking.top_score
        near = nearest_of(query, gallery, found, k=rule.k, self=rule.self)
        if not len(near.open):
            return found
        n_near = min(gallery.n, 4 * n_near)


def _keywords(rule: Any, protocol: Protocol) -> dict[str, Any]:
    """Return the rule as keywords: keys of the schema are parameters of its function."""
    keywords = {name: getattr(rule, name) for name in type(rule).model_fields}
    for name in ("ignore", "wide_ignore"):
        keywords[name] = [
            {key: value for key, value in entry.model_dump().items() if value}
            for entry in keywords[name]
        ]
    del keywords["kind"]
    return {"no_positive": protocol.no_positive, **keywords}


def _judge_listed(
    rule: ListedRule, protocol: Protocol, query: Samples, gallery: Samples, truth: Any
) -> Relevance:
    lists = rule.file if truth is None else truth
    if lists is None:
        raise ProtocolError(
            f"{protocol.name} judges by lists that it does not bring along: name their file as "
            "relevance.file in a protocol of your own, or supply them (truth=, or --truth FILE)"
        )
    keywords = _keywords(rule, protocol)
    del keywords["file"]
    return listed(query, gallery, lists, **keywords)


def _judge_nearest(
    rule: NearestRule, protocol: Protocol, query: Samples, gallery: Samples, truth: Any
) -> Relevance:
    neighbours = rule.file if truth is None else truth
    if neighbours is None:
        raise ProtocolError(
            f"{protocol.name} judges by nearest neighbours that it does not bring along: name "
            "their file as relevance.file in a protocol of your own, or supply the neighbours "
            "or the features of the space that they are sought in"
        )
    if isinstance(neighbours, Embeddings):
        space = Embeddings(neighbours.query, neighbours.gallery, metric=rule.metric)
        neighbours = neighbours_of(query, gallery, space, rule)
    elif isinstance(neighbours, str | os.PathLike):
        neighbours = tuple(read_neighbours(neighbours))
    keywords = _keywords(rule, protocol)
    del keywords["file"], keywords["metric"]
    return nearest_neighbours(query, gallery, neighbours, **keywords)


_RULES: Mapping[type, Callable[..., Relevance]] = {
    LabelRule: same_label,
    WithinRule: within_metres,
    PoseRule: pose,
    FramesRule: frame_window,
}
_LEFT_TO_USERS: Mapping[type, Callable[[Any, Protocol, Samples, Samples, Any], Relevance]] = {
    ListedRule: _judge_listed,
    NearestRule: _judge_nearest,
}
