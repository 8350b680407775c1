"""Ticks, names and lines of the pictures: written in one way, apart from each other, none hidden."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from fieldfit.report.frontier import FrontierPoint, draw_frontier
from fieldfit.report.ticks import number, plain_ticks
from fieldfit.report.weights import apart, plot_weights

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.005, "0.005"), (0.2, "0.2"), (1, "1"), (50, "50"), (999, "999"), (1000, "1k"), (2.5e6, "2.5M"), (1e7, "10M"),
     (3e9, "3G"), (2e-6, "2e-06"), (0, "0")],
)  # fmt: skip
def test_numbers_on_axes(value, text):
    assert number(value) == text


@settings(deadline=None, max_examples=examples(40))  # the first figure imports matplotlib
@given(st.floats(1e-3, 1e6), st.floats(1.02, 1e6))
def test_an_axis_has_a_handful_of_ticks_whatever_its_range(low, ratio):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    axes.set_xscale("log")
    axes.set_xlim(low, low * ratio)
    plain_ticks(axes.xaxis)
    places = axes.xaxis.get_major_locator()()
    assert 2 <= len(places) <= 14
    texts = [axes.xaxis.get_major_formatter()(place, 0) for place in places]
    assert len(set(texts)) == len(texts)
    assert not len(axes.xaxis.get_minor_locator()())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.3))
def test_names_are_moved_apart_and_no_further(values, gap):
    values = sorted(values)
    places = np.array(apart(values, gap))
    assert np.all(np.diff(places) >= gap - 1e-9)
    assert np.mean(places) == pytest.approx(np.mean(values), abs=1e-9)  # least squares keeps the mean
    if np.all(np.diff(values) >= gap):
        np.testing.assert_allclose(places, values, atol=1e-9)


def test_equal_lines_do_not_hide_each_other():
    history = pd.DataFrame(
        {"round": [1, 2, 3], "loss": [1.0, 0.1, 0.0], "β[PL1]": [0.3, 0.6, 0.7], "β[PL2]": [0.3, 0.1, 0.1],
         "β[PL3]": [0.3, 0.1, 0.1]}
    )  # fmt: skip
    above = plot_weights(history).axes[0]
    one, two, three = (line.get_linewidth() for line in above.lines[:3])
    assert two > three + 1  # the one below shows at both sides
    assert one == three
    assert [text.get_text() for text in above.texts] == ["PL2 0.1", "PL3 0.1", "PL1 0.7"]
    heights = [text.get_position()[1] for text in above.texts]
    assert min(np.diff(heights)) > 0.03


def test_of_many_weights_the_largest_are_named():
    columns = {f"β[PL1[{k}]]": [1.0, 1 + 0.01 * k] for k in range(30)}
    figure = plot_weights(pd.DataFrame({"round": [1, 2], "loss": [1.0, 0.0], **columns}))
    names = [text.get_text() for text in figure.axes[0].texts]
    assert names == [f"PL1[{k}] {1 + 0.01 * k:.3g}" for k in range(24, 30)]
    assert "6 largest of 30 named" in figure.axes[0].get_title(loc="left")


def frontier(best="FL", **options):
    points = [
        FrontierPoint("0.1*PL1/row", 0.001, 10.0, 0.1, True),
        FrontierPoint("PL1", 0.005, 1.05, 0.0, True),
        FrontierPoint("PL2", 0.02, 1.04, 0.01, False),
        FrontierPoint("FL", 0.01, 1.0, 0.0, True),
    ]
    edge = [(0.001, 10.0), (0.005, 1.05), (0.01, 1.0)]
    return draw_frontier(points, edge, best, "seconds", "variance", **options).axes[0]


def test_the_frontier_has_a_legend_and_says_what_it_leaves_out():
    axes = frontier(floor=1.0, budget=0.015)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == [
        "maximum likelihood", "budget left", "recommended", "on the frontier", "beaten by another policy",
    ]  # fmt: skip
    texts = {text.get_text() for text in axes.texts}
    assert {"no policy is here", "1 less accurate policy is above", "PL1", "PL2", "FL"} <= texts
    assert axes.get_yscale() == "log"
    everything = frontier(best="0.1*PL1/row")
    assert not any("less accurate" in text.get_text() for text in everything.texts)
    assert len(everything.get_legend().get_texts()) == 3
