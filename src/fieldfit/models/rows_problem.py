"""Some samples through one problem and the others through another one.

A few missing values would send all samples through the general code, which is many times slower than the kernels for
complete ones. So complete samples and the others are compiled apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.models.field_compiler import too_wide
from fieldfit.models.located import LocatedScores
from fieldfit.models.problem import Problem
from fieldfit.policies.selection import Selection
from fieldfit.types import FloatArray, IntArray, WidthError

#: Compiles some of the samples.
CompileRows = Callable[[Table, Selection], Problem]


def compile_apart(
    table: Table, selection: Selection, complete: CompileRows, incomplete: CompileRows, largest_table: int
) -> Problem:
    """Complete samples by the one function and the others by the other, where there are both."""
    missing = (table.codes < 0).any(axis=1)
    if missing.all():
        return incomplete(table, selection)
    rows = np.flatnonzero(~missing), np.flatnonzero(missing)
    families = [part.family for part in selection.parts]
    first, second = ((table.subset(some), selection.subset(some, families)) for some in rows)
    try:
        return RowsProblem((complete(*first), incomplete(*second)), rows)
    except WidthError as error:
        if error.rows is None:
            raise
        raise too_wide(rows[1][error.rows], table.n, largest_table) from None


class RowsProblem(Problem):
    """Two problems for the samples with the numbers ``rows``, which together are all of them.

    The first one has most of the samples, and its preconditioner is that of all.
    """

    def __init__(self, parts: tuple[Problem, Problem], rows: tuple[IntArray, IntArray]) -> None:
        self.parts, self.rows = parts, rows
        self.n_samples = len(rows[0]) + len(rows[1])
        self.n_parameters, self.n_families = parts[0].n_parameters, parts[0].n_families
        self.value_noise = max(part.value_noise for part in parts)
        self.streams_scores = all(part.streams_scores for part in parts)
        #: The part of each sample, and its number there.
        self._part = np.zeros(self.n_samples, dtype=np.int64)
        self._place = np.empty(self.n_samples, dtype=np.int64)
        for number, some in enumerate(rows):
            self._part[some] = number
            self._place[some] = np.arange(len(some))

    def _weighted(self, row_weight: FloatArray | None) -> Iterator[tuple[Problem, FloatArray | None]]:
        """The parts with the weights of their samples."""
        for part, some in zip(self.parts, self.rows, strict=True):
            yield part, None if row_weight is None else row_weight[some]

    def _scattered(self, of_part: Callable[[Problem], FloatArray]) -> FloatArray:
        result = np.empty(self.n_samples)
        for part, some in zip(self.parts, self.rows, strict=True):
            result[some] = of_part(part)
        return result

    @property
    def betas(self) -> FloatArray:
        """Those of either part."""
        return self.parts[0].betas

    def with_betas(self, betas: FloatArray) -> RowsProblem | None:
        """Both parts with the new weights."""
        first, second = (part.with_betas(betas) for part in self.parts)
        return None if first is None or second is None else RowsProblem((first, second), self.rows)

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """The sum of both."""
        (first, gradient), (second, more) = (part.value_grad(theta, w) for part, w in self._weighted(row_weight))
        return first + second, gradient + more

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The sum of both."""
        first, second = (part.hessian_product(theta, v, weight) for part, weight in self._weighted(row_weight))
        return first + second

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The sum of both."""
        first, second = (part.hessian_matrix(theta, weight) for part, weight in self._weighted(row_weight))
        return first + second

    def score_moment(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The sum of both."""
        first, second = (part.score_moment(theta, weight) for part, weight in self._weighted(row_weight))
        return first + second

    def row_values(self, theta: FloatArray) -> FloatArray:
        """Those of both, at the places of their samples."""
        return self._scattered(lambda part: part.row_values(theta))

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """Those of both, at the places of their samples."""
        return self._scattered(lambda part: part.row_products(theta, v))

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """The scores of the samples start..stop from both."""
        return self.family_scores_of(theta, np.arange(start, stop))

    def family_scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """The scores of these samples from both."""
        result = np.empty((len(rows), self.n_families, self.n_parameters))
        for number, part in enumerate(self.parts):
            here = np.flatnonzero(self._part[rows] == number)
            if not len(here):
                continue
            places = self._place[rows[here]]
            if np.array_equal(places, np.arange(places[0], places[0] + len(places))):
                result[here] = part.family_scores(theta, int(places[0]), int(places[0]) + len(places))
            else:
                result[here] = part.family_scores_of(theta, places)
        return result

    def family_score_blocks(
        self, theta: FloatArray, row_weight: FloatArray | None = None
    ) -> Iterator[tuple[FloatArray | None, FloatArray]]:
        """The blocks of both, one after the other."""
        for part, weight in self._weighted(row_weight):
            yield from part.family_score_blocks(theta, weight)

    def located_scores(self, theta: FloatArray) -> LocatedScores | None:
        """The terms of both, if both have them."""
        located = [part.located_scores(theta) for part in self.parts]
        known = [
            replace(terms, samples=some[terms.samples])
            for terms, some in zip(located, self.rows, strict=True)
            if terms is not None
        ]
        return LocatedScores.join(known) if len(known) == len(located) else None

    @property
    def hessian_evaluations(self) -> float:
        """The larger of both."""
        return max(part.hessian_evaluations for part in self.parts)

    @property
    def exact_diagonal(self) -> bool:
        """Whether it is exact for both."""
        return all(part.exact_diagonal for part in self.parts)

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """The sum of both, if both have one."""
        first, second = (part.hessian_diagonal(theta, weight) for part, weight in self._weighted(row_weight))
        return None if first is None or second is None else first + second

    def information_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """The sum of both, if both have one."""
        first, second = (part.information_diagonal(theta, weight) for part, weight in self._weighted(row_weight))
        return None if first is None or second is None else first + second

    def preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> Callable[[FloatArray], FloatArray] | None:
        """That of the first part."""
        part, weight = next(self._weighted(row_weight))
        return part.preconditioner(theta, precision, weight)

    def late_preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> Callable[[FloatArray], FloatArray] | None:
        """That of the first part."""
        part, weight = next(self._weighted(row_weight))
        return part.late_preconditioner(theta, precision, weight)
