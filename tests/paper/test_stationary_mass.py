"""The stationary mass of labels, against powers of the matrix and against enumeration."""

import itertools

import numpy as np

import fieldfit as ff
from fieldfit_paper.stationary_mass import expected_shares, label_factors, stationary_mass


def chain():
    model = ff.BoltzmannChain(3, 2, unseen=4)
    return model, np.random.default_rng(0).normal(size=model.n_parameters)


def test_factors_are_the_scores_with_the_symbols_summed_out():
    model, theta = chain()
    transitions, start, symbols = model.split(theta)
    matrix, first = label_factors(model, theta)
    summed = np.exp(symbols[:, 0]) + 4 * np.exp(symbols[:, 1])
    expected = np.exp(transitions) * summed
    np.testing.assert_allclose(matrix / matrix[0, 0], expected / expected[0, 0], rtol=1e-12)
    np.testing.assert_allclose(first / first[0], np.exp(start) * summed / (np.exp(start[0]) * summed[0]), rtol=1e-12)


def test_mass_is_that_in_the_middle_of_a_long_sentence():
    model, theta = chain()
    matrix, start = label_factors(model, theta)
    half = np.linalg.matrix_power(matrix / matrix.max(), 30)
    middle = (start @ half) * half.sum(axis=1)
    np.testing.assert_allclose(stationary_mass(matrix), middle / middle.sum(), rtol=1e-8)


def test_shares_are_those_of_enumeration():
    model, theta = chain()
    matrix, start = label_factors(model, theta)
    counts = np.zeros(3)
    for length in (1, 3, 3, 4):
        paths = list(itertools.product(range(3), repeat=length))
        weights = np.array([start[p[0]] * np.prod([matrix[a, b] for a, b in itertools.pairwise(p)]) for p in paths])
        for path, weight in zip(paths, weights / weights.sum(), strict=True):
            counts += weight * np.bincount(path, minlength=3)
    np.testing.assert_allclose(
        expected_shares(matrix, start, np.array([1, 3, 0, 3, 4])), counts / counts.sum(), rtol=1e-10
    )
