"""Other tools on the same features, in turn with this package."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.children import answer, job
from benchmarks.measure import Spread, ratio

__all__ = ["CASES_OF", "TARGETS", "compare"]

_SCRIPT = Path(__file__).with_name("peer_script.py")
_LONGEST = 900
#: Those that the dependencies of this package bring; the others need an environment.
_AT_HAND = ("numpy argsort", "scikit-learn kNN")
#: Which peers can do a case at all: the full square of scores fits no memory.
CASES_OF = {
    "market": (*_AT_HAND, "faiss flat", "pytorch-metric-learning", "torchmetrics", "ranx"),
    "products": ("scikit-learn kNN", "faiss flat", "pytorch-metric-learning"),
}
#: How many times faster than a peer to be, at least.
TARGETS = {
    ("market", "pytorch-metric-learning"): 8.0, ("products", "pytorch-metric-learning"): 5.0,
    ("market", "faiss flat"): 4.0, ("products", "faiss flat"): 4.0,
    ("market", "numpy argsort"): 2.0,
}  # fmt: skip
_METRICS = {
    "market": ("mAP", "mAP@1000", "CMC@1", "CMC@5", "CMC@10"),
    "products": ("mAP", "R-precision", "MAP@R", "CMC@1", "CMC@5", "CMC@10"),
}


def compare(
    case: str, *, shrink: int, rounds: int, workers: int, python: str | None,
    say: Callable[[str], None],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield one record for this package and for each peer.

    In every round each tool evaluates the same written features once, in a fresh process.

    Parameters
    ----------
    python : str or None
        The interpreter of an environment that has the peers.
    """
    with tempfile.TemporaryDirectory() as folder:
        shared = {"shrink": shrink, "workers": workers, "folder": folder, "case": case}
        sizes = job({"job": "written", **shared})
        if "skipped" in sizes:
            yield {"case": case, "peer": "all", **sizes}
            return
        runs: dict[str, list[dict[str, Any]]] = {}
        for number in range(rounds):
            for name in ("ours", *CASES_OF[case]):
                if any("skipped" in run for run in runs.get(name, [])):
                    continue
                say(f"{case}, round {number + 1} of {rounds}: {name}")
                if name == "ours":
                    spec = {"job": "evaluated", "metrics": _METRICS[case], **shared}
                    runs.setdefault(name, []).append(job(spec))
                else:
                    runs.setdefault(name, []).append(_run(name, folder, python))
        for name, found in runs.items():
            yield {"case": case, "peer": name, **_record(name, found, runs["ours"]), **sizes}


def _run(name: str, folder: str, python: str | None) -> dict[str, Any]:
    if name not in _AT_HAND and python is None:
        return {"skipped": "no environment with peers was named (--peers)"}
    interpreter = sys.executable if name in _AT_HAND else str(python)
    return answer([interpreter, _SCRIPT, name, folder], longest=_LONGEST)


def _record(
    name: str, found: Sequence[dict[str, Any]], ours: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Sum up the rounds of one tool."""
    for run in (*found, *ours):
        if "skipped" in run:
            return {"skipped": run["skipped"]}
    seconds = {"peer": [run["seconds"] for run in found], "ours": [run["seconds"] for run in ours]}
    peaks = [run["peak"] for run in found if run["peak"]]
    record = {
        "seconds": asdict(Spread.of(seconds["peer"])), "metrics": found[0]["metrics"],
        "peak": max(peaks) if peaks else None,
    }  # fmt: skip
    if name == "ours":
        return {**record, "kernels": found[0]["kernels"]}
    apart = {key: abs(value - ours[0]["metrics"][key]) for key, value in
             found[0]["metrics"].items()}  # fmt: skip
    return {**record, "ratio": ratio(seconds, "peer", "ours"), "apart": max(apart.values())}
