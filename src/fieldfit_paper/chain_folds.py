"""One fold of a chain experiment, with only the parameters that its training sentences can move.

Under the penalty ‖θ‖²/(2σ²) two reductions are exact, and make a fit some thirty times smaller:

- CRF: a feature that no training sentence has enters no score, so its weights stay 0 (`ChainCRF.keep_features`). The
  weights of the features that do occur are kept with all their labels, seen in training or not.
- Boltzmann chain: symbols that no training sentence has share one weight for each label (`BoltzmannChain(unseen=m)`),
  which the penalty counts m times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import fieldfit as ff
from fieldfit.chains import Segments, Sequences, selected_windows
from fieldfit.types import DataError, FloatArray, IntArray, ModelError
from fieldfit_paper.chain_data import ChainData, chain_data, draw_fold

MODELS = ("boltzmann-chain", "crf", "second-order-forbidden", "second-order-zero")
#: What becomes of label triples that do not occur, by the name of a second-order CRF.
UNSEEN = {"second-order-forbidden": "forbidden", "second-order-zero": "zero"}

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


def window_flops(windows: Segments, n_labels: int, per_token: float) -> float:
    """Σ over windows of 3(w−1)K² + 2wK·per_token + 2K·(neighbours): see FLOPS."""
    # The start state is a neighbour as well: it has weights of its own.
    neighbours = 1 + windows.has_right
    each = 3 * (windows.width - 1) * n_labels**2 + 2 * n_labels * (windows.width * per_token + neighbours)
    return float(each.sum())


@dataclass(frozen=True, eq=False)
class ChainFold:
    """A model with its training and test sequences.

    ``copies`` (r,) are the parameters of the whole model that each parameter stands for, ``per_token`` the features of a
    token and ``once`` the operations that do not depend on the windows, both for the count of FLOPs.
    """

    model: ff.ChainCRF | ff.BoltzmannChain
    train: Sequences
    test: Sequences
    copies: FloatArray
    per_token: float
    once: float

    def nll(self, theta: FloatArray, part: Sequences) -> float:
        """The mean of −log p over the sequences."""
        return float(-self.model.log_likelihood(theta, part).mean())

    def flops(self, policy: str, seed: int, beta: FloatArray) -> float:
        """Multiply–adds of value and gradient in the textbook recursions; terms of weight 0 are not counted."""
        terms = zip(selected_windows(self.train, policy, seed), beta, strict=True)
        n_labels = self.model.n_labels
        return sum(window_flops(windows, n_labels, self.per_token) for windows, b in terms if b > 0) + self.once


def crf_fold(data: ChainData, train: IntArray, test: IntArray, unseen: str | None = None) -> ChainFold:
    """The features that training has, with the pairs that have a weight in the whole data; ``unseen``: a chain of order 2.

    The FLOPs are those of a first-order chain.
    """
    whole = data.features.subset(train)
    active = np.unique(whole.indices)
    codes = np.full(whole.n_features, -1, dtype=np.int64)
    codes[active] = np.arange(len(active))
    model = (data.crf if unseen is None else data.second_order(unseen)).keep_features(active)
    per_token = len(whole.indices) / max(whole.n_tokens, 1)
    tested = data.features.subset(test).recode(codes, len(active))
    return ChainFold(model, whole.recode(codes, len(active)), tested, np.ones(model.n_parameters), per_token, 0.0)


def boltzmann_chain_fold(data: ChainData, train: IntArray, test: IntArray) -> ChainFold:
    """The symbols that training has, and one for all others."""
    if data.symbols is None:
        raise DataError(f"The tokens of {data.name} have no single symbol, which a Boltzmann chain needs.")
    whole = data.symbols.subset(train)
    seen = np.unique(whole.indices)
    unseen = whole.n_features - len(seen)
    n_symbols = len(seen) + (unseen > 0)
    codes = np.full(whole.n_features, len(seen), dtype=np.int64)
    codes[seen] = np.arange(len(seen))
    model = ff.BoltzmannChain(whole.n_labels, n_symbols, unseen=max(unseen, 1))
    trained, tested = whole.recode(codes, n_symbols), data.symbols.subset(test).recode(codes, n_symbols)
    return ChainFold(model, trained, tested, model.parameter_copies, 1.0, 2.0 * whole.n_labels * whole.n_features)


@lru_cache(maxsize=4)
def chain_fold(source: str, model: str, fold: int, seed: int, n_train: int, n_test: int | None) -> ChainFold:
    """A fold of a source; cells that follow each other share it."""
    data = chain_data(source)
    drawn = draw_fold(data, fold, seed, n_train, n_test)
    if model == "crf":
        return crf_fold(data, drawn.train, drawn.test)
    if model in UNSEEN:
        return crf_fold(data, drawn.train, drawn.test, UNSEEN[model])
    if model == "boltzmann-chain":
        return boltzmann_chain_fold(data, drawn.train, drawn.test)
    raise ModelError(f"There is no chain model {model!r}; there are {', '.join(MODELS)}.")
