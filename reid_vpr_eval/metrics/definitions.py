"""The metrics that are means over queries. To add one, write a function and register it.

Each takes a view of the ranking (and its cut-off and options) and returns one value a
query; what is returned for queries without a positive is replaced by the policy.
Notation: m positives at the 1-based ranks p_1 < ... < p_m after ignored items were removed;
h(k) positives among the first k.
"""

from __future__ import annotations

import re

import numpy as np

from reid_vpr_eval.errors import ProtocolError
from reid_vpr_eval.metrics.grammar import metric
from reid_vpr_eval.metrics.views import Floats, View

__all__: list[str] = []

_OXFORD = "Philbin et al., Object retrieval with large vocabularies, CVPR 2007 (compute_ap)"
_MUSGRAVE = "Musgrave, Belongie and Lim, A metric learning reality check, ECCV 2020"
_VSEPP = "Faghri et al., VSE++, BMVC 2018"


@metric(
    "CMC",
    cutoff="must",
    options={"shots": ("any", "all"), "by": str.strip},
    spellings=("R", "Rank", "hit", "hits", "Success"),
    formula="1[p_1 <= k]; shots=all: (1/m) sum of 1[p_j - j < k]; by=column: in groups",
    reference="Gray, Brennan and Tao, PETS 2007; as Recall@N: Arandjelovic et al., CVPR 2016; "
    "shots=all: open-reid",
)
def cmc(view: View, k: int, shots: str, by: str) -> Floats:
    """Hit rate: 1 if a positive stands among the first k items.

    ``shots=all`` averages over the positives as if each were the only one: the share of
    them with fewer than k negatives before them. ``by=column`` ranks the items of one value
    of a gallery column as one: all views of a panorama, all images of an identity.
    """
    if by:
        view = view.by(by)
    if shots == "all":
        return view.alone(k) / np.maximum(view.n_positive, 1)
    return view.any_hit(k)


@metric("IR-recall", cutoff="must", formula="h(k) / m", reference="trec_eval, recall_k")
def ir_recall(view: View, k: int) -> Floats:
    """Share of the positives that stand among the first k items."""
    return view.hits(k) / np.maximum(view.n_positive, 1)


@metric(
    "P",
    cutoff="must",
    options={"divisor": ("k", "min", "retrieved", "last")},
    formula="h(k) / k; divisor=min: / min(k, m, items); retrieved: / min(k, items); "
    "last: h(c) / c, c = min(k, p_m)",
    monotone="down",
    reference="trec_eval, P_k; min: open-metric-learning; last: revisitop",
)
def precision(view: View, k: int, divisor: str) -> Floats:
    """Share of positives among the first k items, also where fewer were ranked.

    ``divisor=min`` divides by the smallest of k, m and the number of ranked items, so that
    a perfect list scores 1; ``retrieved`` by the number of ranked items where it is below
    k; ``last`` cuts the list at the last positive where that comes before k.
    """
    if divisor == "last":
        return view.precision_to_last(k)
    hits = view.hits(k)
    if divisor == "k":
        return hits / k
    per = np.minimum(view.size, k)
    if divisor == "min":
        per = np.minimum(per, view.n_positive)
    return hits / np.maximum(per, 1)


@metric(
    "mAP",
    cutoff="may",
    options={"rule": ("rectangle", "trapezoid"), "divisor": ("positives", "min", "hits", "k")},
    formula="(1/m) sum of j / p_j; trapezoid: (1/m) sum of [(j-1)/(p_j-1) + j/p_j] / 2; @k: only "
    "p_j <= k, divided by m, min(m, k), h(k) or k",
    reference=f"rectangle: trec_eval, map and map_cut; trapezoid: {_OXFORD}",
)
def average_precision(view: View, k: int | None, rule: str, divisor: str) -> Floats:
    """Average precision over the positives.

    ``rule=trapezoid`` averages the precision before and at each positive, as the official
    Market-1501 and Oxford code; the precision before rank 1 is 1. With ``@k`` only
    positives among the first k count, and ``divisor`` says what their sum is divided by.
    """
    slope, offset = (_trapezoid_slope, _trapezoid_offset) if rule == "trapezoid" else (
        lambda p: 1 / p, None)  # fmt: skip
    if divisor == "hits" and k is not None:
        return view.per_hit(slope, offset, k)
    total = view.total(slope, offset, k)
    positives = np.maximum(view.n_positive, 1)
    if k is None or divisor in ("positives", "hits"):
        return total / positives
    return total / (np.minimum(positives, k) if divisor == "min" else k)


def _trapezoid_slope(rank: Floats) -> Floats:
    return np.where(rank == 1, 0.5, (1 / np.maximum(rank - 1, 1) + 1 / rank) / 2)


def _trapezoid_offset(rank: Floats) -> Floats:
    return np.where(rank == 1, 0.5, -0.5 / np.maximum(rank - 1, 1))


