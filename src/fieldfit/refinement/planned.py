"""What a plan asks of a second stage: its moments, the work it takes, and a sentence about it.

`SecondStage.plan` makes one. The planner knows no kinds of second stages: it asks these questions and prices the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Model
from fieldfit.models.problem import Problem
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law
from fieldfit.refinement.second_stage import second_stages
from fieldfit.refinement.staged import Staged
from fieldfit.types import FieldfitError, FloatArray

if TYPE_CHECKING:
    from fieldfit.refinement.planned_conditions import PlannedConditions

#: Fixed seconds of a second stage, besides its steps and its weights.
STAGE_SECONDS = 0.004


class SkippedError(FieldfitError):
    """A plan does not compare this law or second stage; ``for_time``: it would take more time or FLOPs than are left.

    ``usable``: a fit can have it, and it may be the better choice.
    """

    def __init__(self, reason: str, *, for_time: bool = False, usable: bool = False) -> None:
        super().__init__(reason)
        self.for_time = for_time
        self.usable = usable or for_time


class PlanTerm(NamedTuple):
    """A law whose moments a plan takes, with λ = β = 1 where these are free, and the law in the mean over Z, compiled."""

    law: Law
    problem: Problem


@dataclass(frozen=True)
class PlanSetting:
    """Where second stages are planned: at a pilot's θ, on the samples ``rows`` that moments are taken over.

    ``observed`` are samples of the data, where ``rows`` may be drawn from the model. ``terms`` are the laws of the plan,
    ``precision`` (r,) is the penalty of the fit to come, and ``incomplete`` says whether its samples miss values.
    ``seconds_left`` and ``flops_left`` are what the plan may still use; a stage that was ``asked`` for is never skipped
    for time.
    """

    model: Model
    rows: Dataset
    observed: Dataset
    theta: FloatArray
    terms: Sequence[PlanTerm]
    random_state: int
    precision: FloatArray | None
    incomplete: bool
    asked: bool
    seconds_left: Callable[[], float]
    flops_left: Callable[[], float]

    def __getstate__(self) -> dict[str, object]:
        # A plan in a file is made: there is nothing left of its time.
        return vars(self) | {"seconds_left": _nothing, "flops_left": _nothing}


def _nothing() -> float:
    return 0.0


@dataclass(frozen=True)
class StageWork:
    """What a second stage takes beside the first: ``seconds`` and ``flops`` of its own, and steps on an objective.

    ``evaluations`` of value and gradient and Hessian ``products`` are those of the plan's term ``term`` with everything
    selected; where that is None the seconds have all of it.
    """

    seconds: float
    flops: float
    evaluations: int
    products: int = 0
    term: int | None = None
    questions: float | None = None  # to all shards; None: one for each evaluation and product


class PlannedStage(Protocol):
    """A second stage at a pilot's θ."""

    @property
    def staged(self) -> Staged:
        """The estimator with both stages."""

    @property
    def sentence(self) -> str:
        """What it does."""

    @property
    def flops(self) -> float:
        """The FLOPs that planning it took."""

    @property
    def limit(self) -> int | PlannedConditions:
        """The place of the plan's term that it agrees with in the limit, or moments of its own."""

    def work(self, first: tuple[FloatArray, FloatArray], moments: MixtureMoments, n: int) -> StageWork:
        """What it takes with ``n`` samples, after a ``first`` stage with λ and β on the plan's terms.

        ``moments`` are those of the terms, in all coordinates.
        """


def usual_stages(
    first: Policy,
    starts: Sequence[Policy],
    setting: PlanSetting,
    skipped: dict[Law | Staged, SkippedError],
    *,
    early: bool,
) -> Iterator[PlannedStage]:
    """The second stages that a plan compares by default; ``skipped`` gets those that are not planned.

    ``early``: those that need no policy but the first; else the others.
    """
    for kind in second_stages():
        if kind.planned_early == early:
            yield from kind.usual(first, starts, setting, skipped)
