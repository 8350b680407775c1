"""What a whole fit with a mixture of ingredients costs: seconds here, the paper's FLOPs, and counted operations.

    cost = setting up (reading, drawing Z, compiling) + evaluations × cost of one evaluation

The number of evaluations (with Hessian products, which cost about the same) is that of the pilot's own fit, and is taken to
be the same for every policy and number of samples: the shape of the objective changes little with either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.models.work import Work, combine
from fieldfit.planner.calibration import Calibration
from fieldfit.planner.ingredients import Ingredient
from fieldfit.types import FloatArray


@dataclass(frozen=True)
class FitCosts:
    """Costs as functions of λ (ingredients,)."""

    ingredients: Sequence[Ingredient]
    n: int
    evaluations: int
    rates: Calibration
    reading: float = 0.0  # seconds to read the data, which every fit does

    def work(self, lam: FloatArray) -> Work:
        """Operations of setting up once and of one evaluation, by kind."""
        chosen = [one.work(float(own)) for one, own in zip(self.ingredients, lam, strict=True) if own > 0]
        return combine(chosen)

    def seconds(self, lam: FloatArray) -> float:
        """Seconds of a fit on this machine."""
        work = self.work(lam)
        return self.reading + self.rates.setup_seconds(work) + self.evaluations * self.rates.evaluation_seconds(work)

    def flops(self, lam: FloatArray) -> float:
        """The paper's FLOPs of a fit."""
        each = np.array([one.flops for one in self.ingredients])
        return float(self.evaluations * self.n * (each @ lam))

    def operations(self, lam: FloatArray) -> float:
        """The operations that the kernels do in the evaluations of a fit, of all kinds together."""
        work = self.work(lam)
        skipped = ("call", "field_call", "seconds")
        counted = (a for kind, a in work.items() if not kind.startswith("setup") and kind not in skipped)
        return self.evaluations * sum(counted)
