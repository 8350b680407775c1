"""Draws from a field that cannot be had, and arguments of the samplers that are wrong, have sentences of fieldfit."""

from __future__ import annotations

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import ModelError

NEVER = -np.inf
MODEL = ff.BoltzmannMachine(4, biases=True)


@pytest.mark.parametrize("method", ["auto", "exact", "gibbs"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"burn_in": -1}, "burn_in is -1; it must be an integer from 0"),
        ({"burn_in": 0.5}, r"burn_in is 0\.5; it must be an integer from 0"),
        ({"burn_in": True}, "burn_in is True"),
        ({"thin": 0}, "thin is 0; it must be an integer from 1"),
        ({"thin": 2**70}, "thin is 1180591620717411303424; it must be an integer from 1 to 2,147,483,647"),
        ({"given": {5: 0}}, "given has the variable 5; variables are 0 to 3, or names"),
        ({"given": {-1: 0}}, "given has the variable -1"),
        ({"given": {0: 7}}, r"given sets x0 to 7; its states are \[0, 1\]"),
    ],
)
def test_wrong_arguments(method, options, message):
    with pytest.raises(ModelError, match=message):
        MODEL.sample(np.zeros(10), 2, method=method, **options)


@pytest.mark.parametrize("two", [np.int64(2), 2.0])
def test_whole_numbers_of_any_type_are_arguments(two):
    draws = MODEL.sample(np.zeros(10), 3, method="gibbs", burn_in=two, thin=two)
    assert draws.values.shape == (3, 4)


def fields():
    """Fields in which every joint state is forbidden: by one table, by two, and by a given value."""
    first = ff.Factor((0, 1), log_offset=[[0.0, NEVER], [NEVER, NEVER]])
    second = ff.Factor((1, 2), log_offset=[[NEVER, NEVER], [0.0, 0.0]])
    return {
        "two tables": (ff.MarkovRandomField([2, 2, 2], [first, second]), None),
        "given": (ff.MarkovRandomField([2, 2], [first]), {0: 1}),
    }


@pytest.mark.parametrize("name", list(fields()))
def test_a_field_without_possible_states_is_not_sampled(name):
    model, given = fields()[name]
    theta = np.zeros(model.n_parameters)
    with pytest.raises(ModelError, match="every joint state with the given values has the probability 0"):
        model.sample(theta, 3, given=given)
    with pytest.raises(ModelError, match=r"Gibbs sampling drew a joint state of probability 0\. Either every joint"):
        model.sample(theta, 3, given=given, method="gibbs")


def test_a_table_without_possible_states_is_not_sampled():
    model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), log_offset=np.full((2, 2), NEVER))])
    with pytest.raises(ModelError, match="has no finite entry"):
        model.sample(np.zeros(model.n_parameters), 3)
    with pytest.raises(ModelError, match="probability 0"):
        model.sample(np.zeros(model.n_parameters), 3, method="gibbs")


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_forbidden_states_are_not_drawn(method, monkeypatch):
    monkeypatch.setattr("fieldfit.models.field_inference._CHECKED_ENTRIES", 7)  # in several steps
    model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), log_offset=[[0.0, 0.0], [0.0, NEVER]])])
    drawn = model.sample(np.zeros(model.n_parameters), 200, method=method).values
    assert not drawn.all(axis=1).any()
    assert drawn.any(axis=0).all()


def test_conditional_fields_without_possible_states_are_not_simulated():
    forbidden = ff.Factor((0, 1), log_offset=[[0.0, 0.0], [NEVER, NEVER]])
    model = ff.MarkovRandomField([2, 2], [forbidden], given=[0])
    with pytest.raises(ModelError, match="every joint state with the given values has the probability 0"):
        model.simulate(model.read([[0, 1], [1, 1]]), np.zeros(model.n_parameters))
