"""Hansen's J: do the conditional distributions agree with one model?

With Q = I − D(AD)⁻¹A, Q ḡ(θ̂) = Q ḡ(θ₀) to first order for every estimate near θ₀, since QD = 0, so

    J = n ḡᵀQᵀ (Q V Qᵀ)⁺ Q ḡ

is χ² distributed if the model is right, with the rank of QVQᵀ as degrees of freedom, for any weights A. At the refined
estimate Aḡ = 0 and Qḡ = ḡ. Where the first stage's estimate was kept, J is computed there. Directions in which QVQᵀ has
eigenvalues near 0 (relative to conditions of variance 1) are left out: there V is not known accurately enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.refinement.model_moments import ScoreMoments, together
from fieldfit.refinement.pseudo_inverse import bread_inverse
from fieldfit.types import FloatArray, Plain

#: Eigenvalues of the scaled QVQᵀ below this are left out: exact moments, and moments from draws.
_SMALLEST, _SMALLEST_DRAWN = 1e-8, 0.02


@dataclass(frozen=True)
class SpecificationTest:
    """Hansen's J. `Fit.specification_test` returns it.

    Parameters
    ----------
    statistic : float
        J.
    degrees_of_freedom : int
        Degrees of freedom of χ².
    p_value : float
        The p-value; NaN without degrees of freedom.
    source : str
        Where the covariance of the conditions comes from.
    differing : str, default: ""
        Where the test rejects: a sentence on means and correlations that differ between data and model, if these can be
        compared.

    Examples
    --------
    >>> from fieldfit.refinement.specification import SpecificationTest
    >>> print(SpecificationTest(3.2, 4, 0.525, "enumeration"))
    Hansen's J 3.2 on 4 degrees of freedom, p = 0.525: no sign that the model is wrong
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    source: str
    differing: str = ""

    @property
    def rejects(self) -> bool:
        """Whether p is below 0.01."""
        return self.p_value < 0.01

    def __str__(self) -> str:
        if not self.degrees_of_freedom:
            return "Hansen's J: no condition beyond those that determine the parameters, so there is nothing to test"
        text = f"Hansen's J {self.statistic:.1f} on {self.degrees_of_freedom:,} degrees of freedom, p = {self.p_value:.3g}"
        if self.rejects:
            return (
                f"{text}: the conditional distributions do not agree with one model of this form, so the estimate depends "
                f"on the estimator, and means of the model need not be those of the data. "
                + (f"{self.differing}. " if self.differing else "")
                + "What to do: add parameters for what differs (factors of three variables, covariates), leave such "
                "variables out, or use FL, whose model has the data's mean of each parameter's statistic even if it is "
                "wrong. Use robust standard errors"
            )
        return f"{text}: no sign that the model is wrong"

    def to_dict(self) -> Plain:
        """Return plain values, for JSON.

        Returns
        -------
        dict

        Examples
        --------
        >>> from fieldfit.refinement.specification import SpecificationTest
        >>> SpecificationTest(3.2, 4, 0.525, "enumeration").to_dict()["p_value"]
        0.525
        """
        return {
            "statistic": self.statistic,
            "degrees_of_freedom": self.degrees_of_freedom,
            "p_value": self.p_value,
            "source": self.source,
            "differing": self.differing,
        }


def hansen_test(
    mean: FloatArray, matrix: FloatArray, halves: Sequence[ScoreMoments], n: float, source: str
) -> SpecificationTest:
    """J from ḡ (p,) at an estimate, the weights A (r, p) and the moments there; ``n`` is the effective number of samples.

    ``halves`` are the moments of two halves of the draws, or the exact moments alone. The inverse of a covariance from
    draws is too large. How much is seen with one half in the units of the other, where the mean square should be 1; all
    draws have half of that excess.
    """
    from scipy.stats import chi2

    moments = together(halves)
    diagonal = np.diag(moments.V)
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    covariance = _remaining(matrix, moments, scale)
    units = _units(covariance, exact=moments.draws is None)
    freedom = units.shape[1]
    remaining = mean - moments.K @ (bread_inverse(matrix @ moments.K) @ (matrix @ mean))
    statistic = float(n * np.sum((units.T @ (remaining * scale)) ** 2))
    if len(halves) == 2 and freedom:
        first, second = (_remaining(matrix, half, scale) for half in halves)
        excess = np.mean([_mean_square(first, second), _mean_square(second, first)]) - 1.0
        statistic /= 1.0 + max(float(excess), 0.0) / 2
    p_value = float(chi2.sf(statistic, freedom)) if freedom else float("nan")
    return SpecificationTest(statistic, freedom, p_value, source)


def _remaining(matrix: FloatArray, moments: ScoreMoments, scale: FloatArray) -> FloatArray:
    """Q V Qᵀ of the scaled conditions."""
    bread = bread_inverse(matrix @ moments.K)
    V = moments.V - moments.K @ (bread @ (matrix @ moments.V))
    covariance = V - (V @ matrix.T) @ bread.T @ moments.K.T
    scaled = covariance * scale[:, None] * scale
    return np.asarray((scaled + scaled.T) / 2)


def _units(covariance: FloatArray, *, exact: bool) -> FloatArray:
    """W (p, df) with W Wᵀ its inverse, without the eigenvalues near 0."""
    values, vectors = np.linalg.eigh(covariance)
    good = values > (_SMALLEST if exact else _SMALLEST_DRAWN)
    return np.asarray(vectors[:, good] / np.sqrt(values[good]))


def _mean_square(covariance: FloatArray, units_of: FloatArray) -> float:
    """The mean variance of conditions with one covariance in the units of another."""
    units = _units(units_of, exact=False)
    return float(np.sum(units * (covariance @ units)) / max(units.shape[1], 1))
