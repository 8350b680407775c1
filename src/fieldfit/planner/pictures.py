"""The table, the pictures and the page of a plan."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import whole_number
from fieldfit.planner.candidates import BETTER_VARIANCE
from fieldfit.planner.ingredients import mixture_text
from fieldfit.planner.pilot import FULL, PILOT_POLICY
from fieldfit.planner.search import least_at
from fieldfit.report.frontier import FrontierPoint, draw_frontier
from fieldfit.report.frontier_chart import MixtureTable, add_frontier
from fieldfit.report.page import Page
from fieldfit.report.provenance import add_citation, add_versions
from fieldfit.report.table import PlainTable
from fieldfit.threads import one_blas_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fieldfit.planner.result import Plan

#: Relative standard error from which on the table shows it: differences of half a percent count.
_SHOWN_ERROR = 2.5e-3
#: The grid of mixtures that a page has sliders for, the families it has, and the largest log variance on it.
_LAMS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
_BETAS = tuple(k / 10 for k in range(11))
_MOST_TABLES, _LARGEST_LOG_VARIANCE = 4, 20.0


def plain_table(plan: Plan, most: int | None = None) -> PlainTable:
    """Return the table for terminals and pages.

    Parameters
    ----------
    most : int or None, default: None
        Largest number of rows. Policies on the frontier come first. None: all.

    Returns
    -------
    PlainTable

    Examples
    --------
    %(example)s
    >>> plan.plain_table(1).columns
    ('policy', 'time', 'FLOPs', 'variance', 'why')
    """
    shown = list(plan.candidates)
    if most is not None:
        most = whole_number(most, "most", 0)
    if most is not None and len(shown) > most:
        plain = (plan.best, str(PILOT_POLICY), str(FULL))
        ranked = sorted(
            shown, key=lambda policy: (policy.policy not in plain, not policy.on_frontier, policy.variance)
        )
        chosen = {policy.policy for policy in ranked[:most]}
        shown = [policy for policy in shown if policy.policy in chosen]
    noisy = any(policy.error >= _SHOWN_ERROR for policy in shown)
    rows = tuple(
        (
            ("→ " if policy.policy == plan.best else "• " if policy.on_frontier else "  ") + policy.policy,
            format_seconds(policy.seconds),
            f"{policy.flops:.2e}",
            policy.variance if math.isfinite(policy.variance) else None,
            *((policy.variance * policy.error if policy.error > 1e-6 else None,) if noisy else ()),
            policy.why,
        )
        for policy in shown
    )
    relative = plan.relative
    note = (
        f"→ recommended, • on the frontier. Variance relative to {relative} ({plan.kind}); time of a whole fit on an "
        "idle machine."
    )
    if noisy:
        note += " ± is its standard error: differences of less than two of them are noise."
    if len(shown) < len(plan.candidates):
        count = len(plan.candidates)
        note += (
            f" Shown are {len(shown)} of the {count} policies compared; plan.table has all (on the command line: "
            f"--rows {count}, or --json)."
        )
    title = f"Plan for {plan.survey.request.model.kind}: {plan.n:,} samples, {len(plan.theta):,} parameters"
    columns = ("policy", "time", "FLOPs", "variance", *(("±",) if noisy else ()), "why")
    return PlainTable(title, columns, rows, note, ("", "", "", ".4g", *((".1g",) if noisy else ()), ""))


def format_seconds(value: float) -> str:
    """Seconds with a unit that suits their size."""
    if not math.isfinite(value):
        return "–"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"


def plan_frontier(plan: Plan) -> tuple[list[FrontierPoint], tuple[str, str], float | None]:
    """For pictures: the policies as points, the names of the axes, and what is left of the budget after the pilot."""
    points = [
        FrontierPoint(
            policy.policy,
            policy.cost,
            policy.variance,
            policy.variance * policy.error,
            policy.on_frontier and policy.variance <= (1 + BETTER_VARIANCE) * least_at(plan.edge, policy.cost),
            policy.why,
            plan._cost_text(policy.cost),
        )
        for policy in plan.candidates
        if math.isfinite(policy.variance) and policy.cost > 0
    ]
    cost = "seconds of a fit on an idle machine" if plan.unit == "seconds" else "the paper's FLOPs of a fit"
    left = plan.budget - plan.spent
    return points, (cost, f"variance relative to {plan.relative}"), left if math.isfinite(left) else None


def plot(plan: Plan) -> Figure:
    """Draw cost against variance, with the region that no policy reaches, the budget and the recommendation.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    %(example)s
    >>> plan.plot().savefig("frontier.png")
    """
    points, labels, left = plan_frontier(plan)
    return draw_frontier(points, plan.edge, plan.best, *labels, budget=left, floor=plan.floor)


def to_html(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a page to explore: the recommendation, the frontier with sliders for λ and β, and all policies.

    Parameters
    ----------
    path : str or Path
        The file. It contains everything that it shows and loads nothing.

    Examples
    --------
    %(example)s
    >>> plan.to_html("plan.html")
    """
    plan_page(plan).write(path)


