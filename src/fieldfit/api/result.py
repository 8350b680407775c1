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
    from fieldfit.api.sensitivity import Sensitivity

#: Parameters up to which a notebook shows a fit with its standard errors.
_MOST_SHOWN = 300


@dataclass(frozen=True, repr=False)
class Fit(StandardErrors):
    """A fitted model. ``objective`` is the maximised penalised log-likelihood (a sum over samples).

    ``n`` is the number of rows, ``total`` the number of samples that they stand for, and ``unit_weight`` the weight of one
    of those (see `Dataset`): Σw = total × unit_weight.
    """

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
    weighted_total: float | None = None  # `total` where samples have weights
    unit_weight: float = 1.0
    l1: FloatArray | None = None  # the weights of Σ l1 |θ|, if the fit had such a penalty
    encoder: Encoder | None = field(default=None, repr=False, compare=False)  # how text became the fitted sequences
    dataset: Any = field(default=None, repr=False, compare=False)
    weights: WeightsResult | None = field(default=None, repr=False, compare=False)
    objective_function: Objective | None = field(default=None, repr=False, compare=False)
    saved_moments: Moments | None = field(default=None, repr=False, compare=False)
    saved_fingerprint: str = field(default="", repr=False, compare=False)

    @property
    def parameter_names(self) -> list[str]:
        """A name for each entry of θ."""
        return list(self.model.parameter_names)

    @property
    def total(self) -> float:
        """The number of samples behind the fit: n, the sum of the counts, or the effective size of importance weights."""
        return float(self.n) if self.weighted_total is None else self.weighted_total

    @property
    def sample_text(self) -> str:
        """How many samples there are, in words."""
        if self.weighted_total is None or (not self.counts and np.isclose(self.total, self.n, rtol=1e-9)):
            return f"{self.n:,} samples"
        if self.counts:
            return f"{self.total:,.0f} samples ({self.n:,} distinct rows)"
        return f"{self.n:,} weighted samples (effective size {self.total:,.1f})"

    @property
    def needed_objective(self) -> Objective:
        """The objective with its data; DataError for a fit that was loaded from a file."""
        if self.objective_function is None:
            raise DataError(
                "This fit was loaded from a file, which does not hold the samples, and they are needed here. Give them "
                "again: load(path, data)."
            )
        return self.objective_function

    @property
    def needed_dataset(self) -> Any:
        """The samples that were fitted; DataError for a fit that was loaded from a file."""
        if self.dataset is None:
            raise DataError(
                "This fit was loaded from a file, which does not hold the samples, and they are needed here. Give them "
                "again: load(path, data)."
            )
        return self.dataset

    @cached_property
    def fingerprint(self) -> str:
        """A short name for the fitted samples and their weights; empty for a file that does not know it."""
        from fieldfit.api.fingerprint import fingerprint

        return self.saved_fingerprint if self.dataset is None else fingerprint(self.model, self.dataset)

    @property
    def problem(self) -> Problem:
        """The fitted samples with the drawn Z, compiled."""
        return self.needed_objective.problem

    @property
    def penalised(self) -> bool:
        """Whether any free parameter has a penalty."""
        absolute = self.l1 is not None and bool(np.any(self.l1[self.free] > 0))
        return absolute or bool(np.any(np.isfinite(self.sigma2[self.free])))

    @cached_property
    def zeroed(self) -> BoolArray:
        """Which parameters (r,) the L1 penalty has set to exactly 0."""
        if self.l1 is None:
            return np.zeros(len(self.theta), dtype=bool)
        return np.asarray(self.free & (self.l1 > 0) & (self.theta == 0))

    @property
    def active(self) -> BoolArray:
        """Which parameters (r,) were estimated: free, and not set to 0 by the L1 penalty.

        All accuracy is theirs, as if the zeros had been fixed: on this set the L1 penalty is linear, so it has no part in
        the bread, and a small change of the data does not move the zeros.
        """
        return self.free & ~self.zeroed

    @cached_property
    def at_infinity(self) -> BoolArray:
        """Which parameters (r,) have their optimum at infinity."""
        away = set(self.separated)
        if not away:
            return np.zeros(len(self.theta), dtype=bool)
        return np.array([name in away for name in self.model.parameter_names], dtype=bool)

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
        penalty = 0.5 * float(np.sum(self.theta**2 / self.sigma2))
        if self.l1 is not None:
            penalty += float(self.l1[self.free] @ np.abs(self.theta[self.free]))
        return (self.objective + penalty) / self.unit_weight

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
        size = f"{self.sample_text}, {self.model.n_parameters:,} parameters"
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
