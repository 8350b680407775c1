"""The last word on β: the exact criterion, where it can be had, judges what the chosen form has found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.types import FloatArray
from fieldfit.weights.criterion import DiagonalForm, LogDeterminant
from fieldfit.weights.gershgorin import Gershgorin, discs
from fieldfit.weights.groups import Groups
from fieldfit.weights.simplex import Ridge, minimise_on_simplex

#: A pure policy must be better by more than rounding.
_BETTER = 1e-9


@dataclass(frozen=True)
class Judgement:
    """β after comparison with the pure policies, and what the exact criterion says of everything."""

    beta: FloatArray
    J_exact: float
    pure: dict[str, float]
    diagonal_loss: float
    fell_back: bool
    gershgorin: Gershgorin


def judge(
    exact: LogDeterminant,
    beta: FloatArray,
    groups: Groups,
    ridge: Ridge,
    *,
    fallback: bool,
    best: FloatArray | None = None,
) -> Judgement:
    """Compare β with every pure policy by the exact J, and the diagonal form's optimum with the exact one.

    ``best`` is the exact optimum, if it is known.
    """
    diagonal = DiagonalForm(np.einsum("grr->gr", exact.bread), np.einsum("ghrr->ghr", exact.meat))
    optimum = minimise_on_simplex(exact, ridge) if best is None else best
    loss = exact.value(minimise_on_simplex(diagonal, ridge)) - exact.value(optimum)
    corners = [groups.normalised(row) for row in np.eye(groups.count)]
    values = [exact.value(corner) for corner in corners]
    J = exact.value(beta)
    purest = int(np.argmin(values))
    fell_back = fallback and values[purest] < J - _BETTER
    if fell_back:
        beta, J = corners[purest], values[purest]
    bread = np.einsum("g,gab->ab", beta, exact.bread)
    meat = np.einsum("g,h,ghab->ab", beta, beta, exact.meat, optimize=True)
    pure = dict(zip(groups.names, map(float, values), strict=True))
    return Judgement(beta, float(J), pure, float(loss), bool(fell_back), discs(bread, meat))
