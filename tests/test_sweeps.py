"""rve sweep: saved runs, pools in files, figures, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import reid_vpr_eval as rve
from reid_vpr_eval.cli import app
from reid_vpr_eval.report.figures import SweepDisplay, figure_bytes
from reid_vpr_eval.sweeps import SweepOptions, read_sizes, sweep_run, units_in

D = 12


def features(rng: np.random.Generator, label: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    centre = np.random.default_rng(9).normal(size=(60, D))
    return np.asarray(centre[label] + 0.9 * rng.normal(size=(len(label), D)), np.float32)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queries and a gallery with samples, pools of several kinds, and a saved run."""
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(0)
    query, gallery = np.repeat(np.arange(1, 13), 2), np.repeat(np.arange(1, 21), 4)
    gallery[-12:] = 0
    for name, label, camera in (("query", query, 1), ("gallery", gallery, 2)):
        np.savez(folder / f"{name}.npz", features=features(rng, label), label=label,
                 camera=np.full(len(label), camera))  # fmt: skip
    (folder / "shards").mkdir()
    for part in range(3):
        np.save(folder / "shards" / f"part{part}.npy", rng.normal(size=(40, D)).astype(np.float32))
    other = rng.integers(30, 50, 30)
    np.savez(folder / "other.npz", features=features(rng, other), label=other,
             camera=np.full(30, 2))  # fmt: skip
    shared = np.array([30, 5, 31])
    np.savez(folder / "shared.npz", features=features(rng, shared), label=shared,
             camera=np.full(3, 3))  # fmt: skip
    sides = [rve.Samples.from_columns(label=label, camera=np.full(len(label), camera))
             for label, camera in ((query, 1), (gallery, 2))]  # fmt: skip
    vectors = [np.load(folder / f"{name}.npz")["features"] for name in ("query", "gallery")]
    scores = rve.Embeddings(*vectors)
    result = rve.evaluate("labels", *sides, scores)
    result.save(folder / "run")
    first = rve.rank(scores, rve.relevance.same_label(*sides), keep="first")
    replace(result, ranking=first).save(folder / "first")
    result.save(folder / "bare")
    (folder / "bare" / "ranking.npz").unlink()
    return folder


def sweep(*words: object) -> Any:
    return CliRunner().invoke(app, ["sweep", *map(str, words)])


def files(world: Path, *more: object) -> Any:
    return sweep("labels", "--query", world / "query.npz", "--gallery",
                 world / "gallery.npz", *more)  # fmt: skip


def table(result: Any) -> pd.DataFrame:
    assert result.exit_code == 0, result.output
    from io import StringIO

    return pd.read_csv(StringIO(result.stdout), sep="\t")


def test_sizes_are_read_as_people_write_them() -> None:
    assert read_sizes("0, 1k,2.5K,0.5M,all", 7) == [0, 7, 1000, 2500, 500_000]
    for wrong in ("1x", "0.5", "-3", "k"):
        with pytest.raises(rve.ProtocolError, match="is no number of distractors"):
            read_sizes(wrong, 7)


def test_a_saved_run_is_swept_without_features(world: Path) -> None:
    curve = table(sweep(world / "run", "--format", "tsv", "--metric", "mAP", "--sizes", "0,all"))
    run = rve.Result.load(world / "run")
    assert curve["value"].iloc[-1] == pytest.approx(run.metrics["mAP"], abs=1e-12)
    assert curve["value"].iloc[0] == 1.0
    band = run.intervals["mAP"]
    assert band is not None
    assert (curve["low"].iloc[-1], curve["high"].iloc[-1]) == (
        pytest.approx(band.low, abs=1e-9), pytest.approx(band.high, abs=1e-9))  # fmt: skip
    assert (curve["low"] <= curve["value"]).all()
    assert (curve["high"] >= curve["value"]).all()
    alone = table(sweep(world / "run" / "ranking.npz", "--format", "tsv", "--metric", "mAP",
                        "--sizes", "0,all"))  # fmt: skip
    assert (alone["value"] == curve["value"]).all()


