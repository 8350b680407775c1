"""The edge of what can be reached: no policy lies below it, and plans buy what lies on it."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics.criterion import Criterion
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.objective import Objective
from fieldfit.planner.candidates import choose
from fieldfit.planner.request import Target
from fieldfit.planner.search import edge_costs, least_at
from fieldfit.types import DataError, FieldfitError


@pytest.fixture(scope="module")
def plan():
    model = ff.BoltzmannMachine(5)
    x = model.sample(np.repeat([-1.0, 1.0], 5), 3000, random_state=1).values
    return model, x, ff.plan(model, x, flops=1e7)


@pytest.mark.slow
def test_no_policy_lies_below_the_edge(plan):
    """Between two costs the edge that is drawn is the lower one: no mixture, whatever its λ and β, is below that."""
    model, x, found = plan
    random = np.random.default_rng(0)
    texts = [f"{lam:.3f}*PL1" for lam in (0.05, 0.11, 0.3, 0.5, 0.62, 0.8, 0.97)]
    texts += [f"{a:.3f}*PL1 + {b:.3f}*FL@{c:.3f}" for a, b, c in random.uniform(0.05, 1, (20, 3))]
    texts += [f"{a:.3f}*PL1 + {b:.3f}*PL2@{c:.3f}" for a, b, c in random.uniform(0.05, 1, (20, 3))]
    others = ff.plan(model, x, flops=1e7, policies=texts).candidates
    edge = found.edge
    costs = [cost for cost, _ in edge]
    assert costs == sorted(costs)
    assert all(later <= before for (_, before), (_, later) in itertools.pairwise(edge))
    for own in others:
        above = [variance for cost, variance in edge if cost >= own.cost]
        least = above[0] if above else edge[-1][1]
        # λ is written with four digits after the point: 0.2% of the smallest here.
        assert own.variance >= least * (1 - 2.5e-3), own.policy
    # It is not far below either: a part of them comes within a tenth of it.
    assert sum(own.variance <= 1.1 * least_at(edge, own.cost) for own in others) >= 3


def moments(count, *shape):
    """Moments of so many independent ingredients with these shapes of J."""
    J = np.broadcast_to(np.eye(*shape) if len(shape) == 2 else np.ones(shape), (count, *shape))
    return MixtureMoments(tuple(map(str, range(count))), J, np.stack([J] * count), J * 0, J * 0)


@pytest.mark.slow
def test_the_effort_of_the_edge_depends_on_the_problem_alone():
    """The more a joint optimum takes, the fewer there are; no clock has a say."""
    assert edge_costs(Criterion.log_determinant(moments(2, 5, 5))) == 33
    counts = [edge_costs(Criterion.log_determinant(moments(9, d, d))) for d in (5, 40, 60, 100)]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (33, 3)
    assert edge_costs(Criterion.log_diagonal(moments(9, 5000))) == 33
    assert edge_costs(Criterion.log_determinant(moments(40, 5, 5))) < 10


@pytest.mark.slow
@pytest.mark.parametrize("flops", [4e6, 1e7, 1e8])
def test_the_pilot_takes_a_small_part_of_a_budget_in_flops(plan, flops):
    model, x, _ = plan
    found = ff.plan(model, x, flops=flops)
    assert found.spent <= 0.3 * flops
    assert found.best_candidate.cost + found.spent <= flops


@pytest.mark.slow
def test_plain_policies_are_in_every_table(plan):
    table = plan[2].plain_table(6)
    shown = {str(row[0]).lstrip("→• ") for row in table.rows}
    assert len(table.rows) == 6
    assert {"PL1", "FL", plan[2].best} <= shown
    count = len(plan[2].table)
    assert f"Shown are 6 of the {count} policies compared; plan.table has all" in table.note
    assert f"--rows {count}" in table.note
    assert "Shown are" not in plan[2].plain_table().note


@pytest.mark.slow
def test_what_costs_hardly_more_counts_as_cheap(plan):
    first = plan[2].candidates[0]
    cheap = replace(first, policy="a", cost=1.0, variance=3.0, affordable=False)
    near = replace(first, policy="b", cost=1.05, variance=1.2, affordable=False)
    far = replace(first, policy="c", cost=2.0, variance=1.0, affordable=False)
    assert choose([cheap, near, far], Target(efficiency=4.0))[0].policy == "b"
    best, why = choose([cheap, near, far], Target(flops=3.0))
    assert (best.policy, "too little of the budget is left" in why) == ("b", True)
    best, why = choose([cheap, near, far], Target(flops=0.5))
    assert (best.policy, "too small for any" in why) == ("b", True)


@pytest.mark.slow
def test_a_plan_without_a_budget_is_plain_json(plan):
    model, x, _ = plan
    document = ff.plan(model, x[:500]).to_dict()
    assert document["budget"] is None
    json.dumps({key: value for key, value in document.items() if key != "policies"}, allow_nan=False)


@pytest.mark.slow
def test_columns_that_fit_refuses_are_refused(plan):
    model, x, _ = plan
    still = x.copy()
    still[:, 2] = 0
    with pytest.raises(DataError, match="never change"):
        ff.plan(model, still, flops=1e7)
    assert ff.plan(model, still, flops=1e7, sigma2=1.0).best


@pytest.mark.parametrize(
    "wrong", [{"flops": "a"}, {"efficiency": "a"}, {"budget": [1]}, {"budget": True}, {"efficiency": 0.5}]
)
def test_what_is_no_budget_is_refused_in_words(plan, wrong):
    model, x, _ = plan
    with pytest.raises(FieldfitError, match=next(iter(wrong))):
        ff.plan(model, x, **wrong)


def test_one_policy_may_be_given_as_text(plan):
    model, x, _ = plan
    assert [own.policy for own in ff.plan(model, x, flops=1e8, policies="PL1").candidates] == ["PL1"]


def test_an_interrupted_pilot_stops_the_plan(plan, monkeypatch):
    model, x, _ = plan
    calls = []

    def interrupted(self, theta):
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(Objective, "value_grad", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ff.plan(model, x, flops=1e7)
    assert len(calls) == 1


@pytest.mark.slow
def test_errors_of_plans_know_of_their_few_directions(plan, monkeypatch):
    """Random directions in place of sums over all states: plans of other seeds scatter as much as they say, roughly."""
    monkeypatch.setattr("fieldfit.planner.moments.MOST_PLANNED_STATES", 1)
    monkeypatch.setattr("fieldfit.planner.pilot.MOST_DENSE_MOMENTS", 5)
    model, x, _ = plan
    found = []
    for seed in range(20):
        own = ff.plan(model, x, policies=["Partition(2)"], random_state=seed)
        assert any("directions" in note for note in own.notes)
        found.append((own.candidates[0].variance, own.candidates[0].error))
    variance, error = np.array(found).T
    # Six directions are few for a standard error, and the tails are long: it is a third too small here.
    assert 0.5 < np.log(variance).std(ddof=1) / error.mean() < 2.2
