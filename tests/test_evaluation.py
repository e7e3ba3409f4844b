"""The whole pipeline, in Python, on made and on real inputs."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import oracles
import reid_vpr_eval as rve
from reid_vpr_eval.checks import check
from reid_vpr_eval.protocol import Protocol
from shared_inputs import data


def small(seed: int = 0, **columns: Any) -> tuple[rve.Samples, rve.Samples, rve.Embeddings]:
    rng = np.random.default_rng(seed)
    label = np.arange(24) % 6
    query = rve.Samples.from_columns(label=label, camera=np.arange(24) // 6 % 2, **columns)
    gallery = rve.Samples.from_columns(
        label=[*label, *[9] * 6], camera=np.arange(30) // 4 % 3, city=["a", "b"] * 15
    )
    centres = rng.normal(size=(10, 8))
    vectors = [centres[s.values("label")] + 0.8 * rng.normal(size=(s.n, 8))
               for s in (query, gallery)]  # fmt: skip
    return query, gallery, rve.Embeddings(*vectors)


def protocol(**parts: Any) -> Protocol:
    rule = parts.pop("relevance", {})
    return Protocol.from_dict(
        {"name": "mine", "relevance": {"kind": "label", "different": ["camera"], **rule}, **parts}
    )


def test_a_result_holds_what_it_promises() -> None:
    query, gallery, scores = small()
    result = rve.evaluate(protocol(), query, gallery, scores, top_k=3, strata="city")
    assert set(result.counts) == {
        "n_query", "n_evaluated", "n_no_positive", "n_gallery", "n_gallery_ignored",
        "n_gallery_ranked", "n_positive_pairs", "n_ignored_pairs", "n_self_pairs",
        "n_tied_queries", "ceiling",
    }  # fmt: skip
    assert result.metrics["R@1"] == result.metrics["CMC@1"] == result.metrics["Rank-1"]
    made = result.intervals["mAP"]
    assert made is not None
    assert made.low < result.metrics["mAP"] < made.high
    assert (made.unit, made.n_units, made.n) == ("label", 6, 24)
    assert result.interval_reasons == {}
    assert result.ranking is not None
    assert result.ranking.strata == ("a", "b")
    curve = result.curve("CMC", k_max=20)
    assert curve["value"].iloc[0] == result.metrics["CMC@1"]
    assert len(curve) == 20
    assert len(result.per_query) == 24
    assert result.per_query["ap"].mean() == pytest.approx(result.metrics["mAP"])
    assert result.rankings is not None
    assert set(result.rankings["rank"]) == {1, 2, 3}
    first = result.rankings[result.rankings["rank"] == 1]
    assert first["item_id"].tolist() == result.per_query["top1_id"].tolist()
    assert first["positive"].tolist() == result.per_query["top1_correct"].tolist()
    text = str(result)
    assert result.protocol.judging_hash[:12] in text
    assert "24 of 24 queries" in text


def test_top_lists_equal_a_literal_sort() -> None:
    query, gallery, scores = small()
    result = rve.evaluate(protocol(), query, gallery, scores, top_k=7)
    assert result.rankings is not None
    matrix = oracles.canonical_matrix(np.asarray(scores.query), np.asarray(scores.gallery),
                                      "cosine")  # fmt: skip
    relevance = rve.relevance.same_label(query, gallery, different=["camera"])
    for row in range(query.n):
        order = np.argsort(-matrix[row], kind="stable")
        order = order[~np.isin(order, relevance.ignored(row))][:7]
        mine = result.rankings[result.rankings["query_id"] == row]
        assert mine["item_id"].tolist() == order.tolist()
        assert mine["positive"].tolist() == np.isin(order, relevance.positives(row)).tolist()
        assert mine["score"].tolist() == matrix[row][order].tolist()


def test_a_run_folder_reads_back_to_the_same_bytes(tmp_path: Path) -> None:
    query, gallery, scores = small(id=[f"{i:04}" for i in range(24)])
    result = rve.evaluate(protocol(), query, gallery, scores, top_k=2)
    result.save(tmp_path / "a")
    loaded = rve.Result.load(tmp_path / "a")
    loaded.save(tmp_path / "b")
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert names == ["beside.csv", "curves.csv", "environment.json", "per_query.csv", "ranking.npz",
                     "rankings.csv", "result.json"]  # fmt: skip
    assert filecmp.cmpfiles(tmp_path / "a", tmp_path / "b", names, shallow=False)[0] == names
    pd.testing.assert_frame_equal(loaded.per_query, result.per_query, check_dtype=False)
    assert str(loaded) == str(result)
    again = rve.evaluate(protocol(), query, gallery, scores, top_k=2)
    again.save(tmp_path / "c")
    same = [name for name in names if name != "environment.json"]
    assert filecmp.cmpfiles(tmp_path / "a", tmp_path / "c", same, shallow=False)[0] == same
    document = json.loads((tmp_path / "a" / "result.json").read_text())
    assert document["schema"] == "reid_vpr_eval.result"
    assert document["metrics"]["mAP"] == result.metrics["mAP"]


def test_folders_of_other_runs_are_not_overwritten(tmp_path: Path) -> None:
    query, gallery, scores = small()
    rve.evaluate(protocol(), query, gallery, scores).save(tmp_path / "run")
    rve.evaluate(protocol(), query, gallery, scores).save(tmp_path / "run")
    other = rve.evaluate(protocol(), *small(1))
    with pytest.raises(rve.AlignmentError, match="other inputs"):
        other.save(tmp_path / "run")
    changed = rve.evaluate(protocol(relevance={"different": []}), query, gallery, scores)
    with pytest.raises(rve.AlignmentError, match="another protocol"):
        changed.save(tmp_path / "run")
    changed.save(tmp_path / "run", overwrite=True)
    assert rve.Result.load(tmp_path / "run").protocol.resolved() == changed.protocol.resolved()


def test_damaged_run_folders(tmp_path: Path) -> None:
    with pytest.raises(rve.FormatError, match="is no run folder"):
        rve.Result.load(tmp_path)
    rve.evaluate(protocol(), *small()).save(tmp_path / "run")
    whole = (tmp_path / "run" / "result.json").read_text()
    for text, why in ((whole[:100], "damaged"), ("[]", "object"), ('{"schema": "x"}', "schema")):
        (tmp_path / "run" / "result.json").write_text(text)
        with pytest.raises(rve.FormatError, match=why):
            rve.Result.load(tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text(whole)
    (tmp_path / "run" / "ranking.npz").write_bytes(b"nonsense")
    with pytest.raises(rve.FormatError, match="ranking"):
        rve.Result.load(tmp_path / "run")


def test_a_result_without_counts_says_so(tmp_path: Path) -> None:
    result = rve.evaluate(protocol(), *small(), keep_ranking=False)
    assert result.ranking is None
    assert len(result.curve("CMC", k_max=50)) == 50
    with pytest.raises(rve.NotCountedError, match="needs the counts"):
        result.curve("CMC", k_max=60)
    result.save(tmp_path / "run")
    assert not (tmp_path / "run" / "ranking.npz").exists()
    assert rve.Result.load(tmp_path / "run").ranking is None


@pytest.mark.parametrize("policy", ["skip", "zero", "one"])
def test_queries_without_a_positive_are_counted_and_printed(policy: str) -> None:
    query, gallery, scores = small()
    query = query.with_columns(label=np.where(np.arange(24) < 6, 77, query.values("label")))
    result = rve.evaluate(protocol(evaluation={"no_positive": policy}), query, gallery, scores)
    assert result.counts["n_no_positive"] == 6
    assert result.counts["n_evaluated"] == (18 if policy == "skip" else 24)
    assert result.counts["ceiling"] == (0.75 if policy == "zero" else 1.0)
    assert f"6 without a positive: {policy}" in str(result)


def test_macro_averages_over_groups_first() -> None:
    query, gallery, scores = small()
    query = query.with_columns(camera=[0] * 20 + [1] * 4)
    plain = rve.evaluate(protocol(), query, gallery, scores)
    macro = rve.evaluate(protocol(evaluation={"macro": ["camera"]}), query, gallery, scores)
    ap = plain.per_query["ap"].to_numpy()
    assert macro.metrics["mAP"] == pytest.approx((ap[:20].mean() + ap[20:].mean()) / 2)


def test_expected_counts_are_checked_before_scoring() -> None:
    query, gallery, scores = small()
    wrong = protocol(expected={"n_query": 24, "n_gallery": [31, 99]})
    with pytest.raises(rve.ProtocolError, match=r"n_gallery is 30, published 31 or 99 \(-1\)"):
        rve.evaluate(wrong, query, gallery, scores)
    with pytest.warns(rve.EvaluationWarning, match="n_gallery is 30"):
        rve.evaluate(wrong, query, gallery, scores, expected="warn")
    rve.evaluate(wrong, query, gallery, scores, expected="ignore")
    rve.evaluate(protocol(expected={"n_gallery": [31, 30]}), query, gallery, scores)


def test_no_positive_at_all_names_the_rule_that_removed_them() -> None:
    query = rve.Samples.from_columns(label=[1, 2], camera=[1, 2])
    gallery = rve.Samples.from_columns(label=[1, 2], camera=[1, 2])
    scores = rve.ScoreMatrix(np.eye(2), higher_is_better=True)
    with pytest.raises(rve.RelevanceError, match=r"2 of them were removed for the same camera"):
        rve.evaluate(protocol(), query, gallery, scores)


def test_sizes_that_do_not_fit_are_refused() -> None:
    query, gallery, scores = small()
    with pytest.raises(rve.AlignmentError, match="24 query rows, the samples 23"):
        rve.evaluate(protocol(), query.take(range(23)), gallery, scores)
    with pytest.raises(rve.AlignmentError, match="30 gallery rows, the samples 29"):
        rve.evaluate(protocol(), query, gallery.take(range(29)), scores)
    lists = rve.RankedLists([[0]] * 5)
    with pytest.raises(rve.AlignmentError, match="5 ranked lists for 24"):
        rve.evaluate(protocol(), query, gallery, lists)


def test_where_filters_samples_and_scores_together() -> None:
    query, gallery, scores = small()
    spec = protocol(gallery={"where": {"city": "a"}})
    rows = np.arange(0, 30, 2)
    filtered = rve.evaluate(spec, query, gallery, scores)
    direct = rve.evaluate(protocol(), query, gallery.take(rows),
                          scores.take(np.arange(24), rows))  # fmt: skip
    assert dict(filtered.metrics) == dict(direct.metrics)
    assert filtered.counts["n_gallery"] == 15


def test_one_object_on_both_sides_finds_itself_never() -> None:
    rng = np.random.default_rng(0)
    samples = rve.Samples.from_columns(label=np.arange(20) % 5)
    vectors = rng.normal(size=(20, 4))
    result = rve.evaluate("labels", samples, samples, rve.Embeddings(vectors, vectors))
    assert result.counts["n_self_pairs"] == 20
    assert result.counts["n_ignored_pairs"] == 0
    table = pd.DataFrame({"label": np.arange(20) % 5})
    again = rve.evaluate("labels", table, table, rve.Embeddings(vectors, vectors))
    assert dict(again.metrics) == dict(result.metrics)
    apart = rve.Samples.from_columns(label=np.arange(20) % 5)
    with pytest.warns(rve.EvaluationWarning, match="every query will find itself"):
        rve.evaluate("labels", samples, apart, rve.Embeddings(vectors, vectors.copy()))


def test_lists_of_ids_are_matched_and_ordered_by_id() -> None:
    query = rve.Samples.from_columns(label=[1], id=["q"])
    gallery = rve.Samples.from_columns(label=[2, 1, 2], id=["d1", "d2", "d3"])
    lists = rve.RankedLists([["d1", "d2", "d3"]], [[1.0, 1.0, 1.0]])
    result = rve.evaluate("labels", query, gallery, lists, tie_order="id_desc")
    assert result.ranking is not None
    assert result.ranking.tie_order == "id_desc"
    assert result.ties["CMC@1"]["index"] == 0
    assert result.per_query["top1_id"].tolist() == ["d3"]
    with pytest.raises(rve.AlignmentError, match="'d9'"):
        rve.evaluate("labels", query, gallery, rve.RankedLists([["d9"]]))
    with pytest.raises(rve.AlignmentError, match="no column 'id'"):
        rve.evaluate("labels", query.without(["id"]), gallery.without(["id"]), lists)


def test_ties_are_bounded_and_index_order_is_shown() -> None:
    query = rve.Samples.from_columns(label=[1, 2])
    gallery = rve.Samples.from_columns(label=[1, 2, 3, 3])
    scores = rve.ScoreMatrix(np.zeros((2, 4)), higher_is_better=True)
    result = rve.evaluate("labels", query, gallery, scores)
    bounds = result.ties["CMC@1"]
    assert (bounds["pessimistic"], bounds["expected"], bounds["optimistic"]) == (0, 0.25, 1)
    assert result.counts["n_tied_queries"] == 2
    assert "equal scores in 2 queries" in str(result)
    assert "in gallery order" in str(result)


def test_places_report_the_metres_of_the_first_answer() -> None:
    query = rve.Samples.from_columns(east=[500000.0, 500100.0], north=[0.0, 0.0])
    gallery = rve.Samples.from_columns(east=[500003.0, 500104.0], north=[4.0, 3.0])
    scores = rve.ScoreMatrix([[1.0, 0.0], [1.0, 0.0]], higher_is_better=True)
    result = rve.evaluate("places", query, gallery, scores)
    assert result.per_query["top1_error_m"].tolist() == pytest.approx([5.0, np.hypot(97, 4)])
    assert result.per_query["top1_correct"].tolist() == [True, False]
    degrees = [rve.Samples.from_columns(lat=[0.0], lon=[lon]) for lon in (0.0, 0.0001)]
    one = rve.ScoreMatrix([[1.0]], higher_is_better=True)
    near = rve.evaluate("places", *degrees, one)
    assert near.per_query["top1_error_m"].iloc[0] == pytest.approx(11.1319, abs=1e-3)


# Real inputs


@pytest.fixture(scope="module")
def market() -> dict[str, Any]:
    """The real labels of Market-1501 with generated features."""
    from scipy.io import loadmat

    arrays = {}
    for name in ("queryID", "queryCam", "testID", "testCam"):
        content = loadmat(data(f"labels/market1501/{name}.mat"))
        arrays[name] = next(v for k, v in content.items() if not k.startswith("_")).ravel()
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(1502, 24)).astype(np.float32)
    vectors = [
        (centres[arrays[name]] + 1.1 * rng.normal(size=(len(arrays[name]), 24))).astype(np.float32)
        for name in ("queryID", "testID")
    ]
    query = rve.Samples.from_columns(label=arrays["queryID"], camera=arrays["queryCam"])
    gallery = rve.Samples.from_columns(label=arrays["testID"], camera=arrays["testCam"])
    return {"query": query, "gallery": gallery, "vectors": vectors, **arrays}


@pytest.mark.slow
def test_market1501_has_its_published_counts(market: dict[str, Any]) -> None:
    scores = rve.Embeddings(*market["vectors"])
    result = rve.evaluate("market1501", market["query"], market["gallery"], scores)
    counts = result.counts
    assert counts["n_query"] == counts["n_evaluated"] == 3368
    assert counts["n_gallery"] == 19732
    assert counts["n_gallery_ignored"] == 3819
    assert counts["n_gallery_ranked"] == 15913
    assert counts["n_positive_pairs"] == 49649
    assert counts["n_ignored_pairs"] == 13115
    assert counts["n_positive_pairs"] / 3368 == pytest.approx(14.741, abs=5e-4)


def test_the_junk_of_market1501_changes_no_number(market: dict[str, Any]) -> None:
    """Of every eighth query: with the rows that are no person, and without them."""
    query, vectors = market["query"].take(np.arange(0, 3368, 8)), market["vectors"][0][::8]
    results = [
        rve.evaluate("market1501", query, market["gallery"].take(keep),
                     rve.Embeddings(vectors, market["vectors"][1][keep]), expected="ignore")
        for keep in (np.ones(19732, bool), market["testID"] != -1)
    ]  # fmt: skip
    assert [one.counts["n_gallery"] for one in results] == [19732, 15913]
    assert dict(results[0].metrics) == dict(results[1].metrics)
    ties = [{t: dict(v) for t, v in one.ties.items()} for one in results]
    assert ties[0] == ties[1]
    persons = market["gallery"].take(market["testID"] != -1)
    assert check(rve.load_protocol("market1501"), market["query"], persons).wrong == []


@pytest.mark.slow
def test_market1501_equals_the_literal_oracle(market: dict[str, Any]) -> None:
    names = ["mAP", "mAP(rule=trapezoid)", "mINP", "MRR", "R-precision", "MAP@R", "MedR", "MeanR",
             "CMC@1", "CMC@5", "CMC@10", "CMC@20", "IR-recall@10", "P@10"]  # fmt: skip
    query, gallery = market["vectors"]
    judgement = oracles.same_label_literal(
        market["queryID"], market["testID"], market["queryCam"], market["testCam"], [-1]
    )
    relevance = rve.relevance.same_label(
        market["query"], market["gallery"], different=["camera"],
        ignore=[{"gallery": {"label": [-1]}}],
    )  # fmt: skip
    ranking = rve.rank(rve.Embeddings(query, gallery), relevance)
    matrix = canonical_rows(query, gallery)
    for ties in ("expected", "index"):
        values = rve.compute(ranking, names, ties=ties)
        literal, _ = oracles.evaluate_literal(matrix, *judgement, names, ties)
        for name in names:
            assert values[name] == pytest.approx(literal[name], abs=1e-12), (ties, name)


def canonical_rows(query: npt.NDArray[Any], gallery: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """All canonical cosine scores, a query at a time."""
    ours, theirs = (
        np.stack([oracles.normalised(v) for v in side]).astype(float) for side in (query, gallery)
    )
    return np.stack([oracles.tree_sum(row * theirs) for row in ours])


@pytest.mark.parametrize(
    ("name", "file", "pairs", "smallest", "largest"),
    [("pitts30k-test", "pitts30k_test", 968_448, 24, 360), ("tokyo247", "tokyo247", 37_260, 48,
                                                           240)],
)  # fmt: skip
def test_places_have_their_published_counts(
    name: str, file: str, pairs: int, smallest: int, largest: int
) -> None:
    arrays = np.load(data(f"places/patch_netvlad/{file}.npz"))
    sides = [rve.Samples.from_columns(east=arrays[k][:, 0], north=arrays[k][:, 1])
             for k in ("utmQ", "utmDb")]  # fmt: skip
    relevance = rve.relevance.within_metres(*sides, radius=25.0)
    counts = relevance.n_positive
    assert (counts.sum(), counts.min(), counts.max()) == (pairs, smallest, largest)
    rng = np.random.default_rng(0)
    scores = rve.Embeddings(*(rng.normal(size=(side.n, 4)).astype(np.float32) for side in sides))
    result = rve.evaluate(name, *sides, scores, keep="first")
    assert result.counts["n_positive_pairs"] == pairs
    for metric in ("CMC@1", "CMC@20"):
        assert result.metrics[metric] == pytest.approx(result.chance[metric], abs=0.03)


@pytest.mark.parametrize(("different", "first"), [([], 0.716), (["camera"], 0.273)])
def test_tower_frames(different: list[str], first: float) -> None:
    """Frames of the query's own clip make a floor look far easier than it is."""
    side = {"columns": {"label": "floor", "camera": "clip"}}
    tower = Protocol.from_dict(
        {
            "name": "tower",
            "query": {**side, "where": {"split": "query"}},
            "gallery": {**side, "where": {"split": "gallery"}},
            "relevance": {"kind": "label", "different": different},
        }
    )
    samples = rve.Samples(pd.read_csv(data("places/ietower/index.csv")))
    vectors = np.load(data("places/ietower/mobilenetv2_6floors.npz"))["features"]
    assert vectors.dtype == np.float16
    result = rve.evaluate(tower, samples, samples, rve.Embeddings(vectors, vectors))
    assert result.metrics["R@1"] == pytest.approx(first, abs=5e-4)


