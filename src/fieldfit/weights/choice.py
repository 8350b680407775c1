"""The β of least J, and the last word on it by the exact criterion.

`best_beta` minimises J(β) + γ‖β − β₀‖² over β ≥ 0, Σ_g c_g β_g = 1. J does not change with the scale of β, and its natural
coordinates are the groups' shares of the information, α_g ∝ β_g tr B_g. Where the exact criterion can be computed, it
judges what the chosen form has found: β is compared with each group alone and with equal weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fieldfit.asymptotics.criterion import Criterion, WeightsCriterion
from fieldfit.asymptotics.mixture_moments import ZERO_EIGENVALUE, MixtureMoments
from fieldfit.optim.simplex import minimise_on_simplex
from fieldfit.types import FloatArray, IdentifiabilityError
from fieldfit.weights.groups import Groups
from fieldfit.weights.result import WeightsResult
from fieldfit.weights.statistics import discs

#: What is taken instead of β must be better by more than rounding.
_LEAST_GAIN = 1e-9
#: The name of equal weights among the rivals; no family is called so.
EQUAL = "equal weights"


@dataclass(frozen=True)
class WeightsRidge:
    """γ‖β − β₀‖² for normalised β, with ``normaliser`` c."""

    gamma: float
    beta0: FloatArray
    normaliser: FloatArray

    def value_grad(self, x: FloatArray) -> tuple[float, FloatArray]:
        """The ridge at β = x/(cᵀx), and its gradient in x."""
        scale = float(self.normaliser @ x)
        beta = x / scale
        away = beta - self.beta0
        slope = (2 * self.gamma / scale) * (away - self.normaliser * float(beta @ away))
        return self.gamma * float(away @ away), slope


def best_beta(criterion: WeightsCriterion, ridge: WeightsRidge, near: FloatArray | None = None) -> FloatArray:
    """The best normalised β (G,). IdentifiabilityError where no β determines the parameters.

    ``near`` is a β from which the only descent starts, where the best is known to be close.
    """

    def value(x: FloatArray) -> float:
        return criterion.value(x) + (ridge.value_grad(x)[0] if ridge.gamma > 0 else 0.0)

    def value_grad(x: FloatArray) -> tuple[float, FloatArray]:
        J, slope = criterion.value_grad(x)
        if ridge.gamma > 0:
            more, extra = ridge.value_grad(x)
            J, slope = J + more, slope + extra
        return J, slope

    x, lowest = minimise_on_simplex(value, value_grad, criterion.information, starts=(ridge.beta0,), near=near)
    if not np.isfinite(lowest):
        raise IdentifiabilityError(
            "No weights of these families determine the parameters: the bread is singular for all of them. "
            "Add components (PL1 covers all variables), fix parameters, or take more samples."
        )
    return np.asarray(x / float(ridge.normaliser @ x))


@dataclass(frozen=True)
class Exact(WeightsCriterion):
    """The exact form of J: the log-determinant criterion, and the moments as matrices that it comes from."""

    given: MixtureMoments

    @classmethod
    def of(cls, moments: MixtureMoments) -> Exact:
        """From dense moments."""
        return cls(Criterion.log_determinant(moments), np.ones(moments.count), moments)

    @property
    def diagonal(self) -> WeightsCriterion:
        """The diagonal form of the same moments."""
        return Criterion.log_diagonal(self.given.diagonal).over_weights()

    @property
    def short(self) -> tuple[int, ...]:
        """Groups whose scores span less than their bread: too few samples, and log det meat means nothing there."""
        moments = self.criterion.moments
        short = []
        for g in np.flatnonzero(self.given.information > 0).tolist():
            values, vectors = np.linalg.eigh(moments.J[g])
            inside = vectors[:, values > ZERO_EIGENVALUE * max(float(values[-1]), 0.0)]
            sizes = np.linalg.eigvalsh(inside.T @ moments.K[g, g] @ inside)
            if sizes[0] <= ZERO_EIGENVALUE * max(float(sizes[-1]), 0.0):
                short.append(g)
        return tuple(short)


def rivals(groups: Groups) -> dict[str, FloatArray]:
    """What no search is needed for: each group alone, and equal weights."""
    alone = {name: groups.normalised(row) for name, row in zip(groups.names, np.eye(groups.count), strict=True)}
    return alone | {EQUAL: groups.normalised(np.ones(groups.count))}


def better_rival(exact: Exact, beta: FloatArray, groups: Groups) -> str | None:
    """The best of the rivals by the exact J, where it is better than β."""
    values = {name: exact.value(other) for name, other in rivals(groups).items()}
    winner = min(values, key=lambda name: values[name])
    return winner if values[winner] < exact.value(beta) - _LEAST_GAIN else None


def judge(
    result: WeightsResult,
    exact: Exact,
    criterion: WeightsCriterion,
    groups: Groups,
    ridge: WeightsRidge,
    *,
    fallback: bool,
    best: FloatArray | None = None,
) -> WeightsResult:
    """Compare β with its rivals by the exact J, and the diagonal form's optimum with the exact one.

    Where a rival is better the best of them is taken, if ``fallback`` says so. ``criterion`` is the form of J that β comes
    from, and ``best`` the exact optimum, if it is known.
    """
    beta, message = result.beta, result.message
    optimum = best_beta(exact, ridge) if best is None else best
    loss = exact.value(best_beta(exact.diagonal, ridge)) - exact.value(optimum)
    simple = rivals(groups)
    winner = better_rival(exact, beta, groups) if fallback else None
    if winner is not None:
        what = "equal weights, which were" if winner == EQUAL else "a pure policy, which was"
        beta, message = simple[winner], f"{message}; worse than {what} taken, by the exact J"
    breads, meats = exact.given.moments(np.ones((1, len(beta))), beta[None, :])
    pure = {name: exact.value(other) for name, other in simple.items()}
    equal = pure.pop(EQUAL)
    return replace(
        result, beta=beta, policy=groups.policy(beta), message=message, J=criterion.value(beta),
        J_exact=exact.value(beta), pure=pure, equal=equal, diagonal_loss=float(loss), fell_back=winner is not None,
        gershgorin=discs(breads[0], meats[0]),
    )  # fmt: skip
