"""Debiased couplings and their errors, the bootstrap, stability selection, centrality, predictability."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fieldfit import networks
from fieldfit.networks.centrality_intervals import _amount, _fitted_mixture, _moments, _posterior_means
from fieldfit.networks.debiased import debiased_couplings, debiased_with_covariances, debiased_with_errors
from fieldfit.types import DataError, FieldfitError, FieldfitWarning, ModelError, SeparationWarning


def influence_of_each_sample(x, weights, j, coefficients):
    """c̃ and the influence of every row on it, written out (m,), (n, m)."""
    z = x.copy()
    z[:, j] = 1.0

    def at(c):
        p = 1 / (1 + np.exp(-z @ c))
        hessian = sum(w * q * (1 - q) * np.outer(row, row) for w, q, row in zip(weights, p, z, strict=True))
        return np.linalg.inv(hessian / weights.sum()), x[:, j] - p

    inverse, residual = at(coefficients)
    moved = coefficients + inverse @ (z.T @ (weights * residual)) / weights.sum()
    inverse, residual = at(moved)
    return moved, z @ inverse * residual[:, None]


def test_a_regression_that_separates_its_rows_has_no_debiased_estimate():
    rows = np.array([[0, 0], [1, 1]], dtype=np.uint8)
    regressions, thresholds = np.array([[0.0, 1e4], [1e4, 0.0]]), np.array([-5e3, -5e3])
    with np.errstate(all="raise", under="ignore"):
        couplings = debiased_couplings(rows, np.array([5.0, 5.0]), regressions, thresholds)
    assert np.isnan(couplings[0, 1])


def test_debiased_couplings_are_one_newton_step_and_its_sandwich(frame):
    answers = networks.read_responses(frame)
    network = networks.nodewise_network(answers)
    rows, counts = answers.distinct[0], answers.counts.astype(float)
    estimate, error = debiased_with_errors(rows, counts, network.regressions, network.thresholds)
    np.testing.assert_allclose(
        estimate, debiased_couplings(rows, counts, network.regressions, network.thresholds), atol=1e-12
    )
    x = frame.to_numpy(dtype=float)  # sample by sample, without counting equal rows
    pieces = []
    for j in range(5):
        coefficients = network.regressions[j].copy()
        coefficients[j] = network.thresholds[j]
        pieces.append(influence_of_each_sample(x, np.ones(len(x)), j, coefficients))
    for j, k in ((0, 1), (2, 4)):
        assert estimate[j, k] == pytest.approx((pieces[j][0][k] + pieces[k][0][j]) / 2, abs=1e-10)
        influence = (pieces[j][1][:, k] + pieces[k][1][:, j]) / 2
        assert error[j, k] == pytest.approx(influence.std() / np.sqrt(len(x)), abs=1e-10)


def test_directions_that_the_samples_do_not_determine_are_nan(frame):
    x = frame.to_numpy(dtype=np.uint8).copy()
    x[:, 4] = x[:, 3]
    regressions, thresholds = np.zeros((5, 5)), np.zeros(5)
    found = debiased_couplings(x, np.ones(len(x)), regressions, thresholds)
    assert np.isnan(found[0, 3])  # x3 and x4 cannot be told apart
    assert np.isfinite(debiased_couplings(x[:, :4], np.ones(len(x)), regressions[:4, :4], thresholds[:4])).all()


@pytest.mark.parametrize("copy", [lambda a: a, lambda a: 1 - a])
def test_two_columns_that_determine_each_other_leave_the_other_pairs_as_they_are(frame, copy):
    alone = networks.edge_intervals(frame, networks.nodewise_network(frame)).set_index(["from", "to"])
    twice = frame.assign(f=copy(frame["a"]))
    with pytest.warns(FieldfitWarning, match="so their pairs have no standard error"):
        network = networks.nodewise_network(twice)
    with pytest.warns(SeparationWarning, match="^Refit of the network's edges: .*infinity for a:f"):
        table = networks.edge_intervals(twice, network).set_index(["from", "to"])
    pairs = [pair for pair in alone.index if "a" not in pair]
    assert len(pairs) == 6
    columns = ["weight", "debiased", "se", "lower", "upper"]
    np.testing.assert_allclose(table.loc[pairs, columns], alone.loc[pairs, columns], atol=1e-6)
    chosen = [pair for pair in pairs if alone.loc[pair, "weight"] != 0]
    assert np.isfinite(table.loc[chosen, ["refit_lower", "refit_upper"]].to_numpy()).all()
    others = table.drop(index=pairs)
    assert others["se"].isna().all()
    assert (others["note"] != "").all()


def test_edge_intervals(frame, chain):
    network = networks.nodewise_network(frame, gamma=0.5)
    table = networks.edge_intervals(frame, network)
    assert len(table) == 10
    assert (table["weight"] != 0).sum() == len(network.pairs)
    assert table.loc[table["weight"] != 0, "refit"].notna().all()
    assert table.loc[table["weight"] == 0, "refit"].isna().all()
    truth = np.array(
        [chain["abcde".index(a), "abcde".index(b)] for a, b in zip(table["from"], table["to"], strict=True)]
    )
    assert set(zip(table["from"][:4], table["to"][:4], strict=True)) == set(zip("abcd", "bcde", strict=True))
    assert ((table["lower"] <= truth) & (truth <= table["upper"])).sum() >= 9
    assert (table["q"] >= table["p"]).all()
    wider = networks.edge_intervals(frame, network, level=0.99)
    assert (wider["upper"] > table["upper"]).all()
    fitted = networks.refit(frame, network)
    order = [network.pairs.index((0, 1))]
    row = table[(table["from"] == "a") & (table["to"] == "b")].iloc[0]
    assert row["refit"] == pytest.approx(fitted.theta[order[0]])
    with pytest.raises(FieldfitError, match="level must be between 0 and 1; got 95"):
        networks.edge_intervals(frame, network, level=95)
    with pytest.raises(ModelError, match="not the variables of the network"):
        networks.refit(frame[["a", "b"]], network)


@pytest.mark.slow
def test_debiased_intervals_cover_and_refits_after_selection_do_not(draw, chain):
    # 240 intervals of zero couplings and 160 of others; a share of 0.95 has a standard error of 0.011.
    truth = chain[np.triu_indices(5, 1)]
    inside, refitted = [], []
    for seed in range(40):
        sample = draw(300, 1000 + seed)
        table = networks.edge_intervals(sample, networks.nodewise_network(sample, gamma=0.0))
        table = table.sort_values(["from", "to"])
        inside.append((table["lower"] <= truth) & (truth <= table["upper"]))
        chosen = (table["weight"] != 0).to_numpy()
        right = (table["refit_lower"] <= truth) & (truth <= table["refit_upper"])
        refitted += right[chosen & (truth == 0)].tolist()
    assert 0.92 < np.mean(inside) < 0.98
    assert np.mean(refitted) < 0.6  # edges that are there by chance: selected because they looked large


@pytest.mark.slow
def test_the_bootstrap_agrees_with_the_sandwich(frame):
    told = []
    result = networks.bootstrap(frame, resamples=100, progress=lambda done, total: told.append((done, total)))
    table = result.edges()
    # The standard deviation of 100 draws has a standard error of 7%.
    np.testing.assert_allclose(table["bootstrap_se"] / table["se"], 1.0, atol=0.3)
    assert abs(np.log(table["bootstrap_se"] / table["se"])).mean() < 0.1
    strong = table["weight"].abs() > 1
    assert (table.loc[strong, "included"] == 1).all()
    assert (table["lower"] <= table["upper"]).all()
    assert told[-1] == (100, 100)
    again = networks.bootstrap(frame, resamples=20)
    np.testing.assert_array_equal(again.couplings, result.couplings[:20])
    central = result.centrality()
    assert (central["strength_lower"] <= central["strength"]).all()
    assert (central["strength"] <= central["strength_upper"]).all()
    assert list(central.index) == list("abcde")


def test_covariances_of_a_variables_couplings_are_those_of_influences(frame):
    answers = networks.read_responses(frame)
    network = networks.nodewise_network(answers)
    given = answers.distinct[0], answers.counts.astype(float), network.regressions, network.thresholds
    estimate, covariances = debiased_with_covariances(*given)
    plain, errors = debiased_with_errors(*given)
    np.testing.assert_array_equal(estimate, plain)
    np.testing.assert_allclose(np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)), errors, atol=1e-12)
    x = frame.to_numpy(dtype=float)
    pieces = []
    for j in range(5):
        coefficients = network.regressions[j].copy()
        coefficients[j] = network.thresholds[j]
        pieces.append(influence_of_each_sample(x, np.ones(len(x)), j, coefficients)[1])
    both = [(pieces[1][:, k] + pieces[k][:, 1]) / 2 for k in (0, 3)]
    assert covariances[1, 0, 3] == pytest.approx(np.cov(both[0], both[1], bias=True)[0, 1] / len(x), abs=1e-12)


def test_moments_of_a_contribution_to_strength_are_integrals():
    mean, amount = np.array([0.0, 0.3, -1.2, 4.0]), 1.1
    z, step = np.linspace(-12, 12, 40_001, retstep=True)  # the kink of abs(t) needs many points
    density = step * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)

    def moment(shift, power):
        t = mean[:, None] + shift + z
        return (density * (np.abs(t) - amount * np.exp(-(t**2) / (2 * 0.75**2))) ** power).sum(axis=1)

    variance, first, second = _moments(mean, amount)
    np.testing.assert_allclose(variance, moment(0.0, 2) - moment(0.0, 1) ** 2, atol=1e-5)
    np.testing.assert_allclose(first, (moment(0.1, 1) - moment(-0.1, 1)) / 0.2, atol=5e-3)
    np.testing.assert_allclose(second, (moment(0.1, 1) - 2 * moment(0, 1) + moment(-0.1, 1)) / 0.01, atol=2e-2)


def test_the_correction_of_strengths_follows_the_share_of_zeros():
    random = np.random.default_rng(0)
    zeros, strong = random.normal(size=400), random.normal(size=400) * 20
    assert _amount(*_fitted_mixture(zeros)) == pytest.approx(_amount(1.0, 1.0), rel=0.1)
    assert _amount(*_fitted_mixture(strong)) < 0.5 * _amount(1.0, 1.0)
    np.testing.assert_array_equal(_posterior_means(zeros, 1.0, 1.0), 0.0)
    np.testing.assert_allclose(_posterior_means(np.array([30.0, -30.0]), 0.5, 99.0), [29.7, -29.7])
    # Without a coupling whose error is known.
    assert _fitted_mixture(np.array([np.nan])) == _fitted_mixture(np.array([]))


def test_variables_without_intervals_say_why():
    random = np.random.default_rng(0)
    x = pd.DataFrame(random.integers(0, 2, (400, 4)), columns=list("abcd"))
    x["rare"] = ((np.arange(400) % 40 == 0) & (x["a"] == 0) & (x["b"] == 0)).astype(int)
    assert x["rare"].sum() >= 2
    with pytest.warns(FieldfitWarning, match="fewer than"):
        analysis = networks.analyse(x)
    notes = analysis.nodes["note"]
    assert notes["a"] == "no row has a = 1 and rare = 1"
    assert notes["rare"].startswith("no row has rare = 1 and a = 1, and 1 more pair")
    without = analysis.nodes["strength_se"].isna()
    np.testing.assert_array_equal(without, notes != "")
    number = int(without.sum())
    assert 3 <= number < 5
    assert f"{number} of 5 variables have no interval of strength and expected influence" in analysis.summary()


def test_centralities_of_equal_columns_have_no_interval(frame):
    x = frame.assign(copy=frame["a"])
    with pytest.warns(FieldfitWarning, match="determine each other"):
        table = networks.centrality_intervals(x, networks.nodewise_network(x))
    assert table.loc[["a", "copy"]].drop(columns="note").isna().all(axis=None)
    assert table.loc["a", "note"] == "no row has a = 1 and copy = 0"
    with pytest.raises(FieldfitError, match="level must be between 0 and 1; got 95"):
        networks.centrality_intervals(frame, networks.nodewise_network(frame), level=95)
    with pytest.raises(ModelError, match="from regressions"):
        networks.centrality_intervals(frame, replace(networks.nodewise_network(frame), regressions=None))


def test_intervals_refuse_columns_in_another_order(frame):
    network = networks.nodewise_network(frame)
    for data in (frame[frame.columns[::-1]], frame.iloc[:, :3], frame.rename(columns={"a": "z"})):
        for intervals in (networks.centrality_intervals, networks.edge_intervals, networks.predictability):
            with pytest.raises(ModelError, match="not the variables of the network"):
                intervals(data, network)
    with pytest.raises(FieldfitError, match="need a Network"):
        networks.centrality_intervals(frame, 3)  # type: ignore[arg-type]


@pytest.mark.slow
def test_intervals_of_centralities_cover(draw, chain):
    # 500 intervals of each measure, five of each sample and correlated: a share of 0.95 has a standard error of at most
    # 0.022 (100 samples), so that it is outside 0.89 to 1 with a probability below 0.005.
    inside: dict[str, list[Any]] = {"strength": [], "expected_influence": []}
    for seed in range(100):
        sample = draw(400, 3000 + seed)
        table = networks.centrality_intervals(sample, networks.nodewise_network(sample))
        for measure, truth in (("strength", np.abs(chain).sum(axis=1)), ("expected_influence", chain.sum(axis=1))):
            inside[measure].append(
                (table[f"{measure}_lower"] <= truth) & (truth <= table[f"{measure}_upper"]),
            )
    for measure, found in inside.items():
        assert 0.89 < np.mean(found) < 0.99, measure


@pytest.mark.slow
def test_case_dropping_is_stable_for_many_samples_only(frame):
    told = []
    found = networks.case_dropping(frame, resamples=20, progress=lambda done, total: told.append((done, total)))
    assert found.correlations.shape == (8, 20, 4)
    assert told[-1] == (160, 160)
    table = found.table()
    assert table["strength"].iloc[0] > 0.97 > table["strength"].iloc[-1]
    coefficients = found.coefficients()
    assert coefficients["strength"] >= 0.5
    fewer = networks.case_dropping(frame[:60], resamples=20).coefficients()
    assert fewer["strength"] < coefficients["strength"]
    again = networks.case_dropping(frame, resamples=20)
    np.testing.assert_array_equal(again.correlations, found.correlations)


@pytest.mark.parametrize("number", [-1, 0, 2.5, "3", True, None])
def test_resamples_and_seeds_are_checked(frame, number):
    for resampled in (networks.case_dropping, networks.bootstrap):
        with pytest.raises(ModelError, match=r"number of resamples is .*; it must be an integer"):
            resampled(frame, resamples=number)
        if number != 0:
            with pytest.raises(FieldfitError, match="random_state is"):
                resampled(frame, resamples=2, random_state=number)


def test_case_dropping_refuses_what_networks_refuse(frame):
    rare = frame.assign(rare=np.arange(len(frame)) == 0)
    with pytest.raises(DataError, match="edges cannot be estimated"):
        networks.case_dropping(rare.astype(int), resamples=2)
    found = networks.CaseDropping(np.array([0.25]), np.ones((1, 2, 4)))
    with pytest.raises(FieldfitError, match="level must be between 0 and 1; got 95"):
        found.coefficients(level=95)
    for correlation in (70, -0.1, np.nan, "x"):
        with pytest.raises(ModelError, match="correlation is"):
            found.coefficients(correlation)  # type: ignore[arg-type]


def test_stability_selection_finds_the_chain(frame):
    found = networks.stability_selection(frame, pairs=25, false_edges=4)
    table = found.edges()
    assert set(zip(table["from"][:4], table["to"][:4], strict=True)) == set(zip("abcd", "bcde", strict=True))
    assert table["stable"][:4].all()
    assert (np.diff(found.shares, axis=0) >= 0).all()
    fewer = networks.stability_selection(frame, pairs=25, false_edges=0.01)
    assert fewer.used < found.used
    with pytest.raises(ModelError, match=r"threshold is 0\.4"):
        networks.stability_selection(frame, threshold=0.4)


@pytest.mark.slow
def test_stability_selection_keeps_its_bound(draw):
    # No edges at all: on average at most one false edge; the mean of 25 counts is above 1.7 with probability < 0.01.
    counts = []
    for seed in range(25):
        sample = draw(200, 2000 + seed, np.zeros((5, 5)))
        counts.append(networks.stability_selection(sample, pairs=10, threshold=0.6).edges()["stable"].sum())
    assert np.mean(counts) <= 1.7


def test_centrality_of_a_star():
    w = np.zeros((5, 5))
    w[0, 1:4] = w[1:4, 0] = [1.0, -2.0, 0.5]
    network = networks.Network(tuple("abcde"), w, np.zeros(5), 10, "by hand")
    table = networks.centrality(network)
    assert table["strength"].tolist() == [3.5, 1.0, 2.0, 0.5, 0.0]
    assert table["expected_influence"].tolist() == [-0.5, 1.0, -2.0, 0.5, 0.0]
    assert table["betweenness"].tolist() == [3.0, 0.0, 0.0, 0.0, 0.0]
    # a reaches three of four others at distances 1, 0.5 and 2.
    assert table["closeness"]["a"] == pytest.approx(3 / 3.5 * 3 / 4)
    assert table["closeness"]["e"] == 0.0


def test_predictability(frame):
    network = networks.nodewise_network(frame)
    table = networks.predictability(frame, network)
    x = frame.to_numpy(dtype=float)
    right = ((x @ network.regressions[1] + network.thresholds[1] > 0) == (x[:, 1] == 1)).mean()
    assert table["accuracy"]["b"] == pytest.approx(right)
    majority = max(x[:, 1].mean(), 1 - x[:, 1].mean())
    assert table["majority"]["b"] == pytest.approx(majority)
    assert table["normalised"]["b"] == pytest.approx((right - majority) / (1 - majority))
    assert table["normalised"]["b"] > 0.2


@pytest.mark.slow
def test_a_nearly_separated_column_has_a_caution():
    random = np.random.default_rng(0)
    first = random.random(120) < 0.5
    other = first.copy()
    other[[np.flatnonzero(first)[0], np.flatnonzero(~first)[0]]] ^= (
        True  # a third of the bootstrap samples lack one of the two
    )
    x = np.column_stack([first, other, random.random(120) < 0.5, random.random(120) < 0.5])
    frame = pd.DataFrame(x.astype(int), columns=["one", "copy", "c", "d"])
    text = networks.analyse(frame, resamples=60).summary()
    assert "Caution: for" in text
    assert "copy" in text[text.index("Caution") :]
    calm = pd.DataFrame((random.random((300, 3)) < 0.5).astype(int), columns=list("abc"))
    assert "Caution" not in networks.analyse(calm, resamples=60).summary()


def test_pairs_with_a_joint_answer_that_never_occurs_have_no_test():
    random = np.random.default_rng(3)
    x = (random.random((400, 4)) < [0.07, 0.07, 0.5, 0.5]).astype(int)
    x = x[~((x[:, 0] == 1) & (x[:, 1] == 1))]
    table: Any = networks.edge_intervals(x, networks.nodewise_network(x)).set_index(["from", "to"])
    assert table["p"].isna().to_dict() == {pair: pair == ("x0", "x1") for pair in table.index}
    assert np.isnan(table.loc[("x0", "x1"), "q"])
    told = "no row has x0 = 1 and x1 = 1"
    assert table["note"].to_dict() == {pair: told if pair == ("x0", "x1") else "" for pair in table.index}
    summary = networks.analyse(x).summary()
    assert "1 of 6 pairs have no standard error or interval" in summary
    assert f"x0 - x1: {told}." in summary


@pytest.mark.filterwarnings("ignore::fieldfit.types.SeparationWarning")
def test_pairs_of_columns_that_others_determine_say_so(frame):
    x = frame[["a", "b", "c"]].assign(copy=1 - frame["c"])
    with pytest.warns(FieldfitWarning, match="'c' and 'copy' determine each other"):
        network = networks.nodewise_network(x)
    table = networks.edge_intervals(x, network)
    without = table[~np.isfinite(table["se"])]
    assert len(without)
    assert (without["note"] != "").all()
    assert (table["note"] == "").sum() == np.isfinite(table["se"]).sum()


def test_a_predictability_that_rounds_to_0_has_no_sign():
    x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 10, 10], axis=0)
    found = networks.analyse(x)
    text = replace(found, nodes=found.nodes.assign(normalised=-0.001)).summary()
    assert "mean 0.00, largest x0 (0.00)" in text
