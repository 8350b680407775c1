"""Options of automatic weights: `AutoWeights`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

from fieldfit.arguments import has_entries, number_from_zero, one_of, truth_value
from fieldfit.types import PolicyError


@dataclass(frozen=True)
class AutoWeights:
    """Options of Algorithm 1, which chooses the weights β. ``weights="auto"`` is ``AutoWeights()``.

    Parameters
    ----------
    form : {"auto", "exact", "diagonal"}, default: "auto"
        ``"exact"`` uses log-determinants, ``"diagonal"`` Hadamard's bound, for many parameters. ``"auto"``: exact
        with at most ``most_exact`` parameters and enough samples for their covariance matrix.
    formula : {"exact", "published"}, default: "exact"
        ``"exact"`` uses the second moments E[ZZᵀ] of the selection. ``"published"`` is the paper's, with λλᵀ in
        their place.
    by : {"term", "component"}, default: "term"
        One β for each term of the policy, or for each component (at most 64).
    gamma : float, default: 0.0
        The γ of Algorithm 1, which the paper does not define. Here β minimises J(β) + γ‖β − β₀‖².
    beta0 : sequence of float or None, default: None
        Starting weights β₀. None: the weights in the policy.
    tol : float, default: 1e-3
        The rounds stop when no family's share of the information changes by more than ``tol``, or when another β
        would reduce J by less than ``tol``/10 per parameter.
    max_rounds : int, default: 20
        Largest number of rounds. Each round fits θ and then β.
    most_exact : int, default: 200
        Largest number of parameters for log-determinants.
    probes : int, default: 8
        Number of random directions for estimated diagonals.
    fallback : bool, default: True
        Whether to use the best pure policy or equal weights if the diagonal form's β is worse by log-determinants.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 1000, random_state=0).values
    >>> fit = ff.fit(model, x, "PL1 + 0.3*FL", weights=ff.AutoWeights(form="exact"))
    >>> fit.weights.form, round(float(fit.weights.beta.sum()), 6)
    ('exact', 1.0)
    """

    form: Literal["auto", "exact", "diagonal"] = "auto"
    formula: Literal["exact", "published"] = "exact"
    by: Literal["term", "component"] = "term"
    gamma: float = 0.0
    beta0: Sequence[float] | None = None
    tol: float = 1e-3
    max_rounds: int = 20
    most_exact: int = 200
    probes: int = 8
    fallback: bool = True

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("form", self.form, ("auto", "exact", "diagonal")),
            ("formula", self.formula, ("exact", "published")),
            ("by", self.by, ("term", "component")),
        ):
            one_of(value, f"{name} of the automatic weights", allowed, PolicyError)
        truth_value(self.fallback, "fallback of the automatic weights")
        for name in ("max_rounds", "most_exact", "probes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise PolicyError(f"{name} of the automatic weights is {value!r:.80}; it must be an integer.")
        tol: object = self.tol
        gamma = number_from_zero(self.gamma, "gamma of the automatic weights", PolicyError)
        object.__setattr__(self, "gamma", gamma)
        if not isinstance(tol, Real) or not self.tol > 0:
            raise PolicyError(f"tol of the automatic weights is {self.tol!r:.80}; it must be positive.")
        for name in ("max_rounds", "probes"):
            value = getattr(self, name)
            if value < 1:
                raise PolicyError(f"{name} of the automatic weights is {value}; it must be at least 1.")


def as_options(weights: object) -> AutoWeights | None:
    """The options where ``weights`` asks for automatic ones ("auto" or `AutoWeights`), else None."""
    if isinstance(weights, AutoWeights):
        return weights
    if isinstance(weights, str) or not has_entries(weights):
        if not isinstance(weights, str) or weights != "auto":
            raise PolicyError(
                f"weights is {weights!r:.80}; it must be None, 'auto', an AutoWeights(...), or one β for each term."
            )
        return AutoWeights()
    return None
