"""Charts as inline SVG: axes, marks with tooltips, and names next to points.

Colours are those of the page's style sheet, so that a chart adapts to dark mode and print. Marks can be reached with
the keyboard, and the tooltip is the accessible name of a mark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from fieldfit.report.ticks import linear_places, log_places, number

Box = tuple[float, float, float, float]

#: Reserved width of a letter and height of a line of text: those of narrow screens, on which letters are larger.
LETTER, LINE = 9.8, 17.0


@dataclass(frozen=True)
class Scale:
    """A scale that maps numbers from ``low`` to ``high`` to positions from ``start`` to ``stop``."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The position of a number, clipped to the limits."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """Round numbers for ticks."""
        if self.log:
            places = log_places(self.low, self.high)
            return places[:: 1 + len(places) // 9]
        return linear_places(self.low, self.high)

    def to_dict(self) -> dict[str, float]:
        """Its limits and places, for scripts."""
        return {"low": self.low, "high": self.high, "start": self.start, "stop": self.stop}


#: Positions of a name around its point: offsets to the right and down, and the anchor of the text.
_PLACES = (
    (13, 5, "start"),
    (-13, 5, "end"),
    (0, -14, "middle"),
    (0, LINE + 8, "middle"),
    (13, -11, "start"),
    (13, LINE + 3, "start"),
    (-13, -11, "end"),
)


@dataclass
class Chart:
    """A chart with axes, to which marks are added from back to front."""

    x: Scale
    y: Scale
    width: float
    height: float
    parts: list[str] = field(default_factory=list)
    taken: list[Box] = field(default_factory=list)
    lines: list[Box] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        log: tuple[bool, bool] = (False, False),
        size: tuple[float, float] = (640, 420),
    ) -> Chart:
        """A chart with these limits."""
        width, height = size
        return cls(Scale(*x, 74, width - 14, log[0]), Scale(*y, height - 48, 12, log[1]), width, height)

    def add(self, element: str) -> None:
        """Add an element as it is."""
        self.parts.append(element)

    def axes(self, x_label: str, y_label: str) -> None:
        """Axes with ticks and labels."""
        left, right = self.x.start, self.x.stop
        top, bottom = sorted((self.y.start, self.y.stop))  # y may grow downwards
        for value in self.y.ticks():
            place = self.y(value)
            self.add(f'<path class="grid" d="M{left:.1f} {place:.1f}H{right:.1f}"/>')
            self.text(left - 6, place + 4, number(round(value, 12)), "muted", anchor="end")
        previous = -math.inf
        for value in self.x.ticks():
            place, text = self.x(value), number(round(value, 12))
            half = 5.0 * len(text)
            if place - half < previous:
                continue
            previous = place + half
            self.add(f'<path class="axis" d="M{place:.1f} {bottom:.1f}v4"/>')
            self.text(place, bottom + 18, text, "muted", anchor="middle")
        self.add(f'<path class="axis" d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"/>')
        self.text((left + right) / 2, bottom + 40, x_label, anchor="middle")
        middle = (top + bottom) / 2
        self.add(
            f'<text transform="translate(15 {middle:.1f}) rotate(-90)" text-anchor="middle">{html.escape(y_label)}</text>'
        )

    def text(self, x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> None:
        """A text at a place."""
        name = f' class="{kind}"' if kind else ""
        self.add(f'<text{name} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def mark(
        self,
        x: float,
        y: float,
        kind: str,
        note: str,
        *,
        radius: float = 4.5,
        diamond: bool = False,
        opacity: float = 1,
    ) -> None:
        """Add a mark at (x, y) with a tooltip."""
        px, py = self.x(x), self.y(y)
        said = html.escape(note, quote=True)
        attributes = f'class="{kind}" data-tip="{said}" aria-label="{said}" role="img" tabindex="0"'
        if opacity < 1:
            attributes += f' opacity="{opacity:.2f}"'
        if diamond:
            r = 1.45 * radius
            shape = f"M{px:.1f} {py - r:.1f}L{px + r:.1f} {py:.1f}L{px:.1f} {py + r:.1f}L{px - r:.1f} {py:.1f}Z"
            self.add(f'<path {attributes} d="{shape}"/>')
        else:
            self.add(f'<circle {attributes} cx="{px:.1f}" cy="{py:.1f}" r="{radius:g}"/>')
        reach = 1.45 * radius if diamond else radius
        self.taken.append((px - reach, py - reach, px + reach, py + reach))

    def bar(self, x: float, low: float, high: float, kind: str) -> None:
        """Add a vertical bar with caps between two numbers; an end outside the chart has no cap."""
        px, top, bottom = self.x(x), self.y(high), self.y(low)
        self.avoid_line((px, top), (px, bottom))
        path = f"M{px:.1f} {top:.1f}V{bottom:.1f}"
        if high <= self.y.high:
            path += f"M{px - 3:.1f} {top:.1f}h6"
        if low >= self.y.low:
            path += f"M{px - 3:.1f} {bottom:.1f}h6"
        self.add(f'<path class="bar {kind}" d="{path}"/>')

    def label_line(self, y: float, text: str) -> None:
        """Add a text at a horizontal line: above or below it, from the right, at the first free position."""
        place, wide = self.y(y), LETTER * len(text)
        ends = [self.x.stop - 6 - 12 * k for k in range(int((self.x.stop - self.x.start - wide) // 12))]
        boxes = [
            (end - wide - 4, place + rise + 4 - LINE, end + 4, place + rise + 4)
            for end in ends
            for rise in (-5, LINE + 2)
            if place + rise + 4 < self.y.start
        ]
        for box in boxes:
            if not self._meets(box):
                self.taken.append(box)
                self.text(box[2] - 4, box[3] - 4, text, "muted", anchor="end")
                return

    def avoid_line(self, start: tuple[float, float], stop: tuple[float, float]) -> None:
        """Make names avoid a horizontal or vertical line between these positions, if there is room elsewhere."""
        (x, y), (u, v) = start, stop
        self.lines.append((min(x, u) - 1, min(y, v) - 1, max(x, u) + 1, max(y, v) + 1))

    def _meets(self, box: Box, lines: bool = False) -> bool:
        return any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
            for other in (*self.taken, *(self.lines if lines else ()))
        )

    def names(self, points: Sequence[tuple[str, float, float]]) -> None:
        """Add names next to points, the most important first; names without a free position are left out."""
        for text, x, y in points:
            px, py = self.x(x), self.y(y)
            wide = LETTER * len(text)
            for clear, (dx, dy, anchor) in product((True, False), _PLACES):
                left = px + dx - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
                box = (left - 2, py + dy + 3 - LINE, left + wide + 2, py + dy + 3)
                if box[0] < self.x.start or box[2] > self.x.stop or box[1] < self.y.stop or box[3] > self.y.start:
                    continue
                if self._meets(box, lines=clear):
                    continue
                self.taken.append(box)
                self.text(px + dx, py + dy, text, "halo", anchor=anchor)
                break

    def svg(self, description: str) -> str:
        """The whole chart; ``description`` is for screen readers."""
        said = html.escape(description, quote=True)
        body = "\n".join(self.parts)
        return (
            f'<svg class="chart" viewBox="0 0 {self.width:g} {self.height:g}" role="group" aria-label="{said}">\n'
            f"{body}\n</svg>"
        )
