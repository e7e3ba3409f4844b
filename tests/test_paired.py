"""Paired tests: against their definitions, against SciPy, and their level under the null."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reid_vpr_eval.uncertainty import freedom_of
from reid_vpr_eval.uncertainty.paired import (
    effect,
    holm,
    mcnemar,
    paired_limits,
    sign_flips,
    unit_sums,
)

Floats = npt.NDArray[np.float64]


def literal_p(differences: Any, units: Any) -> float:
    """Go through all sign changes of units and count means as far from 0 as the observed one."""
    names = sorted(set(units))
    sums = [math.fsum(d for d, u in zip(differences, units, strict=True) if u == name)
            for name in names]  # fmt: skip
    observed = abs(math.fsum(sums))
    reached = [
        abs(math.fsum(sign * total for sign, total in zip(signs, sums, strict=True)))
        >= observed - 1e-9
        for signs in itertools.product((1, -1), repeat=len(sums))
    ]
    return sum(reached) / len(reached)


def literal_step_down(differences: Floats) -> list[float]:
    """Go through all sign changes; step down from the largest standardised sum."""
    t = differences / np.sqrt((differences**2).sum(axis=0))
    observed = np.abs(t.sum(axis=0))
    order = np.argsort(-observed)
    found = np.array([
        np.abs((np.array(signs)[:, None] * t).sum(axis=0))
        for signs in itertools.product((1, -1), repeat=len(t))
    ])  # fmt: skip
    adjusted, least = [0.0] * len(order), 0.0
    for step, pair in enumerate(order):
        highest = found[:, order[step:]].max(axis=1)
        least = max(least, float((highest >= observed[pair] - 1e-9).mean()))
        adjusted[pair] = least
    return adjusted


quarters = st.integers(-8, 8).map(lambda k: k / 4)
cases = st.lists(st.tuples(quarters, st.sampled_from("abcdefgh")), min_size=1, max_size=14)


@settings(max_examples=25)
@given(cases)
def test_p_is_the_share_of_all_sign_changes(case: list[tuple[float, str]]) -> None:
    differences, units = [d for d, _ in case], [u for _, u in case]
    found = sign_flips(differences, units)
    assert found.exact
    assert found.seed is None
    assert found.p[0] == pytest.approx(literal_p(differences, units), abs=1e-12)


@settings(max_examples=25)
@given(st.lists(st.tuples(quarters, quarters, quarters), min_size=2, max_size=9))
def test_max_t_is_the_step_down_over_all_sign_changes(rows: list[tuple[float, ...]]) -> None:
    differences = np.array(rows)
    differences[0] += 0.125  # no pair is without any difference
    found = sign_flips(differences)
    assert found.adjusted.tolist() == pytest.approx(literal_step_down(differences), abs=1e-12)
    assert (found.adjusted >= found.p - 1e-12).all()


def test_a_case_worked_by_hand() -> None:
    """Sums 3, 1, 1: |mean| reaches 5 in ++ + and - - -, so p is 2/8; 2/4 if two are one unit."""
    assert sign_flips([3.0, 1.0, 1.0]).p.tolist() == [0.25]
    assert sign_flips([3.0, 1.0, 1.0], ["x", "y", "y"]).p.tolist() == [0.5]
    assert sign_flips([3.0, 1.0, -1.0], ["x", "y", "y"]).n_moving == 1


def test_p_from_draws_is_b_plus_one() -> None:
    found = sign_flips(np.ones(60), resamples=999)
    assert not found.exact
    assert found.p.tolist() == [1 / 1000]
    assert found.seed == 0


@settings(max_examples=25)
@given(st.lists(quarters, min_size=20, max_size=30), st.integers(0, 2**31))
def test_neither_order_nor_names_nor_direction_matter(values: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    differences, units = np.array(values) / 3, rng.integers(0, 16, len(values))
    order = rng.permutation(len(values))
    names = np.array([f"{(7 * k) % 17}" for k in range(17)])
    first = sign_flips(differences, units, resamples=500)
    other = sign_flips(-differences[order], names[units][order], resamples=500)
    assert first.p.tolist() == other.p.tolist()
    assert first.n_moving == other.n_moving


def test_the_seed_decides_alone() -> None:
    differences = np.random.default_rng(1).normal(0.1, 1, (50, 2))
    one, two, other = (sign_flips(differences, resamples=400, seed=s) for s in (3, 3, 4))
    assert one.p.tolist() == two.p.tolist()
    assert one.adjusted.tolist() == two.adjusted.tolist()
    assert one.p.tolist() != other.p.tolist()


def test_how_many_signs_are_in_memory_changes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(2).normal(0.1, 1, 70)
    one = sign_flips(differences, resamples=300)
    monkeypatch.setattr("reid_vpr_eval.uncertainty.paired._AT_ONCE", 100)
    assert sign_flips(differences, resamples=300).p.tolist() == one.p.tolist()


def test_statistics_that_differ_by_rounding_are_equal() -> None:
    """0.1 + 0.2 is not 0.3, but the mean of these cannot be told from any other sign's."""
    assert sign_flips([0.1, 0.2, -0.3, 0.1 + 0.2 - 0.3]).p.tolist() == [1.0]
    assert sign_flips([0.1, 0.2, -0.3], ["a", "a", "a"]).n_moving == 0
    # Six equal differences: 2 of 64, whatever the rounding of their sums.
    assert sign_flips([0.1] * 6).p.tolist() == [2 / 64]


