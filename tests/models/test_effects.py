"""Effects: identified, right against the log-probabilities of all states, and without the freedom of free tables."""

import itertools
from typing import Any

import numpy as np
import pytest
from oracle import joint_states

import fieldfit as ff
from fieldfit.api.estimate_table import identified_table
from fieldfit.models.effects import effects
from fieldfit.types import ModelError, SeparationWarning

MODEL = ff.MarkovRandomField([2, 3, 2], [(0, 1), (2, 1), (0,), (0, 1, 2)])


def _log_probabilities(model, theta):
    states = joint_states(model.graph.cardinalities)
    tables = model.log_tables(theta)
    totals = np.zeros(len(states))
    for place, scope in enumerate(model.graph.scopes):
        table = tables[model.graph.offsets[place] : model.graph.offsets[place + 1]]
        shape = [model.graph.cardinalities[v] for v in scope]
        totals += table.reshape(shape)[tuple(states[:, v] for v in scope)]
    return {tuple(map(int, state)): value for state, value in zip(states, totals, strict=True)}


def test_corner_effects_are_differences_of_log_probabilities():
    theta = np.random.default_rng(0).normal(size=MODEL.n_parameters)
    known = _log_probabilities(MODEL, theta)
    found = effects(MODEL, "corner")
    values = dict(zip(found.names, found.at(theta), strict=True))
    assert len(values) == 2 * 3 * 2 - 1  # with the clique of all three: as many as free probabilities
    for name, value in values.items():
        state = {int(part[1]): int(part[3]) for part in name.split(":")}
        expected = 0.0
        for kept in itertools.product([False, True], repeat=len(state)):
            inside = [v for v, keep in zip(state, kept, strict=True) if keep]
            joint = tuple(state[v] if v in inside else 0 for v in range(3))
            expected += (-1) ** (len(state) - len(inside)) * known[joint]
        assert value == pytest.approx(expected, abs=1e-10)


def test_fixed_log_tables_count_and_forbidden_states_have_no_effects():
    fixed = np.array([[0.3, -0.2, 0.0], [0.7, -np.inf, 0.1]])
    factors: list[Any] = [ff.Factor((0, 1), np.eye(2, 3), "same", log_offset=fixed), (1, 2), (0,)]
    model = ff.MarkovRandomField([2, 3, 2], factors)
    theta = np.random.default_rng(4).normal(size=model.n_parameters)
    known, found = _log_probabilities(model, theta), effects(model, "corner")
    values = dict(zip(found.names, found.at(theta), strict=True))
    assert "x0=1:x1=1" not in values
    expected = known[1, 2, 0] - known[1, 0, 0] - known[0, 2, 0] + known[0, 0, 0]
    assert values["x0=1:x1=2"] == pytest.approx(expected, abs=1e-10)
    assert values["x1=1"] == pytest.approx(known[0, 1, 0] - known[0, 0, 0], abs=1e-10)
    x = model.sample(theta, 500, random_state=0).values
    fit = ff.fit(model, x, "PL1")
    known = _log_probabilities(model, fit.theta)
    assert fit.effects().loc["x0=1", "estimate"] == pytest.approx(known[1, 0, 0] - known[0, 0, 0], abs=1e-10)


def test_sum_effects_add_up_to_zero_and_rebuild_the_law():
    theta = np.random.default_rng(1).normal(size=MODEL.n_parameters)
    found = effects(MODEL, "sum")
    values = dict(zip(found.names, found.at(theta), strict=True))
    assert sum(values[f"x1={s}"] for s in range(3)) == pytest.approx(0, abs=1e-10)
    assert values["x0=0:x1=2"] + values["x0=1:x1=2"] == pytest.approx(0, abs=1e-10)
    known = _log_probabilities(MODEL, theta)
    rebuilt = {
        state: sum(
            values[":".join(f"x{v}={state[v]}" for v in subset)]
            for size in (1, 2, 3)
            for subset in itertools.combinations(range(3), size)
        )
        for state in known
    }
    apart = np.array([known[state] - rebuilt[state] for state in known])
    np.testing.assert_allclose(apart, apart[0], atol=1e-10)


