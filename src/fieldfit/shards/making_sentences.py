"""Divide a file of sentences into files: line by line, so that it may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from fieldfit.data.atomic import atomic_folder, atomic_writer
from fieldfit.data.textfile import bytes_read, lines_of, opened_stream
from fieldfit.steps import steps
from fieldfit.types import DataError, FieldfitError

#: The ending of the files that are written.
ENDING = ".conll"


def divide_sentences(path: str | os.PathLike[str], folder: str | os.PathLike[str], sentences: int) -> tuple[int, int]:
    """Write the sentences of a file to files of a new folder, ``sentences`` in each; the numbers of sentences and files.

    A blank line ends a sentence. Lines are copied as they are.
    """
    if sentences < 1:
        raise FieldfitError(f"A file has {sentences} sentences; it must have at least 1.")
    written = files = done = 0
    with (
        opened_stream(path) as stream,
        atomic_folder(folder) as target,
        steps("sentences", os.path.getsize(path), in_megabytes=True) as step,
    ):
        for block, count in _blocks(lines_of(stream, os.fspath(path)), sentences):
            with atomic_writer(target / f"{files:05d}{ENDING}", folder) as out:
                out.write(block)
            written, files = written + count, files + 1
            step(bytes_read(stream) - done)
            done = bytes_read(stream)
        if not files:
            raise DataError(f"{path} has no tokens. Give a file with one token per line.")
    return written, files


def _blocks(given: Iterable[bytes], sentences: int) -> Iterator[tuple[bytes, int]]:
    """The lines of some sentences at a time, and how many they are."""
    lines: list[bytes] = []
    count, inside = 0, False
    for line in given:
        if line.strip():
            lines.append(line if line.endswith(b"\n") else line + b"\n")
            inside = True
        elif inside:
            lines.append(b"\n")
            count, inside = count + 1, False
            if count == sentences:
                yield b"".join(lines), count
                lines, count = [], 0
    if inside:
        lines.append(b"\n")
        count += 1
    if count:
        yield b"".join(lines), count
