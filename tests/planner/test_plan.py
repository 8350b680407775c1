"""Plans: the recommendation is not beaten by a grid of policies, budgets are kept, and what is asked for is answered."""

import html
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.models.cost import sample_flops
from fieldfit.planner import moments as gathering
from fieldfit.planner import pilot as piloting
from fieldfit.planner.candidates import ENOUGH
from fieldfit.planner.pictures import plan_page
from fieldfit.policies import Policy
from fieldfit.threads import use_threads
from fieldfit.types import DataError, FieldfitError, ModelError


def grid():
    """Pure, partition, subsampled and mixed policies over a grid of λ and β."""
    shares = (0.1, 0.3, 0.6, 1.0)
    yield from ("Partition(2)", "Partition(3)", "Partition(4)")
    for family, share in itertools.product(("PL1", "PL2", "PL3", "FL"), shares):
        yield f"{share}*{family}"
        yield f"{share}*{family}/row"
    for (low, high), one, two, beta in itertools.product(
        (("PL1", "PL2"), ("PL1", "FL"), ("PL2", "FL")), (0.5, 1.0), (0.1, 0.5), (0.02, 0.1, 0.5)
    ):
        yield f"{one}*{low} + {two}*{high}@{beta}"
    for beta in (0.1, 0.5):
        yield f"Partition(2) + 0.1*FL@{beta}"
        yield f"PL1 + Partition(2)@{beta}"


@pytest.fixture(scope="module")
def judged(five):
    """Exact variance of every policy of the grid at the pilot's θ, and its FLOPs for a sample."""
    model, _, x = five
    plan = ff.plan(model, x, flops=1e9)
    rows = []
    for text in grid():
        flops = sample_flops(model, Policy.parse(text).bind(model.structure()))
        rows.append((text, flops, ff.theory(model, plan.theta, text).efficiency("root")))
    return plan, rows


@pytest.mark.slow
@pytest.mark.parametrize("budget", [2.5e6, 5e6, 9e6, 1.3e7, 2e7, 4e7])
def test_no_policy_of_a_grid_beats_the_recommendation_in_counted_operations(five, judged, budget):
    model, _, x = five
    _, rows = judged
    plan = ff.plan(model, x, flops=budget)
    best = plan.best_candidate
    # The recommendation means what it says: its own theory and cost, from its text.
    each = plan.evaluations * plan.n
    exact = ff.theory(model, plan.theta, plan.best).efficiency("root")
    if best.second_stage:
        # A fit has a small ridge, which theory has not.
        assert exact * (1 - 1e-7) <= best.variance < 1.01 * exact
    else:
        bound = Policy.parse(plan.best).bind(model.structure())
        assert best.flops == pytest.approx(each * sample_flops(model, bound), rel=1e-9)
        assert best.variance == pytest.approx(exact, rel=1e-7)
    left = budget - plan.spent
    if best.affordable:
        assert best.flops <= left
        rivals = [variance for _, flops, variance in rows if each * flops <= left]
        assert exact <= min(rivals) * (1 + ENOUGH) * (1 + 1e-9)
    else:
        assert all(each * flops > left for _, flops, variance in rows if variance < 10)


@pytest.mark.slow
def test_more_money_never_buys_less(five):
    model, _, x = five
    found = [ff.plan(model, x, flops=budget).best_candidate.variance for budget in (5e6, 9e6, 1.3e7, 4e7)]
    assert all(more <= less * (1 + ENOUGH) for less, more in itertools.pairwise(found))


@pytest.mark.slow
def test_another_budget_from_the_same_pilot_is_all_for_the_fit(five):
    model, _, x = five
    plan = ff.plan(model, x, flops=1e12)
    assert plan.best in ("FL", "PL1 >> FL")  # as accurate; which is faster depends on the machine
    plain = next(own for own in plan.candidates if own.policy == "PL1")
    other = plan.within(flops=1.01 * plain.flops)
    assert other.spent == 0.0
    assert other.best == "PL1"
    assert other.best_candidate.variance == pytest.approx(plain.variance)
    half = plan.within(flops=0.5 * plain.flops).best_candidate
    assert half.affordable
    assert half.flops <= 0.5 * plain.flops
    assert half.variance > plain.variance
    assert plan.within(efficiency=1.06).best_candidate.variance <= 1.06


