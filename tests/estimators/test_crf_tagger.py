"""CRFTagger: training, prediction, tables, files, and scikit-learn's own tools around it."""

import itertools
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

import fieldfit as ff
from fieldfit.data.columns import columns_from_lists, parse_columns
from fieldfit.data.crfsuite_text import parse_crfsuite
from fieldfit.types import ConvergenceWarning, DataError, FileFormatError, ModelError

POLICIES = ["FL", "PL1", "PL2", "PL1@0.5 + 0.2*FL@0.5", "0.5*PL2/sentence + PL1", "Multinomial(0.6*PL1 + 0.4*PL2)"]


@pytest.fixture(scope="module")
def tagger(toy):
    _, X, y = toy
    return ff.CRFTagger("FL", sigma2=5).fit(X, y)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_fits_and_the_file_has_the_same_bits(toy, unseen, policy, tmp_path):
    _, X, y = toy
    fitted = ff.CRFTagger(policy, sigma2=5, random_state=3).fit(X, y)
    assert fitted.fit_.converged
    assert fitted.score(unseen[1], unseen[2]) > 0.75
    fitted.save(tmp_path / "tagger.ff")
    loaded = ff.CRFTagger.load(tmp_path / "tagger.ff")
    assert loaded.fit_.theta.tobytes() == fitted.fit_.theta.tobytes()
    assert loaded.predict(unseen[1]) == fitted.predict(unseen[1])
    assert (loaded.policy, loaded.sigma2) == (str(ff.Policy.parse(policy)), 5.0)
    assert list(ff.load(tmp_path / "tagger.ff").parameter_names) == fitted.fit_.parameter_names


