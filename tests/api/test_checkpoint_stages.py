"""Checkpoints of fits with two stages, and of fits that stop by their sampling error: the bits of a fit without a stop."""

from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.checkpoint import SecondKeeper
from fieldfit.data.container import read_container, write_container
from fieldfit.refinement import scoring, separate_fits
from fieldfit.refinement.statistical import StatisticalStop
from fieldfit.types import FieldfitError

STAGED = ["PL1 >> FL", "0.5*PL1 >> PL2", "PL1 >> optimal", "PL1 >> 0.5*FL", "PL1 >> FL~1000"]


@pytest.fixture(scope="module")
def samples():
    model = ff.BoltzmannMachine(7, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.9, model.n_parameters)
    return model, model.sample(theta, 400, random_state=1).values


def interrupting(monkeypatch, target, name, number):
    """Ctrl-C at a call of a function; gives the calls that were made."""
    usual = getattr(target, name)
    calls: list[None] = []

    def counted(*given, **options):
        calls.append(None)
        if len(calls) == number:
            raise KeyboardInterrupt
        return usual(*given, **options)

    monkeypatch.setattr(target, name, counted)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("policy", STAGED)
@pytest.mark.parametrize("shards", [None, 3])
def test_a_stop_in_the_first_stage(samples, tmp_path, policy, shards):
    model, values = samples
    options = {"method": "lbfgs", "random_state": 4, "shards": shards}
    whole = ff.fit(model, values, policy, **options)

    def interrupt(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    path = tmp_path / "state"
    part = ff.fit(model, values, policy, checkpoint=path, progress=interrupt, **options)
    assert part.interrupted
    assert part.refinement is None
    rest = ff.fit(model, values, policy, checkpoint=ff.Checkpoint(path, resume=True), **options)
    assert rest.theta.tobytes() == whole.theta.tobytes()
    assert str(rest.estimator) == str(whole.estimator)
    assert rest.converged
    assert (rest.iterations, rest.evaluations) == (whole.iterations, whole.evaluations)
    # The file of a fit that has ended gives the same once more.
    again = ff.fit(model, values, policy, checkpoint=ff.Checkpoint(path, resume=True), **options)
    assert again.theta.tobytes() == whole.theta.tobytes()


@pytest.mark.parametrize("stop", [1, 2])
@pytest.mark.parametrize("policy", ["PL1 >> FL", "PL1 >> PL3"])
def test_a_stop_in_a_second_stage_that_is_a_policy(samples, tmp_path, monkeypatch, policy, stop):
    model, values = samples
    whole = ff.fit(model, values, policy, sigma2=50.0)
    path = tmp_path / "state"
    judged = []

    def interrupt(rule, state, x, usual=StatisticalStop._judge):
        if state.iteration == stop:
            judged.append(state)
            raise KeyboardInterrupt
        return usual(rule, state, x)

    with monkeypatch.context() as patched:
        patched.setattr(StatisticalStop, "_judge", interrupt)
        part = ff.fit(model, values, policy, sigma2=50.0, checkpoint=path)
    assert judged
    assert part.interrupted
    header, arrays = read_container(path)
    assert header["second"]["policy"] == policy
    assert len(arrays["second.history"]) == stop + 1
    started = []

    def begun(keeper, *given, usual=SecondKeeper.__init__):
        usual(keeper, *given)
        started.append(keeper.saved)

    monkeypatch.setattr(SecondKeeper, "__init__", begun)
    rest = ff.fit(model, values, policy, sigma2=50.0, checkpoint=ff.Checkpoint(path, resume=True))
    assert rest.theta.tobytes() == whole.theta.tobytes()
    assert rest.message == whole.message
    assert len(started[0]["history"]) == stop + 1


def test_each_step_of_simulated_scoring_can_be_the_last(samples, tmp_path, monkeypatch):
    model, values = samples
    whole = ff.fit(model, values, "PL1 >> FL~1000")
    steps = vars(whole.refinement.account)["steps"]
    for stop in range(1, steps + 1):
        path = tmp_path / f"state{stop}"
        with monkeypatch.context() as patched:
            calls = interrupting(patched, scoring, "_draw", stop)
            with pytest.raises(KeyboardInterrupt):
                ff.fit(model, values, "PL1 >> FL~1000", checkpoint=path)
        assert len(calls) == stop
        with monkeypatch.context() as patched:
            calls = interrupting(patched, scoring, "_draw", -1)
            rest = ff.fit(model, values, "PL1 >> FL~1000", checkpoint=ff.Checkpoint(path, resume=True))
        assert len(calls) == steps - stop + 1
        assert rest.theta.tobytes() == whole.theta.tobytes()
        assert rest.standard_errors().tobytes() == whole.standard_errors().tobytes()


@pytest.mark.parametrize("stop", range(1, 8))
def test_statistical_tolerance(samples, tmp_path, stop):
    model, values = samples
    options: dict[str, Any] = {"tol": "statistical", "method": "lbfgs"}
    whole = ff.fit(model, values, "PL1 + PL2", **options)

    def interrupt(progress):
        if progress.iteration == stop:
            raise KeyboardInterrupt

    ff.fit(model, values, "PL1 + PL2", checkpoint=tmp_path / "state", progress=interrupt, **options)
    rest = ff.fit(model, values, "PL1 + PL2", checkpoint=ff.Checkpoint(tmp_path / "state", resume=True), **options)
    assert rest.theta.tobytes() == whole.theta.tobytes()
    assert (rest.iterations, rest.evaluations, rest.message) == (whole.iterations, whole.evaluations, whole.message)


@pytest.mark.slow
@pytest.mark.parametrize("shards", [None, 2])
def test_separate_fits(samples, tmp_path, monkeypatch, shards):
    """Each stop comes one fit later than the one before it; fits on shards have one answer."""
    model, values = samples
    usual, policy, told = separate_fits.fit_node, "Nodewise >> optimal", list[str]()
    whole = ff.fit(model, values, policy, shards=shards)
    path = tmp_path / "state"
    kept = ff.Checkpoint(path, every=0, resume=True, tell=told.append)
    for _ in range(model.m - 1 if shards is None else 1):
        with monkeypatch.context() as patch:
            interrupting(patch, separate_fits, "fit_node", 2)
            with pytest.raises(KeyboardInterrupt):
                ff.fit(model, values, policy, checkpoint=kept, shards=shards)
    assert separate_fits.fit_node is usual
    if shards is None:
        assert told[-1].endswith(f"has {model.m - 2} separate fits")
    for _ in range(2):
        rest = ff.fit(model, values, policy, checkpoint=kept, shards=shards)
        assert rest.theta.tobytes() == whole.theta.tobytes()
        assert (rest.iterations, rest.evaluations) == (whole.iterations, whole.evaluations)
        assert rest.standard_errors().tobytes() == whole.standard_errors().tobytes()
    header, arrays = read_container(path)
    for name, array in arrays.items():
        write_container(path, header, arrays | {name: array[..., :-1]})
        with pytest.raises(FieldfitError, match="saved state is not one of"):
            ff.fit(model, values, policy, checkpoint=kept, shards=shards)
    estimates = "nodes" if shards is None else "products"
    write_container(path, header, arrays | {estimates: np.full_like(arrays[estimates], np.nan)})
    with pytest.raises(FieldfitError, match="saved state is not one of"):
        ff.fit(model, values, policy, checkpoint=kept, shards=shards)


def test_other_estimators_and_damage_are_refused(samples, tmp_path, monkeypatch):
    model, values = samples
    path = tmp_path / "state"
    ff.fit(model, values, "PL1 >> FL", checkpoint=path)
    resumed = ff.Checkpoint(path, resume=True)
    for policy in ("PL1", "PL1 >> PL2", "PL1 >> optimal"):
        with pytest.raises(FieldfitError, match="another policy"):
            ff.fit(model, values, policy, checkpoint=resumed)
    header, arrays = read_container(path)
    for change in ({"second.judgement": np.zeros(3)}, {"second.judged": np.zeros(2)}, {"second.x": np.zeros(3)}):
        write_container(path, header, arrays | change)
        with pytest.raises(FieldfitError, match="saved state is not one of"):
            ff.fit(model, values, "PL1 >> FL", checkpoint=resumed)
    path = tmp_path / "draws"
    ff.fit(model, values, "PL1 >> FL~1000", checkpoint=ff.Checkpoint(path, every=0))
    header, arrays = read_container(path)
    for change in (
        {"second.states": arrays["second.states"] + 2},
        {"second.states": arrays["second.states"][:1]},
        {"second.theta": arrays["second.theta"] * np.nan},
        {"second.numbers": np.array([1.0, 5.0, 99.0])},
    ):
        write_container(path, header, arrays | change)
        with pytest.raises(FieldfitError, match="not one of this second stage"):
            ff.fit(model, values, "PL1 >> FL~1000", checkpoint=ff.Checkpoint(path, resume=True))


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
def test_another_tolerance_continues_the_fit(samples, tmp_path, method):
    """From a number to the statistical one; a smaller one gives the bits of a fit that had it from the start."""
    model, values = samples
    options = {"method": method, "random_state": 4}

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    def resumed(path, tol):
        return ff.fit(model, values, "PL1", tol=tol, checkpoint=ff.Checkpoint(path, resume=True), **options)

    tolerances: list[tuple[Any, Any]] = [(1e-9, "statistical"), ("statistical", 1e-9), (1e-3, 1e-9)]
    for first, then in tolerances:
        path = tmp_path / f"{first} {then}"
        part = ff.fit(model, values, "PL1", tol=first, checkpoint=path, progress=interrupt, **options)
        whole = ff.fit(model, values, "PL1", tol=then, **options)
        assert part.iterations == 2 < whole.iterations
        assert resumed(path, then).theta.tobytes() == whole.theta.tobytes()
        assert resumed(path, 1e-2).theta.tobytes() == whole.theta.tobytes()  # more accurate than asked for


def test_the_second_stage_takes_a_larger_tolerance(samples, tmp_path):
    """Its smallest ones are numbers, and from the default on it stops by its sampling error."""
    model, values = samples
    first = ff.fit(model, values, "PL1 >> FL", tol=1e-8, checkpoint=tmp_path / "state")
    again = ff.fit(model, values, "PL1 >> FL", tol=1e-3, checkpoint=ff.Checkpoint(tmp_path / "state", resume=True))
    assert again.converged
    assert again.theta.tobytes() == first.theta.tobytes()
