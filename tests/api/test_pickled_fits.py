"""Fits are pickled with all that their standard errors need."""

import pickle

import cloudpickle
import numpy as np
import pytest

import fieldfit as ff

RANDOM = np.random.default_rng(0)
BINARY = (RANDOM.random((200, 5)) < 0.4).astype(int)
THREE = RANDOM.integers(0, 3, (300, 3))


@pytest.mark.slow
@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("states", [2, 3])
@pytest.mark.parametrize(
    "policy",
    [
        "PL1",
        "PL2@0.5",
        *("PL1 >> " + stage for stage in ("FL", "optimal", "0.2*FL", "FL~500")),
        "Nodewise >> optimal",
    ],
)
def test_a_pickled_fit_has_the_same_standard_errors_and_test(policy, states, shards):
    model, x = (ff.BoltzmannMachine(5), BINARY) if states == 2 else (ff.Potts(3, 3), THREE)
    fit = ff.fit(model, x, policy, shards=shards)
    new = pickle.loads(pickle.dumps(fit)).standard_errors()
    assert new.tobytes() == fit.standard_errors().tobytes()
    if "optimal" in policy or "*" in policy:
        fit.specification_test()
    for dumps in (pickle.dumps, cloudpickle.dumps):
        loaded = pickle.loads(dumps(fit))
        assert loaded.standard_errors().tobytes() == new.tobytes()
        assert loaded.summary() == fit.summary()
