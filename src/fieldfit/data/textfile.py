"""The text of a file, packed or not, as UTF-8 bytes: all that can be wrong with a file is said here, once."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

from fieldfit.types import DataError

_GZIP_MAGIC = b"\x1f\x8b"


def read_utf8(path: str | os.PathLike[str], encoding: str = "utf-8") -> bytes:
    """The content of ``path`` as UTF-8 without a byte order mark; unpacked if it is gzip, whatever its name."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    if content.startswith(_GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"{path} is a damaged or truncated gzip file ({error}); fetch it again or unpack it by hand."
            ) from error
    return to_utf8(content, str(path), encoding)


def to_utf8(content: bytes, source: str, encoding: str = "utf-8") -> bytes:
    """``content`` in ``encoding`` as UTF-8 bytes; text that cannot be read in it is refused with its line."""
    try:
        text = content.decode(encoding)
    except LookupError as error:
        raise DataError(f"There is no encoding named {encoding!r}; try 'utf-8' or 'latin-1'.") from error
    except UnicodeDecodeError as error:
        line = len(content[: error.start].splitlines()) or 1
        raise DataError(
            f"{source}, line {line}: the bytes are not {encoding} text ({error.reason}). If the file is text in "
            f"another encoding, name it, for example encoding='latin-1'."
        ) from error
    if "\0" in text:
        line = len(text[: text.index("\0")].splitlines()) or 1
        raise DataError(f"{source}, line {line}: there is a NUL character, so this looks like a binary file.")
    return text.removeprefix("\ufeff").encode("utf-8")
