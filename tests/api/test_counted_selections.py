"""Fits to samples with counts and a random policy: the copies that have the same Z are one sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import fieldfit as ff
from fieldfit.api.options import EstimationOptions
from fieldfit.api.prepare import Prepared
from fieldfit.api.refine import fit_estimator
from fieldfit.data.dataset import Dataset
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.refinement.staged import as_estimator
from fieldfit.types import FieldfitError

MODEL = ff.Potts(4, 3)
POLICIES = (
    "PL1 + 0.2*PL2",
    "0.5*PL1/row + 0.3*PL2",
    "Multinomial(0.6*PL1 + 0.4*PL2)",
    "PL1 + Partition(2)",
    "Unless(0.3*FL, 0.5*PL1)",
    "PL1 + LogLinear(PL2[0:3]; 0,1: 1.5; 1,2: -1)",
)


def samples(total: int = 6_000) -> tuple[np.ndarray, np.ndarray]:
    theta = np.random.default_rng(0).normal(0, 0.4, MODEL.n_parameters)
    rows, counts = np.unique(MODEL.sample(theta, total, random_state=1).values, axis=0, return_counts=True)
    return rows, counts * 5


def counted(policy: str, **more: Any) -> ff.Fit:
    rows, counts = samples()
    return ff.fit(MODEL, rows, policy, sample_weight=counts, weight_kind="counts", random_state=4, **more)


def dense(selection: Selection, place: int) -> np.ndarray:
    """Z (n, components) of one family."""
    part, n = selection.parts[place], selection.n
    Z = np.zeros((n, part.family.size), dtype=bool)
    if part.indptr is not None and part.indices is not None:
        Z[np.repeat(np.arange(n), np.diff(part.indptr)), part.indices] = True
    else:
        Z[slice(None) if part.rows is None else part.rows] = True
    return Z


def as_copies(prepared: Prepared) -> tuple[Dataset, Selection]:
    """Every copy as a sample with its Z listed."""
    assert prepared.dataset.sample_weight is not None
    times = prepared.dataset.sample_weight.astype(int)
    dataset = prepared.dataset.unweighted().subset(np.repeat(np.arange(len(times)), times))
    bound = prepared.bound.policy.bind(prepared.model.structure(dataset))
    parts = []
    for place, (family, beta) in enumerate(zip(bound.families, bound.betas, strict=True)):
        Z = np.repeat(dense(prepared.selection, place), times, axis=0)
        indptr = np.concatenate([[0], np.cumsum(Z.sum(axis=1))])
        parts.append(FamilySelection(family, beta, indptr=indptr, indices=np.nonzero(Z)[1]))
    return dataset, Selection(dataset.n, tuple(parts))


@pytest.mark.parametrize("policy", POLICIES)
def test_counts_are_their_copies(policy: str) -> None:
    fit = counted(policy, tol=1e-9, sigma2=0.01)
    prepared = fit.needed
    assert fit.counts
    assert fit.total == samples()[1].sum() == prepared.dataset.total_weight
    copies = MODEL.compile(*as_copies(prepared))
    theta = fit.theta + 0.1
    value, gradient = prepared.problem.value_grad(theta, fit.row_weight)
    expected = copies.value_grad(theta)
    np.testing.assert_allclose(value, expected[0], rtol=1e-10)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10, atol=1e-10 * np.abs(expected[1]).max())
    scores = np.concatenate([block for _, block in copies.score_blocks(fit.theta)])
    scores -= scores.mean(axis=0)
    bread = np.linalg.inv(np.diag(fit.penalty.precision) - copies.hessian_matrix(fit.theta))
    errors = np.sqrt(np.diag(bread @ scores.T @ scores @ bread))
    np.testing.assert_allclose(fit.standard_errors(), errors, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fieldfit.types.ConvergenceWarning")
def test_the_gradient_has_the_noise_of_single_draws() -> None:
    """Over 400 seeds at one θ, the mean and variance of the score are those of Z drawn for each copy.

    Σ_i w_i Var_Z ψ_i is the sum over patterns; each test of a right law fails with probability below 1e-5.
    """
    rows, counts = samples(600)
    policy, theta = "0.4*PL1 + 0.2*PL2/row", np.random.default_rng(2).normal(0, 0.3, MODEL.n_parameters)
    direction = np.random.default_rng(3).normal(size=MODEL.n_parameters)
    found = []
    for seed in range(400):
        fit = ff.fit(
            MODEL, rows, policy, sample_weight=counts, weight_kind="counts", random_state=seed, max_iter=0,
            start=theta, sigma2=1.0, check_drift=False,
        )  # fmt: skip
        found.append(fit.problem.value_grad(theta, fit.row_weight)[1] @ direction)
    table = MODEL.read(rows)
    bound = fit.policy.bind(MODEL.structure(table))
    parts = [ff.Policy.parse(f"PL1[{j}]") for j in range(4)] + [ff.Policy.parse("PL2")]
    lams = np.array([0.4] * 4 + [0.2])
    products = []
    for part in parts:
        one = part.bind(MODEL.structure(table))
        products.append(MODEL.compile(table, one.draw(0, 0, table.n)).row_products(theta, direction))
    psi = np.array(products)
    mean, variance = counts @ (lams @ psi), counts @ ((lams * (1 - lams)) @ psi**2)
    assert len(bound.families) == 2
    assert abs(np.mean(found) - mean) < 4.5 * np.sqrt(variance / 400)
    assert 5e-6 < chi2.sf(np.sum((np.array(found) - mean) ** 2) / variance, 400) < 1 - 5e-6


def test_shards_have_the_same_selection() -> None:
    whole = counted("PL1 + 0.2*PL2", tol=1e-9, sigma2=0.01)
    parts = counted("PL1 + 0.2*PL2", tol=1e-9, sigma2=0.01, shards=3)
    assert parts.n == whole.n
    np.testing.assert_allclose(parts.theta, whole.theta, atol=1e-8)
    np.testing.assert_allclose(parts.standard_errors(), whole.standard_errors(), rtol=1e-7)
    again = counted("PL1 + 0.2*PL2", tol=1e-9, sigma2=0.01, shards=3)
    assert np.array_equal(again.theta, parts.theta)


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ("0.5*PL1/row + 0.2*PL2/row", {"weights": "auto"}),
        ("0.5*PL1 >> FL", {"tol": 1e-9}),
        ("0.5*PL1 >> optimal(1)", {}),
    ],
)
def test_automatic_weights_and_second_stages(policy: str, more: dict[str, Any]) -> None:
    """The same as with every copy as a sample that has its Z."""
    model = ff.BoltzmannMachine(4, states=(-1, 1))
    x = model.sample(np.full(model.n_parameters, 0.5), 10_000, random_state=3).values
    rows, counts = np.unique(x, axis=0, return_counts=True)
    fit = ff.fit(model, rows, policy, sample_weight=counts, weight_kind="counts", random_state=4, **more)
    first = ff.fit(
        model, rows, policy.split(" >>")[0], sample_weight=counts, weight_kind="counts", random_state=4
    ).needed
    assert fit.counts
    assert first.dataset.n < 10_000
    dataset, selection = as_copies(first)
    again = fit_estimator(
        model, dataset, as_estimator(policy), EstimationOptions(random_state=4, drawn=selection, **more)
    )
    assert not again.counts
    assert again.total == fit.total
    np.testing.assert_allclose(np.ravel(fit.policy.betas), np.ravel(again.policy.betas), atol=2e-3)
    assert np.abs((fit.theta - again.theta) / again.standard_errors()).max() < 0.01
    np.testing.assert_allclose(fit.standard_errors(), again.standard_errors(), rtol=1e-3)


def test_a_second_stage_draws_for_every_copy() -> None:
    rows, counts = samples(1000)
    model = ff.Potts(4, 3)
    few = ff.fit(model, rows, "PL1 >> 0.3*FL", sample_weight=counts, weight_kind="counts", random_state=2)
    whole = ff.fit(model, np.repeat(rows, counts, axis=0), "PL1 >> 0.3*FL", random_state=2)
    np.testing.assert_allclose(few.theta, whole.theta, atol=1e-9)
    assert few.specification_test().statistic == pytest.approx(whole.specification_test().statistic, rel=1e-6)
    first = ff.fit(model, rows, "PL1", sample_weight=counts, weight_kind="counts")
    with pytest.raises(FieldfitError, match=r"Fit both stages at once: 'PL1 >> 0\.3\*FL'"):
        ff.refine(first, "0.3*FL")


def test_a_fit_is_loaded_with_its_counts(tmp_path) -> None:
    rows, counts = samples()
    fit = counted("PL1 + 0.2*PL2")
    fit.save(tmp_path / "fit.npz")
    again = ff.load(tmp_path / "fit.npz", rows, sample_weight=counts, weight_kind="counts")
    np.testing.assert_array_equal(again.standard_errors(), fit.standard_errors())


def test_the_bootstrap_resamples_copies_with_their_selection() -> None:
    """60 resamples know a deviation to 9%; 50% is passed by chance with p < 1e-6, as are 6 errors of the mean."""
    rows, counts = np.unique(ff.BoltzmannMachine(3).sample([1.0, -1.0, 0.5], 3000, random_state=0).values, axis=0,
                             return_counts=True)  # fmt: skip
    fit = ff.fit(ff.BoltzmannMachine(3), rows, "0.3*PL1", sample_weight=counts, weight_kind="counts", random_state=5)
    assert fit.counts
    found = fit.bootstrap(60)
    errors = fit.standard_errors()
    np.testing.assert_allclose(found.standard_errors(), errors, rtol=0.5)
    assert (np.abs(found.theta.mean(axis=0) - fit.theta) < 6 * errors / np.sqrt(60) + 0.1 * errors).all()


def test_counts_of_a_million_millions() -> None:
    rows, counts = samples(600)
    fit = ff.fit(MODEL, rows, "PL1 + 0.2*PL2", sample_weight=counts * 10**9, weight_kind="counts")
    assert fit.converged
    assert fit.total == counts.sum() * 1e9
    row = np.zeros((1, 8), dtype=int)
    more: dict[str, Any] = {"sample_weight": [10**12], "weight_kind": "counts", "sigma2": 1.0}
    with pytest.raises(FieldfitError, match="too many selections to count the copies"):
        ff.fit(ff.Potts(8, 3), row, "PL1 + 0.2*PL2", **more)
