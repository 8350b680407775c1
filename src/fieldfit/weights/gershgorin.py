"""How far the diagonal form can be off: Geršgorin discs of bread and meat.

A disc has its centre at a diagonal entry A_ll and the radius R_l = Σ_{m≠l} |A_lm|. By Hadamard's inequality
log det A ≤ Σ_l log A_ll. Where all discs stay to the right of 0, Ostrowski's inequality det A ≥ Π_l (A_ll − R_l) bounds the
other side, so that with ρ_l = R_l/A_ll

    Σ_l log(1 − ρ_l) ≤ log det A − Σ_l log A_ll ≤ 0,

and J − J_diagonal lies between the meat's lower bound and minus twice the bread's. Where a disc reaches 0 the matrix may
as well be singular for all that the discs tell: there is no bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfit.types import FloatArray, IntArray, Plain


@dataclass(frozen=True)
class Gershgorin:
    """Radii relative to the centres, and what they say of J − J_diagonal.

    ``sampled`` tells that only some rows were computed: then a disc that reaches 0 still shows that there is no bound,
    and finite bounds are estimates, scaled up from the rows seen.
    """

    bread_radius: FloatArray
    meat_radius: FloatArray
    lower: float
    upper: float
    sampled: bool

    @property
    def bounded(self) -> bool:
        """Whether the discs bound the error on both sides."""
        return bool(np.isfinite(self.lower) and np.isfinite(self.upper))

    def __str__(self) -> str:
        if self.bounded:
            kind = "estimated from some discs" if self.sampled else "by Geršgorin discs"
            return f"J − J_diagonal between {self.lower:.3g} and {self.upper:.3g} ({kind})"
        return (
            "Geršgorin discs give no bound on the diagonal form: relative radii up to "
            f"{self.bread_radius.max(initial=0.0):.2f} (bread) and {self.meat_radius.max(initial=0.0):.2f} (meat)"
        )

    def to_dict(self) -> Plain:
        """Plain values; None for no bound."""
        return {
            "bounded": self.bounded,
            "lower": self.lower if np.isfinite(self.lower) else None,
            "upper": self.upper if np.isfinite(self.upper) else None,
            "largest_bread_radius": float(self.bread_radius.max(initial=0.0)),
            "largest_meat_radius": float(self.meat_radius.max(initial=0.0)),
            "sampled": self.sampled,
        }


def discs(bread: FloatArray, meat: FloatArray, rows: IntArray | None = None) -> Gershgorin:
    """From rows (k, r) of bread and meat; ``rows`` says which ones, None for all."""
    r = bread.shape[1]
    places = np.arange(r) if rows is None else rows
    bread_radius, meat_radius = _relative_radius(bread, places), _relative_radius(meat, places)
    factor = r / max(len(places), 1)
    return Gershgorin(
        bread_radius,
        meat_radius,
        factor * _log_bound(meat_radius),
        -2 * factor * _log_bound(bread_radius),
        len(places) < r,
    )


def _relative_radius(matrix: FloatArray, places: IntArray) -> FloatArray:
    """R_l/A_ll; infinite for an entry of 0 with others beside it, and left out (0) for a row of zeros."""
    centre = matrix[np.arange(len(places)), places]
    radius = np.abs(matrix).sum(axis=1) - np.abs(centre)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(centre > 0, radius / centre, np.where(radius > 0, np.inf, 0.0))
    return np.asarray(ratio)


def _log_bound(radius: FloatArray) -> float:
    return float(np.sum(np.log1p(-radius))) if np.all(radius < 1) else -np.inf
