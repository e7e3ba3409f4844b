"""Numbers by a column of the queries and by pairs of cameras, against a literal selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.breakdowns import by_column, stratum_matrix


def world() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    label, camera = rng.integers(0, 6, 20), rng.integers(0, 3, 20)
    g_label, g_camera = rng.integers(0, 7, 70), rng.integers(0, 3, 70)
    scores = rng.integers(0, 9, (20, 70)).astype(float)
    return {
        "query": rve.Samples.from_columns(label=label, camera=camera),
        "gallery": rve.Samples.from_columns(label=g_label, camera=g_camera),
        "scores": scores, "camera": camera, "g_camera": g_camera,
    }  # fmt: skip


def rank(w: dict[str, Any], rows: Any = None, columns: Any = None, **options: Any) -> rve.Ranking:
    rows = np.arange(20) if rows is None else rows
    columns = np.arange(70) if columns is None else columns
    relevance = rve.relevance.same_label(
        w["query"].take(rows), w["gallery"].take(columns), different=["camera"]
    )
    return rve.rank(
        rve.ScoreMatrix(w["scores"][rows][:, columns], higher_is_better=True), relevance, **options
    )


@pytest.mark.parametrize("ties", ["expected", "index", "pessimistic"])
def test_by_column_equals_an_evaluation_of_these_queries(ties: str) -> None:
    w = world()
    table = by_column(rank(w), w["camera"], ["mAP", "CMC@1"], ties=ties)
    for camera in range(3):
        rows = np.flatnonzero(w["camera"] == camera)
        direct = rve.compute(rank(w, rows), ["mAP", "CMC@1"], ties=ties)
        mine = table[table["value"] == camera]
        assert mine["n_query"].tolist() == [len(rows)] * 2
        for _, row in mine.iterrows():
            assert row["mean"] == pytest.approx(direct[row["metric"]], abs=1e-15)


@pytest.mark.parametrize("metric", ["mAP", "CMC@1", "mAP(rule=trapezoid)"])
def test_camera_pairs_equal_an_evaluation_of_this_camera(metric: str) -> None:
    """Positives and negatives of the one gallery camera; queries of the one query camera."""
    w = world()
    matrix = stratum_matrix(rank(w, strata=w["g_camera"]), w["camera"], metric)
    assert matrix.shape == (3, 3)
    for ours in range(3):
        for theirs in range(3):
            rows = np.flatnonzero(w["camera"] == ours)
            columns = np.flatnonzero(w["g_camera"] == theirs)
            found = float(matrix[str(theirs)].to_list()[ours])
            if ours == theirs:
                assert np.isnan(found)
                continue
            relevance = rve.relevance.same_label(
                w["query"].take(rows), w["gallery"].take(columns), different=["camera"]
            )
            scores = rve.ScoreMatrix(w["scores"][rows][:, columns], higher_is_better=True)
            direct = rve.compute(rve.rank(scores, relevance), metric)[metric]
            assert found == pytest.approx(direct, abs=1e-15)


def test_what_cannot_be_broken_down_is_refused() -> None:
    w = world()
    with pytest.raises(rve.NotCountedError, match="no mean over queries"):
        by_column(rank(w), w["camera"], ["MedR"])
    with pytest.raises(rve.NotCountedError, match="strata="):
        stratum_matrix(rank(w), w["camera"], "mAP")
    with pytest.raises(rve.AlignmentError, match="20 queries"):
        by_column(rank(w), [1, 2], ["mAP"])


def test_evaluate_breaks_down_and_saves(tmp_path: Any) -> None:
    w = world()
    scores = rve.ScoreMatrix(w["scores"], higher_is_better=True)
    result = rve.evaluate("labels", w["query"], w["gallery"], scores, by=["camera"])
    assert result.breakdowns is not None
    assert set(result.breakdowns["column"]) == {"camera"}
    assert set(result.breakdowns["value"]) == {0, 1, 2}
    assert "by camera" in str(result)
    result.save(tmp_path / "run")
    loaded = rve.Result.load(tmp_path / "run")
    assert loaded.breakdowns is not None
    assert str(loaded) == str(result)
