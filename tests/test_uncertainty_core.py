"""Resampling of whole units: sums, draws, and the bootstrap interval of their means."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reid_vpr_eval.errors import AlignmentError
from reid_vpr_eval.uncertainty import (
    Clusters,
    bca_limits,
    bootstrap_means,
    jackknife_means,
    resampling_counts,
)

VALUES = st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), min_size=1, max_size=40)


@given(VALUES, st.randoms(use_true_random=False))
def test_sums_do_not_depend_on_the_order_of_queries(rows: list[tuple[int, float]], rng) -> None:  # type: ignore[no-untyped-def]
    shuffled = rng.sample(rows, len(rows))
    found = []
    for given_rows in (rows, shuffled):
        unit, value = zip(*given_rows, strict=True)
        clusters = Clusters.of([f"unit {number}" for number in unit])
        found.append((clusters.names, *clusters.sums(value)))
    for one, other in zip(*found, strict=True):
        assert one.tolist() == other.tolist()


def test_sums_leave_out_what_takes_no_part() -> None:
    clusters = Clusters.of(["b", "a", "b", "c"])
    total, size = clusters.sums([1.0, 0.25, 0.5, np.nan], weights=[2.0, 1.0, 1.0, 5.0])
    assert total.tolist() == [0.25, 2.5, 0.0]
    assert size.tolist() == [1.0, 3.0, 0.0]


def test_values_of_another_length_are_refused() -> None:
    with pytest.raises(AlignmentError, match="one for each of the 2 queries"):
        Clusters.of([1, 2]).sums([1.0])
    with pytest.raises(AlignmentError, match="one for each query"):
        Clusters.of([[1, 2]])


@pytest.mark.parametrize("at_once", [1, 22, 1000])
def test_draws_do_not_depend_on_how_many_come_at_once(at_once: int) -> None:
    drawn = np.concatenate(list(resampling_counts(7, 50, 3, at_once=at_once)))
    whole = np.concatenate(list(resampling_counts(7, 50, 3)))
    assert drawn.tolist() == whole.tolist()
    assert drawn.shape == (50, 7)
    assert (drawn.sum(axis=1) == 7).all()


def test_draws_are_those_of_a_multinomial() -> None:
    drawn = np.concatenate(list(resampling_counts(5, 20_000, 0)))
    assert np.allclose(drawn.mean(axis=0), 1.0, atol=0.03)
    assert np.allclose(np.cov(drawn.T), np.eye(5) - 0.2, atol=0.04)


def test_means_of_resampled_units_are_the_literal_ones() -> None:
    rng = np.random.default_rng(1)
    unit, value = rng.integers(0, 6, 30), rng.random(30)
    clusters = Clusters.of(unit)
    total, size = clusters.sums(value)
    drawn = np.concatenate(list(resampling_counts(6, 40, 9)))
    wanted = []
    for counts in drawn.astype(int):
        rows = np.concatenate([np.repeat(value[unit == u], c) for u, c in enumerate(counts)])
        wanted.append(rows.mean())
    found = bootstrap_means(total[:, None], size[:, None], resamples=40, seed=9)
    assert np.allclose(found[:, 0], wanted, rtol=1e-13)
    left = [value[unit != u].mean() for u in range(6)]
    assert np.allclose(jackknife_means(total[:, None], size[:, None])[:, 0], left, rtol=1e-13)


def test_limits_are_those_of_scipy_where_every_query_is_a_unit() -> None:
    value = np.random.default_rng(4).random(60) ** 3
    total, size = value[:, None], np.ones((60, 1))
    draws = bootstrap_means(total, size, resamples=20_000)[:, 0]
    found = bca_limits(value.mean(), draws, jackknife_means(total, size)[:, 0], 0.9)
    wanted = stats.bootstrap(
        (value,), np.mean, n_resamples=20_000, confidence_level=0.9, rng=2, method="BCa"
    ).confidence_interval
    assert np.allclose(found, wanted, atol=0.003)
