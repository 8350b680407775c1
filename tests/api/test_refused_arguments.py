"""Paths and arguments that no function can use: each is refused with a sentence, never with Python's own error."""

# Arguments of wrong types are what these tests are about.
# mypy: disable-error-code="arg-type, attr-defined, misc, call-overload, list-item, dict-item"

from decimal import Decimal
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest

import fieldfit as ff
from fieldfit import chains, networks, proteins, sweep
from fieldfit.data.container import read_container, write_container
from fieldfit.data.table import read_table
from fieldfit.data.uai import read_uai
from fieldfit.types import FieldfitError, FileAccessError, FileFormatError, PolicyError

NAN, HUGE = float("nan"), -(10**400)
MODEL = ff.BoltzmannMachine(3, biases=True, names=["a", "b", "c"])
X = np.random.default_rng(0).integers(0, 2, (60, 3))
ANSWERS = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=["x", "y"] * 30)
EDGES = np.array([[0, 1], [0, 2], [1, 2]])
PLMC = proteins.PlmcParameters(
    "-A", "AA", np.arange(2), np.ones(3), np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((1, 2, 2)), np.zeros((1, 2, 2))
)
FIT = ff.fit(MODEL, X, "PL1", sigma2=5.0)
TAGGER = ff.CRFTagger("FL", sigma2=1.0).fit(
    [["the", "dog", "runs"], ["a", "cat"]] * 2, [["D", "N", "V"], ["D", "N"]] * 2
)
SENTENCES = [["the", "dog"]]
LONG = "x" * 10_000
UNEQUAL = [[1, 2], [3]]


@pytest.mark.parametrize("path", ["\x00", "a\x00b", "\ud800"])
@pytest.mark.parametrize(
    "use",
    [
        lambda path: ff.fit(MODEL, X, "PL1", checkpoint=path),
        lambda path: ff.fit(MODEL, path, "PL1"),
        lambda path: ff.cross_validate(MODEL, X, "PL1", checkpoint=path),
        lambda path: ff.fit(MODEL, X, "PL1").bootstrap(5, checkpoint=path),
        lambda path: ff.fit(MODEL, X, "PL1").save(path),
        lambda path: networks.compare_groups(ANSWERS, by="group", permutations=9, checkpoint=path),
        lambda path: networks.read_responses(path),
        ff.load,
        proteins.read_plmc,
        proteins.read_alignment,
        lambda path: proteins.write_plmc(path, PLMC),
        lambda path: proteins.read_distances(path, 3),
        read_uai,
    ],
)
def test_paths_that_no_file_has(use, path):
    with pytest.raises(FieldfitError):
        use(path)


def test_a_path_with_a_zero_byte_is_named():
    with pytest.raises(FileAccessError, match=r"The path of a checkpoint is '\\x00'; no file has this name"):
        ff.fit(MODEL, X, "PL1", checkpoint="\x00")


