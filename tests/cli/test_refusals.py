"""Every kind of error is one sentence on stderr and exit code 2."""

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import typer

import fieldfit as ff
from fieldfit.cli import wording
from fieldfit.cli.app import build
from fieldfit.cli.values import numbers_from_text
from fieldfit.cli.wording import in_options
from fieldfit.types import FieldfitError


def test_unknown_commands_and_options(refused):
    assert "No such command 'fitt'" in refused("fitt")
    assert "--polcy" in refused("fit", "boltzmann", "x.csv", "--polcy", "PL1")
    assert "--seed" in refused("fit", "boltzmann", "x.csv", "--seed", "-3")
    assert "--method" in refused("fit", "boltzmann", "x.csv", "--method", "magic")
    assert "DATA" in refused("fit", "boltzmann")
    assert "See: fieldfit show --help" in refused("show")


@pytest.mark.parametrize("times", ["9999999999", "9" * 40])
def test_numbers_repeated_beyond_memory(times):
    with pytest.raises(FieldfitError, match="--theta has more than 10,000,000 numbers"):
        numbers_from_text(f"0.5,8x{times}", "--theta")


def test_a_column_of_counts_is_recognised(refused, run, tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("judge,jury,cases\n0,0,19\n0,1,3\n1,0,17\n1,1,62\n")
    told = refused("fit", "boltzmann", path)
    assert "use --sample-weight cases and --weight-kind counts" in told
    assert run("fit", "boltzmann", path, "--sample-weight", "cases", "--weight-kind", "counts").code == 0
    importance = run("fit", "boltzmann", path, "--sample-weight", "cases")
    assert "used as importance weights" in importance.err
    assert "use --weight-kind counts" in importance.err
    path.write_text("judge,jury\n0,0\n0,1\n1,2\n1,1\n")
    assert (
        "Correct it, leave it empty where the value is missing, or leave the column out with --leave-out."
        in refused("fit", "boltzmann", path)
    )  # a mistake, not counts
    assert in_options("Use header=True or header=False.") == "Use --header or --no-header."


def test_columns_with_values_of_their_own(refused, run, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("a,b\n" + "yes,no\nno,yes\nyes,yes\nno,no\n" * 5)
    told = refused("fit", "boltzmann", path)
    assert "values of the column are right (no, yes), recode them as states, or give them to a Potts model" in told
    assert "leave it out with --leave-out" in told
    assert run("fit", "potts", path, "--states", "no,yes", "--sigma2", "1").code == 0


def test_all_columns_that_are_no_variables_are_named_at_once(refused, run, tmp_path):
    path = tmp_path / "survey.csv"
    rows = [f"P{k},{k % 2},{k // 2 % 2},{k // 3 % 2},my remark {k % 4},{18 + k}" for k in range(40)]
    path.write_text("\n".join(["who,a,b,c,the remarks,age", *rows]) + "\n")
    told = refused("plan", "boltzmann", path)
    assert "'P0' in line 2 of" in told
    assert "Leave them out with --leave-out 'who,the remarks,age', or recode" in told
    assert "--header" not in told
    assert run("fit", "boltzmann", path, "--leave-out", "who,the remarks,age", "--sigma2", 1).code == 0
    told = refused("network", path)
    assert "leave them out (--leave-out 'who,the remarks,age')" in told


def test_columns_of_a_potts_model_share_their_states(refused, run, tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("smoker,dose\n" + "yes,low\nno,mid\nyes,high\nno,low\n" * 5)
    told = refused("fit", "potts", path)
    assert "have no value in common with 'smoker' (no, yes): 'dose': high, low, mid." in told
    assert "ff.MarkovRandomField in Python" in told
    assert run("fit", "potts", path, "--states", "no,yes,low,mid,high", "--sigma2", 1).code == 0
    path.write_text("who,a,b\n" + "".join(f"{k},{k % 3},{k * k % 3}\n" for k in range(30)))
    assert "'who' has 30 different values in 30 rows, like identifiers" in refused("fit", "potts", path)
    assert run("fit", "potts", path, "--leave-out", "who", "--sigma2", 1).code == 0


def test_the_nearest_name_is_suggested(refused, tmp_path):
    assert "Did you mean 'fit'? See" in refused("fitt")
    assert "Did you mean 'potts'?" in refused("fit", "potss", "x")
    assert "--rows" in refused("show", "x.ff", "--rowz", "3")
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"item{k}" for k in range(20)) + "\n" + ",".join("01" * 10) + "\n" + ",".join("10" * 10))
    assert "Did you mean 'item17'" in refused("fit", path, "--columns", "itm17,item2")


def test_budgets_that_are_no_times(refused, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n0,1\n1,1\n1,0\n0,0\n")
    sentence = "--budget is '10parsecs'; write a time such as 10s, 500ms, 2min or 1h."
    assert refused("plan", "boltzmann", path, "--budget", "10parsecs") == f"fieldfit: {sentence}\n"
    ff.fit(ff.BoltzmannMachine(2), [[0, 1], [1, 1], [1, 0], [0, 0]], "PL1").save(tmp_path / "m.ff")
    assert refused("report", tmp_path / "m.ff", "--data", path, "--budget", "10parsecs") == f"fieldfit: {sentence}\n"


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ("Give more iterations (max_iter).", "Give more iterations (--max-iter)."),
        ("a penalty (sigma2), or check the data", "a penalty (--sigma2), or check the data"),
        ("Leave those rows out (wide_rows=\"drop\").", "Leave those rows out (--wide-rows drop)."),
        ("or with counts (weight_kind='counts').", "or with counts (--weight-kind counts)."),
        ("random_state is -1; it must", "--seed is -1; it must"),
        ("fit again with sigma2=None, or", "fit again with no --sigma2, or"),
        ("Give them again: load(path, data).", "Name their file in the command (--data)."),
        ("too small: compare kind='model'", "too small: compare --kind model, with --data"),
        ("(a much smaller sigma2, or l1) keeps", "(a much smaller --sigma2, or --l1) keeps"),
        ("use 'plmc', 'ccmpred', a Penalty, or a number for λ_J.", "use 'plmc', 'ccmpred', or a number for λ_J."),
        ("There is no column 'sigma2x'.", "There is no column 'sigma2x'."),
    ],
)  # fmt: skip
def test_messages_speak_of_options(python, options):
    assert in_options(python) == options


