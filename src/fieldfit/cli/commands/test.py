"""`fieldfit test MODEL.ff HYPOTHESIS…`: a Wald test of hypotheses about parameters, together.

With few samples the law of large samples does not hold; ``--bootstrap`` and ``--permute`` simulate the law instead.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.options import Json, SavedFit, Seed, with_options
from fieldfit.cli.saved import SampleOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fieldfit.api.comparison import HypothesisTest
    from fieldfit.api.resampled_tests import ResampledTest
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
        list[str],
        typer.Argument(
            metavar="HYPOTHESIS…",
            help="NAME (tests NAME==0), NAME==VALUE, NAME==NAME or a contrast such as 'a:b - c:d'. 'group:*' means all "
            "names that match.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DATA",
            help="Data of the fit, required if the file has no covariance, and for --kind model, "
            "--bootstrap and --permute. Default: none.",
        ),
    ] = None,
    kind: Annotated[ErrorKind, typer.Option("--kind", help="Kind of standard errors.")] = ErrorKind.robust,
    bootstrap: Annotated[
        bool,
        typer.Option("--bootstrap", help="Simulate data under the hypothesis and fit them, for few samples."),
    ] = False,
    permute: Annotated[
        list[str] | None,
        typer.Option(
            "--permute",
            metavar="COLUMN",
            help="Permute the rows of this column, such as the group, for few samples. Default: no permutations.",
        ),
    ] = None,
    simulated: Annotated[
        int,
        typer.Option(
            "--simulated", min=1, help="Number of simulated or permuted datasets for --bootstrap and --permute."
        ),
    ] = 199,
    seed: Seed = 0,
    json: Json = False,
    *,
    samples: SampleOptions,
) -> None:
    """Test hypotheses about parameters (Wald test). All are tested together."""
    from fieldfit.api.files import load
    from fieldfit.cli.output import print_json, say
    from fieldfit.cli.saved import load_with
    from fieldfit.cli.wording import in_options
    from fieldfit.types import FieldfitError

    if bootstrap and permute:
        raise FieldfitError("--bootstrap and --permute are two tests; give one of them.")
    fit = load(path) if data is None else load_with(path, data, samples)
    rows, values = parse_hypotheses(hypotheses, fit.parameter_names)
    result: HypothesisTest | ResampledTest
    if bootstrap:
        names, value = fixed_parameters(rows, values)
        result = fit.bootstrap_test(names, value, n_simulated=simulated, random_state=seed, kind=kind.value)
    elif permute:
        if any(values):
            raise FieldfitError("--permute tests that parameters are 0; leave out ==VALUE.")
        result = fit.permutation_test(rows, permute, n_simulated=simulated, random_state=seed, kind=kind.value)
    else:
        result = fit.wald_test(rows, values, kind=kind.value)
    if json:
        print_json({"hypotheses": hypotheses, **as_document(result)})
        return
    say(in_options(str(result)))


def as_document(result: HypothesisTest | ResampledTest) -> Plain:
    """The test for --json: with the law of large samples, or with a simulated one."""
    from fieldfit.api.comparison import HypothesisTest
    from fieldfit.cli.wording import in_options

    common: Plain = {"test": result.name, "statistic": result.statistic, "p": result.p}
    if isinstance(result, HypothesisTest):
        caution = in_options(result.caution) or None
        return {**common, "degrees_of_freedom": result.degrees_of_freedom, "caution": caution}
    return {**common, "restrictions": result.restrictions, "simulated": result.simulated.tolist()}


def fixed_parameters(rows: Sequence[Plain], values: Sequence[float]) -> tuple[list[str], float]:
    """The parameters and their common value under the hypothesis, from which data can be simulated."""
    from fieldfit.types import FieldfitError

    if any(len(row) > 1 for row in rows) or len(set(values)) > 1:
        raise FieldfitError("--bootstrap tests that parameters have one value, such as 0; NAME==NAME has none.")
    return [name for row in rows for name in row], values[0]


def parse_hypotheses(texts: Sequence[str], names: Sequence[str]) -> tuple[list[dict[str, float]], list[float]]:
    """Each text as coefficients of parameters and the value that their sum has under the hypothesis."""
    from fieldfit.api.functionals import contrast
    from fieldfit.named import nearest_names
    from fieldfit.types import ModelError

    known = set(names)
    rows: list[Plain] = []
    values: list[float] = []
    for text in texts:
        left, equals, right = (_in_order(part.strip(), known) for part in text.partition("=="))
        terms = contrast(left, names)
        if isinstance(terms, dict):
            values.append(_number(right, text) if equals else 0.0)
            rows.append(terms)
            continue
        if left not in known and ("*" in left or "?" in left):
            from fieldfit.named import places_of

            value = _number(right, text) if equals else 0.0
            rows += [{names[int(place)]: 1.0} for place in places_of(left, names)]
            values += [value] * (len(rows) - len(values))
            continue
        for name in [left] if not equals or right not in known else [left, right]:
            if name not in known:
                raise ModelError(
                    f"The hypothesis {text!r:.80} does not name a parameter; {nearest_names(name, names)}."
                )
        if right in known:
            rows.append({left: 1.0, right: -1.0})
            values.append(0.0)
            continue
        values.append(_number(right, text) if equals else 0.0)
        rows.append({left: 1.0})
    return rows, values


def _number(right: str, text: str) -> float:
    """The number on the right of a hypothesis."""
    from fieldfit.types import ModelError

    try:
        return float(right)
    except ValueError:
        raise ModelError(
            f"The hypothesis {text!r:.80} has {right!r:.80} where a number or a parameter should be; write "
            "NAME, NAME==0.5 or "
            f"NAME==NAME."
        ) from None


def _in_order(name: str, known: set[str]) -> str:
    """A pair as the model names it, in whichever order it is given."""
    from fieldfit.named import turned

    return turned(name) if name not in known and turned(name) in known else name


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("test")(wald)