@metric(
    "mINP",
    formula="m / p_m",
    reference="Ye et al., Deep learning for person re-identification, TPAMI 2021",
)
def inverse_negative_penalty(view: View) -> Floats:
    """Inverse negative penalty: what finding the last positive costs."""
    return view.last(lambda p: 1 / p, 0.0) * view.n_positive


@metric(
    "MRR",
    cutoff="may",
    formula="1 / p_1; @k: 0 where p_1 > k",
    reference="Voorhees, The TREC-8 question answering track report, 1999",
)
def reciprocal_rank(view: View, k: int | None) -> Floats:
    """Reciprocal rank of the first positive."""
    return view.first(lambda p: 1 / p, 0.0, k)


@metric("R-precision", formula="h(m) / m", reference="trec_eval, Rprec")
def r_precision(view: View) -> Floats:
    """Share of positives among the first m items."""
    return view.hits(view.n_positive) / np.maximum(view.n_positive, 1)


@metric("MAP@R", formula="(1/m) sum of j / p_j over p_j <= m", reference=_MUSGRAVE)
def map_at_r(view: View) -> Floats:
    """Average precision cut at R = m."""
    positives = view.n_positive
    return view.total(lambda p: 1 / p, None, positives) / np.maximum(positives, 1)


def read_gains(text: str) -> str:
    """Read a list of grades and their gains, ``1:3/2:9``, into its canonical text.

    >>> read_gains("2:9/1:3.0")
    '1:3/2:9'
    """
    pairs = re.findall(r"(?:^|/)([\d.]+):([\d.]+)(?=/|$)", text)
    if not pairs or "/".join(f"{g}:{v}" for g, v in pairs) != text:
        raise ProtocolError(f"gains = {text!r}: grade:gain pairs are needed, such as 1:3/2:9")
    table = {float(grade): float(gain) for grade, gain in pairs}
    return "/".join(f"{grade:g}:{table[grade]:g}" for grade in sorted(table))


def _gain_of(grade: Floats, gain: str, gains: str) -> Floats:
    values = grade.astype(float)
    for pair in filter(None, gains.split("/")):
        level, value = map(float, pair.split(":"))
        values = np.where(grade == level, value, values)
    return np.exp2(values) - 1 if gain == "exponential" else values


def _discount(rank: Floats) -> Floats:
    return 1 / np.log2(rank + 1)


@metric(
    "NDCG",
    cutoff="may",
    options={"gain": ("linear", "exponential"), "gains": read_gains},
    formula="sum of gain(i) / log2(i + 1) over the first k items, divided by its largest value",
    reference="Jarvelin and Kekalainen, TOIS 2002; exponential: Burges et al., ICML 2005",
)
def ndcg(view: View, k: int | None, gain: str, gains: str) -> Floats:
    """Normalised discounted cumulative gain of graded items.

    Every grade above 0 gains, whatever grade makes a positive. ``gain=exponential`` takes
    2^g - 1; ``gains=1:3/2:9`` gives grades other gains first.
    """
    ideal = view.ideal(lambda g: _gain_of(g, gain, gains), _discount, k)
    found = view.gain(lambda g: _gain_of(g, gain, gains), _discount, k)
    return np.divide(found, ideal, out=np.zeros_like(found), where=ideal > 0)


@metric(
    "MeanR",
    options={"of": ("first", "last", "all")},
    direction="down",
    monotone="up",
    is_rank=True,
    formula="p_1; of=last: p_m; of=all: (1/m) sum of p_j",
    reference=_VSEPP,
)
def mean_rank(view: View, of: str) -> Floats:
    """Rank of the first positive (or of the last, or of all on average); its mean."""
    if of == "last":
        return view.last(lambda p: p, view.end)
    if of == "all":
        total = view.total(np.zeros_like, lambda p: p)
        unfound = view.reading.n_missing * view.end
        return (total + unfound) / np.maximum(view.n_positive, 1)
    return view.first_rank(view.end)


@metric(
    "MedR",
    options={"form": ("mean", "floor", "crossing")},
    direction="down",
    monotone="up",
    is_rank=True,
    aggregate="median",
    ties="from the mean CMC over all orders; bounds; tie order",
    formula="mean of the smallest k with CMC@k >= 1/2 and the smallest with CMC@k > 1/2",
    reference=_VSEPP,
)
def median_rank(view: View, form: str) -> Floats:  # noqa: ARG001 (the form is of the median)
    """Rank of the first positive; its median over queries.

    The mean of the two ranks where the hit rate reaches and passes one half is the usual
    median when nothing ties; ``form=floor`` rounds it down, ``form=crossing`` is the first
    of the two alone.
    """
    return view.first_rank(view.end)


@metric(
    "rsum",
    formula="CMC@1 + CMC@5 + CMC@10",
    reference=_VSEPP,
)
def recall_sum(view: View) -> Floats:
    """Sum of the hit rates at 1, 5 and 10, in one direction (0 to 3).

    The field sums both directions in percent: see :func:`reid_vpr_eval.metrics.rsum`.
    """
    return view.any_hit(1) + view.any_hit(5) + view.any_hit(10)
