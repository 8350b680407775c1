"""Standard errors by conjugate gradients against matrices, with hundreds of parameters: the stop, the trace, the memory.

The solves of these fits end by the quadratic form, after more than three windows of it: long ones for the tagger, short
ones for the machine, which has an operator near its Hessian. Left to end at the first chance (60 steps of the tagger), or
with a form known to 1e-4 only, they are wrong by 1e-4 to 6e-2; as they are, by about 1e-5.
"""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api import accuracies
from fieldfit.asymptotics import ImplicitAccuracy, ImplicitBread, Solved, implicit
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_gradients import marginal_gradient
from fieldfit.models.problem import Problem
from fieldfit.optim import conjugate_gradients


@pytest.fixture(autouse=True)
def one_thread():
    ff.set_threads(1)


def tagger_fit(policy="FL", **options):
    """A tagger on words with a heavy-tailed law, this one and the one before: 664 weights, frequent to never seen."""
    random, words, labels = np.random.default_rng(0), 80, 4
    lengths = random.integers(5, 15, 300)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    tokens = int(offsets[-1])
    word = np.minimum((3 * random.pareto(0.8, tokens)).astype(int), words - 1)
    before = np.concatenate(([0], word[:-1]))
    indices = np.stack([word, words + before], axis=1).astype(np.int32).reshape(-1)
    unknown = np.zeros(tokens, dtype=np.int32)
    data = Sequences(offsets, 2 * np.arange(tokens + 1), indices, None, unknown, 2 * words, labels)
    model = ChainCRF(labels, 2 * words, pairs="all")
    data = model.simulate(data, random.normal(size=model.n_parameters), 1)
    return ff.fit(model, data, policy, sigma2=300.0, tol=1e-4, **options)


def machine_fit():
    """Forty nodes, a few strong couplings: 820 parameters."""
    random, model = np.random.default_rng(0), ff.BoltzmannMachine(40, biases=True)
    theta = np.where(random.random(model.n_parameters) < 0.15, random.normal(size=model.n_parameters), 0.0)
    return ff.fit(model, model.sample(theta, 400, 1).values, "PL1", sigma2=100.0, tol=1e-4)


FITS = {"tagger": tagger_fit, "machine": machine_fit}


@pytest.fixture(scope="module", params=list(FITS))
def fit(request):
    ff.set_threads(1)
    return FITS[request.param]()


def centre(fit, problem):
    """The mean score of the fitted samples, which a penalty makes nonzero; 0 for simulated ones, whose mean is known."""
    return problem.scores(fit.theta, 0, problem.n_samples).mean(axis=0) if problem is fit.problem else 0.0


def matrices(fit, accuracy):
    """H + P and M of the same problems."""
    penalty = np.diag(1.0 / fit.sigma2)
    weight = fit.objective_function.row_weight
    bread = np.mean([-p.hessian_matrix(fit.theta, weight) for p in accuracy.bread.problems], axis=0) + penalty
    if accuracy.identity is None:
        scores = [p.scores(fit.theta, 0, p.n_samples) - centre(fit, p) for p in accuracy.problems]
        return bread, np.mean([block.T @ block for block in scores], axis=0)
    squared = None if weight is None else weight**2
    return bread, -accuracy.identity * fit.problem.hessian_matrix(fit.theta, squared)


