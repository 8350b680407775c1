"""`refine`: a second stage for a fit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.api.nodewise import combined, fit_nodewise
from fieldfit.api.refinement import Refinement
from fieldfit.api.solve import Settings, solve
from fieldfit.api.state import Convergence
from fieldfit.data.samples import Table, as_table
from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.policies import Nodewise, Optimal, Policy, Simulated, Staged, as_estimator
from fieldfit.policies.policy import BoundPolicy
from fieldfit.refinement.control import control_mask, control_stack
from fieldfit.refinement.local import needs_local, refine_locally
from fieldfit.refinement.optimal import refine as refine_optimal
from fieldfit.refinement.scoring import fisher_scoring
from fieldfit.refinement.second_stage import SecondStage
from fieldfit.shards.pieces import as_pieces
from fieldfit.types import DataError, ModelError, PolicyError

if TYPE_CHECKING:
    from fieldfit.api.result import Fit


def refine(fit: Fit, second: Optimal | Policy | Simulated | str = "optimal") -> Fit:
    """The fit with a second stage, which makes its estimate more accurate.

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
    if not hasattr(fit, "refinement"):
        raise PolicyError(f"refine takes a fit, such as fieldfit.fit(model, data, 'PL1'); got {type(fit).__name__}.")
    if isinstance(second, str):
        staged = as_estimator(f"PL1 >> {second}")
        assert isinstance(staged, Staged)
        second = staged.second
    if fit.refinement is not None or fit.started_from is not None:
        raise PolicyError(f"The fit has a second stage already ('{fit.estimator}'); refine its first stage.")
    if fit.separated:
        raise ModelError(
            f"The first stage has its optimum at infinity for {', '.join(fit.separated[:5])}; a second stage needs a "
            f"finite estimate. Give sigma2, or fix or drop these parameters."
        )
    if isinstance(second, Optimal):
        return _optimal(fit, second)
    if isinstance(second, Simulated):
        return _scoring(fit, second)
    return _steps(fit, second)


def fit_stages(model: Model, data: Any, staged: Staged, options: Mapping[str, Any]) -> Fit:
    """`fit` with a second stage; ``options`` are those of `fit`."""
    from fieldfit.api.fitting import drift_checked, fit

    if options["stopping"] is not None:
        raise PolicyError(
            f"'{staged}' cannot stop early on development data: the second stage starts from a first stage that converged."
        )
    if not isinstance(staged.second, Policy) and as_pieces(data) is not None:
        raise DataError(
            f"'{staged}' has a second stage that needs the samples in this process, and they are in pieces. Read them "
            f"into a table first, fit '{staged.first}' alone, or use a second stage that is a policy: "
            f"'{staged.first} >> FL'."
        )
    if isinstance(staged.first, Nodewise):
        return fit_nodewise(model, data, staged, options)
    first = fit(model, data, staged.first, **{**options, "check_drift": False})
    made = refine(first, staged.second)
    return drift_checked(made) if options["check_drift"] else made


def _optimal(fit: Fit, second: Optimal) -> Fit:
    model, dataset = checked_samples(fit, f"'{fit.policy} >> {second}'")
    prepared = fit.needed
    stage: SecondStage
    if needs_local(model, prepared.bound, second.distance):
        stage = refine_locally(
            model,
            dataset,
            prepared.bound,
            fit.theta,
            distance=second.distance,
            free=fit.free,
            precision=fit.penalty.precision,
            row_weight=dataset.sample_weight,
            random_state=fit.random_state,
        )
    else:
        stage = refine_optimal(
            model,
            dataset,
            prepared.bound,
            prepared.selection,
            fit.theta,
            distance=second.distance,
            free=fit.free,
            precision=fit.penalty.precision,
            row_weight=dataset.sample_weight,
            random_state=fit.random_state,
            problem=prepared.problem,
        )
    return _with_stage(fit, second, stage)


