"""Alignments of sequences: FASTA, A2M and A3M files, their alphabets, and the weights of sequences that are alike.

In A2M and A3M files lower case letters and dots are insertions: they belong to no column of the alignment and are left
out. A plain FASTA file is read the same way, because upper case letters and dashes are columns in all three.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.arguments import file_path, instance_of, number_from_zero, text_of
from fieldfit.callers import warn_caller
from fieldfit.data.textfile import opened_stream, read_text
from fieldfit.threads import get_threads
from fieldfit.types import DataError, FieldfitWarning, FileFormatError, FloatArray, IntArray
from fieldfit.words import counted

#: Alphabets by name: the first letter is the gap.
ALPHABETS = {"protein": "-ACDEFGHIKLMNPQRSTVWY", "rna": "-ACGU", "dna": "-ACGT"}
_UNKNOWN, _INSERTION = 255, 254


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    r"""Aligned sequences as codes.

    Parameters
    ----------
    names : tuple of str
        Identifiers of the sequences, the first word of each header.
    codes : ndarray of uint8, shape (n, L)
        Places in ``alphabet``.
    alphabet : str
        The letters, the gap first.
    columns : ndarray of shape (L,)
        The column of the file that each column is; 0 is the first one that is no insertion.
    focus : int or None, default: None
        Place of the focus sequence.
    dropped : tuple of str, default: ()
        Names of the sequences that were left out because of letters outside the alphabet.
    positions : ndarray of shape (L,) or None, default: None
        The number of each column's residue in the focus sequence. Insertions count, gaps do not. The first residue has
        the number 1, or START if the identifier is NAME/START-END; a region that ends before it begins, or with another
        number of residues than the sequence, gets a warning. None without a focus sequence.
    width : int or None, default: None
        Number of columns of the file. None: as many as ``columns`` needs.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import proteins
    >>> size = Path("family.fasta").write_text(">a\nACDE\n>b\nAC-E\n>c\nACDX\n")
    >>> alignment = proteins.read_alignment("family.fasta")
    >>> alignment.codes
    array([[1, 2, 3, 4],
           [1, 2, 0, 4]], dtype=uint8)
    """

    names: tuple[str, ...]
    codes: NDArray[np.uint8]
    alphabet: str
    columns: IntArray
    focus: int | None = None
    dropped: tuple[str, ...] = ()
    positions: IntArray | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        _refuse_alphabet(self.alphabet)
        codes = np.asarray(self.codes)
        if codes.ndim != 2 or codes.dtype.kind not in "iu":
            raise DataError(
                f"The codes have the shape {codes.shape} and the type {codes.dtype}; they are integers, a row for each "
                "sequence and a column for each column."
            )
        if codes.size and not (codes.min() >= 0 and codes.max() < len(self.alphabet)):
            raise DataError(
                f"The codes are {codes.min()} to {codes.max()}; they are places in the alphabet "
                f"{self.alphabet!r:.80}, 0 to "
                f"{len(self.alphabet) - 1}."
            )
        if (len(self.names), len(self.columns)) != codes.shape:
            raise DataError(
                f"The alignment has {counted(len(self.names), 'names')} and {counted(len(self.columns), 'numbers')} of "
                f"columns; its codes have the shape {codes.shape}."
            )

    def __repr__(self) -> str:
        parts = (self.n, "sequences"), (len(self.columns), "columns"), (len(self.alphabet), "letters")
        return f"<Alignment: {', '.join(counted(number, noun) for number, noun in parts)}>"

    @property
    def n(self) -> int:
        """Number of sequences."""
        return len(self.codes)

    @property
    def length(self) -> int:
        """Number of columns, L."""
        return int(self.codes.shape[1])

    @property
    def numbers(self) -> IntArray:
        """The number of each column on pictures (L,): of its residue in the focus sequence, else of the column."""
        return self.columns if self.positions is None else self.positions

    @property
    def axis(self) -> str:
        """What `numbers` counts."""
        return "column" if self.focus is None or self.positions is None else f"residue of {self.names[self.focus]}"

    def sequence(self, place: int) -> str:
        r"""Return a sequence as text, with gaps.

        Parameters
        ----------
        place : int
            Its place in the alignment.

        Returns
        -------
        str

        Examples
        --------
        >>> from pathlib import Path
        >>> from fieldfit import proteins
        >>> size = Path("family.fasta").write_text(">a\nACDE\n>b\nAC-E\n>c\nACDX\n")
        >>> alignment = proteins.read_alignment("family.fasta")
        >>> alignment.sequence(1)
        'AC-E'
        """
        return "".join(self.alphabet[code] for code in self.codes[place])


def is_alignment(path: str | os.PathLike[str]) -> bool:
    """Whether a file, plain or gzipped, begins as FASTA, A2M and A3M files do."""
    with opened_stream(path) as stream:
        return _without_comments(stream.read(4096).decode("latin-1")).startswith(">")


def read_alignment(
    path: str | os.PathLike[str],
    *,
    alphabet: str = "protein",
    focus: str | None = None,
    most_gaps: float = 1.0,
) -> Alignment:
    r"""Read an alignment from a FASTA, A2M or A3M file, plain or gzipped.

    Lines before the first sequence that begin with ``#`` (``#A3M#``) are skipped.

    Parameters
    ----------
    path : str or path
        The file.
    alphabet : str, default "protein"
        "protein", "rna", "dna", or the upper case letters themselves after the character of the gap.
    focus : str, optional
        Identifier of a sequence, with or without its region: ``"RASH"`` is also ``RASH/5-166``. Only the columns where it
        has a letter are kept. Refused if sequences that differ have this identifier.
    most_gaps : float, default 1.0
        Columns with a larger share of gaps are left out.

    Returns
    -------
    Alignment
        Sequences with letters outside the alphabet (X, B, Z, …) are left out and listed in ``dropped``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import proteins
    >>> size = Path("family.fasta").write_text(">a\nACDE\n>b\nAC-E\n>c\nACDX\n")
    >>> alignment = proteins.read_alignment("family.fasta")
    >>> alignment, alignment.dropped
    (<Alignment: 2 sequences, 4 columns, 21 letters>, ('c',))
    """
    shown = file_path(path)
    letters = _letters(alphabet)
    most_gaps = number_from_zero(most_gaps, "most_gaps")
    focus = None if focus is None else text_of(focus, "focus")
    names, sequences = _records(read_text(path), shown)
    table = np.full(256, _UNKNOWN, dtype=np.uint8)
    for code in range(ord("a"), ord("z") + 1):
        table[code] = _INSERTION
    table[ord(".")] = _INSERTION
    for code, letter in enumerate(letters):
        table[ord(letter)] = code
    if letters == ALPHABETS["rna"]:
        table[ord("T")] = letters.index("U")
    if letters == ALPHABETS["dna"]:
        table[ord("U")] = letters.index("T")
    rows: list[NDArray[np.uint8]] = []
    kept: list[str] = []
    dropped: list[str] = []
    first = ""
    for name, sequence in zip(names, sequences, strict=True):
        codes = table[np.frombuffer(sequence, dtype=np.uint8)]
        codes = codes[codes != _INSERTION]
        if not first:
            first, length = name, len(codes)
            if length == 0:
                raise FileFormatError(
                    f"The sequence {name!r:.80} of {shown} has no column: it has no upper case letter."
                )
        if len(codes) != length:
            raise FileFormatError(
                f"The sequence {name!r:.80} of {shown} has {len(codes)} columns, and {first!r:.80} has "
                f"{length} (upper case "
                f"letters and dashes count, lower case letters and dots do not). {_how_to_align(sequences)}"
            )
        if (codes == _UNKNOWN).any():
            dropped.append(name)
        else:
            rows.append(codes)
            kept.append(name)
    if not rows:
        raise FileFormatError(
            f"Every sequence of {shown} has letters outside the alphabet {letters!r:.80}, such as "
            f"{_outside(sequences[0], table)!r:.80} in {first!r:.80}. {_other_alphabet(sequences, letters)}"
        )
    matrix = np.stack(rows)
    if letters == ALPHABETS["protein"]:
        _refuse_rna(sequences, dropped, shown)
        _warn_of_nucleotides(matrix, letters, shown)
    columns = np.arange(matrix.shape[1])
    width = len(columns)
    place, positions = None, None
    if focus is not None:
        place, text = _focus(focus, names, sequences, kept, dropped, shown)
        positions = _positions(kept[place], text, table)
        columns = columns[matrix[place] != 0]
    columns = columns[(matrix[:, columns] == 0).mean(axis=0) <= most_gaps]
    if len(columns) < 2:
        raise DataError(
            f"{counted(len(columns), 'columns')} of {shown} {'is' if len(columns) == 1 else 'are'} left; a model of "
            "couplings needs at least two."
        )
    codes = np.ascontiguousarray(matrix[:, columns])
    positions = None if positions is None else positions[columns]
    return Alignment(tuple(kept), codes, letters, columns, place, tuple(dropped), positions, width)


def _focus(
    focus: str, names: list[str], sequences: list[bytes], kept: list[str], dropped: list[str], shown: str
) -> tuple[int, bytes]:
    """The place of the focus sequence among those that were kept, and its text."""
    wanted = identifiers_of(focus, names)
    texts = {sequence for name, sequence in zip(names, sequences, strict=True) if name in wanted}
    if len(wanted) > 1 or len(texts) > 1:
        which = f": {', '.join(map(repr, sorted(wanted)[:3]))}" if len(wanted) > 1 else ""
        raise DataError(
            f"{shown} has {max(len(wanted), len(texts))} different sequences with the name {focus!r:.80}{which}. Give the "
            "focus sequence a name of its own."
        )
    name = next(iter(wanted), None)
    if name not in kept:
        why = "has letters outside the alphabet" if name in dropped else "is not there"
        raise DataError(f"The focus sequence {focus!r:.80} {why} in {shown}; the first one is {kept[0]!r:.80}.")
    return kept.index(name), texts.pop()


def identifiers_of(wanted: str, names: Sequence[str]) -> set[str]:
    """The identifiers that a name stands for: itself, or NAME/START-END if there is none without a region."""
    return {wanted} if wanted in names else {name for name in names if name.partition("/")[0] == wanted}


def _positions(name: str, text: bytes, table: NDArray[np.uint8]) -> IntArray:
    """The number of the residue in each column of a sequence NAME/START-END; a gap has that of the residue before it."""
    characters = np.frombuffer(text, dtype=np.uint8)
    codes = table[characters]
    residues = np.cumsum((codes != 0) & (characters != ord(".")), dtype=np.int64)
    numbers: IntArray = residues[codes != _INSERTION] + (_start(name, int(residues[-1])) - 1)
    return numbers


def _start(name: str, residues: int) -> int:
    """START of NAME/START-END, else 1. Warns of a region that does not have as many residues as the sequence."""
    region = re.fullmatch(r".*/(\d{1,15})-(\d{1,15})", name)
    if region is None:
        return 1
    start, end = int(region[1]), int(region[2])
    if end < start:
        warn_caller(
            f"The region of {name!r} ends before it begins, as on the other strand. Its residues have the numbers 1 to "
            f"{residues}.",
            FieldfitWarning,
        )
        return 1
    if end - start + 1 != residues:
        warn_caller(
            f"The region of {name!r} has {counted(end - start + 1, 'residues')}, and the sequence has "
            f"{residues:,}. Its residues are numbered from {start}: if the alignment lacks some of them, such as "
            "insertions, those after them have wrong numbers.",
            FieldfitWarning,
        )
    return start


def _refuse_rna(sequences: list[bytes], dropped: list[str], shown: str) -> None:
    """Refuse RNA that was read as proteins: the sequences without U would be left."""
    used = set[str]().union(*map(_columns_of, sequences)) - {"-"}
    if "U" in used and used <= set("ACGTUN"):
        raise DataError(
            f"{shown} has the letters {', '.join(sorted(used))} only, so that it is RNA, and the alphabet is 'protein', "
            f"which has no U: {len(dropped):,} of {len(sequences):,} sequences would be left out. Give the alphabet 'rna'."
        )


def _warn_of_nucleotides(matrix: NDArray[np.uint8], letters: str, shown: str) -> None:
    """Warn of an alignment of proteins that has the letters of nucleotides only."""
    used = {letters[code] for code in np.unique(matrix).tolist()} - {"-"}
    if set("ACG") <= used <= set("ACGTN"):
        warn_caller(
            f"{shown} was read as proteins and has the letters {', '.join(sorted(used))} only. Is it DNA or RNA? Give the "
            "alphabet 'dna' or 'rna'.",
            FieldfitWarning,
        )


def _how_to_align(sequences: list[bytes]) -> str:
    """What to do about sequences with different numbers of columns."""
    if len(set(map(len, sequences))) == 1:
        return (
            f"All lines have {len(sequences[0])} characters: if dots are gaps here, write them as dashes, and lower case "
            "letters that are columns as upper case."
        )
    return "Align the sequences, or write insertions in lower case."


def _outside(sequence: bytes, table: NDArray[np.uint8]) -> str:
    """The first letter of a sequence that is outside the alphabet."""
    return next(chr(code) for code in sequence if table[code] == _UNKNOWN)


def _columns_of(sequence: bytes) -> set[str]:
    """The characters in the columns of a sequence."""
    return {character for character in sequence.decode() if not character.islower()} - {"."}


def _other_alphabet(sequences: list[bytes], given: str) -> str:
    """Which other alphabet would do, if one of the known ones does for the first sequence; the smallest of them."""
    used = _columns_of(sequences[0])
    for name, letters in sorted(ALPHABETS.items(), key=lambda item: len(item[1])):
        if used <= set(letters) and letters != given:
            return f"Is it {name.upper() if name != 'protein' else 'a protein'}? Give the alphabet {name!r}."
    return (
        "Is it an alignment of another type? Give its letters as the alphabet, the gap first, or remove such letters."
    )


def sequence_weights(alignment: Alignment, identity: float = 0.8) -> FloatArray:
    r"""Weights of sequences: 1 / (number of sequences that are equal in at least ``identity`` of the columns).

    Parameters
    ----------
    alignment : Alignment
        The sequences; gaps count as a letter.
    identity : float, default 0.8
        Share of equal columns from which on two sequences are alike, above 0 and at most 1.

    Returns
    -------
    ndarray of shape (n,)
        Their sum is the effective number of sequences.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import proteins
    >>> size = Path("family.fasta").write_text(">a\nACDE\n>b\nAC-E\n>c\nACDX\n")
    >>> alignment = proteins.read_alignment("family.fasta")
    >>> proteins.sequence_weights(alignment, 0.7)
    array([0.5, 0.5])
    """
    if not isinstance(identity, int | float | np.number) or not 0 < identity <= 1:
        raise DataError(f"The identity threshold is {identity!r:.80}; it must be above 0 and at most 1.")
    instance_of(alignment, Alignment, "sequence_weights needs an Alignment")
    near = np.empty(alignment.n, dtype=np.int64)
    # A product such as 0.8 · 50 may come out a little above the whole number that it is.
    least = math.ceil(identity * alignment.length - 1e-9)
    _kernels.count_neighbours(alignment.codes, least, near, get_threads())
    return 1.0 / near


def _letters(alphabet: str) -> str:
    instance_of(alphabet, str, "The alphabet is a text")
    letters = ALPHABETS.get(alphabet.lower(), alphabet)
    _refuse_alphabet(letters)
    if any(letter.islower() for letter in letters):
        raise DataError(
            f"The alphabet {alphabet!r:.80} has lower case letters, which are insertions in alignments; write "
            "the letters of "
            "columns in upper case."
        )
    return letters


def _refuse_alphabet(letters: str) -> None:
    """Refuse an alphabet that is not a gap followed by different letters."""
    instance_of(letters, str, "The alphabet is a text")
    if len(letters) < 2 or len(set(letters)) != len(letters) or any(ord(letter) > 127 for letter in letters):
        raise DataError(
            f"The alphabet is {letters!r:.80}; use {', '.join(map(repr, ALPHABETS))}, or different letters "
            "with the gap first."
        )
    if letters[0].isalnum():
        raise DataError(
            f"The alphabet {letters!r:.80} begins with {letters[0]!r:.80}. Its first character is the gap, which scores of "
            f"contacts, mutations and lists of couplings leave out: use {'-' + letters.replace('-', '')!r}, also for an "
            "alignment without gaps."
        )


def _without_comments(text: str) -> str:
    """The text from its first line on that is not empty and does not begin with '#', as A3M files may begin."""
    text = text.lstrip()
    while text.startswith("#"):
        text = text.partition("\n")[2].lstrip()
    return text


def _records(text: str, shown: str) -> tuple[list[str], list[bytes]]:
    """Names and sequences, without white space."""
    if not text.strip():
        raise FileFormatError(f"{shown} is empty. Give a FASTA, A2M or A3M file.")
    body = _without_comments(text)
    if not body.startswith(">"):
        if text.lstrip().startswith("# STOCKHOLM"):
            raise FileFormatError(
                f"{shown} is a Stockholm file. Convert it first, with HMMER's `esl-reformat afa {shown} > family.fasta`."
            )
        raise FileFormatError(
            f"{shown} is not a FASTA, A2M or A3M file: it does not begin with '>'. Convert it first."
        )
    names, sequences = [], []
    for number, record in enumerate(body[1:].split("\n>"), start=1):
        header, _, letters = record.partition("\n")
        words = header.split()
        if not words:
            raise FileFormatError(f"Sequence {number} of {shown} has no identifier after '>'.")
        sequence = "".join(letters.split())
        if not sequence:
            raise FileFormatError(f"The sequence {words[0]!r:.80} of {shown} is empty; the file may be truncated.")
        if not sequence.isascii():
            raise FileFormatError(f"The sequence {words[0]!r:.80} of {shown} has characters that are not letters.")
        names.append(words[0])
        sequences.append(sequence.encode())
    return names, sequences
