"""What all fits to tables have in common: their options, progress, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.checkpoints import (
    CheckpointEvery,
    CheckpointOption,
    Resume,
    checkpoint_from_options,
    told_interrupts,
)
from fieldfit.cli.cluster import Cluster, ShardsOption, Workers, WorkerTimeout, check_backend, opened_backend
from fieldfit.cli.options import Json, SaveTo, Seed, Threads, WideRows, WideRowsOption, limit_threads
from fieldfit.cli.output import InterruptedFitError, collected_warnings, note, print_json
from fieldfit.cli.progress import shown_progress
from fieldfit.cli.saving import check_fit_target, is_written, save_here_or_elsewhere, what_is_kept, with_state

if TYPE_CHECKING:
    from fieldfit.api.checkpoint import Checkpoint
    from fieldfit.api.result import Fit
    from fieldfit.data.samples import Table
    from fieldfit.models.base import Model
    from fieldfit.shards.folder import ShardFolder
    from fieldfit.shards.pieces import TableFiles
    from fieldfit.types import FloatArray


class Method(StrEnum):
    """Optimisers."""

    auto = "auto"
    lbfgs = "lbfgs"
    newton = "newton"


@dataclass(frozen=True)
class FitOptions:
    """The options of every fit to a table."""

    policy: Annotated[str, typer.Option("--policy", "-p", help="Policy, such as PL1 or 'PL1 >> optimal'.")] = "PL1"
    sigma2: Annotated[
        float | None, typer.Option("--sigma2", help="Variance of the Gaussian penalty. Default: no penalty.")
    ] = None
    l1: Annotated[
        float | None,
        typer.Option("--l1", min=0, help="Weight of the L1 penalty on couplings (not on biases). Default: none."),
    ] = None
    group_l1: Annotated[
        float | None,
        typer.Option(
            "--group-l1",
            min=0,
            help="Weight of the group L1 penalty: the norm of each pair's couplings. Default: none.",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="B1,B2,…", help="β of each term, or auto. Default: those of the policy."),
    ] = None
    seed: Seed = 0
    method: Annotated[Method, typer.Option("--method", help="Optimiser.")] = Method.auto
    tol: Annotated[
        str,
        typer.Option(
            "--tol",
            metavar="NUMBER|statistical",
            help="Largest gradient entry per sample at convergence; or statistical: stop when the optimisation error is "
            "5% of the sampling error.",
        ),
    ] = "1e-6"
    max_iter: Annotated[
        int, typer.Option("--max-iter", min=1, help="Largest number of iterations of each stage.")
    ] = 1000
    wide_rows: WideRowsOption = WideRows.refuse
    threads: Threads = None
    workers: Workers = None
    cluster: Cluster = None
    worker_timeout: WorkerTimeout = None
    shards: ShardsOption = None
    checkpoint: CheckpointOption = None
    checkpoint_every: CheckpointEvery = 60.0
    resume: Resume = False
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="Show each iteration. Default: only on a terminal."),
    ] = None
    rows: Annotated[int, typer.Option("--rows", min=0, help="Number of parameters to print.")] = 20
    out: SaveTo = None
    json: Json = False


def run_fit(read: Callable[[], tuple[Model, Table | ShardFolder | TableFiles]], options: FitOptions) -> None:
    """Fit the model and samples of ``read``, save and print. Ctrl-C keeps the estimate so far and exits with 130."""
    from fieldfit.cli.values import as_tolerance
    from fieldfit.cli.weighting import weights_option
    from fieldfit.refinement.staged import as_estimator

    limit_threads(options.threads)
    policy = as_estimator(options.policy)
    betas = weights_option(options.weights)
    tol = as_tolerance(options.tol)
    check_fit_target(options.out, options.checkpoint)
    check_backend(options.workers, options.cluster, options.worker_timeout)
    checkpoint = checkpoint_from_options(options.checkpoint, options.checkpoint_every, options.resume)
    with collected_warnings() as told:
        model, table = read()
    from fieldfit.api.fitting import fit

    with opened_backend(options.workers, options.cluster, options.worker_timeout) as backend:
        with (
            collected_warnings() as warned,
            shown_progress(options.progress, options.json, options.max_iter) as progress,
            told_interrupts(checkpoint),
        ):
            result = fit(
                model,
                table,
                policy,
                sigma2=options.sigma2,
                l1=None if not options.l1 else on_couplings(model, options.l1),
                group_l1=options.group_l1,
                weights=betas,
                random_state=options.seed,
                method=options.method.value,
                tol=tol,
                max_iter=options.max_iter,
                wide_rows=options.wide_rows.value,
                progress=progress,
                backend=backend,
                shards=options.shards,
                checkpoint=checkpoint,
            )
        _save_and_show(result, told + warned, options, checkpoint)


def on_couplings(model: Model, l1: float) -> FloatArray:
    """The weight of each parameter: that of ``--l1`` for couplings, 0 for biases and fields, which hold the means."""
    import numpy as np

    return np.where(model.as_field("--l1").coupling_parameters, l1, 0.0)


def _save_and_show(result: Fit, warned: list[str], options: FitOptions, checkpoint: Checkpoint | None) -> None:
    """Write and print a fit, with its standard errors; where it was interrupted, say what is kept of it."""
    from fieldfit.api.checkpoint import named_in_errors
    from fieldfit.cli.invocation import signed
    from fieldfit.cli.showing import fit_document, print_estimates, print_fit
    from fieldfit.types import ClusterError, FileAccessError, OutOfMemoryError

    failure: FileAccessError | ClusterError | MemoryError | None = None
    try:
        if options.out is not None:
            result = signed(result)  # one fit is saved and shown: its standard errors are computed once
            try:
                failure = save_here_or_elsewhere(result.save, options.out)
            except (ClusterError, MemoryError) as error:  # the file has the estimate
                failure = error
        out = None if isinstance(failure, FileAccessError) else options.out
        try:
            if isinstance(failure, ClusterError | MemoryError):
                raise failure
            if options.json:
                print_json(fit_document(result, warned, out))
            else:
                print_fit(result, options.rows)
        except (ClusterError, MemoryError) as error:
            failure = error
            if options.json:
                print_json(fit_document(result, warned, out, errors=False))
            else:
                lost = isinstance(error, ClusterError)
                print_estimates(result, options.rows, "the cluster was lost" if lost else "not enough memory")
        if out is not None and not options.json:
            note(f"saved: {out}")
    except KeyboardInterrupt:
        if options.out is not None and not is_written(options.out) and (result.interrupted or result.has_errors):
            failure = save_here_or_elsewhere(result.save, options.out)  # it came while the file was written
        if isinstance(failure, FileAccessError):
            raise with_state(failure, checkpoint) from None
        if result.interrupted:  # it came once more
            raise _stopped(result, options, checkpoint) from None
        state = what_is_kept(None, checkpoint)
        if is_written(options.out):
            kept = f"; {options.out} has the fit{state}"
        else:
            why = "--out was not given" if options.out is None else f"{options.out} was not written"
            kept = f"; {why}{state}" if state else f"; the estimate is lost, because {why}"
        where = "when it was saved and shown" if result.has_errors else "in its standard errors"
        raise InterruptedFitError(f"Interrupted after the fit, {where}{kept}.") from None
    if isinstance(failure, FileAccessError):
        raise with_state(failure, checkpoint)
    if failure is not None:
        with named_in_errors(checkpoint):
            kind = ClusterError if isinstance(failure, ClusterError) else OutOfMemoryError
            why = str(failure) or "There is not enough memory for them."
            raise kind(f"Only the standard errors are missing: the estimate is printed. {why}") from failure
    if result.interrupted:
        raise _stopped(result, options, checkpoint)


def _stopped(result: Fit, options: FitOptions, checkpoint: Checkpoint | None) -> InterruptedFitError:
    """The end of a fit that was interrupted: what there is of it, and how to continue."""
    kept = what_is_kept(options.out, checkpoint)
    return InterruptedFitError(f"Interrupted after {result.iterations} iterations: not converged{kept}.")
