"""`refine`: a second stage for a fit; `attach`: the samples of a loaded fit, with its second stage."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from fieldfit.api.advice import current_advice
from fieldfit.api.checkpoint import StageCheckpoint, told_keeper
from fieldfit.api.estimation import (
    assemble,
    drift_checked,
    fit_policy,
    prepare_fit,
    separated_at,
    warn_not_converged,
    warn_of,
)
from fieldfit.api.options import EstimationOptions
from fieldfit.api.prepare import prepare
from fieldfit.api.progress import AskedToStop, as_callback
from fieldfit.api.refinement import Refinement
from fieldfit.api.result import Fit
from fieldfit.api.solve import Settings, solve
from fieldfit.api.state import Convergence
from fieldfit.asymptotics.separation import refused_second_stage
from fieldfit.models.base import Model
from fieldfit.optim.settling import SHARE_OF_TOL
from fieldfit.optim.solution import DEFAULT_MAX_ITER, DEFAULT_TOL
from fieldfit.policies import Policy
from fieldfit.refinement.course import Course, Tell
from fieldfit.refinement.second_stage import FirstFit, RefinedEstimate, SecondStage
from fieldfit.refinement.staged import Staged, as_second
from fieldfit.shards.pieces import as_pieces
from fieldfit.types import DataError, ModelError, PolicyError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def refine(fit: Fit, second: SecondStage | Policy | str = "optimal") -> Fit:
    """Add a second stage to a fit, which makes its estimate more accurate.

    Parameters
    ----------
    fit
        The first stage: a fit with its samples, without a second stage and without an L1 penalty.
    second
        ``"optimal"`` or ``"optimal(d)"``: the scores of the fit's components, and instruments up to graph distance d, with
        optimal matrix weights. Or a policy such as ``"FL"``: Newton steps on its objective, until the optimisation error is
        5% of the sampling error. A random one, ``"0.2*FL"``, uses the scores of the first stage as control variates.
        ``"FL~10000"``: Fisher scoring on the full likelihood with 10,000 draws of the model, for fields whose likelihood
        cannot be computed; the standard errors include the noise of the draws.

    Returns
    -------
    Fit
        The refined fit. Its standard errors, functionals, influence, Wald tests and files are those of the refined
        estimate; ``fit.refinement`` says how it was made and ``fit.specification_test()`` tests the model.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    >>> draws = model.sample([0.5] * 12, 2000, random_state=1)
    >>> first = ff.fit(model, draws.values, "PL1")
    >>> better = ff.refine(first, "optimal")
    >>> str(better.estimator)
    'PL1 >> optimal'
    """
    if not isinstance(fit, Fit):
        raise PolicyError(f"refine takes a fit, such as fieldfit.fit(model, data, 'PL1'); got {type(fit).__name__}.")
    return _second(fit, as_second(second), StageSettings())


@dataclass(frozen=True)
class StageSettings:
    """The tolerance and the iterations of a second stage, what is called after each, and its checkpoint."""

    tol: float | Literal["statistical"] = DEFAULT_TOL
    max_iter: int = DEFAULT_MAX_ITER
    tell: Tell | None = None
    checkpoint: StageCheckpoint | None = None


def _second(fit: Fit, stage: SecondStage, settings: StageSettings) -> Fit:
    """The fit with a second stage."""
    if fit.refinement is not None or fit.started_from is not None:
        raise PolicyError(f"The fit has a second stage already ('{fit.estimator}'); refine its first stage.")
    if fit.separated:
        raise ModelError(refused_second_stage(fit.separated))
    if stage.draws_copies and fit.counts:
        raise PolicyError(
            f"'{stage}' draws a selection for each copy of the samples, and the first stage has them as counts. Fit both "
            f"stages at once: '{stage.text(fit.policy)}'."
        )
    made = stage.fit(_first(fit, settings))
    return _maximised(fit, made, settings) if isinstance(made, Policy) else _refined(fit, stage, made)


def fit_estimator(model: Model, data: object, estimator: Policy | Staged, options: EstimationOptions) -> Fit:
    """`fit` of one or two stages."""
    if isinstance(estimator, Staged):
        return fit_stages(model, data, estimator, options)
    return fit_policy(model, data, estimator, options)


def fit_stages(model: Model, data: object, staged: Staged, options: EstimationOptions) -> Fit:
    """`fit` with a second stage."""
    if options.stopping is not None:
        raise PolicyError(
            f"'{staged}' cannot stop early on development data: the second stage starts from a first stage that converged."
        )
    if not staged.second.takes_pieces and as_pieces(data) is not None:
        raise DataError(
            f"'{staged}' has a second stage that needs the samples in this process, and they are in several parts. "
            f"Read them into a table first, fit '{staged.first}' alone, or use a second stage that is a policy: "
            f"'{staged.first} >> FL'."
        )
    staged.second.check_options(staged.first, vars(options))
    asked = None if options.progress is None else AskedToStop(as_callback(options.progress, options.max_iter))
    options = replace(options, progress=asked, copies=staged.second.draws_copies)
    kept, checkpoint = options.kept, None
    if kept is not None:
        checkpoint = StageCheckpoint(kept.path, kept.every, kept.resume, kept.tell, str(staged))
    if staged.second.fits_first:
        starts = staged.second.only_starts
        given = replace(options, check_drift=False, checkpoint=checkpoint, as_start=starts)
        first = fit_policy(model, data, staged.first, given)
    else:
        began, prepared = time.perf_counter(), prepare_fit(model, data, staged.first, options)
        seconds = time.perf_counter() - began
        not_fitted = Convergence(True, False, "not fitted yet", 0.0, 0.0, 0, 0, 0, seconds, max_iter=options.max_iter)
        first = assemble(prepared, prepared.start, not_fitted)
    if first.interrupted:
        return first
    made = first
    if asked is None or not asked.seen:
        # Without a fit of the first stage the file has the second stage alone.
        second = None if checkpoint is None else replace(checkpoint, second=staged.second.fits_first)
        made = _second(first, staged.second, StageSettings(options.tol, options.max_iter, asked, second))
        cut = made.refinement is not None and first.converged and not made.converged
        if cut and not current_advice().limit_is_chosen:
            warn_not_converged(made.message, made.gradient_norm, made.iterations)
    return drift_checked(made) if options.check_drift and not made.interrupted else made


def _first(fit: Fit, settings: StageSettings) -> FirstFit:
    """The parts of a fit that second stages use."""
    made, keeper, checkpoint = fit.needed, None, settings.checkpoint
    if checkpoint is not None:
        keeper = partial(told_keeper, checkpoint, replace(made, start=fit.theta), "second stage")
    return FirstFit(
        made.model, made.dataset, made.seen, made.bound, made.selection, made.problem, fit.theta, fit.free, fit.penalty,
        fit.random_state, keeper, Course(settings.max_iter, settings.tell),
    )  # fmt: skip


def _refined(fit: Fit, second: SecondStage, made: RefinedEstimate) -> Fit:
    """The fit at the estimate of its second stage. Objective and gradient are those of the first stage's policy."""
    stage, message = made.stage, made.message or fit.message
    value, gradient = fit.needed.objective.value_grad(stage.theta[fit.free])
    convergence = replace(
        fit.convergence,
        converged=fit.converged and not made.stopped,
        message=f"{message}; {made.stopped}" if made.stopped else message,
        objective=-value,
        gradient_norm=float(np.abs(gradient).max(initial=0.0)),
        iterations=fit.iterations + made.iterations,
        evaluations=fit.evaluations + made.evaluations,
        hessian_products=fit.hessian_products + made.hessian_products,
        seconds=fit.seconds + stage.account.seconds,
    )
    first_theta = fit.theta if made.first_theta is None else made.first_theta
    refinement = Refinement(second, first_theta, stage.account, stage)
    return replace(fit, theta=stage.theta, convergence=convergence, refinement=refinement)


