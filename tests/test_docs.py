"""The generated pages are those that the code would write now."""

from __future__ import annotations

import importlib.util
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


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_declares_everything(name: str) -> None:
    entry = METRICS[name]
    for field in ("doc", "formula", "reference", "ties", "chance", "cutoff", "needs", "monotone"):
        assert getattr(entry, field), f"{name} lacks {field}"
    assert f"## {name}\n" in (DOCS / "metrics.md").read_text(encoding="utf-8")
