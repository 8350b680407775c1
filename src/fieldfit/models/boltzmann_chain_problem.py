"""A Boltzmann chain compiled for its sequences and their selected windows.

With c_y = log Σ_v exp B(y, v), the log Z of a window depends only on its width and the labels beside it, so windows that
agree in these share one *signature*: PLk has K² + 2K of them and FL one for each length, for any number of sentences.
Write N for observed counts and n_y for the expected number of tokens with label y in all windows. Then

    m_θ = ⟨N_A, A⟩ + ⟨N_B, B⟩ − Σ_s (weight of s) log Z_s
    ∂m/∂B(y, v) = N_B(y, v) − n_y p(v | y),    p(v | y) = exp(B(y, v) − c_y)

so the gradient of the emissions stays factored until it is written to its array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_layout import LANE, Weights
from fieldfit.models.chain_problem import Windows, check_labels
from fieldfit.models.chain_segments import Segments
from fieldfit.models.problem import Problem
from fieldfit.properties import cached_property, state_without
from fieldfit.threads import get_threads
from fieldfit.types import DataError, FloatArray, IntArray, Plain


def symbols_of(dataset: Sequences) -> IntArray:
    """The symbol of each token. Raises an error for tokens with more or fewer than one symbol, or with a value."""
    counts = np.diff(dataset.indptr)
    if (counts != 1).any():
        token = int(np.flatnonzero(counts != 1)[0])
        sequence, place = dataset.locate(token)
        raise DataError(
            f"Token {place} of sequence {sequence} (counted from 0) has {counts[token]} features; in a Boltzmann chain "
            "each token has one, its symbol."
        )
    if dataset.values is not None and (dataset.values != 1.0).any():
        raise DataError("The features of a Boltzmann chain are symbols and have no values other than 1.")
    return dataset.indices.astype(np.int64)


@dataclass(frozen=True)
class _Point:
    """Quantities that depend on θ alone: c_y, p(v | y), and the kernel's weights with c_y as the score of label y."""

    theta: FloatArray
    A: FloatArray
    B: FloatArray
    c: FloatArray
    p: FloatArray
    weights: Weights