@pytest.mark.slow
def test_plain_policies_are_called_by_their_names(five):
    model, _, x = five
    # Without second stages: which of FL and `PL1 >> FL` is faster depends on the machine.
    rich = ff.plan(model, x, budget="60s", policies=["PL1", "PL2", "FL"])
    assert rich.best == "FL"
    assert "Plain maximum likelihood is the best choice" in rich.explain()
    assert rich.next_better is None
    plain = ff.plan(model, x, flops=1.0e7, policies=["PL1", "PL2", "FL"])
    assert plain.best == "PL1"
    assert "Plain pseudo-likelihood is the best choice" in plain.explain()
    assert plain.next_better is not None
    assert plain.next_better.cost > plain.best_candidate.cost
    assert plain.next_better.policy in plain.explain()


@pytest.mark.slow
def test_efficiency_buys_the_cheapest_that_is_accurate_enough(five):
    model, _, x = five
    plan = ff.plan(model, x, efficiency=1.06)
    assert plan.best_candidate.variance <= 1.06
    cheaper = [own for own in plan.candidates if 1.1 * own.cost < plan.best_candidate.cost]
    assert all(own.variance > 1.06 for own in cheaper)


def test_subsampled_data_pay_in_variance(five):
    model, _, x = five
    table: Any = ff.plan(model, x, policies=["PL1", "0.2*PL1/row", "0.5*PL1"]).table.set_index("policy")
    assert table.loc["0.2*PL1/row", "variance"] == pytest.approx(5 * table.loc["PL1", "variance"], rel=1e-9)
    assert table.loc["0.2*PL1/row", "flops"] == pytest.approx(0.2 * table.loc["PL1", "flops"])
    # Components drawn one by one carry less noise than whole samples.
    assert table.loc["0.5*PL1", "variance"] < 2 * table.loc["PL1", "variance"]


@pytest.mark.slow
def test_frontier_is_what_nothing_beats(five):
    model, _, x = five
    plan = ff.plan(model, x, flops=2e7)
    for own in plan.candidates:
        # Second stages that end at the same optimum have the same variance: only the cheapest is on the frontier.
        beaten = any(
            (o.cost <= own.cost and o.variance < own.variance * (1 - 1e-9))
            or (o.cost < own.cost and o.variance <= own.variance * (1 + 1e-12))
            for o in plan.candidates
            if o is not own
        )
        assert own.on_frontier != beaten


@pytest.mark.slow
def test_the_same_seed_gives_the_same_plan(five):
    model, _, x = five
    one, two = (ff.plan(model, x, flops=9e6, random_state=4) for _ in range(2))
    # Reading the data is timed, and so is a part of the seconds.
    assert one.table.drop(columns="seconds").equals(two.table.drop(columns="seconds"))


def test_named_functionals_are_what_counts(five):
    model, _, x = five
    name = model.with_names([f"x{k}" for k in range(5)]).parameter_names[3]
    plan = ff.plan(model, x, policies=["PL1", "PL2", "FL"], functionals=[name])
    variance = dict(zip(plan.table["policy"], plan.table["variance"], strict=True))
    for text in ("PL1", "PL2"):
        theory = ff.theory(model, plan.theta, text)
        ratio = theory.covariance[3, 3] / theory.mle_covariance[3, 3]
        assert variance[text] == pytest.approx(ratio, rel=1e-6)


