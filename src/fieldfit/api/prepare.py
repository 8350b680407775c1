"""From samples and a policy to a compiled problem, from which every stage of an estimation starts.

`fit` goes through four stages: **prepare** (this module) binds the policy, draws Z and compiles the problem; the weights β
are chosen, if they are automatic; **solve** maximises the objective; **assemble** makes the `Fit`. A `Prepared` holds all
that a later stage needs. Given one and an estimate θ, such a stage can evaluate scores and Hessians (``prepared.problem``),
optimise again (`solve`, from ``prepared.start``) and build a fit (`assemble`) without reading or drawing anything
again. A fit keeps its `Prepared` in ``fit.prepared``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import real_number, unmasked
from fieldfit.data.dataset import Dataset
from fieldfit.data.fingerprint import exact_fingerprint
from fieldfit.models.base import Cost, Model
from fieldfit.models.problem import Problem
from fieldfit.named import places_of_each
from fieldfit.objective import Objective
from fieldfit.penalties import Penalties
from fieldfit.policies import Policy
from fieldfit.policies.drawn_counts import draw_counts
from fieldfit.policies.policy import LARGEST_WEIGHT, BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.properties import cached_property
from fieldfit.types import BoolArray, DataError, FloatArray, IntArray, ModelError, PolicyError, WidthError

#: Number of entries that are copied at a time.
_ENTRIES_AT_A_TIME = 1 << 15


@dataclass(frozen=True)
class Prepared:
    """Compiled samples with a drawn Z, and the parameters to estimate.

    Parameters
    ----------
    model, dataset
        The model, complete, and the samples, without ``dropped_rows``. If there are counts and the policy is random, each
        has one Z, and stands for the copies of a given sample that have it.
    bound
        The policy bound to those samples.
    selection, problem
        The drawn Z, and model + samples + Z compiled.
    penalty
        The penalties of all r parameters.
    start, free
        (r,) the starting θ, with the values of the fixed parameters, and which parameters are not fixed.
    random_state
        The seed that Z was drawn with.
    dropped_rows
        The samples that were left out because their missing values cannot be summed out.
    """

    model: Model
    dataset: Dataset
    bound: BoundPolicy
    selection: Selection
    problem: Problem
    penalty: Penalties
    start: FloatArray
    free: BoolArray
    random_state: int = 0
    dropped_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def policy(self) -> Policy:
        """The policy with its weights β."""
        return self.bound.policy

    @cached_property
    def objective(self) -> Objective:
        """The penalised objective over the free parameters, without the L1 penalty, which the optimiser adds."""
        return Objective(
            self.problem,
            self.penalty.precision,
            self.start,
            self.free,
            self.dataset.sample_weight,
            self.model.feature_units,
            self.dataset.has_counts,
        )

    @property
    def scale(self) -> float:
        """The scale of the objective: Σw times the largest |β|."""
        return self.dataset.total_weight * self.bound.largest_beta

    def gradient_tolerance(self, tol: float, beta: float | None = None) -> float:
        """The largest entry of the gradient at an optimum; ``beta`` is the largest |β|, None: that of the policy."""
        return self.objective.gradient_tolerance(tol) * (self.bound.largest_beta if beta is None else beta)

    @property
    def least_weight(self) -> float:
        """The least weight of a sample in the objective that is not 0."""
        return self.dataset.least_weight * self.bound.least_beta

    @property
    def open(self) -> BoolArray:
        """Which parameters (r,) are free and have no penalty."""
        return self.free & ~self.penalty.penalised

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the samples and their weights."""
        return self.model.fingerprint(self.dataset)

    @cached_property
    def exact_fingerprint(self) -> str:
        """A hash of everything in the samples that the iterations of a fit depend on."""
        return exact_fingerprint(self.dataset)

    @property
    def division(self) -> str:
        """How the samples are divided, which decides the order of sums."""
        return "1"

    @property
    def cost(self) -> Cost | None:
        """The cost of one evaluation."""
        return self.model.selection_cost(self.selection)

    def compile(self, selection: Selection) -> Problem:
        """The same samples with another selection."""
        return self.model.compile(self.dataset, selection)

    @property
    def seen(self) -> Dataset:
        """The samples for models and policies: the samples themselves, or a small dataset that represents them."""
        return self.dataset

    @property
    def drawn(self) -> Selection:
        """The drawn Z of every sample."""
        return self.selection

    def with_policy(self, bound: BoundPolicy, start: FloatArray) -> Prepared:
        """The same samples with another policy, and another θ to start from."""
        return prepare(
            self.model,
            self.dataset,
            bound,
            penalty=self.penalty,
            start=start,
            free=self.free,
            random_state=self.random_state,
        )

    def without_penalty(self) -> Prepared:
        """The same without any penalty."""
        return replace(self, penalty=Penalties.none(len(self.free)))


