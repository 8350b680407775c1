"""An HTML page of a fit: estimates, their accuracy, a comparison with the data, and how to reproduce it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.accuracies import fits_matrices
from fieldfit.api.cautions import few_samples_for_tests
from fieldfit.api.estimate_table import identified_table
from fieldfit.api.moments import fit_moments
from fieldfit.api.summary import cautions_of, course, extent, title
from fieldfit.callers import without_warnings
from fieldfit.optim.solution import DEFAULT_MAX_ITER, DEFAULT_TOL
from fieldfit.planner.pictures import add_plan
from fieldfit.report.fit_charts import (
    MOST_NODES,
    MOST_SIDES,
    Coefficient,
    add_coefficients,
    add_influence,
    convergence_chart,
    matrix_chart,
    moment_chart,
)
from fieldfit.report.network_chart import add_network
from fieldfit.report.page import Page
from fieldfit.report.provenance import add_citation, add_versions
from fieldfit.types import FieldfitError, FieldfitWarning
from fieldfit.words import counted, sentence

if TYPE_CHECKING:
    from fieldfit.api.result import Fit
    from fieldfit.planner.result import Plan

#: Most parameters in the table of a page, and influential samples in its plot.
_MOST_COEFFICIENTS, _INFLUENTIAL = 3000, 10
#: Why the page of a model that runs away recommends no estimator.
NO_PLAN = (
    "Not compared: the fitted model runs away from the data (see the cautions), and accuracies are those for samples of "
    "the fitted model. Fit again with a stronger penalty first."
)


@dataclass(frozen=True)
class Purpose:
    """What the page of a fit says if another function than `fit` made it, such as `fit_family`.

    ``size`` describes the samples, ``cautions`` are about the fit and its errors, and ``errors`` says how to compute
    standard errors where there are too many for a page. ``add`` adds what the fit is for before its estimates, and
    ``python`` are the lines that make the fit.
    """

    size: str
    cautions: Sequence[str]
    errors: str
    add: Callable[[Page], None]
    python: str


def fit_page(
    fit: Fit,
    plan: Plan | None,
    level: float,
    notes: Sequence[str] = (),
    command: str = "",
    words: Callable[[str], str] = str,
    purpose: Purpose | None = None,
    file: str = "model.ff",
) -> Page:
    """The whole page.

    ``notes`` replace a plan. ``command`` is the command that writes the page, and ``words`` translates the names of
    Python functions and arguments into those of the command line. ``file`` is the file of the fit, for the Python code.
    """
    page = Page(title(fit), words=words)
    size = extent(fit) if purpose is None else purpose.size
    page.paragraph(f"{size}. " + ". ".join(map(sentence, course(fit))) + ".")
    said = cautions_of(fit, errors=_has_errors(fit)) if purpose is None else purpose.cautions
    if said:
        page.cautions(said)
    else:
        page.parts.append('<p class="note">No cautions: none of the checks of this fit found a problem.</p>')
    if plan is not None and not fit.runaway:
        add_plan(page, plan, str(fit.estimator))
    elif fit.runaway:
        page.heading("Cost and accuracy of estimators")
        page.note(NO_PLAN)
    for note in notes:
        page.note(note)
    some_errors = "With the samples, fit.table(parameters=[…]) computes some."
    if purpose is not None:
        purpose.add(page)
        some_errors = purpose.errors
    _add_coefficients(page, fit, level, some_errors)
    _add_couplings(page, fit)
    if fit.prepared is not None:
        _add_moments(page, fit)
        _add_influence(page, fit)
    else:
        page.heading("Data against model")
        page.note(
            "A saved fit does not contain its samples, and this comparison needs them. Give them again: load(path, data)."
        )
    _add_convergence(page, fit)
    add_citation(page, refined=fit.refinement is not None)
    _add_reproduction(page, fit, command, _lines(fit, file) if purpose is None else purpose.python)
    return page


def plan_for(fit: Fit, budget: str | None, random_state: int = 0) -> Plan:
    """A plan for the samples of a fit, with its Gaussian penalty."""
    from fieldfit.api.plan import plan

    sigma2 = fit.sigma2 if np.isfinite(fit.sigma2).any() else None
    return plan(fit.model, fit.needed.dataset, budget, sigma2=sigma2, random_state=random_state)


def _has_errors(fit: Fit) -> bool:
    """Whether the page has standard errors."""
    known = fit.prepared is not None or fit.saved.moments is not None
    return known and fits_matrices(fit) and not fit.only_weights


def _add_coefficients(page: Page, fit: Fit, level: float, some_errors: str) -> None:
    """A table of estimates; ``some_errors`` says how to compute standard errors if there are too many parameters."""
    page.heading("Estimates")
    names: Sequence[str] = fit.model.parameter_names
    marks = ["0 (l1)" if zero else "" if free else "fixed" for zero, free in zip(fit.zeroed, fit.free, strict=True)]
    if _has_errors(fit):
        frame = identified_table(fit, level)
        if frame.index.name == "effect":
            page.note(
                "Single parameters are not identified. These are effects: each state compared with the first one."
            )
            names, marks = list(frame.index), [""] * len(frame)
        columns = (frame[name].to_numpy() for name in ("estimate", "std_error", "lower", "upper"))
        estimate, error, lower, upper = columns
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.nan_to_num(np.abs(estimate / error), nan=-1.0, posinf=-1.0)
    elif fit.only_weights:
        page.note("These weights have no standard errors.")
    else:
        page.note(
            "Standard errors need the samples, which the file does not contain. Give them again: load(path, data)."
            if fits_matrices(fit)
            else f"Standard errors of {len(names):,} parameters are too many for a page. {some_errors}"
        )
        estimate = fit.theta
        error = lower = upper = np.full(len(names), np.nan)
        size = np.abs(estimate)
    order = np.argsort(-size, kind="stable")[:_MOST_COEFFICIENTS]
    rows = [
        Coefficient(
            str(names[int(k)]),
            float(estimate[k]),
            float(error[k]),
            float(lower[k]),
            float(upper[k]),
            f"{estimate[k]:+.4f} (fixed)" if marks[k] == "fixed" else marks[k],
        )
        for k in order
    ]
    few = few_samples_for_tests(fit) if np.isfinite(error).any() else ""
    add_coefficients(page, rows, level, len(names), few and f"Caution: {few}.")


def _add_couplings(page: Page, fit: Fit) -> None:
    try:
        couplings = fit.model.coupling_matrix(fit.theta)
    except FieldfitError:
        return
    names, values = couplings.names, couplings.values
    page.heading("Transitions" if couplings.directed else "Network")
    colours = "Blue and solid: positive. Red and dashed: negative. Wider: stronger."
    if not couplings.directed and len(names) <= MOST_NODES:
        shown = f"Lines: {couplings.what}. " + (colours if couplings.signed else "Wider: stronger.")
        add_network(page, names, values, couplings.what, shown)
    elif len(names) <= MOST_SIDES or not couplings.directed:
        kept = np.sort(np.argsort(-np.abs(values).sum(axis=1), kind="stable")[:MOST_SIDES])
        some = [names[int(k)] for k in kept]
        chart = matrix_chart(some, values[np.ix_(kept, kept)], couplings.what, directed=couplings.directed)
        which = (
            "" if len(some) == len(names) else f" The {len(some)} most strongly coupled of {len(names)} are shown."
        )
        sides = "Rows: the label before, columns: the label after. " if couplings.directed else ""
        page.chart(chart, f"{sides}Colour: {couplings.what}, blue positive, red negative.{which}")
    else:
        page.note(f"{len(names)} labels are too many for a picture.")


def _add_moments(page: Page, fit: Fit) -> None:
    page.heading("Data against model")
    try:
        with without_warnings(FieldfitWarning):  # the page has its own cautions
            tables = fit_moments(fit)
    except FieldfitError as error:
        page.note(f"Not compared: {error}")
        return
    charts = []
    for table in tables:
        if not table.names:  # no sentence has three words
            continue
        apart = np.sqrt(np.nanmean(np.square(table.values[1] - table.values[0])))
        caption = f"{len(table.names):,} {table.plural}; root mean square difference {apart:.2g}"
        charts.append(
            f"<figure>{moment_chart(table.kind, table.names, table.values)}<figcaption>{caption}</figcaption></figure>"
        )
    if not charts:
        page.note("There are no moments to compare for this model.")
        return
    page.parts.append(f'<div class="pairs">{"".join(charts)}</div>')
    page.note(
        "Each dot is a statistic of the data against the same of simulated samples; on the line the two agree. Orange: the "
        "largest differences. fit.goodness_of_fit() gives p-values."
    )


def _add_influence(page: Page, fit: Fit) -> None:
    page.heading("Influential samples")
    if fit.size.single:
        page.note("Not computed: the influence of a sample needs other samples to compare it with, and there is one.")
        return
    if not fits_matrices(fit):
        page.note(
            f"Not computed: with {len(fit.theta):,} parameters it is one large linear system for each sample. "
            f"fit.influential({_INFLUENTIAL}) solves them."
        )
        return
    try:
        frame = fit.influential(_INFLUENTIAL)
    except FieldfitError as error:
        page.note(f"Not computed: {error}")
        return
    measure = str(frame.columns[0])
    lines = [
        (f"sample {row}", float(value), name if isinstance(name, str) else "", float(change))
        for row, value, name, change in zip(
            frame.index, frame[measure], frame["parameter"], frame["change"], strict=True
        )
    ]
    told = "Samples that move the estimate most, and the parameter that changes most (counted from 0)"
    add_influence(page, lines, "Cook's distance" if measure == "distance" else measure, told)


def _add_convergence(page: Page, fit: Fit) -> None:
    page.heading("Convergence")
    page.paragraph(
        f"{sentence(fit.message)}. {counted(fit.iterations, 'iterations')}, {counted(fit.evaluations, 'evaluations')}."
    )
    scale = max(fit.objective_scale, sys.float_info.min)
    norms = [(step.iteration, step.gradient_norm / scale) for step in fit.convergence.history]
    shown = [(iteration, norm) for iteration, norm in norms if 0 < norm < math.inf]
    if len(shown) > 1:
        chart = convergence_chart(*zip(*shown, strict=True))
        page.chart(
            chart, "The largest entry of the gradient for each sample, at each iteration of the last optimisation."
        )


def _add_reproduction(page: Page, fit: Fit, command: str, python: str) -> None:
    page.heading("How to reproduce")
    if fit.command:
        page.paragraph("The fit was made with")
        page.code(fit.command)
    if command:
        page.paragraph("and this page with" if fit.command else "This page was made with")
        page.code(command)
    page.paragraph("In Python:")
    page.code("import fieldfit as ff\n\n" + python)
    if fit.fingerprint:
        page.note(f"Fingerprint of the samples and their weights: {fit.fingerprint}.")
    add_versions(page)


def _lines(fit: Fit, file: str) -> str:
    """Python that repeats the fit with the model and penalties of its file."""
    options = [f'"{fit.estimator}"']
    for name, values in (("sigma2", fit.sigma2), ("l1", fit.l1)):
        if values is None or not np.isfinite(values).any() or (fit.group_l1 is not None and name == "l1"):
            continue
        same = (values == values[0]).all()
        options.append(f"{name}={values[0]:g}" if same else f"{name}=saved.{name}")
    if fit.group_l1 is not None:
        options.append(f"group_l1={fit.group_l1:g}")
    if not fit.free.all():
        names = "zip(saved.model.parameter_names, saved.theta, saved.free)"
        options.append(f"fixed={{name: value for name, value, free in {names} if not free}}")
    if fit.convergence.method != "auto":
        options.append(f'method="{fit.convergence.method}"')
    options.append(f"random_state={fit.random_state}")
    if fit.convergence.tol != DEFAULT_TOL:
        options.append(f"tol={fit.convergence.tol!r}".replace("'", '"'))
    if fit.convergence.max_iter != DEFAULT_MAX_ITER:
        options.append(f"max_iter={fit.convergence.max_iter}")
    given = ", ".join(options)
    if fit.encoder is not None and fit.model.symbol_chain is None:
        return f"tagger = ff.CRFTagger.load({json.dumps(file)})  # {given}\ntagger.fit(X, y)  # sentences and labels"
    saved = f"saved = ff.load({json.dumps(file)})  # the file of fit.save or --out"
    return f"{saved}\nfit = ff.fit(saved.model, data, {given})  # data: the samples"
