"""A Boltzmann chain whose last symbol stands for m symbols that share one weight for each label.

Symbols that no training sequence has are exchangeable, so at the optimum of a penalised likelihood their m weights
for a label have one value b. With b' = b + log m they are one symbol of a reduced chain, because Σ_v exp B(y, v) is
unchanged. θ has b itself; the reduced chain inside has b', and a token with one of these symbols counts b' − log m.
"""

from __future__ import annotations

import numpy as np

from fieldfit.models.boltzmann_chain_problem import BoltzmannChainProblem
from fieldfit.models.problem import Problem
from fieldfit.types import FloatArray


def shared_shift(n_labels: int, n_symbols: int, m: int) -> FloatArray:
    """log m at the weights of the last symbol, 0 at all others (r,)."""
    shift = np.zeros(n_labels * (n_labels + 1 + n_symbols))
    shift[n_labels * (n_labels + 1) + n_symbols * np.arange(1, n_labels + 1) - 1] = np.log(m)
    return shift


class SharedSymbolProblem(Problem):
    """Sums over sequences; θ has the weight b of one of the m symbols."""

    streams_scores = BoltzmannChainProblem.streams_scores
    optimiser = BoltzmannChainProblem.optimiser

    def __init__(self, chain: BoltzmannChainProblem, m: int) -> None:
        self.chain, self.m = chain, m
        self.n_samples, self.n_parameters, self.n_families = chain.n_samples, chain.n_parameters, chain.n_families
        self.families = chain.families
        self._shift = shared_shift(chain.n_labels, chain.n_symbols, m)
        self._shared = np.log(m) * chain.symbol_counts(chain.n_symbols - 1)

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family."""
        return self.chain.betas

    def with_betas(self, betas: FloatArray) -> SharedSymbolProblem:
        """The same sequences and windows with other weights of the families."""
        return SharedSymbolProblem(self.chain.with_betas(betas), self.m)

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient."""
        value, gradient = self.chain.value_grad(theta + self._shift, row_weight)
        constant = self._shared @ self.betas
        return value - float(constant.sum() if row_weight is None else row_weight @ constant), gradient

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ v."""
        return self.chain.hessian_product(theta + self._shift, v, row_weight)

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """As in the chain."""
        return self.chain.hessian_diagonal(theta + self._shift, row_weight)

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sequence."""
        return np.asarray(self.chain.row_values(theta + self._shift) - self._shared @ self.betas)

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sequence."""
        return self.chain.row_products(theta + self._shift, v)

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores by family without β."""
        return self.chain.family_scores(theta + self._shift, start, stop)
