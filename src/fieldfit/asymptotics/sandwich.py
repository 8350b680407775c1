"""The sandwich: √n(θ̂ − θ₀) → N(0, Υ Σ Υ), with bread Υ⁻¹ and meat Σ (Proposition 2 and Corollary 1).

    Υ⁻¹ = −E ∇²m_θ(X, Z),    Σ = E ψψᵀ = Σ_ij β_i β_j E[Z_i Z_j] E[∇S_i ∇S_jᵀ]

The second moments E[Z_i Z_j] carry the selection noise. Proposition 2 as printed has λ_i λ_j in their place, which is what
``formula="published"`` computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.types import FloatArray, ModelError


def pseudo_inverse(matrix: FloatArray, *, tolerance: float = 1e-9) -> tuple[FloatArray, FloatArray]:
    """Inverse of a symmetric matrix on its range, and an orthonormal basis (r, null) of its null space."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    good = values > tolerance * max(float(values[-1]), 0.0) if len(values) else values > 0
    inverse = (vectors[:, good] / values[good]) @ vectors[:, good].T
    return inverse, vectors[:, ~good]


def sandwich(bread: FloatArray, meat: FloatArray) -> FloatArray:
    """Υ Σ Υ; along the model's gauge freedom, where the bread is singular, the variance is 0."""
    inverse, _ = pseudo_inverse(bread)
    covariance: FloatArray = inverse @ meat @ inverse
    return (covariance + covariance.T) / 2


@dataclass(frozen=True, repr=False)
class Asymptotics:
    """Asymptotic theory of one policy at one θ. ``covariance`` is that of √n(θ̂ − θ₀)."""

    bread: FloatArray
    meat: FloatArray
    covariance: FloatArray
    mle_covariance: FloatArray | None
    formula: str
    method: str  # how expectations over X were taken
    monte_carlo_error: dict[str, float] | None = None  # standard errors of efficiency("det"), efficiency("trace")
    why_no_mle: str = ""

    def efficiency(self, kind: str = "det") -> float:
        """The paper's ratio to the MLE, ≥ 1: det or trace of the variance over the MLE's (Equation 12).

        ``"det"`` is the ratio of determinants, ``"root"`` its r-th root (a ratio for each parameter), ``"trace"`` the
        ratio of traces. Along gauge directions, which no estimator can see, nothing is counted.
        """
        if self.mle_covariance is None:
            raise ModelError(f"There is no maximum likelihood to compare with: {self.why_no_mle}")
        return efficiency(self.covariance, self.mle_covariance, kind)

    def standard_errors(self, n: int) -> FloatArray:
        """Standard errors of θ̂ with ``n`` samples."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0) / n)

    def __repr__(self) -> str:
        return f"<Asymptotics: {len(self.bread)} parameters, {self.formula} formula, {self.method}>"

    def __str__(self) -> str:
        errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        lines = [
            f"asymptotic theory of {len(self.bread)} parameters, {self.formula} formula, {self.method}",
            f"standard deviations of √n(θ̂ − θ₀): {errors.min():.4g} to {errors.max():.4g}",
        ]
        if self.mle_covariance is None:
            return "\n".join([*lines, f"no maximum likelihood to compare with: {self.why_no_mle}"])
        simulated = self.monte_carlo_error or {}
        lines.append("variance relative to maximum likelihood:")
        for kind, what in (("det", "determinants"), ("root", "det^(1/r)"), ("trace", "traces")):
            error = f" ± {simulated[kind]:.1g}" if kind in simulated else ""
            lines.append(f"  {kind:<6}{self.efficiency(kind):.4f}{error}  ({what})")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "formula": self.formula,
            "method": self.method,
            "efficiency": None
            if self.mle_covariance is None
            else {kind: self.efficiency(kind) for kind in ("det", "root", "trace")},
            "monte_carlo_error": self.monte_carlo_error,
            "covariance": self.covariance.tolist(),
        }


def efficiency(covariance: FloatArray, reference: FloatArray, kind: str) -> float:
    """Size of a covariance matrix relative to a reference, on the reference's range."""
    if kind == "trace":
        return float(np.trace(covariance) / np.trace(reference))
    if kind not in ("det", "root"):
        raise ModelError(f"efficiency is measured by 'det', 'root' or 'trace'; got {kind!r}.")
    values, vectors = np.linalg.eigh(reference)
    basis = vectors[:, values > 1e-9 * values[-1]]
    log_ratio = np.linalg.slogdet(basis.T @ covariance @ basis)[1] - np.linalg.slogdet(basis.T @ reference @ basis)[1]
    return float(np.exp(log_ratio if kind == "det" else log_ratio / basis.shape[1]))


def hessian_matrix(problem: Problem, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
    """Σ_i w_i ∇² m_θ(X_i, Z_i) as a dense matrix."""
    return problem.hessian_matrix(theta, row_weight)


def robust_moments(
    problem: Problem, theta: FloatArray, row_weight: FloatArray | None = None, *, counts: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Bread and meat from the data with the drawn Z (Corollary 1), as means over samples.

    Importance weights enter the meat squared, Σ w² ψψᵀ; with ``counts`` a weight stands for so many copies, Σ w ψψᵀ.
    """
    total = float(problem.n_samples if row_weight is None else row_weight.sum())
    bread = -hessian_matrix(problem, theta, row_weight) / total
    meat = np.zeros_like(bread)
    for start, block in problem.score_blocks(theta):
        if row_weight is not None:
            weight = row_weight[start : start + len(block)]
            block = block * (np.sqrt(weight) if counts else weight)[:, None]
        meat += block.T @ block
    return bread, meat / total
