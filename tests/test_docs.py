"""The generated pages are those that the code would write now; guides show what happens."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from reid_vpr_eval.metrics import METRICS

DOCS = Path(__file__).parents[1] / "docs"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_make", DOCS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(maker().PAGES))
def test_pages_are_up_to_date(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page == maker().PAGES[name](), "run: python docs/make.py"


#: What clusters.md shows starts processes; test_guides.py runs it.
GUIDES = sorted(path.name for path in DOCS.glob("*.md")
                if path.name not in {*maker().PAGES, "clusters.md"}
                and "```python" in path.read_text("utf-8"))  # fmt: skip


@pytest.mark.parametrize("name", GUIDES)
def test_guides_show_what_happens(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest("".join(blocks), {}, name, None, 0))
    assert runner.failures == 0
    assert runner.tries > len(blocks) > 0


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_declares_everything(name: str) -> None:
    entry = METRICS[name]
    for field in ("doc", "formula", "reference", "ties", "chance", "cutoff", "needs", "monotone"):
        assert getattr(entry, field), f"{name} lacks {field}"
    assert f"## {name}\n" in (DOCS / "metrics.md").read_text(encoding="utf-8")
