"""What a second stage is: the one interface behind ``A >> optimal``, ``A >> FL``, ``A >> FL~10000`` and others.

A `SecondStage` says how its text reads and prints, how it refines a fit, its asymptotic variance, how it is planned and
what it refuses. Each is a class in a file of its own in `fieldfit.refinement.stages`, found by `second_stages`; nothing
else knows which ones there are. There is a skeleton in `docs/skeletons/stages`, and contract tests run over ``examples``.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np

from fieldfit.asymptotics.meat import ScoreStream
from fieldfit.policies.policy import Policy
from fieldfit.refinement.course import Course
from fieldfit.types import BoolArray, DataError, FloatArray, Int32Array, IntArray, PolicyError

if TYPE_CHECKING:
    from fieldfit.asymptotics import Accuracy, Asymptotics
    from fieldfit.asymptotics.meat import ScoreVariance
    from fieldfit.data.dataset import Dataset
    from fieldfit.models.base import Model
    from fieldfit.models.field import FieldModel
    from fieldfit.models.problem import Problem
    from fieldfit.optim.keeping import Keeper
    from fieldfit.penalties import Penalties
    from fieldfit.policies.laws.base import Law
    from fieldfit.policies.policy import BoundPolicy
    from fieldfit.policies.selection import Selection
    from fieldfit.policies.text import Reader
    from fieldfit.refinement.planned import PlannedStage, PlanSetting, SkippedError
    from fieldfit.refinement.specification import SpecificationTest
    from fieldfit.refinement.staged import Staged


class StageAccount(Protocol):
    """How a second stage went: a dataclass of plain values that a file can hold."""

    @property
    def accepted(self) -> bool:
        """Whether the estimate is the second stage's, and not the first's."""

    @property
    def seconds(self) -> float:
        """The time that it took."""

    def lines(self, second: str) -> list[str]:
        """The second stage in words."""


class EstimatingScores(ScoreStream, Protocol):
    """The estimating functions ψ of samples, whose sum is 0 at the estimate (without a penalty)."""

    def scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """ψ of some samples (rows, r)."""


class StageFit(Protocol):
    """The estimate of a second stage with its samples: scores, accuracy and Hansen's test."""

    @property
    def theta(self) -> FloatArray:
        """The estimate (r,)."""

    @property
    def account(self) -> StageAccount:
        """How it went."""

    @property
    def testable(self) -> bool:
        """Whether Hansen's test is available."""

    @property
    def scores(self) -> EstimatingScores:
        """ψ of the fitted samples."""

    def scores_of_new(self, codes: Int32Array) -> EstimatingScores:
        """ψ of other samples, expected over Z."""

    def accuracy(self, variance: ScoreVariance, active: BoolArray, units: FloatArray | None) -> Accuracy:
        """Bread and meat from the data, valid for any weights, and outside the model too."""

    def model_accuracy(self, counts: bool, active: BoolArray, units: FloatArray | None) -> Accuracy:
        """The same expected under the estimate; ``counts`` says whether sample weights are counts."""

    def specification_test(self, n: float) -> SpecificationTest:
        """Hansen's J with ``n`` effective samples."""


@dataclass(frozen=True)
class FirstFit:
    """The fit of a first stage as a second stage sees it.

    ``seen`` is what models and policies see of the samples: ``dataset`` itself, or a small one where it is in pieces.
    ``selection`` is the drawn Z, ``problem`` model, samples and Z compiled, and ``free`` (r,) says what is not fixed.
    ``new_keeper`` makes what keeps the state of a second stage of many steps, where that is wanted. ``course`` bounds and
    reports the stage's iterations.
    """

    model: Model
    dataset: Dataset
    seen: Dataset
    bound: BoundPolicy
    selection: Selection
    problem: Problem
    theta: FloatArray
    free: BoolArray
    penalty: Penalties
    random_state: int
    new_keeper: Callable[[], Keeper] | None = None
    course: Course = field(default_factory=Course)

    def bind(self, policy: Policy) -> BoundPolicy:
        """Another policy bound to the samples."""
        return policy.bind(self.model.structure(self.seen))


@dataclass(frozen=True)
class RefinedEstimate:
    """The estimate of a second stage, and the work beside that of the first.

    ``message`` and ``first_theta`` (r,) say how the first stage went, where the second makes that too. ``stopped`` says
    how the stage was cut off, before it had converged; empty: it was not.
    """

    stage: StageFit
    iterations: int = 0
    evaluations: int = 0
    hessian_products: int = 0
    message: str = ""
    first_theta: FloatArray | None = None
    stopped: str = ""

    @classmethod
    def of_steps(cls, stage: StageFit, course: Course) -> RefinedEstimate:
        """The estimate of a stage of steps, which ``course`` may have cut off."""
        return cls(stage, stopped="" if course.stopped is None else f"second stage {course.stopped.value}")


@dataclass(frozen=True)
class TheorySetting:
    """Where an asymptotic variance is computed: a model at θ, and how expectations are made.

    ``method``, ``n_simulated`` and ``random_state`` are those of `theory`, and ``of_policy`` is its result for a
    policy of one stage.
    """

    model: FieldModel
    theta: FloatArray
    method: str
    n_simulated: int
    random_state: int
    of_policy: Callable[[Policy], Asymptotics]


