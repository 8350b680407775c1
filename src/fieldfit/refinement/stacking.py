"""The moment conditions of a first stage: scores log p(x_A | x_B) of its components, and instruments within a distance.

A parameter that several factors share is untied first: the score of a component then has an entry for each factor that it
touches, and the best weights may differ between them. `StatisticConditions` are the sufficient statistics in the place of
conditions: f(x) − E_θ f is the score of the full likelihood, so its mean and its meat over the data are those of f,
wherever the samples are held (`estimating`, `sharded_conditions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.models.field_compiler import FieldArrays
from fieldfit.models.field_problem import FieldProblem
from fieldfit.policies.families import Components
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import Component
from fieldfit.refinement.conditions import Blocks, Conditions, NodeConditions, Sums, scaled
from fieldfit.types import FloatArray, Int32Array, IntArray, PolicyError

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
        self.block_rows = max(16, BLOCK_NUMBERS // max(1, len(self.components) * ties.shape[1]))

    def _problem(self, codes: Int32Array, parts: Sequence[FamilySelection]) -> FieldProblem:
        return FieldProblem(self._arrays, np.ascontiguousarray(codes), Selection(len(codes), tuple(parts)))

    def value_blocks(self, codes: Int32Array, theta: FloatArray, *, single: bool = False) -> Blocks:
        """Stream g as (samples, block (k, p))."""
        del single
        problem, untied = self._problem(codes, self._parts), self._ties.T @ theta
        for samples in self.row_blocks(len(codes)):
            scores = problem.family_scores(untied, samples.start, samples.stop)
            yield samples, scores[:, self.component, self._feature]

    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i Z_ic g_i (p,)."""
        return partial(self._sums, list(self._by_component(codes, weight, mask)))

    def _sums(
        self, compiled: Sequence[tuple[slice, FieldProblem, FloatArray | None]], theta: FloatArray
    ) -> FloatArray:
        untied = self._ties.T @ theta
        total = np.zeros(self.size)
        for conditions, problem, scale in compiled:
            total[conditions] = problem.value_grad(untied, scale)[1][self._feature[conditions]]
        return total

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
        self.block_rows = min(part.block_rows for part in parts)

    def value_blocks(self, codes: Int32Array, theta: FloatArray, *, single: bool = False) -> Blocks:
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
        return partial(_joined, parts)

    def derivative(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None = None, mask: FloatArray | None = None
    ) -> FloatArray:
        """Σ_i w_i Z_ic ∂g_i/∂θ (p, n_parameters)."""
        return np.concatenate(
            [part.derivative(codes, theta, weight, self._mask(mask, k)) for k, part in enumerate(self.parts)]
        )

    def _mask(self, mask: FloatArray | None, place: int) -> FloatArray | None:
        return None if mask is None else mask[:, self._first[place] : self._first[place + 1]]


def _joined(parts: Sequence[Sums], theta: FloatArray) -> FloatArray:
    return np.concatenate([sums(theta) for sums in parts])


def _constant(total: FloatArray, theta: FloatArray) -> FloatArray:
    del theta
    return total


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


