"""Distractor studies: every number at every gallery size, from one ranking."""

from reid_vpr_eval.studies.distractors.curve import distractor_curve
from reid_vpr_eval.studies.distractors.forecast import backtest
from reid_vpr_eval.studies.distractors.hard import envelope, hurt_by_stratum, within_own_strata
from reid_vpr_eval.studies.distractors.moments import query_variances
from reid_vpr_eval.studies.distractors.pairs import Pairs, read_pairs

__all__ = [
    "Pairs", "backtest", "distractor_curve", "envelope", "hurt_by_stratum", "query_variances",
    "read_pairs", "within_own_strata",
]  # fmt: skip
