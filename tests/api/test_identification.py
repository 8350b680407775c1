"""What a policy does not determine is refused, or has an infinite variance; it never gets a number."""

import re

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import FieldfitWarning, IdentifiabilityError, ModelError, PolicyError

MODEL = ff.BoltzmannMachine(4)
THETA = np.array([-1.0, 1.0, 0.5, -0.5, 1.0, -1.0])
X = MODEL.sample(THETA, 400, 0).values


@pytest.mark.parametrize("policy", ["PL1@0", "PL1@[0,0,0,0]", "0*PL1 + FL@0", "Partition(2)@0", "Multinomial(PL1@0)"])
def test_a_policy_in_which_nothing_counts_is_refused(policy):
    with pytest.raises(PolicyError, match="at least one β must be positive"):
        ff.Policy.parse(policy)


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(PolicyError, match="at least one β must be positive"):
        ff.fit(MODEL, X, "PL1 + FL", weights=[0, 0])


@pytest.mark.parametrize(
    "policy", ["PL1[0:1]", "PL1[0:1] + FL@0", "PL1@[1,0,0,0]", "[1,0,0,0]*PL1", "PL1[0:1] + Components({1,2}|{})@0"]
)
def test_components_without_weight_determine_nothing(policy):
    with pytest.raises(IdentifiabilityError, match="does not determine 3 of 6 parameters: x1:x2, x1:x3, x2:x3"):
        ff.fit(MODEL, X, policy)


def test_a_term_of_weight_zero_is_harmless_where_the_others_determine_everything():
    with_zero = ff.fit(MODEL, X, "PL1 + FL", weights=[1, 0])
    np.testing.assert_allclose(with_zero.theta, ff.fit(MODEL, X, "PL1").theta, atol=1e-8)


def test_automatic_weights_ask_what_any_weights_could_determine():
    assert ff.fit(MODEL, X, "PL1[0:1] + FL@0", weights="auto").converged
    by_component = ff.fit(MODEL, X, "PL1@[1,0,0,0]", weights=ff.AutoWeights(by="component"))
    assert (by_component.weights.beta > 0).all()
    # A term's weights stay in proportion, so a zero in its list stays.
    with pytest.raises(IdentifiabilityError, match="x1:x2, x1:x3, x2:x3"):
        ff.fit(MODEL, X, "PL1@[1,0,0,0] + PL1[0:1]", weights="auto")


def test_best_weights_refuses_what_fit_refuses():
    with pytest.raises(IdentifiabilityError, match="does not determine 1 of 6 parameters: x2:x3"):
        ff.best_weights(MODEL, THETA, "PL1[0:1] + PL1[1:2]")
    assert ff.best_weights(MODEL, THETA, "PL1@0.1 + FL@0").beta[1] == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["enumeration", "simulation"])
def test_theory_gives_what_a_policy_leaves_open_an_infinite_variance(method):
    theory = ff.theory(MODEL, THETA, "PL1[0:1]", method=method, n_simulated=2_000)
    assert theory.undetermined == ("x1:x2", "x1:x3", "x2:x3")
    assert [theory.efficiency(kind) for kind in ("det", "root", "trace")] == [np.inf] * 3
    assert np.isinf(theory.standard_errors(100)[3:]).all()
    assert "does not determine 3 of 6 parameters" in str(theory)
    # What it does determine is logistic regression of x0 on the others.
    codes, p = MODEL.joint_probabilities(THETA)
    if method == "enumeration":
        rest = codes[:, 1:].astype(float)
        q = 1 / (1 + np.exp(-rest @ THETA[:3]))
        information = (rest * (p * q * (1 - q))[:, None]).T @ rest
        np.testing.assert_allclose(theory.covariance[:3, :3], np.linalg.inv(information), rtol=1e-9)


def test_gauge_freedom_of_the_model_is_not_the_policys_fault():
    potts = ff.Potts(4, 2)
    theta = np.random.default_rng(0).normal(size=potts.n_parameters)
    assert ff.theory(potts, theta, "PL1").undetermined == ()
    half = ff.theory(potts, theta, "PL1[0:2]")
    assert half.efficiency() == np.inf
    determined = [name for name in potts.parameter_names if name not in half.undetermined]
    assert determined == [f"x0={a}:x1={b}" for a in (0, 1) for b in (0, 1)] + [
        f"x{v}={s}" for v in (0, 1) for s in (0, 1)
    ]


