"""How sure the numbers are: intervals by cluster."""

from reid_vpr_eval.uncertainty.analytic import freedom_of, korn_graubard, wilson
from reid_vpr_eval.uncertainty.clusters import (
    Clusters,
    bca_limits,
    bootstrap_means,
    jackknife_means,
    resampling_counts,
)
from reid_vpr_eval.uncertainty.interval import METHOD_NAMES, Interval
from reid_vpr_eval.uncertainty.methods import METHODS, cluster_interval
from reid_vpr_eval.uncertainty.pooled import FirstAnswers
from reid_vpr_eval.uncertainty.reported import Intervals, Measured, Uncertainty, uncertainty_of
from reid_vpr_eval.uncertainty.traverse import block_draws, block_length
from reid_vpr_eval.uncertainty.units import Units, unit_word, units_of

__all__ = [
    "METHODS", "METHOD_NAMES", "Clusters", "FirstAnswers", "Interval", "Intervals", "Measured",
    "Uncertainty", "Units", "bca_limits", "block_draws", "block_length", "bootstrap_means",
    "cluster_interval", "freedom_of", "jackknife_means", "korn_graubard", "resampling_counts",
    "uncertainty_of", "unit_word", "units_of", "wilson",
]  # fmt: skip