@pytest.mark.slow
def test_many_parameters_by_conjugate_gradients_agree_with_the_dense_form(monkeypatch):
    model = ff.BoltzmannMachine(9, biases=True)
    theta = np.random.default_rng(0).normal(size=model.n_parameters) * 0.7
    x = model.sample(theta, 1500, random_state=2).values
    policies = ["PL1", "PL2", "FL", "Partition(2)", "0.5*PL1 + 0.3*PL2@0.2"]
    names = [model.parameter_names[3], model.parameter_names[40]]
    monkeypatch.setattr(gathering, "MOST_PLANNED_STATES", 0)
    dense = [ff.plan(model, x, policies=policies, functionals=own).table for own in (None, names)]
    monkeypatch.setattr(piloting, "MOST_DENSE_MOMENTS", 10)
    implicit = [ff.plan(model, x, policies=policies, functionals=own).table for own in (None, names)]
    for one, two, tolerance in zip(dense, implicit, (0.05, 0.005), strict=True):
        left, right = (own.set_index("policy")["variance"] for own in (one, two))
        for policy in left.index:
            assert right[policy] == pytest.approx(left[policy], rel=tolerance)


@pytest.mark.slow
def test_simulated_samples_never_make_anything_better_than_maximum_likelihood(monkeypatch):
    model = ff.BoltzmannMachine(9, biases=True)
    theta = np.random.default_rng(0).normal(size=model.n_parameters) * 0.7
    x = model.sample(theta, 150, random_state=2).values  # fewer than five for each parameter
    policies = ["PL1", "PL2", "0.2*PL1/row", "Partition(2)", "FL"]
    exact = ff.plan(model, x, policies=policies, sigma2=1.0)
    monkeypatch.setattr(gathering, "MOST_PLANNED_STATES", 0)
    plan = ff.plan(model, x, policies=policies, sigma2=1.0)
    assert "simulated" in plan.method
    table: Any = plan.table.set_index("policy")
    penalty = np.eye(model.n_parameters) / len(x)  # 1/σ² for each sample
    information = np.linalg.inv(ff.theory(model, exact.theta, "FL").mle_covariance)

    def squared_error(text):
        theory = ff.theory(model, exact.theta, text)
        inverse = np.linalg.inv(theory.bread + penalty)
        return np.trace(information @ inverse @ (theory.meat + penalty) @ inverse)

    for text in policies:
        expected = squared_error(text) / squared_error("FL")
        assert table.loc[text, "variance"] >= 1 - 1e-9
        assert abs(table.loc[text, "variance"] / expected - 1) < 4 * table.loc[text, "error"] + 0.02
    # A fifth of the data has five times the variance, but not five times the squared error of a penalised fit.
    assert table.loc["0.2*PL1/row", "variance"] < 4.5 * table.loc["PL1", "variance"]


@pytest.mark.slow
def test_sampled_variances_state_their_error(monkeypatch, five):
    model, _, x = five
    policies = ["PL1", "PL2", "FL", "Partition(2)"]
    exact = ff.plan(model, x, policies=policies)
    monkeypatch.setattr(gathering, "MOST_PLANNED_STATES", 0)
    sampled = ff.plan(model, x, policies=policies).table.set_index("policy")
    for text in policies:
        theory = ff.theory(model, exact.theta, text)
        trace = np.trace(np.linalg.inv(theory.mle_covariance) @ theory.covariance) / 10
        error = max(float(sampled.loc[text, "error"]), 1e-12)  # type: ignore[arg-type]
        assert abs(sampled.loc[text, "variance"] / trace - 1) < 4 * error + 0.01
        assert error < 0.05


