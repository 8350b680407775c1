"""The stages of an estimation, from data and checked options to a `Fit`.

prepare (samples, drawn Z, compiled problem) → choose the weights β, if they are automatic → solve → assemble the Fit
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import compress

from fieldfit.api.advice import current_advice
from fieldfit.api.checkpoint import RoundKeeper, round_keepers
from fieldfit.api.options import EstimationOptions
from fieldfit.api.prepare import Prepared, check_objective, check_samples, prepare, starting_point
from fieldfit.api.progress import as_callback
from fieldfit.api.result import Fit
from fieldfit.api.runaway import runaway
from fieldfit.api.sharded import prepare_shards, read_placed, shown
from fieldfit.api.solve import Settings, solve
from fieldfit.api.state import Convergence, SampleSize
from fieldfit.asymptotics.separation import concerned_by, separated_parameters, separation_message
from fieldfit.callers import warn_caller
from fieldfit.models.base import Model
from fieldfit.models.identification import with_open_weights
from fieldfit.optim import Solution, Status
from fieldfit.optim.early_stopping import EarlyStopping
from fieldfit.optim.settling import SHARE_OF_TOL
from fieldfit.penalties import Penalties
from fieldfit.policies import Policy
from fieldfit.types import ConvergenceWarning, FieldfitError, FloatArray, IntArray, RunawayWarning, SeparationWarning
from fieldfit.weights import AutoWeights, DrawnPolicy, Part, WeightsResult, automatic_weights

#: Largest entry of the gradient per sample for which a flat objective counts as separated.
_NEAR_AN_OPTIMUM = 0.01


def fit_policy(model: Model, data: object, policy: Policy, options: EstimationOptions) -> Fit:
    """`fit` without a second stage."""
    began = time.perf_counter()
    prepared, automatic = prepare_fit(model, data, policy, options), options.automatic
    # Automatic weights add up to 1, regardless of the weights in the policy.
    gtol = prepared.gradient_tolerance(options.gradient, 1.0 if automatic is not None else None)
    tell = None if options.progress is None else as_callback(options.progress, options.max_iter)
    settings = Settings(
        options.method, gtol, options.max_iter, tell, options.stopping, options.statistical, options.kept, options.as_start,
        share=SHARE_OF_TOL * options.gradient,
    )  # fmt: skip
    weights = None
    if automatic is not None:
        keepers = None
        if options.kept is not None:
            keepers = round_keepers(options.kept, prepared, options.method, automatic)
            keepers(0).tell()
        settings = replace(settings, checkpoint=None)
        prepared, weights = with_automatic_weights(prepared, automatic, settings, options.gradient, keepers)
        if keepers is not None and not weights.interrupted:
            settings = replace(settings, keeper=keepers(len(weights.history)))
    if weights is not None and weights.interrupted:
        solution = _stopped_in_weights(prepared, weights)
    else:
        solution = solve(prepared, settings, at_optimum=weights is not None and weights.fitted)
    theta = prepared.objective.full(solution.x).copy()
    separated = separated_at(prepared, solution, options.stopping)
    warn_of(solution, separated, options.stopping)
    convergence = Convergence.of(
        solution, weights, time.perf_counter() - began, options.method, options.tol, options.max_iter
    )
    made = assemble(prepared, theta, convergence, separated=separated, weights=weights)
    checked = options.check_drift and not separated and not made.interrupted
    return drift_checked(made) if checked else made


def prepare_fit(model: Model, data: object, policy: Policy, options: EstimationOptions) -> Prepared:
    """Read the samples, here or on the workers, draw Z and compile. Raises an error if parameters cannot be estimated."""
    policy, automatic = options.weighted(policy), options.automatic
    place, dataset = read_placed(
        model, data, policy, backend=options.backend, shards=options.shards, sample_weight=options.sample_weight,
        weight_kind=options.weight_kind, groups=options.groups, copies=options.copies,
    )  # fmt: skip
    check_samples(dataset)
    seen = shown(dataset)
    model = model.complete(seen)
    model.refuse_size(seen.n)  # before any array of the length of θ is allocated
    penalty = Penalties.of(options.sigma2, options.l1, model.parameter_names).with_groups(
        options.group_l1, lambda: model.as_field("group_l1").coupling_groups
    )
    if penalty.l1_groups is not None and automatic is not None:
        raise FieldfitError("weights='auto' has no group_l1. Give the weights, or use sigma2.")
    start, free = starting_point(model, options.start, options.fixed)
    bound = policy.bind(model.structure(seen))
    # Automatic weights are not chosen yet: every term may get a positive weight.
    judged = bound if automatic is None else with_open_weights(policy, automatic.by).bind(model.structure(seen))
    model.check_estimable(seen, judged, free & ~penalty.penalised)
    samples = partial(prepare, drawn=options.drawn) if place is None else partial(prepare_shards, place=place)
    prepared = samples(
        model, dataset, bound, penalty=penalty, start=start, free=free, random_state=options.random_state,
        wide_rows=options.wide_rows,
    )  # fmt: skip
    check_objective(prepared)
    return prepared


def drift_checked(fit: Fit) -> Fit:
    """Return the fit, with a warning and a note if its model drifts away from the data."""
    sentence = runaway(fit)
    if not sentence:
        return fit
    warn_caller(RunawayWarning(sentence))
    return replace(fit, runaway=sentence)


def with_automatic_weights(
    prepared: Prepared,
    automatic: AutoWeights,
    settings: Settings,
    tol: float,
    keepers: Callable[[int], RoundKeeper] | None = None,
) -> tuple[Prepared, WeightsResult]:
    """Choose automatic weights β. Return the same samples and Z with them, starting at the θ of the last round."""
    tell, selection = settings.tell, prepared.drawn
    chosen_weights = automatic_weights(
        prepared.bound,
        selection,
        prepared.compile,
        prepared.objective,
        automatic,
        counts=prepared.dataset.has_counts,
        tol=tol,
        max_iter=settings.max_iter,
        method=settings.method,
        l1=prepared.penalty.l1,
        part=None if prepared.dataset.in_pieces else partial(_part, prepared),
        callback=None if tell is None else lambda state, x: tell(state),
        keepers=keepers,
    )
    bound = chosen_weights.policy.bind(prepared.model.structure(prepared.seen))
    prepared.model.check_estimable(prepared.seen, bound, prepared.open)
    drawn = DrawnPolicy.of(prepared.bound, automatic.by, selection, prepared.problem, prepared.compile)
    reached = chosen_weights.reached
    chosen = replace(
        prepared,
        bound=bound,
        selection=drawn.selected(chosen_weights.beta),
        problem=drawn.at(chosen_weights.beta) if reached is None else reached.problem,
        start=chosen_weights.theta,
    )
    return chosen, chosen_weights


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
    """The fit at θ, from the optimiser or from a later stage that starts from ``prepared``."""
    return Fit(
        model=prepared.model,
        policy=prepared.policy,
        theta=theta,
        free=prepared.free,
        penalty=prepared.penalty,
        size=SampleSize.of(prepared.dataset),
        convergence=convergence,
        random_state=prepared.random_state,
        separated=separated,
        dropped_rows=prepared.dropped_rows,
        weights=weights,
        prepared=prepared,
    )


def _stopped_in_weights(prepared: Prepared, weights: WeightsResult) -> Solution:
    """The solution after an interrupt of the search for weights, whose work counts that of its fits already.

    Nothing is evaluated: a worker may not answer.
    """
    stopped = Solution.interrupted_at(weights.theta[prepared.free])
    if weights.reached is None:
        return stopped
    at = weights.reached.solution
    return replace(stopped, value=at.value, gradient=at.gradient, gradient_norm=at.gradient_norm)


def separated_at(prepared: Prepared, solution: Solution, stopping: EarlyStopping | None) -> tuple[str, ...]:
    """The parameters whose optimum lies at infinity.

    If development data stopped the fit, a parameter on its way to infinity was stopped on purpose. After Ctrl-C no sums
    over samples are computed: the workers may not answer.
    """
    if not prepared.open.any() or (stopping is not None and stopping.stopped):
        return ()
    free = prepared.free
    penalised, names = prepared.penalty.penalised, prepared.model.parameter_names
    units, contrasts = prepared.objective.units, prepared.model.determined_contrasts
    seen: set[str] = set()
    # Far from an optimum the objective may be flat although the data do not separate, for example if every state is
    # certain.
    near = solution.status.converged or solution.gradient_norm <= _NEAR_AN_OPTIMUM * prepared.scale
    if solution.status is not Status.INTERRUPTED and (near or solution.status is Status.UNBOUNDED):
        work = solution.evaluations + solution.hessian_products
        landscape = prepared.objective.landscape(prepared.scale, prepared.least_weight, work)
        seen.update(separated_parameters(landscape, free, solution.x, penalised, names, units, contrasts))
    if solution.status is Status.INTERRUPTED and prepared.dataset.in_pieces:
        return ()
    # Joint states that never occur also show separation, even if the optimiser stopped early.
    directions = prepared.model.boundary_directions(prepared.dataset)
    seen.update(compress(names, concerned_by(directions, prepared.open, prepared.open)))
    return tuple(name for name in names if name in seen) if seen else ()


def warn_of(solution: Solution, separated: tuple[str, ...], stopping: EarlyStopping | None) -> None:
    """Warn the caller of `fit` of data that separate, or of a fit that did not converge."""
    if separated:
        warn_caller(SeparationWarning(separation_message(separated)))
        return
    early = stopping is not None and (stopping.stopped or solution.status.converged)
    ended = solution.status in (Status.INTERRUPTED, Status.SMALL_DECREASE)
    chosen = solution.status is Status.ITERATION_LIMIT and current_advice().limit_is_chosen
    if not (solution.converged or early or ended or chosen):
        rounding = solution.status is Status.ROUNDING
        warn_not_converged(solution.message, solution.gradient_norm, solution.iterations, rounding=rounding)


def warn_not_converged(message: str, gradient_norm: float, iterations: int, *, rounding: bool = False) -> None:
    """Warn the caller of `fit` that it did not converge, with advice; ``rounding``: rounding errors have ended it."""
    warn_caller(
        ConvergenceWarning(
            f"The fit did not converge ({message}; gradient norm {gradient_norm:.3g} after {iterations} iterations). "
            f"{current_advice().to_converge(rounding=rounding)}"
        ),
    )
