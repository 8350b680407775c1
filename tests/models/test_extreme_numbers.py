"""Large parameters, certain states, tiny probabilities, few samples, huge counts: finite answers, as by enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from scipy.special import logsumexp

import fieldfit as ff
from fieldfit.types import FieldfitError, SeparationWarning


def energies(model, theta):
    """Σ θ f(x) for all states, by a loop over edges and biases."""
    states = np.array(list(itertools.product((0, 1), repeat=model.m)))
    total = np.zeros(len(states))
    for (j, k), weight in zip(model.edge_array, theta[: len(model.edge_array)], strict=True):
        total += weight * states[:, j] * states[:, k]
    if model.biases:
        total += states @ theta[len(model.edge_array) :]
    return states, total


def log_conditional(states, energy, row, target):
    """log p(x_A | x_B) with missing values summed out, by enumeration."""
    target = [v for v in target if row[v] >= 0]
    given_values = [v for v in range(len(row)) if row[v] >= 0 and v not in target]
    fixed = np.all(states[:, given_values] == row[given_values], axis=1)
    both = fixed & np.all(states[:, target] == row[target], axis=1)
    return logsumexp(energy[both]) - logsumexp(energy[fixed])


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_conditionals_agree_with_enumeration(data):
    m = data.draw(st.integers(2, 5))
    pairs = list(itertools.combinations(range(m), 2))
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    model = ff.BoltzmannMachine(m, edges=edges, biases=data.draw(st.booleans()))
    number = st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1e3, -1e3, 700.0, -745.0, 1e-300])
    theta = np.array(data.draw(st.lists(number, min_size=model.n_parameters, max_size=model.n_parameters)))
    value = st.sampled_from([0, 1, -1] if data.draw(st.booleans()) else [0, 1])
    rows = np.array(data.draw(st.lists(st.lists(value, min_size=m, max_size=m), min_size=1, max_size=6)))
    table = model.read_new(np.where(rows < 0, np.nan, rows))
    states, energy = energies(model, theta)
    k = data.draw(st.integers(1, min(2, m)))
    for policy, blocks in ((f"PL{k}", list(itertools.combinations(range(m), k))), ("FL", [tuple(range(m))])):
        selection = ff.Policy.parse(policy).bind(model.structure()).draw(0, 0, len(rows))
        problem = model.compile(table, selection)
        expected = [sum(log_conditional(states, energy, row, block) for block in blocks) for row in rows]
        if policy != "FL" and (rows < 0).any() and k > 1:
            continue  # whether a block with a missing value is a component of its own is the policy's affair
        found, gradient = problem.value_grad(theta)
        assert found == pytest.approx(sum(expected), rel=1e-10, abs=1e-7)
        assert np.isfinite(gradient).all()
        np.testing.assert_allclose(problem.row_values(theta), expected, rtol=1e-10, atol=1e-7)


def test_one_row_and_more_parameters_than_samples():
    for values in ([[1, 0, 1]], [[1, 0, 1, 1, 0, 0], [0, 1, 1, 0, 1, 0]]):
        model = ff.BoltzmannMachine(len(values[0]), biases=True)
        fit = ff.fit(model, values, "PL1", sigma2=1.0)
        assert fit.converged
        assert np.isfinite(fit.theta).all()
        assert np.isfinite(fit.standard_errors("model")).all()
        with pytest.raises(FieldfitError):
            ff.fit(model, [values[0]] * 3, "PL1")


def test_identical_rows_and_huge_counts():
    model = ff.BoltzmannMachine(3, biases=True)
    values = np.array(list(itertools.product((0, 1), repeat=3)))
    counts = np.arange(1, 9)
    plain = ff.fit(model, values, "PL1 + PL2", sample_weight=counts, weight_kind="counts", tol=1e-9)
    huge = ff.fit(model, values, "PL1 + PL2", sample_weight=counts * 10**12, weight_kind="counts", tol=1e-9)
    np.testing.assert_allclose(huge.theta, plain.theta, atol=1e-8)
    np.testing.assert_allclose(huge.standard_errors() * 1e6, plain.standard_errors(), rtol=1e-6)
    everything, half = (
        ff.fit(model, values, policy, sample_weight=counts * 10**12, weight_kind="counts")
        for policy in ("PL1", "0.5*PL1")
    )
    assert half.converged
    # The selection noise of 36 * 10^12 samples.
    np.testing.assert_allclose(half.theta, everything.theta, atol=1e-5)
    same = np.tile([[1, 0, 1]], (100_000, 1))
    fit = ff.fit(model, same, "PL1", sigma2=1.0)
    assert fit.converged
    assert np.isfinite(fit.standard_errors("model")).all()
    assert np.isnan(fit.standard_errors()).all()  # equal rows have no spread


def test_rows_without_a_value_say_nothing():
    model = ff.BoltzmannMachine(3, biases=True)
    values = model.sample(np.linspace(-1, 1, 6), 200, random_state=0).values.astype(float)
    empty = np.full((20, 3), np.nan)
    plain, more = ff.fit(model, values, "PL1", tol=1e-9), ff.fit(model, np.vstack([values, empty]), "PL1", tol=1e-9)
    np.testing.assert_allclose(more.theta, plain.theta, atol=1e-7)
    with pytest.raises(FieldfitError):
        ff.fit(model, empty, "PL1", sigma2=1.0)


def test_certain_states_are_separated_and_said_so():
    model = ff.BoltzmannMachine(2, biases=True)
    values = [[0, 0], [1, 1]] * 30 + [[0, 1]] * 3
    with pytest.warns(SeparationWarning):
        fit = ff.fit(model, values, "PL1")
    assert fit.separated
    assert np.isfinite(fit.theta).all()


def test_samples_of_extreme_parameters():
    model = ff.BoltzmannMachine(3, biases=True)
    drawn = model.sample([1e3, -1e3, 1e3, -1e3, 1e3, 1e3], 50, random_state=0).codes
    states, energy = energies(model, np.array([1e3, -1e3, 1e3, -1e3, 1e3, 1e3]))
    best = states[energy == energy.max()]
    assert all(any((row == state).all() for state in best) for row in drawn)


@pytest.mark.parametrize("order", [1, 2])
def test_labels_that_look_like_the_ends_of_a_sequence_keep_names_apart(order, tmp_path):
    words, tags = [["pay", "$", "5"], ["^", "$"]], [["VB", "$", "CD"], ["^", "$"]]
    fit = ff.CRFTagger(order=order).fit(words * 3, tags * 3).fit_
    assert len(set(fit.parameter_names)) == len(fit.parameter_names)
    fit.save(tmp_path / "tagger.ff")
    loaded = ff.load(tmp_path / "tagger.ff")
    assert list(loaded.parameter_names) == list(fit.parameter_names)
    assert "$$" in loaded.summary() or order == 2
