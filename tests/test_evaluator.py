"""The evaluator of validation loops: batches in, one result out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.evaluator import Evaluator, plain_array
from reid_vpr_eval.protocol import Protocol

Array = npt.NDArray[Any]

MINE = Protocol.from_dict(
    {
        "name": "mine",
        "relevance": {"kind": "label", "different": ["camera"]},
        "report": {"metric": "euclidean", "metrics": ["mAP", "CMC@1"]},
    }
)


def sides(seed: int = 0) -> dict[str, tuple[Array, dict[str, Array]]]:
    rng = np.random.default_rng(seed)
    out = {}
    for side, n in (("query", 8), ("gallery", 20)):
        table = {"label": np.arange(n) % 4, "camera": np.arange(n) // 4 % 2,
                 "id": np.char.add(side, np.arange(n).astype(str))}  # fmt: skip
        out[side] = (rng.normal(size=(n, 3)).astype(np.float32), table)
    return out


def fill(evaluator: Evaluator, size: int, rows: Any = None) -> None:
    for side, (vectors, table) in sides().items():
        chosen = np.arange(len(vectors)) if rows is None else rows(side, len(vectors))
        for start in range(0, len(chosen), size):
            part = chosen[start : start + size]
            evaluator.update(
                vectors[part], side=side, **{name: values[part] for name, values in table.items()}  # type: ignore[arg-type]
            )


def direct() -> rve.Result:
    (query, ours), (gallery, theirs) = sides().values()
    return rve.evaluate(
        MINE, rve.Samples(ours), rve.Samples(theirs),
        rve.Embeddings(query, gallery, metric="euclidean"),
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 100])
def test_batches_give_what_the_whole_gives(size: int) -> None:
    evaluator = Evaluator(MINE)
    fill(evaluator, size)
    for _ in range(2):
        assert evaluator.compute().document() == direct().document()


def test_options_reach_the_evaluation() -> None:
    evaluator = Evaluator(MINE)
    fill(evaluator, 4)
    result = evaluator.compute(top_k=2, keep_ranking=False)
    assert result.rankings is not None
    assert result.ranking is None


def test_padded_rows_are_left_out_and_said() -> None:
    evaluator = Evaluator(MINE)
    fill(evaluator, 4, rows=lambda _side, n: np.concatenate([np.arange(n), [0, 1, 1]]))
    with pytest.warns(rve.EvaluationWarning, match="3 rows of the (query|gallery) side repeat"):
        result = evaluator.compute()
    assert result.document() == direct().document()


@pytest.mark.parametrize(
    ("change", "what"),
    [({"features": [[9.0, 9.0]]}, "vector"), ({"label": [7]}, "label")],
)
def test_an_id_with_other_content_is_refused(change: dict[str, Any], what: str) -> None:
    evaluator = Evaluator("labels")
    row: dict[str, Any] = {"features": [[1.0, 0.0]], "label": [1], "id": ["a"]}
    evaluator.update(side="query", **row)
    evaluator.update(side="query", **(row | change))
    evaluator.update([[1.0, 0.0]], side="gallery", label=[1], id=["c"])
    says = f"1 id of the query side repeats with another {what}: a"
    with pytest.raises(rve.AlignmentError, match=says):
        evaluator.compute()


def test_rows_without_ids_are_kept_as_they_are() -> None:
    evaluator = Evaluator("labels", metric="dot")
    evaluator.update([[1.0], [1.0]], side="query", label=[1, 1])
    evaluator.update([[1.0], [2.0]], side="gallery", label=[1, 2])
    result = evaluator.compute()
    assert result.counts["n_query"] == 2
    assert result.inputs["metric"] == "dot"


def test_reset_forgets() -> None:
    evaluator = Evaluator(MINE)
    fill(evaluator, 4)
    evaluator.reset()
    with pytest.raises(rve.AlignmentError, match="query side is empty"):
        evaluator.compute()


def test_what_was_given_may_change_afterwards() -> None:
    evaluator = Evaluator("labels")
    vectors, labels = np.eye(2), np.array([1, 2])
    evaluator.update(vectors, side="query", label=labels)
    vectors[:], labels[:] = 5, 5
    evaluator.update(2 * np.eye(2), side="gallery", label=[1, 2])
    assert evaluator.compute().metrics["R@1"] == 1.0


class Tensor:
    """A tensor of another device, of a type that NumPy does not have."""

    dtype = "torch.bfloat16"

    def __init__(self, values: Any) -> None:
        self.values = values
        self.steps: list[str] = []

    def _step(self, name: str) -> Tensor:
        made = Tensor(self.values)
        made.steps = [*self.steps, name]
        return made

    def detach(self) -> Tensor:
        return self._step("detach")

    def cpu(self) -> Tensor:
        return self._step("cpu")

    def float(self) -> Tensor:
        return self._step("float")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        assert self.steps == ["detach", "cpu", "float"]
        return np.asarray(self.values, dtype)


def test_tensors_are_brought_home() -> None:
    assert plain_array(Tensor([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert plain_array([Tensor(1.0), Tensor(2.0)]).tolist() == [1.0, 2.0]
    evaluator = Evaluator("labels")
    evaluator.update(Tensor(np.eye(2)), side="query", label=Tensor([1, 2]))
    evaluator.update(Tensor(2 * np.eye(2)), side="gallery", label=[1, 2])
    assert evaluator.compute().metrics["mAP"] == 1.0


def test_a_vector_that_is_not_finite_names_its_row() -> None:
    evaluator = Evaluator("labels")
    evaluator.update([[0.0, 1.0]] * 3, side="gallery", label=[1, 2, 3])
    with pytest.raises(rve.ScoreError, match="rows 4 of the side"):
        evaluator.update([[0.0, 1.0], [np.inf, 1.0]], side="gallery", label=[1, 2])
    with pytest.raises(rve.NotCountedError, match="'zero'"):
        Evaluator("labels", bad_vectors="zero")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ({"side": "both"}, "side = 'both'"),
        ({"label": [1]}, r"label has the shape \(1,\) in a batch of 2"),
        ({"features": [[1.0, 2.0, 3.0]] * 2}, "3 dimensions, the batches before it 2"),
        ({"camera": [1, 1]}, "has the columns camera, label"),
        ({"label": ["a", "b"]}, "use one kind"),
        ({"features": [1.0, 2.0]}, "real numbers of the shape"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(batch: dict[str, Any], why: str) -> None:
    evaluator = Evaluator("labels")
    row: dict[str, Any] = {"features": [[1.0, 0.0]] * 2, "side": "query", "label": [1, 2]}
    evaluator.update(**row)
    with pytest.raises(ValueError, match=why):
        evaluator.update(**(row | batch))


def test_columns_are_needed_and_empty_batches_are_not_minded() -> None:
    evaluator = Evaluator("labels")
    with pytest.raises(rve.AlignmentError, match="at least one column"):
        evaluator.update([[1.0]], side="query")
    evaluator.update(np.empty((0, 2)), side="query", label=[])
    evaluator.update([[1.0, 0.0]], side="query", label=["a"])
    evaluator.update([[2.0, 0.0]], side="gallery", label=["a"])
    assert evaluator.compute().metrics["R@1"] == 1.0


def test_bad_vectors_stand_last_and_bad_queries_miss() -> None:
    """Equal to a matrix in which these items have the lowest score and these queries fail."""
    rng = np.random.default_rng(0)
    query, gallery = rng.normal(size=(8, 5)), rng.normal(size=(40, 5))
    label, g_label = np.arange(8) % 4, np.arange(40) % 4
    query[2, 1], gallery[[3, 17, 20]] = np.nan, np.inf
    gallery[5] = 0
    evaluator = Evaluator("labels", bad_vectors="last")
    evaluator.update(query, side="query", label=label, id=[f"q{i}" for i in range(8)])
    evaluator.update(gallery, side="gallery", label=g_label, id=[f"g{i}" for i in range(40)])
    result = evaluator.compute()
    good = np.nan_to_num(gallery, posinf=1.0)
    good[5] = 1
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (np.nan_to_num(query), good)]
    matrix = unit[0] @ unit[1].T
    matrix[:, [3, 17, 20, 5]] = -9
    samples = [rve.Samples.from_columns(label=values) for values in (label, g_label)]
    direct = rve.evaluate("labels", *samples, rve.ScoreMatrix(matrix, higher_is_better=True))
    assert result.counts["n_evaluated"] == 8
    for name in result.metrics:
        ours = rve.compute(result.ranking, name, missing_query="zero").per_query(name)
        theirs = rve.compute(direct.ranking, name).per_query(name)
        assert ours[2] == 0
        assert np.delete(ours, 2) == pytest.approx(np.delete(theirs, 2), abs=1e-12)
    ranks = rve.compute(result.ranking, "MeanR", missing_query="zero").per_query("MeanR")
    assert ranks[2] == 41
    with pytest.raises(rve.NotCountedError, match="nothing was returned for 1 queries"):
        rve.compute(result.ranking, "mAP")
