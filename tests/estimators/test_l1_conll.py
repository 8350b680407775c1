"""L1 and elastic net on real sentences: the optimality conditions, and an objective no worse than CRFsuite's."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.columns import read_columns
from fieldfit.data.locate import find_data
from fieldfit.types import DataError


@pytest.fixture(scope="module")
def sentences():
    try:
        text = read_columns(find_data("conll2000/train.txt"))
    except DataError as error:
        pytest.skip(f"needs CoNLL-2000: {error}")
    words, pos, labels = (text.sentences(column)[:60] for column in range(3))

    def features(w, p, t):
        found = {"bias": True, "w": w[t], "p": p[t], "end": w[t][-3:]}
        if t:
            found |= {"p-1": p[t - 1], "w-1": w[t - 1]}
        if t + 1 < len(p):
            found |= {"p+1": p[t + 1], "w+1": w[t + 1]}
        return found

    X = [[features(w, p, t) for t in range(len(w))] for w, p in zip(words, pos, strict=True)]
    return X, labels


@pytest.mark.slow
@pytest.mark.parametrize(("c1", "c2"), [(0.5, 0.0), (1.0, 0.1)], ids=["l1", "elastic net"])
def test_the_optimum_is_no_worse_than_that_of_crfsuite(sentences, c1, c2, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite, the peer")
    X, y = sentences
    sigma2 = 1 / (2 * c2) if c2 else None
    fit = ff.CRFTagger(sigma2=sigma2, l1=c1, crfsuite_compatible=True, tol=1e-4).fit(X, y).fit_
    assert fit.converged
    assert fit.evaluations < 400

    value, gradient = fit.objective_function.value_grad(fit.theta)
    slack = np.where(fit.theta == 0, np.maximum(np.abs(gradient) - c1, 0), np.abs(gradient + c1 * np.sign(fit.theta)))
    assert slack.max() <= 1e-4 * len(X) * (1 + 1e-9)
    assert -fit.objective == pytest.approx(value + c1 * np.abs(fit.theta).sum(), rel=1e-12)
    assert 0.5 < (fit.theta == 0).mean() < 1

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for items, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(items), labels)
    trainer.set_params({"c1": c1, "c2": c2, "max_iterations": 300, "epsilon": 1e-7, "delta": 1e-8})
    trainer.train(str(tmp_path / "peer.crfsuite"))
    # CRFsuite's loss has the penalties too; it stops where it stops, so ours may only be lower, but for the tolerance.
    theirs = trainer.logparser.last_iteration
    assert -fit.objective <= theirs["loss"] * (1 + 1e-4)
    assert -fit.objective >= theirs["loss"] * (1 - 5e-3)
