"""Which tables a model builds when it is compiled."""

import numpy as np
import pytest

import fieldfit as ff

MODELS = {
    "boltzmann": lambda: ff.BoltzmannMachine(12, biases=True),
    "potts": lambda: ff.Potts(12, 4),
    "tied": lambda: ff.TiedField.grid(2, 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_single_variables_do_not_need_the_tables_of_the_whole_field(name):
    """For large models these tables take more memory and time than a fit."""
    model = MODELS[name]()
    x = np.random.default_rng(0).integers(0, 2, (2000, model.m))
    ff.fit(model, x, "PL1", sigma2=1.0)
    assert "field_arrays" not in vars(model)
    assert model.field_arrays.features.shape[1] == model.n_parameters
    assert "field_arrays" in vars(model)  # it would have been there
