"""Samples in groups: the cluster-robust meat, dense and by conjugate gradients, its coverage and its cautions."""

from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.accuracies import implicit_accuracy, score_variance
from fieldfit.api.validation import fold_members
from fieldfit.data.sequences import Sequences
from fieldfit.types import DataError

MODEL = ff.BoltzmannMachine(4, biases=True)
THETA = np.array([-1.0, 1.0, 0.5, -0.5, 1.0, -1.0, 0.2, -0.2, 0.4, 0.0])
X = MODEL.sample(THETA, 300, 1).values
GROUPS = np.random.default_rng(2).integers(0, 60, 300)
WEIGHT = np.random.default_rng(3).exponential(size=300)


def by_hand(fit, weight, groups):
    """(H + P)⁻¹ Σ_g s_g s_gᵀ (H + P)⁻¹ from the scores of all samples."""
    scores = fit.problem.scores(fit.theta, 0, fit.n)
    mean = weight @ scores / weight.sum() if fit.penalised else 0.0
    sums = np.zeros((groups.max() + 1, len(fit.theta)))
    np.add.at(sums, groups, weight[:, None] * (scores - mean))
    bread = -fit.problem.hessian_matrix(fit.theta, weight) + np.diag(1 / fit.sigma2)
    return np.linalg.solve(bread, np.linalg.solve(bread, sums.T @ sums).T)


@pytest.mark.parametrize("policy", ["PL1", "PL2", "0.5*PL1@2 + 0.3*PL2@0.5"])
@pytest.mark.parametrize("states", [(0, 1), (-1, 2)])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_summed_scores_of_groups_of_a_dense_field(policy, states, tied, weighted):
    """Against sums over the scores of single samples, with some samples in no group."""
    random = np.random.default_rng(7)
    pairs: Any = {"edge_groups": [0, 1, 0, 2, 1, 0], "bias_groups": [0, 0, 1, 1]} if tied else {}
    model: Any = ff.BoltzmannMachine(4, biases=True, states=states, **pairs)
    x = np.array(states)[random.integers(0, 2, (300, 4))]
    problem: Any = ff.fit(model, x, policy).problem
    assert problem.dense
    theta = random.normal(size=model.n_parameters)
    groups, weight = random.integers(-3, 25, 300), random.exponential(size=300) if weighted else None
    wanted = np.zeros((20, model.n_parameters))
    inside = (groups >= 0) & (groups < 20)
    scores = problem.scores(theta, 0, 300) * (1.0 if weight is None else weight[:, None])
    np.add.at(wanted, groups[inside], scores[inside])
    np.testing.assert_allclose(problem.group_scores(theta, groups, 20, weight), wanted, rtol=1e-10, atol=1e-12)


