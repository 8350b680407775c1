"""The tables behind the sliders of a plan's page agree with the plan."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.planner import directions
from fieldfit.planner.pictures import mixture_tables


@pytest.mark.slow
def test_families_alone_have_the_variances_of_the_plan(monkeypatch):
    monkeypatch.setattr(directions, "_MANY_DIRECTIONS", 4)  # a criterion of random directions, as for many parameters
    monkeypatch.setattr(directions, "_SEARCHED", 3)
    model = ff.BoltzmannMachine(13, biases=True)
    theta = 0.3 * np.random.default_rng(5).normal(size=model.n_parameters)
    x = model.sample(theta, 400, random_state=0).values
    plan = ff.plan(model, x, policies=["PL1", "PL2", "FL"])
    search, variance = plan.survey.search, plan.table.set_index("policy")["variance"]
    assert search.quick is not search.criterion
    tables = {table.family: table for table in mixture_tables(plan)}
    for line in tables["PL2"].variances:
        assert line[0] == pytest.approx(variance["PL1"], rel=1e-9)
    assert tables["PL2"].variances[-1][-1] == pytest.approx(variance["PL2"], rel=1e-9)
    # With λ = 0 every β but 1 is the first family alone.
    assert tables["PL2"].variances[0][:-1] == pytest.approx([variance["PL1"]] * 10, rel=1e-9)
    assert set(tables["PL2"].policies[0][:-1]) == {"PL1"}
