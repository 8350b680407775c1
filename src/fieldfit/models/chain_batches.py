"""Stochastic gradient steps on a chain: a few sequences at a time (kernels/chain_stochastic.hpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.types import FloatArray, IntArray

if TYPE_CHECKING:
    from fieldfit.models.chain_problem import ChainProblem


class ChainBatches:
    """The negative log-likelihood of a chain problem plus ½ · precision · ‖θ‖², as a sum over batches of sequences."""

    def __init__(
        self, problem: ChainProblem, active: NDArray[np.uint8] | None, precision: float, row_weight: FloatArray | None
    ) -> None:
        layout, dataset = problem.layout, problem.dataset
        self._problem, self._row_weight = problem, row_weight
        self.precision = precision
        self.n_batches: int = _kernels.chain_batches(problem.tokens)
        indices = dataset.indices
        if active is not None:
            indices = indices[np.repeat(active, np.diff(dataset.indptr)).astype(bool)]
        # The penalty of a weight is divided among the tokens that have its feature.
        shares = 1.0 / np.maximum(np.bincount(indices, minlength=layout.n_features), 1)
        pointer, _ = layout.kernel_pairs()
        self._shares = shares if pointer is None else np.repeat(shares, np.diff(pointer))
        self._values = np.zeros(dataset.n)

    def walk(self, x: FloatArray, visits: IntArray, rates: FloatArray) -> float:
        """Take a step on each visited batch, in place. Return the sum of the batches' values, each before its step."""
        layout = self._problem.layout
        state, transitions, base, start, end, columns = layout.unpack(x)
        self._values[:] = 0.0
        _kernels.chain_stochastic_pass(
            self._problem.tokens,
            (state, transitions, start, end, columns),
            base=base,
            families=list(self._problem.used),
            row_weight=self._row_weight,
            visits=np.ascontiguousarray(visits, dtype=np.int64),
            rates=np.ascontiguousarray(rates, dtype=np.float64),
            precision=self.precision,
            shares=self._shares,
            transition_places=layout.transition_places,
            start=layout.start,
            end=layout.end,
            values=self._values,
        )
        layout.pack(x, transitions, start, end)
        return -float(self._values.sum())

    def value(self, x: FloatArray) -> float:
        """The objective at θ; only the forward recursion runs."""
        values = self._problem.row_values(x)
        total = float(values.sum()) if self._row_weight is None else float(self._row_weight @ values)
        return 0.5 * self.precision * float(x @ x) - total
