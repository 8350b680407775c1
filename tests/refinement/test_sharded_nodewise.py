"""``Nodewise >> optimal`` on samples in shards: one exchange, the same bits wherever they are, the accuracy of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.refinement.separate_fits import _FitNodes
from fieldfit.shards.backend import LocalBackend, LocalShards
from fieldfit.shards.shard import Source
from fieldfit.types import ModelError

NODEWISE = "Nodewise >> optimal"


@pytest.fixture(scope="module")
def samples() -> tuple[ff.BoltzmannMachine, np.ndarray]:
    model = ff.BoltzmannMachine.grid(2, 3, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.5, model.n_parameters)
    return model, np.asarray(model.sample(theta, 6_000, random_state=1).values)


class Counted(LocalBackend):
    """A backend that notes what its shards are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def place(self, sources: Sequence[Source]) -> LocalShards:
        placed, total, each = super().place(sources), LocalShards.total, LocalShards.each

        def noted(method: Any) -> Any:
            def ask(question: Any, *arguments: Any, **options: Any) -> Any:
                self.asked.append(getattr(question, "method", type(question).__name__))
                return method(placed, question, *arguments, **options)

            return ask

        placed.total, placed.each = noted(total), noted(each)  # type: ignore[method-assign]
        return placed


def test_one_shard_is_one_table(samples: tuple[ff.BoltzmannMachine, np.ndarray]) -> None:
    model, x = samples
    whole, one = ff.fit(model, x, NODEWISE), ff.fit(model, x, NODEWISE, shards=1)
    np.testing.assert_allclose(one.theta, whole.theta, atol=1e-9)
    np.testing.assert_allclose(one.standard_errors(), whole.standard_errors(), rtol=1e-7)
    assert whole.refinement is not None
    assert one.refinement is not None
    np.testing.assert_allclose(one.refinement.first_theta, whole.refinement.first_theta, atol=1e-9)
    assert one.evaluations == whole.evaluations


@pytest.mark.slow
def test_one_exchange_brings_the_estimate(samples: tuple[ff.BoltzmannMachine, np.ndarray]) -> None:
    model, x = samples
    backend = Counted()
    fit = ff.fit(model, x, NODEWISE, shards=6, backend=backend)
    # Compiled once; the fits; the value of the objective at the estimate.
    assert backend.asked == ["Reported", _FitNodes.__name__, "value_grad"]
    whole = ff.fit(model, x, NODEWISE)
    # Shards differ from one table by their bias, about p²/(samples of a shard), far below the sampling error.
    assert np.abs(fit.theta - whole.theta).max() < 0.2 * whole.standard_errors().min()
    np.testing.assert_allclose(fit.standard_errors(), whole.standard_errors(), rtol=0.05)
    np.testing.assert_allclose(fit.standard_errors(kind="model"), whole.standard_errors(kind="model"), rtol=0.05)


@pytest.mark.slow
def test_the_same_bits_on_workers_and_in_pieces(
    samples: tuple[ff.BoltzmannMachine, np.ndarray], tmp_path: Any
) -> None:
    distributed = pytest.importorskip("distributed")
    model, x = samples
    weight = np.random.default_rng(3).uniform(0.5, 2, len(x))
    here = ff.fit(model, x, NODEWISE, shards=7, sample_weight=weight)
    for number, part in enumerate(np.array_split(x, 3)):
        np.savetxt(
            tmp_path / f"{number}.csv", part, fmt="%d", delimiter=",", header=",".join(model.names), comments=""
        )
    for workers in (1, 2):
        with distributed.Client(
            n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as client:
            there = ff.fit(model, x, NODEWISE, shards=7, sample_weight=weight, backend=client)
            assert there.theta.tobytes() == here.theta.tobytes()
            assert there.standard_errors().tobytes() == here.standard_errors().tobytes()
            pieces = ff.fit(model, str(tmp_path / "*.csv"), NODEWISE, backend=client)
    np.testing.assert_allclose(pieces.theta, ff.fit(model, x, NODEWISE, shards=3).theta, atol=1e-12)


def test_shards_that_are_too_small_are_refused(samples: tuple[ff.BoltzmannMachine, np.ndarray]) -> None:
    model, x = samples
    with pytest.raises(ModelError, match="fewer shards"):
        ff.fit(model, x[:60], NODEWISE, shards=10)


@pytest.mark.slow
def test_coverage_of_shards() -> None:
    """Robust 95% intervals of 100 fits with 5 shards.

    The share of a parameter has a standard error of 0.0218, that of all four one of 0.0112 (measured over the fits). The
    bands are 2.8 and 3.6 of those. Errors that are 0.75 or 1.3 times the right ones are outside the second.
    """
    model = ff.BoltzmannMachine.grid(2, 2)
    theta = np.array([0.8, -0.6, 0.5, 0.7])
    covered = np.zeros(4)
    for number in range(100):
        x = model.sample(theta, 1_500, random_state=number).values
        fit = ff.fit(model, x, NODEWISE, shards=5)
        covered += np.abs(fit.theta - theta) < 1.96 * fit.standard_errors()
    assert np.abs(covered / 100 - 0.95).max() < 0.0616
    assert abs(covered.mean() / 100 - 0.95) < 0.04
