"""Rows with missing values by joint states: the sums of the general engine, for values, gradients, products and scores."""

from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.samples import Table
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.pairwise_missing import MissingPairwiseProblem, sums_states
from fieldfit.policies import as_policy
from fieldfit.types import WidthError

M = 9
CHORDS = [(j, k) for j in range(M) for k in range(j + 1, M) if (j + k) % 4]


@pytest.fixture(scope="module")
def gappy():
    """Codes of 40 rows and 9 columns in all patterns of missing values: none, some, all but one, all; some rows twice."""
    random = np.random.default_rng(0)
    codes = (random.random((30, M)) < 0.5).astype(np.int32)
    codes[random.random(codes.shape) < np.linspace(0, 0.9, 30)[:, None]] = -1
    codes[-1] = -1
    return np.concatenate([codes, codes[::3]])


MODELS = {
    "0/1": lambda: ff.BoltzmannMachine(M, biases=True),
    "-1/1": lambda: ff.BoltzmannMachine(M, biases=True, states=(-1, 1)),
    "no biases": lambda: ff.BoltzmannMachine(M, states=(-1, 1)),
    "some edges": lambda: ff.BoltzmannMachine(M, CHORDS, biases=True),
    "shared": lambda: ff.BoltzmannMachine(M, biases=True, edge_groups=[f"g{k % 5}" for k in range(M * (M - 1) // 2)]),
}


def both(model, codes, policy):
    """The problem of the kernel, and that of the general engine."""
    table = Table(codes, model.names, model.states)
    selection = as_policy(policy).bind(model.structure(table)).draw(3, 0, table.n)
    fast = model.compile(table, selection)
    assert any(isinstance(part, MissingPairwiseProblem) for part in getattr(fast, "parts", [fast]))
    return fast, FieldProblem(model.field_arrays, codes, selection)


@pytest.mark.parametrize("policy", ["PL1", "0.4*PL1", "0.5*PL1/row", "PL1@2"])
@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_the_general_engine(gappy, name, policy):
    model = MODELS[name]()
    fast, general = both(model, gappy, policy)
    random = np.random.default_rng(1)
    theta, v = random.normal(size=(2, model.n_parameters))
    weight = random.random(len(gappy))
    for row_weight in (None, weight):
        value, gradient = fast.value_grad(theta, row_weight)
        expected, slope = general.value_grad(theta, row_weight)
        assert value == pytest.approx(expected, rel=1e-11)
        np.testing.assert_allclose(gradient, slope, atol=1e-10)
        np.testing.assert_allclose(
            fast.hessian_product(theta, v, row_weight), general.hessian_product(theta, v, row_weight), atol=1e-9
        )
    np.testing.assert_allclose(fast.row_values(theta), general.row_values(theta), atol=1e-10)
    np.testing.assert_allclose(fast.row_products(theta, v), general.row_products(theta, v), atol=1e-10)
    np.testing.assert_allclose(fast.family_scores(theta, 5, 35), general.family_scores(theta, 5, 35), atol=1e-10)
    np.testing.assert_allclose(fast.score_moment(theta), general.score_moment(theta), atol=1e-9)


@pytest.mark.parametrize("size", [0.0, 40.0, 400.0])
def test_products_that_would_leave_the_range_of_numbers(gappy, size):
    """At 400 the exponentials are those of sums."""
    model = MODELS["0/1"]()
    fast, general = both(model, gappy, "PL1")
    random = np.random.default_rng(1)
    theta, v = size * random.normal(size=model.n_parameters), random.normal(size=model.n_parameters)
    value, gradient = fast.value_grad(theta)
    expected, slope = general.value_grad(theta)
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(gradient, slope, atol=1e-9)
    np.testing.assert_allclose(fast.hessian_product(theta, v), general.hessian_product(theta, v), atol=1e-7)


def test_other_weights_of_the_families(gappy):
    model = MODELS["0/1"]()
    fast, general = both(model, gappy, "Multinomial(0.6*PL1 + 0.4*PL2)")
    theta = np.random.default_rng(2).normal(size=model.n_parameters)
    betas = np.array([0.2, 1.5])
    np.testing.assert_allclose(
        fast.with_betas(betas).value_grad(theta)[1], general.with_betas(betas).value_grad(theta)[1], atol=1e-10
    )
    np.testing.assert_allclose(fast.value_grad(theta)[1], general.value_grad(theta)[1], atol=1e-10)


@pytest.mark.slow
def test_the_number_of_threads_changes_no_bit(gappy):
    model = MODELS["0/1"]()
    theta = np.random.default_rng(2).normal(size=model.n_parameters)
    results = []
    for threads in (1, 2):
        with ff.use_threads(threads):
            results.append(both(model, gappy, "PL1")[0].value_grad(theta)[1])
    np.testing.assert_array_equal(*results)


@pytest.mark.slow
def test_a_fit_has_the_optimum_and_the_errors_of_the_general_engine(monkeypatch):
    model = ff.BoltzmannMachine(6, biases=True)
    theta = np.random.default_rng(0).normal(scale=0.5, size=model.n_parameters)
    x = model.sample(theta, 400, random_state=0).values.astype(float)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    fast = ff.fit(model, x, "PL1", tol=1e-9)
    errors = fast.standard_errors()
    monkeypatch.setattr("fieldfit.models.boltzmann.sums_states", lambda *arguments: False)
    general = ff.fit(ff.BoltzmannMachine(6, biases=True), x, "PL1", tol=1e-9)
    np.testing.assert_allclose(fast.theta, general.theta, atol=1e-7)
    np.testing.assert_allclose(errors, general.standard_errors(), rtol=1e-6)


def test_sparse_graphs_blocks_and_wide_rows_are_for_the_general_engine(gappy):
    table = Table(gappy, tuple(f"x{j}" for j in range(M)), ((0, 1),) * M)

    def used(model, policy):
        selection = as_policy(policy).bind(model.structure(table)).draw(0, 0, table.n)
        return sums_states(model, gappy, selection.parts)

    assert used(MODELS["0/1"](), "PL1")
    assert not used(MODELS["0/1"](), "PL2")
    assert not used(ff.BoltzmannMachine(M, [(j, j + 1) for j in range(M - 1)]), "PL1")
    assert not used(ff.BoltzmannMachine(M, largest_table=8), "PL1")
    with pytest.raises(WidthError, match="samples have too many missing values"):
        ff.fit(ff.BoltzmannMachine(M, largest_table=8), np.where(gappy < 0, np.nan, gappy), "PL1", sigma2=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pointer": np.array([1, 1])}, "pointer"),
        ({"missing": np.array([9], dtype=np.int32)}, "must exist"),
        ({"weights": np.zeros((2, 3))}, "weights"),
        ({"cross": np.zeros((1, 2))}, "cross"),
        ({"field_tangent": np.zeros((1, 3))}, "all tangents or none"),
        ({"n_threads": 0}, "n_threads"),
    ],
)
def test_the_kernel_refuses_arrays_that_do_not_belong_together(change, message):
    from fieldfit import _kernels

    tangents: dict[str, Any] = {
        f"{name}_tangent": None for name in ("weights", "field", "value", "turned", "ones", "both", "cross")
    }
    good: dict[str, Any] = {
        "codes": np.array([[1, 0, 0]], dtype=np.uint8), "pointer": np.array([0, 1]),
        "missing": np.array([1], dtype=np.int32), "weights": np.zeros((3, 3)), "field": np.zeros((1, 3)),
        "scale": np.ones((1, 3)), "value": np.zeros(1), "turned": np.zeros((1, 3)), "ones": np.zeros(1),
        "both": np.zeros(1), "cross": np.zeros((1, 3)), "n_threads": 1,
    }  # fmt: skip
    _kernels.missing_rows(**good, **tangents)
    with pytest.raises(ValueError, match=message):
        _kernels.missing_rows(**{**good, **tangents, **change})


def test_no_diagonal_of_other_data_is_given(gappy):
    # Automatic weights take a diagonal as the bread: one with filled-in values gave other weights.
    model = MODELS["0/1"]()
    fast, _ = both(model, gappy, "PL1")
    assert fast.hessian_diagonal(np.zeros(model.n_parameters)) is None
    assert fast.information_diagonal(np.zeros(model.n_parameters)) is None
