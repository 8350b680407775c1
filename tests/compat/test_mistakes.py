"""The algorithms that learn from mistakes: against a plain implementation in Python, and against CRFsuite itself."""

import contextlib
import io
import itertools
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pycrfsuite
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from fieldfit.compat.sklearn_crfsuite import CRF
from fieldfit.compat.sklearn_crfsuite.mistakes import MistakeDriven, MistakeRule
from fieldfit.data.sequences import Sequences
from fieldfit.estimators.chain_training import completed
from fieldfit.estimators.crf_tagger import CRFTagger
from fieldfit.types import DataError, FieldfitError, ModelError

SETTINGS = [
    ("ap", {}),
    ("pa", {}),
    ("pa", {"pa_type": 0}),
    ("pa", {"pa_type": 2, "c": 0.3}),
    ("pa", {"c": 0.05, "error_sensitive": False}),
    ("pa", {"averaging": False}),
    ("arow", {}),
    ("arow", {"variance": 0.4, "gamma": 2.5}),
]


def sentences(n, seed, length=9):
    """Noisy labels of a small chain, some features with values."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = rng.integers(0, 3, rng.integers(1, length))
        X.append([
            {f"w{(3 * k + rng.integers(0, 4)) % 11}": 1.0, "size": float(rng.normal()), f"v{rng.integers(0, 5)}": 1.0}
            for k in labels
        ])  # fmt: skip
        y.append([f"l{k}" for k in labels])
    return X, y


def best_path(tokens, weights, labels):
    """By enumeration; ties go to the labels that come first, from the last token on."""

    def score(path):
        state = sum(
            weights.get((name, label), 0.0) * x
            for features, label in zip(tokens, path, strict=True)
            for name, x in features.items()
        )
        return state + sum(weights.get(pair, 0.0) for pair in itertools.pairwise(path))

    return max(itertools.product(labels, repeat=len(tokens)), key=score), score


def plain(X, y, orders, known, rule, **options):
    """The weights by name, without a kernel: the features of a path are counted in a dictionary."""
    labels = sorted({label for labels in y for label in labels})
    weights: dict[tuple[str, str], float] = {}
    second: dict[tuple[str, str], float] = {}
    visits = 1
    for order in orders:
        for i in order:
            guess, score = best_path(X[i], weights, labels)
            wrong = sum(a != b for a, b in zip(y[i], guess, strict=True))
            if wrong:
                delta: dict[tuple[str, str], float] = {}
                for path, sign in ((y[i], 1.0), (guess, -1.0)):
                    for features, label in zip(X[i], path, strict=True):
                        for name, x in features.items():
                            if (name, label) in known:
                                delta[name, label] = delta.get((name, label), 0.0) + sign * x
                    for pair in itertools.pairwise(path):
                        if pair in known:
                            delta[pair] = delta.get(pair, 0.0) + sign
                behind = score(guess) - score(tuple(y[i]))
                if rule is MistakeRule.AROW:
                    variances = {k: second.get(k, options.get("variance", 1.0)) for k in delta}
                    gamma = options.get("gamma", 1.0)
                    alpha = (behind + wrong) / (gamma + sum(variances[k] * d * d for k, d in delta.items()))
                    for k, d in delta.items():
                        weights[k] = weights.get(k, 0.0) + alpha * variances[k] * d
                        second[k] = 1 / (1 / variances[k] + d * d / gamma)
                else:
                    step = 1.0
                    if rule is MistakeRule.PASSIVE_AGGRESSIVE:
                        cost = behind + (math.sqrt(wrong) if options.get("error_sensitive", True) else 1.0)
                        norm, c = sum(d * d for d in delta.values()), options.get("c", 1.0)
                        step = [cost / norm, min(c, cost / norm), cost / (norm + 0.5 / c)][options.get("pa_type", 1)]
                    for k, d in delta.items():
                        weights[k] = weights.get(k, 0.0) + step * d
                        second[k] = second.get(k, 0.0) + step * visits * d
            visits += 1
    if rule is MistakeRule.AROW or not options.get("averaging", True):
        return weights
    return {k: w - second[k] / visits for k, w in weights.items()}


def prepared(X, y):
    _, model, sequences = CRFTagger(crfsuite_compatible=True).prepare(X, y)
    assert isinstance(sequences, Sequences)
    return completed(model, sequences, None), sequences


def named(crf):
    return {k: w for part in (crf.state_features_, crf.transition_features_) for k, w in part.items()}


def assert_same_weights(found, expected, tolerance):
    for key in found.keys() | expected.keys():
        assert found.get(key, 0.0) == pytest.approx(expected.get(key, 0.0), abs=tolerance), key


@pytest.mark.parametrize("everything", [False, True], ids=["observed", "all"])
@pytest.mark.parametrize(("algorithm", "options"), SETTINGS)
def test_the_weights_are_those_of_a_plain_implementation(algorithm, options, everything):
    X, y = sentences(12, seed=3, length=6)
    crf = CRF(
        algorithm, max_iterations=4, all_possible_states=everything, all_possible_transitions=everything, **options
    )
    crf.fit(X, y)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(X)) for _ in range(4)]
    labels = sorted({label for path in y for label in path})
    known = {
        (name, label)
        for tokens, path in zip(X, y, strict=True)
        for features, label in zip(tokens, path, strict=True)
        for name in features
    }
    known |= {pair for path in y for pair in itertools.pairwise(path)}
    if everything:
        names = {name for tokens in X for features in tokens for name in features}
        known = set(itertools.product(names, labels)) | set(itertools.product(labels, labels))
    rule = {"ap": MistakeRule.PERCEPTRON, "pa": MistakeRule.PASSIVE_AGGRESSIVE, "arow": MistakeRule.AROW}[algorithm]
    assert_same_weights(named(crf), plain(X, y, orders, known, rule, **options), 1e-10)


@pytest.mark.parametrize(("algorithm", "options"), SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_one_sentence_gives_the_weights_of_crfsuite(algorithm, options, seed, tmp_path):
    """With one sentence there is one order, so that the weights agree up to the six digits of a dump."""
    X, y = ([list(itertools.chain.from_iterable(part))] for part in sentences(8, seed))  # one long sentence
    y[0][:3] = ["l0", "l1", "l2"]  # CRFsuite numbers labels as they occur
    for features in X[0]:
        features["size"] = abs(features["size"])  # it leaves out pairs whose values add up to less than 0
    crf = CRF(algorithm, max_iterations=7, **options).fit(X, y)
    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    trainer.append(pycrfsuite.ItemSequence(X[0]), y[0])
    names = {"pa_type": "type"}
    trainer.set_params({names.get(key, key): value for key, value in options.items()} | {"max_iterations": 7})
    trainer.train(str(tmp_path / "model"))
    with pycrfsuite.Tagger().open(str(tmp_path / "model")) as tagger:
        info = tagger.info()
    expected = {**info.state_features, **info.transitions}
    assert len(expected) > 20
    assert_same_weights(named(crf), expected, 2e-6 * max(1.0, max(map(abs, expected.values()))))


@pytest.mark.parametrize("algorithm", ["ap", "pa", "arow"])
def test_tags_are_about_as_good_as_those_of_crfsuite(algorithm, tmp_path):
    X, y = sentences(400, seed=5)
    unseen, truth = sentences(200, seed=6)
    crf = CRF(algorithm, max_iterations=20).fit(X, y)
    trainer = pycrfsuite.Trainer(algorithm, {"max_iterations": 20}, verbose=False)
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(tokens), labels)
    trainer.train(str(tmp_path / "model"))
    with pycrfsuite.Tagger().open(str(tmp_path / "model")) as tagger:
        tags = [tagger.tag(pycrfsuite.ItemSequence(tokens)) for tokens in unseen]
    right = [a == b for tagged, labels in zip(tags, truth, strict=True) for a, b in zip(tagged, labels, strict=True)]
    assert crf.score(unseen, truth) == pytest.approx(np.mean(right), abs=0.03)
    assert crf.score(unseen, truth) > 0.5


@pytest.mark.parametrize("algorithm", ["ap", "pa", "arow"])
def test_a_fitted_tagger_can_be_copied_saved_and_validated(algorithm, tmp_path):
    X, y = sentences(30, seed=1)
    crf = CRF(algorithm, model_filename=str(tmp_path / "model.ff")).fit(X, y, X[:5], y[:5])
    again = pickle.loads(pickle.dumps(crf))
    loaded = CRF(model_filename=str(tmp_path / "model.ff"))
    assert again.predict(X).tolist() == crf.predict(X).tolist() == loaded.predict(X).tolist()
    assert named(again) == named(crf)
    assert crf.fit(X, y).predict(X).tolist() == again.predict(X).tolist()
    assert len(cross_val_score(clone(CRF(algorithm)), X, y, cv=3)) == 3
    probabilities = crf.predict_marginals_single(X[0])[0]
    assert sum(probabilities.values()) == pytest.approx(1.0)


def test_passes_without_a_mistake_are_counted_and_not_run():
    """The average goes on to change after the last mistake: w - Σ/u with the visits of all passes."""
    X, y = [[["a"], ["b"]], [["b"], ["a"]]], [["A", "B"], ["B", "A"]]
    short = CRF("ap", max_iterations=50).fit(X, y)
    assert short.tagger.fit_.convergence.iterations < 50
    model, sequences = prepared(X, y)
    part, whole = (
        MistakeDriven(MistakeRule.PERCEPTRON, max_iterations=passes).learn(model, sequences)[0]
        for passes in (50, 5000)
    )
    assert not np.allclose(part, whole, atol=1e-4)
    assert np.allclose(whole, np.round(whole), atol=1e-2)  # close to the weights themselves


def test_the_loss_is_told_and_ends_the_passes():
    X, y = sentences(30, seed=2)
    with contextlib.redirect_stderr(io.StringIO()) as told:
        CRF("pa", max_iterations=3, verbose=True).fit(X, y)
    assert [line.split(":")[0] for line in told.getvalue().splitlines()] == ["pass 1", "pass 2", "pass 3"]
    assert CRF("pa", epsilon=1e9).fit(X, y).tagger.fit_.convergence.iterations == 1


def test_ctrl_c_ends_the_passes_with_the_weights_so_far():
    X, y = sentences(30, seed=2)
    model, sequences = prepared(X, y)

    def interrupt(done, loss):
        if done == 2:
            raise KeyboardInterrupt

    theta, passes, interrupted = MistakeDriven(MistakeRule.AROW).learn(model, sequences, interrupt)
    assert (passes, interrupted) == (2, True)
    assert np.array_equal(theta, MistakeDriven(MistakeRule.AROW, max_iterations=2).learn(model, sequences)[0])


def test_what_cannot_be_learned_is_a_sentence():
    X, y = sentences(3, seed=0)
    with pytest.raises(
        ModelError, match="algorithm is 'perceptron'; it must be 'lbfgs', 'l2sgd', 'ap', 'pa' or 'arow'"
    ):
        CRF("perceptron").fit(X, y)
    with pytest.raises(ModelError, match="pa_type is 3; it must be an integer from 0 to 2"):
        CRF("pa", pa_type=3).fit(X, y)
    with pytest.raises(FieldfitError, match=r"gamma is 0\.0; it must be a number above 0"):
        CRF("arow", gamma=0.0).fit(X, y)
    model, sequences = prepared(X, y)
    labels = sequences.labels.copy()
    labels[0] = -1
    with pytest.raises(DataError, match="missing labels can only be fitted with 'lbfgs'"):
        MistakeDriven(MistakeRule.PERCEPTRON).learn(model, replace(sequences, labels=labels))


def test_there_are_no_standard_errors():
    X, y = sentences(20, seed=4)
    fit = CRF("ap", max_iterations=3).fit(X, y).tagger.fit_
    assert "no likelihood was maximised" in fit.convergence.message
    with pytest.raises(FieldfitError, match="have no standard errors"):
        fit.standard_errors()
    for text in (fit.summary(), repr(fit), fit._repr_html_()):
        assert "weights of a chain_crf" in text
        assert not re.search(r"\b(0 samples|nan|FL)\b|which the file", text)