class BoltzmannChainProblem(Problem):
    """Sums over the sequences of a Boltzmann chain."""

    streams_scores = False

    def __init__(self, n_labels: int, n_symbols: int, dataset: Sequences, families: tuple[Windows, ...]) -> None:
        check_labels(dataset)
        self.n_labels, self.n_symbols = n_labels, n_symbols
        self.n_samples = dataset.n_sequences
        self.n_parameters = n_labels * (n_labels + 1 + n_symbols)
        self.families = families
        self.n_families = len(families)
        self.padded = -(-n_labels // LANE) * LANE
        self._count(dataset)
        self._sign(dataset)
        self._open()
        self._last: tuple[_Point, FloatArray | None] | None = None

    # What was observed ------------------------------------------------------------------------------------------------

    def _count(self, dataset: Sequences) -> None:
        """How often each token and each edge counts in the windows of each family."""
        K, V = self.n_labels, self.n_symbols
        labels = dataset.labels.astype(np.int64)
        self._row_of = np.repeat(np.arange(self.n_samples), np.diff(dataset.offsets))
        is_first = np.zeros(len(labels), dtype=bool)
        is_first[dataset.offsets[:-1][np.diff(dataset.offsets) > 0]] = True
        before = np.where(is_first, K, np.concatenate(([0], labels[:-1]))[: len(labels)])
        # Row K of the transitions is the start: the edge into the first token of a sequence.
        self._edge_place = before * K + labels
        self._symbol_place = labels * V + symbols_of(dataset)
        self._segments = tuple(Segments(dataset.offsets, family) for family in self.families)
        self._token_times, self._edge_times = [], []
        for segments in self._segments:
            change = np.zeros(len(labels) + 2)
            np.add.at(change, segments.first, 1.0)
            np.add.at(change, segments.first + segments.width, -1.0)
            tokens = np.cumsum(change)[: len(labels)]
            # The edge into a token counts if the window holds the token, or ends right before it in the sequence.
            edges = tokens.copy()
            np.add.at(edges, (segments.first + segments.width)[segments.has_right], 1.0)
            self._token_times.append(tokens)
            self._edge_times.append(edges)

    def symbol_counts(self, symbol: int) -> FloatArray:
        """How often a symbol counts in the windows of each sequence and family (n, families)."""
        here = self._symbol_place % self.n_symbols == symbol
        rows = self._row_of[here]
        counts = [np.bincount(rows, times[here], minlength=self.n_samples) for times in self._token_times]
        return np.stack(counts, axis=1) if counts else np.zeros((self.n_samples, 0))

    # Windows that share one log Z ---------------------------------------------------------------------------------------

    def _sign(self, dataset: Sequences) -> None:
        """The distinct (width, left, right) of all windows, and the one that each window has."""
        K = self.n_labels
        labels = dataset.labels
        keys = []
        for segments in self._segments:
            left = np.full(len(segments.first), K, dtype=np.int64)
            left[segments.has_left] = labels[segments.first[segments.has_left] - 1]
            right = np.full(len(segments.first), K, dtype=np.int64)
            right[segments.has_right] = labels[(segments.first + segments.width)[segments.has_right]]
            keys.append((segments.width * (K + 1) + left) * (K + 1) + right)
        joined = np.concatenate(keys) if keys else np.zeros(0, np.int64)
        distinct, inverse = np.unique(joined, return_inverse=True)
        self._signature = np.split(inverse.reshape(-1), np.cumsum([len(k) for k in keys])[:-1])
        rest, right = np.divmod(distinct, K + 1)
        width, left = np.divmod(rest, K + 1)
        self._width, self._left, self._right = width, left, right

    def _open(self) -> None:
        """One sequence of labels for each signature: the label on the left, the window, the label on the right."""
        K, n = self.n_labels, len(self._width)
        has_left, has_right = self._left < K, self._right < K
        lengths = self._width + has_left + has_right
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        labels = np.zeros(int(offsets[-1]), dtype=np.int32)
        labels[offsets[:-1][has_left]] = self._left[has_left]
        labels[offsets[1:][has_right] - 1] = self._right[has_right]
        nothing = np.zeros(len(labels) + 1, dtype=np.int64)
        empty = np.zeros(0, dtype=np.int32)
        self._tokens = _kernels.ChainTokens(
            offsets=offsets,
            indptr=nothing,
            indices=empty,
            values=None,
            labels=labels,
            n_labels=K,
            n_features=0,
            active=None,
            pair_ptr=np.zeros(1, np.int64),
            pair_labels=empty,
        )
        self._n_tokens = len(labels)
        whole = ~has_left & ~has_right
        self._kernel_families = [Windows(0, 1.0, whole.view(np.uint8), None, None)]
        for width in np.unique(self._width[~whole]).tolist():
            chosen = ~whole & (self._width == width)
            pointer = np.concatenate(([0], np.cumsum(chosen))).astype(np.int64)
            starts = has_left[chosen].astype(np.int64)
            self._kernel_families.append(Windows(width, 1.0, None, pointer, starts))
        assert n == len(lengths)

    def __getstate__(self) -> Plain:
        return state_without(self, "_tokens", "_last", "_whole")

    def __setstate__(self, state: Plain) -> None:
        self.__dict__.update(state)
        self._last = None
        self._open()

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family."""
        return np.array([family.beta for family in self.families])

    def with_betas(self, betas: FloatArray) -> BoltzmannChainProblem:
        """The same sequences and windows with other weights of the families."""
        other = object.__new__(type(self))  # not copy(), which would compile again
        other.__dict__.update(self.__dict__)
        other.families = tuple(family._replace(beta=float(b)) for family, b in zip(self.families, betas, strict=True))
        other._last = None  # what is kept depends on β
        other.__dict__.pop("_whole", None)
        return other

    def _split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Transitions with the start as row K (K + 1, K), and emissions (K, V)."""
        K = self.n_labels
        return theta[: K * K + K].reshape(K + 1, K), theta[K * K + K :].reshape(K, self.n_symbols)

    def _at(self, theta: FloatArray) -> _Point:
        """The quantities at θ. Conjugate gradients use the same θ many times, so the last point is cached."""
        last = self._last
        if last is not None and np.array_equal(last[0].theta, theta):
            return last[0]
        copied = np.array(theta, dtype=np.float64)
        A, B = self._split(copied)
        c, p = _normalise(B)
        point = _Point(copied, A, B, c, p, self._weights(A, c, False))
        self._last = (point, None)
        return point

    @cached_property
    def _whole(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights of the signatures and observed counts when every row counts once: they do not depend on θ."""
        return self._window_weight(None, self.betas), *self._observed(None, self.betas)

    def _signature_weight(self, row_weight: FloatArray | None) -> FloatArray:
        return self._whole[0] if row_weight is None else self._window_weight(row_weight, self.betas)

    def _labels(self, point: _Point, row_weight: FloatArray | None, signature_weight: FloatArray) -> FloatArray:
        """Minus the expected label counts (K,) at the point."""
        if row_weight is not None:
            return self._expect(point.weights, None, signature_weight)[1]
        last = self._last
        if last is not None and last[0] is point and last[1] is not None:
            return last[1]
        expected = self._expect(point.weights, None, signature_weight)[1]
        self._last = (point, expected)
        return expected

    def _weights(self, A: FloatArray, base: FloatArray, direction: bool) -> Weights:
        K, padded = self.n_labels, self.padded
        transitions, start = np.zeros((padded, padded)), np.zeros(padded)
        transitions[:K, :K] = A[:K]
        start[:K] = A[K]
        row = np.zeros(padded) if direction else np.full(padded, -np.inf)
        row[:K] = base
        return np.zeros(0), transitions, row, start, np.zeros(padded), np.zeros(0)

    def _expect(
        self,
        weights: Weights,
        direction: Weights | None,
        weight: FloatArray,
        squares: bool = False,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Minus: the expected transitions (K + 1, K) and label counts (K,) of all signatures (or their derivatives), and
        log Z of each signature, times its weight.
        """
        K, padded = self.n_labels, self.padded
        residuals = np.empty((self._n_tokens, padded))
        edges, start, end = np.zeros((padded, padded)), np.zeros(padded), np.zeros(padded)
        n = len(self._width)
        values = np.empty(n)
        _kernels.chain_evaluate(
            self._tokens,
            weights,
            direction=direction,
            families=self._kernel_families,
            row_weight=weight,
            observed=False,
            squares=squares,
            values=values,
            tangents=None if direction is None else np.empty(n),
            residuals=residuals,
            gradient=(np.zeros(0), edges, start, end, np.zeros(0)),
            n_threads=get_threads(),
        )
        return np.vstack([edges[:K, :K], start[:K]]), residuals[:, :K].sum(axis=0), values

    def _log_z(self, weights: Weights, direction: Weights | None) -> tuple[FloatArray, FloatArray | None]:
        """log Z of each signature, and its derivative."""
        n = len(self._width)
        values = np.empty(n)
        slopes = None if direction is None else np.empty(n)
        _kernels.chain_evaluate(
            self._tokens,
            weights,
            direction=direction,
            families=self._kernel_families,
            row_weight=None,
            observed=False,
            squares=False,
            values=values,
            tangents=slopes,
            residuals=None,
            gradient=None,
            n_threads=get_threads(),
        )
        return -values, None if slopes is None else -slopes

    def _window_weight(self, row_weight: FloatArray | None, betas: FloatArray) -> FloatArray:
        """Weight of each signature."""
        total = np.zeros(len(self._width))
        for segments, signature, beta in zip(self._segments, self._signature, betas, strict=True):
            weight = None if row_weight is None else row_weight[segments.rows]
            total += beta * np.bincount(signature, weight, minlength=len(total))
        return total

    def _observed(self, row_weight: FloatArray | None, betas: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weighted counts of transitions ((K + 1) K,) and of symbols with labels (K V,)."""
        K, V = self.n_labels, self.n_symbols
        tokens, edges = np.zeros(len(self._row_of)), np.zeros(len(self._row_of))
        for token_times, edge_times, beta in zip(self._token_times, self._edge_times, betas, strict=True):
            tokens += beta * token_times
            edges += beta * edge_times
        if row_weight is not None:
            tokens *= row_weight[self._row_of]
            edges *= row_weight[self._row_of]
        counts_a: FloatArray = np.bincount(self._edge_place, edges, minlength=(K + 1) * K).astype(
            np.float64, copy=False
        )
        counts_b: FloatArray = np.bincount(self._symbol_place, tokens, minlength=K * V).astype(np.float64, copy=False)
        return counts_a, counts_b

    def _value_grad(
        self, theta: FloatArray, row_weight: FloatArray | None, betas: FloatArray
    ) -> tuple[float, FloatArray]:
        point = self._at(theta)
        A, B = point.A, point.B
        if row_weight is None and np.array_equal(betas, self.betas):
            signature_weight, counts_a, counts_b = self._whole
        else:
            signature_weight = self._window_weight(row_weight, betas)
            counts_a, counts_b = self._observed(row_weight, betas)
        edges, labels, minus_log_zs = self._expect(point.weights, None, signature_weight)
        value = counts_a @ A.reshape(-1) + counts_b @ B.reshape(-1) + minus_log_zs.sum()
        gradient = np.empty(self.n_parameters)
        cut = len(counts_a)
        np.add(counts_a, edges.reshape(-1), out=gradient[:cut])
        emissions = gradient[cut:].reshape(B.shape)
        np.multiply(labels[:, None], point.p, out=emissions)
        emissions += counts_b.reshape(B.shape)
        return float(value), gradient

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient."""
        return self._value_grad(theta, row_weight, self.betas)

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ v: the observed part is linear in θ, so only log Z contributes."""
        point = self._at(theta)
        dA, dB = self._split(np.ascontiguousarray(v, dtype=np.float64))
        dc = np.einsum("yv,yv->y", point.p, dB)
        direction = self._weights(dA, dc, True)
        signature_weight = self._signature_weight(row_weight)
        labels = self._labels(point, row_weight, signature_weight)
        edges, slopes, _ = self._expect(point.weights, direction, signature_weight)
        product = np.empty(self.n_parameters)
        product[: edges.size] = edges.reshape(-1)
        # p(v|y) (slope_y + n_y (dB − dc_y)), written without temporaries of the emissions' size.
        emissions = product[edges.size :].reshape(dB.shape)
        np.multiply(labels[:, None], dB, out=emissions)
        emissions += (slopes - labels * dc)[:, None]
        emissions *= point.p
        return product

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ p(1 − p) over tokens and edges, p their marginals: without the covariances between tokens."""
        point = self._at(theta)
        signature_weight = self._signature_weight(row_weight)
        labels = self._labels(point, row_weight, signature_weight)
        edges, spread, _ = self._expect(point.weights, None, signature_weight, squares=True)
        # Σ_t γ p − (γ p)² with Σ γ = −labels and Σ γ² = Σ γ − Σ γ(1 − γ).
        emissions = -labels[:, None] * point.p - (-labels + spread)[:, None] * point.p**2
        return np.concatenate([-edges.reshape(-1), emissions.reshape(-1)])

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sequence."""
        point = self._at(theta)
        log_z, _ = self._log_z(point.weights, None)
        return self._by_row(point.A, point.B, log_z)

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sequence."""
        point = self._at(theta)
        dA, dB = self._split(np.ascontiguousarray(v, dtype=np.float64))
        dc = np.einsum("yv,yv->y", point.p, dB)
        _, slopes = self._log_z(point.weights, self._weights(dA, dc, True))
        assert slopes is not None
        return self._by_row(dA, dB, slopes)

    def _by_row(self, A: FloatArray, B: FloatArray, log_z: FloatArray) -> FloatArray:
        """Σ of the observed scores minus Σ of log Z, by sequence."""
        token_scores, edge_scores = B.reshape(-1)[self._symbol_place], A.reshape(-1)[self._edge_place]
        result = np.zeros(self.n_samples)
        parts = zip(self._segments, self._signature, self._token_times, self._edge_times, self.betas, strict=True)
        for segments, signature, tokens, edges, beta in parts:
            scores = token_scores * tokens + edge_scores * edges
            result += beta * np.bincount(self._row_of, scores, minlength=self.n_samples)
            result -= beta * np.bincount(segments.rows, log_z[signature], minlength=self.n_samples)
        return result

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores by family without β, sequence by sequence: for models with few parameters."""
        result = np.empty((stop - start, self.n_families, self.n_parameters))
        weight = np.zeros(self.n_samples)
        for row in range(start, stop):
            weight[row] = 1.0
            for place in range(self.n_families):
                only = np.zeros(self.n_families)
                only[place] = 1.0
                result[row - start, place] = self._value_grad(theta, weight, only)[1]
            weight[row] = 0.0
        return result


def _normalise(B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """c_y = log Σ_v exp B(y, v) and p(v | y)."""
    top = B.max(axis=1)
    p = np.exp(B - top[:, None])
    total = p.sum(axis=1)
    p /= total[:, None]
    return top + np.log(total), p
