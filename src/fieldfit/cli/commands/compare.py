"""`fieldfit compare DATA MODEL.ff MODEL.ff…`: CLAIC, CLBIC, and ratio tests of nested models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfit.cli.options import Json, with_options
from fieldfit.cli.saved import FittedData, SampleOptions

if TYPE_CHECKING:
    from fieldfit.types import Plain


@with_options
def compare(
    data: FittedData,
    paths: Annotated[
        list[Path], typer.Argument(metavar="MODEL.ff…", help="Saved fits of the same data, policy and seed.")
    ],
    json: Json = False,
    *,
    samples: SampleOptions,
) -> None:
    """Compare saved fits by CLAIC, CLBIC and likelihood ratios. Each is tested against the largest that contains it."""
    from fieldfit.api.comparison import compare as criteria
    from fieldfit.api.comparison import likelihood_ratio
    from fieldfit.cli.output import print_json, print_table, say, tell
    from fieldfit.cli.saved import frame_table, load_with, records
    from fieldfit.types import DataError, FieldfitError

    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = list(map(str, paths))
    if len(set(names)) < len(names):
        raise DataError("A saved fit is given twice. Give each file once.")
    fits = {name: load_with(path, data, samples) for name, path in zip(names, paths, strict=True)}
    frame = criteria(fits)
    full = max(fits, key=lambda name: int(fits[name].free.sum()))
    tests: list[Plain] = []
    for name in fits:
        if name == full:
            continue
        try:
            ratio = likelihood_ratio(fits[full], fits[name])
            tests.append({"null": name, "full": full, "statistic": ratio.statistic, "weights": ratio.weights,
                          "p": ratio.p, "text": str(ratio)})  # fmt: skip
        except FieldfitError as error:
            tests.append({"null": name, "full": full, "statistic": None, "weights": None, "p": None,
                          "text": str(error)})  # fmt: skip
    if json:
        print_json({"models": records(frame, "model"), "tests": tests})
        return
    short = {
        "log_likelihood": "log-lik.",
        "parameters": "free",
        "claic": "CLAIC",
        "clbic": "CLBIC",
        "claic_gap": "gap",
        "effective_error": "± eff.",
        "claic_error": "± CLAIC",
    }
    shown = frame.rename(columns=short)
    formats = {name: ".0f" if name == "free" else ".2f" for name in shown.columns}
    print_table(frame_table(shown, formats, index="model", rows=len(shown), note="gap: CLAIC above the best."))
    for test in tests:
        say("")
        tell(f"{test['null']} inside {test['full']}: {test['text']}", indent="  ")
