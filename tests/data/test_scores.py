"""Chunk scores with conlleval's meaning, by hand and against its rules applied literally."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit.data.chunks import chunk_scores, find_chunks
from fieldfit.data.label_scores import label_scores, token_accuracy
from fieldfit.types import DataError


def spans(*labels):
    chunks = find_chunks([list(labels)])
    return [(int(a), int(b), chunks.types[k]) for a, b, k in zip(chunks.start, chunks.stop, chunks.kind, strict=True)]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-NP I-NP O B-VP", [(0, 2, "NP"), (3, 4, "VP")]),
        ("B-NP B-NP I-NP", [(0, 1, "NP"), (1, 3, "NP")]),
        ("I-NP I-NP B-NP O I-VP", [(0, 2, "NP"), (2, 3, "NP"), (4, 5, "VP")]),  # IOB1
        ("B-NP I-VP I-NP", [(0, 1, "NP"), (1, 2, "VP"), (2, 3, "NP")]),  # a type change splits
        ("S-NP B-NP I-NP E-NP S-VP", [(0, 1, "NP"), (1, 4, "NP"), (4, 5, "VP")]),  # IOBES
        ("I-NP E-NP I-NP", [(0, 2, "NP"), (2, 3, "NP")]),  # IOE
        ("B-A-B I-A-B", [(0, 2, "A-B")]),  # only the first hyphen separates
        ("B I O I", [(0, 2, ""), (3, 4, "")]),
        ("O O", []),
        ("NN VB", []),
    ],
)
def test_chunks_by_hand(labels, expected):
    assert spans(*labels.split()) == expected


def test_chunks_end_with_their_sentence():
    chunks = find_chunks([["B-NP", "I-NP"], [], ["I-NP"], ["O"]])
    assert chunks.start.tolist() == [0, 2]
    assert chunks.stop.tolist() == [2, 3]


def test_scores_by_hand():
    gold = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP"]]
    predicted = [["B-NP", "I-NP", "B-NP", "B-VP"], ["B-PP"]]
    scores = chunk_scores(gold, predicted)
    assert scores.names == ("NP", "PP", "VP")
    assert scores.n_gold.tolist() == [2, 0, 1]
    assert scores.n_predicted.tolist() == [2, 1, 1]
    assert scores.n_correct.tolist() == [1, 0, 1]
    assert scores.precision == 2 / 4
    assert scores.recall == 2 / 3
    assert scores.f1 == pytest.approx(4 / 7)
    assert scores.accuracy == 3 / 5
    assert scores.precisions.tolist() == [0.5, 0.0, 1.0]
    assert scores.recalls.tolist() == [0.5, 0.0, 1.0]
    assert scores.f1s.tolist() == [0.5, 0.0, 1.0]


def test_scores_as_text_and_as_a_frame():
    scores = chunk_scores([["B-NP", "O", "B-VP"]], [["B-NP", "B-VP", "O"]])
    frame: Any = scores.to_frame()
    assert frame.index.tolist() == ["NP", "VP", "total"]
    assert frame.loc["total", ["precision", "recall", "f1"]].tolist() == [0.5, 0.5, 0.5]
    assert frame.loc["NP", ["gold", "predicted", "correct"]].tolist() == [1, 1, 1]
    assert str(scores).splitlines() == [
        "3 tokens, accuracy 33.33%",
        "chunk  precision  recall      F1    gold  predicted  correct",
        "NP       100.00% 100.00%  100.00       1          1        1",
        "VP         0.00%   0.00%    0.00       1          1        0",
        "total     50.00%  50.00%   50.00       2          2        1",
    ]


def test_labels_without_prefixes():
    scores = label_scores([["NN", "VB"], [], ["NN"]], [["NN", "NN"], [], ["XX"]])
    assert scores.names == ("NN", "VB", "XX")
    assert scores.n_gold.tolist() == [2, 1, 0]
    assert scores.n_predicted.tolist() == [2, 0, 1]
    assert scores.n_correct.tolist() == [1, 0, 0]
    assert scores.precision == scores.recall == scores.accuracy == pytest.approx(1 / 3)
    assert token_accuracy([[1, 2]], [[1, 3]]) == 0.5


def test_nothing_to_score():
    for scores in (chunk_scores([], []), chunk_scores([["O"]], [["O"]]), label_scores([[]], [[]])):
        assert (scores.precision, scores.recall, scores.f1) in [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0)]
        assert "total" in scores.table()
    assert chunk_scores([], []).accuracy == 0.0


def test_sentences_that_do_not_match_are_named():
    with pytest.raises(DataError, match="Sentence 1 has 2 gold labels, but 1 predicted"):
        chunk_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(DataError, match="2 gold sentences, but 1 predicted"):
        label_scores([["O"], ["O"]], [["O"]])


def ends(before, after):
    """conlleval: does a chunk end between two tokens, each a (tag, type)?"""
    (tag, kind), (next_tag, next_kind) = before, after
    listed = {"B": "BSO", "I": "BSO", "E": "BIESO", "S": "BIESO"}
    return next_tag in listed.get(tag, "") or (tag not in ("O", ".") and kind != next_kind)


def starts(before, after):
    """conlleval: does a chunk start between two tokens, each a (tag, type)?"""
    (tag, kind), (next_tag, next_kind) = before, after
    listed = {"B": "BS", "I": "BS", "O": "BSIE", "E": "BSIE", "S": "BSIE"}
    return next_tag in listed.get(tag, "") or (next_tag not in ("O", ".") and kind != next_kind)


def literal(gold, predicted):
    """conlleval's one pass over the tokens, with a line O after each sentence: (gold, predicted, right) by type."""
    counts: dict[str, list[int]] = {}
    inside = False
    last = [("O", ""), ("O", "")]
    stream = [pair for g, p in zip(gold, predicted, strict=True) for pair in [*zip(g, p, strict=True), ("O", "O")]]
    for pair in stream:
        here = [tuple(label.split("-", 1)) if "-" in label else (label, "") for label in pair]
        over = [ends(last[side], here[side]) for side in (0, 1)]
        new = [starts(last[side], here[side]) for side in (0, 1)]
        if inside:
            if over[0] and over[1] and last[0][1] == last[1][1]:
                inside = False
                counts.setdefault(last[0][1], [0, 0, 0])[2] += 1
            elif over[0] != over[1] or here[0][1] != here[1][1]:
                inside = False
        if new[0] and new[1] and here[0][1] == here[1][1]:
            inside = True
        for side in (0, 1):
            if new[side]:
                counts.setdefault(here[side][1], [0, 0, 0])[side] += 1
        last = here
    return counts


def corpora(labels):
    sentence = st.lists(st.tuples(labels, labels), max_size=8)
    return st.lists(sentence, max_size=4)


types = st.sampled_from(["NP", "VP"])
iob = st.one_of(st.just("O"), st.builds("{}-{}".format, st.sampled_from("BI"), types))
iobes = st.one_of(st.just("O"), st.builds("{}-{}".format, st.sampled_from("BIES"), types))
untyped = st.sampled_from("BIO")


@settings(deadline=None)
@given(st.one_of(corpora(iob), corpora(iobes), corpora(untyped)))
def test_scores_equal_conlleval_applied_literally(corpus):
    gold = [[one for one, _ in sentence] for sentence in corpus]
    predicted = [[other for _, other in sentence] for sentence in corpus]
    scores = chunk_scores(gold, predicted)
    found = {
        name: [int(a), int(b), int(c)]
        for name, a, b, c in zip(scores.names, scores.n_gold, scores.n_predicted, scores.n_correct, strict=True)
    }
    assert found == literal(gold, predicted)
    pairs = [pair for sentence in corpus for pair in sentence]
    assert scores.n_tokens == len(pairs)
    assert scores.n_tokens_correct == sum(one == other for one, other in pairs)
