"""Layers import downwards only, public names are what they say, importing stays fast."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import reid_vpr_eval

PACKAGE = Path(reid_vpr_eval.__file__).parent

#: Lowest first; a module may import its own layer and those before it.
LAYERS = [
    "errors", "archive", "columns", "samples", "scores", "formats", "protocol", "relevance",
    "ranking", "metrics", "uncertainty", "breakdowns", "draws",
    "readings", "measuring", "summary", "tables",
    "result", "per_query", "places", "alignment", "counts", "rules", "checks", "dense",
    "evaluation", "evaluator", "studies",
    "report", "encoders", "compat", "runs", "sweep_pools", "sweeps", "sweep_hard",
    "demo", "cli", "__main__",
]  # fmt: skip
#: Packages that only some layers may import.
HEAVY = {
    "pandas": {"samples", "formats", "breakdowns", "readings", "draws", "summary", "tables",
               "result", "per_query", "places", "alignment", "dense", "evaluation", "studies",
               "report", "sweeps", "sweep_hard"},
    "matplotlib": {"report"},
    "jinja2": {"report"},
    "PIL": {"report", "encoders", "demo"},
    "typer": {"cli"},
    "rich": {"cli"},
    "pydantic": {"protocol"},
    "sklearn": {"relevance"},
    "geopy": {"relevance"},
}


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[tuple[str, ast.stmt]]:
    found: list[tuple[str, ast.stmt]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, node)]
            if node.module == "reid_vpr_eval":
                found += [(f"reid_vpr_eval.{alias.name}", node) for alias in node.names]
    return found


SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_layers_import_downwards_only(path: Path) -> None:
    own = LAYERS.index(layer_of(path))
    for name, _ in imports_of(path):
        parts = name.split(".")
        if parts[0] == "reid_vpr_eval" and len(parts) > 1 and parts[1] != "__version__":
            assert parts[1] in LAYERS, f"{parts[1]} has no place among the layers"
            assert LAYERS.index(parts[1]) <= own, f"{layer_of(path)} imports {name}"
        if parts[0] in HEAVY:
            assert layer_of(path) in HEAVY[parts[0]], f"{layer_of(path)} imports {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def test_public_names_are_sorted_and_importable() -> None:
    assert reid_vpr_eval.__all__ == sorted(reid_vpr_eval.__all__)
    assert len(reid_vpr_eval.__all__) <= 25
    for name in reid_vpr_eval.__all__:
        assert getattr(reid_vpr_eval, name) is not None
    assert set(reid_vpr_eval.__all__) <= set(dir(reid_vpr_eval))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = reid_vpr_eval.nonsense


def test_evaluate_stays_a_function_whatever_is_imported_first() -> None:
    importlib.import_module("reid_vpr_eval.evaluation")
    importlib.import_module("reid_vpr_eval.cli")
    assert callable(reid_vpr_eval.evaluate)
    assert callable(reid_vpr_eval.rank)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, reid_vpr_eval; "
        "print([m for m in ('numpy', 'pandas', 'matplotlib', 'typer', 'pydantic', 'scipy') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
