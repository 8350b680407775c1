"""fit boltzmann-chain, and predict and evaluate with what it saves."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

import fieldfit as ff
from fieldfit.data.columns import parse_columns
from fieldfit.estimators.symbol_tagger import SymbolTagger
from fieldfit.types import DataError, ModelError

SENTENCES = """
the DT B
dog NN I
runs VB O

a DT B
big JJ I
cat NN I
sees VB O
the DT B
dog NN I

runs VB O
"""


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(SENTENCES * 5, encoding="utf-8")
    return path


@pytest.fixture
def model(run, train, tmp_path):
    path = tmp_path / "chain.ff"
    assert run("fit", "boltzmann-chain", train, "--symbol", 1, "--sigma2", 10, "--out", path).code == 0
    return path


def test_the_fit_is_that_of_the_library(run, train, tmp_path):
    out = tmp_path / "chain.ff"
    ran = run(
        "fit", "boltzmann-chain", train, "--symbol", 1, "--policy", "PL1 + 0.5*PL2", "--sigma2", 5, "--seed", 3,
        "--tol", "1e-6", "--out", out, "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    document = ran.json
    assert (document["labels"], document["symbols"], document["n"]) == (["B", "I", "O"], 4, 15)
    assert document["converged"]
    loaded = ff.load(out)
    assert loaded.model.kind == "boltzmann_chain"
    assert loaded.parameter_names[-1] == "O:U:JJ"
    assert len(document["largest"]) == 10
    best = int(np.abs(loaded.theta).argmax())
    assert document["largest"][0] == {"name": loaded.parameter_names[best], "estimate": loaded.theta[best]}
    # The same by hand: codes in the order of the first occurrence.
    code = {"DT": 0, "NN": 1, "VB": 2, "JJ": 3}
    text = parse_columns(SENTENCES * 5)
    lengths = np.diff(text.offsets)
    from fieldfit.data.sequences import Sequences

    tokens = int(lengths.sum())
    data = Sequences(
        text.offsets,
        np.arange(tokens + 1),
        np.array([code[s] for s in text.column(1)], dtype=np.int32),
        None,
        np.array(["BIO".index(label) for label in text.column(2)], dtype=np.int32),
        4,
        3,
    )
    direct = ff.fit(ff.BoltzmannChain(3, 4), data, "PL1 + 0.5*PL2", sigma2=5, random_state=3, tol=1e-6)
    np.testing.assert_array_equal(loaded.theta, direct.theta)


def test_printed_and_saved(run, train, tmp_path):
    out = tmp_path / "chain.ff"
    ran = run("fit", "boltzmann-chain", train, "--rows", 2, "--out", out)
    assert ran.code == 0
    assert "15 sentences, 3 labels, 7 symbols, 33 parameters" in ran.out
    assert "sigma2: 10\n" in ran.out
    assert f"saved: {out}" in ran.err
    assert run("show", out, "--rows", 3).code == 0


def test_predict_and_evaluate(run, model, tmp_path):
    test = tmp_path / "test.txt"
    test.write_text("the DT B\ncat NN I\n\nruns VB B\n", encoding="utf-8")
    ran = run("predict", model, test)
    assert ran.code == 0, ran.err
    assert ran.out == "the\tDT\tB\tB\ncat\tNN\tI\tI\n\nruns\tVB\tB\tO\n\n"
    scores = run("evaluate", model, test, "--json").json
    assert scores["tokens"] == 3
    assert scores["accuracy"] == pytest.approx(2 / 3)
    with_marginals = run("predict", model, test, "--marginals", "--json").json["sentences"]
    assert np.asarray(with_marginals[0]["marginals"]).shape == (2, 3)
    best = run("predict", model, test, "--nbest", 2, "--json").json["sentences"]
    assert best[0]["paths"][0]["predicted"] == ["B", "I"]
    unlabelled = tmp_path / "unlabelled.txt"
    unlabelled.write_text("the DT\ncat NN\n", encoding="utf-8")
    assert run("predict", model, unlabelled, "--decoding", "posterior").out == "the\tDT\tB\ncat\tNN\tI\n\n"


def test_an_unseen_symbol_is_summed_out(model):
    """Against the sum over all symbols in its place, by enumeration of labels."""
    tagger = SymbolTagger.load(model)
    A, start, B = tagger.model_.split(tagger.fit_.theta)
    K = 3

    def score(labels, emission):
        return start[labels[0]] + sum(A[a, b] for a, b in itertools.pairwise(labels)) + emission

    known = {name: code for code, name in enumerate(tagger.encoder_.feature_names())}
    paths = list(itertools.product(range(K), repeat=3))
    emissions = [B[p[0], known["U:DT"]] + logsumexp(B[p[1]]) + B[p[2], known["U:VB"]] for p in paths]
    scores = np.array([score(p, e) for p, e in zip(paths, emissions, strict=True)])
    chances = np.exp(scores - logsumexp(scores))
    expected = np.array([[chances[[p[t] == k for p in paths]].sum() for k in range(K)] for t in range(3)])
    text = parse_columns("x DT\ny ZZZ\nz VB\n")
    np.testing.assert_allclose(tagger.predict_proba(text)[0], expected, atol=1e-12)
    best = paths[int(chances.argmax())]
    assert tagger.predict(text) == [[tagger.classes_[code] for code in best]]
    (labels, value), *_ = tagger.predict_nbest(text, 2)[0]
    assert labels == tagger.predict(text)[0]
    assert value == pytest.approx(np.log(chances.max()), abs=1e-10)


def test_known_symbols_agree_with_the_model(model):
    tagger = SymbolTagger.load(model)
    text = parse_columns(SENTENCES)
    sequences = tagger.encoder_.encode(text)
    codes = tagger.model_.predict(tagger.fit_.theta, sequences)
    assert [label for labels in tagger.predict(text) for label in labels] == [tagger.classes_[code] for code in codes]
    np.testing.assert_allclose(
        np.concatenate(tagger.predict_proba(text)), tagger.model_.marginals(tagger.fit_.theta, sequences), atol=1e-14
    )


def test_refusals(refused, run, train, model, tmp_path):
    assert "column 2, counted from 0" in refused("fit", "boltzmann-chain", train, "--symbol", 2)
    assert "one number, or none" in refused("fit", "boltzmann-chain", train, "--sigma2", "cv")
    one = tmp_path / "one.txt"
    one.write_text("O\nO\n", encoding="utf-8")
    assert "and no other" in refused("fit", "boltzmann-chain", one)
    wide = tmp_path / "wide.txt"
    wide.write_text("a b c d e\n", encoding="utf-8")
    assert "5 columns" in refused("predict", model, wide)
    with pytest.raises(DataError, match="columns of text"):
        SymbolTagger.load(model).predict([["the"]])
    with pytest.raises(ModelError, match="posterior"):
        SymbolTagger.load(model).predict(parse_columns("a DT\n"), decoding="best")
    crf = tmp_path / "crf.ff"
    assert run("fit", "crf", train, "--out", crf).code == 0
    with pytest.raises(ModelError, match="chain_crf"):
        SymbolTagger.load(crf)
    by_hand = tmp_path / "by-hand.ff"
    ff.fit(ff.BoltzmannMachine(2), np.array([[0, 1], [1, 0], [1, 1], [0, 0]]), sigma2=1).save(by_hand)
    assert "boltzmann" in refused("predict", by_hand, train)


@pytest.mark.slow
def test_automatic_weights_are_shown(run, train):
    ran = run("fit", "boltzmann-chain", train, "--policy", "PL1 + PL2", "--weights", "auto", "--rows", 0)
    assert ran.code == 0, ran.err
    assert "β[PL1]" in ran.out
    assert "parameter" not in ran.out.splitlines()[-1]
