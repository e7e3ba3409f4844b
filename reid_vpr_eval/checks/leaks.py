"""Leaks and doubles: vectors that are the same, or nearly so, where they should not be."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import counted, name_some
from reid_vpr_eval.per_query import merged_top
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings, Vectors
from reid_vpr_eval.scores.arrays import row_blocks

__all__ = ["codes_of", "leaks", "near_first", "without_doubles"]

Ints: TypeAlias = npt.NDArray[np.int64]

#: How alike (cosine) a query and its best item of the same session are to be called a leak.
NEAR = 0.995


def leaks(
    scores: Embeddings, relevance: Relevance, query: Samples, gallery: Samples
) -> list[str]:
    """Return notes on equal and on nearly equal vectors."""
    ours, theirs = codes_of(scores.query, scores.gallery)
    return [
        *_across(ours, theirs, relevance),
        *_inside(theirs, gallery),
        *_near(scores, relevance, query, gallery),
    ]


def without_doubles(scores: Embeddings, gallery: Samples) -> Ints:
    """Return the gallery rows that remain when later rows of an equal vector are dropped.

    Rows of different labels are kept apart: which of them is right cannot be told.
    """
    return _first_rows(codes_of(scores.gallery)[0], gallery)


def _first_rows(codes: Ints, gallery: Samples) -> Ints:
    """Return the first row of each code and label, ascending."""
    keys = [codes]
    if "label" in gallery:
        keys.append(np.unique(gallery.keys("label"), return_inverse=True)[1])
    return np.sort(np.unique(np.stack(keys), axis=1, return_index=True)[1])


def _across(ours: Ints, theirs: Ints, relevance: Relevance) -> Iterator[str]:
    """Report query vectors that stand in the ranked gallery too, bit for bit."""
    ranked = np.flatnonzero(~relevance.ignored_gallery)
    order = ranked[np.argsort(theirs[ranked], kind="stable")]
    low = np.searchsorted(theirs[order], ours, side="left")
    high = np.searchsorted(theirs[order], ours, side="right")
    found, right, wrong = 0, 0, 0
    for row in np.flatnonzero(high > low).tolist():
        rows = set(order[low[row] : high[row]].tolist()) - set(relevance.ignored(row).tolist())
        positives = set(relevance.positives(row).tolist())
        found += bool(rows)
        right += bool(rows & positives)
        wrong += bool(rows - positives)
    if not found:
        yield "no query vector stands in the ranked gallery bit for bit"
        return
    yield (
        f"{counted(found, 'query vector stands', 'query vectors stand')} in the ranked gallery bit "
        f"for bit ({right} of them as a positive, {wrong} as a negative): leaked images, or "
        "queries that find themselves?"
    )


def _inside(codes: Ints, gallery: Samples) -> Iterator[str]:
    """Report gallery vectors that occur more than once."""
    doubles = len(codes) - len(np.unique(codes))
    if not doubles:
        return
    dropped = len(codes) - len(_first_rows(codes, gallery))
    apart = f"; {doubles - dropped} of them under another label" if doubles > dropped else ""
    yield (
        f"{counted(doubles, 'gallery row repeats', 'gallery rows repeat')} the vector of an "
        f"earlier row{apart} (--dedup drops them)"
    )


def near_first(
    query: Samples, gallery: Samples, rows: Ints, items: Ints, alike: npt.NDArray[np.float64]
) -> list[str]:
    """Return a note on queries whose best item is nearly the same vector of the same session.

    `items` are the first items of the queries `rows`, `alike` their cosines.
    """
    column = next((c for c in ("sequence", "camera") if c in query and c in gallery), None)
    if column is None or query.missing(column).any() or gallery.missing(column).any():
        return []
    ours, theirs = query.values(column)[rows], gallery.values(column)[items]
    hit = (alike >= NEAR) & (ours == theirs)
    if not hit.any():
        return []
    return [
        f"{counted(int(hit.sum()), 'query has', 'queries have')} a best item of the same {column} "
        f"that is nearly the same image (cosine {NEAR} or more; queries "
        f"{name_some(rows[hit].tolist())}): frames of one recording on both sides?"
    ]


def _near(
    scores: Embeddings, relevance: Relevance, query: Samples, gallery: Samples
) -> list[str]:
    if scores.kind == "bits":
        return []
    alike = scores
    if scores.metric != "cosine":
        alike = Embeddings(scores.query, scores.gallery, "cosine", bad_vectors="last")
    rows, _, items, values, _ = merged_top(rank(alike, relevance, top_k=1))
    return near_first(query, gallery, rows, items, values)


def codes_of(*sides: Vectors) -> list[Ints]:
    """Give equal vectors equal numbers, on all sides together."""
    digests = np.concatenate([_digests(side) for side in sides])
    codes = np.unique(digests, axis=0, return_inverse=True)[1].ravel()
    return np.split(codes, np.cumsum([len(side) for side in sides])[:-1])


def _digests(vectors: Vectors) -> npt.NDArray[np.uint64]:
    """Return a hash of 128 bits of the bytes of each vector, (n, 2)."""
    out = np.empty((len(vectors), 2), np.uint64)
    for rows in row_blocks(vectors):
        joined = b"".join(
            blake2b(row.tobytes(), digest_size=16).digest() for row in vectors[rows]
        )
        out[rows] = np.frombuffer(joined, np.uint64).reshape(-1, 2)
    return out