def test_the_default_curve_ends_at_the_run_itself(world: Path) -> None:
    swept = sweep_run(world / "run", SweepOptions())
    run = rve.Result.load(world / "run")
    last = swept.curve[swept.curve["size"] == swept.curve["size"].max()]
    for name, value in zip(last["metric"], last["value"], strict=True):
        assert value == pytest.approx(run.metrics[name], abs=1e-12)


@pytest.mark.parametrize("pool", ["shards", "other.npz", "shards/part*.npy"])
def test_pools_in_files_equal_a_gallery_that_holds_them(world: Path, pool: str) -> None:
    curve = table(files(world, "--distractors", world / pool, "--metric", "mAP", "--metric",
                        "CMC@1", "--sizes", "0,10,all", "--format", "tsv"))  # fmt: skip
    parts = [np.load(path)["features"] if path.suffix == ".npz" else np.load(path)
             for path in sorted(world.glob("other.npz" if "other" in pool else "shards/*.npy"))]
    stored = {name: np.load(world / f"{name}.npz") for name in ("query", "gallery")}
    vectors = np.concatenate([stored["gallery"]["features"], *parts])
    extra = len(vectors) - len(stored["gallery"]["label"])
    plain = rve.evaluate(
        "labels",
        rve.Samples.from_columns(label=stored["query"]["label"], camera=stored["query"]["camera"]),
        rve.Samples.from_columns(label=np.r_[stored["gallery"]["label"], np.full(extra, 99)],
                                 camera=np.r_[stored["gallery"]["camera"], np.full(extra, 9)]),
        rve.Embeddings(stored["query"]["features"], vectors),
    )  # fmt: skip
    last = curve[curve["size"] == extra].set_index("metric")["value"]
    first = curve[curve["size"] == 0].set_index("metric")["value"]
    run = rve.Result.load(world / "run")
    for name in ("mAP", "CMC@1"):
        assert last[name] == pytest.approx(plain.metrics[name], abs=1e-12)
        assert first[name] == pytest.approx(run.metrics[name], abs=1e-12)
    assert set(curve["gallery"]) == {80, 90, 80 + extra}


def test_a_label_of_the_gallery_can_be_the_pool(world: Path) -> None:
    curve = table(files(world, "--distractor-label", "0000", "--sizes", "0,all", "--metric", "mAP",
                        "--format", "tsv"))  # fmt: skip
    run = rve.Result.load(world / "run")
    assert curve["value"].iloc[-1] == pytest.approx(run.metrics["mAP"], abs=1e-12)
    assert curve["gallery"].tolist() == [68, 80]
    own = table(files(world, "--sizes", "all", "--metric", "mAP", "--format", "tsv"))
    assert own["value"].iloc[-1] == pytest.approx(run.metrics["mAP"], abs=1e-12)


def test_positives_in_the_pool_are_refused_unless_it_is_said_what_they_are(world: Path) -> None:
    found = files(world, "--distractors", world / "shared.npz")
    assert found.exit_code == 1
    assert "1 row of the pool is a right answer" in found.output
    assert "pool row 1" in found.output
    assert "label 5" in found.output
    values = {}
    for word in ("keep", "ignore"):
        curve = table(files(world, "--distractors", world / "shared.npz", "--pool-positives", word,
                            "--sizes", "0,all", "--metric", "mAP", "--format", "tsv"))  # fmt: skip
        values[word] = curve["value"].tolist()
    run = rve.Result.load(world / "run")
    assert values["ignore"][0] == pytest.approx(run.metrics["mAP"], abs=1e-12)
    assert values["keep"] != values["ignore"]


