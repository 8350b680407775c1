"""Rules that judge the claims of captions, on small grids made by hand."""

import itertools

import pytest

from fieldfit_paper.chunking_claims import larger_areas, pulled_to_axis, range_by_lam
from fieldfit_paper.complexity_claims import printed_order

CHAIN = "boltzmann-chain"


def grid(test, train=lambda sigma2, lam, beta: 100.0):
    """Cells of two σ², two λ and two β."""
    points = itertools.product((500.0, 5000.0), (0.1, 1.0), (0.1, 1.0))
    return [
        {"sigma2": s, "lam": lam, "beta": beta, "test_nll": test(s, lam, beta), "train_nll": train(s, lam, beta)}
        for s, lam, beta in points
    ]


@pytest.mark.parametrize(("weak", "agrees"), [(190.0, True), (250.0, False)])
def test_contours_are_pulled_where_a_smaller_lam_is_enough(weak, agrees):
    rows = grid(lambda s, lam, beta: 190.0 if lam == 1 else 250.0 if s == 500 else weak)
    text, found = pulled_to_axis({(CHAIN, "FL"): rows, (CHAIN, "PL2"): rows})
    assert found is agrees
    assert "from λ = 1 on and in 50% of the panel at the smallest σ²" in text


def test_larger_areas_compares_the_two_policies_at_one_level():
    wide, narrow = grid(lambda *_: 190.0), grid(lambda s, lam, beta: 190.0 if lam == 1 else 250.0)
    assert larger_areas({(CHAIN, "FL"): narrow, (CHAIN, "PL2"): wide})[1]
    text, found = larger_areas({(CHAIN, "FL"): wide, (CHAIN, "PL2"): narrow})
    assert not found
    assert "PL1/FL: a test NLL of 193.8 or less in 100% of the panels, from λ = 0.1 on" in text


@pytest.mark.parametrize(("growth", "agrees"), [(2.0, True), (0.5, False)])
def test_the_range_over_lam_is_judged_at_most_beta(growth, agrees):
    rows = grid(
        lambda *_: 1.0, lambda s, lam, beta: (100.0 if s == 500 else 90.0) - lam * (growth if s == 5000 else 1)
    )
    text, found = range_by_lam({(CHAIN, "FL"): rows})
    assert found is agrees
    assert f"grows at {2 if agrees else 0} of 2 β" in text


def test_printed_orders_by_hand():
    assert printed_order(5, 14, None) == 10 * (32 + 14)
    assert [printed_order(5, 14, k) for k in (1, 2)] == [10 * (10 + 14), 10 * (40 + 14)]
