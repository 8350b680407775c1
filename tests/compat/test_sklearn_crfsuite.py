"""The interface of sklearn-crfsuite: the same model, objective and weights as the original, and what its own tests ask."""

import doctest
import importlib
import inspect
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest
import sklearn_crfsuite
import sklearn_crfsuite.metrics
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from fieldfit.compat.sklearn_crfsuite import CRF, metrics, read_dump, scorers
from fieldfit.estimators.crf_tagger import CRFTagger
from fieldfit.types import ConvergenceWarning, DataError, FileAccessError, FileFormatError, ModelError

XSEQ = [
    {"walk": 1, "shop": 0.5},
    {"walk": 1},
    {"walk": 1, "clean": 0.5},
    {"shop": 0.5, "clean": 1},
    {"walk": 0.5, "clean": 1},
    {"clean": 1, "shop": 0.1},
    {"walk": 1, "shop": 0.5},
    {},
    {"clean": 1, "говорить": True},
]
YSEQ = ["sunny", "sunny", "sunny", "rainy", "rainy", "rainy", "sunny", "sunny", "rainy"]


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = ["ABC"[k] for k in rng.integers(3, size=rng.integers(2, 8))]
        X.append([{f"w{(ord(c) + rng.integers(3)) % 7}": 1.0, f"s{rng.integers(4)}": rng.random()} for c in labels])
        y.append(labels)
    return X, y


@pytest.mark.parametrize("algorithm", [None, "lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_a_fit_reproduces_its_training_data(algorithm):
    crf = CRF(algorithm, c2=0.01)
    assert crf.fit([XSEQ], [YSEQ]) is crf
    assert crf.predict([XSEQ]).tolist() == [YSEQ]
    assert crf.predict_single(XSEQ) == YSEQ
    assert crf.score([XSEQ], [YSEQ]) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"c2": 0.5},
        {"c1": 0.3, "c2": 0.05},
        {"c2": 0.5, "all_possible_transitions": True},
        {"c2": 0.5, "all_possible_states": True},
    ],
)
def test_the_weights_are_those_of_the_original(options):
    """Both at their optimum: at the tagger's default tolerance, weights under L1 are known to a few thousandths."""
    X, y = sentences(30)
    ours = CRF(**options)
    ours._tagger = CRFTagger(tol=1e-8, **ours._weights(), **ours._likelihood("lbfgs")).fit(X, y)
    theirs = sklearn_crfsuite.CRF(algorithm="lbfgs", max_iterations=2000, epsilon=1e-9, delta=1e-12, **options).fit(
        X, y
    )
    assert sorted(ours.classes_) == sorted(theirs.classes_)
    assert set(ours.attributes_) == set(theirs.attributes_)  # both leave attributes without weights out
    assert ours.num_attributes_ == theirs.num_attributes_
    for ours_, theirs_ in (
        (ours.state_features_, theirs.state_features_),
        (ours.transition_features_, theirs.transition_features_),
    ):
        for key in ours_.keys() | theirs_.keys():
            assert ours_.get(key, 0.0) == pytest.approx(theirs_.get(key, 0.0), abs=1e-4), key
    assert ours.predict(X).tolist() == theirs.predict(X).tolist()
    for a, b in zip(ours.predict_marginals(X), theirs.predict_marginals(X), strict=True):
        for left, right in zip(a, b, strict=True):
            assert left == pytest.approx(right, abs=1e-4)


@pytest.mark.slow
def test_scikit_learn_tools():
    X, y = sentences(30)
    crf = CRF(c2=0.1)
    assert clone(crf).get_params()["c2"] == 0.1
    assert len(cross_val_score(crf, X, y, cv=5)) == 5
    assert len(cross_val_score(crf, X, y, cv=3, scoring=scorers.sequence_accuracy)) == 3
    assert len(cross_val_predict(crf, X, y, cv=3)) == 30
    search = GridSearchCV(crf, {"c1": [0.0, 0.1]}, cv=2, scoring=scorers.flat_accuracy).fit(X, y)
    assert search.best_params_["c1"] in (0.0, 0.1)


def test_a_pickled_crf_predicts_the_same():
    crf = CRF(c2=0.1).fit([XSEQ], [YSEQ])
    copy = pickle.loads(pickle.dumps(crf))
    assert copy.predict([XSEQ]).tolist() == [YSEQ]
    assert copy.c2 == 0.1


def test_before_a_fit_there_is_nothing():
    crf = CRF()
    assert crf.classes_ is None
    assert crf.tagger_ is None
    assert crf.size_ is None
    assert crf.num_attributes_ is None
    assert crf.attributes_ is None
    assert crf.state_features_ is None
    assert crf.transition_features_ is None
    with pytest.raises(ModelError, match="not been fitted"):
        crf.predict([XSEQ])


def test_attributes_after_a_fit():
    crf = CRF(c2=0.1).fit([XSEQ], [YSEQ])
    assert crf.classes_ == ["rainy", "sunny"]
    assert crf.size_ > 0
    assert crf.num_attributes_ == 4
    assert set(crf.attributes_) == {"walk", "shop", "clean", "говорить"}
    assert crf.state_features_[("walk", "sunny")] > 0
    assert crf.transition_features_[("sunny", "sunny")] > crf.transition_features_[("sunny", "rainy")]


