"""Sample weights of tables and sequences: sizes, copies, random parts, and what is refused."""

import numpy as np
import pytest

from fieldfit.data.dataset import MOST_COPIES, Dataset
from fieldfit.data.samples import Table
from fieldfit.data.sequences import Sequences
from fieldfit.types import DataError


def table(n: int, **weights) -> Table:
    codes = np.array([[i % 2, i // 2 % 2] for i in range(n)], dtype=np.int32)
    return Table(codes, ("a", "b"), ((0, 1), (0, 1)), **weights)


def sequences(n: int, **weights) -> Sequences:
    lengths = 1 + np.arange(n) % 3
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = int(offsets[-1])
    pointers, codes = np.arange(tokens + 1), np.arange(tokens)
    return Sequences(offsets, pointers, codes, None, codes % 2, tokens, 2, **weights)  # type: ignore[arg-type]


BOTH = pytest.mark.parametrize("make", [table, sequences])


def same(one: Dataset, other: Dataset) -> bool:
    if isinstance(one, Table) and isinstance(other, Table):
        return np.array_equal(one.codes, other.codes)
    assert isinstance(one, Sequences)
    assert isinstance(other, Sequences)
    return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.indices, other.indices)


@BOTH
def test_without_weights_every_sample_counts_once(make):
    data = make(5)
    assert (data.n_copies, data.total_weight, data.effective_size, data.unit_weight) == (5, 5.0, 5.0, 1.0)
    assert not data.has_counts
    assert data.relative_weight is None
    assert data.copies() is data
    assert data.equally_weighted() is data


@BOTH
def test_counts_are_copies(make):
    data = make(4, sample_weight=[2, 0, 1, 3], weight_kind="counts")
    assert data.has_counts
    assert data.relative_weight is None
    assert (data.n_copies, data.total_weight, data.effective_size, data.unit_weight) == (6, 6.0, 6.0, 1.0)
    wanted = make(4).subset([0, 0, 2, 3, 3, 3])
    for copies in (data.copies(), data.equally_weighted()):
        assert same(copies, wanted)
        assert copies.sample_weight is None
    assert same(data.unweighted(), make(4))
    assert data.unweighted().sample_weight is None


@BOTH
@pytest.mark.parametrize("factor", [1e-300, 1e-8, 1.0, 1e8, 1e300])
def test_importance_weights_have_an_effective_size_that_does_not_depend_on_their_scale(make, factor):
    weight = np.array([1.0, 2.0, 0.0, 4.0])
    data = make(4, sample_weight=factor * weight)
    assert data.n_copies == 4
    assert data.copies() is data
    assert data.effective_size == pytest.approx(49 / 21)
    assert data.unit_weight == pytest.approx(factor * 7 / (49 / 21))
    np.testing.assert_allclose(data.relative_weight, weight * 4 / 7)
    assert data.equally_weighted() is None


@BOTH
def test_equal_importance_weights_are_no_weights(make):
    data = make(4, sample_weight=[0.3, 0.0, 0.3, 0.3])
    plain = data.equally_weighted()
    assert same(plain, make(4).subset([0, 2, 3]))
    assert plain.sample_weight is None


@pytest.mark.slow
@BOTH
def test_random_parts_take_every_copy_with_the_same_probability(make):
    data = make(3, sample_weight=[1, 0, 3], weight_kind="counts")
    random = np.random.default_rng(0)
    drawn = [data.draw(1, random) for _ in range(4000)]
    assert all(part.n == 1 and part.sample_weight is None for part in drawn)
    share = np.mean([same(part, make(3).subset([2])) for part in drawn])
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)  # fails by chance once in 16,000 seeds
    assert data.draw(4, random).n == 4
    assert data.draw(99, random).n == 4
    weighted = make(5, sample_weight=[0.5, 0, 0.2, 0, 1.0])
    kept = weighted.draw(3, random)
    assert same(kept, make(5).subset([0, 2, 4]))
    np.testing.assert_array_equal(kept.sample_weight, [0.5, 0.2, 1.0])
    assert make(5).draw(2, random).n == 2


@BOTH
def test_too_many_copies_are_refused_in_a_sentence(make):
    data = make(2, sample_weight=[1e12, 3], weight_kind="counts")
    assert data.n_copies == 10**12 + 3
    assert data.draw(10, np.random.default_rng(1)).n == 10
    with pytest.raises(DataError, match=f"1,000,000,000,003 samples.*{MOST_COPIES:,}"):
        data.copies()
    with pytest.raises(DataError, match=r"add up to 1e.300"):
        make(2, sample_weight=[1e300, 3], weight_kind="counts")
    with pytest.raises(DataError, match="sum of sample_weight is not finite"):
        make(2, sample_weight=[1.5e308, 1.5e308])
    with pytest.raises(DataError, match="does not consist of numbers"):
        make(2, sample_weight=[1.0, 1j])
