"""What looks wrong in two sides, although nothing forbids it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from typing import Protocol as Shape

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import ReidVprEvalError, counted, name_some
from reid_vpr_eval.protocol import LabelRule, Protocol, WithinRule
from reid_vpr_eval.relevance import within_metres
from reid_vpr_eval.samples import Samples

__all__ = ["sanity"]

_LARGE_SHARE = 0.2
_JUNK = (-1, "-1")


class Judged(Shape):
    """What is asked of a relevance; one entry a query, but for the gallery's rows."""

    @property
    def n_positive(self) -> npt.NDArray[np.int64]: ...
    @property
    def n_ignored(self) -> npt.NDArray[np.int64]: ...
    @property
    def n_self(self) -> npt.NDArray[np.int64]: ...
    @property
    def n_gallery(self) -> int: ...
    @property
    def ignored_gallery(self) -> npt.NDArray[np.bool_]: ...
    @property
    def note(self) -> str: ...


def sanity(
    protocol: Protocol, relevance: Judged, query: Samples, gallery: Samples
) -> list[str]:
    """Return notes on what deserves a look, in plain words."""
    notes = [*_positives(protocol, relevance)]
    if isinstance(protocol.relevance, LabelRule):
        notes += _labels(protocol.relevance, relevance, query, gallery)
    if isinstance(protocol.relevance, WithinRule):
        notes += _coordinates(protocol.relevance, relevance, query, gallery)
    notes += _identities(protocol, query, gallery)
    return notes


def _positives(protocol: Protocol, relevance: Judged) -> Iterator[str]:
    n_positive = relevance.n_positive
    ranked = relevance.n_gallery - int(relevance.ignored_gallery.sum())
    if not n_positive.any():
        yield f"no query has a positive: {relevance.note}"
    elif (n_positive == 0).any():
        lone = np.flatnonzero(n_positive == 0)
        only_ignored = int((relevance.n_ignored[lone] > relevance.n_self[lone]).sum())
        why = f", {only_ignored} of them because all candidates are ignored" if only_ignored else ""
        yield (
            f"{counted(len(lone), 'query has', 'queries have')} no positive{why} (rows "
            f"{name_some(lone.tolist())}); the protocol says: {protocol.no_positive}"
        )
    if n_positive.mean() > _LARGE_SHARE * ranked:
        yield (
            f"a query has {counted(round(n_positive.mean()), 'positive')} on average, of {ranked} "
            "gallery items: are labels or coordinates read as meant?"
        )


def _labels(
    rule: LabelRule, relevance: Judged, query: Samples, gallery: Samples
) -> Iterator[str]:
    ours, theirs = np.unique(query.keys(rule.label)), np.unique(gallery.keys(rule.label))
    for side, own, other in (("query", ours, theirs), ("gallery", theirs, ours)):
        alone = np.setdiff1d(own, other)
        if len(alone):
            of = f"of {counted(len(own), rule.label)}"
            yield (
                f"{counted(len(alone), f'{of} is', f'{of} are')} on the {side} side only "
                f"({name_some(alone.tolist())})"
            )
    junk = np.isin(gallery.keys(rule.label), np.array(_junk_of(theirs)))
    if (junk & ~relevance.ignored_gallery).any():
        count = int((junk & ~relevance.ignored_gallery).sum())
        junk_is = f"of the {rule.label} -1"
        yield counted(count, f"gallery row {junk_is} counts as a negative",
                      f"gallery rows {junk_is} count as negatives")  # fmt: skip
    for column in ("camera",):
        if column in query and column in gallery:
            seen = np.union1d(query.keys(column), gallery.keys(column))
            if len(seen) == 1:
                yield (
                    f"every row has the {column} {seen[0].item()!r}: are names read by the right "
                    "grammar?"
                )


def _junk_of(labels: npt.NDArray[Any]) -> list[Any]:
    return [_JUNK[labels.dtype.kind == "U"]]


def _coordinates(
    rule: WithinRule, relevance: Judged, query: Samples, gallery: Samples
) -> Iterator[str]:
    metric = rule.coordinates == "utm" or (rule.coordinates is None and "east" in query)
    if metric:
        for side, samples in (("query", query), ("gallery", gallery)):
            east, north = samples.values("east"), samples.values("north")
            if (np.abs(east) <= 180).all() and (np.abs(north) <= 90).all():
                yield (
                    f"{side} side: east {east.min():g} to {east.max():g} and north {north.min():g} "
                    f"to {north.max():g} look like degrees; {rule.radius} metres would then span "
                    "the whole world: name the columns lat and lon"
                )
        if "zone" in query and "zone" in gallery:
            ours, theirs = (np.unique(s.keys("zone")) for s in (query, gallery))
            if not len(np.intersect1d(ours, theirs)):
                yield (
                    f"no UTM zone is on both sides: query {name_some(ours.tolist())}, gallery "
                    f"{name_some(theirs.tolist())}"
                )
        return
    if not relevance.n_positive.any():
        swapped = _swapped_pairs(rule, query, gallery)
        if swapped:
            yield (
                f"with latitude and longitude of the gallery exchanged {counted(swapped, 'pair')} "
                "would be positive: are the two columns swapped on one side?"
            )


def _swapped_pairs(rule: WithinRule, query: Samples, gallery: Samples) -> int:
    turned = gallery.without(["lat", "lon"]).with_columns(
        lat=gallery.values("lon"), lon=gallery.values("lat")
    )
    try:
        found = within_metres(query, turned, radius=rule.radius, coordinates="latlon")
    except ReidVprEvalError:
        return 0
    return int(found.n_positive.sum())


def _identities(protocol: Protocol, query: Samples, gallery: Samples) -> Iterator[str]:
    if query.ids is None or gallery.ids is None or protocol.relevance.self == "exclude":
        return
    both = np.intersect1d(query.ids.astype(np.str_), gallery.ids.astype(np.str_))
    if len(both):
        yield (
            f"{counted(len(both), 'query is', 'queries are')} in the gallery under the same id "
            f"({name_some(both.tolist())}) and stay in their own ranking: self = 'exclude' takes "
            "them out"
        )
