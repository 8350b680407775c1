"""Families whose components differ between samples: any structure that can bind a family can be drawn from."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fieldfit.policies import Policy
from fieldfit.types import PolicyError

TEXTS = (
    "PL1 + 0.3*PL2",
    "0.3*PL2/sentence",
    "Multinomial(0.5*PL1 + 0.3*PL2 + 0.2*PL3/sentence)",
    "Unless(0.1*PL2, 0.5*PL1)",
    "LogLinear(FL/row + PL1/row; 0,1: -1)",
)


def rows_of(part: Any, n: int) -> list[list[int]]:
    if part.indptr is not None:
        return [part.indices[a:b].tolist() for a, b in itertools.pairwise(part.indptr)]
    sizes = part.family.sizes(part.start, part.start + n)
    chosen = np.ones(n, dtype=bool) if part.rows is None else part.rows
    return [list(range(size)) if on else [] for size, on in zip(sizes, chosen, strict=True)]


@pytest.mark.parametrize("text", TEXTS)
def test_draws_stay_inside_each_sample_and_shards_agree(sequences: Any, text: str) -> None:
    bound = Policy.parse(text).bind(sequences)
    whole = bound.draw(4, 0, 400)
    shards = [bound.draw(4, a, b) for a, b in ((0, 133), (133, 400))]
    assert whole.count() == sum(shard.count() for shard in shards)
    for p, part in enumerate(whole.parts):
        rows = rows_of(part, 400)
        assert all(not row or max(row) < size for row, size in zip(rows, part.family.sizes(0, 400), strict=True))
        assert rows == rows_of(shards[0].parts[p], 133) + rows_of(shards[1].parts[p], 267)


@pytest.mark.parametrize("text", TEXTS[:4])
def test_expected_counts_of_each_sample(sequences: Any, text: str) -> None:
    """The first component of every sample: Z_0 summed over samples and seeds has the mean Σ λ_0.

    The tails of a sum of independent indicators lie within those of the binomial with the same mean (Hoeffding,
    1956), so that each of the 16 comparisons fails with probability at most 1e-6.
    """
    bound = Policy.parse(text).bind(sequences)
    selections = [bound.draw(seed, 0, 400) for seed in range(10)]
    offsets = [
        np.concatenate(([0], np.cumsum([f.sizes(r, r + 1)[0] for f in bound.families])))[:-1] for r in range(400)
    ]
    means = np.array([bound.mean(row)[offset] for row, offset in enumerate(offsets)])
    for p in range(len(bound.families)):
        found = sum(0 in row for selection in selections for row in rows_of(selection.parts[p], 400))
        mean = means[:, p].mean()
        assert binom.cdf(found, 4000, mean) > 1e-6
        assert binom.sf(found - 1, 4000, mean) > 1e-6


def test_moments_belong_to_one_sample(sequences: Any) -> None:
    bound = Policy.parse("PL1 + 0.3*PL2/sentence").bind(sequences)
    with pytest.raises(PolicyError, match="Give row"):
        bound.mean()
    length = sequences.lengths[3]
    assert bound.n_components(3) == len(bound.mean(3)) == length + max(length - 1, 1)
    C, d = bound.second_moment_factors(3)
    assert np.abs((C.T.multiply(d) @ C).toarray() - bound.second_moment(3)).max() < 1e-12
    assert np.allclose(bound.expected_counts(3), [length, 0.3 * max(length - 1, 1)])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[0.1,0.2]*PL1", "differ between samples: give one"),
        ("PL1@[1,2]", "differ between samples: give one"),
        ("Partition(2)", "same variables in every sample"),
        ("LogLinear(PL1; 0: 1)", "write PL1/row"),
    ],
)
def test_what_needs_one_list_of_components(sequences: Any, text: str, reason: str) -> None:
    with pytest.raises(PolicyError, match=reason):
        Policy.parse(text).bind(sequences)
