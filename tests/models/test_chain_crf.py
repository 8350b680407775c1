import pickle
from typing import Any

import numpy as np
import pytest
from chain_oracle import FULL, LENGTHS, K, central_gradient, composite, crf_tables, mixtures, plain, random_sequences

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models import chain_problem
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.policies import as_policy
from fieldfit.threads import set_threads
from fieldfit.types import DataError, ModelError

OPTIONS: dict[str, Any] = {
    "all pairs": {"pairs": "all"},
    "observed": {},
    "as CRFsuite": {"transitions": "observed", "start": False, "end": False},
    "label pairs": {"label_pairs": True},
    "some label pairs": {"pairs": "all", "label_pairs": [0, 3]},
}


def make(options, valued=True, seed=0):
    data = random_sequences(seed, valued=valued)
    model = ChainCRF(K, data.n_features, **OPTIONS[options]).observe(data)
    theta = np.random.default_rng(seed + 100).normal(size=model.n_parameters)
    return data, model, theta


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mixture", mixtures())
def test_values_are_those_of_enumeration(options, mixture):
    data, model, theta = make(options)
    families = mixtures()[mixture]
    problem = ChainProblem(model.layout, data, families)
    expected = composite(lambda i: crf_tables(model, theta, data, i), data, families)
    np.testing.assert_allclose(problem.row_values(theta), expected, rtol=0, atol=1e-10)
    assert problem.value_grad(theta)[0] == pytest.approx(expected.sum(), abs=1e-10)
    weight = np.random.default_rng(3).normal(size=data.n_sequences)
    assert problem.value_grad(theta, weight)[0] == pytest.approx(weight @ expected, abs=1e-10)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mixture", mixtures())
def test_derivatives_are_those_of_central_differences(options, mixture):
    data, model, theta = make(options)
    problem = ChainProblem(model.layout, data, mixtures()[mixture])
    rng = np.random.default_rng(5)
    v, weight = rng.normal(size=len(theta)), rng.normal(size=data.n_sequences)
    gradient = problem.value_grad(theta, weight)[1]
    np.testing.assert_allclose(
        gradient, central_gradient(lambda t: weight @ problem.row_values(t), theta), rtol=0, atol=1e-7
    )
    step = 1e-5
    slope = (problem.value_grad(theta + step * v, weight)[1] - problem.value_grad(theta - step * v, weight)[1]) / (
        2 * step
    )
    np.testing.assert_allclose(problem.hessian_product(theta, v, weight), slope, rtol=0, atol=1e-6)
    moved = (problem.row_values(theta + step * v) - problem.row_values(theta - step * v)) / (2 * step)
    np.testing.assert_allclose(problem.row_products(theta, v), moved, rtol=0, atol=1e-7)


@pytest.mark.parametrize("options", OPTIONS)
def test_scores_of_sequences_add_up(options):
    data, model, theta = make(options)
    problem = ChainProblem(model.layout, data, mixtures()["sparse and FL"])
    v = np.random.default_rng(6).normal(size=len(theta))
    scores = problem.scores(theta, 0, data.n_sequences)
    np.testing.assert_allclose(scores.sum(axis=0), problem.value_grad(theta)[1], atol=1e-12)
    np.testing.assert_allclose(scores @ v, problem.row_products(theta, v), atol=1e-12)
    np.testing.assert_allclose(scores.T @ (scores @ v), problem.score_product(theta, v), atol=1e-11)


