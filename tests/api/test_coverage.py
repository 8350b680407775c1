"""Do 95% intervals cover 95%? Many fits, inside the family and outside.

Each test has 1,000 fits with n = 2,000 of a machine with six couplings. If the true coverage is 95%, the mean over
couplings has a standard error of at most 0.0069 (that of a single one, √(0.95 · 0.05 / 1000); less as they are not
perfectly dependent), so the band 93–97% is at least 2.9 of those and a right interval fails with probability below 0.4%,
all 18 together below 7% (in truth far less: couplings are nearly independent). Seeds are fixed.
"""

import numpy as np
import pytest

import fieldfit as ff

MODEL = ff.BoltzmannMachine(4)
THETA = np.array([-1.0, 1.0, 0.5, -0.5, 1.0, -1.0])
POLICIES = [
    "PL1",
    "PL2",
    "FL",
    "0.7*PL1 + 0.3*PL2",
    "Multinomial(0.5*PL1 + 0.5*PL2)",
    "Partition(2)",
]
REPLICATIONS, N = 1_000, 2_000


def triple_machine():
    """Pairs and one three-way interaction: outside the family of pairwise machines."""
    triple = np.zeros((2, 2, 2))
    triple[1, 1, 1] = 1.0
    pairs = [ff.Factor((j, k), np.outer([0, 1], [0, 1])) for j, k in MODEL.edges]
    return ff.MarkovRandomField([2] * 4, [*pairs, ff.Factor((0, 1, 2), triple)]), np.append(THETA, 2.0)


def coverage(source, theta, policy, target, kinds, replications=REPLICATIONS):
    """The part of 95% intervals that hold the target, mean over fits and couplings, for each kind."""
    ff.set_threads(1)
    draws = source.sample(theta, replications * N, 2024).codes.reshape(replications, N, -1)
    inside = dict.fromkeys(kinds, 0.0)
    for seed, x in enumerate(draws):
        fit = ff.fit(MODEL, x, policy, random_state=seed)
        for kind in kinds:
            interval = fit.conf_int(0.95, kind)
            inside[kind] += np.mean((interval[:, 0] <= target) & (target <= interval[:, 1])) / replications
    return inside


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_both_kinds_of_intervals_cover_inside_the_family(policy):
    found = coverage(MODEL, THETA, policy, THETA, ("robust", "model"))
    assert 0.93 < found["robust"] < 0.97, found
    assert 0.93 < found["model"] < 0.97, found


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_robust_intervals_cover_the_projection_outside_the_family(policy):
    source, theta = triple_machine()
    projection = ff.project(MODEL, (source, theta), policy)
    assert projection.divergence > 0.005
    assert np.abs(projection.theta - THETA).max() > 0.5
    found = coverage(source, theta, policy, projection.theta, ("robust",))
    assert 0.93 < found["robust"] < 0.97, found
