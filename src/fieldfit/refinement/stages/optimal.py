"""``A >> optimal`` and ``A >> optimal(d)``: A's scores and instruments up to graph distance d, with optimal weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fieldfit.asymptotics import Asymptotics
from fieldfit.models.field import FieldModel
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law
from fieldfit.policies.text import Reader
from fieldfit.refinement.conditions import Conditions, NodeConditions
from fieldfit.refinement.local import needs_local, refine_locally
from fieldfit.refinement.optimal import SMALL_EXCESS, optimal_asymptotics, refine_densely
from fieldfit.refinement.planned import PlanSetting, SkippedError
from fieldfit.refinement.planned_conditions import PlannedConditions, plan_conditions
from fieldfit.refinement.refined import Account
from fieldfit.refinement.regression import WORTH
from fieldfit.refinement.second_stage import FirstFit, RefinedEstimate, SecondStage, TheorySetting, field_of
from fieldfit.refinement.stacking import stack
from fieldfit.refinement.staged import Staged
from fieldfit.types import PolicyError

#: Graph distances that plans compare.
_DISTANCES = (1, 2, 3)


@dataclass(frozen=True)
class Optimal(SecondStage):
    """``optimal`` or ``optimal(d)``; None lets the predicted variance choose the graph distance."""

    distance: int | None = None
    examples: ClassVar[tuple[str, ...]] = ("PL1 >> optimal", "PL1 >> optimal(2)", "0.7*PL1 + 0.3*PL2 >> optimal(1)")
    takes_pieces: ClassVar[bool] = True
    planned_early: ClassVar[bool] = True
    account: ClassVar[type[Account]] = Account

    def __post_init__(self) -> None:
        if self.distance is not None and self.distance < 1:
            raise PolicyError(f"optimal(d) needs a graph distance of at least 1; got {self.distance}.")

    def __str__(self) -> str:
        return "optimal" if self.distance is None else f"optimal({self.distance})"

    @classmethod
    def read(cls, reader: Reader) -> Optimal | None:
        """``optimal`` with a graph distance in parentheses, or without."""
        if reader.word() != "optimal":
            return None
        if not reader.accept("("):
            return cls()
        distance = reader.integer("a graph distance")
        reader.expect(")", "that closes optimal(")
        return cls(distance)

    def condition_count(self, model: FieldModel, first: Policy) -> int:
        """Those up to the graph distance, if that is given."""
        if self.distance is None:
            return super().condition_count(model, first)
        return stack(model, first.bind(model.structure()), self.distance).conditions.size

    def fit(self, first: FirstFit) -> RefinedEstimate:
        """With dense weights, or with local ones where there are too many conditions for a matrix."""
        model = field_of(first, f"'{self.text(first.bound.policy)}'")
        if needs_local(model, first.bound, self.distance):
            return RefinedEstimate.of_steps(refine_locally(first, model, self.distance), first.course)
        return RefinedEstimate.of_steps(refine_densely(first, model, distance=self.distance), first.course)

    def theory(self, first: Policy, setting: TheorySetting) -> Asymptotics:
        """The inverse information of the conditions."""
        return optimal_asymptotics(first, setting, self.distance)

    def plan(self, first: Policy, setting: PlanSetting) -> PlannedConditions:
        """The conditions with their weights."""
        return plan_conditions(Staged(first, self), setting, self.distance)

    @classmethod
    def usual(
        cls, first: Policy, starts: Sequence[Policy], setting: PlanSetting, skipped: dict[Law | Staged, SkippedError]
    ) -> Iterator[PlannedConditions]:
        """``optimal(d)`` for d = 1, 2, … while that reduces the predicted variance, as the default of a fit does.

        The first that is skipped ends it.
        """
        del starts
        best = np.inf
        known: Conditions | None = None
        for distance in _DISTANCES:
            if isinstance(known, NodeConditions) and not known.grows(distance):
                return
            second = cls(distance)
            try:
                stage = second.plan(first, setting)
            except SkippedError as reason:
                skipped[Staged(first, second)] = reason
                return
            if stage.predicted > best * (1 - WORTH):
                return
            best, known = stage.predicted, stage.stack.conditions
            yield stage
            if best < 1 + SMALL_EXCESS:
                return
