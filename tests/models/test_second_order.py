"""Second-order chains: everything that they predict agrees with enumeration, and nothing overflows.

The contract (test_contract.py) has their likelihoods, derivatives, unknown labels, files and threads.
"""

import itertools
import pickle

import numpy as np
import pytest
from chain_oracle import composite, log_sum, path_score, plain, random_sequences, triple_tables, without_runs

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_gradients import marginal_gradient
from fieldfit.models.label_triples import LabelTriples, every_triple, observed_triples
from fieldfit.models.triple_problem import TripleProblem
from fieldfit.types import DataError, FieldfitError, ModelError

K = 3
MIXED = (plain(0, 0.3), plain(1, 0.5), plain(2, 0.7), plain(4, 0.1))
OPTIONS = [
    {},
    {"unseen_transitions": "forbidden"},
    {"transitions": "none", "end": False, "unseen_transitions": "forbidden"},
    {"start": False, "unseen_transitions": "forbidden"},
]


def model_and_data(options, seed=0, lengths=(4, 1, 0, 2, 5, 3), valued=True):
    data = without_runs(random_sequences(seed, lengths, valued=valued))
    training = without_runs(random_sequences(seed + 1, (4, 6) * 60, valued=valued))
    model = ff.ChainCRF(K, data.n_features, order=2, **options).observe(training)
    return model, data, np.random.default_rng(seed).normal(size=model.n_parameters)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("fixed", [False, True])
def test_every_prediction_is_that_of_enumeration(options, fixed):
    model, data, theta = model_and_data(options)
    given = np.full(data.n_tokens, -1, dtype=np.int32)
    if fixed:
        given[[1, 6, 8, 11]] = data.labels[[1, 6, 8, 11]]
    labels = model.predict(theta, data, given)
    nodes, edges = model.marginals(theta, data, given), model.edge_marginals(theta, data, given)
    paths, logs = model.n_best(theta, data, 5, given)
    posterior = model.posterior_decode(theta, data, given)
    for i, (first, last) in enumerate(itertools.pairwise(data.offsets.tolist())):
        tables = triple_tables(model, theta, data, i)
        choices = [range(K) if y < 0 else [int(y)] for y in given[first:last]]
        every = list(itertools.product(*choices))
        scores = np.array([path_score(*tables, path) for path in every])
        probabilities = np.exp(scores - log_sum(scores))
        order = np.argsort(-scores, kind="stable")
        assert tuple(labels[first:last]) == every[order[0]]
        for rank in range(5):
            if rank < len(every) and probabilities[order[rank]] > 0:
                assert tuple(paths[rank, first:last]) == every[order[rank]]
                assert logs[i, rank] == pytest.approx(np.log(probabilities[order[rank]]), abs=1e-10)
            else:
                assert logs[i, rank] == -np.inf
                assert (paths[rank, first:last] == -1).all()
        for t in range(last - first):
            expected = np.array(
                [sum(p for p, y in zip(probabilities, every, strict=True) if y[t] == j) for j in range(K)]
            )
            np.testing.assert_allclose(nodes[first + t], expected, atol=1e-10)
            assert posterior[first + t] == expected.argmax()
            pairs = np.zeros((K, K))
            for p, y in zip(probabilities, every, strict=True):
                if t > 0:
                    pairs[y[t - 1], y[t]] += p
            np.testing.assert_allclose(edges[first + t], pairs, atol=1e-10)


def test_log_likelihood_of_forbidden_labels_is_minus_infinity():
    model, data, theta = model_and_data(OPTIONS[1])
    labels = data.labels.copy()
    labels[:3] = 0  # three times the same
    forbidden = Sequences(data.offsets, data.indptr, data.indices, data.values, labels, data.n_features, K)
    values = model.log_likelihood(theta, forbidden)
    assert values[0] == -np.inf
    assert np.isfinite(values[1:]).all()
    for policy in ("PL1", "PL2"):
        selection = ff.Policy.parse(policy).bind(model.structure(forbidden)).draw(0, 0, forbidden.n)
        rows = model.compile(forbidden, selection).row_values(theta)
        assert rows[0] == -np.inf
        assert np.isfinite(rows[1:]).all()
    with pytest.raises(DataError, match=r"1 label triples that the model forbids, for example y0,y0->y0"):
        model.complete(forbidden)


