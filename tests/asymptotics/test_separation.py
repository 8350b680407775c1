"""Data that separate are found by linear programming and by a fit alike, whatever the weights of the samples."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

import fieldfit as ff
from fieldfit.optim.choose import Method
from fieldfit.types import DataError, SeparationWarning

METHODS: tuple[Method, ...] = ("auto", "lbfgs", "newton")


def features(x, *, biases):
    pairs = [x[..., i] * x[..., j] for i, j in itertools.combinations(range(x.shape[-1]), 2)]
    return np.stack(pairs + ([x[..., i] for i in range(x.shape[-1])] if biases else []), axis=-1).astype(float)


def margins(x, policy, states, *, biases):
    """f(x) − f(x') for each sample x and each x' that a component of it compares x with."""
    m = x.shape[1]
    found = []
    for row in np.unique(x, axis=0):
        if policy == "PL1":
            others = np.tile(row, (m, 1))
            np.fill_diagonal(others, sum(states) - row)
        else:
            others = np.array([other for other in itertools.product(states, repeat=m) if (other != row).any()])
        found.append(features(row, biases=biases) - features(others, biases=biases))
    return np.vstack(found)


def separates(differences):
    """Whether some direction v of θ raises or keeps the probability of every sample, and raises one."""
    box = [(-1, 1)] * differences.shape[1]
    answer = linprog(-differences.sum(axis=0), A_ub=-differences, b_ub=np.zeros(len(differences)), bounds=box)
    return -answer.fun > 1e-7


def weights(random, kind, n):
    """Weights from 10^-7 to 10^9, with what they are."""
    scale = 10.0 ** random.integers(0, 10)
    if kind == "importance":
        return random.random(n) * scale * 1e-7, kind
    return np.round(scale ** (random.random(n) if kind == "mixed counts" else np.ones(n))), "counts"


@pytest.mark.parametrize("kind", ["equal counts", "mixed counts", "importance"])
@pytest.mark.parametrize("policy", ["PL1", "FL"])
def test_a_fit_finds_what_linear_programming_finds(policy, kind):
    random = np.random.default_rng([17, len(policy), len(kind)])
    seen: list[bool] = []
    while len(seen) < 60:
        m, n, biases = int(random.integers(2, 5)), int(random.integers(4, 60)), bool(random.integers(2))
        states = [(0, 1), (-1, 1)][random.integers(2)]
        x = np.where(random.random((n, m)) < random.uniform(0.15, 0.85, m), states[1], states[0])
        if random.random() < 0.5:
            copies = random.random(n) < 0.8
            x[copies, 1] = x[copies, 0]
        sizes, weight_kind = weights(random, kind, n)
        method = METHODS[random.integers(3)]
        model = ff.BoltzmannMachine(m, biases=biases, states=states)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeparationWarning)
            try:
                fit = ff.fit(model, x, policy, sample_weight=sizes, weight_kind=weight_kind, method=method)
            except DataError:  # a constant column
                continue
        truth = separates(margins(x, policy, states, biases=biases))
        assert bool(fit.separated) == truth, (len(seen), model, method)
        seen.append(truth)
    assert 5 < sum(seen) < 55
