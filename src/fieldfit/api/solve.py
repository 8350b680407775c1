"""Maximise a prepared objective over θ, with progress, early stopping and interrupts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.api.checkpoint import Checkpoint, FileKeeper, file_keeper
from fieldfit.api.prepare import Prepared
from fieldfit.api.progress import TimeLeft
from fieldfit.optim import Progress, Solution, Status
from fieldfit.optim.choose import Method
from fieldfit.optim.early_stopping import EarlyStopping, KeptStopping
from fieldfit.optim.keeping import JudgedKeeper, Keeper
from fieldfit.optim.proximal import nonsmooth_penalty
from fieldfit.refinement.statistical import CountedObjective, StatisticalStop, start_tolerance
from fieldfit.steps import shown_line
from fieldfit.types import FieldfitError, FloatArray


@dataclass(frozen=True)
class Settings:
    """How to optimise.

    Parameters
    ----------
    method
        "auto", "lbfgs", "newton" or "sgd".
    gtol
        The largest entry of the gradient (a sum over samples) at which the fit has converged.
    max_iter
        Largest number of iterations.
    tell
        Called after each iteration; a true result stops the fit. None: no callback.
    stopping
        Early stopping on development data, or None.
    checkpoint
        The file that keeps the state, or None.
    statistical
        Whether to stop when the optimisation error is small compared with the sampling error.
    as_start
        Whether the solution is only the start of another fit, and may stop when the gradient is small compared with
        its sampling error.
    near_optimum
        Whether the distance from the start to the optimum is about the sampling error.
    share
        The largest relative change of a penalised parameter that a step along the gradient may still ask for; None: any.
    keeper
        What keeps the states, in place of ``checkpoint``.
    """

    method: Method
    gtol: float
    max_iter: int
    tell: Callable[[Progress], object] | None = None
    stopping: EarlyStopping | None = None
    statistical: bool = False
    checkpoint: Checkpoint | None = None
    as_start: bool = False
    near_optimum: bool = False
    share: float | None = None
    keeper: FileKeeper | None = None


def solve(prepared: Prepared, settings: Settings, *, at_optimum: bool = False) -> Solution:
    """The optimum from ``prepared.start``, or with early stopping the θ that was best on the development data.

    ``at_optimum`` says that the start is expected to be the optimum; no preconditioner is built then.
    """
    objective, stopping = prepared.objective, settings.stopping
    l1, gtol, share = prepared.penalty.l1, settings.gtol, settings.share

    if settings.method == "sgd" and settings.statistical:
        raise FieldfitError("method='sgd' needs a number for tol.")
    near_enough = None
    if settings.statistical:
        if l1 is not None:
            raise FieldfitError(
                "tol='statistical' needs a smooth objective; give a number for tol with an L1 penalty."
            )
        counted = CountedObjective.of(objective)
        near_enough = StatisticalStop(
            objective,
            prepared.random_state,
            gtol=gtol,
            calls=counted.calls,
            matrices=counted.matrices,
            units=objective.free_units,
        )
        objective = counted
    elif settings.as_start:
        share = None
        try:
            gtol = max(gtol, start_tolerance(objective, prepared.random_state))
        except KeyboardInterrupt:  # a worker may not answer: nothing is evaluated
            return Solution.interrupted_at(prepared.start[prepared.free])

    left = TimeLeft(settings.max_iter)
    written = settings.keeper
    if settings.checkpoint is not None:
        written = file_keeper(settings.checkpoint, prepared, settings.method)
    keeper: Keeper | None = written
    if keeper is not None and near_enough is not None:
        keeper = JudgedKeeper(keeper, near_enough)
    if keeper is not None and stopping is not None:
        keeper = JudgedKeeper(keeper, KeptStopping(stopping, len(prepared.free)))
    known = written is not None and written.saved is not None  # the iteration of the checkpoint was reported before
    if written is not None:
        written.tell()

    def report(state: Progress, x: FloatArray) -> object:
        nonlocal known
        told: object = False
        if not known:
            told = show(left.line(state)) if settings.tell is None else settings.tell(state)
        known = False
        if near_enough is not None and near_enough(state, x):
            return True
        return (stopping is not None and stopping(state, objective.full(x))) or told

    with shown_line() as show:
        solution = objective.minimise(
            gtol=gtol,
            max_iter=settings.max_iter,
            method=settings.method,
            l1=l1,
            l1_groups=prepared.penalty.l1_groups,
            at_optimum=at_optimum,
            near_optimum=settings.near_optimum,
            share=share,
            callback=report,
            keeper=keeper,
            seed=prepared.random_state,
        )
    if near_enough is not None:
        solution = near_enough.judged(solution, gtol)
    if stopping is None:
        return solution
    if solution.status is not Status.INTERRUPTED:
        stopping.finish(solution.iterations, objective.full(solution.x))
    return solution if stopping.best_theta is None else _best_of(solution, stopping, prepared)


def _best_of(solution: Solution, stopping: EarlyStopping, prepared: Prepared) -> Solution:
    """The solution at the θ with the best score on the development data, with the work of the whole run.

    After an interrupt nothing is evaluated: the value and the gradient norm are those of the history.
    """
    assert stopping.best_theta is not None
    objective, theta = prepared.objective, stopping.best_theta
    if np.array_equal(theta, objective.full(solution.x)):
        return replace(solution, message=stopping.message if stopping.stopped else solution.message)
    x = theta[prepared.free]
    if solution.status is Status.INTERRUPTED:
        best = solution.history[stopping.best_iteration]
        return replace(
            solution, x=x, value=best.value, gradient=np.full(len(x), np.nan), gradient_norm=best.gradient_norm
        )
    value, gradient = objective.value_grad(x)
    penalty, norm = 0.0, float(np.abs(gradient).max(initial=0.0))
    penalised = prepared.penalty.subset(prepared.free)
    if penalised.l1 is not None:
        absolute = nonsmooth_penalty(penalised.l1, x.size, penalised.l1_groups)
        penalty, norm = absolute.look(x, np.ascontiguousarray(gradient))
    return replace(
        solution,
        x=x,
        value=value + penalty,
        gradient=gradient,
        gradient_norm=norm,
        converged=False,
        message=stopping.message,
    )
