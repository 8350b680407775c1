"""Refined fits: accuracy, standard errors, the specification test, files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

import fieldfit as ff
from fieldfit.api.refine import StageSettings, _first
from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.data.container import read_container, write_container
from fieldfit.data.sequences import Sequences
from fieldfit.policies import Policy
from fieldfit.refinement.estimating import SampleConditions, symmetric_scores
from fieldfit.refinement.optimal import model_weights, refine_densely
from fieldfit.refinement.refined import Refined
from fieldfit.types import DataError, FileFormatError, ModelError, PolicyError

CHAIN = ff.BoltzmannMachine(5, [(k, k + 1) for k in range(4)], states=(-1, 1))
THETA = np.array([1.0, -1.0, 1.0, -1.0])


def data(model: ff.BoltzmannMachine, theta: ArrayLike, n: int, seed: int) -> np.ndarray:
    return np.asarray(model.sample(theta, n, seed).values)


@pytest.mark.slow
def test_a_chain_is_as_accurate_as_maximum_likelihood() -> None:
    """150 fits: PL1's mean squared error is 1.2 times that of maximum likelihood, the refined one's is the same."""
    errors = np.zeros((3, 150))
    covered = 0
    for seed in range(150):
        x = data(CHAIN, THETA, 1000, seed)
        first = ff.fit(CHAIN, x, "PL1")
        better = ff.refine(first, "optimal(1)")
        for line, fit in enumerate((first, better, ff.fit(CHAIN, x, "FL"))):
            errors[line, seed] = np.sum((fit.theta - THETA) ** 2)
        interval = better.conf_int(0.95)
        covered += int(np.sum((interval[:, 0] < THETA) & (interval[:, 1] > THETA)))
    ratio = errors.mean(axis=1) / errors[2].mean()
    assert ratio[0] > 1.05
    assert ratio[1] < 1.01
    # 600 intervals at 95%: five standard errors are 0.045 (neighbouring parameters are nearly independent).
    assert abs(covered / 600 - 0.95) < 0.045


@pytest.mark.slow
def test_wrong_weights_cost_accuracy_but_no_bias() -> None:
    """Weights of a field with other couplings: the estimate stays centred and its robust errors are right."""
    bound = Policy.parse("PL1").bind(CHAIN.structure())
    wrong = np.array([0.2, 0.9, -0.5, 0.1])
    stack, weights, _, _ = model_weights(CHAIN, wrong, bound, distance=2)
    free, precision = np.ones(4, dtype=bool), np.zeros(4)
    estimates, errors = [], []
    for seed in range(200):
        table = CHAIN.read(data(CHAIN, THETA, 800, seed))
        samples = SampleConditions(stack.conditions, table.codes)
        theta = ff.fit(CHAIN, table, "PL1").theta
        for _ in range(8):
            slope = weights.matrix @ samples.derivative(theta)
            theta = theta - np.linalg.solve(slope, weights.matrix @ samples.mean(theta))
        bread, scores = symmetric_scores(samples, weights.matrix, theta, free, precision)
        inverse = np.linalg.inv(bread)
        covariance = inverse @ ScoreVariance().streamed(scores, theta) @ inverse / 800**2
        estimates.append(theta)
        errors.append(np.sqrt(np.diag(covariance)))
    found, spread = np.array(estimates), np.std(estimates, axis=0, ddof=1)
    # The mean of 200 estimates is within 4 of its standard errors, and a second-order bias of 1% of θ, of the truth.
    assert np.all(np.abs(found.mean(axis=0) - THETA) < 4 * spread / np.sqrt(200) + 0.01)
    # The spread of 200 estimates has a relative error of 5%.
    np.testing.assert_allclose(np.mean(errors, axis=0) / spread, 1.0, atol=0.2)
    best = ff.theory(CHAIN, THETA, "PL1 >> optimal(2)").standard_errors(800)
    assert np.all(spread > 0.9 * best)


@pytest.mark.slow
def test_size_and_power_of_the_specification_test() -> None:
    model = ff.BoltzmannMachine(4, [(0, 1), (1, 2), (2, 3)], states=(-1, 1))
    triple = ff.MarkovRandomField(
        [2] * 4,
        [
            *[ff.Factor((a, b), [[1.0, -1.0], [-1.0, 1.0]], f"J{a}{b}") for a, b in ((0, 1), (1, 2), (2, 3))],
            ff.Factor((0, 3), [[1.0, -1.0], [-1.0, 1.0]], "long"),
        ],
        states=[(-1, 1)] * 4,
    )
    rejected, found = 0, 0
    for seed in range(200):
        right = ff.fit(model, data(model, [0.6, -0.6, 0.6], 600, seed), "PL1 >> optimal(2)").specification_test()
        assert right.degrees_of_freedom > 0
        rejected += right.p_value < 0.05
    for seed in range(30):
        x = np.asarray(triple.sample([0.6, -0.6, 0.6, 0.4], 600, seed).values)
        found += ff.fit(model, x, "PL1 >> optimal(3)").specification_test().p_value < 0.05
    # 200 tests of size 5%: between 1% and 11% with an error probability below 1e-3.
    assert 2 <= rejected <= 22
    assert found >= 25


@pytest.mark.slow
def test_size_of_the_specification_test_with_moments_from_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 degrees of freedom and 5,000 draws: what the draws add to J is 1.4 of its standard deviations.

    With the 20,000 draws of a fit it is a quarter of that, which takes hundreds of tests to see.
    """
    monkeypatch.setattr("fieldfit.refinement.refined._TEST_DRAWS", 5_000)
    model = ff.BoltzmannMachine.grid(6, 6, states=(-1, 1))
    theta = 0.8 * np.random.default_rng(3).choice([-1.0, 1.0], model.n_parameters)
    away, rejected = [], 0
    for seed in range(30):
        test = ff.fit(model, data(model, theta, 2000, 5000 + seed), "PL1 >> optimal").specification_test()
        assert "draws" in test.source
        away.append((test.statistic - test.degrees_of_freedom) / np.sqrt(2 * test.degrees_of_freedom))
        rejected += test.p_value < 0.05
    # The mean of 30 has a standard error of 0.18: beyond 0.75 with an error probability of 1e-4. 30 tests of size 5% reject
    # more than 6 times with one of 1e-3.
    assert abs(np.mean(away)) < 0.75
    assert rejected <= 6


