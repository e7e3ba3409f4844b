"""The command: measure, print the table, save the record, the page and its figures."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cases import CASES
from benchmarks.plan import KERNELS, SECTIONS, Options, measure, updated
from benchmarks.report import console, save

_QUICK = 8


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time this package against the bare matrix product and against its peers.",
    )
    parser.add_argument("--quick", action="store_true",
                        help=f"sizes divided by {_QUICK} and one round: a look, no measurement")
    parser.add_argument("--shrink", type=int, default=1, help="divide all sizes by this")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the ratios")
    parser.add_argument("--workers", type=int, default=2, help="threads, also of the product")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--peers", metavar="PYTHON", default=os.environ.get("RVE_PEERS"),
                        help="the Python of an environment that has faiss-cpu, "
                             "pytorch-metric-learning, torchmetrics and ranx (or RVE_PEERS)")
    parser.add_argument("--out", type=Path, default=Path("bench-out"),
                        help="folder of the record, the page and its figures")
    parser.add_argument("--update", action="store_true",
                        help="keep what the record in the folder has beside what is measured")
    parser.add_argument("--page", action="store_true",
                        help="measure nothing: write the page from the record in the folder")
    return parser  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    given = _parser().parse_args(arguments)
    path = given.out / "performance.json"
    if (given.page or given.update) and not path.exists():
        print(f"{path} does not exist: measure first, without --page and --update",
              file=sys.stderr)  # fmt: skip
        return 2
    known = json.loads(path.read_text(encoding="utf-8")) if given.page or given.update else {}
    record = known
    if not given.page:
        options = Options(
            shrink=_QUICK if given.quick else given.shrink,
            rounds=1 if given.quick else given.rounds, workers=given.workers,
            kernels=given.kernels, cases=given.cases, sections=given.sections, peers=given.peers,
        )  # fmt: skip
        found = measure(options, lambda line: print(line, file=sys.stderr, flush=True))
        record = updated(known, found)
    save(record, given.out)
    print(console(record))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
