"""PL1 of a binary pairwise field for samples with missing values.

Complete samples use the pairwise kernel (`pairwise`). For the others all joint states of the missing variables are
enumerated (kernels/missing_rows.hpp): 2^k m numbers for a sample that misses k of m variables. The sums of a general
graph would be compiled for each component of each pattern. With x_j the codes of a sample, 0 where missing, its
gradient is

    bias j: turned_j, or ones_a if j is the a-th that it misses
    pair (j, l): turned_j x_l + turned_l x_j;  (j, a): turned_j cross_aj + ones_a x_j;  (a, b): both_ab

and its Hessian product is the derivative of that along a direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.models.pairwise import PairwiseProblem, pairwise_supports
from fieldfit.models.pairwise_layout import BlockFamily, sums_by
from fieldfit.models.pairwise_parameters import PairwiseParameters
from fieldfit.models.problem import Problem
from fieldfit.policies.selection import FamilySelection
from fieldfit.properties import cached_property
from fieldfit.threads import get_threads, one_blas_thread
from fieldfit.types import Array, BoolArray, DataError, FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from fieldfit.models.boltzmann import BoltzmannMachine

#: Most missing values of a sample: above it, the tables of one sample take more than 100 MB.
_MOST_MISSING = 20
#: Least share of pairs with an edge. Denser graphs are taken to connect all missing variables of a sample.
_DENSE_FROM = 0.5
#: Numbers (missing values × variables) in a block of samples.
_MISSING_NUMBERS = 1 << 21


def sums_states(model: BoltzmannMachine, codes: Int32Array, parts: Sequence[FamilySelection]) -> bool:
    """Whether all components are single variables given the rest, on a dense graph, and no sample misses too much."""
    pairs = model.m * (model.m - 1) / 2
    if len(model.edge_array) < _DENSE_FROM * pairs:
        return False
    if not all(pairwise_supports(part) and getattr(part.family, "block_size", None) == 1 for part in parts):
        return False
    absent = (codes < 0).sum(axis=1)
    most = int(absent[absent < model.m].max(initial=0))
    return most <= _MOST_MISSING and 2.0 ** (most + 1) <= model.largest_table


@dataclass(frozen=True)
class _Terms:
    """The terms of the gradients of some samples; see the module docstring."""

    value: FloatArray  # (b,)
    turned: FloatArray  # (b, m)
    ones: FloatArray  # (K,), K missing values in all
    both: FloatArray  # (Σ k²,)
    cross: FloatArray  # (K, m)

    @classmethod
    def empty(cls, b: int, m: int, missing: int, squares: int) -> _Terms:
        return cls(np.empty(b), np.empty((b, m)), np.empty(missing), np.empty(squares), np.empty((missing, m)))


@dataclass(frozen=True)
class _Rows:
    """Some samples with missing values: codes (0 where missing) and the missing variables of each."""

    codes: NDArray[np.uint8]  # (b, m)
    pointer: IntArray  # (b + 1,)
    missing: Int32Array  # (K,)

    @classmethod
    def of(cls, codes: Array) -> _Rows:
        absent = codes < 0
        pointer = np.concatenate([[0], np.cumsum(absent.sum(axis=1))]).astype(np.int64)
        filled = np.where(absent, 0, codes).astype(np.uint8)
        return cls(filled, pointer, np.nonzero(absent)[1].astype(np.int32))

    def part(self, start: int, stop: int) -> _Rows:
        """The samples start..stop."""
        pointer = self.pointer[start : stop + 1]
        missing = self.missing[pointer[0] : pointer[-1]]
        return _Rows(self.codes[start:stop], pointer - pointer[0], missing)

    @property
    def owner(self) -> IntArray:
        """The sample of each missing value (K,)."""
        return np.repeat(np.arange(len(self.codes)), np.diff(self.pointer))

    @property
    def pairs(self) -> tuple[Int32Array, Int32Array]:
        """The two variables of each entry of ``both``."""
        sizes = np.diff(self.pointer)
        row = np.repeat(np.arange(len(sizes)), sizes**2)
        place = np.arange(len(row)) - np.repeat(np.cumsum(sizes**2) - sizes**2, sizes**2)
        first, second = np.divmod(place, np.maximum(sizes[row], 1))
        return self.missing[self.pointer[row] + first], self.missing[self.pointer[row] + second]


class MissingPairwiseProblem(Problem):
    """A binary pairwise field compiled with samples, some of which miss values, and selected single variables.

    ``codes`` (n, m) has −1 for missing values; `sums_states` must hold. The other arguments are those of `PairwiseProblem`.
    """

    def __init__(self, codes: Int32Array, field: PairwiseParameters, parts: Sequence[FamilySelection]) -> None:
        self.n_samples, self.m = codes.shape
        self.n_parameters, self.n_families = field.n_parameters, len(parts)
        absent = codes < 0
        known: BoolArray = np.asarray((codes >= 0).all(axis=1))
        self._whole = PairwiseProblem(np.where(absent, 0, codes), field, [_only(part, known) for part in parts])
        self._codes, self._field, self._parts = codes, field, tuple(parts)
        self._places = np.flatnonzero(~known & ~absent.all(axis=1))
        self._number = np.arange(len(self._places))
        rows = codes[self._places]
        if all(part.everything for part in parts) and len(rows):
            rows, number = np.unique(rows, axis=0, return_inverse=True)
            self._number = number.reshape(-1)
        self._rows = _Rows.of(rows)
        uses = [self._use(part) for part in parts]
        self._first = np.zeros(len(rows), dtype=np.int64)
        self._first[self._number[::-1]] = np.arange(len(self._places))[::-1]
        known_values = rows >= 0
        self._uses = [use[self._first] * known_values for use in uses]
        self._betas = np.array([1.0 if np.ndim(part.beta) else float(part.beta) for part in parts])

    def _use(self, part: FamilySelection) -> FloatArray:
        """The weight of each variable of the samples with missing values (rows, m), without the family's β."""
        family = cast(BlockFamily, part.family)
        variables = family.blocks(np.arange(family.size))[1]
        beta = np.ones(family.size) if not np.ndim(part.beta) else np.asarray(part.beta, dtype=np.float64)
        places = self._places
        if part.indptr is None or part.indices is None:
            whole = np.tile(sums_by(variables, beta, self.m), (len(places), 1))
            return whole if part.rows is None else whole * part.rows[places, None]
        use = np.zeros((len(places), self.m))
        for row, place in enumerate(places.tolist()):
            chosen = part.indices[part.indptr[place] : part.indptr[place + 1]]
            np.add.at(use[row], variables[chosen], beta[chosen])
        return use

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family; 1 if each component has a weight."""
        return self._betas

    def with_betas(self, betas: FloatArray) -> MissingPairwiseProblem:
        """The same samples with other weights of the families."""
        other = copy(self)
        other.__dict__.pop("_near", None)
        other._betas = np.asarray(betas, dtype=np.float64)
        other._whole = self._whole.with_betas(other._betas)
        return other

    # -- sums over samples -------------------------------------------------------------------------------------------

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient."""
        value, gradient = self._whole.value_grad(theta, row_weight)
        more, edges, biases = self._sums(theta, None, row_weight)
        return value + more, gradient + self._field.to_parameters(edges, biases)

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v."""
        _, edges, biases = self._sums(theta, v, row_weight)
        product: FloatArray = self._whole.hessian_product(theta, v, row_weight)
        return product + self._field.to_parameters(edges, biases)

    def _sums(
        self, theta: FloatArray, v: FloatArray | None, row_weight: FloatArray | None
    ) -> tuple[float, FloatArray, FloatArray]:
        """The value, and the gradient (with v: the Hessian product) by edge and by variable."""
        weight = np.ones(self.n_samples) if row_weight is None else np.asarray(row_weight, dtype=np.float64)
        if weight.shape != (self.n_samples,):
            raise DataError(f"row_weight must have the shape ({self.n_samples},); it has {weight.shape}.")
        by_row = sums_by(self._number, weight[self._places], len(self._first))
        value, slopes, biases = 0.0, np.zeros((self.m, self.m)), np.zeros(self.m)
        for rows, terms, moved in self._terms(theta, v, self._scale * by_row[:, None]):
            value += float(terms.value.sum())
            _add(rows, terms, moved, slopes, biases)
        first, second = self._field.edges.T
        return value, slopes[first, second] + slopes[second, first], biases

    @property
    def _scale(self) -> FloatArray:
        """The weight of each component of the distinct samples with missing values."""
        return np.asarray(sum(beta * use for beta, use in zip(self._betas, self._uses, strict=True)))

    def _terms(
        self, theta: FloatArray, v: FloatArray | None, scale: FloatArray, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[_Rows, _Terms, _Terms | None]]:
        """Blocks of the distinct samples start..stop, the terms of their gradients, and derivatives of these along v."""
        weights, bias = self._field.to_matrix(theta)
        direction = None if v is None else self._field.to_matrix(v)
        stop = len(self._first) if stop is None else stop
        while start < stop:
            widest = int(np.searchsorted(self._rows.pointer, self._rows.pointer[start] + _MISSING_NUMBERS // self.m))
            end = min(stop, max(start + 1, widest - 1))
            rows = self._rows.part(start, end)
            x = rows.codes.astype(np.float64)
            squares = int((np.diff(rows.pointer) ** 2).sum())
            terms = _Terms.empty(len(x), self.m, len(rows.missing), squares)
            moved = None if v is None else _Terms.empty(len(x), self.m, len(rows.missing), squares)
            with one_blas_thread():
                field = x @ weights + bias
                moved_field = None if direction is None else x @ direction[0] + direction[1]
            _kernels.missing_rows(
                codes=rows.codes,
                pointer=rows.pointer,
                missing=rows.missing,
                weights=weights,
                field=field,
                scale=np.ascontiguousarray(scale[start:end]),
                weights_tangent=None if direction is None else direction[0],
                field_tangent=moved_field,
                value=terms.value,
                turned=terms.turned,
                ones=terms.ones,
                both=terms.both,
                cross=terms.cross,
                value_tangent=None if moved is None else moved.value,
                turned_tangent=None if moved is None else moved.turned,
                ones_tangent=None if moved is None else moved.ones,
                both_tangent=None if moved is None else moved.both,
                cross_tangent=None if moved is None else moved.cross,
                n_threads=get_threads(),
            )
            yield rows, terms, moved
            start = end

    # -- numbers for each sample -------------------------------------------------------------------------------------

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sample."""
        incomplete = [terms.value for _, terms, _ in self._terms(theta, None, self._scale)]
        return self._at_samples(self._whole.row_values(theta), incomplete)

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""
        incomplete = [moved.value for _, _, moved in self._terms(theta, v, self._scale) if moved is not None]
        return self._at_samples(self._whole.row_products(theta, v), incomplete)

    def _at_samples(self, numbers: FloatArray, incomplete: list[FloatArray]) -> FloatArray:
        if incomplete:
            numbers[self._places] = np.concatenate(incomplete)[self._number]
        return numbers

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family, without β."""
        scores = self._whole.family_scores(theta, start, stop)
        here = slice(*np.searchsorted(self._places, [start, stop]))
        first, second = self._field.edges.T
        for place, number in zip(self._places[here].tolist(), self._number[here].tolist(), strict=True):
            for f, use in enumerate(self._uses):
                for rows, terms, _ in self._terms(theta, None, use, number, number + 1):
                    slopes, biases = np.zeros((self.m, self.m)), np.zeros(self.m)
                    _add(rows, terms, None, slopes, biases)
                    by_edge = slopes[first, second] + slopes[second, first]
                    scores[place - start, f] = self._field.to_parameters(by_edge, biases)
        return scores

    # -- what is near, for optimisers --------------------------------------------------------------------------------

    @cached_property
    def _near(self) -> PairwiseProblem:
        missing = self._codes < 0
        most = 2 * (self._codes > 0).sum(axis=0) > (~missing).sum(axis=0)
        codes = np.where(missing, most, self._codes).astype(self._codes.dtype)
        return PairwiseProblem(codes, self._field, self._parts).with_betas(self._betas)

    def preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> Callable[[FloatArray], FloatArray] | None:
        """The preconditioner for missing values replaced by the more frequent value."""
        return self._near.preconditioner(theta, precision, row_weight)

    def late_preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> Callable[[FloatArray], FloatArray] | None:
        """The preconditioner for missing values replaced by the more frequent value."""
        return self._near.late_preconditioner(theta, precision, row_weight)


def _only(part: FamilySelection, known: BoolArray) -> FamilySelection:
    """The selection of the samples without missing values."""
    if part.indptr is not None and part.indices is not None:
        row = np.repeat(np.arange(len(known)), np.diff(part.indptr))
        kept = known[row]
        counts = np.bincount(row[kept], minlength=len(known))
        pointer = np.concatenate([[0], np.cumsum(counts)]).astype(part.indptr.dtype)
        return replace(part, indptr=pointer, indices=part.indices[kept])
    return replace(part, rows=known if part.rows is None else part.rows & known)


def _add(rows: _Rows, terms: _Terms, moved: _Terms | None, slopes: FloatArray, biases: FloatArray) -> None:
    """Add the gradient of some samples, or its tangent, by ordered pairs (m, m) and by variable (m,)."""
    x, owner, m = rows.codes.astype(np.float64), rows.owner, len(biases)
    last = terms if moved is None else moved
    with one_blas_thread():
        slopes += last.turned.T @ x
    biases += last.turned.sum(axis=0)
    biases += np.bincount(rows.missing, last.ones, m)
    by_missing = last.cross * terms.turned[owner]
    if moved is not None:
        by_missing += terms.cross * moved.turned[owner]
    by_missing += last.ones[:, None] * x[owner]
    np.add.at(slopes, rows.missing, by_missing)
    first, second = rows.pairs
    slopes += 0.5 * np.bincount(first.astype(np.int64) * m + second, last.both, m * m).reshape(m, m)