def test_summed_scores_in_several_chunks(monkeypatch):
    monkeypatch.setattr("fieldfit.models.pairwise_scores._MOMENT_NUMBERS", 1)  # 64 samples in a chunk
    problem = ff.fit(MODEL, X, "PL1 + PL2").problem
    wanted = np.zeros((60, 10))
    np.add.at(wanted, GROUPS, problem.scores(THETA, 0, 300))
    np.testing.assert_allclose(problem.group_scores(THETA, GROUPS, 60), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sigma2", [None, 0.5])
@pytest.mark.parametrize("policy", ["PL1", "FL", "0.7*PL1 + 0.3*PL2@0.5"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_meat_is_the_sum_of_squares_of_the_groups(policy, sigma2, weighted):
    weight = WEIGHT if weighted else np.ones(300)
    given = WEIGHT if weighted else None
    fit = ff.fit(MODEL, X, policy, sigma2=sigma2, sample_weight=given, groups=GROUPS, tol=1e-10)
    plain = ff.fit(MODEL, X, policy, sigma2=sigma2, sample_weight=given, tol=1e-10)
    np.testing.assert_array_equal(fit.theta, plain.theta)
    wanted = by_hand(fit, weight, GROUPS)
    np.testing.assert_allclose(fit.dense_accuracy().covariance, wanted, rtol=1e-8, atol=1e-12)
    products = implicit_accuracy(fit, [fit.problem], score_variance(fit), "products")
    np.testing.assert_allclose(products.covariance_of(np.eye(10)), wanted, rtol=2e-3, atol=1e-5)
    contrast = {"x0:x1": 1, "x2:x3": -1}
    direction = np.zeros(10)
    direction[[fit.parameter_names.index(name) for name in contrast]] = [1, -1]
    error = fit.functional(contrast).standard_error
    assert error == pytest.approx(np.sqrt(direction @ wanted @ direction), rel=1e-8)
    assert error != plain.functional(contrast).standard_error


@pytest.mark.parametrize("policy", ["PL1", "FL"])
def test_copies_in_one_group_say_nothing_new(policy):
    """Each sample five times: with groups every number of accuracy is that of the samples once."""
    once = ff.fit(MODEL, X, policy, tol=1e-11)
    often = ff.fit(MODEL, np.repeat(X, 5, axis=0), policy, groups=np.repeat(np.arange(300), 5), tol=1e-11)
    counted = ff.fit(
        MODEL, X, policy, sample_weight=np.full(300, 5), weight_kind="counts", groups=np.arange(300), tol=1e-11
    )
    for fit in (often, counted):
        np.testing.assert_allclose(fit.standard_errors(), once.standard_errors(), rtol=1e-6)
        for names in (["x0:x1"], ["x0:x1", "x2:x3", "x1"]):
            wald = fit.wald_test(names)
            assert wald.statistic == pytest.approx(once.wald_test(names).statistic, rel=1e-6)
    fixed = {"x0:x1": 0.0, "x1": 0.0}
    null = ff.fit(MODEL, X, policy, fixed=fixed, tol=1e-11)
    nulls = ff.fit(
        MODEL, np.repeat(X, 5, axis=0), policy, fixed=fixed, groups=np.repeat(np.arange(300), 5), tol=1e-11
    )
    assert nulls.score_test().statistic == pytest.approx(null.score_test().statistic, rel=1e-6)
    assert ff.likelihood_ratio(often, nulls).p == pytest.approx(ff.likelihood_ratio(once, null).p, rel=1e-5)
    # The score per copy is the same, and the trace has one square for each group of five.
    assert often.effective_parameters() == pytest.approx(5 * once.effective_parameters(), rel=1e-6)


def test_independent_samples_are_groups_of_one():
    one = ff.fit(MODEL, X, "PL1", groups=np.arange(300)[::-1])
    np.testing.assert_allclose(one.covariance(), ff.fit(MODEL, X, "PL1").covariance(), rtol=1e-10)


def test_groups_may_have_any_labels_and_follow_the_samples(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["doc"] = [f"document {group}" for group in GROUPS]
    wanted = ff.fit(MODEL, X, "PL1", groups=GROUPS).standard_errors()
    fits = [ff.fit(MODEL, frame, "PL1", groups="doc")]
    frame.to_csv(tmp_path / "data.csv", index=False)
    fits.append(ff.fit(MODEL, str(tmp_path / "data.csv"), "PL1", groups="doc"))
    fits.append(ff.fit(MODEL, frame[["a", "b", "c", "d"]], "PL1", groups=frame["doc"]))
    for fit in fits:
        assert next(iter(fit.model.parameter_names)) == "a:b"
        np.testing.assert_allclose(fit.standard_errors(), wanted, rtol=1e-12)
    assert "300 samples in 60 groups" in fits[0].summary()
    fits[0].save(tmp_path / "fit.ff")
    again = ff.load(tmp_path / "fit.ff", frame, groups="doc")
    np.testing.assert_allclose(again.standard_errors(), wanted, rtol=1e-12)
    with pytest.raises(DataError, match="The fit had 60 groups, and these samples have 0"):
        ff.load(tmp_path / "fit.ff", frame[["a", "b", "c", "d"]])
    table = MODEL.read(X, groups=GROUPS, sample_weight=GROUPS % 3, weight_kind="counts")
    kept = np.unique(np.repeat(GROUPS, GROUPS % 3), return_inverse=True)[1]
    np.testing.assert_array_equal(table.copies().groups, kept)


def test_sentences_of_one_document_are_a_group():
    random = np.random.default_rng(0)
    offsets = np.arange(0, 241, 4)
    labels = random.integers(0, 2, 240).astype(np.int32)
    features = ((labels + (random.random(240) < 0.3)) % 2).astype(np.int32)
    data = Sequences(offsets, np.arange(241), features, None, labels, 2, 2)
    repeated = data.subset(np.repeat(np.arange(60), 3))
    model = ff.ChainCRF(2, 2).complete(data)
    once = ff.fit(model, data, "PL1", sigma2=1e8, tol=1e-10)
    groups = ff.fit(model, repeated, "PL1", sigma2=1e8, tol=1e-10, groups=np.repeat(np.arange(60), 3))
    direction = {"y0->y0": 1, "y0->y1": -1, "y1->y0": -1, "y1->y1": 1}
    found, wanted = groups.functional(direction), once.functional(direction)
    assert found.standard_error == pytest.approx(wanted.standard_error, rel=1e-4)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], "one group for each sample"),
        (np.where(np.arange(300) == 7, np.nan, 1.0), "row 7"),
        ([None if row == 3 else "a" for row in range(300)], "no label in row 3"),
        (["" if row == 3 else "a" for row in range(300)], "no label in row 3"),
        (np.where(np.arange(300) == 3, np.datetime64("NaT"), np.datetime64("2020-01-01")), "no label in row 3"),
        (np.zeros(300), "All 300 samples are in one group"),
        ("nobody", "nobody"),
    ],
)
def test_wrong_groups_are_refused(groups, message):
    with pytest.raises(DataError, match=message):
        ff.fit(MODEL, X, "PL1", groups=groups)


