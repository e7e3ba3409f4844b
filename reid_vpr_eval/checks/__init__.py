"""Everything that can be said of an evaluation before it is ranked: counts, sanity, leaks."""

from reid_vpr_eval.checks.check import Check, check, check_grammars, check_metrics
from reid_vpr_eval.checks.leaks import without_doubles
from reid_vpr_eval.checks.notes import Seen, run_notes

__all__ = [
    "Check", "Seen", "check", "check_grammars", "check_metrics", "run_notes", "without_doubles",
]  # fmt: skip
