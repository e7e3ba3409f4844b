"""What the README shows is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from reid_vpr_eval.cli import app
from reid_vpr_eval.protocol import list_protocols
from shared_inputs import data

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)


def test_python_blocks_give_what_they_show() -> None:
    test = doctest.DocTestParser().get_doctest("".join(blocks("python")), {}, "README", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.failures == 0
    assert runner.tries > 8


def test_the_number_of_protocols_is_right() -> None:
    assert f"the {len(list_protocols())} shipped protocols" in TEXT


def toml(name: str, folder: Path) -> Path:
    (block,) = [block for block in blocks("toml") if block.startswith(f"# {name}")]
    path = folder / name
    path.write_text(block, encoding="utf-8")
    return path


@pytest.mark.parametrize(("drop", "first"), [(False, 27.3), (True, 71.6)])
def test_the_tower_has_the_numbers_told(tmp_path: Path, drop: bool, first: float) -> None:
    path = toml("tower.toml", tmp_path)
    if drop:
        kept = [line for line in path.read_text().splitlines() if not line.startswith("different")]
        path.write_text("\n".join(kept))
    done = CliRunner().invoke(
        app,
        ["run", str(path), "--query", str(data("places/ietower/index.csv")), "--query-features",
         str(data("places/ietower/mobilenetv2_6floors.npz")), "--format", "vpr"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"R@1: {first}")


@pytest.mark.slow
def test_omniglot_runs_from_its_zip(tmp_path: Path) -> None:
    """2,720 images of 136 characters by 20 drawers: 19 positives each."""
    archive = data("identity/omniglot_small1/images_background_small1.zip")
    done = CliRunner().invoke(
        app,
        ["run", str(toml("omniglot.toml", tmp_path)), "--query", str(archive), "--encoder",
         "thumbnail", "--out", str(tmp_path / "run")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "2720 of 2720 queries (0 without a positive" in done.stdout
    assert f"{2720 * 19} positive pairs" in done.stdout
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.slow
def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        runs.append({
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in sorted((tmp_path / name).rglob("*"))
            if path.is_file() and path.name != "environment.json"
        })  # fmt: skip
    (shown,) = re.findall(r"The demo prints\n\n```\n(.*?)```", TEXT, flags=re.DOTALL)
    assert done.stdout.startswith(shown)
    assert runs[0] == runs[1]
    assert {str(path) for path in runs[0]} >= {
        "report.html", "people/result.json", "people-thumbnail/result.json", "places/result.json",
        "figures/1-demo-people/cmc.png", "figures/2-demo-places/recall.svg", "overview.png",
        "people/rankings.csv", "people/beside.csv", "places/ranking.npz",
    }  # fmt: skip
    assert "Comparison: Walking figures" in (tmp_path / "one/report.html").read_text()
    assert_looks_like(README.parent / "docs/demo.png", tmp_path / "one/overview.png")


def assert_looks_like(shown: Path, made: Path) -> None:
    """Compare pictures up to what another version of a drawing library may change."""
    with Image.open(shown) as one, Image.open(made) as other:
        assert one.size == other.size
        pixels = [np.asarray(picture.convert("L"), float) for picture in (one, other)]
    assert np.abs(pixels[0] - pixels[1]).mean() < 2


def test_the_figure_is_there() -> None:
    (path,) = re.findall(r"^!\[[^]]+\]\((.*?)\)$", TEXT, flags=re.MULTILINE)
    with Image.open(README.parent / path) as picture:
        assert picture.size == (2400, 1200)
