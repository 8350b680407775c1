"""Orthant-wise steps: they descend, stay in their orthant, and hand over."""

import numpy as np
import pytest

from fieldfit.optim.memory import Memory
from fieldfit.optim.orthant import OrthantSteps, step_in_orthant
from fieldfit.optim.proximal import minimise_proximal


def test_directions_descend_and_steps_stay_in_their_orthant():
    random = np.random.default_rng(0)
    orthant = OrthantSteps(30)
    for _ in range(12):
        step = random.normal(size=30)
        x = np.where(random.random(30) < 0.5, 0.0, random.normal(size=30))
        pseudo = np.where(random.random(30) < 0.3, 0.0, random.normal(size=30))
        none = np.zeros(30)
        orthant.append((step, none), (step * random.uniform(0.1, 3.0, 30), none), pseudo, 1.0, shortened=False)
        direction = orthant.direction(x, pseudo)
        assert pseudo @ direction < 0
        assert np.all(direction * pseudo <= 0)
        moved = step_in_orthant(x, pseudo, direction, 1.7)
        side = np.where(x != 0, np.sign(x), -np.sign(pseudo))
        assert np.all((moved == 0) | (np.sign(moved) == side) | (direction == 0))


def test_the_direction_is_that_of_the_two_loops():
    random = np.random.default_rng(1)
    orthant, pairs = OrthantSteps(20), []
    for _ in range(11):
        step = random.normal(size=20)
        change, pseudo = step * random.uniform(0.1, 3.0, 20), random.normal(size=20)
        pairs.append((step, change))
        orthant.append((step, np.zeros(20)), (change, np.zeros(20)), pseudo, 1.0, shortened=False)
    q, weights = pseudo.copy(), []
    for step, change in pairs[:-9:-1]:
        weights.append(step @ q / (step @ change))
        q -= weights[-1] * change
    q *= (pairs[-1][0] @ pairs[-1][1]) / (pairs[-1][1] @ pairs[-1][1])
    for (step, change), weight in zip(pairs[-8:], reversed(weights), strict=True):
        q += (weight - change @ q / (step @ change)) * step
    expected = np.where(q * pseudo <= 0, 0.0, -q)
    np.testing.assert_allclose(orthant.direction(np.zeros(20), pseudo), expected, rtol=1e-10, atol=1e-12)
    assert [pair[0].tolist() for pair in orthant.pairs] == [step.tolist() for step, _ in pairs[-8:]]


def test_they_end_when_they_bring_little_or_are_shortened():
    pair = np.ones(3), np.zeros(3)
    useful = OrthantSteps(3)
    for place in range(20):
        useful.append(pair, pair, pair[0], 100.0 - place, shortened=False)
    assert not useful.slow
    slow, short = OrthantSteps(3), OrthantSteps(3)
    for place in range(20):
        slow.append(pair, pair, pair[0], 100.0 - 1e-4 * place, shortened=False)
        short.append(pair, pair, pair[0], 100.0 - place, shortened=True)
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


class Kept:
    """Holds the last state of a descent in memory."""

    def __init__(self, saved=None):
        self.saved, self.last = saved, None

    def keep(self, state, iteration, *, last):
        self.last = state()


@pytest.mark.slow
def test_a_descent_goes_on_between_orthant_wise_steps_with_the_same_bits():
    random = np.random.default_rng(4)
    A, b = random.normal(size=(80, 40)) * np.geomspace(0.1, 3.0, 40), random.normal(size=80)

    def fun(x):
        residual = A @ x - b
        return float(residual @ residual) / 2, A.T @ residual

    whole = minimise_proximal(fun, np.zeros(40), 0.5, gtol=1e-9)
    first = Kept()
    minimise_proximal(fun, np.zeros(40), 0.5, gtol=1e-9, max_iter=4, keeper=first)
    assert "orthant_counts" in first.last
    rest = minimise_proximal(fun, np.zeros(40), 0.5, gtol=1e-9, keeper=Kept(first.last))
    np.testing.assert_array_equal(rest.x, whole.x)
    assert rest.iterations == whole.iterations


def sparse_regression():
    """A least-squares problem of 6,000 coordinates, of which few move."""
    random = np.random.default_rng(5)
    A = random.normal(size=(150, 6_000)) * np.geomspace(0.5, 2.0, 6_000)
    b = A[:, ::400] @ random.normal(size=15) + 0.1 * random.normal(size=150)

    def fun(x):
        residual = A @ x - b
        return float(residual @ residual) / 2 + 0.05 * float(x @ x), A.T @ residual + 0.1 * x

    return fun


@pytest.mark.slow
def test_coordinates_that_stand_still_are_left_out_of_the_pairs_and_change_no_optimum(monkeypatch):
    fun, first = sparse_regression(), Kept()
    minimise_proximal(fun, np.zeros(6_000), 40.0, gtol=1e-9, max_iter=6, keeper=first)
    kept = first.last["set_places"]
    assert first.last["orthant_steps"].shape[1] == len(kept) < 2_000
    assert set(np.flatnonzero(first.last["x"])) <= set(kept)
    found = minimise_proximal(fun, np.zeros(6_000), 40.0, gtol=1e-9)
    monkeypatch.setattr("fieldfit.optim.working_set._MANY_COORDINATES", 10_000)
    plain = minimise_proximal(fun, np.zeros(6_000), 40.0, gtol=1e-9)
    assert found.converged
    assert plain.converged
    np.testing.assert_allclose(found.x, plain.x, atol=1e-9)
    assert abs(found.value - plain.value) < 1e-10 * abs(plain.value)


@pytest.mark.slow
def test_a_descent_on_moving_coordinates_goes_on_with_the_same_bits():
    fun = sparse_regression()
    whole, first = minimise_proximal(fun, np.zeros(6_000), 40.0, gtol=1e-9), Kept()
    minimise_proximal(fun, np.zeros(6_000), 40.0, gtol=1e-9, max_iter=6, keeper=first)
    rest = minimise_proximal(fun, np.zeros(6_000), 40.0, gtol=1e-9, keeper=Kept(first.last))
    np.testing.assert_array_equal(rest.x, whole.x)
    assert rest.iterations == whole.iterations


def test_pairs_move_to_other_coordinates():
    random = np.random.default_rng(6)
    memory = Memory(12, 4, None)
    for _ in range(6):
        step = random.normal(size=12)
        memory.append((step, np.zeros(12)), step * random.uniform(0.5, 2.0, 12), step, None)
    places = np.array([3, -1, 7, 8, 0, 11])
    q, none = random.normal(size=6), np.zeros(6)
    moved = memory.moved(places, q)
    old = [tuple(np.where(places < 0, 0.0, vector[places]) for vector in pair) for pair in memory.pairs]
    assert len(moved) == 4
    for (step, change), (expected_step, expected_change) in zip(moved.pairs, old, strict=True):
        np.testing.assert_array_equal(step, expected_step)
        np.testing.assert_array_equal(change, expected_change)
    # The next directions are those of a memory that has had these pairs only, at once and after another pair.
    other = Memory(6, 4, None)
    for step, change in old:
        other.append((step, none), change, q, None)
    for _ in range(2):
        found, expected, trial = np.empty(6), np.empty(6), np.empty(6)
        moved.direction(none, q, None, found, trial)
        other.direction(none, q, None, expected, trial)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        moved.append((q, none), 0.5 * q, q, None)
        other.append((q, none), 0.5 * q, q, None)
