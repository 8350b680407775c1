"""The second moments in use: the asymptotic variance of the paper's five-node Boltzmann machine, by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fieldfit.policies import FieldStructure, Policy

PAIRS = list(itertools.combinations(range(5), 2))
THETA = np.array([-1.0] * 5 + [1.0] * 5)
STATES = np.array(list(itertools.product((0, 1), repeat=5)))
FEATURES = np.stack([STATES[:, i] * STATES[:, j] for i, j in PAIRS], axis=1).astype(float)
P = np.exp(FEATURES @ THETA) / np.exp(FEATURES @ THETA).sum()


def covariance(text: str, structure: FieldStructure) -> np.ndarray:
    """Υ⁻¹ Σ Υ⁻¹ with Σ = E[Σ_ij β_i β_j E[Z_i Z_j] ∇S_i ∇S_jᵀ]."""
    bound = Policy.parse(text).bind(structure)
    scores = []
    for family in bound.families:
        assert family.size is not None
        for j in range(family.size):
            given = list(family.component(j).given)
            same = (STATES[:, None, given] == STATES[None, :, given]).all(axis=2)
            conditional = same * P / (same * P).sum(axis=1, keepdims=True)
            scores.append(FEATURES - conditional @ FEATURES)
    s = np.stack(scores, axis=1)
    bread = np.linalg.inv(np.einsum("x,j,xja,xjb->ab", P, bound.beta() * bound.mean(), s, s))
    return np.asarray(bread @ np.einsum("x,xab->ab", P, bound.quadratic_form(s)) @ bread)


@pytest.mark.parametrize(
    ("text", "det", "trace"),
    [
        ("PL1", 1.624, 1.019),
        ("Partition(1)", 1.624, 1.019),
        ("0.7*PL1 + 0.3*PL2", 9.099, 1.167),
        ("Partition(2)", 1.073**10, 1.058),
    ],
)
def test_efficiency_of_known_policies(field: FieldStructure, text: str, det: float, trace: float) -> None:
    """Ratios to the MLE that were computed independently of this package."""
    mle, found = covariance("FL", field), covariance(text, field)
    ratio = np.linalg.det(found) / np.linalg.det(mle)
    assert ratio ** (1 / 10) == pytest.approx(det ** (1 / 10), abs=6e-4)
    assert np.trace(found) / np.trace(mle) == pytest.approx(trace, abs=6e-4)
