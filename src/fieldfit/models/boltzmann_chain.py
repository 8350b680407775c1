"""The Boltzmann chain, a joint model of labels and symbols given the start state (Section 7.2).

    p_θ(x, y | y_0) = exp( Σ_t A(y_{t−1}, y_t) + Σ_t B(y_t, x_t) − log Z ),     y_0 the start state

No component conditions on x: PLk is Pr(X_w, Y_w | labels beside the window). The symbols of a token are independent of
everything else given its label, so they sum out into c_y = log Σ_v exp B(y, v) and every Z is that of a chain of labels.

θ = transitions A (K × K, row by row), start A(y_0, ·) (K), emissions B (K × V, label by label). Weights of symbols that
never occur share one value by symmetry; the likelihood of test data uses it for such symbols.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import check_names, count_of, seed, whole_numbers
from fieldfit.data.alphabet import LazyNames
from fieldfit.data.dataset import Dataset
from fieldfit.data.memory import refuse_beyond_memory
from fieldfit.data.packing import pack_text, unpack_text
from fieldfit.data.sequences import Sequences
from fieldfit.docstrings import filled
from fieldfit.models.boltzmann_chain_problem import BoltzmannChainProblem, symbols_of
from fieldfit.models.chain import MOST_CHAIN_FEATURES, MOST_LABELS, SHARED, ChainModel
from fieldfit.models.chain_decoding import ScoredChains
from fieldfit.models.chain_layout import LANE, end_mark
from fieldfit.models.chain_problem import Windows
from fieldfit.models.chain_sampling import sample_labels
from fieldfit.models.couplings import Couplings
from fieldfit.models.shared_symbol import SharedSymbolProblem, shared_shift
from fieldfit.types import Arrays, FloatArray, ModelError, Plain


@filled(SHARED)
class BoltzmannChain(ChainModel):
    """Boltzmann chain: a joint model of a chain of labels and one symbol per label, given the start state.

    Parameters
    ----------
    n_labels : int
        Number of labels K.
    n_symbols : int
        Number of symbols V. Each token of a dataset has one feature, its symbol.
    labels : sequence of str or None, default: None
        Names of the labels, for `parameter_names`.
    symbols : sequence of str or None, default: None
        Names of the symbols, for `parameter_names`.
    unseen : int, default: 1
        Number of symbols that the last one stands for. They share one weight for each label. Use it for the symbols
        that no training sequence has: with a penalty their weights are equal anyway, and the fit is much smaller.

    Notes
    -----
    The distribution is p_θ(x, y | y_0) = exp(Σ_t A(y_{t−1}, y_t) + Σ_t B(y_t, x_t) − log Z). θ contains the
    transitions A (K × K, by row), the start weights A(y_0, ·) (K) and the emissions B (K × V, by label).

    Examples
    --------
    >>> from fieldfit.data.sequences import Sequences
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> data = Sequences([0, 3, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 2], None, [0, 1, 1, 0, 1], 3, 2)
    >>> fit = ff.fit(ff.BoltzmannChain(2, 3), data, "FL", sigma2=1.0)
    >>> fit.converged, fit.model.n_parameters
    (True, 12)
    """

    kind = "boltzmann_chain"
    inputs = "symbols"

    def __init__(
        self,
        n_labels: int,
        n_symbols: int,
        *,
        labels: Sequence[str] | None = None,
        symbols: Sequence[str] | None = None,
        unseen: int = 1,
    ) -> None:
        n_labels = count_of(n_labels, "The number of labels", 1, MOST_LABELS)
        n_symbols = count_of(n_symbols, "The number of symbols", 1, MOST_CHAIN_FEATURES)
        unseen = count_of(unseen, "unseen, the number of symbols that the last one stands for,")
        for what, names, size in (("labels", labels, n_labels), ("symbols", symbols, n_symbols)):
            check_names(names, what, size)
        self.n_labels, self.n_symbols = n_labels, n_symbols
        self.labels, self.symbols = labels, symbols
        self.unseen = unseen

    @property
    def symbol_chain(self) -> BoltzmannChain:
        """The model itself."""
        return self

    @property
    def n_inputs(self) -> int:
        """The number of symbols."""
        return self.n_symbols

    @property
    def n_parameters(self) -> int:
        """Number of parameters, K² + K + K V."""
        return self.n_labels * (self.n_labels + 1 + self.n_symbols)

    @property
    def parameter_copies(self) -> FloatArray:
        """Number of weights that each parameter stands for (r,): ``unseen`` for the last symbol, 1 for all others.

        The penalty ‖θ‖²/(2σ²) over all weights is ``sigma2=sigma2 / model.parameter_copies``.
        """
        return np.where(shared_shift(self.n_labels, self.n_symbols, 2) > 0, float(self.unseen), 1.0)

    def with_input_names(self, labels: Sequence[str] | None, inputs: Sequence[str] | None) -> BoltzmannChain:
        """Return the same model with other names for labels and symbols."""
        return BoltzmannChain(self.n_labels, self.n_symbols, labels=labels, symbols=inputs, unseen=self.unseen)

    @property
    def parameter_names(self) -> Sequence[str]:
        """``label->label``, ``^->label``, ``label:symbol``. Each name is created on access."""
        return _Names(self)

    def split(self, theta: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Split θ into transitions, start weights and emissions.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.

        Returns
        -------
        transitions : ndarray of shape (K, K)
        start : ndarray of shape (K,)
        emissions : ndarray of shape (K, V)
            All are views of θ if that is an array of floats.

        Examples
        --------
        %(data)s
        >>> model = ff.BoltzmannChain(2, 3)
        >>> theta = np.arange(model.n_parameters) / 10
        >>> [part.shape for part in model.split(theta)]
        [(2, 2), (2,), (2, 3)]
        """
        theta, K = self.check_theta(theta), self.n_labels
        return theta[: K * K].reshape(K, K), theta[K * K : K * K + K], theta[K * K + K :].reshape(K, -1)

    def coupling_matrix(self, theta: ArrayLike) -> Couplings:
        """Return the weights of all transitions; row and column are the label before and after."""
        names = tuple(_Names(self).label(code) for code in range(self.n_labels))
        return Couplings(names, self.split(theta)[0].copy(), "transition weight", directed=True)

    def _checked(self, dataset: object) -> Sequences:
        sequences = super()._checked(dataset)
        symbols_of(sequences)  # refuses tokens without exactly one symbol
        return sequences

    def _problem(
        self, sequences: Sequences, families: tuple[Windows, ...]
    ) -> BoltzmannChainProblem | SharedSymbolProblem:
        chain = BoltzmannChainProblem(self.n_labels, self.n_symbols, sequences, families)
        return chain if self.unseen == 1 else SharedSymbolProblem(chain, self.unseen)

    def _scored(self, theta: FloatArray, dataset: Sequences) -> ScoredChains:
        """The scores of p(y | x, y_0)."""
        K = self.n_labels
        A, start, B = self.split(theta)
        padded = -(-K // LANE) * LANE
        scores = np.full((dataset.n_tokens, padded), -np.inf)
        scores[:, :K] = B.T[symbols_of(dataset)]
        first = dataset.offsets[:-1][np.diff(dataset.offsets) > 0]
        scores[first, :K] += start
        edges = np.zeros((1, padded, padded))
        edges[0, :K, :K] = A
        return ScoredChains(dataset.offsets, scores, K, edges)

    def sample(self, theta: ArrayLike, lengths: ArrayLike, random_state: int = 0) -> Sequences:
        """Draw sequences of labels and symbols from p_θ(x, y | y_0).

        Parameters
        ----------
        %(theta)s
        lengths : array_like of int, shape (n,)
            Number of tokens of each sequence.
        random_state : int, default: 0
            Seed.

        Returns
        -------
        Sequences

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannChain(2, 3)
        >>> drawn = model.sample([1.0] * model.n_parameters, [4, 2], random_state=0)
        >>> drawn.n_sequences, drawn.labels.shape
        (2, (6,))
        """
        random_state, sizes = (
            seed(random_state),
            whole_numbers(lengths, "lengths, the number of tokens of each sequence,", ModelError),
        )
        if sizes.ndim != 1 or (sizes < 0).any():
            raise ModelError(f"lengths is a list with the number of tokens of each sequence; got {lengths!r:.80}.")
        # Labels, symbols and their places, and two uniform numbers and a score of each label for each token.
        refuse_beyond_memory(
            sum(sizes.tolist()) * (32 + 8 * self.n_labels), "Drawing these sequences", "Draw fewer or shorter ones."
        )
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        unknown = np.zeros(offsets[-1], dtype=np.int32)  # labels and symbols, which are drawn
        entries = np.arange(len(unknown) + 1)
        empty = Sequences(offsets, entries, unknown, None, unknown, self.n_symbols, self.n_labels)
        return self.simulate(empty, theta, random_state)

    def simulate(self, dataset: Dataset, theta: ArrayLike, random_state: int = 0) -> Sequences:
        """Draw labels and symbols from p_θ(x, y | y_0), for sequences of the same lengths."""
        from dataclasses import replace

        sequences = self._checked(dataset)
        random = np.random.Generator(np.random.Philox(seed(random_state)))
        theta = self.check_theta(theta)
        chains = self._scored(theta, sequences)
        K, B = self.n_labels, self.split(theta)[2].copy()
        # With the symbols summed out, a label has the same score at every token.
        scores = chains.scores.copy()
        observed = B.T[symbols_of(sequences)]
        B[:, -1] += np.log(self.unseen)
        highest = B.max(axis=1, keepdims=True)
        scores[:, :K] += (highest[:, 0] + np.log(np.exp(B - highest).sum(axis=1))) - observed
        chains = ScoredChains(chains.offsets, scores, K, chains.edges)
        labels = sample_labels(chains, random.random(sequences.n_tokens))
        symbols = np.empty(sequences.n_tokens, dtype=np.int32)
        uniforms = random.random(sequences.n_tokens)
        cumulative = np.cumsum(np.exp(B - highest), axis=1)
        for label in range(K):
            tokens = np.flatnonzero(labels == label)
            places = np.searchsorted(cumulative[label], uniforms[tokens] * cumulative[label, -1], side="right")
            symbols[tokens] = np.minimum(places, self.n_symbols - 1)
        return replace(sequences, labels=labels, indices=symbols)

    def specification(self) -> tuple[Plain, Arrays]:
        """Describe the model: sizes and names."""
        header: Plain = {
            "n_labels": self.n_labels,
            "n_symbols": self.n_symbols,
            "unseen": self.unseen,
        }
        arrays: Arrays = {}
        for name, names in (("labels", self.labels), ("symbols", self.symbols)):
            if names is not None:
                pack_text(arrays, name, list(map(str, names)))
        return header, arrays

    @classmethod
    def from_specification(cls, header: Plain, arrays: Arrays) -> BoltzmannChain:
        """Build the model that `specification` describes."""
        names: Plain = {
            name: unpack_text(arrays, name) if f"{name}.ends" in arrays else None for name in ("labels", "symbols")
        }
        return cls(**names, **header)


class _Names(LazyNames):
    """The names of θ, each created on access."""

    def __init__(self, model: BoltzmannChain) -> None:
        self._model = model
        self._start = end_mark("^", model.labels)

    def __len__(self) -> int:
        return self._model.n_parameters

    def label(self, code: int) -> str:
        return f"y{code}" if self._model.labels is None else str(self._model.labels[code])

    def at(self, place: int) -> str:
        """Transitions, first labels, then symbols."""
        K = self._model.n_labels
        if place < K * K:
            return f"{self.label(place // K)}->{self.label(place % K)}"
        if place < K * K + K:
            return f"{self._start}->{self.label(place - K * K)}"
        label, symbol = divmod(place - K * K - K, self._model.n_symbols)
        names = self._model.symbols
        return f"{self.label(label)}:{f'x{symbol}' if names is None else names[symbol]}"