@pytest.mark.slow
def test_chains_are_planned_too():
    from fieldfit.data.sequences import Sequences
    from fieldfit.models.chain_crf import ChainCRF

    rng = np.random.default_rng(0)
    offsets = np.arange(0, 121 * 5, 5)
    tokens = int(offsets[-1])
    indptr, indices = np.arange(tokens + 1), rng.integers(0, 4, tokens).astype(np.int32)
    labels = ((indices + rng.integers(0, 2, tokens)) % 3).astype(np.int32)
    data = Sequences(offsets, indptr, indices, None, labels, 4, 3)
    with use_threads(1):  # two would wait for each other on a busy machine, and the budget is real
        plan = ff.plan(ChainCRF(3, 4).observe(data), data, budget="100s")
    assert {"PL1", "PL2", "FL"} <= set(plan.table["policy"])
    assert plan.reference == "FL"
    variance = dict(zip(plan.table["policy"], plan.table["variance"], strict=True))
    assert variance["PL1"] > 0.97
    assert variance["0.2*PL1/sentence"] == pytest.approx(5 * variance["PL1"], rel=1e-6)


@pytest.mark.slow
def test_a_field_too_wide_for_maximum_likelihood_is_compared_with_pseudo_likelihood():
    model = ff.BoltzmannMachine(26)
    x = np.random.default_rng(0).integers(0, 2, (400, 26))
    plan = ff.plan(model, x, budget="2s", sigma2=10)
    assert plan.reference == "PL1"
    assert "FL: skipped" in plan.explain()
    with pytest.raises(FieldfitError, match="too wide"):
        ff.plan(model, x, efficiency=1.1)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"budget": "10s", "flops": 1e6}, FieldfitError, "one of budget"),
        ({"budget": "soon"}, FieldfitError, "10s"),
        ({"budget": -1}, FieldfitError, "positive"),
        ({"flops": math.nan}, FieldfitError, "positive"),
        ({"efficiency": 0.9}, FieldfitError, "it must be at least 1"),
        ({"policies": []}, FieldfitError, "empty"),
        ({"policies": ["PL9"]}, FieldfitError, "cannot be compared"),
        ({"functionals": ["nobody"]}, ModelError, "nobody"),
    ],
)
def test_refusals(five, options, error, text):
    model, _, x = five
    with pytest.raises(error, match=text):
        ff.plan(model, x, **options)


def test_too_few_samples_are_refused(five):
    with pytest.raises(DataError, match="at least 10"):
        ff.plan(five[0], five[2][:5], budget="1s")


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("500ms", 0.5), ("2 min", 120), ("1h", 3600), (3, 3)])
def test_budgets_as_text(text, seconds):
    from fieldfit.planner.request import parse_seconds

    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.slow
def test_pictures_and_page(five, tmp_path):
    model, _, x = five
    plan = ff.plan(model, x, flops=9e6)
    axes = plan.plot().axes[0]
    assert "FLOPs" in axes.get_xlabel()
    assert any(plan.best in text.get_text() for text in axes.texts)
    plan.to_html(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert html.escape(plan.best) in page
    assert "<script src=" not in page
    assert "default-src 'none'" in page
    assert "://" not in page


@pytest.mark.slow
def test_the_page_of_a_plan_names_its_penalty_seed_and_command():
    model = ff.BoltzmannMachine(3)
    x = model.sample([1.0, -1.0, 0.5], 200, random_state=0).values
    plan = ff.plan(model, x, flops=1e7, sigma2=2.0, random_state=3)
    assert "ff.plan(model, data, flops=1e+07, sigma2=2, random_state=3)" in plan_page(plan).text()
    page = plan_page(ff.plan(model, x, flops=1e7, sigma2={"x0:x1": 2.0}), "fieldfit plan").text()
    assert "flops=1e+07, sigma2=sigma2)" in page
    assert "<code>fieldfit plan</code>" in page


def test_a_plan_is_pickled_with_its_survey_and_its_samples():
    model = ff.BoltzmannMachine(3)
    x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    plan = ff.plan(model, x, flops=1e7, sigma2=1.0, policies=["PL1", "PL1 >> optimal", "PL1 >> FL", "FL"])
    loaded = pickle.loads(pickle.dumps(plan))
    assert str(loaded) == str(plan)
    assert loaded.within(efficiency=1.1).best == plan.within(efficiency=1.1).best
    np.testing.assert_array_equal(loaded.fit().theta, plan.fit().theta)
