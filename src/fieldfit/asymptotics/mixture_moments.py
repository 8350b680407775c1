"""Moments of mixtures of a few terms at one θ: computed once, they give the variance for every λ and β.

A term f is a family with one λ and one β, or a law without a free λ. With s_f = E_Z ψ_f its score in the mean over Z (at
λ = β = 1) and terms that are drawn independently of each other,

    bread  Υ⁻¹ = Σ_f β_f λ_f J_f,                              J_f = −E ∇s_f
    meat   Σ   = Σ_fg β_f λ_f β_g λ_g K_fg + Σ_f β_f² (λ_f (1 − λ_f) N_f + O_f),      K_fg = E s_f s_gᵀ

The second sum is the selection noise; the published formula leaves it out. The law says what N_f is (`Noise`):
Σ_j E ∇S_j ∇S_jᵀ where components are drawn one by one, K_ff where they are drawn together. O_f is the noise of a law
without a free λ, Var_Z ψ_f. A mixture costs a few d × d sums and one solution, for any number of components.

Expectations are sums over all states (`enumerated`), means over samples (`fieldfit.asymptotics.sampled_moments`), or
means over data with the Z that was drawn for them (`with_drawn_selection`, where λ = 1 and the noise is in K).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.arguments import one_of
from fieldfit.asymptotics.moments import Compile, theory_moments, weighted_selection
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Noise
from fieldfit.policies.structure import Structure
from fieldfit.types import FloatArray, ModelError

FORMULAS = ("published", "exact")
_MIXTURES_AT_ONCE = 500  # mixtures at a time, to bound the memory
#: Eigenvalues below this, relative to the largest, are 0.
ZERO_EIGENVALUE = 1e-9


@dataclass(frozen=True)
class MixtureMoments:
    """J, N, O (f, d, d) and K (f, f, d, d) of the terms ``names``, on d directions; or the diagonals of all of them."""

    names: tuple[str, ...]
    J: FloatArray
    K: FloatArray
    N: FloatArray
    O: FloatArray  # noqa: E741 (the formula's name)

    @classmethod
    def enumerated(
        cls,
        terms: Sequence[Policy | str],
        structure: Structure,
        compile_problem: Compile,
        theta: FloatArray,
        weight: FloatArray,
    ) -> MixtureMoments:
        """Moments when E over X is Σ_x w_x with the model's own probabilities at θ (the information identity is used).

        A term is a policy of one law, with λ = β = 1 where those are free: ``PL2``, ``PL2/row``, ``Partition(2)``.
        """
        policies = [Policy.parse(term) if isinstance(term, str) else term for term in terms]
        bound = [policy.bind(structure) for policy in policies]
        problems = [
            compile_problem(weighted_selection(term, term.mean() * term.beta(), len(weight))) for term in bound
        ]
        J = np.stack([-problem.hessian_matrix(theta, weight) for problem in problems])
        count, r = len(terms), len(theta)
        K = np.zeros((count, count, r, r))
        rows = max(1, int(4_000_000 // (r * count)))
        for start in range(0, len(weight), rows):
            stop = min(start + rows, len(weight))
            scores = [problem.scores(theta, start, stop) for problem in problems]
            for f in range(count):
                weighted = scores[f] * weight[start:stop, None]
                for g in range(f + 1):
                    K[f, g] += weighted.T @ scores[g]
        for f in range(count):
            for g in range(f):
                # Only the symmetric part of K_fg enters a mixture.
                K[f, g] = K[g, f] = (K[f, g] + K[f, g].T) / 2
        N, O = np.zeros_like(J), np.zeros_like(J)  # noqa: E741
        for f, policy in enumerate(policies):
            noise = policy.laws[0].noise
            if noise is Noise.EACH:
                N[f] = bound[f].scales[0] * J[f]  # components of an average have small weights
            elif noise is Noise.TOGETHER:
                N[f] = K[f, f]
            elif not bound[f].everything:
                O[f] = theory_moments(bound[f], compile_problem, theta, weight)[1] - K[f, f]
        return cls(tuple(map(str, policies)), J, K, N, O)

    @classmethod
    def with_drawn_selection(cls, names: Sequence[str], bread: FloatArray, meat: FloatArray) -> MixtureMoments:
        """Bread (f, …) and meat (f, f, …) of data with the drawn Z: all noise is in K, and every λ is 1."""
        return cls(tuple(names), bread, meat, np.zeros_like(bread), np.zeros_like(bread))

    def with_alone(self, terms: Sequence[tuple[str, FloatArray, FloatArray]]) -> MixtureMoments:
        """With further terms (name, J, K) that use all samples and are mixed with no other."""
        before, r, none = self.count, self.J.shape[-1], np.zeros((len(terms), *self.J.shape[1:]))
        K = np.zeros((before + len(terms),) * 2 + (r, r))
        K[:before, :before] = self.K
        for place, (_, _, meat) in enumerate(terms, before):
            K[place, place] = meat
        names = (*self.names, *(name for name, _, _ in terms))
        J = np.stack([*self.J, *(bread for _, bread, _ in terms)])
        return MixtureMoments(names, J, K, np.concatenate([self.N, none]), np.concatenate([self.O, none]))

    @classmethod
    def from_mixtures(
        cls, names: Sequence[str], mixture: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    ) -> MixtureMoments:
        """From ``mixture(β)``, which gives the bread and the meat (noise included) of the terms with weights β (f,).

        The meat is a quadratic form in β, so its blocks follow from single terms and pairs:
        M_ff = meat(e_f), and M_fg + M_gf = meat(e_f + e_g) − meat(e_f) − meat(e_g). A criterion sees M_fg only in that
        sum, so half of it is as good as each.
        """
        unit = np.eye(len(names))
        alone = [mixture(row) for row in unit]
        bread = np.stack([moments[0] for moments in alone])
        meat = np.empty((len(names), *bread.shape))
        for f in range(len(names)):
            meat[f, f] = alone[f][1]
            for g in range(f):
                meat[f, g] = meat[g, f] = (mixture(unit[f] + unit[g])[1] - alone[f][1] - alone[g][1]) / 2
        return cls.with_drawn_selection(names, bread, meat)

    @property
    def count(self) -> int:
        """The number of terms."""
        return len(self.names)

    @property
    def information(self) -> FloatArray:
        """The trace of each term's J (f,), 0 for a term without information."""
        diagonal = self.J if self.J.ndim == 2 else np.einsum("fdd->fd", self.J)
        return np.asarray(np.maximum(diagonal.sum(axis=1), 0.0))

    @property
    def diagonal(self) -> MixtureMoments:
        """The diagonals only."""
        J, N, O = (np.einsum("fdd->fd", matrix) for matrix in (self.J, self.N, self.O))  # noqa: E741
        return MixtureMoments(self.names, J, np.einsum("fgdd->fgd", self.K), N, O)

    def moments(self, lam: FloatArray, beta: FloatArray, formula: str = "exact") -> tuple[FloatArray, FloatArray]:
        """Bread and meat, each (points, d, d), for λ and β of shape (points, f)."""
        one_of(formula, "formula", FORMULAS, ModelError)
        points, families = np.shape(lam)
        shape = (points, *self.J.shape[1:])
        weight = beta * lam
        bread = (weight @ self.J.reshape(families, -1)).reshape(shape)
        products = (weight[:, :, None] * weight[:, None, :]).reshape(points, -1)
        meat = (products @ self.K.reshape(families * families, -1)).reshape(shape)
        if formula == "exact":
            meat += ((beta**2 * lam * (1 - lam)) @ self.N.reshape(families, -1)).reshape(shape)
            meat += ((beta**2) @ self.O.reshape(families, -1)).reshape(shape)
        return bread, meat

    def mixture(self, lam: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bread and meat (d, d) of one mixture with λ and β of shape (f,), from the terms that it has."""
        bread, meat = np.zeros((2, *self.J.shape[1:]))
        weight = lam * beta
        used = np.flatnonzero(weight).tolist()
        for place, f in enumerate(used):
            bread += weight[f] * self.J[f]
            meat += beta[f] ** 2 * self.O[f]
            if lam[f] < 1:
                meat += beta[f] ** 2 * lam[f] * (1 - lam[f]) * self.N[f]
            meat += weight[f] ** 2 * self.K[f, f]
            for g in used[:place]:
                meat += weight[f] * weight[g] * (self.K[f, g] + self.K[g, f])
        return bread, meat

    def sizes(self, lam: FloatArray, beta: FloatArray, formula: str = "exact") -> tuple[FloatArray, FloatArray]:
        """log det and trace of Υ Σ Υ for each point; the bread must be regular."""
        log_det, trace = np.empty((2, len(lam)))
        for start in range(0, len(lam), _MIXTURES_AT_ONCE):
            part = slice(start, start + _MIXTURES_AT_ONCE)
            bread, meat = self.moments(lam[part], beta[part], formula)
            # det(Υ Σ Υ) = det Σ / (det Υ⁻¹)², and tr(Υ Σ Υ) = ‖Υ L‖² with Σ = L Lᵀ.
            log_det[part] = np.linalg.slogdet(meat)[1] - 2 * np.linalg.slogdet(bread)[1]
            trace[part] = (np.linalg.solve(bread, np.linalg.cholesky(meat)) ** 2).sum(axis=(1, 2))
        return log_det, trace

    def projected(self, basis: FloatArray) -> MixtureMoments:
        """The moments of basisᵀ·score, basis (r, d)."""
        J, N = (basis.T @ matrix @ basis for matrix in (self.J, self.N))
        O = basis.T @ self.O @ basis if self.O.any() else np.zeros_like(J)  # noqa: E741
        K = np.empty((self.count, self.count, *J.shape[1:]))
        for f in range(self.count):
            for g in range(f + 1):
                K[f, g] = basis.T @ self.K[f, g] @ basis
                K[g, f] = K[f, g].T
        return replace(self, J=J, K=K, N=N, O=O)

    def subset(self, places: Sequence[int]) -> MixtureMoments:
        """Some of the terms."""
        kept = list(places)
        names = tuple(self.names[place] for place in kept)
        return MixtureMoments(names, self.J[kept], self.K[np.ix_(kept, kept)], self.N[kept], self.O[kept])


def whitening(J: FloatArray) -> tuple[FloatArray, float]:
    """W (r, d) with WᵀTW = 1 on its range, T a sum of the J_f (terms, r, r) of like sizes, and log det⁺ T.

    det⁺ is the pseudo-determinant.

    Directions that no term has information on (gauge freedom) are left out. In these coordinates sizes mean
    something: an eigenvalue of a bread is small only where information is missing. Each parameter is first scaled
    to unit information, so that the units of its features do not matter.
    """
    most = np.einsum("fdd->fd", J).max(axis=0, initial=0.0)
    scale = 1.0 / np.sqrt(np.where(most > 0, most, 1.0))
    scaled = J * np.multiply.outer(scale, scale)
    sizes = np.einsum("fdd->f", scaled)
    used = sizes > 0
    total = np.einsum("f,fde->de", 1.0 / sizes[used], scaled[used])
    values, vectors = np.linalg.eigh((total + total.T) / 2)
    good = values > ZERO_EIGENVALUE * max(float(values[-1]), 0.0)
    basis = vectors[:, good] / np.sqrt(values[good])
    # With N an orthonormal basis of T's null space, |det [W N]|² is 1 over T's pseudo-determinant.
    null = np.linalg.qr(scale[:, None] * vectors[:, ~good])[0] / scale[:, None]
    determinant = np.linalg.slogdet(np.concatenate([basis, null], axis=1))[1] + np.sum(np.log(scale))
    return scale[:, None] * basis, -2.0 * float(determinant)
