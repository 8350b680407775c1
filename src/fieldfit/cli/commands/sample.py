"""`fieldfit sample MODEL.ff`: draws from a fitted model."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.options import Json, Out, SavedFit, Seed, Threads, limit_threads
from fieldfit.words import counted

if TYPE_CHECKING:
    from fieldfit.models.base import Draws


class SamplingMethod(StrEnum):
    """How to draw."""

    auto = "auto"
    exact = "exact"
    gibbs = "gibbs"


def sample(
    path: SavedFit,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of samples.")] = 100,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given", metavar="NAME=STATE", help="Fix a variable at a state (may be repeated). Default: none."
        ),
    ] = None,
    method: Annotated[
        SamplingMethod,
        typer.Option("--method", help="Sampling method. auto: exact if the graph is narrow enough, else Gibbs."),
    ] = SamplingMethod.auto,
    burn_in: Annotated[
        int | None, typer.Option("--burn-in", min=0, help="Gibbs sweeps before the first draw. Default: 1000.")
    ] = None,
    thin: Annotated[
        int | None, typer.Option("--thin", min=1, help="Gibbs sweeps between two draws. Default: 10.")
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw samples from a saved fit as CSV. A note says whether they are exact or from Gibbs sampling."""
    from fieldfit.api.files import load
    from fieldfit.cli.output import complain, note, print_json
    from fieldfit.cli.saving import check_target
    from fieldfit.cli.values import as_given
    from fieldfit.data.atomic import atomic_writer

    limit_threads(threads)
    check_target(out, path)
    fit = load(path)
    model = fit.model.as_field("fieldfit sample")
    if fit.runaway:
        complain(fit.runaway)
    states = as_given(given or [], model.names, model.states)
    options = {name: value for name, value in (("burn_in", burn_in), ("thin", thin)) if value is not None}
    draws = model.sample(fit.theta, n, seed, given=states, method=method.value, **options)
    if out is not None:
        with atomic_writer(out) as file:
            file.write(_csv(model.names, draws).encode())
    if json:
        document = {"names": model.names, "n": len(draws), "method": draws.method, "burn_in": draws.burn_in}
        document |= {"note": draws.note, "seed": seed, "file": None if out is None else str(out)}
        print_json(document if out is not None else document | {"values": draws.values})
        return
    if out is None:
        typer.echo(_csv(model.names, draws), nl=False)
    note(f"{counted(len(draws), 'draws')}: {draws.note}" + (f"; written to {out}" if out else ""))


def _csv(names: tuple[str, ...], draws: Draws) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(draws.values.tolist())
    return text.getvalue()
