"""A fit as a JSON document and as text that fits a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.accuracies import fits_matrices
from fieldfit.api.cautions import few_samples_for_tests, held_by_penalty, near_optimum, no_spread
from fieldfit.api.estimate_table import COLUMNS, EstimateTable, identified_estimates, parameter_estimates
from fieldfit.api.summary import headline, objective_line, source_of_errors, timed_course
from fieldfit.cli.output import print_table, say, tell
from fieldfit.cli.weighting import print_weights
from fieldfit.named import places_of
from fieldfit.report.table import PlainTable
from fieldfit.types import ClusterError, FieldfitError, FloatArray, ModelError, Plain
from fieldfit.words import counted

if TYPE_CHECKING:
    from fieldfit.api.result import Fit


def fit_document(
    fit: Fit,
    warned: Sequence[str] = (),
    path: Path | None = None,
    level: float = 0.95,
    parameters: Sequence[str] = (),
    *,
    errors: bool = True,
) -> Plain:
    """The report and every parameter with its standard error, or null where that is not known; effects of free tables.

    With ``parameters`` (names or patterns), only those parameters and effects. Without ``errors``, none are computed.
    """
    table = _known(lambda: parameter_estimates(fit, level), fit) if errors else _unknown(fit)
    lines = [
        {**line, "sigma2": variance, "fixed": not free}
        for line, variance, free in zip(_documents(table), fit.sigma2, fit.free, strict=True)
    ]
    shown = _identified(fit, level) if errors else table
    effects = _documents(shown) if shown.what == "effect" else None
    if parameters:
        lines, named = _named(lines, parameters), _named(effects or [], parameters)
        if not (lines or named):
            places_of(parameters, list(shown.names))  # raises the error that names the nearest ones
        effects = named if effects is not None else None
    return {
        **fit.report(),
        "file": None if path is None else str(path),
        "penalised": fit.penalised,
        "level": level,
        "warnings": list(warned),
        "parameter": lines,
        "effect": effects,
    }


def _documents(table: EstimateTable) -> list[Plain]:
    return [dict(zip(("name", *COLUMNS), row, strict=True)) for row in table.rows(range(len(table.names)))]


def _named(lines: list[Plain], parameters: Sequence[str]) -> list[Plain]:
    """The lines with these names or patterns; none where they are names of something else."""
    try:
        return [lines[place] for place in places_of(parameters, [line["name"] for line in lines]).tolist()]
    except ModelError:
        return []


def _known(estimates: Callable[[], EstimateTable], fit: Fit) -> EstimateTable:
    """Estimates with errors; NaN where there are none (too many parameters, saved without them, interrupted)."""
    if not fit.interrupted:
        try:
            return estimates()
        except (ClusterError, MemoryError):
            raise
        except FieldfitError:
            pass
    return _unknown(fit)


def _unknown(fit: Fit) -> EstimateTable:
    unknown = np.full(len(fit.theta), np.nan)
    return EstimateTable.tested("parameter", fit.parameter_names, fit.theta, unknown, np.nan)


def _reason(fit: Fit) -> str:
    """Why no parameter has a standard error."""
    if fit.interrupted:
        return "the fit was interrupted before it converged"
    if fit.separated:
        return "some have their optimum at infinity; give a penalty"
    held = fit.held[fit.active]
    if held.size and held.all():
        return "only the penalty keeps them finite, because some joint states never occur in the samples"
    return "single parameters are not identified"


def _identified(fit: Fit, level: float) -> EstimateTable:
    """Effects where single parameters are not identified."""
    return _known(lambda: identified_estimates(fit, level), fit)


def print_fit(fit: Fit, rows: int, order: str = "z", level: float = 0.95, parameters: Sequence[str] = ()) -> None:
    """How the fit went, and its parameters in a table, or those that are named."""
    if not rows:
        print_course(fit, None)
        return
    table = _identified(fit, level)
    printed = _first_rows(fit, table, rows, order, level, parameters)
    print_course(fit, table.std_error)
    say("")
    print_table(printed)


def print_estimates(fit: Fit, rows: int, reason: str) -> None:
    """How the fit went, and its estimates, with the reason why there are no standard errors."""
    print_course(fit, None, tests=False)
    if not rows:
        return
    say("")
    lines = tuple(parameter_rows(fit, rows))
    note = f"No parameter has a standard error: {reason}."
    more = f"… and {len(fit.theta) - len(lines):,} more (--rows, --json). " if len(lines) < len(fit.theta) else ""
    print_table(PlainTable("", ("parameter", "estimate"), lines, more + note, ("", ".4f")))


def print_course(fit: Fit, errors: FloatArray | None, *, tests: bool = True) -> None:
    """How the fit went, with cautions about standard errors if some are shown (``errors``), and its test (``tests``)."""
    if fit.only_weights:
        say(headline(fit))
        tell(fit.message)
        return
    say(f"{fit.model.kind}: {fit.size}, {counted(fit.model.n_parameters, 'parameters')}")
    say(f"policy: {fit.estimator}")
    if fit.refinement is None:
        tell(fit.message)
        say(
            f"{counted(fit.iterations, 'iterations')}, {counted(fit.evaluations, 'evaluations')}, {fit.seconds:.2f} s"
        )
        say(objective_line(fit))
    else:
        for line in timed_course(fit):
            tell(line)
    if fit.cost is not None:
        say(f"an evaluation: {fit.cost.components:,} components, {fit.cost.flops:,.0f} of the paper's FLOPs")
    if fit.refinement is not None:
        for line in fit.refinement.lines():
            tell(line)
        if tests and fit.testable:
            tell(str(fit.specification_test()))
    if fit.penalised:
        say("penalised: estimates and intervals are shrunk towards 0")
    few = few_samples_for_tests(fit)
    if few and errors is not None and np.isfinite(errors).any():
        tell(f"Caution: {few}.")
    if near_optimum(fit) and errors is not None and np.isfinite(errors).any():
        tell(f"Caution: {near_optimum(fit)}.")
    if errors is not None and no_spread(fit, "robust"):
        tell(no_spread(fit, "robust"))
    if errors is not None and not fit.interrupted and held_by_penalty(fit, "robust"):
        tell(held_by_penalty(fit, "robust"))
    if len(fit.dropped_rows):
        shown = ", ".join(map(str, fit.dropped_rows[:10])) + (", …" if len(fit.dropped_rows) > 10 else "")
        say(f"dropped, too many missing values to sum out: {len(fit.dropped_rows)} rows ({shown})")
    if fit.weights is not None:
        print_weights(fit.weights)


def parameter_rows(fit: Fit, rows: int) -> list[tuple[str, float]]:
    """The ``rows`` parameters of largest size: name and estimate."""
    places = np.argsort(-np.abs(fit.theta), kind="stable")[:rows].tolist()
    return [(fit.parameter_names[place], float(fit.theta[place])) for place in places]


def _from_samples(fit: Fit) -> str:
    """How to get the standard errors that a file does not have."""
    if fit.alignment is not None:
        return (
            "load the fit with its alignment in Python, fitted = fieldfit.proteins.load_family(path, alignment), and "
            "compute those of some couplings, fitted.standard_errors([…]) or fitted.strongest_couplings()"
        )
    if fits_matrices(fit):
        return "fieldfit report MODEL.ff --data DATA, or ff.load(path, data)"
    return (
        "load the fit with them, ff.load(path, data), and compute those of some parameters, fit.table(parameters=[…])"
    )


def _first_rows(
    fit: Fit, table: EstimateTable, rows: int, order: str, level: float, parameters: Sequence[str]
) -> PlainTable:
    """The first ``rows`` parameters or effects in this order: largest |z| or |estimate|, by name, or as in the model."""
    if parameters:
        table = table.chosen(places_of(parameters, list(table.names)))
    known = np.isfinite(table.std_error)
    names = table.names
    if order == "z" and known.any():
        places = np.argsort(-np.nan_to_num(np.abs(table.z), nan=-1.0), kind="stable")
    elif order in ("z", "estimate"):
        places = np.argsort(-np.abs(table.estimate), kind="stable")
    elif order == "name":
        places = np.array(sorted(range(len(names)), key=names.__getitem__))
    else:
        places = np.arange(len(names))
    shown = tuple(table.rows(places[:rows].tolist()))
    notes = []
    if table.what == "effect":
        notes.append("Effects: each state compared with the first one. Single parameters are not identified.")
    if len(names) > rows:
        notes.append(f"… and {len(names) - rows:,} more (--rows, --json).")
    if not known.any() and fit.only_weights:
        notes.append("These weights have no standard errors.")
    elif not known.any():
        without = fit.prepared is None and fit.saved.moments is None and not fit.interrupted
        notes.append(
            "Standard errors are not known: the file was saved without them (more than 1,000 parameters). They need the "
            f"samples: {_from_samples(fit)}."
            if without
            else f"No parameter has a standard error: {_reason(fit)}."
        )
    if not known.any():
        return PlainTable(
            "", ("parameter", "estimate"), tuple(row[:2] for row in shown), " ".join(notes), ("", ".4f")
        )
    if fits_matrices(fit):
        notes.append(f"Standard errors: {source_of_errors(fit, fit.accuracy(), 'robust')}.")
    columns = (table.what, "estimate", "std. error", "z", "p", f"{100 * level:g}% from", "to")
    formats = ("", ".4f", ".4f", ".2f", ".2g", ".4f", ".4f")
    return PlainTable("", columns, shown, " ".join(notes), formats, optional=(2, 1, 1))  # the interval, p, z
