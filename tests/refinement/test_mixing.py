"""Split R̂ and effective sample sizes of chains whose autocorrelations are known."""

from __future__ import annotations

import numpy as np
import pytest

from fieldfit.refinement.mixing import mixing


def autoregressive(rho: list[float], length: int, chains: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    x = np.empty((length, chains, len(rho)))
    x[0] = random.normal(size=x.shape[1:])
    for t in range(1, length):
        x[t] = np.array(rho) * x[t - 1] + np.sqrt(1 - np.array(rho) ** 2) * random.normal(size=x.shape[1:])
    return x


def test_effective_sizes_of_autoregressive_chains() -> None:
    """Variance of the mean: (1 + ρ)/(1 − ρ) times that of independent draws; also for negative ρ."""
    rho = [0.0, 0.5, 0.8, -0.3]
    found = mixing(autoregressive(rho, 4_000, 8, 1))
    expected = 32_000 * (1 - np.array(rho)) / (1 + np.array(rho))
    np.testing.assert_allclose(found.effective, expected, rtol=0.15)
    assert np.all(np.abs(found.r_hat - 1) < 0.01)


def test_chains_at_different_places_and_drifting_chains_are_seen() -> None:
    x = autoregressive([0.0, 0.0, 0.0], 200, 4, 2)
    x[:, 0, 0] += 3.0
    x[:, :, 1] += np.linspace(0, 3, 200)[:, None]
    found = mixing(x)
    assert np.all(found.r_hat[:2] > 1.2)
    assert np.all(found.effective[:2] < 40)
    assert found.r_hat[2] < 1.05


def test_constant_statistics_and_short_chains() -> None:
    found = mixing(np.ones((10, 3, 2)))
    np.testing.assert_array_equal(found.r_hat, 1.0)
    np.testing.assert_array_equal(found.effective, 30.0)
    odd = mixing(autoregressive([0.2], 101, 4, 3))
    assert np.isfinite(odd.effective).all()
    with pytest.raises(ValueError, match="four draws"):
        mixing(np.ones((3, 4, 1)))
