"""What a plan for workers counts beside the work of the shards: messages. No test measures time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
import fieldfit.api.plan as planning
from fieldfit.api.sharded import Place
from fieldfit.planner.request import Shards
from fieldfit.shards.backend import LocalBackend, LocalShards
from fieldfit.shards.room import Fixed
from fieldfit.shards.shard import Shard

MODEL = ff.BoltzmannMachine(5, biases=True)
VALUES = MODEL.sample(np.zeros(MODEL.n_parameters), 1_000, random_state=1).values
ROWS = MODEL.read(VALUES)


class Told(LocalBackend):
    """Shards in this process that move a clock with each message, and count questions."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.questions, self.loaded = 0.0, 0, False

    def place(self, sources: Any) -> LocalShards:
        backend = self
        backend.clock += 2.0 + sum(source.dataset.n for source in sources) / 100

        class ToldShards(LocalShards):
            def share(self, key: str, value: object) -> None:
                backend.clock += 3.0 if backend.loaded else 8.0
                backend.loaded = True
                super().share(key, value)

            def each(self, *arguments: Any, **more: Any) -> Any:
                backend.questions += 1
                return super().each(*arguments, **more)

            def total(self, *arguments: Any, **more: Any) -> Any:
                backend.clock += 0.5
                backend.questions += 1
                return super().total(*arguments, **more)

        return ToldShards([Shard(number, source, Fixed(True)) for number, source in enumerate(sources)])


def test_messages_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Told()
    monkeypatch.setattr(time, "perf_counter", lambda: backend.clock)
    shards = planning.priced_shards(MODEL, ROWS, Place(backend, 4))
    assert (shards.overhead, shards.sharing, shards.loading) == (0.5, 3.0, 5.0)
    sent = 10.0 * (1 - 1 / 250)  # 1,000 rows at 100 in a second, beside the one that shards without samples have
    assert shards.placing == pytest.approx(2.0 + 4 / 100 + sent)


@pytest.mark.parametrize("policy", ["PL1", "PL2", "FL", "PL1 >> FL"])
def test_messages_are_in_the_seconds(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With messages that take very long the seconds are those of messages, which a plan knows to a factor of 1.6."""

    def priced(*_: object) -> Shards:
        return Shards(ROWS.subset(np.arange(250)), 1.0, overhead=1e4, placing=3e8, sharing=1e6)

    monkeypatch.setattr(planning, "priced_shards", priced)
    backend = Told()
    plan = ff.plan(MODEL, VALUES, policies=[policy], shards=4, backend=backend)
    (seconds,) = (candidate.seconds for candidate in plan.candidates if candidate.policy == policy)
    backend.questions = 0
    ff.fit(MODEL, VALUES, policy, shards=4, backend=backend)
    stages = 2 if ">>" in policy else 1
    assert seconds // 1e8 == 3
    assert (seconds - 3e8) // 1e6 == stages
    assert 1 / 1.6 < (seconds - 3e8 - stages * 1e6) / 1e4 / backend.questions < 1.6
    told = plan.explain()
    assert "The seconds include messages, as timed on these workers: " in told
    assert "Not included: the first fit on new workers takes longer" in told


def test_plans_in_this_process_have_no_messages() -> None:
    assert "messages" not in ff.plan(MODEL, VALUES, policies=["PL1"], shards=4).explain()


def test_messages_that_are_disturbed_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of five messages wait for something else."""
    backend = Told()
    usual = backend.place

    def place(sources: Any) -> LocalShards:
        placed = usual(sources)
        total = placed.total

        def disturbed(*arguments: Any, **more: Any) -> Any:
            backend.clock += 7.0 if backend.questions % 5 > 1 else 0.0
            return total(*arguments, **more)

        monkeypatch.setattr(placed, "total", disturbed)
        return placed

    monkeypatch.setattr(backend, "place", place)
    monkeypatch.setattr(time, "perf_counter", lambda: backend.clock)
    assert planning.priced_shards(MODEL, ROWS, Place(backend, 4)).overhead == 0.5


@pytest.mark.parametrize("policy", ["PL1", "PL2", "FL", "PL1 >> FL"])
def test_small_shards_without_a_preconditioner_take_more_messages(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newton's method asks for each Hessian product: 75 messages for PL1, which takes 13 with the preconditioner."""
    model = ff.BoltzmannMachine(10, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.5, model.n_parameters)
    values = model.sample(theta, 3_000, random_state=1).values
    usual = planning.priced_shards

    def priced(*arguments: Any) -> Shards:
        return replace(usual(*arguments), overhead=1e4, placing=3e8, sharing=1e6)

    monkeypatch.setattr(planning, "priced_shards", priced)
    backend = Told()
    plan = ff.plan(model, values, policies=[policy], shards=32, backend=backend)
    (seconds,) = (candidate.seconds for candidate in plan.candidates if candidate.policy == policy)
    backend.questions = 0
    ff.fit(model, values, policy, shards=32, backend=backend)
    stages = 2 if ">>" in policy else 1
    assert 1 / 1.6 < (seconds - 3e8 - stages * 1e6) / 1e4 / backend.questions < 1.6
