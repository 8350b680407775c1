"""Refined estimators as candidates: a first stage made of the plan's ingredients, and what its second stage answers.

`fieldfit.refinement.planned` has the questions; nothing here knows which kinds of second stages there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.planner.convergence import Steps
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.ingredients import Ingredient, Skipped, placed, split_policy
from fieldfit.planner.pilot import PILOT_POLICY, Pilot
from fieldfit.planner.request import Request
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Noise
from fieldfit.refinement.planned import FirstStage, LimitMoments, PlannedStage, PlanSetting, StageSkippedError
from fieldfit.refinement.planned_stages import plan_stage, usual_stages
from fieldfit.variance.mixture_moments import MixtureMoments
from fieldfit.variance.sampled_moments import MomentPart

#: The likelihood that a second stage may maximise.
FULL = Policy.parse("FL")
#: Parts of the data that a first stage of ``A >> FL`` uses: it only has to start near.
_STARTS = (0.3, 0.1)


@dataclass(frozen=True)
class Cost:
    """What a second stage costs beside the first: seconds, FLOPs, and evaluations of the second stage's objective."""

    seconds: float
    flops: float
    evaluations: float


#: Of one stage only.
NO_SECOND_STAGE = Cost(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class RefinedTerm:
    """An estimator with a second stage; ``place`` is that of its moments among ingredients and terms of their own."""

    stage: PlannedStage
    first: FirstStage
    place: int

    @property
    def name(self) -> str:
        """The estimator's text."""
        return str(self.stage.staged)

    def cost(self, moments: MixtureMoments, costs: FitCosts) -> Cost:
        """What the second stage takes, priced."""
        work = self.stage.work(self.first, moments, costs.copies)
        seconds, flops, evaluations = work.seconds, work.flops, float(work.evaluations)
        if work.term is not None:
            unit = np.eye(len(costs.ingredients))[work.term]
            alone = costs.ingredients[work.term].fit_work(everything=True).steps
            evaluations += alone.product * work.products
            count = work.evaluations + work.products
            seconds += costs.seconds(unit, Steps(count, evaluations, 0.0, True)) - costs.reading
            # FLOPs charge every policy with the evaluations of PL1, so a second stage is charged with its share of the
            # whole fit.
            flops += costs.flops(unit) * count / max(alone.count, 1)
        return Cost(seconds, flops, evaluations)


@dataclass(frozen=True)
class OwnTerm:
    """Estimating functions of a second stage as a term of the moments: alone, and with all samples."""

    name: str
    limit: LimitMoments
    follows_model: bool = True
    noise: Noise = Noise.TOGETHER
    scale: float = 1.0

    @cached_property
    def parts(self) -> tuple[tuple[float, MomentPart], ...]:
        """They themselves, on the pilot's samples."""
        return ((1.0, self.limit.scores(follows_model=self.follows_model)),)

    def drawn(self, seed: int) -> MomentPart:
        """The same: nothing is drawn."""
        return self.parts[0][1]


def own_terms(refined: Sequence[RefinedTerm]) -> list[OwnTerm]:
    """The terms that second stages add to the moments of the ingredients, in order."""
    limits = ((term.name, term.stage.limit) for term in refined)
    return [OwnTerm(name, limit) for name, limit in limits if not isinstance(limit, int)]


def refined_terms(
    request: Request,
    pilot: Pilot,
    rows: Dataset,
    ingredients: Sequence[Ingredient],
    seconds_left: Callable[[], float],
    flops: float,
    skipped: dict[str, Skipped],
) -> tuple[list[RefinedTerm], float]:
    """The refined estimators that were asked for, or the usual ones within a time, and the FLOPs that are left.

    ``skipped`` gets those that are not compared; one that was asked for and cannot be planned is a FieldfitError.
    """
    terms: list[RefinedTerm] = []

    def flops_left() -> float:
        return flops - sum(term.stage.flops for term in terms)

    setting = PlanSetting(
        model=request.model,
        rows=rows,
        theta=pilot.theta,
        terms=ingredients,
        random_state=request.random_state,
        precision=request.precision,
        asked=request.policies is not None,
        seconds_left=seconds_left,
        flops_left=flops_left,
    )

    def add(stage: PlannedStage) -> None:
        first, limit = stage.staged.first, stage.limit
        assert isinstance(first, Policy)
        place = limit if isinstance(limit, int) else len(ingredients) + len(own_terms(terms))
        terms.append(RefinedTerm(stage, FirstStage(*placed(split_policy(first), ingredients)), place))

    if request.policies is not None:
        for staged in request.staged:
            add(plan_stage(staged, setting))
    elif pilot.effort.dense is not None:
        reasons: dict[str, StageSkippedError] = {}
        laws = [part.law for part in ingredients]
        full = FULL if FULL.laws[0] in laws else None
        parts = [law for law in laws if law.noise is Noise.TOGETHER][:1]
        starts = [PILOT_POLICY, *(Policy((law.at(share, 1.0),)) for law in parts for share in _STARTS)]
        for stage in usual_stages(PILOT_POLICY, starts, full, setting, reasons):
            add(stage)
        skipped.update({name: Skipped(str(reason), reason.for_time) for name, reason in reasons.items()})
    return terms, flops_left()
