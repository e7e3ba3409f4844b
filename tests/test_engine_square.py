"""Leave one out: half of the square of scores tells the other half, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.ranking.sources.features import FeatureSource
from reid_vpr_eval.ranking.tiles import TileCounter
from test_engine import same

pytestmark = pytest.mark.usefixtures("kernels")

N, DIM = 90, 7
SMALL = {"workers": 2}


def vectors(kind: str, metric: str = "dot") -> npt.NDArray[Any]:
    rng = np.random.default_rng(4)
    made = rng.normal(size=(N, DIM)).astype(np.float32)
    if kind == "near":  # neighbours that float32 products cannot tell apart
        step = 2.0**-11 if metric == "cosine" else 2.0**-22  # cosines differ by its square
        made = made[:1] + (rng.integers(-2, 3, made.shape) * step).astype(np.float32)
    if kind == "codes":
        made = np.sign(made)
    doubled = rng.random(N) < 0.2
    made[doubled] = made[rng.integers(0, N, doubled.sum())]
    return made


def labels(kind: str = "few") -> rve.Relevance:
    label = np.arange(N) % (3 if kind == "few" else 30)
    samples = rve.Samples.from_columns(label=label, id=np.arange(N))
    return rve.relevance.same_label(samples, samples)


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The pairs of blocks that were counted as one square."""
    seen: list[tuple[int, int]] = []
    counted = TileCounter.count_square

    def spy(self: TileCounter, one: int, other: int, *rest: Any) -> None:
        seen.append((one, other))
        counted(self, one, other, *rest)

    monkeypatch.setattr(TileCounter, "count_square", spy)
    monkeypatch.setattr("reid_vpr_eval.ranking.schedule._SQUARE", 27)
    return seen


@pytest.mark.parametrize("classes", ["few", "many"])
@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("kind", ["random", "near", "codes"])
@pytest.mark.parametrize("keep", ["all", "first"])
def test_a_square_counts_like_two_sides(
    kind: str, metric: str, keep: Any, classes: str, squares: list[tuple[int, int]]
) -> None:
    features, relevance = vectors(kind, metric), labels(classes)
    options: dict[str, Any] = {"keep": keep, "top_k": 3}
    two = rve.rank(rve.Embeddings(features, features.copy(), metric), relevance, **options)
    assert not squares
    one = rve.rank(rve.Embeddings(features, features, metric), relevance, **options, **SMALL)
    n_blocks = max(other for _, other in squares) + 1
    assert n_blocks > 2
    assert sorted(squares) == [(i, j) for i in range(n_blocks) for j in range(i, n_blocks)]
    same(one, two)
    assert np.array_equal(one.top_item, two.top_item)
    assert np.array_equal(one.top_score, two.top_score)


