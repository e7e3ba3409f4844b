"""Right by frame: so many frames before or after, within one sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import RelevanceError, counted, name_some
from reid_vpr_eval.relevance.ignores import Ignores
from reid_vpr_eval.relevance.pairing import check_choice, check_sides, codes
from reid_vpr_eval.relevance.pairs import POSITIVE, NoPositive, Relevance, SelfRule, ranges
from reid_vpr_eval.samples import Samples

__all__ = ["frame_window"]

Ints = npt.NDArray[np.int64]

_LARGEST_SPAN = 1 << 61


def frame_window(
    query: Samples,
    gallery: Samples,
    *,
    window: int = 1,
    unit: Literal["frame", "index"] = "frame",
    sided: Literal["both", "before", "after"] = "both",
    sequence: str | None = None,
    self: SelfRule = "keep",
    ignore: Sequence[Mapping[str, Any]] = (),
    wide_ignore: Sequence[Mapping[str, Any]] = (),
    group_search: str | None = None,
    no_positive: NoPositive = "zero",
) -> Relevance:
    """Judge by frame: an item at most `window` frames from the query's is positive.

    Parameters
    ----------
    query, gallery : Samples
        With the column frame, whole numbers.
    window : int
        The largest difference; 0 is the same frame alone.
    unit : {"frame", "index"}
        What is counted: frame numbers, or the frames that the gallery has. The latter are
        numbered in order within each sequence (items of one frame share a number), and a
        query stands where the gallery has its own frame number. A window by index so
        stretches over gaps in the numbers.
    sided : {"both", "before", "after"}
        "before" counts items at or before the query's frame, "after" at or after it.
    sequence : str, optional
        A column in which both must agree; by default all is one sequence.
    self : {"keep", "exclude"}
        Whether an item with the query's own id stays in its ranking.
    ignore, wide_ignore : sequence of mappings
        Further ignored items, as in :func:`same_label`.
    group_search : str, optional
        A column: a query is searched among the items of its own value.
    no_positive : {"skip", "zero", "one", "error"}
        The default for queries without a positive.

    Raises
    ------
    RelevanceError
        If there is no column frame, or by index a query's frame is not in the gallery.

    Examples
    --------
    >>> query = Samples.from_columns(frame=[11, 30])
    >>> gallery = Samples.from_columns(frame=[9, 11, 12, 30])
    >>> frame_window(query, gallery, window=1).positives(0)
    array([1, 2])
    >>> frame_window(query, gallery, window=1, unit="index").positives(1)
    array([2, 3])
    """
    check_sides(query, gallery)
    check_choice("unit", unit, ("frame", "index"))
    check_choice("sided", sided, ("both", "before", "after"))
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 0:
        raise RelevanceError(f"window = {window!r}: a whole number of frames, 0 or more, is needed")
    ignores = Ignores.of(
        query, gallery, ignore, wide_ignore, self=self, group_search=group_search
    )
    ours, theirs = _frames(query, gallery)
    both = (np.zeros(query.n, np.int64), np.zeros(gallery.n, np.int64))
    if sequence is not None:
        both = codes(query, gallery, sequence)
    if unit == "index":
        ours, theirs = _by_index(query, both, ours, theirs, sequence)
    back = 0 if sided == "after" else int(window)
    ahead = 0 if sided == "before" else int(window)
    pair_query, pair_item = _inside(both, ours, theirs, back, ahead)
    size = len(pair_query)
    found = (pair_query, pair_item, np.full(size, POSITIVE), np.ones(size), np.zeros(size, bool))
    where = "" if sequence is None else f" of the same {sequence}"
    return ignores.settle(
        [found], no_positive=no_positive,
        note=f"{counted(size, 'pair lies', 'pairs lie')} within {window} by {unit}{where} "
        f"(query frames {query.values('frame').min()} to {query.values('frame').max()}, "
        f"gallery frames {gallery.values('frame').min()} to {gallery.values('frame').max()})",
    )  # fmt: skip


def _frames(query: Samples, gallery: Samples) -> tuple[Ints, Ints]:
    """Return the frame numbers of both sides, counted from the smallest."""
    columns = []
    for side, samples in (("query", query), ("gallery", gallery)):
        if "frame" not in samples:
            raise RelevanceError(
                f"a window of frames needs the column frame, which the {side} side has not (it has "
                f"{', '.join(samples.column_names) or 'none'}): read it from the names, or rename "
                "a column to it"
            )
        frames = samples.keys("frame")
        if frames.dtype.kind == "U":
            raise RelevanceError(
                f"{side} side: the column frame holds {frames.tolist()[0]!r}; whole numbers are "
                "needed"
            )
        columns.append(frames.astype(np.int64))
    least, most = min(c.min() for c in columns), max(c.max() for c in columns)
    if int(most) - int(least) >= _LARGEST_SPAN:
        raise RelevanceError(f"frame numbers from {least} to {most} span too much to be counted")
    return columns[0] - least, columns[1] - least


def _by_index(
    query: Samples, sequences: tuple[Ints, Ints], ours: Ints, theirs: Ints, name: str | None
) -> tuple[Ints, Ints]:
    """Number the frames of the gallery within each sequence; find those of the queries."""
    keys = np.stack([sequences[1], theirs])
    known, item_place = np.unique(keys, axis=1, return_inverse=True)
    wanted = np.stack([sequences[0], ours])
    every = np.unique(np.concatenate([known, wanted], axis=1), axis=1, return_inverse=True)[1]
    every = every.ravel()
    known_code, wanted_code = every[: known.shape[1]], every[known.shape[1] :]
    place = np.minimum(np.searchsorted(known_code, wanted_code), len(known_code) - 1)
    lost = np.flatnonzero(known_code[place] != wanted_code)
    if len(lost):
        frames = query.values("frame")[lost]
        where = "" if name is None else f" in their {name}"
        raise RelevanceError(
            f"the gallery lacks the frames of {len(lost)} of {counted(query.n, 'query')}{where} "
            f"(rows {name_some(lost)}; frames {name_some(frames)}), so they have no place in its "
            "order: count by unit = 'frame', or drop these queries"
        )
    first = np.searchsorted(known[0], known[0])
    index = np.arange(known.shape[1]) - first
    return index[place], index[item_place.ravel()]


def _inside(
    sequences: tuple[Ints, Ints], ours: Ints, theirs: Ints, back: int, ahead: int
) -> tuple[Ints, Ints]:
    """Return all pairs of one sequence whose item is in ``[frame - back, frame + ahead]``."""
    span = int(max(ours.max(), theirs.max())) + 1
    back, ahead = min(back, span), min(ahead, span)
    order = np.lexsort((theirs, sequences[1]))
    ordered = theirs[order]
    start, stop = np.zeros(len(ours), np.int64), np.zeros(len(ours), np.int64)
    by_sequence = np.argsort(sequences[0], kind="stable")
    values, first = np.unique(sequences[0][by_sequence], return_index=True)
    begins = np.searchsorted(sequences[1][order], values, side="left")
    ends = np.searchsorted(sequences[1][order], values, side="right")
    parts = np.split(by_sequence, first[1:])
    for rows, begin, end in zip(parts, begins.tolist(), ends.tolist(), strict=True):
        frames = ordered[begin:end]
        start[rows] = begin + np.searchsorted(frames, ours[rows] - back, side="left")
        stop[rows] = begin + np.searchsorted(frames, ours[rows] + ahead, side="right")
    size = stop - start
    return np.repeat(np.arange(len(ours)), size), order[ranges(start, size)]
