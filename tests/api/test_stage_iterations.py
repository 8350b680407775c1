"""`max_iter` and `progress` in the stages of an estimator that has two."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import ConvergenceWarning

MODEL = ff.BoltzmannMachine(4)
X = MODEL.sample([0.3, -0.4, 0.5, -0.2, 0.6, 0.1], 400, random_state=0).values
STAGED = ("PL1 >> FL", "PL1 >> optimal", "PL1 >> 0.3*FL", "PL1 >> FL~2000", "Nodewise >> optimal")


class Told:
    """Remembers the iterations of each stage or separate fit, and asks to stop at an iteration of one of them."""

    def __init__(self, stage=None, iteration=None):
        self.stop, self.stages = (stage, iteration), list[list[int]]()

    def __call__(self, state):
        if state.iteration == 0:
            self.stages.append([])
        self.stages[-1].append(state.iteration)
        return (len(self.stages) - 1, state.iteration) == self.stop


@pytest.mark.parametrize("policy", STAGED)
@pytest.mark.parametrize("max_iter", [0, 1])
def test_no_stage_has_more_iterations_than_allowed(policy, max_iter):
    told = Told()
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        fit = ff.fit(MODEL, X, policy, max_iter=max_iter, progress=told)
    assert len(told.stages) == (4 if policy.startswith("Nodewise") else 2)
    assert all(iterations == list(range(max_iter + 1)) for iterations in told.stages)
    assert not fit.converged
    assert "iteration limit" in fit.message
    assert "converged:" not in fit.summary()


@pytest.mark.parametrize("policy", STAGED)
def test_a_second_stage_can_be_stopped(policy):
    usual, told = ff.fit(MODEL, X, policy), Told(stage=1, iteration=0)
    with pytest.warns(ConvergenceWarning, match="stopped by the callback"):
        fit = ff.fit(MODEL, X, policy, progress=told)
    assert told.stages[1:] == [[0]]
    assert usual.converged
    assert not fit.converged
    assert "stopped by the callback" in fit.message
    assert str(fit.estimator) == policy
    assert not np.array_equal(fit.theta, usual.theta)


@pytest.mark.parametrize("policy", STAGED)
def test_progress_leaves_a_fit_as_it_is(policy):
    told = Told()
    fit = ff.fit(MODEL, X, policy, progress=told)
    assert fit.converged
    assert fit.theta.tobytes() == ff.fit(MODEL, X, policy).theta.tobytes()
    assert all(iterations == list(range(len(iterations))) for iterations in told.stages)


def test_a_first_stage_that_is_stopped_is_the_fit():
    with pytest.warns(ConvergenceWarning, match="stopped by the callback"):
        fit = ff.fit(MODEL, X, "PL1 >> FL", progress=Told(stage=0, iteration=1))
    assert str(fit.estimator) == "PL1"
    assert fit.message == "stopped by the callback"
    assert fit.iterations == 1


def test_a_first_stage_that_was_cut_off_is_told_where_the_second_converged():
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        fit = ff.fit(MODEL, X, "PL1 >> FL", max_iter=3)
    assert fit.converged
    assert fit.message.endswith("(first stage stopped: iteration limit)")


def test_separate_fits_in_shards():
    told = Told()
    assert ff.fit(MODEL, X, "Nodewise >> optimal", shards=3, progress=told).converged
    assert told.stages == [[0, 1]]
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        cut = ff.fit(MODEL, X, "Nodewise >> optimal", shards=3, max_iter=1)
    assert not cut.converged
    with pytest.warns(ConvergenceWarning, match="stopped by the callback"):
        stopped = ff.fit(MODEL, X, "Nodewise >> optimal", shards=3, progress=Told(0, 0))
    assert not stopped.converged
    assert stopped.iterations == 0


@pytest.mark.parametrize("shards", [None, 3])
def test_separate_fits_that_were_cut_off_are_continued(tmp_path, shards):
    path = tmp_path / "state"
    usual = ff.fit(MODEL, X, "Nodewise >> optimal", shards=shards)
    with pytest.warns(ConvergenceWarning):
        ff.fit(MODEL, X, "Nodewise >> optimal", shards=shards, max_iter=1, checkpoint=path)
    again = ff.fit(MODEL, X, "Nodewise >> optimal", shards=shards, checkpoint=ff.Checkpoint(path, resume=True))
    assert again.converged
    assert again.theta.tobytes() == usual.theta.tobytes()


@pytest.mark.parametrize("policy", ["PL1 >> optimal", "PL1 >> FL~2000", "Nodewise >> optimal"])
def test_a_loaded_fit_has_the_stage_that_was_cut_off(tmp_path, policy):
    with pytest.warns(ConvergenceWarning):
        fit = ff.fit(MODEL, X, policy, max_iter=2, random_state=1)
    fit.save(tmp_path / "a.ff")
    loaded = ff.load(tmp_path / "a.ff", X)
    assert not loaded.converged
    assert loaded.refinement is not None
    assert loaded.refinement.needed.theta.tobytes() == fit.theta.tobytes()
