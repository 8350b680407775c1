"""Moments of mixtures as means over samples, in all coordinates of θ or on a few directions.

Terms with the same mean over Z (PL1, PL1/row) share one compiled problem, and all that comes from it is computed once.
So is what comes from the parts of sums: Partition(3) of 19 variables is in the mean a sum of PL3 and PL1.

Many samples of a model at θ are cheap, Hessians of PL3 on them are not. Those of all families vary with the samples nearly
in proportion (correlations above 0.99 for PL1, PL2 and PL3 of 19 variables), so that expensive ones are means over a few
samples, with a cheap one, the `Control`, as control variate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from fieldfit.asymptotics.meat import ScoreStream
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.models.problem import Problem
from fieldfit.models.sum_problem import SumProblem
from fieldfit.policies.laws.base import Noise
from fieldfit.properties import cached_property
from fieldfit.steps import stepped
from fieldfit.types import FloatArray

#: Draws of Z from which noise is estimated; one with as many samples as this.
_NOISE_DRAWS, _MANY_SAMPLES = 2, 2_000


class MomentPart(ScoreStream, Protocol):
    """Scores of samples and the derivative of their sum: a compiled problem, or other estimating functions."""

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The derivative of the sum of scores (r, r)."""

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The same times a vector."""


class SampledTerm(NamedTuple):
    """A term whose moments are taken over samples.

    ``problem`` has its scores in the mean over Z; terms may share it. ``drawn(seed)`` has those with a drawn Z, of a free λ
    with λ = 1/2; None where nothing is drawn one by one. ``scale`` is the weight of each component: 1, or less where the
    term is an average over them.
    """

    name: str
    noise: Noise
    problem: MomentPart
    drawn: Callable[[int], MomentPart] | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class SampledMoments:
    """Breads (p, d, d) of the parts that terms are sums of, the same with squared weights, and their scores (p, n, d).

    ``second`` (p, p, d, d) are the means of products of these scores.
    ``shares`` (terms, p) are the weights of the parts in each term, and ``drawn`` has N or O (d, d) of the terms whose
    noise comes from draws of Z. ``full`` is the place of FL among the terms where its scores are control variates
    (`controlled`); the scores are then what is left of them.
    ``apart`` (p, d, d) is half of the difference between the breads of two halves of the samples, of the same size as their
    error; None where it is not known. ``counts`` (n,) says how many samples each row of the scores stands for.
    """

    names: tuple[str, ...]
    noises: tuple[Noise, ...]
    scales: tuple[float, ...]
    shares: FloatArray
    breads: FloatArray
    squared: FloatArray
    part_scores: FloatArray
    second: FloatArray
    drawn: Mapping[int, FloatArray]
    full: int | None = None
    apart: FloatArray | None = None
    counts: FloatArray = field(kw_only=True)

    def projected(self, basis: FloatArray) -> SampledMoments:
        """The same of basisᵀ·score, basis (r, d)."""
        breads = basis.T @ self.breads @ basis
        return replace(
            self,
            breads=breads,
            squared=breads if self.squared is self.breads else basis.T @ self.squared @ basis,
            part_scores=self.part_scores @ basis,
            second=_congruent(self.second, basis),
            drawn={place: basis.T @ noise @ basis for place, noise in self.drawn.items()},
            apart=None if self.apart is None else basis.T @ self.apart @ basis,
        )

    @property
    def n(self) -> float:
        """The number of samples."""
        return float(self.counts.sum())

    @property
    def information(self) -> FloatArray:
        """E w² ∇S ∇Sᵀ summed over components (terms, d, d), inside the model: J where nothing is weighted."""
        return np.tensordot(self.shares, self.squared, 1)

    def part(self, term: int) -> int:
        """The place of the part that a term is, where it is one."""
        return int(np.argmax(self.shares[term]))

    def every(self, step: int) -> SampledMoments:
        """The same with the scores of every ``step``-th sample."""
        return replace(
            self,
            part_scores=np.ascontiguousarray(self.part_scores[:, ::step]),
            counts=self.counts[::step],
        )

    def scores(self, weights: FloatArray) -> FloatArray:
        """Σ_f w_f s_f of the samples (·, d), with ``weights`` (terms,)."""
        return np.tensordot(weights @ self.shares, self.part_scores, 1)

    def controlled(self, full: int) -> SampledMoments:
        """With the scores s of FL, the term ``full``, as control variates, for samples drawn from the model itself.

        There E s sᵀ = I and E s s_pᵀ = I_p (with squared weights), so that E ψψᵀ = A I Aᵀ + Var(ψ − As) with A = I_ψ I⁻¹:
        only the second term is taken from the samples. As a form in βλ that is
        K̃_pq = K_pq − K_pF I⁻¹ I_q − I_p I⁻¹ K_Fq + I_p I⁻¹ (K_FF + I) I⁻¹ I_q.
        An error E_p of I_p would add E_p I⁻¹ E_q; half of the difference between two halves of the samples says how much.
        """
        count, K = len(self.breads), self.second.copy()
        place = self.part(full)
        information = self.squared[place]
        inverse = np.linalg.pinv(information, hermitian=True)
        turned = inverse @ self.squared
        with_full = K[place].copy()  # K_Fq
        rest = (with_full[place] + information) @ turned - with_full
        error = None if self.apart is None else inverse @ self.apart
        for p in range(count):
            for q in range(p + 1):  # K_qp is the transpose
                K[p, q] += turned[p].T @ rest[q] - with_full[p].T @ turned[q]
                if self.apart is not None and error is not None:
                    K[p, q] -= self.apart[p].T @ error[q]
                K[q, p] = K[p, q].T
        residuals = self.part_scores - self.part_scores[place] @ turned
        return replace(self, second=K, part_scores=residuals, full=full)

    @cached_property
    def moments(self) -> MixtureMoments:
        """The moments of the terms."""
        # Only the symmetric part of K_fg enters a mixture.
        half = np.tensordot(self.shares, (self.second + self.second.transpose(0, 1, 3, 2)) / 2, 1)
        K = np.stack([np.tensordot(self.shares, block, 1) for block in half])
        J, information = np.tensordot(self.shares, self.breads, 1), self.information
        N, O = np.zeros_like(J), np.zeros_like(J)  # noqa: E741
        for f, noise in enumerate(self.noises):
            if f in self.drawn:
                (N if noise is Noise.EACH else O)[f] = self.drawn[f]
            elif noise is Noise.TOGETHER:
                N[f] = K[f, f]
            else:
                N[f] = self.scales[f] * information[f]
        return MixtureMoments(self.names, J, K, N, O)


def sampled_moments(
    terms: Sequence[SampledTerm],
    theta: FloatArray,
    *,
    weight: FloatArray | None = None,
    basis: FloatArray | None = None,
    random_state: int = 0,
    inside: bool = True,
    control: Control | None = None,
) -> SampledMoments:
    """Moments as means over samples, in all coordinates or on a basis (r, d).

    With importance ``weight`` (n,) of mean 1 the bread has w, the meat and the selection noise have w². ``inside`` says
    that the samples follow the model, so that N of components drawn one by one is their information; otherwise it is
    estimated from draws, as the noise of laws without a free λ always is. ``control``: the Hessians are means over fewer
    samples.
    """
    problems = {id(term.problem): term.problem for term in terms}
    place = {key: k for k, key in enumerate(problems)}
    n = terms[0].problem.n_samples
    parts, shares = _shared_parts(list(problems.values()))
    shares = shares[[place[id(term.problem)] for term in terms]]
    apart = None
    if control is None:
        squared = breads = np.stack([_bread(part, theta, basis, weight) / n for part in parts])
        if weight is not None:
            squared = np.stack([_bread(part, theta, basis, weight**2) / n for part in parts])
    else:
        halves = np.stack(control.breads(parts, theta, weight))
        breads = squared = halves.mean(axis=1)
        if weight is not None:
            halves = np.stack(control.breads(parts, theta, weight**2))
            squared = halves.mean(axis=1)
        apart = (halves[:, 0] - halves[:, 1]) / 2
    equal = None if control is None or weight is not None else control.part.equal_samples
    rows, number = (np.arange(n), np.arange(n)) if equal is None else equal
    with stepped("moments of the families", parts) as counted:
        scores = np.stack([_scores(part, theta, basis, weight)[rows] for part in counted])
    drawn = {}
    for f, term in enumerate(terms):
        free = term.noise is Noise.EACH
        if term.drawn is None or term.noise is Noise.TOGETHER or (free and inside):
            continue
        mean = np.tensordot(shares[f], scores, 1)[number] * (0.5 if free else 1.0)
        noise = np.zeros_like(breads[0])
        draws = 1 if n >= _MANY_SAMPLES else _NOISE_DRAWS
        for draw in range(draws):
            seed = int(np.random.SeedSequence([random_state, 0x9A, f, draw]).generate_state(1)[0])
            away = _scores(term.drawn(seed), theta, basis, weight) - mean
            # At λ = 1/2 the noise is N/4.
            noise += (4.0 if free else 1.0) * away.T @ away / n / draws
        drawn[f] = noise
    if not inside:
        # Each term has an optimum of its own, where its scores have mean 0.
        scores = scores - scores.mean(axis=1, keepdims=True)
    counts = np.bincount(number).astype(np.float64)
    names, noises = tuple(term.name for term in terms), tuple(term.noise for term in terms)
    scales = tuple(term.scale for term in terms)
    second = _second_moments(scores, counts)
    return SampledMoments(
        names, noises, scales, shares, breads, squared, scores, second, drawn, apart=apart, counts=counts
    )


def _congruent(blocks: FloatArray, basis: FloatArray) -> FloatArray:
    """basisᵀ B_pq basis of blocks (p, p, r, r) with B_qp = B_pqᵀ."""
    count, d = len(blocks), basis.shape[1]
    result = np.empty((count, count, d, d))
    for p in range(count):
        for q in range(p + 1):
            result[p, q] = basis.T @ blocks[p, q] @ basis
            result[q, p] = result[p, q].T
    return result


def _second_moments(scores: FloatArray, counts: FloatArray) -> FloatArray:
    """E s_p s_qᵀ (p, p, d, d) of scores (p, n, d) that occur ``counts`` times."""
    count, rows, d = scores.shape
    stacked = (scores * np.sqrt(counts / counts.sum())[:, None]).transpose(1, 0, 2).reshape(rows, count * d)
    return np.ascontiguousarray((stacked.T @ stacked).reshape(count, d, count, d).transpose(0, 2, 1, 3))


@dataclass(frozen=True)
class Control:
    """Hessians as means over ``few`` of the samples, and over all of them for ``part``, whose Hessian is cheap.

    With H_p of the few and H_0 the Hessian of ``part``, bread p is H_p + c (H̃_0 − H_0), where H̃_0 is the mean over all
    samples. The coefficient c comes from the difference between two halves of the few. ``full`` is the problem whose
    Hessian is the same for all samples, if there is one.
    """

    part: Problem
    few: int
    full: Problem | None = None

    def breads(self, parts: Sequence[MomentPart], theta: FloatArray, weight: FloatArray | None) -> list[FloatArray]:
        """The bread of each part from both halves of the samples (2, r, r), with one sum of weights."""
        n = self.part.n_samples
        weight = np.ones(n) if weight is None else weight
        total = float(weight.mean())
        all_rows, few_rows = (
            [np.where((np.arange(n) < size) & (np.arange(n) % 2 == odd), weight, 0.0) for odd in (0, 1)]
            for size in (n, self.few)
        )

        def mean(part: MomentPart, halves: Sequence[FloatArray]) -> FloatArray:
            return np.stack([-part.hessian_matrix(theta, half) * (total / half.sum()) for half in halves])

        best = mean(self.part, all_rows)
        first = mean(self.part, few_rows)
        scale = 1.0 / np.maximum(np.diagonal(best.mean(axis=0)), 1e-300)
        metric = np.sqrt(np.multiply.outer(scale, scale))
        known = (first[0] - first[1]) * metric
        size, breads = max(float(np.sum(known * known)), 1e-300), []
        for part in parts:
            bread = best
            if part is self.full:
                bread = np.broadcast_to(-part.hessian_matrix(theta, weight) / n, best.shape)
            elif part is not self.part:
                bread = mean(part, few_rows)
                share = float(np.sum((bread[0] - bread[1]) * metric * known)) / size
                bread = bread + share * (best - first)
            breads.append(bread)
        return breads


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
