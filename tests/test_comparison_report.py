"""Comparisons as people meet them: printed, pasted, drawn, written, and from the command line."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import reid_vpr_eval as rve
from reid_vpr_eval.cli import app
from reid_vpr_eval.errors import FormatError, NotCountedError
from reid_vpr_eval.report.comparison import (
    COMPARISON_FORMATS,
    ChangesDisplay,
    DifferencesDisplay,
    comparison_section,
    render_comparison,
    write_comparison,
)
from reid_vpr_eval.studies.comparison import Comparison, Difference, compare
from reid_vpr_eval.studies.comparison.text import changed_table, moved, p_text


def model(seed: int, noise: float, n_query: int = 48) -> rve.Result:
    labels, items = np.arange(n_query) % 12, np.arange(120) % 12
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(5).normal(size=(12, 8))
    query = rve.Samples.from_columns(id=[f"q{i:02}" for i in range(n_query)], label=labels)
    gallery = rve.Samples.from_columns(id=[f"g{i:03}" for i in range(120)], label=items)
    vectors = [centres[of] + noise * rng.normal(size=(len(of), 8)) for of in (labels, items)]
    return rve.evaluate("labels", query, gallery, rve.Embeddings(*vectors))


@pytest.fixture(scope="module")
def runs() -> list[rve.Result]:
    return [model(1, 1.3), model(2, 1.1), model(3, 0.6)]


@pytest.fixture(scope="module")
def found(runs: list[rve.Result]) -> Comparison:
    return compare(runs, ["mAP", "CMC@1"], names=["old", "new_50%", "big"], resamples=2000)


@pytest.fixture(scope="module")
def folders(runs: list[rve.Result], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    base = tmp_path_factory.mktemp("runs")
    for name, run in zip("abc", runs, strict=True):
        run.save(base / name)
    return [str(base / name) for name in "abc"]


def pair(**more: Any) -> Difference:
    fields: dict[str, Any] = {"metric": "mAP", "run": "b", "baseline": "a", "value": 0.6,
                              "baseline_value": 0.5, "difference": 0.1} | more  # fmt: skip
    return Difference(**fields)


@pytest.mark.parametrize(
    ("p", "least", "exact", "text"),
    [(1 / 10001, 1 / 10001, False, "< 0.0001"), (1 / 2001, 1 / 2001, False, "< 0.0005"),
     (1 / 3001, 1 / 3001, False, "< 0.00034"), (2 / 10001, 1 / 10001, False, "0.0002"),
     (1 / 10001, 1 / 10001, True, "0.0001"), (2 / 8192, 2 / 8192, True, "0.00024"),
     (0.04321, 1 / 10001, False, "0.043"), (1.0, 1.0, True, "1.000"), (None, None, False, "-")],
)  # fmt: skip
def test_p_is_never_nothing(p: float | None, least: float, exact: bool, text: str) -> None:
    assert p_text(p, pair(p=p, p_least=least, exact=exact)) == text


@pytest.mark.parametrize("resamples", [1, 7, 99, 1000, 3000, 9999, 12_345, 10**6])
def test_the_printed_bound_holds(resamples: int) -> None:
    p = 1 / (resamples + 1)
    text = p_text(p, pair(p=p, p_least=p))
    assert p <= float(text.removeprefix("< ")) <= 1.06 * p + 1e-12


def test_a_small_difference_is_not_printed_as_none() -> None:
    assert moved("mAP", 0.0001) == "+0.01"
    assert moved("mAP", 0.0) == "0.0"
    assert moved("MeanR", -1.26) == "-1.3"


def test_the_table_says_how_it_was_made(found: Comparison) -> None:
    text = " ".join(str(found).split())
    assert "3 runs, 48 queries in 12 labels" in text
    assert "2,000 random sign changes of whole labels" in text
    assert "seed 0" in text
    assert "step-down max-T for 3 pairs of each metric apart" in text
    assert "gallery and models fixed" in text
    assert found.protocol.judging_hash[:12] in text
    assert "±" not in text
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 110
    (row,) = [line for line in lines if line.startswith("  big - old") and "%" in line][:1]
    assert moved("mAP", found.difference("big").difference) in row


def test_markdown_holds_both_tables(found: Comparison) -> None:
    text = render_comparison(found, "markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 * (2 + 3 + 2 + 3)
    for line in rows:
        assert line.endswith("|")
    assert "new\\_50%" in text


def test_latex_has_letters_for_what_is_beaten(found: Comparison) -> None:
    text = render_comparison(found, "latex")
    value = found.value("big")
    assert value.beats == ("a", "b")
    assert rf"\textbf{{{100 * value.value:.1f}}}\textsuperscript{{a,b}}" in text
    assert r"new\_50\%" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in body} == {3}
    for line in text.splitlines():
        if not line.startswith("%"):
            assert not re.search(r"(?<!\\)[%_#$]", line)
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize(("format", "mark"), [("csv", ","), ("tsv", "\t")])
def test_separated_values_are_exact(found: Comparison, format: str, mark: str) -> None:
    rows = list(csv.DictReader(io.StringIO(render_comparison(found, format)), delimiter=mark))
    assert len(rows) == 6
    for row, one in zip(rows, found.differences, strict=True):
        assert float(row["difference"]) == one.difference
        assert float(row["p"]) == one.p
        assert row["only_run"] == ("" if one.only_run is None else str(one.only_run))


def test_json_is_the_document(found: Comparison) -> None:
    text = render_comparison(found, "json")
    assert json.loads(text) == json.loads(json.dumps(found.document()))


def test_an_unknown_format_is_refused(found: Comparison) -> None:
    with pytest.raises(FormatError, match="one of table, markdown"):
        render_comparison(found, "word")


def test_changed_queries_are_listed_against_the_first_run(found: Comparison) -> None:
    text = changed_table(found, 2)
    assert text.count("the queries that changed most") == 2
    assert "big - new_50%" not in text
    assert str(found.changed(1, run="big")["query_id"].iloc[0]) in text


class TestFigures:
    """Figures keep their numbers, and the same comparison gives the same bytes."""

    def test_differences(self, found: Comparison) -> None:
        display = DifferencesDisplay.from_comparison(found, "R@1").plot()
        assert display.values.tolist() == [100 * one.difference for one in found.differences
                                           if one.metric == "CMC@1"]  # fmt: skip
        assert display.ax_ is not None
        assert display.figure_ is not None
        assert "R@1" in display.ax_.get_xlabel()
        assert len(display.ax_.get_yticklabels()) == 3
        assert "new_50%" in display.spoken()
        with pytest.raises(NotCountedError, match="nothing was compared by mINP"):
            DifferencesDisplay.from_comparison(found, "mINP")

    def test_changes(self, found: Comparison) -> None:
        display = ChangesDisplay.from_comparison(found).plot()
        for counts, equal, run in zip(display.counts, display.equal, found.runs[1:], strict=True):
            one = found.difference(run)
            assert counts.sum() + equal == 48
            assert equal == round(48 * (one.equal or 0))
            assert counts[10:].sum() == round(48 * (one.better or 0))
        assert display.figure_ is not None
        assert len(display.figure_.axes) == 2

    def test_into_axes_of_ones_own(self, found: Comparison) -> None:
        from matplotlib.figure import Figure

        figure = Figure()
        axes = figure.subplots(1, 2)
        DifferencesDisplay.from_comparison(found).plot(axes[0])
        ChangesDisplay.from_comparison(found).plot(axes[1])
        assert axes[1].patches

    def test_nothing_moved_and_ranks_and_long_names(self, runs: list[rve.Result]) -> None:
        names = ["a baseline of a rather long name", "one with $formula$ and\nlines"]
        same = compare([runs[0], runs[0]], "MeanR", names=names)
        texts = [text.get_text() for text in ChangesDisplay.from_comparison(same).plot()
                 .figure_.axes[0].texts]  # type: ignore[union-attr]  # fmt: skip
        assert "no query moved" in texts
        display = DifferencesDisplay.from_comparison(same).plot()
        assert display.ax_ is not None
        low, high = display.ax_.get_xlim()
        assert high - low > 1

    def test_a_label_stays_inside(self, found: Comparison) -> None:
        display = DifferencesDisplay.from_comparison(found).plot()
        figure = display.figure_
        assert figure is not None
        figure.draw_without_rendering()
        for text in display.ax_.texts:  # type: ignore[union-attr]
            assert text.get_window_extent().x1 <= figure.bbox.x1 + 1


def test_a_section_for_a_page(found: Comparison) -> None:
    section = comparison_section(found, changed=2)
    assert "big" not in section.headline
    assert section.headline.startswith("new_50% against old: mAP ")
    assert [one.name for one in section.metrics] == ["mAP", "R@1"]
    assert len(section.metrics[0].runs[1]) == 3
    assert len(section.metrics[0].differences[1]) == 3
    assert [one.title for one in section.changed] == ["new_50% - old", "big - old"]
    for figure in section.figures:
        assert figure.svg.startswith("<svg")
        assert "http" not in figure.svg
    assert not section.forced


@pytest.mark.slow
def test_files_are_the_same_bytes(found: Comparison, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_comparison(found, tmp_path / name)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    assert [str(path) for path in files] == [
        "comparison.csv", "comparison.json", "comparison.md", "comparison.tex", "comparison.txt",
        "comparison_queries.csv", "figures/changes.png", "figures/changes.svg",
        "figures/comparison.png", "figures/comparison.svg",
    ]  # fmt: skip
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match="is a file"):
        write_comparison(found, tmp_path / "file")


class TestCommand:
    """Rve compare: what it prints, writes and refuses."""

    def run(self, *arguments: str) -> Any:
        return CliRunner().invoke(app, ["compare", *arguments])

    def test_two_runs(self, folders: list[str], tmp_path: Path) -> None:
        done = self.run(*folders[:2], "--metric", "mAP", "--metric", "R@1", "--out",
                        str(tmp_path / "out"))  # fmt: skip
        assert done.exit_code == 0, done.output
        assert "b - a" in done.stdout
        assert "the queries that changed most" in done.stdout
        assert "written to" in done.stderr
        for name in ("comparison.json", "comparison.tex", "figures/comparison.svg"):
            assert (tmp_path / "out" / name).is_file()
        text = (tmp_path / "out" / "comparison.txt").read_text()
        assert done.stdout.startswith(text.rstrip())

    @pytest.mark.parametrize("format", list(COMPARISON_FORMATS))
    def test_formats(self, folders: list[str], format: str) -> None:
        done = self.run(*folders, "--format", format, "--resamples", "50")
        assert done.exit_code == 0, done.output
        assert done.stdout.strip()

    def test_the_default_metric_is_the_protocols_first(self, folders: list[str]) -> None:
        done = self.run(*folders[:2], "--format", "json", "--resamples", "50")
        assert json.loads(done.stdout)["metrics"] == ["mAP"]

    def test_seeds_of_one_model(self, folders: list[str]) -> None:
        a, b, c = folders
        for given in ([f"old={a}", f"new={b},{c}"], [a, "--group", f"new={b},{c}"],
                      [a, b, c, "--names", "old,new,new"]):  # fmt: skip
            done = self.run(*given)
            assert done.exit_code == 0, done.output
            assert "(2 runs)" in done.stdout
            assert "SD over runs" in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "code", "says"),
        [([], 2, "two runs at least"), (["A"], 2, "two runs at least"),
         (["A", "nowhere"], 1, "no such folder"), (["A", "B", "--metric", "shoe"], 1, "no metric"),
         (["A", "B", "--level", "95"], 1, "between 0 and 1"),
         (["A", "B", "--names", "x"], 2, "names"),
         (["x=A", "B", "--names", "x,y"], 2, "named twice"), (["A", "x="], 2, "NAME=RUN"),
         (["A", "B", "--unit", "shoe"], 1, "unit"), (["A", "A", "--names", "x,x"], 1, "two models"),
         (["A", "A,B"], 1, "no such folder")],
    )  # fmt: skip
    def test_what_is_refused(
        self, folders: list[str], arguments: list[str], code: int, says: str
    ) -> None:
        put = {"A": folders[0], "B": folders[1]}
        given = [put.get(one, one.replace("=A", f"={put['A']}")) for one in arguments]
        done = self.run(*given)
        assert done.exit_code == code, done.output
        assert says in " ".join(done.stderr.replace("│", " ").split())
        assert "Traceback" not in done.output

    def test_other_queries_unless_forced(self, folders: list[str], tmp_path: Path) -> None:
        model(7, 1.0, n_query=36).save(tmp_path / "fewer")
        done = self.run(folders[0], str(tmp_path / "fewer"))
        assert done.exit_code == 1
        assert "12 of" in done.stderr
        done = self.run(folders[0], str(tmp_path / "fewer"), "--force")
        assert done.exit_code == 0, done.output
        assert "FORCED" in done.stdout
        assert "36 queries" in done.stdout


def test_means_over_draws_are_drawn_without_queries(runs: list[rve.Result]) -> None:
    from reid_vpr_eval.protocol import DrawTable

    protocol = rve.load_protocol("labels").model_copy(
        update={"draw": DrawTable(per=["label"], n=2, repeats=3)}
    )
    import pandas as pd

    draws = pd.DataFrame(
        [(i, "mAP", value) for i, value in enumerate((0.4, 0.5, 0.6))],
        columns=["draw", "metric", "value"],
    )
    drawn = [replace(run, protocol=protocol, draws=draws) for run in runs[:2]]
    found = compare(drawn, "mAP", names=["a", "b"])
    assert "10.00 (3 draws)" in str(found)
    section = comparison_section(found)
    assert section.headline.endswith("not tested")
    assert [figure.kind for figure in section.figures] == ["comparison"]
    assert changed_table(found, 3) == ""
    assert all(render_comparison(found, form) for form in COMPARISON_FORMATS)
