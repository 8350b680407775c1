from __future__ import annotations

import itertools
from collections.abc import Callable
from math import comb

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit import _kernels
from fieldfit.policies import (
    Blocks,
    Component,
    Components,
    FieldStructure,
    Full,
    Policy,
    PseudoLikelihood,
    Subset,
)
from fieldfit.policies.field_families import FieldFamily
from fieldfit.types import PolicyError

MakeField = Callable[..., FieldStructure]


def check_contract(family: FieldFamily, n_variables: int) -> None:
    """All views of a family agree: components one by one, targets, blocks."""
    indices = np.arange(family.size)
    indptr, members = family.blocks(indices[::-1])
    targets = family.targets(indices)
    assert (targets is None) == (family.block_size is None)
    rest = True
    for j in indices:
        target, given_ = family.component(int(j))
        assert target == tuple(sorted(target))
        assert not set(target) & set(given_)
        back = family.size - 1 - j
        assert tuple(members[indptr[back] : indptr[back + 1]]) == target
        if targets is not None:
            assert tuple(targets[j]) == target
        rest &= len(target) + len(given_) == n_variables
    assert rest == family.conditions_on_rest
    assert family.sizes(3, 6).tolist() == [family.size] * 3
    for wrong in (-1, family.size):
        with pytest.raises(PolicyError, match=f"there is no component {wrong}"):
            family.component(wrong)
        with pytest.raises(PolicyError, match="there is no component"):
            family.targets(np.array([wrong]))


@pytest.mark.parametrize("observed", [(), (1,), (0, 4)])
def test_pseudo_likelihood_lists_all_subsets_in_lexicographic_order(
    make_field: MakeField, observed: tuple[int, ...]
) -> None:
    structure = make_field(6, observed)
    free = [v for v in range(6) if v not in observed]
    for k in range(1, len(free) + 1):
        family = structure.bind_family(PseudoLikelihood(k))
        assert isinstance(family, FieldFamily)
        check_contract(family, 6)
        assert family.name == f"PL{k}"
        expected = list(itertools.combinations(free, k))
        assert [family.component(int(j)).target for j in range(family.size)] == expected
    with pytest.raises(PolicyError, match=f"PL{len(free) + 1} needs blocks"):
        structure.bind_family(PseudoLikelihood(len(free) + 1))


@settings(deadline=None)
@given(st.integers(1, 60).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, m))), st.data())
def test_subset_numbers_and_subsets_are_inverse(shape: tuple[int, int], data: st.DataObject) -> None:
    m, k = shape
    ranks = np.array(data.draw(st.lists(st.integers(0, comb(m, k) - 1), min_size=1, max_size=20)), dtype=np.int64)
    subsets = np.empty((len(ranks), k), dtype=np.int64)
    _kernels.unrank_subsets(ranks, m, k, out=subsets, n_threads=2)
    assert (np.diff(subsets, axis=1) > 0).all()
    assert subsets.min() >= 0
    assert subsets.max() < m
    back = np.empty_like(ranks)
    _kernels.rank_subsets(subsets, m, out=back, n_threads=1)
    assert np.array_equal(back, ranks)


def test_numbers_too_large_for_64_bits_are_refused(make_field: MakeField) -> None:
    family = make_field(66).bind_family(PseudoLikelihood(33))
    assert family.component(comb(66, 33) - 1).target == tuple(range(33, 66))
    with pytest.raises(PolicyError, match="more than can be numbered"):
        make_field(67).bind_family(PseudoLikelihood(33))


@pytest.mark.parametrize("seed", range(4))
def test_connected_subsets_against_networkx(seed: int) -> None:
    graph = nx.gnp_random_graph(9, 0.3, seed=seed)
    observed = (2,) if seed % 2 else ()
    structure = FieldStructure(9, tuple(tuple(graph[v]) for v in range(9)), observed)
    for k in (1, 2, 3, 4):
        expected = [
            chosen for chosen in itertools.combinations(structure.free, k) if nx.is_connected(graph.subgraph(chosen))
        ]
        family = structure.bind_family(PseudoLikelihood(k, connected=True))
        assert isinstance(family, FieldFamily)
        check_contract(family, 9)
        assert [family.component(int(j)).target for j in range(family.size)] == expected


def test_no_connected_subset_is_refused() -> None:
    structure = FieldStructure(3, ((), (), ()))
    with pytest.raises(PolicyError, match="no connected set of 2"):
        structure.bind_family(PseudoLikelihood(2, connected=True))
    with pytest.raises(PolicyError, match="needs blocks of 4"):
        structure.bind_family(PseudoLikelihood(4, connected=True))


