"""Tables in terminals: names stay on one line, and are shortened only where they must be."""

import re

import numpy as np
import pytest

from fieldfit.cli.output import print_table
from fieldfit.cli.widths import column_widths, columns_that_fit, shorten_words
from fieldfit.report.table import PlainTable

JUSTICES = ["Rehnquist", "Stevens", "O.Connor", "Scalia", "Kennedy"]


@pytest.fixture
def court(tmp_path):
    votes = np.random.default_rng(0).integers(0, 2, (200, 5))
    path = tmp_path / "court.csv"
    np.savetxt(path, votes, fmt="%d", delimiter=",", header=",".join(JUSTICES), comments="")
    return path


@pytest.mark.parametrize("width", [45, 50, 60, 80, 120])
def test_names_of_parameters_stay_on_one_line(court, run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    printed = run("fit", "boltzmann", court).out.splitlines()
    lines = [line for line in printed if re.search(r"-?\d\.\d{4}", line) and ":" in line.split()[0]]
    assert len(lines) == 10
    assert max(map(len, lines)) <= width
    names = {line.split()[0] for line in lines}
    assert "Rehnquist:O.Connor" in names
    assert not any("…" in name for name in names)


def test_optional_columns_are_left_out_where_that_keeps_names_whole_or_readable():
    def shown(name, width):
        return columns_that_fit([name, 8, 8, 6, 7, 8, 8], [True] + 6 * [False], (2, 1, 1), width)

    assert [shown(18, width) for width in (80, 60, 54, 40)] == [7, 5, 4, 3]
    assert [shown(18, width) for width in (30, 10)] == [3, 3]  # numbers are never cut
    assert [shown(90, width) for width in (80, 60, 45)] == [7, 5, 3]
    assert columns_that_fit([18, 8], [True, False], (), 10) == 2


@pytest.mark.parametrize("width", [45, 60, 80])
def test_long_names_leave_the_table_within_a_narrow_terminal(tmp_path, run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    names = [f"Ministry_of_Agriculture_and_Fisheries_{year}" for year in range(2019, 2022)]
    path = tmp_path / "long.csv"
    votes = np.random.default_rng(0).integers(0, 2, (200, 3))
    np.savetxt(path, votes, fmt="%d", delimiter=",", header=",".join(names), comments="")
    lines = [line for line in run("fit", "boltzmann", path).out.splitlines() if line.startswith("Mini")]
    assert len(lines) == 6
    assert max(map(len, lines)) <= width
    assert {line.split()[0][-4:] for line in lines} == {"2019", "2020", "2021"}
    assert min(len(line.split()[0]) for line in lines) >= 20


def test_a_narrow_terminal_names_the_columns_that_it_leaves_out(court, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    printed = run("fit", "boltzmann", court).out
    assert "Columns left out in this narrow terminal: 95% from, to (see --json)." in " ".join(printed.split())
    monkeypatch.setenv("COLUMNS", "80")
    assert "left out" not in run("fit", "boltzmann", court).out


@pytest.mark.parametrize("width", [80, 120])
def test_only_what_cannot_fit_is_shortened_in_its_middle(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    names = [f"{'first' * 12}:{k}:{'second' * 12}" for k in range(3)]
    rows = tuple((name, 1.0, 2.0, 3.0) for name in (*names, "short"))
    print_table(PlainTable("", ("parameter", "a", "b", "c"), rows, "", ("", ".4f", ".4f", ".4f")))
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) == width
    lines = [line for line in printed if line.startswith("first")]
    assert len(lines) == 3
    for line in lines:
        name = line.split()[0]
        assert re.fullmatch(r"first\w*…\w*second", name)
        assert line.split()[1:] == ["1.0000", "2.0000", "3.0000"]
    assert any(line.startswith("short ") for line in printed)


def test_numbers_are_whole_in_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    columns = ("parameter", "estimate", "std_error", "z", "p", "lower", "upper")
    numbers = (-12.3456, 10.1234, -101.2345, 1.5e-12, -21.0001, 31.4567)
    rows = (("Rehnquist:O.Connor", *numbers),)
    print_table(PlainTable("", columns, rows, "", ("", ".4f", ".4f", ".4f", ".1e", ".4f", ".4f")))
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.split()[1:] == ["-12.3456", "10.1234", "-101.2345", "1.5e-12", "-21.0001", "31.4567"]


def test_sentences_fold_at_spaces_and_the_widest_column_gives_way(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = (("name", "a sentence that is too long for a line " * 3, 12345),)
    print_table(PlainTable("", ("who", "what", "count"), rows))
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert "12,345" in printed


def test_widths():
    assert column_widths([10, 5], [True, False], 80) == [10, 5]
    assert column_widths([100, 5], [True, False], 80) == [73, 5]
    assert column_widths([10, 100, 5], [True, True, False], 80) == [10, 61, 5]
    assert column_widths([100, 70], [True, False], 60) == [8, 70]
    assert shorten_words("abcdefghij kl", 6) == "abc…ij kl"
    assert shorten_words("abcdefghij", 7, "~") == "abc~hij"