def test_known_labels_that_no_allowed_triple_completes_are_refused_with_their_sequence():
    labels = np.array([0, 1, 0, 0, 1, 1, 1, -1, 1], dtype=np.int32)  # after 1 at the start nothing was seen
    offsets, pointer = np.array([0, 3, 6, 9]), np.arange(10)
    data = Sequences(offsets, pointer, np.zeros(9, dtype=np.int32), None, labels, 1, 2)
    with pytest.raises(DataError, match="No labels are possible for sequence 2"):
        ff.fit(ff.ChainCRF(2, 1, order=2, unseen_transitions="forbidden"), data, "FL", sigma2=1.0)
    assert ff.fit(ff.ChainCRF(2, 1, order=2), data, "FL", sigma2=1.0).converged


def test_without_weights_of_triples_it_is_the_chain_of_first_order():
    data = random_sequences(3, (4, 2, 7, 1))
    second = ff.ChainCRF(K, data.n_features, order=2, start=False).observe(data)
    first = ff.ChainCRF(K, data.n_features, start=False).observe(data)
    theta = np.random.default_rng(1).normal(size=first.n_parameters)
    longer = np.concatenate([theta, np.zeros(second.n_parameters - first.n_parameters)])
    for families in ((plain(0),), (plain(1),), MIXED):
        a, b = (m._problem(data, families).value_grad(t) for m, t in ((first, theta), (second, longer)))
        assert a[0] == pytest.approx(b[0], abs=1e-10)
        np.testing.assert_allclose(a[1], b[1][: len(theta)], atol=1e-10)
    np.testing.assert_allclose(first.marginals(theta, data), second.marginals(longer, data), atol=1e-10)
    np.testing.assert_allclose(first.edge_marginals(theta, data), second.edge_marginals(longer, data), atol=1e-10)
    left, right = (
        m._problem(data, MIXED).hessian_diagonal(t)[: m.layout.n_state] for m, t in ((first, theta), (second, longer))
    )
    np.testing.assert_allclose(left, right, atol=1e-10)


@pytest.mark.parametrize("options", OPTIONS[:2])
@pytest.mark.parametrize("scale", [20.0, 300.0, 1000.0])
def test_where_probabilities_underflow(options, scale):
    """Some sentences are summed in probability space and others in log space."""
    model, data, theta = model_and_data(options, seed=3, valued=False)
    theta = np.round(theta) * scale
    problem = TripleProblem(model.layout, data, MIXED)
    expected = composite(lambda i: triple_tables(model, theta, data, i), data, MIXED)
    np.testing.assert_allclose(problem.row_values(theta), expected, rtol=1e-12, atol=1e-9)
    value, gradient = problem.value_grad(theta)
    assert value == pytest.approx(expected.sum(), rel=1e-12)
    v = np.random.default_rng(4).normal(size=len(theta)) / scale
    assert problem.row_products(theta, v).sum() == pytest.approx(gradient @ v, rel=1e-8, abs=1e-9)
    step = 1e-5
    ahead, behind = (problem.value_grad(theta + sign * step * v)[1] for sign in (1, -1))
    np.testing.assert_allclose(problem.hessian_product(theta, v), (ahead - behind) / (2 * step), atol=1e-5)
    np.testing.assert_allclose(model.marginals(theta, data).sum(axis=1), 1.0, atol=1e-10)


def test_long_sentences_and_many_of_them():
    """Lanes of different lengths, chunks, and states in blocks: the same as one sentence at a time."""
    model, _, theta = model_and_data(OPTIONS[1])
    data = without_runs(random_sequences(5, (3, 500, 1, 0, 40, 41, 7) * 5))
    problem = TripleProblem(model.layout, data, (plain(0), plain(2, 0.5)))
    value, gradient = problem.value_grad(theta)
    rows, single = problem.row_values(theta), np.zeros_like(gradient)
    for i in range(data.n):
        one = TripleProblem(model.layout, data.subset(np.array([i])), problem.families)
        own, slope = one.value_grad(theta)
        assert rows[i] == pytest.approx(own, abs=1e-9)
        single += slope
    assert value == pytest.approx(rows.sum(), rel=1e-12)
    np.testing.assert_allclose(gradient, single, atol=1e-8)
    again = pickle.loads(pickle.dumps(problem))
    assert np.array_equal(again.value_grad(theta)[1], gradient)


def test_drawn_labels_have_the_probabilities_of_the_model():
    """20,000 sentences: an error of 0.015 is more than four standard errors of each of 15 shares."""
    model, data, theta = model_and_data(OPTIONS[1], lengths=(5,))
    many = data.subset(np.zeros(20_000, dtype=np.int64))
    drawn = model.simulate(many, theta, random_state=1).labels.reshape(-1, 5)
    expected = model.marginals(theta, data)
    for t in range(5):
        np.testing.assert_allclose(np.bincount(drawn[:, t], minlength=K) / len(drawn), expected[t], atol=0.015)
    assert set(observed_triples(model.simulate(many, theta), True)) <= set(model.layout.arcs.codes)
    assert np.isfinite(model.log_likelihood(theta, model.simulate(many.subset(np.arange(50)), theta))).all()