REFUSED = [
    *(("patience is", lambda v=v: ff.EarlyStopping(sum, patience=v)) for v in (NAN, "", 0, None)),
    *(("every is", lambda v=v: ff.EarlyStopping(sum, every=v)) for v in (NAN, "", 0, None)),
    *(("tol is", lambda v=v: ff.EarlyStopping(sum, tol=v)) for v in (NAN, "", -1, None)),
    ("score is", lambda: ff.EarlyStopping(None)),
    ("needs a model", lambda: ff.cross_validate(NAN, X, "PL1")),
    ("needs a model", lambda: ff.cross_validate({"a": None}, X, "PL1")),
    *(("policy is", lambda v=v: ff.cross_validate(MODEL, X, v)) for v in (NAN, None, np.array(1.5))),
    *((f"{name} is", lambda n=name: ff.plan(MODEL, X, **{n: HUGE})) for name in ("budget", "flops", "efficiency")),
    *(("states is", lambda v=v: ff.TiedField.grid(2, 2, states=v)) for v in (NAN, None, "ab")),
    ("covariates must be numbers", lambda: ff.TiedField.grid(2, 2, HUGE)),
    *(
        ("4 or 8 neighbours", lambda m=model, v=v: m.grid(2, 2, neighbours=v))
        for model in (ff.TiedField, ff.BoltzmannMachine)
        for v in (np.array([]), np.array([4, 8]), NAN, "4")
    ),
    *(
        (f"{name} is", lambda n=name: read_table(X, **{n: NAN}))
        for name in ("states", "names", "columns", "leave_out")
    ),
    ("needs a Fit", lambda: ff.update_weights(NAN)),
    ("by is", lambda: networks.read_responses(X, by=[])),
    ("by is", lambda: networks.compare_groups(X, by=[])),
    ("columns is", lambda: networks.read_responses(X, columns=NAN)),
    *(("largest_table is", lambda v=v: networks.joint_network(X, largest_table=v)) for v in (10**30, NAN, 0)),
    ("needs a Network or a Fit", lambda: networks.compare_moments(X, NAN)),
    ("scores is", lambda: proteins.contact_precision(None, EDGES, np.eye(3))),
    ("edges must be", lambda: proteins.contact_precision(np.ones(3), NAN, np.eye(3))),
    ("edges names the columns", lambda: proteins.contact_precision(np.ones(3), EDGES, np.eye(2))),
    ("distances has the shape", lambda: proteins.contact_precision(np.ones(3), EDGES, np.ones(3))),
    ("separation is", lambda: proteins.contact_precision(np.ones(3), EDGES, np.eye(3), separation=NAN)),
    ("closest is", lambda: proteins.contact_precision(np.ones(3), EDGES, np.eye(3), closest="")),
    ("shares is", lambda: proteins.contact_precision(np.ones(3), EDGES, np.eye(3), shares=NAN)),
    ("length is", lambda: proteins.average_product_correction(np.ones(3), EDGES, NAN)),
    ("scores has the shape", lambda: proteins.average_product_correction(np.ones(2), EDGES, 3)),
    ("edges names the columns", lambda: proteins.average_product_correction(np.ones(3), EDGES + 1, 3)),
    ("length is", lambda: proteins.read_distances("no such file", NAN)),
    ("needs PlmcParameters", lambda: proteins.write_plmc("never written", None)),
    # Tests by simulation
    *(("value is", lambda v=v: FIT.bootstrap_test("x0", v)) for v in (None, "abc", NAN)),
    *(
        (f"{name} is", lambda f=use, n=name, v=v: f(**{n: v}))
        for use in (lambda **k: FIT.bootstrap_test("a", **k), lambda **k: FIT.permutation_test("a:b", "a", **k))
        for name, v in (("n_simulated", 2**31), ("n_simulated", 10**30), ("random_state", -1), ("random_state", NAN))
    ),
    ("n_simulated is", lambda: FIT.goodness_of_fit(n_simulated=10**9)),
    ("refit is", lambda: FIT.goodness_of_fit(n_simulated=9, refit=np.zeros(0))),
    ("resamples is", lambda: FIT.bootstrap(10**9)),
    ("names or numbers", lambda: FIT.permutation_test(NAN, "a")),
    *(
        ("there is no column", lambda v=v: FIT.permutation_test("a:b", v))
        for v in (NAN, 1, np.zeros((2, 2)), [["a"]])
    ),
    *(
        ("progress is nan", call)
        for call in (
            lambda: FIT.bootstrap(9, progress=NAN),
            lambda: networks.analyse(X, progress=NAN),
            lambda: networks.analyse(X, resamples=9, progress=NAN),
            lambda: networks.bootstrap(X, resamples=9, progress=NAN),
            lambda: networks.case_dropping(X, resamples=9, progress=NAN),
            lambda: networks.compare_groups(ANSWERS, by="group", permutations=9, progress=NAN),
            lambda: networks.joint_network(X, progress=NAN),
            lambda: networks.nodewise_network(X, progress=NAN),
            lambda: networks.stability_selection(X, pairs=9, progress=NAN),
        )
    ),
    *(("The threshold is", lambda v=v: networks.stability_selection(X, threshold=v)) for v in (None, NAN, 0.5)),
    *(("false_edges is", lambda v=v: networks.stability_selection(X, false_edges=v)) for v in (None, NAN, 0)),
    # Fits
    *(("group_l1 is", lambda v=v: ff.fit(MODEL, X, "PL1", group_l1=v)) for v in (UNEQUAL, pd.NA, True, -1, np.inf)),
    ("groups has lists", lambda: ff.fit(MODEL, X, "PL1", groups=UNEQUAL)),
    *(
        (f"{name} of .* is .*True", lambda n=name, v=v: ff.fit(MODEL, X, "PL1", **{n: v}))
        for name in ("sigma2", "l1")
        for v in (True, np.True_, [True] * 6, np.ones(6, dtype=bool), {None: True})
    ),
    *(("resume is", lambda v=v: ff.Checkpoint("a", resume=v)) for v in (pd.NA, np.zeros(0), None)),
    ("fallback of", lambda: ff.AutoWeights(fallback=pd.NA)),
    ("debias is", lambda: FIT.functional("a", debias=np.zeros(0))),
    *(("most is", lambda v=v: FIT.plot_coefficients(most=v)) for v in (None, -np.inf, np.zeros(0))),
    ("plan must be a Plan", lambda: FIT.to_html("never written", plan=NAN)),
    (
        r"'a\\x00' has a zero byte",
        lambda: ff.fit(MODEL, pl.DataFrame({"a\0": [0, 1], "b": [0, 1], "c": [0, 1]}), "PL1"),
    ),
    # Models
    *(("two different finite", lambda v=v: ff.BoltzmannMachine(3, states=v)) for v in ({1, 2}, b"ab", {0: 1, 1: 2})),
    *(
        ("labels of groups are", lambda n=name, v=v: ff.BoltzmannMachine(3, biases=True, **{n: v}))
        for name in ("edge_groups", "bias_groups")
        for v in (np.ma.array([1.0, 2, 3], mask=[0, 1, 0]), [[1], [2], [3]])
    ),
    *(
        ("parameters of a factor is", lambda v=v: ff.MarkovRandomField([2, 2], [ff.Factor((0, 1), parameters=v)]))
        for v in (NAN, np.zeros((2, 2)), [1, 2, 3, 4])
    ),
    *(
        (f"names of {name} are", lambda n=name, v=v, kind=kind: kind(2, 3, **{n: v}))
        for kind, names in ((ff.ChainCRF, ("labels", "features")), (ff.BoltzmannChain, ("labels", "symbols")))
        for name in names
        for v in (NAN, {1, 2, 3}, np.array(1.0))
    ),
    *(
        (f"{name} is", lambda n=name, v=v: ff.ChainCRF(2, 3, **{n: v}))
        for name in ("pairs", "transitions", "start", "end")
        for v in (np.zeros(0), pd.NA)
    ),
    ("names of labels", lambda: ff.ChainCRF(2, 3, labels="abc")),
    ("probabilities λ are", lambda: ff.Policy.parse("PL1").with_lams(NAN)),
    ("bound to a structure", lambda: ff.Policy.parse("PL1").bind(NAN)),
    # Taggers
    *(
        ("given is nan", lambda use=use: getattr(TAGGER, use)(SENTENCES, given=NAN))
        for use in ("predict", "predict_nbest", "predict_proba", "predict_marginals", "edge_marginals")
    ),
    *(("decoding is", lambda v=v: TAGGER.predict(SENTENCES, decoding=v)) for v in (pd.NA, np.zeros(0), "best")),
    ("given.0. is nan", lambda: TAGGER.predict(SENTENCES, given=[NAN])),
    ("is not a label", lambda: TAGGER.predict(SENTENCES, given=[["D", []]])),
    *(("n is", lambda v=v: TAGGER.predict_nbest(SENTENCES, v)) for v in (NAN, np.array([1, 2]))),
    *(("n is", lambda v=v: TAGGER.top_features(v)) for v in (NAN, None, "a")),
    ("is not a label", lambda: TAGGER.top_features(label=[])),
    *(("threshold is", lambda v=v: TAGGER.compact(v)) for v in (None, NAN, -1, "a")),
    ("needs a Fit", lambda: ff.CRFTagger.from_fit(NAN)),
    ("edges has lists of unequal", lambda: ff.GraphCRF(edges=UNEQUAL).fit(np.ones((3, 1)), [0, 1, 0])),
    *(
        ("neither a preset", lambda v=v: ff.CRFTagger(features=v).fit([["a b"]], [["D"]]))
        for v in (LONG, np.zeros(0), pd.NA)
    ),
    # Files
    ("no file has this name", lambda: ff.find_data(LONG)),
    ("no file has this name", lambda: sweep.open_sweep(LONG)),
    # Chains
    *(
        (f"{name} is", lambda n=name, v=v: chains.parse_columns("a b", **{n: v}))
        for name in ("separator", "comment")
        for v in (NAN, b"ab", "\ud800")
    ),
    *(
        ("text", lambda v=v, parse=parse: parse(v))
        for parse in (chains.parse_crfsuite, chains.parse_templates)
        for v in (NAN, b"ab", "\ud800")
    ),
    ("separator is", lambda: chains.parse_columns("a b", separator=np.zeros(0))),
    ("texts is", lambda: chains.join_texts(NAN)),
    ("joins ColumnText", lambda: chains.join_texts(["a"])),
    *(
        (f"{name} is", lambda score=score, n=name, v=v: score(**{"gold": [["D"]], "predicted": [["D"]], n: v}))
        for score in (chains.chunk_scores, chains.label_scores)
        for name in ("gold", "predicted")
        for v in (NAN, [1], "ab")
    ),
    *(("drawn Windows", lambda v=v: chains.Segments([0, 2], v)) for v in (NAN, "abc")),
    ("unequal lengths", lambda: chains.Sequences(UNEQUAL, [0], [0], None, [0], 1, 1)),
]


