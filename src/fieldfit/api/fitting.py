"""`fit`: from data and a policy to an estimate. It runs the pipe of the design from end to end:

data → dataset → selection → problem → objective → optimiser → Fit
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from fieldfit.api.early_stopping import EarlyStopping
from fieldfit.api.progress import as_callback
from fieldfit.api.result import Fit
from fieldfit.asymptotics.identification import check_identified, with_open_weights
from fieldfit.asymptotics.separation import separated_parameters, separation_message
from fieldfit.data.samples import Table, constant_columns
from fieldfit.models.base import Model
from fieldfit.models.cost import selection_cost
from fieldfit.models.field import FieldModel
from fieldfit.objective import Objective, l1_weights, precision_of
from fieldfit.optim import Progress, Solution, Status, minimise
from fieldfit.optim.l1_penalty import L1Penalty
from fieldfit.policies import Policy, as_policy
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.types import (
    BoolArray,
    ConvergenceWarning,
    DataError,
    FloatArray,
    IntArray,
    ModelError,
    PolicyError,
    SeparationWarning,
    WidthError,
)
from fieldfit.weights import AutoWeights, Mixture, Part, as_options, automatic_weights


def fit(
    model: Model,
    data: Any,
    policy: Policy | str = "PL1",
    *,
    sigma2: Any = None,
    l1: Any = None,
    weights: Sequence[float] | Literal["auto"] | AutoWeights | None = None,
    random_state: int = 0,
    sample_weight: Any = None,
    weight_kind: str = "importance",
    start: Any = None,
    fixed: Mapping[str, float] | None = None,
    method: Literal["auto", "lbfgs", "newton"] = "auto",
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
    chosen = as_policy(policy)
    automatic = as_options(weights)
    if automatic is None and weights is not None:
        chosen = chosen.with_betas(cast(Sequence[float], weights))
    dataset = model.read(data, sample_weight=sample_weight, weight_kind=weight_kind)
    model = model.complete(dataset)
    names = model.parameter_names
    precision = precision_of(sigma2, names)
    absolute = l1_weights(l1, names)
    initial, free = _start(model, start, fixed)
    if wide_rows not in ("refuse", "drop"):
        raise DataError(f"wide_rows is {wide_rows!r}; it must be 'refuse' or 'drop'.")

    bound = chosen.bind(model.structure(dataset))
    penalised = precision > 0 if absolute is None else (precision > 0) | (absolute > 0)
    unpenalised = not bool(np.all(penalised[free]))
    if unpenalised and isinstance(model, FieldModel):
        refuse_constant(model, dataset, free & ~penalised)
        # Automatic weights are still open: every term may get one.
        checked = chosen if automatic is None else with_open_weights(chosen, automatic.by)
        check_identified(model, checked.bind(model.structure(dataset)), ~free | penalised)
    dataset = dataset if bound.everything else dataset.copies()
    bound = chosen.bind(model.structure(dataset))  # copies of sequences are sequences of their own

    dropped: IntArray = np.empty(0, dtype=np.int64)
    selection = bound.draw(random_state, 0, dataset.n)
    try:
        problem = model.compile(dataset, selection)
    except WidthError as error:
        if error.rows is None or wide_rows == "refuse":
            raise
        dropped = error.rows
        kept = np.setdiff1d(np.arange(dataset.n), dropped)
        dataset = dataset.subset(kept)
        bound = chosen.bind(model.structure(dataset))
        selection = bound.draw(random_state, 0, dataset.n)
        problem = model.compile(dataset, selection)

    if unpenalised:
        refuse_nothing(chosen, selection)
    row_weight = dataset.sample_weight
    objective = Objective(problem, precision, initial, free, row_weight)
    # Automatic weights add up to 1, whatever was written.
    gtol = tol * dataset.total_weight * (largest_beta(bound) if automatic is None else 1.0)
    tell = as_callback(progress, max_iter, gtol)
    found = None
    if automatic is not None:
        found = automatic_weights(
            bound,
            selection,
            partial(model.compile, dataset),
            objective,
            automatic,
            counts=dataset.has_counts,
            tol=tol,
            max_iter=max_iter,
            method=method,
            l1=absolute,
            part=partial(_part, model, chosen, dataset),
            callback=None if tell is None else lambda state, x: tell(state),
        )
        # The same Z with the chosen weights; the fit goes on from where the last round left θ.
        chosen = found.policy
        if unpenalised and isinstance(model, FieldModel):
            check_identified(model, chosen.bind(model.structure(dataset)), ~free | penalised)
        mixture = Mixture.of(bound, automatic.by, selection, problem, partial(model.compile, dataset))
        selection = mixture.selected(found.beta)
        initial = found.theta
        objective = Objective(mixture.at(found.beta), precision, initial, free, row_weight)

    def report(state: Progress, x: FloatArray) -> object:
        told = None if tell is None else tell(state)
        return (stopping is not None and stopping(state, objective.full(x))) or told

    plain = objective.problem.optimiser == "lbfgs" and method != "newton"
    # The last round of the weights leaves a θ at which the gradient is small enough: nothing is left to precondition.
    cut = found is not None and found.interrupted
    known = found is not None and (found.fitted or cut)
    near = objective.preconditioner if absolute is None and not known else None
    solution: Solution = minimise(
        objective.value_grad,
        initial[free],
        hessian_product=objective.hessian_product,
        hessian_diagonal=None if plain or known or near is not None else objective.hessian_diagonal,
        preconditioner=near,
        l1=None if absolute is None else absolute[free],
        method="lbfgs" if plain else method,
        # Six pairs are as fast as ten on CoNLL-2000, and with millions of weights they are the memory of the fit.
        history=6 if plain and absolute is None else None,
        gtol=gtol,
        max_iter=0 if cut else max_iter,
        callback=report,
    )
    if cut:  # the estimate is that of the moment
        solution = replace(solution, converged=False, status=Status.INTERRUPTED, message=Status.INTERRUPTED.value)
    interrupted = solution.status is Status.INTERRUPTED
    early = stopping is not None and (stopping.stopped or solution.converged)
    if stopping is not None and not interrupted:
        stopping.finish(solution.iterations, objective.full(solution.x))
    if stopping is not None and stopping.best_theta is not None:
        solution = _best_of(solution, stopping, objective, absolute)
    theta = objective.full(solution.x).copy()
    # Where development data ended the fit, a parameter on its way to infinity was stopped on purpose.
    ended = stopping is not None and stopping.stopped
    separated = (
        ()
        if ended or not unpenalised
        else separated_parameters(objective.hessian_product, objective.free, solution.x, theta, penalised, names)
    )
    if separated:
        warnings.warn(SeparationWarning(separation_message(separated)), stacklevel=2)
    elif not (solution.converged or early or interrupted):
        warnings.warn(
            ConvergenceWarning(
                f"The fit did not converge ({solution.message}; gradient norm {solution.gradient_norm:.3g} after "
                f"{solution.iterations} iterations). Give more iterations (max_iter), a penalty (sigma2), or look at "
                f"the data."
            ),
            stacklevel=2,
        )
    cost = selection_cost(model, selection) if isinstance(model, FieldModel) else None
    return Fit(
        model=model,
        policy=chosen,
        theta=theta,
        sigma2=np.divide(1.0, precision, out=np.full_like(precision, np.inf), where=precision > 0),
        free=free,
        n=dataset.n,
        weighted_total=None if row_weight is None else dataset.effective_size,
        unit_weight=dataset.unit_weight,
        random_state=random_state,
        converged=solution.converged,
        message=solution.message,
        objective=-solution.value,
        gradient_norm=solution.gradient_norm,
        iterations=solution.iterations + (0 if found is None else found.work.iterations),
        evaluations=solution.evaluations + (0 if found is None else found.work.evaluations),
        hessian_products=solution.hessian_products + (0 if found is None else found.work.hessian_products),
        seconds=time.perf_counter() - began,
        separated=separated,
        dropped_rows=dropped,
        cost=cost,
        dataset=dataset,
        objective_function=objective,
        counts=dataset.has_counts,
        l1=absolute,
        weights=found,
    )


def _part(model: Model, policy: Policy, dataset: Any, rows: IntArray) -> Part:
    """Some of the samples, for the statistics of automatic weights: the policy bound to them, and their compiler."""
    some = dataset.subset(rows)
    return policy.bind(model.structure(some)), partial(model.compile, some)


def _best_of(
    solution: Solution, stopping: EarlyStopping, objective: Objective, absolute: FloatArray | None
) -> Solution:
    """The solution moved to the θ that was best on the development data, with the account of the whole run."""
    assert stopping.best_theta is not None
    theta = stopping.best_theta
    if np.array_equal(theta, objective.full(solution.x)):
        return replace(solution, message=stopping.message if stopping.stopped else solution.message)
    x = theta[objective.free]
    value, gradient = objective.value_grad(x)
    penalty, norm = 0.0, float(np.abs(gradient).max(initial=0.0))
    if absolute is not None:
        penalty, norm = L1Penalty(absolute[objective.free], x.size).look(x, np.ascontiguousarray(gradient))
    return replace(
        solution,
        x=x,
        value=value + penalty,
        gradient=gradient,
        gradient_norm=norm,
        converged=False,
        message=solution.message if solution.status is Status.INTERRUPTED else stopping.message,
    )


def _start(model: Model, start: Any, fixed: Mapping[str, float] | None) -> tuple[FloatArray, BoolArray]:
    """The starting θ with the fixed parameters set, and which parameters are free."""
    initial = np.zeros(model.n_parameters) if start is None else model.check_theta(start).copy()
    free = np.ones(model.n_parameters, dtype=bool)
    if fixed:
        place = {name: index for index, name in enumerate(model.parameter_names)}
        for name, value in fixed.items():
            if name not in place:
                raise ModelError(
                    f"fixed names the parameter {name!r}, which the model does not have; "
                    f"its first ones are {list(place)[:5]}."
                )
            if not np.isfinite(float(value)):
                raise ModelError(f"fixed gives {name!r} the value {value}; it must be finite.")
            initial[place[name]] = float(value)
            free[place[name]] = False
        if not free.any():
            raise ModelError("All parameters are fixed; there is nothing to fit.")
    return initial, free


def refuse_constant(model: FieldModel, dataset: Table, unpenalised: BoolArray) -> None:
    """Refuse columns that never change where an unpenalised parameter has only factors that touch them."""
    constant = constant_columns(dataset)
    if not constant:
        return
    still = np.array([name in constant for name in dataset.names])
    scopes = model.graph.scope_matrix
    touching = np.any(np.where(scopes >= 0, still[scopes], False), axis=1)
    elsewhere = model.features[~np.repeat(touching, model.graph.table_sizes)]
    if np.any(unpenalised & (np.diff(elsewhere.tocsc().indptr) == 0)):
        shown = ", ".join(map(str, constant[:10])) + (", …" if len(constant) > 10 else "")
        raise DataError(
            f"{len(constant)} column{'s' if len(constant) > 1 else ''} never change{'' if len(constant) > 1 else 's'}: "
            f"{shown}. Without a penalty the parameters there have no finite estimate: leave constant columns out or "
            "give sigma2."
        )


def refuse_nothing(policy: Policy, selection: Selection) -> None:
    """Refuse a selection without a single component: without a penalty every θ would be an optimum."""
    if selection.count() == 0:
        raise PolicyError(
            f"The policy '{policy}' selected no component of any of the {selection.n:,} samples, so there is nothing to "
            "fit. Use larger selection probabilities or another random_state."
        )


def largest_beta(bound: BoundPolicy) -> float:
    """The largest weight β of the policy, which with the sample weights sets the scale of the objective."""
    return max(float(np.max(np.abs(beta))) for beta in bound.betas)