def test_further_radii_are_read_from_the_same_pass() -> None:
    rng = np.random.default_rng(0)
    sides = [rve.Samples.from_columns(east=rng.uniform(0, 200, n), north=np.zeros(n))
             for n in (30, 80)]  # fmt: skip
    scores = rve.Embeddings(*(rng.normal(size=(side.n, 4)) for side in sides))

    def places(radius: Any, metrics: list[str]) -> Any:
        spec = {"name": "p", "relevance": {"kind": "within", "radius": radius},
                "report": {"metrics": metrics}}  # fmt: skip
        return rve.evaluate(Protocol.from_dict(spec), *sides, scores)

    several = places([25.0, 10.0, 50.0], ["CMC@5", "CMC@5(radius=10)", "mAP(radius=50)"])
    for radius, base in ((10.0, "CMC@5"), (50.0, "mAP"), (25.0, "CMC@5")):
        alone = places(radius, [base])
        name = base if radius == 25 else f"{base}(radius={radius:g})"
        assert several.metrics[name] == alone.metrics[base]
        assert several.ties[name] == alone.ties[base]
        assert several.chance[name] == alone.chance[base]
    with pytest.raises(rve.NotCountedError, match=r"relevance\.at\(10\)"):
        rve.compute(several.ranking, "CMC@5(radius=10)")


