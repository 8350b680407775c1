"""Data in pieces (files, folders of shards, Dask collections) give the estimate of the same samples in one table."""

import json
import os
import subprocess
import sys
from typing import Any

import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

import fieldfit as ff
from fieldfit.data.samples import Table, as_table
from fieldfit.refinement.stages.simulated import Simulated
from fieldfit.shards.backend import LocalBackend
from fieldfit.shards.folder import INDEX, open_folder, write_folder
from fieldfit.shards.making import TextTable, make_shards
from fieldfit.shards.pieces import FilePiece, TableFiles
from fieldfit.shards.problem import ShardedProblem
from fieldfit.shards.sentence_files import SentenceFiles
from fieldfit.shards.sharded_dataset import ShardedDataset
from fieldfit.types import DataError, FieldfitError, FileAccessError, FileFormatError, OutOfMemoryError

MODEL = ff.BoltzmannMachine(4, biases=True)


@pytest.fixture(scope="module")
def frame():
    values = MODEL.sample(np.linspace(-0.6, 0.7, MODEL.n_parameters), 400, random_state=1).values
    return pd.DataFrame(values, columns=list("abcd"))


@pytest.fixture(scope="module")
def whole(frame):
    return ff.fit(MODEL, frame, "PL1 + 0.4*PL2", random_state=3, tol=1e-9)


@pytest.fixture
def text(frame, tmp_path):
    frame.to_csv(tmp_path / "x.csv", index=False)
    return tmp_path / "x.csv"


def same(fit, whole):
    np.testing.assert_allclose(fit.theta, whole.theta, atol=1e-7)
    np.testing.assert_allclose(fit.standard_errors(), whole.standard_errors(), rtol=1e-6)
    assert fit.n == whole.n
    assert fit.parameter_names == whole.parameter_names
    assert fit.cost.components == whole.cost.components


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    ["PL1 + 0.4*PL2", "PL1 >> FL", "PL1 >> optimal", "PL1 >> 0.5*FL", "PL1 >> FL~500", "Nodewise >> optimal"],
)
def test_fits_and_what_they_report_bring_no_samples_here(frame, tmp_path, monkeypatch, policy):
    for number, start in enumerate(range(0, 400, 90)):
        frame[start : start + 90].to_csv(tmp_path / f"part{number}.csv", index=False)

    def refused(dataset, rows):
        raise AssertionError(f"{len(np.asarray(rows))} samples came to this process")

    monkeypatch.setattr(ShardedDataset, "subset", refused)
    fit = ff.fit(MODEL, str(tmp_path / "part*.csv"), policy)
    fit.summary()
    fit.conf_int()
    fit.conf_int(kind="model")
    fit.effects()
    if ">>" not in policy:
        fit.claic()
        fit.influential()
        ff.fit(MODEL, str(tmp_path / "part*.csv"), "0.7*PL1 + 0.5*PL2", weights="auto")


def test_many_files(frame, whole, tmp_path):
    for number, start in enumerate(range(0, 400, 90)):
        frame[start : start + 90].to_csv(tmp_path / f"part{number}.csv", index=False)
    fit = ff.fit(MODEL, str(tmp_path / "part*.csv"), "PL1 + 0.4*PL2", random_state=3, tol=1e-9)
    same(fit, whole)
    listed = [tmp_path / f"part{number}.csv" for number in range(5)]
    assert ff.fit(MODEL, listed, "PL1 + 0.4*PL2", random_state=3, tol=1e-9).theta.tobytes() == fit.theta.tobytes()
    with pytest.raises(DataError, match="No file matches"):
        ff.fit(MODEL, str(tmp_path / "none*.csv"))
    with pytest.raises(FieldfitError, match="the pieces of the data are the shards"):
        ff.fit(MODEL, str(tmp_path / "part*.csv"), shards=3)
    with pytest.raises(DataError, match="must be the name of a column, and groups are not supported"):
        ff.fit(MODEL, str(tmp_path / "part*.csv"), groups=np.zeros(400))
    with pytest.raises(DataError, match="needs single samples, and they are in the shards"):
        fit.dataset.subset(np.zeros(50_001, dtype=int))
    some = [399, 0, 91, 91, 5]
    assert (as_table(fit.dataset.subset(some)).codes == as_table(MODEL.read(frame)).codes[some]).all()
    with pytest.raises(DataError, match="needs the samples in this process, and they are in several parts"):
        fit.goodness_of_fit()


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("PL1 >> FL", {}),
        ("0.5*PL1 >> PL2", {"sigma2": 2.0}),
        ("PL1 + PL2", {"weights": "auto"}),
        pytest.param("0.3*PL1 + 0.5*PL2", {"weights": "auto"}, marks=pytest.mark.slow),
        pytest.param("PL1", {"weights": ff.AutoWeights(by="component")}, marks=pytest.mark.slow),
    ],
)
def test_second_stages_and_automatic_weights_are_sums_over_pieces(frame, tmp_path, policy, options):
    for number in range(4):
        frame[100 * number : 100 * number + 100].to_csv(tmp_path / f"{number}.csv", index=False)
    options = {**options, "random_state": 3}
    pieces = ff.fit(MODEL, str(tmp_path / "*.csv"), policy, **options)
    shards = ff.fit(MODEL, frame, policy, shards=4, **options)
    assert str(pieces.estimator) == str(shards.estimator)
    assert pieces.theta.tobytes() == shards.theta.tobytes()
    assert pieces.standard_errors().tobytes() == shards.standard_errors().tobytes()
    if "weights" not in options:  # the search of weights ends at a tolerance of its own
        # Both stop where the optimisation error is at most 5% of the sampling error.
        whole = ff.fit(MODEL, frame, policy, **options)
        assert np.all(np.abs(pieces.theta - whole.theta) < 0.1 * whole.standard_errors())


