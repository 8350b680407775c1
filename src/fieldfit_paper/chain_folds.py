"""One fold of a chain experiment, with only the parameters that its training sentences can move.

Under the penalty ‖θ‖²/(2σ²) two reductions are exact, and make a fit some thirty times smaller:

- CRF: a feature that no training sentence has enters no score, so its weights stay 0. The weights of the features that
  do occur are kept with all their labels, seen in training or not. In the test text absent features add 0.
- Boltzmann chain: symbols that no training sentence has are exchangeable, so for each label their m weights share one
  value b. With b' = b + log m they are one symbol of the reduced chain, Σ_v exp B(y, v) stays the same, and the penalty
  counts m b². A test token with such a symbol has the score b = b' − log m.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from fieldfit.data.sequences import Sequences
from fieldfit.models.base import Problem
from fieldfit.models.boltzmann_chain_problem import BoltzmannChainProblem
from fieldfit.models.chain_layout import ChainLayout
from fieldfit.models.chain_problem import ChainProblem, Windows
from fieldfit.models.chain_segments import Segments
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray, ModelError
from fieldfit_paper.chain_data import ChainData, chain_data, draw_fold

MODELS = ("boltzmann-chain", "crf")
_WHOLE = (Windows(0, 1.0, None, None, None),)


class ChainFold(Protocol):
    """What a cell needs of a fold, whatever the model."""

    @property
    def lengths(self) -> IntArray:
        """Tokens of each training sequence."""

    @property
    def copies(self) -> FloatArray:
        """How many parameters of the whole model each parameter of the fold stands for (r,)."""

    def problem(self, families: tuple[Windows, ...]) -> Problem:
        """The training sequences with these selected windows."""

    def nll(self, theta: FloatArray, part: str) -> FloatArray:
        """−log p of each sequence of the part "train" or "test"."""

    def flops(self, families: tuple[Windows, ...]) -> float:
        """Multiply–adds of value and gradient in the textbook recursions."""


def window_counts(lengths: IntArray, family: Windows) -> tuple[IntArray, IntArray]:
    """The width and the number of neighbours of every selected window."""
    segments = Segments(np.concatenate(([0], np.cumsum(lengths))), family)
    # The start state is a neighbour as well: it has weights of its own.
    return segments.width, 1 + segments.has_right.astype(np.int64)


def window_flops(lengths: IntArray, families: tuple[Windows, ...], n_labels: int, per_token: float) -> float:
    """Σ over selected windows of 3(w−1)K² + 2wK·per_token + 2K·(neighbours): see FLOPS."""
    total = 0.0
    for family in families:
        width, neighbours = window_counts(lengths, family)
        each = 3 * (width - 1) * n_labels**2 + 2 * n_labels * (width * per_token + neighbours)
        total += float(each.sum())
    return total


#: The formulas, as printed under figures and tables.
FLOPS = {
    "crf": (
        "FLOPs: multiply–adds of value and gradient, Σ over selected windows of 3(w−1)K² + 2wKF + 2Kb for w tokens, K "
        "labels, F features of a token and b labels (or the start) beside the window: forward, backward and edge "
        "marginals; scores and their gradient."
    ),
    "boltzmann-chain": (
        "FLOPs: multiply–adds of value and gradient, Σ over selected windows of 3(w−1)K² + 2wK + 2Kb for w tokens, K "
        "labels and b labels (or the start) beside the window, plus 2KV once for Σ_v exp B(y, v) and its gradient over V "
        "symbols."
    ),
}


class CRFFold:
    """Training and test sequences of a CRF, with the features that training has."""

    def __init__(self, data: ChainData, train: IntArray, test: IntArray) -> None:
        whole = data.features.subset(train)
        self.n_labels = whole.n_labels
        active = np.unique(whole.indices)
        place = np.full(whole.n_features, -1, dtype=np.int64)
        place[active] = np.arange(len(active))
        self.train = keep_features(whole, place, len(active))
        self.test = keep_features(data.features.subset(test), place, len(active))
        pointer: IntArray | None = None
        labels: Int32Array | None = None
        if data.pairs is not None:
            counts = np.diff(data.pairs[0])[active]
            pointer = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
            taken = np.repeat(data.pairs[0][:-1][active] - pointer[:-1], counts) + np.arange(pointer[-1])
            labels = np.ascontiguousarray(data.pairs[1][taken])
        every = np.arange(self.n_labels**2)
        self.layout = ChainLayout(self.n_labels, len(active), every, pointer, labels, start=True, end=False)
        self._scored = {
            "train": ChainProblem(self.layout, self.train, _WHOLE),
            "test": ChainProblem(self.layout, self.test, _WHOLE),
        }
        self._features_per_token = len(whole.indices) / max(whole.n_tokens, 1)

    @property
    def lengths(self) -> IntArray:
        """Tokens of each training sequence."""
        return self.train.lengths

    @property
    def copies(self) -> FloatArray:
        """Every parameter stands for itself; those that are left out have no information."""
        return np.ones(self.layout.n_parameters)

    def problem(self, families: tuple[Windows, ...]) -> Problem:
        """The training sequences with these selected windows."""
        return ChainProblem(self.layout, self.train, families)

    def nll(self, theta: FloatArray, part: str) -> FloatArray:
        """−log p(y | x) of each sequence."""
        return -self._scored[part].row_values(theta)

    def flops(self, families: tuple[Windows, ...]) -> float:
        """Multiply–adds of value and gradient in the textbook recursions."""
        return window_flops(self.lengths, families, self.n_labels, self._features_per_token)


def keep_features(sequences: Sequences, place: IntArray, n_features: int) -> Sequences:
    """The sequences with the features that have a place, renumbered."""
    codes = place[sequences.indices]
    keep = codes >= 0
    pointer = np.concatenate(([0], np.cumsum(keep)))[sequences.indptr]
    values = None if sequences.values is None else sequences.values[keep]
    return Sequences(
        sequences.offsets,
        pointer,
        codes[keep].astype(np.int32),
        values,
        sequences.labels,
        n_features,
        sequences.n_labels,
    )


class SharedSymbol(Problem):
    """A Boltzmann chain whose last symbol stands for m symbols that share one weight for each label (m = 0: none does).

    θ has the shared weight itself; the chain inside has it with log m added (see the module's text).
    """

    def __init__(self, chain: BoltzmannChainProblem, m: int) -> None:
        self.chain, self.m = chain, m
        self.n_samples, self.n_parameters, self.n_families = chain.n_samples, chain.n_parameters, chain.n_families
        self.families = chain.families
        K, V = chain.n_labels, chain.n_symbols
        self.shared: IntArray = K * K + K + V * np.arange(1, K + 1 if m else 1) - 1
        self._shift = np.zeros(self.n_parameters)
        self._shift[self.shared] = np.log(max(m, 1))

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family."""
        return self.chain.betas

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient; training sentences do not have the shared symbol."""
        return self.chain.value_grad(theta + self._shift, row_weight)

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ v."""
        return self.chain.hessian_product(theta + self._shift, v, row_weight)

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """As in the chain."""
        return self.chain.hessian_diagonal(theta + self._shift, row_weight)

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i), for sentences without the shared symbol."""
        return self.chain.row_values(theta + self._shift)

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sequence."""
        return self.chain.row_products(theta + self._shift, v)

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores by family without β."""
        return self.chain.family_scores(theta + self._shift, start, stop)


class BoltzmannChainFold:
    """Training and test sequences of a Boltzmann chain over the symbols that training has, and one for all others."""

    def __init__(self, data: ChainData, train: IntArray, test: IntArray) -> None:
        if data.symbols is None:
            raise DataError(f"The tokens of {data.name} have no single symbol, which a Boltzmann chain needs.")
        whole = data.symbols.subset(train)
        self.n_labels, self.n_all = whole.n_labels, whole.n_features
        seen = np.unique(whole.indices)
        self.m = self.n_all - len(seen)
        self.n_symbols = len(seen) + (self.m > 0)
        place = np.full(self.n_all, len(seen), dtype=np.int64)
        place[seen] = np.arange(len(seen))
        self.train = keep_features(whole, place, self.n_symbols)
        self.test = keep_features(data.symbols.subset(test), place, self.n_symbols)
        unseen = (self.test.indices == len(seen)).astype(np.float64)
        rows = np.repeat(np.arange(self.test.n_sequences), self.test.lengths)
        counts = np.bincount(rows, unseen, minlength=self.test.n_sequences)
        self._correction = {"train": np.zeros(len(train)), "test": counts * np.log(max(self.m, 1))}
        self._scored = {"train": self._shared(self.train, _WHOLE), "test": self._shared(self.test, _WHOLE)}

    def _shared(self, sequences: Sequences, families: tuple[Windows, ...]) -> SharedSymbol:
        return SharedSymbol(BoltzmannChainProblem(self.n_labels, self.n_symbols, sequences, families), self.m)

    @property
    def lengths(self) -> IntArray:
        """Tokens of each training sequence."""
        return self.train.lengths

    @property
    def copies(self) -> FloatArray:
        """1, and m for a shared weight."""
        result = np.ones(self._scored["train"].n_parameters)
        result[self._scored["train"].shared] = self.m
        return result

    def problem(self, families: tuple[Windows, ...]) -> Problem:
        """The training sequences with these selected windows."""
        return self._shared(self.train, families)

    def nll(self, theta: FloatArray, part: str) -> FloatArray:
        """−log p(x, y | start) of each sequence."""
        return np.asarray(self._correction[part] - self._scored[part].row_values(theta))

    def flops(self, families: tuple[Windows, ...]) -> float:
        """Multiply–adds of value and gradient in the textbook recursions, over all symbols."""
        return window_flops(self.lengths, families, self.n_labels, 1.0) + 2.0 * self.n_labels * self.n_all


@lru_cache(maxsize=4)
def chain_fold(source: str, model: str, fold: int, seed: int, n_train: int, n_test: int | None) -> ChainFold:
    """A fold of a source; cells that follow each other share it."""
    data = chain_data(source)
    drawn = draw_fold(data, fold, seed, n_train, n_test)
    if model == "crf":
        return CRFFold(data, drawn.train, drawn.test)
    if model == "boltzmann-chain":
        return BoltzmannChainFold(data, drawn.train, drawn.test)
    raise ModelError(f"There is no chain model {model!r}; there are {', '.join(MODELS)}.")
