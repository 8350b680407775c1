"""Standard errors, influence and comparison of chain models: the same code through the Problem's sums."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics import expectations
from fieldfit.data.sequences import Sequences
from fieldfit.models.boltzmann_chain import BoltzmannChain
from fieldfit.models.chain_crf import ChainCRF

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from chain_oracle import random_sequences, random_symbols

CRF = ChainCRF(2, 3, pairs="all", start=False, end=False)
FIXED = {"y0->y0": 0.0, "y1->y0": 0.0, "x0:y0": 0.0, "x1:y0": 0.0, "x2:y0": 0.0}  # the gauge of a CRF with two labels


def crf_data(n=600, seed=0, theta=None):
    """Sequences of 1 to 6 tokens with valued features, labels from the model."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 7, n)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    tokens = int(offsets[-1])
    values = random.normal(size=3 * tokens)
    data = Sequences(
        offsets,
        3 * np.arange(tokens + 1),
        np.tile(np.arange(3, dtype=np.int32), tokens),
        values,
        np.zeros(tokens, dtype=np.int32),
        3,
        2,
    )
    return CRF.simulate(data, TRUTH if theta is None else theta, seed)


def full_theta(**values):
    theta = np.zeros(CRF.n_parameters)
    for place, name in enumerate(CRF.parameter_names):
        theta[place] = values.get(name, 0.0)
    return theta


TRUTH = full_theta(**{"x0:y1": 0.8, "x1:y1": -0.5, "x2:y1": 0.0, "y0->y1": -0.4, "y1->y1": 0.6})


@pytest.fixture(autouse=True)
def one_thread():
    ff.set_threads(1)


@pytest.mark.parametrize("shared", [True, False])
def test_drawn_labels_have_the_right_law(shared):
    """Frequencies of all label sequences of one short sentence against exp(log p), 40,000 draws: 5 errors are < 0.0125."""
    base = random_sequences(seed=3, lengths=(3,), n_labels=2, n_features=3)
    model = ChainCRF(2, 3, pairs="all", label_pairs=not shared)
    model = model.observe(base)
    theta = np.random.default_rng(1).normal(size=model.n_parameters)
    many = base.subset(np.zeros(40_000, dtype=int))
    drawn = model.simulate(many, theta, 5).labels.reshape(-1, 3)
    frequency = np.bincount(drawn @ [4, 2, 1], minlength=8) / len(drawn)
    for code in range(8):
        labels = np.array([(code >> 2) & 1, (code >> 1) & 1, code & 1], dtype=np.int32)
        one = Sequences(base.offsets, base.indptr, base.indices, base.values, labels, 3, 2)
        assert frequency[code] == pytest.approx(np.exp(model.log_likelihood(theta, one)[0]), abs=0.0125)


