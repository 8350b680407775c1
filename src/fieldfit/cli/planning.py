"""What all plans have in common: their options, the call, and what is printed and written."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.cluster import Cluster, ShardsOption, Workers, WorkerTimeout, check_backend, opened_backend
from fieldfit.cli.options import Json, Seed, Threads, WideRows, WideRowsOption, limit_threads

if TYPE_CHECKING:
    from fieldfit.models.base import Model
    from fieldfit.planner.result import Plan
    from fieldfit.shards.backend import Backend

_FILES = ("plan.png", "plan.svg", "plan.html", "plan.csv")


@dataclass(frozen=True)
class PlanOptions:
    """The options of every plan."""

    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            "-b",
            metavar="TIME",
            help="Time limit such as 10s, 500ms or 2min, including the pilot; 10 means 10s. Default: no limit.",
        ),
    ] = None
    flops: Annotated[
        float | None,
        typer.Option("--flops", help="Limit in the paper's FLOPs, instead of --budget. Default: no limit."),
    ] = None
    efficiency: Annotated[
        float | None,
        typer.Option(
            "--efficiency",
            help="Recommend the cheapest policy with at most this variance relative to maximum likelihood, such as 1.1. "
            "Default: the most accurate policy.",
        ),
    ] = None
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", help="Policy to compare (may be repeated). Default: pure, mixed and refined policies."
        ),
    ] = None
    functional: Annotated[
        list[str] | None,
        typer.Option(
            "--functional",
            help="Parameter or contrast 'a - b' to estimate accurately (may be repeated). Default: all parameters.",
        ),
    ] = None
    sigma2: Annotated[
        str,
        typer.Option("--sigma2", metavar="V", help="Variance of the Gaussian penalty of the planned fit, or none."),
    ] = "none"
    tol: Annotated[
        str,
        typer.Option("--tol", metavar="NUMBER|statistical", help="Tolerance of the planned fit, as in fieldfit fit."),
    ] = "1e-6"
    wide_rows: WideRowsOption = WideRows.refuse
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of policies to print.")] = 16
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for the table, the plot and the page of the plan. Default: no files.",
        ),
    ] = None
    seed: Seed = 0
    threads: Threads = None
    workers: Workers = None
    cluster: Cluster = None
    worker_timeout: WorkerTimeout = None
    shards: ShardsOption = None
    json: Json = False

    @property
    def penalty(self) -> float | None:
        """σ² of the fit."""
        from fieldfit.types import ModelError

        if self.sigma2 == "none":
            return None
        try:
            return float(self.sigma2)
        except ValueError:
            raise ModelError(f"--sigma2 is {self.sigma2!r:.80}; give a positive number, or none.") from None


@dataclass(frozen=True)
class ChainPlanOptions(PlanOptions):
    """The same with the defaults of fits of chains."""

    sigma2: Annotated[
        str,
        typer.Option("--sigma2", metavar="V", help="Variance of the Gaussian penalty of the planned fit, or none."),
    ] = "10"
    tol: Annotated[
        str,
        typer.Option("--tol", metavar="NUMBER|statistical", help="Tolerance of the planned fit, as in fieldfit fit."),
    ] = "1e-4"


def run_plan(read: Callable[[Callable[[], Backend | None]], tuple[Model, object]], options: PlanOptions) -> None:
    """Plan for the model and samples of ``read``, whose time counts, and print what was found.

    ``read`` is given a function that opens the backend, for files that are read on workers. Otherwise the workers start
    after the samples have been read, so that errors in these are shown at once.
    """
    from fieldfit.api.plan import plan
    from fieldfit.cli.output import collected_warnings, note, print_json, print_table, say
    from fieldfit.cli.saving import check_folder
    from fieldfit.cli.values import as_tolerance
    from fieldfit.cli.wording import in_options
    from fieldfit.steps import waiting

    limit_threads(options.threads)
    check_folder(options.out)
    check_backend(options.workers, options.cluster, options.worker_timeout)
    began = time.process_time()
    with collected_warnings() as warned, ExitStack() as stack:
        opening = opened_backend(options.workers, options.cluster, options.worker_timeout)
        opened = cache(lambda: stack.enter_context(opening))
        model, samples = read(opened)
        reading = time.process_time() - began
        made = plan(
            model,
            samples,
            options.budget,
            flops=options.flops,
            efficiency=options.efficiency,
            policies=options.policy or None,
            functionals=options.functional or None,
            sigma2=options.penalty,
            tol=as_tolerance(options.tol),
            random_state=options.seed,
            wide_rows=options.wide_rows.value,
            reading=reading,
            backend=opened(),
            shards=options.shards,
        )
    files: list[str] = []
    if options.out is not None:
        with waiting("picture and page"):
            files = write_plan(made, options.out)
    if options.json:
        print_json({**made.to_dict(), "files": files, "warnings": warned})
        return
    print_table(made.plain_table(options.rows))
    say("")
    say(_folded(in_options(made.explain())))
    for path in files:
        note(f"written: {path}")


def write_plan(plan: Plan, folder: Path) -> list[str]:
    """Picture, page and table of a plan."""
    from fieldfit.cli.invocation import command
    from fieldfit.data.atomic import atomic_writer
    from fieldfit.planner.pictures import plan_page
    from fieldfit.report.figures import save_figure

    save_figure(plan.plot(), folder, "plan")
    plan_page(plan, command()).write(folder / "plan.html")
    with atomic_writer(folder / "plan.csv") as file:
        file.write(plan.table.to_csv(index=False).encode())
    return [str(folder / name) for name in _FILES]


def _folded(text: str) -> str:
    """Lines of at most the terminal's width."""
    import shutil
    import textwrap

    width = min(100, shutil.get_terminal_size((80, 24)).columns)
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n"))
