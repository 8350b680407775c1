"""`SymbolTagger`: labels of tokens that have one symbol each, by a Boltzmann chain, from columns of text.

The chain models labels and symbols jointly; labels are predicted from p(y | x). A symbol that training never saw is a
missing value and so summed out: it weighs each label by what its known symbols weigh together.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fieldfit.api.files import load
from fieldfit.api.fitting import fit as fit_model
from fieldfit.api.result import Fit
from fieldfit.arguments import one_of
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText
from fieldfit.data.encoders import names_of
from fieldfit.data.label_lists import Label
from fieldfit.data.sequences import Sequences
from fieldfit.data.templates import parse_templates
from fieldfit.estimators.sequence_input import split_sentences
from fieldfit.models.boltzmann_chain import BoltzmannChain
from fieldfit.models.chain_decoding import ScoredChains
from fieldfit.models.chain_layout import LANE
from fieldfit.policies import Policy
from fieldfit.refinement.staged import Staged
from fieldfit.types import DataError, FileFormatError, FloatArray, ModelError


class SymbolTagger:
    """A fitted Boltzmann chain that reads columns of text. Make one with `train` or `load`."""

    def __init__(self, fit: Fit) -> None:
        model = fit.model.symbol_chain
        if model is None:
            raise ModelError(
                f"A SymbolTagger holds a Boltzmann chain; this fit is of the kind {fit.model.kind!r:.80}."
            )
        if not isinstance(fit.encoder, ColumnEncoder):
            raise FileFormatError(
                "This fit has no encoder of columns, so it cannot read sentences: fit it with SymbolTagger.train or "
                "`fieldfit fit boltzmann-chain`."
            )
        self.fit_ = fit
        self.model_ = model
        self.encoder_ = fit.encoder
        self.classes_ = list(fit.encoder.labels)
        self.n_iter_ = fit.iterations

    @classmethod
    def train(
        cls, text: ColumnText, policy: Policy | Staged | str = "FL", *, symbol: int = 0, **options: Any
    ) -> SymbolTagger:
        """Fit to labelled text, whose last column is the label and column ``symbol`` (from 0) the symbol.

        ``options`` (sigma2, l1, weights, random_state, tol, …) are those of `fieldfit.fit`.
        """
        encoder, model, sequences = learn_chain(text, symbol)
        return cls(replace(fit_model(model, sequences, policy, **options), encoder=encoder))

    def _chains(self, X: object) -> ScoredChains:
        """The scores of p(y | x), with the symbols that training never saw summed out."""
        if not isinstance(X, ColumnText):
            raise DataError(f"A SymbolTagger reads columns of text (read_columns); got {type(X).__name__}.")
        sequences = self.encoder_.encode(X)
        K = self.model_.n_labels
        A, start, B = self.model_.split(self.fit_.theta)
        highest = B.max(axis=1)
        summed_out = highest + np.log(np.exp(B - highest[:, None]).sum(axis=1))
        scores = np.full((sequences.n_tokens, -(-K // LANE) * LANE), -np.inf)
        scores[:, :K] = summed_out
        known = np.flatnonzero(np.diff(sequences.indptr))
        scores[known, :K] = B.T[sequences.indices]
        first = sequences.offsets[:-1][np.diff(sequences.offsets) > 0]
        scores[first, :K] += start
        edges = np.zeros((1, scores.shape[1], scores.shape[1]))
        edges[0, :K, :K] = A
        return ScoredChains(sequences.offsets, scores, K, edges)

    def predict(self, X: object, *, decoding: str = "viterbi") -> list[list[Label]]:
        """The labels of each sentence: the best sequence ("viterbi"), or the best label of each token ("posterior")."""
        one_of(decoding, "decoding", ("viterbi", "posterior"), ModelError)
        chains = self._chains(X)
        codes = chains.viterbi()[0] if decoding == "viterbi" else chains.marginals()[0].argmax(axis=1)
        return split_sentences(np.array(self.classes_, dtype=object)[codes].tolist(), chains.offsets)

    def predict_nbest(self, X: object, n: int = 5) -> list[list[tuple[list[Label], float]]]:
        """For each sentence its ``n`` most probable label sequences (fewer if it has fewer) with log p(y | x)."""
        chains = self._chains(X)
        paths, scores = chains.n_best(n)
        values = scores - chains.marginals()[1][:, None]
        names = np.array([*self.classes_, None], dtype=object)  # −1, the code of no path, is the last
        by_rank = [split_sentences(names[path].tolist(), chains.offsets) for path in paths]
        return [
            [(by_rank[rank][s], float(values[s, rank])) for rank in range(n) if np.isfinite(values[s, rank])]
            for s in range(len(chains.offsets) - 1)
        ]

    def predict_proba(self, X: object) -> list[FloatArray]:
        """p(y_t | x) of each sentence as (tokens, labels), the labels in the order of ``classes_``."""
        chains = self._chains(X)
        probabilities = chains.marginals()[0]
        return [probabilities[a:b] for a, b in pairwise(chains.offsets.tolist())]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tagger to a file; `ff.load` reads it too, as a Fit."""
        self.fit_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SymbolTagger:
        """The tagger in a file of `save`."""
        return cls(load(path))


def learn_chain(text: ColumnText, symbol: int) -> tuple[ColumnEncoder, BoltzmannChain, Sequences]:
    """The encoder of one column, the chain of its symbols and labels, and the text as that chain takes it."""
    encoder, sequences = learn_symbols(text, symbol)
    labels, symbols = names_of(encoder)
    model = BoltzmannChain(sequences.n_labels, sequences.n_features, labels=labels, symbols=symbols)
    return encoder, model, sequences


def learn_symbols(text: ColumnText, symbol: int) -> tuple[ColumnEncoder, Sequences]:
    """The encoder of one column, and the text with one feature for each token, its symbol."""
    if not 0 <= symbol < text.n_columns - 1:
        last = text.n_columns - 1
        raise DataError(
            f"The symbol is column {symbol}, counted from 0; the text has {text.n_columns} columns, of which column {last} "
            f"is the label" + (f": give one of 0..{last - 1}." if last else ", and no other.")
        )
    spec = parse_templates(f"U:%x[0,{symbol}]\nB", source="the symbol's column")
    return ColumnEncoder.fit(text, spec)