def test_drawn_symbols_have_the_right_law():
    model = BoltzmannChain(2, 3)
    theta = np.random.default_rng(2).normal(size=model.n_parameters)
    one = random_symbols(lengths=(2,), n_labels=2, n_symbols=3)
    drawn = model.simulate(one.subset(np.zeros(40_000, dtype=int)), theta, 1)
    codes = drawn.labels.reshape(-1, 2) @ [2, 1] * 9 + drawn.indices.reshape(-1, 2) @ [3, 1]
    frequency = np.bincount(codes, minlength=36) / 40_000
    for code in range(36):
        labels = np.array([code // 18, code // 9 % 2], dtype=np.int32)
        symbols = np.array([code % 9 // 3, code % 3], dtype=np.int32)
        sequence = Sequences(one.offsets, one.indptr, symbols, None, labels, 3, 2)
        assert frequency[code] == pytest.approx(np.exp(model.log_likelihood(theta, sequence)[0]), abs=0.0125)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["FL", "PL1", "0.5*PL1 + 0.5*FL", "Multinomial(0.5*PL1 + 0.5*FL)"])
def test_both_kinds_agree_inside_the_family(policy):
    """Two consistent estimates of one number from 600 sequences; they differ by about 5%."""
    fit = ff.fit(CRF, crf_data(), policy, fixed=FIXED)
    free = fit.free
    robust, based = fit.standard_errors()[free], fit.standard_errors("model")[free]
    np.testing.assert_allclose(based, robust, rtol=0.2)
    assert np.all(np.abs(fit.theta - TRUTH)[free] < 5 * based)
    assert ("identity" if policy == "FL" else "simulated") in fit.dense_accuracy("model").method


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["0.7*PL1 + 0.5*PL2@0.5", "Multinomial(0.5*PL1 + 0.5*FL)", "0.4*PL2/sentence"])
def test_counts_of_sequences_are_copies_each_with_a_selection_of_its_own(policy):
    data = crf_data(60)
    counts = np.random.default_rng(1).integers(0, 4, 60)
    weighted = ff.fit(CRF, data, policy, sigma2=1.0, sample_weight=counts.astype(float), weight_kind="counts")
    copies = ff.fit(CRF, data.subset(np.repeat(np.arange(60), counts)), policy, sigma2=1.0)
    np.testing.assert_array_equal(weighted.theta, copies.theta)
    for kind in ("robust", "model"):
        np.testing.assert_array_equal(weighted.standard_errors(kind), copies.standard_errors(kind))


def test_counts_of_sequences_are_copies_when_models_are_judged():
    data = crf_data(80)
    counts = np.random.default_rng(1).integers(0, 4, 80).astype(float)
    weights: dict[str, Any] = {"sample_weight": counts, "weight_kind": "counts"}
    copies = data.subset(np.repeat(np.arange(80), counts.astype(int)))
    counted, copied = ff.fit(CRF, data, "PL1", sigma2=1.0, **weights), ff.fit(CRF, copies, "PL1", sigma2=1.0)
    np.testing.assert_allclose(counted.covariance(), copied.covariance(), rtol=1e-3)
    assert counted.clbic() == pytest.approx(copied.clbic())
    frames = [fit.goodness_of_fit(n_simulated=9) for fit in (counted, copied)]
    np.testing.assert_allclose(frames[0].to_numpy(), frames[1].to_numpy(), rtol=1e-3, atol=1e-3)
    frames = [
        ff.cross_validate(CRF, own, ["PL1", "FL"], sigma2=[1.0], folds=3, **options)
        for own, options in ((data, weights), (copies, {}))
    ]
    np.testing.assert_allclose(frames[0]["nll"], frames[1]["nll"], rtol=1e-12)
    np.testing.assert_allclose(frames[0]["std_error"], frames[1]["std_error"], rtol=1e-12)


@pytest.mark.slow
def test_with_unknown_labels_the_information_identity_does_not_hold():
    data = crf_data()
    labels = data.labels.copy()
    labels[np.random.default_rng(5).random(len(labels)) < 0.3] = -1
    fit = ff.fit(CRF, replace(data, labels=labels), "FL", fixed=FIXED)
    assert "simulated" in fit.dense_accuracy("model").method
    robust, based = fit.standard_errors()[fit.free], fit.standard_errors("model")[fit.free]
    np.testing.assert_allclose(based, robust, rtol=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "tolerance"), [("FL", 1e-10), ("FL@2", 1e-10), ("PL1", 0.1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_model_based_moments_are_sums_over_all_label_sequences(policy, tolerance, weighted, monkeypatch):
    """Over every labelling y of 12 short sentences: Σ p(y|x) of −∇²m and of ψψᵀ. PL1 simulates, to about 2% of an entry."""
    monkeypatch.setattr(expectations, "SIMULATED", 4_000)
    data = crf_data(12, seed=3)
    lengths = np.diff(data.offsets)
    weight = np.linspace(0.5, 2.0, 12) if weighted else None
    fit = ff.fit(CRF, data, policy, sigma2=1.0, sample_weight=weight)
    bread, meat = 0.0, 0.0
    for row in range(12):
        one = data.subset([row])
        own = 1.0 if weight is None else weight[row]
        for code in range(2 ** lengths[row]):
            labels = np.array([code >> t & 1 for t in range(lengths[row])], dtype=np.int32)
            sentence = replace(one, labels=labels)
            p = np.exp(CRF.log_likelihood(fit.theta, sentence)[0])
            bound = fit.policy.bind(CRF.structure(sentence))
            problem = CRF.compile(sentence, bound.draw(0, 0, 1))
            psi = problem.value_grad(fit.theta)[1]
            meat = meat + own**2 * p * np.outer(psi, psi)
            bread = bread - own * p * np.stack([problem.hessian_product(fit.theta, e) for e in np.eye(len(psi))])
    moments = fit.dense_accuracy("model").moments
    scale = np.abs(meat).max()
    np.testing.assert_allclose(moments.bread * moments.total, bread, atol=tolerance * scale)
    np.testing.assert_allclose(moments.meat * moments.total, meat, atol=tolerance * scale)


@pytest.mark.parametrize("policy", ["FL", "PL1"])
@pytest.mark.parametrize("kind", ["robust", "model"])
def test_a_large_tagger_has_the_errors_of_the_dense_calculation(monkeypatch, policy, kind):
    """So few parameters are solved to the residual's tolerance; PL1's model-based meat is simulated (4 copies)."""
    chosen = ["x0:y1", "y0->y1"]
    dense = ff.fit(CRF, crf_data(), policy, sigma2=10.0).standard_errors(kind, chosen)
    monkeypatch.setattr("fieldfit.api.accuracies.MOST_COVARIANCE_PARAMETERS", 2)
    large = ff.fit(CRF, crf_data(), policy, sigma2=10.0).standard_errors(kind, chosen)
    np.testing.assert_allclose(large, dense, rtol=0.1 if (policy, kind) == ("PL1", "model") else 2e-3)


@pytest.mark.parametrize(("policy", "sigma2"), [("FL", None), ("0.5*PL1 + 0.3*FL", None), ("0.4*PL2/sentence", 2.0)])
def test_influence_on_a_crf_is_what_leaving_a_sentence_out_does(policy, sigma2):
    """With the drawn Z: an importance weight of 0 leaves the Z of all other sentences as they are."""
    data, options = crf_data(), {"sigma2": sigma2, "random_state": 5, "tol": 1e-11, "fixed": FIXED}
    weight = np.ones(data.n)
    fit = ff.fit(CRF, data, policy, sample_weight=weight, **options)
    influence = fit.influence()
    for row in [*fit.influential(2).index, 17]:
        weight[row] = 0.0
        change = fit.theta - ff.fit(CRF, data, policy, sample_weight=weight, start=fit.theta, **options).theta
        weight[row] = 1.0
        assert np.linalg.norm(influence[row] - change) < 0.06 * np.linalg.norm(change) + 1e-7


def test_influence_tests_and_functionals_work_on_sequences(monkeypatch):
    data = crf_data()
    fit = ff.fit(CRF, data, "0.7*PL1", fixed=FIXED, tol=1e-9)
    assert fit.influence().shape == (600, CRF.n_parameters)
    np.testing.assert_allclose(fit.influence().sum(axis=0), 0, atol=1e-5)
    always = ff.fit(CRF, data, "PL1", fixed=FIXED, tol=1e-9)
    np.testing.assert_allclose(always.influence(data), always.influence(), atol=1e-10)
    spread = ff.fit(CRF, data, "Multinomial(PL1)", fixed=FIXED, tol=1e-9)
    lengths = np.diff(data.offsets)
    plain = CRF.compile(data, always.policy.bind(CRF.structure(data)).draw(0, 0, 600))
    scores = plain.scores(spread.theta, 0, 600) / lengths[:, None]
    np.testing.assert_allclose(spread.influence(data), scores @ spread.dense_accuracy().inverse / 600, atol=1e-10)
    null = ff.fit(CRF, data, "PL1", fixed=FIXED | {"x2:y1": 0.0}, tol=1e-9)
    assert ff.likelihood_ratio(always, null).p == pytest.approx(always.wald_test("x2:y1").p, abs=0.05)
    assert null.score_test(["x2:y1"]).p == pytest.approx(always.wald_test("x2:y1").p, abs=0.05)
    assert len(fit.influential(3)) == 3
    assert fit.goodness_of_fit(n_simulated=19)["p"].iloc[0] > 0.05
    frame = ff.cross_validate(CRF, data, ["PL1", "FL"], folds=3, fixed=FIXED)
    assert frame["nll"].iloc[0] < np.log(2) * np.mean(lengths)
    expected = fit.functional({"x0:y1": 1, "x1:y1": -1}).standard_error
    monkeypatch.setattr("fieldfit.api.accuracies.MOST_COVARIANCE_PARAMETERS", 2)
    large = ff.fit(CRF, data, "0.7*PL1", fixed=FIXED, tol=1e-9)
    assert large.functional({"x0:y1": 1, "x1:y1": -1}).standard_error == pytest.approx(expected, rel=1e-5)


def test_a_boltzmann_chain_has_standard_errors_for_what_is_identified():
    model = BoltzmannChain(2, 3)
    data = random_symbols(seed=1, lengths=(5,) * 400, n_labels=2, n_symbols=3)
    data = model.simulate(data, np.random.default_rng(0).normal(scale=0.5, size=model.n_parameters), 2)
    fit = ff.fit(model, data, "FL")
    assert np.isnan(fit.standard_errors()).all()
    difference = {"y0:x0": 1, "y0:x1": -1}
    for kind in ("robust", "model"):
        estimate = fit.functional(difference, kind=kind)
        counts = [np.sum((data.labels == 0) & (data.indices == v)) for v in (0, 1)]
        # symbols given labels are a plain multinomial: the log ratio of two counts and its textbook error
        assert estimate.estimate == pytest.approx(np.log(counts[0] / counts[1]), abs=1e-4)
        assert estimate.standard_error == pytest.approx(np.sqrt(1 / counts[0] + 1 / counts[1]), rel=0.1)


def test_steps_from_one_policy_to_another():
    """``PL1 >> FL``: within a tenth of a standard error of the full fit, and the same errors."""
    data = crf_data(600, 3)
    full, steps = (ff.fit(CRF, data, policy, fixed=FIXED) for policy in ("FL", "PL1 >> FL"))
    assert str(steps.estimator) == "PL1 >> FL"
    free = full.free
    errors = full.standard_errors()[free]
    assert np.max(np.abs(steps.theta - full.theta)[free] / errors) < 0.1
    np.testing.assert_allclose(steps.standard_errors()[free], errors, rtol=0.02)
