"""Figures as objects: computed by `from_result`, drawn by `plot`, their numbers kept."""

from __future__ import annotations

from reid_vpr_eval.report.figures.curves import CurveDisplay
from reid_vpr_eval.report.figures.style import Display, figure_bytes, run_names

__all__ = ["CurveDisplay", "Display", "figure_bytes", "run_names"]
