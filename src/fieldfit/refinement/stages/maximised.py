"""``A >> B``: the optimum of B's objective, from A's estimate until the optimisation error is small.

In the limit it is the estimate of B. In plans the steps are counted on B's second-order expansion (`expansion`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fieldfit.asymptotics import Asymptotics
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.models.work import clock
from fieldfit.objective import has_affordable_hessian
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law
from fieldfit.refinement.expansion import ExpandedObjective, covariance_root, expanded_fit, newton_steps
from fieldfit.refinement.planned import STAGE_SECONDS, PlannedStage, PlanSetting, SkippedError, StageWork
from fieldfit.refinement.pseudo_inverse import bread_inverse
from fieldfit.refinement.second_stage import FirstFit, SecondStage, TheorySetting, refuse_l1
from fieldfit.refinement.staged import Staged
from fieldfit.refinement.statistical import FRACTION
from fieldfit.types import FloatArray, PolicyError

if TYPE_CHECKING:
    from fieldfit.policies.policy import BoundPolicy

#: The policy that plans maximise by default.
_FULL = "FL"


@dataclass(frozen=True)
class Maximised(SecondStage):
    """Another policy, whose objective uses all of its components."""

    policy: Policy
    only_starts: ClassVar[bool] = True
    takes_pieces: ClassVar[bool] = True
    examples: ClassVar[tuple[str, ...]] = ("PL1 >> FL", "0.3*PL1/row >> FL", "PL1 >> PL2")

    def __str__(self) -> str:
        return str(self.policy)

    @classmethod
    def of_policy(cls, policy: Policy) -> Maximised | None:
        """The stage, for policies without a selection probability below 1."""
        return None if is_random(policy) else cls(policy)

    def evaluates(self, first: Policy) -> tuple[Policy, ...]:
        """Both."""
        return first, self.policy

    def planned_policies(self, first: Policy) -> tuple[Policy, ...]:
        """Both."""
        return first, self.policy

    def fit(self, first: FirstFit) -> Policy:
        """The policy to be maximised."""
        refuse_l1(first, f"'{self.text(first.bound.policy)}'")
        self._check(first.bind(self.policy), first.bound.policy)
        return self.policy

    def theory(self, first: Policy, setting: TheorySetting) -> Asymptotics:
        """That of the policy: both have the same limit."""
        self._check(self.policy.bind(setting.model.structure()), first)
        return setting.of_policy(self.policy)

    def _check(self, bound: BoundPolicy, first: Policy) -> None:
        if not bound.everything:
            raise PolicyError(one_component(first, self.policy))

    def plan(self, first: Policy, setting: PlanSetting) -> PlannedSteps:
        """The stage, if all of B is selected and one law."""
        staged, second = Staged(first, self), self.policy
        laws = [term.law for term in setting.terms]
        if len(second.laws) == 1 and second.bind(setting.model.structure(setting.rows)).everything:
            law, lam, _ = second.laws[0].unit()
            if lam == 1.0 and law in laws:
                return PlannedSteps(staged, laws.index(law), setting)
        raise SkippedError(
            f"'{staged}' cannot be planned: of the second stages that maximise an objective, a plan compares one family "
            "with everything selected, such as FL."
        )

    @classmethod
    def usual(
        cls, first: Policy, starts: Sequence[Policy], setting: PlanSetting, skipped: dict[Law | Staged, SkippedError]
    ) -> Iterator[PlannedStage]:
        """The full likelihood from each start, where the plan has it."""
        del first, skipped
        full = Policy.parse(_FULL)
        if full.laws[0] in [term.law for term in setting.terms]:
            yield from (cls(full).plan(start, setting) for start in starts)


def is_random(policy: Policy) -> bool:
    """Whether a selection probability that the policy states is below 1."""
    return any(lam is not None and float(np.min(lam)) < 1.0 for lam in policy.lams)


def one_component(first: Policy, second: Policy) -> str:
    """What a random second stage must be."""
    return f"'{first} >> {second}': a random second stage has one component for each sample, such as 0.2*FL."


@dataclass(frozen=True)
class PlannedSteps:
    """``A >> B`` with all of B selected; ``limit`` is B's place among the plan's terms."""

    staged: Staged
    limit: int
    setting: PlanSetting
    flops: float = 0.0

    @property
    def sentence(self) -> str:
        """What it does."""
        return (
            f"The second stage maximises the objective of '{self.staged.second}' from the first estimate, until the "
            f"optimisation error is {100 * FRACTION:g}% of the sampling error."
        )

    def work(self, first: tuple[FloatArray, FloatArray], moments: MixtureMoments, n: int) -> StageWork:
        """The optimiser's steps from A's estimate to where the optimisation error is small."""
        setting, place = self.setting, self.limit
        objective = ExpandedObjective(moments.J[place], moments.K[place, place], n, setting.precision)
        start, problem = self._distance(first, moments, n), setting.terms[place].problem
        if has_affordable_hessian(problem):
            steps = newton_steps(objective, start)
            # A matrix of sums has about half as many different entries for each parameter as there are parameters.
            hessians = steps * min(problem.hessian_evaluations, max(1.0, 0.5 * problem.n_parameters))
            # Three evaluations besides: at the start, and for the rule that ends the fit.
            count = math.ceil(3 + steps + hessians)
            return StageWork(STAGE_SECONDS, 0.0, count, 0, place, questions=5 + 2 * steps)
        began = clock()
        solution = expanded_fit(objective, problem, start, setting.model.feature_units, setting.random_state)
        seconds = STAGE_SECONDS + clock() - began
        return StageWork(seconds, 0.0, solution.evaluations, solution.hessian_products, place)

    def _distance(self, first: tuple[FloatArray, FloatArray], moments: MixtureMoments, n: int) -> FloatArray:
        """A draw of θ̂_A − θ̂_B, from the variance of J_A⁻¹ψ_A − J_B⁻¹ψ_B over n."""
        place, weight = self.limit, first[0] * first[1]
        bread, meat = moments.mixture(*first)
        cross = sum((weight[f] * moments.K[f, place] for f in np.flatnonzero(weight)), np.zeros_like(bread))
        first_inverse = bread_inverse(bread)
        second_inverse = bread_inverse(moments.J[place])
        between = first_inverse @ cross @ second_inverse
        spread = first_inverse @ meat @ first_inverse - between - between.T
        spread += second_inverse @ moments.K[place, place] @ second_inverse
        random = np.random.default_rng([self.setting.random_state, 0x95])
        return np.asarray(covariance_root(spread) @ random.normal(size=len(spread)) / math.sqrt(n))
