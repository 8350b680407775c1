"""Names beside points cover neither each other nor the points, and stay inside."""

import numpy as np
import pytest

from fieldfit.report.figures import figure
from fieldfit.report.labels import name_points


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_names_do_not_overlap(seed):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    rng = np.random.default_rng(seed)
    points = [(float(x), float(y)) for x, y in zip(10 ** rng.uniform(0, 0.6, 9), rng.uniform(1, 1.3, 9), strict=True)]
    names = [(f"{rng.uniform():.3g}*PL1 + PL{k}", x, y) for k, (x, y) in enumerate(points)]
    with figure(6.0, 4.0) as drawing:
        axes = drawing.add_axes((0.1, 0.1, 0.85, 0.85))
        axes.set_xscale("log")
        axes.set_xlim(0.5, 12)
        axes.set_ylim(0.9, 1.5)
        axes.plot(*zip(*points, strict=True), "o", markersize=4)
        written = name_points(axes, names, points)
        renderer = FigureCanvasAgg(drawing).get_renderer()
        drawing.draw(renderer)
        boxes = [Text.get_window_extent(note, renderer) for note in axes.texts]  # without the lines to far points
        frame = axes.get_window_extent(renderer)
        centres = axes.transData.transform(points)
    assert len(written) >= 6
    assert [note.get_text() for note in axes.texts] == written
    for place, box in enumerate(boxes):
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1 + 1
        assert not any(box.contains(*centre) for centre in centres)
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])


def test_a_name_without_a_place_is_left_out():
    with figure(1.0, 0.6) as drawing:
        axes = drawing.add_axes((0.3, 0.3, 0.5, 0.5))
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        assert name_points(axes, [("a name that is far too long", 0.5, 0.5)], [(0.5, 0.5)]) == []