def test_options_of_other_commands_are_named_with_their_command(monkeypatch):
    monkeypatch.setattr(wording, "options", lambda: frozenset({"--draws", "--seed"}))
    assert in_options("Leave those rows out (wide_rows='drop').") == (
        "Leave those rows out (--wide-rows drop of fieldfit fit)."
    )
    assert in_options("Simulate more (n_simulated), or another random_state.") == (
        "Simulate more (--draws), or another --seed."
    )


def test_each_argument_has_an_option_of_the_command_that_is_named():
    application: Any = typer.main.get_command(build())
    for argument, home in wording._HOMES.items():
        command = application.commands[home]
        alone = getattr(command, "commands", {"": command}).values()
        has = {option for each in alone for parameter in each.params for option in parameter.opts}
        names = wording._RENAMED.get(argument, (argument,))
        assert "--" + names[0].replace("_", "-") in has, (argument, home)


def test_functions_become_commands_or_are_marked_as_python():
    assert in_options("plan.table has all (on the command line: --rows 31, or --json).") == (
        "all are shown with --rows 31, or --json."
    )
    assert in_options("use held-out likelihoods (cross_validate)") == "use held-out likelihoods (fieldfit validate)"
    assert in_options("fit.debiased() gives estimates") == "fit.debiased() in Python gives estimates"
    assert in_options("out/fit.ff has the fit") == "out/fit.ff has the fit"
    assert in_options("fit.ff has the fit") == "fit.ff has the fit"
    assert in_options("use sample_weight='number of cases'") == "use --sample-weight 'number of cases'"


