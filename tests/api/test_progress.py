"""progress=True prints the lines of the command line; early stopping looks where it should."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.progress import HEAD, TimeLeft
from fieldfit.api.validation import weighted_means
from fieldfit.optim import Progress
from fieldfit.types import FieldfitError

MODEL = ff.BoltzmannMachine(4, biases=True)


def data():
    return MODEL.sample(np.linspace(-1, 1, 10), 200, 0).values


def test_progress_true_prints_a_line_for_each_iteration(capsys):
    fit = ff.fit(MODEL, data(), "PL1", method="lbfgs", progress=True)
    head, *lines = capsys.readouterr().err.splitlines()
    assert head == HEAD
    assert len(lines) == fit.iterations + 1
    assert float(lines[-1].split()[1]) == pytest.approx(fit.objective, abs=1e-6)
    for silent in (False, None):
        ff.fit(MODEL, data(), "PL1", progress=silent)
        assert capsys.readouterr().err == ""
    with pytest.raises(FieldfitError, match="progress must be"):
        ff.fit(MODEL, data(), "PL1", progress="yes")  # type: ignore[arg-type]


def test_seconds_left_follow_the_pace_of_the_gradient():
    left = TimeLeft(1000)
    known = [left(Progress(k, 0.0, 10.0**-k, 0.5 * k, 1e-4)) for k in range(4)]
    assert known[:3] == [None, None, None]
    assert known[3] == pytest.approx(0.5)  # one more iteration of half a second
    unknown = TimeLeft(1000)
    assert [unknown(Progress(k, 0.0, 10.0**-k, 0.5 * k)) for k in range(4)][3] == pytest.approx(0.5 * 997)


@pytest.mark.parametrize("policy", ["PL1", "0.5*PL1@3"])
def test_progress_has_the_tolerance_of_its_fit(policy):
    seen: list[Progress] = []
    fit = ff.fit(MODEL, data(), policy, method="lbfgs", tol=1e-5, progress=seen.append)
    (tolerance,) = {state.tolerance for state in seen}
    assert seen[-1].gradient_norm <= tolerance < seen[-2].gradient_norm
    assert fit.converged


def test_the_end_of_a_run_is_looked_at_unless_it_was():
    looked = []

    def score(theta):
        looked.append(float(theta[0]))
        return -len(looked)

    stopping = ff.EarlyStopping(score, patience=100, every=4)
    for k in range(7):
        assert not stopping(Progress(k, 0.0, 1.0, 0.0), np.full(2, float(k)))
    stopping.finish(6, np.full(2, 6.0))
    stopping.finish(6, np.full(2, 6.0))
    assert looked == [0.0, 4.0, 6.0]
    assert [place for place, _ in stopping.history] == [0, 4, 6]
    assert (stopping.best_iteration, stopping.stopped) == (0, False)
    assert "kept the best" in stopping.message


def test_interrupts_stay_interrupts_with_early_stopping():
    calls = []

    def stop(state):
        calls.append(state)
        if state.iteration == 3:
            raise KeyboardInterrupt

    stopping = ff.EarlyStopping(lambda theta: -float(theta @ theta), patience=50)
    fit = ff.fit(MODEL, data(), "PL1", method="lbfgs", progress=stop, stopping=stopping)
    assert fit.message == "stopped: interrupted"
    np.testing.assert_array_equal(fit.theta, 0.0)  # the best of what was looked at


def test_the_best_theta_under_an_l1_penalty_has_its_pseudo_gradient():
    stopping = ff.EarlyStopping(lambda theta: -float(np.abs(theta).sum()), patience=2)
    fit = ff.fit(MODEL, data(), "PL1", l1=5.0, stopping=stopping)
    assert stopping.stopped
    value, gradient = fit.objective_function.value_grad(fit.theta)
    np.testing.assert_array_equal(fit.theta, 0.0)
    assert fit.gradient_norm == pytest.approx(np.maximum(np.abs(gradient) - 5.0, 0).max())
    assert fit.objective == pytest.approx(-value)


def test_weighted_means_are_means_over_copies():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 50))
    means, errors = weighted_means(values, None)
    np.testing.assert_allclose(means, values.mean(axis=1))
    np.testing.assert_allclose(errors, values.std(axis=1, ddof=1) / np.sqrt(50))
    weight = rng.integers(0, 4, 50).astype(float)
    np.testing.assert_allclose(
        weighted_means(values, weight)[0], np.repeat(values, weight.astype(int), axis=1).mean(1)
    )
    np.testing.assert_allclose(weighted_means(values, np.full(50, 7.0))[1], errors)