def test_the_fit_is_that_of_the_library(toy):
    _, X, y = toy
    policy = "PL1@0.5 + 0.2*FL@0.5"
    fitted = ff.CRFTagger(policy, sigma2=10, random_state=7).fit(X, y)
    from fieldfit.data.attribute_encoder import AttributeEncoder

    _, sequences = AttributeEncoder.fit(X, y)
    model = ff.ChainCRF(sequences.n_labels, sequences.n_features)
    direct = ff.fit(model, sequences, policy, sigma2=10, random_state=7, tol=1e-4)
    np.testing.assert_array_equal(direct.theta, fitted.fit_.theta)
    threads = ff.CRFTagger(policy, sigma2=10, random_state=7, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(threads.fit_.theta, fitted.fit_.theta)


def test_predictions_agree_with_enumeration(tagger, toy):
    _, X, _ = toy
    sentence = next(s for s in X if len(s) == 3)
    paths = [list(path) for path in itertools.product(tagger.classes_, repeat=3)]
    values = tagger.log_likelihood([sentence] * len(paths), paths)
    assert np.exp(values).sum() == pytest.approx(1.0, abs=1e-10)
    order = np.argsort(-values, kind="stable")
    assert tagger.predict_single(sentence) == paths[order[0]]
    found = tagger.predict_nbest([sentence], 5)[0]
    assert [path for path, _ in found] == [paths[k] for k in order[:5]]
    np.testing.assert_allclose([value for _, value in found], values[order[:5]], atol=1e-10)
    marginals = tagger.predict_marginals_single(sentence)
    for t, label in itertools.product(range(3), tagger.classes_):
        expected = sum(np.exp(v) for path, v in zip(paths, values, strict=True) if path[t] == label)
        assert marginals[t][label] == pytest.approx(expected, abs=1e-10)
    pairs = tagger.edge_marginals([sentence])[0]
    np.testing.assert_allclose(pairs[1:].sum(axis=1), tagger.predict_proba([sentence])[0][1:], atol=1e-10)
    best = [max(token, key=token.get) for token in marginals]
    assert tagger.predict([sentence], decoding="posterior") == [best]


def test_given_labels_are_kept_and_the_rest_is_the_best(tagger, toy):
    _, X, _ = toy
    sentence = next(s for s in X if len(s) == 3)
    given = [[None, "O", None]]
    paths = [list(path) for path in itertools.product(tagger.classes_, repeat=3) if path[1] == "O"]
    values = tagger.log_likelihood([sentence] * len(paths), paths)
    assert tagger.predict([sentence], given=given) == [paths[int(np.argmax(values))]]
    fixed = tagger.predict_proba([sentence], given=given)[0][1]
    np.testing.assert_allclose(fixed, [label == "O" for label in tagger.classes_], atol=1e-12)
    assert tagger.predict([sentence], given=[None]) == tagger.predict([sentence])
    for wrong, message in ([["O"]], "3 tokens, but given"), ([[None, "X", None]], r"given\[0\]\[1\] is 'X'"):
        with pytest.raises(DataError, match=message):
            tagger.predict([sentence], given=wrong)
    with pytest.raises(DataError, match="given has 2"):
        tagger.predict([sentence], given=[None, None])


def test_all_inputs_that_say_the_same_give_the_same_fit(toy):
    words, _, y = toy
    as_lists = ff.CRFTagger().fit([[[w] for w in s] for s in words], y)
    as_words = ff.CRFTagger().fit(words, y)
    vocabulary = list(dict.fromkeys(w for s in words for w in s))
    arrays = [np.array([[w == v for v in vocabulary] for w in s], dtype=float).reshape(len(s), 8) for s in words]
    as_arrays = ff.CRFTagger().fit(arrays, y)
    lines = [
        "\n".join(f"{label}\t{word}" for word, label in zip(sentence, labels, strict=True))
        for sentence, labels in zip(words, y, strict=True)
    ]
    text = "\n\n".join(line for line in lines if line)
    as_text = ff.CRFTagger().fit(parse_crfsuite(text))
    objective = as_words.fit_.objective
    for other in (as_lists, as_arrays, as_text):
        assert other.fit_.objective == pytest.approx(objective, rel=1e-5)
    assert as_arrays.predict(arrays) == as_words.predict(words)
    columns = columns_from_lists(words, y)
    as_columns = ff.CRFTagger(features="columns").fit(columns)
    assert as_columns.fit_.objective == pytest.approx(objective, rel=1e-5)
    assert as_columns.predict(columns) == as_columns.predict(words)
    templates = ff.CRFTagger(features="U:%x[0,0]\nB\n").fit([[(w, "x") for w in s] for s in words], y)
    assert templates.fit_.objective == pytest.approx(objective, rel=1e-5)
    assert as_columns.score(columns) == as_columns.score(words, y)


def test_labels_may_be_whole_numbers(toy):
    _, X, y = toy
    numbers = [[len(label) for label in labels] for labels in y]
    fitted = ff.CRFTagger().fit(X, numbers)
    assert {label for labels in fitted.predict(X) for label in labels} <= set(fitted.classes_) == {1, 4}


def test_templates_with_label_pairs_and_without_transitions(toy, tmp_path):
    words, _, y = toy
    pairs = ff.CRFTagger(features="U:%x[0,0]\nB\nB1:%x[-1,0]\n", sigma2=5).fit(words, y)
    plain = ff.CRFTagger(features="U:%x[0,0]\nB\n", sigma2=5).fit(words, y)
    assert pairs.fit_.objective > plain.fit_.objective
    layout = pairs.model_.layout
    assert layout.n_columns > 0
    assert layout.n_state == plain.model_.layout.n_state  # the features of label pairs have no weights with one label
    assert any("B1:" in name and "->" in name for name in pairs.fit_.parameter_names)
    every = ff.CRFTagger(features="U:%x[0,0]\nB\nB1:%x[-1,0]\n", sigma2=5, all_pairs=True).fit(words, y)
    assert every.model_.layout.n_state == 8 * len(every.classes_)
    pairs.save(tmp_path / "pairs.ff")
    loaded = ff.CRFTagger.load(tmp_path / "pairs.ff")
    np.testing.assert_array_equal(loaded.log_likelihood(words, y), pairs.log_likelihood(words, y))
    smaller = pairs.compact(0.05)
    assert 0 < smaller.model_.layout.n_columns < layout.n_columns
    smaller.predict(words)
    without = ff.CRFTagger(features="U:%x[0,0]\n", sigma2=5).fit(words, y)
    assert without.model_.layout.transition_pairs.size == 0
    assert without.fit_.objective < plain.fit_.objective


def test_crfsuite_s_model_has_its_weights_and_no_others(toy):
    _, X, y = toy
    fitted = ff.CRFTagger(crfsuite_compatible=True).fit(X, y)
    seen = {(a, b) for labels in y for a, b in itertools.pairwise(labels)}
    layout = fitted.model_.layout
    assert len(layout.transition_pairs) == len(seen)
    assert (layout.start, layout.end) == (False, False)
    assert fitted.transitions().notna().to_numpy().sum() == len(seen)
    full = ff.CRFTagger(crfsuite_compatible=True, all_transitions=True, all_pairs=True).fit(X, y).model_.layout
    assert full.n_parameters == full.n_features * 4 + 16


def test_l1_makes_weights_exactly_zero_at_the_optimum(toy):
    _, X, y = toy
    fitted = ff.CRFTagger(sigma2=10, l1=1.0).fit(X, y)
    theta = fitted.fit_.theta
    assert 0 < (theta == 0).sum() < len(theta)
    gradient = fitted.fit_.problem.value_grad(theta)[1] - theta / 10
    # The tolerance is for the gradient in units of the features: the length of a word is larger than 1.
    units = fitted.fit_.model.feature_units
    away = (gradient - np.sign(theta)) / units
    np.testing.assert_allclose(away[theta != 0], 0.0, atol=1e-4 * len(X))
    assert np.abs(gradient[theta == 0]).max() <= 1 + 1e-4 * len(X)
    objective = fitted.log_likelihood(X, y).sum() - theta @ theta / 20 - np.abs(theta).sum()
    assert fitted.fit_.objective == pytest.approx(objective, rel=1e-10)
    assert fitted.fit_.composite_log_likelihood == pytest.approx(fitted.log_likelihood(X, y).sum(), rel=1e-10)


@pytest.mark.slow
def test_sigma2_by_cross_validation(toy):
    _, X, y = toy
    fitted = ff.CRFTagger("PL1", sigma2=[1e-3, 5.0]).fit(X, y)
    assert fitted.sigma2_ == 5.0
    assert fitted.cv_results_["sigma2"].tolist() == [5.0, 1e-3]
    plain = ff.CRFTagger("PL1", sigma2=5.0).fit(X, y)
    np.testing.assert_array_equal(fitted.fit_.theta, plain.fit_.theta)
    assert ff.CRFTagger("PL1", sigma2="cv").fit(X, y).sigma2_ in (0.1, 1.0, 10.0, 100.0)


@pytest.mark.slow
def test_sample_weights_are_copies(toy):
    _, X, y = toy
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    kept = np.repeat(np.arange(len(X)), weight)
    weighted = ff.CRFTagger(tol=1e-5, all_pairs=True).fit(X, y, sample_weight=weight)
    copies = ff.CRFTagger(tol=1e-5, all_pairs=True).fit([X[k] for k in kept], [y[k] for k in kept])
    assert weighted.fit_.objective == pytest.approx(copies.fit_.objective, rel=1e-6)


def test_early_stopping_keeps_the_best_weights(toy, unseen):
    _, X, y = toy
    for metric in ("accuracy", "f1"):
        fitted = ff.CRFTagger(sigma2=1000, patience=2, check_every=1, metric=metric)
        fitted.fit(X, y, unseen[1], unseen[2])
        scores = [score for _, score in fitted.development_scores_]
        assert fitted.score(unseen[1], unseen[2]) == pytest.approx(max(scores))
        assert "stopped early" in fitted.fit_.message
        assert len(scores) == int(np.argmax(scores)) + 3
        assert not fitted.fit_.converged


def test_the_development_data_are_looked_at_now_and_then(toy, unseen):
    _, X, y = toy
    common: dict[str, Any] = {"sigma2": 1000, "tol": 1e-3, "patience": 1000}
    often = ff.CRFTagger(check_every=1, **common).fit(X, y, *unseen[1:])
    last = often.n_iter_
    assert last > 8
    apart = 7 if last % 7 else 8
    seldom = ff.CRFTagger(check_every=apart, **common).fit(X, y, *unseen[1:])
    assert seldom.n_iter_ == last
    assert last % apart
    places = [*range(0, last, apart), last]  # the start, every few iterations, and where the optimiser ended
    every = dict(often.development_scores_)
    assert seldom.development_scores_ == [(place, every[place]) for place in places]
    best = max(seldom.development_scores_, key=lambda look: (look[1], -look[0]))
    assert seldom.score(*unseen[1:]) == pytest.approx(best[1])
    if best[0] != last:
        assert seldom.fit_.message.startswith("kept the best of the run")
    assert ff.CRFTagger().check_every == 5
    # Patience counts iterations: 10 of them are two looks, and so are 6.
    for patience in (6, 10):
        stopped = ff.CRFTagger(sigma2=1000, patience=patience).fit(X, y, *unseen[1:])
        looks = [place for place, _ in stopped.development_scores_]
        scores = [score for _, score in stopped.development_scores_]
        assert looks == list(range(0, looks[-1] + 1, 5))
        assert len(looks) == int(np.argmax(scores)) + 3
    for wrong in ({"patience": 0}, {"check_every": 0}):
        with pytest.raises(ModelError, match="at least 1"):
            ff.CRFTagger(**wrong).fit(X, y)  # type: ignore[arg-type]


@pytest.mark.slow
def test_cross_validation_of_sigma2_counts_sentences_by_their_weights(toy):
    """Half of the sentences have labels that make no sense: which σ² is best depends on which half counts."""
    _, X, y = toy
    rng = np.random.default_rng(0)
    noise = [[str(rng.choice(["B-NP", "I-NP", "O", "B-VP"])) for _ in labels] for labels in y]
    grid = [0.02, 50.0]
    for halves, expected in (([1.0, 0.0], 50.0), ([0.0, 1.0], 0.02)):
        weight = np.repeat(halves, len(X))
        assert ff.CRFTagger("PL1", sigma2=grid).fit(X + X, y + noise, sample_weight=weight).sigma2_ == expected
    same = ff.CRFTagger("PL1", sigma2=grid).fit(X, y, sample_weight=np.ones(len(X)))
    plain = ff.CRFTagger("PL1", sigma2=grid).fit(X, y)
    np.testing.assert_allclose(
        same.cv_results_.to_numpy()[:, 1:].astype(float),
        plain.cv_results_.to_numpy()[:, 1:].astype(float),
        rtol=1e-10,
        atol=1e-12,
    )


def test_a_warm_start_is_matched_by_names(toy):
    words, X, y = toy
    fitted = ff.CRFTagger(sigma2=5).fit(X, y)
    again = ff.CRFTagger(sigma2=5).fit(X, y, start=fitted)
    assert again.fit_.iterations < 3 < fitted.fit_.iterations
    order = np.random.default_rng(0).permutation(len(X))  # other codes for the same features
    shuffled = [[dict(reversed(token.items())) for token in X[k]] for k in order]
    moved = ff.CRFTagger(sigma2=5).fit(shuffled, [y[k] for k in order], start=fitted.fit_)
    assert moved.fit_.iterations < 3
    some = ff.CRFTagger(sigma2=5, features="columns").fit(words, y, start=fitted)  # no feature in common
    assert some.fit_.converged
    with pytest.raises(ModelError, match="kind 'boltzmann'"):
        ff.CRFTagger().fit(X, y, start=ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 1], [1, 0], [0, 0]]))


