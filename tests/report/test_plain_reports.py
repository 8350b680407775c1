"""Tables, pages and the plane of cost and variance, from plain values."""

import re
from typing import Any

import numpy as np
import pytest

from fieldfit.report.figures import figure_bytes, make_folder
from fieldfit.report.grids import draw_couplings, draw_images
from fieldfit.report.page import Page
from fieldfit.report.scatter import ScatterPoint, draw_cost_variance, frontier
from fieldfit.report.svg import Chart
from fieldfit.report.table import PlainTable, aligned_text, format_cell
from fieldfit.types import FileAccessError


def test_cells_are_written_for_readers():
    cells: list[Any] = [None, float("nan"), 12345, 1234.6, 0.123456, 5e24, 2772.0, "<b>"]
    assert [format_cell(cell) for cell in cells] == ["–", "–", "12,345", "1,235", "0.1235", "5e+24", "2,772", "<b>"]
    assert format_cell(0.5, ".3f") == "0.500"


def test_a_table_is_aligned_and_escaped():
    table = PlainTable("Title", ("name", "value"), (("a<b", 1.5), ("c", None)), "note", ("", ".2f"))
    assert aligned_text(table).splitlines()[3:5] == ["a<b    1.50", "c         –"]
    html = table.to_html()
    assert "a&lt;b" in html
    assert '<td class="number">1.50</td>' in html
    with pytest.raises(ValueError, match="3 cells for 2 columns"):
        PlainTable("t", ("a", "b"), ((1, 2, 3),))


def test_names_keep_clear_of_lines_where_there_is_room():
    chart = Chart.of((0, 10), (0, 10))
    chart.names([("on", 5.0, 5.0)])
    beside = chart.parts[-1]
    chart = Chart.of((0, 10), (0, 10))
    chart.avoid_line((chart.x.start, chart.y(5.0)), (chart.x.stop, chart.y(5.0)))
    chart.names([("on", 5.0, 5.0)])
    height = [float(re.search(r' y="([\d.]+)"', part)[1]) for part in (beside, chart.parts[-1])]
    assert abs(height[0] - chart.y(5.0)) < 6  # to the right of its point
    assert height[1] < chart.y(5.0) - 8  # above the line
    full = Chart.of((0, 10), (0, 10))
    for y in range(11):
        full.avoid_line((full.x.start, full.y(y)), (full.x.stop, full.y(y)))
        full.avoid_line((full.x.start, full.y(y + 0.5)), (full.x.stop, full.y(y + 0.5)))
    full.names([("on", 5.0, 5.0)])
    assert len(full.parts) == 1  # a line is no reason to leave a name out


def test_a_page_holds_everything_itself(tmp_path):
    page = Page("<Title>")
    page.heading("h")
    page.paragraph("1 < 2")
    page.picture(b"png", 'a "quoted" caption')
    page.write(tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "&lt;Title&gt;" in text
    assert "1 &lt; 2" in text
    assert 'src="data:image/png;base64,cG5n"' in text
    assert "://" not in text
    assert "default-src 'none'" in text


def test_the_frontier_is_what_nothing_beats():
    points = [
        ScatterPoint("a", 1, 3),
        ScatterPoint("b", 2, 2),
        ScatterPoint("c", 3, 2.5),
        ScatterPoint("d", 4, 1),
        ScatterPoint("e", 1, 4),
    ]
    assert [point.name for point in frontier(points)] == ["a", "b", "d"]


@pytest.mark.slow
def test_pictures_are_drawn():
    points = [ScatterPoint("a", 1, 3, 0.1), ScatterPoint("b", 2, 1)]
    random = np.random.default_rng(0)
    edges = [(0, 1), (0, 2), (1, 3)]
    drawings = [
        draw_cost_variance(points, "cost", "variance"),
        draw_images([("data", random.random((2, 3, 4, 4))), ("draws", random.random((1, 3, 4, 4)))], "012"),
        draw_couplings((2, 2), edges, np.array([1.0, -1.0, 0.2]), np.array([3.0, -8.0, 0.1]), np.ones((2, 2)), "t"),
    ]
    for drawing in drawings:
        assert figure_bytes(drawing, "png", dpi=40)[:4] == b"\x89PNG"


def test_a_folder_that_cannot_be_made(tmp_path):
    assert make_folder(tmp_path / "new").is_dir()
    with pytest.raises(FileAccessError, match="does not exist"):
        make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileAccessError, match="exists and is not a folder"):
        make_folder(tmp_path / "file")
