"""The law of a weighted sum of χ²: closed forms, far tails, and simulation."""

import numpy as np
import pytest
from scipy.stats import chi2

from fieldfit.asymptotics import weighted_chi_square_tail
from fieldfit.types import FieldfitError


@pytest.mark.parametrize("degrees", [1, 2, 3, 10, 100, 500])
def test_equal_weights_are_a_chi_square(degrees):
    for x in (1e-3, 0.1, 1.0, 0.99 * degrees, degrees, 1.001 * degrees, 3 * degrees, 400.0):
        exact = chi2.sf(x, degrees)
        assert weighted_chi_square_tail(2.5 * x, np.full(degrees, 2.5)) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("small", [0.9, 0.5, 0.01, 1e-4, 1e-8])
@pytest.mark.parametrize("x", [1e-4, 0.01, 0.5, 2.0, 10.0, 50.0, 300.0, 1000.0])
def test_two_pairs_are_a_sum_of_two_exponentials(small, x):
    exact = (np.exp(-x / 2) - small * np.exp(-x / (2 * small))) / (1 - small)
    assert weighted_chi_square_tail(x, np.array([small, 1.0, 1.0, small])) == pytest.approx(exact, rel=1e-11)


@pytest.mark.slow
def test_odd_weights_agree_with_simulation():
    """4 million draws: five standard errors are below 0.00125; a right law fails with probability below 1e-6."""
    weights = np.array([3.0, 1.3, 0.4, 0.05])
    draws = np.random.default_rng(0).standard_normal((4_000_000, 4)) ** 2 @ weights
    for x in (0.5, 2.0, 5.0, 15.0):
        assert weighted_chi_square_tail(x, weights) == pytest.approx(np.mean(draws > x), abs=1.25e-3)


def test_edges_and_bad_input():
    assert weighted_chi_square_tail(0.0, np.ones(3)) == 1.0
    assert weighted_chi_square_tail(-1.0, np.ones(3)) == 1.0
    assert weighted_chi_square_tail(1.0, np.zeros(3)) == 0.0
    assert weighted_chi_square_tail(np.inf, np.ones(2)) == 0.0
    with pytest.raises(FieldfitError, match="not negative"):
        weighted_chi_square_tail(1.0, np.array([1.0, -0.5]))
    with pytest.raises(FieldfitError, match="not a number"):
        weighted_chi_square_tail(np.nan, np.ones(2))
