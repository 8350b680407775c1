"""Bread and meat of a policy from draws of the model, such that no policy is more accurate than maximum likelihood.

With s the score of the likelihood, I its information and ū = Σ_j λ_j β_j ∇S_j the mean composite score, E[ūsᵀ] is the bread
Υ⁻¹ (differentiate E ū = 0). So ū = Υ⁻¹ I⁻¹ s + e with E[esᵀ] = 0, and

    Σ = Υ⁻¹ I⁻¹ Υ⁻¹ + E[eeᵀ] + Σ_ij β_i β_j Cov(Z_i, Z_j) E[∇S_i ∇S_jᵀ],

hence Υ Σ Υ is I⁻¹ and two positive terms. I is known without draws. Draws are needed only for the two terms, and e is the
residual of the regression of ū on s over the draws: for maximum likelihood it is 0, so that its variance relative to itself
is 1 without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.models.problem import Problem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.steps import stepped
from fieldfit.types import FloatArray, Int32Array
from fieldfit.variance.moments import theory_moments, weighted_selection

#: The inverse of an information matrix, and the number of directions that it does not show.
Inverse = Callable[[FloatArray], tuple[FloatArray, int]]


@dataclass(frozen=True)
class CommonDraws:
    """Moments of batches of equally many draws, one entry of each array (b, …) a batch.

    ``bread`` is Υ⁻¹, ``noise`` the term of Cov(Z), and ``both`` (b, 2r, 2r) the second moments of (ū, s).
    """

    size: int
    bread: FloatArray
    noise: FloatArray
    both: FloatArray

    @classmethod
    def of(
        cls,
        model: FieldModel,
        policy: BoundPolicy,
        theta: FloatArray,
        batches: Sequence[Int32Array],
        full: Callable[[Int32Array], Problem],
        formula: str,
    ) -> CommonDraws:
        """The moments of draws of the model at θ; ``full`` is the likelihood of draws."""
        n = len(batches[0])
        bread, noise, both = [], [], []
        with stepped("theory", batches) as counted:
            for codes in counted:
                table = Table(codes, model.names, model.states)

                def compiled(chosen: Selection, table: Table = table) -> Problem:
                    return model.compile(table, chosen)

                parts = theory_moments(policy, compiled, theta, np.full(n, 1.0 / n), formula, centred=True)
                mean = compiled(weighted_selection(policy, policy.beta() * policy.mean(), n))
                scores = np.hstack([_scores(mean, theta), _scores(full(codes), theta)])
                bread.append(parts[0])
                noise.append(parts[1])
                both.append(scores.T @ scores / n)
        return cls(n, np.array(bread), np.array(noise), np.array(both))

    def without(self, batch: int) -> CommonDraws:
        """All batches but one."""
        kept = np.arange(len(self.bread)) != batch
        return replace(self, bread=self.bread[kept], noise=self.noise[kept], both=self.both[kept])

    def moments(self, inverse: Inverse, reference: FloatArray, directions: int) -> tuple[FloatArray, FloatArray, int]:
        """Bread, meat, and how many directions of θ the draws do not show; ``reference`` is I⁻¹.

        ``directions`` is the number of those that the model determines: the regression estimates as many slopes.
        """
        bread, both = self.bread.mean(axis=0), self.both.mean(axis=0)
        r = len(bread)
        shown, unseen = inverse(both[r:, r:])
        slope = both[:r, r:] @ shown
        residual = np.hstack([np.eye(r), -slope])
        draws = self.size * len(self.bread)
        rest = residual @ both @ residual.T * (draws / max(draws - directions, 1))
        meat: FloatArray = bread @ reference @ bread + rest + self.noise.mean(axis=0)
        return bread, (meat + meat.T) / 2, unseen


def _scores(problem: Problem, theta: FloatArray) -> FloatArray:
    """The score of each sample (n, r)."""
    return np.concatenate([block for _, block in problem.score_blocks(theta)])
