"""rve report: saved runs on one page, whatever they lack."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from reid_vpr_eval.cli import app
from report_results import people, png, without_figures


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures."""
    without_figures(monkeypatch)


def told(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["report", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


def test_pictures_come_from_folders_and_are_made_once(tmp_path: Path) -> None:
    people().save(tmp_path / "run")
    for side, n in (("q", 12), ("g", 40)):
        for i in range(n):
            path = tmp_path / "images" / side / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(i))
    (tmp_path / "images/g/3.png").write_bytes(b"broken")
    (tmp_path / "images/g/4.png").unlink()
    line = (tmp_path / "run", "--images-query", tmp_path / "images", "--only-wrong")
    assert told(*line)[0] == 0
    page = (tmp_path / "run/report.html").read_text()
    assert "missing or cannot be read; the places are marked" in page
    assert page.count("<img ") > 5
    made = sorted((tmp_path / "run/thumbnails").iterdir())
    before = [path.stat().st_mtime_ns for path in made]
    assert told(*line)[0] == 0
    assert [path.stat().st_mtime_ns for path in made] == before
    assert (tmp_path / "run/report.html").read_text() == page


@pytest.mark.parametrize("rows", [1, 3])
def test_the_table_holds_as_many_rows_as_asked(tmp_path: Path, rows: int) -> None:
    people().save(tmp_path / "run")
    assert told(tmp_path / "run", "--worst", rows, "--out", tmp_path / "out")[0] == 0
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("<tr data-row=") == rows
    assert f"The {rows} worst of 12 queries" in page


def test_what_a_run_lacks_is_said(tmp_path: Path) -> None:
    people().save(tmp_path / "run")
    code, output = told(tmp_path / "run", "--images-query", tmp_path / "nowhere")
    assert code == 0
    assert "no such folder of images" in output
    (tmp_path / "run/per_query.csv").unlink()
    (tmp_path / "run/ranking.npz").unlink()
    code, output = told(tmp_path / "run")
    assert code == 0
    assert "holds no per_query.csv" in output
    page = (tmp_path / "run/report.html").read_text()
    assert "The run holds no table of queries" in page
    assert "does not hold its counts" in page
    code, output = told(tmp_path / "nothing")
    assert code == 1
    assert "no run folder" in output
