"""Slow, literal definitions of everything the package computes fast.

Nothing here comes from the package: each function states one definition and follows it, so that
an error would have to be made twice, in two different ways, to stay unseen.

The parts: canonical scores, the statistic of one query, metrics of one ordered list, ties by
enumeration and by closed forms, a whole evaluation, and relevance rules.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from geopy.distance import geodesic
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

Number = Fraction | float
Ties = Literal["expected", "optimistic", "pessimistic", "index"]
NoPositive = Literal["skip", "zero", "one", "error"]
Groups = Sequence[Sequence[bool]]
Sizes = Sequence[tuple[int, int]]
Column = Sequence[Any] | NDArray[Any]

EXACT_TERMS = 200  # longer sums are taken in floats (math.fsum): fractions would grow too long
MAX_ARRANGEMENTS = 2000  # more of them: expected() takes the closed form
MAX_ARRANGEMENTS_IN_A_RUN = 24  # the same inside evaluate_literal, for its speed


# --- 1. canonical scores ---------------------------------------------------------------------


def tree_sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over the last axis: zeros up to a power of two, then upper half onto lower half."""
    width = 1
    while width < values.shape[-1]:
        width *= 2
    padded = np.zeros((*values.shape[:-1], width))
    padded[..., : values.shape[-1]] = values
    while width > 1:
        width //= 2
        padded = padded[..., :width] + padded[..., width:]
    total: NDArray[np.float64] = padded[..., 0]
    return total


def components(vector: ArrayLike) -> NDArray[Any]:
    """The components a score is made of: float16 becomes float32; float32 and float64 stay."""
    array = np.asarray(vector)
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype in (np.float32, np.float64):
        return array
    raise TypeError(f"canonical scores are defined on floating vectors, not on {array.dtype}")


def normalised(vector: ArrayLike) -> NDArray[Any]:
    """The vector over the root of its tree-summed squares, all in float64, then in its own type.

    A float64 vector is first scaled by a power of two so that its largest component lies in
    [0.5, 1): exact, and its squares neither overflow nor vanish.
    """
    kept = components(vector)
    wide = kept.astype(np.float64)
    if kept.dtype == np.float64:
        _, exponent = math.frexp(float(np.max(np.abs(wide))))
        wide = np.array([math.ldexp(float(x), -exponent) for x in wide], dtype=np.float64)
    norm = math.sqrt(float(tree_sum(wide * wide)))
    if norm == 0.0:
        raise ValueError("a zero vector has no direction")
    return (wide / norm).astype(kept.dtype)


def prepared(vector: ArrayLike, metric: str) -> NDArray[np.float64]:
    """What enters the products of `metric`, in float64 (exactly)."""
    if metric not in ("cosine", "dot", "euclidean", "sqeuclidean"):
        raise ValueError(f"no canonical score for the metric {metric!r}")
    kept = normalised(vector) if metric == "cosine" else components(vector)
    return kept.astype(np.float64)


def _pair_scores(
    q: NDArray[np.float64], g: NDArray[np.float64], metric: str
) -> NDArray[np.float64]:
    """Tree-summed products, or minus the tree-summed squared differences."""
    if metric in ("cosine", "dot"):
        return tree_sum(q * g)
    difference = q - g
    return -tree_sum(difference * difference)


def canonical_score(q: ArrayLike, g: ArrayLike, metric: str) -> float:
    """The canonical score of one pair; larger is nearer (squared distances are negated)."""
    return float(_pair_scores(prepared(q, metric), prepared(g, metric), metric))


def canonical_matrix(queries: ArrayLike, gallery: ArrayLike, metric: str) -> NDArray[np.float64]:
    """canonical_score of every pair, queries in rows."""
    q_rows = [prepared(row, metric) for row in np.asarray(queries)]
    g_rows = [prepared(row, metric) for row in np.asarray(gallery)]
    if not q_rows or not g_rows:
        return np.zeros((len(q_rows), len(g_rows)))
    stacked = np.stack(g_rows)
    return np.stack([_pair_scores(row, stacked, metric) for row in q_rows])


def as_scored(vectors: ArrayLike) -> NDArray[Any]:
    """Vectors in the type that they are scored in, by the name of the type they are given in."""
    array = np.asarray(vectors)
    narrow = ("bool", "int8", "uint8", "int16", "uint16", "float16", "float32")
    return array.astype(np.float32 if array.dtype.name in narrow else np.float64)