def test_theta_of_another_length(refused):
    told = refused("theory", "PL1", "--edges", "grid:3x3", "--theta=0.8,-0.8")
    assert "θ has 2 numbers; this model has 12 parameters and needs a number for each" in told
    assert "in the order of the model's parameters (x0:x1, " in told


def test_a_function_without_a_command_is_marked(run, tmp_path):
    answers = np.random.default_rng(0).integers(0, 2, (120, 3)).astype(str)
    answers[:9, 0] = ""
    path = tmp_path / "gaps.csv"
    path.write_text("\n".join(["a,b,c", *map(",".join, answers)]) + "\n")
    told = run("network", path, "--bootstrap", 0).err
    assert "fieldfit.networks.joint_network in Python sums over missing values instead" in told


def test_penalties_are_named_as_options(refused, votes):
    assert "--sigma2 of all parameters is -1.0" in refused("fit", votes, "--sigma2=-1")


def test_a_command_alone_shows_its_help(run):
    ran = run("fit")
    assert ran.code == 2
    assert "Usage: fieldfit fit" in ran.err + ran.out


def test_missing_file(refused, tmp_path):
    assert "cannot be opened" in refused("fit", "boltzmann", tmp_path / "none.csv")
    assert "none.ff" in refused("show", tmp_path / "none.ff")
    assert "none.uai" in refused("fit", "mrf", tmp_path / "none.uai", tmp_path / "none.csv")


def test_ragged_table_names_the_line(refused, tmp_path):
    path = tmp_path / "ragged.csv"
    path.write_text("a,b\n0,1\n1\n")
    assert "Line 3 of" in refused("fit", "boltzmann", path)


def test_value_outside_the_states(refused, votes):
    message = refused("fit", "boltzmann", votes, "--states=-1,1")
    assert "not one of its states (-1, 1)" in message
    assert "line 2" in message or "line 3" in message


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("PL1 ++ PL2", "position"), ("1.2*PL1", "must lie in [0, 1]"), ("", "empty"), ("PL9", "PL9"), ("PL1@-1", "β")],
)
def test_bad_policies(refused, votes, policy, expected):
    assert expected in refused("fit", "boltzmann", votes, "--policy", policy)


@pytest.mark.slow
def test_bad_numbers_and_lists(refused, votes):
    assert "--states" in refused("fit", "boltzmann", votes, "--states", "1")
    assert "two numbers" in refused("fit", "boltzmann", votes, "--states", "no,yes")
    assert "sigma2" in refused("fit", "boltzmann", votes, "--sigma2", "-1")
    assert "2 weights" in refused("fit", "boltzmann", votes, "--weights", "1,2")
    assert "'x'" in refused("fit", "boltzmann", votes, "--weights", "x")
    assert "grid of 6 sites" in refused("fit", "boltzmann", votes, "--edges", "grid:2x3")
    assert "is not a grid" in refused("fit", "boltzmann", votes, "--edges", "grid:2")


def test_unknown_column(refused, votes):
    assert "'zz'" in refused("fit", "boltzmann", votes, "--columns", "b,zz")
    assert "'zz'" in refused("fit", "boltzmann", votes, "--sample-weight", "zz")


def test_bad_edges_file(refused, votes, tmp_path):
    edges = tmp_path / "edges.txt"
    edges.write_text("b,c\nb,nobody\n")
    assert "line 2: there is no variable 'nobody'" in refused("fit", "boltzmann", votes, "--edges", edges)
    edges.write_text("b,c,d\n")
    assert "3 entries" in refused("fit", "boltzmann", votes, "--edges", edges)
    edges.write_text("b,c\nc,b\n")
    assert "repeats" in refused("fit", "boltzmann", votes, "--edges", edges)


def test_constant_column_without_a_penalty(refused, run, tmp_path):
    path = tmp_path / "constant.csv"
    path.write_text("a,b,c\n" + "0,1,1\n1,0,1\n0,0,1\n1,1,1\n" * 5)
    assert "never changes: c" in refused("fit", "boltzmann", path)
    assert run("fit", "boltzmann", path, "--sigma2", 1).code == 0


