"""Bad numbers get a sentence: what was given, and what it must be."""

# Arguments of wrong types are what these tests are about.
# mypy: disable-error-code="arg-type"

import re
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import fieldfit as ff
from fieldfit import sweep as ff_sweep
from fieldfit import types as ff_types
from fieldfit.api.estimate_table import EstimateTable
from fieldfit.arguments import is_masked, numbers_of
from fieldfit.types import FieldfitError, FieldfitWarning, ModelError

MODEL = ff.BoltzmannMachine(3)
X = MODEL.sample([1.0, -1.0, 0.5], 60, 0).values
#: Given where numbers and fits must be.
WRONG_WEIGHTS: Any = [1, "a"]
NO_FITS: Any = [1, 2]
MASKED: Any = np.ma.masked
WORDS = ([["the", "cat"], ["a"]], [["D", "N"], ["D"]])

REFUSED = {
    "method": (
        lambda: ff.fit(MODEL, X, method="bfgs"),
        "method is 'bfgs'; it must be 'auto', 'lbfgs', 'newton' or, for",
    ),
    "method of groups": (lambda: ff.fit(MODEL, X, group_l1=1.0, method=3), "method is 3; it must be 'auto'"),
    "check_drift": (lambda: ff.fit(MODEL, X, check_drift="a"), "check_drift is 'a'; it must be True or False."),
    "tol nan": (lambda: ff.fit(MODEL, X, tol=np.nan), "tol is nan; it must be a number above 0, or 'statistical'."),
    "tol negative": (lambda: ff.fit(MODEL, X, tol=-1), "tol is -1; it must be a number above 0"),
    "tol masked": (lambda: ff.fit(MODEL, X, tol=MASKED), "tol is masked; it must be a number above 0"),
    "max_iter masked": (lambda: ff.fit(MODEL, X, max_iter=MASKED), "max_iter is masked; it must be an integer"),
    "seed masked": (lambda: ff.fit(MODEL, X, random_state=MASKED), "random_state is masked"),
    "sigma2 masked": (lambda: ff.fit(MODEL, X, sigma2=MASKED), "sigma2 has masked entries"),
    "sigma2 in part masked": (
        lambda: ff.fit(MODEL, X, sigma2=np.ma.array([1.0] * 3, mask=[0, 1, 0])),
        "sigma2 has masked entries",
    ),
    "l1 masked": (lambda: ff.fit(MODEL, X, l1={"x0:x1": MASKED}), "l1 of 'x0:x1' has masked entries"),
    "fixed masked": (lambda: ff.fit(MODEL, X, fixed={"x0:x1": MASKED}), "fixed['x0:x1'] has masked entries"),
    "start masked": (lambda: ff.fit(MODEL, X, start=np.ma.array([1.0] * 3, mask=[0, 1, 0])), "θ has masked entries"),
    "sample_weight masked": (
        lambda: ff.fit(MODEL, X, sample_weight=np.ma.array(np.ones(60), mask=np.arange(60) == 3)),
        "sample_weight has masked entries. Give values without a mask.",
    ),
    "groups masked": (
        lambda: ff.fit(MODEL, X, groups=np.ma.array(np.arange(60), mask=np.arange(60) == 3)),
        "groups has masked entries",
    ),
    "weights masked": (lambda: ff.fit(MODEL, X, weights=[MASKED]), "λ or β has masked entries"),
    "m masked": (lambda: ff.BoltzmannMachine(MASKED), "is masked; it must be an integer"),
    "n masked": (lambda: MODEL.sample([1.0] * 3, MASKED), "The number of samples n is masked"),
    "row masked": (lambda: ff.fit(MODEL, [MASKED]), "Row 0 (counting from 0) is masked, not a list of values."),
    "tol text": (lambda: ff.fit(MODEL, X, tol="x"), "tol is 'x'; it must be a number above 0, or 'statistical'."),
    "tol none": (lambda: ff.fit(MODEL, X, tol=None), "tol is None"),
    "tol array": (lambda: ff.fit(MODEL, X, tol=np.ones(2)), "tol is array([1., 1.])"),
    "max_iter negative": (
        lambda: ff.fit(MODEL, X, max_iter=-1),
        "max_iter is -1; it must be an integer of at least 0.",
    ),
    "max_iter fraction": (lambda: ff.fit(MODEL, X, max_iter=1.5), "max_iter is 1.5"),
    "max_iter infinite": (lambda: ff.fit(MODEL, X, max_iter=np.inf), "max_iter is inf"),
    "sigma2 huge": (lambda: ff.fit(MODEL, X, sigma2=10**400), "sigma2 of all parameters is 1000"),
    "start huge": (lambda: ff.fit(MODEL, X, start=[10**400] * 3), "θ is [1000"),
    "weights huge": (
        lambda: ff.fit(MODEL, X, sample_weight=[10**400] * 60),
        "sample_weight does not consist of numbers",
    ),
    "tol of a plan": (lambda: ff.plan(MODEL, X, tol=0), "tol is 0; it must be a number above 0"),
    "reading nan": (lambda: ff.plan(MODEL, X, reading=np.nan), "reading is nan; it must be a number of at least 0."),
    "reading negative": (lambda: ff.plan(MODEL, X, reading=-5), "reading is -5"),
    "seed fraction": (lambda: ff.fit(MODEL, X, random_state=1.5), "random_state is 1.5; it must be an integer"),
    "seed none": (lambda: ff.fit(MODEL, X, random_state=None), "random_state is None"),
    "seed negative": (lambda: ff.fit(MODEL, X, random_state=-1), "random_state is -1"),
    "seed too large": (lambda: ff.fit(MODEL, X, random_state=2**64), "from 0 to 2^64 − 1"),
    "seed true": (lambda: ff.fit(MODEL, X, random_state=True), "random_state is True"),
    "m none": (lambda: ff.BoltzmannMachine(None), "The number of variables m is None; it must be an integer"),
    "m nan": (lambda: ff.BoltzmannMachine(np.nan), "The number of variables m is nan"),
    "m text": (lambda: ff.BoltzmannMachine("3"), "The number of variables m is '3'"),
    "m zero": (
        lambda: ff.BoltzmannMachine(0),
        "The number of variables m is 0; it must be an integer from 1 to",
    ),
    "states of text": (
        lambda: ff.BoltzmannMachine(3, states=("a", "b")),
        "two different finite numbers; got ('a', 'b')",
    ),
    "three states": (lambda: ff.BoltzmannMachine(3, states=(0, 1, 2)), "two different finite numbers"),
    "no states": (lambda: ff.BoltzmannMachine(3, states=None), "two different finite numbers; got None"),
    "q none": (lambda: ff.Potts(3, None), "The number of states q is None"),
    "q one": (lambda: ff.Potts(3, 1), "The number of states q is 1; it must be an integer from 2 to"),
    "edges of numbers": (lambda: ff.BoltzmannMachine(3, edges=[1, 2]), "Edge 0 is 1; an edge is a pair"),
    "edges of text": (
        lambda: ff.BoltzmannMachine(3, edges=[["a", "b"]]),
        "an edge is a pair of variables, by number.",
    ),
    "a number of edges": (lambda: ff.BoltzmannMachine(3, edges=5), "edges is 5; it must be a list of pairs"),
    "samples below 0": (lambda: MODEL.sample([0, 0, 0], -3), "The number of samples n is -3; it must be an integer"),
    "samples of text": (lambda: MODEL.sample([0, 0, 0], "5"), "The number of samples n is '5'"),
    "sample seed": (lambda: MODEL.sample([0, 0, 0], 5, random_state=0.5), "random_state is 0.5"),
    "labels none": (lambda: ff.ChainCRF(None, 3), "The number of labels is None"),
    "symbols fraction": (lambda: ff.BoltzmannChain(2, 1.5), "The number of symbols is 1.5"),
    "a text as weight": (
        lambda: ff.fit(MODEL, X, "PL1 + PL2", weights=WRONG_WEIGHTS),
        "single numbers or lists of numbers; got 'a'.",
    ),
    "states too small": (
        lambda: ff.BoltzmannMachine(3, states=(0, 1e-100)),
        "the larger one must be from 1e-50 to 1e+50",
    ),
    "states too large": (lambda: ff.BoltzmannMachine(3, states=(0, 1e308)), "must be from 1e-50 to 1e+50"),
    "biases": (lambda: ff.BoltzmannMachine(3, biases=np.zeros(2)), "biases is array([0., 0.]); it must be True or"),
    "weights": (lambda: ff.fit(MODEL, X, weights=2.0), "weights is 2.0; it must be None, 'auto', an AutoWeights"),
    "method array": (lambda: ff.fit(MODEL, X, method=np.zeros(2)), "method is array([0., 0.]); it must be 'auto'"),
    "wide_rows": (lambda: ff.fit(MODEL, X, wide_rows=np.zeros(2)), "it must be 'refuse' or 'drop'"),
    "weight_kind": (lambda: ff.fit(MODEL, X, weight_kind=np.zeros(2)), "it must be 'counts' or 'importance'"),
    "group_l1": (lambda: ff.fit(MODEL, X, group_l1=np.zeros((2, 2))), "group_l1"),
    "Potts states": (lambda: ff.Potts(3, q=3, states=7), "states is 7; it must be a list of 3 states, or None."),
    "Potts tied": (lambda: ff.Potts(3, q=3, tied=None), "tied is None; it must be True, False or a list of 3 labels"),
    "Potts couplings": (lambda: ff.Potts(3, q=3, couplings=np.zeros(2)), "it must be 'table' or 'agree'"),
    "grid": (lambda: ff.Potts.grid(None, 3, q=2), "The number of rows of a grid is None; it must be an integer"),
    "threads": (lambda: ff.set_threads("x"), "The number of threads must be an integer of at least 1; got 'x'"),
    "no model": (lambda: ff.project(None, [0.5, 0.5]), "project needs a model"),
    "no distribution": (lambda: ff.project(MODEL, "x"), "it must be an array of numbers"),
    "no fits": (lambda: ff.compare(NO_FITS), "compare needs fits; got 1"),
    "no fit": (lambda: ff.likelihood_ratio(None, None), "A likelihood ratio needs a fit; got None"),
    "no name": (lambda: ff.find_data(None), "The name of a data file is text or a Path; got None"),
    "seed of folds": (lambda: ff.cross_validate(MODEL, X, ["PL1"], random_state=None), "random_state is None"),
    "seed of a plan": (lambda: ff.plan(MODEL, X, flops=1e5, random_state="x"), "random_state is 'x'"),
    "no network": (lambda: ff.networks.centrality(None), "centrality needs a Network; got None"),
    "no networks": (lambda: ff.networks.draw({}), "draw needs a Network, or a mapping from titles to Networks"),
    "no p-values": (lambda: ff.networks.false_discovery_rates([0.1, 2.0]), "numbers from 0 to 1"),
    "no alignment": (lambda: ff.proteins.fit_family(None), "fit_family needs an Alignment; got None"),
    "no couplings": (lambda: ff.proteins.zero_sum(np.zeros((2, 2))), "it must have the shape (pairs, q, q)"),
    "no path": (lambda: ff.proteins.read_alignment(None), "The path of a file is text or a Path; got None"),
    "no sweep": (lambda: ff_sweep.read_sweep(3.5), "The path of a file is text or a Path; got 3.5"),
    "min_count": (lambda: ff.CRFTagger(min_count="x").fit(*WORDS), "min_count is 'x'; it must be an integer"),
    "patience": (lambda: ff.CRFTagger(patience=None).fit(*WORDS), "patience is None; it must be an integer"),
    "all_pairs": (lambda: ff.CRFTagger(all_pairs=2).fit(*WORDS), "all_pairs is 2; it must be True or False"),
    "field's states": (
        lambda: ff.PairwiseField(states=3).fit(X),
        "states is 3; it must be a list of states, or None",
    ),
    "field's edges": (lambda: ff.PairwiseField(edges=3).fit(X), "edges is 3; it must be a list of pairs"),
}


