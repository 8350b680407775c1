"""Algorithm 1 on data: statistics against exact expectations, convergence, fallback, penalties, weights of samples."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.best_weights import expected_group_moments
from fieldfit.data.samples import Table
from fieldfit.models.problem import Problem
from fieldfit.models.sum_problem import SumProblem
from fieldfit.objective import Objective
from fieldfit.optim.solution import Progress
from fieldfit.policies import Policy
from fieldfit.types import ConvergenceWarning, FieldfitError, ModelError, PolicyError
from fieldfit.weights import automatic_weights
from fieldfit.weights.choice import Exact
from fieldfit.weights.groups import groups_of
from fieldfit.weights.statistics import DataStatistics

MODEL = ff.BoltzmannMachine(5)
THETA = np.array([-1.0] * 5 + [1.0] * 5)
X = MODEL.sample(THETA, 4_000, 7).values


def states_of(model, theta):
    codes = np.indices((2,) * model.m, dtype=np.int32).reshape(model.m, -1).T
    codes = np.ascontiguousarray(codes)
    p = np.exp(model.conditional(theta, model.decode(codes), range(model.m)))
    return Table(codes, model.names, model.states), p


def data_statistics(policy, formula, by="term", copies=2_000):
    """Bread and meat by groups from copies of every state, weighted by its probability, each with its own drawn Z.

    X is exact, so that the only noise is that of Z.
    """
    bound = Policy.parse(policy).bind(MODEL.structure())
    states, p = states_of(MODEL, THETA)
    table = states.subset(np.repeat(np.arange(len(p)), copies))
    weight = np.repeat(p / copies, copies)
    groups = groups_of(bound, by)
    selection = bound.draw(11, 0, table.n)
    chosen = groups.drawn(selection) if formula == "exact" else groups.expected(selection)
    problem = SumProblem([MODEL.compile(table, part) for part in chosen], weights=np.ones(groups.count))
    return groups, DataStatistics(problem, groups.names, np.ones(10, dtype=bool), weight, counts=True)


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["exact", "published"])
@pytest.mark.parametrize(
    ("policy", "by"),
    [
        ("PL1@[1,2,1,1,3] + 0.3*PL2", "term"),
        ("Partition(2) + [0.2,0.9,0.5,0.5,0.5]*PL1", "term"),
        ("Multinomial(0.6*PL1 + 0.4*FL)", "term"),
        ("Unless(0.3*FL, PL1)", "component"),
    ],
)
def test_statistics_of_data_estimate_the_exact_expectations(policy, by, formula):
    """64,000 draws of Z: entries have standard errors of about 1% of their scale, five of which are allowed.

    The published form has no random Z, so there the two agree to rounding.
    """
    published = formula == "published"
    groups, statistics = data_statistics(policy, formula, by, copies=2 if published else 2_000)
    table, p = states_of(MODEL, THETA)
    expected = expected_group_moments(groups, MODEL.structure(), lambda z: MODEL.compile(table, z), THETA, p, formula)
    found = statistics.dense(THETA)
    tolerance = 1e-10 if published else 0.05
    for g in range(groups.count):
        size = np.abs(expected.J[g]).max()
        np.testing.assert_allclose(found.J[g], expected.J[g], atol=tolerance * size)
        for h in range(groups.count):
            size = np.sqrt(np.abs(expected.K[g, g]).max() * np.abs(expected.K[h, h]).max())
            both = (found.K[g, h] + found.K[h, g]) / 2
            np.testing.assert_allclose(both, expected.K[g, h], atol=tolerance * size)
    beta = np.full(groups.count, 0.5)
    assert Exact.of(found).value(beta) == pytest.approx(
        Exact.of(expected).value(beta), abs=1e-8 if published else 0.1
    )


@pytest.mark.slow
def test_published_statistics_lack_the_selection_noise():
    """For independent selection M − M_published = (1 − λ) bread within a family, and nothing between families."""
    _, exact = data_statistics("PL1 + 0.3*PL2", "exact")
    _, published = data_statistics("PL1 + 0.3*PL2", "published", copies=1)
    first, second = exact.dense(THETA), published.dense(THETA)
    noise = first.K - second.K
    assert np.abs(noise[0, 0]).max() < 1e-12
    size = np.abs(first.J[1]).max()
    np.testing.assert_allclose(noise[1, 1], 0.7 * second.J[1], atol=0.05 * size)
    np.testing.assert_allclose(noise[0, 1], 0.0, atol=0.05 * size)


def test_diagonal_statistics_are_the_diagonals_and_add_up_over_shards():
    bound = Policy.parse("0.6*PL1 + 0.4*PL2").bind(MODEL.structure())
    table = Table(MODEL.sample(THETA, 500, 3).codes, MODEL.names, MODEL.states)
    problem = MODEL.compile(table, bound.draw(1, 0, 500))
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 500)
    found = problem.family_statistics(THETA, weight)
    scores = problem.family_scores(THETA, 0, 500)
    np.testing.assert_allclose(found, np.einsum("i,ifr,igr->fgr", weight, scores, scores), rtol=1e-12)
    total = sum(
        MODEL.compile(table.subset(np.arange(a, b)), bound.draw(1, a, b)).family_statistics(THETA, weight[a:b])
        for a, b in ((0, 130), (130, 500))
    )
    np.testing.assert_allclose(total, found, rtol=1e-12)
    groups = groups_of(bound, "term")
    mixed = SumProblem(
        [MODEL.compile(table, part) for part in groups.drawn(bound.draw(1, 0, 500))], weights=np.ones(2)
    )
    free = np.arange(10) != 4
    statistics = DataStatistics(mixed, groups.names, free, weight)
    dense, diagonal = statistics.dense(THETA), statistics.diagonal(THETA)
    np.testing.assert_allclose(diagonal.J, np.einsum("grr->gr", dense.J), rtol=1e-10)
    np.testing.assert_allclose(diagonal.K, np.einsum("ghrr->ghr", dense.K), rtol=1e-10)


@pytest.mark.slow
def test_many_parameters_have_diagonals_from_random_signs(monkeypatch):
    """E over signs is exact; with 2,000 probes the standard error of an entry is 3.2% of its size."""
    _, statistics = data_statistics("PL1 + 0.5*PL2", "exact", copies=5)
    exact = statistics.diagonal(THETA)
    monkeypatch.setattr("fieldfit.weights.statistics.MOST_STREAMED_PARAMETERS", 3)
    monkeypatch.setattr("fieldfit.weights.statistics.OWN_DIAGONAL_FROM", 3)
    many = replace(statistics, probes=2_000)
    found = many.diagonal(THETA)
    size = np.sqrt(np.einsum("ggr->gr", exact.K))
    np.testing.assert_allclose(found.K, exact.K, atol=0.16 * float((size[:, None] * size[None]).max()))
    np.testing.assert_allclose(found.J, exact.J, rtol=1e-9)  # pairwise fields have an exact diagonal
    monkeypatch.setattr(type(statistics.problem.parts[0]), "hessian_diagonal", Problem.hessian_diagonal)
    np.testing.assert_allclose(many.diagonal(THETA).J, exact.J, atol=0.15 * exact.J.max())


def test_reweighted_is_the_compiled_policy():
    bound = Policy.parse("PL1@0.2 + 0.5*PL2@0.8 + Partition(2)@0").bind(MODEL.structure())
    table = Table(MODEL.sample(THETA, 40, 3).codes, MODEL.names, MODEL.states)
    selection = bound.draw(5, 0, 40)
    whole = MODEL.compile(table, selection)
    parts = groups_of(bound, "term").drawn(selection)
    mixed = SumProblem([MODEL.compile(table, part) for part in parts], weights=np.array([0.2, 0.8, 0.0]))
    again = MODEL.compile(table, groups_of(bound, "term").weighted(selection, mixed.betas))
    np.testing.assert_allclose(again.row_values(THETA), whole.row_values(THETA), atol=1e-10)
    v = np.linspace(-1, 1, 10)
    weight = np.linspace(0.5, 2, 40)
    assert mixed.value_grad(THETA, weight)[0] == pytest.approx(whole.value_grad(THETA, weight)[0], abs=1e-10)
    for mine, theirs in (
        (mixed.value_grad(THETA, weight)[1], whole.value_grad(THETA, weight)[1]),
        (mixed.hessian_product(THETA, v, weight), whole.hessian_product(THETA, v, weight)),
        (mixed.row_values(THETA), whole.row_values(THETA)),
        (mixed.row_products(THETA, v), whole.row_products(THETA, v)),
        (mixed.scores(THETA, 3, 20), whole.scores(THETA, 3, 20)),
        (mixed.hessian_diagonal(THETA), whole.hessian_diagonal(THETA)),
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-10)


def test_automatic_weights_are_near_the_expected_ones_and_the_fit_is_theirs():
    """J is flat near its minimum, so it is J and not β that must be near the best."""
    fit = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights="auto")
    found = fit.weights
    assert found.converged
    assert "converged in" in found.message
    assert fit.converged
    assert fit.policy == found.policy
    assert found.form == "exact"
    assert found.beta.sum() == pytest.approx(1.0)
    best = ff.best_weights(MODEL, THETA, "PL1 + 0.3*FL")
    at_chosen = np.linalg.slogdet(ff.theory(MODEL, THETA, found.policy).covariance)[1]
    assert at_chosen - best.J_exact < 0.01  # equal weights lose 0.6
    # The criterion at θ̂ is the log-determinant of the robust covariance that the fit itself reports.
    assert found.J_exact == pytest.approx(np.linalg.slogdet(fit.covariance())[1], abs=1e-4)
    plain = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights=found.beta)
    np.testing.assert_allclose(fit.theta, plain.theta, atol=1e-4)
    json.dumps(found.to_dict())
    assert "automatic weights" in str(found)


@pytest.mark.parametrize(
    "policy", ["PL1 + 0.5*FL", "0.5*PL1 + 0.3*PL2 + 0.2*FL", "Multinomial(0.5*PL1 + 0.5*PL2) + PL1[0:3]"]
)
def test_exact_form_at_the_plug_in_is_never_worse_than_pure_or_equal(policy):
    fit = ff.fit(MODEL, X, policy, weights="auto")
    found = fit.weights
    assert found.converged
    assert not found.fell_back
    assert found.J_exact <= min(found.pure.values()) + 1e-9
    bound = Policy.parse(policy).bind(MODEL.structure())
    groups = groups_of(bound, "term")
    table = Table(MODEL.read(X).codes, MODEL.names, MODEL.states)
    parts = groups.drawn(bound.draw(0, 0, len(X)))
    mixed = SumProblem([MODEL.compile(table, part) for part in parts], weights=np.ones(groups.count))
    exact = Exact.of(DataStatistics(mixed, groups.names, np.ones(10, dtype=bool)).dense(found.theta))
    assert exact.value(found.beta) == pytest.approx(found.J_exact, abs=1e-9)
    for beta in (*np.eye(groups.count), np.ones(groups.count)):
        assert found.J_exact <= exact.value(beta) + 1e-9
    if "PL1[0:3]" in policy:  # alone it leaves the pair of the other two variables open
        assert found.pure["PL1[0:3]"] == np.inf


@pytest.mark.slow
def test_diagonal_form_reports_its_loss_and_falls_back():
    states, p = states_of(MODEL, THETA)
    x = MODEL.decode(np.repeat(states.codes, np.round(12_000 * p).astype(int), axis=0))  # X without noise
    policy = "PL1 + 0.7*PL2"
    fit = ff.fit(MODEL, x, policy, weights=ff.AutoWeights(form="diagonal", fallback=False))
    kept = fit.weights
    assert kept.form == "diagonal"
    assert not kept.fell_back
    assert kept.J_exact > min(kept.pure.values())
    assert kept.diagonal_loss > 0.01
    exact = ff.fit(MODEL, x, policy, weights="auto").weights
    # At nearly the same θ: what the diagonal form loses is what the exact form gains.
    assert kept.J_exact - exact.J_exact == pytest.approx(kept.diagonal_loss, abs=5e-3)
    assert exact.diagonal_loss == pytest.approx(kept.diagonal_loss, abs=5e-3)
    taken = ff.fit(MODEL, x, policy, weights=ff.AutoWeights(form="diagonal"))
    assert taken.weights.fell_back
    np.testing.assert_array_equal(taken.weights.beta, [1.0, 0.0])
    np.testing.assert_allclose(taken.theta, ff.fit(MODEL, x, "PL1").theta, atol=1e-4)
    assert taken.weights.fitted  # the fall was seen before θ was fitted to the end
    assert taken.weights.J_exact == taken.weights.pure["PL1"] == pytest.approx(kept.pure["PL1"], abs=0.01)


def test_published_formula_by_name():
    found = ff.fit(MODEL, X, "PL1 + 0.3*PL2", weights=ff.AutoWeights(formula="published")).weights
    assert found.formula == "published"
    assert found.beta[1] > 0.9


def test_history_and_rounds():
    found = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights=ff.AutoWeights(beta0=[0.2, 0.8])).weights
    frame = found.table()
    assert list(frame["round"]) == list(range(1, len(frame) + 1))
    np.testing.assert_allclose(frame.loc[0, ["β[PL1]", "β[FL]"]].astype(float), [0.2, 0.8])
    assert frame["loss"].iloc[0] > 0.1 > 1e-5 > frame["loss"].iloc[-1] >= 0
    assert frame["theta_converged"].iloc[-1]
    short = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights=ff.AutoWeights(max_rounds=1)).weights
    assert not short.converged
    assert "not converged in 1 rounds" in short.message
    assert len(short.history) == 1


def test_penalised_fits_and_fixed_parameters():
    name = MODEL.parameter_names[3]
    fit = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights="auto", sigma2=0.01, fixed={name: 0.0})
    found = fit.weights
    assert found.converged
    assert fit.theta[3] == 0.0
    assert found.J_exact <= min(found.pure.values()) + 1e-9
    # The penalty changes θ and, through the scale of β, how strong it is; it is not a part of J.
    again = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights=found.beta, sigma2=0.01, fixed={name: 0.0})
    np.testing.assert_allclose(fit.theta, again.theta, atol=1e-4)


def test_counts_are_copies():
    """Without random selection, weights that are counts say the same as the copies themselves."""
    rows, counts = np.unique(X, axis=0, return_counts=True)
    options = ff.AutoWeights(tol=1e-6)
    copies = ff.fit(MODEL, X, "PL1 + FL", weights=options, tol=1e-10).weights
    counted: dict[str, Any] = {"sample_weight": counts, "weight_kind": "counts"}
    once = ff.fit(MODEL, rows, "PL1 + FL", weights=options, tol=1e-10, **counted).weights
    np.testing.assert_allclose(once.beta, copies.beta, atol=1e-4)
    assert pytest.approx(copies.J, abs=1e-5) == once.J


def test_gauge_freedom_of_a_potts_model():
    model = ff.Potts(3, 3)
    theta = np.random.default_rng(0).normal(scale=0.5, size=model.n_parameters)
    x = model.sample(theta, 2_000, 1).values
    found = ff.fit(model, x, "PL1 + 0.3*FL", weights="auto", sigma2=10.0).weights
    assert found.converged
    assert np.isfinite(found.J_exact)
    assert found.J_exact <= min(found.pure.values()) + 1e-9
    assert found.form == "exact"


def test_one_term_has_nothing_to_choose():
    found = ff.fit(MODEL, X, "PL1", weights="auto").weights
    np.testing.assert_array_equal(found.beta, [1.0])
    assert found.converged


def test_too_few_samples_for_the_exact_form():
    few = X[:30]
    with pytest.raises(ModelError, match="needs more samples"):
        ff.fit(MODEL, few, "PL1 + 0.1*FL", weights=ff.AutoWeights(form="exact"), sigma2=1.0)
    found = ff.fit(MODEL, few, "PL1 + 0.1*FL", weights="auto", sigma2=1.0).weights
    assert found.form == "diagonal"
    assert "too few samples" in found.message
    assert found.diagonal_loss is None
    assert found.gershgorin is not None


def test_more_parameters_than_the_exact_form_takes():
    options = ff.AutoWeights(most_exact=9)
    found = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights=options).weights
    assert found.form == "diagonal"
    assert found.J_exact is None
    assert found.pure is None
    with pytest.raises(ModelError, match="at most 9 parameters"):
        ff.fit(MODEL, X, "PL1 + 0.3*FL", weights=ff.AutoWeights(form="exact", most_exact=9))


def test_an_interrupted_round_stops(monkeypatch):
    original = Objective.value_grad
    calls = []

    def interrupted(self, x):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, x)

    bound = Policy.parse("PL1 + 0.3*FL").bind(MODEL.structure())
    table = MODEL.read(X)
    selection = bound.draw(0, 0, len(X))
    objective = Objective(MODEL.compile(table, selection), np.zeros(10), np.zeros(10), np.ones(10, dtype=bool))
    monkeypatch.setattr(Objective, "value_grad", interrupted)
    found = automatic_weights(bound, selection, lambda z: MODEL.compile(table, z), objective, ff.AutoWeights())
    assert not found.converged
    assert found.message.startswith("stopped: interrupted")


def test_an_interrupt_on_a_part_of_the_samples_stops_too(monkeypatch):
    original = Objective.value_grad
    calls = []

    def interrupted(self, x):
        calls.append(self.problem.n_samples)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, x)

    bound = Policy.parse("0.5*PL1 + 0.5*PL2").bind(MODEL.structure())
    table = MODEL.read(np.concatenate([X, X]))
    selection = bound.draw(0, 0, table.n)
    objective = Objective(MODEL.compile(table, selection), np.zeros(10), np.zeros(10), np.ones(10, dtype=bool))
    monkeypatch.setattr(Objective, "value_grad", interrupted)

    def part(rows):
        some = table.subset(rows)
        return bound, lambda z: MODEL.compile(some, z)

    found = automatic_weights(
        bound, selection, lambda z: MODEL.compile(table, z), objective, ff.AutoWeights(), part=part
    )
    assert calls == [found.work.samples] * 3
    assert found.work.samples < table.n
    assert found.history == ()
    assert found.interrupted
    assert len(found.table()) == 0
    with pytest.raises(FieldfitError, match="no rounds"):
        found.plot()


@pytest.mark.parametrize("where", ["θ", "J"])
@pytest.mark.parametrize("when", [1, 2])
def test_an_interrupted_fit_keeps_what_is_known_and_does_not_go_on(monkeypatch, where, when):
    """In the optimiser or in the statistics, in the first round or in the second: β and θ of that moment, not converged."""
    owner, name = (Objective, "value_grad") if where == "θ" else (DataStatistics, "dense")
    original, calls = getattr(owner, name), []
    rounds: list[int] = []

    def interrupted(self, *arguments):
        calls.append(1)
        if where == "J" and len(calls) == when:
            raise KeyboardInterrupt
        if where == "θ" and len(rounds) == when - 1 and len(calls) >= 4:
            rounds.append(1)
            raise KeyboardInterrupt
        return original(self, *arguments)

    def counted(self, *arguments):
        rounds.append(1)
        calls.clear()
        return dense(self, *arguments)

    dense = DataStatistics.dense
    if where == "θ":
        monkeypatch.setattr(DataStatistics, "dense", counted)
    monkeypatch.setattr(owner, name, interrupted)
    fit = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights=ff.AutoWeights(form="exact"), tol=1e-12)
    assert fit.message == "stopped: interrupted"
    assert not fit.converged
    assert fit.weights.interrupted
    assert len(fit.weights.history) == when - 1
    assert str(fit.weights)
    assert np.isfinite(fit.theta).all()
    assert np.abs(fit.theta).max() > 0


def test_the_l1_penalty_has_its_part_in_the_rounds():
    fit = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights="auto", l1=400.0, tol=1e-9)
    assert fit.zeroed.any()
    np.testing.assert_allclose(fit.weights.theta, fit.theta, atol=1e-5)


def test_progress_tells_of_the_rounds_and_iterations_are_counted():
    seen: list[Progress] = []
    fit = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights="auto", progress=seen.append)
    assert len(seen) > 2
    assert fit.iterations == fit.weights.work.iterations > 0
    stopped = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights="auto", progress=lambda state: True)
    assert not stopped.converged


def test_parameters_that_may_not_move_have_not_converged():
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        fit = ff.fit(MODEL, X, "PL1 + 0.3*FL", weights="auto", max_iter=0)
    assert not fit.theta.any()
    assert not fit.converged
    assert not fit.weights.converged
    assert fit.weights.message.startswith(
        "stopped: β no longer changes, but the fits of θ end at their limit of 0 iter"
    )
    assert "converged:" not in fit.summary()


def test_unknown_words_are_refused():
    with pytest.raises(PolicyError, match="weights is 'best'"):
        ff.fit(MODEL, X, "PL1 + FL", weights="best")  # type: ignore[arg-type]


def test_plot_has_a_line_for_each_weight():
    found = ff.fit(MODEL, X, "0.7*PL1 + 0.3*PL2 + 0.1*FL", weights="auto").weights
    figure = found.plot()
    above, below = figure.axes
    assert len(above.lines) == 3
    np.testing.assert_allclose(np.asarray(below.lines[0].get_ydata()), found.table()["loss"])
    for line, name in zip(above.lines, found.names, strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), found.table()[f"β[{name}]"])
