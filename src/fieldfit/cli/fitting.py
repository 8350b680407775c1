"""What all fits on tables have in common: their options, reading the table, progress, and the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldfit.cli.output import InterruptedFitError, check_folder, collected_warnings, note, print_json
from fieldfit.cli.progress import shown_progress
from fieldfit.cli.shared import (
    HeaderOption,
    Json,
    KindOfWeight,
    Out,
    SampleWeight,
    Seed,
    Threads,
    WeightKind,
    use_threads,
)

if TYPE_CHECKING:
    from fieldfit.data.samples import Table
    from fieldfit.models.base import Model

DataFile = Annotated[Path, typer.Argument(metavar="DATA", help="A CSV or TSV file, one sample a line.")]
EdgesOption = Annotated[
    str | None,
    typer.Option(
        "--edges", metavar="GRAPH", help="grid:8x8, grid:8x8:8 (8 neighbours) or a file of pairs; all pairs."
    ),
]
TiedOption = Annotated[
    bool, typer.Option("--tied/--free", help="Share parameters between all edges (of a grid: of one direction).")
]


class Method(StrEnum):
    """Optimisers."""

    auto = "auto"
    lbfgs = "lbfgs"
    newton = "newton"


class WideRows(StrEnum):
    """What to do with samples whose missing values are too wide to sum out."""

    refuse = "refuse"
    drop = "drop"


@dataclass(frozen=True)
class FitOptions:
    """The options of every fit, as given."""

    policy: str
    sigma2: float | None
    weights: str | None
    seed: int
    method: str
    tol: float
    max_iter: int
    columns: str | None
    header: bool | None
    sample_weight: str | None
    weight_kind: str
    wide_rows: str
    threads: int | None
    progress: bool | None
    rows: int
    out: Path | None
    json: bool


def fit_options(
    policy: Annotated[str, typer.Option("--policy", "-p", help="What to select, such as 'PL1 + 0.2*PL2'.")] = "PL1",
    sigma2: Annotated[float | None, typer.Option("--sigma2", help="Variance of the penalty (no penalty).")] = None,
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="B1,B2,…", help="β of each term, in place of the policy's own, or auto."),
    ] = None,
    seed: Seed = 0,
    method: Annotated[Method, typer.Option("--method", help="The optimiser.")] = Method.auto,
    tol: Annotated[float, typer.Option("--tol", help="Largest gradient entry for each sample at the end.")] = 1e-6,
    max_iter: Annotated[int, typer.Option("--max-iter", min=1, help="Iterations at most.")] = 1000,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B,…", help="The columns that are variables (all).")
    ] = None,
    header: HeaderOption = None,
    sample_weight: SampleWeight = None,
    weight_kind: KindOfWeight = WeightKind.importance,
    wide_rows: Annotated[
        WideRows, typer.Option("--wide-rows", help="Samples with too many missing values to sum out.")
    ] = WideRows.refuse,
    threads: Threads = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show each iteration (on a terminal).")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Parameters to print.")] = 20,
    out: Out = None,
    json: Json = False,
) -> FitOptions:
    """Collect the options of every fit."""
    return FitOptions(
        policy, sigma2, weights, seed, method.value, tol, max_iter, columns, header, sample_weight, weight_kind.value,
        wide_rows.value, threads, progress, rows, out, json,
    )  # fmt: skip


def read_data(path: Path, options: FitOptions, states: Sequence[Any] | None) -> Table:
    """The table, with the columns and weights that the options name."""
    from fieldfit.cli.values import as_list
    from fieldfit.data.table import read_table

    return read_table(
        path,
        states=states,
        columns=as_list(options.columns),
        sample_weight=options.sample_weight,
        weight_kind=options.weight_kind,
        header=options.header,
    )


def run_fit(build: Callable[[], tuple[Model, Table]], options: FitOptions) -> None:
    """Fit, save and print. Ctrl-C during the fit keeps what there is and exits with 130."""
    from fieldfit.cli.showing import fit_document, print_fit
    from fieldfit.cli.weighting import weights_option
    from fieldfit.policies import Policy

    use_threads(options.threads)
    policy = Policy.parse(options.policy)
    betas = weights_option(options.weights)
    check_folder(options.out)
    model, table = build()
    from fieldfit.api.fitting import fit

    target = options.tol * table.n if table.sample_weight is None else options.tol * float(table.sample_weight.sum())
    with (
        collected_warnings() as warned,
        shown_progress(options.progress, options.json, options.max_iter, target) as progress,
    ):
        result = fit(
            model,
            table,
            policy,
            sigma2=options.sigma2,
            weights=betas,
            random_state=options.seed,
            method=options.method,  # type: ignore[arg-type]
            tol=options.tol,
            max_iter=options.max_iter,
            wide_rows=options.wide_rows,
            progress=progress,
        )
    kept = "it is lost, because there was no --out" if options.out is None else f"{options.out} has the fit"
    try:
        if options.out is not None:
            result.save(options.out)
        if options.json:
            print_json(fit_document(result, warned, options.out))
        else:
            print_fit(result, options.rows)
            if options.out is not None:
                note(f"saved: {options.out}")
    except KeyboardInterrupt:
        raise InterruptedFitError(f"Interrupted after the fit, in its standard errors; {kept}.") from None
    if result.message == "stopped: interrupted":
        kept = f"; {options.out} has the estimate so far" if options.out else ""
        raise InterruptedFitError(f"Interrupted after {result.iterations} iterations: not converged{kept}.")
