"""Where the shared inputs are, and a mark for tests that need them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(os.environ.get("RVE_SHARED") or Path(__file__).parents[2] / "shared")


def data(path: str) -> Path:
    """Return a real input, or skip the test where it is absent."""
    return _present(ROOT / "data" / path)


def oracle(name: str) -> Any:
    """Return the content of an oracle file, or skip the test where it is absent."""
    return json.loads(_present(ROOT / "oracles" / name).read_text(encoding="utf-8"))


def _present(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"shared input absent: {path.name}")
    return path
