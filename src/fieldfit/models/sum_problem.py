"""The same samples through several problems, added up: m_θ(X_i, Z_i) = Σ_p w_p m^(p)_θ(X_i, Z_i)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fieldfit.models.located import LocatedScores
from fieldfit.models.problem import Problem
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import FloatArray

#: The weight of a part: one number, or one for each sample (n,).
PartWeight = float | FloatArray


class SumProblem(Problem):
    """A sum of parts: each part has some of a policy's families, or counts as one family.

    With ``families`` the places in the policy of the families of each part are given, and the parts have their own weights.
    With ``weights`` each part is one family, of that weight; a part of weight 0 is not evaluated. Where those parts are
    sums of the families of one problem, ``whole`` is that problem and ``shares`` (parts, its families) says with which
    weights: then scores come from one pass over it.
    """

    def __init__(
        self,
        parts: Sequence[Problem],
        families: Sequence[Sequence[int]] | None = None,
        *,
        weights: Sequence[PartWeight] | FloatArray | None = None,
        whole: Problem | None = None,
        shares: FloatArray | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self.families = None if families is None else tuple(map(tuple, families))
        self.whole, self.shares = whole, shares
        self.weights: tuple[PartWeight, ...] = (1.0,) * len(self.parts) if weights is None else tuple(weights)
        self.n_samples = parts[0].n_samples
        self.n_parameters = parts[0].n_parameters
        self.n_families = len(self.parts) if self.families is None else sum(map(len, self.families))
        pairs = zip(self.weights, self.parts, strict=True)
        #: What sums need: the parts with a weight other than 0.
        self.used = tuple((w, p) for w, p in pairs if np.any(w) and (families is None or p.betas.any()))
        self.used = self.used or ((self.weights[0], self.parts[0]),)
        self.value_noise = max(part.value_noise for _, part in self.used)

    def with_betas(self, betas: FloatArray) -> SumProblem | None:
        """The parts with the new weights."""
        if self.families is None:
            weights = [
                weight * beta if isinstance(weight, np.ndarray) else float(beta)
                for weight, beta in zip(self.weights, betas, strict=True)
            ]
            return SumProblem(self.parts, weights=weights, whole=self.whole, shares=self.shares)
        parts = []
        for part, places in zip(self.parts, self.families, strict=True):
            other = part.with_betas(betas[list(places)])
            if other is None:
                return None
            parts.append(other)
        return SumProblem(parts, self.families)

    @property
    def betas(self) -> FloatArray:
        """The weight of each family; 1 if each sample has a weight."""
        if self.families is None:
            return np.array([1.0 if isinstance(weight, np.ndarray) else weight for weight in self.weights])
        result = np.empty(self.n_families)
        for part, places in zip(self.parts, self.families, strict=True):
            result[list(places)] = part.betas
        return result

    def shared_parts(self) -> list[tuple[float, Problem]] | None:
        """The parts with one weight each, or None if weights differ between samples."""
        numbers = [(weight, part) for weight, part in self.used if not isinstance(weight, np.ndarray)]
        return numbers if len(numbers) == len(self.used) else None

    def _total(
        self, term: Callable[[Problem, FloatArray | None], FloatArray], row_weight: FloatArray | None
    ) -> FloatArray:
        """Σ_p w_p ``term``(part, weights of its samples)."""
        total: FloatArray | None = None
        for weight, part in self.used:
            if isinstance(weight, np.ndarray):
                more = term(part, weight if row_weight is None else weight * row_weight)
            else:
                more = term(part, row_weight)
                more = more if weight == 1.0 else weight * more
            total = more if total is None else total + more
        assert total is not None
        return total

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Sum of the parts' values and gradients."""

        def both(part: Problem, weight: FloatArray | None) -> FloatArray:
            value, gradient = part.value_grad(theta, weight)
            return np.append(gradient, value)

        total = self._total(both, row_weight)
        return float(total[-1]), total[:-1]

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Sum of the parts' Hessian products."""
        return self._total(lambda part, weight: part.hessian_product(theta, v, weight), row_weight)

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Sum of the parts' matrices."""
        return self._total(lambda part, weight: part.hessian_matrix(theta, weight), row_weight)

    @property
    def hessian_evaluations(self) -> float:
        """The largest of all parts: an evaluation of the sum evaluates all of them."""
        return max(part.hessian_evaluations for _, part in self.used)

    def row_values(self, theta: FloatArray) -> FloatArray:
        """Sum of the parts' values for each sample."""
        return np.asarray(sum(weight * part.row_values(theta) for weight, part in self.used))

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """Sum of the parts' products for each sample."""
        return np.asarray(sum(weight * part.row_products(theta, v) for weight, part in self.used))

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """The parts' scores, each family at its place."""
        if self.whole is not None and self.shares is not None:
            return _grouped(self.whole.family_scores(theta, start, stop), self.shares)
        result = np.empty((stop - start, self.n_families, self.n_parameters))
        if self.families is None:
            for place, (weight, part) in enumerate(zip(self.weights, self.parts, strict=True)):
                scores = part.scores(theta, start, stop)
                result[:, place] = scores * weight[start:stop, None] if isinstance(weight, np.ndarray) else scores
            return result
        for part, places in zip(self.parts, self.families, strict=True):
            result[:, places] = part.family_scores(theta, start, stop)
        return result

    def family_score_blocks(
        self, theta: FloatArray, row_weight: FloatArray | None = None
    ) -> Iterator[tuple[FloatArray | None, FloatArray]]:
        """The same as a stream, in the blocks of the whole problem if there is one."""
        if self.whole is None or self.shares is None:
            yield from super().family_score_blocks(theta, row_weight)
            return
        for weight, block in self.whole.family_score_blocks(theta, row_weight):
            yield weight, _grouped(block, self.shares)

    def family_statistics(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i^(g) ∘ ψ_i^(h), from the whole problem if there is one."""
        if self.whole is None or self.shares is None:
            return super().family_statistics(theta, row_weight)
        families = self.whole.family_statistics(theta, row_weight)
        result: FloatArray = np.einsum("gf,fer,he->ghr", self.shares, families, self.shares, optimize=True)
        return result

    def located_scores(self, theta: FloatArray) -> LocatedScores | None:
        """The terms of all parts, if every part has them."""
        weighted_parts = []
        for weight, part in self.used:
            located = part.located_scores(theta)
            if located is None:
                return None
            each = weight[located.samples, None] if isinstance(weight, np.ndarray) else weight
            weighted_parts.append(replace(located, terms=located.terms * each))
        return LocatedScores.join(weighted_parts)

    @property
    def exact_diagonal(self) -> bool:
        """Whether it is exact for every part."""
        return all(part.exact_diagonal for _, part in self.used)

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """Sum of the parts' diagonals, if every part has one."""
        return self._diagonals(lambda part, weight: part.hessian_diagonal(theta, weight), row_weight)

    def information_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """Sum of the parts' diagonals, if every part has one."""
        return self._diagonals(lambda part, weight: part.information_diagonal(theta, weight), row_weight)

    def _diagonals(
        self, diagonal: Callable[[Problem, FloatArray | None], FloatArray | None], row_weight: FloatArray | None
    ) -> FloatArray | None:
        known = True

        def or_nothing(part: Problem, weight: FloatArray | None) -> FloatArray:
            nonlocal known
            part_diagonal = diagonal(part, weight) if known else None
            known = part_diagonal is not None
            return np.zeros(self.n_parameters) if part_diagonal is None else part_diagonal

        total = self._total(or_nothing, row_weight)
        return total if known else None


def _grouped(block: FloatArray, shares: FloatArray) -> FloatArray:
    """Scores of groups from those of families."""
    if np.array_equal(shares, np.eye(len(shares))):
        return block
    result: FloatArray = np.einsum("ifr,gf->igr", block, shares)
    return result


#: Compiles a selection.
Compile = Callable[[Selection], Problem]


def compile_by(
    kernels: Sequence[tuple[Callable[[FamilySelection], bool], Compile]], rest: Compile, selection: Selection
) -> Problem:
    """Each family of a selection through the first of the (takes, compile) that takes it, or through ``rest``."""
    places: list[list[int]] = [[] for _ in range(len(kernels) + 1)]
    for place, part in enumerate(selection.parts):
        places[next((k for k, (takes, _) in enumerate(kernels) if takes(part)), -1)].append(place)
    problems = [
        compiled(Selection(selection.n, tuple(selection.parts[place] for place in taken), selection.start))
        for compiled, taken in zip([*(compiled for _, compiled in kernels), rest], places, strict=True)
        if taken
    ]
    return problems[0] if len(problems) == 1 else SumProblem(problems, [taken for taken in places if taken])