def test_damaged_model_file(refused, saved, tmp_path):
    whole = saved.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not a model", whole[:200] + b"\0" * 50 + whole[250:]):
        damaged = tmp_path / "damaged.ff"
        damaged.write_bytes(content)
        assert "damaged.ff" in refused("show", damaged)
        assert "damaged.ff" in refused("sample", damaged)


def test_theta_of_the_wrong_length_or_content(refused):
    assert "θ has 3 numbers" in refused("theory", "PL1", "--m", 5, "--theta", "1,2,3")
    assert "'a'" in refused("theory", "PL1", "--m", 5, "--theta", "a,b")
    assert "must be finite" in refused("theory", "PL1", "--m", 2, "--theta", "nan")
    assert "needs --theta, and --m or --edges" in refused("theory", "PL1")
    assert "--model is 'isng'" in refused("theory", "PL1", "--model", "isng")


def test_bad_given_states_and_level(refused, saved):
    assert "does not name a variable" in refused("sample", saved, "--given", "q=1")
    assert "the states of b are 0, 1" in refused("sample", saved, "--given", "b=7")
    assert "--level" in refused("show", saved, "--level", 2)


def test_nowhere_to_write(refused, run, votes, saved, tmp_path):
    nowhere = tmp_path / "no" / "such" / "model.ff"
    assert "does not exist" in refused("fit", "boltzmann", votes, "--out", nowhere)
    assert "does not exist" in refused("sample", saved, "--out", nowhere)
    assert "does not exist" in refused("reproduce", "figure-1", "--out", nowhere)
    ran = run("fit", "boltzmann", votes, "--out", tmp_path)
    assert ran.code == 2
    assert "a folder" in ran.err


def test_a_full_disk_is_told(refused, saved, tmp_path, monkeypatch):
    import errno
    import os

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("fieldfit.data.atomic.os.fsync", full)
    out = tmp_path / "draws.csv"
    assert "disk is full" in refused("sample", saved, "--out", out)
    assert not out.exists()


def test_a_fit_that_cannot_be_saved_is_shown(run, votes, tmp_path, monkeypatch):
    import errno
    import json
    import os

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("fieldfit.data.atomic.os.fsync", full)
    out = tmp_path / "model.ff"
    ran = run("fit", "boltzmann", votes, "--out", out)
    assert ran.code == 2
    assert "estimate" in ran.out
    assert "disk is full" in ran.err
    assert "saved:" not in ran.err
    ran = run("fit", "boltzmann", votes, "--out", out, "--json")
    assert ran.code == 2
    assert json.loads(ran.out)["file"] is None
    assert not out.exists()