def _maximised(fit: Fit, policy: Policy, given: StageSettings) -> Fit:
    """A fit of another policy, from the first estimate until the optimisation error is small.

    With a tolerance below the default, it converges to the optimum.
    """
    tol = given.tol
    began, prepared = time.perf_counter(), fit.needed
    bound = policy.bind(prepared.model.structure(prepared.seen))
    prepared.model.check_estimable(prepared.seen, bound, fit.free & ~fit.penalty.penalised)
    again = prepared.with_policy(bound, fit.theta)
    gradient = DEFAULT_TOL if isinstance(tol, str) else tol
    settings = Settings(
        "auto",
        again.gradient_tolerance(gradient),
        given.max_iter,
        given.tell,
        statistical=gradient >= DEFAULT_TOL,
        checkpoint=given.checkpoint,
        near_optimum=True,
        share=SHARE_OF_TOL * gradient,
    )
    solution = solve(again, settings)
    theta = again.objective.full(solution.x).copy()
    first, seconds = fit.convergence, fit.seconds + time.perf_counter() - began
    separated = separated_at(again, solution, None)
    warn_of(solution, separated, None)
    convergence = Convergence.of(solution, None, seconds, first.method, tol, first.max_iter)
    if not first.converged:
        convergence = replace(convergence, message=f"{convergence.message} (first stage {first.message})")
    made = assemble(again, theta, convergence, separated=separated)
    return replace(
        made, started_from=fit.policy, dropped_rows=fit.dropped_rows, encoder=fit.encoder, alignment=fit.alignment
    )


