"""Figures as objects: computed by `from_result`, drawn by `plot`, their numbers kept."""

from __future__ import annotations

from reid_vpr_eval.report.figures.cameras import CameraMatrixDisplay
from reid_vpr_eval.report.figures.conditions import ConditionDisplay
from reid_vpr_eval.report.figures.curves import CurveDisplay
from reid_vpr_eval.report.figures.distances import ErrorDisplay, RadiusDisplay
from reid_vpr_eval.report.figures.distributions import AveragePrecisionDisplay, ScoreDisplay
from reid_vpr_eval.report.figures.failures import FailureMapDisplay
from reid_vpr_eval.report.figures.rates import (
    FirstAnswerDisplay,
    PrecisionRecallDisplay,
    RocDisplay,
)
from reid_vpr_eval.report.figures.save import (
    SavedFigure,
    SavedFigures,
    remove_figures,
    save_figures,
)
from reid_vpr_eval.report.figures.style import Display, figure_bytes, run_names
from reid_vpr_eval.report.figures.sweeps import SweepDisplay

__all__ = [
    "AveragePrecisionDisplay",
    "CameraMatrixDisplay",
    "ConditionDisplay",
    "CurveDisplay",
    "Display",
    "ErrorDisplay",
    "FailureMapDisplay",
    "FirstAnswerDisplay",
    "PrecisionRecallDisplay",
    "RadiusDisplay",
    "RocDisplay",
    "SavedFigure",
    "SavedFigures",
    "ScoreDisplay",
    "SweepDisplay",
    "figure_bytes",
    "remove_figures",
    "run_names",
    "save_figures",
]
