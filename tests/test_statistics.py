"""The statistics against their definitions, and against SciPy where SciPy does not compute them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hvil.analysis.statistics import (
    interquartile_mean,
    mean_estimate,
    paired,
    proportion_interval,
    share_estimate,
    sign_flip_p_value,
    student_interval,
)
from hvil.gate.errors import InputError

VALUES = st.lists(st.floats(0, 1, width=16), min_size=1, max_size=30).map(np.array)


@given(VALUES)
def test_interquartile_mean_leaves_out_a_quarter_at_each_end(values):
    quarter = len(values) // 4
    assert interquartile_mean(values) == pytest.approx(np.sort(values)[quarter : len(values) - quarter].mean())


@given(st.integers(1, 2000), st.floats(0, 1))
def test_proportion_interval_is_wilsons(count, share):
    successes = round(share * count)
    expected = stats.binomtest(successes, count).proportion_ci(method="wilson")
    assert proportion_interval(successes, count) == pytest.approx(tuple(expected), abs=1e-12)


@pytest.mark.parametrize("count", [3, 10, 40])
def test_students_interval_is_scipys(count):
    values = np.random.default_rng(count).beta(2, 5, size=count)
    expected = stats.t.interval(0.95, count - 1, loc=values.mean(), scale=stats.sem(values))
    assert student_interval(values) == mean_estimate(values).interval == pytest.approx(expected)


def test_the_interval_of_a_share_is_one_of_shares():
    assert share_estimate(np.array([0.0, 0.1, 0.0])).interval.low == 0.0
    assert share_estimate(np.array([1.0, 0.9, 1.0])).interval.high == 1.0
    assert share_estimate(np.array([0.4, 0.5, 0.6])) == mean_estimate(np.array([0.4, 0.5, 0.6]))


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_a_few_pairs_are_tried_with_all_signs(count):
    differences = np.random.default_rng(count).integers(-3, 4, size=count)
    signs = np.array(list(itertools.product((-1, 1), repeat=count)))
    expected = (np.abs(signs @ differences) >= abs(differences.sum())).mean()
    assert sign_flip_p_value(differences / 10) == pytest.approx(expected)


def test_many_pairs_are_tried_with_random_signs():
    differences = np.random.default_rng(30).normal(0.3, 1, size=30)
    expected = stats.wilcoxon(differences).pvalue
    assert sign_flip_p_value(differences) == sign_flip_p_value(differences)
    assert sign_flip_p_value(differences) == pytest.approx(expected, abs=0.05)


def test_differences_that_cancel_out_are_no_difference():
    # Their sum is 6e-17, not 0: rounding must not count.
    assert sign_flip_p_value(np.array([0.0, -0.1, 0.0, -0.1, 0.0, 0.2, 0.2, -0.2])) == 1.0


def test_paired_comparison_sees_a_difference_that_the_spread_between_training_sets_hides():
    hard = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 0.2])
    first, second = hard + 0.01, hard + np.array([0.05, 0.06, 0.04, 0.05, 0.05, 0.06])
    result = paired(first, second)
    assert result.difference.mean == pytest.approx(-0.0416666, abs=1e-6)
    assert result.difference.interval is not None
    assert result.difference.interval.high < 0
    assert result.first_lower == 1.0
    assert result.p_value == pytest.approx(2 / 2**6)


def test_equal_learners_do_not_differ():
    result = paired(np.zeros(4), np.zeros(4))
    assert (result.difference.mean, result.p_value, result.first_lower) == (0.0, 1.0, 0.5)


def test_one_run_has_a_mean_but_no_interval():
    assert mean_estimate(np.array([0.25])) == share_estimate(np.array([0.25])) == (0.25, None, 1)


@pytest.mark.parametrize("values", [np.array([]), np.array([0.1, np.nan])])
def test_no_values_or_values_that_are_not_numbers_are_refused(values):
    with pytest.raises(InputError):
        mean_estimate(values)


def test_unequal_numbers_of_runs_cannot_be_paired():
    with pytest.raises(InputError, match="3 and 2"):
        paired(np.zeros(3), np.zeros(2))