def hamming_matrix(queries: ArrayLike, gallery: ArrayLike) -> NDArray[np.float64]:
    """Minus the number of bits in which each two rows differ, of packed bytes or of booleans."""
    return np.array([
        [-float(sum((int(a) ^ int(b)).bit_count() for a, b in zip(q, g, strict=True)))
         for g in np.asarray(gallery)] for q in np.asarray(queries)
    ])  # fmt: skip


def scipy_matrix(
    queries: ArrayLike, gallery: ArrayLike, metric: Any
) -> NDArray[np.float64]:
    """Minus what SciPy's cdist gives for each two rows alone, in float64."""
    ours, theirs = (np.asarray(side).astype(np.float64) for side in (queries, gallery))
    return np.array([[-float(cdist(q[None], g[None], metric)[0, 0]) for g in theirs] for q in ours])


# --- 2. the statistic of one query -----------------------------------------------------------


@dataclass(frozen=True)
class JudgedItem:
    """One judged item of one query; the counts are over unjudged items, one entry a stratum."""

    item: int
    role: int
    score: float
    stratum: int
    order: int
    tie_group: int
    above: tuple[int, ...]
    tied: tuple[int, ...]
    tied_before: tuple[int, ...]


@dataclass(frozen=True)
class Statistic:
    """What a query leaves behind: its judged items by gallery position, and a few totals."""

    judged: tuple[JudgedItem, ...]
    n_unjudged: tuple[int, ...]
    best_unjudged: int | None
    best_unjudged_score: float | None


def _per_stratum(rows: Sequence[int], strata: Sequence[int], n_strata: int) -> tuple[int, ...]:
    """How many of the rows lie in each stratum."""
    counts = [0] * n_strata
    for row in rows:
        counts[strata[row]] += 1
    return tuple(counts)


def statistic(
    scores_row: Sequence[float] | NDArray[Any],
    roles: Mapping[int, int],
    strata: Sequence[int] | NDArray[Any] | None = None,
    kept: Sequence[bool] | NDArray[np.bool_] | None = None,
    tie_key: Sequence[int] | NDArray[Any] | None = None,
    *,
    ignored_rows: Collection[int] = (),
    n_strata: int | None = None,
) -> Statistic:
    """The statistic of one query, read off the sorted gallery.

    roles: judged item -> 1 positive, 0 negative, -1 ignored. ignored_rows: ignored for everybody,
    absent altogether. strata: stratum of every row. kept: the query's mask over strata, used only
    for the best unjudged item. Order: score descending, then tie_key, then position.
    """
    score = [float(x) for x in scores_row]
    if any(math.isnan(x) for x in score):
        raise ValueError("a score is NaN")
    if any(item in ignored_rows for item in roles):
        raise ValueError("a row ignored for everybody is never judged")
    stratum = [0] * len(score) if strata is None else [int(x) for x in strata]
    key = list(range(len(score))) if tie_key is None else [int(x) for x in tie_key]
    n = n_strata if n_strata is not None else max(stratum, default=0) + 1
    mask = [True] * n if kept is None else [bool(x) for x in kept]

    rows = [row for row in range(len(score)) if row not in ignored_rows]
    rows.sort(key=lambda row: (-score[row], key[row], row))
    unjudged = [row for row in rows if row not in roles]
    judged = [row for row in rows if row in roles]
    place = {row: i for i, row in enumerate(rows)}
    levels = sorted({score[row] for row in judged}, reverse=True)

    found = []
    for item in sorted(judged):
        above = [row for row in unjudged if score[row] > score[item]]
        tied = [row for row in unjudged if score[row] == score[item]]
        before = [row for row in tied if place[row] < place[item]]
        found.append(
            JudgedItem(
                item=item,
                role=roles[item],
                score=score[item],
                stratum=stratum[item],
                order=judged.index(item),
                tie_group=levels.index(score[item]),
                above=_per_stratum(above, stratum, n),
                tied=_per_stratum(tied, stratum, n),
                tied_before=_per_stratum(before, stratum, n),
            )
        )
    best = next((row for row in unjudged if mask[stratum[row]]), None)
    return Statistic(
        judged=tuple(found),
        n_unjudged=_per_stratum(unjudged, stratum, n),
        best_unjudged=best,
        best_unjudged_score=None if best is None else score[best],
    )


# --- 3. metrics of one ordered list ----------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A metric name taken apart: NAME[@k][(option=value, ...)]."""

    base: str
    k: int | None
    options: dict[str, str]

    def cut(self) -> int:
        """The cut-off, which this metric must have."""
        if self.k is None:
            raise ValueError(f"{self.base} needs a cut-off: {self.base}@k")
        return self.k


OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "CMC": {"shots": ("first", "all")},
    "IR-recall": {},
    "P": {"divisor": ("k", "min", "retrieved", "last")},
    "mAP": {"rule": ("rectangle", "trapezoid"), "divisor": ("positives", "min", "hits", "k")},
    "mINP": {},
    "MRR": {},
    "R-precision": {},
    "MAP@R": {},
    "NDCG": {"gain": ("linear", "exponential")},
    "MeanR": {},
    "MedR": {},
}
RANK_METRICS = ("MeanR", "MedR")


def parse_name(name: str) -> Name:
    """Take a metric name apart; an unknown name, option or value is an error."""
    match = re.fullmatch(r"(MAP@R|[A-Za-z-]+)(?:@(\d+))?(?:\((.*)\))?", name.strip())
    if match is None or match[1] not in OPTIONS:
        raise ValueError(f"unknown metric {name!r}")
    options = {}
    for part in (match[3] or "").split(",") if match[3] else []:
        option, _, value = (piece.strip() for piece in part.partition("="))
        if value not in OPTIONS[match[1]].get(option, ()):
            raise ValueError(f"unknown option {part!r} in {name!r}")
        options[option] = value
    k = int(match[2]) if match[2] else None
    if k is not None and k < 1:
        raise ValueError(f"the cut-off of {name!r} is below 1")
    return Name(match[1], k, options)


def _total(terms: Sequence[Number]) -> Number:
    """The sum: exact for a moderate number of fractions, correctly rounded otherwise."""
    exact = [term for term in terms if isinstance(term, Fraction)]
    if len(exact) == len(terms) <= EXACT_TERMS:
        return sum(exact, start=Fraction(0))
    return math.fsum(float(term) for term in terms)


def _hits(ranks: Sequence[int], k: int) -> int:
    """How many relevant items stand at rank k or before."""
    return sum(1 for p in ranks if p <= k)


def _cmc(name: Name, ranks: Sequence[int], n: int) -> Number:
    """1 if a relevant item stands among the first k.

    shots=all: the share of relevant items that would, were each the only one in the gallery.
    """
    if name.options.get("shots") == "all":
        alone = [p - j for j, p in enumerate(ranks)]
        return Fraction(_hits(alone, name.cut()), len(ranks))
    return Fraction(int(ranks[0] <= name.cut()))


def _ir_recall(name: Name, ranks: Sequence[int], n: int) -> Number:
    """The share of the relevant items that stand among the first k."""
    return Fraction(_hits(ranks, name.cut()), len(ranks))


def _precision(name: Name, ranks: Sequence[int], n: int) -> Number:
    """Relevant items among the first k, over k (also when fewer than k items exist).

    divisor=retrieved: over min(k, n). min: over min(m, k, n). last: the list is cut at the last
    relevant item, revisitop's rule.
    """
    k = name.cut()
    if name.options.get("divisor") == "last":
        k = min(k, ranks[-1])
        return Fraction(_hits(ranks, k), k)
    return Fraction(_hits(ranks, k), _precision_divisor(name, len(ranks), n))


def _precision_divisor(name: Name, m: int, n: int) -> int:
    """The divisor of P@k where it does not depend on the order."""
    k = name.cut()
    rule = name.options.get("divisor", "k")
    return {"k": k, "retrieved": min(k, n), "min": min(m, k, n)}[rule]


def _ap(name: Name, ranks: Sequence[int], n: int) -> Number:
    """Sum over relevant items (at rank k or before) of the precision at each, over a divisor.

    rule=trapezoid: the mean of the precision before and at each, 1 before the first rank.
    """
    m = len(ranks)
    k = name.k if name.k is not None else n
    terms: list[Number] = []
    for j, p in enumerate(ranks, start=1):
        if p > k:
            continue
        at = Fraction(j, p)
        before = Fraction(j - 1, p - 1) if p > 1 else Fraction(1)
        terms.append((before + at) / 2 if name.options.get("rule") == "trapezoid" else at)
    if name.options.get("divisor") == "hits":
        return _total(terms) / len(terms) if terms else Fraction(0)
    return _total(terms) / _ap_divisor(name, m)


def _ap_divisor(name: Name, m: int) -> int:
    """The divisor of AP where it does not depend on the order."""
    rule = name.options.get("divisor", "positives")
    if rule == "k":
        return name.cut()
    if rule == "min" and name.k is not None:
        return min(m, name.k)
    return m


