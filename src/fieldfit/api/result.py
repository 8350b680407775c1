"""`Fit`: the estimate, how it was reached, what it cost and how accurate it is; and its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldfit.api.accuracies import Kind as Kind
from fieldfit.api.standard_errors import StandardErrors
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fieldfit.api.comparison import HypothesisTest
    from fieldfit.api.sensitivity import Sensitivity

#: Parameters up to which a notebook shows a fit with its standard errors.
_MOST_SHOWN = 300


@dataclass(frozen=True, repr=False)
class Fit(StandardErrors):
    """A fitted model: the estimate, how it was reached, what it cost and how accurate it is.

    `FitState` has its fields, `StandardErrors` covariances, standard errors and intervals; here are robustness, comparison,
    reports and the file.
    """

    @cached_property
    def fingerprint(self) -> str:
        """A short name for the fitted samples and their weights; empty for a file that does not know it."""
        return self.saved.fingerprint if self.dataset is None else self.model.fingerprint(self.dataset)

    # --- robustness -------------------------------------------------------------------------------------------------

    def influence(self, data: Any = None, *, parameters: Any = None, rows: Any = None) -> FloatArray:
        """How much each observation moves each parameter: 𝓘 = (H + P)⁻¹ ψ (Equation 18), (n, parameters).

        For the fitted samples (``data=None``) with their drawn Z: θ̂ minus what it would be without them. For new ones
        expected over Z: what adding them would change, each with the weight ``fit.unit_weight``. A row with a count stands
        for all its copies together. ``parameters`` chooses columns and ``rows`` fitted samples; either works for any number
        of parameters.
        """
        from fieldfit.api.robustness import influence

        return influence(self, data, parameters, rows)

    def influence_blocks(self, data: Any = None) -> Iterator[tuple[int, FloatArray]]:
        """The same as a stream of (first sample, block), for more samples and parameters than fit in memory."""
        from fieldfit.api.robustness import influence_blocks

        return influence_blocks(self, data)

    def influential(self, k: int = 10, *, parameters: Any = None) -> pd.DataFrame:
        """The ``k`` fitted samples that move the fit most, and the parameter that each moves most.

        Over all parameters, or over those chosen, which works for any number of parameters.
        """
        from fieldfit.api.robustness import influential

        return influential(self, k, parameters)

    def gross_error_sensitivity(self, parameters: Any = None) -> Sensitivity:
        """The most that one observation can do to the estimate: sup over x of |n 𝓘(x)|, expected over Z."""
        from fieldfit.api.sensitivity import gross_error_sensitivity

        return gross_error_sensitivity(self, parameters)

    def plot_influence(self, k: int = 10, ax: Axes | None = None, *, parameters: Any = None) -> Axes:
        """Cook's distance of every fitted sample, the ``k`` largest named; the same data as ``influential(fit.n)``."""
        from fieldfit.api.robustness import checked_number, distances
        from fieldfit.report.influence import plot_influence

        k = checked_number(k)
        table = distances(self, parameters)
        axis = f"Cook's distance over {'all' if parameters is None else 'the chosen'} parameters"
        if table.columns[0] == "displacement":
            axis = "displacement: 2 × what the objective\nloses without the sample"
        return plot_influence(table, k, axis=axis, ax=ax)

    # --- comparison -------------------------------------------------------------------------------------------------

    @cached_property
    def composite_log_likelihood(self) -> float:
        """Σ_i w_i m_θ̂(X_i, Z_i), without the penalty; importance weights are scaled to add up to ``total``."""
        return (self.objective + self.penalty.value(self.theta, self.free)) / self.unit_weight

    def claic(self, kind: Kind = "robust") -> float:
        """−2 cℓ(θ̂) + 2 tr(bread⁻¹ meat) (Varin & Vidoni 2005); smaller is better, for the same policy, data and seed."""
        return -2 * self.composite_log_likelihood + 2 * self.effective_parameters(kind)

    def clbic(self, kind: Kind = "robust") -> float:
        """−2 cℓ(θ̂) + log(n) tr(bread⁻¹ meat), n = ``fit.total`` (Gao & Song 2010)."""
        return -2 * self.composite_log_likelihood + float(np.log(self.total)) * self.effective_parameters(kind)

    def wald_test(self, hypothesis: Any, value: Any = 0.0, *, kind: Kind = "robust") -> HypothesisTest:
        """Test R θ = ``value``: ``hypothesis`` is a list of parameters, of mappings {parameter: coefficient}, or R."""
        from fieldfit.api.comparison import wald_test

        return wald_test(self, hypothesis, value, kind)

    def score_test(self, parameters: Any = None) -> HypothesisTest:
        """Test whether the parameters fixed in this fit (or some of them) have the values they were fixed at."""
        from fieldfit.api.comparison import score_test

        return score_test(self, parameters)

    def discoveries(
        self,
        level: float = 0.05,
        *,
        method: Literal["bh", "by"] = "bh",
        kind: Kind = "robust",
        parameters: Any = None,
    ) -> pd.DataFrame:
        """`table` with q-values and which parameters differ from 0 at this false discovery rate."""
        from fieldfit.api.comparison import discoveries

        return discoveries(self, level, method, kind, parameters)

    def goodness_of_fit(
        self,
        statistic: Callable[[Any], Any] | None = None,
        *,
        n_simulated: int = 199,
        random_state: int = 0,
        names: Sequence[str] | None = None,
        refit: bool = False,
    ) -> pd.DataFrame:
        """Statistics of the data beside those of datasets simulated from the fit.

        ``refit`` fits each simulated dataset again (the parametric bootstrap); without it p is conservative.
        """
        from fieldfit.api.validation import goodness_of_fit

        return goodness_of_fit(self, statistic, n_simulated, random_state, names, refit)

    # --- words ------------------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """How the fit went, as plain values."""
        return {
            "model": self.model.kind,
            "policy": str(self.policy),
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
        }

    def summary(self, rows: int = 20, *, kind: Kind = "robust", level: float = 0.95) -> str:
        """The report and the parameters with the largest |z| as text."""
        from fieldfit.api.summary import summary

        return summary(self, rows, kind, level)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        ended = "converged" if self.converged else "not converged"
        size = f"{self.size}, {self.model.n_parameters:,} parameters"
        return f"<Fit: {self.model.kind} by {self.policy}, {size}, {ended}>"

    def _repr_html_(self) -> str:
        import html

        # A notebook shows what a cell ends with: that must not cost seconds.
        text = self.summary() if self.model.n_parameters <= _MOST_SHOWN else repr(self)
        return f"<pre>{html.escape(text)}</pre>"

    # --- file -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file (no pickle); up to 1,000 parameters its bread and meat go along."""
        from fieldfit.api.files import save_fit

        save_fit(self, path)
