"""Optional packages: imported where they are needed, and asked for by their extra."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from reid_vpr_eval.errors import FormatError

__all__ = ["need"]


def need(package: str, extra: str, path: Path) -> ModuleType:
    """Import a package that reading `path` needs.

    Raises
    ------
    FormatError
        If it is not installed; names the extra that brings it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise FormatError(
            f"{path}: reading it needs {package}, which is not installed: "
            f"pip install 'reid_vpr_eval[{extra}]'"
        ) from error