class SecondStage(ABC):
    """What refines the estimate of a first stage: a frozen dataclass whose fields are those of its text.

    Attributes
    ----------
    examples : estimators with both stages, over which the contract tests run
    first_word : the word that stands for the first stage, where that is no policy
    fits_first : whether the first stage's policy is fitted before, or only compiled
    only_starts : whether the first estimate is only where the second stage starts, and need not be accurate
    takes_pieces : whether the samples may be in pieces, in files or on other machines
    draws_copies : whether the stage draws a Z of its own, so that every copy of a sample with a count is a sample
    planned_early : whether plans need no policy but the first for it, and plan it before they compare other families
    refused_options : options of `fit` that have no meaning here
    account : the class of the account, for files; None where the result is an ordinary fit of another policy
    """

    examples: ClassVar[tuple[str, ...]] = ()
    first_word: ClassVar[str] = ""
    fits_first: ClassVar[bool] = True
    only_starts: ClassVar[bool] = False
    takes_pieces: ClassVar[bool] = False
    draws_copies: ClassVar[bool] = False
    planned_early: ClassVar[bool] = False
    refused_options: ClassVar[tuple[str, ...]] = ()
    account: ClassVar[Callable[..., StageAccount] | None] = None

    @classmethod
    def read(cls, reader: Reader) -> Self | None:
        """The stage that the text after ``>>`` begins with, or None where that is none of this kind."""
        del reader
        return None

    @classmethod
    def of_policy(cls, policy: Policy) -> Self | None:
        """The stage of a text that is a policy, or None where this kind is not for it."""
        del policy
        return None

    def text(self, first: Policy) -> str:
        """The estimator with both stages."""
        return f"{first} >> {self}"

    def check_options(self, first: Policy, options: Mapping[str, object]) -> None:
        """Refuse options of `fit` that have no meaning here."""
        for name in self.refused_options:
            if options[name] is not None:
                raise PolicyError(self.refusal(first, name))

    def refusal(self, first: Policy, option: str) -> str:
        """The sentence about an option that has no meaning here."""
        return f"'{self.text(first)}' has no {option}. Leave {option} out, or fit '{first}' alone."

    def evaluates(self, first: Policy) -> tuple[Policy, ...]:
        """The policies that both stages evaluate: moment conditions take the conditional probabilities of the first."""
        return first, first

    def planned_policies(self, first: Policy) -> tuple[Policy, ...]:
        """The policies whose moments a plan must know before."""
        return (first,)

    def condition_count(self, model: FieldModel, first: Policy) -> int:
        """How many moment conditions it combines."""
        del model
        raise PolicyError(
            f"'{self.text(first)}' has no fixed number of moment conditions; give a graph distance, as in "
            f"'PL1 >> optimal(2)'."
        )

    @abstractmethod
    def fit(self, first: FirstFit) -> RefinedEstimate | Policy:
        """The refined estimate; or a policy, whose objective is maximised from the first estimate."""

    @abstractmethod
    def theory(self, first: Policy, setting: TheorySetting) -> Asymptotics:
        """The asymptotic variance, or PolicyError where it has none."""

    @abstractmethod
    def plan(self, first: Policy, setting: PlanSetting) -> PlannedStage:
        """The stage at a pilot's θ; `SkippedError` where it cannot be planned or would take too long."""

    @classmethod
    def usual(
        cls, first: Policy, starts: Sequence[Policy], setting: PlanSetting, skipped: dict[Law | Staged, SkippedError]
    ) -> Iterator[PlannedStage]:
        """The stages of this kind that a plan compares by default.

        They refine ``first``, or start from one of ``starts``; ``skipped`` gets those that are not planned.
        """
        del first, starts, setting, skipped
        return iter(())


@cache
def second_stages() -> tuple[type[SecondStage], ...]:
    """All kinds of second stages, found in the files of `fieldfit.refinement.stages`, by name."""
    package = importlib.import_module("fieldfit.refinement.stages")
    kinds = []
    for entry in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{entry.name}")
        kinds += [
            value
            for key, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, SecondStage) and key.lower() == entry.name
        ]
    return tuple(kinds)


def field_of(first: FirstFit, what: str) -> FieldModel:
    """The model of a first stage, if its samples, which may be in pieces, can have a second stage of moment conditions."""
    model = first.model.as_field(what)
    if first.dataset.has_missing:
        raise DataError(
            f"{what} needs complete samples, and some values are missing. Drop or impute them, or use a policy whose "
            f"likelihood sums them out: '{first.bound.policy} >> FL', or one stage."
        )
    refuse_l1(first, what)
    return model


def refuse_l1(first: FirstFit, what: str) -> None:
    """PolicyError where the first stage has an L1 penalty."""
    l1 = first.penalty.l1
    if l1 is not None and np.any(l1[first.free] > 0):
        raise PolicyError(
            f"{what} has no L1 penalty: fit again without it and with the parameters fixed that it has set to 0."
        )
