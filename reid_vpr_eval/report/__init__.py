"""What people look at: text, figures, picture lists and the report page."""

from __future__ import annotations

from reid_vpr_eval.report.figures import CurveDisplay
from reid_vpr_eval.report.images import Images, images_of_run
from reid_vpr_eval.report.page import write_report
from reid_vpr_eval.report.pictures import CHOICES, Strip, Tile, choose_queries, picture_lists
from reid_vpr_eval.report.section import PictureOptions
from reid_vpr_eval.report.text import FORMATS, render

__all__ = [
    "CHOICES",
    "FORMATS",
    "CurveDisplay",
    "Images",
    "PictureOptions",
    "Strip",
    "Tile",
    "choose_queries",
    "images_of_run",
    "picture_lists",
    "render",
    "write_report",
]
