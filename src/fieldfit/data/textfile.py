"""The text of a file, plain or gzipped, with errors that are sentences."""

from __future__ import annotations

import gzip
import os
import zlib

from fieldfit.types import DataError, FileAccessError, FileFormatError


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """The file as text without its byte order mark. Gzip is recognised by its first bytes, not by name."""
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileAccessError(f"{shown} cannot be opened: {reason}. Check the path and its rights.") from error
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise FileFormatError(
                f"{shown} begins like a gzip file but cannot be unpacked ({error}): it is truncated or damaged. "
                "Use an intact copy."
            ) from error
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except LookupError as error:
        raise DataError(f"There is no encoding named {encoding!r}; try 'utf-8' or 'latin-1'.") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        name = {"utf-8": "UTF-8"}.get(encoding, encoding)
        raise FileFormatError(
            f"{shown} is not {name} text: line {line} has the byte 0x{data[error.start]:02x}. Save it as UTF-8, "
            "or name its encoding where the reader takes one."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise FileFormatError(f"{shown} is not a text file: line {line} has a zero byte. Save it as UTF-8 text.")
    return text
