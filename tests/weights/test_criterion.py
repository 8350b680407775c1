"""J, its derivative, the search on the simplex, and the numbers of the five-node machine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import central_gradient
from properties import examples

import fieldfit as ff
from fieldfit.asymptotics.criterion import Criterion
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.types import IdentifiabilityError, ModelError, PolicyError
from fieldfit.weights.choice import Exact, WeightsRidge, best_beta
from fieldfit.weights.statistics import discs

MODEL = ff.BoltzmannMachine(5)
THETA = np.array([-1.0] * 5 + [1.0] * 5)


def moments_of(bread, meat):
    return MixtureMoments.with_drawn_selection([str(place) for place in range(len(bread))], bread, meat)


def exact_form(bread, meat):
    return Exact.of(moments_of(bread, meat))


def diagonals(bread, meat):
    return Criterion.log_diagonal(moments_of(bread, meat)).over_weights()


def random_statistics(seed, groups, r, singular=False):
    """Blocks of a covariance matrix of stacked scores, and positive definite breads."""
    random = np.random.default_rng(seed)
    mixing = random.normal(size=(groups * r, groups * r + 3))
    meat = (mixing @ mixing.T).reshape(groups, r, groups, r).transpose(0, 2, 1, 3)
    bread = np.stack([(a := random.normal(size=(r, r + 2))) @ a.T for _ in range(groups)])
    scale = 10.0 ** random.uniform(-2, 2, groups)
    if singular:  # the first group alone does not determine the last parameter
        bread[0, -1], bread[0, :, -1] = 0.0, 0.0
        meat[0, :, -1], meat[:, 0, :, -1] = 0.0, 0.0
    return bread * scale[:, None, None], meat * np.multiply.outer(scale, scale)[:, :, None, None]


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 5))
def test_gradients_of_both_forms_and_of_the_ridge(seed, groups, r):
    bread, meat = random_statistics(seed, groups, r)
    scale = np.trace(bread, axis1=1, axis2=2)
    random = np.random.default_rng(seed)
    alpha = random.uniform(0.2, 1.0, groups)
    for form in (
        exact_form(bread, meat),
        diagonals(np.einsum("grr->gr", bread), np.einsum("ghrr->ghr", meat)),
        WeightsRidge(0.7, random.dirichlet(np.ones(groups)), random.uniform(0.5, 1.5, groups)),
    ):
        value, gradient = form.value_grad(alpha / scale)
        assert np.isfinite(value)
        np.testing.assert_allclose(
            gradient / scale,
            central_gradient(lambda a, f=form: f.value_grad(a / scale)[0], alpha),
            rtol=1e-5,
            atol=1e-6,
        )
        assert form.value_grad(3.7 * alpha / scale)[0] == pytest.approx(value, abs=1e-9)  # the scale does not matter


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_exact_form_is_log_det_of_the_sandwich(seed, groups):
    bread, meat = random_statistics(seed, groups, 4)
    beta = np.random.default_rng(seed).uniform(0.2, 1.0, groups)
    inverse = np.linalg.inv(np.einsum("g,gab->ab", beta, bread))
    variance = inverse @ np.einsum("g,h,ghab->ab", beta, beta, meat) @ inverse
    assert exact_form(bread, meat).value(beta) == pytest.approx(np.linalg.slogdet(variance)[1], abs=1e-7)


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.booleans())
def test_the_optimum_is_stationary_and_not_beaten_anywhere(seed, groups, singular):
    bread, meat = random_statistics(seed, groups, 3, singular)
    exact = exact_form(bread, meat)
    beta = best_beta(exact, WeightsRidge(0.0, np.full(groups, 1 / groups), np.ones(groups)))
    assert beta.sum() == pytest.approx(1.0)
    assert beta.min() >= 0
    value, gradient = exact.value_grad(beta)
    random = np.random.default_rng(seed)
    others = [*np.eye(groups), np.full(groups, 1 / groups), *random.dirichlet(np.full(groups, 0.5), 60)]
    scale = 1 / exact.information
    others += [share * scale for share in random.dirichlet(np.ones(groups), 60)]
    assert value <= min(exact.value(other) for other in others) + 1e-7
    if singular:  # the best may then lie in the limit of weight 0 for all but the first group
        assert exact.value(np.eye(groups)[0]) == np.inf
        return
    # Karush-Kuhn-Tucker in the shares: the slope is 0 where β > 0 and not negative where β = 0.
    slope = gradient * scale
    share = beta / scale
    share /= share.sum()
    size = (beta / scale).sum()
    assert np.all(np.abs(slope[share > 1e-6]) * size < 2e-3)
    assert np.all(slope * size > -2e-3)


def test_a_ridge_pulls_towards_the_start():
    bread, meat = random_statistics(3, 2, 3)
    exact = exact_form(bread, meat)
    start = np.array([0.3, 0.7])
    found = [best_beta(exact, WeightsRidge(gamma, start, np.ones(2))) for gamma in (0.0, 1.0, 1e6)]
    distances = [np.abs(beta - start).max() for beta in found]
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 1e-4


def test_families_that_determine_nothing_are_refused():
    zero = np.zeros((2, 3, 3))
    with pytest.raises(IdentifiabilityError, match="No weights of these families determine"):
        best_beta(
            diagonals(np.array([[0.0, 0.0], [0.0, -1.0]]), np.zeros((2, 2, 2))),
            WeightsRidge(0.0, np.array([0.5, 0.5]), np.ones(2)),
        )
    assert exact_form(zero, np.zeros((2, 2, 3, 3))).information.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("policy", "exact", "diagonal", "det_diagonal"),
    [("PL1 + 0.3*FL", 0.10, 0.21, 1.640), ("PL1 + 0.3*PL2", 0.023, 0.059, None), ("PL1 + 0.7*PL2", 0.06, 0.16, None)],
)
def test_known_weights_of_the_five_node_machine(policy, exact, diagonal, det_diagonal):
    best = ff.best_weights(MODEL, THETA, policy)
    digits = 3 if exact < 0.05 else 2
    assert round(best.beta[1], digits) == exact
    assert not best.fell_back
    published = ff.best_weights(MODEL, THETA, policy, formula="published")
    np.testing.assert_allclose(published.beta, [0.0, 1.0], atol=1e-12)
    hadamard = ff.best_weights(MODEL, THETA, policy, form="diagonal", fallback=False)
    assert round(hadamard.beta[1], 3 if diagonal < 0.1 else 2) == diagonal
    assert hadamard.diagonal_loss == pytest.approx(hadamard.J_exact - best.J_exact, abs=1e-8)
    assert hadamard.diagonal_loss > 0.005
    # It is worse than plain PL1, which is therefore taken.
    plain = ff.theory(MODEL, THETA, "PL1").efficiency("det")
    found = ff.theory(MODEL, THETA, hadamard.policy).efficiency("det")
    assert plain == pytest.approx(1.624, abs=6e-4)
    assert found > plain
    if det_diagonal is not None:
        assert found == pytest.approx(det_diagonal, abs=6e-4)
    fallen = ff.best_weights(MODEL, THETA, policy, form="diagonal")
    assert fallen.fell_back
    assert "pure policy" in fallen.message
    np.testing.assert_array_equal(fallen.beta, [1.0, 0.0])


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(
    st.integers(0, 2**31), st.sampled_from(["PL1 + 0.4*FL", "0.5*PL1 + 0.5*PL2 + 0.1*FL", "Partition(2) + 0.3*PL1"])
)
def test_exact_weights_are_never_worse_than_pure_or_equal_ones(seed, policy):
    model = ff.BoltzmannMachine(4, biases=True)
    theta = np.random.default_rng(seed).normal(size=model.n_parameters)
    best = ff.best_weights(model, theta, policy)
    chosen = _log_det(model, theta, best.policy)
    assert chosen == pytest.approx(best.J_exact, abs=1e-7)
    terms = len(best.beta)
    for beta in (*np.eye(terms), np.ones(terms)):
        assert chosen <= _log_det(model, theta, best.policy.with_betas(beta)) + 1e-7


def _log_det(model, theta, policy):
    return np.linalg.slogdet(ff.theory(model, theta, policy).covariance)[1]


def test_gauge_directions_are_left_out():
    """An over-complete Potts model and the Boltzmann machine that it is have the same best weights."""
    potts, minimal = ff.Potts(4, 2), ff.BoltzmannMachine(4, biases=True)
    theta = np.random.default_rng(4).normal(scale=0.6, size=minimal.n_parameters)
    wide = np.zeros(potts.n_parameters)
    for name, value in zip(minimal.parameter_names, theta, strict=True):
        places = [k for k, other in enumerate(potts.parameter_names) if _same_interaction(name, other)]
        assert len(places) == 1, (name, potts.parameter_names)
        wide[places[0]] = value
    first = ff.best_weights(minimal, theta, "PL1 + 0.5*FL")
    second = ff.best_weights(potts, wide, "PL1 + 0.5*FL")
    np.testing.assert_allclose(first.beta, second.beta, atol=1e-5)
    assert not second.gershgorin.bounded  # a singular bread has a disc that reaches 0


def _same_interaction(minimal, potts):
    import re

    variables = re.findall(r"x\d+", minimal)
    return re.findall(r"x\d+", potts) == variables and re.findall(r"=\s*(\d)", potts) == ["1"] * len(variables)


def test_weights_of_single_components():
    model = ff.BoltzmannMachine(3, biases=True)
    theta = np.random.default_rng(1).normal(size=6)
    by_term = ff.best_weights(model, theta, "PL1 + 0.5*FL")
    single = ff.best_weights(model, theta, "PL1 + 0.5*FL", by="component")
    assert single.names == ("PL1[0]", "PL1[1]", "PL1[2]", "FL")
    assert single.J_exact <= by_term.J_exact + 1e-9
    assert np.mean(single.beta[:3]) + single.beta[3] == pytest.approx(1.0)
    np.testing.assert_allclose(_log_det(model, theta, single.policy), single.J_exact, atol=1e-7)
    with pytest.raises(PolicyError, match="one weight β for all its blocks"):
        ff.best_weights(model, theta, "Partition(1) + FL", by="component")
    with pytest.raises(PolicyError, match="at most 64 can have separate weights"):
        ff.best_weights(ff.BoltzmannMachine(13), np.zeros(78), "PL2", by="component")


def test_weights_inside_a_term_stay_in_proportion():
    model = ff.BoltzmannMachine(3)
    best = ff.best_weights(model, [0.5, -0.5, 1.0], "PL1@[1,2,3] + 0.5*FL")
    inside = np.array(best.policy.betas[0])
    np.testing.assert_allclose(inside / inside[0], [1, 2, 3])
    assert inside.mean() + best.policy.betas[1] == pytest.approx(1.0)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**31), st.floats(0.01, 1.0))
def test_discs_bound_the_error_of_the_diagonal_form(seed, size):
    random = np.random.default_rng(seed)
    matrices = []
    for _ in range(2):
        noise = random.normal(size=(5, 5))
        matrix = np.diag(random.uniform(1, 3, 5)) + 0.2 * size * (noise + noise.T)
        matrices.append(matrix)
    bread, meat = matrices
    bound = discs(bread, meat)
    positive = min(np.linalg.eigvalsh(bread)[0], np.linalg.eigvalsh(meat)[0]) > 0
    if bound.bounded:
        assert positive
        error = np.linalg.slogdet(meat)[1] - 2 * np.linalg.slogdet(bread)[1]
        error -= np.log(np.diag(meat)).sum() - 2 * np.log(np.diag(bread)).sum()
        assert bound.lower - 1e-12 <= error <= bound.upper + 1e-12
    else:
        assert max(bound.bread_radius.max(), bound.meat_radius.max()) >= 1
        assert "no bound" in str(bound)


@pytest.mark.parametrize(
    "options",
    [
        {"form": "approximate"},
        {"formula": "right"},
        {"by": "family"},
        {"gamma": -1.0},
        {"tol": 0.0},
        {"max_rounds": 0},
    ],
)
def test_options_are_checked(options):
    with pytest.raises(PolicyError, match="of the automatic weights is"):
        ff.AutoWeights(**options)


def test_best_weights_refuses_what_it_cannot_enumerate():
    with pytest.raises(ModelError, match="weights='auto'"):
        ff.best_weights(ff.BoltzmannMachine(20), np.zeros(190), "PL1 + 0.1*PL2")
    with pytest.raises(PolicyError, match="must be 2 numbers"):
        ff.best_weights(MODEL, THETA, "PL1 + FL", beta0=[1.0])


class Counted:
    """A criterion that counts its evaluations."""

    def __init__(self, criterion):
        self.criterion, self.information, self.evaluations = criterion, criterion.information, 0

    def value(self, beta):
        self.evaluations += 1
        return self.criterion.value(beta)

    def value_grad(self, beta):
        self.evaluations += 1
        return self.criterion.value_grad(beta)


@pytest.mark.parametrize("parameters", [1, 3, 10, 40])
def test_where_scores_of_one_sample_cancel_the_search_ends_before_it_follows_the_rounding(parameters):
    """J is −∞ at β ∝ (1, 0.85), where the only scores on some parameters cancel."""
    rng = np.random.default_rng(0)
    size = parameters + 20
    J = rng.uniform(0.5, 1.0, size=(2, size))
    scores = rng.normal(size=(200, 2, size))
    K = np.einsum("nfd,ngd->fgd", scores, scores) / 200
    single = rng.uniform(0.5, 2.0, size=parameters) * np.array([[1.0], [-1 / 0.85]])
    K[:, :, :parameters] = single[:, None] * single
    moments = MixtureMoments(("a", "b"), J, K, np.zeros((2, size)), np.zeros((2, size)))
    counted = Counted(Criterion.log_diagonal(moments).over_weights())
    beta = best_beta(counted, WeightsRidge(0.0, np.full(2, 0.5), np.ones(2)))  # type: ignore[arg-type]
    np.testing.assert_allclose(beta, np.array([1.0, 0.85]) / 1.85, atol=1e-8)
    assert counted.evaluations < 1_000
