"""The sandwich: √n(θ̂ − θ₀) → N(0, Υ Σ Υ), with bread Υ⁻¹ and meat Σ (Proposition 2 and Corollary 1).

    Υ⁻¹ = −E ∇²m_θ(X, Z),    Σ = E ψψᵀ = Σ_ij β_i β_j E[Z_i Z_j] E[∇S_i ∇S_jᵀ]

The second moments E[Z_i Z_j] carry the selection noise. Proposition 2 as printed has λ_i λ_j in their place, which is what
``formula="published"`` computes.
"""

from __future__ import annotations

import html
import math
import textwrap
from dataclasses import dataclass

import numpy as np

from fieldfit.asymptotics.criterion import ROOT, mean_words
from fieldfit.asymptotics.meat import INDEPENDENT, ScoreVariance
from fieldfit.models.identification import listed
from fieldfit.models.problem import Problem
from fieldfit.types import FloatArray, ModelError, Plain

#: Sizes of a variance relative to maximum likelihood.
KINDS = ("det", "root", "trace", "mean")


def inverse_on(matrix: FloatArray, basis: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """Inverse of a symmetric matrix on the span of an orthonormal ``basis`` (r, d), and what is lost of it (r, k).

    Lost are the directions with an eigenvalue of at most ``floor``, where only rounding is left.
    """
    inside = basis.T @ matrix @ basis
    values, vectors = np.linalg.eigh((inside + inside.T) / 2)
    directions, good = basis @ vectors, values > floor
    inverse: FloatArray = (directions[:, good] / values[good]) @ directions[:, good].T
    return inverse, directions[:, ~good]


def between(inverse: FloatArray, meat: FloatArray) -> FloatArray:
    """Υ Σ Υ, symmetric to the bit."""
    covariance: FloatArray = inverse @ meat @ inverse
    return (covariance + covariance.T) / 2


@dataclass(frozen=True, repr=False)
class Asymptotics:
    """Asymptotic theory of one policy at one θ. `fieldfit.theory` returns it.

    Attributes
    ----------
    bread : ndarray of shape (r, r)
        −E ∇²m_θ(X, Z).
    meat : ndarray of shape (r, r)
        E ψψᵀ.
    covariance : ndarray of shape (r, r)
        Covariance of √n(θ̂ − θ₀). Infinite variances and NaN covariances for parameters that the policy does not
        determine; NaN for parameters that rounding or the simulated samples do not resolve.
    mle_covariance : ndarray of shape (r, r) or None
        The same for maximum likelihood.
    formula : str
        "exact" or "published".
    method : str
        How expectations over X were computed.
    monte_carlo_error : dict or None
        Standard error of each kind of efficiency, if simulated.
    why_no_mle : str
        Why there is no maximum likelihood to compare with.
    undetermined : tuple of str
        Parameters that the policy does not determine.
    basis : ndarray of shape (r, d) or None
        Basis of the functions of θ that the model determines. None: all of them.
    hidden : tuple of str
        Parameters whose variances are NaN, because rounding or the simulated samples do not resolve them.

    Examples
    --------
    >>> import fieldfit as ff
    >>> theory = ff.theory(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], "PL1")
    >>> theory
    <Asymptotics: 3 parameters, exact formula, enumeration of 8 states>
    """

    bread: FloatArray
    meat: FloatArray
    covariance: FloatArray
    mle_covariance: FloatArray | None
    formula: str
    method: str  # how expectations over X were taken
    monte_carlo_error: dict[str, float] | None = None  # standard error of each kind of efficiency
    why_no_mle: str = ""
    undetermined: tuple[str, ...] = ()
    basis: FloatArray | None = None
    hidden: tuple[str, ...] = ()

    def efficiency(self, kind: str = "root") -> float:
        """Asymptotic variance relative to that of maximum likelihood (Equation 12).

        Parameters
        ----------
        kind : {"root", "det", "trace", "mean"}, default: "root"
            ``"det"`` is the paper's ratio of determinants. ``"root"`` is its d-th root, the ratio per parameter, where d
            is the number of directions of θ that the model determines. ``"trace"`` is the ratio of traces. ``"mean"`` is
            tr(I·covariance)/d with I the information: what plans and summaries show where moments come from samples.

        Returns
        -------
        float
            At least 1 when the data come from the model; 1 for maximum likelihood. Infinite when the policy does not
            determine a direction that maximum likelihood determines.

        Raises
        ------
        ModelError
            If there is no maximum likelihood to compare with, for example because the graph is too wide.

        Examples
        --------
        >>> import fieldfit as ff
        >>> theory = ff.theory(ff.BoltzmannMachine(5), [-1] * 5 + [1] * 5, "PL1")
        >>> round(theory.efficiency(), 3), round(theory.efficiency("det"), 3)
        (1.05, 1.624)
        """
        if self.mle_covariance is None:
            raise ModelError(f"Maximum likelihood is not available for comparison: {self.why_no_mle}")
        return efficiency(self.covariance, self.mle_covariance, kind, self.basis)

    def standard_errors(self, n: int) -> FloatArray:
        """Compute the standard errors of θ̂.

        Parameters
        ----------
        n : int
            Number of samples.

        Returns
        -------
        ndarray of shape (r,)
            Infinite for parameters that the policy does not determine, and NaN for ``hidden`` ones.

        Examples
        --------
        >>> import fieldfit as ff
        >>> theory = ff.theory(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], "PL1")
        >>> theory.standard_errors(500).round(3)
        array([0.111, 0.149, 0.123])
        """
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0) / n)

    @property
    def note(self) -> str:
        """Sentences that name the parameters without a finite variance; empty if all have one."""
        names, told = self.undetermined, []
        if names:
            told.append(
                f"The policy does not determine {len(names)} of {len(self.bread)} parameters, which have infinite "
                f"variance: {listed(names)}."
            )
        return " ".join([*told, self.hidden_note] if self.hidden else told)

    @property
    def hidden_note(self) -> str:
        """Sentence that names the parameters that rounding or the simulated samples hide; empty if there are none."""
        if not self.hidden:
            return ""
        return (
            f"{len(self.hidden)} of {len(self.bread)} parameters have no variance (NaN), because some states are certain "
            f"at this θ, or too rare for rounding or for the simulated samples: {listed(self.hidden)}. Use a θ closer "
            f"to 0, or more simulated samples."
        )

    def __repr__(self) -> str:
        hidden = int(np.isnan(np.diag(self.covariance)).sum())
        note = f", {hidden} not identified" if hidden else ""
        return f"<Asymptotics: {len(self.bread)} parameters{note}, {self.formula} formula, {self.method}>"

    def __str__(self) -> str:
        errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        lines = [
            f"asymptotic theory of {len(self.bread)} parameters, {self.formula} formula, {self.method}",
            f"standard deviations of √n(θ̂ − θ₀): {np.nanmin(errors):.4g} to {np.nanmax(errors):.4g}"
            if np.isfinite(errors).any()
            else "no standard deviation of √n(θ̂ − θ₀) is finite",
        ]
        hidden = int(np.isnan(errors).sum())
        if hidden:
            lines.append(
                f"not identified (NaN): {hidden} of {len(errors)} parameters, hidden by rounding or too rare"
            )
        if self.note:
            lines.append(textwrap.fill(self.note, 80, subsequent_indent="  "))
        if self.mle_covariance is None:
            return "\n".join([*lines, f"maximum likelihood is not available for comparison: {self.why_no_mle}"])
        if self.basis is not None and not self.basis.shape[1]:
            return "\n".join([*lines, "no direction of θ changes probabilities: there are no variances to compare"])
        simulated = self.monte_carlo_error or {}
        lines.append("variance relative to maximum likelihood:")
        for kind, what in (("det", "determinants"), ("root", ROOT), ("trace", "traces"), ("mean", mean_words())):
            error = f" ± {simulated[kind]:.1g}" if kind in simulated else ""
            lines.append(f"  {kind:<6}{self.efficiency(kind):.4f}{error}  ({what})")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if self.mle_covariance is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        simulated = self.monte_carlo_error or {}
        rows = "".join(
            f'<tr><th scope="row">{kind}</th><td>{self.efficiency(kind):.4f}'
            + (f" ± {simulated[kind]:.1g}" if kind in simulated else "")
            + "</td></tr>"
            for kind in KINDS
        )
        caption = "Variance relative to maximum likelihood"
        table = f"<table><caption>{caption}</caption><tbody>{rows}</tbody></table>"
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{table}<p>{html.escape(self.note)}</p>"

    def to_dict(self) -> Plain:
        """Return plain values.

        Returns
        -------
        dict
            Values that JSON can represent.

        Examples
        --------
        >>> import fieldfit as ff
        >>> theory = ff.theory(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], "PL1")
        >>> sorted(theory.to_dict()["efficiency"])
        ['det', 'mean', 'root', 'trace']
        """
        return {
            "formula": self.formula,
            "method": self.method,
            "efficiency": None if self.mle_covariance is None else {kind: self.efficiency(kind) for kind in KINDS},
            "monte_carlo_error": self.monte_carlo_error,
            "undetermined": list(self.undetermined),
            "hidden": list(self.hidden),
            "covariance": self.covariance.tolist(),
        }


