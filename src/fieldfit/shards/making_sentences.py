"""Divide a file of sentences into files: line by line, so that it may be larger than memory."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fieldfit.data.atomic import atomic_writer
from fieldfit.types import DataError, FieldfitError, FileAccessError

#: The ending of the files that are written.
ENDING = ".conll"


def divide_sentences(path: str | os.PathLike[str], folder: str | os.PathLike[str], sentences: int) -> tuple[int, int]:
    """Write the sentences of a file to files of a new folder, ``sentences`` in each; the numbers of sentences and files.

    A blank line ends a sentence. Lines are copied as they are.
    """
    if sentences < 1:
        raise FieldfitError(f"A file has {sentences} sentences; it must have at least 1.")
    target = Path(folder)
    written = files = 0
    try:
        with _opened(path) as file:
            for block, count in _blocks(file, sentences):
                if not files:
                    _make(target)
                with atomic_writer(target / f"{files:05d}{ENDING}") as out:
                    out.write(block)
                written, files = written + count, files + 1
    except (OSError, EOFError) as error:
        if isinstance(error, FieldfitError):
            raise
        raise FileAccessError(f"{path} cannot be read ({error}). Check the path and the file.") from error
    if not files:
        raise DataError(f"{path} has no tokens. Give a file with one token per line.")
    return written, files


def _opened(path: str | os.PathLike[str]) -> IO[bytes]:
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else open(path, "rb")  # type: ignore[return-value]


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileAccessError(f"The folder {folder} is not empty. Give the name of a new folder.")


def _blocks(file: IO[bytes], sentences: int) -> Iterator[tuple[bytes, int]]:
    """The lines of some sentences at a time, and how many they are."""
    lines: list[bytes] = []
    count, inside = 0, False
    for line in file:
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
