"""`family_mixtures` and `component_flops`: against sums over components that are written out, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations, product

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.types import FieldfitError, FloatArray

THETA = np.array([0.7, -0.4, 0.9, 0.2, -0.3, 0.5, -0.6, 0.1, 0.4])
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4)]
MODEL = ff.BoltzmannMachine(5, EDGES, biases=True, states=(-1, 1))
CODES = np.array(list(product(range(2), repeat=5)))
VALUES = 2.0 * CODES - 1
FEATURES = np.concatenate([np.stack([VALUES[:, i] * VALUES[:, j] for i, j in EDGES], axis=1), VALUES], axis=1)
WEIGHT = np.exp(FEATURES @ THETA)
PROBABILITY = WEIGHT / WEIGHT.sum()
PAIRS = list(combinations(range(5), 2))


def scores(block: tuple[int, ...]) -> FloatArray:
    """∇ log p(x_A | rest) of every state (32, r)."""
    rest = [v for v in range(5) if v not in block]
    same = (CODES[:, None, rest] == CODES[None, :, rest]).all(axis=2)
    conditional = same * WEIGHT
    conditional /= conditional.sum(axis=1, keepdims=True)
    return np.asarray(FEATURES - conditional @ FEATURES)


def partition_moments() -> FloatArray:
    """E[ZZᵀ] of Partition(2): two pairs and a single variable, from all orders of the variables."""
    drawn = np.zeros((120, 15))
    for row, order in zip(drawn, permutations(range(5)), strict=True):
        row[[PAIRS.index((min(pair), max(pair))) for pair in (order[:2], order[2:4])]] = 1
        row[10 + order[4]] = 1
    return drawn.T @ drawn / 120


@pytest.mark.parametrize("lam", [(0.3, 0.6, 1.0), (1.0, 0.2, 0.0), (0.5, 0.0, 1.0)])
def test_mixtures_with_a_partition_match_sums_over_components(lam: tuple[float, float, float]) -> None:
    """Families drawn one by one and together, and a law without a free λ, which λ = 0 leaves out."""
    beta = np.array([1.0, 0.5, 0.8])
    singles = [(j,) for j in range(5)]
    blocks: list[tuple[int, ...]] = [*singles, *PAIRS, *PAIRS, *singles]
    each = np.stack([scores(block) for block in blocks])
    moments = np.zeros((30, 30))
    moments[:5, :5] = lam[0] ** 2 + lam[0] * (1 - lam[0]) * np.eye(5)
    moments[5:15, 5:15] = lam[1]
    moments[15:, 15:] = partition_moments() * lam[2]
    means = np.diag(moments).copy()
    for first, stop in ((0, 5), (5, 15), (15, 30)):
        outside = np.ones(30, dtype=bool)
        outside[first:stop] = False
        moments[first:stop, outside] = np.outer(means[first:stop], means[outside])
    weights = np.repeat(beta, (5, 10, 15))
    information = np.einsum("x,jxa,jxb->jab", PROBABILITY, each, each)
    bread = np.einsum("j,jab->ab", weights * means, information)
    meat = np.einsum("x,ij,ixa,jxb->ab", PROBABILITY, moments * np.outer(weights, weights), each, each, optimize=True)
    covariance = np.linalg.solve(bread, np.linalg.solve(bread, meat).T)
    full = scores((0, 1, 2, 3, 4))
    likelihood = np.linalg.inv((full * PROBABILITY[:, None]).T @ full)
    mixtures = ff.family_mixtures(MODEL, THETA, ["PL1", "PL2/row", "Partition(2)"])
    ratios = mixtures.efficiencies(np.array([lam]), beta[None])
    np.testing.assert_allclose(ratios["trace"], np.trace(covariance) / np.trace(likelihood), rtol=1e-9)
    np.testing.assert_allclose(ratios["det"], np.linalg.det(covariance) / np.linalg.det(likelihood), rtol=1e-9)


def test_the_cost_of_a_partition_is_that_of_its_blocks() -> None:
    """A sample has two of ten pairs and one of five single variables, not all of them."""
    mixtures = ff.family_mixtures(MODEL, THETA, ["PL1", "Partition(2)"])
    r = MODEL.n_parameters
    assert mixtures.flops[0] == pytest.approx(5 * 2 * r + r)
    assert mixtures.flops[1] == pytest.approx(2 * (4 * r + r / 10) + 2 * r + r / 5)
    assert mixtures.cost([1.0, 1.0]) == pytest.approx(mixtures.flops.sum())


def test_more_states_than_a_float_counts_cost_infinity() -> None:
    """FL of a long chain is easy to compute by elimination, so its fit must not fail for the paper's count."""
    model = ff.BoltzmannMachine(1100, [(j, j + 1) for j in range(1099)], edge_groups=[0] * 1099)
    assert np.isposinf(ff.component_flops(model, "FL")).all()
    fit = ff.fit(model, np.random.default_rng(0).integers(0, 2, (20, 1100)), "FL")
    assert fit.converged
    assert np.isposinf(fit.cost.flops)