@pytest.mark.parametrize("metric", ["cosine", "dot", "sqeuclidean"])
def test_a_judged_pair_is_scored_in_one_direction(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other direction has the same bits, also where pairs are scored in parts."""
    features, relevance = vectors("random", metric), labels()
    two = rve.rank(rve.Embeddings(features, features.copy(), metric), relevance)
    seen: list[tuple[int, int]] = []
    pairs = FeatureSource.pairs

    def spy(self: FeatureSource, query: Any, item: Any, workers: int = 1) -> Any:
        seen.extend(zip(query.tolist(), item.tolist(), strict=True))
        return pairs(self, query, item, workers)

    monkeypatch.setattr(FeatureSource, "pairs", spy)
    monkeypatch.setattr("reid_vpr_eval.ranking.running._WORK_OF_PIECE", 1000)
    one = rve.rank(rve.Embeddings(features, features, metric), relevance)
    same(one, two)
    assert len(set(seen)) == len(seen)
    assert all(query <= item for query, item in seen)
    assert len(seen) == np.count_nonzero(one.query_of_pair <= one.item)


@pytest.mark.parametrize("options", [{"strata": np.arange(N) % 2}, {"pairs_kept": 5},
                                     {"gallery_slice": (0, N - 1)}])  # fmt: skip
def test_what_is_no_square_is_counted_as_two_sides(
    options: dict[str, Any], squares: list[tuple[int, int]]
) -> None:
    features, relevance = vectors("random"), labels()
    one = rve.rank(rve.Embeddings(features, features), relevance, **options, **SMALL)
    assert not squares
    same(one, rve.rank(rve.Embeddings(features, features.copy()), relevance, **options))


def test_pairs_judged_in_one_direction_are_no_square(squares: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(1)
    query, item = np.nonzero(rng.random((N, N)) < 0.1)
    relevance = rve.Relevance.from_pairs(query, item, n_query=N, n_gallery=N)
    features = vectors("random")
    one = rve.rank(rve.Embeddings(features, features), relevance, **SMALL)
    assert not squares
    same(one, rve.rank(rve.Embeddings(features, features.copy()), relevance))


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_products_in_float64_settle_many_doubts(
    metric: str, square: bool, monkeypatch: pytest.MonkeyPatch, kernels: str,
    squares: list[tuple[int, int]],
) -> None:  # fmt: skip
    features, relevance = vectors("near", metric), labels("few")
    gallery = features if square else features.copy()
    plain = rve.rank(rve.Embeddings(features, gallery, metric), relevance, **SMALL)
    name = "plain" if kernels == "numpy" else "compiled"
    monkeypatch.setattr(f"reid_vpr_eval.ranking.kernels.{name}.SHARE_FOR_DOUBLE", 0.0)
    settled = []
    settle = TileCounter._settle

    def spy(self: TileCounter, *rest: Any) -> Any:
        open_ = settle(self, *rest)
        settled.append((int((~open_).sum()), int(open_.sum())))
        return open_

    monkeypatch.setattr(TileCounter, "_settle", spy)
    same(plain, rve.rank(rve.Embeddings(features, gallery, metric), relevance, **SMALL))
    assert bool(squares) == square
    decided, undecided = np.sum(settled, axis=0)
    assert decided > 0
    assert undecided > 0  # exact duplicates tie, which no product decides


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_products_in_pieces_are_made_where_many_are_in_doubt(
    metric: str, square: bool, monkeypatch: pytest.MonkeyPatch, kernels: str,
    squares: list[tuple[int, int]],
) -> None:  # fmt: skip
    features, relevance = vectors("near", metric), labels("few")
    gallery = features if square else features.copy()
    plain = rve.rank(rve.Embeddings(features, gallery, metric), relevance, **SMALL)
    name = "plain" if kernels == "numpy" else "compiled"
    monkeypatch.setattr(f"reid_vpr_eval.ranking.kernels.{name}.SHARE_FOR_CARE", 0.0)
    monkeypatch.setattr("reid_vpr_eval.ranking.sources.features._SMALLEST_PIECE", 2)
    monkeypatch.setattr("reid_vpr_eval.ranking.schedule._COLUMNS", 27)
    asked = []
    tile = FeatureSource.tile

    def spy(self: FeatureSource, *rest: Any, care: Any = 0) -> Any:
        asked.append(care)
        return tile(self, *rest, care=care)

    monkeypatch.setattr(FeatureSource, "tile", spy)
    same(plain, rve.rank(rve.Embeddings(features, gallery, metric), relevance, workers=1))
    assert asked[0] == 0
    assert 1 in asked
    assert bool(squares) == square


def test_memory_for_less_than_a_tile_is_refused() -> None:
    features = np.ones((20, 1000), np.float32)
    scores, relevance = rve.Embeddings(features, features), rve.Relevance.from_pairs(
        [0], [1], n_query=20, n_gallery=20
    )
    with pytest.raises(rve.ScoreError, match=r"memory = '100KiB' is too small: 2 workers .* need"):
        rve.rank(scores, relevance, memory="100KiB", workers=2)
    enough = rve.rank(scores, relevance, memory="1MiB", workers=2)
    same(enough, rve.rank(scores, relevance))