def _inp(name: Name, ranks: Sequence[int], n: int) -> Number:
    """The number of relevant items over the rank of the last of them."""
    return Fraction(len(ranks), ranks[-1])


def _rr(name: Name, ranks: Sequence[int], n: int) -> Number:
    """One over the first relevant rank; with a cut-off, 0 beyond it."""
    return Fraction(1, ranks[0]) if name.k is None or ranks[0] <= name.k else Fraction(0)


def _r_precision(name: Name, ranks: Sequence[int], n: int) -> Number:
    """The precision at R, R being the number of relevant items."""
    return Fraction(_hits(ranks, len(ranks)), len(ranks))


def _map_at_r(name: Name, ranks: Sequence[int], n: int) -> Number:
    """(1/R) times the sum, over the first R positions that are relevant, of the precision."""
    m = len(ranks)
    terms: list[Number] = [Fraction(j, p) for j, p in enumerate(ranks, start=1) if p <= m]
    return _total(terms) / m


def _ideal_gain(m: int, k: int) -> float:
    """The discounted gain of m relevant items in front, cut at k."""
    return math.fsum(1.0 / math.log2(i + 1) for i in range(1, min(m, k) + 1))


def _ndcg(name: Name, ranks: Sequence[int], n: int) -> Number:
    """Binary gains discounted by 1 / log2(rank + 1), over the best possible value."""
    k = name.k if name.k is not None else n
    gain = math.fsum(1.0 / math.log2(p + 1) for p in ranks if p <= k)
    return gain / _ideal_gain(len(ranks), k)


def _first_rank(name: Name, ranks: Sequence[int], n: int) -> Number:
    """The rank of the first relevant item."""
    return Fraction(ranks[0])


VALUE: dict[str, Callable[[Name, Sequence[int], int], Number]] = {
    "CMC": _cmc,
    "IR-recall": _ir_recall,
    "P": _precision,
    "mAP": _ap,
    "mINP": _inp,
    "MRR": _rr,
    "R-precision": _r_precision,
    "MAP@R": _map_at_r,
    "NDCG": _ndcg,
    "MeanR": _first_rank,
    "MedR": _first_rank,
}


def metric_of_ranks(name: str, ranks: Sequence[int], n: int) -> Number:
    """The metric of a list of n items whose relevant ones stand at `ranks` (from 1, ascending)."""
    if not ranks:
        raise ValueError("a list without a relevant item has no value; a policy decides")
    parsed = parse_name(name)
    return VALUE[parsed.base](parsed, ranks, n)


def metric_of_list(name: str, relevant_flags: Sequence[bool]) -> Number:
    """The metric of one fully ordered list of not-ignored items (True = relevant).

    A Fraction wherever the definition is rational. MeanR and MedR give the first rank.
    """
    ranks = [i for i, flag in enumerate(relevant_flags, start=1) if flag]
    return metric_of_ranks(name, ranks, len(relevant_flags))


# --- 4. ties ---------------------------------------------------------------------------------


def sizes_of(groups: Groups) -> list[tuple[int, int]]:
    """(items, relevant items) of each tie group."""
    return [(len(group), sum(1 for flag in group if flag)) for group in groups if len(group)]


def n_arrangements(groups: Groups) -> int:
    """How many distinct lists the orders inside the tie groups can give."""
    return _n_arrangements(sizes_of(groups))


def _n_arrangements(sizes: Sizes) -> int:
    return math.prod(math.comb(n, r) for n, r in sizes)


def arrangements(sizes: Sizes) -> Iterator[list[int]]:
    """The ranks of the relevant items in every distinct list; all are equally likely."""
    choices = []
    before = 0
    for n, r in sizes:
        choices.append(list(itertools.combinations(range(before + 1, before + n + 1), r)))
        before += n
    for pick in itertools.product(*choices):
        yield list(itertools.chain.from_iterable(pick))


def expected_enumerated(name: str, groups: Groups) -> Number:
    """The mean of the metric over every distinct arrangement inside the tie groups."""
    return _enumerated(name, sizes_of(groups))


def _enumerated(name: str, sizes: Sizes) -> Number:
    n = sum(n for n, _ in sizes)
    values = [metric_of_ranks(name, ranks, n) for ranks in arrangements(sizes)]
    if all(isinstance(value, Fraction) for value in values):
        return sum((Fraction(value) for value in values), start=Fraction(0)) / len(values)
    return math.fsum(float(value) for value in values) / len(values)


