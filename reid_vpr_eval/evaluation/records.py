"""What is written down with a result: its inputs, and what it was made with."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Scores

__all__ = ["environment", "inputs_of"]

_PACKAGES = ("reid_vpr_eval", "numpy", "scipy", "pandas")


def environment(seconds: float) -> dict[str, Any]:
    """Return what a run was made with: versions, machine, time."""
    return {
        "versions": {name: _version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "machine": platform.platform(),
        "seconds": round(seconds, 3),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def _version(name: str) -> str:
    """Return the version of an installed package, which is looked for on disk only once."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def inputs_of(query: Samples, gallery: Samples, scores: Scores) -> dict[str, Any]:
    """Return the fingerprints of both sides and of the scores, and what kind of scores they are."""
    ours, theirs = query.fingerprint(), gallery.fingerprint()
    return {
        "query": ours,
        "gallery": theirs,
        "query_in_any_order": ours if query.is_in_order else query.fingerprint(ordered=False),
        "gallery_in_any_order": (
            theirs if gallery.is_in_order else gallery.fingerprint(ordered=False)
        ),
        "scores_fingerprint": scores.fingerprint(),
        "scores": {
            "matrix": "a matrix of similarities" if getattr(scores, "higher_is_better", True)
            else "a matrix of distances",
            "lists": "ranked lists",
        }.get(scores.kind, "features"),
        "metric": getattr(scores, "metric", None),
    }  # fmt: skip
