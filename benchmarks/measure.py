"""Taking turns, statistics of ratios, and the memory of a process."""

from __future__ import annotations

import ctypes
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

__all__ = ["Memory", "Spread", "machine", "ratio", "take_turns"]

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the least and the largest value.

    >>> Spread.of([3.0, 1.0, 2.0])
    Spread(median=2.0, least=1.0, largest=3.0)
    """

    median: float
    least: float
    largest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Sum up some values."""
        return cls(statistics.median(values), min(values), max(values))


def take_turns(
    actions: Mapping[str, Callable[[], object]], rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:  # fmt: skip
    """Return the seconds of each action in each round; a round before the first is not counted.

    The actions are done one after the other in every round, so that what slows a machine down
    for a while slows all of them down.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        for name, action in actions.items():
            begin = clock()
            action()
            if number:
                seconds[name].append(clock() - begin)
    return seconds


def ratio(seconds: Mapping[str, Sequence[float]], of: str, to: str) -> dict[str, float]:
    """Return the spread of the ratio of two actions, taken round by round.

    >>> ratio({"a": [2.0, 6.0, 4.0], "b": [1.0, 2.0, 4.0]}, "a", "b")
    {'median': 2.0, 'least': 1.0, 'largest': 3.0}
    """
    pairs = zip(seconds[of], seconds[to], strict=True)
    return asdict(Spread.of([one / other for one, other in pairs]))


@dataclass(frozen=True, slots=True)
class Memory:
    """The resident memory of this process in bytes, now and at its highest."""

    now: int
    peak: int

    @classmethod
    def read(cls) -> Memory | None:
        """Read it; None where the system does not tell (it is a file of Linux)."""
        if not _STATUS.exists():
            return None
        text = _STATUS.read_text(encoding="ascii")
        found = {name: int(kib) * 1024 for name, kib in re.findall(r"(Vm\w+):\s+(\d+) kB", text)}
        return cls(found["VmRSS"], found["VmHWM"])

    @staticmethod
    def forget_peak() -> None:
        """Let the highest value start from that of now, without what is free already."""
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def machine() -> dict[str, Any]:
    """Name what runs: processor, cores, versions, and the kernel that the BLAS chose."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    model = re.search(r"model name\s*:\s*(.+)", text)
    np.ones((2, 2)) @ np.ones((2, 2))
    blas = [
        {"name": pool["internal_api"], "version": pool.get("version"),
         "kernel": pool.get("architecture")}
        for pool in threadpool_info() if pool["user_api"] == "blas"
    ]  # fmt: skip
    return {
        "processor": model[1].strip() if model else platform.processor() or platform.machine(),
        "family": _numbers(text), "system": platform.system(), "python": platform.python_version(),
        "numpy": np.__version__, "blas": blas,
    }  # fmt: skip


def _numbers(text: str) -> str:
    """Return family and model, which tell virtual processors apart that share a name."""
    found = [re.search(rf"^{name}\s*:\s*(\d+)", text, re.MULTILINE)
             for name in ("cpu family", "model")]  # fmt: skip
    return ".".join(match[1] for match in found if match)