def _scoring(fit: Fit, second: Simulated) -> Fit:
    """``A >> FL~M``."""
    model, dataset = checked_samples(fit, f"'{fit.policy} >> {second}'")
    stage = fisher_scoring(
        model,
        dataset,
        fit.theta,
        draws=second.draws,
        free=fit.free,
        precision=fit.penalty.precision,
        random_state=fit.random_state,
    )
    return _with_stage(fit, second, stage)


def _with_stage(fit: Fit, second: Optimal | Policy | Simulated, stage: SecondStage) -> Fit:
    """The fit with the estimate of its second stage; objective and gradient are the first stage's there."""
    value, gradient = fit.needed.objective.value_grad(stage.theta[fit.free])
    convergence = replace(
        fit.convergence,
        objective=-value,
        gradient_norm=float(np.abs(gradient).max(initial=0.0)),
        seconds=fit.seconds + stage.account.seconds,
    )
    refinement = Refinement(second, fit.theta, stage.account, stage)
    return replace(fit, theta=stage.theta, convergence=convergence, refinement=refinement)


def _steps(fit: Fit, second: Policy) -> Fit:
    """``A >> B``: the optimum of B's objective from A's estimate, or B's scores on some samples with A's as controls."""
    from fieldfit.api.fitting import assemble, separated_at

    prepared = fit.needed
    bound = second.bind(prepared.model.structure(prepared.seen))
    if not bound.everything:
        return _controlled(fit, second, bound)
    began = time.perf_counter()
    prepared.model.check_estimable(prepared.seen, bound, fit.free & ~fit.penalty.penalised)
    again = prepared.with_policy(bound, fit.theta)
    settings = Settings("auto", 1e-6 * again.scale, 1000, statistical=True)
    solution = solve(again, settings)
    theta = again.objective.full(solution.x).copy()
    convergence = Convergence.of(solution, None, fit.seconds + time.perf_counter() - began)
    made = assemble(again, theta, convergence, separated=separated_at(again, solution, None))
    return replace(made, started_from=fit.policy, dropped_rows=fit.dropped_rows, encoder=fit.encoder)


def _controlled(fit: Fit, second: Policy, bound: BoundPolicy) -> Fit:
    """``A >> λ*B``."""
    model, dataset = checked_samples(fit, f"'{fit.policy} >> {second}'")
    prepared = fit.needed
    stage = refine_optimal(
        model,
        dataset,
        prepared.bound,
        prepared.selection,
        fit.theta,
        free=fit.free,
        precision=fit.penalty.precision,
        row_weight=dataset.sample_weight,
        random_state=fit.random_state,
        given=control_stack(model, prepared.bound, bound),
        mask=control_mask(bound.draw(fit.random_state, 0, dataset.n)),
    )
    return _with_stage(fit, second, stage)


def refined_again(fit: Fit) -> Fit:
    """A loaded fit that has its samples again: the same seed and first estimate make the same weights."""
    refinement = fit.refinement
    assert refinement is not None
    first = replace(fit, theta=refinement.first_theta, refinement=None)
    again = refine(first, refinement.second) if refinement.first is None else combined(first)
    assert again.refinement is not None
    working = replace(again.refinement, account=refinement.account, saved_test=refinement.saved_test)
    return replace(fit, refinement=working)


def checked_samples(fit: Fit, what: str) -> tuple[FieldModel, Table]:
    """The fit's model and samples, if a second stage of moment conditions can be made for them."""
    model, dataset = fit.model.as_field(what), as_table(fit.needed.dataset)
    if dataset.has_missing:
        raise DataError(
            f"{what} needs complete samples, and some values are missing. Drop or impute them, or use a policy whose "
            f"likelihood sums them out: '{fit.policy} >> FL', or one stage."
        )
    if fit.l1 is not None and np.any(fit.l1[fit.free] > 0):
        raise PolicyError(
            f"{what} has no L1 penalty: fit again without l1 and with the parameters fixed that l1 has set to 0."
        )
    return model, dataset