def test_large_integers_beside_missing_values_in_parquet_files(tmp_path):
    codes = np.random.default_rng(0).integers(0, 2, (60, 2))
    frame = pd.DataFrame({name: pd.array(2**53 + codes[:, j], dtype="Int64") for j, name in enumerate("ab")})
    frame.iloc[::9, 0] = pd.NA
    model = ff.Potts(2, 2, states=(2**53, 2**53 + 1))
    for number, start in enumerate((0, 25)):
        part = frame[start : 25 if start == 0 else None]
        columns = {name: [None if pd.isna(value) else int(value) for value in part[name]] for name in "ab"}
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / f"{number}.parquet")
    whole = ff.fit(model, frame, "FL", sigma2=1.0, tol=1e-9)
    pieces = ff.fit(model, str(tmp_path / "*.parquet"), "FL", sigma2=1.0, tol=1e-9)
    np.testing.assert_allclose(pieces.theta, whole.theta, atol=1e-6)


def test_parquet_files_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    """A few kilobytes may have millions of equal rows: what they take is known before they are read."""
    zeros = np.zeros(100_000, dtype=np.int64)
    columns = {"a": zeros, "b": zeros.astype(bool), "c": pyarrow.array(zeros.astype(str)).dictionary_encode()}
    types = {"d": pyarrow.nulls(100_000), "e": pyarrow.array([[0]] * 100_000), "f": zeros.astype(str)}
    pyarrow.parquet.write_table(pyarrow.table({"a": zeros, "b": zeros}), tmp_path / "two.parquet")
    pyarrow.parquet.write_table(pyarrow.table(columns | types), tmp_path / "six.parquet")
    monkeypatch.setattr("fieldfit.data.memory.memory_limit", lambda: 2_000_000)
    said = "two.parquet has 100,000 rows of 2 columns. Reading them takes at least 3,200,000 bytes, and there are 2,000,000"
    with pytest.raises(DataError, match=f"{said} bytes of memory.*several files"):
        ff.fit(ff.BoltzmannMachine(2), tmp_path / "two.parquet", "PL1")
    with pytest.raises(DataError, match="100,000 rows of 6 columns"):
        ff.fit(ff.BoltzmannMachine(6), tmp_path / "six.parquet", "PL1")


def test_a_part_for_which_there_is_no_memory_is_named(tmp_path, monkeypatch):
    def fail(self):
        raise MemoryError

    (tmp_path / "0.csv").write_text("a,b\n0,1\n")
    monkeypatch.setattr(FilePiece, "load", fail)
    with pytest.raises(OutOfMemoryError, match=r"not enough memory for part 1 of the data \(.*0\.csv\)"):
        ff.fit(ff.BoltzmannMachine(2), [str(tmp_path / "0.csv")], "PL1")


def test_parquet_files(frame, whole, tmp_path):
    for number, start in enumerate(range(0, 400, 150)):
        frame[start : start + 150].to_parquet(tmp_path / f"{number}.parquet")
    same(ff.fit(MODEL, str(tmp_path / "*.parquet"), "PL1 + 0.4*PL2", random_state=3, tol=1e-9), whole)
    (tmp_path / "9.parquet").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"9\.parquet cannot be read as a Parquet file"):
        ff.fit(MODEL, str(tmp_path / "*.parquet"))


@pytest.mark.slow
def test_dask_collections(frame, whole):
    pytest.importorskip("dask")
    import dask.array as da

    blocks = da.from_array(frame.to_numpy(), chunks=(130, 3))
    array = ff.fit(MODEL, blocks, "PL1 + 0.4*PL2", random_state=3, tol=1e-9)
    np.testing.assert_allclose(array.theta, whole.theta, atol=1e-7)
    dd = pytest.importorskip("dask.dataframe")
    same(ff.fit(MODEL, dd.from_pandas(frame, npartitions=3), "PL1 + 0.4*PL2", random_state=3, tol=1e-9), whole)