@pytest.mark.slow
def test_a_first_stage_with_nothing_to_gain_keeps_its_weights() -> None:
    """16 weakly coupled variables, with more states than are summed: estimate and errors are PL1's."""
    model = ff.BoltzmannMachine(16, biases=True, states=(-1, 1))
    theta = np.random.default_rng(0).normal(size=model.n_parameters) * 0.05
    first = ff.fit(model, data(model, theta, 3000, 1), "PL1")
    fit = ff.refine(first, "optimal")
    np.testing.assert_array_equal(fit.theta, first.theta)
    np.testing.assert_allclose(fit.standard_errors(), first.standard_errors(), rtol=1e-6)
    assert "next to nothing to gain" in fit.summary()
    assert fit.refinement is not None
    assert vars(fit.refinement.account)["predicted"] < 1.01


def test_summary_file_and_functionals(tmp_path: Path) -> None:
    model = ff.BoltzmannMachine.grid(3, 3, biases=True, states=(-1, 1))
    theta = np.r_[np.full(12, 0.4), np.full(9, 0.2)]
    x = data(model, theta, 800, 3)
    fit = ff.fit(model, x, "PL1 >> optimal(2)")
    text = fit.summary()
    assert "first stage converged" in text
    assert "gradient norm below tolerance; " in text
    assert ", gradient norm" not in text  # of the first stage's objective, which the second stage leaves
    assert "PL1 >> optimal(2)" in text
    assert "Hansen's J" in text
    assert "predicted variance relative to maximum likelihood" in text
    assert fit.report()["policy"] == "PL1 >> optimal(2)"
    influence = fit.influence()
    np.testing.assert_allclose(influence.sum(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(fit.influence(x[:5]), influence[:5], atol=1e-12)
    np.testing.assert_allclose(fit.influence(rows=[3, 7]), influence[[3, 7]], atol=1e-12)
    name = fit.parameter_names[0]
    assert fit.functional(name).standard_error == pytest.approx(fit.standard_errors()[0])
    # Model-based errors agree with theory at the estimate.
    expected = ff.theory(model, fit.theta, "PL1 >> optimal(2)").standard_errors(800)
    np.testing.assert_allclose(fit.standard_errors("model"), expected, rtol=0.02)
    np.testing.assert_allclose(fit.standard_errors(), expected, rtol=0.2)
    path = tmp_path / "refined.ff"
    fit.save(path)
    loaded = ff.load(path)
    np.testing.assert_array_equal(loaded.theta, fit.theta)
    np.testing.assert_allclose(loaded.standard_errors(), fit.standard_errors())
    assert str(loaded.estimator) == "PL1 >> optimal(2)"
    assert loaded.specification_test() == fit.specification_test()
    with pytest.raises(DataError, match="does not contain the samples"):
        loaded.influence()
    again = ff.load(path, x)
    np.testing.assert_allclose(again.influence(), influence, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "value"), [("message", 3), ("steps", 0.5), ("accepted", 1), ("seconds", "1"), ("first", None)]
)
def test_a_file_with_a_changed_account_is_refused(tmp_path: Path, name: str, value: object) -> None:
    model = ff.BoltzmannMachine(3)
    ff.fit(model, model.sample([1.0, -1.0, 0.5], 300, random_state=0).values, "PL1 >> optimal").save(
        tmp_path / "a.ff"
    )
    header, arrays = read_container(tmp_path / "a.ff")
    header["refinement"]["account"][name] = value
    write_container(tmp_path / "b.ff", header, arrays)
    with pytest.raises(FileFormatError, match=f"'{name}' of the second stage"):
        ff.load(tmp_path / "b.ff")


def test_an_influence_is_a_derivative() -> None:
    """The influence of a sample is the change of the estimate when its weight changes, the weights A being kept."""
    x = data(CHAIN, THETA, 300, 1)
    fit = ff.fit(CHAIN, x, "PL1 >> optimal(2)")
    assert fit.refinement is not None
    working = fit.refinement.needed
    assert isinstance(working, Refined)
    row, step = 17, 1e-4
    weight = np.ones(300)
    moved = []
    for sign in (1, -1):
        weight[row] = 1 + sign * step
        samples = SampleConditions(working.stack.conditions, working.samples.at_hand, None, weight)
        theta = fit.theta
        for _ in range(20):
            bread = working.matrix @ samples.derivative(theta)
            theta = theta - np.linalg.solve(bread, working.matrix @ samples.mean(theta))
        moved.append(theta)
    np.testing.assert_allclose((moved[0] - moved[1]) / (2 * step), fit.influence(rows=[row])[0], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("kind", ["counts", "importance"])
def test_sample_weights_are_copies(kind: str) -> None:
    x = data(CHAIN, THETA, 400, 2)
    weight = np.random.default_rng(0).integers(1, 4, 400)
    weighted = ff.fit(CHAIN, x, "PL1 >> optimal(2)", sample_weight=weight, weight_kind=kind)
    copied = ff.fit(CHAIN, np.repeat(x, weight, axis=0), "PL1 >> optimal(2)")
    np.testing.assert_allclose(weighted.theta, copied.theta, atol=1e-5)
    if kind == "counts":
        np.testing.assert_allclose(weighted.standard_errors(), copied.standard_errors(), rtol=1e-4)


def test_fixed_tied_and_penalised_parameters() -> None:
    model = ff.BoltzmannMachine.grid(3, 3, biases=True, states=(-1, 1))
    x = data(model, np.r_[np.full(12, 0.4), np.full(9, 0.2)], 600, 5)
    name = ff.fit(model, x, "PL1").parameter_names[0]
    fixed = ff.fit(model, x, "PL1 >> optimal(2)", fixed={name: 0.4})
    assert fixed.theta[0] == 0.4
    assert fixed.standard_errors()[0] == 0.0
    assert np.all(fixed.standard_errors()[1:] > 0)
    penalised = ff.fit(model, x, "PL1 >> optimal(2)", sigma2=0.01)
    assert np.sum(penalised.theta**2) < np.sum(ff.fit(model, x, "PL1 >> optimal(2)").theta ** 2)
    with pytest.raises(PolicyError, match="without a penalty"):
        penalised.specification_test()
    tied = ff.BoltzmannMachine.grid(3, 3, tied=True, biases=True, states=(-1, 1))
    fit = ff.fit(tied, x, "PL1 >> optimal(2)")
    full = ff.fit(tied, x, "FL")
    assert np.max(np.abs(fit.theta - full.theta) / full.standard_errors("model")) < 0.5
    theory = ff.theory(tied, fit.theta, "PL1 >> optimal(2)").standard_errors(600)
    np.testing.assert_allclose(fit.standard_errors("model"), theory, rtol=1e-3)


def test_conditional_fields_and_tables() -> None:
    """Variables that the model conditions on, three states and a gauge freedom."""
    field = ff.Potts.grid(2, 3, 3)
    theta = np.random.default_rng(4).normal(size=field.n_parameters) * 0.4
    x = np.asarray(field.sample(theta, 600, 1).values)
    fit = ff.fit(field, x, "PL1 >> optimal(2)")
    full = ff.fit(field, x, "FL")
    pairs = {f"r0c0={a}:r0c1={b}": (-1.0) ** (a + b) for a in (0, 1) for b in (0, 1)}
    one, other = fit.functional(pairs), full.functional(pairs)
    assert one.identified
    assert abs(one.estimate - other.estimate) < other.standard_error
    assert one.standard_error == pytest.approx(other.standard_error, rel=0.25)
    given = ff.MarkovRandomField(
        [2] * 4, [ff.Factor((a, b), [[1.0, -1.0], [-1.0, 1.0]], f"J{a}{b}") for a, b in ((0, 1), (1, 2), (2, 3))],
        given=[3],
    )  # fmt: skip
    start = np.random.default_rng(0).integers(0, 2, (500, 4))
    y = given.simulate(given.read(start), [0.8, -0.8, 0.8], 3).codes
    refined, best = ff.fit(given, y, "PL1 >> optimal(2)"), ff.fit(given, y, "FL")
    np.testing.assert_allclose(refined.theta, best.theta, atol=0.05)
    np.testing.assert_allclose(refined.standard_errors("model"), best.standard_errors("model"), rtol=0.1)


def test_the_model_is_tested_where_the_first_estimate_was_kept(monkeypatch) -> None:
    """To first order J does not depend on the estimate at which it is computed."""
    x = data(CHAIN, THETA, 20_000, 1)
    refined = ff.fit(CHAIN, x, "PL1 >> optimal(1)")
    monkeypatch.setattr("fieldfit.refinement.optimal.is_worse", lambda *_: True)
    kept = ff.fit(CHAIN, x, "PL1 >> optimal(1)")
    assert refined.refined
    assert not kept.refined
    assert np.abs(kept.theta - refined.theta).max() > 1e-3
    one, other = refined.specification_test(), kept.specification_test()
    assert one.degrees_of_freedom == other.degrees_of_freedom > 0
    assert one.statistic == pytest.approx(other.statistic, rel=0.05)
    monkeypatch.undo()
    theta = np.random.default_rng(3).normal(size=15) * 0.5
    y = data(ff.BoltzmannMachine(5, states=(-1, 1), biases=True), theta, 1000, 3)
    wrong = ff.fit(
        ff.BoltzmannMachine(5, [(k, k + 1) for k in range(4)], biases=True, states=(-1, 1)), y, "PL1 >> optimal"
    )
    assert not wrong.refined
    assert wrong.specification_test().rejects
    assert "do not agree with one model" in wrong.summary()


def test_refused_with_a_sentence() -> None:
    x = data(CHAIN, THETA, 200, 0)
    fit = ff.fit(CHAIN, x, "PL1 >> optimal(1)")
    for call in (fit.claic, fit.clbic, fit.score_test, fit.debiased):
        with pytest.raises(PolicyError, match="combines moment conditions"):
            call()
    with pytest.raises(PolicyError, match="second stage already"):
        ff.refine(fit)
    with pytest.raises(PolicyError, match="nothing to test"):
        ff.fit(CHAIN, x, "PL1").specification_test()
    with pytest.raises(PolicyError, match="no L1 penalty"):
        ff.fit(CHAIN, x, "PL1 >> optimal", l1=1.0)
    holes = x.astype(float)
    holes[0, 0] = np.nan
    with pytest.raises(DataError, match="complete samples"):
        ff.fit(CHAIN, holes, "PL1 >> optimal")
    with pytest.raises(PolicyError, match="early"):
        ff.fit(CHAIN, x, "PL1 >> optimal", stopping=ff.EarlyStopping(lambda theta: 0.0))


def test_same_seed_same_bits() -> None:
    model = ff.BoltzmannMachine.grid(4, 4, states=(-1, 1))
    x = data(model, np.full(24, 0.4), 300, 1)
    one, other = (ff.fit(model, x, "PL1 >> optimal(1)", random_state=7) for _ in range(2))
    np.testing.assert_array_equal(one.theta, other.theta)


def test_not_accepted_where_it_is_worse() -> None:
    """Draws far too few for the weights: the first estimate is kept, or the refined one is about as good."""
    model = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    table = model.read(data(model, np.full(12, 0.5), 500, 1))
    first = ff.fit(model, table, "PL1")
    refined = refine_densely(_first(first, StageSettings()), model, distance=3, draws=60)
    errors = first.standard_errors()
    assert np.max(np.abs(refined.theta - first.theta) / errors) < 3
    if not refined.account.accepted:
        np.testing.assert_array_equal(refined.theta, first.theta)


def test_models_of_sequences_are_refused() -> None:
    codes = np.random.default_rng(0).integers(0, 3, 15).astype(np.int32)
    offsets = np.array([0, 4, 9, 15])
    samples = Sequences(offsets, np.arange(16), codes, None, (codes % 2).astype(np.int32), 3, 2)
    with pytest.raises(ModelError, match="sequences"):
        ff.fit(ff.ChainCRF(2, 3), samples, "PL1 >> optimal", sigma2=1.0)


@pytest.mark.slow
def test_one_by_one_scores_are_accepted_and_have_honest_errors() -> None:
    """PL1's own scores on a 3×3 grid are nearly redundant; 40 data sets, 480 intervals (coverage ± 0.02)."""
    grid = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    truth = np.full(12, 0.4)
    fits = [ff.fit(grid, grid.sample(truth, 2000, random_state=k).values, "PL1 >> optimal(1)") for k in range(40)]
    errors = np.stack([fit.theta - truth for fit in fits])
    sizes = np.stack([fit.standard_errors() for fit in fits])
    assert sum(fit.refinement.accepted for fit in fits) >= 38
    assert 0.9 <= np.mean(np.abs(errors) <= 1.96 * sizes) <= 0.985
    assert 0.85 <= np.sqrt(np.mean(sizes**2) / np.mean(errors**2)) <= 1.2


@pytest.mark.slow
@pytest.mark.parametrize("second", ["optimal", "0.2*FL"])
def test_covariates_beyond_the_range_of_squares_are_refused(second: str) -> None:
    random = np.random.default_rng(0)
    covariates, labels = 1e300 * random.normal(size=(36, 2)), random.integers(0, 2, 36)
    with pytest.raises(ModelError, match="covariate beyond"):
        ff.GraphCRF(grid=(6, 6), policy=f"PL1 >> {second}").fit(covariates, labels)