def expected(name: str, groups: Groups, limit: int = MAX_ARRANGEMENTS) -> Number:
    """The expectation under random order inside tie groups: enumerated, or in closed form."""
    return _expected(name, sizes_of(groups), limit)


def _expected(name: str, sizes: Sizes, limit: int) -> Number:
    return (_enumerated if _n_arrangements(sizes) <= limit else _closed)(name, sizes)


def optimistic(name: str, groups: Groups) -> Number:
    """The value with the relevant items first in each tie group."""
    return metric_of_list(name, [flag for group in groups for flag in sorted(group)[::-1]])


def pessimistic(name: str, groups: Groups) -> Number:
    """The value with the relevant items last in each tie group."""
    return metric_of_list(name, [flag for group in groups for flag in sorted(group)])


def index(name: str, groups: Groups) -> Number:
    """The value in the order given."""
    return metric_of_list(name, [flag for group in groups for flag in group])


def expected_closed(name: str, groups: Groups) -> Number:
    """The same expectation by the closed forms of design/metrics.md, section 2."""
    return _closed(name, sizes_of(groups))


def _closed(name: str, sizes: Sizes) -> Number:
    if not any(r for _, r in sizes):
        raise ValueError("a list without a relevant item has no value; a policy decides")
    parsed = parse_name(name)
    return CLOSED[parsed.base](parsed, sizes)


def _n_and_m(sizes: Sizes) -> tuple[int, int]:
    return sum(n for n, _ in sizes), sum(r for _, r in sizes)


def _offsets(sizes: Sizes) -> list[tuple[int, int, int, int]]:
    """(items, relevant, items before, relevant before) of each group."""
    rows = []
    items = relevant = 0
    for n, r in sizes:
        rows.append((n, r, items, relevant))
        items += n
        relevant += r
    return rows


def _expected_hits(sizes: Sizes, k: int) -> Fraction:
    """E h(k): of a group that lends its first t places, the share t/n of its relevant items."""
    total = Fraction(0)
    for n, r, before, _ in _offsets(sizes):
        total += Fraction(r * min(max(k - before, 0), n), n)
    return total


def first_rank_distribution(sizes: Sizes) -> dict[int, Fraction]:
    """P(p_1 = N_f + j) = C(n_f - j, r_f - 1) / C(n_f, r_f), f the first group with a relevant."""
    n, r, before, _ = next(row for row in _offsets(sizes) if row[1])
    every = math.comb(n, r)
    return {before + j: Fraction(math.comb(n - j, r - 1), every) for j in range(1, n - r + 2)}


def last_rank_distribution(sizes: Sizes) -> dict[int, Fraction]:
    """P(p_m = N_l + x) = C(x - 1, r_l - 1) / C(n_l, r_l), l the last group with a relevant."""
    n, r, before, _ = next(row for row in reversed(_offsets(sizes)) if row[1])
    every = math.comb(n, r)
    return {before + x: Fraction(math.comb(x - 1, r - 1), every) for x in range(r, n + 1)}


def _closed_cmc(name: Name, sizes: Sizes) -> Number:
    k = name.cut()
    if name.options.get("shots") == "all":
        return _closed_all_shots(sizes, k)
    for n, r, before, _ in _offsets(sizes):
        if r:
            t = min(max(k - before, 0), n)
            return 1 - Fraction(math.comb(n - r, t), math.comb(n, t))
    raise AssertionError("no relevant item")


def _closed_all_shots(sizes: Sizes, k: int) -> Fraction:
    """The negatives of its own group ahead of a relevant item are 0 .. b, all equally likely."""
    total = Fraction(0)
    for n, r, before, relevant_before in _offsets(sizes):
        b = n - r
        fitting = [x for x in range(b + 1) if before - relevant_before + x + 1 <= k]
        total += Fraction(r * len(fitting), b + 1)
    return total / _n_and_m(sizes)[1]


def _closed_ir_recall(name: Name, sizes: Sizes) -> Number:
    return _expected_hits(sizes, name.cut()) / _n_and_m(sizes)[1]


def _closed_precision(name: Name, sizes: Sizes) -> Number:
    k = name.cut()
    n, m = _n_and_m(sizes)
    hits = _expected_hits(sizes, k)
    if name.options.get("divisor") != "last":
        return hits / _precision_divisor(name, m, n)
    # cut at p_m <= k the value is m / p_m; otherwise h(k) / k
    inside = {p: chance for p, chance in last_rank_distribution(sizes).items() if p <= k}
    within = _total([chance * Fraction(m, p) for p, chance in inside.items()])
    return within + (hits - m * sum(inside.values(), start=Fraction(0))) / k


