"""After Ctrl-C no sums over samples are computed: they may be on a worker that does not answer."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.objective import Objective
from fieldfit.shards.problem import ShardedProblem

MODEL = ff.BoltzmannMachine(4)
X = MODEL.sample([0.3, -0.4, 0.5, -0.2, 0.6, 0.1], 400, random_state=0).values


@pytest.fixture
def press(monkeypatch):
    """Raises the interrupt; from then on the objective must not be evaluated, and no shard may be asked."""
    pressed: list[bool] = []

    def unless_pressed(usual):
        def checked(*arguments, **options):
            assert not pressed, "The samples were asked after the interrupt."
            return usual(*arguments, **options)

        return checked

    monkeypatch.setattr(Objective, "value_grad", unless_pressed(Objective.value_grad))
    monkeypatch.setattr(ShardedProblem, "__init__", unless_pressed(ShardedProblem.__init__))

    def interrupt(*_):
        pressed.append(True)
        raise KeyboardInterrupt

    return interrupt


def at(iteration, press):
    return lambda state: press() if state.iteration == iteration else None


@pytest.mark.parametrize("by", ["term", "component"])
def test_a_search_for_weights_keeps_its_last_fit(press, by):
    options = ff.AutoWeights(by=by)
    fit = ff.fit(MODEL, X, "PL1 + 0.5*FL", weights=options, shards=3, progress=at(2, press))
    assert fit.interrupted
    assert fit.weights is not None
    assert fit.weights.interrupted
    assert np.isfinite([fit.objective, fit.gradient_norm]).all()
    assert fit.theta.any()


def test_the_objective_of_an_interrupted_search_is_that_of_its_weights(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fieldfit.weights.algorithm._Alternation._judged", interrupt)
    fit = ff.fit(MODEL, X, "PL1 + 0.5*FL", weights="auto")
    assert fit.interrupted
    value, gradient = fit.needed.objective.value_grad(fit.theta)
    assert fit.objective == pytest.approx(-value, rel=1e-12)
    assert fit.gradient_norm == pytest.approx(np.abs(gradient).max(), abs=1e-8)


def test_a_search_for_weights_that_ends_before_its_first_evaluation(monkeypatch, press):
    monkeypatch.setattr("fieldfit.weights.algorithm._Alternation._round", press)
    fit = ff.fit(MODEL, X, "PL1 + 0.5*FL", weights="auto", shards=3)
    assert fit.interrupted
    assert np.isnan([fit.objective, fit.gradient_norm]).all()
    assert not fit.theta.any()


def test_the_best_parameters_of_early_stopping_are_not_evaluated_again(press):
    scores = iter([0.0, 2.0, 1.0, 0.5])
    stopping = ff.EarlyStopping(lambda _: next(scores), patience=5)
    seen = []

    def tell(state):
        seen.append(state)
        at(3, press)(state)

    fit = ff.fit(MODEL, X, "PL1", method="lbfgs", tol=1e-12, stopping=stopping, progress=tell)
    assert fit.interrupted
    assert stopping.best_theta is not None
    assert fit.theta.tobytes() == stopping.best_theta.tobytes()
    assert fit.objective == -seen[1].value
    assert fit.gradient_norm == seen[1].gradient_norm


def test_a_start_whose_tolerance_is_not_known_yet(monkeypatch, press):
    monkeypatch.setattr("fieldfit.api.solve.start_tolerance", press)
    fit = ff.fit(MODEL, X, "PL1 >> FL")
    assert fit.interrupted
    assert str(fit.policy) == "PL1"
    assert np.isnan(fit.objective)
