"""Moment conditions of single variables: a residual given all other variables, times a function of those.

    g_k(x; θ) = (φ(x_j) − E_θ[φ(x_j) | x_−j]) · h(x_−j)

has mean 0 at the true θ for every function h, the *instrument*. The scores of PL1's components are sums of such conditions
with functions of the neighbours of j; variables at a larger graph distance are further instruments.

With C_j the conditional covariance of the functions of x_j and c the coefficients of the scores (`expand_scores`),

    ∂g_k/∂θ_l = −Σ_b C_j(φ, φ_b) · h · Σ_S c_{l,j,b,S} h_S

so a block of sums Σ_i C_j h hᵀ for each variable gives all derivatives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.models.problem import Problem, ResidualProducts
from fieldfit.policies.structure import FieldStructure
from fieldfit.properties import cached_property
from fieldfit.refinement.instruments import Conditionals, Function, expand_scores
from fieldfit.types import FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Numbers in a block of conditions, and of residuals and instruments.
_CONDITION_NUMBERS, _EVALUATED_NUMBERS = 1_000_000, 2_000_000
#: A stream of (samples, block (k, p)).
Blocks = Iterator[tuple[slice, FloatArray]]
#: θ ↦ the sums of conditions (p,) over samples.
Sums = Callable[[FloatArray], FloatArray]
#: Pairs of instruments are summed for all components at once where their blocks have this many times as many entries; and
#: the samples in a block then.
_PAIRS_WORTH, _PAIR_ROWS = 4, 512
#: Entries up to which all products of a residual with an instrument are summed at once.
_MOST_SUMMED_PRODUCTS = 4_000_000


def balls(structure: FieldStructure, node: int, distance: int) -> dict[int, int]:
    """The modelled and observed variables within this graph distance of ``node``, each with its distance, without it."""
    distance_of, frontier = {node: 0}, [node]
    for step in range(1, distance + 1):
        reached = {w for v in frontier for w in structure.neighbours[v] if w not in distance_of}
        frontier = sorted(reached)
        distance_of |= dict.fromkeys(frontier, step)
    del distance_of[node]
    return distance_of


class Conditions(ABC):
    """What weights and solvers need of moment conditions.

    Attributes
    ----------
    model : the model whose parameters they determine
    component : (p,) the component of each condition
    distance : (p,) the graph distance from which the condition is there
    score_coefficients : (n_parameters, p) the coefficients with which the conditions add up to the components' scores
    block_rows : samples in a block
    """

    model: FieldModel
    component: IntArray
    distance: IntArray
    score_coefficients: csr_array
    block_rows: int

    @property
    def size(self) -> int:
        """The number p of conditions."""
        return len(self.component)

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""
        return self.model.n_parameters

    @abstractmethod
    def value_blocks(self, codes: Int32Array, theta: FloatArray, *, single: bool = False) -> Blocks:
        """Stream g as (samples, block (k, p)); ``single``: in single precision where that is faster."""

    @abstractmethod
    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i Z_ic g_i (p,). ``mask`` (n, components) holds Z, None is all ones."""

    @abstractmethod
    def derivative(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None = None, mask: FloatArray | None = None
    ) -> FloatArray:
        """Σ_i w_i Z_ic ∂g_i/∂θ (p, n_parameters)."""

    def row_blocks(self, n: int) -> Iterator[slice]:
        """The samples 0..n in blocks."""
        for start in range(0, n, self.block_rows):
            yield slice(start, min(start + self.block_rows, n))


def scaled(weight: FloatArray | None, mask: FloatArray | None, place: int | slice) -> FloatArray | None:
    """w_i Z_ic of a component (n,), or of several (n, components); None where all are 1."""
    if mask is None:
        return weight
    chosen = np.asarray(mask[:, place], dtype=np.float64)
    return chosen if weight is None else (chosen.T * weight).T


@dataclass(frozen=True)
class Evaluated:
    """Residuals (n, a), instruments (n, h) and conditional covariances of one block of samples.

    ``covariances`` are (n, b, b) by node; where each node has one function, ``high`` (n, nodes) is the probability of its
    second state and ``gap`` (nodes,) the difference of the function's values, which give the variances when needed.
    """

    residuals: FloatArray
    instruments: FloatArray
    covariances: tuple[FloatArray, ...] = ()
    high: FloatArray | None = None
    gap: FloatArray | None = None

    @cached_property
    def variances(self) -> FloatArray | None:
        """(n, nodes) where each node has one function, else None."""
        return None if self.high is None or self.gap is None else self.high * (1.0 - self.high) * self.gap**2