@pytest.mark.parametrize("size", [5.0, 10.0, 20.0])
@pytest.mark.parametrize("policy", ["PL1", "PL2", "FL"])
def test_theory_far_out_has_the_right_efficiency(size, policy):
    """Pure strong couplings: against bread and meat of every component from the table of probabilities, in long doubles."""
    theory = ff.theory(MODEL, size * THETA, policy)
    expected = efficiency_by_enumeration(size * THETA, int(policy[2]) if policy != "FL" else 4)
    assert theory.efficiency("det") == pytest.approx(expected, rel=1e-5)
    assert theory.efficiency("det") > 1 - 1e-6


def efficiency_by_enumeration(theta, k):
    """det of the sandwich of PLk over that of maximum likelihood, in rational arithmetic from exact exponentials."""
    import itertools
    from fractions import Fraction

    states = list(itertools.product((0, 1), repeat=4))
    features = [[x[a] * x[b] for a, b in itertools.combinations(range(4), 2)] for x in states]
    weights = [Fraction(float(np.exp(np.dot(f, theta)))) for f in features]
    total = sum(weights, Fraction(0))
    p = [w / total for w in weights]
    r = 6

    def moments(k):
        bread = [[Fraction(0)] * r for _ in range(r)]
        scores = [[Fraction(0)] * r for _ in states]
        for target in itertools.combinations(range(4), k):
            groups: dict[tuple[int, ...], list[int]] = {}
            for place, x in enumerate(states):
                groups.setdefault(tuple(x[v] for v in range(4) if v not in target), []).append(place)
            for members in groups.values():
                mass = sum((p[i] for i in members), Fraction(0))
                mean = [sum((p[i] * features[i][a] for i in members), Fraction(0)) / mass for a in range(r)]
                for i in members:
                    gap = [features[i][a] - mean[a] for a in range(r)]
                    for a in range(r):
                        scores[i][a] += gap[a]
                        for b in range(r):
                            bread[a][b] += p[i] * gap[a] * gap[b]
        meat = [[sum(p[i] * scores[i][a] * scores[i][b] for i in range(16)) for b in range(r)] for a in range(r)]
        return bread, meat

    def determinant(matrix):
        rows, value = [list(row) for row in matrix], Fraction(1)
        for c in range(r):  # positive definite: no pivoting
            value *= rows[c][c]
            for d in range(c + 1, r):
                factor = rows[d][c] / rows[c][c]
                rows[d] = [x - factor * y for x, y in zip(rows[d], rows[c], strict=True)]
        return value

    bread, meat = moments(k)
    information, _ = moments(4)
    return float(determinant(meat) * determinant(information) / determinant(bread) ** 2)


@pytest.mark.parametrize("size", [40.0, 300.0])
def test_theory_says_where_rounding_has_lost_the_answer(size):
    with pytest.warns(FieldfitWarning, match="parameters have no variance"):
        theory = ff.theory(MODEL, size * THETA, "PL1")
    lost = np.isnan(theory.standard_errors(1))
    assert lost.any()
    assert theory.hidden == tuple(np.array(MODEL.parameter_names)[lost])
    assert theory.to_dict()["hidden"] == list(theory.hidden)
    with pytest.raises(ModelError, match="θ is so extreme that"):
        theory.efficiency()
    for estimator in ("PL1 >> optimal", "PL1 >> FL", "PL1 >> 0.5*FL", "Nodewise >> optimal"):
        with pytest.raises(
            ModelError, match=rf"The variance of '{re.escape(estimator)}' cannot be computed at this θ"
        ):
            ff.theory(MODEL, size * THETA, estimator)


@pytest.mark.parametrize("certain", [40.0, 1000.0])
@pytest.mark.parametrize("policy", ["FL", "PL1", "PL1 + PL2", "0.5*PL1"])
def test_what_a_certain_state_leaves_has_the_variance_of_the_rest(policy, certain):
    """Where x0 is always 1, the other two are a machine of their own, with its coupling to them in their biases."""
    with pytest.warns(FieldfitWarning, match="5 of 6 parameters .* x0:x1, x0:x2, x0, x1, x2. Use a θ closer to 0"):
        theory = ff.theory(ff.BoltzmannMachine(3, biases=True), [0.3, 0.4, 0.5, certain, 0.1, 0.2], policy)
    rest = ff.theory(ff.BoltzmannMachine(2, biases=True), [0.5, 0.1 + 0.3, 0.2 + 0.4], policy)
    assert np.isnan(theory.covariance).sum() == 35
    assert theory.covariance[2, 2] == pytest.approx(rest.covariance[0, 0], rel=1e-6)


def test_forbidden_states_leave_their_own_parameters_free_and_need_not_be_allowed_at_zero():
    offset = [[-np.inf, 0.0], [0.0, 0.0]]
    theory = ff.theory(ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), log_offset=offset)]), np.zeros(4), "FL")
    assert theory.efficiency() == pytest.approx(1.0)
    assert theory.covariance[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert theory.undetermined == ()
