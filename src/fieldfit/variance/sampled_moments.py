"""Moments of mixtures as means over samples, in all coordinates of θ or on a few directions.

Terms with the same mean over Z (PL1, PL1/row) share one compiled problem, and all that comes from it is computed once.
So is what comes from the parts of sums: Partition(3) of 19 variables is in the mean a sum of PL3 and PL1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from fieldfit.models.sum_problem import SumProblem
from fieldfit.policies.laws.base import Noise
from fieldfit.steps import stepped
from fieldfit.types import FloatArray, IntArray
from fieldfit.variance.mixture_moments import MixtureMoments

#: Draws of Z from which noise is estimated.
_NOISE_DRAWS = 2


class MomentPart(Protocol):
    """Scores of samples and the derivative of their sum: a compiled problem, or other estimating functions."""

    @property
    def n_samples(self) -> int:
        """The number of samples."""

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
    def problem(self) -> MomentPart:
        """The term's scores of the samples in the mean over Z; terms may share them."""

    def drawn(self, seed: int) -> MomentPart:
        """The term with a drawn Z, on the samples; of a free λ with λ = 1/2."""


@dataclass(frozen=True)
class SampledMoments:
    """Breads (p, d, d) of the problems behind the terms, the same with squared weights, and scores times weights (p, n, d).

    ``which`` (terms,) is the problem of each term, and ``drawn`` has N or O (d, d) of the terms whose noise comes from
    draws of Z. With ``full``, the place of FL among the terms, its scores are control variates.
    """

    names: tuple[str, ...]
    noises: tuple[Noise, ...]
    scales: tuple[float, ...]
    which: IntArray
    breads: FloatArray
    squared: FloatArray
    problem_scores: FloatArray
    drawn: Mapping[int, FloatArray]
    full: int | None = None

    def projected(self, basis: FloatArray) -> SampledMoments:
        """The same of basisᵀ·score, basis (r, d)."""
        breads = basis.T @ self.breads @ basis
        return replace(
            self,
            breads=breads,
            squared=breads if self.squared is self.breads else basis.T @ self.squared @ basis,
            problem_scores=self.problem_scores @ basis,
            drawn={place: basis.T @ noise @ basis for place, noise in self.drawn.items()},
        )

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.problem_scores.shape[1])

    @property
    def information(self) -> FloatArray:
        """E w² ∇S ∇Sᵀ summed over components (terms, d, d), inside the model: J where nothing is weighted."""
        return self.squared[self.which]

    def total_information(self, weights: FloatArray) -> FloatArray:
        """Σ_f w_f of the information (d, d), with ``weights`` (terms,)."""
        return np.tensordot(np.bincount(self.which, weights, len(self.squared)), self.squared, 1)

    def scores(self, weights: FloatArray, some: slice = slice(None)) -> FloatArray:
        """Σ_f w_f s_f of some samples (·, d), with ``weights`` (terms,)."""
        each = np.bincount(self.which, weights, len(self.breads))
        return np.tensordot(each, self.problem_scores[:, some], 1)

    @cached_property
    def moments(self) -> MixtureMoments:
        """The moments of the terms.

        With the scores s of FL as control variates, for samples drawn from the model itself: there E s sᵀ = I and
        E s s_pᵀ = I_p (with squared weights), so that E ψψᵀ = A I Aᵀ + Var(ψ − As) with A = I_ψ I⁻¹: only the second term
        is taken from the samples. As a form in βλ that is
        K̃_pq = K_pq − K_pF I⁻¹ I_q − I_p I⁻¹ K_Fq + I_p I⁻¹ (K_FF + I) I⁻¹ I_q.
        """
        count, n, d = self.problem_scores.shape
        stacked = self.problem_scores.transpose(1, 0, 2).reshape(n, count * d)
        K = np.ascontiguousarray((stacked.T @ stacked / n).reshape(count, d, count, d).transpose(0, 2, 1, 3))
        if self.full is not None:
            full, information = self.which[self.full], self.information[self.full]
            turned = np.linalg.pinv(information, hermitian=True) @ self.squared
            with_full = K[full].copy()  # K_Fq
            rest = (with_full[full] + information) @ turned - with_full
            for p in range(count):
                for q in range(p + 1):  # K_qp is the transpose
                    K[p, q] += turned[p].T @ rest[q] - with_full[p].T @ turned[q]
                    K[q, p] = K[p, q].T
        # Only the symmetric part of K_fg enters a mixture.
        K = ((K + K.transpose(0, 1, 3, 2)) / 2)[np.ix_(self.which, self.which)]
        J = self.breads[self.which]
        N, O = np.zeros_like(J), np.zeros_like(J)  # noqa: E741
        for f, noise in enumerate(self.noises):
            if f in self.drawn:
                (N if noise is Noise.EACH else O)[f] = self.drawn[f]
            elif noise is Noise.TOGETHER:
                N[f] = K[f, f]
            else:
                N[f] = self.scales[f] * self.information[f]
        return MixtureMoments(self.names, J, K, N, O)


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
    problems = {id(term.problem): term.problem for term in terms}
    place = {key: k for k, key in enumerate(problems)}
    which = np.array([place[id(term.problem)] for term in terms])
    n = terms[0].problem.n_samples
    parts, shares = _shared_parts(list(problems.values()))
    squared = breads = _added(shares, [_bread(part, theta, basis, weight) / n for part in parts])
    if weight is not None:
        squared = _added(shares, [_bread(part, theta, basis, weight**2) / n for part in parts])
    with stepped("moments of the families", parts) as counted:
        scores = _added(shares, [_scores(part, theta, basis, weight) for part in counted])
    drawn = {}
    for f, term in enumerate(terms):
        free = term.noise is Noise.EACH
        if term.noise is Noise.TOGETHER or (free and inside):
            continue
        mean = scores[which[f]] * (0.5 if free else 1.0)
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
    return SampledMoments(names, noises, tuple(term.scale for term in terms), which, breads, squared, scores, drawn)


def _shared_parts(problems: Sequence[MomentPart]) -> tuple[list[MomentPart], FloatArray]:
    """The different parts of the problems, and with which weights (problems, parts) these are sums of them."""
    terms: list[Sequence[tuple[float, MomentPart]]] = []
    for problem in problems:
        shared = problem.shared_parts() if isinstance(problem, SumProblem) else None
        terms.append(shared or [(1.0, problem)])
    parts = {id(part): part for pairs in terms for _, part in pairs}
    place = {key: k for k, key in enumerate(parts)}
    shares = np.zeros((len(problems), len(parts)))
    for line, pairs in enumerate(terms):
        for share, part in pairs:
            shares[line, place[id(part)]] += share
    return list(parts.values()), shares


def _added(shares: FloatArray, parts: Sequence[FloatArray]) -> FloatArray:
    """What the problems have (problems, ...), from what their parts have."""
    stacked = np.stack(parts)
    if np.array_equal(shares, np.eye(len(shares))):
        return stacked
    return np.tensordot(shares, stacked, 1)


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
