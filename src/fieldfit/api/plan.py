"""`plan`: which policy is most accurate for a given budget."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.api.fitting import fit
from fieldfit.api.functionals import NamedFunctionals
from fieldfit.api.runaway import drift_of
from fieldfit.api.sharded import DROPS_IN_ONE_PROCESS, Place, read_placed, shown
from fieldfit.arguments import number_from_zero, one_of, positive_number, seed
from fieldfit.data.dataset import Dataset
from fieldfit.data.memory import told_lack
from fieldfit.data.samples import Table
from fieldfit.models.base import Model, check_model
from fieldfit.models.field_compiler import too_wide
from fieldfit.optim.solution import DEFAULT_TOL
from fieldfit.penalties import ByParameter, Penalties
from fieldfit.planner.calibration import calibration
from fieldfit.planner.costs import MOST_TIMED
from fieldfit.planner.pilot import PILOT_POLICY, plain_problem
from fieldfit.planner.planning import check_enough, make_plan
from fieldfit.planner.request import Request, Shards, Target
from fieldfit.planner.result import Plan
from fieldfit.policies import Policy
from fieldfit.refinement.staged import Staged, as_estimator
from fieldfit.shards.backend import Placed
from fieldfit.shards.pieces import advice_for_memory
from fieldfit.shards.problem import has_operator
from fieldfit.shards.shard import Given, Recipe, Shard, Shared
from fieldfit.shards.sharded_dataset import ShardedDataset
from fieldfit.shards.tree import Answer
from fieldfit.steps import forecast
from fieldfit.types import DataError, FloatArray, IntArray, PolicyError, WidthError

#: Most samples of a shard from which its work is counted, messages of each kind that are timed, and shards whose samples
#: are sent for timing.
_MOST_COUNTED_SAMPLES, _TIMED_MESSAGES, _TIMED_PLACINGS, _SENT_SHARDS = 20_000, 9, 3, 4


def plan(
    model: Model,
    data: object,
    budget: str | float | None = None,
    *,
    flops: float | None = None,
    efficiency: float | None = None,
    policies: Sequence[Policy | Staged | str] | Policy | Staged | str | None = None,
    functionals: object = None,
    sigma2: ByParameter = None,
    sample_weight: ArrayLike | str | None = None,
    weight_kind: str = "importance",
    tol: float | Literal["statistical"] = DEFAULT_TOL,
    random_state: int = 0,
    wide_rows: str = "refuse",
    reading: float = 0.0,
    backend: object = None,
    shards: int | None = None,
) -> Plan:
    """Compare the cost and the accuracy of policies, and recommend one.

    Give at most one of ``budget``, ``flops`` and ``efficiency``. With none of them, the most accurate policy is
    recommended.

    Parameters
    ----------
    model : Model
        The model.
    data : array_like, DataFrame, str, Path or Sequences
        Samples, as in `fit`.
    budget : str, float or None, default: None
        Time for everything, including the pilot: ``"10s"``, ``"500ms"``, ``"2min"``, or a number of seconds.
    flops : float or None, default: None
        The same in the paper's FLOPs.
    efficiency : float or None, default: None
        Largest acceptable variance relative to maximum likelihood, such as 1.1. The cheapest such policy is
        recommended.
    policies : sequence of str or Policy, or None, default: None
        Policies to compare. None: pure, mixed and partition policies, subsamples of the data, the joint optimum over
        (λ, β), and refined estimators (``PL1 >> optimal(2)``, ``0.1*PL1/row >> FL``).
    functionals : sequence, dict or None, default: None
        Functions of θ with the variance to minimise: names of parameters, contrasts (``"a - b"``, ``"2*a + b"``),
        mappings {parameter: coefficient}, vectors of coefficients or functions of θ (linearised at the pilot's θ̂);
        or a mapping from names to any of these. None: all parameters together.
    sigma2 : float, sequence, dict or None, default: None
        Variance of the Gaussian penalty of the planned fit. Policies are then compared by their mean squared error
        under the prior N(0, σ²). None: no penalty.
    sample_weight : array_like, str or None, default: None
        Weight of each sample, as in `fit`.
    weight_kind : {"importance", "counts"}, default: "importance"
        Kind of the sample weights, as in `fit`.
    tol : float or "statistical", default: 1e-6
        Tolerance of the planned fit, as in `fit`. The seconds of all policies are those of fits with this tolerance.
    random_state : int, default: 0
        Seed of the pilot's sample.
    wide_rows : {"refuse", "drop"}, default: "refuse"
        What to do with samples whose missing values cannot be summed out in PL1, as in `fit`.
    reading : float, default: 0.0
        Seconds that reading the data took before this call. They count in the budget and in the cost of every fit.
    backend : distributed.Client, Backend or None, default: None
        Where the planned fit runs, as in `fit`. Data in pieces stay there: at most 2,000 samples come to this process for
        the pilot, and at most 20,000 samples of a table or 1,500 sentences for the work of a shard. Seconds are those of
        workers as fast as this machine.
    shards : int or None, default: None
        Number of pieces of the samples, as in `fit`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
    >>> plan.best
    'FL'
    """
    check_model(model, "plan")
    target = Target.of(budget, flops, efficiency)
    if not (isinstance(tol, str) and tol == "statistical"):
        tol = positive_number(tol, "tol", ", or 'statistical'")
    reading = number_from_zero(reading, "reading")
    one_of(wide_rows, "wide_rows", ("refuse", "drop"), DataError)
    began = time.process_time()
    place, dataset = read_placed(
        model, data, Policy.parse("PL1"), backend=backend, shards=shards, sample_weight=sample_weight,
        weight_kind=weight_kind, groups=None,
    )  # fmt: skip
    seen = shown(dataset)
    model = model.complete(seen)
    if wide_rows == "drop" and place is not None:
        raise DataError(DROPS_IN_ONE_PROCESS)
    if place is None:
        wide = rows_too_wide(model, dataset)
        if len(wide) and wide_rows == "refuse":
            raise too_wide(wide, dataset.n, model.as_field("wide_rows").largest_table)
        seen = dataset = dataset.subset(np.setdiff1d(np.arange(dataset.n), wide)) if len(wide) else dataset
    seconds = time.process_time() - began
    names = model.parameter_names
    chosen = None if functionals is None else NamedFunctionals(functionals, names)
    precision = None if sigma2 is None else Penalties.of(sigma2, None, names).precision
    check_enough(dataset.n_copies)
    model.refuse_constant(seen, np.ones(len(names), dtype=bool) if precision is None else precision == 0)
    fitted = partial(
        fit, model, data, sigma2=sigma2, sample_weight=sample_weight, weight_kind=weight_kind, tol=tol,
        wide_rows=wide_rows, backend=backend, shards=shards,
    )  # fmt: skip
    compared = [policies] if isinstance(policies, str | Policy | Staged) else policies
    if compared is not None and not isinstance(compared, Sequence):
        raise PolicyError(f"policies is {policies!r:.80}; it must be a policy or a list of policies, or None.")
    with forecast("plan"), told_lack(partial(advice_for_memory, data)):
        return make_plan(
            Request(
                model=model,
                dataset=dataset,
                target=target,
                policies=None if compared is None else tuple(as_estimator(policy) for policy in compared),
                functionals=chosen,
                n_functionals=None if chosen is None else len(chosen),
                precision=precision,
                tol=tol,
                random_state=seed(random_state),
                reading=reading + seconds,
                fitted=fitted,
                shards=None if place is None else priced_shards(model, dataset, place),
                drift=partial(_drift, model, dataset, random_state),
            ),
            calibration(fit),  # once for a machine: not a part of the budget
        )


def _drift(model: Model, dataset: Dataset, random_state: int, theta: FloatArray) -> str:
    """How samples of the field drift away from the data, as a clause."""
    return drift_of(model, dataset, theta, dataset.total_weight, random_state)


def rows_too_wide(model: Model, dataset: Dataset) -> IntArray:
    """The samples whose missing values PL1 cannot sum out.

    The pilot has a part of the samples: it may miss some of these, and has other numbers for them. Only samples that miss
    enough values for a table of the largest size are compiled here.
    """
    none = np.empty(0, dtype=np.int64)
    if not isinstance(dataset, Table) or not dataset.has_missing:
        return none
    log_states = np.log2(np.array(dataset.cardinalities, dtype=np.float64))
    sizes = (dataset.codes < 0) @ log_states + log_states.max()
    suspects = np.flatnonzero(sizes > np.log2(model.as_field("wide_rows").largest_table) - 1e-6)
    if not len(suspects):
        return none
    try:
        plain_problem(model, dataset.subset(suspects))
    except WidthError as error:
        if error.rows is None:
            raise
        return np.asarray(suspects[error.rows], dtype=np.int64)
    return none


@dataclass(frozen=True)
class _Echo:
    """A question without work that sends θ and gets a value and a gradient, for timing messages."""

    theta: FloatArray

    def __call__(self, shard: Shard, shared: Shared, argument: object) -> Answer:
        """Return numbers of the size of an answer."""
        return np.zeros(1), self.theta


def priced_shards(model: Model, dataset: Dataset, place: Place) -> Shards:
    """Samples like those of one shard, the speed of the backend, and the measured seconds of what is not their work."""
    in_pieces = isinstance(dataset, ShardedDataset)
    starts = dataset.starts if isinstance(dataset, ShardedDataset) else place.starts(dataset.n)
    most = _MOST_COUNTED_SAMPLES if isinstance(shown(dataset), Table) else MOST_TIMED
    rows = dataset.draw(min(int(np.diff(starts).max()), most), np.random.default_rng(0))
    count, first_row = len(starts) - 1, rows.subset([0]).unweighted()
    placed = place.backend.place([Given(first_row)] * count)
    again = partial(place.backend.place, [Given(first_row)] * count)
    placing = _undisturbed([_seconds(again) for _ in range(_TIMED_PLACINGS)])
    bound = PILOT_POLICY.bind(model.structure(shown(dataset)))
    recipe = Recipe(model, bound, 0, np.arange(count + 1))
    first, *others = [_seconds_of_sharing(placed, recipe) for _ in range(_TIMED_MESSAGES)]
    question = _Echo(np.zeros(model.n_parameters))
    overhead = _undisturbed([_seconds(lambda: placed.total(question)) for _ in range(_TIMED_MESSAGES)])
    if not in_pieces:  # samples in pieces are read where they are held
        placing += _seconds_of_sending(place, rows) * dataset.n
    sharing = _undisturbed(others)
    large = has_operator(int(starts[1] - starts[0]), model.n_parameters)
    return Shards(rows, placed.speed, overhead, placing, sharing, max(first - sharing, 0.0), large)


def _seconds_of_sharing(placed: Placed, recipe: Recipe) -> float:
    """How long it takes to give all shards a recipe, which they do not compile."""
    key = secrets.token_hex(8)
    seconds = _seconds(lambda: placed.share(key, recipe))
    placed.withdraw(key)
    return seconds


def _seconds_of_sending(place: Place, rows: Dataset) -> float:
    """How long it takes to send a sample to its shard."""

    def placing(samples: IntArray) -> float:
        began = time.perf_counter()
        place.backend.place([Given(rows.subset(samples).unweighted()) for _ in range(_SENT_SHARDS)])
        return time.perf_counter() - began

    everything, single = np.arange(rows.n), np.arange(1)
    return max(placing(everything) - min(placing(single), placing(single)), 0.0) / (_SENT_SHARDS * rows.n)


def _undisturbed(seconds: list[float]) -> float:
    """The lower quartile of repeated timings: other programs, the scheduler and collections of garbage only add to them."""
    return sorted(seconds)[(len(seconds) - 1) // 4]


def _seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
