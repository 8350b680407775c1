"""One problem for each group of components, together with weights that can change without compiling again.

    m_θ(X_i, Z_i) = Σ_g β_g m^(g)_θ(X_i, Z_i)

Groups of weight 0 are not evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.types import FloatArray


class Reweighted(Problem):
    """The groups' problems with weights β; a family of this problem is a group.

    Where the groups are sums of the families of one problem, ``whole`` is that problem and ``shares`` (groups, its
    families) says with which weights: then scores come from one pass over it.
    """

    def __init__(
        self,
        parts: Sequence[Problem],
        betas: FloatArray,
        whole: Problem | None = None,
        shares: FloatArray | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self.whole, self.shares = whole, shares
        self._betas = np.array(betas, dtype=np.float64)
        self.n_samples = parts[0].n_samples
        self.n_parameters = parts[0].n_parameters
        self.n_families = len(parts)

    def with_betas(self, betas: FloatArray) -> Reweighted:
        """The same parts with other weights."""
        return Reweighted(self.parts, betas, self.whole, self.shares)

    @property
    def betas(self) -> FloatArray:
        """β of each group."""
        return self._betas

    def _used(self) -> list[tuple[float, Problem]]:
        return [(float(beta), part) for beta, part in zip(self._betas, self.parts, strict=True) if beta != 0]

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_g β_g of the parts' values and gradients."""
        total, gradient = 0.0, np.zeros(self.n_parameters)
        for beta, part in self._used():
            value, slope = part.value_grad(theta, row_weight)
            total += beta * value
            gradient += beta * slope
        return total, gradient

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_g β_g of the parts' Hessian products."""
        result = np.zeros(self.n_parameters)
        for beta, part in self._used():
            result += beta * part.hessian_product(theta, v, row_weight)
        return result

    def row_values(self, theta: FloatArray) -> FloatArray:
        """Σ_g β_g of the parts' values for each sample."""
        result = np.zeros(self.n_samples)
        for beta, part in self._used():
            result += beta * part.row_values(theta)
        return result

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """Σ_g β_g of the parts' products for each sample."""
        result = np.zeros(self.n_samples)
        for beta, part in self._used():
            result += beta * part.row_products(theta, v)
        return result

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """ψ_g of each group, without β: (stop − start, groups, n_parameters)."""
        if self.whole is None or self.shares is None:
            return np.stack([part.scores(theta, start, stop) for part in self.parts], axis=1)
        return _grouped(self.whole.family_scores(theta, start, stop), self.shares)

    def family_score_blocks(
        self, theta: FloatArray, row_weight: FloatArray | None = None
    ) -> Iterator[tuple[FloatArray | None, FloatArray]]:
        """The same as a stream, in the blocks of the whole problem."""
        if self.whole is None or self.shares is None:
            yield from super().family_score_blocks(theta, row_weight)
            return
        for weight, block in self.whole.family_score_blocks(theta, row_weight):
            yield weight, _grouped(block, self.shares)

    def family_statistics(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i^(g) ∘ ψ_i^(h), from the whole problem's own where there is one."""
        if self.whole is None or self.shares is None:
            return super().family_statistics(theta, row_weight)
        families = self.whole.family_statistics(theta, row_weight)
        result: FloatArray = np.einsum("gf,fer,he->ghr", self.shares, families, self.shares, optimize=True)
        return result

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """Σ_g β_g of the parts' diagonals, if every part has one."""
        total = np.zeros(self.n_parameters)
        for beta, part in self._used():
            diagonal = part.hessian_diagonal(theta, row_weight)
            if diagonal is None:
                return None
            total += beta * diagonal
        return total


def _grouped(block: FloatArray, shares: FloatArray) -> FloatArray:
    """Scores of groups from those of families."""
    if np.array_equal(shares, np.eye(len(shares))):
        return block
    result: FloatArray = np.einsum("ifr,gf->igr", block, shares)
    return result
