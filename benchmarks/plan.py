"""Everything that is measured, section by section, and the record of it."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import CASES
from benchmarks.children import job, seconds_to_import
from benchmarks.measure import Spread
from benchmarks.peers import CASES_OF, compare

__all__ = ["KERNELS", "SECTIONS", "Options", "measure", "updated"]

KERNELS = ("numpy", "numba")
_VERSION = 1
_SIZES = (20_000, 50_000, 100_000, 200_000, 500_000)
_ROWS = {"n_query": 1000, "dim": 512}
_OTHER_ROUNDS, _IMPORTS = 3, 5

Entry = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure.

    Attributes
    ----------
    shrink : int
        By what all sizes are divided.
    rounds : int
        Rounds of the ratios; the other sections take 3 at most.
    workers : int
        Threads, of this package and of the bare product.
    kernels, cases, sections : sequences of str
        Which of them.
    peers : str or None
        The Python of an environment with the peers.
    """

    shrink: int = 1
    rounds: int = 5
    workers: int = 2
    kernels: Sequence[str] = KERNELS
    cases: Sequence[str] = tuple(CASES)
    sections: Sequence[str] = ()
    peers: str | None = None

    @property
    def few(self) -> int:
        """Rounds of what is compared roughly."""
        return min(self.rounds, _OTHER_ROUNDS)

    def spec(self, name: str, **more: Any) -> Entry:
        """Return the specification of a job."""
        return {"job": name, "shrink": self.shrink, "workers": self.workers, **more}

    def best_kernels(self) -> str:
        """Return the fastest inner loops of those asked for that are installed."""
        wanted = "numba" in self.kernels and not missing("numba")
        return "numba" if wanted else "numpy"


def missing(kernels: str) -> str:
    """Return why these inner loops cannot run, or nothing."""
    if kernels == "numba" and importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    return ""


def _each_case(options: Options, name: str, rounds: int, say: Say) -> Iterator[Entry]:
    for case in options.cases:
        for kernels in options.kernels:
            entry = {"case": case, "kernels": kernels}
            if why := missing(kernels):
                yield {**entry, "skipped": why}
                continue
            say(f"{name}: {case} with {kernels}")
            yield {**entry, **job(options.spec(name, case=case, rounds=rounds), kernels)}


def updated(known: Entry, measured: Entry) -> Entry:
    """Return a record with what was measured now in the place of what was known of the same.

    Ratios and memory are known case by case, for each kind of loops; other sections as a whole.
    """
    record = {**known, **measured}
    for name in ("ratios", "memory"):
        if name in known and name in measured:
            found = {(entry["case"], entry["kernels"]): entry
                     for entry in (*known[name], *measured[name])}  # fmt: skip
            order = [(case, kernels) for case in CASES for kernels in KERNELS]
            record[name] = [found[key] for key in order if key in found]
    return record


def _ratios(options: Options, say: Say) -> Iterator[Entry]:
    for entry in _each_case(options, "ratios", options.rounds, say):
        yield {**entry, "target": CASES[entry["case"]].target(entry["kernels"])}


def _memory(options: Options, say: Say) -> Iterator[Entry]:
    return _each_case(options, "memory", 1, say)


def _scaling(options: Options, say: Say) -> Iterator[Entry]:
    kernels = options.best_kernels()
    for size in _SIZES:
        n = size // options.shrink
        say(f"scaling: {n:,} gallery rows with {kernels}")
        sizes = {name: max(value // options.shrink, 16) for name, value in _ROWS.items()}
        spec = options.spec("scaling", n_gallery=n, rounds=options.few, **sizes)
        yield {"kernels": kernels, **job(spec, kernels)}


def _pairwise(name: str, case: str) -> Callable[[Options, Say], Iterator[Entry]]:
    def measure_it(options: Options, say: Say) -> Iterator[Entry]:
        kernels = options.best_kernels()
        say(f"{name}: {case} with {kernels}")
        spec = options.spec(name, case=case, rounds=options.few)
        yield {"case": case, "kernels": kernels, **job(spec, kernels)}

    return measure_it


def _imports(options: Options, say: Say) -> Iterator[Entry]:
    say("import")
    found = [seconds_to_import() for _ in range(min(options.rounds, _IMPORTS) + 1)][1:]
    if any("skipped" in one for one in found):
        yield found[0]
        return
    spread = {name: Spread.of([one[name] for one in found]).median for name in ("bare", "used")}
    yield {**spread, "compiler": any(one["compiler"] for one in found)}


def _peers(options: Options, say: Say) -> Iterator[Entry]:
    for case in CASES_OF:
        if case in options.cases:
            yield from compare(case, shrink=options.shrink, rounds=options.few,
                               workers=options.workers, python=options.peers, say=say)  # fmt: skip


#: Every section of the record by its name, in the order in which they are measured.
SECTIONS: dict[str, Callable[[Options, Say], Iterator[Entry]]] = {
    "ratios": _ratios, "memory": _memory, "scaling": _scaling,
    "shards": _pairwise("shards", "large"), "workers": _pairwise("workers", "market"),
    "strata": _pairwise("strata", "large"), "import": _imports, "peers": _peers,
}  # fmt: skip


def measure(options: Options, say: Say) -> dict[str, Any]:
    """Measure all that was asked for and return the record."""
    record: dict[str, Any] = {
        "version": _VERSION, "machine": {**job(options.spec("machine")), "cores": _cores()},
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "date": time.strftime("%Y-%m-%d", time.gmtime()), "shrink": options.shrink,
        "rounds": options.rounds, "threads": options.workers,
    }  # fmt: skip
    for name in options.sections or SECTIONS:
        record[name] = list(SECTIONS[name](options, say))
    return record


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
