"""Optional packages: imported where they are needed, and asked for by their extra."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from reid_vpr_eval.errors import FormatError

__all__ = ["need"]


def need(package: str, extra: str, what: Path | str) -> ModuleType:
    """Import a package that a file, or something else that was asked for, needs.

    Raises
    ------
    FormatError
        If it is not installed; names the extra that brings it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise FormatError(
            f"{what}: needs {package}, which is not installed: "
            f"pip install 'reid_vpr_eval[{extra}]'"
        ) from error
