from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from math import exp, inf
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fieldfit.policies import FieldStructure, Policy, Selection
from fieldfit.policies.field_families import FieldFamily
from fieldfit.threads import set_threads
from fieldfit.types import PolicyError

MakeField = Callable[..., FieldStructure]
AsTable = Callable[[Selection], np.ndarray]


def test_draws_have_the_stated_moments(law_text: str, field: FieldStructure, as_table: AsTable) -> None:
    """The count of samples with Z_i = Z_j = 1 is Binomial(n, E[Z_i Z_j]).

    Over all entries of all examples (about 30 tests) a right law fails with probability below 30 × 1e-6.
    """
    n = 20_000
    bound = Policy.parse(law_text).bind(field)
    Z = as_table(bound.draw(20261115, 0, n))
    assert Z.max() == 1
    moment = np.clip(bound.second_moment(), 0, 1)
    moment[moment < 1e-14] = 0
    moment[moment > 1 - 1e-14] = 1
    counts = Z.T @ Z
    tail = 2 * np.minimum(binom.cdf(counts, n, moment), binom.sf(counts - 1, n, moment))
    assert tail.min() > 1e-6 / moment.size
    assert np.abs(np.diag(bound.second_moment()) - bound.mean()).max() < 1e-14
    sizes = [family.size for family in bound.families]
    expected = np.add.reduceat(bound.mean(), np.concatenate(([0], np.cumsum(sizes)[:-1])))
    assert np.allclose(bound.expected_counts(), expected, rtol=1e-13)


def test_factors_and_quadratic_form(law_text: str, field: FieldStructure) -> None:
    bound = Policy.parse(law_text).bind(field)
    moment = bound.second_moment()
    assert np.array_equal(moment, moment.T)
    C, d = bound.second_moment_factors()
    assert np.abs((C.T.multiply(d) @ C).toarray() - moment).max() < 1e-12
    scores = np.random.default_rng(1).normal(size=(2, 3, len(moment), 4))
    beta = bound.beta()
    direct = np.einsum("i,j,ij,...ia,...jb->...ab", beta, beta, moment, scores, scores)
    assert np.abs(bound.quadratic_form(scores) - direct).max() < 1e-11 * max(1.0, np.abs(direct).max())
    with pytest.raises(PolicyError, match="one line for each component"):
        bound.quadratic_form(scores[:, :, 1:])


def test_shards_threads_and_seeds(law_text: str, field: FieldStructure, as_table: AsTable) -> None:
    bound = Policy.parse(law_text).bind(field)
    whole = as_table(bound.draw(7, 0, 300))
    cuts = [0, 1, 130, 130, 257, 300]
    shards = [as_table(bound.draw(7, a, b)) for a, b in itertools.pairwise(cuts)]
    assert np.array_equal(np.vstack(shards), whole)
    try:
        set_threads(1)
        one = as_table(bound.draw(7, 0, 300))
        set_threads(2)
        two = as_table(bound.draw(7, 0, 300))
    finally:
        set_threads(None)
    assert np.array_equal(one, whole)
    assert np.array_equal(two, whole)
    certain = ((bound.mean() == 0) | (bound.mean() == 1)).all()
    assert np.array_equal(as_table(bound.draw(8, 0, 300)), whole) == certain
    assert bound.everything == (bound.mean() == 1).all()
    later = bound.draw(7, 257, 300)
    assert (later.n, later.start) == (43, 257)
    assert all(part.start == 257 for part in later.parts)


def test_rows_of_one_draw_are_not_alike(field: FieldStructure, as_table: AsTable) -> None:
    """Two rows, and two terms in one row, have different random numbers."""
    Z = as_table(Policy.parse("0.5*PL2 + 0.5*PL2(connected)").bind(field).draw(0, 0, 200))
    assert len(np.unique(Z[:, :10], axis=0)) > 150
    assert 0.4 < (Z[:, :10] == Z[:, 10:]).mean() < 0.6


def test_selection_uses_the_smallest_form(field: FieldStructure) -> None:
    parts = Policy.parse("PL1 + 0.5*PL2 + 0.5*PL3/row + 0.5*FL + 0*PL4").bind(field).draw(0, 0, 50).parts
    assert parts[0].everything
    assert parts[1].indices is not None
    assert parts[2].rows is not None
    assert parts[3].rows is not None
    assert parts[4].count(50) == 0
    for part in parts:
        indptr, samples = part.component_rows(50)
        assert len(samples) == indptr[-1] == part.count(50)
        for j in range(len(indptr) - 1):
            assert (np.diff(samples[indptr[j] : indptr[j + 1]]) > 0).all()
    sparse = parts[1]
    assert sparse.indices is not None
    assert sparse.indptr is not None
    indptr, samples = sparse.component_rows(50)
    pairs = {(int(i), j) for j in range(10) for i in samples[indptr[j] : indptr[j + 1]]}
    rows = np.repeat(np.arange(50), np.diff(sparse.indptr))
    assert pairs == set(zip(rows.tolist(), sparse.indices.tolist(), strict=True))


