"""Tests with few samples for each parameter: a caution, a refusal, and tests whose law is simulated."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import DataError, FewSamplesWarning, ModelError


def _fit(n, seed=0, m=6, **options):
    model = ff.BoltzmannMachine(m, biases=True)
    x = np.random.default_rng(seed).integers(0, 2, (n, m))
    return ff.fit(model, x, "PL1", sigma2=1.0, **options)


def test_a_wald_test_with_few_samples_has_a_caution():
    test = _fit(60).wald_test(["x0:x1"])
    assert "2.9 samples for each parameter" in test.caution
    assert "bootstrap_test" in str(test)
    assert _fit(60).wald_test(["x0:x1"], kind="model").caution == ""
    assert _fit(400).wald_test(["x0:x1"]).caution == ""


def test_joint_tests_of_more_than_the_samples_carry_are_refused():
    fit = _fit(60)
    pairs = [name for name in fit.parameter_names if ":" in name]
    with pytest.raises(ModelError, match=r"A joint test of 15 restrictions with 60 samples.*use kind='model'"):
        fit.wald_test(pairs)
    assert fit.wald_test(pairs[:3]).degrees_of_freedom == 3


def test_discoveries_with_few_samples_warn():
    with pytest.warns(FewSamplesWarning, match="q-values are then too small"):
        _fit(60).discoveries()


def test_a_table_with_fewer_samples_than_parameters_warns():
    words = [["red", "house"], ["old", "tree"], ["house"]]
    features = [[{"word": word, "end": word[-1]} for word in sentence] for sentence in words]
    fit = ff.CRFTagger(sigma2=1.0).fit(features, [["A", "N"], ["A", "N"], ["N"]]).fit_
    name = fit.parameter_names[0]
    with pytest.warns(FewSamplesWarning, match="samples for each parameter, robust errors may be far too small"):
        fit.table(parameters=[name])
    assert "far too small" in str(fit.functional({name: 1}))
    assert fit.table(kind="model", parameters=[name])["p"].notna().all()
    _fit(60).table()  # between one and five: the summary has a caution


@pytest.mark.slow
def test_the_bootstrap_keeps_its_level_where_the_wald_test_does_not():
    """40 tables of independent variables. At 10% the count of rejections exceeds 12 with probability 0.0001."""
    rejected = {"wald": 0, "bootstrap": 0}
    for seed in range(40):
        fit = _fit(42, seed)
        pairs = [name for name in fit.parameter_names if ":" in name][:8]
        rejected["wald"] += fit.wald_test(pairs).p < 0.1
        rejected["bootstrap"] += fit.bootstrap_test(pairs, n_simulated=19, random_state=seed).p <= 0.1
    assert rejected["bootstrap"] <= 12
    assert rejected["wald"] > rejected["bootstrap"]


@pytest.mark.slow
def test_a_permutation_of_the_group_has_the_law_of_the_statistic():
    """The group decides nothing: p is uniform on 1/40, …, 1; below 0.05 in 12 tables more than 5 times: 0.0002."""
    low = 0
    for seed in range(12):
        fit = _fit(50, seed, m=4)
        test = fit.permutation_test(["x0:x1", "x0:x2", "x0:x3"], "x0", n_simulated=39, random_state=seed)
        low += test.p <= 0.05
    assert low <= 5


@pytest.mark.slow
def test_a_permutation_of_the_group_finds_what_it_decides():
    x = np.random.default_rng(0).integers(0, 2, (80, 4))
    x[:, 1] = np.where(np.arange(80) < 60, x[:, 0], x[:, 1])
    fit = ff.fit(ff.BoltzmannMachine(4, biases=True), x, "PL1", sigma2=1.0)
    assert fit.permutation_test("x0:x1", ["x0"], n_simulated=39).p == 1 / 40
    assert "Permutation test of 1 restriction" in str(fit.permutation_test("x0:x1", "x0", n_simulated=3))
    with pytest.raises(DataError, match="no column"):
        fit.permutation_test("x0:x1", "group")


def test_the_same_seed_gives_the_same_test():
    fit = _fit(80, m=3)
    first, second = (fit.bootstrap_test(["x0:x1"], n_simulated=9, random_state=5) for _ in range(2))
    twice = fit.bootstrap_test(["x0:x1", "x1:x0"], n_simulated=9, random_state=5)
    assert (twice.restrictions, twice.p) == (1, first.p)
    np.testing.assert_array_equal(first.simulated, second.simulated)


def test_more_restrictions_than_the_samples_can_tell_apart_are_refused_in_words():
    model = ff.BoltzmannMachine(8, biases=True)
    fit = ff.fit(model, np.random.default_rng(1).integers(0, 2, (26, 8)), "PL1", sigma2=1.0)
    with pytest.raises(ModelError, match=r"28 restrictions has rank \d+, because the samples are too few"):
        fit.bootstrap_test("*:*", n_simulated=3)
    assert fit.bootstrap_test("*:*", n_simulated=3, kind="model").p > 0.2
