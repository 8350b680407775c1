"""``A >> FL~M``: Fisher scoring on the full likelihood with M draws of the model (`scoring`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fieldfit.asymptotics import Asymptotics
from fieldfit.policies import Policy
from fieldfit.policies.text import Reader
from fieldfit.refinement.planned import PlannedStage, PlanSetting, SkippedError
from fieldfit.refinement.scoring import ChainAccount, fisher_scoring, refuse_draws
from fieldfit.refinement.second_stage import FirstFit, RefinedEstimate, SecondStage, TheorySetting, field_of
from fieldfit.refinement.sharded_conditions import conditions_of
from fieldfit.refinement.stacking import StatisticConditions
from fieldfit.types import PolicyError

#: Draws at least.
_FEWEST_ALLOWED_DRAWS = 100


@dataclass(frozen=True)
class Simulated(SecondStage):
    """``FL~M``: the full likelihood with M draws of the model instead of exact sums."""

    draws: int
    takes_pieces: ClassVar[bool] = True
    examples: ClassVar[tuple[str, ...]] = ("PL1 >> FL~2000",)
    account: ClassVar[type[ChainAccount]] = ChainAccount

    def __post_init__(self) -> None:
        if self.draws < _FEWEST_ALLOWED_DRAWS:
            raise PolicyError(f"FL~M needs at least {_FEWEST_ALLOWED_DRAWS} draws; got {self.draws}.")

    def __str__(self) -> str:
        return f"FL~{self.draws}"

    @classmethod
    def read(cls, reader: Reader) -> Simulated | None:
        """``FL~`` and the number of draws."""
        if reader.word() != "FL" or not reader.accept("~"):
            return None
        return cls(reader.integer("a number of draws"))

    def evaluates(self, first: Policy) -> tuple[Policy, ...]:
        """The first stage, and the full likelihood."""
        return first, Policy.parse("FL")

    def fit(self, first: FirstFit) -> RefinedEstimate:
        """Scoring steps with new draws each."""
        model = field_of(first, f"'{self.text(first.bound.policy)}'")
        refuse_draws(model, self.draws, int(first.free.sum()))
        stage = fisher_scoring(
            conditions_of(first, StatisticConditions(model)),
            first.theta,
            draws=self.draws,
            free=first.free,
            precision=first.penalty.precision,
            random_state=first.random_state,
            keeper=None if first.new_keeper is None else first.new_keeper(),
            course=first.course,
        )
        return RefinedEstimate.of_steps(stage, first.course)

    def theory(self, first: Policy, setting: TheorySetting) -> Asymptotics:
        """Refused: the variance depends on n."""
        raise PolicyError(
            f"The variance of '{self.text(first)}' depends on the number of samples: n draws of the data and M of the "
            f"model together have n·Cov = I⁻¹(1 + n/M). The theory of 'FL' gives I⁻¹."
        )

    def plan(self, first: Policy, setting: PlanSetting) -> PlannedStage:
        """Refused."""
        raise SkippedError(
            f"'{self.text(first)}' cannot be planned: its variance depends on how well Gibbs chains mix, which is known "
            f"only after a fit."
        )