def test_a_start_beyond_the_range_of_numbers_is_refused():
    with pytest.raises(ff_types.ModelError, match="must be between −1e\\+150 and 1e\\+150"):
        ff.fit(MODEL, X, "FL", start=np.full(3, 1e308))


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_a_sentence(name):
    action, sentence = REFUSED[name]
    with pytest.raises(FieldfitError, match=re.escape(sentence)):
        action()


def test_whole_numbers_of_other_types_are_accepted():
    assert ff.BoltzmannMachine(np.int64(3)).m == 3
    assert ff.BoltzmannMachine(3.0).m == 3
    assert len(MODEL.sample([0, 0, 0], np.int32(4), random_state=np.uint8(1))) == 4
    assert len(MODEL.sample([0, 0, 0], 0)) == 0


def test_sizes_are_checked_before_memory_is_taken():
    with pytest.raises(
        FieldfitError, match=r"The number of labels is 100000; it must be an integer from 1 to 16,384"
    ):
        ff.ChainCRF(10**5, 3)
    wide = [sparse.csr_matrix((2, 2 * 10**9)), sparse.csr_matrix((1, 2 * 10**9))]
    with pytest.raises(
        FieldfitError, match=r"The number of features is 2000000000; it must be an integer from 0 to 2"
    ):
        ff.CRFTagger().fit(wide, [["D", "N"], ["D"]])
    tagger = ff.CRFTagger(sigma2=1.0).fit([["the", "cat"], ["a"]], [["D", "N"], ["D"]])
    with pytest.raises(FieldfitError, match="1,000,000,000 paths of 3 tokens have 3,000,000,000 labels"):
        tagger.predict_nbest([["the", "cat", "the"]], 10**9)


