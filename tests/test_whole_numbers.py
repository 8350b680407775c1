"""Integers that users give: what counts as one, and what chains, codes and seeds refuse."""

# Arguments of wrong types are what these tests are about.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fieldfit as ff
from fieldfit import chains
from fieldfit.arguments import whole_numbers
from fieldfit.types import DataError, FieldfitError

DATA = chains.Sequences([0, 3, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 2], None, [0, 1, 1, 0, 1], 3, 2)
EMPTY = chains.Sequences([0, 0], [0], [], None, [], 3, 2)
CRF = ff.ChainCRF(2, 3, pairs="all")
CHAIN = ff.BoltzmannChain(2, 3)
THETA = np.zeros(CHAIN.n_parameters)


def test_integers_of_all_kinds_are_taken() -> None:
    """Python's and NumPy's; an empty list has no wrong entry."""
    assert whole_numbers([], "x").tolist() == []
    assert whole_numbers(np.array([1, 2], dtype=np.uint64), "x").dtype == np.int64


@pytest.mark.parametrize("values", [[0.5], ["a"], [[1], [1, 2]], None, [10**30], [True, False], [2**63]])
def test_other_arrays_are_no_integers(values: object) -> None:
    """The same for arrays, whatever NumPy makes of them."""
    with pytest.raises(DataError, match=r"x must be|x has lists of unequal lengths; it must be"):
        whole_numbers(values, "x")


@pytest.mark.parametrize(
    "request_",
    [
        lambda: DATA.recode([0.7, 1.0, 2.0], 3),
        lambda: DATA.recode([2**32, 1, 2], 3),
        lambda: DATA.recode([-2, 1, 2], 3),
        lambda: DATA.recode([0, 1, 2], 2.5),
        lambda: DATA.recode(["a", "b", "c"], 3),
        lambda: CRF.keep_features([0.5, 1.7]),
        lambda: CRF.keep_features([False, True]),
        lambda: CRF.keep_features(["x0"]),
        lambda: ff.BoltzmannChain(2, 3, unseen=1.5),
        lambda: ff.BoltzmannChain(2, 3, unseen=10**400),
        lambda: ff.BoltzmannChain(2.5, 3),
        lambda: ff.ChainCRF("2", 3),
        lambda: ff.ChainCRF(2, 3, label_pairs=["a"]),  # type: ignore[list-item]
        lambda: CHAIN.n_best(THETA, DATA, 1.5),
        lambda: CHAIN.marginals(THETA, DATA, 3),
        lambda: CHAIN.marginals(THETA, [[0]]),
        lambda: chains.selected_windows([[0]], "PL1"),
        lambda: chains.selected_windows(DATA, 3),
        lambda: chains.selected_windows(DATA, "0.5*PL1", random_state=1.5),
        lambda: ff.fit(CHAIN, EMPTY, "FL", sigma2=1.0),
        lambda: ff.fit(CRF, EMPTY.subset([]), "FL", sigma2=1.0),
    ],
)
def test_chains_refuse_what_is_no_integer(request_: Callable[[], object]) -> None:
    """Codes, counts, sizes, seeds and given labels; and sequences without tokens."""
    with pytest.raises(FieldfitError):
        request_()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ff.Potts(100_000, 21),
        lambda: ff.BoltzmannMachine.grid(10**6, 10**6),
        lambda: ff.MarkovRandomField(None, None),
        lambda: ff.MarkovRandomField([2, 2], 5),
        lambda: ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 0], [1, 1]], "PL1", fixed=5),
        lambda: ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 0], [1, 1]], "PL1", stopping=5),
        lambda: ff.plan(ff.BoltzmannMachine(2), [[0, 1], [1, 0], [1, 1]] * 20, policies=5),
        lambda: ff.CRFTagger(n_jobs=1.5).fit([["a", "b"]], [["A", "B"]]),
    ],
)
def test_arguments_of_a_wrong_kind_or_size_get_a_sentence(make):
    with pytest.raises(FieldfitError):
        make()
