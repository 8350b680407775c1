"""Sentence sentiment as chains: a document is a sequence, a sentence a token, its words its features (Section 7.1).

The paper's set (249 reviews, five levels) is not public; the stand-in is the fine-grained set of product reviews with the
five labels pos, neg, neu, mix and nr. A file has documents between blank lines: a name, a line with category and rating,
then a label, a tab and a sentence in each line.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import fieldfit as ff
from fieldfit.chains import Sequences
from fieldfit.types import DataError
from fieldfit_paper.chain_data import ChainData

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)*|[!?]")


def words_of(sentence: str) -> list[str]:
    """The different lower-cased words, exclamation and question marks of a sentence, in order."""
    return list(dict.fromkeys(_WORD.findall(sentence.lower())))


def read_documents(path: Path) -> list[list[tuple[str, str]]]:
    """(label, sentence) of every sentence of every document."""
    documents = []
    for number, block in enumerate(re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip())):
        lines = block.split("\n")[2:]
        pairs = [line.split("\t", 1) for line in lines if line.strip()]
        if not pairs or any(len(pair) != 2 for pair in pairs):
            raise DataError(
                f"Document {number} (counted from 0) of {path} is not a name, a line of category and rating, and lines "
                "of label, tab and sentence."
            )
        documents.append([(label.strip(), sentence) for label, sentence in pairs])
    return documents


def encode_documents(documents: list[list[tuple[str, str]]]) -> ChainData:
    """Binary bags of words; every word has a weight with every label."""
    labels = sorted({label for document in documents for label, _ in document})
    label_code = {label: code for code, label in enumerate(labels)}
    vocabulary: dict[str, int] = {}
    indices: list[int] = []
    counts, codes = [], []
    for document in documents:
        for label, sentence in document:
            words = words_of(sentence)
            indices += [vocabulary.setdefault(word, len(vocabulary)) for word in words]
            counts.append(len(words))
            codes.append(label_code[label])
    features = Sequences(
        np.concatenate(([0], np.cumsum([len(document) for document in documents]))),
        np.concatenate(([0], np.cumsum(counts))),
        np.array(indices, dtype=np.int32),
        None,
        np.array(codes, dtype=np.int32),
        len(vocabulary),
        len(labels),
    )
    return ChainData("sentiment", features, None, tuple(labels), "all", 0)


def sentiment_data() -> ChainData:
    """The fine-grained set, found through FIELDFIT_DATA."""
    return encode_documents(read_documents(ff.find_data("sentiment/finegrained.txt")))
