"""Ticks of logarithmic axes in one format: 0.005, 0.2, 50, 2k, 10M."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axis import Axis

_SUFFIXES = ("", "k", "M", "G", "T", "P")
#: Leading digits of the ticks, by the number of decades of the axis. Shorter axes have ticks at equal round steps.
_DIGITS = ((1.2, (1, 2, 3, 5, 7)), (2.2, (1, 2, 5)), (4.0, (1, 3)), (math.inf, (1,)))
_FINE = 0.8


def number(value: float) -> str:
    """A number of few digits: thousands as k, millions as M, billions as G; small ones as decimals."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    size = abs(value)
    if size < 1e-4 or size >= 1e18:
        return f"{value:.3g}"
    group = max(0, math.floor(math.log10(size * (1 + 1e-12)) / 3))
    text = f"{value / 1000**group:.6f}".rstrip("0").rstrip(".")
    return text + _SUFFIXES[group]


def plain_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis of matplotlib with final limits: as many as are readable, in one format."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(log_places(*sorted(axis.get_view_interval()))))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: number(round(value, 12)))


def log_places(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones, for the ticks of a logarithmic axis."""
    decades = math.log10(high) - math.log10(low)
    if decades <= _FINE:
        places = _even_places(low, high)
    else:
        steps = next(digits for most, digits in _DIGITS if decades <= most)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        places = [step * 10.0**power for power in powers for step in steps]
    return [place for place in places if low <= place <= high]


def linear_places(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers at equal steps between two limits."""
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _even_places(low: float, high: float) -> list[float]:
    """About eight round numbers between two close limits, denser at the lower end."""
    places: list[float] = []
    value = low
    part = (high / low) ** (1 / 8)
    while value <= high and len(places) < 20:
        step = value * (part - 1)
        unit = 10.0 ** math.floor(math.log10(step))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= step * 0.999)
        value = math.ceil(value / step * (1 - 1e-9)) * step
        places.append(value)
        value = value + step
    return places