def test_top_features_and_transitions_are_the_weights(tagger):
    names = tagger.fit_.parameter_names
    weights = dict(zip(names, tagger.fit_.theta, strict=True))
    top = tagger.top_features(4)
    state = {name: w for name, w in weights.items() if ":" in name and "->" not in name}
    assert abs(top["weight"].iloc[0]) == max(map(abs, state.values()))
    for row in top.itertuples():
        assert weights[f"{row.feature}:{row.label}"] == row.weight
    assert set(tagger.top_features(3, label="O")["label"]) == {"O"}
    table = tagger.transitions()
    assert table.loc["B-NP", "I-NP"] == weights["B-NP->I-NP"]
    assert table.loc["^", "O"] == weights["^->O"]
    assert table.loc["O", "$"] == weights["O->$"]
    assert np.isnan(table.loc["^", "$"])
    with pytest.raises(DataError, match="'X' is not a label"):
        tagger.top_features(3, label="X")


def test_compaction_drops_weights_and_tells_the_loss(toy, unseen, tmp_path):
    _, X, y = toy
    fitted = ff.CRFTagger(sigma2=10, l1=1.0).fit(X, y)
    exact = fitted.compact()
    assert exact.compaction_.parameters_after < exact.compaction_.parameters_before
    assert exact.compaction_.loss == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(exact.log_likelihood(X, y), fitted.log_likelihood(X, y), atol=1e-10)
    rough = fitted.compact(0.5, *unseen[1:])
    report = rough.compaction_
    lost = fitted.log_likelihood(*unseen[1:]).sum() - rough.log_likelihood(*unseen[1:]).sum()
    assert report.loss == pytest.approx(lost / len(unseen[1]), abs=1e-10)
    assert report.features_after == rough.encoder_.n_features < report.features_before
    assert f"{report.parameters_after:,}" in str(report)
    rough.save(tmp_path / "small.ff")
    assert ff.CRFTagger.load(tmp_path / "small.ff").predict(unseen[1]) == rough.predict(unseen[1])
    columns = ff.CRFTagger(sigma2=5, features="tagger").fit(toy[0], y)
    smaller = columns.compact(0.05)
    assert smaller.encoder_.n_features < columns.encoder_.n_features
    kept = np.abs(columns.fit_.theta) > 0.05
    _, b, _, d, _ = columns.model_.layout.bounds
    kept[b:d] = True
    cut = np.where(kept, columns.fit_.theta, 0.0)
    sequences = columns._encode(unseen[0], unseen[2])
    expected = columns.model_.log_likelihood(cut, sequences)
    np.testing.assert_allclose(smaller.log_likelihood(unseen[0], unseen[2]), expected, atol=1e-10)
    with pytest.raises(ModelError, match="at least 0"):
        fitted.compact(-1)


