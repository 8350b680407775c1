"""Plans for few samples: moments come from simulated samples, and agree with the theory at the pilot's θ."""

from itertools import count

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics.sampled_moments import Control
from fieldfit.planner.convergence import penalised, steps_of, timed_fit
from fieldfit.policies import Policy


@pytest.fixture(scope="module")
def field():
    """13 variables, 91 parameters, 8,192 states."""
    model = ff.BoltzmannMachine(13, biases=True)
    return model, 0.7 * np.random.default_rng(5).normal(size=model.n_parameters)


@pytest.mark.slow
def test_variances_agree_with_theory(field):
    """The squared error of a bread from a few hundred samples would add several percent."""
    model, theta = field
    x = model.sample(theta, 400, random_state=1).values
    plan = ff.plan(model, x, policies=["PL1", "PL3", "FL"])
    assert "simulated" in plan.method
    table = plan.table.set_index("policy")
    for policy in ("PL1", "PL3"):
        theory, found = ff.theory(model, plan.theta, policy), table.loc[policy]
        exact = np.trace(np.linalg.solve(theory.mle_covariance, theory.covariance)) / model.n_parameters
        assert abs(found["variance"] / exact - 1) < 4 * found["error"] + 0.002


@pytest.mark.slow
def test_expensive_hessians_are_controlled_by_cheap_ones(field):
    """Breads from 100 of 4,000 samples, with PL1's as control variate, against sums over all states."""
    model, theta = field
    samples = model.read(model.sample(theta, 4_000, random_state=2).values)
    states, probability = model.weighted_samples(theta)

    def problem(policy, rows):
        return model.compile(rows, Policy.parse(policy).bind(model.structure(rows)).draw(0, 0, rows.n))

    plain, triples, full = (problem(policy, samples) for policy in ("PL1", "PL3", "FL"))
    few = np.where(np.arange(samples.n) < 100, 1.0, 0.0)
    breads = Control(plain, 100, full).breads([plain, triples, full], theta, None)
    np.testing.assert_allclose(breads[0].mean(axis=0), -plain.hessian_matrix(theta) / samples.n, rtol=1e-10)
    np.testing.assert_allclose(breads[2][0], -full.hessian_matrix(theta) / samples.n, rtol=1e-10)
    np.testing.assert_array_equal(breads[2][0], breads[2][1])
    exact = -problem("PL3", states).hessian_matrix(theta, probability)
    # 4,000 samples would have 0.16 times the error of 100.
    alone = -triples.hessian_matrix(theta, few) / 100
    away = np.linalg.norm(breads[1].mean(axis=0) - exact)
    assert away < 0.35 * np.linalg.norm(alone - exact)
    # The difference between the halves is of the size of the error.
    apart = np.linalg.norm(breads[1][0] - breads[1][1]) / 2
    assert 0.5 * away < apart < 2 * away


def test_a_pilot_that_has_adapted_to_its_samples_simulates_others(five):
    """With ten samples for each parameter PL1's own scores look smaller than they are, and PL1 better than FL."""
    model, _, x = five
    rows = x[:100].astype(float)
    rows[:11, 0] = np.nan  # no sums over states
    plan = ff.plan(model, rows, policies=["PL1", "FL"])
    assert "simulated" in plan.method
    found = plan.table.set_index("policy").loc["PL1"]
    theory = ff.theory(model, plan.theta, "PL1")
    exact = np.trace(np.linalg.solve(theory.mle_covariance, theory.covariance)) / model.n_parameters
    assert abs(found["variance"] / exact - 1) < 4 * found["error"] + 0.01


@pytest.mark.slow
def test_few_missing_values_leave_the_comparison_as_it_is(five):
    model, _, x = five
    rows = x[:1000].astype(float)
    complete = ff.plan(model, rows, flops=1e8)
    rows[3, 0] = np.nan
    few = ff.plan(model, rows, flops=1e8)
    assert few.method == complete.method
    assert "Variances and costs are those of complete samples; the others make FL and blocks slower." in few.notes
    assert not any("complete samples" in note for note in complete.notes)
    # A fit cannot have these second stages, so they are not compared.
    assert any(">> optimal" in policy for policy in complete.table["policy"])
    assert not any(">> optimal" in policy for policy in few.table["policy"])
    variances = [plan.table.set_index("policy")["variance"] for plan in (few, complete)]
    shared = [name for name in ("PL1", "PL2", "FL") if name in variances[0]]
    assert len(shared) > 1
    np.testing.assert_allclose(variances[0][shared], variances[1][shared], rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("functionals", [None, ["x0:x1"]])
def test_nothing_is_predicted_to_be_better_than_maximum_likelihood_under_the_model(five, functionals):
    """Importance weights that are independent of simulated values cost every estimator the same."""
    model, _, x = five
    model = model.with_names([f"x{k}" for k in range(5)])
    weight = np.random.default_rng(1).exponential(size=120)
    plan = ff.plan(model, x[:120], sample_weight=weight, functionals=functionals)
    assert plan.table["variance"].min() == 1.0
    assert plan.floor == 1.0


def test_the_table_states_large_errors(five):
    model, _, x = five
    plan = ff.plan(model, x[:1000], policies=["PL1", "FL"], sample_weight=np.linspace(0.1, 1.9, 1000))
    assert plan.plain_table().columns == ("policy", "time", "FLOPs", "variance", "±", "why")
    assert [row[4] is None for row in plan.plain_table().rows] == [
        str(row[0]).endswith("FL") for row in plan.plain_table().rows
    ]
    assert "differences of less than two of them are noise" in plan.plain_table().note
    assert "±" not in ff.plan(model, x[:1000], policies=["PL1", "FL"]).plain_table().columns


def test_newton_fits_are_counted_by_their_matrices(field, monkeypatch):
    """With the time of anything as the unit: an evaluation, a matrix in each iteration, and the start."""
    model, theta = field
    table = model.read(model.sample(theta, 300, random_state=4).values)
    problem = model.compile(table, Policy.parse("FL").bind(model.structure(table)).draw(0, 0, table.n))
    objective = penalised(problem)
    assert objective.by_matrix
    monkeypatch.setattr("fieldfit.planner.convergence.least_seconds", lambda *_: 1.0)
    solution, steps = timed_fit(objective)
    assert solution.hessian_products > solution.iterations
    assert steps.equivalents == pytest.approx(solution.evaluations + solution.iterations + 1)
    # A fit that is stopped early is counted on the expansion of its objective.
    assert steps_of(objective).tried
    readings = count()
    monkeypatch.setattr("fieldfit.planner.convergence.clock", lambda: 0.01 * next(readings))
    assert not steps_of(objective, deadline=0.04).tried
