"""Leaks and doubles: vectors that are the same, or nearly so, where they should not be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import name_some
from reid_vpr_eval.per_query import merged_top
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.relevance import Relevance
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings

__all__ = ["leaks", "without_doubles"]

#: How alike (cosine) a query and its best item of the same session are to be called a leak.
NEAR = 0.995


def leaks(
    scores: Embeddings, relevance: Relevance, query: Samples, gallery: Samples
) -> list[str]:
    """Return notes on equal and on nearly equal vectors."""
    return [
        *_across(scores, relevance),
        *_inside(scores, gallery),
        *_near(scores, relevance, query, gallery),
    ]


def without_doubles(scores: Embeddings, gallery: Samples) -> npt.NDArray[np.int64]:
    """Return the gallery rows that remain when later rows of an equal vector are dropped.

    Rows of different labels are kept apart: which of them is right cannot be told.
    """
    keys = _keys(scores.gallery)
    if "label" in gallery:
        labels = np.unique(gallery.keys("label"), return_inverse=True)[1]
        keys = [key + label.tobytes() for key, label in zip(keys, labels, strict=True)]
    seen: set[bytes] = set()
    kept = [row for row, key in enumerate(keys) if not (key in seen or seen.add(key))]  # type: ignore[func-returns-value]
    return np.array(kept, np.int64)


def _across(scores: Embeddings, relevance: Relevance) -> Iterator[str]:
    """Report query vectors that stand in the ranked gallery too, bit for bit."""
    known: dict[bytes, list[int]] = {}
    for row, key in enumerate(_keys(scores.gallery)):
        if not relevance.ignored_gallery[row]:
            known.setdefault(key, []).append(row)
    found, right, wrong = 0, 0, 0
    for row, key in enumerate(_keys(scores.query)):
        rows = set(known.get(key, ()))
        rows -= set(relevance.ignored(row).tolist()) if rows else set()
        positives = set(relevance.positives(row).tolist()) if rows else set()
        found += bool(rows)
        right += bool(rows & positives)
        wrong += bool(rows - positives)
    if not found:
        yield "no query vector stands in the ranked gallery bit for bit"
        return
    yield (
        f"{found} query vectors stand in the ranked gallery bit for bit ({right} of them as a "
        f"positive, {wrong} as a negative): leaked images, or queries that find themselves?"
    )


def _inside(scores: Embeddings, gallery: Samples) -> Iterator[str]:
    """Report gallery vectors that occur more than once."""
    keys = _keys(scores.gallery)
    doubles = len(keys) - len(set(keys))
    if not doubles:
        return
    dropped = scores.n_gallery - len(without_doubles(scores, gallery))
    apart = f"; {doubles - dropped} of them under another label" if doubles > dropped else ""
    yield f"{doubles} gallery rows repeat the vector of an earlier row{apart} (--dedup drops them)"


def _near(
    scores: Embeddings, relevance: Relevance, query: Samples, gallery: Samples
) -> Iterator[str]:
    """Report queries whose best item is nearly the same vector of the same session."""
    column = next((c for c in ("sequence", "camera") if c in query and c in gallery), None)
    if column is None or scores.kind == "bits":
        return
    alike = Embeddings(scores.query, scores.gallery, "cosine", bad_vectors="last")
    rows, _, items, values, _ = merged_top(rank(alike, relevance, top_k=1))
    ours, theirs = query.keys(column)[rows], gallery.keys(column)[items]
    hit = (values >= NEAR) & (ours == theirs)
    if hit.any():
        yield (
            f"{int(hit.sum())} queries have a best item of the same {column} that is nearly the "
            f"same image (cosine {NEAR} or more; queries {name_some(rows[hit].tolist())}): frames "
            "of one recording on both sides?"
        )


def _keys(vectors: npt.NDArray[Any]) -> list[bytes]:
    return [np.ascontiguousarray(row).tobytes() for row in vectors]
