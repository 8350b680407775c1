"""Moment conditions of any components: their scores log p(x_A | x_B), parameter by parameter and factor by factor.

A parameter that several factors share is untied first: the score of a component then has an entry for each factor that it
touches, and the best weights may differ between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.models.field_compiler import FieldArrays
from fieldfit.models.field_problem import FieldProblem
from fieldfit.policies.families import Components
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import Component
from fieldfit.refinement.conditions import Conditions, Sums, scaled
from fieldfit.types import FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Numbers in a block of scores, conditions or statistics: 16 MB.
BLOCK_NUMBERS = 2_000_000


class ScoreConditions(Conditions):
    """The scores of ``components``. Attributes as in `NodeConditions`; all conditions have the distance 1."""

    def __init__(self, model: FieldModel, components: Sequence[Component]) -> None:
        self.model = model
        self.components = tuple(components)
        arrays, ties, factor_of = _untied(model)
        self._arrays, self._ties = arrays, ties
        structure = model.structure()
        self._parts = tuple(
            FamilySelection(structure.bind_family(Components(((c.target, c.given),))), 1.0) for c in self.components
        )
        component, feature = [], []
        scopes = model.graph.scopes
        for place, (target, given) in enumerate(self.components):
            touched = _reached(structure.neighbours, target, frozenset(given))
            near = np.array([any(v in touched for v in scope) for scope in scopes])
            near_features = np.flatnonzero(near[factor_of])
            component += [place] * len(near_features)
            feature += near_features.tolist()
        self.component = np.array(component, dtype=np.int64)
        self._feature = np.array(feature, dtype=np.int64)
        self.distance = np.ones(len(component), dtype=np.int64)
        self.score_coefficients = ties[:, self._feature].tocsr()

    def rows_per_block(self) -> int:
        """Samples in a block."""
        return max(16, BLOCK_NUMBERS // max(1, len(self.components) * self._ties.shape[1]))

    def _problem(self, codes: Int32Array, parts: Sequence[FamilySelection]) -> FieldProblem:
        return FieldProblem(self._arrays, np.ascontiguousarray(codes), Selection(len(codes), tuple(parts)))

    def value_blocks(
        self, codes: Int32Array, theta: FloatArray, *, single: bool = False
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Stream g as (samples, block (k, p))."""
        del single
        problem, untied = self._problem(codes, self._parts), self._ties.T @ theta
        for samples in self.row_blocks(len(codes)):
            scores = problem.family_scores(untied, samples.start, samples.stop)
            yield samples, scores[:, self.component, self._feature]

    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i Z_ic g_i (p,)."""
        compiled = list(self._by_component(codes, weight, mask))

        def sums(theta: FloatArray) -> FloatArray:
            untied = self._ties.T @ theta
            total = np.zeros(self.size)
            for conditions, problem, scale in compiled:
                total[conditions] = problem.value_grad(untied, scale)[1][self._feature[conditions]]
            return total

        return sums

    def derivative(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None = None, mask: FloatArray | None = None
    ) -> FloatArray:
        """Σ_i w_i Z_ic ∂g_i/∂θ (p, n_parameters)."""
        untied = self._ties.T @ theta
        total = np.zeros((self.size, self.n_parameters))
        for conditions, problem, scale in self._by_component(codes, weight, mask):
            total[conditions] = (self._ties @ problem.hessian_matrix(untied, scale)[:, self._feature[conditions]]).T
        return total

    def _by_component(
        self, codes: Int32Array, weight: FloatArray | None, mask: FloatArray | None
    ) -> Iterator[tuple[slice, FieldProblem, FloatArray | None]]:
        ends = np.searchsorted(self.component, np.arange(len(self.components) + 1))
        whole = self._problem(codes, self._parts) if len(self.components) == 1 else None
        for place, part in enumerate(self._parts):
            conditions = slice(int(ends[place]), int(ends[place + 1]))
            yield conditions, whole or self._problem(codes, [part]), scaled(weight, mask, place)


class StackedConditions(Conditions):
    """Conditions of several kinds together; the components of later ones come after those of earlier ones."""

    def __init__(self, parts: Sequence[Conditions], n_components: Sequence[int]) -> None:
        from scipy.sparse import hstack

        self.parts = tuple(parts)
        self.model = parts[0].model
        self._first = np.concatenate(([0], np.cumsum(n_components))).astype(np.int64)
        shifted = [part.component + start for part, start in zip(parts, self._first[:-1], strict=True)]
        self.component = np.concatenate(shifted)
        self.distance = np.concatenate([part.distance for part in parts])
        # Only the first part's scores are those of the first stage.
        coefficients = [parts[0].score_coefficients] + [part.score_coefficients * 0.0 for part in parts[1:]]
        self.score_coefficients = hstack(coefficients, format="csr")

    def rows_per_block(self) -> int:
        """Samples in a block."""
        return min(part.rows_per_block() for part in self.parts)

    def value_blocks(
        self, codes: Int32Array, theta: FloatArray, *, single: bool = False
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Stream g as (samples, block (k, p))."""
        for samples in self.row_blocks(len(codes)):
            part_blocks = [
                np.concatenate([block for _, block in part.value_blocks(codes[samples], theta, single=single)])
                for part in self.parts
            ]
            yield samples, np.concatenate(part_blocks, axis=1)

    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i Z_ic g_i (p,)."""
        parts = [part.summed(codes, weight, self._mask(mask, k)) for k, part in enumerate(self.parts)]
        return lambda theta: np.concatenate([sums(theta) for sums in parts])

    def derivative(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None = None, mask: FloatArray | None = None
    ) -> FloatArray:
        """Σ_i w_i Z_ic ∂g_i/∂θ (p, n_parameters)."""
        return np.concatenate(
            [part.derivative(codes, theta, weight, self._mask(mask, k)) for k, part in enumerate(self.parts)]
        )

    def _mask(self, mask: FloatArray | None, place: int) -> FloatArray | None:
        return None if mask is None else mask[:, self._first[place] : self._first[place + 1]]


def _reached(neighbours: Sequence[Sequence[int]], target: Sequence[int], given: frozenset[int]) -> set[int]:
    """The variables that a path without ``given`` joins to ``target``."""
    reached, frontier = set(target), list(target)
    while frontier:
        for other in neighbours[frontier.pop()]:
            if other not in reached and other not in given:
                reached.add(other)
                frontier.append(other)
    return reached


def _untied(model: FieldModel) -> tuple[FieldArrays, csr_array, IntArray]:
    """The field with a parameter of its own for each factor, the ties (n_parameters, untied) and each one's factor."""
    from scipy.sparse import coo_array

    graph, features = model.graph, model.features.tocoo()
    factor = np.searchsorted(graph.offsets, features.row, side="right") - 1
    key = factor.astype(np.int64) * model.n_parameters + features.col
    distinct, number = np.unique(key, return_inverse=True)
    untied = coo_array((features.data, (features.row, number)), shape=(graph.table_size, len(distinct))).tocsr()
    parameter = distinct % model.n_parameters
    shape = (model.n_parameters, len(distinct))
    ties = coo_array((np.ones(len(distinct)), (parameter, np.arange(len(distinct)))), shape=shape).tocsr()
    return replace(model.field_arrays, features=untied), ties, (distinct // model.n_parameters).astype(np.int64)
