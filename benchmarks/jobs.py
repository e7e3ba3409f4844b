"""What is measured, each in a process of its own: ``python -m benchmarks.jobs '{"job": ...}'``.

A job gets a specification and returns numbers; the process prints them as one line of JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bands import bands
from benchmarks.cases import CASES, plain_world, row_world
from benchmarks.measure import Memory, machine, ratio, take_turns
from benchmarks.product import bare_product, cuts
from benchmarks.worlds import World
from reid_vpr_eval import Embeddings
from reid_vpr_eval.metrics import compute
from reid_vpr_eval.metrics.compute import Values
from reid_vpr_eval.ranking import rank
from reid_vpr_eval.ranking.kernels import kernels_for

__all__ = ["JOBS", "Spec", "kernels_in_use", "run_job"]

Spec = Mapping[str, Any]
Run = Callable[[], Values]

_SHARDS, _STRATA = 8, 100


def _ours(world: World, *, scores: Any = None, **options: Any) -> Run:
    """Return the whole evaluation: rank, then compute."""

    def run() -> Values:
        ranking = rank(world.scores if scores is None else scores, world.relevance,
                       keep=world.keep, **options)  # fmt: skip
        return compute(ranking, world.metrics)

    return run


class Remembered:
    """An action whose last result is kept."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self.result: Any = None

    def __call__(self) -> None:
        """Do it."""
        self.result = self._action()


def kernels_in_use(world: World) -> str:
    """Return which inner loops a world is worth, as the package decides."""
    wanted = os.environ.get("RVE_KERNELS")
    if wanted:
        return wanted
    work = float(len(world.query)) * len(world.gallery) * world.query.shape[1]
    return "numba" if "compiled" in str(kernels_for(work)) else "numpy"


def ratios(spec: Spec) -> dict[str, Any]:
    """Time a case against the bare product over the same kept columns, in turn."""
    world = CASES[spec["case"]].make(spec["shrink"])
    columns, workers = world.kept_columns, spec["workers"]
    ours = Remembered(_ours(world, workers=workers))
    actions: dict[str, Callable[[], object]] = {
        "product": lambda: bare_product(world.query, columns, workers), "ours": ours,
    }  # fmt: skip
    seconds = take_turns(actions, spec["rounds"])
    return {
        "seconds": seconds, "ratio": ratio(seconds, "ours", "product"),
        "metrics": dict(ours.result), "bands": asdict(bands(world)), **world.describe(),
    }  # fmt: skip


def memory(spec: Spec) -> dict[str, Any]:
    """Measure the resident memory of one run at its highest."""
    world = CASES[spec["case"]].make(spec["shrink"])
    if Memory.read() is None:
        return {"skipped": "this system does not tell the memory of a process (/proc)"}
    Memory.forget_peak()
    before = Memory.read()
    _ours(world, workers=spec["workers"])()
    after = Memory.read()
    assert before is not None  # noqa: S101 (narrows the type)
    assert after is not None  # noqa: S101
    return {"data": world.n_bytes, "before": before.now, "peak": after.peak, **world.describe()}


def scaling(spec: Spec) -> dict[str, Any]:
    """Time a gallery of some size against the bare product."""
    world = row_world(spec["n_gallery"], n_query=spec["n_query"], dim=spec["dim"])
    workers = spec["workers"]
    ours = _ours(world, workers=workers)
    if (before := Memory.read()) is not None:
        Memory.forget_peak()
    ours()
    after = Memory.read()
    seconds = take_turns(
        {"product": lambda: bare_product(world.query, world.gallery, workers), "ours": ours},
        spec["rounds"],
    )
    return {
        "seconds": seconds, "ratio": ratio(seconds, "ours", "product"),
        "beyond": after.peak - before.now if after and before else None, **world.describe(),
    }  # fmt: skip