def efficiency(covariance: FloatArray, reference: FloatArray, kind: str, basis: FloatArray | None = None) -> float:
    """Size of a covariance matrix relative to a reference, on the span of ``basis`` (r, d), or everywhere."""
    if kind not in KINDS:
        raise ModelError(f"efficiency is measured by 'det', 'root', 'trace' or 'mean'; got {kind!r:.80}.")
    if np.isinf(np.diag(covariance)).any():
        return math.inf
    if np.array_equal(covariance, reference) and reference.any():
        return 1.0  # not within rounding
    if kind == "trace":
        return float(np.trace(covariance) / np.trace(reference))
    if basis is not None:
        covariance, reference = basis.T @ covariance @ basis, basis.T @ reference @ basis
    if not len(covariance):
        return math.nan
    if kind == "mean":
        return float(np.trace(np.linalg.solve(reference, covariance)) / len(covariance))
    log_ratio = float(np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(reference)[1])
    return float(np.exp(log_ratio if kind == "det" else log_ratio / len(covariance)))


def robust_moments(
    problem: Problem, theta: FloatArray, variance: ScoreVariance = INDEPENDENT
) -> tuple[FloatArray, FloatArray]:
    """Bread and meat from the data with the drawn Z (Corollary 1), as means over samples.

    ``variance`` has the sample weights, which the bread takes too, and says how the meat is made.
    """
    weight = variance.row_weight
    total = float(problem.n_samples if weight is None else weight.sum())
    bread = problem.hessian_matrix(theta, weight) / -total
    return bread, variance.matrix(problem, theta) / total
