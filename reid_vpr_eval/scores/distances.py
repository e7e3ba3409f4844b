"""How two vectors may be compared: the names, and the vectors that each is defined for.

A name belongs to one of three kinds, which is all that the engine asks about it: matrix
products of features, bits that differ, or any other distance of SciPy.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import ScoreError

__all__ = ["METRICS", "MetricName", "check_name", "kind_of", "undefined", "why_undefined"]

Array: TypeAlias = npt.NDArray[Any]

Product: TypeAlias = Literal["cosine", "dot", "euclidean", "sqeuclidean"]
Distance: TypeAlias = Literal[
    "braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "dice", "jaccard",
    "jensenshannon", "minkowski", "rogerstanimoto", "russellrao", "sokalsneath", "yule",
]  # fmt: skip
MetricName: TypeAlias = Literal[Product, "hamming", Distance]

#: The distances and similarities that features can be compared by.
METRICS: tuple[str, ...] = get_args(MetricName)

_OF_BOOLEANS = ("dice", "rogerstanimoto", "russellrao", "sokalsneath", "yule")
_FITTED = {
    "seuclidean": "divide each component by its standard deviation",
    "mahalanobis": "whiten the features",
}
#: Of one vector and of several: what they are, and why that is a fault.
_WHY_UNDEFINED = {
    "cosine": (("is zero", "has no direction"), ("are zero", "have no direction")),
    "correlation": (("is constant", "does not vary"), ("are constant", "do not vary")),
    "jensenshannon": (("is zero or holds negative numbers", "is no distribution"),
                      ("are zero or hold negative numbers", "are no distributions")),
    **dict.fromkeys(_OF_BOOLEANS, (("holds numbers other than 0 and 1", "is not binary"),
                                   ("hold numbers other than 0 and 1", "are not binary"))),
}  # fmt: skip


def kind_of(metric: str) -> str:
    """Return the kind of scores that a metric makes, by which their source is found.

    >>> kind_of("cosine"), kind_of("hamming"), kind_of("cityblock")
    ('features', 'bits', 'distances')
    """
    if metric in get_args(Product):
        return "features"
    return "bits" if metric == "hamming" else "distances"


def check_name(metric: str) -> None:
    """Refuse an unknown metric, and one with parameters that must be fitted."""
    if metric in _FITTED:
        raise ScoreError(
            f"metric {metric!r} depends on variances that SciPy estimates from whatever it is "
            "given, so that a score would change with the other items: estimate them once, "
            f"{_FITTED[metric]} and use metric='euclidean'"
        )
    if metric not in METRICS:
        raise ScoreError(f"unknown metric {metric!r}; known: {', '.join(METRICS)}")


def undefined(vectors: Array, metric: str) -> npt.NDArray[np.bool_]:
    """Mark the vectors (n, d), finite, that a metric gives no score for."""
    if metric == "cosine":
        return np.asarray(~vectors.any(axis=1))
    if metric == "correlation":
        return np.asarray((vectors == vectors[:, :1]).all(axis=1))
    if metric == "jensenshannon":
        return np.asarray((vectors < 0).any(axis=1) | ~vectors.any(axis=1))
    if metric in _OF_BOOLEANS:
        return np.asarray(((vectors != 0) & (vectors != 1)).any(axis=1))
    return np.zeros(len(vectors), bool)


def why_undefined(metric: str, n: int) -> tuple[str, str]:
    """Return what n such vectors are, and why that is a fault: two ends of a sentence."""
    return _WHY_UNDEFINED[metric][n != 1]
