"""Norms of groups: closed forms, optimality conditions, and the optimum of plain proximal gradient steps."""

import numpy as np
import pytest
from optimisation_problems import logistic_data, logistic_functions

from fieldfit.optim import minimise_proximal
from fieldfit.optim.proximal_points import ProximalPoints
from fieldfit.types import FieldfitError


def left_over(x, gradient, weight, groups):
    """How far 0 is from the subdifferential, the norm over each group."""
    found = []
    for group in np.unique(groups):
        inside = groups == group
        norm = np.linalg.norm(x[inside])
        if norm > 0:
            found.append(np.linalg.norm(gradient[inside] + weight * x[inside] / norm))
        else:
            found.append(max(float(np.linalg.norm(gradient[inside])) - weight, 0.0))  # type: ignore[arg-type]
    return np.array(found)


@pytest.mark.parametrize("spread", [0.0, 1.0, 6.0])
def test_proximal_points_in_a_metric_are_optimal(spread):
    """d (x − z) is in −a times the subdifferential of the norm, for curvatures d that differ by up to e^±12 in a group."""
    random = np.random.default_rng(3)
    groups = random.permutation(np.repeat([-1, 0, 1, 2, 3, 4, 5], 9))
    metric = np.exp(spread * random.uniform(-2, 2, 63))
    strength = np.array([0.1, 1.0, 3.0, 10.0, 50.0, 1e4])
    proximal = ProximalPoints(groups, strength, metric)
    for size in (1.0, 20.0, 0.01, 20.0):  # each begins where the last one ended
        z = size * random.normal(size=63)
        x = proximal(z)
        np.testing.assert_array_equal(x[groups == -1], z[groups == -1])
        for group, weight in enumerate(strength):
            inside = groups == group
            pull = metric[inside] * z[inside]
            if np.linalg.norm(pull) <= weight:
                np.testing.assert_array_equal(x[inside], 0.0)
            else:
                norm = np.linalg.norm(x[inside])
                assert norm > 0
                residual = metric[inside] * x[inside] + weight * x[inside] / norm - pull
                np.testing.assert_allclose(residual, 0.0, atol=1e-10 * float(np.linalg.norm(pull)))


@pytest.mark.parametrize("mixed", [True, False])
def test_the_derivative_of_a_proximal_point(mixed):
    """By central differences, away from the points where a group begins to move."""
    random = np.random.default_rng(4)
    groups = random.permutation(np.repeat([-1, 0, 1, 2], 6)) if mixed else np.repeat([0, 1, 2, -1], 6)
    metric, z = np.exp(random.normal(size=24)), random.normal(size=24)
    proximal = ProximalPoints(groups, np.array([0.5, 2.0, 100.0]), metric)
    units, small = np.eye(24), 1e-6
    differences = np.array(
        [(proximal(z + small * unit) - proximal(z - small * unit)) / (2 * small) for unit in units]
    )
    proximal(z)
    np.testing.assert_allclose(proximal.curvature(units), differences.T / metric, atol=1e-8)
    assert np.abs(differences[:, groups == 2]).max() == 0  # this group stays at 0


def test_shrinkage_in_closed_form():
    groups = np.repeat(np.arange(10), 3)
    random = np.random.default_rng(0)
    centre, scale = random.normal(size=30), np.repeat(np.geomspace(1.0, 50.0, 10), 3)
    solution = minimise_proximal(
        lambda x: (0.5 * float((scale * (x - centre) ** 2).sum()), scale * (x - centre)),
        np.ones(30),
        scale * 1.5,
        groups=groups,
        gtol=1e-10,
    )
    norms = np.sqrt(np.bincount(groups, centre**2))[groups]
    np.testing.assert_allclose(solution.x, centre * np.maximum(1 - 1.5 / norms, 0.0), atol=1e-9)
    assert (solution.x[norms < 1.5] == 0).all()
    assert 0 < (norms < 1.5).sum() < 30


@pytest.mark.slow
@pytest.mark.parametrize("weight", [2.0, 8.0, 30.0])
@pytest.mark.parametrize("scaled", [False, True])
def test_optimality_conditions_and_plain_proximal_steps(weight, scaled):
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 0.5)
    groups = np.arange(X.shape[1]) // 4
    diagonal = 0.25 * (X**2).sum(0) + 0.5 if scaled else None
    solution = minimise_proximal(
        fun, np.zeros(X.shape[1]), weight, groups=groups, gtol=1e-8, diagonal=diagonal, max_iter=3000
    )
    assert solution.converged, solution
    value, gradient = fun(solution.x)
    assert left_over(solution.x, gradient, weight, groups).max() < 1e-7
    norms = np.sqrt(np.bincount(groups, solution.x**2))
    assert solution.value == pytest.approx(value + weight * norms.sum(), rel=1e-12)
    # The slow way: proximal gradient steps of one length, far more of them.
    length = 1.0 / (0.25 * np.linalg.norm(X, 2) ** 2 + 0.5)
    x = np.zeros(X.shape[1])
    for _ in range(20_000):
        moved = x - length * fun(x)[1]
        sizes = np.sqrt(np.bincount(groups, moved**2))
        factor = np.maximum(1 - length * weight / np.maximum(sizes, 1e-300), 0.0)
        nearer = moved * factor[groups]
        if np.abs(nearer - x).max() < 1e-13:
            break
        x = nearer
    np.testing.assert_allclose(solution.x, x, atol=1e-6)
    np.testing.assert_array_equal(norms == 0, np.bincount(groups, x**2) == 0)


def test_groups_of_one_are_l1_and_weight_zero_is_no_penalty():
    X, y = logistic_data()
    fun, _ = logistic_functions(X, y, 0.0)
    l1 = np.where(np.arange(X.shape[1]) < 5, 0.0, 10.0)
    single = minimise_proximal(fun, np.zeros(X.shape[1]), l1, gtol=1e-8)
    groups = minimise_proximal(fun, np.zeros(X.shape[1]), l1, gtol=1e-8, groups=np.arange(X.shape[1]))
    np.testing.assert_allclose(groups.x, single.x, atol=1e-7)
    assert (groups.x[:5] != 0).all()


def test_unequal_weights_in_a_group_are_refused():
    with pytest.raises(FieldfitError, match="within a group must be equal"):
        minimise_proximal(lambda x: (0.0, x), np.zeros(2), np.array([1.0, 2.0]), groups=np.zeros(2, dtype=np.int64))