def test_the_tagger_of_the_original_and_ours_say_the_same():
    X, y = sentences(30)
    ours = CRF(c2=0.5)
    ours._tagger = CRFTagger(tol=1e-8, **ours._weights(), **ours._likelihood("lbfgs")).fit(X, y)
    theirs = sklearn_crfsuite.CRF(algorithm="lbfgs", epsilon=1e-9, delta=1e-12, max_iterations=2000, c2=0.5)
    theirs.fit(X, y)
    a, b = ours.tagger_, theirs.tagger_
    assert sorted(a.labels()) == sorted(b.labels())
    assert a.tag(X[0]) == b.tag(X[0])
    assert a.probability(y[0]) == pytest.approx(b.probability(y[0]), abs=1e-5)
    a.set(X[1])
    b.set(X[1])
    assert ours.tagger_.tag() == b.tag()
    for place in range(len(X[1])):
        for label in b.labels():
            assert ours.tagger_.marginal(label, place) == pytest.approx(b.marginal(label, place), abs=1e-5)
    with pytest.raises(DataError, match="no sentence"):
        CRF().fit(X, y).tagger_.tag()
    assert ours.fit(X[:5], y[:5]).tagger_ is not a


def test_arrays_have_the_shapes_of_the_original():
    """Sentences of one length make a matrix, others an array of lists."""
    same, mixed = [[["the"], ["dog"]], [["a"], ["cat"]]], [[["the"], ["dog"]], [["cat"]]]
    y = [["D", "N"], ["D", "N"]]
    ours, theirs = CRF().fit(same, y), sklearn_crfsuite.CRF().fit(same, y)
    for X in (same, mixed, []):
        assert ours.predict(X).shape == theirs.predict(X).shape
        assert ours.predict_marginals(X).shape == theirs.predict_marginals(X).shape


def test_development_data():
    X, y = sentences(30)
    assert CRF().fit(X[:20], y[:20], X[20:], y[20:]).score(X, y) > 0.3
    with pytest.raises(DataError, match="X_dev and y_dev"):
        CRF().fit(X, y, X)
    with pytest.raises(DataError, match="X_dev and y_dev"):
        CRF().fit(X, y, y_dev=y)


