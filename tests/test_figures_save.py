"""All figures of a run at once: what applies, why the rest does not, nothing stale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from test_figures_numbers import market

from reid_vpr_eval import AlignmentError
from reid_vpr_eval.report.figures import remove_figures, save_figures
from report_results import people, places


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw, but do not render: for tests of what is written, not of how it looks."""
    from reid_vpr_eval.report.figures import save

    monkeypatch.setattr(save, "figure_bytes", lambda _, suffix: suffix.encode())


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.usefixtures("quick")
def test_places(tmp_path: Path) -> None:
    saved = save_figures(places(), tmp_path / "a")
    assert [figure.name for figure in saved.figures] == [
        "recall", "radius", "errors", "first-answers", "scores", "map"
    ]  # fmt: skip
    assert "pairs_kept" in saved.skipped["roc"]
    assert "camera" in saved.skipped["cameras"]
    assert saved.tables == ("near_misses.csv",)
    written = files(tmp_path / "a")
    assert set(written) == {
        *(name for figure in saved.figures for name in figure.files), *saved.tables, "figures.json"
    }  # fmt: skip
    assert saved.figures[0].svg == written["recall.svg"]
    index = json.loads(written["figures.json"])
    assert index["skipped"] == saved.skipped
    assert index["figures"][0]["caption"].startswith("Recall@N")


@pytest.mark.slow
def test_the_same_bytes_again(tmp_path: Path) -> None:
    bare = replace(people(), ranking=None)
    for name in ("a", "b"):
        save_figures([bare, places()], tmp_path / name)
    assert files(tmp_path / "a") == files(tmp_path / "b")


@pytest.mark.usefixtures("quick")
def test_people_with_cameras_and_kept_pairs(tmp_path: Path) -> None:
    saved = save_figures(market(1, pairs_kept=1000), tmp_path)
    assert [figure.name for figure in saved.figures] == [
        "cmc", "average-precision", "precision-recall", "scores", "roc", "conditions-camera",
        "cameras",
    ]  # fmt: skip
    assert saved.skipped == {}


@pytest.mark.usefixtures("quick")
def test_people_and_places_are_drawn_apart(tmp_path: Path) -> None:
    bare = replace(people(2), ranking=None)
    saved = save_figures([people(), places(), bare], tmp_path, names=["a", "b", "c"])
    shown = {figure.name: figure.runs for figure in saved.figures}
    assert shown["cmc"] == (0, 2)
    assert shown["recall"] == (1,)
    assert shown["scores"] == (0,)
    assert shown["scores-places"] == (1,)
    assert shown["map-2"] == (1,)
    assert "cameras-1" in saved.skipped
    assert (tmp_path / "near_misses-2.csv").exists()


@pytest.mark.usefixtures("quick")
def test_what_an_earlier_call_wrote_is_removed(tmp_path: Path) -> None:
    save_figures(places(), tmp_path)
    (tmp_path / "mine.svg").write_text("mine")
    save_figures(people(), tmp_path)
    assert not (tmp_path / "map.svg").exists()
    assert not (tmp_path / "near_misses.csv").exists()
    assert (tmp_path / "cmc.svg").exists()
    remove_figures(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.svg"]


def test_an_index_that_names_other_folders_removes_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "figures" / "figures.json").write_text(
        '{"figures": [], "tables": ["../kept"], "skipped": {}}'
    )
    remove_figures(tmp_path / "figures")
    assert (tmp_path / "kept").exists()


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AlignmentError, match="no result"):
        save_figures([], tmp_path)
    with pytest.raises(AlignmentError, match="2 names for 1"):
        save_figures(people(), tmp_path, names=["a", "b"])
