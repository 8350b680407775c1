"""`fieldfit contacts`: from an alignment file to a table, a picture and files that other tools read."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.proteins import read_plmc

LETTERS = "-ACGU"


@pytest.fixture
def family(tmp_path):
    """An alignment in which the columns 0 and 8, and 1 and 7, agree most of the time, and the distances."""
    random = np.random.default_rng(0)
    codes = random.integers(1, 5, (300, 9))
    for left, right in ((0, 8), (1, 7)):
        same = random.random(300) < 0.8
        codes[same, right] = codes[same, left]
    path, distances = tmp_path / "family.fasta", tmp_path / "distances.csv"
    path.write_text("".join(f">s{i}\n{''.join(LETTERS[c] for c in row)}\n" for i, row in enumerate(codes)))
    near = {(0, 8), (1, 7)}
    lines = [f"{j},{k},{5 if (j, k) in near else 20}\n" for j in range(9) for k in range(j + 1, 9)]
    distances.write_text("column_i,column_j,distance\n" + "".join(lines))
    return path, distances


def test_json(run, family):
    path, distances = family
    options = ("--alphabet", "rna", "--penalty", "ccmpred", "--distances", distances, "--threads", 1, "--json")
    found = run("contacts", path, *options)
    assert found.code == 0, found.err
    assert (found.json["sequences"], found.json["columns"]) == (300, 9)
    assert found.json["precision"]["L*0.2"] == 1.0
    assert {(pair["i"], pair["j"]) for pair in found.json["pairs"][:2]} == {(0, 8), (1, 7)}


@pytest.mark.slow
def test_couplings_with_standard_errors(run, family, tmp_path):
    out = tmp_path / "out"
    options = ("--alphabet", "rna", "--penalty", "ccmpred", "--threads", 1, "--couplings", 3)
    found = run("contacts", family[0], *options, "--out", out)
    assert found.code == 0, found.err
    text = " ".join(found.out.split())
    assert "Largest couplings of single letters, at least 6 columns apart" in text
    assert (
        "sequences for each parameter: standard errors of couplings may be far too small, and abs(z) too large."
        in text
    )
    assert "Wrote couplings.csv, contacts.csv" in " ".join(found.err.split())
    lines = (out / "couplings.csv").read_text().splitlines()
    assert lines[0] == "column_i,column_j,letter_i,letter_j,coupling,standard_error,z,note"
    assert len(lines) == 4
    asked = run("contacts", family[0], *options, "--json").json["couplings"]
    assert [(pair["column_i"], pair["column_j"]) for pair in asked] == [
        tuple(map(int, line.split(",")[:2])) for line in lines[1:]
    ]


def test_a_model_that_runs_away_has_advice_that_the_command_can_follow(run, tmp_path, monkeypatch):
    monkeypatch.setattr("fieldfit.api.runaway.DRIFT", -10.0)  # every model drifts
    codes = np.random.default_rng(0).integers(1, 5, (60, 10))
    path = tmp_path / "family.fasta"
    path.write_text("".join(f">s{i}\n{''.join(LETTERS[c] for c in row)}\n" for i, row in enumerate(codes)))
    found = run("contacts", path, "--alphabet", "rna", "--penalty", "2.5", "--tol", 0.1, "--threads", 1, "--json")
    assert found.code == 0, found.err
    assert "use a stronger penalty (--penalty): λ_J is 2.5 here." in found.err
    assert "--sigma2" not in found.err
    assert "--l1" not in found.err


@pytest.mark.slow
def test_files(run, family, tmp_path):
    path, distances = family
    out = tmp_path / "out"
    found = run("contacts", path, "--alphabet", "rna", "--distances", distances, "--out", out, "--threads", 1)
    assert found.code == 0, found.err
    assert "300 sequences" in found.out
    assert {entry.name for entry in out.iterdir()} == {
        "contacts.csv", "mutations.csv", "parameters.plmc", "model.ff", "contact_map.png", "contact_map.svg"
    }  # fmt: skip
    assert (out / "contacts.csv").read_text().startswith("i,j,column_i,column_j,norm,score,distance\n")


@pytest.mark.slow
def test_commands_on_the_saved_fit_read_the_alignment(run, family, tmp_path):
    path, out = family[0], tmp_path / "out"
    options = ("--alphabet", "rna", "--penalty", "ccmpred", "--focus", "s3", "--identity", 0.9, "--threads", 1)
    assert run("contacts", path, *options, "--out", out).code == 0
    page = tmp_path / "page.html"
    written = ("report", out / "model.ff", "--data", path, "--out", page, "--budget", "none")
    found = run(*written)
    assert found.code == 0, found.err
    text = page.read_text()
    assert "Predicted contacts" in text
    assert "1 and 9: score" in text  # residues of s3
    assert "residue of s3" in text
    assert "Data against model" in text
    assert "does not contain its samples" not in text
    checked = run("check", out / "model.ff", path, "--simulated", 19, "--json")
    assert checked.code == 0, checked.err


@pytest.mark.slow
def test_a_killed_command_goes_on(run, family, tmp_path):
    options = [
        "contacts",
        str(family[0]),
        "--alphabet",
        "rna",
        "--penalty",
        "ccmpred",
        "--tol",
        "1e-9",
        "--threads",
        "1",
    ]
    state = tmp_path / "state"
    kept = [*options, "--checkpoint", str(state), "--checkpoint-every", "0"]
    with subprocess.Popen([sys.executable, "-m", "fieldfit", *kept], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not state.exists():
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert run(*kept).code == 2  # the file exists
    whole = run(*options, "--out", tmp_path / "whole")
    rest = run(*kept, "--resume", "--out", tmp_path / "rest")
    assert rest.code == whole.code == 0, rest.err
    assert "resuming: " in rest.err
    first, second = (ff.load(tmp_path / name / "model.ff").theta for name in ("whole", "rest"))
    assert first.tobytes() == second.tobytes()


def test_ctrl_c_names_the_checkpoint(run, family, tmp_path, monkeypatch):
    from fieldfit.cli import progress

    @contextmanager
    def interrupted(*_):
        def tell(state):
            if state.iteration == 2:
                raise KeyboardInterrupt

        yield tell

    monkeypatch.setattr(progress, "shown_progress", interrupted)
    ended = run("contacts", family[0], "--alphabet", "rna", "--threads", 1, "--checkpoint", tmp_path / "state")
    assert ended.code == 130
    assert "the same command with --resume continues from there" in " ".join(ended.err.split())
    out, kept = tmp_path / "out", tmp_path / "kept"
    kept.mkdir()
    for folder in (out, kept):
        state = tmp_path / f"{folder.name}-state"
        ended = run(
            "contacts", family[0], "--alphabet", "rna", "--threads", 1, "--checkpoint", state, "--out", folder
        )
        assert ended.code == 130
    assert not out.exists()  # the command created it, and wrote nothing into it
    assert kept.exists()


def test_few_sequences_get_a_caution(run, family, tmp_path):
    few = tmp_path / "few.fasta"
    few.write_text("".join(family[0].read_text().splitlines(keepends=True)[:16]))
    found = run("contacts", few, "--alphabet", "rna", "--threads", 1)
    assert "Caution: the effective number is below the number of columns" in " ".join(found.out.split())
    assert "Caution" not in run("contacts", family[0], "--alphabet", "rna", "--threads", 1).out


def test_dna_read_as_proteins_and_distances_counted_from_1_get_a_warning(run, family):
    """The distances count columns from 1 and have no line for the last column."""
    path, distances = family
    path.write_text(path.read_text().replace("U", "T"))
    cells = [line.split(",") for line in distances.read_text().splitlines()[1:]]
    distances.write_text("".join(f"{int(j) + 1},{int(k) + 1},{d}\n" for j, k, d in cells if k != "8"))
    found = run("contacts", path, "--distances", distances, "--penalty", "ccmpred", "--threads", 1)
    told = " ".join(found.err.split())
    assert found.code == 0
    assert "has the letters A, C, G, T only. Is it DNA or RNA?" in told
    assert "has the column 0, the first of the alignment. If the file counts columns from 1, subtract 1." in told


def test_a_file_that_is_no_alignment(run, family):
    found = run("contacts", family[1])
    assert found.code == 2
    assert "does not begin with '>'" in found.err
    empty = family[1].with_name("empty.fasta")
    empty.touch()
    assert "is empty" in run("contacts", empty).err


@pytest.mark.slow
def test_a_focus_sequence_and_distances_of_all_columns(run, family, tmp_path):
    """The focus sequence lacks the last column, for which the file has distances nevertheless."""
    path, distances = family
    lines = path.read_text().splitlines()
    lines[0], lines[1] = ">RNA/11-18", lines[1][:-1] + "-"
    path.write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    options = ("--alphabet", "rna", "--focus", "RNA", "--distances", distances, "--out", out, "--threads", 1)
    found = run("contacts", path, *options)
    assert found.code == 0, found.err
    first = (out / "contacts.csv").read_text().splitlines()[:2]
    assert first[0] == "i,j,column_i,column_j,position_i,position_j,norm,score,distance"
    assert first[1].startswith("1,7,1,7,12,18,")
    assert (out / "mutations.csv").read_text().startswith("column,position,from,to,delta\n0,11,")
    assert read_plmc(out / "parameters.plmc").numbering.tolist() == list(range(11, 19))


@pytest.mark.slow
def test_what_cannot_be_said_is_told(run, family, tmp_path):
    path, distances = family
    options = ("--alphabet", "rna", "--threads", 1)
    assert "No pair is at least 20 columns apart" in " ".join(
        run("contacts", path, *options, "--separation", 20).out.split()
    )
    distances.write_text("0,8,5\n")
    found = run("contacts", path, *options, "--distances", distances)
    assert "Caution: 1 pair at least 6 columns apart has a known distance, fewer than L = 9." in " ".join(
        found.out.split()
    )
    found = run("contacts", path, *options, "--max-iter", 1)
    assert found.err.startswith("fieldfit: warning: The fit did not converge")
    assert ".py" not in found.err


@pytest.mark.slow
def test_show_of_a_large_family_names_the_function_that_loads_it(run, tmp_path):
    path = tmp_path / "family.fasta"
    path.write_text(">a\nACDE\n>b\nAC-E\n>c\nGCDW\n")
    assert run("contacts", path, "--separation", 1, "--out", tmp_path / "out").code == 0
    shown = run("show", tmp_path / "out" / "model.ff")
    told = " ".join((shown.out + shown.err).split())
    assert "in Python, fitted = fieldfit.proteins.load_family(path, alignment), and compute" in told