# --- what users run into ----------------------------------------------------------------------------------------------


def test_empty_and_short_sentences(tagger):
    assert tagger.predict([]) == []
    assert tagger.predict([[], [{"word": "the"}], []])[0::2] == [[], []]
    assert tagger.predict_proba([[]])[0].shape == (0, len(tagger.classes_))
    assert tagger.predict_nbest([[]], 3) == [[([], 0.0)]]
    assert len(tagger.predict_nbest([[{"word": "the"}]], 10)[0]) == len(tagger.classes_)
    assert tagger.log_likelihood([[]], [[]]).tolist() == [0.0]
    assert tagger.predict_marginals([[]]) == [[]]


def test_features_and_labels_never_seen(tagger):
    new: list[list[dict[str, object]]] = [[{"word": "zebra", "new": 3.0}]]
    nothing: list[list[dict[str, object]]] = [[{}]]
    np.testing.assert_array_equal(tagger.predict_proba(new)[0], tagger.predict_proba(nothing)[0])
    assert tagger.score(new, [["NEVER"]]) == 0.0
    with pytest.raises(DataError, match=r"y\[0\]\[0\] is 'NEVER', not one of the 4 labels"):
        tagger.log_likelihood(new, [["NEVER"]])


def test_a_label_never_seen_is_named_by_its_place_in_columns_too(toy):
    fitted = ff.CRFTagger(features="tagger").fit(toy[0], toy[2])
    with pytest.raises(DataError, match=r"y\[1\]\[0\] is 'NEVER'"):
        fitted.log_likelihood([["the"], ["zebra"]], [["B-NP"], ["NEVER"]])
    assert fitted.score([["the"], ["zebra"]], [["B-NP"], ["NEVER"]]) == 0.5


