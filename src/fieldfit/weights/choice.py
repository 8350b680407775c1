"""The last word on β: the exact criterion, where it can be had, judges what the chosen form has found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.types import FloatArray
from fieldfit.weights.criterion import LogDeterminant
from fieldfit.weights.gershgorin import Gershgorin, discs
from fieldfit.weights.groups import Groups
from fieldfit.weights.simplex import Ridge, minimise_on_simplex

#: What is taken in place of β must be better by more than rounding.
_BETTER = 1e-9
#: The name of equal weights among the rivals; no family is called so.
EQUAL = "equal weights"


@dataclass(frozen=True)
class Judgement:
    """β after comparison with pure policies and equal weights, and what the exact criterion says of everything.

    ``note`` says in words what was taken in place of β, and is empty where β stays.
    """

    beta: FloatArray
    J_exact: float
    pure: dict[str, float]
    equal: float
    diagonal_loss: float
    fell_back: bool
    note: str
    gershgorin: Gershgorin


def rivals(groups: Groups) -> dict[str, FloatArray]:
    """What no search is needed for: each group alone, and equal weights."""
    alone = {name: groups.normalised(row) for name, row in zip(groups.names, np.eye(groups.count), strict=True)}
    return alone | {EQUAL: groups.normalised(np.ones(groups.count))}


@dataclass(frozen=True)
class Simple:
    """A simple policy that is better than β, its exact J, and how to say so."""

    beta: FloatArray
    J: float
    note: str


def fall_back(exact: LogDeterminant, beta: FloatArray, groups: Groups) -> Simple | None:
    """The best of the rivals by the exact J, where it is better than β."""
    simple = rivals(groups)
    values = {name: float(exact.value(other)) for name, other in simple.items()}
    winner = min(values, key=lambda name: values[name])
    if not values[winner] < exact.value(beta) - _BETTER:
        return None
    what = "equal weights, which were" if winner == EQUAL else "a pure policy, which was"
    return Simple(simple[winner], values[winner], f"; worse than {what} taken, by the exact J")


def judge(
    exact: LogDeterminant,
    beta: FloatArray,
    groups: Groups,
    ridge: Ridge,
    *,
    fallback: bool,
    best: FloatArray | None = None,
) -> Judgement:
    """Compare β with its rivals by the exact J, and the diagonal form's optimum with the exact one.

    Where a rival is better the best of them is taken, if ``fallback`` says so. ``best`` is the exact optimum, if it is
    known.
    """
    optimum = minimise_on_simplex(exact, ridge) if best is None else best
    loss = exact.value(minimise_on_simplex(exact.diagonal, ridge)) - exact.value(optimum)
    values = {name: float(exact.value(other)) for name, other in rivals(groups).items()}
    J, note = float(exact.value(beta)), ""
    simple = fall_back(exact, beta, groups) if fallback else None
    if simple is not None:
        beta, J, note = simple.beta, simple.J, simple.note
    bread = np.einsum("g,gab->ab", beta, exact.bread)
    meat = np.einsum("g,h,ghab->ab", beta, beta, exact.meat, optimize=True)
    equal = values.pop(EQUAL)
    return Judgement(beta, J, values, equal, float(loss), simple is not None, note, discs(bread, meat))
