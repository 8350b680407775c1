"""Computations of many parts continue from a file with the finished ones, and end with the same bits."""

import contextlib
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
from fieldfit import networks
from fieldfit.api import finished_parts
from fieldfit.cli.app import run
from fieldfit.data.container import read_container, write_container
from fieldfit.optim import Progress
from fieldfit.shards.backend import LocalBackend
from fieldfit.types import FieldfitError, FileAccessError

MODEL = ff.BoltzmannMachine(4, biases=True)


@pytest.fixture(scope="module")
def answers():
    values = MODEL.sample(np.linspace(-0.8, 0.8, 10), 300, random_state=0).values
    return pd.DataFrame(values, columns=list("abcd")).assign(group=["x", "y"] * 150)


def only(frame):
    return frame[list("abcd")]


def validated(frame, **more):
    return ff.cross_validate(MODEL, only(frame), ["PL1", "FL"], sigma2=[None, 1.0], folds=3, **more)


def resampled(frame, **more):
    drawn = networks.bootstrap(only(frame), resamples=40, **more)
    return np.concatenate([drawn.couplings, drawn.debiased])


def compared(frame, **more):
    found = networks.compare_groups(frame, by="group", permutations=20, **more)
    return np.concatenate([found.differences.ravel(), found.strengths])


def stable(frame, **more):
    return networks.stability_selection(only(frame), pairs=20, **more).shares


def analysed(frame, **more):
    return networks.analyse(only(frame), resamples=40, **more).edges


COMPUTATIONS = [validated, resampled, compared, stable, analysed]


def same(first, second):
    if isinstance(first, pd.DataFrame):
        pd.testing.assert_frame_equal(first, second, check_exact=True)
    else:
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("computation", COMPUTATIONS)
@pytest.mark.parametrize("every", [0.0, 60.0])
def test_the_same_bits_after_a_stop_at_any_part(tmp_path, monkeypatch, answers, computation, every):
    """Ctrl-C in the first part that is computed, then in the second, and so on until nothing is left to compute."""
    whole, state = computation(answers), tmp_path / "state"
    usual = finished_parts.PartsKeeper.part

    def until(most):
        computed = 0

        def part(keeper, shapes, compute):
            def counted():
                nonlocal computed
                computed += 1
                if computed > most:
                    raise KeyboardInterrupt
                return compute()

            return usual(keeper, shapes, counted)

        return part

    told = list[str]()
    for round_number in range(20):
        with monkeypatch.context() as patch:
            patch.setattr(finished_parts.PartsKeeper, "part", until(1))
            try:
                last = computation(answers, checkpoint=ff.Checkpoint(state, every, resume=True, tell=told.append))
                break
            except KeyboardInterrupt:
                assert len(told) == round_number
    assert round_number >= 2
    same(last, whole)
    assert told[-1].endswith("finished parts")
    with monkeypatch.context() as patch:
        patch.setattr(finished_parts.PartsKeeper, "part", until(0))
        same(computation(answers, checkpoint=ff.Checkpoint(state, resume=True)), whole)