def test_sparse_components_increase_within_a_sample(law_text: str, field: FieldStructure) -> None:
    for part in Policy.parse(law_text).bind(field).draw(3, 0, 200).parts:
        if part.indices is not None:
            assert part.indptr is not None
            for a, b in itertools.pairwise(part.indptr):
                assert (np.diff(part.indices[a:b]) > 0).all()


def test_multinomial_selects_exactly_one(field: FieldStructure, as_table: AsTable) -> None:
    Z = as_table(Policy.parse("Multinomial(0.6*PL1 + 0.4*PL2)").bind(field).draw(0, 0, 2000))
    assert (Z.sum(axis=1) == 1).all()
    product = Policy.parse("Multinomial(PL1[0:2]) + Multinomial(PL1[2:5])").bind(field)
    Z = as_table(product.draw(0, 0, 2000))
    assert (Z[:, :2].sum(axis=1) == 1).all()
    assert (Z[:, 2:].sum(axis=1) == 1).all()


@pytest.mark.parametrize("text", ["Unless(0.3*FL, 0.7*PL1 + 0.3*PL2)", "Unless(0.1*PL2, Partition(2))"])
def test_unless_never_selects_both(field: FieldStructure, as_table: AsTable, text: str) -> None:
    bound = Policy.parse(text).bind(field)
    Z = as_table(bound.draw(0, 0, 2000))
    first = Z[:, : bound.families[0].size].any(axis=1)
    others = Z[:, bound.families[0].size :].any(axis=1)
    assert not (first & others).any()
    assert first.any()
    assert others.any()


@pytest.mark.parametrize(("m", "k", "observed"), [(5, 2, ()), (7, 3, (4,)), (12, 5, (0, 3)), (6, 6, ())])
def test_partition_covers_every_variable_once(
    make_field: MakeField, m: int, k: int, observed: tuple[int, ...]
) -> None:
    bound = Policy.parse(f"Partition({k})").bind(make_field(m, observed))
    free = m - len(observed)
    assert [family.name for family in bound.families] == [f"PL{k}"] + ([f"PL{free % k}"] if free % k else [])
    assert bound.family_terms == (0,) * len(bound.families)
    selection = bound.draw(5, 0, 100)
    covered = np.zeros((100, m), dtype=np.int64)
    for part in selection.parts:
        assert isinstance(part.family, FieldFamily)
        rows = np.repeat(np.arange(100), np.diff(part.indptr))
        np.add.at(covered, (rows[:, None], part.family.targets(part.indices)), 1)
    expected = np.ones(m, dtype=np.int64)
    expected[list(observed)] = 0
    assert (covered == expected).all()


@pytest.mark.parametrize(("m", "k"), [(4, 2), (5, 2), (5, 3), (6, 2), (6, 3), (7, 3), (3, 2), (4, 3)])
def test_partition_moments_against_all_orders(make_field: MakeField, m: int, k: int) -> None:
    """A uniform order of the variables, cut into blocks, enumerated."""
    bound = Policy.parse(f"Partition({k})").bind(make_field(m))
    number: dict[tuple[int, ...], int] = {}
    for family in bound.families:
        for j in range(family.size):
            number[family.component(j).target] = len(number)
    total, states = np.zeros((len(number), len(number))), 0
    for order in itertools.permutations(range(m)):
        z = np.zeros(len(number))
        for start in range(0, m, k):
            z[number[tuple(sorted(order[start : start + k]))]] = 1
        total += np.outer(z, z)
        states += 1
    assert np.abs(bound.second_moment() - total / states).max() < 1e-14
    C, d = bound.second_moment_factors()
    assert np.abs((C.T.multiply(d) @ C).toarray() - total / states).max() < 1e-12


@pytest.mark.parametrize(
    "text",
    [
        "LogLinear(PL1)",
        "LogLinear(PL1; 0: 0.5; 1: -1; 0,1: 2; 2,3: -inf; 1,2,4: -1.5)",
        "LogLinear(PL1; none: -inf; 3: 1; 3,4: 0.7)",
        "LogLinear(PL1; none: 1.3; 3: -inf; 0,4: 0.7)",
    ],
)
def test_loglinear_against_enumeration(field: FieldStructure, text: str) -> None:
    law: Any = Policy.parse(text).laws[0]
    bound = Policy.parse(text).bind(field)
    weights, states = [], np.array(list(itertools.product((0, 1), repeat=5)))
    for z in states:
        total = 0.0
        for units, value in law.interactions:
            if (units and z[list(units)].all()) or (not units and not z.any()):
                total += value
        weights.append(0.0 if total == -inf else exp(total))
    p = np.array(weights) / sum(weights)
    assert np.abs(bound.mean() - p @ states).max() < 1e-12
    assert np.abs(bound.second_moment() - np.einsum("s,si,sj->ij", p, states, states)).max() < 1e-12


