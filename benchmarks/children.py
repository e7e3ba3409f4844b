"""Processes of their own: clean memory, clean threads, a clean environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "answer", "environment", "job", "seconds_to_import"]

ROOT = Path(__file__).parents[1]
#: Variables that choose another BLAS kernel than the processor's own, often a slow one.
_MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "RVE_KERNELS")
_LONGEST = 1800


def environment(kernels: str | None = None) -> dict[str, str]:
    """Return the environment of a child: no choice of a BLAS kernel, these inner loops."""
    kept = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    return kept if kernels is None else {**kept, "RVE_KERNELS": kernels}


def answer(
    command: Sequence[str | Path], kernels: str | None = None, longest: float = _LONGEST
) -> dict[str, Any]:
    """Run a child in the root of the repository and read the JSON in its last line.

    Returns
    -------
    dict
        ``{"skipped": why}`` for a child that failed or took too long.
    """
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment(kernels), capture_output=True,
                              text=True, timeout=longest, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"skipped": f"took longer than {longest:g} s"}
    except OSError as error:
        return {"skipped": f"{command[0]} does not run: {error}"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"skipped": f"failed (exit {done.returncode}): {last}"}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def job(spec: Mapping[str, Any], kernels: str | None = None) -> dict[str, Any]:
    """Do a job of :mod:`benchmarks.jobs` in a process of its own."""
    return answer([sys.executable, "-m", "benchmarks.jobs", json.dumps(spec)], kernels)


def seconds_to_import() -> dict[str, Any]:
    """Time the import of the package by a fresh interpreter that has its files in the cache."""
    code = (
        "import json, sys, time; begin = time.perf_counter(); import reid_vpr_eval as r; "
        "bare = time.perf_counter() - begin; r.evaluate; r.rank; "
        "print(json.dumps({'bare': bare, 'used': time.perf_counter() - begin, "
        "'compiler': 'numba' in sys.modules}))"
    )
    return answer([sys.executable, "-c", code])
