"""How sure the numbers are: intervals by cluster."""

from reid_vpr_eval.uncertainty.clusters import (
    Clusters,
    bca_limits,
    bootstrap_means,
    jackknife_means,
    resampling_counts,
)
from reid_vpr_eval.uncertainty.units import Units, units_of

__all__ = [
    "Clusters", "Units", "bca_limits", "bootstrap_means", "jackknife_means",
    "resampling_counts", "units_of",
]  # fmt: skip
