"""A fit as text: how the optimisation went, the meaning of its intervals, and the parameters with the largest abs(z)."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.accuracies import fits_matrices
from fieldfit.api.cautions import (
    far_step,
    few_samples,
    few_samples_for_tests,
    held_by_penalty,
    near_optimum,
    no_spread,
    pull_of,
    under_model,
)
from fieldfit.api.estimate_table import identified_table
from fieldfit.arguments import whole_number
from fieldfit.asymptotics import DenseAccuracy
from fieldfit.report.shown import first_rows, frame_rows
from fieldfit.report.table import PlainTable
from fieldfit.words import counted, sentence

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.accuracies import Kind
    from fieldfit.api.result import Fit
    from fieldfit.api.state import FitState
    from fieldfit.asymptotics import Accuracy


def summary(fit: Fit, rows: int = 20, *, kind: Kind = "robust", level: float = 0.95) -> str:
    """Return the fit and the parameters with the largest abs(z) as text.

    Parameters
    ----------
    rows : int, default: 20
        Largest number of parameters.
    %(kind)s
    %(level)s

    Returns
    -------
    str

    Examples
    --------
    %(fit)s
    >>> print(fit.summary())  # doctest: +ELLIPSIS
    boltzmann...
    """
    rows = whole_number(rows, "rows", 0)
    lines = [
        headline(fit),
        *timed_course(fit),
    ]
    if fit.cost is not None:
        lines.append(f"cost of an evaluation: {fit.cost.components:,} components, {fit.cost.flops:,.0f} FLOPs")
    if fit.weights is not None:
        lines += str(fit.weights).splitlines()
    if fit.refinement is not None:
        lines += fit.refinement.lines()
        if fit.testable:
            lines.append(str(fit.specification_test()))
    if fit.runaway:
        lines.append(fit.runaway)
    if fit.separated:
        lines.append(f"optimum at infinity: {', '.join(fit.separated)}")
    if len(fit.dropped_rows):
        lines.append(f"dropped: {len(fit.dropped_rows)} rows with too many missing values to sum out")
    if fit.only_weights:
        return "\n".join([*lines, "these weights have no standard errors"])
    if fit.prepared is None and fit.saved.moments is None:
        return "\n".join([*lines, "standard errors need the data, which the file does not contain"])
    if not fits_matrices(fit):
        lines.append(
            f"{fit.model.n_parameters:,} parameters are too many for all standard errors at once: select some, "
            f"fit.table(parameters=[…]), or use functions of them, fit.functional(…)"
        )
        lines += _cautions(fit, kind)
        return "\n".join(lines)
    accuracy = fit.dense_accuracy(kind)
    lines += _meaning(fit, accuracy, kind)
    frame = identified_table(fit, level, kind)
    lines += _not_identified(accuracy, str(frame.index.name))
    lines.append(f"lower and upper: {100 * level:g}% confidence intervals; largest abs(z) first")
    largest = frame.iloc[np.argsort(-frame["z"].abs().fillna(-1.0).to_numpy(), kind="stable")]
    shown = largest.head(rows).map(lambda value: "NaN" if np.isnan(value) else f"{value:.4f}")
    zeroed = {name for name, zero in zip(fit.model.parameter_names, fit.zeroed, strict=True) if zero}
    shown["estimate"] = ["0 (l1)" if name in zeroed else text for name, text in shown["estimate"].items()]
    lines += ["", shown.to_string()]
    if len(frame) > rows:
        lines.append(f"… and {len(frame) - rows} more ({_all_rows(frame)} has all)")
    return "\n".join(lines)


def summary_html(fit: Fit, errors: bool, rows: int = 20) -> str:
    """The fit for a notebook: a line, its cautions, and a table of the parameters with the largest abs(z)."""
    words = [
        headline(fit),
        *timed_course(fit),
    ]
    text = "<br>".join(html.escape(line) for line in words)
    said = "".join(f"<li>{html.escape(caution)}</li>" for caution in cautions_of(fit, errors=errors))
    text = f"<p>{text}</p>" + (f"<ul>{said}</ul>" if said else "")
    if not errors or (fit.prepared is None and fit.saved.moments is None):
        return text
    frame = identified_table(fit)
    frame = frame.iloc[np.argsort(-frame["z"].abs().fillna(-1.0).to_numpy(), kind="stable")]
    columns = (str(frame.index.name), *frame.columns)
    formats = ("", ".4f", ".4f", ".2f", ".2g", ".4f", ".4f")
    table = PlainTable("Largest abs(z) first", columns, frame_rows(frame), formats=formats)
    return text + first_rows(table, rows, _all_rows(frame)).to_html()


def headline(fit: Fit) -> str:
    """What was fitted, how, and to how much."""
    return f"{title(fit)}: {extent(fit)}"


def title(fit: Fit) -> str:
    """The kind of model and how it was fitted."""
    return f"weights of a {fit.model.kind}" if fit.only_weights else f"{fit.model.kind} fitted by {fit.estimator}"


def extent(fit: Fit) -> str:
    """The numbers of samples and of parameters."""
    parameters = counted(fit.model.n_parameters, "parameters")
    return parameters if fit.only_weights else f"{fit.size}, {parameters}"


def course(fit: Fit) -> list[str]:
    """How the optimisation went, in two lines. A second stage leaves the optimum of the first stage's objective."""
    if fit.only_weights:
        return [fit.message]
    steps = f"{counted(fit.iterations, 'iterations')}, {counted(fit.evaluations, 'evaluations')}"
    if fit.refinement is None:
        return [
            f"{fit.message}; {steps}",
            objective_line(fit),
        ]
    return [
        f"{'first stage ' if fit.refinement.second.fits_first else ''}{fit.message}; {steps}",
        f"objective of the first stage at the refined estimate {fit.objective:.6f}",
    ]


