"""Permutation tests of two networks."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fieldfit import networks
from fieldfit.networks.resampling import bootstrap_weights, halves, permuted_groups
from fieldfit.types import DataError, ModelError


@pytest.fixture(scope="module")
def two_groups(draw, chain):
    """The chain in the first group; in the second the first coupling is missing."""
    other = chain.copy()
    other[0, 1] = other[1, 0] = 0.0
    return pd.concat([draw(400, 1).assign(group="with"), draw(400, 2, other).assign(group="without")])


@pytest.mark.slow
def test_a_difference_is_found_in_its_place(two_groups):
    compared = networks.compare_groups(two_groups, by="group", permutations=199)
    assert compared.groups == ("with", "without")
    assert compared.structure_p == 1 / 200
    table = compared.edges()
    assert (table["from"][0], table["to"][0]) == ("a", "b")
    assert table["q"][0] == pytest.approx(10 / 200)  # the first of ten pairs
    assert (table["q"][1:] > 0.05).all()
    assert (table["q"] >= table["p"]).all()
    np.testing.assert_allclose(table["difference"], table["weight_with"] - table["weight_without"])
    own = networks.nodewise_network(two_groups[two_groups["group"] == "with"].drop(columns="group"))
    np.testing.assert_allclose(compared.networks[0].couplings, own.couplings, atol=1e-3)
    assert compared.networks[0].n == own.n == 400
    tests = compared.tests()
    assert tests["statistic"]["structure"] == np.abs(compared.difference).max()
    strengths = [network.global_strength for network in compared.networks]
    assert tests["statistic"]["global strength"] == pytest.approx(strengths[0] - strengths[1])


@pytest.mark.parametrize("gamma", [0.0, 0.25])
def test_observed_labels_are_one_of_the_permutations(two_groups, monkeypatch, gamma):
    """A permutation that gives back the observed groups has the observed differences, bit for bit: the tests are exact."""
    answers = networks.read_responses(two_groups.sample(frac=1, random_state=3), by="group")
    rows, which = answers.distinct
    counts = [np.bincount(which[answers.groups == label], minlength=len(rows)) for label in ("with", "without")]

    def observed(everyone, size, _):
        np.testing.assert_array_equal(everyone, counts[0] + counts[1])
        assert size == 400
        return lambda b: np.resize(np.array(counts, dtype=np.float64), (b, len(rows)))

    monkeypatch.setattr("fieldfit.networks.comparison.permuted_groups", observed)
    compared = networks.compare_groups(answers, permutations=3, gamma=gamma)
    for differences in compared.differences:
        np.testing.assert_array_equal(differences, compared.difference)
    strengths = [network.global_strength for network in compared.networks]
    np.testing.assert_allclose(compared.strengths, strengths[0] - strengths[1], rtol=1e-12)
    assert compared.structure_p == compared.strength_p == 1.0


def test_false_discovery_rates_count_pairs_without_an_edge():
    """With edges only, some pair had q <= 0.1 in 11 of 47 tables of independent columns."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.random((240, 6)) < 0.4, columns=list("abcdef")).astype(int)
    frame["b"] = np.where(random.random(240) < 0.5, frame["a"], frame["b"])
    compared = networks.compare_groups(frame.assign(group=np.resize(["x", "y"], 240)), by="group", permutations=19)
    table = compared.edges()
    assert 0 < len(table) < 15
    p = np.ones(15)
    p[: len(table)] = table["p"]
    np.testing.assert_allclose(table["q"], stats.false_discovery_control(p)[: len(table)])


def test_groups_must_be_two(two_groups):
    three = two_groups.assign(group=np.resize(["x", "y", "z"], len(two_groups)))
    with pytest.raises(DataError, match=r"3 groups \('x', 'y', 'z'\); name the two"):
        networks.compare_groups(three, by="group")
    compared = networks.compare_groups(three, by="group", groups=("z", "x"), permutations=3)
    assert compared.groups == ("z", "x")
    with pytest.raises(DataError, match="no group 'w'"):
        networks.compare_groups(three, by="group", groups=("w", "x"))
    with pytest.raises(DataError, match="two different ones"):
        networks.compare_groups(three, by="group", groups=("x", "x"))
    with pytest.raises(DataError, match="no groups"):
        networks.compare_groups(two_groups.drop(columns="group"))
    with pytest.raises(ModelError, match="resamples is 0"):
        networks.compare_groups(two_groups, by="group", permutations=0)


@pytest.mark.slow
def test_the_tests_keep_their_size(draw, chain):
    # Both groups have the same network. With 9 permutations P(p <= 0.1) is at most 0.1 exactly; among 120 pairs of groups
    # more than 21 rejections have probability 0.004 for each test.
    structure, strength, edge = 0, 0, 0
    for seed in range(120):
        both = draw(200, 5000 + seed, 0.6 * chain).assign(group=["a"] * 80 + ["b"] * 120)
        compared = networks.compare_groups(both, by="group", permutations=9, random_state=seed)
        structure += compared.structure_p <= 0.1
        strength += compared.strength_p <= 0.1
        edge += float(compared.edges().set_index(["from", "to"])["p"].get(("a", "b"), 1.0)) <= 0.1
    assert max(structure, strength, edge) <= 21
    assert min(structure, strength) >= 4  # and they are not conservative beyond that


def test_draws_have_the_right_totals():
    counts = np.array([5, 0, 3, 12])
    random = np.random.default_rng(0)
    drawn = bootstrap_weights(counts, random)(50)
    assert (drawn.sum(axis=1) == 20).all()
    assert (drawn[:, 1] == 0).all()
    assert (drawn > counts).any()
    pairs = halves(counts, random)(10)
    np.testing.assert_array_equal(pairs[0::2] + pairs[1::2], np.tile(counts, (5, 1)))
    assert (pairs[0::2].sum(axis=1) == 10).all()
    groups = permuted_groups(counts, 7, random)(10)
    assert (groups[0::2].sum(axis=1) == 7).all()
    np.testing.assert_array_equal(groups[0::2] + groups[1::2], np.tile(counts, (5, 1)))
