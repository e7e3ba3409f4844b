"""Time a distractor curve of a Market-sized run with a large pool: ``python -m benchmarks.sweeps``.

The ranking is made of counts alone: 3,368 queries with 49,649 positives, 15,913 items in the
base and 500,000 in the pool; counts of pool items above are lognormal.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import reid_vpr_eval as rve
from reid_vpr_eval.studies.distractors.curve import log_sizes

__all__ = ["main", "market_with_pool", "measure"]

METRICS = ("mAP", "mAP(rule=trapezoid)", "CMC@1", "CMC@5", "CMC@10", "CMC@20", "mINP")


def market_with_pool(
    *, n_query: int = 3368, n_pairs: int = 49_649, n_base: int = 15_913, n_pool: int = 500_000,
    middle: float = 30.0, seed: int = 0,
) -> rve.Ranking:
    """Return a ranking of counts; `middle` is the median of the pool items above a positive."""
    rng = np.random.default_rng(seed)
    size = rng.multinomial(n_pairs - n_query, np.ones(n_query) / n_query) + 1
    offsets = np.concatenate([[0], np.cumsum(size)])
    query = np.repeat(np.arange(n_query), size)
    item = np.arange(n_pairs) - offsets[query]
    above = np.exp(rng.normal(np.log(middle), 3, n_pairs)).clip(max=0.8 * n_pool)
    base = (above * n_base / n_pool * rng.uniform(0.5, 2, n_pairs)).clip(max=0.9 * n_base)
    counts = [one[np.lexsort((one, query))].astype(np.uint32) for one in (base, above)]
    tiny = rve.rank(
        rve.ScoreMatrix(np.zeros((1, 3)), higher_is_better=True),
        rve.Relevance.from_pairs([0], [0], n_query=1, n_gallery=3),
        strata=["base", "base", "pool"],
    )
    n, none = n_base + n_pool, np.zeros((n_pairs, 2), np.uint32)
    return replace(
        tiny, n_query=n_query, n_gallery=n, slices=np.array([[0, n]]), offsets=offsets, item=item,
        ignored_gallery=np.zeros(n, bool),
        row_stratum=np.repeat(np.array([0, 1], np.int32), [n_base, n_pool]),
        n_unjudged=np.stack([n_base - size, np.full(n_query, n_pool)], axis=1),
        kept=np.ones((n_query, 2), bool), depth=np.full(n_query, -1),
        best_item=np.zeros(n_query, np.int64), best_score=np.zeros(n_query),
        best_tie=np.zeros(n_query, np.int64), stratum=np.zeros(n_pairs, np.int32),
        role=np.ones(n_pairs, np.int8), grade=np.ones(n_pairs), score=-item.astype(float),
        order=item.astype(np.int32), tie_group=item.astype(np.int32),
        found=np.ones(n_pairs, bool), above=np.stack(counts, axis=1), tied=none,
        tied_before=none,
    )  # fmt: skip


def measure(n_sizes: int, metrics: Sequence[str] = METRICS, **world: Any) -> dict[str, Any]:
    """Return seconds of one thread for a curve, and the largest memory of the process."""
    ranking = market_with_pool(**world)
    largest = int(ranking.n_unjudged[0, 1])
    steps = n_sizes - 1
    while len(sizes := log_sizes(largest, steps)) < min(n_sizes, largest + 1):
        steps += 1
    with threadpool_limits(1):
        cpu, wall = time.thread_time(), time.perf_counter()
        curve = rve.distractor_curve(ranking, sizes, metrics, base="base", pool="pool")
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    plain = rve.compute(ranking, list(metrics))
    last = curve[curve["size"] == largest]
    error = max(abs(value - plain[name])
                for name, value in zip(last["metric"], last["value"], strict=True))  # fmt: skip
    return {
        "sizes": len(sizes), "metrics": len(metrics), "pairs": len(ranking.item),
        "pool": largest, "cpu_seconds": round(cpu, 2), "seconds": round(wall, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "error_at_the_full_pool": error,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps", description=__doc__)
    parser.add_argument("--sizes", type=int, default=200)
    parser.add_argument("--pool", type=int, default=500_000)
    given = parser.parse_args(arguments)
    for middle in (30.0, 2000.0):
        for metrics in (METRICS, ("mAP",)):
            print(json.dumps({"median_above": middle, **measure(
                given.sizes, metrics, n_pool=given.pool, middle=middle)}))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
