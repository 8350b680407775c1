"""Alignments of sequences: FASTA, A2M and A3M files, their alphabets, and the weights of sequences that are alike.

In A2M and A3M files lower case letters and dots are insertions: they belong to no column of the alignment and are left
out. A plain FASTA file is read the same way, because upper case letters and dashes are columns in all three.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.arguments import file_path, instance_of
from fieldfit.data.textfile import read_text
from fieldfit.threads import get_threads
from fieldfit.types import DataError, FileFormatError, FloatArray, IntArray
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


def read_alignment(
    path: str | os.PathLike[str],
    *,
    alphabet: str = "protein",
    focus: str | None = None,
    most_gaps: float = 1.0,
) -> Alignment:
    r"""Read an alignment from a FASTA, A2M or A3M file, plain or gzipped.

    Parameters
    ----------
    path : str or path
        The file.
    alphabet : str, default "protein"
        "protein", "rna", "dna", or the letters themselves with the gap first.
    focus : str, optional
        Identifier of a sequence. Only the columns where it has a letter are kept. Refused if sequences that differ
        have this identifier.
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
                raise FileFormatError(f"The sequence {name!r} of {shown} has no column: it has no upper case letter.")
        if len(codes) != length:
            raise FileFormatError(
                f"The sequence {name!r} of {shown} has {len(codes)} columns, and {first!r} has {length} (upper case "
                "letters and dashes count). Align the sequences, or write insertions in lower case."
            )
        if (codes == _UNKNOWN).any():
            dropped.append(name)
        else:
            rows.append(codes)
            kept.append(name)
    if not rows:
        raise FileFormatError(
            f"Every sequence of {shown} has letters outside the alphabet {letters!r}. Is it an alignment of another type?"
        )
    matrix = np.stack(rows)
    columns = np.arange(matrix.shape[1])
    place = None
    if focus is not None:
        if focus not in kept:
            why = "has letters outside the alphabet" if focus in dropped else "is not there"
            raise DataError(f"The focus sequence {focus!r} {why} in {shown}; the first one is {kept[0]!r}.")
        matching = {sequence for name, sequence in zip(names, sequences, strict=True) if name == focus}
        if len(matching) > 1:
            raise DataError(
                f"{shown} has {len(matching)} different sequences with the name {focus!r}. Give the focus sequence a "
                "name of its own."
            )
        place = kept.index(focus)
        columns = columns[matrix[place] != 0]
    columns = columns[(matrix[:, columns] == 0).mean(axis=0) <= most_gaps]
    if len(columns) < 2:
        raise DataError(f"{len(columns)} columns of {shown} are left; a model of couplings needs at least two.")
    return Alignment(tuple(kept), np.ascontiguousarray(matrix[:, columns]), letters, columns, place, tuple(dropped))


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
    if not 0 < identity <= 1:
        raise DataError(f"The identity threshold is {identity}; it must be above 0 and at most 1.")
    instance_of(alignment, Alignment, "sequence_weights needs an Alignment")
    near = np.empty(alignment.n, dtype=np.int64)
    # A product such as 0.8 · 50 may come out a little above the whole number that it is.
    least = math.ceil(identity * alignment.length - 1e-9)
    _kernels.count_neighbours(alignment.codes, least, near, get_threads())
    return 1.0 / near


def _letters(alphabet: str) -> str:
    letters = ALPHABETS.get(alphabet.lower(), alphabet)
    if len(letters) < 2 or len(set(letters)) != len(letters) or any(ord(letter) > 127 for letter in letters):
        raise DataError(
            f"The alphabet is {alphabet!r}; use {', '.join(map(repr, ALPHABETS))}, or different letters with the gap first."
        )
    return letters


def _records(text: str, shown: str) -> tuple[list[str], list[bytes]]:
    """Names and sequences, without white space."""
    if not text.strip():
        raise FileFormatError(f"{shown} is empty. Give a FASTA, A2M or A3M file.")
    if not text.lstrip().startswith(">"):
        raise FileFormatError(
            f"{shown} is not a FASTA, A2M or A3M file: it does not begin with '>'. Convert it first."
        )
    names, sequences = [], []
    for number, record in enumerate(text.lstrip()[1:].split("\n>"), start=1):
        header, _, body = record.partition("\n")
        words = header.split()
        if not words:
            raise FileFormatError(f"Sequence {number} of {shown} has no identifier after '>'.")
        sequence = "".join(body.split())
        if not sequence:
            raise FileFormatError(f"The sequence {words[0]!r} of {shown} is empty; the file may be truncated.")
        if not sequence.isascii():
            raise FileFormatError(f"The sequence {words[0]!r} of {shown} has characters that are not letters.")
        names.append(words[0])
        sequences.append(sequence.encode())
    return names, sequences
