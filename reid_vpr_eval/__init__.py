"""Exact evaluation for re-identification, place recognition and retrieval.

The names below are the public face, beside the rooms such as `relevance`, `report` and `studies`;
each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Embeddings": "scores",
    "EvaluationWarning": "errors",
    "Evaluator": "evaluator",
    "AlignmentError": "errors",
    "FormatError": "errors",
    "NotCountedError": "errors",
    "Protocol": "protocol",
    "ProtocolError": "errors",
    "RankedLists": "scores",
    "Ranking": "ranking",
    "Relevance": "relevance",
    "RelevanceError": "errors",
    "Result": "result",
    "Samples": "samples",
    "ScoreError": "errors",
    "ScoreMatrix": "scores",
    "ann_recall": "metrics.neighbours",
    "compare": "studies.comparison",
    "compute": "metrics",
    "distractor_curve": "studies.distractors",
    "evaluate": "evaluation",
    "list_protocols": "protocol",
    "load_protocol": "protocol",
    "range_search_scores": "metrics.ranges",
    "rank": "ranking",
}
_ROOMS = (
    "compat", "demo", "encoders", "formats", "metrics", "ranking", "relevance", "report", "studies",
    "uncertainty",
)  # fmt: skip

__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