MIXTURES = ff.family_mixtures(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], ["PL1", "Partition(2)"])


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (lambda: ff.family_mixtures(MODEL, THETA, []), "at least one entry"),
        (lambda: ff.family_mixtures(MODEL, THETA, "PL1"), "must be a list"),
        (lambda: ff.family_mixtures(MODEL, THETA, ["PL1 + PL2"]), "is not one term"),
        (lambda: ff.family_mixtures(MODEL, THETA, ["FL", "0.5*PL1"]), "is not one term"),
        (lambda: ff.family_mixtures(MODEL, THETA, ["PL1@2"]), "is not one term"),
        (lambda: ff.family_mixtures(ff.BoltzmannMachine(17), np.zeros(136), ["PL1"]), "enumeration stops at"),
        (lambda: ff.family_mixtures(ff.Potts(3, 3), np.zeros(36), ["PL1"]), "gauge"),
        (lambda: ff.family_mixtures(ff.ChainCRF(2, 3), [], ["PL1"]), "is for fields"),  # type: ignore[arg-type]
        (lambda: ff.component_flops(ff.ChainCRF(2, 3), "PL1"), "is for fields"),  # type: ignore[arg-type]
        (lambda: ff.condition_count(ff.ChainCRF(2, 3), "PL1 >> optimal(1)"), "is for fields"),  # type: ignore[arg-type]
        (lambda: MIXTURES.efficiencies(np.ones((2, 3)), np.ones((2, 3))), "for each of 2 families"),
        (lambda: MIXTURES.efficiencies(np.ones((2, 2)), np.ones((3, 2))), "one shape"),
        (lambda: MIXTURES.efficiencies(np.array([[np.nan, 1.0]]), np.ones((1, 2))), r"lie in \[0, 1\]"),
        (lambda: MIXTURES.efficiencies(np.array([[2.0, 1.0]]), np.ones((1, 2))), r"lie in \[0, 1\]"),
        (lambda: MIXTURES.efficiencies(np.ones((1, 2)), -np.ones((1, 2))), "at least 0"),
        (lambda: MIXTURES.efficiencies(np.array([[1.0, 0.5]]), np.ones((1, 2))), "without a free λ"),
        (lambda: MIXTURES.efficiencies(np.zeros((1, 2)), np.ones((1, 2))), "selects nothing"),
        (lambda: MIXTURES.cost(np.ones(3)), "for each of 2 families"),
        (lambda: MIXTURES.cost("x"), "array of numbers"),
        (
            lambda: ff.theory(MODEL, THETA, "PL1", method="simulation", n_simulated=-5),
            "n_simulated is -5; it must be an integer from 10",
        ),
    ],
)
def test_requests_without_an_answer_are_refused(request_: Callable[[], object], words: str) -> None:
    """A sentence, not an error from inside."""
    with pytest.raises(FieldfitError, match=words):
        request_()