@pytest.mark.parametrize("differences", [[0.0] * 5, [0.3]], ids=["none differs", "one query"])
def test_nothing_to_tell_is_p_of_one(differences: list[float]) -> None:
    found = sign_flips(differences)
    assert found.p.tolist() == found.adjusted.tolist() == [1.0]


def test_one_unit_is_p_of_one() -> None:
    assert sign_flips([0.3, 0.4, 0.1], ["x"] * 3).p.tolist() == [1.0]
    assert paired_limits([0.3, 0.4, 0.1], ["x"] * 3) == ["all queries are of one unit"]


def test_a_pair_without_differences_beside_one_with() -> None:
    found = sign_flips(np.stack([np.zeros(20), np.linspace(0.1, 1, 20)], axis=1))
    assert found.p[0] == 1
    assert found.adjusted[0] == 1
    assert found.p[1] < 0.001


@pytest.mark.parametrize("seed", range(3))
def test_scipy_finds_the_same_exact_p(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0.2, 1, (2, 11))
    theirs = stats.permutation_test(
        (first, second), lambda a, b: np.mean(a - b), permutation_type="samples",
        n_resamples=10**6, alternative="two-sided",
    )  # fmt: skip
    assert sign_flips(first - second).p[0] == pytest.approx(theirs.pvalue, abs=1e-12)


def test_scipy_finds_the_same_p_from_draws() -> None:
    """Of a p near .05 and 20,000 draws each, two standard errors of the difference are .0044."""
    differences = np.random.default_rng(5).normal(0, 1, 150)
    differences += 0.16 - differences.mean()
    theirs = stats.permutation_test(
        (differences, np.zeros(150)), lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples", n_resamples=20_000, vectorized=True,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    ours = sign_flips(differences, resamples=20_000).p[0]
    assert 0.01 < ours < 0.2
    assert ours == pytest.approx(theirs.pvalue, abs=0.006)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_mcnemar_is_the_sign_flip_of_hits(hits: list[tuple[bool, bool]]) -> None:
    first, second = (np.array(side, float) for side in zip(*hits, strict=True))
    found = mcnemar(first, second)
    assert found is not None
    won, lost = int((first > second).sum()), int((first < second).sum())
    assert (found.only_first, found.only_second) == (won, lost)
    assert found.both + found.neither + won + lost == len(hits)
    expected = stats.binomtest(won, won + lost).pvalue if won + lost else 1.0
    assert found.p == pytest.approx(expected)
    if won + lost <= 13:
        assert sign_flips(first - second).p[0] == pytest.approx(found.p)


def test_mcnemar_is_for_hits_alone() -> None:
    assert mcnemar([0.5, 1.0], [0.0, 1.0]) is None


def test_effect_sizes_by_hand() -> None:
    """Differences .2, .2, 0, -.1: mean .075, standard deviation .15."""
    found = effect([0.2, 0.2, 0.0, -0.1])
    assert found.standardised == pytest.approx(0.5)
    assert (found.higher, found.lower, found.equal) == (0.5, 0.25, 0.25)
    assert effect([0.0, 0.0]).standardised == 0
    assert effect([0.25, 0.25]).standardised is None
    assert effect([0.25]).standardised is None


def test_holm_by_hand() -> None:
    """.01 x 4, .02 x 3, .03 x 2, .9 x 1, none below the one before."""
    assert holm([0.02, 0.9, 0.01, 0.03]).tolist() == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]


def test_units_add_up() -> None:
    found = unit_sums([[1.0, 0.5], [2.0, 0.5], [4.0, -0.5]], ["b", "a", "b"])
    assert found.tolist() == [[2.0, 0.5], [5.0, 0.0]]


