"""The first stage judged alone, before any matrix over all conditions is made."""

from __future__ import annotations

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.field import FieldModel
from fieldfit.policies import Policy
from fieldfit.refinement.first_efficiency import judge_first
from fieldfit.refinement.stacking import stack


@pytest.mark.parametrize("size", [0.1, 0.8])
def test_near_the_exact_one(size: float) -> None:
    model = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    theta = size * np.where(np.arange(12) % 3, 1.0, -1.0)
    theory = ff.asymptotics(model, theta, "PL1")
    assert theory.mle_covariance is not None
    exact = float(np.sum(np.linalg.inv(theory.mle_covariance) * theory.covariance)) / 12
    own = stack(model, Policy.parse("PL1").bind(model.structure()), 1)
    # Twelve variances from 4,000 draws: the ratio is known to about 2%.
    assert abs(judge_first(model, theta, own, None, np.ones(12, dtype=bool), 0).relative / exact - 1) < 0.08


def test_a_dense_machine_with_weak_couplings_has_nothing_to_refine() -> None:
    model = ff.BoltzmannMachine(18, biases=True)
    theta = np.random.default_rng(0).normal(size=model.n_parameters) * 0.1
    x = model.sample(theta, 3000, 0).values
    first = ff.fit(model, x, "PL1")
    refined = ff.refine(first)
    assert not refined.refined
    assert refined.refinement is not None
    assert "nothing to refine" in refined.refinement.lines()[1]
    np.testing.assert_array_equal(refined.theta, first.theta)
    np.testing.assert_allclose(refined.standard_errors(), first.standard_errors())
    assert "the estimate is the first stage's" in refined.summary()


def test_what_optimal_weights_remove_is_measured_with_few_samples() -> None:
    """A chain's own scores remove all of PL1's excess, those of a dense machine little."""
    chain = ff.BoltzmannMachine(8, [(k, k + 1) for k in range(7)], states=(-1, 1))
    theta = np.where(np.arange(7) % 2, 1.0, -1.0)
    own = stack(chain, Policy.parse("PL1").bind(chain.structure()), 1)
    free = np.ones(7, dtype=bool)
    judged = judge_first(chain, theta, own, None, free, 0, measured_from=1.0)
    # Exactly 1.257; strong couplings are known to about 5% from 4,000 draws.
    assert abs(judged.relative - 1.257) < 0.25
    assert judged.removable is not None
    assert judged.removable > 0.95
    # From many samples of the data in place of draws.
    table = chain.read(chain.sample(theta, 16_000, 3).values)
    again = judge_first(chain, theta, own, table, free, 0)
    assert again.source == "4,000 of the samples"
    assert again.removable is None
    assert abs(again.relative - 1.257) < 0.25


def test_statistics_of_a_machine_are_those_of_its_tables() -> None:
    random = np.random.default_rng(1)
    tied = ff.BoltzmannMachine.grid(3, 3, tied=True, biases=True, states=(-1, 2))
    for model in (ff.BoltzmannMachine(5, biases=True), tied):
        codes = random.integers(0, 2, (20, model.m)).astype(np.int32)
        np.testing.assert_allclose(model.statistics(codes), FieldModel.statistics(model, codes))
