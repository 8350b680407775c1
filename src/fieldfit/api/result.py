"""`Fit`: the estimate, how it was computed, its cost and its accuracy."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fieldfit.api.accuracies import Kind as Kind
from fieldfit.api.bootstrap import bootstrap_fit
from fieldfit.api.comparison import claic, clbic, discoveries, score_test, wald_test
from fieldfit.api.couplings import coupling_table, draw_network, graph_of, strengths
from fieldfit.api.resampled_tests import bootstrap_test, permutation_test
from fieldfit.api.robustness import influence, influence_blocks, influential, plot_influence
from fieldfit.api.sensitivity import gross_error_sensitivity
from fieldfit.api.standard_errors import StandardErrors
from fieldfit.api.summary import headline, summary, summary_html
from fieldfit.api.validation import goodness_of_fit
from fieldfit.arguments import instance_of
from fieldfit.callers import warn_caller
from fieldfit.docstrings import SHARED, filled
from fieldfit.inference.gibbs import BURN_IN, THIN
from fieldfit.properties import cached_property
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.types import Plain, PolicyError, RunawayWarning
from fieldfit.words import counted

if TYPE_CHECKING:
    from fieldfit.models.base import Draws
    from fieldfit.planner.result import Plan

#: Most parameters of a fit that a notebook shows with standard errors.
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
        Time of the fit by the clock.
    separated : tuple of str
        Parameters with their optimum at infinity.
    dropped_rows : ndarray of int
        Rows that were dropped because they have too many missing values.
    weights : WeightsResult or None
        How automatic weights were chosen.

    Examples
    --------
    %(fit)s
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
        from fieldfit.api.misfit import differing_moments

        test = self.refinement.needed.specification_test(self.total)
        return replace(test, differing=differing_moments(self)) if test.rejects else test

    @property
    def known_specification_test(self) -> SpecificationTest | None:
        """Hansen's J if it has already been computed."""
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

    claic = claic
    clbic = clbic
    wald_test = wald_test
    bootstrap_test = bootstrap_test
    permutation_test = permutation_test
    score_test = score_test
    discoveries = discoveries
    goodness_of_fit = goodness_of_fit
    influence = influence
    influence_blocks = influence_blocks
    influential = influential
    gross_error_sensitivity = gross_error_sensitivity
    plot_influence = plot_influence
    bootstrap = bootstrap_fit
    couplings = coupling_table
    to_networkx = graph_of
    strength = strengths
    plot_network = draw_network
    summary = summary

    def sample(
        self,
        n: int,
        random_state: int = 0,
        *,
        given: object = None,
        method: str = "auto",
        burn_in: int = BURN_IN,
        thin: int = THIN,
    ) -> Draws:
        """Draw samples from the fitted field.

        Parameters
        ----------
        n : int
            Number of samples.
        random_state : int, default: 0
            Seed.
        given : dict, sequence or None, default: None
            A mapping from variables (names or numbers) to states, or one state (None if free) for each variable. The
            other variables are drawn given these.
        method : {"auto", "exact", "gibbs"}, default: "auto"
            ``"auto"``: exact, independent samples if the graph is narrow enough, else Gibbs sampling.
        burn_in : int, default: 1000
            Gibbs sweeps before the first draw of each chain.
        thin : int, default: 10
            Gibbs sweeps between two draws of a chain.

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
        field = self.model.as_field("Sampling")
        if self.runaway:
            warn_caller(RunawayWarning(self.runaway))
        return field.sample(self.theta, n, random_state, given=given, method=method, burn_in=burn_in, thin=thin)

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

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        if self.only_weights:
            return f"<Fit: {headline(self)}>"
        ended = "converged" if self.converged else "not converged"
        size = f"{self.size}, {counted(self.model.n_parameters, 'parameters')}"
        return f"<Fit: {self.model.kind} by {self.estimator}, {size}, {ended}>"

    def _repr_html_(self) -> str:
        # A notebook shows the last value of a cell, which must not take seconds.
        return summary_html(self, errors=self.model.n_parameters <= _MOST_SHOWN_PARAMETERS)

    def to_html(self, path: str | os.PathLike[str], *, plan: Plan | None = None, level: float = 0.95) -> None:
        """Write a page to explore: estimates, network or transitions, data against model, influence, convergence.

        Parameters
        ----------
        path : str or Path
            The file. It is self-contained.
        plan : Plan or None, default: None
            A plan for the same data: adds the frontier of cost and accuracy, with sliders for λ and β.
        %(level)s

        Examples
        --------
        %(fit)s
        >>> fit.to_html("fit.html")
        """
        from fieldfit.api.fit_page import fit_page

        if plan is not None:
            from fieldfit.planner.result import Plan

            instance_of(plan, Plan, "plan must be a Plan (from ff.plan) or None")
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
