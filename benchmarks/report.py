"""The record as text for the console, and as a page with its figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import figures
from benchmarks.tables import machine_line, tables

__all__ = ["console", "page", "save"]

_HEAD = """# Performance

Measured by `python -m benchmarks --out docs`, which also writes this page.

An exact evaluation from features must at least multiply every query with every ranked item.
So the time of that product, on the same machine, in the same minute, is the measure, and not
seconds. Every count is exact: what the error bound of the float32 product leaves undecided is
decided by a float64 product, and what that leaves by the canonical score. NumPy and compiled
kernels (the extra `fast`) give the same bits.
"""
_OWN = """## On your machine

```
make bench
make bench BENCH="--peers /path/to/venv/bin/python"
python -m benchmarks --quick
python -m benchmarks --help
```

The peers need an environment of their own:
`pip install faiss-cpu pytorch-metric-learning torchmetrics ranx scikit-learn`. Each case runs in a
process of its own. `OPENBLAS_CORETYPE` and `OPENBLAS_L2_SIZE` are taken out of its environment,
as they choose other BLAS kernels than the processor's own, often slow ones; the kernel that ran
is printed.
"""
_FIGURES = {
    "performance-ratios.svg": ("Against the bare product", "Ratios and what is to be reached"),
    "performance-scaling.svg": ("Growth with the gallery", "Seconds over the size of the gallery"),
    "performance-peers.svg": ("Against other tools", "Seconds of other tools over those of ours"),
}


def console(record: Mapping[str, Any]) -> str:
    """Return what the command prints."""
    lines = [machine_line(record), "", *(_warning(record))]
    return "\n".join([*lines, *(table.text().replace("**", "") for table in tables(record))])


def page(record: Mapping[str, Any]) -> str:
    """Return the page, in Markdown."""
    drawn = {_FIGURES[name][0]: name for name in figures(record)}
    parts = [_HEAD, f"The machine: {machine_line(record)}.\n", *_warning(record)]
    for table in tables(record):
        parts.append(table.markdown())
        if name := drawn.get(table.title):
            parts.append(f"![{_FIGURES[name][1]}]({name})\n")
    return "\n".join([*parts, _OWN])


def _warning(record: Mapping[str, Any]) -> list[str]:
    if record["shrink"] == 1:
        return []
    return [f"All sizes were divided by {record['shrink']}: a trial, not a measurement.\n"]


def save(record: Mapping[str, Any], folder: Path) -> None:
    """Write the record, the page and its figures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (folder / "performance.json").write_text(text + "\n", encoding="utf-8")
    (folder / "performance.md").write_text(page(record), encoding="utf-8")
    for name, content in figures(record).items():
        (folder / name).write_bytes(content)
