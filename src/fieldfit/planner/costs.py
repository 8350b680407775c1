"""What a whole fit with a mixture of ingredients costs: seconds here, the paper's FLOPs, and counted operations.

    cost = setting up (reading, drawing Z, compiling) + evaluations × cost of one evaluation

In seconds the number of evaluations (with Hessian products and preconditioners) is that of the ingredient that takes most,
fitted alone to the pilot's samples. FLOPs compare policies by what one evaluation takes: there it is that of the pilot.
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
    n: int
    evaluations: int  # of the pilot, for FLOPs
    rates: Calibration
    reading: float = 0.0  # seconds to read the data, which every fit does

    def work(self, lam: FloatArray) -> Work:
        """Operations of setting up once and of one evaluation, by kind."""
        chosen = [one.work(float(own)) for one, own in zip(self.ingredients, lam, strict=True) if own > 0]
        return combine(chosen)

    def steps(self, lam: FloatArray) -> float:
        """Evaluations of a fit, everything that it does counted in them."""
        return max(
            (one.steps.equivalents for one, own in zip(self.ingredients, lam, strict=True) if own > 0), default=0
        )

    def seconds(self, lam: FloatArray) -> float:
        """Seconds of a fit on this machine."""
        work = self.work(lam)
        overhead = max(
            (one.steps.overhead for one, own in zip(self.ingredients, lam, strict=True) if own > 0), default=0
        )
        setup = self.reading + self.rates.setup_seconds(work) + overhead
        return setup + self.steps(lam) * self.rates.evaluation_seconds(work)

    def flops(self, lam: FloatArray) -> float:
        """The paper's FLOPs of a fit."""
        each = np.array([one.flops for one in self.ingredients])
        return float(self.evaluations * self.n * (each @ lam))

    def operations(self, lam: FloatArray) -> float:
        """The operations that the kernels do in the evaluations of a fit, of all kinds together."""
        work = self.work(lam)
        skipped = ("call", "field_call", "seconds", *TASKS)
        counted = (a for kind, a in work.items() if not kind.startswith("setup") and kind not in skipped)
        steps = max((one.steps.count for one, own in zip(self.ingredients, lam, strict=True) if own > 0), default=0)
        return steps * sum(counted)
