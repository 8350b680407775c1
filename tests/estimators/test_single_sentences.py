"""One sentence at a time gives the labels of many at a time."""

import gc
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fieldfit as ff
from fieldfit.estimators import single_sentences
from fieldfit.types import DataError, ModelError


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


@pytest.mark.parametrize("features", [None, "tagger"])
def test_none_is_neither_a_sentence_nor_a_token(features):
    X, y = corpus("words")
    tagger = ff.CRFTagger("PL1", sigma2=1, features=features).fit(X, y)
    for sentence in (None, [None], [None, "w1"], ["w1", None]):
        with pytest.raises(DataError, match="None"):
            tagger.predict_single(sentence)
        with pytest.raises(DataError, match="None"):
            tagger.predict([sentence, ["w1"]])


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


#: Templates with marks on both sides, several cells, shared features, derived columns and label pairs.
FEATURES = {
    "columns": "columns",
    "tagger": "tagger",
    "chunker": "chunker",
    "template": "U0:%x[-2,0]\nU1:%x[0,0]/%x[1,1]\nU2:%x[-1,1]/%x[0,1]/%x[3,0]\nU3\nU:%x[-1,0]\nU:%x[1,0]\nB",
    "pairs": "U0:%x[0,0]\nB\nB1:%x[0,1]\nB2:%x[-1,0:lower]/%x[0,0:suffix2]",
    "pairs only": "B0:%x[0,1]\nB1:%x[2,0]",
}
WORDS = [
    "the",
    "The",
    "dog",
    "42",
    "3,5",
    "Äpfel",
    "ΣΑΣ",
    "don't",
    "a b",
    "tab\there",
    "日本",
    "_B-1",
    "/",
    "\0",
    "I",
]
odd_words = st.one_of(
    st.sampled_from(WORDS), st.text(st.sampled_from("aBΣ1/_ \t\ud800日"), max_size=4), st.text(max_size=3)
)
odd_rows = st.lists(st.tuples(odd_words, st.sampled_from(["N", "V", "X", "é", ""])), max_size=6)


@cache
def template_tagger(features, compatible=False):
    """A tagger of rows (of words for "tagger") whose labels depend on words, tags and neighbours."""
    random = np.random.default_rng(5)
    X, y = [], []
    for _ in range(60):
        n = int(random.integers(1, 8))
        words = random.integers(len(WORDS), size=n).tolist()
        tags = random.integers(4, size=n).tolist()
        y.append([f"L{(words[t] + 2 * tags[t] + (t and words[t - 1])) % 5}" for t in range(n)])
        rows = [(WORDS[w], "NVXé"[tag]) for w, tag in zip(words, tags, strict=True)]
        X.append([word for word, _ in rows] if features == "tagger" else rows)
    spec = FEATURES[features]
    return ff.CRFTagger("FL", sigma2=3, features=spec, crfsuite_compatible=compatible, max_iter=25, tol=1e-2).fit(
        X, y
    )


@pytest.mark.slow
@pytest.mark.parametrize("compatible", [False, True])
@pytest.mark.parametrize("features", FEATURES)
@settings(deadline=None, max_examples=40)
@given(st.lists(odd_rows, min_size=2, max_size=4))
def test_templates_give_the_labels_and_marginals_of_many_sentences(features, compatible, sentences):
    tagger = template_tagger(features, compatible)
    if features == "tagger":
        sentences = [[word for word, _ in sentence] for sentence in sentences]
    together, marginals = tagger.predict(sentences), tagger.predict_proba(sentences)
    for sentence, labels, probabilities in zip(sentences, together, marginals, strict=True):
        assert tagger.predict_single(sentence) == labels
        single = single_sentences.tag_single(tagger.fit_, tagger.encoder_, tagger.classes_, sentence)
        assert single == (labels or None)  # an empty sentence takes the general way
        found = [list(token.values()) for token in tagger.predict_marginals_single(sentence)]
        np.testing.assert_allclose(np.reshape(found, probabilities.shape), probabilities, atol=1e-12)


