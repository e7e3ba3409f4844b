"""The benchmarks measure what they say, and what is timed gives the right numbers.

No test looks at a time: only at order, structure, counts and metrics.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracles
from benchmarks import children, peer_script, peers, plan
from benchmarks.__main__ import main
from benchmarks.bands import bands, half_width, nearest
from benchmarks.cases import CASES, plain_world, row_world
from benchmarks.figures import figures
from benchmarks.jobs import JOBS, run_job
from benchmarks.measure import Memory, Spread, machine, ratio, take_turns
from benchmarks.product import bare_product, cuts
from benchmarks.report import console, page
from benchmarks.tables import allowed_memory
from benchmarks.worlds import World, features, spectrum

ROOT = Path(__file__).parents[1]
SHRINK = 32


def shrink_of(case: str) -> int:
    """Sorting each list of the largest world takes longest."""
    return 2 * SHRINK if case == "products" else SHRINK


def spec(job: str, **more: Any) -> dict[str, Any]:
    return {"job": job, "shrink": SHRINK, "rounds": 1, "workers": 2, **more}


def literal(world: World, names: tuple[str, ...]) -> dict[str, float]:
    """Metrics by sorting every list, from labels and cameras and nothing else."""
    ours, theirs = (np.array([oracles.normalised(row) for row in side], np.float64)
                    for side in (world.query, world.gallery))  # fmt: skip
    values: dict[str, list[float]] = defaultdict(list)
    for query, label in enumerate(world.query_label):
        kept = world.gallery_label >= 0
        right = world.gallery_label == label
        if world.square:
            kept[query] = False
        if world.query_camera is not None and world.gallery_camera is not None:
            kept &= ~(right & (world.gallery_camera == world.query_camera[query]))
        order = np.argsort(-(theirs[kept] @ ours[query]))
        flags = right[kept][order].tolist()
        if any(flags):
            for name in names:
                values[name].append(float(oracles.metric_of_list(name, flags)))
    return {name: float(np.mean(found)) for name, found in values.items()}


class TestWorlds:
    def test_the_spectrum_is_fixed(self) -> None:
        rows = np.arange(3000) % 50
        vectors = features([(rows, 0.4), (rows % 7, 0.1)], dim=12, seed=3)
        assert np.sum(spectrum(12) ** 2) == pytest.approx(1, abs=1e-6)
        own = features([(rows, 0.0)], dim=12, seed=3)
        measured = np.sqrt(np.mean(own.astype(np.float64) ** 2, axis=0))
        assert measured == pytest.approx(spectrum(12), rel=0.06)
        assert vectors.dtype == np.float32

    def test_a_code_decides_its_share(self) -> None:
        rows = np.arange(4000) % 400
        vectors = features([(rows, 0.7)], dim=40, seed=4).astype(np.float64)
        within = np.mean((vectors[:400] * vectors[400:800]).sum(axis=1))
        across = np.mean((vectors[:400] * vectors[401:801]).sum(axis=1))
        assert within == pytest.approx(0.7, abs=0.06)
        assert across == pytest.approx(0, abs=0.06)

    def test_both_sides_share_codes_but_not_rows(self) -> None:
        rows = np.arange(5)
        one, other = (features([(rows, 0.5)], 6, seed=5, side=side) for side in (0, 1))
        again = features([(rows, 0.5)], 6, seed=5, side=1)
        assert (other == again).all()
        assert not (one == other).any()
        same, also = (features([(rows, 1.0)], 6, seed=5, side=side) for side in (0, 1))
        assert (same == also).all()

    def test_blocks_of_rows_change_nothing(self) -> None:
        long = features([(np.arange(5000) % 9, 0.5)], 3, seed=6)
        short = features([(np.arange(4500) % 9, 0.5)], 3, seed=6)
        assert (long[:4500] == short).all()

    def test_sizes_are_those_of_the_benchmarks(self) -> None:
        market, pitts, square = (CASES[name].make(8) for name in ("market", "pitts", "dense"))
        assert market.describe() | {"positives_per_query": 0} == {
            "n_query": 3368 // 8, "n_gallery": 15913 // 8, "dim": 2048 // 8, "keep": "all",
            "n_pairs": len(market.relevance.item), "positives_per_query": 0,
        }  # fmt: skip
        assert len(market.gallery) - len(market.kept_columns) == 3819 // 8
        assert (market.relevance.role == -1).sum() > 0
        assert pitts.relevance.n_positive.mean() == pytest.approx(142, abs=6)
        assert len({tuple(pitts.relevance.positives(q)) for q in range(24)}) == 1
        assert square.square
        assert (square.relevance.n_positive == np.bincount(square.query_label)[
            square.query_label] - 1).all()  # fmt: skip

    def test_peers_see_no_junk_and_no_cameras(self) -> None:
        plain = plain_world("market", SHRINK)
        assert plain.query_camera is None
        assert (plain.relevance.role == 1).all()
        assert len(plain.kept_columns) == len(plain.gallery) == 15913 // SHRINK
        assert plain_world("products", SHRINK).square

    def test_a_world_of_any_size(self) -> None:
        world = row_world(333, n_query=20, dim=5)
        assert (world.query.shape, world.gallery.shape) == ((20, 5), (333, 5))
        assert world.n_bytes >= world.query.nbytes + world.gallery.nbytes


class TestMeasuring:
    def test_actions_take_turns_and_the_first_round_is_not_counted(self) -> None:
        now, done = [0.0], []
        cost = {"a": iter([100.0, 1.0, 2.0]), "b": iter([100.0, 4.0, 6.0])}

        def action(name: str) -> None:
            done.append(name)
            now[0] += next(cost[name])

        seconds = take_turns({"a": lambda: action("a"), "b": lambda: action("b")}, 2,
                             clock=lambda: now[0])  # fmt: skip
        assert done == ["a", "b"] * 3
        assert seconds == {"a": [1.0, 2.0], "b": [4.0, 6.0]}
        assert ratio(seconds, "b", "a") == {"median": 3.5, "least": 3.0, "largest": 4.0}

    def test_the_median_is_of_ratios_and_not_of_seconds(self) -> None:
        seconds = {"one": [1.0, 10.0, 30.0], "other": [1.0, 20.0, 10.0]}
        assert asdict(Spread.of([1.0, 0.5, 3.0])) == ratio(seconds, "one", "other")

    @pytest.mark.parametrize(("size", "largest", "multiple"), [(10, 4, 1), (4096, 4096, 2),
                                                               (15913, 4096, 2), (1, 7, 1)])
    def test_cuts_are_even_and_cover(self, size: int, largest: int, multiple: int) -> None:
        pieces = list(cuts(size, largest, multiple))
        assert np.concatenate([np.arange(size)[piece] for piece in pieces]).tolist() == list(
            range(size))  # fmt: skip
        sizes = [piece.stop - piece.start for piece in pieces]
        assert max(sizes) <= largest
        assert max(sizes) - min(sizes) <= 1
        assert len(pieces) % multiple == 0

    def test_the_product_multiplies_everything(self) -> None:
        rng = np.random.default_rng(0)
        query, gallery = (rng.integers(-9, 9, (n, 3)).astype(np.float32) for n in (1100, 5000))
        found: list[Any] = []
        bare_product(query, gallery, 2, each=lambda tile: found.append(np.sort(tile, axis=None)))
        expected = np.sort(query @ gallery.T, axis=None)
        assert (np.sort(np.concatenate(found)) == expected).all()
        assert max(map(len, found)) <= 1024 * 4096

    def test_the_machine_has_a_name(self) -> None:
        known = machine()
        assert known["processor"]
        assert known["numpy"] == np.__version__
        assert all({"name", "version", "kernel"} == set(pool) for pool in known["blas"])

    def test_memory_is_read(self) -> None:
        if (before := Memory.read()) is None:
            pytest.skip("no /proc on this system")
        block = np.ones(20_000_000)
        after = Memory.read()
        assert after is not None
        assert after.peak >= after.now >= block.nbytes
        assert after.now - before.now > block.nbytes // 2

    def test_allowed_memory(self) -> None:
        assert allowed_memory({"data": 10, "n_pairs": 3}) == 10 + 256e6 + 3 * 44


class TestBands:
    @pytest.mark.parametrize("seed", range(5))
    def test_nearest_equals_a_search_of_all(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        values, thresholds = rng.integers(0, 40, 60) / 4, np.sort(rng.integers(0, 40, seed) / 4)
        expected = [min((abs(value - t) for t in thresholds), default=np.inf) for value in values]
        assert nearest(values, thresholds).tolist() == expected

    @pytest.mark.parametrize("keep", ["all", "first"])
    def test_shares_equal_a_literal_count(self, keep: Any) -> None:
        world = self.world(keep)
        counts, precisions, wide, narrow = [0, 0, 0, 0], [], half_width(16, np.float32), 1e-14
        scores = oracles.canonical_matrix(world.query, world.gallery, "cosine")
        for query, label in enumerate(world.query_label):
            right = world.gallery_label == label
            thresholds = scores[query][right].tolist()
            if keep == "first":
                thresholds = [max(thresholds)]
            for score in scores[query][~right & (world.gallery_label >= 0)]:
                gap = min(abs(score - t) for t in thresholds)
                counts[0] += 1
                counts[1] += score >= min(thresholds) - wide
                counts[2] += gap <= wide
                counts[3] += gap <= narrow
            shown = np.flatnonzero(world.gallery_label >= 0)
            ranked = shown[np.argsort(-scores[query][shown], kind="stable")]
            precisions.append(float(oracles.metric_of_list("mAP", right[ranked].tolist())))
        found = bands(world, n_sample=len(world.query))
        assert counts[3] > 0
        assert counts[2] > counts[3]
        assert counts[1] > counts[2]
        expected = [count / counts[0] for count in counts[1:]]
        assert [found.passing, found.undecided, found.canonical] == expected
        assert found.mean_ap == pytest.approx(np.mean(precisions), abs=0.02)  # ties by luck

    @staticmethod
    def world(keep: Any) -> World:
        """Return a world with copies of positives, and near copies, under other labels."""
        rng = np.random.default_rng(8)
        label = np.arange(60) % 6
        gallery = features([(label, 0.5)], 16, seed=8)
        copies = gallery[:30].copy()
        near = gallery[:30].copy()
        near[:, 5] = np.nextafter(near[:, 5], np.float32(9))
        labels = np.concatenate([label, np.full(60, 77), np.full(10, -1)])
        junk = rng.standard_normal((10, 16)).astype(np.float32)
        return World(features([(np.arange(12) % 6, 0.5)], 16, seed=8, side=1),
                     np.concatenate([gallery, copies, near, junk]), np.arange(12) % 6, labels,
                     ("mAP",), keep)  # fmt: skip


class TestJobs:
    @pytest.mark.parametrize("case", sorted(CASES))
    def test_what_is_timed_equals_an_oracle(self, case: str) -> None:
        found = run_job(spec("ratios", case=case, shrink=shrink_of(case)))
        world = CASES[case].make(shrink_of(case))
        assert set(found["metrics"]) == set(world.metrics)
        expected = literal(world, world.metrics)
        for name in world.metrics:
            assert found["metrics"][name] == pytest.approx(expected[name], abs=1e-12), name
        assert {name: len(times) for name, times in found["seconds"].items()} == {
            "product": 1, "ours": 1}  # fmt: skip
        assert set(found["bands"]) == {"passing", "undecided", "canonical", "mean_ap"}

    @pytest.mark.parametrize("job", ["workers", "strata", "shards"])
    def test_another_form_gives_the_same_numbers(self, job: str) -> None:
        found = run_job(spec(job, case="market"))
        if "skipped" in found:
            assert job == "shards"
            pytest.skip(found["skipped"])
        assert found["same"] is True
        assert len(found["seconds"]) == 2

    def test_other_numbers_would_be_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from benchmarks import jobs

        results = iter([{"mAP": 0.5}, {"mAP": 0.6}] * 2)
        monkeypatch.setattr(jobs, "_ours", lambda *_, **__: lambda: next(results))
        assert run_job(spec("workers", case="market"))["same"] is False

    def test_memory_and_scaling(self) -> None:
        grown = run_job(spec("scaling", n_gallery=400, n_query=16, dim=8))
        assert (grown["n_gallery"], grown["n_query"], grown["dim"]) == (400, 16, 8)
        if Memory.read() is None:
            pytest.skip("no /proc on this system")
        found = run_job(spec("memory", case="first"))
        assert found["peak"] >= found["before"] > found["data"] > 0
        assert found["data"] == CASES["first"].make(SHRINK).n_bytes

    @pytest.mark.parametrize("case", sorted(peers.CASES_OF))
    def test_peers_and_this_package_agree(self, case: str, tmp_path: Path) -> None:
        run_job(spec("written", case=case, folder=str(tmp_path), shrink=shrink_of(case)))
        data = peer_script.Data.load(tmp_path)
        assert np.linalg.norm(data.query, axis=1) == pytest.approx(1, abs=1e-6)
        names = peers._METRICS[case]
        ours = run_job(spec("evaluated", folder=str(tmp_path), metrics=names))["metrics"]
        for name in ("scikit-learn kNN", "numpy argsort"):
            if name in peers.CASES_OF[case]:
                assert peer_script.PEERS[name](data.small())
                theirs = peer_script.PEERS[name](data)
                assert theirs == pytest.approx({key: ours[key] for key in theirs}, abs=1e-5)
        world = plain_world(case, shrink_of(case))
        assert ours == pytest.approx(literal(world, names), abs=1e-6)

    def test_kernels_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from benchmarks.jobs import kernels_in_use

        world = CASES["dense"].make(SHRINK)
        monkeypatch.setenv("RVE_KERNELS", "numpy")
        assert kernels_in_use(world) == "numpy"
        monkeypatch.delenv("RVE_KERNELS")
        assert kernels_in_use(world) == "numpy"

    def test_the_best_kernels_are_those_at_hand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plan, "missing", lambda _: "")
        assert plan.Options().best_kernels() == "numba"
        assert plan.Options(kernels=["numpy"]).best_kernels() == "numpy"
        monkeypatch.setattr(plan, "missing", lambda kernels: "no" * (kernels == "numba"))
        assert plan.Options().best_kernels() == "numpy"
        assert plan.Options(kernels=["numba"]).best_kernels() == "numpy"

    def test_every_job_can_be_asked_for(self) -> None:
        assert set(JOBS) >= {"ratios", "memory", "scaling", "shards", "workers", "strata"}


class TestChildren:
    def test_the_environment_chooses_no_blas_kernel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "RVE_KERNELS"):
            monkeypatch.setenv(name, "1")
        code = ("import json, os; print(json.dumps(sorted(name for name in os.environ if "
                "name.startswith(('OPENBLAS_', 'RVE_K')))))")  # fmt: skip
        assert children.answer([sys.executable, "-c", code]) == []  # type: ignore[comparison-overlap]
        assert children.environment("numba")["RVE_KERNELS"] == "numba"

    def test_what_fails_is_skipped_with_a_word(self) -> None:
        failed = children.answer([sys.executable, "-c", "print(1); raise ValueError('too small')"])
        assert failed == {"skipped": "failed (exit 1): ValueError: too small"}
        slow = children.answer([sys.executable, "-c", "import time; time.sleep(60)"], longest=0.2)
        assert slow == {"skipped": "took longer than 0.2 s"}
        assert "does not run" in children.answer(["/no/such/python"])["skipped"]

    def test_a_missing_tool_is_skipped(self, tmp_path: Path) -> None:
        run_job(spec("written", case="market", folder=str(tmp_path)))
        code = (
            "import sys; sys.modules['faiss'] = None; sys.path.insert(0, sys.argv.pop(1)); "
            "import peer_script; peer_script.main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(ROOT / "benchmarks"), "faiss flat", str(tmp_path)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "not installed there" in json.loads(done.stdout)["skipped"]


class TestPeers:
    def test_rounds_go_through_all_tools(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []

        def job(given: dict[str, Any]) -> dict[str, Any]:
            if given["job"] == "written":
                return {"n_query": 1}
            asked.append("ours")
            return {"seconds": float(len(asked)), "metrics": {"CMC@1": 0.5}, "peak": 1,
                    "kernels": "numpy"}  # fmt: skip

        def answer(command: list[Any], longest: float) -> dict[str, Any]:
            asked.append(command[2])
            if command[0] == "other" and command[2] == "ranx":
                return {"skipped": "no"}
            return {"seconds": 10.0, "metrics": {"CMC@1": 0.25}, "peak": 7}

        monkeypatch.setattr(peers, "job", job)
        monkeypatch.setattr(peers, "answer", answer)
        entries = peers.compare("market", shrink=1, rounds=2, workers=2, python="other",
                                say=lambda _: None)  # fmt: skip
        found = {entry["peer"]: entry for entry in entries}
        every = ["ours", *peers.CASES_OF["market"]]
        assert asked == [*every, *every[:-1]]
        assert found["ranx"] == {"case": "market", "peer": "ranx", "skipped": "no", "n_query": 1}
        assert found["faiss flat"]["ratio"]["largest"] == 10
        assert found["faiss flat"]["apart"] == 0.25
        assert found["ours"]["kernels"] == "numpy"

    def test_without_an_environment_only_what_is_at_hand_runs(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "--peers" in peers._run("ranx", "", None)["skipped"]
        monkeypatch.setattr(peers, "answer", lambda command, **_: {"by": command[0]})
        assert peers._run("numpy argsort", "", "other") == {"by": sys.executable}
        assert peers._run("ranx", "", "other") == {"by": "other"}


def made_up_record(**changes: Any) -> dict[str, Any]:
    """Return a record by hand, with a goal that was reached and one that was not."""
    sizes = {"n_query": 10, "n_gallery": 20, "dim": 3, "n_pairs": 7, "positives_per_query": 0.7}
    shares = {"passing": 0.25, "undecided": 0.0123, "canonical": 0.0, "mean_ap": 0.5}

    def timed(median: float, one: str = "product", other: str = "ours") -> dict[str, Any]:
        return {"seconds": {one: [1.0, 2.0, 9.0], other: [2.0, 4.0, 18.0]},
                "ratio": {"median": median, "least": 1.0, "largest": 3.0}, **sizes}  # fmt: skip

    fast = {"case": "market", "kernels": "numpy", "target": 1.25, "bands": shares, **timed(1.24)}
    peer = {"case": "market", "seconds": {"median": 5.0}, "metrics": {"CMC@1": 1.0},
            "peak": 3_000_000, "ratio": {"median": 9.0, "least": 8.0, "largest": 10.0},
            "apart": 1e-7}  # fmt: skip
    return {
        "version": 1, "shrink": 1, "rounds": 5, "threads": 2, "date": "2026-01-01",
        "load_before": 0.25, "machine": {
            "processor": "a processor", "family": "6.85", "system": "Linux", "python": "3.11.7",
            "numpy": "2.4.0", "cores": 2,
            "blas": [{"name": "openblas", "version": "0.3", "kernel": "SkylakeX"}]},
        "ratios": [fast, {**fast, "case": "places", "target": 1.2},
                   {"case": "market", "kernels": "numba", "skipped": "numba is not installed"}],
        "memory": [{"case": "market", "kernels": "numpy", "data": 1e6, "before": 5e7,
                    "peak": 9e8, **sizes}],
        "scaling": [{**timed(1.1), "beyond": 5e6}, {**timed(1.1), "beyond": None}],
        "shards": [{"case": "large", "kernels": "numpy", "skipped": "no"}],
        "workers": [{"case": "large", "kernels": "numpy", "same": True,
                     **timed(0.5, "one worker", "two workers")}],
        "import": [{"bare": 0.1, "used": 0.9, "compiler": False}],
        "peers": [{**peer, "peer": "ours", "kernels": "numba"}, {**peer, "peer": "faiss flat"},
                  {**peer, "peer": "pytorch-metric-learning",
                   "ratio": {"median": 7.9, "least": 7.0, "largest": 8.0}}],
        **changes,
    }  # fmt: skip


class TestReport:
    def test_goals_stand_beside_what_was_measured(self) -> None:
        lines = page(made_up_record()).splitlines()
        market, places, skipped = (
            next(line for line in lines if line.startswith(start))
            for start in ("| Market: 750", "| place set, 100",
                          "| Market: 750 people, 6 cameras, junk | numba")
        )  # fmt: skip
        assert market.endswith("| 10 × 20 × 3 | 4 | 2 | 1.24 | 1.00 to 3.00 | ≤ 1.25 | met |")
        assert places.endswith("≤ 1.20 | **missed** |")
        assert "skipped: numba is not installed" in skipped
        assert any(line.endswith("| 1 | 50 | 900 | 257 | **missed** |") for line in lines)
        assert any("faiss flat" in line and "≥ 4 | met" in line for line in lines)
        assert any("pytorch-metric" in line and "≥ 8 | **missed**" in line for line in lines)
        assert any("25 % | 1.2 % | 0 |" in line for line in lines)

    def test_the_processor_and_the_blas_kernel_are_named(self) -> None:
        text = console(made_up_record())
        assert "a processor (family.model 6.85), 2 cores" in text.splitlines()[0]
        assert "openblas 0.3 (SkylakeX kernels); 2 workers" in text.splitlines()[0]
        assert "**" not in text

    def test_a_trial_reaches_no_goal(self) -> None:
        text = page(made_up_record(shrink=8))
        assert "divided by 8" in text
        assert "missed" not in text
        assert "met |" not in text

    def test_tables_are_well_formed(self) -> None:
        for block in page(made_up_record()).split("\n\n"):
            rows = [line for line in block.splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in rows}) <= 1, block

    def test_figures_are_the_same_bytes_again(self) -> None:
        drawn = figures(made_up_record())
        assert sorted(drawn) == ["performance-peers.svg", "performance-ratios.svg",
                                 "performance-scaling.svg"]  # fmt: skip
        assert drawn == figures(made_up_record())
        assert figures(made_up_record(ratios=[], scaling=[], peers=[])) == {}

    def test_the_page_of_the_docs_is_that_of_its_record(self) -> None:
        record = json.loads((ROOT / "docs" / "performance.json").read_text(encoding="utf-8"))
        text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
        assert text == page(record), "run: python -m benchmarks --page --out docs"
        for name in figures(record):
            assert f"]({name})" in text
            assert (ROOT / "docs" / name).exists()


class TestCommand:
    def test_a_page_needs_a_record(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["--page", "--out", str(tmp_path)]) == 2
        assert "measure first" in capsys.readouterr().err

    def test_sections_are_written_and_updated(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        made = made_up_record()
        monkeypatch.setattr(plan, "job", lambda *_: made["machine"])
        monkeypatch.setitem(plan.SECTIONS, "ratios", lambda *_: iter(made["ratios"]))
        monkeypatch.setitem(plan.SECTIONS, "import", lambda *_: iter(made["import"]))
        out = ["--out", str(tmp_path)]
        assert main(["--sections", "ratios", *out]) == 0
        assert "1.24" in capsys.readouterr().out
        assert main(["--sections", "import", "--update", *out]) == 0
        record = json.loads((tmp_path / "performance.json").read_text(encoding="utf-8"))
        assert (record["ratios"], record["import"]) == (made["ratios"], made["import"])
        written = (tmp_path / "performance.md").read_text(encoding="utf-8")
        assert written == page(record)
        assert (tmp_path / "performance-ratios.svg").exists()
        (tmp_path / "performance.md").unlink()
        assert main(["--page", *out]) == 0
        assert (tmp_path / "performance.md").read_text(encoding="utf-8") == written

    def test_cases_that_are_not_measured_again_are_kept(self) -> None:
        known = {"ratios": [{"case": case, "kernels": kernels, "ratio": 1}
                            for case in ("market", "places") for kernels in plan.KERNELS],
                 "scaling": [1, 2], "rounds": 3}  # fmt: skip
        again = {"case": "market", "kernels": "numba", "ratio": 2}
        new = {"case": "large", "kernels": "numpy", "ratio": 3}
        made = plan.updated(known, {"ratios": [again, new], "scaling": [3], "rounds": 5})
        assert (made["scaling"], made["rounds"]) == ([3], 5)
        assert sorted((e["case"], e["kernels"], e["ratio"]) for e in made["ratios"]) == [
            ("large", "numpy", 3), ("market", "numba", 2), ("market", "numpy", 1),
            ("places", "numba", 1), ("places", "numpy", 1),
        ]  # fmt: skip

    @pytest.mark.slow
    def test_a_quick_run_measures_everything(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "benchmarks", "--quick", "--cases", "market",
                   "--out", str(tmp_path)]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        record = json.loads((tmp_path / "performance.json").read_text(encoding="utf-8"))
        assert set(plan.SECTIONS) <= set(record)
        assert record["shrink"] == 8
        by_kernels = defaultdict(list)
        for entry in record["ratios"]:
            if entry.get("skipped") != "numba is not installed":
                by_kernels[entry["case"]].append(entry["metrics"])
        assert set(by_kernels) == {"market"}
        assert all(found.count(found[0]) == len(found) for found in by_kernels.values())
        assert len(record["scaling"]) == 5
        for section in ("memory", "scaling", "workers", "strata", "import"):
            assert all("skipped" not in entry or "numba" in entry["skipped"]
                       for entry in record[section]), section  # fmt: skip
        tools = {entry["peer"]: entry for entry in record["peers"]}
        assert tools["numpy argsort"]["apart"] < 1e-5
        assert "--peers" in tools["ranx"]["skipped"]
        assert (tmp_path / "performance.md").read_text(encoding="utf-8") == page(record)