def plan_page(plan: Plan, command: str = "") -> Page:
    """The whole page; ``command`` is the command that makes it."""
    page = Page(plan.plain_table().title)
    add_plan(page, plan)
    add_citation(page, refined=any(candidate.second_stage for candidate in plan.candidates))
    page.heading("How to reproduce")
    if command:
        page.paragraph("The plan was made with")
        page.code(command)
        page.paragraph("In Python:")
    page.code(
        "import fieldfit as ff\n\n"
        f"plan = ff.plan(model, data{_target(plan)}{_penalty(plan)})\n"
        f"fit = plan.fit()  # {plan.best}\n"
        'fit.to_html("fit.html", plan=plan)'
    )
    page.note("Seconds depend on the machine and its load; variances and FLOPs do not.")
    add_versions(page)
    return page


def _penalty(plan: Plan) -> str:
    """The penalty and the seed as arguments, where they are not the usual ones."""
    request = plan.survey.request
    precision = np.zeros(1) if request.precision is None else request.precision
    same = (precision == precision[0]).all()
    penalty = (f", sigma2={1 / precision[0]:g}" if precision[0] else "") if same else ", sigma2=sigma2"
    return penalty + (f", random_state={request.random_state}" if request.random_state else "")


def _target(plan: Plan) -> str:
    if plan.survey.target.efficiency is not None:
        return f", efficiency={plan.survey.target.efficiency:g}"
    if math.isinf(plan.budget):
        return ""
    return f", flops={plan.budget:g}" if plan.unit == "flops" else f', budget="{plan.budget:g}s"'


def add_plan(page: Page, plan: Plan, fitted: str | None = None) -> None:
    """Add the sections of a plan; ``fitted`` is the policy that was fitted in the end."""
    page.heading("Cost and accuracy of estimators")
    recommendation, *details = plan.explain().split("\n")
    if plan.caution:
        page.cautions([plan.caution[0].upper() + plan.caution[1:]])
        recommendation, *details = details
    page.paragraph(recommendation)
    with one_blas_thread():
        mixtures = mixture_tables(plan)
    points, labels, left = plan_frontier(plan)
    add_frontier(
        page,
        points,
        plan.edge,
        plan.best,
        labels,
        fitted=fitted,
        budget=left,
        floor=plan.floor,
        mixtures=mixtures,
        cost_text=plan._cost_text,
    )
    for line in details:
        page.paragraph(line)
    page.table(plan.plain_table())


def _share(lam: float, beta: float) -> float:
    """The share of the other family in the mean weight of a mixture: 0 where it is never selected."""
    return lam * beta / (1 - beta + lam * beta) if lam * beta else 0.0


def mixture_tables(plan: Plan) -> list[MixtureTable]:
    """Mixtures of the first family with λ of each other one that is drawn one by one, over a grid of (λ, β).

    The weights of the two are 1 − β and β.
    """
    survey, least = plan.survey, plan.least
    search, units, singles = survey.search, survey.units, survey.singles
    tables = []
    for high in singles[1 : 1 + _MOST_TABLES]:
        first, other = units[singles[0]], units[high]
        # The quick criterion, shifted so that the families alone have the variances of the plan.
        shifts = [search.criterion.value(unit, unit) - search.quick.value(unit, unit) for unit in (first, other)]
        low_shift, high_shift = np.nan_to_num(shifts, nan=0.0, posinf=0.0, neginf=0.0).tolist()
        lines = []
        for lam in _LAMS:
            cells = [
                search.written(first + lam * other, (1 - beta) * first + beta * other, search.quick)
                for beta in _BETAS
            ]
            lines.append(
                [
                    replace(cell, value=cell.value + low_shift + _share(lam, beta) * (high_shift - low_shift))
                    for beta, cell in zip(_BETAS, cells, strict=True)
                ]
            )
        tables.append(
            MixtureTable(
                survey.ingredients[high].name,
                _LAMS,
                _BETAS,
                [[mixture_text(survey.ingredients, m.lam, m.beta) or "nothing" for m in line] for line in lines],
                [[m.cost for m in line] for line in lines],
                [
                    [max(math.exp(m.value), least) if m.value < _LARGEST_LOG_VARIANCE else math.inf for m in line]
                    for line in lines
                ],
            )
        )
    return tables
