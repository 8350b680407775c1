"""Complete samples and samples with missing values through two problems: all sums are those of the general problem."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.samples import as_table
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.rows_problem import RowsProblem
from fieldfit.policies import Policy
from fieldfit.types import WidthError

MODEL = ff.BoltzmannMachine(6, biases=True)
POLICIES = ["PL2", "0.6*PL2@0.5 + Partition(2)", "0.5*PL2/row", "PL1@0.3 + PL2 + FL"]


def _data(n=60, missing=0.03, seed=0):
    random = np.random.default_rng(seed)
    values = random.integers(0, 2, (n, 6)).astype(float)
    values[random.random((n, 6)) < missing] = np.nan
    assert 0 < np.isnan(values).any(axis=1).sum() < n
    return values


def _both(policy, values):
    """The problem as it is compiled, and the general one."""
    table = as_table(MODEL.read(values))
    bound = Policy.parse(policy).bind(MODEL.structure(table))
    selection = bound.draw(3, 0, table.n)
    return MODEL.compile(table, selection), FieldProblem(MODEL.field_arrays, table.codes, selection)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_and_scores_are_those_of_the_general_problem(policy, weighted):
    apart, general = _both(policy, _data())
    random = np.random.default_rng(1)
    theta, v = random.normal(0, 0.5, (2, MODEL.n_parameters))
    weight = random.random(60) if weighted else None
    value, gradient = apart.value_grad(theta, weight)
    expected, slope = general.value_grad(theta, weight)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-10)
    for method in ("hessian_matrix", "score_moment", "family_products", "family_statistics"):
        np.testing.assert_allclose(
            getattr(apart, method)(theta, weight), getattr(general, method)(theta, weight), atol=1e-10
        )
    np.testing.assert_allclose(
        apart.hessian_product(theta, v, weight), general.hessian_product(theta, v, weight), atol=1e-10
    )
    np.testing.assert_allclose(
        apart.score_product(theta, v, weight), general.score_product(theta, v, weight), atol=1e-10
    )
    np.testing.assert_allclose(apart.row_values(theta), general.row_values(theta), atol=1e-10)
    np.testing.assert_allclose(apart.row_products(theta, v), general.row_products(theta, v), atol=1e-10)
    np.testing.assert_allclose(apart.family_scores(theta, 7, 41), general.family_scores(theta, 7, 41), atol=1e-10)
    some = np.array([55, 2, 3, 17, 2])
    np.testing.assert_allclose(apart.family_scores_of(theta, some), general.family_scores_of(theta, some), atol=1e-10)
    np.testing.assert_allclose(apart.betas, general.betas)


def test_complete_samples_have_the_fast_kernels():
    apart, general = _both("PL2", _data())
    assert isinstance(apart, RowsProblem)
    assert not isinstance(apart.parts[0], FieldProblem)
    twice = apart.with_betas(np.array([2.0]))
    theta = np.full(MODEL.n_parameters, 0.1)
    assert twice is not None
    assert twice.value_grad(theta)[0] == pytest.approx(2 * general.value_grad(theta)[0])
    assert (apart.hessian_diagonal(theta) is None) == (apart.parts[1].hessian_diagonal(theta) is None)


def test_without_complete_samples_all_are_general():
    values = _data()
    values[np.arange(60), np.arange(60) % 6] = np.nan
    apart, general = _both("PL2", values)
    theta = np.full(MODEL.n_parameters, 0.1)
    assert apart.value_grad(theta)[0] == general.value_grad(theta)[0]


def test_fits_and_standard_errors_are_those_of_other_missing_patterns():
    # A row of missing values only says nothing: the fit and its errors are those without it.
    values = _data(300, missing=0.0 + 1e-3, seed=5)
    values[1] = np.nan
    with_row = ff.fit(MODEL, values, "PL2", sigma2=1.0)
    without = ff.fit(MODEL, np.delete(values, 1, axis=0), "PL2", sigma2=1.0)
    np.testing.assert_allclose(with_row.theta, without.theta, atol=1e-6)
    np.testing.assert_allclose(with_row.standard_errors(), without.standard_errors(), rtol=1e-5)


def test_rows_that_are_too_wide_keep_their_numbers():
    model = ff.BoltzmannMachine(12, biases=True, largest_table=64)
    values = np.random.default_rng(0).integers(0, 2, (40, 12)).astype(float)
    values[7, 0] = np.nan
    values[23, :9] = np.nan
    with pytest.raises(WidthError, match=r"^1 of 40 samples .* row 23\.") as raised:
        ff.fit(model, values, "PL2", sigma2=1.0)
    assert raised.value.rows is not None
    assert raised.value.rows.tolist() == [23]
