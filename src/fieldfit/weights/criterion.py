"""J(β) and its derivative, from statistics that do not depend on β (Section 6).

With B_g and M_gh the bread of group g and the meat of groups g and h,

    bread(β) = Σ_g β_g B_g,   meat(β) = Σ_gh β_g β_h M_gh,   J(β) = log det meat(β) − 2 log det bread(β)

and, because M_gh = M_hgᵀ,

    ∂J/∂β_g = 2 Σ_h β_h tr(meat⁻¹ M_gh) − 2 tr(bread⁻¹ B_g).

The diagonal form has only the diagonals, and sums of logarithms in place of log-determinants. Both are infinite where the
bread is singular: such a β does not determine the parameters. Neither changes when β is scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from fieldfit.types import BoolArray, FloatArray

#: Eigenvalues below this, relative to the bread of all groups together, are 0.
_ZERO = 1e-9


class Criterion(Protocol):
    """J as a function of unnormalised β."""

    @property
    def information(self) -> FloatArray:
        """The size of each group's bread (groups,): 0 for a group that says nothing."""

    def value(self, beta: FloatArray) -> float:
        """J(β)."""

    def value_grad(self, beta: FloatArray) -> tuple[float, FloatArray]:
        """J(β) and its gradient; infinite (with gradient 0) where the bread is singular."""


@dataclass(frozen=True)
class LogDeterminant:
    """The exact form. ``bread`` (G, r, r), ``meat`` (G, G, r, r) with meat[g, h] = E ψ_g ψ_hᵀ.

    Directions in which no group has information (the gauge freedom of a model) are left out.
    """

    bread: FloatArray
    meat: FloatArray

    @cached_property
    def information(self) -> FloatArray:
        """The trace of each group's bread."""
        return np.asarray(np.maximum(np.trace(self.bread, axis1=1, axis2=2), 0.0))

    @cached_property
    def _whitening(self) -> tuple[FloatArray, float]:
        """W (r, q) with Wᵀ(Σ_g B_g/tr B_g)W = 1 on the range, and the constant that W adds to J.

        In these coordinates sizes mean something: an eigenvalue is small only where information is missing.
        """
        use = self.information > 0
        total = np.einsum("g,gab->ab", 1.0 / self.information[use], self.bread[use])
        values, vectors = np.linalg.eigh((total + total.T) / 2)
        good = values > _ZERO * max(float(values[-1]), 0.0)
        return vectors[:, good] / np.sqrt(values[good]), float(np.sum(np.log(values[good])))

    @cached_property
    def _blocks(self) -> tuple[FloatArray, FloatArray]:
        W, _ = self._whitening
        groups = len(self.bread)
        bread = np.stack([W.T @ block @ W for block in self.bread])
        meat = np.empty((groups, groups, W.shape[1], W.shape[1]))
        for g in range(groups):
            for h in range(groups):
                meat[g, h] = W.T @ self.meat[g, h] @ W
        return bread, meat

    @property
    def diagonal(self) -> DiagonalForm:
        """The diagonal form of the same bread and meat."""
        return DiagonalForm(np.einsum("grr->gr", self.bread), np.einsum("ghrr->ghr", self.meat))

    @property
    def rank(self) -> int:
        """The number of directions that are counted."""
        return int(self._whitening[0].shape[1])

    @cached_property
    def short(self) -> tuple[int, ...]:
        """Groups whose scores span less than their bread: too few samples, and log det meat means nothing there."""
        bread, meat = self._blocks
        found = []
        for g in np.flatnonzero(self.information > 0):
            values, vectors = np.linalg.eigh(bread[g])
            range_ = vectors[:, values > _ZERO * max(float(values[-1]), 0.0)]
            inside = np.linalg.eigvalsh(range_.T @ meat[g, g] @ range_)
            if inside[0] <= _ZERO * max(float(inside[-1]), 0.0):
                found.append(int(g))
        return tuple(found)

    def _at(self, beta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """bread(β), meat(β) and J(β), which is infinite where one of them is singular."""
        bread, meat = self._blocks
        groups, q = bread.shape[:2]
        B = (beta @ bread.reshape(groups, q * q)).reshape(q, q)
        M = (np.outer(beta, beta).ravel() @ meat.reshape(groups * groups, q * q)).reshape(q, q)
        B, M = (B + B.T) / 2, (M + M.T) / 2
        breads, meats = _log_det(B), _log_det(M)
        J = np.inf if breads is None or meats is None else meats - 2 * breads - self._whitening[1]
        return B, M, J

    def value(self, beta: FloatArray) -> float:
        """J(β)."""
        return self._at(beta)[2]

    def value_grad(self, beta: FloatArray) -> tuple[float, FloatArray]:
        """J(β) and its gradient."""
        B, M, J = self._at(beta)
        if not np.isfinite(J):
            return J, np.zeros(len(beta))
        bread, meat = self._blocks
        groups = len(bread)
        cross = (meat.reshape(groups * groups, -1) @ np.linalg.inv(M).ravel()).reshape(groups, groups)
        return J, 2 * (cross @ beta) - 2 * (bread.reshape(groups, -1) @ np.linalg.inv(B).ravel())


@dataclass(frozen=True)
class DiagonalForm:
    """The diagonal form. ``bread`` (G, r) and ``meat`` (G, G, r) are diagonals.

    Left out are parameters on which no group has information, or on which a group has information but no score yet.
    """

    bread: FloatArray
    meat: FloatArray

    @cached_property
    def kept(self) -> BoolArray:
        """Which parameters count (r,)."""
        own = np.einsum("ggr->gr", self.meat)
        scale = self.bread.max(axis=1, keepdims=True, initial=0.0)
        informed = self.bread > _ZERO * np.maximum(scale, 1e-300)
        return np.asarray(informed.any(axis=0) & ~np.any(informed & (own <= 0), axis=0))

    @cached_property
    def information(self) -> FloatArray:
        """The trace of each group's bread."""
        return np.asarray(np.maximum(self.bread.sum(axis=1), 0.0))

    @property
    def rank(self) -> int:
        """The number of parameters that are counted."""
        return int(self.kept.sum())

    @cached_property
    def _counted(self) -> tuple[FloatArray, FloatArray]:
        kept = self.kept
        return np.ascontiguousarray(self.bread[:, kept]), np.ascontiguousarray(self.meat[:, :, kept])

    def value(self, beta: FloatArray) -> float:
        """J(β)."""
        return self.value_grad(beta)[0]

    def value_grad(self, beta: FloatArray) -> tuple[float, FloatArray]:
        """J(β) and its gradient."""
        bread, meat = self._counted
        B = beta @ bread
        half = beta @ meat  # Σ_h β_h M_gh, which is symmetric in g and h
        M = beta @ half
        if not ((B > 0).all() and (M > 0).all()):
            return np.inf, np.zeros(len(beta))
        J = float(np.log(M).sum() - 2 * np.log(B).sum())
        return J, 2 * (half @ (1 / M)) - 2 * (bread @ (1 / B))


def _log_det(symmetric: FloatArray) -> float | None:
    """log det A of a positive definite matrix; None where it is not, or is singular up to rounding."""
    try:
        pivots = np.square(np.diagonal(np.linalg.cholesky(symmetric)))
    except np.linalg.LinAlgError:
        return None
    if pivots.min(initial=np.inf) <= _ZERO * pivots.max(initial=0.0):
        return None
    return float(np.sum(np.log(pivots)))
