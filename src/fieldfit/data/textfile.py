"""The text of a file, plain or gzipped, with errors that are sentences."""

from __future__ import annotations

import codecs
import contextlib
import glob
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from typing import IO, cast

from fieldfit.arguments import file_path
from fieldfit.data.memory import beyond_memory
from fieldfit.types import DataError, FileAccessError, FileFormatError
from fieldfit.words import counted

#: A compressed file, or the compressed arrays in a file, may unpack to this many bytes, and to more only up to
#: `MAX_RATIO` times the compressed size. Text seldom shrinks by more than a factor of 100; files made to fill the memory
#: shrink by a factor of 1,000.
MAX_UNPACKED_BYTES = 256 * 2**20
MAX_RATIO = 200
#: Bytes that are unpacked at a time, and bytes that are read from a pipe at a time.
_BYTES_AT_A_TIME, _PIPED_AT_A_TIME = 2**20, 2**24
#: Files that are often given in place of text: how they begin, what they are and what to do.
_FORMATS = {
    b"\x93NUMPY": "an array of NumPy: load it with numpy.load in Python, or save it with numpy.savetxt",
    b"PK\x03\x04": "an archive, such as an Excel workbook, an .npz file of NumPy or a saved fit: save a table as CSV",
    b"PAR1": "a Parquet file: load it with pandas.read_parquet in Python, or save it as CSV",
    b"\x89HDF": "an HDF5 file (also MATLAB's): save the table as CSV",
    b"MATLAB": "a MATLAB file: load it with scipy.io.loadmat in Python, or save the table as CSV",
}
#: Bytes of the longest line of a file that is read line by line.
MAX_LINE_BYTES = 64 * 2**20


def read_bytes(path: str | os.PathLike[str], too_large: str = "Give a smaller file.") -> bytes:
    """A whole file or what comes through a pipe; OSError where there is none.

    FileAccessError for a device, and for a file that does not fit into memory; ``too_large`` says what to do then. A pipe,
    which may have no end, is read up to the same size.
    """
    shown = file_path(path)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) and not file.isatty():
            raise FileAccessError(f"{shown} is a device, which may have no end. Give a file.")
        if stat.S_ISREG(status.st_mode):
            _refuse_large(f"{shown} has {status.st_size:,} bytes", status.st_size, too_large)
            return file.read()
        content, size = io.BytesIO(), 0
        while chunk := file.read(_PIPED_AT_A_TIME):
            size += content.write(chunk)
            _refuse_large(f"{shown} has at least {size:,} bytes", size, too_large)
        return content.getvalue()


def _refuse_large(what: str, size: int, too_large: str) -> None:
    """Refuse bytes that do not fit into memory twice: as they are in the file, and as text or numbers."""
    if needed := beyond_memory(2 * size):
        raise FileAccessError(f"{what}. Reading it takes {needed}. {too_large}")


