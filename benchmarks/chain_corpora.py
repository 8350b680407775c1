"""The corpora of the chain benchmarks in codes, and the CRFs that CRFsuite would make of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, read_columns
from fieldfit.data.locate import find_data
from fieldfit.data.sequences import Sequences
from fieldfit.data.templates import parse_templates
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import Windows

SIGMA2 = 1.0
LAYOUTS = ("observed", "all")
ATIS = """
U:word=%x[0,0]
U:word-1=%x[-1,0]
U:word+1=%x[1,0]
U:word-1,word=%x[-1,0],%x[0,0]
U:word,word+1=%x[0,0],%x[1,0]
B
"""
#: The template of CRF++'s chunking example.
TEMPLATE = """
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]
U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]
U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]
B
"""
CORPORA = {
    "conll": ("conll2000/train.txt", "conll2000/test.txt"),
    "template": ("conll2000/train.txt", "conll2000/test.txt"),
    "atis": ("sequences/atis_train.txt", "sequences/atis_test.txt"),
    "ewt": ("sequences/ewt_train.txt", "sequences/ewt_test.txt"),
    "fine": ("sequences/ewt_train.txt", "sequences/ewt_test.txt"),
}
TITLES = {
    "conll": "CoNLL-2000",
    "template": "CoNLL-2000, CRF++ template",
    "atis": "ATIS",
    "ewt": "English EWT",
    "fine": "English EWT, fine tags",
}
#: Fine tags are both tags of a token and the last letter of its word, where that is one of these.
ENDINGS = "sdgny"


def training_text(name: str, sentences: int | None = None) -> ColumnText:
    """The (first) training sentences."""
    train = read_columns(find_data(CORPORA[name][0]))
    if name == "fine":
        train = finely_tagged(train)
    if sentences is None or sentences >= train.n_sentences:
        return train
    stop = int(train.offsets[sentences])
    codes = tuple(column[:stop] for column in train.codes)
    return ColumnText(train.offsets[: sentences + 1], codes, train.values, train.lines[:stop], train.sources)


def finely_tagged(text: ColumnText) -> ColumnText:
    """English EWT with 256 labels in place of its two columns of tags."""
    words, first, second = (
        [values[code] for code in codes.tolist()] for codes, values in zip(text.codes, text.values, strict=True)
    )
    tags = [
        f"{a}|{b}|{word[-1] if word[-1] in ENDINGS else ''}" for word, a, b in zip(words, first, second, strict=True)
    ]
    number = {tag: code for code, tag in enumerate(dict.fromkeys(tags))}
    codes = np.array([number[tag] for tag in tags], dtype=np.int32)
    return replace(text, codes=(text.codes[0], codes), values=(text.values[0], tuple(number)))


def learn(name: str, text: ColumnText) -> tuple[ColumnEncoder, Sequences]:
    """The encoder and the codes of the paper's seven features, of CRF++'s template, or of words and neighbours.

    As in CRF++'s example its features have to occur three times.
    """
    if name == "conll":
        return ColumnEncoder.fit(text, "conll2000")
    if name == "template":
        return ColumnEncoder.fit(text, parse_templates(TEMPLATE), min_count=3)
    return ColumnEncoder.fit(text, parse_templates(ATIS))


def corpus(name: str, sentences: int | None = None) -> tuple[ColumnEncoder, Sequences, ColumnText]:
    """The encoder, the (first) training sentences in codes of their own, and the test text."""
    encoder, data = learn(name, training_text(name, sentences))
    return encoder, data, read_columns(find_data(CORPORA[name][1]))


def crfsuite_like(data: Sequences, layout: str) -> ChainCRF:
    """CRFsuite's model: no start or end weights, observed or all pairs and transitions."""
    model = ChainCRF(data.n_labels, data.n_features, pairs=layout, transitions=layout, start=False, end=False)
    return model.observe(data)


def plain(width: int) -> tuple[Windows, ...]:
    """All windows of a width (0: whole sentences), with weight 1."""
    return (Windows(width, 1.0, None, None, None),)


def items(data: Sequences) -> list[list[list[str]]]:
    """The features of each token as names, as CRFsuite takes them."""
    return list(each_sentence(data))


def each_sentence(data: Sequences) -> Iterator[list[list[str]]]:
    """The same, one sentence at a time: the peer need not hold all names at once."""
    for first, last in pairwise(data.offsets.tolist()):
        bounds = data.indptr[first : last + 1].tolist()
        codes = data.indices[bounds[0] : bounds[-1]].tolist()
        yield [[f"f{code}" for code in codes[a - bounds[0] : b - bounds[0]]] for a, b in pairwise(bounds)]


def by_sentence(flat: list[Any], offsets: np.ndarray) -> list[list[Any]]:
    bounds = offsets.tolist()
    return [flat[a:b] for a, b in pairwise(bounds)]


def crfsuite_trainer(data: Sequences, labels: list[str], layout: str, iterations: int, epsilon: float = 0.0) -> Any:
    """CRFsuite with the sentences in it, set to the same model and penalty.

    It stops at the largest number of iterations, or where ‖gradient‖ is at most ``epsilon`` times ‖θ‖.
    """
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence, (first, last) in zip(each_sentence(data), pairwise(data.offsets.tolist()), strict=True):
        trainer.append(sentence, [labels[y] for y in data.labels[first:last].tolist()])
    everything = layout == "all"
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": 1 / (2 * SIGMA2),
            "max_iterations": iterations,
            "epsilon": epsilon,
            "delta": 0.0,
            "period": 10_000,
            "feature.possible_states": everything,
            "feature.possible_transitions": everything,
        }
    )
    return trainer
