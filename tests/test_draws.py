"""Drawn galleries: exact expectations against the enumeration of every draw."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.draws import draw_codes, draws_of, expected_over_draws
from reid_vpr_eval.metrics import TIES
from reid_vpr_eval.protocol import DrawTable, Protocol
from shared_inputs import oracle

NAMES = ["CMC@1", "CMC@2", "CMC@4", "mAP"]


def enumerate_draws(scores: Any, role: Any, codes: Any, names: Any, ties: str) -> dict[str, Any]:
    """Evaluate every draw of one item a group; a plain mean for each query."""
    groups = [np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1)]
    found = []
    for drawn in product(*groups):
        rows = np.sort(np.array(drawn))
        relevance = rve.Relevance.from_pairs(
            *np.nonzero(role[:, rows]), n_query=len(role), n_gallery=len(rows)
        )
        matrix = rve.ScoreMatrix(scores[:, rows], higher_is_better=True)
        found.append(rve.compute(rve.rank(matrix, relevance), names, ties=ties))
    return {name: np.mean([values.per_query(name) for values in found], axis=0) for name in names}


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(4))
def test_one_item_of_each_identity(seed: int, ties: str) -> None:
    rng = np.random.default_rng(seed)
    codes = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 3])
    scores = rng.integers(0, 4, (4, 10)).astype(float)
    role = codes[None, :] == np.arange(4)[:, None]
    relevance = rve.Relevance.from_pairs(*np.nonzero(role), n_query=4, n_gallery=10)
    values, weights = expected_over_draws(
        rve.ScoreMatrix(scores, higher_is_better=True), relevance, codes, NAMES, ties=ties
    )
    wanted = enumerate_draws(scores, role, codes, NAMES, ties)
    assert weights.tolist() == [1.0] * 4
    for name in NAMES:
        assert values[name] == pytest.approx(wanted[name], abs=1e-12), name


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(4))
def test_one_item_of_each_identity_and_camera(seed: int, ties: str) -> None:
    """Several positives are drawn together: average precision has an exact form, CMC has not."""
    rng = np.random.default_rng(seed)
    label = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    camera = np.array([0, 0, 1, 2, 0, 0, 1, 1, 1, 0])
    codes = np.unique(label * 3 + camera, return_inverse=True)[1]
    scores = rng.integers(0, 5, (3, 10)).astype(float)
    role = label[None, :] == np.arange(3)[:, None]
    relevance = rve.Relevance.from_pairs(*np.nonzero(role), n_query=3, n_gallery=10)
    matrix = rve.ScoreMatrix(scores, higher_is_better=True)
    values, _ = expected_over_draws(matrix, relevance, codes, ["mAP"], ties=ties)
    wanted = enumerate_draws(scores, role, codes, ["mAP"], ties)
    assert values["mAP"] == pytest.approx(wanted["mAP"], abs=1e-12)
    with pytest.raises(rve.NotCountedError, match="several groups"):
        expected_over_draws(matrix, relevance, codes, ["CMC@1"])


def test_the_rest_of_one_set_are_the_queries() -> None:
    """Ids of 2 and 3 images: a query of n images carries the weight (n - 1) / n."""
    rng = np.random.default_rng(1)
    label = np.array([0, 0, 1, 1, 1])
    samples = rve.Samples.from_columns(label=label)
    vectors = rng.normal(size=(5, 3))
    relevance = rve.relevance.same_label(samples, samples)
    scores = rve.Embeddings(vectors, vectors)
    values, weights = expected_over_draws(scores, relevance, label, NAMES, rest=True)
    assert weights == pytest.approx([1 / 2, 1 / 2, 2 / 3, 2 / 3, 2 / 3])
    total, number = dict.fromkeys(NAMES, 0.0), 0
    for drawn in product([0, 1], [2, 3, 4]):
        queries = [row for row in range(5) if row not in drawn]
        rows = np.array(drawn)
        direct = rve.rank(
            scores.take(queries, rows),
            rve.relevance.same_label(samples.take(queries), samples.take(rows)),
        )
        found = rve.compute(direct, NAMES)
        number += len(queries)
        for name in NAMES:
            total[name] += found[name] * len(queries)
    for name in NAMES:
        mean = (values[name] * weights).sum() / weights.sum()
        assert mean == pytest.approx(total[name] / number, abs=1e-12)


def test_case_h_of_the_worked_examples() -> None:
    case = oracle("reid_worked_examples.json")["H_single_gallery_shot"]
    ids = np.array(case["ranked_ids"])
    codes = np.unique(ids, return_inverse=True)[1]
    relevance = rve.Relevance.from_pairs(
        [0, 0], np.flatnonzero(ids == case["query"]), n_query=1, n_gallery=len(ids)
    )
    scores = rve.ScoreMatrix([-np.arange(len(ids), dtype=float)], higher_is_better=True)
    for k, value in enumerate(case["exact_expected_cmc"], start=1):
        found, _ = expected_over_draws(scores, relevance, codes, [f"CMC@{k}"])
        assert found[f"CMC@{k}"][0] == pytest.approx(value)


def test_two_tied_identities_leave_a_third() -> None:
    """Two other identities tied with the positive: 1/3 for rank 1, not 1/4."""
    relevance = rve.Relevance.from_pairs([0], [0], n_query=1, n_gallery=3)
    scores = rve.ScoreMatrix(np.zeros((1, 3)), higher_is_better=True)
    found, _ = expected_over_draws(scores, relevance, np.arange(3), ["CMC@1"])
    assert found["CMC@1"][0] == pytest.approx(1 / 3)


def world(seed: int = 0) -> tuple[rve.Samples, rve.Samples, rve.Embeddings]:
    rng = np.random.default_rng(seed)
    label = np.arange(60) % 12
    query = rve.Samples.from_columns(label=np.arange(12))
    gallery = rve.Samples.from_columns(label=label, id=[f"g{i}" for i in range(60)])
    centres = rng.normal(size=(12, 8))
    vectors = [centres[s.values("label")] + rng.normal(size=(s.n, 8)) for s in (query, gallery)]
    return query, gallery, rve.Embeddings(*vectors)


def protocol(**draw: Any) -> Protocol:
    return Protocol.from_dict(
        {"name": "drawn", "relevance": {"kind": "label"}, "draw": {"per": ["label"], **draw},
         "report": {"metrics": ["mAP", "CMC@1", "CMC@5"]}}
    )  # fmt: skip


@pytest.mark.parametrize("draws", [40, pytest.param(2000, marks=pytest.mark.slow)])
def test_samples_agree_with_the_expectation(draws: int) -> None:
    exact = rve.evaluate(protocol(method="exact"), *world())
    sampled = rve.evaluate(protocol(repeats=draws, seed=3), *world())
    assert sampled.draws is not None
    assert sampled.counts["n_gallery"] == 12
    for name in ("mAP", "CMC@1", "CMC@5"):
        trials = sampled.draws[sampled.draws["metric"] == name]["value"]
        assert len(trials) == draws
        z = (sampled.metrics[name] - exact.metrics[name]) / (trials.std() / np.sqrt(draws))
        assert abs(z) < 4, name
    assert f"{draws} draws" in str(sampled)
    assert "all draws" in str(exact)


def test_draws_are_reproducible_and_may_be_given(tmp_path: Any) -> None:
    query, gallery, scores = world()
    one, two = (rve.evaluate(protocol(repeats=3, seed=5), query, gallery, scores) for _ in "ab")
    assert dict(one.metrics) == dict(two.metrics)
    table = DrawTable(per=["label"], repeats=3, seed=5)
    rows = [rows for _, rows in draws_of(table, query, gallery)]
    assert len({tuple(r) for r in rows}) == 3
    for name, content in (("d.npy", np.stack(rows)), ("d.json", None)):
        path = tmp_path / name
        if content is None:
            path.write_text(str([[f"g{i}" for i in r] for r in rows]).replace("'", '"'))
        else:
            np.save(path, content)
        given = rve.evaluate(protocol(repeats=3, file=str(path)), query, gallery, scores)
        assert dict(given.metrics) == dict(one.metrics)
    with pytest.raises(rve.ProtocolError, match="holds 3 draws, the protocol asks for 10"):
        rve.evaluate(protocol(file=str(path)), query, gallery, scores)
    one.save(tmp_path / "run")
    assert str(rve.Result.load(tmp_path / "run")) == str(one)


@pytest.mark.parametrize("asked", [{"by": ["label"]}, {"keep_ranking": True}])
def test_what_a_mean_over_draws_cannot_give_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(rve.errors.NotCountedError, match=f"^{next(iter(asked))}.*means over draws"):
        rve.evaluate(protocol(repeats=2), *world(), **asked)


def test_multi_query_averages_features_of_equal_columns() -> None:
    rng = np.random.default_rng(0)
    query = rve.Samples.from_columns(label=[1, 1, 2, 1], camera=[1, 1, 1, 2])
    gallery = rve.Samples.from_columns(label=[1, 2, 1, 2], camera=[2, 2, 1, 3])
    vectors = [rng.normal(size=(4, 5)) for _ in range(2)]
    spec = {"name": "mq", "relevance": {"kind": "label", "different": ["camera"]},
            "multi_query": ["label", "camera"]}  # fmt: skip
    result = rve.evaluate(Protocol.from_dict(spec), query, gallery, rve.Embeddings(*vectors))
    assert result.counts["n_query"] == 3
    pooled = np.stack([vectors[0][:2].mean(axis=0), vectors[0][3], vectors[0][2]])
    plain = Protocol.from_dict({k: v for k, v in spec.items() if k != "multi_query"})
    direct = rve.evaluate(
        plain, rve.Samples.from_columns(label=[1, 1, 2], camera=[1, 2, 1]), gallery,
        rve.Embeddings(pooled, vectors[1]),
    )  # fmt: skip
    assert dict(result.metrics) == pytest.approx(dict(direct.metrics))
    with pytest.raises(rve.NotCountedError, match="features"):
        rve.evaluate(Protocol.from_dict(spec), query, gallery,
                     rve.ScoreMatrix(np.eye(4), higher_is_better=True))  # fmt: skip
    codes = [side > 0 for side in vectors]
    with pytest.raises(rve.NotCountedError, match="binary codes have none"):
        rve.evaluate(Protocol.from_dict(spec), query, gallery, rve.Embeddings(*codes, "hamming"))


def test_multi_query_means_are_as_exact_as_what_is_averaged() -> None:
    """Whole numbers of 32 bits are scored in float64, so their mean is."""
    query = rve.Samples.from_columns(label=[1, 1], camera=[1, 1])
    values = np.array([[2**30, 1], [2**30 + 2, 1]])
    for kind, kept in ((np.int64, np.float64), (np.float64, np.float64), (np.float32, np.float32),
                       (np.int8, np.float32), (">f8", np.float64)):  # fmt: skip
        vectors = (values % 100).astype(kind) if kind is np.int8 else values.astype(kind)
        pooled = rve.alignment.pool_queries(query, rve.Embeddings(vectors, vectors), ["label"])[1]
        assert pooled.query.dtype == kept
        if kept is np.float64:
            assert pooled.query.tolist() == [[2**30 + 1, 1]]


def test_groups_of_a_draw_are_combinations_of_columns() -> None:
    gallery = rve.Samples.from_columns(label=[1, 1, 2], camera=[1, 2, 1])
    assert draw_codes(DrawTable(per=["label", "camera"]), gallery).tolist() == [0, 1, 2]
    with pytest.raises(rve.ProtocolError, match=r"draw\.per"):
        draw_codes(DrawTable(), gallery)


def test_labels_are_drawn_and_distractors_stay() -> None:
    query = rve.Samples.from_columns(label=[1, 2, 3, 4, 5])
    gallery = rve.Samples.from_columns(label=[1, 2, 3, 4, 5, 0, 0, 9])
    seen = set()
    for asking, rows in draws_of(DrawTable(labels=2, repeats=20), query, gallery):
        assert len(asking) == 2
        assert rows.tolist() == [*asking.tolist(), 5, 6, 7]
        seen.add(tuple(asking.tolist()))
    assert len(seen) > 5
    (whole,) = draws_of(DrawTable(labels=9, repeats=1), query, gallery)
    assert [len(part) for part in whole] == [5, 8]


def test_labels_then_items_then_the_rest() -> None:
    samples = rve.Samples.from_columns(label=np.arange(30) % 10)
    table = DrawTable(labels=4, per=["label"], rest=True, repeats=5)
    for asking, rows in draws_of(table, samples, samples):
        assert len(rows) == 4
        assert len(asking) == 8
        assert not set(asking) & set(rows)
        label = samples.values("label")
        assert set(label[asking]) == set(label[rows])


def test_a_draw_of_its_own_for_every_query_agrees_with_the_expectation() -> None:
    """The classic CUHK03 rule: drawn from what the query's own camera does not hold."""
    rng = np.random.default_rng(0)
    label, camera = np.arange(40) % 8, rng.integers(0, 2, 40)
    samples = rve.Samples.from_columns(label=label, camera=camera)
    vectors = rng.normal(size=(8, 6))[label] + rng.normal(size=(40, 6))
    scores = rve.Embeddings(vectors, vectors)

    def run(**draw: Any) -> rve.Result:
        spec = {"name": "c", "relevance": {"kind": "label", "different": ["camera"]},
                "draw": {"per": ["label"], "per_query": True, **draw},
                "report": {"metrics": ["CMC@1", "CMC@3"]}}  # fmt: skip
        return rve.evaluate(Protocol.from_dict(spec), samples, samples, scores)

    exact, sampled = run(method="exact"), run(repeats=60, seed=1)
    assert sampled.draws is not None
    for name in ("CMC@1", "CMC@3"):
        trials = sampled.draws[sampled.draws["metric"] == name]["value"]
        z = (sampled.metrics[name] - exact.metrics[name]) / (trials.std() / np.sqrt(60))
        assert abs(z) < 4, name
