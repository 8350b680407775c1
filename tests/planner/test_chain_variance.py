"""What plans say about the accuracy of chains, against fits to simulated labels."""

import warnings

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.boltzmann_chain import BoltzmannChain
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.planner import pilot as piloting
from fieldfit.policies import Policy
from fieldfit.threads import use_threads

POLICIES = ["PL1", "PL2", "FL", "PL1 + 0.3*FL@0.3", "0.5*PL1/sentence"]


@pytest.fixture(autouse=True)
def one_thread():
    """Fits of milliseconds: a second thread would cost more than it brings."""
    with use_threads(1):
        yield


def sentences(n, labels, features, each, seed=1):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(4, 12, n))))
    tokens = int(offsets[-1])
    indices = rng.integers(0, features, tokens * each).astype(np.int32)
    codes = rng.integers(0, labels, tokens).astype(np.int32)
    return Sequences(offsets, np.arange(0, tokens * each + 1, each), indices, None, codes, features, labels)


def information(model, data, theta):
    problem = model.compile(data, Policy.parse("FL").bind(model.structure(data)).draw(0, 0, len(data)))
    return -problem.hessian_matrix(theta)


def measured(model, data, theta, replications, sigma2):
    """Errors (policies, replications) of fits in the metric of FL's information."""
    J = information(model, model.simulate(data, theta, 5), theta)
    errors = np.empty((len(POLICIES), replications))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for replication in range(replications):
            drawn = model.simulate(data, theta, 100 + replication)
            for place, policy in enumerate(POLICIES):
                fit = ff.fit(model, drawn, policy, sigma2=sigma2, tol=1e-4, random_state=replication)
                away = fit.theta - theta
                errors[place, replication] = away @ J @ away
    return errors


def agrees(plan, errors, tolerance):
    """Each ratio of mean errors to FL's lies within 4 standard errors and ``tolerance`` of what the plan says."""
    variance = dict(zip(plan.table["policy"], plan.table["variance"], strict=True))
    error = dict(zip(plan.table["policy"], plan.table["error"], strict=True))
    full = errors[POLICIES.index("FL")]
    for place, policy in enumerate(POLICIES):
        ratio = errors[place].mean() / full.mean()
        spread = (errors[place] - ratio * full).std(ddof=1) / np.sqrt(len(full)) / full.mean()
        allowed = 4 * np.hypot(spread, variance[policy] * error[policy]) + tolerance * ratio
        assert abs(ratio - variance[policy]) < allowed, (policy, ratio, spread, variance[policy])
    return variance


@pytest.fixture(scope="module")
def crf():
    """Model, sentences, θ with strong transitions, and the errors of fits."""
    data = sentences(400, 4, 5, 1)
    model = ChainCRF(4, 5, pairs="all")
    theta = np.random.default_rng(3).normal(size=model.n_parameters)
    theta[20:36] *= 1.5
    with use_threads(1):
        return model, data, theta, measured(model, data, theta, 30, 1e4)


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
def test_crf_errors_are_those_of_the_plan(monkeypatch, crf, dense):
    model, data, theta, errors = crf
    if not dense:
        monkeypatch.setattr(piloting, "MOST_DENSE_MOMENTS", 10)
    plan = ff.plan(model, model.simulate(data, theta, 7), policies=POLICIES, sigma2=1e4)
    assert agrees(plan, errors, 0.03)["PL1"] > 1.1


@pytest.mark.slow
def test_boltzmann_chain_errors_are_those_of_the_plan():
    data = sentences(800, 4, 6, 1)
    model = BoltzmannChain(4, 6)
    theta = np.random.default_rng(3).normal(size=model.n_parameters) * 0.8
    plan = ff.plan(model, model.simulate(data, theta, 7), policies=POLICIES, sigma2=1e4)
    assert agrees(plan, measured(model, data, theta, 40, 1e4), 0.03)["PL1"] > 1.05


@pytest.mark.slow
def test_a_penalty_is_in_the_comparison():
    """θ from the prior N(0, σ²) and few sentences: squared errors of penalised fits, where PL1 loses less than without."""
    sigma2 = 0.3
    data = sentences(60, 4, 12, 2)
    model = ChainCRF(4, 12, pairs="all")
    errors, plans = [], []
    for seed in range(7):
        theta = np.random.default_rng(seed).normal(size=model.n_parameters) * np.sqrt(sigma2)
        plans.append(ff.plan(model, model.simulate(data, theta, 7), policies=POLICIES, sigma2=sigma2))
        errors.append(measured(model, data, theta, 4, sigma2))
    measured_errors = np.concatenate(errors, axis=1)
    said = np.mean([plan.table.set_index("policy")["variance"][POLICIES] for plan in plans], axis=0)
    ratio = measured_errors.mean(axis=1) / measured_errors[POLICIES.index("FL")].mean()
    np.testing.assert_allclose(said, ratio, rtol=0.12)
    part = POLICIES.index("0.5*PL1/sentence")
    assert said[part] < 1.9 * said[0]  # half of the data has less than twice the error: the prior is there too
    assert "squared error" in plans[0].explain()