def objective_line(fit: Fit) -> str:
    """The objective, and the largest entry of its gradient in the unit of the tolerance: for each sample."""
    line, ended = f"objective {fit.objective:.6f}", fit.convergence
    if not (fit.objective_scale > 0 and np.isfinite(ended.gradient_norm)):
        return line
    line += f", gradient norm {ended.gradient_norm / fit.objective_scale:.2g} per sample"
    return line if isinstance(ended.tol, str) else f"{line} (tolerance {ended.tol:g})"


def timed_course(fit: Fit) -> list[str]:
    """The same, with the seconds that the fit took by the clock."""
    first, *rest = course(fit)
    if fit.refinement is None:
        return [f"{first}, {fit.seconds:.2f} s", *rest]
    return [f"{first}; {fit.seconds:.2f} s with the second stage", *rest]


def cautions_of(fit: Fit, *, errors: bool = True) -> list[str]:
    """Cautions that a reader needs to interpret the fit, as sentences; ``errors``: whether standard errors are shown."""
    return [*cautions_of_course(fit), *(_cautions_of_errors(fit) if errors else _cautions_of_penalties(fit))]


def cautions_of_course(fit: Fit) -> list[str]:
    """Cautions about the estimate itself: how the optimisation ended, and where."""
    cautions = []
    if near_optimum(fit):
        cautions.append(
            "Stochastic gradients (sgd) stop near the optimum by design: predictions are about as good as at the optimum, "
            "but standard errors and tests are not exact."
        )
    elif not fit.converged:
        cautions.append(f"The fit did not converge ({fit.message}).")
    if fit.runaway:
        cautions.append(fit.runaway)
    if fit.separated:
        cautions.append(f"These parameters have their optimum at infinity: {', '.join(fit.separated[:10])}.")
    if fit.refinement is not None and fit.testable and fit.specification_test().rejects:
        cautions.append(f"{fit.specification_test()}.")
    if len(fit.dropped_rows):
        cautions.append(f"{len(fit.dropped_rows)} rows were dropped: they have too many missing values to sum out.")
    return cautions


def _cautions_of_errors(fit: Fit) -> list[str]:
    """Cautions about standard errors and intervals."""
    cautions = []
    few = few_samples_for_tests(fit) or no_spread(fit, "robust")
    if few:
        cautions.append(f"{sentence(few)}.")
    held = held_by_penalty(fit, "robust")
    if held:
        cautions.append(f"{sentence(held)}.")
    if fit.penalised:
        cautions.append(
            "The fit has a penalty: estimates are shrunk towards 0, and intervals are for the limit of the penalised "
            "estimate. fit.functional(…, debias=True) removes the shrinkage of single numbers."
        )
    if fit.zeroed.any():
        cautions.append(
            f"The L1 penalty has set {int(fit.zeroed.sum())} parameters to 0. Intervals of the others treat this selection "
            "as given."
        )
    return cautions


