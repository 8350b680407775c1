"""Paths and arguments that no function can use: each is refused with a sentence, never with Python's own error."""

# Arguments of wrong types are what these tests are about.
# mypy: disable-error-code="arg-type, attr-defined, misc, call-overload, list-item, dict-item"

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
from fieldfit import networks, proteins
from fieldfit.data.container import read_container, write_container
from fieldfit.data.table import read_table
from fieldfit.data.uai import read_uai
from fieldfit.types import FieldfitError, FileAccessError, FileFormatError

NAN, HUGE = float("nan"), -(10**400)
MODEL = ff.BoltzmannMachine(3, biases=True, names=["a", "b", "c"])
X = np.random.default_rng(0).integers(0, 2, (60, 3))
ANSWERS = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=["x", "y"] * 30)
EDGES = np.array([[0, 1], [0, 2], [1, 2]])
PLMC = proteins.PlmcParameters(
    "-A", "AA", np.arange(2), np.ones(3), np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((1, 2, 2)), np.zeros((1, 2, 2))
)


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
]


@pytest.mark.parametrize(("sentence", "call"), REFUSED)
def test_arguments_that_no_function_can_use(sentence, call):
    with pytest.raises(FieldfitError, match=sentence):
        call()


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