def test_lengths_that_do_not_match_are_named(toy):
    _, X, y = toy
    with pytest.raises(DataError, match=f"X has {len(X)} sentences, but y has {len(y) - 1}"):
        ff.CRFTagger().fit(X, y[:-1])
    place = next(k for k, s in enumerate(X) if len(s) > 1)
    wrong = [*y[:place], y[place][:-1], *y[place + 1 :]]
    for features, given in ((None, X), ("tagger", toy[0])):
        with pytest.raises(DataError, match=rf"X\[{place}\] has {len(X[place])} tokens, but y\[{place}\]"):
            ff.CRFTagger(features=features).fit(given, wrong)


@pytest.mark.parametrize(
    ("options", "X", "y", "message"),
    [
        ({}, [[{"w": "a"}]], None, "needs the labels y"),
        ({}, [], [], "no tokens"),
        ({}, [[]], [[]], "no tokens"),
        ({}, ["text"], [["O"]], r"X\[0\] must be a sentence"),
        ({"metric": "speed"}, [[{"w": "a"}]], [["O"]], "metric is 'speed'; it must be"),
        ({"policy": "PL"}, [[{"w": "a"}]], [["O"]], "PL"),
        ({"sigma2": -1}, [[{"w": "a"}]], [["O"]], "must be a positive number"),
        ({"l1": -1}, [[{"w": "a"}]], [["O"]], "at least 0"),
        ({"features": "no such"}, [["a"]], [["O"]], "neither a preset"),
        ({"features": "tagger"}, [[{"w": "a"}]], [["O"]], "Leave features out"),
        ({"features": "columns"}, [[("a", "b"), ("c",)]], [["O", "O"]], r"X\[0\]\[1\] is \('c',\)"),
        ({"n_jobs": 0}, [[{"w": "a"}]], [["O"]], "n_jobs is 0"),
        ({"random_state": -1}, [[{"w": "a"}]], [["O"]], "random_state"),
    ],
)
def test_refusals_say_what_is_wrong(options, X, y, message):
    with pytest.raises((DataError, ff.types.FieldfitError), match=message):
        ff.CRFTagger(**options).fit(X, y)