@pytest.mark.parametrize("beta", ["1e308", "1e-300"])
def test_weights_beyond_the_range_of_numbers(beta):
    with pytest.raises(FieldfitError, match="would leave the range of numbers"):
        ff.fit(MODEL, X, f"PL1@{beta} + PL2@{beta}")


def test_a_z_value_beyond_the_range_of_numbers_is_infinite_without_a_warning():
    table = EstimateTable.tested("parameter", ["a"], np.array([1e300]), np.array([1e-300]), 2.0)
    assert table.z[0] == np.inf


NO_LIST = [3, None, 1 + 2j, np.array(1.0), np.datetime64("2020")]


@pytest.mark.parametrize("value", NO_LIST)
def test_what_is_not_a_list_gets_a_sentence(value):
    model, theta = ff.BoltzmannMachine(3), [0.0, 0.0, 0.0]
    calls = [
        lambda: ff.MarkovRandomField(value, [(0, 1)]),
        lambda: ff.MarkovRandomField([2, 2], value),
        lambda: ff.MarkovRandomField([2, 2], [value]),
        lambda: ff.MarkovRandomField([2, 2], [(0, 1)], given=value),
        lambda: ff.best_weights(value, theta, "PL1 + PL2"),
        lambda: ff.project(model, np.full((2, 2, 2), 0.125), tol=-1.0 if value == 3 else value),
        lambda: ff.AutoWeights(gamma=-1.0 if value == 3 else value),
    ]
    if value is not None:
        calls += [
            lambda: ff.MarkovRandomField([2, 2], [(0, 1)], names=value),
            lambda: ff.MarkovRandomField([2, 2], [(0, 1)], states=value),
            lambda: ff.BoltzmannMachine(3, edge_groups=value),
            lambda: ff.best_weights(model, theta, "PL1 + PL2", beta0=value),
        ]
    for number, call in enumerate(calls):
        if number in {5, 6} and isinstance(value, np.ndarray):
            continue  # an array of one number is a number
        with pytest.raises(FieldfitError):
            call()


