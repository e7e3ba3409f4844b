"""The metrics. To add one, write a function here and register it; nothing else.

Each takes a view of the ranking (and its cut-off and options) and returns one value a
query; what is returned for queries without a positive is replaced by the policy.
Notation: m positives at the 1-based ranks p_1 < ... < p_m after ignored items were removed.
"""

from __future__ import annotations

import numpy as np

from reid_vpr_eval.metrics.grammar import Floats, metric
from reid_vpr_eval.metrics.views import View

__all__: list[str] = []

_OXFORD = "Philbin et al., Object retrieval with large vocabularies, CVPR 2007 (compute_ap)"
_MUSGRAVE = "Musgrave, Belongie and Lim, A metric learning reality check, ECCV 2020"


@metric(
    "CMC",
    cutoff="must",
    spellings=("R", "Rank", "hit", "hits"),
    reference="Gray, Brennan and Tao, PETS 2007; as Recall@N: Arandjelovic et al., CVPR 2016",
)
def cmc(view: View, k: int) -> Floats:
    """Hit rate: 1 if a positive stands among the first k items, 1[p_1 <= k]."""
    return view.any_hit(k)


@metric("IR-recall", cutoff="must", reference="trec_eval, recall_k")
def ir_recall(view: View, k: int) -> Floats:
    """Share of the positives that stand among the first k items, h(k) / m."""
    return view.hits(k) / np.maximum(view.n_positive, 1)


@metric("P", cutoff="must", options={"divisor": ("k", "min")}, reference="trec_eval, P_k")
def precision(view: View, k: int, divisor: str) -> Floats:
    """Share of positives among the first k items, h(k) / k, also where fewer were ranked.

    ``divisor=min`` divides by the smallest of k, m and the number of ranked items, so that
    a perfect list scores 1.
    """
    hits = view.hits(k)
    if divisor == "k":
        return hits / k
    return hits / np.maximum(np.minimum(np.minimum(view.n_positive, view.size), k), 1)


@metric(
    "mAP",
    cutoff="may",
    options={"rule": ("rectangle", "trapezoid"), "divisor": ("positives", "min", "k")},
    reference=f"rectangle: trec_eval, map and map_cut; trapezoid: {_OXFORD}",
)
def average_precision(view: View, k: int | None, rule: str, divisor: str) -> Floats:
    """Average precision, (1/m) sum of j / p_j over the positives.

    ``rule=trapezoid`` averages the precision before and at each positive, as the official
    Market-1501 and Oxford code: (1/m) sum of [(j - 1)/(p_j - 1) + j/p_j] / 2, the first
    term being 1 where p_j = 1. With ``@k`` only positives among the first k count, and
    ``divisor`` is m, min(m, k) or k.
    """
    if rule == "trapezoid":
        total = view.total(_trapezoid_slope, _trapezoid_offset, k)
    else:
        total = view.total(lambda p: 1 / p, None, k)
    positives = np.maximum(view.n_positive, 1)
    if k is None or divisor == "positives":
        return total / positives
    return total / (np.minimum(positives, k) if divisor == "min" else k)


def _trapezoid_slope(rank: Floats) -> Floats:
    return np.where(rank == 1, 0.5, (1 / np.maximum(rank - 1, 1) + 1 / rank) / 2)


def _trapezoid_offset(rank: Floats) -> Floats:
    return np.where(rank == 1, 0.5, -0.5 / np.maximum(rank - 1, 1))


@metric("mINP", reference="Ye et al., Deep learning for person re-identification, TPAMI 2021")
def inverse_negative_penalty(view: View) -> Floats:
    """Inverse negative penalty: m / p_m, what finding the last positive costs."""
    return view.last(lambda p: 1 / p, 0.0) * view.n_positive


@metric("MRR", reference="Voorhees, The TREC-8 question answering track report, 1999")
def reciprocal_rank(view: View) -> Floats:
    """Reciprocal rank of the first positive, 1 / p_1."""
    return view.first(lambda p: 1 / p, 0.0)


@metric("R-precision", reference="trec_eval, Rprec")
def r_precision(view: View) -> Floats:
    """Share of positives among the first m items, h(m) / m."""
    return view.hits(view.n_positive) / np.maximum(view.n_positive, 1)


@metric("MAP@R", reference=_MUSGRAVE)
def map_at_r(view: View) -> Floats:
    """Average precision cut at R = m: (1/m) sum of j / p_j over positives with p_j <= m."""
    positives = view.n_positive
    return view.total(lambda p: 1 / p, None, positives) / np.maximum(positives, 1)


@metric(
    "MeanR", direction="down", monotone="up", is_rank=True,
    reference="Faghri et al., VSE++, BMVC 2018",
)  # fmt: skip
def mean_rank(view: View) -> Floats:
    """Rank of the first positive, p_1; its mean over queries."""
    return view.first_rank(view.end)


@metric(
    "MedR", direction="down", monotone="up", is_rank=True, aggregate="median",
    reference="Faghri et al., VSE++, BMVC 2018",
)  # fmt: skip
def median_rank(view: View) -> Floats:
    """Rank of the first positive, p_1; its median over queries.

    The mean of the smallest k with CMC@k >= 1/2 and the smallest with CMC@k > 1/2, which is
    the usual median when nothing ties.
    """
    return view.first_rank(view.end)