def test_the_gradient_of_a_marginal_is_that_of_differences():
    model, data, theta = model_and_data(OPTIONS[1])
    probability, gradient = marginal_gradient(model, theta, data, 4, 2, 1)
    assert probability == pytest.approx(model.marginals(theta, data)[9, 1], abs=1e-10)
    for k in range(0, len(theta), 7):
        step = np.zeros(len(theta))
        step[k] = 1e-5
        ahead, behind = (model.marginals(theta + sign * step, data)[9, 1] for sign in (1, -1))
        assert gradient[k] == pytest.approx((ahead - behind) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("policy", ["FL", "PL2"])
def test_standard_errors_are_those_of_the_sandwich_by_differences(policy):
    data = without_runs(random_sequences(6, (4, 5, 3) * 40, n_features=2))
    fit = ff.fit(
        ff.ChainCRF(K, 2, order=2, transitions="none", end=False, unseen_transitions="forbidden"),
        data,
        policy,
        sigma2=2.0,
        tol=1e-9,
    )
    model, theta = fit.model, fit.theta
    selection = ff.Policy.parse(policy).bind(model.structure(data)).draw(0, 0, data.n)
    problem = model.compile(data, selection)
    step, r = 1e-4, len(theta)
    scores = np.empty((data.n, r))
    hessian = np.empty((r, r))
    for k in range(r):
        e = np.zeros(r)
        e[k] = step
        scores[:, k] = (problem.row_values(theta + e) - problem.row_values(theta - e)) / (2 * step)
        hessian[k] = (problem.value_grad(theta - e)[1] - problem.value_grad(theta + e)[1]) / (2 * step)
    bread = np.linalg.inv(hessian + np.eye(r) / 2.0)
    meat = scores - scores.mean(axis=0)
    ratio = np.sqrt(np.diag(bread @ (meat.T @ meat) @ bread)) / fit.standard_errors("robust")
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)  # up to n / (n − 1)
    assert 0.97 < ratio[0] < 1.01


def test_triples_of_labels():
    data = Sequences([0, 3, 3, 4], [0, 0, 0, 0, 0], [], None, [1, 0, 1, 1], 0, 2)  # type: ignore[arg-type]
    start = 2
    codes = [((1 * 3) + 0) * 2 + 1, ((start * 3) + 1) * 2 + 0, ((start * 3) + start) * 2 + 1]
    assert observed_triples(data, start=True).tolist() == codes
    assert observed_triples(data, start=False).tolist() == codes[:1]
    assert len(every_triple(2)) == 8 + 4 + 2
    triples = LabelTriples.of(2, np.array(codes))
    assert (triples.n_states, triples.n_arcs) == (4, 3)
    model = ff.ChainCRF(2, 0, order=2, transitions="none", end=False).observe(data)
    assert list(model.parameter_names) == ["y1,y0->y1", "^,y1->y0", "^,^->y1"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"order": 3}, "order is 3; it must be an integer from 1 to 2"),
        ({"unseen_transitions": "forbidden"}, "use it with order=2"),
        ({"order": 2, "unseen_transitions": "no"}, "unseen_transitions is 'no'; it must be 'zero' or 'forbidden'"),
        ({"order": 2, "label_pairs": True}, "need order=1"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, match):
    with pytest.raises(ModelError, match=match):
        ff.ChainCRF(2, 2, **options)


def test_what_a_second_order_chain_cannot_do_is_refused():
    model, data, theta = model_and_data(OPTIONS[2])
    with pytest.raises(ModelError, match="no matrix of couplings"):
        model.coupling_matrix(theta)
    with pytest.raises(FieldfitError, match="method='sgd' is available for chains of first order"):
        ff.fit(model, data, "FL", sigma2=1.0, method="sgd")
    with pytest.raises(ModelError, match="400 labels have 64,000,000 triples"):
        every_triple(400)
    given = np.zeros(data.n_tokens, dtype=np.int32)
    with pytest.raises(DataError, match=r"No labels are possible for sequence 0 .*4 tokens"):
        model.predict(theta, data, given)
    with pytest.raises(DataError, match="No labels are possible"):
        model.marginals(theta, data, given)
