"""A comparison for people: its forms as text, its figures, its files, its part of a page."""

from __future__ import annotations

from reid_vpr_eval.report.comparison.figures import ChangesDisplay, DifferencesDisplay
from reid_vpr_eval.report.comparison.files import write_comparison
from reid_vpr_eval.report.comparison.section import ComparisonSection, comparison_section
from reid_vpr_eval.report.comparison.text import COMPARISON_FORMATS, render_comparison

__all__ = [
    "COMPARISON_FORMATS",
    "ChangesDisplay",
    "ComparisonSection",
    "DifferencesDisplay",
    "comparison_section",
    "render_comparison",
    "write_comparison",
]
