"""What `rve check` notices: one case for everything that may look wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.checks import check, without_doubles
from reid_vpr_eval.protocol import Protocol

LABELS: dict[str, Any] = {"name": "l", "relevance": {"kind": "label"}}
PLACES: dict[str, Any] = {"name": "p", "relevance": {"kind": "within"}}


def notes(spec: dict[str, Any], query: Any, gallery: Any, vectors: Any = None) -> str:
    scores = vectors if vectors is None or isinstance(vectors, rve.Embeddings) else (
        rve.Embeddings(*vectors))  # fmt: skip
    sides = [rve.Samples.from_columns(**side) for side in (query, gallery)]
    return "\n".join(check(Protocol.from_dict(spec), *sides, scores=scores).warnings)


@pytest.mark.parametrize(
    ("spec", "query", "gallery", "said"),
    [
        (LABELS, {"label": [1, 2]}, {"label": [1, 3, 3]}, "1 of 2 labels is on the query side"),
        (LABELS, {"label": [1, 2]}, {"label": [1, 3, 3]}, "1 of 2 labels is on the gallery side"),
        (LABELS, {"label": [1, 2]}, {"label": [1, 3, 3]}, "1 query has no positive (rows 1)"),
        (LABELS, {"label": [1]}, {"label": [2]}, "no query has a positive: no gallery row has"),
        (LABELS, {"label": [1]}, {"label": [1, -1]}, "1 gallery row of the label -1 counts"),
        (LABELS, {"label": [1]}, {"label": [1, 1, 1, 2]}, "3 positives on average, of 4"),
        (LABELS, {"label": [1], "camera": [4]}, {"label": [1], "camera": [4]},
         "every row has the camera 4"),
        ({"name": "k", "relevance": {"kind": "label", "self": "keep"}},
         {"label": [1], "id": ["a"]}, {"label": [1, 2], "id": ["a", "b"]},
         "1 query is in the gallery under the same id (a)"),
        ({"name": "c", "relevance": {"kind": "label", "different": ["camera"]}},
         {"label": [1, 2], "camera": [1, 1]}, {"label": [1, 2], "camera": [1, 2]},
         "1 of them because all candidates are ignored"),
        (PLACES, {"east": [2.35], "north": [48.85]}, {"east": [2.36], "north": [48.86]},
         "look like degrees"),
        (PLACES, {"east": [5e5], "north": [5e6], "zone": ["31U"]},
         {"east": [5e5], "north": [5e6], "zone": ["33U"]}, "no UTM zone is on both sides"),
        (PLACES, {"lat": [48.85], "lon": [2.35]}, {"lat": [2.35], "lon": [48.85]},
         "exchanged 1 pair would be positive"),
    ],
)  # fmt: skip
def test_it_is_noticed(spec: Any, query: Any, gallery: Any, said: str) -> None:
    assert said in notes(spec, query, gallery)


def test_nothing_is_said_of_what_is_in_order() -> None:
    label = np.arange(40) % 8
    side = {"label": label, "camera": np.arange(40) % 3}
    vectors = [np.random.default_rng(s).normal(size=(40, 5)) for s in (0, 1)]
    said = notes({"name": "c", "relevance": {"kind": "label", "different": ["camera"]}}, side,
                 side, vectors)  # fmt: skip
    assert said == "no query vector stands in the ranked gallery bit for bit"


def test_equal_and_nearly_equal_vectors_are_noticed() -> None:
    rng = np.random.default_rng(0)
    query, gallery = rng.normal(size=(4, 6)), rng.normal(size=(9, 6))
    gallery[2] = gallery[1]
    gallery[3] = gallery[1]
    gallery[7] = query[0]
    gallery[8] = query[1] * (1 + 1e-6 * rng.normal(size=6))
    label = [1, 2, 3, 4]
    columns = {"label": [9, 1, 1, 2, 2, 3, 4, 1, 2], "sequence": ["s"] * 8 + ["t"]}
    said = notes(LABELS, {"label": label, "sequence": ["r", "t", "r", "r"]}, columns,
                 (query, gallery))  # fmt: skip
    assert "1 query vector stands in the ranked gallery bit for bit (1 of them as" in said
    assert "2 gallery rows repeat the vector of an earlier row; 1 of them under another" in said
    assert "1 query has a best item of the same sequence that is nearly the same image" in said
    scores = rve.Embeddings(query, gallery)
    kept = without_doubles(scores, rve.Samples.from_columns(**columns))
    assert kept.tolist() == [0, 1, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("metric", ["euclidean", "hamming", "cityblock"])
def test_leaks_are_sought_under_every_kind_of_metric(metric: str) -> None:
    """A zero vector has no cosine, and bytes of codes have no angle."""
    vectors = np.zeros((3, 4), bool if metric == "hamming" else float)
    vectors[1:, :2] = [[1, 0], [1, 1]]
    scores = rve.Embeddings(vectors, vectors.copy(), metric)
    side = {"label": [1, 2, 3], "sequence": ["a", "b", "c"]}
    said = notes(LABELS, side, side, scores)
    assert "3 query vectors stand in the ranked gallery bit for bit" in said
    near = "2 queries have a best item of the same sequence that is nearly the same image" in said
    assert near == (metric != "hamming")