@pytest.mark.parametrize(("sentence", "call"), REFUSED)
def test_arguments_that_no_function_can_use(sentence, call):
    with pytest.raises(FieldfitError, match=sentence):
        call()


@pytest.mark.parametrize(
    "use",
    [
        lambda p: FIT.conf_int(parameters=p),
        lambda p: FIT.standard_errors(parameters=p),
        lambda p: FIT.table(parameters=p),
        lambda p: FIT.discoveries(parameters=p)["q"],
    ],
)
def test_an_iterator_of_parameters_is_read_once(use):
    assert np.array_equal(use(name for name in ["a", "b:c"]), use(["a", "b:c"]))


@pytest.mark.parametrize("gamma", [Decimal("0.5"), Fraction(1, 2), np.array(0.5)])
def test_gamma_is_any_real_number(gamma):
    estimates = (lambda g: networks.nodewise_network(X, gamma=g), lambda g: networks.joint_network(X, gamma=g)[0])
    for estimate in estimates:
        given, plain = estimate(gamma), estimate(0.5)
        assert np.array_equal(given.couplings, plain.couplings)
        assert given.method == plain.method
    fit = ff.fit(MODEL, X, "PL1 + FL", sigma2=5.0)
    assert np.array_equal(ff.update_weights(fit, gamma=gamma), ff.update_weights(fit, gamma=0.5))


