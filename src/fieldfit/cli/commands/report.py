"""`fieldfit report MODEL.ff`: a saved fit as a page to explore in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldfit.cli.options import SavedFit, Seed, Threads, limit_threads, with_options
from fieldfit.cli.saved import SampleOptions

#: Most parameters for which other estimators are compared in the default time.
_MOST_COMPARED = 10_000


@with_options
def report(
    path: SavedFit,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DATA",
            help="Data of the fit: a table, a file of sentences, or the alignment of a family. Default: none; the page has "
            "no comparison with the data then.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The page. Default: the model's name with .html."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            "-b",
            metavar="TIME",
            help="Time for comparing estimators, or none to omit the comparison. Default: 5s, and none with more than "
            "10,000 parameters.",
        ),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Level of the confidence intervals.")] = 0.95,
    seed: Seed = 0,
    threads: Threads = None,
    *,
    samples: SampleOptions,
) -> None:
    """Write a saved fit as one interactive HTML page.

    Estimates with intervals, network or transitions, data against model, influence, and the cost and accuracy of
    estimators.
    """
    from fieldfit.api.files import load
    from fieldfit.api.fit_page import fit_page
    from fieldfit.cli.invocation import command
    from fieldfit.cli.output import note
    from fieldfit.cli.saved import attached, family_of
    from fieldfit.cli.saving import check_target
    from fieldfit.cli.wording import in_options
    from fieldfit.planner.request import parse_seconds
    from fieldfit.steps import waiting
    from fieldfit.types import FieldfitError

    if not 0 < level < 1:
        raise FieldfitError(f"--level is {level:g}; it must be between 0 and 1.")
    if budget is not None and budget != "none":
        parse_seconds(budget)
    limit_threads(threads)
    out = path.with_suffix(".html") if out is None else out
    check_target(out, path)
    fit = load(path)
    family = None if data is None else family_of(fit, data)
    purpose = None
    if family is not None:
        from fieldfit.proteins.page import purpose_of

        fit, purpose = family.fit, purpose_of(family)
    elif data is not None:
        fit = attached(fit, data, samples)
    plan, notes = None, []
    if budget is None:
        budget = "5s" if len(fit.theta) <= _MOST_COMPARED else "none"
        if budget == "none" and data is not None:
            notes.append(
                "The costs and accuracies of other estimators were not compared; give --budget 60s for this."
            )
    if data is None:
        notes.append("Give the data (--data) for the frontier of cost and accuracy.")
    elif budget != "none" and not fit.runaway:
        from fieldfit.api.fit_page import plan_for

        note(f"comparing estimators for {budget} …")
        try:
            plan = plan_for(fit, budget, seed)
        except FieldfitError as error:
            notes.append(f"The cost and accuracy of other estimators were not compared: {error}")
    with waiting("report page"):
        fit_page(fit, plan, level, notes, command(), in_options, purpose, str(path)).write(out)
    note(f"written: {out} (open it in a browser)")
