"""Conjugate gradients against a direct solve, and what they report."""

import numpy as np
import pytest

from fieldfit.optim import conjugate_gradients
from fieldfit.types import FieldfitError


def system(size, condition, seed=0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    scale = np.geomspace(1.0, 30.0, size)
    matrix = (basis * np.geomspace(1.0, condition, size)) @ basis.T
    return scale[:, None] * matrix * scale, rng.normal(size=size)


@pytest.mark.parametrize("kind", ["none", "diagonal", "operator"])
@pytest.mark.parametrize("size", [1, 7, 80])
def test_solves(size, kind):
    matrix, b = system(size, 100.0)
    preconditioner = {
        "none": None,
        "diagonal": np.diag(matrix).copy(),
        "operator": lambda v: v / np.diag(matrix),
    }[kind]
    calls = 0

    def product(v):
        nonlocal calls
        calls += 1
        return matrix @ v

    x, info = conjugate_gradients(product, b, tol=1e-12, preconditioner=preconditioner)  # type: ignore[arg-type]
    assert info.converged
    assert info.positive
    assert info.products == info.iterations == calls
    np.testing.assert_allclose(matrix @ x, b, atol=1e-10 * float(np.linalg.norm(b)))
    assert info.residual == pytest.approx(np.linalg.norm(b - matrix @ x) / np.linalg.norm(b), abs=1e-11)


def test_preconditioner_saves_products():
    matrix, b = system(80, 5.0)
    plain = conjugate_gradients(lambda v: matrix @ v, b, tol=1e-8)[1]
    scaled = conjugate_gradients(lambda v: matrix @ v, b, tol=1e-8, preconditioner=np.diag(matrix).copy())[1]
    exact = conjugate_gradients(
        lambda v: matrix @ v, b, tol=1e-8, preconditioner=lambda v: np.linalg.solve(matrix, v)
    )[1]
    assert exact.products == 1 < scaled.products < plain.products


def test_reports_curvature_that_is_not_positive():
    diagonal = np.array([3.0, 2.0, -1.0, 5.0])
    x, info = conjugate_gradients(lambda v: diagonal * v, np.ones(4))
    assert not info.positive
    assert not info.converged
    assert info.message == "stopped: the matrix is not positive definite"
    assert np.isfinite(x).all()


def test_limits_zero_and_bad_input():
    matrix, b = system(50, 1e4)
    _, info = conjugate_gradients(lambda v: matrix @ v, b, max_iter=3)
    assert (info.iterations, info.converged, info.message) == (3, False, "stopped: iteration limit")
    x, info = conjugate_gradients(lambda v: matrix @ v, np.zeros(50))
    assert info.converged
    assert not x.any()
    assert conjugate_gradients(lambda v: v, np.zeros(0))[1].converged
    _, info = conjugate_gradients(lambda v: v * np.nan, b)
    assert (info.converged, info.message) == (False, "stopped: a product is not finite")
    with pytest.raises(FieldfitError, match="finite vector"):
        conjugate_gradients(lambda v: v, np.array([np.nan]))
    with pytest.raises(FieldfitError, match="both must agree"):
        conjugate_gradients(lambda v: v[:2], np.ones(3))


@pytest.mark.parametrize("decades", [2, 3, 4])  # a solve of fewer than three windows ends by its residual
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_quadratic_form_ends_a_solve_early_and_within_its_tolerance(decades, seed):
    random = np.random.default_rng(seed)
    values = np.logspace(0, decades, 300)
    b = random.normal(size=300)
    exact = float(np.sum(b**2 / values))
    full = conjugate_gradients(lambda v: values * v, b, tol=1e-10)[1]
    x, info = conjugate_gradients(lambda v: values * v, b, tol=1e-10, energy_tol=1e-4)
    assert info.converged
    assert info.products < full.products
    assert -1e-9 * exact <= exact - b @ x <= 3e-4 * exact


@pytest.mark.parametrize("share", [1e-6, 1e-9])
def test_a_solve_goes_on_until_no_more_is_missing_than_may_be(share):
    random = np.random.default_rng(0)
    values = np.logspace(0, 3, 300)
    b = random.normal(size=300)
    exact = float(np.sum(b**2 / values))
    asked = []

    def limit(x):
        asked.append(exact - float(b @ x))
        return share * exact

    early, first = conjugate_gradients(lambda v: values * v, b, tol=1e-12, energy_tol=1e-3)
    x, info = conjugate_gradients(lambda v: values * v, b, tol=1e-12, energy_tol=1e-3, energy_limit=limit)
    assert info.converged
    assert info.products > first.products
    assert exact - b @ early > share * exact >= exact - b @ x
    assert exact - b @ x <= info.missing * 1.01 <= 1.01 * share * exact
    assert len(asked) == 2  # when the tolerance held, and when the limit did
    never = conjugate_gradients(lambda v: values * v, b, tol=1e-6, energy_tol=1e-3, energy_limit=lambda x: 0.0)[1]
    assert never.message == "converged: residual below tolerance"


def test_a_small_eigenvalue_does_not_end_a_solve_early():
    """Additions to bᵀx fall fast at first and then nearly stop, until the small eigenvalue is met."""
    rng = np.random.default_rng(3)
    values = np.concatenate((rng.uniform(1.0, 100.0, 3000), [1e-3]))
    b = rng.normal(size=3001)
    b[-1] = 0.05 * np.linalg.norm(b[:-1]) / np.sqrt(3000)
    exact = float(b @ (b / values))
    x, info = conjugate_gradients(lambda v: values * v, b, tol=1e-12, energy_tol=1e-5)
    assert info.converged
    assert exact - b @ x < 1e-4 * exact


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_near_preconditioner_ends_a_solve_in_short_windows(seed):
    random = np.random.default_rng(seed)
    values = np.logspace(0, 4, 500)
    near = values * random.uniform(0.5, 2.0, 500)
    b = random.normal(size=500)
    exact = float(np.sum(b**2 / values))
    x, info = conjugate_gradients(lambda v: values * v, b, tol=1e-14, energy_tol=1e-6, preconditioner=near, near=True)
    assert info.converged
    assert 12 <= info.products < 25
    assert 0 <= exact - b @ x <= info.missing <= 1e-6 * exact
    long = conjugate_gradients(lambda v: values * v, b, tol=1e-14, energy_tol=1e-6, preconditioner=near)[1]
    assert long.products > info.products


def test_short_windows_are_not_used_where_additions_fall_slowly():
    values = np.logspace(0, 3, 300)
    b = np.random.default_rng(0).normal(size=300)
    plain = conjugate_gradients(lambda v: values * v, b, tol=1e-12, energy_tol=1e-4)[1]
    near = conjugate_gradients(lambda v: values * v, b, tol=1e-12, energy_tol=1e-4, near=True)[1]
    assert near.products == plain.products >= 60