def test_rows_may_be_lists_have_the_label_and_numpy_texts():
    tagger = template_tagger("template")
    rows = [("the", "N"), ("dog", "V"), ("Äpfel", "X")]
    expected = tagger.predict([rows, rows])[0]
    for form in (
        [list(row) for row in rows],
        [(*row, "L0") for row in rows],
        [(np.str_(word), np.str_(tag)) for word, tag in rows],
        tuple(rows),
    ):
        assert tagger.predict_single(form) == expected


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        (["the", "dog"], "read column 1"),
        ([("the",), ("dog",)], "read column 1"),
        ([("the", "N", "L0", "more")], "has 4 columns"),
        ([("the", "N"), ("dog",)], r"X\[0\]\[1\] is \('dog',\); it must be 2 columns"),
        ([("the", "N"), "dog"], r"X\[0\]\[1\] is 'dog'"),
        ([("the", 3)], r"X\[0\]\[0\]"),
        ([{"word": "the"}], "a token is a word or a tuple of columns"),
    ],
)
def test_rows_that_cannot_be_read_are_explained(sentence, words):
    with pytest.raises(DataError, match=words):
        template_tagger("template").predict_single(sentence)


@pytest.mark.parametrize("features", ["chunker", "pairs"])
def test_threads_give_serial_results(features):
    tagger = template_tagger(features)
    random = np.random.default_rng(2)
    sentences = [
        [(f"{WORDS[w]}{'' if w % 3 else w}", "NVXé"[w % 4]) for w in random.integers(len(WORDS), size=9).tolist()]
        for _ in range(200)
    ]
    serial = [tagger.predict_single(sentence) for sentence in sentences]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: [tagger.predict_single(sentence) for sentence in sentences], range(4)):
            assert found == serial


def test_compact_and_saved_taggers_agree(tmp_path):
    tagger = template_tagger("pairs")
    sentences = [[("the", "N"), ("dog", "V"), ("new", "X")], [("Äpfel", "é")]]
    again = pickle.loads(pickle.dumps(tagger))
    tagger.save(tmp_path / "tagger")
    loaded = ff.CRFTagger.load(tmp_path / "tagger"), ff.load_tagger(tmp_path / "tagger")
    for other in (again, *loaded, tagger.compact(0.05)):
        assert [other.predict_single(sentence) for sentence in sentences] == other.predict(sentences)
    assert again.predict(sentences) == tagger.predict(sentences)


@pytest.mark.slow
def test_long_sentences_with_label_pairs_take_the_general_way():
    tagger = template_tagger("pairs")
    sentence = [("the", "N"), ("dog", "V")] * 40_000
    assert single_sentences.tag_single(tagger.fit_, tagger.encoder_, tagger.classes_, sentence) is None
    assert tagger.predict_single(sentence) == tagger.predict([sentence, sentence[:1]])[0]


def test_a_service_needs_no_scikit_learn(tmp_path):
    template_tagger("pairs").save(tmp_path / "tagger")
    program = (
        "import sys, fieldfit as ff\n"
        f"print(ff.load_tagger({str(tmp_path / 'tagger')!r}).predict_single([('the', 'N'), ('dog', 'V')]))\n"
        "print(sorted({'sklearn', 'pandas', 'scipy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    expected = template_tagger("pairs").predict_single([("the", "N"), ("dog", "V")])
    assert done.stdout.splitlines() == [str(expected), "[]"]


def test_other_fits_are_no_taggers(tmp_path):
    ff.fit(ff.BoltzmannMachine(2, biases=True), np.eye(2)[[0, 1, 1, 0, 0]], sigma2=1).save(tmp_path / "field")
    with pytest.raises(ModelError, match="needs a chain CRF"):
        ff.load_tagger(tmp_path / "field")


def test_the_weights_of_a_fit_do_not_change_in_place():
    """A compiled tagger has read some of them."""
    tagger = ff.CRFTagger().fit([["the", "dog"]], [["D", "N"]])
    with pytest.raises(ValueError, match="read-only"):
        tagger.fit_.theta[0] = 1.0
