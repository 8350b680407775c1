"""A plan as a page to explore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldfit.report.frontier_chart import add_frontier
from fieldfit.report.page import Page
from fieldfit.report.provenance import add_citation, add_versions
from fieldfit.threads import one_blas_thread

if TYPE_CHECKING:
    from fieldfit.planner.result import Plan


def plan_page(plan: Plan) -> Page:
    """The whole page."""
    page = Page(plan.plain_table().title)
    add_plan(page, plan)
    add_citation(page, refined=any(candidate.second_stage for candidate in plan.candidates))
    page.heading("How to reproduce")
    page.code(
        "import fieldfit as ff\n\n"
        f"plan = ff.plan(model, data{_target(plan)})\n"
        f"fit = plan.fit()  # {plan.best}\n"
        'fit.to_html("fit.html", plan=plan)'
    )
    page.note("Seconds depend on the machine and its load; variances and FLOPs do not.")
    add_versions(page)
    return page


def _target(plan: Plan) -> str:
    if plan.wanted_efficiency is not None:
        return f", efficiency={plan.wanted_efficiency:g}"
    if plan.left is None:
        return ""
    return f", flops={plan.budget:g}" if plan.unit == "flops" else f', budget="{plan.budget:g}s"'


def add_plan(page: Page, plan: Plan, fitted: str | None = None) -> None:
    """Add the sections of a plan; ``fitted`` is the policy that was fitted in the end."""
    page.heading("Cost and accuracy of estimators")
    recommendation, *details = plan.explain().split("\n")
    if plan.caution:
        caution = plan.caution.removeprefix("Caution: ")
        page.cautions([caution[0].upper() + caution[1:]])
        recommendation, *details = details
    page.paragraph(recommendation)
    with one_blas_thread():
        mixtures = plan.mixtures()
    add_frontier(
        page,
        plan.points(),
        plan.edge,
        plan.best,
        plan.axis_labels,
        fitted=fitted,
        budget=plan.left,
        floor=plan.floor,
        mixtures=mixtures,
        cost_text=plan.cost_text,
    )
    for line in details:
        page.paragraph(line)
    page.table(plan.plain_table())