@pytest.mark.slow
def test_other_computations_and_damage_are_refused(tmp_path, answers):
    state = tmp_path / "state"
    resumed = ff.Checkpoint(state, resume=True)
    resampled(answers, checkpoint=state)
    with pytest.raises(FileAccessError, match="resume=True"):
        resampled(answers, checkpoint=state)
    for other, meaning in (
        (lambda: resampled(answers.iloc[1:], checkpoint=resumed), "set of samples"),
        (lambda: resampled(answers, gamma=0.5, checkpoint=resumed), "gamma"),
        (lambda: resampled(answers, random_state=1, checkpoint=resumed), "random state"),
        (lambda: networks.bootstrap(only(answers), resamples=41, checkpoint=resumed), "number of resamples"),
        (lambda: compared(answers, checkpoint=resumed), "kind"),
        (lambda: validated(answers, checkpoint=resumed), "kind"),
    ):
        with pytest.raises(FieldfitError, match=f"another computation: it had another {meaning}"):
            other()
    header, arrays = read_container(state)
    folds = ff.Checkpoint(tmp_path / "folds", resume=True)
    x, model = only(answers), MODEL
    ff.cross_validate(model, x, folds=2, sigma2=1.0, backend=LocalBackend(), checkpoint=folds)
    ff.cross_validate(model, x, folds=2, sigma2=1.0, backend=LocalBackend(), progress=print, checkpoint=folds)
    for options, meaning in (
        ({"folds": 3, "sigma2": 1.0}, "number of folds"),
        ({"folds": 2, "sigma2": 2.0}, "penalty or option"),
        ({"folds": 2, "sigma2": 1.0, "sample_weight": np.arange(len(x)) % 2 + 1.0}, "set of samples or weights"),
    ):
        with pytest.raises(FieldfitError, match=f"another computation: it had another {meaning}"):
            ff.cross_validate(model, x, backend=LocalBackend(), checkpoint=folds, **options)
    for damage in (
        {"0.couplings": arrays["0.couplings"][:-1]},
        {"0.couplings": arrays["0.couplings"].astype(np.float32)},
        {"0.couplings": np.array(1.0)},
    ):
        write_container(state, header, arrays | damage)
        with pytest.raises(FieldfitError, match="is damaged: its array"):
            resampled(answers, checkpoint=resumed)
    for damage in ({"parts": np.array([-1])}, {"parts": np.array([1, 2])}, {"parts": np.array(3.0)}):
        write_container(state, header, arrays | damage)
        with pytest.raises(FieldfitError, match="no finished parts"):
            resampled(answers, checkpoint=resumed)
    write_container(state, header | {"belongs_to": [3]}, arrays)
    with pytest.raises(FieldfitError, match="another computation"):
        resampled(answers, checkpoint=resumed)
    state.unlink()
    ff.fit(MODEL, only(answers), checkpoint=state)
    with pytest.raises(FieldfitError, match="it is of a fit, or damaged"):
        resampled(answers, checkpoint=resumed)
    state.unlink()
    resampled(answers, checkpoint=state)
    with pytest.raises(FieldfitError, match="does not say which fit"):
        ff.fit(MODEL, only(answers), checkpoint=resumed)


@pytest.mark.slow
def test_cross_validation_of_a_tagger(tmp_path, monkeypatch):
    X = [[f"w{(3 * i + j) % 17}" for j in range(2 + i % 5)] for i in range(40)]
    y = [[("A", "B")[int(word[1:]) % 2] for word in sentence] for sentence in X]
    whole = ff.CRFTagger("FL", sigma2="cv").fit(X, y)
    usual, state = finished_parts.PartsKeeper.part, tmp_path / "state"

    def fourth(keeper, shapes, compute):
        if keeper._begun == 1 and keeper._next == 1:
            raise KeyboardInterrupt
        return usual(keeper, shapes, compute)

    with monkeypatch.context() as patch:
        patch.setattr(finished_parts.PartsKeeper, "part", fourth)
        with pytest.raises(KeyboardInterrupt):
            ff.CRFTagger("FL", sigma2="cv").fit(X, y, checkpoint=state)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.cv"]
    assert read_container(tmp_path / "state.cv")[1]["parts"].tolist() == [3, 1]
    rest = ff.CRFTagger("FL", sigma2="cv").fit(X, y, checkpoint=ff.Checkpoint(state, resume=True))
    assert rest.fit_.theta.tobytes() == whole.fit_.theta.tobytes()
    pd.testing.assert_frame_equal(rest.cv_results_, whole.cv_results_, check_exact=True)