def _against(spec: Spec, world: World, one: Run, other: Run, names: tuple[str, str]) -> Any:
    """Time two forms of one evaluation in turn; they must give the same numbers."""
    first, second = Remembered(one), Remembered(other)
    seconds = take_turns({names[0]: first, names[1]: second}, spec["rounds"])
    return {
        "seconds": seconds, "ratio": ratio(seconds, names[1], names[0]),
        "same": dict(first.result) == dict(second.result), **world.describe(),
    }  # fmt: skip


def shards(spec: Spec) -> dict[str, Any]:
    """Time features in files of some rows each against the same in memory."""
    if importlib.util.find_spec("reid_vpr_eval.scores.shards") is None:
        return {"skipped": "this version reads no shards"}
    world = CASES[spec["case"]].make(spec["shrink"])
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, rows in enumerate(cuts(len(world.gallery), -(-len(world.gallery) // _SHARDS))):
            paths.append(Path(folder) / f"gallery-{number:03d}.npy")
            np.save(paths[-1], world.gallery[rows])
        streamed: Any = paths
        scores = Embeddings(world.query, streamed)
        workers = spec["workers"]
        found = _against(spec, world, _ours(world, workers=workers),
                         _ours(world, scores=scores, workers=workers), ("memory", "shards"))
    return {"n_shards": len(paths), **found}  # fmt: skip


def workers(spec: Spec) -> dict[str, Any]:
    """Time two workers against one."""
    world = CASES[spec["case"]].make(spec["shrink"])
    return dict(_against(spec, world, _ours(world, workers=1), _ours(world, workers=2),
                         ("one worker", "two workers")))  # fmt: skip


def strata(spec: Spec) -> dict[str, Any]:
    """Time a gallery counted in a hundred strata against one stratum."""
    world = CASES[spec["case"]].make(spec["shrink"])
    rows: npt.NDArray[np.int64] = np.arange(len(world.gallery)) % _STRATA
    workers = spec["workers"]
    return dict(_against(spec, world, _ours(world, workers=workers),
                         _ours(world, strata=rows, workers=workers),
                         ("one stratum", f"{_STRATA} strata")))  # fmt: skip


def written(spec: Spec) -> dict[str, Any]:
    """Write the world that peers see: vectors of length 1, labels."""
    world = plain_world(spec["case"], spec["shrink"])
    folder = Path(spec["folder"])
    sides = {"query": (world.query, world.query_label)}
    if not world.square:
        sides["gallery"] = (world.gallery, world.gallery_label)
    for side, (vectors, label) in sides.items():
        lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
        np.save(folder / f"{side}.npy", (vectors / lengths[:, None]).astype(np.float32))
        np.save(folder / f"{side}_label.npy", label)
    return world.describe()


def evaluated(spec: Spec) -> dict[str, Any]:
    """Evaluate written features once, as the peers do."""
    folder = Path(spec["folder"])
    query, label = np.load(folder / "query.npy"), np.load(folder / "query_label.npy")
    gallery, other = query, label
    if (folder / "gallery.npy").exists():
        gallery, other = np.load(folder / "gallery.npy"), np.load(folder / "gallery_label.npy")
    world = World(query, gallery, label, other, tuple(spec["metrics"]))
    ours = Remembered(_ours(world, workers=spec["workers"]))
    seconds = take_turns({"ours": ours}, 1)
    known = Memory.read()
    return {"seconds": seconds["ours"][0], "metrics": dict(ours.result),
            "peak": known.peak if known else None, "kernels": kernels_in_use(world)}  # fmt: skip


#: Every kind of measurement by its name.
JOBS: dict[str, Callable[[Spec], dict[str, Any]]] = {
    "ratios": ratios, "memory": memory, "scaling": scaling, "shards": shards, "workers": workers,
    "strata": strata, "written": written, "evaluated": evaluated, "machine": lambda _: machine(),
}  # fmt: skip


def run_job(spec: Spec) -> dict[str, Any]:
    """Do what a specification says."""
    return JOBS[spec["job"]](spec)


if __name__ == "__main__":
    print(json.dumps(run_job(json.loads(sys.argv[1]))))
