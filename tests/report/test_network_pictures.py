"""Pictures of networks: positions, edges, rings, names."""

import io

import matplotlib.patches
import matplotlib.text
import numpy as np
import pytest

from fieldfit.report.figures import BLUE
from fieldfit.report.network import RED, _around, draw_networks, layout, radius, widest
from fieldfit.types import ModelError

W = np.zeros((6, 6))
W[0, 1] = W[1, 0] = 2.0
W[1, 2] = W[2, 1] = -1.0


def test_positions_are_stable_and_do_not_overlap():
    places = layout(W, seed=3)
    np.testing.assert_array_equal(places, layout(W, seed=3))
    assert (places >= 0).all()
    assert (places <= 1).all()
    distance = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
    assert distance[np.triu_indices(6, 1)].min() > 2 * radius(6)
    crowd = layout(np.ones((40, 40)) - np.eye(40))
    distance = np.sqrt(((crowd[:, None] - crowd[None]) ** 2).sum(axis=2))
    assert distance[np.triu_indices(40, 1)].min() > 2 * radius(40)


def test_edges_have_the_colour_of_their_sign_and_a_width_by_their_size():
    drawing = draw_networks(list("abcdef"), [W, -W / 2], titles=["one", "two"])
    first, second = drawing.axes
    by_colour = {line.get_color(): line for line in first.lines}
    assert set(by_colour) == {BLUE, RED}
    assert by_colour[BLUE].get_linewidth() > by_colour[RED].get_linewidth()
    assert by_colour[RED].is_dashed()
    widest = max(line.get_linewidth() for line in second.lines)
    assert widest < by_colour[BLUE].get_linewidth()  # one scale for both
    assert [text.get_text() for text in first.texts] == list("abcdef")
    assert {"one", "two"} <= {text.get_text() for text in drawing.texts}


def test_rings_clusters_and_long_names():
    names = [f"a rather long name {j}" for j in range(6)]
    rings = np.array([0.0, 0.25, 1.0, 0.5, -0.1, 0.3])
    drawing = draw_networks(names, [W], clusters=list("xxxyyy"), predictabilities=[rings])
    axes = drawing.axes[0]
    wedges = [patch for patch in axes.patches if isinstance(patch, matplotlib.patches.Wedge)]
    assert sorted(round((wedge.theta2 - wedge.theta1) / 360, 2) for wedge in wedges) == [0.25, 0.3, 0.5, 1.0]
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3", "4", "5", "6"]
    assert set(names) <= {text.get_text() for text in drawing.texts}
    with pytest.raises(ModelError, match="6 variables and 2 clusters"):
        draw_networks(names, [W], clusters=["x", "y"])


def test_a_network_without_edges_is_drawn():
    drawing = draw_networks(list("abcdef"), [np.zeros((6, 6))])
    assert not drawing.axes[0].lines


def test_an_edge_goes_around_a_variable_in_its_way():
    places = np.array([[0.0, 0.5], [1.0, 0.5], [0.5, 0.52], [0.5, 1.0]])
    line = _around(places, 0, 1, 0.1)
    np.testing.assert_allclose(line[[0, -1]], places[:2])
    assert np.sqrt(((line - places[2]) ** 2).sum(axis=1)).min() > 0.1
    np.testing.assert_array_equal(_around(places, 0, 3, 0.1), places[[0, 3]])


def test_a_coupling_on_its_way_to_infinity_does_not_set_the_widths():
    usual = np.zeros((6, 6))
    usual[np.triu_indices(6, 1)] = np.linspace(0.1, 1.0, 15)
    usual += usual.T
    assert widest(usual) == 1.0
    usual[0, 1] = usual[1, 0] = 23.0
    assert 0.9 < widest(usual) <= 1.0
    assert widest(np.zeros((3, 3))) == 0.0
    drawing = draw_networks([f"x{j}" for j in range(6)], [usual])
    assert max(line.get_linewidth() for line in drawing.axes[0].lines) <= 6.0
    assert any("or more" in text.get_text() for text in drawing.texts)


def test_infinite_couplings_of_forbidden_states_are_drawn_at_full_width():
    some = W.copy()
    some[3, 4] = some[4, 3] = np.inf
    only = np.where(some == np.inf, some, 0.0)
    for couplings, said in ((some, "= 2.00 or more"), (only, "= inf.")):
        assert np.isfinite(layout(couplings)).all()
        drawing = draw_networks(list("abcdef"), [couplings])
        assert max(line.get_linewidth() for line in drawing.axes[0].lines) == 6.0
        assert any(said in text.get_text() for text in drawing.texts)


def test_norms_have_no_sign_to_explain():
    drawing = draw_networks(list("abcdef"), [np.abs(W)], signed=False)
    assert not drawing.legends
    assert any("strength (Frobenius norm) = 2.00" in text.get_text() for text in drawing.texts)
    assert draw_networks(list("abcdef"), [W]).legends


def test_networks_side_by_side_do_not_touch():
    left, right = (axes.get_position() for axes in draw_networks(list("abcdef"), [W, W], titles=["a", "b"]).axes)
    assert right.x0 - left.x1 > 0.01


def test_names_with_dollar_signs_are_no_formulas():
    names = ["pays $5_ or $10", "a $^$ b", "$x$"]
    drawing = draw_networks(names, [np.zeros((3, 3))], titles=["$^$"], clusters=["$_$", "b", "c"])
    drawing.savefig(io.BytesIO(), format="svg")
    assert not any(text.get_parse_math() for text in drawing.findobj(matplotlib.text.Text))
