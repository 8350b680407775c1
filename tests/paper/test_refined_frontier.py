"""The figure of refined estimators: exact variances below the mixtures of Figure 3, and fits that have them."""

import csv

import numpy as np
import pytest

import fieldfit as ff
from fieldfit_paper import refined_frontier
from fieldfit_paper.figure3 import FAMILIES


@pytest.mark.slow
@pytest.mark.parametrize("place", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_refined_estimators_lie_below_every_mixture_that_costs_as_much_or_less(place):
    case = refined_frontier.cases()[place]
    moments = ff.family_mixtures(case.model, case.theta, FAMILIES)
    mixtures = refined_frontier.mixtures_of(case, moments, "paper")  # the finer grid
    refined = [r for r in refined_frontier.exact(case) if r["kind"] == "refined"]
    assert len(refined) == len(case.distances)
    for record in refined:
        rivals = [r["excess"] for r in mixtures if r["flops"] <= record["flops"]]
        assert len(rivals) > 0
        assert -1e-9 < record["excess"] < 0.5 * min(rivals)
        assert record["excess"] < min(r["excess"] for r in mixtures)  # and below those that cost more
        theory = ff.theory(case.model, case.theta, record["policy"])
        assert record["excess"] == pytest.approx(theory.efficiency("root") - 1, abs=1e-12)


def test_the_excess_of_normal_differences_is_found_with_its_error():
    random = np.random.default_rng(3)
    scale = np.array([0.1, 0.4, 0.7])
    truth = float(np.prod(1 + scale**2)) ** (1 / 3) - 1
    found = np.array([refined_frontier.excess_of(random.normal(size=(200, 3)) * scale) for _ in range(500)])
    assert found[:, 0].std() == pytest.approx(found[:, 1].mean(), rel=0.1)
    assert found[:, 0].mean() == pytest.approx(truth, abs=0.2 * found[:, 1].mean())


@pytest.mark.slow
def test_fits_have_the_exact_variance_and_the_figure_has_a_table(without_data):
    name = "refined-frontier"
    assert without_data.files(name) == {f"{name}.{kind}" for kind in ("png", "svg", "csv", "json")}
    points = without_data.experiment(name)["points"]
    with (without_data.folder / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["excess"]) for row in rows] == [point["excess"] for point in points]
    exact = {(r["field"], r["policy"]): r["excess"] for r in points if r["source"] == "exact"}
    fits = [r for r in points if r["source"] == "fits"]
    assert len(fits) == 7
    n = {case.title: case.n for case in refined_frontier.cases()}
    for own in fits:  # the second-order term is less than 1/n
        away = abs(own["excess"] - exact[own["field"], own["policy"]])
        assert away < 4 * own["error"] + 1 / n[own["field"]]
