"""The parts of a fit's page as HTML and SVG, from plain tables and arrays."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.report.network import widest
from fieldfit.report.network_chart import cut_name
from fieldfit.report.page import Page
from fieldfit.report.svg import Chart
from fieldfit.report.table import format_cell
from fieldfit.types import FloatArray

#: Variables up to which couplings are drawn as a network; more are drawn as a matrix.
MOST_NODES = 60
#: Names on the sides of a matrix.
MOST_SIDES = 80
#: Height of the colour scale below a matrix.
_SCALE_HEIGHT = 34


@dataclass(frozen=True)
class Coefficient:
    """A parameter with its interval; NaN if there is none."""

    name: str
    estimate: float
    error: float
    lower: float
    upper: float
    note: str = ""

    @property
    def z(self) -> float:
        """The estimate in standard errors."""
        return self.estimate / self.error if self.error > 0 else math.nan


def add_coefficients(page: Page, rows: Sequence[Coefficient], level: float, total: int, caution: str = "") -> None:
    """Add a table with a search box and an interval in each row. A click on a heading sorts by that column.

    ``caution`` is a sentence on its standard errors, in the caption.
    """
    # An estimate without an interval may be diverging.
    reach = max((abs(end) for row in rows for end in (row.lower, row.upper) if math.isfinite(end)), default=1.0)
    reach = reach or 1.0
    has_intervals = any(math.isfinite(row.lower) for row in rows)
    names = ("parameter", "estimate", "std. error", "z", f"{level:.0%} interval")[: 5 if has_intervals else 2]
    heads = "".join(
        f'<th scope="col"{"" if place in (0, 4) else " class=number"}>'
        + (f'<button type="button">{name}</button>' if place < 4 else name)
        + "</th>"
        for place, name in enumerate(names)
    )
    lines = []
    for row in rows:
        cells = [f'<th scope="row" data-value="{html.escape(row.name, quote=True)}">{html.escape(row.name)}</th>']
        numbers = ((row.estimate, "+.4f"), (row.error, ".4f"), (row.z, "+.2f"))
        for value, how in numbers[: 3 if has_intervals else 1]:
            text = row.note if row.note and value is row.estimate else format_cell(value, how)
            key = f"{value:.8g}" if math.isfinite(value) else ""
            cells.append(f'<td class="number" data-value="{key}">{html.escape(text)}</td>')
        if has_intervals:
            cells.append(f"<td>{_interval(row, reach)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    caption = f"Estimates with {level:.0%} confidence intervals." if has_intervals else "Estimates without intervals."
    if total > len(rows):
        size = "z" if has_intervals else "estimate"
        caption += f" The {len(rows):,} with the largest abs({size}) of {total:,} are listed."
    if caution:
        caption += f" {html.escape(page.words(caution))}"
    absent = f' data-absent="{total - len(rows):,}"' if total > len(rows) else ""
    example = html.escape(rows[0].name[:20], quote=True) if rows else "x0"
    page.parts.append(
        '<p class="search only-screen"><label>Search names: <input type="search" data-search="coefficients"'
        f'{absent} placeholder="for example {example}" autocomplete="off"></label> '
        f'<output id="coefficients-count" aria-live="polite"></output></p>'
        f'<div class="tall" tabindex="0" role="region" aria-label="Estimates"><table id="coefficients">'
        f"<caption>{caption}</caption>"
        f"<thead><tr>{heads}</tr></thead>\n<tbody>{chr(10).join(lines)}</tbody></table></div>"
    )


def _interval(row: Coefficient, reach: float) -> str:
    """The interval as a line, the estimate as a dot, 0 in the middle."""
    if not math.isfinite(row.lower):
        return '<span class="note">none</span>'
    text = f"{row.lower:+.3f} to {row.upper:+.3f}"

    def place(value: float) -> float:
        return 70 + 66 * value / reach

    kind = "blue" if row.lower > 0 else "red" if row.upper < 0 else "muted"
    stroke = "var(--muted)" if kind == "muted" else f"var(--{kind})"
    return (
        f'<svg class="interval" viewBox="0 0 140 14" role="img" aria-label="{text}"><title>{text}</title>'
        f'<path d="M70 0V14" stroke="var(--muted)" opacity=".5"/>'
        f'<path d="M{place(row.lower):.1f} 7H{place(row.upper):.1f}" stroke="{stroke}" stroke-width="2.5"/>'
        f'<circle cx="{place(row.estimate):.1f}" cy="7" r="3.2" fill="{stroke}"/></svg>'
    )


def matrix_chart(names: Sequence[str], values: FloatArray, what: str, *, directed: bool) -> str:
    """A matrix of coloured cells; rows are the labels before."""
    m = len(names)
    side = 640.0
    margin = 8 + 10.0 * max(len(cut_name(name)) for name in names)  # the letters of phones are larger
    cell = (side - margin - 8) / m
    chart = Chart.of((0, 1), (0, 1), size=(side, side + _SCALE_HEIGHT))
    largest = widest(values) or 1.0
    arrow = "→" if directed else "–"
    for j in range(m):
        for k in range(m):
            share = min(1.0, abs(values[j, k]) / largest)
            if share < 0.005:
                continue
            note = html.escape(f"{names[j]} {arrow} {names[k]}: {what} {values[j, k]:.3g}", quote=True)
            kind = "blue" if values[j, k] > 0 else "red"
            chart.add(
                f'<rect x="{margin + k * cell:.1f}" y="{margin + j * cell:.1f}" width="{cell * 0.96:.1f}" '
                f'height="{cell * 0.96:.1f}" fill="var(--{kind})" opacity="{share:.2f}" data-tip="{note}"/>'
            )
    every = max(1, math.ceil(18 / cell))
    for j in range(0, m, every):
        middle = margin + (j + 0.5) * cell
        chart.text(margin - 5, middle + 4, cut_name(names[j]), anchor="end")
        turned = f"translate({middle + 4:.1f} {margin - 6:.1f}) rotate(-90)"
        chart.add(f'<text transform="{turned}">{html.escape(cut_name(names[j]))}</text>')
    _add_scale(chart, margin, side, largest)
    rows = "rows: before, columns: after" if directed else "symmetric"
    return chart.svg(f"Matrix of {m} by {m} values ({what}; {rows}). Blue is positive, red negative.")


def _add_scale(chart: Chart, left: float, top: float, largest: float) -> None:
    """Add a colour scale from −largest to largest below a matrix."""
    steps, width = 20, 10.0
    for place in range(-steps // 2, steps // 2):
        middle = (place + 0.5) / (steps / 2)
        chart.add(
            f'<rect x="{left + (place + steps // 2) * width:.1f}" y="{top:.1f}" width="{width:g}" height="12" '
            f'fill="var(--{"blue" if middle > 0 else "red"})" opacity="{abs(middle):.2f}"/>'
        )
    for share, text in ((0.0, f"−{largest:.3g}"), (0.5, "0"), (1.0, f"{largest:.3g}")):
        chart.text(left + share * steps * width, top + 28, text, anchor="middle")


def moment_chart(kind: str, names: Sequence[str], values: FloatArray) -> str:
    """Values of the model against those of the data (2, count), with the line of equality."""
    known = np.flatnonzero(np.isfinite(values).all(axis=0))
    data, model = values[0, known], values[1, known]
    shown = values[:, known] if len(known) else np.zeros((2, 1))
    low, high = float(shown.min()), float(shown.max())
    room = 0.06 * (high - low) or 0.05
    limits = (low - room, high + room)
    chart = Chart.of(limits, limits, size=(330, 320))
    chart.axes(f"{kind} in the data", f"{kind} in the model")
    chart.add(
        f'<path class="axis" d="M{chart.x(limits[0]):.1f} {chart.y(limits[0]):.1f}L{chart.x(limits[1]):.1f} '
        f'{chart.y(limits[1]):.1f}"/>'
    )
    worst = set(np.argsort(-np.abs(model - data))[:12].tolist())
    for place, (x, y) in enumerate(zip(data.tolist(), model.tolist(), strict=True)):
        if place in worst:
            chart.mark(x, y, "accent", f"{names[known[place]]}: data {x:.3g}, model {y:.3g}", radius=3.2)
        else:
            chart.add(f'<circle class="blue" cx="{chart.x(x):.1f}" cy="{chart.y(y):.1f}" r="2" opacity=".6"/>')
    apart = float(np.sqrt(np.mean(np.square(model - data)))) if len(known) else math.nan
    return chart.svg(f"{len(known)} values of the kind {kind}: root mean square difference {apart:.2g}.")


def add_influence(page: Page, lines: Sequence[tuple[str, float, str, float]], measure: str, caption: str) -> None:
    """Add a table of samples (name, distance, parameter that changes most, its change) with a bar for each distance."""
    largest = max((value for _, value, _, _ in lines), default=1.0) or 1.0
    rows = []
    for sample, value, parameter, change in lines:
        bar = (
            f'<svg class="interval" viewBox="0 0 140 14" aria-hidden="true"><rect x="0" y="2" height="10" rx="2" '
            f'width="{max(0.0, 138 * value / largest):.1f}" fill="var(--blue)"/></svg>'
        )
        rows.append(
            f'<tr><th scope="row" class="one-line">{html.escape(sample)}</th><td class="number">{value:.3g}</td>'
            f'<td>{bar}</td><td>{html.escape(parameter)}</td><td class="number">{format_cell(change, "+.3g")}</td></tr>'
        )
    page.parts.append(
        f'<div class="wide"><table><caption>{html.escape(caption)}</caption><thead><tr><th scope="col">sample</th>'
        f'<th scope="col" colspan="2">{html.escape(measure)}</th><th scope="col">changes most</th>'
        f'<th scope="col" class="number">by</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def convergence_chart(iterations: Sequence[float], norms: Sequence[float]) -> str:
    """The norm of the gradient against iterations, on a log scale."""
    shown = [(k, min(max(norm, 1e-300), 1e300)) for k, norm in zip(iterations, norms, strict=True)]
    low, high = min(norm for _, norm in shown), max(norm for _, norm in shown)
    last = max(k for k, _ in shown)
    chart = Chart.of((0, max(last, 1)), (low / 1.5, high * 1.5), log=(False, True), size=(640, 300))
    chart.axes("iteration", "largest entry of the gradient")
    line = "L".join(f"{chart.x(k):.1f} {chart.y(norm):.1f}" for k, norm in shown)
    chart.add(f'<path class="accent none" stroke-width="2" d="M{line}"/>')
    for k, norm in (shown[0], shown[-1]):
        chart.mark(k, norm, "accent", f"iteration {k:.0f}: {norm:.3g}", radius=4)
    return chart.svg(f"The gradient fell from {shown[0][1]:.3g} to {shown[-1][1]:.3g} in {last:.0f} iterations.")
