"""``Nodewise >> optimal``: separate fits of the variables, combined without a joint fit (`combination`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fieldfit.asymptotics import Asymptotics
from fieldfit.data.samples import as_table
from fieldfit.policies import Policy
from fieldfit.policies.text import Reader
from fieldfit.refinement.combination import combine_separate_fits
from fieldfit.refinement.optimal import optimal_asymptotics
from fieldfit.refinement.planned import PlannedStage, PlanSetting, SkippedError
from fieldfit.refinement.refined import Account
from fieldfit.refinement.second_stage import FirstFit, RefinedEstimate, SecondStage, TheorySetting
from fieldfit.refinement.separate_fits import HeldNodes, ShardedNodes
from fieldfit.shards.problem import ShardedProblem
from fieldfit.types import DataError, PolicyError


@dataclass(frozen=True)
class Nodewise(SecondStage):
    """log p(x_j | x_−j) maximised for each variable j alone, with parameters of its own, and the estimates combined.

    The first stage is PL1, of which no joint fit is made.
    """

    examples: ClassVar[tuple[str, ...]] = ("Nodewise >> optimal",)
    first_word: ClassVar[str] = "Nodewise"
    fits_first: ClassVar[bool] = False
    takes_pieces: ClassVar[bool] = True
    refused_options: ClassVar[tuple[str, ...]] = ("sigma2", "l1", "group_l1", "weights")
    account: ClassVar[type[Account]] = Account

    def __str__(self) -> str:
        return "optimal"

    @classmethod
    def read(cls, reader: Reader) -> Nodewise | None:
        """``optimal``, after the word of the first stage."""
        if reader.word() != "optimal":
            return None
        if reader.peek("("):
            raise PolicyError(
                "Nodewise has no instruments beyond the neighbours. Write 'Nodewise >> optimal', or 'PL1 >> optimal(2)'."
            )
        return cls()

    def text(self, first: Policy) -> str:
        """The word of the first stage instead of its policy."""
        del first
        return f"{self.first_word} >> {self}"

    def refusal(self, first: Policy, option: str) -> str:
        """Why a separate fit has no such option."""
        other = first if option in ("l1", "group_l1") else f"{first} >> optimal"
        return (
            f"'{self.text(first)}' has no {option}: every variable is fitted on its own. Use '{other}' with {option}."
        )

    def fit(self, first: FirstFit) -> RefinedEstimate:
        """All separate fits, and their combination. They start from 0: a loaded fit has the same estimates to the bit."""
        what = f"'{self.text(first.bound.policy)}'"
        model, dataset = first.model.as_field(what), first.dataset
        if dataset.has_missing:
            raise DataError(
                f"{what} needs complete samples, and some values are missing. Drop or impute them, or use 'PL1', which "
                f"sums them out."
            )
        keeper = None if first.new_keeper is None else first.new_keeper()
        samples: HeldNodes | ShardedNodes
        if isinstance(first.problem, ShardedProblem):
            samples = ShardedNodes(
                model, first.problem, dataset.sample_weight, first.random_state, first.course, keeper
            )
        else:
            samples = HeldNodes(model, as_table(dataset), first.random_state, first.course, keeper)
        average, stage, work = combine_separate_fits(
            model,
            samples,
            start=np.where(first.free, 0.0, first.theta),
            free=first.free,
            random_state=first.random_state,
        )
        iterations, evaluations, products = work.tolist()
        message, stopped = f"{stage.account.steps:,} separate fits converged and were combined", ""
        if first.course.stopped is not None:
            message = f"{stage.account.steps:,} separate fits were combined"
            stopped = f"not all of them converged ({first.course.stopped.value})"
        return RefinedEstimate(stage, iterations, evaluations, products, message, average, stopped)

    def theory(self, first: Policy, setting: TheorySetting) -> Asymptotics:
        """To first order the separate estimates are linear in the scores, so the best combinations are those of PL1."""
        return optimal_asymptotics(first, setting, 1)

    def plan(self, first: Policy, setting: PlanSetting) -> PlannedStage:
        """Refused."""
        raise SkippedError(
            f"'{self.text(first)}' cannot be planned: the time of its separate fits is not known before they are made. Its "
            f"variance is that of 'PL1 >> optimal(1)'."
        )
