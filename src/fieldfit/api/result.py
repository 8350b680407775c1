"""`Fit`: the estimate, how it was reached, what it cost and how accurate it is; and its file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.asymptotics.sandwich import pseudo_inverse, robust_moments
from fieldfit.models.base import Model
from fieldfit.models.cost import Cost
from fieldfit.objective import Objective
from fieldfit.policies import Policy
from fieldfit.types import BoolArray, DataError, FieldfitError, FloatArray, IntArray, ModelError
from fieldfit.weights import WeightsResult

if TYPE_CHECKING:
    import pandas as pd

#: Parameters up to which the covariance is a dense matrix.
MOST_DENSE = 3_000


@dataclass(frozen=True)
class Fit:
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
    weights: WeightsResult | None = field(default=None, repr=False, compare=False)
    objective_function: Objective | None = field(default=None, repr=False, compare=False)
    saved_covariance: FloatArray | None = field(default=None, repr=False, compare=False)

    @property
    def parameter_names(self) -> list[str]:
        """A name for each entry of θ."""
        return list(self.model.parameter_names)

    # --- accuracy -------------------------------------------------------------------------------------------------

    @cached_property
    def _sandwich(self) -> FloatArray:
        """Covariance of θ̂ (free parameters): (H + P)⁻¹ (Σ ψψᵀ) (H + P)⁻¹ with the drawn Z, P the penalty's precision."""
        if self.saved_covariance is not None:
            return self.saved_covariance
        objective = self.objective_function
        if objective is None:
            raise DataError("This fit was loaded from a file without its covariance; standard errors need the data.")
        if self.model.n_parameters > MOST_DENSE:
            raise ModelError(
                f"A covariance matrix of {self.model.n_parameters:,} parameters would be too large "
                f"(the limit is {MOST_DENSE:,})."
            )
        bread, meat = robust_moments(objective.problem, self.theta, objective.row_weight, counts=self.counts)
        total = float(self.n if objective.row_weight is None else objective.row_weight.sum())
        bread = bread + np.diag(objective.precision) / total
        keep = np.ix_(self.free, self.free)
        inverse, _ = pseudo_inverse(bread[keep])
        covariance = np.zeros_like(bread)
        covariance[keep] = inverse @ meat[keep] @ inverse / total
        return covariance

    def covariance(self) -> FloatArray:
        """Covariance matrix of √n(θ̂ − θ₀), robust (Corollary 1) and with the selection noise; fixed parameters have 0."""
        return self._sandwich * self.n

    def standard_errors(self) -> FloatArray:
        """Robust standard error of each parameter."""
        return np.sqrt(np.maximum(np.diag(self._sandwich), 0.0))

    def conf_int(self, level: float = 0.95) -> FloatArray:
        """Normal confidence intervals (r, 2)."""
        from scipy.stats import norm

        if not 0 < level < 1:
            raise FieldfitError(f"A confidence level lies between 0 and 1; got {level!r}.")
        half = norm.ppf(0.5 + level / 2) * self.standard_errors()
        return np.stack([self.theta - half, self.theta + half], axis=1)

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """One line for each parameter: estimate, standard error, z, p and confidence interval."""
        import pandas as pd
        from scipy.stats import norm

        errors = self.standard_errors()
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(errors > 0, self.theta / errors, np.nan)
        interval = self.conf_int(level)
        return pd.DataFrame(
            {
                "estimate": self.theta,
                "std_error": errors,
                "z": z,
                "p": 2 * norm.sf(np.abs(z)),
                "lower": interval[:, 0],
                "upper": interval[:, 1],
            },
            index=pd.Index(self.parameter_names, name="parameter"),
        )

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
        }

    def summary(self, rows: int = 20) -> str:
        """The report and the parameters with the largest |z| as text."""
        lines = [
            f"{self.model.kind} fitted by {self.policy}: {self.n} samples, {self.model.n_parameters} parameters",
            f"{self.message}; {self.iterations} iterations, {self.evaluations} evaluations, {self.seconds:.2f} s",
            f"objective {self.objective:.6f}, gradient norm {self.gradient_norm:.3g}",
        ]
        if np.any(np.isfinite(self.sigma2)):
            lines.append("penalised: intervals are for the penalised estimate, which is pulled towards 0")
        if self.cost is not None:
            lines.append(f"cost of an evaluation: {self.cost.components:,} components, {self.cost.flops:,.0f} FLOPs")
        if self.separated:
            lines.append(f"optimum at infinity: {', '.join(self.separated)}")
        if len(self.dropped_rows):
            lines.append(f"left out: {len(self.dropped_rows)} rows whose missing values were too wide to sum out")
        if self.model.n_parameters <= MOST_DENSE:
            frame = self.table()
            largest = frame.reindex(frame["z"].abs().sort_values(ascending=False, na_position="last").index)
            lines += ["", largest.head(rows).to_string(float_format=lambda value: f"{value:.4f}")]
            if len(frame) > rows:
                lines.append(f"… and {len(frame) - rows} more (fit.table() has all)")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    # --- file -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file (no pickle); up to 1,000 parameters its covariance goes along."""
        from fieldfit.api.files import save_fit

        save_fit(self, path)
