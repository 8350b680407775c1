"""`fieldfit validate MODEL.ff DATA`: held-out likelihood of a saved fit's model, under several policies and penalties."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldfit.cli.checkpoints import (
    CheckpointEvery,
    CheckpointOption,
    Resume,
    checkpoint_from_options,
    told_interrupts,
)
from fieldfit.cli.options import Json, SavedFit, Seed, Threads, limit_threads, with_options
from fieldfit.cli.saved import FittedData, SampleOptions


@with_options
def validate(
    path: SavedFit,
    data: FittedData,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", help="Policy (may be repeated). Default: that of the fit."),
    ] = None,
    sigma2: Annotated[
        str | None,
        typer.Option(
            "--sigma2", metavar="V,…", help="Penalties to compare, such as 0.1,1,none. Default: that of the fit."
        ),
    ] = None,
    score: Annotated[
        str, typer.Option("--score", help="Policy whose log-likelihood is measured on held-out samples.")
    ] = "FL",
    folds: Annotated[int, typer.Option("--folds", min=2, help="Number of folds.")] = 5,
    seed: Seed = 0,
    threads: Threads = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEvery = 60.0,
    resume: Resume = False,
    json: Json = False,
    *,
    samples: SampleOptions,
) -> None:
    """Cross-validate policies and penalties by held-out likelihood."""
    from fieldfit.api.files import load
    from fieldfit.api.validation import cross_validate
    from fieldfit.cli.output import collected_warnings, print_json, print_table
    from fieldfit.cli.saved import read_samples
    from fieldfit.cli.values import as_list, numbers_from_text
    from fieldfit.report.table import PlainTable

    limit_threads(threads)
    kept = checkpoint_from_options(checkpoint, checkpoint_every, resume)
    fit = load(path)
    penalties = [None if text == "none" else numbers_from_text(text, "--sigma2")[0] for text in as_list(sigma2) or []]
    fitted = set(fit.sigma2[fit.free].tolist())
    common = fitted.pop() if len(fitted) == 1 else float("inf")
    with collected_warnings() as warned, told_interrupts(kept, "Interrupted"):
        frame = cross_validate(
            fit.model,
            read_samples(fit, data, samples),
            policy or [str(fit.estimator)],
            sigma2=penalties or [common if common < float("inf") else None],
            score=score,
            folds=folds,
            random_state=seed,
            checkpoint=kept,
        )
    if json:
        print_json({"score": score, "folds": folds, "lines": frame.to_dict(orient="records"), "warnings": warned})
        return
    columns = ("policy", "sigma2", "nll", "± nll", "excess", "± excess")
    numbers = frame[["sigma2", "nll", "std_error", "excess", "excess_std_error"]].to_numpy(dtype=float).tolist()
    lines = tuple(
        (str(text), "none" if penalty == float("inf") else f"{penalty:g}", *rest)
        for text, (penalty, *rest) in zip(frame["policy"], numbers, strict=True)
    )
    note = (
        f"Held-out −log {score} of a sample, {folds} folds; excess over the best line, ± one standard error, which for the "
        f"excess is that of the difference."
    )
    print_table(PlainTable("", columns, lines, note, ("", "", ".5f", ".2g", ".5f", ".2g")))
