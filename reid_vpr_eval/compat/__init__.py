"""Calls of other tools, with their signatures and return shapes, read from one ranking.

Each module stands for one tool or family of tools. Where the original crashes, is wrong or
leaves the order of equal scores to chance, the module says what is done instead. Equal
scores are ordered by gallery position (``ties="index"``) unless another reading is asked
for by the keyword `ties`, which the originals do not have.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = [
    "cross_modal",
    "fastreid",
    "metric_learning",
    "oml",
    "places",
    "revisitop",
    "torchreid",
    "transreid",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
