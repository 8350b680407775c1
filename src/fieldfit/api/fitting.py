"""`fit`: from data and a policy to an estimate, in four stages.

prepare (samples, drawn Z, compiled problem) → choose the weights β, if they are automatic → solve → assemble the Fit
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

from numpy.typing import ArrayLike

from fieldfit.api.prepare import Prepared, check_estimable, prepare, refuse_nothing, starting_point
from fieldfit.api.result import Fit
from fieldfit.api.solve import Method, Settings, solve
from fieldfit.api.state import Convergence, SampleSize
from fieldfit.asymptotics.identification import with_open_weights
from fieldfit.asymptotics.separation import separated_parameters, separation_message
from fieldfit.models.base import Model
from fieldfit.models.cost import selection_cost
from fieldfit.models.field import FieldModel
from fieldfit.objective import ByParameter, Penalty
from fieldfit.optim import Progress, Solution, Status
from fieldfit.optim.early_stopping import EarlyStopping
from fieldfit.policies import Policy, as_policy
from fieldfit.types import ConvergenceWarning, FloatArray, IntArray, SeparationWarning
from fieldfit.weights import AutoWeights, DrawnPolicy, Part, WeightsResult, as_options, automatic_weights


def fit(
    model: Model,
    data: Any,
    policy: Policy | str = "PL1",
    *,
    sigma2: ByParameter = None,
    l1: ByParameter = None,
    weights: Sequence[float] | Literal["auto"] | AutoWeights | None = None,
    random_state: int = 0,
    sample_weight: Any = None,
    weight_kind: str = "importance",
    groups: ArrayLike | str | None = None,
    start: ArrayLike | None = None,
    fixed: Mapping[str, float] | None = None,
    method: Method = "auto",
    tol: float = 1e-6,
    max_iter: int = 1000,
    wide_rows: str = "refuse",
    progress: Callable[[Progress], object] | bool | None = None,
    stopping: EarlyStopping | None = None,
) -> Fit:
    """Maximise the stochastic composite likelihood of ``policy`` over θ.

    Parameters
    ----------
    model : the model; its variables take the names of the data's columns unless it has names of its own
    data : for fields an array, DataFrame, path to a CSV file, …, where NaN or blank is a missing value and is summed out;
        for chains `Sequences`
    policy : text such as ``"PL1 + 0.2*PL2"`` or a Policy; ``"FL"`` is maximum likelihood, ``"PL1"`` maximum
        pseudo-likelihood
    sigma2 : prior variance of the penalty ‖θ‖²/(2σ²): None (no penalty), a number, one for each parameter, or a mapping
        from names or patterns of names to numbers
    l1 : weight of Σ|θ| (an elastic net together with sigma2): None, a number, one for each parameter, or a mapping as for
        sigma2; weights become exactly 0
    weights : β for each term of the policy, in place of those written in it; ``"auto"`` (or `AutoWeights` with its options)
        chooses the β of least asymptotic variance, and ``fit.weights`` says how
    random_state : the seed of Z; the same seed gives the same selection and the same bits
    sample_weight, weight_kind : a weight for each sample: "counts" (so many copies, each with its own Z) or "importance"
    groups : the group of each sample (patient, document, …), or the name of the column that has them, where samples of one
        group may depend on each other; robust standard errors, tests and intervals then allow for it. The estimate is the
        same.
    start : θ to start from (zeros)
    fixed : parameters that keep a value, by name
    method : "auto", "lbfgs" or "newton"
    tol : largest entry of the gradient, for each sample, at which the fit has converged
    wide_rows : what to do with samples whose missing values cannot be summed out: "refuse" or "drop" (they are listed
        in ``fit.dropped_rows``)
    progress : True prints a line for each iteration on stderr; or a function that is called after each one with the
        iteration, objective, gradient norm and seconds, and whose true answer stops the fit
    stopping : `EarlyStopping` on development data; the fit has the θ that it found best

    On Ctrl-C the best θ so far comes back, marked as not converged.
    """
    began = time.perf_counter()
    chosen, automatic = as_policy(policy), as_options(weights)
    if automatic is None and weights is not None:
        chosen = chosen.with_betas(cast(Sequence[float], weights))
    dataset = model.read(data, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups)
    model = model.complete(dataset)
    penalty = Penalty.of(sigma2, l1, model.parameter_names)
    initial, free = starting_point(model, start, fixed)
    bound = chosen.bind(model.structure(dataset))
    # Automatic weights are still open: every term may get one.
    judged = bound if automatic is None else with_open_weights(chosen, automatic.by).bind(model.structure(dataset))
    check_estimable(model, dataset, judged, free & ~penalty.penalised)
    prepared = prepare(
        model,
        dataset,
        bound,
        penalty=penalty,
        start=initial,
        free=free,
        random_state=random_state,
        wide_rows=wide_rows,
    )
    refuse_nothing(prepared)
    # Automatic weights add up to 1, whatever was written.
    scale = prepared.scale if automatic is None else prepared.dataset.total_weight
    settings = Settings.of(method, tol * scale, max_iter, progress, stopping)
    found = None
    if automatic is not None:
        prepared, found = choose_weights(prepared, automatic, settings, tol)
    if found is not None and found.interrupted:
        solution = solve(prepared, replace(settings, max_iter=0), at_optimum=True)
        solution = replace(solution, converged=False, status=Status.INTERRUPTED, message=Status.INTERRUPTED.value)
    else:
        solution = solve(prepared, settings, at_optimum=found is not None and found.fitted)
    theta = prepared.objective.full(solution.x).copy()
    separated = separated_at(prepared, solution, theta, stopping)
    _warn(solution, separated, stopping)
    convergence = Convergence.of(solution, found, time.perf_counter() - began)
    return assemble(prepared, theta, convergence, separated=separated, weights=found)


def choose_weights(
    prepared: Prepared, automatic: AutoWeights, settings: Settings, tol: float
) -> tuple[Prepared, WeightsResult]:
    """Automatic weights β, and the same samples and Z with them, to start from where the last round left θ."""
    tell = settings.tell
    found = automatic_weights(
        prepared.bound,
        prepared.selection,
        prepared.compile,
        prepared.objective,
        automatic,
        counts=prepared.dataset.has_counts,
        tol=tol,
        max_iter=settings.max_iter,
        method=settings.method,
        l1=prepared.penalty.l1,
        part=partial(_part, prepared),
        callback=None if tell is None else lambda state, x: tell(state),
    )
    bound = found.policy.bind(prepared.model.structure(prepared.dataset))
    check_estimable(prepared.model, prepared.dataset, bound, prepared.open)
    drawn = DrawnPolicy.of(prepared.bound, automatic.by, prepared.selection, prepared.problem, prepared.compile)
    chosen = replace(
        prepared,
        bound=bound,
        selection=drawn.selected(found.beta),
        problem=drawn.at(found.beta),
        start=found.theta,
    )
    return chosen, found


def _part(prepared: Prepared, rows: IntArray) -> Part:
    """Some of the samples, for the statistics of automatic weights: the policy bound to them, and their compiler."""
    some = prepared.dataset.subset(rows)
    return prepared.policy.bind(prepared.model.structure(some)), partial(prepared.model.compile, some)


def assemble(
    prepared: Prepared,
    theta: FloatArray,
    convergence: Convergence,
    *,
    separated: tuple[str, ...] = (),
    weights: WeightsResult | None = None,
) -> Fit:
    """The fit at θ: of the optimiser, or of any later stage that starts from ``prepared``."""
    model = prepared.model
    return Fit(
        model=model,
        policy=prepared.policy,
        theta=theta,
        free=prepared.free,
        penalty=prepared.penalty,
        size=SampleSize.of(prepared.dataset),
        convergence=convergence,
        random_state=prepared.random_state,
        separated=separated,
        dropped_rows=prepared.dropped_rows,
        cost=selection_cost(model, prepared.selection) if isinstance(model, FieldModel) else None,
        weights=weights,
        prepared=prepared,
    )


def separated_at(
    prepared: Prepared, solution: Solution, theta: FloatArray, stopping: EarlyStopping | None
) -> tuple[str, ...]:
    """The parameters whose optimum lies at infinity.

    Where development data ended the fit, a parameter on its way to infinity was stopped on purpose.
    """
    if not prepared.open.any() or (stopping is not None and stopping.stopped):
        return ()
    product, free = prepared.objective.hessian_product, prepared.free
    penalised, names = prepared.penalty.penalised, prepared.model.parameter_names
    return separated_parameters(product, free, solution.x, theta, penalised, names)


def _warn(solution: Solution, separated: tuple[str, ...], stopping: EarlyStopping | None) -> None:
    """Warn the caller of `fit` of data that separate, or of a fit that did not converge."""
    if separated:
        warnings.warn(SeparationWarning(separation_message(separated)), stacklevel=3)
        return
    early = stopping is not None and (stopping.stopped or solution.status.converged)
    if not (solution.converged or early or solution.status is Status.INTERRUPTED):
        warnings.warn(
            ConvergenceWarning(
                f"The fit did not converge ({solution.message}; gradient norm {solution.gradient_norm:.3g} after "
                f"{solution.iterations} iterations). Give more iterations (max_iter), a penalty (sigma2), or look at "
                f"the data."
            ),
            stacklevel=3,
        )
