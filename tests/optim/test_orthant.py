"""Orthant-wise steps: they descend, stay in their orthant, and hand over."""

import numpy as np

from fieldfit.optim.orthant import OrthantSteps, step_in_orthant
from fieldfit.optim.proximal import minimise_proximal


def test_directions_descend_and_steps_stay_in_their_orthant():
    random = np.random.default_rng(0)
    orthant = OrthantSteps()
    for _ in range(12):
        step = random.normal(size=30)
        orthant.append(step, step * random.uniform(0.1, 3.0, 30), 1.0, shortened=False)
        x = np.where(random.random(30) < 0.5, 0.0, random.normal(size=30))
        pseudo = np.where(random.random(30) < 0.3, 0.0, random.normal(size=30))
        direction = orthant.direction(pseudo)
        assert pseudo @ direction < 0
        assert np.all(direction * pseudo <= 0)
        moved = step_in_orthant(x, pseudo, direction, 1.7)
        side = np.where(x != 0, np.sign(x), -np.sign(pseudo))
        assert np.all((moved == 0) | (np.sign(moved) == side) | (direction == 0))


def test_they_end_when_they_bring_little_or_are_shortened():
    step = np.ones(3)
    useful = OrthantSteps()
    for place in range(20):
        useful.append(step, step, 100.0 - place, shortened=False)
    assert not useful.slow
    slow, short = OrthantSteps(), OrthantSteps()
    for place in range(20):
        slow.append(step, step, 100.0 - 1e-4 * place, shortened=False)
        short.append(step, step, 100.0 - place, shortened=True)
    assert slow.slow
    assert short.slow


def test_the_optimum_is_that_of_the_penalised_function():
    """Where the pseudo-gradient is 0 the subgradient conditions hold: checked by hand from the smooth gradient."""
    random = np.random.default_rng(3)
    A, b = random.normal(size=(60, 25)), random.normal(size=60)

    def fun(x):
        residual = A @ x - b
        return float(residual @ residual) / 2, A.T @ residual

    found = minimise_proximal(fun, np.zeros(25), 6.0, gtol=1e-9)
    gradient = fun(found.x)[1]
    zero = found.x == 0
    assert 0 < zero.sum() < 25
    np.testing.assert_allclose(gradient[~zero], -6.0 * np.sign(found.x[~zero]), atol=1e-8)
    assert np.all(np.abs(gradient[zero]) <= 6.0 + 1e-8)