def test_a_label_that_is_alone_is_certain():
    fitted = ff.CRFTagger().fit([[{"w": "a"}, {"w": "b"}]], [["O", "O"]])
    assert fitted.predict([[{"w": "c"}]]) == [["O"]]
    assert fitted.log_likelihood([[{"w": "c"}]], [["O"]]).tolist() == [0.0]


def test_too_few_iterations_are_told(toy):
    _, X, y = toy
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        ff.CRFTagger(max_iter=2).fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"features": "tagger", "all_pairs": True},
        {"features": "U:%x[0,0]\nB\n", "crfsuite_compatible": True, "l1": 0.5},
        {"features": "columns", "sigma2": 2.0, "policy": "PL1 + 0.5*FL", "random_state": 4},
        {"features": "columns", "sigma2": 1.0, "method": "sgd"},
    ],
    ids=["preset", "templates", "columns", "sgd"],
)
def test_a_loaded_tagger_fits_again_as_before(toy, options, tmp_path):
    words, _, y = toy
    fitted = ff.CRFTagger(**options).fit(words, y)
    fitted.save(tmp_path / "tagger.ff")
    again = ff.CRFTagger.load(tmp_path / "tagger.ff").fit(words, y)
    np.testing.assert_array_equal(again.fit_.theta, fitted.fit_.theta)
    loaded = ff.CRFTagger.load(tmp_path / "tagger.ff")
    with pytest.raises(DataError, match="Give X and y"):
        loaded.compact(0.01)
    assert loaded.compact(0.01, words, y).predict(words) == fitted.compact(0.01).predict(words)


def test_files_that_are_no_taggers_are_refused(toy, tmp_path):
    path = tmp_path / "field.ff"
    ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 1], [1, 0], [0, 0]]).save(path)
    with pytest.raises(ModelError, match="needs a chain CRF"):
        ff.CRFTagger.load(path)
    from dataclasses import replace

    fitted = ff.CRFTagger().fit(*toy[1:])
    replace(fitted.fit_, encoder=None).save(path)
    with pytest.raises(FileFormatError, match="no encoder"):
        ff.CRFTagger.load(path)
    assert ff.load(path).parameter_names == fitted.fit_.parameter_names
    with pytest.raises(NotFittedError):
        ff.CRFTagger().save(path)
    with pytest.raises(NotFittedError):
        ff.CRFTagger().predict([[{"w": "a"}]])


