"""`fit`: from data and a policy to an estimate."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from numpy.typing import ArrayLike

from fieldfit.api.checkpoint import Checkpoint, named_in_errors
from fieldfit.api.options import EstimationOptions
from fieldfit.api.refine import fit_estimator
from fieldfit.api.result import Fit
from fieldfit.data.memory import told_lack
from fieldfit.models.base import Model, check_model
from fieldfit.optim import Progress
from fieldfit.optim.choose import Method
from fieldfit.optim.early_stopping import EarlyStopping
from fieldfit.optim.solution import DEFAULT_MAX_ITER, DEFAULT_TOL
from fieldfit.penalties import ByParameter
from fieldfit.policies import Policy
from fieldfit.refinement.staged import Staged, as_estimator
from fieldfit.shards.pieces import advice_for_memory
from fieldfit.types import FloatArray
from fieldfit.weights import AutoWeights


def fit(
    model: Model,
    data: object,
    policy: Policy | Staged | str = "PL1",
    *,
    sigma2: ByParameter = None,
    l1: ByParameter = None,
    group_l1: float | None = None,
    weights: Sequence[float] | FloatArray | Literal["auto"] | AutoWeights | None = None,
    random_state: int = 0,
    sample_weight: ArrayLike | str | None = None,
    weight_kind: str = "importance",
    groups: ArrayLike | str | None = None,
    start: ArrayLike | None = None,
    fixed: Mapping[str, float] | None = None,
    method: Method = "auto",
    tol: float | Literal["statistical"] = DEFAULT_TOL,
    max_iter: int = DEFAULT_MAX_ITER,
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
        ``tol``, and penalised parameters would not change by more than 10 ``tol`` along the gradient. More than
        10,000 samples count as 10,000 here: what a few samples with a rare state say does not grow with all. Where the
        likelihood is nearly flat in some direction, a small gradient does not mean a small distance: with 1e-3,
        estimates may be several units from the optimum. ``"statistical"``: when the estimated distance of each
        parameter to its optimum is at most about 5% of its standard error. The second
        stage of ``"A >> B"`` stops at either of the two; with a number below 1e-6 it stops at that number only.
    max_iter : int, default: 1000
        Largest number of iterations: of each stage of ``"A >> B"``, of each separate fit of ``"Nodewise >> optimal"``, and
        of each fit of θ with ``weights="auto"``. A fit with a stage that it ends warns and has not converged, except that
        ``A >> FL`` needs no optimum of A. Where it ends ``optimal``, the estimate is the first stage's.
    wide_rows : {"refuse", "drop"}, default: "refuse"
        Whether samples with too many missing values to sum out raise an error, or are dropped and listed in
        ``fit.dropped_rows``.
    progress : bool, callable or None, default: None
        True prints each iteration on stderr. A function is called after each iteration with a `Progress`
        (iteration, objective, gradient norm, seconds); if it returns True, the fit stops. Each stage of ``"A >> B"`` begins
        again with iteration 0, and a stage of moment conditions has no objective (NaN). Shards answer ``Nodewise`` once,
        without a gradient.
    stopping : EarlyStopping or None, default: None
        Stops the fit by a score on development data. The result has the θ with the best score.
    backend : distributed.Client, Backend or None, default: None
        Where the samples are evaluated: on the workers of a Dask cluster. None: in this process.
    shards : int or None, default: None
        Number of pieces that the samples are divided into. Fits with other pieces differ by about what ``tol`` allows, fits
        with the same pieces not at all, for any backend and number of workers. None: 32 pieces or more with a backend, and
        one without.
    checkpoint : str, Path, Checkpoint or None, default: None
        File that keeps the state of the fit, written at intervals and after Ctrl-C or an error. See `Checkpoint` for how
        to continue from it.

    check_drift : bool, default: True
        Whether to check, for fields of ten variables or more with biases, that a short Gibbs run from rows of the data
        keeps their means and does not go beyond all rows. Studies with many fits can leave it out.

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
    estimator = as_estimator(policy)
    options = EstimationOptions(
        sigma2=sigma2, l1=l1, group_l1=group_l1, weights=weights, random_state=random_state, sample_weight=sample_weight,
        weight_kind=weight_kind, groups=groups, start=start, fixed=fixed, method=method, tol=tol, max_iter=max_iter,
        wide_rows=wide_rows, progress=progress, stopping=stopping, backend=backend, shards=shards, checkpoint=checkpoint,
        check_drift=check_drift,
    )  # fmt: skip
    with named_in_errors(options.kept), told_lack(partial(advice_for_memory, data)):
        return fit_estimator(model, data, estimator, options)
