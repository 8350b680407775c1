"""What a whole fit with a mixture of ingredients costs: seconds here, the paper's FLOPs, and counted operations.

    cost = setting up (reading, drawing Z, compiling) + evaluations × cost of one evaluation

In seconds the number of evaluations (with Hessian products and preconditioners) is that of the ingredient that takes most,
fitted alone to the pilot's samples. FLOPs compare policies by what one evaluation takes: there it is that of PL1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.models.work import TASKS, Work, combine
from fieldfit.planner.calibration import Calibration
from fieldfit.planner.ingredients import Ingredient
from fieldfit.types import FloatArray


@dataclass(frozen=True)
class FitCosts:
    """Costs as functions of λ (ingredients,)."""

    ingredients: Sequence[Ingredient]
    n: int  # rows that a fit of everything sees
    copies: int  # samples that they stand for: a fit with a random Z sees all of them
    evaluations: int  # of PL1, for FLOPs
    rates: Calibration
    reading: float = 0.0  # seconds to read the data, which every fit does

    def _used(self, lam: FloatArray) -> tuple[list[tuple[Ingredient, float]], bool]:
        """The ingredients that are used, each with its λ, and whether everything is selected."""
        used = [(one, float(own)) for one, own in zip(self.ingredients, lam, strict=True) if own > 0]
        return used, all(own == 1.0 and one.law != "partition" for one, own in used)

    def work(self, lam: FloatArray) -> Work:
        """Operations of setting up once and of one evaluation, by kind."""
        used, everything = self._used(lam)
        return combine([one.work(own, everything) for one, own in used])

    def steps(self, lam: FloatArray) -> float:
        """Evaluations of a fit, everything that it does counted in them."""
        used, everything = self._used(lam)
        return max((one.steps_for(everything).equivalents for one, _ in used), default=0)

    def seconds(self, lam: FloatArray) -> float:
        """Seconds of a fit on this machine."""
        work = self.work(lam)
        used, everything = self._used(lam)
        overhead = max((one.steps_for(everything).overhead for one, _ in used), default=0)
        setup = self.reading + self.rates.setup_seconds(work) + overhead
        return setup + self.steps(lam) * self.rates.evaluation_seconds(work)

    def flops(self, lam: FloatArray) -> float:
        """The paper's FLOPs of a fit."""
        each = np.array([one.flops for one in self.ingredients])
        n = self.n if self._used(lam)[1] else self.copies
        return float(self.evaluations * n * (each @ lam))

    def operations(self, lam: FloatArray) -> float:
        """The operations that the kernels do in the evaluations of a fit, of all kinds together."""
        work = self.work(lam)
        used, everything = self._used(lam)
        skipped = ("call", "field_call", "seconds", *TASKS)
        counted = (a for kind, a in work.items() if not kind.startswith("setup") and kind not in skipped)
        return max((one.steps_for(everything).count for one, _ in used), default=0) * sum(counted)
