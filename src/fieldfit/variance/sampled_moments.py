"""Moments of mixtures as means over samples, in all coordinates of θ or on a few directions.

Terms are weighted sums of a few estimating functions (``parts``) that they share: PL1, PL1/row and a partition are one
compiled problem. So everything is computed for the parts, and the terms are combined at the end:

    s_f = Σ_p a_fp s_p,    J_f = Σ_p a_fp J_p,    K_fg = Σ_pq a_fp a_gq K_pq
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from fieldfit.policies.laws.base import Noise
from fieldfit.steps import stepped
from fieldfit.types import FloatArray
from fieldfit.variance.mixture_moments import MixtureMoments

#: Draws of Z from which noise is estimated.
_NOISE_DRAWS = 2


class MomentPart(Protocol):
    """Scores of samples and the derivative of their sum: a compiled problem, or other estimating functions."""

    n_samples: int

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The derivative of the sum of scores (r, r)."""

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The same times a vector."""

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """Each sample's score times a vector (n,)."""

    def score_blocks(self, theta: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Stream the scores as (first sample, block)."""


class SampledTerm(Protocol):
    """A term whose moments can be taken over samples."""

    @property
    def name(self) -> str:
        """The term's text."""

    @property
    def noise(self) -> Noise:
        """What its selection adds to the variance."""

    @property
    def scale(self) -> float:
        """The weight of each component: 1, or less where the term is an average over them."""

    @property
    def parts(self) -> Sequence[tuple[float, MomentPart]]:
        """Scores of the samples whose weighted sum is the term in the mean over Z; terms may share them."""

    def drawn(self, seed: int) -> MomentPart:
        """The term with a drawn Z, on the samples; of a free λ with λ = 1/2."""


@dataclass(frozen=True)
class SampledMoments:
    """Parts on samples: breads (p, d, d), the same with squared weights, and scores times weights (p, n, d).

    ``shares`` (terms, p) are a_fp, and ``drawn`` has N or O (d, d) of the terms whose noise comes from draws of Z. With
    ``full``, the place of FL among the terms, its scores are control variates.
    """

    names: tuple[str, ...]
    noises: tuple[Noise, ...]
    scales: tuple[float, ...]
    shares: FloatArray
    breads: FloatArray
    squared: FloatArray
    part_scores: FloatArray
    drawn: Mapping[int, FloatArray]
    full: int | None = None

    def projected(self, basis: FloatArray) -> SampledMoments:
        """The same of basisᵀ·score, basis (r, d)."""
        breads = basis.T @ self.breads @ basis
        return replace(
            self,
            breads=breads,
            squared=breads if self.squared is self.breads else basis.T @ self.squared @ basis,
            part_scores=self.part_scores @ basis,
            drawn={place: basis.T @ noise @ basis for place, noise in self.drawn.items()},
        )

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.part_scores.shape[1])

    @cached_property
    def J(self) -> FloatArray:
        """The breads of the terms (terms, d, d)."""
        return np.tensordot(self.shares, self.breads, 1)

    @cached_property
    def information(self) -> FloatArray:
        """E w² ∇S ∇Sᵀ summed over components (terms, d, d), inside the model: J where nothing is weighted."""
        return np.tensordot(self.shares, self.squared, 1)

    def scores(self, weights: FloatArray, some: slice) -> FloatArray:
        """Σ_f w_f s_f of some samples (·, d), with ``weights`` (terms,)."""
        return np.tensordot(weights @ self.shares, self.part_scores[:, some], 1)

    @cached_property
    def moments(self) -> MixtureMoments:
        """The moments of the terms."""
        J, K = self.J, self._combined(self._products())
        N, O = np.zeros_like(J), np.zeros_like(J)  # noqa: E741
        for f, noise in enumerate(self.noises):
            if f in self.drawn:
                (N if noise is Noise.EACH else O)[f] = self.drawn[f]
            elif noise is Noise.TOGETHER:
                N[f] = K[f, f]
            else:
                N[f] = self.scales[f] * self.information[f]
        return MixtureMoments(self.names, J, K, N, O)

    def _products(self) -> FloatArray:
        """K_pq (p, q, d, d).

        With the scores s of FL as control variates, for samples drawn from the model itself: there E s sᵀ = I and
        E s s_pᵀ = I_p (with squared weights), so that E ψψᵀ = A I Aᵀ + Var(ψ − As) with A = I_ψ I⁻¹: only the second term
        is taken from the samples. As a form in βλ that is
        K̃_pq = K_pq − K_pF I⁻¹ I_q − I_p I⁻¹ K_Fq + I_p I⁻¹ (K_FF + I) I⁻¹ I_q.
        """
        count, n, d = self.part_scores.shape
        stacked = self.part_scores.transpose(1, 0, 2).reshape(n, count * d)
        K = np.ascontiguousarray((stacked.T @ stacked / n).reshape(count, d, count, d).transpose(0, 2, 1, 3))
        if self.full is None:
            return K
        share, information = self.shares[self.full], self.information[self.full]
        turned = np.linalg.pinv(information, hermitian=True) @ self.squared
        with_full = np.tensordot(share, K, 1)  # K_Fq
        rest = (np.tensordot(share, with_full, 1) + information) @ turned - with_full
        for p in range(count):
            for q in range(count):
                K[p, q] += turned[p].T @ rest[q] - with_full[p].T @ turned[q]
        return K

    def _combined(self, products: FloatArray) -> FloatArray:
        """K_fg of the terms; only its symmetric part enters a mixture."""
        terms, d = len(self.shares), products.shape[-1]
        used = [np.flatnonzero(row) for row in self.shares]
        K = np.empty((terms, terms, d, d))
        for f in range(terms):
            for g in range(f + 1):
                pair = np.zeros((d, d))
                for p in used[f]:
                    for q in used[g]:
                        pair += self.shares[f, p] * self.shares[g, q] * products[p, q]
                K[f, g] = K[g, f] = (pair + pair.T) / 2
        return K