def prepare(
    model: Model,
    dataset: Dataset,
    bound: BoundPolicy,
    *,
    penalty: Penalties,
    start: FloatArray,
    free: BoolArray,
    random_state: int,
    wide_rows: str = "refuse",
    drawn: Selection | None = None,
) -> Prepared:
    """Draw Z for the samples, unless it is ``drawn``, and compile them. The policy is bound again if the samples change.

    ``wide_rows`` says what to do with samples whose missing values cannot be summed out: "refuse" or "drop".
    """
    dropped: IntArray = np.empty(0, dtype=np.int64)
    if drawn is None:
        dataset, bound, selection = draw_samples(model, dataset, bound, random_state)
    else:
        selection = drawn.subset(np.arange(dataset.n), bound.families)
    try:
        problem = model.compile(dataset, selection)
    except WidthError as error:
        if error.rows is None or wide_rows == "refuse":
            raise
        dropped = error.rows
        kept = np.setdiff1d(np.arange(dataset.n), dropped)
        dataset = dataset.subset(kept)
        bound = bound.policy.bind(model.structure(dataset))
        again = not dataset.has_counts  # counts of drawn Z are those of all samples
        selection = bound.draw(random_state, 0, dataset.n) if again else selection.subset(kept, bound.families)
        problem = model.compile(dataset, selection)
    return Prepared(
        model, dataset, bound, selection, problem, penalty, start, free, int(random_state), dropped_rows=dropped
    )


def draw_samples(
    model: Model, dataset: Dataset, bound: BoundPolicy, seed: int
) -> tuple[Dataset, BoundPolicy, Selection]:
    """Draw Z, and return the samples that have one Z each, with the policy bound to them.

    With counts and a random Z each copy has its own. The copies of a sample that have the same Z are one sample, or every
    copy is one if Z can take more values than a sample has copies.
    """
    if not dataset.has_counts or bound.everything:
        return dataset, bound, bound.draw(seed, 0, dataset.n)
    assert dataset.sample_weight is not None
    drawn = draw_counts(bound, dataset.sample_weight.astype(np.int64), seed)
    if drawn is None:
        dataset = dataset.copies()
        bound = bound.policy.bind(model.structure(dataset))  # copies of sequences are separate sequences
        return dataset, bound, bound.draw(seed, 0, dataset.n)
    samples = dataset.unweighted().subset(drawn.rows)
    dataset = replace(samples, sample_weight=drawn.counts.astype(np.float64), weight_kind="counts")
    bound = bound.policy.bind(model.structure(dataset))
    return dataset, bound, drawn.selection(bound, seed)


def starting_point(
    model: Model, start: ArrayLike | None, fixed: Mapping[str, float] | None
) -> tuple[FloatArray, BoolArray]:
    """The starting θ with the fixed parameters set, and which parameters are free."""
    initial = np.zeros(model.n_parameters) if start is None else _sparsely_copied(model.check_theta(start))
    free = np.ones(model.n_parameters, dtype=bool)
    if fixed is not None and not isinstance(fixed, Mapping):
        raise ModelError(f"fixed is {fixed!r:.80}; it must be a mapping from names of parameters to values.")
    if fixed:
        try:
            places_by_name = places_of_each(list(fixed), model.parameter_names)
        except ModelError as error:
            raise ModelError(f"fixed: {error}") from None
        for (name, value), places in zip(fixed.items(), places_by_name, strict=True):
            unmasked(value, f"fixed[{name!r}]", ModelError)
            try:
                number = real_number(value)
            except (TypeError, ValueError):
                number = np.nan
            if not np.isfinite(number):
                raise ModelError(f"fixed gives {name!r:.80} the value {value!r:.80}; it must be a finite number.")
            initial[places], free[places] = number, False
        if not free.any():
            raise ModelError("All parameters are fixed; there is nothing to fit.")
    return initial, free


def _sparsely_copied(vector: FloatArray) -> FloatArray:
    """A copy without writes to blocks of zeros: the system allocates no memory for untouched pages."""
    copied = np.zeros(len(vector))
    for first in range(0, len(vector), _ENTRIES_AT_A_TIME):
        block = vector[first : first + _ENTRIES_AT_A_TIME]
        if block.any():
            copied[first : first + _ENTRIES_AT_A_TIME] = block
    return copied


def check_samples(dataset: Dataset) -> None:
    """Raise an error for samples from which variances cannot be estimated.

    The squares of the weights must not overflow, and the variance between groups needs at least two groups.
    """
    total = dataset.total_weight
    if dataset.sample_weight is not None and not 1 / LARGEST_WEIGHT <= total <= LARGEST_WEIGHT:
        raise DataError(
            f"The weights in sample_weight add up to {total:.3g}, and their squares would leave the range of numbers. "
            "Divide all weights by the largest of them."
        )
    if dataset.n_groups == 1 and dataset.n > 1:
        raise DataError(
            f"All {dataset.n:,} samples are in one group, and the variance between groups needs at least two of them. "
            "Give smaller groups, or groups=None if the samples are independent."
        )


def check_objective(prepared: Prepared) -> None:
    """Raise an error if the objective would overflow, or if it has no component, so that θ does not depend on the data."""
    prepared.bound.check_range(prepared.dataset.total_weight)
    if prepared.free.any() and prepared.selection.count() == 0:
        raise PolicyError(
            f"The policy '{prepared.policy}' selected no component of any of the {prepared.dataset.n:,} samples, so there "
            "is nothing to fit. Use larger selection probabilities or another random_state."
        )