def test_cautions():
    few = ff.fit(MODEL, X, "PL1", groups=GROUPS % 20)
    assert "2 groups for each parameter, robust errors may be too small" in few.summary()
    small = ff.fit(ff.BoltzmannMachine(2), X[:, :2], "PL1", groups=GROUPS % 20)
    assert small.functional(0).caution == "only 20 groups, robust errors may be too small"
    assert "ignore the groups" in few.functional(0, kind="model").caution
    assert "ignore the groups" in few.summary(kind="model")
    enough = ff.fit(MODEL, X, "PL1", groups=GROUPS)
    assert not enough.functional(0).caution


@pytest.mark.slow
def test_intervals_cover_with_groups_and_not_without():
    """150 groups of 6; a member is a copy of the group's first with probability 0.6, so every sample has the law p_θ.

    400 fits with ten parameters. For a right interval the mean coverage has a standard error of at most 0.011 (that of one
    parameter; in truth about a third), so the band 0.92–0.975 fails with probability below 0.7%.
    """
    ff.set_threads(1)
    random = np.random.default_rng(11)
    groups = np.repeat(np.arange(150), 6)
    inside: dict[str, list[np.ndarray]] = {"with": [], "without": []}
    estimates, errors = [], []
    for _ in range(400):
        x = MODEL.sample(THETA, 900, int(random.integers(1 << 30))).codes.copy()
        copied = (random.random(900) < 0.6) & (np.arange(900) % 6 > 0)
        x[copied] = x[6 * (np.flatnonzero(copied) // 6)]
        for name, given in (("with", groups), ("without", None)):
            fit = ff.fit(MODEL, x, "PL1", groups=given)
            low, high = fit.conf_int().T
            inside[name].append((low <= THETA) & (high >= THETA))
            if name == "with":
                estimates.append(fit.theta)
                errors.append(fit.standard_errors())
    assert 0.92 < np.mean(inside["with"]) < 0.975
    assert np.mean(inside["without"]) < 0.85
    ratio = np.mean(errors, axis=0) / np.std(estimates, axis=0, ddof=1)
    np.testing.assert_allclose(ratio.mean(), 1.0, atol=0.05)


@pytest.mark.parametrize("n_groups", [5, 60, 300])
def test_folds_keep_groups_together_and_are_about_equal(n_groups):
    groups = np.random.default_rng(4).permutation(np.arange(600) % n_groups)
    members = fold_members(600, 5, 0, groups)
    assert all(len(set(members[groups == group])) == 1 for group in range(n_groups))
    assert np.ptp(np.bincount(members, minlength=5)) <= 600 // n_groups
    assert np.any(members != fold_members(600, 5, 1, groups))


def test_cross_validation_with_groups_is_what_it_says():
    line = ff.cross_validate(MODEL, X, "PL1", folds=3, random_state=1, groups=GROUPS, sample_weight=WEIGHT).iloc[0]
    members, loss = fold_members(300, 3, 1, GROUPS), np.empty(300)
    for fold in range(3):
        inside, outside = members != fold, members == fold
        theta = ff.fit(MODEL, X[inside], "PL1", sample_weight=WEIGHT[inside]).theta
        loss[outside] = -MODEL.conditional(theta, X[outside], range(4))
    share = WEIGHT / WEIGHT.sum()
    mean = loss @ share
    by_group = np.bincount(GROUPS, share * (loss - mean))
    assert line["nll"] == pytest.approx(mean, rel=1e-8)
    assert line["std_error"] == pytest.approx(np.sqrt(60 / 59 * (by_group**2).sum()), rel=1e-6)


def test_copies_of_a_sample_do_not_flatter_a_model_where_they_are_a_group():
    """Ten copies of 30 random rows: a model that learns rows by heart scores well unless the copies stay together."""
    rows = np.random.default_rng(5).integers(0, 2, (30, 4))
    options: dict[str, Any] = {"score": "PL1", "folds": 5, "sigma2": 10.0}
    groups = np.repeat(np.arange(30), 10)
    apart = ff.cross_validate(MODEL, np.repeat(rows, 10, axis=0), "PL1", **options).iloc[0]
    together = ff.cross_validate(MODEL, np.repeat(rows, 10, axis=0), "PL1", groups=groups, **options).iloc[0]
    assert together["nll"] > apart["nll"] + 0.1
    assert together["std_error"] > 2 * apart["std_error"]


def test_too_few_groups_for_the_folds_are_refused():
    with pytest.raises(DataError, match="4 groups are too few for 5 folds"):
        ff.cross_validate(MODEL, X, "PL1", groups=GROUPS % 4)
