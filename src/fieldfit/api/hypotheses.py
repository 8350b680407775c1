"""Comparison and tests of fits: information criteria, tests of hypotheses and of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from fieldfit.api.accuracies import Kind
from fieldfit.api.influences import Influences
from fieldfit.api.refinement import refuse_refined
from fieldfit.api.standard_errors import SHARED
from fieldfit.docstrings import filled

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.comparison import HypothesisTest
    from fieldfit.api.resampled_tests import ResampledTest
    from fieldfit.models.base import Draws


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

    def wald_test(self, hypothesis: object, value: object = 0.0, *, kind: Kind = "robust") -> HypothesisTest:
        """Test the linear hypothesis R θ = value with a Wald test.

        Parameters
        ----------
        hypothesis : str, dict, sequence of these or ndarray of shape (q, r)
            Parameters, mappings {parameter: coefficient}, or the matrix R.
        value : float or sequence of float, default: 0.0
            Value of each row of R θ.
        %(kind)s

        Returns
        -------
        HypothesisTest

        Examples
        --------
        %(fit)s
        >>> print(fit.wald_test([{"x0:x1": 1, "x1:x2": -1}]))
        Wald test: 2.5873, p = 0.1077 (χ² with 1 degree of freedom)
        """
        from fieldfit.api.comparison import wald_test

        return wald_test(self, hypothesis, value, kind)

    def bootstrap_test(
        self,
        parameters: object,
        value: float = 0.0,
        *,
        n_simulated: int = 199,
        random_state: int = 0,
        kind: Kind = "robust",
    ) -> ResampledTest:
        """Test whether parameters have a value with a simulated null distribution of the Wald statistic, for few
        samples.

        Data are simulated from the fit in which these parameters are fixed at ``value``, and fitted in the same way.

        Parameters
        ----------
        parameters : sequence of str or int
            The parameters that have this value under the hypothesis.
        value : float, default: 0.0
            Their value.
        n_simulated : int, default: 199
            Number of simulated datasets.
        random_state : int, default: 0
            Seed.
        %(kind)s

        Returns
        -------
        ResampledTest

        Examples
        --------
        %(fit)s
        >>> fit.bootstrap_test(["x0:x1", "x1:x2"], n_simulated=39).p
        0.025
        """
        from fieldfit.api.resampled_tests import bootstrap_test

        return bootstrap_test(self, parameters, value, kind, n_simulated, random_state)

    def permutation_test(
        self,
        hypothesis: object,
        columns: Sequence[str] | str,
        *,
        n_simulated: int = 199,
        random_state: int = 0,
        kind: Kind = "robust",
    ) -> ResampledTest:
        """Test R θ = 0 by randomly permuting the rows of some columns, such as the group.

        Parameters
        ----------
        hypothesis : str, dict, sequence of these or ndarray of shape (q, r)
            Functions of θ that are 0 if these columns are independent of all others, as in `wald_test`.
        columns : str or sequence of str
            Columns of the data whose rows are permuted together.
        n_simulated : int, default: 199
            Number of permutations.
        random_state : int, default: 0
            Seed.
        %(kind)s

        Returns
        -------
        ResampledTest

        Examples
        --------
        %(fit)s
        >>> fit.permutation_test(["x0:x1", "x0:x2"], "x0", n_simulated=39).p
        0.025
        """
        from fieldfit.api.resampled_tests import permutation_test

        return permutation_test(self, hypothesis, columns, kind, n_simulated, random_state)

    def score_test(self, parameters: object = None) -> HypothesisTest:
        """Test whether the fixed parameters have the values they were fixed at.

        Parameters
        ----------
        parameters : sequence of str or int, or None, default: None
            Fixed parameters to test. None: all fixed parameters.

        Returns
        -------
        HypothesisTest

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.0], 500, random_state=0).values
        >>> null = ff.fit(model, x, "PL1", fixed={"x1:x2": 0.0})
        >>> print(null.score_test())
        Score test: 0.1447, p = 0.7036 (χ² with 1 degree of freedom)
        """
        from fieldfit.api.comparison import score_test

        return score_test(self, parameters)

    def discoveries(
        self,
        level: float = 0.05,
        *,
        method: Literal["bh", "by"] = "bh",
        kind: Kind = "robust",
        parameters: object = None,
    ) -> pd.DataFrame:
        """Add q-values to `table` and mark the parameters that differ from 0 at a false discovery rate.

        Parameters
        ----------
        level : float, default: 0.05
            False discovery rate.
        method : {"bh", "by"}, default: "bh"
            Benjamini–Hochberg, or Benjamini–Yekutieli, which is valid under any dependence.
        %(kind)s
        %(parameters)s

        Returns
        -------
        DataFrame

        Examples
        --------
        %(fit)s
        >>> fit.discoveries(0.05)["discovered"].tolist()
        [True, True, True]
        """
        from fieldfit.api.comparison import discoveries

        return discoveries(self, level, method, kind, parameters)

    def goodness_of_fit(
        self,
        statistic: Callable[[Draws], object] | None = None,
        *,
        n_simulated: int = 199,
        random_state: int = 0,
        names: Sequence[str] | None = None,
        refit: bool = False,
    ) -> pd.DataFrame:
        """Compare statistics of the data with those of datasets simulated from the fit.

        Parameters
        ----------
        statistic : callable or None, default: None
            Function of a dataset that returns numbers. None: means, pair moments and the standard deviation of the
            sum.
        n_simulated : int, default: 199
            Number of simulated datasets.
        random_state : int, default: 0
            Seed of the simulation.
        names : sequence of str or None, default: None
            Names of the statistics.
        refit : bool, default: False
            Whether to fit each simulated dataset again (the parametric bootstrap). Without it, p-values are
            conservative.

        Returns
        -------
        DataFrame
            With the columns observed, expected, std_dev, z and p.

        Examples
        --------
        %(fit)s
        >>> table = fit.goodness_of_fit(n_simulated=49)
        >>> bool((table["p"] > 0.01).all())
        True
        """
        from fieldfit.api.validation import goodness_of_fit

        return goodness_of_fit(self, statistic, n_simulated, random_state, names, refit)

    # --- couplings and draws ----------------------------------------------------------------------------------------
