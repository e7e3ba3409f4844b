"""Figures under their older name: see :mod:`reid_vpr_eval.report.figures`."""

from __future__ import annotations

from reid_vpr_eval.report.figures.curves import CurveDisplay
from reid_vpr_eval.report.figures.style import (
    GRID,
    INK,
    MUTED,
    SERIES,
    figure_bytes,
    run_names,
)

__all__ = ["GRID", "INK", "MUTED", "SERIES", "CurveDisplay", "figure_bytes", "run_names"]
