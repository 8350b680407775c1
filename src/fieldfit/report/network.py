"""Pictures of networks: circles for variables, blue edges for positive and red dashed ones for negative couplings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import is_list, whole_number
from fieldfit.report.figures import BLUE, INK, MUTED, figure
from fieldfit.types import FloatArray, ModelError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RED = "#b3261e"
#: Light colours of clusters, distinct for colour-blind readers. The first is the colour without clusters.
FILLS = ("#f3ead7", "#cfe3f5", "#fbd9c9", "#d5ebd3", "#e3d7f0", "#f7f0b6", "#d9d9d9", "#f6d3e4")
#: Longest name inside a circle. If a name is longer, circles have numbers and a list has the names.
_LONGEST = 10
#: Couplings above this multiple of the upper quartile do not affect the scale of widths.
_FAR_COUPLING = 5.0
#: Couplings for each variable that are drawn unless more are asked for: the picture of hundreds of lines shows nothing.
DRAWN_FOR_EACH = 2
#: Inches of one panel, and of the list of names.
_PANEL, _LIST = 5.6, 2.1
#: Seeds of layouts: what networkx takes.
_LARGEST_SEED = 2**32 - 1


def layout(couplings: FloatArray, seed: int = 0) -> FloatArray:
    """Positions (m, 2) in the unit square by a spring layout (stronger for larger abs(weight)), without overlap.

    The same couplings and seed give the same positions.
    """
    import networkx

    m = len(couplings)
    graph: networkx.Graph = networkx.Graph()
    graph.add_nodes_from(range(m))
    share = _shares(couplings, widest(couplings))
    # Weak springs between all variables keep those without edges near the others.
    for j in range(m):
        for k in range(j + 1, m):
            graph.add_edge(j, k, weight=0.03 + share[j, k])
    places = networkx.spring_layout(graph, seed=seed, iterations=300, weight="weight", k=1.6 / np.sqrt(m))
    points = np.array([places[j] for j in range(m)])
    points -= points.mean(axis=0)
    # The longest direction is horizontal, with the first variable on the left, so that small changes of weights do
    # not rotate it.
    _, _, axes = np.linalg.svd(points, full_matrices=False)
    points = points @ axes.T
    points *= np.where(points[0] > 0, -1.0, 1.0)
    return _apart(_unit(points), 2.5 * radius(m))


def widest(couplings: FloatArray) -> float:
    """The strength that is drawn at full width: the largest one, without outliers.

    A diverging coupling (separated data) would make all other edges thin. Infinite if all couplings are infinite, as those
    of forbidden states are; 0 without couplings.
    """
    strengths = np.abs(couplings[np.isfinite(couplings) & (couplings != 0)])
    if not len(strengths):
        return float(np.abs(couplings).max(initial=0.0))
    usual = float(np.quantile(strengths, 0.75))
    return float(strengths[strengths <= _FAR_COUPLING * usual].max())


def _shares(couplings: FloatArray, largest: float) -> FloatArray:
    """The share (m, m) of the full width of each edge."""
    strengths = np.abs(couplings)
    shares = (strengths > 0).astype(np.float64)
    return np.divide(strengths, largest, out=shares, where=strengths < largest)


def strongest_of(couplings: FloatArray, count: int) -> FloatArray:
    """The ``count`` strongest couplings (m, m), and 0 for the others."""
    sizes = np.abs(np.triu(couplings, 1))
    kept = np.zeros(couplings.size, dtype=bool)
    kept[np.argsort(-sizes, axis=None, kind="stable")[:count]] = True
    upper = kept.reshape(couplings.shape)
    shown: FloatArray = np.where(upper | upper.T, couplings, 0.0)
    return shown


def radius(m: int) -> float:
    """The radius of a circle, as a share of the panel."""
    return float(np.clip(0.215 / np.sqrt(m), 0.016, 0.06))


def _unit(points: FloatArray) -> FloatArray:
    low, high = points.min(axis=0), points.max(axis=0)
    scaled: FloatArray = (points - low) / np.maximum(high - low, 1e-12)
    return scaled


def _apart(points: FloatArray, least: float) -> FloatArray:
    """Push points apart until no two are closer than ``least``, inside the unit square."""
    moved = points.copy()
    for _ in range(500):
        between = moved[:, None] - moved[None]
        distance = np.sqrt(np.square(between).sum(axis=2)) + np.eye(len(moved))
        lacking = np.maximum(least - distance, 0.0) * (1.0 - np.eye(len(moved)))
        if not lacking.any():
            break
        moved += 0.3 * (between / distance[:, :, None] * lacking[:, :, None]).sum(axis=1)
        np.clip(moved, 0.0, 1.0, out=moved)
    return moved


def draw_networks(
    names: Sequence[str],
    couplings: Sequence[FloatArray],
    *,
    titles: Sequence[str] = ("",),
    clusters: Sequence[str] | None = None,
    predictabilities: Sequence[FloatArray] | None = None,
    seed: int = 0,
    signed: bool = True,
    caption: str = "",
) -> Figure:
    """Draw networks of the same variables side by side, at the same positions and with the same scale of widths.

    Parameters
    ----------
    names : sequence of str
        The variables.
    couplings : sequence of ndarray of shape (m, m)
        The couplings of each network.
    titles : sequence of str, default: ("",)
        A title for each network.
    clusters : sequence of str or None, default: None
        A cluster for each variable, shown by its colour.
    predictabilities : sequence of ndarray of shape (m,) or None, default: None
        For each network the filled share of the ring around each circle, from 0 to 1.
    seed : int, default: 0
        Seed of the layout.
    signed : bool, default: True
        Whether couplings have a sign, which the legend explains. Norms of tables have none.
    caption : str, default: ""
        Text before the line on the widths of edges.

    Returns
    -------
    Figure
    """
    if clusters is not None:
        if not is_list(clusters):
            raise ModelError(f"clusters is {clusters!r:.80}; it must be a list with one for each variable, or None.")
        if len(clusters) != len(names):
            raise ModelError(
                f"There are {len(names)} variables and {len(clusters)} clusters; give one for each variable."
            )
        clusters = list(map(str, clusters))
    seed = whole_number(seed, "seed", 0, _LARGEST_SEED)
    positions = layout(np.mean([np.abs(w) for w in couplings], axis=0), seed)
    largest = widest(np.stack(couplings))
    beyond = any(bool((np.abs(w) > largest).any()) for w in couplings)
    labels = list(dict.fromkeys(clusters or ()))
    fills = [FILLS[0] if clusters is None else FILLS[(1 + labels.index(c)) % len(FILLS)] for c in clusters or names]
    numbered = max(map(len, names)) > _LONGEST
    width = _PANEL * len(couplings) + (_LIST if numbered else 0.0)
    height = _PANEL + 0.75
    with figure(width, height) as drawing:
        for place, weights in enumerate(couplings):
            gap = 0.2 if len(couplings) > 1 else 0.0  # between neighbouring networks
            corner = ((place * _PANEL + gap / 2) / width, (0.45 + gap / 2) / height)
            axes = drawing.add_axes((*corner, (_PANEL - gap) / width, (_PANEL - gap) / height))
            rings = None if predictabilities is None else predictabilities[place]
            shown = [str(j + 1) for j in range(len(names))] if numbered else list(names)
            _draw(axes, shown, weights, positions, largest, fills, rings)
            if titles[place]:
                drawing.text((place + 0.5) * _PANEL / width, 1 - 0.16 / height, titles[place], ha="center",
                             va="center", fontsize=11)  # fmt: skip
        _legend(drawing, largest, beyond, labels, predictabilities is not None, height, signed, caption)
        if numbered:
            _list(drawing, names, fills, 1 - _LIST / width, width, height)
        from matplotlib.text import Text

        for text in drawing.findobj(Text):
            text.set_parse_math(False)  # a name such as "pays $5 or $10" is no formula
    return drawing


def _draw(
    axes: Axes,
    shown: Sequence[str],
    couplings: FloatArray,
    positions: FloatArray,
    largest: float,
    fills: Sequence[str],
    rings: FloatArray | None,
) -> None:
    from matplotlib.patches import Circle, Wedge

    size = radius(len(shown))
    axes.set_axis_off()
    axes.set_aspect("equal")
    pairs, shares = np.argwhere(np.triu(couplings, 1) != 0), _shares(couplings, largest)
    lines = {(j, k): _around(positions, j, k, 1.3 * size) for j, k in pairs.tolist()}
    # Curves around other variables may leave the square of the variables.
    beyond = max((float(np.abs(line - 0.5).max()) - 0.5 for line in lines.values()), default=0.0)
    margin = max(1.6 * size, beyond + 0.3 * size)
    axes.set_xlim(-margin, 1 + margin)
    axes.set_ylim(-margin, 1 + margin)
    for (j, k), line in sorted(lines.items(), key=lambda drawn: abs(couplings[drawn[0]])):
        share = shares[j, k]
        positive = couplings[j, k] > 0
        axes.plot(
            line[:, 0], line[:, 1], color=BLUE if positive else RED, zorder=1,
            linewidth=0.4 + 5.6 * share, alpha=0.25 + 0.65 * share, solid_capstyle="butt",
            linestyle="-" if positive else (0, (2.2, 0.9)),
        )  # fmt: skip
    # A letter is about 0.56 of the font size wide; all names have one size.
    room = 2 * size * _PANEL / (1 + 2 * margin) * 72
    font = float(np.clip(room / (0.56 * max(3, *map(len, shown))), 6.5, 11.0))
    for j, (x, y) in enumerate(positions):
        if rings is not None:
            outer = 1.22 * size
            axes.add_patch(Circle((x, y), outer, facecolor="white", edgecolor=MUTED, linewidth=0.6, zorder=2))
            share = float(np.clip(rings[j], 0.0, 1.0))
            if share > 0:
                axes.add_patch(Wedge((x, y), outer, 90 - 360 * share, 90, facecolor=INK, linewidth=0, zorder=3))
        axes.add_patch(Circle((x, y), size, facecolor=fills[j], edgecolor=INK, linewidth=0.7, zorder=4))
        axes.text(x, y, shown[j], ha="center", va="center", fontsize=font, zorder=5)


def _around(positions: FloatArray, j: int, k: int, room: float) -> FloatArray:
    """Points of the edge from j to k: straight, or a curve around a variable that is in its way."""
    start, end = positions[j], positions[k]
    control = control_point(positions, j, k, room)
    if control is None:
        return np.array([start, end])
    t = np.linspace(0.0, 1.0, 41)[:, None]
    curve: FloatArray = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    return curve


def control_point(positions: FloatArray, j: int, k: int, room: float) -> FloatArray | None:
    """The control point of a quadratic curve from j to k around a variable that is closer than ``room`` to the line.

    None where the straight line is free.
    """
    start, end = positions[j], positions[k]
    along = end - start
    length = float(np.sqrt(along @ along))
    across = np.array([-along[1], along[0]]) / length
    others = np.delete(positions, [j, k], axis=0) - start
    place, offset = others @ along / length**2, others @ across
    near = (place > 0) & (place < 1) & (np.abs(offset) < room)
    if not near.any():
        return None
    closest = int(np.argmin(np.where(near, np.abs(offset), np.inf)))
    # The middle of the curve passes on the other side of the variable in the way.
    bend = offset[closest] - np.copysign(2.2 * room, offset[closest])
    control: FloatArray = start + along / 2 + 2 * bend * across
    return control


def _legend(
    drawing: Figure,
    largest: float,
    beyond: bool,
    labels: Sequence[str],
    ringed: bool,
    height: float,
    signed: bool,
    caption: str,
) -> None:
    from matplotlib.lines import Line2D

    signs = [
        Line2D([], [], color=BLUE, linewidth=3, label="positive"),
        Line2D([], [], color=RED, linewidth=3, linestyle=(0, (2.2, 0.9)), label="negative"),
    ]
    entries = signs if signed else []
    entries += [
        Line2D([], [], marker="o", linestyle="", markersize=9, markerfacecolor=FILLS[(1 + place) % len(FILLS)],
               markeredgecolor=INK, markeredgewidth=0.7, label=label)
        for place, label in enumerate(labels)
    ]  # fmt: skip
    if entries:
        drawing.legend(handles=entries, loc="lower center", bbox_to_anchor=(0.5, 0.16 / height), frameon=False,
                       ncols=min(len(entries), 6), fontsize=8.5, handlelength=1.8, columnspacing=1.4)  # fmt: skip
    size = "abs(weight)" if signed else "strength (Frobenius norm)"
    told = f"{caption} " if caption else ""
    told += f"Widest edge: {size} = {largest:.2f}{' or more' if beyond else ''}."
    if ringed:
        told += " Dark ring: predictability (normalised accuracy)."
    drawing.text(0.5, 0.1 / height, told, ha="center", va="center", fontsize=8, color=MUTED)


def _list(
    drawing: Figure, names: Sequence[str], fills: Sequence[str], left: float, width: float, height: float
) -> None:
    step = min(0.17, (_PANEL - 0.1) / len(names))
    for j, name in enumerate(names):
        y = 1 - (0.45 + j * step) / height
        shortened = name if len(name) <= 24 else name[:23] + "…"
        drawing.text(left + 0.22 / width, y, str(j + 1), ha="right", va="center", fontsize=min(7.5, step * 60),
                     bbox={"boxstyle": "circle,pad=0.1", "facecolor": fills[j], "edgecolor": "none"})  # fmt: skip
        drawing.text(left + 0.32 / width, y, shortened, va="center", fontsize=min(7.5, step * 60))
