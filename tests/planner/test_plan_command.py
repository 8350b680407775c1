"""`fieldfit plan` on the command line."""

import json

import numpy as np
import pytest

from fieldfit.cli import main


@pytest.fixture
def data(tmp_path, five):
    path = tmp_path / "data.csv"
    np.savetxt(path, five[2], fmt="%d", delimiter=",", header="a,b,c,d,e", comments="")
    return path


@pytest.mark.slow
def test_table_fits_the_terminal_and_files_are_written(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["plan", str(data), "--flops", "9e6", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert max(map(len, printed.out.splitlines())) <= 80
    assert "→" in printed.out
    assert "Fit '" in printed.out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "plan.csv",
        "plan.html",
        "plan.png",
        "plan.svg",
    ]


def test_json_has_the_table(data, capsys):
    assert main(["plan", str(data), "--flops", "9e6", "-p", "PL1", "-p", "Partition(2)", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {own["policy"] for own in document["policies"]} == {"PL1", "Partition(2)"}
    assert document["best"] in ("PL1", "Partition(2)")


@pytest.mark.slow
def test_potts_and_refusals(data, capsys):
    assert main(["plan", "potts", str(data), "--edges", "grid:1x5", "-p", "PL1", "-p", "FL", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] == "FL"
    assert main(["plan", "nothing", str(data)]) == 2
    assert "No such command 'nothing'" in capsys.readouterr().err
    assert main(["plan", str(data), "--budget", "soon"]) == 2
    assert "10s" in capsys.readouterr().err


@pytest.fixture
def sentences(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(60):
        for _ in range(int(rng.integers(2, 8))):
            word = int(rng.integers(6))
            lines.append(f"w{word} t{word % 3} {'ABC'[(word + int(rng.integers(2))) % 3]}")
        lines.append("")
    path = tmp_path / "train.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_a_tagger_is_planned_from_a_file_of_sentences(sentences, capsys):
    command = ["plan", "crf", str(sentences), "--sigma2", "10", "-p", "PL1", "-p", "FL", "--budget", "60s", "--json"]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert {own["policy"] for own in document["policies"]} == {"PL1", "FL"}
    assert document["reference"] == "FL"


@pytest.mark.slow
def test_a_file_in_the_place_of_the_model_means_boltzmann(data, capsys):
    shown = []
    for command in (["boltzmann", str(data)], [str(data)], ["-p", "PL1", str(data)]):
        arguments = [*command, "--flops", "9e6", "-p", "PL1", "-p", "FL", "--json"]
        assert main(["plan", *arguments]) == 0
        shown.append(json.loads(capsys.readouterr().out)["best"])
    assert len(set(shown)) == 1
    assert main(["fit", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "boltzmann"


@pytest.mark.slow
def test_the_models_of_files_are_planned(data, sentences, tmp_path, capsys):
    network = tmp_path / "chain.uai"
    table = "4\n1 1 1 1\n"
    network.write_text("MARKOV\n5\n2 2 2 2 2\n4\n" + "".join(f"2 {v} {v + 1}\n" for v in range(4)) + 4 * table)
    chosen = ["--sigma2", "5", "-p", "PL1", "-p", "FL", "--flops", "1e9", "--json"]
    assert main(["plan", "mrf", str(network), str(data), *chosen]) == 0
    assert main(["fit", "mrf", str(network), str(data), "--sigma2", "5", "--out", str(tmp_path / "f.ff")]) == 0
    capsys.readouterr()
    assert main(["plan", "saved", str(tmp_path / "f.ff"), str(data), *chosen]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {own["policy"] for own in document["policies"]} == {"PL1", "FL"}
    assert (
        main(["plan", "boltzmann-chain", str(sentences), "-p", "PL1", "-p", "FL", "--budget", "60s", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["reference"] == "FL"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["crf"], "Missing argument 'FILE'"), (["a.csv", "b.csv"], "(b.csv)")],
)
def test_what_is_planned_must_be_one_file(arguments, text, capsys):
    assert main(["plan", *arguments]) == 2
    assert text in capsys.readouterr().err
