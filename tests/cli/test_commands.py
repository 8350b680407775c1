"""Each command: what it prints, its JSON document, its files."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.main import get_command

import fieldfit as ff
from fieldfit.api import accuracies
from fieldfit.cli.app import build
from fieldfit.types import DataError


@pytest.mark.slow
def test_help_lists_every_command_and_version_is_the_package_s(run):
    shown = run("--help")
    assert shown.code == 0
    for name in ("fit", "theory", "sample", "show", "reproduce"):
        assert f"\n  {name} " in shown.out
    assert run("--version").out == f"fieldfit {ff.__version__}\n"
    for command in (("fit", "boltzmann"), ("fit", "potts"), ("fit", "mrf"), ("theory",), ("sample",), ("show",)):
        described = run(*command, "--help")
        assert described.code == 0
        assert "--json" in described.out


@pytest.mark.parametrize("group", [(), ("fit",), ("plan",), ("sweep",)])
def test_the_line_of_a_command_in_help_is_a_whole_sentence(run, group):
    lines = run(*group, "--help").out.split("Commands:\n")[1].splitlines()
    assert lines
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


def options_of(command: Any, name: str = "fieldfit") -> Iterator[tuple[str, Any]]:
    """The options of a command and of all its subcommands."""
    for child, subcommand in getattr(command, "commands", {}).items():
        yield from options_of(subcommand, f"{name} {child}")
    options = (parameter for parameter in command.params if parameter.param_type_name == "option")
    yield from ((name, option) for option in options if "completion" not in option.name)  # typer's own


def test_the_help_of_an_option_that_has_no_value_by_default_says_what_happens_then():
    options = list(options_of(get_command(build())))
    without_value = [(name, option) for name, option in options if option.default is None and not option.required]
    assert len(without_value) > 100
    assert [f"{name} {option.opts[0]}" for name, option in without_value if "Default: " not in option.help] == []


def test_fit_gives_what_the_library_gives_and_saves_it(run, votes, samples, tmp_path):
    out = tmp_path / "model.ff"
    policy = "PL1 + 0.2*PL2"
    ran = run("fit", "boltzmann", votes, "--policy", policy, "--sigma2", 10, "--biases", "--out", out, "--seed", 3)
    assert ran.code == 0
    assert "converged" in ran.out
    assert "été:b" in ran.out
    assert f"saved: {out}" in ran.err
    direct = ff.fit(ff.BoltzmannMachine(4, biases=True), samples, policy, sigma2=10, random_state=3)
    loaded: Any = ff.load(out)
    np.testing.assert_array_equal(loaded.theta, direct.theta)
    assert loaded.model.names == ("été", "b", "c", "d")


def test_fit_as_json_is_one_document(run, votes):
    ran = run("fit", "boltzmann", votes, "--json")
    assert ran.code == 0
    assert ran.err == ""
    document = ran.json
    assert document["converged"] is True
    assert document["warnings"] == []
    assert [parameter["name"] for parameter in document["parameter"]][:2] == ["été:b", "été:c"]
    assert all(parameter["std_error"] > 0 for parameter in document["parameter"])
    assert document["parameter"][0]["sigma2"] is None


def test_fit_options_reach_the_fit(run, votes, tmp_path):
    base = run("fit", "boltzmann", votes, "--json", "--columns", "b,c,d", "--weights", "0.5").json
    assert base["policy"] == "PL1@0.5"
    assert [parameter["name"] for parameter in base["parameter"]] == ["b:c", "b:d", "c:d", "b", "c", "d"]
    edges = tmp_path / "edges.txt"
    edges.write_text("été,b\n2 3\n", encoding="utf-8")
    chosen = run("fit", "boltzmann", votes, "--json", "--edges", edges, "--method", "lbfgs", "--no-biases").json
    assert [parameter["name"] for parameter in chosen["parameter"]] == ["été:b", "c:d"]
    grid = run("fit", "boltzmann", votes, "--json", "--edges", "grid:2x2", "--tied").json
    assert [parameter["name"] for parameter in grid["parameter"]] == ["horizontal", "vertical", "bias"]
    weighted = run("fit", "boltzmann", votes, "--json", "--sample-weight", "d", "--weight-kind", "counts").json
    assert [parameter["name"] for parameter in weighted["parameter"]][:3] == ["été:b", "été:c", "b:c"]
    assert len(weighted["parameter"]) == 6


def test_a_column_that_looks_like_a_group_label_is_named(run, tmp_path):
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (60, 3))
    path = tmp_path / "survey.csv"
    np.savetxt(path, rows, fmt="%d", delimiter=",", comments="", header="sleep,Study_arm,mood")
    told = "Column 'Study_arm' looks like a group label (by its name), and it is used as a variable here."
    ran = run("fit", "boltzmann", path, "--json")
    assert told in ran.err
    assert "--by Study_arm" in ran.json["warnings"][0]
    assert told in run("plan", "boltzmann", path, "--policy", "PL1", "--json").err
    for options in (("--columns", "sleep,mood"), ("--columns", "sleep,mood,Study_arm"), ("--groups", "Study_arm")):
        assert "looks like" not in run("fit", "boltzmann", path, *options).err
    assert "use --leave-out Study_arm." in ran.err


@pytest.mark.slow
def test_columns_are_left_out_wherever_a_table_is_read(run, tmp_path):
    random = np.random.default_rng(0)
    rows = np.column_stack([np.arange(100, 160), random.integers(0, 2, (60, 3)), random.integers(1, 3, 60)])
    path = tmp_path / "survey.csv"
    np.savetxt(path, rows, fmt="%d", delimiter=",", comments="", header="person,sleep,arm,mood,times")
    left = ("--leave-out", "arm,person", "--sample-weight", "times", "--json")
    kept = ("--columns", "sleep,mood", "--sample-weight", "times", "--json")
    for command in ("fit", "plan"):
        options = () if command == "fit" else ("--policy", "PL1")
        out, same = run(command, path, *left, *options), run(command, path, *kept, *options)
        assert out.code == 0, out.err
        if command == "fit":
            assert out.json["parameter"] == same.json["parameter"]
        else:
            assert out.json["policies"][0]["variance"] == same.json["policies"][0]["variance"]
    states = run("fit", "potts", path, *left[:4], "--json")
    assert states.code == 0, states.err
    assert not any("arm" in parameter["name"] for parameter in states.json["parameter"])
    shards = tmp_path / "shards"
    assert run("shard", path, *left, "--out", shards).json["columns"] == 2
    assert [parameter["name"] for parameter in run("fit", shards, "--json").json["parameter"]] == [
        "sleep:mood",
        "sleep",
        "mood",
    ]
    refused = run("fit", shards, "--leave-out", "arm")
    assert "Use --columns, --leave-out," in refused.err
    refused = run("fit", path, "--leave-out", "knd")
    assert "There is no column 'knd' in" in refused.err
    refused = run("fit", "potts", path, "--states", "0,1,2")
    assert "leave it out with --leave-out" in refused.err


def test_a_fit_may_stop_by_its_sampling_error(run, votes, tmp_path):
    # Correlated pixels take many evaluations to the usual tolerance; a fit of a few evaluations has nothing to save.
    ink = load_digits().data[:1200] > 7
    common = ink[:, (ink.mean(axis=0) > 0.03) & (ink.mean(axis=0) < 0.97)][:, 10:24]
    path = tmp_path / "pixels.csv"
    np.savetxt(path, common, fmt="%d", delimiter=",", comments="", header=",".join(f"p{k}" for k in range(14)))
    ran = run("fit", "boltzmann", path, "--biases", "--policy", "PL2", "--tol", "statistical")
    assert ran.code == 0
    assert "of the sampling error" in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines())
    wrong = run("fit", "boltzmann", votes, "--tol", "small")
    assert wrong.code == 2
    assert wrong.err == "fieldfit: --tol is 'small'; it must be a number above 0, such as 1e-6, or statistical.\n"


def test_few_groups_are_named(run, votes, tmp_path):
    lines = votes.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "grouped.csv"
    header, rows = lines[0] + ",clinic", [f"{line},{place % 4}" for place, line in enumerate(lines[1:])]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    words = " ".join(run("fit", path, "--groups", "clinic").out.split())
    assert "Caution: 0.4 groups for each parameter, robust errors may be far too small" in words


@pytest.mark.slow
def test_groups_give_cluster_robust_errors(run, tmp_path):
    random = np.random.default_rng(0)
    rows = np.repeat(random.integers(0, 2, (80, 3)), 4, axis=0)
    table = ["a,b,c,patient"] + [f"{a},{b},{c},patient {row // 4}" for row, (a, b, c) in enumerate(rows)]
    path, out = tmp_path / "visits.csv", tmp_path / "visits.ff"
    path.write_text("\n".join(table) + "\n")
    grouped = run("fit", "boltzmann", path, "--json", "--groups", "patient", "--out", out).json
    plain = run("fit", "boltzmann", path, "--json", "--columns", "a,b,c").json
    assert [line["name"] for line in grouped["parameter"]] == ["a:b", "a:c", "b:c", "a", "b", "c"]
    for one, other in zip(grouped["parameter"], plain["parameter"], strict=True):
        assert one["std_error"] == pytest.approx(2 * other["std_error"], rel=1e-6)  # four copies of each row
    assert "in 80 groups" in run("show", out).out
    assert run("check", out, path, "--groups", "patient").code == 0


def test_progress_goes_to_stderr_line_by_line(run, votes):
    ran = run("fit", "boltzmann", votes, "--progress", "--json")
    lines = ran.err.splitlines()
    assert lines[0].split() == ["iteration", "objective", "gradient", "seconds", "left"]
    assert [line.split()[0] for line in lines[1:3]] == ["0", "1"]
    assert ran.json["converged"]


def test_warnings_are_sentences_on_stderr_and_in_the_document(run, votes):
    ran = run("fit", "boltzmann", votes, "--max-iter", 1, "--method", "lbfgs", "--json")
    assert ran.code == 0
    assert ran.err.startswith("fieldfit: warning: The fit did not converge")
    assert ran.err.count("\n") == 1
    assert ran.json["converged"] is False
    assert len(ran.json["warnings"]) == 1


def test_fit_potts_finds_the_states_of_the_data(run, tmp_path):
    random = np.random.default_rng(1)
    path = tmp_path / "sites.csv"
    rows = [["a", "b", "c"], *random.choice(["lo", "mid", "hi"], (200, 3)).tolist()]
    path.write_text("\n".join(map(",".join, rows)))
    document = run("fit", "potts", path, "--couplings", "agree", "--no-fields", "--json", "--header").json
    assert [parameter["name"] for parameter in document["parameter"]] == ["a:b", "a:c", "b:c"]
    table = run("fit", "potts", path, "--sigma2", 1, "--json", "--header", "--states", "lo,mid,hi").json
    assert table["parameters"] == 3 * 9 + 9
    assert table["parameter"][1]["name"] == "a=lo:b=mid"


def test_fit_a_field_given_by_a_uai_file(run, votes, tmp_path):
    network = tmp_path / "chain.uai"
    network.write_text("MARKOV\n4\n2 2 2 2\n3\n2 0 1\n2 1 2\n2 2 3\n" + "4 1 1 1 1\n" * 3)
    document = run("fit", "mrf", network, votes, "--policy", "FL", "--json").json
    assert document["model"] == "mrf"
    assert document["parameters"] == 12
    assert document["converged"]


def test_show_fits_eighty_columns_and_has_the_same_numbers_as_json(run, saved):
    ran = run("show", saved, "--sort", "model")
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 80
    parameters = run("show", saved, "--json").json["parameter"]
    parameter = parameters[0]
    line = next(line for line in ran.out.splitlines() if line.startswith("été:b"))
    assert line.split()[1:5] == [
        f"{parameter['estimate']:.4f}",
        f"{parameter['std_error']:.4f}",
        f"{parameter['z']:.2f}",
        f"{parameter['p']:.2g}",
    ]
    frame = ff.load(saved).table()
    assert [own["p"] for own in parameters] == pytest.approx(frame["p"].tolist())
    assert [own["z"] for own in parameters] == pytest.approx(frame["z"].tolist())
    assert "… and 8 more" in run("show", saved, "--rows", 2).out


def test_show_wraps_long_names_within_the_terminal(run, samples, tmp_path):
    names = [f"a rather long name of a variable, number {v}" for v in range(4)]
    path = tmp_path / "long.ff"
    ff.fit(ff.BoltzmannMachine(4, names=names), samples).save(path)
    lines = run("show", path).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("number" in line for line in lines) >= 6


def test_sample_says_how_and_repeats_itself(run, saved, tmp_path):
    ran = run("sample", saved, "-n", 5)
    assert ran.out.splitlines()[0] == "été,b,c,d"
    assert len(ran.out.splitlines()) == 6
    assert ran.err == "5 draws: independent exact draws\n"
    out = tmp_path / "draws.csv"
    assert run("sample", saved, "-n", 5, "--out", out).out == ""
    assert out.read_text(encoding="utf-8") == ran.out
    document = run("sample", saved, "-n", 7, "--given", "b=1", "--json", "--method", "gibbs", "--burn-in", 9).json
    assert document["method"] == "gibbs"
    assert document["burn_in"] == 9
    assert np.array(document["values"]).shape == (7, 4)
    assert {row[1] for row in document["values"]} == {1}


def test_theory_compares_policies(run, saved, tmp_path):
    policies = ("PL1", "0.7*PL1 + 0.3*PL2")
    here = ("--m", 5, "--theta", "-1x5,1x5")
    shown = run("theory", *policies, *here)
    assert "1.624" in shown.out
    assert "9.099" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    published = run("theory", *policies, *here, "--formula", "published", "--json").json["policies"]
    assert [round(policy["efficiency"]["det"], 3) for policy in published] == [1.624, 1.432]
    assert [round(policy["flops"]) for policy in published] == [110, 200]
    staged = run("theory", "PL1", "FL", "PL1 >> optimal", "PL1 >> FL", *here, "--json").json["policies"]
    plain, full, *two = (policy["flops"] for policy in staged)
    assert two == [2 * plain, plain + full]
    theta = tmp_path / "theta.txt"
    theta.write_text("-1 -1 -1 -1 -1\n1,1,1,1,1\n")
    from_file = run("theory", "PL1", "--m", 5, "--theta", theta, "--json").json
    grid = run("theory", "PL1", "--edges", "grid:2x3", "--theta=0.5x7", "--json").json["policies"]
    assert grid == run("theory", "PL1", "--edges", "grid:2x3", "--m", 6, "--theta=0.5x7", "--json").json["policies"]
    edges = tmp_path / "edges.csv"
    for pairs in ("from,to\n0,1\n1,2\n", "0 1\n1 2\n", "ann,bob\nbob,cy\n"):
        edges.write_text(pairs)
        assert run("theory", "FL", "--edges", edges, "--theta=0.5x2").out.startswith("boltzmann: 3 variables, 2 ")
    assert from_file["policies"][0]["efficiency"]["det"] == pytest.approx(1.624, abs=6e-4)
    fitted = run("theory", "FL", "PL1", "--model", saved, "--json").json
    np.testing.assert_array_equal(fitted["theta"], ff.load(saved).theta)
    assert fitted["policies"][0]["efficiency"]["det"] == pytest.approx(1.0)


@pytest.mark.slow
def test_reproduce_prints_and_draws_figure_1(run, tmp_path):
    ran = run("reproduce", "figure-1")
    assert "2,772" in ran.out
    assert ran.out.count("◆") == 14 + 70 + 88
    document = run("reproduce", "figure-1", "--json", "--out", tmp_path / "figures").json
    assert len(document["files"]) == 2
    assert (tmp_path / "figures" / "figure-1.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_output_without_unicode_or_colour(saved):
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1", "TERM": "dumb"}
    shown = subprocess.run(
        [sys.executable, "-m", "fieldfit", "show", saved, "--json"], env=environment, capture_output=True, check=True
    )
    assert shown.stdout.isascii()
    assert b"\\u00e9t\\u00e9:b" in shown.stdout
    table = subprocess.run(
        [sys.executable, "-m", "fieldfit", "show", saved], env=environment, capture_output=True, check=True
    )
    assert table.stdout.isascii()
    assert b"\x1b" not in table.stdout


@pytest.mark.slow
def test_a_command_imports_no_other_command():
    code = (
        "import sys\nfrom fieldfit.cli import main\nassert main(['plan', '--help']) == 0\n"
        "sys.exit(', '.join(m for m in sys.modules if m.startswith('fieldfit.cli.commands.') "
        "and m != 'fieldfit.cli.commands.fit_and_plan') or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert ran.returncode == 0


def test_until_ctrl_c_is_handled_nothing_else_is_imported():
    folder = str(Path(ff.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {folder!r}); before = set(sys.modules); from fieldfit.cli import main; "
        "print(*sorted(set(sys.modules) - before))"
    )
    # -S: without the finder of an editable installation, which imports modules of its own.
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["fieldfit", "fieldfit.cli"]


@pytest.mark.slow
def test_help_does_not_import_what_it_does_not_need():
    code = (
        "import sys\nfrom fieldfit.cli import main\nassert main(['--help']) == 0\n"
        "heavy = {'scipy', 'pandas', 'sklearn', 'matplotlib', 'networkx', 'numpy', 'rich.console'}\n"
        "found = sorted(heavy & set(sys.modules)) + [m for m in sys.modules if m.startswith('fieldfit.models')]\n"
        "sys.exit(', '.join(found) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert ran.returncode == 0


@pytest.mark.slow
def test_a_small_fit_imports_neither_scipy_nor_pandas(tmp_path):
    table = tmp_path / "table.csv"
    random = np.random.default_rng(0)
    correlated = random.normal(size=(400, 4)) + 2 * random.normal(size=(400, 1)) > 0  # couplings above 1
    np.savetxt(table, correlated, fmt="%d", delimiter=",")
    code = (
        f"import sys\nfrom fieldfit.cli import main\nassert main(['fit', 'boltzmann', {str(table)!r}]) == 0\n"
        "sys.exit(', '.join(sorted({'scipy', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules))) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert "std. error" in ran.stdout
    assert ran.returncode == 0


@pytest.mark.parametrize("options", [["--rows", "0"], [], ["--json"], ["--out", "fit.ff"]])
def test_standard_errors_are_computed_once_and_only_when_they_are_shown(run, votes, monkeypatch, tmp_path, options):
    calls = []
    original = accuracies._accuracy_of_data

    def counted(fit):
        calls.append(fit)
        return original(fit)

    monkeypatch.setattr(accuracies, "_accuracy_of_data", counted)
    monkeypatch.chdir(tmp_path)
    run("fit", "boltzmann", votes, *options)
    assert len(calls) == (0 if "--rows" in options else 1)


def test_ctrl_c_is_a_sentence_and_130(run, votes, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fieldfit.data.table.read_table", interrupt)
    ran = run("fit", "boltzmann", votes)
    assert ran.code == 130
    assert ran.err == "fieldfit: Interrupted; nothing was written.\n"


def test_ctrl_c_during_a_fit_keeps_the_estimate(run, votes, monkeypatch, tmp_path):
    from fieldfit.cli import progress

    def interrupting(message):
        if message.split()[0] == "1":
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress, "note", interrupting)
    out = tmp_path / "model.ff"
    ran = run("fit", "boltzmann", votes, "--progress", "--out", out, "--method", "lbfgs")
    assert ran.code == 130
    assert ran.err.splitlines()[-1].startswith("fieldfit: Interrupted after 1 iterations: not converged")
    assert "No parameter has a standard error: the fit was interrupted before it converged." in ran.out
    assert not ff.load(out).converged


@pytest.mark.parametrize("again", [False, True])
def test_after_ctrl_c_the_samples_are_asked_no_more(run, votes, monkeypatch, tmp_path, again):
    """They may be on a worker that hangs. Another Ctrl-C, while the fit is shown, changes nothing in what is said."""
    from fieldfit.cli import progress

    def interrupting(message):
        if message.split()[0] == "1":
            os.kill(os.getpid(), signal.SIGINT)

    def unasked(*_, **__):
        raise AssertionError("The samples were asked after the interrupt.")

    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(progress, "note", interrupting)
    monkeypatch.setattr("fieldfit.api.accuracies.robust_moments", unasked)
    monkeypatch.setattr("fieldfit.api.estimation.separated_parameters", unasked)
    if again:
        monkeypatch.setattr("fieldfit.cli.showing.print_fit", pressed)
    out, state = tmp_path / "model.ff", tmp_path / "model.state"
    options = ("--sigma2", "1e4", "--method", "lbfgs", "--tol", "1e-9")
    ran = run("fit", "boltzmann", votes, *options, "--progress", "--out", out, "--checkpoint", state)
    assert ran.code == 130
    assert ran.err.splitlines()[-1] == (
        f"fieldfit: Interrupted after 1 iterations: not converged; {out} has the estimate so far; {state} has the state, "
        "and the same command with --resume continues from there."
    )
    monkeypatch.undo()
    with pytest.raises(DataError, match="without its covariance"):
        ff.load(out).standard_errors()
    assert np.isfinite(ff.load(out, votes).standard_errors()).all()


def test_errors_of_an_interrupted_fit_that_are_known_are_saved(votes, tmp_path):
    fit = ff.fit(ff.BoltzmannMachine(4), votes, "PL1", sigma2=100.0)
    fit = replace(fit, convergence=replace(fit.convergence, interrupted=True))
    errors = fit.standard_errors()
    fit.save(tmp_path / "a.ff")
    assert ff.load(tmp_path / "a.ff").standard_errors().tobytes() == errors.tobytes()


def test_a_field_that_runs_away_is_told_once(run, votes, monkeypatch, tmp_path):
    monkeypatch.setattr("fieldfit.api.estimation.runaway", lambda fit: "The field runs away.")
    out = tmp_path / "away.ff"
    for ran in (run("fit", "boltzmann", votes, "--out", out), run("show", out)):
        assert ran.code == 0
        assert (ran.out + ran.err).count("The field runs away.") == 1


@pytest.mark.slow
def test_a_reader_that_stops_early_is_no_error(saved):
    command = f"{sys.executable} -m fieldfit sample {saved} -n 20000 | head -n 1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert ran.stdout == "été,b,c,d\n"
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 0


def test_an_interrupt_in_the_standard_errors_loses_no_fit(run, votes, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    out = tmp_path / "fit.ff"
    monkeypatch.setattr("fieldfit.api.accuracies.robust_moments", interrupt)
    ran = run("fit", "boltzmann", votes, "--out", out)
    assert ran.code == 130
    assert "in its standard errors" in ran.err
    assert f"{out} has the fit" in ran.err
    monkeypatch.undo()
    fit = ff.load(out)
    assert fit.converged
    with pytest.raises(DataError, match="without its covariance"):
        fit.standard_errors()
    assert np.isfinite(ff.load(out, votes).standard_errors()).all()
    monkeypatch.setattr("fieldfit.api.accuracies.robust_moments", interrupt)
    ran = run("fit", "boltzmann", votes)
    assert (ran.code, "--out was not given" in ran.err) == (130, True)


def test_l1_is_on_couplings_only(run, votes):
    shown = run("fit", "boltzmann", votes, "--l1", "1000", "--json", "--tol", "1e-5").json["parameter"]
    couplings = {entry["name"]: entry["estimate"] for entry in shown if ":" in entry["name"]}
    biases = {entry["name"]: entry["estimate"] for entry in shown if ":" not in entry["name"]}
    assert len(couplings) == 6
    assert set(couplings.values()) == {0.0}
    assert all(value != 0 for value in biases.values())
    tables = run("fit", "potts", votes, "--l1", "1000", "--sigma2", "10", "--json").json["parameter"]
    assert all((entry["estimate"] == 0) == (":" in entry["name"]) for entry in tables)


@pytest.mark.slow
def test_the_shell_completes_models_and_options():
    for words, place, expected in (("fieldfit fit po", 2, "potts"), ("fieldfit fit potts --si", 3, "--sigma2")):
        asked = {**os.environ, "_FIELDFIT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        ran = subprocess.run(
            [sys.executable, "-m", "fieldfit"], env=asked, capture_output=True, text=True, check=False
        )
        assert ran.stdout.split() == [expected]


def test_fit_potts_with_a_penalty_on_tables(run, tmp_path):
    random = np.random.default_rng(0)
    x = random.integers(0, 3, (400, 4))
    x[:, 1] = np.where(random.random(400) < 0.6, x[:, 0], x[:, 1])
    table = tmp_path / "letters.csv"
    np.savetxt(table, x, fmt="%d", delimiter=",", header="a,b,c,d", comments="")
    ran = run("fit", "potts", table, "--group-l1", "30", "--sigma2", "5", "--json")
    assert ran.code == 0, ran.err
    expected = ff.fit(ff.Potts(4, 3), x, group_l1=30.0, sigma2=5.0)
    assert ran.json["objective"] == pytest.approx(expected.objective, rel=1e-6)
    refused = run("fit", "potts", table, "--group-l1", "30", "--l1", "1")
    assert refused.code == 2
    assert "cannot be combined" in refused.err


@pytest.mark.slow
def test_resume_says_where_the_fit_continues(run, votes, tmp_path):
    state = tmp_path / "fit.state"
    options = ("fit", votes, "--checkpoint", state, "--resume", "--rows", 0)
    first = run(*options)
    assert f"{state} does not exist: there is nothing to resume, the work starts from the beginning" in first.err
    done = run("fit", votes, "--json").json["iterations"]
    assert f"resuming: {state} has the state after {done} iterations\n" in run(*options).err
    other = run(*options, "--sigma2", 5)
    assert other.code == 2
    assert "is the checkpoint of another fit" in other.err
    assert "resuming" not in other.err
    two = tmp_path / "two.state"
    staged = ("fit", votes, "--policy", "PL1 >> FL", "--checkpoint", two, "--resume", "--rows", 0)
    run(*staged)
    assert re.search("has the state after [0-9]+ iterations? of the second stage", run(*staged).err)