@pytest.mark.parametrize("valued", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_blocks_of_residuals_change_no_sum_and_threads_no_bit(options, valued, monkeypatch):
    lengths = np.random.default_rng(0).integers(0, 30, 40)
    data = random_sequences(2, lengths=lengths, n_features=40, valued=valued)
    model = ChainCRF(K, 40, **OPTIONS[options]).observe(data)
    random = np.random.default_rng(1)
    theta, v = random.normal(size=(2, model.n_parameters))
    weight = random.normal(size=data.n_sequences)
    families = mixtures(lengths)["sparse and FL"] + (plain(1, 0.3),)
    results = []
    monkeypatch.setattr("fieldfit.threads.SMALL_WORK", 0)  # several threads for so little
    for tokens, threads, blocks in ((10**6, 1, 1), (150, 1, 4), (150, 2, 4), (1, 2, int(data.n_tokens))):
        monkeypatch.setattr(chain_problem, "BLOCK_TOKENS", tokens)
        problem = ChainProblem(model.layout, data, families)
        assert problem.tokens.n_blocks == pytest.approx(blocks, abs=1)
        set_threads(threads)
        try:
            value, gradient = problem.value_grad(theta, weight)
            product, diagonal = problem.hessian_product(theta, v, weight), problem.hessian_diagonal(theta)
            results.append((np.array([value]), gradient, product, diagonal, problem.row_values(theta)))
        finally:
            set_threads(None)
    for result in results[1:]:
        for own, whole in zip(result, results[0], strict=True):
            np.testing.assert_allclose(own, whole, rtol=0, atol=1e-10)
    for one, two in zip(results[1], results[2], strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("valued", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_scores_by_family_are_gradients_of_single_sequences(options, valued):
    # 600 tokens make several chunks, so that some features are frequent enough for the table of hot ones.
    lengths = np.random.default_rng(0).integers(0, 30, 40)
    data = random_sequences(2, lengths=lengths, n_features=40, valued=valued)
    model = ChainCRF(K, 40, **OPTIONS[options]).observe(data)
    theta = np.random.default_rng(1).normal(size=model.n_parameters)
    families = mixtures(lengths)["sparse and FL"] + (plain(1, 0.3), mixtures(lengths)["rows"][1])
    problem = ChainProblem(model.layout, data, families)
    assert problem.tokens.n_hot > 0
    scores = problem.family_scores(theta, 3, 37)
    assert scores.shape == (34, len(families), model.n_parameters)
    for row in range(3, 37):
        for place, family in enumerate(families):
            own = family.subset(np.array([row]))._replace(beta=1.0)
            single = ChainProblem(model.layout, data.subset([row]), (own,))
            np.testing.assert_allclose(scores[row - 3, place], single.value_grad(theta)[1], rtol=0, atol=1e-12)
    set_threads(1)
    try:
        np.testing.assert_array_equal(scores, problem.family_scores(theta, 3, 37))
    finally:
        set_threads(None)


@pytest.mark.parametrize("options", ["all pairs", "observed", "label pairs"])
def test_diagonal_is_exact_where_windows_share_no_feature(options):
    # One window of one token a sequence: no covariances are left out, so the diagonal is that of the Hessian.
    data = random_sequences(1, lengths=(1,) * 12)
    model = ChainCRF(K, data.n_features, **OPTIONS[options]).observe(data)
    once = Sequences(
        data.offsets,
        np.arange(13),
        np.random.default_rng(0).integers(0, 5, 12).astype(np.int32),
        np.random.default_rng(1).normal(size=12),
        data.labels,
        5,
        K,
    )
    problem = ChainProblem(model.layout, once, (FULL,))
    theta = np.random.default_rng(2).normal(size=model.n_parameters)
    exact = [-problem.hessian_product(theta, e)[i] for i, e in enumerate(np.eye(len(theta)))]
    np.testing.assert_allclose(problem.hessian_diagonal(theta), exact, atol=1e-12)


def test_diagonal_of_edges_is_the_sum_of_their_variances():
    data, model, theta = make("all pairs")
    weight = np.linspace(-1, 2, data.n_sequences)
    edges = model.edge_marginals(theta, data)
    a, b = model.layout.bounds[:2]
    expected = np.zeros((K, K))
    for i in range(data.n_sequences):
        inside = edges[data.offsets[i] : data.offsets[i + 1]]
        expected += weight[i] * (inside * (1 - inside)).sum(axis=0)
    problem = ChainProblem(model.layout, data, (FULL,))
    np.testing.assert_allclose(problem.hessian_diagonal(theta, weight)[a:b], expected.reshape(-1), atol=1e-12)
    diagonal = ChainProblem(model.layout, data, mixtures()["PL1@.5 + PL2@.7 + FL@.3"]).hessian_diagonal(theta)
    assert diagonal.min() >= 0
    assert diagonal.max() > 0


@pytest.mark.parametrize("options", OPTIONS)
def test_one_thread_and_two_give_the_same_bits(options):
    lengths = np.random.default_rng(0).integers(0, 40, 100)
    data = random_sequences(2, lengths=lengths, n_labels=5, n_features=50)
    model = ChainCRF(5, 50, **OPTIONS[options]).observe(data)
    theta = np.random.default_rng(1).normal(size=model.n_parameters)
    problem = ChainProblem(model.layout, data, mixtures(lengths)["sparse and FL"] + (plain(1, 0.3), plain(4, 0.2)))
    answers = []
    for threads in (1, 2):
        set_threads(threads)
        try:
            value, gradient = problem.value_grad(theta)
            answers.append((value, gradient, problem.hessian_product(theta, gradient), problem.row_values(theta)))
        finally:
            set_threads(None)
    for one, two in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, two)


def test_binary_features_are_features_of_value_one():
    data, model, theta = make("observed", valued=False)
    ones = Sequences(
        data.offsets, data.indptr, data.indices, np.ones(len(data.indices)), data.labels, data.n_features, K
    )
    families = mixtures()["PL1@.5 + PL2@.7 + FL@.3"]
    value, gradient = ChainProblem(model.layout, data, families).value_grad(theta)
    other, slope = ChainProblem(model.layout, ones, families).value_grad(theta)
    assert value == pytest.approx(other, abs=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-12)


def test_observed_pairs_are_all_pairs_with_zeros():
    data = random_sequences(4, lengths=(30,) * 60, n_labels=6, n_features=40, valued=False)
    seen = ChainCRF(6, 40).observe(data)
    full = ChainCRF(6, 40, pairs="all")
    rng = np.random.default_rng(0)
    theta = rng.normal(size=seen.n_parameters)
    big = np.zeros(full.n_parameters)
    features = np.repeat(np.arange(40), np.diff(seen.layout.pair_ptr))
    places = features * 6 + seen.layout.pair_labels
    big[places] = theta[: seen.layout.n_state]
    big[240:] = theta[seen.layout.n_state :]
    families = mixtures((30,) * 60)["PL1@.5 + PL2@.7 + FL@.3"]
    value, gradient = ChainProblem(seen.layout, data, families).value_grad(theta)
    other, slope = ChainProblem(full.layout, data, families).value_grad(big)
    assert value == pytest.approx(other, rel=1e-13)
    np.testing.assert_allclose(gradient[: seen.layout.n_state], slope[places], atol=1e-9)
    np.testing.assert_allclose(gradient[seen.layout.n_state :], slope[240:], atol=1e-9)


def test_policies_draw_windows_that_compile():
    lengths = (5, 1, 0, 7, 2)
    data = random_sequences(7, lengths=lengths)
    model = ChainCRF(K, data.n_features).observe(data)
    bound = as_policy("0.5*PL1@0.5 + 0.6*PL2/sentence@0.25 + 0.5*FL@2 + PL3").bind(model.structure(data))
    selection = bound.draw(11, 0, data.n_sequences)
    problem = model.compile(data, selection)
    assert isinstance(problem, ChainProblem)
    theta = np.random.default_rng(1).normal(size=model.n_parameters)
    expected = composite(lambda i: crf_tables(model, theta, data, i), data, problem.families)
    np.testing.assert_allclose(problem.row_values(theta), expected, atol=1e-10)
    np.testing.assert_array_equal(problem.betas, [0.5, 0.25, 2.0, 1.0])


def test_pickled_problem_and_rebuilt_model_are_the_same():
    data, model, theta = make("label pairs")
    problem = ChainProblem(model.layout, data, (FULL, plain(1)))
    value, gradient = problem.value_grad(theta)
    again = pickle.loads(pickle.dumps(problem))
    rebuilt = ChainCRF.from_specification(*model.specification())
    for other in (again, ChainProblem(rebuilt.layout, data, (FULL, plain(1)))):
        other_value, other_gradient = other.value_grad(theta)
        assert other_value == value
        np.testing.assert_array_equal(other_gradient, gradient)
    assert list(rebuilt.parameter_names) == list(model.parameter_names)


def test_gradient_can_be_written_in_place():
    data, model, theta = make("observed")
    problem = ChainProblem(model.layout, data, (FULL,))
    place = np.full(model.n_parameters, np.nan)
    _, gradient = problem.value_grad(theta, out=place)
    assert gradient is place
    np.testing.assert_array_equal(place, problem.value_grad(theta)[1])


def test_names_are_made_one_at_a_time():
    model = ChainCRF(300, 100_000, pairs="all")
    names = model.parameter_names
    assert len(names) == model.n_parameters == 300 * 100_000 + 300 * 300 + 600
    assert names[301] == "x1:y1"
    assert names[-1] == "y299->$"
    assert names[30_000_000:30_000_002] == ["y0->y0", "y0->y1"]
    named = ChainCRF(2, 1, pairs="all", labels=["N", "V"], features=["dog"])
    assert list(named.parameter_names) == [
        "dog:N", "dog:V", "N->N", "N->V", "V->N", "V->V", "^->N", "^->V", "N->$", "V->$",
    ]  # fmt: skip


def test_a_single_label_is_certain():
    data = random_sequences(0, n_labels=1)
    model = ChainCRF(1, data.n_features, pairs="all")
    theta = np.random.default_rng(0).normal(size=model.n_parameters)
    value, gradient = ChainProblem(model.layout, data, (FULL, plain(1))).value_grad(theta)
    assert value == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(gradient, 0, atol=1e-12)


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0, 0)])
def test_sequences_without_tokens_add_nothing(lengths):
    data = random_sequences(0, lengths=lengths)
    model = ChainCRF(K, data.n_features, pairs="all")
    problem = ChainProblem(model.layout, data, (FULL, plain(1), plain(2)))
    value, gradient = problem.value_grad(np.ones(model.n_parameters))
    assert value == 0
    np.testing.assert_array_equal(gradient, 0)
    assert model.predict(np.ones(model.n_parameters), data).shape == (0,)
    assert model.marginals(np.ones(model.n_parameters), data).shape == (0, K)


