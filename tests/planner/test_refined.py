"""Refined estimators in plans: their variance is that of theory and of fits, and their cost is counted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.inference import programs
from fieldfit.planner import moments as gathering
from fieldfit.planner.candidates import Candidate, Origin, choose
from fieldfit.planner.convergence import penalised, steps_of, usual_steps
from fieldfit.planner.planning import counted_steps
from fieldfit.planner.request import Target
from fieldfit.planner.survey import Survey
from fieldfit.refinement import planned_conditions
from fieldfit.refinement.expansion import ExpandedObjective
from fieldfit.types import FieldfitError

REFINED = ["PL1 >> optimal(1)", "PL1 >> optimal(2)", "PL1 >> 0.3*FL"]


@pytest.fixture(scope="module")
def grid():
    model = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    theta = np.random.default_rng(0).choice([-0.8, 0.8], 12)
    return model, theta, model.sample(theta, 2000, random_state=1).values


def by_policy(plan, column="variance"):
    return plan.table.set_index("policy")[column]


@pytest.mark.slow
def test_sums_over_states_give_the_variances_of_theory(grid, monkeypatch):
    model, _, x = grid
    plan = ff.plan(model, x, policies=["PL1", "FL", *REFINED, "0.3*PL1/row >> FL"])
    assert plan.method.startswith("sums over all 512 states")
    monkeypatch.setattr(planned_conditions, "RIDGES", (0.0,))
    variance, without = by_policy(plan), by_policy(ff.plan(model, x, policies=["PL1", "FL", *REFINED]))
    for text in REFINED:
        # A fit has a small ridge, which theory has not.
        theory = ff.theory(model, plan.theta, text).efficiency()
        assert without[text] == pytest.approx(theory, rel=1e-7)
        assert theory <= variance[text] < 1.01 * theory
    assert variance["0.3*PL1/row >> FL"] == pytest.approx(1.0, abs=1e-12)
    assert variance["PL1"] > 1.1 > 1.02 > variance["PL1 >> optimal(2)"]
    assert plan.candidates[-1].samples == len(x)


@pytest.mark.slow
def test_means_over_samples_agree_within_their_error(grid, monkeypatch):
    model, _, x = grid
    exact = by_policy(ff.plan(model, x, policies=["PL1", "FL", *REFINED]))
    monkeypatch.setattr(gathering, "MOST_PLANNED_STATES", 0)
    plan = ff.plan(model, x, policies=["PL1", "FL", *REFINED])
    variance, error = by_policy(plan), by_policy(plan, "error")
    for text in REFINED:
        # The trace and the determinant differ a little where the excess differs between directions.
        assert abs(variance[text] / exact[text] - 1) < 4 * error[text] + 0.02


def test_a_second_stage_at_the_optimum_of_fl_has_its_variance_whatever_that_of_the_first(grid, monkeypatch):
    model, _, x = grid
    monkeypatch.setattr(gathering, "MOST_PLANNED_STATES", 0)
    # As if the pilot's samples showed PL1 to be far more accurate than FL, which they do for some data with missing values.
    monkeypatch.setattr(Survey, "_first_stage", lambda survey, term: -1.0)
    plan = ff.plan(model, x, policies=["PL1", "FL", "PL1 >> FL", "PL1 >> optimal(1)"])
    variance = by_policy(plan)
    assert variance["PL1 >> FL"] == pytest.approx(variance["FL"], rel=1e-12)
    assert "PL1 >> FL: skipped" not in plan.explain()
    # Of these a fit keeps the first estimate.
    assert variance["PL1 >> optimal(1)"] == np.inf
    assert "PL1 >> optimal(1): skipped, its variance cannot be predicted" in plan.explain()


@pytest.mark.slow
def test_plans_compare_refined_estimators_without_being_asked(grid):
    model, _, x = grid
    plan = ff.plan(model, x, flops=2e8)
    assert {"PL1 >> optimal(1)", "PL1 >> optimal(2)", "PL1 >> FL"} <= set(plan.table["policy"])
    assert plan.best == "PL1 >> optimal(2)", plan.explain()
    assert "moment conditions of 'PL1'" in plan.explain()
    assert plan.spent + plan.best_candidate.cost <= 2e8
    # Accurate for a small part of what maximum likelihood takes.
    cost = by_policy(plan, "flops")
    assert cost["PL1"] < cost[plan.best] < 0.2 * cost["FL"]
    assert min(variance for _, variance in plan.edge) <= plan.best_candidate.variance


@pytest.mark.slow
def test_costs_have_both_stages(grid):
    model, _, x = grid
    plan = ff.plan(model, x, policies=["PL1", "FL", "PL1 >> FL", *REFINED])
    seconds, flops = by_policy(plan, "seconds"), by_policy(plan, "flops")
    for text in REFINED:
        assert seconds[text] > seconds["PL1"]
        assert flops[text] > flops["PL1"]
    # The first stage of PL1 >> FL is only a start, so that both stages may take less time than PL1 to the end.
    assert flops["PL1 >> FL"] > flops["PL1"]
    # FLOPs have the same number of evaluations for every policy; a second stage is charged with its share of FL's fit,
    # whose steps are counted on an expansion of the objective.
    share = (flops["PL1 >> FL"] - flops["PL1"]) / flops["FL"]
    whole, second = (ff.fit(model, x, text).convergence for text in ("FL", "PL1 >> FL"))
    taken = (second.evaluations + second.hessian_products) / (whole.evaluations + whole.hessian_products)
    assert taken / 2 < share < 2 * taken


def test_an_expanded_objective_has_the_covariance_of_its_scores():
    random = np.random.default_rng(3)
    root = random.normal(size=(4, 4))
    objective = ExpandedObjective(root @ root.T + np.eye(4), np.diag([1.0, 2.0, 3.0, 4.0]), 50, None)
    draws = np.stack([objective.signed_score(np.zeros(4), random) for _ in range(4000)])
    np.testing.assert_allclose(np.cov(draws.T), 50 * np.diag([1.0, 2.0, 3.0, 4.0]), atol=16)
    x = random.normal(size=4)
    np.testing.assert_allclose(objective.value_grad(x)[1], objective.hessian_product(x, x))


def test_where_the_samples_contradict_the_model_refined_variances_are_robust():
    model = ff.BoltzmannMachine(4)
    ones = np.indices((2, 2, 2, 2)).sum(axis=0)
    p = (np.array([0.013, 0.012, 0.405, 0.114, 0.456]) / [1, 4, 6, 4, 1])[ones]
    states = np.indices((2, 2, 2, 2)).reshape(4, -1).T
    x = states[np.random.default_rng(1).choice(16, 6000, p=p.ravel() / p.sum())]
    plan = ff.plan(model, x, policies=["PL1", "FL", "PL1 >> optimal(1)", "PL1 >> FL"])
    assert "do not follow the model" in plan.explain()
    variance = by_policy(plan)
    assert variance["PL1 >> FL"] == pytest.approx(1.0, abs=1e-9)
    assert np.isfinite(variance["PL1 >> optimal(1)"])


@pytest.mark.parametrize("text", ["Nodewise >> optimal", "PL1 >> FL~1000"])
def test_second_stages_that_are_not_planned_are_refused(grid, text):
    model, _, x = grid
    with pytest.raises(FieldfitError, match="cannot be planned"):
        ff.plan(model, x, policies=["PL1", text])


def test_samples_with_missing_values_have_no_optimal_stage(grid):
    model, _, x = grid
    holes = x.astype(float)
    holes[::50, 0] = np.nan
    with pytest.raises(FieldfitError, match="complete samples"):
        ff.plan(model, holes[:200], policies=["PL1 >> optimal(1)"])


def test_the_sampler_and_the_full_likelihood_share_one_compiled_sum(monkeypatch):
    compiled = []

    def counted(*arguments):
        compiled.append(arguments[0])
        return original(*arguments)

    original: Any = vars(programs)["compile_template"]
    monkeypatch.setattr(programs, "compile_template", counted)
    model = ff.BoltzmannMachine(10, biases=True)
    draws = model.sample(np.zeros(model.n_parameters), 50, random_state=0)
    compiled.clear()
    ff.fit(model, draws.values, "FL", sigma2=1.0)
    assert (2,) * 10 not in compiled


def test_statistical_tolerance_is_the_yardstick_of_costs_where_it_is_asked_for(grid):
    model, _, x = grid
    plan = ff.plan(model, x, policies=["PL1", "FL"], tol="statistical")
    fit, direct = plan.fit("FL"), ff.fit(model, x, "FL", tol="statistical")
    np.testing.assert_array_equal(fit.theta, direct.theta)
    dataset = model.read(x)
    problem = model.compile(dataset, ff.Policy.parse("FL").bind(model.structure()).draw(0, 0, len(x)))
    steps = steps_of(penalised(problem), tol="statistical")
    taken = fit.convergence.evaluations + fit.convergence.hessian_products
    assert steps.converged
    assert taken / 2 < steps.count < 2 * taken


@pytest.mark.slow
def test_a_plan_fits_what_it_recommends(grid):
    model, _, x = grid
    plan = ff.plan(model, x, policies=["PL1", "PL1 >> optimal(2)"], sigma2=4.0)
    fit = plan.fit()
    assert str(fit.estimator) == plan.best == "PL1 >> optimal(2)"
    np.testing.assert_allclose(fit.theta, ff.fit(model, x, plan.best, sigma2=4.0).theta)
    assert str(plan.fit("PL1").estimator) == "PL1"


def test_of_equally_accurate_policies_a_second_stage_must_be_clearly_cheaper():
    plain = Candidate("FL", 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, True, Origin.ASKED)
    for cost, best in ((0.95, "FL"), (0.5, "PL1 >> FL")):
        staged = replace(plain, policy="PL1 >> FL", cost=cost, second_stage="Newton steps.")
        assert choose([plain, staged], Target(seconds=10.0))[0].policy == best


def test_hessians_of_short_blocks_are_cheap(grid):
    model, _, x = grid
    dataset = model.read(x[:50])
    for text, cheap in (("PL1", True), ("FL", True)):
        problem = model.compile(dataset, ff.Policy.parse(text).bind(model.structure()).draw(0, 0, 50))
        assert (problem.hessian_evaluations < 2 * model.n_parameters) == cheap


def test_steps_of_a_fit_that_was_not_tried_are_counted_on_an_expansion(grid):
    model, _, x = grid
    plan = ff.plan(model, x, policies=["PL1", "FL"])
    survey = plan.survey
    place = [part.name for part in survey.ingredients].index("FL")
    part, raw = survey.ingredients[place], survey.moments.raw
    assert counted_steps(part, place, raw, survey.request, survey.pilot) is part
    untried = replace(part, steps=usual_steps(model.n_parameters))
    counted = counted_steps(untried, place, raw, survey.request, survey.pilot).steps
    taken = part.steps
    assert taken.count / 2.5 < counted.count < 2.5 * taken.count


@pytest.mark.slow
def test_a_larger_distance_without_further_conditions_is_not_mentioned():
    model = ff.BoltzmannMachine(5)
    x = model.sample(np.full(10, 0.3), 300, random_state=0).values
    plan = ff.plan(model, x, budget="20s")
    assert "optimal(1)" in plan.table["policy"].str.cat()
    assert "optimal(2)" not in plan.explain() + plan.table["policy"].str.cat()


@pytest.mark.slow
def test_rare_statistics_leave_the_variance_of_optimal_weights_near_theory():
    model = ff.BoltzmannMachine(15, biases=True)
    random = np.random.default_rng(0)
    theta = np.array([random.normal() if ":" in name else -2.0 for name in model.parameter_names])
    x = model.sample(theta, 600, random_state=1).values
    plan = ff.plan(model, x, policies=["PL1 >> optimal(1)", "FL"])
    refined = next(own for own in plan.candidates if ">>" in own.policy)
    theory = ff.theory(model, plan.theta, "PL1 >> optimal(1)")
    exact = np.trace(np.linalg.solve(theory.mle_covariance, theory.covariance)) / len(plan.theta)
    # The weights of the plan come from 4,000 draws; without the information of FL the bread from these is singular.
    assert refined.variance == pytest.approx(exact, abs=0.01)


@pytest.mark.slow
def test_rare_states_give_no_absurd_prediction():
    """Some pixels are nearly always 0: their statistics occur in one half of the draws only."""
    model = ff.BoltzmannMachine.grid(5, 5, neighbours=8, biases=True)
    theta = np.r_[np.full(len(model.edges), 0.6), np.where(np.arange(25) % 5 == 0, -9.0, -1.5)]
    x = model.sample(theta, 600, 3).values
    plan = ff.plan(model, x, sigma2=5.0)
    variance = by_policy(plan)
    assert "PL1 >> FL" in variance
    for policy, value in variance.items():
        if "optimal" in policy:
            assert 0.95 < value < 1.05 * variance["PL1"]
    for term in plan.survey.refined:
        if hasattr(term.stage, "weights"):
            assert 0.95 <= term.stage.weights.predicted <= term.stage.weights.first


@pytest.mark.slow
def test_a_plan_says_what_it_did_not_compare(monkeypatch):
    from fieldfit.refinement.planned import SkippedError
    from fieldfit.refinement.stages.optimal import Optimal

    model = ff.BoltzmannMachine(6, biases=True)
    x = model.sample(np.random.default_rng(0).normal(0, 0.1, model.n_parameters), 3000, 1).values

    def plan(self, first, setting):
        raise SkippedError("PL1 >> optimal(1): skipped, no time left.", for_time=True)

    whole = ff.plan(model, x, flops=1e9).within(flops=4e6)
    assert whole.best == "PL1"
    assert "best choice here" in whole.explain()
    monkeypatch.setattr(Optimal, "plan", plan)
    part = ff.plan(model, x, flops=1e9).within(flops=4e6)
    assert part.best == "PL1"
    assert "best choice of those compared" in part.explain()
    assert "Not compared: PL1 >> optimal(1)." in part.explain()
    assert "PL1 >> optimal(1): skipped, no time left." in part.explain()