def test_limits_agree_with_scipy_where_queries_are_units() -> None:
    differences = np.random.default_rng(8).exponential(1, 120) - 0.8
    theirs = stats.bootstrap(
        (differences,), np.mean, method="BCa", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    ours = paired_limits(differences, resamples=20_000)[0]
    assert not isinstance(ours, str)
    assert ours.method == "bca"
    assert ours.low == pytest.approx(theirs.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.high, abs=0.02)


def test_limits_of_few_queries_are_those_of_the_t_test() -> None:
    """Differences on two values have the full number of degrees of freedom."""
    differences = np.tile([0.25, -0.125], 15)
    theirs = stats.ttest_1samp(differences, 0).confidence_interval(0.9)
    ours = paired_limits(differences, level=0.9)[0]
    assert not isinstance(ours, str)
    assert ours[:2] == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_limits_of_units_of_one_size_are_those_of_their_means() -> None:
    """Up to the degrees of freedom, of which there are fewer where a unit lies far out."""
    differences = np.random.default_rng(9).normal(0.1, 1, (12, 5)) + np.arange(12)[:, None] % 3
    means = differences.mean(axis=1)
    ours = paired_limits(differences.ravel(), np.repeat(np.arange(12), 5))[0]
    assert not isinstance(ours, str)
    t = stats.t.ppf(0.975, freedom_of(means - means.mean()))
    reach = t * means.std(ddof=1) / math.sqrt(12)
    assert ours[:2] == pytest.approx((means.mean() - reach, means.mean() + reach), abs=1e-12)
    assert reach >= stats.t.ppf(0.975, 11) * means.std(ddof=1) / math.sqrt(12)


def test_there_are_no_limits_where_nothing_differs() -> None:
    assert paired_limits([0.0] * 30) == ["no query differs"]
    assert paired_limits([0.5]) == ["one query does not tell how queries differ"]


@pytest.mark.slow
@pytest.mark.parametrize(("n_units", "most"), [(10, 9), (35, 9), (150, 4)])
def test_limits_hold_the_truth_and_those_without_units_do_not(n_units: int, most: int) -> None:
    """Of 600 intervals at 95 %, three standard errors are 2.7 points."""
    rng, held, naive = np.random.default_rng(4), 0, 0
    truth = 0.2
    for number in range(600):
        sizes = rng.integers(1, most + 1, n_units)
        units = np.repeat(np.arange(n_units), sizes)
        differences = truth + rng.normal(size=n_units)[units] + rng.normal(size=len(units))
        for by in (units, None):
            found = paired_limits(differences, by, resamples=500, seed=number)[0]
            assert not isinstance(found, str)
            inside = found.low <= truth <= found.high
            held, naive = held + (inside and by is not None), naive + (inside and by is None)
    assert 0.92 < held / 600 < 0.98
    assert naive / 600 < 0.9


@settings(max_examples=25)
@given(st.integers(0, 2**31))
def test_limits_do_not_depend_on_order_and_turn_with_the_direction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    differences, units = rng.normal(size=130), np.r_[np.arange(110), rng.integers(0, 9, 20)]
    order = rng.permutation(130)
    one = paired_limits(differences, units, resamples=200)[0]
    other = paired_limits(-differences[order], units[order] + 5, resamples=200)[0]
    assert not isinstance(one, str)
    assert not isinstance(other, str)
    assert one[:2] == pytest.approx((-other.high, -other.low), abs=1e-12)


def clustered(
    rng: np.random.Generator, *, hits: bool, n_units: int = 40
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return values of two equally good models less each other, alike within units."""
    units = np.repeat(np.arange(n_units), rng.integers(1, 12, n_units))
    hard = rng.normal(size=n_units)[units]
    scores = [0.8 + hard + rng.normal(size=n_units)[units] + rng.normal(size=len(units))
              for _ in range(2)]  # fmt: skip
    values = [(one > 0).astype(float) if hits else 1 / (1 + np.exp(-one)) for one in scores]
    return values[0] - values[1], units


def p_under_the_null(repetitions: int, *, by_unit: bool, hits: bool = False) -> Floats:
    rng = np.random.default_rng(20)
    found = []
    for number in range(repetitions):
        differences, units = clustered(rng, hits=hits)
        flips = sign_flips(differences, units if by_unit else None, resamples=499, seed=number)
        found.append(flips.p[0])
    return np.array(found)


def test_p_is_uniform_under_the_null_and_a_test_without_units_is_not() -> None:
    p = p_under_the_null(500, by_unit=True)
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert abs((p <= 0.05).mean() - 0.05) < 0.02
    naive = p_under_the_null(500, by_unit=False)
    assert stats.kstest(naive, "uniform").pvalue < 1e-6
    assert (naive <= 0.05).mean() > 0.1


def test_p_of_hits_keeps_its_level() -> None:
    """Sums of hits are whole numbers, which often tie: p is no smaller than uniform."""
    p = p_under_the_null(500, by_unit=True, hits=True)
    for level in (0.01, 0.05, 0.1, 0.2, 0.5):
        assert (p <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / 500)
    assert (p <= 0.1).mean() > 0.04
    assert (p_under_the_null(500, by_unit=False, hits=True) <= 0.05).mean() > 0.08


@pytest.mark.slow
def test_max_t_keeps_the_level_of_the_family() -> None:
    """Four equally good models, six pairs: any rejection at .05 is about as rare as .05."""
    rng, any_alone, any_corrected = np.random.default_rng(3), 0, 0
    for number in range(1000):
        units = np.repeat(np.arange(60), 4)
        scores = rng.normal(size=(240, 4)) + rng.normal(size=(60, 4))[units]
        pairs = list(itertools.combinations(range(4), 2))
        moved = np.stack([scores[:, j] - scores[:, i] for i, j in pairs], axis=1)
        flips = sign_flips(moved, units, resamples=499, seed=number)
        any_alone += bool((flips.p <= 0.05).any())
        any_corrected += bool((flips.adjusted <= 0.05).any())
    assert 0.03 < any_corrected / 1000 < 0.07
    assert any_alone / 1000 > 0.12
