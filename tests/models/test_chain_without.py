"""Chains without weights that are 0: the same value, and the same derivatives of the weights that remain."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from chain_oracle import K, central_gradient, composite, crf_tables, mixtures, plain, random_sequences, without_runs

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_problem import ChainProblem, Windows
from fieldfit.models.triple_problem import TripleProblem
from fieldfit.optim import working_set

OPTIONS = [
    {"pairs": "all"},
    {"pairs": "observed", "transitions": "observed"},
    {"pairs": "all", "label_pairs": True},
    {"pairs": "observed", "start": False, "end": False},
]
#: Many more sequences than hot rows of the kernels' table, so that rare features are gathered from the parameters.
LONG = (7, 3, 12, 1, 0, 9) * 120


def compare(problem: ChainProblem, theta, at_zero, row_weight=None):
    part = problem.without(at_zero)
    assert part is not None
    smaller, places = part
    assert set(np.flatnonzero(~at_zero)) <= set(places)
    value, gradient = problem.value_grad(theta, row_weight)
    other, few = smaller.value_grad(theta[places], row_weight)
    assert other == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(few, gradient[places], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(smaller.row_values(theta[places]), problem.row_values(theta), rtol=1e-12)
    direction = np.random.default_rng(9).normal(size=len(places))
    whole = np.zeros(len(theta))
    whole[places] = direction
    np.testing.assert_allclose(
        smaller.hessian_product(theta[places], direction), problem.hessian_product(theta, whole)[places], atol=1e-9
    )


def sparse(model, seed, share):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=model.n_parameters)
    at_zero = rng.random(model.n_parameters) < share
    state, _, _, end, last = model.layout.bounds
    at_zero[state:end] = at_zero[last:] = False  # transitions, first and last labels, label triples
    theta[at_zero] = 0.0
    return theta, at_zero


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("valued", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 1.0])
def test_values_and_derivatives_are_those_of_all_weights(options, valued, share):
    data = random_sequences(3, LONG, n_features=3_000, valued=valued)
    model = ff.ChainCRF(K, data.n_features, **options).observe(data)
    theta, at_zero = sparse(model, 4, share)
    weight = np.random.default_rng(5).random(data.n_sequences)
    for families in ((plain(0),), (plain(1), plain(3, 0.4))):
        problem = ChainProblem(model.layout, data, families)
        compare(problem, theta, at_zero, weight)


def test_rare_and_frequent_features_are_both_left_out():
    data = random_sequences(3, LONG, n_labels=11, n_features=30_000, valued=False)
    data = replace(data, indices=(data.indices * (data.indices / 30_000) ** 3).astype(np.int32))  # some are frequent
    model = ff.ChainCRF(11, data.n_features, pairs="all").observe(data)
    problem = ChainProblem(model.layout, data, (plain(0),))
    assert 0 < problem.tokens.n_hot < len(np.unique(data.indices))
    theta, at_zero = sparse(model, 4, 0.97)
    compare(problem, theta, at_zero)
    nothing, everything = (
        np.zeros(model.n_parameters, dtype=bool),
        np.arange(model.n_parameters) < model.layout.n_state,
    )
    for at_zero, rows in ((nothing, problem.tokens.n_hot), (everything, 0)):
        smaller, _ = problem.without(at_zero)
        assert isinstance(smaller, ChainProblem)
        assert smaller.tokens.n_hot == rows


def test_selected_windows_and_second_order_chains():
    data = random_sequences(6)
    model = ff.ChainCRF(K, data.n_features, pairs="all").observe(data)
    theta, at_zero = sparse(model, 7, 0.5)
    for families in mixtures().values():
        compare(ChainProblem(model.layout, data, families), theta, at_zero)
    data = without_runs(random_sequences(8, (4, 6) * 60))
    model = ff.ChainCRF(K, data.n_features, order=2).observe(data)
    theta, at_zero = sparse(model, 7, 0.5)
    compare(TripleProblem(model.layout, data, (Windows(0, 1.0, None, None, None),)), theta, at_zero)


def test_lists_that_do_not_belong_to_the_weights_are_refused():
    data = random_sequences(6)
    model = ff.ChainCRF(K, data.n_features, pairs="all").observe(data)
    tokens = ChainProblem(model.layout, data, (plain(0),)).tokens
    keep = np.zeros(model.layout.n_state, dtype=np.uint8)
    keep[[1, 4]] = 1
    pointer = np.array([0, 1] + [2] * (data.n_features - 1))
    assert (
        tokens.selected(keep=keep, pair_ptr=pointer, pair_labels=np.array([1, 1], np.int32)).padded == tokens.padded
    )
    for labels in ([1, 2], [1], [1, 1, 1]):
        with pytest.raises(ValueError, match="pair_ptr"):
            tokens.selected(keep=keep, pair_ptr=pointer, pair_labels=np.array(labels, np.int32))
    with pytest.raises(ValueError, match="one entry a state weight"):
        tokens.selected(keep=keep[1:], pair_ptr=pointer, pair_labels=np.array([1, 1], np.int32))


def test_label_pairs_that_do_not_belong_to_the_features_are_refused():
    data = random_sequences(6)
    given: dict[bool, tuple[Any, dict[str, Any]]] = {}
    for label_pairs in (False, True):
        model = ff.ChainCRF(K, data.n_features, pairs="all", label_pairs=label_pairs).observe(data)
        tokens = ChainProblem(model.layout, data, (plain(0),)).tokens
        state = np.ones(model.layout.n_state, dtype=bool)
        kept = model.layout.selected(state, np.ones(model.layout.n_columns, dtype=bool))
        given[label_pairs] = (
            tokens,
            {
                "keep": state.view(np.uint8),
                "pair_ptr": kept.pair_ptr,
                "pair_labels": kept.pair_labels,
                "column_ptr": kept.column_ptr,
                "columns": kept.kernel_columns,
            },
        )
    (plain_tokens, _), (tokens, lists) = given[False], given[True]
    tokens.selected(**lists)
    with pytest.raises(ValueError, match="features of label pairs"):
        plain_tokens.selected(**lists)
    with pytest.raises(ValueError, match="features of label pairs"):
        tokens.selected(**lists | {"column_ptr": lists["column_ptr"][:-1]})
    with pytest.raises(ValueError, match="must rise to columns"):
        tokens.selected(**lists | {"columns": lists["columns"][:-1]})
    with pytest.raises(ValueError, match="go together"):
        tokens.selected(**lists | {"columns": None})
    with pytest.raises(ValueError, match="outside the label pairs"):
        tokens.selected(**lists | {"columns": lists["columns"] + tokens.padded**2})


@pytest.mark.parametrize("chosen", [slice(None), slice(0, 1), slice(0, 0)])
def test_few_label_pairs_with_features(chosen):
    data = random_sequences(3, LONG, n_features=30, valued=True)
    model = ff.ChainCRF(K, data.n_features, label_pairs=True).observe(data)
    end, last = model.layout.bounds[3:]
    at_zero = np.zeros(model.n_parameters, dtype=bool)
    at_zero[end:last] = True
    at_zero[np.arange(end, last)[chosen]] = False
    theta = np.where(at_zero, 0.0, np.random.default_rng(2).normal(size=model.n_parameters))
    problem = ChainProblem(model.layout, data, (plain(0),))
    compare(problem, theta, at_zero)
    part = problem.without(at_zero)
    assert part is not None
    assert part[1].size == (~at_zero).sum()


def sentences() -> Sequences:
    """Sentences whose labels depend on a few of many features."""
    rng = np.random.default_rng(11)
    lengths = rng.integers(3, 12, 150)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    n = int(offsets[-1])
    indices = (1_500 * rng.random((n, 6)) ** 2).astype(np.int32)
    labels = (indices[:, 0] + rng.integers(0, 2, n)) % K
    return Sequences(offsets, np.arange(n + 1) * 6, indices.reshape(-1), None, labels.astype(np.int32), 1_500, K)


@pytest.mark.slow
@pytest.mark.parametrize("pairs", ["observed", "all"])
@pytest.mark.parametrize("l1", [pytest.param(0.3, marks=pytest.mark.slow), 1.0])
def test_a_fit_has_the_same_optimum(pairs, l1, monkeypatch):
    data = sentences()
    model = ff.ChainCRF(K, data.n_features, pairs=pairs).observe(data)
    monkeypatch.setattr(working_set, "_MANY_COORDINATES", 10**9)
    plain_fit = ff.fit(model, data, "FL", sigma2=5.0, l1=l1, tol=1e-7)
    monkeypatch.setattr(working_set, "_MANY_COORDINATES", 100)
    monkeypatch.setattr(working_set, "_LARGEST_SHARE", 0.9)
    asked = []
    without = ChainProblem.without

    def counted(self, at_zero):
        asked.append(at_zero.mean())
        return without(self, at_zero)

    monkeypatch.setattr(ChainProblem, "without", counted)
    fit = ff.fit(model, data, "FL", sigma2=5.0, l1=l1, tol=1e-7)
    assert asked
    assert fit.converged
    assert fit.objective == pytest.approx(plain_fit.objective, rel=1e-8)
    gradient = ChainProblem(model.layout, data, (plain(0),)).value_grad(fit.theta)[1] - fit.theta / 5.0
    scale = 1e-7 * max(1.0, np.abs(gradient).max()) * data.n_sequences
    zero = fit.theta == 0
    np.testing.assert_allclose(gradient[~zero], l1 * np.sign(fit.theta[~zero]), atol=scale)
    assert np.abs(gradient[zero]).max() <= l1 + scale


@pytest.mark.slow
def test_every_optimality_condition_holds_by_enumeration(monkeypatch):
    """The subgradient conditions of a fit that left weights out, with a likelihood that lists every label sequence."""
    data = random_sequences(12, (3, 4, 2, 5, 1, 4, 3, 2) * 2, n_features=6)
    model = ff.ChainCRF(K, data.n_features, pairs="all")
    monkeypatch.setattr(working_set, "_MANY_COORDINATES", 1)
    monkeypatch.setattr(working_set, "_LARGEST_SHARE", 1.0)
    sizes = []
    without = ChainProblem.without

    def counted(self, at_zero):
        part = without(self, at_zero)
        sizes.append(part[0].n_parameters)
        return part

    monkeypatch.setattr(ChainProblem, "without", counted)
    fit = ff.fit(model, data, "FL", sigma2=5.0, l1=1.5, tol=1e-9)
    assert fit.converged
    assert min(sizes) < model.n_parameters

    def likelihood(theta):
        return composite(lambda i: crf_tables(model, theta, data, i), data, (plain(0),)).sum() - theta @ theta / 10

    gradient = central_gradient(likelihood, fit.theta)
    zero = fit.theta == 0
    assert 5 < zero.sum() < model.n_parameters
    np.testing.assert_allclose(gradient[~zero], 1.5 * np.sign(fit.theta[~zero]), atol=1e-6)
    assert np.abs(gradient[zero]).max() <= 1.5 + 1e-6


@pytest.mark.slow
def test_one_thread_and_two_have_the_same_bits(monkeypatch):
    monkeypatch.setattr(working_set, "_MANY_COORDINATES", 100)
    data = sentences()
    model = ff.ChainCRF(K, data.n_features, pairs="all").observe(data)
    thetas = []
    for threads in (1, 2):
        monkeypatch.setattr(ChainProblem, "_threads", threads)
        thetas.append(ff.fit(model, data, "FL", sigma2=5.0, l1=0.5, tol=1e-6).theta)
    np.testing.assert_array_equal(thetas[0], thetas[1])
