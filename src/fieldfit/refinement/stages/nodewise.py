"""``Nodewise >> optimal``: separate fits of the variables, combined without a joint fit (`combination`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fieldfit.data.samples import as_table
from fieldfit.models.field import FieldModel
from fieldfit.objective import Objective
from fieldfit.policies import Policy
from fieldfit.policies.families import Components
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.text import Reader
from fieldfit.refinement.combination import combine
from fieldfit.refinement.planned import PlannedStage, PlanSetting, StageSkippedError
from fieldfit.refinement.refined import Account
from fieldfit.refinement.second_stage import F, FirstFit, SecondStage, TheorySetting, Work
from fieldfit.refinement.theory import optimal_asymptotics
from fieldfit.types import BoolArray, DataError, FloatArray, ModelError, PolicyError
from fieldfit.variance import Asymptotics
from fieldfit.variance.separation import separated_parameters

#: Gradient for each sample at which a separate fit has converged, and its iterations at most.
_TOL, _MOST_ITERATIONS = 1e-6, 1000


@dataclass(frozen=True)
class Nodewise(SecondStage):
    """log p(x_j | x_−j) maximised for each variable j alone, with parameters of its own, and the estimates combined.

    The first stage is PL1, of which no joint fit is made.
    """

    examples: ClassVar[tuple[str, ...]] = ("Nodewise >> optimal",)
    first_word: ClassVar[str] = "Nodewise"
    fits_first: ClassVar[bool] = False
    refused_options: ClassVar[tuple[str, ...]] = ("sigma2", "l1", "weights", "backend", "shards")
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
        return (
            f"'{self.text(first)}' has no {option}: every variable is fitted on its own. Use '{first} >> optimal' with "
            f"{option}."
        )

    def fit(self, first: F) -> F:
        """All separate fits, and their combination. They start from 0: a loaded fit has the same estimates to the bit."""
        what = f"'{self.text(first.bound.policy)}'"
        model, dataset = first.model.as_field(what), as_table(first.dataset)
        if dataset.has_missing:
            raise DataError(
                f"{what} needs complete samples, and some values are missing. Drop or impute them, or use 'PL1', which "
                f"sums them out."
            )
        start = np.where(first.free, 0.0, first.theta)
        work = np.zeros(3, dtype=np.int64)

        def fit_node(node: int, own: BoolArray) -> FloatArray:
            theta, spent = _fit_node(first, model, start, node, own)
            work[:] += spent
            return theta

        average, stage = combine(
            model, dataset, fit_node, start=start, free=first.free, random_state=first.random_state
        )
        message = f"{stage.account.steps:,} separate fits converged and were combined"
        return first.refined(self, stage, Work(*work.tolist()), message, average)

    def asymptotics(self, first: Policy, setting: TheorySetting) -> Asymptotics:
        """To first order the separate estimates are linear in the scores, so the best combinations are those of PL1."""
        return optimal_asymptotics(first, setting, 1)

    def plan(self, first: Policy, setting: PlanSetting) -> PlannedStage:
        """Refused."""
        raise StageSkippedError(
            f"'{self.text(first)}' cannot be planned: the time of its separate fits is not known before they are made. Its "
            f"variance is that of 'PL1 >> optimal(1)'."
        )


def _fit_node(
    first: FirstFit, model: FieldModel, start: FloatArray, node: int, own: BoolArray
) -> tuple[FloatArray, tuple[int, int, int]]:
    """θ with the estimates of one variable's regression, and its iterations, evaluations and Hessian products."""
    dataset = first.dataset
    rest = tuple(v for v in range(model.m) if v != node)
    family = model.structure().bind_family(Components((((node,), rest),)))
    problem = model.compile(dataset, Selection(dataset.n, (FamilySelection(family, 1.0),)))
    precision = first.penalty.precision
    objective = Objective(problem, precision, start, own, dataset.sample_weight, model.feature_units)
    solution = objective.minimise(
        gtol=_TOL * dataset.total_weight, max_iter=_MOST_ITERATIONS, seed=first.random_state
    )
    no_penalty, names = np.zeros(len(own), dtype=bool), model.parameter_names
    separated = separated_parameters(
        objective.hessian_product, own, solution.x, no_penalty, names, objective.units, model.determined_contrasts
    )
    if separated or not solution.converged:
        reason = f"its optimum is at infinity for {', '.join(separated[:3])}" if separated else solution.message
        raise ModelError(
            f"'Nodewise >> optimal': the separate fit of the variable {model.names[node]} has no finite estimate "
            f"({reason}). Use 'PL1 >> optimal', whose joint fit needs less data, with sigma2 if it separates too."
        )
    spent = solution.iterations, solution.evaluations, solution.hessian_products
    return objective.full(solution.x).copy(), spent