def _cautions_of_penalties(fit: Fit) -> list[str]:
    """What penalties do to estimates."""
    cautions = ["The fit has a penalty: estimates are shrunk towards 0."] if fit.penalised else []
    if fit.zeroed.any():
        cautions.append(f"The L1 penalty has set {int(fit.zeroed.sum()):,} parameters to 0.")
    return cautions


def _cautions(fit: Fit, kind: Kind, pull: float = 0.0) -> list[str]:
    cautions = [
        near_optimum(fit),
        few_samples(fit, kind),
        no_spread(fit, kind),
        held_by_penalty(fit, kind),
        under_model(fit, kind, pull),
    ]
    return [text for text in cautions if text]


def source_of_errors(fit: FitState, accuracy: Accuracy, kind: Kind) -> str:
    """Which standard errors these are, and what they were computed from."""
    expected = kind == "model" or (kind == "robust" and fit.has_no_spread)
    source = "model-based (expected under the fit)" if expected else "robust"
    return f"{source}, from {accuracy.method}, selection noise included"


def _meaning(fit: Fit, accuracy: DenseAccuracy, kind: Kind) -> list[str]:
    lines = [f"standard errors: {source_of_errors(fit, accuracy, kind)}"]
    pulls = pull_of(fit, accuracy, np.eye(len(fit.theta))) if kind == "model" and fit.penalised else np.zeros(1)
    lines += _cautions(fit, kind, float(np.nanmax(pulls, initial=0.0)))
    far = far_step(fit, np.sqrt(accuracy.variances()))
    lines += [far] if far else []
    error = accuracy.simulation_error()
    if error is not None and np.isfinite(error).any():
        lines.append(f"simulation adds an error of about {100 * float(np.nanmax(error)):.1f}% to a standard error")
    zeros = int(fit.zeroed.sum())
    if zeros:
        lines.append(
            f"{'l1' if fit.group_l1 is None else 'group_l1'} set {zeros} of {int(fit.free.sum())} parameters to 0: they "
            f"have no interval and are marked 0 (l1). The others' intervals treat the selected set as given, as if the "
            f"zeros had been fixed"
        )
    if fit.penalised:
        lines.append(
            "penalised: θ̂ is shrunk towards 0, and an interval is for the limit of the penalised estimate, not "
            f"for θ₀; {_way_to_theta0(accuracy)}"
        )
    if fit.l1 is not None and np.any(fit.l1[fit.free] > 0):
        lines.append(
            "L1: estimates at or near 0 are not normally distributed, and their intervals are only approximate"
        )
    if fit.group_l1 is not None:
        lines.append(
            "group_l1: standard errors leave out the curvature of the penalty, so they are a little too large; estimates "
            "near 0 are not normally distributed"
        )
    return lines


def _not_identified(accuracy: DenseAccuracy, shown: str) -> list[str]:
    """The number of parameters that are not identified individually, and what the table shows instead."""
    lost = int(np.isnan(accuracy.variances()).sum())
    if not lost:
        return []
    instead = {
        "effect": "the table has effects, which are identified: each state compared with the first one (fit.effects)",
        "parameter": "NaN below; functions of θ that are identified have standard errors, see fit.functional",
    }
    directions = counted(accuracy.bread.nullity, "directions")
    changes = "changes" if accuracy.bread.nullity == 1 else "change"
    return [
        f"{lost} parameters are not identified individually ({directions} of θ {changes} nothing in "
        f"these data): {instead[shown]}"
    ]


def _all_rows(frame: pd.DataFrame) -> str:
    """The call that gives the whole table."""
    return "fit.effects()" if frame.index.name == "effect" else "fit.table()"


def _way_to_theta0(accuracy: DenseAccuracy) -> str:
    """How to get an estimate of θ₀: of the whole θ, or of functions of it only."""
    if accuracy.needs_penalty():
        return (
            "fit.functional(…, debias=True) gives estimates and intervals for θ₀ itself, of functions that the data "
            "determine without the penalty"
        )
    return "fit.debiased() gives estimates and intervals for θ₀ itself"