def test_distractors_that_are_in_the_gallery_are_reported(world: Path, tmp_path: Path) -> None:
    twice = np.load(world / "gallery.npz")["features"][:3]
    np.save(tmp_path / "pool.npy", np.concatenate([np.ones((2, D), np.float32), twice]))
    found = files(world, "--distractors", tmp_path / "pool.npy", "--sizes", "0")
    assert found.exit_code == 0
    assert "3 of 5 distractors are vectors of the gallery" in found.output
    assert "pool row 2 and gallery row 0" in found.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bare"], "holds no ranking.npz"),
        (["first", "--metric", "mAP"], "keep='all'"),
        (["run", "--sizes", "1M"], "is a forecast by a model (forecast=True, --forecast)"),
        (["run", "--sizes", "many"], "is no number of distractors"),
        (["run", "--pool", "camera"], "nor a stratum of this ranking"),
        (["run", "--metric", "mAP@5(divisor=hits)"], "ratio of two sums"),
        (["run", "--metric", "MedR"], "a median"),
        (["run", "--metric", "CMC@1(by=camera)"], "ranks groups"),
    ],
)
def test_what_a_run_cannot_answer_is_said(world: Path, words: list[str], message: str) -> None:
    found = sweep(world / words[0], *words[1:])
    assert found.exit_code in (1, 2)
    assert message in found.output
    assert "Traceback" not in found.output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--distractor-label", "77"], "no gallery row has the label 77"),
        (["--distractor-label", "x"], "labels are whole numbers"),
        (["--distractors", "nowhere.npy"], "nowhere.npy"),
    ],
)
def test_pools_that_cannot_be_are_refused(world: Path, more: list[str], message: str) -> None:
    found = files(world, *more)
    assert found.exit_code == 1
    assert message in found.output


def test_an_empty_pool_and_other_vectors_are_refused(world: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "empty.npy", np.ones((0, D), np.float32))
    np.save(tmp_path / "wide.npy", np.ones((4, D + 1), np.float32))
    for name, message in (("empty", "empty"), ("wide", "distractors of 13 numbers")):
        found = files(world, "--distractors", tmp_path / f"{name}.npy")
        assert found.exit_code == 1
        assert message in found.output.replace("\n", " ")


def test_the_first_run_counted_for_rank_1_is_swept_for_it(world: Path) -> None:
    curve = table(sweep(world / "first", "--metric", "CMC@1", "--sizes", "0,all", "--format",
                        "tsv"))  # fmt: skip
    run = rve.Result.load(world / "run")
    assert curve["value"].iloc[-1] == pytest.approx(run.metrics["CMC@1"], abs=1e-12)


def test_wrong_usage_says_what_is_right(world: Path) -> None:
    found = sweep("market1501")
    assert found.exit_code == 2
    assert "is no run folder" in found.output
    found = sweep(world / "run", "--distractor-label", "0")
    assert found.exit_code == 2
    assert sweep(world / "run", "--names", "a,b").exit_code == 2


