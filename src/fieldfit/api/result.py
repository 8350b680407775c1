"""`Fit`: the estimate, how it was reached, what it cost and how accurate it is; and its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldfit.api.accuracies import Kind as Kind
from fieldfit.api.standard_errors import StandardErrors
from fieldfit.asymptotics import Moments
from fieldfit.data.encoders import Encoder
from fieldfit.models.base import Model, Problem
from fieldfit.models.cost import Cost
from fieldfit.objective import Objective
from fieldfit.policies import Policy
from fieldfit.types import BoolArray, DataError, FloatArray, IntArray
from fieldfit.weights import WeightsResult

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fieldfit.api.comparison import HypothesisTest
    from fieldfit.api.robustness import Sensitivity


@dataclass(frozen=True)
class Fit(StandardErrors):
    """A fitted model. ``objective`` is the maximised penalised log-likelihood (a sum over samples)."""

    model: Model
    policy: Policy
    theta: FloatArray
    sigma2: FloatArray
    free: BoolArray
    n: int
    random_state: int
    converged: bool
    message: str
    objective: float
    gradient_norm: float
    iterations: int
    evaluations: int
    hessian_products: int
    seconds: float
    separated: tuple[str, ...] = ()
    dropped_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    cost: Cost | None = None
    counts: bool = False
    l1: FloatArray | None = None  # the weights of Σ l1 |θ|, if the fit had such a penalty
    encoder: Encoder | None = field(default=None, repr=False, compare=False)  # how text became the fitted sequences
    dataset: Any = field(default=None, repr=False, compare=False)
    weights: WeightsResult | None = field(default=None, repr=False, compare=False)
    objective_function: Objective | None = field(default=None, repr=False, compare=False)
    saved_moments: Moments | None = field(default=None, repr=False, compare=False)

    @property
    def parameter_names(self) -> list[str]:
        """A name for each entry of θ."""
        return list(self.model.parameter_names)

    @property
    def needed_objective(self) -> Objective:
        """The objective with its data; DataError for a fit that was loaded from a file."""
        if self.objective_function is None:
            raise DataError(
                "This fit was loaded from a file, which does not hold the samples, and they are needed here. Fit the "
                "model again to ask for this."
            )
        return self.objective_function

    @property
    def needed_dataset(self) -> Any:
        """The samples that were fitted; DataError for a fit that was loaded from a file."""
        if self.dataset is None:
            raise DataError(
                "This fit was loaded from a file, which does not hold the samples, and they are needed here. Fit the "
                "model again to ask for this."
            )
        return self.dataset

    @property
    def problem(self) -> Problem:
        """The fitted samples with the drawn Z, compiled."""
        return self.needed_objective.problem

    @property
    def penalised(self) -> bool:
        """Whether any free parameter has a penalty."""
        absolute = self.l1 is not None and bool(np.any(self.l1[self.free] > 0))
        return absolute or bool(np.any(np.isfinite(self.sigma2[self.free])))

    # --- robustness -------------------------------------------------------------------------------------------------

    def influence(self, data: Any = None, *, parameters: Any = None, rows: Any = None) -> FloatArray:
        """How much each observation moves each parameter: 𝓘 = (H + P)⁻¹ ψ (Equation 18), (n, parameters).

        For the fitted samples (``data=None``) with their drawn Z: θ̂ minus what it would be without them. For new ones
        expected over Z: what adding them would change. ``parameters`` chooses columns and ``rows`` fitted samples; either
        works for any number of parameters.
        """
        from fieldfit.api.robustness import influence

        return influence(self, data, parameters, rows)

    def influence_blocks(self, data: Any = None) -> Iterator[tuple[int, FloatArray]]:
        """The same as a stream of (first sample, block), for more samples and parameters than fit in memory."""
        from fieldfit.api.robustness import influence_blocks

        return influence_blocks(self, data)

    def influential(self, k: int = 10, *, parameters: Any = None) -> pd.DataFrame:
        """The ``k`` fitted samples that move the fit most, and the parameter that each moves most."""
        from fieldfit.api.robustness import influential

        return influential(self, k, parameters)

    def gross_error_sensitivity(self) -> Sensitivity:
        """The most that one observation can do to the estimate: sup over x of |n 𝓘(x)|, expected over Z."""
        from fieldfit.api.robustness import gross_error_sensitivity

        return gross_error_sensitivity(self)

    def plot_influence(self, k: int = 10, ax: Axes | None = None) -> Axes:
        """Cook's distance of every fitted sample, the ``k`` largest named."""
        from fieldfit.api.robustness import cook_distances
        from fieldfit.report.influence import plot_influence

        return plot_influence(cook_distances(self), self.influential(k), ax=ax)

    # --- comparison -------------------------------------------------------------------------------------------------

    @cached_property
    def composite_log_likelihood(self) -> float:
        """Σ_i w_i m_θ̂(X_i, Z_i), without the penalty."""
        penalty = 0.5 * float(np.sum(self.theta**2 / self.sigma2))
        if self.l1 is not None:
            penalty += float(self.l1 @ np.abs(self.theta))
        return self.objective + penalty

    def claic(self, kind: Kind = "robust") -> float:
        """−2 cℓ(θ̂) + 2 tr(bread⁻¹ meat) (Varin & Vidoni 2005); smaller is better, for the same policy, data and seed."""
        return -2 * self.composite_log_likelihood + 2 * self.effective_parameters(kind)

    def clbic(self, kind: Kind = "robust") -> float:
        """−2 cℓ(θ̂) + log(n) tr(bread⁻¹ meat) (Gao & Song 2010)."""
        return -2 * self.composite_log_likelihood + float(np.log(self.n)) * self.effective_parameters(kind)

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

    # --- file -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file (no pickle); up to 1,000 parameters its bread and meat go along."""
        from fieldfit.api.files import save_fit

        save_fit(self, path)
