"""CRFTagger(order=2): fits, files, tables, warm starts, smaller taggers."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import DataError, ModelError


@pytest.fixture(scope="module", params=["zero", "forbidden"])
def tagger(request, toy):
    return ff.CRFTagger(sigma2=5, order=2, unseen_transitions=request.param).fit(toy[1], toy[2])


def test_the_fit_is_that_of_the_library_and_the_file_has_the_same_bits(tagger, toy, unseen, tmp_path):
    sequences = tagger._encode(*toy[1:])
    model = ff.ChainCRF(
        sequences.n_labels, sequences.n_features, order=2, unseen_transitions=tagger.unseen_transitions
    )
    direct = ff.fit(model, sequences, "FL", sigma2=5, tol=1e-4)
    np.testing.assert_array_equal(direct.theta, tagger.fit_.theta)
    tagger.save(tmp_path / "tagger.ff")
    loaded = ff.CRFTagger.load(tmp_path / "tagger.ff")
    assert (loaded.order, loaded.unseen_transitions) == (2, tagger.unseen_transitions)
    assert loaded.predict(unseen[1]) == tagger.predict(unseen[1])
    assert loaded.predict_nbest(unseen[1][:3], 3) == tagger.predict_nbest(unseen[1][:3], 3)
    assert loaded.fit_.standard_errors().tobytes() == tagger.fit_.standard_errors().tobytes()
    assert tagger.predict([unseen[1][3]]) == [tagger.predict(unseen[1])[3]]
    assert tagger.score(unseen[1], unseen[2]) > 0.75


def test_label_triples_are_the_weights(tagger):
    weights = dict(zip(tagger.fit_.parameter_names, tagger.fit_.theta, strict=True))
    table = tagger.label_triples()
    assert len(table) == len(tagger.model_.layout.triples)
    for row in table.itertuples():
        assert weights[f"{row.before}->{row.label}"] == row.weight
    assert tagger.transitions().loc["B-NP", "I-NP"] == weights["B-NP->I-NP"]
    first = ff.CRFTagger().fit([["a"], ["b"]], [["x"], ["y"]])
    with pytest.raises(ModelError, match="fit with order=2"):
        first.label_triples()


def test_a_warm_start_is_matched_by_names(tagger, toy):
    _, X, y = toy
    order = np.random.default_rng(0).permutation(len(X))
    options = tagger.get_params()
    moved = ff.CRFTagger(**options).fit([X[k] for k in order], [y[k] for k in order], start=tagger)
    assert moved.fit_.iterations < 3 < tagger.fit_.iterations
    # From the first order to the second and back: what both have is taken over.
    first = ff.CRFTagger(sigma2=5).fit(X, y)
    assert ff.CRFTagger(**options).fit(X, y, start=first).fit_.converged
    assert ff.CRFTagger(sigma2=5).fit(X, y, start=tagger).fit_.converged


def test_compaction_drops_weights_and_tells_the_loss(tagger, toy, tmp_path):
    small = tagger.compact(0.3)
    report = small.compaction_
    assert report.parameters_after < report.parameters_before
    lost = tagger.log_likelihood(*toy[1:]).sum() - small.log_likelihood(*toy[1:]).sum()
    assert report.loss == pytest.approx(lost / len(toy[1]), abs=1e-10)
    small.save(tmp_path / "small.ff")
    assert ff.CRFTagger.load(tmp_path / "small.ff").predict(toy[1]) == small.predict(toy[1])
    assert tagger.compact(0.0).compaction_.loss == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_sigma2_by_cross_validation_when_triples_are_forbidden(toy):
    """A triple that only one fold has is possible in the others."""
    fitted = ff.CRFTagger(sigma2=[0.1, 10.0], order=2, unseen_transitions="forbidden").fit(toy[1], toy[2])
    assert np.isfinite(fitted.cv_results_["nll"]).all()


def test_a_sentence_without_possible_labels_is_refused():
    X, y = [["a", "b"], ["b"]], [["x", "y"], ["y"]]
    tagger = ff.CRFTagger(order=2, unseen_transitions="forbidden").fit(X, y)
    assert tagger.predict([["a", "b"], ["b"]]) == y
    with pytest.raises(
        DataError, match=r"No labels are possible for sequence 0 .*3 tokens.*unseen_transitions='zero'"
    ):
        tagger.predict([["a", "b", "a"]])


def test_templates_without_transitions_have_no_second_order():
    with pytest.raises(ModelError, match="no B line"):
        ff.CRFTagger(order=2, features="U00:%x[0,0]\n").fit([["a"], ["b"]], [["x"], ["y"]])