def test_folders_of_shards(text, whole, tmp_path):
    folder = make_shards(TextTable(text), tmp_path / "shards", rows=90)
    assert (folder.n, folder.names, len(folder.files)) == (400, ("a", "b", "c", "d"), 5)
    fit = ff.fit(MODEL, tmp_path / "shards", "PL1 + 0.4*PL2", random_state=3, tol=1e-9)
    same(fit, whole)
    again = ff.fit(
        MODEL, tmp_path / "shards", "PL1 + 0.4*PL2", random_state=3, tol=1e-9, backend=LocalBackend(keep=0)
    )
    assert again.theta.tobytes() == fit.theta.tobytes()
    with pytest.raises(FileAccessError, match="is not empty"):
        make_shards(TextTable(text), tmp_path / "shards", rows=90)


def test_second_stages_that_need_a_table_refuse_pieces_before_the_first(text, tmp_path, monkeypatch):
    monkeypatch.setattr(Simulated, "takes_pieces", False)
    make_shards(TextTable(text), tmp_path / "shards", rows=100)
    with pytest.raises(DataError, match=r"has a second stage that needs the samples in this process"):
        ff.fit(MODEL, str(tmp_path / "shards"), "PL1 >> FL~2000")


@pytest.mark.slow
@pytest.mark.parametrize("second", ["FL~2000", "0.5*FL"])
def test_a_fit_to_pieces_is_refined_afterwards(text, frame, tmp_path, second):
    make_shards(TextTable(text), tmp_path / "shards", rows=100)
    refined = ff.refine(ff.fit(MODEL, str(tmp_path / "shards"), "PL1"), second)
    shards = ff.refine(ff.fit(MODEL, frame, "PL1", shards=4), second)
    assert refined.theta.tobytes() == shards.theta.tobytes()
    assert refined.influence(rows=[3, 399]).tobytes() == shards.influence(rows=[3, 399]).tobytes()


@pytest.mark.slow
def test_weights_missing_values_and_texts(frame, tmp_path):
    random = np.random.default_rng(0)
    table = frame.replace({0: "no", 1: "yes"}).astype(object)
    table.iloc[::7, 1] = ""
    table.iloc[:50, 2] = ""  # missing everywhere in the first shard
    table["w"] = random.integers(1, 4, len(table))
    table.to_csv(tmp_path / "x.csv", index=False)
    model = ff.Potts(4, 2, states=("no", "yes"))
    for kind in ("importance", "counts"):
        plain = ff.fit(
            model, tmp_path / "x.csv", "0.8*PL1", sample_weight="w", weight_kind=kind, sigma2=1.0, tol=1e-9
        )
        make_shards(TextTable(tmp_path / "x.csv", sample_weight="w", weight_kind=kind), tmp_path / kind, rows=50)
        fit = ff.fit(model, tmp_path / kind, "0.8*PL1", sigma2=1.0, tol=1e-9)
        np.testing.assert_allclose(fit.theta, plain.theta, atol=1e-7)
        np.testing.assert_allclose(fit.standard_errors(), plain.standard_errors(), rtol=1e-6)
        assert fit.total == pytest.approx(plain.total)
    with pytest.raises(DataError, match="have their weights already"):
        ff.fit(model, tmp_path / "counts", sample_weight="w")


def test_a_damaged_shard_is_refused(text, tmp_path):
    make_shards(TextTable(text), tmp_path / "s", rows=90)
    path = tmp_path / "s" / "00002.shard"
    content = path.read_bytes()
    for damaged, sentence in (
        (content[:-1], "has 423 bytes"),
        (content[:30], "is truncated"),
        (content[:-1] + bytes([content[-1] ^ 1]), "its checksum is wrong"),
        (b"X" + content[1:], "is not the one"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=sentence):
            ff.fit(MODEL, tmp_path / "s")
    path.unlink()
    with pytest.raises(FileAccessError, match="cannot be read"):
        ff.fit(MODEL, tmp_path / "s")
    (tmp_path / "s" / INDEX).unlink()
    with pytest.raises(DataError, match=f"without {INDEX}"):
        ff.fit(MODEL, tmp_path / "s")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_an_index_of_anything_is_opened_or_refused(data):
    import tempfile
    from pathlib import Path

    index: dict[str, Any] = {
        "format": "fieldfit-shards", "version": 1, "names": ["a"], "states": [[0, 1]], "weight_kind": None,
        "total_weight": 3.0, "files": [{"name": "00000.shard", "rows": 3, "digest": "00"}],
    }  # fmt: skip
    place = data.draw(st.sampled_from([*index, "name", "rows", "digest"]))
    target = index if place in index else index["files"][0]
    target[place] = data.draw(JSON)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / INDEX).write_text(json.dumps(index))
        try:
            opened = open_folder(folder)
            opened.read(0)
        except FieldfitError:
            pass


