"""How a second stage went, as plain values that a file can hold."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Account:
    """How a second stage of moment conditions went.

    ``predicted`` and ``first`` are the predicted variance of the refined and of the first estimate relative to maximum
    likelihood (1 is best); ``draws`` is the number of draws of the model behind the weights (0: exact sums). Where
    ``accepted`` is False the estimate is the first stage's, and ``message`` says why.
    """

    distance: int
    conditions: int
    draws: int
    source: str
    ridge: float
    predicted: float
    first: float
    accepted: bool
    steps: int
    seconds: float
    message: str

    def lines(self, second: str) -> list[str]:
        """The second stage in words."""
        ridge = f", ridge {self.ridge:g}" if self.ridge and not math.isinf(self.ridge) else ""
        text = [
            f"second stage {second}: {self.conditions:,} moment conditions up to graph distance {self.distance}, weights "
            f"from {self.source}{ridge}; {self.steps} steps, {self.seconds:.2f} s"
        ]
        if not self.accepted:
            text.append(f"the estimate is the first stage's: {self.message}")
        elif self.message:
            text.append(self.message)
        if self.accepted and not math.isnan(self.predicted):
            text.append(
                f"predicted variance relative to maximum likelihood: {self.predicted:.3f} (first stage {self.first:.3f})"
            )
        return text


@dataclass(frozen=True)
class ChainAccount:
    """How Fisher scoring with draws of the model went.

    ``draws`` of ``chains`` Gibbs chains, ``thin`` sweeps apart, were made for each of ``steps`` steps. ``effective`` is the
    smallest effective number of draws of a statistic in the last step and ``r_hat`` its largest split R̂; ``added`` is
    the part of the variance that the draws add, relative to the sampling variance, on average over the parameters.
    """

    draws: int
    chains: int
    thin: int
    steps: int
    effective: float
    r_hat: float
    added: float
    seconds: float
    accepted: bool = True

    def lines(self, second: str) -> list[str]:
        """The second stage in words."""
        return [
            f"second stage {second}: {self.steps} scoring steps with {self.draws:,} draws of the model each "
            f"({self.chains} Gibbs chains, {self.thin} sweeps between draws), {self.seconds:.2f} s",
            f"chains: split R̂ at most {self.r_hat:.3f}, effective number of draws at least {self.effective:,.0f}; the "
            f"draws add {100 * self.added:.2g}% to the variance, which the standard errors include",
        ]