@pytest.fixture
def by_products(monkeypatch):
    """Every fit goes by products; the list tells how its solves ended."""
    ends = []

    def recorded(*arguments, **options):
        solution, state = conjugate_gradients(*arguments, **options)
        ends.append(state)
        return solution, state

    monkeypatch.setattr(accuracies, "MOST_COVARIANCE_PARAMETERS", 0)
    monkeypatch.setattr(accuracies, "conjugate_gradients", recorded)
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["robust", "model"])
def test_standard_errors_are_those_of_the_matrices(fit, kind, by_products):
    fresh = replace(fit)
    names = fit.parameter_names
    places = np.arange(0, len(names), 90)
    accuracy = fresh.accuracy(kind)
    assert isinstance(accuracy, ImplicitAccuracy)
    bread, meat = matrices(fit, accuracy)
    inverse = np.linalg.inv(bread)
    covariance = inverse @ meat @ inverse
    found = fresh.standard_errors(kind, places)
    assert {state.message for state in by_products} == {"converged: the quadratic form is within its tolerance"}
    least, most = (12, 40) if isinstance(fit.model, ff.BoltzmannMachine) else (60, len(names) / 2)
    assert all(least < state.products < most for state in by_products)
    np.testing.assert_allclose(found, np.sqrt(np.diag(covariance)[places]), rtol=1e-4)
    difference = fresh.functional({names[3]: 1, names[-2]: -1}, kind=kind)
    variance = covariance[3, 3] + covariance[-2, -2] - 2 * covariance[3, -2]
    assert difference.standard_error == pytest.approx(np.sqrt(variance), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["robust", "model"])
def test_the_probability_of_a_label_by_the_delta_method(kind, by_products):
    fit = tagger_fit()
    sentence, token, label = 7, 2, 1

    def probability(theta):
        return marginal_gradient(fit.model, theta, fit.dataset, sentence, token, label)

    value, slope = probability(fit.theta)
    found = fit.functional(lambda theta: probability(theta)[0], lambda theta: probability(theta)[1], kind=kind)
    bread, meat = matrices(fit, fit.accuracy(kind))
    u = np.linalg.solve(bread, slope)
    assert 0.01 < value < 0.99
    assert found.estimate == value
    assert found.standard_error == pytest.approx(np.sqrt(u @ meat @ u), rel=1e-4)


@pytest.mark.slow
def test_a_small_variance_is_known_as_well_as_a_large_one(by_products):
    """The robust variance is up to 10⁴ times smaller than aᵀ(H + P)⁻¹a, and only the latter is what a solve watches."""
    fit = tagger_fit()
    robust = replace(fit).accuracy()
    bread, meat = matrices(fit, robust)
    inverse = np.linalg.inv(bread)
    variances, forms = np.diag(inverse @ meat @ inverse), np.diag(inverse)
    seen = np.flatnonzero(variances > 0)
    hard = seen[np.argsort(variances[seen] / forms[seen])[:200:40]]
    assert np.all(forms[hard] > 1e3 * variances[hard])
    found = replace(fit).standard_errors(parameters=hard)
    np.testing.assert_allclose(found, np.sqrt(variances[hard]), rtol=1e-4)


@pytest.mark.slow
def test_a_solution_is_shared_and_sharpened_where_it_must_be(by_products):
    fit = tagger_fit()
    chosen = [int(np.argmax(fit.problem.hessian_diagonal(fit.theta)))]
    fit.standard_errors("model", chosen)
    fit.standard_errors("model", chosen)
    assert len(by_products) == 1
    after = fit.standard_errors("robust", chosen)
    assert len(by_products) == 2  # the robust variance is smaller, and needs a sharper solution
    fit.standard_errors("model", chosen)
    assert len(by_products) == 2
    np.testing.assert_allclose(after, replace(fit).standard_errors("robust", chosen), rtol=1e-4)


# --- the effective number of parameters --------------------------------------------------------------------------------


def exact_probes(fit, accuracy, count):
    """What the probes of `effective_parameters` would be with dense solves."""
    bread, meat = matrices(fit, accuracy)
    inverse = np.linalg.inv(bread)
    random, values = np.random.default_rng(0), []
    for _ in range(count):
        parts = []
        for problem in accuracy.problems:
            if accuracy.identity is None:
                signs = random.choice([-1.0, 1.0], problem.n_samples)
                s = problem.value_grad(fit.theta, signs)[1] - signs.sum() * centre(fit, problem)
                parts.append(s @ inverse @ s)
            else:
                z = random.choice([-1.0, 1.0], len(fit.theta))
                root = z / np.sqrt(fit.sigma2)
                unweighted = fit.objective_function.row_weight is None
                form = accuracy.identity * (len(z) - root @ inverse @ root)
                parts.append(form if unweighted else z @ inverse @ meat @ z)
        values.append(np.mean(parts))
    return np.trace(inverse @ meat), np.mean(values)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["robust", "model"])
