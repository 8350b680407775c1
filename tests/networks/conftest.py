"""Samples of a known network."""

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff

#: Couplings of a chain of five variables whose second coupling is negative.
CHAIN = np.diag([1.6, -1.6, 1.6, 1.6], 1)
CHAIN = CHAIN + CHAIN.T


def draw_chain(n, seed, couplings=CHAIN):
    """A DataFrame of n samples of a network of five variables a to e."""
    model = ff.BoltzmannMachine(5, biases=True)
    theta = np.concatenate([couplings[np.triu_indices(5, 1)], np.full(5, -0.5)])
    return pd.DataFrame(model.sample(theta, n, random_state=seed).values.astype(int), columns=list("abcde"))


@pytest.fixture(scope="session")
def frame():
    return draw_chain(800, 0)


@pytest.fixture(scope="session")
def draw():
    """The function `draw_chain`."""
    return draw_chain


@pytest.fixture(scope="session")
def chain():
    """The couplings of the chain."""
    return CHAIN