def test_loglinear_subsumes_the_multinomial(field: FieldStructure) -> None:
    pairs = "".join(f"; {i},{j}: -inf" for i, j in itertools.combinations(range(5), 2))
    units = "".join(f"; {j}: {np.log(p)}" for j, p in enumerate([0.1, 0.2, 0.3, 0.15, 0.25]))
    loglinear = Policy.parse(f"LogLinear(PL1; none: -inf{units}{pairs})").bind(field)
    multinomial = Policy.parse("Multinomial([0.1,0.2,0.3,0.15,0.25]*PL1)").bind(field)
    assert np.abs(loglinear.second_moment() - multinomial.second_moment()).max() < 1e-12


def test_loglinear_with_many_units_in_a_chain(make_field: MakeField) -> None:
    """Units that attract their neighbours: elimination, not enumeration of 2^120 states (transfer matrix agrees)."""
    m = 120
    bound = Policy.parse("LogLinear(PL1" + "".join(f"; {j},{j + 1}: 0.8" for j in range(m - 1)) + ")").bind(
        make_field(m)
    )
    T = np.array([[1, 1], [1, exp(0.8)]])
    forward = [np.ones(2)]
    for _ in range(m - 1):
        vector = forward[-1] @ T
        forward.append(vector / vector.sum())
    lam = [a[1] * b[1] / (a @ b) for a, b in zip(forward, forward[::-1], strict=True)]
    assert np.abs(bound.mean() - lam).max() < 1e-12
    with pytest.raises(PolicyError, match="units; its exact moments allow"):
        Policy.parse("LogLinear(PL2)").bind(make_field(m))


def test_time_and_memory_follow_what_is_selected(make_field: MakeField) -> None:
    """1% of PL2 on 500 variables: 1.25 of 125 million candidates, in little more than the result's own bytes."""
    bound = Policy.parse("0.01*PL2").bind(make_field(500))
    bound.draw(0, 0, 10)
    tracemalloc.start()
    selection = bound.draw(0, 0, 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    part = selection.parts[0]
    assert part.indices is not None
    assert part.indptr is not None
    expected = 0.01 * 124_750 * 1000
    assert abs(selection.count() - expected) < 6 * np.sqrt(expected)  # fails with probability 2e-9
    assert peak < 1.1 * (part.indices.nbytes + part.indptr.nbytes) + 100_000


def test_moments_of_many_components_stay_sparse(make_field: MakeField) -> None:
    bound = Policy.parse("PL1 + 0.1*PL2 + Partition(2)").bind(make_field(80))
    with pytest.raises(PolicyError, match="too many to list"):
        bound.second_moment()
    C, d = bound.second_moment_factors()
    assert C.nnz < 10 * bound.n_components()
    u = np.random.default_rng(0).normal(size=bound.n_components())
    # E[(uᵀZ)²] = (λᵀu)² + the variances of the independent groups.
    assert np.isfinite(d).all()
    total = bound.quadratic_form(u[:, None])[0, 0]
    lam = bound.mean()
    second = slice(80, 80 + 3160)
    third = slice(80 + 3160, None)
    alone = Policy.parse("Partition(2)").bind(make_field(80)).second_moment()
    centred = u[third] @ (alone - np.outer(lam[third], lam[third])) @ u[third]
    expected = (lam @ u) ** 2 + (u[second] ** 2 * 0.1 * 0.9).sum() + centred
    assert abs(total - expected) < 1e-9 * abs(expected)
    with pytest.raises(PolicyError, match="use a smaller k"):
        Policy.parse("Partition(5)").bind(make_field(60)).second_moment_factors()


def test_wrong_ranges_and_seeds(field: FieldStructure) -> None:
    bound = Policy.parse("0.5*PL1").bind(field)
    assert bound.draw(0, 5, 5).count() == 0
    for start, stop in ((-1, 3), (4, 3)):
        with pytest.raises(PolicyError, match="start"):
            bound.draw(0, start, stop)
    with pytest.raises(PolicyError, match="seed"):
        bound.draw(-1, 0, 3)
    bound.draw(2**64 - 1, 0, 3)
