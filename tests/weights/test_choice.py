"""The last word of the exact J: pure policies and equal weights are reported, and taken where they are better."""

import json

import numpy as np
import pytest
from test_criterion import moments_of, random_statistics

import fieldfit as ff
from fieldfit.policies import Policy
from fieldfit.weights.choice import Exact, WeightsRidge, best_beta, judge, rivals
from fieldfit.weights.groups import groups_of
from fieldfit.weights.result import WeightsResult

MODEL = ff.BoltzmannMachine(5)
GROUPS = groups_of(Policy.parse("PL1 + FL").bind(MODEL.structure()), "term")


def judged(exact, beta, ridge, **options):
    """What is taken where ``beta`` is proposed, by the exact form."""
    proposed = WeightsResult(
        beta=beta, names=GROUPS.names, policy=GROUPS.policy(beta), history=(), converged=True, message="", form="exact",
        formula="exact", gamma=ridge.gamma, J=exact.value(beta), theta=np.zeros(MODEL.n_parameters),
    )  # fmt: skip
    return judge(proposed, exact, exact, GROUPS, ridge, **options)


def test_rivals_are_every_family_alone_and_equal_weights():
    found = rivals(GROUPS)
    assert list(found) == ["PL1", "FL", "equal weights"]
    np.testing.assert_array_equal(np.array(list(found.values())), [[1, 0], [0, 1], [0.5, 0.5]])
    single = rivals(groups_of(GROUPS.bound, "component"))
    np.testing.assert_allclose(single["equal weights"], 0.5)
    np.testing.assert_allclose(single["FL"], [0, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 12))])
def test_the_best_of_the_simple_policies_is_taken_where_beta_is_worse(seed):
    """Whatever β is proposed: the judgement is the least of it, the families alone and equal weights."""
    exact = Exact.of(moments_of(*random_statistics(seed, 2, 3)))
    ridge = WeightsRidge(0.0, np.array([0.5, 0.5]), np.ones(2))
    values = {name: exact.value(beta) for name, beta in rivals(GROUPS).items()}
    for beta in np.random.default_rng(seed).dirichlet(np.ones(2), 5):
        own = exact.value(beta)
        kept = judged(exact, beta, ridge, fallback=False)
        np.testing.assert_array_equal(kept.beta, beta)
        assert kept.J_exact == own
        assert (kept.pure, kept.equal) == ({"PL1": values["PL1"], "FL": values["FL"]}, values["equal weights"])
        taken = judged(exact, beta, ridge, fallback=True)
        assert taken.J_exact == min(own, *values.values())
        assert taken.J_exact == exact.value(taken.beta)
        assert taken.fell_back == (min(values.values()) < own)
        assert bool(taken.message) == taken.fell_back
        np.testing.assert_allclose(np.array(taken.policy.betas, dtype=float), taken.beta)
    best = best_beta(exact, ridge)
    assert not judged(exact, best, ridge, fallback=True, best=best).fell_back


def test_equal_weights_are_the_best_of_them_somewhere():
    """Else the test above would not see them taken."""
    ridge = WeightsRidge(0.0, np.array([0.5, 0.5]), np.ones(2))
    notes = [
        judged(
            Exact.of(moments_of(*random_statistics(seed, 2, 3))), np.array([0.9, 0.1]), ridge, fallback=True
        ).message
        for seed in range(12)
    ]
    assert any("equal weights, which were taken" in note for note in notes)
    assert any("a pure policy, which was taken" in note for note in notes)


@pytest.mark.slow
def test_the_diagonal_form_falls_back_to_equal_weights():
    """In these samples it wants nearly all weight on FL, and equal weights are better than that, PL1 and FL."""
    machine = ff.BoltzmannMachine(9)
    theta = np.array([-0.5] * 18 + [0.5] * 18)
    x = machine.sample(theta, 5_000, 1).values
    kept = ff.fit(machine, x, "PL1 + FL", weights=ff.AutoWeights(form="diagonal", fallback=False)).weights
    assert not kept.fell_back
    assert kept.equal < min(kept.J_exact, *kept.pure.values())
    fit = ff.fit(machine, x, "PL1 + FL", weights=ff.AutoWeights(form="diagonal"))
    taken = fit.weights
    assert taken.fell_back
    np.testing.assert_array_equal(taken.beta, [0.5, 0.5])
    assert taken.J_exact == taken.equal < min(taken.pure.values())
    assert "worse than equal weights, which were taken" in taken.message
    assert taken.fitted  # the fall was seen before θ was fitted to the end
    np.testing.assert_allclose(fit.theta, ff.fit(machine, x, "PL1@0.5 + FL@0.5").theta, atol=1e-4)
    assert "equal weights were better" in taken.plot().axes[0].get_title(loc="left")
    exact = ff.fit(machine, x, "PL1 + FL", weights="auto").weights
    assert exact.J_exact < exact.equal


def test_equal_weights_are_in_the_report():
    x = MODEL.sample(np.array([-1.0] * 5 + [1.0] * 5), 3_000, 7).values
    found = ff.fit(MODEL, x, "PL1 + 0.3*FL", weights="auto").weights
    assert found.J_exact <= min(*found.pure.values(), found.equal)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["equal"] == found.equal
    assert plain["work"]["samples"] == 3_000
    line = next(line for line in str(found).splitlines() if "; differences: " in line)
    assert ff.fit(MODEL, x, "PL1 + FL", weights=ff.AutoWeights(most_exact=9)).weights.pure is None
    for name, J in (*((f"{name} alone", J) for name, J in found.pure.items()), ("equal weights", found.equal)):
        assert f"{name} {J - found.J_exact:+.4g}" in line
