"""The variance of mixtures against the theory of each policy, and its derivative in (λ, β) against differences."""

from types import SimpleNamespace

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics.criterion import Criterion, LogDeterminant, LogTrace
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.asymptotics.moments import expected_problem
from fieldfit.asymptotics.sampled_moments import sampled_moments
from fieldfit.data.samples import Table
from fieldfit.models.sum_problem import SumProblem
from fieldfit.policies import Policy

NAMES = ("PL1", "PL2", "FL", "PL1/row", "Partition(2)")


@pytest.fixture(scope="module")
def moments(five):
    model, theta, _ = five
    codes, probability = model.joint_probabilities(theta)
    table = Table(codes, model.names, model.states)
    return MixtureMoments.enumerated(NAMES, model.structure(), lambda z: model.compile(table, z), theta, probability)


def criteria(moments):
    rng = np.random.default_rng(3)
    root = rng.normal(size=(10, 10))
    penalty = np.diag(rng.uniform(0.01, 0.1, 10))

    def criterion(size, **options):
        return Criterion(moments, size, moments.information, **options)

    information = LogTrace(moments.J[2])
    return [
        criterion(LogDeterminant(10)).relative_to(NAMES.index("FL")),
        criterion(information).relative_to(2),
        criterion(LogTrace(root @ root.T)),
        criterion(information, penalty=penalty, prior=1.5 * penalty).relative_to(2),
    ]


@pytest.mark.parametrize("which", range(4))
def test_derivative_agrees_with_differences(moments, which):
    criterion = criteria(moments)[which]
    rng = np.random.default_rng(which)
    for _ in range(4):
        lam, beta = rng.uniform(0.1, 0.9, size=(2, len(NAMES)))
        _, by_lam, by_beta = criterion.value_grad(lam, beta)
        for place in range(len(NAMES)):
            step = 1e-5 * np.eye(len(NAMES))[place]
            slope = (criterion.value(lam + step, beta) - criterion.value(lam - step, beta)) / 2e-5
            assert by_lam[place] == pytest.approx(slope, rel=1e-5, abs=1e-7)
            slope = (criterion.value(lam, beta + step) - criterion.value(lam, beta - step)) / 2e-5
            assert by_beta[place] == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    "terms",
    [
        {"PL1": (1, 1)},
        {"PL1": (0.7, 1), "PL2": (0.3, 0.4)},
        {"PL1/row": (0.2, 1)},
        {"Partition(2)": (1, 1)},
        {"Partition(2)": (1, 0.5), "FL": (0.2, 1), "PL1/row": (0.4, 0.3)},
    ],
)
def test_variance_is_that_of_the_theory(five, moments, terms):
    model, theta, _ = five
    lam, beta = np.zeros((2, len(NAMES)))
    parts = []
    for name, (own_lam, own_beta) in terms.items():
        lam[NAMES.index(name)], beta[NAMES.index(name)] = own_lam, own_beta
        front = "" if name.startswith("Partition") else f"{own_lam}*"
        parts.append(f"{front}{name}@{own_beta}")
    theory = ff.theory(model, theta, " + ".join(parts))
    det, trace, _, _ = criteria(moments)
    assert np.exp(det.value(lam, beta)) == pytest.approx(theory.efficiency("root"), rel=1e-8)
    information = np.linalg.inv(theory.mle_covariance)
    assert np.exp(trace.value(lam, beta)) == pytest.approx(np.trace(information @ theory.covariance) / 10, rel=1e-8)


def test_known_numbers_of_the_five_node_machine(moments):
    det = criteria(moments)[0]

    def root(**terms):
        lam, beta = np.zeros((2, len(NAMES)))
        for name, own in terms.items():
            place = NAMES.index({"P2": "Partition(2)"}.get(name, name))
            lam[place], beta[place] = own, 1.0
        return np.exp(det.value(lam, beta))

    assert root(P2=1) == pytest.approx(1.073, abs=5e-4)
    assert root(PL1=0.7, PL2=0.3) == pytest.approx(1.247, abs=5e-4)
    assert root(PL1=1) == pytest.approx(1.05, abs=2e-3)


def test_scale_of_the_weights_does_not_matter(moments):
    lam, beta = np.random.default_rng(5).uniform(0.2, 0.8, size=(2, len(NAMES)))
    for criterion in criteria(moments):
        assert criterion.value(lam, beta) == pytest.approx(criterion.value(lam, 7 * beta), abs=1e-10)


def test_a_policy_that_determines_nothing_is_infinitely_bad(moments):
    nothing = np.zeros(len(NAMES))
    assert criteria(moments)[0].value(nothing, np.ones(len(NAMES))) == np.inf


def test_moments_of_a_sum_of_families_are_those_of_the_compiled_law():
    model = ff.BoltzmannMachine(7, biases=True)
    theta = np.random.default_rng(0).normal(size=model.n_parameters)
    table = model.read(model.sample(theta, 60, random_state=1).values)
    structure = model.structure(table)

    def term(text, problem):
        law = Policy.parse(text).laws[0]
        return SimpleNamespace(name=text, noise=law.noise, scale=1.0, problem=problem, drawn=lambda seed: problem)

    def compiled(text):
        return expected_problem(Policy.parse(text).bind(structure), table.n, lambda z: model.compile(table, z))

    bound = Policy.parse("Partition(3)").bind(structure)  # in the mean a sum of PL3 and PL1
    single = [compiled(family.name) for family in bound.families]
    weights = [float(np.ravel(lam * beta)[0]) for lam, beta in zip(bound.lams(), bound.betas, strict=True)]
    assert [family.name for family in bound.families] == ["PL3", "PL1"]
    summed = SumProblem(single, weights=weights)
    found = sampled_moments([term("PL3", single[0]), term("PL1", single[1]), term("Partition(3)", summed)], theta)
    wanted = sampled_moments([term("Partition(3)", compiled("Partition(3)"))], theta)
    np.testing.assert_allclose(found.moments.J[2], wanted.moments.J[0], atol=1e-12)
    np.testing.assert_allclose(found.moments.K[2, 2], wanted.moments.K[0, 0], atol=1e-12)
    last, only = np.eye(3)[2], np.ones(1)
    np.testing.assert_allclose(found.scores(last), wanted.scores(only), atol=1e-12)
