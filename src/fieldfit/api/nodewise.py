"""``Nodewise >> optimal``: separate fits of the variables, combined without a joint fit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.api.prepare import Prepared, check_samples, prepare, starting_point
from fieldfit.api.refinement import Refinement
from fieldfit.api.solve import Settings, solve
from fieldfit.api.state import Convergence
from fieldfit.data.samples import Table
from fieldfit.models.base import Model
from fieldfit.objective import Penalty
from fieldfit.policies import Nodewise, Optimal, Policy, Staged
from fieldfit.policies.families import Components
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.refinement.nodewise import combine
from fieldfit.types import BoolArray, DataError, FloatArray, ModelError, PolicyError
from fieldfit.variance.separation import separated_parameters

if TYPE_CHECKING:
    from fieldfit.api.result import Fit


def fit_nodewise(model: Model, data: object, staged: Staged, options: Mapping[str, Any]) -> Fit:
    """`fit` of ``Nodewise >> optimal``; ``options`` are those of `fit`."""
    from fieldfit.api.fitting import assemble

    began = time.perf_counter()
    second = staged.second
    assert isinstance(second, Optimal)
    if second.distance is not None and second.distance > 1:
        raise PolicyError(
            f"'{staged}': Nodewise has no instruments beyond the neighbours. Write 'Nodewise >> optimal', or "
            f"'PL1 >> {second}'."
        )
    for name in ("sigma2", "l1", "weights", "backend", "shards"):
        if options[name] is not None:
            raise PolicyError(
                f"'{staged}' has no {name}: every variable is fitted on its own. Use 'PL1 >> optimal' with {name}."
            )
    dataset = model.read(
        data,
        sample_weight=options["sample_weight"],
        weight_kind=options["weight_kind"],
        groups=options["groups"],
    )
    check_samples(dataset)
    model = model.complete(dataset).as_field(f"'{staged}'")
    if dataset.has_missing:
        raise DataError(
            f"'{staged}' needs complete samples, and some values are missing. Drop or impute them, or use 'PL1', which "
            f"sums them out."
        )
    start, free = starting_point(model, options["start"], options["fixed"])
    bound = Policy.parse("PL1").bind(model.structure(dataset))
    model.check_estimable(dataset, bound, free)
    prepared = prepare(
        model,
        dataset,
        bound,
        penalty=Penalty.none(len(free)),
        start=start,
        free=free,
        random_state=options["random_state"],
    )
    convergence = Convergence(True, False, "the separate fits converged", 0.0, 0.0, 0, 0, 0, 0.0)
    fit = combined(assemble(prepared, start, convergence))
    return replace(fit, convergence=replace(fit.convergence, seconds=time.perf_counter() - began))


def combined(fit: Fit) -> Fit:
    """A prepared fit of PL1 with the combined estimate of the separate fits."""
    prepared = fit.needed
    model, dataset = prepared.model.as_field("'Nodewise >> optimal'"), prepared.dataset
    assert isinstance(dataset, Table)
    work = np.zeros(3, dtype=np.int64)

    def fit_node(node: int, own: BoolArray) -> FloatArray:
        theta, spent = _fit_node(prepared, node, own)
        work[:] += spent
        return theta

    # Convex problems: all of them start from 0, so that a loaded fit has the same estimates to the last bit.
    start = np.where(fit.free, 0.0, prepared.start)
    prepared = replace(prepared, start=start)
    average, stage = combine(model, dataset, fit_node, start=start, free=fit.free, random_state=fit.random_state)
    value, gradient = prepared.objective.value_grad(stage.theta[fit.free])
    convergence = Convergence(
        converged=True,
        interrupted=False,
        message=f"{stage.account.steps:,} separate fits converged and were combined",
        objective=-value,
        gradient_norm=float(np.abs(gradient).max(initial=0.0)),
        iterations=int(work[0]),
        evaluations=int(work[1]),
        hessian_products=int(work[2]),
        seconds=stage.account.seconds,
    )
    refinement = Refinement(Optimal(), average, stage.account, stage, None, Nodewise())
    return replace(fit, theta=stage.theta, convergence=convergence, refinement=refinement)


def _fit_node(prepared: Prepared, node: int, own: BoolArray) -> tuple[FloatArray, tuple[int, int, int]]:
    """θ with the estimates of one variable's regression, and its iterations, evaluations and Hessian products."""
    model, dataset = prepared.model.as_field("'Nodewise >> optimal'"), prepared.dataset
    structure = model.structure()
    rest = tuple(v for v in range(model.m) if v != node)
    family = structure.bind_family(Components((((node,), rest),)))
    selection = Selection(dataset.n, (FamilySelection(family, 1.0),))
    alone = replace(prepared, selection=selection, problem=model.compile(dataset, selection), free=own)
    solution = solve(alone, Settings("auto", 1e-6 * dataset.total_weight, 1000))
    names = model.parameter_names
    separated = separated_parameters(
        alone.objective.hessian_product,
        own,
        solution.x,
        np.zeros(len(own), dtype=bool),
        names,
        alone.objective.units,
        model.determined_contrasts,
    )
    if separated or not solution.converged:
        reason = f"its optimum is at infinity for {', '.join(separated[:3])}" if separated else solution.message
        raise ModelError(
            f"'Nodewise >> optimal': the separate fit of the variable {model.names[node]} has no finite estimate "
            f"({reason}). Use 'PL1 >> optimal', whose joint fit needs less data, with sigma2 if it separates too."
        )
    return alone.objective.full(solution.x).copy(), (
        solution.iterations,
        solution.evaluations,
        solution.hessian_products,
    )
