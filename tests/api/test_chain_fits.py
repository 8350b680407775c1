"""`fit` on chains: every policy, files, weights, early stopping and L1, through the same function as fields."""

from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.base import Model
from fieldfit.types import DataError, ModelError

POLICIES = ["FL", "PL1", "PL3", "PL1@0.5 + 0.5*FL@0.5", "0.7*PL2/sentence + PL1"]


def sequences(seed=0, n=60, features=6, labels=3, symbols=False):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 7, n)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    tokens, each = int(offsets[-1]), 1 if symbols else 2
    codes = rng.integers(0, features, each * tokens).astype(np.int32)
    truth = (codes[::each] + rng.integers(0, 2, tokens)) % labels
    return Sequences(offsets, each * np.arange(tokens + 1), codes, None, truth.astype(np.int32), features, labels)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["crf", "boltzmann"])
def test_every_policy_reaches_a_stationary_point_and_is_saved_bit_by_bit(kind, policy, tmp_path):
    data = sequences(symbols=kind == "boltzmann")
    model: Model
    if kind == "crf":
        model = ff.ChainCRF(3, 6, labels=["a", "b", "c"], features=[f"f{k}" for k in range(6)])
    else:
        model = ff.BoltzmannChain(3, 6, labels=["a", "b", "c"], symbols=[f"s{k}" for k in range(6)])
    fit: Any = ff.fit(model, data, policy, sigma2=4.0, random_state=1)
    assert fit.converged
    value, gradient = fit.problem.value_grad(fit.theta)
    np.testing.assert_allclose(gradient, fit.theta / 4, atol=1e-6 * data.n)
    assert fit.objective == pytest.approx(value - fit.theta @ fit.theta / 8, rel=1e-12)
    fit.save(tmp_path / "chain.ff")
    loaded: Any = ff.load(tmp_path / "chain.ff")
    assert loaded.theta.tobytes() == fit.theta.tobytes()
    assert loaded.parameter_names == fit.parameter_names
    np.testing.assert_array_equal(
        loaded.model.log_likelihood(loaded.theta, data), fit.model.log_likelihood(fit.theta, data)
    )
    np.testing.assert_allclose(loaded.standard_errors(), fit.standard_errors())


def test_the_same_seed_and_any_threads_give_the_same_bits():
    data = sequences()
    thetas = []
    for threads in (1, 2):
        ff.set_threads(threads)
        thetas.append(ff.fit(ff.ChainCRF(3, 6), data, "0.5*PL1 + 0.5*FL", sigma2=4, random_state=9).theta)
    ff.set_threads(None)
    assert thetas[0].tobytes() == thetas[1].tobytes()


def test_weights_of_sentences_are_copies_of_them():
    data = sequences()
    weight = np.random.default_rng(1).integers(0, 4, data.n)
    copies = data.subset(np.repeat(np.arange(data.n), weight))
    model = ff.ChainCRF(3, 6, pairs="all")
    for kind in ("importance", "counts"):
        weighted = ff.fit(model, data, "PL1", sigma2=4, sample_weight=weight, weight_kind=kind)
        direct = ff.fit(model, copies, "PL1", sigma2=4)
        np.testing.assert_allclose(weighted.theta, direct.theta, atol=1e-4)
    with pytest.raises(DataError, match="sample_weight has shape"):
        ff.fit(model, data, "PL1", sigma2=4, sample_weight=weight[1:])


def test_a_model_that_knows_its_weights_keeps_them():
    data = sequences()
    observed = ff.ChainCRF(3, 6).observe(data)
    fit = ff.fit(observed, data.subset(np.arange(10)), "FL", sigma2=1)
    assert fit.model is observed
    fresh = ff.fit(ff.ChainCRF(3, 6), data.subset(np.arange(10)), "FL", sigma2=1)
    assert fresh.model.n_parameters < observed.n_parameters


def test_early_stopping_of_any_model_keeps_the_best():
    data = sequences()
    held_out = sequences(seed=1)
    model = ff.ChainCRF(3, 6, pairs="all")
    stopping = ff.EarlyStopping(lambda theta: model.log_likelihood(theta, held_out).sum(), patience=2)
    fit = ff.fit(model, data, "FL", sigma2=1e4, stopping=stopping)
    scores = [score for _, score in stopping.history]
    assert stopping.stopped
    assert model.log_likelihood(fit.theta, held_out).sum() == max(scores) == stopping.best_score
    value = fit.problem.value_grad(fit.theta)[0] - fit.theta @ fit.theta / 2e4
    assert fit.objective == pytest.approx(value, rel=1e-12)
    with pytest.raises(ff.types.FieldfitError, match="at least 1"):
        ff.EarlyStopping(len, patience=0)


def test_l1_by_parameter_and_on_fields():
    data = sequences()
    fit: Any = ff.fit(ff.ChainCRF(3, 6, pairs="all"), data, "FL", sigma2=4, l1={"x*": 2.0}, tol=1e-4)
    state = fit.theta[: fit.model.layout.n_state]
    assert (state == 0).any()
    assert (fit.theta[fit.model.layout.n_state :] != 0).all()
    machine = ff.BoltzmannMachine(4)
    samples = machine.sample(np.array([1.0, 0, 0, 0, 0, -1.0]), 400, 0).values
    sparse = ff.fit(machine, samples, "PL1", l1=30.0, tol=1e-5)
    assert 0 < (sparse.theta == 0).sum() < 6
    with pytest.raises(ModelError, match="no parameter 'nothing'"):
        ff.fit(ff.ChainCRF(3, 6, pairs="all"), data, "FL", sigma2=4, l1={"nothing": 2.0})
    with pytest.raises(ModelError, match="l1 has shape"):
        ff.fit(ff.ChainCRF(3, 6, pairs="all"), data, "FL", sigma2=4, l1=[1.0, 2.0])


def test_unknown_labels_are_summed_out_but_not_all_of_them():
    data = sequences()
    labels = data.labels.copy()
    labels[np.random.default_rng(3).random(len(labels)) < 0.3] = -1
    partial = Sequences(data.offsets, data.indptr, data.indices, None, labels, 6, 3)
    for policy in ("FL", "PL1 + 0.5*PL2 + FL"):
        fit: Any = ff.fit(ff.ChainCRF(3, 6), partial, policy, sigma2=1)
        assert fit.converged
        # The full labels are more probable under it than under no knowledge at all.
        assert fit.model.log_likelihood(fit.theta, data).sum() > -data.n_tokens * np.log(3)
    nothing = Sequences(data.offsets, data.indptr, data.indices, None, np.full_like(labels, -1), 6, 3)
    with pytest.raises(DataError, match="tokens has a known label"):
        ff.fit(ff.ChainCRF(3, 6, pairs="all"), nothing, "FL", sigma2=1)
    symbols = sequences(symbols=True)
    labels = symbols.labels.copy()
    labels[5] = -1
    sentence, token = symbols.locate(5)
    wrong = Sequences(symbols.offsets, symbols.indptr, symbols.indices, None, labels, 6, 3)
    with pytest.raises(DataError, match=rf"Token {token} of sequence {sentence} .* has no known label"):
        ff.fit(ff.BoltzmannChain(3, 6), wrong, "FL", sigma2=1)
