"""Comparing runs: paired differences, how sure they are, and where they come from."""

from __future__ import annotations

from reid_vpr_eval.studies.comparison.compare import compare
from reid_vpr_eval.studies.comparison.comparison import Comparison, Difference, RunValue

__all__ = ["Comparison", "Difference", "RunValue", "compare"]