def test_lists_left_to_the_user_are_given_as_truth(tmp_path: Path) -> None:
    spec = Protocol.from_dict({"name": "l", "relevance": {"kind": "listed"},
                               "report": {"metrics": ["mAP"]}})  # fmt: skip
    query = rve.Samples.from_columns(id=["a", "b"])
    gallery = rve.Samples.from_columns(id=["x", "y", "z"])
    scores = rve.ScoreMatrix([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], higher_is_better=True)
    truth = {"a": {"positive": ["y"]}, "b": {"positive": ["z"], "ignored": ["y"]}}
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    result = rve.evaluate(spec, query, gallery, scores, truth=path)
    assert result.metrics["mAP"] == 0.75
    with pytest.raises(rve.ProtocolError, match="truth"):
        rve.evaluate(spec, query, gallery, scores)


def labelled(n: int, **columns: Any) -> rve.Samples:
    return rve.Samples.from_columns(label=np.arange(n) % 3, **columns)


@pytest.mark.parametrize("wrong", [np.eye(6), (np.eye(6), np.eye(6)), [[0, 1]], "scores.npy"])
def test_scores_of_another_type_are_refused_with_the_three_that_fit(wrong: Any) -> None:
    says = r"rve\.Embeddings.*rve\.ScoreMatrix.*RankedLists"
    with pytest.raises(rve.errors.AlignmentError, match=says):
        rve.evaluate("labels", labelled(6), labelled(6), wrong)


