"""What people look at: text, figures, picture lists and the report page."""

from __future__ import annotations

from reid_vpr_eval.report.images import Images
from reid_vpr_eval.report.page import write_report
from reid_vpr_eval.report.pictures import Strip, Tile, choose_queries, picture_lists
from reid_vpr_eval.report.plots import CurveDisplay
from reid_vpr_eval.report.text import FORMATS, render

__all__ = [
    "FORMATS",
    "CurveDisplay",
    "Images",
    "Strip",
    "Tile",
    "choose_queries",
    "picture_lists",
    "render",
    "write_report",
]
