"""Do 95% intervals cover 95%? Many fits, inside the family and outside.

Each test has 400 fits with n = 2,000 of a machine with six couplings. The mean over couplings and fits has a standard
error between 0.0046 and 0.0067 (measured over the fits; couplings are nearly independent), so the band 93–97% is three of
those or more and a right interval fails with probability below 0.3%. Seeds are fixed.

The same estimates with intervals that leave the selection noise out must fail: those of the independent and the multinomial
policy do. The noise of the partition is 6% of a variance, too little for 400 fits to see: its moments are compared with
sums over all partitions elsewhere.
"""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.sequences import Sequences

MODEL = ff.BoltzmannMachine(4)
THETA = np.array([-1.0, 1.0, 0.5, -0.5, 1.0, -1.0])
POLICIES = [
    "PL1",
    "PL2",
    "FL",
    "0.3*PL1 + 0.2*PL2",
    "Multinomial(0.5*PL1 + 0.5*PL2)",
    "Partition(2)",
]
NOISY = POLICIES[3:5]
REPLICATIONS, N = 400, 2_000


def triple_machine():
    """Pairs and one three-way interaction: outside the family of pairwise machines."""
    triple = np.zeros((2, 2, 2))
    triple[1, 1, 1] = 1.0
    pairs = [ff.Factor((j, k), np.outer([0, 1], [0, 1])) for j, k in MODEL.edges]
    return ff.MarkovRandomField([2] * 4, [*pairs, ff.Factor((0, 1, 2), triple)]), np.append(THETA, 2.0)


def held(interval, target):
    """The part of the intervals (r, 2) that hold the target."""
    return np.mean((interval[:, 0] <= target) & (target <= interval[:, 1]))


def coverage(source, theta, policy, target, kinds):
    """The part of 95% intervals that hold the target, mean over fits and couplings, for each kind; and all estimates."""
    ff.set_threads(1)
    draws = source.sample(theta, REPLICATIONS * N, 2024).codes.reshape(REPLICATIONS, N, -1)
    inside, estimates = dict.fromkeys(kinds, 0.0), []
    for seed, x in enumerate(draws):
        fit = ff.fit(MODEL, x, policy, random_state=seed)
        estimates.append(fit.theta)
        for kind in kinds:
            inside[kind] += held(fit.conf_int(0.95, kind), target) / REPLICATIONS
    return inside, np.array(estimates)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_both_kinds_of_intervals_cover_inside_the_family(policy):
    found, estimates = coverage(MODEL, THETA, policy, THETA, ("robust", "model"))
    assert 0.93 < found["robust"] < 0.97, found
    assert 0.93 < found["model"] < 0.97, found
    if policy in NOISY:
        half = 1.96 * ff.theory(MODEL, THETA, policy, formula="published").standard_errors(N)
        assert np.mean(np.abs(estimates - THETA) <= half) < 0.92


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_robust_intervals_cover_the_projection_outside_the_family(policy):
    source, theta = triple_machine()
    projection = ff.project(MODEL, (source, theta), policy)
    assert projection.divergence > 0.005
    assert np.abs(projection.theta - THETA).max() > 0.5
    found, _ = coverage(source, theta, policy, projection.theta, ("robust",))
    assert 0.93 < found["robust"] < 0.97, found


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [{"sigma2": 0.03}, {"l1": 40.0}], ids=["ridge", "lasso"])
def test_debiased_intervals_cover_where_penalised_ones_cannot(penalty):
    """A penalty that pulls by a standard error and more: one Newton step, and the intervals are for θ₀ again."""
    ff.set_threads(1)
    draws = MODEL.sample(THETA, REPLICATIONS * N, 2024).codes.reshape(REPLICATIONS, N, -1)
    penalised, debiased = 0.0, dict.fromkeys(("robust", "model"), 0.0)
    for x in draws:
        fit = ff.fit(MODEL, x, "PL1", **penalty)
        step = fit.debiased()
        penalised += held(fit.conf_int(), THETA) / REPLICATIONS
        for kind in debiased:
            debiased[kind] += held(step.conf_int(0.95, kind), THETA) / REPLICATIONS  # type: ignore[arg-type]
    assert penalised < 0.7
    assert 0.93 < debiased["robust"] < 0.97, debiased
    assert 0.93 < debiased["model"] < 0.97, debiased


def sentences(model, theta, n, seed):
    """Sequences of 2 to 8 tokens with three valued inputs, labels drawn from the model."""
    random = np.random.default_rng(10_000 + seed)
    offsets = np.concatenate(([0], np.cumsum(random.integers(2, 9, n))))
    tokens = int(offsets[-1])
    inputs, values = np.tile(np.arange(3, dtype=np.int32), tokens), random.normal(size=3 * tokens)
    labels = np.zeros(tokens, dtype=np.int32)
    return model.simulate(Sequences(offsets, 3 * np.arange(tokens + 1), inputs, values, labels, 3, 3), theta, seed)


@pytest.mark.slow
def test_intervals_of_transition_contrasts_cover_in_a_conditional_field():
    """PL1 of 150 sequences, four contrasts of transitions that no gauge changes.

    1,000 replications covered 0.943 on average (0.938 to 0.952). The mean of four over 300 replications has a standard
    error of about 0.008 (they are weakly dependent) and at most 0.0134: the band is three of the first.
    """
    ff.set_threads(1)
    model = ff.ChainCRF(3, 3, pairs="all", start=False, end=False)
    names = list(model.parameter_names)
    theta = np.random.default_rng(77).normal(scale=0.8, size=len(names))
    for a, b in np.ndindex(3, 3):
        theta[names.index(f"y{a}->y{b}")] = 1.2 if a == b else -0.3 * (b - a)
    pairs = [(0, 1), (0, 2), (1, 2)]
    contrasts = [{f"y{a}->y{a}": 1, f"y{b}->y{b}": 1, f"y{a}->y{b}": -1, f"y{b}->y{a}": -1} for a, b in pairs]
    contrasts.append({"y0->y1": 1, "y1->y2": 1, "y2->y0": 1, "y0->y2": -1, "y2->y1": -1, "y1->y0": -1})
    targets = [sum(sign * theta[names.index(name)] for name, sign in contrast.items()) for contrast in contrasts]
    covered = 0
    for seed in range(300):
        fit = ff.fit(model, sentences(model, theta, 150, seed), "PL1")
        for contrast, target in zip(contrasts, targets, strict=True):
            estimate = fit.functional(contrast)
            covered += abs(estimate.estimate - target) <= 1.96 * estimate.standard_error
    assert 0.915 < covered / 1200 < 0.97, covered / 1200
