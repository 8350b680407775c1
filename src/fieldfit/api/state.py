"""The fields of a `Fit`: the estimate, its inputs, and how it was computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fieldfit.api.prepare import Prepared
from fieldfit.api.refinement import Refinement
from fieldfit.asymptotics import Moments
from fieldfit.asymptotics.debiased import PenalisedStart
from fieldfit.asymptotics.separation import concerned_by
from fieldfit.data.alignment_record import AlignmentRecord
from fieldfit.data.dataset import Dataset
from fieldfit.data.encoders import Encoder
from fieldfit.models.base import Cost, Model
from fieldfit.models.problem import Problem
from fieldfit.objective import Objective
from fieldfit.optim import Progress, Solution, Status
from fieldfit.optim.choose import Method
from fieldfit.optim.solution import DEFAULT_MAX_ITER, DEFAULT_TOL
from fieldfit.penalties import Penalties
from fieldfit.policies import Policy
from fieldfit.properties import cached_property
from fieldfit.refinement.second_stage import EstimatingScores
from fieldfit.refinement.staged import Staged, as_second
from fieldfit.types import BoolArray, DataError, FloatArray, IntArray
from fieldfit.weights import WeightsResult
from fieldfit.words import counted

#: Most iterations in the history of a fit.
MOST_KEPT_ITERATIONS = 500


@dataclass(frozen=True)
class Convergence:
    """How an optimisation ended and what it cost.

    ``objective`` is the maximised penalised log-likelihood (a sum over samples), ``gradient_norm`` the largest entry of its
    gradient; ``seconds`` is the time of the whole fit; ``method``, ``tol`` and ``max_iter`` are those that the user chose.
    ``history`` has at most `MOST_KEPT_ITERATIONS` iterations; its values are those of the optimiser, which minimises.
    """

    converged: bool
    interrupted: bool
    message: str
    objective: float
    gradient_norm: float
    iterations: int
    evaluations: int
    hessian_products: int
    seconds: float
    method: Method = "auto"
    tol: float | Literal["statistical"] = DEFAULT_TOL
    max_iter: int = DEFAULT_MAX_ITER
    history: tuple[Progress, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(
        cls,
        solution: Solution,
        weights: WeightsResult | None,
        seconds: float,
        method: Method,
        tol: float | Literal["statistical"],
        max_iter: int,
    ) -> Convergence:
        """The work of a solution and of the preceding search for automatic weights."""
        work = None if weights is None else weights.work
        return cls(
            solution.converged,
            solution.status is Status.INTERRUPTED,
            solution.message,
            -solution.value,
            solution.gradient_norm,
            solution.iterations + (0 if work is None else work.iterations),
            solution.evaluations + (0 if work is None else work.evaluations),
            solution.hessian_products + (0 if work is None else work.hessian_products),
            seconds,
            method,
            tol,
            max_iter,
            solution.history[:: 1 + len(solution.history) // MOST_KEPT_ITERATIONS],
        )


@dataclass(frozen=True)
class SampleSize:
    """How many samples were fitted.

    ``n`` is the number of rows, ``total`` the number of samples that they represent, and ``unit_weight`` the weight
    of one of those (see `Dataset`): Σw = total × unit_weight. ``weighted`` says whether there are weights, ``counts``
    whether they are counts. ``groups`` is the number of groups, None where samples are independent.
    """

    n: int
    total: float
    unit_weight: float = 1.0
    weighted: bool = False
    counts: bool = False
    groups: int | None = None

    @classmethod
    def of(cls, dataset: Dataset) -> SampleSize:
        """The size of a dataset."""
        weighted = dataset.sample_weight is not None
        return cls(
            dataset.n,
            dataset.effective_size,
            dataset.unit_weight,
            weighted,
            dataset.has_counts,
            dataset.n_groups,
        )

    @property
    def single(self) -> bool:
        """Whether all weight is on one row."""
        return self.n == 1 or (self.weighted and not self.counts and self.total < 1 + 1e-9)

    def __str__(self) -> str:
        groups = "" if self.groups is None else f" in {self.groups:,} groups"
        if self.counts:
            return f"{self.total:,.0f} samples ({self.n:,} rows with counts){groups}"
        if not self.weighted or np.isclose(self.total, self.n, rtol=1e-9):
            return f"{counted(self.n, 'samples')}{groups}"
        return f"{self.n:,} weighted samples (effective size {self.total:,.1f}){groups}"


@dataclass(frozen=True)
class Saved:
    """The data of a file that replace the samples.

    Bread and meat (for few parameters), the samples' fingerprint and cost, and which parameters only a penalty keeps
    finite.
    """

    moments: Moments | None = None
    fingerprint: str = ""
    cost: Cost | None = None
    held: BoolArray | None = None


@dataclass(frozen=True, repr=False)
class FitState:
    """The fields of a fit, and what follows from them at once.

    Parameters
    ----------
    model, policy, theta
        The model, complete; the policy with its weights β; the estimate (r,).
    free
        (r,) which parameters were not fixed.
    penalty, size, convergence
        The penalties, the number of samples and how the optimisation went. Their fields are attributes of the fit too.
    random_state
        The seed of Z.
    separated
        The names of parameters whose optimum lies at infinity.
    dropped_rows
        Samples that were left out because their missing values cannot be summed out.
    weights
        How automatic weights were chosen, if they were.
    encoder
        How text became the fitted sequences.
    prepared
        The samples with the drawn Z, compiled; None for a fit that was loaded without its samples.
    saved
        The information on its samples in a loaded fit.
    refinement
        The second stage, if it combines moment conditions; ``policy`` is then the first.
    started_from
        The policy of the first stage, if the second was Newton steps on ``policy``.
    step_from
        The penalised estimate that one Newton step started from, if the fit is debiased.
    runaway
        A sentence, if simulated samples of the model drift away from the data.
    command
        The command that made the fit, if one did.
    alignment
        The alignment of a family without its sequences, for a fit of a family.
    """

    model: Model
    policy: Policy
    theta: FloatArray
    free: BoolArray
    penalty: Penalties
    size: SampleSize
    convergence: Convergence
    random_state: int
    separated: tuple[str, ...] = ()
    dropped_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    weights: WeightsResult | None = field(default=None, compare=False)
    encoder: Encoder | None = field(default=None, compare=False)
    prepared: Prepared | None = field(default=None, compare=False)
    saved: Saved = field(default=Saved(), compare=False)
    refinement: Refinement | None = field(default=None, compare=False)
    started_from: Policy | None = None
    step_from: PenalisedStart | None = field(default=None, compare=False)
    runaway: str = ""
    command: str = ""
    alignment: AlignmentRecord | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        # Compiled taggers and kept errors belong to this θ: it does not change in place.
        theta = self.theta.view()
        theta.flags.writeable = False
        object.__setattr__(self, "theta", theta)

    # --- the parts, by the names that users know ----------------------------------------------------------------------

    @property
    def sigma2(self) -> FloatArray:
        """σ² of each parameter's Gaussian penalty (r,); infinity is no penalty."""
        return self.penalty.sigma2

    @property
    def l1(self) -> FloatArray | None:
        """The weights of the L1 penalty (r,), or None."""
        return self.penalty.l1 if self.penalty.l1_groups is None else None

    @property
    def group_l1(self) -> float | None:
        """The weight of the penalty on norms of tables of couplings, or None."""
        return None if self.penalty.l1_groups is None or self.penalty.l1 is None else float(self.penalty.l1.max())

    @property
    def n(self) -> int:
        """The number of rows (or sequences)."""
        return self.size.n

    @property
    def total(self) -> float:
        """The number of samples behind the fit: n, the sum of the counts, or the effective size of importance weights."""
        return self.size.total

    @property
    def unit_weight(self) -> float:
        """The weight of one of the ``total`` samples."""
        return self.size.unit_weight

    @property
    def counts(self) -> bool:
        """Whether the sample weights are counts."""
        return self.size.counts

    @property
    def objective_scale(self) -> float:
        """Σw times the largest abs(β): the gradient divided by it is compared with ``tol``."""
        largest = max((float(np.abs(beta).max()) for beta in self.policy.betas), default=0.0)
        return self.size.total * self.size.unit_weight * largest

    @property
    def converged(self) -> bool:
        """Whether the optimiser has converged."""
        return self.convergence.converged

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit: θ is the estimate of that moment."""
        return self.convergence.interrupted

    @property
    def message(self) -> str:
        """Why the optimiser stopped."""
        return self.convergence.message

    @property
    def objective(self) -> float:
        """The maximised penalised log-likelihood, a sum over samples."""
        return self.convergence.objective

    @property
    def gradient_norm(self) -> float:
        """The largest entry of the objective's gradient at θ̂."""
        return self.convergence.gradient_norm

    @property
    def iterations(self) -> int:
        """Iterations of the optimiser, those for automatic weights included."""
        return self.convergence.iterations

    @property
    def evaluations(self) -> int:
        """Evaluations of the objective with its gradient."""
        return self.convergence.evaluations

    @property
    def hessian_products(self) -> int:
        """Products of the Hessian with a vector."""
        return self.convergence.hessian_products

    @property
    def seconds(self) -> float:
        """The time of the whole fit in seconds."""
        return self.convergence.seconds

    @cached_property
    def composite_log_likelihood(self) -> float:
        """Composite log-likelihood Σ_i w_i m_θ̂(X_i, Z_i) without the penalty.

        Importance weights are scaled to sum to ``total``.
        """
        return (self.objective + self.penalty.value(self.theta, self.free)) / self.unit_weight

    # --- the samples ----------------------------------------------------------------------------------------------------

    @property
    def needed(self) -> Prepared:
        """The samples with the drawn Z, compiled; DataError for a fit that was loaded from a file."""
        if self.prepared is None:
            raise DataError(
                "This fit was loaded from a file, which does not contain the samples, and they are needed here. Give them "
                "again: load(path, data)."
            )
        return self.prepared

    @property
    def dataset(self) -> Dataset | None:
        """The samples that were fitted; None for a fit that was loaded from a file."""
        return None if self.prepared is None else self.prepared.dataset

    @property
    def objective_function(self) -> Objective | None:
        """The objective as a function of the free parameters; None for a fit that was loaded from a file."""
        return None if self.prepared is None else self.prepared.objective

    @property
    def problem(self) -> Problem:
        """The fitted samples with the drawn Z, compiled."""
        return self.needed.problem

    @property
    def row_weight(self) -> FloatArray | None:
        """The sample weights (n,), or None."""
        return self.needed.dataset.sample_weight

    @property
    def cost(self) -> Cost | None:
        """The cost of one evaluation, for fields."""
        return self.saved.cost if self.prepared is None else self.prepared.cost

    # --- the second stage -----------------------------------------------------------------------------------------------

    @property
    def estimator(self) -> Policy | Staged:
        """The policy, with its second stage if there is one."""
        if self.started_from is not None:
            return Staged(self.started_from, as_second(self.policy))
        return self.policy if self.refinement is None else Staged(self.policy, self.refinement.second)

    @property
    def refined(self) -> bool:
        """Whether the estimate is that of a second stage (False if it was not accepted)."""
        return self.refinement is not None and self.refinement.accepted

    @property
    def has_no_spread(self) -> bool:
        """Whether there is one sample, without located terms of its score, which is 0 at the estimate."""
        located = self.model.has_graph and not (self.refined or self.size.weighted or self.size.groups is not None)
        return self.size.single and not located

    @property
    def testable(self) -> bool:
        """Whether Hansen's test is available: dense weights, several independent samples and no penalty."""
        if self.refinement is None or self.penalised:
            return False
        if self.size.groups is not None or self.size.single:
            return False
        working = self.refinement.working
        return self.refinement.saved_test is not None or (working is not None and working.testable)

    @property
    def scores_source(self) -> Problem | EstimatingScores:
        """What streams the scores ψ of the fitted samples."""
        if not self.refined or self.refinement is None:
            return self.problem
        return self.refinement.needed.scores

    # --- the parameters -------------------------------------------------------------------------------------------------

    @property
    def parameter_names(self) -> list[str]:
        """A name for each entry of θ."""
        return list(self.model.parameter_names)

    @property
    def penalised(self) -> bool:
        """Whether any free parameter has a penalty."""
        return bool(np.any(self.penalty.penalised[self.free]))

    @property
    def only_weights(self) -> bool:
        """Whether θ was learned without a likelihood or comes from another program, so that nothing else is known."""
        return not self.size.n

    @cached_property
    def zeroed(self) -> BoolArray:
        """Which parameters (r,) the L1 penalty, of single parameters or of groups, has set to exactly 0."""
        l1 = self.penalty.l1
        if l1 is None:
            return np.zeros(len(self.theta), dtype=bool)
        return np.asarray(self.free & (l1 > 0) & (self.theta == 0))

    @property
    def active(self) -> BoolArray:
        """Which parameters (r,) were estimated: free, and not set to 0 by the L1 penalty.

        Standard errors are for these parameters, as if the zeros had been fixed: on this set the L1 penalty is
        linear, so it does not enter the bread, and a small change of the data does not change the zeros. The
        curvature of group norms is omitted, so errors are those of the selected tables without that penalty, and a
        little too large.
        """
        return self.free & ~self.zeroed

    @cached_property
    def held(self) -> BoolArray:
        """Which parameters (r,) only a penalty keeps finite, because some joint state never occurs in the samples.

        They have no robust standard error, since the samples have no spread there.
        """
        if self.saved.held is not None:
            return self.saved.held
        penalised = self.active & self.penalty.penalised
        if self.prepared is None or not penalised.any():
            return np.zeros(len(self.theta), dtype=bool)
        directions = self.model.boundary_directions(self.prepared.dataset)
        return concerned_by(directions, self.active, penalised)

    @cached_property
    def at_infinity(self) -> BoolArray:
        """Which parameters (r,) have their optimum at infinity."""
        away = set(self.separated)
        if not away:
            return np.zeros(len(self.theta), dtype=bool)
        return np.array([name in away for name in self.model.parameter_names], dtype=bool)
