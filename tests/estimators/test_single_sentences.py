"""One sentence at a time gives the labels of many at a time."""

import gc
import pickle

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.estimators import single_sentences
from fieldfit.types import DataError


def corpus(kind, seed=0, n=40):
    random = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(15)]
    X, y = [], []
    for _ in range(n):
        chosen = random.choice(words, size=int(random.integers(1, 9))).tolist()
        y.append([f"L{(int(w[1:]) + int(random.integers(2))) % 5}" for w in chosen])
        tokens = {
            "words": lambda w: w,
            "lists": lambda w: [w, f"first={w[1]}", "bias"],
            "dicts": lambda w: {"word": w, "size": 0.5 * len(w), "odd": int(w[1:]) % 2 == 1},
            "sets": lambda w: {w, "bias"},
        }[kind]
        X.append([tokens(w) for w in chosen])
    return X, y


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("kind", ["words", "lists", "dicts", "sets"])
def test_labels_are_those_of_many_sentences(kind, pairs):
    X, y = corpus(kind)
    tagger = ff.CRFTagger("PL1", sigma2=1, crfsuite_compatible=pairs).fit(X, y)
    seen = [*X, *corpus(kind, seed=1)[0], [*X[0], *X[1]]]
    together = tagger.predict([*seen, X[0]])
    assert single_sentences.tag_single(tagger.fit_, tagger.encoder_, tagger.classes_, X[0]) is not None
    assert [tagger.predict_single(sentence) for sentence in seen] == together[:-1]
    again = pickle.loads(pickle.dumps(tagger))
    assert again.predict([X[0]]) == [together[0]]


def test_what_cannot_be_read_is_explained_and_empty_sentences_are_empty():
    X, y = corpus("lists")
    tagger = ff.CRFTagger("PL1", sigma2=1).fit(X, y)
    with pytest.raises(DataError, match="3"):
        tagger.predict([[["a"], 3]])
    assert tagger.predict([[]]) == [[]]
    assert tagger.predict([(["bias"], ["bias"])]) == [tagger.predict_single([["bias"], ["bias"]])]


@pytest.mark.slow
def test_a_tagger_is_forgotten_with_its_fit():
    X, y = corpus("lists")
    before = len(single_sentences._TAGGERS)
    tagger = ff.CRFTagger("PL1", sigma2=1).fit(X, y)
    tagger.predict([X[0]])
    assert len(single_sentences._TAGGERS) == before + 1
    del tagger
    gc.collect()
    assert len(single_sentences._TAGGERS) <= before