def test_the_trace_of_many_parameters(fit, kind, by_products):
    """Each probe to 1e-5, and the trace within five of its Monte Carlo errors (10 probes: fails below 1 in 1,000)."""
    accuracy = replace(fit).accuracy(kind)
    estimate, error = accuracy.effective_parameters()
    trace, probes = exact_probes(fit, accuracy, 10)
    assert estimate == pytest.approx(probes, rel=1e-5)
    assert 0 < error < 0.06 * trace
    assert abs(estimate - trace) < 5 * error


@pytest.mark.slow
def test_the_trace_with_importance_weights_takes_no_form_for_granted(by_products):
    weight = np.random.default_rng(2).uniform(0.2, 3.0, 300)
    fit = tagger_fit(sample_weight=weight)
    accuracy = fit.accuracy("model")
    assert accuracy.identity == 1.0
    estimate, _ = accuracy.effective_parameters(probes=2)
    assert {state.message for state in by_products} == {"converged: residual below tolerance"}
    assert estimate == pytest.approx(exact_probes(fit, accuracy, 2)[1], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [pytest.param(1.0, marks=pytest.mark.slow), 2.0])
@pytest.mark.parametrize("sigma2", [pytest.param(None, marks=pytest.mark.slow), 5.0])
def test_the_trace_by_the_information_identity_of_a_small_model(sigma2, beta, by_products):
    model = ff.BoltzmannMachine(4, biases=True)
    x = model.sample(np.linspace(-1, 1, 10), 300, 1).values
    fit = ff.fit(model, x, f"FL@{beta:g}", sigma2=sigma2, fixed={"x0:x1": 0.0})
    accuracy: Any = fit.accuracy("model")
    estimate, error = accuracy.effective_parameters(probes=400)
    free = fit.free
    hessian = -fit.problem.hessian_matrix(fit.theta)[np.ix_(free, free)]
    penalty = np.diag(1.0 / fit.sigma2[free])
    trace = beta * np.trace(np.linalg.solve(hessian + penalty, hessian))
    assert estimate == pytest.approx(trace, abs=max(5 * error, 1e-5))
    if sigma2 is None:
        assert trace == pytest.approx(9 * beta)


# --- memory ------------------------------------------------------------------------------------------------------------


class Unit:
    """A problem with H = 1."""

    def hessian_product(self, theta, v, row_weight=None):
        return -v

    def hessian_diagonal(self, theta, row_weight=None):
        return np.ones(len(theta))

    def hessian_factor(self, theta, row_weight=None):
        return None

    def preconditioner(self, theta, precision, row_weight=None):
        return None


@pytest.mark.parametrize(("size", "kept"), [(8, 32), (1 << 20, 32), (1 << 21, 16), (1 << 26, 1)])
def test_solutions_are_kept_within_a_budget_of_memory(size, kept, monkeypatch):
    """256 MB, scaled down with the vectors: 2²⁰ doubles stand for themselves."""
    scale = 1 << 18
    monkeypatch.setattr(implicit, "_KEPT_BYTES", implicit._KEPT_BYTES // scale)
    size = max(1, size // scale)
    solves = []

    def solver(product, right, preconditioner, limit):
        solves.append(right)
        return Solved(right.copy(), 0.0)

    ones = np.ones(size)
    bread = ImplicitBread([cast(Problem, Unit())], 0 * ones, 0 * ones, ones > 0, None, solver)
    for value in range(1, 41):
        np.testing.assert_array_equal(bread.solve(value * ones[None])[0], value * ones)
        assert len(bread._kept) == min(value, kept)
    bread.solve((41.0 - kept) * ones[None])
    assert len(solves) == 40
    bread.solve((40.0 - kept) * ones[None])
    assert len(solves) == 41