def test_full_likelihood_blocks_and_own_components(make_field: MakeField) -> None:
    structure = make_field(5, (3,))
    for family, expected in (
        (Full(), [((0, 1, 2, 4), (3,))]),
        (Blocks(((4, 0), (1, 2))), [((0, 4), (1, 2, 3)), ((1, 2), (0, 3, 4))]),
        (Blocks(((0,), (1, 2))), [((0,), (1, 2, 3, 4)), ((1, 2), (0, 3, 4))]),
        (Components((((0,), (2, 1)), ((0, 1), ()))), [((0,), (1, 2, 3)), ((0, 1), (3,))]),
        (Components((((0,), (1, 2, 4)),)), [((0,), (1, 2, 3, 4))]),
        (Subset(PseudoLikelihood(2), (5, 0)), [((2, 4), (0, 1, 3)), ((0, 1), (2, 3, 4))]),
        (Subset(PseudoLikelihood(1), range(1, 4, 2)), [((1,), (0, 2, 3, 4)), ((4,), (0, 1, 2, 3))]),
        (Subset(Blocks(((0,), (1, 2))), (1,)), [((1, 2), (0, 3, 4))]),
    ):
        bound = structure.bind_family(family)
        assert isinstance(bound, FieldFamily)
        assert bound.name == str(family)
        check_contract(bound, 5)
        assert [bound.component(j) for j in range(bound.size)] == [Component(*pair) for pair in expected]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Blocks({0,7})", "names variable 7; the model has the variables 0 to 4"),
        ("Components({0}|{9})", "names variable 9"),
        ("Blocks({0,3})", "conditions on it"),
        ("Components({3}|{0})", "conditions on it"),
        ("PL1[2:9]", "has component 8, but PL1 has the components 0 to 3"),
        ("PL2[6]", "has component 6"),
        ("[0.1,0.2]*PL1", "list of 2 selection probabilities λ, but 4 components"),
        ("PL1@[1,2,3]", "list of 3 weights β, but 4 components"),
        ("Multinomial([0.5,0.5]*PL1)", "list of 2 probabilities λ, but 4 components"),
        ("Partition(5)", "PL5 needs blocks of 5"),
        ("LogLinear(PL1; 4: 1)", "names unit 4; the units are 0 to 3"),
        ("LogLinear(FL; 0: -inf)", "never selects"),
        ("LogLinear(FL; none: -inf; 0: -inf)", "allows no state"),
    ],
)
def test_policies_that_do_not_fit_the_field(make_field: MakeField, text: str, reason: str) -> None:
    with pytest.raises(PolicyError, match=reason):
        Policy.parse(text).bind(make_field(5, (3,)))


def test_a_field_without_free_variables(make_field: MakeField) -> None:
    with pytest.raises(PolicyError, match="conditions on every variable"):
        make_field(2, (0, 1)).bind_family(Full())


def test_kernels_refuse_wrong_shapes() -> None:
    ranks, out = np.array([0, 3]), np.empty((2, 2), dtype=np.int64)
    with pytest.raises(ValueError, match="out of range"):
        _kernels.unrank_subsets(ranks, 3, 2, out=out, n_threads=1)
    with pytest.raises(ValueError, match="shape"):
        _kernels.unrank_subsets(ranks, 3, 1, out=out, n_threads=1)
    with pytest.raises(ValueError, match="1 <= k <= m"):
        _kernels.unrank_subsets(ranks, 1, 2, out=out, n_threads=1)
    with pytest.raises(ValueError, match="2\\^63"):
        _kernels.unrank_subsets(ranks, 80, 40, out=np.empty((2, 40), dtype=np.int64), n_threads=1)
    for wrong in ([[1, 0]], [[0, 3]], [[-1, 0]], [[1, 1]]):
        with pytest.raises(ValueError, match="does not increase"):
            _kernels.rank_subsets(np.array(wrong), 3, out=np.empty(1, dtype=np.int64), n_threads=1)
    none, mask, sizes = np.empty(0), np.empty(0, dtype=np.uint8), np.array([4, 4])
    counts = np.empty(2, dtype=np.int64)
    with pytest.raises(ValueError, match="lam"):
        _kernels.bernoulli_count(
            seed=0,
            stream=0,
            first_row=0,
            sizes=sizes,
            lam=float("nan"),
            keep=none,
            active=mask,
            counts=counts,
            n_threads=1,
        )
    with pytest.raises(ValueError, match="keep"):
        _kernels.bernoulli_count(
            seed=0,
            stream=0,
            first_row=0,
            sizes=sizes,
            lam=0.5,
            keep=np.ones(3),
            active=mask,
            counts=counts,
            n_threads=1,
        )
    with pytest.raises(ValueError, match="active"):
        _kernels.bernoulli_count(
            seed=0,
            stream=0,
            first_row=0,
            sizes=sizes,
            lam=0.5,
            keep=none,
            active=np.ones(1, dtype=np.uint8),
            counts=counts,
            n_threads=1,
        )
    with pytest.raises(ValueError, match="negative"):
        _kernels.bernoulli_count(
            seed=0, stream=0, first_row=0, sizes=-sizes, lam=0.5, keep=none, active=mask, counts=counts, n_threads=1
        )
    with pytest.raises(ValueError, match="shorter"):
        _kernels.bernoulli_fill(
            seed=0,
            stream=0,
            first_row=0,
            sizes=sizes,
            lam=0.5,
            keep=none,
            active=mask,
            indptr=np.array([0, 2, 4]),
            indices=counts,
            n_threads=1,
        )
    with pytest.raises(ValueError, match="falls"):
        _kernels.bernoulli_fill(
            seed=0,
            stream=0,
            first_row=0,
            sizes=sizes,
            lam=0.5,
            keep=none,
            active=mask,
            indptr=np.array([0, 2, 1]),
            indices=counts,
            n_threads=1,
        )
    # An indptr that leaves too little room loses components, but nothing is written outside it.
    guarded = np.full(4, -7)
    _kernels.bernoulli_fill(
        seed=0,
        stream=0,
        first_row=0,
        sizes=sizes,
        lam=1.0,
        keep=none,
        active=mask,
        indptr=np.array([0, 1, 3]),
        indices=guarded,
        n_threads=1,
    )
    assert guarded.tolist() == [0, 0, 1, -7]
    rows = np.arange(2)
    with pytest.raises(ValueError, match="blocks"):
        _kernels.partition_ranks(
            seed=0,
            stream=0,
            rows=rows,
            m=5,
            k=2,
            blocks=np.empty((2, 3), dtype=np.int64),
            remainder=counts,
            n_threads=1,
        )
    with pytest.raises(ValueError, match="remainder"):
        _kernels.partition_ranks(
            seed=0,
            stream=0,
            rows=rows,
            m=4,
            k=2,
            blocks=np.empty((2, 2), dtype=np.int64),
            remainder=counts,
            n_threads=1,
        )
