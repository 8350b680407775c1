"""The frontier on a page: marks with tooltips and error bars, and sliders that change a mixture."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fieldfit.report.frontier import FrontierPoint, Limits, named, outline, short, visible
from fieldfit.report.page import Page
from fieldfit.report.svg import LETTER, LINE, Chart

#: HTML id of the values for the sliders.
_ID = "mixtures"


@dataclass(frozen=True)
class MixtureTable:
    """Mixtures of a first family with λ of a second one at weight β, by λ and then by β.

    ``policies``, ``costs`` and ``variances`` have a list for each λ with a value for each β.
    """

    family: str
    lam: Sequence[float]
    beta: Sequence[float]
    policies: Sequence[Sequence[str]]
    costs: Sequence[Sequence[float]]
    variances: Sequence[Sequence[float]]


def add_frontier(
    page: Page,
    points: Sequence[FrontierPoint],
    edge: Sequence[tuple[float, float]],
    best: str,
    labels: tuple[str, str],
    *,
    fitted: str | None = None,
    budget: float | None = None,
    floor: float | None = None,
    mixtures: Sequence[MixtureTable] = (),
    cost_text: Callable[[float], str] = "{:.3g}".format,
) -> None:
    """Add the chart, and sliders if there are mixtures. ``labels`` are those of cost and variance.

    ``best`` is the recommended policy and ``fitted`` the one that was fitted.
    """
    shown = visible(points, best)
    if fitted is not None and fitted not in {point.name for point in shown}:
        shown += [point for point in points if point.name == fitted]
    limits = Limits.of(shown, floor)
    chart = Chart.of((limits.left, limits.right), (limits.bottom, limits.top), log=(True, True))
    if edge:
        x, y = outline(edge, limits.left, limits.right, 2 * limits.top)
        steps = [f"M{chart.x(x[0]):.1f} {chart.y(y[0]):.1f}"]
        steps += [f"V{chart.y(b):.1f}H{chart.x(a):.1f}" for a, b in zip(x[1:], y[1:], strict=True)]
        line = "".join(steps)
        places = [(chart.x(a), chart.y(b)) for a, b in zip(x, y, strict=True)]
        for (left, above), (right, below) in pairwise(places):
            chart.avoid_line((left, above), (left, below))
            chart.avoid_line((left, below), (right, below))
        chart.add(f'<path class="region" d="{line}V{chart.y.start:.1f}H{chart.x.start:.1f}Z"/>')
        chart.axes(*labels)
        chart.add(f'<path class="accent none" stroke-width="1.3" d="{line}"/>')
        chart.text(chart.x.start + 8, chart.y.start - 8, "no policy is here", "muted")
        wide = LETTER * len("no policy is here")
        chart.taken.append((chart.x.start, chart.y.start - 8 - LINE, chart.x.start + 8 + wide, chart.y.start))
    else:
        chart.axes(*labels)
    if floor is not None:
        chart.avoid_line((chart.x.start, chart.y(floor)), (chart.x.stop, chart.y(floor)))
        chart.add(
            f'<path class="axis" stroke-dasharray="6 5" d="M{chart.x.start:.1f} {chart.y(floor):.1f}H{chart.x.stop:.1f}"/>'
        )
    if budget is not None and limits.left < budget < limits.right:
        chart.add(
            f'<path class="axis" stroke-dasharray="1 4" d="M{chart.x(budget):.1f} {chart.y.stop:.1f}V{chart.y.start:.1f}"/>'
        )
        end = chart.x(budget) - 4
        chart.text(end, chart.y.stop + 12, "budget left", "muted", anchor="end")
        chart.taken.append((end - LETTER * len("budget left"), chart.y.stop, end, chart.y.stop + LINE))
    special = (best, fitted)
    for point in sorted(shown, key=lambda point: (point.name in special, point.on_frontier)):
        kind = "accent" if point.on_frontier or point.name in special else "blue"
        chart.bar(point.cost, *point.bar, kind)
        chart.mark(
            point.cost,
            point.variance,
            kind,
            _note(point, best, fitted),
            radius=6.0 if point.name in special else 4.2,
            diamond=point.name == best,
        )
        if point.name == fitted:
            px, py = chart.x(point.cost), chart.y(point.variance)
            chart.add(f'<circle class="you" cx="{px:.1f}" cy="{py:.1f}" r="11" stroke-dasharray="3 2"/>')
            chart.taken.append((px - 11, py - 11, px + 11, py + 11))
    if floor is not None:
        chart.label_line(floor, "maximum likelihood")
    first = [point for point in shown if point.name == fitted]
    rest = [point for point in named(shown, best) if point.name != fitted]
    chart.names([(short(point.name), point.cost, point.variance) for point in [*first, *rest]])
    if mixtures:
        chart.add(f'<g id="{_ID}-point" class="only-screen" visibility="hidden"><circle class="you" r="8"/></g>')
    told = (
        f"Cost against variance of {len(shown)} policies. Recommended: {best}. The table below has the same numbers."
    )
    more = len(points) - len(shown)
    caption = (
        "Further left is cheaper, lower is more accurate. Diamond: recommended. Orange: on the frontier. Bars: two "
        "standard errors of the pilot's estimate. Touch a mark, or move to it with the Tab key, for its numbers."
        + (" Dashed circle: what was fitted." if fitted is not None and first else "")
        + (f" {more} less accurate policies lie above the picture." if more else "")
    )
    page.chart(chart.svg(told), caption)
    if mixtures:
        _add_sliders(page, chart, mixtures, labels[1], cost_text)


def _note(point: FrontierPoint, best: str, fitted: str | None) -> str:
    error = f" ± {point.error:.2g}" if point.error > 1e-6 else ""
    text = f"{point.name}: variance {point.variance:.4g}{error}, cost {point.cost_text or format(point.cost, '.3g')}"
    text += " · recommended" if point.name == best else " · on the frontier" if point.on_frontier else ""
    return text + (" · fitted" if point.name == fitted else "") + (f" · {point.why}" if point.why else "")


def _add_sliders(
    page: Page,
    chart: Chart,
    mixtures: Sequence[MixtureTable],
    variance: str,
    cost_text: Callable[[float], str],
) -> None:
    options = "".join(f'<option value="{k}">{html.escape(table.family)}</option>' for k, table in enumerate(mixtures))
    first = mixtures[0]
    start = _first_mixture(chart, first)
    page.parts.append(
        f'<div class="controls only-screen" data-mixtures="{_ID}" role="group" aria-label="Try a mixture">'
        f"<strong>Try a mixture</strong>"
        f'<label>second family <select name="family">{options}</select></label>'
        f'<label>λ, its selection probability: <span data-value="lam"></span>'
        f'<input type="range" name="lam" min="0" max="{len(first.lam) - 1}" value="{start[0]}"></label>'
        f'<label>β, its weight: <span data-value="beta"></span>'
        f'<input type="range" name="beta" min="0" max="{len(first.beta) - 1}" value="{start[1]}"></label>'
        f'<output name="said" aria-live="polite"></output></div>'
    )
    page.data(
        _ID,
        {
            "x": chart.x.to_dict(),
            "y": chart.y.to_dict(),
            "families": [
                {
                    "lam": list(table.lam),
                    "beta": list(table.beta),
                    "policy": [list(line) for line in table.policies],
                    "cost": [[float(f"{cost:.4g}") for cost in line] for line in table.costs],
                    "variance": [[_finite(value) for value in line] for line in table.variances],
                    "text": [
                        [
                            f"{variance} {value:.4g}, cost {cost_text(cost)}"
                            for cost, value in zip(costs, values, strict=True)
                        ]
                        for costs, values in zip(table.costs, table.variances, strict=True)
                    ],
                }
                for table in mixtures
            ],
        },
    )


def _first_mixture(chart: Chart, table: MixtureTable) -> tuple[int, int]:
    """Start of the sliders: near the middle, at a mixture inside the chart if there is one."""
    middle = len(table.lam) // 3, len(table.beta) // 2
    places = [
        (abs(j - middle[0]) + abs(k - middle[1]), j, k)
        for j, (costs, values) in enumerate(zip(table.costs, table.variances, strict=True))
        for k, (cost, value) in enumerate(zip(costs, values, strict=True))
        if chart.x.low <= cost <= chart.x.high and chart.y.low <= value <= chart.y.high
    ]
    return min(places)[1:] if places else middle


def _finite(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
