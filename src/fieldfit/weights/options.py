"""What can be chosen about automatic weights: `AutoWeights`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

from fieldfit.types import PolicyError


@dataclass(frozen=True)
class AutoWeights:
    """How Algorithm 1 chooses β; ``weights="auto"`` is ``AutoWeights()``.

    Parameters
    ----------
    form : "exact" (log-determinants), "diagonal" (Hadamard's bound, for many parameters) or "auto": exact where there
        are at most ``most_exact`` parameters and enough samples for their covariance matrix
    formula : "exact" has the second moments E[ZZᵀ] of the selection; "published" is the paper's, with λλᵀ in their place
    by : one β for each "term" of the policy, or one for each "component" (few components)
    gamma : the γ of Algorithm 1, which the paper leaves open: β minimises J(β) + γ ‖β − β₀‖²
    beta0 : the weights to start from and to stay close to; None takes those that the policy is written with
    tol : the alternation has settled when no family's share of the information changes by more, or when a change of β
        would gain less than a tenth of it in J for each parameter (by default 0.01% of a variance)
    max_rounds : alternations of θ and β
    inner_iterations : iterations of the optimiser in one round; None leaves them to the fit
    most_exact : parameters up to which log-determinants are computed
    probes : random directions with which diagonals are estimated where scores cannot be streamed
    fallback : take the best pure policy, or equal weights, where the diagonal form's β is worse by log-determinants
    """

    form: Literal["auto", "exact", "diagonal"] = "auto"
    formula: Literal["exact", "published"] = "exact"
    by: Literal["term", "component"] = "term"
    gamma: float = 0.0
    beta0: Sequence[float] | None = None
    tol: float = 1e-3
    max_rounds: int = 20
    inner_iterations: int | None = None
    most_exact: int = 200
    probes: int = 8
    fallback: bool = True

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("form", self.form, ("auto", "exact", "diagonal")),
            ("formula", self.formula, ("exact", "published")),
            ("by", self.by, ("term", "component")),
        ):
            if value not in allowed:
                raise PolicyError(f"{name} of the automatic weights is {value!r}; it must be one of {allowed}.")
        for name in ("max_rounds", "inner_iterations", "most_exact", "probes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
                raise PolicyError(f"{name} of the automatic weights is {value!r}; it must be an integer.")
        if not 0 <= self.gamma < float("inf"):
            raise PolicyError(f"gamma of the automatic weights is {self.gamma}; it must be finite and at least 0.")
        if not self.tol > 0:
            raise PolicyError(f"tol of the automatic weights is {self.tol}; it must be positive.")
        for name in ("max_rounds", "inner_iterations", "probes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PolicyError(f"{name} of the automatic weights is {value}; it must be at least 1.")


def as_options(weights: object) -> AutoWeights | None:
    """The options where ``weights`` asks for automatic ones ("auto" or `AutoWeights`), else None."""
    if isinstance(weights, AutoWeights):
        return weights
    if isinstance(weights, str):
        if weights != "auto":
            raise PolicyError(
                f"weights is {weights!r}; it must be None, 'auto', an AutoWeights(...), or one β for each term."
            )
        return AutoWeights()
    return None
