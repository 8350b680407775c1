"""θ at the limits of what numbers can hold, and models that are too large: finite answers or errors in words."""

import math

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import FieldfitError, FieldfitWarning, ModelError, WidthError

FIELDS = {
    "boltzmann": ff.BoltzmannMachine(3, biases=True),
    "potts": ff.Potts(3, 3),
    "mrf": ff.MarkovRandomField([2, 3], [(0, 1), ff.Factor((1,), [0.0, 1.0, 2.0], "a")]),
}


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize("size", [1e3, 1e8, 1e150])
@pytest.mark.parametrize("signs", [0, 1, 2])
def test_large_parameters_give_finite_answers(name, size, signs):
    model = FIELDS[name]
    theta = size * np.array([1, -1, 1, 1, -1])[(signs + np.arange(model.n_parameters)) % 5]
    logs = model.features.toarray() @ theta
    states = list(np.ndindex(*model.graph.cardinalities))
    energies = np.array([logs[model.graph.entries(np.array([state]))[0]].sum() for state in states])
    top = energies.max()
    assert math.isclose(model.log_partition(theta), top, rel_tol=1e-12, abs_tol=3.5)  # at most log 27 above it
    for marginal in model.marginals(theta):
        assert np.isfinite(marginal).all()
        assert math.isclose(marginal.sum(), 1.0, rel_tol=1e-12)
    draws = model.sample(theta, 4, random_state=0).values
    likely = [state for state, energy in zip(states, energies, strict=True) if energy >= top - 50 - 1e-12 * abs(top)]
    assert {tuple(map(int, row)) for row in draws} <= set(likely)


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize("size", [1e3, 1e150])
@pytest.mark.parametrize("policy", ["PL1", "FL"])
def test_theory_of_large_parameters_has_no_raw_error(name, size, policy):
    model = FIELDS[name]
    theta = size * np.array([1, -1, 1, 1, -1])[np.arange(model.n_parameters) % 5]
    try:
        with pytest.warns(FieldfitWarning, match="no variance"):
            text = str(ff.theory(model, theta, policy))
    except FieldfitError as error:
        text = str(error)
    assert "asymptotic theory" in text or "θ is so extreme" in text


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize("number", [1e151, -1e308, 1.7e308])
def test_parameters_whose_sums_are_not_finite_are_refused(name, number):
    model = FIELDS[name]
    theta = np.zeros(model.n_parameters)
    theta[1] = number
    for use in (
        model.log_partition,
        model.marginals,
        lambda theta: model.sample(theta, 2),
        lambda theta: ff.theory(model, theta, "PL1"),
    ):
        with pytest.raises(ModelError, match=r"θ\[1\] .* must be between −1e\+150 and 1e\+150"):
            use(theta)


def test_features_and_offsets_beyond_the_limit_are_refused():
    with pytest.raises(ModelError, match="feature beyond"):
        ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), np.full((2, 2), 1e200), "a")])
    offset = np.array([[0.0, -np.inf], [-1e200, 0.0]])
    with pytest.raises(ModelError, match="log_offset beyond"):
        ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), np.eye(2), "a", log_offset=offset)])


def test_theory_without_any_direction_has_no_variances_to_compare():
    """Three of four joint states cannot occur."""
    offset = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
    model = ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), np.arange(4.0).reshape(2, 2), "a", log_offset=offset)])
    theory = ff.theory(model, [0.0], "FL")
    assert "no direction of θ changes probabilities" in str(theory)
    assert math.isnan(theory.efficiency("root"))


@pytest.mark.parametrize(
    "build",
    [
        lambda: ff.Potts(3, 10**6),
        lambda: ff.Potts.grid(100, 100, 10**5),
        lambda: ff.MarkovRandomField([10**6, 10**6], [(0, 1)]),
        lambda: ff.MarkovRandomField([2] * 60, [tuple(range(60))]),
        lambda: ff.MarkovRandomField([2] * 200, [tuple(range(200))]),
    ],
)
def test_models_whose_parameters_do_not_fit_into_memory_are_refused_with_bytes(build):
    with pytest.raises(ModelError, match=r"has [\d,]{13,} parameters, which take at least [\d,]+ bytes"):
        build()


def test_free_tables_take_memory_in_proportion_to_their_entries():
    """A matrix of entries by features would have 90,000² numbers, 65 GB."""
    model = ff.MarkovRandomField([300, 300], [(0, 1)])
    assert math.isclose(model.log_partition(np.zeros(90_000)), math.log(90_000), rel_tol=1e-12)


@pytest.mark.slow
def test_tables_that_do_not_fit_into_memory_are_refused_with_bytes():
    model = ff.Potts(3, 10**6, couplings="agree")
    for use in (model.log_partition, model.marginals, lambda theta: model.sample(theta, 1)):
        with pytest.raises(WidthError, match=r"The tables of all factors take [\d,]+ bytes"):
            use(np.zeros(model.n_parameters))
