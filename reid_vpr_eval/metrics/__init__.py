"""What a ranking is worth: metrics as functions of its counts, behind one registry."""

from reid_vpr_eval.metrics import definitions as _definitions  # noqa: F401 (registers them)
from reid_vpr_eval.metrics import pooled as _pooled  # noqa: F401 (registers them)
from reid_vpr_eval.metrics.compute import TIES, MetricValues, Values, compute, rsum
from reid_vpr_eval.metrics.grammar import METRICS, MetricName, metric, parse

__all__ = [
    "METRICS",
    "TIES",
    "MetricName",
    "MetricValues",
    "Values",
    "compute",
    "metric",
    "parse",
    "rsum",
]
