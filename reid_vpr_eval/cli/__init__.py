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

#: The commands as --help lists them: what comes first when one works comes first.
_ORDER = ("demo", "check", "run", "compare", "sweep", "report", "conventions", "encode")
app.registered_commands.sort(
    key=lambda one: _ORDER.index(one.name or getattr(one.callback, "__name__", ""))
)


def run() -> None:
    """Run the command line."""
    app(prog_name=Path(sys.argv[0]).name if sys.argv[0].endswith(("rve", "eval")) else "rve")