def test_an_interrupted_fit_is_not_a_part(monkeypatch, answers):
    """A fit returns what it has after Ctrl-C; folds and simulated datasets must not use that."""
    whole = ff.fit(MODEL, only(answers))
    usual, calls = Progress, list[int]()

    def stopped(*given, **more):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return usual(*given, **more)

    monkeypatch.setattr("fieldfit.optim.descent.Progress", stopped)
    for computation in (
        lambda: validated(answers),
        lambda: whole.goodness_of_fit(n_simulated=3, refit=True),
        lambda: whole.bootstrap(3),
        lambda: whole.bootstrap_test("a:b", n_simulated=3),
        lambda: ff.fit(MODEL, only(answers), "Nodewise >> optimal"),
        lambda: ff.project(MODEL, np.arange(1.0, 17.0) / 136),
    ):
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            computation()


@pytest.mark.slow
def test_a_killed_command_goes_on(tmp_path, answers, capsys, monkeypatch):
    """The command has 251 parts; three processes are killed after about 50 of them."""
    monkeypatch.chdir(tmp_path)
    answers.to_csv("answers.csv", index=False)
    command = ["network", "answers.csv", "--by", "group", "--bootstrap", "1000", "--permutations", "1000", "--json"]
    assert run(command) == 0
    whole = capsys.readouterr().out
    state = tmp_path / "state"
    kept = [sys.executable, "-m", "fieldfit", *command, "--checkpoint", "state", "--checkpoint-every", "0"]
    for round_number in range(3):
        process = subprocess.Popen([*kept, "--resume"], stdout=subprocess.DEVNULL)
        deadline, before = time.monotonic() + 120, None
        while time.monotonic() < deadline and process.poll() is None:
            if state.exists():
                count = int(read_container(state)[1]["parts"].sum())
                before = count if before is None else before
                if count > before + 8 * (round_number + 1):
                    break
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    rest = subprocess.run([*kept, "--resume"], capture_output=True, text=True, check=True)
    assert rest.stdout == whole
    assert "finished parts" in rest.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.csv", "state"]


@pytest.mark.parametrize("stop", [1, 7, 12])
def test_warnings_of_finished_parts_come_again(tmp_path, monkeypatch, answers, stop):
    """Folds whose fits did not converge say so in the run that takes them from the file, in their order."""

    def heard(most, **more):
        usual, parts = finished_parts.PartsKeeper.part, 0

        def part(keeper, shapes, compute):
            nonlocal parts
            parts += 1
            if parts > most:
                raise KeyboardInterrupt
            return usual(keeper, shapes, compute)

        monkeypatch.setattr(finished_parts.PartsKeeper, "part", part)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with contextlib.suppress(KeyboardInterrupt):
                validated(answers, max_iter=1, **more)
        monkeypatch.undo()
        assert all(warning.filename == __file__ for warning in caught)
        return [(warning.category, str(warning.message)) for warning in caught]

    whole = heard(99)
    assert len(whole) == 12
    state = tmp_path / "state"
    assert heard(stop, checkpoint=state) == whole[:stop]
    assert heard(99, checkpoint=ff.Checkpoint(state, resume=True)) == whole


def test_changed_warnings_are_refused(tmp_path, answers):
    state, changed = tmp_path / "state", tmp_path / "changed"
    validated(answers, checkpoint=state)
    header, arrays = read_container(state, kind="checkpoint")
    kept = {"kind": "checkpoint", "belongs_to": header["belongs_to"]}
    wrong: list[Any] = [[], [[]] * 4, [[[]] * 2] * 4, [[[["ConvergenceWarning"]]] * 3] * 4, [[[["a", 1]]] * 3] * 4, 1]
    for said in wrong:
        write_container(changed, kept | {"warnings": said}, arrays)
        with pytest.raises(FieldfitError, match="damaged: its warnings"):
            validated(answers, checkpoint=ff.Checkpoint(changed, resume=True))
    # A large number of parts takes no memory.
    many = arrays | {finished_parts.COUNTS: np.full(4, 10**12)}
    for fewer in (kept, kept | {"warnings": header["warnings"]}):
        write_container(changed, fewer, many)
        with pytest.raises(FieldfitError, match="damaged: its warnings"):
            validated(answers, checkpoint=ff.Checkpoint(changed, resume=True))