def refined_again(fit: Fit) -> Fit:
    """Refine a loaded fit again: the same samples, seed and first estimate give the same weights."""
    refinement = fit.refinement
    assert refinement is not None
    first = replace(fit, theta=refinement.first_theta, refinement=None)
    again = _second(first, refinement.second, StageSettings(max_iter=fit.convergence.max_iter))
    assert again.refinement is not None
    working = replace(again.refinement, account=refinement.account, saved_test=refinement.saved_test)
    return replace(fit, refinement=working)


#: Relative difference of the objective at θ̂ above which the samples are not those of the fit.
_SAME_OBJECTIVE = 1e-6


def attach(
    fit: Fit,
    data: object,
    *,
    sample_weight: ArrayLike | str | None = None,
    weight_kind: str = "importance",
    groups: ArrayLike | str | None = None,
) -> Fit:
    """Return a loaded fit with its samples. Raises DataError if they do not reproduce the fit's objective.

    The same seed draws the same Z, so everything that needs data works again.
    """
    dataset = fit.model.read(data, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups)
    if fit.refinement is not None and fit.refinement.second.draws_copies:
        dataset = dataset.copies()
    prepared = prepare(
        fit.model,
        dataset,
        fit.policy.bind(fit.model.structure(dataset)),
        penalty=fit.penalty,
        start=fit.theta,
        free=fit.free,
        random_state=fit.random_state,
        wide_rows="drop" if len(fit.dropped_rows) else "refuse",
    )
    if prepared.dataset.n != fit.n:
        raise DataError(
            f"The fit was made from {fit.n:,} samples, and these are {prepared.dataset.n:,}. Give the data that were "
            "fitted."
        )
    had, given = fit.size.groups or 0, prepared.dataset.n_groups or 0
    if had != given:
        raise DataError(f"The fit had {had:,} groups, and these samples have {given:,}. Give the groups of the fit.")
    value = -prepared.objective.value_grad(fit.theta[fit.free])[0] - fit.penalty.l1_value(fit.theta, fit.free)
    if abs(value - fit.objective) > _SAME_OBJECTIVE * max(1.0, abs(fit.objective)):
        raise DataError(
            f"These are not the samples that were fitted: the objective at the fit's θ was {fit.objective:.6f}, and for "
            f"these samples it is {value:.6f}. Give the same data, in the same order and with the same weights."
        )
    attached = replace(fit, prepared=prepared)
    return attached if fit.refinement is None else refined_again(attached)
