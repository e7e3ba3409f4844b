"""Drawing galleries: n items of each group, from a seed or from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import (
    AlignmentError,
    FormatError,
    InputNotFoundError,
    ProtocolError,
    counted,
)
from reid_vpr_eval.protocol import DrawTable
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import ScoreMatrix

__all__ = ["draw_codes", "drawn_for_each", "draws_of"]

Ints = npt.NDArray[np.int64]


def draw_codes(draw: DrawTable, gallery: Samples) -> Ints:
    """Number the groups of which a draw takes items, one code for each gallery row."""
    if not draw.per:
        raise ProtocolError("draw.per: name the columns of which every combination is drawn from")
    keys = [np.unique(gallery.keys(column), return_inverse=True)[1] for column in draw.per]
    return np.unique(np.stack(keys), axis=1, return_inverse=True)[1].ravel().astype(np.int64)


def draws_of(draw: DrawTable, query: Samples, gallery: Samples) -> Iterator[tuple[Ints, Ints]]:
    """Yield the sorted query and gallery rows of each draw, from the seed or from the file.

    First labels are drawn, if the table says how many: queries of other labels leave, and so
    do gallery items of other labels that both sides have; labels of the gallery alone stay.
    Then items are drawn of each group; with `rest` the others are the queries.

    Raises
    ------
    ProtocolError
        If a file holds another number of draws than `repeats`.
    AlignmentError
        If `rest` is asked for and the sides are not one set.
    """
    if draw.rest and (query.n != gallery.n or query.fingerprint() != gallery.fingerprint()):
        raise AlignmentError(
            "draw.rest makes queries of the items that are not drawn: give one set for both sides"
        )
    if draw.file is not None:
        for rows in _given_rows(draw, gallery):
            every = np.arange(query.n)
            yield (np.setdiff1d(every, rows) if draw.rest else every), rows
        return
    for repeat in range(draw.repeats):
        generator = np.random.default_rng([draw.seed, repeat])
        asking, rows = np.arange(query.n), np.arange(gallery.n)
        if draw.labels is not None:
            asking, rows = _drawn_labels(draw.labels, query, gallery, generator)
        if draw.per:
            rows = _drawn_items(draw, gallery, rows, generator)
        yield (np.setdiff1d(asking, rows) if draw.rest else asking), rows


def _drawn_labels(
    n_labels: int, query: Samples, gallery: Samples, generator: np.random.Generator
) -> tuple[Ints, Ints]:
    ours, theirs = query.keys("label"), gallery.keys("label")
    common = np.intersect1d(ours, theirs)
    chosen = generator.choice(common, min(n_labels, len(common)), replace=False)
    stays = np.isin(theirs, chosen) | ~np.isin(theirs, common)
    return np.flatnonzero(np.isin(ours, chosen)), np.flatnonzero(stays)


def _drawn_items(
    draw: DrawTable, gallery: Samples, rows: Ints, generator: np.random.Generator
) -> Ints:
    codes = draw_codes(draw, gallery)[rows]
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    taken = [generator.choice(part, min(draw.n, len(part)), replace=False)
             for part in np.split(rows[order], ends)]  # fmt: skip
    return np.sort(np.concatenate(taken))


def drawn_for_each(
    draw: DrawTable, source: Any, relevance: Relevance, codes: Ints
) -> Iterator[tuple[ScoreMatrix, Relevance]]:
    """Yield draws in which every query has a gallery of its own: one item of each group.

    What a query ignores is not drawn. Column g of a matrix holds the item of group g; it is
    ignored where a group has no item left.
    """
    n_query, n_groups = relevance.n_query, int(codes.max()) + 1
    ranked = ~relevance.ignored_gallery
    members = [np.flatnonzero((codes == code) & ranked) for code in range(n_groups)]
    for repeat in range(draw.repeats):
        generator = np.random.default_rng([draw.seed, repeat])
        item = np.full((n_query, n_groups), -1, np.int64)
        for group, rows in enumerate(members):
            if len(rows):
                item[:, group] = rows[generator.integers(0, len(rows), n_query)]
        for row in range(n_query):
            out = relevance.ignored(row)
            for group in np.unique(codes[out]).tolist():
                left = np.setdiff1d(members[group], out)
                item[row, group] = generator.choice(left) if len(left) else -1
        query, column = np.nonzero(item >= 0)
        scores = np.zeros((n_query, n_groups))
        scores[query, column] = source.pairs(query, item[query, column])
        right = np.zeros((n_query, n_groups), bool)
        for row in range(n_query):
            right[row] = np.isin(item[row], relevance.positives(row))
        asking, place = np.nonzero(right | (item < 0))
        yield ScoreMatrix(scores, higher_is_better=True), Relevance.from_pairs(
            asking, place, ignored=item[asking, place] < 0, n_query=n_query, n_gallery=n_groups,
            no_positive=relevance.no_positive,
        )  # fmt: skip


def _given_rows(draw: DrawTable, gallery: Samples) -> Iterator[Ints]:
    path = Path(str(draw.file))
    if not path.is_file():
        raise InputNotFoundError(f"{path}: no such file (draws of the gallery, .npy or .json)")
    try:
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
        else:
            content = np.load(path, allow_pickle=False)
        trials = [np.asarray(trial) for trial in content]
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(f"{path}: cannot be read as a list of draws ({error})") from error
    if len(trials) != draw.repeats:
        raise ProtocolError(
            f"{path} holds {counted(len(trials), 'draw')}, the protocol asks for {draw.repeats}"
        )
    for number, trial in enumerate(trials):
        yield _rows_of(trial, gallery, path, number)


def _rows_of(trial: npt.NDArray[Any], gallery: Samples, path: Path, number: int) -> Ints:
    if trial.dtype.kind in "iu":
        rows = trial.astype(np.int64)
    else:
        ids = gallery.ids
        if ids is None:
            raise ProtocolError(f"{path} names items by id, but the gallery has no column 'id'")
        place = {str(name): row for row, name in enumerate(ids.tolist())}
        missing = [name for name in trial.tolist() if str(name) not in place]
        if missing:
            raise ProtocolError(
                f"{path}, draw {number}: {counted(len(missing), 'id is', 'ids are')} not in the "
                f"gallery, the first is {missing[0]!r}"
            )
        rows = np.array([place[str(name)] for name in trial.tolist()], np.int64)
    if rows.ndim != 1 or len(np.unique(rows)) < len(rows) or not len(rows):
        raise ProtocolError(f"{path}, draw {number}: one list of different items is needed")
    if rows.min() < 0 or rows.max() >= gallery.n:
        raise ProtocolError(
            f"{path}, draw {number}: positions run from 0 to {gallery.n - 1}, one is "
            f"{rows.max() if rows.max() >= gallery.n else rows.min()}"
        )
    return np.sort(rows)
