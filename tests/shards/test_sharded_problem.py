"""A problem in shards answers what the whole problem answers, and fits give the whole problem's estimate."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.inference import ProgramSet
from fieldfit.models.field_information import Lattice
from fieldfit.shards.backend import LocalBackend
from fieldfit.types import ConvergenceWarning, DataError, FieldfitError, WidthError


def boltzmann():
    model = ff.BoltzmannMachine(4, biases=True)
    theta = np.linspace(-0.6, 0.7, model.n_parameters)
    return model, model.sample(theta, 300, random_state=1).values


def potts():
    model = ff.Potts(3, 3)
    theta = np.linspace(-0.6, 0.7, model.n_parameters)
    return model, model.sample(theta, 200, random_state=1).values


def missing():
    model, values = boltzmann()
    values = values.astype(float)
    values[::7, 1] = np.nan
    return model, values


def chain():
    random = np.random.default_rng(0)
    lengths = random.integers(1, 6, 60)
    tokens = int(lengths.sum())
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    features, labels = (random.integers(0, kinds, tokens).astype(np.int32) for kinds in (5, 3))
    return ff.ChainCRF(3, 5), Sequences(offsets, np.arange(tokens + 1), features, None, labels, 5, 3)


CASES = [(boltzmann, "PL1 + 0.4*PL2"), (potts, "PL1"), (missing, "PL1"), (chain, "0.5*PL1 + PL2"), (potts, "0.5*FL")]


@pytest.mark.slow
@pytest.mark.parametrize(("example", "policy", "keep"), [(*case, None) for case in CASES] + [(*CASES[0], 1)])
def test_all_sums_are_those_of_the_whole(example, policy, keep):
    model, data = example()
    options: dict[str, Any] = {"sigma2": 1.0, "random_state": 2, "max_iter": 2}
    with pytest.warns(ConvergenceWarning):
        whole = ff.fit(model, data, policy, **options).problem
    with pytest.warns(ConvergenceWarning):
        split = ff.fit(model, data, policy, shards=7, backend=LocalBackend(keep=keep), **options).problem
    random = np.random.default_rng(3)
    theta, v = random.normal(0, 0.3, (2, whole.n_parameters))
    weight = random.random(whole.n_samples)
    assert (split.n_samples, split.n_families) == (whole.n_samples, whole.n_families)
    for w in (None, weight):
        value, gradient = whole.value_grad(theta, w)
        assert split.value_grad(theta, w)[0] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(split.value_grad(theta, w)[1], gradient, atol=1e-10)
        for name in ("hessian_product", "score_product"):
            np.testing.assert_allclose(
                getattr(split, name)(theta, v, w), getattr(whole, name)(theta, v, w), atol=1e-9, err_msg=name
            )
        for name in ("hessian_matrix", "score_moment", "family_statistics", "family_products"):
            np.testing.assert_allclose(
                getattr(split, name)(theta, w), getattr(whole, name)(theta, w), atol=1e-9, err_msg=name
            )
        for name in ("hessian_diagonal", "information_diagonal"):
            mine, theirs = getattr(split, name)(theta, w), getattr(whole, name)(theta, w)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                np.testing.assert_allclose(mine, theirs, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(split.row_values(theta), whole.row_values(theta), atol=1e-11)
    np.testing.assert_allclose(split.row_products(theta, v), whole.row_products(theta, v), atol=1e-11)
    np.testing.assert_allclose(split.family_scores(theta, 5, 55), whole.family_scores(theta, 5, 55), atol=1e-11)
    np.testing.assert_array_equal(split.betas, whole.betas)


@pytest.mark.parametrize(("example", "policy"), CASES)
def test_a_fit_in_shards_is_the_fit(example, policy):
    model, data = example()
    whole = ff.fit(model, data, policy, sigma2=2.0, random_state=5, tol=1e-9)
    split = ff.fit(model, data, policy, sigma2=2.0, random_state=5, tol=1e-9, shards=5)
    np.testing.assert_allclose(split.theta, whole.theta, atol=1e-6)
    np.testing.assert_allclose(split.standard_errors(), whole.standard_errors(), rtol=1e-5)
    assert split.cost == whole.cost
    assert split.fingerprint == whole.fingerprint
    assert split.converged


def test_sample_weights_groups_and_counts():
    model, values = boltzmann()
    random = np.random.default_rng(0)
    weight = random.random(300)
    weight[:60] = 0.0  # the first of five shards has no weight at all
    groups = random.integers(0, 40, 300)
    for options in (
        {"sample_weight": weight},
        {"groups": groups},
        {"sample_weight": random.integers(0, 4, 300), "weight_kind": "counts"},
    ):
        whole = ff.fit(model, values, "PL1 + 0.5*PL2", tol=1e-9, **options)
        split = ff.fit(model, values, "PL1 + 0.5*PL2", tol=1e-9, shards=5, **options)
        np.testing.assert_allclose(split.theta, whole.theta, atol=1e-6)
        np.testing.assert_allclose(split.standard_errors(), whole.standard_errors(), rtol=1e-5)
        assert split.total == whole.total


def test_automatic_weights_and_second_stages():
    model, values = boltzmann()
    whole = ff.fit(model, values, "PL1 + 0.5*PL2", weights="auto", tol=1e-8)
    split = ff.fit(model, values, "PL1 + 0.5*PL2", weights="auto", tol=1e-8, shards=4)
    np.testing.assert_allclose(split.weights.beta, whole.weights.beta, atol=1e-4)
    np.testing.assert_allclose(split.theta, whole.theta, atol=1e-4)
    whole = ff.fit(model, values, "PL1 >> optimal", tol=1e-9)
    split = ff.fit(model, values, "PL1 >> optimal", tol=1e-9, shards=4)
    np.testing.assert_allclose(split.theta, whole.theta, atol=1e-6)


def test_another_selection_is_cut_into_the_shards():
    model, values = boltzmann()
    whole, split = ff.fit(model, values, "0.5*PL1").prepared, ff.fit(model, values, "0.5*PL1", shards=4).prepared
    (part,) = whole.selection.parts
    selection = replace(whole.selection, parts=(replace(part, beta=np.array([1.0, 0.5, 0.2, 0.3])),))
    theta = np.linspace(-1, 1, model.n_parameters)
    value, gradient = whole.compile(selection).value_grad(theta)
    assert split.compile(selection).value_grad(theta)[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(split.compile(selection).value_grad(theta)[1], gradient, atol=1e-11)


def test_the_selection_of_a_sample_does_not_depend_on_the_shards():
    model, _ = boltzmann()
    bound = ff.Policy.parse("0.5*PL1 + 0.2*PL2").bind(model.structure())
    whole, part = bound.draw(7, 0, 100), bound.draw(7, 30, 60)
    for piece, drawn in zip(whole.between(30, 60).parts, part.parts, strict=True):
        np.testing.assert_array_equal(piece.indices, drawn.indices)
        np.testing.assert_array_equal(piece.indptr, drawn.indptr)
        assert piece.start == drawn.start == 30


def test_a_large_shard_gives_its_preconditioner():
    model = ff.BoltzmannMachine(12, biases=True)
    values = model.sample(np.full(model.n_parameters, 0.1), 3000, random_state=0).values
    split = ff.fit(model, values, "PL1", shards=3)
    theta = np.zeros(model.n_parameters)
    operator = split.problem.preconditioner(theta, theta)
    whole = ff.fit(model, values, "PL1").problem.preconditioner(theta, theta)
    v = np.linspace(-1, 1, model.n_parameters)
    assert operator(v) @ whole(v) / (np.linalg.norm(operator(v)) * np.linalg.norm(whole(v))) > 0.98
    assert np.linalg.norm(operator(v)) == pytest.approx(np.linalg.norm(whole(v)), rel=0.2)
    assert split.hessian_products == 0


def test_bad_requests_get_a_sentence():
    model, values = boltzmann()
    for shards in (0, 1.5, True, "3"):
        with pytest.raises(FieldfitError, match="shards is"):
            ff.fit(model, values, shards=shards)  # type: ignore[arg-type]
    with pytest.raises(FieldfitError, match=r"backend is a str; it must be a distributed\.Client"):
        ff.fit(model, values, backend="tcp://here")
    with pytest.raises(DataError, match="wide_rows='drop' works in one process"):
        ff.fit(model, values, shards=2, wide_rows="drop")
    assert ff.fit(model, values[:3], "PL1", sigma2=1.0, shards=50).n == 3


def test_rows_too_wide_are_numbered_among_all_samples():
    table = np.random.default_rng(0).integers(0, 2, (40, 30)).astype(float)
    table[17, :27] = np.nan
    with pytest.raises(WidthError, match=r"part 2 .* row 17 ") as caught:
        ff.fit(ff.BoltzmannMachine(30, biases=True), table, "PL1", sigma2=1.0, shards=4)
    assert caught.value.rows.tolist() == [17]


@pytest.mark.parametrize(("policy", "m"), [("FL", 13), ("FL", 10), ("PL1 >> FL", 13)])
def test_the_full_likelihood_costs_what_it_costs_in_one_table(policy, m, monkeypatch):
    """Counts the sums over states and the Hessians of a fit; of r > 32 parameters, where products are not made at once."""
    model = ff.BoltzmannMachine(m, biases=True)
    values = model.sample(np.linspace(-0.4, 0.5, model.n_parameters), 400, random_state=1).values
    counts = {"sums": 0, "lattices": 0}
    run, covariance = ProgramSet.run, Lattice.covariance

    def counted_run(self, log_tables, configurations, **outputs):
        counts["sums"] += 1
        return run(self, log_tables, configurations, **outputs)

    def counted_covariance(self, log_tables):
        counts["lattices"] += 1
        return covariance(self, log_tables)

    monkeypatch.setattr(ProgramSet, "run", counted_run)
    monkeypatch.setattr(Lattice, "covariance", counted_covariance)
    made = {}
    for shards in (None, 5):
        counts.update(sums=0, lattices=0)
        fit = ff.fit(model, values, policy, sigma2=10.0, shards=shards)
        made[shards] = (fit.evaluations, counts["sums"], counts["lattices"], fit.problem.hessian_evaluations)
    assert made[None][2] > 0
    for whole, split in zip(made[None], made[5], strict=True):
        assert abs(split - whole) <= 3  # the first stages end elsewhere
    reweighted = fit.problem.with_betas(np.array([0.5]))
    assert reweighted.hessian_evaluations == made[5][3]


def test_the_summary_counts_the_second_stage():
    model, values = boltzmann()
    for policy in ("PL1 >> FL", "FL"):
        whole, split = ff.fit(model, values, policy), ff.fit(model, values, policy, shards=2)
        assert split.cost == whole.cost
        assert split.cost.components > 0
        assert f": {whole.cost.components:,} components" in split.summary()