def test_names_and_variables_of_a_field_are_checked_one_by_one():
    with pytest.raises(ModelError, match="2 variables need 2 different names"):
        ff.MarkovRandomField([2, 2], [(0, 1)], names=["a"])
    with pytest.raises(ModelError, match=r"A variable is a name or a number; got 1\.7"):
        ff.MarkovRandomField([2, 2], [(0, 1.7)])  # type: ignore[list-item]


@pytest.mark.parametrize("value", [3, None, np.array(1.0)])
def test_sentences_and_labels_that_are_no_lists_get_a_sentence(value):
    words, labels = [["a", "b"]] * 4, [["x", "y"]] * 4
    tagger = ff.CRFTagger().fit(words, labels)
    numeric = ff.CRFTagger().fit([np.eye(2)] * 4, labels)
    calls = [
        lambda: ff.CRFTagger().fit(value, labels),
        lambda: ff.CRFTagger().fit([value], labels),
        lambda: ff.CRFTagger().fit(words, value),
        lambda: ff.CRFTagger().fit(words, [value] * 4),
        lambda: tagger.predict(value),
        lambda: numeric.predict(value),
        lambda: tagger.score(words, [value] * 4),
    ]
    for call in calls:
        with pytest.raises(FieldfitError, match=r"[Xy](\[0\])? must be a|needs the labels y"):
            call()


def test_arrays_are_no_words_and_no_states():
    with pytest.raises(ModelError, match="formula is array"):
        ff.theory(MODEL, np.zeros(3), "PL1", formula=np.array([1, 2]))
    with pytest.raises(ModelError, match="method is array"):
        ff.theory(MODEL, np.zeros(3), "PL1", method=np.array([1, 2]))
    with pytest.raises(ModelError, match="given has 1 entries for 3 variables"):
        MODEL.sample(np.zeros(3), 10, 0, given=np.array(1.0))


def test_variances_that_rounding_hides_are_said_to_be_not_identified():
    with pytest.warns(FieldfitWarning, match="3 of 3 parameters have no variance"):
        theory = ff.theory(MODEL, [1000.0, -1000.0, 500.0], "PL1")
    assert np.isnan(np.diag(theory.covariance)).all()
    assert "3 not identified" in repr(theory)
    assert "not identified (NaN): 3 of 3 parameters" in str(theory)


def test_numbers_are_taken_while_another_thread_imports_numpy_ma(monkeypatch):
    """The module is there before its class."""
    monkeypatch.setitem(sys.modules, "numpy.ma", ModuleType("numpy.ma"))
    assert not is_masked(np.ones(3))
    np.testing.assert_array_equal(numbers_of([1, 2], "θ"), [1.0, 2.0])
