"""exp and log of the kernels against NumPy, at every instruction set that this processor has."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fieldfit import _kernels


def test_exp_is_within_two_ulp_and_right_at_the_ends():
    x = np.concatenate([np.random.default_rng(0).uniform(-700, 700, 200_000), np.linspace(-1, 1, 10_001), [0.0]])
    out = np.empty_like(x)
    _kernels.exp_array(x, out)
    expected = np.exp(x)
    assert np.abs(out / expected - 1).max() <= 2 * np.finfo(float).eps
    ends = np.array([-800.0, -np.inf, 709.0, 709.9, np.inf, np.nan, -0.0])
    result = np.empty_like(ends)
    _kernels.exp_array(ends, result)
    assert result[0] == result[1] == 0.0
    assert result[2] == pytest.approx(np.exp(709.0), rel=1e-15)
    assert result[3] == result[4] == np.inf
    assert np.isnan(result[5])
    assert result[6] == 1.0


def test_log_is_within_two_ulp_and_right_at_the_ends():
    x = np.exp(np.random.default_rng(1).uniform(-700, 700, 200_000))
    x = np.concatenate([x, 1 + np.linspace(-1e-3, 1e-3, 10_001), np.linspace(0.5, 2, 10_001)])
    out = np.empty_like(x)
    _kernels.log_array(x, out)
    expected = np.log(x)
    np.testing.assert_allclose(out, expected, rtol=4 * np.finfo(float).eps, atol=1e-19)
    ends = np.array([0.0, 1.0, np.inf, np.nan])
    result = np.empty_like(ends)
    _kernels.log_array(ends, result)
    assert result[0] == -np.inf
    assert result[1] == 0.0
    assert result[2] == np.inf
    assert np.isnan(result[3])


@pytest.mark.slow
@pytest.mark.parametrize("level", ["baseline", "avx2"])
def test_other_instruction_sets_give_the_same_answers(level):
    """One binary for all processors: the lower levels are chosen by name, and sums agree to 1e-12 of their size."""
    program = """
import numpy as np, fieldfit as ff
from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
rng = np.random.default_rng(2)
model = ff.BoltzmannMachine(6, biases=True)
theta = rng.normal(size=model.n_parameters)
x = model.sample(theta, 500, 1).values
codes = rng.integers(0, 6, 800).astype(np.int32)
labels = ((codes + rng.integers(0, 2, 800)) % 3).astype(np.int32)
sequences = Sequences(8 * np.arange(101), np.arange(801), codes, None, labels, 6, 3)
print(_kernels.isa())
for model, data in ((model, x), (ff.ChainCRF(3, 6), sequences)):
    problem = ff.fit(model, data, "PL1 + PL2 + FL", sigma2=10.0, tol=1e-2).problem
    theta, v = rng.normal(size=(2, problem.n_parameters))
    value, gradient = problem.value_grad(theta)
    print(value)
    print(*gradient)
    print(*problem.hessian_product(theta, v))
"""
    results = []
    for wanted in (level, None):
        environment = {k: v for k, v in os.environ.items() if k != "FIELDFIT_ISA"}
        if wanted:
            environment["FIELDFIT_ISA"] = wanted
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        used, *lines = done.stdout.splitlines()
        results.append([np.array(line.split(), dtype=float) for line in lines])
        if wanted:
            assert used in (wanted, "baseline")
    assert [line.size for line in results[0]] == [1, 21, 21, 1, 27, 27]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(other).max())


def test_bindings_refuse_wrong_lengths():
    with pytest.raises(ValueError, match="differ in length"):
        _kernels.exp_array(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match="one line for each row"):
        _kernels.uniforms(0, 0, np.zeros(3, dtype=np.int64), np.zeros((2, 2)))
    with pytest.raises(TypeError):
        _kernels.exp_array(np.zeros((2, 2)), np.zeros(4))


def test_uniforms_are_keyed_by_row_and_look_uniform():
    rows = np.arange(2_000, dtype=np.int64)
    whole, part = np.empty((2_000, 10)), np.empty((500, 10))
    _kernels.uniforms(7, 1, rows, whole)
    _kernels.uniforms(7, 1, rows[1_500:], part)
    assert np.array_equal(whole[1_500:], part)
    assert whole.min() > 0
    assert whole.max() < 1
    # Mean and variance of 20,000 uniforms within 5 standard errors; neighbouring rows and streams uncorrelated.
    assert abs(whole.mean() - 0.5) < 5 * np.sqrt(1 / 12 / whole.size)
    assert abs(whole.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / whole.size)
    assert abs(np.corrcoef(whole[:-1].ravel(), whole[1:].ravel())[0, 1]) < 5 / np.sqrt(whole.size)
    other = np.empty_like(whole)
    _kernels.uniforms(7, 2, rows, other)
    assert abs(np.corrcoef(whole.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(whole.size)