def test_states_as_an_array():
    field = ff.MarkovRandomField([2, 2], [(0, 1)], states=np.array([[0, 1], [2, 3]]))
    assert field.states == ((0, 1), (2, 3))


@pytest.mark.parametrize("policy", ["PL1@1e-170", "PL1@1e170", "Mean(PL1,1e-320)@1e-6", "PL1@1e-170 >> optimal"])
def test_weights_whose_squares_leave_the_range_of_numbers(policy):
    for call in (lambda: ff.theory(MODEL, np.zeros(6), policy), lambda: ff.fit(MODEL, X, policy)):
        with pytest.raises(PolicyError, match="would leave the range of numbers"):
            call()


def test_the_variance_does_not_depend_on_the_scale_of_the_weights():
    small, plain = (ff.theory(MODEL, np.zeros(6), policy).covariance for policy in ("PL1@1e-90", "PL1"))
    np.testing.assert_allclose(small, plain, rtol=1e-9, atol=1e-9)


def test_a_penalty_as_an_array_without_dimensions_is_a_number():
    given, plain = (ff.cross_validate(MODEL, X, "PL1", sigma2=value) for value in (np.array(1.5), 1.5))
    assert given.nll.tolist() == plain.nll.tolist()


@pytest.mark.parametrize("names", [["a", None, "c"], ["a", {}, "c"], ["a", 1, "c"], "abc", {}, 3])
def test_names_in_a_file_that_are_not_text(tmp_path, names):
    good, bad = tmp_path / "good.ff", tmp_path / "bad.ff"
    ff.fit(MODEL, X, "PL1").save(good)
    header, arrays = read_container(good, kind="fit")
    header["model"]["names"] = names
    write_container(bad, header, arrays)
    assert ff.load(good).model.names == ("a", "b", "c")
    with pytest.raises(FileFormatError, match="names of variables that are not text"):
        ff.load(bad)