@pytest.mark.parametrize("coding", ["corner", "sum"])
def test_effects_of_free_tables_have_standard_errors(coding):
    potts = ff.Potts(3, 3)
    x = potts.sample(np.random.default_rng(2).normal(0, 0.3, potts.n_parameters), 800, random_state=0).values
    fit = ff.fit(potts, x, "FL")
    assert np.isnan(fit.standard_errors()).all()
    table = fit.effects(coding)
    assert np.isfinite(table.to_numpy()).all()
    assert (table["std_error"] > 0).all()
    # Another point of the same law has the same effects.
    moved = fit.theta.copy()
    moved[:9] += 1.0
    made = effects(potts, coding)
    np.testing.assert_allclose(made.at(moved), table["estimate"], atol=1e-10)
    functional = fit.functional(made.matrix[4])
    assert table["std_error"].iloc[4] == pytest.approx(functional.standard_error)


def test_effects_of_zeroed_and_other_parameters_have_errors():
    potts = ff.Potts(4, 2, edges=[(0, 1), (1, 2), (2, 3)])
    theta = np.r_[2.0, 0, 0, 0, np.zeros(8), np.tile([0, 0.3], 4)]
    x = potts.sample(theta, 500, random_state=0).values
    fit = ff.fit(potts, x, "PL1", group_l1=60.0)
    assert fit.zeroed[4:12].all()
    assert not fit.zeroed[:4].any()
    table = fit.effects()
    assert table.index[table["std_error"].isna()].tolist() == ["x1=1:x2=1", "x2=1:x3=1"]
    # The fields hold zeroed tables constant: their errors are those of the field without these edges.
    smaller = ff.fit(ff.Potts(4, 2, edges=[(0, 1)]), x, "PL1", group_l1=60.0).effects()
    shared = ["x0=1", "x1=1", "x2=1", "x3=1", "x0=1:x1=1"]
    np.testing.assert_allclose(table.loc[shared, "std_error"], smaller.loc[shared, "std_error"], rtol=1e-4)


def test_binary_couplings_are_their_own_corner_effects():
    model = ff.BoltzmannMachine(3, biases=True)
    x = model.sample([1.0, -1.0, 0.5, 0.1, 0.2, -0.3], 400, random_state=0).values
    fit = ff.fit(model, x, "PL1")
    table = fit.effects()
    assert table.loc["x0=1:x1=1", "estimate"] == pytest.approx(fit.theta[0])
    assert table.loc["x0=1:x1=1", "std_error"] == pytest.approx(fit.standard_errors()[0])
    with pytest.raises(ModelError, match="'corner' or 'sum'"):
        fit.effects("middle")


def test_effects_take_the_place_of_rows_without_errors():
    potts = ff.Potts(3, 3)
    x = potts.sample(np.random.default_rng(2).normal(0, 0.3, potts.n_parameters), 800, random_state=0).values
    fit = ff.fit(potts, x, "PL1")
    table = identified_table(fit)
    assert table.index.name == "effect"
    assert table.equals(fit.effects())
    text = fit.summary(rows=3)
    assert "the table has effects" in text
    assert "NaN" not in text
    assert f"and {len(table) - 3} more (fit.effects() has all)" in text
    assert "effect" in fit._repr_html_()
    # With a penalty every parameter has an error; shared parameters are few, and their effects would be many.
    for other in (ff.fit(potts, x, "PL1", sigma2=1.0), ff.fit(ff.Potts(3, 3, tied=True), x, "PL1")):
        assert identified_table(other).index.name == "parameter"


def test_effects_stay_away_where_they_say_no_more():
    """A coupling at infinity is one in either coding."""
    model = ff.BoltzmannMachine(2)
    with pytest.warns(SeparationWarning):
        fit = ff.fit(model, [[0, 0], [0, 1], [1, 0]] * 20, "PL1")
    assert identified_table(fit).index.name == "parameter"
