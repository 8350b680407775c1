"""Sums over shards have one order, whoever adds up which part."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from fieldfit.shards.tree import added, merged, middle, partial_sums


@pytest.mark.parametrize(("low", "high", "cut"), [(0, 2, 1), (0, 3, 2), (0, 8, 4), (0, 9, 8), (8, 13, 12)])
def test_a_node_is_split_at_a_power_of_two(low, high, cut):
    assert middle(low, high) == cut


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_any_distribution_over_workers_gives_the_same_bits(size, seed):
    random = np.random.default_rng(seed)
    numbers = random.standard_normal(size) * 10.0 ** random.integers(-9, 9, size)

    def leaf(number):
        return (numbers[[number]],)

    whole = partial_sums(range(size), size, leaf)[0, size]
    owner = random.integers(0, 5, size)
    parts = [partial_sums(np.flatnonzero(owner == worker).tolist(), size, leaf) for worker in range(5)]
    random.shuffle(parts)
    half = merged(parts[:2], size)
    total = merged([half, *parts[2:]], size)
    assert list(total) == [(0, size)]
    assert total[0, size][0].tobytes() == whole[0].tobytes()
    assert whole[0][0] == pytest.approx(numbers.sum(), rel=1e-9, abs=1e-3)


def test_a_shard_without_an_answer_leaves_the_sum_without_one():
    assert added(None, (np.ones(1),)) is None
    assert partial_sums(range(3), 3, lambda number: None if number == 1 else (np.ones(1),))[0, 3] is None
