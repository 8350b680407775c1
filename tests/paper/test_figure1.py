"""Figure 1: every printed sum comes out of the transcribed Z and the FLOP formula; the variances are ours."""

import numpy as np
import pytest

from fieldfit.report.figures import figure_bytes
from fieldfit_paper import figure1, graphs
from fieldfit_paper.experiments import EXPERIMENTS


@pytest.fixture(scope="module")
def boxes():
    return figure1.reproduce(None).document["boxes"]


def test_printed_sums_come_out(boxes):
    full, first, mixed = boxes
    assert full["flops_by_sample"] == [330] * 14
    assert full["flops"] == 4620
    assert first["flops_by_sample"] == [110] * 14
    assert first["flops_by_component"] == [308] * 5
    assert first["flops"] == 1540
    assert mixed["flops_by_sample"] == [208, 107, 208, 167, 230, 230, 293, 271, 148, 230, 274, 252, 66, 88]
    by_component = [176, 220, 220, 154, 198, 164, 205, 164, 164, 205, 287, 164, 82, 164, 205]
    assert mixed["flops_by_component"] == by_component
    assert mixed["flops"] == 2772
    assert mixed["selected_by_family"] == {"PL1": 44, "PL2": 44}


def test_component_costs_follow_the_formula(boxes):
    assert [sorted(set(box["component_flops"])) for box in boxes] == [[330], [22], [22, 41]]


def test_variances_are_computed_and_stand_beside_the_printed_ones(boxes):
    exact = [box["variance"]["exact"] for box in boxes]
    published = [box["variance"]["published"] for box in boxes]
    np.testing.assert_allclose(exact, [1, 1.624, 9.099], atol=6e-4)
    np.testing.assert_allclose(published, [1, 1.624, 1.432], atol=6e-4)
    assert [box["variance"]["printed"] for box in boxes] == [1, 1.83, 1.48]


def test_second_readings_stand_in_the_boxes():
    pl, mixed = figure1.paper_boxes()[1:]
    found = [figure1.variance_of(policy, theta, "published") for _, theta, policy in (pl.second, mixed.second)]
    np.testing.assert_allclose(found, [1.866, 1.479], atol=6e-4)
    assert figure1.column_major(np.arange(10.0)).tolist() == [0, 1, 3, 6, 2, 4, 7, 5, 8, 9]


def test_graphs_of_the_chains():
    crf, chain = graphs.GRAPHS
    assert crf.edges == chain.edges
    assert len(crf.edges) == 8
    assert crf.given == ["y0", "x1", "x2", "x3", "x4"]
    assert chain.given == ["y0"]


def test_components_are_named_in_the_order_of_the_figure(boxes):
    assert boxes[0]["components"] == ["X1–5"]
    assert boxes[2]["components"][:7] == ["X1", "X2", "X3", "X4", "X5", "X1,2", "X1,3"]


def test_every_figure_has_a_line_in_the_table():
    second = [f"figure-{number}-means" for number in (4, 5, 7, 8, 9, 10, 11, 12, 14)]
    assert [name for name in EXPERIMENTS if name.endswith("-means")] == second
    assert [name for name in EXPERIMENTS if name not in second] == [
        *(f"figure-{k}" for k in range(1, 15)),
        "graphs",
        "selection-noise",
        "refined-frontier",
        "report",
    ]


@pytest.mark.slow
def test_selection_picture_has_a_diamond_for_each_selection():
    from fieldfit.report.boxes import SelectionBox, draw_boxes

    selected = np.array([[True, False, True], [False, True, False]])
    box = SelectionBox("t", ("$X_1$", "$X_2$"), selected, np.array([2.0, 8.0]))
    assert box.by_sample.tolist() == [2, 8, 2]
    assert box.total == 12
    drawing = draw_boxes([box])
    diamonds = [line for line in drawing.axes[0].lines if line.get_marker() == "D"]
    assert len(diamonds) == selected.sum()
    assert figure_bytes(drawing, "svg") == figure_bytes(draw_boxes([box]), "svg")  # no dates, no random names
