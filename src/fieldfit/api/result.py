"""`Fit`: the estimate, how it was reached, what it cost and how accurate it is; and its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldfit.api.accuracies import Kind as Kind
from fieldfit.api.refinement import refuse_refined
from fieldfit.api.standard_errors import SHARED, StandardErrors
from fieldfit.docstrings import filled
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.types import FloatArray, Plain, PolicyError, RunawayWarning
from fieldfit.words import counted

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fieldfit.api.bootstrap import Bootstrap, Resampling
    from fieldfit.api.comparison import HypothesisTest
    from fieldfit.api.resampled_tests import ResampledTest
    from fieldfit.api.sensitivity import Sensitivity
    from fieldfit.models.base import Draws
    from fieldfit.planner.result import Plan

#: Parameters up to which a notebook shows a fit with its standard errors.
_MOST_SHOWN_PARAMETERS = 300


@filled(SHARED)
@dataclass(frozen=True, repr=False)
class Fit(StandardErrors):
    """A fitted model: the estimate, its accuracy, and how the fit went. `fieldfit.fit` and `fieldfit.load` return it.

    Attributes
    ----------
    model : Model
        The model, with the names of the data.
    policy : Policy
        The policy, with the chosen weights.
    theta : ndarray of shape (r,)
        The estimate θ̂.
    sigma2 : ndarray of shape (r,)
        Variance of the Gaussian penalty of each parameter; infinite without a penalty.
    l1 : ndarray of shape (r,) or None
        Weight of the L1 penalty of each parameter.
    free : ndarray of bool of shape (r,)
        Which parameters are not fixed.
    n : int
        Number of rows.
    total : float
        Number of samples: n, the sum of the counts, or the effective size of importance weights.
    unit_weight : float
        Weight of one of these samples; the sum of the weights is total × unit_weight.
    random_state : int
        Seed of the selection.
    converged : bool
        Whether the optimiser has converged.
    message : str
        Why the optimiser stopped.
    objective : float
        Maximised penalised log-likelihood, a sum over samples.
    gradient_norm : float
        Largest entry of the gradient at θ̂.
    iterations, evaluations, hessian_products : int
        Work of the optimiser.
    seconds : float
        Elapsed time.
    separated : tuple of str
        Parameters with their optimum at infinity.
    dropped_rows : ndarray of int
        Rows that were dropped because they have too many missing values.
    weights : WeightsResult or None
        How automatic weights were chosen.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    >>> fit = ff.fit(model, x, "PL1")
    >>> fit
    <Fit: boltzmann by PL1, 500 samples, 3 parameters, converged>
    >>> fit.converged, fit.n
    (True, 500)
    """

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the fitted samples and their weights; empty if unknown."""
        return self.saved.fingerprint if self.prepared is None else self.prepared.fingerprint

    @cached_property
    def _specification_test(self) -> SpecificationTest:
        assert self.refinement is not None
        return self.refinement.needed.specification_test(self.total)

    @property
    def known_specification_test(self) -> SpecificationTest | None:
        """Hansen's J where it has been computed already."""
        test: SpecificationTest | None = self.__dict__.get("_specification_test")
        return test

    def specification_test(self) -> SpecificationTest:
        """Hansen's J of a refined fit: do the conditional distributions agree with one model?

        Returns
        -------
        SpecificationTest
            Statistic, degrees of freedom and p-value.

        Raises
        ------
        PolicyError
            If the fit has no second stage with moment conditions, a penalty, or samples in groups.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine.grid(2, 3, states=(-1, 1))
        >>> x = model.sample([0.5] * 7, 500, random_state=0).values
        >>> fit = ff.fit(model, x, "PL1 >> optimal(1)")
        >>> fit.specification_test().degrees_of_freedom
        6
        """
        if self.refinement is not None and not self.refined:
            raise PolicyError(
                f"'{self.estimator}' kept its first stage's estimate, so there is nothing to test: fit.summary() says why."
            )
        if self.refinement is None:
            raise PolicyError(
                f"'{self.estimator}' has as many estimating functions as parameters, so there is nothing to test. Refine "
                f"it: ff.refine(fit, 'optimal').specification_test()."
            )
        if self.size.groups is not None:
            raise PolicyError("Hansen's test assumes independent samples, and these come in groups.")
        if self.refinement.working is None and self.refinement.saved_test is not None:
            return self.refinement.saved_test
        return self._specification_test

    # --- robustness -------------------------------------------------------------------------------------------------

    def influence(self, data: object = None, *, parameters: object = None, rows: object = None) -> FloatArray:
        """Compute how much each observation changes each parameter: 𝓘 = (H + P)⁻¹ ψ (Equation 18 of the paper).

        Parameters
        ----------
        data : array_like, DataFrame, Sequences or None, default: None
            New samples. The result is the change when one is added with the weight ``fit.unit_weight``, averaged
            over Z. None: the fitted samples with their drawn Z. The result is then θ̂ minus the estimate without
            the sample.
        %(parameters)s
        rows : sequence of int or None, default: None
            Fitted samples. None: all.

        Returns
        -------
        ndarray of shape (n, parameters)
            A row with a count stands for all its copies together.

        Notes
        -----
        With more than 3,000 parameters, select ``parameters`` or ``rows``.

        Examples
        --------
        %(fit)s
        >>> fit.influence().shape
        (500, 3)
        >>> fit.influence([[1, 1, 1]], parameters=["x0:x1"]).round(4)
        array([[0.003]])
        """
        from fieldfit.api.robustness import influence

        return influence(self, data, parameters, rows)

    def influence_blocks(self, data: object = None) -> Iterator[tuple[int, FloatArray]]:
        """Iterate over the influence in blocks of samples, for arrays that do not fit in memory.

        Parameters
        ----------
        data : array_like, DataFrame, Sequences or None, default: None
            New samples. None: the fitted samples.

        Yields
        ------
        first : int
            Number of the first sample of the block.
        block : ndarray of shape (k, r)

        Examples
        --------
        %(fit)s
        >>> sum(len(block) for first, block in fit.influence_blocks())
        500
        """
        from fieldfit.api.robustness import influence_blocks

        return influence_blocks(self, data)

    def influential(self, k: int = 10, *, parameters: object = None) -> pd.DataFrame:
        """List the fitted samples that change the estimate most.

        Parameters
        ----------
        k : int, default: 10
            Number of samples.
        %(parameters)s

        Returns
        -------
        DataFrame
            Cook's distance (or the displacement, if there are no more samples than parameters), the parameter that
            the sample changes most, and the change.

        Examples
        --------
        %(fit)s
        >>> list(fit.influential(3).columns)
        ['distance', 'parameter', 'change', 'in_errors']
        """
        from fieldfit.api.robustness import influential

        return influential(self, k, parameters)

    def gross_error_sensitivity(self, parameters: object = None) -> Sensitivity:
        """Compute the largest effect that one observation can have: sup over x of abs(n 𝓘(x)), averaged over Z.

        Parameters
        ----------
        %(parameters)s

        Returns
        -------
        Sensitivity

        Examples
        --------
        %(fit)s
        >>> worst = fit.gross_error_sensitivity()
        >>> worst.exact, worst.state
        (True, (1, 0, 1))
        """
        from fieldfit.api.sensitivity import gross_error_sensitivity

        return gross_error_sensitivity(self, parameters)

    def plot_influence(self, k: int = 10, ax: Axes | None = None, *, parameters: object = None) -> Axes:
        """Draw Cook's distance of every fitted sample. ``influential(fit.n)`` has the same numbers.

        Parameters
        ----------
        k : int, default: 10
            Number of samples with a label.
        %(ax)s
        %(parameters)s

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        %(fit)s
        >>> fit.plot_influence(3).figure.savefig("influence.png")
        """
        from fieldfit.api.robustness import checked_number, distances
        from fieldfit.report.influence import plot_influence

        k = checked_number(k)
        table = distances(self, parameters)
        axis = f"Cook's distance over {'all' if parameters is None else 'the selected'} parameters"
        if table.columns[0] == "displacement":
            axis = "displacement: 2 × loss of the objective\nwithout the sample"
        return plot_influence(table, k, axis=axis, ax=ax)

    def bootstrap(
        self,
        resamples: int = 999,
        *,
        kind: Resampling | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        progress: Callable[[int, int], object] | None = None,
    ) -> Bootstrap:
        """Fit resampled data in the same way: a check of the standard errors, and intervals for few samples.

        Parameters
        ----------
        resamples : int, default: 999
            Number of resamples, each as large as the data and with a selection of its own.
        kind : {"rows", "groups", "parametric"} or None, default: None
            Samples with replacement, whole groups with replacement, or data simulated from the fit. None: "groups" if the
            data have groups, "parametric" for one sample, else "rows".
        random_state : int, default: 0
            Seed. The same seed gives the same result, whatever ``n_jobs``.
        n_jobs : int, default: 1
            Number of processes; -1: one for each processor.
        progress : callable or None, default: None
            Called with the number of resamples done and of all.

        Returns
        -------
        Bootstrap

        Examples
        --------
        %(fit)s
        >>> fit.bootstrap(99).conf_int(parameters="x0:x1").round(2)
        array([[0.56, 1.05]])
        """
        from fieldfit.api.bootstrap import bootstrap

        return bootstrap(self, resamples, kind, random_state, n_jobs, progress)

    # --- comparison -------------------------------------------------------------------------------------------------

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
        """Test whether parameters have a value, with a simulated law of the Wald statistic: for few samples.

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
        """Test R θ = 0 by exchanging the rows of some columns, such as the group, at random.

        Parameters
        ----------
        hypothesis : str, dict, sequence of these or ndarray of shape (q, r)
            What is 0 if these columns are independent of all others, as in `wald_test`.
        columns : str or sequence of str
            Columns of the data whose rows are exchanged together.
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

    def couplings(self) -> pd.DataFrame:
        """Return the coupling of each pair of variables, or of each label (row) with the next one (column).

        Returns
        -------
        DataFrame
            Binary fields: log odds ratios (θ of a Boltzmann machine). More states: the Frobenius norm of the centred table.
            Chains: transition weights.

        Examples
        --------
        %(fit)s
        >>> fit.couplings().round(2)
              x0    x1    x2
        x0  0.00  0.80 -0.93
        x1  0.80  0.00  0.55
        x2 -0.93  0.55  0.00
        """
        from fieldfit.api.couplings import coupling_table

        return coupling_table(self)

    def to_networkx(self) -> networkx.Graph:
        """Return the couplings as a graph with the edge attributes ``weight`` and ``distance`` = 1 / abs(weight).

        Returns
        -------
        networkx.Graph
            A directed graph of labels for chains. ``networkx.write_graphml`` writes it to a file.

        Examples
        --------
        %(fit)s
        >>> round(fit.to_networkx()["x0"]["x1"]["weight"], 2)
        0.8
        """
        from fieldfit.api.couplings import graph_of

        return graph_of(self)

    def strength(self) -> pd.Series[float]:
        """Return Σ_k abs(coupling) of each variable, the largest first.

        Returns
        -------
        Series

        Examples
        --------
        %(fit)s
        >>> fit.strength().round(2).to_dict()
        {'x0': 1.73, 'x2': 1.48, 'x1': 1.35}
        """
        from fieldfit.api.couplings import strengths

        return strengths(self)

    def plot_network(self, *, seed: int = 0) -> Figure:
        """Draw the couplings as a network, or the transitions of a chain as a matrix. `couplings` has the same numbers.

        Parameters
        ----------
        seed : int, default: 0
            Seed of the layout.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        %(fit)s
        >>> fit.plot_network().savefig("network.png")
        """
        from fieldfit.api.couplings import draw_network

        return draw_network(self, seed)

    def sample(self, n: int, random_state: int = 0, **options: Any) -> Draws:
        """Draw samples from the fitted field.

        Parameters
        ----------
        n : int
            Number of samples.
        random_state : int, default: 0
            Seed.
        **options
            Other parameters of `FieldModel.sample`, such as ``evidence``.

        Returns
        -------
        Draws

        Warns
        -----
        RunawayWarning
            If the model runs away from the data.

        Examples
        --------
        %(fit)s
        >>> fit.sample(5).values.shape
        (5, 3)
        """
        import warnings

        field = self.model.as_field("Sampling")
        if self.runaway:
            warnings.warn(RunawayWarning(self.runaway), stacklevel=2)
        return field.sample(self.theta, n, random_state, **options)

    # --- words ------------------------------------------------------------------------------------------------------

    def report(self) -> Plain:
        """Return how the fit went as plain values.

        Returns
        -------
        dict
            Values that JSON can represent.

        Examples
        --------
        %(fit)s
        >>> fit.report()["policy"]
        'PL1'
        """
        return {
            "model": self.model.kind,
            "policy": str(self.estimator),
            "n": self.n,
            "total": self.total,
            "parameters": self.model.n_parameters,
            "converged": self.converged,
            "message": self.message,
            "objective": self.objective,
            "gradient_norm": self.gradient_norm,
            "iterations": self.iterations,
            "evaluations": self.evaluations,
            "hessian_products": self.hessian_products,
            "seconds": self.seconds,
            "random_state": self.random_state,
            "separated": list(self.separated),
            "dropped_rows": self.dropped_rows.tolist(),
            "cost": None if self.cost is None else self.cost.to_dict(),
            "weights": None if self.weights is None else self.weights.to_dict(),
            "refinement": None
            if self.refinement is None
            else self.refinement.to_dict(self.policy, self.known_specification_test),
        }

    def summary(self, rows: int = 20, *, kind: Kind = "robust", level: float = 0.95) -> str:
        """Return the fit and the parameters with the largest abs(z) as text.

        Parameters
        ----------
        rows : int, default: 20
            Largest number of parameters.
        %(kind)s
        %(level)s

        Returns
        -------
        str

        Examples
        --------
        %(fit)s
        >>> print(fit.summary())  # doctest: +ELLIPSIS
        boltzmann...
        """
        from fieldfit.api.summary import summary

        return summary(self, rows, kind, level)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        ended = "converged" if self.converged else "not converged"
        size = f"{self.size}, {counted(self.model.n_parameters, 'parameters')}"
        return f"<Fit: {self.model.kind} by {self.estimator}, {size}, {ended}>"

    def _repr_html_(self) -> str:
        from fieldfit.api.summary import summary_html

        # A notebook shows what a cell ends with: that must not cost seconds.
        return summary_html(self, errors=self.model.n_parameters <= _MOST_SHOWN_PARAMETERS)

    def to_html(self, path: str | os.PathLike[str], *, plan: Plan | None = None, level: float = 0.95) -> None:
        """Write a page to explore: estimates, network or transitions, data against model, influence, convergence.

        Parameters
        ----------
        path : str or Path
            The file. It contains everything that it shows and loads nothing.
        plan : Plan or None, default: None
            A plan for the same data: adds the frontier of cost and accuracy, with sliders for λ and β.
        %(level)s

        Examples
        --------
        %(fit)s
        >>> fit.to_html("fit.html")
        """
        from fieldfit.api.fit_page import fit_page

        fit_page(self, plan, level).write(path)

    # --- file -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fit to a file, without pickle.

        Parameters
        ----------
        path : str or Path
            The file. With at most 1,000 parameters it includes bread and meat.

        Examples
        --------
        %(fit)s
        >>> fit.save("model.ff")
        >>> bool((ff.load("model.ff").theta == fit.theta).all())
        True
        """
        from fieldfit.api.files import save_fit

        save_fit(self, path)
