"""Every random_state is checked in the same way, and the largest seed works everywhere."""

# Arguments of wrong types are what these tests are about.
# mypy: disable-error-code="arg-type, list-item"

import numpy as np
import pytest

import fieldfit as ff
from fieldfit import chains, networks
from fieldfit.types import DataError, FieldfitError, ModelError

LARGEST = np.uint64(2**64 - 1)
MODEL = ff.BoltzmannMachine(3, biases=True)
X = np.random.default_rng(0).integers(0, 2, (60, 3))
CHAIN = ff.BoltzmannChain(2, 3)
THETA = np.zeros(CHAIN.n_parameters)
SEQUENCES = CHAIN.sample(THETA, [3, 2, 4])
CRF = ff.ChainCRF(2, 3, pairs="all", transitions="all")
FIT = ff.fit(MODEL, X, "PL1")

#: Functions of a seed.
USES = {
    "BoltzmannChain.sample": lambda v: CHAIN.sample(THETA, [2], random_state=v),
    "BoltzmannChain.simulate": lambda v: CHAIN.simulate(SEQUENCES, THETA, random_state=v),
    "ChainCRF.simulate": lambda v: CRF.simulate(SEQUENCES, np.zeros(CRF.n_parameters), random_state=v),
    "BoltzmannMachine.simulate": lambda v: MODEL.simulate(MODEL.read(X), np.zeros(6), random_state=v),
    "BoltzmannMachine.sample": lambda v: MODEL.sample(np.zeros(6), 2, random_state=v),
    "selected_windows": lambda v: chains.selected_windows(SEQUENCES, "PL1@0.5", random_state=v),
    "Fit.sample": lambda v: FIT.sample(2, random_state=v),
    "goodness_of_fit": lambda v: FIT.goodness_of_fit(n_simulated=2, random_state=v),
    "compare_moments": lambda v: networks.compare_moments(X, FIT, draws=50, random_state=v),
    "cross_validate": lambda v: ff.cross_validate(MODEL, X, "PL1", folds=2, random_state=v),
    "fit": lambda v: ff.fit(MODEL, X, "PL1", random_state=v),
}


@pytest.mark.parametrize("seed", [1.5, -1, float("nan"), "x", None, 2**64, np.matrix(np.eye(3)), [1, 2]], ids=repr)
@pytest.mark.parametrize("name", USES)
def test_what_is_no_seed_is_refused(name, seed):
    with pytest.raises(FieldfitError, match="random_state is"):
        USES[name](seed)


@pytest.mark.parametrize("name", USES)
def test_the_largest_seed_works(name):
    USES[name](LARGEST)


@pytest.mark.parametrize("seed", [1.5, -1, "x", 2**64, np.matrix(np.eye(3))], ids=repr)
def test_estimators_refuse_what_is_no_seed(seed):
    with pytest.raises(FieldfitError, match="random_state is"):
        ff.PairwiseField(random_state=seed).fit(X)


def test_lengths_of_drawn_sequences():
    with pytest.raises(DataError, match=r"lengths, .*, has lists of unequal lengths"):
        CHAIN.sample(THETA, [[1, 2], [3]])
    with pytest.raises(DataError, match=r"Drawing these sequences takes at least .* bytes, and there are"):
        CHAIN.sample(THETA, [2**62, 2**62])
    assert CHAIN.sample(THETA, []).n_sequences == 0


def test_parts_of_theta_are_of_a_checked_theta():
    with pytest.raises(ModelError, match="θ has 1 number"):
        CHAIN.split(float("nan"))
    assert all(np.shares_memory(part, THETA) for part in CHAIN.split(THETA))
