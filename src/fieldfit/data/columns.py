r"""CoNLL-style text: one token per line, columns separated by spaces or tabs, a blank line after each sentence.

    Confidence NN B-NP
    in         IN B-PP

Each column is kept as codes into the list of its different values, so that features are made from integers and
a string is touched once for each different value, not once for each token.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from fieldfit.arguments import instance_of, is_list, text_of
from fieldfit.data.textfile import read_text
from fieldfit.types import DataError, Int32Array, IntArray
from fieldfit.words import counted

Text = TypeVar("Text", str, bytes)


@dataclass(frozen=True, eq=False)
class ColumnText:
    r"""Sentences of tokens in columns.

    Parameters
    ----------
    offsets
        (n_sentences + 1,) int64: where each sentence's tokens start.
    codes
        For each column (n_tokens,) int32: the value is ``values[column][code]``.
    values
        For each column its different values, in order of appearance.
    lines
        (n_tokens,) line of each token in its file, counted from 1.
    sources
        (name, first token) of each file that the text was read from, for messages.
    unit
        What ``lines`` counts, for messages: lines of a file, or tokens of lists.

    Examples
    --------
    >>> from fieldfit.chains import parse_columns
    >>> text = parse_columns("the DT\ndog NN\n\nruns VB\n")
    >>> text.n_sentences, text.n_tokens, text.n_columns
    (2, 3, 2)
    >>> text
    <ColumnText: 2 sentences, 3 tokens, 2 columns>
    """

    offsets: IntArray
    codes: tuple[Int32Array, ...]
    values: tuple[tuple[str, ...], ...]
    lines: IntArray
    sources: tuple[tuple[str, int], ...] = (("text", 0),)
    unit: str = "line"

    def __repr__(self) -> str:
        sizes = (counted(self.n_sentences, "sentences"), counted(self.n_tokens, "tokens"))
        return f"<ColumnText: {', '.join(sizes)}, {counted(self.n_columns, 'columns')}>"

    @property
    def n_columns(self) -> int:
        """The number of columns (0 for a text without tokens)."""
        return len(self.codes)

    @property
    def n_sentences(self) -> int:
        """The number of sentences."""
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """The number of tokens."""
        return len(self.lines)

    def column(self, index: int) -> list[str]:
        r"""Return the values of one column, token by token.

        Parameters
        ----------
        index : int
            The column.

        Returns
        -------
        list of str

        Examples
        --------
        >>> from fieldfit.chains import parse_columns
        >>> text = parse_columns("the DT\ndog NN\n\nruns VB\n")
        >>> text.column(0)
        ['the', 'dog', 'runs']
        """
        if self.n_tokens == 0:  # a text without tokens has every column
            return []
        values = self.values[index]
        return [values[code] for code in self.codes[index].tolist()]

    def sentences(self, index: int) -> list[list[str]]:
        r"""Return the values of one column, sentence by sentence.

        Parameters
        ----------
        index : int
            The column.

        Returns
        -------
        list of lists of str

        Examples
        --------
        >>> from fieldfit.chains import parse_columns
        >>> text = parse_columns("the DT\ndog NN\n\nruns VB\n")
        >>> text.sentences(1)
        [['DT', 'NN'], ['VB']]
        """
        flat = self.column(index)
        bounds = self.offsets.tolist()
        return [flat[start:stop] for start, stop in pairwise(bounds)]

    def place(self, token: int) -> str:
        r"""Return the file and the line of a token, for messages.

        Parameters
        ----------
        token : int
            Number of the token in the whole text, counted from 0.

        Returns
        -------
        str

        Examples
        --------
        >>> from fieldfit.chains import parse_columns
        >>> text = parse_columns("the DT\ndog NN\n\nruns VB\n")
        >>> text.place(2)
        'text, line 4'
        """
        name = next(name for name, first in reversed(self.sources) if first <= token)
        return f"{name}, {self.unit} {self.lines[token]}"


def read_columns(
    path: str | os.PathLike[str],
    *,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
) -> ColumnText:
    r"""Read a CoNLL-style file with one token per line and a blank line after each sentence.

    Parameters
    ----------
    path : str or Path
        The file, plain or gzip. All lines must have the same number of columns.
    separator : str or None, default: None
        Text between columns, such as ``"\t"``. None: any run of spaces and tabs.
    comment : str or None, default: None
        Lines that start with this text are ignored. None: no comments, because ``#`` is a word in many corpora.
    encoding : str, default: "utf-8"
        Encoding of the file.

    Returns
    -------
    ColumnText

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import chains
    >>> length = Path("train.txt").write_text("the DT B-NP\ndog NN I-NP\n\nruns VB B-VP\n")
    >>> text = chains.read_columns("train.txt")
    >>> text.n_tokens, text.n_columns
    (3, 3)
    """
    advice = "Divide it with `fieldfit shard FILE --sentences N --out FOLDER`, and give the folder as the data."
    return _parse(read_text(path, encoding, too_large=advice), str(path), separator, comment)


def parse_columns(
    text: str, *, separator: str | None = None, comment: str | None = None, source: str = "text"
) -> ColumnText:
    r"""Read CoNLL-style text that is already in memory.

    Parameters
    ----------
    text : str
        The text.
    separator, comment : str or None, default: None
        As in `read_columns`.
    source : str, default: "text"
        Name of the text in error messages.

    Returns
    -------
    ColumnText

    Examples
    --------
    >>> from fieldfit import chains
    >>> chains.parse_columns("the DT B-NP\ndog NN I-NP\n").n_tokens
    2
    """
    return _parse(text, source, separator, comment)


def _parse(text: str, source: str, separator: str | None, comment: str | None) -> ColumnText:
    for name, mark in (("separator", separator), ("comment", comment)):
        if mark is not None:
            text_of(mark, name)
    if separator == "":
        raise DataError("The separator must not be empty; leave it out for any run of spaces and tabs.")
    content = _utf8(text, source).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    remark = np.zeros(0, dtype=np.int64)
    if comment:
        start = comment.encode("utf-8")
        lines = content.split(b"\n")
        remark = np.flatnonzero([line.startswith(start) for line in lines])
        for line in remark.tolist():
            lines[line] = b""
        content = b"\n".join(lines)
    fields, widths = _split_at_blanks(content) if separator is None else _split_at(content, separator.encode("utf-8"))
    blank = widths == 0
    blank[remark] = False  # a remark inside a sentence does not end it
    tokens = np.flatnonzero(widths)
    if len(tokens) == 0:
        empty = np.zeros(0, dtype=np.int64)
        return ColumnText(np.zeros(1, dtype=np.int64), (), (), empty, ((source, 0),))
    width = int(widths[tokens[0]])
    ragged = tokens[widths[tokens] != width]
    if len(ragged):
        line = int(ragged[0])
        raise DataError(
            f"{source}, line {line + 1}: {widths[line]} columns, but line {tokens[0] + 1} has {width}. "
            f"Every token needs the same number of columns; a blank line ends a sentence."
        )
    sentence = np.cumsum(blank)[tokens]
    starts = np.flatnonzero(np.diff(sentence)) + 1
    offsets = np.concatenate(([0], starts, [len(tokens)])).astype(np.int64)
    factors = [_factorise(fields[column::width]) for column in range(width)]
    return ColumnText(
        offsets=offsets,
        codes=tuple(codes for codes, _ in factors),
        values=tuple(tuple(value.decode("utf-8") for value in values) for _, values in factors),
        lines=tokens + 1,
        sources=((source, 0),),
    )


def _utf8(text: str, source: str) -> bytes:
    if not isinstance(text, str):
        raise DataError(f"{source} must be a string of lines with columns; got {type(text).__name__}.")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise DataError(f"{source}, line {line}: the text has a lone surrogate, which is not a character.") from error


def _split_at_blanks(content: bytes) -> tuple[list[bytes], IntArray]:
    """All fields in order, and the number of fields on each line."""
    # Bytes, not text: bytes.split() knows only the ASCII blanks, so a no-break space stays inside its token.
    # One split of everything, with the lines counted by numpy, takes a third of the time of a split of each line.
    characters = np.frombuffer(content, dtype=np.uint8)
    is_blank = np.zeros(256, dtype=np.bool_)
    is_blank[list(b" \t\n\v\f")] = True
    blank = is_blank[characters]
    opens = ~blank
    opens[1:] &= blank[:-1]
    line_ends = np.flatnonzero(characters == ord("\n"))
    line_of_field = np.searchsorted(line_ends, np.flatnonzero(opens))
    return content.split(), np.bincount(line_of_field, minlength=len(line_ends) + 1)


def _split_at(content: bytes, separator: bytes) -> tuple[list[bytes], IntArray]:
    """All fields in order, and the number of fields on each line, for one exact text between fields."""
    rows = [line.rstrip(b" ").split(separator) if line.strip() else [] for line in content.split(b"\n")]
    return [field for row in rows for field in row], np.array([len(row) for row in rows], dtype=np.int64)


def _factorise(column: Sequence[Text]) -> tuple[Int32Array, tuple[Text, ...]]:
    different = {value: code for code, value in enumerate(dict.fromkeys(column))}
    codes = np.fromiter(map(different.__getitem__, column), dtype=np.int32, count=len(column))
    return codes, tuple(different)


def columns_from_lists(*columns: Sequence[Sequence[str]]) -> ColumnText:
    """The text whose column c holds ``columns[c][sentence][token]``; all columns must have the same shape."""
    if not columns:
        raise DataError("At least one column is needed.")
    lengths = [len(sentence) for sentence in columns[0]]
    factors = []
    for number, column in enumerate(columns):
        column_lengths = [len(sentence) for sentence in column]
        if len(column_lengths) != len(lengths):
            raise DataError(f"Column {number} has {len(column_lengths)} sentences, but column 0 has {len(lengths)}.")
        for index, (here, first) in enumerate(zip(column_lengths, lengths, strict=True)):
            if here != first:
                raise DataError(f"Sentence {index} has {here} tokens in column {number}, but {first} in column 0.")
        factors.append(_factorise([value for sentence in column for value in sentence]))
    return ColumnText(
        offsets=np.cumsum([0, *lengths]),
        codes=tuple(codes for codes, _ in factors),
        values=tuple(values for _, values in factors),
        lines=np.arange(1, sum(lengths) + 1, dtype=np.int64),
        sources=(("the lists", 0),),
        unit="token",
    )


def join_texts(texts: Sequence[ColumnText]) -> ColumnText:
    r"""Join texts, for example the training and test part of a corpus.

    Parameters
    ----------
    texts : sequence of ColumnText
        Texts with the same number of columns.

    Returns
    -------
    ColumnText
        All sentences, with one list of values for each column.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit import chains
    >>> length = Path("part.txt").write_text("the DT B-NP\ndog NN I-NP\n")
    >>> chains.join_texts([chains.read_columns("part.txt")] * 2).n_tokens
    4
    """
    if not is_list(texts):
        raise DataError(f"texts is {texts!r:.80}; it must be a list of ColumnText.")
    for text in texts:
        instance_of(text, ColumnText, "join_texts joins ColumnText")
    filled = [text for text in texts if text.n_tokens]
    if not filled:
        return texts[0] if len(texts) else _parse("", "text", None, None)
    width = filled[0].n_columns
    for text in filled:
        if text.n_columns != width:
            raise DataError(
                f"{text.sources[0][0]} has {text.n_columns} columns, but {filled[0].sources[0][0]} has {width}; "
                f"only texts with the same columns can be joined."
            )
    starts = np.cumsum([0] + [text.n_tokens for text in filled])
    codes: list[Int32Array] = []
    values: list[tuple[str, ...]] = []
    for column in range(width):
        different: dict[str, int] = {}
        parts = []
        for text in filled:
            table = [different.setdefault(value, len(different)) for value in text.values[column]]
            parts.append(np.asarray(table, dtype=np.int32)[text.codes[column]])
        codes.append(np.concatenate(parts))
        values.append(tuple(different))
    offsets = [np.zeros(1, dtype=np.int64)] + [
        text.offsets[1:] + start for text, start in zip(filled, starts[:-1], strict=True)
    ]
    return ColumnText(
        offsets=np.concatenate(offsets),
        codes=tuple(codes),
        values=tuple(values),
        lines=np.concatenate([text.lines for text in filled]),
        sources=tuple(
            (name, first + int(start))
            for text, start in zip(filled, starts[:-1], strict=True)
            for name, first in text.sources
        ),
        unit=filled[0].unit,
    )