def test_scores_of_the_wrong_direction_are_pointed_out() -> None:
    labels = np.arange(60) % 3
    distance = (labels[:, None] != labels[None]) + np.random.default_rng(0).random((60, 60)) / 2
    query, gallery = labelled(60, id=range(60)), labelled(60, id=range(100, 160))
    for higher, told in ((True, True), (False, False)):
        scores = rve.ScoreMatrix(distance, higher_is_better=higher)
        text = str(rve.evaluate("labels", query, gallery, scores))
        assert ("is below chance" in text) == told


@pytest.mark.parametrize(
    ("columns", "called"),
    [
        ({"path": ["a", "b", "c", "d"]}, ["a", "b", "c", "d"]),
        ({"path": ["a", "a", "c", "d"]}, [0, 1, 2, 3]),
        ({"path": ["a", "b", "c", "d"], "id": [9, 8, 7, 6]}, [9, 8, 7, 6]),
        ({}, [0, 1, 2, 3]),
    ],
)
def test_rows_are_called_by_id_then_path_then_number(columns: Any, called: list[Any]) -> None:
    gallery = labelled(7)
    features = rve.Embeddings(np.eye(7)[:4], np.eye(7))
    result = rve.evaluate("labels", labelled(4, **columns), gallery, features, expected="ignore")
    assert result.per_query["query_id"].tolist() == called


