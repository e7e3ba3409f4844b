"""The command line: parsing and printing only."""

from __future__ import annotations

import sys
from pathlib import Path

from reid_vpr_eval.cli import (  # noqa: F401 (they add their commands)
    compare,
    evaluate,
    files,
    protocols,
    report,
    sweep,
)
from reid_vpr_eval.cli.base import app

__all__ = ["app", "run"]


def run() -> None:
    """Run the command line."""
    app(prog_name=Path(sys.argv[0]).name if sys.argv[0].endswith(("rve", "eval")) else "rve")
