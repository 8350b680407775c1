"""The sequences of the chain experiments and their folds.

A source is a named set of sequences with two encodings of the same labels: ``features`` for the CRF and ``symbols`` (one
for each token) for the Boltzmann chain. A fold draws its training sequences without replacement.

- ``conll2000``: train and test text are encoded together, as the paper counts its features; a fold trains on sentences of
  the training part and tests on the test part.
- ``sentiment``: documents of sentences, see `fieldfit_paper.sentiment`; a fold is a split in halves.
- ``synthetic``: a small chain drawn at random, for trying things out without data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import fieldfit as ff
from fieldfit.chains import ColumnEncoder, Sequences, join_texts, read_columns
from fieldfit.types import DataError, IntArray

SOURCES = ("conll2000", "sentiment", "synthetic")
#: What a source reads, by its names in the catalogue.
FILES = {
    "conll2000": ("conll2000/train.txt", "conll2000/test.txt"),
    "sentiment": ("sentiment/finegrained.txt",),
}


@dataclass(frozen=True, eq=False)
class ChainData:
    """All sequences of a source.

    ``pairs`` says which (feature, label) pairs have a weight: those "observed" in all sequences, or "all".
    ``n_train`` sequences come first and are those to train on; 0 says that every fold splits them all in halves.
    """

    name: str
    features: Sequences
    symbols: Sequences | None
    labels: tuple[str, ...]
    pairs: str
    n_train: int

    @property
    def crf(self) -> ff.ChainCRF:
        """The CRF of all features."""
        return _crf(self)

    def second_order(self, unseen: str) -> ff.ChainCRF:
        """The CRF of all features and of all label triples; triples that do not occur are "forbidden", or have "zero"."""
        K, F = self.features.n_labels, self.features.n_features
        model = ff.ChainCRF(K, F, pairs=self.pairs, transitions="none", order=2, unseen_transitions=unseen, end=False)
        return model.observe(self.features)

    @property
    def n_pairs(self) -> int:
        """The number of (feature, label) pairs that have a weight."""
        return self.crf.n_parameters - self.crf.n_labels * (self.crf.n_labels + 1)


@lru_cache(maxsize=3)
def _crf(data: ChainData) -> ff.ChainCRF:
    K, F = data.features.n_labels, data.features.n_features
    return ff.ChainCRF(K, F, pairs=data.pairs, end=False).observe(data.features)


@dataclass(frozen=True, eq=False)
class Fold:
    """Sequence numbers to train on and to test on."""

    train: IntArray
    test: IntArray


@lru_cache(maxsize=3)
def chain_data(name: str) -> ChainData:
    """The source of that name, read once in a process."""
    if name == "conll2000":
        return _conll2000()
    if name == "sentiment":
        from fieldfit_paper.sentiment import sentiment_data

        return sentiment_data()
    if name == "synthetic":
        return _synthetic()
    raise DataError(f"There is no source of sequences named {name!r}; there are {', '.join(SOURCES)}.")


def need_data(name: str) -> None:
    """Refuse a source whose files are not on this machine."""
    for file in FILES.get(name, ()):
        ff.find_data(file)


def draw_fold(data: ChainData, fold: int, seed: int, n_train: int, n_test: int | None) -> Fold:
    """Fold number ``fold``: the same for every policy, so that policies are compared on the same sentences.

    ``n_test`` None tests on everything that there is to test on.
    """
    random = np.random.default_rng([seed, fold])
    total = data.features.n_sequences
    if data.n_train == 0:
        order = random.permutation(total)
        train, test = order[: total // 2], order[total // 2 :]
        if n_train:
            train = train[:n_train]
    else:
        if not 0 < n_train <= data.n_train:
            raise DataError(f"A fold of {data.name} trains on 1..{data.n_train} sequences; got {n_train}.")
        train = random.permutation(data.n_train)[:n_train]
        test = np.arange(data.n_train, total)
    if n_test is not None and n_test < len(test):
        test = random.permutation(test)[:n_test]
    return Fold(np.sort(train).astype(np.int64), np.sort(test).astype(np.int64))


def _conll2000() -> ChainData:
    parts = [read_columns(ff.find_data(file)) for file in FILES["conll2000"]]
    encoder, features = ColumnEncoder.fit(join_texts(parts), "conll2000")
    # The first template is the word by itself, and its features come first.
    words = next(iter(encoder.block_sizes.values()))
    symbols = first_feature(features, words)
    labels = tuple(str(label) for label in encoder.labels.names)
    n_train = len(parts[0].offsets) - 1
    return ChainData("conll2000", features, symbols, labels, "observed", n_train)


def first_feature(features: Sequences, n_symbols: int) -> Sequences:
    """The sequences with the first feature of each token alone, as its symbol."""
    symbols = features.indices[features.indptr[:-1]]
    if len(symbols) and int(symbols.max()) >= n_symbols:
        raise DataError(f"The first feature of a token is {int(symbols.max())}; symbols are below {n_symbols}.")
    pointer = np.arange(features.n_tokens + 1)
    return Sequences(features.offsets, pointer, symbols, None, features.labels, n_symbols, features.n_labels)


def _synthetic() -> ChainData:
    """60 + 30 sequences of 3 to 8 tokens over 3 labels and 25 symbols; two features a token, its symbol and the last."""
    random = np.random.default_rng(20)
    n_labels, n_symbols, n_sequences = 3, 25, 90
    transition = random.dirichlet(np.full(n_labels, 0.7), n_labels + 1)
    emission = random.dirichlet(np.full(n_symbols, 0.25), n_labels)
    lengths = random.integers(3, 9, n_sequences)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    labels, symbols, before = [], [], []
    for length in lengths.tolist():
        state, last = n_labels, n_symbols
        for _ in range(length):
            state = int(random.choice(n_labels, p=transition[state]))
            symbol = int(random.choice(n_symbols, p=emission[state]))
            labels.append(state)
            symbols.append(symbol)
            before.append(n_symbols + last)
            last = symbol
    indices = np.column_stack([symbols, before]).ravel().astype(np.int32)
    pointer = 2 * np.arange(len(labels) + 1)
    coded = np.array(labels, dtype=np.int32)
    features = Sequences(offsets, pointer, indices, None, coded, 2 * n_symbols + 1, n_labels)
    names = tuple(f"y{k}" for k in range(n_labels))
    return ChainData("synthetic", features, first_feature(features, n_symbols), names, "observed", 60)