def _group_terms(
    n: int, r: int, before: int, relevant_before: int, take: int, rule: str
) -> list[Number]:
    """Expected AP terms at the first `take` places of a group, in random order."""
    terms: list[Number] = []
    for i in range(1, take + 1) if r else ():
        p = before + i
        ahead = Fraction(relevant_before)
        if n > 1:
            ahead += Fraction((i - 1) * (r - 1), n - 1)
        term = (1 + ahead) / p
        if rule == "trapezoid":
            term = (term + (ahead / (p - 1) if p > 1 else 1)) / 2
        terms.append(term * Fraction(r, n))
    return terms


def _closed_ap(name: Name, sizes: Sizes) -> Number:
    n_all, m = _n_and_m(sizes)
    k = min(name.k, n_all) if name.k is not None else n_all
    rule = name.options.get("rule", "rectangle")
    if name.options.get("divisor") == "hits":
        return _closed_ap_over_hits(sizes, k, rule)
    terms: list[Number] = []
    for n, r, before, relevant_before in _offsets(sizes):
        take = min(max(k - before, 0), n)
        terms += _group_terms(n, r, before, relevant_before, take, rule)
    return _total(terms) / _ap_divisor(name, m)


def _closed_ap_over_hits(sizes: Sizes, k: int, rule: str) -> Number:
    """Whole groups give their terms; in the cut group, h ~ hypergeometric of its t places."""
    whole: list[Number] = []
    for n, r, before, relevant_before in _offsets(sizes):
        if before + n < k:
            whole += _group_terms(n, r, before, relevant_before, n, rule)
            continue
        t = k - before
        parts: list[Number] = []
        for h in range(max(0, t - (n - r)), min(r, t) + 1):
            if relevant_before + h == 0:
                continue
            chance = Fraction(math.comb(r, h) * math.comb(n - r, t - h), math.comb(n, t))
            inner = _total(whole + _group_terms(t, h, before, relevant_before, t, rule))
            parts.append(chance * inner / (relevant_before + h))
        return _total(parts)
    raise AssertionError("the cut-off lies beyond the list")


def _closed_inp(name: Name, sizes: Sizes) -> Number:
    m = _n_and_m(sizes)[1]
    return _total([m * chance / p for p, chance in last_rank_distribution(sizes).items()])


def _closed_rr(name: Name, sizes: Sizes) -> Number:
    chances = first_rank_distribution(sizes).items()
    return _total([chance / p for p, chance in chances if name.k is None or p <= name.k])


def _closed_r_precision(name: Name, sizes: Sizes) -> Number:
    m = _n_and_m(sizes)[1]
    return _expected_hits(sizes, m) / m


def _closed_map_at_r(name: Name, sizes: Sizes) -> Number:
    return _closed_ap(Name("mAP", _n_and_m(sizes)[1], {}), sizes)


def _closed_ndcg(name: Name, sizes: Sizes) -> Number:
    n_all, m = _n_and_m(sizes)
    k = name.k if name.k is not None else n_all
    terms = []
    for n, r, before, _ in _offsets(sizes):
        for p in range(before + 1, min(before + n, k) + 1) if r else ():
            terms.append(r / n / math.log2(p + 1))
    return math.fsum(terms) / _ideal_gain(m, k)


def _closed_first_rank(name: Name, sizes: Sizes) -> Number:
    n, r, before, _ = next(row for row in _offsets(sizes) if row[1])
    return before + Fraction(n + 1, r + 1)


CLOSED: dict[str, Callable[[Name, Sizes], Number]] = {
    "CMC": _closed_cmc,
    "IR-recall": _closed_ir_recall,
    "P": _closed_precision,
    "mAP": _closed_ap,
    "mINP": _closed_inp,
    "MRR": _closed_rr,
    "R-precision": _closed_r_precision,
    "MAP@R": _closed_map_at_r,
    "NDCG": _closed_ndcg,
    "MeanR": _closed_first_rank,
    "MedR": _closed_first_rank,
}


# --- 5. a whole evaluation -------------------------------------------------------------------