# --- more judged pairs than are kept ---------------------------------------------------------


@pytest.mark.parametrize("by", [(), ("camera",)])
@pytest.mark.parametrize("where", ["none", "first", "middle", "last"])
@pytest.mark.parametrize("protocol", ["labels", "cameras"])
def test_blocks_of_queries_give_the_same_result(
    monkeypatch: pytest.MonkeyPatch, protocol: str, where: str, by: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(3)
    label = np.arange(60) % 4
    lone = list({"none": range(0), "first": range(3), "middle": range(27, 33),
                 "last": range(57, 60)}[where])  # fmt: skip
    label[lone] = 10 + np.arange(len(lone))  # a block of these may have no positive at all
    samples = rve.Samples.from_columns(label=label, camera=rng.integers(0, 3, 60))
    vectors = (np.eye(16)[label] + rng.normal(size=(60, 16)).round(1)).astype(np.float32)
    scores = rve.Embeddings(vectors, vectors)
    rule: dict[str, Any] = {"kind": "label"}
    if protocol == "cameras":
        rule["different"] = ["camera"]
    made = rve.Protocol.from_dict({
        "name": "dense", "relevance": rule,
        "report": {"metrics": ["mAP", "CMC@1", "mINP", "MeanR", "NDCG@5"]},
        "expected": {"n_query": 60},
    })  # fmt: skip
    whole = rve.evaluate(made, samples, samples, scores, by=by, top_k=3, keep_ranking=True)
    monkeypatch.setattr("reid_vpr_eval.evaluation.gallery._KEPT_PAIRS", 300)
    monkeypatch.setattr("reid_vpr_eval.dense._PAIRS_AT_ONCE", 60)
    steps: list[tuple[int, int]] = []
    parts = rve.evaluate(made, samples, samples, scores, by=by, top_k=3,
                         progress=lambda done, total: steps.append((done, total)))  # fmt: skip
    assert parts.ranking is None
    assert len(steps) > 3
    assert steps[-1][0] == steps[-1][1]
    assert parts.document() == whole.document()
    pd.testing.assert_frame_equal(parts.per_query, whole.per_query)
    assert parts.rankings is not None
    assert whole.rankings is not None
    pd.testing.assert_frame_equal(parts.rankings, whole.rankings)
    if by:
        assert parts.breakdowns is not None
        assert whole.breakdowns is not None
        pd.testing.assert_frame_equal(parts.breakdowns, whole.breakdowns)


def test_blocks_of_queries_refuse_what_needs_all_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = rve.Samples.from_columns(label=np.zeros(30, int))
    scores = rve.Embeddings(np.eye(30), np.eye(30))
    made = rve.Protocol.from_dict({"name": "dense", "relevance": {"kind": "label"},
                                   "report": {"metrics": ["MedR"]}})  # fmt: skip
    monkeypatch.setattr("reid_vpr_eval.evaluation.gallery._KEPT_PAIRS", 10)
    with pytest.raises(rve.NotCountedError, match="MedR needs the counts of all queries"):
        rve.evaluate(made, samples, samples, scores)
