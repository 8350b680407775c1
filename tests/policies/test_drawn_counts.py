"""The numbers of copies that have each Z: their law, which samples they are for, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2

from fieldfit.policies import FieldStructure, Policy, Selection
from fieldfit.policies.drawn_counts import DrawnCounts, draw_counts
from fieldfit.policies.policy import BoundPolicy

MakeField = Callable[..., FieldStructure]
AsTable = Callable[[Selection], np.ndarray]


def numbers(Z: np.ndarray) -> np.ndarray:
    """One number for each value of Z."""
    return Z @ (2 ** np.arange(Z.shape[1], dtype=object)).astype(np.float64)


def drawn(bound: BoundPolicy, copies: list[int], seed: int = 3) -> DrawnCounts:
    found = draw_counts(bound, np.array(copies), seed)
    assert found is not None
    return found


def test_patterns_have_the_moments_of_the_law(law_text: str, field: FieldStructure) -> None:
    bound = Policy.parse(law_text).bind(field)
    sizes = tuple(family.size or 0 for family in bound.families)
    if np.isinf(bound.n_patterns(sizes)):
        pytest.skip("the law lists no patterns")
    patterns = bound.patterns(sizes)
    columns = [np.broadcast_to(t, (len(t), size)) for t, size in zip(patterns.selected, sizes, strict=True)]
    Z = np.hstack(columns).astype(np.float64)
    assert len(np.unique(numbers(Z))) == len(Z) <= bound.n_patterns(sizes)
    assert patterns.probability.min() > 0
    np.testing.assert_allclose(patterns.probability.sum(), 1, rtol=1e-12)
    moment = Z.T @ (patterns.probability[:, None] * Z)
    np.testing.assert_allclose(moment, bound.second_moment(), atol=1e-12)


def test_counts_have_the_law_of_single_draws(law_text: str, field: FieldStructure, as_table: AsTable) -> None:
    """Two-sample chi-square against single draws; a right law fails with probability below 1e-5 in each of 30 tests."""
    bound = Policy.parse(law_text).bind(field)
    found = draw_counts(bound, np.array([60_000, 0, 40_000, 1]), 5)
    if found is None:
        pytest.skip("Z has one value")
    assert np.array_equal(np.bincount(found.rows, found.counts, 4), [60_000, 0, 40_000, 1])
    counted = numbers(as_table(found.selection(bound, 5)))
    single = numbers(as_table(bound.draw(77, 0, 100_000)))
    values, place = np.unique(np.concatenate([counted, single]), return_inverse=True)
    mine = np.bincount(place[: len(counted)], found.counts, len(values))
    others = np.bincount(place[len(counted) :], minlength=len(values))
    order = np.argsort(mine + others)  # rare values together, at least 10 expected
    cells = np.unique(np.cumsum((mine + others)[order]) // 20, return_inverse=True)[1]
    mine, others = np.bincount(cells, mine[order]), np.bincount(cells, others[order])
    total = mine + others
    share = mine.sum() / total.sum()
    statistic = ((mine - share * total) ** 2 / (share * (1 - share) * total)).sum()
    assert chi2.sf(statistic, max(len(total) - 1, 1)) > 1e-5 or len(total) == 1


@pytest.mark.parametrize("text", ["0.4*PL1/row", "Multinomial(0.6*PL1 + 0.4*FL)", "Partition(2)", "0.3*PL1"])
def test_counts_of_samples_are_multinomial_and_independent(text: str, field: FieldStructure) -> None:
    """Pearson's statistic of 400 samples is chi-square with the right degrees of freedom, as are sums of two samples."""
    bound = Policy.parse(text).bind(field)
    found = drawn(bound, [1000] * 400)
    table = found.tables[0]
    counts = np.zeros((400, len(table.probability)))
    counts[found.rows, found.pattern] = found.counts
    for size, seen in ((400, counts), (200, counts[::2] + counts[1::2])):
        expected = seen.sum(axis=1, keepdims=True) * table.probability
        statistic, freedom = ((seen - expected) ** 2 / expected).sum(), size * (len(table.probability) - 1)
        assert 1e-5 < chi2.sf(statistic, freedom) < 1 - 1e-5


def test_counts_depend_on_the_seed_and_the_number_of_the_sample(field: FieldStructure) -> None:
    bound = Policy.parse("0.3*PL1 + 0.2*FL").bind(field)
    whole, other = drawn(bound, [500, 800, 900]), drawn(bound, [3, 10**6, 900])
    assert np.array_equal(
        np.stack([whole.counts, whole.pattern])[:, whole.rows == 2],
        np.stack([other.counts, other.pattern])[:, other.rows == 2],
    )
    assert not np.array_equal(drawn(bound, [500, 800, 900], 4).counts, whole.counts)
    again = drawn(bound, [900] * 2)
    assert not np.array_equal(again.counts[again.rows == 0], again.counts[again.rows == 1])


def test_few_copies_are_drawn_one_by_one(field: FieldStructure, as_table: AsTable) -> None:
    bound = Policy.parse("PL1 + 0.3*PL2").bind(field)  # 1024 values
    assert draw_counts(bound, np.array([1024, 3]), 0) is None
    mixed = drawn(bound, [5, 100_000, 2])
    assert mixed.counts[mixed.rows != 1].tolist() == [1] * 7
    Z = as_table(mixed.selection(bound, 3))
    single = as_table(bound.draw(3, 0, len(mixed.rows)))
    assert np.array_equal(Z[mixed.rows != 1], single[mixed.rows != 1])
    assert (Z[:, :5] == 1).all()


def test_most_copies(make_field: MakeField) -> None:
    """10^12 copies of one sample: each count within 6 standard deviations."""
    bound = Policy.parse("0.25*PL1/row + 0.5*FL").bind(make_field(40))
    found = drawn(bound, [10**12])
    p = found.tables[0].probability[found.pattern]
    assert sorted(p) == [0.125, 0.125, 0.375, 0.375]
    assert found.counts.sum() == 10**12
    assert (np.abs(found.counts - 1e12 * p) < 6 * np.sqrt(1e12 * p * (1 - p))).all()
    assert draw_counts(Policy.parse("0.3*PL2").bind(make_field(40)), np.array([10**12]), 0) is None


def test_sequences_have_the_patterns_of_their_lengths(sequences) -> None:
    bound = Policy.parse("0.5*PL1 + 0.3*FL/row").bind(sequences)
    lengths = np.array(sequences.lengths)
    copies = np.where(lengths < 8, 2000, 1)
    found = drawn(bound, copies.tolist())
    here = (lengths < 8)[found.rows]
    assert (found.table[here] >= 0).all()
    assert (found.table[~here] < 0).all()

    class Samples:
        def bind_family(self, family):
            return type(sequences)(tuple(lengths[found.rows].tolist())).bind_family(family)

    part = found.selection(bound.policy.bind(Samples()), 3).parts[0]
    share = np.bincount(found.rows, found.counts * np.diff(part.indptr), len(lengths)) / (copies * lengths)
    bound_error = 6 * 0.5 / np.sqrt(2000 * lengths)
    assert (np.abs(share - 0.5) < bound_error)[lengths < 8].all()
