"""The three inner loops, in NumPy and compiled: the same bits, one faster than the other."""

from reid_vpr_eval.ranking.kernels.choice import Kernels, kernels_for
from reid_vpr_eval.ranking.kernels.plain import Placed

__all__ = ["Kernels", "Placed", "kernels_for"]