def test_a_shard_sum_is_the_whole():
    data, model, theta = make("observed")
    families = mixtures()["sparse"]
    value, gradient = ChainProblem(model.layout, data, families).value_grad(theta)
    parts = []
    for rows in (np.arange(0, 3), np.arange(3, len(LENGTHS))):
        shard = ChainProblem(model.layout, data.subset(rows), tuple(f.subset(rows) for f in families))
        parts.append(shard.value_grad(theta))
    assert parts[0][0] + parts[1][0] == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(parts[0][1] + parts[1][1], gradient, atol=1e-12)


def test_bad_input_is_refused():
    data, model, theta = make("observed")
    with pytest.raises(ModelError, match="observe"):
        _ = ChainCRF(K, 5).n_parameters
    with pytest.raises(ModelError, match="'observed' or 'all'"):
        ChainCRF(K, 5, pairs="seen")
    with pytest.raises(ModelError, match="names of labels"):
        ChainCRF(K, 5, labels=["a"])
    with pytest.raises(DataError, match="encode them with"):
        ChainCRF(K, 6, pairs="all").read(data)
    with pytest.raises(DataError, match="Sequences"):
        model.read([["a"]])
    with pytest.raises(ModelError, match="label_pairs"):
        ChainCRF(K, 5, label_pairs=[7]).observe(data)
    with pytest.raises(ModelError, match="4 numbers"):
        ChainProblem(model.layout, data, (FULL,)).value_grad(theta[:4])
    with pytest.raises(ValueError, match="row_weight"):
        ChainProblem(model.layout, data, (FULL,)).value_grad(theta, np.ones(2))
    whole = ChainProblem(model.layout, data, (FULL,))
    for start, stop in ((-1, 2), (3, 7)):
        with pytest.raises(ValueError, match="sequences that do not exist"):
            whole.family_scores(theta, start, stop)
    for change, message in (
        ({"first": 4}, "sequences that do not exist"),
        ({"transition_places": np.array([16])}, "sequences x families x parameters"),
        ({"transition_places": np.full(K * K, 16)}, "outside the label pairs"),
        ({"start": False}, "sequences x families x parameters"),
        ({"families": [FULL, FULL]}, "sequences x families x parameters"),
        ({"n_threads": 0}, "n_threads"),
    ):
        given = {
            "tokens": whole.tokens,
            "weights": model.layout.unpack(theta),
            "families": [FULL],
            "first": 0,
            "transition_places": model.layout.transition_places,
            "start": True,
            "end": True,
            "scores": np.empty((3, 1, model.n_parameters)),
            "n_threads": 1,
        }
        with pytest.raises(ValueError, match=message):
            _kernels.chain_sequence_scores(**{**given, **change})
    bad = plain(2)._replace(indptr=np.array([0, 1, 1, 1, 1, 1, 1]), indices=np.array([3]))
    problem = ChainProblem(model.layout, data, (bad,))
    with pytest.raises(ValueError, match="outside its sequence"):
        problem.value_grad(theta)
