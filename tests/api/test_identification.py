"""What a policy does not determine is refused, or has an infinite variance; it never gets a number."""

import warnings

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import IdentifiabilityError, PolicyError

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
