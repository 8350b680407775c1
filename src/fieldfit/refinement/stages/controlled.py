"""``A >> λ*B``: B's scores on a random part of the samples, with A's scores as control variates.

Z selects samples with probability λ. The conditions are (1 − Z)ψ_A, Zψ_A and Zψ_B, whole scores of r entries each. Their
best weights have the information (1 − λ)·G_A + λ·G_AB, with G_A = J_A K_A⁻¹ J_A that of A and G_AB that of both scores
together, which is Fisher's information where B is the full likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from fieldfit.asymptotics import Asymptotics
from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.models.problem import Problem
from fieldfit.policies.policy import BoundPolicy, Policy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.refinement.conditions import Blocks, Conditions, Sums, scaled
from fieldfit.refinement.optimal import optimal_asymptotics, refine_densely
from fieldfit.refinement.planned import PlanSetting, SkippedError
from fieldfit.refinement.planned_conditions import PlannedConditions, field_rows, weighed_stage
from fieldfit.refinement.refined import Account
from fieldfit.refinement.second_stage import FirstFit, RefinedEstimate, SecondStage, TheorySetting, field_of
from fieldfit.refinement.stacking import BLOCK_NUMBERS, Masking, Stack
from fieldfit.refinement.staged import Staged
from fieldfit.refinement.stages.maximised import is_random, one_component
from fieldfit.types import FloatArray, Int32Array, PolicyError


@dataclass(frozen=True)
class Controlled(SecondStage):
    """A policy with one component for each sample, which is selected with a probability below 1."""

    policy: Policy
    takes_pieces: ClassVar[bool] = True
    draws_copies: ClassVar[bool] = True
    examples: ClassVar[tuple[str, ...]] = ("PL1 >> 0.2*FL", "PL1 >> 0.5*FL/row")
    account: ClassVar[type[Account]] = Account

    def __str__(self) -> str:
        return str(self.policy)

    @classmethod
    def of_policy(cls, policy: Policy) -> Controlled | None:
        """The stage, for policies with a selection probability below 1."""
        return cls(policy) if is_random(policy) else None

    def evaluates(self, first: Policy) -> tuple[Policy, ...]:
        """Both."""
        return first, self.policy

    def fit(self, first: FirstFit) -> RefinedEstimate:
        """With the drawn Z."""
        model, bound = field_of(first, f"'{self.text(first.bound.policy)}'"), first.bind(self.policy)
        given = control_stack(model, first.bound, bound)
        return RefinedEstimate.of_steps(refine_densely(first, model, given=given, drawn=bound), first.course)

    def theory(self, first: Policy, setting: TheorySetting) -> Asymptotics:
        """The inverse information of the conditions."""
        structure = setting.model.structure()
        given = control_stack(setting.model, first.bind(structure), self.policy.bind(structure))
        return optimal_asymptotics(first, setting, 1, given)

    def plan(self, first: Policy, setting: PlanSetting) -> PlannedConditions:
        """The conditions with their weights."""
        staged = Staged(first, self)
        model, rows = field_rows(staged, setting)
        structure = model.structure(rows)
        bound, second = first.bind(structure), self.policy.bind(structure)
        try:
            given = control_stack(model, bound, second)
        except PolicyError as error:
            raise SkippedError(f"{staged}: skipped. {error}") from error
        return weighed_stage(staged, setting, bound, 1, second.draw(setting.random_state, 0, rows.n), given)


class ControlConditions(Conditions):
    """(1 − Z)ψ_A, Zψ_A and Zψ_B; ``mask`` has the columns 1 − Z, Z and Z."""

    def __init__(self, model: FieldModel, first: BoundPolicy, second: BoundPolicy) -> None:
        from scipy.sparse import eye_array, hstack

        self.model = model
        self._policies = (first, second)
        r = model.n_parameters
        self.component = np.repeat(np.arange(3), r)
        self.distance = np.ones(3 * r, dtype=np.int64)
        self.score_coefficients = hstack([eye_array(r), eye_array(r), 0.0 * eye_array(r)], format="csr")
        self.block_rows = max(64, BLOCK_NUMBERS // self.size)

    def _problems(self, codes: Int32Array) -> list[Problem]:
        table = Table(np.ascontiguousarray(codes), self.model.names, self.model.states)
        return [
            self.model.compile(
                table,
                Selection(len(codes), tuple(FamilySelection(f, b) for f, b in zip(p.families, p.betas, strict=True))),
            )
            for p in self._policies
        ]

    def value_blocks(self, codes: Int32Array, theta: FloatArray, *, single: bool = False) -> Blocks:
        """Stream g without Z as (samples, block (k, p))."""
        del single
        first, second = self._problems(codes)
        for samples in self.row_blocks(len(codes)):
            first_scores, second_scores = (
                problem.scores(theta, samples.start, samples.stop) for problem in (first, second)
            )
            yield samples, np.concatenate([first_scores, first_scores, second_scores], axis=1)

    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i Z_ic g_i (p,)."""
        return partial(_gradients, list(self._weighted(codes, weight, mask)))

    def derivative(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None = None, mask: FloatArray | None = None
    ) -> FloatArray:
        """Σ_i w_i Z_ic ∂g_i/∂θ (p, n_parameters)."""
        parts = [p.hessian_matrix(theta, w) for p, w in self._weighted(codes, weight, mask)]
        return np.concatenate(parts)

    def _weighted(
        self, codes: Int32Array, weight: FloatArray | None, mask: FloatArray | None
    ) -> Iterator[tuple[Problem, FloatArray | None]]:
        first, second = self._problems(codes)
        for place, problem in enumerate((first, first, second)):
            yield problem, scaled(weight, mask, place)


def _gradients(parts: Sequence[tuple[Problem, FloatArray | None]], theta: FloatArray) -> FloatArray:
    return np.concatenate([problem.value_grad(theta, weight)[1] for problem, weight in parts])


@dataclass(frozen=True)
class ControlStack(Stack):
    """The conditions with the law of Z."""

    @property
    def masking(self) -> Masking:
        """Of a drawn selection of the second policy."""
        return control_columns


def control_columns(selection: Selection) -> FloatArray:
    """The columns 1 − Z, Z and Z (n, 3) of a drawn selection."""
    chosen = selection.parts[0].any_row(selection.n).astype(np.float64)
    return np.stack([1 - chosen, chosen, chosen], axis=1)


def control_stack(model: FieldModel, first: BoundPolicy, second: BoundPolicy) -> ControlStack:
    """The conditions with the law of Z; both policies must suit."""
    if not first.everything:
        raise PolicyError(
            f"'{first.policy} >> {second.policy}' needs a first stage that uses every sample: its scores are the control "
            f"variates. Write it without a selection probability."
        )
    lams = [float(np.ravel(lam)[0]) for lam in second.lams()]
    if len(lams) != 1 or second.families[0].size != 1:
        raise PolicyError(one_component(first.policy, second.policy))
    lam = lams[0]
    conditions = ControlConditions(model, first, second)
    mean = np.array([1 - lam, lam, lam])
    moment = np.diag(mean)
    moment[1, 2] = moment[2, 1] = lam
    return ControlStack(conditions, conditions.score_coefficients.toarray(), mean, moment, 0)
