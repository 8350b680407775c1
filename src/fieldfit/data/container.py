"""The file of a saved fit: a zip archive of one JSON header and plain arrays.

    model.ff = header.json           format name and version, library version, kind, the caller's header, and the
                                     dtype and shape of every array
               arrays/NAME.npy ...   stored, or deflated where that saves space

The same bits come back: dtype, shape, NaN payloads and −0.0. Nothing in a file is ever executed: no pickle, no object
arrays, and not even the `.npy` headers are parsed; they are compared with the ones that `header.json` implies.
A file is trusted only as far as it has been checked: sizes are limited before anything is allocated, and what a
compressed member really holds is counted before memory is reserved for it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from fieldfit import __version__
from fieldfit.arguments import file_path
from fieldfit.data.atomic import atomic_writer
from fieldfit.data.regular import what_instead
from fieldfit.data.textfile import MAX_RATIO, MAX_UNPACKED_BYTES
from fieldfit.types import Array, Arrays, FileAccessError, FileFormatError, Plain

FORMAT_NAME = "fieldfit"
FORMAT_VERSION = 1
MAX_TOTAL_BYTES = 4 * 2**30
MAX_HEADER_BYTES = 8 * 2**20
MAX_HEADER_DEPTH = 64
MAX_ARRAYS = 10_000
MAX_DIMENSIONS = 32

_HEADER_MEMBER = "header.json"
_ARRAY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
#: Bytes that are read or written at a time.
_BYTES_AT_A_TIME = 2**20
# Known by name, so that a dtype written in a file is looked up and never parsed.
_DTYPES: dict[str, np.dtype[np.generic]] = {
    np.dtype(order + code).str: np.dtype(order + code)
    for order in "<>"
    for code in ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
}


# ---------------------------------------------------------------------------------------------------------- writing


def write_container(path: str | os.PathLike[str], header: Plain, arrays: Arrays) -> None:
    """Write `header` (JSON values; must have a text "kind") and `arrays` (numbers or booleans) to `path`, atomically.

    Either the whole new file is in place afterwards, or the old one is untouched: a full disk or Ctrl-C leaves no
    damaged file. Numbers that JSON itself does not know (NaN, ±Infinity) are kept as Python's json writes them.
    """
    if not isinstance(header.get("kind"), str):
        raise FileFormatError(
            f"The header of {path} has no text under 'kind': say what the file contains, for example kind='fit'."
        )
    _check_storable(header, "header", 1)
    if len(arrays) > MAX_ARRAYS:
        raise FileFormatError(f"{len(arrays)} arrays are too many for one file: at most {MAX_ARRAYS}.")
    stored = {name: _storable_array(name, array) for name, array in arrays.items()}
    document = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "arrays": {name: {"dtype": a.dtype.str, "shape": list(a.shape)} for name, a in stored.items()},
        "content": header,
    }
    try:
        text = json.dumps(document, indent=1).encode("ascii")
    except ValueError as error:  # an integer with thousands of digits
        raise FileFormatError(f"The header of {path} cannot be written as JSON: {error}.") from error
    if len(text) > MAX_HEADER_BYTES:
        raise FileFormatError(
            f"The header of {path} takes {len(text)} bytes, and the limit is {MAX_HEADER_BYTES}: "
            "store long lists of numbers as arrays."
        )
    with atomic_writer(path) as file, _new_archive(file) as archive:
        _write_member(archive, _HEADER_MEMBER, zipfile.ZIP_DEFLATED, [memoryview(text)])
        for name, array in stored.items():
            # Codes and indices shrink a lot; the digits of floating-point numbers hardly do.
            deflate = array.dtype.kind in "biu" and array.nbytes > 4096
            data = array.reshape(-1).view(np.uint8).data
            preamble = memoryview(_npy_preamble(array.dtype, array.shape))
            method = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
            _write_member(archive, f"arrays/{name}.npy", method, [preamble, data])


def _check_storable(value: object, where: str, depth: int) -> None:
    """Refuse what JSON would change or could not hold: other types, keys that are not text, deep nesting."""
    if depth > MAX_HEADER_DEPTH - 2:
        raise FileFormatError(f"{where[:80]}… is nested more than {MAX_HEADER_DEPTH - 2} levels deep.")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise FileFormatError(f"{where} has the key {key!r:.80}: keys in a saved file must be text.")
            _check_storable(item, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            _check_storable(item, f"{where}[{position}]", depth + 1)
    elif value is not None and not isinstance(value, str | int | float):
        raise FileFormatError(
            f"{where} is a {type(value).__name__}, which a saved file cannot contain: "
            "use numbers, text, True, False, None, lists and dicts, or store it as an array."
        )


def _storable_array(name: str, array: Array) -> Array:
    if not isinstance(name, str) or not _ARRAY_NAME.fullmatch(name):
        raise FileFormatError(
            f"{name!r:.80} cannot name an array in a file: use up to 100 letters, digits, '_', '-' and '.', "
            "and do not begin with '-' or '.'."
        )
    array = np.asarray(array, order="C")
    if array.dtype.str not in _DTYPES or array.dtype.fields is not None:
        raise FileFormatError(
            f"The array {name!r:.80} has dtype {array.dtype}, which a saved file cannot contain: "
            "convert it to booleans, integers or floating-point numbers of at most 64 bits."
        )
    if array.ndim > MAX_DIMENSIONS:
        raise FileFormatError(f"The array {name!r:.80} has {array.ndim} dimensions: at most {MAX_DIMENSIONS}.")
    return array


@contextlib.contextmanager
def _new_archive(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """An archive that is finished only if all went well: after Ctrl-C inside a member it cannot be, and is dropped."""
    archive = zipfile.ZipFile(file, "w", compresslevel=1)
    try:
        yield archive
        archive.close()
    except BaseException:
        archive.fp = None  # nothing to finish, now or when it is collected
        raise


def _write_member(archive: zipfile.ZipFile, name: str, method: int, parts: list[memoryview]) -> None:
    archive.compression = method
    large = sum(part.nbytes for part in parts) > 2**30  # the 64-bit form, before a deflated size is known
    # By name, not by ZipInfo: that has no public compression level. Either way the date is 1 January 1980, so that
    # equal fits make equal files.
    with archive.open(name, "w", force_zip64=large) as file:
        for part in parts:
            for start in range(0, part.nbytes, _BYTES_AT_A_TIME):
                file.write(part[start : start + _BYTES_AT_A_TIME])


def _npy_preamble(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """The bytes that open an `.npy` file (version 1.0) with this dtype and shape, padded to a multiple of 64.

    Written here and not by NumPy, whose padding differs between versions: a reader can then compare instead of parse.
    """
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    padding = -(10 + len(text) + 1) % 64
    body = (text + " " * padding + "\n").encode("ascii")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


# ---------------------------------------------------------------------------------------------------------- reading


def read_container(
    path: str | os.PathLike[str], *, kind: str | None = None, max_bytes: int = MAX_TOTAL_BYTES
) -> tuple[Plain, Arrays]:
    """The header and the arrays that `write_container` was given (tuples of the header come back as lists).

    With `kind`, a file of another kind is refused. At most about `max_bytes` of memory is used, also if the
    file declares a smaller size.
    """
    if not isinstance(path, str | os.PathLike):
        raise FileFormatError(
            f"The file to read is of type {type(path).__name__}; give its path, such as 'model.ff', as text or a Path."
        )
    return _Reader(Path(file_path(path)), max_bytes, kind).read(kind)


class _Reader:
    """Checks from the outside in: file, directory of the archive, header, then one array after the other."""

    def __init__(self, path: Path, max_bytes: int, kind: str | None = None) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.kind = kind  # of the file that is wanted

    def fail(self, problem: str, advice: str | None = None) -> NoReturn:
        if advice is None:
            again = "start again without it" if self.kind == "checkpoint" else "fit and save again"
            advice = f"Use an intact copy, or {again}."
        raise FileFormatError(f"{self.path} cannot be read as a saved fieldfit file: {problem}. {advice}")

    def read(self, kind: str | None) -> tuple[Plain, Arrays]:
        try:
            if what_instead(os.stat(self.path)) is not None:
                self.fail("it is not a regular file", "Give the path of a file that was saved by fieldfit.")
            with open(self.path, "rb") as file:
                # A checkpoint may have been replaced in the meantime: the size is that of the open file.
                return self.read_archive(file, os.fstat(file.fileno()).st_size, kind)
        except FileFormatError:
            raise
        except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
            reason = getattr(error, "strerror", None) or str(error)
            raise FileAccessError(
                f"{self.path} cannot be opened: {reason}. Check the path and its permissions."
            ) from error

    def read_archive(self, file: IO[bytes], size: int, kind: str | None) -> tuple[Plain, Arrays]:
        self.check_directory(file, size)
        try:
            with zipfile.ZipFile(file) as archive:
                members = self.check_members(archive.infolist(), size)
                document = self.read_header(archive, members)
                content, declared = self.check_document(document, kind)
                expected = {_HEADER_MEMBER} | {f"arrays/{name}.npy" for name in declared}
                if missing := sorted(expected - members.keys()):
                    self.fail(f"its header declares {missing[0]!r}, which is not in the archive")
                if unknown := sorted(members.keys() - expected):
                    self.fail(f"it has the member {unknown[0][:100]!r}, which its header does not declare")
                arrays = {
                    name: self.read_array(archive, members[f"arrays/{name}.npy"], *declaration)
                    for name, declaration in declared.items()
                }
        except FileFormatError:
            raise
        except MemoryError as error:
            raise FileFormatError(
                f"{self.path} does not fit into memory: its arrays take up to {self.max_bytes} bytes. "
                "Use a machine with more memory, or a smaller max_bytes to refuse such files."
            ) from error
        # What zipfile raises on archives that are not well formed, besides its own BadZipFile: bad deflate streams,
        # early ends, unknown methods, encryption, names that are not text, seeks to places that do not exist.
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OverflowError) as error:
            self.fail(f"the archive is damaged ({str(error)[:200] or type(error).__name__})")
        except (struct.error, LookupError, OSError) as error:
            self.fail(f"the archive is damaged ({str(error)[:200] or type(error).__name__})")
        return content, arrays

    def check_directory(self, file: IO[bytes], size: int) -> None:
        """Bound the archive's directory before zipfile reads it: a false one could take gigabytes of objects."""
        if size < 22:
            self.fail(f"it has {size} bytes, fewer than an empty archive")
        file.seek(0)
        if file.read(4) != b"PK\x03\x04":
            self.fail("it does not begin like a zip archive", "Give the path of a file that was saved by fieldfit.")
        file.seek(size - 22)
        end = file.read(22)
        if end[:4] != b"PK\x05\x06":
            self.fail("the end of the archive is missing, so the file is probably truncated")
        counts = struct.unpack("<4HLLH", end[4:])
        entries, directory_bytes = counts[3], counts[4]
        # Large archives have a second, 64-bit end record that zipfile prefers. It must not say something else.
        tail = min(size, 22 + 20 + 56)
        file.seek(size - tail)
        record = file.read(tail)
        if record[-42:-38] == b"PK\x06\x07":
            if len(record) < 98 or record[:4] != b"PK\x06\x06":
                self.fail("its 64-bit end record is damaged")
            if struct.unpack("<QQ", record[32:48]) != (entries, directory_bytes):
                self.fail("its two end records contradict each other")
        if entries > MAX_ARRAYS + 1 or directory_bytes > 256 * (MAX_ARRAYS + 1):
            self.fail(f"its directory has {entries} members in {directory_bytes} bytes, more than any saved fit")

    def check_members(self, infos: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        total = packed = unpacked = 0
        for info in infos:
            name = info.orig_filename
            shown = repr(name[:100])
            if name != _HEADER_MEMBER and not (
                name == info.filename
                and name.startswith("arrays/")
                and name.endswith(".npy")
                and _ARRAY_NAME.fullmatch(name[7:-4])
            ):
                self.fail(f"it has the member {shown}, which no saved fit has")
            if name in members:
                self.fail(f"it has the member {shown} twice")
            if info.flag_bits & 1:
                self.fail(f"its member {shown} is encrypted")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                self.fail(f"its member {shown} is compressed by method {info.compress_type}, not stored or deflated")
            if info.compress_size > size or (
                info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size
            ):
                self.fail(f"the size of its member {shown} is false")
            total += info.file_size
            if info.compress_type == zipfile.ZIP_DEFLATED:
                packed += info.compress_size
                unpacked += info.file_size
            members[name] = info
        if total > self.max_bytes:
            self.fail(
                f"it unpacks to {total} bytes, more than the limit of {self.max_bytes}",
                "If you trust the file, read it with a larger max_bytes.",
            )
        if unpacked > max(MAX_UNPACKED_BYTES, MAX_RATIO * packed):
            self.fail(f"its {packed} compressed bytes unpack to {unpacked}, far more than those of any saved fit")
        if _HEADER_MEMBER not in members:
            self.fail("it has no header.json", "Give the path of a file that was saved by fieldfit.")
        return members

    def read_header(self, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> Plain:
        info = members[_HEADER_MEMBER]
        if info.file_size > MAX_HEADER_BYTES:
            self.fail(f"its header has {info.file_size} bytes, more than the limit of {MAX_HEADER_BYTES}")
        with archive.open(info) as file:
            text = file.read(MAX_HEADER_BYTES + 1)
        if len(text) != info.file_size:
            self.fail("its header is shorter than the archive says")
        if _json_depth(text) > MAX_HEADER_DEPTH:
            self.fail(f"its header is nested more than {MAX_HEADER_DEPTH} levels deep")
        try:
            document = json.loads(text.decode("utf-8"), object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as error:
            self.fail(f"its header is not valid JSON ({str(error)[:200]})")
        if not isinstance(document, dict) or document.get("format") != FORMAT_NAME:
            self.fail("its header does not say that it is one", "Give the path of a file that was saved by fieldfit.")
        return document

    def check_document(
        self, document: Plain, kind: str | None
    ) -> tuple[Plain, dict[str, tuple[np.dtype[np.generic], tuple[int, ...]]]]:
        version = document.get("format_version")
        if type(version) is not int or version < 1:
            self.fail("its header has no format version")
        if version > FORMAT_VERSION:
            written_by = str(document.get("library_version"))[:40]
            self.fail(
                f"it has format version {version}, written by fieldfit {written_by}, "
                f"and this fieldfit reads versions up to {FORMAT_VERSION}",
                "Upgrade fieldfit.",
            )
        content, declarations = document.get("content"), document.get("arrays")
        if not isinstance(content, dict) or not isinstance(declarations, dict):
            self.fail("its header lacks 'content' or 'arrays'")
        stored_kind = content.get("kind")
        if not isinstance(stored_kind, str):
            self.fail("its header does not say what kind of file it is")
        if kind is not None and stored_kind != kind:
            self.fail(f"it contains a {stored_kind[:40]!r}, not a {kind!r}", f"Give the path of a saved {kind}.")
        return content, {name: self.check_declaration(name, d) for name, d in declarations.items()}

    def check_declaration(self, name: str, declaration: object) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
        shown = repr(name[:100])
        if not _ARRAY_NAME.fullmatch(name) or not isinstance(declaration, dict):
            self.fail(f"its header declares the array {shown} in a way that no saved fit does")
        code, shape = declaration.get("dtype"), declaration.get("shape")
        if not isinstance(code, str) or code not in _DTYPES:
            self.fail(f"its array {shown} has the dtype {str(code)[:40]!r}, which is not a plain number")
        if (
            not isinstance(shape, list)
            or len(shape) > MAX_DIMENSIONS
            or any(type(length) is not int or not 0 <= length < 2**62 for length in shape)
            # NumPy also needs the product without the empty axes to be an address.
            or math.prod(max(length, 1) for length in shape) * _DTYPES[code].itemsize >= 2**62
        ):
            self.fail(f"its array {shown} has the shape {str(shape)[:80]}, which is not a shape")
        return _DTYPES[code], tuple(shape)

    def read_array(
        self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, dtype: np.dtype[np.generic], shape: tuple[int, ...]
    ) -> Array:
        preamble = _npy_preamble(dtype, shape)
        n_bytes = math.prod(shape) * dtype.itemsize
        if info.file_size != len(preamble) + n_bytes:
            self.fail(f"its member {info.filename!r} has {info.file_size} bytes and is not {_declared(dtype, shape)}")
        if info.compress_type == zipfile.ZIP_DEFLATED and info.file_size > _BYTES_AT_A_TIME:
            # Count what is really there (and check the CRC) before memory is taken for it.
            with archive.open(info) as file:
                real = sum(len(chunk) for chunk in iter(lambda: file.read(_BYTES_AT_A_TIME), b""))
            if real != info.file_size:
                self.fail(f"its member {info.filename!r} unpacks to {real} bytes, not to {info.file_size}")
        with archive.open(info) as file:
            # One byte more than declared: the read that makes zipfile compare the CRC.
            chunk = file.read(len(preamble) + min(_BYTES_AT_A_TIME, n_bytes) + 1)
            if not chunk.startswith(preamble):
                self.fail(f"its member {info.filename!r} is not {_declared(dtype, shape)}")
            array = np.empty(shape, dtype)
            target = array.reshape(-1).view(np.uint8).data
            filled, chunk = 0, chunk[len(preamble) :]
            while chunk:
                if len(chunk) > n_bytes - filled:
                    self.fail(f"its member {info.filename!r} is longer than declared")
                target[filled : filled + len(chunk)] = chunk
                filled += len(chunk)
                chunk = file.read(_BYTES_AT_A_TIME)
        if filled < n_bytes:
            self.fail(f"its member {info.filename!r} ends after {filled} of {n_bytes} bytes")
        return array


def _declared(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> str:
    return f"{dtype.name} of shape {shape}, as its header declares"


def _json_depth(text: bytes) -> int:
    """The deepest nesting of brackets outside strings: known before the recursive parser sees them."""
    symbols = np.frombuffer(_JSON_STRING.sub(b"", text), dtype=np.uint8)
    opened = ((symbols == ord("[")) | (symbols == ord("{"))).astype(np.int32)
    closed = ((symbols == ord("]")) | (symbols == ord("}"))).astype(np.int32)
    return int(np.cumsum(opened - closed).max(initial=0))


def _unique_keys(pairs: list[tuple[str, object]]) -> Plain:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is given twice")
    return result
