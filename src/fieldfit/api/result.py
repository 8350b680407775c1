"""`Fit`: the estimate, how it was computed, its cost and its accuracy."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from fieldfit.api.accuracies import Kind as Kind
from fieldfit.api.hypotheses import Hypotheses
from fieldfit.api.standard_errors import SHARED
from fieldfit.docstrings import filled
from fieldfit.inference.gibbs import BURN_IN, THIN
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.types import Plain, PolicyError, RunawayWarning
from fieldfit.words import counted

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    from matplotlib.figure import Figure

    from fieldfit.api.bootstrap import Bootstrap, Resampling
    from fieldfit.models.base import Draws
    from fieldfit.planner.result import Plan

#: Most parameters of a fit that a notebook shows with standard errors.
_MOST_SHOWN_PARAMETERS = 300


@filled(SHARED)
@dataclass(frozen=True, repr=False)
class Fit(Hypotheses):
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
            Seed. The same seed gives the same result for any ``n_jobs``.
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
        from fieldfit.api.bootstrap import bootstrap_fit

        return bootstrap_fit(self, resamples, kind, random_state, n_jobs, progress)

    # --- comparison -------------------------------------------------------------------------------------------------

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

    def sample(
        self,
        n: int,
        random_state: int = 0,
        *,
        evidence: object = None,
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
        evidence : dict, sequence or None, default: None
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
        import warnings

        field = self.model.as_field("Sampling")
        if self.runaway:
            warnings.warn(RunawayWarning(self.runaway), stacklevel=2)
        return field.sample(self.theta, n, random_state, evidence=evidence, method=method, burn_in=burn_in, thin=thin)

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