def test_verbose_prints_each_iteration_as_the_command_line_does(toy, capsys):
    fitted = ff.CRFTagger(verbose=True).fit(*toy[1:])
    head, *lines = capsys.readouterr().err.splitlines()
    assert head.split() == ["iteration", "objective", "gradient", "seconds", "left"]
    assert [int(line.split()[0]) for line in lines] == list(range(fitted.n_iter_ + 1))
    assert float(lines[-1].split()[1]) == pytest.approx(fitted.fit_.objective, abs=1e-6)
    ff.CRFTagger(verbose=True).fit(*toy[1:], progress=False)
    assert capsys.readouterr().err == ""


# --- scikit-learn -----------------------------------------------------------------------------------------------------


def test_clone_pickle_and_params(tagger, unseen):
    copy = clone(tagger)
    assert copy.get_params() == tagger.get_params()
    assert not hasattr(copy, "fit_")
    assert copy.set_params(policy="PL2", sigma2=3).policy == "PL2"
    again = pickle.loads(pickle.dumps(tagger))
    assert again.predict(unseen[1]) == tagger.predict(unseen[1])


@pytest.mark.slow
def test_cross_validation_grid_search_and_pipelines(toy):
    _, X, y = toy
    scores = cross_val_score(ff.CRFTagger("PL1"), X, y, cv=3)
    assert scores.shape == (3,)
    assert (scores > 0.7).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(ff.CRFTagger(), {"policy": ["FL", "PL1 + 0.5*FL"], "sigma2": [1e-3, 5.0]}, cv=2).fit(
            X, y
        )
    assert search.best_params_["sigma2"] == 5.0
    assert len(search.cv_results_["params"]) == 4
    shorter = FunctionTransformer(lambda sentences: [[{"word": t["word"]} for t in s] for s in sentences])
    line = make_pipeline(shorter, ff.CRFTagger()).fit(X, y)
    assert line.predict(X) == ff.CRFTagger().fit(shorter.transform(X), y).predict(X)
    assert line.score(X, y) == pytest.approx(line[-1].score(shorter.transform(X), y))


#: Those of scikit-learn's checks that feed no table of numbers: a tagger takes sentences.
CHECKS = [
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_valid_tag_types",
    "check_estimator_tags_renamed",
]


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_of_scikit_learn_that_apply(name):
    getattr(estimator_checks, name)("CRFTagger", ff.CRFTagger())


@pytest.mark.slow
@pytest.mark.parametrize("c1", [0.0, 0.3])
def test_sklearn_crfsuite_takes_and_gives_the_same(toy, unseen, c1):
    peer_module = pytest.importorskip("sklearn_crfsuite", reason="needs sklearn-crfsuite, the peer")
    _, X, y = toy
    peer = peer_module.CRF(algorithm="lbfgs", c1=c1, c2=0.1, max_iterations=500, epsilon=1e-8, delta=1e-9)
    peer.fit(X, y)
    ours = ff.CRFTagger(sigma2=5.0, l1=c1, crfsuite_compatible=True, tol=1e-4 if c1 else 1e-6).fit(X, y)
    assert sorted(ours.classes_) == sorted(peer.classes_)
    np.testing.assert_allclose(ours.score(*unseen[1:]), peer.score(*unseen[1:]), atol=0.01)
    for one, other in zip(ours.predict_marginals(unseen[1]), peer.predict_marginals(unseen[1]), strict=True):
        for token, expected in zip(one, other, strict=True):
            assert token == pytest.approx(expected, abs=0.01)


def test_what_a_first_file_may_lack(tmp_path, monkeypatch):
    words = [[("the", "DT"), ("dog", "NN")]]
    monkeypatch.setenv("FIELDFIT_DATA", str(tmp_path))  # no stop list there
    with pytest.raises(DataError, match=r"'conll2000' need a list of stop words.*'tagger', 'columns'"):
        ff.CRFTagger(features="conll2000").fit(words, [["B", "I"]])
    with pytest.raises(DataError, match="one column, the label"):
        ff.CRFTagger().fit(parse_columns("B\nI\n"))


def test_features_that_read_the_column_of_the_labels_are_refused_in_plain_words():
    with pytest.raises(
        DataError, match=r"and in the lists that column has the labels\. Give tokens with 2 columns before"
    ):
        ff.CRFTagger(features="chunker").fit([["the", "dog"]], [["D", "N"]])
    assert columns_from_lists([["a"], ["b"]]).place(1) == "the lists, token 2"
