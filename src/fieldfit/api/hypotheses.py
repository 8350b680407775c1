"""Comparison and tests of fits: information criteria, tests of hypotheses and of the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fieldfit.api.accuracies import Kind
from fieldfit.api.comparison import discoveries, score_test, wald_test
from fieldfit.api.influences import Influences
from fieldfit.api.refinement import refuse_refined
from fieldfit.api.resampled_tests import bootstrap_test, permutation_test
from fieldfit.api.standard_errors import SHARED
from fieldfit.api.validation import goodness_of_fit
from fieldfit.docstrings import filled


@filled(SHARED)
@dataclass(frozen=True, repr=False)
class Hypotheses(Influences):
    """The methods of `Fit` for comparisons and tests."""

    @cached_property
    def composite_log_likelihood(self) -> float:
        """Composite log-likelihood Σ_i w_i m_θ̂(X_i, Z_i) without the penalty.

        Importance weights are scaled to sum to ``total``.
        """
        return (self.objective + self.penalty.value(self.theta, self.free)) / self.unit_weight

    def claic(self, kind: Kind = "robust") -> float:
        """Compute the composite likelihood information criterion −2 cℓ(θ̂) + 2 tr(bread⁻¹ meat) (Varin & Vidoni 2005).

        Parameters
        ----------
        %(kind)s

        Returns
        -------
        float
            Smaller is better. Comparable only between fits with the same policy, data and seed.

        Examples
        --------
        %(fit)s
        >>> fit.claic() < fit.clbic()
        True
        """
        refuse_refined(self, "CLAIC", "Compare the first stages, or use held-out likelihoods (cross_validate).")
        return -2 * self.composite_log_likelihood + 2 * self.effective_parameters(kind)

    def clbic(self, kind: Kind = "robust") -> float:
        """Compute −2 cℓ(θ̂) + log(n) tr(bread⁻¹ meat) (Gao & Song 2010).

        Parameters
        ----------
        %(kind)s

        Returns
        -------
        float
            Smaller is better. n is ``fit.total``.

        Examples
        --------
        %(fit)s
        >>> fit.clbic() > fit.claic()
        True
        """
        refuse_refined(self, "CLBIC", "Compare the first stages, or use held-out likelihoods (cross_validate).")
        return -2 * self.composite_log_likelihood + float(np.log(self.total)) * self.effective_parameters(kind)

    wald_test = wald_test
    bootstrap_test = bootstrap_test
    permutation_test = permutation_test
    score_test = score_test
    discoveries = discoveries
    goodness_of_fit = goodness_of_fit