@dataclass(frozen=True)
class _OneQuery:
    """A query's not-ignored items in order: n, ranks of the relevant, tie groups if they matter."""

    n: int
    ranks: list[int]
    sizes: list[tuple[int, int]] | None

    def value(self, name: str) -> Number:
        """The metric of this query."""
        if self.sizes is None:
            return metric_of_ranks(name, self.ranks, self.n)
        return _expected(name, self.sizes, MAX_ARRANGEMENTS_IN_A_RUN)

    def first_rank_masses(self) -> dict[int, Fraction]:
        """How likely each first rank is."""
        if self.sizes is None:
            return {self.ranks[0]: Fraction(1)}
        return first_rank_distribution(self.sizes)


def _without_runs(sizes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring groups without a relevant item put together: their order changes nothing."""
    merged: list[tuple[int, int]] = []
    for n, r in sizes:
        if r == 0 and merged and merged[-1][1] == 0:
            merged[-1] = (merged[-1][0] + n, 0)
        else:
            merged.append((n, r))
    return merged


def _order_query(
    row: NDArray[np.float64],
    relevant: NDArray[np.bool_],
    key: NDArray[Any] | None,
    ties: Ties,
) -> _OneQuery:
    """Sort: score descending, then what the tie rule says, then tie key, then position.

    Tie groups are kept only where one mixes relevant and other items: else no order matters.
    """
    keys: list[NDArray[Any]] = [] if key is None else [key]
    if ties == "optimistic":
        keys.append(~relevant)
    elif ties == "pessimistic":
        keys.append(relevant)
    order = np.lexsort((*keys, -row))
    flags = relevant[order]
    ranks = [int(i) + 1 for i in np.flatnonzero(flags)]
    ordered = row[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(row)])
    if ties == "expected" and len(starts) < len(row):
        relevant_in = np.add.reduceat(flags.astype(np.int64), starts)
        items_in = np.diff(np.r_[starts, len(row)])
        if np.any((relevant_in > 0) & (relevant_in < items_in)):
            pairs = zip(items_in.tolist(), relevant_in.tolist(), strict=True)
            return _OneQuery(len(row), ranks, _without_runs(pairs))
    return _OneQuery(len(row), ranks, None)


def _forced(policy: NoPositive, name: str, n: int) -> float:
    """The value of a query without a positive; a rank is one past the end, or the first."""
    if policy == "one":
        return 1.0
    return float(n + 1) if parse_name(name).base in RANK_METRICS else 0.0


def median_rank(masses: Sequence[Mapping[int, Fraction]]) -> float:
    """The mean of the smallest K with mean hit@K >= 1/2 and the smallest with > 1/2.

    masses: for each query, how likely each first rank is.
    """
    total: dict[int, Fraction] = {}
    for query in masses:
        for rank, chance in query.items():
            total[rank] = total.get(rank, Fraction(0)) + chance
    half = Fraction(len(masses), 2)
    reached: int | None = None
    hit = Fraction(0)
    for rank in sorted(total):
        hit += total[rank]
        if reached is None and hit >= half:
            reached = rank
        if reached is not None and hit > half:
            return (reached + rank) / 2
    return math.nan


def evaluate_literal(
    scores: ArrayLike,
    positives: Sequence[Collection[int]],
    ignored: Sequence[Collection[int]],
    ignored_gallery: Collection[int],
    metrics: Sequence[str],
    ties: Ties,
    tie_key: Sequence[int] | NDArray[Any] | None = None,
    no_positive: NoPositive = "skip",
) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
    """A whole evaluation from the full score matrix (larger is better).

    Ignored items leave the list before ranking, also when they are named positive. A value is the
    mean over the evaluated queries; MedR is median_rank. Per query: NaN where left out; MeanR and
    MedR both give the (expected) first rank.
    """
    matrix = np.asarray(scores)
    key = None if tie_key is None else np.asarray(tie_key)
    n_query, n_gallery = matrix.shape
    if not len(positives) == len(ignored) == n_query:
        raise ValueError("one set of positives and one of ignored items a query")
    everybody = np.ones(n_gallery, dtype=bool)
    everybody[list(ignored_gallery)] = False
    per_query = {name: np.full(n_query, np.nan) for name in metrics}
    masses: list[dict[int, Fraction]] = []
    for i in range(n_query):
        keep = everybody.copy()
        keep[list(ignored[i])] = False
        relevant = np.zeros(n_gallery, dtype=bool)
        relevant[list(positives[i])] = True
        row = matrix[i, keep].astype(np.float64)
        if np.isnan(row).any():
            raise ValueError("a score is NaN")
        query = _order_query(row, relevant[keep], None if key is None else key[keep], ties)
        if query.ranks:
            masses.append(query.first_rank_masses())
            for name in metrics:
                per_query[name][i] = float(query.value(name))
        elif no_positive == "error":
            raise ValueError(f"query {i} has no positive")
        elif no_positive != "skip":
            masses.append({int(_forced(no_positive, "MeanR", query.n)): Fraction(1)})
            for name in metrics:
                per_query[name][i] = _forced(no_positive, name, query.n)
    values = {name: _aggregate(name, per_query[name], masses) for name in metrics}
    return values, per_query


def _aggregate(
    name: str, values: NDArray[np.float64], masses: Sequence[Mapping[int, Fraction]]
) -> float:
    """The mean over the queries that have a value; NaN when none has."""
    if parse_name(name).base == "MedR":
        return median_rank(masses)
    defined = [float(value) for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


# --- 6. relevance ----------------------------------------------------------------------------


class Judgement(NamedTuple):
    """Per query, sets of gallery positions; and the rows that are ignored for everybody."""

    positives: list[set[int]]
    ignored: list[set[int]]
    ignored_gallery: set[int]


def _positions(mask: NDArray[np.bool_]) -> set[int]:
    return {int(j) for j in np.flatnonzero(mask)}


def same_label_literal(
    q_label: Column,
    g_label: Column,
    q_camera: Column | None = None,
    g_camera: Column | None = None,
    junk_labels: Collection[Any] = (),
    *,
    different: Sequence[tuple[Column, Column]] = (),
    same: Sequence[tuple[Column, Column]] = (),
    failing: Literal["ignore", "negative"] = "ignore",
    q_id: Column | None = None,
    g_id: Column | None = None,
) -> Judgement:
    """Positive: the same label, another camera, every `different` pair unequal, every `same` equal.

    The same label that fails one of these is ignored, or negative. Gallery rows with a junk label
    are ignored for everybody (and are in no query's own sets). With ids, a row of the query's own
    id is ignored; it must carry the query's label. different, same: (query column, gallery column).
    """
    unequal = list(different)
    if q_camera is not None and g_camera is not None:
        unequal.append((q_camera, g_camera))
    labels = np.asarray(g_label)
    junk = np.array([label in junk_labels for label in labels.tolist()], dtype=bool)
    positives, ignored = [], []
    for i in range(len(q_label)):
        match = labels == np.asarray(q_label)[i]
        passes = np.ones(len(labels), dtype=bool)
        for q_column, g_column in unequal:
            passes &= np.asarray(g_column) != np.asarray(q_column)[i]
        for q_column, g_column in same:
            passes &= np.asarray(g_column) == np.asarray(q_column)[i]
        own = np.zeros(len(labels), dtype=bool)
        if q_id is not None and g_id is not None:
            own = np.asarray(g_id) == np.asarray(q_id)[i]
        if bool((own & ~match).any()):
            raise ValueError(f"query {i} shares its id with a row of another label")
        fails = match & ~passes if failing == "ignore" else np.zeros(len(labels), dtype=bool)
        positives.append(_positions(match & passes & ~own & ~junk))
        ignored.append(_positions((fails | own) & ~junk))
    return Judgement(positives, ignored, _positions(junk))


def within_literal(
    q_xy: ArrayLike, g_xy: ArrayLike, radius: float, inclusive: bool = True
) -> list[set[int]]:
    """Per query, the rows at most (or, not inclusive, less than) `radius` away in the plane.

    float64 throughout, and squares are compared: a pair within a rounding of the radius may fall
    on either side by another formula.
    """
    queries = np.asarray(q_xy, dtype=np.float64)
    gallery = np.asarray(g_xy, dtype=np.float64)
    found = []
    for x, y in queries:
        east, north = gallery[:, 0] - x, gallery[:, 1] - y
        squared = east * east + north * north
        limit = float(radius) * float(radius)
        found.append(_positions(squared <= limit if inclusive else squared < limit))
    return found


def geodesic_within_literal(
    q_latlon: ArrayLike, g_latlon: ArrayLike, radius: float, inclusive: bool = True
) -> list[set[int]]:
    """Per query, the rows within `radius` metres on the WGS-84 ellipsoid, pair by pair."""
    gallery = [(float(lat), float(lon)) for lat, lon in np.asarray(g_latlon, dtype=np.float64)]
    found = []
    for lat, lon in np.asarray(q_latlon, dtype=np.float64):
        metres = [float(geodesic((float(lat), float(lon)), place).m) for place in gallery]
        found.append({j for j, d in enumerate(metres) if d < radius or (inclusive and d == radius)})
    return found
