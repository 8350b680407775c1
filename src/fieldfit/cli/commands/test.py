"""`fieldfit test MODEL.ff HYPOTHESIS…`: a Wald test of hypotheses about parameters, together."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.options import Json, SavedFit, with_options
from fieldfit.cli.saved import SampleOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fieldfit.types import Plain


class ErrorKind(StrEnum):
    """Kinds of standard errors."""

    robust = "robust"
    model = "model"
    spatial = "spatial"


@with_options
def wald(
    path: SavedFit,
    hypotheses: Annotated[
        list[str], typer.Argument(metavar="HYPOTHESIS…", help="NAME (is 0), NAME==VALUE or NAME==NAME.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DATA",
            help="Data of the fit. Needed if the file has no covariance or for --kind model.",
        ),
    ] = None,
    kind: Annotated[ErrorKind, typer.Option("--kind", help="Kind of standard errors.")] = ErrorKind.robust,
    json: Json = False,
    *,
    samples: SampleOptions,
) -> None:
    """Test hypotheses about parameters (Wald test). All are tested together."""
    from fieldfit.api.files import load
    from fieldfit.cli.output import print_json, say
    from fieldfit.cli.saved import load_with

    fit = load(path) if data is None else load_with(path, data, samples)
    rows, values = parse_hypotheses(hypotheses, fit.parameter_names)
    result = fit.wald_test(rows, values, kind=kind.value)
    if json:
        print_json({"hypotheses": hypotheses, "test": result.name, "statistic": result.statistic,
                    "degrees_of_freedom": result.degrees_of_freedom, "p": result.p,
                    "caution": result.caution or None})  # fmt: skip
        return
    say(str(result))


def parse_hypotheses(texts: Sequence[str], names: Sequence[str]) -> tuple[list[dict[str, float]], list[float]]:
    """Each text as coefficients of parameters and the value that their sum has under the hypothesis."""
    from fieldfit.named import nearest_names
    from fieldfit.types import ModelError

    known = set(names)
    rows: list[Plain] = []
    values: list[float] = []
    for text in texts:
        left, equals, right = (_in_order(part.strip(), known) for part in text.partition("=="))
        for name in [left] if not equals or right not in known else [left, right]:
            if name not in known:
                raise ModelError(f"The hypothesis {text!r} does not name a parameter; {nearest_names(name, names)}.")
        if right in known:
            rows.append({left: 1.0, right: -1.0})
            values.append(0.0)
            continue
        try:
            values.append(float(right) if equals else 0.0)
        except ValueError:
            raise ModelError(
                f"The hypothesis {text!r} has {right!r} where a number or a parameter should be; write NAME, NAME==0.5 or "
                f"NAME==NAME."
            ) from None
        rows.append({left: 1.0})
    return rows, values


def _in_order(name: str, known: set[str]) -> str:
    """A pair as the model names it, in whichever order it is given."""
    from fieldfit.named import turned

    return turned(name) if name not in known and turned(name) in known else name


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("test")(wald)
