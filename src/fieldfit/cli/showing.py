"""A fit as a JSON document and as text that fits a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.cautions import few_samples, held_by_penalty, no_spread
from fieldfit.api.identified import identified_table
from fieldfit.api.summary import course
from fieldfit.cli.output import print_table, say
from fieldfit.cli.saved import records
from fieldfit.cli.weighting import print_weights
from fieldfit.cli.wording import in_options
from fieldfit.named import places_of
from fieldfit.report.table import PlainTable
from fieldfit.types import FieldfitError, FloatArray, Plain
from fieldfit.words import counted

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.result import Fit


def fit_document(fit: Fit, warned: Sequence[str] = (), path: Path | None = None, level: float = 0.95) -> Plain:
    """The report and every parameter with its standard error, or null where that is not known; effects of free tables."""
    errors, interval = accuracy(fit, level)
    z, p = z_and_p(fit, errors)
    parameters = [
        {
            "name": name,
            "estimate": fit.theta[place],
            "std_error": errors[place],
            "z": z[place],
            "p": p[place],
            "lower": interval[place, 0],
            "upper": interval[place, 1],
            "sigma2": fit.sigma2[place],
            "fixed": not fit.free[place],
        }
        for place, name in enumerate(fit.parameter_names)
    ]
    frame = _frame(fit, level)
    effects = records(frame, "name") if frame.index.name == "effect" else None
    return {
        **fit.report(),
        "file": None if path is None else str(path),
        "penalised": fit.penalised,
        "level": level,
        "warnings": list(warned),
        "parameter": parameters,
        "effect": effects,
    }


def accuracy(fit: Fit, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Standard errors and intervals; NaN where they cannot be known (too many parameters, saved without them)."""
    try:
        return fit.standard_errors(), fit.conf_int(level)
    except FieldfitError:
        unknown = np.full(len(fit.theta), np.nan)
        return unknown, np.stack([unknown, unknown], axis=1)


def z_and_p(fit: Fit, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each estimate in standard errors, and the two-sided p-value of its being 0; NaN where the error is not known."""
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(errors > 0, fit.theta / errors, np.nan)
    return z, 2 * ndtr(-np.abs(z))


def print_fit(fit: Fit, rows: int, order: str = "z", level: float = 0.95, parameters: Sequence[str] = ()) -> None:
    """How the fit went, and its parameters in a table, or those that are named."""
    table = parameter_table(fit, rows, order, level, parameters) if rows else None
    say(f"{fit.model.kind}: {fit.size}, {counted(fit.model.n_parameters, 'parameters')}")
    say(f"policy: {fit.estimator}")
    if fit.refinement is None:
        say(textwrap.fill(fit.message, 80))
        say(
            f"{counted(fit.iterations, 'iterations')}, {counted(fit.evaluations, 'evaluations')}, {fit.seconds:.2f} s"
        )
        say(f"objective {fit.objective:.6f}, gradient norm {fit.gradient_norm:.3g}")
    else:
        for line in course(fit):
            say(textwrap.fill(line, 80))
    if fit.cost is not None:
        say(f"an evaluation: {fit.cost.components:,} components, {fit.cost.flops:,.0f} of the paper's FLOPs")
    if fit.refinement is not None:
        for line in fit.refinement.lines():
            say(textwrap.fill(line, 80))
        if fit.testable:
            say(textwrap.fill(str(fit.specification_test()), 80))
    if fit.runaway:
        say(textwrap.fill(in_options(fit.runaway), 80))
    if fit.penalised:
        say("penalised: estimates and intervals are shrunk towards 0")
    if rows and few_samples(fit, "robust") and _frame(fit, level)["std_error"].notna().any():
        what = "few samples per parameter" if fit.size.groups is None else "few groups"
        say(f"{what}: standard errors may be too small")
    if rows and no_spread(fit, "robust"):
        say(no_spread(fit, "robust"))
    if rows and held_by_penalty(fit, "robust"):
        say(textwrap.fill(held_by_penalty(fit, "robust"), 80))
    if len(fit.dropped_rows):
        shown = ", ".join(map(str, fit.dropped_rows[:10])) + (", …" if len(fit.dropped_rows) > 10 else "")
        say(f"dropped, too many missing values to sum out: {len(fit.dropped_rows)} rows ({shown})")
    if fit.weights is not None:
        print_weights(fit.weights)
    if table is not None:
        say("")
        print_table(table)


def parameter_rows(fit: Fit, rows: int) -> list[tuple[str, float]]:
    """The ``rows`` parameters of largest size: name and estimate."""
    places = np.argsort(-np.abs(fit.theta), kind="stable")[:rows].tolist()
    return [(fit.parameter_names[place], float(fit.theta[place])) for place in places]


def _frame(fit: Fit, level: float) -> pd.DataFrame:
    """Estimates with errors and tests: effects where single parameters are not identified; NaN where errors are unknown."""
    import pandas as pd

    try:
        return identified_table(fit, level)
    except FieldfitError:
        frame = pd.DataFrame(np.nan, fit.parameter_names, ["estimate", "std_error", "z", "p", "lower", "upper"])
        return frame.rename_axis("parameter").assign(estimate=fit.theta)


def parameter_table(fit: Fit, rows: int, order: str, level: float, parameters: Sequence[str] = ()) -> PlainTable:
    """The first ``rows`` parameters or effects in this order: largest |z| or |estimate|, by name, or as in the model."""
    frame = _frame(fit, level)
    if parameters:
        frame = frame.iloc[places_of(parameters, list(frame.index))]
    estimate, z = (frame[name].to_numpy() for name in ("estimate", "z"))
    known = np.isfinite(frame["std_error"].to_numpy())
    names = list(frame.index)
    if order == "z" and known.any():
        places = np.argsort(-np.nan_to_num(np.abs(z), nan=-1.0), kind="stable")
    elif order in ("z", "estimate"):
        places = np.argsort(-np.abs(estimate), kind="stable")
    elif order == "name":
        places = np.array(sorted(range(len(names)), key=names.__getitem__))
    else:
        places = np.arange(len(names))
    shown = tuple((names[k], *map(float, frame.iloc[k])) for k in places[:rows])
    notes = []
    if frame.index.name == "effect":
        notes.append("Effects: each state compared with the first one. Single parameters are not identified.")
    if len(names) > rows:
        notes.append(f"… and {len(names) - rows:,} more (--rows, --json).")
    if not known.any():
        without = fit.prepared is None and fit.saved.moments is None
        notes.append(
            "Standard errors are not known: the file was saved without them (more than 1,000 parameters)."
            if without
            else "No parameter has a standard error: single parameters are not identified."
        )
        return PlainTable(
            "", ("parameter", "estimate"), tuple(row[:2] for row in shown), " ".join(notes), ("", ".4f")
        )
    columns = (str(frame.index.name), "estimate", "std. error", "z", "p", f"{100 * level:g}% from", "to")
    return PlainTable("", columns, shown, " ".join(notes), ("", ".4f", ".4f", ".2f", ".2g", ".4f", ".4f"))