class NodeConditions(Conditions):
    """The conditions of the components ``nodes`` (variables, each given all others) up to a graph distance.

    Attributes
    ----------
    nodes : (components,) the variable of each component
    component : (p,) the component of each condition, in increasing order
    residual, instrument : (p,) columns of `Evaluated`
    distance : (p,) the graph distance from which the condition is there; own scores have 1
    score_coefficients : (n_parameters, p) the coefficients L of the components' scores
    """

    def __init__(self, model: FieldModel, nodes: Sequence[int] | IntArray, distance: int = 1) -> None:
        from scipy.sparse import coo_array

        self.model = model
        self.nodes = np.asarray(nodes, dtype=np.int64)
        self.functions = model.state_functions()
        self.conditionals = Conditionals(model, self.nodes)
        expansion = expand_scores(model, self.functions)
        by_node: dict[int, dict[tuple[int, tuple[Function, ...]], tuple[int, int]]] = {}
        for number, (function, product) in enumerate(zip(expansion.functions, expansion.products, strict=True)):
            by_node.setdefault(function[0], {})[(function[1], product)] = (1, number)
        structure = model.structure()
        for node in dict.fromkeys(self.nodes.tolist()):
            node_conditions = by_node.setdefault(node, {})
            if distance > 1:
                around = balls(structure, node, distance)
                for b in range(1, self.functions[node].shape[1] + 1):
                    for other, step in around.items():
                        for k in range(1, self.functions[other].shape[1] + 1):
                            node_conditions.setdefault((b, ((other, k),)), (max(step, 2), -1))
        columns: dict[tuple[Function, ...], int] = {}
        component, residual, instrument, distances, source = [], [], [], [], []
        offsets = np.concatenate(([0], np.cumsum([self.functions[v].shape[1] for v in self.nodes.tolist()])))
        for place, node in enumerate(self.nodes.tolist()):
            for (b, product), (step, number) in sorted(by_node[node].items(), key=lambda item: (item[0][0], item[1])):
                component.append(place)
                residual.append(int(offsets[place]) + b - 1)
                instrument.append(columns.setdefault(product, len(columns)))
                distances.append(step)
                source.append(number)
        self.component = np.array(component, dtype=np.int64)
        self.residual = np.array(residual, dtype=np.int64)
        self.instrument = np.array(instrument, dtype=np.int64)
        self.distance = np.array(distances, dtype=np.int64)
        self.products = tuple(columns)
        self.offsets = offsets.astype(np.int64)
        known = np.flatnonzero(np.array(source, dtype=np.int64) >= 0)
        pick = coo_array(
            (np.ones(len(known)), (np.array(source, dtype=np.int64)[known], known)),
            shape=(len(expansion.functions), len(source)),
        ).tocsr()
        self.score_coefficients = (expansion.coefficients @ pick).tocsr()
        self.block_rows = max(64, _CONDITION_NUMBERS // max(1, self.size))

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The conditions of each component."""
        ends = np.searchsorted(self.component, np.arange(len(self.nodes) + 1))
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    def grows(self, distance: int) -> bool:
        """Whether instruments up to this graph distance add conditions: functions of one variable that are not there."""
        counts = [functions.shape[1] for functions in self.functions]
        alone = np.array([len(product) == 1 for product in self.products])
        there = np.bincount(self.component[alone[self.instrument]], minlength=len(self.nodes))
        structure = self.model.structure()
        return any(
            counts[node] * sum(counts[other] for other in balls(structure, node, distance)) > number
            for node, number in zip(self.nodes.tolist(), there.tolist(), strict=True)
        )

    def alone(self, place: int) -> NodeConditions:
        """The conditions of one component."""
        conditions, node = self.slices[place], self.nodes[[place]]
        columns, instrument = np.unique(self.instrument[conditions], return_inverse=True)
        single = copy(self)
        for cached in ("slices", "_linear_columns", "_unit"):
            single.__dict__.pop(cached, None)
        single.nodes, single.conditionals = node, Conditionals(self.model, node)
        single.component = np.zeros(len(instrument), dtype=np.int64)
        single.residual = self.residual[conditions] - self.offsets[place]
        single.instrument, single.distance = instrument.astype(np.int64), self.distance[conditions]
        single.products = tuple(self.products[column] for column in columns.tolist())
        single.offsets = np.array([0, self.offsets[place + 1] - self.offsets[place]], dtype=np.int64)
        single.score_coefficients = self.score_coefficients[:, conditions].tocsr()
        single.block_rows = max(64, _CONDITION_NUMBERS // max(1, single.size))
        return single

    # --- values -----------------------------------------------------------------------------------------------------

    def evaluate(self, codes: Int32Array, theta: FloatArray) -> Evaluated:
        """Residuals, instruments and conditional covariances of these samples."""
        instruments = self._instruments(codes)
        high = self.conditionals.of_binary(codes, theta)
        if high is not None:
            low = np.array([self.functions[v][0, 0] for v in self.nodes.tolist()])
            gap = np.array([self.functions[v][1, 0] for v in self.nodes.tolist()]) - low
            residuals = codes[:, self.nodes] - high
            residuals *= gap
            return Evaluated(residuals, instruments, high=high, gap=gap)
        residuals = np.empty((len(codes), int(self.offsets[-1])))
        covariances = []
        for place, (node, share) in enumerate(
            zip(self.nodes.tolist(), self.conditionals.probabilities(codes, theta), strict=True)
        ):
            values = self.functions[node]
            moved = values[1:] - values[0]
            mean = share @ moved
            residuals[:, self.offsets[place] : self.offsets[place + 1]] = values[codes[:, node]] - values[0] - mean
            covariances.append(np.einsum("ns,sb,sc->nbc", share, moved, moved) - mean[:, :, None] * mean[:, None, :])
        return Evaluated(residuals, instruments, tuple(covariances))

    def _instruments(self, codes: Int32Array) -> FloatArray:
        columns, variables, low, gap = self._linear_columns
        if len(columns) == len(self.products):
            values: FloatArray = codes[:, variables] * gap
            values += low
            return values
        result = np.ones((len(codes), len(self.products)))
        result[:, columns] = codes[:, variables] * gap + low
        for column in np.setdiff1d(np.arange(len(self.products)), columns).tolist():
            for variable, number in self.products[column]:
                result[:, column] *= self.functions[variable][codes[:, variable], number - 1]
        return result

    @cached_property
    def _linear_columns(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """The instruments that are 1 or a function of one binary variable: column, variable, lower value and gap."""
        rows = []
        for column, product in enumerate(self.products):
            if not product:
                rows.append((column, 0, 1.0, 0.0))
            elif len(product) == 1 and len(self.functions[product[0][0]]) == 2:
                variable = product[0][0]
                low, high = self.functions[variable][:, 0].tolist()
                rows.append((column, variable, low, high - low))
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2], table[:, 3]

    def values(self, evaluated: Evaluated) -> FloatArray:
        """g (n, p)."""
        # By condition first: whole lines are copied and multiplied, not single numbers.
        values: FloatArray = np.ascontiguousarray(evaluated.residuals.T)[self.residual]
        values *= np.ascontiguousarray(evaluated.instruments.T)[self.instrument]
        return values.T

    def blocks(self, codes: Int32Array, theta: FloatArray, rows: int) -> Iterator[tuple[slice, Evaluated]]:
        """Stream the samples."""
        for start in range(0, len(codes), rows):
            samples = slice(start, min(start + rows, len(codes)))
            yield samples, self.evaluate(codes[samples], theta)

    def value_blocks(self, codes: Int32Array, theta: FloatArray, *, single: bool = False) -> Blocks:
        """Stream g as (samples, block (k, p))."""
        for samples, evaluated in self.blocks(codes, theta, self._rows_evaluated):
            size = samples.stop - samples.start
            rows = -(-size // -(-size // self.block_rows))  # parts of the same size
            for start in range(0, size, rows):
                part = slice(start, min(start + rows, size))
                residuals, instruments = evaluated.residuals[part], evaluated.instruments[part]
                if single:
                    residuals, instruments = residuals.astype(np.float32), instruments.astype(np.float32)
                values = self.values(Evaluated(residuals, instruments))
                yield slice(samples.start + part.start, samples.start + part.stop), values

    @property
    def _rows_evaluated(self) -> int:
        """Samples whose residuals and instruments are computed together."""
        return max(256, _EVALUATED_NUMBERS // max(1, len(self.products) + int(self.offsets[-1])))

    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i Z_ic g_i (p,)."""
        return partial(self._sums, codes, weight=weight, mask=mask)

    def summed_by(self, problem: Problem, weight: FloatArray | None = None) -> Sums | None:
        """The same from the products of residuals and states that PL1 of a dense binary field computes; else None."""
        residual_products = problem.residual_products(weight)
        columns = self._linear_columns[0]
        if residual_products is None or len(columns) < len(self.products) or not self.conditionals.is_pairwise:
            return None
        return partial(self._of_products, residual_products)

    def _of_products(self, residual_products: ResidualProducts, theta: FloatArray) -> FloatArray:
        _, variables, low, gap = self._linear_columns
        node = self.nodes[self.component]
        single, products = residual_products(theta)
        with_instrument = low[self.instrument] * single[node]
        with_instrument += gap[self.instrument] * products[variables[self.instrument], node]
        return self._unit * with_instrument

    @cached_property
    def _unit(self) -> FloatArray:
        """The gap between the two values of the residual of each condition (p,)."""
        node = self.nodes[self.component]
        return np.array([self.functions[v][1, 0] - self.functions[v][0, 0] for v in node.tolist()])

    def _sums(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None, mask: FloatArray | None
    ) -> FloatArray:
        total = np.zeros(self.size)
        together = int(self.offsets[-1]) * len(self.products) <= _MOST_SUMMED_PRODUCTS
        column = np.repeat(np.arange(len(self.nodes)), np.diff(self.offsets))
        for samples, evaluated in self.blocks(codes, theta, self._rows_evaluated):
            residuals = evaluated.residuals
            if mask is not None:
                residuals = residuals * mask[samples][:, column]
            if weight is not None:
                residuals = residuals * weight[samples, None]
            if together:
                total += (residuals.T @ evaluated.instruments)[self.residual, self.instrument]
            else:
                left, right = np.ascontiguousarray(residuals.T), np.ascontiguousarray(evaluated.instruments.T)
                step = max(1, _CONDITION_NUMBERS // max(1, residuals.shape[0]))
                for first in range(0, self.size, step):
                    some = slice(first, first + step)
                    total[some] += np.einsum("pi,pi->p", left[self.residual[some]], right[self.instrument[some]])
        return total

    def node_block(self, evaluated: Evaluated, place: int, weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i C_j h hᵀ of one component: its block of V, and minus its derivatives by the coefficients of scores."""
        conditions = self.slices[place]
        instruments = evaluated.instruments[:, self.instrument[conditions]]
        number = self.residual[conditions] - self.offsets[place]
        variances = evaluated.variances
        if variances is not None:
            scale = variances[:, place] if weight is None else variances[:, place] * weight
            return (instruments * scale[:, None]).T @ instruments
        block = np.empty((len(number), len(number)))
        covariance = evaluated.covariances[place]
        for b in range(covariance.shape[1]):
            for c in range(covariance.shape[1]):
                scale = covariance[:, b, c] if weight is None else covariance[:, b, c] * weight
                left, right = number == b, number == c
                block[np.ix_(left, right)] = (instruments[:, left] * scale[:, None]).T @ instruments[:, right]
        return block

    @cached_property
    def _pairs_of_instruments(self) -> tuple[IntArray, IntArray] | None:
        """All pairs of instruments where they are fewer than the entries of all blocks: on dense graphs; else None."""
        count, entries = len(self.products), sum((s.stop - s.start) ** 2 for s in self.slices)
        return np.triu_indices(count) if count * (count + 1) // 2 * _PAIRS_WORTH <= entries else None

    def _add_by_pairs(
        self,
        blocks: list[FloatArray],
        pairs: tuple[IntArray, IntArray],
        evaluated: Evaluated,
        scale: FloatArray | None,
    ) -> None:
        """Add Σ_i w_i C_j h hᵀ of all components to ``blocks``: one product of variances with pairs of instruments."""
        lines = np.ascontiguousarray(evaluated.instruments.T)
        variances = evaluated.variances
        assert variances is not None
        if scale is not None:
            variances = variances * (scale if scale.ndim == 2 else scale[:, None])
        products = (lines[pairs[0]] * lines[pairs[1]]) @ variances
        square = np.empty((len(self.products), len(self.products), len(self.nodes)))
        square[pairs] = products
        square[pairs[::-1]] = products
        for place, conditions in enumerate(self.slices):
            columns = self.instrument[conditions]
            blocks[place] += square[columns[:, None], columns, place]

    def derivative(
        self,
        codes: Int32Array,
        theta: FloatArray,
        weight: FloatArray | None = None,
        mask: FloatArray | None = None,
    ) -> FloatArray:
        """Σ_i w_i Z_ic ∂g_i/∂θ (p, n_parameters), exact for any samples."""
        total = np.zeros((self.size, self.n_parameters))
        blocks = self.node_sums(codes, theta, weight, mask)
        for block, conditions in zip(blocks, self.slices, strict=True):
            total[conditions] = -(self.score_coefficients[:, conditions] @ block).T
        return total

    def node_sums(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None, mask: FloatArray | None
    ) -> list[FloatArray]:
        """Σ_i w_i Z_ic C_j h hᵀ of each component."""
        blocks = [np.zeros((s.stop - s.start, s.stop - s.start)) for s in self.slices]
        pairs = self._pairs_of_instruments
        for samples, evaluated in self.blocks(codes, theta, self._rows_evaluated if pairs is None else _PAIR_ROWS):
            row_weight, selected = (None if a is None else a[samples] for a in (weight, mask))
            if pairs is not None and evaluated.variances is not None:
                self._add_by_pairs(blocks, pairs, evaluated, scaled(row_weight, selected, slice(None)))
                continue
            for place in range(len(self.nodes)):
                blocks[place] += self.node_block(evaluated, place, scaled(row_weight, selected, place))
        return blocks