def read_text(
    path: str | os.PathLike[str], encoding: str = "utf-8", *, too_large: str = "Give a smaller file."
) -> str:
    """The file as text without its byte order mark. Gzip is recognised by its first bytes, not by name."""
    shown, encoding = file_path(path), checked_encoding(encoding)
    try:
        data: bytes | bytearray = read_bytes(path, too_large)
    except FileAccessError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise unopened(shown, "opened", error) from error
    if data[:2] == b"\x1f\x8b":
        try:
            data = _unpacked(bytes(data), shown, too_large)
        except FileAccessError:
            raise
        except (OSError, EOFError, zlib.error) as error:
            raise FileFormatError(
                f"{shown} begins like a gzip file but cannot be unpacked ({error}): it is truncated or damaged. "
                "Use an intact copy."
            ) from error
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        name = {"utf-8": "UTF-8"}.get(encoding, encoding)
        raise FileFormatError(
            f"{shown} is not {name} text: line {line} has the byte 0x{data[error.start]:02x}. {_how_to_convert(data)}"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise FileFormatError(f"{shown} is not a text file: line {line} has a zero byte. {_how_to_convert(data)}")
    return text


def checked_encoding(encoding: object) -> str:
    """The name of an encoding of texts."""
    try:
        if isinstance(encoding, str) and " ".encode(encoding) is not None:
            return encoding
    except (LookupError, ValueError):  # ValueError: a name with a zero byte, or one that is no Unicode text
        pass
    raise DataError(f"There is no encoding named {encoding!r:.80}; try 'utf-8' or 'latin-1'.")


def _how_to_convert(data: bytes | bytearray) -> str:
    """What to do with a file that is not text in UTF-8, by its first bytes."""
    for start, contents in _FORMATS.items():
        if data.startswith(start):
            return f"It is {contents}."
    encoding = "UTF-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "WINDOWS-1252"
    return f"Save it as UTF-8 (in Excel: CSV UTF-8), or convert it: iconv -f {encoding} -t UTF-8 OLD > NEW."


def _unpacked(data: bytes, shown: str, too_large: str) -> bytearray:
    """The contents of a gzip file, refused if they are far larger than the file or than the memory.

    The bytes are counted before any are kept: a file that is refused takes no memory.
    """
    most = max(MAX_UNPACKED_BYTES, MAX_RATIO * len(data))
    size = 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while chunk := file.read(_BYTES_AT_A_TIME):
            size += len(chunk)
            if size > most:
                raise FileFormatError(
                    f"{shown} has {len(data):,} bytes and unpacks to more than {most:,}. If you trust the file, unpack "
                    "it yourself (gunzip) and give the unpacked file."
                )
    _refuse_large(f"{shown} unpacks to {size:,} bytes", size, too_large)
    content = bytearray(size)
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        place = 0
        while place < size:
            place += file.readinto(memoryview(content)[place : place + _BYTES_AT_A_TIME])
    return content


@contextlib.contextmanager
def opened_stream(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """The bytes of a file that may be larger than memory, unpacked where it begins like gzip."""
    shown = file_path(path)
    try:
        with open(path, "rb") as file:
            if file.read(2) == b"\x1f\x8b":
                file.seek(0)
                with gzip.GzipFile(fileobj=file) as packed:
                    yield cast(IO[bytes], packed)
            else:
                file.seek(0)
                yield file
    except (zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise FileFormatError(
            f"{shown} begins like a gzip file but cannot be unpacked ({error}): it is truncated or damaged. "
            "Use an intact copy."
        ) from error
    except FileAccessError:
        raise
    except OSError as error:
        raise unopened(shown, "read", error) from error


def bytes_read(stream: IO[bytes]) -> int:
    """How many bytes of the file of `opened_stream` have been read; packed ones where it is packed."""
    return int(getattr(stream, "fileobj", stream).tell())


def unopened(shown: str, verb: str, error: OSError | ValueError) -> FileAccessError:
    """The error of a file that cannot be opened, or of a pattern or folder where one file is needed."""
    if isinstance(error, FileNotFoundError) and glob.has_magic(shown):
        count = len(glob.glob(shown))
        matches = "no file matches it" if count == 0 else f"it matches {counted(count, 'files')}"
        return FileAccessError(
            f"{shown} is a pattern, where one file is needed ({matches}). Patterns are for the data of fits, plans and "
            "`fieldfit shard`; otherwise put the rows into one file first."
        )
    if isinstance(error, IsADirectoryError):
        return FileAccessError(
            f"{shown} cannot be {verb} because it is a folder. Give a file. Folders of shards are for the data of fits and "
            "plans."
        )
    reason = getattr(error, "strerror", None) or str(error)
    return FileAccessError(f"{shown} cannot be {verb}: {reason}. Check the path and its permissions.")


def lines_of(stream: IO[bytes], shown: str) -> Iterator[bytes]:
    """The lines of a stream with their ends; a line that is longer than any of a text file is refused."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES:
            raise FileFormatError(
                f"Line {number} of {shown} has more than {MAX_LINE_BYTES:,} bytes. Give a file with one sample or token "
                "per line."
            )
        yield line
