"""Everything that can be said of an evaluation before it is ranked: counts, sanity, leaks."""

from reid_vpr_eval.checks.check import Check, check, check_grammars, check_metrics
from reid_vpr_eval.checks.leaks import without_doubles

__all__ = ["Check", "check", "check_grammars", "check_metrics", "without_doubles"]
