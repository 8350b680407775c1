"""A second mode with a small share of the samples is seen after a fit, and fields with the data's distribution pass."""

from math import comb

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.runaway import runaway
from fieldfit.types import RunawayWarning

M = 16


def _counts(coupling, bias):
    """The distribution of the number of ones, for equal couplings and biases."""
    ones = np.arange(M + 1)
    weight = np.array([comb(M, k) for k in ones]) * np.exp(coupling * ones * (ones - 1) / 2 + bias * ones)
    return weight / weight.sum()


def _rows(n, counts, random):
    x = np.zeros((n, M), dtype=int)
    for row, ones in zip(x, random.choice(M + 1, size=n, p=counts), strict=True):
        row[random.permutation(M)[:ones]] = 1
    return x


def test_a_second_mode_with_six_percent_of_the_samples_is_seen():
    coupling, bias = 0.45, -3.57
    counts = _counts(coupling, bias)
    assert counts[9:].sum() == pytest.approx(0.06, abs=0.01)
    model = ff.BoltzmannMachine(M, biases=True)
    held = {name: coupling if ":" in name else bias for name in model.parameter_names[1:]}
    # The data have all samples of the first mode; nearly all of their rows are far from the second one.
    first = np.where(np.arange(M + 1) < 8, counts, 0)
    x = _rows(2000, first / first.sum(), np.random.default_rng(0))
    with pytest.warns(RunawayWarning, match="of 128 chains go further from the data's means than any row") as told:
        fit = ff.fit(model, x, "PL1", fixed=held)
    assert str(told[0].message) == fit.runaway
    assert "in the data). Do not simulate from it" in fit.runaway
    # Its means alone would not show it: the exact ones differ by less than the 0.1 that is allowed.
    assert counts @ np.arange(M + 1) / M - x.mean() < 0.1
    # With the samples of both modes the same field is right.
    both = _rows(2000, counts, np.random.default_rng(0))
    assert runaway(ff.fit(model, both, "PL1", fixed=held, check_drift=False)) == ""


def test_a_plan_says_that_the_pilots_field_runs_away(monkeypatch):
    model = ff.BoltzmannMachine(4, biases=True)
    x = model.sample(np.full(model.n_parameters, 0.2), 400, random_state=0).values
    seen = []

    def drift(model, dataset, theta, total, seed):
        seen.append((theta, total))
        return "the mean of 'x0' goes from 0.088 to 0.970"

    monkeypatch.setattr("fieldfit.api.plan.drift_of", drift)
    planned = ff.plan(model, x, flops=1e7, policies=["PL1"])
    assert planned.explain().startswith(
        "Caution: fields fitted by PL1 run away from these data: the mean of 'x0' goes from 0.088 to 0.970. Variances do"
    )
    ((theta, total),) = seen
    assert theta is planned.theta
    assert total == 400
    assert planned.within(flops=1e8).caution == planned.caution
    assert len(seen) == 1
    # Maximum likelihood has the means of the data, and a small budget leaves no time to look.
    assert "run away" not in ff.plan(model, x, flops=1e7, policies=["FL"]).explain()
    assert "run away" not in ff.plan(model, x, budget="2s", policies=["PL1"]).explain()


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 1000])
def test_fields_with_the_distribution_of_the_data_pass(n):
    """By construction 0.0027 of them get a warning at most: two or more of 20 with a chance of less than 0.0014."""
    found = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        kind = seed % 4
        model = (ff.BoltzmannMachine(M, biases=True), ff.BoltzmannMachine.grid(4, 4, biases=True))[kind % 2]
        theta = random.normal(0, (0.3, 0.8)[kind // 2], model.n_parameters)
        x = model.sample(theta, n, random_state=seed).values
        held = dict(zip(model.parameter_names[1:], theta[1:].tolist(), strict=True))
        found += bool(runaway(ff.fit(model, x, "PL1", fixed=held, check_drift=False)))
    assert found < 2
