"""Counts of the data sets (Sections 8.2 and 8.3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fieldfit.chains import Sequences
from fieldfit_paper.chain_data import chain_data
from fieldfit_paper.claim_rows import Finding, Row, Verdict

#: Of the paper's set of reviews: documents, sentences a document, words a sentence, words of the vocabulary.
PRINTED_SENTIMENT = (249, 30.5, 12.3, 12_633)


def label_ngrams(sequences: Sequences, order: int) -> int:
    """How many different label sequences of ``order`` + 1 there are, with ``order`` start symbols before each sentence."""
    K = sequences.n_labels + 1  # the start is a label of its own
    position = np.arange(sequences.n_tokens) - np.repeat(sequences.offsets[:-1], sequences.lengths)
    labels = sequences.labels.astype(np.int64)
    code = labels.copy()
    for back in range(1, order + 1):
        before = np.concatenate((np.full(back, K - 1), labels[: len(labels) - back]))
        code += np.where(position >= back, before, K - 1) * K**back
    return len(np.unique(code))


def chunking_counts() -> Iterator[Row]:
    """Counts of CoNLL-2000."""
    data = chain_data("conll2000")
    assert data.symbols is not None
    first = int(data.features.offsets[data.n_train])
    for claim, printed, counted in (
        ("tokens of the training part", 211_727, first),
        ("tokens of the test part", 47_377, data.features.n_tokens - first),
        ("different tokens", 21_589, data.symbols.n_features),
        ("binary features", 273_571, data.features.n_features),
        ("feature/label pairs", 297_041, data.n_pairs),
    ):
        yield Row("Section 8.3.2", f"{printed:,} {claim}", Finding.of(f"{counted:,}", printed == counted))
    pairs, triples = (label_ngrams(data.features, order) for order in (1, 2))
    why = (
        "A chain of first order, as the paper draws it, has weights of label pairs. 847 is the number of different label "
        "trigrams with two start symbols, as in the second-order chains of Sha and Pereira."
    )
    yield Row(
        "Section 8.3.2",
        "847 transitions",
        Finding.of(f"{pairs} different label pairs (with the start)", pairs == 847),
        why,
        Finding.of(f"{triples} different label trigrams", triples == 847),
    )
    yield Row(
        "Section 8.3.2",
        "297,888 parameters",
        Finding.of(f"{data.n_pairs + pairs:,}", data.n_pairs + pairs == 297_888),
        why,
        Finding.of(f"{data.n_pairs + triples:,}", data.n_pairs + triples == 297_888),
    )


def sentiment_counts() -> Iterator[Row]:
    """Counts of the set that stands in for the paper's reviews."""
    data = chain_data("sentiment").features
    words = len(data.indices) / data.n_tokens
    sizes = f"{data.n_sequences} documents, {data.lengths.mean():.1f} sentences each, {words:.1f} words a sentence"
    documents, sentences, length, vocabulary = PRINTED_SENTIMENT
    yield Row(
        "Section 8.2",
        f"{documents} reviews of {sentences} sentences of {length} words, {vocabulary:,} different words, five labels",
        Finding(f"{sizes}, {data.n_features:,} different words, {data.n_labels} labels", Verdict.NOT_MEASURED),
        "The paper's set is not public. A public set of product reviews with five labels stands in, so only the shape of "
        "results can be compared.",
    )
