"""`fit`: from data and a policy to an estimate, in four stages.

prepare (samples, drawn Z, compiled problem) → choose the weights β, if they are automatic → solve → assemble the Fit
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, Literal, cast, get_args

from numpy.typing import ArrayLike

from fieldfit.api.checkpoint import Checkpoint, as_checkpoint, refuse_checkpoint
from fieldfit.api.moments import runaway
from fieldfit.api.prepare import Prepared, check_objective, check_samples, prepare, starting_point
from fieldfit.api.progress import as_callback
from fieldfit.api.result import Fit
from fieldfit.api.sharded import prepare_shards, read_placed, shown
from fieldfit.api.solve import Settings, solve
from fieldfit.api.state import Convergence, SampleSize
from fieldfit.arguments import positive_number, seed, truth_value, whole_number
from fieldfit.models.base import Model, check_model
from fieldfit.models.identification import with_open_weights
from fieldfit.objective import ByParameter, Penalty
from fieldfit.optim import Progress, Solution, Status
from fieldfit.optim.choose import Method
from fieldfit.optim.early_stopping import EarlyStopping
from fieldfit.policies import Policy
from fieldfit.refinement.staged import Staged, as_estimator
from fieldfit.types import ConvergenceWarning, FieldfitError, FloatArray, IntArray, RunawayWarning, SeparationWarning
from fieldfit.variance.separation import concerned_by, separated_parameters, separation_message
from fieldfit.weights import AutoWeights, DrawnPolicy, Part, WeightsResult, as_options, automatic_weights


def fit(
    model: Model,
    data: object,
    policy: Policy | Staged | str = "PL1",
    *,
    sigma2: ByParameter = None,
    l1: ByParameter = None,
    group_l1: float | None = None,
    weights: Sequence[float] | Literal["auto"] | AutoWeights | None = None,
    random_state: int = 0,
    sample_weight: ArrayLike | str | None = None,
    weight_kind: str = "importance",
    groups: ArrayLike | str | None = None,
    start: ArrayLike | None = None,
    fixed: Mapping[str, float] | None = None,
    method: Method = "auto",
    tol: float | Literal["statistical"] = 1e-6,
    max_iter: int = 1000,
    wide_rows: str = "refuse",
    progress: Callable[[Progress], object] | bool | None = None,
    stopping: EarlyStopping | None = None,
    backend: object = None,
    shards: int | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    check_drift: bool = True,
) -> Fit:
    """Maximise the stochastic composite likelihood of a policy.

    Parameters
    ----------
    model : Model
        The model. Its variables take the names of the data's columns, unless it has names.
    data : array_like, DataFrame, str, Path or Sequences
        Samples. For fields: rows of an array or data frame, or the path of a CSV file; NaN or blank is missing and
        is summed out. For chains: `Sequences`. Fields also take data in pieces, which are read where they are held and
        never brought together: a Dask data frame or array, the pattern of CSV or Parquet files (``"data/*.csv"``), or a
        folder that ``fieldfit shard`` made.
    policy : str, Policy or Staged, default: "PL1"
        The policy, such as ``"PL1 + 0.2*PL2"``. ``"FL"`` is maximum likelihood, ``"PL1"`` is maximum
        pseudo-likelihood. ``"PL1 >> optimal"`` has a second stage; see `refine`.
    sigma2 : float, sequence, dict or None, default: None
        Variance σ² of the Gaussian penalty ‖θ‖²/(2σ²): a number, one number for each parameter, or a mapping from
        names or patterns of names to numbers. None: no penalty.
    l1 : float, sequence, dict or None, default: None
        Weight of the penalty Σ|θ|, in the same form as ``sigma2``. Together with ``sigma2`` it is an elastic net.
        None: no penalty.
    group_l1 : float or None, default: None
        Weight of the penalty Σ‖θ_g‖ over the tables g of couplings (the q × q couplings of two Potts variables, say): the
        couplings of a pair are 0 together, or none is. Biases and fields have no such penalty. Not together with ``l1``.
        None: no penalty.
    weights : sequence of float, "auto", AutoWeights or None, default: None
        Weight β of each term. ``"auto"`` chooses the β with the smallest asymptotic variance; see ``fit.weights``.
        None: the weights in the policy.
    random_state : int, default: 0
        Seed of the selection Z. The same seed gives identical results.
    sample_weight : array_like, str or None, default: None
        Weight of each sample, or the name of the column with the weights.
    weight_kind : {"importance", "counts"}, default: "importance"
        Whether a weight multiplies the log-likelihood of the sample, or is a number of copies, each with its own Z.
    groups : array_like, str or None, default: None
        Group of each sample, or the name of the column with the groups. Samples of one group may depend on each
        other; robust standard errors and tests account for this. None: independent samples.
    start : array_like or None, default: None
        Starting value of θ. None: 0.
    fixed : dict or None, default: None
        Mapping from names or patterns of names to fixed values: ``{"*:*": 0.0}`` fixes all couplings.
    method : {"auto", "lbfgs", "newton", "sgd"}, default: "auto"
        The optimiser. ``"sgd"`` (chains): averaged stochastic gradients, which come close to the optimum in a few passes
        over the data and then stop; iterations are passes.
    tol : float or "statistical", default: 1e-6
        The fit has converged when the largest entry of the gradient per sample, in units of the features, is below
        ``tol``. ``"statistical"``: when the estimated distance to the optimum is 5% of the sampling error.
    max_iter : int, default: 1000
        Largest number of iterations.
    wide_rows : {"refuse", "drop"}, default: "refuse"
        Whether samples with too many missing values to sum out raise an error, or are dropped and listed in
        ``fit.dropped_rows``.
    progress : bool, callable or None, default: None
        True prints each iteration on stderr. A function is called after each iteration with a `Progress`
        (iteration, objective, gradient norm, seconds); if it returns True, the fit stops.
    stopping : EarlyStopping or None, default: None
        Stops the fit by a score on development data. The result has the θ with the best score.
    backend : distributed.Client, Backend or None, default: None
        Where the samples are evaluated: on the workers of a Dask cluster. None: in this process.
    shards : int or None, default: None
        Number of pieces that the samples are divided into. The estimate depends on it in the last digits, and not on the
        backend or its number of workers. None: 32 pieces or more with a backend, and one without.
    checkpoint : str, Path, Checkpoint or None, default: None
        File that keeps the state of the fit, written at intervals and after Ctrl-C or an error. See `Checkpoint` for how
        to go on from it.

    check_drift : bool, default: True
        Whether to check, for fields of ten binary variables or more with biases, that a short Gibbs run from rows of the
        data keeps their means. Studies with many fits can leave it out.

    Returns
    -------
    Fit
        After Ctrl-C, the best θ so far, with ``converged=False``.

    Raises
    ------
    IdentifiabilityError
        If the policy does not determine all parameters and there is no penalty.
    WidthError
        If a component needs a table larger than the model's ``largest_table``.

    Warns
    -----
    ConvergenceWarning
        If the optimiser stops before it has converged.
    SeparationWarning
        If the optimum of a parameter is at infinity.
    RunawayWarning
        If the means of the model are far from those of the data.

    Notes
    -----
    The objective is ``Σ_i w_i Σ_j β_j Z_ij log p_θ(x_A | x_B) − Σ_l θ_l² / (2σ_l²) − Σ_l l1_l |θ_l|``,
    with ``group_l1`` times ``Σ_g ‖θ_g‖`` instead of the last term if that is given.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    >>> fit = ff.fit(model, x, "PL1")
    >>> fit.theta.round(2)
    array([ 0.8 , -0.93,  0.55])
    >>> fit.standard_errors().round(2)
    array([0.11, 0.14, 0.12])
    """
    check_model(model, "fit")
    if not (isinstance(tol, str) and tol == "statistical"):
        tol = positive_number(tol, "tol", ", or 'statistical'")
    max_iter, random_state = whole_number(max_iter, "max_iter", 0), seed(random_state)
    check_drift = truth_value(check_drift, "check_drift")
    if method not in get_args(Method):
        raise FieldfitError(f"method is {method!r:.80}; it must be 'auto', 'lbfgs', 'newton' or, for chains, 'sgd'.")
    chosen, automatic = as_estimator(policy), None if weights is None else as_options(weights)
    if method == "sgd" and automatic is not None:
        raise FieldfitError("Automatic weights need a fit that converges: use method='auto', or give the weights.")
    if stopping is not None and not isinstance(stopping, EarlyStopping):
        raise FieldfitError(f"stopping is {stopping!r:.80}; it must be an EarlyStopping, or None.")
    if as_checkpoint(checkpoint) is not None:
        refuse_checkpoint(chosen, automatic is not None, stopping is not None)
    options: dict[str, Any] = {
        "sigma2": sigma2, "l1": l1, "group_l1": group_l1, "weights": weights, "random_state": random_state,
        "sample_weight": sample_weight, "weight_kind": weight_kind, "groups": groups, "start": start, "fixed": fixed,
        "method": method, "tol": tol, "max_iter": max_iter, "wide_rows": wide_rows, "progress": progress,
        "stopping": stopping, "backend": backend, "shards": shards, "checkpoint": checkpoint, "check_drift": check_drift,
    }  # fmt: skip
    if isinstance(chosen, Staged):
        from fieldfit.api.refine import fit_stages

        return fit_stages(model, data, chosen, options)
    return fit_policy(model, data, chosen, **options)


def fit_policy(
    model: Model,
    data: object,
    policy: Policy,
    *,
    sigma2: ByParameter,
    l1: ByParameter,
    group_l1: float | None,
    weights: Sequence[float] | Literal["auto"] | AutoWeights | None,
    random_state: int,
    sample_weight: ArrayLike | str | None,
    weight_kind: str,
    groups: ArrayLike | str | None,
    start: ArrayLike | None,
    fixed: Mapping[str, float] | None,
    method: Method,
    tol: float | Literal["statistical"],
    max_iter: int,
    wide_rows: str,
    progress: Callable[[Progress], object] | bool | None,
    stopping: EarlyStopping | None,
    backend: object,
    shards: int | None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None,
    check_drift: bool,
    as_start: bool = False,
) -> Fit:
    """`fit` without a second stage, with checked options; ``as_start``: the estimate is only the start of another fit."""
    began = time.perf_counter()
    chosen, automatic = policy, None if weights is None else as_options(weights)
    statistical, kept = isinstance(tol, str), as_checkpoint(checkpoint)
    numeric = 1e-6 if isinstance(tol, str) else tol
    if automatic is None and weights is not None:
        chosen = chosen.with_betas(cast(Sequence[float], weights))
    place, dataset = read_placed(
        model, data, chosen, backend=backend, shards=shards, sample_weight=sample_weight, weight_kind=weight_kind,
        groups=groups,
    )  # fmt: skip
    check_samples(dataset)
    seen = shown(dataset)
    model = model.complete(seen)
    model.refuse_size(seen.n)  # before anything as long as θ is made
    penalty = Penalty.of(sigma2, l1, model.parameter_names).with_groups(
        group_l1, lambda: model.as_field("group_l1").coupling_groups
    )
    if penalty.l1_groups is not None and automatic is not None:
        raise FieldfitError("weights='auto' has no group_l1. Give the weights, or use sigma2.")
    initial, free = starting_point(model, start, fixed)
    bound = chosen.bind(model.structure(seen))
    # Automatic weights are still open: every term may get one.
    judged = bound if automatic is None else with_open_weights(chosen, automatic.by).bind(model.structure(seen))
    model.check_estimable(seen, judged, free & ~penalty.penalised)
    samples = prepare if place is None else partial(prepare_shards, place=place)
    prepared = samples(
        model,
        dataset,
        bound,
        penalty=penalty,
        start=initial,
        free=free,
        random_state=random_state,
        wide_rows=wide_rows,
    )
    check_objective(prepared)
    # Automatic weights add up to 1, whatever was written.
    scale = prepared.scale if automatic is None else prepared.dataset.total_weight
    gtol = numeric * scale
    tell = None if progress is None else as_callback(progress, max_iter, gtol)
    settings = Settings(method, gtol, max_iter, tell, stopping, statistical, kept, as_start)
    weights_found = None
    if automatic is not None:
        prepared, weights_found = choose_weights(prepared, automatic, settings, numeric)
    if weights_found is not None and weights_found.interrupted:
        solution = solve(prepared, replace(settings, max_iter=0), at_optimum=True)
        solution = replace(solution, converged=False, status=Status.INTERRUPTED, message=Status.INTERRUPTED.value)
    else:
        solution = solve(prepared, settings, at_optimum=weights_found is not None and weights_found.fitted)
    theta = prepared.objective.full(solution.x).copy()
    separated = separated_at(prepared, solution, stopping)
    _warn(solution, separated, stopping)
    convergence = Convergence.of(solution, weights_found, time.perf_counter() - began, method)
    made = assemble(prepared, theta, convergence, separated=separated, weights=weights_found)
    return drift_checked(made) if check_drift and not separated else made


def drift_checked(fit: Fit) -> Fit:
    """The fit, with a warning and a note if its model runs away from the data."""
    sentence = runaway(fit)
    if not sentence:
        return fit
    warnings.warn(RunawayWarning(sentence), stacklevel=3)
    return replace(fit, runaway=sentence)


def choose_weights(
    prepared: Prepared, automatic: AutoWeights, settings: Settings, tol: float
) -> tuple[Prepared, WeightsResult]:
    """Automatic weights β, and the same samples and Z with them, to start from where the last round left θ."""
    tell, selection = settings.tell, prepared.drawn
    weights_found = automatic_weights(
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
    )
    bound = weights_found.policy.bind(prepared.model.structure(prepared.seen))
    prepared.model.check_estimable(prepared.seen, bound, prepared.open)
    drawn = DrawnPolicy.of(prepared.bound, automatic.by, selection, prepared.problem, prepared.compile)
    chosen = replace(
        prepared,
        bound=bound,
        selection=drawn.selected(weights_found.beta),
        problem=drawn.at(weights_found.beta),
        start=weights_found.theta,
    )
    return chosen, weights_found


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


def separated_at(prepared: Prepared, solution: Solution, stopping: EarlyStopping | None) -> tuple[str, ...]:
    """The parameters whose optimum lies at infinity.

    Where development data ended the fit, a parameter on its way to infinity was stopped on purpose.
    """
    if not prepared.open.any() or (stopping is not None and stopping.stopped):
        return ()
    product, free = prepared.objective.hessian_product, prepared.free
    penalised, names = prepared.penalty.penalised, prepared.model.parameter_names
    units, contrasts = prepared.objective.units, prepared.model.determined_contrasts
    seen = set(separated_parameters(product, free, solution.x, penalised, names, units, contrasts))
    # Joint states that never occur say the same, however early the optimiser stopped.
    directions = prepared.model.boundary_directions(prepared.dataset)
    seen.update(compress(names, concerned_by(directions, prepared.open, prepared.open)))
    return tuple(name for name in names if name in seen) if seen else ()


def _warn(solution: Solution, separated: tuple[str, ...], stopping: EarlyStopping | None) -> None:
    """Warn the caller of `fit` of data that separate, or of a fit that did not converge."""
    if separated:
        warnings.warn(SeparationWarning(separation_message(separated)), stacklevel=3)
        return
    early = stopping is not None and (stopping.stopped or solution.status.converged)
    ended = solution.status in (Status.INTERRUPTED, Status.SMALL_DECREASE)
    if not (solution.converged or early or ended):
        warnings.warn(
            ConvergenceWarning(
                f"The fit did not converge ({solution.message}; gradient norm {solution.gradient_norm:.3g} after "
                f"{solution.iterations} iterations). Give more iterations (max_iter), a penalty (sigma2), or check "
                f"the data."
            ),
            stacklevel=3,
        )