def test_several_models_make_one_figure_and_the_same_bytes(world: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        found = sweep(world / "run", world / "run", "--names", "osnet,resnet", "--out",
                      tmp_path / name, "--metric", "mAP", "--sizes", "0,10,all")  # fmt: skip
        assert found.exit_code == 0, found.output
    written = sorted(path for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert {path.name for path in written} == {"sweep.csv", "sweep.json", "sweep.svg", "sweep.png"}
    for path in written:
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")
                                     ).read_bytes()  # fmt: skip
    document = json.loads((tmp_path / "one" / "sweep.json").read_text())
    assert [run["name"] for run in document["runs"]] == ["osnet", "resnet"]
    assert document["seed"] == 0
    assert set(pd.read_csv(tmp_path / "one" / "sweep.csv")["model"]) == {"osnet", "resnet"}


def test_a_ranking_of_files_is_kept_and_swept_again(world: Path, tmp_path: Path) -> None:
    words = ["--sizes", "0,50,all", "--metric", "mAP", "--format", "tsv"]
    first = table(files(world, "--distractors", world / "shards", "--out", tmp_path / "o", *words))
    again = table(sweep(tmp_path / "o" / "ranking.npz", *words))
    assert (first["value"] == again["value"]).all()


def test_the_figure_holds_lines_bands_and_the_base(world: Path) -> None:
    curve = sweep_run(world / "run", SweepOptions(metrics=["mAP", "MeanR"], forecast=True)).curve
    assert set(curve["kind"]) == {"exact", "forecast"}
    shown = SweepDisplay.from_curves([curve, curve], ["a", "b$x$"]).plot()
    assert shown.ax_ is not None
    assert shown.figure_ is not None
    assert shown.ax_.get_xscale() == "log"
    assert shown.ax_.get_legend() is not None
    assert "forecast" in shown.caption
    assert "95 % over queries" in shown.caption
    assert shown.spoken().count("items") == 4
    again = SweepDisplay.from_curves([curve, curve], ["a", "b$x$"]).plot().figure_
    assert again is not None
    assert figure_bytes(shown.figure_, "svg") == figure_bytes(again, "svg")
    with pytest.raises(rve.AlignmentError, match="one each is needed"):
        SweepDisplay.from_curves([curve], [])
    with pytest.raises(rve.AlignmentError, match="no metric in common"):
        SweepDisplay.from_curves([curve], ["a"], ["CMC@7"])


def test_the_benchmark_measures_a_curve_that_ends_at_the_plain_run() -> None:
    from benchmarks.sweeps import measure

    found = measure(9, ("mAP", "CMC@1"), n_query=20, n_pairs=90, n_base=200, n_pool=3000)
    assert found["sizes"] == 9
    assert found["error_at_the_full_pool"] < 1e-12


def test_brackets_are_explained_where_there_are_some(world: Path, tmp_path: Path) -> None:
    """One query has no interval of AP, so nothing is said of brackets."""
    both = CliRunner().invoke(app, ["sweep", str(world / "run"), "--sizes", "0,5"])
    assert "[" in both.stdout
    assert "in brackets: 95 %" in both.stdout
    scores = rve.ScoreMatrix([[0.9, 0.8, 0.5, 0.3]], higher_is_better=True)
    sides = [rve.Samples.from_columns(label=label) for label in ([1], [2, 1, 2, 2])]
    rve.evaluate("labels", *sides, scores).save(tmp_path / "one")
    one = CliRunner().invoke(app, ["sweep", str(tmp_path / "one"), "--metric", "mAP",
                                   "--sizes", "0,2"])  # fmt: skip
    assert one.exit_code == 0
    assert "[" not in one.stdout
    assert "brackets" not in one.stdout


@pytest.mark.parametrize("call", [lambda thing: rve.compute(thing, ["mAP"]),
                                  lambda thing: rve.distractor_curve(thing, [0])])  # fmt: skip
def test_what_is_no_ranking_is_told_where_one_is(world: Path, call: Any) -> None:
    for thing in (rve.Result.load(world / "run"), str(world / "run")):
        with pytest.raises(rve.FormatError, match=r"result\.ranking"):
            call(thing)


def test_two_runs_go_in_one_list(world: Path) -> None:
    run = rve.Result.load(world / "run")
    with pytest.raises(rve.AlignmentError, match=r"in one list or mapping, as compare\("):
        rve.compare(run, run)


@pytest.mark.skipif(os.name == "nt", reason="pipes end in another way there")
def test_a_reader_that_has_had_enough_is_no_error(world: Path) -> None:
    """As of `rve sweep RUN | head -1`: nothing is said of a broken pipe."""
    end, start = os.pipe()
    os.close(end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "reid_vpr_eval", "sweep", str(world / "run"), "--sizes", "0"],
            stdout=start, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(start)
    assert done.stderr == ""


def test_queries_without_a_unit_are_each_their_own(tmp_path: Path) -> None:
    """Written and read back, a column of units that names none is of missing values."""
    sides = [rve.Samples.from_columns(label=np.arange(n) % 4) for n in (12, 40)]
    scores = rve.Embeddings(*(np.random.default_rng(n).normal(size=(n, 4)) for n in (12, 40)))
    protocol = rve.Protocol.from_dict({
        "name": "alone", "relevance": {"kind": "label"},
        "report": {"metrics": ["mAP"], "interval": {"unit": "query"}},
    })  # fmt: skip
    result = rve.evaluate(protocol, *sides, scores)
    result.save(tmp_path / "run")
    for one in (result, rve.Result.load(tmp_path / "run")):
        assert units_in(one).tolist() == list(range(12))
    labelled = rve.evaluate("labels", *sides, scores)
    assert units_in(labelled).tolist() == [0, 1, 2, 3] * 3