#: Fills the disk for one target only, after the work has begun: no file that is written there ends well.
FULL_DISK = """
import errno, os, sys
from fieldfit.data import atomic
usual, target = os.replace, os.path.realpath(sys.argv[1])
def replace(source, to):
    if to == target:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    usual(source, to)
atomic.os.replace = replace
from fieldfit.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["boltzmann", "crf", "boltzmann-chain"])
def test_a_fit_that_cannot_be_saved_is_saved_elsewhere(votes, tmp_path, model):
    """In a process of its own, which has its own folder for temporary files."""
    import os
    import re
    import subprocess
    import sys

    sentences = tmp_path / "train.txt"
    sentences.write_text("a X\nb Y\n\nb Y\na X\n\na X\na X\n" * 5)
    data, out, other = votes if model == "boltzmann" else sentences, tmp_path / "model.ff", tmp_path / "other"
    other.mkdir()
    command = ["fit", model, str(data), "--out", str(out), "--checkpoint", str(tmp_path / "state")]
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(out), *command], capture_output=True, text=True, check=False,
        env=os.environ | {"TMPDIR": str(other)},
    )  # fmt: skip
    assert ran.returncode == 2, ran.stderr
    assert "policy" in ran.stdout
    assert "disk is full" in ran.stderr
    assert "state has the state, and the same command with --resume continues" in ran.stderr
    assert not out.exists()
    found = re.search(r"saved as (\S+) instead", ran.stderr)
    assert found is not None
    saved = found[1]
    assert saved.startswith(str(other))
    assert subprocess.run([sys.executable, "-m", "fieldfit", "show", saved], check=False).returncode == 0


def test_a_target_that_cannot_be_written_is_refused_before_the_work(refused, votes, tmp_path, monkeypatch):
    import os

    sentences = tmp_path / "train.txt"
    sentences.write_text("a X\nb Y\n")
    for model, data in (("boltzmann", votes), ("crf", sentences), ("boltzmann-chain", sentences)):
        assert "it is a folder" in refused("fit", model, data, "--out", tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr("fieldfit.cli.saving.os.access", lambda _, mode: not mode & os.W_OK)
            assert "no permission to write in" in refused("fit", model, data, "--out", tmp_path / "a.ff")


def test_unknown_experiment(refused):
    assert "there are: figure-1" in refused("reproduce", "figure-99")


def test_a_bug_asks_for_a_report_and_debugging_shows_it(refused, saved, monkeypatch, run):
    def fail(*_):
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr("fieldfit.api.files.load", fail)
    assert "ZeroDivisionError: one two). This is a bug" in refused("show", saved)
    monkeypatch.setenv("FIELDFIT_DEBUG", "1")
    from fieldfit.cli import main

    with pytest.raises(ZeroDivisionError):
        main(["show", str(saved)])


def test_too_little_memory_for_a_table_names_the_command_that_divides_it(refused, votes, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("fieldfit.data.table.read_table", fail)
    said = refused("fit", votes)
    assert "not enough memory" in said
    assert "`fieldfit shard DATA --out FOLDER`, and fit the folder" in said


def test_a_folder_where_a_file_is_needed(refused, saved, tmp_path):
    assert "cannot be opened because it is a folder. Give a file." in refused("check", saved, tmp_path)


def test_numbers_that_json_does_not_have_are_null():
    from fieldfit.cli.output import plain

    assert plain({"a": np.array([np.nan, np.inf, 1.0]), "b": (np.int64(3), None)}) == {
        "a": [None, None, 1.0],
        "b": [3, None],
    }


def test_ctrl_c_during_the_imports_is_a_sentence():
    program = """
import sys
from typing import Any
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "fieldfit.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from fieldfit.cli import main
sys.exit(main(["fit", "boltzmann", "x.csv"]))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 130
    assert ran.stderr == "fieldfit: Interrupted before the command began; nothing was written.\n"


def test_a_number_of_workers_that_no_machine_has(refused, votes):
    """Ctrl-C waits while workers start, so that there must be an end of it."""
    assert re.search(r"--workers.*\b256\b", refused("fit", "boltzmann", votes, "--workers", 100_000))


@pytest.mark.parametrize("address", ["", "nonsense", "http://127.0.0.1:80", "tcp://127.0.0.1:99999", "tcp://a b:1"])
def test_an_address_that_is_none(refused, votes, address):
    pytest.importorskip("distributed")
    assert "it must be an address such as" in refused("fit", "boltzmann", votes, "--cluster", address)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_a_worker_timeout_that_is_none(refused, seconds):
    """Before anything is read: there is no such file."""
    told = refused("fit", "boltzmann", "none.csv", "--workers", 2, "--worker-timeout", seconds)
    assert f"--worker-timeout is {seconds}; it must be a number of seconds above 0" in told


@pytest.mark.parametrize("command", [("fit", "boltzmann"), ("fit", "crf"), ("plan", "boltzmann"), ("sweep", "run")])
def test_a_worker_timeout_without_workers(refused, command):
    assert "Add --workers N or --cluster ADDRESS" in refused(*command, "none.toml", "--worker-timeout", 5)
    assert "Give one of the two" in refused(*command, "none.toml", "--workers", 1, "--cluster", "tcp://127.0.0.1:1")