@pytest.mark.parametrize("entry", ["1e-400", "-1e-400", "0.01E-330"])
def test_uai_entries_too_small_for_floating_point_numbers(tmp_path, entry):
    path = tmp_path / "a.uai"
    path.write_text(f"MARKOV 1 2 1 1 0 2 1.0 {entry}\n")
    with pytest.raises(FileFormatError, match="0 or at least 5e-324"):
        read_uai(path)
    path.write_text("MARKOV 1 3 1 1 0 3 5e-324 0.0e7 1.0\n")
    assert read_uai(path).tables[0].tolist() == [5e-324, 0.0, 1.0]


class Unconvertible:
    """As a tensor that needs its gradient: NumPy asks it for an array, and it raises."""

    def __array__(self, *_, **__):
        raise RuntimeError("call detach first")


@pytest.mark.parametrize(
    "use",
    [
        lambda bad: ff.fit(MODEL, bad, "PL1"),
        lambda bad: ff.fit(MODEL, X, "PL1", sample_weight=bad),
        lambda bad: ff.fit(MODEL, X, "PL1", groups=bad),
        lambda bad: ff.fit(MODEL, X, "PL1", start=bad),
        lambda bad: ff.fit(MODEL, X, "PL1", sigma2=bad),
        lambda bad: ff.fit(MODEL, X, "PL1", l1=bad),
        lambda bad: ff.theory(MODEL, bad, "PL1"),
        lambda bad: ff.best_weights(MODEL, bad, "PL1 + FL"),
        lambda bad: ff.plan(MODEL, bad),
        lambda bad: MODEL.sample(bad, 10),
        lambda bad: MODEL.conditional(FIT.theta, bad, [0]),
        lambda bad: FIT.influence(bad),
        lambda bad: MODEL.read(X).subset(bad),
        lambda bad: MODEL.read(X).grouped(bad),
    ],
)
def test_objects_whose_conversion_to_an_array_fails(use):
    with pytest.raises(FieldfitError) as caught:
        use(Unconvertible())
    assert "call detach first" in str(caught.value) or "Unconvertible" in str(caught.value)


@pytest.mark.parametrize("name", ["plot_coefficients", "plot_influence"])
@pytest.mark.parametrize("ax", [3, "axes", plt.figure])
def test_axes_that_are_none(name, ax):
    with pytest.raises(FieldfitError, match=r"ax is .*; it must be the Axes of a matplotlib figure"):
        getattr(FIT, name)(ax=ax)