def sampled_moments(
    terms: Sequence[SampledTerm],
    theta: FloatArray,
    *,
    weight: FloatArray | None = None,
    basis: FloatArray | None = None,
    random_state: int = 0,
    inside: bool = True,
) -> SampledMoments:
    """Moments as means over samples, in all coordinates or on a basis (r, d).

    With importance ``weight`` (n,) of mean 1 the bread has w, the meat and the selection noise have w². ``inside`` says
    that the samples follow the model, so that N of components drawn one by one is their information; otherwise it is
    estimated from draws, as the noise of laws without a free λ always is.
    """
    problems = list({id(part): part for term in terms for _, part in term.parts}.values())
    place = {id(part): k for k, part in enumerate(problems)}
    shares = np.zeros((len(terms), len(problems)))
    for f, term in enumerate(terms):
        for share, part in term.parts:
            shares[f, place[id(part)]] += share
    n = problems[0].n_samples
    squared = breads = np.stack([_bread(part, theta, basis, weight) / n for part in problems])
    if weight is not None:
        squared = np.stack([_bread(part, theta, basis, weight**2) / n for part in problems])
    scores = np.stack([_scores(part, theta, basis, weight) for part in stepped("moments of the families", problems)])
    drawn = {}
    for f, term in enumerate(terms):
        free = term.noise is Noise.EACH
        if term.noise is Noise.TOGETHER or (free and inside):
            continue
        mean = np.tensordot(shares[f], scores, 1) * (0.5 if free else 1.0)
        noise = np.zeros_like(breads[0])
        for draw in range(_NOISE_DRAWS):
            seed = int(np.random.SeedSequence([random_state, 0x9A, f, draw]).generate_state(1)[0])
            away = _scores(term.drawn(seed), theta, basis, weight) - mean
            # At λ = 1/2 the noise is N/4.
            noise += (4.0 if free else 1.0) * away.T @ away / n / _NOISE_DRAWS
        drawn[f] = noise
    if not inside:
        # Each term has an optimum of its own, where its scores have mean 0.
        scores = scores - scores.mean(axis=1, keepdims=True)
    names, noises = tuple(term.name for term in terms), tuple(term.noise for term in terms)
    return SampledMoments(names, noises, tuple(term.scale for term in terms), shares, breads, squared, scores, drawn)


def _bread(problem: MomentPart, theta: FloatArray, basis: FloatArray | None, weight: FloatArray | None) -> FloatArray:
    if basis is None:
        return -problem.hessian_matrix(theta, weight)
    products = np.stack(
        [problem.hessian_product(theta, np.ascontiguousarray(column), weight) for column in basis.T], axis=1
    )
    matrix = -basis.T @ products
    return np.asarray((matrix + matrix.T) / 2)


def _scores(
    problem: MomentPart, theta: FloatArray, basis: FloatArray | None, weight: FloatArray | None
) -> FloatArray:
    if basis is None:
        scores = np.concatenate([block for _, block in problem.score_blocks(theta)])
    else:
        scores = np.stack([problem.row_products(theta, np.ascontiguousarray(column)) for column in basis.T], axis=1)
    return scores if weight is None else scores * weight[:, None]