def test_verbose_prints_iterations(capsys):
    CRF(verbose=True).fit([XSEQ], [YSEQ])
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "sgd"}, "must be 'lbfgs'"),
        ({"algorithm": "l2sgd", "c1": 1}, "no L1"),
        ({"c2": -1}, "at least 0"),
        ({"c1": float("nan")}, "at least 0"),
        ({"c1": "a"}, "c1 must be a number"),
        ({"c2": [1]}, "c2 must be a number"),
        ({"min_freq": float("inf")}, "min_freq must be a number"),
        ({"max_iterations": -1}, "integer from 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ModelError, match=message):
        CRF(**options).fit([XSEQ], [YSEQ])


def test_warnings_name_the_parameters_of_this_class(monkeypatch):
    # A fit that reaches the given max_iterations does not warn, as in CRFsuite, whose advice is in the message of others.
    stopped = CRF(c2=0.001, max_iterations=1).fit([XSEQ], [YSEQ])
    assert not stopped.tagger.fit_.converged
    monkeypatch.setattr(CRF, "_likelihood", lambda self, algorithm: {"sigma2": 500.0, "max_iter": 1})
    with pytest.warns(ConvergenceWarning, match=r"\(max_iterations\), a penalty \(c2\)"):
        CRF(c2=0.001).fit([XSEQ], [YSEQ])
    with pytest.warns(ConvergenceWarning, match=r"\(max_iter\), a penalty \(sigma2\)"):  # only within that class
        CRFTagger(sigma2=500.0, max_iter=1).fit([XSEQ], [YSEQ])


def test_a_fit_does_not_overwrite_files_of_other_programs(tmp_path):
    path = tmp_path / "dump.txt"
    path.write_text("LABELS = {\n}\n")
    with pytest.raises(FileAccessError, match=r"dump\.txt is not a file of fieldfit, and fit would overwrite it"):
        CRF(model_filename=path).fit([XSEQ], [YSEQ])
    assert path.read_text() == "LABELS = {\n}\n"
    own = tmp_path / "model.ff"
    for c2 in (0.1, 1.0):  # a file of fieldfit is replaced
        CRF(c2=c2, model_filename=own).fit([XSEQ], [YSEQ])


@pytest.mark.parametrize("pa_type", [0, 1, 2])
def test_passive_aggressive_steps_may_be_unlimited(pa_type):
    """With c = ∞, types 1 and 2 take the steps of type 0, as in CRFsuite."""
    X, y = sentences(20)
    found = CRF(algorithm="pa", c=float("inf"), pa_type=pa_type, max_iterations=5).fit(X, y)
    free = CRF(algorithm="pa", pa_type=0, max_iterations=5).fit(X, y)
    np.testing.assert_array_equal(found.tagger.fit_.theta, free.tagger.fit_.theta)


def test_a_model_file_is_written_and_read(tmp_path):
    path = tmp_path / "model.ff"
    CRF(c2=0.1, model_filename=path).fit([XSEQ], [YSEQ])
    assert CRF(model_filename=path).predict([XSEQ]).tolist() == [YSEQ]


def test_a_dump_of_crfsuite_predicts_as_crfsuite(tmp_path):
    X, y = sentences(40, seed=1)
    X[0][0]["a --> b: c"] = 1.0
    X[0][0].update({f"odd{sign}": 1.0 for sign in ("\u2028", "\x85", "\x0c", " = {")})
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, labels in zip(X, y, strict=True):
        trainer.append(x, labels)
    trainer.train(str(tmp_path / "model.crfsuite"))
    original = pycrfsuite.Tagger()
    original.open(str(tmp_path / "model.crfsuite"))
    original.dump(str(tmp_path / "model.txt"))
    crf = CRF(model_filename=tmp_path / "model.txt")
    assert crf.predict(X).tolist() == [original.tag(x) for x in X]
    assert crf.state_features_[("a --> b: c", y[0][0])] == pytest.approx(
        original.info().state_features[("a --> b: c", y[0][0])]
    )
    assert crf.transition_features_ == pytest.approx(original.info().transitions)
    with pytest.raises(FileFormatError, match=r"dumped as text first.*crf\.tagger_\.dump"):
        read_dump(tmp_path / "model.crfsuite")
    with pytest.raises(FileAccessError, match="cannot be opened"):
        CRF(model_filename=tmp_path / "none").predict(X)


@pytest.mark.parametrize(
    "change",
    [
        ("0: N", "N"),
        ("--> V: 2.0", "--> V: much"),
        ("--> V: 2.0", "--> X: 2.0"),
        ("TRANSITIONS", "JUMPS"),
        ("--> V: 2.0", "--> V: inf"),
        ("1: V", "1: N"),
    ],
)
def test_damaged_dumps_are_refused(tmp_path, change):
    text = "LABELS = {\n 0: N\n 1: V\n}\nATTRIBUTES = {\n 0: dog\n}\nTRANSITIONS = {\n}\n"
    text += "STATE_FEATURES = {\n (0) dog --> N: 1.5\n (0) dog --> V: 2.0\n}\n"
    (tmp_path / "good.txt").write_text(text)
    assert read_dump(tmp_path / "good.txt").theta.tolist() == [1.5, 2.0]
    (tmp_path / "bad.txt").write_text(text.replace(*change))
    with pytest.raises(FileFormatError):
        read_dump(tmp_path / "bad.txt")


def test_metrics_agree_with_the_original():
    y, z = [["A", "B"], ["C"], ["A"]], [["A", "C"], ["C"], ["B"]]
    original = sklearn_crfsuite.metrics
    assert metrics.flat_accuracy_score(y, z) == original.flat_accuracy_score(y, z)
    for name in ("flat_f1_score", "flat_precision_score", "flat_recall_score"):
        options = {"average": "weighted", "zero_division": 0.0}
        assert getattr(metrics, name)(y, z, **options) == getattr(original, name)(y, z, **options)
    assert metrics.flat_fbeta_score(y, z, 2.0, average="macro") == original.flat_fbeta_score(
        y, z, 2.0, average="macro"
    )
    options = {"labels": ["A", "B"], "digits": 3, "zero_division": 0.0}
    assert metrics.flat_classification_report(y, z, **options) == original.flat_classification_report(y, z, **options)
    assert metrics.sequence_accuracy_score(y, z) == pytest.approx(1 / 3)
    assert metrics.sequence_accuracy_score([], []) == 0


@pytest.mark.parametrize("module", ["estimator", "dump", "metrics", "sentence_tagger"])
def test_the_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(f"fieldfit.compat.sklearn_crfsuite.{module}"))
    assert result.attempted
    assert not result.failed


def test_what_the_original_has_is_here_or_on_the_page():
    """Every argument, attribute, method and metric of the original, by introspection."""
    page = (Path(__file__).parents[2] / "docs" / "from-sklearn-crfsuite.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(\w+)`", page))
    original, ours = sklearn_crfsuite.CRF(max_iterations=5), CRF(max_iterations=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        original.fit([XSEQ], [YSEQ])
        ours.fit([XSEQ], [YSEQ])
    parameters = [set(inspect.signature(kind.__init__).parameters) for kind in (sklearn_crfsuite.CRF, CRF)]
    assert parameters[0] <= parameters[1]
    public = [{name for name in dir(item) if not name.startswith("_")} for item in (original, ours)]
    assert public[0] - public[1] - told == set()
    names = {name for name, item in vars(sklearn_crfsuite.metrics).items() if inspect.isfunction(item)}
    assert {name for name in names if not name.startswith("_")} - set(dir(metrics)) - told == set()