class StatisticConditions(Conditions):
    """One condition for each parameter: its sufficient statistic. All belong to one component, the full likelihood."""

    def __init__(self, model: FieldModel) -> None:
        from scipy.sparse import eye_array

        self.model = model
        self.component = np.zeros(model.n_parameters, dtype=np.int64)
        self.distance = np.ones(model.n_parameters, dtype=np.int64)
        self.score_coefficients = eye_array(model.n_parameters, format="csr")
        self.block_rows = max(1, BLOCK_NUMBERS // max(1, self.size))

    def value_blocks(self, codes: Int32Array, theta: FloatArray, *, single: bool = False) -> Blocks:
        """Stream f as (samples, block (k, r))."""
        del theta, single
        for samples in self.row_blocks(len(codes)):
            yield samples, self.model.statistics(codes[samples])

    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i f_i (r,)."""
        del mask
        total = np.zeros(self.size)
        for samples, block in self.value_blocks(codes, total):
            total += block.sum(axis=0) if weight is None else weight[samples] @ block
        return partial(_constant, total)

    def derivative(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None = None, mask: FloatArray | None = None
    ) -> FloatArray:
        """0 (r, r): statistics do not depend on θ."""
        del codes, theta, weight, mask
        return np.zeros((self.size, self.size))


#: Z (n, components) of a drawn selection.
Masking = Callable[[Selection], FloatArray]
#: Components up to which their scores are stacked.
_MOST_COMPONENTS = 2_000


@dataclass(frozen=True)
class Stack:
    """Conditions with the law of the selection of their components.

    ``mean`` (components,) is λ and ``second`` (components, components) E[ZZᵀ]; both None where everything is selected.
    ``first`` (n_parameters, p) is Λ: the first stage's score is Λg. ``extra`` components at the end are instruments that
    use all samples.
    """

    conditions: Conditions
    first: FloatArray
    mean: FloatArray | None
    second: FloatArray | None
    extra: int

    @property
    def masking(self) -> Masking | None:
        """The function that makes Z of a drawn selection, None where everything is selected; it can travel alone."""
        return None if self.mean is None else partial(selected_components, extra=self.extra)

    def mask(self, selection: Selection) -> FloatArray | None:
        """Z (n, components), None where everything is selected."""
        masking = self.masking
        return None if masking is None else masking(selection)


def selected_components(selection: Selection, extra: int) -> FloatArray:
    """Z (n, components) of a drawn selection, with ``extra`` columns of ones at the end."""
    columns = []
    for part in selection.parts:
        size = part.family.size
        assert size is not None
        selected = np.zeros((selection.n, size))
        if part.indices is not None and part.indptr is not None:
            selected[np.repeat(np.arange(selection.n), np.diff(part.indptr)), part.indices] = 1.0
        else:
            selected[...] = 1.0 if part.rows is None else part.rows[:, None]
        columns.append(selected)
    if extra:
        columns.append(np.ones((selection.n, extra)))
    return np.concatenate(columns, axis=1)


def only_nodes(bound: BoundPolicy) -> bool:
    """Whether every component is one variable given all others."""
    families = _field_families(bound)
    return len(families) == len(bound.families) and all(f.block_size == 1 and f.conditions_on_rest for f in families)


def _field_families(bound: BoundPolicy) -> list[FieldFamily]:
    return [family for family in bound.families if isinstance(family, FieldFamily)]


def stack(model: FieldModel, bound: BoundPolicy, distance: int) -> Stack:
    """The conditions of a policy's components and of instruments up to this graph distance."""
    beta = bound.beta()
    if len(beta) > _MOST_COMPONENTS and not only_nodes(bound):
        raise PolicyError(
            f"'{bound.policy}' has {len(beta):,} components; the scores of at most {_MOST_COMPONENTS:,} can be combined "
            f"with matrix weights. Use a policy of single variables (PL1) or fewer components before '>> optimal'."
        )
    conditions: Conditions
    extra = 0
    if only_nodes(bound):
        members = [family.blocks(np.arange(family.size))[1] for family in _field_families(bound)]
        nodes = np.concatenate(members)
        conditions = NodeConditions(model, nodes, distance)
    else:
        components = [family.component(k) for family in bound.families for k in range(family.size or 0)]
        conditions = ScoreConditions(model, components)
        if distance > 1:
            free = model.structure().free
            conditions = StackedConditions(
                [conditions, NodeConditions(model, free, distance)], [len(components), len(free)]
            )
            extra = len(free)
    weight = np.concatenate([beta, np.zeros(extra)])[conditions.component]
    first: FloatArray = conditions.score_coefficients.toarray() * weight
    if bound.everything:
        return Stack(conditions, first, None, None, extra)
    mean = np.concatenate([bound.mean(), np.ones(extra)])
    second = np.outer(mean, mean)
    k = len(beta)
    second[:k, :k] = bound.second_moment()
    return Stack(conditions, first, mean, second, extra)