@pytest.mark.parametrize("change", ["zero byte", "surrogate", "a file twice", "another total"])
def test_an_index_edited_by_hand_is_refused(text, tmp_path, change):
    make_shards(TextTable(text), tmp_path / "s", rows=100)
    path = tmp_path / "s" / INDEX
    index = json.loads(path.read_text())
    if change == "a file twice":
        index["files"].append(index["files"][0])
        index["total_weight"] += index["files"][0]["rows"]
    elif change == "another total":
        index["total_weight"] += 1.0
    else:
        index["files"][0]["name"] = {"zero byte": "0\0.shard", "surrogate": "\ud800.shard"}[change]
    path.write_text(json.dumps(index))
    with pytest.raises(FileFormatError, match="is not an index of shards"):
        open_folder(tmp_path / "s")


def test_bad_tables_name_their_block(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n0,1\n1,0\n0,5\n")
    with pytest.raises(DataError, match=r"begins with row 2 .*'5'"):
        make_shards(TextTable(tmp_path / "x.csv", states=(0, 1)), tmp_path / "s", rows=2)
    (tmp_path / "y.csv").write_text("")
    with pytest.raises(DataError, match="is empty"):
        make_shards(TextTable(tmp_path / "y.csv"), tmp_path / "t", rows=2)
    (tmp_path / "z.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="No rows"):
        make_shards(TextTable(tmp_path / "z.csv"), tmp_path / "u", rows=2)
    with pytest.raises(FileAccessError, match="cannot be read"):
        make_shards(TextTable(tmp_path / "none.csv"), tmp_path / "v", rows=2)


@pytest.mark.slow
def test_the_command_line_makes_shards_and_fits_them(text, whole, tmp_path):
    from fieldfit.cli.app import run

    assert run(["shard", str(text), "--out", str(tmp_path / "s"), "--rows", "100"]) == 0
    assert run(["fit", "boltzmann", str(tmp_path / "s"), "--biases", "-p", "PL1 + 0.4*PL2", "--seed", "3",
                "--tol", "1e-9", "--out", str(tmp_path / "fit.ff")]) == 0  # fmt: skip
    np.testing.assert_allclose(ff.load(tmp_path / "fit.ff").theta, whole.theta, atol=1e-7)
    assert run(["fit", "boltzmann", str(tmp_path / "s"), "--columns", "a,b"]) == 2
    assert run(["plan", "boltzmann", str(tmp_path / "s")]) == 0


@pytest.fixture(params=["csv", "parquet"])
def parts(request, frame, tmp_path):
    """The pattern of three files with weights, of which the second has no rows, and the table of them all."""
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    table = frame.assign(w=np.arange(len(frame)) % 3 + 1.0)
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, part in enumerate((table[:150], table[:0], table[150:])):
        path = folder / f"{number}.{request.param}"
        _ = part.to_parquet(path) if request.param == "parquet" else part.to_csv(path, index=False)
    return str(folder / f"*.{request.param}"), table


@pytest.mark.parametrize("kind", ["importance", "counts"])
def test_weights_of_files_in_parts_on_the_command_line(parts, tmp_path, kind):
    from fieldfit.cli.app import run

    pattern, table = parts
    weights = ["--sample-weight", "w", "--weight-kind", kind]
    common, out = ["--policy", "0.8*PL1", "--tol", "1e-9"], tmp_path / "fit.ff"
    model = ff.BoltzmannMachine(4, biases=True)
    whole = ff.fit(model, table, "0.8*PL1", sample_weight="w", weight_kind=kind, tol=1e-9)
    assert run(["fit", "boltzmann", pattern, *weights, *common, "--out", str(out)]) == 0
    fit = ff.load(out)
    direct = ff.fit(model, pattern, "0.8*PL1", sample_weight="w", weight_kind=kind, tol=1e-9)
    assert fit.theta.tobytes() == direct.theta.tobytes()
    np.testing.assert_allclose(fit.theta, whole.theta, atol=1e-7)
    assert fit.total == pytest.approx(whole.total)
    assert fit.parameter_names == direct.parameter_names == whole.parameter_names
    assert run(["shard", pattern, *weights, "--rows", "60", "--out", str(tmp_path / "s")]) == 0
    folder = open_folder(tmp_path / "s")
    assert [file.rows for file in folder.files] == [60, 60, 30, 60, 60, 60, 60, 10]  # no shard has rows of two files
    assert run(["fit", "boltzmann", str(tmp_path / "s"), *common, "--out", str(out)]) == 0
    np.testing.assert_allclose(ff.load(out).theta, whole.theta, atol=1e-7)
    assert ff.load(out).total == pytest.approx(whole.total)


@pytest.mark.parametrize("parts", ["parquet"], indirect=True)
def test_one_parquet_file_is_read_as_a_csv_file_is(parts, tmp_path, capsys):
    from fieldfit.cli.app import run

    pattern, table = parts
    path, out = pattern.replace("*", "0"), tmp_path / "fit.ff"
    assert run(["fit", path, "--columns", "a,b,d", "--out", str(out), "--tol", "1e-9"]) == 0
    same = ff.fit(ff.BoltzmannMachine(3, biases=True), table[:150][["a", "b", "d"]], tol=1e-9)
    np.testing.assert_allclose(ff.load(out).theta, same.theta, atol=1e-12)
    assert run(["check", str(out), path, "--simulated", "19"]) == 0
    assert ff.load(out, path).influence().shape == (150, 6)
    assert run(["shard", path, "--leave-out", "w", "--out", str(tmp_path / "s")]) == 0
    assert (open_folder(tmp_path / "s").read(0).codes == table[:150][list("abcd")].to_numpy()).all()
    (tmp_path / "bad.parquet").write_bytes(b"nonsense")
    for command in (["fit", str(tmp_path / "bad.parquet")], ["shard", str(tmp_path / "bad.parquet"), "--out", "t"]):
        capsys.readouterr()
        assert run(command) == 2
        assert "bad.parquet cannot be read as a Parquet file" in capsys.readouterr().err


def test_bad_parts_are_refused(parts, tmp_path, capsys):
    from fieldfit.cli.app import run

    pattern, table = parts
    kind = pattern.rpartition(".")[2]

    def refused(*command):
        capsys.readouterr()
        assert run([str(part) for part in command]) == 2
        return " ".join(capsys.readouterr().err.split())

    folder = tmp_path / "parts"
    assert f"Give its files: '{folder}/*.{kind}', or make shards" in refused("fit", folder)
    assert f"'{folder}/*.{kind}'." in refused("shard", folder, "--out", tmp_path / "s")
    with pytest.raises(DataError, match=rf"\*\.{kind}'"):
        ff.fit(MODEL, folder)
    (tmp_path / "empty").mkdir()
    assert "None of its files is a table" in refused("fit", tmp_path / "empty")
    assert "There is no column 'v'" in refused("fit", pattern, "--sample-weight", "v")
    assert "`fieldfit shard`, which takes patterns" in refused("fit", pattern, "--columns", "a,b")
    assert "No file matches" in refused("shard", tmp_path / "none*.csv", "--out", tmp_path / "s")
    sentences = refused("shard", tmp_path / "*.conll", "--sentences", "9", "--out", tmp_path / "s")
    assert "is a pattern, and --sentences divides one file" in sentences
    os.symlink("nowhere", tmp_path / f"lost1.{kind}")
    for command in (
        ("fit", tmp_path / f"lost*.{kind}"),
        ("shard", tmp_path / f"lost*.{kind}", "--out", tmp_path / "s"),
    ):
        assert f"lost1.{kind} cannot be" in refused(*command)
    (tmp_path / "odd0.csv").write_bytes(b"a,b\n0,1\n\xff,0\n")
    for command in ("fit", tmp_path / "odd*.csv"), ("shard", tmp_path / "odd0.csv", "--out", tmp_path / "s"):
        assert "odd0.csv is not a UTF-8 text file (line 3, byte 0 of it)" in refused(*command)
    other, last = table[["b", "a", "c", "d", "w"]], folder / f"9.{kind}"
    _ = other.to_parquet(last) if kind == "parquet" else other.to_csv(last, index=False)
    said = refused("shard", pattern, "--out", tmp_path / "s")
    assert f"{last} has the columns b, a, c, d, w, and {folder / '0'}.{kind} has a, b, c, d, w." in said
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("shards", [2, 8])
def test_as_many_samples_come_to_the_client_of_a_plan_whatever_their_number(tmp_path, monkeypatch, shards):
    model = ff.BoltzmannMachine(3, biases=True)
    drawn = model.sample(np.linspace(-0.5, 0.5, 6), 25_000, random_state=0).codes
    tables = (Table(drawn, model.names, model.states) for _ in range(shards))
    folder = write_folder(tmp_path / "shards", tables, model.states)
    gathered, subset = [], ShardedDataset.subset

    def counted(self, rows):
        gathered.append(len(rows))
        return subset(self, rows)

    monkeypatch.setattr(ShardedDataset, "subset", counted)
    plan = ff.plan(model, folder, policies=["PL1", "FL"])
    assert plan.best in ("PL1", "FL")
    # Forty to see the size of a Hessian, the pilot, and those by which the work of a shard is counted.
    assert gathered == [20_000, 40, 2_000]


LARGE = """
import resource, sys
import numpy as np
import fieldfit as ff
model = ff.BoltzmannMachine(30, biases=True)
ff.fit(model, np.random.default_rng(0).integers(0, 2, (500, 30)), "PL1")  # imports, threads
limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
fit = ff.fit(model, sys.argv[1], "PL1", sigma2=10.0, tol=1e-4)
print(fit.n, fit.converged, fit.theta.tobytes().hex())
"""


@pytest.mark.slow
def test_a_fit_of_ten_times_the_memory_it_is_allowed(tmp_path):
    from fieldfit.data.samples import Table
    from fieldfit.shards.folder import write_folder

    random = np.random.default_rng(0)
    states = ((0, 1),) * 30
    names = tuple(f"x{j}" for j in range(30))
    # 18 million values of four bytes as a table: 72 MB, with 7.2 MB allowed on top of what the imports take.
    tables = (Table(random.integers(0, 2, (10_000, 30)).astype(np.int32), names, states) for _ in range(60))
    folder = write_folder(tmp_path / "s", tables, states)
    allowed = folder.n * folder.m * 4 // 10
    ran = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "s"), str(allowed)], capture_output=True, text=True, check=False,
        env=os.environ | {"FIELDFIT_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    free = ff.fit(ff.BoltzmannMachine(30, biases=True), folder, "PL1", sigma2=10.0, tol=1e-4)
    assert ran.stdout.split() == ["600000", "True", free.theta.tobytes().hex()]


def test_a_fit_that_lacks_memory_does_not_advise_shards_where_the_data_are_shards(tmp_path, monkeypatch, capsys):
    """Nor does it say that parameters are not identified, if the memory for the standard errors is lacking."""
    from fieldfit.cli.app import run
    from fieldfit.shards.problem import ShardedProblem

    np.savetxt(tmp_path / "x.csv", np.random.default_rng(0).integers(0, 2, (400, 4)), "%d", ",")
    assert run(["shard", str(tmp_path / "x.csv"), "--out", str(tmp_path / "s"), "--rows", "100"]) == 0

    def lacking(*given):
        raise MemoryError

    def said(method, *more):
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(ShardedProblem, method, lacking)
            assert run(["fit", "boltzmann", str(tmp_path / "s"), *more]) == 2
        return capsys.readouterr()

    told = said("value_grad").err
    assert "There is not enough memory. The samples are in parts already" in told
    assert "fieldfit shard" not in told
    out = said("hessian_matrix", "--tol", "1e-4", "--method", "lbfgs", "--out", str(tmp_path / "f.ff"))
    assert "No parameter has a standard error: not enough memory." in out.out
    assert "There is not enough memory for standard errors." in out.err
    assert ff.load(tmp_path / "f.ff").converged
    told = said("hessian_matrix", "--tol", "1e-4", "--method", "lbfgs").err
    assert "Only the standard errors are missing: the estimate is printed. There is not enough memory" in told


class Fails:
    """A question that lacks memory as long as another shard keeps something."""

    def __init__(self, times):
        self.left = times

    def __call__(self, shard, shared, argument):
        self.left -= 1
        if self.left >= 0:
            raise MemoryError
        return shard.dataset.n


def test_shards_give_up_what_they_keep_before_a_fit_fails(tmp_path):
    from fieldfit.shards.shard import Given

    table = MODEL.read(np.zeros((10, len(MODEL.names)), dtype=int))
    placed = LocalBackend().place([Given(table), Given(table)])
    assert placed.each(Fails(1)) == [10, 10]
    assert all(shard._dataset is None for shard in placed._shards.values())
    with pytest.raises(OutOfMemoryError, match=r"not enough memory for a part of the data. Use more shards"):
        placed.each(Fails(2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_patterns_on_the_command_line(tmp_path, capsys, kind):
    """The command reads the names of the columns only; the model and the bits are those of the library."""
    from fieldfit.cli.app import run

    if kind == "parquet":
        pytest.importorskip("pyarrow")
    values = ff.BoltzmannMachine(3).sample([0.5, -0.4, 0.3], 400, random_state=0).values
    frame = pd.DataFrame(values, columns=list("abc"))
    for number in range(2):
        part = frame[number::2]
        if kind == "csv":
            part.to_csv(tmp_path / f"part{number}.csv", index=False)
        else:
            part.to_parquet(tmp_path / f"part{number}.parquet")
    pattern, out = str(tmp_path / f"part*.{kind}"), str(tmp_path / "fit.ff")
    assert run(["fit", "boltzmann", pattern, "--no-biases", "--out", out, "--json"]) == 0
    direct = ff.fit(ff.BoltzmannMachine(3), pattern)
    assert ff.load(out).theta.tobytes() == direct.theta.tobytes()
    assert ff.load(out).model.parameter_names == ["a:b", "a:c", "b:c"]
    assert run(["fit", "potts", pattern, "--states", "0,1", "--sigma2", "1", "--json"]) == 0
    assert run(["plan", "boltzmann", pattern, "--policy", "PL1", "--json"]) == 0
    capsys.readouterr()
    assert run(["fit", "potts", pattern]) == 2
    assert "--states" in capsys.readouterr().err
    other = frame[["a", "c", "b"]]
    _ = (
        other.to_csv(tmp_path / "part2.csv", index=False)
        if kind == "csv"
        else other.to_parquet(tmp_path / "part2.parquet")
    )
    assert run(["fit", "boltzmann", pattern]) == 2
    assert "Part 3 of the data has the column 'c' where part 1 has 'b'." in capsys.readouterr().err
    assert run(["fit", "boltzmann", pattern, "--leave-out", "a"]) == 2
    assert "a pattern of files" in capsys.readouterr().err
    assert run(["fit", "boltzmann", str(tmp_path / "none*.csv")]) == 2
    assert "No file matches" in capsys.readouterr().err


@pytest.mark.parametrize("change", [lambda text: text.replace("1", "0", 1), lambda text: text + text[-4:]])
def test_a_file_that_changes_during_a_fit_is_refused(tmp_path, monkeypatch, change):
    """Shards that are not kept are read again in each evaluation: other samples would give a wrong estimate."""
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("a,b\n" + "0,1\n1,0\n1,1\n0,0\n" * 5)
    evaluate, count = ShardedProblem.value_grad, iter(range(100))

    def changing(problem, *arguments, **options):
        if next(count) == 1:
            path = tmp_path / "1.csv"
            path.write_text(change(path.read_text()))
        return evaluate(problem, *arguments, **options)

    monkeypatch.setattr(ShardedProblem, "value_grad", changing)
    model = ff.BoltzmannMachine(2, biases=True)
    with pytest.raises(DataError, match=r"part 2 of the data \(.*1\.csv\) have changed since they were first read"):
        ff.fit(model, str(tmp_path / "*.csv"), "PL1", backend=LocalBackend(keep=0), start=np.ones(3))


@pytest.mark.parametrize(
    ("format", "texts"),
    [
        ("columns", ["the D\ndog N\nruns V\n", "the D\ndog V\nruns V\n"]),
        ("columns", ["the D\ndog N\nruns V\n", "the D\ndog N\n\nruns V\n"]),
        ("crfsuite", ["D\tthe\nN\tdog:0.5\n", "D\tthe\nN\tdog:0.25\n"]),
    ],
)
def test_sentences_that_change_after_their_features_were_learnt_are_refused(tmp_path, monkeypatch, format, texts):
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text(texts[0])
    files = SentenceFiles.matching(str(tmp_path / "*.txt"), format=format)
    learning = SentenceFiles.learn_and_encode

    def changing(self, *arguments):
        learnt = learning(self, *arguments)
        (tmp_path / "1.txt").write_text(texts[1])
        return learnt

    ff.CRFTagger("FL", sigma2=1.0).fit(files)
    monkeypatch.setattr(SentenceFiles, "learn_and_encode", changing)
    with pytest.raises(DataError, match=r"1\.txt has changed since its features were learnt"):
        ff.CRFTagger("FL", sigma2=1.0).fit(files)


def test_sentences_that_change_during_a_fit_are_refused(tmp_path, monkeypatch):
    for number in range(2):
        (tmp_path / f"{number}.conll").write_text("the D\ndog N\nruns V\n\na D\ncat N\n\n")
    evaluate, count = ShardedProblem.value_grad, iter(range(100))

    def changing(problem, *arguments, **options):
        if next(count) == 1:
            (tmp_path / "1.conll").write_text("the D\ndog V\nruns V\n\na D\ncat N\n\n")
        return evaluate(problem, *arguments, **options)

    monkeypatch.setattr(ShardedProblem, "value_grad", changing)
    with pytest.raises(DataError, match=r"1\.conll has changed since its features were learnt"):
        ff.CRFTagger("FL", sigma2=1.0).fit(
            SentenceFiles.matching(str(tmp_path / "*.conll")), backend=LocalBackend(keep=0)
        )


def in_parts(frame, *cuts):
    """A Dask data frame with a partition between any two cuts, empty ones too."""
    parts = [frame[start:stop] for start, stop in zip((0, *cuts), (*cuts, len(frame)), strict=True)]
    return dask.dataframe.from_delayed([dask.delayed(part) for part in parts], meta=frame[:0], verify_meta=False)


def test_partitions_without_rows_do_not_count(frame):
    """As a filter leaves them: the estimate has the bits of the partitions that have rows."""
    weighted = frame.assign(w=np.arange(len(frame)) % 3)
    for data, weight in ((frame, None), (weighted, "w")):
        gaps, without = in_parts(data, 0, 150, 150, 400), in_parts(data, 150)
        fits = [
            ff.fit(MODEL, part, "PL1 + 0.4*PL2", random_state=3, sample_weight=weight) for part in (gaps, without)
        ]
        np.testing.assert_array_equal(fits[0].theta, fits[1].theta)
        np.testing.assert_array_equal(fits[0].standard_errors(), fits[1].standard_errors())
    array = dask.array.from_array(frame.to_numpy(), chunks=((0, 150, 0, 250), 4))
    np.testing.assert_array_equal(ff.fit(MODEL, array).theta, ff.fit(MODEL, in_parts(frame, 150)).theta)
    with pytest.raises(DataError, match="No rows: the data have 2 parts without samples"):
        ff.fit(MODEL, in_parts(frame[:0], 0))


def test_files_with_names_alone_do_not_count(frame, tmp_path):
    (tmp_path / "0.csv").write_text("a,b,c,d\n")
    (tmp_path / "2.csv").write_text("a,b,c,d\n")
    frame[:150].to_csv(tmp_path / "1.csv", index=False)
    frame[150:].to_csv(tmp_path / "3.csv", index=False)
    pattern = str(tmp_path / "*.csv")
    np.testing.assert_array_equal(ff.fit(MODEL, pattern).theta, ff.fit(MODEL, in_parts(frame, 150)).theta)
    assert TableFiles.matching(pattern).names == ("a", "b", "c", "d")
    with pytest.raises(DataError, match="No rows"):
        ff.fit(MODEL, [tmp_path / "0.csv", tmp_path / "2.csv"])
    with pytest.raises(DataError, match="No rows: 1 file of"):
        TableFiles.matching(str(tmp_path / "0*.csv"))


@pytest.mark.parametrize("kind", ["importance", "counts"])
def test_parts_whose_weights_are_all_0_do_not_count(frame, kind):
    """As parts without rows: the estimate has the bits of the other parts, whichever samples are left out."""
    weights = np.arange(len(frame)) % 3
    weights[100:250] = 0
    weighted = frame.assign(w=weights)
    settings: dict[str, Any] = {"random_state": 3, "sample_weight": "w", "weight_kind": kind}
    gaps = ff.fit(MODEL, in_parts(weighted, 100, 180, 250), "PL1 + 0.4*PL2", **settings)
    without = ff.fit(MODEL, in_parts(weighted.drop(index=range(100, 250)), 100), "PL1 + 0.4*PL2", **settings)
    assert gaps.n == without.n
    np.testing.assert_array_equal(gaps.theta, without.theta)
    np.testing.assert_array_equal(gaps.standard_errors(), without.standard_errors())
    with pytest.raises(DataError, match="No rows: the data have 2 parts without samples of positive weight"):
        ff.fit(MODEL, in_parts(weighted.assign(w=0), 150), **settings)
    with pytest.raises(DataError, match=r"sample_weight is -1.0 in row 0"):
        ff.fit(MODEL, in_parts(weighted.assign(w=np.where(weights > 0, weights, -1)), 100, 150), **settings)


def test_shards_are_made_of_blocks_in_which_a_sample_counts(frame, tmp_path, capsys):
    from fieldfit.cli.app import run

    weighted = frame.assign(w=np.arange(len(frame)) // 50 % 3)  # 0 in the first of three blocks of 50 rows
    path, command = tmp_path / "x.csv", ["--sample-weight", "w", "--rows", "50"]
    weighted.to_csv(path, index=False)
    assert TableFiles.matching(str(tmp_path / "*.csv"), "w").names == ("a", "b", "c", "d")
    assert run(["shard", str(path), *command, "--out", str(tmp_path / "s")]) == 0
    assert [file.rows for file in open_folder(tmp_path / "s").files] == [50] * 5
    fit, whole = ff.fit(MODEL, str(tmp_path / "s")), ff.fit(MODEL, weighted, sample_weight="w")
    np.testing.assert_allclose(fit.theta, whole.theta, atol=1e-6)
    assert fit.total == pytest.approx(whole.total)
    weighted.assign(w=0).to_csv(path, index=False)
    capsys.readouterr()
    assert run(["shard", str(path), *command, "--out", str(tmp_path / "none")]) == 2
    assert "weights in the column 'w' are all 0, so no sample counts" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_errors_name_the_part_and_the_row_in_it(frame, tmp_path):
    wrong = frame.astype(float)
    wrong.iloc[303, 1] = np.inf
    where = r"part 3 of the data, whose rows are numbered from 0: The value inf in row 3 \(.*\), column 'b', "
    with pytest.raises(DataError, match=where + r"is infinite, not one of its states \(0, 1\)\."):
        ff.fit(MODEL, in_parts(wrong, 150, 300))
    wrong[:300].to_parquet(tmp_path / "0.parquet")
    wrong[300:].to_parquet(tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"In part 2 of the data \(.*1\.parquet\), .* in row 3 "):
        ff.fit(MODEL, str(tmp_path / "*.parquet"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_pipes_among_files_and_shards_are_refused(frame, text, tmp_path):
    """Opening one would wait for a writer."""
    make_shards(TextTable(text), tmp_path / "folder", 100)
    (tmp_path / "folder" / "00002.shard").unlink()
    os.mkfifo(tmp_path / "folder" / "00002.shard")
    with pytest.raises(FileAccessError, match=r"00002\.shard cannot be read because it is not a regular file"):
        ff.fit(MODEL, tmp_path / "folder")
    for ending in ("csv", "parquet"):
        os.mkfifo(tmp_path / f"y.{ending}")
        for data in (str(tmp_path / f"*.{ending}"), [tmp_path / f"y.{ending}"]):
            with pytest.raises(FileAccessError, match="cannot be read because it is not a regular file"):
                ff.fit(MODEL, data)
    (tmp_path / "folder" / INDEX).unlink()
    os.mkfifo(tmp_path / "folder" / INDEX)
    with pytest.raises(FileAccessError, match="not a regular file"):
        ff.fit(MODEL, tmp_path / "folder")
