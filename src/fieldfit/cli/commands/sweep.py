"""`fieldfit sweep run|show|export`: an experiment over a grid, in a store that survives interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldfit.cli.cluster import Cluster, Workers, WorkerTimeout, check_backend, opened_backend
from fieldfit.cli.options import Json, Threads, limit_threads
from fieldfit.cli.output import InterruptedFitError

SweepFile = Annotated[Path, typer.Argument(metavar="FILE.toml", help="File that describes the sweep.")]
StoreFile = Annotated[Path, typer.Argument(metavar="SWEEP", help="A sweep's .toml file, or its store.")]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="Store of the results. Default: FILE.sweep next to FILE.toml."),
]

#: Exit code of `run` if some cells failed; 0 if all are done, and 130 after Ctrl-C.
FAILED = 1


def run(
    file: SweepFile,
    store: StoreOption = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Number of worker processes; -1: one for each processor.")
    ] = 1,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed cells again.")] = False,
    extend: Annotated[bool, typer.Option("--extend", help="Add cells for values that are new in the axes.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show the progress.")] = False,
    threads: Threads = None,
    workers: Workers = None,
    cluster: Cluster = None,
    worker_timeout: WorkerTimeout = None,
    json: Json = False,
) -> None:
    """Compute the missing cells of a sweep. After an interruption, run the same command again to continue."""
    from fieldfit.cli.output import print_json, say
    from fieldfit.sweep import read_sweep, run_sweep
    from fieldfit.types import FieldfitError

    limit_threads(threads)
    check_backend(workers, cluster, worker_timeout)
    if jobs != 1 and (workers is not None or cluster is not None):
        raise FieldfitError(
            "--jobs starts processes on this machine, and --workers and --cluster compute cells on Dask workers. Give one "
            "of the three."
        )
    path = store or store_of(file)
    try:
        with opened_backend(workers, cluster, worker_timeout) as backend:
            summary = run_sweep(
                read_sweep(file),
                path,
                n_jobs=jobs,
                retry_failed=retry_failed,
                extend=extend,
                progress=not quiet,
                backend=backend,
            )
    except KeyboardInterrupt:  # it came twice
        if not path.exists():
            raise
        raise _interrupted(path) from None
    if json:
        print_json(vars(summary) | {"path": str(summary.path)})
    else:
        say(str(summary))
    if summary.interrupted:
        raise _interrupted(summary.path)
    if summary.failed:
        raise typer.Exit(FAILED)


def _interrupted(path: Path) -> InterruptedFitError:
    return InterruptedFitError(f"Interrupted; {path} has the finished cells, and the same command continues.")


def show(
    path: StoreFile,
    store: StoreOption = None,
    errors: Annotated[bool, typer.Option("--errors", help="Also print the error of every failed cell.")] = False,
    tracebacks: Annotated[
        bool, typer.Option("--tracebacks", help="Print these errors with their Python tracebacks.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the progress of a sweep and its failed cells."""
    from fieldfit.cli.output import print_json, say
    from fieldfit.sweep import open_sweep
    from fieldfit.sweep.results import error_sentence

    sweep = open_sweep(store or store_of(path))
    frame = sweep.frame(unfinished=True)
    if json:
        records = frame.to_dict("records")
        print_json({"name": sweep.name, "definition": sweep.definition, "cells": records})
        return
    say(sweep.summary())
    if errors or tracebacks:
        for _, row in frame[frame["cell_status"] == "failed"].iterrows():
            say(f"\n{', '.join(f'{name} = {row[name]}' for name in sweep.definition['axes'])}")
            error = str(row["cell_error"]).rstrip()
            say(error if tracebacks else error_sentence(error))


def export(
    path: StoreFile,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output file, .csv or .parquet.")],
    store: StoreOption = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Include cells without a result.")] = False,
) -> None:
    """Write the results to a table, one row for each cell."""
    from fieldfit.cli.output import note
    from fieldfit.cli.saving import check_target
    from fieldfit.sweep import open_sweep

    kept = store or store_of(path)
    check_target(out, path, kept, *_inputs(path))
    rows = open_sweep(kept).export(out, unfinished=unfinished)
    note(f"{rows:,} cells written to {out}")


def store_of(path: Path) -> Path:
    """The store beside a .toml file; any other path is a store itself."""
    return path.with_suffix(".sweep") if path.suffix == ".toml" else path


def _inputs(path: Path) -> list[Path]:
    """The files that the sweep of a .toml file reads."""
    from fieldfit.sweep import read_sweep

    if path.suffix != ".toml" or not path.is_file():
        return []
    sweep = read_sweep(path)
    constants = sweep.resolved_constants()
    return [Path(str(constants[name])) for name in sweep.experiment.paths if name in constants]


def register(app: typer.Typer) -> None:
    """Add the command and its subcommands."""
    group = typer.Typer(help="Run an experiment over a grid of values.", no_args_is_help=True, rich_markup_mode=None)
    for command in (run, show, export):
        group.command(command.__name__)(command)
    app.add_typer(group, name="sweep")
