"""Every notebook runs from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.py"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the notebook machinery, not of the package
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path) -> None:
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(path)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert all(cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code")


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
