"""Alignment files in three formats, what is refused, and sequence weights against a double loop."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from fieldfit.data.alignments import ALPHABETS, Alignment, is_alignment, read_alignment, sequence_weights
from fieldfit.threads import use_threads
from fieldfit.types import DataError, FieldfitError, FieldfitWarning, FileFormatError

A2M = ">one/1-5 something\nACD.ef\nGH\n>two\nAC-..cGY\n>three\n-XD...GH\n"
A3M = ">one/1-5\nACDefGH\n>two\nAC-cGY\n>three\n-XDGH\n"


@pytest.mark.parametrize("text", [A2M, A3M])
def test_formats_agree(tmp_path: Path, text: str) -> None:
    path = tmp_path / "family.txt"
    path.write_text(text)
    found = read_alignment(path)
    assert found.names == ("one/1-5", "two")
    assert found.dropped == ("three",)
    assert [found.sequence(i) for i in range(found.n)] == ["ACDGH", "AC-GY"]
    assert found.alphabet == ALPHABETS["protein"]
    assert found.codes.dtype == np.uint8
    packed = tmp_path / "family.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    np.testing.assert_array_equal(read_alignment(packed).codes, found.codes)


def test_focus_and_gaps(tmp_path: Path) -> None:
    path = tmp_path / "f.fasta"
    path.write_text(">a\nAC-GH\r\n>b\nA-DG-\r\n>c\nA--GH\r\n")
    focus = read_alignment(path, focus="b")
    assert (focus.focus, focus.columns.tolist(), focus.sequence(0)) == (1, [0, 2, 3], "A-G")
    assert read_alignment(path, most_gaps=0.4).columns.tolist() == [0, 3, 4]


def test_a_focus_must_be_one_sequence(tmp_path: Path) -> None:
    path = tmp_path / "f.fasta"
    path.write_text(">a\nAC-GH\n>b\nA-DG-\n>b\nAC-GH\n>c\nAC-GH\n>c\nAC-GH\n")
    with pytest.raises(DataError, match="2 different sequences with the name 'b'"):
        read_alignment(path, focus="b")
    assert read_alignment(path, focus="c").focus == 3
    assert read_alignment(path, focus="a").n == 5


def test_residues_of_the_focus_sequence_have_their_numbers(tmp_path: Path) -> None:
    """Columns 3 and 4 of the text are insertions (lower case), and column 6 is a gap of the focus sequence."""
    path = tmp_path / "f.a2m"
    path.write_text(">s/1-9\nACDefGHIK\n>RASH/51-58 a protein\nACDefG-IK\n>RASH2/1-9\nACD.eGH-K\n")
    for name in ("RASH", "RASH/51-58"):
        found = read_alignment(path, focus=name)
        assert found.positions is not None
        assert (found.focus, found.columns.tolist()) == (1, [0, 1, 2, 3, 5, 6])
        assert found.positions.tolist() == [51, 52, 53, 56, 57, 58]
        assert found.width == 7
    without = read_alignment(path)
    assert (without.positions, without.width) == (None, 7)
    path.write_text(">a\nAC-GH\n>b\nACDG-\n")
    plain = read_alignment(path, focus="a").positions
    assert plain is not None
    assert plain.tolist() == [1, 2, 3, 4]
    path.write_text(">a/1-4\nAC-GH\n>a/7-9\nACDG-\n")
    with pytest.raises(DataError, match=r"2 different sequences with the name 'a': 'a/1-4', 'a/7-9'\."):
        read_alignment(path, focus="a")


def test_nucleotides_read_as_proteins_get_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "f.fasta"
    path.write_text(">a\nACGTN\n>b\nAC-TT\n")
    with pytest.warns(
        FieldfitWarning, match=r"read as proteins and has the letters A, C, G, N, T only.*'dna' or 'rna'"
    ):
        read_alignment(path)
    assert read_alignment(path, alphabet="dna").dropped == ("a",)
    path.write_text(">a\nACGTK\n>b\nAC-TT\n")  # K is no nucleotide
    assert read_alignment(path).n == 2


def test_lines_before_the_first_sequence_may_be_comments(tmp_path: Path) -> None:
    path = tmp_path / "f.a3m"
    path.write_text("\n#A3M#\n# 4\t1\n\n>a\nACDE\n>b\nAC-E\n")
    assert is_alignment(path)
    assert read_alignment(path).sequence(1) == "AC-E"
    path.write_text(">a\nACDE\n#b\nAC-E\n")  # no comment between sequences
    with pytest.raises(FileFormatError, match=r"outside the alphabet .* such as '#' in 'a'"):
        read_alignment(path)


def test_rna_reads_thymine_as_uracil(tmp_path: Path) -> None:
    path = tmp_path / "r.fa"
    path.write_text(">a\nACGT-\n>b\nACGUU\n")
    found = read_alignment(path, alphabet="rna")
    assert [found.sequence(i) for i in (0, 1)] == ["ACGU-", "ACGUU"]
    assert read_alignment(path, alphabet="-ACGTU").n == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# STOCKHOLM 1.0\na ACD\n//\n", "is a Stockholm file.*esl-reformat afa"),
        ("#A3M#\n", "does not begin with '>'"),
        ("", "is empty"),
        (">a\nACD\n>b\nAC\n", "'b' of .* has 2 columns, and 'a' has 3"),
        (">a\nACD\n>b\n", "'b' of .* is empty"),
        (">\nACD\n", "Sequence 1 of .* has no identifier"),
        (">a\nacd\n", "has no upper case letter"),
        (">a\nXXX\n", "outside the alphabet .* such as 'X' in 'a'"),
        (
            ">a\nACGA\n>b\nACGU\n>c\nACUU\n",
            "letters A, C, G, U only.* 2 of 3 sequences would be left out.*alphabet 'rna'",
        ),
        (">a\nACGU\n", "Is it RNA\\? Give the alphabet 'rna'"),
        (">a\nACD\n>b\nA.C\n", "All lines have 3 characters: if dots are gaps here, write them as dashes"),
        (">a\nA\n", "1 column of .* is left; .* at least two"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.fasta"
    path.write_text(text)
    with pytest.raises((FileFormatError, DataError), match=message):
        read_alignment(path)


def test_bad_arguments_get_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "good.fasta"
    path.write_text(">a\nACD\n>b\nACX\n")
    with pytest.raises(DataError, match="'z' is not there"):
        read_alignment(path, focus="z")
    with pytest.raises(DataError, match="'b' has letters outside"):
        read_alignment(path, focus="b")
    with pytest.raises(DataError, match="alphabet is 'AA'"):
        read_alignment(path, alphabet="AA")
    with pytest.raises(DataError, match=r"'ACDX' begins with 'A'\. Its first character is the gap.*use '-ACDX'"):
        read_alignment(path, alphabet="ACDX")
    with pytest.raises(DataError, match="'AC' begins with 'A'"):
        Alignment(("a",), np.zeros((1, 2), dtype=np.uint8), "AC", np.arange(2))
    for codes, names, message in (
        (np.array([[0, 9]]), "a", "codes are 0 to 9; they are places in the alphabet '-AC', 0 to 2"),
        (np.array([[0, -1]]), "a", "codes are -1 to 0"),
        (np.array([[0.0, 1.0]]), "a", "the type float64"),
        (np.array([0, 1]), "a", r"the shape \(2,\)"),
        (np.array([[0, 1]]), "ab", r"2 names and 2 numbers of columns; its codes have the shape \(1, 2\)"),
    ):
        with pytest.raises(DataError, match=message):
            Alignment(tuple(names), codes, "-AC", np.arange(2))
    with pytest.raises(FieldfitError, match="The alphabet is a text; got 5"):
        read_alignment(path, alphabet=5)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'-acdx' has lower case letters, which are insertions"):
        read_alignment(path, alphabet="-acdx")
    with pytest.raises(FileFormatError, match=r"such as 'A' in 'a'\. Is it a protein\?"):
        read_alignment(path, alphabet="-GU")
    path.write_text(">a\nACGT\n")
    with pytest.raises(FileFormatError, match=r"such as 'C' in 'a'\. Is it DNA\?"):
        read_alignment(path, alphabet="-AU")
    path.write_text(">a\nACD\n>b\nACX\n")
    with pytest.raises(DataError, match="threshold is 0"):
        sequence_weights(read_alignment(path), 0.0)


@pytest.mark.parametrize(("n", "length"), [(70, 33), (150, 64), (5, 300), (3, 9000)])
@pytest.mark.parametrize("identity", [0.5, 0.8, 1.0])
def test_weights_against_a_double_loop(n: int, length: int, identity: float) -> None:
    random = np.random.default_rng(n)
    codes = random.integers(0, 3, (n, length)).astype(np.uint8)
    codes[1] = codes[0]
    codes[2] = np.where(random.random(length) < 0.85, codes[0], 4)
    family = Alignment(tuple(map(str, range(n))), codes, ALPHABETS["protein"], np.arange(length))
    same = (codes[:, None] == codes[None]).sum(axis=2)
    expected = 1.0 / (same >= identity * length - 1e-9).sum(axis=1)
    for threads in (1, 2):
        with use_threads(threads):
            np.testing.assert_array_equal(sequence_weights(family, identity), expected)
