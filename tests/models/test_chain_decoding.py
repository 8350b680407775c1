import itertools

import numpy as np
import pytest
from chain_oracle import K, crf_tables, log_sum, path_score, random_sequences

from fieldfit.models import chain_crf
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.threads import set_threads
from fieldfit.types import DataError

LENGTHS = (3, 1, 0, 5, 2)
OPTIONS = [{"pairs": "all"}, {}, {"label_pairs": True}]


def make(options, seed=0):
    data = random_sequences(seed, LENGTHS)
    model = ChainCRF(K, data.n_features, **options).observe(data)
    return data, model, np.random.default_rng(seed + 50).normal(size=model.n_parameters)


def paths_of(model, theta, data, i, given=None):
    """All label sequences that agree with the given labels, and their scores, best first."""
    nodes, edges = crf_tables(model, theta, data, i)
    paths = list(itertools.product(range(K), repeat=len(nodes)))
    if given is not None:
        paths = [p for p in paths if all(g in (-1, y) for y, g in zip(p, given, strict=True))]
    scores = np.array([path_score(nodes, edges, p) for p in paths])
    order = np.argsort(-scores, kind="stable")
    return [paths[j] for j in order], scores[order]


def some_given(data, seed=3):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(data.n_tokens) < 0.4, rng.integers(0, K, data.n_tokens), -1).astype(np.int32)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("fixed", [False, True])
def test_every_prediction_is_that_of_enumeration(options, fixed):
    data, model, theta = make(options)
    given = some_given(data) if fixed else None
    best = model.predict(theta, data, given)
    nodes = model.marginals(theta, data, given)
    edges = model.edge_marginals(theta, data, given)
    likely = model.posterior_decode(theta, data, given)
    count = 7
    labels, log_p = model.n_best(theta, data, count, given)
    assert labels.shape == (count, data.n_tokens)
    for i in range(data.n_sequences):
        tokens = slice(data.offsets[i], data.offsets[i + 1])
        paths, scores = paths_of(model, theta, data, i, None if given is None else given[tokens])
        p = np.exp(scores - log_sum(scores))
        assert scores[paths.index(tuple(best[tokens].tolist()))] == pytest.approx(scores[0], abs=1e-10)
        here = min(count, len(paths))
        np.testing.assert_allclose(log_p[i, :here], np.log(p[:here]), atol=1e-10)
        assert np.all(log_p[i, here:] == -np.inf)
        found = [tuple(labels[rank, tokens].tolist()) for rank in range(here)]
        assert len(set(found)) == here
        # Tokens without features make exact ties, so a path is judged by its own score.
        np.testing.assert_allclose([scores[paths.index(y)] for y in found], scores[:here], atol=1e-10)
        assert np.all(labels[here:, tokens] == -1)
        for t in range(data.offsets[i + 1] - data.offsets[i]):
            expected = [p[[y[t] == k for y in paths]].sum() for k in range(K)]
            np.testing.assert_allclose(nodes[tokens][t], expected, atol=1e-10)
            assert likely[tokens][t] == int(np.argmax(expected))
            pairs = np.zeros((K, K))
            if t > 0:
                for y, q in zip(paths, p, strict=True):
                    pairs[y[t - 1], y[t]] += q
            np.testing.assert_allclose(edges[tokens][t], pairs, atol=1e-10)


def test_log_likelihood_is_that_of_enumeration():
    data, model, theta = make({})
    expected = []
    for i in range(data.n_sequences):
        paths, scores = paths_of(model, theta, data, i)
        gold = tuple(data.labels[data.offsets[i] : data.offsets[i + 1]].tolist())
        expected.append(scores[paths.index(gold)] - log_sum(scores))
    np.testing.assert_allclose(model.log_likelihood(theta, data), expected, atol=1e-10)


def test_label_pair_features_in_small_blocks_change_nothing(monkeypatch):
    data, model, theta = make({"label_pairs": True})
    whole = model.predict(theta, data), model.edge_marginals(theta, data), model.n_best(theta, data, 3)[1]
    monkeypatch.setattr(chain_crf, "_MOST_EDGE_SCORES", 16)
    np.testing.assert_array_equal(model.predict(theta, data), whole[0])
    np.testing.assert_array_equal(model.edge_marginals(theta, data), whole[1])
    np.testing.assert_array_equal(model.n_best(theta, data, 3)[1], whole[2])


def test_large_chains_agree_between_methods_and_threads():
    lengths = np.random.default_rng(0).integers(0, 50, 60)
    data = random_sequences(5, lengths, n_labels=21, n_features=30)
    model = ChainCRF(21, 30).observe(data)
    theta = np.random.default_rng(1).normal(size=model.n_parameters)
    chains = model.scored(theta, data)
    labels, best = chains.viterbi()
    paths, scores = chains.n_best(3)
    np.testing.assert_array_equal(paths[0], labels)
    np.testing.assert_allclose(scores[:, 0], best, rtol=1e-13)
    assert np.all(scores[:, 0] >= scores[:, 1])
    np.testing.assert_allclose(model.marginals(theta, data), chains.marginals()[0], atol=1e-12)
    set_threads(1)
    try:
        np.testing.assert_array_equal(model.predict(theta, data), labels)
        np.testing.assert_array_equal(chains.n_best(3)[1], scores)
    finally:
        set_threads(None)


def test_ties_go_to_the_smaller_label():
    data = random_sequences(0, LENGTHS)
    model = ChainCRF(K, data.n_features, pairs="all")
    assert not model.predict(np.zeros(model.n_parameters), data).any()


def test_bad_given_labels_are_refused():
    data, model, theta = make({})
    with pytest.raises(DataError, match="tokens"):
        model.predict(theta, data, np.zeros(3, np.int32))
    with pytest.raises(DataError, match="must lie in"):
        model.predict(theta, data, np.full(data.n_tokens, K, np.int32))
    with pytest.raises(DataError, match="integer"):
        model.predict(theta, data, np.zeros(data.n_tokens))
    with pytest.raises(DataError, match="at least 1"):
        model.n_best(theta, data, 0)
