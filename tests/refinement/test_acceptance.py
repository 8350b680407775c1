"""Whether a refined estimate is kept: the jackknife over blocks of the samples."""

from __future__ import annotations

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.refinement import acceptance


def test_samples_of_weight_zero_are_no_block_of_the_jackknife(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in resamples of few rows: every 20th row, which is a block of its own.
    monkeypatch.setattr(acceptance, "seems_worse", lambda *_: True)
    model = ff.BoltzmannMachine(3, biases=True)
    x, weight = np.random.default_rng(0).integers(0, 2, (60, 3)), np.ones(60)
    weight[::20] = 0.0
    weighted = ff.fit(model, x, "PL1 >> optimal", sample_weight=weight, sigma2=5.0)
    without = ff.fit(model, x[weight > 0], "PL1 >> optimal", sigma2=5.0)
    np.testing.assert_allclose(weighted.theta, without.theta, atol=1e-6)
