"""Estimators of sentences, tables and graphs go on from a checkpoint and end with the bits of an uninterrupted fit."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.chains import SentenceFiles
from fieldfit.data.container import read_container, write_container
from fieldfit.estimators.symbol_tagger import SymbolTagger
from fieldfit.types import FieldfitError


def sentences(n, seed):
    """Sentences whose labels depend on the words, with noise."""
    random = np.random.default_rng(seed)
    X = [[f"w{word}" for word in random.integers(0, 30, random.integers(1, 9))] for _ in range(n)]
    return X, [["ABC"[(int(word[1:]) + int(random.random() < 0.2)) % 3] for word in sentence] for sentence in X]


def columns(X, y):
    """The sentences as the text of a file."""
    return "\n".join(
        "".join(f"{word} {tag}\n" for word, tag in zip(words, tags, strict=True))
        for words, tags in zip(X, y, strict=True)
    )


def stopping_at(iteration):
    def tell(progress):
        if progress.iteration == iteration:
            raise KeyboardInterrupt

    return tell


TAGGERS: list[dict[str, Any]] = [
    {"policy": "FL"},
    {"policy": "PL1@0.5 + 0.3*FL@0.5", "random_state": 3},
    {"policy": "PL1", "l1": 0.5, "sigma2": 5.0},
    {"policy": "FL", "l1": 4.0, "sigma2": None, "all_pairs": True},
    {"policy": "FL", "order": 2},
    {"policy": "FL", "method": "newton"},
]


@pytest.mark.parametrize("options", TAGGERS, ids=str)
@pytest.mark.parametrize("more", [{}, {"shards": 3}], ids=["", "shards"])
def test_taggers(tmp_path, options, more):
    X, y = sentences(40, 0)
    whole = ff.CRFTagger(tol=1e-7, **options).fit(X, y, **more)
    state = tmp_path / "state"
    part = ff.CRFTagger(tol=1e-7, **options).fit(X, y, progress=stopping_at(2), checkpoint=state, **more)
    assert part.fit_.interrupted
    assert whole.n_iter_ > 2
    rest = ff.CRFTagger(tol=1e-7, **options).fit(X, y, checkpoint=ff.Checkpoint(state, resume=True), **more)
    assert rest.fit_.theta.tobytes() == whole.fit_.theta.tobytes()
    assert rest.n_iter_ == whole.n_iter_


def test_files_of_sentences(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.conll").write_text(columns(*sentences(12, number)))
    files = SentenceFiles.matching(str(tmp_path / "*.conll"))
    whole = ff.CRFTagger("FL", tol=1e-7).fit(files)
    state = tmp_path / "state"
    ff.CRFTagger("FL", tol=1e-7).fit(files, progress=stopping_at(2), checkpoint=state)
    rest = ff.CRFTagger("FL", tol=1e-7).fit(files, checkpoint=ff.Checkpoint(state, resume=True))
    assert rest.fit_.theta.tobytes() == whole.fit_.theta.tobytes()


@pytest.mark.parametrize("stop", [0, 1, 2, 4])
@pytest.mark.parametrize("policy", ["FL", "PL1@0.5 + 0.3*FL@0.5"])
def test_stochastic_gradients(tmp_path, stop, policy):
    def tagger(**options):
        return ff.CRFTagger(policy, sigma2=1.0, method="sgd", random_state=3, **options)

    X, y = sentences(200, 0)
    whole, state = tagger().fit(X, y), tmp_path / "state"
    assert whole.n_iter_ >= 4
    part = tagger().fit(X, y, progress=stopping_at(stop), checkpoint=ff.Checkpoint(state, every=0))
    assert part.fit_.interrupted
    for _ in range(2):  # the second time nothing is left to do
        told = list[str]()
        rest = tagger().fit(X, y, checkpoint=ff.Checkpoint(state, resume=True, tell=told.append))
        assert rest.fit_.theta.tobytes() == whole.fit_.theta.tobytes()
        assert (rest.n_iter_, rest.fit_.objective) == (whole.n_iter_, whole.fit_.objective)
        assert rest.fit_.message == whole.fit_.message
        assert "the state after" in told[0]
    fewer = tagger(max_iter=2).fit(X, y, checkpoint=ff.Checkpoint(state, resume=True))  # than the file has
    assert fewer.n_iter_ == whole.n_iter_
    header, arrays = read_container(state)
    for damage in (
        {"x": arrays["x"][1:]},
        {"average": arrays["average"][None]},
        {"rate": np.zeros(2)},
        {"rate": np.array([np.nan])},
        {"history": arrays["history"][:0]},
        {"history": arrays["history"].ravel()},
    ):
        write_container(state, header, arrays | damage)
        with pytest.raises(FieldfitError, match="not one of this optimiser"):
            tagger().fit(X, y, checkpoint=ff.Checkpoint(state, resume=True))


@pytest.mark.parametrize("stop", [0, 3, 4])
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("method", ["auto", "sgd"])
def test_early_stopping(tmp_path, stop, every, method):
    X, y = sentences(40, 0)
    X_dev, y_dev = sentences(30, 1)

    def tagger():
        sigma2 = None if method == "auto" else 10.0
        return ff.CRFTagger("FL", sigma2=sigma2, tol=1e-9, max_iter=60, patience=3, check_every=every, method=method)

    whole = tagger().fit(X, y, X_dev, y_dev)
    assert len(whole.development_scores_) > 3
    state = tmp_path / "state"
    tagger().fit(X, y, X_dev, y_dev, progress=stopping_at(stop), checkpoint=ff.Checkpoint(state, every=0))
    rest = tagger().fit(X, y, X_dev, y_dev, checkpoint=ff.Checkpoint(state, resume=True))
    assert rest.fit_.theta.tobytes() == whole.fit_.theta.tobytes()
    assert rest.development_scores_ == whole.development_scores_
    assert rest.fit_.message == whole.fit_.message
    again = tagger().fit(X, y, X_dev, y_dev, checkpoint=ff.Checkpoint(state, resume=True))  # nothing is left to do
    assert again.fit_.theta.tobytes() == whole.fit_.theta.tobytes()
    assert again.development_scores_ == whole.development_scores_


def test_other_development_data_are_refused(tmp_path):
    X, y = sentences(40, 0)
    X_dev, y_dev = sentences(30, 1)
    state, told = tmp_path / "state", list[str]()
    resumed = ff.Checkpoint(state, resume=True, tell=told.append)
    ff.CRFTagger("FL", check_every=1).fit(X, y, X_dev, y_dev, progress=stopping_at(3), checkpoint=state)
    with pytest.raises(FieldfitError, match="other development data"):
        ff.CRFTagger("FL", check_every=1).fit(X, y, *sentences(31, 2), checkpoint=resumed)
    with pytest.raises(FieldfitError, match="another rule for early stopping"):
        ff.CRFTagger("FL", check_every=2).fit(X, y, X_dev, y_dev, checkpoint=resumed)
    assert not told
    header, arrays = read_container(state)
    best = arrays["development_best"]
    for damage in (
        {"development": np.zeros(3)},
        {"development_best": best[:-1]},
        {"development_best": np.full_like(best, np.nan)},
        {"development": np.full((2, 2), np.inf)},
    ):
        write_container(state, header, arrays | damage)
        with pytest.raises(FieldfitError, match="not one of a fit with early stopping"):
            ff.CRFTagger("FL", check_every=1).fit(X, y, X_dev, y_dev, checkpoint=resumed)
    write_container(state, header, {name: array for name, array in arrays.items() if name != "development"})
    with pytest.raises(FieldfitError, match="not one of a fit with early stopping"):
        ff.CRFTagger("FL", check_every=1).fit(X, y, X_dev, y_dev, checkpoint=resumed)


def test_tables_and_graphs(tmp_path):
    X = ff.BoltzmannMachine(5).sample(np.full(10, 0.4), 300, random_state=0).values
    whole = ff.PairwiseField(tol=1e-9).fit(X)
    field = ff.PairwiseField(tol=1e-9, max_iter=1)
    with pytest.warns(ff.types.ConvergenceWarning):
        field.fit(X, checkpoint=tmp_path / "table")
    rest = ff.PairwiseField(tol=1e-9).fit(X, checkpoint=ff.Checkpoint(tmp_path / "table", resume=True))
    assert rest.fit_.theta.tobytes() == whole.fit_.theta.tobytes()

    covariates = np.linspace(-1, 1, 36)[:, None]
    labels = (np.random.default_rng(0).random(36) < 0.5 + 0.4 * covariates[:, 0]).astype(int)
    graph: dict[str, Any] = {"grid": (6, 6), "sigma2": 10.0}
    best = ff.GraphCRF(**graph).fit(covariates, labels)
    with pytest.warns(ff.types.ConvergenceWarning):
        ff.GraphCRF(**graph, max_iter=1).fit(covariates, labels, checkpoint=tmp_path / "graph")
    again = ff.GraphCRF(**graph).fit(covariates, labels, checkpoint=ff.Checkpoint(tmp_path / "graph", resume=True))
    assert again.fit_.theta.tobytes() == best.fit_.theta.tobytes()


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(columns(*sentences(60, 0)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["crf", "boltzmann-chain"])
def test_the_commands(train, tmp_path, monkeypatch, capsys, kind):
    from contextlib import contextmanager

    from fieldfit.cli.app import run

    command = ["fit", kind, str(train), "--tol", "1e-7", "--json"]
    assert run([*command, "--out", str(tmp_path / "whole.ff")]) == 0
    command += ["--checkpoint", str(tmp_path / "state"), "--out", str(tmp_path / "fit.ff")]

    @contextmanager
    def interrupted(*_):
        yield stopping_at(2)

    with monkeypatch.context() as patch:
        patch.setattr("fieldfit.cli.progress.shown_progress", interrupted)
        assert run(command) == 130
    said = capsys.readouterr().err
    assert "fit.ff has the estimate so far" in said
    assert "state has the state, and the same command with --resume continues from there" in said
    assert run(command) == 2
    assert "exists" in capsys.readouterr().err
    assert run([*command, "--resume"]) == 0
    assert "has the state after 2 iterations" in capsys.readouterr().err
    assert ff.load(tmp_path / "fit.ff").theta.tobytes() == ff.load(tmp_path / "whole.ff").theta.tobytes()
    tagger = ff.CRFTagger if kind == "crf" else SymbolTagger
    assert tagger.load(tmp_path / "fit.ff").classes_ == ["A", "B", "C"]


SLOW = """
import sys, time
import fieldfit.cli.progress as shown
from contextlib import contextmanager
@contextmanager
def slow(*_):
    yield lambda progress: time.sleep(0.1)
shown.shown_progress = slow
from fieldfit.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "sgd"])
def test_a_killed_command_goes_on(train, tmp_path, method):
    state = tmp_path / "state"
    command = ["fit", "crf", str(train), "--tol", "1e-7", "--dev", str(train), "--check-every", "2"]
    command += ["--method", method, "--sigma2", "10"]
    kept = [*command, "--checkpoint", str(state), "--checkpoint-every", "0", "--out", str(tmp_path / "fit.ff")]
    process = subprocess.Popen([sys.executable, "-c", SLOW, *kept])
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if state.exists() and len(read_container(state)[1]["history"]) > 4:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "fit.ff").exists()
    start = [sys.executable, "-m", "fieldfit"]
    assert subprocess.run([*start, *kept, "--resume"], check=False).returncode == 0
    assert subprocess.run([*start, *command, "--out", str(tmp_path / "whole.ff")], check=False).returncode == 0
    assert ff.load(tmp_path / "fit.ff").theta.tobytes() == ff.load(tmp_path / "whole.ff").theta.tobytes()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
